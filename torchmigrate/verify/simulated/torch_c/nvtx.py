"""NVTX on a simulated CUDA device: ranges are counted, for the depths that NVTX returns, and shown to nobody."""

from __future__ import annotations

import threading


class Ranges(threading.local):
    """torch._C._nvtx. Depths count from 0 in each thread."""

    def __init__(self) -> None:
        self.depth = 0
        self.last = 0

    def rangePushA(self, message: str) -> int:
        """The depth of the range that starts."""
        self.depth += 1
        return self.depth - 1

    def rangePop(self) -> int:
        """The depth of the range that ends; -2, as NVTX says, where none is open."""
        if self.depth == 0:
            return -2
        self.depth -= 1
        return self.depth

    def rangeStartA(self, message: str) -> int:
        """A handle for rangeEnd."""
        self.last += 1
        return self.last

    def rangeEnd(self, handle: int) -> None:
        """Nothing to do."""

    def markA(self, message: str) -> None:
        """Nothing to do."""
