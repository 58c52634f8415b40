"""Read `[tool.torchmigrate]` from a TOML file, and settle the settings of one run: the command line's are on top.

Errors name the file and the line of the key.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchmigrate.base import file_io, limits, system
from torchmigrate.base.text import UserError, did_you_mean
from torchmigrate.config.settings import Runtime, Settings, Style
from torchmigrate.rules import packs
from torchmigrate.rules.model import PackError

if TYPE_CHECKING:
    from torchmigrate.rules.model import Ruleset


TABLE = ("tool", "torchmigrate")
# limits of a configuration file: bytes, which take one or two seconds to read, and seconds of processor time
LARGEST, SECONDS = 2_000_000, 10
Places = Callable[[Sequence[str]], str]


def common_parent(paths: Sequence[Path]) -> Path:
    """Return the deepest directory that contains all paths, symlinks resolved; on two drives, the first path's."""
    real = [os.path.realpath(path) for path in paths or [Path()]]
    directories = [path if os.path.isdir(path) else os.path.dirname(path) for path in real]
    try:
        return Path(os.path.commonpath(directories))
    except ValueError:  # paths on two drives
        return Path(directories[0])


def find(start: Path) -> Path | None:
    """Return the nearest pyproject.toml in `start` or above it, or None."""
    return next((p for d in (start, *start.parents) if (p := d / "pyproject.toml").is_file()), None)


def source(paths: Sequence[Path], config: Path | None = None, isolated: bool = False) -> tuple[Path, Path | None]:
    """Return the nearest pyproject.toml's directory, and the file to use, or None; raises UserError."""
    start = common_parent(paths)
    nearest = find(start)
    root = nearest.parent if nearest else start
    if config is not None and isolated:
        raise UserError("--config names a file, and --isolated means none", "leave one of them out")
    if config is not None and not config.is_file():
        what = "is a folder, no file" if config.is_dir() else "no such configuration file"
        raise UserError(f"{config}: {what}", "--config wants a TOML file")
    return root, None if isolated else config or nearest


def load(paths: Sequence[Path], config: Path | None = None, isolated: bool = False, **flags: object) -> Settings:
    """Return the settings for these paths, overridden by `flags` that are not None; raises UserError."""
    root, file = source(paths, config, isolated)
    values = read(file, config is not None) if file else {}
    settings = replace(Settings(root=root), **values)
    return override(settings, **flags)


def override(settings: Settings, **flags: object) -> Settings:
    """Return the settings with validated command-line values; raises UserError, which names the option."""
    given: dict[str, Any] = {name: value for name, value in flags.items() if value is not None}
    if not given:
        return settings
    from torchmigrate.config.keys import KEYS, check

    for name, value in given.items():
        if (key := name.replace("_", "-")) in KEYS:
            try:
                given[name] = check(key, list(value) if isinstance(value, tuple) else value)
            except ValueError as error:
                what, *help = error.args
                raise UserError(f"--{key} {what}", *(help or ["see `torchmigrate check --help`"])) from None
    return replace(settings, **given)


def read(file: Path, chosen: bool = False) -> dict[str, Any]:
    """Return the validated values of one configuration file, by field name; raises UserError.

    `[tool.torchmigrate]` of a pyproject.toml must exist if the user has `chosen` the file (`--config`).
    """
    text, data = _parse(file)
    if file.name == "pyproject.toml" or "tool" in data:
        tool = data.get("tool", {})
        data = tool.get("torchmigrate") if isinstance(tool, dict) else None
        if data is None and chosen:
            raise UserError(f"{file}: there is no [tool.torchmigrate] in it", "--config wants a file with settings")
    return _check_values({} if data is None else data, file, text)


def _parse(file: Path) -> tuple[str, Any]:
    """Return a configuration file's text and data. Raises UserError."""
    import tomllib

    without = "mend it, or pass --isolated to do without it"
    text = ""
    try:
        raw = file_io.read(file, LARGEST)
        text = io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8-sig").read()
        with limits.bounded(SECONDS):
            return text, tomllib.loads(text)
    except file_io.TooLarge as error:
        raise UserError(f"{file}: {error.strerror}, so it was not read", without) from None
    except OSError as error:
        raise UserError(f"{file}: {(error.strerror or str(error)).lower()}", without) from None
    except UnicodeDecodeError as error:
        byte = f"byte {error.object[error.start]:#04x} is not UTF-8"
        raise UserError(f"{file}: {byte}", "save it as UTF-8, or pass --isolated to do without it") from None
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        at = line[1] if line else text.rstrip().count("\n") + 1
        raise UserError(f"{file}:{at}: not valid TOML: {error}", without) from None
    except RecursionError:
        raise UserError(f"{file}: nested too deeply to be read", without) from None
    except limits.TooSlow:
        raise UserError(f"{file}: takes more than {SECONDS} seconds to read, so it was not read", without) from None
    except ValueError:
        raise UserError(
            f"{file}: it has a number of thousands of digits, which Python does not read", without
        ) from None


def _check_values(data: object, file: Path, text: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        what = f"{place(file, (), text)}: `torchmigrate` in `tool` must be a table"
        raise UserError(what, "write [tool.torchmigrate] above its keys")
    if not data:
        return {}
    from torchmigrate.config.keys import KEYS, check  # a file without settings needs none

    values = {}
    for key, value in data.items():
        if key not in KEYS:
            raise UserError(f"{place(file, (key,), text)}: unknown key `{key}`", _hint_for_key(key, value))
        try:
            values[key.replace("-", "_")] = check(key, value)
        except ValueError as error:
            what, *help = error.args
            example = f"write {key} = {toml(KEYS[key].examples[0])}"
            raise UserError(f"{place(file, (key,), text)}: `{key}` {what}", *(help or [example])) from None
    if "rule_paths" in values:
        values["rule_paths"] = tuple(file.parent / path for path in values["rule_paths"])
    return values


def _hint_for_key(key: str, value: object) -> str:
    from torchmigrate.config.keys import KEYS

    if key == "torchmigrate" and isinstance(value, dict):
        return "in a file of its own, the settings stand at the top, in no table"
    return did_you_mean(key.replace("_", "-"), KEYS) or "known: " + ", ".join(KEYS)


def toml(value: object) -> str:
    """Return a value as TOML text."""
    import json

    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(str(key))} = {toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def has_settings(file: Path) -> bool:
    """Return whether a pyproject.toml has the table `[tool.torchmigrate]`; an unreadable file has none."""
    try:
        return "tool.torchmigrate" in tables(file)
    except UserError:
        return False


def tables(file: Path) -> list[str]:
    """Return the names of a file's top-level tables, and of those in `tool` (`tool.ruff`); raises UserError."""
    data = _parse(file)[1]
    tool = data.get("tool")
    return [*data, *(f"tool.{name}" for name in tool)] if isinstance(tool, dict) else [*data]


def places(file: Path, text: str | None = None) -> Places:
    """Return a function that gives `file:line` for a key's path, such as (`per-file-ignores`, `tests/*`).

    For a missing key, that is the closest table or key above it. Raises UserError if the file cannot be read.
    """
    found = lines(_parse(file)[0] if text is None else text)
    above = TABLE if ("tool",) in found or file.name == "pyproject.toml" else ()

    def at(keys: Sequence[str]) -> str:
        wanted = (*above, *keys)
        return f"{file}:{next((found[w] for n in range(len(wanted), 0, -1) if (w := wanted[:n]) in found), 1)}"

    return at


def place(file: Path, keys: Sequence[str] = (), text: str | None = None) -> str:
    """Return `file:line` of one key."""
    return places(file, text)(keys)


_DEEPEST = 10  # levels of keys whose lines are found; settings have four
_MOST = 2_000_000  # characters to parse, counting a value of many lines once per line; keys beyond that get line 1

Keys = tuple[str, ...]


def lines(text: str) -> Mapping[Keys, int]:
    """Return the first line (1-based) of each table and key by its full path; `text` must be valid TOML."""
    found: dict[Keys, int] = {}
    table: Keys = ()
    for number, data, is_header in _statements(text):
        for path in _paths(data):
            found.setdefault(path if is_header else table + path, number)
        if is_header:
            table = max(_paths(data), key=len)
    return found


def _statements(text: str) -> Iterator[tuple[int, dict[str, Any], bool]]:
    """Yield (line, data, whether it is a header) of each header and each `key = value`, which may span lines."""
    import tomllib

    start, held, spent = 0, "", 0
    for number, line in enumerate(text.split("\n"), 1):
        if not held:
            start = number
        held += line + "\n"
        if number > start and line.rstrip().endswith(",") and "#" not in line:
            continue  # within a list, which does not end here
        spent += len(held)
        if spent > _MOST:
            return
        try:
            data = tomllib.loads(held)
        except (tomllib.TOMLDecodeError, RecursionError):
            continue
        if data:
            yield start, data, held.lstrip().startswith("[")
        held = ""


def _paths(data: Mapping[str, Any], above: Keys = ()) -> Iterator[Keys]:
    for key, value in data.items():
        yield (*above, key)
        if isinstance(value, list) and value:
            value = value[-1]
        if isinstance(value, dict) and len(above) < _DEEPEST:
            yield from _paths(value, (*above, key))


def settings_for(
    paths: Sequence[Path],
    *,
    select: Sequence[str] | None,
    ignore: Sequence[str] | None,
    exclude: Sequence[str] | None,
    torch: str | None,
    backends: Sequence[str] | None,
    config: Path | None,
    isolated: bool,
    no_cache: bool = False,
    unsafe_fixes: bool | None = None,
    runtime: Runtime | None = None,
    style: Style | None = None,
) -> Settings:
    """Return the file's settings, overridden by the command line's; raises UserError, also for unknown rules."""
    given = flags(select, ignore, torch, backends, unsafe_fixes, runtime, style)
    settings = load(paths, config, isolated, **given)
    extra = tuple(excluding(_from_root(system.slashed(glob), settings.root)) for glob in exclude or ())
    settings = replace(settings, extend_exclude=settings.extend_exclude + extra, no_cache=no_cache)
    file = source(paths, config, isolated)[1]
    with pack_errors():
        check_folders(settings, file)
        check_names(settings, file, {"select": select, "ignore": ignore})
    return settings


def flags(
    select: Sequence[str] | None,
    ignore: Sequence[str] | None,
    torch: str | None,
    backends: Sequence[str] | None,
    unsafe_fixes: bool | None,
    runtime: Runtime | None,
    style: Style | None,
) -> dict[str, Any]:
    """Return the options that override the file's settings, by field name; None means not given."""
    names = {"select": split_names(select), "ignore": split_names(ignore), "backends": split_names(backends)}
    chosen = {"runtime": runtime.value if runtime else None, "style": style.value if style else None}
    return {**names, **chosen, "torch": torch, "unsafe_fixes": unsafe_fixes}


@contextmanager
def pack_errors() -> Iterator[None]:
    """Turn the error of a rule file into a UserError."""
    try:
        yield
    except PackError as error:
        message, _, help = str(error).partition("\nhelp: ")
        raise UserError(message, help) from None


def cores() -> int:
    """Return the number of processes to use if the user does not say how many."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def split_names(values: Sequence[str] | None) -> tuple[str, ...] | None:
    """Split `--select a,b --select c` to its names; None if the option is not given."""
    if not values:
        return None
    return tuple(name.strip() for value in values for name in value.split(",") if name.strip())


def excluding(glob: str) -> str:
    """Return a glob of `--exclude` unchanged; raises UserError if it can exclude nothing."""
    from torchmigrate.config.keys import check

    try:
        check("extend-exclude", [glob])
    except ValueError as error:
        what, *help = error.args
        raise UserError(f"--exclude {what}", *(help or ["see `torchmigrate check --help`"])) from None
    return glob


def _from_root(glob: str, root: Path) -> str:
    """Turn a pattern with a slash, typed relative to the current directory, into one relative to the root."""
    if glob.startswith("!") or "/" not in glob.rstrip("/"):
        return glob
    inside = system.relative(os.path.join(os.path.realpath(os.curdir), glob), root)
    return glob if inside.startswith("..") else "/" + inside


def check_folders(settings: Settings, file: Path | None) -> None:
    """Raise UserError if a folder of `rule-paths`, which `file` names, does not exist."""
    for folder in settings.rule_paths:
        if file and not folder.is_dir():
            where = place(file, ["rule-paths"])
            raise UserError(
                f"{where}: `rule-paths` names {folder}, which is no folder", f"paths are relative to {file.parent}"
            )


def check_names(settings: Settings, file: Path | None, typed: Mapping[str, Sequence[str] | None]) -> None:
    """Raise UserError if the settings name an unknown pack or rule, or leave no rule."""
    named: dict[tuple[str, ...], tuple[str, ...]] = {("select",): settings.select, ("ignore",): settings.ignore}
    named |= {("per-file-ignores", glob): names for glob, names in settings.per_file_ignores.items()}
    if not any(named.values()):
        return
    ruleset = packs.load(settings.rule_paths, cases=False)
    for keys, names in named.items():
        if ruleset.unknown(names):
            known(ruleset, names, f"--{keys[0]}" if typed.get(keys[0]) else _place_of_key(file, keys))
    if not ruleset.selected(settings.select, settings.ignore).rules:
        raise UserError("`select` and `ignore` leave no rule", "`torchmigrate config` shows where both come from")


def _place_of_key(file: Path | None, keys: Sequence[str]) -> str:
    assert file is not None  # names that were not typed come from the file
    return f"{place(file, keys)}: `{keys[0]}`"


def known(ruleset: Ruleset, names: Sequence[str], where: str = "") -> None:
    """Check that each name is a pack or a rule, else raise UserError; `where` begins the message."""
    for name, near in ruleset.unknown(names).items():
        what = f"{where}: unknown rule or pack `{name}`" if where else f"unknown rule or pack `{name}`"
        raise UserError(what, f"did you mean `{near}`?" if near else "see `torchmigrate rules`")


def schema(name: str) -> bytes:
    """Return the text of a JSON schema: `config`, `pyproject`, `rule` or `catalog`."""
    from importlib import resources  # few commands want a schema

    return resources.files("torchmigrate").joinpath("data", "schemas", f"{name}.json").read_bytes()
