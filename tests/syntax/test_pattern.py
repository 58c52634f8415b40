"""Patterns: what must not match, what a match captures, and edits that retype nothing between captures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchmigrate.semantic.references import roots_in, spell
from torchmigrate.source.edits import compose
from torchmigrate.syntax.pattern import (
    Expression,
    Match,
    PatternError,
    admits,
    check_template,
    compile_pattern,
    instantiate,
)


def resolve(chain: str) -> str | None:
    """`th` is torch, `cuda` is torch.cuda; everything else is unknown."""
    head, _, rest = chain.partition(".")
    known = {"torch": "torch", "th": "torch", "cuda": "torch.cuda", "empty": "torch.cuda.empty_cache"}
    base = known.get(head)
    return base and f"{base}.{rest}".rstrip(".")


def found(pattern: str, text: str) -> Match | None:
    island = Expression(text.encode(), 0, len(text.encode()))
    return island.match(compile_pattern(pattern), island.root, resolve)


def rewritten(pattern: str, template: str, text: str) -> str | None:
    """The text after all edits, in the middle of other text so that offsets are put to the test."""
    before = f"é = {text} # é"
    start = len("é = ".encode())
    island = Expression(before.encode(), start, start + len(text.encode()))
    match = island.match(compile_pattern(pattern), island.root, resolve)
    if match is None:
        return None
    after = compose(before.encode(), instantiate(match, template, island)).decode()
    assert after.startswith("é = ")
    assert after.endswith(" # é")
    return after[4:-4]


@pytest.mark.parametrize("text", ["$x.cuda(", "", "x =", "$x $y", "def f(): pass", "$"])
def test_what_is_no_pattern(text: str) -> None:
    with pytest.raises(PatternError, match="is not an expression"):
        compile_pattern(text)


def test_a_template_may_only_use_what_its_pattern_binds() -> None:
    with pytest.raises(PatternError, match=r"uses \$y, which"):
        check_template(compile_pattern("$x.cuda()"), "$x.to($y)")
    with pytest.raises(PatternError, match="is not an expression"):
        check_template(compile_pattern("$x.cuda()"), "$x.to(")
    check_template(compile_pattern("$x.cuda($$a)"), "$x.to($$a)")


NO_MATCH = [
    ("$x.cuda()", "x.cuda"),
    ("$x.cuda()", "x.cuda(0)"),
    ("$x.cuda()", "x.cuda(*a)"),
    ("$x.cuda()", "x.cuda(**k)"),
    ("$x.cuda()", "cuda()"),
    ("$x.cuda()", "x.cuda()()"),
    ("$x.cuda($d)", "x.cuda()"),
    ("$x.cuda($d)", "x.cuda(1, 2)"),
    ("$x.cuda($d)", "x.cuda(*a)"),
    ("$x.cuda($d)", "x.cuda(d=1)"),
    ("torch.cuda.f(d=$d)", "torch.cuda.f(1)"),
    ("torch.cuda.f(d=$d)", "torch.cuda.f(e=1)"),
    ("torch.cuda.f(d=$d)", "torch.cuda.f(**k)"),
    ("torch.cuda.f(d=$d, $$rest)", "torch.cuda.f(**k, d=1)"),
    ("torch.cuda.f(d=$d, $$rest)", "torch.cuda.f(1, d=2, e=3)"),  # what remains is not one run at the end
    ("torch.cuda.f()", "mylib.cuda.f()"),
    ("torch.cuda.f()", "torch.cuda.f"),
    ("torch.cuda.f", "torch.cuda.f()"),
    ("torch.cuda.f()", "torch.cuda.f.g()"),
    ("torch.cuda.f()", "torch.f()"),
    ("torch.cuda.f()", "'torch.cuda.f'()"),
    ("torch.f($x, $x)", "torch.f(a, b)"),
    ("torch.f($x, $x)", "torch.f(a.b, a.c)"),
    ("torch.f('cuda')", "torch.f('cpu')"),
    ("torch.f('cuda')", "torch.f(cuda)"),
    ("torch.f('cuda')", "torch.f(b'cuda')"),
    ("torch.f('cuda')", "torch.f(f'cuda')"),
    ("torch.f(True)", "torch.f(False)"),
    ("torch.f(1)", "torch.f(2)"),
    ("$x.type == 'cuda'", "x.type != 'cuda'"),
    ("$x.type == 'cuda'", "x.type == 'cuda' == y"),
    ("$x.type == 'cuda'", "'cuda' == x.type"),
    ("torch.f(-1)", "torch.f(+1)"),
]


@pytest.mark.parametrize(("pattern", "text"), NO_MATCH)
def test_no_match(pattern: str, text: str) -> None:
    assert found(pattern, text) is None


MATCH = [
    ("$x.cuda()", "x.cuda()", {"x": "x"}),
    ("$x.cuda()", "(a + b).cuda()", {"x": "(a + b)"}),
    ("$x.cuda()", "((a)).cuda()", {"x": "((a))"}),
    ("$x.cuda()", "f(a)[0].b.cuda()", {"x": "f(a)[0].b"}),
    ("$x.cuda()", "(x.cuda())", {"x": "x"}),
    ("$x.cuda()", "x . cuda ( )", {"x": "x"}),
    ("$x.cuda()", "x.cuda(\n    # why\n)", {"x": "x"}),
    ("$x.cuda()", "x\\\n.cuda()", {"x": "x"}),
    ("$x.cuda()", "(await x).cuda()", {"x": "(await x)"}),
    ("$x.cuda($$a)", "x.cuda()", {"x": "x", "a": ""}),
    ("$x.cuda($$a)", "x.cuda(*a, b=1, **k)", {"x": "x", "a": "*a, b=1, **k"}),
    ("$x.cuda($$a)", "x.cuda( 1 , # one\n  2 ,\n)", {"x": "x", "a": "1 , # one\n  2 ,\n"}),
    ("$x.cuda($$a)", "(x.cuda(1, ))", {"x": "x", "a": "1, "}),
    ("$x.cuda($d, $$a)", "x.cuda(f(1, 2), 3)", {"x": "x", "d": "f(1, 2)", "a": "3"}),
    ("$x.cuda($d)", "x.cuda(1,)", {"x": "x", "d": "1"}),
    ("$x.cuda($d)", "x.cuda((yield))", {"x": "x", "d": "(yield)"}),
    ("$x.cuda($d)", "x.cuda(lambda: (1, 2))", {"x": "x", "d": "lambda: (1, 2)"}),
    ("$x.cuda($d)", "x.cuda(f'{a!r:>{w}}')", {"x": "x", "d": "f'{a!r:>{w}}'"}),
    ("$x.cuda($d)", "x.cuda(i for i in y)", {"x": "x", "d": "i for i in y"}),
    ("torch.f(d=$d)", "th.f(d = 1)", {"d": "1"}),
    ("torch.f(a=$a, b=$b)", "torch.f(b=2, a=1)", {"a": "1", "b": "2"}),
    ("torch.f(d=$d, $$rest)", "torch.f(d=2, e=3)", {"d": "2", "rest": "e=3"}),
    ("torch.cuda.f()", "getattr(torch, 'cuda').f()", {}),
    ("torch.cuda.empty_cache()", "empty()", {}),
    ("torch.cuda.f", "(th . cuda\n. f)", {}),
    ("torch.f($x, $x)", "torch.f(a. b, a.b)", {"x": "a. b"}),
    ("torch.f('cuda')", 'torch.f("cuda")', {}),
    ("torch.f('cuda')", "torch.f(r'''cuda''')", {}),
    ("$x.type == 'cuda'", "x.device . type=='cuda'", {"x": "x.device"}),
    ("torch.f($a)[$i]", "torch.f(1)[ 0 ]", {"a": "1", "i": "0"}),
]


@pytest.mark.parametrize(("pattern", "text", "captures"), MATCH)
def test_match(pattern: str, text: str, captures: dict[str, str]) -> None:
    match = found(pattern, text)
    assert match is not None
    assert match.texts == captures


REWRITE = [
    ("$x.cuda()", "$x.to(d)", "x.cuda()", "x.to(d)"),
    ("$x.cuda()", "$x.to(d)", "x . cuda( )", "x .to(d)"),
    ("$x.cuda()", "$x.to(d)", "(x\n    .cuda())", "(x\n    .to(d))"),
    ("$x.cuda()", "$x.to(d)", "f( a,b ) .cuda()", "f( a,b ) .to(d)"),
    ("$x.cuda($$a)", "$x.to($$a)", "x.cuda( 1 ,\n  b = 2 , # no\n)", "x.to( 1 ,\n  b = 2 , # no\n)"),
    ("$x.cuda($$a)", "$x.to(d, $$a)", "x.cuda()", "x.to(d)"),
    ("$x.cuda($$a)", "$x.to(d, $$a)", "x.cuda(1, 2,)", "x.to(d, 1, 2,)"),
    ("$x.cuda($$a)", "$x.to(d, $$a)", "x.cuda(*a, **k)", "x.to(d, *a, **k)"),
    ("torch.cuda.f($$a)", "accel.f($$a)", "th.cuda.f(\n    1,\n)", "accel.f(\n    1,\n)"),
    ("torch.f($a, $b)", "g($b, $a)", "torch.f(x , y)", "g(y, x)"),
    ("torch.f($a)", "g($a, $a)", "torch.f(x)", "g(x, x)"),
    ("torch.f($a, $b)", "g($a)", "torch.f(x, y)", "g(x)"),
    ("$x.type == 'cuda'", "accel.is_accelerator($x)", "x.device.type == 'cuda'", "accel.is_accelerator(x.device)"),
    ("torch.f($a)", "torch.f($a)", "torch.f( x )", "torch.f( x )"),
    ("torch.cuda.f", "accel.f", "torch.cuda.f", "accel.f"),
    ("torch.cuda.f", "accel.f", "(torch.cuda.f)", "(accel.f)"),
    ("torch.f($a)", "g($a)", "torch.f('ünï' # no\n )", "g('ünï' # no\n )"),
]


@pytest.mark.parametrize(("pattern", "template", "before", "after"), REWRITE)
def test_rewrite(pattern: str, template: str, before: str, after: str) -> None:
    assert rewritten(pattern, template, before) == after


@pytest.mark.parametrize(
    ("pattern", "template", "text"),
    [
        ("$x.cuda()", "$x.to(d)", "x.cuda(  # the first\n)"),
        ("$x.cuda()", "$x.to(d)", "(x  # mine\n.cuda())"),
        ("torch.f($a, $b)", "g($a, 1, $b)", "torch.f(x,  # first\n y)"),
        ("torch.f($a, $b)", "g($b, $a)", "torch.f(x,  # first\n y)"),
    ],
)
def test_a_comment_is_never_lost(pattern: str, template: str, text: str) -> None:
    try:
        after = rewritten(pattern, template, text)
    except PatternError as error:
        assert "comment" in str(error)
    else:
        comment = next(line for line in text.splitlines() if "#" in line).partition("#")[2]
        assert after is not None
        assert comment in after


spaces = st.sampled_from(["", " ", "  ", "\t", "\n", " # c\n", "\\\n"])
captured = st.sampled_from(
    ["x", "(a, b)", "f(1)[0]", "'ü'", "f'{y}'", "lambda: 0", "[i for i in z]", "a if b else c", "-1"]
)


@given(st.lists(spaces, min_size=6, max_size=6), captured, captured)
def test_captures_survive_any_spacing(gaps: list[str], first: str, second: str) -> None:
    text = f"(torch{gaps[0]}.f({gaps[1]}{first}{gaps[2]},{gaps[3]}{second}{gaps[4]}){gaps[5]})"
    try:
        after = rewritten("torch.f($a, $b)", "accel.g($a, $b)", text)
    except PatternError as error:
        assert "comment" in str(error)
        return
    assert after is not None
    assert "accel" in after
    kept = f"{first}{gaps[2]},{gaps[3]}{second}{gaps[4]}){gaps[5]})"
    assert after.endswith(kept)
    compile(after, "", "eval", flags=0x2000)  # top-level await


def test_an_island_that_libcst_cannot_read_is_no_island() -> None:
    import libcst

    with pytest.raises((PatternError, libcst.ParserSyntaxError)):
        Expression(b"x = 1", 0, 5)


def test_expressions_come_outermost_first() -> None:
    text = b"f(a.cuda(), b.cuda())"
    island = Expression(text, 0, len(text))
    calls = [m for e in island.expressions() if (m := island.match(compile_pattern("$x.cuda()"), e, resolve))]
    assert [m.texts["x"] for m in calls] == ["a", "b"]
    assert [m.span for m in calls] == [(2, 10), (12, 20)]


def test_nested_rewrites_compose_in_one_pass() -> None:
    text = b"torch.f(torch.f(x) , torch.f( y ))"
    island = Expression(text, 0, len(text))
    pattern = compile_pattern("torch.f($$a)")
    matches = [m for e in island.expressions() if (m := island.match(pattern, e, resolve))]
    edits = [e for m in matches for e in instantiate(m, "g($$a)", island)]
    assert compose(text, edits) == b"g(g(x) , g( y ))"


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("literal", ["1", "1.5", "'x'", "True", "None", "(1)"], ["x", "f()", "-x", "[1]"]),
        ("integer", ["1", "0x10", "(2)"], ["1.0", "True", "x", "'1'"]),
        ("string", ["'x'", '"x"', "r'x'"], ["f'x'", "x", "1"]),
        ("true", ["True", "(True)"], ["False", "1", "x"]),
    ],
)
def test_where(kind: str, good: list[str], bad: list[str]) -> None:
    def admitted(text: str) -> bool:
        match = found("torch.f($a)", f"torch.f({text})")
        assert match is not None
        return admits(match, {"a": kind})

    assert [t for t in good if not admitted(t)] == []
    assert [t for t in bad if admitted(t)] == []


def test_names_are_spelled_as_the_file_spells_them() -> None:
    names = {"accel": "ac", "torch": "th"}
    assert (
        spell("accel.f(torch.g, my.torch.h, '$torch', xaccel.y)", names) == "ac.f(th.g, my.torch.h, '$torch', xaccel.y)"
    )
    assert roots_in("ac.f(x.ac.y)", names) == {"accel"}
    assert roots_in("th.f(ac.g)", names) == {"accel", "torch"}
    assert roots_in("x.ac.f, path.th", names) == frozenset()
