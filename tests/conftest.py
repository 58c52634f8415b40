"""Fixtures for all tests: no test reads or writes the user's settings or git identity, nor more of the
cache than the built simulated device."""

from __future__ import annotations

import functools
import gc
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import pytest

from torchmigrate.config.settings import Settings
from torchmigrate.diagnostics.finding import Changed, Failed, FileResult
from torchmigrate.engine import case_runner
from torchmigrate.project.context import ProjectContext
from torchmigrate.rewriting.visitor import DispatchTable, dispatch_table
from torchmigrate.rules import packs
from torchmigrate.rules.model import Rule, Ruleset
from torchmigrate.semantic.model import SemanticModel
from torchmigrate.source.encoding import decode
from torchmigrate.surveys import api_catalog
from torchmigrate.verify.backends import BUILD

ROOT = Path(__file__).parent.parent

# `verify` takes the `python` of PATH: in tests it is the one that runs them.
os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])

# Tests are about simulated devices, and about the CPU: no process of theirs sees a GPU that is here.
os.environ["CUDA_VISIBLE_DEVICES"] = ""

# Loaded machines are no bugs; the same examples everywhere, and nothing kept between runs.
hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("repeatable")

# Files of tests that need torch, builds, many processes or many runs: each of their tests has the mark `slow`, and
# `-m "not slow"` does not even import them. Single tests of other files have the mark themselves.
SLOW = (
    "cli/test_baseline.py",
    "apply/test_commits.py",
    "apply/test_faults.py",
    "architecture/test_one_fact.py",
    "attack/test_attack.py",
    "cli/test_bad_input.py",
    "cli/test_before_commit.py",
    "cli/test_dry_run.py",
    "cli/test_environments.py",
    "cli/test_github_action.py",
    "cli/test_program.py",
    "cli/test_hostile_project.py",
    "cli/test_interactive.py",
    "cli/test_messages.py",
    "cli/test_notebooks.py",
    "cli/test_pre_commit.py",
    "cli/test_run.py",
    "cli/test_verify.py",
    "docs/test_benchmarks.py",
    "docs/test_ci_page.py",
    "docs/test_commands_on_pages.py",
    "docs/test_docs.py",
    "docs/test_documentation_site.py",
    "docs/test_helper_overhead.py",
    "docs/test_installed.py",
    "docs/test_package.py",
    "docs/test_release.py",
    "docs/test_schemas.py",
    "engine/test_fixtures.py",
    "engine/test_invariants.py",
    "engine/test_linear_time.py",
    "engine/test_plan_cache.py",
    "fixers/test_backends.py",
    "fixers/test_comments.py",
    "fixers/test_default_tensor_type.py",
    "fleet/test_fleet.py",
    "fuzz/test_targets.py",
    "helper/test_placement.py",
    "lsp/test_server.py",
    "mutation/test_mutation.py",
    "project/test_git_scopes.py",
    "rewriting/test_migrated_notebook.py",
    "rules/test_compile_claims.py",
    "rules/test_rule_claims.py",
    "runtime",
    "runtime/*.py",
    "surveys/test_catalog_command.py",
    "surveys/test_catalog_rows.py",
    "surveys/test_portability.py",
    "vcs/test_hardening.py",
    "verify/simulated",
    "verify/simulated/*.py",
    "verify/test_broken_ports.py",
    "verify/test_fixtures_simulated.py",
    "verify/test_process_end.py",
    "verify/test_process_report.py",
    "verify/test_sandbox.py",
    "verify/test_weak_spots.py",
)


@functools.cache
def is_slow(path: Path) -> bool:
    return any(path.match(f"tests/{pattern}") for pattern in SLOW)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if config.option.markexpr == "not slow" and is_slow(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    own = pytest.mark.skip(reason="this torch is built for CUDA, and cannot simulate it: install a CPU build")
    for item in items:
        if is_slow(item.path):
            item.add_marker(pytest.mark.slow)
            if _SIMULATED_CUDA.search(item.nodeid) and has_cuda_build():
                item.add_marker(own)


# tests that run on a simulated CUDA, or take it for the reference
_SIMULATED_CUDA = re.compile(
    r"verify/simulated/.*(test_processes|test_data_parallel|test_tensor_types|_on_cuda|[\[-]cuda[\]-])"
    r"|runtime/test_simulated.*[\[-]cuda[\]-]"
    r"|verify/test_(fixtures_simulated|broken_ports|weak_spots|process_report)"
)


@functools.cache
def has_cuda_build() -> bool:
    """Return whether the torch here is built for CUDA; this does not import it."""
    spec = importlib.util.find_spec("torch")
    version = Path(spec.origin).with_name("version.py") if spec and spec.origin else None
    return version is not None and re.search(r"(?m)^cuda\b.*= *'", version.read_text()) is not None


_load_rule = packs.load_rule
_load_once = functools.cache(lambda path, cases, changed: _load_rule(path, cases))
_OURS = packs.builtin()


def _load(path: Path, cases: bool = True) -> Rule:
    """The rule of a file: those that ship are read once for all tests, a test's own each time."""
    shipped = path.parent.parent == _OURS and path.is_file()
    return _load_once(path, cases, path.stat().st_mtime_ns) if shipped else _load_rule(path, cases)


packs.load_rule = _load

_load_packs, _read_rows = packs.load, api_catalog.read
_packs_once = functools.cache(lambda cases: _load_packs((), cases))
_rows_once = functools.cache(lambda path, rules, changed: tuple(_read_rows(path, rules)))


def _packs(rule_paths: Sequence[Path] = (), cases: bool = True) -> Ruleset:
    """Those that ship are one set for all tests, so that what is derived from it is worked out once as well."""
    return _load_packs(rule_paths, cases) if rule_paths or packs.load_rule is not _load else _packs_once(cases)


def _rows(path: Path, rules: Collection[str] | None = None) -> Sequence[api_catalog.Row]:
    """The rows of a file: those that ship are read once for all tests."""
    shipped = path.parent.parent == _OURS and path.is_file()
    known = None if rules is None else frozenset(rules)
    return _rows_once(path, known, path.stat().st_mtime_ns) if shipped else _read_rows(path, rules)


packs.load = _packs
api_catalog.read = _rows


# Whom git takes for the author of a commit, before it reads a configuration.
IDENTITIES = ("EMAIL", *(f"GIT_{who}_{what}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")))


@pytest.fixture(autouse=True)
def _apart(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("NO_COLOR", "FORCE_COLOR", "GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", *IDENTITIES):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def library() -> str:
    """The built simulated device, from the user's cache; made once where it is not there."""
    done = subprocess.run([sys.executable, str(BUILD)], capture_output=True, text=True)
    if "no C++ compiler" in done.stderr:
        pytest.skip(f"no device can be simulated: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@dataclass(frozen=True)
class Ran:
    """What a command line did."""

    status: int
    out: str
    err: str
    raw: bytes

    @property
    def last(self) -> str:
        return self.err.strip().splitlines()[-1]


@pytest.fixture
def cli(capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[..., Ran]:
    """Run one command line in this process."""
    from torchmigrate.cli import app as module

    def run(*arguments: str) -> Ran:
        capfdbinary.readouterr()
        status = module.run(arguments)
        out, err = capfdbinary.readouterr()
        return Ran(status, out.decode(errors="surrogateescape"), err.decode(), out)

    return run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory."""
    directory = tmp_path / "project"
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory


def git(directory: Path, *arguments: str) -> str:
    """Run git in a test's repository."""
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false", *arguments]
    return subprocess.run(command, cwd=directory, check=True, capture_output=True, text=True).stdout


def copy_of_package(directory: Path) -> Path:
    """What an installation is made of, apart from the checkout, which tests leave as it is."""
    for name in ("torchmigrate", "rules", ".github/action"):
        shutil.copytree(ROOT / name, directory / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("action.yml", ".pre-commit-hooks.yaml", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, directory / name)
    return directory


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module", autouse=True)
def _heap_of_other_modules() -> None:
    """Keep what earlier tests loaded out of collections, which otherwise take longer with each module of tests."""
    gc.collect()
    gc.freeze()


def cpu_seconds(act: Callable[[], object]) -> float:
    """Return the processor time of a call, without that of other threads and of collecting other tests' garbage."""
    gc.disable()
    begun = time.thread_time()
    try:
        act()
        return time.thread_time() - begun
    finally:
        gc.enable()


BUILT_WITH = ("hatchling", "hatch_fancy_pypi_readme")


def build(source: Path, out: Path) -> Path:
    """Both distributions of a tree, without an environment of their own."""
    for name in BUILT_WITH:
        pytest.importorskip(name, reason="what builds it is not here: pip install 'torchmigrate[test]'")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out)]
    fixed = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, env=fixed)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkout's wheel and source distribution, built once."""
    return build(ROOT, tmp_path_factory.mktemp("dist"))


# ---- the engine, in memory


def module(text: str | bytes, path: str = "/case.py", **facts: object) -> SemanticModel:
    """A parsed file of a project that has no others."""
    raw = text if isinstance(text, bytes) else text.encode()
    known = {"root": Path("/"), "settings": Settings(), **facts}
    return SemanticModel(Path(path), decode(raw), ProjectContext(**known))  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def rules() -> DispatchTable:
    """All rules that ship."""
    return dispatch_table(packs.load())


@pytest.fixture
def migrated(rules: DispatchTable) -> Callable[..., str]:
    """The text of one script after all rules, the helper's import included."""

    def run(text: str, *, unsafe: bool = False) -> str:
        return case_runner.migrate(text.encode(), rules, unsafe)[0].decode()

    return run


def write_tree(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """A project on disk."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return root


def planned(root: Path, mode: str = "apply", jobs: int = 1, **settings: object) -> dict[str, FileResult]:
    """What a run over a tree would do, by path below it."""
    from torchmigrate.engine import planner

    known = {"root": root, **settings}
    plan = planner.plan([root], Settings(**known), jobs, mode)  # type: ignore[arg-type]
    return {r.path.relative_to(root.resolve()).as_posix(): r for r in plan.results}


def texts_after(root: Path, **settings: object) -> dict[str, str]:
    """The new text of each file that a run would write."""
    found = planned(root, **settings)
    assert not [r for r in found.values() if isinstance(r, Failed)], found
    return {name: r.after.decode() for name, r in found.items() if isinstance(r, Changed)}


def write_plan(root: Path, **settings: object) -> dict[str, bytes]:
    """Write what a run would write; gives the bytes written."""
    changed = {n: r.after for n, r in planned(root, **settings).items() if isinstance(r, Changed)}
    write_tree(root, changed)
    return changed
