"""The output folder: one folder for each repository, whose summary is written last and in one step, so that a run that
was killed goes on where it was."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from torchmigrate.base import file_io, lock
from torchmigrate.base.text import UserError
from torchmigrate.fleet.task import FAILED, Outcome, Summary

FILES = ("changes.patch", "changes.bundle", "findings.json", "verify.json", "log.txt")
_MARK = ".torchmigrate-fleet"
_SCRATCH = ".scratch"


class Store:
    """The folder of one fleet."""

    def __init__(self, top: Path) -> None:
        self.top = Path(os.path.realpath(top))

    @contextlib.contextmanager
    def opened(self) -> Iterator[Path]:
        """Make it or go on in it; gives a folder for what is needed meanwhile. Raises UserError for a folder with
        other things in it, and where another run is at work."""
        try:
            self._prepare()
        except OSError as error:
            raise UserError(f"cannot write to {self.top}: {(error.strerror or str(error)).lower()}") from None
        with open(self.top / _MARK, "a+b") as mark:
            if not lock.acquired(mark.fileno()):
                raise UserError(f"another run is writing to {self.top}", "wait for it, or name another --output")
            scratch = self.top / _SCRATCH
            shutil.rmtree(scratch, ignore_errors=True)  # of a run that was killed
            scratch.mkdir()
            try:
                yield scratch
            finally:
                shutil.rmtree(scratch, ignore_errors=True)

    def _prepare(self) -> None:
        self.top.mkdir(parents=True, exist_ok=True)
        if not (self.top / _MARK).exists():
            if any(self.top.iterdir()):
                raise UserError(f"{self.top} has other things in it", "name a new folder: --output DIR")
            (self.top / _MARK).write_bytes(b"")
        file_io.sweep(self.top)

    def summary(self, name: str) -> Summary | None:
        """What is known of a repository; None where that is not whole."""
        try:
            data = json.loads((self.top / name / "summary.json").read_bytes())
        except (OSError, ValueError):
            return None
        return data if isinstance(data, dict) and data.get("format") == 1 and data.get("name") == name else None

    def done(self, name: str) -> str | None:
        """The digest of a result that is whole: its summary is there, and all files that belong to it."""
        summary = self.summary(name)
        if summary is None or summary.get("status") == FAILED:
            return None
        there = all((self.top / name / file).is_file() for file in summary.get("outputs", ()))
        digest = summary.get("digest")
        return digest if there and isinstance(digest, str) else None

    def keep(self, outcome: Outcome) -> Summary:
        """Write what came back. The old summary goes first and the new one comes last. Raises UserError."""
        assert outcome.summary is not None
        folder = self.top / outcome.name
        summary = outcome.summary | {"outputs": sorted(outcome.files)}
        try:
            folder.mkdir(exist_ok=True)
            (folder / "summary.json").unlink(missing_ok=True)
            file_io.sweep(folder)
            for name in set(FILES) - outcome.files.keys():
                (folder / name).unlink(missing_ok=True)
            self._write(folder, outcome.files)
            file_io.replace(folder / "summary.json", json.dumps(summary, indent=2).encode() + b"\n")
        except OSError as error:
            what = f"cannot write to {folder}: {(error.strerror or str(error)).lower()}"
            raise UserError(what, "make room there, and run the same command again: what is done stays done") from None
        return summary

    def _write(self, folder: Path, files: Mapping[str, bytes]) -> None:
        for name, data in files.items():
            if name in FILES:  # a worker chooses no path
                file_io.replace(folder / name, data)

    def put(self, files: Mapping[str, bytes]) -> None:
        """Reports over all. Raises UserError."""
        try:
            for name, data in files.items():
                file_io.replace(self.top / name, data)
        except OSError as error:
            raise UserError(f"cannot write to {self.top}: {(error.strerror or str(error)).lower()}") from None
