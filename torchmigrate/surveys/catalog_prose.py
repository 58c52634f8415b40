"""A row in words: what the API is, what becomes of it, what it does on each backend, and where that is written."""

from __future__ import annotations

from collections.abc import Iterator

from torchmigrate.base.text import listed
from torchmigrate.surveys.catalog_rows import DIFFERENT, HELPER, LEFT, MISSING, NO_OP, NO_TORCH, WORKS, Row

NAMES = {
    "cuda": "CUDA", "rocm": "ROCm", "mps": "MPS", "xpu": "XPU", "npu": "NPU", "hpu": "HPU", "mtia": "MTIA",
    "cpu": "the CPU", "mlx": "MLX",
}  # fmt: skip


def paragraph(row: Row, name: str = "") -> str:
    """All of a row. `name`: what was asked for, where that is a part of the row's API."""
    return " ".join(_sentences(row, name or row.name))


def _sentences(row: Row, name: str) -> Iterator[str]:
    if name == row.name:
        yield f"`{name}` is {_article(row.kind)}."
    else:
        yield f"`{name}` belongs to `{row.name}`, {_article(row.kind)}."
    yield _action(row)
    yield f"In a migrated project it {verdicts(row)}."
    if row.since:
        yield f"torch has it since {row.since}."
    yield f"Source: {row.source}"


def _article(kind: str) -> str:
    return f"an {kind}" if kind == "attribute" else f"a {kind}"


def _action(row: Row) -> str:
    why = row.why.rstrip(".").removeprefix("because ")
    if row.action == LEFT:
        return f"It is left alone because {why}."
    return f"It is {row.action} by the rule{'s' if row.rules[1:] else ''} {listed(row.rules)}" + (
        f": {why}." if why else "."
    )


def verdicts(row: Row) -> str:
    """`works on CUDA and ROCm; does nothing on the CPU; MLX is no torch device`."""
    helper = f"works through the helper (`accel.{row.helper}`) on"
    verbs = {
        WORKS: "works on", HELPER: helper, DIFFERENT: "behaves differently on", NO_OP: "does nothing on",
        MISSING: "is missing on",
    }  # fmt: skip
    grouped = {verdict: [NAMES[b] for b, v in row.backends.items() if v == verdict] for verdict in (*verbs, NO_TORCH)}
    parts = [f"{verb} {listed(grouped[verdict])}" for verdict, verb in verbs.items() if grouped[verdict]]
    if none := grouped[NO_TORCH]:
        parts.append(f"{listed(none)} {'is no torch device' if len(none) == 1 else 'are no torch devices'}")
    return "; ".join(parts)
