"""Names in templates: `accel`, `accel.f` and `torch` as the file at hand spells them."""

from __future__ import annotations

import re
from collections.abc import Mapping

_IDENTIFIER = re.compile(r"(?<![\w.$])(accel(\.\w+)|torch(?=\.))")


def spell(template: str, names: Mapping[str, str]) -> str:
    """Write `accel`, `accel.f` and `torch` of a template as `names` has them."""
    return _IDENTIFIER.sub(lambda m: names.get(m.group(1)) or names["accel"] + m.group(2), template)


def identifiers(text: str, names: Mapping[str, str]) -> frozenset[str]:
    """Which of `accel` and `torch` a text uses, as spelled by `names`."""
    asked = ((key, names[key]) for key in ("accel", "torch"))
    return frozenset(key for key, name in asked if re.search(rf"(?<![\w.]){re.escape(name)}\.", text))
