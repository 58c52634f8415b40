"""Ask git, through GitPython, about a work tree: its files, and which of them git could not restore."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchmigrate.vcs import hardening

# A submodule has its own settings, which `hardening` does not override, so git must not look into it.
_ALONE = "--ignore-submodules=all"
# A renamed file counts under its new name; a deleted one is left out.
_NAMES = ("--name-only", "-z", "--no-renames", "--diff-filter=d", "--no-ext-diff", "--no-textconv", "--no-relative")
_OLDEST = (2, 31)  # the first git version that reads settings from GIT_CONFIG_COUNT
_CHUNK = 400  # paths per git command, below the command line limit of every platform


@dataclass(frozen=True, slots=True)
class Dirty:
    """A file whose content in the work tree git could not restore."""

    path: Path
    why: str  # unstaged | untracked | ignored | staged


@dataclass(frozen=True, slots=True)
class Repository:
    """A git work tree; `top` and `git_dir` are real paths."""

    top: Path
    git_dir: Path
    _git: Any

    def run(self, *arguments: str, env: Mapping[str, str] | None = None, stdin: bytes | None = None) -> bytes:
        """Run a git command at `top` and return its output. Raises git.exc.GitError."""
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
        """Run a git command and return its output as text, or None if it fails."""
        import git

        try:
            return self.run(*arguments).decode(errors="replace").strip()
        except git.exc.GitError:
            return None

    def files(self, directory: Path) -> list[str]:
        """List the files below `directory` that git does not ignore, relative to `top`.

        Paths are slash-separated. A nested repository is one entry that ends with a slash.
        """
        listing = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        output = self.run(*listing, "--", os.path.relpath(directory, self.top))
        return [os.fsdecode(name) for name in output.split(b"\0") if name]

    def ignores(self, directory: Path) -> bool:
        """Return whether git ignores this directory itself, so that `files` lists nothing for it."""
        command = ["git", *hardening.QUIET, "check-ignore", "-q", "--", os.fspath(directory)]
        status, _, _ = self._git.execute(command, with_extended_output=True, with_exceptions=False)
        return bool(status == 0)

    def ignored(self) -> list[str]:
        """List all that git ignores, relative to `top`; a directory ignored as a whole ends with a slash."""
        output = self.run("status", "--porcelain", "-z", "--ignored=matching", "--untracked-files=all", _ALONE)
        return [os.fsdecode(entry[3:]) for entry in output.split(b"\0") if entry.startswith(b"!! ")]

    def commit(self, name: str) -> str | None:
        """Return the hash of the commit that a branch, a tag or an abbreviated hash names, or None."""
        return self.ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")

    def common(self, commit: str) -> str | None:
        """Return the merge base of HEAD and `commit`, or None if they have no common history."""
        return self.ask("merge-base", commit, "HEAD")

    def branches(self) -> list[str]:
        """Return the short names of all branches, remote ones included, and of all tags."""
        return (self.ask("for-each-ref", "--format=%(refname:short)") or "").split()

    @property
    def is_shallow(self) -> bool:
        return self.ask("rev-parse", "--is-shallow-repository") == "true"

    def changed(self, since: str) -> list[Path]:
        """Return the files of the work tree that differ from the commit `since`, untracked but not ignored ones too."""
        untracked = self.run("ls-files", "-z", "--others", "--exclude-standard")
        return self._paths(self.run("diff", *_NAMES, _ALONE, since, "--") + untracked)

    def staged(self) -> list[Path]:
        """Return the files that the next commit would add or change."""
        return self._paths(self.run("diff", *_NAMES, _ALONE, "--cached", "--"))

    def _paths(self, output: bytes) -> list[Path]:
        names = sorted({os.fsdecode(name) for name in output.split(b"\0") if name})
        return [Path(os.path.realpath(self.top / name)) for name in names]

    def dirty(self, paths: Sequence[Path], staged: bool = False) -> list[Dirty]:
        """Return those of `paths` that have unstaged changes or are untracked; with `staged`, also staged changes."""
        return [dirty for at in range(0, len(paths), _CHUNK) for dirty in self._dirty(paths[at : at + _CHUNK], staged)]

    def _dirty(self, paths: Sequence[Path], staged: bool) -> Iterator[Dirty]:
        """Yield the dirty files among `paths`, which are few enough for one git command."""
        inside = [os.path.relpath(path, self.top) for path in paths]
        # the traditional --ignored mode lists directories; =matching with --untracked-files=all lists files
        flags = ("--porcelain", "-z", "--untracked-files=all", "--ignored=matching", "--no-renames", _ALONE)
        for entry in self.run("status", *flags, "--", *inside).split(b"\0"):
            state, name = entry[:2], os.fsdecode(entry[3:])
            in_index = state[1:] == b" "
            if not name or (in_index and not staged):
                continue
            why = {b"??": "untracked", b"!!": "ignored"}.get(state, "staged" if in_index else "unstaged")
            if name.endswith("/"):
                below = (path for path, i in zip(paths, inside, strict=True) if _with_slashes(i).startswith(name))
                yield from (Dirty(path, why) for path in below)
            else:
                yield Dirty(self.top / name, why)


def _with_slashes(path: str) -> str:
    return path.replace(os.sep, "/")


def marker(directory: Path) -> Path | None:
    """Return the nearest directory at or above with a `.git`, or None: then GitPython need not be imported."""
    return next((d for d in (directory, *directory.parents) if os.path.lexists(d / ".git")), None)


def by_repository(paths: Sequence[Path]) -> list[tuple[Repository | None, list[Path]]]:
    """Group real paths by the repository that contains them; the key is None for paths outside of git."""
    tops: dict[Path, Path | None] = {}
    groups: dict[Path | None, list[Path]] = {}
    for path in paths:
        if path.parent not in tops:
            tops[path.parent] = marker(path.parent)
        groups.setdefault(tops[path.parent], []).append(path)
    return [(repository(top) if top else None, group) for top, group in groups.items()]


def dirty(paths: Sequence[Path]) -> list[Dirty]:
    """Return the files, sorted, that git could not restore; not those outside of git, which `undo` restores."""
    found = [d for repo, group in by_repository(paths) if repo for d in repo.dirty(group)]
    return sorted(found, key=lambda d: d.path)


def unanswered(paths: Sequence[Path]) -> Path | None:
    """Return a work tree that contains some of these real paths but for which git refuses to answer, or None."""
    tops = dict.fromkeys(marker(path.parent) for path in paths)
    return next((top for top in tops if top and repository(top) is None), None)


def repository(directory: Path) -> Repository | None:
    """Return the work tree that contains `directory`, or None: no repository, no git, or git refuses."""
    start = marker(directory)
    if start is None:
        return None
    try:
        import git  # raises ImportError if there is no git executable
    except ImportError:
        return None
    try:
        return _open_repository(git.Git(start), directory)  # fails for a work tree of dubious ownership
    except (git.exc.GitError, OSError, ValueError):
        return None


def _open_repository(shell: Any, directory: Path) -> Repository | None:
    shell.update_environment(**hardening.environment(os.environ, {}))
    bare = Repository(Path(), Path(), shell)
    top, git_dir = (_parse_path(bare.run("rev-parse", which)) for which in ("--show-toplevel", "--absolute-git-dir"))
    real = Path(os.path.realpath(directory))
    if not (real.is_relative_to(top) and os.path.lexists(top / ".git")):
        return None  # core.worktree points to another directory
    settings = hardening.overridden(bare.run("config", "--list", "--show-scope", "-z"))
    if settings and shell.version_info[:2] < _OLDEST:
        return None
    shell.update_environment(**hardening.environment(os.environ, settings))
    return Repository(top, git_dir, shell)


def _parse_path(output: bytes) -> Path:
    return Path(os.path.realpath(os.fsdecode(output.removesuffix(b"\n"))))


def complaint(error: Exception) -> str:
    """Return the line of a git.exc.GitError's output that says what went wrong, without the advice around it."""
    text = str(getattr(error, "stderr", "") or error).strip().removeprefix("stderr:").strip()
    text = text.removeprefix("'").removesuffix("'")  # quotes that GitPython adds
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    line = next((line for line in lines if line.startswith(("error: ", "fatal: "))), lines[-1])
    return line.removeprefix("error: ").removeprefix("fatal: ").rstrip(".")
