"""Evaluate statements, functions and classes in one world."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from torchmigrate.base.system import expression_tree
from torchmigrate.syntax.resolver import SKIP_MARKS, blocks_of, last_name
from torchmigrate.syntax.scope import children, walk
from torchmigrate.torch_api.libraries import RECORDS
from torchmigrate.torch_api.names import turns_half_on
from torchmigrate.worlds import values
from torchmigrate.worlds.expressions import HELPER, Expressions, chains_in, is_place, item_chain, texts_beside_a_place
from torchmigrate.worlds.observations import (
    ANSWER,
    BRANCH,
    DEATH,
    FALLBACK,
    KEPT,
    NO_DOUBT,
    PRECISION,
    REFUSAL,
    Doubts,
    Entry,
    Place,
    devices,
    is_cuda,
)
from torchmigrate.worlds.program import (
    NONE,
    ROUTINES,
    ClassInfo,
    Edits,
    File,
    FunctionInfo,
    Locals,
    Program,
    attribute_chain,
    defaults_of,
    remembered,
)
from torchmigrate.worlds.relevance import ADDS, BINDING, LEAVING, Relevance, leaves
from torchmigrate.worlds.state import Body, Call, Dead, Died, Frame, State, merged
from torchmigrate.worlds.truth import CASTS, Setting, World
from torchmigrate.worlds.values import (
    INDEX,
    NOTHING,
    UNKNOWN,
    Const,
    Instance,
    Module,
    Named,
    Routine,
    Type,
    Unknown,
    Value,
    const,
    join,
    one,
)

_MODULE_MARK = "pytestmark"  # marks all tests of a file
_CATCHING = {"raises", "assertRaises", "assertRaisesRegex", "suppress"}  # contexts that catch what ends their block
_ALWAYS = (*BINDING, *LEAVING)  # statements that run in any case
# Statements that keep the variables of several ways; so many variables take the time of one expression.
_FIXED = (ast.Constant, ast.Name, ast.Compare, ast.cmpop, ast.expr_context)
_COPYING = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.With, ast.AsyncWith, ast.Match)
_COPIED = 25
LONGEST = 4  # passes of a loop that are run one after the other
_NO_LOCALS = Locals(ast.Pass())  # defaults are evaluated around their function
DEEPEST = 12  # calls in calls; what is called beyond them is unknown


class Statements(Expressions):
    """Runs bodies. Each function is evaluated for all its calls together; `imported` are files that others import."""

    def __init__(
        self, program: Program, setting: Setting, helper: str, relevance: Relevance, imported: frozenset[str]
    ) -> None:
        super().__init__(program, setting, helper)
        self.relevance = relevance
        self.imported = imported
        self.results: dict[str, Value | None] = {}  # None: it never returns
        self._came_of: dict[str, Value] = {}  # for each function, what it returned so far
        self.stack: list[str] = []
        self.broken_at: set[ast.Break] = set()  # the `break`s that were evaluated
        self.called: set[str] = set()  # functions that some call led to, in this round or the one before
        self.reached: dict[str, Edits] = {}  # for each function, the edits that let its calls be reached
        self._bodies: list[Body] = []  # of files that are being evaluated, the innermost last
        self._has_started_over = False
        self._at: tuple[ast.stmt, Frame] | None = None  # the statement that is evaluated

    def new_round(self) -> bool:
        """Forget what the last round saw; return whether all is to be found out anew, which happens once."""
        self.begun.clear()
        self.results.clear()
        starts_over = self._came_late and not self._has_started_over
        if starts_over:  # what was made of something unknown in an option's place is forgotten
            self.store = {key: value for key, value in self.store.items() if key[0] == "option"}
            self._came_of.clear()
            self.reached.clear()
            self.called.clear()
            self._has_started_over = True
        self.is_stale = False
        self._was_read.clear()
        self.seen.clear()
        return starts_over

    # functions

    def root(self, info: FunctionInfo) -> None:
        """Evaluate a function that nothing evaluated calls: its parameters are its defaults or anything."""
        if info.key in self.begun:
            return
        kinds = [info.owner, *self._heirs(info, info.owner)] if info.owner else []
        owner = join(*(one(Instance(kind)) for kind in kinds)) if kinds else None
        # of a method that only others' objects are known to be asked for, nobody knows whether it runs
        is_doubted = info.owner is not None and self.seen.is_assumption and info.key not in self.called
        doubts = frozenset([info.node]) if is_doubted else NO_DOUBT
        self.seen.is_test = info.name.startswith("test") and info.key not in self.called
        with contextlib.suppress(Dead):
            self.call_function(info, owner, (), {}, State({}, is_plain=True, doubts=doubts), is_root=True)
        self.seen.is_test = False

    def _heirs(self, info: FunctionInfo, owner: ClassInfo) -> list[ClassInfo]:
        """Return those of a file's classes that inherit a method from the class beside them."""
        kinds = info.file.by_base.get(owner.node.name, ())
        return [kind for kind in kinds if kind is not owner and self.method_of(kind, info.name) is info]

    def call_function(
        self,
        info: FunctionInfo,
        owner: Value | None,
        args: Sequence[Value],
        named: Mapping[str, Value],
        state: State,
        is_root: bool = False,
    ) -> Value:
        if len(self.stack) > DEEPEST or not self.relevance.matters(info.node) or isinstance(info.node, ast.Module):
            return UNKNOWN
        if not is_root and info.key not in self.called:
            self.called.add(info.key)
            self.is_stale = self.is_stale or info.key in self.begun
        self._note_call(info, is_root)
        if not self.stack:
            self._show_globals()
        before = {p: self.store.get(("parameter", info.key, p)) for p in info.parameters()}
        self._bind(info, owner, args, named, state, is_root)
        path = self.reached.get(info.key, NONE) | state.path
        given = {p: self.store.get(("parameter", info.key, p)) for p in info.parameters()}
        # what a result depends on through the arguments is not told apart from what other calls depend on
        through = (path - state.path) & NONE.union(*(value.edits for value in given.values() if value is not None))
        is_known = info.key in self.stack or (given == before and path == self.reached.get(info.key))
        if info.key in self.begun and is_known:
            if info.key not in self.results:
                return UNKNOWN if info.key in self.stack else NOTHING
            result = self.results[info.key]
            if result is None:
                raise Dead
            return result.of(through)
        self.is_stale = self.is_stale or info.key in self.begun
        self.reached[info.key] = path
        self.begun.add(info.key)
        self.stack.append(info.key)
        was_called, self.seen.is_called = self.seen.is_called, not is_root or info.key in self.called
        at = self._at
        try:
            result = self._run(info, path, state.doubts if is_root else NO_DOUBT)
        finally:
            self.stack.pop()
            self.seen.is_called = was_called
            self._at = at
        if result is not None:
            result = self._with_own(info, result, path)
        self.results[info.key] = result
        if result is None:
            raise Dead
        return result.of(through)

    def _with_own(self, info: FunctionInfo, result: Value, path: Edits) -> Value:
        """Return a result with the edits that its atoms came of while those did not yet let a call be reached.

        Inside a function, what it needs to be reached is not told apart from what its own tests depend on.
        """
        known = self._came_of.get(info.key, NOTHING).atoms
        result = Value({atom: edits | (known.get(atom, NONE) & path) for atom, edits in result.atoms.items()})
        self._came_of[info.key] = join(self._came_of.get(info.key, NOTHING), result)
        return result

    def _note_call(self, info: FunctionInfo, is_root: bool) -> None:
        """Note that a function is entered, and by which function's statement."""
        entry = self.seen.entries.get(info.key)
        if entry is None:
            start, end = map(info.file.original, info.file.span(info.node))
            entry = self.seen.entries[info.key] = Entry(((info.file.path, start), end))
        if is_root and self.seen.is_test:
            self.seen.tests.add(entry.span)
        if is_root or self._at is None:
            entry.callers.add(None)
        else:
            statement, frame = self._at
            entry.callers.add((frame.info.key, self.place(statement, frame)))

    def is_parameter(self, word: str) -> bool:
        return word in self.relevance.parameters

    def _bind(
        self,
        info: FunctionInfo,
        owner: Value | None,
        args: Sequence[Value],
        named: Mapping[str, Value],
        state: State,
        is_root: bool,
    ) -> None:
        """Add the arguments of one call to what the parameters may be."""
        assert not isinstance(info.node, ast.Module)
        spec = info.node.args
        names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
        is_static = any(attribute_chain(d) == "staticmethod" for d in getattr(info.node, "decorator_list", ()))
        given = list(args) if is_static or info.owner is None else [owner or UNKNOWN, *args]
        bound = dict(zip(names, given, strict=False)) | {k: v for k, v in named.items() if k in info.parameters()}
        defaults = defaults_of(spec)
        frame = Frame(info, _NO_LOCALS)
        for name in info.parameters():
            value = bound.get(name)
            if value is None:
                value = self._default(info, name, defaults.get(name), frame)
                if is_root:
                    value = join(value, one(Unknown("user")))
            self.write(("parameter", info.key, name), value)
        for extra, kind in ((spec.vararg, "rest"), (spec.kwarg, "options")):
            if extra is None:
                continue
            more = given[len(names) :] if kind == "rest" else []
            options = [(values.Const(k, str), v) for k, v in named.items() if k not in info.parameters()]
            whole = one(values.Items(tuple(more))) if kind == "rest" else one(values.Table(tuple(options)))
            self.write(("parameter", info.key, extra.arg), whole if not is_root else UNKNOWN)

    def _default(self, info: FunctionInfo, name: str, node: ast.expr | None, frame: Frame) -> Value:
        """Return a parameter's default as its definition found it, if that was run."""
        known = self.read(("default", info.key, name))
        return known if known is not None else UNKNOWN if node is None else self.evaluate(node, State({}), frame)

    def _run(self, info: FunctionInfo, path: Edits, doubts: Doubts) -> Value | None:
        """Return what a function returns, or None if it never does."""
        assert not isinstance(info.node, ast.Module)
        frame = Frame(info, info.file.locals_of(info.node))
        names = [*info.parameters(), *(a.arg for a in (info.node.args.vararg, info.node.args.kwarg) if a)]
        given = {n: self.read(("parameter", info.key, n)) for n in names}
        env = {n: UNKNOWN if value is None else value for n, value in given.items()}
        state: State | None = State(env, path, True, doubts)
        state = self._decorated(info, state, frame)
        if state is None:
            return NOTHING
        if isinstance(info.node, ast.Lambda):
            try:
                return self.evaluate(info.node.body, state, frame).of(state.path - path)
            except Dead:
                return None
        fields = [key[2] for key in self.store if key[:2] == ("field", info.key)] if _fills(info) else []
        self.is_stale = self.is_stale or bool(fields)
        for name in fields:
            state.put(f"{names[0]}.{name}", self.store["field", info.key, name])
        end = self.block(info.node.body, state, frame)
        if fields and info.owner is not None:
            for name in fields:
                here = None if end is None or frame.returns else end.env.get(f"{names[0]}.{name}")
                self.write(("attribute", info.owner.key, name), here or self.store["field", info.key, name])
        if frame.locals.yields:
            few = 0 < len(frame.yields) <= values.WIDEST
            result: Value | None = one(values.Items(tuple(frame.yields))) if few else UNKNOWN
        elif end is not None:
            result = join(*frame.returns, const(None, end.path - path))
        else:
            result = join(*frame.returns) if frame.returns else None
        if result is not None and _names_cuda(info.name) and not info.name.startswith("test"):
            self.seen.add(ANSWER, self.place(info.node, frame), result, NONE, info.name)
        return result

    def _decorated(self, info: FunctionInfo, state: State | None, frame: Frame) -> State | None:
        """Return the state in which a test's body runs, after its skips and parameters."""
        outer = Frame(info.file.body, info.file.locals_of(info.file.tree))
        around = info.owner.node.decorator_list if info.owner else []
        decorators = [*around, *getattr(info.node, "decorator_list", ())]
        known = self._of_owner(info, decorators)
        if state is not None and known:
            state = State(state.env | known, state.path, doubts=state.doubts)
        is_test = info.name.startswith("test")
        if state is not None and is_test and _MODULE_MARK in info.file.locals_of(info.file.tree).names:
            state = _unskipped(self.global_of(info.file, _MODULE_MARK), state)
        for node in decorators:
            if state is None:
                return None
            name = (attribute_chain(getattr(node, "func", node)) or "").rpartition(".")[2]
            if isinstance(node, ast.Call) and name in SKIP_MARKS and node.args:
                state = self.refine(node.args[0], state, outer, name == "skipUnless")
            elif isinstance(node, ast.Call) and name == "parametrize" and len(node.args) > 1:
                self._parametrize(node, state, outer)
            elif is_test and isinstance(node, (ast.Name, ast.Call)):
                state = _unskipped(self.evaluate(node, state, outer), state)
        if state is not None and known:
            state = State({n: v for n, v in state.env.items() if n not in known}, state.path, doubts=state.doubts)
        return state

    def _of_owner(self, info: FunctionInfo, decorators: Sequence[ast.expr]) -> dict[str, Value]:
        """Return what decorators read of the class around a method, which the method itself does not see."""
        read = {n.id for d in decorators for n in walk(d) if isinstance(n, ast.Name)} - {*info.parameters()}
        found = {name: self.of_class(info.owner, name) for name in sorted(read)} if info.owner else {}
        return {name: value for name, value in found.items() if value is not None}

    def _parametrize(self, node: ast.Call, state: State, frame: Frame) -> None:
        names = self.evaluate(node.args[0], state, frame)
        words = [str(a.value) for a in names if isinstance(a, values.Const)]
        parts = [part.strip() for word in words for part in word.split(",")]
        given = node.args[1].elts if isinstance(node.args[1], (ast.List, ast.Tuple)) else None
        items = (
            [self._parameter(item, state, frame) for item in given]
            if given
            else [item for item, _ in self.elements(self.evaluate(node.args[1], state, frame))]
        )
        for at, part in enumerate(parts):
            state.env[part] = join(*(self._unpacked(i, at, len(parts)) if len(parts) > 1 else i for i in items))

    def _parameter(self, node: ast.expr, state: State, frame: Frame) -> Value:
        """Return a parameter of a test; of `pytest.param(x, marks=skipif(...))` only where it is not skipped."""
        if not (isinstance(node, ast.Call) and (attribute_chain(node.func) or "").endswith(".param") and node.args):
            return self.evaluate(node, state, frame)
        inner: State | None = state
        for keyword in node.keywords:
            for mark in walk(keyword.value):
                is_skip = isinstance(mark, ast.Call) and (attribute_chain(mark.func) or "").endswith("skipif")
                if is_skip and inner is not None and isinstance(mark, ast.Call) and mark.args:
                    inner = self.refine(mark.args[0], inner, frame, False)
                elif isinstance(mark, ast.Name) and inner is not None:
                    inner = _unskipped(self.evaluate(mark, inner, frame), inner)
        return self.evaluate(node.args[0], inner, frame).of(inner.path - state.path) if inner is not None else NOTHING

    def body_of(self, file: File) -> None:
        key = file.body.key
        if key in self.begun or not self.relevance.has_read(file):
            return  # what lies outside the group is unknown
        self.begun.add(key)
        self._show_globals()
        frame = Frame(file.body, file.locals_of(file.tree))
        state = State({}, is_plain=True)
        stack, self.stack = self.stack, []
        self._bodies.append(Body(file, state))
        self.block(file.tree.body, state, frame)
        self._show_globals()
        self._bodies.pop()
        self.stack = stack

    def _show_globals(self) -> None:
        """Let functions see what the variables of the files that are being evaluated are now."""
        for body in self._bodies:
            for name, value in body.state.env.items():
                if body.shown.get(name) is not value and "." not in name:
                    body.shown[name] = value
                    self.write(("global", body.file.path, name), value)

    # classes

    def construct(self, info: ClassInfo, args: Sequence[Value], named: Mapping[str, Value], state: State) -> Value:
        made = one(Instance(info))
        if (start := self.method_of(info, "__init__")) is not None:
            self.call_function(start, made, args, named, state)
            return made
        if self._is_record(info):
            for word, value in values.items_given(args, named).items():
                self.write(("attribute", info.key, word), value)
            return made
        fields = [
            n.target.id for n in info.node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
        ]
        given = {**dict(zip(fields, args, strict=False)), **named}
        after = info.methods.get("__post_init__")
        if after is not None:
            self._fill(
                after, {n: v for n in fields if (v := given.pop(n, None) or self.of_class(info, n))}, made, state
            )
        for name, value in given.items():
            self.write(("attribute", info.key, name), value)
        return made

    def _is_record(self, info: ClassInfo) -> bool:
        """Return whether the objects of a class are tables, whose items are taken for attributes."""
        bases = (atom for kind in self.ancestors(info) for base in kind.node.bases for atom in self.base_of(base, kind))
        return any(isinstance(atom, Named) and (atom.name == "builtins.dict" or atom.name in RECORDS) for atom in bases)

    def _fill(self, after: FunctionInfo, fields: Mapping[str, Value], made: Value, state: State) -> None:
        """Give an object of a dataclass its fields, and then what its `__post_init__` makes of them."""
        for name, value in fields.items():
            self.write(("field", after.key, name), value)
        self.call_function(after, made, (), {}, state)

    def prepare(self, info: ClassInfo) -> None:
        start = self.method_of(info, "__init__")
        if start is not None and start.key not in self.begun:
            self.root(start)

    # statements

    def block(self, body: Sequence[ast.stmt], state: State | None, frame: Frame) -> State | None:
        """Run statements; return the state after them, or None if no way leads there."""
        for statement in body:
            if state is None:
                return None
            if isinstance(statement, _COPYING):
                self.work += len(state.env) // _COPIED
            matters = statement in self.relevance.relevant or isinstance(statement, _ALWAYS)
            if not matters or (isinstance(statement, ast.If) and _asks_for_main(statement)):
                if statement not in self.relevance.holding and statement not in self.relevance.binding:
                    if _returns(statement):
                        frame.returns.append(UNKNOWN.of(state.path))
                    if isinstance(statement, ast.Assign):
                        _forget_modules(statement, state)
                    continue
                state = self._around(statement, state, frame)
            else:
                state = self._in_block(statement, body, state, frame)
            if state is None and (death := frame.deaths.get(statement)) is not None:
                self.seen.cut[death] = max(self.seen.cut.get(death, 0), self.place(body[-1], frame)[1])
        return state

    def _in_block(self, statement: ast.stmt, body: Sequence[ast.stmt], state: State, frame: Frame) -> State | None:
        """Run one statement of a block; return the state after it, or None if no way leads past it."""
        self._at = statement, frame
        self.steps += 1
        if frame.is_global:
            self._bodies[-1].state = state
        try:
            after = self.statement(statement, state, frame)
            self.seen.go_past(statement)
        except Dead as end:
            if isinstance(end, Died):
                frame.deaths[statement] = end.place
            start = self.start(statement, frame)
            self.seen.stop(statement, start, self.place(body[-1], frame)[1])
            after = None
        if after is None and _refuses(statement):
            self.seen.shut[self._past(statement, frame)] = self.place(body[-1], frame)[1]
        return after

    def _past(self, refusal: ast.stmt, frame: Frame) -> Place:
        """Return where what a refusal lets pass begins: its other branch, or what follows."""
        if isinstance(refusal, ast.If) and refusal.orelse:
            return self.start(refusal.orelse[0], frame)
        return self.place(refusal, frame)

    def _around(self, node: ast.stmt, state: State, frame: Frame) -> State | None:
        """Run the blocks of a statement whose own test, loop or context is about nothing that matters."""
        if isinstance(node, ast.Try):
            return self._try(node, state, frame)
        if isinstance(node, ast.While) and isinstance(node.test, ast.Constant):
            return self._turned(node, state, frame)  # its body runs in any case
        if isinstance(node, (ast.With, ast.AsyncWith)):
            return self._within(node, state, frame)
        if isinstance(node, ast.For) and _has_a_turn(node):
            return self._for(node, state, frame)
        ways: list[State | None] = []
        deaths: list[Place] = []
        if isinstance(node, ast.Match):
            ways = [state, *(self.block(case.body, state.doubted(node), frame) for case in node.cases)]
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            broken: list[State] = []
            ways = [state, self._loop(node.body, state.doubted(node), frame, lambda s: None, broken), *broken]
        elif isinstance(node, ast.If):
            holds = self._is_known(node.test, state, frame)
            given = None if holds else _given_by(node.test)  # the test may tell that a value is not None
            inner = _without_none(state.copy() if holds is True else state.doubted(node), given)
            body = (
                self._main(node, state, frame)
                if _asks_for_main(node)
                else inner and self.block(node.body, inner, frame)
            )
            ways = [body, self.block(node.orelse, state.copy() if holds is False else state.doubted(node), frame)]
            deaths = [d for body in (node.body, node.orelse) if (d := _death(body, frame)) is not None]
        after = merged(ways)
        if after is None and len(deaths) == len(ways):
            frame.deaths[node] = deaths[0]
        if after is not None and ways.count(None) == len(deaths):
            after.doubts = state.doubts  # who does not come here has died
        return after

    def _is_known(self, test: ast.expr, state: State, frame: Frame) -> bool | None:
        """Return how a test of constants and names alone comes out, or None where that is unknown."""
        if not all(isinstance(n, _FIXED) for n in walk(test)):
            return None
        answers = {values.truth(atom) for atom in self.evaluate(test, state, frame)}
        return answers.pop() if len(answers) == 1 else None

    def _main(self, node: ast.If, state: State, frame: Frame) -> State | None:
        """Evaluate what a file does as a program. If others import it, where this ends, their program goes on."""
        was_test = self.seen.is_test
        if frame.file.path in self.imported and not was_test:
            self.seen.is_test = True
            start, end = map(frame.file.original, frame.file.span(node))
            self.seen.tests.add(((frame.file.path, start), end))
        after = self.block(node.body, state.copy(), frame)
        self.seen.is_test = was_test
        return after

    def statement(self, node: ast.stmt, state: State, frame: Frame) -> State | None:
        handler = _HANDLERS.get(type(node))
        if handler is None:
            for child in children(node):
                if isinstance(child, ast.expr):
                    self.evaluate(child, state, frame)
            return state
        return handler(self, node, state, frame)

    def _expression(self, node: ast.Expr, state: State, frame: Frame) -> State | None:
        self.evaluate(node.value, state, frame)
        return state

    def _assign(self, node: ast.Assign, state: State, frame: Frame) -> State | None:
        value = self._set(node, self.evaluate(node.value, state, frame))
        self._keeps(value, node.value, state, frame)
        for target in node.targets:
            self._turns_half_on(target, value, state, frame)
            self.assign(target, value, state, frame)
        if (option := _settled(node)) and node in getattr(frame.info.node, "body", ()) and _is_decided(value):
            self.note_settled(option, frame.file.path)
        return state

    def _set(self, node: ast.AST, value: Value) -> Value:
        """Return what a statement sets: a user may change a setting at the head of a file, a number to another one."""
        if node not in self.relevance.settings or not self.setting.changes_settings():
            return value
        is_number = all(isinstance(a, Const) and type(a.value) is int for a in value)
        return one(INDEX) if is_number else UNKNOWN

    def _turns_half_on(self, target: ast.expr, value: Value, state: State, frame: Frame) -> None:
        """Note a flag whose name says that it turns half precision on."""
        name = (attribute_chain(target) or "").rpartition(".")[2]
        flags = value.only(a for a in value if isinstance(a, values.Const) and a.type is bool)
        if flags and turns_half_on(name):
            self.seen.add(PRECISION, self.place(target, frame), flags, state.path, name)

    def _keeps(self, value: Value, node: ast.expr, state: State, frame: Frame) -> None:
        """Note a device of CUDA that is stored or returned where there is no CUDA."""
        kept = devices(value)
        if is_cuda(kept) and not self.ask(World.is_cuda):
            self.seen.add(KEPT, self.place(node, frame), kept, state.path)

    def _annotated(self, node: ast.AnnAssign, state: State, frame: Frame) -> State | None:
        if node.value is not None:
            value = self._set(node, self.evaluate(node.value, state, frame))
            if isinstance(node.value, ast.Call) and (attribute_chain(node.value.func) or "").endswith("field"):
                value = self._field(node.value, state, frame)
            self._turns_half_on(node.target, value, state, frame)
            self.assign(node.target, value, state, frame)
        return state

    def _field(self, call: ast.Call, state: State, frame: Frame) -> Value:
        """Return the default of a field of a dataclass."""
        for keyword in call.keywords:
            if keyword.arg == "default":
                return self.evaluate(keyword.value, state, frame)
            if keyword.arg == "default_factory":
                return self.apply(self.evaluate(keyword.value, state, frame), Call(call, (), {}, state, frame))
        return UNKNOWN

    def _augmented(self, node: ast.AugAssign, state: State, frame: Frame) -> State | None:
        value = self.evaluate(_sum_of(node), state, frame)
        self._turns_half_on(node.target, value, state, frame)
        self.assign(node.target, value, state, frame)
        return state

    def _return(self, node: ast.Return, state: State, frame: Frame) -> State | None:
        matters = node in self.relevance.relevant or isinstance(node.value, ast.Constant)
        value = self.evaluate(node.value, state, frame) if matters else UNKNOWN
        if node.value is None:
            value = const(None)
        else:
            self._keeps(value, node.value, state, frame)
        frame.returns.append(value.of(state.path - self.reached.get(frame.info.key, NONE)))
        self.publish(state, frame)
        return None

    def _raise(self, node: ast.Raise, state: State, frame: Frame) -> State | None:
        words = ast.unparse(node.exc) if node.exc else ""
        refused = _refused(node.exc, state) if node.exc else const(True)
        self.seen.add(REFUSAL, self.place(node, frame), refused, state.path, words, state.doubts)
        raise Dead

    def _assert(self, node: ast.Assert, state: State, frame: Frame) -> State | None:
        failing = self.refine(node.test, state, frame, False)
        agrees = failing is not None and self._agrees(node.test, state, frame)
        if failing is not None and not agrees and not self._tests_a_result(node, state, failing, frame):
            words = ast.unparse(node.msg) if node.msg else ""
            refused = _refused(node.test, failing)
            place = self.place(node.test, frame)
            self.seen.add(REFUSAL, place, refused, failing.path, words, failing.doubts)
            self.seen.ends.setdefault((place, False), set()).add(place)
            if _divides(node.test):
                self.seen.divided.add(place)
        passing = self.refine(node.test, state, frame, True)
        self.seen.named.update(self.start(text, frame) for text in texts_beside_a_place(node.test))
        if passing is None:
            raise Dead
        return passing

    def _agrees(self, test: ast.expr, state: State, frame: Frame) -> bool:
        """Return whether a test compares the devices of two objects, of which the same is known: one move took both."""
        match test:
            case ast.Compare(ast.Attribute(_, "device") as left, [ast.Eq()], [ast.Attribute(_, "device") as right]):
                return self.evaluate(left, state, frame) == self.evaluate(right, state, frame)
        return False

    def _tests_a_result(self, node: ast.Assert, state: State, failing: State, frame: Frame) -> bool:
        """Return whether a test function asserts what no device decides, as `x.sum() == 2` is: it refuses no device."""
        passing = self.refine(node.test, state, frame, True) if frame.info.name.startswith("test") else None
        names = [name for _, name in chains_in(node.test)]
        return passing is not None and (
            all(failing.env.get(name) == passing.env.get(name) for name in names)
            or self._asks_an_unknown_place(node.test, state, frame)
        )

    def _asks_an_unknown_place(self, test: ast.expr, state: State, frame: Frame) -> bool:
        """Return whether a test compares where a tensor is, which is not known: `out.device.type == "cuda"`."""
        match test:
            case ast.Compare(asked, [ast.Eq()], [_]) if is_place(asked):
                pass
            case ast.Call(func, [asked], []) if Named(f"{HELPER}.is_accelerated") in self.evaluate(func, state, frame):
                pass
            case _:
                return False
        return all(isinstance(atom, Unknown) for atom in self.evaluate(asked, state, frame))

    def _if(self, node: ast.If, state: State, frame: Frame) -> State | None:
        ways: list[State | None] = []
        deaths: list[Place | None] = []
        outcomes: dict[bool, Edits] = {}
        test_edits = NONE
        is_inserted = frame.file.is_inserted(node)
        numbers = frozenset(self.seen.numbers)
        if _divides(node.test):
            refusals = (statement for statement in (*node.body, *node.orelse) if isinstance(statement, ast.Raise))
            self.seen.divided.update(self.place(statement, frame) for statement in refusals)
        self.seen.counted.update(self.place(test, frame) for test in _asks_for_as_many(node))
        for wanted, body in ((True, node.body), (False, node.orelse)):
            inner = self.refine(node.test, state, frame, wanted)
            if inner is None:
                continue
            if is_inserted:  # where it does not come to run, nothing changed
                inner = inner.copy()
                inner.path = state.path
            outcomes[wanted] = inner.path - state.path
            test_edits |= inner.path - state.path
            ways.append(self.block(body, inner.copy(), frame))
            deaths.append(_death(body, frame))
            self._ended(node, wanted, deaths[-1], frame)
        if True not in outcomes and test_edits and _asks_for_several(node.test):
            self.seen.spare[self.start(node.body[0], frame)] = self.place(node.body[-1], frame)[1]
        if isinstance(node.body[-1], ast.Raise) and not node.orelse:
            self.seen.numbers &= numbers  # one accelerator leads on from here, too
        answers = Value({values.Const(b, bool): e for b, e in outcomes.items()})
        if not _only_falls_back(node):  # which device it leaves is seen where that is used
            place = self.place(node.test, frame)
            words, refuses = _refusal_of(node)
            self.seen.add(BRANCH, place, answers, NONE, words, state.doubts)
            self.seen.refuses[place] = refuses
            if (flag := attribute_chain(node.test)) is not None:
                self.seen.flags[place] = frame.info.key, flag
        elif True in outcomes or test_edits:
            chosen = [self.evaluate(_loaded(target), state, frame) for _, target in _bound_in(node)]
            asked = [value.only(atom for atom in value if isinstance(atom, values.Unknown)) for value in chosen]
            left = [devices(self._told(_loaded(target), ways, frame)) for _, target in _bound_in(node)]
            self.seen.add(FALLBACK, self.place(node.test, frame), join(answers, *asked, *left), NONE)
        after = merged(ways)
        if after is None:
            if deaths and deaths[0] and all(deaths):
                frame.deaths[node] = deaths[0]
            return None
        if all(way is not None for way in ways):
            after.path = after.path - (test_edits - state.path) if not _leaves(node) else after.path
        if all(way is not None or died for way, died in zip(ways, deaths, strict=True)):
            after.doubts = state.doubts  # who does not come here has died
        if test_edits:  # what the arms bind depends on the test, also where an arm is not taken
            self._depend(node, test_edits, after, frame)
        self._settle(node, after, frame)
        return after

    def _told(self, node: ast.expr, ways: Sequence[State | None], frame: Frame) -> Value:
        """Return what an expression is on several ways, but for what it is only supposed to be."""
        found = join(*(self.evaluate(node, way, frame).of(way.path) for way in ways if way is not None))
        return found.only(atom for atom in found if not values.is_supposed(atom))

    def _settle(self, node: ast.If, state: State, frame: Frame) -> None:
        """Note what a test leaves of an option everywhere: `if args.cuda and not torch.cuda.is_available(): exit()`."""
        for _, chain in chains_in(node.test) if node in getattr(frame.info.node, "body", ()) else ():
            name = chain.rpartition(".")[2]
            if name in self.parsing and _is_flag(value := state.env.get(chain, NOTHING)):
                self.write(("attribute", "*", name), value)
                self.note_settled(name, frame.file.path)

    def _ended(self, node: ast.If, wanted: bool, death: Place | None, frame: Frame) -> None:
        """Note how a branch ended, and where the other one stands."""
        key, other = (self.place(node.test, frame), wanted), node.orelse if wanted else node.body
        self.seen.ends.setdefault(key, set()).add(death)
        if death and other:
            self.seen.beside[key] = self.start(other[0], frame)[1], self.place(other[-1], frame)[1]

    def _depend(self, node: ast.stmt, edits: Edits, after: State, frame: Frame) -> None:
        """Let what a statement's blocks bind depend on edits: a table that is followed does so as a whole."""
        for name, target in _bound_in(node):
            known = after.env.get(name)
            if known is None and isinstance(target, ast.Subscript):
                owner = self.evaluate(_loaded(target.value), after, frame)
                if any(isinstance(atom, values.Table) for atom in owner):  # it may lack the item, and nothing asks
                    name, known = attribute_chain(target.value) or name, owner
            if known is None:
                known = self.evaluate(_loaded(target), after, frame)
            value = known.of(edits)
            after.put(name, value)
            self._keep_for_others(target, value, after, frame)

    def _keep_for_others(self, target: ast.expr, value: Value, state: State, frame: Frame) -> None:
        """Note what an attribute or item of something that is not followed may be, for other functions that read it."""
        owner = getattr(target, "value", None)
        if owner is None or Unknown() not in self.evaluate(_loaded(owner), state, frame):
            return
        if isinstance(target, ast.Attribute):
            self.put_attribute(Unknown(), target.attr, value)
        elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
            self.write(("item", repr(target.slice.value)), value)

    def _while(self, node: ast.While, state: State, frame: Frame) -> State | None:
        after = self._turned(node, state, frame)
        entered = [way.path for wanted in (True, False) if (way := self.refine(node.test, state, frame, wanted))]
        test_edits = NONE.union(*entered) - state.path
        if after is not None and test_edits:  # how often the body runs depends on the test
            self._depend(node, test_edits, after, frame)
        return after

    def _turned(self, node: ast.While, state: State, frame: Frame) -> State | None:
        here: State | None = state
        broken: list[State] = []
        for _ in range(LONGEST):  # as long as the test is certain, one pass after the other
            assert here is not None
            inner, left = (self.refine(node.test, here, frame, wanted) for wanted in (True, False))
            if inner is None:
                return merged([self.block(node.orelse, here if left is None else left, frame), *broken])
            if left is not None or isinstance(node.test, ast.Constant):
                break
            here = self._pass(node.body, inner, frame, broken)
            if here is None:
                return merged(broken)
        else:
            inner = here
        assert inner is not None and here is not None
        end = self._loop(node.body, inner, frame, lambda s: None, broken)
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        if endless:
            unseen = any(isinstance(n, ast.Break) and n not in self.broken_at for n in walk(node))
            return merged([end, inner, *broken] if unseen else broken)
        return merged([self.block(node.orelse, merged([here, end]), frame), *broken])

    def _for(self, node: ast.For | ast.AsyncFor, state: State, frame: Frame) -> State | None:
        iterable = self.evaluate(node.iter, state, frame)
        items = self.elements(iterable)
        if not items:
            return self.block(node.orelse, state, frame)
        edits = frozenset().union(*(own for _, own in items)) - state.path  # those that let the loop have elements
        inner = state.copy().along(edits)
        broken: list[State] = []
        end: State | None = inner
        if len(iterable) == 1 and isinstance(next(iter(iterable)), values.Items) and len(items) <= LONGEST:
            for item, _ in items:
                if end is not None:
                    self.assign(node.target, item, end, frame)
                    end = self._pass(node.body, end, frame, broken)
        else:
            value = join(*(item for item, _ in items))
            end = self._loop(node.body, inner, frame, lambda s: self.assign(node.target, value, s, frame), broken)
            end = merged([state, end])
        if end is not None and not any(leaves(n) for s in node.body for n in walk(s)):
            end.path -= edits
        return merged([self.block(node.orelse, end, frame), *broken])

    def _pass(self, body: Sequence[ast.stmt], state: State, frame: Frame, broken: list[State]) -> State | None:
        """Run a loop's body once; the states at its `break`s are added to `broken`."""
        frame.loops.append([])
        frame.turns.append([])
        end = self.block(body, state.copy(), frame)
        broken += frame.loops.pop()
        return merged([end, *frame.turns.pop()])

    def _loop(
        self,
        body: Sequence[ast.stmt],
        state: State,
        frame: Frame,
        start: Callable[[State], None],
        broken: list[State],
    ) -> State | None:
        """Run a loop's body twice, so that what one pass binds reaches the next; inner loops once."""
        frame.depth += 1
        end: State | None = state
        for _ in range(2 if frame.depth == 1 else 1):
            here = merged([state, end])
            assert here is not None
            here = here.copy()
            start(here)
            end = self._pass(body, here, frame, broken)
        frame.depth -= 1
        return end

    def _with(self, node: ast.With | ast.AsyncWith, state: State, frame: Frame) -> State | None:
        suppresses = False
        for item in node.items:
            value = self.evaluate(item.context_expr, state, frame)
            suppresses = suppresses or _suppresses(item.context_expr)
            if item.optional_vars is not None:
                held = (
                    self.element(one(a, e)) if isinstance(a, values.Items) else one(a, e)
                    for a, e in value.atoms.items()
                )
                self.assign(item.optional_vars, join(*held), state, frame)  # of a generator, what it yields
        end = self._within(node, state.copy(), frame)
        return merged([state, end]) if suppresses else end

    def _within(self, node: ast.With | ast.AsyncWith, state: State, frame: Frame) -> State | None:
        """Run the body of a `with`: where it dies, the statement does, unless its context catches that."""
        if any(
            isinstance(i.context_expr, ast.Call) and last_name(i.context_expr.func) in _CATCHING for i in node.items
        ):
            mark = len(self.seen.found)
            end = self.block(node.body, state.copy(), frame)
            for key in self.seen.since(mark, (DEATH, REFUSAL)):
                self.seen.catch(key)
            return merged([state, end])
        end = self.block(node.body, state, frame)
        if end is None and (death := _death(node.body, frame)):
            frame.deaths[node] = death
        return end

    def _try(self, node: ast.Try, state: State, frame: Frame) -> State | None:
        """Run a body and its handlers. What dies in a body is caught, unless they are all for what no device raises.

        A handler to which nothing leads but a call that may raise refuses nothing: without it, the call's own exception
        would end the program.
        """
        mark = len(self.seen.found)
        end = self.block(node.body, state.copy(), frame)
        catches = not all(map(_is_for_others, node.handlers))
        caught = self.seen.since(mark, (DEATH, REFUSAL)) if catches else []
        edits: Edits = NONE
        if catches:  # whether the body dies depends on what was rewritten in it
            edits = edits.union(*(frame.file.edits_of(n) for s in node.body for n in walk(s)))
        for key in caught:
            edits |= self.seen.edits(*key)
            self.seen.catch(key)
        ways = [self.block(node.orelse, end, frame) if end is not None else None]
        start = merged([state, end]) if end is not None else state.copy()
        assert start is not None
        if caught or end is None or _may_raise(node):
            for handler in node.handlers:
                inner = start.copy()
                inner.path |= edits
                if handler.name:
                    inner.env[handler.name] = UNKNOWN
                mark = len(self.seen.found)
                ways.append(self.block(handler.body, inner, frame))
                for key in self.seen.since(mark, (REFUSAL,)) if not caught and end is not None else ():
                    self.seen.forget(key)
        after = merged(ways)
        if after is not None and edits:
            for name, _ in _bound_in(node):
                if name in after.env:
                    after.env[name] = after.env[name].of(edits)
        if node.finalbody:
            final = self.block(node.finalbody, after if after is not None else start, frame)
            after = final if after is not None else None
        return after

    def _match(self, node: ast.Match, state: State, frame: Frame) -> State | None:
        ways: list[State | None] = []
        rest: State | None = state
        edits = NONE
        for case, test in zip(node.cases, _tests_of(node), strict=True):
            if rest is None:
                break
            here = rest.copy()
            for name, value in _captures(case.pattern, node.subject):
                self.bind(name, UNKNOWN if value is None else self.evaluate(value, here, frame), here, frame)
            if test is None:  # a pattern that is not followed
                taken: State | None = here.doubted(case)
                rest = rest.doubted(case)
            else:
                taken, rest = self.refine(test, here, frame, True), self.refine(test, here, frame, False)
            if taken is not None:
                edits |= taken.path - state.path
                ways.append(self.block(case.body, taken.copy(), frame))
        after = merged([*ways, rest])
        if after is not None and edits:  # what the arms bind depends on the tests, also where an arm is not taken
            self._depend(node, edits, after, frame)
        return after

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, state: State, frame: Frame) -> State | None:
        info = frame.file.by_node.get(node)
        if isinstance(info, FunctionInfo):
            for name, value in defaults_of(node.args).items():
                self.write(("default", info.key, name), self.evaluate(value, state, frame))
            for call in (d for d in node.decorator_list if isinstance(d, ast.Call)):
                if any(isinstance(a, Named) and a.name in CASTS for a in self.evaluate(call.func, state, frame)):
                    self.evaluate(call, state, frame)
            if frame.owner is None:
                self.bind(node.name, self._wrapped(info, state, frame), state, frame)
            self.publish(state, frame)
        return state

    def _wrapped(self, info: FunctionInfo, state: State, frame: Frame) -> Value:
        """Return a function as the project's own decorators leave it."""
        value = one(Routine(info))
        for node in reversed(getattr(info.node, "decorator_list", ())):
            if attribute_chain(node) is not None:
                wrapper = self.evaluate(node, state, frame)
                if len(wrapper) == 1 and isinstance(next(iter(wrapper)), Routine):
                    call = ast.copy_location(ast.Call(node, [], []), node)
                    made = self.apply(wrapper, Call(call, (value,), {}, state, frame))
                    value = made if any(isinstance(a, Routine) for a in made) else value
        return value

    def _class(self, node: ast.ClassDef, state: State, frame: Frame) -> State | None:
        info = frame.file.by_node.get(node)
        if isinstance(info, ClassInfo):
            inner = Frame(frame.info, frame.file.locals_of(node), owner=info)
            self.block(node.body, state.copy(), inner)
            self.bind(node.name, one(Type(info)), state, frame)
        return state

    def _import(self, node: ast.Import, state: State, frame: Frame) -> State | None:
        for alias in node.names:
            target = self.program.located(frame.file, 0, alias.name)
            if target is None and self.ask(World.lacks, alias.name):
                raise Dead
            if alias.name.rpartition(".")[2] == self.helper or alias.name == "torchmigrate.runtime":
                value = one(Named(HELPER))
            elif target is not None:
                first = alias.name.partition(".")[0]
                top = target if alias.asname else self.program.located(frame.file, 0, first)
                value = one(Module(top) if top is not None else Named(first))  # a folder without __init__.py
            else:
                value = one(Named(alias.name if alias.asname else alias.name.partition(".")[0]))
            self.bind(alias.asname or alias.name.partition(".")[0], value, state, frame)
        return state

    def _from(self, node: ast.ImportFrom, state: State, frame: Frame) -> State | None:
        path = self.program.path_of(frame.file, node.level, node.module or "")
        home = self.program.file(path) if path and self.relevance.has_read_path(path) else None
        if path is None and self.ask(World.lacks, node.module or ""):
            raise Dead
        for alias in node.names:
            if alias.name == "*":
                if home is not None and home is not frame.file:
                    self.body_of(home)
                    self.work += len(home.locals_of(home.tree).names)
                    for name in home.locals_of(home.tree).names:
                        if (found := self.read(("global", home.path, name))) is not None:
                            self.bind(name, found, state, frame)
                continue
            value = self._imported(node, alias.name, home, path is not None, frame)
            self.bind(alias.asname or alias.name, value, state, frame)
        return state

    def _imported(self, node: ast.ImportFrom, name: str, home: File | None, is_own: bool, frame: Frame) -> Value:
        """Return what an import binds; `home` is the file of the group that it imports from."""
        if name == self.helper or node.module == "torchmigrate.runtime":
            return one(Named(HELPER))
        if (node.module or "").rpartition(".")[2] == self.helper:
            return one(Named(f"{HELPER}.{name}"))
        module = ".".join(part for part in (node.module or "", name) if part)
        sub = self.program.located(frame.file, node.level, module)
        if home is not None:
            found = self.global_of(home, name)
            return one(Module(sub)) if sub is not None and found is UNKNOWN else found
        if sub is not None:
            return one(Module(sub))
        if is_own or (node.module or "").partition(".")[0] in self.program.index.own_folders:
            return UNKNOWN  # what lies outside the group, or is gone
        return one(Named(f"{node.module}.{name}")) if node.module and not node.level else UNKNOWN

    def _continue(self, node: ast.Continue, state: State, frame: Frame) -> State | None:
        if frame.turns:
            frame.turns[-1].append(state)
        return None

    def _break(self, node: ast.Break, state: State, frame: Frame) -> State | None:
        self.broken_at.add(node)
        if frame.loops:
            frame.loops[-1].append(state)
        return None

    def _delete(self, node: ast.Delete, state: State, frame: Frame) -> State | None:
        for target in node.targets:
            if (chain := attribute_chain(target)) is not None:
                state.env.pop(chain, None)
        return state


@remembered
def _sum_of(node: ast.AST) -> ast.expr:
    """Return what `x += y` assigns to x."""
    assert isinstance(node, ast.AugAssign)
    return ast.copy_location(ast.BinOp(_loaded(node.target), node.op, node.value), node)


@remembered
def _divides(test: ast.AST) -> bool:
    """Return whether a test asks for a remainder: `batch_size % count == 0`."""
    return any(isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) for node in ast.walk(test))


@remembered
def _asks_for_as_many(node: ast.AST) -> list[ast.expr]:
    """Return the tests that refuse more devices than there are, where the other branch refuses any at all.

    `if cuda: assert n <= torch.cuda.device_count()`, `else: assert n == 0`
    """
    assert isinstance(node, ast.If)
    found: list[ast.expr] = []
    for body, other in ((node.body, node.orelse), (node.orelse, node.body)):
        none = {ast.dump(wanted) for s in other if isinstance(s, ast.Assert) and (wanted := _none_of(s.test))}
        for test in (s.test for s in body if isinstance(s, ast.Assert)):
            match test:
                case ast.Compare(left, [ast.LtE()], [ast.Call(func, [], [])]) if last_name(func) == "device_count":
                    found += [test] if ast.dump(left) in none else []
    return found


@remembered
def _asks_for_several(test: ast.AST) -> bool:
    """Return whether a test asks for more than one of something: `torch.cuda.device_count() > 1`."""
    return any(
        isinstance(node, ast.Compare)
        and isinstance(node.ops[0], (ast.Gt, ast.GtE, ast.NotEq))
        and isinstance(number := node.comparators[0], ast.Constant)
        and number.value in ((2,) if isinstance(node.ops[0], ast.GtE) else (1,))
        for node in walk(test)
    )


def _none_of(test: ast.expr) -> ast.expr | None:
    """Return what a test wants to be 0: n of `n == 0` and of `not n`."""
    match test:
        case ast.Compare(left, [ast.Eq()], [ast.Constant(0)]) | ast.UnaryOp(ast.Not(), left):
            return left
    return None


@remembered
def _loaded(target: ast.AST) -> ast.expr:
    """Return a target of an assignment as it is read."""
    return ast.copy_location(expression_tree(ast.unparse(target)), target)


def _names_cuda(name: str) -> bool:
    return not {"cuda", "nvidia"}.isdisjoint(name.lower().split("_"))


def _refuses(statement: ast.stmt) -> bool:
    """Return whether a statement that nothing gets past is a refusal: `assert cuda`, `if not cuda: raise ...`."""
    return isinstance(statement, ast.Assert) or (
        isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Raise)
    )


def _is_flag(value: Value) -> bool:
    """Return whether a value is known to be true or false, also as a number: `int(torch.cuda.is_available())`."""
    return bool(value) and all(isinstance(atom, values.Const) and atom.value in (0, 1) for atom in value)


def _is_decided(value: Value) -> bool:
    """Return whether a value is a flag, or nothing but devices."""
    return _is_flag(value) or (bool(value) and all(isinstance(atom, values.Device) for atom in value))


@remembered
def _settled(node: ast.AST) -> str:
    """Return the attribute that an assignment sets from what it was before, or ""."""
    match node:
        case ast.Assign([ast.Attribute(_, name) as target], value):
            chain = attribute_chain(target)
            before = (inner for inner in walk(value) if isinstance(inner, ast.Attribute) and inner.attr == name)
            return name if chain and any(attribute_chain(inner) == chain for inner in before) else ""
    return ""


def _unskipped(value: Value, state: State) -> State | None:
    """Return the state of a test under a mark, or a list of marks, that does not skip it, or None if it always does."""
    listed = [item for atom in value for item in (atom.items if isinstance(atom, values.Items) else ())]
    here: State | None = state
    for each in (value, *listed):
        marks = {atom: edits for atom, edits in each.atoms.items() if isinstance(atom, values.Mark)}
        runs = marks.get(values.Mark(False))
        if here is None or not marks:
            continue
        is_known = len(marks) == len(each.atoms)
        if runs is None and is_known:
            return None
        path = NONE.union(*(edits for atom, edits in each.atoms.items() if atom != values.Mark(True)))
        doubts = here.doubts | frozenset(marks) if len(each.atoms) > 1 else here.doubts
        here = State(dict(here.env), here.path | path, here.is_plain, doubts)
    return here


def _fills(info: FunctionInfo) -> bool:
    return info.name == "__post_init__" and info.owner is not None and bool(info.parameters())


@remembered
def _leaves(node: ast.AST) -> bool:
    """Return whether a way through an `if` ends the block."""
    return any(leaves(n) for block in blocks_of(node) for s in block for n in walk(s))


@remembered
def _asks_for_main(node: ast.AST) -> bool:
    """Return whether an `if` holds what a file does as a program."""
    assert isinstance(node, ast.If)
    return any(isinstance(n, ast.Name) and n.id == "__name__" for n in walk(node.test))


def _refused(named: ast.expr, state: State) -> Value:
    """Return what a refusal is about: the devices, or others, that the variables in its test or its message are."""
    found = [state.env.get(name, NOTHING) for _, name in chains_in(named)]
    others = (value.only([Unknown("other")]) for value in found)
    return join(const(True), *map(devices, found), *others)


def _death(body: Sequence[ast.stmt], frame: Frame) -> Place | None:
    """Return where a block that was run last died, or None."""
    return next((frame.deaths.pop(s) for s in body if s in frame.deaths), None)


@remembered
def _has_a_turn(node: ast.AST) -> bool:
    """Return whether a loop over what is written out runs at least once: `for _ in range(3)`, `for x in (a, b)`."""
    match node:
        case ast.For(_, ast.List([_, *_]) | ast.Tuple([_, *_])):
            return True
        case ast.For(_, ast.Call(ast.Name("range"), [*ends], [])) if ends:
            numbers = [end.value for end in ends if isinstance(end, ast.Constant) and type(end.value) is int]
            return len(numbers) == len(ends) < 3 and len(range(*numbers)) > 0
    return False


def _forget_modules(statement: ast.Assign, state: State) -> None:
    """Let names that imports bound hold something unknown, as a statement that does not matter binds them anew."""
    for target in statement.targets:
        value = state.env.get(target.id) if isinstance(target, ast.Name) else None
        if isinstance(target, ast.Name) and value and any(isinstance(atom, Module) for atom in value):
            state.env[target.id] = UNKNOWN


@remembered
def _returns(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Return) for n in walk(node))


# what no device, and no refusal of one, raises
_OF_OTHERS = {"KeyboardInterrupt", "GeneratorExit", "StopIteration", "StopAsyncIteration", "EOFError"}


@remembered
def _is_for_others(handler: ast.AST) -> bool:
    """Return whether a handler is for what no device raises: `except KeyboardInterrupt` around a training loop."""
    assert isinstance(handler, ast.ExceptHandler)
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return all(kind is not None and last_name(kind) in _OF_OTHERS for kind in kinds)


@remembered
def _may_raise(node: ast.AST) -> bool:
    """Return whether the body of a `try` holds anything whose outcome is not known: an import, a call."""
    body = next(iter(blocks_of(node)))
    return any(isinstance(n, (ast.Import, ast.ImportFrom, ast.Call, ast.Subscript)) for s in body for n in walk(s))


@remembered
def _suppresses(node: ast.AST) -> bool:
    """Return whether a context ends exceptions, as `suppress` and `raises` do."""
    words = ast.dump(node)
    return "suppress" in words or "raises" in words


@remembered
def _refusal_of(node: ast.AST) -> tuple[str, bool]:
    """Return the words with which a branch refuses to run, or "", and the outcome of the test that leads there."""
    for outcome, body in ((True, getattr(node, "body", [])), (False, getattr(node, "orelse", []))):
        for at, statement in enumerate(body):
            if isinstance(statement, (ast.Raise, ast.Expr)) and leaves(statement):
                before = (each for said in body[:at] for each in ast.walk(said))
                texts = [n.value for n in before if isinstance(n, ast.Constant) and isinstance(n.value, str)]
                return " ".join([*texts, ast.unparse(statement)]), outcome
    return "", True


def _given_by(test: ast.expr) -> str | None:
    """Return the chain that is not None where a test holds: of `x is not None`, or `x`."""
    match test:
        case ast.Compare(left, [ast.IsNot()], [ast.Constant(None)]):
            return attribute_chain(left)
    return attribute_chain(test)


def _without_none(state: State, chain: str | None) -> State | None:
    """Return a state in which a chain is not None, or None where it is nothing else."""
    value = state.env.get(chain or "", NOTHING)
    none = Const(None, type(None))
    if none not in value:
        return state
    known = value.only(atom for atom in value if atom != none)
    return State({**state.env, chain or "": known}, state.path, state.is_plain, state.doubts) if known else None


@remembered
def _only_falls_back(node: ast.AST) -> bool:
    """Return whether all that an `if` does is to choose the CPU."""
    assert isinstance(node, ast.If)
    return not node.orelse and all(isinstance(s, ast.Assign) and _is_cpu(s.value) for s in node.body)


def _is_cpu(node: ast.expr) -> bool:
    """Return whether an expression is `"cpu"` or `torch.device("cpu")`."""
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        return attribute_chain(node.func) in ("torch.device", "device") and _is_cpu(node.args[0])
    return isinstance(node, ast.Constant) and node.value == "cpu"


@remembered
def _bound_in(node: ast.AST) -> tuple[tuple[str, ast.expr], ...]:
    """Return the chains that a statement's blocks bind, with their targets; those of functions in it excepted."""
    return tuple(_bindings(node))


def _bindings(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    stack: list[ast.AST] = list(children(node))
    while stack:
        inner = stack.pop()
        if isinstance(inner, (*ROUTINES, ast.ClassDef)):
            if not isinstance(inner, ast.Lambda):
                yield inner.name, ast.Name(inner.name, ast.Load())
            continue
        if isinstance(inner, ast.alias):
            name = inner.asname or inner.name.partition(".")[0]
            yield name, ast.Name(name, ast.Load())
        if isinstance(inner, (ast.Name, ast.Attribute)) and isinstance(inner.ctx, ast.Store):
            if (chain := attribute_chain(inner)) is not None:
                yield chain, inner
        elif isinstance(inner, ast.Subscript) and isinstance(inner.ctx, ast.Store):
            if isinstance(inner.slice, ast.Constant) and (chain := item_chain(inner.value, const(inner.slice.value))):
                yield chain, inner
        elif (
            isinstance(inner, ast.Call)
            and isinstance(inner.func, ast.Attribute)
            and inner.func.attr in ADDS
            and (chain := attribute_chain(inner.func.value)) is not None
        ):
            yield chain, inner.func.value
            for word in (k.arg for k in inner.keywords if k.arg and inner.func.attr == "update"):
                item = ast.Subscript(inner.func.value, ast.Constant(word), ast.Load())
                yield item_chain(inner.func.value, const(word)), item
        stack += children(inner)


@remembered
def _tests_of(node: ast.AST) -> list[ast.expr | None]:
    """Return what decides on each case of a `match`, with its guard, or None where the pattern is not followed."""
    assert isinstance(node, ast.Match)
    found: list[ast.expr | None] = []
    for case in node.cases:
        test = _test_of(case.pattern, node.subject)
        if test is not None and case.guard is not None:
            test = ast.copy_location(ast.BoolOp(ast.And(), [test, case.guard]), case.guard)
        found.append(test)
    return found


def _test_of(pattern: ast.pattern, subject: ast.expr) -> ast.expr | None:
    """Return a pattern as a comparison, which is true where it always matches, or None if it is not followed."""
    match pattern:
        case ast.MatchValue(value):
            test: ast.expr = ast.Compare(subject, [ast.Eq()], [value])
        case ast.MatchSingleton(constant):
            test = ast.Compare(subject, [ast.Is()], [ast.copy_location(ast.Constant(constant), pattern)])
        case ast.MatchOr(patterns):
            return _combined(ast.Or(), [_test_of(p, subject) for p in patterns], subject)
        case ast.MatchAs(None, _):
            test = ast.Constant(True)
        case ast.MatchAs(inner, _) if inner is not None:
            return _test_of(inner, subject)
        case ast.MatchSequence(patterns) if pairs := _paired(patterns, subject):
            return _combined(ast.And(), [_test_of(p, item) for p, item in pairs], subject)
        case _:
            return None
    return ast.copy_location(test, subject)


def _paired(patterns: Sequence[ast.pattern], subject: ast.expr) -> list[tuple[ast.pattern, ast.expr]]:
    """Return the patterns of a sequence with the parts of a subject that is written out: `match (a, b)`."""
    items = subject.elts if isinstance(subject, (ast.Tuple, ast.List)) else []
    starred = any(isinstance(each, (ast.Starred, ast.MatchStar)) for each in (*items, *patterns))
    return list(zip(patterns, items, strict=True)) if len(items) == len(patterns) and not starred else []


def _combined(op: ast.boolop, tests: Sequence[ast.expr | None], subject: ast.expr) -> ast.expr | None:
    known = [test for test in tests if test is not None]
    return ast.copy_location(ast.BoolOp(op, known), subject) if len(known) == len(tests) else None


def _captures(pattern: ast.pattern, subject: ast.expr) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the names that a pattern binds, with what they are bound to, or None where that is not followed."""
    match pattern:
        case ast.MatchAs(inner, name):
            if name is not None:
                yield name, subject
            if inner is not None:
                yield from _captures(inner, subject)
        case ast.MatchSequence(patterns) if pairs := _paired(patterns, subject):
            for each, item in pairs:
                yield from _captures(each, item)
        case ast.MatchOr(patterns):
            for each in patterns:
                yield from _captures(each, subject)
        case _:
            bound = (getattr(n, "name", None) or getattr(n, "rest", None) for n in ast.walk(pattern))
            yield from ((name, None) for name in bound if name)


_HANDLERS: dict[type[ast.stmt], Callable[..., State | None]] = {
    ast.Expr: Statements._expression,
    ast.Assign: Statements._assign,
    ast.AnnAssign: Statements._annotated,
    ast.AugAssign: Statements._augmented,
    ast.Return: Statements._return,
    ast.Raise: Statements._raise,
    ast.Assert: Statements._assert,
    ast.If: Statements._if,
    ast.While: Statements._while,
    ast.For: Statements._for,
    ast.AsyncFor: Statements._for,
    ast.With: Statements._with,
    ast.AsyncWith: Statements._with,
    ast.Try: Statements._try,
    ast.TryStar: Statements._try,
    ast.Match: Statements._match,
    ast.FunctionDef: Statements._function,
    ast.AsyncFunctionDef: Statements._function,
    ast.ClassDef: Statements._class,
    ast.Import: Statements._import,
    ast.ImportFrom: Statements._from,
    ast.Break: Statements._break,
    ast.Continue: Statements._continue,
    ast.Delete: Statements._delete,
}
