"""Training and inference: the CPU's losses and gradients."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from checks import DEVICE, KIND, check, refused, same
from nets import losses, mlp, numbers
from torch import nn

accelerator = torch.accelerator


def trains_like_the_cpu(optimizer: Callable[..., Any], make: Callable[[], nn.Module] = mlp, **rest: Any) -> None:
    expected, actual = (losses(device, make, optimizer, **rest) for device in ("cpu", DEVICE))
    same(torch.tensor(actual), torch.tensor(expected))
    assert actual[-1] < actual[0], actual


@check
def sgd() -> None:
    trains_like_the_cpu(lambda p: torch.optim.SGD(p, lr=0.1))


@check
def sgd_with_momentum_foreach() -> None:
    trains_like_the_cpu(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, foreach=True))


@check
def adam() -> None:
    trains_like_the_cpu(lambda p: torch.optim.Adam(p, lr=0.05))


@check
def adamw_foreach() -> None:
    trains_like_the_cpu(lambda p: torch.optim.AdamW(p, lr=0.05, foreach=True))


@check
def adam_fused() -> None:
    trains_like_the_cpu(lambda p: torch.optim.Adam(p, lr=0.05, fused=True))


@check
def adam_with_a_tensor_as_learning_rate() -> None:
    trains_like_the_cpu(lambda p: torch.optim.Adam(p, lr=torch.tensor(0.05), foreach=False))


@check(only=("cuda", "xpu"))
def adam_capturable() -> None:
    params = [nn.Parameter(torch.ones(3, device=DEVICE))]
    opt = torch.optim.Adam(params, capturable=True)
    params[0].grad = torch.ones(3, device=DEVICE)
    opt.step()
    assert opt.state[params[0]]["step"].device.type == KIND


@check(only=("mps",))
def adam_capturable_is_refused_by_torch() -> None:
    params = [nn.Parameter(torch.ones(3, device=DEVICE))]
    params[0].grad = torch.ones(3, device=DEVICE)
    with refused("If capturable=True, params and state_steps must be on supported devices", error=AssertionError):
        torch.optim.Adam(params, capturable=True).step()


@check
def rmsprop_adagrad_and_adadelta() -> None:
    for optimizer in (torch.optim.RMSprop, torch.optim.Adagrad):
        trains_like_the_cpu(lambda p, optimizer=optimizer: optimizer(p, lr=0.01))


@check
def lbfgs() -> None:
    def fit(device: object) -> torch.Tensor:
        x = nn.Parameter(torch.tensor([3.0, -2.0], device=device))
        opt = torch.optim.LBFGS([x], max_iter=10)

        def closure() -> torch.Tensor:
            opt.zero_grad()
            loss = ((x - 1) ** 2).sum()
            loss.backward()
            return loss

        opt.step(closure)
        return x.detach()

    same(fit(DEVICE), fit("cpu"))


@check
def a_convolutional_net() -> None:
    def make() -> nn.Module:
        return nn.Sequential(
            *(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(8, 8, 3, groups=2), nn.GroupNorm(2, 8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)),
        )

    trains_like_the_cpu(lambda p: torch.optim.SGD(p, lr=0.1), make, shape=(4, 3, 12, 12))


@check
def channels_last_convolutions() -> None:
    torch.manual_seed(0)
    net = nn.Conv2d(3, 4, 3)
    x = numbers(2, 3, 6, 6).to(memory_format=torch.channels_last)
    expected = net(x)
    actual = copy.deepcopy(net).to(DEVICE, memory_format=torch.channels_last)(x.to(DEVICE))
    same(actual, expected)
    assert actual.is_contiguous(memory_format=torch.channels_last)


@check
def convolutions_of_all_kinds() -> None:
    torch.manual_seed(0)
    for net, shape in (
        (nn.Conv1d(3, 4, 3), (1, 3, 9)),
        (nn.Conv3d(3, 4, 3), (1, 3, 5, 5, 5)),
        (nn.ConvTranspose2d(3, 4, 3, stride=2), (1, 3, 5, 5)),
        (nn.Conv2d(4, 4, 3, groups=4, dilation=2), (1, 4, 9, 9)),
    ):
        x = numbers(*shape)
        same(copy.deepcopy(net).to(DEVICE)(x.to(DEVICE)), net(x))


def gradients(module: nn.Module, device: object, *shape: int) -> list[torch.Tensor]:
    module = copy.deepcopy(module).to(device)
    out = module(numbers(*shape).to(device))
    out = out[0] if isinstance(out, tuple) else out
    out.square().sum().backward()
    return [out.detach(), *(p.grad for p in module.parameters())]


def differentiates_like_the_cpu(module: nn.Module, *shape: int) -> None:
    for actual, expected in zip(gradients(module, DEVICE, *shape), gradients(module, "cpu", *shape), strict=True):
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-3, atol=1e-4)


@check
def lstm() -> None:
    differentiates_like_the_cpu(nn.LSTM(5, 6, 2, batch_first=True, bidirectional=True), 3, 7, 5)


@check
def gru() -> None:
    differentiates_like_the_cpu(nn.GRU(5, 6, 2), 7, 3, 5)


@check
def rnn() -> None:
    differentiates_like_the_cpu(nn.RNN(5, 6), 7, 3, 5)


@check
def recurrent_inference_without_gradients() -> None:
    torch.manual_seed(0)
    net = nn.LSTM(5, 6, batch_first=True).eval()
    x = numbers(3, 7, 5)
    with torch.no_grad():
        same(copy.deepcopy(net).to(DEVICE)(x.to(DEVICE))[0], net(x)[0])


@check
def a_packed_sequence() -> None:
    def run(device: object) -> torch.Tensor:
        torch.manual_seed(0)
        net = nn.LSTM(3, 2).to(device)
        packed = nn.utils.rnn.pack_padded_sequence(numbers(4, 2, 3).to(device), torch.tensor([4, 2]))
        return nn.utils.rnn.pad_packed_sequence(net(packed)[0])[0].detach()

    same(run(DEVICE), run("cpu"))


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2)


@check
def a_transformer() -> None:
    differentiates_like_the_cpu(encoder(), 2, 5, 16)


@check
def a_transformer_s_fast_path() -> None:
    net, x = encoder().eval(), numbers(2, 5, 16)
    with torch.no_grad():
        same(copy.deepcopy(net).to(DEVICE)(x.to(DEVICE)), net(x))


def padded(device: object) -> torch.Tensor:
    torch.manual_seed(0)
    net, x = encoder().eval().to(device), numbers(2, 5, 16).to(device)
    mask = torch.tensor([[False] * 5, [False, False, False, True, True]]).to(device)
    with torch.no_grad():
        return net(x, src_key_padding_mask=mask)


@check(only=("cuda", "xpu", "npu"))
def a_transformer_s_fast_path_with_padding() -> None:
    same(padded(DEVICE), padded("cpu"))  # by nested tensors; what is padded comes out as 0


@check(only=("mtia",))
def a_transformer_with_padding_has_no_fast_path_on_mtia() -> None:
    actual, expected = padded(DEVICE), padded("cpu")
    same(actual[0], expected[0])
    same(actual[1, :3], expected[1, :3])


@check(only=("mps",))
def a_transformer_s_fast_path_with_padding_is_missing_on_mps() -> None:
    with refused("The operator 'aten::_nested_tensor_from_mask_left_aligned'", error=NotImplementedError):
        padded(DEVICE)


@check(only=("cuda", "xpu", "npu"))
def nested_tensors() -> None:
    parts = [torch.ones(2, 3), torch.full((4, 3), 2.0)]
    nested = torch.nested.nested_tensor(parts, device=DEVICE)
    assert nested.is_nested and nested.device == torch.device(KIND, 0)
    same(nested.to_padded_tensor(0.0), torch.nested.nested_tensor(parts).to_padded_tensor(0.0))
    same((nested * 2).unbind()[1], parts[1] * 2)
    jagged = torch.nested.nested_tensor(parts, device=DEVICE, layout=torch.jagged)
    same(jagged.to_padded_tensor(0.0), nested.to_padded_tensor(0.0))


@check
def multihead_attention_with_masks() -> None:
    torch.manual_seed(0)
    net, x = nn.MultiheadAttention(8, 2, batch_first=True), numbers(2, 5, 8)
    padding = torch.tensor([[False] * 5, [False, False, False, True, True]])
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    expected = net(x, x, x, key_padding_mask=padding, attn_mask=causal.bool())[0]
    there = copy.deepcopy(net).to(DEVICE)
    y = x.to(DEVICE)
    same(there(y, y, y, key_padding_mask=padding.to(DEVICE), attn_mask=causal.bool().to(DEVICE))[0], expected)


@check
def scaled_dot_product_attention() -> None:
    q, k, v = (numbers(1, 2, 4, 8) * i for i in (1, 2, 3))
    mask = torch.ones(4, 4).tril().bool()
    for options in ({}, {"is_causal": True}, {"attn_mask": mask}, {"attn_mask": mask.float()}, {"scale": 0.5}):
        there = {name: x.to(DEVICE) if isinstance(x, torch.Tensor) else x for name, x in options.items()}
        expected = F.scaled_dot_product_attention(q, k, v, **options)
        same(F.scaled_dot_product_attention(q.to(DEVICE), k.to(DEVICE), v.to(DEVICE), **there), expected)


@check
def embeddings_and_losses() -> None:
    def run(device: object) -> torch.Tensor:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Embedding(9, 4, padding_idx=0), nn.Flatten(), nn.Linear(12, 5)).to(device)
        ids, targets = torch.tensor([[1, 2, 0], [3, 3, 4]]).to(device), torch.tensor([1, 4]).to(device)
        out = net(ids)
        loss = F.cross_entropy(out, targets, label_smoothing=0.1) + F.multi_margin_loss(out, targets) * (KIND != "mps")
        loss = loss + F.nll_loss(out.log_softmax(1), targets) + F.huber_loss(out, torch.zeros_like(out))
        loss.backward()
        return net[0].weight.grad

    if KIND == "mps":
        with refused("aten::multi_margin_loss", error=NotImplementedError):
            run(DEVICE)
    else:
        same(run(DEVICE), run("cpu"))


@check(but=("mps",))
def ctc_loss() -> None:
    inputs, targets = numbers(6, 2, 4).log_softmax(2), torch.tensor([[1, 2], [3, 1]])
    lengths = torch.tensor([6, 5]), torch.tensor([2, 2])
    expected = F.ctc_loss(inputs, targets, *lengths)
    same(F.ctc_loss(inputs.to(DEVICE), targets.to(DEVICE), *lengths), expected)
    same(F.ctc_loss(inputs.to(DEVICE), targets.to(DEVICE), *(length.to(DEVICE) for length in lengths)), expected)


@check
def gradient_clipping_and_norms() -> None:
    net = mlp().to(DEVICE)
    net(numbers(4, 8).to(DEVICE)).sum().backward()
    norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    assert norm.device.type == KIND
    nn.utils.clip_grad_value_(net.parameters(), 0.01)
    assert max(p.grad.abs().max().item() for p in net.parameters()) <= 0.01 + 1e-6


# ---- autograd


@check
def double_backward() -> None:
    x = torch.tensor([1.0, 2.0], device=DEVICE, requires_grad=True)
    (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    same(h, [6.0, 12.0])


@check
def gradients_accumulate_on_the_device() -> None:
    x = torch.ones(3, device=DEVICE, requires_grad=True)
    for _ in range(2):
        (x * 2).sum().backward()
    assert x.grad.device == x.device
    same(x.grad, [4.0] * 3)


@check
def a_loss_from_both_sides() -> None:
    host, there = torch.ones(2, requires_grad=True), torch.ones(2, device=DEVICE, requires_grad=True)
    ((host.to(DEVICE) * there).sum().cpu() + host.sum()).backward()
    assert (host.grad.device.type, there.grad.device.type) == ("cpu", KIND)
    same(host.grad, [2.0, 2.0])


@check
def hooks_and_functions() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            assert ctx.saved_tensors[0].device.type == grad.device.type == KIND
            return grad * 2

    seen: list[torch.device] = []
    x = torch.ones(3, device=DEVICE, requires_grad=True)
    x.register_hook(lambda grad: seen.append(grad.device))
    Double.apply(x).sum().backward()
    same(x.grad, [2.0] * 3)
    assert seen == [torch.device(KIND, 0)]


def checkpointed(reentrant: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradient of a net with dropout, without and with checkpoints."""
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)).to(DEVICE)
    x = numbers(4, 8).to(DEVICE).requires_grad_()
    found = []
    for forward in (net, lambda x: checkpoint(net, x, use_reentrant=reentrant)):
        torch.manual_seed(5)
        x.grad = None
        forward(x).sum().backward()
        found.append(x.grad)
    return found[0], found[1]


@check(but=("mps",))
def a_checkpoint_draws_the_same_numbers_again() -> None:
    same(*checkpointed(reentrant=False))
    same(*checkpointed(reentrant=True))


@check(only=("mps",))
def a_checkpoint_on_mps_draws_other_numbers() -> None:
    # torch.utils.checkpoint keeps the state of a module with `_initialized`, which torch.mps has not: so on a Mac too
    for reentrant in (False, True):
        expected, actual = checkpointed(reentrant)
        assert not torch.equal(expected, actual)


@check
def functional_transforms() -> None:
    x = numbers(4, 3).to(DEVICE)
    same(torch.vmap(lambda row: row * row.sum())(x), x.cpu() * x.cpu().sum(1, keepdim=True))
    same(torch.func.grad(lambda a: (a * a).sum())(x), 2 * x.cpu())
    same(torch.func.jacrev(torch.sin)(x[0]), torch.diag(x[0].cpu().cos()))
    net = nn.Linear(3, 2).to(DEVICE)
    assert torch.func.functional_call(net, dict(net.named_parameters()), (x,)).device.type == KIND


@check
def inference_mode() -> None:
    with torch.inference_mode():
        x = torch.ones(3, device=DEVICE) + 1
    assert x.is_inference()
    with refused("Inference tensors cannot be saved for backward"):
        (x * torch.ones(3, device=DEVICE, requires_grad=True)).sum()


@check
def anomaly_mode_finds_a_nan() -> None:
    x = torch.zeros(2, device=DEVICE, requires_grad=True)
    with warnings.catch_warnings(), torch.autograd.detect_anomaly(check_nan=True), refused("returned nan values"):
        warnings.simplefilter("ignore")
        (x.sqrt() * 0).sum().backward()
