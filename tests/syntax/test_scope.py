"""What a name means: first all that must not resolve, then all that must."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest
from conftest import module

from torchmigrate.syntax.resolver import chain_of
from torchmigrate.syntax.scope import build_scopes
from torchmigrate.torch_api.names import canonical

MARK = "HERE"


def meaning(text: str, reexport: Callable[..., str | None] | None = None) -> str | None:
    """What the expression in `HERE(...)` resolves to."""
    found = module(text)
    if reexport:
        found.resolver._reexport = found.resolver._star = reexport
    from torchmigrate.rewriting.visitor import Visitor, dispatch_table
    from torchmigrate.rules.model import Ruleset

    scan = Visitor(found, dispatch_table(Ruleset({})))
    for statement in found.scopes.statements:
        list(scan._walk(statement))  # parents and scopes of expressions
    call = next(n for n in ast.walk(found.tree) if isinstance(n, ast.Call) and chain_of(n.func) == MARK)
    return found.resolve(call.args[0])


NOT_TORCH = {
    "never imported": "HERE(torch.cuda.x)",
    "another module by the name": "import mylib as torch\nHERE(torch.cuda.x)",
    "numba's cuda": "from numba import cuda\nHERE(cuda.synchronize)",
    "parameter": "import torch\ndef f(torch):\n    HERE(torch.cuda.x)",
    "keyword-only parameter": "import torch\ndef f(*, torch):\n    HERE(torch.cuda.x)",
    "positional-only parameter": "import torch\ndef f(torch, /):\n    HERE(torch.cuda.x)",
    "star parameter": "import torch\ndef f(*torch):\n    HERE(torch.cuda.x)",
    "double star parameter": "import torch\ndef f(**torch):\n    HERE(torch.cuda.x)",
    "lambda's parameter": "import torch\nf = lambda torch: HERE(torch.cuda.x)",
    "local of a function": "import torch\ndef f():\n    HERE(torch.cuda.x)\n    torch = object()",
    "loop variable": "import torch\ndef f():\n    for torch in y:\n        HERE(torch.cuda.x)",
    "loop variable in a tuple": "import torch\ndef f():\n    for i, (a, *torch) in y:\n        HERE(torch.cuda.x)",
    "with": "import torch\ndef f():\n    with y as torch:\n        HERE(torch.cuda.x)",
    "with a tuple": "import torch\ndef f():\n    with y as (a, torch):\n        HERE(torch.cuda.x)",
    "except": "import torch\ndef f():\n    try:\n        pass\n    except E as torch:\n        HERE(torch.cuda.x)",
    "nested function": "import torch\ndef g():\n    def torch(): pass\n    HERE(torch.cuda.x)",
    "nested class": "import torch\ndef g():\n    class torch: pass\n    HERE(torch.cuda.x)",
    "comprehension": "import torch\n[HERE(torch.cuda.x) for torch in y]",
    "generator": "import torch\nz = (HERE(torch.cuda.x) for a, torch in y)",
    "dict comprehension": "import torch\n{1: HERE(torch.cuda.x) for torch in y}",
    "rebound at the top": "import torch\ntorch = wrap()\nHERE(torch.cuda.x)",
    "two meanings": "if a:\n    import torch\nelse:\n    import mylib as torch\nHERE(torch.cuda.x)",
    "try/except with None": (
        "try:\n    from torch.cuda import amp\nexcept ImportError:\n    amp = None\nHERE(amp.autocast)"
    ),
    "try/except of two modules": (
        "try:\n    from torch.cuda import amp\nexcept ImportError:\n    from apex import amp\nHERE(amp.x)"
    ),
    "augmented": "import torch\nc = torch.cuda\nc += 1\nHERE(c.x)",
    "an attribute of an object": "import torch\nHERE(self.torch.cuda.x)",
    "result of a call": "import torch\nHERE(torch.f().cuda.x)",
    "subscript": "import torch\nHERE(torch.d['cuda'].x)",
    "getattr with a default": "import torch\nHERE(getattr(torch, 'cuda', None).x)",
    "getattr of a variable": "import torch\nHERE(getattr(torch, name).x)",
    "class attribute seen from its method by name": (
        "import torch\nclass A:\n    c = torch.cuda\n    def f(self):\n        HERE(c.x)"
    ),
    "global that is rebound": (
        "import torch\ndef f():\n    global torch\n    torch = 1\ndef g():\n    HERE(torch.cuda.x)"
    ),
    "an alias of itself": "c = c\nHERE(c.x)",
    "two aliases of each other": "a = b\nb = a\nHERE(a.x)",
    "star import of another module": "from mylib import *\nHERE(cuda.x)",
    "relative import": "from . import torch\nHERE(torch.cuda.x)",
    "relative import of a name": "from .torch import cuda\nHERE(cuda.x)",
    "for at the top": "import torch\nfor torch in y:\n    HERE(torch.cuda.x)",
    "walrus": "import torch\nif (torch := f()):\n    HERE(torch.cuda.x)",
    "walrus beside a test": "import torch\nif a and not (torch := f()) > 1:\n    HERE(torch.cuda.x)",
    "walrus in a function": "import torch\ndef f():\n    if (torch := g()):\n        HERE(torch.cuda.x)",
    "match": "import torch\ndef f():\n    match y:\n        case torch:\n            HERE(torch.cuda.x)",
    "match in a class pattern": (
        "import torch\ndef f():\n    match y:\n        case P(a=[torch, *_]):\n            HERE(torch.cuda.x)"
    ),
    "match star and rest": (
        "import torch\ndef f():\n    match y:\n        case {'a': 1, **torch}:\n            HERE(torch.cuda.x)"
    ),
    "nonlocal that is rebound": (
        "import torch\ndef f():\n    c = torch.cuda\n    def g():\n        nonlocal c\n        c = 1\n    HERE(c.x)"
    ),
}


@pytest.mark.parametrize("text", NOT_TORCH.values(), ids=NOT_TORCH)
def test_not_torch(text: str) -> None:
    found = meaning(text)
    assert found is None or not found.startswith("torch."), found


TORCH = {
    "plain": "import torch\nHERE(torch.cuda.x)",
    "alias": "import torch as th\nHERE(th.cuda.x)",
    "submodule": "import torch.cuda\nHERE(torch.cuda.x)",
    "submodule's alias": "import torch.cuda as tc\nHERE(tc.x)",
    "from": "from torch import cuda\nHERE(cuda.x)",
    "from with alias": "from torch import cuda as c\nHERE(c.x)",
    "from of the name": "from torch.cuda import x\nHERE(x)",
    "from of the name with alias": "from torch.cuda import x as y\nHERE(y)",
    "assignment": "import torch\nc = torch.cuda\nHERE(c.x)",
    "assignment of an assignment": "import torch\na = torch\nb = a.cuda\nHERE(b.x)",
    "tuple assignment": "import torch\na, c = 1, torch.cuda\nHERE(c.x)",
    "annotated assignment": "import torch\nc: object = torch.cuda\nHERE(c.x)",
    "twice the same": "import torch\ntry:\n    import torch\nexcept ImportError:\n    pass\nHERE(torch.cuda.x)",
    "two ways to say it": "if a:\n    from torch import cuda\nelse:\n    import torch.cuda as cuda\nHERE(cuda.x)",
    "in a function": "def f():\n    import torch\n    HERE(torch.cuda.x)",
    "from the function around": "def f():\n    import torch\n    def g():\n        HERE(torch.cuda.x)",
    "shadowed in another function": "import torch\ndef g(torch): pass\ndef f():\n    HERE(torch.cuda.x)",
    "class body shadows for itself alone": (
        "import torch\nclass A:\n    torch = 1\n    def f(self):\n        HERE(torch.cuda.x)"
    ),
    "comprehension elsewhere": "import torch\n[torch for torch in y]\nHERE(torch.cuda.x)",
    "iterable of a comprehension": "import torch\n[a for a in HERE(torch.cuda.x)]",
    "default of a parameter": "import torch\ndef f(torch=HERE(torch.cuda.x)): pass",
    "decorator": "import torch\n@HERE(torch.cuda.x)\ndef f(torch): pass",
    "getattr": "import torch\nHERE(getattr(torch, 'cuda').x)",
    "class attribute through self": (
        "import torch\nclass A:\n    c = torch.cuda\n    def f(self):\n        HERE(self.c.x)"
    ),
    "class attribute through cls": (
        "import torch\nclass A:\n    c = torch.cuda\n    @classmethod\n    def f(cls):\n        HERE(cls.c.x)"
    ),
    "class attribute in its body": "import torch\nclass A:\n    c = torch.cuda\n    HERE(c.x)",
    "walrus of torch itself": "import torch\nwhile (c := torch.cuda):\n    HERE(c.x)",
    "global": "import torch\ndef f():\n    global c\n    c = torch.cuda\n    HERE(c.x)",
    "star import of torch": "from torch import *\nHERE(cuda.x)",
    "star import of a library that brings torch": "from mylib import *\nHERE(torch.cuda.x)",
    "try with else": "try:\n    import torch\nexcept ImportError:\n    raise\nelse:\n    HERE(torch.cuda.x)",
    "with parentheses": "import torch\nHERE((torch . cuda).x)",
}


@pytest.mark.parametrize("text", TORCH.values(), ids=TORCH)
def test_torch(text: str) -> None:
    assert meaning(text) == "torch.cuda.x"


def test_a_lambdas_default_is_outside_of_it() -> None:
    assert meaning("import torch\nf = lambda torch=HERE(torch.cuda.x): 0") == "torch.cuda.x"


def test_a_walrus_anywhere() -> None:
    assert meaning("import torch\ng(torch := f())\nHERE(torch.cuda.x)") is None


@pytest.mark.parametrize(
    ("long", "short"),
    [
        ("torch.cuda.amp.autocast_mode.autocast", "torch.cuda.amp.autocast"),
        ("torch.cuda.memory.empty_cache", "torch.cuda.empty_cache"),
        ("torch.nn.parallel.distributed.DistributedDataParallel", "torch.nn.parallel.DistributedDataParallel"),
        ("torch.nn.parallel.DataParallel", "torch.nn.DataParallel"),
        ("torch.random.manual_seed", "torch.manual_seed"),
        ("torch.cuda.memory", "torch.cuda.memory"),  # the module itself stays
        ("mylib.torch.random.x", "mylib.torch.random.x"),
    ],
)
def test_canonical(long: str, short: str) -> None:
    assert canonical(long) == short


def test_a_reexport_of_the_project_is_followed() -> None:
    asked = []

    def reexport(level: int, name: str, attribute: str) -> str | None:
        asked.append((level, name, attribute))
        return "torch.cuda.amp.autocast" if attribute == "autocast" else None

    assert meaning("from .common import autocast as ac\nHERE(ac)", reexport) == "torch.cuda.amp.autocast"
    assert meaning("from .common import *\nHERE(autocast)", reexport) == "torch.cuda.amp.autocast"
    assert meaning("from .common import other\nHERE(other)", reexport) is None
    assert (1, "common", "autocast") in asked


def test_torch_itself_is_no_project_module() -> None:
    """`from torch import x` never asks the project, which may have a folder of that name."""
    assert meaning("from torch.cuda import x\nHERE(x)", lambda *a: "mine.x") == "torch.cuda.x"


@pytest.mark.parametrize(
    ("text", "chain"),
    [
        ("a.b.c", "a.b.c"),
        ("a", "a"),
        ("getattr(a.b, 'c')", "a.b.c"),
        ("getattr(getattr(a, 'b'), 'c').d", "a.b.c.d"),
        ("getattr(a, 'b', None)", None),
        ("getattr(a, b)", None),
        ("a().b", None),
        ("a[0].b", None),
        ("'x'.join", None),
        ("(a or b).c", None),
    ],
)
def test_chains(text: str, chain: str | None) -> None:
    assert chain_of(ast.parse(text, mode="eval").body) == chain


def test_every_statement_has_a_parent_and_a_scope() -> None:
    text = """
class A(B):
    def f(self):
        try:
            with a as b, c as d:
                pass
        except E:
            while x:
                break
            else:
                y = 1
        finally:
            async def g():
                async for i in z:
                    pass
match v:
    case 1 if x:
        k = 1
    case _:
        pass
if a:
    b
elif c:
    d
"""
    tree = ast.parse(text)
    scopes = build_scopes(tree)
    statements = [n for n in ast.walk(tree) if isinstance(n, ast.stmt)]
    assert set(scopes.statements) == set(statements)
    assert all(n in scopes.scope_of and n in scopes.parent for n in statements)
    assert [s.lineno for s in scopes.statements] == sorted(s.lineno for s in statements)


HOMES = """cuda.amp.autocast_mode cuda.amp.grad_scaler amp.autocast_mode amp.grad_scaler cuda.memory cuda.random
    cuda.streams cuda.graphs xpu.memory xpu.random xpu.streams xpu.graphs mtia.memory mtia.mtia_graph mps.event
    accelerator.memory accelerator.graphs nn.parallel.distributed nn.parallel.data_parallel
    distributed.distributed_c10d utils.data.dataloader autograd.variable serialization random"""


@pytest.mark.parametrize("home", HOMES.split())
def test_what_torch_documents_one_level_up(home: str) -> None:
    up = f"torch.{home}".rpartition(".")[0]
    assert canonical(f"torch.{home}.x") == f"{up}.x"
    assert meaning(f"from torch.{home} import x\nHERE(x)") == f"{up}.x"
