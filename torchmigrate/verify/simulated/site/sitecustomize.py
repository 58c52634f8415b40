"""Start the simulation in each Python process of a verified program, then run its own sitecustomize."""

import importlib
import importlib.util
import os
import sys
from typing import Any


def _load(name: str, path: str, **options: Any) -> None:
    spec: Any = importlib.util.spec_from_file_location(name, path, **options)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def _start() -> None:
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    _load("torchmigrate_simulated", os.path.join(here, "__init__.py"), submodule_search_locations=[here])
    startup = importlib.import_module("torchmigrate_simulated.startup")
    try:
        startup.prepare()
    except ValueError as error:  # Python would print a traceback, and run the program without the simulated device
        print(f"torchmigrate: {error}", file=sys.stderr, flush=True)
        os._exit(3)


def _chain() -> None:
    """Run the program's own sitecustomize: Python imports only the first one on the path, which is this file."""
    own = os.path.dirname(os.path.abspath(__file__))
    for folder in sys.path:
        path = os.path.join(folder or ".", "sitecustomize.py")
        if os.path.abspath(folder or ".") != own and os.path.isfile(path):
            _load("sitecustomize", path)
            return


if os.environ.get("TORCHMIGRATE_BACKEND"):
    _start()
_chain()
