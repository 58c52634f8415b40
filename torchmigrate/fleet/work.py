"""Process one repository: fetch, migrate, score, verify (only with `--verify` its code runs), pack the results.

A migration becomes commits in a scratch repository, which are exported as a patch and a bundle.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torchmigrate import __version__
from torchmigrate.base import file_io
from torchmigrate.base.text import UserError, counted
from torchmigrate.config import config_file
from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics.finding import Changed, Failed, FileResult, Status, Unchanged
from torchmigrate.engine import divide, planner
from torchmigrate.engine.divide import Step
from torchmigrate.engine.planner import Input, Plan
from torchmigrate.fleet import repositories
from torchmigrate.fleet.repositories import Origin, Tree, git, scratch_repository
from torchmigrate.fleet.task import Outcome, Summary, Task, digest_of, failure
from torchmigrate.formats import json as findings_json
from torchmigrate.formats import markdown
from torchmigrate.formats.model import Report
from torchmigrate.rules import packs
from torchmigrate.rules.model import PackError
from torchmigrate.surveys import portability
from torchmigrate.surveys.portability import Apart, Stage, Survey
from torchmigrate.vcs.git_tree import Repository

_NO_TIME = "946684800 +0000"  # the date of commits for a plain folder, fixed so that each run gives the same bytes
_SUBJECT = "Run on the accelerator that is there, not on CUDA alone"


def carried(plan: Plan, tree: Tree, task: Task, settings: Settings, scratch: Path) -> dict[str, bytes]:
    """Return changes.patch, and a git source's changes.bundle, or nothing if nothing changes; raises UserError."""
    changes = [result for result in plan.results if isinstance(result, Changed)]
    if not changes:
        return {}
    _refuse_outside(changes, tree)
    if tree.repository is None:
        return {"changes.patch": _patch(*_on_files(changes, tree, task, scratch, steps(plan, changes, task, settings)))}
    made = _commits(tree.repository, tree.commit, task, steps(plan, changes, task, settings))
    ref = f"refs/heads/{task.branch}"
    git(tree.repository, "update-ref", ref, made)
    one = ("-c", "pack.threads=1", "bundle", "create", "--quiet", "-")  # two threads may find other deltas
    bundle = git(tree.repository, *one, ref, f"^{tree.commit}")
    return {"changes.patch": _patch(tree.repository, tree.commit, made), "changes.bundle": bundle}


def steps(plan: Plan, changes: Sequence[Changed], task: Task, settings: Settings) -> list[Step]:
    """Return a single commit step, or one for each pack, as `apply --commit` makes them."""
    if task.per_pack and plan.facts is not None:
        ruleset = packs.load(settings.rule_paths, cases=False).selected(settings.select, settings.ignore)
        helpers = {change.path: change.after for change in changes if not change.applied}
        return divide.steps(changes, helpers, plan.facts, ruleset)
    counts = Counter(finding.rule for change in changes for finding in change.applied)
    rows = "".join(f"- {rule} ({n})\n" for rule, n in sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    return [Step({change.path: change.after for change in changes}, f"{_SUBJECT}\n\n{rows}")]


def _refuse_outside(changes: Sequence[Changed], tree: Tree) -> None:
    top = tree.repository.top if tree.repository else tree.root
    for change in changes:
        if not Path(os.path.realpath(change.path)).is_relative_to(top):
            raise UserError(f"{change.path} lies outside of the repository")


def _on_files(
    changes: Sequence[Changed], tree: Tree, task: Task, scratch: Path, found: Sequence[Step]
) -> tuple[Repository, str, str]:
    """Commit the changes of a plain folder in a new scratch repository that holds only the files that change."""
    repository = scratch_repository(scratch, "changed")
    moved = {c.path: repository.top / os.path.relpath(os.path.realpath(c.path), tree.root) for c in changes}
    before = {moved[c.path]: c.before for c in changes if not c.new}
    _write(before)
    for change in changes:
        if not change.new:
            shutil.copymode(change.path, moved[change.path])
    base = _commit(repository, None, before, "As it stands\n", _variables(task, _NO_TIME))
    there = [Step({moved[path]: data for path, data in step.files.items()}, step.message) for step in found]
    return repository, base, _commits(repository, base, task, there)


def _commits(repository: Repository, base: str, task: Task, found: Sequence[Step]) -> str:
    """Commit the steps, dated as the base commit so that runs agree, and return the id of the last commit."""
    date = git(repository, "show", "-s", "--no-show-signature", "--format=%cd", "--date=raw", base)
    variables = _variables(task, date.decode().strip())
    parent = base
    for step in found:
        _write(step.files)
        parent = _commit(repository, parent, step.files, step.message, variables)
    return parent


def _variables(task: Task, date: str) -> dict[str, str]:
    name, address = task.author
    each = {"NAME": name, "EMAIL": address, "DATE": date}
    return {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in each.items()}


def _write(files: Mapping[Path, bytes]) -> None:
    """Write files into our scratch tree, in which links are resolved already."""
    for path, data in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        file_io.put(path, data)


def _commit(
    repository: Repository, parent: str | None, files: Mapping[Path, bytes], message: str, env: Mapping[str, str]
) -> str:
    names = b"\0".join(os.fsencode(os.path.relpath(path, repository.top)) for path in files)
    if names:
        git(repository, "add", "--force", "--pathspec-from-file=-", "--pathspec-file-nul", stdin=names)
    tree = git(repository, "write-tree").decode().strip()
    above = ("-p", parent) if parent else ()
    return git(repository, "commit-tree", *above, "-F", "-", tree, stdin=message.encode(), **env).decode().strip()


def _patch(repository: Repository, base: str, last: str) -> bytes:
    plain = ("--stdout", "--no-signature", "--full-index", "--binary", "--no-renames", "--no-stat", "--no-ext-diff")
    return git(repository, "format-patch", *plain, f"{base}..{last}")


def work(task: Task, scratch: Path) -> Outcome:
    """Do a task in the empty folder `scratch`; whatever goes wrong becomes the outcome."""
    began = time.monotonic()
    if task.version != __version__:
        return failure(task, f"this worker has torchmigrate {__version__}, and the run is of {task.version}")
    try:
        outcome = _work(task, scratch)
    except UserError as error:
        help = f"\nhelp: {error.help}" if error.help else ""
        outcome = failure(task, error.message, f"error: {error.message}{help}\n")
    except OSError as error:
        outcome = failure(task, _os_error(error), traceback.format_exc())
    except Exception as error:
        outcome = failure(task, f"internal error: {type(error).__name__}: {error}", traceback.format_exc())
    if outcome.summary is not None:
        outcome.summary["run"] = {"seconds": round(time.monotonic() - began, 3)}
    return outcome


def _os_error(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{(error.strerror or str(error)).lower()}"


def _work(task: Task, scratch: Path) -> Outcome:
    origin = repositories.origin(task)
    digest = digest_of(task, [origin.location, origin.inside, origin.commit]) if origin.commit else None
    if digest is not None and digest == task.known:
        return Outcome(task.name, None)
    taken = repositories.take(origin, scratch, "tree")
    settings = _settings(task, taken)
    given = _prepare(taken, settings)
    if digest is None:
        digest = digest_of(task, [origin.location, repr(settings)], taken.root, given)
        if digest == task.known:
            return Outcome(task.name, None)
    return _migrate(task, origin, taken, settings, given, scratch, digest)


def _settings(task: Task, taken: Tree) -> Settings:
    """Return the repository's own settings, and none from around it, with the command line's on top."""
    own = taken.repository is None or config_file.find(taken.root) in _settings_files(taken)
    flags = {name: tuple(value) if isinstance(value, list) else value for name, value in task.flags.items()}
    exclude = flags.pop("extend_exclude", ())
    settings = config_file.load([taken.root], None, task.isolated or not own, **flags)
    if not own:
        settings = replace(settings, root=taken.root)
    return replace(settings, extend_exclude=settings.extend_exclude + exclude, no_cache=True)


def _settings_files(taken: Tree) -> list[Path]:
    assert taken.repository is not None
    top = taken.repository.top
    return [up / "pyproject.toml" for up in (taken.root, *taken.root.parents) if up.is_relative_to(top)]


def _prepare(taken: Tree, settings: Settings) -> Input:
    try:
        return planner.prepare([taken.root], settings)
    except PackError as error:
        raise UserError(str(error).partition("\n")[0]) from None


def _migrate(
    task: Task, origin: Origin, taken: Tree, settings: Settings, given: Input, scratch: Path, digest: str
) -> Outcome:
    paths = [taken.root]
    plan = planner.plan(paths, settings, 1, "apply" if task.mode == "apply" else "check", given=given)
    report = Report(plan.results, plan.files_seen, task.mode, taken.root, settings.backends, plan.others)
    files = {"findings.json": (findings_json.render(report) + "\n").encode(errors="backslashreplace")}
    scored = score(paths, settings, given) if task.score else None
    verified = verify(task, taken.root, settings) if task.verify else None
    if task.mode == "apply":
        files |= carried(plan, taken, task, settings, scratch)
        if report.changed:
            body = markdown.render(report, taken.root, given.ruleset.rules)
            files["body.md"] = body.encode(errors="backslashreplace")
    notes = [note for note in (origin.note, *plan.notes) if note]
    summary = _summary(task, origin, report, notes) | {"digest": digest, "score": scored}
    if verified is not None:
        summary["verify"] = verified.words
        files |= {"verify.json": verified.report} if verified.report is not None else {}
    files["log.txt"] = "".join(f"{line}\n" for line in _log(summary, report)).encode(errors="backslashreplace")
    return Outcome(task.name, summary, files)


def _summary(task: Task, origin: Origin, report: Report, notes: Sequence[str]) -> Summary:
    kinds = report.kinds()
    status, reason = _status(report)
    return {
        "format": 1,
        "name": task.name,
        "source": task.shown,
        "commit": origin.commit or None,
        "torchmigrate": __version__,
        "command": task.mode,
        "status": status,
        "reason": reason,
        "files": report.files_seen,
        "changed": len([c for c in report.changed if c.applied]) if task.mode == "apply" else 0,
        "edits": len(report.applied) if task.mode == "apply" else 0,
        "findings": len(report.findings),
        **{name: kinds[name] for name in ("fixable", "unsafe", "dropped")},
        "needs_you": kinds["yours"],
        "suppressed": report.suppressed,
        "skipped": len(report.skipped),
        "errors": len(report.failed),
        "rules": {rule: done + left for rule, done, left in report.statistics()},
        "notes": list(notes),
    }


def _status(report: Report) -> tuple[str, str]:
    """Return the status in one word, and the reason if it needs one."""
    if report.failed:
        first = report.failed[0]
        what = f"{report.name(first.path)}: {first.error}"
        if len(report.failed) > 1:
            what = f"{len(report.failed)} of {counted(report.files_seen, 'file')}, first {what}"
        return "incomplete", what
    if not report.read and not report.others:
        return "empty", "no Python file was read"
    if report.command == "apply" and report.changed:
        return "migrated", ""
    return ("findings", "") if report.findings else ("clean", "")


def _log(summary: Mapping[str, Any], report: Report) -> list[str]:
    lines = [f"{summary['source']} at {summary['commit'] or 'what lay there'}"]
    lines += [f"note: {note}" for note in summary["notes"]]
    lines += [_describe_result(result, report) for result in report.results if isinstance(result, (Changed, Failed))]
    lines += [f"skipped {report.name(skipped.path)}: {skipped.reason}" for skipped in report.skipped]
    if "verify" in summary:
        lines.append(f"verify: {summary['verify']}")
    return [*lines, report.summary()]


def _describe_result(result: FileResult, report: Report) -> str:
    name = report.name(result.path)
    if isinstance(result, Failed):
        return f"error: {name}: {result.error}"
    assert isinstance(result, Changed)
    if report.command == "check":
        return f"could rewrite {name}"
    rules = ", ".join(dict.fromkeys(finding.rule for finding in result.applied))
    return f"rewrote {name} ({rules})" if rules else f"wrote {name}"


_WORDS = {0: "same", 1: "differs", 2: "could not be verified"}


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of `--verify`: `told` in words, and `report` as JSON, None if verification could not start."""

    words: str
    report: bytes | None


def verify(task: Task, root: Path, settings: Settings) -> Verified:
    """Verify the migration on the backends of its settings that `verify` knows."""
    from torchmigrate.formats import verify
    from torchmigrate.verify import backends, session
    from torchmigrate.verify.verdict import exit_status

    names = tuple(name for name in settings.backends if name in backends.KNOWN) or backends.DEFAULT
    try:
        result = session.verify(session.Request(root, task.verify, names, settings=settings), lambda line: None)
    except UserError as error:
        return Verified(f"{_WORDS[2]}: {error.message}", None)
    status, reason = exit_status(result.verdicts), result.verdicts[0].reason
    report = json.loads(verify.render(result)) | {"root": task.shown}  # the scratch tree will be gone
    words = f"{_WORDS[status]}: {reason}" if status == 2 and reason else _WORDS[status]
    return Verified(words, json.dumps(report, indent=2).encode() + b"\n")


def score(paths: Sequence[Path], settings: Settings, given: Input) -> dict[str, Any]:
    """Count sites: in all, and those that run on every backend or on each, at each stage.

    `{sites, everywhere: {before, after, after_unsafe}, backends: {NAME: {before, after, after_unsafe}}}`
    """
    safe = planner.plan(paths, replace(settings, unsafe_fixes=False), 1, "survey", given=given).results
    held = any(f.status is Status.HELD for r in safe if isinstance(r, Unchanged) for f in r.findings)
    unsafe = safe
    if held:
        unsafe = planner.plan(paths, replace(settings, unsafe_fixes=True), 1, "survey", given=given).results
    root = config_file.common_parent(paths)
    sites = portability.sites(safe, unsafe, root)
    found = Survey(root, "", None, 0, sites, {}, Apart(), (), tuple(settings.backends))
    stages = {stage.value: stage for stage in Stage}
    runs = {
        b: {name: sum(site.runs(b, stage) for site in sites) for name, stage in stages.items()} for b in found.backends
    }
    return {
        "sites": len(sites),
        "everywhere": {name: found.everywhere(stage) for name, stage in stages.items()},
        "backends": runs,
    }
