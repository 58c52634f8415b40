"""The imports of a file, read from its import lines alone: of all of a project's files, without parsing any."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from torchmigrate import regular

_REST = rb"(?:\\\r?\n|[^\n;])*"  # of a line that a backslash may go on
_NAMES = rb"\((?:[^)#]|#[^\n]*)*\)|" + _REST
_IMPORT = re.compile(
    rb"\n[ \t]*(?:from[ \t]+(\.*)[ \t]*([\w.]*)[ \t]+import[ \t]+(" + _NAMES + rb")|import[ \t]+(" + _REST + rb"))"
)
_NOISE = re.compile(rb"#[^\n]*|[()\\;\"]")
_JSON_LINE = re.compile(rb"[\n\[,:]\s*\"((?:from|import) [^\"\\]*)(\"?)")


@dataclass(frozen=True, slots=True)
class Import:
    """`level` dots, `module`, the imported name ("" for `import module`), and its `as` name."""

    level: int
    module: str
    name: str
    alias: str = ""

    @property
    def bound(self) -> str:
        """The name that this binds."""
        return self.alias or self.name or self.module.partition(".")[0]

    @property
    def qualified(self) -> str:
        """What `import module` binds: the module where it has an alias, else its first part."""
        return self.module if self.alias else self.module.partition(".")[0]


def read_imports(path: str, text: bytes | None = None) -> Iterator[Import]:
    """The imports of one file, or of the text that stands in for it; a file that cannot be read has none."""
    try:
        raw = b"\n" + (regular.read(path) if text is None else text)
    except OSError:
        return
    if path.endswith(".ipynb"):  # its lines are JSON strings; only import lines are looked for
        raw = _JSON_LINE.sub(lambda m: b"\n" + m[1] + b"\n" * bool(m[2]), raw).replace(b"\\n", b"\n")
    for dots, module, names, plain in _IMPORT.findall(raw):
        words = [part.split() for part in _NOISE.sub(b" ", plain or names).decode(errors="replace").split(",")]
        for word in filter(None, words):
            alias = word[2] if len(word) > 2 and word[1] == "as" else ""
            if plain:
                yield Import(0, word[0], "", alias)
            else:
                yield Import(len(dots), module.decode(errors="replace"), word[0], alias)
