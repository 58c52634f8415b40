"""What a parameter's annotation says of None, once its default is None; where that is asked; lists of devices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import texts_after, write_tree

Migrated = Callable[..., str]


@pytest.mark.parametrize(
    ("head", "before", "after"),
    [
        ("", "str | torch.device", "str | torch.device | None"),
        ("", '"str | torch.device"', '"str | torch.device | None"'),
        ("from typing import Union\n", "Union[str, torch.device]", "Union[str, torch.device, None]"),
        ("import typing as t\n", "t.Union[str, torch.device]", "t.Union[str, torch.device, None]"),
        ("from typing import Optional\n", "str", "Optional[str]"),
        ("from typing import Optional, Union\n", "Union[str, None]", "Union[str, None]"),
        ("", '"str | None"', '"str | None"'),
        ("", "str | None", "str | None"),
        ("", "str", "str"),
        ("Union = dict\n", "Union[str, int]", "Union[str, int]"),
    ],
)
def test_a_union_takes_none(head: str, before: str, after: str, migrated: Migrated) -> None:
    found = migrated(f'{head}import torch\ndef f(x, device: {before} = "cuda"):\n    return x.to(device)\n')
    assert f"device: {after} = None)" in found


LOOP = '        for d in ("cpu", "cuda"):\n            torch.zeros(2).to(d)\n'


@pytest.mark.parametrize("ask", ["not torch.cuda.is_available()", "torch.cuda.device_count() < 2"])
@pytest.mark.parametrize("of_class", [True, False])
def test_a_list_of_devices_changes_with_the_skip_above_it(ask: str, of_class: bool, migrated: Migrated) -> None:
    skip = f"@unittest.skipIf({ask}, 'x')\n"
    head = f"{skip}class T:\n    def test(self):\n" if of_class else f"class T:\n    {skip}    def test(self):\n"
    found = migrated(f"import unittest\nimport torch\n{head}{LOOP}")
    assert 'for d in ("cpu", accel.device_type()):' in found
    assert "torch.cuda" not in found


def test_it_stays_where_nothing_is_skipped_for_want_of_a_device(migrated: Migrated) -> None:
    text = f"import unittest\nimport torch\nclass T:\n    @unittest.skipIf(True, 'x')\n    def test(self):\n{LOOP}"
    assert migrated(text) == text


def test_it_stays_with_a_skip_that_stays(migrated: Migrated) -> None:
    only = "        torch.cuda.cudart().cudaProfilerStart()\n"
    skip = "    @unittest.skipIf(not torch.cuda.is_available(), 'x')\n"
    text = f"import unittest\nimport torch\nclass T:\n{skip}    def test(self):\n{LOOP}{only}"
    assert migrated(text) == text


def lazily(migrated: Migrated, body: str) -> str:
    text = f"import torch\n\n\ndef f(x, device=torch.device('cuda')):\n{body}\n"
    return migrated(text).partition("device=None):\n")[2]


def test_a_comment_stays_above_its_statement(migrated: Migrated) -> None:
    """Found in NVlabs/edm, where the comment came to stand above the new lines."""
    added = "    if device is None:\n        device = accel.device()\n"
    body = "    # The first rank comes first.\n    # Then the others.\n    return x.to(device)\n"
    assert lazily(migrated, body.rstrip()) == added + body
    assert lazily(migrated, f'    """Do."""\n{body.rstrip()}') == f'    """Do."""\n{added}{body}'


def test_a_comment_that_gives_types_stays_first(migrated: Migrated) -> None:
    done = lazily(migrated, "    # type: (Tensor, torch.device) -> Tensor\n    return x.to(device)")
    assert done.startswith("    # type: (Tensor, torch.device) -> Tensor\n    if device is None:\n")


def test_the_indentation_of_the_file_is_kept(migrated: Migrated) -> None:
    assert lazily(migrated, "  return x.to(device)").startswith("  if device is None:\n    device = accel.device()\n")
    assert lazily(migrated, "\treturn x.to(device)").startswith("\tif device is None:\n\t\tdevice = accel.device()\n")


SUBMITTED = """import argparse
import torch
def options():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--device", default="cuda")
    return parser
def main(args):
    return torch.zeros(2).to(torch.device(args.device))
"""
SUBMITS = (
    "import {}\nimport main as program\ndef run():\n    args = program.options().parse_args()\n    return {}, args\n"
)


def test_the_default_of_an_option_stays_that_another_machine_gets(tmp_path: Path) -> None:
    files = {"main.py": SUBMITTED, "submit.py": SUBMITS.format("submitit", "submitit.AutoExecutor")}
    assert "main.py" not in texts_after(write_tree(tmp_path / "jobs", files))
    files["submit.py"] = SUBMITS.format("json", "json.dumps")
    assert "default=accel.device_type()" in texts_after(write_tree(tmp_path / "plain", files))["main.py"]
