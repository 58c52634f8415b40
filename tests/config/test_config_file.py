"""Settings: where they come from, and what is said about mistakes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest
from conftest import Ran, cpu_seconds

from torchmigrate.base.text import UserError
from torchmigrate.config import config_file
from torchmigrate.config.keys import KEYS
from torchmigrate.config.settings import Settings
from torchmigrate.project.packaging import torch_floor
from torchmigrate.torch_api.names import version_of


def write(directory: Path, text: str, name: str = "pyproject.toml") -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / name
    file.write_text(text)
    return file


def test_every_key_is_read(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
[tool.torchmigrate]
select = ["device", "memory/empty-cache"]
ignore = ["amp"]
exclude = ["a"]
extend-exclude = ["third_party/*"]
unsafe-fixes = true
rule-paths = ["rules"]
torch = ">=2.1"
runtime = "package"
style = "native"
helper = "mypkg.device"
torch-libraries = ["monai"]
backends = ["mps", "xpu"]

[tool.torchmigrate.per-file-ignores]
"tests/*" = ["device"]

[tool.torchmigrate.helper-map]
device = "get_device"
""",
    )
    assert config_file.load([tmp_path]) == Settings(
        root=tmp_path,
        select=("device", "memory/empty-cache"),
        ignore=("amp",),
        per_file_ignores={"tests/*": ("device",)},
        exclude=("a",),
        extend_exclude=("third_party/*",),
        unsafe_fixes=True,
        rule_paths=(tmp_path / "rules",),
        torch=">=2.1",
        runtime="package",
        style="native",
        helper="mypkg.device",
        helper_map={"device": "get_device"},
        torch_libraries=("monai",),
        backends=("mps", "xpu"),
    )


def test_each_key_has_a_field_and_says_what_it_is() -> None:
    assert {key.replace("-", "_") for key in KEYS} <= {field.name for field in fields(Settings)}
    assert all(key.about.endswith(".") and key.default and key.examples for key in KEYS.values())


def test_the_nearest_pyproject_counts_without_cascade(tmp_path: Path) -> None:
    write(tmp_path, "[tool.torchmigrate]\nselect = ['device']\n")
    write(tmp_path / "inner", "[tool.other]\n")
    (tmp_path / "inner" / "deep").mkdir()
    (tmp_path / "other").mkdir()
    file = write(tmp_path / "other", "", "x.py")
    assert config_file.load([tmp_path / "inner" / "deep"]).select == ()
    assert config_file.load([tmp_path / "inner" / "deep"]).root == tmp_path / "inner"
    assert config_file.load([file]).select == ("device",)
    # the common parent of both is above `inner`
    assert config_file.load([file, tmp_path / "inner"]).select == ("device",)


def test_without_a_file_the_root_is_the_common_parent(tmp_path: Path) -> None:
    a, b = write(tmp_path / "p" / "a", "", "x.py"), write(tmp_path / "p" / "b", "", "y.py")
    assert config_file.load([a, b]).root == tmp_path / "p"


def test_flags_override_the_file(tmp_path: Path) -> None:
    write(tmp_path, "[tool.torchmigrate]\nselect = ['device']\nunsafe-fixes = true\n")
    settings = config_file.load([tmp_path], select=("amp",), unsafe_fixes=False, torch=None)
    assert (settings.select, settings.unsafe_fixes) == (("amp",), False)
    assert config_file.load([tmp_path], isolated=True).select == ()


def test_another_file_on_request(tmp_path: Path) -> None:
    write(tmp_path, "[tool.torchmigrate]\nselect = ['device']\n")
    plain = write(tmp_path / "etc", "select = ['amp']\nrule-paths = ['r']\n", "torchmigrate.toml")
    assert config_file.load([tmp_path], plain).select == ("amp",)
    assert config_file.load([tmp_path], plain).rule_paths == (tmp_path / "etc" / "r",)
    with pytest.raises(UserError, match=r"nowhere\.toml: no such configuration file"):
        config_file.load([tmp_path], tmp_path / "nowhere.toml")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("[tool.torchmigrate]\nselct = ['a']\n", 2, "unknown key `selct`\nhelp: did you mean `select`?"),
        ("[tool.x]\nselct = 1\n[tool.torchmigrate]\n\nselct = 1\n", 5, "unknown key `selct`"),
        ("[tool.torchmigrate.per-file-ignore]\n'a' = []\n", 1, "did you mean `per-file-ignores`?"),
        ("[tool.torchmigrate]\nzzz = 1\n", 2, "help: known: select, ignore"),
        ("[tool.torchmigrate]\nselect = 'a'\n", 2, "`select` must be a list of strings"),
        ("[tool.torchmigrate]\nunsafe-fixes = 'yes'\n", 2, "`unsafe-fixes` must be true or false"),
        (
            "[tool.torchmigrate]\n\nruntime = 'copy'\n",
            3,
            "`runtime` must be 'vendor' or 'package' or 'inline', not 'copy'",
        ),
        ("[tool.torchmigrate]\ntorch = 'new'\n", 2, "must be a version specifier"),
        (
            "[tool.torchmigrate]\ntorch-libraries = ['monai.nets']\n",
            2,
            "must be the name of a top-level module, as \"monai\", not 'monai.nets'",
        ),
        ("[tool.torchmigrate]\nbackends = ['mpss']\n", 2, "names no backend: `mpss`\nhelp: did you mean `mps`?"),
        ("[tool.torchmigrate]\nhelper = 3\n", 2, "`helper` must be a string"),
        ("[tool.torchmigrate]\nhelper-map = 3\n", 2, "`helper-map` must be a table"),
        ("a = 1\n[tool.torchmigrate\n", 2, "not valid TOML"),
    ],
)
def test_mistakes_are_named_with_file_and_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(UserError) as caught:
        config_file.load([tmp_path])
    assert str(caught.value).startswith(f"error: {file}:{line}: ")
    assert message in str(caught.value)


def test_a_table_that_is_none(tmp_path: Path) -> None:
    write(tmp_path, "tool.torchmigrate = 3\n")
    with pytest.raises(UserError, match="must be a table"):
        config_file.load([tmp_path])


@pytest.mark.parametrize("spec", [">=2.1", "2.1", "==2.*", ">=2.1,<3", "~=2.1", ">2, <3.0"])
def test_version_specifiers(tmp_path: Path, spec: str) -> None:
    assert config_file.load([tmp_path], torch=spec).torch == spec


def test_a_mistaken_option_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--backends names no backend: `mpss`"):
        config_file.load([tmp_path], backends=("mpss",))


def test_per_file_ignores(tmp_path: Path) -> None:
    settings = Settings(root=tmp_path, per_file_ignores={"tests/*": ("device",), "*.pyi": ("amp",), "x": ("a",)})
    assert settings.ignored_in(tmp_path / "tests" / "a.py") == ("device",)
    assert settings.ignored_in(tmp_path / "tests" / "a.pyi") == ("device", "amp")
    assert settings.ignored_in(tmp_path / "src" / "a.py") == ()


# ---- attacks: what a file may hold, and where it may lie


def refused(tmp_path: Path, text: str | bytes, *, name: str = "pyproject.toml") -> str:
    file = tmp_path / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UserError) as caught:
        config_file.read(file)
    return str(caught.value).replace(f"{tmp_path}/", "")


DIGITS = "9" * 5_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"[tool.torchmigrate]\ntorch = {DIGITS}\n", "pyproject.toml: it has a number of thousands of digits"),
        (f"[tool.torchmigrate]\ntorch = '>={DIGITS}'\n", "2: `torch` must be a version specifier"),
        (f"[tool.torchmigrate]\nhelper = '{'a' * 5_000}'\n", "2: `helper` must be a module's name"),
        ("[tool.torchmigrate]\nhelper = 'a.class.b'\n", "2: `helper` must be a module's name"),
        ("[tool.torchmigrate]\nhelper = 'utils/device.py'\n", "as 'utils.device', not 'utils/device.py'"),
        (f"[tool.torchmigrate]\nexclude = ['{'{a,' * 300}b{'}' * 300}']\n", "longer than 1,000 characters"),
        (f"[tool.torchmigrate]\nexclude = ['{'{a,' * 60}{{b,c,d,e,f}}{'}' * 60}']\n", "more than 10,000 patterns"),
        (f"x = '{'a' * 3_000_000}'\n", "larger than 2,000,000 bytes"),
        (f"x = {'[' * 5_000}{']' * 5_000}\n", "nested too deeply"),
    ],
)
def test_what_is_larger_than_people_write(tmp_path: Path, text: str, said: str) -> None:
    told = refused(tmp_path, text)
    assert said in told and "help: " in told
    assert len(told) < 400


def test_a_file_that_takes_long_to_parse_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_file, "SECONDS", 0.2)
    assert "takes more than 0.2 seconds" in refused(tmp_path, f"[{'a.' * 50_000}b]\n")


def test_a_floor_of_thousands_of_digits_is_none(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(f"torch>={DIGITS}.{DIGITS}\n")
    assert torch_floor(tmp_path) is None
    assert version_of(f">={DIGITS}") is None
    assert version_of(">=2.1.*,<3") == (2, 1)


def test_a_bom_and_crlf(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_bytes(b"\xef\xbb\xbf[tool.torchmigrate]\r\nselect = ['device']\r\nselct = 1\r\n")
    assert "pyproject.toml:3: unknown key `selct`" in refused(tmp_path, file.read_bytes())
    file.write_bytes(b"\xef\xbb\xbf[tool.torchmigrate]\r\nselect = ['device']\r\n")
    assert config_file.load([tmp_path]).select == ("device",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[project\n[tool.torchmigrate]\n", "pyproject.toml:1: "),
        ("[project]\nname = 'x'\nname = 'y'\n[tool.torchmigrate]\n", "pyproject.toml:3: "),
        ("x = " + "[" * 5000, "pyproject.toml: nested too deeply"),
        ("[tool.torchmigrate]\nselect = ['a']\n".encode("utf-16"), "byte 0xff is not UTF-8"),
    ],
    ids=["broken elsewhere", "a key twice", "deep", "utf-16"],
)
def test_a_file_that_cannot_be_read_has_a_way_out(tmp_path: Path, text: str | bytes, said: str) -> None:
    told = refused(tmp_path, text)
    assert said in told
    assert "--isolated" in told
    assert config_file.load([tmp_path], isolated=True).root == tmp_path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("select = []", "`select` is empty: leave it out, or name something"),
        ("select = ['device/*']", "`select` must name packs or rules"),
        ("ignore = ['a,b']", "`ignore` must name packs or rules"),
        ("per-file-ignores = ['device']", "`per-file-ignores` must be a table"),
        ("per-file-ignores = {'a/*' = 'device'}", "of 'a/*' must be a list of strings: [\"device\"]"),
        ("per-file-ignores = {'tests\\a.py' = ['device']}", "write it with `/`, as on every system: 'tests/a.py'"),
        ("extend-exclude = ['!a']", "an exclusion is not taken back"),
        ("extend-exclude = ['../a']", "leads out"),
        ("extend-exclude = ['./']", "matches no file"),
        ("extend-exclude = ['']", "matches no file"),
        ("exclude = ['[z-a]']", "is no pattern: bad character range"),
        ("exclude = ['**/a/**/b/**/c/**/d/**']", "at most 4 `**`"),
        ("exclude = ['" + "{a,b}" * 9 + "']", "at most 4 `**`, and 64 choices"),
        ("helper = 'mypkg/device.py'", "must be a module's name, as 'mypkg.device', not 'mypkg/device.py'"),
        ("torch = 2.1", '`torch` must be a string\nhelp: write torch = ">=2.1"'),
        ("torch = '2.1 2.2'", "must be a version specifier"),
        ("torch = '" + "1" * 60 + "x'", "must be a version specifier"),
    ],
)
def test_values_that_mean_nothing(tmp_path: Path, text: str, said: str) -> None:
    told = refused(tmp_path, f"\n[tool.torchmigrate]\n# settings\n{text}\n")
    assert told.startswith("error: pyproject.toml:4: ")
    assert said in told


@pytest.mark.parametrize(
    ("glob", "inside", "outside"),
    [
        ("**/gen/*.py", ["gen/a.py", "x/y/gen/a.py"], ["gen.py", "x/gen/y/a.py"]),
        ("src/**", ["src/a.py", "src/b/c.py"], ["x/src/a.py"]),
        ("{tests,bench}/*_{gpu,cuda}.py", ["tests/a_gpu.py", "bench/b_cuda.py"], ["tests/a.py", "x/tests/a_gpu.py"]),
        ("gen", ["gen/a.py", "x/gen/a.py", "gen"], ["gen.py", "gens/a.py"]),
        ("/gen", ["gen/a.py"], ["x/gen/a.py"]),
        ("./gen/", ["gen/a.py", "x/gen/a.py"], ["genx/a.py"]),
        ("[!a]*.py", ["b.py", "x/b.py"], ["a.py"]),
        ("{a", ["{a"], ["a"]),
        ("a[", ["a["], ["a"]),
        ("!src/**", ["tests/a.py", "a.py"], ["src/a.py"]),
    ],
)
def test_patterns(tmp_path: Path, glob: str, inside: list[str], outside: list[str]) -> None:
    write(tmp_path, f"[tool.torchmigrate.per-file-ignores]\n'{glob}' = ['device']\n")
    settings = config_file.load([tmp_path])
    assert [p for p in (*inside, *outside) if settings.ignored_in(tmp_path / p)] == inside


def test_a_pattern_takes_no_time_over_a_long_name(tmp_path: Path) -> None:
    settings = Settings(root=tmp_path, per_file_ignores={"*a*a*a*a*a*a*a*a*a*a*b": ("device",)})
    assert not settings.ignored_in(tmp_path / ("a" * 250))  # as a plain `.*` each it would not end


def test_the_line_of_a_key_is_found_in_any_notation(tmp_path: Path) -> None:
    for text, line in (
        ("[tool]\n\ntorchmigrate.selct = 1\n", 3),
        ("[tool.'torchmigrate']\nx = '''\n[tool]\nselct = 2\n'''\n\n\"selct\" = 1\n", 2),
        ("tool.torchmigrate.select = ['device']\ntool.torchmigrate.selct = 1\n", 2),
        ("[tool.torchmigrate]\nselect = [\n 'device',\n]\nselct = 1\n", 5),
        ("# select\n[tool.other]\nselct = 1\n[tool.torchmigrate]\ntorch = '>=2'\n[tool.torchmigrate.selct]\n", 6),
    ):
        assert refused(tmp_path, text).startswith(f"error: pyproject.toml:{line}: unknown key"), text


@pytest.mark.slow
def test_looking_for_a_line_ends(tmp_path: Path) -> None:
    slow = "x = [\n" + "[\n],\n" * 400 + "]\n"  # each line might end it
    many = "".join(f"[tool.t{number}]\n{slow}" for number in range(60))
    assert "unknown key `selct`" in refused(tmp_path, f"{many}[tool.torchmigrate]\nselct = 1\n")


def test_settings_for_other_tables_are_none_of_ours(tmp_path: Path) -> None:
    assert "stand at the top, in no table" in refused(tmp_path, "[torchmigrate]\nselect = ['a']\n", name="own.toml")
    write(tmp_path, "[torchmigrate]\nselct = ['a']\n[tool.torch-migrate]\nselct = 1\n")
    assert config_file.load([tmp_path]).select == ()


def test_a_file_that_was_chosen_has_settings(tmp_path: Path) -> None:
    bare = write(tmp_path, "[project]\nname = 'x'\n")
    with pytest.raises(UserError, match=r"there is no \[tool.torchmigrate\] in it"):
        config_file.load([tmp_path], bare)
    assert config_file.load([tmp_path]).select == ()
    with pytest.raises(UserError, match="is a folder"):
        config_file.load([tmp_path], tmp_path)
    with pytest.raises(UserError, match="leave one of them out"):
        config_file.load([tmp_path], bare, isolated=True)


# ---- the same on a command line


def project(here: Path, text: str) -> None:
    write(here, f"[tool.torchmigrate]\n{text}\n")
    write(here, "import torch\nx = torch.zeros(3).cuda()\n", "a.py")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ignore = ['devise']", ":2: `ignore`: unknown rule or pack `devise`\nhelp: did you mean `device`?"),
        (
            "[tool.torchmigrate.per-file-ignores]\na = ['amp']\nb = ['amq']",
            ":4: `per-file-ignores`: unknown rule or pack `amq`\n",
        ),
        ("rule-paths = ['nowhere']", ":2: `rule-paths` names {here}/nowhere, which is no folder\nhelp: paths are"),
        ("select = ['device']\nignore = ['device']", "`select` and `ignore` leave no rule"),
    ],
)
def test_names_that_there_are_not(here: Path, cli: Callable[..., Ran], text: str, said: str) -> None:
    project(here, text)
    for command in ("check", "apply", "config", *(["rules"] if "rule-paths" in text else [])):
        ran = cli(command)
        assert ran.status == 2
        assert said.format(here=here) in ran.err, ran.err
    assert cli("check", "--isolated").status == 1


def test_an_option_in_place_of_a_wrong_name(
    here: Path, cli: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    project(here, "select = ['devise']")
    assert cli("check", "--select", "device").status == 1
    assert cli("check", "--select", "devise").err.startswith("error: --select: unknown rule or pack `devise`")
    assert "--select is empty" in cli("check", "--select", "").err
    assert "--select must name packs or rules" in cli("check", "--select", "device/*").err
    write(here / "sub", "", "b.py")
    assert cli("check", "--isolated", "--exclude", "a.py").status == 0
    monkeypatch.chdir(here / "sub")
    assert cli("check", "..", "--select", "device", "--exclude", "../a.py").status == 0
    assert "leads out" in cli("check", "..", "--isolated", "--exclude", "../../x/y").err
    assert "--exclude has '!a'" in cli("check", "--isolated", "--exclude", "!a").err


RULE = 'summary = "s"\nsafety = "safe"\nwhy = "w"\n[[rewrite]]\nmatch = "torch.zzz($x)"\nwith = "torch.y($x)"\n'


def test_folders_of_rules(here: Path, cli: Callable[..., Ran]) -> None:
    project(here / "p", "rule-paths = ['tools/rules', './tools/rules/', 'tools/../tools/rules']")
    write(here / "p" / "tools" / "rules" / "own", "\ufeff" + RULE, "zzz.toml")
    ran = cli("check", "p", "--select", "own")  # relative to the file, and once though it is named thrice
    assert (ran.status, ran.out) == (0, ""), ran.err
    assert cli("check", "p", "--select", "own/zzz,device").status == 1


def test_a_folder_without_packs_is_not_taken_in_silence(here: Path, cli: Callable[..., Ran]) -> None:
    project(here, "rule-paths = ['rules/own']")
    write(here / "rules" / "own", RULE, "zzz.toml")
    ran = cli("check")
    assert ran.status == 2
    assert "there are no rules in it" in ran.err
    assert ran.err.strip().endswith(f"name the folder above, {here}/rules")


def test_a_rule_of_the_same_name_as_ours(here: Path, cli: Callable[..., Ran]) -> None:
    project(here, "rule-paths = ['rules']")
    file = write(here / "rules" / "memory", RULE, "empty-cache.toml")
    ran = cli("check")
    assert ran.status == 2
    assert f"{file}:1: rule memory/empty-cache exists already" in ran.err
    assert "`ignore` that one by its name" in ran.err


def test_a_pack_is_ignored_in_some_files(here: Path, cli: Callable[..., Ran]) -> None:
    project(here, "per-file-ignores = {'{b,c}.py' = ['device'], '!*.py' = ['build']}")
    for name in ("b.py", "c.py"):
        write(here, (here / "a.py").read_text(), name)
    write(here, "FROM nvidia/cuda:12.1-base\n", "Dockerfile")
    out = cli("check", "--output-format", "concise").out
    assert [line.partition(":")[0] for line in out.splitlines()] == ["a.py"]
    write(here, "[tool.torchmigrate]\n")
    out = cli("check", "--output-format", "concise").out
    assert [line.partition(":")[0] for line in out.splitlines()] == ["Dockerfile", "a.py", "b.py", "c.py"]


def test_libraries_built_on_torch(here: Path, cli: Callable[..., Ran]) -> None:
    """In a file that imports one, a device is torch's."""
    write(here, 'import monai\nmodel = monai.net()\nmodel.to(device="cuda")\n', "a.py")
    last = cli("check", ".", "--select", "device/device-string").last
    assert "1 unsafe fix available" in last
    write(here, "[tool.torchmigrate]\ntorch-libraries = ['monai']\n")
    last = cli("check", ".", "--select", "device/device-string").last
    assert "1 fix available" in last
    assert "unsafe" not in last


def test_many_names_and_too_many_patterns(here: Path, cli: Callable[..., Ran]) -> None:
    (here / "a.py").write_text("import torch\n")
    settings = here / "pyproject.toml"

    def check_both() -> None:
        settings.write_text(f"[tool.torchmigrate]\nselect = {[f'device/x{n}' for n in range(20_000)]}\n")
        ran = cli("check")
        assert ran.status == 2 and "unknown rule or pack `device/x0`" in ran.err
        choices = ",".join(f"a{n}*b*c" for n in range(64))
        settings.write_text(f"[tool.torchmigrate]\nextend-exclude = {[f'{n}{{{choices}}}' for n in range(1_000)]}\n")
        ran = cli("check")
        assert ran.status == 2 and "`extend-exclude` has more than 10,000 patterns" in ran.err
        several = "".join(f'"x{n}/*.py" = ["device"]\n' for n in range(20_000))
        settings.write_text(f"[tool.torchmigrate.per-file-ignores]\n{several}")
        ran = cli("check")
        assert ran.status == 2 and "`per-file-ignores` has more than 1,000 patterns" in ran.err
        few = "".join(several.splitlines(keepends=True)[:900])
        settings.write_text(f"[tool.torchmigrate.per-file-ignores]\n{few}")
        assert cli("check").status == 0

    assert cpu_seconds(check_both) < 20  # about 1; a minute before


def test_a_key_of_many_parts(here: Path, cli: Callable[..., Ran]) -> None:
    (here / "a.py").write_text("import torch\n")
    for head in ("[tool.torchmigrate]\n", "[tool.torchmigrate.x]\n", ""):
        (here / "pyproject.toml").write_text(f"{head}{'.'.join(['a'] * 3_000)} = 1\n")
        ran = cli("check")
        assert ran.status == (2 if head else 0) and "internal error" not in ran.err
        assert not head or "pyproject.toml:" in ran.err
