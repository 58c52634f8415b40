"""Options of the commands for typer, and their completions in the shell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from torchmigrate.config.settings import Runtime, Style

Offer = list[tuple[str, str]]  # values, each with the text that fish and zsh show beside it

_SUMMARY = re.compile(r"""^summary\s*=\s*(["'])(.*)\1\s*$""", re.M)
_NAME = re.compile(r'^name\s*=\s*"(torch[\w.]*)"\s*$', re.M)


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
    return sorted({name for path in files for name in _NAME.findall(_text(path))})


def _first(pattern: re.Pattern[str], path: Path) -> str:
    found = pattern.search(_text(path))
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
    """The formats of a report."""

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
    """When output has colours."""

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
Output = Annotated[Path | None, Option("-o", "--output", metavar="FILE", help="Report to FILE, not to stdout.")]
Also = Annotated[
    list[str] | None, Option(metavar="FORMAT=FILE", help="Another report, as junit=report.xml. Repeatable.")
]
Config = Annotated[Path | None, Option(metavar="FILE", help="Settings from FILE, not the nearest pyproject.toml.")]
Isolated = Annotated[bool, Option("--isolated", help="No settings from files.")]
Jobs = Annotated[int | None, Option("-j", "--jobs", min=1, metavar="N", help="Processes (default: one per core).")]
ColorOption = Annotated[Color, Option("--color", metavar="WHEN", help="auto, always or never.")]
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
AddIgnores = Annotated[bool, Option("--add-ignores", help="Write a comment that ignores it above each finding.")]
WriteBaseline = Annotated[bool, Option("--write-baseline", help="Put today's findings into the --baseline FILE.")]
StdinFilename = Annotated[Path | None, Option(metavar="P", help="The file that `-` stands in for. It need not exist.")]
Statistics = Annotated[bool, Option("--statistics", help="Counts per rule in place of the findings.")]
RuntimeOption = Annotated[Runtime | None, Option(metavar="R", help="vendor: copy the helper in; package; inline.")]
StyleOption = Annotated[Style | None, Option(metavar="S", help="helper; native: torch.accelerator (torch >= 2.9).")]
DryRun = Annotated[bool, Option("-n", "--dry-run", help="Print the diff, write nothing. Exit 1 if any.")]
UnsafeFixes = Annotated[
    bool | None,
    Option("--unsafe-fixes/--no-unsafe-fixes", help="Apply unsafe fixes, too (off: --no-unsafe-fixes)."),
]
AllowDirty = Annotated[bool, Option("--allow-dirty", help="Write over changes that git could not give back.")]
Interactive = Annotated[bool, Option("-i", "--interactive", help="Show each change and its reason, and ask.")]
Commit = Annotated[bool, Option("--commit", help="One git commit per pack, helper first. No hooks.")]
Branch = Annotated[str | None, Option(metavar="NAME", help="The same, on a new branch.")]


class CatalogFormat(str, Enum):
    """The formats of the catalog."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"
