"""Generated and damaged programs, a few of each: `tests/attack/campaign.py` makes as many as one likes."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from conftest import ROOT, module
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attack.campaign import one_job_or_four
from attack.invariants import PATH, WAYS, Way, broken, rules
from attack.kills import campaign
from attack.minimise import minimise
from attack.mutations import MUTATIONS, mutated
from attack.programs import program
from torchmigrate.diagnostics import finding
from torchmigrate.diagnostics.finding import Finding, Safety
from torchmigrate.engine.case_runner import migrate
from torchmigrate.source import edits, encoding
from torchmigrate.source.edits import Edit

SMALL = settings(
    max_examples=40, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)


@SMALL
@given(st.randoms(use_true_random=False), st.sampled_from(WAYS))
def test_programs_that_mention_cuda(draw: random.Random, way: Way) -> None:
    raw = program(draw)
    assert broken(raw, way) == [], raw


@SMALL
@given(st.randoms(use_true_random=False), st.sampled_from(WAYS))
def test_damaged_files(draw: random.Random, way: Way) -> None:
    files = sorted((ROOT / "fixtures" / "cli").rglob("*.py")) + sorted((ROOT / "fixtures" / "notebook").glob("*.ipynb"))
    path = draw.choice(files)
    raw = mutated(path.read_bytes(), draw)
    assert broken(raw, way, Path(f"/case{path.suffix}")) == [], raw


def test_any_program_of_the_grammar() -> None:
    made = pytest.importorskip("hypothesmith", reason="hypothesmith, which makes programs, is not installed")

    @settings(SMALL, max_examples=10)
    @given(made.from_grammar())
    def run(text: str) -> None:
        raw = f"import torch\nx.cuda()\n{text}\ny.cuda()\n".encode(errors="replace")
        assert broken(raw) == [], raw

    run()


def test_four_processes_give_what_one_gives(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from torchmigrate.engine import worker

    monkeypatch.setattr(worker, "POOL_BYTES", 0)
    assert one_job_or_four(30, 7) == 0, capsys.readouterr().out


def test_most_programs_are_python_and_many_are_rewritten() -> None:
    """Else the attack would attack nothing."""
    texts = [program(random.Random(number)) for number in range(100)]
    outcomes = []
    for raw in texts:
        try:
            outcomes.append(migrate(raw, rules(), True)[0] != raw)
        except (SyntaxError, ValueError):
            continue
    assert len(outcomes) > 70
    assert sum(outcomes) > 50
    assert len({m(b"a\nb = 1\ncuda(x)\n" * 5, random.Random(3)) for m in MUTATIONS}) > len(MUTATIONS) // 2


def test_what_is_broken_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = b"import torch\nx.cuda()  # keep\ny = 1\n"
    assert broken(raw) == []
    monkeypatch.setattr(
        "torchmigrate.rewriting.rewrite.compose", lambda text, found: edits.compose(text, found).replace(b"# keep", b"")
    )
    assert any("comments are gone" in what for what in broken(raw))
    assert minimise(b"a\nb\nc cuda d\ne\n", lambda text: b"cuda" in text) == b"cuda"


# ---- what the attacks found
FOUND = {
    "an import in front of a statement that goes on": (
        b'import os;x = f(torch.device("cuda"\n))\nimport torch\n',
        WAYS[3],
    ),
    "the import of torch wakes rules": (
        b"from common import load\nx = torch.device('''cuda''')\nz(device='cuda', dtype=torch.half)\n",
        WAYS[2],
    ),
    "it wakes them in a file that does not say torch": (b"m.to('cuda', non_blocking=True)\n", WAYS[3]),
    "torch.accelerator by another name of torch": (b"import torch as th\nx = y.cuda(0)\nz = 'cuda:0'\n", WAYS[2]),
    "what is native lets a guard be rewritten": (
        b"import torch\nwhile f(k.is_cuda):\n    g(x.cuda(), torch.load(p))\ny = torch.ones(1, device='cuda')\n",
        WAYS[3],
    ),
    "an index under a guard that counts": (
        b"import torch\nif torch.cuda.device_count() > 1 and x.cuda(0):\n    pass\n",
        WAYS[3],
    ),
    "a comment within what is replaced": (b"import torch\nd = torch.device(  # why\n    'cuda')\n", WAYS[0]),
    "a comment within what is replaced natively": (b"import torch\ntorch.cuda.empty_cache(  # why\n)\n", WAYS[2]),
    "a default type in a file that gets its import of torch": (
        b"with x('cuda', non_blocking=True):\n    pass\ndef f():\n    kind = 'torch.cuda.FloatTensor'\n"
        b"    torch.set_default_tensor_type(kind)\ny = torch.Tensor([]).type(torch.float16)\n",
        WAYS[3],
    ),
    "an index under a guard that stays": (
        b"import torch\nwhile torch.cuda.device_count() > 1:  # torchmigrate: ignore[device/count]\n    y.cuda(0)\n",
        WAYS[3],
    ),
    "an index under a guard of the helper's": (
        b"import torch\nimport accel\nif accel.is_available():\n    y.cuda(0)\n",
        WAYS[3],
    ),
    "a decorator over two lines": (
        b"@(['a', (\n\tdevice).startswith(\"cuda\")])\ndef h():\n    return y.cuda()\n",
        WAYS[1],
    ),
    "a name bound within an f-string": (
        b"import torch\nx = f'{(y := torch.cuda.mem_get_info)} {y}'\n",
        WAYS[0],
    ),
    "an encoding that is none": (b"# coding: rot13\nvzcbeg gbepu\nk.phqn()\n", WAYS[0]),
    "an encoding with a cookie that ast must not read": (
        b"# coding: utf-7\nx.cuda()  # torchmigrate: skip-file +AOk-\n",
        WAYS[0],
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_found_by_attack(name: str) -> None:
    raw, way = FOUND[name]
    assert broken(raw, way, PATH) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "import os;f(y.to('cuda'),\n1)\nimport torch\n",
            "import os;import accel; f(y.to(accel.device()),\n1)\nimport torch\n",
        ),
        ("'''doc'''; y.to('cuda')\n", "'''doc'''; import accel; y.to(accel.device())\n"),
        (
            "from __future__ import annotations; y.to('cuda')\n",
            "from __future__ import annotations; import accel; y.to(accel.device())\n",
        ),
    ],
)
def test_an_import_stands_before_its_first_use(before: str, after: str) -> None:
    text = migrate(before.encode(), rules(), True)[0].decode()
    assert text == after
    compile(text, "case.py", "exec")


def test_a_native_import_of_torch_stands_before_its_first_use() -> None:
    text = migrate(b"import os\nd = y.to('cuda')\nimport sys\n", rules(), True, "native")[0].decode()
    assert text.index("import torch\n") < text.index("d = ") < text.index("import sys")


def test_a_comment_is_never_lost() -> None:
    found = migrate(b"import torch\nd = torch.device(  # why\n    'cuda')\n", rules())
    assert b"# why" in found[0]
    assert any("a comment stands within it" in f.message for f in found[1]) or b"accel" in found[0]
    assert encoding.comments("f(  # a\n  '# b',  # c") == ["# a", "# c"]
    site = module("x = f(  # a\n 1)\n")
    assert site.loses_comment(Edit(4, 15, "g(1)"))
    assert not site.loses_comment(Edit(4, 15, "g(  # a\n 1)"))


def test_an_import_on_the_line_moves_the_columns_of_that_line_alone() -> None:
    here = Finding("a/b", Safety.DISPLAY, 12, 14, "m", line=1, column=13, end_line=2, end_column=2)
    moved = next(finding.shifted([here], Edit(10, 10, "import x; "), 1))
    assert (moved.start, moved.line, moved.column, moved.end_line, moved.end_column) == (22, 1, 23, 2, 2)


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="SIGKILL")
def test_kills_at_random_times_lose_nothing(tmp_path: Path) -> None:
    count = campaign(tmp_path, 4, 30)
    assert count.applies >= 2 and count.again == 2
    assert (count.half, count.unfinished, count.lost, count.left) == (0, 0, 0, 0)
