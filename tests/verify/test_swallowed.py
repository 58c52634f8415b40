"""Who catches what a device refuses, read from the stack of the refused call. Neither torch nor a device is needed."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path
from typing import Any

import pytest

from torchmigrate.verify.diagnosis.swallowed import End, Swallowed, _parse, swallowed
from torchmigrate.verify.migration import Origins, Rewritten

FLOAT64 = "Cannot convert a MPS Tensor to float64 dtype"
ANSWERED, CONSTANT, SILENT, ADDED, LEFT, LOST = End


def stack(*files: Path, kind: str = "TypeError", message: str = FLOAT64, count: int = 1) -> dict[str, Any]:
    """What a process tells of a call that is refused on the line of the last file with `# here`, in `f` if it has one.

    Each file before it is on the stack at its own such line.
    """
    frames = []
    for file in files:
        lines = file.read_text().splitlines()
        line = next(i for i, text in enumerate(lines, 1) if "# here" in text)
        first = next((i for i, text in enumerate(lines, 1) if text.startswith("def f(")), None)
        name = "f" if first and first < line and lines[line - 1].startswith(" ") else "<module>"
        frames.append({"file": str(file), "line": line, "function": name, "first": first if name == "f" else 1})
    return {"refused": [{"type": kind, "message": message, "frames": frames, "count": count}]}


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text).lstrip("\n"))
    return path


def ends(tmp_path: Path, text: str, before: str | None = None, **about: Any) -> list[Swallowed]:
    file = write(tmp_path / "project" / "train.py", text)
    original = textwrap.dedent(text if before is None else before).lstrip("\n")
    lines = [each.encode().splitlines(True) for each in (original, file.read_text())]
    files = {} if before is None else {"train.py": Rewritten(lines[0], lines[1], ())}
    return list(swallowed([stack(file, **about)], Origins(file.parent.resolve(), files)))


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("try:\n    keep(x.double())  # here\nexcept:\n    pass\n", SILENT),
        ("try:\n    keep(x.double())  # here\nexcept TypeError as e:\n    log.warning(e)\n", SILENT),
        ("try:\n    keep(x.double())  # here\nexcept Exception:\n    if verbose:\n        print('no')\n", SILENT),
        ("try:\n    keep(x.double())  # here\nexcept Exception:\n    keep(x)\n", ANSWERED),
        ("try:\n    x.double()  # here\nexcept Exception:\n    pass\nelse:\n    WIDE = True\n", ANSWERED),
        ("try:\n    x.double()  # here\n    WIDE = True\nexcept Exception:\n    pass\n", ANSWERED),
        ("with suppress(TypeError):\n    keep(x.double())  # here\n", SILENT),
        ("with contextlib.suppress(KeyError, TypeError):\n    x.double()  # here\n    WIDE = True\n", ANSWERED),
        ("with suppress(KeyError):\n    x.double()  # here\n", LOST),
        ("try:\n    x.double()  # here\nexcept KeyError:\n    pass\n", LOST),
        ("x.double()  # here\n", LOST),
        ("try:\n    pass\nexcept TypeError:\n    x.double()  # here\n", LOST),
        ("try:\n    x.double()  # here\nexcept ValueError:\n    x = 1\nexcept TypeError:\n    pass\n", SILENT),
        # where it goes well, the block is left: what stands below it is another way
        (
            "def f(x):\n    try:\n        return x.double()  # here\n    except TypeError:\n        pass\n"
            "    return x\n",
            ANSWERED,
        ),
        ("def f(x):\n    try:\n        return x.double()  # here\n    except TypeError:\n        pass\n", SILENT),
        (
            "def f(x):\n    try:\n        return x.double()  # here\n    except TypeError:\n        return None\n",
            ANSWERED,
        ),
        ("def f(x):\n    try:\n        keep(x.double())  # here\n    except TypeError:\n        return None\n", SILENT),
        (
            "for w in W:\n    try:\n        x.to(w)  # here\n        break\n    except TypeError:\n        continue\n",
            ANSWERED,
        ),
        ("for w in W:\n    try:\n        keep(x.to(w))  # here\n    except TypeError:\n        continue\n", SILENT),
        (
            "for _ in W:\n    try:\n        x.to(w)  # here\n        break\n    except TypeError:\n        pass\n",
            SILENT,
        ),
        (
            "while True:\n    try:\n        x.to(w)  # here\n        break\n    except TypeError:\n        break\n",
            SILENT,
        ),
        # the innermost that takes it for certain
        (
            "try:\n    try:\n        x.double()  # here\n    except TypeError:\n        raise\n"
            "except Exception:\n    pass\n",
            SILENT,
        ),
        ("try:\n    x.double()  # here\nexcept TypeError as e:\n    if odd(e):\n        raise\n    x = 1\n", ANSWERED),
        ("KNOWN = (KeyError, TypeError)\ntry:\n    keep(x.double())  # here\nexcept KNOWN:\n    pass\n", SILENT),
        ("try:\n    keep(x.double())  # here\nexcept known.Error:\n    x = 1\n", ANSWERED),
    ],
)
def test_what_becomes_of_a_refusal(text: str, end: End, tmp_path: Path) -> None:
    (found,) = ends(tmp_path, text)
    assert found.end is end
    assert (found.words, found.form) == (
        f"TypeError: {FLOAT64}",
        "TypeError: Cannot convert a @ Tensor to float__ dtype",
    )
    line = next(i for i, each in enumerate(text.splitlines(), 1) if "# here" in each)
    assert found.at == f"train.py:{line}"


BEFORE = "a = 1\ntry:\n    keep(x.double())\nexcept TypeError:\n    keep(x.sum())\n"


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("a = 2\ntry:\n    keep(x.double())  # here\nexcept TypeError:\n    keep(x.sum())\n", ANSWERED),
        ("a = 1\ntry:\n    keep(x.double())  # here\nexcept TypeError:\n    keep(x.to(D).sum())\n", ANSWERED),
        ("a = 1\ntry:\n    keep(x.double())  # here\nexcept Exception:\n    keep(x.sum())\n", ADDED),
        ("a = 1\ntry:\n    keep(x.double())  # here\nexcept TypeError:\n    keep(x.cpu().sum())\n", LEFT),
        ("try:\n    a = x.double()  # here\nexcept TypeError:\n    a = 1\n" + BEFORE.partition("\n")[2], ADDED),
        ("a = 1\nwith suppress(TypeError):\n    keep(x.double())  # here\nx.sum()\n", ADDED),
    ],
)
def test_a_handler_has_to_be_the_original_s(text: str, end: End, tmp_path: Path) -> None:
    assert [each.end for each in ends(tmp_path, text, BEFORE)] == [end]


def test_code_that_torch_compiled_has_other_names(tmp_path: Path) -> None:
    program = write(
        tmp_path / "project" / "train.py",
        "def g(x):\n    try:\n        x.double()  # here\n    except TypeError:\n        x = 1\n",
    )
    record = stack(program)
    record["refused"][0]["frames"][0].update(function="torch_dynamo_resume_in_g_at_2", first=2)
    (found,) = swallowed([record], Origins(program.parent.resolve()))
    assert found.end is ANSWERED


def block(good: str, bad: str) -> str:
    return f"def f(x):\n    try:\n        {good}  # here\n    except Exception:\n        {bad}\n"


@pytest.mark.parametrize(
    ("text", "end"),
    [
        (block("return x.double().sum().item()", "return 0.0"), CONSTANT),
        (block("return x.double().sum().item()", "return -1, 0"), CONSTANT),
        (block("m['loss'] = x.double()", "m['loss'] = float('nan')"), CONSTANT),
        (block("m['loss'] = x.double()", "m['loss'] = torch.zeros(3, device=x.device)"), CONSTANT),
        (block("kept.append(x.double())", "kept.append(math.inf)"), CONSTANT),
        (block("total += x.double()", "total += 0"), CONSTANT),
        # a question about the device, another way, no number, and a number for something else
        (block("x.double(); return 1", "return 0"), ANSWERED),
        (block("return x.double()", "return x.sum()"), ANSWERED),
        (block("return x.double()", "return torch.tensor(numpy_way(x))"), ANSWERED),
        (block("return x.double()", "return None"), ANSWERED),
        (block("return bool(x.double())", "return False"), ANSWERED),
        (block("y = x.double()", "bits = 32; y = x"), ANSWERED),
        (block("kept.append(x.double())", "failed.append(1)"), ANSWERED),
    ],
)
def test_a_number_in_place_of_what_the_device_computes(text: str, end: End, tmp_path: Path) -> None:
    assert [each.end for each in ends(tmp_path, text)] == [end]


def test_a_number_answers_a_question_about_the_machine(tmp_path: Path) -> None:
    program = write(tmp_path / "project" / "train.py", block("free = torch.cuda.mem_get_info()[0]", "free = 0"))
    asked = write(tmp_path / "torch" / "cuda" / "memory.py", "def f(x):\n    return _lazy_init()  # here\n")
    (found,) = swallowed([stack(program, asked)], Origins(program.parent.resolve()))
    assert found.end is ANSWERED


def test_what_a_library_answers_is_its_own_matter(tmp_path: Path) -> None:
    program = write(tmp_path / "project" / "train.py", "library.f(x)  # here\n")
    answers = write(
        tmp_path / "a" / "library.py",
        "def f(x):\n    try:\n        x.double()  # here\n    except TypeError:\n        pass\n",
    )
    passes_on = write(
        tmp_path / "b" / "library.py",
        "def f(x):\n    try:\n        x.double()  # here\n    except TypeError:\n        raise\n",
    )
    origin = Origins(program.parent.resolve())
    assert not swallowed([stack(program, answers)], origin)
    (found,) = swallowed([stack(program, passes_on)], origin)
    assert (found.end, found.at, found.by) == (LOST, "train.py:1", "")


def test_what_a_library_takes_from_the_program_is_lost(tmp_path: Path) -> None:
    program = write(tmp_path / "project" / "train.py", "def f(x):\n    keep(x.double())  # here\n")
    pool = write(
        tmp_path / "library" / "pool.py",
        "def f(x):\n    try:\n        call(x)  # here\n    except BaseException as e:\n        keep(e)\n",
    )
    (found,) = swallowed([stack(pool, program, count=3)], Origins(program.parent.resolve()))
    assert (found.end, found.at, found.count) == (LOST, "train.py:2", 3)


def test_processes_and_calls_of_one_place_are_one(tmp_path: Path) -> None:
    program = write(
        tmp_path / "project" / "train.py", "try:\n    keep(x.double())  # here\nexcept Exception:\n    pass\n"
    )
    (found,) = swallowed([stack(program, count=2), stack(program)], Origins(program.parent.resolve()))
    assert found.count == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("with pytest.raises(TypeError):\n    x.double()  # here\n", FLOAT64),
        ("def f(self):\n    with self.assertRaisesRegex(TypeError, 'MPS'):\n        x.double()  # here\n", FLOAT64),
        ("try:\n    grow(x)  # here\nexcept RuntimeError:\n    pass\n", "MPS backend out of memory (MPS allocated: 1)"),
    ],
)
def test_what_is_expected_is_no_refusal(text: str, message: str, tmp_path: Path) -> None:
    assert not ends(tmp_path, text, message=message)


def test_a_tree_that_another_thread_spoiled_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11 counts the depth of all threads together, and raises where two make trees at once."""
    made, left = ast.parse, [SystemError("AST constructor recursion depth mismatch (before=45, after=37)")]

    def parse(*arguments: object, **settings: object) -> object:
        if left:
            raise left.pop()
        return made(*arguments, **settings)

    monkeypatch.setattr(ast, "parse", parse)
    assert _parse(b"x = 1\n") is not None
    assert _parse(b"x =\n") is None
