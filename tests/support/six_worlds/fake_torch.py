"""A fake torch answers the questions of programs as torch does on one of six machines, and computes nothing.

It knows devices, availability, counts, capabilities, memory, places of tensors and modules, and who dies of what.
`tests/worlds/oracle.py --cross-check` compares it with the real torch.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

WORLDS = ("cuda", "nogpu", "cpu", "mps", "xpu", "npu")
KINDS = (
    *("cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla", "lazy"),
    *("vulkan", "mps", "meta", "hpu", "mtia", "privateuseone"),
)
COUNTS = {"cuda": 2, "mps": 1, "xpu": 1, "npu": 1}
GIGABYTE = 1 << 30
MEMORY = {"cuda": 80 * GIGABYTE, "xpu": 16 * GIGABYTE, "npu": 32 * GIGABYTE, "mps": 24 * GIGABYTE}
CUDA_CALLS = (
    *("current_device", "get_device_capability", "get_device_name", "get_device_properties", "set_device"),
    *("synchronize", "mem_get_info", "current_stream", "default_stream", "Stream", "Event", "init", "ipc_collect"),
    *("can_device_access_peer", "get_rng_state", "reset_peak_memory_stats", "stream", "set_stream"),
)


def says(value: object) -> Callable[..., Any]:
    return lambda *args, **options: value


def _hides_cuda() -> bool:
    """Return whether the program hides CUDA's devices from itself."""
    return os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")


class World:
    """One of the six machines: which accelerator it has, and what the torch on it was built for."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.kind = name if name in COUNTS else None
        self.count = COUNTS.get(name, 0)
        self.cuda_built = name in ("cuda", "nogpu")
        self.lenient = False  # whether what is not there may be used, to see how far a program would get
        self.missed: set[tuple[str, str]] = set()  # what programs asked modules for in vain
        self.reset()

    def reset(self) -> None:
        """Forget what the last program did."""
        self.current = 0
        self.defaults: list[Device] = []
        self.casting: list[str] = []
        self.backend: str | None = None

    def die(self, kind: str, error: type[Exception] | None = None) -> Exception:
        """Return the exception of a torch that finds no device of a kind."""
        if kind == "cuda" and self.name == "nogpu":
            made = RuntimeError("Found no NVIDIA driver on your system")
        elif kind in ("cuda", "xpu"):
            made = (error or AssertionError)(f"Torch not compiled with {kind.upper()} enabled")
        elif kind == "mps":
            made = RuntimeError("PyTorch is not linked with support for mps devices")
        else:
            made = RuntimeError(f"Could not run on the device {kind!r}")
        made.lacks = kind  # type: ignore[attr-defined]
        return made

    def place(self, device: Any = None) -> Device:
        """Return the device on which a tensor lies that is made for `device`; raise what torch raises."""
        if device is None:
            device = self.defaults[-1] if self.defaults else "cpu"
        where = self.device(device)
        if where.type in ("cpu", "meta"):
            return self.device(where.type)
        if where.type != self.kind:
            if self.lenient:
                return self.device(where.type, where.index or 0)
            raise self.die(where.type)
        index = self.current if where.index is None else where.index
        if index >= self.count:
            raise RuntimeError(f"{where.type} error: invalid device ordinal")
        return self.device(where.type, index)

    def index_of(self, device: Any) -> int:
        """Return the index that a function of a backend means by its argument."""
        if device is None:
            return self.current
        index = (
            device if isinstance(device, int) else (self.device(device) if isinstance(device, str) else device).index
        )
        index = self.current if index is None else index
        if index >= self.count:
            raise AssertionError("Invalid device id")
        return index


class Device:
    """torch.device; a subclass for each world knows the world."""

    world: World

    def __new__(cls, *args: Any, **options: Any) -> Device:
        first = args[0] if args else options.get("type", options.get("device"))
        index = args[1] if len(args) > 1 else options.get("index")
        if isinstance(first, Device):
            if index is not None:
                raise TypeError("device(): argument 'type' (position 1) must be str, not torch.device")
            return first
        made = object.__new__(cls)
        if isinstance(first, int) and not isinstance(first, bool) and index is None:
            if cls.world.kind is None:
                raise cls.no_accelerator()
            made.type, made.index = cls.world.kind, first
        elif isinstance(first, str):
            made.type, made.index = cls.parsed(first, index)
        else:
            raise TypeError(f"device() received an invalid combination of arguments - got ({type(first).__name__})")
        return made

    @classmethod
    def no_accelerator(cls) -> Exception:
        error = RuntimeError("Cannot access accelerator device when none is available.")
        error.lacks = "cuda"  # type: ignore[attr-defined]
        return error

    @classmethod
    def parsed(cls, text: str, index: int | None) -> tuple[str, int | None]:
        if not text:
            raise RuntimeError("Device string must not be empty")
        kind, colon, number = text.partition(":")
        if colon and (not number.isdigit() or (number != "0" and number.startswith("0"))):
            raise RuntimeError(f"Invalid device string: '{text}'")
        known = kind in KINDS or (kind == "npu" and cls.world.name == "npu")
        if not known:
            raise RuntimeError(f"Expected one of {', '.join(KINDS)} device type at start of device string: {kind}")
        if index is None:
            return kind, int(number) if number else None
        if number:
            raise RuntimeError(f"type (string) must not include an index because index was passed explicitly: {text}")
        if not isinstance(index, int):
            raise TypeError(f"device(): argument 'index' (position 2) must be int, not {type(index).__name__}")
        if index < 0:
            raise RuntimeError("Device index must not be negative")
        return kind, index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return f"device(type='{self.type}'" + ("" if self.index is None else f", index={self.index}") + ")"

    def __enter__(self) -> Device:
        self.world.defaults.append(self)
        return self

    def __exit__(self, *what: object) -> None:
        self.world.defaults.pop()

    def __reduce__(self) -> Any:
        return type(self), (str(self),)


class Tensor:
    """A tensor without numbers: it lies somewhere, and will not be mixed with one that lies elsewhere."""

    world: World

    def __init__(self, device: Device, dtype: str = "float32") -> None:
        self.device, self.dtype, self.shape, self.requires_grad, self.grad = device, dtype, (2,), False, None

    is_cuda = property(lambda self: self.device.type == "cuda")
    is_mps = property(lambda self: self.device.type == "mps")
    is_xpu = property(lambda self: self.device.type == "xpu")
    is_npu = property(lambda self: self.device.type == "npu")
    is_cpu = property(lambda self: self.device.type == "cpu")
    data = property(lambda self: self)

    def get_device(self) -> int:
        return -1 if self.device.type == "cpu" else self.device.index or 0

    def _new(self, device: Device | None = None, dtype: str | None = None) -> Tensor:
        return type(self)(device or self.device, dtype or self.dtype)

    def to(self, *args: Any, device: Any = None, dtype: Any = None, **options: Any) -> Tensor:
        for given in args:
            if isinstance(given, Tensor):
                device = given.device
            elif isinstance(given, Dtype):
                dtype = given
            elif not isinstance(given, bool) and given is not None:
                device = given
        return self._new(None if device is None else self.world.place(device), dtype)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Tensor:
        where = self.world.device("cuda") if device is None else self.world.device(device)
        return self._new(self.world.place(where))

    def xpu(self, device: Any = None) -> Tensor:
        return self._new(self.world.place("xpu"))

    def cpu(self) -> Tensor:
        return self._new(self.world.place("cpu"))

    def type(self, dtype: Any = None) -> Any:
        prefix = "torch." + ("" if self.device.type == "cpu" else self.device.type + ".")
        return f"{prefix}FloatTensor" if dtype is None else self.to(dtype)

    def double(self) -> Tensor:
        if self.device.type == "mps":
            raise TypeError("Cannot convert a MPS Tensor to float64 dtype")
        return self._new(dtype="float64")

    def numpy(self) -> list[float]:
        if self.device.type != "cpu":
            raise TypeError(f"can't convert {self.device} device type tensor to numpy.")
        return [0.0, 0.0]

    def pin_memory(self) -> Tensor:
        if self.world.kind is None:
            raise Device.no_accelerator()
        return self

    def requires_grad_(self, on: bool = True) -> Tensor:
        self.requires_grad = on
        return self

    def _with(self, *others: Any) -> Tensor:
        for other in others:
            if isinstance(other, Tensor) and other.device != self.device and not self.world.lenient:
                raise RuntimeError(
                    "Expected all tensors to be on the same device, but found at least two devices, "
                    f"{self.device} and {other.device}!"
                )
        return self._new()

    __add__ = __radd__ = __mul__ = __rmul__ = __sub__ = __truediv__ = __matmul__ = _with
    __getitem__ = sum = mean = eq = float = half = detach = clone = contiguous = view = reshape = _with
    backward = record_stream = copy_ = zero_ = _with

    def item(self) -> float:
        return 0.0

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return "tensor([0., 0.]" + ("" if self.device.type == "cpu" else f", device='{self.device}'") + ")"


class Dtype(str):
    """A data type: its name."""


class Module:
    """torch.nn.Module: it holds modules and tensors, and moves them all."""

    world: World

    def __init__(self) -> None:
        self.training = True
        self._before: list[Any] = []

    def _apply(self, move: Callable[[Tensor], Tensor]) -> Module:
        for name, value in list(vars(self).items()):
            if isinstance(value, Tensor):
                setattr(self, name, move(value))
            elif isinstance(value, Module):
                value._apply(move)
            elif isinstance(value, list):
                for child in value:
                    if isinstance(child, Module):
                        child._apply(move)
        return self

    def parameters(self) -> Iterator[Tensor]:
        for value in list(vars(self).values()):
            if isinstance(value, Tensor):
                yield value
            elif isinstance(value, Module):
                yield from value.parameters()
            elif isinstance(value, list):
                yield from (p for child in value if isinstance(child, Module) for p in child.parameters())

    def buffers(self) -> Iterator[Tensor]:
        return iter(())  # they are among the parameters

    def to(self, *args: Any, **options: Any) -> Module:
        return self._apply(lambda tensor: tensor.to(*args, **options))

    def cuda(self, device: Any = None) -> Module:
        return self._apply(lambda tensor: tensor.cuda(device))

    def cpu(self) -> Module:
        return self._apply(lambda tensor: tensor.cpu())

    def _same(self, *args: Any, **options: Any) -> Module:
        return self

    float = half = train = eval = requires_grad_ = zero_grad = _same

    def state_dict(self) -> dict[str, Tensor]:
        return {str(i): p for i, p in enumerate(self.parameters())}

    def load_state_dict(self, state: Any, strict: bool = True) -> None:
        pass

    def register_buffer(self, name: str, tensor: Tensor) -> None:
        setattr(self, name, tensor)

    def register_forward_pre_hook(self, hook: Any, with_kwargs: bool = False) -> None:
        self._before.append(hook)

    def forward(self, *args: Any) -> Any:
        return args[0]

    def __call__(self, *args: Any, **options: Any) -> Any:
        for hook in self._before:
            args, options = hook(self, args, options)
        return self.forward(*args, **options)


class FakeModule(types.ModuleType):
    """A module of the fake torch; what it lacks is written down, for the cross-check."""

    def __init__(self, name: str, world: World, **members: Any) -> None:
        super().__init__(name)
        self.__dict__["_missed"] = world.missed
        self.__dict__.update(members)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            self._missed.add((self.__name__, name))
        raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")


class Context:
    """A context manager and decorator that does nothing."""

    def __init__(self, *args: Any, enabled: bool = True, **options: Any) -> None:
        self.args, self.enabled = args, enabled

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *what: object) -> None:
        pass

    def __call__(self, function: Any) -> Any:
        return function


class Casting(Context):
    """torch.autocast, which says while it is entered for which device it is enabled: the accelerator's, or the CPU."""

    world: World

    def __init__(self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: Any = None) -> None:
        super().__init__(device_type, enabled=enabled and device_type in (self.world.kind, "cpu"))

    def __enter__(self) -> Context:
        self.world.casting.append(self.args[0] if self.enabled else "")
        return self

    def __exit__(self, *what: object) -> None:
        self.world.casting.pop()

    def __call__(self, function: Any) -> Any:
        @functools.wraps(function)
        def cast(*args: Any, **named: Any) -> Any:
            with self:
                return function(*args, **named)

        return cast


class Queue:
    """A stream or an event."""

    def __init__(self, *args: Any, **options: Any) -> None:
        pass

    def _nothing(self, *args: Any) -> None:
        pass

    synchronize = wait = wait_event = wait_stream = record = _nothing

    def query(self) -> bool:
        return True

    def record_event(self, event: Any = None) -> Any:
        return event or Queue()

    def elapsed_time(self, other: Any) -> float:
        return 1.0


class Scaler:
    """torch.amp.GradScaler."""

    world: World

    def __init__(self, device: str = "cuda", *args: Any, enabled: bool = True, **options: Any) -> None:
        self._enabled = enabled and device == self.world.kind

    def is_enabled(self) -> bool:
        return self._enabled

    def scale(self, loss: Any) -> Any:
        return loss

    def step(self, optimizer: Any, *args: Any) -> Any:
        return optimizer.step()

    def update(self) -> None:
        pass

    unscale_ = says(None)


class Modules:
    """The modules of torch in one world, by name."""

    def __init__(self, world: World) -> None:
        self.world = world
        base = {"world": world}
        world.device = type("device", (Device,), {**base, "__module__": "torch"})  # type: ignore[attr-defined]
        self.tensor = type("Tensor", (Tensor,), {**base, "__module__": "torch"})
        self.module = type("Module", (Module,), {**base, "__module__": "torch.nn"})
        self.casting = type("autocast", (Casting,), base)
        self.found: dict[str, types.ModuleType] = {}
        self._torch()
        self._cuda()
        self._others()
        self._nn()
        self._distributed()

    def add(self, name: str, **members: Any) -> types.ModuleType:
        module = self.found[name] = FakeModule(name, self.world, **members)
        home, _, last = name.rpartition(".")
        if home:
            setattr(self.found[home], last, module)
        return module

    def _made(self, *args: Any, device: Any = None, dtype: Any = None, **options: Any) -> Tensor:
        return self.tensor(self.world.place(device), dtype or "float32")

    def _like(self, other: Tensor, *args: Any, device: Any = None, **options: Any) -> Tensor:
        return self.tensor(other.device if device is None else self.world.place(device))

    def _load(self, file: Any, map_location: Any = None, **options: Any) -> dict[str, Tensor]:
        """Give what was saved on `cuda:0` if the file's name says cuda, else on the CPU."""
        saved = "cuda:0" if "cuda" in str(file) else "cpu"
        if isinstance(map_location, dict):
            saved = map_location.get(saved, saved)
        elif callable(map_location):
            moved = map_location(self.tensor(self.world.device("cpu")), saved)
            saved = saved if moved is None else moved.device
        elif map_location is not None:
            saved = map_location
        if self.world.device(saved).type == "cuda" and self.world.kind != "cuda" and not self.world.lenient:
            error = RuntimeError(
                "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False."
            )
            error.lacks = "cuda"  # type: ignore[attr-defined]
            raise error
        return {"w": self.tensor(self.world.place(saved))}

    def _set_default(self, device: Any) -> None:
        self.world.defaults = [] if device is None else [self.world.device(device)]

    def _generator(self, device: Any = "cpu") -> Any:
        where = self.world.device(device)
        self.world.place(where)
        return types.SimpleNamespace(device=where, manual_seed=lambda seed: None)

    def _torch(self) -> None:
        world = self.world
        make, like = self._made, self._like
        makers = ("zeros", "ones", "empty", "rand", "randn", "randint", "tensor", "arange", "full", "eye", "linspace")
        dtypes = ("float32", "float16", "bfloat16", "float64", "int64", "long", "int32", "bool", "uint8", "half")
        torch = self.add(
            "torch",
            **dict.fromkeys(makers, make),
            **dict.fromkeys(("zeros_like", "ones_like", "empty_like", "rand_like", "randn_like", "full_like"), like),
            **{name: Dtype(name) for name in dtypes},
            float=Dtype("float32"),
            dtype=Dtype,
            device=world.device,
            Tensor=self.tensor,
            FloatTensor=lambda *a: make(),
            LongTensor=lambda *a: make(),
            as_tensor=lambda data, dtype=None, device=None: (
                data.to(device)
                if isinstance(data, Tensor) and device is not None
                else data
                if isinstance(data, Tensor)
                else make(device=device)
            ),
            from_numpy=lambda data: make(),
            cat=lambda parts, *a: parts[0]._with(*parts[1:]),
            stack=lambda parts, *a: parts[0]._with(*parts[1:]),
            add=lambda a, b: a._with(b),
            matmul=lambda a, b: a._with(b),
            is_tensor=lambda thing: isinstance(thing, Tensor),
            save=says(None),
            load=self._load,
            manual_seed=says(None),
            seed=says(None),
            initial_seed=says(0),
            get_rng_state=says(make(device="cpu")),
            set_rng_state=says(None),
            compile=lambda thing=None, **options: thing,
            set_default_device=self._set_default,
            get_default_device=lambda: world.defaults[-1] if world.defaults else world.device("cpu"),
            set_default_dtype=says(None),
            set_grad_enabled=Context,
            no_grad=Context,
            inference_mode=Context,
            autocast=self.casting,
            Generator=self._generator,
            OutOfMemoryError=type("OutOfMemoryError", (RuntimeError,), {}),
            is_autocast_enabled=lambda kind="cuda": world.casting[-1:] == [kind],
            use_deterministic_algorithms=says(None),
            set_float32_matmul_precision=says(None),
            get_device_module=lambda device=None: self.found[f"torch.{world.device(device or 'cpu').type}"],
            __version__="2.13.0",
        )
        assert isinstance(torch, FakeModule)
        self.add("torch.version", cuda="12.8" if world.cuda_built else None, hip=None, xpu=None)
        self.add("torch.cpu", is_available=says(True), device_count=says(1))
        self.add("torch.compiler", is_compiling=says(False), disable=lambda f=None, **o: f)
        self.add("torch._utils", is_compiling=says(False))
        self.add("torch.profiler", record_function=Context)
        self.add("torch.utils")
        self.add("torch.utils.data", DataLoader=lambda data, **options: list(data), Dataset=object)
        self.add("torch.utils._pytree", tree_map=self._map, tree_flatten=lambda tree: (self._leaves(tree), None))
        self.add("torch.optim", SGD=self._optimizer, Adam=self._optimizer, AdamW=self._optimizer)
        scaler = type("GradScaler", (Scaler,), {"world": world})
        self.add("torch.amp", autocast=self.casting, GradScaler=scaler)
        self.scaler = scaler

    @staticmethod
    def _optimizer(parameters: Any, **options: Any) -> Any:
        held = list(parameters)
        return types.SimpleNamespace(step=says(None), zero_grad=says(None), param_groups=[{"params": held}])

    def _map(self, function: Any, thing: Any) -> Any:
        if isinstance(thing, dict):
            return {name: self._map(function, part) for name, part in thing.items()}
        if isinstance(thing, (list, tuple)):
            return type(thing)(self._map(function, part) for part in thing)
        return function(thing)

    def _leaves(self, thing: Any) -> list[Any]:
        parts = thing.values() if isinstance(thing, dict) else thing if isinstance(thing, (list, tuple)) else None
        return [thing] if parts is None else [leaf for part in parts for leaf in self._leaves(part)]

    def _cuda(self) -> None:
        world = self.world
        here = world.kind == "cuda"
        cuda = self.add(
            "torch.cuda",
            is_available=lambda: here and not _hides_cuda(),
            device_count=lambda: world.count if here and not _hides_cuda() else 0,
            is_initialized=says(here),
            is_bf16_supported=says(here),
            _is_compiled=says(world.cuda_built),
            empty_cache=says(None),
            manual_seed=says(None),
            manual_seed_all=says(None),
            seed_all=says(None),
            memory_allocated=says(1 << 20 if here else 0),
            max_memory_allocated=says(1 << 20 if here else 0),
            memory_reserved=says(1 << 20 if here else 0),
            max_memory_reserved=says(1 << 20 if here else 0),
            memory_stats=says({}),
            get_arch_list=says(["sm_90"] if here else []),
            get_rng_state_all=says([]),
            OutOfMemoryError=self.found["torch"].OutOfMemoryError,
            device=self._on_device("cuda"),
            FloatTensor=lambda *a: self._made(device="cuda"),
        )
        if here:
            cuda.__dict__.update(self._calls("cuda"))
        else:
            for name in CUDA_CALLS:
                setattr(cuda, name, functools.partial(self._lost, name))
        cuda.stream = Context if here else self._no_stream
        functions = {name: says(None) for name in ("range_push", "range_pop", "mark")}
        self.add("torch.cuda.nvtx", range=Context, **functions)
        first = functools.partial(self.scaler, "cuda")

        def cast(enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> Casting:
            return self.casting("cuda", dtype, enabled, cache_enabled)

        self.add("torch.cuda.amp", autocast=cast, GradScaler=first)

    def _lost(self, name: str, *args: Any, **options: Any) -> Any:
        if name == "set_device" and args and isinstance(args[0], int) and args[0] < 0:
            return None
        if self.world.lenient:
            return None
        raise self.world.die("cuda")

    def _no_stream(self, stream: Any) -> Any:
        return Context()

    def _calls(self, kind: str) -> dict[str, Any]:
        """Return the functions of a backend that is there."""
        world, total = self.world, MEMORY[kind]
        names = {"cuda": "NVIDIA", "xpu": "Intel", "npu": "Ascend"}
        properties = types.SimpleNamespace(
            name=names.get(kind, kind), total_memory=total, major=9, minor=0, multi_processor_count=132
        )
        if kind == "xpu":
            del properties.major, properties.minor, properties.multi_processor_count

        def set_device(device: Any) -> None:
            if not (isinstance(device, int) and device < 0):
                world.current = world.index_of(device)

        def checked(value: Any) -> Callable[..., Any]:
            def function(device: Any = None, *args: Any, **options: Any) -> Any:
                world.index_of(device)
                return value

            return function

        answers = {
            "current_device": lambda: world.current,
            "set_device": set_device,
            "get_device_name": checked(names.get(kind, kind)),
            "get_device_properties": checked(properties),
            "synchronize": checked(None),
            "mem_get_info": checked((total // 2, total)),
            "current_stream": lambda device=None: Queue(),
            "default_stream": lambda device=None: Queue(),
            "set_stream": says(None),
            "stream": Context,
            "Stream": Queue,
            "Event": Queue,
            "init": says(None),
            "ipc_collect": says(None),
            "can_device_access_peer": says(True),
            "get_rng_state": lambda device=None: self._made(device="cpu"),
            "set_rng_state": says(None),
            "reset_peak_memory_stats": checked(None),
        }
        if kind == "cuda":
            answers["get_device_capability"] = checked((9, 0))
        return answers

    def _on_device(self, kind: str) -> Any:
        world = self.world

        @contextlib.contextmanager
        def on_device(device: Any) -> Iterator[None]:
            index = device if isinstance(device, int) else world.device(device).index
            if index is None or index < 0:
                yield
                return
            if world.kind != kind and world.lenient:
                yield
                return
            if world.kind != kind:
                raise world.die(kind, RuntimeError)
            before, world.current = world.current, world.index_of(index)
            yield
            world.current = before

        return on_device

    def _backend(self, kind: str, **members: Any) -> types.ModuleType:
        """Add the module of a backend: its questions answer everywhere, its calls where it is there."""
        here = self.world.kind == kind
        module = self.add(
            f"torch.{kind}",
            is_available=says(here),
            device_count=says(int(here)),
            empty_cache=says(None),
            manual_seed=says(None),
            manual_seed_all=says(None),
            memory_allocated=says(1 << 20 if here else 0),
            max_memory_allocated=says(1 << 20 if here else 0),
            device=self._on_device(kind),
        )
        for name, value in self._calls(kind).items():
            setattr(module, name, value if here else functools.partial(self._raise, kind))
        module.__dict__.update(members)
        return module

    def _raise(self, kind: str, *args: Any, **options: Any) -> Any:
        if self.world.lenient:
            return None
        raise self.world.die(kind)

    def _others(self) -> None:
        world = self.world
        self._backend("xpu", is_bf16_supported=says(world.kind == "xpu"))
        if world.kind == "npu":
            self.found["torch_npu"] = FakeModule("torch_npu", world)
            self._backend("npu", is_bf16_supported=says(True))
        mps = world.kind == "mps"
        only = says(None) if mps else functools.partial(self._raise, "mps")
        self.add(
            "torch.mps",
            is_available=says(mps),
            device_count=says(int(mps)),
            synchronize=only,
            empty_cache=only,
            manual_seed=only,
            seed=only,
            current_allocated_memory=says(1 << 20) if mps else only,
            driver_allocated_memory=says(2 << 20) if mps else only,
            recommended_max_memory=says(MEMORY["mps"]) if mps else only,
            set_per_process_memory_fraction=only,
            get_rng_state=(lambda: self._made(device="cpu")) if mps else only,
            set_rng_state=only,
        )
        self.add("torch.mtia", is_available=says(False), device_count=says(0))
        self.add("torch.backends")
        self.add(
            "torch.backends.mps",
            is_available=says(mps),
            is_built=says(mps),
            is_macos_or_newer=says(True) if mps else only,
        )
        matmul = types.SimpleNamespace(allow_tf32=False)
        self.add("torch.backends.cuda", is_built=says(world.cuda_built), matmul=matmul)
        version = 91002 if world.kind == "cuda" else None
        self.add(
            "torch.backends.cudnn",
            is_available=says(world.kind == "cuda"),
            version=says(version),
            enabled=True,
            benchmark=False,
            deterministic=False,
            allow_tf32=True,
        )
        self._accelerator()

    def _accelerator(self) -> None:
        world = self.world

        def current(check_available: bool = False) -> Device | None:
            if world.kind:
                return world.device(world.kind)
            return world.device("cuda") if world.name == "nogpu" and not check_available else None

        def there(value: Callable[..., Any]) -> Callable[..., Any]:
            def function(*args: Any, **options: Any) -> Any:
                if world.kind is None:
                    raise Device.no_accelerator()
                return value(*args, **options)

            return function

        def set_index(device: Any) -> None:
            world.current = world.index_of(device)

        self.add(
            "torch.accelerator",
            is_available=lambda: world.kind is not None and not (world.kind == "cuda" and _hides_cuda()),
            device_count=lambda: 0 if world.kind == "cuda" and _hides_cuda() else world.count,
            current_accelerator=current,
            current_device_index=there(lambda: world.current),
            set_device_index=there(set_index),
            set_device_idx=there(set_index),
            synchronize=there(says(None)),
            empty_cache=there(says(None)),
            memory_allocated=there(says(1 << 20)),
            max_memory_allocated=there(says(1 << 20)),
            current_stream=there(lambda device=None: Queue()),
        )

    def _nn(self) -> None:
        make, base, tensor = self._made, self.module, self.tensor

        class Linear(base):  # type: ignore[misc, valid-type]
            def __init__(self, *args: Any, device: Any = None, **options: Any) -> None:
                super().__init__()
                self.weight = make(device=device)

            def forward(self, x: Tensor) -> Tensor:
                return x._with(self.weight)

        class Sequential(base):  # type: ignore[misc, valid-type]
            def __init__(self, *parts: Any) -> None:
                super().__init__()
                self.parts = list(parts)

            def forward(self, x: Any) -> Any:
                for part in self.parts:
                    x = part(x)
                return x

        class DataParallel(base):  # type: ignore[misc, valid-type]
            def __init__(self, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
                super().__init__()
                self.module = module
                count = self.world.count if self.world.kind == "cuda" else 0
                self.device_ids = list(range(count)) if device_ids is None else list(device_ids)
                if self.world.kind != "cuda":
                    self.device_ids = []
                if self.device_ids:
                    module.to(self.world.device("cuda", self.device_ids[0]))

            def forward(self, x: Any) -> Any:
                if self.device_ids:
                    x = x.to(self.world.device("cuda", self.device_ids[0]))
                return self.module(x)

        class Loss(base):  # type: ignore[misc, valid-type]
            def forward(self, a: Tensor, b: Tensor) -> Tensor:
                return a._with(b)

        nn = self.add(
            "torch.nn",
            Module=base,
            Linear=Linear,
            Sequential=Sequential,
            ModuleList=lambda parts=(): Sequential(*parts),
            Parameter=lambda data, requires_grad=True: data,
            ReLU=base,
            Identity=base,
            Dropout=lambda *a: base(),
            MSELoss=Loss,
            CrossEntropyLoss=Loss,
            DataParallel=DataParallel,
        )
        self.add("torch.nn.functional", relu=lambda x: x, mse_loss=lambda a, b: a._with(b))
        only = None if self.world.kind == "cuda" else functools.partial(self._raise, "cuda")
        self.add(
            "torch.nn.parallel",
            DataParallel=nn.DataParallel,
            replicate=only or (lambda module, places: [module for _ in places]),
            gather=only or (lambda found, place: found[0]),
        )
        self.add(
            "torch.nn.parallel.scatter_gather",
            scatter_kwargs=only or (lambda given, named, places: ([given for _ in places], [named for _ in places])),
        )
        assert tensor is self.tensor

    def _distributed(self) -> None:
        world = self.world
        mine = {"cuda": "nccl", "xpu": "xccl", "npu": "hccl"}

        def init(backend: str | None = None, **options: Any) -> None:
            backend = backend or mine.get(str(world.kind), "gloo")
            if backend != "gloo" and mine.get(str(world.kind)) != backend and not world.lenient:
                if backend == "nccl" and world.cuda_built:
                    error = ValueError("ProcessGroupNCCL is only supported with GPUs, no GPUs found!")
                else:
                    error = RuntimeError(f"Distributed package doesn't have {backend.upper()} built in")
                error.lacks = "cuda" if backend == "nccl" else backend
                raise error
            world.backend = backend

        def backend_now(group: Any = None) -> str:
            if world.backend is None:
                raise ValueError(
                    "Default process group has not been initialized, please make sure to call init_process_group."
                )
            return world.backend

        def collective(tensor: Tensor, *args: Any, **options: Any) -> None:
            """Take what the backend's library takes; gloo is lenient with MPS, where torch has no other."""
            takes = {"gloo": ("cpu", "cuda", "mps"), "nccl": ("cuda",), "xccl": ("xpu",), "hccl": ("npu",)}
            if tensor.device.type not in takes[backend_now()]:
                raise RuntimeError(f"No backend type associated with device type {tensor.device.type}")

        def destroy(group: Any = None) -> None:
            world.backend = None

        self.add(
            "torch.distributed",
            is_available=says(True),
            is_nccl_available=says(world.cuda_built),
            is_gloo_available=says(True),
            is_mpi_available=says(False),
            is_xccl_available=says(world.kind == "xpu"),
            is_initialized=lambda: world.backend is not None,
            init_process_group=init,
            destroy_process_group=destroy,
            get_backend=backend_now,
            get_rank=says(0),
            get_world_size=says(1),
            barrier=says(None),
            all_reduce=collective,
            broadcast=collective,
        )


class FakeMachine:
    """One world with its torch and the foreign libraries that are installed there."""

    def __init__(self, name: str) -> None:
        from six_worlds import foreign

        self.world = World(name)
        torch = Modules(self.world)
        self.modules = {**torch.found, **foreign.modules(self.world)}


@functools.cache
def machine(name: str) -> FakeMachine:
    """Return the machine of a world, which is made once."""
    return FakeMachine(name)


@contextlib.contextmanager
def no_torch() -> Iterator[None]:
    """Take the real torch out of `sys.modules`, if some test has imported it, and put it back afterwards."""
    real = {name: m for name, m in sys.modules.items() if name == "torch" or name.startswith("torch.")}
    for name in real:
        del sys.modules[name]
    try:
        yield
    finally:
        sys.modules.update(real)
