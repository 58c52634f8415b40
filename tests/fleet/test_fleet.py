"""`torchmigrate fleet`: many repositories, killed and resumed, by processes and by a dask cluster."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Ran, git
from same_process import fleet_in_process

from torchmigrate import __version__
from torchmigrate.base.text import UserError
from torchmigrate.fleet import processes, repositories
from torchmigrate.fleet.processes import PATIENCE, Workers, start_line
from torchmigrate.fleet.task import Outcome, Store, Task
from torchmigrate.verify import backends

Cli = Callable[..., Ran]
CODE = "import torch\n\nx = torch.ones({n}).cuda()\ntorch.cuda.empty_cache()\ngraph = torch.cuda.CUDAGraph()\n"
RESULTS = ("changes.patch", "changes.bundle", "findings.json", "log.txt")


def repository(top: Path, files: dict[str, bytes]) -> Path:
    """A git repository with one commit, of a fixed date."""
    top.mkdir(parents=True)
    git(top, "init", "-q")
    folder(top, files)
    git(top, "add", ".")
    git(top, "commit", "-q", "-m", "first", "--date", "2026-01-01T00:00:00Z")
    return top


def folder(top: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(data)
    return top


def code(n: int = 2) -> bytes:
    return CODE.format(n=n).encode()


def listed(here: Path, *lines: str) -> str:
    (here / "repos.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return "repos.txt"


def summaries(out: Path) -> dict[str, dict[str, Any]]:
    return {path.parent.name: json.loads(path.read_bytes()) for path in sorted(out.glob("*/summary.json"))}


def results(out: Path) -> dict[str, bytes]:
    """All bytes of all results; of summaries what does not depend on the day."""
    found = {f"{p.parent.name}/{p.name}": p.read_bytes() for name in RESULTS for p in out.glob(f"*/{name}")}
    for name, summary in summaries(out).items():
        for key in ("run", "source", "digest"):  # a digest has the options in it
            summary.pop(key, None)
        found[f"{name}/summary.json"] = json.dumps(summary).encode()
    return found


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of results; those of the processes are below."""
    fleet_in_process(monkeypatch)


without_processes = pytest.mark.usefixtures("in_process")


# ---- the list


def read(tmp_path: Path, text: str) -> list[repositories.Source]:
    return repositories.read(tmp_path / "r.txt", text)[0]


def test_a_list(tmp_path: Path) -> None:
    (tmp_path / "a b@c").mkdir()
    (tmp_path / "plain").mkdir()
    text = (
        '# comment\n\nplain # why\n"a b@c" spaced\nplain@v1 tagged\nhttps://u:pw@h/o/x.git@feat/y\n'
        "git@h.org:o/z.git\nssh://git@h/o/w@v2 w\n"
    )
    found = [(s.location.removeprefix(f"{tmp_path}/"), s.rev, s.name, s.is_url) for s in read(tmp_path, text)]
    assert found == [
        ("plain", "", "plain", False),
        ("a b@c", "", "spaced", False),
        ("plain", "v1", "tagged", False),
        ("https://u:pw@h/o/x.git", "feat/y", "x", True),
        ("git@h.org:o/z.git", "", "z", True),
        ("ssh://git@h/o/w", "v2", "w", True),
    ]


def test_a_password_is_not_shown(tmp_path: Path) -> None:
    (source,) = read(tmp_path, "https://me:secret@h/o/x.git@v1\n")
    assert source.shown == "https://h/o/x.git@v1"
    assert "secret" in source.location


def test_what_stands_there_twice_counts_once(tmp_path: Path) -> None:
    sources, notes = repositories.read(tmp_path / "r.txt", "x\nx\nx@v1\n./x\n")
    assert [s.place.rpartition(":")[2] for s in sources] == ["1", "3"]
    assert len(notes) == 2
    assert notes[0].startswith(f"{tmp_path}/r.txt:2: ")


def test_two_of_one_name(tmp_path: Path) -> None:
    assert [s.name for s in read(tmp_path, "a/utils\nb/utils\nc\n")] == ["a-utils", "b-utils", "c"]
    assert [s.name for s in read(tmp_path, "https://h/o/report.json\n")] == ["o-report.json"]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a\nb c d\n", 2, "more than a source and a name"),
        ("a ../b\n", 1, "cannot be a name"),
        ("a report.json\n", 1, "cannot be a name"),
        ("ext::sh -c x\n", 1, "more than a source"),
        ("ext://h/x\n", 1, "not a way to take a repository"),
        ("https://\n", 1, "not a whole URL"),
        ("--upload-pack=x\n", 1, "neither a path nor a git URL"),
        ("https://h/x@-q\n", 1, "cannot be a revision"),
        ("https://h/x@a..b\n", 1, "cannot be a revision"),
        ('"a"b\n', 1, "cannot be read"),
        ('"a\n', 1, "cannot be read"),
        ("a one\nb one\n", 2, "is the name of"),
        ("a One\nb one\n", 2, "is the name of"),
    ],
)
def test_a_bad_line(text: str, line: int, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        repositories.read(tmp_path / "r.txt", text)
    assert f"r.txt:{line}: " in caught.value.message
    assert said in caught.value.message


def test_an_empty_list(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="names no repository"):
        repositories.read(tmp_path / "r.txt", "# nothing\n")


# ---- a run


@pytest.fixture
def five(here: Path) -> Path:
    """Repositories of all kinds, and a list of them."""
    repository(here / "good", {"train.py": code(), "sub/more.py": code(3)})
    repository(here / "crlf", {"train.py": code().replace(b"\n", b"\r\n"), "n.txt": b"x"})
    folder(here / "plain", {"train.py": code(4)})
    repository(here / "python2", {"old.py": b"import torch\nprint 'x'.cuda()\n", "new.py": code()})
    repository(here / "config", {"train.py": code(), "pyproject.toml": b"[tool.torchmigrate]\nselekt = []\n"})
    repository(here / "empty", {"README": b"nothing\n"})
    listed(here, "good", "crlf", "plain", "python2", "config", "empty", "nowhere")
    return here


def test_a_run_over_all_kinds(five: Path, cli: Cli) -> None:
    ran = cli("fleet", "repos.txt", "-o", "out", "-j2")
    assert ran.status == 2
    found = summaries(five / "out")
    assert {name: summary["status"] for name, summary in found.items()} == {
        "good": "migrated",
        "crlf": "migrated",
        "plain": "migrated",
        "python2": "incomplete",
        "config": "failed",
        "empty": "empty",
        "nowhere": "failed",
    }
    assert "pyproject.toml:2: unknown key `selekt`" in found["config"]["reason"]
    assert "not Python 3" in found["python2"]["reason"]
    assert "no such folder" in found["nowhere"]["reason"]
    assert (found["good"]["files"], found["good"]["edits"], found["good"]["needs_you"]) == (2, 4, 2)
    assert found["good"]["score"]["sites"] == 6
    assert found["good"]["score"]["everywhere"] == {"before": 0, "after": 4, "after_unsafe": 4}
    assert ran.last.startswith("7 repositories: 3 migrated, 1 empty, 1 incomplete, 2 failed. ")

    # as `apply` would have it, and nothing of the user's touched
    assert git(five / "good", "status", "--porcelain") == ""
    assert sorted(p.name for p in (five / "plain").iterdir()) == ["train.py"]
    for name in ("good", "crlf", "python2", "plain"):
        patch = five / "out" / name / "changes.patch"
        copy = five / "copies" / name
        copy.mkdir(parents=True)
        subprocess.run(["cp", "-R", f"{five / name}/.", str(copy)], check=True)
        git(copy, "init", "-q")
        git(copy, "apply", "--whitespace=nowarn", str(patch))
        assert cli("apply", str(five / name), "--allow-dirty", "-q", "--isolated").status in (0, 1, 2)
        theirs = {p.name: p.read_bytes() for p in (five / name).rglob("*.py")}
        assert {p.name: p.read_bytes() for p in copy.rglob("*.py")} == theirs

    # the reports have each repository once, and the reasons
    report = json.loads((five / "out" / "report.json").read_bytes())
    assert [r["name"] for r in report["repositories"]] == (five / "repos.txt").read_text().split()
    for page in ("report.md", "report.html"):
        text = (five / "out" / page).read_text(encoding="utf-8")
        assert all(name in text for name in found)
        assert "selekt" in text
    assert not (five / "out" / ".scratch").exists()


@without_processes
def test_commits_in_a_bundle_and_in_a_mailbox(here: Path, cli: Cli) -> None:
    crlf = code().replace(b"\n", b"\r\n")
    repository(here / "a", {"train.py": code(), "w.py": crlf})
    ran = cli("fleet", listed(here, "a"), "-o", "out", "--commit", "--branch", "port/all", "--no-score")
    assert ran.status == 0
    git(here / "a", "fetch", "-q", "../out/a/changes.bundle", "port/all:port/all")
    subjects = git(here / "a", "log", "--format=%s", "HEAD..port/all").splitlines()
    assert subjects[-1].startswith("Add accel.py")
    assert len(subjects) == 3
    git(here / "a", "am", "-q", "--keep-cr", "../out/a/changes.patch")
    assert git(here / "a", "rev-parse", "HEAD^{tree}") == git(here / "a", "rev-parse", "port/all^{tree}")
    assert b"accel" in (here / "a" / "w.py").read_bytes()
    assert b"\r\n" in (here / "a" / "w.py").read_bytes()


@without_processes
def test_urls_revisions_folders_and_bare_repositories(here: Path, cli: Cli) -> None:
    a = repository(here / "a", {"train.py": code(), "deep/er/x.py": code(7)})
    git(a, "tag", "-a", "v1", "-m", "v1")
    first = git(a, "rev-parse", "HEAD").strip()
    folder(a, {"train.py": code(9)})
    git(a, "commit", "-qam", "second")
    git(here, "clone", "-q", "--bare", "a", "b.git")
    folder(a, {"train.py": b"import torch\n"})
    lines = ["a", "a@v1 tag", "a/deep/er sub", f"file://{here}/b.git@v1 url", f"file://{here}/b.git@{first} sha"]
    ran = cli("fleet", listed(here, *lines, "b.git bare", f"file://{here}/b.git@none none"), "-o", "out", "--no-score")
    assert ran.status == 2
    found = summaries(here / "out")
    head = git(a, "rev-parse", "HEAD").strip()
    commits = {name: summary.get("commit") for name, summary in found.items()}
    assert commits == {"a": head, "tag": first, "sub": head, "url": first, "sha": first, "bare": head, "none": None}
    assert "has no `none`" in found["none"]["reason"]
    assert found["a"]["notes"] == ["changes that are not committed are left out"]
    assert found["sub"]["files"] == 1
    assert re.findall(rb"^\+\+\+ b/(.*)$", (here / "out/sub/changes.patch").read_bytes(), re.M) == [
        b"deep/er/accel.py",
        b"deep/er/x.py",
    ]
    assert (here / "out/url/changes.patch").read_bytes() == (here / "out/tag/changes.patch").read_bytes()
    assert (here / "out/sha/changes.patch").read_bytes() == (here / "out/tag/changes.patch").read_bytes()


@without_processes
def test_a_report_leads_to_results_and_counts_rules(here: Path, cli: Cli) -> None:
    repository(here / "a", {"train.py": code()})
    repository(here / "b", {"train.py": code() + b"y = y.cuda()\n"})
    cli("fleet", listed(here, "a", "b odd-name"), "-o", "out", "--no-score")
    page = (here / "out/report.html").read_text(encoding="utf-8")
    links = re.findall(r'<a href="([^"]*)">', page)
    assert {"a/changes.patch", "odd-name/findings.json", "a/log.txt"} <= {*links}
    assert all((here / "out" / link).is_file() for link in links)
    table = (here / "out/report.md").read_text(encoding="utf-8")
    assert "[patch](a/changes.patch)" in table
    rules = json.loads((here / "out/report.json").read_bytes())["rules"]
    found = [summary["rules"] for summary in summaries(here / "out").values()]
    assert rules
    for rule, counted in rules.items():
        having = [each[rule] for each in found if rule in each]
        assert counted == {"places": sum(having), "repositories": len(having)}
        assert f"| `{rule}` | {counted['places']} | {counted['repositories']} |" in table


@without_processes
def test_the_page_has_one_script_which_is_our_own(here: Path, cli: Cli) -> None:
    repository(here / "a", {"<script>.py": code()})
    cli("fleet", listed(here, "a", "<script>x"), "-o", "out", "--no-score")
    page = (here / "out/report.html").read_text(encoding="utf-8")
    own = resources.files("torchmigrate.fleet").joinpath("sort.js").read_text(encoding="utf-8")
    assert "</" not in own
    assert re.findall(r"<script>(.*?)</script>", page, re.S) == [own]
    assert "<script " not in page
    bodies = re.findall(r'<table class="sortable"><thead>(.*?)</thead>', page)
    assert len(bodies) == 2
    assert all("<button" not in body for body in bodies)  # a page without scripts offers no button that does nothing


@without_processes
def test_a_branch_is_pushed_after_a_dry_run(here: Path, cli: Cli) -> None:
    repository(here / "a", {"train.py": code()})
    git(here, "clone", "-q", "--bare", "a", "b.git")
    head = git(here / "a", "rev-parse", "HEAD").strip()
    words = ("fleet", listed(here, f"file://{here}/b.git url", "a path"), "-o", "out", "--no-score", "--branch", "port")
    ran = cli(*words, "--push", "dry-run")
    assert ran.status != 2
    assert "url: would push port to " in ran.err
    assert "path: not pushed, as your list has a path" in ran.err
    assert git(here / "b.git", "branch", "--list", "port") == ""
    assert "device/" in (here / "out/url/body.md").read_text(encoding="utf-8")
    assert "url: pushed port to " in cli(*words, "--push", "now").err
    assert git(here / "b.git", "rev-parse", "port^").strip() == head
    # what somebody else has put there is not replaced
    git(
        here / "b.git",
        "branch",
        "-f",
        "port",
        git(here / "b.git", "commit-tree", "-m", "x", f"{head}^{{tree}}").strip(),
    )
    theirs = git(here / "b.git", "rev-parse", "port").strip()
    ran = cli(*words, "--push", "now")
    assert ran.status == 2
    assert "error: url: not pushed: git push: " in ran.err
    assert git(here / "b.git", "rev-parse", "port").strip() == theirs
    assert "--push has nothing to push" in cli(*words, "--check", "--push", "now").err


def test_no_program_of_a_repository_runs(here: Path, cli: Cli) -> None:
    top = repository(here / "a", {"train.py": code(), ".gitattributes": b"*.py filter=evil diff=evil\n"})
    trap = f"touch {here}/ran; cat"
    for key in ("filter.evil.clean", "filter.evil.smudge", "diff.evil.textconv", "core.fsmonitor"):
        git(top, "config", key, trap)
    hook = top / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {here}/ran\n")
    hook.chmod(0o755)
    assert cli("fleet", listed(here, "a"), "-o", "out", "--no-score").status == 0
    assert b"+++ b/train.py" in (here / "out/a/changes.patch").read_bytes()
    assert not (here / "ran").exists()


@without_processes
def test_settings_around_the_scratch_folder_are_none_of_its_business(here: Path, cli: Cli) -> None:
    repository(here / "a", {"train.py": code()})
    (here / "pyproject.toml").write_text("[tool.torchmigrate]\nselekt = 1\n")
    assert cli("fleet", listed(here, "a"), "-o", "out", "--no-score").status == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--executor", "cluster"], "there is no such executor"),
        (["--executor", "dask://h"], "there is no such executor"),
        (["--executor", "dask://h:1", "-j2"], "-j is for --executor local"),
        (["--select", "devise"], "unknown rule or pack `devise`"),
        (["--branch", "a..b"], "cannot be the name of a branch"),
        (["--verify", "'x"], "--verify"),
        (["--backends", "gpu"], "gpu"),
    ],
)
def test_a_wrong_option(words: list[str], said: str, here: Path, cli: Cli) -> None:
    ran = cli("fleet", listed(here, "a"), "-o", "out", *words)
    assert ran.status == 2
    assert ran.err.startswith("error: ")
    assert said in ran.err


def test_a_folder_with_other_things_is_not_written_to(here: Path, cli: Cli) -> None:
    (here / "out").mkdir()
    (here / "out" / "mine").write_text("x")
    ran = cli("fleet", listed(here, "a"), "-o", "out")
    assert ran.status == 2
    assert "has other things in it" in ran.err
    assert os.listdir(here / "out") == ["mine"]


@pytest.mark.skipif(os.name == "nt", reason="POSIX links")
@without_processes
def test_links_in_the_output_folder_lead_nowhere(here: Path, cli: Cli) -> None:
    repository(here / "one", {"a.py": code()})
    words = ("fleet", listed(here, "one"), "-o", "out", "--no-score")
    assert cli(*words).status == 0
    outside = folder(here / "outside", {"summary.json": b"mine", "changes.patch": b"mine", ".scratch/x": b"mine"})
    for name, target in (("one", outside), (".scratch", outside / ".scratch")):
        shutil.rmtree(here / "out" / name, ignore_errors=True)
        (here / "out" / name).symlink_to(target)
    ran = cli(*words)
    assert ran.status == 2 and "it is a link" in ran.err
    assert {path.read_bytes() for path in outside.rglob("*") if path.is_file()} == {b"mine"}
    mark = here / "out" / ".torchmigrate-fleet"
    mark.unlink()
    mark.symlink_to(outside / "summary.json")
    ran = cli(*words)
    assert ran.status == 2 and ("symbolic link" in ran.err.lower() or "not a file of its own" in ran.err), ran.err
    assert (outside / "summary.json").read_bytes() == b"mine"


@pytest.mark.parametrize(
    "damaged",
    [
        {"status": 3},
        {"files": "many"},
        {"score": {"sites": "x"}},
        {"score": [1]},
        {"run": {"seconds": "x"}},
        {"notes": 7},
        {"verify": {}},
        {"outputs": [1]},
        {"reason": None},
        {"command": None},
    ],
)
def test_a_damaged_summary_is_none(here: Path, damaged: dict[str, Any]) -> None:
    """It is done again, and the run goes on."""
    whole = {"format": 1, "name": "one", "source": "one", "status": "clean", "command": "check", "reason": ""}
    whole |= dict.fromkeys(("files", "changed", "edits", "findings", "fixable", "unsafe", "dropped"), 0)
    whole |= dict.fromkeys(("needs_you", "suppressed", "skipped", "errors"), 0)
    store = Store(here)
    folder(here / "one", {"summary.json": json.dumps(whole).encode()})
    assert store.summary("one") == whole
    folder(here / "one", {"summary.json": json.dumps(whole | damaged).encode()})
    assert store.summary("one") is None and store.done("one") is None
    folder(here / "one", {"summary.json": b"[" * 100_000})
    assert store.summary("one") is None


def test_two_runs_at_once(here: Path, cli: Cli) -> None:
    with Store(here / "out").opened():
        ran = cli("fleet", listed(here, "a"), "-o", "out")
    assert ran.status == 2
    assert "another run is writing" in ran.err


@without_processes
def test_check_and_exit_status(here: Path, cli: Cli) -> None:
    folder(here / "a", {"train.py": b"import torch\nx = torch.ones(2)\n"})
    folder(here / "b", {"train.py": code()})
    assert cli("fleet", listed(here, "a"), "-o", "o1", "--check", "--no-score").status == 0
    assert cli("fleet", listed(here, "b"), "-o", "o2", "--check", "--no-score").status == 1
    assert not (here / "o2/b/changes.patch").exists()
    found = summaries(here / "o2")["b"]
    assert (found["status"], found["fixable"], found["needs_you"]) == ("findings", 2, 1)


# ---- resuming


def fleet_process(here: Path, *words: str) -> subprocess.Popen[bytes]:
    command = [*start_line("torchmigrate.cli.app"), "fleet", "repos.txt", "-o", "out", *words]
    heed = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731 (`pytest &` in a script leaves it ignored)
    return subprocess.Popen(command, cwd=here, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, preexec_fn=heed)


def first_done(process: subprocess.Popen[bytes]) -> None:
    assert process.stderr is not None
    assert process.stderr.readline().startswith(b"1/")


@pytest.fixture
def six(here: Path) -> list[str]:
    names = [f"r{n}" for n in range(6)]
    big = b"import torch\n" + b"".join(b"x%d = torch.ones(1).cuda()\n" % n for n in range(200))
    for n, name in enumerate(names):
        repository(here / name, {"train.py": code(n), "big.py": big})
    listed(here, *names)
    return names


def test_killed_interrupted_and_resumed(six: list[str], here: Path, cli: Cli) -> None:
    process = fleet_process(here, "-j1", "--no-score")
    first_done(process)
    process.kill()
    process.wait()
    done = summaries(here / "out")
    assert 1 <= len(done) < len(six)

    process = fleet_process(here, "-j1", "--no-score")
    assert process.stderr is not None
    while b"done already" in process.stderr.readline():
        pass
    process.send_signal(signal.SIGINT)
    said = process.stderr.read().decode()
    assert process.wait() == 130, said
    assert re.search(r"error: interrupted; \d of 6 repositories are done", said)
    assert "goes on with the others" in said
    assert not (here / "out" / ".scratch").exists()
    whole = summaries(here / "out")
    assert all(whole[name] == summary for name, summary in done.items())  # not done twice
    assert len(done) < len(whole) < len(six)

    ran = cli("fleet", "repos.txt", "-o", "out", "-j2", "--no-score")
    assert ran.status == 0
    assert ran.err.count("done already") == len(whole)
    assert cli("fleet", "repos.txt", "-o", "again", "-j1", "--no-score", "-q").status == 0
    assert results(here / "out") == results(here / "again")
    assert sorted(summaries(here / "out")) == six


@without_processes
def test_what_has_changed_is_done_again(here: Path, cli: Cli) -> None:
    repository(here / "a", {"train.py": code()})
    folder(here / "b", {"train.py": code()})
    listed(here, "a", "b")

    def already(*words: str) -> set[str]:
        ran = cli("fleet", "repos.txt", "-o", "out", "--no-score", *words)
        return set(re.findall(r"(\w+): done already", ran.err))

    assert already() == set()
    assert already() == {"a", "b"}
    folder(here / "b", {"train.py": code(3)})
    assert already() == {"a"}
    git(here / "a", "commit", "-q", "--allow-empty", "-m", "next")
    assert already() == {"b"}
    assert already("--ignore", "hazard") == set()
    assert already() == set()
    (here / "out/a/changes.patch").unlink()
    assert already() == {"b"}
    (here / "out/a/summary.json").write_bytes((here / "out/a/summary.json").read_bytes()[:-20])
    assert already() == {"b"}
    assert already("--force") == set()


# ---- worker processes


def task(place: Path, **given: Any) -> bytes:
    values = {"name": place.name, "location": str(place), "rev": "", "is_url": False, "shown": str(place)}
    return Task(**values, mode="apply", score=False, **given).encode()  # type: ignore[arg-type]


def called(workers: Workers, data: bytes, kills: int, tmp_path: Path) -> Outcome:
    """An outcome, of which the first so many processes are killed."""
    answers: list[bytes] = []
    thread = threading.Thread(target=lambda: answers.append(workers(data)))
    thread.start()
    killed: set[int] = set()
    while thread.is_alive():
        for process in list(workers._running):
            if process.pid not in killed and len(killed) < kills:
                killed.add(process.pid)
                os.kill(process.pid, signal.SIGKILL)
        time.sleep(0.01)
    workers.close()
    assert len(killed) == kills
    assert list(tmp_path.glob("torchmigrate-fleet-*")) == []
    return Outcome.decode(answers[0])


def test_a_killed_worker_is_replaced(here: Path, tmp_path: Path) -> None:
    folder(here / "a", {"train.py": code()})
    outcome = called(Workers(tmp_path), task(here / "a"), 1, tmp_path)
    assert outcome.summary is not None
    assert outcome.summary["status"] == "migrated"
    assert b"+++ b/train.py" in outcome.files["changes.patch"]


def test_a_worker_deletes_its_files_before_it_answers(here: Path, tmp_path: Path) -> None:
    """A parent that is killed with the answer in its hands deletes nothing."""
    folder(here / "a", {"train.py": code()})
    scratch = tmp_path / "torchmigrate-fleet-x"
    scratch.mkdir()
    command = start_line("torchmigrate.fleet.processes")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        processes.send(process.stdin, os.fsencode(scratch), task(here / "a"))  # type: ignore[arg-type]
        answer = processes.receive(process.stdout)  # type: ignore[arg-type]
        assert answer is not None and Outcome.decode(answer).files
        assert not scratch.exists()


def test_what_kills_each_worker_has_failed(here: Path, tmp_path: Path) -> None:
    folder(here / "a", {"train.py": code()})
    outcome = called(Workers(tmp_path), task(here / "a"), 2, tmp_path)
    assert outcome.summary is not None
    assert outcome.summary["status"] == "failed"
    assert "killed by signal 9, 2 times" in outcome.summary["reason"]


def test_a_time_limit_and_another_version(here: Path, tmp_path: Path) -> None:
    folder(here / "a", {"train.py": code()})
    workers = Workers(tmp_path)
    late = Outcome.decode(workers(task(here / "a", timeout=0.05))).summary
    other = Outcome.decode(workers(task(here / "a", version="0.0"))).summary
    workers.close()
    assert late is not None
    assert late["reason"] == "took more than 0.05 seconds, and was ended"
    assert other is not None
    assert "the run is of 0.0" in other["reason"]


def test_files_into_which_git_still_writes_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted worker deletes its files again when a program that it started has made some meanwhile."""
    folder = tmp_path / "torchmigrate-fleet-x"
    (folder / "tree").mkdir(parents=True)
    left = [folder / "tree" / "index.lock", folder / "tree" / "objects"]
    delete = shutil.rmtree

    def late(path: Path, ignore_errors: bool) -> None:
        delete(path, ignore_errors)
        if left:  # git had the folder open and makes one more file
            left.pop().mkdir(parents=True)

    monkeypatch.setattr(shutil, "rmtree", late)
    processes.clear([folder])
    assert left == [] and not folder.exists()


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="no groups of processes")
def test_what_a_worker_started_is_ended_before_its_files_are_deleted(tmp_path: Path) -> None:
    """The program would go on for ever, and it could not write into files that are gone before it is."""
    folder = tmp_path / "torchmigrate-fleet-x"
    folder.mkdir()
    worker = """
import os, shutil, signal, subprocess, sys, time
from pathlib import Path
from torchmigrate.fleet import processes
folder, delete = Path(sys.argv[1]), shutil.rmtree
signal.signal(signal.SIGTERM, signal.SIG_IGN)
code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_DFL); print(flush=True); time.sleep(600)"
program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
program.stdout.readline()
def watched(path, ignore_errors):
    try:
        print("ended before", program.wait(20))
    except subprocess.TimeoutExpired:
        program.kill()
        print("still there")
    delete(path, ignore_errors)
shutil.rmtree = watched
processes.clear([folder])
print("left" if folder.exists() else "deleted")
"""
    ran = subprocess.run(
        [sys.executable, "-c", worker, str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.stdout.split("\n")[:2] == [f"ended before {-signal.SIGTERM}", "deleted"], ran.stderr


# ---- a dask cluster


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Its workers keep what they need meanwhile in `tmp_path`."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    distributed = pytest.importorskip("distributed", reason="the extra `fleet` is not installed")
    made = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs="CRITICAL"
    )
    yield made
    made.close()


def test_a_cluster_one_of_whose_workers_is_killed(
    six: list[str], here: Path, cli: Cli, cluster: Any, tmp_path: Path
) -> None:
    from torchmigrate.fleet.processes import Cluster

    assert cli("fleet", "repos.txt", "-o", "out", "-j1", "--no-score", "-q").status == 0
    tasks = [Task.decode(task(here / name, author=("torchmigrate", "torchmigrate@localhost"))) for name in six]
    outcomes = Cluster(cluster.scheduler_address)(tasks)
    got = [next(outcomes)]
    before = {worker.pid for worker in cluster.workers.values()}
    workers = list(cluster.scheduler.workers.values())
    busy = next((worker for worker in workers if worker.processing), workers[0])
    victim = next(nanny for nanny in cluster.workers.values() if nanny.worker_address == busy.address)
    os.kill(victim.pid, signal.SIGKILL)
    got += outcomes
    until = time.monotonic() + PATIENCE
    while {worker.pid for worker in cluster.workers.values()} == before and time.monotonic() < until:
        time.sleep(0.1)
    assert {worker.pid for worker in cluster.workers.values()} != before

    assert sorted(outcome.name for outcome in got) == six
    store = Store(here / "dask")
    with store.opened():
        for outcome in got:
            store.keep(outcome)
    assert results(here / "dask") == results(here / "out")
    until = time.monotonic() + PATIENCE
    while (left := list(tmp_path.glob("torchmigrate-fleet-*/*"))) and time.monotonic() < until:
        time.sleep(0.1)
    assert left == []


def test_no_scheduler(here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="the extra `fleet` is not installed")
    from torchmigrate.fleet import processes

    monkeypatch.setattr(processes, "_PATIENCE", 0.5)
    ran = cli("fleet", listed(here, "a"), "-o", "out", "--executor", "dask://127.0.0.1:9")
    assert ran.status == 2
    assert "no dask scheduler answers at tcp://127.0.0.1:9" in ran.err


def test_a_scheduler_without_workers(here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchmigrate.fleet import processes

    distributed = pytest.importorskip("distributed", reason="the extra `fleet` is not installed")
    monkeypatch.setattr(processes, "_PATIENCE", 2)
    with distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None, protocol="tcp") as made:
        where = made.scheduler_address.replace("tcp", "dask")
        ran = cli("fleet", listed(here, "a"), "-o", "out", "--executor", where)
    assert ran.status == 2
    assert "has no workers\nhelp: start some: dask worker tcp://" in ran.err


def test_a_worker_of_another_version(here: Path, cli: Cli, cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchmigrate.fleet import processes as module

    monkeypatch.setattr(module, "__version__", "0.0")
    where = cluster.scheduler_address.replace("tcp", "dask")
    ran = cli("fleet", listed(here, "a"), "-o", "out", "--executor", where)
    assert ran.status == 2
    assert re.search(rf"the worker at tcp://\S+ has torchmigrate {__version__}; this is 0.0\nhelp: ", ran.err)


def test_a_scheduler_that_goes_away(six: list[str], here: Path, cluster: Any) -> None:
    from torchmigrate.fleet.processes import Cluster

    outcomes = Cluster(cluster.scheduler_address)([Task.decode(task(here / name)) for name in six])
    next(outcomes)
    cluster.close()
    with pytest.raises(UserError, match=r"the dask scheduler at tcp://\S+ is gone"):
        list(outcomes)


def test_without_git(here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "git", None)
    ran = cli("fleet", listed(here, "a"), "-o", "out")
    assert ran.status == 2
    assert ran.err == "error: fleet needs git, which is not on PATH\nhelp: install git\n"


def test_without_the_extra(here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    ran = cli("fleet", listed(here, "a"), "-o", "out", "--executor", "dask://127.0.0.1:9")
    assert ran.status == 2
    assert "pip install 'torchmigrate[fleet]'" in ran.err


# ---- --verify

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
needs_compiler = pytest.mark.skipif(backends.compiler() is None, reason="no C++ compiler")
STOPS_WHEN_REWRITTEN = b"import os, sys\nsys.exit('accel.py' in os.listdir())\n"
PRINTS_A_LOSS = """\
import torch

torch.manual_seed(0)
weights = torch.randn(8, 8).cuda().requires_grad_()
for step in range(2):
    loss = (torch.randn(4, 8).cuda() @ weights).pow(2).mean()
    (gradient,) = torch.autograd.grad(loss, weights)
    weights = (weights - 0.1 * gradient).detach().requires_grad_()
    print(f"step {step} loss {loss.item():.4f}")
"""


@needs_torch
@needs_compiler
def test_verify_runs_what_the_patch_makes(here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")  # the simulated device may be built already
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    own = b'[tool.torchmigrate]\nignore = ["device"]\n'  # what the command line says counts more
    repository(here / "ff", {"train.py": PRINTS_A_LOSS.encode(), "pyproject.toml": own})
    files = {"train.py": STOPS_WHEN_REWRITTEN, "model.py": code(), "pyproject.toml": b""}
    folder(here / "broken", files)
    (here / "pyproject.toml").write_text("[tool.torchmigrate]\nselekt = 1\n")  # around the scratch folder
    words = ("--backends", "cpu", "--ignore", "hazard", "--verify", f"{sys.executable} train.py")
    ran = cli("fleet", listed(here, "ff", "broken"), "-o", "out", "--no-score", *words)
    found = summaries(here / "out")
    assert (ran.status, found["ff"]["status"]) == (1, "migrated"), ran.err
    assert {name: summary["verify"] for name, summary in found.items()} == {"ff": "same", "broken": "differs"}
    report = json.loads((here / "out/ff/verify.json").read_bytes())
    assert [(run["project"], run["backend"], run["verdict"]) for run in report["runs"]] == [
        ("original", "cuda", "PASS"),
        ("rewritten", "cpu", "PASS"),
    ]
    assert report["runs"][0]["numbers"] == report["runs"][1]["numbers"]
    assert report["root"] == str(here / "ff")
    assert "verify: same\n" in (here / "out/ff/log.txt").read_text()
    assert "migrated, verify: differs" in ran.out


@needs_torch
def test_what_cannot_be_verified_is_migrated(here: Path, cli: Cli) -> None:
    folder(here / "a", {"train.py": code()})
    ran = cli("fleet", listed(here, "a"), "-o", "out", "--no-score", "--verify", "pyhton train.py")
    assert ran.status == 1
    assert summaries(here / "out")["a"]["verify"] == "could not be verified: pyhton: no such command"
    assert sorted(os.listdir(here / "out" / "a")) == [
        "body.md",
        "changes.patch",
        "findings.json",
        "log.txt",
        "summary.json",
    ]


@needs_torch
@needs_compiler
@pytest.mark.parametrize("end", ["closed", "orphaned"])
def test_no_copy_is_left_of_a_verification_that_is_ended(
    end: str, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    (copies := tmp_path / "t").mkdir()
    monkeypatch.setenv("TMPDIR", str(copies))
    place = folder(here / "a", {"train.py": b"import time\n\ntime.sleep(600)\n" + code()})
    workers = Workers(tmp_path)
    data = task(place, verify=(sys.executable, "train.py"), flags={"backends": ["cpu"]})
    thread = threading.Thread(target=workers, args=(data,))
    thread.start()
    while not list(copies.glob("tmv-*/*/reports")):
        assert thread.is_alive()
        time.sleep(0.05)
    (process,) = workers._running
    if end == "orphaned":
        workers._closed = True  # no second attempt
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
    workers.close()
    thread.join()
    assert list(copies.glob("tmv-*")) == []


# ---- docs/fleet.md


def commands() -> Sequence[str]:
    page = (ROOT / "docs" / "fleet.md").read_text(encoding="utf-8")
    return [line for block in re.findall(r"^```sh\n(.*?)^```$", page, re.M | re.S) for line in block.splitlines()]


@without_processes
def test_the_commands_of_the_page(here: Path, cli: Cli) -> None:
    repository(here / "nanogpt", {"train.py": code()})
    listed(here, "nanogpt")
    assert len(commands()) == 7
    for line in commands():
        words = shlex.split(line)
        if words[0] == "git":
            printed = git(here, *words[1:])
        else:
            assert cli(*words[1:]).status == (1 if "--check" in words else 0), line
    assert "Run on the accelerator" in printed
    assert (here / "look" / "report.html").is_file()
