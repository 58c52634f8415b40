"""One file from bytes to result: what becomes of findings, passes, positions, and the import at the end."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import texts_after, write_tree

from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics.finding import Safety, Status
from torchmigrate.helper.import_edits import with_import
from torchmigrate.project.context import OwnCuda, ProjectContext
from torchmigrate.rewriting.rewrite import Outcome, inspect, rewrite
from torchmigrate.rewriting.visitor import DispatchTable, dispatch_table
from torchmigrate.rules import packs
from torchmigrate.rules.model import Ruleset
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.source.edits import Edit, compose, flatten
from torchmigrate.source.encoding import Source, decode

HEAD = 'summary = "s"\nsafety = "safe"\nwhy = "w"\n'


def facts(**settings: object) -> ProjectContext:
    return ProjectContext(Path("/"), Settings(**settings))  # type: ignore[arg-type]


def outcome(text: str, rules: DispatchTable, **settings: object) -> Outcome:
    return rewrite(Path("/case.py"), decode(text.encode()), rules, facts(**settings))


def own_rules(tmp_path: Path, **files: str) -> DispatchTable:
    write_tree(tmp_path, {f"mine/{name}.toml": HEAD + text for name, text in files.items()})
    rules = [packs.load_rule(path) for path in sorted(tmp_path.glob("mine/*.toml"))]
    return dispatch_table(Ruleset({r.id: r for r in rules}))


def replacing(match: str, template: str, *more: str) -> str:
    return "\n".join([f"[[rewrite]]\nmatch = '{match}'\nwith = '{template}'", *more, ""])


# ---- nothing to do
@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "# cuda\n",
        "import torch\n",
        "x = 'cuda'\n",
        '"""torch.cuda.empty_cache()"""\n',
        "import mylib as torch\ntorch.cuda.f()\n",
    ],
)
def test_nothing_to_do(text: str, rules: DispatchTable) -> None:
    found = outcome(text, rules)
    assert (found.text.decode(), found.applied, found.passes, found.needs_helper) == (text, (), (), False)


@pytest.mark.parametrize("text", ["x =\n", "print 'cuda'\n", "def f(:\n", "\tx = 1\n  cuda = 2\n"])
def test_what_is_not_python_3_is_an_error(text: str, rules: DispatchTable) -> None:
    with pytest.raises(SyntaxError):
        outcome(text, rules)


# ---- what becomes of findings
def test_an_unsafe_fix_is_held_back_and_told(tmp_path: Path) -> None:
    rules = own_rules(tmp_path, a=replacing("torch.cuda.f()", "accel.f()", 'safety = "unsafe"'))
    text = "import torch\ntorch.cuda.f()\n"
    held = outcome(text, rules)
    assert held.text.decode() == text
    assert [(f.status, f.fix.safety if f.fix else None) for f in held.remaining] == [(Status.HELD, Safety.UNSAFE)]
    done = outcome(text, rules, unsafe_fixes=True)
    assert done.text == b"import torch\naccel.f()\n"
    assert [f.status for f in done.applied] == [Status.APPLIED]


def test_a_display_rule_never_edits(tmp_path: Path) -> None:
    rules = own_rules(tmp_path, a=replacing("torch.cuda.f()", "accel.f()", 'safety = "display"'))
    found = outcome("import torch\ntorch.cuda.f()\n", rules, unsafe_fixes=True)
    assert found.applied == ()
    assert [(f.rule, f.line, f.column, f.fix) for f in found.remaining] == [("mine/a", 2, 1, None)]


def test_a_suppressed_finding_is_not_applied(rules: DispatchTable) -> None:
    text = "import torch\ntorch.cuda.empty_cache()  # torchmigrate: ignore[memory/empty-cache] why\n"
    found = outcome(text, rules)
    assert found.text.decode() == text
    assert [f.status for f in found.remaining if f.rule == "memory/empty-cache"] == [Status.SUPPRESSED]


def test_style_native_asks_for_the_floor(tmp_path: Path) -> None:
    rules = own_rules(
        tmp_path, a=replacing("torch.cuda.f()", "accel.f()", "native = 'torch.accelerator.f()'", "torch = '>=2.9'")
    )
    module_text = b"import torch\ntorch.cuda.f()\n"

    def after(style: str, floor: str | None) -> str:
        known = ProjectContext(Path("/"), Settings(style=style), torch=floor)
        return rewrite(Path("/case.py"), decode(module_text), rules, known).text.decode().splitlines()[1]

    assert after("helper", ">=2.9") == "accel.f()"
    assert after("native", None) == "accel.f()"
    assert after("native", ">=2.8") == "accel.f()"
    assert after("native", ">=2.9") == "torch.accelerator.f()"


def test_the_first_rewrite_that_matches_wins(tmp_path: Path) -> None:
    rules = own_rules(
        tmp_path, a=replacing("torch.cuda.f(1)", "accel.one()") + replacing("torch.cuda.f($$a)", "accel.any($$a)")
    )
    assert (
        outcome("import torch\ntorch.cuda.f(1)\ntorch.cuda.f(2)\n", rules).text
        == b"import torch\naccel.one()\naccel.any(2)\n"
    )


def test_where_decides_which_rewrite(tmp_path: Path) -> None:
    rules = own_rules(tmp_path, a=replacing("torch.cuda.f($x)", "accel.f($x)", 'where = {x = "integer"}'))
    text = "import torch\ntorch.cuda.f(1)\ntorch.cuda.f(y)\n"
    assert outcome(text, rules).text == b"import torch\naccel.f(1)\ntorch.cuda.f(y)\n"


# ---- passes
def test_the_outer_of_two_goes_first_and_the_inner_next(tmp_path: Path) -> None:
    rules = own_rules(
        tmp_path, a=replacing("torch.cuda.f($x, $y)", "accel.f($y, $x)"), b=replacing("torch.cuda.g()", "accel.g()")
    )
    found = outcome("import torch\nx = torch.cuda.f(torch.cuda.g(), 1)  # é\n", rules)
    assert found.text.decode() == "import torch\nx = accel.f(1, accel.g())  # é\n"
    assert len(found.passes) == 2
    assert sorted((f.rule, f.line) for f in found.applied) == [("mine/a", 2), ("mine/b", 2)]


def test_two_rules_for_one_place_apply_once(tmp_path: Path) -> None:
    same = replacing("torch.cuda.f()", "accel.f()")
    found = outcome("import torch\ntorch.cuda.f()\n", own_rules(tmp_path, a=same, b=same))
    assert found.text == b"import torch\naccel.f()\n"


def test_positions_of_what_was_applied_are_those_of_the_original(rules: DispatchTable) -> None:
    text = "import torch\nif torch.cuda.is_available():\n    m = m.cuda(); x = x.cuda()\n    torch.cuda.synchronize()\n"
    found = outcome(text, rules)
    assert len(found.applied) >= 4
    for finding in found.applied:
        piece = text.encode()[finding.start : finding.end].decode()
        assert "cuda" in piece
        assert text.splitlines()[finding.line - 1][finding.column - 1 :].startswith(piece.splitlines()[0])


def test_remaining_findings_are_placed_in_the_new_text(rules: DispatchTable) -> None:
    text = "import torch\ntorch.cuda.empty_cache(); lib = torch.cuda.cudart()\n"
    found = outcome(text, rules)
    assert found.applied
    remaining = [f for f in found.remaining if f.status is Status.OPEN]
    assert remaining
    for finding in remaining:
        assert b"cudart" in found.text[finding.start : finding.end]


def test_passes_compose_to_the_text(rules: DispatchTable) -> None:
    text = (
        "from torch.cuda.amp import autocast\nimport torch\nwith autocast():\n    y = net(x.cuda(non_blocking=True))\n"
    )
    found = outcome(text, rules)
    assert compose(text.encode(), flatten(found.passes, len(text))) == found.text
    assert b"torch.cuda.amp" not in found.text


def test_comments_in_the_way_leave_a_finding(tmp_path: Path) -> None:
    rules = own_rules(tmp_path, a=replacing("torch.cuda.f($x, $y)", "accel.f($y, $x)"))
    found = outcome("import torch\ntorch.cuda.f(1,  # one\n  2)\n", rules)
    assert found.applied == ()
    assert ["comment" in f.message for f in found.remaining] == [True]


# ---- f-strings
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f'{torch.cuda.f():.2f} {x}'", "f'{accel.f():.2f} {x}'"),
        ("f'é{torch.cuda.f()}' 'torch.cuda.f()'", "f'é{accel.f()}' 'torch.cuda.f()'"),
        ("f'{torch.cuda.f()}{torch.cuda.f()}'", "f'{accel.f()}{accel.f()}'"),
        ("rf'\\d{torch.cuda.f()!r}'", "rf'\\d{accel.f()!r}'"),
        ("f'{{torch.cuda.f()}}'", "f'{{torch.cuda.f()}}'"),
        ("f'''\n{x}\n{torch.cuda.f()}\n'''", "f'''\n{x}\n{accel.f()}\n'''"),
    ],
)
def test_f_strings(before: str, after: str, tmp_path: Path) -> None:
    rules = own_rules(tmp_path, a=replacing("torch.cuda.f()", "accel.f()"))
    assert outcome(f"import torch\nx = {before}\n", rules).text.decode() == f"import torch\nx = {after}\n"


# ---- names
@pytest.mark.parametrize(
    ("head", "call", "expected"),
    [
        ("import torch\nimport accel as ac\n", "torch.cuda.f()", "ac.f()"),
        ("import torch\nfrom . import accel\n", "torch.cuda.f()", "accel.f()"),
        ("import torch as th\n", "th.cuda.f()", "accel.f()"),
    ],
)
def test_names_are_spelled_as_the_file_has_them(head: str, call: str, expected: str, tmp_path: Path) -> None:
    rules = own_rules(tmp_path, a=replacing("torch.cuda.f()", "accel.f()"))
    assert outcome(f"{head}{call}\n", rules).text.decode() == f"{head}{expected}\n"


def test_torch_is_asked_for_where_it_is_not_bound(tmp_path: Path) -> None:
    rules = own_rules(tmp_path, a=replacing("torch.cuda.f()", "torch.g()"))
    missing = outcome("from torch.cuda import f\nf()\n", rules)
    assert (missing.text.decode(), missing.needs_torch, missing.needs_helper) == ("torch.g()\n", True, False)
    assert not outcome("import torch\ntorch.cuda.f()\n", rules).needs_torch


def test_inspect_changes_nothing_and_is_in_document_order(rules: DispatchTable) -> None:
    text = "import torch\ntorch.cuda.synchronize()\nx = torch.ones(1).cuda()\ntorch.cuda.empty_cache()\n"
    module = SemanticModel(Path("/case.py"), decode(text.encode()), facts())
    found = inspect(module, rules, facts())
    assert [f.start for f in found] == sorted(f.start for f in found)
    assert {f.status for f in found} == {Status.OPEN}
    assert inspect(module, rules, facts()) == found


def test_a_bound_file_gets_no_import() -> None:
    source = Source(b"import accel\naccel.f()\n")
    assert with_import(SemanticModel(Path("/case.py"), source, facts()), "import accel") == ()


def test_fixes_of_other_packs_wait(rules: DispatchTable) -> None:
    text = "import torch\ntorch.cuda.empty_cache()\ntorch.cuda.synchronize()\n"
    only = ProjectContext(Path("/"), Settings(), fixing=frozenset({"memory"}))
    found = rewrite(Path("/case.py"), decode(text.encode()), rules, only)
    assert found.text.decode() == text.replace("torch.cuda.empty", "accel.empty")
    assert [(f.rule, f.status) for f in found.remaining] == [("stream/synchronize", Status.HELD)]


def test_all_findings_are_placed_in_the_original(rules: DispatchTable) -> None:
    text = "import torch\ntorch.cuda.empty_cache(); torch.cuda.cudart()\n"
    source = decode(text.encode())
    found = list(rewrite(Path("/case.py"), source, rules, facts()).in_original(source))
    assert [(f.status, f.line, text[f.start :][:17]) for f in found] == [
        (Status.APPLIED, 2, "torch.cuda.empty_"),
        (Status.OPEN, 2, "torch.cuda.cudart"),
    ]


@pytest.mark.parametrize(("receiver", "applied"), [("batch", 0), ("my_batch", 0), ("x", 1)])
def test_a_receiver_may_be_called_like_a_class_of_another_file(
    receiver: str, applied: int, rules: DispatchTable
) -> None:
    source = decode(f"import torch\ndef f({receiver}):\n    return {receiver}.cuda()\n".encode())
    known = ProjectContext(Path("/"), Settings(), own_cuda=OwnCuda(frozenset({"Batch"})))
    assert len(rewrite(Path("/case.py"), source, rules, known).applied) == applied


def test_another_name_of_what_does_not_say_cuda(rules: DispatchTable) -> None:
    text = "from torch.linalg import eigh as roots\n\n\ny = roots(x)\n"
    assert [f.rule for f in outcome(text, rules).remaining] == ["hazard/mps-operator"]


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        ("f(  # why\n)", "g()", True),
        ("f(  # why\n)", "g(  # why\n)", False),
        ("f('#')", "g()", False),
        ("f()", "g()", False),
    ],
)
def test_a_comment_in_what_is_replaced_is_lost(old: str, new: str, lost: bool) -> None:
    found = SemanticModel(Path("/case.py"), decode(f"x = {old}\n".encode()), facts())
    assert found.loses_comment(Edit(4, 4 + len(old), new)) is lost


@pytest.mark.parametrize("home", ["compat", ".compat", "pkg.compat"])
def test_what_a_file_of_the_project_hands_on_is_known_by_any_name(home: str, tmp_path: Path) -> None:
    text = f"import torch\nfrom {home} import wait\n\n\ndef f(x):\n    wait()\n    return x.cuda()\n"
    compat = "from torch.cuda import synchronize as wait\n"
    tree = write_tree(tmp_path, {"pkg/__init__.py": "", "pkg/compat.py": compat, "pkg/main.py": text})
    assert "    accel.synchronize()\n" in texts_after(tree)["pkg/main.py"]


@pytest.mark.parametrize("is_held", [True, False])
def test_the_message_of_an_assertion_stays_with_what_it_asserts(rules: DispatchTable, is_held: bool) -> None:
    """Found in metaseq: the assertion, held back, asked CUDA for its devices, and its message any accelerator."""
    path, asked = Path("/run.py"), "torch.cuda.device_count()"
    text = f"import torch\ndef init(cfg):\n    assert cfg.n <= {asked}, f'{{cfg.n}} of {{{asked}}}'\n"
    known, start = facts(), text.index(asked)
    known.held = {str(path): {(start, start + len(asked)): "a reason"}} if is_held else {}
    done = rewrite(path, decode(text.encode()), rules, known).text.decode()
    assert done == (text if is_held else text.replace("torch.cuda", "accel"))
