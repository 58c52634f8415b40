"""`python tests/attack/campaign.py programs|files ... --count N`: attacks the engine and counts what breaks.

    python tests/attack/campaign.py programs --count 100000
    python tests/attack/campaign.py random --count 2000              # hypothesmith's programs
    python tests/attack/campaign.py files --count 20000 DIR ...      # files of DIR, damaged
    python tests/attack/campaign.py jobs --count 4000                # one process against four

Status 1 where something broke; each kind once, minimised, with the number that makes it again (`--first N`)."""

from __future__ import annotations

import argparse
import gc
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from attack.invariants import PATH, WAYS, broken
from attack.minimise import minimise
from attack.mutations import mutated
from attack.programs import program
from torchmigrate.config.settings import Settings
from torchmigrate.engine import planner, worker

Input = tuple[int, Path, bytes]


def programs(first: int) -> Iterator[Input]:
    number = first
    while True:
        yield number, PATH, program(random.Random(number), newer=sys.version_info >= (3, 12))
        number += 1


def damaged(roots: list[Path], first: int, most: int) -> Iterator[Input]:
    """Each time another file, as it is and then damaged; files that speak of cuda alone."""
    paths = sorted(p for root in roots for ext in ("py", "ipynb") for p in root.rglob(f"*.{ext}") if p.is_file())
    texts = [(p, raw) for p in paths if len(raw := p.read_bytes()) < most and b"cuda" in raw]
    if not texts:
        raise SystemExit("no files that mention cuda there")
    number = first
    while True:
        draw = random.Random(number)
        path, raw = draw.choice(texts)
        yield number, Path(f"/case{path.suffix}"), mutated(raw, draw)
        number += 1


def made_by_hypothesmith(count: int) -> Iterator[Input]:
    """Any Python, with a call to cuda after it, so that it is looked at."""
    import hypothesmith
    from hypothesis import HealthCheck, Phase, given, settings

    found: list[bytes] = []

    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(hypothesmith.from_grammar())
    def take(text: str) -> None:
        found.append(f"import torch\nx.cuda()\n{text}\ny.cuda()\n".encode(errors="replace"))

    take()
    yield from ((number, PATH, raw) for number, raw in enumerate(found))


def attack(inputs: Iterator[Input], count: int, seconds: float) -> int:
    kinds: Counter[str] = Counter()
    done = 0
    end = time.monotonic() + seconds
    gc.disable()  # as the engine does; half the time
    for number, path, raw in islice(inputs, count):
        done += 1
        way = WAYS[number % len(WAYS)]
        for what in broken(raw, way, path)[:1]:
            kind = f"{path.suffix} {what[:40]}"
            kinds[kind] += 1
            if kinds[kind] == 1:
                _show(
                    number,
                    raw,
                    what,
                    lambda r, w=way, p=path, k=what[:25]: any(x.startswith(k) for x in broken(r, w, p)),
                )
        if done % 100 == 0:
            gc.collect()
        if done % 1000 == 0:
            print(f"{done} done, {sum(kinds.values())} broken", flush=True)
        if time.monotonic() > end:
            break
    print(f"{done} inputs, {sum(kinds.values())} broken, {time.process_time():.0f} CPU seconds; {dict(kinds)}")
    return int(bool(kinds))


def _show(number: int, raw: bytes, what: str, fails: Callable[[bytes], bool]) -> None:
    print(f"--- {number} ({WAYS[number % len(WAYS)]}): {what}\n{minimise(raw, fails, 400)!r}", flush=True)


def one_job_or_four(count: int, first: int) -> int:
    """Whether processes give what one gives: files of a folder at a time."""
    worker.POOL_BYTES = 0
    bad = 0
    for start in range(first, first + count, 200):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for number, _, raw in islice(programs(start), 200):
                (root / f"m{number}.py").write_bytes(raw)
            settings = Settings(root=root, unsafe_fixes=start % 400 == 0, no_cache=True)
            one, four = (planner.plan([root], settings, jobs, "apply").results for jobs in (1, 4))
            different = [a.path.name for a, b in zip(one, four, strict=True) if a != b]
            internal = [r for r in one if "internal error" in getattr(r, "error", "")]
            bad += len(different) + len(internal)
            print(f"{start}: {len(one)} results, different: {different[:5]}, {internal[:2]}", flush=True)
    return int(bool(bad))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("programs", "files", "random", "jobs"))
    parser.add_argument("roots", nargs="*", type=Path)
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument(
        "--most", type=int, default=60_000, help="bytes of a real file; large ones take the time of many"
    )
    parser.add_argument("--seconds", type=float, default=float("inf"))
    given = parser.parse_args()
    if given.kind == "jobs":
        return one_job_or_four(given.count, given.first)
    inputs = {
        "programs": lambda: programs(given.first),
        "files": lambda: damaged(given.roots, given.first, given.most),
        "random": lambda: made_by_hypothesmith(given.count),
    }[given.kind]()
    return attack(inputs, given.count, given.seconds)


if __name__ == "__main__":
    sys.exit(main())
