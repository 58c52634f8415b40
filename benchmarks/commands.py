"""What is measured: floors, torchmigrate, and what people would use instead."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from measure import Ran

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
WALK = """import ast, gc, os, sys
gc.disable()
listed = set(open(sys.argv[2]).read().splitlines()) if len(sys.argv) > 2 else ()
for top, _, names in os.walk(sys.argv[1]):
  for name in names:
    if name.endswith('.py'):
      path = os.path.join(top, name)
      data = open(path, 'rb').read()
"""
PARSE = """      if {}:
        try: ast.parse(data)
        except (SyntaxError, ValueError, RecursionError): pass
"""
READ, CUDA, AST = "read every .py", "ast.parse, files with cuda", "ast.parse, files with a trigger"
J1, CHECK, APPLY, AGAIN = "check -j1", "check", "apply", "check again, nothing changed"
CLEAN, ONE = "check, one clean file", "apply, one file"
RULES, COPIES = "check -j1, ten times the rules", "check -j1, four copies of the tree"
RUFF, WARM = "ruff check --no-cache", "ruff check, nothing changed"
TORCHFIX, FIXIT, PYUPGRADE = "TorchFix", "fixit, one rule", "pyupgrade"
PLAIN, QUALIFIED = "LibCST codemod runner, trivial", "LibCST codemod runner, QualifiedNameProvider"
ASTGREP, PASS, TYPER, LIBCST = "ast-grep, one pattern", "python -c pass", "import typer", "import libcst"


@dataclass
class Command:
    """`{tree}` in `argv` stands for the tree. `copy`: it writes, and gets a fresh copy, which is not timed.
    `keeps`: its caches stay from round to round."""

    name: str
    argv: list[str]
    copy: bool = False
    keeps: bool = False
    tree: Path | None = None  # another one than the round's
    slow: bool = False  # among those that may be left out on large trees
    ran: list[Ran] = field(default_factory=list)
    peak: int = 0
    stopped: bool = False

    def cpu(self) -> list[float]:
        return [r.cpu for r in self.ran]

    def wall(self) -> list[float]:
        return [r.wall for r in self.ran]


@dataclass(frozen=True)
class Place:
    """A tree, the list of its files with a trigger, a folder for what the commands need, and who runs them."""

    tree: Path
    listed: Path
    scratch: Path
    python: str
    peers: Path | None = None

    def program(self, name: str) -> str | None:
        inside = shutil.which(name, path=str(self.peers / "bin")) if self.peers else None
        return inside or shutil.which(name) or shutil.which(name, path=str(Path(self.python).parent))


def floors(place: Place) -> Iterator[Command]:
    python = place.python
    yield Command(READ, [python, "-c", WALK, "{tree}"])
    yield Command(CUDA, [python, "-c", WALK + PARSE.format("b'cuda' in data"), "{tree}"])
    yield Command(AST, [python, "-c", WALK + PARSE.format("path in listed"), "{tree}", str(place.listed)])
    yield Command(PASS, [python, "-c", "pass"])
    yield Command(TYPER, [python, "-c", "import typer"])
    yield Command(LIBCST, [python, "-c", "import libcst"])


def ours(place: Place, copies: bool) -> Iterator[Command]:
    """`copies`: whether the tree is measured four times over, too."""
    tool = [place.python, "-m", "torchmigrate"]
    check, apply = [*tool, "check", "-q", "--isolated"], [*tool, "apply", "-q", "--isolated", "--allow-dirty"]
    one, clean, config = place.scratch / "one", place.scratch / "clean.py", place.scratch / "config.toml"
    _prepare(place, one, clean, config)
    yield Command(J1, [*check, "--no-cache", "-j1", "{tree}"])
    yield Command(CHECK, [*check, "--no-cache", "{tree}"])
    yield Command(AGAIN, [*check, "{tree}"], keeps=True)
    yield Command(APPLY, [*apply, "--no-cache", "{tree}"], copy=True)
    yield Command(CLEAN, [*check, "--no-cache", str(clean)])
    yield Command(ONE, [*apply, "--no-cache", "{tree}/train.py"], copy=True, tree=one)
    many = [*tool, "check", "-q", "--config", str(config)]
    yield Command(RULES, [*many, "--no-cache", "-j1", "{tree}"])
    if copies:
        four = place.scratch / "four"
        for number in range(4):
            shutil.copytree(place.tree, four / f"tree{number}")
        yield Command(COPIES, [*check, "--no-cache", "-j1", "{tree}"], tree=four)


def _prepare(place: Place, one: Path, clean: Path, config: Path) -> None:
    one.mkdir()
    shutil.copy(ROOT / "fixtures" / "cnn" / "train.py", one)
    clean.write_text("x = 1\n")
    config.write_text(f'[tool.torchmigrate]\nrule-paths = ["{place.scratch / "rules"}"]\n')
    made = [place.python, str(HERE / "trees.py"), "rules", str(place.scratch / "rules")]
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL)


def peers(place: Place) -> Iterator[Command]:
    """Those that are installed; absent(place) names the others."""
    ruff = ["check", "--isolated", "-q", "--exit-zero", "--select", "F401,F821,UP,E711"]
    python = str(place.peers / "bin" / "python") if place.peers else place.python
    upgrade = 'find "$1" -name "*.py" -exec "$0" --py311-plus --exit-zero-even-if-changed {} +'
    astgrep = ["run", "-l", "py", "-p", "$X.cuda($$$A)", "-r", "$X.to(device)", "--color", "never", "{tree}"]
    if program := place.program("ruff"):
        yield Command(RUFF, [program, *ruff, "--no-cache", "{tree}"])
        yield Command(WARM, [program, *ruff, "--cache-dir", str(place.scratch / "ruff"), "{tree}"], keeps=True)
    if program := place.program("ast-grep"):
        yield Command(ASTGREP, [program, *astgrep])
    if program := place.program("pyupgrade"):
        yield Command(PYUPGRADE, ["sh", "-c", upgrade, program, "{tree}"], copy=True, slow=True)
    if program := place.program("fixit"):
        rule = "fixit.rules.compare_primitives_by_equal"
        yield Command(FIXIT, [program, "--quiet", "--rules", rule, "lint", "{tree}"], slow=True)
    if _imports(python, "libcst.codemod"):
        runner = [python, "-m", "libcst.tool", "codemod", "--hide-progress", "--no-format", "-x"]
        yield Command(PLAIN, [*runner, "codemods.Trivial", "{tree}"], slow=True)
        yield Command(QUALIFIED, [*runner, "codemods.Qualified", "{tree}"], slow=True)
    if program := place.program("torchfix"):
        yield Command(TORCHFIX, [program, "--select", "ALL", "{tree}"], slow=True)


def _imports(python: str, module: str) -> bool:
    null = subprocess.DEVNULL
    return subprocess.run([python, "-c", f"import {module}"], check=False, stdout=null, stderr=null).returncode == 0


def absent(place: Place) -> list[str]:
    return [name for name in ("ruff", "ast-grep", "pyupgrade", "fixit", "torchfix") if not place.program(name)]


def versions(place: Place) -> dict[str, str]:
    """What each peer says of itself."""
    found = {}
    for name in ("ruff", "ast-grep", "fixit", "torchfix"):
        if program := place.program(name):
            said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
            found[name] = said.split()[-1] if said.split() else "?"
    return found


def environment(place: Path, home: Path) -> dict[str, str]:
    """Without settings of Python's or the user's; caches and the like in `home`."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TORCHMIGRATE", "XDG_", "RUFF"))}
    homes = {f"XDG_{kind}_HOME": str(home) for kind in ("CACHE", "STATE", "DATA", "CONFIG")}
    return kept | homes | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(HERE))), "TMPDIR": str(place)}


def modules(place: Place) -> list[str]:
    """What a check of a clean file imports, by name."""
    argv = [place.python, "-X", "importtime", "-m", "torchmigrate", "check", "-q", "--isolated", "--no-cache"]
    with_home = environment(place.scratch, place.scratch)
    said = subprocess.run([*argv, str(place.scratch / "clean.py")], capture_output=True, text=True, env=with_home)
    return [line.rpartition("|")[2].strip() for line in said.stderr.splitlines() if line.startswith("import time:")][1:]
