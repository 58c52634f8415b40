"""`torchmigrate server`: a real process and a real client (editor.py) that speak over standard input and output."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Ran, python, write_tree

pytest.importorskip("pygls", reason="the language server needs pygls: pip install 'torchmigrate[lsp]'")

from editor import Editor
from lsprotocol import types

from torchmigrate import __version__
from torchmigrate.lsp import actions
from torchmigrate.lsp.documents import Documents, Text
from torchmigrate.lsp.session import Schedule
from torchmigrate.project import helper_parts

TEXT = "import torch\n\nx = torch.zeros(3).cuda()\n"
AFTER = "import torch\nimport accel\n\nx = torch.zeros(3, device=accel.device())\n"
FIX = "torchmigrate: rewrite (device/tensor-cuda)"
ALL = "torchmigrate: fix all that is safe"
IGNORE = "torchmigrate: ignore device/tensor-cuda here"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("editor").resolve()


@pytest.fixture(scope="module")
def editor(home: Path) -> Iterator[Editor]:
    """One server for most tests; each has a project of its own."""
    editor = Editor(home)
    yield editor
    assert editor.leave() == 0
    assert editor.logged == []


@pytest.fixture
def project(home: Path, editor: Editor, request: pytest.FixtureRequest) -> Iterator[Path]:
    """An empty one. What was opened in it is closed."""
    root = write_tree(home / request.node.name, {"pyproject.toml": ""})
    yield root
    for uri in [uri for uri in editor.texts if uri.startswith(root.as_uri())]:
        editor.close(uri)


def tree(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def span(diagnostic: types.Diagnostic) -> tuple[int, int, int, int]:
    start, end = diagnostic.range.start, diagnostic.range.end
    return start.line, start.character, end.line, end.character


def applied(cli: Callable[..., Ran], path: Path, text: str, *options: str) -> dict[str, str]:
    """What `apply` writes into a copy of the file's project, by URI of the original."""
    copy = path.parent.with_name(path.parent.name + "-applied")
    shutil.copytree(path.parent, copy)
    (copy / path.name).write_bytes(text.encode())
    before = tree(copy)
    cli("apply", "-q", str(copy / path.name), *options)
    changed = {Path(name): raw for name, raw in tree(copy).items() if before.get(name) != raw}
    return {(path.parent / name.relative_to(copy)).as_uri(): raw.decode() for name, raw in changed.items()}


# ---- what it says of itself, and how it ends


def test_initialize(editor: Editor) -> None:
    info, able = editor.initialized.server_info, editor.initialized.capabilities
    assert info == types.ServerInfo("torchmigrate", __version__)
    assert able.position_encoding == "utf-16"
    assert able.hover_provider is True
    assert able.code_action_provider == types.CodeActionOptions(
        ("quickfix", "source.fixAll.torchmigrate"), resolve_provider=True
    )
    assert able.text_document_sync == types.TextDocumentSyncOptions(True, types.TextDocumentSyncKind.Full, save=True)
    editor.until(lambda: editor.watched)
    assert [each.method for each in editor.watched] == ["workspace/didChangeWatchedFiles"]


def test_the_editor_is_gone(home: Path) -> None:
    command = [sys.executable, "-m", "torchmigrate", "server", "--stdio"]
    ran = subprocess.run(command, cwd=home, env={**os.environ, "PYTHONPATH": str(ROOT)}, input=b"", capture_output=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, b"", b"")


def test_without_pygls(cli: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("torchmigrate.lsp")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pygls", None)
    ran = cli("server")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err == (
        "error: the language server needs pygls 2, which is not installed here\nhelp: pip install 'torchmigrate[lsp]'\n"
    )


def test_other_commands_do_not_pay_for_it() -> None:
    code = "import sys, torchmigrate.cli.app as cli; cli.run(['check', 'README.md']); print(*sys.modules, sep='\\n')"
    loaded = python(code).stdout.splitlines()
    assert "torchmigrate.cli.app" in loaded
    assert not [name for name in loaded if name.startswith(("pygls", "lsprotocol", "torchmigrate.lsp", "asyncio"))]


# ---- diagnostics


def test_diagnostics(editor: Editor, project: Path) -> None:
    text = TEXT + "graph = torch.cuda.CUDAGraph()\n\n\nclass B:\n    def cuda(self):\n        return self\n"
    text += "\n\ndef f(b):\n    return torch.relu(b.cuda())\n"
    safe, display, unsafe = editor.found(editor.open(project / "train.py", text))
    assert (span(safe), safe.code, safe.source) == ((2, 4, 2, 25), "device/tensor-cuda", "torchmigrate")
    assert safe.message == "`.cuda()` moves to CUDA and to nothing else\nMatters on: cpu, mps, xpu, npu"
    assert safe.code_description
    assert safe.code_description.href.startswith("https://docs.pytorch.org/")
    assert (span(display), display.code) == ((3, 8, 3, 30), "hazard/cuda-only")
    assert (span(unsafe), unsafe.code) == ((12, 22, 12, 30), "device/tensor-cuda")
    severity = types.DiagnosticSeverity
    assert [d.severity for d in (safe, display, unsafe)] == [severity.Warning, severity.Warning, severity.Information]


def test_a_change_and_the_end_of_a_text(editor: Editor, project: Path) -> None:
    uri = editor.open(project / "train.py", "import torch\n")
    assert editor.codes(uri) == []
    editor.change(uri, TEXT)
    assert editor.codes(uri) == ["device/tensor-cuda"]
    editor.close(uri)
    editor.until(lambda: (uri, None) in editor.published)
    assert editor.diagnostics[uri] == []


def test_while_it_does_not_parse_the_last_word_stays(editor: Editor, project: Path) -> None:
    uri = editor.open(project / "train.py", TEXT)
    assert editor.codes(uri) == ["device/tensor-cuda"]
    told = len(editor.told)
    editor.change(uri, TEXT + "y = torch.cuda.\n")
    assert editor.actions(uri, 2) == {}  # the text was looked at, then
    assert editor.hover(uri, 2, 5) == ""
    editor.save(uri)
    editor.change(uri, TEXT + "y = torch.cuda.Event()\n")
    assert editor.codes(uri) == ["device/tensor-cuda", "stream/event"]
    assert len(editor.told) == told
    assert [version for name, version in editor.published if name == uri] == [1, 3]


def test_a_burst_of_changes_is_checked_once(editor: Editor, project: Path) -> None:
    uri = editor.open(project / "train.py", TEXT)
    editor.found(uri)
    said = len(editor.published)
    for number in range(60):
        editor.change(uri, f"{TEXT}y = {number}\nz = torch.zeros({number}).cuda()\n")
    assert len(editor.found(uri)) == 2
    assert len(editor.published) - said < 10  # one, unless the machine sleeps between


def test_what_is_no_python(editor: Editor, project: Path) -> None:
    uri = editor.open(project / "requirements.txt", "torch>=2.1\napex\nnvidia-nccl-cu12\n", "pip-requirements")
    assert {d.code for d in editor.found(uri)} == {"build/requirement"}
    assert editor.codes(editor.open(project / "notes.md", TEXT, "markdown")) == []
    assert editor.codes(editor.open(project / "tool", TEXT)) == ["device/tensor-cuda"]  # the editor says that it is


def test_a_name_that_no_file_can_have(editor: Editor) -> None:
    documents = Documents()
    documents.open(types.TextDocumentItem("file:///%00.py", "python", 1, "import torch\n"))
    assert documents.file("file:///%00.py") is None


def test_a_message_that_says_it_is_huge_ends_the_session(home: Path) -> None:
    command = [sys.executable, "-m", "torchmigrate", "server"]
    said = b"Content-Length: 99999999999999\r\n\r\n{}"
    done = subprocess.run(command, input=said, cwd=home, capture_output=True, timeout=300, check=False)
    assert done.returncode == 1 and b"Traceback" not in done.stderr


def test_a_text_without_a_file(editor: Editor) -> None:
    uri = editor.open("untitled:Untitled-1", TEXT)
    assert editor.codes(uri) == ["device/tensor-cuda"]
    # of a schema that is no place of ours nothing is said: ask something that waits for its turn
    other = editor.open("git:/train.py?HEAD", TEXT)
    assert editor.actions(other, 2) == {}
    assert other not in editor.diagnostics
    editor.close(other)


# ---- the project around a text


def test_settings_are_read_anew(editor: Editor, project: Path) -> None:
    uri = editor.open(project / "train.py", TEXT)
    assert editor.codes(uri) == ["device/tensor-cuda"]
    for settings, expected in (
        ('ignore = ["device"]\n', []),
        ('per-file-ignores = {"train.py" = ["device/tensor-cuda"]}\n', []),
        ('extend-exclude = ["train.py"]\n', []),
        ('backends = ["hpu"]\n', []),
        ("", ["device/tensor-cuda"]),
    ):
        said = len(editor.published)
        write_tree(project, {"pyproject.toml": f"[tool.torchmigrate]\n{settings}"})
        event = types.FileEvent((project / "pyproject.toml").as_uri(), types.FileChangeType.Changed)
        editor.tell(editor.client.workspace_did_change_watched_files, types.DidChangeWatchedFilesParams([event]))
        editor.until(lambda: any(each == (uri, 1) for each in editor.published[said:]))  # noqa: B023
        assert editor.codes(uri) == expected


def test_a_mistake_in_the_settings_is_said_once(editor: Editor, project: Path) -> None:
    told = len(editor.told)
    write_tree(project, {"pyproject.toml": '[tool.torchmigrate]\nselct = ["device"]\n'})
    uri = editor.open(project / "train.py", TEXT)
    assert editor.codes(uri) == []
    for number in range(3):
        editor.change(uri, f"{TEXT}y = {number}\n")
        assert editor.codes(uri) == []
        assert editor.actions(uri, 2) == {}
    path = project / "pyproject.toml"
    assert editor.told[told:] == [f"torchmigrate: error: {path}:2: unknown key `selct`\nhelp: did you mean `select`?"]
    write_tree(project, {"pyproject.toml": '[tool.torchmigrate]\nrule-paths = ["rules"]\n'})
    editor.change(uri, TEXT)
    assert editor.codes(uri) == []
    assert editor.told[told + 1 :] == [
        f"torchmigrate: error: {path}:2: `rule-paths` names {project / 'rules'}, which is no folder\n"
        f"help: paths are relative to {project}"
    ]
    write_tree(project, {"pyproject.toml": ""})
    editor.change(uri, TEXT + "\n")
    assert editor.codes(uri) == ["device/tensor-cuda"]
    assert len(editor.told) == told + 2


def test_the_facts_are_the_projects(editor: Editor, project: Path) -> None:
    """A class with a `cuda()` of its own, in another file, and saved while this one is open."""
    uri = editor.open(project / "train.py", "import torch\n\n\ndef step(batch):\n    return torch.relu(batch.cuda())\n")
    assert [d.severity for d in editor.found(uri)] == [types.DiagnosticSeverity.Warning]
    text = "import torch\n\n\nclass Batch:\n    def cuda(self):\n        return self\n"
    other = editor.open(project / "batch.py", text)
    editor.found(other)
    said = len(editor.published)
    write_tree(project, {"batch.py": text})
    editor.save(other)
    editor.until(lambda: (uri, 1) in editor.published[said:])
    assert [d.severity for d in editor.found(uri)] == [types.DiagnosticSeverity.Information]


# ---- fixes


def test_a_fix_is_what_apply_writes(editor: Editor, project: Path, cli: Callable[..., Ran]) -> None:
    write_tree(project, {"pkg/__init__.py": "", "pkg/data.py": "from .train import x\n"})
    path = project / "pkg" / "train.py"
    uri = editor.open(path, TEXT)
    (diagnostic,) = editor.found(uri)
    before = tree(project)
    offered = editor.actions(uri, 2)
    assert list(offered) == [FIX, IGNORE, ALL]
    fix = offered[FIX]
    assert (fix.kind, fix.is_preferred, fix.edit) == ("quickfix", True, None)
    assert fix.diagnostics == (diagnostic,)
    edit = editor.resolved(fix)
    made = edit.document_changes[0]  # type: ignore[index]
    assert made == types.CreateFile((project / "pkg" / "accel.py").as_uri())
    after = editor.apply(edit)
    assert after[uri] == AFTER.replace("import accel", "from . import accel")
    assert editor.apply(editor.resolved(offered[ALL])) == after
    assert tree(project) == before
    assert applied(cli, path, TEXT) == after
    # the helper is there now, and the file imports it
    write_tree(project, {"pkg/accel.py": after.pop((path.parent / "accel.py").as_uri())})
    more = after[uri] + "y = x.cuda()\n"
    editor.change(uri, more)
    assert editor.apply(editor.resolved(editor.actions(uri, 4)[FIX])) == {
        uri: more.replace("x.cuda", "x.to").replace("to()", "to(accel.device())")
    }


def test_a_second_fix_knows_the_helper_that_the_first_has_made(editor: Editor, project: Path) -> None:
    """It is open in the editor, and not saved: on disk there is none, or, as VS Code leaves it, an empty file."""
    text = TEXT + "y = x.cuda()\n"
    path = project / "accel.py"
    uri = editor.open(project / "train.py", text)
    after = editor.apply(editor.resolved(editor.actions(uri, 2)[FIX]))
    helper = after.pop(path.as_uri())
    editor.change(uri, after[uri])
    assert editor.open(path, helper) not in editor.diagnostics
    expected = {uri: after[uri].replace("x.cuda()", "x.to(accel.device())")}
    assert editor.apply(editor.resolved(editor.actions(uri, 4)[FIX])) == expected
    write_tree(project, {"accel.py": ""})
    editor.change(uri, after[uri] + "\n")
    assert editor.apply(editor.resolved(editor.actions(uri, 4)[FIX])) == {uri: expected[uri] + "\n"}
    # one of an older version is brought up to date, as `apply` does
    old = "old = 1\n"
    signed = f"# torchmigrate-runtime 0 {hashlib.sha256(old.encode()).hexdigest()[:32]}\n{old}"
    editor.change(path.as_uri(), signed)
    found = editor.resolved(editor.actions(uri, 4)[FIX])
    assert {edit.text_document.uri for edit in found.document_changes or ()} == {uri, path.as_uri()}  # type: ignore[union-attr]
    editor.close(path.as_uri())
    found = editor.resolved(editor.actions(uri, 4)[FIX])  # what is on disk now is somebody else's
    assert types.CreateFile((project / "torch_accel.py").as_uri()) in (found.document_changes or ())


@pytest.mark.parametrize("name", ["cnn/train.py", "cnn/model.py"])
def test_all_fixes_of_a_fixture(editor: Editor, project: Path, cli: Callable[..., Ran], name: str) -> None:
    path = project / Path(name).name
    shutil.copytree(ROOT / "fixtures" / Path(name).parent, project, dirs_exist_ok=True)
    text = path.read_bytes().decode()
    uri = editor.open(path, text)
    (action,) = editor.actions(uri, 0, ["source.fixAll.torchmigrate"]).values()
    assert (action.title, action.kind) == (ALL, "source.fixAll.torchmigrate")
    assert editor.apply(editor.resolved(action)) == applied(cli, path, text)


def test_kinds_that_are_asked_for(editor: Editor, project: Path) -> None:
    uri = editor.open(project / "train.py", TEXT)
    assert list(editor.actions(uri, 2, ["quickfix"])) == [FIX, IGNORE]
    for asked in ("source", "source.fixAll", "source.fixAll.torchmigrate"):
        assert list(editor.actions(uri, 0, [asked])) == [ALL]
    assert editor.actions(uri, 2, ["refactor"]) == editor.actions(uri, 2, ["source.organizeImports"]) == {}
    assert list(editor.actions(uri, 0)) == [ALL]
    editor.change(uri, "import torch\n\ngraph = torch.cuda.CUDAGraph()\n")
    assert list(editor.actions(uri, 2)) == ["torchmigrate: ignore hazard/cuda-only here"]


def test_unsafe_fixes_are_named_and_left_out_of_all(editor: Editor, project: Path, cli: Callable[..., Ran]) -> None:
    head = "import torch\n\n\nclass B:\n    def cuda(self):\n        return self\n\n\ndef f(b):\n"
    text = head + "    return torch.relu(b.cuda())\n"
    path = project / "train.py"
    uri = editor.open(path, text)
    offered = editor.actions(uri, 9)
    unsafe = "torchmigrate: unsafe fix (device/tensor-cuda)"
    assert list(offered) == [unsafe, IGNORE]
    assert offered[unsafe].is_preferred is False
    after = editor.apply(editor.resolved(offered[unsafe]))
    assert "    return torch.relu(b.to(accel.device()))\n" in after[uri]
    assert applied(cli, path, text, "--unsafe-fixes") == after
    write_tree(project, {"pyproject.toml": "[tool.torchmigrate]\nunsafe-fixes = true\n"})
    editor.change(uri, text + "\n")
    assert list(editor.actions(uri, 9)) == [unsafe, IGNORE, ALL]  # as `apply` would, by the settings


def test_a_guard_goes_with_what_it_guards(editor: Editor, project: Path) -> None:
    text = "import torch\n\nx = torch.ones(2)\nif torch.cuda.is_available():\n    x = x.cuda()\ny = x.cuda()\n"
    uri = editor.open(project / "train.py", text)
    guard = editor.resolved(editor.actions(uri, 3)["torchmigrate: rewrite (device/is-available)"])
    inner = editor.resolved(editor.actions(uri, 4)[FIX])
    after = editor.apply(guard)[uri]
    assert after.endswith("if accel.is_available():\n    x = x.to(accel.device())\ny = x.cuda()\n")
    assert editor.apply(inner)[uri] == after
    last = editor.apply(editor.resolved(editor.actions(uri, 5)[FIX]))[uri]
    assert last.endswith("if torch.cuda.is_available():\n    x = x.cuda()\ny = x.to(accel.device())\n")


def test_a_fix_for_a_text_that_is_gone(editor: Editor, project: Path) -> None:
    uri = editor.open(project / "train.py", TEXT)
    fix = editor.actions(uri, 2)[FIX]
    editor.change(uri, "import torch\n# not any more\n")
    with pytest.raises(Exception, match="the text has changed since"):
        editor.resolved(fix)


def test_a_helper_that_is_not_ours_is_not_overwritten(editor: Editor, project: Path) -> None:
    taken = {f"{name}.py": "own = 1\n" for name in ("accel", "torch_accel", "torchmigrate_accel")}
    write_tree(project, taken)
    uri = editor.open(project / "train.py", TEXT)
    with pytest.raises(Exception, match="exists and was not written by torchmigrate"):
        editor.resolved(editor.actions(uri, 2)[FIX])


# ---- "ignore this here"


@pytest.mark.parametrize(
    ("name", "text", "line", "above"),
    [
        ("plain.py", TEXT, 2, 2),
        ("inner.py", "import torch\nif 1:\n\tx = [\n\t\ttorch.ones(1)\n\t\t.cuda()\n\t]\n", 4, 2),
        ("decorated.py", "import torch\n@f(torch.ones(1).cuda())\ndef f():\n    pass\n", 1, 1),
        ("crlf.py", "import torch\r\n\r\nx = torch.ones(1).cuda()\r\n", 2, 2),
        ("mark.py", "\ufeffimport torch; torch.ones(1).cuda()\n", 0, 0),
        ("requirements.txt", "torch\napex\n", 1, 1),
        ("Dockerfile", "FROM x\nRUN true && \\\n  pip install torch --index-url https://y.org/whl/cu121\n", 2, 1),
    ],
)
def test_ignore(editor: Editor, project: Path, name: str, text: str, line: int, above: int) -> None:
    uri = editor.open(project / name, text, "python" if name.endswith("py") else "other")
    count = len(editor.found(uri))
    (action,) = [a for title, a in editor.actions(uri, line).items() if "ignore" in title]
    after = editor.apply(editor.resolved(action))[uri]
    (added,) = {*after.removeprefix("\ufeff").splitlines()} - {*text.removeprefix("\ufeff").splitlines()}
    assert added.strip() == f"# torchmigrate: ignore[{action.diagnostics[0].code}]"  # type: ignore[index]
    assert after.splitlines()[above].strip("\ufeff") == added
    assert after.replace(added + ("\r\n" if "\r" in text else "\n"), "") == text
    editor.change(uri, after)
    assert len(editor.found(uri)) == count - 1


def test_where_a_comment_would_do_no_good(editor: Editor, project: Path) -> None:
    uri = editor.open(project / "train.py", "import torch\nx = 1; \\\n  torch.ones(1).cuda()\n")
    with pytest.raises(Exception, match="no comment can stand there; name the rule in per-file-ignores"):
        editor.resolved(editor.actions(uri, 2)[IGNORE])


# ---- hover


def test_hover(editor: Editor, project: Path) -> None:
    text = "import torch as th\nfrom torch.cuda import empty_cache as free\n\nfree()\nx = th.ones(1).cuda()\n"
    text += "th.cuda.synchronize()\ndel x.foo\nsync = th.cuda.synchronize\nsync()\nn = getattr(th.cuda, 'Event')\n"
    uri = editor.open(project / "train.py", text)
    free = editor.hover(uri, 3, 1)
    assert free.startswith("**`torch.cuda.empty_cache`**, function, in a migrated project:\n\n- works: CUDA, ROCm\n")
    assert "- works through the helper (`accel.empty_cache`): MPS, " in free
    assert "\nRewritten by `memory/empty-cache`" in free
    assert "\n[Source](https://" in free
    assert editor.hover(uri, 1, 25) == free
    assert editor.hover(uri, 4, 16).startswith("**`torch.Tensor.cuda`**, method")
    assert editor.hover(uri, 5, 4).startswith("**`torch.cuda`**, module")
    wait = editor.hover(uri, 5, 12)
    assert wait.startswith("**`torch.cuda.synchronize`**, function")
    assert editor.hover(uri, 8, 2) == wait
    assert editor.hover(uri, 9, 18).startswith("**`torch.cuda.Event`**, class")
    for line, character in ((0, 8), (2, 0), (4, 0), (6, 7), (99, 99)):
        assert editor.hover(uri, line, character) == ""
    position = types.Position(5, 12)
    params = types.HoverParams(types.TextDocumentIdentifier(uri), position)
    shown = editor.do(editor.client.text_document_hover_async(params))
    assert shown
    assert str(shown.range) == "5:8-5:19"


def test_hover_knows_whose_torch_it_is(editor: Editor, project: Path) -> None:
    uri = editor.open(project / "other.py", "import mylib as torch\n\ntorch.cuda.synchronize()\n")
    assert editor.hover(uri, 2, 14) == ""


# ---- places


ODD = '\timport torch; s = "😀é"; x = torch.ones(1).cuda()  # \x0c 😀'
ODD_TEXT = f"if 1:{{end}}{ODD}{{end}}\ty = x; z = x.cuda(){{end}}"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_places_in_utf_16(editor: Editor, project: Path, cli: Callable[..., Ran], end: str) -> None:
    path = project / f"train{ord(end[-1])}{len(end)}.py"
    text = ODD_TEXT.replace("{end}", end)
    uri = editor.open(path, text)
    start = len(ODD[: ODD.index("torch.ones")].encode("utf-16-le")) // 2
    assert [span(d) for d in editor.found(uri)] == [(1, start, 1, start + 20), (2, 12, 2, 20)]
    assert editor.hover(uri, 1, start + 16).startswith("**`torch.Tensor.cuda`**")
    assert editor.apply(editor.resolved(editor.actions(uri, 1)[ALL])) == applied(cli, path, text)


def test_places_as_agreed_on(home: Path, project: Path, cli: Callable[..., Ran]) -> None:
    general = types.GeneralClientCapabilities(position_encodings=["utf-7", "utf-8", "utf-16"])
    edits = types.WorkspaceEditClientCapabilities(document_changes=True)
    workspace = types.WorkspaceClientCapabilities(workspace_edit=edits)
    editor = Editor(home, types.ClientCapabilities(workspace=workspace, general=general))
    text = ODD_TEXT.replace("{end}", "\n")
    uri = editor.open(project / "train.py", text)
    assert editor.encoding == "utf-8"
    start = len(ODD[: ODD.index("torch.ones")].encode())
    assert span(editor.found(uri)[0]) == (1, start, 1, start + 20)
    # this editor does not ask for edits, and says nothing of new files
    offered = editor.actions(uri, 1)
    assert all(action.edit and action.data is None for action in offered.values())
    after = editor.apply(offered[ALL].edit)  # type: ignore[arg-type]
    assert after == applied(cli, project / "train.py", text)
    assert len(after) == 2
    assert "`torch.Tensor.cuda` is a method. " in editor.hover(uri, 1, start + 16)
    assert editor.leave() == 0


def test_an_old_editor(home: Path, project: Path) -> None:
    editor = Editor(home, types.ClientCapabilities())
    uri = editor.open(project / "train.py", TEXT)
    edit = editor.actions(uri, 2)[FIX].edit
    assert edit is not None
    assert edit.document_changes is None
    assert edit.changes is not None
    assert {name: editor.edited(editor.texts.get(name, ""), edits) for name, edits in edit.changes.items()} == {
        uri: AFTER,
        (project / "accel.py").as_uri(): helper_parts.vendored(helper_parts.used_by(AFTER.encode(), "accel")).decode(),
    }
    assert editor.watched == []
    assert editor.leave() == 0


def test_an_encoding_of_its_own(editor: Editor, project: Path) -> None:
    text = "# -*- coding: latin-1 -*-\nimport torch\ns = 'é'; x = torch.ones(1).cuda()\n"
    uri = editor.open(project / "train.py", text)
    assert [span(d) for d in editor.found(uri)] == [(2, 13, 2, 34 - 1)]
    after = editor.apply(editor.resolved(editor.actions(uri, 2)[FIX]))[uri]
    assert after == text.replace(").cuda()", ", device=accel.device())").replace("torch\n", "torch\nimport accel\n")
    editor.change(uri, text.replace("é", "€"))  # which latin-1 has not: the file cannot be saved so
    assert editor.actions(uri, 2) == {}
    assert editor.hover(uri, 2, 30) == ""


def partial(start: tuple[int, int], end: tuple[int, int], text: str) -> types.TextDocumentContentChangePartial:
    return types.TextDocumentContentChangePartial(types.Range(types.Position(*start), types.Position(*end)), text)


@pytest.mark.parametrize(
    ("start", "end", "text", "after"),
    [
        ((0, 0), (0, 0), "x", "xa😀b\r\n\x0cc\rd"),
        ((0, 3), (0, 4), "", "a😀\r\n\x0cc\rd"),
        ((0, 99), (1, 0), "", "a😀b\x0cc\rd"),
        ((1, 1), (2, 0), "é\n", "a😀b\r\n\x0cé\nd"),
        ((2, 1), (9, 9), "\n", "a😀b\r\n\x0cc\rd\n"),
        ((7, 0), (7, 0), "!", "a😀b\r\n\x0cc\rd!"),
    ],
)
def test_an_incremental_change(start: tuple[int, int], end: tuple[int, int], text: str, after: str) -> None:
    assert Text("a😀b\r\n\x0cc\rd").changed(partial(start, end, text)).text == after


@pytest.mark.parametrize("size", [1, 2, 4])
def test_places_in_all_units(size: int) -> None:
    """There and back, at each character."""
    encoding = {1: "utf-8", 2: "utf-16", 4: "utf-32"}[size]
    line = "é\t😀\x0c\u2028x"
    text = Text(f"{line}\r\n{line}", encoding)
    for index in range(len(line) + 1):
        units = len(line[:index].encode(encoding + "-le" * (size > 1))) // size
        for number, offset in ((0, index), (1, len(line) + 2 + index)):
            assert text.position(offset) == types.Position(number, units)
            assert text.offset(types.Position(number, units)) == offset


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\r\nb\r\nc", "a\r\nx\r\nb\r\nc"),
        ("a\r\nb\r\n", "a\r\nb"),
        ("a\rb\rc\r", "a\rc\r"),
        ("", "new\n"),
        ("aa\nb", "aaa\nb"),
        ("x = 1\ny = 1\n", "y = 1\nx = 2\n"),
    ],
)
def test_edits_make_the_text(before: str, after: str) -> None:
    text = Text(before)
    made = before
    for edit in reversed(text.edits_to(after)):
        made = made[: text.offset(edit.range.start)] + edit.new_text + made[text.offset(edit.range.end) :]
    assert made == after


# ---- when a file is checked


def test_what_is_being_written_goes_first() -> None:
    done: list[str] = []

    async def session() -> None:
        async def work(name: str) -> None:
            done.append(name)
            if name == "first":
                schedule.due("typed", 0)
            await asyncio.sleep(0)

        schedule = Schedule(work)
        for name in ("first", "second", "typed", "gone"):
            schedule.due(name, 0, rank=1)
        schedule.forget("gone")
        schedule.due("late", 0.05)
        schedule.due("late", 0.01)
        while "late" not in done:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.1)  # the first date of `late` has passed

    asyncio.run(session())
    assert done == ["first", "typed", "second", "late"]


def test_a_new_state_of_the_project_is_one_of_the_text() -> None:
    """What is under way when the settings change must not be taken for the answer."""
    documents = Documents()
    documents.open(types.TextDocumentItem("file:///train.py", "python", 1, TEXT))
    before = documents.file("file:///train.py")
    assert documents.file("file:///train.py") is before
    documents.renew()
    assert documents.file("file:///train.py") is not before


# ---- notebooks


def cell(uri: str, text: str) -> types.TextDocumentItem:
    return types.TextDocumentItem(uri, "python", 1, text)


def notebook(editor: Editor, path: Path, *texts: str) -> list[str]:
    """Open one; the URIs of its cells."""
    uris = [f"vscode-notebook-cell:{path.as_posix()}#{number}" for number in range(len(texts))]
    cells = [types.NotebookCell(types.NotebookCellKind.Code, uri) for uri in uris]
    document = types.NotebookDocument(path.as_uri(), "jupyter-notebook", 1, cells)
    documents = [cell(uri, text) for uri, text in zip(uris, texts, strict=True)]
    editor.texts.update(zip(uris, texts, strict=True))
    editor.versions.update(dict.fromkeys(uris, 1))
    params = types.DidOpenNotebookDocumentParams(document, documents)
    editor.tell(editor.client.notebook_document_did_open, params)
    return uris


def notebook_change(editor: Editor, path: Path, cells: types.NotebookDocumentCellChanges) -> None:
    document = types.VersionedNotebookDocumentIdentifier(2, path.as_uri())
    params = types.DidChangeNotebookDocumentParams(document, types.NotebookDocumentChangeEvent(cells=cells))
    editor.tell(editor.client.notebook_document_did_change, params)


def test_a_notebook(editor: Editor, project: Path) -> None:
    path = project / "study.ipynb"
    first, empty, last = notebook(
        editor, path, "%matplotlib inline\nimport torch", "", "%%time\nx = torch.ones(1).cuda()"
    )
    assert [span(d) for d in editor.found(last)] == [(1, 4, 1, 24)]
    assert editor.found(first) == editor.found(empty) == []
    assert editor.hover(last, 1, 20).startswith("**`torch.Tensor.cuda`**")
    offered = editor.actions(last, 1)
    assert list(offered) == [FIX, IGNORE, ALL]
    after = editor.apply(editor.resolved(offered[FIX]))
    assert after.pop((project / "accel.py").as_uri()).startswith("# torchmigrate-runtime")
    assert after == {
        first: "%matplotlib inline\nimport accel\nimport torch",
        last: "%%time\nx = torch.ones(1, device=accel.device())",
    }
    ignored = editor.apply(editor.resolved(offered[IGNORE]))
    assert ignored == {last: "%%time\n# torchmigrate: ignore[device/tensor-cuda]\nx = torch.ones(1).cuda()"}


def test_a_notebook_that_holds_the_helper_itself(editor: Editor, project: Path) -> None:
    """No cell can be added by edits of texts, so the functions go into a neighbour."""
    _, last = notebook(editor, project / "alone.ipynb", "!git clone x\nimport torch", "x = torch.ones(1).cuda()")
    after = editor.apply(editor.resolved(editor.actions(last, 0)[FIX]))
    assert {*after} == {last} and after[last].endswith("\n\n\nx = torch.ones(1, device=accel.device())")
    assert after[last].startswith("import os\n") and "\nclass accel:\n" in after[last]


def test_a_notebook_changes(editor: Editor, project: Path) -> None:
    path = project / "study.ipynb"
    first, last = notebook(editor, path, "import torch", "x = torch.ones(1).cuda()")
    assert len(editor.found(last)) == 1
    # a cell between them, and one character of the last
    new = f"{first}-new"
    array = types.NotebookCellArrayChange(1, 0, [types.NotebookCell(types.NotebookCellKind.Code, new)])
    structure = types.NotebookDocumentCellChangeStructure(array, [cell(new, "y = torch.ones(2).cuda()")])
    version = types.VersionedTextDocumentIdentifier(2, last)
    content = types.NotebookDocumentCellContentChanges(version, [partial((0, 0), (0, 1), "zz")])
    notebook_change(editor, path, types.NotebookDocumentCellChanges(structure=structure, text_content=[content]))
    editor.texts |= {new: "y = torch.ones(2).cuda()", last: "zz = torch.ones(1).cuda()"}
    editor.versions |= {new: 1, last: 2}
    assert [span(d) for d in editor.found(new)] == [(0, 4, 0, 24)]
    assert [span(d) for d in editor.found(last)] == [(0, 5, 0, 25)]
    # and away with it
    array = types.NotebookCellArrayChange(1, 1)
    structure = types.NotebookDocumentCellChangeStructure(array, did_close=[types.TextDocumentIdentifier(new)])
    notebook_change(editor, path, types.NotebookDocumentCellChanges(structure=structure))
    editor.until(lambda: not editor.diagnostics[new])
    assert list(editor.actions(last, 0)) == [FIX, IGNORE, ALL]
    closed = [types.TextDocumentIdentifier(uri) for uri in (first, last)]
    params = types.DidCloseNotebookDocumentParams(types.NotebookDocumentIdentifier(path.as_uri()), closed)
    editor.tell(editor.client.notebook_document_did_close, params)
    editor.until(lambda: not editor.diagnostics[last])


# ---- docs/editors.md


def test_the_fragments_for_editors() -> None:
    page = (ROOT / "docs" / "editors.md").read_text(encoding="utf-8")
    fences = re.findall(r"^```(\w+)\n(.*?)^```$", page, re.M | re.S)
    read: dict[str, Callable[[str], Any]] = {"json": json.loads, "toml": tomllib.loads}
    for language, text in fences:
        read.get(language, str)(text)
    assert {"json", "toml", "lua", "elisp"} <= {language for language, _ in fences}
    starts = [text for _, text in fences if "server" in text]
    assert len(starts) == 7
    assert all(re.search(r'"torchmigrate"', text) and re.search(r'"server"', text) for text in starts)
    assert actions.FIX_ALL in page
