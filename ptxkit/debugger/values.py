"""The values of a stopped launch, by name: registers, special registers, parameters, shared memory, barriers; and bytes of memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxkit.debug_info import parameter_names
from ptxkit.frozen import frozen
from ptxkit.isa.types import types
from ptxkit.machine.asynchronous import mbarrier
from ptxkit.machine.barriers import BARRIERS
from ptxkit.machine.fault import Stop
from ptxkit.machine.memory import windows
from ptxkit.machine.plans import STACK
from ptxkit.machine.semantics.special import special_value
from ptxkit.machine.types import dtype_of, element_bytes
from ptxkit.memo import expression
from ptxkit.names import Kind, Symbol

if TYPE_CHECKING:
    from ptxkit.debugger.state import Call, State

SPECIAL = (
    "%tid.x", "%tid.y", "%tid.z", "%ntid.x", "%ntid.y", "%ntid.z", "%ctaid.x", "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y",
    "%nctaid.z", "%laneid", "%warpid", "%lanemask_eq", "%lanemask_lt", "%smid", "%dynamic_smem_size", "%total_smem_size",
)  # fmt: skip
CLUSTER = (
    "%clusterid.x", "%clusterid.y", "%clusterid.z", "%nclusterid.x", "%nclusterid.y", "%nclusterid.z", "%cluster_ctaid.x",
    "%cluster_ctaid.y", "%cluster_ctaid.z", "%cluster_ctarank", "%cluster_nctarank",
)  # fmt: skip
_PARTS = expression(r"\d+|\D+")
CLOCKS = ("%clock", "%globaltimer")
"""Reading these affects what the kernel reads."""
SHOWN = 8
"""Maximum number of elements on the line of a value."""


class NoValue(Exception):
    """There is nothing to show, with the reason."""


@frozen(eq=False)
class Value:
    """A named value: a scalar for all lanes, an array with one for each, or the elements of a variable."""

    name: str
    data: Any
    type: str = ""
    """As in PTX: `.f32`."""
    is_by_lane: bool = False
    address: int | None = None
    """The generic address of a value in memory."""
    text: str = ""
    """The text to show instead of the data."""
    children: tuple[Value, ...] = ()
    size: int = 0
    """Bytes at `address`."""

    @property
    def is_uniform(self) -> bool:
        return not getattr(self.data, "ndim", 0)


def shown(value: Any, type: str = "") -> str:
    """A scalar as text: floats in the shortest exact form, addresses and masks in hexadecimal as well."""
    known = types().get(type)
    if isinstance(value, np.void):
        return hex(int(value["hi"]) << 64 | int(value["lo"]))
    if isinstance(value, np.bool_ | bool):
        return "true" if value else "false"
    if isinstance(value, np.floating):
        return np.format_float_positional(value, trim="-") if 1e-5 <= abs(value) < 1e16 or value == 0 else str(value)
    if isinstance(value, np.integer | int):
        number = int(value)
        if known is not None and type == ".bf16":
            return shown(np.uint32(number << 16).view(np.float32))
        return hex(number) if number >= 1 << 40 else f"{number} ({number:#x})" if number >= 1 << 16 else str(number)
    return str(value)


def line_of(value: Value) -> str:
    """A value on one line."""
    if value.text:
        return value.text
    if value.data is None:
        return ""
    if value.is_uniform:
        return shown(value.data, value.type)
    elements = value.data.ravel()
    few = ", ".join([shown(one, value.type).partition(" (")[0] for one in elements[:SHOWN]])
    return f"[{few}{', …' if len(elements) > SHOWN else ''}]"


def _uniform(data: Any) -> Any:
    """A scalar instead of an array whose elements are all bitwise equal."""
    if not getattr(data, "ndim", 0) or not len(data):
        return data
    raw = data.view(f"u{data.dtype.itemsize}") if data.dtype.kind == "f" else data
    return data[0] if (raw == raw[0]).all() else data


def by_lane(name: str, data: Any, type: str) -> Value:
    """A per-lane value; one that is the same in all lanes is shown once."""
    return Value(name, _uniform(data), type, is_by_lane=True)


# --- registers


def registers(call: Call) -> list[Value]:
    """The registers that the current instruction can name, by name."""
    body = call.body
    scope = body.sites[call.i].scope
    found = []
    for name, symbol, numbers in body.named_registers():
        if not name or scope.lookup(name) is not symbol or any(number >= len(call.registers) for number in numbers):
            continue
        for at, number in enumerate(numbers):
            shown_name = name if len(numbers) == 1 else f"{name}.{'xyzw'[at]}"
            found.append(by_lane(shown_name, call.registers[number], _register_type(symbol, call.registers[number])))
    return sorted(found, key=lambda value: [(int(part) if part.isdecimal() else -1, part) for part in _PARTS.findall(value.name)])


def register(call: Call, name: str) -> Value | None:
    """A register by name; None if there is none."""
    return next((value for value in registers(call) if value.name == name), None)


def _register_type(symbol: Symbol, data: Any) -> str:
    """The type in which to show a register: the declared one or, if that is untyped, the one that most instructions use."""
    declared = symbol.type or ""
    if declared.startswith(".b") and declared != ".bf16":
        kind = np.asarray(data).dtype
        return {"f": ".f", "i": ".s", "u": declared[:2]}.get(kind.kind, declared[:2]) + declared[2:]
    return declared


def special(call: Call, name: str) -> Value | None:
    """A special register of the lanes; None if there is none. Raises NoValue for those that reading would change."""
    found = special_value(name)
    if found is None:
        return None
    if name.startswith(CLOCKS):
        raise NoValue(f"{name} moves on when it is read, and the kernel would read something else")
    return by_lane(name, found[0](call.lanes), f".u{found[1].itemsize * 8}" if found[1].kind == "u" else ".pred")


def specials(state: State, call: Call) -> list[Value]:
    """The special registers that identify the lanes."""
    names = (*SPECIAL, *(CLUSTER if state.launch.is_cluster else ()))
    return [value for name in names if (value := special(call, name)) is not None]


# --- parameters


def parameters(state: State, call: Call) -> list[Value]:
    """The parameters of the current function: for a kernel also with source names, for a pointer also its target."""
    if call.body is not state.program.entry:
        return [_formal(state, call, symbol) for symbol, _ in call.body.formals]
    launch = state.launch
    known = parameter_names(state.controller.text.module).get(call.body.name, ())
    found = []
    for at, (name, offset, size, symbol) in enumerate(state.program.layout()):
        raw = launch.parameters[offset : offset + size]
        own = f"{name} ({known[at]})" if at < len(known) and known[at] else name
        found.append(_parameter(state, own, symbol, raw))
    return found


def _parameter(state: State, name: str, symbol: Symbol, raw: bytes) -> Value:
    dtype = dtype_of(symbol.type or ".b64")
    if symbol.dimensions or len(raw) != dtype.itemsize:
        return Value(
            name, np.frombuffer(raw, np.uint8), ".b8", text=f"{len(raw)} bytes: {raw[:16].hex(' ')}{' …' if len(raw) > 16 else ''}"
        )
    value = np.frombuffer(raw, dtype)[0]
    allocation = state.launch.machine.memory.allocations.containing(int(value)) if len(raw) == 8 and dtype.kind in "iu" else None
    if allocation is None:
        return Value(name, value, symbol.type or "")
    return Value(
        name, value, symbol.type or "", address=int(value), size=allocation.end - int(value),
        text=f"{int(value):#x}, to {allocation.end - int(value)} bytes of global memory",
    )  # fmt: skip


def _formal(state: State, call: Call, symbol: Symbol) -> Value:
    """A parameter or result of a device function."""
    if symbol.kind is Kind.REGISTER:
        number = next(number for one, number in call.body.formals if one is symbol)
        return by_lane(symbol.name, call.registers[number], _register_type(symbol, call.registers[number]))
    try:
        return variable(state, call, symbol.name)
    except NoValue as why:
        return Value(symbol.name, None, symbol.type or "", text=str(why))


# --- variables


def variable(state: State, call: Call, name: str) -> Value:
    """A variable that the current instruction can name: its elements, for `.local` and `.param` those of each lane. Raises NoValue."""
    symbol = call.body.sites[call.i].scope.lookup(name)
    if symbol is None or symbol.kind not in (Kind.VARIABLE, Kind.PARAMETER):
        raise NoValue(f"`{name}` is nothing that can be shown here")
    space, start = address_of(state, call, symbol)
    size, type = element_bytes(symbol.type) * symbol.vector, symbol.type or ".b8"
    count = _count(state, symbol)
    if space not in (".local", ".param") or (space == ".param" and symbol.path and call.body is state.program.entry):
        raw = read(state, generic(space, int(np.ravel(start)[0])), count * size)
        return Value(name, _elements(raw, type), type, address=generic(space, int(np.ravel(start)[0])), size=len(raw))
    elements = [load(state, call, space, start + np.uint64(i * size), type) for i in range(min(count, 64))]
    if len(elements) == 1:
        return by_lane(name, elements[0], type)
    return Value(name, None, type, text=f"{count} elements", children=tuple([by_lane(f"[{i}]", x, type) for i, x in enumerate(elements)]))


def address_of(state: State, call: Call, symbol: Symbol) -> tuple[str, Any]:
    """The state space of a variable, and its address there: one for all lanes, or an array."""
    program, body = state.program, call.body
    space = symbol.space or ".param"
    number = body.formal(symbol) if symbol.kind is Kind.PARAMETER else -1
    if number >= 0:
        return ".param", call.registers[number]
    offset = program.frame_offset(body, symbol)
    if offset is not None:
        return (".local" if space == ".local" else ".param"), call.registers[STACK] + np.uint64(offset)
    address = program.address(symbol, program.codes.get(id(body)))
    if space.startswith(".shared"):
        return ".shared", np.uint64(address)
    return (".param" if space.startswith(".param") else space), np.uint64(address)


def _count(state: State, symbol: Symbol) -> int:
    """The number of elements of a variable; one without a size has the rest of shared memory."""
    if any(number is None or number == 0 for number in symbol.dimensions) or (symbol.linkage == ".extern" and symbol.space == ".shared"):
        found = [size for name, _, size in state.program.shared_variables(state.launch.shared_bytes) if name == symbol.name]
        return max(0, found[0]) // (element_bytes(symbol.type) * symbol.vector) if found else 0
    return int(np.prod([number or 1 for number in symbol.dimensions], dtype=np.int64)) * symbol.vector


def shared(state: State, call: Call) -> list[Value]:
    """The shared variables of the chosen CTA."""
    found = []
    for name, at, size in state.program.shared_variables(state.launch.shared_bytes):
        symbol = call.body.sites[call.i].scope.lookup(name) or _symbol(state, name)
        type = symbol.type if symbol is not None and symbol.type else ".b8"
        address = generic(".shared", int(at))
        raw = read(state, address, size)
        found.append(Value(name, _elements(raw, type), type, address=address, size=size, text=f"{size} bytes of {type}"))
    return found


def _symbol(state: State, name: str) -> Symbol | None:
    symbols = [symbol for body in state.program.entered for symbol in (*body.variables, *body.used.values())]
    return next((symbol for symbol in symbols if symbol.name == name), None)


def _elements(raw: bytes, type: str) -> Any:
    dtype = dtype_of(type) if type in types() and types()[type].kind != "opaque" else np.dtype(np.uint64)
    return np.frombuffer(raw[: len(raw) // dtype.itemsize * dtype.itemsize], dtype)


# --- barriers


def barriers(state: State) -> list[Value]:
    """The barriers of the chosen CTA and its cluster that have been used, and its mbarriers."""
    residents = state.residents
    cta = state.controller.cta - residents.first_cta
    found = []
    own = residents.barriers
    for number in sorted(state.controller.barriers):
        key = cta * BARRIERS + number
        arrived, awaited = int(own.arrived[key]), int(own.expected[key]) or int(residents.alive_of_cta[cta])
        text = f"{arrived} of {awaited} threads have arrived" if arrived else "no thread waits"
        found.append(Value(f"barrier {number}", None, text=text))
    if state.launch.is_cluster:
        cluster = cta // state.launch.cluster_size
        phase, arrived = int(residents.cluster_barriers.phase[cluster]), int(residents.cluster_barriers.arrived[cluster])
        found.append(Value("barrier.cluster", None, text=f"completed {phase} times, {arrived} threads have arrived"))
    found += list(_mbarriers(state, cta))
    return found


def _mbarriers(state: State, cta: int) -> Iterator[Value]:
    memory = state.residents.memory
    variables = state.program.shared_variables(state.launch.shared_bytes)
    for at in sorted(state.controller.mbarriers):
        owner, offset = memory.owner(".shared", at)
        if owner != cta:
            continue
        word = np.frombuffer(memory.shared.span(at, 8).tobytes(), np.uint64)[0]
        name = next((f"{name}[{offset - start}]" for name, start, size in variables if start <= offset < start + size), f"{offset:#x}")
        if not mbarrier.is_one(word):
            text = "no longer one"
        else:
            text = (
                f"parity {int(mbarrier.parity(word))}, {int(mbarrier.pending(word))} of {int(mbarrier.expected(word))} arrivals pending, "
                f"{int(mbarrier.transactions(word))} bytes expected"
            )
        yield Value(f"mbarrier {name}", word, ".b64", text=text, address=generic(".shared", offset), size=8)


# --- memory


def generic(space: str, address: int) -> int:
    """The generic address of an address in a state space."""
    return windows.WINDOWS.get(space, 0) + address


def read(state: State, address: int, size: int) -> bytes:
    """Bytes at a generic address; in shared memory, those of the chosen CTA (or of the CTA in its cluster that the address names).

    Fewer if the memory ends earlier; raises NoValue for an unmapped address.
    """
    memory = state.residents.memory
    window, offset = divmod(address, 1 << windows.WINDOW_BITS)
    space = windows.SPACE_OF_WINDOW[window] if window < len(windows.SPACE_OF_WINDOW) else ".global"
    if space == ".global":
        allocation = memory.allocations.containing(address)
        if allocation is None:
            raise NoValue(f"nothing is allocated at {address:#x}")
        return bytes(memory.globals.span(address, min(size, allocation.end - address)).tobytes())
    if space.startswith(".shared"):
        rank, inside = divmod(offset, 1 << windows.RANK_BITS)
        cta = state.controller.cta - state.residents.first_cta
        if state.launch.cluster_size > 1:
            cta = cta - cta % state.launch.cluster_size + rank
        first = cta * memory.shared_stride
        return _cut(memory.shared, first + inside, first + memory.shared_size, size, address)
    if space == ".const":
        return _cut(memory.constant, offset, memory.constant_size, size, address)
    if space == ".param" and offset < windows.PARAM_FRAME:
        return _cut(memory.parameters, offset, memory.parameter_size, size, address)
    raise NoValue("local memory is that of a thread: evaluate `[ADDRESS].local:TYPE` in one")


def _cut(buffer: Any, at: int, end: int, size: int, address: int) -> bytes:
    if at >= end:
        raise NoValue(f"nothing is at {address:#x}")
    return bytes(buffer.span(at, min(size, end - at)).tobytes())


def load(state: State, call: Call, space: str, address: Any, type: str) -> Any:
    """The value at an address of each lane, in a state space. Raises NoValue."""
    memory = state.residents.memory
    watch, memory.watch = memory.watch, None
    try:
        address = np.asarray(address).astype(np.uint64)[()]
        if space == ".shared" and state.launch.cluster_size > 1:
            space = ".shared::cluster"
        return memory.load(call.lanes, space, address, dtype_of(type))
    except Stop as why:
        raise NoValue(why.reason) from None
    finally:
        memory.watch = watch


def scopes(state: State) -> Sequence[str]:
    """The names of the groups of values that can be shown."""
    names = ["Registers", "Special registers", "Parameters"]
    if state.launch.shared_bytes:
        names.append("Shared memory")
    return (*names, "Barriers")


def of_scope(state: State, call: Call, name: str) -> list[Value]:
    """The values of a group."""
    if name == "Registers":
        return registers(call)
    if name == "Special registers":
        return specials(state, call)
    if name == "Parameters":
        return parameters(state, call)
    return shared(state, call) if name == "Shared memory" else barriers(state)
