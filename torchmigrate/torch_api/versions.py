"""Version specifiers as settings and rules write them."""

from __future__ import annotations

import re

from torchmigrate.base.schema import matching

_CLAUSE = r"(?:[<>=~!]=|[<>]|===)?\s*\d{1,9}(?:\.\d{1,9})*(?:\.\*)?"


SPEC = matching(rf"\s*{_CLAUSE}(?:\s*,\s*{_CLAUSE})*\s*", 'be a version specifier such as ">=2.1"')


def version_of(spec: str | None) -> tuple[int, ...] | None:
    """The least release that a specifier takes; None where it names no floor: `<3.0`, `!=2.4`."""
    found = [_BOUND.fullmatch(clause.strip()) for clause in (spec or "").split(",")]
    return max(((int(m[1]), int(m[2] or 0)) for m in found if m), default=None)


# no version has more digits; Python refuses to read thousands of them
_BOUND = re.compile(r"(?:>=?|={2,3}|~=)?\s*(\d{1,9})(?:\.(\d{1,9}))?(?:[.*][\d.*]*)?")
