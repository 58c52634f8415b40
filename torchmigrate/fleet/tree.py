"""Check out a source at one commit in a scratch repository, or read a plain folder in place."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchmigrate.base.text import UserError
from torchmigrate.fleet.listing import masked
from torchmigrate.fleet.task import Task
from torchmigrate.vcs import git_tree
from torchmigrate.vcs.git_tree import Repository

# Git in scratch repositories runs without the user's settings, which could name filters and diff programs.
APART = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_LFS_SKIP_SMUDGE": "1"}
_FETCHING = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_SSH_COMMAND": os.environ.get("GIT_SSH_COMMAND", "ssh -o BatchMode=yes"),
}
_SAFE = ("-c", f"core.hooksPath={os.devnull}", "-c", "core.fsmonitor=false", "-c", "gc.auto=0")
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
    repository = _bare(path) or git_tree.repository(path)
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
    inside = os.path.relpath(path, repository.top).replace(os.sep, "/")
    if not task.rev and inside != "." and repository.ask("cat-file", "-t", f"{commit}:{inside}") != "tree":
        return Origin(str(path), "")  # a folder that the repository around it does not track
    objects = os.path.normpath(repository.top / (repository.ask("rev-parse", "--git-path", "objects") or ""))
    return Origin(str(path), commit, objects, "" if inside == "." else inside, _unsaved(repository, task))


def _bare(path: Path) -> Repository | None:
    """Return the repository at a path without a work tree, or None."""
    if not all((path / name).exists() for name in ("HEAD", "objects", "refs")):
        return None
    import git as gitpython

    asked = gitpython.Git(path)
    asked.update_environment(GIT_DIR=os.fspath(path))  # git may be configured not to find bare repositories
    return Repository(path, path, asked)


def _unsaved(repository: Repository, task: Task) -> str:
    if task.rev or repository.top == repository.git_dir:
        return ""
    # clear filters, so that no program that the repository names runs
    named = repository.ask("config", "--local", "--includes", "--name-only", "--get-regexp", r"^filter\..*") or ""
    plain = [word for name in named.splitlines() for word in ("-c", f"{name}=")]
    dirty = repository.ask(*plain, "status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all")
    return "changes that are not committed are left out" if dirty else ""


def _remote_commit(url: str, rev: str) -> str:
    names = [f"refs/tags/{rev}^{{}}", f"refs/tags/{rev}", f"refs/heads/{rev}", rev] if rev else ["HEAD"]
    output = _network(Path.cwd(), "ls-remote", "--", url, *names).decode(errors="replace")
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
        store.write_bytes(os.fsencode(origin.objects) + b"\n")
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
    import git as gitpython

    top = Path(os.path.realpath(scratch)) / name
    top.mkdir()
    command = ["git", *_SAFE, "init", "--quiet", "--template="]
    _run(gitpython.Git(top), command, APART)
    repository = Repository(top, top / ".git", gitpython.Git(top))
    (repository.git_dir / "info").mkdir(exist_ok=True)
    (repository.git_dir / "objects" / "info").mkdir(exist_ok=True)
    return repository


def git(repository: Repository, *arguments: str, stdin: bytes | None = None, **env: str) -> bytes:
    """Run git without the user's settings, and return its output; raises UserError."""
    import git as gitpython

    try:
        return repository.run(*arguments, env={**APART, **env}, stdin=stdin)
    except gitpython.exc.GitError as error:
        raise UserError(f"git {arguments[0]}: {git_tree.complaint(error)}") from None


def _network(directory: Path, *arguments: str) -> bytes:
    """Run git over the network, with the user's own proxies and credentials; only these calls leave the machine."""
    import git as gitpython

    return _run(gitpython.Git(directory), ["git", *_SAFE, *arguments], _FETCHING)


def _run(client: Any, command: list[str], env: Mapping[str, str]) -> bytes:
    import git as gitpython

    try:
        output = client.execute(command, stdout_as_string=False, strip_newline_in_stdout=False, env=dict(env))
    except gitpython.exc.GitError as error:
        verb = next(word for word in command[len(_SAFE) + 1 :] if not word.startswith("-"))
        raise UserError(f"git {verb}: {masked(git_tree.complaint(error))}") from None
    return bytes(output)
