"""The backends that rules and settings may name."""

from __future__ import annotations

BACKENDS = ("cpu", "cuda", "rocm", "mps", "xpu", "npu", "mtia", "hpu", "mlu", "musa", "xla", "privateuse1")
