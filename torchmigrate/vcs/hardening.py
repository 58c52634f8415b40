"""What keeps git from running programs that a repository names: settings that overrule the repository's own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

# No hook runs, no daemon is started, no object is fetched, no repository is found that merely lies in the tree.
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
# Options of git itself, for each command; no lock is taken for what we ask.
QUIET = ("--no-optional-locks", *(word for key, value in _SETTINGS.items() for word in ("-c", f"{key}={value}")))
_ENVIRONMENT = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
# Of what a repository may set, that which names programs under a name of its own choice.
_PROGRAMS = re.compile(
    r"filter\..*\.(?:clean|smudge|process|required)|gpg\.(?:.*\.)?program|gpg\.ssh\.defaultkeycommand"
)
_DEFAULTS = {
    "gpg.program": "gpg",
    "gpg.openpgp.program": "gpg",
    "gpg.x509.program": "gpgsm",
    "gpg.ssh.program": "ssh-keygen",
}
_OWN = ("local", "worktree")  # scopes of the repository; what it includes is of the scope that includes it


def overridden(listing: bytes) -> dict[str, str]:
    """Settings that take back the programs a repository names, from `git config --list --show-scope -z`: the user's
    own value where there is one, else git's default."""
    theirs: dict[str, str] = {}
    own: set[str] = set()
    for scope, key, value in _entries(listing):
        if not _PROGRAMS.fullmatch(key):
            continue
        if scope in _OWN:
            own.add(key)
        else:
            theirs[key] = value
    return {key: theirs.get(key, _DEFAULTS.get(key, "")) for key in sorted(own)}


def _entries(listing: bytes) -> Iterator[tuple[str, str, str]]:
    parts = listing.decode(errors="surrogateescape").split("\0")
    for scope, entry in zip(parts[::2], parts[1::2], strict=False):
        key, valued, value = entry.partition("\n")
        yield scope, key, value if valued else "true"


def environment(variables: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """What to add to git's environment: settings whose keys the repository chose. `-c` would cut one that holds `=`."""
    count = variables.get("GIT_CONFIG_COUNT", "")
    first = int(count) if count.isdecimal() else 0
    found = dict(_ENVIRONMENT)
    for number, (key, value) in enumerate(settings.items(), first):
        found[f"GIT_CONFIG_KEY_{number}"], found[f"GIT_CONFIG_VALUE_{number}"] = key, value
    if settings:
        found["GIT_CONFIG_COUNT"] = str(first + len(settings))
    return found
