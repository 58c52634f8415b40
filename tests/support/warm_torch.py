"""Programs on the CPU, each in a fork of one process that has imported torch: the import is most of their cost."""

from __future__ import annotations

import atexit
import functools
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

SECONDS = 120  # for one program


class Warm:
    """The process, as tests see it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        atexit.register(self.process.communicate)

    def run(self, words: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """`words`: what would follow `python`."""
        with tempfile.TemporaryDirectory() as folder:
            out, err = (Path(folder, name) for name in ("out", "err"))
            told = {"words": words, "cwd": str(cwd), "environment": dict(environment), "streams": [str(out), str(err)]}
            assert self.process.stdin and self.process.stdout
            print(json.dumps(told), file=self.process.stdin, flush=True)
            status = int(self.process.stdout.readline())
            texts = [path.read_text(encoding="utf-8") for path in (out, err)]
        return subprocess.CompletedProcess(words, status, *texts)


@functools.cache
def process(environment: tuple[tuple[str, str], ...]) -> Warm:
    """The process of these variables, started once."""
    return Warm(dict(environment))


def _next() -> dict[str, object]:
    """In a fork, what it has to run; the process itself never returns."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            return dict(json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    sys.exit()


def _become(words: list[str], cwd: str, environment: dict[str, str], streams: list[str]) -> None:
    """Go on as `python WORDS` would."""
    signal.alarm(SECONDS)
    for number, path in enumerate((os.devnull, *streams)):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    if words[0] == "-m":
        sys.argv, sys.path[0] = words[1:], cwd
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = words, os.path.dirname(os.path.abspath(words[0]))
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    import torch  # noqa: F401

    _become(**_next())  # type: ignore[arg-type]
