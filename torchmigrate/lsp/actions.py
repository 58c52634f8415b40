"""Findings as diagnostics, and code actions for them: fixes and suppression comments.

Changed files become an edit of the editor: of its own texts by their versions, and the helper as a new file.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import attrs
from lsprotocol import types
from lsprotocol.types import (
    CodeAction,
    CodeActionKind,
    CodeActionParams,
    CodeDescription,
    Diagnostic,
    DiagnosticSeverity,
    Position,
    Range,
    TextEdit,
    WorkspaceEdit,
)
from pygls import uris

from torchmigrate.base.system import syntax_tree
from torchmigrate.base.text import UserError
from torchmigrate.diagnostics import suppressions
from torchmigrate.diagnostics.finding import Changed, FileResult, Finding, Safety, Status
from torchmigrate.formats.model import kind
from torchmigrate.lsp.documents import Analysis, File, Text
from torchmigrate.source import encoding
from torchmigrate.source.encoding import Source
from torchmigrate.source.text_file import TextFile

_Edits = tuple[types.OptionalVersionedTextDocumentIdentifier, Sequence[types.TextEdit]]


@dataclass(frozen=True, slots=True)
class Client:
    """The editor's abilities: `versions` of documents in an edit, and whether an edit `creates` files."""

    versions: bool = False
    creates: bool = False

    @staticmethod
    def of(capabilities: types.ClientCapabilities) -> Client:
        known = capabilities.workspace and capabilities.workspace.workspace_edit
        if not known or not known.document_changes:
            return Client()
        return Client(True, types.ResourceOperationKind.Create in (known.resource_operations or ()))


def edit_of(results: Sequence[FileResult], file: File, client: Client) -> types.WorkspaceEdit | None:
    """Return the whole edit, or None if nothing changes; some editors open a document for a new helper."""
    encoding = next(iter(file.documents.values())).text.encoding
    changes = [result for result in results if isinstance(result, Changed)]
    found: list[_Edits | types.CreateFile] = []
    for change in sorted(changes, key=lambda change: not change.new):
        if change.path == file.path:
            found += _of_file(file, change.after)
        else:
            found += _of_helper(change, encoding, client)
    return make_edit(found, client)


def make_edit(found: Sequence[_Edits | types.CreateFile], client: Client) -> types.WorkspaceEdit | None:
    """Return the edit in the form that the editor accepts."""
    if not found:
        return None
    if not client.versions:
        pairs = (item for item in found if not isinstance(item, types.CreateFile))
        return types.WorkspaceEdit(changes={document.uri: edits for document, edits in pairs})
    changes = [item if isinstance(item, types.CreateFile) else types.TextDocumentEdit(*item) for item in found]
    return types.WorkspaceEdit(document_changes=changes)


def document_edits(file: File, cell: int | None, edits: Sequence[types.TextEdit]) -> _Edits:
    document = file.documents[cell]
    return types.OptionalVersionedTextDocumentIdentifier(document.uri, document.version), edits


def _of_file(file: File, after: bytes) -> Iterator[_Edits]:
    for cell, text in _texts(file, after).items():
        before = file.documents[cell].text
        if text != before.text:
            yield document_edits(file, cell, before.edits_to(text))


def _texts(file: File, after: bytes) -> Mapping[int | None, str]:
    if None not in file.documents:
        texts = ["".join(cell["source"]) for cell in json.loads(after)["cells"]]
        if len(texts) > len(json.loads(file.raw)["cells"]):
            _merge_helper(texts)
        return {cell: texts[cell - 1] for cell in file.documents if cell is not None}
    text = encoding.decode(after)
    return {None: (text.bom + text.shown).decode()}


def _merge_helper(texts: list[str]) -> None:
    """Put the helper's own cell into a neighbour: edits of texts make no cell."""
    at = next(n for n, text in enumerate(texts) if encoding.HELPER_MARK.decode() in text)
    helper = texts.pop(at)
    if at < len(texts) and not texts[at].startswith("%%"):
        texts[at] = f"{helper}\n\n\n{texts[at]}"
    else:
        texts[at - 1] += f"\n\n\n{helper}"


def _of_helper(change: Changed, encoding: str, client: Client) -> Iterator[_Edits | types.CreateFile]:
    uri = uris.from_fs_path(str(change.path))
    if uri is None:
        return
    if change.new and client.creates:
        yield types.CreateFile(uri)
    edits = Text(change.before.decode(errors="replace"), encoding).edits_to(change.after.decode())
    yield types.OptionalVersionedTextDocumentIdentifier(uri), edits


SOURCE = "torchmigrate"


def by_document(analysis: Analysis) -> Mapping[str, list[Diagnostic]]:
    """Return the diagnostics by the URI of each document of the file, also of documents without any."""
    found: dict[str, list[Diagnostic]] = {document.uri: [] for document in analysis.file.documents.values()}
    for finding in analysis.findings:
        if document := analysis.file.documents.get(finding.cell):
            found[document.uri].append(diagnostic(finding, analysis))
    return found


def diagnostic(finding: Finding, analysis: Analysis) -> Diagnostic:
    """Return a finding as a diagnostic.

    The severity says how certain the problem is: an unsafe fix makes it uncertain; a finding that needs a person
    certainly breaks on some backend.
    """
    unsafe = kind(finding) == "unsafe"
    matters = f"\nMatters on: {', '.join(finding.backends)}" if finding.backends else ""
    return Diagnostic(
        range=analysis.file.documents[finding.cell].text.range_of(finding),
        message=finding.message + matters,
        severity=DiagnosticSeverity.Information if unsafe else DiagnosticSeverity.Warning,
        code=finding.rule,
        code_description=CodeDescription(finding.see) if finding.see.startswith("https://") else None,
        source=SOURCE,
    )


def suppression_edits(file: File, finding: Finding) -> Sequence[TextEdit]:
    """Return the edit that inserts a suppression comment, or none where it cannot stand (JSON, a continued line)."""
    found = _in_python(file, finding) if file.is_python else _in_text(file, finding)
    if found is None:
        return ()
    line, comment = found
    text = file.documents[finding.cell].text
    start = text.start(line)
    return (TextEdit(text.range(start, start), comment),)


def _in_python(file: File, finding: Finding) -> tuple[int, str] | None:
    """Return the line before which the comment goes, and the comment."""
    module, _ = file.module(finding.cell)
    number = module.position(finding.start)[0]
    above = suppressions.place(module, number)
    start = module.line_starts[above - 1]
    comment = _comment(module.line_at(start).decode(), "#", finding, module.newline)
    after = Source(module.utf8[:start] + comment.encode() + module.utf8[start:])
    if not _parses(after) or not suppressions.find(after).status(finding.rule, number + 1):
        return None
    return finding.line - (number - above), comment


def _parses(text: Source) -> bool:
    try:
        syntax_tree(text.utf8)
    except SyntaxError:
        return False
    return True


def _in_text(file: File, finding: Finding) -> tuple[int, str] | None:
    whole = file.documents[None].text.text.removeprefix("\ufeff")
    before = TextFile(file.path.name, whole)
    mark = suppressions.MARKS.get(before.kind, "#")
    above = next((first for first, last in before.spans if first <= finding.line <= last), None)
    if not mark or above is None:
        return None
    start = Text(whole).start(above)
    comment = _comment(whole[start:], mark, finding, Source(whole.encode("utf-8", "replace")).newline)
    after = TextFile(before.name, whole[:start] + comment + whole[start:])
    return (above, comment) if suppressions.find_in_text(after).status(finding.rule, finding.line + 1) else None


def _comment(line: str, mark: str, finding: Finding, newline: str) -> str:
    indent = line[: len(line) - len(line.lstrip(" \t"))]
    return f"{indent}{mark} torchmigrate: ignore[{finding.rule}]{newline}"


FIX_ALL = f"{CodeActionKind.SourceFixAll.value}.torchmigrate"
KINDS = (CodeActionKind.QuickFix, FIX_ALL)
_FIX, _ALL, _IGNORE = "fix", "all", "ignore"


@dataclass(frozen=True, slots=True)
class Menu:
    """The code actions for one state of a file."""

    analysis: Analysis
    client: Client

    def actions(self, params: CodeActionParams) -> Iterator[CodeAction]:
        """Yield the actions without their edits, which `resolved` computes."""
        uri, only = params.text_document.uri, params.context.only
        here = [finding for finding in self.analysis.findings if self._is_at(finding, uri, params.range)]
        if _is_asked_for(only, CodeActionKind.QuickFix):
            yield from (action for finding in here for action in self._fixes(finding, uri))
            yield from (self._ignore(finding, uri) for finding in here if finding.rule != "suppression")
        if _is_asked_for(only, FIX_ALL) and self._fixes_something:
            yield CodeAction("torchmigrate: fix all that is safe", FIX_ALL, data=_data(uri, _ALL))

    def complete(self, params: CodeActionParams) -> Iterator[CodeAction]:
        """Yield the actions that have edits, with them, for an editor that does not resolve actions."""
        for action in self.actions(params):
            with contextlib.suppress(UserError):
                yield attrs.evolve(self.resolved(action), data=None)

    @property
    def _fixes_something(self) -> bool:
        """Return whether `apply` would rewrite something; if the settings allow unsafe fixes, they are open too."""
        return any(finding.fix and finding.status is Status.OPEN for finding in self.analysis.findings)

    def _is_at(self, finding: Finding, uri: str, asked: Range) -> bool:
        document = self.analysis.file.documents.get(finding.cell)
        if document is None or document.uri != uri:
            return False
        place = document.text.range_of(finding)
        return _key(place.start) <= _key(asked.end) and _key(asked.start) <= _key(place.end)

    def _fixes(self, finding: Finding, uri: str) -> Iterator[CodeAction]:
        offered = kind(finding)
        if finding.fix is None or offered not in ("fixable", "unsafe"):
            return
        safe = finding.fix.safety is Safety.SAFE
        yield CodeAction(
            title=f"torchmigrate: rewrite ({finding.rule})" if safe else f"torchmigrate: unsafe fix ({finding.rule})",
            kind=CodeActionKind.QuickFix,
            diagnostics=[diagnostic(finding, self.analysis)],
            is_preferred=safe,
            data=_data(uri, _FIX, finding),
        )

    def _ignore(self, finding: Finding, uri: str) -> CodeAction:
        title = f"torchmigrate: ignore {finding.rule} here"
        diagnostics = [diagnostic(finding, self.analysis)]
        return CodeAction(title, CodeActionKind.QuickFix, diagnostics, data=_data(uri, _IGNORE, finding))

    def resolved(self, action: CodeAction) -> CodeAction:
        """Return the action with its edit; raises UserError if there is none."""
        data: Any = action.data
        if data["what"] == _ALL:
            action.edit = self._rewritten(self.analysis.fix_all())
        elif data["what"] == _FIX:
            action.edit = self._fix(self._finding(data))
        else:
            action.edit = self._comment(self._finding(data))
        if action.edit is None:
            raise UserError("nothing would change")
        return action

    def _finding(self, data: Mapping[str, Any]) -> Finding:
        key = data["rule"], data["start"]
        found = next((f for f in self.analysis.findings if (f.rule, f.start) == key), None)
        if found is None:
            raise UserError("the text has changed since", "ask for the fixes again")
        return found

    def _fix(self, finding: Finding) -> WorkspaceEdit | None:
        """Return the edit for a finding, and for what is rewritten together with it."""
        group = self.analysis.group(finding)
        if group is None:
            self.analysis.refuse()
            return None
        return self._rewritten(self.analysis.fix(group.keys))

    def _rewritten(self, results: Sequence[FileResult]) -> WorkspaceEdit | None:
        return edit_of(results, self.analysis.file, self.client)

    def _comment(self, finding: Finding) -> WorkspaceEdit | None:
        edits = suppression_edits(self.analysis.file, finding)
        if not edits:
            raise UserError("no comment can stand there", "name the rule in per-file-ignores")
        return make_edit([document_edits(self.analysis.file, finding.cell, edits)], self.client)


def _key(position: Position) -> tuple[int, int]:
    return position.line, position.character


def _is_asked_for(only: Sequence[CodeActionKind | str] | None, kind: CodeActionKind | str) -> bool:
    """Return whether a kind is asked for; `source` covers `source.fixAll.torchmigrate`."""
    name = str(getattr(kind, "value", kind))
    asked = [str(getattr(each, "value", each)) for each in only or ()]
    return not asked or any(each in ("", name) or name.startswith(f"{each}.") for each in asked)


def _data(uri: str, what: str, finding: Finding | None = None) -> dict[str, Any]:
    return {"uri": uri, "what": what, **({"rule": finding.rule, "start": finding.start} if finding else {})}
