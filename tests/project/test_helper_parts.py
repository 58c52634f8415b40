"""The vendored helper: what a project calls, what that needs, and nothing else."""

from __future__ import annotations

import ast
import hashlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

from torchmigrate.project import helper_parts
from torchmigrate.project.helper_parts import (
    Form,
    everything,
    held,
    is_current,
    is_same,
    is_untouched,
    used_by,
    vendored,
)

NAMES = list(everything())
FEW = dict.fromkeys(["device", "is_available", "map_location"], Form.SHORT | Form.ALONE)


def defined(raw: bytes) -> set[str]:
    return {*helper_parts._defined(ast.parse(raw).body)}


def test_a_project_that_chooses_a_device_gets_that_function_alone() -> None:
    text = vendored({"device": Form.SHORT | Form.ALONE})
    assert defined(text) == {"_KINDS", "_device", "device"}
    assert len(text.splitlines()) <= 27


def test_a_call_with_an_index_needs_the_longer_form() -> None:
    text = vendored({"device": False})
    assert {"device", "_here"} <= defined(text)
    assert b"def device() ->" in vendored({"device": True}) and b"def device(index_or_device" in text


def test_another_function_may_need_the_longer_form() -> None:
    assert b"def device(index_or_device" in vendored({"device": True, "generator": False})


def test_several_processes_get_the_cpu_on_a_mac(monkeypatch: pytest.MonkeyPatch) -> None:
    """MPS has no collectives: what such a program ran on the CPU before it runs there after."""
    torch = pytest.importorskip("torch", reason="a helper is run")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 1)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("mps"))
    monkeypatch.delenv("TORCH_ACCEL_DEVICE", raising=False)

    def found(*names: str, form: Form = Form.ALONE) -> str:
        namespace: dict[str, Any] = {}
        exec(vendored(dict.fromkeys(names, form)), namespace)
        return namespace["device_type"]()

    assert found("device_type", "dist_backend") == "mps"
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert found("device_type", "dist_backend") == "mps"
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert [found("device_type", name) for name in ("dist_backend", "device_ids", "output_device")] == ["cpu"] * 3
    assert found("device_type") == "mps"  # the program forms no group
    assert found("device_type", form=Form.ANY) == "cpu"  # another file of it may
    monkeypatch.setenv("TORCH_ACCEL_DEVICE", "mps")
    assert found("device_type", "dist_backend") == "mps"


def test_a_parameter_does_not_hide_a_function_with_its_name() -> None:
    """get_device_capability has a parameter `device`, and asks for the device."""
    pytest.importorskip("torch", reason="a helper is run")
    text = vendored({"device": True, "get_device_capability": False})
    namespace: dict[str, object] = {}
    exec(text, namespace)
    assert namespace["get_device_capability"]("cuda:1") == (0, 0)  # type: ignore[operator]


def test_a_short_form_is_left_out_where_another_function_calls_the_whole_one() -> None:
    """Found in xformers: a second run took `_running_stream` out again."""
    text = helper_parts.vendored({"current_stream": Form.SHORT, "default_stream": 0}).decode()
    assert "def current_stream(" in text and "_running_stream" not in text


@pytest.mark.parametrize("is_short", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_a_file_holds_one_function_and_all_that_it_needs(name: str, is_short: bool) -> None:
    text = vendored({name: is_short})
    assert name in helper_parts.public(text)
    parts = defined(text) | {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.alias)}
    used = {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name) and n.id.startswith("_")} - {"_"}
    assert used - {"__file__"} <= parts
    for kept in parts - {name}:  # each is used by another
        assert len(re.findall(rf"\b{kept}\b", text.decode().partition("0BSD")[2])) > 1, kept


def test_the_order_does_not_hang_on_the_calls() -> None:
    assert vendored(FEW) == vendored(dict(reversed(FEW.items())))
    whole = helper_parts.public(vendored(everything()))
    assert [n for n in whole if n in FEW] == helper_parts.public(vendored(FEW))


@pytest.mark.slow
def test_linters_and_type_checkers_accept_it(tmp_path: Path) -> None:
    """All in one run: type checkers read torch each time."""
    eager, once = dict.fromkeys(everything(), Form.EAGER), dict.fromkeys(FEW, ~Form.ANY)
    for name, uses in {"one": {"device": True}, "few": FEW, "all": everything(), "once": once, "eager": eager}.items():
        (tmp_path / f"accel_{name}.py").write_bytes(vendored(uses))
    for command in (
        ["mypy", "--strict", "--config-file", "", "."],
        ["ruff", "check", "--isolated", "--select", "E4,E7,E9,F,I,UP033", "."],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("uses", [{name: short} for name in NAMES for short in (True, False)] + [FEW, everything()])
def test_it_is_as_formatters_leave_it_and_its_own(uses: helper_parts.Uses) -> None:
    text = vendored(uses)
    assert is_untouched(text) and is_current(text)
    assert {*uses} <= {*held(text)}
    assert "\n\n\n\n" not in text.decode() and text.endswith(b"\n") and not text.endswith(b"\n\n")


def test_a_formatter_s_work_is_no_edit() -> None:
    text = vendored(FEW).decode()
    formatted = text.replace('"', "'").replace("'''", '"""').replace("    ", "\t")
    assert is_untouched(formatted.encode())
    imports = text.replace("import os\nfrom typing import Any\n", "from typing import Any\nimport os\n")
    assert imports != text and is_untouched(imports.encode())
    assert is_same(text.encode(), text.replace("\n", "\r\n").encode())
    assert not is_untouched(text.replace('"cpu"', '"gpu"', 1).encode())
    assert not is_untouched(text.encode() + b"mine = 1\n")
    assert not is_untouched(text.encode() + b"((")


RANGES = dict.fromkeys(["nvtx", "nvtx.range", "nvtx.range_push", "nvtx.range_pop", "nvtx.mark"], False)
USED = [
    ("import accel\naccel.device()", {"device": True}),
    ("import accel\naccel.device(0)\naccel.device()", {"device": False}),
    ("import accel\nf(accel.device)", {"device": False}),
    ("from . import accel as a\na.map_location()", {"map_location": True}),
    ("import pkg.accel\npkg.accel.device(index_or_device=1)", {"device": False}),
    ("from pkg.accel import device as d\nd()", {"device": True}),
    ("import accel\naccel.nvtx.range_push('x')", {"nvtx": False, "nvtx.range_push": False}),
    ("from accel import nvtx as n\nn.mark('x')", {"nvtx": False, "nvtx.mark": False}),
    ("import accel\naccel.nvtx.mark('x')\nranges = accel.nvtx", RANGES),
    ("import accel\naccel.nvtx.mark('x')\ngetattr(accel.nvtx, kind)('x')", RANGES),
    ("mock.patch('pkg.accel.nvtx.mark')", RANGES),
    ("import accel\nf'{accel.is_available()}'", {"is_available": True}),
    ("import accel\ngetattr(accel, 'pin')(x)", {"pin": False}),
    ("mock.patch('pkg.accel.synchronize')", {"synchronize": False}),
    ("import accel\nother.device()\nx = 'device'", {}),
    ("import accel\naccel.no_such_function()", {}),
    ("import accel\naccel.dist_backend()\naccel.dist_backend('mpi')", {"dist_backend": False}),
    ("import accel\naccel.dist_backend(*names)\naccel.device(**place)", {"dist_backend": False, "device": False}),
    ("import accel\naccel.dist_backend()", {"dist_backend": True}),
    ("import accel\naccel.Stream()\naccel.current_stream()", {"Stream": True, "current_stream": True}),
    ("import accel\naccel.Stream(priority=-1)\naccel.current_stream(0)", {"Stream": False, "current_stream": False}),
    ("import accel\naccel.dist_backend('mpi')", {"dist_backend": False}),
    ("import accel\nf'{accel.is_available()}'\naccel.pin_memory()", {"is_available": True, "pin_memory": True}),
    ("", {}),
]


@pytest.mark.parametrize(("code", "expected"), USED)
def test_what_a_file_uses(code: str, expected: dict[str, bool]) -> None:
    found = used_by(code.encode(), "accel")
    assert {name: bool(form & Form.SHORT) for name, form in found.items()} == expected


def test_a_class_holds_the_functions_that_are_called() -> None:
    pytest.importorskip("torch", reason="a helper is run")
    marks = used_by(b"import accel\naccel.nvtx.mark('x')", "accel")
    assert b"threading" not in vendored(marks) and is_current(vendored(marks))
    pairs = used_by(b"import accel\naccel.nvtx.range_push('x')\naccel.nvtx.range_pop()", "accel")
    text = vendored(pairs)
    assert b"def range_push" in text and b"def mark" not in text and b"def range(" not in text
    assert is_current(text) and held(text).keys() == pairs.keys()
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    namespace["nvtx"].range_push("outer"), namespace["nvtx"].range_pop()
    assert helper_parts.updated(text, marks) == vendored({**pairs, **marks}) != text
    assert vendored({"nvtx": Form.ANY}) == vendored(dict.fromkeys(RANGES, Form.ANY))
    assert vendored({**everything(), **marks}).count(b"@staticmethod") == 1  # of the others nobody asks
    assert used_by(b"import accel\naccel.nvtx.mark(", "accel").keys() == everything().keys() | RANGES.keys()
    assert helper_parts.lacking({**pairs, **marks}, text) == ["nvtx.mark"]
    assert helper_parts.lacking(pairs, vendored({"device": Form.ANY})) == ["nvtx"]


def test_where_nobody_compiles_nothing_asks_for_it() -> None:
    whole, eager = (vendored(dict.fromkeys(everything(), form)).decode() for form in (Form.ANY, Form.EAGER))
    assert whole.count("_is_compiling()") == 6 and "while compiling" in whole
    assert "_is_compiling" not in eager and "compiling" not in eager.replace("_is_compiling", "")
    few = {"synchronize": Form.EAGER | Form.SHORT, "current_device": Form.EAGER}
    assert is_current(vendored(few)) and held(vendored(few))["current_device"] & Form.EAGER
    compiled = helper_parts.merged([held(vendored(few)), {"empty_cache": Form.ANY}])
    assert b"_is_compiling" in (helper_parts.updated(vendored(few), {"empty_cache": Form.ANY}) or b"")
    assert vendored(compiled).count(b"_is_compiling()") == 4
    named = {"get_device_name": Form.ONCE}  # only asked while files are loaded, in a program that compiles
    assert b"_is_compiling" in vendored(named) and is_current(vendored(named))


def test_streams_without_arguments_need_no_device() -> None:
    short = vendored({"Stream": Form.SHORT, "current_stream": Form.SHORT})
    assert b"_place" not in short and b"def Stream() ->" in short and b"def current_stream() ->" in short
    assert b"_place" in vendored({"Stream": Form.SHORT, "current_stream": Form.ANY})
    assert b"def current_stream(device" in vendored({"current_stream": Form.SHORT, "default_stream": Form.ANY})


def test_streams_of_a_program_without_events_keep_no_time() -> None:
    pytest.importorskip("torch", reason="a helper is run")
    streams = dict.fromkeys(["Stream", "current_stream", "record_stream"], Form.SHORT)
    text, timed = vendored(streams), vendored({**streams, "Event": Form.SHORT})
    assert b"elapsed_time" in timed and b"perf_counter" in timed and b"blocking" not in timed
    assert b"elapsed_time" not in text and b"import time" not in text and is_current(text) and is_current(timed)
    assert timed == helper_parts.updated(text, {"Event": Form.SHORT})
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    stream = namespace["Stream"]()
    event = stream.record_event()
    assert stream is namespace["current_stream"]() and event.query() is event.synchronize() is True
    assert stream.record_event("mine") == "mine" and event.record(stream) is stream.wait_event(event) is None
    namespace["record_stream"](None, stream)


def test_autocast_and_a_scaler_wait_on_mps_for_the_same_release() -> None:
    """In torch 2.5 to 2.7 MPS has autocast, and no kernel for a scaler: float16 would not be scaled."""
    alone, both = vendored({"autocast": Form.ANY}), vendored({"autocast": Form.ANY, "grad_scaler": Form.ANY})
    assert alone.count(b"_version < (2, 5)") == 1
    assert (both.count(b"_version < (2, 5)"), both.count(b"_version < (2, 8)")) == (0, 2)
    assert is_current(both)


def test_autocast_to_the_default_type_is_written_plainly() -> None:
    plain = vendored({"autocast": Form.SHORT})
    assert b"def autocast(enabled: bool = True) ->" in plain and is_current(plain)
    for call in ("accel.autocast()", "accel.autocast(enabled=amp)", "accel.autocast(False)"):
        assert used_by((HEAD + call).encode(), "accel")["autocast"] & Form.SHORT
    for call in ("accel.autocast(dtype=x)", "accel.autocast(*x)", "accel.autocast(True, x)", "f(accel.autocast)"):
        assert not used_by((HEAD + call).encode(), "accel")["autocast"] & Form.SHORT
    assert b"cache_enabled" in vendored({"autocast": Form.ANY})


HEAD = "import accel\n"


@pytest.mark.parametrize(
    ("code", "is_once"),
    [
        ("device = accel.device()", True),
        ("if accel.is_available():\n    x = accel.device()\nwith open(f) as g:\n    y = accel.device(0)", True),
        ("class Settings:\n    device = accel.device()", True),
        ("try:\n    device = accel.device()\nexcept RuntimeError:\n    device = None", True),
        ("def load(path):\n    return torch.load(path, map_location=accel.map_location())", True),  # rarely
        ("def load(path):\n    return torch.load(path, map_location=accel.device())", False),
        ("def make(device=accel.device()):\n    pass", False),
        ("for x in xs:\n    x.to(accel.device())", False),
        ("while xs:\n    x = xs.pop().to(accel.device())", False),
        ("ys = [x.to(accel.device()) for x in xs]", False),
        ("f = lambda x: x.to(accel.device())", False),
        ("f = accel.device", False),
        ("device = accel.device()\nfor x in xs:\n    x.to(accel.device())", False),
        ("import accel as a\ngetattr(a, 'device')()", False),
    ],
)
def test_what_a_file_asks_while_it_is_loaded(code: str, is_once: bool) -> None:
    found = used_by((HEAD + code).encode(), "accel")
    assert all(form & Form.ONCE for form in found.values()) is is_once
    text = vendored(found)
    assert (b"lru_cache" in text) is not is_once and "_device" not in defined(text)


def test_one_file_that_asks_again_and_again_makes_all_remember() -> None:
    once, often = (used_by((HEAD + code).encode(), "accel") for code in ("accel.device()", "f(accel.device)"))
    assert helper_parts.merged([once, often, {}]) == {"device": Form.EAGER | Form.STARTS | Form.ALONE}
    assert helper_parts.merged([once, {}]) == once == {"device": ~Form.ANY}
    alone = vendored(once)
    assert is_current(alone) and held(alone) == once
    for form in (~Form.ANY, Form.EAGER, Form.ANY):
        new = helper_parts.updated(alone, {"is_available": form}) or b""
        assert ("_device" in defined(new)) is (form == Form.ANY)
        assert (b"lru_cache" in new) is (form == Form.EAGER)
        assert is_current(new) and helper_parts.updated(new, once) == new


@pytest.mark.parametrize(
    ("code", "is_eager"),
    [
        ("import re\nre.compile('a')\nexec(compile(text, 'x', 'exec'))", True),
        ("net = torch.compile(net)", False),
        ("@torch.compile\ndef f(): pass", False),
        ("from torch import compile", False),
        ("net.compile()", False),
        ("import torch._dynamo", False),
        ("torch.export.export(net, args)", False),
        ("torch.onnx.export(net, args, dynamo=True)", False),
        ("args = TrainingArguments(torch_compile=True)", False),
        ("print 'torch.compile'", False),
    ],
)
def test_a_file_that_compiles_nothing(code: str, is_eager: bool) -> None:
    found = used_by(f"import accel\n{code}\nf(accel.device)".encode(), "accel")
    assert bool(found["device"] & Form.EAGER) is is_eager
    assert (b"global _device" in vendored(found)) is not is_eager
    assert not helper_parts.merged([found], Form.EAGER)["device"] & Form.EAGER


@pytest.mark.parametrize("name", NAMES)
def test_what_sets_a_device_or_asks_for_it_later_remembers_it(name: str) -> None:
    """TORCH_ACCEL_DEVICE=xpu:1 makes a device the current one at the first call: it must not do so again."""
    text = vendored({name: Form.SHORT | Form.ONCE})
    assert ("_here" not in helper_parts._closure({name}, helper_parts._whole()[1])) or ("_device" in defined(text)) is (
        name not in helper_parts._ASKING
    )


def test_a_device_that_is_asked_for_once_is_found_in_a_few_lines() -> None:
    once = Form.ONCE | Form.ALONE
    text = vendored({"device": Form.SHORT | once, "is_available": once}).decode()
    assert len(text.splitlines()) <= 23 and "_KINDS" not in text
    both = vendored({"map_location": Form.SHORT | Form.ONCE, "device": Form.SHORT | Form.ONCE}).decode()
    assert both.count('"xpu"') == 1, "two functions share the constant"


def test_a_class_of_functions_has_one_blank_line_below_its_header() -> None:
    text = helper_parts.as_class({"device": Form.SHORT | Form.ONCE}, "accel")
    assert "0BSD\n\n    @staticmethod\n" in text


def test_a_star_import_may_use_whatever_is_named() -> None:
    assert {*used_by(b"from accel import *\ndevice()", "accel")} == {"device"}


def test_a_file_that_does_not_parse_may_use_anything() -> None:
    assert used_by(b"import accel\nprint 1", "accel") == {**everything(), **RANGES}
    assert used_by(b"print 1", "accel") == {}


def test_the_first_version_is_ours_and_held_nothing_that_must_stay() -> None:
    body = b"def device(): pass\n"
    old = b"# torchmigrate-runtime 1 " + hashlib.sha256(body).hexdigest()[:32].encode() + b"\n" + body
    assert is_untouched(old) and not is_untouched(old + b"#\n") and not is_current(old)
    assert held(old) == {}


def bracketed(text: bytes) -> bytes:
    """A helper with the header that the first of version 2 had: six digits for each definition, and no total."""
    names = ", ".join(helper_parts.public(text))
    digests = " ".join(digest[:6] for digest in helper_parts._digests(text).values())
    spdx = "# SPDX-License-Identifier: 0BSD\n"
    first = helper_parts._header(f"# torchmigrate-runtime 2 [{digests}]\n{spdx}", [names], {})
    return first[: first.index("\n# digest") + 1].encode() + spdx.encode() + text[text.index(b"import") :]


def with_three_lines(text: bytes) -> bytes:
    """A helper with the header of version 2 whose licence had a line of its own, above the digests."""
    head, _, rest = text.partition(b"\n# digest ")
    digest, _, below = rest.partition(b"; SPDX-License-Identifier: 0BSD\n")
    return head + b"\n# SPDX-License-Identifier: 0BSD\n# digest " + digest + b"\n" + below


def test_the_header_with_three_lines_is_known() -> None:
    text = vendored(FEW)
    old = with_three_lines(text)
    assert old != text and is_untouched(old) and is_current(old) and helper_parts.edited(old) == []
    own = old.replace(b"return None if", b"return 1 if")
    assert helper_parts.edited(own) == ["map_location"]
    new = helper_parts.updated(own, {"empty_cache": True}) or b""
    assert new.count(b"SPDX") == 1 and helper_parts.edited(new) == ["map_location"]


@pytest.mark.parametrize("uses", [FEW, everything()], ids=["few", "all"])
def test_a_long_header_tells_which_function_was_edited(uses: dict[str, bool]) -> None:
    """Digests that a line broke in two were once read as others, so that all functions counted as edited."""
    own = vendored(uses).replace(b"return None if here", b"return 1 if here")
    assert len(helper_parts.edited(own)) == 1


def test_the_header_with_brackets_is_known() -> None:
    text = vendored(FEW)
    old = bracketed(text)
    assert old.startswith(b"# torchmigrate-runtime 2 [") and b"# digest" not in old
    assert is_untouched(old) and is_current(old) and helper_parts.edited(old) == []
    assert helper_parts.updated(old, {}) == text
    own = old.replace(b"return None if", b"return 1 if")
    assert own != old and helper_parts.edited(own) == ["map_location"] and not is_untouched(own)
    new = helper_parts.updated(own, {"empty_cache": True}) or b""
    assert b"return 1 if" in new and b"def empty_cache" in new and new.count(b"# digest") == 1 and b"2 [" not in new
    assert helper_parts.edited(new) == ["map_location"]


def test_the_header_is_short() -> None:
    lines = vendored(FEW).decode().splitlines()
    assert [line.split()[1] for line in lines[:2]] == ["torchmigrate-runtime", "digest"]
    assert max(map(len, lines[:2])) <= 88 and not lines[2].startswith("#")


def test_the_licence_ends_a_line() -> None:
    """As licence scanners read all to the line's end."""
    for uses in (FEW, everything()):
        assert b"SPDX-License-Identifier: 0BSD\n" in vendored(uses)


def test_an_edit_that_short_digests_hide_keeps_all() -> None:
    """Two characters may be the same by chance: then the digest of all still tells that something was edited."""
    text = vendored(FEW)
    own = text.replace(b"return None if", b"return 1 if")
    was, now = (helper_parts._short(helper_parts._digests(each)["map_location"]) for each in (text, own))
    assert own.count(was.encode()) == 1
    hidden = own.replace(was.encode(), now.encode())
    assert not is_untouched(hidden) and "map_location" in helper_parts.edited(hidden)
    assert b"return 1 if" in (helper_parts.updated(hidden, {"pin": False}) or b"")


def test_the_page_and_the_whole_name_the_same_functions() -> None:
    page = (ROOT / "docs" / "helper.md").read_text(encoding="utf-8")
    assert {name for name in NAMES if f"`{name}`" in page or f"accel.{name}" in page} == {*NAMES}


MINE = '''def is_available() -> bool:
    """Mine."""
    return _here().type != "cpu" and CHECK


'''


def mine(text: bytes) -> bytes:
    """A helper in which a person has edited a function, and added a constant, an import and a call."""
    start = text.index(b"def is_available")
    end = text.index(b"\n\n\n", start) + 3
    extra = b"import json  # mine\n"
    lines = text.replace(b"import os\n", b"import os\n" + extra)
    start, end = start + len(extra), end + len(extra)
    return lines[:start] + b"CHECK = True  # mine\n\n\n" + MINE.encode() + lines[end:] + b"\n\nprint('mine')\n"


def test_statements_that_share_a_line_are_never_woven() -> None:
    """Each was once written with its whole line, so that a second run had the line twice, and the next four times."""
    lines = vendored(FEW).decode().splitlines(keepends=True)
    edited = "".join([*lines[:2], "import os; print(os.name)\n", *lines[3:]]).encode()
    assert not is_untouched(edited)
    assert helper_parts.updated(edited, {"synchronize": True}) is None
    apart = edited.replace(b"import os; print", b"import os\nprint")
    assert (helper_parts.updated(apart, {"synchronize": True}) or b"").count(b"print(os.name)") == 1


def test_what_a_person_edited_stays_and_the_others_are_updated() -> None:
    pytest.importorskip("torch", reason="a helper is run")
    uses = {"device": False, "is_available": True, "map_location": True}
    old = mine(vendored(uses))
    assert sorted(helper_parts.edited(old)) == ["CHECK", "is_available"]
    assert not is_untouched(old) and is_same(helper_parts.updated(old, uses) or b"", old)
    outdated = old.replace(b'return None if here == "cuda"', b'return 1 if here == "cuda"')
    assert outdated != old
    was, now = (helper_parts._short(helper_parts._digests(text)["map_location"]) for text in (old, outdated))
    assert outdated.count(was.encode()) == 1
    outdated = outdated.replace(was.encode(), now.encode())  # of another version
    more = helper_parts.updated(outdated, {"empty_cache": True, "autocast": False})
    assert more is not None
    text = more.decode()
    assert MINE in text and "CHECK = True  # mine" in text and "import json  # mine" in text and "print('mine')" in text
    assert 'return None if here == "cuda"' in text and "return 1 if" not in text
    assert {"empty_cache", "autocast", "device", "is_available"} <= {*helper_parts.public(more)}
    assert sorted(helper_parts.edited(more)) == ["CHECK", "is_available"]
    assert helper_parts.updated(more, {}) == more
    namespace: dict[str, object] = {}
    exec(text, namespace)
    assert namespace["is_available"]() is False  # type: ignore[operator]


@pytest.mark.parametrize("name", NAMES)
def test_a_helper_with_an_edited_function_takes_any_other(name: str) -> None:
    pytest.importorskip("torch", reason="a helper is run")
    old = mine(vendored({"device": False, "is_available": True, "map_location": True}))
    new = helper_parts.updated(old, {name: False})
    assert new is not None and name in helper_parts.public(new)
    exec(compile(new, "accel.py", "exec"), {})
    assert helper_parts.updated(new, {}) == new


def test_an_edited_short_form_keeps_what_it_needs() -> None:
    pytest.importorskip("torch", reason="a helper is run")
    old = vendored({"device": True}).replace(b"return _device", b'print("mine")\n    return _device')
    new = helper_parts.updated(old, {"empty_cache": True})
    assert new is not None and b'print("mine")' in new
    namespace: dict[str, object] = {}
    exec(new, namespace)
    namespace["device"](), namespace["empty_cache"]()  # type: ignore[operator]


def test_what_is_no_python_is_not_updated() -> None:
    assert helper_parts.updated(vendored(FEW) + b"((", FEW) is None


@pytest.mark.parametrize(
    ("code", "parameters"),
    [
        ("accel.device(0)", "index"),
        ("accel.device(0)\nf(accel.device())", "index"),
        ("accel.device(1)", "index_or_device"),
        ("accel.device(i)", "index_or_device"),
        ("accel.device(False)", "index_or_device"),
        ("accel.device('cuda:0')", "index_or_device"),
        ("accel.device(index_or_device=0)", "index_or_device"),
        ("accel.device(0)\nf(accel.device)", "index_or_device"),
        ("accel.device(0)\naccel.generator(i)", "index_or_device"),  # which hands on what it gets
        ("accel.device()", ""),
        ("accel.device()\naccel.set_device(1)", "index"),  # whose parameter hides `device`
        ("accel.device(i)\naccel.set_device(1)", "index_or_device"),
    ],
)
def test_the_first_device_needs_no_longer_form(code: str, parameters: str) -> None:
    found = used_by((HEAD + code).encode(), "accel")
    text = vendored(found)
    (device,) = (n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name == "device")
    assert ",".join(each.arg for each in device.args.args) == parameters
    assert is_current(text) and helper_parts.updated(text, found) == text
    longer = helper_parts.updated(text, {"device": Form.ANY}) or b""
    assert b"def device(index_or_device" in longer and is_current(longer)


@pytest.mark.parametrize(
    ("code", "starts"),
    [
        ("import multiprocessing", False),
        ("import torch.multiprocessing as mp\nmp.spawn(f)", True),
        ("import torch.multiprocessing\ntorch.multiprocessing.spawn(f)", True),
        ("from multiprocessing import cpu_count", True),
        ("from torch import multiprocessing as mp\nmp.get_context('fork').Process(target=f)", False),
        ("git.fork = 1", False),
        ("import multiprocessing as mp\nmp.Process(target=f).start()", False),
        ("from torch.multiprocessing import Pool", False),
        ("from joblib import Parallel", False),
        ("import os\nos.fork()", False),
        ("import multiprocessing\nprint 1", False),
        ("import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'", False),
        ("import os\nos.environ.update(CUDA_VISIBLE_DEVICES='1')", False),
        ("'set CUDA_VISIBLE_DEVICES'", True),
    ],
)
@pytest.mark.parametrize("form", [Form.ONCE | Form.EAGER, Form.EAGER, Form.ANY])
def test_cuda_itself_is_asked_where_nothing_has_to_come_before(code: str, starts: bool, form: Form) -> None:
    """Counting devices does not start CUDA; asking CUDA sees a driver that is too old."""
    found = used_by(f"import accel\n{code}\naccel.device_type()".encode(), "accel")
    text = vendored({"device_type": form | (found["device_type"] & Form.STARTS)})
    assert (b"device_count" not in text) is starts and is_current(text)
    assert all(any(old in part.text for part in helper_parts._whole()[1].values()) for old in helper_parts._UNDEFERRED)
    again = helper_parts.updated(text, {"device_type": form})
    assert again is not None and b"device_count" in again, "of several programs, one has to"


@pytest.mark.parametrize("form", [Form.ONCE | Form.EAGER, Form.EAGER, Form.ANY])
def test_a_driver_that_is_too_old_is_no_device(form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its library lists the devices; CUDA says that it cannot use them, and the program ran on the CPU."""
    torch = pytest.importorskip("torch", reason="a helper is run")
    monkeypatch.delenv("TORCH_ACCEL_DEVICE", raising=False)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 1)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    namespace: dict[str, Any] = {}
    exec(vendored({"device_type": form | Form.STARTS}), namespace)
    assert namespace["device_type"]() == "cpu"
    monkeypatch.delattr(torch, "accelerator")
    namespace = {}
    exec(vendored({"device_type": form | Form.STARTS}), namespace)
    assert namespace["device_type"]() == "cpu", "before torch 2.6"


@pytest.mark.parametrize("form", [Form.ONCE | Form.EAGER, Form.EAGER, Form.ANY])
def test_cuda_counts_its_devices_itself_before_torch_2_9(form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.accelerator.device_count() started CUDA before torch 2.8 (pytorch #149924)."""
    torch = pytest.importorskip("torch", reason="a helper is run")
    monkeypatch.delenv("TORCH_ACCEL_DEVICE", raising=False)
    monkeypatch.delattr(torch.accelerator, "empty_cache")
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: pytest.fail("it starts CUDA"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    namespace: dict[str, Any] = {}
    exec(vendored({"device_type": form}), namespace)
    assert namespace["device_type"]() == "cuda"
