"""`[tool.torchmigrate]` and the command line -> frozen Settings. An unknown key is an error that says where."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from torchmigrate.errors import UserError, did_you_mean

BACKENDS = ("cpu", "cuda", "rocm", "mps", "xpu", "npu", "mtia", "hpu", "mlu", "musa", "xla", "privateuse1")
EXCLUDE = (
    *(".git", ".hg", ".svn", ".bzr", "__pycache__", ".ipynb_checkpoints", "site-packages", "node_modules"),
    *(".venv", "venv", ".tox", ".nox", ".eggs", ".direnv", ".pyenv", "__pypackages__", "buck-out"),
    *(".mypy_cache", ".ruff_cache", ".pytest_cache", ".pytype", ".hypothesis"),
)
_SPEC = re.compile(r"\s*(?:(?:[<>=~!]=|[<>]|===)?\s*\d+(?:\.(?:\d+|\*))*\s*(?:,\s*(?!$))?)+")


@dataclass(frozen=True, slots=True)
class Settings:
    """One run's settings. `root` is the directory of the nearest pyproject.toml, else the paths' common parent."""

    root: Path = Path()
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    exclude: tuple[str, ...] = EXCLUDE
    extend_exclude: tuple[str, ...] = ()
    unsafe_fixes: bool = False
    rule_paths: tuple[Path, ...] = ()
    torch: str | None = None
    runtime: str = "vendor"
    style: str = "helper"
    helper: str | None = None
    helper_map: Mapping[str, str] = field(default_factory=dict)
    backends: tuple[str, ...] = ()
    no_cache: bool = False

    def ignored_in(self, path: Path) -> tuple[str, ...]:
        """Names of packs and rules that `per-file-ignores` switches off in this file."""
        if not self.per_file_ignores:
            return ()
        from torchmigrate.files import Globs

        inside = os.path.relpath(path, self.root).replace(os.sep, "/")
        found = (names for glob, names in self.per_file_ignores.items() if Globs((glob,)).match(inside))
        return tuple(name for names in found for name in names)


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("must be a list of strings")
    return tuple(value)


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a string")
    return value


def _one_of(*choices: str) -> Callable[[object], str]:
    def check(value: object) -> str:
        if value not in choices:
            raise ValueError(f"must be {' or '.join(repr(c) for c in choices)}, not {value!r}")
        return str(value)

    return check


def _spec(value: object) -> str:
    if not _SPEC.fullmatch(_string(value)):
        raise ValueError(f'must be a version specifier such as ">=2.1", not {value!r}')
    return str(value)


def _backends(value: object) -> tuple[str, ...]:
    for name in (names := _strings(value)):
        if name not in BACKENDS:
            hint = did_you_mean(name, BACKENDS)
            raise ValueError(f"names no backend: {name!r}; {hint or 'known: ' + ', '.join(BACKENDS)}")
    return names


def _table(value: object, item: Callable[[object], Any]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("must be a table")
    return {str(key): item(entry) for key, entry in value.items()}


_KEYS: dict[str, Callable[[object], Any]] = {
    "select": _strings,
    "ignore": _strings,
    "per-file-ignores": lambda value: _table(value, _strings),
    "exclude": _strings,
    "extend-exclude": _strings,
    "unsafe-fixes": _boolean,
    "rule-paths": _strings,
    "torch": _spec,
    "runtime": _one_of("vendor", "package"),
    "style": _one_of("helper", "native"),
    "helper": _string,
    "helper-map": lambda value: _table(value, _string),
    "backends": _backends,
}
assert {key.replace("-", "_") for key in _KEYS} <= {f.name for f in fields(Settings)}


def common_parent(paths: Sequence[Path]) -> Path:
    """The directory that holds all paths; a file counts as its directory. Symlinks resolved."""
    real = [os.path.realpath(path) for path in paths or [Path()]]
    directories = [path if os.path.isdir(path) else os.path.dirname(path) for path in real]
    try:
        return Path(os.path.commonpath(directories))
    except ValueError:  # two drives
        return Path(directories[0])


def find(start: Path) -> Path | None:
    """The nearest pyproject.toml at or above `start`."""
    return next((p for d in (start, *start.parents) if (p := d / "pyproject.toml").is_file()), None)


def load(paths: Sequence[Path], config: Path | None = None, isolated: bool = False, **flags: object) -> Settings:
    """Settings for these paths. `flags` (by field name) override the file; None means not given."""
    start = common_parent(paths)
    nearest = find(start)
    root = nearest.parent if nearest else start
    if config is not None and not config.is_file():
        raise UserError(f"{config}: no such configuration file", "--config wants a TOML file")
    file = None if isolated else config or nearest
    values = read(file) if file else {}
    settings = replace(Settings(root=root), **values)
    return override(settings, **flags)


def override(settings: Settings, **flags: object) -> Settings:
    """Command-line values on top, checked as the file's are. An error names the option."""
    given: dict[str, Any] = {name: value for name, value in flags.items() if value is not None}
    for name, value in given.items():
        if check := _KEYS.get(name.replace("_", "-")):
            try:
                given[name] = check(list(value) if isinstance(value, tuple) else value)
            except ValueError as error:
                raise UserError(f"--{name.replace('_', '-')} {error}", "see `torchmigrate check --help`") from None
    return replace(settings, **given)


def read(file: Path) -> dict[str, Any]:
    """The checked values of one file, by field name. pyproject.toml keeps them in `[tool.torchmigrate]`."""
    import tomllib  # here: a run without a configuration file does not pay for it

    try:
        text = file.read_text(encoding="utf-8")
        data: object = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: {error}") from None
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        raise UserError(f"{file}:{line[1] if line else 1}: {error}", "this is not valid TOML") from None
    assert isinstance(data, dict)
    if file.name == "pyproject.toml" or "tool" in data:
        tool = data.get("tool", {})
        data = tool.get("torchmigrate", {}) if isinstance(tool, dict) else {}
    return _checked(data, file, text)


def _checked(data: object, file: Path, text: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise UserError(f"{file}: [tool.torchmigrate] must be a table")
    values = {}
    for key, value in data.items():
        where = f"{file}:{_line_of(text, key)}"
        if key not in _KEYS:
            raise UserError(f"{where}: unknown key `{key}`", did_you_mean(key, _KEYS) or "known: " + ", ".join(_KEYS))
        try:
            values[key.replace("-", "_")] = _KEYS[key](value)
        except ValueError as error:
            raise UserError(f"{where}: `{key}` {error}") from None
    if "rule_paths" in values:
        values["rule_paths"] = tuple(file.parent / path for path in values["rule_paths"])
    return values


def _line_of(text: str, key: str) -> int:
    """tomllib keeps no positions: look for the key in our table, or for its own sub-table."""
    name = rf"[\"']?{re.escape(key)}[\"']?"
    table = ""
    for number, line in enumerate(text.split("\n"), 1):
        if header := re.match(r"\s*\[+\s*([^\]]+?)\s*\]", line):
            table = header[1]
            if re.search(rf"torchmigrate\.{name}(\.|$)", table):
                return number
        elif table in ("tool.torchmigrate", "") and re.match(rf"\s*(?:tool\.torchmigrate\.)?{name}\s*[=.]", line):
            return number
    return 1
