"""The API at one place of a file: the name under the cursor, as the file means it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from torchmigrate.catalog.row import Row
from torchmigrate.catalog.usage import Uses
from torchmigrate.symbols.resolver import literal_getattr
from torchmigrate.symbols.scope import Scope


@dataclass(frozen=True, slots=True)
class Found:
    """A row, the name that was meant (a part of the row's API, as like as not), and the bytes that say it."""

    row: Row
    name: str
    start: int
    end: int


class Lookup(Uses):
    """Looks at parts of names, imports and variables, too, which count as no use."""

    def at(self, offset: int) -> Found | None:
        """What stands at this byte of the module."""
        line = self.module.source.position(offset)[0]
        for statement in self.module.scopes.statements:
            first = min(node.lineno for node in (statement, *getattr(statement, "decorator_list", ())))
            if first <= line <= (statement.end_lineno or first):
                for node, scope in self._header(statement):
                    if (found := self._found(node, scope)) and found.start <= offset <= found.end:
                        return found
        return None

    def _found(self, node: ast.AST, scope: Scope) -> Found | None:
        name = self._meant(node, scope)
        row = self.catalog.find(name) if name else None
        if name is None or row is None:
            return None
        start, end = self.module.span(node)
        if isinstance(node, ast.Attribute):
            start = end - len(node.attr.encode())
        return Found(row, name, start, end)

    def _meant(self, node: ast.AST, scope: Scope) -> str | None:
        match node:
            case ast.Name() | ast.Attribute():
                method = isinstance(node, ast.Attribute) and self._method(node, scope)
                return self.module.resolve(node, scope) or method or None
            case ast.Call() if literal_getattr(node):
                return self.module.resolve(node, scope)
            case ast.alias(name):
                return self._imported(node, name)
            case ast.Constant(str()):
                return self._api(node, scope)
        return None

    def _imported(self, node: ast.alias, name: str) -> str | None:
        match self.parent.get(node) or self.module.parent(node):
            case ast.ImportFrom(module=str(module), level=0):
                return f"{module}.{name}"
            case ast.Import():
                return name
        return None
