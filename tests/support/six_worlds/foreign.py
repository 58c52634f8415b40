"""Libraries that are not torch and take devices: some know CUDA and the CPU only, one of them no table can know."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from six_worlds.fake_torch import World


def modules(world: World) -> dict[str, types.ModuleType]:
    """Return the foreign libraries by name; what they say of CUDA is `gpu`, as `cuda` is torch's word in outputs."""

    def place(device: Any = "cpu", **options: Any) -> str:
        kind = str(device).partition(":")[0]
        if kind not in ("cpu", "cuda"):
            raise ValueError(f"unsupported device {device}")
        if kind == "cuda" and world.kind != "cuda":
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

    cuda = world.kind == "cuda"
    onnx_providers = ["CUDAExecutionProvider"] * cuda + ["CPUExecutionProvider"]
    return {
        "ctranslate2": made("ctranslate2", place=place, Translator=Holder),
        "faster_whisper": made("faster_whisper", WhisperModel=Holder),
        "faiss": made("faiss", index=index),
        "acme_engine": made("acme_engine", Engine=Holder, run=place),
        "onnxruntime": made(
            "onnxruntime", InferenceSession=providers, get_available_providers=lambda: list(onnx_providers)
        ),
    }
