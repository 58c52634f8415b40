"""What git knows, through GitPython: the files of a tree, those that git could not give back, where `.git` is."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchmigrate.vcs import hardening

# A submodule has settings of its own, which ours do not reach: git must not look into one.
_ALONE = "--ignore-submodules=all"
# A renamed file counts by its new name, a deleted one not at all.
_NAMES = ("--name-only", "-z", "--no-renames", "--diff-filter=d", "--no-ext-diff", "--no-textconv", "--no-relative")
_OLDEST = (2, 31)  # git that takes settings from its environment
_CHUNK = 400  # paths per git command: below every platform's limit


@dataclass(frozen=True, slots=True)
class Dirty:
    """A file whose content in the work tree git could not restore."""

    path: Path
    why: str  # unstaged | untracked | ignored | staged


@dataclass(frozen=True, slots=True)
class Repository:
    """A work tree. `top` and `git_dir` are real paths."""

    top: Path
    git_dir: Path
    _git: Any

    def run(self, *arguments: str, env: Mapping[str, str] | None = None, stdin: bytes | None = None) -> bytes:
        """What git prints, asked at `top`. Raises git.exc.GitError."""
        command = ["git", "--literal-pathspecs", *hardening.QUIET, *arguments]
        with tempfile.TemporaryFile() if stdin is not None else nullcontext() as stream:
            if stream is not None:
                stream.write(stdin or b"")
                stream.seek(0)
            output = self._git.execute(
                command, istream=stream, stdout_as_string=False, strip_newline_in_stdout=False, env=env
            )
        return bytes(output)

    def ask(self, *arguments: str) -> str | None:
        """What git prints, in text; None where it fails."""
        import git

        try:
            return self.run(*arguments).decode(errors="replace").strip()
        except git.exc.GitError:
            return None

    def files(self, directory: Path) -> list[str]:
        """Tracked and untracked, not ignored, below `directory` and relative to `top`, slash-separated. A nested
        repository is one entry that ends in a slash."""
        listing = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        output = self.run(*listing, "--", os.path.relpath(directory, self.top))
        return [os.fsdecode(name) for name in output.split(b"\0") if name]

    def ignores(self, directory: Path) -> bool:
        """Is this directory itself ignored, so that `files` would say nothing of it?"""
        command = ["git", *hardening.QUIET, "check-ignore", "-q", "--", os.fspath(directory)]
        status, _, _ = self._git.execute(command, with_extended_output=True, with_exceptions=False)
        return bool(status == 0)

    def ignored(self) -> list[str]:
        """All that is ignored, relative to `top`, slash-separated; a directory that is ignored as a whole ends in a
        slash."""
        output = self.run("status", "--porcelain", "-z", "--ignored=matching", "--untracked-files=all", _ALONE)
        return [os.fsdecode(entry[3:]) for entry in output.split(b"\0") if entry.startswith(b"!! ")]

    def commit(self, name: str) -> str | None:
        """The commit that a branch, a tag or an abbreviation means here."""
        return self.ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")

    def common(self, commit: str) -> str | None:
        """Where HEAD and another commit parted. None where their histories have nothing in common here."""
        return self.ask("merge-base", commit, "HEAD")

    def branches(self) -> list[str]:
        """Short names of branches, remote ones too, and of tags."""
        return (self.ask("for-each-ref", "--format=%(refname:short)") or "").split()

    @property
    def is_shallow(self) -> bool:
        return self.ask("rev-parse", "--is-shallow-repository") == "true"

    def changed(self, since: str) -> list[Path]:
        """Files in the work tree that are not as that commit has them, untracked ones too; not what is ignored."""
        untracked = self.run("ls-files", "-z", "--others", "--exclude-standard")
        return self._paths(self.run("diff", *_NAMES, _ALONE, since, "--") + untracked)

    def staged(self) -> list[Path]:
        """Files that the next commit would add or change."""
        return self._paths(self.run("diff", *_NAMES, _ALONE, "--cached", "--"))

    def _paths(self, output: bytes) -> list[Path]:
        names = sorted({os.fsdecode(name) for name in output.split(b"\0") if name})
        return [Path(os.path.realpath(self.top / name)) for name in names]

    def dirty(self, paths: Sequence[Path], staged: bool = False) -> list[Dirty]:
        """Those of the paths that have unstaged changes or that git does not track; with `staged`, staged ones too."""
        return [dirty for at in range(0, len(paths), _CHUNK) for dirty in self._dirty(paths[at : at + _CHUNK], staged)]

    def _dirty(self, paths: Sequence[Path], staged: bool) -> Iterator[Dirty]:
        inside = [os.path.relpath(path, self.top) for path in paths]
        # a traditional --ignored names the directory; =matching with -uall names the files
        flags = ("--porcelain", "-z", "--untracked-files=all", "--ignored=matching", "--no-renames", _ALONE)
        for entry in self.run("status", *flags, "--", *inside).split(b"\0"):
            state, name = entry[:2], os.fsdecode(entry[3:])
            in_index = state[1:] == b" "
            if not name or (in_index and not staged):
                continue
            why = {b"??": "untracked", b"!!": "ignored"}.get(state, "staged" if in_index else "unstaged")
            if name.endswith("/"):
                below = (path for path, i in zip(paths, inside, strict=True) if _slashed(i).startswith(name))
                yield from (Dirty(path, why) for path in below)
            else:
                yield Dirty(self.top / name, why)


def _slashed(path: str) -> str:
    return path.replace(os.sep, "/")


def marker(directory: Path) -> Path | None:
    """The directory at or above that holds `.git`. Cheap: decides whether GitPython is worth importing."""
    return next((d for d in (directory, *directory.parents) if os.path.lexists(d / ".git")), None)


def by_repository(paths: Sequence[Path]) -> list[tuple[Repository | None, list[Path]]]:
    """Group real paths by the work tree that holds them; None for those outside of git."""
    tops: dict[Path, Path | None] = {}
    groups: dict[Path | None, list[Path]] = {}
    for path in paths:
        if path.parent not in tops:
            tops[path.parent] = marker(path.parent)
        groups.setdefault(tops[path.parent], []).append(path)
    return [(repository(top) if top else None, group) for top, group in groups.items()]


def dirty(paths: Sequence[Path]) -> list[Dirty]:
    """Files that git could not give back if they were overwritten. Outside of git there are none: undo stands in."""
    found = [d for repo, group in by_repository(paths) if repo for d in repo.dirty(group)]
    return sorted(found, key=lambda d: d.path)


def unanswered(paths: Sequence[Path]) -> Path | None:
    """A work tree that holds some of these real paths and of which git tells nothing."""
    tops = dict.fromkeys(marker(path.parent) for path in paths)
    return next((top for top in tops if top and repository(top) is None), None)


def repository(directory: Path) -> Repository | None:
    """The work tree that holds `directory`. None outside of git, without git, and where git refuses to answer."""
    start = marker(directory)
    if start is None:
        return None
    try:
        import git  # fails to import where there is no git executable
    except ImportError:
        return None
    try:
        return _opened(git.Git(start), directory)  # refuses a tree of dubious ownership
    except (git.exc.GitError, OSError, ValueError):
        return None


def _opened(shell: Any, directory: Path) -> Repository | None:
    shell.update_environment(**hardening.environment(os.environ, {}))
    asked = Repository(Path(), Path(), shell)
    top, git_dir = (_path(asked.run("rev-parse", which)) for which in ("--show-toplevel", "--absolute-git-dir"))
    real = Path(os.path.realpath(directory))
    if not (real.is_relative_to(top) and os.path.lexists(top / ".git")):
        return None  # core.worktree says that other files are meant
    settings = hardening.overridden(asked.run("config", "--list", "--show-scope", "-z"))
    if settings and shell.version_info[:2] < _OLDEST:
        return None
    shell.update_environment(**hardening.environment(os.environ, settings))
    return Repository(top, git_dir, shell)


def _path(output: bytes) -> Path:
    return Path(os.path.realpath(os.fsdecode(output.removesuffix(b"\n"))))


def complaint(error: Exception) -> str:
    """What git said went wrong, of a GitError: what follows it is advice."""
    text = str(getattr(error, "stderr", "") or error).strip().removeprefix("stderr:").strip()
    text = text.removeprefix("'").removesuffix("'")  # GitPython's own
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    line = next((line for line in lines if line.startswith(("error: ", "fatal: "))), lines[-1])
    return line.removeprefix("error: ").removeprefix("fatal: ").rstrip(".")
