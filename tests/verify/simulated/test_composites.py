"""The kernels made of other operators, run on the CPU against torch's own."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from torchmigrate.verify.simulated.torch_c import composites


def doubles(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def linear_gates(gates: int) -> tuple[torch.Tensor, ...]:
    """x, h, both weights and biases of a cell with 3 inputs and 5 hidden values, for a batch of 2."""
    n = 5 * gates
    return doubles(2, 3), doubles(2, 5), doubles(n, 3), doubles(n, 5), doubles(n), doubles(n)


def test_lstm_cell() -> None:
    x, h, w_x, w_h, b_x, b_h = linear_gates(4)
    c = doubles(2, 5)
    expected = torch.lstm_cell(x, (h, c), w_x, w_h, b_x, b_h)
    actual = composites.lstm_cell(x @ w_x.t(), h @ w_h.t(), c, b_x, b_h)[:2]
    torch.testing.assert_close(actual, expected)


def test_gru_cell() -> None:
    x, h, w_x, w_h, b_x, b_h = linear_gates(3)
    expected = torch.gru_cell(x, h, w_x, w_h, b_x, b_h)
    torch.testing.assert_close(composites.gru_cell(x @ w_x.t(), h @ w_h.t(), h, b_x, b_h)[0], expected)


@pytest.mark.parametrize("biased", [True, False])
def test_lstm_cell_backward(biased: bool) -> None:
    gates, hidden, c = doubles(2, 20), doubles(2, 20), doubles(2, 5)
    biases = (doubles(20), doubles(20)) if biased else ()
    hy, cy, workspace = composites.lstm_cell(gates, hidden, c, *biases)
    grad_hy, grad_cy = torch.randn_like(hy), torch.randn_like(cy)
    expected = torch.autograd.grad([hy, cy], [gates, c, *biases[:1]], [grad_hy, grad_cy], retain_graph=True)
    actual = composites.lstm_cell_backward(grad_hy, grad_cy, c, cy, workspace, biased)
    torch.testing.assert_close(actual[: len(expected)], expected)
    assert (actual[2] is None) == (not biased)
    for given in ((grad_hy, None), (None, grad_cy)):
        outputs, grads = zip(*((out, g) for out, g in zip((hy, cy), given, strict=True) if g is not None), strict=True)
        expected = torch.autograd.grad(outputs, [gates, c], grads, retain_graph=True)
        torch.testing.assert_close(composites.lstm_cell_backward(*given, c, cy, workspace, biased)[:2], expected)


@pytest.mark.parametrize("biased", [True, False])
def test_gru_cell_backward(biased: bool) -> None:
    gates, hidden, h = doubles(2, 15), doubles(2, 15), doubles(2, 5)
    biases = (doubles(15), doubles(15)) if biased else ()
    hy, workspace = composites.gru_cell(gates, hidden, h, *biases)
    grad = torch.randn_like(hy)
    expected = torch.autograd.grad(hy, [gates, hidden, h, *biases], grad)
    actual = composites.gru_cell_backward(grad, workspace, biased)
    torch.testing.assert_close(actual[: len(expected)], expected)
    assert (actual[3] is None) == (not biased)


@pytest.mark.parametrize("mask", ["none", "boolean", "added", "causal"])
def test_attention(mask: str) -> None:
    query, key, value = (torch.randn(2, 4, 5, 8) for _ in range(3))
    masks = {"boolean": torch.rand(5, 5) > 0.3, "added": torch.randn(5, 5)}
    options = {"attn_mask": masks.get(mask), "is_causal": mask == "causal"}
    expected = F.scaled_dot_product_attention(query, key, value, **options)
    torch.testing.assert_close(composites.attention(query, key, value, **options), expected)


def test_attention_of_grouped_queries() -> None:
    query, key, value = torch.randn(1, 4, 5, 8), torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8)
    expected = F.scaled_dot_product_attention(query, key, value, scale=0.3, enable_gqa=True)
    torch.testing.assert_close(composites.attention(query, key, value, scale=0.3, enable_gqa=True), expected)
