"""Facts about torch and the libraries around it, loaded from `torchmigrate/data`."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any


@cache
def facts(name: str) -> dict[str, Any]:
    """Return the tables of `data/<name>.toml`. A module that asks for them is imported only where they are needed."""
    path = Path(__file__).parent.parent / "data" / f"{name}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))
