"""Further ways in which programs write a choice down: enums, closures, generators, config texts, types of tensors."""

from __future__ import annotations

from six_worlds.sketch import Sketch, construct


@construct(plain=True)
def rebound(p: Sketch) -> None:
    name = p.name("where")
    p.add(
        p.one(
            f'{name} = {p.device()}\nif os.environ.get("FORCE_CPU"):\n    {name} = "cpu"',
            f"first = {name} = {p.device()}",
            f'{name} = "cpu" if not {p.flag()} else {p.literal()}',
            f"{name}: str = {p.device()}",
        )
    )
    if not p.plain:
        p.asked("FORCE_CPU", "1")
    p.devices.append(name)


@construct()
def literal_then_branch(p: Sketch) -> None:
    name = p.name("wanted")
    p.add(
        p.one(
            f'{name} = "cuda"\nif not {p.flag()}:\n    {name} = "cpu"',
            f'{name} = "cuda"\n{name} = {name} if {p.flag()} else "cpu"',
            f'{name} = "cuda" if {p.flag()} else "cpu"\n{name} += ":0"',
            f'{name} = "cpu"\nif {p.flag()}:\n    {name} = "cuda"\n    {name} = {name} + ":0"',
        )
    )
    p.devices.append(name)


@construct()
def enumeration(p: Sketch) -> None:
    p.main.need("import enum")
    name, chosen = p.name("Kind"), p.name("kind")
    p.add(
        f'class {name}(enum.Enum):\n    CUDA = "cuda"\n    CPU = "cpu"\n'
        f"{chosen} = {name}.CUDA if {p.flag()} else {name}.CPU"
    )
    p.devices.append(f"{chosen}.value")


@construct(plain=True)
def closure(p: Sketch) -> None:
    outer, name = p.name("maker"), p.name("inner")
    p.add(
        f"def {outer}():\n    device = {p.device()}\n    def inner():\n        return device\n    return inner\n{name} = {outer}()"
    )
    p.functions.append(name)


@construct()
def yielded(p: Sketch) -> None:
    name = p.name("candidates")
    p.add(f'def {name}():\n    if {p.flag()}:\n        yield "cuda"\n    yield "cpu"')
    p.devices.append(f"next({name}())")


@construct(plain=True)
def static_method(p: Sketch) -> None:
    name = p.name("Helpers")
    how, first = p.random.choice([("staticmethod", ""), ("classmethod", "cls")])
    p.add(f'class {name}:\n    @{how}\n    def pick({first}):\n        return {p.literal()} if {p.flag()} else "cpu"')
    p.functions.append(f"{name}.pick")


@construct()
def cached_question(p: Sketch) -> None:
    p.main.need("import functools")
    name = p.name("has_gpu")
    p.add(f"@functools.lru_cache(maxsize=None)\ndef {name}():\n    return {p.flag()}")
    p.flags.append(f"{name}()")


@construct()
def config_text(p: Sketch) -> None:
    p.main.need("import json")
    name = p.name("config")
    p.add(
        f'{name} = json.loads(\'{{"device": "cuda", "gpu": true}}\')\n'
        + p.one(
            f'if not {p.flag()}:\n    {name}["device"] = "cpu"',
            f'{name}["device"] = {name}["device"] if {p.flag()} else "cpu"',
            f'if {name}["device"] == "cuda" and not {p.flag()}:\n    {name}.update(device="cpu")',
        )
    )
    p.devices.append(f'{name}["device"]')


@construct()
def flags_together(p: Sketch) -> None:
    name = p.name("both")
    p.add(
        p.one(
            f'{name} = {p.flag()} and os.environ.get("WORLD_SIZE", "1") != "0"',
            f"{name} = all([{p.flag()}, {p.flag()}])",
            f"{name} = {p.flag()} if INDEX == 0 else False",
            f"{name} = ({p.flag()}, True)[0]",
            f"{name} = {p.flag()} == True",
            f"{name} = {p.flag()} or OPT_IN and torch.backends.mps.is_available()",
            f"{name} = not NO_CUDA\n{name} &= {p.flag()}",
            f"{name} = torch.cuda.device_count()",
            f"{name} = list(range(torch.cuda.device_count()))",
        )
    )
    p.flags.append(name)


@construct(plain=True, real="nowhere")
def type_of_tensors(p: Sketch) -> None:
    name = p.name("Tensor")
    p.add(f"{name} = torch.cuda.FloatTensor if {p.flag()} else torch.FloatTensor\nprint({p.label()}, {name}(2).device)")


@construct(plain=True, real="nowhere")
def default_device(p: Sketch) -> None:
    call = p.one(
        f"torch.set_default_device({p.device()})", f"if {p.flag()}:\n    torch.set_default_device({p.literal()})"
    )
    p.last(f"{call}\nprint({p.label()}, torch.zeros(2).device)\ntorch.set_default_device(None)")


@construct()
def imported_question(p: Sketch) -> None:
    form = p.one(
        "from torch.cuda import is_available",
        "from torch.cuda import is_available as cuda_there",
        "import torch.cuda as gpu",
        "from torch import cuda as nvidia",
    )
    p.main.need(form)
    name = form.split()[-1]
    p.flags.append(f"{name}()" if "is_available" in form else f"{name}.is_available()")


@construct()
def warned(p: Sketch) -> None:
    p.main.need("import warnings")
    label = p.label()
    p.add(
        p.one(
            f'if not {p.flag()}:\n    warnings.warn("CUDA is not there, this will be slow")\n    print({label}, "slow")',
            f'if torch.backends.mps.is_available() and not {p.flag()}:\n    print({label}, "on a Mac")',
            f'print({label}, "fast" if {p.flag()} else "slow")',
        )
    )


@construct(real="cpu")
def method_by_name(p: Sketch) -> None:
    x = p.name("x")
    p.add(
        p.one(
            f'{x} = torch.zeros(2)\n{x} = getattr({x}, "cuda" if {p.flag()} else "cpu")()',
            f"{x} = (torch.zeros(2).cuda if {p.flag()} else torch.zeros(2).cpu)()",
            f"move = (lambda t: t.cuda()) if {p.flag()} else (lambda t: t)\n{x} = move(torch.zeros(2))",
            f'{x} = torch.zeros(2, **({{"device": "cuda"}} if {p.flag()} else {{}}))',
            f"{x} = [t.cuda() if {p.flag()} else t for t in [torch.zeros(2)]][0]",
            f"{x}, y = (t.to({p.device()}) for t in (torch.zeros(2), torch.ones(2)))",
        )
    )
    p.add(f"print({p.label()}, {x}.device)")


@construct(real="cpu")
def wrapper_around_cuda(p: Sketch) -> None:
    """A helper of the project in a file of its own, which moves what it is given."""
    name = p.name("to_gpu")
    p.module("pkg.move").add(
        p.one(
            f"def {name}(x):\n    return x.cuda() if torch.cuda.is_available() else x",
            f"def {name}(x):\n    if torch.cuda.is_available():\n        x = x.cuda()\n    return x",
            f'def {name}(x, use_cuda=torch.cuda.is_available()):\n    return x.to("cuda" if use_cuda else "cpu")',
        )
    )
    x, y = p.refer("pkg.move", name), p.name("y")
    p.add(
        f"{y} = torch.ones(2)\nif {p.flag()}:\n    {y} = {y}.cuda()\nprint({p.label()}, ({x}(torch.zeros(2)) + {y}).device)"
    )


@construct(real="cpu")
def flag_handed_to_a_file(p: Sketch) -> None:
    """A flag of the script, handed to a function of another file that moves by it."""
    name = p.name("prepare")
    p.module("pkg.prepare").add(f"def {name}(x, cuda=False):\n    if cuda:\n        x = x.cuda()\n    return x")
    call = p.refer("pkg.prepare", name)
    how = p.one(f"cuda={p.flag()}", p.flag(), f"**{{'cuda': {p.flag()}}}")
    p.add(f"print({p.label()}, {call}(torch.zeros(2), {how}).device)")


@construct()
def siblings(p: Sketch) -> None:
    """Names for each backend beside each other."""
    n = p.name("")
    p.add(
        p.one(
            f"cuda_on{n} = {p.flag()}\nmps_on{n} = torch.backends.mps.is_available()\n"
            f'chosen{n} = "cuda" if cuda_on{n} else "mps" if mps_on{n} else "cpu"',
            f'on{n} = {{"cuda": {p.flag()}, "mps": torch.backends.mps.is_available(), "cpu": True}}\n'
            f"chosen{n} = next(k for k, v in on{n}.items() if v)",
            f"class Backends{n}:\n    cuda = {p.flag()}\n    xpu = torch.xpu.is_available()\n"
            f'chosen{n} = "cuda" if Backends{n}.cuda else "xpu" if Backends{n}.xpu else "cpu"',
        )
    )
    p.devices.append(f"chosen{n}")
