"""Which devices there are, which one is current, and what is on them."""

from __future__ import annotations

import logging
import types
import warnings

import torch

from . import BACKENDS, CAPACITY, COUNT, KIND, ON_CUDA, ON_MPS, accel, check, environment, here, raises, tensor


@check
def the_device_is_this_backend() -> None:
    assert accel.device() == here()
    assert (accel.device_type(), accel.is_available(), accel.device_count()) == (KIND, True, COUNT)
    assert torch.ones(1, device=accel.device()).device == here(0)


@check
def an_index_is_that_of_the_same_device() -> None:
    for asked in (0, "0", "cuda:0", torch.device("cuda", 0)):
        assert accel.device(asked) == here(0), asked
    for asked in (None, "cuda", torch.device("cuda")):
        assert accel.device(asked) == here(), asked
    for asked in ("cpu", torch.device("meta"), here(0)):
        assert accel.device(asked) == torch.device(asked)


@check(least=2)
def the_second_device() -> None:
    for asked in (1, "1", "cuda:1", torch.device("cuda", 1)):
        assert accel.device(asked) == here(1), asked
        assert torch.ones(1, device=accel.device(asked)).device == here(1)


@check
def a_second_device_that_is_not_there() -> None:
    if COUNT > 1 or ON_CUDA:  # as asked: the error is torch's, at the first use
        assert accel.device(COUNT) == here(COUNT)
        with raises(RuntimeError):
            torch.ones(1, device=accel.device(COUNT))
        return
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert torch.ones(1, device=accel.device(1)).device == here(0)
    assert [(str(w.message), w.filename) for w in said] == [
        (f"accel: device 1 was asked for, but there is only {KIND}:0", __file__)
    ]


@check
def the_current_device_is_the_first_one() -> None:
    assert accel.current_device() == 0
    accel.set_device(0)
    accel.set_device(-1)
    assert accel.current_device() == 0
    assert accel.device(accel.current_device()) == here(0)


@check(least=2)
def setting_the_device() -> None:
    for asked, index in ((1, 1), (0, 0), ("cuda:1", 1), (torch.device("cuda", 0), 0), (here(1), 1), (-1, 1)):
        accel.set_device(asked)
        assert accel.current_device() == torch.accelerator.current_device_index() == index, asked
        assert torch.ones(1, device=accel.device()).device == here(index)


@check(least=2)
def a_guard_s_device_is_current_inside_it() -> None:
    for asked in (1, "cuda:1", torch.device("cuda", 1), here(1)):
        with accel.device_guard(asked):
            assert accel.current_device() == 1, asked
            assert torch.ones(1, device=accel.device()).device == here(1)
            with accel.device_guard(0):
                assert accel.current_device() == 0
            with accel.device_guard(None), accel.device_guard(-1):
                assert accel.current_device() == 1
        assert accel.current_device() == 0


@check(least=2)
def a_guard_ends_with_an_exception() -> None:
    with raises(ZeroDivisionError), accel.device_guard(1):
        1 / 0
    assert accel.current_device() == 0


@check(least=2)
def a_tensor_s_device_is_current_inside_its_guard() -> None:
    with accel.device_of(tensor(1, index=1)):
        assert accel.current_device() == 1
        with accel.device_of(torch.ones(1)):
            assert accel.current_device() == 1
    assert accel.current_device() == 0


@check
def guards_of_one_device() -> None:
    for manager in (accel.device_guard(0), accel.device_guard(None), accel.device_of(tensor(1))):
        with manager:
            assert torch.ones(1, device=accel.device()).device == here(0)


@check
def what_is_accelerated() -> None:
    yes = [tensor(1), here(), here(0), KIND, f"{KIND}:0", "cuda", "cuda:0", torch.device("cuda"), 0]
    yes += [f"torch.{KIND}.FloatTensor", "torch.cuda.FloatTensor", torch.nn.Parameter(tensor(1))]
    yes += [torch.nn.utils.rnn.pack_padded_sequence(tensor(2, 1), [2])]
    no = [torch.ones(1), torch.device("cpu"), "cpu", "torch.FloatTensor", -1, None, object()]
    assert [thing for thing in yes if accel.is_accelerated(thing) is not True] == []
    assert [thing for thing in no if accel.is_accelerated(thing) is not False] == []
    assert accel.is_accelerated(types.SimpleNamespace(is_cuda=True)) is True


@check
def whose_it_is() -> None:
    assert accel.is_nvidia() is ON_CUDA
    assert accel.is_usable() is True
    assert accel.is_complete() is (KIND != "mps")


@check
def what_a_program_gets_that_wants_the_cpu() -> None:
    with environment(TORCH_ACCEL_DEVICE="cpu"):
        assert accel.device(1) == torch.device("cpu")
        assert (accel.device_type(), accel.is_available(), accel.device_count()) == ("cpu", False, 0)
        assert (accel.is_accelerated(tensor(1)), accel.dist_backend(), accel.mem_get_info()) == (False, "gloo", (0, 0))
        assert accel.is_usable()
        assert not accel.is_complete()
        with accel.autocast():
            assert (tensor(2, 2) @ tensor(2, 2)).dtype == torch.float32
    assert accel.device() == here()


@check
def the_environment_names_this_device() -> None:
    for name in (KIND, f"{KIND}:0"):
        with environment(TORCH_ACCEL_DEVICE=name):
            assert (accel.device(), accel.current_device()) == (here(), 0)


@check(least=2)
def the_environment_s_index_becomes_the_current_device() -> None:
    with environment(TORCH_ACCEL_DEVICE=f"{KIND}:1"):
        assert accel.device() == here()
        assert accel.current_device() == torch.accelerator.current_device_index() == 1
        assert torch.ones(1, device=accel.device()).device == here(1)


@check
def a_device_that_is_not_here() -> None:
    other = next(kind for kind in BACKENDS if kind != KIND)
    with environment(TORCH_ACCEL_DEVICE=other), raises((RuntimeError, AssertionError, NotImplementedError), ""):
        torch.ones(1, device=accel.device())


@check
def the_log_names_what_is_lacking() -> None:
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("accel").addHandler(handler)
    try:
        with environment(TORCH_ACCEL_LOG="1"):
            for _ in range(2):
                accel.memory_summary()
                accel.synchronize()
                accel.memory_allocated()
    finally:
        logging.getLogger("accel").removeHandler(handler)
    assert [line.partition(": ")[2] for line in lines] == (
        [] if ON_CUDA else [f"no memory_summary on {KIND}. {accel.memory_summary.__doc__}"]
    )
    assert all(line.startswith(__file__) for line in lines)


@check
def ids_for_ddp_and_data_parallel() -> None:
    single = ON_MPS
    assert accel.device_ids(0) == (None if single else [0])
    assert accel.device_ids([0]) == accel.device_ids(range(1)) == (None if single else [0])
    assert accel.device_ids(None) is None
    assert accel.output_device(0) == (None if single else 0)
    assert accel.output_device(None) is None
    named = accel.device_ids("cuda:0", torch.device("cuda", 0))
    expected = ["cuda:0", torch.device("cuda", 0)] if ON_CUDA else [here(0), here(0)]
    assert named == (None if single else expected)


@check
def its_name_and_properties() -> None:
    name = accel.get_device_name()
    assert isinstance(name, str)
    assert name in (KIND, f"simulated {KIND} device")
    for asked in ((), (0,), ("cuda:0",), (here(0),), (accel.device(),)):
        assert accel.get_device_name(*asked) == name, asked
        found = accel.get_device_properties(*asked)
        assert found.name == name
        assert found.total_memory == (CAPACITY if KIND == "mtia" else accel.mem_get_info()[1])
        assert (found.major, found.minor) == ((8, 0) if ON_CUDA else (found.major, found.minor))
        assert isinstance(found.major, int)
        assert isinstance(found.multi_processor_count, int)
        assert accel.get_device_capability(*asked) == ((8, 0) if ON_CUDA else (0, 0)), asked


@check
def bfloat16() -> None:
    expected = not ON_MPS  # unknown
    assert accel.is_bf16_supported() is expected
    assert accel.is_bf16_supported(including_emulation=False) is expected
    assert accel.is_bf16_supported(True) is expected
