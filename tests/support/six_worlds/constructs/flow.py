"""How programs carry decisions: through loops, lambdas, defaults, containers, properties, `match` and `try`."""

from __future__ import annotations

from six_worlds.sketch import Sketch, construct, question


@construct(plain=True)
def early_return(p: Sketch) -> None:
    name = p.name("pick")
    p.add(
        f'def {name}(wanted=True):\n    if not wanted:\n        return "cpu"\n'
        f'    if not {p.flag()}:\n        return "cpu"\n    return {p.literal()}'
    )
    p.functions.append(name)


@construct()
def loop(p: Sketch) -> None:
    name, d = p.name("found"), p.name("d")
    p.add(
        p.one(
            f'{name} = "cpu"\nfor {d} in ("cuda", "cpu"):\n    if {d} == "cuda" and not {p.flag()}:\n        continue\n'
            f"    {name} = {d}\n    break",
            f'for {name}, {d} in (("cuda", {p.flag()}), ("mps", {question("mps")}), ("cpu", True)):\n'
            f"    if {d}:\n        break",
            f'for {d} in ("cuda", "xpu", "cpu"):\n    if {d} == "cpu" or getattr(torch, {d}).is_available():\n'
            f"        {name} = {d}\n        break",
            f'{name} = next(d for d, ok in [("cuda", {p.flag()}), ("cpu", True)] if ok)',
        )
    )
    p.devices.append(name)


@construct()
def while_loop(p: Sketch) -> None:
    name, order = p.name("n"), p.name("order")
    kinds = p.one('"cuda", "cpu"', '"cuda", "mps", "cpu"')
    test = f'({order}[{name}] == "cuda" and not {p.flag()})'
    if "mps" in kinds:
        test += f' or ({order}[{name}] == "mps" and not {question("mps")})'
    p.add(f"{order} = [{kinds}]\n{name} = 0\nwhile {test}:\n    {name} += 1")
    p.devices.append(f"{order}[{name}]")


@construct(plain=True, real="cpu")
def with_device(p: Sketch) -> None:
    p.add(f"with torch.device({p.device()}):\n    print({p.label()}, torch.zeros(2).device)")


@construct(plain=True)
def with_context(p: Sketch) -> None:
    p.main.need("import contextlib")
    name, manager = p.name("inside"), p.name("on")
    if p.chance(0.5):
        p.add(f"with contextlib.nullcontext({p.device()}) as {name}:\n    print({p.label()}, torch.device({name}))")
    else:
        p.add(
            f"@contextlib.contextmanager\ndef {manager}(device):\n    yield device\n"
            f"with {manager}({p.device()}) as {name}:\n    print({p.label()}, torch.device({name}))"
        )


@construct(real="cpu")
def with_guard(p: Sketch) -> None:
    p.main.need("import contextlib")
    p.add(
        f"with torch.cuda.device(0) if {p.flag()} else contextlib.nullcontext():\n"
        f"    print({p.label()}, torch.zeros(2, device={p.device()}).device)"
    )


@construct(plain=True)
def comprehension(p: Sketch) -> None:
    name = p.name("by_name")
    p.add(
        p.one(
            f'{name} = {{k: ({p.literal()} if {p.flag()} else "cpu") for k in ("a", "b")}}',
            f'{name} = {{k: d for k, d in (("a", {p.device()}), ("b", "cpu"))}}',
        )
    )
    p.devices.append(f'{name}["a"]')


@construct(plain=True)
def lambda_choice(p: Sketch) -> None:
    name = p.name("choose")
    p.add(
        p.one(
            f'{name} = lambda: {p.literal()} if {p.flag()} else "cpu"',
            f'{name} = lambda gpu={p.flag()}: {p.literal()} if gpu else "cpu"',
            f"{name} = lambda where={p.device()}: where",
        )
    )
    p.functions.append(name)


@construct(plain=True)
def default_argument(p: Sketch) -> None:
    name = p.name("run")
    p.add(
        p.one(
            f"def {name}(device={p.device()}):\n    return device",
            f'def {name}(use_cuda={p.flag()}):\n    return {p.literal()} if use_cuda else "cpu"',
            f'def {name}(device=None):\n    return device or ({p.literal()} if {p.flag()} else "cpu")',
            f"def {name}(device=None):\n    if device is None:\n"
            f'        device = {p.literal()} if {p.flag()} else "cpu"\n    return device',
            f"def {name}(*, where={p.device()}, size=2):\n    return where",
        )
    )
    p.functions.append(name)


@construct()
def default_literal(p: Sketch) -> None:
    name = p.name("train")
    p.add(
        p.one(
            f'def {name}(device="cuda"):\n    if device == "cuda" and not {p.flag()}:\n        device = "cpu"\n'
            f"    return device",
            f'def {name}(device="cuda", fall_back=True):\n    return device if {p.flag()} or not fall_back else "cpu"',
            f'def {name}(device="cuda"):\n    if not {p.flag()} and torch.device(device).type == "cuda":\n'
            f'        return "cpu"\n    return device',
        )
    )
    p.functions.append(name)


@construct(plain=True)
def handed_over(p: Sketch) -> None:
    inner, outer = p.name("make"), p.name("outer")
    call = p.one(
        f"{outer}(device={p.device()})", f'{outer}("name", {p.device()})', f'{outer}(**{{"device": {p.device()}}})'
    )
    p.add(
        f'def {inner}(name="x", device="cpu"):\n    return device\n'
        f"def {outer}(*args, **options):\n    return {inner}(*args, **options)"
    )
    p.show(call)


@construct(plain=True)
def container(p: Sketch) -> None:
    name = p.name("held")
    p.main.need("import types")
    text, where = p.random.choice(
        [
            ('NAME = {"device": DEVICE, "size": 2}', 'NAME["device"]'),
            ("NAME = dict(device=DEVICE, size=2)", 'NAME.get("device")'),
            ("NAME = [DEVICE, 2]", "NAME[0]"),
            ("NAME = (DEVICE, 2)", "NAME[0]"),
            ("NAME, size = DEVICE, 2", "NAME"),
            ("NAME = types.SimpleNamespace(device=DEVICE)", "NAME.device"),
            ('NAME = {}\nNAME["device"] = DEVICE', 'NAME["device"]'),
            ("NAME = []\nNAME.append(DEVICE)", "NAME[-1]"),
            ('NAME = {"a": {"b": DEVICE}}', 'NAME["a"]["b"]'),
        ]
    )
    p.add(text.replace("NAME", name).replace("DEVICE", p.device()))
    p.devices.append(where.replace("NAME", name))


@construct()
def container_of_flags(p: Sketch) -> None:
    name = p.name("options")
    p.main.need("import types")
    text, where = p.random.choice(
        [
            ('NAME = {"gpu": FLAG, "size": 2}', 'NAME["gpu"]'),
            ("NAME = [FLAG, 2]", "NAME[0]"),
            ("NAME = types.SimpleNamespace(gpu=FLAG)", "NAME.gpu"),
            ('NAME = {}\nNAME["gpu"] = FLAG', 'NAME.get("gpu")'),
            ("NAME, size = FLAG, 2", "NAME"),
            ("if (NAME := FLAG):\n    pass", "NAME"),
            ("NAME = bool(FLAG)", "NAME"),
            ("NAME = int(FLAG)", "NAME"),
            ("NAME = any([FLAG])", "NAME"),
            ("NAME = FLAG or False", "NAME"),
            ("NAME = True if FLAG else False", "NAME"),
            ('setattr(os, "NAME", FLAG)', 'getattr(os, "NAME")'),
        ]
    )
    p.add(text.replace("NAME", name).replace("FLAG", p.flag()))
    p.flags.append(where.replace("NAME", name))


@construct()
def choice_by_map(p: Sketch) -> None:
    name = p.name("mapped")
    p.add(
        p.one(
            f'{name} = {{True: "cuda", False: "cpu"}}[bool({p.flag()})]',
            f'{name} = ["cpu", "cuda"][int({p.flag()})]',
            f'{name} = ("cpu", "cuda")[{p.flag()}]',
            f'{name} = {p.flag()} and "cuda" or "cpu"',
            f'{name} = {{"cuda": "cuda:0", "cpu": "cpu"}}["cuda" if {p.flag()} else "cpu"]',
        )
    )
    p.devices.append(name)


@construct(plain=True)
def global_name(p: Sketch) -> None:
    p.module_level()
    name, setup = p.name("DEVICE"), p.name("setup")
    p.add(
        f'{name} = "cpu"\ndef {setup}():\n    global {name}\n    if {p.flag()}:\n        {name} = {p.literal()}\n{setup}()'
    )
    p.devices.append(name)


@construct()
def global_flag(p: Sketch) -> None:
    p.module_level()
    name, setup = p.name("GPU"), p.name("init")
    p.add(f"{name} = False\ndef {setup}():\n    global {name}\n    {name} = {p.flag()}\n{setup}()")
    p.flags.append(name)


@construct(plain=True)
def property_of_class(p: Sketch) -> None:
    name = p.name("Runner")
    p.add(
        f"class {name}:\n    def __init__(self):\n        self._gpu = {p.flag()}\n    @property\n    def device(self):\n"
        f'        return {p.literal()} if self._gpu else "cpu"'
    )
    p.devices.append(f"{name}().device")


@construct(plain=True)
def partial(p: Sketch) -> None:
    p.main.need("import functools")
    name = p.name("placed")
    if p.chance(0.5) and p.real != "everywhere":
        p.add(f"{name} = functools.partial(torch.zeros, 2, device={p.device()})\nprint({p.label()}, {name}().device)")
    else:
        p.add(f"{name} = functools.partial(torch.device, {p.device()})")
        p.places.append(f"{name}()")


@construct()
def match_flag(p: Sketch) -> None:
    name = p.name("matched")
    p.add(
        p.one(
            f'match bool({p.flag()}):\n    case True:\n        {name} = {p.literal()}\n    case _:\n        {name} = "cpu"',
            f'match ({p.flag()}, {question("mps")}):\n    case (True, _):\n        {name} = "cuda"\n'
            f'    case (_, True):\n        {name} = "mps"\n    case _:\n        {name} = "cpu"',
        )
    )
    p.devices.append(name)


@construct()
def match_device(p: Sketch) -> None:
    label = p.label()
    p.add(
        f'match {p.device()}.split(":")[0]:\n    case "cuda" if {p.flag()}:\n        print({label}, torch.device("cuda"))\n'
        f'    case "mps" | "xpu":\n        print({label}, "other")\n    case "cpu":\n        print({label}, "host")\n'
        f'    case other:\n        raise ValueError("unknown device " + other)'
    )


@construct()
def try_question(p: Sketch) -> None:
    name = p.name("tried")
    p.add(
        p.one(
            f'try:\n    torch.cuda.current_device()\n    {name} = "cuda"\nexcept (RuntimeError, AssertionError):\n    {name} = "cpu"',
            f'try:\n    torch.cuda.get_device_name(0)\n    {name} = {p.literal()}\nexcept Exception:\n    {name} = "cpu"',
            f'try:\n    assert {p.flag()}\n    {name} = {p.literal()}\nexcept AssertionError:\n    {name} = "cpu"',
            f"{name} = {p.device()}\ntry:\n    torch.cuda.get_device_properties(0)\n"
            f'except (AssertionError, RuntimeError):\n    {name} = "cpu"',
        )
    )
    p.devices.append(name)


@construct(real="cpu")
def try_tensor(p: Sketch) -> None:
    name = p.name("probed")
    p.add(
        p.one(
            f'try:\n    {name} = str(torch.zeros(2, device="cuda").device)\nexcept Exception:\n    {name} = "cpu"',
            f'try:\n    torch.zeros(2).cuda()\n    {name} = "cuda"\nexcept (RuntimeError, AssertionError):\n    {name} = "cpu"',
            f'{name} = {p.literal()}\ntry:\n    torch.zeros(2).to({name})\nexcept Exception:\n    {name} = "cpu"',
        )
    )
    p.devices.append(name)


@construct(plain=True)
def kind_and_index(p: Sketch) -> None:
    kind, name = p.name("kind"), p.name("where")
    p.add(f'{kind} = "cuda" if {p.flag()} else "cpu"')
    p.add(
        f"{name} = "
        + p.one(
            f'f"{{{kind}}}:{{INDEX}}"',
            f'{kind} + ":0"',
            f'"%s:%d" % ({kind}, INDEX)',
            f"str(torch.device({kind}, INDEX))",
        )
    )
    p.devices.append(name)


@construct()
def count_of_devices(p: Sketch) -> None:
    n, name = p.name("n_gpu"), p.name("last")
    p.add(f"{n} = torch.cuda.device_count()")
    p.add(
        p.one(
            f'{name} = "cuda:%d" % ({n} - 1) if {n} else "cpu"',
            f'{name} = ([f"cuda:{{i}}" for i in range({n})] or ["cpu"])[-1]',
            f'{name} = f"cuda:{{{n} - 1}}" if {n} > 1 else ("cuda" if {n} == 1 else "cpu")',
            f'{name} = "cpu" if {n} == 0 else "cuda"',
            f'if {n} >= 1:\n    {name} = "cuda:0"\nelse:\n    {name} = "cpu"',
        )
    )
    p.devices.append(name)
    p.flags.append(f"{n} > 0")


@construct()
def other_ladder(p: Sketch) -> None:
    name = p.name("picked")
    mps = p.one(
        "torch.backends.mps.is_available()",
        'hasattr(torch.backends, "mps") and torch.backends.mps.is_available()',
        'getattr(torch.backends, "mps", None) is not None and torch.backends.mps.is_available()',
        "torch.backends.mps.is_built() and torch.backends.mps.is_available()",
    )
    xpu = p.one("torch.xpu.is_available()", 'hasattr(torch, "xpu") and torch.xpu.is_available()')
    p.add(
        p.one(
            f'{name} = "mps" if {mps} else "cuda" if {p.flag()} else "cpu"',
            f'{name} = "cpu"\nif {xpu}:\n    {name} = "xpu"\nif {p.flag()}:\n    {name} = "cuda"',
            f'if {mps}:\n    {name} = "mps"\nelif {xpu}:\n    {name} = "xpu"\nelif {p.flag()}:\n    {name} = {p.literal()}\n'
            f'else:\n    {name} = "cpu"',
            f'def {name}_of():\n    if {p.flag()}:\n        return "cuda"\n    if {xpu}:\n        return "xpu"\n'
            f'    if {mps} and OPT_IN:\n        return "mps"\n    return "cpu"\n{name} = {name}_of()',
            f'{name} = torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu"',
            f'{name} = "cuda" if {p.flag()} else "mps" if {mps} and os.environ.get("ENABLE_MPS") else "cpu"',
        )
    )
    p.devices.append(name)


@construct()
def import_ladder(p: Sketch) -> None:
    name = p.name("chip")
    p.add(
        f'try:\n    import torch_npu\n    {name} = "npu"\nexcept ImportError:\n'
        f'    {name} = {p.literal()} if {p.flag()} else "cpu"'
    )
    p.devices.append(name)


@construct()
def other_questions(p: Sketch) -> None:
    name = p.name("really")
    p.add(
        p.one(
            f"{name} = torch.version.cuda is not None and {p.flag()}",
            f"{name} = torch.backends.cuda.is_built() and {p.flag()}",
            f"{name} = torch.backends.cudnn.is_available()",
            f"{name} = {p.flag()} and torch.version.hip is None",
            f'{name} = getattr(torch, "cuda").is_available()',
            f'{name} = {p.flag()} and os.environ.get("CUDA_VISIBLE_DEVICES") != ""',
            f"{name} = torch.cuda.is_available() and torch.cuda.device_count() >= 1",
            f"{name} = not (not {p.flag()})",
            f"{name} = {p.flag()} is True",
            f"available = torch.cuda.is_available\n{name} = available()",
            f"from torch import cuda\n{name} = cuda.is_available()",
        )
    )
    p.flags.append(name)


@construct()
def printed_words(p: Sketch) -> None:
    d = p.device()
    p.add(
        p.one(
            f'print({p.label()}, ("model_%s.pt" % {d}).replace(":", "_") != "")',
            f'print({p.label()}, "model_{{}}.pt".format({d}) != "")',
            f'print({p.label()}, "gpu" if "cuda" in {d} else "host")',
            f'print({p.label()}, {d}.replace("cuda", "gpu") in ("gpu", "gpu:0", "cpu", "mps", "xpu"))',
            f"print({p.label()}, len({d}) > 2)",
        )
    )
