"""Writes docs/rules.md, docs/catalog.md and the tables of docs/helper.md and docs/backends/, and what build_schemas.py
does: python docs/build_rules.py (needs torch)."""

from __future__ import annotations

import itertools
import runpy
import types
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from torchmigrate import runtime
from torchmigrate.diagnostics.finding import Changed, Safety
from torchmigrate.formats import diff
from torchmigrate.formats.catalog import NAMES
from torchmigrate.rules import packs
from torchmigrate.rules.model import Case, Rule
from torchmigrate.surveys import api_catalog
from torchmigrate.surveys.api_catalog import (
    BACKENDS,
    DIFFERENT,
    HELPER,
    LEFT,
    MISSING,
    NO_OP,
    NO_TORCH,
    SIGNS,
    WORKS,
    Row,
)

HERE = Path(__file__).resolve().parent
FUNCTIONS, REFERENCE, END = "<!-- functions: written by {} -->", "<!-- reference: written by {} -->", "<!-- end -->\n"
BACKEND_PAGES = ("mps", "xpu", "npu", "rocm", "cpu")
# What a page of the catalog holds; modules that are named nowhere go to the last one.
AREAS = {
    "torch": ("torch", "torch.Generator", "torch.Tensor", "torch.TypedStorage", "torch.UntypedStorage"),
    "cuda": ("torch.cuda",),
    "accelerators": ("torch.accelerator", "torch.cpu", "torch.mps", "torch.mtia", "torch.xpu"),
    "backends": ("torch.backends", "torch.version"),
    "distributed": ("torch.distributed", "torch.futures", "torch.multiprocessing"),
    "nn": ("torch.amp", "torch.ao", "torch.autograd", "torch.nested", "torch.nn", "torch.optim", "torch.quantization"),
    "compile": (
        "torch._dynamo", "torch._inductor", "torch.compiler", "torch.export", "torch.func", "torch.fx", "torch.jit",
        "torch.library", "torch.onnx", "torch.package",
    ),
    "functions": (
        "torch.distributions", "torch.linalg", "torch.masked", "torch.signal", "torch.sparse", "torch.special",
    ),
    "tools": (),
}  # fmt: skip
_INTRO = """# Rules

Written by `docs/build_rules.py` from the files under `rules/`. `torchmigrate explain NAME` says it about one rule.
What safe, unsafe and "needs you" mean: [safety.md](safety.md). The examples are tests: `torchmigrate rules test`.
"""
_CATALOG = """# Catalog

Written by `docs/build_rules.py` from the files under `rules/catalog/`: each torch API that names a device or is there
for one backend only, what becomes of it, and what it does on each backend once a project is migrated.
`torchmigrate catalog --project PATH` prints the rows that a project uses, with counts;
`torchmigrate explain torch.cuda.empty_cache` says a row in words, with its source. Tests walk the installed torch for
names without a row, and measure on a CPU build what can be measured there.

{legend}
Other names of the same thing (`torch.cuda.memory.empty_cache`) are left out here.

{totals}

## Where each module is

What is missing is counted for four of the backends.

| module | rows | missing on mps | xpu | npu | cpu |
|---|---|---|---|---|---|
{modules}
"""
_LEGEND = "The signs: {}. MLX is no torch device, so it has no column.\n"
_COUNTED = {
    WORKS: "work as they stand",
    HELPER: "through the helper",
    NO_OP: "do nothing",
    DIFFERENT: "differ",
    MISSING: "are missing",
}
_BACKEND = """## What is reported

Rules whose findings name {name} and that edit nothing: a person decides.

{reported}

## What is rewritten

{rewritten}

## What behaves differently

Of the rows of the [catalog](../catalog.md), in a migrated project on {name}: {counts}. Those that differ:

{different}
"""


def rules_page() -> str:
    """All of docs/rules.md."""
    rules = sorted(packs.load().rules.values(), key=lambda rule: rule.id)
    lines = [_INTRO, "| rule | safety | what it finds |", "|---|---|---|"]
    lines += [f"| [{r.id}](#{_anchor(r.id)}) | {r.safety.said} | {_cell(r.summary)} |" for r in rules]
    for name, members in itertools.groupby(rules, key=lambda rule: rule.pack):
        lines += ["", f"## {name}"]
        lines += itertools.chain.from_iterable(map(_section, members))
    return "\n".join(lines) + "\n"


def _anchor(heading: str) -> str:
    return heading.replace("/", "")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _section(rule: Rule) -> Iterator[str]:
    yield f"\n### {rule.id}\n"
    matters = f" Matters on: {', '.join(rule.backends)}." if rule.backends else ""
    yield f"{rule.summary}. Safety: {rule.safety.said}.{matters} Cases: {len(rule.cases)}.\n"
    yield rule.why
    if names := sorted({f"`{key}`" for key in rule.keys() if key.startswith(("torch.", "."))}):  # noqa: SIM118
        yield "\nLooks at: " + ", ".join(names)
    if rule.patterns:
        yield "\nReads: " + ", ".join(f"`{glob}`" for glob in dict.fromkeys(rule.globs()))
        yield from (f"\nExample, {c.title} (`{c.file}`):\n\n```text\n{c.before.lstrip()}```" for c in rule.cases[:1])
    for case in filter(_shown, rule.cases[:1]):
        yield f"\nExample, {case.title}:\n\n```diff\n{_diff(case)}```"
    if rule.see:
        yield "\nSee " + ", ".join(f"<{url}>" for url in rule.see)


def _shown(case: Case) -> bool:
    return case.after is not None and not case.todo


def _diff(case: Case) -> str:
    change = Changed(Path(), case.before.encode(), (case.after or "").encode(), ())
    lines = diff.unified(change, "example.py").decode().split("\n")
    return "\n".join(line for line in lines if not line.startswith(("@@", "--- ", "+++ ")))


def catalog_pages() -> dict[Path, str]:
    """docs/catalog.md, which says where each module is, and a page for each area."""
    rows = list({(row.path, row.line): row for row in reversed(api_catalog.load().rows.values())}.values())[::-1]
    modules = {m: list(of) for m, of in itertools.groupby(sorted(rows, key=_module), key=_module)}
    legend = _LEGEND.format(", ".join(f"`{mark}` {verdict}" for verdict, mark in SIGNS.items() if verdict != NO_TORCH))
    index = "\n".join(_module_row(module, members) for module, members in modules.items())
    pages = {HERE / "catalog.md": _CATALOG.format(legend=legend, totals=_totals(rows), modules=index)}
    for area in AREAS:
        text = [f"# Catalog: {area}\n\nWritten by `docs/build_rules.py`; [all modules](../catalog.md). {legend}"]
        text += [_module_table(m, members) for m, members in modules.items() if _area(m) == area]
        pages[HERE / "catalog" / f"{area}.md"] = "\n".join(text)
    return pages


def _area(module: str) -> str:
    return next((area for area, members in AREAS.items() if module in members), list(AREAS)[-1])


def _module_row(module: str, rows: Sequence[Row]) -> str:
    """With the anchor that the module had when all of the catalog was one page."""
    missing = " | ".join(str(sum(row.backends[b] == MISSING for row in rows)) for b in ("mps", "xpu", "npu", "cpu"))
    link = f"[`{module}`](catalog/{_area(module)}.md#{_slug(module)})"
    return f'| <span id="{_slug(module)}">{link}</span> | {len(rows)} | {missing} |'


def _slug(module: str) -> str:
    return module.replace(".", "").lower()


def _module_table(module: str, rows: Sequence[Row]) -> str:
    lines = [f"## {module}\n", f"| API | what becomes of it | {' | '.join(BACKENDS[:-1])} |"]
    return "\n".join([*lines, f"|---|---|{'---|' * len(BACKENDS[:-1])}", *map(_row, rows)]) + "\n"


def _module(row: Row) -> str:
    """`torch.cuda` of `torch.cuda.nvtx.mark`, `torch` of `torch.load`."""
    parts = row.name.split(".")
    return ".".join(parts[:2]) if len(parts) > 2 or row.kind == "module" else "torch"


def _totals(rows: Sequence[Row]) -> str:
    head = ["| verdict | " + " | ".join(BACKENDS[:-1]) + " |", f"|---|{'---|' * len(BACKENDS[:-1])}"]
    counts = {verdict: [sum(row.backends[b] == verdict for row in rows) for b in BACKENDS[:-1]] for verdict in SIGNS}
    return "\n".join(head + [f"| {v} | {' | '.join(map(str, found))} |" for v, found in counts.items() if any(found)])


def _row(row: Row) -> str:
    links = ", ".join(f"[{rule}](../rules.md#{_anchor(rule)})" for rule in row.rules)
    becomes = f"left alone: {_cell(row.why)}" if row.action == LEFT else f"{row.action} by {links}"
    return f"| `{row.name}` | {becomes} | {' | '.join(SIGNS[row.backends[b]] for b in BACKENDS[:-1])} |"


def functions() -> dict[str, str]:
    """What the helper offers and what each says of itself, in the helper's order."""
    public = {name: thing for name, thing in vars(runtime).items() if not name.startswith("_")}
    own = {n: t for n, t in public.items() if isinstance(t, types.FunctionType) and t.__module__ == runtime.__name__}
    return {name: " ".join((function.__doc__ or "").split()) for name, function in own.items()}


def helper_page() -> str:
    """docs/helper.md with its table as it ought to be."""
    rows = "".join(f"| `{name}` | {_cell(text)} |\n" for name, text in functions().items())
    table = f"| function | what it says of itself |\n|---|---|\n{rows}"
    return _between((HERE / "helper.md").read_text(encoding="utf-8"), FUNCTIONS, table)


def backend_page(backend: str) -> str:
    """docs/backends/<backend>.md with what the rules and the catalog say of it."""
    named = [r for r in sorted(packs.load().rules.values(), key=lambda rule: rule.id) if backend in r.backends]
    reported = [r for r in named if r.safety == Safety.DISPLAY]
    rewritten = [r for r in named if r.safety != Safety.DISPLAY]
    rows = list({(row.path, row.line): row for row in api_catalog.load().rows.values()}.values())
    text = _BACKEND.format(
        name=NAMES[backend],
        counts=", ".join(f"{sum(r.backends[backend] == v for r in rows):,} {w}" for v, w in _COUNTED.items()),
        reported=_rule_table(reported),
        rewritten=_rule_table(rewritten),
        different=_differences(r for r in rows if r.backends[backend] == DIFFERENT),
    )
    return _between((HERE / "backends" / f"{backend}.md").read_text(encoding="utf-8"), REFERENCE, text)


def _rule_table(rules: Sequence[Rule]) -> str:
    lines = (f"| [{r.id}](../rules.md#{_anchor(r.id)}) | {_cell(r.summary)} |" for r in rules)
    return "\n".join(["| rule | what it finds |", "|---|---|", *lines])


def _differences(rows: Iterable[Row]) -> str:
    """One line for all names of which the catalog says the same."""
    alike: dict[str, list[str]] = {}
    for row in rows:
        alike.setdefault(row.why, []).append(row.name)
    lines = sorted(f"| {', '.join(f'`{n}`' for n in sorted(names))} | {_cell(why)} |" for why, names in alike.items())
    return "\n".join(["| API | how it differs, or what becomes of it |", "|---|---|", *lines])


def _between(page: str, mark: str, text: str) -> str:
    mark = mark.format("docs/build_rules.py") + "\n"
    head, rest = page.split(mark)
    return f"{head}{mark}\n{text}\n{END}{rest.split(END)[1]}"


def pages() -> dict[Path, str]:
    """Each page that is generated, or holds generated tables (helper.md, backends/), as it ought to be."""
    backends = {HERE / "backends" / f"{name}.md": backend_page(name) for name in BACKEND_PAGES}
    return {HERE / "rules.md": rules_page(), HERE / "helper.md": helper_page(), **catalog_pages(), **backends}


if __name__ == "__main__":
    runpy.run_path(str(HERE / "build_schemas.py"), run_name="__main__")
    for path, text in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
