"""Every message that people can get, each as a row: what is there, what is typed. What comes is in messages.txt."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

GOOD = "import torch\n\nx = torch.zeros(2).cuda()\n"
_OWN = "[tool.torchmigrate]\nrule-paths = ['my']\n"
_HEAD = 'summary = "s"\nsafety = "display"\nwhy = "w"\n'
_TEXT = f'{_HEAD}files = ["requirements.txt"]\n[[pattern]]\n'
_SET = "".join(f'{name} = "works"\n' for name in ("cuda", "mps", "xpu", "npu", "hpu", "mtia", "cpu"))
_CATALOG = f'source = "s"\n[verdicts.all]\n{_SET}[[api]]\nname = "torch.cuda.f"\nkind = "function"\n'
GIT = "git init -q -b main; git add -A; git commit -qm one"


@dataclass(frozen=True, slots=True)
class Row:
    """`files`, `setup` (bash), `first` (a command line of ours) and `then` (bash) make a project; `run` is typed in it,
    and is what counts. `{here}` in what comes is the project's path."""

    run: str
    files: dict[str, str] = field(default_factory=dict)
    setup: str = ""
    first: str = ""
    then: str = ""
    stdin: str = ""


def _rule(text: str, run: str = "check", head: str = _HEAD) -> Row:
    return Row(run, {"pyproject.toml": _OWN, "my/own/r.toml": head + text})


def _rewrite(text: str) -> Row:
    return _rule(f"[[rewrite]]\n{text}\n")


def _pattern(text: str, head: str = _TEXT) -> Row:
    return _rule(text, head=head)


def _catalog(text: str) -> Row:
    return Row("catalog torch.cuda.f", {"pyproject.toml": _OWN, "my/catalog/c.toml": text})


def _api(text: str) -> Row:
    return _catalog(_CATALOG + text)


def _config(text: str, run: str = "check") -> Row:
    return Row(run, {"a.py": GOOD, "pyproject.toml": f"[tool.torchmigrate]\n{text}\n"})


def _file(run: str = "check", **files: str) -> Row:
    return Row(run, {name.replace("__", "."): text for name, text in files.items()})


def _fleet(lines: str, run: str = "", setup: str = "", **files: str) -> Row:
    """A list of repositories; `a` is a plain folder."""
    return Row(
        f"fleet repos.txt -o out --no-score {run}".rstrip(), {"repos.txt": lines, "a/a.py": GOOD, **files}, setup
    )


def _git(run: str, setup: str = "", **files: str) -> Row:
    return Row(run, {"a.py": GOOD, **files}, f"{GIT}; {setup}" if setup else GIT)


_LEFT = '[[api]]\nname = "torch.cuda.g"\nkind = "function"\naction = "left alone"\n'
_RULE = 'action = "reported"\nrule = "hazard/float64"\n'

ROWS = {
    # ---- the command line
    "no such command": Row("chekc"),
    "no such command, none near": Row("frobnicate"),
    "no such option": Row("apply --dryrun"),
    "no such option, none near": Row("check -z"),
    "no such option of the program": Row("--versoin"),
    "check --fix": Row("check --fix"),
    "check --diff": Row("check --diff"),
    "check --add-noqa": Row("check --add-noqa"),
    "apply --check": Row("apply --check"),
    "fix": Row("fix"),
    "help": Row("help"),
    "help of a command": Row("help check"),
    "an odd colour": Row("check --color sometimes"),
    "add-ignores and a baseline": Row("check --add-ignores --baseline b.json"),
    "- and add-ignores": Row("check - --add-ignores"),
    "undo what is not there": Row("undo nowhere"),
    "an odd pre-release": Row("check --torch '>=2.1zz'"),
    "not a choice": Row("check --output-format jsn"),
    "not a choice, none near": Row("check --output-format pdf"),
    "not a number": Row("check -j many"),
    "out of range": Row("check -j 0"),
    "an option without its value": Row("check --select"),
    "a flag with a value": Row("check --quiet=yes"),
    "a missing argument": Row("explain"),
    "too many arguments": Row("undo a b"),
    "baseline of apply": Row("apply --baseline b.json"),
    "write-baseline without a file": Row("check --write-baseline"),
    "since and staged": Row("check --since main --staged"),
    "stdin-filename without -": Row("check --stdin-filename a.py"),
    "- and a path": Row("check - a.py"),
    "- and since": Row("check - --since main"),
    "- and staged": Row("check - --staged"),
    "- and write-baseline": Row("check - --baseline b --write-baseline"),
    "interactive and dry-run": Row("apply -i -n"),
    "interactive without a terminal": Row("apply -i"),
    "unknown rule": Row("check --select device/tensor-cud"),
    "unknown pack, none near": Row("check --ignore zzzz"),
    "unknown name to list": Row("rules devise"),
    "nothing to explain": Row("explain torch.cuda.emty_cache"),
    "nothing to explain, none near": Row("explain qqqq"),
    "unknown backend": Row("check --backends mpss"),
    "unknown backend, none near": Row("check --backends zz"),
    "not a version": Row("check --torch two"),
    "no such config": Row("check --config nowhere.toml"),
    "no backend of the catalog": Row("catalog --backend mpss"),
    "no backend of the catalog, none near": Row("catalog --backend zz"),
    "no API of the catalog": Row("catalog torch.cuda.emty_cache"),
    "no API of the catalog, none near": Row("catalog zzz"),
    "report on what has no score": Row("report --backends xla"),
    "report on some without a score": _file("report --backends mps,xla -o r.txt", a__py=GOOD),
    "output that cannot be written": _file("check -o no/such/dir.txt", a__py=GOOD),
    "report that cannot be written": _file("report -o no/such/dir.txt", a__py=GOOD),
    # ---- paths and files
    "no such path to start from": Row("start nowhere"),
    "no such path": Row("check nowhere"),
    "no such path to rewrite": _file("apply nowhere a.py", a__py=GOOD),
    "nothing here": Row("check"),
    "nothing here to rewrite": Row("apply"),
    "nothing Python here": _file("check", notes__txt="x"),
    "nothing that mentions CUDA": _file("check", a__py="print(1)\n"),
    "nothing to rewrite": _file("apply", a__py="print(1)\n"),
    "excluded by the command line": _file("check a.py --exclude a.py", a__py=GOOD),
    "a path that is not Python": Row("check notes.txt", {"notes.txt": "x"}),
    "excluded, told": _file("check . --exclude a.py -v", a__py=GOOD),
    "a FIFO": Row("check pipe.py", setup="mkfifo pipe.py"),
    "a broken link": Row("check", setup="ln -s nowhere.py a.py"),
    "Python 2": _file(a__py="import torch\nprint 'x'.cuda()\n"),
    "a byte of another encoding": Row("check", setup=r"printf 'import torch\n\nx = \"caf\xe9\".cuda()\n' > a.py"),
    "another encoding": Row("check", setup=r"printf 'x = \"caf\xe9\".cuda()\n' > a.py"),
    "an encoding that nobody knows": _file(a__py="# coding: klingon\nx.cuda()\n"),
    "an encoding that does not survive": Row("check", setup=r"printf '# coding: utf-7\nx.cuda() # +AGEAYg-\n' > a.py"),
    "a NUL byte": Row("check", setup=r"printf 'x.cuda()\0\n' > a.py"),
    "too deep": _file(a__py="x.cuda()\ny = " + "(" * 3000 + ")" * 3000 + "\n"),
    "no notebook": _file(a__ipynb='{"cuda": 1}'),
    "a notebook that is no JSON": _file(a__ipynb='{"cuda": '),
    "a notebook that is no UTF-8": Row("check", setup=r"printf '{\"cuda\": \"\xe9\"}' > a.ipynb"),
    "an old notebook": _file(a__ipynb='{"worksheets": [{"cells": ["x.cuda()"]}], "nbformat": 3}'),
    "skip-file": _file("check -v", a__py=f"# torchmigrate: skip-file\n{GOOD}"),
    "unsafe fixes, and what needs people": _file("apply", a__py=f"{GOOD}def f(m):\n    m.cuda(1)\nimport apex\n"),
    "the same, told": _file("apply -v", a__py=f"{GOOD}def f(m):\n    m.cuda(1)\n"),
    "a dry run": _file("apply -n", a__py=GOOD),
    "a dry run from elsewhere": Row("apply -n ../there", {"../there/a.py": GOOD, "../there/pyproject.toml": ""}),
    # ---- git
    "not in git": _file("apply", a__py=GOOD),
    "unstaged changes": _git("apply", "echo '# mine' >> a.py"),
    "untracked files": Row("apply", {"a.py": GOOD, "b/c.py": GOOD}, "git init -q"),
    "since what git does not know": _git("check --since mian"),
    "since what git does not know, none near": _git("check --since zzzz"),
    "since in a shallow clone": _git(
        "check --since zzzz", "mkdir u; git clone -q --depth 1 file://$PWD u/c; mv .git old; mv u/c/.git ."
    ),
    "since outside git": _file("check --since main", a__py=GOOD),
    "staged outside git": _file("check --staged nowhere", a__py=GOOD),
    "since a commit": _git("check --since HEAD", "echo >> a.py"),
    "since, nothing": _git("check --since HEAD"),
    "since a stranger": _git(
        "check --since other", "git switch -q --orphan other; git commit -q --allow-empty -m o; git switch -q main"
    ),
    "staged": _git("check --staged", "echo >> a.py; git add a.py"),
    "staged and changed again": _git("check --staged", "echo >> a.py; git add a.py; echo >> a.py"),
    "staged, nothing": _git("check --staged"),
    "commit": _git("apply --commit"),
    "commit, a dry run": _git("apply --commit -n"),
    "commit on a new branch": _git("apply --branch new"),
    "commit, nothing": Row("apply --commit", {"a.py": "print(1)\n"}, GIT),
    "commit outside git": _file("apply --commit", a__py=GOOD),
    "commit and allow-dirty": _git("apply --commit --allow-dirty"),
    "commit while merging": _git("apply --commit", "touch .git/MERGE_HEAD"),
    "commit before the first": Row("apply --commit", {"a.py": GOOD}, "git init -q"),
    "commit on no branch": _git("apply --commit", "git switch -q --detach"),
    "commit by nobody": _git("apply --commit", "rm $GIT_CONFIG_GLOBAL"),
    "commit on no name": _git("apply --branch a..b"),
    "commit on a branch that is there": _git("apply --branch main"),
    "commit with changes": _git("apply --commit", "echo '# mine' >> a.py"),
    "commit in two repositories": _git("apply --commit . sub", "mkdir sub; cp a.py sub; git -C sub init -q"),
    "commit, the helper is in the way": _git("apply --commit", "", **{"accel.py": "x = 1\n"}),
    "commit, git fails": _git("apply --commit", "git config commit.gpgSign true; git config gpg.program false"),
    "commit, the branch is locked": _git("apply --commit", "touch .git/refs/heads/main.lock"),
    "undo": _file("undo", a__py=GOOD),
    "undo, after apply": Row("undo", {"a.py": GOOD}, first="torchmigrate apply"),
    "undo, changed since": Row("undo", {"a.py": GOOD}, first="torchmigrate apply", then="echo >> a.py"),
    "undo, deleted since": Row("undo", {"a.py": GOOD}, first="torchmigrate apply", then="rm a.py"),
    "undo what was committed": Row("undo", {"a.py": GOOD}, GIT, "torchmigrate apply --commit"),
    "originals that cannot be saved": Row("apply", {"a.py": GOOD}, "rm -rf $XDG_STATE_HOME; touch $XDG_STATE_HOME"),
    # ---- settings
    "TOML with a mistake": _config("select = ["),
    "settings that are no UTF-8": Row("check", setup=r"printf '\xe9' > pyproject.toml"),
    "settings that cannot be read": Row("check", setup="ln -s /proc/self/mem pyproject.toml"),
    "settings that are no table": Row("check", {"pyproject.toml": "[tool]\ntorchmigrate = 1\n"}),
    "settings from a file, and from none": Row("check --config c.toml --isolated"),
    "settings of another tool": Row("check --config c.toml", {"c.toml": "[tool.other]\n"}),
    "settings from a directory": Row("check --config ."),
    "settings that are nested too deeply": Row("check", {"pyproject.toml": "x = " + "[" * 5000}),
    "settings of nowhere": Row("config nowhere"),
    "settings that leave no rule": Row("check --select amp --ignore amp"),
    "an odd exclusion": Row("check --exclude '!a'"),
    "an odd glob": Row("check --exclude 'a\\\\b'"),
    "unknown key": _config("unsafe-fix = true"),
    "unknown key, none near": _config("zzzz = true"),
    "not a list": _config("select = 'device'"),
    "not a flag": _config("unsafe-fixes = 'yes'"),
    "not a text": _config("helper = 1"),
    "not one of two": _config("style = 'mixed'"),
    "no version": _config("torch = 'two'"),
    "no such backend": _config("backends = ['mpss']"),
    "not a table": _config("per-file-ignores = ['a']"),
    "unknown rule in the settings": _config("ignore = ['device/tensor-cud']"),
    "rule-paths that are not there": _config("rule-paths = ['nowhere']"),
    "helper-map without helper": _config("helper-map = {device = 'get'}"),
    "helper that is not there": _config("helper = 'a.nowhere'"),
    "helper that does not parse": Row(
        "check", {"a.py": GOOD, "h.py": "(", "pyproject.toml": "[tool.torchmigrate]\nhelper = 'h'\n"}
    ),
    "helper-map of nothing": _config("helper = 'a'\nhelper-map = {devise = 'x'}"),
    "helper-map of nothing, none near": _config("helper = 'a'\nhelper-map = {zzzz = 'x'}"),
    "helper-map to nothing": _config("helper = 'a'\nhelper-map = {device = 'nothing'}"),
    "native with an old torch": _config("style = 'native'\ntorch = '>=2.4'", "apply"),
    "native with no known torch": _config("style = 'native'", "apply"),
    "native with an old torch in the requirements": Row(
        "apply --style native", {"a.py": GOOD, "requirements.txt": "torch>=2.4\n"}
    ),
    "native, and what it leaves": Row(
        "apply -n --style native --torch '>=2.9'",
        {"a.py": f"{GOOD}torch.cuda.manual_seed(1)\nm.to(torch.device('cuda:1'))\n"},
    ),
    "a torch older than the helper": _file(a__py=GOOD, requirements__txt="numpy\ntorch>=1.4\n"),
    "a torch older than the helper, in the settings": _config("torch = '==1.4'"),
    "torch inferred": _file(a__py=GOOD, requirements__txt="torch>=1.10\n"),
    # ---- baselines
    "no such baseline": Row("check --baseline b.json"),
    "a baseline that is a directory": Row("check --baseline .", {"a.py": GOOD}),
    "a baseline that is no JSON": _file("check --baseline b.json", a__py=GOOD, b__json="{"),
    "a baseline of bytes": Row("check --baseline b.json", {"a.py": GOOD}, r"printf '\xff\xfe\xff' > b.json"),
    "another's JSON": _file("check --baseline b.json", a__py=GOOD, b__json="{}"),
    "a baseline of the future": _file(
        "check --baseline b.json", b__json='{"format": "torchmigrate-baseline", "version": 9}'
    ),
    "a baseline without findings": _file(
        "check --baseline b.json", b__json='{"format": "torchmigrate-baseline", "version": 1}'
    ),
    "a baseline with a hole": _file(
        "check --baseline b.json",
        b__json='{"format": "torchmigrate-baseline", "version": 1, "findings": [{"file": "a"}]}',
    ),
    "a baseline is written": _file("check --baseline b.json --write-baseline", a__py=GOOD),
    "a baseline that cannot be written": _file("check --baseline no/b.json --write-baseline", a__py=GOOD),
    "a baseline is out of date": Row(
        "check --baseline b.json",
        {"a.py": GOOD},
        first="torchmigrate check --baseline b.json --write-baseline",
        then="echo > a.py",
    ),
    # ---- standard input
    "stdin is rewritten": Row("apply - --stdin-filename a.py", stdin=GOOD),
    "stdin is excluded": Row("apply - --stdin-filename a.py --exclude a.py", stdin=GOOD),
    # ---- rule files
    "a rule is no TOML": _rule("x ="),
    "a rule is no UTF-8": Row("check", {"pyproject.toml": _OWN}, r"mkdir -p my/own; printf '\xe9' > my/own/r.toml"),
    "a rule is nested too deeply": _rule("x = " + "[" * 5000),
    "a key of a rule is of no such kind": _rule("see = 1\n"),
    "a rule is a directory": Row("check", {"pyproject.toml": _OWN, "my/own/r.toml/x": ""}),
    "a rule exists": Row(
        "rules", {"pyproject.toml": _OWN, "my/device/tensor-cuda.toml": _HEAD + 'files = ["a"]\n[[pattern]]\n'}
    ),
    "unknown key of a rule": _rule('sumary = "s"\n'),
    "unknown key of a rule, none near": _rule("zzzz = 1\n"),
    "a rule without a why": _rule("", head='summary = "s"\nsafety = "safe"\n'),
    "a rule of no safety": _rule("", head='summary = "s"\nsafety = "secure"\nwhy = "w"\n'),
    "a rule that matches nothing": _rule(""),
    "on without fixer": _rule('on = ["torch.x"]\n[[rewrite]]\nmatch = "torch.f()"\n'),
    "on something odd": _rule('fixer = "api/memory:manual_seed"\non = ["x"]\n'),
    "no such fixer": _rule('fixer = "api/memori"\non = ["torch.x"]\n', "check a.py"),
    "a rewrite without match": _rewrite('with = "x"'),
    "a match that is none": _rewrite('match = "torch.f("'),
    "a match of nothing": _rewrite('match = "x"'),
    "an unbound capture": _rewrite('match = "torch.f($x)"\nwith = "torch.g($y)"'),
    "an odd where": _rewrite('match = "torch.f($x)"\nwith = "torch.g($x)"\nwhere = {y = "literal"}'),
    "a case with a file": _rule('[[rewrite]]\nmatch = "torch.f()"\n[[case]]\ntitle = "t"\nbefore = "b"\nfile = "f"\n'),
    "a case without a file": _pattern('match = "x"\n[[case]]\ntitle = "t"\nbefore = "b"\n'),
    "a case without a title": _rule('[[rewrite]]\nmatch = "torch.f()"\n[[case]]\nbefore = "b"\n'),
    "files without a pattern": _rule('files = ["a"]\n'),
    "a pattern beside Python": _rule('on = ["torch.x"]\n[[pattern]]\nmatch = "x"\n'),
    "a pattern that rewrites": _pattern('match = "x"\n', 'summary = "s"\nsafety = "safe"\nwhy = "w"\n[[pattern]]\n'),
    "a pattern without files": _pattern('[[pattern]]\nmatch = "x"\n', _HEAD),
    "no list of globs": _pattern('files = "a"\n[[pattern]]\nmatch = "x"\n', _HEAD),
    "no such glob": _pattern('files = ["/a"]\n[[pattern]]\nmatch = "x"\n', _HEAD),
    "a pattern without match": _pattern('[[where]]\nfiles = ["a"]\n[[pattern]]\nmessage = "m"\n', _HEAD),
    "no regular expression": _pattern("match = 1\n"),
    "a bad regular expression": _pattern("match = '('\n"),
    "a slow regular expression": _pattern("match = '(a+)+'\n"),
    "an empty regular expression": _pattern("match = 'a*'\n"),
    "a message with a brace": _pattern('match = "x"\nmessage = "{"\n'),
    "a message with an unknown name": _pattern('match = "x"\nmessage = "{lib}"\n'),
    "cases that fail": Row(
        "rules test my",
        {
            "my/own/r.toml": _HEAD
            + '[[rewrite]]\nmatch = "torch.f()"\n[[case]]\ntitle = "t"\nbefore = "x = 1"\nafter = "x = 2"\n'
        },
    ),
    "cases of nothing": Row("rules test .", {"r.toml": _HEAD}),
    "cases of a catalog": Row("rules test my", {"my/catalog/c.toml": "api = []\n"}),
    "cases of nowhere": Row("rules test nowhere"),
    "cases of a folder that is not there": Row("rules test ./nowhere"),
    "cases of an empty folder": Row("rules test empty", {"empty/notes.txt": ""}),
    "cases of a file that is not there": Row("rules test my/own/rule.toml"),
    "a new rule without a name": Row("rules new"),
    "a new rule without a pack": Row("rules new alone"),
    "a new rule that exists": Row("rules new my/own/r", {"my/own/r.toml": _HEAD}),
    "findings ignored by comments": Row(
        "check --add-ignores",
        {
            "a.py": GOOD,
            "b.ipynb": json.dumps(
                {
                    "nbformat": 4,
                    "nbformat_minor": 5,
                    "metadata": {},
                    "cells": [
                        {
                            "cell_type": "code",
                            "id": "a",
                            "metadata": {},
                            "execution_count": None,
                            "outputs": [],
                            "source": GOOD,
                        }
                    ],
                }
            ),
        },
    ),
    "a diff of what lies elsewhere": Row("apply -n . ../other", {"a.py": GOOD}, "mkdir ../other; cp a.py ../other"),
    # ---- catalogs
    "api is no list": _catalog("api = 1\n"),
    "unknown key of a catalog": _catalog("sourse = 1\n"),
    "unknown key of a row": _api("zzzz = 1\n"),
    "no verdict for some": _catalog('[verdicts.all]\ncuda = "works"\n'),
    "verdicts are no table of tables": _catalog("verdicts = 1\n"),
    "verdicts are no table": _api('action = "left alone"\nwhy = "w"\nverdicts = 1\n'),
    "verdicts of another backend": _catalog('[verdicts.all]\nmpss = "works"\n'),
    "an odd verdict": _catalog('[verdicts.all]\nmps = "wroks"\n'),
    "a name that is none": _catalog('[[api]]\nname = "cuda.f()"\n'),
    "a name that is no text": _catalog("[[api]]\nname = 1\n"),
    "a row without a kind": _catalog('[[api]]\nname = "torch.f"\n'),
    "rules that are no list": _api('action = "reported"\nrule = 1\n'),
    "a row without verdicts": _api('action = "left alone"\nwhy = "w"\n'),
    "an unknown rule of a row": _api('action = "reported"\nrule = "hazard/flot64"\nverdicts = "all"\n'),
    "left alone by a rule": _api('action = "left alone"\nrule = "hazard/float64"\nverdicts = "all"\n'),
    "a row twice": _api(f'{_RULE}verdicts = "all"\n{_LEFT.replace(".g", ".f")}why = "w"\nverdicts = "all"\n'),
    "an unknown API in a project": _file("catalog --project . -o c.txt", a__py="import torch\ntorch.cuda.no_such()\n"),
    "a project that cannot be read": _file("catalog --project . -o c.txt", a__py="import torch\ntorch.cuda.f(\n"),
    # ---- verify
    "verify nowhere": Row("verify nowhere -- python x.py"),
    "verify without a command": Row("verify ."),
    "verify nowhere without a command": Row("verify nowhere"),
    "verify on an unknown backend": Row("verify . --backends mpss -- python x.py"),
    "verify on no backend": Row("verify . --backends , -- python x.py"),
    "verify with an odd variable": Row("verify . --env A -- python x.py"),
    "verify since, outside git": Row("verify . --since main -- python x.py", {"x.py": GOOD}),
    "verify since what git does not know": Row("verify . --since mian -- python x.py", {"x.py": GOOD}, setup=GIT),
    "verify since, nothing": Row("verify . --since HEAD -- python x.py", {"x.py": GOOD}, setup=GIT),
    "verify since, no Python": Row(
        "verify . -q --since HEAD -- python x.py", {"x.py": GOOD, "a.txt": "a"}, setup=f"{GIT}; echo b > a.txt"
    ),
    "verify what is portable": Row("verify . -q -- python x.py", {"x.py": "import torch\n"}),
    "verify what cannot be rewritten": Row("verify . -q -- python x.py", {"x.py": "import torch\nprint 'x'.cuda()\n"}),
    "verify with a mistyped command": Row("verify . -- pyhton x.py"),
    "verify with what cannot run": Row("verify . -- ./x.py", {"x.py": "pass\n"}),
    "verify with a Python without torch": Row(
        "verify . -- ./python x.py", setup="printf '#!/bin/sh\\nexit 3\\n' > python; chmod +x python"
    ),
    "backends of what is no Python": Row(
        "backends --python ./x", setup="printf '#!/bin/sh\\nexit 3\\n' > x; chmod +x x"
    ),
    # ---- fleet
    "a fleet": _fleet("a\n", setup=GIT),
    "a fleet, checked": _fleet("a\n", "--check"),
    "a fleet, again": Row(
        "fleet repos.txt -o out --no-score",
        {"repos.txt": "a\n", "a/a.py": GOOD},
        first="torchmigrate fleet repos.txt -o out --no-score",
    ),
    "no such list": Row("fleet repos.txt -o out"),
    "a list that is no UTF-8": Row("fleet repos.txt -o out", setup=r"printf '\xe9' > repos.txt"),
    "a list of nothing": _fleet("# none yet\n"),
    "a repository twice": _fleet("a\na\n"),
    "two repositories of one name": _fleet("a\nb x\nc x\n"),
    "a line with too many words": _fleet("a b c\n"),
    "a line with a quote inside": _fleet('"a"b\n'),
    "a repository with an odd name": _fleet("a ../b\n"),
    "a repository that is an option": _fleet("--upload-pack=x\n"),
    "a URL of another kind": _fleet("ftp://h/o/x\n"),
    "half a URL": _fleet("https://me:secret@h\n"),
    "an odd revision": _fleet("a@x^{/y}\n"),
    "an output folder with other things": _fleet("a\n", **{"out/mine": ""}),
    "an output folder that is a file": _fleet("a\n", out=""),
    "results that cannot be written": _fleet("a\n", **{"out/.torchmigrate-fleet": "", "out/a": ""}),
    "reports that cannot be written": _fleet("a\n", **{"out/.torchmigrate-fleet": "", "out/report.md/x": ""}),
    "repositories that fail": _fleet(
        "nowhere\na/a.py\nbroken\na@v1\nnone\nrepo@v1\nkey\nrules\n",
        "-j 1",
        "git init -q none; git init -q repo; git -C repo commit -q --allow-empty -m one;"
        " (echo file://$PWD/repo@v1 url; echo file://$PWD/gone.git) >> repos.txt",
        **{
            "broken/.git": "x",
            "key/pyproject.toml": "[tool.torchmigrate]\nselekt = 1\n",
            "rules/pyproject.toml": "[tool.torchmigrate]\nrule-paths = ['nowhere']\n",
        },
    ),
    "no such executor": _fleet("a\n", "--executor cluster"),
    "dask without a port": _fleet("a\n", "--executor dask://h"),
    "dask with -j": _fleet("a\n", "--executor dask://h:1 -j 2"),
    "a fleet on an odd branch": _fleet("a\n", "--branch a..b"),
    "verify nothing in a fleet": _fleet("a\n", "--verify ''"),
    "verify with an open quote in a fleet": _fleet("a\n", '--verify "\'x"'),
    "verify with a mistyped command in a fleet": _fleet("a\n", "--verify 'pyhton x.py'"),
    "an unknown rule in a fleet": _fleet("a\n", "--select device/tensor-cud"),
    "a fleet without rules": _fleet("a\n", "--select amp --ignore amp"),
    "an unknown backend in a fleet": _fleet("a\n", "--backends mpss"),
    "an odd exclusion in a fleet": _fleet("a\n", "--exclude '!a'"),
}
