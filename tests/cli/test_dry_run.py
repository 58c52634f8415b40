"""What `apply --dry-run` prints, applied by `git apply` and by `patch`, gives the tree that `apply` writes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, Ran, git, write_tree

Cli = Callable[..., Ran]
CUDA = "import torch\n\n\ndef step(model, batch):\n    batch = batch.cuda()\n    return model(batch)\n"
LATER = "".join(f"\n\ndef f{i}():\n    return {i}\n" for i in range(4)) + "\n\ntorch.cuda.empty_cache()\n"
ODD: dict[str, str | bytes] = {
    "crlf.py": (CUDA + LATER).replace("\n", "\r\n"),
    "mixed.py": CUDA + LATER.replace("\n", "\r\n"),
    "lone cr.py": CUDA.replace("\n\n\n", "\n\ns = 1\r\n\n") + "# a\rb = 1\n",
    "end.py": "import torch\ntorch.cuda.empty_cache()",
    "end crlf.py": "import torch\r\ntorch.cuda.empty_cache()",
    "one line.py": "import torch; torch.cuda.empty_cache()",
    "feed.py": "import torch\n\x0c\ns = '\u2028\x85\x0b\x1c'\n\x0cx = torch.zeros(3).cuda()\n\x0c\n",
    "bom.py": "\ufeff" + CUDA,
    "bom crlf.py": ("\ufeff" + CUDA).replace("\n", "\r\n"),
    "latin.py": ("# -*- coding: latin-1 -*-\n# é ü\n" + CUDA + "s = 'é'\n").encode("latin-1"),
    "tabs.py": CUDA.replace("    ", "\t"),
    "like a patch.py": "'''\n--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n-a\n+b\ndiff --git a/x b/x\n'''\n" + CUDA,
    "white.py": CUDA.replace("cuda()", "cuda()   \t"),
    "far.py": "import torch\n" + LATER * 3 + "x = torch.zeros(3, device='cuda')\n",
    "a b/with  spaces.py": CUDA,
    "é/ñ 🎉.py": CUDA,
    "q\"u'o`t$e.py": CUDA,
    "tab\there.py": CUDA,
    "new\nline.py": CUDA,
    "back\\slash.py": CUDA,
    "-dash.py": CUDA,
    "a.py b/c.py": CUDA,
    "src/pkg/__init__.py": "",
    "src/pkg/train.py": "from . import other\n" + CUDA,
    "src/pkg/other.py": "x = 1\n",
    "run.py": "#!/usr/bin/env python\n" + CUDA,
    "linked/real.py": CUDA,
    "empty.py": "",
    "clean.py": "x = 1\n",
}


def tree(root: Path) -> dict[str, tuple[str, object]]:
    """Names, whether they can be run (git knows no other mode), bytes; a link is where it points to."""
    found: dict[str, tuple[str, object]] = {}
    for path in root.rglob("*"):
        name = path.relative_to(root).as_posix()
        if ".git" in path.relative_to(root).parts or name.endswith(".orig"):
            continue
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_file():
            found[name] = ("program" if path.stat().st_mode & 0o100 else "file", path.read_bytes())
        else:
            found[name] = ("directory", None)
    return found


def odd(root: Path) -> None:
    write_tree(root, ODD)
    (root / "run.py").chmod(0o755)
    if sys.platform == "linux":
        write_tree(root, {os.fsdecode(b"caf\xe9.py"): CUDA})
    (root / "link.py").symlink_to("linked/real.py")
    (root / "nothing here").mkdir()


def fixture_project(name: str) -> Callable[[Path], None]:
    def copy(root: Path) -> None:
        shutil.copytree(
            ROOT / "fixtures" / name, root, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
        )

    return copy


FIXTURES = sorted(path.name for path in (ROOT / "fixtures").iterdir() if path.is_dir() and path.name != "expected")
PROJECTS = {"odd": odd} | {name: fixture_project(name) for name in FIXTURES}


def three(make: Callable[[Path], None], here: Path) -> dict[str, Path]:
    """The same project three times, each a repository that does not convert line ends."""
    roots = {name: here / name for name in ("apply", "git", "patch")}
    for root in roots.values():
        root.mkdir()
        make(root)
        git(root, "init", "-q")
        git(root, "config", "core.autocrlf", "false")
        git(root, "add", "-A", "-f")
        git(root, "commit", "-q", "-m", "base")
    return roots


@pytest.mark.skipif(shutil.which("patch") is None, reason="no patch here")
@pytest.mark.parametrize(("name", "unsafe"), [*((name, False) for name in PROJECTS), ("odd", True), ("package", True)])
def test_the_diff_is_what_apply_writes(
    name: str, unsafe: bool, here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--unsafe-fixes"] if unsafe else []
    roots = three(PROJECTS[name], here)
    monkeypatch.chdir(roots["apply"])
    file = here / "x.patch"
    assert cli("apply", "--dry-run", "--exit-zero", *options, "--output-format", "diff", "-o", str(file)).status == 0
    plain = cli("apply", "--dry-run", "--exit-zero", *options)
    assert plain.raw.startswith(file.read_bytes())  # findings follow the diff, and the tools do not mind
    file.write_bytes(plain.raw)
    assert cli("apply", "--exit-zero", *options).status == 0
    git(roots["git"], "apply", "--check", str(file))
    git(roots["git"], "apply", str(file))
    command = ["patch", "-p1", "--binary", "-s", "-i", str(file)]
    subprocess.run(command, cwd=roots["patch"], check=True, capture_output=True)
    wanted = tree(roots["apply"])
    for tool in ("git", "patch"):
        got = tree(roots[tool])
        # the diff of a notebook is for reading
        different = [name for name in wanted.keys() | got.keys() if wanted.get(name) != got.get(name)]
        assert not [name for name in different if not name.endswith(".ipynb")], tool
    assert re.search(rb"^\+\+\+ b/.*accel\.py", file.read_bytes(), re.M) or name != "odd"


def test_the_odd_files_are_rewritten(here: Path, cli: Cli) -> None:
    """So that the test above is about something."""
    odd(here)
    before = tree(here)
    assert cli("apply").status == 0
    after = tree(here)
    same = {name for name, entry in before.items() if entry == after[name] and entry[0] not in ("directory", "link")}
    assert same == {"empty.py", "clean.py", "src/pkg/__init__.py", "src/pkg/other.py"}
    assert {name for name in after if name.endswith("accel.py")} >= {"accel.py", "src/pkg/accel.py"}


def test_a_diff_made_in_a_subdirectory_applies_there(here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tree(here, {"sub/a.py": CUDA, "a.py": CUDA})
    git(here, "init", "-q")
    git(here, "add", "-A")
    monkeypatch.chdir(here / "sub")
    (here / "x.patch").write_bytes(cli("apply", "--dry-run").raw)
    git(here / "sub", "apply", str(here / "x.patch"))
    assert "accel" in (here / "sub/a.py").read_text() and (here / "a.py").read_text() == CUDA
    assert (here / "sub/accel.py").exists()
