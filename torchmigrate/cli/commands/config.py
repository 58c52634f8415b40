"""Define `config` (settings and their origins, or a schema for editors) and `helper` (copies of the helper)."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from torchmigrate.cli import parameters as options

if TYPE_CHECKING:
    from torchmigrate.engine.planner import Plan


class ConfigFormat(str, Enum):
    """These are the formats of `config`."""

    TEXT = "text"
    JSON = "json"


class Schema(str, Enum):
    """There is a JSON schema for each of these kinds of files."""

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

    With options of `check` or `apply`, it shows the settings that this run would have.

    \b
    Examples:
      torchmigrate config
      torchmigrate config --schema rule -o rule.schema.json
    """
    given = locals()
    from torchmigrate.cli.output import emit

    given = {name: value for name, value in given.items() if name not in ("paths", "schema", "output_format", "output")}
    if schema:
        from torchmigrate.config import config_file

        emit([config_file.schema(schema.value)], output)
    else:
        emit(
            [_render(paths or [Path()], given, output_format, output is None).encode(errors="surrogateescape")], output
        )
    return 0


def _render(paths: list[Path], given: dict[str, object], output_format: ConfigFormat, to_stdout: bool) -> str:
    from torchmigrate.cli.output import colours
    from torchmigrate.config.config_file import pack_errors, settings_for
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


def helper(
    paths: options.Paths = None,
    update: Annotated[bool, Option("--update", help="Write copies that are missing, old or incomplete.")] = False,
    explain: Annotated[bool, Option("--explain", help="Say what the helper is, and how to remove it.")] = False,
    runtime: options.RuntimeOption = None,
    allow_dirty: options.AllowDirty = False,
    config: options.Config = None,
    isolated: options.Isolated = False,
) -> int:
    """Show the copies of the helper and who calls them, and update them.

    \b
    Examples:
      torchmigrate helper              the copies in this project
      torchmigrate helper --update     bring them up to date, nothing else
      torchmigrate helper --explain    what accel.py is
    """
    if explain:
        print(_EXPLAINED)
        return 0
    from torchmigrate.cli.migration import run
    from torchmigrate.cli.parameters import Format
    from torchmigrate.cli.selection import Request
    from torchmigrate.config.config_file import pack_errors, settings_for
    from torchmigrate.diagnostics.finding import Changed, Failed
    from torchmigrate.engine import planner

    none: dict[str, None] = dict.fromkeys(("select", "ignore", "exclude", "torch", "backends"))
    given: dict[str, Any] = {**none, "config": config, "isolated": isolated, "runtime": runtime}
    places = paths or [Path()]
    with pack_errors():
        found = planner.plan_helpers(places, settings_for(places, **given))
    here = Path(os.path.realpath(os.curdir))
    changes = [result for result in found.results if isinstance(result, Changed)]
    failed = [result for result in found.results if isinstance(result, Failed)]
    request = Request("apply", tuple(places), Format.TEXT, None, 1, False, False, False, False, allow_dirty)
    if update:
        failed += [result for result in run.write(changes, request) if isinstance(result, Failed)]
        print("\n".join(f"wrote {os.path.relpath(c.path, here)}" for c in changes) or "All copies are up to date.")
    else:
        print("\n".join(_of_copies(found, here)) or "There is no helper: no file needs one yet, or none was migrated.")
    for result in failed:
        print(f"error: {os.path.relpath(result.path, here)}: {result.error}", file=sys.stderr)
    return 2 if failed else 0


_EXPLAINED = """\
accel.py answers torch.cuda's questions for whatever accelerator is here, or none. `torchmigrate apply` writes it.
It holds the functions that the project's files call, and what these need: torch and the standard library only.
On CUDA each function is torch.cuda's own. On other devices it is the backend's, or what its docstring says.

It is under the licence 0BSD: you may use, change and copy it, and need not name anybody.
Its header has its version, its functions, and digests that tell which functions you edited. Those stay yours.

A second `torchmigrate apply` updates it; so does `torchmigrate helper --update`, which rewrites nothing else.
A notebook that stands alone, and a script under `--runtime inline`, holds the functions itself as a class `accel`.

To take it out again before you commit: `torchmigrate undo`. Later: write torch's own calls in place of `accel.`
(`torchmigrate apply --style native` does that in new rewrites from torch 2.9 on), then delete the file.
`torchmigrate apply --runtime package` imports it from torchmigrate; `helper = "mypkg.device"` calls your own module."""


def _of_copies(found: Plan, here: Path) -> Iterator[str]:
    """Yield what is known of each copy of the helper: its state, its functions, and the files that call them."""
    from torchmigrate.diagnostics.finding import Changed
    from torchmigrate.project import helper_parts
    from torchmigrate.source.encoding import holds_class

    changed = {str(result.path): result for result in found.results if isinstance(result, Changed)}
    for path, raw, users in found.copies:
        name, result = os.path.relpath(path, here), changed.get(path)
        is_class = holds_class(raw)
        version, functions, edited = helper_parts.described(raw)
        state = "is up to date" if result is None else "is missing" if not raw else "is old, or lacks functions"
        holds = " (holds it as a class)" if is_class else ""
        yield f"{name}{holds}: {f'version {version}, ' if version else ''}{state}"
        if functions:
            yield from _wrapped(f"functions: {', '.join(functions)}")
        if edited:
            yield f"  edited by hand, and left so: {', '.join(edited)}"
        if not is_class:
            called = ", ".join(os.path.relpath(user, here) for user in users) or "no file"
            yield from _wrapped(f"called by: {called}")


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 100, initial_indent="  ", subsequent_indent="    ")
