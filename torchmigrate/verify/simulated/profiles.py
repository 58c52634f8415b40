"""Define the profiles of simulated backends (device limits, banned dtypes, messages), and the settings of a process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """A profile has a backend's limits and messages, with torch's dtype names, and {} for an operator's name."""

    backend: str
    most: int = 16
    """The number of devices that the backend can have in one process."""
    banned: tuple[str, ...] = ()
    dtype_message: str = ""
    missing_message: str = ""
    incapable: tuple[str, ...] = ()
    """Dtypes, besides the banned ones, that torch.accelerator.get_device_capability() leaves out."""
    memory_only: tuple[str, ...] = ()
    """Dtypes that can be held and copied, but that no kernel takes or gives."""
    memory_only_message: str = ""
    narrow: tuple[str, ...] = ()
    """Operators, without their variants, that do not take `narrow_dtypes`."""
    narrow_dtypes: tuple[str, ...] = ()
    narrow_message: str = ""
    architecture: str = ""
    runtime_version: int = 0

    @property
    def in_tree(self) -> bool:
        """Return whether torch knows the device type by name; other backends use PrivateUse1, renamed."""
        return self.backend in ("cuda", "mps", "xpu", "mtia")


# from aten/src/ATen/mps/MPSFallback.mm, and the dtype check of at::mps
_MPS_MISSING = (
    "The operator '{}' is not currently implemented for the MPS device. If you want this op to be considered for "
    "addition please comment on https://github.com/pytorch/pytorch/issues/141287 and mention use-case, that resulted "
    "in missing op as well as commit hash. As a temporary fix, you can set the environment variable "
    "`PYTORCH_ENABLE_MPS_FALLBACK=1` to use the CPU as a fallback for this op. WARNING: this will be slower than "
    "running natively on MPS."
)
_MPS_DTYPE = (
    "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. Please use float32 "
    "instead."
)
# the capability list of ATen/mps/MPSGuardImpl.h lacks these, besides the banned ones
_MPS_INCAPABLE = ("float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz")

PROFILES = {
    profile.backend: profile
    for profile in (
        Profile("cuda", architecture="sm_80", runtime_version=12080),
        Profile(
            "mps",
            most=1,
            banned=("float64", "complex128"),
            dtype_message=_MPS_DTYPE,
            missing_message=_MPS_MISSING,
            incapable=_MPS_INCAPABLE,
        ),
        Profile("xpu"),
        Profile("npu"),
        Profile("mtia"),
    )
}


# The products among torch_npu's list of supported APIs, which gives 64-bit floats to none of them (Ascend/pytorch,
# docs/zh/api/native_api/pytorch_2-11-0, at commit 9e73e70). Of bfloat16 and whole numbers it says less than the devices
# do, and an operator that has no kernel there runs on the CPU, with a warning (csrc/aten/VariableFallbackKernel.cpp).
_NARROW_ON_NPU = (
    *("mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "addbmm", "dot", "linear"),
    *("convolution", "convolution_backward", "_convolution"),
)

# devices of a backend that lack what others of it have; arc's message is SYCL's
VARIANTS = {
    "arc": Profile(
        "xpu",
        memory_only=("float64", "complex128"),
        memory_only_message="Required aspect fp64 is not supported on the device",
    ),
    "atlas": Profile(
        "npu",
        narrow=_NARROW_ON_NPU,
        narrow_dtypes=("float64", "complex128"),
        narrow_message="{} is not in the list of dtypes that Ascend's devices support",
    ),
}


def profile_of(backend: str, variant: str = "") -> Profile:
    """Return the profile of a backend, of that variant if it is one of it; raises ValueError for what is unknown."""
    if backend not in PROFILES:
        raise ValueError(f"{backend!r} cannot be simulated; these can: {', '.join(PROFILES)}")
    if variant and variant not in VARIANTS:
        raise ValueError(f"no profile {variant!r}; there is {', '.join(VARIANTS)}")
    found = VARIANTS.get(variant)
    return found if found and found.backend == backend else PROFILES[backend]


@dataclass(frozen=True)
class Settings:
    """A process has settings: bytes of `memory` per device, folders `reports` and `project` ("" for none)."""

    backend: str
    count: int
    evidence: str
    tier: str
    memory: int
    reports: str
    project: str
    readonly: str = ""
    """A folder below which nothing may be written: the user's own project."""
    shared: str = ""
    """The tree with which the copy of the project shares files until it writes them."""
    variant: str = ""
    """The name of a profile in VARIANTS."""
    platform: str = ""
    """"macos": processes start as they do there."""

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Settings:
        """Read the environment; raises ValueError for an unknown backend, or more devices than it can have."""
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
            shared=environment.get("TORCHMIGRATE_SHARED", ""),
            variant=environment.get("TORCHMIGRATE_PROFILE", ""),
            platform=environment.get("TORCHMIGRATE_PLATFORM", ""),
        )
        if made.simulated and made.count > made.profile.most:
            raise ValueError(f"{backend} has at most {made.profile.most} device(s) in a process, not {made.count}")
        return made

    @property
    def simulated(self) -> bool:
        """Return whether a simulated device is to be active."""
        return self.evidence == "simulated"

    @property
    def native(self) -> bool:
        """Return whether that device is the one in C++."""
        return self.simulated and self.tier == "native"

    @property
    def profile(self) -> Profile:
        """Return the backend's profile."""
        return profile_of(self.backend, self.variant)
