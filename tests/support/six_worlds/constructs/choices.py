"""Choices of a device: flags, conditional expressions, branches, ladders, functions, lists, and their uses."""

from __future__ import annotations

from six_worlds.sketch import Sketch, construct, question


@construct(plain=True, weight=3)
def flag(p: Sketch) -> None:
    name = p.name("use_cuda")
    p.add(f"{name} = {p.flag()}")
    p.flags.append(name)


@construct(plain=True, weight=3)
def device(p: Sketch) -> None:
    name = p.name("device")
    if p.chance(0.4):
        p.add(f"{name} = torch.device({p.device()})")
        p.places.append(name)
    else:
        p.add(f"{name} = {p.device()}")
        p.devices.append(name)


@construct(plain=True, weight=2)
def branch(p: Sketch) -> None:
    name = p.name("chosen")
    p.add(
        p.one(
            f'{name} = "cpu"\nif {p.flag()}:\n    {name} = {p.literal()}',
            f'if {p.flag()}:\n    {name} = {p.literal()}\nelse:\n    {name} = "cpu"',
            f'if not {p.flag()}:\n    {name} = "cpu"\nelse:\n    {name} = {p.literal()}',
        )
    )
    p.devices.append(name)


@construct(plain=True)
def attribute(p: Sketch) -> None:
    name = p.name("Config")
    p.add(
        f"class {name}:\n    def __init__(self):\n        self.gpu = {p.flag()}\n        self.place = {p.device()}\n"
        f"    def where(self):\n        if self.gpu:\n            return {p.literal()}\n"
        f'        return "cpu"\n{name.lower()} = {name}()'
    )
    p.flags.append(f"{name.lower()}.gpu")
    p.devices += [f"{name.lower()}.place", f"{name.lower()}.where()"]


@construct(weight=2)
def ladder(p: Sketch) -> None:
    name, kind = p.name("where"), p.one("mps", "xpu")
    opt = p.one("", "", " and OPT_IN")
    if opt:
        p.asked("ENABLE_MPS", "1")
    p.add(
        f"if {p.flag()}:\n    {name} = {p.literal()}\nelif {question(kind)}{opt}:\n"
        f'    {name} = "{kind}"\nelse:\n    {name} = "cpu"'
    )
    p.devices.append(name)


@construct(plain=True, weight=2)
def function(p: Sketch) -> None:
    name = p.name("get_device")
    elsewhere = p.chance(0.4)
    flag = "torch.cuda.is_available()" if elsewhere else p.flag()
    literal = '"cuda"' if elsewhere else p.literal()
    text = p.one(
        f'def {name}():\n    return {literal} if {flag} else "cpu"',
        f'def {name}():\n    if {flag}:\n        return {literal}\n    return "cpu"',
    )
    if elsewhere:
        p.module("lib").add(text)
        name = p.refer("lib", name)
    else:
        p.add(text)
    p.functions.append(name)


@construct(weight=2)
def predicate(p: Sketch) -> None:
    name, backend = p.name("is_cuda_available"), p.name("backend")
    text = f"def {name}():\n    return torch.cuda.is_available()"
    if p.chance(0.5):
        p.module("lib").add(text)
        name = p.refer("lib", name)
    else:
        p.add(text)
    p.add(
        f'def {backend}():\n    if {name}():\n        return "cuda"\n'
        f'    if torch.backends.mps.is_available():\n        return "mps"\n    return "cpu"'
    )
    p.functions.append(backend)
    p.flags.append(f"{name}()")


@construct()
def device_list(p: Sketch) -> None:
    name = p.name("places")
    p.add(
        p.one(
            f'{name} = ["cpu"] + (["cuda"] if {p.flag()} else [])',
            f'{name} = ["cpu"]\nif {p.flag()}:\n    {name}.append("cuda")',
            f'{name} = [d for d in ("cpu", "cuda") if d != "cuda" or {p.flag()}]',
            f'{name} = ("cuda", "cpu") if {p.flag()} else ("cpu",)',
            f'{name} = ["cpu", *(["cuda"] if {p.flag()} else [])]',
            f'{name} = ["cpu"]\n{name} += ["cuda"] * int({p.flag()})',
        )
    )
    p.add(f"print({p.label()}, [str(torch.device(d)) for d in {name}])")


@construct()
def fallback(p: Sketch) -> None:
    name = p.name("asked")
    test = p.one(
        f'{name} == "cuda"', f'"cuda" in {name}', f'{name}.startswith("cuda")', f'{name}.split(":")[0] == "cuda"'
    )
    p.asked("ASKED", p.one("cpu", "cuda", "cuda:0", "{own}"))
    p.add(f'{name} = os.environ.get("ASKED", "cuda")\nif {test} and not {p.flag()}:\n    {name} = "cpu"')
    p.devices.append(name)


@construct()
def capability(p: Sketch) -> None:
    p.add(
        p.one(
            f"print({p.label()}, {p.flag()} and torch.cuda.get_device_capability(0)[0] >= 99)",
            f"print({p.label()}, {p.flag()} and torch.cuda.get_device_properties(0).total_memory < 1e9)",
            f"print({p.label()}, {p.flag()} and torch.cuda.get_device_capability() >= (8, 0))",
            f"print({p.label()}, torch.cuda.mem_get_info()[1] >> 30 if {p.flag()} else None)",
            f"if {p.flag()} and torch.cuda.get_device_properties(0).major >= 8:\n"
            f'    print({p.label()}, "fast", torch.device({p.literal()}))',
        )
    )


@construct()
def compare(p: Sketch) -> None:
    label, found = p.label(), p.device()
    test = p.one(
        f'torch.device({found}).type == "cuda"',
        f'"cuda" in {found}',
        f'{found}.startswith("cuda")',
        f'{found} != "cpu"',
        f'torch.device({found}) == torch.device("cuda")',
        f'torch.device({found}).type in ("cuda", "mps")',
    )
    p.add(f'if {test}:\n    print({label}, torch.device({p.literal()}))\nelse:\n    print({label}, "elsewhere")')


@construct()
def foreign(p: Sketch) -> None:
    p.main.need("import ctranslate2")
    p.add(f'print({p.label()}, ctranslate2.place({p.device()}.split(":")[0]))')


@construct()
def mapping(p: Sketch) -> None:
    p.add(f'print({p.label()}, {{"cuda": 1, "cpu": 2, "mps": 3, "xpu": 4}}[{p.device()}.split(":")[0]] > 0)')


@construct()
def dist_default(p: Sketch) -> None:
    name = p.name("comm")
    p.add(f'{name} = "nccl" if {p.flag()} else "gloo"\nprint({p.label()}, {name} in ("nccl", "gloo"))')


@construct(plain=True)
def guarded_call(p: Sketch) -> None:
    call = p.one("set_device(0)", "synchronize()", "empty_cache()", "manual_seed_all(0)")
    p.add(f"if {p.flag()}:\n    torch.cuda.{call}\n    print({p.label()}, torch.device({p.literal()}))")
