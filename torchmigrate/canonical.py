"""The names that torch documents, for those under which it keeps the same."""

from __future__ import annotations

# where torch keeps what it documents one level up
CANONICAL = (
    ("torch.cuda.amp.autocast_mode.", "torch.cuda.amp."),
    ("torch.cuda.amp.grad_scaler.", "torch.cuda.amp."),
    ("torch.amp.autocast_mode.", "torch.amp."),
    ("torch.amp.grad_scaler.", "torch.amp."),
    ("torch.cuda.memory.", "torch.cuda."),
    ("torch.cuda.random.", "torch.cuda."),
    ("torch.cuda.streams.", "torch.cuda."),
    ("torch.cuda.graphs.", "torch.cuda."),
    ("torch.cuda.green_contexts.GreenContext", "torch.cuda.GreenContext"),
    ("torch.xpu.memory.", "torch.xpu."),
    ("torch.xpu.random.", "torch.xpu."),
    ("torch.xpu.streams.", "torch.xpu."),
    ("torch.xpu.graphs.", "torch.xpu."),
    ("torch.mtia.memory.", "torch.mtia."),
    ("torch.mtia.mtia_graph.", "torch.mtia."),
    ("torch.mps.event.", "torch.mps."),
    ("torch.accelerator.memory.", "torch.accelerator."),
    ("torch.accelerator.graphs.", "torch.accelerator."),
    ("torch.nn.parallel.distributed.", "torch.nn.parallel."),
    ("torch.nn.parallel.data_parallel.", "torch.nn.parallel."),
    ("torch.nn.parallel.DataParallel", "torch.nn.DataParallel"),
    ("torch.distributed.distributed_c10d.", "torch.distributed."),
    ("torch.utils.data.dataloader.", "torch.utils.data."),
    ("torch.autograd.variable.", "torch.autograd."),
    ("torch.serialization.", "torch."),
    ("torch.random.", "torch."),
)


_LONG = tuple(prefix for prefix, _ in CANONICAL)


def canonical(name: str) -> str:
    if not name.startswith(_LONG):
        return name
    for prefix, short in CANONICAL:
        if name.startswith(prefix):
            return short + name[len(prefix) :]
    return name
