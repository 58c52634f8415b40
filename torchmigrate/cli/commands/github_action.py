"""Run the GitHub action (action.yml) by the public command line: annotations, a summary and outputs."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchmigrate.base.text import UserError, shorten
from torchmigrate.formats.ci import command
from torchmigrate.formats.markdown import plain

_FAILS = {"findings": (1, 2), "error": (2,), "never": ()}
_FILES = ("report.json", "checked.md", "rewritten.md", "torchmigrate.patch")
_TITLE: dict[str, str | int] = {"title": "torchmigrate"}


@dataclass(frozen=True, slots=True)
class Inputs:
    """These are the action's inputs; empty means not given."""

    directory: str
    paths: Sequence[str]
    options: Sequence[str]  # for both `check` and `apply`
    baseline: str
    sarif: str
    fail_on: str
    suggest: bool

    @classmethod
    def read(cls, env: Mapping[str, str]) -> Inputs:
        """Read the inputs from INPUT_*; raises UserError for an invalid value."""

        def text(name: str) -> str:
            return env.get(f"INPUT_{name}", "").strip()

        def lines(name: str) -> list[str]:
            return [line.strip() for line in text(name).split("\n") if line.strip()]

        options = [f"--{name.lower()}={text(name)}" for name in ("SELECT", "IGNORE", "SINCE") if text(name)]
        verbose = ["--verbose"] if _flag("verbose", text("VERBOSE")) else []
        fail_on = text("FAIL_ON") or "findings"
        if fail_on not in _FAILS:
            raise UserError(f"fail-on cannot be `{shorten(fail_on, 60)}`", f"choose one of {', '.join(_FAILS)}")
        return cls(
            text("WORKING_DIRECTORY") or ".",
            lines("PATHS") or ["."],
            [*options, *verbose, *lines("ARGS")],
            text("BASELINE"),
            text("SARIF_FILE"),
            fail_on,
            _flag("suggest", text("SUGGEST")),
        )


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("", "true", "false"):
        raise UserError(f"{name} cannot be `{shorten(text, 60)}`", "choose true or false")
    return text.lower() == "true"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome holds the exit status of the check, and the action's outputs."""

    status: int
    summary: str
    findings: str = ""
    patch: str = ""
    sarif: str = ""


def main(env: Mapping[str, str]) -> int:
    """Run the second step of the action; return its exit status."""
    fail_on = "findings"
    try:
        given = Inputs.read(env)
        fail_on = given.fail_on
        _enter(given.directory)
        outcome = _run(given, env)
    except UserError as error:
        outcome = _failed(error)
    _append(env.get("GITHUB_STEP_SUMMARY"), outcome.summary)
    outputs = {"exit-code": str(outcome.status), "findings": outcome.findings}
    outputs |= {"patch": outcome.patch, "sarif": outcome.sarif}
    _append(env.get("GITHUB_OUTPUT"), "".join(_output(name, value) for name, value in outputs.items()))
    return outcome.status if outcome.status in _FAILS[fail_on] else 0


def _enter(directory: str) -> None:
    try:
        os.chdir(directory)
    except OSError as error:
        what = f"working-directory: {(error.strerror or str(error)).lower()}: {shorten(directory, 100)}"
        raise UserError(what, "name a directory of the checkout") from None


def _run(given: Inputs, env: Mapping[str, str]) -> Outcome:
    folder = Path(tempfile.mkdtemp(prefix="torchmigrate-", dir=env.get("RUNNER_TEMP")))
    report, checked, rewritten, patch = (folder / name for name in _FILES)
    # a file of that name, not standard input
    paths = [os.path.abspath(path) if path == "-" else path for path in given.paths]
    reports = ["--output-format=github", *([f"--also=sarif={given.sarif}"] if given.sarif else [])]
    reports += [f"--also=json={report}", f"--also=markdown={checked}"]
    reports += [f"--baseline={given.baseline}"] if given.baseline else []
    status, messages = _torchmigrate("check", *reports, *given.options, "--", *paths)
    if not checked.exists():  # e.g. a wrong option
        return _failed(UserError(messages))
    if given.suggest:
        reports = ["--output-format=diff", f"--output={patch}", f"--also=markdown={rewritten}"]
        again, messages = _torchmigrate("apply", "--dry-run", "--exit-zero", *reports, *given.options, "--", *paths)
        status = max(status, again)
        if not rewritten.exists():  # e.g. an option that only `check` has
            return _failed(UserError(messages))
    # `apply` has no baseline: its report would include known findings
    summary = (rewritten if given.suggest and not given.baseline else checked).read_text("utf-8")
    findings = str(json.loads(report.read_bytes())["summary"]["findings"])
    has_patch = given.suggest and patch.stat().st_size > 0
    sarif = os.path.abspath(given.sarif) if given.sarif else ""
    return Outcome(status, f"{summary.rstrip()}\n", findings, str(patch) if has_patch else "", sarif)


def _torchmigrate(*arguments: str) -> tuple[int, str]:
    """Run torchmigrate; return its status (0, 1 or 2) and its messages.

    Messages may quote the project's files, so the runner's workflow commands are stopped while they are written.
    """
    run = [sys.executable, "-I", "-X", "utf8", "-m", "torchmigrate", *arguments]
    done = subprocess.run(run, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    token, messages = secrets.token_hex(16), done.stderr.strip()
    sys.stdout.flush()
    sys.stdout.buffer.write(
        done.stdout + f"::stop-commands::{token}\n".encode() + messages + f"\n::{token}::\n".encode()
    )
    sys.stdout.buffer.flush()
    return done.returncode if done.returncode in (0, 1) else 2, messages.decode("utf-8", "replace").removeprefix(
        "error: "
    )


def _failed(error: UserError) -> Outcome:
    text = str(error)
    print(command("error", _TITLE, text.removeprefix("error: ")), flush=True)
    return Outcome(2, f"## torchmigrate\n\n{plain(' '.join(text.split()))}\n")


def _output(name: str, value: str) -> str:
    """Return an output with a random delimiter, so that no value can end it and add another output."""
    end = f"end-{secrets.token_hex(16)}"
    return f"{name}<<{end}\n{value}\n{end}\n"


def _append(file: str | None, text: str) -> None:
    if file:
        with open(file, "a", encoding="utf-8", newline="\n") as stream:
            stream.write(text)


if __name__ == "__main__":
    sys.exit(main(os.environ))
