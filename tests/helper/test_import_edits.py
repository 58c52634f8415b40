"""Import edits: where the helper's import goes, which imports go away, and that both leave all other bytes alone."""

from __future__ import annotations

import ast
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import module, texts_after, write_tree
from hypothesis import given
from hypothesis import strategies as st

from torchmigrate.config.settings import Settings
from torchmigrate.helper import import_edits
from torchmigrate.helper.import_edits import with_import
from torchmigrate.project.context import ProjectContext
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.source.edits import compose
from torchmigrate.source.encoding import decode


def bound(text: str, statement: str = "import accel", torch: bool = False) -> str:
    source = decode(text.encode())
    module = SemanticModel(Path("/case.py"), source, ProjectContext(Path("/"), Settings()))
    edits = with_import(module, statement, torch)
    return source.encode(compose(source.utf8, edits)).decode()


# `@` marks where the import's line must stand
INSERT = {
    "no imports": "@x = accel.f()\n",
    "a docstring": '"""Doc."""\n@x = accel.f()\n',
    "a docstring of many lines": '"""Doc.\n\nimport os\n"""\n@\nx = accel.f()\n',
    "__future__": "from __future__ import annotations\n@x = accel.f()\n",
    "a docstring and __future__": '"""Doc."""\nfrom __future__ import annotations\n@\nx = accel.f()\n',
    "__future__ and others": "from __future__ import annotations\n\nimport os\n@x = accel.f()\n",
    "a shebang and comments": "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n# License: long\n\n@x = accel.f()\n",
    "a comment that speaks of the first statement": "# a\n\n@# the run\n# itself\nx = accel.f()\n",
    "a comment at the head of the file": "# -*- coding: utf-8 -*-\n# License: long\n@x = accel.f()\n",
    "a comment in a string": 'import os\n@x = f("""\n# a""")\naccel.f(x)\n',
    "a comment that is not aligned": "# a\n\n  # b\n@x = accel.f()\n",
    "a comment that marks a cell": "# a\n\n# %% run\n@x = accel.f()\n",
    "a string that is no docstring": "import os\n@'x'\naccel.f()\n",
    "after the last import": "import os\nimport sys\n@\nx = accel.f()\n",
    "an import of many lines": "import os\nfrom a import (\n    b,\n)\n@x = accel.f()\n",
    "a backslash": "from a import b, \\\n    c\n@x = accel.f()\n",
    "a comment beside the import": "import os  # first\n@x = accel.f()\n",
    "TYPE_CHECKING": "from typing import TYPE_CHECKING\n@\nif TYPE_CHECKING:\n    import torch\n\nx = accel.f()\n",
    "an import in a try, of another": "@try:\n    import numpy\nexcept ImportError:\n    numpy = None\nx = accel.f()\n",
    "torch at the head and in a function": "import torch\n@\n\ndef f():\n    import torch\n    accel.g()\n",
    "torch for type checkers alone": "import os\n@if TYPE_CHECKING:\n    import torch\n\n\ndef f():\n    accel.g()\n",
    "torch in a function, a use before": "import os\n@def f():\n    import torch\n    accel.g()\nx = accel.h()\n",
    "torch nowhere": "import os\n@def f(x):\n    return x.to(accel.device())\n",
    "an import after the first use": "import torch\n@x = accel.f()\nimport os\n",
    "an import after a function is a late one": "import torch\n@def f():\n    accel.g()\nimport os\nf()\n",
    "a function that is called before the last import": "import torch\n@def f():\n    accel.g()\nf()\nimport os\n",
    "through another function": "import torch\n@def f():\n    accel.g()\ndef h():\n    f()\nh()\nimport os\n",
    "through a function further down": "import torch\n@def h():\n    f()\ndef f():\n    accel.g()\nh()\nimport os\n",
    "a default is evaluated at once": "import torch\n@def f(d=accel.device()):\n    pass\nimport os\n",
    "a default on the line of the body": "import torch\n@def f(d=accel.device()): return d\nimport os\n",
    "a decorator is evaluated at once": "import torch\n@@accel.deco\ndef f():\n    pass\nimport os\n",
    "a class body is evaluated at once": "import torch\n@class A:\n    d = accel.device()\nimport os\n",
    "before a decorator": "@@deco\ndef f():\n    accel.g()\n",
    "an annotation is evaluated at once": "import torch\n@def f(d: accel.T):\n    pass\nimport os\n",
    "used on the import's own line": "@import os; x = accel.f()\n",
    "two imports on a line": "import os; import sys\n@x = accel.f()\n",
    "a form feed": "import os\n@\x0c\nx = accel.f()\n",
    "only a guarded main": '@if __name__ == "__main__":\n    accel.f()\n',
    "imports between code": "import a\nb = 1\nimport c\n@d = accel.f()\n",
}


# `@` stands for the import, with the line's indentation
WITHOUT_TORCH = {
    "a try": "try:\n    import torch\n    @\nexcept ImportError:\n    torch = None\nx = accel.f()\n",
    "one module": "try:\n    from torch.x import a\n    from torch.x import b\n    @\nfinally:\n    pass\naccel.f()\n",
    "modules": "try:\n    import torch\n    @\n    import torch.x\nexcept ImportError:\n    pass\naccel.f()\n",
    "a name of torch": "try:\n    from torch import nn  # slow\n    @\nexcept ImportError:\n    pass\naccel.f()\n",
    "a test": "from a import has_torch\nif has_torch():\n    import torch\n    @\n\ndef f():\n    accel.g()\n",
    "a function": "import os\n\ndef f():\n    import torch\n    @\n    return accel.g()\n",
    "a method": "class A:\n    def f(self):\n        import torch\n        @\n\n        return accel.g()\n",
    "two": "def f():\n    import torch\n    @\n    accel.g()\n\ndef h():\n    import torch\n    @\n    accel.h()\n",
    "a closure": "def f():\n    import torch\n    @\n    def h():\n        return accel.g()\n    return h\n",
    "an early return": "def f():\n    try:\n        import torch\n        @\n    except ImportError:\n        return\n"
    "    return accel.g()\n",
    "a function beside it": "def f():\n    import torch\n    @\n    accel.g()\n\n"
    'def h(x):\n    """Doc."""\n    @\n    accel.g(x)\n',
    "a function above a test": "from a import has\n\ndef f():\n    import torch\n    @\n    accel.g()\n\n"
    "if has():\n    import torch\n    @\n    x = accel.h()\n\ndef h():\n    import torch\n    accel.g()\n",
    "a function above a test that needs none": "from a import has\n\ndef f():\n    import torch\n    @\n"
    "    accel.g()\n\nif has():\n    import torch\n    x = torch\n",
    "a function that has it": "def f():\n    import torch\n    import accel\n    accel.g()\n\n"
    "def h():\n    import torch\n    @\n    accel.g()\n",
}


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("name", WITHOUT_TORCH)
def test_a_file_that_can_be_imported_without_torch_still_can(name: str, newline: str) -> None:
    text = WITHOUT_TORCH[name].replace("\n", newline)
    before = "".join(line for line in text.splitlines(keepends=True) if line.strip() != "@")
    assert bound(before) == text.replace("@", "import accel")


def test_an_import_of_many_lines_goes_beside_that_of_torch() -> None:
    either = "try:\n    from . import accel\nexcept ImportError:\n    import accel"
    assert bound("def f():\n    import torch\n    accel.g()\n", either) == (
        "def f():\n    import torch\n    try:\n        from . import accel\n    except ImportError:\n"
        "        import accel\n    accel.g()\n"
    )


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("name", INSERT)
def test_where_the_import_goes(name: str, newline: str) -> None:
    before, _, after = INSERT[name].replace("\n", newline).partition("@")
    assert bound(before + after) == f"{before}import accel{newline}{after}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f():\n    accel.g()\nimport os", "def f():\n    accel.g()\nimport os\nimport accel"),
        ("def f():\r\n    accel.g()\r\nimport os", "def f():\r\n    accel.g()\r\nimport os\r\nimport accel"),
        ("x = accel.f()", "import accel\nx = accel.f()"),
        ("\ufeffx = accel.f()\n", "\ufeffimport accel\nx = accel.f()\n"),
        ("import os\rx = accel.f()\r", "import os\rimport accel\rx = accel.f()\r"),
    ],
)
def test_the_ends_of_a_file(text: str, expected: str) -> None:
    assert bound(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "import accel\naccel.f()\n",
        "from . import accel\naccel.f()\n",
        "from pkg import accel\naccel.f()\n",
        "from torchmigrate import runtime as accel\naccel.f()\n",
        "import accel as ac\nac.f()\n",
    ],
)
def test_what_is_bound_is_not_bound_twice(text: str) -> None:
    assert bound(text) == text


EITHER = "try:\n    from . import accel\nexcept ImportError:  # run as a script\n    import accel"


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_a_module_that_is_a_script_too(newline: str) -> None:
    before, after = f"import os{newline}", f"x = accel.f(){newline}"
    once = bound(before + after, EITHER)
    assert once == before + newline + EITHER.replace("\n", newline) + newline + after
    assert bound(once, EITHER) == once


def test_a_line_that_holds_no_statement_of_many_lines() -> None:
    assert bound("import os; x = [accel.f(),\n 1]\n", EITHER) == "import os; import accel; x = [accel.f(),\n 1]\n"


def test_torch_is_imported_where_a_rewrite_needs_it() -> None:
    assert (
        bound("import os\nx = accel.f(torch.int)\n", torch=True)
        == "import os\nimport torch\nimport accel\nx = accel.f(torch.int)\n"
    )


STATEMENTS = [
    "import os\n",
    "from a import (b,\n  c)\n",
    "x = 1\n",
    "def f():\n    return accel.g()\n",
    "class A:\n    def f(self): return accel.g()\n",
    "if x:\n    import y\n",
    "# comment\n",
    "\n",
    "y = accel.f()\n",
    "@deco\ndef h(): pass\n",
    "f()\n",
    "import sys; z = 2\n",
    "'string'\n",
]


@given(st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=8), st.sampled_from(["", '"""Doc."""\n', "#!x\n"]))
def test_the_import_stands_before_every_use(parts: list[str], head: str) -> None:
    text = head + "".join(parts)
    if not ast.parse(text).body:
        return
    after = bound(text)
    at = after.index("import accel\n")
    assert after[:at] + after[at + len("import accel\n") :] == text
    assert ast.get_docstring(ast.parse(after)) == ast.get_docstring(ast.parse(text))
    for node in ast.parse(after).body:
        uses = "accel" in ast.unparse(node) and not isinstance(node, (ast.Import, ast.FunctionDef, ast.ClassDef))
        assert not uses or node.lineno > after[:at].count("\n") + 1


# ---- imports that lost their last use
def dropped(before: str, after: str, path: str = "/case.py") -> str:
    new = module(after, path)
    text = compose(new.source.utf8, import_edits.removals(module(before, path), new)).decode()
    ast.parse(text)
    return text


def amp(head: str, body: str = "autocast()\nGradScaler()\namp.x\n") -> tuple[str, str]:
    """A file that used the names, and its text after they were rewritten."""
    return head + body, head + "accel.autocast()\n"


DROP = {
    "one": ("from torch.cuda.amp import autocast\n", ""),
    "a module": ("from torch.cuda import amp\n", ""),
    "import as": ("import torch.cuda.amp as amp\n", ""),
    "with an alias": ("from torch.cuda.amp import autocast as autocast\n", ""),
    "CRLF": ("import os\r\nfrom torch.cuda import amp\r\nimport sys\r\n", "import os\r\nimport sys\r\n"),
    "a blank behind it": ("from torch.cuda import amp \n", ""),
    "blanks behind it": ("from torch.cuda import amp  \t\nimport os\n", "import os\n"),
    "all of many": ("from torch.cuda.amp import autocast, GradScaler\n", ""),
    "one of two": ("from torch.cuda.amp import autocast, common\n", "from torch.cuda.amp import common\n"),
    "the last of two": ("from torch.cuda.amp import common, autocast\n", "from torch.cuda.amp import common\n"),
    "odd spacing": (
        "from  torch.cuda.amp  import autocast , common as c\n",
        "from  torch.cuda.amp  import common as c\n",
    ),
    "lines": (
        "from torch.cuda.amp import (\n    autocast,\n    common,\n    GradScaler,\n)\n",
        "from torch.cuda.amp import (\n    common,\n)\n",
    ),
    "lines without a last comma": (
        "from torch.cuda.amp import (\n    common,\n    GradScaler\n)\n",
        "from torch.cuda.amp import (\n    common,\n)\n",
    ),
    "lines and all of them": ("from torch.cuda.amp import (\n    autocast,  # a\n    GradScaler,\n)\n", ""),
    "a backslash": ("from torch.cuda.amp import common, \\\n    autocast\n", "from torch.cuda.amp import common\n"),
    "another statement after it": ("from torch.cuda import amp; import os\n", "import os\n"),
    "in a function": ("def f():\n    from torch.cuda import amp\n    return 1\n", "def f():\n    return 1\n"),
    "at the head of a function, with its blank line": (
        "def f():\n    from torch.cuda import amp\n\n    return 1\n",
        "def f():\n    return 1\n",
    ),
    "between blank lines": (
        "import os\n\nfrom torch.cuda import amp\n\n\ndef f(): pass\n",
        "import os\n\n\ndef f(): pass\n",
    ),
    "below another import": (
        "import os\nfrom torch.cuda import amp\n\n\ndef f(): pass\n",
        "import os\n\n\ndef f(): pass\n",
    ),
    "in an arm": ("if x:\n    from torch.cuda import amp\n    y = 1\n", "if x:\n    y = 1\n"),
    "in the other arm": (
        "if x:\n    y = 1\nelse:\n    from torch.cuda import amp\n    y = 2\n",
        "if x:\n    y = 1\nelse:\n    y = 2\n",
    ),
    "alone below a plain test of a function": (
        "def f(o):\n    if o.fp16:\n        from torch.cuda import amp\n\n    return 1\n",
        "def f(o):\n    return 1\n",
    ),
    "two in an arm": (
        "if x:\n    from torch.cuda.amp import autocast\n    from torch.cuda.amp import GradScaler\n    y = 1\n",
        "if x:\n    y = 1\n",
    ),
}


@pytest.mark.parametrize("name", DROP)
def test_what_goes(name: str) -> None:
    head, expected = DROP[name]
    assert dropped(*amp(head)) == expected + "accel.autocast()\n"


@pytest.mark.parametrize("text", ["'--amp-level'", "'if O0, no amp is used'"])
def test_what_other_words_do_not_keep(text: str) -> None:
    assert dropped(*amp(f"from torch.cuda import amp\nhelp = {text}\n")) == f"help = {text}\naccel.autocast()\n"


def test_a_comment_beside_a_name_that_stays_stays() -> None:
    head = "from torch.cuda.amp import (  # ours\n    autocast,  # gone\n    common,  # kept\n)\n"
    after = dropped(*amp(head))
    assert "common,  # kept\n" in after
    assert "# ours" in after
    assert "autocast," not in after


KEEP = {
    "a comment on its line": "from torch.cuda import amp  # noqa: hidden\n",
    "torch itself": "import torch\n",
    "torch.nn": "from torch import nn\n",
    "another library": "from apex import amp\n",
    "import of a submodule": "import torch.cuda.amp\n",
    "in a try": "try:\n    from torch.cuda import amp\nexcept ImportError:\n    pass\n",
    "under an if": "if x:\n    from torch.cuda import amp\n",
    "under an if of a function that calls": "def f():\n    if g():\n        from torch.cuda import amp\n    return 1\n",
    "under an if with a comment": "def f(x):\n    if x:  # why\n        from torch.cuda import amp\n    return 1\n",
    "under an if that goes on": (
        "def f(x):\n    if x:\n        from torch.cuda import amp\n    else:\n        g()\n    return 1\n"
    ),
    "under an elif": (
        "def f(x):\n    if x:\n        g()\n    elif x.y:\n        from torch.cuda import amp\n    return 1\n"
    ),
    "all that a function does": "def f(x):\n    if x:\n        from torch.cuda import amp\n",
    "in a try with more": "try:\n    from torch.cuda import amp\n    y = 1\nexcept ImportError:\n    pass\n",
    "deep in a try": "try:\n    if x:\n        from torch.cuda import amp\n        y = 1\nexcept KeyError:\n    pass\n",
    "imports alone in an arm": "if x:\n    from torch.cuda.amp import autocast\n    from torch.cuda import amp\n",
    "alone in its function": "def f():\n    from torch.cuda import amp\n",
    "in __all__": "from torch.cuda.amp import autocast\n__all__ = ['autocast']\n",
    "never used": "from torch.cuda import nvtx\n",
    "a quoted annotation": "from torch.cuda.amp import GradScaler\ndef f(s: 'GradScaler | None'): pass\n",
    "quotes in a quoted annotation": "from torch.cuda.amp import GradScaler\ndef f(s: \"list['GradScaler']\"): pass\n",
    "an annotation": "from torch.cuda.amp import GradScaler\ndef f(s: GradScaler): pass\n",
    "after other code on its line": "import os; from torch.cuda import amp\n",
    "a star": "from torch.cuda.amp import *\n",
    "relative": "from .torch.cuda import amp\n",
}


@pytest.mark.parametrize("name", KEEP)
def test_what_stays(name: str) -> None:
    before, after = amp(KEEP[name])
    assert dropped(before, after) == after


LEFT_WITHOUT_A_USE = {
    "torch": (
        "import os\nimport torch\n\ntorch.cuda.synchronize()\n",
        "import os\nimport accel\n\naccel.synchronize()\n",
    ),
    "torch by another name": (
        "import torch as th\nimport nets\n\nth.cuda.synchronize()\n",
        "import nets\nimport accel\n\naccel.synchronize()\n",
    ),
    "torch.nn": (
        "import torch.nn as nn\nimport nets\n\nnet = nn.DataParallel(nets.Net().cuda())\n",
        "import nets\nimport accel\n\nnet = accel.data_parallel(nets.Net().to(accel.device()))\n",
    ),
    "torch, above an import that may fail": (  # found by a random program: the helper went to `import torch_npu`
        "import os\nimport torch\ntry:\n    import torch_npu\nexcept ImportError:\n    torch.cuda.synchronize()\n",
        "import os\nimport accel\ntry:\n    import torch_npu\nexcept ImportError:\n    accel.synchronize()\n",
    ),
}


@pytest.mark.parametrize("name", LEFT_WITHOUT_A_USE)
def test_a_run_drops_imports_of_torch_that_it_leaves_without_a_use(name: str, tmp_path: Path) -> None:
    before, after = LEFT_WITHOUT_A_USE[name]
    assert texts_after(write_tree(tmp_path, {"run.py": before}))["run.py"] == after


STILL_USED = {
    "the file's only import": "import torch\n\ntorch.cuda.synchronize()\n",
    "used elsewhere": "import torch\nimport os\n\ntorch.cuda.synchronize()\nx = torch.ones(1)\n",
    "in an annotation": "import torch\nimport os\n\ntorch.cuda.synchronize()\ndef f(x: 'torch.Tensor'):\n    pass\n",
    "in a type comment": "import torch\nimport os\n\ntorch.cuda.synchronize()\nx = []  # type: list[torch.Tensor]\n",
    "in text that is run": "import torch\nimport os\n\ntorch.cuda.synchronize()\nf = eval('torch.' + 'ones')\n",
    "never used": "import torch\nfrom torch import cuda\n\ncuda.synchronize()\n",
    "for another file": "import torch\nimport os\n\ntorch.cuda.synchronize()\n# run.py\n",
}


@pytest.mark.parametrize("name", STILL_USED)
def test_a_run_keeps_imports_of_torch_that_may_be_used(name: str, tmp_path: Path) -> None:
    files = {"lib.py": STILL_USED[name]} | ({"run.py": "from lib import *\n"} if "another" in name else {})
    assert texts_after(write_tree(tmp_path, files))["lib.py"].startswith("import torch\n")


def test_an_init_keeps_its_interface() -> None:
    before, after = amp("from torch.cuda.amp import autocast\n")
    assert dropped(before, after, "/pkg/__init__.py") == after


def test_a_function_imports_for_itself_whatever_others_take(tmp_path: Path) -> None:
    text = "import torch\ndef f():\n    from torch.cuda.amp import GradScaler\n    return GradScaler()\n"
    files = {"pkg/__init__.py": "from .loop import *\n", "pkg/loop.py": text}
    after = texts_after(write_tree(tmp_path, files))["pkg/loop.py"]
    assert "torch.cuda" not in after


def test_what_is_still_used_stays() -> None:
    text = "from torch.cuda.amp import autocast\nautocast()\n"
    assert dropped(text + "autocast()\n", text) == text


@pytest.mark.parametrize(("length", "stays"), [(79, True), (80, False)])
def test_a_name_in_a_string_is_a_use_if_the_string_is_short(length: int, stays: bool) -> None:
    head = "from torch.cuda import amp\n"
    text = f"note = {'amp'.ljust(length)!r}\naccel.autocast()\n"
    assert dropped(head + "amp.x\n", head + text) == (head + text if stays else text)


def test_above_the_import_in_a_cell_which_may_have_no_line_end() -> None:
    text = "import os\nx = accel.f()\n"
    for before, start in ((False, len("import os\n")), (True, 0)):
        edit = import_edits.insertion(module(text), ["import accel"], text.index("accel"), before=before)
        assert (edit.start, edit.end, edit.text) == (start, start, "import accel\n")


HEAD = "import os\nimport sys\n\n"
SORTED = {
    # its own section, beside its neighbours in the order of names
    "script.py": (f"{HEAD}import torch\n", f"{HEAD}import torch\n\nimport accel\n"),
    "two.py": (
        f"{HEAD}import torch\nfrom torch import nn\n\nimport zoo\nfrom aaa import b\n",
        f"{HEAD}import torch\nfrom torch import nn\n\nimport accel\nimport zoo\nfrom aaa import b\n",
    ),
    "pkg/sub.py": (
        f"{HEAD}import torch\n\nfrom . import zoo\n",  # isort would change this line: only where the project uses it
        f"{HEAD}import torch\n\nfrom . import accel\nfrom . import zoo\n",
    ),
    "pkg/far.py": (
        f"{HEAD}import torch\n\nfrom .zoo import a\n",
        f"{HEAD}import torch\n\nfrom . import accel\nfrom .zoo import a\n",
    ),
    # not in isort's order, or in it by chance: beside the imports of its kind, or below the project's, or the last
    "mixed.py": ("import torch\nimport os\n\nimport zoo\n", "import torch\nimport os\n\nimport accel\nimport zoo\n"),
    "tight.py": (f"{HEAD}import torch\nimport zoo\n", f"{HEAD}import torch\nimport accel\nimport zoo\n"),
    "late.py": (
        "import torch\nfrom aaa import b\n\nimport warnings\nwarnings.simplefilter('error')\n",
        "import torch\nfrom aaa import b\nimport accel\n\nimport warnings\nwarnings.simplefilter('error')\n",
    ),
    "spoken_of.py": (  # found in dbolya/yolact; a comment may also stand for all imports below it
        "import torch\nimport os\n\n# Oof\nimport zoo\nimport zoo.a\n",
        "import torch\nimport os\n\n# Oof\nimport zoo\nimport accel\nimport zoo.a\n",
    ),
    "environment.py": (  # what is imported before torch may set the environment for it
        "import zoo\nimport torch\nimport os\n",
        "import zoo\nimport torch\nimport os\nimport accel\n",
    ),
    "first.py": ("import torch\nfrom aaa import b\n", "import torch\nfrom aaa import b\nimport accel\n"),
    "foreign.py": ("import torch\nimport zebra\n", "import torch\nimport zebra\nimport accel\n"),
    "random.py": (
        "import torch\nimport zoo\nimport aaa\nfrom aaa import b\n",
        "import torch\nimport zoo\nimport aaa\nfrom aaa import b\nimport accel\n",
    ),
    "above.py": (  # found in jwyang/faster-rcnn.pytorch, where `import _init_paths` is the first of all
        "import aaa\nimport torch\nfrom zoo import a\nimport pdb\n",
        "import aaa\nimport torch\nfrom zoo import a\nimport accel\nimport pdb\n",
    ),
    "star.py": (
        "import torch\nimport zoo\nfrom math import *\nimport os\n",
        "import torch\nimport zoo\nfrom math import *\nimport os\nimport accel\n",
    ),
    "pkg/near.py": (
        "import torch\nfrom .zoo import a\nfrom math import pi\n",
        "import torch\nfrom . import accel\nfrom .zoo import a\nfrom math import pi\n",
    ),
    "short.py": ("import torch\n", "import torch\nimport accel\n"),
    # one section alone may be in order by chance, but not below a block of several
    "guarded.py": (
        f"{HEAD}import torch\n\ntry:\n    import apex\nexcept ImportError:\n    apex = None\n\nfrom aaa import b\n",
        f"{HEAD}import torch\n\ntry:\n    import apex\nexcept ImportError:\n    apex = None\n\n"
        "import accel\nfrom aaa import b\n",
    ),
    "unordered.py": (
        "import sys\nimport os\n\nimport torch\n\nsys.path.append('.')\n\nfrom aaa import b\n",
        "import sys\nimport os\n\nimport torch\n\nsys.path.append('.')\n\nfrom aaa import b\nimport accel\n",
    ),
}  # fmt: skip


def test_a_helper_beside_a_script_in_a_folder_is_a_third_partys_to_isort(tmp_path: Path) -> None:
    write_tree(tmp_path, {"tools/run.py": f"{HEAD}import numpy\nimport torch\n\nx = torch.zeros(2).cuda()\n"})
    assert texts_after(tmp_path)["tools/run.py"].startswith(f"{HEAD}import accel\nimport numpy\nimport torch\n\nx")


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ("pyproject.toml", '[tool.ruff.lint]\nselect = ["I"]\nisort.known-first-party = ["utils"]\n'),
        ("ruff.toml", '[lint]\nselect = ["I"]\nisort.known-first-party = ["utils"]\n'),
        ("pyproject.toml", '[tool.isort]\nknown_first_party = ["utils"]\n'),
        ("setup.cfg", "[isort]\nknown_first_party = other, utils\n"),
    ],
)
def test_imports_are_sorted_with_what_isort_is_told(config: str, told: str, tmp_path: Path) -> None:
    """Found in doctr: its own `ruff check` failed for imports that stood below `from utils import f`."""
    text = f"{HEAD}import torch\n\nfrom net import g\nfrom utils import f\n\nx = torch.zeros(2).cuda()\n"
    files = {"tools/run.py": text, "tools/utils.py": "f = 1\n", "net/__init__.py": "g = 1\n"}
    write_tree(tmp_path, {**files, config: told})
    done = texts_after(tmp_path)["tools/run.py"]
    assert done.startswith(f"{HEAD}import torch\n\nimport accel\nfrom net import g\nfrom utils import f\n\nx"), done


def test_a_helper_beside_a_script_is_the_projects_own_to_isort_where_the_root_has_one_too(tmp_path: Path) -> None:
    text = f"{HEAD}import numpy\nimport torch\n\nx = torch.zeros(2).cuda()\n"
    write_tree(tmp_path, {"tools/run.py": text, "src/run.py": text})
    done = texts_after(tmp_path)
    assert {"tools/accel.py", "src/accel.py"} <= {*done}
    assert done["tools/run.py"].startswith(f"{HEAD}import numpy\nimport torch\n\nimport accel\n\nx")
    write_tree(tmp_path, done)
    write_tree(tmp_path, {"tools/more.py": text})  # the root's copy is there by now, and needs no other user
    assert texts_after(tmp_path)["tools/more.py"] == done["tools/run.py"]


def test_an_import_goes_where_isort_would_put_it(tmp_path: Path) -> None:
    body = "\nx = torch.zeros(2).cuda()\n"
    files = {name: before + body for name, (before, _) in SORTED.items()}
    write_tree(
        tmp_path, {**files, "zoo.py": "a = 1\n", "aaa.py": "b = 1\n", "pkg/__init__.py": "", "pkg/zoo.py": "a = 1\n"}
    )
    done = texts_after(tmp_path)
    for name, (_, after) in SORTED.items():
        assert done[name].startswith(after), name
    kept = ["script.py", "two.py", "pkg/far.py", "guarded.py"]
    write_tree(tmp_path, done)
    ruff = ["ruff", "check", "--isolated", "--no-cache", "--select", "I", *kept]
    if shutil.which("ruff"):
        ran = subprocess.run(ruff, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout
    again = {"short.py": "import torch\n" + body, "pkg/sub.py": files["pkg/sub.py"]}
    write_tree(tmp_path, {**again, "pyproject.toml": "[tool.ruff.lint]\nselect = ['I']\n"})
    import_edits._is_configured.cache_clear()
    done = texts_after(tmp_path)
    assert done["short.py"].startswith("import torch\n\nimport accel\n\nx")
    assert done["pkg/sub.py"].startswith(f"{HEAD}import torch\n\nfrom . import accel, zoo\n")


PROJECT = "[project]\nname = 'tts'\nversion = '1'\n[build-system]\nrequires = ['setuptools']\n"
BELOW_A_PATH = """import sys

sys.path.append("third_party")

import numpy as np
import torch

{first}from tts.model import CFM
from tts.utils import convert

torch.cuda.empty_cache()
"""


@pytest.mark.parametrize(
    "first", ["", "sys.path.insert(0, 'src')\n"], ids=["in order", "behind another edit of the path"]
)
def test_the_import_stands_right_above_the_first_one_that_proves_the_path(tmp_path: Path, first: str) -> None:
    """Found in F5-TTS, whose pre-commit hook checks the order of imports."""
    tree = {"pyproject.toml": PROJECT, "src/tts/__init__.py": "", "src/tts/model.py": "CFM = 1\n"}
    tree |= {"src/tts/utils.py": "convert = 1\n", "src/tts/infer.py": BELOW_A_PATH.format(first=first)}
    after = texts_after(write_tree(tmp_path, tree))["src/tts/infer.py"]
    if first:
        assert after.index(first) < after.index("from tts import accel\n")
    else:
        assert "\n\nfrom tts import accel\nfrom tts.model import CFM\n" in after
