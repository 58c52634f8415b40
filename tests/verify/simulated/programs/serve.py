"""`python serve.py FOLDER TOPIC...`: runs the checks of topics; FOLDER/TOPIC.json has "" or a traceback for each.

torch is imported once, and what it imports late; a topic then runs in a fork of its own, so that none sees what another
has left.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import checks
import torch
import torch._dynamo  # which the first optimizer imports

LONGEST = 120  # seconds for all checks of a topic


def outcome(function: Callable[[], None]) -> str:
    try:
        function()
    except BaseException:
        return traceback.format_exc()
    return ""


def run(topic: str, file: Path) -> None:
    faulthandler.dump_traceback_later(LONGEST, exit=True)
    if checks.KIND == "mps":
        # Its generator was seeded, so that this fork is a bad one to torch.mps, which is then not seeded; as on a Mac
        checks.MODULE._is_in_bad_fork = lambda: False
    importlib.import_module(topic)
    outcomes = {}
    for name, function in checks.checks.items():
        outcomes[name] = outcome(function)
        file.write_text(json.dumps(outcomes))  # each time: the next one may end the process


def in_a_fork(topic: str, file: Path) -> int:
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        run(topic, file)
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    torch.testing.assert_close(torch.ones(1), torch.ones(1))  # imports what it compares with
    for topic in sys.argv[2:]:
        status = in_a_fork(topic, Path(sys.argv[1], f"{topic}.json"))
        print(f"{topic} ended with {status}", file=sys.stderr, flush=True)
    os._exit(0)  # taking torch apart takes a second
