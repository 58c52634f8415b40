"""The options of the commands, as typer reads them."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from torchmigrate.cli import completion
from torchmigrate.config.resolve import Runtime, Style


class Format(str, Enum):
    """How a report is laid out."""

    TEXT = "text"
    CONCISE = "concise"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"
    GITLAB = "gitlab"
    JUNIT = "junit"
    MARKDOWN = "markdown"
    DIFF = "diff"


Paths = Annotated[list[Path] | None, Argument(metavar="PATHS")]
Names = Annotated[
    list[str] | None,
    Option(metavar="NAMES", help="Only these packs or rules (commas, or repeat).", autocompletion=completion.names),
]
Ignore = Annotated[
    list[str] | None,
    Option(metavar="NAMES", help="Not these packs or rules (commas, or repeat).", autocompletion=completion.names),
]
Exclude = Annotated[list[str] | None, Option(metavar="GLOB", help="Leave out these files, too. Repeatable.")]
Torch = Annotated[str | None, Option(metavar="SPEC", help='The torch that the project supports, as ">=2.1".')]
Backends = Annotated[
    list[str] | None,
    Option(metavar="NAMES", help="Only problems of these backends, as mps,xpu.", autocompletion=completion.backends),
]
OutputFormat = Annotated[Format, Option(metavar="F", help="One of nine: text, json, sarif, diff, markdown, ...")]
Output = Annotated[Path | None, Option("-o", "--output", metavar="FILE", help="Report to FILE, not to stdout.")]
Also = Annotated[
    list[str] | None, Option(metavar="FORMAT=FILE", help="Another report, as junit=report.xml. Repeatable.")
]
Config = Annotated[Path | None, Option(metavar="FILE", help="Settings from FILE, not the nearest pyproject.toml.")]
Isolated = Annotated[bool, Option("--isolated", help="No settings from files.")]
Jobs = Annotated[int | None, Option("-j", "--jobs", min=1, metavar="N", help="Processes (default: one per core).")]
Quiet = Annotated[bool, Option("-q", "--quiet", help="Findings and errors only.")]
Verbose = Annotated[bool, Option("-v", "--verbose", help="Say what was rewritten and left out, too.")]
NoCache = Annotated[bool, Option("--no-cache", help="Neither read nor write the cache.")]
ExitZero = Annotated[bool, Option("--exit-zero", help="Exit 0 with findings, too. Errors still exit 2.")]
Since = Annotated[str | None, Option(metavar="REV", help="Only files changed since REV, and untracked ones.")]
Staged = Annotated[bool, Option("--staged", help="Only files staged for the next commit.")]
BaselineOption = Annotated[
    Path | None, Option("--baseline", metavar="FILE", help="Only findings that are not in FILE count.")
]
NoBaseline = Annotated[Path | None, Option("--baseline", hidden=True)]  # to say that it is for `check`
WriteBaseline = Annotated[bool, Option("--write-baseline", help="Put today's findings into the --baseline FILE.")]
StdinFilename = Annotated[Path | None, Option(metavar="P", help="The file that `-` stands in for. It need not exist.")]
Statistics = Annotated[bool, Option("--statistics", help="Counts per rule in place of the findings.")]
RuntimeOption = Annotated[Runtime | None, Option(metavar="R", help="vendor: copy the helper in; package: import it.")]
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
    """How the catalog is laid out."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"
