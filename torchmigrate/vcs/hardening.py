"""Settings that override a repository's own, so that git runs no program that the repository names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

# Run no hook, start no daemon, fetch no object, and use no bare repository that lies in the tree.
_SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.sshCommand": "false",
    "core.gitProxy": "",
    "core.askPass": "",
    "credential.helper": "",
    "diff.external": "",
    "maintenance.auto": "false",
    "safe.bareRepository": "explicit",
    "submodule.recurse": "false",
}
# Options for every git command. Queries need no lock.
QUIET = ("--no-optional-locks", *(word for key, value in _SETTINGS.items() for word in ("-c", f"{key}={value}")))
_ENVIRONMENT = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
# Settings that name programs and whose keys the repository can choose freely.
_PROGRAMS = re.compile(
    r"filter\..*\.(?:clean|smudge|process|required)|gpg\.(?:.*\.)?program|gpg\.ssh\.defaultkeycommand"
)
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
    return {key: user_values.get(key, _DEFAULTS.get(key, "")) for key in sorted(set_by_repository)}


def _entries(listing: bytes) -> Iterator[tuple[str, str, str]]:
    parts = listing.decode(errors="surrogateescape").split("\0")
    for scope, entry in zip(parts[::2], parts[1::2], strict=False):
        key, valued, value = entry.partition("\n")
        yield scope, key, value if valued else "true"


def environment(variables: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """Return variables that make git apply `settings`; `-c` would split a key that contains `=`."""
    count = variables.get("GIT_CONFIG_COUNT", "")
    first = int(count) if count.isdecimal() else 0
    found = dict(_ENVIRONMENT)
    for number, (key, value) in enumerate(settings.items(), first):
        found[f"GIT_CONFIG_KEY_{number}"], found[f"GIT_CONFIG_VALUE_{number}"] = key, value
    if settings:
        found["GIT_CONFIG_COUNT"] = str(first + len(settings))
    return found
