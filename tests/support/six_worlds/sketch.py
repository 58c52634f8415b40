"""A sketch is a random program in the making: constructs add statements to it and use what others have added."""

from __future__ import annotations

import json
import random
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from six_worlds.running import Project

LITERALS = ['"cuda"'] * 5 + [
    '"cuda:0"',
    'f"cuda:{INDEX}"',
    '"cuda:%d" % INDEX',
    '"cuda:{}".format(INDEX)',
    '"cuda:" + "0"',
]
HEAD = ["import os", "import sys", "import torch"]


@dataclass
class Module:
    """One file of a program: its imports, and its statements in chunks."""

    name: str
    imports: list[str] = field(default_factory=list)
    chunks: list[str] = field(default_factory=list)

    def need(self, line: str) -> None:
        if line not in self.imports:
            self.imports.append(line)

    def add(self, text: str) -> None:
        self.chunks.append(textwrap.dedent(text).strip("\n"))

    @property
    def text(self) -> str:
        return "\n".join([*self.imports, *self.chunks]) + "\n"

    @property
    def path(self) -> str:
        return self.name.replace(".", "/") + ".py"


class Sketch:
    """What a program has so far; expressions are true in the main module, after all of its chunks."""

    def __init__(self, seed: int, plain: bool = False, real: str = "nowhere") -> None:
        self.random = random.Random(seed)
        self.plain, self.real = plain, real  # real: in which worlds the real torch of a CPU can run it
        self.main = Module("main", [*HEAD])
        self.main.add('NO_CUDA = False\nINDEX = 0\nOPT_IN = os.environ.get("ENABLE_MPS", "") == "1"')
        self.modules: dict[str, Module] = {}
        self.others: dict[str, str] = {}
        self.argv: list[str] = []
        self.env: dict[str, str] = {}
        self.flags: list[str] = []  # true on CUDA
        self.devices: list[str] = []  # texts
        self.places: list[str] = []  # torch.device
        self.functions: list[str] = []  # of no argument, that return a text
        self.parsers: list[str] = []
        self.tail: list[str] = []  # what comes last, as it may end the program
        self.may_be_function = True
        self._count = 0

    # ---- choices

    def name(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def label(self) -> str:
        return f'"{self.name("s")}"'

    def one(self, *choices: str) -> str:
        return self.random.choice(choices)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def flag(self) -> str:
        """Return an expression that is true on CUDA."""
        direct = ["torch.cuda.is_available()"] * 4 + ["torch.cuda.device_count() > 0"]
        found = self.random.choice(direct + self.flags * 2)
        return f"(not NO_CUDA and {found})" if self.chance(0.15) else found

    def literal(self) -> str:
        return self.random.choice(LITERALS)

    def device(self) -> str:
        """Return an expression for the text of a device that is there."""
        dice = self.random.random()
        if self.devices and dice < 0.35:
            return self.random.choice(self.devices)
        if self.functions and dice < 0.5:
            return self.random.choice(self.functions) + "()"
        if self.places and dice < 0.55:
            return f"str({self.random.choice(self.places)})"
        if dice < 0.7 and not self.plain:
            kind = self.one("mps", "mps", "xpu")
            return f'({self.literal()} if {self.flag()} else "{kind}" if {question(kind)} else "cpu")'
        return f'({self.literal()} if {self.flag()} else "cpu")'

    def asked(self, name: str, value: str) -> None:
        """Give a value to an environment variable, now and then."""
        if self.chance(0.5):
            self.env[name] = value

    # ---- files

    def module(self, name: str) -> Module:
        if name not in self.modules:
            self.modules[name] = Module(name, ["import torch"])
        return self.modules[name]

    def refer(self, module: str, member: str, into: Module | None = None) -> str:
        """Import a member of a module into another (the main one), in one of the ways there are; return its name."""
        target = into or self.main
        home, _, last = module.rpartition(".")
        way = self.random.randrange(4)
        if way == 0:
            target.need(f"import {module}")
            return f"{module}.{member}"
        if way == 1 and home:
            target.need(f"from {home} import {last}")
            return f"{last}.{member}"
        if way == 2:
            alias = f"{member}_of_{last}"
            target.need(f"from {module} import {member} as {alias}")
            return alias
        target.need(f"from {module} import {member}")
        return member

    # ---- statements

    def add(self, text: str) -> None:
        """Add statements, now and then inside of a block that runs once."""
        if self.chance(0.06):
            first = "if True:" if self.plain else "if INDEX == 0:"  # with another INDEX, a program may not die
            head = self.one(first, "for _ in range(1):", "while True:", "with torch.no_grad():", "try:")
            text = f"{head}\n{textwrap.indent(text, '    ')}"
            text += {"while True:": "\n    break", "try:": "\nfinally:\n    pass"}.get(head, "")
        self.main.add(text)

    def last(self, text: str) -> None:
        """Add statements behind all others: they may end the program."""
        self.tail.append(textwrap.dedent(text).strip("\n"))

    def module_level(self) -> None:
        """Keep the program out of a function: it has globals."""
        self.may_be_function = False

    def show(self, expression: str) -> None:
        """Print where a device text leads."""
        where = [f"torch.device({expression})", f"torch.device({expression})"]
        if self.real != "everywhere":
            where += [f"torch.zeros(2, device={expression}).device", f"torch.ones(2).to({expression}).device"]
        self.add(f"print({self.label()}, {self.random.choice(where)})")

    def show_place(self, expression: str) -> None:
        where = [expression, f"{expression}.type"]
        if self.real != "everywhere":
            where += [
                f"torch.zeros(2, device={expression}).device",
                f"torch.nn.Linear(2, 2).to({expression}).weight.device",
            ]
        self.add(f"print({self.label()}, {self.random.choice(where)})")

    # ---- the whole

    def finish(self) -> Project:
        """Show what was decided and return the program."""
        for expression in dict.fromkeys([*self.devices, *(f"{f}()" for f in self.functions)]):
            if self.chance(0.7):
                self.show(expression)
        for expression in dict.fromkeys(self.places):
            if self.chance(0.7):
                self.show_place(expression)
        for text in self.tail:
            self.main.add(text)
        files = {module.path: module.text for module in self.modules.values()}
        for name in self.modules:
            for folder in _folders(name):
                files.setdefault(f"{folder}/__init__.py", "")
        files.update(self.others)
        files.update(self._main())
        return Project(files, tuple(self.argv), self.env)

    def _main(self) -> dict[str, str]:
        imports, chunks = self.main.imports, self.main.chunks
        form = self.random.random()
        if form < 0.06:
            return {"main.ipynb": notebook(["\n".join(imports), *chunks])}
        if form < 0.25 and self.may_be_function:
            body = textwrap.indent("\n".join(chunks), "    ")
            return {"main.py": "\n".join([*imports, "", "", "def main():", body, "", "", RUN_MAIN, ""])}
        return {"main.py": self.main.text}


RUN_MAIN = 'if __name__ == "__main__":\n    main()'


def question(kind: str) -> str:
    """Return the question whether there is a device of a kind that is not CUDA."""
    return "torch.backends.mps.is_available()" if kind == "mps" else f"torch.{kind}.is_available()"


def _folders(module: str) -> list[str]:
    parts = module.split(".")[:-1]
    return ["/".join(parts[: i + 1]) for i in range(len(parts))]


def notebook(sources: Sequence[str]) -> str:
    """Return a notebook of code cells."""
    cells = [
        {
            "cell_type": "code",
            "execution_count": None,
            "id": f"cell{i}",
            "metadata": {},
            "outputs": [],
            "source": source.splitlines(keepends=True),
        }
        for i, source in enumerate(sources)
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1) + "\n"


@dataclass(frozen=True)
class Construct:
    """Something that programs do; `plain` if nothing in it holds a decision back.

    `real` says in which worlds the real torch of a CPU can run it: `everywhere`, where it asks only; `cpu`, where it
    moves tensors; `nowhere`.
    """

    name: str
    add: Callable[[Sketch], None]
    plain: bool
    real: str
    weight: int


CONSTRUCTS: dict[str, Construct] = {}
NOTHING = "nothing"
REAL = ("everywhere", "cpu", "nowhere")


def construct(
    plain: bool = False, real: str = "everywhere", weight: int = 1
) -> Callable[[Callable[[Sketch], None]], Callable[[Sketch], None]]:
    """Register a function that adds a construct to a sketch."""

    def register(function: Callable[[Sketch], None]) -> Callable[[Sketch], None]:
        name = function.__name__
        assert name not in CONSTRUCTS, name
        CONSTRUCTS[name] = Construct(name, function, plain, real, weight)
        return function

    return register


def program(seed: int, plain: bool = False, real: str = "nowhere", must: str = "") -> tuple[Project, frozenset[str]]:
    """Return the random program of a seed, and which constructs it has.

    `must` is a construct that it has to have, behind two plain ones, or NOTHING behind them.
    """
    plain, wanted = plain or bool(must), plain
    sketch = Sketch(seed, plain, real)
    kinds = [c for c in CONSTRUCTS.values() if (c.plain or not plain) and REAL.index(c.real) <= REAL.index(real)]
    weights = [c.weight for c in kinds]
    chosen = sketch.random.choices(kinds, weights, k=sketch.random.randint(2, 6))
    if must:
        del chosen[2:]
    for kind in chosen:
        kind.add(sketch)
    if must:
        sketch.plain = wanted
    if must in CONSTRUCTS:
        chosen.append(CONSTRUCTS[must])
        chosen[-1].add(sketch)
    return sketch.finish(), frozenset(kind.name for kind in chosen)
