"""The one command of docs/hardware.md: what it runs, what it says of a machine, and its exit status."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

SPEC = importlib.util.spec_from_file_location("on_hardware", ROOT / "fixtures" / "on_hardware.py")
assert SPEC and SPEC.loader
on_hardware = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(on_hardware)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What torchmigrate answers there: the devices, and a verdict per backend."""
    told: dict[str, Any] = {"devices": {}, "verdict": "PASS", "status": 0, "asked": []}

    def asked(*words: str) -> tuple[int, str, str]:
        told["asked"].append(words)
        if words[0] == "backends":
            return 0, json.dumps({"devices": told["devices"], "torch": "2.13.0"}), ""
        names = words[words.index("--backends") + 1].split(",")
        runs = [{"project": "rewritten", "backend": name, "verdict": told["verdict"]} for name in names]
        return told["status"], json.dumps({"runs": runs}), "note: x\n"

    monkeypatch.setattr(on_hardware, "asked", asked)
    return told


def device(error: str | None = None) -> dict[str, Any]:
    return {"count": 1, "name": "Apple M1", "error": error}


def test_a_real_device_is_used_alone(
    answers: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers["devices"] = {"mps": device()}
    simulated = {"fixtures": {"cnn": {"runs": [{"project": "rewritten", "backend": "mps", "verdict": "FAIL"}]}}}
    (tmp_path / "s.json").write_text(json.dumps(simulated))
    files = [str(tmp_path / "e.json"), "--against", str(tmp_path / "s.json")]
    assert on_hardware.main([*files, "--only", "cnn", "ff"]) == 0
    assert [words[words.index("--backends") + 1] for words in answers["asked"][1:]] == ["mps", "mps"]
    seen = json.loads((tmp_path / "e.json").read_text())
    assert seen["backends"] == ["mps"] and sorted(seen["fixtures"]) == ["cnn", "ff"]
    out = capsys.readouterr().out
    assert "mps: 1 x Apple M1, computes\n" in out and "cnn on mps: simulated FAIL, real PASS\n" in out
    assert out.splitlines()[-1].startswith("| mps | Apple M1 | ") and out.endswith("| 2.13.0 | 2 of 2 |\n")


def test_what_is_not_shown_is_no_success(
    answers: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [str(tmp_path / "e.json"), "--only", "ff"]
    answers["devices"] = {"mps": device("RuntimeError: MPS backend out of memory")}
    assert on_hardware.main(command) == 2
    out = capsys.readouterr().out
    assert "does not compute: RuntimeError: MPS backend out of memory" in out and "these were simulated" in out
    answers["devices"] = {"mps": device()}
    answers["status"] = 2
    assert on_hardware.main(command) == 2
    answers.update(status=1, verdict="DIFFERS")
    assert on_hardware.main(command) == 1
    assert capsys.readouterr().out.endswith("| 0 of 1 |\n")


def test_a_run_that_is_cut_off_keeps_what_it_saw(
    answers: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers["devices"] = {"mps": device()}
    verified = on_hardware.verified

    def cut_off(name: str, *about: Any) -> Any:
        if name == "cnn":
            raise KeyboardInterrupt
        return verified(name, *about)

    monkeypatch.setattr(on_hardware, "verified", cut_off)
    with pytest.raises(KeyboardInterrupt):
        on_hardware.main([str(tmp_path / "e.json"), "--only", "ff", "cnn"])
    assert list(json.loads((tmp_path / "e.json").read_text())["fixtures"]) == ["ff"]


def test_each_fixture_s_first_command_is_run() -> None:
    found = dict(on_hardware.commands([]))
    assert {"cnn", "ff", "lstm", "resnet"} <= found.keys() and found["cnn"] == ["python", "train.py"]
    assert not any("{" in word for command in found.values() for word in command)
