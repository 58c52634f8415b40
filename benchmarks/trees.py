"""Trees to measure on: `trees.py generate FOLDER LINES` makes one, `trees.py triggers TREE LIST` says what one holds.

Both run in a process of their own, so that run.py stays small: a child's peak memory starts from its parent's.
"""

from __future__ import annotations

import ast
import itertools
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "fixtures"
# What 34 public projects (1,839 files, 335 thousand lines) are made of; a letter is a twenty-fifth of the files.
# c: has work and mentions CUDA. w: has work and does not. t: imports torch, no work. x: neither.
CYCLE = "cxtxtcxtxwcxtxtctxxwctctx"
LINES = {"c": 251, "w": 295, "t": 200, "x": 96}  # the mean size of such a file there
SIZES = (0.4, 1.9, 0.7, 1.0)  # of that, in turn: most files are smaller than the mean
LARGEST = 400  # lines of a definition of the library that is taken over
TORCH = b"import torch\nfrom torch import nn\n\n\n"


def generate(root: Path, lines: int) -> None:
    """Fixtures, each followed by functions and classes of the standard library, and files of these alone."""
    rules = _rules()
    found = [p for p in sorted(FIXTURES.rglob("*.py")) if p.parent != FIXTURES and "expected" not in p.parts]
    texts = {p.relative_to(FIXTURES): p.read_bytes().rstrip(b"\n") + b"\n" for p in found}
    hot = [path for path, text in texts.items() if b"cuda" in text]
    awake = next(text for text in texts.values() if b"cuda" not in text and rules.has_work(text))
    plain = {path: text for path, text in texts.items() if not rules.has_work(text)}
    library, sizes = _library(rules), itertools.cycle(SIZES)
    written = 0
    fixtures = ((copy, path) for copy in itertools.count() for path in hot)
    heads = {"w": awake, "t": TORCH, "x": b""}
    copy = -1
    for number, kind in enumerate(itertools.cycle(CYCLE)):
        if written >= lines:
            return
        target, head = root / f"copy{max(copy, 0)}" / "library" / f"m{number}.py", heads.get(kind, b"")
        if kind == "c":
            of, path = next(fixtures)
            if of != copy:  # what the others of that copy import
                copy = of
                written += sum(_write(root / f"copy{copy}" / p, text) for p, text in plain.items())
            target, head = root / f"copy{copy}" / path, texts[path]
        wanted = LINES[kind] * next(sizes) - head.count(b"\n")
        written += _write(target, head + _take(library, wanted))


def _write(path: Path, text: bytes) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    return text.count(b"\n")


def _take(library: Iterator[bytes], lines: float) -> bytes:
    found, left = [], lines
    while left > 0:
        found.append(next(library))
        left -= found[-1].count(b"\n")
    return b"".join(found)


def _library(rules: Any) -> Iterator[bytes]:
    """The library's top-level statements, over and over, without those that rules would look at."""
    found = (piece for path in _modules() for piece in _statements(path.read_bytes()))
    kept = [p for p in found if not rules.has_work(b"torch " + p) and p.count(b"\n") <= LARGEST]
    return itertools.cycle(kept)


def _modules() -> list[Path]:
    return sorted(Path(os.__file__).parent.glob("*.py"))


def _statements(text: bytes) -> Iterator[bytes]:
    from torchmigrate.syntax.scope import first_line

    lines = text.splitlines(keepends=True)
    body = [node for node in ast.parse(text).body if getattr(node, "module", None) != "__future__"]
    starts = sorted({first_line(node) for node in body})
    for first, end in itertools.pairwise([*starts, len(lines) + 1]):
        piece = b"".join(lines[first - 1 : end - 1])
        yield piece if piece.endswith(b"\n") else piece + b"\n"


def triggers(tree: Path, listed: Path) -> None:
    """Write the paths of the files with work, a line each, and print the shares as JSON."""
    rules = _rules()
    count = dict.fromkeys(("files", "lines", "cuda", "cuda_lines", "work", "work_lines"), 0)
    with listed.open("w", encoding="utf-8") as stream:
        for path in sorted(p for p in tree.rglob("*.py") if p.is_file()):
            text = path.read_bytes()
            lines, has_work = text.count(b"\n"), rules.has_work(text)
            count["files"] += 1
            count["lines"] += lines
            count["cuda"] += b"cuda" in text
            count["cuda_lines"] += sum(b"cuda" in line for line in text.splitlines())
            if has_work:
                count["work"] += 1
                count["work_lines"] += lines
                stream.write(f"{path}\n")
    print(json.dumps(count))


def _rules() -> Any:
    sys.path.insert(0, str(ROOT))
    from torchmigrate.rewriting.visitor import dispatch_table
    from torchmigrate.rules import packs

    return dispatch_table(packs.load(cases=False))


def many_rules(folder: Path) -> int:
    """Nine rules for each of ours, none of which has work: half about torch.cuda, half about other functions."""
    sys.path.insert(0, str(ROOT))
    from torchmigrate.rules import packs

    number = 9 * len(packs.load(cases=False).rules)
    for i in range(number):
        path = folder / f"made{i % 20}" / f"rule{i}.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        name = f"torch.cuda.made_{i}" if i % 2 else f"torch.made_{i}"
        told = 'summary = "made"\nsafety = "safe"\nwhy = "made"\n'
        path.write_text(f'{told}[[rewrite]]\nmatch = "{name}($x)"\nwith = "torch.other_{i}($x)"\n')
    return number


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["generate", folder, lines]:
            generate(Path(folder), int(lines))
        case ["triggers", tree, listed]:
            triggers(Path(tree), Path(listed))
        case ["rules", folder]:
            print(many_rules(Path(folder)))
        case _:
            sys.exit(__doc__)
