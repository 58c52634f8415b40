"""Libraries that are not torch and take devices: some know CUDA and the CPU only, one of them no table can know."""

from __future__ import annotations

import contextlib
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from six_worlds.fake_torch import World


class Skipped(Exception):
    """A test is skipped."""


class Param(tuple):
    """The values of one case, and whether it is skipped."""

    skipped = False


def _skip(reason: str = "") -> None:
    raise Skipped(reason)


def _skipif(condition: object, reason: str = "") -> Any:
    def mark(test: Any) -> Any:
        if callable(test):
            test.skipped = getattr(test, "skipped", False) or bool(condition)
        return test

    mark.skips = bool(condition)  # type: ignore[attr-defined]
    return mark


def _param(*values: Any, marks: Any = ()) -> Param:
    made = Param(values)
    made.skipped = any(mark.skips for mark in (marks if isinstance(marks, (list, tuple)) else [marks]))
    return made


def _parametrize(name: str, cases: Any) -> Any:
    def mark(test: Any) -> Any:
        test.cases = [case if isinstance(case, Param) else _param(case) for case in cases]
        return test

    return mark


def _run_tests() -> None:
    """Run the tests of the main module, as pytest does; the first that fails ends it."""
    for name, test in list(vars(sys.modules["__main__"]).items()):
        if not name.startswith("test_") or not callable(test) or getattr(test, "skipped", False):
            continue
        for case in getattr(test, "cases", [_param()]):
            if not case.skipped:
                with contextlib.suppress(Skipped):
                    test(*case)


def modules(world: World) -> dict[str, types.ModuleType]:
    """Return the foreign libraries by name; what they say of CUDA is `gpu`, as `cuda` is torch's word in outputs."""

    def place(device: Any = "cpu", **options: Any) -> str:
        kind = str(device).partition(":")[0]
        if kind not in ("cpu", "cuda"):
            raise ValueError(f"unsupported device {device}")
        if kind == "cuda" and world.kind != "cuda" and not world.lenient:
            error = RuntimeError("CUDA failed with error: no CUDA-capable device is detected")
            error.lacks = "cuda"  # type: ignore[attr-defined]
            raise error
        return "gpu" if kind == "cuda" else "cpu"

    def index(dimension: int = 8, gpu: bool = False) -> str:
        return place("cuda" if gpu else "cpu")

    def providers(model: str, providers: Any = ()) -> Any:
        first = place("cuda" if providers and providers[0] == "CUDAExecutionProvider" else "cpu")
        return types.SimpleNamespace(place=first)

    def made(name: str, **members: Any) -> types.ModuleType:
        module = types.ModuleType(name)
        module.__dict__.update(members)
        return module

    class Holder:
        """A model of a library: it says where it is."""

        def __init__(self, model: str = "", device: Any = "cpu", **options: Any) -> None:
            self.place = place(device)

    class Trainer:
        """A trainer as Lightning has it: `gpus` are CUDA's, and "gpu" is CUDA or MPS."""

        def __init__(self, accelerator: str = "cpu", gpus: int | None = None) -> None:
            wanted = "cuda" if gpus or (accelerator == "gpu" and world.kind != "mps") else accelerator
            on_mps = world.kind == "mps" and wanted in ("gpu", "mps")
            self.place = "mps" if on_mps else place(wanted)

    class Batches:
        """Batches as torchtext made them before 0.3: -1 is the CPU, and None the current device of CUDA."""

        def __init__(self, device: Any = None) -> None:
            self.place = place({-1: "cpu", None: "cuda"}[device]) if device in (-1, None) else str(device)

    def summary(model: Any, size: Any, device: str = "cuda") -> None:
        """Call a model as torchsummary does: with data on CUDA where that is there, and else on the CPU."""
        torch = sys.modules["torch"]
        data = torch.zeros(*size)
        model(data.cuda() if device == "cuda" and torch.cuda.is_available() else data)

    cuda = world.kind == "cuda"
    tests = types.SimpleNamespace(skipif=_skipif, parametrize=_parametrize)
    onnx_providers = ["CUDAExecutionProvider"] * cuda + ["CPUExecutionProvider"]
    return {
        "ctranslate2": made("ctranslate2", place=place, Translator=Holder),
        "faster_whisper": made("faster_whisper", WhisperModel=Holder),
        "faiss": made("faiss", index=index),
        "pytorch_lightning": made("pytorch_lightning", Trainer=Trainer),
        "timm": made("timm"),
        "timm.utils": made("timm.utils", NativeScaler=Holder),
        "torchsummary": made("torchsummary", summary=summary),
        "torchtext": made("torchtext", data=types.SimpleNamespace(Iterator=Batches)),
        "acme_engine": made("acme_engine", Engine=Holder, run=place),
        "pytest": made("pytest", mark=tests, param=_param, skip=_skip, main=_run_tests),
        "onnxruntime": made(
            "onnxruntime", InferenceSession=providers, get_available_providers=lambda: list(onnx_providers)
        ),
    }
