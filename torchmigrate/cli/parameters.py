"""Define the options of the commands for typer, and their completions in the shell."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from torchmigrate.config.settings import Runtime, Style


class Argument:
    """An Argument describes a parameter for typer, which itself takes longer to import than a clean file to check."""

    def __init__(self, *names: str, **settings: Any) -> None:
        self.names, self.settings = names, settings


class Option(Argument):
    """An Option describes a parameter for typer: names (by default `--` and the parameter's), help, limits."""


def tell_typer(command: Callable[..., int]) -> None:
    """Annotate a command's parameters with typer's own arguments and options, in place of ours."""
    import typer

    hints = get_type_hints(command, include_extras=True)
    for name, hint in hints.items():
        told = get_args(hint)[-1] if get_origin(hint) is Annotated else None
        if isinstance(told, Argument):
            kind = typer.Option if isinstance(told, Option) else typer.Argument
            hints[name] = Annotated[get_args(hint)[0], kind(*told.names, **told.settings)]
    command.__annotations__ = hints


def plain(command: Callable[..., int], words: Sequence[str]) -> dict[str, Any] | None:
    """Return what plain words mean to a command, as typer would; None for all that typer has something to say of.

    Plain are options that the command has, in full, with values that need no message, and paths.
    """
    options, given = _options(command), dict[str, Any]()
    rest = iter(words)
    for word in rest:
        if word == "-" or (word and not word.startswith("-")):
            given.setdefault("paths", []).append(Path(word))
            continue
        name, equals, value = word.partition("=")
        if name not in options or (equals and not name.startswith("--")):
            return None
        parameter, kind, least, set_to = options[name]
        if set_to is not None:
            if equals:
                return None
            given[parameter] = set_to
            continue
        read = _value(value if equals else next(rest, ""), kind, least)
        if read is None:
            return None
        given[parameter] = [*given.get(parameter, ()), *read] if kind == list[str] else read[0]
    return given


_Option = tuple[str, Any, int | None, bool | None]  # a parameter, its type, the least number, what a flag sets


def _options(command: Callable[..., int]) -> dict[str, _Option]:
    """Return the options of a command by name, as its parameters tell them."""
    found: dict[str, _Option] = {}
    for parameter, hint in get_type_hints(command, include_extras=True).items():
        told = get_args(hint)[-1] if get_origin(hint) is Annotated else None
        if not isinstance(told, Option):
            continue
        union = get_args(hint)[0]
        [kind] = [each for each in get_args(union) if each is not NoneType] if NoneType in get_args(union) else [union]
        for names in told.names or (f"--{parameter.replace('_', '-')}",):
            on, _, off = names.partition("/")
            found[on] = (parameter, kind, told.settings.get("min"), True if kind is bool else None)
            if off:
                found[off] = (parameter, kind, None, False)
    return found


def _value(text: str, kind: Any, least: int | None) -> list[Any] | None:
    """Return the value of an option in a list of one, or None if it is for typer to read or to refuse."""
    if not text or text.startswith("-"):
        return None
    if kind is int:
        return (
            [int(text)] if text.isascii() and text.isdigit() and len(text) < 10 and int(text) >= (least or 0) else None
        )
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [each for each in kind if each.value == text] or None
    return [Path(text)] if kind is Path else [text]


Offer = list[tuple[str, str]]  # values, each with the text that fish and zsh show beside it

_SUMMARY = r"""(?m)^summary\s*=\s*(["'])(.*)\1\s*$"""
_NAME = r'(?m)^name\s*=\s*"(torch[\w.]*)"\s*$'


def names(incomplete: str) -> Offer:
    """Complete the last of a comma-separated list of packs and rules."""
    given, comma, last = incomplete.rpartition(",")
    return [(f"{given}{comma}{name}", help) for name, help in _starting(_packs_and_rules(), last)]


def tested(incomplete: str) -> Offer:
    """Complete the arguments of `rules`."""
    return _starting([*_packs_and_rules(), ("test", "run the cases of rules"), ("new", "write a skeleton")], incomplete)


def explained(incomplete: str) -> Offer:
    """Complete rules, and APIs once a letter is typed: there are too many to offer before."""
    offer = _starting(_rules(), incomplete)
    return [*offer, *apis(incomplete)] if incomplete else offer


def apis(incomplete: str) -> Offer:
    """Complete names of the catalog up to the next dot: `torch.cu` to `torch.cuda` and others that begin so."""
    found = [name for name, _ in _starting(((name, "") for name in _apis()), incomplete)]
    near = [name for name in found if "." not in name[len(incomplete) :].lstrip(".")]
    return [(name, "") for name in near or found]


def backends(incomplete: str) -> Offer:
    """Complete `--backends`."""
    from torchmigrate.torch_api.backends import BACKENDS

    return _of_list(BACKENDS, incomplete)


def catalog_backends(incomplete: str) -> Offer:
    """Complete `catalog --backend`."""
    from torchmigrate.torch_api.backends import COLUMNS

    return _of_list(COLUMNS, incomplete)


def verified(incomplete: str) -> Offer:
    """Complete `verify --backends`."""
    from torchmigrate.torch_api.backends import having

    return _of_list(having("verify"), incomplete)


def _of_list(known: Iterable[str], incomplete: str) -> Offer:
    given, comma, last = incomplete.rpartition(",")
    taken = given.split(",")
    return [(f"{given}{comma}{name}", "") for name in known if name.startswith(last) and name not in taken]


def _starting(offer: Iterable[tuple[str, str]], incomplete: str) -> Offer:
    return [(name, help) for name, help in offer if name.startswith(incomplete)]


def _packs_and_rules() -> Iterator[tuple[str, str]]:
    rules = _rules()
    yield from ((pack, "a pack") for pack in sorted({name.partition("/")[0] for name, _ in rules}))
    yield from rules


def _rules() -> Offer:
    from torchmigrate.rules import packs

    files = (path for root in _roots() for path in sorted(root.glob("*/*.toml")) if packs.is_rule(path))
    return [(f"{path.parent.name}/{path.stem}", _first(_SUMMARY, path)) for path in files]


def _apis() -> list[str]:
    files = (path for root in _roots() for path in root.glob("catalog/*.toml"))
    return sorted({name for path in files for name in re.findall(_NAME, _text(path))})


def _first(pattern: str, path: Path) -> str:
    found = re.search(pattern, _text(path))
    return found[2].replace('\\"', '"').replace("`", "") if found else ""


def _text(path: Path) -> str:
    from torchmigrate.base import file_io

    try:
        return file_io.read_text(path)
    except OSError:
        return ""


def _roots() -> list[Path]:
    """Return the folders of rules, including the project's; ignore an invalid settings file."""
    from torchmigrate.base.text import UserError
    from torchmigrate.config import config_file
    from torchmigrate.rules import packs

    try:
        own = config_file.load([Path()]).rule_paths
    except UserError:
        own = ()
    return [packs.builtin(), *(path for path in own if path.is_dir())]


class Format(str, Enum):
    """These are the formats of a report."""

    TEXT = "text"
    CONCISE = "concise"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"
    GITLAB = "gitlab"
    JUNIT = "junit"
    MARKDOWN = "markdown"
    DIFF = "diff"


class Color(str, Enum):
    """The choice says when output has colours."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


Paths = Annotated[list[Path] | None, Argument(metavar="PATHS")]
Names = Annotated[
    list[str] | None,
    Option(metavar="NAMES", help="Only these packs or rules (commas, or repeat).", autocompletion=names),
]
Ignore = Annotated[
    list[str] | None,
    Option(metavar="NAMES", help="Not these packs or rules (commas, or repeat).", autocompletion=names),
]
Exclude = Annotated[list[str] | None, Option(metavar="GLOB", help="Leave out these files, too. Repeatable.")]
Torch = Annotated[str | None, Option(metavar="SPEC", help='The torch that the project supports, as ">=2.1".')]
Backends = Annotated[
    list[str] | None,
    Option(metavar="NAMES", help="Only problems of these backends, as mps,xpu.", autocompletion=backends),
]
OutputFormat = Annotated[
    Format,
    Option(metavar="F", help=f"{', '.join(each.value for each in list(Format)[:-1])} or {list(Format)[-1].value}."),
]
CheckFormat = Annotated[
    Format,
    Option(metavar="F", help=f"{', '.join(each.value for each in list(Format)[:-2])} or {list(Format)[-2].value}."),
]
Output = Annotated[Path | None, Option("-o", "--output", metavar="FILE", help="Report to FILE, not to stdout.")]
Also = Annotated[
    list[str] | None, Option(metavar="FORMAT=FILE", help="Another report, as junit=report.xml. Repeatable.")
]
Config = Annotated[Path | None, Option(metavar="FILE", help="Settings from FILE, not the nearest pyproject.toml.")]
Isolated = Annotated[bool, Option("--isolated", help="No settings from files.")]
Jobs = Annotated[int | None, Option("-j", "--jobs", min=1, metavar="N", help="Processes (default: one per core).")]
ColorOption = Annotated[Color, Option("--color", metavar="WHEN", help="Colour: auto, always or never.")]
Quiet = Annotated[bool, Option("-q", "--quiet", help="Findings and errors only.")]
Verbose = Annotated[bool, Option("-v", "--verbose", help="Say what was rewritten and left out, too.")]
NoCache = Annotated[bool, Option("--no-cache", help="Neither read nor write the cache.")]
ExitZero = Annotated[bool, Option("--exit-zero", help="Exit 0 with findings, too. Errors still exit 2.")]
Since = Annotated[str | None, Option(metavar="REV", help="Only files changed since REV, and untracked ones.")]
Staged = Annotated[bool, Option("--staged", help="Only files staged for the next commit.")]
BaselineOption = Annotated[
    Path | None, Option("--baseline", metavar="FILE", help="Only findings that are not in FILE count.")
]
# rejected with the advice that it is for `check`
NoBaseline = Annotated[Path | None, Option("--baseline", hidden=True)]
AddIgnores = Annotated[bool, Option("--add-ignores", help="Write an ignore comment above each finding.")]
WriteBaseline = Annotated[bool, Option("--write-baseline", help="Put today's findings into the --baseline FILE.")]
StdinFilename = Annotated[Path | None, Option(metavar="P", help="The file that `-` stands in for. It need not exist.")]
Statistics = Annotated[bool, Option("--statistics", help="Counts per rule in place of the findings.")]
RuntimeOption = Annotated[Runtime | None, Option(metavar="R", help="vendor (a copy of the helper), package, inline.")]
StyleOption = Annotated[Style | None, Option(metavar="S", help="auto, helper, or native: torch.accelerator.")]
DryRun = Annotated[bool, Option("-n", "--dry-run", help="Print the diff (exit 1 if any), write nothing.")]
UnsafeFixes = Annotated[
    bool | None,
    Option("--unsafe-fixes/--no-unsafe-fixes", help="Apply unsafe fixes, too (off: --no-unsafe-fixes)."),
]
AllowDirty = Annotated[bool, Option("--allow-dirty", help="Write over changes that git could not give back.")]
Interactive = Annotated[bool, Option("-i", "--interactive", help="Show each change and its reason, and ask.")]
Commit = Annotated[bool, Option("--commit", help="One git commit per pack, helper first. No hooks.")]
Branch = Annotated[str | None, Option(metavar="NAME", help="The same, on a new branch.")]


class CatalogFormat(str, Enum):
    """These are the formats of the catalog."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"
