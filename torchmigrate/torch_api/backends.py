"""The backends that the tool knows: their names, and which of them have a property of `data/backends.toml`."""

from __future__ import annotations

from collections.abc import Mapping

from torchmigrate.torch_api import facts

_ALL = facts("backends")


def having(*kinds: str) -> tuple[str, ...]:
    """Return the backends that have all these kinds: first those with a column, in the order of the columns."""
    found = [name for name, backend in _ALL.items() if {*kinds} <= {*backend["kinds"]}]
    return tuple(sorted(found, key=lambda name: _ALL[name].get("column", len(_ALL))))


def types_of(*kinds: str) -> tuple[str, ...]:
    """Return what torch calls the devices of the backends that have all these kinds."""
    return tuple(_ALL[name].get("type", name) for name in having(*kinds))


# the backends of settings, in the order of the data, as messages and schemas list them
BACKENDS = tuple(name for name, backend in _ALL.items() if "setting" in backend["kinds"])
# the columns of the catalog, one of which is no backend of torch
COLUMNS = tuple(name for name in having() if "column" in _ALL[name])
TITLES: Mapping[str, str] = {name: backend.get("title", name.upper()) for name, backend in _ALL.items()}
TOOLS: Mapping[str, str] = {name: _ALL[name]["tool"] for name in having() if "tool" in _ALL[name]}
# the accelerators other than CUDA that code may be written for
OTHERS = tuple(name for name in having("helper") if name != "cuda")
# what torch calls the devices of a backend that lies outside torch
EXTENSION: str = _ALL["privateuse1"]["type"]
# the libraries that carry tensors between processes, as nccl does for CUDA
COLLECTIVES = frozenset(name for backend in _ALL.values() for name in backend.get("collectives", ()))
# those libraries that the helper chooses
OF_HELPER = tuple(dict.fromkeys(_ALL[name]["collectives"][0] for name in OTHERS if "collectives" in _ALL[name]))
