"""Names of torch: documented names of APIs, dtypes by tensor type, kinds of string literals, version specifiers."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from torchmigrate.base.schema import Kind, matching
from torchmigrate.torch_api import facts
from torchmigrate.torch_api.backends import OTHERS

_DATA = facts("names")
# modules in which torch keeps names that it documents one level up
CANONICAL: Sequence[tuple[str, str]] = tuple(_DATA["canonical"].items())
_LONG = tuple(prefix for prefix, _ in CANONICAL)


# names under which people import torch's modules
ALIASES: Mapping[str, str] = _DATA["aliases"]

STARTS_GROUP = "torch.distributed.init_process_group"  # of at least one process

# the position at which functions take a device
DEVICE_ARGUMENT: Mapping[str, int] = _DATA["device-argument"]


def canonical(name: str) -> str:
    if not name.startswith(_LONG):
        return name
    for prefix, short in CANONICAL:
        if name.startswith(prefix):
            return short + name[len(prefix) :]
    return name


DEVICE = re.compile(r"cuda(:(\d+)?)?")
TYPE = re.compile(r"torch\.cuda\.(sparse\.)?\w+Tensor")
NCCL = re.compile(r"(cpu:gloo,)?(cuda:)?nccl(,cpu:gloo)?", re.I)
ENVIRONMENT = re.compile(r"(CUDA|NCCL|CUDNN|CUBLAS|PYTORCH_CUDA|TORCH_CUDA|TORCH_NCCL|NVIDIA)_[A-Z_\d]+")
PROVIDER = re.compile(r"(CUDA|Tensorrt|NvTensorRTRTX)ExecutionProvider")
BACKEND = re.compile(rf"({'|'.join(OTHERS)})(?::(\d+)?)?")
SETTINGS = ("torch.backends.", "torch._inductor.config.")
_STRINGS = {
    "string:type": TYPE, "string:nccl": NCCL, "string:provider": PROVIDER, "string:environment": ENVIRONMENT,
    "string:backend": BACKEND,
}  # fmt: skip


_PARTS = tuple(re.compile(text) for text in (r"cuda:?", r"cuda(:%[ds]|%[ds])", r"cuda:?\{[^}]*\}"))


def string_kind(node: ast.Constant, parent: ast.AST | None) -> str | None:
    """Return the table of a string; a device string may be the first part of an f-string, `%`, `+` or `.format`."""
    text = node.value
    if not isinstance(text, str):
        return None
    if DEVICE.fullmatch(text) or any(p.fullmatch(text) for p in _PARTS):
        if isinstance(parent, ast.JoinedStr) and parent.values[0] is not node:
            return None
        return "string:device"
    return next((kind for kind, pattern in _STRINGS.items() if pattern.fullmatch(text)), None)


# by the first word of a tensor type's name: `HalfTensor` holds float16
DTYPES: Mapping[str, str] = _DATA["dtypes"]


# methods that give a tensor, or a number, that stands elsewhere, and words for a dtype as an argument of `x.to(...)`
MOVING_METHODS: frozenset[str] = frozenset(_DATA["tensors"]["leaving"])
SHAPING_METHODS: frozenset[str] = frozenset(_DATA["tensors"]["shapes"])
DTYPE_WORDS: frozenset[str] = frozenset(_DATA["tensors"]["dtypes"])
DOUBLES: tuple[str, ...] = tuple(_DATA["tensors"]["doubles"])
NUMPY_OF_NUMBERS: frozenset[str] = frozenset(_DATA["tensors"]["numpy-of-numbers"])
NUMPY_FILLED: frozenset[str] = frozenset(_DATA["tensors"]["numpy-filled"])
NUMPY_RANDOM: frozenset[str] = frozenset(_DATA["tensors"]["numpy-random"])
KEEPING: frozenset[str] = SHAPING_METHODS.union(_DATA["tensors"]["keeping"])
NO_FALLBACK: frozenset[str] = frozenset(_DATA["tensors"]["no-fallback"])
SINGLES: tuple[str, ...] = tuple(_DATA["tensors"]["singles"])
HALVES: tuple[str, ...] = tuple(_DATA["tensors"]["halves"])
_HALF = frozenset(_DATA["tensors"]["half-flags"])


def turns_half_on(flag: str) -> bool:
    """Return whether a flag's name says that it turns half precision on: `half`, `use_fp16`."""
    return not _HALF.isdisjoint(flag.lower().split("_"))


_CLAUSE = r"(?:[<>=~!]=|[<>]|===)?\s*\d{1,9}(?:\.\d{1,9})*(?:\.\*)?"


# a candidate, a post-release, a build: packaging reads what follows the release
_SUFFIX = r"(?:[-_.]?[a-z]+[-_.]?\d{0,9}){0,4}(?:\+[a-z\d]+(?:[-_.][a-z\d]+){0,9})?"
_PLAIN = matching(rf"\s*{_CLAUSE}(?:\s*,\s*{_CLAUSE})*\s*", 'be a version specifier such as ">=2.1"')
_ANY = matching(rf"\s*{_CLAUSE}{_SUFFIX}(?:\s*,\s*{_CLAUSE}{_SUFFIX})*\s*", 'be a version specifier such as ">=2.1"')


def _specifier(value: object) -> str:
    text: str = _ANY.read(value)
    if re.fullmatch(_PLAIN.schema["pattern"], text) is None and _clauses(text) is None:
        _PLAIN.read(value)  # raises
    return text


SPEC = Kind(_specifier, _ANY.schema)


def version_of(spec: str | None) -> tuple[int, ...] | None:
    """Return the least release that a specifier takes; None where it names no floor: `<3.0`, `!=2.4`."""
    clauses = [clause.strip() for clause in (spec or "").split(",")]
    found = [_BOUND.fullmatch(clause) for clause in clauses]
    if any(character.isalpha() or character == "+" for character in spec or ""):
        floors = [clause for clause in _clauses(spec or "") or () if clause[0] in _FLOORS]
        return max(((*release, 0)[:2] for _, release in floors), default=None)
    return max(((int(m[1]), int(m[2] or 0)) for m in found if m), default=None)


_FLOORS = (">=", ">", "==", "===", "~=")


def _clauses(spec: str) -> list[tuple[str, tuple[int, ...]]] | None:
    """Return operator and release of each clause as packaging reads them, or None if it does not."""
    from packaging.specifiers import InvalidSpecifier, Specifier  # 20 ms, and few projects ask for a candidate
    from packaging.version import InvalidVersion, Version

    found = []
    try:
        for text in spec.split(","):
            clause = Specifier(text if text.strip()[:1] in "<>=~!" else f"=={text}")
            found.append((clause.operator, Version(clause.version.removesuffix(".*")).release))
    except (InvalidSpecifier, InvalidVersion):
        return None
    return found


# no version has more digits; Python refuses to read thousands of them
_BOUND = re.compile(r"(?:>=?|={2,3}|~=)?\s*(\d{1,9})(?:\.(\d{1,9}))?(?:[.*][\d.*]*)?")
