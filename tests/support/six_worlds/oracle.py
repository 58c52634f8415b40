"""Make random programs that decide on devices, migrate them, and judge by running both in six worlds.

    python -m tests.worlds.oracle -n 1000 --seed 0 [--plain] [-v] [--keep DIR] [--table] [--cross-check]

Prints broken programs, minimised with -v, and exits with 1 if there is one. `--table` makes programs for each construct
in turn and prints the share that is broken. `--cross-check` compares the fake torch with the real one.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from six_worlds import constructs, shrinking
from six_worlds.fake_torch import no_torch
from six_worlds.judge import Fault, faults
from six_worlds.migrating import MigrationFailed, migrated, rules_read_once
from six_worlds.running import Project
from six_worlds.sketch import CONSTRUCTS, NOTHING, program

assert constructs
BATCH = 250


def judged(project: Project, plain: bool = False) -> tuple[bool, list[Fault]]:
    """Migrate a program; return whether it was changed, and its faults."""
    try:
        after = migrated(project)
    except MigrationFailed as error:
        return False, [Fault("failed", "migration", "", str(error))]
    return after.files != project.files, list(faults(project, after, plain))


def judge_seed(seed: int, plain: bool, must: str = "") -> dict[str, Any]:
    """Judge the program of a seed; the result can be sent between processes."""
    project, used = program(seed, plain, must=must)
    changed, found = judged(project, plain)
    return {
        "seed": seed,
        "used": sorted(used),
        "changed": changed,
        "faults": [[f.rule, f.world, f.before, f.after] for f in found],
    }


def judge_batch(seeds: Sequence[int], plain: bool, must: str = "") -> Iterator[dict[str, Any]]:
    """Judge some seeds in a child of this process, which takes its memory away with it."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        status, now = 1, seeds[0]
        try:
            os.close(reader)
            gc.disable()
            with os.fdopen(writer, "w") as pipe:
                for seed in seeds:
                    now = seed
                    pipe.write(json.dumps(judge_seed(seed, plain, must)) + "\n")
            status = 0
        except BaseException:
            traceback.print_exc()
            print(f"at seed {now}", file=sys.stderr)
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        for line in pipe:
            yield json.loads(line)
    if os.waitpid(child, 0)[1]:
        raise SystemExit("the judge itself failed")


def batches(seeds: Sequence[int]) -> Iterator[Sequence[int]]:
    return (seeds[i : i + BATCH] for i in range(0, len(seeds), BATCH))


def numbered(seed: int, count: int) -> range:
    first = seed * 1_000_003
    return range(first, first + count)


def is_broken(plain: bool, rule: str) -> Callable[[Project], bool]:
    """Return the question whether a program breaks the same rule, and lacks none of its names."""
    return lambda project: any(f.rule == rule and "NameError" not in f.before for f in judged(project, plain)[1])


def show(project: Project, rule: str, plain: bool, minimise: bool, keep: Path | None, name: str) -> None:
    """Print a broken program, and write it and its migration down."""
    if minimise:
        project = shrinking.shrunk(project, is_broken(plain, rule))
    found = next(iter(judged(project, plain)[1]), None)
    for path, text in project.files.items():
        if text.strip():
            print(f"  [{path}]\n" + "\n".join("  | " + line for line in text.splitlines()))
    if project.argv or project.env:
        print(f"  input: {' '.join(project.argv)} {dict(project.env)}")
    print(f"  {found}", flush=True)
    if keep:
        for side, files in (("a", project.files), ("b", migrated(project).files)):
            for path, text in files.items():
                file = keep / name / side / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")


def survey(options: argparse.Namespace) -> int:
    """Judge many programs and print what is broken."""
    count, started = Counter[str](), time.process_time()
    rules, had, bad_with = Counter[str](), Counter[str](), Counter[str]()
    for seeds in batches(numbered(options.seed, options.n)):
        if count["programs"] and count["programs"] % (20 * BATCH) == 0:
            print(f"{count['broken']} of {count['programs']} broken so far", file=sys.stderr, flush=True)
        for result in judge_batch(seeds, options.plain):
            count["programs"] += 1
            count["changed"] += result["changed"]
            had.update(result["used"])
            if not result["faults"]:
                continue
            count["broken"] += 1
            bad_with.update(result["used"])
            rules.update({f"{rule} in {world}" for rule, world, *_ in result["faults"]})
            if count["broken"] <= options.show:
                rule, world, *_ = result["faults"][0]
                print(f"--- seed {result['seed']}: {rule} in {world}")
                project, _ = program(result["seed"], options.plain)
                show(project, rule, options.plain, not options.whole, options.keep, str(result["seed"]))
    spent = time.process_time() - started + sum(os.times()[2:4])
    print(f"{count['broken']} of {count['programs']} programs broken, {count['changed']} changed")
    for rule, times in sorted(rules.items()):
        print(f"    {times:6} {rule}")
    if options.v:
        for name in sorted(had, key=lambda name: -bad_with[name] / had[name]):
            print(f"    {bad_with[name]:6} of {had[name]:6} with {name}")
    print(f"{spent:.1f} s CPU, {1000 * spent / max(1, count['programs']):.1f} ms each")
    return int(bool(count["broken"]))


def table(options: argparse.Namespace) -> int:
    """Print, for each construct, how many programs are broken that have it and else two plain ones.

    Programs that are broken without it as well do not count.
    """
    names = options.only or sorted(c.name for c in CONSTRUCTS.values() if c.plain or not options.plain)
    worst = 0
    seeds = numbered(options.seed, options.n)
    base = {r["seed"] for part in batches(seeds) for r in judge_batch(part, options.plain, NOTHING) if r["faults"]}
    print(f"{len(base)} of {options.n} broken without any of them", flush=True)
    for name in names:
        good = [seed for seed in seeds if seed not in base]
        results = [r for part in batches(good) for r in judge_batch(part, options.plain, name)]
        broken = [r for r in results if r["faults"]]
        rules = Counter(f"{rule} {world}" for r in broken for rule, world, *_ in r["faults"])
        changed = sum(r["changed"] for r in results)
        worst = max(worst, len(broken))
        print(f"{name:24} {len(broken):4} of {len(results)} broken, {changed:4} changed  {dict(rules)}", flush=True)
        for result in broken[: options.show]:
            project, _ = program(result["seed"], options.plain, must=name)
            show(project, result["faults"][0][0], options.plain, not options.whole, options.keep, str(result["seed"]))
    return int(bool(worst))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.worlds.oracle", description=__doc__.partition("\n")[0])
    parser.add_argument("-n", type=int, default=300, help="programs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plain", action="store_true", help="programs in which all must be rewritten, and reach mps")
    parser.add_argument("-v", action="store_true", help="print counts for each construct")
    parser.add_argument("--show", type=int, default=5, help="broken programs to print, minimised")
    parser.add_argument("--whole", action="store_true", help="do not minimise")
    parser.add_argument("--keep", type=Path, help="write the printed programs there, original and migrated")
    parser.add_argument("--table", action="store_true", help="-n programs for each construct")
    parser.add_argument("--only", nargs="*", help="constructs of the table")
    parser.add_argument("--cross-check", action="store_true", help="compare the fake torch with the real one")
    options = parser.parse_args()
    if options.cross_check:
        from six_worlds import cross_check

        return cross_check.main(options.n, options.seed)
    with no_torch(), rules_read_once():
        return table(options) if options.table or options.only else survey(options)
