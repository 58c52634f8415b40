"""The command `config`: show the settings of a command line and their origins, or a schema for editors."""

from __future__ import annotations

import os
import shutil
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

from typer import Option

from torchmigrate.cli import parameters as options


class ConfigFormat(str, Enum):
    """The formats of `config`."""

    TEXT = "text"
    JSON = "json"


class Schema(str, Enum):
    """The kinds of files for which there is a JSON schema."""

    CONFIG = "config"
    PYPROJECT = "pyproject"
    RULE = "rule"
    CATALOG = "catalog"


def config(
    paths: options.Paths = None,
    select: options.Names = None,
    ignore: options.Ignore = None,
    exclude: options.Exclude = None,
    torch: options.Torch = None,
    backends: options.Backends = None,
    unsafe_fixes: options.UnsafeFixes = None,
    runtime: options.RuntimeOption = None,
    style: options.StyleOption = None,
    config: options.Config = None,
    isolated: options.Isolated = False,
    schema: Annotated[Schema | None, Option(metavar="S", help="A JSON schema: config|pyproject|rule|catalog.")] = None,
    output_format: Annotated[ConfigFormat, Option(metavar="F", help="text|json")] = ConfigFormat.TEXT,
    output: options.Output = None,
) -> int:
    """Show the settings for PATHS, and where each comes from.

    With the options of a `check` or an `apply`: what that would go by.

    \b
    Examples:
      torchmigrate config
      torchmigrate config --schema rule -o rule.schema.json
    """
    given = locals()
    from torchmigrate.cli.output import emit

    given = {name: value for name, value in given.items() if name not in ("paths", "schema", "output_format", "output")}
    if schema:
        from torchmigrate.config import resolve

        emit([resolve.read(schema.value)], output)
    else:
        emit(
            [_render(paths or [Path()], given, output_format, output is None).encode(errors="surrogateescape")], output
        )
    return 0


def _render(paths: list[Path], given: dict[str, object], output_format: ConfigFormat, to_stdout: bool) -> str:
    from torchmigrate.cli.output import colours
    from torchmigrate.config.resolve import pack_errors, settings_for
    from torchmigrate.formats import effective_config as report
    from torchmigrate.surveys import effective_config

    settings = settings_for(paths, **given)  # type: ignore[arg-type]
    chosen, isolated = given["config"], bool(given["isolated"])
    asked = effective_config.Asked(paths, chosen if isinstance(chosen, Path) else None, isolated, given)
    with pack_errors():
        found = effective_config.gather(asked, settings)
    if output_format is ConfigFormat.JSON:
        return report.render(found) + "\n"
    is_terminal = to_stdout and sys.stdout.isatty() and colours(sys.stdout)
    width = shutil.get_terminal_size().columns if is_terminal else None
    return "\n".join(report.text(found, Path(os.path.realpath(os.curdir)), width)) + "\n"
