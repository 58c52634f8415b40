"""What counts as a number in a program's output."""

from __future__ import annotations

import math

import pytest

from torchmigrate.verify.compare import Kind, is_poison, lines, shape


def values(text: str, kind: Kind = Kind.VALUE) -> list[str]:
    return [number.text for line in lines(text) for number in line.numbers if number.kind is kind]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("step 3 loss 0.1234", ["3", "0.1234"]),
        ("lr=1e-3, acc 97.5% 3/10", ["1e-3", "97.5", "3", "10"]),
        ("[1, -2.5, nan, -inf]", ["1", "-2.5", "nan", "-inf"]),
        ("Epoch:1|loss:2.5e-05|", ["1", "2.5e-05"]),
        ("1,234 items of (1,2,3)", ["1,234", "1", "2", "3"]),
        ("x=.5 5.", [".5", "5."]),
        ("tensor([ 0.1000], device='mps:0')", ["0.1000"]),
        ("fc1.weight conv2d-1 model-1.pt epoch_3.pt layer.0.bias", []),
        ("cuda:0 MPS gpu:1 rank:3 torch 2.13.0+cpu v1.2 10.0.0.1", []),
        ("2024-05-01 12:33:01,123 INFO 00:01<00:10", []),
        ("<Linear at 0x7f12aa00> NVIDIA A100-SXM4-80GB info nano inference", []),
    ],
)
def test_numbers_are_told_from_what_only_has_digits(text: str, expected: list[str]) -> None:
    assert values(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "12.3 ms",
        "0.5s",
        "3 sec",
        "1.5 hours",
        "12 img/s",
        "8.5it/s",
        "time: 3.2",
        "elapsed 4",
        "5 samples/sec",
        "data_time: 0.0019",
    ],
)
def test_times_and_rates_are_of_their_own_kind(text: str) -> None:
    assert values(text) == []
    assert len(values(text, Kind.TIME)) == 1


def test_bytes_are_of_their_own_kind() -> None:
    assert values("peak 3.5 MiB, 10MB and 2 GB for 4 models", Kind.BYTES) == ["3.5", "10", "2"]
    assert values("peak 3.5 MiB for 4 models") == ["4"]


def test_lines_without_numbers_are_left_out_and_those_that_are_overwritten_too() -> None:
    found = lines("hello\nstep 1\r\nepoch 1\repoch 2\n")
    assert [(line.number, line.text) for line in found] == [(2, "step 1"), (3, "epoch 2")]


def test_the_shape_of_a_line_has_no_devices_and_no_numbers() -> None:
    assert shape("loss 0.5 on cuda:0") == shape("loss  12 on mps:0") == "loss # on @"
    assert shape("layer1 3") != shape("layer 13")


@pytest.mark.parametrize(("text", "unit"), [("0.1234", 1e-4), ("12", 0), ("1.5e-3", 1e-4), ("2e3", 1e3), ("nan", 0)])
def test_the_last_place(text: str, unit: float) -> None:
    assert math.isclose(lines(text)[0].numbers[0].unit, unit)


@pytest.mark.parametrize(
    ("text", "poison"),
    [
        ("3.3961513649220713e+38", True),
        ("3.3962e+38", True),
        ("-3.3962e+38", True),
        ("339615136492207130000000000000000000000.0000", True),
        ("2139062143", True),
        ("9187201950435737471", True),
        ("1.3824172084878715e+306", True),
        ("3.4028234663852886e+38", False),  # the largest float32: a mask
        ("3.4e+38", False),  # could be either
        ("127", False),
        ("0.3396", False),
        ("nan", False),
    ],
)
def test_memory_that_nothing_has_written_is_known_by_its_value(text: str, poison: bool) -> None:
    assert is_poison(lines(text)[0].numbers[0]) is poison
