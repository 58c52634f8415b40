"""Codemods for LibCST's own runner: what a person would begin with, and it does nothing."""

from __future__ import annotations

import libcst as cst
from libcst.codemod import CodemodCommand, VisitorBasedCodemodCommand
from libcst.metadata import QualifiedNameProvider


class Trivial(CodemodCommand):
    """Parse and print."""

    DESCRIPTION = "nothing"

    def transform_module_impl(self, tree: cst.Module) -> cst.Module:
        return tree


class Qualified(VisitorBasedCodemodCommand):
    """Ask for the qualified name of each call, as a codemod has to that shall tell torch.cuda from another cuda."""

    DESCRIPTION = "nothing"
    METADATA_DEPENDENCIES = (QualifiedNameProvider,)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        self.get_metadata(QualifiedNameProvider, original_node.func, None)
        return updated_node
