"""Facts about the whole project, gathered before any file is rewritten. Nothing of it is imported or run."""

from __future__ import annotations

import ast
import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from torchmigrate import default_type, notebook, precision, regular
from torchmigrate.canonical import canonical
from torchmigrate.default_type import UnderDefault
from torchmigrate.files import MARKER
from torchmigrate.imports import ImportIndex
from torchmigrate.own_helper import OwnHelper
from torchmigrate.scope import Resolver, Scope
from torchmigrate.scopes import build

if TYPE_CHECKING:
    from torchmigrate.config import Settings

NAMES = ("accel", "torch_accel", "torchmigrate_accel")
PACKAGED = "torchmigrate.runtime"
_DEF_CUDA = re.compile(rb"\n[ \t]+def cuda\(")


@dataclass
class Facts:
    """What rules may know about the project around a file. Sent to workers; what is derived is derived there."""

    root: Path
    settings: Settings
    files: tuple[str, ...] = ()
    cuda_classes: frozenset[str] = frozenset()
    mentions_cuda: bool = True
    helper: str = "accel"
    torch: str | None = None
    own: OwnHelper | None = None
    texts: Mapping[str, bytes] = field(default_factory=dict)  # by path, of files that are not on disk as they are read
    fixing: frozenset[str] | None = None  # packs whose fixes are applied; None: all (split.py)
    accepted: Mapping[str, frozenset[tuple[str, int]]] | None = None  # by path: (rule, start); None: all (choices.py)
    _exports: dict[Path, Mapping[str, str]] = field(default_factory=dict, compare=False, repr=False)
    _scopes: dict[str, Scope | None] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def index(self) -> ImportIndex:
        return ImportIndex(self.root, self.files, self.texts)

    @cached_property
    def under_default(self) -> UnderDefault:
        """Which files run with a CUDA tensor type as the default; all files are read, once a rule asks."""
        return default_type.survey(self.index)

    @cached_property
    def old_precision(self) -> Mapping[str, tuple[str, ast.expr]]:
        """For each file, an old switch for TF32 (its file and place) in the same process; read once a rule asks."""
        return precision.survey(self.index)

    @cached_property
    def of_own_helper(self) -> frozenset[str]:
        """The project's own helper and all files that it imports: none of them can import it."""
        found: set[str] = set()
        stack = [self.own.path] if self.own else []
        while stack:
            path = stack.pop()
            if path not in found:
                found.add(path)
                stack += self.index.imported_by(path)
        return frozenset(found)

    def is_helper(self, qualified: str) -> bool:
        """Whether an import means the vendored helper (or the packaged one)."""
        return qualified == PACKAGED or qualified.rpartition(".")[2] == self.helper

    def reexport(self, path: Path, level: int, name: str, attribute: str) -> str | None:
        """What `from name import attribute` means where that module of the project imports it from elsewhere."""
        if not self.files:
            return None
        target = self.index.find(str(path), level, name, "")
        if target is None:
            return None
        found = self._exported(Path(target)).get(attribute)
        return found if found and self._is_certain(target, attribute, found) else None

    def _exported(self, path: Path) -> Mapping[str, str]:
        """What a module imports from torch, by the name it gives it; read from its import lines alone."""
        if path not in self._exports:
            found = self.index.imports.get(str(path), ())
            ours = [i for i in found if not i.level and i.module.partition(".")[0] == "torch"]
            self._exports[path] = {i.bound: f"{i.module}.{i.name}" if i.name else i.qualified for i in ours}
        return self._exports[path]

    def _is_certain(self, target: str, name: str, qualified: str) -> bool:
        """Whether the module binds the name to that alone: no fallback, no function of the same name."""
        if target not in self._scopes:
            try:
                self._scopes[target] = build(ast.parse(self.index.read(target))).module
            except (OSError, SyntaxError, ValueError, RecursionError):
                self._scopes[target] = None
        scope = self._scopes[target]
        return scope is not None and Resolver().dotted(name, scope) == canonical(qualified)

    def is_native(self, spec: str | None) -> bool:
        """Whether rewrites speak in torch's own words, and the project's torch has these."""
        return self.settings.style == "native" and self.torch_at_least(spec)

    def torch_at_least(self, spec: str | None) -> bool:
        """Whether the project's torch floor is at or above `>=X.Y`."""
        wanted, floor = version_of(spec), version_of(self.torch)
        return wanted is None or (floor is not None and floor >= wanted)


def version_of(spec: str | None) -> tuple[int, ...] | None:
    """The least release that a specifier takes; None where it names no floor: `<3.0`, `!=2.4`."""
    found = [_BOUND.fullmatch(clause.strip()) for clause in (spec or "").split(",")]
    return max(((int(m[1]), int(m[2] or 0)) for m in found if m), default=None)


def cuda_classes(raw: bytes) -> set[str]:
    """Classes in a file that define `cuda()` themselves."""
    if not _DEF_CUDA.search(raw):
        return set()
    raw = raw.removeprefix(codecs.BOM_UTF8)
    try:
        tree = ast.parse(raw)
    except (SyntaxError, ValueError, RecursionError):
        return set()
    classes = (n for n in ast.walk(tree) if isinstance(n, ast.ClassDef))
    return {c.name for c in classes if any(isinstance(f, ast.FunctionDef) and f.name == "cuda" for f in c.body)}


def telling(paths: Iterable[str], has_work: Callable[[bytes], bool]) -> Iterator[bytes]:
    """The texts of files that this run does not rewrite, where facts are made of what they say."""
    for path in sorted(paths):
        try:
            raw = regular.read(path)
        except OSError:
            continue
        mentions = b"cuda" in raw or NAMES[0].encode() in raw  # most do not: cheaper than to look for work
        if mentions and not raw.startswith(MARKER) and has_work(raw):
            yield code(path, raw)


def code(path: str, raw: bytes) -> bytes:
    """The Python of a file: of a notebook, its cells."""
    if not path.endswith(".ipynb"):
        return raw
    try:
        return notebook.split(raw).source.utf8
    except notebook.UnreadableNotebook:
        return b""


def helper_name(files: Iterable[str], texts: Iterable[bytes], standing_in: Mapping[str, bytes] | None = None) -> str:
    """`accel`, unless something of the project's is called that; a helper of ours that is there keeps its name, also
    one that has only a text that stands in for it."""
    known = standing_in or {}
    stems: dict[str, list[str]] = {}  # in small letters: on some disks Accel.py is accel.py
    for path in (f for f in files if f.endswith(".py")):
        stems.setdefault(_module_name(path).casefold(), []).append(path)
    for name in NAMES:
        if any(is_ours(Path(p), known.get(p)) for p in stems.get(name, ())):
            return name
    words = {name: re.compile(rb"(?<![\w\"'.-])" + name.encode() + rb"(?![\w\"'-])") for name in NAMES}
    texts = list(texts)
    for name in NAMES:
        if name not in stems and not any(name.encode() in text and words[name].search(text) for text in texts):
            return name
    return NAMES[-1]


def _module_name(path: str) -> str:
    parts = path.rsplit("/", 2)
    return parts[-2] if parts[-1] == "__init__.py" else parts[-1].removesuffix(".py")


def is_ours(path: Path, text: bytes | None = None) -> bool:
    """Whether a file, or the text that stands in for it, is a helper that torchmigrate wrote."""
    if text is not None:
        return text.startswith(MARKER)
    try:
        return regular.read(path, len(MARKER)) == MARKER
    except OSError:
        return False


# no version has more digits; Python refuses to read thousands of them
_BOUND = re.compile(r"(?:>=?|={2,3}|~=)?\s*(\d{1,9})(?:\.(\d{1,9}))?(?:[.*][\d.*]*)?")
_FLOOR = re.compile(r"""["']?\btorch\s*(?:>=|==|~=|>)\s*(\d{1,9}\.\d{1,9})(?!\d)""")


def torch_floor(root: Path) -> tuple[str, str] | None:
    """(`>=X.Y`, the file and line that say so) from the project's own dependencies."""
    for name in ("pyproject.toml", "setup.cfg", "setup.py", *sorted(p.name for p in root.glob("requirements*.txt"))):
        try:
            text = regular.text(root / name)
        except OSError:
            continue
        if found := _FLOOR.search(text):
            return f">={found.group(1)}", f"{name}:{text.count(chr(10), 0, found.end()) + 1}"
    return None
