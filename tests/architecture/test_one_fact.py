"""One fact, one place: backends, libraries that need CUDA and dtypes are listed in `torchmigrate/data` alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from conftest import ROOT

from torchmigrate import torch_api
from torchmigrate.torch_api import backends, libraries, names
from torchmigrate.verify import probe
from torchmigrate.verify.backends import DEFAULT, KNOWN

PACKAGE = ROOT / "torchmigrate"
DATA = ("backends", "libraries", "names")
BACKENDS = {*backends.BACKENDS, *backends.types_of(), *backends.COLUMNS}
TABLES: dict[str, Collection[str]] = {
    "backends": BACKENDS,
    "libraries": libraries.CUDA_ONLY.keys(),
    "dtypes": {*names.DTYPES, *names.DTYPES.values()},
}
# Modules that run by themselves in another interpreter, where there is no torchmigrate to ask.
ALONE = ("runtime.py", "verify/probe.py", "verify/simulated/")
# (module, the names in its list): what is no list of backends, and why.
_FUNCTIONS = "where torch.compile does not take one function of the helper's: a fact about the function"
EXEMPT = {
    ("config/keys.py", "mps xpu"): "the example of a setting",
    ("fixers/api/compile.py", "mtia npu"): _FUNCTIONS,
    ("fixers/api/compile.py", "mtia npu xpu"): _FUNCTIONS,
    ("fixers/api/compile.py", "tensorrt torch_tensorrt"): "names of torch.compile's backends",
    ("fixers/api/legacy_constructor.py", "cpu cuda"): "methods of a tensor",
    ("fixers/api/library_ops.py", "cpu cuda mps npu privateuse1 xpu"): "dispatch keys, with what each registers",
    ("fixers/api/tooling.py", "cpu npu xpu"): "whose problem one finding is",
    ("fixers/hazard/mps.py", "bfloat16 bool float16 float32 float64 int32 int64 uint8"): "attributes of torch",
    ("fixers/api/legacy_constructor.py", "BFloat16 Double Float Half"): "types that can be the default",
    ("semantic/guard_regions.py", "hip rocm"): "two names of one backend",
    ("semantic/receiver.py", "cpu cuda"): "methods of a tensor",
    ("worlds/expressions.py", "cpu cuda"): "what a user may ask for",
    ("worlds/external.py", "cpu cuda"): "methods of a tensor",
    ("worlds/external.py", "cpu cuda xpu"): "methods of a tensor",
    ("worlds/relevance.py", "cpu cuda"): "methods of a tensor",
}


def lists(path: Path) -> Iterator[tuple[int, frozenset[str]]]:
    """The line and the words of each literal that lists words: a collection, `a|b` in a pattern, "a,b"."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Tuple(elts) | ast.List(elts) | ast.Set(elts):
                yield node.lineno, texts(elts)
            case ast.Dict(keys):
                yield node.lineno, texts(keys)
            case ast.Constant(str(text)) if id(node) not in prose:
                for found in re.findall(r"\w+(?:[|]\w+)+", text) + re.findall(r"^\w+(?:,\w+)+$", text):
                    yield node.lineno, frozenset(re.split("[|,]", found))


def texts(nodes: Collection[ast.expr | None]) -> frozenset[str]:
    return frozenset(n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str))


def modules() -> Iterator[Path]:
    for path in sorted(PACKAGE.rglob("*.py")):
        if not path.relative_to(PACKAGE).as_posix().startswith(("torch_api/", *ALONE)):
            yield path


@pytest.mark.parametrize("table", TABLES)
def test_no_module_lists_them_again(table: str) -> None:
    second = []
    for path in modules():
        name = path.relative_to(PACKAGE).as_posix()
        for line, words in lists(path):
            known = sorted(words.intersection(TABLES[table]))
            if len(known) > 1 and (name, " ".join(known)) not in EXEMPT:
                second.append(f"{name}:{line}: {', '.join(known)}")
    assert second == [], "ask torch_api for them"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('X = ("mps", 1, "xpu")', {"mps", "xpu"}),
        ('X = {"mps": 1, **y}', {"mps"}),
        ('X = re.compile(r"is_(mps|xpu)\\b")', {"mps", "xpu"}),
        ('X = f"({y}|mps|xpu)"', {"mps", "xpu"}),
        ('X = "mps,xpu"', {"mps", "xpu"}),
        ('X = "of mps,xpu"', set()),
        ('def f():\n    """Of mps|xpu."""', set()),
    ],
)
def test_a_list_is_seen(text: str, found: set[str], tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(text)
    assert {word for _, words in lists(path) for word in words} == found


@pytest.mark.parametrize("name", DATA)
def test_the_data_is_read_once_and_quickly(name: str) -> None:
    assert torch_api.facts(name) is torch_api.facts(name)
    text = (PACKAGE / "data" / f"{name}.toml").read_text(encoding="utf-8")
    assert len(text) < 12_000  # tomllib takes about a millisecond


def test_modules_that_run_alone_say_the_same() -> None:
    known = {*backends.having("helper")}
    assert {*probe.BACKENDS} == known
    runtime = ast.parse((PACKAGE / "runtime.py").read_text(encoding="utf-8"))
    constants = {
        target.id: ast.literal_eval(node.value)
        for node in runtime.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id == "_KINDS"
    }
    assert {*constants["_KINDS"]} == known
    compared = (node.comparators[0] for node in ast.walk(runtime) if isinstance(node, ast.Compare))
    pairs = {ast.literal_eval(each) for each in compared if isinstance(each, ast.Tuple) and "cpu" in ast.dump(each)}
    assert {frozenset(pair) - {"meta"} for pair in pairs if "mps" in pair} == {frozenset(backends.having("single"))}


def test_the_help_of_verify_names_what_it_takes() -> None:
    text = (PACKAGE / "cli" / "commands" / "verify.py").read_text(encoding="utf-8")
    assert f"Some of {','.join(KNOWN)} (all but {','.join(name for name in KNOWN if name not in DEFAULT)})." in text


def test_kinds_are_spelled_alike() -> None:
    """A kind that no backend has, or that the head of the file does not explain, is a slip."""
    text = (PACKAGE / "data" / "backends.toml").read_text(encoding="utf-8")
    used = {kind for backend in torch_api.facts("backends").values() for kind in backend["kinds"]}
    explained = {*re.findall(r"^#     (\w+) ", text, re.M), "default"}
    asked = {
        kind
        for path in PACKAGE.rglob("*.py")
        for call in re.findall(r"\b(?:having|types_of)\(([^()]*)\)", path.read_text(encoding="utf-8"))
        for kind in re.findall(r"[\"'](\w+)[\"']", call)
    }
    assert used == explained
    assert asked <= used


def test_each_library_is_advised_upon_and_no_namespace_is() -> None:
    assert all(libraries.CUDA_ONLY.values())
    assert not libraries.CUDA_ONLY.keys() & libraries.NAMESPACES
    assert "deepspeed" not in libraries.CUDA_ONLY  # it runs on other accelerators and on the CPU
    assert torch_api.facts("libraries")["packages"].keys() <= libraries.CUDA_ONLY.keys()
    assert libraries.of_library("GPUtil") == libraries.of_library("gputil") == libraries.CUDA_ONLY["GPUtil"]
    assert libraries.of_library("numpy") is None


@pytest.mark.parametrize(
    ("library", "devices"),
    [
        ("faster_whisper", {"cpu", "cuda", "auto"}),
        ("faster_whisper.WhisperModel", {"cpu", "cuda", "auto"}),
        ("numba", {"cpu", "cuda", "parallel"}),
        ("numba.cuda.to_device", {"cuda"}),
        ("cv2.cuda.GpuMat", {"cuda"}),
        ("cupy", {"cuda"}),
        ("ultralytics.YOLO", {"cpu", "cuda", "mps"}),
        ("cv2", None),
        ("cv2.imread", None),
        ("numpy.asarray", None),
        ("faiss_utils", None),
    ],
)
def test_libraries_take_devices(library: str, devices: set[str] | None) -> None:
    assert libraries.takes(library) == devices


def test_what_is_built_on_torch_takes_every_device() -> None:
    every = libraries.takes("sentence_transformers.SentenceTransformer")
    assert every == {"cpu", *backends.types_of("helper")}
    assert every == libraries.takes("torch.nn")
    assert "sentence_transformers" not in libraries.FOREIGN
    assert "ultralytics" not in libraries.FOREIGN
    assert {"os", "ctranslate2", "jax"} <= libraries.FOREIGN


def test_devices_of_libraries_are_spelled_alike() -> None:
    data = torch_api.facts("libraries")
    known = {"cpu", *backends.types_of("helper")}
    for library, devices in data["takes"].items():
        of_torch, _, own = devices.partition("+")
        assert {*of_torch.split()} <= known, library
        assert not {*own.split()} & known, library
    assert data["arguments"].keys() <= {*data["takes"], *libraries.BUILT_ON_TORCH}
    assert {kind for kinds in data["arguments"].values() for kind in kinds} == {"name", "number", "flag", "precision"}
    assert libraries.arguments("faiss.Kmeans") == {
        "device": "number", "gpus": "number", "ngpu": "number", "gpu": "flag",
    }  # fmt: skip
    assert libraries.arguments("torch") == {}
