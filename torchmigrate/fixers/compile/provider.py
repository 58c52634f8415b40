"""onnxruntime's execution providers, where code asks for NVIDIA's: a list of them is data, a session's is not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchmigrate.diagnostics.finding import Finding
from torchmigrate.fixers.context import RuleContext
from torchmigrate.symbols.resolver import chain_of
from torchmigrate.torch_api.names import PROVIDER

_OTHERS = re.compile(r"(CoreML|OpenVINO|CANN|MIGraphX|ROCM|Dml|QNN)ExecutionProvider|get_available_providers")
_TAKES = ("InferenceSession", "set_providers", "append", "insert", "extend")
_NAMED = re.compile(r"providers?$", re.I)


def provider(site: RuleContext) -> Iterator[Finding]:
    outer, up = site.node, site.parent
    while isinstance(up, (ast.List, ast.Tuple, ast.BinOp, ast.BoolOp, ast.IfExp)):
        outer, up = up, site.module.parent(up)
    if _OTHERS.search(site.module.source.text) or not _is_first(site.node, outer):
        return
    match up:
        case ast.keyword(arg) if _NAMED.search(arg or ""):
            yield site.note()
        case ast.Call(func) if _name(func) in _TAKES and (_name(func)[0].isupper() or _NAMED.search(ast.unparse(func))):
            yield site.note()
        case ast.Assign([target]) | ast.AnnAssign(target) if _NAMED.search(_name(target)):
            yield site.note()
        case ast.Dict(keys, values) if any(
            v is outer and isinstance(k, ast.Constant) and _NAMED.search(str(k.value))
            for k, v in zip(keys, values, strict=True)
        ):
            yield site.note()
        case ast.arguments() if any(_NAMED.search(a.arg) for a in (*up.args, *up.kwonlyargs)):
            yield site.note()


def _name(node: ast.expr) -> str:
    return str(chain_of(node) or getattr(node, "attr", "")).rpartition(".")[2]


def _is_first(node: ast.AST, outer: ast.AST) -> bool:
    """One finding for TensorRT and CUDA in one list."""
    found = (n for n in ast.walk(outer) if isinstance(n, ast.Constant) and PROVIDER.fullmatch(str(n.value)))
    return min(found, key=lambda n: (n.lineno, n.col_offset), default=None) is node
