"""Documentation as a program: the blocks of a page, in order, with what the comments above them say.

<!-- project: fixtures/ff -->   from here on, commands run in a fresh copy of it, a git repository with one commit;
                                `empty` is an empty one
<!-- exit: 1 0 -->              the exit status of each command of the next block, or of all of them, where one is not 0
<!-- not run: a Mac -->         the next block is not run, for this reason
<!-- with: a CPU build -->      the next block is run only there
<!-- from: rules/x/y.toml -->   the next block is a part of that file of ours
```toml title="pyproject.toml"  a file: written as it is shown
```sh                           commands
```text, ```diff, ```json       after commands: what they say; `...` stands for what was left out,
                                    lines or the end of one
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_TOKEN = re.compile(
    r"^<!-- (?P<mark>project|exit|not run|with|from): (?P<value>[^\n]*?) -->$"
    r"|^```(?P<language>\w*)(?P<rest>[^\n]*)\n(?P<text>.*?)^```$"
    r"|^#+ (?P<heading>[^\n]*)$",
    re.M | re.S,
)
OUTPUT = ("text", "diff", "json")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block, the marks above it, and where it stands."""

    language: str
    title: str
    text: str
    line: int
    marks: dict[str, str] = field(default_factory=dict)

    @property
    def commands(self) -> list[str]:
        """Its lines; one that ends in a backslash goes on."""
        joined = self.text.replace("\\\n", "")
        return [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]

    @property
    def statuses(self) -> list[int]:
        words = self.marks.get("exit", "0").split()
        return list(map(int, words * len(self.commands) if len(words) == 1 else words))


def blocks(page: Path) -> Iterator[Block]:
    """All blocks of a page. A heading is one of the language `heading`: output belongs to commands of its section."""
    text = page.read_text(encoding="utf-8")
    marks: dict[str, str] = {}
    for found in _TOKEN.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        if found["mark"]:
            marks[found["mark"]] = found["value"]
        elif found["heading"]:
            yield Block("heading", found["heading"], "", line)
        else:
            title = re.search(r'title="(.*?)"', found["rest"])
            yield Block(found["language"], title[1] if title else "", found["text"], line, marks)
            marks = {}


def _fits(shown: str, line: str) -> bool:
    return line.startswith(shown[:-3]) if shown.endswith("...") else line == shown


def missing(shown: str, said: str) -> str:
    """The first part of what a page shows that the output does not have where it should; "" if there is none."""
    rest = [line.rstrip() for line in said.splitlines()]
    for part in re.split(r"^\.\.\.$\n?", shown, flags=re.M):
        wanted = [line.rstrip() for line in part.splitlines()]
        at = [i for i in range(len(rest) - len(wanted) + 1) if all(map(_fits, wanted, rest[i:]))]
        if wanted and not at:
            return part
        rest = rest[at[0] + len(wanted) :] if wanted else rest
    return ""
