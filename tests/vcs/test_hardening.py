"""A repository whose own settings name programs: git runs them for others, and never for torchmigrate. Each program
leaves a canary; plain git commands show first that the canaries sing."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest
from conftest import Ran, git, write_tree

from torchmigrate.base.text import UserError
from torchmigrate.fleet.repositories import origin, take
from torchmigrate.fleet.task import Task
from torchmigrate.vcs import git_tree, hardening

Cli = Callable[..., Ran]
CUDA = "import torch\n\nx = torch.zeros(3).cuda()\n"
HOOKS = (
    *("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-checkout", "post-rewrite"),
    *("post-index-change", "reference-transaction", "pre-auto-gc", "fsmonitor-watchman", "post-merge"),
)
COMMANDS = (
    ("check",),
    ("check", "sub", "--output-format", "sarif"),
    ("check", "--since", "HEAD", "--output-format", "markdown"),
    ("check", "--staged"),
    ("report",),
    ("catalog", "--project", "."),
    ("apply", "--dry-run"),
    ("apply", "--commit", "--dry-run"),
    ("apply", "--commit"),
    ("undo",),
    ("apply", "--branch", "other", "--unsafe-fixes", "--select", "amp"),
    ("apply",),
    ("undo",),
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the canaries are shell scripts")


class Canaries:
    """Programs that leave a file of their name when they run."""

    def __init__(self, directory: Path) -> None:
        self.programs, self.sung = directory / "programs", directory / "sung"
        self.programs.mkdir()
        self.sung.mkdir()

    def program(self, name: str, then: str = "cat") -> str:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\ntouch '{self.sung / name}'\n{then}\n")
        path.chmod(0o755)
        return str(path)

    def heard(self) -> set[str]:
        found = {path.name for path in self.sung.iterdir()}
        for name in found:
            (self.sung / name).unlink()
        return found


@pytest.fixture
def canaries(tmp_path: Path) -> Canaries:
    return Canaries(tmp_path)


@pytest.fixture
def hostile(here: Path, canaries: Canaries, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a program behind every knob that git would turn."""
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "t")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "t@example.org")
    git(here, "init", "-q", "-b", "main")
    autocast = "import torch\n\nwith torch.cuda.amp.autocast():\n    pass\n"
    names = ("clean.py", "process.py", "odd.py", "textconv.py", "command.py", "plain.py", "sub/below.py")
    attributes = (
        "clean.py filter=evil\nprocess.py filter=process\nodd.py filter=x=y\n*.txt filter=evil\naccel.py filter=evil\n"
        "textconv.py diff=textconv\ncommand.py diff=command\n"
    )
    write_tree(here, dict.fromkeys(names, CUDA) | {"amp.py": autocast, ".gitattributes": attributes})
    git(here, "add", "-A")
    git(here, "commit", "-qm", "x")
    _submodule(here, canaries)
    _settings(here, canaries)
    return here


def _submodule(here: Path, canaries: Canaries) -> None:
    """Two repositories below: a submodule, and a bare one that lies in the tree like any directory."""
    inner = here / "module"
    inner.mkdir()
    git(inner, "init", "-q")
    write_tree(inner, {"inner.py": "x = 1\n"})
    git(inner, "add", "-A")
    git(inner, "commit", "-qm", "x")
    git(here, "add", "module")
    bare = here / "bare"
    git(here, "init", "-q", "--bare", "bare")
    write_tree(bare, {"below.py": CUDA})
    git(here, "add", "-A")
    git(here, "commit", "-qm", "y")
    git(inner, "config", "core.fsmonitor", canaries.program("submodule"))
    for key, value in (("core.bare", "false"), ("core.worktree", str(bare))):
        git(bare, "config", key, value)
    git(bare, "config", "core.fsmonitor", canaries.program("bare"))


def _settings(here: Path, canaries: Canaries) -> None:
    hooks = here / ".git" / "hooks"
    own = here / "own-hooks"
    for directory in (hooks, own):
        directory.mkdir(exist_ok=True)
    for hook in HOOKS:
        program = canaries.program(f"hook-{hook}", "exit 0")
        (own / hook).symlink_to(program)
        (hooks / hook).unlink(missing_ok=True)
        (hooks / hook).symlink_to(program)
    run = canaries.program
    settings = {
        "core.hooksPath": str(own),
        "core.fsmonitor": run("fsmonitor"),
        "core.sshCommand": run("ssh", "exit 1"),
        "core.gitProxy": run("proxy", "exit 1"),
        "core.askPass": run("askpass"),
        "core.pager": run("pager"),
        "pager.status": run("pager-status"),
        "pager.diff": run("pager-diff"),
        "core.editor": run("editor"),
        "sequence.editor": run("sequence"),
        "core.alternateRefsCommand": run("alternates"),
        "credential.helper": run("credential"),
        "alias.status": f"!{run('alias')}",
        "filter.evil.clean": run("clean"),
        "filter.evil.smudge": run("smudge"),
        "filter.process.process": run("process", "exit 1"),
        "filter.x=y.clean": run("odd"),
        "diff.external": run("external"),
        "diff.command.command": run("command"),
        "diff.textconv.textconv": run("textconv", 'cat "$1"'),
        "commit.gpgSign": "true",
        "gpg.program": run("gpg", "exit 1"),
        "gpg.openpgp.program": run("openpgp", "exit 1"),
        "gpg.ssh.program": run("sign", "exit 1"),
        "gpg.ssh.defaultKeyCommand": run("key", "exit 1"),
        "remote.origin.url": f"ext::{run('ext', 'exit 1')} %S",
        "protocol.ext.allow": "always",
        "remote.origin.promisor": "true",
        "remote.origin.uploadpack": run("uploadpack", "exit 1"),
        "submodule.recurse": "true",
        "status.submoduleSummary": "true",
    }
    for key, value in settings.items():
        git(here, "config", key, value)
    extra = here / "extra.ini"
    git(here, "config", "-f", str(extra), "filter.evil.required", "true")
    git(here, "config", "-f", str(extra), "filter.included.clean", run("included"))
    git(here, "config", "include.path", str(extra))


def stale(root: Path) -> None:
    """Every file looks changed to git, so that it has to read it, through its filter."""
    for path in root.rglob("*.py"):
        os.utime(path, (1_000_000_000, 1_000_000_000))


def test_plain_git_runs_them(hostile: Path, canaries: Canaries) -> None:
    """The control: without it the next test could pass on canaries that never sing."""
    sung: set[str] = set()
    for command in (
        ["status"],
        ["diff", "HEAD~1", "--"],
        ["diff", "HEAD"],
        ["-c", "core.fsmonitor=false", "status", "--porcelain"],
        ["commit-tree", "-S", "-m", "x", "HEAD^{tree}"],
        ["-c", "gpg.format=ssh", "commit-tree", "-S", "-m", "x", "HEAD^{tree}"],
        ["commit", "--allow-empty", "-m", "x"],
        ["-c", "diff.external=true", "diff", "HEAD"],
        ["diff", "--no-ext-diff", "HEAD"],
        ["update-ref", "refs/heads/other", "HEAD"],
        ["cat-file", "-p", "1" * 40],
        ["hash-object", "--path", "odd.py", "clean.py"],
        ["hash-object", "--path", "process.py", "clean.py"],
    ):
        stale(hostile)
        write_tree(hostile, dict.fromkeys(("textconv.py", "command.py"), CUDA + "#\n"))
        tame = [] if "process.py" in command else ["-c", "filter.process.process="]  # it ends git
        subprocess.run(["git", *tame, *command], cwd=hostile, capture_output=True, check=False)
        sung |= canaries.heard()
    subprocess.run(["git", "status"], cwd=hostile / "bare", capture_output=True, check=False)
    sung |= canaries.heard()
    expected = {"fsmonitor", "clean", "process", "odd", "external", "command", "textconv"}
    expected |= {"submodule", "bare", "ext", "key"}
    assert sung >= expected | {"hook-post-index-change", "hook-reference-transaction", "hook-pre-commit"}, sung
    assert sung & {"gpg", "openpgp"}


@pytest.mark.parametrize("signing", ["openpgp", "ssh"])
def test_no_command_runs_a_program_that_the_repository_names(
    hostile: Path, canaries: Canaries, cli: Cli, signing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(hostile, "config", "gpg.format", signing)
    user = canaries.programs / "gpg-of-the-user"
    user.write_text("#!/bin/sh\ncat >/dev/null\necho '[GNUPG:] SIG_CREATED ' >&2\necho signature\n")
    user.chmod(0o755)
    if signing == "openpgp":  # the user's own program is run, as the user wants it
        git(hostile, "config", "--global", "gpg.program", str(user))
    else:
        git(hostile, "config", "commit.gpgSign", "false")
    canaries.heard()
    for command in COMMANDS:
        stale(hostile)
        ran = cli(*command)
        assert canaries.heard() == set(), command
        assert "internal error" not in ran.err, (command, ran.err)
        if command == ("apply", "--commit"):
            assert ran.status == 0, ran.err
            head = git(hostile, "-c", "alias.status=", "cat-file", "commit", "HEAD")
            canaries.heard()
            assert ("signature" in head) == (signing == "openpgp")


def test_a_repository_that_asks_for_signatures_gets_none_from_its_own_program(
    hostile: Path, canaries: Canaries, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join([str(canaries.programs.parent / "nothing"), _git_alone(canaries)]))
    before = (hostile / "plain.py").read_bytes()
    canaries.heard()
    ran = cli("apply", "--commit")
    assert (ran.status, "nothing was written" in ran.err) == (2, True)
    assert canaries.heard() == set()
    assert (hostile / "plain.py").read_bytes() == before


def _git_alone(canaries: Canaries) -> str:
    """A directory with git and the shell in it, and no gpg."""
    import shutil

    directory = canaries.programs.parent / "path"
    directory.mkdir()
    for name in ("git", "sh", "touch", "cat"):
        (directory / name).symlink_to(shutil.which(name) or "/bin/false")
    return str(directory)


def test_a_git_file_that_points_to_a_hostile_directory(
    hostile: Path, canaries: Canaries, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = write_tree(tmp_path / "other", {"a.py": CUDA})
    (other / ".git").write_text(f"gitdir: {hostile / '.git'}\n")
    monkeypatch.chdir(other)
    canaries.heard()
    for command in COMMANDS:
        ran = cli(*command)
        assert canaries.heard() == set(), command
        assert "internal error" not in ran.err, (command, ran.err)


# ---- the door itself, each of its layers alone

DOOR: Mapping[str, tuple[tuple[str, ...], str]] = {
    "diff.external": (("diff", "HEAD"), "external"),
    "core.fsmonitor": (("status",), "fsmonitor"),
    "core.hooksPath": (("update-ref", "refs/heads/other", "HEAD"), "hook-reference-transaction"),
    "GIT_ALLOW_PROTOCOL": (("ls-remote", "origin"), "ext"),
    "GIT_NO_LAZY_FETCH": (("cat-file", "-p", "1" * 40), "ext"),
    "core.sshCommand": (("ls-remote", "ssh://example.invalid/x"), "ssh"),
    "GIT_PROXY_COMMAND": (("ls-remote", "git://example.invalid/x"), "proxy"),
}
_OPENED = {"core.sshCommand", "GIT_PROXY_COMMAND", "GIT_NO_LAZY_FETCH"}  # with the layer around them taken off


def _without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    for table in ("_SETTINGS", "_ENVIRONMENT"):
        kept = {key: value for key, value in getattr(hardening, table).items() if key not in names}
        monkeypatch.setattr(hardening, table, kept)


@pytest.mark.parametrize("layer", DOOR)
@pytest.mark.parametrize("there", [True, False])
def test_each_layer_of_the_door_holds_alone(
    hostile: Path, canaries: Canaries, layer: str, there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What would run without the layer does not with it; the other way round is the control."""
    words, program = DOOR[layer]
    _without(monkeypatch, *(["GIT_ALLOW_PROTOCOL"] if layer in _OPENED else []), *([] if there else [layer]))
    if layer == "diff.external":
        write_tree(hostile, {"plain.py": CUDA + "#\n"})
    stale(hostile)
    door = hardening.Git(hostile).hardened()
    if layer == "GIT_NO_LAZY_FETCH" and door._client().version_info < (2, 39, 4):
        pytest.skip("this git knows no such variable")
    canaries.heard()
    with contextlib.suppress(hardening.GitError):
        door(*words)
    assert (program in canaries.heard()) is not there


@pytest.mark.parametrize("network", [True, False])
def test_nobody_is_asked_for_a_password(
    hostile: Path, canaries: Canaries, network: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither on the terminal, which has no answer in CI, nor by a program of the repository."""
    for name in ("GIT_ASKPASS", "SSH_ASKPASS"):
        monkeypatch.delenv(name, raising=False)
    if network:
        for key in ("core.askPass", "credential.helper"):
            git(hostile, "config", "--unset", key)
    canaries.heard()
    with pytest.raises(hardening.GitError, match="terminal prompts disabled"):
        hardening.Git(hostile, network=network)("credential", "fill", stdin=b"protocol=https\nhost=example.invalid\n\n")
    assert canaries.heard() == set()


@pytest.mark.parametrize("network", [True, False])
@pytest.mark.parametrize("there", [True, False])
def test_no_work_is_left_running(
    here: Path, tmp_path: Path, network: bool, there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """git would tidy up after a commit or a fetch, for minutes; the other way round is the control."""
    git(here, "init", "-q", "-b", "main")
    git(here, "config", "user.name", "t")
    git(here, "config", "user.email", "t@example.org")
    table = "_NETWORK_SETTINGS" if network else "_SETTINGS"
    kept = {key: value for key, value in getattr(hardening, table).items() if there or key != "maintenance.auto"}
    monkeypatch.setattr(hardening, table, kept)
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace"))
    hardening.Git(here, network=network)("commit", "--allow-empty", "-m", "y")
    assert ("maintenance run --auto" in (tmp_path / "trace").read_text()) is not there


@pytest.mark.parametrize("setting", ["filter.evil.smudge", "filter.x=y.clean", "gpg.ssh.defaultKeyCommand"])
@pytest.mark.parametrize("scope", ["local", "worktree"])
def test_programs_of_freely_chosen_keys(hostile: Path, canaries: Canaries, setting: str, scope: str) -> None:
    """Also those that stand in the settings of a worktree."""
    if scope == "worktree":
        git(hostile, "config", "extensions.worktreeConfig", "true")
        value = git(hostile, "config", "--local", setting).strip()
        git(hostile, "config", "--local", "--unset", setting)
        git(hostile, "config", "--worktree", setting, value)
    words, program = {
        "filter.evil.smudge": (("cat-file", "--filters", "HEAD:clean.py"), "smudge"),
        "filter.x=y.clean": (("hash-object", "--path", "odd.py", "plain.py"), "odd"),
        "gpg.ssh.defaultKeyCommand": (("-c", "gpg.format=ssh", "commit-tree", "-S", "-m", "x", "HEAD^{tree}"), "key"),
    }[setting]
    door = hardening.Git(hostile)
    for run, heard in ((door, True), (door.hardened(), False)):
        canaries.heard()
        with contextlib.suppress(hardening.GitError):
            run(*words)
        assert (program in canaries.heard()) is heard


def test_a_bare_repository_in_the_tree_answers_nothing(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(hostile / "bare", "config", "--unset", "core.worktree")
    git(hostile / "bare", "config", "core.bare", "true")
    door = hardening.Git(hostile / "bare")
    if tuple(door._client().version_info[:2]) < (2, 38):
        pytest.skip("this git takes any bare repository")
    with pytest.raises(hardening.GitError, match="bare repository"):
        door("rev-parse", "--git-dir")
    _without(monkeypatch, "safe.bareRepository")
    assert door("rev-parse", "--git-dir")


def test_an_old_git_runs_nothing(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows no settings in its environment."""
    monkeypatch.setattr(hardening, "_OLDEST", (99, 0))
    with pytest.raises(hardening.GitError, match="older than"):
        hardening.Git(hostile).hardened()


@pytest.mark.parametrize("kind", ["openpgp", "x509", "ssh"])
def test_a_signature_is_of_no_program_of_the_repository(hostile: Path, canaries: Canaries, cli: Cli, kind: str) -> None:
    git(hostile, "config", "gpg.format", kind)
    for name in ("gpg.program", f"gpg.{kind}.program"):
        git(hostile, "config", name, canaries.program(f"own-{kind}", "exit 1"))
    canaries.heard()
    ran = cli("apply", "--commit")
    assert canaries.heard() == set(), ran.err


@pytest.mark.parametrize("elsewhere", ["/", "..", "../elsewhere"])
def test_a_work_tree_that_lies_elsewhere(here: Path, cli: Cli, elsewhere: str) -> None:
    outside = write_tree(here.parent / "elsewhere", {"mine.py": CUDA})
    write_tree(here, {"a.py": CUDA})
    git(here, "init", "-q")
    git(here, "config", "core.worktree", os.path.join("..", elsewhere))
    ran = cli("apply")
    assert ran.status == 2 and "git tells nothing of" in ran.err and "--allow-dirty" in ran.err
    assert (here / "a.py").read_text() == CUDA
    ran = cli("apply", "--allow-dirty")
    assert ran.status == 0, ran.err
    assert "git tells nothing of" in ran.err
    assert (here / "a.py").read_text() != CUDA
    assert (outside / "mine.py").read_text() == CUDA
    assert cli("undo").status == 0
    assert (here / "a.py").read_text() == CUDA


# ---- repositories that reach out of themselves


def _with_link(top: Path, outside: Path, name: str) -> None:
    """Put a link in the place of something in `.git`, to a copy of it outside."""
    inside = top / ".git" / name
    inside.rename(outside / "moved")
    inside.symlink_to(outside / "moved")


def _with_second_name(top: Path, outside: Path) -> None:
    (outside / "bashrc").hardlink_to(top / ".git" / "logs" / "HEAD")


def _with_fifo(top: Path, outside: Path) -> None:
    (top / ".git" / "refs" / "heads" / "main").unlink()
    os.mkfifo(top / ".git" / "refs" / "heads" / "main")


def _with_common_directory(top: Path, outside: Path) -> None:
    """The refs and objects of `.git` are another repository's."""
    (top / ".git" / "commondir").write_text(str(_other(outside) / ".git"))


def _with_file(top: Path, outside: Path) -> None:
    shutil.rmtree(top / ".git")
    (top / ".git").write_text(f"gitdir: {_other(outside) / '.git'}\n")


def _with_link_for_all(top: Path, outside: Path) -> None:
    shutil.rmtree(top / ".git")
    (top / ".git").symlink_to(_other(outside) / ".git")


def _with_worktree_of_another(top: Path, outside: Path) -> None:
    """`.git` names what is a worktree of the user's other repository, and of another tree."""
    other = _other(outside)
    git(other, "worktree", "add", "-q", "-b", "next", str(outside / "next"))
    shutil.rmtree(top / ".git")
    (top / ".git").write_text(f"gitdir: {other / '.git' / 'worktrees' / 'next'}\n")


def _with_empty(top: Path, outside: Path, name: str) -> None:
    """Put a link in the place of what git has not made yet."""
    (outside / "moved").mkdir()
    (top / ".git" / name).symlink_to(outside / "moved")


def _with_packed(top: Path, outside: Path) -> None:
    git(top, "pack-refs", "--all")
    _with_link(top, outside, "packed-refs")


def _with_record(top: Path, outside: Path) -> None:
    """`.git` names a directory of the project's own, which claims to be a worktree of another repository."""
    other = _other(outside)
    shutil.rmtree(top / ".git")
    write_tree(top, {"record/HEAD": "ref: refs/heads/main\n", "record/commondir": str(other / ".git")})
    write_tree(top, {"record/gitdir": str(top / ".git"), ".git": f"gitdir: {top / 'record'}\n"})


def _other(outside: Path) -> Path:
    """The user's other repository, with the same files."""
    other = write_tree(outside / "mine", {"a.py": CUDA})
    git(other, "init", "-q", "-b", "main")
    git(other, "add", "-A")
    git(other, "commit", "-qm", "mine")
    return other


REACHING: Mapping[str, Callable[[Path, Path], None]] = {
    **{name: partial(_with_link, name=name) for name in ("HEAD", "index", "objects", "refs", "logs/HEAD", "logs")},
    "refs/heads/main": partial(_with_link, name="refs/heads/main"),
    "objects/pack": partial(_with_link, name="objects/pack"),
    "a log with a second name": _with_second_name,
    "a pipe for a branch": _with_fifo,
    "commondir": _with_common_directory,
    ".git is a file": _with_file,
    ".git is a link": _with_link_for_all,
    "a record of its own": _with_record,
    "another worktree": _with_worktree_of_another,
    "packed-refs": _with_packed,
    **{name: partial(_with_empty, name=name) for name in ("reftable", "worktrees")},
}


@pytest.mark.parametrize("way", REACHING)
def test_a_commit_writes_nowhere_else(here: Path, cli: Cli, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _may_commit(monkeypatch)
    write_tree(here, {"a.py": CUDA})
    git(here, "init", "-q", "-b", "main")
    git(here, "add", "-A")
    git(here, "commit", "-qm", "x")
    outside = here.parent / "outside"
    outside.mkdir()
    REACHING[way](here, outside)
    before = _contents(outside)
    for arguments in (["--commit"], ["--commit", "--branch", "other"]):
        ran = cli("apply", *arguments)
        assert ran.status == 2, ran.err
        assert "would write outside of this repository" in ran.err or way == "HEAD", ran.err
        assert _contents(outside) == before
        assert (here / "a.py").read_text() == CUDA
    cli("apply", "--allow-dirty")
    cli("undo")
    assert _contents(outside) == before


def _may_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "t")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "t@example.org")


def _contents(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in files}


@pytest.mark.parametrize("kind", ["worktree", "submodule", "plain", "separate directory that is named back"])
def test_what_git_makes_itself_takes_commits(here: Path, cli: Cli, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The innocent twins: `.git` files that git wrote."""
    _may_commit(monkeypatch)
    other = _other(here.parent)
    if kind == "worktree":
        git(other, "worktree", "add", "-q", "-b", "next", str(here / "tree"))
    elif kind == "submodule":
        git(here, "init", "-q")
        git(here, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "tree")
    elif kind == "plain":
        git(here, "clone", "-q", str(other), "tree")
    else:
        git(here, "clone", "-q", "--separate-git-dir", str(here / "apart"), str(other), "tree")
        git(here / "tree", "config", "core.worktree", str(here / "tree"))
    monkeypatch.chdir(here / "tree")
    ran = cli("apply", "--commit")
    assert ran.status == 0, ran.err
    assert git(here / "tree", "status", "--porcelain") == ""
    assert len(git(here / "tree", "log", "--format=%h").splitlines()) >= 2


_BARE = {
    "ext": ('url = "ext::{program} %S"', ""),
    "uploadpack": ("url = {clone}/.git", "uploadpack = {program}"),
    "relative": ("url = ./.git", "uploadpack = ./evil.sh"),
}


@pytest.mark.parametrize("way", _BARE)
@pytest.mark.parametrize("place", ["", "vendor/inner"])
def test_a_fleet_takes_no_bare_repository_that_came_with_a_clone(
    here: Path, canaries: Canaries, way: str, place: str
) -> None:
    """Committed files `HEAD objects/ refs/ config`, whose config names a promisor remote with a program."""
    clone = write_tree(here / "clone", {f"{place}/a.py".lstrip("/"): CUDA})
    planted = clone / place
    names = {
        "HEAD": "1234567890" * 4 + "\n",
        "refs/heads/.keep": "",
        "objects/info/.keep": "",
        "objects/pack/.keep": "",
    }
    write_tree(planted, names)
    program = canaries.program("fetched", "exit 1")
    shutil.copy(program, planted / "evil.sh")
    url, more = (text.format(program=program, clone=clone) for text in _BARE[way])
    settings = "[core]\nrepositoryformatversion = 1\nbare = true\n[extensions]\npartialClone = origin\n"
    settings += f'[remote "origin"]\npromisor = true\n{url}\n{more}\n[protocol "ext"]\nallow = always\n'
    (planted / "config").write_text(settings)
    git(clone, "init", "-q")
    git(clone, "-c", "safe.bareRepository=explicit", "add", "-A")
    git(clone, "-c", "safe.bareRepository=explicit", "commit", "-qm", "x")
    subprocess.run(["git", "cat-file", "-t", "HEAD"], cwd=planted, env={**os.environ, "GIT_DIR": "."}, check=False)
    assert canaries.heard() == {"fetched"}  # the control
    task = Task("n", str(planted), "", False, "n", "apply")
    found = origin(task)
    assert canaries.heard() == set()
    assert found.commit == git(clone, "rev-parse", "HEAD").strip()
    assert take(found, here, "tree").root.joinpath("a.py").read_text() == CUDA
    shutil.rmtree(clone / ".git")  # as a plain folder, it is a bare repository, whose programs do not run either
    with pytest.raises(UserError):
        origin(task)
    assert canaries.heard() == set()


def test_a_fleet_asks_hosts_without_the_settings_of_the_current_directory(
    hostile: Path, canaries: Canaries, tmp_path: Path
) -> None:
    """`ls-remote` uses the user's credentials and proxies, and none that a clone around names."""
    other = _other(tmp_path)
    git(hostile, "config", f"url.ext::{canaries.program('rewritten', 'exit 1')}.insteadOf", "file://")
    canaries.heard()
    task = Task("n", f"file://{other}", "", True, "n", "apply")
    assert origin(task).commit == git(other, "rev-parse", "HEAD").strip()
    assert canaries.heard() == set()


def test_a_bare_repository_in_the_tree_is_a_directory(hostile: Path, canaries: Canaries, cli: Cli) -> None:
    canaries.heard()
    ran = cli("apply", "bare")
    assert ran.status == 0, ran.err
    assert (hostile / "bare" / "below.py").read_text() != CUDA
    assert canaries.heard() == set()
    found = git_tree.repository(hostile / "bare")
    assert found is not None and found.top == hostile


def test_files_below_a_link_that_the_index_takes_for_a_directory(here: Path, cli: Cli) -> None:
    """`git ls-files` names sub/a.py; sub has become a link to somebody else's directory."""
    git(here, "init", "-q")
    write_tree(here, {"sub/a.py": CUDA, "b.py": CUDA})
    git(here, "add", "-A")
    git(here, "commit", "-qm", "x")
    outside = write_tree(here.parent / "outside", {"a.py": CUDA})
    (here / "sub" / "a.py").unlink()
    (here / "sub").rmdir()
    (here / "sub").symlink_to(outside)
    assert cli("apply", "--allow-dirty").status == 0
    assert (here / "b.py").read_text() != CUDA
    assert (outside / "a.py").read_text() == CUDA
    assert sorted(path.name for path in outside.iterdir()) == ["a.py"]


def test_the_settings_that_are_taken_back() -> None:
    listing = "\0".join(
        [
            *("system", "filter.lfs.clean\ngit-lfs clean -- %f"),
            *("global", "gpg.program\n/usr/bin/gpg2"),
            *("local", "filter.lfs.clean\nevil"),
            *("local", "filter.a=b.c.process\nevil"),
            *("worktree", "filter.bare.required"),
            *("local", "gpg.program\nevil"),
            *("local", "gpg.ssh.program\nevil"),
            *("local", "user.name\nfilter.x.clean"),
            *("command", "filter.mine.clean\nmine"),
            *("global", "hook.mine.command\nmine"),
            *("local", "hook.evil.command\nevil"),
            *("local", "hook.evil.event\nreference-transaction"),
            "",
        ]
    )
    assert hardening.overridden(listing.encode()) == {
        "filter.a=b.c.process": "",
        "filter.bare.required": "",
        "filter.lfs.clean": "git-lfs clean -- %f",
        "gpg.program": "/usr/bin/gpg2",
        "gpg.ssh.program": "ssh-keygen",
        "hook.evil.enabled": "false",
    }


def test_settings_in_the_environment_are_kept() -> None:
    found = hardening.environment({"GIT_CONFIG_COUNT": "2"}, {"filter.x=y.clean": ""})
    assert "GIT_CONFIG_KEY_0" not in found
    assert (found["GIT_CONFIG_KEY_2"], found["GIT_CONFIG_VALUE_2"]) == ("filter.x=y.clean", "")
    assert found["GIT_CONFIG_COUNT"] == "3"
    assert "GIT_CONFIG_COUNT" not in hardening.environment({"GIT_CONFIG_COUNT": "2"}, {})


# ---- what git answers, and what it leaves


def _touched(path: Path) -> None:
    """The file has the time of a change and none, so that git wants to note that in its index."""
    os.utime(path, (1, 1))


@pytest.mark.parametrize("kind", ["plain", "worktree", "linked index", "linked .git"])
def test_a_check_since_a_commit_leaves_the_index(
    here: Path, cli: Cli, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain `git diff` writes it, first shown: also where a link leads to it, or it is another worktree's."""
    _may_commit(monkeypatch)
    other = _other(here.parent)
    tree = here.parent / "tree"
    if kind == "worktree":
        git(other, "worktree", "add", "-q", "-b", "next", str(tree))
        index = other / ".git" / "worktrees" / "tree" / "index"
    else:
        git(here, "clone", "-q", str(other), str(tree))
        index = tree / ".git" / "index"
    if kind == "linked index":
        index = index.rename(here.parent / "index")
        (tree / ".git" / "index").symlink_to(index)
    elif kind == "linked .git":
        (tree / ".git").rename(here.parent / "apart")
        (tree / ".git").symlink_to(here.parent / "apart")
        index = here.parent / "apart" / "index"
    monkeypatch.chdir(tree)
    _touched(tree / "a.py")
    before = index.read_bytes()
    ran = cli("check", "--since", "HEAD")
    assert "internal error" not in ran.err and index.read_bytes() == before
    git(tree, "diff", "HEAD")
    assert index.read_bytes() != before


def test_a_check_since_a_commit_sees_a_change_in_the_second_of_the_commit(here: Path, cli: Cli) -> None:
    """The change keeps size and time: git compares content where the index is no newer, and its copy must not be."""
    git(here, "init", "-q")
    git(here, "config", "core.trustctime", "false")
    write_tree(here, {"a.py": "import torch\n\ntorch.cuda.synchronize()\n"})
    os.utime("a.py", (1e9, 1e9))
    git(here, "add", "-A")
    git(here, "commit", "-qm", "x")
    Path("a.py").write_text("import torch\n\ntorch.cuda.empty_cache()\n")
    os.utime("a.py", (1e9, 1e9))
    os.utime(".git/index", (1e9, 1e9))
    ran = cli("check", "--since", "HEAD")
    assert (ran.status, "memory/empty-cache" in ran.out) == (1, True)


def test_a_check_since_a_commit_in_a_hook_that_has_another_index(
    here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    _other(here.parent)
    monkeypatch.chdir(here.parent / "mine")
    write_tree(here.parent / "mine", {"new.py": CUDA})
    shutil.copyfile(".git/index", ".git/other")
    monkeypatch.setenv("GIT_INDEX_FILE", ".git/other")
    git(here.parent / "mine", "add", "new.py")
    before = Path(".git/other").read_bytes()
    assert cli("check", "--since", "HEAD").status == 1
    assert Path(".git/other").read_bytes() == before


@pytest.mark.parametrize(
    "damage", ["an object", "the index", "a sparse index", "a branch", "a directory for the index"]
)
@pytest.mark.parametrize("arguments", [("check", "--staged"), ("check", "--since", "HEAD"), ("apply", "--commit")])
def test_a_damaged_repository_is_told_as_such(
    here: Path, cli: Cli, damage: str, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    _may_commit(monkeypatch)
    tree = _other(here.parent)
    monkeypatch.chdir(tree)
    write_tree(tree, {"b.py": CUDA})
    git(tree, "add", "b.py")
    if damage == "an object":
        for blob in (tree / ".git" / "objects").glob("??/*"):
            blob.chmod(0o600)
            blob.write_bytes(b"no object")
    elif damage == "the index":
        (tree / ".git" / "index").write_bytes(b"DIRC no index")
    elif damage == "a sparse index":
        os.truncate(tree / ".git" / "index", 200_000_000_000)
    elif damage == "a branch":
        (tree / ".git" / "refs" / "heads" / "main").write_text("no hash\n")
    else:
        (tree / ".git" / "index").unlink()
        (tree / ".git" / "index").mkdir()
    ran = cli(*arguments)
    assert "internal error" not in ran.err and "Traceback" not in ran.err, ran.err
    assert ran.status in (1, 2), ran.err
    assert (tree / "a.py").read_text() == (tree / "b.py").read_text() == CUDA


@pytest.mark.parametrize("arguments", [("check",), ("check", "--since", "HEAD"), ("apply",)])
def test_a_repository_that_makes_git_wait_for_ever(
    arguments: tuple[str, ...], here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardening, "_PATIENCE", 0.7)
    git(here, "init", "-q")
    write_tree(here, {"a.py": CUDA})
    git(here, "add", ".")
    git(here, "commit", "-q", "-m", "first")
    (here / ".git" / "index").unlink()
    os.mkfifo(here / ".git" / "index")
    ran = cli(*arguments)
    assert ran.status == 2
    assert "git: no answer within 0.7 seconds" in ran.err
    assert (here / "a.py").read_text() == CUDA
