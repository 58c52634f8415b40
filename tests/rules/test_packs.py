"""Reading rule files: what is refused, with file, line and a way out; selection; dispatch keys; trigger literals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from conftest import write_tree

from torchmigrate.diagnostics.finding import Safety
from torchmigrate.rules.model import PackError, Rule, Ruleset, literals_of, pattern_key
from torchmigrate.rules.packs import builtin, load, load_rule

HEAD = 'summary = "a"\nsafety = "safe"\nwhy = "b"\n'
REWRITE = '[[rewrite]]\nmatch = "torch.cuda.f($$a)"\nwith = "accel.f($$a)"\n'
CASE = '[[case]]\ntitle = "t"\nbefore = "x = 1"\n'


def rule_of(text: str, tmp_path: Path, name: str = "mine/a-rule") -> Rule:
    return load_rule(write_tree(tmp_path, {f"{name}.toml": text}) / f"{name}.toml")


# text, line of the error, what it says, the way out
BAD = {
    "no TOML": ("summary = \n", 1, "not valid TOML", "a TOML file"),
    "TOML broken further down": (HEAD + "\n[[case]\n", 5, "not valid TOML", "a TOML file"),
    "no summary": ('safety = "safe"\nwhy = "b"\n', 1, "`summary` is missing", "every rule has a summary"),
    "summary is no string": ('summary = 1\nsafety = "safe"\nwhy = "b"\n', 1, "`summary` is missing", "string"),
    "no why": ('summary = "a"\nsafety = "safe"\n', 1, "`why` is missing", "every rule has a why"),
    "unknown safety": ('summary = "a"\nsafety = "sure"\nwhy = "b"\n', 2, "safety is 'sure'", "safe, unsafe or display"),
    "unknown key": (HEAD + 'sumary = "a"\n', 4, "unknown key `sumary`", "did you mean `summary`?"),
    "unknown key, nothing like it": (HEAD + "zzz = 1\n", 4, "unknown key `zzz`", "known keys:"),
    "nothing to match": (HEAD, 1, "nothing to match", "[[rewrite]]"),
    "a fixer without on": (HEAD + 'fixer = "api/memory:manual_seed"\n', 1, "belong together", "lists what"),
    "on without a fixer": (HEAD + 'on = ["torch.x"]\n' + REWRITE, 4, "belong together", "lists what"),
    "on that nothing asks": (HEAD + 'fixer = "api/memory:stream"\non = ["numpy.x"]\n', 5, "'numpy.x'", "a node kind"),
    "since of a name that is not asked for": (
        HEAD + 'fixer = "api/memory:stream"\non = ["torch.x"]\n[since]\n"torch.y" = "2.14"\n',
        6,
        "`since` has 'torch.y'",
        "names that `on` has",
    ),
    "since a release that is none": (
        HEAD + 'fixer = "api/memory:stream"\non = ["torch.x"]\nsince = {"torch.x" = ">=2"}\n',
        6,
        "`since` of 'torch.x' must be a release",
        "since = { ... }",
    ),
    "rewrite without match": (HEAD + '[[rewrite]]\nwith = "x"\n', 4, "`match` is missing", "match ="),
    "match that is no expression": (
        HEAD + '[[rewrite]]\nmatch = "torch.f("\nwith = "x"\n',
        5,
        "is not an expression",
        "one expression",
    ),
    "match of a plain name": (
        HEAD + '[[rewrite]]\nmatch = "f($x)"\nwith = "x"\n',
        5,
        "neither a torch function",
        "one expression",
    ),
    "unbound capture": (HEAD + '[[rewrite]]\nmatch = "torch.f($x)"\nwith = "g($y)"\n', 6, "$y", "bind it in"),
    "unbound capture, native": (HEAD + REWRITE + 'native = "g($y)"\n', 6, "$y", "bind it in"),
    "unknown key of a rewrite": (HEAD + REWRITE + 'wit = "x"\n', 4, "unknown key `wit`", "did you mean `with`?"),
    "where of a capture that is not there": (
        HEAD + REWRITE + 'where = {b = "literal"}\n',
        7,
        "`where` has b",
        "`match` binds $a",
    ),
    "where of an unknown kind": (
        HEAD + REWRITE + 'where = {a = "tensor"}\n',
        7,
        "'tensor'",
        "a kind is one of integer, literal",
    ),
    "rewrite's safety": (HEAD + REWRITE + 'safety = "maybe"\n', 4, "safety is 'maybe'", "safe, unsafe or display"),
    "the second rewrite": (
        HEAD + REWRITE + '[[rewrite]]\nmatch = "torch.g($x)"\nwith = "g($y)"\n',
        9,
        "$y",
        "bind it in",
    ),
    "a string for a list": (
        HEAD + REWRITE.replace("[[", 'see = "u"\n[['),
        4,
        '`see` must be a list of strings: ["u"]',
        "see =",
    ),
    "a backend that is none": (
        HEAD + 'backends = ["mpss"]\n' + REWRITE,
        4,
        "names no backend: `mpss`",
        "did you mean `mps`?",
    ),
    "a literal without a word": (
        HEAD + 'literals = ["."]\n' + REWRITE,
        4,
        "`literals` must hold a letter",
        "literals =",
    ),
    "a string for a flag": (HEAD + 'blocks = "no"\n' + REWRITE, 4, "`blocks` must be true or false", "blocks = true"),
    "one table for many": (
        HEAD + REWRITE.replace("[[rewrite]]", "[rewrite]"),
        4,
        "must be a list of tables",
        "[[rewrite]]",
    ),
    "a case's flag": (HEAD + REWRITE + CASE + "todo = 1\n", 7, "`todo` must be true or false", "todo = true"),
    "where of no table": (HEAD + REWRITE + 'where = "x"\n', 4, "`where` must be a table", "where = { ... }"),
    "torch of no release": (HEAD + REWRITE + 'torch = "new"\n', 4, "`torch` must be a version specifier", "torch ="),
    "nested without end": ("x = " + "[" * 5000, 1, "nested too deeply", "three levels"),
    "case without before": (
        HEAD + REWRITE + '[[case]]\ntitle = "t"\n',
        7,
        "needs `title` and `before`",
        "`after` is left out",
    ),
    "unknown key of a case": (
        HEAD + REWRITE + CASE + 'befor = "x"\n',
        7,
        "unknown key `befor`",
        "did you mean `before`?",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused(name: str, tmp_path: Path) -> None:
    text, line, what, way_out = BAD[name]
    with pytest.raises(PackError) as caught:
        rule_of(text, tmp_path)
    message, _, help = str(caught.value).partition("\nhelp: ")
    assert message.startswith(f"{tmp_path / 'mine/a-rule.toml'}:{line}: ")
    assert what in message
    assert way_out in help


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "mine" / "a.toml"
    path.parent.mkdir()
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(PackError, match="UTF-8"):
        load_rule(path)
    with pytest.raises(PackError, match="a file that can be read"):
        load_rule(tmp_path / "absent.toml")


def test_a_rule_is_read(tmp_path: Path) -> None:
    text = (
        HEAD
        + 'message = "m"\nsee = ["https://u"]\nbackends = ["mps"]\n'
        + REWRITE
        + 'native = "n($$a)"\ntorch = ">=2.9"\n'
        + CASE
    )
    rule = rule_of(text + 'after = "y"\nunsafe = true\nfinding = false\ntogether = true\n', tmp_path)
    assert (rule.id, rule.pack, rule.safety, rule.message, rule.see, rule.backends) == (
        *("mine/a-rule", "mine", Safety.SAFE, "m", ("https://u",), ("mps",)),
    )
    (rewrite,), (case,) = rule.rewrites, rule.cases
    assert (rewrite.match, rewrite.template, rewrite.native, rewrite.torch) == (
        *("torch.cuda.f($$a)", "accel.f($$a)", "n($$a)", ">=2.9"),
    )
    assert (rewrite.safety, rewrite.message) == (Safety.SAFE, "m")
    assert (case.title, case.before, case.after, case.unsafe, case.finding, case.todo) == (
        "t",
        "x = 1",
        "y",
        True,
        False,
        False,
    )
    assert case.together
    assert text.splitlines()[case.line - 1] == "[[case]]"


def test_the_message_is_the_summary_unless_it_is_said(tmp_path: Path) -> None:
    assert rule_of(HEAD + REWRITE, tmp_path).message == "a"


def test_a_rewrite_without_a_template_is_a_finding(tmp_path: Path) -> None:
    rule = rule_of(HEAD + '[[rewrite]]\nmatch = "torch.cuda.f()"\nsafety = "display"\n', tmp_path)
    assert (rule.rewrites[0].template, rule.rewrites[0].safety) == (None, Safety.DISPLAY)


@pytest.mark.parametrize(
    ("match", "key"),
    [
        ("torch.cuda.f($$a)", "torch.cuda.f"),
        ("torch.cuda.f", "torch.cuda.f"),
        ("$x.cuda($$a)", ".cuda"),
        ("$x.data.cuda()", ".cuda"),
        ("mylib.f($x)", ".f"),
    ],
)
def test_what_a_pattern_is_looked_up_by(match: str, key: str) -> None:
    assert pattern_key(match) == key


@pytest.mark.parametrize("match", ["$x", "f($x)", "torch", "$x == 'cuda'", "1"])
def test_what_cannot_be_looked_up(match: str) -> None:
    with pytest.raises(ValueError, match="names neither"):
        pattern_key(match)


# ---- many rules
def test_load_adds_to_the_rules_that_ship(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {"mine/a-rule.toml": HEAD + REWRITE, "mine/notes.txt": "x", "catalog/rows.toml": "x = 1", "top.toml": "x"},
    )
    found = load([tmp_path])
    assert set(found.rules) - set(load().rules) == {"mine/a-rule"}


def test_two_rules_of_one_name_are_refused(tmp_path: Path) -> None:
    write_tree(tmp_path, {"memory/empty-cache.toml": HEAD + REWRITE})
    with pytest.raises(PackError, match="memory/empty-cache exists already"):
        load([tmp_path])


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PackError, match="no such directory of rules"):
        load([tmp_path / "absent"])


def test_a_folder_is_read_once_whatever_it_is_called(tmp_path: Path) -> None:
    write_tree(tmp_path, {"mine/a-rule.toml": HEAD + REWRITE})
    (tmp_path / "link").symlink_to(tmp_path)
    found = load([tmp_path, tmp_path / "mine" / "..", tmp_path / "link", builtin()])
    assert set(found.rules) - set(load().rules) == {"mine/a-rule"}


def test_a_folder_without_packs_is_refused(tmp_path: Path) -> None:
    write_tree(tmp_path, {"mine/a-rule.toml": HEAD + REWRITE, "empty/readme.txt": "x"})
    with pytest.raises(PackError, match=rf"no rules in it\nhelp: .*name the folder above, {tmp_path}$"):
        load([tmp_path / "mine"])
    with pytest.raises(PackError, match="there are no rules in it"):
        load([tmp_path / "empty"])


def test_the_rules_that_ship_are_found() -> None:
    assert builtin().is_dir()
    assert load().rules


@pytest.fixture
def three(tmp_path: Path) -> Ruleset:
    names = ("a/one", "a/two", "b/one")
    return Ruleset({name: rule_of(HEAD + REWRITE, tmp_path, name) for name in names})


@pytest.mark.parametrize(
    ("select", "ignore", "left"),
    [
        ([], [], ["a/one", "a/two", "b/one"]),
        (["a"], [], ["a/one", "a/two"]),
        (["a/one", "b"], [], ["a/one", "b/one"]),
        ([], ["a"], ["b/one"]),
        (["a"], ["a/one"], ["a/two"]),
        (["one"], [], []),
        (["a"], ["a"], []),
    ],
)
def test_selection(three: Ruleset, select: list[str], ignore: list[str], left: list[str]) -> None:
    assert list(three.selected(select, ignore).rules) == left


def test_unknown_names_come_with_the_closest(three: Ruleset) -> None:
    assert three.unknown(["a", "a/one", "b/one"]) == {}
    assert three.unknown(["a/on", "zzz"]) == {"a/on": "a/one", "zzz": None}


def test_literals_cover_every_rule_and_no_more(tmp_path: Path) -> None:
    texts = {
        "a/one": REWRITE,
        "a/two": '[[rewrite]]\nmatch = "torch.f($x)"\nwith = "g($x)"\n',
        "a/three": '[[rewrite]]\nmatch = "$x.nonblock()"\nwith = "$x"\n',
        "a/four": 'literals = ["fff"]\n' + REWRITE,
        "a/five": 'fixer = "api/memory:manual_seed"\non = ["string:device", "If"]\nliterals = ["mps"]\n',
    }
    rules = [rule_of(HEAD + text, tmp_path, name) for name, text in texts.items()]
    assert set(literals_of(rules)) == {b"cuda", b"f", b"nonblock", b"mps"}
    assert literals_of(rules)[0] == b"cuda"  # the commonest first
    assert literals_of([]) == ()


def test_a_migration_reads_the_same_rules_without_their_cases() -> None:
    whole, lean = load().rules, load(cases=False).rules
    assert not any(rule.cases for rule in lean.values())
    assert {i: replace(rule, cases=()) for i, rule in whole.items()} == dict(lean)
