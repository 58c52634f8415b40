# ruff: noqa: E501 - its tables are read by columns
"""Random programs that mention CUDA: statements and expressions of all rules' cases, put into each other.

`program` draws from a `random.Random`, which hypothesis can be: then it also finds the shortest one that fails."""

from __future__ import annotations

import ast
import io
import random
import textwrap
import tokenize
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from torchmigrate.rules import packs

NAMES = ("a", "b", "x", "model", "data", "device", "torch", "cuda", "accel", "self", "é", "ｘ", "变量")
IMPORTS = (
    "import torch", "import torch as th", "from torch import cuda", "from torch import cuda as c, nn", "import torch.cuda",
    "import torch.cuda as tc", "from torch.cuda import empty_cache as ec, is_available", "from torch import *",
    "from torch.cuda.amp import autocast, GradScaler as GS", "import accel", "from . import accel", "import numpy as np",
    "try:\n    import torch\nexcept ImportError:\n    torch = None", "if x:\n    import torch as t\nelse:\n    t = None",
    "import torch, os; import sys", "from torch import (\n    device as dev,  # cuda\n    Tensor,\n)", "T = torch",
    "from __future__ import annotations", "cuda = torch.cuda; sync = cuda.synchronize", "import mylib as torch",
    "th = torch\nc2 = th.cuda", "getattr(torch, 'cuda')", "from torch.nn.parallel import DistributedDataParallel as DDP",
    "import torch \\\n    as tt", "def late():\n    global torch\n    import torch",
)  # fmt: skip
ATOMS = (
    "torch.cuda.is_available()", "'cuda'", "'cuda:0'", "x.cuda()", "torch.device('cuda')", "torch.cuda.current_device()",
    "torch.ones(1, device='cuda')", "model.to('cuda', non_blocking=True)", "th.cuda.synchronize()", "c.empty_cache()", "1",
    "x.is_cuda", "torch.cuda.FloatTensor(2)", "'cuda:%d' % a", "f'cuda:{a}'", "'cuda:' + str(a)", "torch.cuda.Stream()",
    "torch.device('cuda' if torch.cuda.is_available() else 'cpu')", "x.type(torch.cuda.FloatTensor)", "a.b[0].cuda(b)",
    "torch.cuda.device_count() > 1", "getattr(torch.cuda, 'synchronize')()", "b'cuda'", "u'cuda'", "r'cuda'", "'''cuda'''",
    "'cu' 'da'", "'\\x63uda'", "torch.randn(1).cuda().half().cuda(0)", "ec()", "'😀cuda'", "x  .  cuda  ( )", "x.cuda(*a, **b)",
)  # fmt: skip
# where an expression may stand; `{}` is an expression, each its own
AROUND = (
    "({})", "[{}, {}]", "({}, *[{}])", "{{{}: {}}}", "{{'k': {}, **{{}}}}", "f({}, k={})", "f(*{}, **{})", "(lambda a={}: {})",
    "[{} for a in {} if {}]", "{{a: {} for a in {}}}", "({} for a in [{}])", "(y := {})", "({} if {} else {})",
    "({} and not {} or {})", "{}[{}:{}, ...]", "f(  # cuda: 1\n    {},  # cuda: 2\n    {}  # cuda: 3\n)", "({}\n.cuda())",
    "(\\\n{}\\\n)", "({} == {} != {})", "{}.cuda()", "{}.to({})", "torch.device({})", "f'{{{}}}'", "str({})", "-({})",
    "[[{}\n] for _ in range(2)]", "(lambda: (yield {}))", "({} @ {})", "next(iter({}),)", "{}.cuda",
    "torch.zeros(3, device={})", "x.cuda({})", "(\t{}\t)", "[{}][0]", "print({}, sep='')", "({} in ('cuda', {}))",
)  # fmt: skip
# `{}` an expression, `@` the body
STATEMENTS = (
    "{}", "x = {}", "x: 'torch.cuda.FloatTensor' = {}", "x += {}", "assert {}, {}", "del x, a[{}]", "x = y = {}", "*a, b = {}",
    "x, device = {}, {}", "{}; {}", "x = {};", "x = ({},\n     {})  # end", "raise {}", "self.device = {}", "x[{}] = {}",
    "if {}: x = {}", "torch.backends.cudnn.benchmark = {}", "import torch.cuda.nvtx as nv; {}", "x = \\\n    {}",
    "with {}: pass", "'''doc cuda'''", "pass  # x.cuda()", "print(f\"{{x!r:>{{a}}}} cuda\", {})", "type = {}", "match = {}",
)  # fmt: skip
BLOCKS = (
    "if {}:\n@", "if {}:\n@\nelif {}:\n@\nelse:\n@", "while {}:\n@\nelse:\n@", "for x in {}:\n@", "with {} as x, {}:\n@",
    "try:\n@\nexcept (RuntimeError, {}) as e:\n@\nfinally:\n@", "def f(a, /, b={}, *c, d: {} = {}, **e) -> {}:\n@",
    "async def g(x):\n    async with {} as y:\n@@\n    return await {}", "class A({}):\n@", "@deco({})\ndef h():\n@",
    "match {}:\n    case {{'cuda': [1, *_]}} | 'cuda' if {}:\n@@\n    case _:\n@@", "def gen():\n    yield {}\n@",
    "def o():\n    x = {}\n    def i():\n        nonlocal x\n@@\n    return i", "class B:\n    x = {}\n    def cuda(self):\n@@",
    "try:\n@\nexcept* ValueError:\n@", "with ({} as a,\n      {}):\n@", "if not torch.cuda.is_available():\n@\nelse:\n@",
    "if torch.cuda.is_available():\n@", "def f(torch, device={}):\n@", "lambda: 0\nif 1:\n@", "class C:\n    device = {}\n@",
)  # fmt: skip
NEWER = (
    "def f[T: (int, {})](x: T):\n@",
    "class G[*Ts, **P]:\n@",
    "type X[T] = {}",
    "f'{{'cuda'}} {{{}}}'",
)  # 3.12 and later


@dataclass(frozen=True, slots=True)
class Pieces:
    """What programs are made of, from the cases of all rules."""

    statements: Sequence[str]
    expressions: Sequence[str]
    imports: Sequence[str]


@cache
def pieces() -> Pieces:
    statements: dict[str, None] = {}
    expressions: dict[str, None] = {}
    imports: dict[str, None] = dict.fromkeys(IMPORTS)
    for rule in packs.load().rules.values():
        for case in rule.cases:
            if not case.file:
                _take(case.before.lstrip("\n"), statements, expressions, imports)
    return Pieces(list(statements), [*ATOMS, *expressions], list(imports))


def _take(text: str, statements: dict[str, None], expressions: dict[str, None], imports: dict[str, None]) -> None:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    for node in tree.body:
        segment = ast.get_source_segment(text, node) or ""
        (imports if isinstance(node, (ast.Import, ast.ImportFrom)) else statements)[segment] = None
    for found in ast.walk(tree):
        if isinstance(found, (ast.Call, ast.Attribute, ast.IfExp, ast.Compare)):
            segment = ast.get_source_segment(text, found) or ""
            if 2 < len(segment) < 90 and "\n" not in segment:
                expressions[segment] = None


def program(draw: random.Random, newer: bool = False) -> bytes:
    """One module. `newer`: with syntax of Python 3.12. Most are valid Python."""
    writer = _Writer(draw, newer)
    lines = [draw.choice(pieces().imports) for _ in range(draw.randint(0, 3))]
    lines += [writer.statement(draw.randint(0, 3)) for _ in range(draw.randint(1, 5))]
    if draw.random() < 0.7:
        lines.insert(0, "import torch")
    lines.sort(key=lambda line: not line.startswith("from __future__"))
    return shaped("\n".join(lines) + "\n", draw)


class _Writer:
    """Draws statements and expressions; `depth` is how many more may stand in each other."""

    def __init__(self, draw: random.Random, newer: bool) -> None:
        self.draw, self.newer = draw, newer

    def expression(self, depth: int) -> str:
        draw = self.draw
        if depth <= 0 or draw.random() < 0.4:
            return draw.choice(ATOMS if draw.random() < 0.5 else pieces().expressions)
        form = draw.choice(AROUND)
        inner = (self.expression(depth - 1) for _ in range(form.count("{}")))
        return form.format(*inner) if "{}" in form else form

    def statement(self, depth: int) -> str:
        draw = self.draw
        kind = draw.random()
        if kind < 0.3:
            return draw.choice(pieces().statements)
        if depth <= 0 or kind < 0.6:
            return self._filled(draw.choice(STATEMENTS))
        if kind < 0.65:
            return draw.choice(pieces().imports)
        forms = BLOCKS + NEWER if self.newer else BLOCKS
        text = self._filled(draw.choice(forms))
        lines = (self._body(line, depth) if line in ("@", "@@") else line for line in text.split("\n"))
        return "\n".join(lines)

    def _filled(self, form: str) -> str:
        return form.format(*(self.expression(2) for _ in range(form.count("{}"))))

    def _body(self, mark: str, depth: int) -> str:
        body = "\n".join(self.statement(depth - 1) for _ in range(self.draw.randint(1, 2)))
        return textwrap.indent(body, "    " * len(mark))


def shaped(text: str, draw: random.Random) -> bytes:
    """In one of the shapes that files have: newlines, tabs, marks, encodings, spellings."""
    for change in SHAPES:
        if draw.random() < 0.12:
            text = change(text, draw)
    kind = draw.random()
    if kind < 0.05:
        return b"\xef\xbb\xbf" + text.encode()
    if kind < 0.10:
        cookie = draw.choice(
            ("latin-1", "cp1252", "utf-8", "shift_jis", "koi8-r", "utf-8-sig", "utf-7", "rot13", "ascii")
        )
        try:
            return f"# -*- coding: {cookie} -*-\n{text}".encode(cookie)
        except (LookupError, UnicodeEncodeError):
            return f"# coding: {cookie}\n{text}".encode()
    return text.encode()


def _styled(text: str, draw: random.Random) -> str:
    """Names in letters that Python takes for the plain ones (NFKC)."""
    word = draw.choice(("cuda", "torch", "device", "to", "is_available"))
    first = draw.choice((0x1D41A, 0x1D44E, 0xFF41))
    other = "".join(chr(first + ord(c) - 97) if c.isalpha() else c for c in word)
    other = other if unicodedata.normalize("NFKC", other) == word else word
    return _tokens(
        text, lambda t: other if t.type == tokenize.NAME and t.string == word and draw.random() < 0.5 else None
    )


def _commented(text: str, draw: random.Random) -> str:
    """Comments and line ends within brackets."""
    end = draw.choice(("  # cuda, 'x.cuda('\n", "\n", " # torchmigrate: ignore[device]\n", " \\\n", "\n\n\t"))
    return _tokens(text, lambda t: f"{t.string}{end}" if t.string in ("(", "[", ",") and draw.random() < 0.3 else None)


def _tokens(text: str, change: Callable[[tokenize.TokenInfo], str | None]) -> str:
    """The text with some of its tokens changed."""
    lines = text.splitlines(keepends=True)
    try:
        found = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return text
    for token in reversed(found):
        (row, start), (last, end) = token.start, token.end
        if row == last <= len(lines) and (new := change(token)) is not None:
            lines[row - 1] = lines[row - 1][:start] + new + lines[row - 1][end:]
    return "".join(lines)


def _mixed(text: str, draw: random.Random) -> str:
    *lines, last = text.split("\n")
    return "".join(line + draw.choice(("\n", "\r\n", "\r")) for line in lines) + last


def _marked(text: str, draw: random.Random) -> str:
    lines = text.split("\n")
    at = draw.randrange(len(lines))
    mark = draw.choice(
        ("# torchmigrate: ignore[device, memory] x", "# torchmigrate: skip-file", "# torchmigrate: nope", "\x0c")
    )
    lines[at] += f"  {mark}"
    return "\n".join(lines)


def _renamed(text: str, draw: random.Random) -> str:
    old, new = draw.choice(NAMES), draw.choice(NAMES)
    return _tokens(text, lambda t: new if t.type == tokenize.NAME and t.string == old else None)


SHAPES: Sequence[Callable[[str, random.Random], str]] = (
    _styled,
    _commented,
    _renamed,
    _marked,
    lambda text, draw: text.replace("    ", "\t"),
    lambda text, draw: text.replace("    ", draw.choice((" ", "  ", "        "))),
    lambda text, draw: text.rstrip("\n"),
    lambda text, draw: text.replace("\n", "\n\x0c", 1),
    lambda text, draw: textwrap.indent(text, "    ").join(("if True:\n", "")),
    lambda text, draw: text.replace("'cuda", draw.choice(("u'cuda", "r'cuda", "'''cuda"))),
    lambda text, draw: text + "# " + "x" * draw.randint(0, 2000) + "\n\n\n",
    lambda text, draw: text.replace("\n", draw.choice(("\r\n", "\r"))),
    _mixed,
)
