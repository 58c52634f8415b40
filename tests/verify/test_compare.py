"""Numbers and files of two runs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from conftest import write_tree

from torchmigrate.verify.compare import (
    Comparison,
    Files,
    Reference,
    Tolerance,
    comparable,
    compare,
    compare_files,
    lines,
    named_devices,
    reference,
    written,
)

EXACT, NEAR = Tolerance(0.0, True), Tolerance(1e-3, False)


def expected(first: str, second: str | None = None) -> Reference:
    return reference(lines(first), lines(first if second is None else second))


def compared(first: str, found: str, tolerance: Tolerance = EXACT, second: str | None = None) -> Comparison:
    return compare(expected(first, second), lines(found), tolerance)


def plain(comparison: Comparison) -> int:
    """The numbers that agree, where nothing differs and nothing is rounded."""
    assert (comparison.difference, len(comparison.rounded)) == (None, 0)
    return comparison.numbers


def told(comparison: Comparison) -> str:
    return str(comparison.difference)


def test_warnings_of_python_are_not_compared() -> None:
    warning = "/env/lib/torch/optim/lr_scheduler.py:{}: UserWarning: step {} before 7\n  warnings.warn(text, 2)\n"
    text = "loss 0.5\n{}loss 0.25\n"
    for found in (warning.format(81, 1), warning.format(82, 3), "<string>:1: FutureWarning: 3 of cuda:0\n", ""):
        assert plain(compared(text.format(warning.format(80, 1)), text.format(found))) == 2
    assert not named_devices("train.py:3: UserWarning: moved to cuda:0\n  x.to('cuda:0')\n")


def test_the_name_of_an_option_names_no_device() -> None:
    assert not named_devices("Namespace(batch_size=4, cuda=True)\n")
    assert [*named_devices("Namespace(cuda=True, device=mps)\ndevice=cuda\n").values()] == [{"mps"}, {"cuda"}]


def test_lines_that_only_look_like_warnings_are_compared() -> None:
    assert plain(compared("train.py:3: loss 0.5\n  acc 0.5\n", "train.py:3: loss 0.5\n  acc 0.5\n")) == 3
    assert "0.4" in told(compared("UserWarning: loss 0.5\n", "UserWarning: loss 0.4\n"))
    text = "a.py:3: UserWarning: x\n  y = 1\n  loss {}\n"
    assert "0.4" in told(compared(text.format(0.5), text.format(0.4)))


def test_equal_to_the_digit_or_not() -> None:
    text = "step 1 loss 0.5000\nstep 2 loss 0.2500\n"
    assert plain(compared(text, text)) == 4
    found = compared(text, text.replace("0.2500", "0.2501"))
    assert found.numbers == 2
    assert told(found) == "line 2: 0.2501 where the original printed 0.2500 (`step 2 loss 0.2501`)"


@pytest.mark.parametrize(
    ("a", "b", "agree"),
    [
        ("1000.5", "1001.4", True),
        ("1000.5", "1002.0", False),
        ("0.0012", "0.0013", True),  # rounding to what was printed
        ("0.0012", "0.0014", False),
        ("0.5", "0.4217", False),  # printed to the last digit each: no rounding
        ("100", "101", False),  # whole numbers are not rounded
        ("10000", "10001", True),
        ("1.2e-07", "-3.4e-08", True),  # zero, but for rounding errors
        ("nan", "NaN", True),
        ("nan", "1.0", False),
        ("inf", "inf", True),
        ("inf", "-inf", False),
    ],
)
def test_the_tolerance(a: str, b: str, agree: bool) -> None:
    assert (compared(f"x {a}", f"x {b}", NEAR).difference is None) is agree


def test_only_numbers_are_compared() -> None:
    found = compared("on cuda:0 (NVIDIA): 0.5\nhello\n", "using mps:0: 0.5\nworld\nbye\n", NEAR)
    assert plain(found) == 1


def test_what_differs_between_two_runs_of_the_original_is_left_out() -> None:
    first, second = "loss 0.5 id 17\nloss 0.4 id 23\nseed 3\n", "loss 0.5 id 18\nloss 0.4 id 23\nseed 3\n"
    base = expected(first, second)
    assert (base.numbers, base.left_out) == (3, 2)  # the second id is of the same kind, equal by chance
    assert plain(compared(first, "loss 0.5 id 99\nloss 0.4 id 99\nseed 3\n", EXACT, second)) == 3
    assert compared(first, "loss 0.6 id 17\nloss 0.4 id 23\nseed 3\n", EXACT, second).difference


def test_times_are_left_out_even_if_they_are_equal_twice() -> None:
    base = expected("took 3 ms, loss 0.5")
    assert (base.numbers, base.left_out) == (1, 1)


def test_bytes_are_compared_on_the_same_backend_only() -> None:
    assert told(compared("peak 3.5 MiB", "peak 4.5 MiB")).startswith("line 1: 4.5 where")
    assert plain(compared("peak 3.5 MiB", "peak 4.5 MiB", NEAR)) == 0
    assert told(compared("max mem: 2131", "max mem: 0")).startswith("line 1: 0 where")
    assert plain(compared("loss: 0.5  max mem: 2131", "loss: 0.5  max mem: 0", NEAR)) == 1
    assert compared("members: 2131", "members: 0", NEAR).difference


def test_an_output_that_is_not_the_same_twice_is_compared_up_to_there() -> None:
    first, second = "loss 0.5\nretry 1\nloss 0.4\n", "loss 0.5\nloss 0.4\n"
    base = expected(first, second)
    assert (base.numbers, base.cut) == (1, 2)
    assert plain(compared(first, "loss 0.5\nanything 9\n", EXACT, second)) == 1


def test_another_form_differs_and_the_line_is_named() -> None:
    text = "loss 0.5\nloss 0.4\n"
    assert told(compared(text, "loss 0.5\n")) == "line 2: the output ends before the original's `loss 0.4`"
    assert told(compared(text, text + "more 3\n")) == "line 3: `more 3` where the original's output has ended"
    assert (
        told(compared(text, "loss 0.5 0.6\nloss 0.4\n"))
        == "line 1: `loss 0.5 0.6` where the original printed `loss 0.5`"
    )
    assert told(compared(text, "")) == "line 1: the output ends before the original's `loss 0.5`"


def test_steps_limit_the_lines_that_count() -> None:
    text = "took 3 ms\nloss 0.5\nloss 0.4\n"
    first = Tolerance(0.0, True, steps=1)
    assert plain(compared(text, "took 9 ms\nloss 0.5\nloss 9.9\n", first)) == 1
    assert compared(text, "took 9 ms\nloss 0.6\nloss 0.4\n", first).difference
    assert list(comparable(expected(text), lines(text), 1)) == [0.5]
    assert list(comparable(expected(text), lines(text), None)) == [0.5, 0.4]


def test_poison_of_the_original_is_no_number_to_compare() -> None:
    base = expected("empty 3.3962e+38 loss 0.5")
    assert (base.numbers, base.left_out) == (1, 1)


# ---- files


def wrote(tmp_path: Path, files: dict[str, str | bytes], *globs: str) -> dict[str, object]:
    base, root = tmp_path / "base", tmp_path / "root"
    write_tree(base, {"data.csv": "1\n", "old.csv": "1\n", "same.csv": "1\n"})
    write_tree(root, {"data.csv": "1\n", "old.csv": "2\n", "same.csv": "1\n", **files})
    shutil.copystat(base / "data.csv", root / "data.csv")  # as in each copy
    os.utime(root / "same.csv", (1, 1))
    return dict(written(base, root, globs, base / "kept"))


def test_files_written_are_those_that_are_new_or_written_again_and_match(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {"out/log.csv": "3\n", "model.bin": b"\0", "__pycache__/x.csv": "1"}
    assert sorted(wrote(tmp_path, files, "*.csv")) == ["old.csv", "out/log.csv", "same.csv"]
    assert sorted(wrote(tmp_path, {}, "out/*")) == ["out/log.csv"]
    assert wrote(tmp_path, {}) == {}


@pytest.fixture
def run(tmp_path: Path):  # type: ignore[no-untyped-def]
    def make(name: str, **files: str | bytes):  # type: ignore[no-untyped-def]
        root = write_tree(tmp_path / name, {key.replace("_", "."): text for key, text in files.items()})
        root.mkdir(exist_ok=True)
        return written(tmp_path / "nothing", root, ["*"], tmp_path / "kept")

    return make


def test_text_is_compared_by_its_numbers(run) -> None:  # type: ignore[no-untyped-def]
    first = run("a", log_csv="loss,0.5000 on cuda:0\n")
    near, far = run("b", log_csv="loss,0.5001 on mps:0\n"), run("c", log_csv="loss,0.7000\n")
    assert problem(first, first, near, NEAR) is None
    said = "log.csv: line 1: 0.7000 where the original printed 0.5000 (`loss,0.7000`)"
    assert problem(first, first, far, NEAR) == said
    assert problem(first, first, near, EXACT)


def test_bytes_are_compared_on_the_same_backend(run) -> None:  # type: ignore[no-untyped-def]
    first, other, third = run("a", m_bin=b"\0a"), run("b", m_bin=b"\0b"), run("c", m_bin=b"\0c")
    assert problem(first, first, other, EXACT) == "m.bin: its bytes differ from those that the original wrote"
    assert problem(first, first, other, NEAR) is None  # a checkpoint names its device
    assert problem(first, third, other, EXACT) is None  # the original itself cannot repeat it


def test_files_that_are_missing_or_too_many(run) -> None:  # type: ignore[no-untyped-def]
    one, none = run("a", m_bin=b"\0a"), run("b")
    assert problem(one, one, none, NEAR) == "m.bin: written by the original, not here"
    assert problem(none, none, one, NEAR) == "m.bin: written here, not by the original"
    assert problem(one, none, none, NEAR) is None
    assert problem(none, one, one, NEAR) is None


def problem(first: Files, second: Files, found: Files, tolerance: Tolerance) -> str | None:
    return compare_files(first, second, found, tolerance, {})[0]


def test_arrays_of_files_are_compared(tmp_path: Path) -> None:
    """What torch and NumPy save, wherever it was saved from."""
    torch = pytest.importorskip("torch")
    from torchmigrate.verify.simulated import arrays

    def saved(name: str, *values: float, **more: object) -> str:
        state = {"model": {"weight": torch.tensor(values)}, "step": 3, "rng": torch.zeros(9, dtype=torch.uint8), **more}
        torch.save(state, tmp_path / name)
        return str(tmp_path / name)

    first = saved("first.pt", 0.5, 0.25)
    assert arrays.compare(first, first, saved("near.pt", 0.5001, 0.25), 1e-3) == {
        "values": 3,
        "difference": None,
        "unreadable": None,
    }
    far = arrays.compare(first, first, saved("far.pt", 0.5, 0.3), 1e-3)
    assert far["difference"] == "`model.weight` has 0.3 where the original has 0.25 (1 of 2 values differ)"
    assert arrays.compare(first, first, saved("near.pt", 0.5001, 0.25), 0.0)["difference"]
    assert arrays.compare(first, saved("again.pt", 0.5, 0.3), saved("far.pt", 0.5, 0.4), 0.0)["values"] == 1
    shape = "`model.weight` has the shape [1] where the original has [2]"
    assert arrays.compare(first, first, saved("short.pt", 0.5), 1e-3)["difference"] == shape
    assert arrays.compare(first, first, saved("more.pt", 0.5, 0.25, epoch=1), 1e-3)["difference"].startswith("`epoch`")
    (tmp_path / "no.pt").write_bytes(b"\x00no")
    assert arrays.compare(first, first, str(tmp_path / "no.pt"), 1e-3)["unreadable"]
    numpy = pytest.importorskip("numpy")
    numpy.save(tmp_path / "a.npy", numpy.array([1, 2]))
    assert arrays.compare(*[str(tmp_path / "a.npy")] * 3, 0.0)["values"] == 2
    header = b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    data = len(header).to_bytes(8, "little") + header + numpy.array([1, 2], dtype="float32").tobytes()
    (tmp_path / "a.safetensors").write_bytes(data)
    assert arrays.compare(*[str(tmp_path / "a.safetensors")] * 3, 0.0)["values"] == 2
