"""Settings: where they come from, and what is said about mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchmigrate import config
from torchmigrate.errors import UserError


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
backends = ["mps", "xpu"]

[tool.torchmigrate.per-file-ignores]
"tests/*" = ["device"]

[tool.torchmigrate.helper-map]
device = "get_device"
""",
    )
    assert config.load([tmp_path]) == config.Settings(
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
        backends=("mps", "xpu"),
    )


def test_the_nearest_pyproject_counts_without_cascade(tmp_path: Path) -> None:
    write(tmp_path, "[tool.torchmigrate]\nselect = ['device']\n")
    write(tmp_path / "inner", "[tool.other]\n")
    (tmp_path / "inner" / "deep").mkdir()
    (tmp_path / "other").mkdir()
    file = write(tmp_path / "other", "", "x.py")
    assert config.load([tmp_path / "inner" / "deep"]).select == ()
    assert config.load([tmp_path / "inner" / "deep"]).root == tmp_path / "inner"
    assert config.load([file]).select == ("device",)
    # the common parent of both is above `inner`
    assert config.load([file, tmp_path / "inner"]).select == ("device",)


def test_without_a_file_the_root_is_the_common_parent(tmp_path: Path) -> None:
    a, b = write(tmp_path / "p" / "a", "", "x.py"), write(tmp_path / "p" / "b", "", "y.py")
    assert config.load([a, b]).root == tmp_path / "p"


def test_flags_override_the_file(tmp_path: Path) -> None:
    write(tmp_path, "[tool.torchmigrate]\nselect = ['device']\nunsafe-fixes = true\n")
    settings = config.load([tmp_path], select=("amp",), unsafe_fixes=False, torch=None)
    assert (settings.select, settings.unsafe_fixes) == (("amp",), False)
    assert config.load([tmp_path], isolated=True).select == ()


def test_another_file_on_request(tmp_path: Path) -> None:
    write(tmp_path, "[tool.torchmigrate]\nselect = ['device']\n")
    plain = write(tmp_path / "etc", "select = ['amp']\nrule-paths = ['r']\n", "torchmigrate.toml")
    assert config.load([tmp_path], plain).select == ("amp",)
    assert config.load([tmp_path], plain).rule_paths == (tmp_path / "etc" / "r",)
    with pytest.raises(UserError, match=r"nowhere\.toml: no such configuration file"):
        config.load([tmp_path], tmp_path / "nowhere.toml")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("[tool.torchmigrate]\nselct = ['a']\n", 2, "unknown key `selct`\nhelp: did you mean `select`?"),
        ("[tool.x]\nselct = 1\n[tool.torchmigrate]\n\nselct = 1\n", 5, "unknown key `selct`"),
        ("[tool.torchmigrate.per-file-ignore]\n'a' = []\n", 1, "did you mean `per-file-ignores`?"),
        ("[tool.torchmigrate]\nzzz = 1\n", 2, "help: known: select, ignore"),
        ("[tool.torchmigrate]\nselect = 'a'\n", 2, "`select` must be a list of strings"),
        ("[tool.torchmigrate]\nunsafe-fixes = 'yes'\n", 2, "`unsafe-fixes` must be true or false"),
        ("[tool.torchmigrate]\n\nruntime = 'copy'\n", 3, "`runtime` must be 'vendor' or 'package', not 'copy'"),
        ("[tool.torchmigrate]\ntorch = 'new'\n", 2, "must be a version specifier"),
        ("[tool.torchmigrate]\nbackends = ['mpss']\n", 2, "names no backend: 'mpss'; did you mean `mps`?"),
        ("[tool.torchmigrate]\nhelper = 3\n", 2, "`helper` must be a string"),
        ("[tool.torchmigrate]\nhelper-map = 3\n", 2, "`helper-map` must be a table"),
        ("a = 1\n[tool.torchmigrate\n", 2, "not valid TOML"),
    ],
)
def test_mistakes_are_named_with_file_and_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(UserError) as caught:
        config.load([tmp_path])
    assert str(caught.value).startswith(f"error: {file}:{line}: ")
    assert message in str(caught.value)


def test_a_table_that_is_none(tmp_path: Path) -> None:
    write(tmp_path, "tool.torchmigrate = 3\n")
    with pytest.raises(UserError, match="must be a table"):
        config.load([tmp_path])


@pytest.mark.parametrize("spec", [">=2.1", "2.1", "==2.*", ">=2.1,<3", "~=2.1", ">2, <3.0"])
def test_version_specifiers(tmp_path: Path, spec: str) -> None:
    assert config.load([tmp_path], torch=spec).torch == spec


def test_a_mistaken_option_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--backends names no backend: 'mpss'"):
        config.load([tmp_path], backends=("mpss",))


def test_per_file_ignores(tmp_path: Path) -> None:
    settings = config.Settings(root=tmp_path, per_file_ignores={"tests/*": ("device",), "*.pyi": ("amp",), "x": ("a",)})
    assert settings.ignored_in(tmp_path / "tests" / "a.py") == ("device",)
    assert settings.ignored_in(tmp_path / "tests" / "a.pyi") == ("device", "amp")
    assert settings.ignored_in(tmp_path / "src" / "a.py") == ()
