"""What may be on the CPU next to a device's tensor, as in programs for CUDA, and what may not, as in wrong ports."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy
import torch
import torch.nn.functional as F
from checks import DEVICE, each
from torch import nn
from torch.utils._pytree import tree_leaves

x = torch.linspace(-1.5, 2.0, 12).view(4, 3).to(DEVICE)
host = x.cpu()
half = torch.tensor(0.5)  # a scalar on the CPU


def stays_on_the_device(idiom: Callable[[], Any]) -> None:
    made = [t for t in tree_leaves(idiom()) if isinstance(t, torch.Tensor)]
    assert made and all(t.device == x.device for t in made), [t.device for t in made]


def is_refused(mistake: Callable[[], Any]) -> None:
    try:
        made = mistake()
    except (RuntimeError, TypeError, IndexError, ValueError) as e:
        words = ("device", "numpy", "CPU", "cpu")  # says what is wrong with it
        assert any(word in str(e) for word in words), e
    else:
        raise AssertionError(f"gave {made}")


def index(*indices: int) -> torch.Tensor:
    return torch.tensor(indices, device=DEVICE)


def assigned(target: torch.Tensor, key: Any, value: Any) -> torch.Tensor:
    target[key] = value
    return target


def parameter() -> nn.Parameter:
    p = nn.Parameter(x.clone())
    p.square().sum().backward()
    return p


def stepped(optimizer: Callable[..., torch.optim.Optimizer], **options: Any) -> nn.Parameter:
    p = parameter()
    optimizer([p], **options).step()
    return p


def packed_lstm() -> torch.Tensor:
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(4, 2, 3, device=DEVICE), torch.tensor([4, 2]))
    return nn.LSTM(3, 2).to(DEVICE)(packed)[0].data


def loaded() -> torch.Tensor:
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    return torch.load(file)


def with_state_from_the_cpu() -> list[torch.Tensor]:
    net = nn.Linear(3, 2).to(DEVICE)
    net.load_state_dict(nn.Linear(3, 2).state_dict())
    return list(net.parameters())


def resumed_adam() -> list[Any]:
    p = parameter()
    before, after = torch.optim.Adam([p]), torch.optim.Adam([p])
    before.step()
    state = {i: {k: v.cpu() for k, v in s.items()} for i, s in before.state_dict()["state"].items()}
    after.load_state_dict({**before.state_dict(), "state": state})
    after.step()
    return [after.state[p]["exp_avg"], p]


def adam_moved_too_late() -> None:
    """The module goes to the device after the optimizer has made its state."""
    net = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(net.parameters())
    for device in ("cpu", DEVICE):
        net.to(device)(x.to(device)).sum().backward()
        optimizer.step()


def averaged() -> list[torch.Tensor]:
    net = nn.Linear(3, 3).to(DEVICE)
    mean = torch.optim.swa_utils.AveragedModel(net)
    mean.update_parameters(net)
    return list(mean.module.parameters())


each(
    stays_on_the_device,
    {
        # scalars on the CPU
        "scalar_times": lambda: x * half,
        "scalar_first": lambda: half * x,
        "scalar_as_exponent": lambda: x.abs().pow(half),
        "scalar_compared": lambda: x > half,
        "scalar_in_where": lambda: torch.where(x > 0, x, half),
        "scalar_in_masked_fill": lambda: x.masked_fill(x > 0, half),
        "scalar_in_fill": lambda: x.clone().fill_(half),
        "scalar_in_lerp": lambda: x.lerp(x, half),
        "scalar_in_foreach": lambda: torch._foreach_mul([x.clone()], half),
        "scalar_in_index_fill": lambda: x.clone().index_fill_(0, index(0), half),
        "scalar_in_place": lambda: x.clone().add_(half),
        "scalar_maximum": lambda: torch.maximum(x, half),
        "scalar_assigned_at_indices": lambda: assigned(x.clone(), torch.tensor([0]), half),
        "scalar_assigned_under_a_mask": lambda: assigned(x.clone(), x > 0, half),
        "scalar_of_float64": lambda: x * torch.tensor(0.5, dtype=torch.float64),
        "scalar_of_numpy": lambda: x * numpy.float64(0.5),
        "scalar_of_numpy_first": lambda: numpy.float64(0.5) * x,
        # indices and lengths on the CPU
        "indices": lambda: x[torch.tensor([0, 1])],
        "a_mask": lambda: x[torch.tensor([True, False, True, False])],
        "lists_of_indices": lambda: x[[0, 1], [1, 2]],
        "assigned_at_indices": lambda: assigned(x.clone(), torch.tensor([0, 1]), 1.0),
        "index_put_at_indices": lambda: x.index_put((torch.tensor([0]),), x[:1]),
        "tensor_split_at_indices": lambda: x.tensor_split(torch.tensor([1, 2])),
        "split_by_sizes": lambda: x.split([1, 3]),
        "repeat_interleave_by_a_number": lambda: x.repeat_interleave(2, 0),
        "lengths_of_a_packed_lstm": packed_lstm,
        # copies
        "copied_from_the_cpu": lambda: torch.empty_like(x).copy_(host),
        "rows_assigned_from_the_cpu": lambda: assigned(x.clone(), slice(0, 2), host[:2]),
        "new_tensor_from_the_cpu": lambda: x.new_tensor(host),
        "made_from_numpy": lambda: torch.as_tensor(numpy.ones(2, numpy.float32), device=DEVICE),
        "made_from_lists": lambda: torch.as_tensor([[1.0]], device=DEVICE),
        "loaded_from_a_file": loaded,
        "a_module_s_state_from_the_cpu": with_state_from_the_cpu,
        # what optimizers and modules do inside
        "adam": lambda: stepped(torch.optim.Adam),
        "adam_whose_learning_rate_is_on_the_cpu": lambda: stepped(torch.optim.Adam, lr=half, foreach=False),
        "adam_resumed_from_the_cpu": resumed_adam,
        "sgd_with_momentum": lambda: stepped(torch.optim.SGD, lr=0.1, momentum=0.9),
        "clip_grad_norm": lambda: nn.utils.clip_grad_norm_([parameter()], 1.0),
        "batch_norm": lambda: nn.BatchNorm1d(3).to(DEVICE)(x),
        "multihead_attention": lambda: nn.MultiheadAttention(3, 1).to(DEVICE)(x, x, x)[0],
        "embedding_bag": lambda: nn.EmbeddingBag(5, 3).to(DEVICE)(index(0, 1)[None]),
        "weight_norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(3, 3).to(DEVICE))(x),
        "an_averaged_model": averaged,
        "cross_entropy_with_weights": lambda: F.cross_entropy(x, index(0, 1, 2, 0), x[0].abs()),
        "interpolate": lambda: F.interpolate(x[None, None], scale_factor=2),
        # tensors whose shape depends on values
        "bucketize": lambda: torch.bucketize(x, torch.tensor([0.0, 1.0], device=DEVICE)),
        "multinomial": lambda: torch.multinomial(x.abs(), 2),
        "unique": lambda: x.unique(),
        "where_of_one_argument": lambda: torch.where(x > 0),
    },
)

each(
    is_refused,
    {
        "a_vector_added": lambda: x + host[0],
        "a_matrix_multiplied": lambda: x @ host.t(),
        "a_matrix_first": lambda: host @ x.t(),
        "addmm": lambda: torch.addmm(host @ host.t(), x, x.t()),
        "bmm": lambda: torch.bmm(x[None], host.t()[None]),
        "einsum_of_both": lambda: torch.einsum("ij,kj->ik", x, host),
        "cat": lambda: torch.cat([x, host]),
        "stack": lambda: torch.stack([x, host]),
        "where_condition": lambda: torch.where(host > 0, x, x),
        "masked_fill_mask": lambda: x.masked_fill(host > 0, 0.0),
        "masked_select_mask": lambda: x.masked_select(host > 0),
        "gather_index": lambda: x.gather(0, torch.zeros(1, 3, dtype=torch.long)),
        "scatter_index": lambda: x.clone().scatter_(0, torch.zeros(1, 3, dtype=torch.long), 1.0),
        "index_select_index": lambda: x.index_select(0, torch.tensor([0])),
        "index_put_values": lambda: x.index_put((index(0),), host[:1]),
        "a_cpu_tensor_under_a_device_s_mask": lambda: host[x > 0],
        "a_cpu_tensor_at_a_device_s_indices": lambda: host[index(0, 1)],
        "embedding_ids": lambda: F.embedding(torch.tensor([0, 1]), x),
        "linear_weights": lambda: nn.Linear(3, 2)(x),
        "linear_input": lambda: nn.Linear(3, 2).to(DEVICE)(host),
        "linear_bias": lambda: F.linear(x, x, host[:, 0]),
        "convolution_weights": lambda: nn.Conv1d(3, 1, 1)(x.t()[None]),
        "layer_norm_weights": lambda: nn.LayerNorm(3)(x),
        "batch_norm_statistics": lambda: nn.BatchNorm1d(3)(x),
        "lstm_weights": lambda: nn.LSTM(3, 2)(x[None]),
        "lstm_state": lambda: nn.LSTM(3, 2).to(DEVICE)(x[None], (torch.zeros(1, 4, 2), torch.zeros(1, 4, 2))),
        "attention_keys": lambda: F.scaled_dot_product_attention(x[None], host[None], x[None]),
        "attention_mask": lambda: F.scaled_dot_product_attention(x[None], x[None], x[None], torch.ones(4, 4)),
        "cross_entropy_target": lambda: F.cross_entropy(x, torch.tensor([0, 1, 2, 0])),
        "cross_entropy_weights": lambda: F.cross_entropy(x, index(0, 1, 2, 0), host[0].abs()),
        "mse_target": lambda: F.mse_loss(x, host),
        "bce_target": lambda: F.binary_cross_entropy_with_logits(x, torch.ones(4, 3)),
        "maximum": lambda: torch.maximum(x, host),
        "in_place_from_the_cpu": lambda: x.clone().add_(host),
        "in_place_into_the_cpu": lambda: host.clone().add_(x),
        "a_cpu_scalar_changed_by_a_device_s": lambda: torch.tensor(0.0).add_(x.sum()),
        "an_out_argument": lambda: torch.add(x, x, out=torch.empty(4, 3)),
        "equal": lambda: torch.equal(x, host),
        "allclose": lambda: torch.allclose(x, host),
        "foreach": lambda: torch._foreach_add([x], [host]),
        "clamp_by_a_scalar": lambda: x.clamp(min=half),  # torch's own check, before any kernel
        "searchsorted": lambda: torch.searchsorted(torch.tensor([0.0, 1.0]), x),
        "isin": lambda: torch.isin(x, host),
        "lengths_of_a_packed_sequence": lambda: nn.utils.rnn.pack_padded_sequence(x[:, None], index(4)),
        "a_gradient": lambda: (x * nn.Parameter(x)).backward(host),
        "a_cpu_generator": lambda: x.normal_(generator=torch.Generator()),
        "a_device_s_generator": lambda: host.normal_(generator=torch.Generator(device=DEVICE)),
        "numpy": lambda: x.numpy(),
        "asarray": lambda: numpy.asarray(x),
        "interpolation_grid": lambda: F.grid_sample(x[None, None], torch.zeros(1, 2, 2, 2), align_corners=False),
        "adam_s_state_left_on_the_cpu": lambda: adam_moved_too_late(),
        "a_prelu_weight": lambda: nn.PReLU()(x),
    },
)
