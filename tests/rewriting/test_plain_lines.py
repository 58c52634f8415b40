"""Lines as people write them: one `device`, tensors made where they are used; each with the trap that must stay."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import texts_after, write_tree

from torchmigrate.engine import case_runner
from torchmigrate.rewriting.visitor import DispatchTable


def plainly(rules: DispatchTable, text: str, style: str = "helper") -> str:
    """Return what a script becomes, without its imports."""
    done = case_runner.migrate(f"import torch\n{text}\n".encode(), rules, style=style, plain=True)[0].decode()
    return done.removeprefix("import torch\n").removeprefix("import accel\n").removesuffix("\n")


def test_a_script_gets_one_variable_above_the_first_use(rules: DispatchTable) -> None:
    done = plainly(rules, "x = f()\nx = x.cuda()\nfor y in z:\n    y = y.cuda()\n    g(y, x.cuda())")
    assert done == (
        "x = f()\ndevice = accel.device()\nx = x.to(device)\nfor y in z:\n    y = y.to(device)\n    g(y, x.to(device))"
    )


def test_functions_below_a_variable_use_it_where_one_above_is_called_too_early(rules: DispatchTable) -> None:
    """f is called above the variable, so it asks for itself; g, which is defined below it, needs none of its own."""
    moves = "{0}x.cuda()\n{0}y.cuda()\n{0}z.cuda()"
    done = plainly(rules, f"def f(a):\n    a.cuda()\nf(1)\n{moves.format('')}\ndef g(x, y, z):\n{moves.format('    ')}")
    assert done.count("accel.device()") == 2
    assert done.startswith("def f(a):\n    a.to(accel.device())\nf(1)\ndevice = accel.device()\n")


@pytest.mark.parametrize(("above", "gap"), [("\n\n", "\n"), ("\n", "")])
def test_what_is_bound_above_the_comment_of_a_paragraph_stands_apart(
    rules: DispatchTable, above: str, gap: str
) -> None:
    moves = "".join(f"        {name} = {name}.cuda(non_blocking=True)\n" for name in "xyz")
    head = f"def train(net, loader):\n    net.train(){above}"
    done = plainly(rules, f"{head}    # the loop\n    for x, y, z in loader:\n{moves}")
    bound = f"    device = accel.device()\n    non_blocking = accel.non_blocking()\n{gap}"
    assert done.startswith(f"{head}{bound}    # the loop\n    for x, y, z in loader:\n        x = x.to(device, ")


@pytest.mark.parametrize(
    "text, at",
    [
        ("x = 1\n# to the\n# device\nx = x.cuda()\ny = y.cuda()\nz = z.cuda()", "# to the"),
        ("x = 1\n\n# %% run\nx = x.cuda()\ny = y.cuda()\nz = z.cuda()", "x = x.to"),
        ("def f(x):\n    # to it\n    x = x.cuda()\n    y = y.cuda()\n    z = z.cuda()", "    # to it"),
        ("x = 1\n# of no statement\n\nx = x.cuda()\ny = y.cuda()\nz = z.cuda()", "x = x.to"),
        ("x = f('''\n# no comment''')\nx = x.cuda()\ny = y.cuda()\nz = z.cuda()", "x = x.to"),
    ],
)
def test_comments_stay_at_their_statements(rules: DispatchTable, text: str, at: str) -> None:
    done = plainly(rules, text)
    assert f"device = accel.device()\n{at}" in done and done.count("#") == text.count("#")


@pytest.mark.parametrize("head", ["", "def f(xs, ys):\n    if cuda:\n"])
def test_two_calls_are_worth_one_where_they_share_a_long_line(rules: DispatchTable, head: str) -> None:
    """Found in NVIDIA/flownet2-pytorch."""
    line = "xs, ys = [x.cuda(non_blocking=True) for x in xs], [y.cuda(non_blocking=True) for y in ys]"
    apart = line.replace("], [", "]; ys = [\n").replace("xs, ys", "xs", 1)
    indent = " " * 8 if head else ""
    done = plainly(rules, f"{head}{indent}{line}")
    assert f"{indent}device = accel.device()\n" in done and done.count("accel.device()") == 1
    assert "device = accel.device()" not in plainly(rules, f"{head}{indent}{apart}")
    pair = f"{'x' * 40}, {'y' * 40} = {'x' * 40}.cuda(), {'y' * 40}.cuda()"  # gets a line each where it is split
    assert "device = accel.device()" not in plainly(rules, f"{head}{indent}{pair}")


def test_two_calls_are_not_worth_one(rules: DispatchTable) -> None:
    assert plainly(rules, "x.cuda()\ny.cuda()") == "x.to(accel.device())\ny.to(accel.device())"


def test_a_function_gets_its_own_and_leaves_the_import_alone(rules: DispatchTable) -> None:
    body = "    a = a.cuda()\n    while a:\n        b(a.cuda(), c.cuda())"
    new = "    device = accel.device()\n    a = a.to(device)\n    while a:\n        b(a.to(device), c.to(device))"
    assert plainly(rules, f'def f(a):\n    """Do."""\n{body}') == f'def f(a):\n    """Do."""\n{new}'


def test_a_loop_is_left_first(rules: DispatchTable) -> None:
    done = plainly(rules, "def f():\n    for x in y:\n        if x:\n            g(x.cuda(), x.cuda(), x.cuda())")
    assert done.startswith(
        "def f():\n    device = accel.device()\n    for x in y:\n        if x:\n            g(x.to(device)"
    )


def test_a_block_that_holds_all_uses_keeps_the_variable(rules: DispatchTable) -> None:
    done = plainly(rules, "if c:\n    a.cuda()\n    b.cuda()\n    d.cuda()\nprint(a)")
    assert done.startswith("if c:\n    device = accel.device()\n    a.to(device)\n")


def test_what_stands_below_an_elif_or_on_one_line_is_bound_above(rules: DispatchTable) -> None:
    done = plainly(rules, "if a: pass\nelif b.cuda(): pass\nelif c.cuda(): d.cuda()")
    assert done.startswith("device = accel.device()\nif a: pass\nelif b.to(device): pass\n")


def test_functions_of_a_script_share_the_variable_of_its_own_code(rules: DispatchTable) -> None:
    text = "def f(a):\n    return a.cuda()\n\nmodel = model.cuda()\nf(model.cuda())"
    assert plainly(rules, text) == (
        "def f(a):\n    return a.to(device)\n\ndevice = accel.device()\nmodel = model.to(device)\nf(model.to(device))"
    )


@pytest.mark.parametrize(
    "text",
    [
        "def f(a):\n    return a.cuda()\nf(1)\nb.cuda()\nc.cuda()",  # called before it would be bound
        "class A:\n    def f(self, a):\n        return a.cuda()\ndef g():\n    return A()\nx = g()\nb.cuda()\nc.cuda()",
        "def f(a):\n    return a.cuda()\n@f\ndef h(): pass\nb.cuda()\nc.cuda()",
        "def f(a):\n    return a.cuda()\nif __name__ == '__main__':\n    b.cuda()\n    c.cuda()",  # processes
        "device = 'disc'\na.cuda()\nb.cuda()\nc.cuda()",
        "a.cuda()\nb.cuda()\nc.cuda()\nopen(device)",
        "a.cuda()\nb.cuda()\nc.cuda()\ndef f():\n    global device\n    device = 1",
        "a.cuda()\nb.cuda()\nc.cuda()\nprint(globals())",
        "a.cuda()\nb.cuda()\nc.cuda()\nprint(vars())",
        "def f(device):\n    a.cuda()\n    b.cuda()\n    c.cuda()",
        "def f():\n    a.cuda()\n    b.cuda()\n    c.cuda()\n    return locals()",
        "def f():\n    def g():\n        return device\n    a.cuda()\n    b.cuda()\n    c.cuda()",
        "def f(a=x.cuda(), b=x.cuda(), c=x.cuda()): pass",
        "a.cuda(1)\nb.cuda(1)\nc.cuda(1)",
        "for i in n:\n    os.environ['CUDA_VISIBLE_DEVICES'] = i\n    f(a.cuda(), b.cuda(), c.cuda())",
    ],
)
def test_a_name_in_the_way_leaves_the_calls(rules: DispatchTable, text: str) -> None:
    assert "device = accel.device(" not in plainly(rules, text)


def test_the_attributes_of_an_object_are_no_variables(rules: DispatchTable) -> None:
    """Found in facebookresearch/dino, which prints `vars(args)` in each of its programs."""
    assert plainly(rules, "a.cuda()\nb.cuda()\nc.cuda()\nprint(vars(args))").startswith("device = accel.device()\n")


def test_a_variable_that_is_there_is_used(rules: DispatchTable) -> None:
    text = "dev = torch.device('cuda')\nx = x.cuda()\ndef f(a):\n    return [a.cuda() for a in a]"
    assert plainly(rules, text) == ("dev = accel.device()\nx = x.to(dev)\ndef f(a):\n    return [a.to(dev) for a in a]")
    kind = "device = 'cuda' if torch.cuda.is_available() else 'cpu'\nx.cuda()\nm = torch.load(p, map_location='cuda')"
    assert "x.to(device)" in plainly(rules, kind)


def test_a_variable_that_holds_the_type_is_used_for_it(rules: DispatchTable) -> None:
    """Found in ajbrock/BigGAN-PyTorch: a project's own function takes what it is given."""
    text = "def f(g):\n    device = 'cuda'\n    g(torch.ones(2, device=device))\n    g.sheet(device='cuda')"
    assert "g.sheet(device=device)" in plainly(rules, text)
    other = (
        "def f(g):\n    device = torch.device('cuda')\n    g(torch.ones(2, device=device))\n    g.sheet(device='cuda')"
    )
    assert "g.sheet(device=device)" not in plainly(rules, other)


COMPARED = 'if device == accel.device_type() != "cpu": '


@pytest.mark.parametrize(
    "last, after",
    [
        ("if device == 'cuda': x = x.cuda()", 'if device != "cpu": x = x.to(device)'),
        ("exec(text)\nif device == 'cuda': x = x.cuda()", f"{COMPARED}x = x.to(device)"),
        ("device = args.to\nif device == 'cuda': x = x.cuda()", f"{COMPARED}x = x.to(accel.device())"),
        ("kind = 'cuda' if args.cuda else 'cpu'", "kind = accel.device_type() if args.cuda else 'cpu'"),
    ],
)
def test_a_type_that_is_no_argument_is_asked_for_where_it_stands(rules: DispatchTable, last: str, after: str) -> None:
    """Found in nanoGPT, whose `device` a command line may set to "cuda:1", and in pytorch-cifar."""
    text = f"device = 'cuda' if torch.cuda.is_available() else 'cpu'\nx = torch.ones(2, device=device)\n{last}"
    assert plainly(rules, text).splitlines()[-1] == after


@pytest.mark.parametrize(
    "before, after",
    [
        ("dev == torch.device('cuda')", 'dev != torch.device("cpu")'),
        ("torch.device('cuda') == dev", 'torch.device("cpu") != dev'),
        ("x.device == torch.device('cuda')", 'x.device == dev != torch.device("cpu")'),
    ],
)
def test_a_variable_is_not_compared_with_itself(rules: DispatchTable, before: str, after: str) -> None:
    """Found in isl-org/DPT: `device == device != torch.device("cpu")`."""
    assert (
        plainly(rules, f"dev = torch.device('cuda')\nif {before}: x.cuda()").splitlines()[1] == f"if {after}: x.to(dev)"
    )


@pytest.mark.parametrize(
    "before, after",
    [
        ("x.to(torch.cuda.current_device())", "x.to(accel.device())"),
        ("x.cuda(torch.cuda.current_device())", "x.to(accel.device())"),
        ("x.to(f'cuda:{torch.cuda.current_device()}', dtype=d)", "x.to(accel.device(), dtype=d)"),
        ("x.to(dtype=d, device=torch.cuda.current_device())", "x.to(dtype=d, device=accel.device())"),
        ("torch.eye(2, device=torch.cuda.current_device())", "torch.eye(2, device=accel.device())"),
        ("f(device=torch.cuda.current_device())", "f(device=accel.current_device())"),
        ("i = torch.cuda.current_device()", "i = accel.current_device()"),
        ("d = torch.device('cuda', torch.cuda.current_device())", "d = accel.device(accel.current_device())"),
    ],
)
def test_the_current_device_needs_no_index_where_a_device_is_taken(
    rules: DispatchTable, before: str, after: str
) -> None:
    assert plainly(rules, before) == after


@pytest.mark.parametrize(
    "text",
    [
        "x.cuda()\ndev = torch.device('cuda')",
        "if c:\n    dev = torch.device('cuda')\nx.cuda()",
        "dev = torch.device('cuda')\ndev = other()\nx.cuda()",
        "dev = torch.device('cuda')\nx = lambda dev: x.cuda()",
        "dev = torch.device('cuda')\nx = [x.cuda() for dev in y]",
        "dev = torch.device('cuda')\ndef f(dev):\n    x.cuda()",
        "dev = torch.device('cuda:1')\nx.cuda()",
        "dev = torch.device('cuda' if c else 'cpu')\nx.cuda()",
        "def f():\n    x.cuda()\nf()\ndev = torch.device('cuda')",
    ],
)
def test_a_variable_that_may_hold_something_else_is_not(rules: DispatchTable, text: str) -> None:
    assert ".to(accel.device())" in plainly(rules, text)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = torch.zeros(2, 3).cuda()", "x = torch.zeros(2, 3, device=accel.device())"),
        ("x = torch.tensor([1], dtype=d).to('cuda')", "x = torch.tensor([1], dtype=d, device=accel.device())"),
        ("x = torch.full(n, 1).cuda().mean()", "x = torch.full(n, 1, device=accel.device()).mean()"),
        ("x = torch.ones_like(y).cuda()", "x = torch.ones_like(y, device=accel.device())"),
        # numbers drawn, another leaf, a device or more said already, what cannot take one more argument
        ("x = torch.randn(2).cuda()", "x = torch.randn(2).to(accel.device())"),
        ("x = torch.zeros(2, requires_grad=True).cuda()", "x = torch.zeros(2, requires_grad=True).to(accel.device())"),
        ("x = torch.zeros(2, device=d).cuda()", "x = torch.zeros(2, device=d).to(accel.device())"),
        ("x = torch.zeros(2, **k).cuda()", "x = torch.zeros(2, **k).to(accel.device())"),
        ("x = torch.zeros(2,).cuda()", "x = torch.zeros(2,).to(accel.device())"),
        (  # found in meta's llama
            "x = torch.zeros(\n    (\n        2,\n        3,\n    )\n).cuda()",
            "x = torch.zeros(\n    (\n        2,\n        3,\n    ),\n    device=accel.device(),\n)",
        ),
        (
            "x = torch.full(\n    2,\n    fill_value=3,\n).cuda()",
            "x = torch.full(\n    2,\n    fill_value=3,\n    device=accel.device(),\n)",
        ),
        ("x = torch.zeros(\n    2, 3\n).cuda()", "x = torch.zeros(\n    2, 3, device=accel.device()\n)"),
        (
            "x = torch.zeros((\n    2,\n    3,\n)).cuda()",
            "x = torch.zeros((\n    2,\n    3,\n), device=accel.device())",
        ),
        ("x = (torch.zeros(2)).cuda()", "x = (torch.zeros(2)).to(accel.device())"),
        ("x = torch.zeros(2).float().cuda()", "x = torch.zeros(2).float().to(accel.device())"),
        ("x = np.zeros(2).cuda()", "x = np.zeros(2).to(accel.device())"),
        ("x = torch.zeros(2).cuda(1)", "x = torch.zeros(2).to(accel.device(1))"),
    ],
)
def test_a_tensor_is_made_where_it_is_used(rules: DispatchTable, before: str, after: str) -> None:
    assert plainly(rules, before) == after


def test_all_of_it_together(rules: DispatchTable) -> None:
    done = plainly(
        rules, "def f(n):\n    a = torch.zeros(n).cuda()\n    b = torch.ones(n).cuda()\n    return a, b, c.cuda()"
    )
    assert done == (
        "def f(n):\n    device = accel.device()\n    a = torch.zeros(n, device=device)\n"
        "    b = torch.ones(n, device=device)\n    return a, b, c.to(device)"
    )


def test_an_imported_file_is_not_asked_at_its_import(rules: DispatchTable, tmp_path: Path) -> None:
    text = "import torch\nx = torch.rand(2).cuda()\ny = x.cuda()\nz = y.cuda()\n"
    write_tree(tmp_path, {"lib.py": text, "main.py": "import lib\n", "script.py": text})
    done = texts_after(tmp_path)
    assert "device = accel.device()" not in done["lib.py"]
    assert "device = accel.device()\nx = torch.rand(2).to(device)" in done["script.py"]


def test_an_imported_file_is_asked_where_it_is_started(tmp_path: Path) -> None:
    """Found in salesforce/awd-lstm-lm, whose weight_drop.py imports itself."""
    body = "    x = torch.rand(2).cuda()\n    y = x.cuda()\n    z = y.cuda()\n"
    ends = {"==": body, "!=": body, "== 'x' or not": body}
    files = {f"lib{n}.py": f"import torch\nif __name__ {e} '__main__':\n{b}" for n, (e, b) in enumerate(ends.items())}
    files["late.py"] = files["lib0.py"] + "w = torch.rand(2).cuda()\n"
    main = "import lib0, lib1, lib2, late\n"
    done = texts_after(write_tree(tmp_path, {**files, "main.py": main}))
    assert "    device = accel.device()\n    x = torch.rand(2).to(device)" in done["lib0.py"]
    for name in ("lib1.py", "lib2.py", "late.py"):
        assert "device = accel.device()" not in done[name]


def test_a_second_run_changes_nothing_and_a_kept_call_stays(tmp_path: Path) -> None:
    body = "    a.cuda()\n    a.cuda()  # torchmigrate: ignore[device/tensor-cuda]\n    a.cuda()\n    return a.cuda()\n"
    text = f"import torch\n\n\ndef f(a):\n{body}"
    write_tree(tmp_path, {"a.py": text})
    write_tree(tmp_path, texts_after(tmp_path))
    assert "    device = accel.device()\n    a.to(device)\n    a.cuda()  #" in (tmp_path / "a.py").read_text()
    assert not texts_after(tmp_path)


def test_a_line_of_a_tab_and_a_return_keeps_both(rules: DispatchTable) -> None:
    raw = b"import torch\r\ndef f(a):\r\n\ta.cuda()\r\n\ta.cuda()\r\n\ta.cuda()\r\n"
    done = case_runner.migrate(raw, rules, plain=True)[0]
    assert b"def f(a):\r\n\tdevice = accel.device()\r\n\ta.to(device)\r\n" in done


def test_torchs_own_call_is_written_once(rules: DispatchTable) -> None:
    done = plainly(rules, "x.cuda()\ny.cuda()\nz.cuda()", "native")
    assert done.count("torch.accelerator") == 1
    assert done.startswith("device = torch.accelerator.current_accelerator(check_available=True) or ")


LOAD = 'model.load_state_dict(torch.load("checkpoints/%s/model_%d.pth" % (options.name, options.epoch)))'
ARGUMENTS = '"checkpoints/%s/model_%d.pth" % (options.name, options.epoch), map_location=accel.map_location()'
WHOLE = f"model.load_state_dict(torch.load({ARGUMENTS}))"


MORE = "".join(f"\nx{n} = {n}" for n in range(20))


def broken(rules: DispatchTable, text: str) -> str:
    """Return what a script becomes that has enough lines to show how long they may be."""
    return plainly(rules, text + MORE).removesuffix(MORE)


def test_few_lines_show_no_habit(rules: DispatchTable) -> None:
    assert plainly(rules, f"if a:\n    {LOAD[:-1]}, strict=True)").count("\n") == 4
    assert plainly(rules, "x = torch.load('a_path_of_some_length', mmap=True)\nx.cuda()").count("\n") == 1


def test_a_line_that_grows_over_the_others_is_broken(rules: DispatchTable) -> None:
    """All lines of the file have at most 100 characters."""
    assert 88 < len(LOAD) < 100
    assert broken(rules, LOAD) == f"model.load_state_dict(torch.load(\n    {ARGUMENTS}\n))"
    assert broken(rules, f"if a:\n\t{LOAD}") == f"if a:\n\tmodel.load_state_dict(torch.load(\n\t\t{ARGUMENTS}\n\t))"
    assert broken(rules, f"if a:\n  {LOAD}\nif b:\n        c = 1").startswith(
        f"if a:\n  model.load_state_dict(torch.load(\n    {ARGUMENTS}\n  ))"
    )


def test_arguments_that_need_it_get_a_line_each(rules: DispatchTable) -> None:
    text = "def f():\n    return g(torch.load(some_path_or_another), torch.load(a_second_path), last)"
    load = "torch.load({}, map_location=accel.map_location())"
    assert broken(rules, text) == (
        f"def f():\n    return g(\n        {load.format('some_path_or_another')},\n"
        f"        {load.format('a_second_path')},\n        last,\n    )"
    )


def test_two_values_on_a_long_line_get_a_line_each(rules: DispatchTable) -> None:
    text = (
        "def f(images, labels):\n    {} = {}.cuda(non_blocking=True), labels.cuda(non_blocking=True)\n    return labels"
    )
    move = "to(accel.device(), non_blocking=accel.non_blocking())"
    assert broken(rules, text.format("images, labels", "images")) == (
        f"def f(images, labels):\n    images = images.{move}\n    labels = labels.{move}\n    return labels"
    )
    for targets, first in (("labels, images", "images"), ("a.images, labels", "images"), ("images, images", "images")):
        assert f"{targets} = " in broken(rules, text.format(targets, first))


MOVE = "self.threshold = -torch.log(torch.tensor(thresh, dtype=torch.float)).cuda()"
LONG_MOVE = "self.a_threshold_of_a_loss_that_is_weighted = self.thresholds_of_losses.cuda()"


def test_a_line_is_broken_around_what_was_added(rules: DispatchTable) -> None:
    """Found in InvokeAI, where the arguments of another call got lines of their own."""
    load = "m.load({k.replace('module.', ''): v for k, v in torch.load(path_of_the_model)['state_dict_of_it'].items()})"
    done = broken(rules, load)
    assert "torch.load(\n    path_of_the_model, map_location=accel.map_location()\n)[" in done
    assert "k.replace('module.', '')" in done


def in_a_class(line: str) -> str:
    return f"class Loss:\n    def __init__(self, thresh):\n        {line}"


def test_a_move_keeps_its_line_and_what_it_moves_too(rules: DispatchTable) -> None:
    """Found in zllrunning/face-parsing.PyTorch, whose file has lines of up to 88 characters and no settings."""
    done = broken(rules, in_a_class(MOVE))
    assert done.splitlines()[2:] == [f"        {MOVE.replace('cuda()', 'to(accel.device())')}"]
    assert "self.thresholds_of_losses.to(accel.device())" in broken(rules, in_a_class(LONG_MOVE))


def test_a_move_is_broken_where_a_tool_would_break_it(tmp_path: Path) -> None:
    text = f"import torch\n\n\n{in_a_class(LONG_MOVE)}\n{MORE}\n"
    root = write_tree(tmp_path, {"pyproject.toml": "[tool.black]\nline-length = 88\n", "main.py": text})
    assert ".to(\n            accel.device()\n        )\n" in texts_after(root)["main.py"]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (f"{LOAD}\nx = '{'y' * 130}'", WHOLE),  # the file has longer lines
        (f"x = '{'y' * 90}'\n{LOAD}", "model.load_state_dict(torch.load(\n"),
        (f"x = 1  # {'y' * 130}\n{LOAD}", "model.load_state_dict(torch.load(\n"),  # no tool breaks a comment
        (f"{LOAD}  # noqa", f"{WHOLE}  # noqa"),  # a comment may be about its line
        ("x = f'{torch.load(" + "a_path_of_some_length" * 3 + ")}'", "map_location=accel.map_location())}'"),
        ("x.cuda()", "x.to(accel.device())"),
    ],
)
def test_which_lines_are_broken(rules: DispatchTable, text: str, kept: str) -> None:
    assert kept in broken(rules, text)


@pytest.mark.parametrize(
    ("name", "settings", "is_broken"),
    [
        ("pyproject.toml", "[tool.black]\nline-length = 100\n", True),
        ("pyproject.toml", "[tool.ruff]\nline-length = 140\n", False),
        ("pyproject.toml", "[tool.black]\nline-length = [\n", True),
        ("ruff.toml", "line-length = 140\n", False),
        ("setup.cfg", "[flake8]\nmax-line-length = 140\n", False),
        (".flake8", "[flake8]\nmax-line-length = 140\n", False),
        ("tox.ini", "[flake8]\nmax-line-length = 110\n", True),
        ("tox.ini", "[flake8]\nmax-line-length = many\n", True),
    ],
)
def test_the_project_says_how_long_a_line_may_be(tmp_path: Path, name: str, settings: str, is_broken: bool) -> None:
    root = write_tree(tmp_path, {name: settings, "main.py": f"import torch\nmodel.cuda()\n{LOAD}\n{MORE}\n"})
    assert (WHOLE not in texts_after(root)["main.py"]) is is_broken


def test_the_nearest_settings_say_how_long_a_line_may_be(tmp_path: Path) -> None:
    text = f"import torch\nmodel.cuda()\n{LOAD}\n{MORE}\n"
    files = {"pyproject.toml": "[tool.ruff]\nline-length = 140\n", "sub/tox.ini": "[flake8]\nmax-line-length = 110\n"}
    after = texts_after(write_tree(tmp_path, {**files, "main.py": text, "sub/main.py": text}))
    assert WHOLE in after["main.py"]
    assert WHOLE not in after["sub/main.py"]


def test_a_file_whose_lines_all_have_comments_is_rewritten(tmp_path: Path) -> None:
    text = f"import torch  # torch\nmodel = torch.nn.Linear(2, 2).cuda()  # {'y' * 60}"
    assert ".to(accel.device())" in texts_after(write_tree(tmp_path, {"main.py": text}))["main.py"]


def test_a_line_that_was_too_long_stays_whole(tmp_path: Path) -> None:
    files = {".flake8": "[flake8]\nmax-line-length = 79\n", "main.py": f"import torch\nmodel.cuda()\n{LOAD}\n{MORE}\n"}
    assert WHOLE in texts_after(write_tree(tmp_path, files))["main.py"]


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ("if x.is_cuda:\n        y = y.cuda()", "y = y.to(x.device)"),
        ("if x.is_cuda and self.training: y = y.cuda()", "y = y.to(x.device)"),
        ("y = y.cuda() if x.is_cuda else y", "y = y.to(x.device) if accel.is_accelerated(x) else y"),
        ("if x.is_cuda:\n        x, y = x.half(), y.cuda()", "y.to(accel.device())"),  # another x
        ("if x.is_cuda or y is None: y = y.cuda()", "y.to(accel.device())"),
        ("if not x.is_cuda: pass\n    else: y = y.cuda()", "y.to(accel.device())"),
        ("if x.is_cuda: pass\n    else: y = y.cuda()", "y.to(accel.device())"),
        ("if x.is_cuda: y = self.move(y.cuda(0))", "y.to(accel.device(0))"),
    ],
)
def test_a_tensor_goes_where_the_tested_one_is(rules: DispatchTable, body: str, after: str) -> None:
    assert after in plainly(rules, f"def f(self, x, y):\n    n = x.size(0)\n    {body}\n    return x, y, n")


TO_CPU = "y = y.cuda() if x.is_cuda else y"
ANYWHERE = "y = y.to(x.device) if accel.is_accelerated(x) else y"


@pytest.mark.parametrize(
    ("body", "after"),
    [
        (f"y = torch.from_numpy(z)\n    {TO_CPU}", "y = y.to(x.device)\n"),
        (
            f"y = torch.autograd.Variable(torch.from_numpy(z)).float().unsqueeze(0)\n    {TO_CPU}",
            "y = y.to(x.device)\n",
        ),
        (f"y = torch.from_numpy(z)\n    w = {TO_CPU[4:]}", "w = y.to(x.device)\n"),
        (f"y = torch.zeros(2)\n    {TO_CPU}", ANYWHERE),  # on the default device
        (f"y = torch.zeros_like(x)\n    {TO_CPU}", ANYWHERE),
        (f"y = torch.from_numpy(z).to(w)\n    {TO_CPU}", ANYWHERE),
        (f"if z:\n        y = torch.from_numpy(z)\n    {TO_CPU}", ANYWHERE),
        (f"y = torch.from_numpy(z)\n    for i in z:\n        {TO_CPU}", ANYWHERE),  # on the device from the second on
        (f"y = torch.from_numpy(z)\n    {TO_CPU[:-1]}w", ANYWHERE[:-1] + "w"),
    ],
)
def test_what_numpy_gave_goes_where_a_tensor_is(rules: DispatchTable, body: str, after: str) -> None:
    done = plainly(rules, f"def f(x, y, z, w):\n    n = x.size(0)\n    {body}\n    return x, y, n, w")
    assert after in done


def test_what_may_be_no_tensor_has_no_device(rules: DispatchTable) -> None:
    """A PackedSequence has `is_cuda` and no `device`."""
    done = plainly(rules, "def f(x, y):\n    if x.is_cuda: y = y.cuda()\n    return x, y")
    assert "y = y.to(accel.device())" in done
    assert "is_accelerated(x)" in done


def test_one_index_in_a_function_gets_a_variable_and_copies_that_do_not_wait_another(rules: DispatchTable) -> None:
    body = "    for x, y in z:\n        x, y = x.cuda(rank, non_blocking=True), y.cuda(rank, non_blocking=True)\n"
    body += "        x = x.cuda(rank, non_blocking=True) + y.cuda(0)"
    new = "    device = accel.device(rank)\n    non_blocking = accel.non_blocking()\n    for x, y in z:\n"
    new += "        x, y = x.to(device, non_blocking=non_blocking), y.to(device, non_blocking=non_blocking)\n"
    new += "        x = x.to(device, non_blocking=non_blocking) + y.to(accel.device(0))"
    assert plainly(rules, f"def f(rank, z):\n{body}") == f"def f(rank, z):\n{new}"


@pytest.mark.parametrize(
    "text",
    [
        "def f(a, i):\n    a.cuda(i)\n    i = i + 1\n    a.cuda(i)\n    a.cuda(i)",
        "def f(a):\n    for i in a:\n        a.cuda(i), a.cuda(i), a.cuda(i)",
        "def f(a):\n    a.cuda(a.i), a.cuda(a.i), a.cuda(a.i)",
        "def f(a, i):\n    return [(a.cuda(i), a.cuda(i), a.cuda(i)) for i in a]",
        "def f(a, i, device):\n    a.cuda(i), a.cuda(i), a.cuda(i)",
        "def f(a, i):\n    a.cuda(i), a.cuda(i)",
        "a.cuda(i), a.cuda(i), a.cuda(i)",
        "def f(a, b, i=-1):\n    if b:\n        return a.cuda(i)\n    if i >= 0:\n        a.cuda(i), b.cuda(i)",
    ],
)
def test_an_index_that_may_change_or_is_not_asked_for_everywhere_gets_none(rules: DispatchTable, text: str) -> None:
    assert "device = accel" not in plainly(rules, text)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        (  # found in NVIDIA/waveglow
            "z = torch.cuda.FloatTensor(x.size(0),\n                           y).normal_()",
            "z = torch.empty(x.size(0),\n                y, dtype=torch.float32, device=accel.device()).normal_()",
        ),
        ("f(x.cuda(), g(a,\n              b))", "f(x.to(accel.device()), g(a,\n                          b))"),
        (
            "f(x.cuda(), [a,\n             b\n            ])",
            "f(x.to(accel.device()), [a,\n" + " " * 25 + "b\n" + " " * 24 + "])",
        ),
        (
            "g(x.cuda(), f(a,\n              h(b,\n                c)))",
            "g(x.to(accel.device()), f(a,\n" + " " * 26 + "h(b,\n" + " " * 28 + "c)))",
        ),
        ("f(x.cuda(), g(a,\n  b))", "f(x.to(accel.device()), g(a,\n  b))"),  # they were aligned with nothing
        ("f(x.cuda(), g(\n    a,\n    b))", "f(x.to(accel.device()), g(\n    a,\n    b))"),
        ("f(x.cuda(), g(a,\n              '''b\nc'''))", "f(x.to(accel.device()), g(a,\n              '''b\nc'''))"),
    ],
)
def test_what_stood_below_an_argument_stands_below_it(rules: DispatchTable, text: str, after: str) -> None:
    assert plainly(rules, text) == after


def test_a_long_last_argument_breaks_before_what_was_added(rules: DispatchTable) -> None:
    """Found in NVIDIA/waveglow: the line was broken inside `spect.size(2)`."""
    line = "    audio = g(torch.cuda.FloatTensor("
    last = f"{' ' * len(line)}spect.size(2) * self.n_groups_of_channels).normal_())"
    text = f"def f(spect):\n{line}a,\n{last}\n    return audio"
    at = " " * len("    audio = g(torch.empty(")
    assert broken(rules, f"{text}\n    b = '{'y' * 70}'").splitlines()[2:4] == [
        f"{at}spect.size(2) * self.n_groups_of_channels,",
        f"{at}dtype=torch.float32, device=accel.device()).normal_())",
    ]
    hanging = "f(\n    a, torch.load('a_path'), torch.load('another_path_of_length'))"
    load = "torch.load('{}', map_location=accel.map_location())"
    assert broken(rules, hanging) == (
        f"f(\n    a, {load.format('a_path')},\n    {load.format('another_path_of_length')})"
    )


KEPT_COUNT = "n = accel.device_count() if accel.is_available() else 1"
CUDA, CPU, ASKED = "torch.device('cuda')", "torch.device('cpu')", "if torch.cuda.is_available():\n"


@pytest.mark.parametrize(
    "text, after",
    [
        (f"{ASKED}    d = {CUDA}\nelse:\n    d = {CPU}", "d = accel.device()"),
        (
            f"def f():\n    {ASKED}        return torch.device('cuda:0')\n    return {CPU}",
            "def f():\n    return accel.device(0)",
        ),
        (
            f"def f():\n    {ASKED}        return 'cuda'\n    else:\n        return 'cpu'\nx.to(f())",
            "def f():\n    return accel.device_type()\nx.to(f())",
        ),
        (f"device = 'cpu'\n{ASKED}    device = 'cuda'\nx.to(device)", "device = accel.device_type()\nx.to(device)"),
        ("n = torch.cuda.device_count() if torch.cuda.is_available() else 0", "n = accel.device_count()"),
        ("n = torch.cuda.device_count() if torch.cuda.is_available() else 1", KEPT_COUNT),
        (f"self.device = {CPU}\n\n{ASKED}    self.device = {CUDA}", "self.device = accel.device()"),
    ],
)
def test_a_choice_of_statements_is_one(rules: DispatchTable, text: str, after: str) -> None:
    """Found in openai/guided-diffusion and pytorch/ignite."""
    assert plainly(rules, text) == after


@pytest.mark.parametrize(
    "text",
    [
        f"{ASKED}    d = {CUDA}\n    n = 2\nelse:\n    d = {CPU}",
        f"{ASKED}    d = {CUDA}  # fast\nelse:\n    d = {CPU}",
        f"{ASKED}    d = {CUDA}\nelse:\n    e = {CPU}",
        f"{ASKED}    d = torch.device('cuda', n)\nelse:\n    d = {CPU}",
        f"d = {CPU}\ng(d)\n{ASKED}    d = {CUDA}",
        f"{ASKED}    d = {CUDA}\nd = {CPU}",
        f"if a:\n    d = 1\nel{ASKED}    d = {CUDA}\nelse:\n    d = {CPU}",
        f"device = None\n{ASKED}    device = 'cuda'\nx.to(device)",
        f"d = 'cpu'\n{ASKED[:-2]} and fast:\n    d = 'cuda'\nx.to(d)",
        f"d = {CPU}\n{ASKED}    d = {CUDA}\nelse:\n    print('slow')",
    ],
)
def test_a_choice_of_more_than_the_device_stays(rules: DispatchTable, text: str) -> None:
    done = plainly(rules, text)
    assert done.count("\n") == text.count("\n") and "is_available()" in done


@pytest.mark.parametrize(
    "call, is_bound",
    [
        ("eval('models.%s' % name)", True),
        ("eval('models.' + name)", True),
        ("eval(f'models.{name}')", True),
        ("eval('models.Net')", True),
        ("eval('models.%s(device)' % name)", False),
        ("eval('device.%s' % name)", False),
        ("eval(name)", False),
        ("eval('%s.Net' % name)", False),
        ("exec('models.Net')", False),
    ],
)
def test_a_look_up_of_a_member_does_not_see_the_variable(rules: DispatchTable, call: str, is_bound: bool) -> None:
    """Found in quark0/darts."""
    done = plainly(rules, f"net = {call}\na.cuda()\nb.cuda()\nc.cuda()")
    assert ("device = accel.device()" in done) is is_bound


def test_a_line_that_is_longer_than_all_others_is_broken(rules: DispatchTable) -> None:
    """Found in karpathy/nanoGPT, which has one line of 121 characters."""
    habit = "\n".join([*["x = 1"] * 30, f"y = {'z' * 121}"])
    pair = "aaaaaaaa, bbbbbbbb = aaaaaaaa.cuda({0}), bbbbbbbb.cuda({0})"
    done = plainly(rules, f"{habit}\n{pair.format('non_blocking=True')}")
    assert max(map(len, done.splitlines())) == 125 and "\nbbbbbbbb = bbbbbbbb.to(" in done
    long = plainly(rules, f"{habit}\n{'a' * 60}, {'b' * 60} = {'a' * 60}.cuda(), {'b' * 60}.cuda()")
    assert long.count("\n") == habit.count("\n") + 1  # it was too long before


@pytest.mark.parametrize(
    "look, is_bound",
    [
        ("globals()", True),
        ("locals()", False),
        ("exec(code)", False),
        ("vars()", False),
        ("[eval(n) for n in m]", False),
    ],
)
def test_globals_shows_no_variable_of_a_function(rules: DispatchTable, look: str, is_bound: bool) -> None:
    """Found in NVIDIA/apex, whose tests hand `globals()` to torch's own tools."""
    body = "    a.cuda()\n    b.cuda()\n    c.cuda()"
    inside, outside = f"def f():\n{body}\n    print({look})", f"def f():\n{body}\ng({look})"
    assert ("device = accel.device()" in plainly(rules, inside)) is is_bound
    assert "device = accel.device()" in plainly(rules, outside)
    assert "device = accel.device()" not in plainly(rules, f"a.cuda()\nb.cuda()\nc.cuda()\ng({look})")
