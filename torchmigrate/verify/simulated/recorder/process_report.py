"""Write a report about this process: exceptions that ended it or that it caught, and the device's counts.

It is a pytest plugin for failing tests, too, and is imported before pytest loads it: hence PYTEST_DONT_REWRITE.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from ..profiles import Settings
from ..torch_c import unsupported
from . import suspects
from .frames import is_own


def pytest_exception_interact(node: Any, call: Any) -> None:
    """Record an exception that a test did not expect; a hook that pytest calls."""
    remember(call.excinfo.value, f"in test {getattr(node, 'nodeid', '')}")


def pytest_runtest_logreport(report: Any) -> None:
    """Record how a test ended, of its three phases the worst; a hook that pytest calls."""
    record_test(report.nodeid, report.outcome)


_WORSE = ("passed", "skipped", "failed")


def record_test(name: str, outcome: str) -> None:
    """Record that a test "passed", "skipped" or "failed", unless something worse is known of it."""
    if _process is not None:
        known = _process.tests.get(name, "passed")
        _process.tests[name] = max(known, outcome, key=_WORSE.index)


def watch_unittest() -> None:
    """Record how unittest's tests end; call it when `unittest.result` is imported."""
    result: Any = sys.modules["unittest.result"].TestResult
    for method, outcome in (
        ("addSuccess", "passed"),
        ("addSkip", "skipped"),
        ("addFailure", "failed"),
        ("addError", "failed"),
    ):
        setattr(result, method, _recording(getattr(result, method), outcome))


def _recording(method: Callable[..., Any], outcome: str) -> Callable[..., Any]:
    @functools.wraps(method)
    def recording(self: Any, test: Any, *details: Any) -> Any:
        with contextlib.suppress(Exception):
            record_test(test.id(), outcome)
        return method(self, test, *details)

    return recording


def watch_tasks() -> None:
    """Record exceptions of tasks that nobody asks for; call it when `asyncio.base_events` is imported."""
    loop: Any = sys.modules["asyncio.base_events"].BaseEventLoop
    handle = loop.default_exception_handler
    if hasattr(handle, "__wrapped__"):
        return

    @functools.wraps(handle)
    def recording(self: Any, context: dict[str, Any]) -> Any:
        _remember_own(context.get("exception"), "in thread, as a task")
        return handle(self, context)

    loop.default_exception_handler = recording


def watch_rendezvous() -> None:
    """Record the ports at which process groups meet; call it when `torch.distributed.rendezvous` is imported."""
    rendezvous: Any = sys.modules["torch.distributed.rendezvous"]
    create = getattr(rendezvous, "_create_c10d_store", None)
    if create is None:
        return

    @functools.wraps(create)
    def recording(hostname: Any, port: Any, *args: Any, **options: Any) -> Any:
        if _process is not None and port not in _process.ports:
            _process.ports.append(port)
        return create(hostname, port, *args, **options)

    rendezvous._create_c10d_store = recording


def watch_groups() -> None:
    """Record that a process group's backend is not there; call it when torch's distributed_c10d is imported."""
    _record_errors(sys.modules["torch.distributed.distributed_c10d"], "_new_process_group_helper")


def _record_errors(module: Any, name: str) -> None:
    """Record each exception of a function of torch's as a refusal."""
    function = getattr(module, name, None)
    if function is None or hasattr(function, "__wrapped__"):
        return

    @functools.wraps(function)
    def recording(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except Exception as error:
            refused(type(error).__name__, str(error))
            raise

    setattr(module, name, recording)


def refused(kind: str, message: str) -> None:
    """Record that the device, or torch for want of one, answers a call of the program with an exception."""
    with contextlib.suppress(Exception):
        if _process is not None:
            stack = (*_stack(_waiting_for_backward()), *_stack(sys._getframe(1)))
            if _process.refuse(kind, message[:_LONGEST_MESSAGE], stack) and len(_process.refused) <= _MOST:
                write()  # at once: a pool ends its workers by a signal


_SIMULATION = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LONGEST_MESSAGE, _DEEPEST = 500, 80
_Step = tuple[str, int, str, int]  # a frame's file, line, function, and the line where that begins


def _stack(frame: FrameType | None) -> tuple[_Step, ...]:
    """Return the steps to a frame, the outermost first, without ours."""
    steps: list[_Step] = []
    while frame is not None and len(steps) < _DEEPEST:
        code = frame.f_code
        if not code.co_filename.startswith(_SIMULATION):
            steps.append((code.co_filename, frame.f_lineno, code.co_name, code.co_firstlineno))
        frame = frame.f_back
    return tuple(reversed(steps))


def _waiting_for_backward() -> FrameType | None:
    """Return the frame that waits for autograd's threads, of which this is one; None in a thread of the program."""
    known = threading._active.get(threading.get_ident())  # type: ignore[attr-defined]
    if known is not None and not isinstance(known, threading._DummyThread):
        return None
    frames = sys._current_frames().values()
    return next((frame for frame in frames if frame.f_code.co_name == "_engine_run_backward"), None)


def watch(ended: Callable[[BaseException | None], None], write: Callable[[], None]) -> bool:
    """Call `ended` with a multiprocessing child's exception, `write` at its exit; False if nothing was to hook."""
    util: Any = sys.modules.get("multiprocessing.util")
    if util is None or hasattr(util._exit_function, "__wrapped__"):
        return False
    leave = util._exit_function

    @functools.wraps(leave)
    def exit_function(*args: Any, **options: Any) -> None:
        ended(sys.exc_info()[1])  # up to Python 3.12 it is called in a `finally`
        try:
            leave(*args, **options)
        finally:
            write()

    util._exit_function = exit_function
    if sys.version_info >= (3, 13):
        _watch_printing(ended)
    return True


def _watch_printing(ended: Callable[[BaseException | None], None]) -> None:
    """Call `ended` when multiprocessing prints a child's exception: our first chance from Python 3.13 on."""
    import traceback
    from multiprocessing.process import BaseProcess

    bootstrap: Any = BaseProcess._bootstrap  # type: ignore[attr-defined]
    print_exc = traceback.print_exc

    @functools.wraps(print_exc)
    def printing(*args: Any, **options: Any) -> None:
        if sys._getframe(1).f_code is bootstrap.__code__:
            ended(sys.exc_info()[1])
        print_exc(*args, **options)

    traceback.print_exc = printing


_PYTEST = ("pytest", "py.test", "pytest.exe")
_MOST = 20  # exceptions that one report holds
_MOST_REFUSALS = 200


class _Process:
    """The report has a state of this process, which began at its start or at the fork that made it."""

    def __init__(self, reports: str, project: str, facts: dict[str, str], inherited: dict[str, Any]) -> None:
        self.reports, self.project, self.facts = reports, project, facts
        self.inherited = inherited  # statistics of the process that it was forked from
        self.exception: dict[str, Any] | None = None
        self.others: list[dict[str, Any]] = []  # exceptions that did not end the process: in threads, workers, tests
        self.notes: list[str] = []
        self.tests: dict[str, str] = {}
        self.ports: list[int] = []
        self.ended: dict[str, int] = {}  # the status of children for which it is not 0, by their command
        self.stopped: dict[str, int] = {}  # that of children to which this process sent the signal that ended them
        self.signals: dict[int, set[int]] = {}  # the signals that it sent, by the process or group that it sent them to
        self.refused: dict[tuple[str, str, tuple[_Step, ...]], int] = {}  # how often, by what the device said and where

    def refuse(self, kind: str, message: str, stack: tuple[_Step, ...]) -> bool:
        """Record a refusal, and return whether it is the first of its kind and place."""
        key = (kind, message, stack)
        known = key in self.refused
        if known or len(self.refused) < _MOST_REFUSALS:
            self.refused[key] = self.refused.get(key, 0) + 1
        return not known


_process: _Process | None = None


def install(settings: Settings) -> None:
    """Report on this process and its forks into `settings.reports`; call it once, before the program runs."""
    global _process
    if _process is not None:
        return
    project = os.path.realpath(settings.project) if settings.project else ""
    facts = {"backend": settings.backend, "evidence": settings.evidence, "tier": settings.tier}
    _process = _Process(os.path.abspath(settings.reports), project, facts, {})
    atexit.register(_at_exit)  # handlers run in reverse order: ours runs last
    unsupported.listeners.append(refused)
    _watch_uncaught()
    _watch_sys_exit()
    _watch_ends_of_children()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
    command = getattr(sys, "orig_argv", sys.argv)
    if "--multiprocessing-fork" in command:  # a child by "spawn"; for "fork" and "forkserver" _after_fork does the same
        import multiprocessing.util  # noqa: F401  about to be imported anyway

        _watch_children()
    if any(os.path.basename(word) in _PYTEST for word in command[:8]):
        plugins = os.environ.get("PYTEST_PLUGINS")
        os.environ["PYTEST_PLUGINS"] = ",".join(filter(None, (plugins, __name__)))
    if "multiprocessing.popen_fork" in sys.modules:
        watch_processes()
    if "asyncio.base_events" in sys.modules:
        watch_tasks()
    if "torch" in sys.modules:
        torch_imported()


def torch_imported() -> None:
    """Record exceptions that torch's threads and DataLoader workers pass on; call it once torch is imported.

    And those by which torch says that there is no CUDA.
    """
    if _process is not None and _process.facts["backend"] != "cuda":
        _record_errors(sys.modules.get("torch.cuda"), "_lazy_init")
        _record_errors(sys.modules.get("torch.serialization"), "_validate_device")
    wrapper = getattr(sys.modules.get("torch._utils"), "ExceptionWrapper", None)
    if wrapper is None or hasattr(wrapper.__init__, "__wrapped__"):
        return
    make = wrapper.__init__

    @functools.wraps(make)
    def wrap(self: Any, exc_info: Any = None, where: str = "in background") -> None:
        remember((exc_info or sys.exc_info())[1], where)
        make(self, exc_info, where)

    wrapper.__init__ = wrap


def remember(error: BaseException | None, where: str) -> None:
    """Record an exception that does not end this process; `where` says in words where it was raised."""
    _add(error, where, ends=False)


def _remember_own(error: BaseException | None, where: str) -> None:
    """Record such an exception if code of the project raised it, or passed it on: libraries drop some of their own."""
    if error is None or _process is None or any(str(error)[:_LONGEST_MESSAGE] == key[1] for key in _process.refused):
        return  # what the device refuses is told with its place
    trace, project = error.__traceback__, _process.project
    while trace is not None and not is_own(trace.tb_frame.f_code.co_filename, project):
        trace = trace.tb_next
    if trace is not None:
        remember(error, where)


def note(text: str) -> None:
    """Add a line to this process's report."""
    if _process is not None and text not in _process.notes:
        _process.notes.append(text)


def write() -> None:
    """Write this process's report, in place of an earlier one."""
    with contextlib.suppress(Exception):
        if _process is not None and ("torch" in sys.modules or _process.exception or _process.others):
            _write(_process)


def _write(process: _Process) -> None:
    import json

    os.makedirs(process.reports, exist_ok=True)
    place = os.path.join(process.reports, f"{os.getpid()}.json")
    with open(place + ".part", "w", encoding="utf-8") as file:
        json.dump(_report(process), file, default=str)
    os.replace(place + ".part", place)


def _report(process: _Process) -> dict[str, Any]:
    torch = sys.modules.get("torch")
    return {
        "pid": os.getpid(),
        "argv": list(getattr(sys, "argv", [])),
        "torch": None if torch is None else str(getattr(torch, "__version__", "")),
        **process.facts,
        **_since(_statistics(), process.inherited),
        "exception": process.exception,
        "others": process.others,
        "notes": process.notes,
        "tests": process.tests,
        "ports": process.ports,
        "ended": process.ended,
        "stopped": process.stopped,
        "refused": [_refusal(key, count) for key, count in process.refused.items()],
        "files": _own_files(process.project),
    }


def _refusal(key: tuple[str, str, tuple[_Step, ...]], count: int) -> dict[str, Any]:
    kind, message, stack = key
    frames = [{"file": file, "line": at, "function": name, "first": first} for file, at, name, first in stack]
    return {"type": kind, "message": message, "frames": frames, "count": count}


def _own_files(project: str) -> list[str]:
    """Return the files of the project that this process has imported or run."""
    if not project:
        return []
    found = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    found += getattr(sys, "argv", [])[:1]  # at exit, the script's own module has no __file__ any more
    files = {os.path.realpath(file) for file in found if isinstance(file, str)}
    return sorted(file for file in files if os.path.isfile(file) and is_own(file, project))


_COUNTS = ("kernels", "random_kernels", "elements", "products", "half_products", "reads", "altered")


def _statistics() -> dict[str, Any]:
    """Return the device's counts since this process, or the one that it was forked from, started."""
    nothing: dict[str, Any] = {**dict.fromkeys(_COUNTS), "parameter_bytes": None, "operators": {}, "peak_bytes": []}
    if "torch" not in sys.modules:
        return nothing
    try:
        from ..activate import statistics

        return {**nothing, **statistics()}
    except Exception as error:
        note(f"no statistics of the device: {type(error).__name__}: {error}")
        return nothing


def _since(now: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Return the counts since a fork: a child inherits its parent's counters."""

    def grown(key: str) -> Any:
        return now[key] if now[key] is None else now[key] - (before.get(key) or 0)

    old = before.get("operators", {})
    operators = {name: count - old.get(name, 0) for name, count in now["operators"].items()}
    counted = {key: grown(key) for key in _COUNTS}
    return {**now, **counted, "operators": {name: count for name, count in operators.items() if count}}


def _add(error: BaseException | None, where: str, ends: bool) -> None:
    with contextlib.suppress(Exception):
        if error is not None and not (isinstance(error, SystemExit) and not error.code):
            _keep(lambda process: suspects.of_exception(error, process.project), where, ends)


def _keep(make: Callable[[_Process], dict[str, Any]], where: str, ends: bool) -> None:
    if _process is None:
        return
    record = {**make(_process), "where": where}
    if not ends:
        _process.others = [*_process.others, record][:_MOST]
    elif not (record["type"] == "SystemExit" and _is_better(_process.exception)):
        _process.exception = record
    write()  # at once: a worker or rank of a failing program is often killed before it exits


def _is_better(record: dict[str, Any] | None) -> bool:
    """Return whether a record says more than the sys.exit that follows: torch's children end by one."""
    return record is not None and (record["type"] != "SystemExit" or record["cause"] is not None)


def _at_exit() -> None:
    if _process is not None and _process.exception is None:
        # The program may have replaced our sys.excepthook; pytest sets sys.last_value for a failing test
        last = getattr(sys, "last_value", None)
        if isinstance(last, BaseException) and not _process.others:
            _add(last, "", ends=True)
    write()


def _watch_uncaught() -> None:
    of_main, of_threads = sys.excepthook, threading.excepthook

    def excepthook(kind: Any, error: Any, traceback: Any) -> None:
        _add(error, "", ends=True)
        of_main(kind, error, traceback)

    def thread_excepthook(uncaught: Any) -> None:
        remember(uncaught.exc_value, f"in thread {getattr(uncaught.thread, 'name', '')}")
        of_threads(uncaught)

    unraisable = sys.unraisablehook

    def unraisablehook(lost: Any) -> None:
        if not sys.is_finalizing():
            _remember_own(lost.exc_value, "in thread, where nobody can catch it")  # in `__del__` and at exit
        unraisable(lost)

    sys.excepthook, threading.excepthook, sys.unraisablehook = excepthook, thread_excepthook, unraisablehook


def _watch_ends_of_children() -> None:
    """Record the children that end with another status than 0, whatever they are: they may say nothing themselves.

    SIGTERM does not count, by which parents end their children; of another signal that this process sent itself it is
    recorded that it did.
    """
    import subprocess

    _watch_status(subprocess.Popen, "_handle_exitstatus", lambda child: child.args)
    for name in ("kill", "killpg"):
        _watch_signals(name)
    system = os.system

    @functools.wraps(system)
    def recording(command: Any) -> int:
        status = system(command)
        _add_end(command, os.waitstatus_to_exitcode(status))
        return status

    os.system = recording


def _watch_signals(name: str) -> None:
    """Record what is sent by a function of `os`."""
    send = getattr(os, name, None)
    if send is None:
        return

    @functools.wraps(send)
    def sending(target: Any, number: Any, /) -> None:
        with contextlib.suppress(Exception):
            if _process is not None:
                _process.signals.setdefault(int(target), set()).add(int(number))
        send(target, number)

    setattr(os, name, sending)


def watch_processes() -> None:
    """Record how multiprocessing's children end; call it when `multiprocessing.popen_fork` is imported."""
    _watch_status(sys.modules["multiprocessing.popen_fork"].Popen, "poll", lambda child: "multiprocessing")


def _watch_status(owner: Any, name: str, words: Callable[[Any], Any]) -> None:
    method = getattr(owner, name, None)
    if method is None or hasattr(method, "__wrapped__"):
        return

    @functools.wraps(method)
    def recording(self: Any, *args: Any, **options: Any) -> Any:
        result = method(self, *args, **options)
        _add_end(words(self), self.returncode, self.pid)
        return result

    setattr(owner, name, recording)


def _add_end(words: Any, status: int | None, pid: int = 0) -> None:
    with contextlib.suppress(Exception):
        if _process is not None and status not in (None, 0, -signal.SIGTERM):
            parts = [words] if isinstance(words, (str, bytes, os.PathLike)) else list(words)
            text = " ".join(
                os.path.basename(os.fsdecode(part)) if os.path.isabs(part) else os.fsdecode(part) for part in parts
            )
            sent = status is not None and -status in _process.signals.get(pid, ())
            (_process.stopped if sent else _process.ended).setdefault(text[:_LONGEST_MESSAGE], status)


def _watch_sys_exit() -> None:
    """Record sys.exit with a status, unseen by `sys.excepthook`; `raise SystemExit("text")` is not recorded."""
    leave = sys.exit

    @functools.wraps(leave)
    def exit(status: Any = None, /) -> Any:
        if status:
            _add_exit(status, sys._getframe(1))
        leave(status)

    sys.exit = exit


def _add_exit(status: Any, caller: FrameType) -> None:
    with contextlib.suppress(Exception):
        _keep(lambda process: suspects.of_exit(status, caller, process.project), "", True)


def _watch_children() -> None:
    if watch(lambda error: _add(error, "", ends=True), write):
        torch_imported()


_at_fork: dict[str, Any] = {}


def _before_fork() -> None:
    global _at_fork
    _at_fork = _statistics()  # before the fork: in the child the lock of another thread may be held for ever


def _after_fork() -> None:
    global _process
    if _process is not None:
        _process = _Process(_process.reports, _process.project, _process.facts, _at_fork)
        with contextlib.suppress(Exception):
            _watch_children()
