"""Define the commands `rules`, `explain` and `catalog`; each imports what it needs when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from torchmigrate.cli import parameters
from torchmigrate.cli.parameters import CatalogFormat, Output


def rules(
    names: Annotated[
        list[str] | None,
        Argument(
            metavar="NAMES",
            help="Packs or rules; or `test` and packs, rules, files or folders; or `new` and PACK/NAME.",
            autocompletion=parameters.tested,
        ),
    ] = None,
) -> int:
    """List rules; `rules test` runs their cases, `rules new` writes one.

    \b
    Examples:
      torchmigrate rules                  all
      torchmigrate rules device stream    two packs
      torchmigrate rules test my-rules    the cases of a folder
      torchmigrate rules test stream      the cases of a pack
      torchmigrate rules new house/gpu    a skeleton with two cases
    """
    given = names or []
    if given[:1] in (["test"], ["new"]):
        from torchmigrate.cli.commands import rule_authoring

        return rule_authoring.test(given[1:]) if given[0] == "test" else rule_authoring.new(given[1:])
    from torchmigrate.cli.commands import catalog as rules_

    return rules_.listing(given)


def explain(
    name: Annotated[str, Argument(metavar="NAME", help="A rule or a torch API.", autocompletion=parameters.explained)],
) -> int:
    """Say what a rule does and why, or what becomes of a torch API.

    \b
    Examples:
      torchmigrate explain device/tensor-cuda
      torchmigrate explain torch.cuda.empty_cache
    """
    from torchmigrate.cli.commands import catalog as rules_

    return rules_.explain(name)


def catalog(
    names: Annotated[
        list[str] | None,
        Argument(metavar="NAMES", help="APIs, prefixes (`torch.cuda`), globs.", autocompletion=parameters.apis),
    ] = None,
    backend: Annotated[
        list[str] | None,
        Option(metavar="NAMES", help="Only what departs from CUDA there.", autocompletion=parameters.catalog_backends),
    ] = None,
    project: Annotated[Path | None, Option(metavar="PATH", help="Only what this project uses, with counts.")] = None,
    output_format: Annotated[CatalogFormat, Option(metavar="F", help="text|markdown|json")] = CatalogFormat.TEXT,
    output: Output = None,
) -> int:
    """Say what each torch API does on each backend.

    It lists the APIs that name a device or exist on one backend only, and what becomes of each.

    \b
    Examples:
      torchmigrate catalog torch.cuda.memory
      torchmigrate catalog --backend mps --project .
    """
    given = locals()
    from torchmigrate.cli.commands import catalog as catalog_

    return catalog_.run(**given)
