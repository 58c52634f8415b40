"""Read the list of repositories, and check out each at one commit in a scratch repository.

A line of the list is a path or a git URL, maybe with `@REV`, a name or `# ...`; a plain folder is read in place.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchmigrate.base import file_io, system
from torchmigrate.base.text import UserError
from torchmigrate.fleet.task import Task
from torchmigrate.vcs import git_tree
from torchmigrate.vcs.git_tree import Repository
from torchmigrate.vcs.hardening import Git, GitError

_TOKEN = re.compile(r'\s*(?:"([^"]*)"(?=\s|$)|([^\s"#]\S*)|(#.*))')
_URL = re.compile(r"(?P<url>(?P<scheme>[A-Za-z][\w+.-]*)://[^/]*/.+?)(?:@(?P<rev>[^@]+))?")
_SCP = re.compile(r"(?P<url>(?:[\w.-]+@)?[\w.-]{2,}:(?!//)[^@]+)(?:@(?P<rev>[^@]+))?")
_SCHEMES = ("file", "git", "http", "https", "ssh")
_NAME = re.compile(r"[A-Za-z0-9_][\w.-]*", re.ASCII)
_OURS = {"report.json", "report.md", "report.html"}


@dataclass(frozen=True, slots=True)
class Source:
    """A repository or a folder to migrate, at `rev` ("" is the current state); `place` (file:line) named it."""

    location: str
    rev: str
    name: str
    is_url: bool
    place: str

    @property
    def shown(self) -> str:
        """The source as reports may show it, without a password."""
        return masked(self.location) + (f"@{self.rev}" if self.rev else "")


def masked(text: str) -> str:
    """Return the text with user names and passwords removed from URLs."""
    return re.sub(r"(?<=://)[^/@\s]+@", "", text)


def read(file: Path, text: str) -> tuple[list[Source], list[str]]:
    """Return the sources in order, paths relative to `file`, and notes on duplicates; raises UserError."""
    found: dict[tuple[str, str], Source] = {}
    notes = []
    named: set[tuple[str, str]] = set()
    for source, explicit in _lines(file, text):
        key = source.location, source.rev
        if key in found:
            notes.append(f"{source.place}: {source.shown} stands there already ({found[key].place})")
            continue
        found[key] = source
        if explicit:
            named.add(key)
    if not found:
        raise UserError(f"{file}: names no repository", "one path or git URL on each line")
    return _distinct(list(found.values()), {found[key].place for key in named}), notes


def _lines(file: Path, text: str) -> Iterator[tuple[Source, bool]]:
    for number, line in enumerate(text.split("\n"), 1):
        place = f"{file}:{number}"
        words = _words(line, place)
        if len(words) > 2:
            raise UserError(f"{place}: more than a source and a name: {line.strip()}", "quote what holds spaces")
        if words:
            name = words[1] if len(words) == 2 else ""
            if name and (not _NAME.fullmatch(name) or name.casefold() in _OURS):
                raise UserError(f"{place}: `{name}` cannot be a name", "use letters, digits, `.`, `_` and `-`")
            yield _source(words[0], name, place, file.parent), bool(name)


def _words(line: str, place: str) -> list[str]:
    words, at, line = [], 0, line.rstrip()
    while at < len(line):
        found = _TOKEN.match(line, at)
        if found is None or "\0" in line:
            raise UserError(f"{place}: cannot be read: {line.strip()}", 'quotes go around a whole word: "a path" name')
        if found[3] is not None:
            break
        words.append(found[1] if found[1] is not None else found[2])
        at = found.end()
    return words


def _source(word: str, name: str, place: str, folder: Path) -> Source:
    if not word or word.startswith("-"):
        raise UserError(f"{place}: `{word}` is neither a path nor a git URL")
    if url := _URL.fullmatch(word):
        if url["scheme"].lower() not in _SCHEMES:
            known = ", ".join(f"{scheme}://" for scheme in _SCHEMES)
            raise UserError(f"{place}: `{url['scheme']}://` is not a way to take a repository", f"known: {known}")
        source = Source(url["url"], url["rev"] or "", name, True, place)
    elif "://" in word:
        raise UserError(f"{place}: `{masked(word)}` is not a whole URL", "https://HOST/OWNER/NAME")
    else:
        source = _path(word, name, place, folder)
    if source.rev.startswith("-") or re.search(r"[\s:^~?*\[\\]|\.\.", source.rev):
        raise UserError(f"{place}: `{source.rev}` cannot be a revision", "a branch, a tag or a commit follows the `@`")
    return source if name else replace(source, name=_derived(source.location))


def _path(word: str, name: str, place: str, folder: Path) -> Source:
    """Return the source for a word that is no URL; an existing path wins over `host:path` and `path@REV`."""
    given = folder / os.path.expanduser(word)
    if os.path.lexists(given):
        return Source(_absolute(given), "", name, False, place)
    if scp := _SCP.fullmatch(word):
        return Source(scp["url"], scp["rev"] or "", name, True, place)
    path, at, rev = word.rpartition("@")
    if at and path and rev and os.path.lexists(given := folder / os.path.expanduser(path)):
        return Source(_absolute(given), rev, name, False, place)
    # the path may exist on a worker's machine
    return Source(_absolute(folder / os.path.expanduser(word)), "", name, False, place)


def _absolute(path: Path) -> str:
    return os.path.abspath(path)


def _parts(location: str) -> list[str]:
    return [part for part in re.split(r"[/\\:]", location.rstrip("/")) if part]


def _clean(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "-", name.removesuffix(".git")).lstrip(".-") or "repository"


def _derived(location: str) -> str:
    return _clean(_parts(masked(location))[-1]) if _parts(location) else "repository"


def _distinct(sources: Sequence[Source], explicit: set[str]) -> list[Source]:
    """Make names distinct, ignoring case, by the parent folder, except those in `explicit` places; raises UserError."""
    counts = Counter(source.name.casefold() for source in sources)
    out: list[Source] = []
    taken: dict[str, Source] = {}
    for source in sources:
        parts = _parts(masked(source.location))
        again = counts[source.name.casefold()] > 1 or source.name.casefold() in _OURS
        if again and source.place not in explicit and len(parts) > 1:
            tail = f"@{source.rev}" if source.rev and _same_place(source, sources) else ""
            source = replace(source, name=_clean(f"{parts[-2]}-{source.name}{tail}"))
        if other := taken.get(source.name.casefold()):
            raise UserError(
                f"{source.place}: `{source.name}` is the name of {other.shown} already ({other.place})",
                "write another name behind one of them",
            )
        taken[source.name.casefold()] = source
        out.append(source)
    return out


def _same_place(source: Source, sources: Sequence[Source]) -> bool:
    return sum(other.location == source.location for other in sources) > 1


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
