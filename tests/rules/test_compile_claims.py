"""What rules/compile says of torch.compile, asked of the installed torch on the CPU."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed, InvalidBackend

from torchmigrate.fixers.api.compile import _BACKENDS


@pytest.fixture(autouse=True)
def afresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def product(x: torch.Tensor) -> torch.Tensor:
    return (x @ x).relu().sum()


@pytest.mark.parametrize("name", sorted(_BACKENDS))
def test_nvidias_backends_are_not_registered(name: str) -> None:
    with pytest.raises(InvalidBackend):
        torch.compile(product, backend=name)(torch.ones(2, 2))


def test_cuda_graphs_are_skipped_in_silence() -> None:
    x = torch.ones(2, 2, requires_grad=True)
    result = torch.compile(product, backend="cudagraphs")(x)
    result.backward()
    assert torch.equal(result, product(x))
    assert torch.equal(x.grad, torch.full((2, 2), 4.0))
    torch.compiler.cudagraph_mark_step_begin()


def test_a_skip_may_be_made_an_error() -> None:
    import torch._inductor.config as config

    with (
        config.patch({"triton.cudagraph_or_error": True}),
        pytest.raises(BackendCompilerFailed, match="skipping cudagraphs"),
    ):
        torch.compile(product, backend="cudagraphs")(torch.ones(2, 2, requires_grad=True))


@pytest.mark.parametrize("backends", ["TRITON", "CUTLASS,CPP"])
def test_autotuning_needs_a_choice(backends: str) -> None:
    """It fails before anything is built: no C++ compiler is needed."""
    from torch._inductor.exc import InductorError

    options = {"max_autotune": True, "max_autotune_gemm_backends": backends}
    with pytest.raises(InductorError, match="NoValidChoicesError"):
        torch.compile(product, options=options)(torch.ones(33, 33))
