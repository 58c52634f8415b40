"""The runtime helper in parts: the file for a project holds the functions that it calls, and what these need."""

from __future__ import annotations

import ast
import enum
import functools
import hashlib
import io
import re
import string
import symtable
import textwrap
import tokenize
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from itertools import pairwise

from torchmigrate.base.system import syntax_tree
from torchmigrate.project.import_graph import COMPILING, DEFERRING, GROUPING
from torchmigrate.source.encoding import helper_class
from torchmigrate.syntax.resolver import chain_of, last_name
from torchmigrate.syntax.scope import FUNCTIONS, first_line, walk

_FIRST = re.compile(rb"# torchmigrate-runtime (\S+) ([0-9a-f]{32})\b")  # of version 1: one digest of all below
_MORE = r"(?:#   [^\n]*\n)*"
_HEADER = re.compile(
    rf"\A# torchmigrate-runtime \S+(?: \[|:)[^\n]*\n{_MORE}(?:# SPDX[^\n]*\n)?(?:# digest ([^\n]*\n{_MORE}))?"
)
_BRACKETED = re.compile(r"\A# torchmigrate-runtime \S+ \[([0-9a-f\s#]*)\]:")  # as version 2 was at first
_WIDTH = 88
_DIGITS = string.digits + string.ascii_letters
_CLASS_DOC = "The functions of torch.cuda that this file calls, for whatever accelerator is here, or none."
_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SHORT_DIGEST = 2  # characters: enough to tell which function was edited; that one was, all digits say
# by public function: the part of it that calls with few arguments need; alone, the part takes the function's name
_SHORT = {
    "device": "_here",
    "map_location": "_from_anywhere",
    "synchronize": "_wait",
    "Stream": "_new_stream",
    "current_stream": "_running_stream",
    "dist_backend": "_collectives",
    "is_bf16_supported": "_has_bf16",
    "Event": "_new_event",
    "autocast": "_half",
}
# what asks whether torch.compile traces the program, and what stands there where nobody compiles
_UNTRACED = {
    ' and (_here().type == "cuda" or not _is_compiling())': "",
    '    elif _here().type == "cuda" or not _is_compiling():\n': "    else:\n",
    '    elif kind not in ("cuda", "xpu") and _is_compiling():\n'
    "        homes.reverse()  # torch.compile knows nothing of torch.npu and torch.mtia\n": "",
    '    is_traced = kind not in ("cuda", "xpu") and _is_compiling()\n'
    '    return _native("current_device_index" if is_traced else "current_device")()\n': "    return "
    '_native("current_device")()\n',
    " and not _is_compiling()": "",
    ", nor off CUDA while compiling": "",
}
# what counts CUDA's devices, which starts nothing, and in its place what asks CUDA itself, as the project did: a driver
# that is too old lists its devices all the same
_UNDEFERRED = {
    "        is_traced = api and torch.compiler.is_compiling()\n": "",
    ' and (is_traced or hasattr(api, "empty_cache")):  # before torch 2.8 counting started CUDA': ":",
    "            there = api.is_available() if is_traced else ": "            there = ",
    "api.device_count()  # counting devices keeps fork usable": "api.is_available()",
    '        asks = {"cuda": "device_count"}\n': "",
    'getattr(home, asks.get(kind, "is_available"))()': "home.is_available()",
    'hasattr(getattr(torch, "accelerator", 0), "empty_cache")': 'hasattr(torch, "accelerator")',
    "  # torch >= 2.9: counting starts nothing": "  # torch >= 2.6",
    "torch.accelerator.device_count() else": "torch.accelerator.is_available() else",
    "home, asks =": "home =",
    'kind, None), "is_available"': "kind, None)",
    'getattr(home, "device_count" if home is torch.cuda else asks)()': "home.is_available()",
}
# MPS has autocast since torch 2.5 and what a scaler needs since 2.8: where both are called, each waits for the other
_SCALED = {"_version < (2, 5)": "_version < (2, 8)"}
_ASKS_SIZE = b"WORLD_SIZE"
_COUNTS = re.compile(rb"\b(accelerator|api)\.device_count\(\)")
_FORKING = {"multiprocessing", "joblib", "pathos"}  # modules whose functions start copies of the process
_STARTING_ANEW = {
    "spawn",
    "cpu_count",
    "current_process",
    "freeze_support",
    "set_sharing_strategy",
    "ThreadPool",
}  # but not these
_CACHED = "@functools.lru_cache(maxsize=1)"
# functions that may look for the device anew: they set no current device, and ask no more often than a module runs
_ASKING = {
    *("device", "device_type", "is_available", "is_nvidia", "device_count", "map_location", "data_parallel"),
    *("manual_seed", "manual_seed_all", "dist_backend", "set_default_tensor_type", "get_device_name", "pin_memory"),
}
_OF_GROUPS = {"dist_backend", "device_ids", "output_device"}  # programs that call these form process groups
_RARE = {"map_location", "manual_seed", "manual_seed_all", "dist_backend"}  # wherever they are called, it is seldom


class Form(enum.IntFlag):
    """The flags say how a project calls a function of the helper."""

    ANY = 0
    SHORT = 1  # it is only called, with arguments that its short form takes
    ONCE = 2  # it is only called while files are loaded: in no function and in no loop
    EAGER = 4  # nobody compiles what calls it
    FIRST = 8  # it is only called with nothing, or with 0: for the current device, or the first
    STARTS = 16  # it may start CUDA: no program with it forks, or sets CUDA_VISIBLE_DEVICES
    ALONE = 32  # no program with it makes its process one of a group


# functions of the helper, each with the Form that all its calls have; of a class also its members (`nvtx.range_push`),
# and if none is named, all
Uses = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Part:
    """A top-level definition of the helper: its text, and the names of the module that it uses."""

    name: str
    text: str
    needs: frozenset[str]
    is_value: bool

    def without(self, what: Mapping[str, str]) -> _Part:
        """Return the part with other texts in the place of some: as it is where nobody compiles, or nothing forks."""
        text = functools.reduce(lambda text, pair: text.replace(*pair), what.items(), self.text)
        return replace(self, text=text, needs=frozenset(_global_names(text)))

    def with_members(self, names: Collection[str]) -> _Part:
        """Return the class with these of its functions."""
        lines = self.text.splitlines(keepends=True)
        for name, (start, end) in reversed(_spans_of_members(self.text).items()):
            if name not in names:
                del lines[start - 1 : end]  # with the blank line above
        text = "".join(lines)
        return replace(self, text=text, needs=frozenset(_global_names(text)))

    def clashes(self, old: str, new: str) -> bool:
        """Return whether a scope inside that uses `old` has a name `new` of its own."""
        return any(_is_local(scope, new) and _is_used(scope, old) for scope in _scopes(self.text))


@functools.cache
def _whole() -> tuple[str, Mapping[str, _Part], Mapping[str, str]]:
    """Return the helper's header, its parts in order, and its imports by the name that each binds."""
    text = unix_lines(resources.files("torchmigrate").joinpath("runtime.py").read_bytes()).decode()
    lines = text.splitlines(keepends=True)
    parts: dict[str, _Part] = {}
    imports: dict[str, str] = {}
    for statement in syntax_tree(text).body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            for alias in statement.names:
                home = f"from {statement.module} " if isinstance(statement, ast.ImportFrom) else ""
                imports[alias.name] = f"{home}import {alias.name}\n"
        elif name := next(_defined((statement,)), ""):
            own = "".join(lines[statement.lineno - 1 : statement.end_lineno])
            is_value = not isinstance(statement, (ast.FunctionDef, ast.ClassDef))
            parts[name] = _Part(name, own, frozenset(_global_names(own)), is_value)
    return "".join(lines[:2]), parts, imports


def _spans_of_members(text: str) -> dict[str, tuple[int, int]]:
    """Return for each function of a class its first row, the file's being 0, and the row below it."""
    match syntax_tree(text).body:
        case [ast.ClassDef(body=body)]:
            functions = (each for each in body if isinstance(each, ast.FunctionDef))
            return {each.name: (first_line(each) - 1, each.end_lineno or each.lineno) for each in functions}
    return {}


@functools.cache
def _functions_by_class() -> Mapping[str, Sequence[str]]:
    """Return the functions of each public class of the helper."""
    return {
        name: [*spans]
        for name, part in _whole()[1].items()
        if name[0] != "_" and (spans := _spans_of_members(part.text))
    }


def _members_among(body: Iterable[ast.stmt]) -> set[str]:
    """Return the functions of the helper's public classes that statements define, each with its class: `nvtx.mark`."""
    classes = [each for each in body if isinstance(each, ast.ClassDef) and each.name in _functions_by_class()]
    return {f"{each.name}.{name}" for each in classes for name in _defined(each.body)}


@functools.cache
def device_position(function: str) -> int | None:
    """Return the position of the parameter `device` of a function of the helper, or None if it has none."""
    part = _whole()[1].get(function)
    match syntax_tree(part.text).body if part else []:
        case [ast.FunctionDef(args=ast.arguments(args=parameters))]:
            return next((at for at, each in enumerate(parameters) if each.arg == "device"), None)
    return None


def _scopes(text: str) -> Iterator[symtable.SymbolTable]:
    stack = [symtable.symtable(text, "helper", "exec")]
    while stack:
        scope = stack.pop()
        yield scope
        stack += scope.get_children()


def _global_names(text: str) -> Iterator[str]:
    """Yield the names of its module that a definition uses, annotations included."""
    for scope in _scopes(text):
        symbols = (s for s in scope.get_symbols() if s.is_referenced())
        yield from (s.get_name() for s in symbols if scope.get_type() == "module" or s.is_global())
        yield from (s.get_name() for s in scope.get_symbols() if s.is_declared_global())


def _is_local(scope: symtable.SymbolTable, name: str) -> bool:
    return name in scope.get_identifiers() and scope.lookup(name).is_local() and scope.get_type() != "module"


def _is_used(scope: symtable.SymbolTable, name: str) -> bool:
    return name in scope.get_identifiers() and scope.lookup(name).is_referenced()


def _defined(body: Iterable[ast.stmt]) -> Iterator[str]:
    for statement in body:
        match statement:
            case ast.FunctionDef(name) | ast.ClassDef(name):
                yield name
            case ast.Assign(targets):
                yield from (target.id for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(ast.Name(name)):
                yield name


def public(raw: bytes) -> list[str]:
    """Return the public names of a helper; nothing if it is not valid Python."""
    return [name for name in _defined(_body(raw)) if not name.startswith("_")]


@functools.lru_cache(maxsize=16)
def _body(raw: bytes) -> Sequence[ast.stmt]:
    try:
        return syntax_tree(raw).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def unix_lines(raw: bytes) -> bytes:
    """Replace \\r\\n by \\n, as git may check out the helper with other line ends."""
    return raw.replace(b"\r\n", b"\n")


def everything() -> Uses:
    """Return all functions of the helper, for any call."""
    return {name: Form.ANY for name in _whole()[1] if not name.startswith("_")}


def merged(several: Iterable[Uses], without: Form = Form.ANY) -> dict[str, int]:
    """Return the functions of all, each with the form that is enough for all; their programs lack some of the form."""
    out: dict[str, int] = {}
    for uses in several:
        for name, form in uses.items():
            out[name] = out.get(name, form) & form & ~without
    return out


def vendored(uses: Uses, also: Iterable[str] = ()) -> bytes:
    """Return the helper's file for a project that uses these functions of it; others are left out.

    `also` names private parts that a person's own functions in the file use.
    """
    header, _, imports = _whole()
    names, parts, renamed = _chosen(uses, also)
    used = frozenset().union(*(part.needs for part in parts))
    top = "".join(text for name, text in imports.items() if name in used and name != "torch")
    torch = f"\n{imports['torch']}" if "torch" in used else ""
    text = f"{top}{torch}{_renamed(_joined(parts), renamed)}".lstrip("\n")
    return (_header(header, names, _digests(text)) + text).encode()


def _chosen(uses: Uses, also: Iterable[str]) -> tuple[list[str], list[_Part], Mapping[str, str]]:
    """Return the functions to write, the parts that hold them and what they need, and new names for some."""
    parts = _whole()[1]
    extra = {*also} & {*parts}
    for owner, members in _functions_by_class().items():
        if kept := [name for name in members if f"{owner}.{name}" in uses]:
            parts = {**parts, owner: parts[owner].with_members(kept)}
    names = {name for name in uses if name in parts and not name.startswith("_")}
    form = functools.reduce(int.__and__, (uses[name] for name in names), int(~Form.ANY)) if names else Form.ANY
    is_once = bool(form & Form.ONCE) and names <= _ASKING
    if form & Form.EAGER:
        parts = {
            name: part.without(_UNTRACED) if "_is_compiling" in part.needs else part for name, part in parts.items()
        }
    if (is_once or form & Form.EAGER) and "_device" not in extra:
        found = _as("_here", parts["_found"])
        parts = {**parts, "_here": found if is_once else _remembering(found)}
    if form & Form.STARTS and "_device" not in extra:
        parts = {**parts, "_here": parts["_here"].without(_UNDEFERRED)}
    if names & {"grad_scaler", "scaler_type"} and "autocast_type" not in extra:
        parts = {**parts, "autocast_type": parts["autocast_type"].without(_SCALED)}
    if form & Form.ALONE and not names & _OF_GROUPS and "_wanted" not in extra:
        parts = {**parts, "_here": _alone(parts["_here"])}
    if not {"Event", "_Queue", "_new_event"} & {*names, *extra}:
        parts = {**parts, "_Queue": _as("_Queue", parts["_Untimed"])}
    is_short = {name for name in names if uses[name] & Form.SHORT}
    short = {name: _SHORT[name] for name in is_short if _SHORT.get(name, name) not in {name, *extra}}
    others = _closure((names - {*short}) | {*short.values()} | extra, parts)
    short = {name: part for name, part in short.items() if name not in others}  # others call all of these
    whole = (names - {*short}) | {*short.values()} | extra
    if uses.get("device", 0) & Form.FIRST and "device" not in _closure(whole - {"device"}, parts):
        parts = {**parts, "device": _as("device", parts["_first"])}
    needed = _closure(whole, parts)
    renamed = {old: new for new, old in short.items() if new not in needed}
    for old, new in [*renamed.items()]:
        if any(parts[name].clashes(old, new) for name in needed):
            del renamed[old]
            needed |= _closure({new}, parts)
    return sorted(names, key=[*parts].index), _inlined([parts[name] for name in parts if name in needed]), renamed


def _as(name: str, part: _Part) -> _Part:
    """Return a part under another name."""
    return replace(part, name=name, text=_renamed(part.text, {part.name: name}))


def _alone(part: _Part) -> _Part:
    """Return the part that finds the device as it is for a program whose processes form no group."""
    text = part.text.replace("_wanted()", 'os.environ.get("TORCH_ACCEL_DEVICE", "")')
    return replace(part, text=text, needs=part.needs - {"_wanted"} | {"os"})


def _remembering(part: _Part) -> _Part:
    """Return a part that remembers what it found; dynamo would warn of that."""
    return replace(part, text=f"{_CACHED}\n{part.text}", needs=part.needs | {"functools"})


def _inlined(parts: list[_Part]) -> list[_Part]:
    """Return the parts with each private tuple in the place of its only use, where the line has room for it."""
    for constant in [part for part in parts if part.is_value and part.name.startswith("_")]:
        (node,) = syntax_tree(constant.text).body
        value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
        users = [part for part in parts if constant.name in part.needs]
        if not isinstance(value, ast.Tuple) or len(users) != 1:
            continue
        (user,), literal = users, ast.get_source_segment(constant.text, value) or ""
        text = _renamed(user.text, {constant.name: literal})
        changed = [line for line in text.splitlines() if line not in user.text.splitlines()]
        if len(changed) == text.count(literal) == 1 and len(changed[0]) <= _WIDTH:
            inlined = replace(user, text=text, needs=user.needs - {constant.name})
            parts = [inlined if part is user else part for part in parts if part is not constant]
    return parts


def as_class(uses: Uses, owner: str, was: str = "") -> str:
    """Return a class that holds these functions, for a file that stands alone and calls `owner.device()`.

    `was` is the class that the file has: its functions stay, and what a person edited there.
    """
    body = _class_body(was).encode()
    new = updated(body, uses, owner) if was else _members(uses, (), owner)
    if new is None or (was and is_same(body, new)):
        return was
    indented = textwrap.indent(new.decode(), "    ").rstrip()
    return f'class {owner}:\n    """{_CLASS_DOC}"""\n\n{indented}\n'


def _members(uses: Uses, also: Iterable[str], owner: str) -> bytes:
    """Return the body of the class, as a text without indent that begins with the helper's header."""
    names, parts, renamed = _chosen(uses, also)
    own = {renamed.get(part.name, part.name) for part in parts}
    text, after_value = "", True
    for part in parts:
        text += ("" if after_value and part.is_value else "\n") + _member(_renamed(part.text, renamed), owner, own)
        after_value = part.is_value
    text = text.lstrip("\n")
    return (_header(_whole()[0], names, _digests(text)) + "\n" + text).encode()


def _member(text: str, owner: str, own: set[str]) -> str:
    """Return a definition of the helper as a member of a class, which calls the other members by the class's name."""
    lines = text.splitlines(keepends=True)
    (statement,) = syntax_tree(text).body
    for node in sorted(_of_module(statement, own, frozenset(), False), key=lambda n: (n.lineno, n.col_offset))[::-1]:
        row, at = node.lineno - 1, node.col_offset
        lines[row] = f"{lines[row][:at]}{owner}.{lines[row][at:]}"
    dropped = {node.lineno - 1 for node in ast.walk(statement) if isinstance(node, ast.Global)}
    code = "".join(line for row, line in enumerate(lines) if row not in dropped)
    return f"@staticmethod\n{code}" if isinstance(statement, ast.FunctionDef) else code


def _of_module(node: ast.AST, own: set[str], hidden: frozenset[str], is_inside: bool) -> Iterator[ast.Name]:
    """Yield the names in functions, and in classes of its own, by which a definition means others of the module."""
    match node:
        case ast.Name(name) if is_inside and name in own and name not in hidden:
            yield node
        case ast.FunctionDef() | ast.Lambda():
            body = node.body if isinstance(node.body, list) else [node.body]
            for part in [*ast.iter_child_nodes(node)]:
                if part not in body:  # decorators, defaults and annotations
                    yield from _of_module(part, own, hidden, is_inside)
            shared = {name for n in ast.walk(node) if isinstance(n, ast.Global) for name in n.names}
            bound = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            bound |= {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}
            bound |= {n.name for part in body for n in ast.walk(part) if isinstance(n, ast.FunctionDef)}
            for part in body:
                yield from _of_module(part, own, hidden | (bound - shared), True)
        case ast.ClassDef(body=body):
            members = {*_defined(body)}
            for part in body:
                is_code = isinstance(part, (ast.FunctionDef, ast.ClassDef))
                yield from _of_module(part, own, hidden if is_code else hidden | members, True)
        case _:
            for part in ast.iter_child_nodes(node):
                yield from _of_module(part, own, hidden, is_inside)


def _class_body(text: str) -> str:
    """Return the body of the class that holds the helper, below its docstring and without indent."""
    if not text:
        return ""
    (node,) = syntax_tree(text).body
    assert isinstance(node, ast.ClassDef)
    first = node.body[0]
    below = first.end_lineno if ast.get_docstring(node) is not None and first.end_lineno else node.lineno
    return textwrap.dedent("".join(unix_lines(text.encode()).decode().splitlines(keepends=True)[below:])).lstrip("\n")


def described(code: bytes) -> tuple[str, list[str], list[str]]:
    """Return the version of the helper in a file, its public functions, and the names that a person edited."""
    held = helper_class(code)
    body = _class_body(code[held[1] : held[2]].decode()).encode() if held else code
    found = re.match(r"# torchmigrate-runtime ([^\s:]+)", body.decode(errors="replace"))
    return found[1] if found else "", public(body), [] if is_untouched(body) else edited(body)


def imports_for(text: str) -> dict[str, str]:
    """Return the imports that the class which holds the helper needs, by the name that each binds."""
    used = {n.id for n in ast.walk(syntax_tree(text)) if isinstance(n, ast.Name)}
    return {name: line.strip() for name, line in _whole()[2].items() if name in used}


def _closure(names: Iterable[str], parts: Mapping[str, _Part]) -> set[str]:
    found: set[str] = set()
    stack = [*names]
    while stack:
        name = stack.pop()
        if name in parts and name not in found:
            found.add(name)
            stack += parts[name].needs
    return found


def _joined(parts: Iterable[_Part]) -> str:
    """Join parts with the blank lines that formatters want."""
    out, after_value = "", False
    for part in parts:
        gap = "" if after_value and part.is_value else "\n" if part.is_value and not out else "\n\n"
        out, after_value = out + gap + part.text, part.is_value
    return out


def _renamed(text: str, names: Mapping[str, str]) -> str:
    """Rename identifiers."""
    if not any(name in text for name in names):
        return text
    lines = text.splitlines(keepends=True)
    found = [t for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.NAME]
    for token in reversed([t for t in found if t.string in names]):
        row, (start, end) = token.start[0] - 1, (token.start[1], token.end[1])
        lines[row] = lines[row][:start] + names[token.string] + lines[row][end:]
    return "".join(lines)


def _header(header: str, names: Iterable[str], digests: Mapping[str, str]) -> str:
    """Return the header: the version and the functions; then the digests, and the licence where the line has room."""
    first, licence = header.splitlines()
    title = textwrap.wrap(f"{first}: {', '.join(names)}", _WIDTH, subsequent_indent="#   ", break_on_hyphens=False)
    short = "".join(map(_short, digests.values()))
    digest = textwrap.wrap(f"# digest {_total(digests.values())}: {short}", _WIDTH, subsequent_indent="#   ")
    tag = licence.lstrip("# ")
    if len(digest[-1]) + len(f"; {tag}") > _WIDTH:
        return "\n".join([*title, *digest, f"#   {tag}"]) + "\n"
    return "\n".join([*title, *digest]) + f"; {tag}\n"


@functools.lru_cache(maxsize=16)
def _digests(text: str | bytes) -> Mapping[str, str]:
    """Return for each definition a digest of its parsed code, which no formatter changes."""
    found = {}
    for statement in syntax_tree(text).body:
        if name := next(_defined((statement,)), ""):
            found[name] = hashlib.sha256(_plain(statement).encode()).hexdigest()
    return found


def _short(digest: str) -> str:
    """Return a few characters of a digest."""
    number = int(digest[:15], 16)
    return "".join(_DIGITS[number // len(_DIGITS) ** place % len(_DIGITS)] for place in range(_SHORT_DIGEST))


def _total(digests: Iterable[str]) -> str:
    """Return one digest of all definitions, whatever their order."""
    return hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()[:8]


def _digest(raw: bytes) -> str:
    """Return a digest of all parsed code; the order of imports does not count."""
    body = [*map(_plain, syntax_tree(raw).body)]
    imports = [each for each in body if each.startswith("Import")]
    code = [each for each in body if not each.startswith("Import")]
    return hashlib.sha256("\n".join([*sorted(imports), *code]).encode()).hexdigest()[:16]


def _plain(node: object) -> str:
    """Return a syntax tree as text that is the same on every version of Python."""
    if isinstance(node, ast.AST):
        values = [(name, getattr(node, name, None)) for name in node._fields]
        given = [f"{name}={_plain(value)}" for name, value in values if value is not None and value != []]
        return f"{type(node).__name__}({','.join(given)})"
    return f"[{','.join(map(_plain, node))}]" if isinstance(node, list) else repr(node)


@dataclass(frozen=True, slots=True)
class _Written:
    """The header of a helper has a digest of all definitions that torchmigrate wrote, and a short one of each.

    Headers of the first releases have six digits for each definition, and no digest of all.
    """

    total: str
    shorts: Sequence[str]

    def has(self, digest: str) -> bool:
        """Return whether the header has the short form of a digest."""
        return (_short(digest) if self.total else digest[:6]) in self.shorts

    def is_all(self, digests: Iterable[str]) -> bool:
        """Return whether these are the digests of all that was written."""
        found = [*digests]
        return self.total == _total(found) if self.total else {each[:6] for each in found} == {*self.shorts}


def _written(raw: bytes) -> _Written:
    text = unix_lines(raw).decode(errors="replace")
    if found := _BRACKETED.match(text):
        return _Written("", re.findall("[0-9a-f]{6}", found[1]))
    header = _HEADER.match(text)
    total, _, shorts = (header[1] or "" if header else "").partition("SPDX")[0].partition(":")
    digits = "".join(re.findall("[0-9a-zA-Z]+", shorts))
    return _Written(total or "-", re.findall("." * _SHORT_DIGEST, digits))


def edited(raw: bytes) -> list[str]:
    """Return the names that a person has defined, or defined anew, in a vendored helper.

    All names where one was edited and its short digest does not tell which.
    """
    if not _body(raw):
        return []
    own, found = _written(raw), _digests(raw)
    theirs = [name for name, digest in found.items() if not own.has(digest)]
    is_hidden = not theirs and len(found) >= len(own.shorts) and not own.is_all(found.values())
    return [*found] if is_hidden else theirs


def is_untouched(raw: bytes) -> bool:
    """Return whether nothing in a vendored helper is a person's."""
    text = unix_lines(raw)
    if found := _FIRST.match(text):  # a digest of the bytes below the first line
        return found[2].decode() == hashlib.sha256(text.partition(b"\n")[2]).hexdigest()[:32]
    return bool(_body(text)) and _written(text).is_all(_digests(text).values()) and not [*_others(text)]


def _others(raw: bytes) -> Iterator[ast.stmt]:
    """Yield a file's statements that define nothing and import nothing, beside its docstring."""
    for statement in _body(raw):
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        is_import = isinstance(statement, (ast.Import, ast.ImportFrom))
        if not is_text and not is_import and not next(_defined((statement,)), ""):
            yield statement


def updated(raw: bytes, uses: Uses, owner: str = "") -> bytes | None:
    """Return a vendored helper with these functions, those that it has, and what a person wrote there as it is.

    None if that cannot be told apart: the file is not Python, an edited one of the first version, or two of its
    statements share a line. `raw` is the body of the class `owner` if that is given.
    """
    wanted = merged([held(raw), uses])
    make: Callable[..., bytes] = functools.partial(_members, owner=owner) if owner else vendored
    if is_untouched(raw):
        return make(wanted, ())
    text = unix_lines(raw).decode(errors="replace")
    header = _HEADER.match(text)
    body = _body(raw)
    if header is None or not body or any(a.end_lineno == b.lineno for a, b in pairwise(body)):
        return None
    theirs = {*edited(raw)}
    lines = text.splitlines(keepends=True)
    kept = [s for s in syntax_tree(text).body if next(_defined((s,)), "") in theirs] + [*_others(raw)]
    also = {name for s in kept for name in _global_names(_segment(lines, s))}
    inside = (n for s in kept for n in ast.walk(s) if isinstance(n, ast.Attribute))
    also |= {n.attr for n in inside if owner and chain_of(n.value) == owner}
    new = make(
        {**dict.fromkeys(also & {*everything()}, False), **wanted},
        {name for name in also if name.startswith("_")} - theirs,
    ).decode()
    return _woven(lines, new, theirs).encode()


def _segment(lines: list[str], statement: ast.stmt) -> str:
    first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", ()))])
    return "".join(lines[first - 1 : statement.end_lineno])


def _woven(lines: list[str], new: str, theirs: set[str]) -> str:
    """Return the lines of a helper with the definitions of a new one, but for those that are a person's."""
    fresh_lines = new.splitlines(keepends=True)
    fresh = {name: _segment(fresh_lines, s) for s in syntax_tree(new).body if (name := next(_defined((s,)), ""))}
    old = syntax_tree("".join(lines)).body
    had = {name for s in old if (name := next(_defined((s,)), ""))}
    imported = {alias for s in old for alias in _imported(s)}
    imports = [_segment(fresh_lines, s) for s in syntax_tree(new).body if {*_imported(s)} - imported]
    chunks: list[tuple[str, str]] = []  # the name of a definition, or "", and its text
    at = 0
    for statement in old:
        name, text = next(_defined((statement,)), ""), _segment(lines, statement)
        last = statement.end_lineno or statement.lineno
        chunks.append(("", "".join(lines[at : last - text.count("\n") - (not text.endswith("\n"))])))
        chunks.append((name, text if not name or name in theirs else fresh.get(name, "")))
        at = last
    chunks.append(("", "".join(lines[at:])))
    first = next((n for n, s in enumerate(old) if not isinstance(s, ast.Expr)), len(old))
    chunks[2 * first + 1 : 2 * first + 1] = [("", text) for text in imports]
    before = ""
    for name, text in fresh.items():
        if name not in had:
            after = next((n for n, (known, _) in enumerate(chunks) if known == before), None) if before else None
            after = after if after is not None else _last_import(chunks)
            chunks.insert(after + 1, (name, f"\n\n{text}"))
        before = name
    body = "".join(text for _, text in chunks)
    body = body[found.end() :] if (found := _HEADER.match(body)) else body
    order = [*_whole()[1]]
    digests = {name: digest for name, digest in _digests(body).items() if name not in theirs}
    names = sorted((n for n in _digests(body) if not n.startswith("_") and n in order), key=order.index)
    return _header(_whole()[0], names, digests) + body


def _last_import(chunks: list[tuple[str, str]]) -> int:
    texts = [text.startswith(("import ", "from ")) for _, text in chunks]
    return max((n for n, is_import in enumerate(texts) if is_import), default=0)


def _imported(statement: ast.stmt) -> Iterator[tuple[str, str, str]]:
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        home = (statement.module or "") if isinstance(statement, ast.ImportFrom) else ""
        yield from ((home, alias.name, alias.asname or alias.name) for alias in statement.names)


def is_current(raw: bytes) -> bool:
    """Return whether an unedited helper is what this version of torchmigrate writes."""
    return is_untouched(raw) and is_same(raw, vendored(held(raw)))


def is_same(one: bytes, other: bytes) -> bool:
    """Return whether two versions of the helper differ in layout and comments alone."""
    one, other = unix_lines(one), unix_lines(other)
    return one == other or _digest(one) == _digest(other)


def held(raw: bytes) -> Uses:
    """Return the functions of a vendored helper, in the forms that it has; nothing of the first version's whole."""
    if _FIRST.match(raw):
        return {}
    body = _body(raw)
    short = {d.name for d in body if isinstance(d, ast.FunctionDef) and _has_short_form(d)}
    found = Form.ANY if "_device" in _defined(body) else Form.EAGER
    if found and b"lru_cache" not in raw:
        found = Form.ONCE if b"_is_compiling" in raw else Form.EAGER | Form.ONCE
    found |= (Form.ANY if _COUNTS.search(raw) else Form.STARTS) | (Form.ANY if _ASKS_SIZE in raw else Form.ALONE)
    first = {d.name for d in body if isinstance(d, ast.FunctionDef) and (d.name != "device" or _takes_first(d, short))}
    forms = {
        name: found | (Form.SHORT if name in short else Form.ANY) | (Form.FIRST if name in first else Form.ANY)
        for name in _defined(body)
    }
    forms |= dict.fromkeys(_members_among(body), found)
    return {name: form for name, form in forms.items() if not name.startswith("_")}


@functools.cache
def _short_form(name: str) -> ast.arguments | None:
    """Return the parameters of a function's short form, None if it has none."""
    (node,) = syntax_tree(_whole()[1][_SHORT[name]].text).body if name in _SHORT else [None]
    return node.args if isinstance(node, ast.FunctionDef) else None


def _takes_first(node: ast.FunctionDef, short: Collection[str]) -> bool:
    """Return whether a `device` takes no index but the first device's."""
    (first,) = syntax_tree(_whole()[1]["_first"].text).body
    assert isinstance(first, ast.FunctionDef)
    return node.name in short or ast.unparse(node.args) == ast.unparse(first.args)


def _has_short_form(node: ast.FunctionDef) -> bool:
    short = _short_form(node.name)
    return short is not None and ast.unparse(node.args) == ast.unparse(short)


def is_short(name: str, count: int, keywords: Iterable[str | None]) -> bool:
    """Return whether the short form of a function takes so many arguments, and these keywords."""
    short = _short_form(name)
    by_place, by_name = (short.args, short.kwonlyargs) if short else ([], [])
    return count <= len(by_place) and {*keywords} <= {each.arg for each in [*by_place[count:], *by_name]}


def _fits(call: ast.Call, name: str) -> bool:
    is_plain = not any(isinstance(each, ast.Starred) for each in call.args)
    return is_plain and is_short(name, len(call.args), (each.arg for each in call.keywords))


def used_by(code: bytes, helper: str) -> Uses:
    """Return which of the helper's functions a file may use, if `helper` is the name of the helper's module."""
    try:
        tree = syntax_tree(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _with_all_members(everything()) if helper.encode() in code else {}
    known, found = everything(), dict[str, int]()
    aliases, direct = {helper}, dict[str, str]()
    nodes = [*walk(tree)]
    for node in nodes:
        match node:
            case ast.Import(names) | ast.ImportFrom(None, names):
                aliases |= {a.asname for a in names if a.asname and a.name.rpartition(".")[2] == helper}
            case ast.ImportFrom(str(module), names):
                aliases |= {a.asname for a in names if a.asname and a.name == helper}
                if module.rpartition(".")[2] == helper:
                    direct |= {a.asname or a.name: a.name for a in names}
    calls = {id(n.func): n for n in nodes if isinstance(n, ast.Call)}
    loaded = {id(n) for n in _run_once(tree)}
    common = (Form.ANY if compiles(code) else Form.EAGER) | (Form.ANY if defers_cuda(code) else Form.STARTS)
    common |= Form.ANY if forms_groups(code) else Form.ALONE
    owners, passed = set[int](), set[str]()
    asked = {id(n.value): n.attr for n in nodes if isinstance(n, ast.Attribute)}
    for node in nodes:
        name = ""
        if isinstance(node, ast.Attribute) and last_name(node.value) in aliases:
            name = node.attr
            owners.add(id(node.value))
        elif isinstance(node, ast.Name) and node.id in direct:
            name = direct[node.id]
        if name in known:
            form = _form(calls.get(id(node)), name, id(node) in loaded) | common
            found[name] = found.get(name, form) & form
            if (member := asked.get(id(node))) in _functions_by_class().get(name, ()):
                found[f"{name}.{member}"] = form
            elif name in _functions_by_class():
                passed.add(name)
    is_passed = "*" in direct or any(
        last_name(n) in aliases and id(n) not in owners for n in nodes if isinstance(n, ast.Name)
    )
    words = {
        word for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str) for word in _words(n, helper)
    }
    words |= {n.id for n in nodes if isinstance(n, ast.Name)} if "*" in direct else set()
    dotted = {word.partition(".")[2] for word in words if "." in word}
    named = {name: common for name in known if name in dotted or (is_passed and name in words)}
    whole = {name: found.get(name, common) for name in passed | named.keys()}
    return {**found, **named, **_with_all_members(whole)}


def _with_all_members(uses: Uses) -> Uses:
    """Return uses of which those of classes name all their members."""
    more = (
        (f"{owner}.{name}", owner) for owner, names in _functions_by_class().items() if owner in uses for name in names
    )
    return {**uses, **{member: uses[owner] for member, owner in more}}


def lacking(uses: Uses, raw: bytes) -> list[str]:
    """Return what is used and not in a helper; nothing of a class that is not there but its name."""
    there = {*public(raw)}
    gone = {*uses} - there - _members_among(_body(raw))
    return sorted(name for name in gone if "." not in name or name.partition(".")[0] in there)


def _form(call: ast.Call | None, name: str, is_once: bool) -> Form:
    """Return the form of a function that is enough for a call, or for a use that is no call."""
    if call is None:
        return Form.ANY
    form = Form.SHORT if _fits(call, name) else Form.ANY
    if not call.keywords and all(isinstance(a, ast.Constant) and repr(a.value) == "0" for a in call.args):
        form |= Form.FIRST
    return form | Form.ONCE if is_once or name in _RARE else form


def _run_once(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run at most once, when a file is loaded: those outside functions and loops."""
    stack: list[ast.AST] = [tree]
    while stack:
        for node in ast.iter_child_nodes(stack.pop()):
            if not isinstance(node, (*FUNCTIONS, ast.Lambda, *_LOOPS)):
                yield node
                stack.append(node)


def asks_when_loaded(raw: bytes, helper: str) -> bool:
    """Return whether loading a file calls the helper, in decorators and defaults, too."""
    try:
        todo: list[ast.AST] = [syntax_tree(raw)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    while todo:
        match todo.pop():
            case ast.Call(ast.Attribute(ast.Name(name), _)) if name == helper:
                return True
            case ast.FunctionDef(args=args) | ast.AsyncFunctionDef(args=args) as function:
                todo += [*function.decorator_list, *args.defaults, *(d for d in args.kw_defaults if d)]
            case ast.Lambda(args):
                todo += [*args.defaults, *(d for d in args.kw_defaults if d)]
            case ast.If(ast.Compare(ast.Name("__name__"))):
                pass
            case node:
                todo += ast.iter_child_nodes(node)
    return False


def _nodes_of(raw: bytes) -> list[ast.AST] | None:
    """Return all nodes of code; None, which may do anything, if it cannot be parsed."""
    try:
        return [*ast.walk(syntax_tree(raw))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@functools.lru_cache(maxsize=256)
def compiles(raw: bytes) -> bool:
    """Return whether code compiles functions, or may: it calls `compile` of anything but regular expressions."""
    if not any(word in raw for word in COMPILING):
        return False
    if b"dynamo" in raw or b"torch_compile" in raw:
        return True
    if (nodes := _nodes_of(raw)) is None:
        return True
    return any(map(_is_compiler, nodes))


@functools.lru_cache(maxsize=256)
def defers_cuda(raw: bytes) -> bool:
    """Return whether code does what has to come before CUDA starts: it forks, or sets CUDA_VISIBLE_DEVICES."""
    if not any(word in raw for word in DEFERRING):
        return False
    if (nodes := _nodes_of(raw)) is None:
        return True
    asked: dict[str, set[str]] = {}  # by name, the attributes that are read of it
    for node in nodes:
        if isinstance(node, ast.Attribute):
            asked.setdefault(last_name(node.value), set()).add(node.attr)
    return any(_defers_cuda(node, asked) for node in nodes)


@functools.lru_cache(maxsize=256)
def forms_groups(raw: bytes) -> bool:
    """Return whether code makes its process one of a group, hands on the function that does, or asks the others."""
    if not any(word in raw for word in GROUPING):
        return False
    if (nodes := _nodes_of(raw)) is None:
        return True
    names = {node.name if isinstance(node, ast.alias) else last_name(node) for node in nodes}
    return any(word.decode() in names for word in GROUPING)


def _defers_cuda(node: ast.AST, asked: Mapping[str, set[str]]) -> bool:
    match node:
        case ast.Constant("CUDA_VISIBLE_DEVICES") | ast.keyword("CUDA_VISIBLE_DEVICES"):
            return True
        case ast.Attribute() | ast.Name():
            return last_name(node) in ("fork", "forkpty", "ProcessPoolExecutor")
        case ast.ImportFrom("multiprocessing.dummy"):
            return False  # threads
        case ast.ImportFrom(str(module), names) if not _FORKING.isdisjoint(module.split(".")):
            return any(alias.name not in _STARTING_ANEW for alias in names)
        case ast.Import(names) | ast.ImportFrom(_, names):
            forking = (each for each in names if not _FORKING.isdisjoint(each.name.split(".")))
            return any(_may_fork(asked.get(each.asname or each.name.rpartition(".")[2], set())) for each in forking)
    return False


def _may_fork(attributes: Collection[str]) -> bool:
    """Return whether a module that may start copies does more than start processes anew, as far as a file shows."""
    return not attributes or any(name not in _STARTING_ANEW for name in attributes)


def _is_compiler(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(owner, "compile"):
            return last_name(owner) not in ("re", "regex")
        case ast.Attribute() | ast.Name():
            return (chain_of(node) or "").startswith("torch.export")
        case ast.ImportFrom(str(module), names) if module.partition(".")[0] == "torch":
            return module.startswith("torch.export") or any(alias.name in ("compile", "export") for alias in names)
    return False


def is_called(code: bytes, helper: str) -> bool:
    """Return whether a file imports a module of this name, and takes from it what our helper has and nothing else."""
    tree = ast.Module([*_body(code)], [])
    names = [alias.name for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom)) for alias in n.names]
    taken = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and last_name(n.value) == helper}
    return helper in names and bool(taken) and taken <= {*everything()}


def _words(node: ast.Constant, helper: str) -> Iterator[str]:
    """Yield a string that may name a function of the helper: alone (`getattr`), or after its module (`mock.patch`)."""
    parts = str(node.value).split(".")
    if len(parts) == 1:
        yield parts[0]
    elif helper in parts[:-1]:
        yield f"{helper}.{parts[parts.index(helper) + 1]}"
