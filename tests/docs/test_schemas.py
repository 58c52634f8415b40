"""The schemas that editors read say what the readers do: same keys, same files taken, same mistakes refused."""

from __future__ import annotations

import json
import re
import runpy
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Ran

from torchmigrate.base.text import UserError
from torchmigrate.config import config_file
from torchmigrate.config.keys import KEYS
from torchmigrate.rules import packs, reader
from torchmigrate.surveys import api_catalog

jsonschema = pytest.importorskip("jsonschema", reason="schemas are checked with jsonschema")
NAMES = ("config", "pyproject", "rule", "catalog")
SCHEMAS = {name: json.loads(config_file.schema(name)) for name in NAMES}


def takes(name: str, data: object) -> bool:
    return bool(jsonschema.Draft7Validator(SCHEMAS[name]).is_valid(data))


def test_what_is_written_is_up_to_date() -> None:
    pages = runpy.run_path(str(ROOT / "docs" / "build_schemas.py"))["pages"]()
    for path, text in pages.items():
        assert path.read_text(encoding="utf-8") == text, "run: python docs/build_schemas.py"


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_one(name: str) -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMAS[name])


@pytest.mark.parametrize("name", NAMES)
def test_each_key_is_described(name: str) -> None:
    for key, schema in SCHEMAS["config" if name == "pyproject" else name]["properties"].items():
        assert len(schema["description"]) > 10, key
        for inner, described in schema.get("items", {}).get("properties", {}).items():
            assert len(described["description"]) > 10, f"{key}.{inner}"


def test_the_command_prints_them(cli: Callable[..., Ran], here: Path) -> None:
    for name in NAMES:
        ran = cli("config", "--schema", name)
        assert (ran.status, ran.raw) == (0, (ROOT / "torchmigrate" / "data" / "schemas" / f"{name}.json").read_bytes())
    assert cli("config", "--schema", "ruel").status == 2


# ---- the keys


def test_the_keys_are_those_of_the_readers() -> None:
    rule, api = SCHEMAS["rule"]["properties"], SCHEMAS["catalog"]["properties"]["api"]["items"]["properties"]
    assert SCHEMAS["config"]["properties"].keys() == KEYS.keys()
    assert rule.keys() == reader.KEYS["rule"].keys()
    for table in ("rewrite", "case", "where", "pattern"):
        assert rule[table]["items"]["properties"].keys() == reader.KEYS[table].keys()
    assert api.keys() == set(api_catalog._KEYS)


# ---- what is right


def test_all_that_ships_is_taken() -> None:
    files = sorted(f for f in (ROOT / "rules").glob("*/*.toml") if f.name != "pack.toml")
    refused = [p for p in files if not takes(_kind(p), tomllib.loads(p.read_text(encoding="utf-8")))]
    assert len(files) > 100
    assert refused == []


def _kind(path: Path) -> str:
    return "catalog" if path.parent.name == "catalog" else "rule"


def test_the_examples_of_the_keys_are_taken_by_both(tmp_path: Path) -> None:
    for key, described in KEYS.items():
        for example in described.examples:
            helper = 'helper = "m"\n' if key == "helper-map" else ""
            text = f"{helper}{key} = {config_file.toml(example)}\n"
            assert reads_config(text, tmp_path), text
            assert takes("config", tomllib.loads(text)), text


def test_the_settings_on_the_page_are_taken_by_both(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    blocks = [b for b in re.findall(r"^```toml\n(.*?)^```$", page, re.M | re.S) if "[tool.torchmigrate]" in b]
    assert blocks
    for block in blocks:
        assert reads_config(block, tmp_path), block
        assert takes("pyproject", tomllib.loads(block)), block


def test_a_pyproject_is_checked_in_our_table_alone() -> None:
    assert takes("pyproject", {"project": {"name": 1}, "tool": {"x": 1, "torchmigrate": {"select": ["device"]}}})
    assert not takes("pyproject", {"tool": {"torchmigrate": {"selct": ["device"]}}})
    assert not takes("pyproject", {"tool": {"torchmigrate": {"ignore": ["device/*"]}}})


# ---- what is wrong

VALUES = [
    *(True, 1, 2.1, "", "x", "mps", "vendor", "native", "a.b", "a/b.py", ">=2.1", ">=2.1 <3", "new", "a-b", "../x"),
    *([], [1], [""], ["device"], ["device/x"], ["device/*"], ["a,b"], ["mps"], ["mpss"], ["a\\b"], ["!a"], ["./"]),
    *(["**/x"], ["../x"], ["a/../b"], {}, {"a": 1}, {"a": "b"}, {"a": ["b"]}, {"a\\b": ["b"]}, {"!a": ["b"]}, [{}]),
    *({"device": "get"}, {"": ["b"]}),
]
ONLY_THE_SCHEMA = {("helper-map", "{'a': 'b'}")}  # which functions our helper has is asked later, by who reads its code


def reads_config(text: str, directory: Path) -> bool:
    file = directory / "settings.toml"
    file.write_text(text, encoding="utf-8")
    try:
        config_file.read(file)
    except UserError:
        return False
    return True


def test_values_of_settings_are_refused_by_both_or_none(tmp_path: Path) -> None:
    differ = set()
    for key in KEYS:
        for value in VALUES:
            helper = {"helper": "m"} if key == "helper-map" else {}
            data = {**helper, key: value}
            text = "".join(f"{name} = {config_file.toml(v)}\n" for name, v in data.items())
            if reads_config(text, tmp_path) is not takes("config", data):
                differ.add((key, str(value)))
    assert differ == ONLY_THE_SCHEMA


def test_an_unknown_setting_is_refused() -> None:
    assert not takes("config", {"selct": ["device"]})


def test_a_helper_map_needs_its_helper() -> None:
    """The reader of the helper says so, once there is work."""
    assert not takes("config", {"helper-map": {"device": "get_device"}})


RULE: dict[str, Any] = {"summary": "a", "safety": "display", "why": "b"}
PYTHON = {**RULE, "rewrite": [{"match": "torch.cuda.f($$a)", "with": "accel.f($$a)"}]}
TEXT = {**RULE, "files": ["*.txt"], "pattern": [{"match": "cuda"}]}
CASE = {"title": "t", "before": "x = 1"}
REWRITES = {"match": "torch.f($x)"}

BAD_RULES: dict[str, dict[str, Any]] = {
    "nothing to match": RULE,
    "no summary": {key: value for key, value in PYTHON.items() if key != "summary"},
    "no why": {key: value for key, value in PYTHON.items() if key != "why"},
    "summary is no string": {**PYTHON, "summary": 1},
    "safety": {**PYTHON, "safety": "sure"},
    "unknown key": {**PYTHON, "sumary": "a"},
    "backends as a string": {**PYTHON, "backends": "mps"},
    "a backend that is none": {**PYTHON, "backends": ["mpss"]},
    "see as a string": {**PYTHON, "see": "https://example.org"},
    "literals as a string": {**PYTHON, "literals": "cuda"},
    "blocks as a string": {**PYTHON, "blocks": "no"},
    "message is no string": {**PYTHON, "message": 1},
    "one rewrite, no list": {**RULE, "rewrite": REWRITES},
    "one case, no list": {**PYTHON, "case": CASE},
    "rewrites that are no tables": {**RULE, "rewrite": ["torch.f()"]},
    "no match": {**RULE, "rewrite": [{"with": "x"}]},
    "unknown key of a rewrite": {**RULE, "rewrite": [{**REWRITES, "wit": "x"}]},
    "with is no string": {**RULE, "rewrite": [{**REWRITES, "with": 1}]},
    "where is no table": {**RULE, "rewrite": [{**REWRITES, "where": "x"}]},
    "where of an unknown kind": {**RULE, "rewrite": [{**REWRITES, "where": {"x": "tensor"}}]},
    "a rewrite's safety": {**RULE, "rewrite": [{**REWRITES, "safety": "maybe"}]},
    "a rewrite's torch": {**RULE, "rewrite": [{**REWRITES, "torch": "new"}]},
    "a fixer without on": {**RULE, "fixer": "api/memory:manual_seed"},
    "on without a fixer": {**PYTHON, "on": ["torch.x"]},
    "on that nothing asks": {**RULE, "fixer": "api/memory:manual_seed", "on": ["numpy.x"]},
    "since no release": {**RULE, "fixer": "api/memory:stream", "on": ["torch.x"], "since": {"torch.x": ">=2"}},
    "since without on": {**PYTHON, "since": {"torch.x": "2.14"}},
    "a case without before": {**PYTHON, "case": [{"title": "t"}]},
    "a case's unknown key": {**PYTHON, "case": [{**CASE, "befor": "x"}]},
    "a case's todo": {**PYTHON, "case": [{**CASE, "todo": "yes"}]},
    "a case of Python with a file": {**PYTHON, "case": [{**CASE, "file": "x.txt"}]},
    "a case of text without a file": {**TEXT, "case": [CASE]},
    "files without a pattern": {**PYTHON, "files": ["*.txt"]},
    "where without a pattern": {**PYTHON, "where": [{"files": ["*.txt"]}]},
    "text that rewrites": {**TEXT, "safety": "safe"},
    "text with a fixer": {**TEXT, "fixer": "api/memory:manual_seed", "on": ["torch.x"]},
    "text that blocks": {**TEXT, "blocks": True},
    "a pattern without files": {**RULE, "pattern": [{"match": "x"}]},
    "a pattern without match or files": {**RULE, "where": [{"files": ["a"]}], "pattern": [{"message": "x"}]},
    "a pattern's unknown key": {**TEXT, "pattern": [{"match": "x", "unles": "y"}]},
    "a pattern's empty match": {**TEXT, "pattern": [{"match": ""}]},
    "siblings": {**TEXT, "pattern": [{"match": "x", "siblings": "yes"}]},
    "files as a string": {**TEXT, "files": "*.txt"},
    "no files": {**TEXT, "files": []},
    "files from the root": {**TEXT, "files": ["/etc/x"]},
    "files above": {**TEXT, "files": ["../x"]},
    "a folder": {**TEXT, "files": ["x/"]},
    "where without files": {**RULE, "pattern": [{"match": "x"}], "where": [{"line": "x"}]},
    "where's unknown key": {**RULE, "pattern": [{"match": "x"}], "where": [{"files": ["x"], "lines": "x"}]},
}
# what a schema cannot say: expressions, captures, regular expressions
ONLY_READ: dict[str, dict[str, Any]] = {
    "match that is no expression": {**RULE, "rewrite": [{"match": "torch.f("}]},
    "match of a plain name": {**RULE, "rewrite": [{"match": "f($x)"}]},
    "unbound capture": {**RULE, "rewrite": [{**REWRITES, "with": "g($y)"}]},
    "where of another capture": {**RULE, "rewrite": [{**REWRITES, "where": {"y": "literal"}}]},
    "no regular expression": {**TEXT, "pattern": [{"match": "("}]},
    "a message with another group": {**TEXT, "pattern": [{"match": "x", "message": "{y}"}]},
}
GOOD_RULES: dict[str, dict[str, Any]] = {
    "python": {
        **PYTHON,
        "backends": ["mps"],
        "see": ["https://a.b"],
        "case": [{**CASE, "after": "y", "finding": False}],
    },
    "a fixer": {**RULE, "fixer": "api/memory:manual_seed", "on": ["torch.cuda.seed", ".seed", "If", "string:device"]},
    "text": {**TEXT, "case": [{**CASE, "file": "x.txt"}]},
    "text by where": {**RULE, "where": [{"files": ["a"], "line": "x"}], "pattern": [{"match": "x"}]},
    "files by name": {**RULE, "where": [{"files": ["a"]}], "pattern": [{"files": ["a.lock"]}]},
}


def toml_of(data: dict[str, Any]) -> str:
    """All that the readers' line numbers do not need: one line per key, tables inline."""
    return "".join(f"{key} = {_inline(value)}\n" for key, value in data.items())


def _inline(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    return config_file.toml(value)


def reads_rule(data: dict[str, Any], directory: Path) -> bool:
    (directory / "own").mkdir(exist_ok=True)
    file = directory / "own" / "rule.toml"
    file.write_text(toml_of(data), encoding="utf-8")
    try:
        packs.load_rule(file)
    except reader.PackError:
        return False
    return True


@pytest.mark.parametrize("name", BAD_RULES)
def test_rules_that_both_refuse(name: str, tmp_path: Path) -> None:
    assert (reads_rule(BAD_RULES[name], tmp_path), takes("rule", BAD_RULES[name])) == (False, False)


@pytest.mark.parametrize("name", ONLY_READ)
def test_rules_that_the_reader_alone_refuses(name: str, tmp_path: Path) -> None:
    assert (reads_rule(ONLY_READ[name], tmp_path), takes("rule", ONLY_READ[name])) == (False, True)


@pytest.mark.parametrize("name", GOOD_RULES)
def test_rules_that_both_take(name: str, tmp_path: Path) -> None:
    assert (reads_rule(GOOD_RULES[name], tmp_path), takes("rule", GOOD_RULES[name])) == (True, True)


def test_a_fixer_that_is_not_there() -> None:
    """The dispatch table refuses it, not the reader."""
    assert not takes("rule", {**RULE, "fixer": "api/memory:manual_sed", "on": ["torch.x"]})


VERDICTS = dict.fromkeys(("cuda", "mps", "xpu", "npu", "hpu", "mtia", "cpu"), "works")
ROW: dict[str, Any] = {"name": "torch.cuda.f", "kind": "function", "action": "rewritten", "rule": "a/b"}
ROW |= {"source": "https://example.org", "verdicts": VERDICTS}
LEFT = {**{key: value for key, value in ROW.items() if key != "rule"}, "action": "left alone", "why": "as it is"}

BAD_ROWS: dict[str, dict[str, Any]] = {
    "unknown key": {**ROW, "nam": "x"},
    "a name with ()": {**ROW, "name": "torch.f()"},
    "another library's": {**ROW, "name": "numpy.f"},
    "a kind": {**ROW, "kind": "func"},
    "an action": {**ROW, "action": "kept"},
    "no verdicts": {key: value for key, value in ROW.items() if key != "verdicts"},
    "a backend is missing": {**ROW, "verdicts": {"cuda": "works"}},
    "an unknown backend": {**ROW, "verdicts": {**VERDICTS, "tpu": "works"}},
    "an unknown verdict": {**ROW, "but": {"mps": "broken"}},
    "left alone by a rule": {**LEFT, "rule": "a/b"},
    "left alone without a why": {**LEFT, "why": ""},
    "rewritten by none": {key: value for key, value in ROW.items() if key != "rule"},
    "since": {**ROW, "since": "new"},
    "measure alone": {**ROW, "measure": "1"},
    "also as a string": {**ROW, "also": "torch.g"},
}


def reads_rows(data: dict[str, Any], directory: Path) -> bool:
    file = directory / "rows.toml"
    file.write_text(toml_of(data), encoding="utf-8")
    try:
        api_catalog.read(file)
    except reader.PackError:
        return False
    return True


@pytest.mark.parametrize("name", BAD_ROWS)
def test_rows_that_both_refuse(name: str, tmp_path: Path) -> None:
    data = {"api": [BAD_ROWS[name]]}
    assert (reads_rows(data, tmp_path), takes("catalog", data)) == (False, False)


def test_rows_that_both_take(tmp_path: Path) -> None:
    named = {**ROW, "verdicts": "plain", "but": {"mps": "missing"}, "rule": ["a/b", "a/c"], "also": ["torch.g"]}
    data = {"source": "u", "verdicts": {"plain": VERDICTS}, "api": [named, {**LEFT, "name": "torch.h"}]}
    assert (reads_rows(data, tmp_path), takes("catalog", data)) == (True, True)


def test_rows_that_the_reader_alone_refuses(tmp_path: Path) -> None:
    for row in (
        {**ROW, "verdicts": "unknown"},
        {key: value for key, value in ROW.items() if key != "source"},
        {**ROW, "verdicts": {**VERDICTS, "mps": "works through the helper"}},
    ):
        assert (reads_rows({"api": [row]}, tmp_path), takes("catalog", {"api": [row]})) == (False, True)
