"""Register pressure of a function, in 32-bit units: a 64-bit register counts two, a 16-bit one a full one, a predicate none.

This is the pressure of the text: an assembler reorders, recomputes and merges, so it may use fewer or more. A register counts from its
first write on a path to the point; one that is live but was never written takes no space.
"""

from __future__ import annotations

from ptxkit.analyses.cfg.dataflow import solve, union
from ptxkit.analyses.cfg.graph import ControlFlow, control_flow
from ptxkit.analyses.cfg.loops import loops
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.numbers.bits import bits, mask_of
from ptxkit.analyses.registers.liveness import liveness
from ptxkit.analyses.registers.registers import registers
from ptxkit.frozen import frozen

LOW = (1 << 32) - 1


@frozen(eq=False)
class Pressure:
    """Register pressure of a function: `units` are 32-bit registers."""

    units: tuple[int, ...]
    """By instruction, the maximum live directly before or after it, its results included."""
    predicates: tuple[int, ...]
    """By instruction, the same for predicates."""
    entering: tuple[int, ...]
    """By block, the units live at its start."""
    blocks: tuple[int, ...]
    """By block, the maximum of its instructions."""
    headers: tuple[tuple[int, int], ...]
    """The header of each loop, with the units live at its start."""
    peak: int
    """The maximum of all instructions."""
    peak_at: int
    """The first instruction at the peak; -1 in a function without instructions."""
    peak_predicates: int

    def __repr__(self) -> str:
        return f"<Pressure: at most {self.peak} registers of 32 bits, {self.peak_predicates} predicates>"


@fact
def pressure(routine: Routine) -> Pressure:
    """Register pressure by point, block and function."""
    flow, named, live = control_flow(routine), registers(routine), liveness(routine)
    count = len(named.reads)
    # predicates are counted in the same number, above all units
    weight = [LOW + 1 if register.is_predicate else register.units for register in named.table]
    never = _never_written(routine, flow)
    units, predicates = [0] * count, [0] * count
    entering = [0] * len(flow.blocks)
    reads, writes, weak = named.reads, named.writes, named.weak
    # backwards: the registers counted, as a set and as bits, and their sum
    alive: set[int] = set()
    counted = now = 0
    for block in reversed(flow.blocks):
        absent = never[block.index] if never else 0
        first_writes = _first_writes(routine, block.start, block.end, absent) if absent else {}
        out = live.after[block.index]
        if absent:
            out &= ~(absent & ~mask_of([register for new in first_writes.values() for register in new]))
        for register in bits(counted & ~out):
            alive.discard(register)
            now -= weight[register]
        for register in bits(out & ~counted):
            alive.add(register)
            now += weight[register]
        for i in range(block.end - 1, block.start - 1, -1):
            most = now
            for register in writes[i]:
                if register not in alive:
                    most += weight[register]
                elif i not in weak:
                    alive.discard(register)
                    now -= weight[register]
            for register in first_writes.get(i, ()):
                if register in alive:
                    alive.discard(register)
                    now -= weight[register]
            for register in reads[i]:
                if register not in alive and not (absent and absent >> register & 1 and not _written(first_writes, register, i)):
                    alive.add(register)
                    now += weight[register]
            units[i] = max(most & LOW, now & LOW)
            predicates[i] = max(most, now) >> 32
        entering[block.index] = now & LOW
        counted = live.before[block.index] & ~absent
    peak = max(units, default=0)
    return Pressure(
        tuple(units),
        tuple(predicates),
        tuple(entering),
        tuple([max(units[block.start : block.end]) for block in flow.blocks]),
        tuple([(loop.header, entering[loop.header]) for loop in loops(routine).loops]),
        peak,
        units.index(peak) if units else -1,
        max(predicates, default=0),
    )


def _never_written(routine: Routine, flow: ControlFlow) -> tuple[int, ...]:
    """By block, the registers that cannot have been written at its start; empty if none of them is live on entry."""
    named = registers(routine)
    doubtful = (liveness(routine).before[0] if flow.blocks else 0) & ~named.given
    if not doubtful:
        return ()
    written = [mask_of({r for i in range(block.start, block.end) for r in named.writes[i]}) & doubtful for block in flow.blocks]
    reached = solve(flow, lambda block, before: before | written[block], union, lambda block: None, 0)
    return tuple([doubtful & ~before for before in reached.before])


def _first_writes(routine: Routine, start: int, end: int, wanted: int) -> dict[int, list[int]]:
    """By instruction, the wanted registers that it is the first to write, from `start` on."""
    writes = registers(routine).writes
    found: dict[int, list[int]] = {}
    for i in range(start, end):
        for register in writes[i]:
            if wanted >> register & 1:
                wanted &= ~(1 << register)
                found.setdefault(i, []).append(register)
    return found


def _written(first_writes: dict[int, list[int]], register: int, i: int) -> bool:
    """Whether a register was written before instruction `i`, according to the first writes."""
    return any(at < i and register in new for at, new in first_writes.items())
