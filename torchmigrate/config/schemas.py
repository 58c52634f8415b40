"""JSON schemas (draft 7) of the settings, of rule files and of catalog files. docs/build_schemas.py writes them."""

from __future__ import annotations

from importlib import resources


def read(name: str) -> bytes:
    """The text of one: `config`, `pyproject`, `rule` or `catalog`."""
    return resources.files("torchmigrate").joinpath("data", "schemas", f"{name}.json").read_bytes()
