"""Decisions that span files: call chains, class hierarchies, imports that depend on the device, test suites."""

from __future__ import annotations

from six_worlds.sketch import Sketch, construct


@construct(plain=True, weight=2)
def chain_of_calls(p: Sketch) -> None:
    """A question in one file, its answer turned into a device in another, used in a third."""
    asks, picks = p.name("gpu_there"), p.name("pick_device")
    p.module("pkg.probe").add(f"def {asks}():\n    return torch.cuda.is_available()")
    middle = p.module("pkg.pick")
    name = p.refer("pkg.probe", asks, middle)
    middle.add(
        p.one(
            f'def {picks}():\n    return "cuda" if {name}() else "cpu"',
            f'def {picks}(index=0):\n    if {name}():\n        return f"cuda:{{index}}"\n    return "cpu"',
        )
    )
    p.functions.append(p.refer("pkg.pick", picks))


@construct(plain=True)
def device_handed_down(p: Sketch) -> None:
    """A device of the main file, handed to a function of a second file, which hands it to a class of a third."""
    net, build = p.name("Net"), p.name("build")
    p.module("pkg.net").add(
        f"class {net}:\n    def __init__(self, device):\n        self.device = torch.device(device)"
    )
    middle = p.module("pkg.factory")
    middle.add(f"def {build}(device):\n    return {p.refer('pkg.net', net, middle)}(device)")
    p.places.append(f"{p.refer('pkg.factory', build)}({p.device()}).device")


@construct(plain=True)
def constant_of_a_module(p: Sketch) -> None:
    name, where = p.name("DEVICE"), p.name("where_is")
    p.module("pkg.const").add(f'{name} = "cuda" if torch.cuda.is_available() else "cpu"')
    if p.chance(0.5):
        middle = p.module("pkg.use")
        middle.need(f"from .const import {name}")
        middle.add(f"def {where}():\n    return {name}")
        p.functions.append(p.refer("pkg.use", where))
    else:
        p.devices.append(p.refer("pkg.const", name))


@construct()
def flag_of_a_module(p: Sketch) -> None:
    name = p.name("HAS_CUDA")
    text = f"{name} = torch.cuda.is_available()"
    if p.chance(0.4):
        text += f"\n{name}_MPS = torch.backends.mps.is_available()"
    p.module("pkg.env").add(text)
    p.flags.append(p.refer("pkg.env", name))


@construct()
def backends_of_a_module(p: Sketch) -> None:
    """What accelerate and mmengine do: predicates beside each other, and a ladder of them."""
    n = p.name("")
    module = p.module("pkg.backends")
    module.add(
        f"def is_cuda_available{n}():\n    return torch.cuda.is_available()\n"
        f"def is_mps_available{n}():\n    return torch.backends.mps.is_available()\n"
        f'def is_xpu_available{n}():\n    return hasattr(torch, "xpu") and torch.xpu.is_available()'
    )
    module.add(
        p.one(
            f'def get_backend{n}():\n    if is_cuda_available{n}():\n        return "cuda"\n'
            f'    elif is_mps_available{n}():\n        return "mps"\n    elif is_xpu_available{n}():\n        return "xpu"\n'
            f'    return "cpu"',
            f'DEVICE{n} = "cpu"\nif is_cuda_available{n}():\n    DEVICE{n} = "cuda"\n'
            f'elif is_mps_available{n}():\n    DEVICE{n} = "mps"\ndef get_backend{n}():\n    return DEVICE{n}',
        )
    )
    p.functions.append(p.refer("pkg.backends", f"get_backend{n}"))
    if p.chance(0.6):
        p.flags.append(p.refer("pkg.backends", f"is_cuda_available{n}") + "()")


@construct()
def own_cuda_method(p: Sketch) -> None:
    """`cuda()` is the project's own, inherited over two files."""
    base, model = p.name("Base"), p.name("Model")
    p.module("lib2.base").add(
        f'class {base}:\n    place = "cpu"\n    def cuda(self):\n        self.place = "cuda"\n        return self'
    )
    middle = p.module("lib2.model")
    middle.add(f"class {model}({p.refer('lib2.base', base, middle)}):\n    pass")
    m = p.name("m")
    p.add(f"{m} = {p.refer('lib2.model', model)}()\nif {p.flag()}:\n    {m}.cuda()\nprint({p.label()}, {m}.place)")


@construct(real="cpu")
def batch_with_cuda(p: Sketch) -> None:
    """A class of the project that moves its own fields."""
    batch, b = p.name("Batch"), p.name("b")
    body = (
        f"class {batch}:\n    def __init__(self):\n        self.x = torch.zeros(2)\n"
        f"    def cuda(self):\n        self.x = self.x.cuda()\n        return self"
    )
    if p.chance(0.6):
        p.module("lib3").add(body)
        batch = p.refer("lib3", batch)
    else:
        p.add(body)
    call = p.one(f"if {p.flag()}:\n    {b}.cuda()", f"{b} = {b}.cuda() if {p.flag()} else {b}")
    p.add(f"{b} = {batch}()\n{call}\nprint({p.label()}, {b}.x.device)")


@construct(real="cpu")
def loss_inherits_cuda(p: Sketch) -> None:
    loss, nll, name = p.name("Loss"), p.name("NLL"), p.name("loss")
    p.module("lib4.losses").add(
        f"class {loss}:\n    def __init__(self):\n        self.weight = torch.ones(2)\n    def cuda(self):\n"
        f"        self.weight = self.weight.cuda()\n        return self"
    )
    target = p.module("lib4.nll")
    target.add(f"class {nll}({p.refer('lib4.losses', loss, target)}):\n    pass")
    p.add(
        f"{name} = {p.refer('lib4.nll', nll)}()\nif {p.flag()}:\n    {name} = {name}.cuda()\n"
        f"print({p.label()}, {name}.weight.device)"
    )


@construct(real="cpu")
def guarded_module_of_a_package(p: Sketch) -> None:
    """The script guards, the package moves."""
    net, m = p.name("Net"), p.name("net")
    module = p.module("lib5.nets")
    module.add(
        f"class {net}(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.layer = torch.nn.Linear(2, 2)\n        self.mask = torch.ones(2)\n"
        f"    def start(self, use_cuda=False):\n        if use_cuda:\n            self.mask = self.mask.cuda()\n"
        f"        return self.layer(self.mask)"
    )
    name = p.refer("lib5.nets", net)
    flag = p.flag()
    p.add(f"{m} = {name}()\nif {flag}:\n    {m}.cuda()\nprint({p.label()}, {m}.start({flag}).device)")


@construct(plain=True)
def device_of_a_base_class(p: Sketch) -> None:
    base, child = p.name("Base"), p.name("Child")
    p.module("pkg.base").add(f'class {base}:\n    device = "cpu"\n    def where(self):\n        return self.device')
    name = p.refer("pkg.base", base)
    p.add(f"class {child}({name}):\n    def __init__(self):\n        self.device = {p.device()}")
    p.functions.append(f"{child}().where")


@construct()
def flag_of_a_base_class(p: Sketch) -> None:
    base, child = p.name("Base"), p.name("Child")
    p.module("pkg.flags").add(
        f"class {base}:\n    gpu = torch.cuda.is_available()\n    def __init__(self):\n"
        f"        self.use_cuda = torch.cuda.is_available()"
    )
    field = p.one("gpu", "use_cuda")
    p.add(
        f"class {child}({p.refer('pkg.flags', base)}):\n    def where(self):\n"
        f'        return {p.literal()} if self.{field} else "cpu"'
    )
    p.functions.append(f"{child}().where")


@construct()
def conditional_import(p: Sketch) -> None:
    name = p.name("place_of")
    p.module("lib6.gpu").add(f'def {name}():\n    return "cuda"')
    p.module("lib6.host").add(f'def {name}():\n    return "cpu"')
    p.add(f"if {p.flag()}:\n    from lib6.gpu import {name}\nelse:\n    from lib6.host import {name}")
    p.functions.append(name)


@construct()
def computed_attribute(p: Sketch) -> None:
    kind, name = p.name("kind"), p.name("home")
    p.add(
        p.one(
            f'{kind} = "cuda" if {p.flag()} else "cpu"\n{name} = getattr(torch, {kind})\n'
            f"print({p.label()}, {name}.is_available(), torch.device({kind}))",
            f'{kind} = {p.device()}.split(":")[0]\nprint({p.label()}, hasattr(torch, {kind}) or {kind} == "mps", torch.device({kind}))',
            f'{kind} = [k for k in ("cuda", "xpu") if getattr(torch, k).is_available()]\nprint({p.label()}, {kind} or "none")',
        )
    )


@construct()
def parametrised(p: Sketch) -> None:
    """Tests as pytest runs them."""
    p.module_level()
    p.main.need("import pytest")
    test, skip = p.name("test_on"), f'pytest.mark.skipif(not {p.flag()}, reason="no CUDA")'
    show = f"print({p.label()}, torch.device(device))"
    if p.real != "everywhere":
        show = p.one(show, f"print({p.label()}, torch.zeros(2, device=device).device)")
    p.add(
        p.one(
            f'@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks={skip})])\ndef {test}(device):\n    {show}',
            f'@pytest.mark.parametrize("device", ["cpu"] + (["cuda"] if {p.flag()} else []))\ndef {test}(device):\n    {show}',
            f'@{skip}\n@pytest.mark.parametrize("device", ["cuda"])\ndef {test}(device):\n    {show}',
            f'@{skip}\n@pytest.mark.parametrize("device", ["cuda", "cpu"])\ndef {test}(device):\n    {show}',
            f'@{skip}\ndef {test}():\n    device = "cuda"\n    {show}',
            f'DEVICES_{test} = ["cpu"]\nif {p.flag()}:\n    DEVICES_{test}.append("cuda")\n'
            f'@pytest.mark.parametrize("device", DEVICES_{test})\ndef {test}(device):\n    {show}',
            f'need_{test} = {skip}\n@need_{test}\ndef {test}():\n    device = "cuda"\n    {show}',
            f'def {test}():\n    if not {p.flag()}:\n        pytest.skip("no CUDA")\n    device = "cuda"\n    {show}',
        )
    )
    if "pytest.main()" not in p.tail:
        p.last("pytest.main()")


@construct()
def test_case(p: Sketch) -> None:
    """Tests as unittest runs them."""
    p.main.need("import contextlib")
    p.main.need("import unittest")
    name, wraps = p.name("Test"), p.name("require_gpu")
    show = f"print({p.label()}, torch.device({p.literal()}))"
    p.add(
        p.one(
            f'class {name}(unittest.TestCase):\n    @unittest.skipUnless({p.flag()}, "no CUDA")\n'
            f"    def test_it(self):\n        {show}",
            f"class {name}(unittest.TestCase):\n    def setUp(self):\n        if not {p.flag()}:\n"
            f'            self.skipTest("needs CUDA")\n    def test_it(self):\n        {show}',
            f'def {wraps}(test):\n    return unittest.skipUnless({p.flag()}, "test requires a GPU")(test)\n'
            f"class {name}(unittest.TestCase):\n    @{wraps}\n    def test_it(self):\n        {show}",
            f'@unittest.skipIf(not {p.flag()}, "no CUDA")\nclass {name}(unittest.TestCase):\n'
            f"    def test_it(self):\n        {show}",
        )
    )
    p.add(f'with contextlib.suppress(unittest.SkipTest):\n    {name}("test_it").debug()')


@construct()
def own_decorator(p: Sketch) -> None:
    decorator, function = p.name("on_gpu"), p.name("job")
    elsewhere = p.chance(0.5)
    flag = "torch.cuda.is_available()" if elsewhere else p.flag()
    text = (
        f'def {decorator}(function):\n    def inner(*args):\n        return function("cuda" if {flag} else "cpu", *args)\n'
        f"    return inner"
    )
    if elsewhere:
        p.module("pkg.decorators").add(text)
        decorator = p.refer("pkg.decorators", decorator)
    else:
        p.add(text)
    p.add(f"@{decorator}\ndef {function}(device):\n    return device")
    p.functions.append(function)
