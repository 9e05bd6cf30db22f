"""Kernels that write down what their registers hold, and what `ptxkit.analyses.values` says of the same registers.

Behind every instruction (of those picked) stands code that keeps, for its thread, what the instruction wrote: how often it ran, the last
value, the bits that were ever one, and the bits that were ever zero. It goes to a buffer that the kernel takes as one more argument, a row
of slots for each thread. The first slots hold the addresses of variables, which only the driver knows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import attrs
from plan import LARGE, Fixture

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.analyses.numbers.known_bits import top
from ptxkit.analyses.registers.registers import CARRY, Register, registers
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.symbolic.evaluate import number_of
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import Values, values
from ptxkit.names import Kind, Symbol
from ptxkit.rewriters import AddParameter, After, AtEntry, Declare, Site, apply, fresh
from ptxkit.rewriters.engine.parameters import layout
from ptxkit.rewriters.extract import extract
from ptxkit.syntax import Module, Name, Opcode, parse

SLOT = 32
"""Bytes of a slot: four 64-bit words."""
MOST_SLOTS = 240
WIDTHS = (1, 8, 16, 32, 64)

FLOATS = {".f16", ".f16x2", ".bf16", ".bf16x2", ".f32", ".f32x2", ".f64"}
ROUNDINGS = {".rn", ".rz", ".rm", ".rp"}


class Watch(NamedTuple):
    """A slot: what an instruction writes, by its place among what it writes. Of an address, the variable."""

    instruction: int
    place: int
    symbol: Symbol | None = None


@attrs.frozen(eq=False)
class Probed:
    """A kernel with its slots. `text` is the whole module with that kernel probed."""

    routine: Routine
    watches: tuple[Watch, ...]
    text: str
    refused: int

    @property
    def row(self) -> int:
        """Bytes of a thread's row."""
        return SLOT * len(self.watches)

    @cached_property
    def slot_of(self) -> dict[tuple[int, int], int]:
        """By instruction and place, the slot."""
        return {(watch.instruction, watch.place): slot for slot, watch in enumerate(self.watches) if watch.symbol is None}


def probed(module: Module, entry: str, spoil: int | None = None) -> Probed:
    """The module with probes in one of its kernels. With `spoil`, the probe of that slot writes down a number that is too large by one."""
    routine = next(routine for routine in routines(module) if routine.name == entry)
    watches = (*_addresses(routine), *_picked(routine))
    new = fresh(module)
    base, parameter = new.register("row"), new.symbol("rows")
    at_entry = [_row(parameter, base, SLOT * len(watches))]
    edits: list[Any] = [AddParameter(entry, parameter), Declare(routine, f".reg .b64 {base};")]
    for slot, watch in enumerate(watches):
        address = f"[{base}+{slot * SLOT}]"
        if watch.symbol is not None:
            at_entry.append(_address(watch.symbol, address))
            continue
        register = registers(routine).table[registers(routine).writes[watch.instruction][watch.place]]
        code = _keep(register, base, slot * SLOT, spoil == slot)
        edits.append(After(Site(routine, watch.instruction), code))
    edits.append(AtEntry(routine, "\n".join(at_entry)))
    done = apply(module, edits, "probes", marked=False, partly=True)
    return Probed(routine, watches, done.module.text, len(done.refusals))


def alone(fixture: Fixture, entry: str) -> Module:
    """The module that is probed for a kernel: the fixture's, and of a large one only what the kernel needs."""
    module = parse(fixture.text)
    return extract(module, kernel=entry).module if len(fixture.text) > LARGE else module


def _addresses(routine: Routine) -> Iterator[Watch]:
    """The variables whose addresses terms may speak of, as far as they are known at the start of the function."""
    found: dict[Symbol, None] = {}
    names = {name.text for instruction in routine.instructions for operand in instruction.operands for name in operand.find(Name)}
    scope = routine.names.scope_of(routine.where(0))
    for name in sorted(names):
        symbol = scope.lookup(name)
        if symbol is not None and symbol.kind is Kind.VARIABLE and symbol.name == name and symbol.path < routine.where(0):
            found.setdefault(symbol)
    for symbol in found:
        yield Watch(-1, 0, symbol)


def _picked(routine: Routine) -> list[Watch]:
    """What instructions write; of very many, some all over the function."""
    table, found = registers(routine).table, []
    for i, written in enumerate(registers(routine).writes):
        if len(ssa(routine).definitions[i]) != len(written) or _may_fuse(routine.instructions[i].opcode):
            continue
        for place, number in enumerate(written):
            register = table[number]
            if register.name != CARRY and register.bits in WIDTHS and register.symbol is not None and written.count(number) == 1:
                found.append(Watch(i, place))
    step = -(-len(found) // MOST_SLOTS) or 1
    return found[::step]


def _may_fuse(opcode: Opcode) -> bool:
    """Whether the compiler may make one fma of this and another instruction (9.7.3): not if something else reads what lies between."""
    modifiers = set(opcode.modifiers)
    return opcode.mnemonic in ("add", "sub", "mul") and bool(modifiers & FLOATS) and not modifiers & ROUNDINGS


def _row(parameter: str, base: str, row: int) -> str:
    """Where the row of this thread is: threads are counted in x, y, z, those of a block side by side."""
    lines = ["{ .reg .b32 %pk_c, %pk_t, %pk_a, %pk_b; .reg .b64 %pk_r;"]
    for target, index, size in (("%pk_c", "%ctaid", "%nctaid"), ("%pk_t", "%tid", "%ntid")):
        lines.append(f"mov.u32 {target}, {index}.z;")
        for axis in "yx":
            lines.append(f"mov.u32 %pk_a, {size}.{axis}; mov.u32 %pk_b, {index}.{axis}; mad.lo.u32 {target}, {target}, %pk_a, %pk_b;")
    for axis in "xyz":
        lines.append(f"mov.u32 %pk_a, %ntid.{axis}; mul.lo.u32 %pk_c, %pk_c, %pk_a;")
    lines.append(f"add.u32 %pk_c, %pk_c, %pk_t; ld.param.u64 {base}, [{parameter}]; cvta.to.global.u64 {base}, {base};")
    lines.append(f"mul.wide.u32 %pk_r, %pk_c, {row}; add.u64 {base}, {base}, %pk_r; }}")
    return "\n".join(lines)


def _address(symbol: Symbol, address: str) -> str:
    return f"{{ .reg .b64 %pk_v; mov.u64 %pk_v, {symbol.name}; st.global.v2.u64 {address}, {{1, %pk_v}}; }}"


def _keep(register: Register, base: str, offset: int, spoil: bool) -> str:
    """The code that keeps what a register holds."""
    name = register.name
    lines = ["{ .reg .b64 %pk_v, %pk_n, %pk_o, %pk_z, %pk_x;"]
    if register.is_predicate:
        lines.append(f"selp.u64 %pk_v, 1, 0, {name};")
    elif register.bits == 64:
        lines.append(f"mov.b64 %pk_v, {name};")
    elif register.bits == 8:
        lines.append(f"cvt.u64.u8 %pk_v, {name};")
    else:
        lines.append(f".reg .b{register.bits} %pk_t; mov.b{register.bits} %pk_t, {name}; cvt.u64.u{register.bits} %pk_v, %pk_t;")
    if spoil:
        lines.append("add.u64 %pk_v, %pk_v, 1;")
    lines += [
        f"ld.global.u64 %pk_n, [{base}+{offset}]; ld.global.v2.u64 {{%pk_o, %pk_z}}, [{base}+{offset + 16}];",
        "add.u64 %pk_n, %pk_n, 1; or.b64 %pk_o, %pk_o, %pk_v; not.b64 %pk_x, %pk_v; or.b64 %pk_z, %pk_z, %pk_x;",
        f"st.global.v2.u64 [{base}+{offset}], {{%pk_n, %pk_v}}; st.global.v2.u64 [{base}+{offset + 16}], {{%pk_o, %pk_z}}; }}",
    ]
    return "\n".join(lines)


def certain_slots(kernel: Probed) -> list[int]:
    """The slots of the first block, which every thread goes through, whose number follows from the thread's place and arguments."""
    said, flow = values(kernel.routine), control_flow(kernel.routine)
    found = []
    for slot, watch in enumerate(kernel.watches):
        if watch.symbol is None and flow.block_of[watch.instruction] == 0 and not flow.blocks[0].predecessors:
            term = said.written(watch.instruction)[watch.place]
            if all(leaf.operator in ("parameter", "special") for leaf in term.leaves()):
                found.append(slot)
    return found


# --- judging ----------------------------------------------------------------------------------------------------------------------


@attrs.define
class Tally:
    """How many statements about values were compared with what was read back."""

    exact: int = 0
    """Numbers computed from nothing but the thread's place, arguments and addresses, compared in every execution."""
    derived: int = 0
    """Numbers computed from other values that were read back in the same thread."""
    known: int = 0
    """Known bits and intervals."""
    contradictions: list[str] = attrs.field(factory=list)

    def add(self, other: Tally) -> None:
        """Counts those of another too."""
        self.exact += other.exact
        self.derived += other.derived
        self.known += other.known
        self.contradictions += other.contradictions


class Slot(NamedTuple):
    """What was kept of a value in one thread."""

    times: int
    last: int
    ones: int
    zeros: int


def slots(row: bytes) -> list[Slot]:
    """The slots of a thread's row."""
    return [Slot(*words) for words in struct.iter_unpack("<4Q", row)]


def judge(kernel: Probed, launch: Mapping[str, Any], arguments: list[bytes], thread: int, row: bytes, shift: int = 0) -> Tally:
    """Compares what the analysis says with what one thread kept. `shift` is added to every number that is claimed, to see that it shows."""
    said, kept, tally = values(kernel.routine), slots(row), Tally()
    leaf = _Leaves(kernel, said, launch, arguments, thread, kept)
    exactly: dict[Term, int | None] = {}
    derived: dict[Term, int | None] = {}
    for slot, (watch, found) in enumerate(zip(kernel.watches, kept, strict=True)):
        if watch.symbol is not None or not found.times:
            continue
        term = said.written(watch.instruction)[watch.place]
        mask = (1 << term.width) - 1

        def wrong(kind: str, claim: object, watch: Watch = watch, found: Slot = found, term: Term = term, slot: int = slot) -> None:
            text = " ".join(kernel.routine.instructions[watch.instruction].body_text.split())
            where = f"{kernel.routine.name} slot {slot} thread {thread}"
            tally.contradictions.append(f"{where}: `{text}` {kind} {claim}, was {found.last:#x} ({found.times} times); {term}")

        number = number_of(term, leaf.certain, exactly)
        if number is not None:
            tally.exact += 1
            number = (number + shift) & mask
            if found.last != number or found.ones != number or found.zeros & mask != ~number & mask:
                wrong("is", hex(number))
            continue
        if term.known != top(term.width):
            tally.known += 1
            known = term.known
            if found.ones & known.zeros or found.zeros & known.ones or (found.last - known.low - shift) & mask > known.span:
                wrong("is in", known)
        if found.times != 1:
            continue
        options = [number_of(one, leaf.seen, derived) for one in (term.args if term.operator == "join" else (term,))]
        if term.operator == "value" or (shift and len(options) > 1) or not all(option is not None for option in options):
            continue
        tally.derived += 1
        if found.last not in [(option + shift) & mask for option in options if option is not None]:
            wrong("is one of", [hex(option or 0) for option in options])
    return tally


class _Leaves:
    """The numbers of leaves in one thread."""

    def __init__(
        self, kernel: Probed, said: Values, launch: Mapping[str, Any], arguments: list[bytes], thread: int, kept: list[Slot]
    ) -> None:
        self.kernel, self.said, self.kept = kernel, said, kept
        self.ssa = ssa(kernel.routine)
        self.special = special_registers(launch, thread)
        memory = bytearray(4096 * 8)
        for parameter, data in zip(layout(kernel.routine.function.header), arguments, strict=False):
            memory[parameter.offset : parameter.offset + len(data)] = data
        self.offsets = {parameter.name: parameter.offset for parameter in layout(kernel.routine.function.header)}
        self.memory = bytes(memory)
        self.addresses = {watch.symbol: kept[slot].last for slot, watch in enumerate(kernel.watches) if watch.symbol is not None}

    def certain(self, leaf: Term) -> int | None:
        """What does not depend on anything that the kernel did before."""
        if leaf.operator == "special":
            return self.special.get(str(leaf.data[0]))
        symbol = self.said.symbol(leaf)
        if leaf.operator == "parameter" and symbol is not None:
            *_, offset, size = leaf.data
            assert isinstance(offset, int) and isinstance(size, int)
            start = self.offsets[symbol.name] + offset
            return int.from_bytes(self.memory[start : start + size], "little")
        if leaf.operator == "address" and symbol is not None:
            return self.addresses.get(symbol)
        return None

    def seen(self, leaf: Term) -> int | None:
        """The same, and values that were read back, if the thread came there once."""
        if leaf.operator != "value":
            return self.certain(leaf)
        number = leaf.data[0]
        assert isinstance(number, int)
        value = self.ssa.values[number]
        if value.instruction < 0:
            return None
        place = number - self.ssa.definitions[value.instruction][0]
        slot = self.kernel.slot_of.get((value.instruction, place))
        return self.kept[slot].last if slot is not None and self.kept[slot].times == 1 else None


def special_registers(launch: Mapping[str, Any], thread: int) -> dict[str, int]:
    """The special registers that the place of a thread decides."""
    grid, block, cluster = launch["grid"], launch["block"], launch.get("cluster", [1, 1, 1])
    cta, inside = divmod(thread, block[0] * block[1] * block[2])
    places = {
        "tid": (inside % block[0], inside // block[0] % block[1], inside // block[0] // block[1]),
        "ctaid": (cta % grid[0], cta // grid[0] % grid[1], cta // grid[0] // grid[1]),
        "ntid": tuple(block),
        "nctaid": tuple(grid),
    }
    places["cluster_ctaid"] = tuple([at % size for at, size in zip(places["ctaid"], cluster, strict=True)])
    places["clusterid"] = tuple([at // size for at, size in zip(places["ctaid"], cluster, strict=True)])
    places["cluster_nctaid"] = tuple(cluster)
    found = {f"%{name}.{axis}": number for name, place in places.items() for axis, number in zip("xyz", place, strict=True)}
    x, y, z = places["cluster_ctaid"]
    found["%cluster_ctarank"] = (z * cluster[1] + y) * cluster[0] + x
    found["%laneid"] = inside % 32
    return found
