"""Points at which nothing may be inserted, and why.

A *point* is directly before or after an instruction. Directly before means before its own `.loc` and before a pragma bound to it, but after
a pragma of the loop that starts with it, which belongs to the label.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptxkit.analyses.cfg.dataflow import solve, union
from ptxkit.analyses.cfg.graph import ControlFlow, Via, control_flow
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.numbers.bits import mask_of
from ptxkit.analyses.registers.liveness import liveness
from ptxkit.analyses.registers.registers import CARRY, registers
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.names import Kind
from ptxkit.rewriters.engine.code import traits
from ptxkit.syntax import Address, Group, Instruction, Loc, Name, Node, Pragma

BOUND_PRAGMAS = ("used_bytes_mask",)
"""The pragmas that apply to the one instruction after them (11.4.11)."""


@frozen(eq=False)
class Points:
    """Properties of the points of a function, by index of the instruction."""

    sequence: tuple[int, ...]
    """The call whose sequence contains the instruction (7.1), which is part of it; -1 if there is none."""
    stops: frozenset[int]
    """The instructions after which control does not continue."""
    carry: frozenset[int]
    """The instructions after which the condition code may still be read (9.7.2)."""
    accumulators: dict[int, frozenset[str]]
    """The instructions before which a wgmma may be in flight, each with the names of the registers in use (9.7.16)."""
    in_group: frozenset[int]
    """The instructions between a wgmma.fence, exclusive, and the commit of its group."""
    aligned: int
    """An instruction of the function that all threads of a warp must execute together; -1 if there is none."""


@fact
def points(routine: Routine) -> Points:
    """What edits of a function must preserve."""
    flow = control_flow(routine)
    opcodes = {i.opcode.text for i in routine.instructions}
    stops = frozenset([block.end - 1 for block in flow.blocks if _stops(flow, block.index)])
    aligned = {opcode for opcode in opcodes if traits(opcode).aligned}
    first_aligned = next((i for i, at in enumerate(routine.instructions) if at.opcode.text in aligned), -1) if aligned else -1
    accumulators: dict[int, frozenset[str]] = {}
    in_group: frozenset[int] = frozenset()
    if any(traits(opcode).group == "wgmma" for opcode in opcodes):
        accumulators, in_group = _wgmma(routine)
    carry = frozenset(_carry(routine)) if any(traits(opcode).reads_carry for opcode in opcodes) else frozenset()
    calls = [opcode for opcode in opcodes if traits(opcode).flow == "call"]
    sequence = _sequences(routine, flow, frozenset(calls)) if calls else (-1,) * len(routine.instructions)
    return Points(sequence, stops, carry, accumulators, in_group, first_aligned)


def _stops(flow: ControlFlow, index: int) -> bool:
    block = flow.blocks[index]
    return not block.falls_off and not any(edge.via in (Via.FALL, Via.NOT_TAKEN) for edge in block.edges)


def _carry(routine: Routine) -> list[int]:
    """The instructions directly after which the condition code is live."""
    numbers = registers(routine).named(CARRY)
    if not numbers:
        return []
    (number,) = numbers
    live = liveness(routine)
    return [i for block in control_flow(routine).blocks for i, after in live.points(block.index) if after >> number & 1]


def _sequences(routine: Routine, flow: ControlFlow, calls: frozenset[str]) -> tuple[int, ...]:
    """From the first store of an argument to the last load of a result, as far as they are in the basic block of the call."""
    found = [-1] * len(routine.instructions)
    for i, instruction in enumerate(routine.instructions):
        if instruction.opcode.text not in calls:
            continue
        found[i] = i
        passed = _parameters(routine, i, instruction)
        if not passed:
            continue
        block = flow.blocks[flow.block_of[i]]
        first = last = i
        for at in range(i - 1, block.start - 1, -1):
            if routine.instructions[at].opcode.text in calls:
                break
            if _names_one(routine, at, passed):
                first = at
        for at in range(i + 1, flow.blocks[flow.block_of[i + 1]].end if i + 1 < len(found) else i + 1):
            if routine.instructions[at].opcode.text in calls:
                break
            if _names_one(routine, at, passed):
                last = at
        found[first : last + 1] = [i] * (last + 1 - first)
    return tuple(found)


def _parameters(routine: Routine, i: int, call: Instruction) -> frozenset[int]:
    """The `.param` variables that a call passes, by `id` of their symbols."""
    scope = routine.names.scope_of(routine.where(i))
    names = [name.text for operand in call.operands if isinstance(operand, Group) for name in operand.find(Name)]
    symbols = [scope.lookup(name) for name in names]
    return frozenset([id(symbol) for symbol in symbols if symbol is not None and symbol.kind is Kind.PARAMETER])


def _names_one(routine: Routine, i: int, wanted: frozenset[int]) -> bool:
    for operand in routine.instructions[i].operands:
        if isinstance(operand, Address) and isinstance(operand.base, Name):
            symbol = routine.names.scope_of(routine.where(i)).lookup(operand.base.text)
            return id(symbol) in wanted
    return False


def _wgmma(routine: Routine) -> tuple[dict[int, frozenset[str]], frozenset[int]]:
    flow, named, bounds = control_flow(routine), registers(routine), bindings(routine)
    opens: dict[int, int] = {}
    waits: set[int] = set()
    in_group: set[int] = set()
    inside = False
    for i, bound in enumerate(bounds):
        if inside:
            in_group.add(i)
        if not isinstance(bound, Bound):
            continue
        inside = (inside or "wgmma-fence" in bound.effects) and bound.flow == ""
        for group in bound.asynchronous:
            if group.group != "wgmma":
                continue
            if group.action == "open":
                opens[i] = mask_of(named.writes[i])
            elif group.action == "commit":
                inside = False
            elif group.action == "wait" and routine.instructions[i].operands[-1].text.strip() == "0":
                waits.add(i)

    def over(block: int, state: int) -> int:
        for i in range(flow.blocks[block].start, flow.blocks[block].end):
            state = 0 if i in waits else state | opens.get(i, 0)
        return state

    before = solve(flow, over, union, lambda block: 0 if block == 0 else None, 0).before
    found: dict[int, frozenset[str]] = {}
    names: dict[int, frozenset[str]] = {}
    for block in flow.blocks:
        state = before[block.index]
        for i in range(block.start, block.end):
            if state:
                if state not in names:
                    names[state] = frozenset([r.name for number, r in enumerate(named.table) if state >> number & 1])
                found[i] = names[state]
            state = 0 if i in waits else state | opens.get(i, 0)
    return found, frozenset(in_group)


def before(children: Sequence[Node], at: int) -> int:
    """The index among the statements for code that is to run directly before the instruction at index `at`."""
    position = at
    while position and (isinstance(statement := children[position - 1], Loc) or is_bound_pragma(statement)):
        position -= 1
    return position


def is_bound_pragma(statement: Node) -> bool:
    """Whether this is a pragma that applies to the next instruction."""
    return isinstance(statement, Pragma) and any(text.split()[:1] == [word] for text in statement.strings for word in BOUND_PRAGMAS)


def is_block_pragma(statement: Node) -> bool:
    """Whether this is a pragma that applies to the block or loop whose label precedes it."""
    return isinstance(statement, Pragma) and not is_bound_pragma(statement)
