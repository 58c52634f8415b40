"""What is asked of one file many times and answered once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from torchmigrate.module import Module

P = ParamSpec("P")
R = TypeVar("R")


def once(answer: Callable[Concatenate[Module, P], R]) -> Callable[Concatenate[Module, P], R]:
    """Remembers what a function says of a module, and of nodes or names in it, as long as the module lives."""

    @wraps(answer)
    def ask(module: Module, *args: P.args, **kwargs: P.kwargs) -> R:
        key: Hashable = (answer, args)
        if key not in module.answers:
            module.answers[key] = answer(module, *args, **kwargs)
        return module.answers[key]  # type: ignore[return-value]

    return ask  # type: ignore[return-value]


@once
def unparsed(module: Module, node: object) -> str:
    """`ast.unparse` of a node."""
    import ast

    return ast.unparse(node)  # type: ignore[arg-type]
