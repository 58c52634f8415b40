"""Device expressions: the device that code such as `"cuda:%d" % rank` names, as a call of the helper."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from torchmigrate.base.system import expression_tree
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.semantic.references import helper_function, spell, spelled, strings_in
from torchmigrate.source.edits import Edit
from torchmigrate.syntax.resolver import chain_of, last_name
from torchmigrate.torch_api.names import DEVICE

DEVICE_NAME = re.compile(
    r"(^|_)(dev|dv|device|devices|loc|location|map_location|device_type|device_name|target_device|cuda_device)\d*$",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Device:
    """A CUDA device that code names. `index` is source text, or None for the current device."""

    index: str | None

    @property
    def as_device(self) -> str:
        return f"accel.device({self.index or ''})"

    @property
    def as_type(self) -> str:
        """Return the replacement that is a `str`, as the literal was."""
        return "accel.device_type()" if self.index is None else f"str(accel.device({self.index}))"


def makes_device(module: SemanticModel, value: ast.expr | None) -> bool:
    """Return whether a value is a call of `torch.device`, or of a function of the helper that gives a device."""
    if not isinstance(value, ast.Call):
        return False
    own = helper_function(module, value.func)
    return module.resolve(value.func) == "torch.device" or own in ("device", "current_device", "device_type")


def parse(module: SemanticModel, node: ast.AST) -> Device | None:
    """Return the device that a string expression names, or None if the expression is no CUDA device string."""
    match node:
        case ast.Constant(str(text)) if found := DEVICE.fullmatch(text):
            return Device(found.group(2))
        case ast.JoinedStr(values=[ast.Constant(str(text))]) if found := DEVICE.fullmatch(text):
            return Device(found.group(2))
        case ast.JoinedStr(values=[ast.Constant("cuda:"), ast.FormattedValue(value, -1, None)]):
            return Device(_text_in_fstring(module, node, value))
        case ast.BinOp(ast.Constant("cuda:"), ast.Add(), ast.Call(ast.Name("str"), [index], [])):
            return Device(module.text(index))
        case ast.BinOp(ast.Constant("cuda:"), ast.Add(), ast.Constant(str(digits))) if digits.isdecimal():
            return Device(digits)
        case ast.BinOp(ast.Constant("cuda:"), ast.Add(), index):
            return Device(f"int({module.text(index)})")
        case ast.BinOp(ast.Constant("cuda:%d" | "cuda:%s" | "cuda:%i"), ast.Mod(), ast.Tuple([index])):
            return Device(module.text(index))
        case ast.BinOp(ast.Constant("cuda:%d" | "cuda:%s" | "cuda:%i"), ast.Mod(), index) if not isinstance(
            index, ast.Tuple
        ):
            return Device(module.text(index))
        case ast.Call(ast.Attribute(ast.Constant(str(text)), "format"), [index], []) if re.fullmatch(
            r"cuda:\{(0|:d|0:d)?\}", text
        ):
            return Device(module.text(index))
    return None


def _text_in_fstring(module: SemanticModel, joined: ast.AST, value: ast.AST) -> str:
    """Return the source of the one value in an f-string, by the braces, as `ast` misplaces it before Python 3.12."""
    found = re.search(r"\{([^{}!:]+)\}", module.text(joined))
    inner = found.group(1).strip() if found else ""
    return inner if inner and ast.dump(expression_tree(inner)) == ast.dump(value) else ast.unparse(value)


def parse_device(module: SemanticModel, node: ast.AST) -> Device | None:
    """Return the device that a string expression, or a `torch.device(...)` of one, names; else None."""
    if isinstance(node, ast.Call) and module.resolve(node.func) == "torch.device":
        if len(node.args) == 1 and not node.keywords:
            return parse(module, node.args[0])
        if (
            len(node.args) == 2
            and not node.keywords
            and isinstance(node.args[0], ast.Constant)
            and node.args[0].value == "cuda"
        ):
            return Device(module.text(node.args[1]))
        return None
    return parse(module, node)


def is_cpu(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether an expression is `"cpu"` or `torch.device("cpu")`."""
    match node:
        case ast.Constant("cpu"):
            return True
        case ast.Call(func, [ast.Constant("cpu")], []):
            return module.resolve(func) == "torch.device"
    return False


def is_beside_cpu(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether a node stands in `"cuda" if flag else "cpu"`, which is a device, whatever it is called."""
    up = module.parent(node)
    return isinstance(up, ast.IfExp) and is_cpu(module, up.orelse if up.body is node else up.body)


def moves_nothing(call: ast.AST) -> bool:
    """Return whether a call moves a loss of torch's that holds no tensor: `nn.CrossEntropyLoss().cuda()`."""
    match call:
        case ast.Call(ast.Attribute(ast.Call(made, args, keywords), "cuda" | "to")):
            chain = chain_of(made) or ""
            has_weights = bool(args) or any(keyword.arg in (None, "weight", "pos_weight") for keyword in keywords)
            return chain.startswith(("nn.", "torch.nn.")) and chain.endswith("Loss") and not has_weights
    return False


def moves_data(module: SemanticModel, node: ast.AST) -> bool:
    """Return whether an expression is the device that something of torch's moves or makes tensors to."""
    up = module.parent(node)
    if isinstance(up, ast.keyword):
        return up.arg == "device"
    return isinstance(up, ast.Call) and node in up.args[:1] and last_name(up.func) == "to"


def without_blocking(module: SemanticModel, node: ast.expr) -> list[Edit]:
    """Return edits that make `non_blocking` False on MPS, which corrupts such data (pytorch #139550, #189690)."""
    if isinstance(node, ast.Constant):
        return [Edit(*module.span(node), spell("accel.non_blocking()", spelled(module)))] if node.value is True else []
    return wrapped(module, node, "accel.non_blocking(")


def wrapped(module: SemanticModel, node: ast.expr, opening: str) -> list[Edit]:
    start, end = module.span(node)
    return [Edit(start, start, spell(opening, spelled(module))), Edit(end, end, ")")]


def in_fstring(module: SemanticModel, node: ast.AST) -> bool:
    return module.nearest(node, ast.JoinedStr) is not None


def carrier(module: SemanticModel, node: ast.AST) -> tuple[ast.AST, ast.AST]:
    """Return the whole string expression around `node`, and the outermost `x if c else y` or `or` around it."""
    whole = node
    up = module.parent(whole)
    while up is not None:
        formatting = isinstance(up, ast.Attribute) and up.attr == "format"
        if isinstance(up, ast.JoinedStr) or (isinstance(up, ast.BinOp) and up.left is whole):
            whole = up
        elif formatting and isinstance(call := module.parent(up), ast.Call):
            whole = call
        else:
            break
        up = module.parent(whole)
    outer = whole
    while isinstance(up, (ast.IfExp, ast.BoolOp)) and not (isinstance(up, ast.IfExp) and up.test is outer):
        outer, up = up, module.parent(up)
    return whole, outer


def maps_cuda(module: SemanticModel, table: ast.Dict) -> bool:
    """Return whether a `map_location` moves what was saved on CUDA to some place but the CPU."""
    names_cuda = any("cuda" in text for text in strings_in(module, table))
    return names_cuda and not all(is_cpu(module, place) for place in table.values)
