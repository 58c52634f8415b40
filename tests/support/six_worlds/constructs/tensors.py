"""Tensors and modules on devices, torch.distributed, and libraries that are not torch."""

from __future__ import annotations

from six_worlds.sketch import Sketch, construct


@construct(plain=True, real="cpu", weight=2)
def moved_tensor(p: Sketch) -> None:
    x = p.name("x")
    move = p.one(
        f"if {p.flag()}:\n    {x} = {x}.cuda()",
        f"{x} = {x}.cuda() if {p.flag()} else {x}",
        f"{x} = {x}.to({p.device()})",
        f"if {p.flag()}:\n    {x} = {x}.to({p.literal()})",
    )
    p.add(f"{x} = torch.zeros(2)\n{move}\nprint({p.label()}, {x}.device)")


@construct(plain=True, real="cpu", weight=2)
def model_and_data(p: Sketch) -> None:
    """Both are moved, by flags or devices that are the same; an error says if they part."""
    model, x = p.name("model"), p.name("x")
    moves = [
        f"if {p.flag()}:\n    NAME = NAME.cuda()",
        f"NAME = NAME.cuda() if {p.flag()} else NAME",
        f"if {p.flag()}:\n    NAME = NAME.to({p.literal()})",
    ]
    if p.plain:
        moves.append(f"NAME = NAME.to({p.device()})")
    first, second = p.one(*moves).replace("NAME", model), p.one(*moves).replace("NAME", x)
    p.add(f"{model} = torch.nn.Linear(2, 2)\n{first}\n{x} = torch.ones(2)\n{second}")
    p.add(f"print({p.label()}, {model}({x}).device)")


@construct(real="cpu")
def two_ways(p: Sketch) -> None:
    """A ladder for the model, a flag for the data: imagenet before its port."""
    model, x = p.name("model"), p.name("x")
    p.add(
        f"{model} = torch.nn.Linear(2, 2).to({p.device()})\n{x} = torch.ones(2)\n"
        f"if {p.flag()}:\n    {x} = {x}.cuda()\nprint({p.label()}, {model}({x}).device)"
    )


@construct(plain=True, real="cpu")
def unguarded(p: Sketch) -> None:
    x = p.one("torch.zeros(2).cuda()", 'torch.zeros(2, device="cuda")', 'torch.nn.Linear(2, 2).to("cuda").weight')
    p.last(f"print({p.label()}, {x}.device)")


@construct(real="cpu")
def is_cuda(p: Sketch) -> None:
    x, label = p.name("x"), p.label()
    test = p.one(f"{x}.is_cuda", f'{x}.device.type == "cuda"', f"{x}.get_device() >= 0", f'"cuda" in str({x}.device)')
    p.add(
        f"{x} = torch.zeros(2, device={p.device()})\n"
        + p.one(
            f'if {test}:\n    print({label}, torch.zeros(2).cuda().device)\nelse:\n    print({label}, "elsewhere")',
            f'print({label}, torch.zeros(2, device="cuda" if {test} else "cpu").device)',
            f"print({label}, ({x} + (torch.ones(2).cuda() if {test} else torch.ones(2))).device)",
        )
    )


@construct(real="nowhere")
def loaded(p: Sketch) -> None:
    where = p.one(
        p.device(),
        f'None if {p.flag()} else "cpu"',
        f'torch.device("cpu") if not {p.flag()} else None',
        f'"cuda" if {p.flag()} else "cpu"',
        "lambda storage, place: storage",
    )
    p.add(f'print({p.label()}, torch.load("cuda.pt", map_location={where})["w"].device)')


@construct(real="nowhere")
def loaded_by_branches(p: Sketch) -> None:
    state = p.name("state")
    p.add(
        f'if {p.flag()}:\n    {state} = torch.load("cuda.pt")\nelse:\n    {state} = torch.load("cuda.pt", map_location="cpu")\n'
        f'print({p.label()}, {state}["w"].device)'
    )


@construct(plain=True, real="cpu")
def generator(p: Sketch) -> None:
    p.add(f"print({p.label()}, torch.Generator(device={p.device()}).device)")


@construct(real="cpu")
def data_parallel(p: Sketch) -> None:
    model = p.name("model")
    p.add(
        f"{model} = torch.nn.Linear(2, 2).to({p.device()})\nif torch.cuda.device_count() > 1:\n"
        f"    {model} = torch.nn.DataParallel({model})\nprint({p.label()}, next({model}.parameters()).device)"
    )


@construct(real="cpu")
def scaler(p: Sketch) -> None:
    p.add(
        p.one(
            f"print({p.label()}, torch.amp.GradScaler(enabled={p.flag()}).is_enabled())",
            f'with torch.autocast("cuda" if {p.flag()} else "cpu"):\n    print({p.label()}, torch.zeros(2, device={p.device()}).device)',
            f"with torch.cuda.amp.autocast(enabled={p.flag()}):\n    print({p.label()}, torch.zeros(2, device={p.device()}).device)",
        )
    )


@construct(real="cpu")
def stream(p: Sketch) -> None:
    s = p.name("stream")
    p.add(
        f"{s} = torch.cuda.Stream() if {p.flag()} else None\nif {s} is not None:\n    with torch.cuda.stream({s}):\n"
        f"        print({p.label()}, torch.zeros(2, device={p.literal()}).device)\n    torch.cuda.synchronize()"
    )


@construct(real="cpu")
def set_device(p: Sketch) -> None:
    p.add(f"if {p.flag()}:\n    torch.cuda.set_device({p.one('0', 'INDEX', p.literal())})\nprint({p.label()}, 'set')")


@construct(real="cpu")
def half_precision(p: Sketch) -> None:
    half, x = p.name("half"), p.name("x")
    p.add(
        f'{half} = {p.device()} != "cpu"\n{x} = torch.zeros(2, device={p.device()})\n'
        f"print({p.label()}, ({x}.half() if {half} else {x}).device)"
    )


@construct()
def memory(p: Sketch) -> None:
    total = p.name("total")
    p.add(
        p.one(
            f"{total} = torch.cuda.get_device_properties(0).total_memory if {p.flag()} else 0",
            f"{total} = 0\nif {p.flag()}:\n    {total} = torch.cuda.mem_get_info()[1]",
            f"{total} = sum(torch.cuda.get_device_properties(i).total_memory for i in range(torch.cuda.device_count()))",
            f"{total} = torch.cuda.memory_allocated() if {p.flag()} else 0",
        )
    )
    p.add(f"print({p.label()}, {total} > 1 << 30)")


@construct(real="nowhere", weight=2)
def distributed(p: Sketch) -> None:
    p.main.need("import torch.distributed as dist")
    backend = p.name("backend")
    p.add(
        p.one(
            f'{backend} = "nccl" if {p.flag()} else "gloo"',
            f'{backend} = "gloo"\nif {p.flag()}:\n    {backend} = "nccl"',
            f'{backend} = "nccl" if {p.flag()} and dist.is_nccl_available() else "gloo"',
            f'{backend} = {{"cuda": "nccl", "cpu": "gloo"}}["cuda" if {p.flag()} else "cpu"]',
        )
    )
    check = p.one("", f'assert {backend} in ["gloo", "nccl"]\n', f'assert {backend} == "nccl" or not {p.flag()}\n')
    after = p.one(
        'dist.get_backend() in ("nccl", "gloo")',
        'torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")',
        '{"nccl": "many", "gloo": "one"}[dist.get_backend()]',
        "dist.is_initialized()",
    )
    p.add(
        f"{check}dist.init_process_group({p.one('', 'backend=')}{backend})\nprint({p.label()}, {after})\n"
        f"dist.destroy_process_group()"
    )


@construct(real="cpu")
def distributed_by_question(p: Sketch) -> None:
    p.main.need("import torch.distributed as dist")
    p.add(f'print({p.label()}, "nccl" if dist.is_nccl_available() and {p.flag()} else "gloo")')


@construct(weight=2)
def foreign_libraries(p: Sketch) -> None:
    kind = f'{p.device()}.split(":")[0]'
    library, call = p.random.choice(
        [
            ("faster_whisper", f'faster_whisper.WhisperModel("tiny", device={kind}).place'),
            ("faster_whisper", f'faster_whisper.WhisperModel("tiny", device="cuda" if {p.flag()} else "cpu").place'),
            ("faiss", f"faiss.index(8, gpu={p.flag()})"),
            ("faiss", f'faiss.index(8, gpu=torch.device({p.device()}).type == "cuda")'),
            ("acme_engine", f'acme_engine.Engine("m", device={p.device()}).place'),
            ("acme_engine", f'acme_engine.run("cuda" if {p.flag()} else "cpu")'),
            ("acme_engine", f'acme_engine.run(**{{"device": {p.device()}}})'),
            (
                "onnxruntime",
                'onnxruntime.InferenceSession("m", providers=["CUDAExecutionProvider"] '
                f'if {p.flag()} else ["CPUExecutionProvider"]).place',
            ),
            ("ctranslate2", f'ctranslate2.Translator("m", device="cuda" if {p.flag()} else "cpu").place'),
        ]
    )
    p.main.need(f"import {library}")
    p.add(f"print({p.label()}, {call})")


@construct()
def foreign_in_a_class(p: Sketch) -> None:
    name, user = p.name("Engine"), p.name("run_on")
    module = p.module("pkg.engine")
    module.need("import acme_engine")
    module.add(
        f"class {name}:\n    def __init__(self, device=None):\n"
        f'        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")\n'
        f"    def start(self):\n        return acme_engine.run(self.device)"
    )
    where = p.one("", p.device(), f"device={p.device()}")
    p.add(f"{user} = {p.refer('pkg.engine', name)}({where})\nprint({p.label()}, {user}.start())")
