"""The public names of the installed torch that name a device, found by walking it: what the catalog must have rows for.

What is public, and torch's own: a name without an underscore that stands in its module's `__all__`, or whose object
torch defines (by the object's `__module__`), or, for plain data, that the module's own source assigns. So what a module
imported by accident (`lru_cache`, `Any`, `os`) does not count.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import io
import pkgutil
import re
import types
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path

# every public name of these and of the modules below them, whatever it does
DEVICE_MODULES = ("cuda", "mps", "xpu", "mtia", "cpu", "accelerator", "amp", "backends", "library")
WITH_METHODS = ("torch.library.Library", "torch.library.CustomOpDef")
# a parameter that names a device or exists for devices' sake
PARAMETER = re.compile(r"\w*device\w*|map_location|pin_memory|use_cuda|non_blocking|cuda|accelerator")
# a function or class that says so in its own name
NAME = re.compile(
    r"(^|_)(cuda|cudnn|miopen|mps|xpu|mtia|nccl|gpu|devices?|accelerator|hip|pin_memory|autocast)(?=_|$)"
    r"|CUDA|Cuda|NCCL|XCCL|Device"
)
# of a Tensor, a Module, a storage, a Generator: what is about devices by its own name
MEMBER = re.compile(
    r"(is_)?(cuda|xpu|mps|mtia|cpu|ipu|hpu|xla|maia|meta)|(to_|get_)?device\w*|\w*pin(_memory|ned)|to|record_stream"
)
MEMBERS_OF = (
    "torch.Tensor",
    "torch.nn.Module",
    "torch.Generator",
    "torch.UntypedStorage",
    "torch.TypedStorage",
    "torch.nn.utils.rnn.PackedSequence",
)


@cache
def modules(root: str) -> dict[str, types.ModuleType]:
    """The public modules at and below `root` that import here, by name."""
    found = {}
    todo = [root]
    while todo:
        name = todo.pop()
        try:
            with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
                warnings.simplefilter("ignore")
                module = importlib.import_module(name)
        except Exception:  # an optional dependency (tensorboard, onnx) that is not installed
            continue
        found[name] = module
        below = pkgutil.iter_modules(getattr(module, "__path__", ()))
        todo += [f"{name}.{m.name}" for m in below if not m.name.startswith("_")]
    return dict(sorted(found.items()))


def public(module: types.ModuleType, private: bool = True) -> dict[str, object]:
    """What a module offers, without its submodules. `private`: also what it fetches from where nobody is meant to look
    (`torch._utils`)."""
    inner = vars(module).get("m", module)  # torch.backends puts an object with flags in a module's place
    listed = {*getattr(inner, "__all__", ()), *_flags(module), *_assigned(inner)}
    found = {}
    for name in sorted({*vars(inner), *listed}):
        thing = _get(module, name)
        mine = name in listed or _is_at_home(thing, inner, private)
        if mine and not name.startswith("_") and not isinstance(thing, types.ModuleType):
            found[name] = thing
    return found


def _get(owner: object, name: str) -> object:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(owner, name)
    except Exception as error:  # a property that asks a device which is not there
        return error


def _is_at_home(thing: object, module: types.ModuleType, private: bool) -> bool:
    """Whether torch defines it: here or below."""
    if type(thing).__module__ == "typing" or not callable(thing):
        return False
    home = str(getattr(thing, "__module__", None) or "")
    hidden = home.startswith("torch.") and any(part.startswith("_") for part in home.split("."))
    return f"{home}.".startswith(f"{module.__name__}.") or (private and hidden)


@cache
def _assigned(module: types.ModuleType) -> frozenset[str]:
    """Names of plain data (a number, a dict, an object with flags) that a module's own source assigns."""
    try:
        body = ast.parse(inspect.getsource(module)).body
    except (OSError, TypeError):
        return frozenset()
    targets = [t for s in body for t in (s.targets if isinstance(s, ast.Assign) else [getattr(s, "target", None)])]
    names = {t.id for t in targets if isinstance(t, ast.Name)}
    kinds = {n: type(_get(module, n)).__module__ for n in names}
    return frozenset(n for n, kind in kinds.items() if kind == "builtins" or kind.startswith("torch"))


def _flags(module: types.ModuleType) -> set[str]:
    """The descriptors that torch.backends gives to its modules' classes."""
    classes = type(module).__mro__[: -len(types.ModuleType.__mro__)]
    return {name for c in classes for name in vars(c)}


def members(thing: object) -> set[str]:
    """Public methods and attributes that a class (or an object's class) defines itself. torch.backends has objects that
    tell their flags apart in `__getattr__`: names that it compares with, as far as they are there."""
    kind = thing if isinstance(thing, type) else type(thing)
    names = set(vars(kind))
    lookup = vars(kind).get("__getattr__")
    if isinstance(lookup, types.FunctionType) and not isinstance(thing, type):
        strings = {c for c in lookup.__code__.co_consts if isinstance(c, str) and c.isidentifier()}
        names |= {name for name in strings if not isinstance(_get(thing, name), AttributeError)}
    return {name for name in names if not name.startswith("_")}


def device_modules() -> Iterator[tuple[str, object]]:
    """All that torch's device modules offer, with the flags of torch.backends and torch.library's methods."""
    for root in DEVICE_MODULES:
        for name, module in modules(f"torch.{root}").items():
            yield name, module
            for attribute, thing in public(module).items():
                path = f"{name}.{attribute}"
                yield path, thing
                if path in WITH_METHODS or _has_flags(root, thing):
                    yield from ((f"{path}.{member}", _get(thing, member)) for member in sorted(members(thing)))


def _has_flags(root: str, thing: object) -> bool:
    return root == "backends" and not isinstance(thing, type) and type(thing).__module__.startswith("torch.backends")


def with_device() -> dict[str, str]:
    """Functions and classes anywhere in torch with a parameter about devices, and what `MEMBERS_OF` have about them:
    the parameters (or "by name"), by the shortest of the public names that each goes by."""
    shortest: dict[int, tuple[str, object]] = {}
    for name, module in modules("torch").items():
        for attribute, thing in public(module, private=False).items():
            path = f"{name}.{attribute}"
            known, _ = shortest.get(id(thing), (path, thing))
            if callable(thing):
                shortest[id(thing)] = min(path, known, key=lambda name: (name.count("."), name)), thing
    found = {}
    for path, thing in shortest.values():
        names = parameters(thing)
        if names or NAME.search(path.rpartition(".")[2]):
            found[path] = ", ".join(names) or "by name"
    for owner in MEMBERS_OF:
        found |= dict(_members_with_device(owner))
    return dict(sorted(found.items()))


def _members_with_device(owner: str) -> Iterator[tuple[str, str]]:
    module, _, name = owner.rpartition(".")
    kind = getattr(importlib.import_module(module), name)
    for member in sorted(n for n in dir(kind) if not n.startswith("_")):
        names = parameters(_get(kind, member))
        if MEMBER.fullmatch(member) or names:
            yield f"{owner}.{member}", ", ".join(names) or "by name"


def parameters(thing: object) -> list[str]:
    """Its parameters about devices: by its signature, else (builtins) by the signatures in its docstring."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            names = list(inspect.signature(thing).parameters) if callable(thing) else []
    except Exception:  # a builtin
        names = []
    if not names or not isinstance(thing, types.FunctionType | type):
        names += _documented(thing)
    return list(dict.fromkeys(name for name in names if PARAMETER.fullmatch(name)))


def _documented(thing: object) -> list[str]:
    text = inspect.getdoc(thing) or ""
    name = getattr(thing, "__name__", "")
    heads = re.findall(rf"^{re.escape(name)}\(([^\n]*)\)", text, re.M) if name else []
    return [word for head in heads for word in re.findall(r"(?<![\w.])(\w+)\s*(?:[:=,]|$)", head)]


def fixtures() -> dict[str, str]:
    """The names that tests/support/catalog/*.txt list, each with its list."""
    lists = sorted((Path(__file__).parent / "catalog").glob("*.txt"))
    lines = [(line.strip(), file.name) for file in lists for line in file.read_text("utf-8").splitlines()]
    return {line: name for line, name in lines if line and not line.startswith("#")}


def walk() -> dict[str, str]:
    """Every name that must have a row, with the reason."""
    offered = {name: "of a device module" for name, _ in device_modules()}
    taking = {name: f"takes {why}" if why != "by name" else why for name, why in with_device().items()}
    return dict(sorted((taking | fixtures() | offered).items()))


# modules for torch's own developers, and such as need what is not there
_INNER = (
    "torch.testing",
    "torch.onnx.ops",
    "torch.onnx.symbolic",
    "torch.utils.hipify",
    "torch.utils.viz",
    "torch.contrib",
)
_CLASSES = (*MEMBERS_OF, "torch.optim.Optimizer", "torch.utils.data.DataLoader", "torch.Size")


def everything() -> str:
    """Return the text of torchmigrate/data/public_names.txt: a line for each module, and for some classes."""
    told = {}
    for name, module in modules("torch").items():
        if not name.startswith(_INNER):
            told[name] = [n for n in public(module) if n.isidentifier()]
    torch = importlib.import_module("torch")
    plain = (torch.layout, torch.memory_format, torch.dtype)
    told["torch"] = sorted({*told["torch"], *(n for n, thing in vars(torch).items() if isinstance(thing, plain))})
    told["torch.utils.tensorboard"] = ["FileWriter", "RecordWriter", "SummaryWriter"]  # imports tensorboard
    for name in _CLASSES:
        owner: object = torch
        for part in name.split(".")[1:]:
            owner = _get(owner, part)
        told[name] = [n for n in dir(owner) if not n.startswith("_")]
    lines = (f"{name}: {' '.join(names)}" for name, names in sorted(told.items()) if names)
    head = "# The public names of torch 2.13 by module; `tests/support/catalog_walk.py everything` writes this file."
    return "\n".join([head, *lines, ""])


if __name__ == "__main__":  # in a process of its own: importing all of torch leaves traces
    import json
    import sys

    print(everything() if sys.argv[1:] == ["everything"] else json.dumps([walk(), everything()]), end="")
