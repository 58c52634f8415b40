"""Turn changed files into an edit of the editor: its own texts by their versions, the helper as a new file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lsprotocol import types
from pygls import uris

from torchmigrate.diagnostics.finding import Changed, FileResult
from torchmigrate.lsp.documents import File
from torchmigrate.lsp.positions import Text
from torchmigrate.source import encoding

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
