"""A tree's CPU seconds as an SVG of bars on a logarithmic axis; it follows the reader's light or dark setting."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from html import escape
from typing import Any

from commands import AST, CUDA, LIBCST, PASS, READ, TYPER

FLOORS = (READ, CUDA, AST, PASS, TYPER, LIBCST)
LEFT, WIDTH, ROW, TOP = 300, 480, 22, 48  # pixels
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328 } .title { font-size: 14px; font-weight: 600 }
.axis { stroke: #d1d9e0 } .spread { stroke: #1f2328 } .floor { fill: #8c959f } .ours { fill: #0969da }
.peer { fill: #bc4c00 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .axis { stroke: #3d444d } .spread { stroke: #e6edf3 } .floor { fill: #6e7681 }
.ours { fill: #4493f8 } .peer { fill: #db6d28 } }
"""


def bars(result: Mapping[str, Any]) -> str:
    """An SVG document: a bar for each command's median, a line for its spread."""
    rows = sorted(result["commands"], key=lambda c: statistics.median(c["cpu"]))
    low = math.floor(math.log10(max(min(min(c["cpu"]) for c in rows), 1e-3)))
    high = math.ceil(math.log10(max(max(c["cpu"]) for c in rows)))
    high = max(high, low + 1)
    height = TOP + ROW * len(rows) + 34

    def x(seconds: float) -> float:
        return LEFT + WIDTH * (math.log10(max(seconds, 10**low)) - low) / (high - low)

    title = f"{result['name'].replace('`', '')}: CPU seconds, logarithmic"
    parts = [f'<text class="title" x="12" y="22">{escape(title)}</text>']
    for power in range(low, high + 1):
        at = x(10**power)
        parts.append(f'<line class="axis" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP - 8}" y2="{height - 26}"/>')
        parts.append(f'<text x="{at:.1f}" y="{height - 10}" text-anchor="middle">{10.0**power:g}</text>')
    for number, command in enumerate(rows):
        parts += _bar(command, TOP + ROW * number, x)
    view = f'viewBox="0 0 {LEFT + WIDTH + 80} {height}" width="{LEFT + WIDTH + 80}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {view} role="img" aria-label="{escape(title)}">'
    return "\n".join([head, f"<style>{STYLE}</style>", *parts, "</svg>\n"])


def _bar(command: Mapping[str, Any], y: int, x: Any) -> list[str]:
    cpu, name = command["cpu"], command["name"]
    middle, first, last = statistics.median(cpu), x(min(cpu)), x(max(cpu))
    value = f"{'> ' if command['stopped'] else ''}{middle:.3g}"
    return [
        f'<text x="{LEFT - 8}" y="{y + 12}" text-anchor="end">{escape(name)}</text>',
        f'<rect class="{_kind(name)}" x="{LEFT}" y="{y}" width="{max(x(middle) - LEFT, 1):.1f}" height="16" rx="2"/>',
        f'<line class="spread" x1="{first:.1f}" x2="{last:.1f}" y1="{y + 8}" y2="{y + 8}"/>',
        f'<text x="{last + 6:.1f}" y="{y + 12}">{value}</text>',
    ]


def _kind(name: str) -> str:
    if name in FLOORS:
        return "floor"
    return "ours" if name.startswith(("check", "apply")) else "peer"
