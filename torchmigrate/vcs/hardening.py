"""Run git: the only place that starts it, with settings on top that keep it from running what a repository names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torchmigrate.base import system

_QUIET = ("--no-optional-locks",)  # of every command: queries need no lock
# Run no hook, start no daemon, fetch no object, and use no bare repository that lies in the tree.
_SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.sshCommand": "false",
    "core.askPass": "",
    "credential.helper": "",
    "diff.external": "",
    "maintenance.auto": "false",
    "safe.bareRepository": "explicit",
    "submodule.recurse": "false",
}
_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_PROXY_COMMAND": "",  # of several settings of core.gitProxy the first counts
    "GIT_TERMINAL_PROMPT": "0",
}
# For a command that asks another host, in a folder without settings of a project: the user's own proxy, credentials and
# ssh are meant to be used.
_NETWORK_SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "safe.bareRepository": "explicit",
}
_NETWORK_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LFS_SKIP_SMUDGE": "1",
}
# Commands that only read. A repository can make them last for ever (a pipe for an index, a pattern of many stars), so
# they get a time; a command that writes is never killed, as it would leave its lock files behind.
_READING = frozenset(
    ("cat-file", "check-ignore", "config", "diff", "for-each-ref", "ls-files", "merge-base", "rev-parse", "status")
)
_PATIENCE = 60.0  # seconds; git lists a million files in a few
# Settings that name programs and whose keys the repository can choose freely.
_PROGRAMS = re.compile(
    r"filter\..*\.(?:clean|smudge|process|required)|gpg\.(?:.*\.)?program|gpg\.ssh\.defaultkeycommand"
    r"|hook\..*\.(?:command|event|enabled)"
)
_OLDEST = (2, 31)  # the first git version that reads settings from GIT_CONFIG_COUNT
_DEFAULTS = {
    "gpg.program": "gpg",
    "gpg.openpgp.program": "gpg",
    "gpg.x509.program": "gpgsm",
    "gpg.ssh.program": "ssh-keygen",
}
# The repository controls these scopes. An included file has the scope of the file that includes it.
_REPOSITORY_SCOPES = ("local", "worktree")


def overridden(listing: bytes) -> dict[str, str]:
    """Return settings, the user's own or git's default, that undo the programs which a repository names.

    `listing` is the output of `git config --list --show-scope -z`.
    """
    user_values: dict[str, str] = {}
    set_by_repository: set[str] = set()
    for scope, key, value in _entries(listing):
        if not _PROGRAMS.fullmatch(key):
            continue
        if scope in _REPOSITORY_SCOPES:
            set_by_repository.add(key)
        else:
            user_values[key] = value
    hooks = {key for key in set_by_repository if key.startswith("hook.")}
    plain = {key: user_values.get(key, _DEFAULTS.get(key, "")) for key in sorted(set_by_repository - hooks)}
    # newer gits run hooks that settings name
    return plain | {f"{key.rpartition('.')[0]}.enabled": "false" for key in sorted(hooks)}


def _entries(listing: bytes) -> Iterator[tuple[str, str, str]]:
    parts = listing.decode(errors="surrogateescape").split("\0")
    for scope, entry in zip(parts[::2], parts[1::2], strict=False):
        key, valued, value = entry.partition("\n")
        yield scope, key, value if valued else "true"


def environment(variables: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """Return variables that make git apply `settings`; `-c` would split a key that contains `=`."""
    count = variables.get("GIT_CONFIG_COUNT", "")
    first = int(count) if count.isdecimal() else 0
    found: dict[str, str] = {}
    for number, (key, value) in enumerate(settings.items(), first):
        found[f"GIT_CONFIG_KEY_{number}"], found[f"GIT_CONFIG_VALUE_{number}"] = key, value
    if settings:
        found["GIT_CONFIG_COUNT"] = str(first + len(settings))
    return found


class GitError(Exception):
    """A git command failed; the message is git's own line about it, without the advice around it."""


class NoGit(GitError):
    """There is no git on this machine."""


@dataclass(frozen=True)
class Git:
    """git in one folder. Whatever the repository there says, no program that it names runs and nothing is fetched."""

    directory: Path
    env: Mapping[str, str] = field(default_factory=dict)  # on top of the user's environment and of the hardening
    network: bool = False  # may ask other hosts; only in a folder that no project can write settings to

    def __call__(self, *arguments: str, env: Mapping[str, str] | None = None, stdin: bytes | None = None) -> bytes:
        """Run a git command and return its output; raises GitError."""
        client = self._client()
        settings, fixed = (_NETWORK_SETTINGS, self._network()) if self.network else (_SETTINGS, _ENVIRONMENT)
        options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        import tempfile

        import git

        command = next((word for word in arguments if not word.startswith("-")), "")
        reads = command in _READING or (command == "hash-object" and "-w" not in arguments)
        bounded = reads and not self.network and not system.is_windows()  # where GitPython knows how
        with tempfile.TemporaryFile() if stdin is not None else nullcontext() as stream:
            if stream is not None:
                stream.write(stdin or b"")
                stream.seek(0)
            try:
                output = client.execute(
                    ["git", *_QUIET, *options, *arguments],
                    istream=stream,
                    stdout_as_string=False,
                    strip_newline_in_stdout=False,
                    kill_after_timeout=_PATIENCE if bounded else None,
                    env={**self.env, **(env or {}), **fixed},
                )
            except git.exc.GitError as error:
                raise GitError(_complaint(error)) from None
        return bytes(output)

    def _client(self) -> Any:
        try:
            import git  # raises ImportError if there is no git executable
        except ImportError:
            raise NoGit("git is not installed") from None
        return git.Git(self.directory)

    def _network(self) -> dict[str, str]:
        """Return the environment for a command that asks another host, and looks for no repository further up."""
        ssh = os.environ.get("GIT_SSH_COMMAND", "ssh -o BatchMode=yes")
        above = os.fspath(Path(os.path.realpath(self.directory)).parent)
        return {**_NETWORK_ENVIRONMENT, "GIT_SSH_COMMAND": ssh, "GIT_CEILING_DIRECTORIES": above}

    def hardened(self) -> Git:
        """Return git with the settings on top that take back the programs which this repository names."""
        settings = overridden(self("config", "--list", "--show-scope", "-z"))
        if settings and self._client().version_info[:2] < _OLDEST:
            raise GitError(
                "this git is older than 2.31, so what the repository's settings name cannot be kept from running"
            )
        return replace(self, env={**self.env, **environment({**os.environ, **self.env}, settings)})


def _complaint(error: Exception) -> str:
    """Return the line of a GitPython error's output that says what went wrong, without the advice around it."""
    text = str(getattr(error, "stderr", "") or error).strip().removeprefix("stderr:").strip()
    if text.removeprefix("'").startswith("Timeout: "):
        return f"no answer within {_PATIENCE:g} seconds"
    text = text.removeprefix("'").removesuffix("'")  # quotes that GitPython adds
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    line = next((line for line in lines if line.startswith(("error: ", "fatal: "))), lines[-1])
    return line.removeprefix("error: ").removeprefix("fatal: ").rstrip(".")
