"""Calls of functions, and the system functions that are provided.

Each call has registers and local memory of its own; `.param` arguments are passed by address in the caller's memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from ptxkit.frozen import define
from ptxkit.machine.blocks import BasicBlock
from ptxkit.machine.code import Body
from ptxkit.machine.fault import Stop
from ptxkit.machine.groups import Frame, Group, Lanes
from ptxkit.machine.loading import size_of
from ptxkit.machine.plans import STACK, TOP, call_parts
from ptxkit.machine.values.distinct import distinct_numbers
from ptxkit.machine.writing import Writer
from ptxkit.memo import expression
from ptxkit.names import Kind
from ptxkit.syntax import Name

if TYPE_CHECKING:
    from ptxkit.machine.interfaces import Machine, Program, Scheduler

U64 = np.dtype(np.uint64)
DEPTH = 4000


@define(eq=False)
class CallPlan:
    """A compiled call. `arguments(R, L)` gives the address of the function (None for a direct call), then the values of results and
    arguments."""

    name: str
    arguments: Callable[..., Any]
    kinds: list[str]
    """`register` or `address`, for each value."""
    results: list[int]
    """The registers that receive results; -1 for a result passed by address."""
    given: list[int] = attrs.field(factory=list)
    """For each value, the register that holds it; -1 if none does."""
    sizes: list[int] = attrs.field(factory=list)
    """Size of each value in bytes."""


def plan_of(program: Program, body: Body, block: BasicBlock) -> CallPlan:
    """The plan of the call at the end of a block."""
    site = body.sites[block.last]
    parts = call_parts(site.instruction)
    writer = Writer(program, body)
    symbol = site.scope.lookup(parts.target.text)
    name = symbol.name if symbol is not None and symbol.kind is Kind.FUNCTION else ""
    values = ["None" if name else writer.value(site, parts.target, U64)]
    kinds: list[str] = []
    results: list[int] = []
    given: list[int] = []
    sizes: list[int] = []
    for node in (*parts.results, *parts.arguments):
        is_result = len(kinds) < len(parts.results)
        numbers = body.named(site.scope, node.text) if type(node) is Name else ()
        given.append(numbers[0] if numbers else -1)
        if numbers:
            kinds.append("register")
            values.append("None" if is_result else writer.read(numbers[0], body.dtypes[numbers[0]]))
            results += [numbers[0]] if is_result else []
            sizes.append(body.dtypes[numbers[0]].itemsize)
            continue
        symbol = site.scope.lookup(node.text) if type(node) is Name else None
        sizes.append(size_of(symbol) if symbol is not None and symbol.kind is Kind.PARAMETER else U64.itemsize)
        if symbol is not None and symbol.kind is Kind.PARAMETER:
            kinds.append("address")
            values.append(writer.symbol(symbol, U64, node.text))
        elif type(node) is Name and node.text == "_":
            kinds.append("nothing")
            values.append("None")
        else:
            kinds.append("register")
            values.append(writer.value(site, node, U64))
        results += [-1] if is_result else []
    fetch = writer.finish(frozenset(), f"({', '.join(values)},)")
    return CallPlan(name, fetch, kinds, results, given, sizes)


def call(scheduler: Scheduler, group: Group, block: BasicBlock) -> None:
    """Executes a call: the group continues in the function, split if its lanes call different functions."""
    program = scheduler.program
    if block.call is None:
        block.call = plan_of(program, group.body, block)
    plan: CallPlan = block.call
    target, *values = plan.arguments(group.registers, group.lanes)
    code = program.codes[id(group.body)]
    if plan.name:
        _enter(scheduler, group, block, plan, code, plan.name, values)
        return
    if not target.ndim:
        _enter_at(scheduler, group, block, plan, code.machine, int(target), values)
        return
    for address in distinct_numbers(target):
        positions = np.flatnonzero(target == address)
        part = group.part(positions)
        mine = [x.take(positions) if getattr(x, "ndim", 0) else x for x in values]
        _enter_at(scheduler, part, block, plan, code.machine, int(address), mine)


def _enter_at(
    scheduler: Scheduler, group: Group, block: BasicBlock, plan: CallPlan, machine: Machine, address: int, values: list[Any]
) -> None:
    """Calls the function at an address, or a synthesized one if no module defines a function with this signature."""
    if scheduler.launch.stand_in is not None and not machine.has_function_at(address) and not _is_defined(machine, plan):
        _stand_in(scheduler, group, block, plan, call_parts(group.body.sites[block.last].instruction).target.text, values)
        scheduler.go(group, block.fall)
        return
    code, name = machine.function_at(address)
    _enter(scheduler, group, block, plan, code, name, values)


def _is_defined(machine: Machine, plan: CallPlan) -> bool:
    """Whether some loaded function has as many parameters and results as the call."""
    arity = (len(plan.results), len(plan.kinds) - len(plan.results))
    headers = [function.header for code in machine.codes for _, function in code.defined.values()]
    return any(not one.is_entry and (len(one.returns), len(one.parameters)) == arity for one in headers)


def _enter(scheduler: Scheduler, group: Group, block: BasicBlock, plan: CallPlan, code: Any, name: str, values: list[Any]) -> None:
    program = scheduler.program
    found = program.function(code, name)
    if found is None:
        served = SYSTEM.get(name)
        if served is not None:
            served(scheduler, group.lanes, values)
            _put_results(group, plan, [None] * len(plan.results))
        else:
            _stand_in(scheduler, group, block, plan, name, values)
        scheduler.go(group, block.fall)
        return
    code, body = found
    program.enter(code, body)
    if len(body.formals) != len(values):
        raise Stop("call", f"`{name}` takes {len(body.formals)} parameters and results, {len(values)} are given")
    frame = group.frame
    if frame is not None and frame.depth >= DEPTH:
        raise Stop("stack", f"calls are nested more than {DEPTH} deep")
    registers = list(scheduler.blank(body))
    stack = (group.registers[TOP] + np.uint64(15)) & np.uint64((1 << 64) - 16)
    registers[STACK] = stack
    registers[TOP] = stack + np.uint64(program.frames[id(body)])
    for (symbol, number), value in zip(body.formals, values, strict=True):
        if value is not None:
            have, want = value.dtype, body.dtypes[number]
            if symbol.kind is Kind.REGISTER and have != want:
                value = value.view(want) if have.itemsize == want.itemsize else value.astype(want)
            registers[number] = value
    if program.undefined is not None:
        program.undefined.enter(group.body, plan.given, body, len(plan.results), group.lanes)
    path = (*group.path, program.numbers[id(body)])
    inner = Frame(frame, path, group.body, block.fall, group.lanes, group.registers)
    inner.plan = plan
    if not body.blocks:
        scheduler.finish(Group(body, -1, group.lanes, registers, inner))
        return
    scheduler.put(Group(body, 0, group.lanes, registers, inner))


def _stand_in(scheduler: Scheduler, group: Group, block: BasicBlock, plan: CallPlan, name: str, values: list[Any]) -> None:
    """An undefined function changes nothing and returns what `launch.stand_in` makes up, if that is set."""
    stand_in = scheduler.launch.stand_in
    lanes = group.lanes
    count = len(plan.results)
    words: list[Any] = []
    for kind, value, size in zip(plan.kinds[count:], values[count:], plan.sizes[count:], strict=True):
        if kind == "register":
            words += [value] if size == U64.itemsize else []
            continue
        for at in range(0, size - 7, 8):
            parts = [np.atleast_1d(_argument(lanes, value + np.uint64(at + i), np.uint8)) for i in range(8)]
            words.append(np.stack(parts, axis=1).view(U64).ravel())
    made = stand_in(name, group.body.sites[block.last], lanes, words, plan.sizes[:count]) if stand_in is not None else None
    if made is None:
        raise Stop("extern", f"`{name}` is called, and nothing that was loaded defines it")
    found: list[Any] = []
    for kind, address, data in zip(plan.kinds[:count], values[:count], made, strict=True):
        for i, column in enumerate(data.T if kind == "address" else ()):
            lanes.store(".param", address + np.uint64(i), column)
        found.append(np.ascontiguousarray(data).view(f"u{data.shape[1]}").ravel() if kind == "register" else None)
    _put_results(group, plan, found)


def leave(scheduler: Scheduler, group: Group) -> None:
    """A group returns from a function."""
    frame = group.frame
    assert frame is not None
    registers = frame.of(group.lanes)
    back = Group(frame.body, frame.block, group.lanes, registers, frame.parent)
    plan: CallPlan = frame.plan
    formals = group.body.formals[: len(plan.results)]
    _put_results(back, plan, [group.registers[number] for _, number in formals])
    if scheduler.program.undefined is not None:
        scheduler.program.undefined.leave(group.body, back.body, plan.results, group.lanes)
    scheduler.go(back, frame.block)


def _put_results(group: Group, plan: CallPlan, values: list[Any]) -> None:
    for number, value in zip(plan.results, values, strict=True):
        if number >= 0 and value is not None:
            want = group.body.dtypes[number]
            group.registers[number] = value if value.dtype == want else value.view(want)


# --- system functions


def _argument(lanes: Lanes, address: Any, dtype: Any) -> Any:
    return lanes.load(".param", address, np.dtype(dtype))


def _vprintf(scheduler: Scheduler, lanes: Lanes, values: list[Any]) -> None:
    """`vprintf(format, arguments)`: the output is collected in `Run.output`."""
    result, form, packed = values
    formats = lanes.broadcast(_argument(lanes, form, np.uint64))
    buffers = lanes.broadcast(_argument(lanes, packed, np.uint64))
    printed = [""] * lanes.count
    for address, chosen in _by_value(formats):
        some = lanes.at(chosen)
        for i, text in zip(chosen.tolist(), _formatted(some, _string(some, address), buffers[chosen]), strict=True):
            printed[i] = text
    scheduler.launch.output += printed
    lanes.store(".param", result, np.uint32(1))


def _by_value(values: Any) -> Iterator[tuple[int, Any]]:
    """Each distinct value, and the positions at which it occurs."""
    for value in dict.fromkeys(values.tolist()):
        yield value, np.flatnonzero(values == value)


MOST_CHARACTERS = 1 << 16
"""Maximum length of a string in bytes."""


def _string(lanes: Lanes, address: int) -> str:
    """The string at an address, read on behalf of all lanes."""
    memory, where = lanes.memory, np.uint64(address)
    ((buffer, at, _),) = memory.locate(lanes, ".generic", where, 1, "read", watched=False)
    start = int(np.ravel(at)[0])
    held = buffer.data[start - buffer.origin :][:MOST_CHARACTERS]
    ends = np.flatnonzero(held == 0)
    size = int(ends[0]) + 1 if len(ends) else len(held)
    memory.locate(lanes, ".generic", where, size, "read", align=1)
    return bytes(held[:size]).partition(b"\0")[0].decode("utf-8", "replace")


_CONVERSION = expression(r"%([-+ #0]*)(\d+|\*)?(?:\.(\d+|\*))?(hh|h|ll|l|z|j|t|L)?([diouxXeEfFgGaAcsp%])")


def _formatted(lanes: Lanes, text: str, at: Any) -> list[str]:
    """The output of each lane: the format applied to the arguments at the lane's own address."""

    def load(dtype: str) -> list[Any]:
        nonlocal at
        kind = np.dtype(dtype)
        size = np.uint64(kind.itemsize)
        at = (at + size - np.uint64(1)) // size * size
        found = lanes.broadcast(lanes.load(".generic", at, kind)).tolist()
        at = at + size
        return found  # type: ignore[no-any-return]

    def strings(addresses: list[int]) -> list[str]:
        texts = [""] * lanes.count
        for address, chosen in _by_value(np.array(addresses, np.uint64)):
            read = _string(lanes.at(chosen), address)
            for i in chosen.tolist():
                texts[i] = read
        return texts

    def each(match: re.Match[str]) -> list[str]:
        flags, width, precision, length, kind = match.groups()
        if kind == "%":
            return ["%"] * lanes.count
        widths = load("i4") if width == "*" else [width or ""] * lanes.count
        precisions = load("i4") if precision == "*" else [precision] * lanes.count
        shapes = [
            f"%{flags}{width}" + (f".{precision}" if precision is not None else "")
            for width, precision in zip(widths, precisions, strict=True)
        ]
        if kind in "aA":
            return [value.hex() for value in load("f8")]
        if kind == "s":
            values: list[Any] = strings(load("u8"))
        elif kind == "c":
            values = [chr(value & 0xFF) for value in load("u4")]
        elif kind == "p":
            kind, values = "s", [f"{value:#x}" for value in load("u8")]
        elif kind in "eEfFgG":
            values = load("f8")
        else:
            values = load(("i" if kind in "di" else "u") + ("8" if length in ("l", "ll", "z", "j", "t") else "4"))
            kind = "d" if kind in "diu" else kind
        return [(shape + kind) % value for shape, value in zip(shapes, values, strict=True)]

    found = [""] * lanes.count
    end = 0
    for match in _CONVERSION.finditer(text):
        before, end = text[end : match.start()], match.end()
        found = [one + before + value for one, value in zip(found, each(match), strict=True)]
    return [one + text[end:] for one in found]


def _assertfail(scheduler: Scheduler, lanes: Lanes, values: list[Any]) -> None:
    """`__assertfail(message, file, line, function, size)` ends the launch."""
    message, file, line, function, *_ = values
    first = lanes.at(np.array([0]))
    texts = [_string(first, int(np.ravel(_argument(first, _first(x), np.uint64))[0])) for x in (message, file, function)]
    number = int(np.ravel(_argument(first, _first(line), np.uint32))[0])
    raise Stop("assert", f"assertion `{texts[0]}` failed in `{texts[2]}`, {texts[1]}:{number}")


def _first(x: Any) -> Any:
    return x[:1] if getattr(x, "ndim", 0) else x


def _malloc(scheduler: Scheduler, lanes: Lanes, values: list[Any]) -> None:
    """`malloc(size)`: allocates global memory, or returns 0 if there is not enough."""
    result, size = values
    sizes = lanes.broadcast(_argument(lanes, size, np.uint64))
    machine = scheduler.launch.machine
    found = [machine.heap(int(one)) for one in sizes]
    lanes.store(".param", result, np.array(found, np.uint64))


def _free(scheduler: Scheduler, lanes: Lanes, values: list[Any]) -> None:
    """`free(pointer)`."""
    addresses = lanes.broadcast(_argument(lanes, values[0], np.uint64))
    for address in addresses:
        if address and not scheduler.launch.machine.free_heap(int(address)):
            lanes.fault(addresses == address, f"free of {int(address):#x}, which malloc has not returned")


def _set_conditional(scheduler: Scheduler, lanes: Lanes, values: list[Any]) -> None:
    """`cudaGraphSetConditional(handle, value)`: sets the value of a conditional graph node. If several threads call it, the last one
    wins."""
    handle, value = (lanes.broadcast(_argument(lanes, one, kind)) for one, kind in zip(values, (np.uint64, np.uint32), strict=True))
    scheduler.launch.machine.conditions[int(handle[-1])] = int(value[-1])


SYSTEM: dict[str, Callable[[Any, Lanes, list[Any]], None]] = {
    "vprintf": _vprintf,
    "__assertfail": _assertfail,
    "malloc": _malloc,
    "free": _free,
    "cudaGraphSetConditional": _set_conditional,
}
"""System functions that a program may call without defining them."""
