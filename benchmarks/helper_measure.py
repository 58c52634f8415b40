"""One measurement of helper_overhead.py, in an interpreter of its own: `python helper_measure.py PART '{"kind": ...}'`.

The helper is on sys.path as accel.py, as in a migrated project. Prints one line of JSON.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from helper_cases import CALLS, PROGRAMS, helper_step, plain_step
from helper_loops import Loop, empty_loop, loops, made, namespace_for, stepping, texts

SECONDS = 2e-3  # of CPU that one timing of a call should take
BLOCK = 5e-2  # ... and of steps
COUNTED_CALLS, COUNTED_STEPS = 100, 4


def _rows(kind: str, value: Callable[[Loop], Any], unit: str) -> list[dict[str, Any]]:
    rows = []
    for name, side, statement, loop in loops(kind):
        found = {"error": loop} if isinstance(loop, str) else {unit: value(loop)}
        rows.append({"call": name, "side": side, "statement": statement, **found})
    return rows


def calls(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """CPU nanoseconds per call, less an empty loop's: the least of the rounds, as what disturbs a call only adds."""
    rows = _rows(options["kind"], lambda loop: loop, "loop")
    timed = [row for row in rows if "loop" in row]
    gc.disable()  # as timeit does; else it falls on those that make many objects
    numbers = [_number(row["loop"], SECONDS) for row in timed]
    empty, best = float("inf"), [float("inf")] * len(timed)
    for _ in range(options["rounds"]):
        empty = min(empty, _cpu(empty_loop, 10_000))
        best = [min(old, _cpu(row["loop"], number)) for old, row, number in zip(best, timed, numbers, strict=True)]
    for row, seconds in zip(timed, best, strict=True):
        row["ns"] = round((seconds - empty) * 1e9, 1)
        del row["loop"]
    return rows


def _cpu(loop: Loop, number: int) -> float:
    """Seconds per run, of all threads of this process: a device's backward has a thread of its own."""
    start = time.process_time()
    loop(number)
    return (time.process_time() - start) / number


def _number(loop: Loop, seconds: float) -> int:
    loop(3)
    return max(1, min(20_000, int(seconds / max(_cpu(loop, 10), 1e-8))))


def steps(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Per program: CPU seconds of a step in each round, of the plain step, the helper's and the plain one once more."""
    gc.freeze()  # what torch's import has made would otherwise be walked through now and then, which takes many steps
    return [_timed(program, options["kind"], options["rounds"]) for program in PROGRAMS]


def _timed(program: str, kind: str, rounds: int) -> dict[str, Any]:
    sides = _programs(program, kind)
    number = _number(sides["plain"], BLOCK)
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    for turn in range(rounds):  # from the front and from the back, so that a drift of the machine hits all alike
        for side in list(sides)[:: 1 if turn % 2 else -1]:
            seconds[side].append(_cpu(sides[side], number))
    equal = _losses(program, kind, plain_step(kind)) == _losses(program, kind, helper_step())
    return {"program": program, "steps": number, "seconds": seconds, "equal": equal}


def _programs(program: str, kind: str) -> dict[str, Loop]:
    """Loops over steps of one and the same model and data, so that where these lie in memory says nothing."""
    namespace = made(program, kind)
    steps_of = {"plain": plain_step(kind), "helper": helper_step(), "again": plain_step(kind)}
    sides = {side: stepping(dict(namespace), text) for side, text in steps_of.items()}
    for loop in sides.values():
        loop(3)
    return sides


def _losses(program: str, kind: str, text: str) -> list[float]:
    namespace = made(program, kind)
    stepping(namespace, text)
    return [float(namespace["step"]()) for _ in range(5)]


def instructions(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Machine instructions per call and per step, of all threads; runs under callgrind, which writes a file per region.

    The caller reads the files: region n is in file 2n, what lies between two regions in the odd ones."""
    gc.disable()  # a collection would fall into whichever region it falls
    regions: list[dict[str, Any]] = [{"side": "empty", "number": COUNTED_CALLS}]
    _counted(empty_loop, COUNTED_CALLS)
    rows = _rows(options["kind"], lambda loop: _counted(loop, COUNTED_CALLS), "number")
    regions.extend(row for row in rows if "number" in row)
    for program in PROGRAMS:
        sides = _programs(program, options["kind"])
        for side in (*sides, *reversed(sides)):
            number = _counted(sides[side], COUNTED_STEPS)
            regions.append({"program": program, "side": side, "number": number})
    return regions


def _counted(loop: Loop, number: int) -> int:
    import torch

    bindings: Any = torch._C  # those of torch.utils.benchmark
    loop(2)
    bindings._valgrind_toggle_and_dump_stats()  # this thread's collecting goes off with it
    bindings._valgrind_toggle()
    loop(number)
    bindings._valgrind_toggle_and_dump_stats()
    bindings._valgrind_toggle()
    return number


def imports(options: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds, wall and CPU, of `import torch`, of the helper's import after it, and of its first device()."""
    torch_time = _clock("import torch")
    between = set(sys.modules)
    helper_time = _clock("import accel")
    modules = sorted(set(sys.modules) - between)
    first = _clock("accel.device()", "import accel")
    return {"torch": torch_time, "helper": helper_time, "first device()": first, "modules": modules}


def _clock(statement: str, setup: str = "pass") -> dict[str, float]:
    namespace: dict[str, Any] = {}
    exec(setup, namespace)
    wall, cpu = time.perf_counter(), time.process_time()
    exec(statement, namespace)
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def memory(options: Mapping[str, Any]) -> dict[str, Any]:
    """Bytes of this process with torch and, where `helper` says so, the helper; of Python's heap; of all tensors."""
    import torch

    heap = _traced(_import_helper) if options["traced"] else _import_helper() if options["helper"] else 0
    gc.collect()
    return {"rss": _rss(), "heap": heap, "tensors": _tensor_bytes(torch)}


def _import_helper() -> int:
    import accel

    accel.device()
    return 0


def _traced(function: Callable[[], Any]) -> int:
    """Bytes of Python's heap that are in use after the function and were not before."""
    import tracemalloc

    tracemalloc.start()
    function()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return held


def _rss() -> int:
    """Resident bytes now; 0, as unknown, where there is no /proc."""
    with contextlib.suppress(OSError), open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _tensor_bytes(torch: Any) -> int:
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in _tensors(torch)}
    return sum(storages.values())


def _tensors(torch: Any) -> list[Any]:
    return [thing for thing in gc.get_objects() if isinstance(thing, torch.Tensor)]


def step_memory(options: Mapping[str, Any]) -> dict[str, Any]:
    """Bytes of all tensors after five steps of the transformer, plain or with the helper."""
    import torch

    kind = options["kind"]
    namespace = made("transformer", kind)
    stepping(namespace, helper_step() if options["helper"] else plain_step(kind))(5)
    gc.collect()
    return {"tensors": _tensor_bytes(torch), "peak": _peak(torch, kind)}


def _peak(torch: Any, kind: str) -> int:
    """The device's own count, where it keeps one."""
    return 0 if kind in ("cpu", "mps") else int(getattr(torch, kind).max_memory_allocated())


def graph_breaks(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Graph breaks of a function that works, makes the call and works, once it has run uncompiled.

    By the graphs that compute something, as dynamo also hands over the empty ones of functions around a break; not by
    torch._dynamo.explain, which resets what the simulated cuda cannot."""
    rows = []
    base = namespace_for(options["kind"])
    for call in CALLS:
        for side, (setup, statement) in texts(call, options["kind"]).items():
            rows.append({"call": call.name, "side": side, "statement": statement, **_explained(base, setup, statement)})
    return rows


def _explained(base: Mapping[str, Any], setup: str, statement: str) -> dict[str, Any]:
    import torch

    namespace, graphs = dict(base), []

    def compiler(graph: Any, inputs: Any) -> Any:
        graphs.append(any(node.op.startswith("call_") for node in graph.graph.nodes))
        return graph.forward

    try:
        exec(setup, namespace)
        exec(f"def function(x):\n    y = x * 2\n    {statement}\n    return x + y\n", namespace)
        namespace["function"](namespace["x"])
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
    try:
        torch._dynamo.optimize(compiler)(namespace["function"])(namespace["x"])
    except Exception as error:
        return {"uncompiled": f"{type(error).__name__}: {error}".splitlines()[0]}
    return {"breaks": sum(graphs) - 1}


PARTS = {part.__name__: part for part in (calls, steps, instructions, imports, memory, step_memory, graph_breaks)}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(PARTS[sys.argv[1]](json.loads(sys.argv[2]))))
