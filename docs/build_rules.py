"""Writes docs/rules.md and the function table of docs/helper.md: python docs/build_rules.py (needs torch)."""

from __future__ import annotations

import itertools
import types
from collections.abc import Iterator
from pathlib import Path

from torchmigrate import diff, pack, runtime
from torchmigrate.edits import Changed
from torchmigrate.rule import Case, Rule

HERE = Path(__file__).resolve().parent
MARKS = "<!-- functions: written by docs/build_rules.py -->\n", "<!-- end -->\n"
_INTRO = """# Rules

Written by `docs/build_rules.py` from the files under `rules/`. `torchmigrate explain NAME` says it about one rule.
What safe, unsafe and display mean: [safety.md](safety.md). The examples are tests: `torchmigrate rules test`.
"""


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
    return {HERE / "rules.md": rules_page(), helper: helper_page(helper.read_text(encoding="utf-8"))}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8", newline="\n")
