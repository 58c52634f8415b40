"""What a user asks for: command lines, environment variables, dataclasses with defaults; and refusals."""

from __future__ import annotations

from six_worlds.sketch import Sketch, construct


def parsed(p: Sketch, options: str, argv: list[str] | None = None) -> str:
    """Add a parser with these options; return the name of its result. The first parser gets the program's input."""
    p.main.need("import argparse")
    parser, args = p.name("parser"), p.name("args")
    first = not p.parsers
    p.parsers.append(parser)
    if first and argv and p.chance(0.6):
        p.argv = argv
    lines = "\n".join(f"{parser}.add_argument({option})" for option in options.splitlines())
    p.add(f"{parser} = argparse.ArgumentParser()\n{lines}\n{args} = {parser}.parse_args({'' if first else '[]'})")
    return args


def asked(p: Sketch, *more: str) -> list[str]:
    return ["--device", p.one("cuda", "cpu", "{own}", *more)]


def choice(p: Sketch) -> str:
    return f'"cuda" if {p.flag()} else "cpu"'


@construct(plain=True)
def argparse_no_cuda(p: Sketch) -> None:
    args = parsed(p, '"--no-cuda", action="store_true", default=False', ["--no-cuda"] if not p.plain else None)
    p.add(f"{args}.cuda = not {args}.no_cuda and {p.flag()}")
    p.flags.append(f"{args}.cuda")
    if p.chance(0.5):
        name = p.name("device")
        p.add(f'{name} = torch.device("cuda" if {args}.cuda else "cpu")')
        p.places.append(name)


@construct(plain=True, real="cpu")
def argparse_device_by_option(p: Sketch) -> None:
    """CUDA unless the user says no, whether it is there or not; tests then ask the device."""
    given = None if p.plain else p.random.choice([["--cpu"], []])
    args = parsed(p, '"--cpu", action="store_true"', given)
    name, label = p.name("device"), p.label()
    p.add(f'{name} = torch.device("cpu" if {args}.cpu else "cuda")')
    test = p.one(f'{name}.type == "cuda"', f'{name}.type != "cpu"', f'"cuda" in str({name})')
    body = p.one(
        f"print({label}, torch.zeros(2).to({name}).device.type)",
        f"print({label}, torch.zeros(2, device={name}).device.type)",
        f'{name} = torch.device("cuda:0")',
        *(() if p.plain else (f'print({label}, "told")', f"print({label}, torch.zeros(2).cuda().device.type)")),
    )
    p.add(f"if {test}:\n    {body}")
    if p.plain or p.chance(0.6):
        p.add(f"print({p.label()}, torch.zeros(2, device={name}).device.type)")
        p.devices.append(name)


@construct(plain=True)
def argparse_chosen(p: Sketch) -> None:
    args = parsed(p, f'"--device", default={p.device()}', asked(p, "cuda:0") if not p.plain else None)
    p.devices.append(f"{args}.device")


@construct()
def argparse_fallback(p: Sketch) -> None:
    choices = p.one("", "", ', choices=["cuda", "cpu"]', ', choices=["cpu", "cuda", "mps"]')
    args = parsed(p, f'"--device", type=str, default="cuda"{choices}', asked(p, *([] if choices else ["cuda:0"])))
    test = p.one(f'{args}.device == "cuda"', f'"cuda" in {args}.device', f'{args}.device.startswith("cuda")')
    p.add(
        p.one(
            f'if {test} and not {p.flag()}:\n    {args}.device = "cpu"',
            f'{args}.device = {args}.device if {p.flag()} else "cpu"',
            f'if not {p.flag()}:\n    if {test}:\n        print({p.label()}, "falls back")\n    {args}.device = "cpu"',
        )
    )
    p.devices.append(f"{args}.device")


@construct()
def argparse_choices(p: Sketch) -> None:
    default = p.one('"cpu"', choice(p), choice(p))
    args = parsed(p, f'"--device", choices=["cuda", "cpu"], default={default}', asked(p))
    label = p.label()
    p.add(
        f'if {args}.device == "cuda":\n    print({label}, torch.device("cuda"))\n'
        f'elif {args}.device == "cpu":\n    print({label}, "host")\n'
        f'else:\n    raise ValueError("Invalid device: " + {args}.device)'
    )


@construct()
def argparse_gpu(p: Sketch) -> None:
    args = parsed(p, '"--gpu", type=int, default=0', p.random.choice([["--gpu", "1"], ["--gpu", "-1"], ["--gpu", "0"]]))
    p.devices.append(f'(f"cuda:{{{args}.gpu}}" if {p.flag()} and {args}.gpu >= 0 else "cpu")')


@construct()
def argparse_use_cuda(p: Sketch) -> None:
    args = parsed(p, '"--use-cuda", action="store_true"\n"--seed", type=int, default=1', ["--use-cuda"])
    p.add(
        p.one(
            f"if {args}.use_cuda and not {p.flag()}:\n    {args}.use_cuda = False",
            f'if {args}.use_cuda and not {p.flag()}:\n    sys.exit("CUDA is not there")',
            f"{args}.use_cuda = {args}.use_cuda and {p.flag()}",
        )
    )
    p.flags.append(f"{args}.use_cuda")
    p.devices.append(f'("cuda" if {args}.use_cuda else "cpu")')


@construct(plain=True)
def environment_flag(p: Sketch) -> None:
    name = p.name("use_gpu")
    p.add(f'{name} = os.environ.get("USE_GPU", "1") == "1" and {p.flag()}')
    if not p.plain:
        p.asked("USE_GPU", p.one("0", "1"))
    p.flags.append(name)


@construct(plain=True)
def environment_device(p: Sketch) -> None:
    name = p.name("from_env")
    p.add(f'{name} = os.getenv("RUN_ON") or {p.device()}')
    if not p.plain:
        p.asked("RUN_ON", p.one("cpu", "{own}", "cuda"))
    p.devices.append(name)


@construct(plain=True)
def data_class(p: Sketch) -> None:
    p.main.need("from dataclasses import dataclass, field")
    name = p.name("Settings")
    default = p.one(f"{p.device()}", f"field(default_factory=lambda: {p.device()})")
    p.add(f"@dataclass\nclass {name}:\n    device: str = {default}\n    size: int = 2")
    p.devices.append(f"{name}().device")


@construct()
def data_class_literal(p: Sketch) -> None:
    p.main.need("from dataclasses import dataclass, field")
    name = p.name("Settings")
    after = p.one(
        f'if self.device == "cuda" and not {p.flag()}:\n            self.device = "cpu"',
        f'if not {p.flag()}:\n            self.device = "cpu"',
        'self.device = self.device if self.gpu else "cpu"',
    )
    p.add(
        f'@dataclass\nclass {name}:\n    device: str = "cuda"\n    gpu: bool = {p.flag()}\n'
        f"    def __post_init__(self):\n        {after}"
    )
    p.devices.append(f"{name}().device")
    p.flags.append(f"{name}().gpu")


@construct(real="cpu")
def refusal(p: Sketch) -> None:
    flag = p.flag()
    message = p.one(
        *("CPU training is not allowed.", "Training on the CPU is not supported", "CUDA is required"),
        *("needs a GPU", "no CUDA device, and the CPU is too slow", "This script needs CUDA"),
    )
    p.last(
        p.one(
            f'assert {flag}, "{message}"',
            f'if not {flag}:\n    raise RuntimeError("{message}")',
            f'if not {flag}:\n    sys.exit("{message}")',
            f'if {flag} is False:\n    print("{message}")\n    raise SystemExit(1)',
        )
    )
    p.last(f"print({p.label()}, torch.zeros(2, device={p.literal()}).device)")


@construct(real="cpu")
def refused_request(p: Sketch) -> None:
    name, flag = p.name("select_device"), p.flag()
    p.asked("DEVICE", p.one("0", "cpu", "cuda:1", "cuda"))
    p.last(
        f'def {name}(device=""):\n    cpu = device == "cpu"\n    if device and not cpu:\n'
        f'        assert {flag}, f"CUDA unavailable, invalid device {{device}} requested"\n'
        f"    cuda = not cpu and {flag}\n"
        f'    return torch.device("cuda:0" if cuda else "cpu")\n'
        f'print({p.label()}, {name}(os.environ.get("DEVICE", "")))'
    )


@construct()
def validated(p: Sketch) -> None:
    name = p.name("check")
    body = p.one(
        '    assert device in ("cpu", "cuda", "cuda:0", "mps", "xpu"), device\n    return device',
        '    if torch.device(device).type not in ("cpu", "cuda"):\n        raise ValueError("Invalid device " + device)\n'
        "    return device",
        '    if not device.startswith("cuda") and device != "cpu":\n        raise ValueError(device)\n    return device',
    )
    p.add(f"def {name}(device):\n{body}")
    device = p.device()
    p.show(f"{name}(str({device}))" if "startswith" in body else f"{name}({device})")  # a device has no startswith
