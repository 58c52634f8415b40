"""Ports aimed at what a verification could overlook, and idioms that a right port may use.

A port is its original's text with a few words replaced; both are programs for a fork of a process that has torch.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import warm_torch

from torchmigrate.verify import interpreter, session
from torchmigrate.verify.migration import Migration, Origins, Rewritten
from torchmigrate.verify.sandbox import Sandbox
from torchmigrate.verify.session import Result
from torchmigrate.verify.verdict import Kind, exit_status

PROBE = functools.cache(interpreter.probe)
HERE = 'torch.device("cuda")', 'torch.accelerator.current_accelerator() or torch.device("cpu")'
CHOICE = "torch.device('cuda' if torch.cuda.is_available() else 'cpu')"
HEAD = """
import os, sys
import torch
from torch import nn
from torch.nn import functional as F
torch.manual_seed(0)
DEVICE = torch.device("cuda")
x, y = torch.randn(64, 32).to(DEVICE), torch.randn(64, 1).to(DEVICE)
"""
TRAIN = """
def train(model, x=x, y=y, steps=3):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(steps):
        loss = F.mse_loss(model(x).to(y.device), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")
"""
NET = "nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))"


@dataclass(frozen=True)
class Weak:
    """`program` is the original, after HEAD; `port`: (old, new) in it; `says` is searched in the verdict's words."""

    program: str
    says: str
    port: tuple[tuple[str, str], ...] = ()
    kind: Kind = Kind.FAIL
    on: str = "mps"
    options: Mapping[str, Any] = field(default_factory=dict)


MEAN = f"model = {NET}.to(DEVICE)\nprint(f'mean {{model(x).mean().item():.4f}}')\n"
GUARD = "model = {net}\nif torch.version.cuda is not None:\n    model = model.cuda()\n"
ONE = '    "image": {call},'
EACH = {
    # the work is not done on the device
    "a_guard_that_asks_for_the_version": Weak(
        TRAIN + GUARD.format(net=NET) + "train(model, x if torch.version.cuda else x.cpu())\n",
        r"ran mostly on the CPU: .* likely sent there by .*`torch\.version\.cuda is not None`",
    ),
    "most_of_the_net_left": Weak(
        TRAIN + f"body, head = {NET[:-17]}), nn.Linear(64, 1)\n"
        "body = body.to(DEVICE if DEVICE.type == 'cuda' else 'cpu')\nhead = head.to(DEVICE)\n"
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.body, self.head = body, head\n"
        "    def forward(self, x):\n        return self.head(self.body(x.to(body[0].weight.device)).to(DEVICE))\n"
        "train(Net())\n",
        "ran mostly on the CPU: .*of the original's",
    ),
    "weights_left_and_copied_for_each_step": Weak(
        TRAIN + "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.weight = nn.Parameter(torch.full((1, 32), 0.1).to(DEVICE))\n"
        "    def forward(self, x):\n        return F.linear(x, self.weight.to(DEVICE))\ntrain(Net())\n",
        "0 B of parameters, of the original's 128 B",
        (("0.1).to(DEVICE)", "0.1)"),),
    ),
    "evaluation_left": Weak(
        TRAIN + f"model = {NET}.to(DEVICE)\ntrain(model)\n"
        "def evaluate(model, x):\n    place = DEVICE if DEVICE.type == 'cuda' else torch.device('cpu')\n"
        "    home = next(model.parameters()).device\n    model.eval().to(place)\n"
        "    with torch.no_grad():\n        means = [model(x.to(place)).mean().item() for _ in range(4)]\n"
        "    model.to(home)\n    return sum(means)\nprint(f'eval {evaluate(model, x):.4f}')\n",
        r"ran in part on the CPU: \d\d% .* likely sent there by train\.py:\d+ `DEVICE\.type == 'cuda'`",
    ),
    "a_gradient_by_way_of_numpy": Weak(
        TRAIN + "class Product(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x, w):\n"
        "        ctx.save_for_backward(x, w)\n        return x @ w\n    @staticmethod\n    def backward(ctx, g):\n"
        "        x, w = ctx.saved_tensors\n        return g @ w.t(), x.t() @ g\n"
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.weight = nn.Parameter(torch.randn(32, 64) / 9)\n"
        "        self.head = nn.Sequential(nn.ReLU(), nn.Linear(64, 1))\n"
        "    def forward(self, x):\n        return self.head(Product.apply(x, self.weight))\ntrain(Net().to(DEVICE))\n",
        r"ran in part on the CPU: \d\d% of the original's work of matrix products",
        (
            (
                "x.t() @ g",
                "torch.from_numpy(x.cpu().numpy().T @ g.cpu().numpy()).to(g.device)",
            ),
        ),
    ),
    # numbers that come from elsewhere
    "a_twin_on_the_cpu_that_is_asked": Weak(
        f"import copy\nmodel = {NET}\ntwin = model\nmodel = copy.deepcopy(model).to(DEVICE)\nhost = x.cpu()\n"
        "mean = model(x).mean()\nfor scale in (1, 2):\n    print(f'mean {mean.item() * scale:.4f}')\n",
        r"as the original, but stdout line 1 does not come from mps: `mean ",
        (
            ("mean.item()", "twin(host).mean().item()"),
            ("host = x.cpu()", "torch.manual_seed(0)\nhost = torch.randn(64, 32)"),
        ),
        Kind.UNCOMPARED,
    ),
    "a_number_that_an_earlier_run_has_left": Weak(
        TRAIN + f"train({NET}.to(DEVICE))\ndef score():\n"
        "    try:\n        return torch.arange(4.0, device=DEVICE).double().mean().item()\n"
        "    except TypeError:\n        return 1.5\nprint(f'score {score():.4f}')\n",
        r"as the original, but stdout line 4 does not come from mps: `score 1\.5000`",
        kind=Kind.UNCOMPARED,
    ),
    "a_number_that_no_input_changes": Weak(
        f"net = {NET}\nnn.init.zeros_(net[2].weight)\nnn.init.zeros_(net[2].bias)\nnet = net.to(DEVICE)\nx = x * 1\n"
        "print(f'loss {F.binary_cross_entropy_with_logits(net(x), (y > 0).float()).item():.4f}')\n",
        "none depends on what the device is given",
        (("x = x * 1", "x = x * 0"),),
        Kind.UNCOMPARED,
    ),
    "a_number_of_another_run_beside_random_ones": Weak(
        "z = x.to(DEVICE) * torch.rand(64, 32, device=DEVICE)\nprint(f'mean {z.mean().item():.4f}')\n"
        "four = torch.arange(4.0).to(DEVICE)\nprint(f'score {four.mean().item():.4f}')\n",
        r"UNCOMPARED as the original, but stdout line 2 does not come from mps: `score 1\.5000`",
        ((CHOICE, HERE[1]), ("four.mean().item()", "torch.arange(4.0).mean().item()")),
        Kind.UNCOMPARED,
    ),
    # nothing is compared
    "an_original_that_wants_two_devices": Weak(
        "assert torch.cuda.device_count() >= 2, 'needs 2 GPUs'\n" + TRAIN + f"train({NET}.to(DEVICE))\n",
        "no reference",
        (("assert torch.cuda.device_count() >= 2, 'needs 2 GPUs'\n", ""),),
        Kind.UNCOMPARED,
    ),
    "numbers_that_no_device_computes": Weak(
        f"model = {NET}.to(DEVICE)\nprint('seed', 0, 'shape', *model(x).shape, 'steps', 3)\nprint('lr 0.0500')\n",
        "but none comes from the device",
        (("model(x)", "model(x * 2)"),),
        Kind.UNCOMPARED,
    ),
    "a_result_that_is_only_written": Weak(
        f"model = {NET}.to(DEVICE)\nprint(f'mean {{model(x).mean().item():.4f}}')\n"
        "torch.save(model(x).cpu(), 'out.pt')\n",
        r"out\.pt: ",
        (("torch.save(model(x).cpu()", "torch.save(model(x).cpu() * 2"),),
        Kind.DIFFERS,
        options={"globs": ("*.pt",)},
    ),
    # the device refuses it
    "uneven_pools": Weak(
        "print(f'{F.adaptive_avg_pool2d(x.view(1, 1, 64, 32), 7).sum().item():.4f}')\n", "sizes must be divisible"
    ),
    "interpolation_by_area": Weak(
        "print(f\"{F.interpolate(x.view(1, 1, 64, 32), size=(48, 20), mode='area').sum().item():.4f}\")\n",
        "sizes must be divisible",
    ),
    "an_lstm_with_projections": Weak(
        "lstm = nn.LSTM(32, 16, proj_size=8).to(DEVICE)\nprint(f'{lstm(x)[0].sum().item():.4f}')\n",
        "LSTM with projections is not currently supported",
    ),
    "a_transposed_convolution_in_half": Weak(
        "layer = nn.ConvTranspose3d(2, 2, 2).to(DEVICE, torch.bfloat16)\n"
        "print(f'{layer(x.view(1, 2, 16, 8, 8).bfloat16()).float().sum().item():.1f}')\n",
        "ConvTranspose 3D with BF16 or FP16",
    ),
    "a_convolution_of_whole_numbers": Weak(
        "whole = (x * 10).long().view(1, 1, 64, 32)\n"
        "print('sum', F.conv2d(whole, torch.ones(1, 1, 2, 2, dtype=torch.int64, device=DEVICE)).sum().item())\n",
        "Convolution is supported only for Floating types",
    ),
    "a_fallback_that_is_asked_for_too_late": Weak(
        "os.environ['PYTORCH_ENABLE_MPS_FALLBACK'] = '1'\n"
        "print(f'{torch.linalg.lstsq(x, y).solution.sum().item():.4f}')\n",
        "not currently implemented for the MPS device|not implemented",
    ),
    "float64_on_an_arc": Weak(
        "print(f'{(x.double() @ x.double().T).sum().item():.4f}')\n",
        "fp64",
        on="xpu",
        options={"profile": "arc"},
    ),
    "a_lambda_for_workers": Weak(
        "from torch.utils.data import DataLoader\nif __name__ == '__main__':\n"
        "    loader = DataLoader(range(4), num_workers=1, collate_fn=lambda b: torch.tensor(b))\n"
        "    print(f'{sum(p.to(DEVICE).float().sum().item() * 0.5 for p in loader):.4f}')\n",
        "(?i)pickle",
    ),
    # the original did it better there
    "a_device_of_its_own_lost": Weak(
        "DEVICE = 'cuda' if torch.cuda.is_available() else 'mps' if torch.backends.mps.is_available() else 'cpu'\n"
        f"print('device:', DEVICE)\nprint(f'{{{NET}.to(DEVICE)(x.to(DEVICE)).mean().item():.4f}}')\n",
        "names .* as its device|the original works on mps",
        (("'mps' if torch.backends.mps.is_available() else 'cpu'", "'cuda'"),),
        Kind.REGRESSED,
    ),
    "an_answer_that_says_cuda": Weak(
        "def backend():\n    return torch.accelerator.current_accelerator().type\n"
        f"print('device:', backend())\nprint(f'{{{NET}.to(backend())(x.to(backend())).mean().item():.4f}}')\n",
        "names cuda as its device where the original names mps",
        (("print('device:', backend())", "print('device:', 'cuda')"),),
        Kind.REGRESSED,
    ),
    # the original did it no better there
    "a_choice_that_is_left_as_it_was": Weak(
        MEAN + "print('done')\n",
        r"ran on the CPU: no kernel .*; so does the original there; likely sent there by .*`torch\.cuda\.is_available",
        (("print('done')", "print('ended')"),),
        Kind.UNPORTED,
    ),
    "a_choice_that_is_left_for_all_but_a_copy": Weak(
        f"DEVICE = {CHOICE}\nx, y = x.to(DEVICE), y.to(DEVICE)\n" + MEAN + "print('done')\n",
        r"ran mostly on the CPU: 0% .*; so does the original there; likely sent there by .*`torch\.cuda\.is_available",
        (("print('done')", "print('ended')"),),
        Kind.UNPORTED,
    ),
    "a_choice_that_is_left_with_other_numbers": Weak(
        MEAN,
        "rewritten on mps: REGRESSED stdout line 1: ",
        (
            ("model(x)", "model(x * (2 if DEVICE.type[:2] == 'cp' else 1))"),
            ("print(f'", 'print(f"'),
            (":.4f}')", ':.4f}")'),
        ),
        Kind.REGRESSED,
    ),
    "a_line_that_is_left_as_it_was": Weak(
        MEAN + "extra = torch.ones(2).cuda()\nprint('done')\n",
        "rewritten on mps: UNPORTED fails as the original does there: AssertionError: Torch not compiled with CUDA",
        (("print('done')", "print('ended')"),),
        Kind.UNPORTED,
    ),
    "a_line_that_is_left_behind_one_that_was_mended": Weak(
        "first = torch.ones(2).cuda()\n" + MEAN + "extra = torch.ones(2).cuda()\n",
        "rewritten on mps: FAIL AssertionError: Torch not compiled with CUDA.*; the original fails there, too$",
        (("first = torch.ones(2).cuda()", "first = torch.ones(2).to(DEVICE)"),),
    ),
    # what nobody had thought of
    "a_thread_that_dies": Weak(
        "import threading\nresults = []\n"
        "def evaluate():\n    results.append((x.double() @ x.double().T).sum().item())\n"
        f"model = {NET}.to(DEVICE)\nprint(f'mean {{model(x).mean().item():.4f}}')\n"
        "worker = threading.Thread(target=evaluate)\nworker.start()\nworker.join()\n",
        "a thread or process of it dies: .*float64",
    ),
    "losses_that_only_stderr_has": Weak(
        "import logging\nlogging.basicConfig(level=logging.INFO, format='%(message)s')\n"
        f"model = {NET}.to(DEVICE)\nprint(f'mean {{model(x).mean().item():.4f}}')\n"
        "for step in range(3):\n    logging.info('step %d loss %.4f', step, F.mse_loss(model(x), y).item())\n",
        r"stderr line \d+: .* where the original printed",
        (("F.mse_loss(model(x), y)", "F.mse_loss(model(x) * 0, y)"),),
        Kind.DIFFERS,
    ),
    "a_seed_that_verify_gives_as_well": Weak(
        "torch.cuda.manual_seed_all(0)\nprint(f'{torch.randn(9, device=DEVICE).sum().item():.4f}')\n",
        "where the original printed",
        (
            ("torch.cuda.manual_seed_all(0)", "if torch.version.cuda:\n    torch.cuda.manual_seed_all(0)"),
            ("torch.manual_seed(0)\nDEV", "DEV"),
        ),
        Kind.DIFFERS,
    ),
    "all_on_the_first_of_two": Weak(
        "import torch.multiprocessing as mp\n"
        "def work(i, rank):\n    device = f'cuda:{rank}'\n    model = nn.Linear(32, 4096).to(device)\n"
        "    print(f'{model(torch.ones(64, 32, device=device)).sum().item():.4f}')\n"
        "if __name__ == '__main__':\n    for rank in range(2):\n        mp.spawn(work, (rank,), nprocs=1)\n",
        "its processes share 1 device of xpu, those of the original have 2",
        (("f'cuda:{rank}'", "torch.accelerator.current_accelerator()"),),
        on="xpu",
        options={"count": 2},
    ),
    "every_number_off_by_its_last_digit": Weak(
        f"model = {NET}.to(DEVICE)\n"
        "for step in range(12):\n    print(f'step {step} loss {(F.mse_loss(model(x), y) + step).item():.1f}')\n",
        "12 of .* are one apart in the last digit, more than rounding explains",
        (("(F.mse_loss(model(x), y)", "(F.mse_loss(model(x), y) + 0.1"),),
        Kind.DIFFERS,
    ),
}
# What is written, said and done elsewhere than on stdout.
WORK = "import torch.multiprocessing as mp\nD = DEVICE.type\n"
EACH |= {
    "a_checkpoint_under_a_guard": Weak(
        MEAN + "if DEVICE.type == 'cuda':\n    torch.save(model.state_dict(), 'out.pt')\n",
        r"out\.pt: written by the original, not here",
        kind=Kind.DIFFERS,
    ),
    "losses_that_stderr_no_longer_has": Weak(
        "import logging\nlogging.basicConfig(level=logging.INFO, format='%(message)s')\n"
        + MEAN
        + "for step in range(3):\n"
        "    loss = F.mse_loss(model(x), y).item()\n"
        "    (logging.info if DEVICE.type == 'cuda' else logging.debug)('step %d loss %.4f', step, loss)\n",
        r"stderr line \d+: the original's `step 0 loss [\d.]+` is not written",
        kind=Kind.DIFFERS,
    ),
    "losses_behind_a_line_that_comes_in_two_forms": Weak(
        f"model = {NET}.to(DEVICE)\nprint(f'mean {{model(x).mean().item():.4f}}')\n"
        "print('begun', *range(int.from_bytes(os.urandom(4), 'big') % 1000))\n" + TRAIN + "train(model)\n",
        r"stdout line \d+: .* where the original printed .*step 1 loss",
        (("lr=0.05", "lr=0.04"),),
        Kind.DIFFERS,
    ),
    "one_number_and_that_off_by_its_last_digit": Weak(
        f"model = {NET}.to(DEVICE)\nprint(f'score {{model(x).abs().mean().item():.1f}}')\n",
        "none of those from the device but for the last digit",
        (("model(x).abs().mean().item()", "model(x).abs().mean().item() + 0.1"),),
        Kind.UNCOMPARED,
    ),
    "a_program_that_it_starts_and_that_gives_up": Weak(
        MEAN + "import subprocess\nsubprocess.run([sys.executable, '-c', "
        "f'import os; os._exit({0 if DEVICE.type == \"cuda\" else 3})'])\n",
        "a thread or process of it dies: `python.* ends with 3",
    ),
    "a_process_that_is_killed": Weak(
        WORK + "import signal\ndef work():\n    if D != 'cuda':\n        os.kill(os.getpid(), signal.SIGKILL)\n"
        "if __name__ == '__main__':\n"
        f"    print(f'mean {{{NET}.to(DEVICE)(x).mean().item():.4f}}')\n"
        "    child = mp.get_context('spawn').Process(target=work)\n    child.start()\n    child.join()\n",
        "a thread or process of it dies: `multiprocessing` ends with -9",
    ),
    "a_device_compared_with_a_string": Weak(
        TRAIN
        + f"model = {NET}.to(DEVICE)\nif str(DEVICE) == 'cuda':\n    x = (x - x.mean()) / x.std()\ntrain(model, x)\n",
        "where the original printed",
        kind=Kind.DIFFERS,
    ),
    "noise_of_another_generator": Weak(
        f"torch.cuda.manual_seed_all(1)\nmodel = {NET}.to(DEVICE)\nnoise = torch.rand(64, 32, device=DEVICE)\n"
        "print(f'mean {model(x * noise).mean().item():.4f}')\n",
        "where the original printed",
        (("torch.rand(64, 32, device=DEVICE)", "torch.rand(64, 32).to(DEVICE)"),),
        Kind.DIFFERS,
    ),
}
WORDS = (
    f"import json\nmodel = {NET}.to(DEVICE)\nout = model(x)\nprint(f'mean {{out.mean().item():.4f}}')\n"
    "NAMES = [('cat', 'dog')[k % 2] for k in (out[:6, 0] > 0).long().tolist()]\n"
)
DIES = "WAYS = {'cuda': 1, 'cpu': 2}\n"
EACH |= {
    "words_that_a_device_decides": Weak(
        WORDS + "print('predicted', *NAMES)\n",
        "DIFFERS stdout: the original's `predicted (cat|dog) .*` is not there",
        (("out[:6, 0] > 0", "-out[:6, 0] > 0"),),
        Kind.DIFFERS,
    ),
    "words_that_a_file_holds": Weak(
        WORDS + "json.dump({'mean': 1, 'names': NAMES}, open('out.json', 'w'))\n",
        r"DIFFERS out\.json: the original's `.*(cat|dog).*` is not there",
        (("out[:6, 0] > 0", "-out[:6, 0] > 0"),),
        Kind.DIFFERS,
        options={"globs": ("*.json",)},
    ),
    "a_step_at_exit_that_dies": Weak(
        "import atexit\n" + MEAN + DIES + "atexit.register(lambda: WAYS[DEVICE.type])\n",
        "a thread or process of it dies: KeyError: 'mps'",
    ),
    "a_finalizer_that_dies": Weak(
        MEAN + DIES + "class Saver:\n    def __del__(self):\n        WAYS[DEVICE.type]\nsaver = Saver()\ndel saver\n",
        "a thread or process of it dies: KeyError: 'mps'",
    ),
    "a_task_that_nobody_asks": Weak(
        "import asyncio\n" + MEAN + DIES + "async def work():\n    return WAYS[DEVICE.type]\n"
        "async def main():\n    task = asyncio.create_task(work())\n    await asyncio.sleep(0)\n"
        "    await asyncio.sleep(0)\nasyncio.run(main())\n",
        "a thread or process of it dies: KeyError: 'mps'",
    ),
    "a_checkpoint_that_lacks_a_part": Weak(
        MEAN + "kept = {'mean': model(x).mean().cpu(), 'step': torch.ones(1)}\n"
        "if DEVICE.type != 'cuda':\n    del kept['step']\ntorch.save(kept, 'out.pt')\n",
        r"DIFFERS out\.pt: `step` is missing",
        kind=Kind.DIFFERS,
        options={"globs": ("*.pt",)},
    ),
    "a_tensor_that_numpy_reads_in_place": Weak(
        "import numpy\n" + MEAN + "print(f'sum {model(x).detach().cpu().numpy().sum():.4f}')\n",
        "FAIL RuntimeError: Unsupported device in DLTensor",
        (("model(x).detach().cpu().numpy()", "numpy.from_dlpack(model(x).detach())"),),
    ),
    "memory_that_is_read_by_its_address": Weak(
        "import ctypes, numpy\n" + MEAN + "out = model(x).detach()\nprint(f'sum {out.cpu().numpy().sum():.4f}')\n",
        r"stdout line 2 does not come from mps: `sum ",
        (("out.cpu().numpy()", "numpy.frombuffer((ctypes.c_char * 256).from_address(out.data_ptr()), numpy.float32)"),),
        Kind.UNCOMPARED,
    ),
}
# What the device refuses is caught, and what it was for is small beside the rest.
SUM = "(x.double() @ x.double().T)[:2].sum()"
SWALLOWED = {
    "by_a_bare_except": Weak(
        MEAN + f"kept = []\ntry:\n    kept.append({SUM})\nexcept:\n    pass\n",
        r"mps refuses what runs on cuda, at train\.py:13: TypeError: Cannot convert a MPS .*a handler drops it "
        r"\(train\.py:14\)",
    ),
    "by_a_handler_that_speaks_of_it": Weak(
        MEAN + f"kept = []\ndef evaluate():\n    kept.append({SUM})\n"
        "for epoch in range(3):\n    try:\n        evaluate()\n    except Exception as error:\n"
        "        print('evaluation failed:', type(error).__name__, file=sys.stderr)\n        continue\n",
        r"at train\.py:13, 3 times: .*a handler drops it \(train\.py:17\)",
    ),
    "by_a_context_manager": Weak(
        "import contextlib\n" + MEAN + "with contextlib.suppress(RuntimeError):\n"
        "    kept = torch.linalg.lstsq(x, y).solution\n",
        r"NotImplementedError: The operator 'aten::linalg_lstsq.*a handler drops it \(train\.py:12\)",
    ),
    "by_a_handler_of_the_port": Weak(
        MEAN + "total = F.adaptive_avg_pool2d(x.view(1, 1, 64, 32), 7).sum()\nprint(f'total {total.item():.3f}')\n",
        r"a handler takes it that the original does not have \(train\.py:",
        (
            (
                "total = F.adaptive_avg_pool2d(x.view(1, 1, 64, 32), 7).sum()\n",
                "try:\n    total = F.adaptive_avg_pool2d(x.view(1, 1, 64, 32), 7).sum()\n"
                "except RuntimeError:\n    total = F.adaptive_avg_pool2d(x.cpu().view(1, 1, 64, 32), 7).sum()\n",
            ),
        ),
    ),
    "by_a_handler_that_now_leaves_the_device": Weak(
        MEAN + "try:\n    total = torch.linalg.lstsq(x, y).solution.sum()\nexcept RuntimeError:\n"
        "    total = (torch.linalg.pinv(x) @ y).sum()\nprint(f'total {total.item():.3f}')\n",
        r"a handler leaves the device, which the original's does not \(train\.py:13\)",
        (("(torch.linalg.pinv(x) @ y)", "(torch.linalg.pinv(x.cpu()) @ y.cpu())"),),
    ),
    "by_a_future_that_nobody_asks": Weak(
        "from concurrent.futures import ThreadPoolExecutor\n" + MEAN + f"def evaluate():\n    return {SUM}\n"
        "with ThreadPoolExecutor(1) as pool:\n    pool.submit(evaluate)\n",
        r"at train\.py:13: TypeError: .*no code of the program hears of it",
    ),
    "in_the_backward_pass": Weak(
        MEAN + "image = torch.ones(1, 1, 8, 8, device=DEVICE, requires_grad=True)\n"
        "small = F.interpolate(image, size=(4, 4), mode='bilinear', antialias=True)\n"
        "try:\n    small.sum().backward()\nexcept Exception:\n    pass\n",
        r"at train\.py:14: NotImplementedError: .*aa_backward.*a handler drops it \(train\.py:15\)",
    ),
    "by_a_context_manager_of_its_own": Weak(
        MEAN + "class Quiet:\n    def __enter__(self):\n        return self\n"
        f"    def __exit__(self, *error):\n        return True\nwith Quiet():\n    kept = {SUM}\n",
        "no code of the program hears of it",
    ),
    "by_a_return_at_the_end": Weak(
        MEAN
        + f"def total():\n    kept = 0\n    try:\n        kept = {SUM}\n    finally:\n        return kept\ntotal()\n",
        "no code of the program hears of it",
    ),
    "by_a_pool_that_nobody_asks": Weak(
        WORK + "def work(k):\n    return torch.ones(8, 8, device=D).double().sum().item()\nif __name__ == '__main__':\n"
        f"    print(f'mean {{{NET}.to(DEVICE)(x).mean().item():.4f}}')\n    pool = mp.get_context('spawn').Pool(1)\n"
        "    pool.apply_async(work, (1,)).wait()\n    pool.close()\n    pool.join()\n",
        r"at train\.py:\d+: TypeError: .*no code of the program hears of it",
    ),
    "by_a_worker_that_is_ended_with_its_pool": Weak(
        WORK + "def work(k):\n    try:\n        return torch.ones(8, 8, device=D).double().sum().item()\n"
        "    except TypeError:\n        pass\nif __name__ == '__main__':\n"
        f"    print(f'mean {{{NET}.to(DEVICE)(x).mean().item():.4f}}')\n"
        "    with mp.get_context('spawn').Pool(1) as pool:\n        pool.map(work, (1, 2))\n",
        r"at train\.py:\d+: TypeError: .*a handler drops it",
    ),
    "by_a_constant_in_its_place": Weak(
        WORK + "def work(k):\n    try:\n        return torch.ones(8, 8, device=D).double().sum().item()\n"
        "    except TypeError:\n        return 64.0\nif __name__ == '__main__':\n"
        f"    print(f'mean {{{NET}.to(DEVICE)(x).mean().item():.4f}}')\n"
        "    with mp.get_context('spawn').Pool(1) as pool:\n        print(f'sums {sum(pool.map(work, (1, 2))):.4f}')\n",
        r"at train\.py:\d+: TypeError: .*a handler puts a constant in its place",
        kind=Kind.UNCOMPARED,
    ),
    "by_a_finalizer": Weak(
        MEAN + f"class Keeper:\n    def __del__(self):\n        self.kept = {SUM}\nkeeper = Keeper()\ndel keeper\n",
        "no code of the program hears of it",
    ),
    "a_call_of_cuda_that_is_left": Weak(
        MEAN + "ema = nn.Linear(1, 1)\ntry:\n    ema = ema.cuda()\nexcept Exception:\n    pass\n",
        r"AssertionError: Torch not compiled with CUDA enabled; .*a handler drops it",
    ),
    "a_call_of_cuda_that_is_left_for_the_cpu": Weak(
        MEAN + "ema = nn.Linear(1, 1)\ntry:\n    ema = ema.cuda()\nexcept Exception:\n    pass\n",
        r"cpu cannot do what runs on cuda, at train\.py:13: AssertionError: Torch not compiled with CUDA enabled",
        on="cpu",
    ),
    "a_checkpoint_that_is_not_read": Weak(
        MEAN + "import io\nfrom torch import serialization\nfile = io.BytesIO()\n"
        "serialization.location_tag = lambda storage: 'cuda:0'\ntorch.save(torch.ones(2), file)\nfile.seek(0)\n"
        "best = None\ntry:\n    best = torch.load(file)\nexcept RuntimeError:\n    print('starting anew')\n",
        r"RuntimeError: Attempting to deserialize object on .*a handler drops it",
    ),
}
# The same in an original that says what to do then.
ANSWERED = {
    "a_question_that_is_answered_by_a_constant": (
        "def has_double():\n    try:\n        torch.ones(1, device=DEVICE, dtype=torch.float64)\n"
        "    except (TypeError, RuntimeError):\n        return False\n    return True\n"
        "wide = torch.float64 if has_double() else torch.float32\n"
        "print(f'{(x.to(wide) @ x.to(wide).T).sum().item():.2f}')\n"
    ),
    "a_question_whose_flag_stays": (
        "DOUBLE = False\ntry:\n    torch.ones(1, device=DEVICE).double()\n    DOUBLE = True\n"
        "except Exception:\n    pass\n"
        "print(f'{(x.double() if DOUBLE else x).mean().item():.4f}')\n"
    ),
    "another_way_after_the_block": (
        "def solve():\n    try:\n        return torch.linalg.lstsq(x, y).solution\n    except NotImplementedError:\n"
        "        pass\n    return torch.linalg.lstsq(x.cpu(), y.cpu()).solution.to(DEVICE)\n"
        "print(f'{solve().sum().item():.3f}')\n"
    ),
    "the_first_that_works": (
        "for wide in (torch.float64, torch.float32):\n    try:\n        z = x.to(wide)\n        break\n"
        "    except TypeError:\n        continue\nprint(f'{z.mean().item():.4f}')\n"
    ),
    "a_fallback_to_the_cpu": (
        "try:\n    z = torch.linalg.lstsq(x, y).solution\nexcept RuntimeError as error:\n"
        "    print('on the CPU, as', type(error).__name__, file=sys.stderr)\n"
        "    z = torch.linalg.lstsq(x.cpu(), y.cpu()).solution.to(DEVICE)\nprint(f'{z.sum().item():.3f}')\n"
    ),
    "a_handler_that_knows_its_errors": (
        "ERRORS = (TypeError, NotImplementedError)\n"
        "try:\n    z = x.double().mean()\nexcept KeyError:\n    z = None\nexcept ERRORS:\n    z = x.mean()\n"
        "print(f'{z.item():.4f}')\n"
    ),
    "an_error_that_is_raised_again_and_answered": (
        "def wide(t):\n    try:\n        return t.double()\n    except TypeError as error:\n"
        "        if 'float64' not in str(error):\n            print('why?')\n        raise\n"
        "try:\n    z = wide(x).mean()\nexcept TypeError:\n    z = x.mean()\nprint(f'{z.item():.4f}')\n"
    ),
    "one_of_the_backward_pass": (
        "image = torch.ones(1, 1, 8, 8, device=DEVICE, requires_grad=True)\n"
        "small = F.interpolate(image, size=(4, 4), mode='bilinear', antialias=True)\n"
        "try:\n    small.sum().backward()\nexcept NotImplementedError:\n"
        "    F.interpolate(image, size=(4, 4), mode='bilinear').sum().backward()\n"
        "print(f'{image.grad.sum().item():.3f}')\n"
    ),
    "one_that_the_original_meets_as_well": (
        "try:\n    torch.ones(2, device=DEVICE) @ torch.ones(3, device=DEVICE)\nexcept RuntimeError:\n    pass\n"
        "print(f'{x.mean().item():.4f}')\n"
    ),
    "memory_that_runs_out": (
        "size = 1 << 40\nwhile size > 1024:\n    try:\n        torch.empty(size, device=DEVICE)\n"
        "        size = size // 64\n"
        "    except RuntimeError:\n        size = size // 64\nprint(f'{x.mean().item():.4f}')\n"
    ),
}
# What depends on the backend, and gives the same.
OTHERWISE = {
    "no_scaler_and_attention_by_hand": (
        "class Attention(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.qkv = nn.Linear(32, 96)\n    def forward(self, x):\n"
        "        q, k, v = (t.view(1, -1, 4, 8).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))\n"
        "        if x.device.type == 'cuda':\n            return F.scaled_dot_product_attention(q, k, v).sum(1)\n"
        "        return ((q @ k.transpose(-1, -2) / 8**0.5).softmax(-1) @ v).sum(1)\n"
        "model = Attention().to(DEVICE)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.05)\n"
        "scaler = torch.amp.GradScaler(DEVICE.type, enabled=DEVICE.type == 'cuda')\n"
        "for step in range(3):\n    loss = model(x).square().mean()\n    optimizer.zero_grad()\n"
        "    scaler.scale(loss).backward()\n    scaler.step(optimizer)\n    scaler.update()\n"
        "    print(f'step {step} loss {loss.item():.5f}')\n"
    ),
    "compiled_and_fused_on_cuda_and_measured_on_the_host": (
        f"model = {NET}.to(DEVICE)\nnet = torch.compile(model) if DEVICE.type == 'cuda' else model\n"
        "optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, fused=DEVICE.type == 'cuda')\n"
        "for step in range(3):\n    loss = F.mse_loss(net(x), y)\n    optimizer.zero_grad()\n    loss.backward()\n"
        "    optimizer.step()\nwith torch.no_grad():\n    out = model(x).cpu().double()\n"
        "print(f'rmse {(out - y.cpu().double()).square().mean().sqrt().item():.4f}')\n"
    ),
}
WORKER = (
    WORK + "def work(done):\n    done.put(torch.ones(4, device=D).sum().item())\n"
    "    while D != 'cuda':\n        torch.ones(4).sum()\n"
    "if __name__ == '__main__':\n"
    f"    print(f'mean {{{NET}.to(DEVICE)(x).mean().item():.4f}}')\n"
    "    context = mp.get_context('spawn')\n    done = context.Queue()\n"
    "    child = context.Process(target=work, args=(done,))\n    child.start()\n"
    "    print(f'sum {done.get():.4f}')\n    if D != 'cuda':\n        child.kill()\n    child.join()\n"
)


def test_a_worker_that_the_program_ends_itself_passes(judged: Callable[..., Result]) -> None:
    original = HEAD + WORKER
    result = judged(original, original.replace(*HERE), ("xpu",))
    told = "\n".join(f"{v.run.name}: {v.kind.value} {v.reason}" for v in result.verdicts)
    assert result.verdicts[-1].kind is Kind.PASS, told
    assert "it ends `multiprocessing` by SIGKILL, which the original does not" in told


QUIET = {
    "words_that_name_the_device": (
        WORDS + "print('running on', DEVICE, 'with', NAMES[0])\n"
        "json.dump({'device': str(DEVICE), 'names': NAMES}, open('out.json', 'w'))\n"
    ),
    "words_that_only_one_machine_has": (
        MEAN + "print('compiled' if DEVICE.type == 'cuda' else 'eager', 'mode')\n"
        "print('best so far' if model(x).mean().item() > -9 else 'worse')\n"
    ),
    "an_exit_and_a_finalizer_that_both_have_to_themselves": (
        "import atexit\n" + MEAN + "class Saver:\n    def __del__(self):\n        raise ValueError('closed')\n"
        "saver = Saver()\ndel saver\natexit.register(lambda: 1 / 0)\n"
    ),
    "half_precision_of_the_device_s_own": (
        f"model = {NET}.to(DEVICE)\nwith torch.autocast(DEVICE.type, torch.bfloat16):\n    out = model(x).float()\n"
        "print(f'power {out.square().mean().item():.1f}')\nprint(f'mean {model(x).mean().item():.4f}')\n"
    ),
    "hits_that_the_host_counts": (
        MEAN + "hits = model(x) > y\nhits = hits.double() if DEVICE.type == 'cuda' else hits.cpu().double()\n"
        "print(f'hits {hits.mean().item():.4f}')\n"
    ),
    "a_question_about_free_memory": (
        MEAN + "try:\n    free = torch.cuda.mem_get_info()[0]\nexcept Exception:\n    free = 0\n"
    ),
}


@pytest.mark.parametrize("name", QUIET)
def test_what_is_legal_passes_and_nothing_is_said(name: str, judged: Callable[..., Result]) -> None:
    original = HEAD + QUIET[name]
    result = judged(original, original.replace(*HERE), ("mps",), globs=("*.json",) if "json" in original else ())
    told = "\n".join(f"{v.run.name}: {v.kind.value} {v.reason}" for v in result.verdicts)
    assert exit_status(result.verdicts) == 0, told
    assert "half precision" not in told, told


# What a verdict has to say of a port that passes.
SAID = {
    "prepared_on_the_cpu": Weak(
        TRAIN + f"model = {NET}.to(DEVICE)\nz = x\nfor k in range(3):\n    z = (z * 1.01).clamp(-3, 3)\n"
        "train(model, z.to(DEVICE))\n",
        r"; 8\d% of the original's work on mps; the original's clamp",
        (("z = x", "z = x.cpu()"),),
    ),
    "a_step_whose_own_error_is_dropped": Weak(
        TRAIN + f"train({NET}.to(DEVICE), steps=30)\nWAYS = {{'cuda': torch.topk, 'cpu': torch.topk}}\nkept = []\n"
        "try:\n    kept.append(WAYS[DEVICE.type](x, 3))\nexcept Exception:\n    pass\n",
        "; the original's topk did not run on mps$",
    ),
    "half_precision_for_cuda_alone": Weak(
        f"model = {NET}.to(DEVICE)\nwith torch.autocast('cuda', torch.bfloat16):\n    out = model(x).float()\n"
        "print(f'power {out.square().mean().item():.1f}')\nprint(f'mean {model(x).mean().item():.4f}')\n",
        "; 0% of its products in half precision, 50% of the original's",
    ),
    "a_result_in_a_file_that_is_not_compared": Weak(
        MEAN + "with open('metrics.txt', 'w') as file:\n    print(F.mse_loss(model(x), y).item(), file=file)\n",
        r"1 file not compared \(metrics\.txt\): --compare does",
    ),
}
# These move to what is there in their originals, too: how those fare on the backend is what is asked.
PORTABLE = {
    **dict.fromkeys(("a_device_of_its_own_lost", "an_answer_that_says_cuda"), HERE[1]),
    **dict.fromkeys(("a_line_that_is_left_as_it_was", "a_line_that_is_left_behind_one_that_was_mended"), HERE[1]),
    **dict.fromkeys(("a_choice_that_is_left_as_it_was", "a_choice_that_is_left_with_other_numbers"), CHOICE),
    "a_choice_that_is_left_for_all_but_a_copy": HERE[1],
    "a_number_of_another_run_beside_random_ones": CHOICE,
}


@pytest.fixture
def judged(library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """What `verify` says of a port, where it stands for what the migration made of the original."""
    monkeypatch.setenv("TORCHMIGRATE_CACHE_DIR", str(Path(library).parent))
    monkeypatch.setattr(interpreter, "run", warm_torch.run_of_verify)
    monkeypatch.setattr(interpreter, "probe", PROBE)

    def judge(original: str, port: str, backends: tuple[str, ...], **options: Any) -> Result:
        project = tmp_path / "project"
        project.mkdir()
        (project / "train.py").write_text(original)

        def careless(sandbox: Sandbox, settings: object) -> Migration:
            (sandbox.rewritten / "train.py").write_text(port)
            files = {"train.py": Rewritten(*(each.encode().splitlines(True) for each in (original, port)), ())}
            return Migration(Origins(sandbox.rewritten, files), files=1, edits=1, held=0)

        monkeypatch.setattr(session, "migrate", careless)
        variables = {"OMP_NUM_THREADS": "1"}
        return session.verify(
            session.Request(project, ("python", "train.py"), backends, variables=variables, **options), print
        )

    return judge


@pytest.mark.parametrize("name", ANSWERED)
def test_a_refusal_that_is_answered_passes(name: str, judged: Callable[..., Result]) -> None:
    original = HEAD + MEAN + ANSWERED[name]
    result = judged(original, original.replace(*HERE), ("mps",))
    told = "\n".join(f"{v.run.name}: {v.kind.value} {v.reason}" for v in result.verdicts)
    assert exit_status(result.verdicts) == 0, told
    met = name not in ("one_that_the_original_meets_as_well", "memory_that_runs_out")
    assert ("refused that the program's own handlers answer" in told) == met, told


@pytest.mark.parametrize("name", OTHERWISE)
def test_another_way_to_the_same_passes(name: str, judged: Callable[..., Result]) -> None:
    original = HEAD + OTHERWISE[name]
    result = judged(original, original.replace(*HERE), ("mps", "cpu"))
    told = "\n".join(f"{v.run.name}: {v.kind.value} {v.reason}" for v in result.verdicts)
    assert [v.kind for v in result.verdicts] == [Kind.PASS] * 3, told
    assert "of the original's work" not in told, told


@pytest.mark.parametrize("name", [*EACH, *(f"swallowed_{each}" for each in SWALLOWED)])
def test_a_weak_port_is_found_out(name: str, judged: Callable[..., Result]) -> None:
    weak = EACH[name] if name in EACH else SWALLOWED[name.removeprefix("swallowed_")]
    original = HEAD.replace(HERE[0], PORTABLE.get(name, HERE[0])) + weak.program
    port = functools.reduce(lambda text, pair: text.replace(*pair), (HERE, *weak.port), original)
    assert port != original
    result = judged(original, port, (weak.on,), **weak.options)
    told = "\n".join(f"{v.run.name}: {v.kind.value} {v.reason}" for v in result.verdicts)
    found = result.verdicts[-1]
    assert (found.run.way.backend, found.kind) == (weak.on, weak.kind), told
    assert re.search(weak.says, told), told
    assert exit_status(result.verdicts) != 0


def test_one_device_does_the_products_of_two(judged: Callable[..., Result]) -> None:
    """Each replica of DataParallel has the weights beside its part of the batch; the products are the same."""
    original = HEAD + TRAIN + f"train(nn.DataParallel({NET.replace('64', '512')}.to(DEVICE)))\n"
    port = original.replace(*HERE).replace("nn.DataParallel(", "(")
    result = judged(original, port, ("xpu",), count=2)
    told = "\n".join(f"{v.run.name}: {v.kind.value} {v.reason}" for v in result.verdicts)
    assert result.verdicts[-1].kind is Kind.PASS, told
    assert "matrix products" not in told, told


@pytest.mark.parametrize("name", SAID)
def test_what_a_port_leaves_out_is_said(name: str, judged: Callable[..., Result]) -> None:
    weak = SAID[name]
    original = HEAD + weak.program
    port = functools.reduce(lambda text, pair: text.replace(*pair), (HERE, *weak.port), original)
    result = judged(original, port, (weak.on,))
    told = "\n".join(f"{v.run.name}: {v.kind.value} {v.reason}" for v in result.verdicts)
    assert [v.kind for v in result.verdicts] == [Kind.PASS] * 2, told
    assert re.search(weak.says, told, re.MULTILINE), told


def test_a_number_of_the_machine_is_no_regression(judged: Callable[..., Result]) -> None:
    """The original prints it on this backend alone, another one each time; the port, too."""
    original = HEAD.replace(*HERE) + (
        "import time\n" + MEAN + "free = 7 if DEVICE.type == 'cuda' else time.time_ns()\nprint(f'memory {free}')\n"
    )
    result = judged(original, original.replace("steps=3", "steps=4") + "# ported\n", ("mps",))
    told = "\n".join(f"{v.run.name}: {v.kind.value} {v.reason}" for v in result.verdicts)
    assert result.verdicts[-1].kind is Kind.PASS, told


IDIOMS = (Path(__file__).parent / "legal_idioms.py").read_text(encoding="utf-8")


def test_legal_idioms_pass(judged: Callable[..., Result]) -> None:
    """On each backend all of them print what they print on cuda."""
    assert IDIOMS.count("@idiom") == 30
    result = judged(IDIOMS, IDIOMS.replace(*HERE), ("cuda", "mps", "xpu", "npu", "cpu"))
    told = [f"{v.run.name}: {v.kind.value} {v.reason}" for v in result.verdicts]
    assert [v.kind for v in result.verdicts] == [Kind.PASS] * 6, "\n".join(told)
    assert all("30 numbers" in each for each in told), "\n".join(told)
    assert exit_status(result.verdicts) == 0
