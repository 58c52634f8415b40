"""`python tests/fuzz/run.py TARGET --seconds N [--corpus DIR]`: coverage-guided fuzzing of one target, with atheris.

Status 0 when the time is over; what breaks a promise is written to `crash-...` in the current directory."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[1]))
with atheris.instrument_imports(include=["torchmigrate", "tomllib", "fuzz"]):
    from fuzz.targets import TARGETS, seeds


def _entry(word: str) -> str:
    return '"' + "".join(f"\\x{byte:02x}" for byte in word.encode()) + '"\n'


def main() -> None:
    """The corpus grows in `--corpus`, from the target's seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--corpus", type=Path)
    options = parser.parse_args()
    corpus = options.corpus or Path(tempfile.mkdtemp(prefix="fuzz-"))
    corpus.mkdir(parents=True, exist_ok=True)
    for number, raw in enumerate(seeds(options.target)):
        (corpus / f"seed-{number:04}").write_bytes(raw)
    words = corpus.with_suffix(".dict")
    words.write_text("".join(map(_entry, TARGETS[options.target].words)))
    limits = (f"-max_total_time={options.seconds}", "-max_len=20000", "-timeout=30", "-rss_limit_mb=3000")
    atheris.Setup(
        [sys.argv[0], str(corpus), f"-dict={words}", *limits, "-print_final_stats=1"], TARGETS[options.target].read
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
