"""The keys of `[tool.torchmigrate]`: how each is validated, and how it is documented."""

from __future__ import annotations

from collections.abc import Mapping
from keyword import iskeyword
from typing import Any, NamedTuple

from torchmigrate.base import globs
from torchmigrate.base.schema import BOOLEAN, STRING, Kind, matching, member, one_of, strings, table_of
from torchmigrate.base.text import short
from torchmigrate.torch_api.backends import BACKENDS
from torchmigrate.torch_api.names import SPEC

_NAME = r"[^/,*\s](?:[^/,*]*[^/,*\s])?"
NAME = matching(rf"{_NAME}(?:/{_NAME})?", 'name packs or rules, as "device" or "device/tensor-cuda"')


class Key(NamedTuple):
    """One key; `about` and `default` are shown in editors and in the documentation, `examples` are example values."""

    kind: Kind
    about: str
    default: str
    examples: tuple[object, ...] = ()


def _glob(value: object) -> str:
    glob = str(STRING(value))
    globs.check(glob.removeprefix("!"))
    return glob


def _exclusion(value: object) -> str:
    if (glob := str(STRING(value))).startswith("!"):
        raise ValueError(f"has {glob!r}: an exclusion is not taken back; name what to exclude")
    return globs.check(glob)


def _exclusions(value: object) -> tuple[str, ...]:
    globs.check_all(strings()(value))
    return tuple(strings(_EXCLUSION)(value))


def _ignores(value: object) -> dict[str, tuple[str, ...]]:
    found = _IGNORES_OF_GLOBS(value)
    if sum(1 for glob in found for _ in globs.alternatives(glob)) > _MOST_IGNORES:
        raise ValueError(f"has more than {_MOST_IGNORES:,} patterns: name folders instead of files")
    return dict(found)


def _module_name(value: object) -> str:
    name = str(STRING(value))
    if not _is_dotted(name):
        module = name.removesuffix(".py").strip("./").replace("/", ".")
        example = module if _is_dotted(module) else "mypkg.utils.device"
        raise ValueError(f"must be a module's name, as {example!r}, not {short(name)!r}")
    return name


def _is_dotted(name: str) -> bool:
    """Return whether `name` is a dotted module name that an `import` statement accepts."""
    return len(name) < 500 and all(part.isidentifier() and not iskeyword(part) for part in name.split("."))


# What `globs.check` refuses, as far as a regular expression can: backslashes, nothing but dots and slashes, `..`.
_PATH = r"(?!\.\./)(?!.*/\.\./)(?=.*[^./\s])[^\\]+"
_GLOB = Kind(_glob, {"type": "string", "pattern": f"^!?{_PATH}$"})
_EXCLUSION = Kind(_exclusion, {"type": "string", "pattern": f"^(?!!){_PATH}$"})
_EXCLUSIONS = Kind(_exclusions, strings(_EXCLUSION).schema)
_MOST_IGNORES = 1_000  # patterns of `per-file-ignores`: each file is compared with all of them
_IGNORES_OF_GLOBS = table_of(strings(NAME), _GLOB)
_IGNORES = Kind(_ignores, _IGNORES_OF_GLOBS.schema)
_LIBRARY = matching(r"[^\W\d]\w*", 'be the name of a top-level module, as "monai"')
_MODULE = Kind(_module_name, {"type": "string", "pattern": r"^[^\W\d]\w*(\.[^\W\d]\w*)*$"})

KEYS: Mapping[str, Key] = {
    "select": Key(
        strings(NAME, least=1), "Only these packs and rules.", "all", (["device", "memory/empty-cache"],)
    ),
    "ignore": Key(strings(NAME), "Not these packs and rules.", "none", (["device/map-location"],)),
    "per-file-ignores": Key(
        _IGNORES,
        "Packs and rules that do not speak of some files: globs, relative to the root, with a list of names each. "
        "`!glob` is all files but those.",
        "none",
        ({"benchmarks/**": ["memory"], "*_cuda.py": ["device", "stream/event"]},),
    ),
    "exclude": Key(
        _EXCLUSIONS,
        "Files and folders that are never read, in place of the usual ones (`.venv`, `node_modules`, ...).",
        "the usual ones",
        ([".venv", "build"],),
    ),
    "extend-exclude": Key(
        _EXCLUSIONS, "More files and folders that are never read.", "none", (["third_party", "docs/**/old_*"],)
    ),
    "unsafe-fixes": Key(BOOLEAN, "Apply the unsafe fixes, too.", "false", (True,)),
    "rule-paths": Key(
        strings(),
        "Folders of your own packs (`<pack>/<rule>.toml`), relative to the file that names them.",
        "none",
        (["tools/rules"],),
    ),
    "torch": Key(
        SPEC,
        "The torch that the project supports.",
        "the floor in its own dependencies",
        (">=2.1",),
    ),
    "runtime": Key(
        one_of("vendor", "package", "inline"),
        "Where the helper comes from: a copy in the project, `torchmigrate.runtime`, or a class in each single-file "
        "script.",
        '"vendor"',
        ("vendor",),
    ),
    "style": Key(
        one_of("auto", "helper", "native"),
        "Call the helper, or torch.accelerator wherever that is the same; auto: the latter from torch >= 2.6 on.",
        '"auto"',
        ("helper",),
    ),
    "helper": Key(
        _MODULE, "The project's own device helper, a module, in place of ours.", "none", ("mypkg.utils.device",)
    ),
    "helper-map": Key(
        table_of(STRING),
        "What the project's helper calls the helper's functions, where the names differ.",
        "the same names",
        ({"device": "get_device"},),
    ),
    "torch-libraries": Key(
        strings(_LIBRARY),
        "More libraries that are built on torch, by the names that are imported: in a file that imports one, a device "
        "is torch's.",
        "none",
        (["monai"],),
    ),
    "backends": Key(
        strings(member(BACKENDS, "backend")), "Whose problems to report.", "all", (["mps", "xpu"],)
    ),
}  # fmt: skip


def check(name: str, value: object) -> Any:
    """Return the validated value of a key as Settings hold it. Raises ValueError."""
    return KEYS[name].kind(value)
