"""Where a CUDA tensor type becomes the default, before a migration and after it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.default_type import is_cuda_default
from torchmigrate.edits import Finding
from torchmigrate.module import Site


def default_tensor_type(site: Site) -> Iterator[Finding]:
    """At the function itself, or at the dtype that the helper's is given."""
    up = site.call if site.qualified == "torch.set_default_tensor_type" else site.module.parent(site.ref)
    if isinstance(up, ast.Call) and is_cuda_default(up, site.scope, site.module.resolver):
        yield site.note(node=up)
