"""Guards: a test and all that it guards change together, or neither does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics.finding import Status
from torchmigrate.engine.case_runner import migrate
from torchmigrate.project.context import ProjectContext
from torchmigrate.rewriting.rewrite import rewrite
from torchmigrate.rewriting.visitor import DispatchTable
from torchmigrate.source.encoding import decode

Migrated = Callable[..., str]
HEAD = "import torch\n"
ASK, ASKED = "torch.cuda.is_available()", "accel.is_available()"
MOVE, MOVED = "x = x.cuda()", "x = x.to(accel.device())"
ONLY = "torch.cuda.cudart().cudaProfilerStart()"  # what only NVIDIA has


def after(migrated: Migrated, body: str, **options: bool) -> str:
    """The text without the imports."""
    found = migrated(HEAD + body, **options)
    return found.removeprefix(HEAD).removeprefix("import accel\n")


# ---- stays, with all that it guards
STAYS = {
    "nothing that would change": f'if {ASK}:\n    print("use --cuda")\n',
    "what only NVIDIA has": f"if {ASK}:\n    {ONLY}\n",
    "what only NVIDIA has, beside what could move": f"if {ASK}:\n    {MOVE}\n    {ONLY}\n",
    "a module of kernels that a function loads": f"def f(x):\n    k_cuda = load('k')\n    if {ASK}:\n        {MOVE}\n"
    "        k_cuda.run(x)\n",
    "a module of kernels": f"def f(x):\n    if {ASK}:\n        {MOVE}\n        k_cuda.run(x)\n",
    "a count, before what only NVIDIA has": f"if torch.cuda.device_count() > 0:\n    {ONLY}\n",
    "no count, and the rest otherwise": f"if torch.cuda.device_count() == 0:\n    pass\nelse:\n    {ONLY}\n",
    "too few, and the rest otherwise": f"if torch.cuda.device_count() < 2:\n    pass\nelse:\n    {ONLY}\n",
    "a flag of a count": f"use = torch.cuda.device_count() > 1\nif use:\n    {ONLY}\n",
    "a library of NVIDIA's": f"import pynvml\nif {ASK}:\n    {MOVE}\n    pynvml.nvmlInit()\n",
    "a class whose constructor refuses, with a method for what only NVIDIA has": "class N:\n    def __init__(self):\n"
    f"        if not {ASK}:\n            raise ValueError('no CUDA')\n    def f(self):\n        {ONLY}\n",
    "a ladder whose first arm gives a numbered device": "def pick(ids):\n"
    f"    if {ASK}:\n        print('CUDA')\n        return f'cuda:{{ids[0]}}'\n"
    "    if torch.backends.mps.is_available():\n        print('MPS')\n        return 'mps'\n    return 'cpu'\n",
    "beside a flag of another accelerator": f"if {ASK} or IS_XPU_AVAILABLE:\n    {MOVE}\n",
    "beside a tensor of another accelerator": "assert x.is_cuda or x.is_musa\n",
    "deep inside": f"if {ASK}:\n    for i in y:\n        with z:\n            {MOVE}\n            {ONLY}\n",
    "in the condition": f"if {ASK} and torch.cuda.cudart().x >= 8:\n    {MOVE}\n",
    "in a conditional expression": f"x = f(torch.cuda.cudart()) if {ASK} else x.cuda\n".replace(
        " else x.cuda", " else 0"
    ),
    "a refusal of a tensor elsewhere, where CUDA is there": f"if not x.is_cuda and {ASK}:\n    raise ValueError(x)\n",
    "a ladder of elifs": (
        f"if {ASK}:\n    d = 'cuda'\nelif torch.backends.mps.is_available():\n    d = 'mps'\nelse:\n    d = 'cpu'\n"
    ),
    "a ladder that asks for mps first": (
        f"if torch.backends.mps.is_available():\n    d = 'mps'\nelif {ASK}:\n    d = 'cuda'\nelse:\n    d = 'cpu'\n"
    ),
    "a ladder in one expression": f"d = 'cuda' if {ASK} else 'mps' if torch.backends.mps.is_available() else 'cpu'\n",
    "a ladder of returns": (
        f"def f():\n    if {ASK}:\n        return 'cuda'\n"
        "    if torch.backends.mps.is_available():\n        return 'mps'\n    return 'cpu'\n"
    ),
    "a ladder by a flag": (
        f"has_mps = torch.backends.mps.is_available()\nif {ASK}:\n    d = 'cuda'\nelif has_mps:\n"
        "    d = 'mps'\nelse:\n    d = 'cpu'\n"
    ),
    "not, with what only NVIDIA has in the else": f"if not {ASK}:\n    pass\nelse:\n    {ONLY}\n    {MOVE}\n",
    "a flag that guards what only NVIDIA has": f"use = {ASK}\nif use:\n    {MOVE}\nif use:\n    {ONLY}\n",
    "a flag of the options": f"args.cuda = args.cuda and {ASK}\nif args.cuda:\n    {ONLY}\n",
    "a skipped test of what only NVIDIA has": f"@skipIf(not {ASK}, 'x')\ndef test():\n    {ONLY}\n",
    "a test that skips itself": f"def test(x):\n    if not {ASK}:\n        pytest.skip('x')\n    {MOVE}\n    {ONLY}\n",
    "a mark that is kept in a name": f"needs = skipIf(not {ASK}, 'x')\n@needs\ndef test():\n    {ONLY}\n",
    "a mark of the file": f"pytestmark = skipif(not {ASK}, 'x')\ndef test():\n    {ONLY}\n",
    "a mark over tests that change nothing": f"def test(x):\n    if not {ASK}:\n        pytest.skip('x')\n    x.go()\n",
    "tests that are prepared": (
        f"class T(TestCase):\n    def setUp(self):\n        if not {ASK}:\n            self.skipTest('x')\n"
        f"    def test(self, x):\n        {MOVE}\n        {ONLY}\n"
    ),
    "tests that are prepared by raising": (
        f"class T(TestCase):\n    def setUpClass(cls):\n        if not {ASK}:\n            raise SkipTest('x')\n"
        f"    def test(self, x):\n        {ONLY}\n"
    ),
}


@pytest.mark.parametrize("body", STAYS.values(), ids=STAYS)
def test_stays(body: str, migrated: Migrated) -> None:
    assert after(migrated, body) == body


# ---- changes, with all that it guards
CHANGES = {
    "a class whose constructor asks, with a method": f"class N:\n    def __init__(self, x):\n        self.on = {ASK}\n"
    f"        if {ASK}:\n            {MOVE}\n    def f(self, x):\n        {MOVE}\n",
    "if": f"if {ASK}:\n    {MOVE}\n",
    "a variable that is called so": "def f(x):\n    x_cuda = g(x)\n"
    f"    if {ASK}:\n        {MOVE}\n        x_cuda.add_(x)\n",
    "if with an else": f"if {ASK}:\n    {MOVE}\nelse:\n    x = x.cpu()\n",
    "not": f"if not {ASK}:\n    x = x.cpu()\nelse:\n    {MOVE}\n",
    "and": f"if y and {ASK}:\n    {MOVE}\n",
    "beside a flag that ends in an accelerator's letters": f"if {ASK} and timestamps_only:\n    {MOVE}\n",
    "nested": f"if {ASK}:\n    if y:\n        for i in z:\n            {MOVE}\n",
    "conditional expression": f"x = x.cuda() if {ASK} else x\n",
    "elif": f"if y:\n    pass\nelif {ASK}:\n    {MOVE}\n",
    "while": f"while {ASK}:\n    {MOVE}\n",
    "leaves early": f"def f(x):\n    if not {ASK}:\n        return x\n    return x.cuda()\n",
    "a flag": f"use = {ASK}\nif use:\n    {MOVE}\n",
    "a flag with a condition": f"use = y and {ASK}\nif use and z:\n    {MOVE}\n",
    "a flag of the options": f"args.cuda = not args.no_cuda and {ASK}\nif args.cuda:\n    {MOVE}\n",
    "a flag in a conditional expression": f"use = {ASK}\nx = x.cuda() if use else x\n",
    "a test that skips itself": f"def test(x):\n    if not {ASK}:\n        pytest.skip('x')\n    {MOVE}\n",
    "a mark that is kept in a name": f"needs = skipIf(not {ASK}, 'x')\n@needs\ndef test(x):\n    {MOVE}\n",
    "tests that are prepared": (
        f"class T(TestCase):\n    def setUp(self):\n        if not {ASK}:\n            self.skipTest('x')\n"
        f"    def test(self, x):\n        {MOVE}\n"
    ),
    "tests that are prepared by raising": (
        f"class T(TestCase):\n    def setUpClass(cls):\n        if not {ASK}:\n            raise SkipTest('x')\n"
        f"    def test(self, x):\n        {MOVE}\n"
    ),
}


@pytest.mark.parametrize("body", CHANGES.values(), ids=CHANGES)
def test_changes(body: str, migrated: Migrated) -> None:
    assert after(migrated, body) == body.replace(ASK, ASKED).replace("x.cuda()", "x.to(accel.device())")


ELSEWHERE = [
    "if not x.is_cuda and y:\n    raise ValueError(x)\nx.cuda()\n",
    f"if not x.is_cuda and {ASK}:\n    {MOVE}\n",
]


@pytest.mark.parametrize("body", ELSEWHERE, ids=["a refusal", "a move, where CUDA is there"])
def test_a_test_of_a_tensor_beside_one_that_changes_changes_too(body: str, migrated: Migrated) -> None:
    done = after(migrated, body)
    assert "accel.is_accelerated(x)" in done
    assert "torch.cuda" not in done


def test_a_choice_whose_first_arm_gives_a_numbered_device_changes(migrated: Migrated) -> None:
    done = after(migrated, f"def pick(ids):\n    if {ASK}:\n        return f'cuda:{{ids[0]}}'\n    return 'cpu'\n")
    assert "return str(accel.device(ids[0]))" in done


def test_regions_are_decided_one_by_one(migrated: Migrated) -> None:
    mine, theirs = f"if {ASK}:\n    {MOVE}\n", f"if {ASK}:\n    {ONLY}\n"
    assert after(migrated, mine + theirs) == mine.replace(ASK, ASKED).replace(MOVE, MOVED) + theirs
    assert after(migrated, theirs + mine) == theirs + mine.replace(ASK, ASKED).replace(MOVE, MOVED)


def test_the_else_of_a_guard_is_not_guarded(migrated: Migrated) -> None:
    """What only NVIDIA has in the else is not run where the test holds; it keeps nothing."""
    body = f"if {ASK}:\n    {MOVE}\nelse:\n    {ONLY}\n"
    assert after(migrated, body) == body.replace(ASK, ASKED).replace(MOVE, MOVED)


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_test_follows_the_one_under_which_alone_its_variable_is_bound(is_alone: bool, migrated: Migrated) -> None:
    """Found in consistency_models: a generator was made on another accelerator, and never seeded there."""
    first = "class G:\n    def __init__(self, x):\n" + ("" if is_alone else "        self.y = 1\n")
    made = f"        if {ASK}:\n            {MOVE}\n            self.y = x\n"
    used = f"    def seed(self):\n        if {ASK}:\n            print(self.y)\n"
    after_it = used.replace(ASK, ASKED) if is_alone else used
    assert after(migrated, first + made + used) == first + made.replace(ASK, ASKED).replace(MOVE, MOVED) + after_it


def test_a_flag_of_one_function_says_nothing_about_another(migrated: Migrated) -> None:
    body = f"def f(x):\n    use = {ASK}\n    if use:\n        {MOVE}\ndef g(use):\n    if use:\n        {ONLY}\n"
    assert after(migrated, body) == body.replace(ASK, ASKED).replace(MOVE, MOVED)


def test_a_flag_spreads_to_the_flags_it_shares_a_guard_with(migrated: Migrated) -> None:
    body = f"a = {ASK}\nif a:\n    {MOVE}\nif not a:\n    pass\nelse:\n    {ONLY}\n"
    assert after(migrated, body) == body


def test_suppressed_code_keeps_its_guard(migrated: Migrated) -> None:
    body = f"if {ASK}:\n    {MOVE}  # torchmigrate: ignore[device/tensor-cuda]\n    torch.cuda.synchronize()\n"
    assert after(migrated, body) == body


def test_held_code_keeps_its_guard_until_it_is_asked_for(migrated: Migrated) -> None:
    """`Batch` defines cuda() and may be the receiver: unsafe, so its guard waits for it."""
    body = f"class Batch:\n    def cuda(self): pass\ndef f(x):\n    if {ASK}:\n        x.cuda()\n"
    assert after(migrated, body) == body
    assert after(migrated, body, unsafe=True) == body.replace(ASK, ASKED).replace("x.cuda()", "x.to(accel.device())")


# ---- programs that refuse to run without CUDA
@pytest.mark.parametrize(
    "body",
    [
        f"assert {ASK}\n{ONLY}\n",
        f"if not {ASK}:\n    raise RuntimeError('no GPU')\n{ONLY}\n",
        f"import sys\nif not {ASK}:\n    sys.exit(1)\n{ONLY}\n",
    ],
)
def test_a_refusal_stays_where_its_program_needs_cuda(body: str, migrated: Migrated) -> None:
    assert ASK in after(migrated, body)


def test_what_follows_a_refusal_may_change_though_it_stays(migrated: Migrated) -> None:
    body = f"assert {ASK}\n{MOVE}\n{ONLY}\n"
    assert MOVED in after(migrated, body)


def test_what_is_left_alone_says_why(rules: DispatchTable) -> None:
    def reasons(body: str) -> list[str]:
        _, findings = migrate((HEAD + body).encode(), rules)
        of_cuda = (f for f in findings if f.status is Status.LEFT and f.rule != "device/other-backend")
        return [f.message.partition("left alone: ")[2] for f in of_cuda]

    (why, *rest) = reasons(f"if {ASK}:\n    {MOVE}\n    {ONLY}\n")
    assert "stays bound to CUDA (line 4)" in why
    assert rest
    assert all("portable already" in r for r in reasons(STAYS["a ladder of elifs"]))
    assert "does no harm" in reasons(STAYS["nothing that would change"])[0]


@pytest.mark.parametrize(
    "body", [*STAYS.values(), *CHANGES.values()], ids=[*STAYS, *(f"changes: {n}" for n in CHANGES)]
)
def test_a_second_run_decides_the_same(body: str, migrated: Migrated) -> None:
    once = migrated(HEAD + body)
    assert migrated(once) == once


# ---- float64, which MPS refuses
TOLD = ["np.array(a, dtype=np.float64)", "np.zeros(3, dtype=float)", "np.asarray(a, dtype='float64')"]
DRAWN = ["np.random.rand(3)", "np.random.RandomState(a).randn(1, 4)", "np.random.default_rng().normal(size=3)"]
JOINED = ["np.stack([np.zeros(3), a])", "np.concatenate((a, np.random.RandomState(0).uniform(3)))"]
DOUBLES = [*DRAWN, *JOINED, "np.zeros(3)", "np.array([1.0, 2.0])", *TOLD]
SINGLES = ["np.zeros(3, dtype=np.float32)", "np.zeros(3, np.float32)", "np.array([1, 2])", "a", "a.astype('float32')"]
SINGLES += ["np.stack([a, a])", "np.random.RandomState(0).permutation(3)", "a.normal(size=3)"]
SINGLES += ["np.array(a, dtype=int)", "np.zeros(3, dtype='float32')", "np.arange(3, dtype=a.dtype)"]
GUARDED = {
    "a branch": f"    x = torch.from_numpy(DATA)\n    if {ASK}:\n        {MOVE}\n    return x\n",
    "a device": f"    d = 'cuda' if {ASK} else 'cpu'\n    return torch.from_numpy(DATA).to(d)\n",
    "an array with a name": f"    b = DATA\n    d = 'cuda' if {ASK} else 'cpu'\n    return torch.tensor(b).to(d)\n",
}


def leaves_mps_out(after: str) -> bool:
    """Return whether the only question for a device is one that leaves MPS out, and no device is taken beside it."""
    question = "accel.is_complete()"
    before, _, behind = after.partition(question)
    chosen = before.rpartition("\n")[2] + behind
    return (
        "torch.cuda" not in after and after.count(question) == 1 and after.count("accel.d") == chosen.count("accel.d")
    )


@pytest.mark.parametrize("body", GUARDED.values(), ids=GUARDED)
@pytest.mark.parametrize("data", DOUBLES)
def test_what_moves_float64_of_numpy_leaves_mps_out(data: str, body: str, migrated: Migrated) -> None:
    """A Mac stays on the CPU, as before; all other accelerators are chosen."""
    assert leaves_mps_out(migrated("import numpy as np\nimport torch\ndef f(a):\n" + body.replace("DATA", data)))


CHOICE = f"def f(net, path):\n    d = 'cuda' if {ASK} else 'cpu'\n"
OF_TORCH = {
    "a module that is moved, then cast": "    net = net.to(d)\n    return net.{cast}()\n",
    "a module that is moved in place, then cast": "    net.to(d)\n    net = net.{cast}()\n    return net\n",
    "what is loaded to the device, then cast": "    x = torch.load(path, map_location=d)\n    return x.{cast}()\n",
    "a tensor that is made so, then moved": "    x = torch.zeros(3, dtype=torch.float{bits})\n    return x.to(d)\n",
    "a tensor that is made so on the device": "    return torch.zeros(3, dtype=torch.float{bits}, device=d)\n",
    "a tensor that is cast, then moved": "    x = net.{cast}()\n    return x.to(d)\n",
}


@pytest.mark.parametrize("body", OF_TORCH.values(), ids=OF_TORCH)
def test_what_makes_float64_on_its_device_leaves_mps_out(body: str, migrated: Migrated) -> None:
    """A Mac stays on the CPU, where float64 works (mace's `create_lammps_model`); single precision goes to MPS."""
    assert leaves_mps_out(migrated(f"import torch\n{CHOICE}{body.format(cast='double', bits=64)}"))
    single = migrated(f"import torch\n{CHOICE}{body.format(cast='float', bits=32)}")
    assert "torch.cuda" not in single and "is_complete" not in single


def test_float64_on_the_cpu_leaves_nothing_out(migrated: Migrated) -> None:
    body = "    x = net.cpu()\n    y = torch.zeros(3, dtype=torch.float64, device='cpu')\n    return x.double(), y, d\n"
    assert "is_complete" not in migrated(f"import torch\n{CHOICE}{body}")


@pytest.mark.parametrize("body", GUARDED.values(), ids=GUARDED)
@pytest.mark.parametrize("data", SINGLES)
def test_what_moves_other_arrays_changes(data: str, body: str, migrated: Migrated) -> None:
    assert "torch.cuda" not in migrated("import numpy as np\nimport torch\ndef f(a):\n" + body.replace("DATA", data))


def test_what_is_cast_on_the_way_changes(migrated: Migrated) -> None:
    head = f"import numpy as np\nimport torch\ndef f():\n    d = 'cuda' if {ASK} else 'cpu'\n"
    for cast in (".float().to(d)", ".to(d, torch.float32)", ".to(d, dtype=torch.float32)"):
        assert "torch.cuda" not in migrated(f"{head}    return torch.from_numpy(np.zeros(3)){cast}\n")


def test_a_cast_that_a_fix_takes_before_the_move_lets_mps_in(migrated: Migrated) -> None:
    head = f"import numpy as np\nimport torch\ndef f():\n    d = torch.device('cuda' if {ASK} else 'cpu')\n"
    after = migrated(f"{head}    return torch.from_numpy(np.zeros(3)).to(d).float()\n")
    assert "torch.from_numpy(np.zeros(3)).float().to(d)" in after
    assert "d = accel.device()\n" in after


ENVIRONMENT = f"""import gymnasium as gym
import torch
def play(agent):
    env, d = gym.make("Pole"), 'cuda' if {ASK} else 'cpu'
    seen, _ = env.reset(seed=1)
    for _ in range(9):
        seen, reward, *_ = env.step(agent(torch.Tensor(seen).to(d)))
        print(GIVEN)
"""
UNCAST = ["torch.tensor(reward).to(d)", "torch.as_tensor(reward, device=d)", "torch.from_numpy(seen).cuda()"]
CAST = ["torch.tensor(reward, dtype=torch.float32).to(d)", "torch.from_numpy(seen).float().to(d)"]
CAST += ["torch.tensor(reward).to(d, torch.float32)", "torch.tensor(reward, dtype=torch.float32, device=d)"]


@pytest.mark.parametrize("given", [*UNCAST, *CAST])
def test_where_an_environment_may_give_float64_mps_is_left_out(given: str, migrated: Migrated) -> None:
    """Found in cleanrl: the rewards of Gymnasium's vectors are float64."""
    after = migrated(ENVIRONMENT.replace("GIVEN", given))
    assert "torch.cuda" not in after
    assert ("accel.is_complete()" in after) is (given in UNCAST)
    assert "is_complete" not in migrated(ENVIRONMENT.replace("GIVEN", given).replace("gymnasium", "pictures"))


DEFAULTS = [
    "set_default_dtype(torch.float64)",
    "set_default_dtype(kind)",
    "set_default_tensor_type('torch.DoubleTensor')",
]
CHOSEN = {
    "a device": f"d = 'cuda' if {ASK} else 'cpu'\nx = torch.zeros(3, device=d)\n",
    "a branch of a function": f"def f(x):\n    if {ASK}:\n        x = x.cuda()\n    return x\n",
}


@pytest.mark.parametrize("body", CHOSEN.values(), ids=CHOSEN)
@pytest.mark.parametrize("default", DEFAULTS)
def test_where_float64_is_the_default_dtype_mps_is_left_out(default: str, body: str, migrated: Migrated) -> None:
    text = f"import torch\nkind = torch.double\ntorch.{default}\n{body}"
    assert leaves_mps_out(migrated(text))
    single = migrated(text.replace("float64", "float32").replace("double", "float").replace("Double", "Float"))
    assert "torch.cuda" not in single
    assert "is_complete" not in single


def test_a_default_dtype_of_another_function_keeps_no_guard(migrated: Migrated) -> None:
    other = "def g():\n    torch.set_default_dtype(torch.float64)\n"
    assert "torch.cuda" not in migrated(f"import torch\n{other}{CHOSEN['a branch of a function']}")


# ---- what else raises on MPS
RAISING = {
    "an operator": "x.matrix_exp()",
    "a loss": "torch.nn.MultiMarginLoss()(x, x)",
    "float64 on the device": "x.to(d, torch.float64)",
    "float64 before the move": "torch.zeros(3, dtype=torch.float64).to(d)",
    "a compressed layout": "x.to_sparse_csr()",
}
CHOICES = {
    "a function": f"def f(x):\n    d = 'cuda' if {ASK} else 'cpu'\n    x = x.to(d)\n    return IT\n",
    "a branch": f"def f(x, d):\n    if {ASK}:\n        {MOVE}\n    return IT\n",
    "a file": f"d = torch.device('cuda' if {ASK} else 'cpu')\ndef f(x):\n    x = x.to(d)\n    return IT\n",
    "a class": (
        f"class A:\n    def __init__(self):\n        self.d = 'cuda' if {ASK} else 'cpu'\n"
        "    def f(self, x):\n        d = self.d\n        x = x.to(d)\n        return IT\n"
    ),
}


@pytest.mark.parametrize("body", CHOICES.values(), ids=CHOICES)
@pytest.mark.parametrize("raising", RAISING.values(), ids=RAISING)
def test_a_choice_whose_device_comes_to_what_raises_on_mps_leaves_it_out(
    raising: str, body: str, migrated: Migrated
) -> None:
    assert leaves_mps_out(migrated("import torch\n" + body.replace("IT", raising)))
    other = migrated("import torch\n" + body.replace("IT", "x.sum()"))
    assert "torch.cuda" not in other
    assert "is_complete" not in other


@pytest.mark.parametrize("body", CHOICES.values(), ids=CHOICES)
def test_what_raises_on_mps_and_somebody_accepted_keeps_no_choice(body: str, migrated: Migrated) -> None:
    accepted = body.replace("IT", "x.matrix_exp()  # torchmigrate: ignore[hazard/mps-operator]")
    after = migrated("import torch\n" + accepted)
    assert "torch.cuda" not in after
    assert "is_complete" not in after


TELLING = f"""import torch
class Net:
    def step(self, x, words):
        if {ASK}:
            words.append("memory")
        if {ASK}:
            text = ", ".join(["memory", *words])
        else:
            text = "{{}}".format(words)
        if {ASK}:
            print(text, torch.cuda.max_memory_allocated())
        else:
            print(words)
        x.matrix_exp()
    def start(self, x):
        if {ASK}:
            self.step(x, [])
        x.matrix_exp()
    def choose(self, x):
        if {ASK}:
            torch.cuda.set_device(0)
        x.matrix_exp()
    def name(self, x):
        if {ASK}:
            print(torch.zeros(2, device="cuda"))
        x.matrix_exp()
    def keep(self, x, places):
        place = "cpu"
        if {ASK}:
            place = places[0]
        x.to(place).matrix_exp()
"""


def test_what_only_tells_of_the_device_gives_none_to_what_raises_on_mps(migrated: Migrated) -> None:
    _, *methods = migrated(TELLING).split("    def ")
    assert methods[0].count(ASKED) == 3
    assert not any(ASKED in each for each in methods[1:])


def test_what_raises_on_mps_in_another_function_keeps_no_choice(migrated: Migrated) -> None:
    other = "def g(x):\n    return x.matrix_exp()\n"
    assert "torch.cuda" not in migrated(f"import torch\n{other}{CHOICES['a function'].replace('IT', 'x')}")


def test_code_without_a_choice_changes_beside_what_raises_on_mps(migrated: Migrated) -> None:
    assert "cuda" not in migrated("import torch\ndef f(x):\n    return torch.logit_(x.cuda())\n")


@pytest.mark.parametrize("body", CHOICES.values(), ids=CHOICES)
@pytest.mark.parametrize("operator", ["torch.linalg.eig", "torch.nn.functional.ctc_loss", "torch.nn.CTCLoss()"])
def test_a_choice_is_rewritten_with_what_falls_back_to_the_cpu(operator: str, body: str, migrated: Migrated) -> None:
    after = migrated("import torch\n" + body.replace("IT", f"{operator}(x, x, 1, 1)"))
    assert f"accel.cpu_fallback({operator})(x, x, 1, 1)" in after
    assert "cuda" not in after


RANKED = b"""import torch
def setup(opt, device):
    if opt.rank != -1:
        assert torch.cuda.device_count() > opt.rank
        torch.cuda.set_device(opt.rank)
        device = torch.device("cuda", opt.rank)
    return torch.ones(2).to(device)
"""


@pytest.mark.parametrize("is_held", [True, False])
def test_the_device_of_a_rank_stays_with_the_count_that_is_held_back(is_held: bool, rules: DispatchTable) -> None:
    """Found in yolov7: the device of a rank moved between a count and a `set_device` that stayed."""
    at = RANKED.index(b"torch.cuda.device_count")
    held = {"/case.py": {(at, at + len(b"torch.cuda.device_count")): "a test"}} if is_held else {}
    facts = ProjectContext(Path("/"), Settings(), held=held)
    after = rewrite(Path("/case.py"), decode(RANKED), rules, facts, False).text
    assert (b"accel.device(opt.rank)" in after) is not is_held
    assert (b"accel.set_device(opt.rank)" in after) is not is_held


ASKED_TWICE = """def f(args, x):
    sync = False
    if args.device == 'cuda' and not args.no_sync:
        sync = True
    if {other}.device == 'cuda':
        x = x.cuda()
    return x, sync
"""


@pytest.mark.parametrize("other", ["args", "x"])
def test_what_a_function_asks_twice_has_one_answer(other: str, migrated: Migrated) -> None:
    """Found in torchani's benchmarks: they did not wait for the device that they measured."""
    done = after(migrated, ASKED_TWICE.format(other=other))
    assert ("args.device == 'cuda' and not" in done) is (other != "args")
