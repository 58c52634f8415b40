"""Evaluate what code outside the project does about devices: torch, the helper, Python and other libraries."""

from __future__ import annotations

import ast
import itertools
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from torchmigrate.semantic.device_expr import moves_nothing
from torchmigrate.syntax.resolver import SKIP_MARKS, last_name
from torchmigrate.torch_api.backends import types_of
from torchmigrate.torch_api.libraries import BUILT_ON_TORCH, CHOOSING, RECORDS, arguments, takes
from torchmigrate.torch_api.names import DEVICE_ARGUMENT, DTYPES, STARTS_GROUP
from torchmigrate.worlds import values
from torchmigrate.worlds.observations import (
    BOUND,
    CAST,
    CHOSEN,
    DEATH,
    DEFAULT,
    DEVICE,
    FOREIGN,
    GIVEN,
    HANDED,
    KEPT,
    LEGACY,
    MAPPED,
    REFUSAL,
    SCALER,
    SURE,
    TOLD,
    Observations,
    Place,
    device_of,
    devices,
)
from torchmigrate.worlds.program import NONE, Edits
from torchmigrate.worlds.relevance import ADDS, legacy_calls
from torchmigrate.worlds.state import Call, Dead, Died, Frame, State
from torchmigrate.worlds.truth import CALLS, CASTS, LAZY, OF_CUDA, QUIET, SCALERS, Setting, World
from torchmigrate.worlds.values import (
    NOTHING,
    OPEN,
    OPTIONS,
    OWN_TYPE,
    PLACED,
    TENSOR,
    UNKNOWN,
    Atom,
    Const,
    Device,
    Items,
    Named,
    Partial,
    Routine,
    Table,
    Type,
    Unknown,
    Value,
    const,
    join,
    mark,
    one,
)

METHOD = "torch.Tensor."  # before the name of a method of a tensor or module that is handed on without being called
MOVING = ("to", "cuda", "cpu", "to_empty")
_NO_METHODS = frozenset(types_of("accelerator")) - {"cuda", "cpu", "xpu"}  # devices that tensors have no method for
_KEEPING = ("load", "set_default_device")  # they take a device that is not there
_STREAMS = ("Stream", "current_stream", "default_stream")  # of the helper, which hands the backend the device
_MAKING = ("torch.device", "torch.accelerator.current_accelerator")  # they make a device, and use none
_DEVICE_WORDS = ("device", "map_location", "device_type")


class External(ABC):
    """Evaluate calls of what is not in the project, in one world; `seen` notes what they do."""

    def __init__(self, setting: Setting) -> None:
        self.setting, self.ask = setting, setting.ask
        self.seen = Observations()
        self.parsing: dict[str, set[str]] = {}  # by option, the files whose command line has it

    @abstractmethod
    def write(self, key: tuple[str, ...], value: Value) -> None:
        """Add a value to a global name or an attribute."""

    @abstractmethod
    def read(self, key: tuple[str, ...]) -> Value | None:
        """Return what was written under a key."""

    @abstractmethod
    def place(self, node: ast.AST, frame: Frame) -> Place:
        """Return where a node ends in the original file."""

    @abstractmethod
    def attribute(self, atom: Atom, name: str, state: State, frame: Frame) -> Value:
        """Return an attribute of one thing."""

    @abstractmethod
    def put_attribute(self, atom: Atom, name: str, value: Value) -> None:
        """Add what an attribute of one thing may be."""

    @abstractmethod
    def elements(self, value: Value) -> list[tuple[Value, Edits]]:
        """Return the elements of a container one by one."""

    @abstractmethod
    def apply(self, callee: Value, call: Call) -> Value:
        """Call each thing that an expression may be."""

    def element(self, value: Value) -> Value:
        """Return what an element of a container may be."""
        return join(*(item for item, _ in self.elements(value)))

    def call_external(self, name: str, call: Call) -> Value:
        """Return the result of calling something by its qualified name. Raises Dead where it dies."""
        home, _, last = name.rpartition(".")
        if name.partition(".")[0] in BUILT_ON_TORCH and name not in _MAKING:
            self._note_used(call)
        if name in CASTS or name in SCALERS:
            return self._cast(name, call)
        if name.startswith("accel."):
            return self._helper(last, call)
        if name in CALLS:
            return self.ask(World.call, name)
        if name.startswith(METHOD):
            return self.of_tensor(last, call)
        if home == "builtins":
            return self._builtin(last, call)
        if name in _MAKING:
            return self._device(name, call)
        if home == "torch.cuda" or name.startswith("torch.cuda."):
            return self._cuda(name, call)
        if name in OF_CUDA:
            if not self.ask(World.is_cuda):
                self.die(name, call)
            self._note(BOUND, call, join(*call.args, *call.named.values()))
        if home == "torch.accelerator" and last not in ("empty_cache",) and not self.ask(World.has_accelerator):
            self.die(name, call)
        if name in ("os.environ.get", "os.getenv", "os.environ.setdefault"):
            default = call.argument(1, const(None))
            return join(default, one(Unknown("user"))) if self.setting.gives_values() else default
        if name == "torch.distributed.get_backend":
            return self.read(("backend",)) or UNKNOWN
        if name in RECORDS and (items := values.items_given(call.args, call.named)):
            return one(values.table(items))
        if name == "torch.set_default_tensor_type":
            self._becomes_default(call)
        if name == "torch.Tensor" and call.node in legacy_calls(call.frame.file.tree):
            self._note(LEGACY, call, const(True))
        if last in SKIP_MARKS and call.args:
            return mark(last, call.args[0])
        if name == "contextlib.nullcontext":
            return call.argument(0, const(None))
        if name == "itertools.product" and call.args and not call.named:
            rows = itertools.islice(itertools.product(*map(self.elements, call.args)), values.WIDEST + 1)
            pairs = [one(Items(tuple(item for item, _ in row))) for row in rows]
            return one(Items(tuple(pairs))) if len(pairs) <= values.WIDEST else UNKNOWN
        if name == "json.loads" and len(call.args) == 1:
            return join(*(_parsed(a).of(e) for a, e in call.args[0].atoms.items()))
        if name == "functools.partial" and call.args:
            known = call.args[0].only(a for a in call.args[0] if isinstance(a, (Routine, Type, Named)))
            for made in (a.name for a in known if isinstance(a, Named) and a.name in CASTS):
                self._cast(made, replace(call, args=call.args[1:]))
            return one(Partial(known, tuple(call.args[1:]), tuple(call.named.items()))) if known else UNKNOWN
        if name in ("sys.exit", "os._exit"):
            self._end(call)
        if name == STARTS_GROUP or name.endswith(".init_process_group"):
            backend = call.named.get("backend", call.argument(0, UNKNOWN))
            self.write(("backend",), backend.of(call.state.path))
            if not self.ask(World.is_cuda):
                self._refuse('"nccl"', Const("nccl", str), backend, call)
            return UNKNOWN
        return self.hand_over(name, call)

    def _note_used(self, call: Call) -> None:
        """Note the edits whose values torch gets. What is not known of depends on tests before the call as well."""
        for value in (*call.args, *call.named.values()):
            for atom, edits in value.atoms.items():
                self.seen.used.update(edits - call.state.path if isinstance(atom, Unknown) else edits)

    @abstractmethod
    def is_parameter(self, word: str) -> bool:
        """Return whether a function that was read has a parameter of this name."""

    def _hand_to_unknown(self, call: Call) -> None:
        """Note flags that say `cuda` to what is not known, where no function of the project has such a parameter."""
        for word, value in call.named.items():
            if "cuda" in word.split("_") and not self.is_parameter(word) and (given := self._deciding(value)):
                self._note(FOREIGN, call, given, f"{word}=")

    def hand_over(self, name: str, call: Call) -> Value:
        """Give values to code that is not read: a device position of torch, or a library with devices of its own."""
        if not name:
            self._hand_to_unknown(call)
        top, last = name.partition(".")[0], name.rpartition(".")[2]
        torchy = top in BUILT_ON_TORCH
        if not torchy and top and top not in sys.stdlib_module_names and top != "builtins" and not self._is_quiet(name):
            given = join(*(self._deciding(v) for v in (*call.args, *call.named.values())))
            counts = (call.named[word] for word in arguments(top) if word in call.named)  # of devices: `gpu=count`
            counted = (value.only(a for a in value if isinstance(a, Const) and a.type is int) for value in counts)
            if top in CHOOSING and "device" not in call.named:
                self._note(FOREIGN, call, const("a model"), f"{name}()")
                return UNKNOWN
            self._note(FOREIGN, call, join(given, *counted), name)
            made = name.partition("()")[0]  # whose `.to(device)` the library hears of, too
            return UNKNOWN if takes(name) is None else one(Named(f"{made}()"))
        if self._is_quiet(name):
            self._say(call)
            return UNKNOWN
        for word, kind in arguments(name).items() if torchy else ():
            if word in call.named:
                self._tell(f"{top}.{word}", kind, call.named[word], call)
        found = [v for word, v in call.named.items() if word in _DEVICE_WORDS]
        if (at := DEVICE_ARGUMENT.get(name)) is not None and at < len(call.args):
            found.append(call.args[at])
        if (
            last == "load"
            and torchy
            and (saved := call.named.get("map_location", NOTHING).only([Const(None, type(None))]))
        ):
            found.append(one(Unknown(), saved.edits))  # where it was when it was saved
        if name == "torch.load" and found:
            self._note(MAPPED, call, NOTHING)
        if (
            name == "torch.load"
            and "map_location" not in call.named
            and len(call.args) == 1
            and not self.ask(World.is_cuda)
        ):
            self._note(KEPT, call, one(Device("cuda")), "a file that may have been saved on CUDA")
        if found:
            self.position(join(*found), call, moves=torchy and last not in _KEEPING)
        return TENSOR if torchy else UNKNOWN

    def _tell(self, name: str, kind: str, value: Value, call: Call) -> None:
        """Note what a library that is built on torch, and does not know the device here, is told of devices."""
        if not self.ask(World.is_none_of, frozenset(takes(name) or ())):
            return
        told: dict[Atom, frozenset[int]] = {}
        for atom, edits in value.atoms.items():
            device = device_of(atom)
            is_named = kind not in ("number", "precision")
            if isinstance(atom, Const) and (
                device is not None or atom.value in ("gpu", "auto") if is_named else device is None
            ):
                is_gpu = kind == "name" and (atom.value == "gpu" or (device is not None and device.type != "cpu"))
                known = Const("gpu", str) if is_gpu else atom  # each of them dies here
                told[known] = told.get(known, NONE) | edits
        if told:
            self._note(FOREIGN, call, Value(told), name)

    def keeps(self, call: Call) -> None:
        """Note a device of CUDA that is handed to something that is not read, where there is no CUDA."""
        if not self.ask(World.is_cuda):
            kept = devices(join(*call.args, *call.named.values()))
            kept = kept.only(a for a in kept if isinstance(a, Device) and a.type == "cuda")
            if kept:
                self._note(KEPT, call, kept)

    def hands(self, call: Call) -> None:
        """Note the devices that are handed to code of the project, or to something unknown."""
        if not self.ask(World.is_cuda):
            values_given = [*call.args, *call.named.values()]
            items = (a for v in values_given for a in v if isinstance(a, Items))
            given = devices(join(*values_given, *(item for a in items for item in a.items)))
            if given:
                self._note(HANDED, call, given, last_name(call.node.func))

    def _say(self, call: Call) -> None:
        """Note the devices that are printed or logged where there is no CUDA."""
        told = join(*(value.only(a for a in value if isinstance(a, Device)) for value in call.args))
        if told and not self.ask(World.is_cuda):
            self._note(TOLD, call, told)

    def _is_quiet(self, name: str) -> bool:
        parts = name.split(".")
        return parts[0] in QUIET or parts[-1] in QUIET

    def _deciding(self, value: Value) -> Value:
        """Return the part of a value that tells a device, speaks of one or answers a question."""
        found: dict[Atom, frozenset[int]] = {}
        for atom, edits in value.atoms.items():
            is_answer = isinstance(atom, Const) and (atom.type is bool or _speaks_of_device(atom.value))
            is_open = edits and atom in OPEN  # it may take the place of a device
            if is_answer or is_open or device_of(atom) is not None:
                found[atom] = edits
            elif isinstance(atom, Items):
                for item in atom.items:
                    found |= self._deciding(item.of(edits)).atoms
        return Value(found)

    def position(self, value: Value, call: Call, moves: bool) -> None:
        """Note the devices at a device position. Raises Dead if it moves to CUDA where there is none."""
        there = devices(value)
        unknown: dict[Atom, Edits] = {a: e for a, e in value.atoms.items() if isinstance(a, Unknown)}
        if not there.atoms:
            if unknown:
                self._note(DEVICE, call, Value(unknown))
            return
        noted = join(there, Value(unknown))
        self._note(DEVICE, call, noted)
        given = devices(value.only(atom for atom in value if not values.is_supposed(atom)))
        if len(given) < len(there):
            self._note(SURE, call, given)
        if moves and all(isinstance(a, Device) and a.type == "cuda" for a in noted) and not self.ask(World.is_cuda):
            self.die('"cuda"', call, noted)

    def _note(self, kind: str, call: Call, value: Value, words: str = "") -> None:
        place = self.place(call.node, call.frame)
        self.seen.add(kind, place, value, call.state.path, words, call.state.doubts)

    def note_chosen(self, node: ast.AST, asked: Value, edits: Edits, at: Call | tuple[State, Frame]) -> None:
        """Note a device that a rewritten test asks about, where the project chose this accelerator without an edit."""
        state, frame = (at.state, at.frame) if isinstance(at, Call) else at
        here = self.ask(World.kind_or, "")
        known = [a for a, e in asked.atoms.items() if not e and (d := device_of(a)) is not None and d.type == here]
        is_sure = not all(map(values.is_supposed, known))
        if edits and known and here != "cuda":
            own = one(Device(here), edits)
            self.seen.add(CHOSEN, self.place(node, frame), own, state.path, "" if is_sure else "supposed")

    def die(self, what: str, call: Call, value: Value = NOTHING) -> NoReturn:
        self._note(DEATH, call, value or const(what), what)
        raise Died(self.place(call.node, call.frame))

    def _refuse(self, what: str, lost: Atom, given: Value, call: Call) -> None:
        """Note that a call dies of one thing that it is given. Raises Dead if it is given nothing else."""
        if lost in given and len(given) == 1:
            self.die(what, call, given)
        elif lost in given:
            self.seen.add(DEATH, self.place(call.node, call.frame), given.only([lost]), call.state.path, what)

    def _end(self, call: Call) -> NoReturn:
        self._note(REFUSAL, call, const(True), ast.unparse(call.node))
        raise Dead

    def _cuda(self, name: str, call: Call) -> Value:
        words = name.split(".")
        if (words[2] not in LAZY or words[-1].endswith("Tensor")) and not self.ask(World.is_cuda):
            self.die(name, call)
        twin = f"accel.{words[-1]}"  # on CUDA the helper's function is torch.cuda's own
        return self.ask(World.call, twin) if twin in CALLS and self.ask(World.is_cuda) else UNKNOWN

    def _device(self, name: str, call: Call) -> Value:
        if name != "torch.device":
            if kind := self.ask(World.kind_or, ""):
                return one(Device(kind))
            checks = bool(call.args or call.named)
            return one(Device("cuda")) if not checks and self.ask(World.is_build_alone) else const(None)
        given = call.args[0] if call.args else call.named.get("type", UNKNOWN)
        index = call.args[1] if len(call.args) > 1 else call.named.get("index")
        found: list[Value] = []
        for atom, edits in given.atoms.items():
            device = device_of(atom)
            if device is None and isinstance(atom, Const) and atom.type is int:
                device = Device(self.ask(World.kind_or, "cuda"), atom.value)
            if device is not None and index is not None:
                numbers = [a.value for a in index if isinstance(a, Const) and a.type is int]
                device = Device(device.type, numbers[0] if len(numbers) == 1 else 0)
                edits |= index.edits
            lost = atom if isinstance(atom, Unknown) and atom.of in ("placed", "tensor") else Unknown()
            found.append(one(device if device is not None else lost, edits))
        made = join(*found)
        if not OPTIONS.isdisjoint(given):
            self._note(GIVEN, call, made)
        if not call.frame.file.is_inserted(call.node):  # `device == accel.device() != torch.device("cpu")` uses none
            self.position(made, call, moves=False)
        self.seen.made.add(self.place(call.node, call.frame))
        return made

    def _becomes_default(self, call: Call) -> None:
        """Note a tensor type of CUDA that becomes the default. Raises Dead where there is no CUDA."""
        texts = (a.value for a in call.argument(0, NOTHING) if isinstance(a, Const) and isinstance(a.value, str))
        if any(text.startswith("torch.cuda.") for text in texts):
            made = one(Device("cuda"))
            self._note(DEFAULT, call, made)
            self.position(made, call, moves=True)

    def _cast(self, name: str, call: Call) -> Value:
        """Note for which devices mixed precision may be enabled. Where they are not there torch only warns.

        A scaler is no more on the CPU than where it is off: it changes nothing there.
        """
        if name.startswith("accel."):
            given = one(Device(self.ask(World.kind_or, "cuda"))).of(call.frame.file.edits_of(call.node.func))
        elif name.startswith("torch.cuda.") or (name in SCALERS and "device" not in call.named):
            given = one(Device("cuda"))
        else:
            given = call.named.get("device_type", call.named.get("device", call.argument(0, NOTHING)))
        enabled = call.named.get("enabled", call.argument(CASTS[name], const(True)) if name in CASTS else const(True))
        is_off = enabled.only([Const(False, bool)]) == enabled
        made = NOTHING if is_off else devices(given)
        is_scaler = name in SCALERS or name.endswith(("GradScaler", "grad_scaler"))
        words = SCALER if is_scaler else ""
        self._note(CAST, call, made.only(a for a in made if not is_scaler or a != Device("cpu")), words)
        return UNKNOWN

    def _helper(self, name: str, call: Call) -> Value:
        if (full := f"accel.{name}") in CALLS:
            answer = self.ask(World.call, full)
            if len(answer.atoms) > 1:
                self.seen.numbers |= call.frame.file.edits_of(call.node.func)
            return answer
        if name == "device" or (name == "map_location" and call.args):
            return self._helper_device(call)
        if name == "map_location" and not call.named:
            return const(None) if self.ask(World.is_cuda) else one(Device(self.ask(World.kind_or, "cpu")))
        if name == "set_default_tensor_type":
            made = one(Device(self.ask(World.kind_or, "cpu"))).of(call.frame.file.edits_of(call.node.func))
            self._note(DEFAULT, call, made)
            self.position(made, call, moves=False)
        if name == "is_accelerated":
            self.note_chosen(call.node, call.argument(0, UNKNOWN), call.frame.file.edits_of(call.node.func), call)
            return join(*(self._accelerated(a).of(e) for a, e in call.argument(0, UNKNOWN).atoms.items()))
        if name == "cast":
            made = one(Device(self.ask(World.kind_or, "cpu"))).of(call.frame.file.edits_of(call.node.func))
            self.position(made, call, moves=False)
            return TENSOR
        if name == "dist_backend":
            wanted = call.argument(0, const("nccl"))
            own = self.ask(World.backend)
            return join(*(const(own, e) if a == Const("nccl", str) else one(a, e) for a, e in wanted.atoms.items()))
        if name in _STREAMS and self.ask(World.kind_or, "cuda") != "cuda":
            device = call.named.get("device", call.argument(0, NOTHING))
            if _is_cpu(device):
                self.die("a stream of the CPU", call, device)
        if name == "get_device_capability" and not self.ask(World.is_cuda):
            return one(Items((const(0), const(0))))
        if name == "tensor_type" and self.ask(World.kind_or, "cuda") != "cuda":
            return one(OWN_TYPE)
        return TENSOR if name in ("data_parallel", "convert_sync_batchnorm") else UNKNOWN

    def _helper_device(self, call: Call) -> Value:
        kind = self.ask(World.kind_or, "cpu")
        found: list[Value] = []
        for atom, edits in call.argument(0, const(None)).atoms.items():
            device = device_of(atom)
            if device is not None and device.type != "cuda":
                found.append(one(device, edits))
            elif isinstance(atom, Unknown) and atom.of not in ("", "number", "index"):
                # what a user says may be the CPU; else it is an index
                found.append(one(PLACED, edits))
            else:
                index = device.index if device is not None else atom.value if isinstance(atom, Const) else 0
                found.append(one(_placed(kind, index), edits))
        made = join(*found).of(call.frame.file.edits_of(call.node.func))
        self.position(made, call, moves=False)
        return made

    def _accelerated(self, atom: Atom) -> Value:
        kind = self.ask(World.kind_or, "")
        if not kind:
            return const(False)
        device = device_of(atom)
        if device is not None:
            return const(device.type in (kind, "cuda"))
        if isinstance(atom, Unknown) and atom.of != "other":
            return join(const(True), const(False))
        return const(False)

    # Python

    def _builtin(self, name: str, call: Call) -> Value:
        first = call.argument(0, NOTHING)
        match name:
            case "str" | "bool" | "int" if len(call.args) == 1:
                if name == "str" and values.PLACED in first and call.frame.file.is_inserted(call.node):
                    return one(self._text_of_any()).of(first.edits)  # it stands for `"cuda:" + str(i)`
                return join(*(self._converted(name, a).of(e) for a, e in first.atoms.items()))
            case "list" | "tuple" | "sorted" | "set" | "reversed" | "frozenset" if call.args:
                return Value({a if isinstance(a, Items) else Unknown(): e for a, e in first.atoms.items()})
            case "range" if call.args:
                return self._range(call.args)
            case "len" if call.args:
                return join(
                    *(
                        const(len(a.items), e) if isinstance(a, (Items, Table)) else UNKNOWN
                        for a, e in first.atoms.items()
                    )
                )
            case "vars" if not values.MAYBE_PARSED.isdisjoint(first):
                return one(values.BY_NAME)
            case "hasattr" if len(call.args) > 1:
                return self._has(first, call.args[1])
            case "getattr" if len(call.args) > 1:
                return self._get(call)
            case "setattr" if len(call.args) > 2:
                for word in (a.value for a in call.args[1] if isinstance(a, Const) and isinstance(a.value, str)):
                    for atom in first:
                        self.put_attribute(atom, word, call.args[2].of(call.state.path))
                return const(None)
            case "any" | "all" if call.args:
                return self._any(first, settles=name == "any")
            case "dict":
                return one(values.table(call.named))
            case "print":
                self._say(call)
            case "isinstance" | "issubclass":
                return self._is_instance(first, call.argument(1, UNKNOWN))
            case "exit" | "quit":
                self._end(call)
            case "map" | "filter" if len(call.args) > 1:
                given = (replace(call, args=[item], named={}) for item, _ in self.elements(call.args[1]))
                items = [self.apply(first, each) for each in given]
                return one(Items(tuple(items))) if name == "map" and len(items) <= values.WIDEST else UNKNOWN
            case "next" | "iter" | "max" | "min" if len(call.args) == 1:
                return first if name == "iter" else self.element(first) or UNKNOWN
            case "max" | "min" if not call.named:
                return self._extreme(max if name == "max" else min, call.args)
            case "enumerate" if call.args:
                return one(Items(tuple(one(Items((UNKNOWN, item))) for item, _ in self.elements(first))))
            case "property" | "staticmethod" | "classmethod" if call.args:
                return first
        return UNKNOWN

    def _extreme(self, choose: Callable[..., int], args: Sequence[Value]) -> Value:
        """Return the largest or smallest of some numbers, for each way in which all are known."""
        ways: list[tuple[tuple[int, ...], Edits]] = [((), NONE)]
        for value in args:
            known = [(a.value, e) for a, e in value.atoms.items() if isinstance(a, Const) and a.type is int]
            if len(known) < len(value) or not known:
                return UNKNOWN
            ways = [((*given, number), e | own) for given, e in ways for number, own in known][: values.WIDEST]
        return join(*(const(choose(numbers), edits) for numbers, edits in ways))

    def _range(self, args: Sequence[Value]) -> Value:
        """Return the numbers of a range, for each way in which its bounds are known; else it is unknown."""
        ways: list[tuple[tuple[int, ...], Edits]] = [((), NONE)]
        for value in args:
            known = [(a.value, e) for a, e in value.atoms.items() if isinstance(a, Const) and a.type is int]
            if len(known) < len(value) or not known:
                return UNKNOWN.of(value.edits)
            ways = [((*given, number), e | own) for given, e in ways for number, own in known]
        found: list[Value] = []
        for bounds, edits in ways[: values.WIDEST]:
            numbers = range(*bounds) if len(bounds) < 3 or bounds[2] else range(0)
            whole = one(Items(tuple(const(n) for n in numbers)), edits) if len(numbers) <= values.WIDEST else UNKNOWN
            found.append(whole.of(edits))
        return join(*found)

    def _converted(self, name: str, atom: Atom) -> Value:
        if name == "bool":
            answer = values.truth(atom)
            return join(const(True), const(False)) if answer is None else const(answer)
        if name == "str":
            text = values.joined_text([atom]) if isinstance(atom, (Const, Device)) else atom
            return one(text) if isinstance(text, (Const, Unknown)) else UNKNOWN
        if isinstance(atom, Const) and values.is_short(atom.value):
            try:
                return const(int(atom.value))
            except (TypeError, ValueError, ArithmeticError):
                return NOTHING
        return UNKNOWN

    def _text_of_any(self) -> Atom:
        """Return the text of the helper's device for an index that is not followed: with 0, as `"cuda:" + str(i)` has.

        Values for such indices are compared with each other alone.
        """
        return Const(values.device_text(_placed(self.ask(World.kind_or, "cpu"), 0)), str)

    def _has(self, owner: Value, words: Value) -> Value:
        found: list[Value] = []
        for atom, edits in owner.atoms.items():
            for word, own in words.atoms.items():
                if isinstance(atom, Named) and atom.name == "torch" and isinstance(word, Const):
                    answer = self.ask(World.has_module, str(word.value))
                    found.append(const(answer is not False, edits | own))
                else:
                    found.append(Value({Const(b, bool): edits | own for b in (True, False)}))
        return join(*found)

    def _get(self, call: Call) -> Value:
        owner, words, default = call.args[0], call.args[1], call.argument(2, NOTHING)
        found: list[Value] = []
        lost = False
        for atom, edits in owner.atoms.items():
            for word, own in words.atoms.items():
                if isinstance(word, Const) and isinstance(word.value, str):
                    is_torch = isinstance(atom, Named) and atom.name == "torch"
                    if is_torch and self.ask(World.has_module, word.value) is False:
                        found.append(default)
                        continue
                    if isinstance(atom, Unknown) and word.value in _NO_METHODS and not default:
                        self._note(DEATH, call, one(word, edits | own), f"a method called {word.value}")
                        lost = True
                        continue
                    value = self.attribute(atom, word.value, call.state, call.frame)
                    if word.value in MOVING and not default and isinstance(atom, Unknown):
                        method = one(Named(f"{METHOD}{word.value}"))  # or an option of this name, where one is set
                        value = method if value == UNKNOWN else join(value, method)
                    found.append(value.of(edits | own))
                    if isinstance(atom, Unknown):
                        found.append(default)
                else:
                    found.append(UNKNOWN)
        if lost and not any(found):
            raise Dead
        return join(*found)

    def _any(self, value: Value, settles: bool) -> Value:
        """Return the answer of `any` or `all`; an item that is surely `settles` is enough in a list that is known."""
        whole = next(iter(value)) if len(value) == 1 else None
        for item in whole.items if isinstance(whole, Items) else ():
            if item.atoms and all(values.truth(atom) is settles for atom in item):
                return const(settles, value.edits | item.edits)
        answers: dict[bool | None, frozenset[int]] = {}
        for item, _ in self.elements(value):
            for atom, edits in item.atoms.items():
                answer = values.truth(atom)
                answers[answer] = answers.get(answer, NONE) | edits
        every = frozenset().union(*answers.values()) if answers else NONE
        if len(answers) == 1 and None not in answers:
            return const(next(iter(answers)), every)
        return join(const(True, every), const(False, every))

    def _is_instance(self, value: Value, kinds: Value) -> Value:
        listed = (b for a in kinds if isinstance(a, Items) for v in a.items for b in v)
        atoms = [atom for atom in (*kinds, *listed) if isinstance(atom, Named)]
        named = [atom.name for atom in atoms]
        if atoms and all(map(values.is_type_of_cuda, atoms)) and not self.ask(World.is_cuda):
            return const(False)  # no tensor is there
        found: list[Value] = []
        for atom, edits in value.atoms.items():
            if isinstance(atom, Const) and named:
                found.append(const(any(n == f"builtins.{k.__name__}" for n in named for k in atom.type.__mro__), edits))
            elif isinstance(atom, Device) and named:
                found.append(const("torch.device" in named, edits))
            else:
                found.append(Value({Const(b, bool): edits for b in (True, False)}))
        return join(*found)

    def of_text(self, text: str, name: str, args: Sequence[Value], named: Mapping[str, Value]) -> Value:
        """Return the result of a method of a text, computed if all arguments are known."""
        if name not in _TEXT_METHODS:
            return UNKNOWN
        ways: list[tuple[tuple[Atom, ...], frozenset[int]]] = [((), NONE)]
        for value in args:
            ways = [((*given, atom), e | own) for given, e in ways for atom, own in value.atoms.items()][:64]
        found: list[Value] = []
        for given, edits in ways:
            found.append(self._text_method(text, name, given, named).of(edits))
        return join(*found)

    def _text_method(self, text: str, name: str, given: tuple[Atom, ...], named: Mapping[str, Value]) -> Value:
        plain: list[object] = []
        if name == "format" and not named and len(parts := text.split("{}")) == len(given) + 1:
            return one(values.filled(parts, given))
        for atom in given:
            match atom:
                case Const(value):
                    plain.append(value)
                case Device():
                    plain.append(values.device_text(atom))
                case Items(items) if name in ("startswith", "endswith", "join"):
                    texts = [a.value for v in items for a in v if isinstance(a, Const)]
                    plain.append(tuple(texts))
                case _:
                    if name == "format":
                        cut = text.partition("{")[0]
                        kind = cut.rstrip(":")
                        return const(f"{kind}:0") if cut == f"{kind}:" and kind.isidentifier() else UNKNOWN
                    return UNKNOWN
        texts = [text, *(each for given in plain for each in (given if isinstance(given, tuple) else [given]))]
        if named or not all(map(values.is_short, texts)) or (name == "format" and values.pads(text)):
            return UNKNOWN
        try:
            result = getattr(text, name)(*plain)
        except (TypeError, ValueError, LookupError, ArithmeticError):
            return UNKNOWN
        if isinstance(result, (list, tuple)):
            return one(Items(tuple(const(part) for part in result)))
        return one(values.computed(result))

    # torch's objects

    def of_tensor(self, name: str, call: Call) -> Value:
        """Return the result of a method of a tensor, a module or something unknown."""
        if name in MOVING:
            self._note_used(call)
        if name in ("to", "cuda", "to_empty"):
            if moves_nothing(call.node):
                return TENSOR
            given = join(*call.args[:1], *(v for word, v in call.named.items() if word == "device"))
            if name == "cuda":  # where a flag and its device are joined, the CPU may be among what it is given
                of_cpu = given.only(a for a in given if isinstance(a, Device) and a.type == "cpu")
                given = join(one(Device("cuda")), of_cpu) if self.ask(World.is_cuda) else one(Device("cuda"))
            self.position(given, call, moves=True)
            return TENSOR
        if name in ADDS:
            self.keeps(call)
        if name == "type":
            kind = call.argument(0, NOTHING)
            self._refuse("`.type` of a type that torch lacks", OWN_TYPE, kind, call)
            if made := join(*(one(device, edits) for a, edits in kind.atoms.items() if (device := _device_of_type(a)))):
                self.position(made, call, moves=True)
        if name in ("type", "cpu"):
            return TENSOR if name == "type" or not call.args else UNKNOWN
        if name == "add_argument":
            self._option(call.args, call.named, call.frame.file.path)
            return UNKNOWN
        if "device" in call.named:
            self.position(call.named["device"], call, moves=name.startswith("new_"))
        if name in ("parse_args", "parse_known_args"):
            options = one(Unknown("options"))
            return one(Items((options, UNKNOWN))) if name == "parse_known_args" else options
        return UNKNOWN

    def _option(self, args: Sequence[Value], named: Mapping[str, Value], path: str) -> None:
        """Note what a command-line option of a file may be: its default, or what a user says."""
        words = [a.value for v in args for a in v if isinstance(a, Const) and isinstance(a.value, str)]
        long = [w for w in words if w.startswith("--")] or words
        name = [a.value for a in named.get("dest", NOTHING) if isinstance(a, Const)] or [
            w.lstrip("-").replace("-", "_") for w in long[:1]
        ]
        if not name:
            return
        action = {a.value for a in named.get("action", NOTHING) if isinstance(a, Const)}
        if action & {"store_true", "store_false"}:
            value = join(const(True), const(False)) if self.setting.gives_flags() else const("store_false" in action)
        elif "default" in named and not self.setting.gives_values():
            value = named["default"]
        else:
            is_number = named.get("type") == one(Named("builtins.int"))
            value = join(named.get("default", const(None)), one(Unknown("number" if is_number else "user")))
        self.seen.has_new_defaults |= bool(named.get("default", NOTHING).edits)
        self.write(("option", str(name[0])), value)
        self.parsing.setdefault(str(name[0]), set()).add(path)


def _device_of_type(atom: Atom) -> Device | None:
    """Return the device of a tensor type, by its name or as text: `torch.cuda.FloatTensor`; None for all else."""
    name = atom.name if isinstance(atom, Named) else atom.value if isinstance(atom, Const) else ""
    home, _, last = name.rpartition(".") if isinstance(name, str) else ("", "", "")
    if home not in ("torch", "torch.cuda") or last.removesuffix("Tensor") not in DTYPES:
        return None
    return Device("cuda" if home == "torch.cuda" else "cpu")


def _is_cpu(value: Value) -> bool:
    """Return whether a value is the CPU whatever comes."""
    return bool(value) and all((device := device_of(atom)) is not None and device.type == "cpu" for atom in value)


def _parsed(atom: Atom) -> Value:
    """Return the data that a JSON text has, or UNKNOWN for a text that is not known."""
    if not isinstance(atom, Const) or not isinstance(atom.value, str):
        return UNKNOWN
    try:
        return values.data(json.loads(atom.value))
    except (ValueError, RecursionError):
        return UNKNOWN


def _speaks_of_device(value: object) -> bool:
    """Return whether a text, such as the name of a provider, has CUDA, a GPU or the CPU in it."""
    return isinstance(value, str) and any(word in value.lower() for word in ("cuda", "gpu", "cpu", "nvidia"))


def _placed(kind: str, index: object) -> Device:
    """Return the device that the helper gives for an index."""
    number = int(str(index)) if values.is_index(index) else None
    if kind == "cpu" or number is None:
        return Device(kind)
    return Device(kind, 0 if kind == "mps" else number)


_TEXT_METHODS = {
    "split", "rsplit", "partition", "rpartition", "startswith", "endswith", "replace", "lower", "upper", "strip",
    "lstrip", "rstrip", "removeprefix", "removesuffix", "format", "join", "isdigit", "title", "capitalize",
    "find", "count",
}  # fmt: skip
