"""What the shell offers on <tab>. Names are read off the files, not parsed: a key press waits for this."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

Offer = list[tuple[str, str]]  # a value, and what fish and zsh show beside it

_SUMMARY = re.compile(r"""^summary\s*=\s*(["'])(.*)\1\s*$""", re.M)
_NAME = re.compile(r'^name\s*=\s*"(torch[\w.]*)"\s*$', re.M)


def names(incomplete: str) -> Offer:
    """Packs and rules, the last of a list with commas."""
    given, comma, last = incomplete.rpartition(",")
    return [(f"{given}{comma}{name}", help) for name, help in _starting(_packs_and_rules(), last)]


def tested(incomplete: str) -> Offer:
    """What `rules` takes."""
    return _starting([*_packs_and_rules(), ("test", "run the cases of rules")], incomplete)


def explained(incomplete: str) -> Offer:
    """Rules, and APIs once they are begun: there are too many to offer before."""
    offer = _starting(_rules(), incomplete)
    return [*offer, *apis(incomplete)] if incomplete else offer


def apis(incomplete: str) -> Offer:
    """Names of the catalog, as far as the next dot: `torch.cu` to `torch.cuda`, and to what begins so."""
    found = [name for name, _ in _starting(((name, "") for name in _apis()), incomplete)]
    near = [name for name in found if "." not in name[len(incomplete) :].lstrip(".")]
    return [(name, "") for name in near or found]


def backends(incomplete: str) -> Offer:
    """What `--backends` takes."""
    from torchmigrate.torch_api.backends import BACKENDS

    return _of_list(BACKENDS, incomplete)


def catalog_backends(incomplete: str) -> Offer:
    """What `catalog --backend` takes."""
    from torchmigrate.surveys.catalog_rows import BACKENDS

    return _of_list(BACKENDS, incomplete)


def verified(incomplete: str) -> Offer:
    """What `verify --backends` takes."""
    return _of_list(("cuda", "mps", "xpu", "npu", "mtia", "cpu"), incomplete)


def _of_list(known: Iterable[str], incomplete: str) -> Offer:
    given, comma, last = incomplete.rpartition(",")
    taken = given.split(",")
    return [(f"{given}{comma}{name}", "") for name in known if name.startswith(last) and name not in taken]


def _starting(offer: Iterable[tuple[str, str]], incomplete: str) -> Offer:
    return [(name, help) for name, help in offer if name.startswith(incomplete)]


def _packs_and_rules() -> Iterator[tuple[str, str]]:
    rules = _rules()
    yield from ((pack, "a pack") for pack in sorted({name.partition("/")[0] for name, _ in rules}))
    yield from rules


def _rules() -> Offer:
    files = (path for root in _roots() for path in sorted(root.glob("*/*.toml")) if path.parent.name != "catalog")
    return [(f"{path.parent.name}/{path.stem}", _first(_SUMMARY, path)) for path in files]


def _apis() -> list[str]:
    files = (path for root in _roots() for path in root.glob("catalog/*.toml"))
    return sorted({name for path in files for name in _NAME.findall(path.read_text("utf-8", errors="replace"))})


def _first(pattern: re.Pattern[str], path: Path) -> str:
    found = pattern.search(path.read_text(encoding="utf-8", errors="replace"))
    return found[2].replace('\\"', '"').replace("`", "") if found else ""


def _roots() -> list[Path]:
    """Where rules are, those of the project among them. A settings file that is wrong is no matter here."""
    from torchmigrate.base.text import UserError
    from torchmigrate.config import config_file
    from torchmigrate.rules import packs

    try:
        own = config_file.load([Path()]).rule_paths
    except UserError:
        own = ()
    return [packs.builtin(), *(path for path in own if path.is_dir())]
