"""Make commits with git's plumbing: a temporary index, no hooks, no stash, and one move of the branch at the end."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchmigrate.base import system
from torchmigrate.base.text import UserError
from torchmigrate.engine.divide import Step
from torchmigrate.vcs import git_tree
from torchmigrate.vcs.git_tree import Repository
from torchmigrate.vcs.hardening import GitError

_STATES = {
    "MERGE_HEAD": "merge",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "sequencer": "cherry-pick or revert",
}
_ZERO = "0" * 40
_IDENTITY = ("-c", "user.useConfigOnly=true")  # do not guess an address from the machine's name
_SIGNING = "git is told to sign them (commit.gpgSign): see that `git commit -S` works here"


@dataclass(frozen=True, slots=True)
class Target:
    """The branch that the commits go to. With `creates`, it is a new one, and HEAD moves to it."""

    repository: Repository
    branch: str
    head: str
    creates: bool
    left: str  # the branch or commit that HEAD pointed to


@dataclass(frozen=True, slots=True)
class Made:
    """New commits, as (hash, subject), that no branch contains yet, and the index entries of the changed files."""

    target: Target
    commits: tuple[tuple[str, str], ...]
    entries: tuple[bytes, ...]


def target(directory: Path, branch: str | None) -> Target:
    """Return where a run's commits go; `branch` names a new one. Raises UserError if git cannot commit here."""
    repository = git_tree.repository(Path(os.path.realpath(directory)))
    if repository is None:
        where = "this directory" if str(directory) == "." else f"`{directory}`"
        raise UserError(
            f"--commit needs git, and {where} is in no work tree of it", "leave --commit out, or `git init`"
        )
    if stray := git_tree.strays(repository):
        raise UserError(
            f"--commit would write outside of this repository: {stray}",
            "leave --commit out; or mend the repository, as with a fresh clone",
        )
    for name, what in _STATES.items():
        if os.path.lexists(repository.git_dir / name):
            raise UserError(f"git is in the middle of a {what}", "finish or abort it, then run again (`git status`)")
    head = repository.ask("rev-parse", "-q", "--verify", "HEAD^{commit}")
    if head is None:
        raise UserError("this repository has no commit yet", "commit what is there first")
    current = repository.ask("symbolic-ref", "-q", "--short", "HEAD")
    if branch is None and current is None:
        raise UserError("HEAD is on no branch", "pass --branch NAME, or `git switch` to one")
    if branch is not None:
        _check_new(repository, branch)
    for who in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
        if repository.ask(*_IDENTITY, "var", who) is None:
            raise UserError(
                "git does not know who makes the commits",
                "`git config user.name NAME` and `git config user.email ADDRESS`",
            )
    return Target(repository.unreplaced(), branch or current or "", head, branch is not None, current or head)


def _check_new(repository: Repository, branch: str) -> None:
    if branch.startswith("-") or repository.ask("check-ref-format", f"refs/heads/{branch}") is None:
        raise UserError(f"`{branch}` cannot be the name of a branch", "see `git help check-ref-format`")
    if repository.ask("rev-parse", "-q", "--verify", f"refs/heads/{branch}") is not None:
        raise UserError(f"there is a branch `{branch}` already", "pass another name, or `git switch` to it first")


def make(target: Target, steps: Sequence[Step]) -> Made:
    """Make one commit per step on top of HEAD, and change no branch, index or file; raises UserError."""
    with tempfile.TemporaryDirectory(prefix="torchmigrate-") as directory:
        env = {"GIT_INDEX_FILE": os.path.join(directory, "index")}
        try:
            return _make(target, steps, env)
        except GitError as error:
            help = (
                _SIGNING if _signs(target.repository) else "`git commit` would fail in the same way: settle that first"
            )
            raise UserError(f"git could not make the commits, so nothing was written: {error}", help) from None


def _make(target: Target, steps: Sequence[Step], env: Mapping[str, str]) -> Made:
    """Make the commits with the index file that `env` names."""
    run, top = target.repository.run, target.repository.top
    run("read-tree", target.head, env=env)
    modes = dict(_modes(run("ls-files", "-s", "-z", env=env)))
    signing = ("-S",) if _signs(target.repository) else ()
    parent, commits = target.head, list[tuple[str, str]]()
    entries: dict[bytes, bytes] = {}
    for step in steps:
        fresh: dict[bytes, bytes] = {}
        for path, content in step.files.items():
            name = system.relative(os.path.realpath(path), top)
            blob = run("hash-object", "-w", "--stdin", "--path", name, stdin=content).strip()
            key = os.fsencode(name)
            fresh[key] = modes.get(key, b"100644") + b" " + blob + b"\t" + key
        run("update-index", "-z", "--index-info", env=env, stdin=b"\0".join(fresh.values()) + b"\0")
        tree = run("write-tree", env=env).decode().strip()
        options = (*_IDENTITY, "-c", "i18n.commitEncoding=UTF-8", "commit-tree", *signing, "-p", parent, "-F", "-")
        parent = run(*options, tree, stdin=step.message.encode()).decode().strip()
        commits.append((parent, step.subject))
        entries |= fresh
    return Made(target, tuple(commits), tuple(entries.values()))


def _signs(repository: Repository) -> bool:
    return repository.ask("config", "--type=bool", "commit.gpgSign") == "true"


def _modes(listing: bytes) -> Iterator[tuple[bytes, bytes]]:
    for entry in listing.split(b"\0"):
        if entry:
            facts, _, name = entry.partition(b"\t")
            yield name, facts.partition(b" ")[0]


def publish(made: Made) -> None:
    """Move the branch to the last commit, once the files are written; raises UserError with HEAD unchanged."""
    with _ignoring_ctrl_c():
        try:
            _publish(made)
        except GitError as error:
            raise UserError(
                f"the files are written, but git could not move {made.target.branch}: {error}",
                f"`git reset {made.commits[-1][0][:12]}` takes the commits in once that is settled; or "
                "`torchmigrate undo`",
            ) from None


def _publish(made: Made) -> None:
    """Update the user's index, move the branch, and HEAD if the branch is new."""
    target, run = made.target, made.target.repository.run
    ref, last = f"refs/heads/{target.branch}", made.commits[-1][0]
    run("update-index", "-z", "--index-info", stdin=b"\0".join(made.entries) + b"\0")
    run("update-ref", "-m", "torchmigrate: apply --commit", ref, last, _ZERO if target.creates else target.head)
    if target.creates:
        # git's own wording, which `git switch -` parses
        run("symbolic-ref", "-m", f"checkout: moving from {target.left} to {target.branch}", "HEAD", ref)
    target.repository.ask("update-index", "-q", "--refresh")


@contextlib.contextmanager
def _ignoring_ctrl_c() -> Iterator[None]:
    """Ignore Ctrl-C; git's processes inherit that."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    was = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, was)


def is_in_head(repository: Repository, commit: str) -> bool:
    """Return whether a commit is in the history of HEAD."""
    return repository.ask("merge-base", "--is-ancestor", commit, "HEAD") is not None
