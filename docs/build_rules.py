"""Writes docs/rules.md, docs/catalog.md and the table of docs/helper.md: python docs/build_rules.py (needs torch)."""

from __future__ import annotations

import itertools
import types
from collections.abc import Iterator, Sequence
from pathlib import Path

from torchmigrate import catalog, diff, pack, runtime
from torchmigrate.catalog.row import BACKENDS, LEFT, NO_TORCH, SIGNS, Row
from torchmigrate.edits import Changed
from torchmigrate.rule import Case, Rule

HERE = Path(__file__).resolve().parent
MARKS = "<!-- functions: written by docs/build_rules.py -->\n", "<!-- end -->\n"
_INTRO = """# Rules

Written by `docs/build_rules.py` from the files under `rules/`. `torchmigrate explain NAME` says it about one rule.
What safe, unsafe and display mean: [safety.md](safety.md). The examples are tests: `torchmigrate rules test`.
"""
_CATALOG = """# Catalog

Written by `docs/build_rules.py` from the files under `rules/catalog/`: each torch API that names a device or is there
for one backend only, what becomes of it, and what it does on each backend once a project is migrated.
`torchmigrate catalog --project PATH` prints the rows that a project uses, with counts;
`torchmigrate explain torch.cuda.empty_cache` says a row in words, with its source. Tests walk the installed torch for
names without a row, and measure on a CPU build what can be measured there.

The signs: {legend}.
MLX is no torch device, so it has no column. Other names of the same thing (`torch.cuda.memory.empty_cache`) are left
out here.

{totals}"""


def rules_page() -> str:
    """All of docs/rules.md."""
    rules = sorted(pack.load().rules.values(), key=lambda rule: rule.id)
    lines = [_INTRO, "| rule | safety | what it finds |", "|---|---|---|"]
    lines += [f"| [{r.id}](#{_anchor(r.id)}) | {r.safety.value} | {_cell(r.summary)} |" for r in rules]
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
    yield f"{rule.summary}. Safety: {rule.safety.value}.{matters} Cases: {len(rule.cases)}.\n"
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


def catalog_page() -> str:
    """All of docs/catalog.md."""
    rows = list({(row.path, row.line): row for row in reversed(catalog.load().rows.values())}.values())[::-1]
    legend = ", ".join(f"{mark} {verdict}" for verdict, mark in SIGNS.items() if verdict != NO_TORCH)
    lines = [_CATALOG.format(legend=legend, totals=_totals(rows))]
    for module, members in itertools.groupby(sorted(rows, key=_module), key=_module):
        lines += [f"\n## {module}\n", f"| API | what becomes of it | {' | '.join(BACKENDS[:-1])} |"]
        lines += [f"|---|---|{'---|' * len(BACKENDS[:-1])}", *map(_row, members)]
    return "\n".join(lines) + "\n"


def _module(row: Row) -> str:
    """`torch.cuda` of `torch.cuda.nvtx.mark`, `torch` of `torch.load`."""
    parts = row.name.split(".")
    return ".".join(parts[:2]) if len(parts) > 2 or row.kind == "module" else "torch"


def _totals(rows: Sequence[Row]) -> str:
    head = ["| verdict | " + " | ".join(BACKENDS[:-1]) + " |", f"|---|{'---|' * len(BACKENDS[:-1])}"]
    counts = {verdict: [sum(row.backends[b] == verdict for row in rows) for b in BACKENDS[:-1]] for verdict in SIGNS}
    return "\n".join(head + [f"| {v} | {' | '.join(map(str, found))} |" for v, found in counts.items() if any(found)])


def _row(row: Row) -> str:
    links = ", ".join(f"[{rule}](rules.md#{_anchor(rule)})" for rule in row.rules)
    becomes = f"left alone: {_cell(row.why)}" if row.action == LEFT else f"{row.action} by {links}"
    return f"| `{row.name}` | {becomes} | {' | '.join(SIGNS[row.backends[b]] for b in BACKENDS[:-1])} |"


def functions() -> dict[str, str]:
    """What the helper offers and what each says of itself, in the helper's order."""
    public = {name: thing for name, thing in vars(runtime).items() if not name.startswith("_")}
    own = {n: t for n, t in public.items() if isinstance(t, types.FunctionType) and t.__module__ == runtime.__name__}
    return {name: " ".join((function.__doc__ or "").split()) for name, function in own.items()}


def helper_page(page: str) -> str:
    """docs/helper.md with its table as it ought to be."""
    head, rest = page.split(MARKS[0])
    tail = rest.split(MARKS[1])[1]
    rows = "".join(f"| `{name}` | {_cell(text)} |\n" for name, text in functions().items())
    return f"{head}{MARKS[0]}\n| function | what it says of itself |\n|---|---|\n{rows}\n{MARKS[1]}{tail}"


def pages() -> dict[Path, str]:
    """Each generated page with the text that it ought to have."""
    helper = HERE / "helper.md"
    written = {HERE / "rules.md": rules_page(), HERE / "catalog.md": catalog_page()}
    return {**written, helper: helper_page(helper.read_text(encoding="utf-8"))}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8", newline="\n")
