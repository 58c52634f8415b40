"""One call of each function of hazard/mps-operator, and of some beside them, where a device is simulated.

The last line is JSON: by name, what the device said ("" if it computed).
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

warnings.simplefilter("ignore")
device = torch.device(torch.accelerator.current_accelerator().type)
torch.manual_seed(0)
square = (torch.rand(3, 3) + 3 * torch.eye(3)).to(device)
symmetric = (square.cpu() @ square.cpu().T).to(device)
vector, index = torch.rand(3).to(device), torch.tensor([0, 1, 2]).to(device)
image, volume = torch.rand(1, 2, 6, 6).to(device), torch.rand(1, 2, 6, 6, 6).to(device)
scores = torch.randn(5, 1, 4).log_softmax(2).to(device)
words = torch.tensor([[1, 2]]).to(device), torch.tensor([5]), torch.tensor([2])
margins = torch.zeros(3, 3).long().to(device)
lengths, bytes_ = torch.tensor([1, 2]).to(device), torch.ones(32, 32, dtype=torch.int8).to(device)
eighth = torch.ones(16, 16).to(torch.float8_e4m3fn).to(device)
special, distributions = torch.special, torch.distributions

MISSING: dict[str, Callable[[], Any]] = {
    "torch.linalg.eig": lambda: torch.linalg.eig(square),
    "torch.linalg.eigvals": lambda: torch.linalg.eigvals(square),
    "torch.linalg.eigh": lambda: torch.linalg.eigh(symmetric),
    "torch.linalg.eigvalsh": lambda: torch.linalg.eigvalsh(symmetric),
    "torch.linalg.svdvals": lambda: torch.linalg.svdvals(square),
    "torch.linalg.matrix_rank": lambda: torch.linalg.matrix_rank(square),
    "torch.linalg.cond": lambda: torch.linalg.cond(square),
    "torch.linalg.lstsq": lambda: torch.linalg.lstsq(square, vector[:, None]),
    "torch.linalg.matrix_exp": lambda: torch.linalg.matrix_exp(square),
    "torch.matrix_exp": lambda: torch.matrix_exp(square),
    "torch.linalg.ldl_factor": lambda: torch.linalg.ldl_factor(symmetric),
    "torch.linalg.ldl_solve": lambda: torch.linalg.ldl_solve(symmetric, index.int() + 1, vector[:, None]),
    "torch.geqrf": lambda: torch.geqrf(square),
    "torch.ormqr": lambda: torch.ormqr(square, vector, square),
    "torch.lobpcg": lambda: torch.lobpcg(symmetric, k=1),
    "torch.nuclear_norm": lambda: torch.nuclear_norm(square),
    "torch.nn.functional.ctc_loss": lambda: F.ctc_loss(scores, *words),
    "torch.nn.CTCLoss": lambda: nn.CTCLoss()(scores, *words),
    "torch.nn.functional.pdist": lambda: F.pdist(square),
    "torch.pdist": lambda: torch.pdist(square),
    "torch.nn.functional.adaptive_avg_pool3d": lambda: F.adaptive_avg_pool3d(volume, 2),
    "torch.nn.AdaptiveAvgPool3d": lambda: nn.AdaptiveAvgPool3d(2)(volume),
    "torch.nn.functional.adaptive_avg_pool1d": lambda: F.adaptive_avg_pool1d(image[0], 4),
    "torch.nn.AdaptiveAvgPool1d": lambda: nn.AdaptiveAvgPool1d(4)(image[0]),
    "torch.adaptive_avg_pool1d": lambda: torch.adaptive_avg_pool1d(image[0], 4),
    "torch.nn.functional.adaptive_avg_pool2d": lambda: F.adaptive_avg_pool2d(image, 4),
    "torch.nn.AdaptiveAvgPool2d": lambda: nn.AdaptiveAvgPool2d((6, 4))(image),
    "torch.nn.functional.interpolate": lambda: F.interpolate(image, size=(4, 6), mode="area"),
    "torch.nn.functional.adaptive_max_pool3d": lambda: F.adaptive_max_pool3d(volume, 2),
    "torch.nn.AdaptiveMaxPool3d": lambda: nn.AdaptiveMaxPool3d(2)(volume),
    "torch.nn.functional.fractional_max_pool2d": lambda: F.fractional_max_pool2d(image, 2, output_size=3),
    "torch.nn.FractionalMaxPool2d": lambda: nn.FractionalMaxPool2d(2, output_size=3)(image),
    "torch.nn.functional.fractional_max_pool3d": lambda: F.fractional_max_pool3d(volume, 2, output_size=3),
    "torch.nn.FractionalMaxPool3d": lambda: nn.FractionalMaxPool3d(2, output_size=3)(volume),
    "torch.nn.functional.rrelu": lambda: F.rrelu(vector),
    "torch.nn.RReLU": lambda: nn.RReLU()(vector),
    "torch.rrelu": lambda: torch.rrelu(vector),
    "torch.nn.functional.multi_margin_loss": lambda: F.multi_margin_loss(square, index),
    "torch.nn.MultiMarginLoss": lambda: nn.MultiMarginLoss()(square, index),
    "torch.nn.functional.multilabel_margin_loss": lambda: F.multilabel_margin_loss(square, margins),
    "torch.nn.MultiLabelMarginLoss": lambda: nn.MultiLabelMarginLoss()(square, margins),
    "torch.nn.functional.channel_shuffle": lambda: F.channel_shuffle(image, 2),
    "torch.channel_shuffle": lambda: torch.channel_shuffle(image, 2),
    "torch.nn.ChannelShuffle": lambda: nn.ChannelShuffle(2)(image),
    "torch.mode": lambda: torch.mode(vector),
    "torch.take": lambda: torch.take(vector, index),
    "torch.poisson": lambda: torch.poisson(vector),
    "torch.binomial": lambda: torch.binomial(vector, vector),
    "torch.heaviside": lambda: torch.heaviside(vector, vector),
    "torch.frexp": lambda: torch.frexp(vector),
    "torch.logspace": lambda: torch.logspace(0, 1, 3, device=device),
    "torch.logit_": lambda: torch.logit_(vector.clone()),
    "torch.segment_reduce": lambda: torch.segment_reduce(vector, "max", lengths=lengths),
    "torch.distributions.Poisson": lambda: distributions.Poisson(vector).sample(),
    "torch.distributions.Binomial": lambda: distributions.Binomial(3, vector).sample(),
    "torch.special.log_ndtr": lambda: special.log_ndtr(vector),
    "torch.special.ndtri": lambda: special.ndtri(vector),
    "torch.special.airy_ai": lambda: special.airy_ai(vector),
    "torch.special.legendre_polynomial_p": lambda: special.legendre_polynomial_p(vector, 2),
    "torch.special.laguerre_polynomial_l": lambda: special.laguerre_polynomial_l(vector, 2),
    "torch._int_mm": lambda: torch._int_mm(bytes_, bytes_),
    "torch._scaled_mm": lambda: torch._scaled_mm(
        eighth, eighth.t(), torch.ones((), device=device), torch.ones((), device=device)
    ),
    "torch.nn.utils.parametrizations.orthogonal": lambda: nn.utils.parametrizations.orthogonal(
        nn.Linear(3, 3).to(device)
    )(vector),
    ".matrix_exp": lambda: square.matrix_exp(),
    ".put_": lambda: vector.clone().put_(index, vector),
}
THERE: dict[str, Callable[[], Any]] = {
    "torch.linalg.svd": lambda: torch.linalg.svd(square),
    "torch.svd": lambda: torch.svd(square),
    "torch.linalg.pinv": lambda: torch.linalg.pinv(square),
    "torch.pinverse": lambda: torch.pinverse(square),
    "torch.linalg.qr": lambda: torch.linalg.qr(square),
    "torch.linalg.inv": lambda: torch.linalg.inv(square),
    "torch.linalg.solve": lambda: torch.linalg.solve(square, vector),
    "torch.linalg.cholesky": lambda: torch.linalg.cholesky(symmetric),
    "torch.nn.functional.max_pool3d": lambda: F.max_pool3d(volume, 2),
    "torch.nn.functional.adaptive_avg_pool3d(1)": lambda: F.adaptive_avg_pool3d(volume, 1),
    "torch.cdist": lambda: torch.cdist(square, square),
    "torch.median": lambda: torch.median(vector),
    "torch.aminmax": lambda: torch.aminmax(vector),
    "torch.std": lambda: torch.std(vector),
    "torch.multinomial": lambda: torch.multinomial(vector, 1),
}


def said(call: Callable[[], Any]) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


print(json.dumps({name: said(call) for name, call in {**MISSING, **THERE}.items()}))
