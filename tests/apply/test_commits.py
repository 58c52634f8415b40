"""`apply --commit`: what each commit holds and says, and what of the user's stays as it is."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest
from conftest import Ran, git, write_tree

from torchmigrate.apply import commits
from torchmigrate.base import file_io
from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics.finding import Changed
from torchmigrate.engine import divide, planner
from torchmigrate.project import context
from torchmigrate.project.context import ProjectContext
from torchmigrate.project.helper_file import runtime_source
from torchmigrate.rules import packs

Cli = Callable[..., Ran]

TRAIN = """\
import torch

model = torch.nn.Linear(2, 2).cuda()
with torch.cuda.amp.autocast():
    model(torch.zeros(2, 2, device="cuda"))
torch.cuda.empty_cache()
if torch.cuda.is_available():
    model = model.cuda()
    torch.cuda.synchronize()
"""
CAPTURE = """\
import torch


def capture(model, batch):
    if torch.cuda.is_available():
        batch = batch.cuda()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            model(batch)
    torch.cuda.empty_cache()
"""
FILES = {"train.py": TRAIN, "pkg/capture.py": CAPTURE, "notes.txt": "one\n", "clean.py": "x = 1\n"}
SUBJECTS = [
    "Add accel.py, which asks torch for the device that is there",
    packs.load_pack(packs.builtin() / "device").subject,
    packs.load_pack(packs.builtin() / "amp").subject,
    packs.load_pack(packs.builtin() / "memory").subject,
    packs.load_pack(packs.builtin() / "stream").subject,
]


def commit_all(here: Path, files: Mapping[str, str | bytes] = FILES) -> str:
    write_tree(here, files)
    if not (here / ".git").exists():
        git(here, "init", "-q", "-b", "main")
    git(here, "add", "-A")
    git(here, "commit", "-q", "-m", "base")
    return head(here)


def head(here: Path) -> str:
    return git(here, "rev-parse", "HEAD").strip()


def subjects(here: Path, base: str) -> list[str]:
    return git(here, "log", "--reverse", "--format=%s", f"{base}..HEAD").splitlines()


def at(here: Path, commit: str) -> dict[str, str]:
    """The Python files of a commit."""
    names = git(here, "ls-tree", "-r", "--name-only", commit).splitlines()
    return {name: git(here, "show", f"{commit}:{name}") for name in names if name.endswith(".py")}


@pytest.fixture
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Ann Müller")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "ann@example.org")


@pytest.fixture
def project(here: Path, identity: None) -> Path:
    commit_all(here)
    return here


def test_one_commit_for_each_pack_and_the_helper_first(project: Path, cli: Cli) -> None:
    base = head(project)
    ran = cli("apply", "--commit")
    assert ran.status == 0, ran.err
    assert subjects(project, base) == SUBJECTS
    assert git(project, "status", "--porcelain") == ""
    assert git(project, "log", "-1", "--format=%an <%ae> %cn") == "Ann Müller <ann@example.org> Ann Müller\n"
    assert "5 commits on main, without the repository's hooks:" in ran.err
    assert f"`git reset --keep {base[:10]}` takes them back" in ran.last
    assert cli("apply", "--commit").last == "note: nothing to commit"
    assert subjects(project, base) == SUBJECTS


def test_every_commit_stands_alone(project: Path, cli: Cli) -> None:
    base = head(project)
    assert cli("apply", "--commit").status == 0
    for commit in git(project, "rev-list", "--reverse", f"{base}..HEAD").split():
        for name, text in at(project, commit).items():
            tree = ast.parse(text)
            imported = {a.asname or a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
            imported |= {a.name for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for a in n.names}
            assert ("accel." not in text or "accel" in imported) and ("torch." not in text or "torch" in imported), name
    last = at(project, "HEAD")
    git(project, "reset", "-q", "--hard", base)
    assert cli("apply").status == 0
    assert {name: (project / name).read_text() for name in last} == last  # the same as without --commit


def test_each_step_is_what_its_packs_alone_would_give(project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    base = head(project)
    assert cli("apply", "--commit").status == 0
    steps = git(project, "rev-list", "--reverse", f"{base}..HEAD").split()[1:]
    for at_step, commit in enumerate(steps, 1):
        packs = frozenset(["device", "amp", "memory", "stream"][:at_step])
        monkeypatch.setattr(context, "ProjectContext", partial(ProjectContext, fixing=packs))
        git(project, "checkout", "-q", base)
        plan = planner.plan([project], Settings(root=project), 1, "apply")
        wanted = {r.path: r.after.decode() for r in plan.results if isinstance(r, Changed)}
        for name, text in at(project, commit).items():
            if name != "accel.py":  # the first commit adds all that the last needs
                assert wanted.get(project / name, text) == text
        git(project, "checkout", "-q", commit)
        again = planner.plan([project], Settings(root=project), 1, "apply").results
        assert not [r for r in again if isinstance(r, Changed)]  # and at rest


def test_a_guarded_region_waits_for_the_last_pack_that_it_needs(project: Path, cli: Cli) -> None:
    base = head(project)
    assert cli("apply", "--commit").status == 0
    *_, before, last = git(project, "rev-list", "--reverse", f"{base}..HEAD").split()
    region = TRAIN[TRAIN.index("if torch") :]
    assert region in at(project, before)["train.py"]  # whole, with four commits of other things around it
    now = at(project, last)["train.py"]
    assert re.search(
        r"if accel.is_available\(\):\n    model = model.to\((accel.device\(\)|device)\)\n    accel.synchronize\(\)\n",
        now,
    )
    body = git(project, "log", "-1", "--format=%b")
    assert body.startswith("- stream/synchronize (1): ")
    assert "Code behind a test for CUDA changes together with the test" in body
    assert "- device/is-available (1): " in body and "- device/tensor-cuda (1): " in body


def test_what_only_nvidia_has_keeps_its_guard_in_every_commit(project: Path, cli: Cli) -> None:
    """`--select device` would not know that memory's or hazard's rules object; here all rules look."""
    base = head(project)
    assert cli("apply", "--commit").status == 0
    for commit in git(project, "rev-list", f"{base}..HEAD").split():
        assert (
            "    if torch.cuda.is_available():\n        batch = batch.cuda()\n" in at(project, commit)["pkg/capture.py"]
        )


def test_messages_say_what_and_why(project: Path, cli: Cli) -> None:
    assert cli("apply", "--commit").status == 0
    for message in git(project, "log", "--format=%B%x00", "-5").split("\0")[:-1]:
        subject, blank, *body = message.strip().splitlines()
        assert len(subject) <= 72 and not subject.endswith(".") and blank == "" and body
        assert all(len(line) <= 72 for line in body), message
        assert "torchmigrate" not in message
    device = git(project, "log", "--format=%b", "-1", "HEAD~3")
    assert "- device/tensor-cuda (1): `x.cuda()` raises" in device
    assert "- device/device-string (1): " in device


def test_reasons_are_one_sentence_of_every_rule() -> None:
    for rule in packs.load(cases=False).rules.values():
        assert 10 < len(divide.reason(rule)) < 400, rule.id


def test_branch_is_made_and_the_old_one_stays(project: Path, cli: Cli) -> None:
    base = head(project)
    ran = cli("apply", "--branch", "portable")
    assert ran.status == 0, ran.err
    assert git(project, "branch", "--show-current") == "portable\n"
    assert git(project, "rev-parse", "main").strip() == base
    assert subjects(project, base) == SUBJECTS and git(project, "status", "--porcelain") == ""
    assert ran.last == "`git switch -` goes back to where you were, which is as it was"
    git(project, "switch", "-q", "-")
    assert head(project) == base and (project / "train.py").read_text() == TRAIN
    again = cli("apply", "--branch", "portable")
    assert again.status == 2 and "there is a branch `portable` already" in again.err
    bad = cli("apply", "--branch", "a..b")
    assert bad.status == 2 and "`a..b` cannot be the name of a branch" in bad.err


def test_no_branch_where_nothing_is_rewritten(here: Path, identity: None, cli: Cli) -> None:
    commit_all(here, {"clean.py": "x = 1\n"})
    assert cli("apply", "--branch", "portable").last == "note: nothing to commit"
    assert git(here, "branch", "--show-current") == "main\n"
    assert "portable" not in git(here, "branch")


def test_what_else_is_dirty_stays_as_it_is(project: Path, cli: Cli) -> None:
    (project / "notes.txt").write_text("staged\n")
    write_tree(project, {"new.txt": "staged too\n", "clean.py": "x = 2\n", "loose.txt": "untracked\n"})
    git(project, "add", "notes.txt", "new.txt")
    (project / "notes.txt").write_text("and more\n")
    before = git(project, "status", "--porcelain")
    base, config = head(project), (project / ".git/config").read_bytes()
    ran = cli("apply", "--commit")
    assert ran.status == 0, ran.err
    assert git(project, "status", "--porcelain") == before == " M clean.py\nA  new.txt\nMM notes.txt\n?? loose.txt\n"
    assert git(project, "show", ":notes.txt") == "staged\n" and (project / "notes.txt").read_text() == "and more\n"
    changed = set(git(project, "diff", "--name-only", base, "HEAD").split())
    assert changed == {"accel.py", "pkg/accel.py", "train.py", "pkg/capture.py"}
    assert (project / ".git/config").read_bytes() == config
    assert git(project, "stash", "list") == ""


@pytest.mark.parametrize("staged", [True, False])
def test_changes_in_a_file_to_be_rewritten_are_refused(project: Path, cli: Cli, staged: bool) -> None:
    base = head(project)
    (project / "train.py").write_text(TRAIN + "# mine\n")
    if staged:
        git(project, "add", "train.py")
    ran = cli("apply", "--commit")
    assert ran.status == 2 and f"train.py   ({'staged' if staged else 'unstaged'})" in ran.err
    assert "would get into the commits" in ran.err and "help: commit or stash them first" in ran.err
    assert head(project) == base and (project / "train.py").read_text() == TRAIN + "# mine\n"
    assert "--allow-dirty does not go with --commit" in cli("apply", "--commit", "--allow-dirty").err


def test_an_untracked_file_is_not_committed_for_the_user(project: Path, cli: Cli) -> None:
    (project / "scratch.py").write_text("import torch\ntorch.cuda.empty_cache()\n")
    ran = cli("apply", "--commit")
    assert ran.status == 2 and "scratch.py   (untracked)" in ran.err
    assert not (project / "accel.py").exists()


def test_a_helper_that_an_earlier_run_left_uncommitted_comes_first(project: Path, cli: Cli) -> None:
    base = head(project)
    (project / "accel.py").write_bytes(runtime_source())
    assert cli("apply", "--commit").status == 0
    assert subjects(project, base) == SUBJECTS
    assert git(project, "status", "--porcelain") == ""


def test_hooks_do_not_run_and_are_said_not_to(project: Path, cli: Cli) -> None:
    for name in ("pre-commit", "commit-msg", "post-commit", "reference-transaction", "post-index-change"):
        hook = project / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch '{project}/ran-{name}'\nexit 1\n")
        hook.chmod(0o755)
    ran = cli("apply", "--commit")
    assert ran.status == 0 and "without the repository's hooks" in ran.err
    assert not list(project.glob("ran-*"))


GPG = """\
#!{python}
import sys
text = sys.stdin.buffer.read()
with open({log!r}, "ab") as log:
    log.write(" ".join(sys.argv[1:]).encode() + b"\\n" + text + b"\\0")
if {fails}:
    sys.exit("gpg: signing failed: No secret key")
sys.stderr.write("[GNUPG:] SIG_CREATED D 1 8 00 1 0123456789ABCDEF0123456789ABCDEF01234567\\n")
sys.stdout.write("-----BEGIN PGP SIGNATURE-----\\n\\nfake\\n-----END PGP SIGNATURE-----\\n")
"""


@pytest.fixture
def signing(project: Path, tmp_path: Path) -> Callable[..., Path]:
    """Commits are to be signed, by a program that writes down what it is asked to sign, and signs or fails."""

    def make(fails: bool = False) -> Path:
        if os.name == "nt":
            pytest.skip("the program begins with #!")
        log, program = tmp_path / "signed", tmp_path / "a gpg"
        program.write_text(GPG.format(python=sys.executable, log=str(log), fails=fails))
        program.chmod(0o755)
        for name, value in (("commit.gpgSign", "true"), ("gpg.program", str(program)), ("user.signingKey", "ann")):
            git(project, "config", "--global", name, value)  # not the repository's: it may name no program
        return log

    return make


def test_commits_are_signed_where_git_is_told_to(project: Path, cli: Cli, signing: Callable[..., Path]) -> None:
    base, log = head(project), signing()
    ran = cli("apply", "--commit")
    assert ran.status == 0, ran.err
    made = git(project, "rev-list", "--reverse", f"{base}..HEAD").split()
    signed = log.read_bytes().split(b"\0")[:-1]
    assert len(made) == len(signed) == len(SUBJECTS)
    for commit, (asked, _, text) in zip(made, (each.partition(b"\n") for each in signed), strict=True):
        stored = git(project, "cat-file", "commit", commit)
        assert "\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n fake\n -----END PGP SIGNATURE-----\n" in stored
        unsigned = re.sub(r"^gpgsig .*\n(?: .*\n)*", "", stored, flags=re.M)
        assert text.decode() == unsigned and asked.endswith(b"ann")
    assert git(project, "status", "--porcelain") == ""


def test_nothing_is_written_where_signing_fails(project: Path, cli: Cli, signing: Callable[..., Path]) -> None:
    base, log = head(project), signing(fails=True)
    ran = cli("apply", "--commit")
    assert ran.status == 2 and log.exists()
    assert (
        "error: git could not make the commits, so nothing was written: gpg failed to sign the data\nhelp: " in ran.err
    )
    assert "see that `git commit -S` works here" in ran.err
    assert head(project) == base and git(project, "status", "--porcelain") == ""
    assert (project / "train.py").read_text() == TRAIN


def test_a_commit_is_not_signed_where_git_is_not_told_to(project: Path, cli: Cli, signing: Callable[..., Path]) -> None:
    log = signing()
    git(project, "config", "commit.gpgSign", "false")
    assert cli("apply", "--commit").status == 0 and not log.exists()


def test_modes_line_ends_and_filters_are_git_s(here: Path, identity: None, cli: Cli) -> None:
    write_tree(here, {".gitattributes": "*.py text eol=crlf\n", "run.py": TRAIN.replace("\n", "\r\n")})
    (here / "run.py").chmod(0o755)
    base = commit_all(here, {})
    assert cli("apply", "--commit").status == 0
    assert git(here, "status", "--porcelain") == ""
    assert git(here, "ls-tree", "HEAD", "run.py").startswith("100755 ")
    stored = subprocess.run(["git", "show", "HEAD:run.py"], cwd=here, capture_output=True, check=True).stdout
    assert b"\r" not in stored and b"\r\n" in (here / "run.py").read_bytes()
    assert git(here, "diff", "--stat", base, "HEAD", "--", "run.py").count("|") == 1


def test_an_own_pack_has_a_subject_too(project: Path, cli: Cli) -> None:
    rule = 'summary = "s"\nsafety = "safe"\nbackends = ["mps"]\nwhy = "Because. More."\n'
    rule += '[[rewrite]]\nmatch = "torch.cuda.reset_max()"\nwith = "accel.empty_cache()"\n'
    rule += '[[case]]\ntitle = "t"\nbefore = "x = 1\\n"\n'
    files = {"rules/mine/reset.toml": rule, "pyproject.toml": '[tool.torchmigrate]\nrule-paths = ["rules"]\n'}
    base = commit_all(project, files | {"mine.py": "import torch\ntorch.cuda.reset_max()\n"})
    ran = cli("apply", "--commit")
    assert ran.status == 0, ran.err
    assert "Apply the rules of mine" in subjects(project, base)
    assert "- mine/reset (1): Because.\n" in git(project, "log", "--format=%b", f"{base}..HEAD")


def test_dry_run_tells_the_commits_and_makes_none(project: Path, cli: Cli) -> None:
    base = head(project)
    ran = cli("apply", "--commit", "--dry-run")
    assert ran.status == 1 and "+import accel" in ran.out
    assert [line for line in ran.err.splitlines() if line.startswith("would")] == [
        f"would commit: {s}" for s in SUBJECTS
    ]
    assert head(project) == base and git(project, "status", "--porcelain") == ""


# ---- where it refuses


def test_outside_of_git(here: Path, identity: None, cli: Cli) -> None:
    write_tree(here, FILES)
    ran = cli("apply", "--commit")
    assert ran.status == 2 and "--commit needs git, and this directory is in no work tree of it" in ran.err
    assert (here / "train.py").read_text() == TRAIN


def test_without_a_commit(here: Path, identity: None, cli: Cli) -> None:
    git(here, "init", "-q")
    write_tree(here, FILES)
    ran = cli("apply", "--commit")
    assert ran.status == 2 and "this repository has no commit yet" in ran.err


def test_detached_head_wants_a_branch(project: Path, cli: Cli) -> None:
    git(project, "checkout", "-q", "--detach")
    ran = cli("apply", "--commit")
    assert ran.status == 2 and "HEAD is on no branch" in ran.err and "--branch NAME" in ran.err
    assert cli("apply", "--branch", "portable").status == 0
    assert git(project, "branch", "--show-current") == "portable\n"


@pytest.mark.parametrize("state", ["merge", "rebase"])
def test_in_the_middle_of_something(project: Path, cli: Cli, state: str) -> None:
    git(project, "switch", "-q", "-c", "side")
    (project / "notes.txt").write_text("side\n")
    git(project, "commit", "-q", "-am", "side")
    git(project, "switch", "-q", "main")
    (project / "notes.txt").write_text("main\n")
    git(project, "commit", "-q", "-am", "main")
    with pytest.raises(subprocess.CalledProcessError):
        git(project, state, "side")
    ran = cli("apply", "--branch", "portable")
    assert ran.status == 2 and f"git is in the middle of a {state}" in ran.err
    assert (project / "train.py").read_text() == TRAIN


def test_without_an_identity(here: Path, cli: Cli) -> None:
    commit_all(here)
    ran = cli("apply", "--commit")
    assert ran.status == 2 and "git does not know who makes the commits" in ran.err
    assert "`git config user.name NAME`" in ran.err and (here / "train.py").read_text() == TRAIN


def test_another_repository_inside(project: Path, cli: Cli) -> None:
    inner = project / "inner"
    inner.mkdir()
    commit_all(inner, {"a.py": "import torch\ntorch.cuda.empty_cache()\n"})
    ran = cli("apply", "--commit", ".", "inner")
    assert ran.status == 2 and "does not lie in the repository" in ran.err
    assert (project / "train.py").read_text() == TRAIN


# ---- interrupted, and back


def test_ctrl_c_while_writing_leaves_head(project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    base, real, done = head(project), file_io.write, []

    def stop(path: Path, before: bytes | None, after: bytes) -> None:
        if done:
            raise KeyboardInterrupt
        done.append(path)
        real(path, before, after)

    monkeypatch.setattr(file_io, "write", stop)
    ran = cli("apply", "--commit")
    assert ran.status == 130 and "1 of 4 files were written" in ran.err
    assert head(project) == base and git(project, "diff", "--cached") == ""
    monkeypatch.setattr(file_io, "write", real)
    assert cli("undo").status == 0
    assert (project / "train.py").read_text() == TRAIN and not (project / "accel.py").exists()


def test_ctrl_c_while_the_commits_are_made_leaves_all(project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    base = head(project)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commits, "_modes", stop)
    ran = cli("apply", "--commit")
    assert ran.status == 130 and "nothing was written" in ran.err
    assert head(project) == base and git(project, "status", "--porcelain") == ""


def test_ctrl_c_waits_while_the_branch_moves(project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    real = commits._publish

    def interrupted(made: commits.Made) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        real(made)

    monkeypatch.setattr(commits, "_publish", interrupted)
    base = head(project)
    assert cli("apply", "--commit").status == 0
    assert subjects(project, base) == SUBJECTS and git(project, "status", "--porcelain") == ""


def test_a_file_that_cannot_be_written_stops_the_commits(
    project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, real = head(project), file_io.write

    def fails(path: Path, before: bytes | None, after: bytes) -> None:
        if path.name == "train.py":
            raise OSError(28, "No space left on device")
        real(path, before, after)

    monkeypatch.setattr(file_io, "write", fails)
    ran = cli("apply", "--commit")
    assert ran.status == 2 and "nothing was committed: train.py was not written: no space left" in ran.err
    assert head(project) == base


def test_an_index_that_is_locked_leaves_head(project: Path, cli: Cli) -> None:
    base = head(project)
    (project / ".git/index.lock").touch()
    ran = cli("apply", "--commit")
    assert ran.status == 2 and "git could not move main" in ran.err and "torchmigrate undo" in ran.err
    (project / ".git/index.lock").unlink()
    assert head(project) == base
    assert cli("undo").status == 0
    assert git(project, "status", "--porcelain") == ""


def test_undo_says_how_git_takes_commits_back(project: Path, cli: Cli) -> None:
    base = head(project)
    assert cli("apply", "--commit").status == 0
    ran = cli("undo")
    assert ran.status == 2 and "the last apply was committed" in ran.err
    assert f"`git reset --keep {base[:10]}`" in ran.err and "git revert" in ran.err
    assert git(project, "status", "--porcelain") == ""
    git(project, "reset", "-q", "--keep", base[:10])
    assert (project / "train.py").read_text() == TRAIN
    assert cli("undo").status == 0 and (project / "train.py").read_text() == TRAIN
