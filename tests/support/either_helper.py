"""The runtime helper as a whole, or function by function: each from a vendored file that holds nothing else."""

from __future__ import annotations

import types
from typing import Any

from torchmigrate import runtime
from torchmigrate.project import helper_parts


class EitherHelper:
    """`accel.device` of the whole, or of a file of its own; private names are set in all files at once."""

    def __init__(self) -> None:
        vars(self).update(alone=False, _files={}, _set={})

    def holding(self, *names: str, short: bool = False) -> Any:
        """The whole, or one file with these functions."""
        if not self.alone:
            return runtime
        if (names, short) not in self._files:
            module = types.ModuleType("accel")
            exec(compile(helper_parts.vendored(dict.fromkeys(names, short)), "accel.py", "exec"), vars(module))
            self._files[names, short] = module
        module = self._files[names, short]
        vars(module).update({name: value for name, value in self._set.items() if name in vars(module)})
        return module

    def forget(self) -> None:
        """Import each vendored file anew when it is asked for next."""
        self._files.clear()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not self.alone:
            return getattr(runtime, name)
        if name not in helper_parts._SHORT:
            return getattr(self.holding(name), name)

        def call(*args: Any, **options: Any) -> Any:
            short = helper_parts.is_short(name, len(args), options)
            return getattr(self.holding(name, short=short), name)(*args, **options)

        call.__doc__ = getattr(self.holding(name), name).__doc__
        return call

    def __setattr__(self, name: str, value: Any) -> None:
        self._set[name] = value
        for module in (runtime, *self._files.values()):
            if name in vars(module):
                setattr(module, name, value)

    def __delattr__(self, name: str) -> None:
        setattr(self, name, _AT_FIRST[name])


_AT_FIRST = dict(vars(runtime))
accel = EitherHelper()
