"""The environment's settings, read once (the protocol is activation.py's)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .profiles import Profile, profile_of


@dataclass(frozen=True)
class Settings:
    """What this process is to see. `memory` in bytes per device; `reports` and `project` are folders, "" for none."""

    backend: str
    count: int
    evidence: str
    tier: str
    memory: int
    reports: str
    project: str
    readonly: str = ""
    """A folder that nothing may write below: the user's own project."""

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Settings:
        """ValueError for a backend that cannot be simulated, or more devices than it can have."""
        backend, _, count = environment["TORCHMIGRATE_BACKEND"].partition(":")
        if count and not (count.isdecimal() and int(count)):
            raise ValueError(f"TORCHMIGRATE_BACKEND={backend}:{count} names no number of devices")
        made = cls(
            backend=backend,
            count=int(count or 1),
            evidence=environment.get("TORCHMIGRATE_EVIDENCE", "simulated"),
            tier=environment.get("TORCHMIGRATE_TIER", "native"),
            memory=int(environment.get("TORCHMIGRATE_MEMORY") or 0) or 8 << 30,
            reports=environment.get("TORCHMIGRATE_REPORTS", ""),
            project=environment.get("TORCHMIGRATE_PROJECT", ""),
            readonly=environment.get("TORCHMIGRATE_READONLY", ""),
        )
        if made.simulated and made.count > made.profile.most:
            raise ValueError(f"{backend} has at most {made.profile.most} device(s) in a process, not {made.count}")
        return made

    @property
    def simulated(self) -> bool:
        """Whether a simulated device is to be active."""
        return self.evidence == "simulated"

    @property
    def native(self) -> bool:
        """Whether that is the one in C++."""
        return self.simulated and self.tier == "native"

    @property
    def profile(self) -> Profile:
        """The backend's."""
        return profile_of(self.backend)
