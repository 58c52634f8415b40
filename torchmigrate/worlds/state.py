"""Hold the state of an evaluation: the variables at a place, and the function around it."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import is_not

from torchmigrate.worlds.observations import NO_DOUBT, Doubts, Place
from torchmigrate.worlds.program import NONE, ClassInfo, Edits, File, FunctionInfo, Locals
from torchmigrate.worlds.values import UNKNOWN, Unknown, Value, join


class Dead(Exception):
    """The code evaluated never gets past this place: it dies, refuses, or calls what does."""


class Died(Dead):
    """The code evaluated asks for CUDA where there is none."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place


def end_of(ends: Sequence[Dead]) -> Dead:
    """Return what ends code of which each choice ends: a death if all of them are."""
    return next((end for end in ends if not isinstance(end, Died)), ends[0])


@dataclass(slots=True)
class State:
    """A state has the variables at a place, by chain (`device`, `args.device`), and the edits that lead there."""

    env: dict[str, Value]
    path: Edits = NONE
    is_plain: bool = False  # there is no attribute or item among the variables
    doubts: Doubts = NO_DOUBT  # the tests that lead here and could come out otherwise

    def put(self, chain: str, value: Value) -> None:
        """Note a variable, or an attribute or item of one."""
        self.env[chain] = value
        self.is_plain = self.is_plain and chain.isidentifier()

    def along(self, edits: Edits) -> State:
        """Return the state where these edits let it be reached; it shares the variables."""
        return State(self.env, self.path | edits, doubts=self.doubts)

    def copy(self) -> State:
        return State(dict(self.env), self.path, self.is_plain, self.doubts)

    def doubted(self, test: ast.AST) -> State:
        """Return a copy for what may not be reached, as a test or a loop decides."""
        return State(dict(self.env), self.path, self.is_plain, self.doubts | {test})


@dataclass(slots=True)
class Frame:
    """A frame is one evaluation of a function's body, of a file's or of a class's."""

    info: FunctionInfo
    locals: Locals
    owner: ClassInfo | None = None  # the class whose body this is
    returns: list[Value] = field(default_factory=list)
    yields: list[Value] = field(default_factory=list)
    loops: list[list[State]] = field(default_factory=list)  # for each loop around, the states at its `break`s
    turns: list[list[State]] = field(default_factory=list)  # and at its `continue`s
    depth: int = 0  # of loops
    deaths: dict[ast.stmt, Place] = field(default_factory=dict)  # the statements that end a block by dying, and where
    file: File = field(init=False)
    is_global: bool = field(init=False)  # the variables here are the file's

    def __post_init__(self) -> None:
        self.file = self.info.file
        self.is_global = self.owner is None and isinstance(self.info.node, ast.Module)


@dataclass(slots=True)
class Body:
    """A body is a file being evaluated: the state reached, and what functions have been shown of its variables."""

    file: File
    state: State
    shown: dict[str, Value] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Call:
    """A call is evaluated with its arguments by position and by name."""

    node: ast.Call
    args: Sequence[Value]
    named: Mapping[str, Value]
    state: State
    frame: Frame

    def behind(self, edits: Edits) -> Call:
        """Return this call as it is where these edits let it be reached."""
        if edits <= self.state.path:
            return self
        return Call(self.node, self.args, self.named, self.state.along(edits), self.frame)

    def argument(self, at: int, otherwise: Value) -> Value:
        """Return an argument by position, or `otherwise` if there is none."""
        return self.args[at] if at < len(self.args) else otherwise


def merged(ways: Sequence[State | None]) -> State | None:
    """Return one state for several ways to the same place, or None if there is no way."""
    there = [way for way in ways if way is not None]
    if len(there) <= 1:
        return there[0] if there else None
    first, *others = there
    names: set[str] = set()  # of the variables that are not the same on every way: few of many
    for way in others:
        names.update(compress(first.env, map(is_not, first.env.values(), map(way.env.get, first.env))))
        names |= way.env.keys() - first.env.keys()
    env = dict(first.env)
    for name in names:
        found = [way.env[name] for way in there if name in way.env]
        if len(found) == len(there) or "." not in name:
            env[name] = join(*found)
        elif any(edits and isinstance(atom, Unknown) for value in found for atom, edits in value.atoms.items()):
            env[name] = join(*found, UNKNOWN)  # what it was before is not known, but what it depends on is
        else:
            env.pop(name, None)
    path = frozenset().union(*(way.path for way in there))
    doubts = frozenset.intersection(*(way.doubts for way in there))
    return State(env, path, all(way.is_plain for way in there), doubts)
