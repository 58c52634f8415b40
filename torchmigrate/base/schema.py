"""Kinds of TOML values: how each is validated, and the JSON schema for it, defined together so that they agree."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from torchmigrate.base.text import did_you_mean, short


class Kind(NamedTuple):
    """A kind says how a value is read and described.

    `read` returns the value as the program uses it, or raises ValueError with the message ("must be ...") and maybe a
    hint. `schema` is JSON schema, draft 7.
    """

    read: Callable[[object], Any]
    schema: Mapping[str, Any]

    def __call__(self, value: object) -> Any:
        return self.read(value)

    def example(self, key: str) -> str:
        """Return an example of how `key` is written with a value of this kind."""
        if self.schema.get("items", {}).get("type") == "object":
            return f"[[{key}]]"
        value = {"array": '["..."]', "boolean": "true", "integer": "0", "object": "{ ... }"}.get(
            self.schema.get("type", ""), '"..."'
        )
        return f"{key} = {value}"


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a string")
    return value


def _integer(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"must be a whole number, not {short(value)!r}")
    return value


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _table(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("must be a table")
    return value


def _tables(value: object) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError("must be a list of tables: write its name in [[ ]], once for each")
    return value


STRING = Kind(_string, {"type": "string"})
INTEGER = Kind(_integer, {"type": "integer"})
BOOLEAN = Kind(_boolean, {"type": "boolean"})
TABLE = Kind(_table, {"type": "object"})
TABLES = Kind(_tables, {"type": "array", "items": {"type": "object"}})


def strings(item: Kind = STRING, least: int = 0) -> Kind:
    """Return the kind for a list of at least `least` strings that `item` accepts."""

    def read(value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            example = f': ["{value}"]' if isinstance(value, str) else ""
            raise ValueError(f"must be a list of strings{example}")
        if len(value) < least:
            raise ValueError("is empty: leave it out, or name something")
        return tuple(item(one) for one in value)

    more = {"minItems": least} if least else {}
    return Kind(read, {"type": "array", "items": item.schema, **more})


def one_of(*choices: str) -> Kind:
    """Return the kind for one of a few fixed strings, all of which the error message lists."""

    def read(value: object) -> str:
        if value not in choices:
            raise ValueError(f"must be {' or '.join(repr(c) for c in choices)}, not {short(value)!r}")
        return str(value)

    return Kind(read, {"enum": list(choices)})


def member(choices: Sequence[str], what: str) -> Kind:
    """Return the kind for one of many names; the error message suggests the closest one."""

    def read(value: object) -> str:
        if (name := _string(value)) not in choices:
            hint = did_you_mean(name, choices) or "known: " + ", ".join(choices)
            raise ValueError(f"names no {what}: `{name}`", hint)
        return name

    return Kind(read, {"enum": list(choices)})


def matching(pattern: str, must: str) -> Kind:
    """Return the kind for strings that match `pattern`, also in ECMA 262; `must` completes "must ..."."""

    def read(value: object) -> str:
        if not re.fullmatch(pattern, _string(value)):
            raise ValueError(f"must {must}, not {short(value)!r}")
        return str(value)

    return Kind(read, {"type": "string", "pattern": f"^(?:{pattern})$"})


def table_of(item: Kind, key: Kind = STRING) -> Kind:
    """Return the kind for a table whose keys are of kind `key` and whose values are of kind `item`."""

    def read(value: object) -> dict[str, Any]:
        found = {}
        for name, entry in _table(value).items():
            key(name)
            try:
                found[name] = item(entry)
            except ValueError as error:
                what, *help = error.args
                raise ValueError(f"of {name!r} {what}", *help) from None
        return found

    names = {} if key is STRING else {"propertyNames": key.schema}
    return Kind(read, {"type": "object", **names, "additionalProperties": item.schema})


def elsewhere(schema: Mapping[str, Any]) -> Kind:
    """Return a kind that only describes a value; the code that reads the file validates it."""
    return Kind(lambda value: value, schema)
