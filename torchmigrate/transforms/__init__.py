"""Rules that two expressions cannot say: one public generator each, the file named as the function."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from torchmigrate.edits import Finding
from torchmigrate.errors import did_you_mean
from torchmigrate.module import Site
from torchmigrate.pack import PackError
from torchmigrate.rule import Rule

# a rule file is data: it may name one of these, never a module of its own
NAMES = frozenset(
    {
        "autocast", "availability", "capability", "capability_gate", "compile_options", "cpp_extension",
        "cuda_namespace", "default_tensor_type", "device_count", "device_id", "device_idiom", "device_ids",
        "device_index", "device_string", "device_test", "distributed_backend", "double", "environment", "float64",
        "fsdp", "graph_break", "helper_class", "import_probe", "legacy_constructor", "library_ops", "map_location",
        "move_to_device", "mps_checkpoint", "mps_operator", "nested", "non_blocking", "nvidia_library",
        "other_backend", "pin_memory", "profiler", "provider", "quantization", "record_stream", "saved_program",
        "sdp_kernel", "seed", "shared_memory", "sparse", "stream", "tensor_type", "tf32", "worker_count",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Transform:
    """A generator that is imported when it is first called: a run without work imports none."""

    name: str

    @cached_property
    def _generator(self) -> Callable[[Site], Iterator[Finding]]:
        return getattr(importlib.import_module(f"torchmigrate.transforms.{self.name}"), self.name)  # type: ignore[no-any-return]

    def __call__(self, site: Site) -> Iterator[Finding]:
        return self._generator(site)


def find(rule: Rule) -> Callable[[Site], Iterator[Finding]]:
    """The generator that `transform = "name"` means. Raises PackError."""
    if rule.transform not in NAMES:
        near = did_you_mean(str(rule.transform), NAMES) or f"known transforms: {', '.join(sorted(NAMES))}"
        raise PackError(f"{rule.path}:1: there is no transform {rule.transform!r}\nhelp: {near}")
    return Transform(rule.transform)
