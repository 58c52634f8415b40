"""The commands and their options, as typer reads them. The work is elsewhere, imported by the command that needs it."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

from typer import Argument, Option


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


class CatalogFormat(str, Enum):
    """How the catalog is laid out."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"


class Runtime(str, Enum):
    """Where the helper comes from."""

    VENDOR = "vendor"
    PACKAGE = "package"


class Style(str, Enum):
    """In whose words rewrites speak."""

    HELPER = "helper"
    NATIVE = "native"


Paths = Annotated[
    list[Path] | None,
    Argument(help="Files and directories; `-`: standard input.", show_default="the current directory"),
]
Names = Annotated[list[str] | None, Option(metavar="NAMES", help="Only these packs or rules (comma or repeated).")]
Ignore = Annotated[list[str] | None, Option(metavar="NAMES", help="Not these packs or rules (comma or repeated).")]
Exclude = Annotated[list[str] | None, Option(metavar="GLOB", help="Leave these files out, too. Repeatable.")]
Torch = Annotated[str | None, Option(metavar="SPEC", help='The torch that the project supports, as ">=2.1".')]
Backends = Annotated[list[str] | None, Option(metavar="NAMES", help="Whose problems to report, as mps,xpu.")]
OutputFormat = Annotated[Format, Option(help="How to report.")]
Output = Annotated[Path | None, Option("-o", "--output", metavar="FILE", help="Report to a file, not to stdout.")]
Config = Annotated[Path | None, Option(metavar="FILE", help="Settings from here, not from the nearest pyproject.toml.")]
Isolated = Annotated[bool, Option("--isolated", help="No settings from files.")]
Jobs = Annotated[int | None, Option("-j", "--jobs", min=1, metavar="N", help="Processes.", show_default="the cores")]
Quiet = Annotated[bool, Option("-q", "--quiet", help="Findings and errors only.")]
Verbose = Annotated[bool, Option("-v", "--verbose", help="Say what was rewritten and what was left out, too.")]
NoCache = Annotated[bool, Option("--no-cache", help="Neither read nor write the cache.")]
ExitZero = Annotated[bool, Option("--exit-zero", help="Exit 0 with findings, too. Errors still exit 2.")]
Since = Annotated[str | None, Option(metavar="REV", help="Only files that changed since REV, untracked ones too.")]
Staged = Annotated[bool, Option("--staged", help="Only files that are staged for the next commit.")]
BaselineOption = Annotated[
    Path | None, Option("--baseline", metavar="FILE", help="Only findings that are not in FILE count.")
]
NoBaseline = Annotated[Path | None, Option("--baseline", hidden=True)]  # to say that it is for `check`
WriteBaseline = Annotated[bool, Option("--write-baseline", help="Put today's findings into the --baseline FILE.")]
StdinFilename = Annotated[
    Path | None, Option(metavar="P", help="With `-`: the file that standard input stands in for. It need not exist.")
]
Statistics = Annotated[bool, Option("--statistics", help="Counts per rule in place of the findings.")]
RuntimeOption = Annotated[
    Runtime | None, Option(help="Copy the helper into the project, or import torchmigrate.runtime.")
]
StyleOption = Annotated[
    Style | None, Option(help="Call the helper, or torch.accelerator wherever that is the same (torch >= 2.9).")
]
DryRun = Annotated[bool, Option("-n", "--dry-run", help="Print the diff, write nothing. Exit 1 if there is one.")]
UnsafeFixes = Annotated[bool | None, Option("--unsafe-fixes/--no-unsafe-fixes", help="Apply the unsafe fixes, too.")]
AllowDirty = Annotated[bool, Option("--allow-dirty", help="Write over changes that git could not give back, too.")]
Interactive = Annotated[bool, Option("-i", "--interactive", help="Show each change and its reason, and ask.")]
Commit = Annotated[bool, Option("--commit", help="One git commit for each pack, the helper first. Runs no hooks.")]
Branch = Annotated[str | None, Option(metavar="NAME", help="The same, on a new branch.")]


def apply(
    paths: Paths = None,
    dry_run: DryRun = False,
    unsafe_fixes: UnsafeFixes = None,
    allow_dirty: AllowDirty = False,
    interactive: Interactive = False,
    commit: Commit = False,
    branch: Branch = None,
    select: Names = None,
    ignore: Ignore = None,
    exclude: Exclude = None,
    torch: Torch = None,
    backends: Backends = None,
    runtime: RuntimeOption = None,
    style: StyleOption = None,
    output_format: OutputFormat = Format.TEXT,
    output: Output = None,
    config: Config = None,
    isolated: Isolated = False,
    jobs: Jobs = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_cache: NoCache = False,
    exit_zero: ExitZero = False,
    statistics: Statistics = False,
    since: Since = None,
    staged: Staged = False,
    stdin_filename: StdinFilename = None,
    baseline: NoBaseline = None,
) -> int:
    """Rewrite in place."""
    given = locals()
    from torchmigrate.cli import migrate

    return migrate.run("dry-run" if given.pop("dry_run") else "apply", **given)


def check(
    paths: Paths = None,
    select: Names = None,
    ignore: Ignore = None,
    exclude: Exclude = None,
    torch: Torch = None,
    backends: Backends = None,
    output_format: OutputFormat = Format.TEXT,
    output: Output = None,
    config: Config = None,
    isolated: Isolated = False,
    jobs: Jobs = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_cache: NoCache = False,
    exit_zero: ExitZero = False,
    statistics: Statistics = False,
    since: Since = None,
    staged: Staged = False,
    stdin_filename: StdinFilename = None,
    baseline: BaselineOption = None,
    write_baseline: WriteBaseline = False,
) -> int:
    """Report, write nothing."""
    given = locals()
    from torchmigrate.cli import migrate

    return migrate.run("check", **given)


def rules(
    names: Annotated[list[str] | None, Argument(help="Packs or rules; `test DIR` runs a pack's cases.")] = None,
) -> int:
    """List the rules, or run the cases of a pack (`rules test DIR`)."""
    from torchmigrate.cli import rules as rules_

    given = names or []
    if given[:1] == ["test"]:
        return rules_.test([Path(name) for name in given[1:]])
    return rules_.listing(given)


def explain(
    name: Annotated[str, Argument(help="A rule (`device/tensor-cuda`) or an API (`torch.cuda.empty_cache`).")],
) -> int:
    """Say what a rule does and why, or which rules look after an API."""
    from torchmigrate.cli import rules as rules_

    return rules_.explain(name)


def catalog(
    names: Annotated[list[str] | None, Argument(help="APIs: names, prefixes (`torch.cuda`) or globs.")] = None,
    backend: Annotated[
        list[str] | None, Option(metavar="NAMES", help="Only what does not simply work there, as mps,xpu.")
    ] = None,
    project: Annotated[
        Path | None, Option(metavar="PATH", help="Only what this project uses, with counts: its matrix.")
    ] = None,
    output_format: Annotated[CatalogFormat, Option(help="How to print.")] = CatalogFormat.TEXT,
    output: Annotated[Path | None, Option("-o", "--output", metavar="FILE", help="To a file, not to stdout.")] = None,
) -> int:
    """Say for every torch API that names a device what it does on each backend, and what becomes of it."""
    given = locals()
    from torchmigrate.cli import catalog as catalog_

    return catalog_.run(**given)


def undo(path: Annotated[Path, Argument(help="Only what was written here.")] = Path()) -> int:
    """Put back what the last apply wrote."""
    from torchmigrate.cli import migrate

    return migrate.put_back(path)
