"""Explain torch's exceptions in plain words; a cause that is only read from the source is called likely."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torchmigrate.torch_api.backends import OTHERS
from torchmigrate.torch_api.libraries import CUDA_ONLY, NAMESPACES
from torchmigrate.verify.diagnosis.failures import Case, Failure, Place, first_line, on


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause says in words what is likely behind an exception; findings of `rules` may name where it began."""

    words: str
    rules: tuple[str, ...] = ()


def explain(failure: Failure, code: str, place: Place) -> Cause | None:
    """Return the likely cause of a known kind of exception, else None; `code`: the expression that failed, or ""."""
    text = f"{failure.kind}: {failure.message}"
    for pattern, say in _CLASSES:
        if match := pattern.search(text):
            return Cause(say(Case(failure, code, match, place)), ABOUT.get(say, ()))
    return None


def _two_devices(case: Case) -> str:
    if not case.suspects:
        return f"tensors on two devices meet in {case.here}: {first_line(case.failure.message)}"
    suspect, guard = case.suspects[0], case.suspects[0].get("guard")
    if suspect["device"] != "cpu":
        return f"{case.names} on {suspect['device']}, not on {case.rest} as the rest{case.made}"
    if guard is None or case.backend == "cuda":
        return f"{case.names} still on the CPU, not on {case.rest} as the rest{case.made}"
    where = case.place(guard["file"], guard["line"])
    why = f"{where} moves what is needed only under `{first_line(guard['test'])}`"
    return f"{case.names} still on the CPU, not on {case.rest} as the rest: likely a CUDA-only branch, as {why}"


def _wants_host(case: Case) -> str:
    what = f"{case.names} on {case.suspects[0]['device']}" if case.suspects else "a tensor is on the device"
    return f"{what}, but {case.here} takes memory of the host only: a `.cpu()` is missing{case.made}"


def _random_state(case: Case) -> str:
    what = f"; {case.names} on {case.suspects[0]['device']}" if case.suspects else ""
    return f"a random state must be a tensor on the CPU{what}: likely a `map_location` moved it along with the weights"


def _generator(case: Case) -> str:
    what = case.names if case.suspects else "the generator is"
    return f"{what} a generator of {on(case.match['found'])}, and the tensor is on {case.match['wanted']}{case.made}"


def _float64(case: Case) -> str:
    wide = "complex128" if case.suspects and "complex128" in case.suspects[0]["dtype"] else "float64"
    what = f"{case.names} {wide}" if case.suspects else f"{case.here} makes a {wide} tensor"
    return f"{what}, which {case.backend} does not have: float32 is needed there{case.made}"


def _missing_on_mps(case: Case) -> str:
    has_none = f"torch {case.failure.run.torch} has no `{case.match['operator']}` for MPS".replace("  ", " ")
    return f"{has_none}: PYTORCH_ENABLE_MPS_FALLBACK=1 runs it on the CPU, which is slower"


def _missing(case: Case) -> str:
    return (
        f"torch has no `{case.match['operator']}` for {case.match['backend']} tensors: {case.here} must run on the CPU"
    )


def _missing_dtype(case: Case) -> str:
    what = f"torch's kernel of {case.match['operator']} does not take {case.match['dtype']}"
    also = "; a simulated device runs the CPU's kernels, and the real one's may take it" if case.simulated else ""
    return what + also


def _checkpoint(case: Case) -> str:
    device = (case.match["device"] or case.match["tag"]).lower()
    return f"{case.here} reads tensors saved on {device}, which is not there: its `map_location` is missing or wrong"


def _pinned_on_device(case: Case) -> str:
    return f"only memory of the host can be pinned: {case.here} pins what is on the device already{case.made}"


def _storage(case: Case) -> str:
    if "pin" in case.code or any("pin_memory" in frame.file for frame in case.failure.frames):
        return f"{case.here} pins memory, which on MPS makes a tensor of the device: pinning has to be left out there"
    return f"{case.here} gives a tensor on {on(case.match['tensor'])} a storage on {on(case.match['storage'])}"


def _device_index(case: Case) -> str:
    return f"{case.here} asks for a device that is not there: {first_line(case.failure.message)}"


def _memory(case: Case) -> str:
    where = ", whose size is simulated" if case.simulated else ""
    return f"{case.here} needs more memory than the device has{where}: {first_line(case.failure.message)}"


def _graph(case: Case) -> str:
    also = "; simulated devices capture none, of no backend" if case.simulated else ""
    return f"{case.here} captures a CUDA graph{also}"


def _cuda_left(case: Case) -> str:
    return "a call that only CUDA has is left" + (f": {case.here}" if case.code else "")


def _no_attribute(case: Case) -> str:
    module, name = case.match["module"], case.match["name"]
    return f"`{module}` has no `{name}`: likely a call that only CUDA has is left: {case.here}"


def _data_parallel(case: Case) -> str:
    return f"{case.here} runs a module of DataParallel, which spreads over CUDA devices alone"


def _no_accelerator(case: Case) -> str:
    return f"{case.here} needs an accelerator, and this run has none"


def _process_group(case: Case) -> str:
    return f"{case.here}: the process group is one of nccl's or xccl's, which are not here for {case.backend}; gloo is"


def _collective(case: Case) -> str:
    what = f" ({case.match['operator']})" if case.match["operator"] else ""
    mend = "where one process runs, leave DistributedDataParallel and collectives out"
    return f"{case.here} needs a collective{what}, and MPS has none, whatever the process group's backend: {mend}"


def _package(case: Case) -> str:
    name = case.match["package"]
    is_for_cuda = name.split(".")[0] in CUDA_ONLY.keys() | NAMESPACES
    known = "; it is made for CUDA, so its import likely wants a guard" if is_for_cuda else ""
    return f"`{name}` is not installed in the environment that runs the program{known}"


def _file(case: Case) -> str:
    name = case.match["file"]
    if os.path.isabs(name):
        return f"`{name}` does not exist on this machine"
    if os.path.normpath(name).startswith(os.pardir):
        return f"`{name}` is outside the project, whose copies are elsewhere: write its whole path, from / on"
    own = "a program that wants its own folder, or another, is verified with that folder as PATH"
    return f"`{name}` is not in the copy of PATH, where the command starts: {own}"


def _forked(case: Case) -> str:
    return f"{case.here} uses the device in a forked process: such a process has to be spawned"


def _imported_anew(case: Case) -> str:
    why = "a process that is spawned, as on macOS, imports the program anew"
    mend = 'what it does when it starts belongs under `if __name__ == "__main__":`'
    return f"{why}: {mend} (`--platform linux` forks, as Linux does)"


def _compiler(case: Case) -> str:
    return "torch.compile's inductor makes no code for this device here: likely another backend of it is needed"


def _poisoned(case: Case) -> str:
    return f"{case.here} read memory that nothing had been written to: likely a synchronize() is missing before it"


_TEXTS: Sequence[tuple[str, Callable[[Case], str]]] = (
    (r"No module named '(?P<package>[\w.]+)'", _package),
    (r"FileNotFoundError: \[Errno 2\] [^:]*: '(?P<file>[^']+)'", _file),
    (r"out of memory|OutOfMemoryError", _memory),
    (r"to numpy\. Use Tensor\.cpu\(\)|should be a 1D CPU", _wants_host),
    (r"RNG state must be|expected a torch\.ByteTensor", _random_state),
    (r"Expected a '(?P<wanted>\w+)' device type for generator but found '(?P<found>\w+)'", _generator),
    (r"[Oo]nly dense CPU tensors can be pinned", _pinned_on_device),
    (r'storage of a tensor on device "(?P<tensor>\w+)\S* to a storage on different device "(?P<storage>\w+)', _storage),
    (
        r"on the same device|same device as the indexed|not at the same device|not on the expected device"
        r"|Placeholder storage has not been allocated|is on \S+ but expected on|parameters and buffers on device"
        r"|Input type \(\S*Tensor\) and weight|Input type \(MPS\w+\) and weight",
        _two_devices,
    ),
    (r"support float64|to float64 dtype|have support for that dtype|fp64", _float64),
    (r"The operator '(?P<operator>aten::[\w.]+)' is not currently implemented for the MPS", _missing_on_mps),
    (
        r"(?:Could not run|The operator) '(?P<operator>c10d::[\w.]+)' (?=.*\bMPS\b)"
        r"|No backend type associated with device type mps",
        _collective,
    ),
    (r"Could not run '(?P<operator>\w+::[\w.]+)' (with arguments )?from the '(?P<backend>\w+)' backend", _missing),
    (r'"(?P<operator>\w+)" not implemented for \'(?P<dtype>\w+)\'', _missing_dtype),
    (
        r"deserialize object on (a )?(?P<device>\w+) device|restore data location of .*tagged with (?P<tag>[\w:]+)",
        _checkpoint,
    ),
    (r"NCCL|XCCL|No backend type associated with device type", _process_group),
    (r"Cannot re-initialize \w+ in forked subprocess", _forked),
    (r"start a new process before the\s+current process has finished its bootstrapping", _imported_anew),
    (r"[Ii]nvalid device (ordinal|index)|device_count\(\) is \d|index is out of range\. It must be in", _device_index),
    (r"CUDAGraph|capture no graphs|Graph is not supported", _graph),
    (r"Cannot find a working triton|TritonMissing|InductorError|BackendCompilerFailed", _compiler),
    (rf"module '(?P<module>torch\.({'|'.join(('cpu', *OTHERS))}))' has no attribute '(?P<name>\w+)'", _no_attribute),
    (
        r"compiled with(out)? CUDA|_cuda_\w+|without ATen_cuda|dummy base class|requires CUDA support|no NVIDIA driver"
        r"|No CUDA GPUs|torch\.cuda\.\w+ not available|NVTX functions not|CUDA_HOME|allocated_bytes\.all\.current",
        _cuda_left,
    ),
    (r"module 'torch\._C' has no attribute '_(scatter|gather|broadcast)\w*'", _data_parallel),
    (r"Cannot access accelerator device when none is available", _no_accelerator),
    (r"\b(2139062143|9187201950435737471|3\.3961\d*e\+38)\b", _poisoned),
)
# What fails in one line often begins in another, of which `check` has spoken under one of these rules.
ABOUT: Mapping[Callable[[Case], str], tuple[str, ...]] = {
    _two_devices: ("hazard/default-tensor-type", "tensor_type/legacy-constructor"),
    _float64: ("hazard/float64", "hazard/double"),
    _missing_on_mps: ("hazard/mps-operator",),
    _collective: ("distributed/mps", "distributed/fsdp", "distributed/device-id"),
    _process_group: ("distributed/nccl",),
    _package: ("hazard/nvidia-library",),
    _graph: ("compile/cuda-graphs",),
    _compiler: ("compile/inductor", "compile/cuda-graphs"),
    _forked: ("multiprocessing/sharing",),
    _device_index: ("hazard/worker-count", "device/device-ids"),
    _cuda_left: ("hazard/cuda-only", "hazard/cuda-namespace"),
    _no_attribute: ("hazard/cuda-only", "hazard/cuda-namespace"),
    _data_parallel: ("device/data-parallel",),
}
_CLASSES = [(re.compile(pattern), say) for pattern, say in _TEXTS]
