"""Runs action.yml as GitHub's runner does: steps in bash, outputs and the summary by files, commands read from the log.

Facts of https://docs.github.com/actions: `metadata syntax`, `workflow commands`, `contexts`."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail")
_EXPRESSION = re.compile(r"\$\{\{\s*([\w.-]+)\s*\}\}")
_COMMAND = re.compile(r"::([\w-]+)(?: ([^:]*(?::(?!:)[^:]*)*))?::(.*)")


@dataclass(frozen=True)
class Annotation:
    """A workflow command that shows something: `warning`, `error`, `notice`."""

    level: str
    properties: dict[str, str]
    message: str


@dataclass
class Job:
    """What one use of the action came to."""

    status: int = 0
    log: str = ""
    summary: str = ""
    outputs: dict[str, str] = field(default_factory=dict)
    annotations: list[Annotation] = field(default_factory=list)
    steps: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Runner:
    """`action` is the directory of action.yml, `temp` what RUNNER_TEMP is, for one job or more."""

    action: Path
    temp: Path

    def use(self, workspace: Path, env: Mapping[str, str] | None = None, **given: str) -> Job:
        """A `uses:` with these inputs (`fail_on` for `fail-on`)."""
        metadata = yaml.safe_load((self.action / "action.yml").read_text(encoding="utf-8"))
        inputs = {name: str(facts.get("default", "")) for name, facts in metadata["inputs"].items()}
        unknown = {name.replace("_", "-") for name in given} - inputs.keys()
        assert not unknown, unknown
        inputs |= {name.replace("_", "-"): value for name, value in given.items()}
        job = Job()
        for step in metadata["runs"]["steps"]:
            self._run(step, inputs, job, workspace, env or {})
            if job.status:
                break
        for name, facts in metadata["outputs"].items():
            job.outputs[name] = _evaluated(facts["value"], inputs, job)
        return job

    def _run(
        self, step: Mapping[str, Any], inputs: Mapping[str, str], job: Job, workspace: Path, env: Mapping[str, str]
    ) -> None:
        assert step["shell"] == "bash" and "${{" not in step["run"]
        script = self.temp / "step.sh"
        script.write_text(step["run"], encoding="utf-8")
        files = {name: self.temp / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_ENV")}
        for file in files.values():
            file.write_bytes(b"")
        environment = dict(os.environ) | {name: str(file) for name, file in files.items()} | env
        environment |= {
            "GITHUB_ACTION_PATH": str(self.action),
            "GITHUB_ACTIONS": "true",
            "CI": "true",
            "GITHUB_WORKSPACE": str(workspace),
            "RUNNER_TEMP": str(self.temp),
        }
        environment |= {name: _evaluated(value, inputs, job) for name, value in step.get("env", {}).items()}
        streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}  # the runner reads both
        done = subprocess.run([*BASH, str(script)], cwd=workspace, env=environment, check=False, **streams)
        log = done.stdout.decode("utf-8")
        job.status, job.log = done.returncode, job.log + log
        job.annotations += commands(log)
        job.summary += files["GITHUB_STEP_SUMMARY"].read_text(encoding="utf-8")
        assert files["GITHUB_ENV"].read_bytes() == b""
        if "id" in step:
            job.steps[step["id"]] = outputs(files["GITHUB_OUTPUT"].read_text(encoding="utf-8"))


def _evaluated(value: object, inputs: Mapping[str, str], job: Job) -> str:
    def known(match: re.Match[str]) -> str:
        context, *path = match[1].split(".")
        if context == "inputs":
            return inputs[".".join(path)]
        assert context == "steps" and path[1] == "outputs", match[0]
        return job.steps.get(path[0], {}).get(path[2], "")

    return _EXPRESSION.sub(known, str(value))


def outputs(text: str) -> dict[str, str]:
    """The GITHUB_OUTPUT file: `name=value`, or `name<<END`, lines, `END`."""
    found: dict[str, str] = {}
    lines = iter(text.split("\n"))
    for line in lines:
        here = re.match(r"([^=]+?)<<(.+)", line)
        if here:
            body = []
            while (following := next(lines)) != here[2]:  # StopIteration: as bad for the runner
                body.append(following)
            found[here[1]] = "\n".join(body)
        elif line:
            name, equals, value = line.partition("=")
            assert equals, f"the runner refuses {line!r}"
            found[name] = value
    return found


def commands(log: str) -> list[Annotation]:
    """Annotations in a log; none between `::stop-commands::TOKEN` and `::TOKEN::`. Other commands are refused."""
    found, token = list[Annotation](), None
    for line in re.split(r"\r\n|\n|\r", log):
        if token is not None:
            token = None if line.strip() == f"::{token}::" else token
            continue
        match = _COMMAND.match(line.lstrip())
        if match and match[1] == "stop-commands":
            token = match[3]
        elif match:
            assert match[1] in ("warning", "error", "notice"), line
            pairs = (pair.partition("=") for pair in (match[2] or "").split(",") if pair)
            found.append(Annotation(match[1], {k: _plain(v) for k, _, v in pairs}, _plain(match[3])))
    assert token is None, "commands were never resumed"
    return found


def _plain(text: str) -> str:
    for code, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(code, character)
    return text
