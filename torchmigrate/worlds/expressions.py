"""Evaluate expressions in one world: what each may be, and which devices, refusals and CUDA calls it reaches."""

from __future__ import annotations

import ast
import builtins
import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from torchmigrate.base.system import expression_tree
from torchmigrate.syntax.resolver import last_name
from torchmigrate.syntax.scope import children, walk
from torchmigrate.torch_api.backends import types_of
from torchmigrate.torch_api.libraries import has_own_devices
from torchmigrate.torch_api.names import HALVES, canonical
from torchmigrate.worlds import values
from torchmigrate.worlds.external import METHOD, MOVING, External
from torchmigrate.worlds.observations import ASKED, DEATH, HALVED, LOST, NARROWED, REFUSAL, Place, device_of, devices
from torchmigrate.worlds.program import (
    NONE,
    ClassInfo,
    Edits,
    File,
    FunctionInfo,
    Program,
    attribute_chain,
    defaults_of,
    parameters_of,
    remembered,
)
from torchmigrate.worlds.relevance import gives_self
from torchmigrate.worlds.state import Call, Dead, Died, Frame, State, end_of, merged
from torchmigrate.worlds.truth import ATTRIBUTES, Setting, World
from torchmigrate.worlds.values import (
    NOTHING,
    OPEN,
    TENSOR,
    UNKNOWN,
    Atom,
    Const,
    Device,
    Instance,
    Items,
    Module,
    Named,
    Partial,
    Routine,
    Supposed,
    Table,
    Type,
    Unknown,
    Value,
    const,
    join,
    one,
)

HELPER = "accel"
MOST_WORK = 400_000  # expressions of one version in one world


class Expressions(External):
    """Evaluates expressions of one version of the project in one world."""

    def __init__(self, program: Program, setting: Setting, helper: str) -> None:
        super().__init__(setting)
        self.program, self.helper = program, helper
        self.store: dict[tuple[str, ...], Value] = {}  # globals, attributes, parameters, returns
        self.begun: set[str] = set()  # functions and files that this round evaluated, or has begun to
        self.is_stale = False  # something was evaluated with less than this round found out after it
        self._was_read: set[tuple[str, ...]] = set()  # what was read from the store in this round
        self._writes = 0  # how often the store has changed
        self.steps = 0  # statements that were run
        self._came_late = False  # an option was not known where it was read
        self._settling: dict[str, set[str]] = {}  # by option, those that set it anew from what the user said
        # of tests that were asked one way: the state and the store then, and the state in which they come out the other
        self._other_way: dict[ast.expr, tuple[State, int, bool, State | None]] = {}
        self.work = 0

    # what statements add

    def call_function(
        self, info: FunctionInfo, owner: Value | None, args: Sequence[Value], named: Mapping[str, Value], state: State
    ) -> Value:
        raise NotImplementedError

    def body_of(self, file: File) -> None:
        """Evaluate a file's body, if that has not been done."""
        raise NotImplementedError

    def construct(self, info: ClassInfo, args: Sequence[Value], named: Mapping[str, Value], state: State) -> Value:
        raise NotImplementedError

    # the store

    def write(self, key: tuple[str, ...], value: Value) -> None:
        old = self.store.get(key)
        if old is None or not old.holds(value):
            self.store[key] = value if old is None else join(old, value)
            self._came_late = self._came_late or (old is None and key[0] == "option" and key in self._was_read)
            self.is_stale = self.is_stale or key in self._was_read
            self._writes += 1

    def read(self, key: tuple[str, ...]) -> Value | None:
        self._was_read.add(key)
        return self.store.get(key)

    # expressions

    def evaluate(self, node: ast.AST | None, state: State, frame: Frame) -> Value:
        """Return what an expression may be. Raises Dead if nothing after it runs."""
        if node is None:
            return const(None)
        self.work += 1
        if self.work > MOST_WORK:
            raise OverflowError(f"more than {MOST_WORK:,} expressions")
        method = _HANDLERS.get(type(node))
        value: Value = method(self, node, state, frame) if method else self._unknown(node, state, frame)
        edits = frame.file.edits_of(node)
        return value.of(edits) if edits else value

    def _unknown(self, node: ast.AST, state: State, frame: Frame) -> Value:
        for child in children(node):
            if isinstance(child, ast.expr):
                self.evaluate(child, state, frame)
        return UNKNOWN

    def _constant(self, node: ast.Constant, state: State, frame: Frame) -> Value:
        if _is_text_of_cuda(node):
            self.seen.named.add(self.start(node, frame))
        return const(node.value)

    def _name(self, node: ast.Name, state: State, frame: Frame) -> Value:
        found = state.env.get(node.id)
        if found is None:
            return self.lookup(node.id, frame)
        if node.id in frame.file.shared and (anywhere := self.read(("global", frame.file.path, node.id))):
            is_own = node.id in frame.locals.names and not isinstance(frame.info.node, ast.Module)
            return found if is_own else join(found, anywhere)  # functions that were called may have bound it
        return found

    def lookup(self, name: str, frame: Frame) -> Value:
        """Return a name that the frame's variables do not have: an outer function's, the file's, or a builtin."""
        info: FunctionInfo | None = frame.info
        if frame.owner is None and name in frame.locals.names and not isinstance(frame.info.node, ast.Module):
            return UNKNOWN  # bound on another way through the function
        while info is not None and (info := info.outer) is not None:
            if (found := self.read(("local", info.key, name))) is not None:
                return found
        return self.global_of(frame.file, name)

    def global_of(self, file: File, name: str) -> Value:
        if file.body.key not in self.begun:
            self.body_of(file)
        found = self.read(("global", file.path, name))
        if found is not None:
            return found
        if name in file.locals_of(file.tree).names:
            return UNKNOWN
        if name == self.helper:
            return one(Named(HELPER))
        if name == "torch":
            return one(Named(name))  # a star import brings it, perhaps through files that are not read
        return one(Named(f"builtins.{name}")) if hasattr(builtins, name) else UNKNOWN

    def _attribute(self, node: ast.Attribute, state: State, frame: Frame) -> Value:
        chain = attribute_chain(node)
        if chain is not None and (found := state.env.get(chain)) is not None:
            return found
        owner = self.evaluate(node.value, state, frame)
        if node.attr == "device" and frame.file.is_of_a_tensor(node):
            return TENSOR
        if node.attr == "device" and owner == TENSOR and (made := devices(self._told_device(node.value, state, frame))):
            return made
        found = join(*(self.attribute(atom, node.attr, state, frame).of(e) for atom, e in owner.atoms.items()))
        if node.attr == "device" and isinstance(node.value, ast.Subscript) and {*owner} == {Unknown()}:
            found = join(found, TENSOR)  # an item is mostly a tensor, where settings are read by name
        is_half = any(isinstance(atom, Named) and atom.name in HALVES for atom in found)
        if is_half and not frame.file.edits_of(node):
            self.seen.add(HALVED, self.place(node, frame), NOTHING, state.path)
        return found

    def _told_device(self, node: ast.expr, state: State, frame: Frame) -> Value:
        """Return the device at which a call makes a tensor: `torch.zeros(2, device="cuda")`."""
        given = [k.value for k in getattr(node, "keywords", ()) if k.arg == "device"]
        return join(*(self.evaluate(value, state, frame) for value in given))

    def attribute(self, atom: Atom, name: str, state: State, frame: Frame) -> Value:
        match atom:
            case Module(file):
                return self._of_module(file, name)
            case Named(owner):
                full = canonical(f"{owner}.{name}")
                put = self.read(("attribute", owner, name))
                if put:
                    return put
                if full in ATTRIBUTES:
                    return self.ask(World.attribute, full)
                own = self.program.located(frame.file, 0, full)  # in a folder without __init__.py
                return one(Named(full) if own is None else Module(own))
            case Device(kind, index):
                return const({"type": kind, "index": index}.get(name)) if name in ("type", "index") else UNKNOWN
            case Instance(info):
                return self._of_instance(info, atom, name, state)
            case Type(info):
                return self.of_class(info, name) or UNKNOWN
            case Table(items):
                return join(*(v for k, v in items if k.value == name)) or self.of_unknown(name) or UNKNOWN
            case Const() if name == "value":  # of a member of an Enum
                return one(atom)
            case Const() if values.is_supposed(atom) and name not in ("type", "index"):
                return self.of_unknown(name) or UNKNOWN
            case Unknown() if name == "__dict__" and atom in values.MAYBE_PARSED:
                return one(values.BY_NAME)
            case Unknown(of):
                if name == "is_cuda":
                    return join(const(True), const(False)) if self.ask(World.is_cuda) else const(False)
                if of != "tensor" and (known := self.of_unknown(name)) is not None:
                    return known
                if of == "tensor" and name in MOVING:
                    return one(Named(f"{METHOD}{name}"))
                return TENSOR if of == "tensor" else UNKNOWN
        return UNKNOWN

    def _of_module(self, file: File, name: str) -> Value:
        found = self.global_of(file, name)
        if found is UNKNOWN and (sub := self.program.located(file, 1, name)):
            return one(Module(sub))
        return found

    def of_unknown(self, name: str) -> Value | None:
        """Return what is assigned to this attribute of things that the project does not make, or what an option is."""
        found = self.read(("attribute", "*", name))
        option = self.read(("option", name))
        is_settled = bool(found) and self.parsing.get(name, set()) <= self._settling.get(name, set())
        known = [value for value in (found, None if is_settled else option) if value]
        return join(*known) if known else None

    def note_settled(self, name: str, path: str) -> None:
        """Note a file that sets an option anew in any case: `args.gpu = torch.device("cuda" if args.gpu else "cpu")`.

        What reads it in other functions gets that, and not what the user said.
        """
        files = self._settling.setdefault(name, set())
        self.is_stale = self.is_stale or path not in files
        files.add(path)

    def _of_instance(self, info: ClassInfo, atom: Instance, name: str, state: State) -> Value:
        if (method := self.method_of(info, name)) is not None:
            if _is_property(method.node):
                return self.call_function(method, one(atom), (), {}, state)
            return one(Routine(method, one(atom)))
        found = self.read(("attribute", info.key, name))
        if found is None:
            self.prepare(info)
            found = self.read(("attribute", info.key, name))
        is_field = found is not None and self.read(("field", f"{info.key}.__post_init__", name)) is not None
        is_own = is_field or (found is not None and name in self._always_set(info))
        of_class = None if is_own else self.of_class(info, name)
        if found is None and of_class is None:
            return TENSOR if name in ("cuda", "to") else self.of_unknown(name) or UNKNOWN
        return join(*(v for v in (found, of_class) if v is not None))

    def _always_set(self, info: ClassInfo) -> frozenset[str]:
        """Return the attributes that the constructor of a class gives each object, whatever the class itself has."""
        start = self.method_of(info, "__init__")
        return frozenset() if start is None else _set_by(start.node)

    def _is_set_anew(self, atom: Atom, name: str, frame: Frame) -> bool:
        """Return whether a constructor here gives an object what that of a class below it replaces at once."""
        if not isinstance(atom, Instance) or frame.info.name != "__init__":
            return False
        below = itertools.takewhile(lambda kind: kind is not frame.info.owner, self.ancestors(atom.info))
        starts = (kind.methods["__init__"] for kind in below if "__init__" in kind.methods)
        return any(name in _set_after_base(start.node) for start in starts)

    def prepare(self, info: ClassInfo) -> None:
        """Evaluate the constructor of a class that nothing evaluated constructs."""
        raise NotImplementedError

    def of_class(self, info: ClassInfo, name: str) -> Value | None:
        """Return an attribute of a class itself, or of the nearest base class that has it."""
        for kind in self.ancestors(info):
            if (method := kind.methods.get(name)) is not None:
                return one(Routine(method))
            self.body_of(kind.file)
            if (found := self.read(("class", kind.key, name))) is not None:
                return found
        return None

    def method_of(self, info: ClassInfo, name: str, is_inherited: bool = False) -> FunctionInfo | None:
        """Return the method that objects of a class have under a name, or with `is_inherited` what `super()` has."""
        kinds = self.ancestors(info)[int(is_inherited) :]
        return next((kind.methods[name] for kind in kinds if name in kind.methods), None)

    def ancestors(self, info: ClassInfo) -> list[ClassInfo]:
        """Return a class and its base classes in the project, nearest first."""
        found = [info]
        seen = {info}
        for kind in found:
            for base in kind.node.bases:
                for atom in self.base_of(base, kind):
                    if isinstance(atom, Type) and atom.info not in seen:
                        seen.add(atom.info)
                        found.append(atom.info)
        return found

    def is_whole(self, info: ClassInfo) -> bool:
        """Return whether all methods of a class are known: no base class comes from elsewhere, none is made up."""
        made_up = {"__getattr__", "__getattribute__"}
        for kind in self.ancestors(info):
            if made_up & kind.methods.keys() or kind.node.keywords or kind.node.decorator_list:
                return False
            if any(not all(isinstance(a, Type) for a in self.base_of(b, kind)) for b in kind.node.bases):
                return False
        return True

    def base_of(self, node: ast.expr, info: ClassInfo) -> Value:
        """Return what the name of a base class stands for."""
        chain = attribute_chain(node)
        if chain is None:
            return UNKNOWN
        first, *rest = chain.split(".")
        value = self.global_of(info.file, first)
        for name in rest:
            value = join(*(self._in_module(atom, name) for atom in value))
        return value

    def _in_module(self, atom: Atom, name: str) -> Value:
        if isinstance(atom, Module):
            return self._of_module(atom.file, name)
        return one(Named(f"{atom.name}.{name}")) if isinstance(atom, Named) else UNKNOWN

    def library_base(self, info: ClassInfo) -> Value:
        """Return the base class of a class that a library with devices of its own has, or NOTHING."""
        bases = join(*(self.base_of(base, kind) for kind in self.ancestors(info) for base in kind.node.bases))
        return bases.only(a for a in bases if isinstance(a, Named) and has_own_devices(a.name.partition(".")[0]))

    def _joined(self, node: ast.JoinedStr, state: State, frame: Frame) -> Value:
        ways: list[tuple[list[Atom], Edits]] = [([], NONE)]
        for part in node.values:
            inner = part.value if isinstance(part, ast.FormattedValue) else part
            value = self.evaluate(inner, state, frame).of(frame.file.edits_of(part))
            ways = [([*atoms, atom], e | own) for atoms, e in ways for atom, own in value.atoms.items()][
                : values.WIDEST
            ]
        return join(*(one(values.joined_text(atoms), edits) for atoms, edits in ways))

    def _items(self, node: ast.List | ast.Tuple | ast.Set, state: State, frame: Frame) -> Value:
        found: list[Value] = []
        for item in node.elts:
            if isinstance(item, ast.Starred):
                found.append(self.element(self.evaluate(item.value, state, frame)))
            else:
                found.append(self.evaluate(item, state, frame))
        return one(Items(tuple(found)))

    def _table(self, node: ast.Dict, state: State, frame: Frame) -> Value:
        pairs: list[tuple[Const, Value]] = []
        for key, item in zip(node.keys, node.values, strict=True):
            value = self.evaluate(item, state, frame)
            keys = self.evaluate(key, state, frame) if key is not None else NOTHING
            pairs += [(atom, value.of(edits)) for atom, edits in keys.atoms.items() if isinstance(atom, Const)]
        return one(Table(tuple(pairs)))

    def _conditional(self, node: ast.IfExp, state: State, frame: Frame) -> Value:
        found: list[Value] = []
        ends: list[Dead] = []
        for wanted, arm in ((True, node.body), (False, node.orelse)):
            inner = self.refine(node.test, state, frame, wanted)
            if inner is None:
                continue
            try:
                found.append(self.evaluate(arm, inner, frame).of(inner.path - state.path))
            except Dead as end:
                ends.append(end)
        if ends and not found:
            raise end_of(ends)
        return join(*found)

    def _boolean(self, node: ast.BoolOp, state: State, frame: Frame) -> Value:
        """Evaluate `and` and `or`: the right operands only where the left ones let them be reached."""
        stops = isinstance(node.op, ast.Or)
        found: list[Value] = []
        here: State | None = state.copy()
        for at, item in enumerate(node.values):
            if here is None:
                break
            try:
                value = self.evaluate(item, here, frame).of(here.path - state.path)
            except Dead:
                if not any(found):
                    raise
                break
            if at == len(node.values) - 1:
                found.append(value)
            else:
                found.append(value.only(a for a in value if values.truth(a) in (stops, None)))
                here = self.refine(item, here, frame, not stops)
        return join(*found)

    def _unary(self, node: ast.UnaryOp, state: State, frame: Frame) -> Value:
        value = self.evaluate(node.operand, state, frame)
        if not isinstance(node.op, ast.Not):
            signed = isinstance(node.op, ast.USub)
            return join(
                *(
                    const(-a.value if signed else a.value, e)
                    if isinstance(a, Const) and a.type in (int, float)
                    else UNKNOWN
                    for a, e in value.atoms.items()
                )
            )
        found: list[Value] = []
        for atom, edits in value.atoms.items():
            answer = values.truth(atom)
            found += [const(b, edits) for b in ((True, False) if answer is None else (not answer,))]
        return join(*found)

    def _binary(self, node: ast.BinOp, state: State, frame: Frame) -> Value:
        left, right = self.evaluate(node.left, state, frame), self.evaluate(node.right, state, frame)
        pairs = [(a, b, e | f) for a, e in left.atoms.items() for b, f in right.atoms.items()][:64]
        if isinstance(node.op, ast.Mod) and any(isinstance(a, Const) and a.type is str for a, _, _ in pairs):
            texts = ((values.formatted(str(a.value), b) if isinstance(a, Const) else UNKNOWN, e) for a, b, e in pairs)
            return join(*(text.of(edits) for text, edits in texts))
        if zero := values.zero_of(node.op, left, right):
            pairs = [(a, b, e) for a, b, e in pairs if b not in zero]
            self.seen.add(DEATH, self.place(node, frame), zero, state.path | zero.edits, "a division by zero")
            if not pairs:
                raise Died(self.place(node, frame))
        return join(*(one(values.combined(node.op, a, b), edits) for a, b, edits in pairs))

    def _compare(self, node: ast.Compare, state: State, frame: Frame) -> Value:
        nodes = node.left, *node.comparators
        sides = [(side, self.evaluate(side, state, frame)) for side in nodes]
        self.seen.named.difference_update(self.start(text, frame) for text in texts_beside_a_place(node))
        answers: dict[bool | None, Edits] = {True: NONE}
        for op, (first, left), (second, right) in zip(node.ops, sides, sides[1:], strict=False):
            if isinstance(second, ast.Constant) and second.value == "cuda" and frame.file.edits_of(second):
                self.seen.add(NARROWED, self.place(second, frame), left, frame.file.edits_of(second))
            step: dict[bool | None, Edits] = {}
            for a, e in left.atoms.items():
                for b, f in right.atoms.items():
                    answer = values.compared(op, a, b)
                    if answer is None and _asks_for_cuda(op, (first, a), (second, b)) and not self.ask(World.is_cuda):
                        answer = isinstance(op, (ast.NotEq, ast.NotIn))  # no tensor is there
                    own = e | f | (Value({b: f}).edits if isinstance(b, (Items, Table)) else NONE)
                    if answer is True and isinstance(op, ast.Eq) and bool(e) != bool(f):
                        side, known = (second, a) if f else (first, b)
                        self.note_chosen(node, one(known), frame.file.edits_of(side), (state, frame))
                    step[answer] = step.get(answer, NONE) | own
            answers = _both(answers, step)
        found = [const(b, e) for answer, e in answers.items() for b in ((True, False) if answer is None else (answer,))]
        return join(*found)

    def _subscript(self, node: ast.Subscript, state: State, frame: Frame) -> Value:
        owner, key = self.evaluate(node.value, state, frame), self.evaluate(node.slice, state, frame)
        if (known := state.env.get(item_chain(node.value, key))) is not None:
            return known
        found: list[Value] = []
        tables = [atom for atom in owner if isinstance(atom, Table)]
        for atom, edits in owner.atoms.items():
            for at, own in key.atoms.items():
                if self._comes_with_another(at, atom, tables):
                    continue
                inner = state.along(edits | own)
                found.append(self._item(atom, at, node, inner, frame, edits | own).of(edits | own))
        if not any(found) and found:
            raise Dead
        return join(*found)

    def _comes_with_another(self, key: Atom, table: Atom, tables: Sequence[Table]) -> bool:
        """Return whether a key that tells no device is missing in one of several tables, and in another it is not."""
        holding = [each for each in tables if any(key == known for known, _ in each.items)]
        return bool(holding) and table in tables and table not in holding and device_of(key) is None

    def _cut(self, text: str, node: ast.Subscript, state: State, frame: Frame, edits: Edits) -> Value:
        """Return a part of a device's text: `"cuda:0"[:4]`. Nothing takes what it leaves of another type: "xpu:"."""
        match node.slice:
            case ast.Slice(None, ast.Constant(int(end)), None):
                cut = Const(text[:end], str)
                if device_of(cut) is None or cut.value.endswith(":"):
                    self.seen.add(DEATH, self.place(node, frame), one(cut, edits), state.path, f'"{cut.value}"')
                return one(cut)
        return UNKNOWN

    def _item(self, atom: Atom, key: Atom, node: ast.Subscript, state: State, frame: Frame, edits: Edits) -> Value:
        """Return an item; `edits` are those that the table and the key depend on."""
        if isinstance(node.slice, ast.Slice) and isinstance(atom, Const) and device_of(atom) is not None:
            return self._cut(atom.value, node, state, frame, edits)
        if isinstance(atom, Const) and device_of(atom) is not None and isinstance(key, Const) and key.type is int:
            if -len(atom.value) <= key.value < len(atom.value):
                return const(atom.value[key.value])
            words = f'"{atom.value}"[{key.value}]'
            self.seen.add(DEATH, self.place(node, frame), one(atom, edits), state.path, words)
            return NOTHING
        if isinstance(atom, Items):
            if isinstance(key, Const) and key.type in (int, bool):
                at: int = key.value
                return atom.items[at] if -len(atom.items) <= at < len(atom.items) else NOTHING
            return self.element(one(atom))
        if isinstance(atom, Table):
            if isinstance(key, Const):
                hits = [v for k, v in atom.items if k == key]
                is_written = isinstance(node.slice, ast.Constant) and device_of(key) is None  # no edit changes it
                if not hits and atom.items and not is_written:
                    self.seen.add(LOST, self.place(node, frame), one(key, edits), state.path)
                return hits[-1] if hits else NOTHING if atom.items else UNKNOWN
            if isinstance(key, Unknown) and _is_a_type(node.slice) and self._lacks_device(atom):
                self.seen.add(ASKED, self.place(node, frame), const(self.ask(World.kind_or, "")), state.path)
            return join(*(v for _, v in atom.items)) or UNKNOWN
        if isinstance(atom, Named) and atom.name == "os.environ":
            return one(Unknown("user"))
        if isinstance(atom, Const) and atom.value is None and state.path and _is_given_by_call(node.value, frame):
            self.seen.add(REFUSAL, self.place(node, frame), const(True).of(edits), state.path, ast.unparse(node))
            return NOTHING
        if isinstance(atom, Const) and isinstance(atom.value, str) and isinstance(key, Const) and key.type is int:
            return const(atom.value[key.value : key.value + 1 or None])
        if isinstance(atom, Unknown) and isinstance(key, Const):
            return join(self._named(atom, key), self.read(("item", repr(key.value))) or NOTHING)
        return UNKNOWN

    def _named(self, atom: Atom, key: Const) -> Value:
        """Return an item of something that is not followed: of the options of a command line, what the user says."""
        option = self.of_unknown(key.value) if atom == values.BY_NAME and isinstance(key.value, str) else None
        return option or UNKNOWN

    def _lacks_device(self, table: Table) -> bool:
        """Return whether a table has items for CUDA and the CPU, and none for the device that is here."""
        keys = frozenset(key.value for key, _ in table.items)
        return {"cuda", "cpu"} <= keys and self.ask(World.is_none_of, keys)

    def elements(self, value: Value) -> list[tuple[Value, Edits]]:
        """Return the elements of a container one by one; UNKNOWN stands for those of an unknown one."""
        found: list[tuple[Value, Edits]] = []
        for atom, edits in value.atoms.items():
            match atom:
                case Items(items):
                    found += [(item.of(edits), edits) for item in items]
                case Table(items):
                    found += [(one(key, edits), edits) for key, _ in items]
                case _:
                    found.append((UNKNOWN.of(edits) if edits else UNKNOWN, edits))
        return found

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, state: State, frame: Frame) -> Value:
        found: list[Value] = []
        self._each(
            node.generators,
            state.copy(),
            frame,
            lambda s: found.append(self.evaluate(node.elt, s, frame).of(s.path - state.path)),
        )
        return one(Items(tuple(found))) if len(found) <= values.WIDEST else UNKNOWN

    def _each(
        self, generators: Sequence[ast.comprehension], state: State, frame: Frame, body: Callable[[State], None]
    ) -> None:
        if not generators:
            body(state)
            return
        first, *rest = generators
        items = self.elements(self.evaluate(first.iter, state, frame))[: values.WIDEST]
        for item, edits in items:
            start = state.copy().along(edits)
            self.assign(first.target, item, start, frame)
            inner: State | None = start
            for test in first.ifs:
                inner = self.refine(test, inner, frame, True) if inner is not None else None
            if inner is not None:
                self._each(rest, inner, frame, body)

    def _table_of(self, node: ast.DictComp, state: State, frame: Frame) -> Value:
        pairs: list[tuple[Const, Value]] = []

        def add(inner: State) -> None:
            keys, value = self.evaluate(node.key, inner, frame), self.evaluate(node.value, inner, frame)
            pairs.extend((k, value.of(e)) for k, e in keys.atoms.items() if isinstance(k, Const))

        self._each(node.generators, state.copy(), frame, add)
        return one(Table(tuple(pairs)))

    def _lambda(self, node: ast.Lambda, state: State, frame: Frame) -> Value:
        info = frame.file.by_node.get(node)
        self.publish(state, frame)
        if not isinstance(info, FunctionInfo):
            return UNKNOWN
        for name, value in defaults_of(node.args).items():
            self.write(("default", info.key, name), self.evaluate(value, state, frame))
        return one(Routine(info))

    def publish(self, state: State, frame: Frame) -> None:
        """Make a function's variables known to the functions in it."""
        if frame.info.holds_functions:
            for name, value in state.env.items():
                if "." not in name:
                    self.write(("local", frame.info.key, name), value)

    def _walrus(self, node: ast.NamedExpr, state: State, frame: Frame) -> Value:
        value = self.evaluate(node.value, state, frame)
        self.assign(node.target, value, state, frame)
        return value

    def _await(self, node: ast.Await | ast.Starred, state: State, frame: Frame) -> Value:
        return self.evaluate(node.value, state, frame)

    def _yield(self, node: ast.Yield | ast.YieldFrom, state: State, frame: Frame) -> Value:
        value = self.evaluate(node.value, state, frame)
        if isinstance(node, ast.YieldFrom):
            value = self.element(value)
        frame.yields.append(value.of(state.path))
        return UNKNOWN

    def assign(self, target: ast.AST, value: Value, state: State, frame: Frame) -> None:
        """Bind a target to a value, which depends on the edits that let the assignment be reached."""
        if not isinstance(target, ast.Name):
            value = value.of(state.path)
        match target:
            case ast.Name(name):
                self.bind(name, value, state, frame)
            case ast.Attribute(owner, name):
                chain = attribute_chain(target)
                if chain:
                    self._drop(chain, state)
                    state.put(chain, value)
                for atom in self.evaluate(owner, state, frame):
                    if (setter := self._setter_of(atom, name)) is not None:
                        self.call_function(setter, one(atom), (value,), {}, state)
                    elif not self._is_set_anew(atom, name, frame):
                        self.put_attribute(atom, name, value)
            case ast.Tuple(elts) | ast.List(elts):
                for at, item in enumerate(elts):
                    self.assign(item, self._unpacked(value, at, len(elts)), state, frame)
            case ast.Starred(inner):
                self.assign(inner, UNKNOWN, state, frame)
            case ast.Subscript(owner, key):
                self._set_item(owner, self.evaluate(key, state, frame), value, state, frame)

    def _setter_of(self, atom: Atom, name: str) -> FunctionInfo | None:
        """Return what is called where an attribute of an object is assigned, or None."""
        kinds = self.ancestors(atom.info) if isinstance(atom, Instance) else []
        return next((kind.setters[name] for kind in kinds if name in kind.setters), None)

    def put_attribute(self, atom: Atom, name: str, value: Value) -> None:
        """Add what an attribute of one thing may be."""
        match atom:
            case Instance(info):
                self.write(("attribute", info.key, name), value)
            case Type(info):
                self.write(("class", info.key, name), value)
            case Module(file):
                self.write(("global", file.path, name), value)
            case Named(owner):
                self.write(("attribute", owner, name), value)
            case _:
                self.write(("attribute", "*", name), value)

    def bind(self, name: str, value: Value, state: State, frame: Frame) -> None:
        """Bind a name to a value, which depends on the edits that let this be reached."""
        value = value.of(state.path)
        self._drop(name, state)
        state.env[name] = value
        if name in frame.locals.shared:
            self.write(("global", frame.file.path, name), value)
        elif frame.owner is not None:
            self.write(("class", frame.owner.key, name), value)

    def _drop(self, chain: str, state: State) -> None:
        """Forget what is known of the attributes of a variable that gets a new value."""
        if state.is_plain:
            return
        start = chain + "."
        for known in [k for k in state.env if k.startswith(start)]:
            del state.env[known]

    def _unpacked(self, value: Value, at: int, count: int) -> Value:
        found: list[Value] = []
        for atom, edits in value.atoms.items():
            exact = isinstance(atom, Items) and len(atom.items) == count
            found.append(atom.items[at].of(edits) if exact and isinstance(atom, Items) else UNKNOWN.of(edits))
        return join(*found)

    def _set_item(self, owner: ast.expr, key: Value, value: Value, state: State, frame: Frame) -> None:
        chain = attribute_chain(owner)
        if chain is None:
            return
        found: list[Value] = []
        for atom, edits in self.evaluate(owner, state, frame).atoms.items():
            keys = [k for k in key if isinstance(k, Const)]
            if isinstance(atom, Table) and len(keys) == len(key.atoms) == 1:
                rest = tuple(pair for pair in atom.items if pair[0] != keys[0])
                found.append(one(Table((*rest, (keys[0], value))), edits))
            else:
                found.append(one(atom, edits))
        self.rebind(chain, join(*found), state, frame)
        if any(isinstance(atom, Unknown) for each in found for atom in each):
            for item in (k for k in key if isinstance(k, Const)):
                self._put(owner, item, value, state)

    def _put(self, owner: ast.expr, key: Const, value: Value, state: State) -> None:
        """Note an item of something that is not followed."""
        self.write(("item", repr(key.value)), value)
        if name := item_chain(owner, one(key)):
            state.put(name, value)

    def rebind(self, chain: str, value: Value, state: State, frame: Frame) -> None:
        """Give a variable that was changed in place its new value."""
        self.assign(_target(chain), value, state, frame)

    # tests

    def refine(self, test: ast.expr, state: State, frame: Frame, wanted: bool) -> State | None:
        """Return the state in which a test comes out as wanted, or None if it never does."""
        other = self._other_way.pop(test, None)
        if other is not None and other[0] is state and other[1:3] == (self._writes, wanted):
            return other[3]
        ways = self._ways(test, state, frame)
        self._other_way[test] = state, self._writes, not wanted, ways[not wanted]
        return ways[wanted]

    def _ways(self, test: ast.expr, state: State, frame: Frame) -> tuple[State | None, State | None]:
        """Return the states in which a test fails, and in which it holds; None for what never happens."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            fails, holds = self._ways(test.operand, state, frame)
            return holds, fails
        if isinstance(test, ast.BoolOp):
            return self._ways_of_chain(test, state, frame)
        return self._ways_of_leaf(test, state, frame)

    def _ways_of_chain(self, test: ast.BoolOp, state: State, frame: Frame) -> tuple[State | None, State | None]:
        """Refine by `a and b`: all hold; or the first fails, or the first holds and the second fails, and so on."""
        goes_on = isinstance(test.op, ast.And)
        here: State | None = state
        stops: list[State | None] = []
        for item in test.values:
            if here is not None:
                ways = self._ways(item, here, frame)
                stops.append(ways[not goes_on])
                here = ways[goes_on]
        edits = frame.file.edits_of(test)
        found = [merged(stops), here] if goes_on else [here, merged(stops)]
        fails, holds = (way.along(edits) if way is not None and edits else way for way in found)
        return fails, holds

    def _ways_of_leaf(self, test: ast.expr, state: State, frame: Frame) -> tuple[State | None, State | None]:
        if isinstance(test, ast.NamedExpr):
            self.evaluate(test, state, frame)
        chain = self._asked(test, state, frame)
        if chain is None:
            value = self.evaluate(test, state, frame)
            fails, holds = (self._taken(test, value, state, wanted) for wanted in (False, True))
            name = attribute_chain(test) or ""
            if fails is not None and list(value) == [Unknown()] and _is_own(name, state, frame):
                fails.put(name, join(const(False), const(None)).of(value.edits))
                if holds is not None:  # else only the way where it fails knew the name, and merged ways had that value
                    holds.put(name, value)
            return fails, holds
        name, known = chain
        answers: list[tuple[Atom, Edits, bool | None, Edits]] = []
        for atom, edits in known.atoms.items():
            inner = State({**state.env, name: one(atom, edits)}, state.path, doubts=state.doubts | {test})
            found = self.evaluate(test, inner, frame)
            answers += [(atom, edits, values.truth(answer), own) for answer, own in found.atoms.items()]
        fails, holds = (self._narrowed(test, name, answers, state, wanted) for wanted in (False, True))
        return fails, holds

    def _narrowed(
        self,
        test: ast.expr,
        name: str,
        answers: Sequence[tuple[Atom, Edits, bool | None, Edits]],
        state: State,
        wanted: bool,
    ) -> State | None:
        """Return the state in which a chain is only what lets a test come out as wanted."""
        taken = [answer for answer in answers if answer[2] in (wanted, None)]
        if _naming_outcome(test) is wanted:
            named = [answer for answer in taken if answer[0] != Unknown("other")]
            taken = named if any(answer[2] is wanted for answer in named) else taken  # the others are not named
        if not taken:
            return None
        own = state.env.get(name, NOTHING).atoms  # an edit that only reads the variable changes nothing in it
        kept = Value({atom: own.get(atom, edits) for atom, edits, _, _ in taken})
        path = state.path | _leading_here([e | (edits if truth is None else NONE) for _, edits, truth, e in taken])
        is_sure = all(truth is wanted for _, _, truth, _ in answers)
        return State({**state.env, name: kept}, path, doubts=state.doubts if is_sure else state.doubts | {test})

    def _taken(self, test: ast.expr, value: Value, state: State, wanted: bool) -> State | None:
        taken = [(atom, edits) for atom, edits in value.atoms.items() if values.truth(atom) in (wanted, None)]
        if not taken:
            return None
        path = frozenset().union(*(edits for _, edits in taken))
        is_sure = all(values.truth(atom) is wanted for atom in value)
        doubts = state.doubts if is_sure else state.doubts | {test}
        return State(dict(state.env), state.path | path, state.is_plain, doubts)

    def _asked(self, test: ast.expr, state: State, frame: Frame) -> tuple[str, Value] | None:
        """Return a chain in a test whose value may be several things: the test is evaluated for each of them.

        What is unknown is taken for each kind of device that a user may name, if the test is about devices and it
        may not be a tensor.
        """
        about = _is_about_devices(test)
        tensors = _used_as_tensors(frame.info.node) if about else frozenset[str]()
        for node, name in chains_in(test):
            value = self.evaluate(node, state, frame)
            if isinstance(node, ast.Attribute) and node.attr in ("type", "index"):  # the test tells the device
                owner = self.evaluate(node.value, state, frame)
                if any(isinstance(atom, Device) for atom in owner):
                    name, value = name.rpartition(".")[0], owner
            is_open = about and not OPEN.isdisjoint(value) and Unknown("tensor") not in value and name not in tensors
            if is_open and node not in _indices(test):
                value = self._spread(value)
            if len(value.atoms) > 1 and not any(isinstance(a, (Named, Routine, Module)) for a in value):
                return name, value
        return None

    def _spread(self, value: Value) -> Value:
        edits = frozenset().union(*(e for a, e in value.atoms.items() if isinstance(a, Unknown)))
        kinds = dict.fromkeys(("cuda", "cpu", self.ask(World.kind_or, "cpu")))
        others = Value({a: e for a, e in value.atoms.items() if not isinstance(a, Unknown)})
        supposed = (one(Const(Supposed(kind), str), edits) for kind in kinds)
        return join(others, *supposed, one(Unknown("other"), edits))

    # calls

    def _inherited(self, func: ast.expr, state: State, frame: Frame) -> Value | None:
        """Return the method of a base class that `super().name` is, bound to the object; None for anything else."""
        match func:
            case ast.Attribute(ast.Call(ast.Name("super")), name) if (info := frame.info.owner) is not None:
                found, own = self.method_of(info, name, is_inherited=True), frame.info.parameters()
                if found is not None and own:
                    return one(Routine(found, state.env.get(own[0], one(Instance(info)))))
                if name == "__init__":
                    return self.library_base(info) or None
        return None

    def _call(self, node: ast.Call, state: State, frame: Frame) -> Value:
        func = node.func
        owner, inherited = None, self._inherited(func, state, frame)
        if isinstance(func, ast.Attribute) and inherited is None:
            chain = attribute_chain(func)
            known = state.env.get(chain) if chain else None
            owner = self.evaluate(func.value, state, frame) if known is None else None
        args = [self.evaluate(a.value if isinstance(a, ast.Starred) else a, state, frame) for a in node.args]
        if any(isinstance(a, ast.Starred) for a in node.args):
            args = self._spread_arguments(node, args)
        named = {}
        for keyword in node.keywords:
            value = self.evaluate(keyword.value, state, frame).of(frame.file.edits_of(keyword))
            if keyword.arg:
                named[keyword.arg] = value
            else:
                named |= values.items_given((value,), {})
            if keyword.arg is None and values.BY_NAME in value:
                named |= {name: option for name in self.parsing if (option := self.of_unknown(name))}
        call = Call(node, args, named, state, frame)
        if owner is None or not isinstance(func, ast.Attribute):
            return self.apply(inherited or self.evaluate(func, state, frame), call)
        found: list[Value] = []
        ends: list[Dead] = []
        for atom, edits in owner.atoms.items():
            try:
                result = self.method(atom, edits, func, call)
            except Dead as end:
                ends.append(end)
                continue
            found.append(result.of(edits | frame.file.edits_of(func)))
        if ends and len(ends) == len(owner.atoms):
            raise end_of(ends)
        return join(*found)

    def _spread_arguments(self, node: ast.Call, args: list[Value]) -> list[Value]:
        found: list[Value] = []
        for given, value in zip(node.args, args, strict=True):
            counts = {len(a.items) if isinstance(a, Items) else None for a in value}
            count = counts.pop() if len(counts) == 1 else None
            if not isinstance(given, ast.Starred):
                found.append(value)
            elif count is not None:
                found += [self._unpacked(value, at, count) for at in range(count)]
            else:
                found.append(self.element(value))
        return found

    def apply(self, callee: Value, call: Call) -> Value:
        """Call each thing that an expression may be. Raises Dead if none of the calls returns."""
        found: list[Value] = []
        ends: list[Dead] = []
        for atom, edits in callee.atoms.items():
            try:
                if not isinstance(atom, Named):
                    self.hands(call)
                match atom:
                    case Routine(info, owner):
                        result = self.call_function(info, owner, call.args, call.named, call.behind(edits).state)
                    case Partial(function, args, named):
                        given = {**dict(named), **call.named}
                        result = self.apply(function, replace(call, args=(*args, *call.args), named=given))
                    case Type(info):
                        if self.method_of(info, "__init__") is None:
                            self.apply(self.library_base(info), call)
                        result = self.construct(info, call.args, call.named, call.state)
                    case Named(name):
                        result = self.call_external(name, call.behind(edits))
                    case Instance(info):
                        own = self.method_of(info, "__call__")
                        whole = (one(atom), call.args, call.named, call.state)
                        result = self.call_function(own, *whole) if own else UNKNOWN
                    case _:
                        self.hand_over("", call)
                        self.keeps(call)
                        result = TENSOR if atom == Unknown("tensor") else UNKNOWN
            except Dead as end:
                ends.append(end)
                continue
            found.append(result.of(edits))
        if ends and len(ends) == len(callee.atoms):
            raise end_of(ends)
        return join(*found)

    def method(self, atom: Atom, edits: Edits, func: ast.Attribute, call: Call) -> Value:
        """Return the result of a method of one thing."""
        name = func.attr
        match atom:
            case Const(text) if isinstance(text, str):
                return self.of_text(text, name, call.args, call.named)
            case Items() | Table():
                return self._container_method(atom, edits, func, call)
            case Instance(info) if self.method_of(info, name) is None:
                if self.read(("attribute", info.key, name)) is None:
                    if self.is_whole(info) and self.of_class(info, name) is None:
                        self.die(f".{name}()", call)
                    return self.of_tensor(name, call)
            case Type(info) if gives_self(call.node):
                start = self.method_of(info, name)
                told = replace(call, args=call.args[1:])
                return self.apply(one(Routine(start, call.args[0])), told) if start else UNKNOWN
            case values.BY_NAME if name in ("pop", "get") and call.args:
                keys = (key for key in call.args[0] if isinstance(key, Const))
                return join(*(self._named(atom, key) for key in keys)) or UNKNOWN
            case Unknown():
                if name == "update":
                    for key, value in values.items_given(call.args, call.named).items():
                        self._put(func.value, Const(key, str), value.of(call.state.path), call.state)
                if name not in MOVING:
                    self.hands(call)
                return self.of_tensor(name, call)
            case Device():  # taken for its text: what calls a method of a text gets one
                return self.of_text(values.device_text(atom), name, call.args, call.named)
        return self.apply(self.attribute(atom, name, call.state, call.frame), call)

    def _container_method(self, atom: Items | Table, edits: Edits, func: ast.Attribute, call: Call) -> Value:
        chain, args, state = attribute_chain(func.value), call.args, call.state
        new: Atom | None = None
        if isinstance(atom, Table):
            if func.attr == "get" and args:
                keys = [k for k in args[0] if isinstance(k, Const)]
                hits = [v.of(args[0].atoms[k]) for k in keys for key, v in atom.items if key == k]
                default = args[1] if len(args) > 1 else const(None)
                return join(*hits, *([default] if len(hits) < len(args[0].atoms) else []))
            if func.attr == "keys":
                return one(Items(tuple(one(k) for k, _ in atom.items)))
            if func.attr == "values":
                return one(Items(tuple(v for _, v in atom.items)))
            if func.attr == "items":
                return one(Items(tuple(one(Items((one(k), v))) for k, v in atom.items)))
            if func.attr == "update" and chain is not None:
                told = {Const(k, str): v.of(state.path) for k, v in values.items_given(call.args, call.named).items()}
                table = Table(tuple((dict(atom.items) | told).items()))
                old = self.evaluate(func.value, state, call.frame)
                rest = Value({a: e for a, e in old.atoms.items() if a != atom})
                self.rebind(chain, join(rest, one(table, edits)), state, call.frame)
            return UNKNOWN
        if func.attr in ("append", "add") and args:
            new = Items((*atom.items, args[0].of(state.path)))
        elif func.attr == "insert" and len(args) > 1:
            new = Items((args[1].of(state.path), *atom.items))
        elif func.attr in ("extend", "update") and args:
            more = [item.of(state.path) for item, _ in self.elements(args[0])]
            new = Items((*atom.items, *more))
        if new is not None and chain is not None and isinstance(new, Items):
            if len(new.items) > values.WIDEST:
                new = Items((join(*new.items),))
            old = self.evaluate(func.value, state, call.frame)
            rest = Value({a: e for a, e in old.atoms.items() if a != atom})
            self.rebind(chain, join(rest, one(new, edits)), state, call.frame)
        return const(None) if new is not None else UNKNOWN

    def place(self, node: ast.AST, frame: Frame) -> Place:
        """Return where a node ends in the original file: the same in both versions, and for each call of a chain."""
        return frame.file.path, frame.file.original(frame.file.span(node)[1])

    def start(self, node: ast.AST, frame: Frame) -> Place:
        """Return where a node begins in the original file."""
        return frame.file.path, frame.file.original(frame.file.span(node)[0])


def texts_beside_a_place(test: ast.expr) -> list[ast.expr]:
    """Return the texts that a test compares with where a tensor is: "cuda" in `x.device.type == "cuda"`."""
    match test:
        case ast.Compare(left, [ast.Eq() | ast.NotEq()], [right]):
            sides = (left, right), (right, left)
            return [text for text, place in sides if _is_text_of_cuda(text) and is_place(place)]
    return []


def _is_text_of_cuda(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and str(node.value).partition(":")[0] == "cuda"


def item_chain(owner: ast.expr, key: Value) -> str:
    """Return the name under which a state knows an item of something that is not followed, or ""."""
    chain = attribute_chain(owner)
    constants = [k for k in key if isinstance(k, Const)]
    return f"{chain}.[{constants[0].value!r}]" if chain and len(constants) == len(key) == 1 else ""


_KINDS = frozenset(types_of("accelerator"))
_OF_NO_DEVICE = {"clone", "data", "detach", "dim", "dtype", "grad", "numel", "requires_grad", "shape", "size", "view"}


@remembered
def _set_by(node: ast.AST) -> frozenset[str]:
    """Return the attributes that a constructor gives its object in any case."""
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    return _assigned(node.body, next(iter(parameters_of(node.args)), ""))


@remembered
def _set_after_base(node: ast.AST) -> frozenset[str]:
    """Return the attributes that a constructor gives its object in any case once it has called its base class's."""
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    starts = {at for at, each in enumerate(node.body) for call in walk(each) if _constructs_base(call)}
    rest = node.body[max(starts) + 1 :] if starts else []
    return _assigned(rest, next(iter(parameters_of(node.args)), ""))


def _constructs_base(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) == "__init__"


def _assigned(block: Sequence[ast.stmt], own: str) -> frozenset[str]:
    """Return the attributes of an object that a block assigns in any case, if it does not raise."""
    found: set[str] = set()
    for statement in block:
        if any(isinstance(inner, ast.Return) for inner in walk(statement)):
            break
        match statement:
            case ast.If(_, body, orelse):
                arms = [_assigned(arm, own) for arm in (body, orelse) if not (arm and isinstance(arm[-1], ast.Raise))]
                found |= frozenset.intersection(*arms) if arms else frozenset()
            case ast.Assign(targets):
                found.update(last_name(target) for target in targets if _is_of(target, own))
            case ast.AnnAssign(ast.Attribute(_, name) as target, _, ast.expr()) if _is_of(target, own):
                found.add(name)
    return frozenset(found)


def _is_of(target: ast.expr, own: str) -> bool:
    return isinstance(target, ast.Attribute) and attribute_chain(target.value) == own


@remembered
def _is_about_devices(test: ast.AST) -> bool:
    for node in walk(test):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value.partition(":")[0] in _KINDS:
                return True
        elif isinstance(node, ast.Attribute) and node.attr in (
            "is_accelerated",
            "device_type",
            "current_accelerator",
        ):
            return True
    return False


@remembered
def _indices(test: ast.AST) -> frozenset[ast.AST]:
    """Return what stands in texts that begin with a device's type: `i` of `"cuda:" + str(i)`, which is no device."""
    found: set[ast.AST] = set()
    for node in walk(test):
        match node:
            case ast.BinOp(ast.Constant(str(text)), _, inner) | ast.JoinedStr([ast.Constant(str(text)), inner]):
                found.update(walk(inner) if text.partition(":")[0] in _KINDS else ())
            case ast.Call(ast.Name("str"), [ast.Call(ast.Attribute(_, "device"), [inner], [])], []):
                found.update(walk(inner))  # which such a text becomes: `str(accel.device(i))`
    return frozenset(found)


@remembered
def _used_as_tensors(function: ast.AST) -> frozenset[str]:
    """Return the names of which a function reads what devices and their names have not, as `x.dtype`."""
    read = (node for node in walk(function) if isinstance(node, ast.Attribute) and node.attr in _OF_NO_DEVICE)
    return frozenset(name for node in read if (name := attribute_chain(node.value)) is not None)


@remembered
def _is_property(node: ast.AST) -> bool:
    return any("property" in ast.dump(d) for d in getattr(node, "decorator_list", ()))


@remembered
def chains_in(test: ast.AST) -> list[tuple[ast.AST, str]]:
    """Return the chains in a test whose values may decide it."""
    found: list[tuple[ast.AST, str]] = []
    stack: list[ast.AST] = [test]
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.Lambda, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)):
            continue
        name = attribute_chain(node)
        if name is None and isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            name = item_chain(node.value, const(node.slice.value)) or None
        if name is not None:
            found.append((node, name))
        elif isinstance(node, ast.Call):  # of `f(x)` x alone may be several things, of `x.f()` both
            owner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
            stack += [*node.args, *(k.value for k in node.keywords), *owner]
        else:
            stack += children(node)
    return found


@lru_cache(maxsize=1_000)
def _target(chain: str) -> ast.expr:
    return expression_tree(chain)


def _both(first: dict[bool | None, Edits], second: dict[bool | None, Edits]) -> dict[bool | None, Edits]:
    """Return the answers of `a and b` by those of a and of b."""
    found: dict[bool | None, Edits] = {}
    for a, e in first.items():
        for b, f in second.items():
            answer = False if a is False or b is False else None if a is None or b is None else True
            found[answer] = found.get(answer, NONE) | e | f
    return found


_Handler = Callable[..., Value]
_HANDLERS: dict[type[ast.AST], _Handler] = {
    ast.Constant: Expressions._constant,
    ast.Name: Expressions._name,
    ast.Attribute: Expressions._attribute,
    ast.JoinedStr: Expressions._joined,
    ast.List: Expressions._items,
    ast.Tuple: Expressions._items,
    ast.Set: Expressions._items,
    ast.Dict: Expressions._table,
    ast.IfExp: Expressions._conditional,
    ast.BoolOp: Expressions._boolean,
    ast.UnaryOp: Expressions._unary,
    ast.BinOp: Expressions._binary,
    ast.Compare: Expressions._compare,
    ast.Subscript: Expressions._subscript,
    ast.ListComp: Expressions._comprehension,
    ast.SetComp: Expressions._comprehension,
    ast.GeneratorExp: Expressions._comprehension,
    ast.DictComp: Expressions._table_of,
    ast.Lambda: Expressions._lambda,
    ast.NamedExpr: Expressions._walrus,
    ast.Await: Expressions._await,
    ast.Yield: Expressions._yield,
    ast.YieldFrom: Expressions._yield,
    ast.Starred: Expressions._await,
    ast.Call: Expressions._call,
}


def _is_own(name: str, state: State, frame: Frame) -> bool:
    """Return whether what a test tells of a chain is the frame's own: no method sets it, no other function reads it."""
    if name.partition(".")[0] in ("", "self", "cls"):
        return False
    return "." in name or name in state.env or not (frame.is_global or frame.info.holds_functions)


def _asks_for_cuda(op: ast.cmpop, left: tuple[ast.AST, Atom], right: tuple[ast.AST, Atom]) -> bool:
    """Return whether a tensor is asked whether it is on CUDA: `x.device.type == "cuda"`, `"cuda" in str(x.device)`.

    Or `x.type() == "torch.cuda.FloatTensor"`, which no tensor has elsewhere, whatever x is.
    """
    if isinstance(op, (ast.In, ast.NotIn)):
        items = right[1].items if isinstance(right[1], Items) else ()
        if items and _is_typename(left[0]) and all(values.is_type_of_cuda(atom) for item in items for atom in item):
            return True
        sides = [(*right, left[1])]
    else:
        sides = [(*left, right[1]), (*right, left[1])]
        if any(_is_typename(node) and values.is_type_of_cuda(other) for node, _, other in sides):
            return True
    return any(atom == Unknown("tensor") and is_place(node) and _names_cuda(other) for node, atom, other in sides)


@remembered
def _naming_outcome(test: ast.AST) -> bool | None:
    """Return how a test comes out that says which device it was asked about, as `"cuda" in device` does, or None."""
    match test:
        case ast.Compare(ops=[ast.Eq() | ast.In()]) | ast.Call(ast.Attribute(attr="startswith")):
            return True
        case ast.Compare(ops=[ast.NotEq() | ast.NotIn()]):
            return False
    return None


@remembered
def _is_typename(node: ast.AST) -> bool:
    """Return whether an expression is the name of a tensor's type: `x.type()`."""
    match node:
        case ast.Call(ast.Attribute(_, "type"), [], []) | ast.Call(ast.Attribute(_, "typename"), [_], []):
            return True
    return False


def _names_cuda(atom: Atom) -> bool:
    device = device_of(atom)
    return device is not None and device.type == "cuda"


def _is_given_by_call(node: ast.expr, frame: Frame) -> bool:
    """Return whether a value is what a call gives, at once or by a name that holds nothing else."""
    return isinstance(node, ast.Call) or (isinstance(node, ast.Name) and node.id in _given_by_calls(frame.info.node))


@remembered
def _given_by_calls(function: ast.AST) -> set[str]:
    """Return the names in a function that are only assigned to, and only what calls give."""
    stored = Counter(n.id for n in walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    found = Counter(
        n.targets[0].id
        for n in walk(function)
        if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name) and isinstance(n.value, ast.Call)
    )
    taken = {n.arg for n in walk(function) if isinstance(n, ast.arg)}
    return {name for name, count in found.items() if count == stored[name]} - taken


def _is_a_type(node: ast.AST) -> bool:
    """Return whether an expression may be the type of a device: `x.device.type`, `str(x.device)`."""
    return (isinstance(node, ast.Attribute) and node.attr == "type") or is_place(node)


@remembered
def is_place(node: ast.AST) -> bool:
    """Return whether an expression is where a tensor is: `x.device`, its type, or either as text."""
    match node:
        case ast.Attribute(_, "device") | ast.Attribute(ast.Attribute(_, "device"), "type"):
            return True
        case ast.Call(ast.Name("str"), [inner], []):
            return is_place(inner)
    return False


def _leading_here(ways: Sequence[Edits]) -> Edits:
    """Return the edits that let a branch be reached, given those of each value that leads there; one may need none."""
    return NONE.union(*ways) if all(ways) else NONE
