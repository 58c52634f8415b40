"""Names in templates: `accel` and `torch` as the file at hand spells them."""

from __future__ import annotations

import re
from collections.abc import Mapping

_IDENTIFIER = re.compile(r"(?<![\w.$])(accel|torch)(?=\.)")


def spell(template: str, names: Mapping[str, str]) -> str:
    """Write `accel` and `torch` of a template as `names` has them."""
    return _IDENTIFIER.sub(lambda m: names[m.group(1)], template)


def identifiers(text: str, names: Mapping[str, str]) -> frozenset[str]:
    """Which of `accel` and `torch` a text uses, as spelled by `names`."""
    return frozenset(key for key, name in names.items() if re.search(rf"(?<![\w.]){re.escape(name)}\.", text))
