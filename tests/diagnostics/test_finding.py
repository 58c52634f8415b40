"""What findings say after other text was put above them."""

from __future__ import annotations

import pytest

from torchmigrate.diagnostics.finding import Finding, Safety, shifted
from torchmigrate.source.edits import Edit

MESSAGE = "line 2; line 3; (line 4); a.py, line 5; cell 1, line 6; `line 7`"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("import accel\n", 3, MESSAGE.replace("line 4", "line 5").replace("line 3", "line 4")),
        ("\nimport accel", 3, MESSAGE.replace("line 4", "line 5")),  # behind line 3
        ("import accel; ", 3, MESSAGE),
        ("import accel\n", 0, MESSAGE),  # nothing is known of lines
    ],
)
def test_lines_of_the_file_that_a_message_names_move_as_positions_do(text: str, line: int, message: str) -> None:
    """Those above the inserted text stay, and so do those of other files, of cells and in code."""
    found = Finding("a/b", Safety.DISPLAY, 0, 1, MESSAGE)
    assert next(shifted([found], Edit(9, 9, text), line)).message == message
