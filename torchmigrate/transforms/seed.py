"""`torch.cuda.manual_seed(_all)`: harmless off CUDA, where `torch.manual_seed` seeds every device (T9).

Rewritten only where `torch.manual_seed` does not run with the same seed in the same body.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchmigrate.edits import Finding
from torchmigrate.module import Site


def seed(site: Site) -> Iterator[Finding]:
    call = site.call
    assert site.qualified is not None
    if call is None or _seeded_beside(site, call):
        return
    name = site.qualified.rpartition(".")[2]
    yield from filter(None, (site.rewrite(f"{site.qualified}($$args)", f"accel.{name}($$args)"),))


def _seeded_beside(site: Site, call: ast.Call) -> bool:
    owner = site.module.function(call) or site.module.tree
    wanted = [ast.dump(a) for a in call.args]
    for node in ast.walk(owner):
        if isinstance(node, ast.Call) and [ast.dump(a) for a in node.args] == wanted:
            if getattr(node.func, "attr", getattr(node.func, "id", "")) == "manual_seed" and site.module.resolve(node.func) == "torch.manual_seed":
                return True
    return False
