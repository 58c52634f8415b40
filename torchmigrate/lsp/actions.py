"""What the editor offers at a place: a fix for each finding there, one for all safe ones, a comment that ignores it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import attrs
from lsprotocol.types import CodeAction, CodeActionKind, CodeActionParams, Position, Range, WorkspaceEdit

from torchmigrate.base.errors import UserError
from torchmigrate.diagnostics.finding import Finding, Safety, Status
from torchmigrate.diagnostics.results import FileResult
from torchmigrate.formats.model import kind
from torchmigrate.lsp import suppress_action
from torchmigrate.lsp.analysis import Analysis
from torchmigrate.lsp.diagnostics import diagnostic
from torchmigrate.lsp.workspace_edit import Client, edit_of, made, of_document

FIX_ALL = f"{CodeActionKind.SourceFixAll.value}.torchmigrate"
KINDS = (CodeActionKind.QuickFix, FIX_ALL)
_FIX, _ALL, _IGNORE = "fix", "all", "ignore"


@dataclass(frozen=True, slots=True)
class Menu:
    """The actions on one state of a file."""

    analysis: Analysis
    client: Client

    def actions(self, params: CodeActionParams) -> Iterator[CodeAction]:
        """Without their edits: `resolved` works those out."""
        uri, only = params.text_document.uri, params.context.only
        here = [finding for finding in self.analysis.findings if self._is_at(finding, uri, params.range)]
        if _asked(only, CodeActionKind.QuickFix):
            yield from (action for finding in here for action in self._fixes(finding, uri))
            yield from (self._ignore(finding, uri) for finding in here if finding.rule != "suppression")
        if _asked(only, FIX_ALL) and self._fixes_something:
            yield CodeAction("torchmigrate: fix all that is safe", FIX_ALL, data=_data(uri, _ALL))

    def complete(self, params: CodeActionParams) -> Iterator[CodeAction]:
        """With their edits, for an editor that does not ask for them; only those that there are."""
        for action in self.actions(params):
            with contextlib.suppress(UserError):
                yield attrs.evolve(self.resolved(action), data=None)

    @property
    def _fixes_something(self) -> bool:
        """As `apply` would: an unsafe fix is among what is open where the settings say so."""
        return any(finding.fix and finding.status is Status.OPEN for finding in self.analysis.findings)

    def _is_at(self, finding: Finding, uri: str, asked: Range) -> bool:
        document = self.analysis.file.documents.get(finding.cell)
        if document is None or document.uri != uri:
            return False
        place = document.text.of(finding)
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
        told = [diagnostic(finding, self.analysis)]
        return CodeAction(title, CodeActionKind.QuickFix, told, data=_data(uri, _IGNORE, finding))

    def resolved(self, action: CodeAction) -> CodeAction:
        """With its edit. Raises UserError where there is none."""
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
        """With what is rewritten together with it."""
        group = self.analysis.group(finding)
        if group is None:
            self.analysis.refuse()
            return None
        return self._rewritten(self.analysis.fix(group.keys))

    def _rewritten(self, results: Sequence[FileResult]) -> WorkspaceEdit | None:
        return edit_of(results, self.analysis.file, self.client)

    def _comment(self, finding: Finding) -> WorkspaceEdit | None:
        edits = suppress_action.edits(self.analysis.file, finding)
        if not edits:
            raise UserError("no comment can stand there", "name the rule in per-file-ignores")
        return made([of_document(self.analysis.file, finding.cell, edits)], self.client)


def _key(position: Position) -> tuple[int, int]:
    return position.line, position.character


def _asked(only: Sequence[CodeActionKind | str] | None, kind: CodeActionKind | str) -> bool:
    """A kind covers those below it: `source` covers `source.fixAll.torchmigrate`."""
    name = str(getattr(kind, "value", kind))
    asked = [str(getattr(each, "value", each)) for each in only or ()]
    return not asked or any(each in ("", name) or name.startswith(f"{each}.") for each in asked)


def _data(uri: str, what: str, finding: Finding | None = None) -> dict[str, Any]:
    return {"uri": uri, "what": what, **({"rule": finding.rule, "start": finding.start} if finding else {})}
