"""The texts of helper_cases.py as Python functions, for helper_measure.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from helper_cases import CALLS, Call, setup_for

Text = tuple[str, str]  # set-up, statement
Loop = Callable[[int], None]  # runs something that often


def namespace_for(kind: str) -> dict[str, Any]:
    """The names that the calls' texts use. One thread, as two more would be all of a small machine's noise."""
    import accel
    import torch

    torch.set_num_threads(1)
    if accel.device_type() != kind:
        raise RuntimeError(f"the helper found {accel.device()}, not {kind}")
    return {"torch": torch, "accel": accel, "x": torch.ones(8, 8).to(accel.device())}


def texts(call: Call, kind: str) -> dict[str, Text]:
    """`original`: torch.cuda's, where that is something else than the plain call."""
    found = {"helper": (call.setup, call.helper), "plain": call.plain_for(kind)}
    return found if call.original() == found["plain"] else {**found, "original": call.original()}


def loops(kind: str) -> Iterator[tuple[str, str, str, Loop | str]]:
    """(call, side, statement, function that runs it that often); the error's text where it cannot run here."""
    base = namespace_for(kind)
    for call in CALLS:
        for side, (setup, statement) in texts(call, kind).items():
            namespace: dict[str, Any] = dict(base)
            source = f"def loop(number):\n    for _ in range(number):\n        {statement}\n"
            try:
                exec(setup, namespace)
                exec(source, namespace)
                namespace["loop"](3)
            except Exception as error:
                yield call.name, side, statement, f"{type(error).__name__}: {error}".splitlines()[0]
            else:
                yield call.name, side, statement, namespace["loop"]


def empty_loop(number: int) -> None:
    """What every loop costs, whatever it runs."""
    for _ in range(number):
        pass


def made(program: str, kind: str) -> dict[str, Any]:
    """The program's model, optimizer and data, by name."""
    namespace = namespace_for(kind)
    exec(setup_for(program, kind), namespace)
    return namespace


def stepping(namespace: dict[str, Any], text: str) -> Loop:
    """`text` defines step(); it stays in `namespace`."""
    exec(text + "\ndef loop(number):\n    for _ in range(number):\n        step()\n", namespace)
    loop: Loop = namespace["loop"]
    return loop
