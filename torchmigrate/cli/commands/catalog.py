"""The commands `rules`, `explain` and `catalog` print what these functions return."""

from __future__ import annotations

# ruff: noqa: SIM118 (a Rule is not a dict)
import difflib
import os
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from torchmigrate.base.text import UserError, columns, counted, did_you_mean
from torchmigrate.cli.output import coloured, colours, emit
from torchmigrate.config import config_file as config_
from torchmigrate.config.config_file import check_folders, known, pack_errors, split_names
from torchmigrate.diagnostics.finding import Changed
from torchmigrate.formats import catalog, diff
from torchmigrate.formats import catalog as report
from torchmigrate.rules import packs
from torchmigrate.rules.model import Rule, Ruleset
from torchmigrate.surveys import api_catalog
from torchmigrate.surveys.api_catalog import BACKENDS, MISSING, Row

if TYPE_CHECKING:
    from torchmigrate.cli.parameters import CatalogFormat
    from torchmigrate.surveys.api_catalog import Usage


def run(
    *,
    names: Sequence[str] | None,
    backend: Sequence[str] | None,
    project: Path | None,
    output_format: CatalogFormat,
    output: Path | None,
) -> int:
    """Print the rows; return 2 if a file of the project could not be read, else 0."""
    settings = config_.load([project or Path()])
    backends = _backends(backend or ())
    with pack_errors():
        found = api_catalog.load(settings.rule_paths)
    rows = [row for row in _matching(found, names or ()) if not backend or row.departs(backends)]
    here = Path(os.path.realpath(os.curdir))
    if project is None:
        emit(_render(report.Selection(rows, report.every(backends)), output_format, output), output)
        print(counted(len(rows), "API"), file=sys.stderr)
        return 0
    used = api_catalog.survey(project, settings, found)
    rows = sorted((row for row in rows if row.name in used.places), key=lambda row: -len(used.places[row.name]))
    selection = report.Selection(rows, report.every(backends), used.places, here)
    emit(_render(selection, output_format, output), output)
    for line in _summary_lines(used, selection):
        print(line, file=sys.stderr)
    return 2 if used.failed else 0


def _backends(given: Sequence[str]) -> tuple[str, ...]:
    names = split_names(given) or ()
    for name in names:
        if name not in BACKENDS:
            raise UserError(f"--backend names no backend: `{name}`", did_you_mean(name, BACKENDS) or _known())
    return names


def _known() -> str:
    return f"known: {', '.join(BACKENDS)}"


def _matching(found: api_catalog.Catalog, names: Sequence[str]) -> list[Row]:
    """Return the rows that the names cover; raises UserError for a name that covers none."""
    for name in names:
        if not found.matching([name]):
            raise UserError(
                f"no API is called `{name}`", did_you_mean(name, found.rows) or "see `torchmigrate catalog`"
            )
    return found.matching(names)


def _render(selection: report.Selection, output_format: CatalogFormat, output: Path | None) -> Iterator[bytes]:
    if output_format.value == "json":
        lines = iter([report.render(selection)])
    else:
        lines = (
            report.markdown(selection)
            if output_format.value == "markdown"
            else report.text(selection, None if output else columns(sys.stdout))
        )
    yield from (f"{line}\n".encode(errors="surrogateescape") for line in lines)


def _summary_lines(used: Usage, selection: report.Selection) -> Iterator[str]:
    """Yield the lines below the table: names without a row, unreadable files, totals, and what is missing where."""

    def name(path: Path) -> str:
        return path.relative_to(selection.here).as_posix() if path.is_relative_to(selection.here) else str(path)

    for api, places in used.unknown.items():
        path, first = places[0]
        yield f"note: the catalog has no row for {api} ({counted(len(places), 'use')}, first {name(path)}:{first.line})"
    for failed in used.failed:
        yield f"error: {name(failed.path)}: {failed.error}"
    uses = sum(map(selection.count, selection.rows))
    yield (
        f"{counted(len(selection.rows), 'API')} in {counted(uses, 'use')}, in {counted(used.read, 'file')} read."
        + (f" {len(used.skipped)} skipped." if used.skipped else "")
        + (f" {counted(len(used.failed), 'error')}." if used.failed else "")
    )
    lacking = Counter(
        {b: sum(selection.count(r) for r in selection.rows if r.backends[b] == MISSING) for b in BACKENDS}
    )
    if shown := [f"{b} {lacking[b]}" for b in selection.backends if lacking[b]]:
        yield f"Uses of what is missing there, once migrated: {', '.join(shown)}."


def load(folders: Sequence[Path] = ()) -> Ruleset:
    """Load the built-in rules, those of `rule-paths` and those in `folders`; raises UserError."""
    settings = config_.load([Path()])
    check_folders(settings, config_.source([Path()])[1])
    with pack_errors():
        return packs.load([*settings.rule_paths, *folders])


def listing(names: Sequence[str]) -> int:
    """Print a line per rule: of all, or of the packs and rules named."""
    ruleset = load()
    known(ruleset, names)
    rules = ruleset.selected(names, ()).rules.values()
    width = max((len(rule.id) for rule in rules), default=0)
    for rule in sorted(rules, key=lambda r: r.id):
        row = f"{rule.id:<{width}}  {rule.safety.said:<9}  {rule.summary}"
        room = columns(sys.stdout)
        print(_wrap(row, hanging=" " * (width + 13 if room > 2 * width else 4)) if room else row)
    print(counted(len(rules), "rule"), file=sys.stderr)
    return 0


def explain(name: str) -> int:
    """Print a rule; or an API's row in the catalog, and the rules that handle it."""
    ruleset = load()
    if rule := ruleset.rules.get(name):
        print(_render_rules([rule]))
        return 0
    if name in {rule.pack for rule in ruleset.rules.values()}:
        print(f"{name} is a pack of {counted(len(ruleset.selected([name], ()).rules), 'rule')}:\n")
        sys.stdout.flush()
        return listing([name])
    with pack_errors():
        rows = api_catalog.load(config_.load([Path()]).rule_paths)
    api = _api_name(name)
    meant = api_catalog.public(api)
    listed = api.rpartition(".")[0] in api_catalog.public_names()
    row = rows.row(api) if listed else rows.find(api)  # what a class says is not true of all its members
    unknown = row is None and _is_public_torch(api, rows)
    found = _rules_of(row, ruleset, name) if row else exact_handlers(ruleset, name)
    if not row and not found and not meant and not unknown:
        found = handlers(ruleset, name)
    if row:
        print(_wrap(catalog.paragraph(row, row.name if rows.row(api) else api)))
    elif found:
        print(f"{name}: see {counted(len(found), 'rule')}")
    elif meant:
        found = _explain_public(meant, rows, ruleset)
    else:
        known = [*ruleset.rules, *(key for r in ruleset.rules.values() for key in r.keys()), *rows.rows]
        near = difflib.get_close_matches(api.rpartition(".")[2], _last_names(), 1, 0.8)
        known = [key for key in known if "*" not in key] + [full for last in near for full in api_catalog.public(last)]
        whole = [rule for rule in ruleset.rules if rule.endswith(f"/{name}")]
        help = did_you_mean((whole or [name])[0], known) or "see `torchmigrate rules` and `torchmigrate catalog`"
        raise UserError(f"neither a rule nor an API of torch is called `{name}`", help)
    if found:
        print(f"\n{_render_rules(found)}")
    return 0


def _explain_public(names: Sequence[str], rows: api_catalog.Catalog, ruleset: Ruleset) -> list[Rule]:
    """Print what becomes of public names of torch, of which most have no row; return the rules about them."""
    known = [row for row in map(rows.row, names) if row]
    for number, row in enumerate(known[:_MEANT]):
        print(("\n" if number else "") + _wrap(catalog.paragraph(row, row.name)))
    if known:
        if others := [row.name for row in known[_MEANT:]]:
            print(f"\nAlso: {', '.join(others)}")
        return _rules_of(known[0], ruleset, known[0].name) if len(known) == 1 else []
    below = len(rows.matching(names[:1]))
    shown = ", ".join(f"`{name}`" for name in names[:_MEANT])
    more = f" and {len(names) - _MEANT} more of that name" if len(names) > _MEANT else ""
    if below:
        print(
            _wrap(
                f"{shown} is a module. {counted(below, 'name')} in it have to do with devices: see"
                f" `torchmigrate catalog {names[0]}`."
            )
        )
    elif len(names) == 1:
        print(_wrap(f"{shown} names no device: torchmigrate leaves it as it is. There is nothing to do."))
    else:
        print(_wrap(f"{shown}{more} name no device: torchmigrate leaves them as they are. There is nothing to do."))
    return []


_MEANT = 3  # APIs of one last name that are told


def _last_names() -> list[str]:
    """Return the last parts of all public names."""
    return sorted({name for names in api_catalog.public_names().values() for name in names})


def _render_rules(rules: Sequence[Rule]) -> str:
    return "\n\n".join("\n".join(_lines(rule, colours(sys.stdout))) for rule in rules)


def _wrap(text: str, indent: str = "", hanging: str = "") -> str:
    """Wrap a text to the terminal, to at most 100 columns."""
    width = min(columns(sys.stdout) or 100, 100)
    return textwrap.fill(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent + hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _api_name(name: str) -> str:
    """Return the API for a name as typed, `torch.Tensor.cuda` for `.cuda()`."""
    bare = re.sub(r"\(.*", "", name).strip()
    return f"torch.Tensor{bare}" if bare.startswith(".") else bare


def _is_public_torch(api: str, rows: api_catalog.Catalog) -> bool:
    """Return whether an API would have a row if torch had it; a pattern such as `torch.cuda.*` then says nothing."""
    module, _, last = api.rpartition(".")
    return rows.row(module) is not None and not last.startswith("_")


def _rules_of(row: Row, ruleset: Ruleset, name: str) -> list[Rule]:
    """Return the rules that the row names, then others whose patterns name exactly this API."""
    named = [ruleset.rules[rule] for rule in row.rules if rule in ruleset.rules]
    return [*named, *(rule for rule in exact_handlers(ruleset, name) if rule not in named)]


def handlers(ruleset: Ruleset, api: str) -> list[Rule]:
    """Return the rules that name the API: exactly, else by `torch.x.*`, else in their examples."""
    name, rules = _bare_name(api), ruleset.rules.values()
    wide = [r for r in rules if any(k.endswith(".*") and name.startswith(k[:-1]) for k in r.keys())]
    return (
        exact_handlers(ruleset, api)
        or wide
        or [r for r in rules if "." in name and any(_mentions(c.before, name) for c in r.cases if c.after)]
    )


def exact_handlers(ruleset: Ruleset, api: str) -> list[Rule]:
    """Return the rules whose patterns name exactly this API."""
    name, rules = _bare_name(api), ruleset.rules.values()
    return [r for r in rules if name in r.keys() or any(_mentions(rewrite.match, name) for rewrite in r.rewrites)]


def _bare_name(api: str) -> str:
    return re.sub(r"^torch\.(Tensor|nn\.Module)(?=\.)", "", re.sub(r"\(.*", "", api).strip())


def _mentions(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", text) is not None


def _lines(rule: Rule, colour: bool) -> Iterator[str]:
    yield typer.style(rule.id, bold=True) if colour else rule.id
    matters = f"; matters on: {', '.join(rule.backends)}" if rule.backends else ""
    yield _wrap(rule.summary, "  ")
    yield _wrap(f"safety: {rule.safety.said}{matters}", "  ")
    yield ""
    for number, paragraph in enumerate(re.split(r"\n\s*\n", rule.why)):
        yield from [""] * bool(number)
        yield _wrap(" ".join(paragraph.split()), "  ")
    if rule.patterns:
        yield ""
        yield f"  reads: {', '.join(dict.fromkeys(rule.globs()))}"
        for case in rule.cases[:1]:
            yield from ("", f"    {case.file}: {case.title}")
            yield from (f"    | {line}" for line in case.before.strip("\n").splitlines())
    example = next((case for case in rule.cases if case.after is not None and not case.todo), None)
    if example and example.after is not None:
        yield ""
        change = Changed(Path("example.py"), example.before.encode(), example.after.encode(), ())
        shown = diff.unified(change, "example.py").decode().splitlines()[2:]
        lines = "\n".join(line for line in shown if not line.startswith("@@"))
        painted = coloured(lines.encode()).decode() if colour else lines
        yield textwrap.indent(painted, "    ", lambda _: True)
    if rule.see:
        yield ""
        yield from (f"  {url}" for url in rule.see)
