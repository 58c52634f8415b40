"""The copies: what is in them, what they share with the project, and that nothing of them stays."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import git, write_tree

from torchmigrate.base.globs import Globs
from torchmigrate.base.text import UserError
from torchmigrate.config import config_file
from torchmigrate.verify import sandbox as sandbox_module
from torchmigrate.verify import session
from torchmigrate.verify.migration import Origin, migrate, restore
from torchmigrate.verify.sandbox import Project, Sandbox

BIG = b"\0" * (sandbox_module.LARGE + 1)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the copies go; empty again after every test."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    yield directory
    assert list(directory.iterdir()) == []


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A commit, and all that can be different from it."""
    top = write_tree(
        tmp_path / "repo", {"a.py": "a = 1\n", "gone.py": "", "sub/b.py": "b = 1\n", ".gitignore": "data/\n*.pt\n"}
    )
    git(top, "init", "-q")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "x")
    write_tree(
        top, {"a.py": "a = 2\n", "new.py": "", "staged.py": "", "data/big.bin": BIG, "data/small": "1", "m.pt": BIG}
    )
    write_tree(top, {"__pycache__/a.pyc": "", "sub/n.pt": "1"})
    git(top, "add", "staged.py")
    (top / "gone.py").unlink()
    return top


def names(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if not path.is_dir()} - {".git"}


def state(top: Path) -> tuple[str, ...]:
    """What of a repository must not change: index, stash, configuration, worktrees, hooks, branches."""
    inside = sorted(str(p.relative_to(top)) for p in (top / ".git").rglob("*") if "objects" not in p.parts)
    said = (git(top, *c) for c in (("status", "--porcelain"), ("worktree", "list"), ("stash", "list"), ("show-ref",)))
    return (*said, (top / ".git/config").read_text(), (top / ".git/index").read_bytes().hex(), *inside)


def test_the_working_tree_is_copied_as_it_is_now(repository: Path) -> None:
    with Sandbox(Project.at(repository)) as sandbox:
        for tree in (sandbox.original, sandbox.rewritten):
            assert names(tree) == {
                ".gitignore", "a.py", "new.py", "staged.py", "sub/b.py", "sub/n.pt",
                "data/big.bin", "data/small", "m.pt",
            }  # fmt: skip
            assert (tree / "a.py").read_text() == "a = 2\n"


def test_a_repository_is_as_before(repository: Path) -> None:
    before = state(repository)
    with Sandbox(Project.at(repository)) as sandbox, sandbox.fresh(sandbox.rewritten) as place:
        assert len(git(repository, "worktree", "list").splitlines()) == 2
        assert "M a.py" in git(place.root, "status", "--porcelain")
        git(place.root, "commit", "-qam", "not on a branch of theirs")
    assert state(repository) == before


def test_hooks_do_not_run(repository: Path) -> None:
    for name in ("post-checkout", "post-index-change", "reference-transaction"):
        hook = repository / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {repository}/hooked\n")
        hook.chmod(0o755)
    with Sandbox(Project.at(repository)):
        pass
    assert not (repository / "hooked").exists()


def test_the_index_of_a_hook_that_calls_us_is_left_alone(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (repository / ".git/index").read_bytes()
    monkeypatch.setenv("GIT_INDEX_FILE", str(repository / ".git/index"))
    with Sandbox(Project.at(repository)):
        pass
    assert (repository / ".git/index").read_bytes() == before


def test_a_failure_leaves_nothing(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = state(repository)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Sandbox(Project.at(repository)) as sandbox, sandbox.fresh(sandbox.original):
        raise KeyboardInterrupt
    assert state(repository) == before
    monkeypatch.setattr("torchmigrate.verify.sandbox.duplicate", interrupted)
    with pytest.raises(KeyboardInterrupt), Sandbox(Project.at(repository)):
        pass
    assert state(repository) == before


def test_the_exit_waits_for_copies_in_use(repository: Path) -> None:
    """A signal can end the main thread's wait for a thread that has only just been started."""
    copied, leave = threading.Event(), threading.Event()

    def run() -> None:
        with sandbox.fresh(sandbox.original) as place:
            copied.set()
            leave.wait()
            (place.root / "written").mkdir(parents=True)

    with Sandbox(Project.at(repository)) as sandbox:
        thread = threading.Thread(target=run)
        thread.start()
        copied.wait()
        threading.Timer(0.2, leave.set).start()
    assert not sandbox.home.exists()
    thread.join()
    assert not sandbox.home.exists()
    with pytest.raises(RuntimeError, match="being deleted"), sandbox.fresh(sandbox.original):
        pass


def test_a_directory_of_a_repository_runs_where_it_is(repository: Path) -> None:
    project = Project.at(repository / "sub")
    assert project.anchor == repository
    with Sandbox(project) as sandbox, sandbox.fresh(sandbox.original) as place:
        assert place.directory == place.root / "sub"
        assert place.root.name == repository.name
        assert (place.directory / "b.py").exists() and (place.root / "a.py").exists()


def test_a_repository_without_a_commit_is_copied_too(tmp_path: Path) -> None:
    top = write_tree(tmp_path / "repo", {"a.py": "", "b.pt": "", ".gitignore": "*.pt\n"})
    git(top, "init", "-q")
    with Sandbox(Project.at(top)) as sandbox:
        assert names(sandbox.original) == {"a.py", "b.pt", ".gitignore"}
        assert not (sandbox.original / ".git").exists()


def test_a_repository_within_the_repository(repository: Path) -> None:
    write_tree(repository / "inner", {"c.py": ""})
    git(repository / "inner", "init", "-q")
    with Sandbox(Project.at(repository)) as sandbox:
        assert "inner/c.py" in names(sandbox.original)


def test_outside_of_git_everything_but_caches_is_copied(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "a.py": "",
        "d/x.csv": "",
        "__pycache__/a.pyc": "",
        ".mypy_cache/x": "",
        "big": BIG,
    }
    root = write_tree(tmp_path / "p", files)
    with Sandbox(Project.at(root)) as sandbox:
        assert names(sandbox.original) == {"a.py", "d/x.csv", "big"}
        assert sandbox.linked == ["big"]


def test_the_project_is_where_its_pyproject_is(tmp_path: Path) -> None:
    write_tree(tmp_path / "p", {"pyproject.toml": "", "src/a.py": "", "lib.py": ""})
    project = Project.at(tmp_path / "p" / "src" / "a.py")
    assert (project.anchor, project.directory) == (tmp_path / "p", tmp_path / "p/src")
    with Sandbox(project) as sandbox:
        assert names(sandbox.original) == {"pyproject.toml", "src/a.py", "lib.py"}


@pytest.mark.parametrize(
    ("files", "part", "top"),
    [
        ({"setup.py": "", "data/x": "", "lib/__init__.py": "", "lib/train.py": ""}, "lib", "."),
        ({"data/x": "", "lib/__init__.py": "", "lib/sub/__init__.py": "", "lib/sub/a.py": ""}, "lib/sub/a.py", "."),
        ({"a.py": "", "sub/a.py": ""}, "sub", "sub"),
        ({"setup.cfg": "", "own/setup.py": "", "own/lib/a.py": ""}, "own/lib", "own"),
    ],
)
def test_a_package_is_copied_with_what_it_is_imported_from(
    tmp_path: Path, files: dict[str, str], part: str, top: str
) -> None:
    write_tree(tmp_path / "p", files)
    project = Project.at(tmp_path / "p" / part)
    assert project.anchor == tmp_path.joinpath("p", top)


def test_a_path_that_is_not_there() -> None:
    with pytest.raises(UserError, match="nowhere: no such file or directory"):
        Project.at(Path("nowhere"))


# ---- large data


def test_large_files_are_linked_small_ones_and_source_are_copied(repository: Path) -> None:
    (repository / "large.py").write_bytes(b"#" * (sandbox_module.LARGE + 1))
    with Sandbox(Project.at(repository)) as sandbox, sandbox.fresh(sandbox.original) as place:
        assert sorted(sandbox.linked) == ["data/big.bin", "m.pt"]
        assert (place.root / "data/big.bin").resolve() == repository / "data/big.bin"
        assert not (place.root / "large.py").is_symlink()
        (place.root / "data/small").write_text("2")
        (place.root / "data/new").write_text("2")
        (place.root / "m.pt").unlink()
    assert (repository / "data/small").read_text() == "1"
    assert not (repository / "data/new").exists()
    assert (repository / "m.pt").exists()


def test_what_is_linked_is_told_by_folder() -> None:
    told: list[str] = []
    several = [f"data/{i}.flo" for i in range(8)]
    session._report_links(SimpleNamespace(copied=0, linked=["m.pt", *several, "a/one.bin", "deep/*"]), told.append)
    assert told == [
        "note: files over 1.0 MiB and folders of data are linked into the copies, not copied: "
        "m.pt, 8 files of data, a/one.bin and deep/*"
    ]
    session._report_links(SimpleNamespace(copied=0, linked=[f"{i}.pt" for i in range(6)]), told.append)
    assert told[1].endswith(": 0.pt, 1.pt, 2.pt, 3.pt and 2 more")


def test_directories_of_many_files_are_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_module, "MANY", 3)
    flat = {f"flat/{i}": "" for i in range(4)}
    deep = {f"deep/{i % 2}/{i}": "" for i in range(4)}
    code = {f"code/{i}.py": "" for i in range(5)}
    root = write_tree(
        tmp_path / "p", {**flat, **deep, **code, "few/1": "", ".venv/bin/python": "", "env/pyvenv.cfg": ""}
    )
    with Sandbox(Project.at(root)) as sandbox:
        assert sorted(sandbox.linked) == [".venv", "deep/*", "env", "flat"]
        assert (sandbox.original / "flat").is_symlink()
        assert not (sandbox.original / "deep").is_symlink()  # what is written there stays in the copy
        assert (sandbox.original / "deep/0").is_symlink()
        assert (sandbox.original / "deep/0/2").exists()


def test_links_in_the_project(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "p", {"a.txt": "1"})
    write_tree(tmp_path, {"elsewhere/x": "", "out.txt": ""})
    for name, target in {
        "near": "a.txt",
        "absolute": str(root / "a.txt"),
        "far": "../out.txt",
        "folder": str(tmp_path / "elsewhere"),
        "broken": "nowhere",
    }.items():
        (root / name).symlink_to(target)
    with Sandbox(Project.at(root)) as sandbox, sandbox.fresh(sandbox.original) as place:
        found = {name: os.readlink(place.root / name) for name in ("near", "absolute", "far", "folder", "broken")}
        assert found == {
            "near": "a.txt",
            "absolute": str(place.root / "a.txt"),
            "far": str(tmp_path / "out.txt"),
            "folder": str(tmp_path / "elsewhere"),
            "broken": "nowhere",
        }


def test_a_tracked_file_in_an_ignored_directory_is_a_copy(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_module, "MANY", 1)
    write_tree(repository, {"data/kept.txt": "1"})
    git(repository, "add", "-f", "data/kept.txt")
    with Sandbox(Project.at(repository)) as sandbox:
        (sandbox.original / "data/kept.txt").write_text("2")
    assert (repository / "data/kept.txt").read_text() == "1"


def test_what_a_run_made_read_only_goes_too(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "p", {"a.txt": "1"})
    with Sandbox(Project.at(root)) as sandbox, sandbox.fresh(sandbox.original) as place:
        write_tree(place.root, {"locked/x": ""})
        (place.root / "locked").chmod(0o500)


# ---- the rewritten copy, and where its lines come from

SCRIPT = """import torch

x = torch.ones(3)
x = x.cuda()
y = (x
     .cuda()
     .sum())
print(y)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_tree(
        tmp_path / "p", {"train.py": SCRIPT, "plain.py": "print(1)\n", "two.py": "print 2\nimport torch; x.cuda()\n"}
    )


def line_of(path: Path, text: str) -> int:
    return next(i for i, line in enumerate(path.read_text().splitlines(), 1) if text in line)


def test_the_copy_is_rewritten_and_its_lines_are_known(project: Path) -> None:
    with Sandbox(Project.at(project)) as sandbox:
        made = migrate(sandbox, config_file.load([project]))
        train = sandbox.rewritten / "train.py"
        assert "x.to(accel.device())" in train.read_text()
        assert (made.files, made.edits) == (1, 2)
        assert made.errors == (
            "two.py: line 1: not Python 3 (Missing parentheses in call to 'print'. Did you mean print(...)?); "
            "it looks like Python 2: port it to Python 3 first",
        )
        origin = made.origins
        rule = ("device/tensor-cuda",)
        assert origin(str(train), line_of(train, "x = x.to(")) == Origin("train.py", 4, rule)
        assert origin(str(train), line_of(train, ".to(accel.device())\n".strip()) + 2) == Origin("train.py", 6, rule)
        assert origin(str(train), line_of(train, "print(y)")) == Origin("train.py", 8)
        assert origin(str(train), line_of(train, "import accel")).rules == ()  # type: ignore[union-attr]
        assert origin(str(sandbox.rewritten / "plain.py"), 1) == Origin("plain.py", 1)
        assert origin(str(sandbox.rewritten / "accel.py"), 1) is None
        assert origin("/usr/lib/x.py", 1) is None
        with sandbox.fresh(sandbox.rewritten) as place:
            moved = origin.moved(place.root)
            assert moved(str(place.root / "train.py"), line_of(train, "print(y)")) == Origin("train.py", 8)
    assert (project / "train.py").read_text() == SCRIPT
    assert not (project / "accel.py").exists()


@pytest.mark.parametrize("more", ["", "x = torch.ones(2).cuda()\n"])  # with which the file gets an import
def test_what_check_says_of_a_line_comes_with_what_its_fix_makes_of_it(tmp_path: Path, more: str) -> None:
    code = (
        "import torch\ndef send(batch):\n    return batch.cuda()\n"
        "class Batch:\n    def cuda(self):\n        return self\n"
    )
    root = write_tree(tmp_path / "p", {"a.py": code + more})
    with Sandbox(Project.at(root)) as sandbox:
        known = migrate(sandbox, config_file.load([root])).known
    (said,) = known["a.py", 3]
    assert said.startswith("device/tensor-cuda: ")
    assert said.endswith(" (--unsafe-fixes makes it `return batch.to(accel.device())`)")


def test_what_check_says_of_a_migrated_project_is_known_by_the_originals_lines(tmp_path: Path) -> None:
    before = b"import torch\n\nx = torch.ones(2).cuda()\nloss = torch.nn.CTCLoss(0)\n"
    after = "import torch\n\nimport accel\n\nx = torch.ones(2, device=accel.device())\nloss = torch.nn.CTCLoss(0)\n"
    root = write_tree(tmp_path / "p", {"a.py": after, "b.py": "import torch\n\nloss = 1\n"})
    with Sandbox(Project.at(root)) as sandbox:
        made = restore(sandbox, {root / "a.py": before}, config_file.load([root]))
    assert made.restored
    assert [place for place in made.known if place[0] != "accel.py"] == [("a.py", 4)]
    assert made.known["a.py", 4][0].startswith("hazard/mps-operator: ")


def test_the_projects_own_settings_hold(project: Path) -> None:
    settings = '[tool.torchmigrate]\nignore = ["device/tensor-cuda"]\nextend-exclude = ["two.py"]\n'
    (project / "pyproject.toml").write_text(settings)
    with Sandbox(Project.at(project)) as sandbox:
        made = migrate(sandbox, config_file.load([project]))
    assert (made.files, made.errors) == (0, ())


def test_patterns_hold_where_only_a_part_is_verified(tmp_path: Path) -> None:
    settings = '[tool.torchmigrate]\nper-file-ignores = {"sub/deep/*" = ["device"]}\n'
    root = write_tree(
        tmp_path / "p", {"pyproject.toml": settings, "sub/deep/a.py": SCRIPT, "sub/b.py": SCRIPT, "c.py": SCRIPT}
    )
    with Sandbox(Project.at(root / "sub")) as sandbox:
        migrate(sandbox, config_file.load([root / "sub"]))
        changed = {n for n in ("sub/deep/a.py", "sub/b.py", "c.py") if (sandbox.rewritten / n).read_text() != SCRIPT}
    assert changed == {"sub/b.py"}


def test_settings_above_the_repository_hold(tmp_path: Path) -> None:
    write_tree(tmp_path, {"pyproject.toml": '[tool.torchmigrate]\nper-file-ignores = {"repo/a.py" = ["device"]}\n'})
    top = write_tree(tmp_path / "repo", {"a.py": SCRIPT, "b.py": SCRIPT})
    git(top, "init", "-q")
    with Sandbox(Project.at(top)) as sandbox:
        migrate(sandbox, config_file.load([top]))
        changed = {n for n in ("a.py", "b.py") if (sandbox.rewritten / n).read_text() != SCRIPT}
    assert changed == {"b.py"}


def test_a_read_only_file_is_rewritten_in_the_copy(project: Path) -> None:
    (project / "train.py").chmod(0o444)
    with Sandbox(Project.at(project)) as sandbox:
        assert migrate(sandbox, config_file.load([project])).files == 1


# ---- the links are for reading

GUARD = """
import os, sys
sys.path.insert(0, sys.argv[1])
from write_protection import install
import io, shutil
link, here = os.path.abspath("link"), os.getcwd()
os.symlink("project/x", "anew"); os.symlink("project", "folder")
install(os.path.realpath("project"))
open("free", "w").close(); os.remove("free"); os.mkdir("d"); os.rmdir("d")
assert open("link").read() == "1"
refused = 0
for write in (
    lambda: open("link", "a"),
    lambda: open("folder/x", "w"),
    lambda: open("project/x", "w"),
    lambda: open("project/new", "a"),
    lambda: os.open("link", os.O_RDWR),
    lambda: os.remove("project/x"),
    lambda: os.rename("project/x", "y"),
    lambda: os.mkdir("project/d"),
    lambda: os.truncate("link", 0),
    lambda: shutil.rmtree("project"),
    lambda: os.symlink("a", "project/l"),
):
    try:
        write()
    except PermissionError as error:
        assert "only linked here" in str(error), error
        refused += 1
os.remove("link")  # the link itself is the copy's
with open("anew", "w") as file:  # and so is what is written in its place from the beginning
    file.write("2")
assert not os.path.islink("anew") and open("project/x").read() == "1"
os.mkdir("e"); open("e/x", "w").close(); shutil.rmtree("e")
print(refused)
"""


def test_nothing_is_written_through_the_links(tmp_path: Path) -> None:
    write_tree(tmp_path, {"project/x": "1"})
    (tmp_path / "link").symlink_to("project/x")
    simulated = Path(sandbox_module.__file__).parent / "simulated"
    command = ["python3", "-c", GUARD, str(simulated)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("11\n", "")
    assert (tmp_path / "project/x").read_text() == "1"


# ---- notes about runs and commands


def test_code_of_the_command_that_is_not_the_projects(tmp_path: Path) -> None:
    project = write_tree(tmp_path / "project", {"train.py": "", "run.sh": ""})
    write_tree(tmp_path, {"drive.py": ""})
    of = SimpleNamespace(directory=project, anchor=project)
    said: list[str] = []
    for words in (
        ["python", "train.py"],
        ["bash", "../run.sh", "-c"],
        ["python", "../project/train.py", "../no.py"],
        ["python", "-W", "ignore", "train.py", "-c", "config.json"],
        ["python", "-m", "train", "-c", "config.json"],
    ):
        session._report_driver(words, of, said.append)  # type: ignore[arg-type]
    assert said == []
    session._report_driver(["python", "-c", "1", "../drive.py"], of, said.append)  # type: ignore[arg-type]
    assert said == [
        "note: the code after `-c` is not part of the project: it is not rewritten",
        "note: ../drive.py is outside the project: it is not rewritten",
        f"note: the copies are elsewhere, so ../drive.py leads to nothing there: write {tmp_path}/drive.py",
    ]
    said.clear()
    session._report_driver(["python", "train.py", "--data=../drive.py", "../no", f"{tmp_path}/x"], of, said.append)  # type: ignore[arg-type]
    assert said == [f"note: the copies are elsewhere, so ../drive.py leads to nothing there: write {tmp_path}/drive.py"]


@pytest.mark.parametrize("ports", [{29500}, {29500, 7}, {7}, set()])
def test_a_program_that_chooses_a_port_itself(ports: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = SimpleNamespace(collided=False, ports=ports, given_ports={7})
    said: list[str] = []
    runs = session._Runs(*[None] * 5, said.append)  # type: ignore[arg-type]
    runs.request = SimpleNamespace(jobs=2)  # type: ignore[assignment]
    monkeypatch.setattr(session._Runs, "_pool", lambda self, asked, jobs: dict.fromkeys(asked, outcome))
    runs.all(["a", "b"])  # type: ignore[list-item]
    runs.all(["c"])  # type: ignore[list-item]
    alone = 29500 in ports
    assert runs.alone is alone
    assert said == ["note: the program chooses a port itself: one run at a time"] * alone


# ---- copies share what no run writes

WRITERS = """
import os, shutil, sqlite3, sys
sys.path.insert(0, sys.argv[1])
from write_protection import install
install("/nowhere", os.path.realpath("copy"), os.path.realpath("base"))
with open("copy/appended", "a") as file: file.write("more")
with open("copy/over", "w") as file: file.write("new")
with open("copy/inside", "r+b") as file: file.write(b"new")
os.truncate("copy/short", 1)
os.chmod("copy/mode", 0o600)
with sqlite3.connect("copy/data.db") as data: data.execute("create table t (x)")
data.close()
shutil.copyfile("copy/read", "copy/target")
os.remove("copy/gone")
os.symlink("linked", "copy/link")
with open("copy/link", "w") as file: file.write("new")
assert open("copy/read").read()
"""
SHARED = ("appended", "over", "inside", "short", "mode", "data.db", "read", "target", "gone", "linked")


def test_a_run_owns_what_it_writes(tmp_path: Path) -> None:
    base, copy = tmp_path / "base", tmp_path / "copy"
    write_tree(base, {name: "" if name == "data.db" else "1" * 5000 for name in SHARED})
    copy.mkdir()
    for name in SHARED:
        os.link(base / name, copy / name)
        (base / name).chmod(0o644)
    simulated = Path(sandbox_module.__file__).parent / "simulated"
    done = subprocess.run(["python3", "-c", WRITERS, str(simulated)], cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr == ""
    assert {name for name in SHARED if (base / name).read_text() != ("" if name == "data.db" else "1" * 5000)} == set()
    assert (base / "mode").stat().st_mode & 0o777 == 0o644
    assert (copy / "appended").read_text() == "1" * 5000 + "more"
    assert [(copy / name).stat().st_size for name in ("over", "inside", "short", "linked")] == [3, 5000, 1, 3]
    assert (copy / "read").samefile(base / "read") and not (copy / "gone").exists()


def test_copies_share_data_but_no_source_nor_what_is_compared(tmp_path: Path) -> None:
    data = "1" * 5000
    root = write_tree(tmp_path / "p", {"a.py": "#" * 5000, "data/x": data, "small": "1", "out/log.txt": data})
    with Sandbox(Project.at(root), Globs(["out/*"])) as sandbox, sandbox.fresh(sandbox.rewritten) as place:
        trees = (sandbox.original, sandbox.rewritten, place.root)
        files = {name: len({(tree / name).stat().st_ino for tree in trees}) for name in ("a.py", "data/x", "small")}
        assert files == {"a.py": 3, "data/x": 1, "small": 3}
        assert not (place.root / "out/log.txt").samefile(sandbox.rewritten / "out/log.txt")
        assert sandbox.copied == 15001
    assert (root / "data/x").read_text() == data


def test_what_other_programs_write_is_put_back_and_told(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "p", {"data/x": "1" * 5000, "data/y": "1" * 5000})
    with Sandbox(Project.at(root)) as sandbox:
        with sandbox.fresh(sandbox.original) as place:
            subprocess.run("echo 2 >> data/x", shell=True, cwd=place.root, check=True)
        assert sandbox.damaged == ["data/x"]
        with sandbox.fresh(sandbox.rewritten) as place:
            assert (place.root / "data/x").read_text() == "1" * 5000
        assert sandbox.damaged == ["data/x"]
        said: list[str] = []
        sandbox.copied = 17 << 20
        session._report_damage(sandbox, said.append)
        session._report_links(sandbox, said.append)
    damage, much = said
    assert damage == "warning: written by no Python code, so other runs may have read it: data/x"
    assert much.startswith("note: 17.0 MiB are copied once; ")
