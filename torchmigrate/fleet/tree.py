"""Check out a source at one commit in a scratch repository, or read a plain folder in place."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from torchmigrate.base import file_io, system
from torchmigrate.base.text import UserError
from torchmigrate.fleet.listing import masked
from torchmigrate.fleet.task import Task
from torchmigrate.vcs import git_tree
from torchmigrate.vcs.git_tree import Repository
from torchmigrate.vcs.hardening import Git, GitError

# Git in scratch repositories runs without the user's settings, which could name filters and diff programs.
APART = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_LFS_SKIP_SMUDGE": "1"}
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


@dataclass(frozen=True, slots=True)
class Origin:
    """The location of a source, and its commit ("" for a plain folder).

    `objects` is the object store of a repository on this machine, "" for a URL; `inside` is the folder within the
    repository that was named; `note` is a line for people.
    """

    location: str
    commit: str
    objects: str = ""
    inside: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Tree:
    """Files to migrate, below `root`; `repository`: the scratch repository whose checkout they are, or None."""

    root: Path
    commit: str
    repository: Repository | None


def origin(task: Task) -> Origin:
    """Find the commit of a task's source; raises UserError. A URL may need one request over the network."""
    if task.is_url:
        named = _COMMIT.fullmatch(task.rev)
        return Origin(task.location, task.rev if named else _remote_commit(task.location, task.rev))
    path = Path(os.path.realpath(task.location))
    if not path.is_dir():
        what = "is no folder" if path.exists() else "no such folder on this machine"
        raise UserError(f"{task.shown}: {what}", "a path must be there for every worker: share the disk, or name a URL")
    repository = git_tree.bare(path) or git_tree.repository(path)
    if repository is None:
        if git_tree.marker(path) == path:
            raise UserError(f"{task.shown}: git cannot read it", f"`git -C {path} status` says why")
        if task.rev:
            raise UserError(f"{task.shown}: `{task.rev}` is meant for git, and this is a plain folder")
        return Origin(str(path), "")
    commit = repository.commit(task.rev or "HEAD")
    if commit is None:
        raise UserError(
            f"{task.shown}: there is no commit `{task.rev}`" if task.rev else f"{task.shown}: has no commit"
        )
    inside = system.relative(path, repository.top)
    if not task.rev and inside != "." and repository.ask("cat-file", "-t", f"{commit}:{inside}") != "tree":
        return Origin(str(path), "")  # a folder that the repository around it does not track
    objects = os.path.normpath(repository.top / (repository.ask("rev-parse", "--git-path", "objects") or ""))
    return Origin(str(path), commit, objects, "" if inside == "." else inside, _unsaved(repository, task))


def _unsaved(repository: Repository, task: Task) -> str:
    if task.rev or repository.top == repository.git_dir:
        return ""
    dirty = repository.ask("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all")
    return "changes that are not committed are left out" if dirty else ""


def _remote_commit(url: str, rev: str) -> str:
    names = [f"refs/tags/{rev}^{{}}", f"refs/tags/{rev}", f"refs/heads/{rev}", rev] if rev else ["HEAD"]
    with tempfile.TemporaryDirectory(prefix="torchmigrate-") as apart:  # no project's settings count there
        output = _network(Path(apart), "ls-remote", "--", url, *names).decode(errors="replace")
    found = {name: commit for commit, _, name in (line.partition("\t") for line in output.splitlines())}
    commit = next((found[name] for name in names if name in found), None)
    if commit is None:
        help = "name a branch, a tag, or a commit in full" if rev else "push to it first"
        raise UserError(f"{masked(url)} has no `{rev or 'HEAD'}`", help)
    return commit


def take(origin: Origin, scratch: Path, name: str) -> Tree:
    """Check out a git source into `scratch`, or return a plain folder as it is; raises UserError."""
    if not origin.commit:
        return Tree(Path(origin.location), "", None)
    repository = scratch_repository(scratch, name)
    if origin.objects:
        store = repository.git_dir / "objects" / "info" / "alternates"
        file_io.put(store, os.fsencode(origin.objects) + b"\n")
    else:
        options = ("--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")
        _network(repository.top, "fetch", *options, "--", origin.location, origin.commit)
    git(repository, "update-ref", "--no-deref", "HEAD", origin.commit)
    git(repository, "read-tree", "HEAD")
    git(repository, "checkout-index", "--all", "--quiet", "--force")
    root = repository.top / origin.inside
    return Tree(root, origin.commit, repository)


def scratch_repository(scratch: Path, name: str) -> Repository:
    """Create a new repository without templates or settings."""
    top = Path(os.path.realpath(scratch)) / name
    top.mkdir()
    repository = Repository(top, top / ".git", Git(top, APART))
    git(repository, "init", "--quiet", "--template=")
    (repository.git_dir / "info").mkdir(exist_ok=True)
    (repository.git_dir / "objects" / "info").mkdir(exist_ok=True)
    return repository


def git(repository: Repository, *arguments: str, stdin: bytes | None = None, **env: str) -> bytes:
    """Run git without the user's settings, and return its output; raises UserError."""
    try:
        return repository.run(*arguments, env=env, stdin=stdin)
    except GitError as error:
        raise UserError(f"git {arguments[0]}: {error}") from None


def _network(directory: Path, *arguments: str) -> bytes:
    """Run git over the network, with the user's own proxies and credentials; only these calls leave the machine."""
    try:
        return Git(directory, network=True)(*arguments)
    except GitError as error:
        raise UserError(f"git {arguments[0]}: {masked(str(error))}") from None


def push(url: str, commit: str, bundle: Path, branch: str, scratch: Path, now: bool) -> None:
    """Ask at a URL whether the branch of a bundle, on top of `commit`, would be taken, and `now` push it.

    Nothing that is there is replaced. Raises UserError.
    """
    with tempfile.TemporaryDirectory(prefix="push-", dir=scratch) as apart:
        repository = scratch_repository(Path(apart), "tree")
        options = ("--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")
        _network(repository.top, "fetch", *options, "--", url, commit)
        listed = git(repository, "bundle", "unbundle", os.fspath(bundle)).decode(errors="replace").split("\n")
        refs = {name: last for last, _, name in (line.partition(" ") for line in listed)}
        last = refs.get(f"refs/heads/{branch}")
        if last is None:
            raise UserError(f"{bundle} has no branch `{branch}`", "run it again with --force")
        words = ("--quiet", "--no-verify", "--no-follow-tags", "--recurse-submodules=no")
        for dry in (["--dry-run"], []) if now else (["--dry-run"],):
            _network(repository.top, "push", *words, *dry, "--", url, f"{last}:refs/heads/{branch}")
