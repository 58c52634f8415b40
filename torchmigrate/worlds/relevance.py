"""Find the statements of a group of files that matter to decisions about devices; evaluations skip all others."""

from __future__ import annotations

import ast
import bisect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

from torchmigrate.project.import_graph import SETTER
from torchmigrate.source.edits import Edit, Span
from torchmigrate.syntax.resolver import SKIP_MARKS, attribute_chain, blocks_of, chain_of, last_name, leading_chain
from torchmigrate.syntax.scope import children, walk
from torchmigrate.torch_api.backends import types_of
from torchmigrate.torch_api.libraries import BUILT_ON_TORCH, CHOOSING, FOREIGN, arguments, has_own_devices
from torchmigrate.torch_api.names import DTYPE_WORDS, MOVING_METHODS
from torchmigrate.worlds.program import File, defaults_of, is_setter, name_of_call, parameters_of, remembered
from torchmigrate.worlds.truth import SCALERS, WORDS_OF_CUDA

# words that are about devices wherever they stand
_ABOUT = {
    "cuda",
    "cudnn",
    "accel",
    "accelerator",
    "nccl",
    "is_cuda",
    "nvidia",
    *WORDS_OF_CUDA,
    *(name.rpartition(".")[2] for name in SCALERS),
    *types_of("accelerator"),
    *types_of("ladder"),
}
# methods that give tensors and modules, whatever they are told
_MOVES = {"to", "cuda", "cpu", "type", "detach", "clone", "float", "half", "item"}
_ARRAYS = BUILT_ON_TORCH | {"numpy"}
# arguments by which libraries that are built on torch are told a device by its name
_TOLD = {word for library in BUILT_ON_TORCH for word, kind in arguments(library).items() if kind == "name"}
# and those of libraries with devices of their own, by names, numbers or flags
_TOLD_TO_OTHERS = {word for library in FOREIGN for word in arguments(library)}
_OF_TENSORS = {"device", "type", "index", "dtype"}  # attributes that any tensor has
# methods that change a container in place
ADDS = {"append", "add", "insert", "extend", "update", "setdefault"}
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
BINDING = (*_SCOPES, ast.Import, ast.ImportFrom)
LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_EXITS = {"exit", "quit", "_exit"}  # `sys.exit("no GPU")` refuses as `raise` does
_OPTIONS = {"add_argument", "add_option"}
_ASKING = (*_OPTIONS, "environ", "getenv")
_BY_NAME = ("vars", "__dict__")  # what makes a table of the options
_SETTER = SETTER.decode()
MOST_OF_A_NAME = 8  # functions of one name: both versions of four
Statement = ast.stmt


@dataclass(frozen=True, eq=False)
class _Place:
    """A place says where a statement stands: the file, and the function with its names, which keeps variables apart."""

    file: File
    name: str = ""  # what is called to get here: a function, or a class for its constructor
    key: str = ""
    locals: frozenset[str] = frozenset()
    outer: _Place | None = None
    owner: str = ""  # the class around it
    bases: frozenset[str] = frozenset()  # and the classes that this one inherits from

    def names_called(self, call: ast.Call) -> frozenset[str]:
        """Return the name of what a call calls; for `super().__init__()` and `Base.__init__(self)` those of classes."""
        match call.func:
            case ast.Attribute(ast.Call(ast.Name("super")), "__init__"):
                return self.bases
            case ast.Attribute(ast.Name() | ast.Attribute() as base, "__init__") if last_name(base) in self.bases:
                return frozenset([last_name(base)])
        return frozenset([last_name(call.func)])

    def token(self, name: str) -> str:
        """Return a word for a variable: a local one's is its function's own."""
        place: _Place | None = self
        while place is not None:
            if name in place.locals:
                return f"{name}@{place.key}"
            place = place.outer
        return name


@dataclass(frozen=True, eq=False, slots=True)
class _Row:
    """A row is a statement, with the words in it and the last names of what it calls."""

    node: Statement
    place: _Place
    words: frozenset[str]
    called: frozenset[str]


class _Outline:
    """The outline has the facts of one file that relevance asks for, collected once."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.rows: list[_Row] = []
        self.around: dict[ast.AST, ast.AST] = {}
        self.binding: set[ast.AST] = set()  # compound statements around imports and definitions
        self.parameters: list[tuple[str, list[str], str, list[str]]] = []  # name, parameters, key, `*rest` and `**rest`
        self.setters: list[tuple[str, list[str], str]] = []  # of properties: name, parameters, key
        self.aliases: list[tuple[str, str]] = []
        self.classes: set[str] = set()
        self._collect(file.tree, file.tree.body, _Place(file), "")
        self.arrays = set(_imported(self.rows, _ARRAYS.__contains__))
        self.makers = set(_imported(self.rows, has_own_devices))
        self.choosing = set(_imported(self.rows, CHOOSING.__contains__))
        self.by_word: dict[str, list[_Row]] = {}
        for row in self.rows:
            for word in row.words:
                self.by_word.setdefault(word, []).append(row)
        for row in self.rows:
            up = self.around[row.node] if isinstance(row.node, BINDING) else None
            while up is not None and not isinstance(up, (*_SCOPES, ast.Module)) and up not in self.binding:
                self.binding.add(up)
                up = self.around.get(up)

    @cached_property
    def by_node(self) -> dict[ast.AST, _Row]:
        return {row.node: row for row in self.rows}

    @cached_property
    def spans(self) -> list[tuple[int, int, int]]:
        """Return where each statement begins and ends, and its number: the outer ones before those in them."""
        spans = ((*self.file.span(row.node), at) for at, row in enumerate(self.rows))
        return sorted(spans, key=lambda span: (span[0], -span[1], span[2]))

    def _collect(self, around: ast.AST, body: Sequence[Statement], place: _Place, owner: str) -> None:
        for node in body:
            self.around[node] = around
            own = list(_own(node))
            called = frozenset().union(*(place.names_called(call) for call in own if isinstance(call, ast.Call)))
            self.rows.append(_Row(node, place, frozenset(_words(node, own, place)), called))
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self.aliases += [(a.name.rpartition(".")[2], a.asname) for a in node.names if a.asname]
            inner, home = place, owner
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                inner, home = self._function(node, place, owner), ""
            elif isinstance(node, ast.ClassDef):
                home = node.name
                self.classes.add(home)
                bases = frozenset(map(last_name, node.bases))
                inner = _Place(place.file, place.name, place.key, place.locals, place.outer, home, bases)
            for block in blocks_of(node):
                self._collect(node, block, inner, home)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, place: _Place, owner: str) -> _Place:
        name = name_of_call(node.name, owner)
        key = f"{place.file.path}:{place.key}:{owner}:{node.name}"
        extra = [a.arg for a in (node.args.vararg, node.args.kwarg) if a]
        self.parameters.append((name, parameters_of(node.args), key, extra))
        if is_setter(node):
            self.setters.append((name, parameters_of(node.args), key))
        names = frozenset(place.file.locals_of(node).names)
        return _Place(place.file, name, key, names, place if place.key else None, owner, place.bases)


_outlines: WeakKeyDictionary[File, _Outline] = WeakKeyDictionary()


def _outline(file: File) -> _Outline:
    if file not in _outlines:
        _outlines[file] = _Outline(file)
    return _outlines[file]


class Relevance:
    """Finds the statements that matter, by the words in them, until no further name is found to hold a decision."""

    def __init__(
        self, files: Sequence[File], helper: str, edits: Mapping[str, Sequence[Edit]], is_ours: bool = True
    ) -> None:
        """Find them in both versions of the files; `edits` are those of each path, in the original text.

        What edits wrote counts too, unless it calls a helper of the project's own (`is_ours` is false): `helper-map`
        says what its functions answer, and their code need not show it.
        """
        self.about = _ABOUT | {helper}
        self.decisions: set[str] = set()  # variables, attributes and functions that hold or return a decision
        self.places: set[str] = set()  # functions and classes that hold code that matters
        self.makers: set[str] = (
            set()
        )  # classes whose objects hold or answer a decision, and functions that bind global ones
        self.relevant: set[ast.AST] = set()
        self.holding: set[ast.AST] = set()  # statements, functions and files around relevant ones
        outlines = {file: _outline(file) for file in dict.fromkeys(files)}
        self.binding = set().union(*(outline.binding for outline in outlines.values()))
        self._outlines = list(outlines.values())
        self._rows = [row for outline in self._outlines for row in outline.rows]
        self._around: dict[ast.AST, ast.AST] = {}
        for outline in self._outlines:
            self._around.update(outline.around)
        self._paths = {file.path for file in outlines}
        self._arrays = {file: outline.arrays for file, outline in outlines.items()}
        self._aliases = {file: outline.aliases for file, outline in outlines.items()}
        self.classes = set().union(*(outline.classes for outline in outlines.values()))
        self._parameters: dict[str, list[tuple[list[str], str, list[str]]]] = {}  # by the name of a function
        for name, names, key, extra in (each for outline in outlines.values() for each in outline.parameters):
            self._parameters.setdefault(name, []).append((names, key, extra))
        self._setters: dict[str, list[tuple[list[str], str]]] = {}
        for name, names, key in (each for outline in outlines.values() for each in outline.setters):
            self._setters.setdefault(name, []).append((names, key))
        self._todo: list[str] = sorted(self.about)
        self._tables: set[str] = set()  # variables and attributes that hold the options of a command line by name
        self._at: dict[ast.AST, tuple[list[Statement], int]] = {}  # a statement's block, and its place in it
        for file, outline in outlines.items():
            done = set(file.edits)
            told = (edit for edit in edits.get(file.path, ()) if edit not in done)
            written = file.written if is_ours else ()
            self._edited(file, outline, [*written, *((file.now(edit.start), file.now(edit.end)) for edit in told)])
        self._of_default()
        self._of_options()
        self._of_members()
        self._of_libraries()
        self._close()
        self._hand_options_on()
        self._close()
        self._calls()
        self._chosen()
        for node in list(self.relevant):
            up = self._around.get(node)
            while up is not None and up not in self.holding:
                self.holding.add(up)
                up = self._around.get(up)
        self.settings: set[ast.AST] = set()
        self._add_settings()
        self._add_flags()

    @cached_property
    def parameters(self) -> frozenset[str]:
        """Return the names of all parameters of the functions that were read."""
        return frozenset(each for rows in self._parameters.values() for names, _, _ in rows for each in names)

    def _add_flags(self) -> None:
        """Add the tests of flags that a refusal asks for: `if args.cuda and not torch.cuda.is_available(): exit()`.

        Behind it the flag is false where there is no CUDA.
        """
        matters = (row.node for row in self._rows if row.node in self.relevant or row.node in self.holding)
        tests = [node for node in matters if isinstance(node, ast.If)]
        refusing = (node.test for node in tests if node in self.relevant and any(map(leaves, node.body)))
        chains = (test.values for test in refusing if isinstance(test, ast.BoolOp))
        flags = {chain for values in chains for value in values if (chain := _flag(value))}
        self.relevant.update(node for node in tests if flags and _flag(node.test) in flags)

    def _add_settings(self) -> None:
        """Add the plain values that a file gives to names which code that matters reads, and the tests of these names.

        A user may change them in the file, as options of a command line.
        """
        matters = [row for row in self._rows if row.node in self.relevant or row.node in self.holding]
        read: set[str] = set().union(*(row.words for row in matters))
        names: set[str] = set()
        for row in self._rows:
            match row.node:
                case ast.Assign([ast.Name(name)], ast.Constant()) | ast.AnnAssign(ast.Name(name), _, ast.Constant()):
                    is_at_head = isinstance(self._around[row.node], ast.Module)
                    if name in read and is_at_head and row.node not in self.relevant:
                        self.settings.add(row.node)
                        names.add(name)
        tests = (row.node for row in matters if isinstance(row.node, ast.If) and not names.isdisjoint(row.words))
        self.relevant |= self.settings.union(tests)

    def _with(self, word: str) -> Iterator[_Row]:
        """Yield the statements in which a word occurs."""
        for outline in self._outlines:
            yield from outline.by_word.get(word, ())

    def _of_members(self) -> None:
        """Add what classes call the CPU, beside CUDA perhaps: `class Kind(Enum): CPU = "cpu"`."""
        for row in self._with("cpu"):
            node = row.node
            if not isinstance(self._around.get(node), ast.ClassDef):
                continue
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and _is_text(node.value, "cpu"):
                self.relevant.add(node)
                self._add(self.decisions, *(t for target in _targets(node) for t in _tokens_of(target, row.place)))

    def _of_libraries(self) -> None:
        """Add what libraries with devices of their own make, as it may be moved: `model = VoiceEncoder()`.

        Calls that tell them of a device count as well: `Reader(gpu=args.cuda)`, behind `if args.cuda and ...: exit()`.
        """
        for outline in self._outlines:
            for row in (row for name in sorted(outline.makers) for row in outline.by_word.get(name, ())):
                calls = _own_calls(row.node)
                own = {c for c in calls if (leading_chain(c.func) or "").partition(".")[0] in outline.makers}
                chosen = any((leading_chain(c.func) or "").partition(".")[0] in outline.choosing for c in own)
                if chosen or any(keyword.arg in _TOLD_TO_OTHERS for call in own for keyword in call.keywords):
                    self.relevant.add(row.node)
                match row.node:
                    case ast.Assign(targets, ast.Call() as call):
                        if call in own:
                            self.relevant.add(row.node)
                            tokens = (token for target in targets for token in _tokens_of(target, row.place))
                            self._add(self.decisions, *tokens)

    def _of_options(self) -> None:
        """Add what makes a table of the options of a command line: `args = vars(parser.parse_args())`."""
        for row in (row for word in _BY_NAME for row in self._with(word)):
            if isinstance(row.node, ast.Assign):
                self.relevant.add(row.node)
                self._tables.update(token for target in row.node.targets for token in _tokens_of(target, row.place))

    def _is_option_table(self, node: ast.expr, place: _Place) -> bool:
        """Return whether an expression may be the options of a command line by name: `vars(args)`."""
        is_made = isinstance(node, ast.Call) and last_name(node.func) == "vars"
        return is_made or last_name(node) == "__dict__" or not self._tables.isdisjoint(_tokens_of(node, place))

    def _hand_options_on(self) -> None:
        """Add the calls that hand on the options of a command line, as a table or by name: `main(**vars(args))`."""
        size = -1
        while len(self._tables) > size:
            size = len(self._tables)
            words = {*_BY_NAME, *self._tables}
            for row in dict.fromkeys(row for word in sorted(words) for row in self._with(word)):
                for call in _own_calls(row.node):
                    given = [*call.args, *(keyword.value for keyword in call.keywords)]
                    if any(self._is_option_table(value, row.place) for value in given):
                        self.relevant.add(row.node)
                        self._handed(call, row.place)

    def _of_default(self) -> None:
        """Add what sets a default tensor type, and the calls of `torch.Tensor` that do not follow it off CUDA."""
        setters = list(self._with(_SETTER))
        for row in (*setters, *self._with("Tensor")) if setters else ():
            legacy = legacy_calls(row.place.file.tree)
            if _SETTER in row.called or any(call in legacy for call in _own_calls(row.node)):
                self.relevant.add(row.node)
                self.places.update((row.place.name, row.place.owner))

    def _edited(self, file: File, outline: _Outline, edited: Sequence[Span]) -> None:
        """Add the statements around edits: the original ones, or what they became."""
        rewritten: dict[_Row, None] = {}
        for start, end in edited:
            at = bisect.bisect_right(outline.spans, start, key=lambda span: span[0]) - 1
            # the innermost that begins there or before, then outwards
            row = outline.rows[outline.spans[at][2]] if at >= 0 else None
            while row is not None and file.span(row.node)[1] < end:
                row = outline.by_node.get(outline.around[row.node])
            if row is not None:
                rewritten[row] = None
        for row in rewritten:
            self.relevant.add(row.node)
            self.places.update((row.place.name, row.place.owner))
            self._spread(row.node, row.place)

    def matters(self, node: ast.AST) -> bool:
        """Return whether a function or a file's body holds anything that matters; a lambda always may."""
        return node in self.holding or isinstance(node, ast.Lambda)

    def has_read_path(self, path: str) -> bool:
        """Return whether the file at a path is one of the group."""
        return path in self._paths

    def has_read(self, file: File) -> bool:
        """Return whether a file is one of the group."""
        return file in self._arrays

    def holds(self, node: ast.AST) -> bool:
        """Return whether a function holds a statement that matters."""
        return node in self.holding

    @property
    def has_options(self) -> bool:
        """Return whether a user's choice, of a command line or the environment, matters."""
        asking = dict.fromkeys(row for word in _ASKING for row in self._with(word))
        return any(row.node in self.relevant for row in asking)

    def speaks_of(self, words: set[str]) -> bool:
        """Return whether one of the words occurs in a statement that matters."""
        return any(row.node in self.relevant for word in words for row in self._with(word))

    def _close(self) -> None:
        while self._todo:
            words, self._todo = self._todo, []
            for row in dict.fromkeys(row for word in reversed(words) for row in self._with(word)):
                self.relevant.add(row.node)
                self.places.update((row.place.name, row.place.owner))
                self._spread(row.node, row.place)

    def _chosen(self) -> None:
        """Add what a user chooses, by an option or in the environment, and a statement that matters reads."""
        read: set[str] = set().union(*(row.words for row in self._rows if row.node in self.relevant))
        for row in (row for word in _ASKING for row in self._with(word)):
            if row.node not in self.relevant and not read.isdisjoint(_choices(row)):
                self.relevant.add(row.node)

    def _calls(self) -> None:
        """Add the calls that lead to code that matters: all that make objects of a class, and those behind a test."""
        count = -1
        grown = True
        self.makers.discard("")
        naming = [row for row in self._rows if isinstance(row.node, (ast.ClassDef, ast.Import, ast.ImportFrom))]
        calling = [row for row in self._rows if row.called]
        while grown:  # a class matters if one of its bases does, an alias if its name does
            size = len(self.places) + len(self.makers)
            for row in naming:
                node, place = row.node, row.place
                bases = {last_name(base) for base in node.bases} if isinstance(node, ast.ClassDef) else set()
                for kind in (self.places, self.makers):
                    if isinstance(node, ast.ClassDef) and bases & kind:
                        kind.add(node.name)
                    if isinstance(node, (ast.Import, ast.ImportFrom)):
                        kind.update(alias for name, alias in self._aliases.get(place.file, ()) if name in kind)
            grown = len(self.places) + len(self.makers) > size
        while count != len(self.relevant):
            count = len(self.relevant)
            guarded = set(self._guarded())
            for row in calling:
                if row.node in self.relevant:
                    continue
                if row.node in guarded and leaves(row.node):
                    self.relevant.add(row.node)
                elif row.node in guarded and row.called & self.places:
                    self.relevant.add(row.node)
                    self.places.update((row.place.name, row.place.owner))
                elif row.called & self.makers:
                    self.relevant.add(row.node)

    def _guarded(self) -> Iterator[ast.AST]:
        """Yield the statements behind tests that matter, those of decorators too, and after those that end a block."""
        done: set[ast.AST] = set()
        for node in self.relevant:
            if isinstance(node, _SCOPES) and node.decorator_list:
                yield from self._unwalked(node.body, done)  # a test that is skipped without a device
            if not isinstance(node, (ast.If, ast.While, ast.Try, ast.Assert, ast.Match)):
                continue
            inside = [s for block in blocks_of(node) for s in block]
            yield from self._unwalked(inside, done)
            if isinstance(node, ast.Assert) or any(leaves(n) for s in inside for n in _statements(s)):
                # where one was walked, all that follow it in its block were, too
                yield from self._unwalked(itertools.takewhile(lambda s: s not in done, self._after(node)), done)

    @staticmethod
    def _unwalked(roots: Iterable[ast.AST], done: set[ast.AST]) -> Iterator[ast.AST]:
        """Yield statements and all within them, those left out that were walked before."""
        stack = [*roots]
        while stack:
            node = stack.pop()
            if node not in done:
                done.add(node)
                yield node
                stack += [s for block in blocks_of(node) for s in block]

    def _after(self, node: Statement) -> Iterator[Statement]:
        if node not in self._at:
            blocks = blocks_of(self._around[node])
            self._at |= {each: (block, at) for block in blocks for at, each in enumerate(block)}
        block, at = self._at[node]
        return itertools.islice(block, at + 1, None)

    def _returns(self, place: _Place) -> None:
        """Note that a function returns a decision, unless so many have its name that a call tells nothing."""
        if len(self._parameters.get(place.name, ())) <= MOST_OF_A_NAME:
            self._add(self.decisions, place.name, *([place.outer.token(place.name)] if place.outer else ()))

    def _add(self, kind: set[str], *words: str) -> None:
        for word in words:
            if word and word not in kind:
                kind.add(word)
                self._todo.append(word)

    def _spread(self, node: Statement, place: _Place) -> None:
        """Add what a statement that matters hands its decisions to."""
        match node:
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign() if node.value is not None:
                pairs = [pair for target in _targets(node) for pair in _paired(target, node.value)]
                carried = [target for target, value in pairs if self._carries(value, place)]
                self._add(self.decisions, *(t for target in carried for t in _tokens_of(target, place)))
                self._set({target.attr for target in carried if isinstance(target, ast.Attribute)})
                if carried and place.owner:
                    self.makers.add(place.owner)
                if place.key and any(isinstance(t, ast.Name) and place.token(t.id) == t.id for t in carried):
                    self.makers.add(place.name)  # a function that binds a global name: who calls it decides
            case ast.Return(value) if value is not None and self._carries(value, place):
                self._returns(place)
                self.makers.add(place.owner)
            case ast.Expr(ast.Yield(value) | ast.YieldFrom(value)) if self._carries(value, place):
                self._returns(place)
            case ast.For(target, iterable) if self._carries(iterable, place):
                self._add(self.decisions, *_tokens_of(target, place))
            case ast.With(items) | ast.AsyncWith(items):
                given = [i.optional_vars for i in items if i.optional_vars and self._carries(i.context_expr, place)]
                self._add(self.decisions, *(t for target in given for t in _tokens_of(target, place)))
            case ast.If(test) | ast.While(test) if self._carries(test, place):
                self._depending(node, place)
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name):
                self._decorated(node, place)
                if name in self.decisions:  # another function of this name returns a device
                    cpu = [s for s in _statements(node) if _is_text(_handed_out(s), "cpu")]
                    self.relevant.update(cpu)
                    self.places.update((name, place.owner) if cpu else ())
                if name in self.about or name == "to":
                    self.makers.add(place.owner)
                called = name_of_call(name, place.owner)
                for names, key, _ in self._parameters.get(called, ()):
                    defaults = defaults_of(node.args)
                    held = [n for n in names if n in defaults and self._carries(defaults[n], place)]
                    self._add(self.decisions, *(f"{n}@{key}" for n in held))
                    if held:
                        self.makers.update((called, place.owner))  # whoever makes the object may call it
            case ast.Import(names) | ast.ImportFrom(_, names):
                told = self.decisions | self.about
                bound = [a for a in names if a.asname or isinstance(node, ast.ImportFrom)]
                held = [a.asname or a.name for a in bound if not told.isdisjoint(a.name.split("."))]
                self._add(self.decisions, *(place.token(name) for name in held))
        for call in _own_calls(node):
            self._handed(call, place)
        for walrus in _own_walruses(node):
            if self._carries(walrus.value, place):
                self._add(self.decisions, *_tokens_of(walrus.target, place))

    def _set(self, names: set[str]) -> None:
        """Add the parameters of setters, which get the decisions that are assigned to attributes of these names."""
        for parameters, key in (row for name in names for row in self._setters.get(name, ())):
            self._add(self.decisions, *(f"{parameter}@{key}" for parameter in parameters[1:]))
            self.makers.add(key.split(":")[-2])

    def _decorated(self, node: ast.FunctionDef | ast.AsyncFunctionDef, place: _Place) -> None:
        """Add the parameters that decorators give decisions, as `parametrize` does."""
        words: set[str] = set()
        if any(isinstance(d, (ast.Name, ast.Attribute)) and self._carries(d, place) for d in node.decorator_list):
            self._add(self.decisions, place.token(node.name))
            for names, key, extra in self._parameters.get(node.name, ()):
                self._add(self.decisions, *(f"{name}@{key}" for name in (*names, *extra)))
        for call in (d for d in node.decorator_list if isinstance(d, ast.Call)):
            if any(self._carries(value, place) for value in call.args):
                texts = (c.value for c in call.args[:1] if isinstance(c, ast.Constant) and isinstance(c.value, str))
                words.update(part.strip() for text in texts for part in text.split(","))
        for names, key, _ in self._parameters.get(node.name, ()):
            self._add(self.decisions, *(f"{name}@{key}" for name in names if name in words))

    def _depending(self, node: ast.If | ast.While, place: _Place) -> None:
        """Add what a test decides by binding or returning plain values."""
        for inner in (n for block in blocks_of(node) for s in block for n in walk(s)):
            match inner:
                case ast.Assign(targets, value) if _is_plain(value):
                    self._add(self.decisions, *(t for target in targets for t in _tokens_of(target, place)))
                case ast.Call(ast.Attribute(owner, name)) if name in ADDS:
                    self._add(self.decisions, *_tokens_of(owner, place))
                case ast.AugAssign(target, _, value) if _is_plain(value):
                    self._add(self.decisions, *_tokens_of(target, place))
                case ast.Return(value) | ast.Yield(value) if value is None or _is_plain(value):
                    self._returns(place)

    def _handed(self, call: ast.Call, place: _Place) -> None:
        name, names_called = last_name(call.func), place.names_called(call)
        known = [found for each in names_called for found in self._parameters.get(self._meant(each, place), ())]
        for names, key, extra in known:
            has_self = names[:1] in (["self"], ["cls"])
            names = names[int(has_self and not gives_self(call)) :]
            tables = [
                name for name, value in zip(names, call.args, strict=False) if self._is_option_table(value, place)
            ]
            tables += [k.arg for k in call.keywords if k.arg in names and self._is_option_table(k.value, place)]
            self._tables.update(f"{name}@{key}" for name in tables)
            held = self._given(call, names, extra, place)
            self._add(self.decisions, *(f"{n}@{key}" for n in held))
            if held and has_self:
                self.makers.add(key.split(":")[-2])  # the class: its objects are told a decision
        if name in _OPTIONS:
            self._add(self.decisions, *_option_names(call))
        if name == "setattr" and len(call.args) > 2 and self._carries(call.args[2], place):
            self._add(self.decisions, *_texts(call))
        if name in ADDS and isinstance(call.func, ast.Attribute) and any(self._carries(a, place) for a in call.args):
            self._add(self.decisions, *_tokens_of(call.func.value, place))

    def _given(self, call: ast.Call, names: list[str], extra: list[str], place: _Place) -> list[str]:
        """Return the parameters to which a call hands a decision; `*x` and `**x` may be any of them."""
        held: list[str] = []
        for at, value in enumerate(call.args):
            if self._carries(value, place):
                held += [*names[at:], *extra] if isinstance(value, ast.Starred) else names[at : at + 1] or extra
        for keyword in call.keywords:
            if self._carries(keyword.value, place):
                held += [*names, *extra] if keyword.arg is None else [keyword.arg] if keyword.arg in names else extra
            elif keyword.arg is None and self._is_option_table(keyword.value, place):
                held += [name for name in names if name in self.decisions]
        return held

    def _meant(self, name: str, place: _Place) -> str:
        """Return the name by which a project defines what a file imports under another name."""
        return next((known for known, alias in self._aliases[place.file] if alias == name), name)

    def _carries(self, node: ast.AST | None, place: _Place) -> bool:
        """Return whether a value may hold a decision, or depend on one. Tensors, modules and objects hold none."""
        match node:
            case ast.Constant(str() as text):
                return text.partition(":")[0] in self.about
            case ast.Name(name):
                token = place.token(name)
                return token in self.decisions or token in self.about
            case ast.Attribute(value, name):
                if name in _OF_TENSORS and name != "device":
                    root = (attribute_chain(node) or "").partition(".")[0]
                    known = root in ("self", "cls") or place.token(root) in self.decisions | self.about
                    return known and (name in self.decisions or self._carries(value, place))
                made = value.keywords if name == "device" and isinstance(value, ast.Call) else ()  # a tensor there
                there = any(self._carries(keyword.value, place) for keyword in made)
                return there or name in self.decisions or name in self.about or self._carries(value, place)
            case ast.Subscript(_, ast.Constant(str() as key)) if key in self.decisions:
                return True
            case ast.Call():
                return self._call_carries(node, place)
            case ast.Lambda():
                return any(self._carries(each, place) for each in (node.body, *defaults_of(node.args).values()))
            case _ if isinstance(node, _TRANSPARENT):
                return any(self._carries(child, place) for child in children(node))
        return False

    def _call_carries(self, node: ast.Call, place: _Place) -> bool:
        name = last_name(node.func)
        words = (chain_of(node.func) or name).split(".")
        if isinstance(node.func, ast.Attribute) and name in _MOVES:
            return False
        if not self.about.isdisjoint(words) or (name == "device" and words[0] in self._arrays[place.file]):
            return True
        if words[0] in self._arrays[place.file]:
            return False
        if self._meant(name, place) in self._parameters or name in self.classes:
            return place.token(name) in self.decisions or name in self.decisions
        is_variable = isinstance(node.func, ast.Name) and place.token(name) != name  # it holds some function
        if is_variable and place.token(name) in self.decisions:
            return True
        if name not in _PASSING and not is_variable:
            return name in self.decisions
        if name in ("getattr", "pop", "get") and not self.decisions.isdisjoint(_texts(node)):
            return True
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        given = (owner, *node.args, *(k.value for k in node.keywords))
        return any(self._carries(each, place) for each in given)


# functions and methods whose result is made of what they are given
_PASSING = {
    "str", "int", "bool", "list", "tuple", "dict", "set", "sorted", "reversed", "any", "all", "getattr", "get",
    "getenv", "partial", "field", "max", "min", "next", "iter", "map", "filter", "zip", "enumerate", "format",
    "range", "split", "rsplit", "partition", "replace", "lower", "upper", "strip", "lstrip", "rstrip", "startswith",
    "endswith", "join", "keys", "values", "items", "pop", "Namespace", "SimpleNamespace", "copy", "deepcopy",
    "hasattr", "isinstance", "len", "param", "product", "removeprefix", "removesuffix", "nullcontext", *SKIP_MARKS,
}  # fmt: skip
_TRANSPARENT = (
    ast.IfExp, ast.BoolOp, ast.Compare, ast.UnaryOp, ast.BinOp, ast.JoinedStr, ast.FormattedValue, ast.Tuple, ast.List,
    ast.Set, ast.Dict, ast.Starred, ast.Subscript, ast.NamedExpr, ast.Await, ast.ListComp, ast.SetComp, ast.DictComp,
    ast.GeneratorExp, ast.comprehension,
)  # fmt: skip


def _flag(test: ast.expr) -> str | None:
    """Return the name or attribute that a test asks for, or asks not to be: `args.cuda`."""
    asked = test.operand if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else test
    return attribute_chain(asked)


def _option_names(call: ast.Call) -> Iterator[str]:
    """Yield the names under which the value of a command line's option may be found."""
    yield from (text.lstrip("-").replace("-", "_") for text in _texts(call))


def _texts(call: ast.Call) -> Iterator[str]:
    """Yield the texts among the arguments of a call."""
    yield from (a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str))


def _choices(row: _Row) -> Iterator[str]:
    """Yield the names that a statement gives to what a user chooses."""
    for call in _own_calls(row.node):
        if last_name(call.func) in _OPTIONS:
            yield from _option_names(call)
    if isinstance(row.node, (ast.Assign, ast.AnnAssign)):
        for target in _targets(row.node):
            yield from _tokens_of(target, row.place)


@remembered
def leaves(node: ast.AST) -> bool:
    """Return whether a statement ends the block that it stands in."""
    is_exit = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and last_name(node.value.func) in _EXITS
    return is_exit or isinstance(node, LEAVING)


@remembered
def legacy_calls(tree: ast.AST) -> set[ast.AST]:
    """Return the calls of something named Tensor whose result stays where it is made.

    The same chain moves the others on, or they become parameters, which move with their module.
    """
    found: set[ast.AST] = {n for n in walk(tree) if isinstance(n, ast.Call) and last_name(n.func) == "Tensor"}
    for node in walk(tree) if found else ():
        inner: ast.AST | None = None
        if isinstance(node, ast.Attribute) and node.attr in MOVING_METHODS:
            inner = node.value
        elif isinstance(node, ast.Call) and last_name(node.func) in ("to", "type") and not _names_dtype(node):
            inner = node.func
        elif isinstance(node, ast.Call) and last_name(node.func) == "Parameter" and node.args:
            inner = node.args[0]
        while inner is not None:
            found.discard(inner)
            inner = inner.func if isinstance(inner, ast.Call) else getattr(inner, "value", None)
    return found


def _names_dtype(call: ast.Call) -> bool:
    """Return whether `x.to(...)` or `x.type(...)` names a dtype alone."""
    if any(keyword.arg == "device" for keyword in call.keywords):
        return False
    return not call.args or last_name(call.args[0]) in DTYPE_WORDS


def _imported(rows: Sequence[_Row], is_meant: Callable[[str], bool]) -> Iterator[str]:
    """Yield the names that imports of certain libraries bind in a file."""
    for node in (row.node for row in rows):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if is_meant(alias.name.partition(".")[0]):
                    yield alias.asname or alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and not node.level and is_meant((node.module or "").partition(".")[0]):
            for alias in node.names:
                yield alias.asname or alias.name


@remembered
def _statements(node: ast.AST) -> list[ast.stmt]:
    """Return a statement and all statements in it."""
    found = [node] if isinstance(node, ast.stmt) else []
    for block in blocks_of(node):
        for inner in block:
            found += _statements(inner)
    return found


def _targets(node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> list[ast.expr]:
    """Return what an assignment binds."""
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _tokens_of(target: ast.AST, place: _Place) -> Iterator[str]:
    """Yield the words of the variables and attributes that a target binds; of `x[i]` it is x."""
    match target:
        case ast.Name(name):
            yield place.token(name)
        case ast.Attribute(_, name):
            yield name
        case ast.Tuple(elts) | ast.List(elts):
            for item in elts:
                yield from _tokens_of(item, place)
        case ast.Subscript(value) | ast.Starred(value):
            yield from _tokens_of(value, place)


def _paired(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield what an assignment binds to what, element by element where both sides are written out."""
    if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
        there = [at for at, item in enumerate(value.elts) if isinstance(item, ast.Starred)]
        if not there and len(target.elts) == len(value.elts):
            yield from zip(target.elts, value.elts, strict=True)
            return
        if len(there) == 1:
            last = len(value.elts) - there[0] - 1
            yield from zip(target.elts[: there[0]], value.elts, strict=False)
            yield from zip(target.elts[len(target.elts) - last :], value.elts[there[0] + 1 :], strict=False)
            yield from ((item, value.elts[there[0]]) for item in target.elts[there[0] : len(target.elts) - last])
            return
    yield target, value


def gives_self(call: ast.Call) -> bool:
    """Return whether a call gives the object itself: `Base.__init__(self, device)`."""
    match call:
        case ast.Call(ast.Attribute(ast.Name() | ast.Attribute(), "__init__"), [ast.Name("self"), *_]):
            return True
    return False


def _handed_out(node: ast.AST) -> ast.AST | None:
    """Return what a statement returns or yields, or None."""
    match node:
        case ast.Return(value) | ast.Expr(ast.Yield(value)):
            return value
    return None


def _is_text(node: ast.AST | None, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text


def _is_plain(node: ast.expr) -> bool:
    """Return whether a value is a constant, or made of constants."""
    if isinstance(node, (ast.Tuple, ast.List)):
        return all(map(_is_plain, node.elts))
    return isinstance(node, ast.Constant)


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a statement itself, those of statements in it excepted."""
    stack = [c for c in children(node) if not isinstance(c, ast.stmt)]
    while stack:
        inner = stack.pop()
        if isinstance(inner, (ast.ExceptHandler, ast.match_case)):
            stack += [c for c in children(inner) if not isinstance(c, ast.stmt)]
            continue
        yield inner
        stack += children(inner)


@remembered
def _own_calls(node: ast.AST) -> list[ast.Call]:
    return [inner for inner in _own(node) if isinstance(inner, ast.Call)]


@remembered
def _own_walruses(node: ast.AST) -> list[ast.NamedExpr]:
    return [inner for inner in _own(node) if isinstance(inner, ast.NamedExpr)]


def _words(node: Statement, own: Iterable[ast.AST], place: _Place) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    yield from _words_in(own, place)


def _is_near(owner: ast.expr) -> bool:
    """Return whether an owner is a name, the result of a function, or an attribute of `self`: `self.config`."""
    match owner:
        case ast.Name() | ast.Call(ast.Name()) | ast.Attribute(ast.Name("self")):
            return True
    return False


def _words_in(nodes: Iterable[ast.AST], place: _Place) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.Name(name):
                yield place.token(name)
            case ast.Attribute(value, name):
                if name not in _OF_TENSORS or _is_near(value):
                    yield name
            case ast.Constant(str() as text) if len(text) < 40:
                yield text.partition(":")[0].lstrip("-").replace("-", "_").lower()
                yield from (part for part in text.replace(".", " ").replace("_", " ").split() if part in _ABOUT)
            case ast.alias(name, asname):
                yield asname or name.rpartition(".")[2]
                yield from name.split(".")
            case ast.keyword(str() as word) if word in _TOLD:
                yield word
