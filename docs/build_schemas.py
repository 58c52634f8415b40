"""Writes torchmigrate/data/schemas/*.json, and the table of docs/configuration.md: python docs/build_schemas.py

Draft 7: what taplo (Even Better TOML) and SchemaStore read. What a key holds comes from the readers themselves; what
stands here is what they cannot say: a description of each key, and which keys go together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchmigrate.base.schema import Kind
from torchmigrate.config.config_file import toml
from torchmigrate.config.keys import KEYS, NAME
from torchmigrate.project import helper_file
from torchmigrate.rules import packs, reader
from torchmigrate.rules.model import NODE_KINDS, STRING_KINDS, WHERE
from torchmigrate.surveys import api_catalog

HERE = Path(__file__).resolve().parent
DRAFT = "http://json-schema.org/draft-07/schema#"
MARKS = "<!-- keys: written by docs/build_schemas.py -->\n", "<!-- end -->\n"
Json = dict[str, Any]

RULE = {
    "summary": "What the rule finds, in one line.",
    "safety": "safe: nothing observable changes on CUDA; unsafe: it rests on what the code does not show; display: a "
    "person decides.",
    "backends": "Who gains by it, or whose problem it is. None named: all.",
    "why": "What goes wrong otherwise, in a few sentences.",
    "see": "Links to what is documented elsewhere.",
    "message": "What a finding says. The summary, if it is left out; of a text rule with {match} and its groups.",
    "blocks": "A finding keeps a test for CUDA around it as it is.",
    "raises": "What is found raises on one of its backends: a choice of the device that leads there stays.",
    "guards": "What its findings are to the code behind them: a test that is rewritten only with it, or a choice.",
    "fixer": "The Python function that finds and rewrites: `device/tensor_cuda`, `hazard/mps:sparse`.",
    "on": "What the fixer is called for: torch.x, torch.x.*, .method, accel.x, a kind of string or of node.",
    "since": "Names of `on` that need no finding from a torch release on, each with that release.",
    "literals": "Of these a file must hold one, or the rule is not asked. Else they follow from what it looks for.",
    "literals-from": "A table whose names are such words, too.",
    "rewrite": "An expression and what it becomes. The first that matches counts.",
    "case": "A test, and the first one the documentation's example.",
    "files": "Which files a rule about text reads: globs of the end of a path.",
    "where": "Which files a rule about text reads, and where in them.",
    "pattern": "What a rule about text finds.",
}
REWRITE = {
    "match": "One Python expression: $x is any expression, $$args the rest of an argument list.",
    "with": "What it becomes; accel is the helper. Left out: a finding alone.",
    "native": "The same for --style native, where that is equivalent.",
    "torch": "The torch that `native` needs.",
    "where": "What captures must be: literal, integer, string, true.",
    "safety": "The rule's own, if it is left out.",
    "message": "The rule's own, if it is left out.",
    "backends": "The rule's own, if they are left out.",
}
CASE = {
    "title": "What it shows.",
    "before": "The whole file, before.",
    "after": "The whole file, after. Left out: nothing may change.",
    "todo": "A known gap: must still fail.",
    "unsafe": "Run with --unsafe-fixes.",
    "finding": "Whether a finding of this rule must be left, or must not.",
    "together": "Run with all rules alone, as what it shows takes several.",
    "file": "What the file is called; of rules about text.",
    "native": "What --style native gives, where that is something else.",
}
WHERE_TABLE = {
    "files": "Globs of the end of a path.",
    "but": "Of these, files that are not read.",
    "beside": "Not where a file of the folder matches one of these: a choice is offered there.",
    "line": "Only at lines that hold this (a regular expression, as Python's `re` reads it).",
    "under": "Of TOML and INI, only at what stands under such a table and key (a regular expression).",
    "unless": "Not at lines that hold this (a regular expression).",
}
PATTERN = {
    "match": "A regular expression, as Python's `re` reads it; the group `at`, if there is one. Left out: the file.",
    "message": "What a finding says, with {match} and the groups by name. The rule's own, if it is left out.",
    "files": "Globs that narrow the rule's own.",
    "unless": "Not at lines that hold this (a regular expression).",
    "alternative": "Not in files that hold this (a regular expression): they offer a choice already.",
    "siblings": "The same of any file of the folder that the rule reads.",
}
CATALOG = {
    "name": "The public name of the API, without ().",
    "kind": "What it is.",
    "action": "What becomes of it.",
    "helper": "The helper's function that stands in for it.",
    "why": "A clause that says why; what is left alone needs one.",
    "since": 'The torch release that has it first, as "2.6", where 2.1 has it not.',
    "source": "Where that is documented, if not where the file says.",
    "measure": "An expression that a test evaluates on a build for the CPU.",
    "gives": "What `measure` gives there.",
    "rule": "The rule that looks after it, or several.",
    "also": "Other names of the same API.",
    "verdicts": "What it does on each backend once a project is migrated: a [verdicts.x] of this file, or a table.",
    "but": "The verdicts in which it differs from those.",
}


def config_schema() -> Json:
    """`[tool.torchmigrate]`, or a file of its own."""
    found = {key: {"description": f"{k.about} Default: {k.default}.", **_of(k.kind)} for key, k in KEYS.items()}
    for key, value in KEYS.items():
        found[key]["examples"] = list(value.examples)
    for key in ("select", "ignore"):
        found[key]["items"] = {"$ref": "#/definitions/name"}
    found["per-file-ignores"]["additionalProperties"]["items"] = {"$ref": "#/definitions/name"}
    helper = sorted(helper_file._runtime_functions())
    found["helper-map"] |= {"properties": {name: {"type": "string"} for name in helper}, "additionalProperties": False}
    more = {"dependencies": {"helper-map": ["helper"]}, "definitions": {"name": _name()}}
    return _schema("torchmigrate settings", "[tool.torchmigrate] of a pyproject.toml.", found, **more)


def pyproject_schema() -> Json:
    """A whole pyproject.toml, of which it knows our table alone."""
    ours = config_schema()
    head = {key: ours.pop(key) for key in ("$schema", "title", "definitions")}
    tool = {"type": "object", "properties": {"torchmigrate": ours}}
    return {**head, "description": "A pyproject.toml.", "type": "object", "properties": {"tool": tool}}


def _name() -> Json:
    """Packs and rules: ours by name, so that an editor completes them, and anybody's by shape."""
    rules = packs.load(cases=False).rules.values()
    known = sorted({name for rule in rules for name in (rule.id, rule.pack)})
    return {"anyOf": [{"enum": known}, _of(NAME)]}


def rule_schema() -> Json:
    """`<pack>/<rule>.toml`: about Python, or about text."""
    found = _described(reader.KEYS["rule"], RULE)
    found["fixer"]["enum"] = sorted({rule.fixer for rule in packs.load(cases=False).rules.values() if rule.fixer})
    asked = [{"enum": sorted(NODE_KINDS | STRING_KINDS)}, {"type": "string", "pattern": r"^(torch\.|\.|accel\.)"}]
    found["on"] |= {"minItems": 1, "items": {"anyOf": asked}}
    found["rewrite"]["items"] = _rewrite()
    found["where"]["items"] = _table(_described(reader.KEYS["where"], WHERE_TABLE), ["files"])
    found["pattern"]["items"] = _table(_described(reader.KEYS["pattern"], PATTERN), [])
    found["case"]["items"] = _table(_described(reader.KEYS["case"], CASE), ["title", "before"])
    for key in ("rewrite", "pattern", "where"):
        found[key]["minItems"] = 1
    matches = [{"required": [key]} for key in ("rewrite", "fixer", "pattern")]
    return _schema("A rule of torchmigrate", "<pack>/<rule>.toml; the path is its name.", found,
        required=["summary", "safety", "why"], dependencies={"on": ["fixer"], "fixer": ["on"], "since": ["on"]},
        anyOf=matches, **{"if": {"required": ["pattern"]}, "then": _about_text(), "else": _about_python()})  # fmt: skip


def _rewrite() -> Json:
    found = _described(reader.KEYS["rewrite"], REWRITE)
    found["where"]["additionalProperties"] = {"enum": sorted(WHERE)}
    return _table(found, ["match"])


def _about_text() -> Json:
    case = {"properties": {"case": {"items": {"required": ["file"]}}}}
    either = {"anyOf": [{"required": ["match"]}, {"required": ["files"]}]}
    without_files = {"properties": {"pattern": {"items": either}}}
    of_python = dict.fromkeys(("fixer", "on", "since", "rewrite", "blocks", "raises", "guards"), False)
    return {
        "properties": {"safety": {"const": "display"}, **of_python},
        "allOf": [case, {"anyOf": [{"required": ["files"]}, {"required": ["where"]}]}],
        "if": {"not": {"required": ["files"]}},
        "then": without_files,
    }


def _about_python() -> Json:
    case = {"items": {"properties": {"file": False}}}
    return {"properties": {"files": False, "where": False, "case": case}}


def catalog_schema() -> Json:
    """`catalog/*.toml`."""
    verdicts = {name: {"enum": list(api_catalog.VERDICTS)} for name in api_catalog.BACKENDS if name != "mlx"}
    some = {"type": "object", "properties": verdicts, "additionalProperties": False}
    every = {**some, "required": [name for name in verdicts if name != "rocm"]}
    text, names = {"type": "string"}, {"type": "array", "items": {"type": "string", "minLength": 1}}
    special: Json = {
        "name": {**text, "pattern": r"^torch(\.[A-Za-z_]\w*)*$"},
        "kind": {"enum": list(api_catalog.KINDS)}, "action": {"enum": list(api_catalog.ACTIONS)},
        "since": {**text, "pattern": r"^(\d+\.\d+)?$"}, "rule": {"anyOf": [text, names]}, "also": names,
        "verdicts": {"anyOf": [text, every]}, "but": some,
    }  # fmt: skip
    api = {key: {"description": CATALOG[key], **special.get(key, text)} for key in api_catalog._KEYS}
    left = {"if": {"properties": {"action": {"const": api_catalog.LEFT}}}, "then": {"required": ["why"]}}
    left["then"] |= {"properties": {"why": {"pattern": r"\S"}, "rule": {"type": "array", "maxItems": 0}}}
    left["else"] = {"required": ["rule"], "properties": {"rule": {"minItems": 1, "minLength": 1}}}
    rows = _table(api, ["name", "kind", "action", "verdicts"], **left)
    rows["dependencies"] = {"measure": ["gives"], "gives": ["measure"]}
    found = {
        "source": {"description": "Where rows without a source of their own are documented.", **text},
        "verdicts": {"description": "Sets of verdicts, by name.", "type": "object", "additionalProperties": every},
        "api": {"description": "One row: an API and what becomes of it.", "type": "array", "items": rows},
    }  # fmt: skip
    return _schema("Catalog rows of torchmigrate", "catalog/*.toml beside packs.", found)


def _described(keys: Mapping[str, Kind], words: Mapping[str, str]) -> Json:
    assert keys.keys() == words.keys(), keys.keys() ^ words.keys()
    return {key: {"description": words[key], **_of(kind)} for key, kind in keys.items()}


def _of(kind: Kind) -> Json:
    return json.loads(json.dumps(kind.schema))  # type: ignore[no-any-return]


def _table(properties: Json, required: list[str], **more: Any) -> Json:
    needed = {"required": required} if required else {}
    return {"type": "object", "properties": properties, **needed, "additionalProperties": False, **more}


def _schema(title: str, description: str, properties: Json, required: list[str] | None = None, **more: Any) -> Json:
    head = {"$schema": DRAFT, "title": title, "description": description}
    return {**head, **_table(properties, required or [], **more)}


def table() -> str:
    """The keys, for docs/configuration.md."""
    shown = {key: f"{key} = {toml(k.examples[0])}" for key, k in KEYS.items()}
    rows = (f"| `{key}` | {k.about} | {_default(k.default)} | `{shown[key]}` |" for key, k in KEYS.items())
    return "\n".join(["| key | what it does | default | example |", "|---|---|---|---|", *rows]) + "\n"


def _default(text: str) -> str:
    return f"`{text}`" if text.startswith('"') or text == "false" else text


def pages() -> dict[Path, str]:
    """Each written file with the text that it ought to have."""
    about_settings = {"config": config_schema(), "pyproject": pyproject_schema()}
    schemas = {**about_settings, "rule": rule_schema(), "catalog": catalog_schema()}
    folder = HERE.parent / "torchmigrate" / "data" / "schemas"
    found = {folder / f"{name}.json": json.dumps(s, indent=2, ensure_ascii=False) + "\n" for name, s in schemas.items()}
    page = HERE / "configuration.md"
    head, rest = page.read_text(encoding="utf-8").split(MARKS[0])
    return {**found, page: f"{head}{MARKS[0]}\n{table()}\n{MARKS[1]}{rest.split(MARKS[1])[1]}"}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8", newline="\n")
