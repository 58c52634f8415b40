"""Define abstract values: sets of what an expression may be, each with the edits that it comes from."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from torchmigrate.worlds.program import NONE, ClassInfo, Edits, File, FunctionInfo

WIDEST = 12  # a value of more atoms is unknown
_DIRECTIVE = re.compile("%[sdi]")
LARGEST, DEEPEST = 2_000, 40  # of more atoms in a collection, or in collections of more levels, each is unknown
LONGEST = 1_000  # characters of a text that is computed, and digits of a number
# widths in templates of `%` and `format` that are large, or given as an argument
_WIDTH = re.compile(r"%(\([^)]*\))?[^%a-zA-Z]*(\d{4}|\*)|:[^{}]*(\d{4}|\{)")


@dataclass(frozen=True, slots=True)
class Const:
    """A Const is a constant of Python; the type keeps 1 and True apart."""

    value: Any
    type: type

    def __repr__(self) -> str:
        return repr(self.value)


class Supposed(str):
    """Something unknown may be the device of this name; it equals the name that is known, which comes before it."""

    __slots__ = ()


def is_supposed(atom: object) -> bool:
    """Return whether a device is only supposed: a test is followed for it as nothing is known of what it asks about."""
    return isinstance(atom, Const) and isinstance(atom.value, Supposed)


@dataclass(frozen=True, slots=True)
class Device:
    """A Device is a torch.device; the index None is the current device."""

    type: str
    index: int | None = None


@dataclass(frozen=True, slots=True)
class Items:
    """Items are a list, tuple or set with its elements in order."""

    items: tuple[Value, ...]

    def __post_init__(self) -> None:
        if _is_too_large(self.items):
            object.__setattr__(self, "items", tuple(map(_forgotten, self.items)))


@dataclass(frozen=True, slots=True)
class Table:
    """A Table is a dict with constant keys."""

    items: tuple[tuple[Const, Value], ...]

    def __post_init__(self) -> None:
        if _is_too_large([value for _, value in self.items]):
            object.__setattr__(self, "items", tuple((key, _forgotten(value)) for key, value in self.items))


@dataclass(frozen=True, slots=True)
class Named:
    """A qualified name stands for something outside the project: `torch.cuda.is_available`, `numpy.zeros`."""

    name: str


# what `accel.tensor_type` returns off CUDA: it makes tensors, and `x.type` refuses it
OWN_TYPE = Named("accel.own_tensor_type")


@dataclass(frozen=True, slots=True)
class Routine:
    """A Routine is a function of the project, bound to `owner` where it is a method."""

    info: FunctionInfo
    owner: Value | None = None


@dataclass(frozen=True, slots=True)
class Partial:
    """functools.partial makes something to call, with its first arguments and those by name."""

    function: Value
    args: tuple[Value, ...]
    named: tuple[tuple[str, Value], ...]

    def __post_init__(self) -> None:
        if _is_too_large([self.function, *self.args, *(value for _, value in self.named)]):
            object.__setattr__(self, "function", _forgotten(self.function))
            object.__setattr__(self, "args", tuple(map(_forgotten, self.args)))
            object.__setattr__(self, "named", tuple((name, _forgotten(value)) for name, value in self.named))


@dataclass(frozen=True, slots=True)
class Type:
    """A Type is a class of the project."""

    info: ClassInfo


@dataclass(frozen=True, slots=True)
class Instance:
    """An Instance is an object of a class of the project."""

    info: ClassInfo


@dataclass(frozen=True, slots=True)
class Module:
    """A Module is a file of the project that was imported."""

    file: File


@dataclass(frozen=True, slots=True)
class Unknown:
    """The analysis cannot follow the value.

    `of` says what is known: "tensor", "user" (a text), "number", "index", "placed".
    """

    of: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark skips a test or lets it run: `pytest.mark.skipif(...)`."""

    skips: bool


Atom = Const | Device | Items | Table | Named | Routine | Partial | Type | Instance | Module | Mark | Unknown


class Value:
    """A value is a set of atoms, each with the edits that let it be there. Code that never runs has the empty value."""

    __slots__ = ("_hash", "_size", "atoms")

    def __init__(self, atoms: Mapping[Atom, Edits]) -> None:
        self.atoms = atoms
        self._hash: int | None = None
        self._size: tuple[int, int] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and self.atoms == other.atoms

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.atoms))
        return self._hash

    def __bool__(self) -> bool:
        return bool(self.atoms)

    def __iter__(self) -> Iterator[Atom]:
        return iter(self.atoms)

    def __len__(self) -> int:
        return len(self.atoms)

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{a}{sorted(e) if e else ''}" for a, e in self.atoms.items()) + "}"

    @property
    def size(self) -> tuple[int, int]:
        """Return how many atoms there are, those of elements too, and how deep they are nested."""
        if self._size is None:
            inner = [value.size for atom in self.atoms for value in _elements(atom)]
            count = len(self.atoms) + sum(count for count, _ in inner)
            self._size = count, 1 + max((depth for _, depth in inner), default=0)
        return self._size

    @property
    def edits(self) -> Edits:
        """Return all edits that some atom comes from, those of elements too."""
        found: set[int] = set()
        for atom, edits in self.atoms.items():
            found |= edits
            if isinstance(atom, Items):
                for item in atom.items:
                    found |= item.edits
            elif isinstance(atom, Table):
                for _, item in atom.items:
                    found |= item.edits
        return frozenset(found)

    def of(self, edits: Edits) -> Value:
        """Return the same atoms, which come from `edits` too."""
        return Value({atom: own | edits for atom, own in self.atoms.items()}) if edits else self

    def only(self, atoms: Iterable[Atom]) -> Value:
        return Value({atom: self.atoms[atom] for atom in atoms if atom in self.atoms})

    def holds(self, other: Value) -> bool:
        """Return whether all atoms of another value are here, each with the edits that it comes from there."""
        if other is self:
            return True
        known = self.atoms
        return all(atom in known and edits <= known[atom] for atom, edits in other.atoms.items())

    @property
    def certain(self) -> bool:
        """Return whether all atoms are known."""
        return not any(isinstance(atom, Unknown) for atom in self.atoms)


NOTHING = Value({})
UNKNOWN = Value({Unknown(): NONE})
TENSOR = Value({Unknown("tensor"): NONE})
INDEX = Unknown("index")  # a number that a file sets, and a user may change there to another one
PLACED = Unknown("placed")  # the helper's device for an index that is not followed: never None
MAYBE_PARSED = frozenset({Unknown("options"), Unknown()})  # what may hold the options of a command line
BY_NAME = Unknown("options by name")  # the same as a table: `vars(args)`
OPTIONS: frozenset[Atom] = frozenset({Unknown("user"), Unknown("number")})  # what a user asks for
OPEN: frozenset[Atom] = OPTIONS | {Unknown()}


def _elements(atom: Atom) -> Iterable[Value]:
    match atom:
        case Items(items):
            return items
        case Table(pairs):
            return [value for _, value in pairs]
        case Partial(function, args, named):
            return [function, *args, *(value for _, value in named)]
    return ()


def _is_too_large(elements: Iterable[Value]) -> bool:
    """Return whether a collection holds too much to be followed: with each line, a program can double what it holds."""
    sizes = [value.size for value in elements]
    return sum(count for count, _ in sizes) > LARGEST or any(depth > DEEPEST for _, depth in sizes)


def _forgotten(value: Value) -> Value:
    return UNKNOWN.of(value.edits)


def bare(value: Value) -> frozenset[object]:
    """Return what a value may be, without the edits that what is in its collections comes from."""
    return frozenset(map(_bare, value))


def _bare(atom: Atom) -> object:
    elements = tuple(map(bare, _elements(atom)))
    keys = tuple(key for key, _ in atom.items) if isinstance(atom, Table) else ()
    return (type(atom), keys, elements) if elements else atom


def one(atom: Atom, edits: Edits = NONE) -> Value:
    return Value({atom: edits})


def const(value: object, edits: Edits = NONE) -> Value:
    return Value({Const(value, type(value)): edits}) if edits else _constant(value)


@lru_cache(maxsize=1 << 12, typed=True)
def _constant(value: object) -> Value:
    return Value({Const(value, type(value)): NONE})


def join(*values: Value) -> Value:
    """Return the union; a set that grows too large is unknown, from the same edits."""
    if len(values) == 1 or (len(values) == 2 and values[0].holds(values[1])):
        return values[0]
    given = {id(value): value for value in values if value.atoms}
    if len(given) == 1:
        return next(iter(given.values()))
    found: dict[Atom, Edits] = {}
    for value in given.values():
        for atom, edits in value.atoms.items():
            known = found.get(atom)
            found[atom] = edits if known is None or known is edits else known | edits
    if len(found) > WIDEST:
        return Value({Unknown(): Value(found).edits})
    return Value(found)


_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.Is: lambda a, b: a is b,
    ast.IsNot: lambda a, b: a is not b,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mod: lambda a, b: a % b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Div: lambda a, b: a / b,
    ast.BitAnd: lambda a, b: a & b,
    ast.BitOr: lambda a, b: a | b,
}


def mark(name: str, condition: Value) -> Value:
    """Return the mark that `skipif`, `skipIf` or `skipUnless` makes of a condition; a text is not followed."""
    if any(isinstance(atom, Const) and atom.type is str for atom in condition):
        return UNKNOWN.of(condition.edits)
    answers = ((truth(atom), edits) for atom, edits in condition.atoms.items())
    when = name != "skipUnless"
    return join(*(one(Mark(each is when), e) for t, e in answers for each in ((True, False) if t is None else (t,))))


_EQUALITY = (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)
_PLACED_OR_NONE = {PLACED, Const(None, type(None))}


def compared(op: ast.cmpop, left: Atom, right: Atom) -> bool | None:
    """Return how a comparison of two atoms comes out, or None if that is unknown."""
    if isinstance(op, (ast.In, ast.NotIn)) and isinstance(right, (Items, Table)):
        inside = _is_member(left, right)
        return None if inside is None else inside is isinstance(op, ast.In)
    if isinstance(left, Device) and isinstance(right, Device) and isinstance(op, (ast.Eq, ast.NotEq)):
        if left.type == right.type and (left.index is None) != (right.index is None):
            return isinstance(op, ast.NotEq)
        return (left == right) is isinstance(op, ast.Eq)
    if isinstance(left, Const) and isinstance(right, Const):
        if not (is_short(left.value) and is_short(right.value)):
            return None
        try:
            return bool(_COMPARE[type(op)](left.value, right.value))
        except TypeError:
            return None
    is_known = not (isinstance(left, Unknown) or isinstance(right, Unknown))
    if isinstance(op, _EQUALITY) and (is_known or {left, right} == _PLACED_OR_NONE):
        # of different kinds: a device is not None, no text
        return isinstance(op, (ast.IsNot, ast.NotEq))
    return None


def _is_member(left: Atom, right: Items | Table) -> bool | None:
    keys = (
        [item for value in right.items for item in value] if isinstance(right, Items) else [k for k, _ in right.items]
    )
    answers = [compared(ast.Eq(), left, key) for key in keys]
    if True in answers and (isinstance(right, Table) or all(len(v) == 1 for v in right.items)):
        return True
    return None if True in answers or None in answers else False


def combined(op: ast.operator, left: Atom, right: Atom) -> Atom:
    """Return the atom of `left op right`: texts, numbers and lists are computed, the rest is unknown."""
    if isinstance(left, Items) and isinstance(right, Items) and isinstance(op, ast.Add):
        return Items(left.items + right.items)
    if isinstance(left, Items) and isinstance(op, ast.Mult) and isinstance(right, Const) and right.type in (int, bool):
        return Items(left.items * min(right.value, 2))
    if isinstance(left, Const) and isinstance(right, Const) and type(op) in _ARITHMETIC:
        if not (is_short(left.value) and is_short(right.value)):
            return Unknown()
        try:
            return computed(_ARITHMETIC[type(op)](left.value, right.value))
        except (TypeError, ValueError, ArithmeticError):
            return Unknown()
    if isinstance(left, Const) and isinstance(left.value, str) and isinstance(op, ast.Add):
        return _cut(left.value)
    if isinstance(op, ast.Mod) and isinstance(left, Unknown) and right == Const(1, int):
        return Const(0, int)  # any batch is a multiple of one device
    return Unknown()


def zero_of(op: ast.operator, left: Value, right: Value) -> Value:
    """Return the zeros by which numbers are divided: `%` may also fill in what is not known to be a text."""
    is_number = any(isinstance(atom, Const) and atom.type in (int, float) for atom in left)
    if not isinstance(op, (ast.Div, ast.FloorDiv)) and not (isinstance(op, ast.Mod) and is_number):
        return NOTHING
    return right.only(
        atom for atom in right if isinstance(atom, Const) and atom.type in (int, float) and not atom.value
    )


def formatted(text: str, given: Atom) -> Value:
    """Return what `text % given` may be: each way in which its parts are known."""
    plain, items = _DIRECTIVE.split(text), given.items if isinstance(given, Items) else (one(given),)
    if "%" in "".join(plain) or len(plain) != len(items) + 1:
        return one(_cut(text.partition("%")[0]))
    ways: list[tuple[list[Atom], Edits]] = [([], NONE)]
    for item in items:
        ways = [([*atoms, atom], edits | own) for atoms, edits in ways for atom, own in item.atoms.items()][:WIDEST]
    return join(*(one(filled(plain, atoms), edits) for atoms, edits in ways))


def filled(plain: Sequence[str], atoms: Sequence[Atom]) -> Atom:
    """Return the text of some parts with things between them."""
    parts: list[Atom] = [Const(plain[0], str)]
    for atom, part in zip(atoms, plain[1:], strict=True):
        parts += [atom, Const(part, str)]
    return joined_text(parts)


def is_short(value: object) -> bool:
    """Return whether a constant is short enough to compute with: a program can double it in each of its lines."""
    if isinstance(value, int):
        return value.bit_length() <= 3 * LONGEST
    return not isinstance(value, (str, bytes, tuple)) or len(value) <= LONGEST


def computed(value: object) -> Atom:
    """Return a constant that was computed, unknown if it is too long."""
    return Const(value, type(value)) if is_short(value) else Unknown()


def pads(template: str) -> bool:
    """Return whether a template may make a text much longer than what it is given, by a width."""
    return _WIDTH.search(template) is not None


def is_index(value: object) -> bool:
    """Return whether a number or a text is the index of a device."""
    text = str(value) if isinstance(value, (int, str)) and is_short(value) else ""
    return text.isascii() and text.isdecimal() and len(text) < 10


def _cut(start: str) -> Atom:
    """Return a text of which only the start is known: "cuda:" with any index is a device of CUDA."""
    kind = start.partition(":")[0]
    return Const(f"{kind}:0", str) if start == f"{kind}:" and kind.isidentifier() else Unknown()


def joined_text(parts: Iterable[Atom]) -> Atom:
    """Return the text of an f-string."""
    text = ""
    for part in parts:
        if isinstance(part, Const) and is_short(part.value):
            text += str(part.value)
        elif isinstance(part, Device):
            text += device_text(part)
        else:
            return _cut(text)
    return computed(text)


def device_text(device: Device) -> str:
    return device.type if device.index is None else f"{device.type}:{device.index}"


def is_type_of_cuda(atom: Atom) -> bool:
    """Return whether an atom is a tensor type of CUDA, or the name of one: "torch.cuda.HalfTensor"."""
    text = atom.name if isinstance(atom, Named) else atom.value if isinstance(atom, Const) else None
    return isinstance(text, str) and text.startswith("torch.cuda.") and text.endswith("Tensor")


def truth(atom: Atom) -> bool | None:
    """Return whether an atom is true, or None if that is unknown."""
    match atom:
        case Const(value):
            return bool(value)
        case Items(items) | Table(items):
            return bool(items)
        case Unknown():
            return True if atom == PLACED else None
        case Named(name) if "." in name and name.partition(".")[0] not in ("torch", "builtins", "accel"):
            return None  # a library may give a constant, as `TORCH_2_4`
    return True


def data(found: object) -> Value:
    """Return the value of data such as a JSON text has: objects, arrays and constants."""
    match found:
        case dict():
            return one(table({str(key): data(item) for key, item in found.items()}))
        case list():
            return one(Items(tuple(map(data, found))))
    return const(found)


def table(items: Mapping[str, Value]) -> Table:
    """Return the table that has these items."""
    return Table(tuple((Const(word, str), value) for word, value in items.items()))


def items_given(args: Iterable[Value], named: Mapping[str, Value]) -> dict[str, Value]:
    """Return the items that `**table` gives, or that a call makes of tables and keywords, as `dict` does.

    Each depends on what its table depends on.
    """
    found: dict[str, Value] = {}
    for table, edits in join(*args).atoms.items():
        for key, item in table.items if isinstance(table, Table) else ():
            word = str(key.value)
            found[word] = join(found.get(word, NOTHING), item.of(edits))
    return found | dict(named)
