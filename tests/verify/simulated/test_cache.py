"""Where the simulated device is kept once it is built."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from torchmigrate.verify.simulated.cache import cache_folder


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    cache_folder.cache_clear()
    yield
    cache_folder.cache_clear()


def test_its_own_variable_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "shared"))
    assert cache_folder() != tmp_path / "own"
    monkeypatch.setenv("TORCHMIGRATE_CACHE_DIR", str(tmp_path / "own"))
    cache_folder.cache_clear()
    assert cache_folder() == tmp_path / "own"
    assert cache_folder().is_dir()


def test_then_the_user_s(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TORCHMIGRATE_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "torchmigrate"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    cache_folder.cache_clear()
    assert cache_folder() == tmp_path / ".cache" / "torchmigrate"


def test_one_that_cannot_be_written_gives_way_to_a_private_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TORCHMIGRATE_CACHE_DIR", str(tmp_path / "file" / "below"))
    folder = cache_folder()
    assert folder.is_dir()
    assert folder.stat().st_mode & 0o077 == 0
    assert cache_folder() == folder
    folder.rmdir()
