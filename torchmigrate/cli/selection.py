"""Judge the options of a run: whether they go together, and which files they choose."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchmigrate.base import file_io
from torchmigrate.base.text import UserError, counted, did_you_mean, print_fitted, shorten, visible_lines
from torchmigrate.project.discovery import EVERYTHING, Selection

if TYPE_CHECKING:
    from torchmigrate.cli.parameters import Format
    from torchmigrate.vcs.git_tree import Repository


@dataclass(frozen=True, slots=True)
class Request:
    """A request holds the options of the command line, except for settings."""

    command: str
    paths: tuple[Path, ...]
    output_format: Format
    output: Path | None
    jobs: int
    quiet: bool
    verbose: bool
    exit_zero: bool
    statistics: bool
    allow_dirty: bool = False
    since: str | None = None
    staged: bool = False
    baseline: Path | None = None
    write_baseline: bool = False
    stdin_filename: Path | None = None
    commit: bool = False
    branch: str | None = None
    interactive: bool = False
    also: Sequence[str] | None = None
    color: str = "auto"
    add_ignores: bool = False

    def say(self, *lines: str) -> None:
        """Print lines to stderr, unless `-q` is given."""
        if lines and not self.quiet:
            print_fitted(*map(visible_lines, lines))


STDIN = "-"
_NAMED = 5


def reads_stdin(request: Request) -> bool:
    return STDIN in map(str, request.paths)


def check(request: Request) -> None:
    """Raise UserError for options that do not go together."""
    if request.baseline and request.command != "check":
        raise UserError(
            "--baseline is for `check`: `apply` rewrites what it can, old findings too",
            "use --select, --since or per-file-ignores to rewrite less",
        )
    if request.write_baseline and not request.baseline:
        raise UserError("--write-baseline does not know where to write", "name the file: --baseline FILE")
    if request.add_ignores and request.baseline:
        raise UserError("--add-ignores and --baseline are two ways to keep old findings from counting", "choose one")
    if request.since is not None and request.staged:
        raise UserError("--since and --staged are two choices of files", "choose one")
    _check_reports(request)
    if reads_stdin(request):
        _check_stdin(request)
    elif request.stdin_filename:
        raise UserError("--stdin-filename is of no use without `-`", "`-` in place of paths reads standard input")


def _check_reports(request: Request) -> None:
    asked = list(reports(request))
    files = [os.path.realpath(each.output) for each in asked if each.output]
    if twice := next((file for file in files if files.count(file) > 1), None):
        raise UserError(f"two reports would go to {os.path.relpath(twice)}", "name a file for each")
    if request.command == "check" and any(each.output_format.value == "diff" for each in asked):
        raise UserError("`check` has no diff", "`torchmigrate apply --dry-run --output-format diff` writes one")


def _check_stdin(request: Request) -> None:
    if len(request.paths) > 1:
        raise UserError("`-` stands alone: standard input is one file", "leave the other paths out")
    for given, name in ((request.since, "--since"), (request.staged, "--staged")):
        if given:
            raise UserError(f"{name} asks git for files, and `-` is none", "leave one of them out")
    if request.add_ignores:
        raise UserError("--add-ignores writes into files, and `-` is none", "leave one of them out")
    if request.write_baseline:
        raise UserError("--write-baseline writes what files hold, and `-` is none", "leave one of them out")


def selection(request: Request) -> Selection:
    """Return the files that `--since` or `--staged` choose, and report them on stderr; raises UserError."""
    if request.since is None and not request.staged:
        return EVERYTHING
    option = "--staged" if request.staged else "--since"
    repositories = _repositories(request.paths, option)
    if request.since is None:
        found = [path for repository in repositories for path in repository.staged()]
        _say_partial(request, found)
        what = "staged for the next commit"
    else:
        found = [path for repository in repositories for path in _since(request.since, repository, request)]
        what = f"changed since {request.since}"
    request.say(f"note: only {counted(len(found), 'file')} {what}" if found else f"note: no file {what}")
    return Selection(frozenset(map(str, found)))


def _repositories(paths: Sequence[Path], option: str) -> list[Repository]:
    from torchmigrate.vcs import git_tree

    found = {}
    for path in paths:
        real = Path(os.path.realpath(path))
        repository = git_tree.repository(real if real.is_dir() else real.parent)
        if repository is None:
            raise UserError(
                f"{option} asks git, and {_quote_path(path)} is in no git repository that can be read",
                f"leave {option} out, or run it inside a repository",
            )
        found[repository.top] = repository
    return list(found.values())


def _quote_path(path: Path) -> str:
    return f"`{path}`" if str(path) != "." else "this directory"


def _since(name: str, repository: Repository, request: Request) -> list[Path]:
    """Return the files that this branch changed since it left REV, not those that others changed in REV."""
    commit = repository.commit(name)
    if commit is None:
        what = f"--since: git knows no commit `{shorten(name, 60)}` in {repository.top}"
        raise UserError(what, _way_out(name, repository))
    parted = repository.common(commit)
    if parted is None:
        request.say(f"note: HEAD and {name} have no common ancestor here: all files that differ from {name} are taken")
    return repository.changed(parted or commit)


def _way_out(name: str, repository: Repository) -> str:
    if hint := did_you_mean(name, repository.branches()):
        return hint
    if repository.is_shallow:
        return f"this clone is shallow; fetch it first: git fetch origin {shorten(name, 60)}"
    return "name a branch, a tag or a commit, as `main` or `HEAD~3`"


def _say_partial(request: Request, staged: Iterable[Path]) -> None:
    """Note files that differ from their staged version: the file is read, not the index."""
    from torchmigrate.vcs import git_tree

    partial = [d.path for d in git_tree.dirty(list(staged))] if request.command != "apply" else []
    if partial:
        names = ", ".join(os.path.relpath(path) for path in partial[:_NAMED])
        more = f" and {len(partial) - _NAMED} more" if len(partial) > _NAMED else ""
        request.say(f"note: staged and changed again since; read as they are on disk: {names}{more}")


def reports(request: Request) -> Iterator[Request]:
    """Yield a request for each report: that of `--output-format`, then those of `--also`; raises UserError."""
    from torchmigrate.cli.parameters import Format

    yield request
    for name, file in others(request.also, [each.value for each in Format]):
        yield replace(request, output_format=Format(name), output=file)


def others(also: Sequence[str] | None, known: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Yield the format and the file of each `--also FORMAT=FILE`; raises UserError for what is not of that form."""
    for given in also or ():
        name, equals, file = given.partition("=")
        if not equals or not file:
            raise UserError(f"--also {given}: must be FORMAT=FILE", "for example --also junit=report.xml")
        if name not in known:
            help = did_you_mean(name, known) or f"known: {', '.join(known)}"
            raise UserError(f"--also {given}: no such format: {name}", help)
        yield name, Path(file)


# ---- what the files of a migrated project held before: in git, or in the journal that `apply` keeps


def originals_since(path: Path, name: str) -> dict[Path, bytes]:
    """Return the files that differ from where this branch left the commit, as they were there; raises UserError."""
    from torchmigrate.vcs import git_tree
    from torchmigrate.vcs.hardening import GitError

    real = Path(os.path.realpath(path))
    repository = git_tree.repository(real if real.is_dir() else real.parent)
    if repository is None:
        raise UserError(f"--since asks git, and `{path}` is in no git repository that can be read", "leave it out")
    commit = repository.commit(name)
    if commit is None:
        hint = did_you_mean(name, repository.branches()) or "name a branch, a tag or a commit, as `main` or `HEAD~3`"
        raise UserError(f"--since: git knows no commit `{shorten(name, 60)}` in {repository.top}", hint)
    base = repository.common(commit) or commit
    found = {}
    for file in repository.changed(base):
        try:
            found[file] = repository.run("cat-file", "blob", f"{base}:{file.relative_to(repository.top).as_posix()}")
        except GitError:
            continue  # new since then: the original does not use it
    if not found:
        raise UserError(f"--since {name}: no file differs from it", "name a commit before the migration")
    return found


def originals_applied(path: Path) -> tuple[dict[Path, bytes], int]:
    """Return the files that the last `apply` rewrote, as they were before, and how many were edited since.

    The latter are left out. Where the user's state folder has no journal of it, git has the files, if they were
    committed and the rewritten ones are not.
    """
    from torchmigrate.apply import journal

    newest = next(journal.below(path), None)
    if newest is None:
        try:
            return originals_since(path, "HEAD"), 0
        except UserError:
            return {}, 0
    kept, entries = newest
    rewritten = [entry for entry in entries if not entry.new and kept.path(entry).is_file()]
    untouched = [e for e in rewritten if journal.digest(file_io.read(kept.path(e))) == e.after]
    return {kept.path(entry): kept.original(entry) for entry in untouched}, len(rewritten) - len(untouched)
