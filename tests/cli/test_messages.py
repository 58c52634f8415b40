"""Each message of tests/support/messages.py, provoked through the command line and compared with messages.txt beside it
in full; and each place of the source that makes one, held against those that were reached.
`python tests/cli/test_messages.py` writes messages.txt anew: read what changed."""

from __future__ import annotations

import ast
import contextlib
import functools
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))  # run as a script, too

from conftest import IDENTITIES
from messages import GOOD, ROWS, Row
from same_process import fleet_in_process

from torchmigrate.base.file_io import NotWritten
from torchmigrate.base.text import UserError
from torchmigrate.cli import app
from torchmigrate.rules import packs
from torchmigrate.rules.model import PackError
from torchmigrate.source.encoding import UnreadableSource
from torchmigrate.source.notebook import UnreadableNotebook
from torchmigrate.surveys import api_catalog
from torchmigrate.verify import interpreter

PACKAGE = Path(app.__file__).parent.parent
TESTS = Path(__file__).parents[1]
EXPECTED = TESTS / "support" / "messages.txt"
KINDS = (UserError, PackError, UnreadableSource, UnreadableNotebook, NotWritten)
MAKERS = {kind.__name__ for kind in KINDS} | {"Interrupted", "fail"}
Site = tuple[str, int]

# What no row reaches: a file and words of the message; the test that provokes it and words of that, or why none does.
ELSEWHERE = (
    ("source/encoding.py", "has no", "source/test_encoding.py", "iso-8859-1 has no"),
    ("source/encoding.py", "cannot be decoded", "attack/test_attack.py", "an encoding that is none"),
    ("source/encoding.py", "reaches into the helper", "source/test_encoding.py", "reaches into the helper"),
    ("source/notebook.py", "over the end of cell", "source/test_notebook.py", "over the end of cell 1"),
    ("source/notebook.py", "no Python cells", "", "a guard: a notebook without any is never rewritten"),
    ("source/notebook.py", "covers a magic", "", "a guard: rules see a magic as `pass`"),
    ("base/file_io.py", "has changed since", "apply/test_writer.py", "not written: it has changed since"),
    ("base/file_io.py", "read-only", "apply/test_writer.py", "not written: it is read-only"),
    ("base/file_io.py", "has appeared", "apply/test_writer.py", "has appeared"),
    ("cli/migration/commit.py", "in the way", "", "a guard: the helper gets a name that is free"),
    ("cli/app.py", "nothing was written", "cli/test_app.py", "interrupted; nothing was written"),
    ("cli/app.py", "directory is gone", "cli/test_messages.py", "the current directory is gone"),
    (
        "cli/migration/run.py",
        "undo` puts them back",
        "cli/test_app.py",
        "1 of 2 files were written, each of them whole",
    ),
    ("cli/migration/run.py", "puts back the files", "apply/test_commits.py", "nothing was committed: train.py was"),
    ("cli/app.py", "half written", "cli/test_messages.py", "no space left on device"),
    ("cli/app.py", "see that `git status`", "vcs/test_hardening.py", "test_a_damaged_repository_is_told"),
    ("cli/app.py", "_REPORT", "cli/test_app.py", "internal error: ZeroDivisionError: oh"),
    ("cli/app.py", "internal error", "cli/test_app.py", "internal error: ZeroDivisionError: oh"),
    ("config/config_file.py", "{error.strerror}, so it", "config/test_config_file.py", "larger than 2,000,000 bytes"),
    ("config/config_file.py", "so it was not read", "config/test_config_file.py", "takes more than 0.2 seconds"),
    ("config/config_file.py", "thousands of digits", "config/test_config_file.py", "thousands of digits"),
    ("rules/reader.py", "`since` has", "rules/test_packs.py", "`since` has 'torch.y'"),
    ("rules/reader.py", "`files` {error}", "project/test_build_files.py", "at most 4 `**`"),
    ("base/user_folders.py", "is writing to this project", "cli/test_hostile_project.py", "is writing to this project"),
    ("rules/reader.py", "takes too long to read", "cli/test_hostile_project.py", "packs/own/one.toml:1: "),
    ("rules/reader.py", "has tables of text and numbers", "cli/test_hostile_project.py", "packs/own/one.toml:1: "),
    ("rules/reader.py", "a rule cannot be called that", "", "a guard: a file name that a terminal would obey"),
    ("rules/reader.py", "has a control character", "cli/test_hostile_project.py", "control character"),
    (
        "base/file_io.py",
        "a symbolic link leads there",
        "apply/test_writer.py",
        "not written: a symbolic link leads there",
    ),
    ("base/file_io.py", "NotWritten(_LINK)", "apply/test_writer.py", "a symbolic link leads there"),
    ("base/file_io.py", "NotWritten(_CHANGED)", "apply/test_writer.py", "it has changed since it was read"),
    ("base/file_io.py", "what was saved meanwhile", "apply/test_writer.py", "what was saved meanwhile is in"),
    (
        "apply/commits.py",
        "outside of this repository",
        "vcs/test_hardening.py",
        "would write outside of this repository",
    ),
    ("cli/output.py", "paths in the diff are relative to", "", "a guard: a helper above the current folder"),
    ("cli/output.py", "name the folder itself", "cli/test_hostile_project.py", "name the folder itself"),
    ("cli/app.py", "not enough memory", "cli/test_app.py", "there is not enough memory for this"),
    ("cli/migration/commit.py", "settle that (`git status`", "vcs/test_hardening.py", "git tells nothing of"),
    ("cli/migration/run.py", "works until", "cli/test_environments.py", "works until"),
    ("apply/journal.py", "puts back the files that were written", "", "a guard: the disk is full between two writes"),
    ("cli/selection.py", "must be FORMAT=FILE", "cli/test_extra_reports.py", "--also junit: must be FORMAT=FILE"),
    ("cli/selection.py", "no such format", "cli/test_extra_reports.py", "--also jnuit=x: no such format: jnuit"),
    ("cli/selection.py", "two reports would go to", "cli/test_extra_reports.py", "two reports would go to x"),
    ("cli/selection.py", "has no diff", "cli/test_extra_reports.py", "`check` has no diff"),
    ("cli/migration/run.py", "git add", "cli/test_before_commit.py", "which the commit would be without"),
    ("cli/commands/apply.py", "torchmigrate[lsp]", "lsp/test_server.py", "the language server needs pygls 2"),
    ("cli/commands/github_action.py", "choose true or false", "cli/test_github_action.py", "test_an_input_is_data"),
    ("cli/commands/github_action.py", "choose one of", "cli/test_github_action.py", "test_an_input_is_data"),
    (
        "cli/commands/github_action.py",
        "name a directory of the checkout",
        "cli/test_github_action.py",
        "test_an_input_is_data",
    ),
    ("cli/commands/github_action.py", "UserError(messages)", "cli/test_github_action.py", "test_an_input_is_data"),
    ("cli/commands/fleet.py", "goes on with the others", "fleet/test_fleet.py", "goes on with the others"),
    ("cli/commands/fleet.py", "--push has nothing to push", "fleet/test_fleet.py", "--push has nothing to push"),
    (
        "cli/commands/fleet.py",
        "not pushed: {error.message}",
        "fleet/test_fleet.py",
        "error: url: not pushed: git push: ",
    ),
    ("fleet/repositories.py", "has no branch", "", "a guard: somebody else writes to the folder"),
    ("cli/commands/verify.py", "run it under WSL", "cli/test_verify.py", "does not run on Windows"),
    ("cli/commands/fleet.py", "fleet needs git", "fleet/test_fleet.py", "fleet needs git"),
    ("cli/commands/fleet.py", "while the run went on", "", "a guard: somebody else writes to the folder"),
    (
        "fleet/processes.py",
        "pip install 'torchmigrate[fleet]'",
        "fleet/test_fleet.py",
        "pip install 'torchmigrate[fleet]'",
    ),
    ("fleet/processes.py", "start one there", "fleet/test_fleet.py", "no dask scheduler answers"),
    ("fleet/processes.py", "start some", "fleet/test_fleet.py", "has no workers"),
    ("fleet/processes.py", "the worker at", "fleet/test_fleet.py", "this is 0.0"),
    ("fleet/processes.py", "is gone", "fleet/test_fleet.py", "is gone"),
    ("fleet/work.py", "lies outside of the repository", "", "a guard: nothing outside of it is read"),
    ("fleet/task.py", "another run is writing", "fleet/test_fleet.py", "another run is writing"),
    ("fleet/repositories.py", "must be there for every worker", "support/messages.txt", "a.py: is no folder"),
    (
        "fleet/repositories.py",
        "must be there for every worker",
        "support/messages.txt",
        "no such folder on this machine",
    ),
    ("fleet/repositories.py", "git cannot read it", "support/messages.txt", "git cannot read it"),
    ("fleet/repositories.py", "is meant for git", "support/messages.txt", "is meant for git"),
    ("fleet/repositories.py", "has no commit", "support/messages.txt", "has no commit"),
    ("fleet/repositories.py", "{masked(url)} has no", "support/messages.txt", "has no `v1`"),
    ("fleet/repositories.py", "git {arguments[0]}: {masked", "support/messages.txt", "git ls-remote: "),
    (
        "fleet/repositories.py",
        "git {arguments[0]}: {error}",
        "",
        "a guard: in a repository of ours git has what it needs",
    ),
    ("fleet/task.py", "self.top / _MARK", "fleet/test_fleet.py", "not a file of its own"),
    ("fleet/work.py", "partition", "support/messages.txt", "no such directory of rules"),
    ("verify/interpreter.py", "no Python with torch", "cli/test_verify.py", "no Python with torch found"),
    ("verify/session.py", "note: files over", "verify/test_sandbox.py", "linked into the copies"),
    ("verify/session.py", "are copied once", "verify/test_sandbox.py", "17.0 MiB are copied once"),
    ("verify/session.py", "written by no Python code", "verify/test_sandbox.py", "written by no Python code"),
    ("verify/session.py", "warning: not rewritten", "cli/test_verify.py", "warning: not rewritten"),
    ("verify/session.py", "a port was taken", "cli/test_verify.py", "a port was taken"),
    ("verify/session.py", "chooses a port itself", "verify/test_sandbox.py", "chooses a port itself"),
    ("verify/session.py", "the code after", "verify/test_sandbox.py", "the code after `-c` is not part"),
    ("verify/session.py", "is outside the project", "verify/test_sandbox.py", "is outside the project"),
    ("verify/session.py", "leads to nothing there", "verify/test_sandbox.py", "leads to nothing there"),
    ("verify/session.py", "the copies are elsewhere, so ", "verify/test_sandbox.py", "the copies are elsewhere, so "),
    ("verify/session.py", "the original writes no such file", "cli/test_verify.py", "the original writes no such file"),
    ("verify/session.py", "not applied (--unsafe-fixes)", "cli/test_verify.py", "not applied (--unsafe-fixes)"),
)


@dataclass(frozen=True)
class Seen:
    """What a row gave, and the places that made exceptions for it."""

    status: int
    err: str
    sites: frozenset[Site]

    def text(self, name: str) -> str:
        return f"==== {name}\n$ torchmigrate {ROWS[name].run}  # {self.status}\n{self.err}"


def play(row: Row, base: Path) -> Seen:
    """Set a project up below `base`, and run the command line in it."""
    here = base / "project"
    here.mkdir(parents=True)
    for name, text in row.files.items():
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text(text, encoding="utf-8")
    with environment(base), contextlib.chdir(here), recorded() as sites:
        for step in (row.setup, row.first, row.then):
            if step.startswith("torchmigrate "):
                captured(step.removeprefix("torchmigrate "), "")
            elif step:
                subprocess.run(["bash", "-ec", step], check=True, capture_output=True)
        status, err = captured(row.run, row.stdin)
    return Seen(status, normal(err, here), frozenset(sites))


@contextlib.contextmanager
def environment(base: Path) -> Iterator[None]:
    """One's own cache and git, and nobody else's."""
    (base / "git").write_text("[user]\nname = A\nemail = a@b.c\n", encoding="utf-8")
    changes = {
        "XDG_CACHE_HOME": str(base / "cache"),
        "XDG_STATE_HOME": str(base / "state"),
        "GIT_CONFIG_GLOBAL": str(base / "git"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": str(base),
        "PYTHONPATH": str(PACKAGE.parent),
        **{f"GIT_{who}_DATE": "2026-01-01T00:00:00Z" for who in ("AUTHOR", "COMMITTER")},
    }
    before = dict(os.environ)
    os.environ.update(changes)
    for name in IDENTITIES:
        os.environ.pop(name, None)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def read_once() -> Iterator[None]:
    """Our own rules and catalog are the same for each row, a Python is asked once for its torch, and `fleet` needs
    no processes for its messages."""
    ours, load_rule, read = packs.builtin(), functools.cache(packs.load_rule), api_catalog.read
    read_ours = functools.cache(lambda path: read(path))

    with pytest.MonkeyPatch.context() as patch:
        fleet_in_process(patch)
        patch.setattr(interpreter, "probe", functools.cache(interpreter.probe))
        patch.setattr(packs, "load_rule", load_rule)
        patch.setattr(
            api_catalog, "read", lambda path, rules: read_ours(path) if ours in path.parents else read(path, rules)
        )
        yield


@contextlib.contextmanager
def recorded() -> Iterator[set[Site]]:
    """Where exceptions with a message for people are made."""
    sites: set[Site] = set()
    was = {kind: kind.__init__ for kind in KINDS}

    def wrap(kind: type[Exception]) -> object:
        def init(self: Exception, *arguments: str, **named: str) -> None:
            frame = sys._getframe(1)
            while frame.f_code.co_name in ("fail", "need", "__init__", "init") and frame.f_back:
                sites.add((os.path.relpath(frame.f_code.co_filename, PACKAGE), frame.f_lineno))
                frame = frame.f_back
            sites.add((os.path.relpath(frame.f_code.co_filename, PACKAGE), frame.f_lineno))
            was[kind](self, *arguments, **named)

        return init

    for kind in KINDS:
        kind.__init__ = wrap(kind)  # type: ignore[method-assign, assignment]
    try:
        yield sites
    finally:
        for kind, init in was.items():
            kind.__init__ = init  # type: ignore[method-assign]


def captured(line: str, text: str) -> tuple[int, str]:
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    stdin = io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8")
    was, sys.stdin = sys.stdin, stdin
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = app.run(shlex.split(line))
    finally:
        sys.stdin = was
    return status, err.getvalue()


def normal(text: str, here: Path) -> str:
    """Without what differs from machine to machine."""
    real = os.path.realpath(here)
    for path, name in ((real, "{here}"), (os.path.dirname(real), "{base}"), (str(PACKAGE.parent), "{source}")):
        text = text.replace(path, name)
    return re.sub(r"\b[0-9a-f]{10,40}\b", "{hash}", text)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seen]:
    base = tmp_path_factory.mktemp("messages")
    with read_once():
        return {name: play(row, base / str(number)) for number, (name, row) in enumerate(ROWS.items())}


def expected() -> dict[str, str]:
    parts = re.split(r"(?m)^(?===== )", EXPECTED.read_text(encoding="utf-8"))
    return {part.splitlines()[0].removeprefix("==== "): part for part in parts if part.startswith("==== ")}


@pytest.mark.parametrize("name", ROWS)
def test_a_message(name: str, seen: dict[str, Seen]) -> None:
    err = seen[name].err
    assert seen[name].text(name) == expected()[name].rstrip("\n") + "\n"
    assert not re.search(r"Traceback|internal error|\bNone\b|\[Errno|<class|[ \t]$", err, re.M)
    for error in re.findall(r"^error: .*$", err, re.M):
        assert not error.endswith((".", ":")), error


def test_nothing_is_expected_that_is_not_provoked() -> None:
    assert expected().keys() == ROWS.keys(), "read the difference, then: python tests/cli/test_messages.py"


def sites() -> Iterator[tuple[str, ast.Call]]:
    for path in PACKAGE.rglob("*.py"):
        name = str(path.relative_to(PACKAGE))
        apart = ("verify/simulated", "fixers", "lsp")  # with tests of its own
        if name.startswith(apart):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = getattr(node, "func", None)
            if isinstance(node, ast.Call) and getattr(called, "id", getattr(called, "attr", "")) in MAKERS:
                yield name, node


def is_elsewhere(file: str, text: str) -> bool:
    return any(file == name and words in text for name, words, _, _ in ELSEWHERE)


def test_every_error_is_provoked(seen: dict[str, Seen]) -> None:
    reached = {site for row in seen.values() for site in row.sites}
    lost = []
    for file, node in sites():
        lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        if not any((file, line) in reached for line in lines) and not is_elsewhere(file, ast.unparse(node)):
            lost.append(f"{file}:{node.lineno}: {ast.unparse(node)}")
    assert not lost, "\n".join(lost)


def notes() -> Iterator[tuple[str, str]]:
    """Each `note: ...` and `warning: ...` of the source, as a regular expression."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            texts = [p.value if isinstance(p, ast.Constant) and isinstance(p.value, str) else None for p in parts]
            if texts[0] and texts[0].startswith(("note: ", "warning: ")):
                yield str(path.relative_to(PACKAGE)), ".*".join(re.escape(text) if text else "" for text in texts)


def test_every_note_is_provoked(seen: dict[str, Seen]) -> None:
    said = "".join(row.err for row in seen.values())
    lost = [
        f"{f}: {regex}"
        for f, regex in notes()
        if not re.search(regex, said) and not is_elsewhere(f, regex.replace("\\", ""))
    ]
    assert not lost, "\n".join(lost)


@pytest.mark.parametrize(("file", "words", "test", "text"), ELSEWHERE)
def test_what_is_provoked_elsewhere(file: str, words: str, test: str, text: str) -> None:
    assert words in (PACKAGE / file).read_text(encoding="utf-8")
    assert not test or text in (TESTS / test).read_text(encoding="utf-8")


def shell(command: str, directory: Path) -> subprocess.CompletedProcess[str]:
    text = f'torchmigrate() {{ {shlex.quote(sys.executable)} -m torchmigrate "$@"; }}\n{command}'
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    return subprocess.run(["bash", "-c", text], cwd=directory, env=environment, capture_output=True, text=True)


def test_the_directory_is_gone(tmp_path: Path) -> None:
    ran = shell("mkdir gone; cd gone; rmdir ../gone; torchmigrate check", tmp_path)
    assert ran.returncode == 2
    assert ran.stderr.endswith("error: the current directory is gone\nhelp: change to one that exists\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_the_disk_is_full(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(GOOD, encoding="utf-8")
    ran = shell("torchmigrate check >/dev/full", tmp_path)
    assert ran.returncode == 2
    assert ran.stderr == (
        "error: the disk, terminal or pipe: no space left on device\n"
        "help: mend that, and run again: no file is ever half written\n"
    )


def test_closed_streams(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(GOOD, encoding="utf-8")
    ran = shell("torchmigrate check <&- >&-", tmp_path)
    assert (ran.returncode, "Found 1 problem" in ran.stderr) == (1, True)
    assert shell("torchmigrate check <&- >&- 2>&-", tmp_path).returncode == 1


def main() -> None:
    with tempfile.TemporaryDirectory() as base, read_once():
        found = (play(row, Path(base) / str(n)).text(name) for n, (name, row) in enumerate(ROWS.items()))
        EXPECTED.write_text("\n".join(found), encoding="utf-8")


if __name__ == "__main__":
    main()
