"""References: reads of names and chains, and the words of code without its comments."""

from __future__ import annotations

import ast
import textwrap

from conftest import module

from torchmigrate.semantic.model import SemanticModel
from torchmigrate.semantic.references import (
    identifiers,
    identifiers_in,
    mentions,
    reads_of,
    references,
    strings_in,
    words_in,
)


def parsed(text: str) -> SemanticModel:
    return module(textwrap.dedent(text))


def chains(text: str) -> list[str]:
    return [reference.chain for reference in references(parsed(text))]


def test_reads_come_in_document_order_and_are_the_outermost_chains():
    text = """
        @deco
        def f(a: hint = default) -> back:
            self.x.y = a.b.c + g(a)[i].d
            try:
                h()
            except Error.kind as e:
                e.args
    """
    wanted = ["deco", "hint", "default", "back", "self.x", "a.b.c", "g", "a", "i", "h", "Error.kind", "e.args"]
    assert chains(text) == wanted


def test_what_is_only_written_or_deleted_is_no_read():
    assert chains("a = b\ndel c\nfor d in e: pass\nwith f as g: pass\nh: int = 1") == ["b", "e", "f", "int"]


def test_an_augmented_assignment_reads_its_target():
    assert chains("x += y\na.b -= 1\nc[i] *= 2") == ["x", "y", "a.b", "c", "i"]


def test_reads_inside_f_strings_count_and_comments_and_strings_do_not():
    assert chains('x = f"{a.b:>{w}} {c!r}" + "d"  # e\n"""f"""') == ["a.b", "w", "c"]


def test_a_getattr_is_no_chain():
    assert chains('getattr(a, "b")') == ["getattr", "a"]


def test_reads_of_a_name_or_chain():
    it = parsed("args.device\nargs.device.type\nargs.devices\nargs\nmyargs.device\nx.args.device")
    assert [r.chain for r in reads_of(it, "args.device")] == ["args.device", "args.device.type"]
    assert [r.chain for r in reads_of(it, "args")] == ["args.device", "args.device.type", "args.devices", "args"]
    assert reads_of(it, "args")[0].root == "args"
    assert not reads_of(it, "device")


def test_reads_of_a_binding():
    text = """
        n = 1
        def f(n):
            return n
        def g():
            return n, lambda n: n, [n for n in n], (lambda m=n: m)
        class C:
            n = 2
            def h(self):
                return n
    """
    it = parsed(text)
    home = it.scopes.module
    lines = lambda found: [r.node.lineno for r in found]  # noqa: E731
    assert lines(reads_of(it, "n")) == [4, 6, 6, 6, 6, 6, 10]
    assert lines(reads_of(it, "n", home)) == lines(reads_of(it, "n", home=home)) == [6, 6, 6, 10]
    function = it.scopes.statements[1]
    assert isinstance(function, ast.FunctionDef)
    assert lines(reads_of(it, "n", it.scopes.scope_of[function.body[0]])) == [4]


def test_identifiers_are_all_names_of_the_code_and_nothing_else():
    text = '''
        """in_docstring"""
        import a.b as c
        from ..d.e import f  # in_comment
        class G(h, metaclass=i):
            def j(self, k, *l, m=1, **o) -> p:
                global q
                r.s(t=1, **u)
                try: pass
                except v as w: pass
                print(f"{x}", "in_string")
    '''
    extra = {"metaclass", "self", "print"}
    assert identifiers(parsed(text)) == {*"abcdefhijklmopqrstuvwx", "G", *extra}


def test_words_below_a_node():
    it = parsed('if x.y == "mps" and f("a-b"):\n    """doc"""  # note\n    z = f"cuda:{n}"\nother = "o"')
    first = it.tree.body[0]
    assert identifiers_in(it, first) == {"x", "y", "f", "z", "n"}
    assert strings_in(it, first) == {"mps", "a-b", "cuda:"}
    assert words_in(it, first) == {"x", "y", "f", "z", "n", "mps", "a", "b", "cuda"}
    assert strings_in(it, it.tree) == {"mps", "a-b", "cuda:", "o"}


def test_mentions_asks_chains_and_imports_by_whole_names():
    it = parsed("torch.version.hip.split()\nf().backends.mps\nth.mps.x = 1  # torch.xpu\n'torch.xpu'\ntorch.mpsx")
    for dotted in ("torch.version.hip", "version.hip", "torch.version", "version", "backends.mps", "th.mps"):
        assert mentions(it, dotted), dotted
    for dotted in ("torch.mps", "torch.xpu", "ersion.hip", "version.hi"):
        assert not mentions(it, dotted), dotted
    imports = parsed("from torch.nn.attention import sdpa_kernel as k\nimport torch.mps\nfrom . import compat")
    for dotted in ("nn.attention", "attention.sdpa_kernel", "torch.mps", "compat"):
        assert mentions(imports, dotted), dotted


def test_answers_are_remembered():
    it = parsed("a.b")
    assert references(it) is references(it)
    assert identifiers_in(it, it.tree) is identifiers_in(it, it.tree)
