"""Instructions with a mask of the lanes that must execute them together, and errors in their use (9.7.10.6, 9.7.14.8 to 9.7.14.14).

Lanes are traced by their indices alone, or for example inputs (`example_runs`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.reachability import closure, nearest_first
from ptxkit.analyses.events.barriers import term_of
from ptxkit.analyses.framework.bindings import bindings, matching
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.launch.inputs import arguments, loads_of_lanes
from ptxkit.analyses.launch.launch import WARP, WARP_MASK, launch
from ptxkit.analyses.numbers.bits import bits
from ptxkit.analyses.protocols.convergence.participation import Divergence, Search, reconverge
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.symbolic.vectors import Numbers
from ptxkit.analyses.threads.lanes import Thread, lanes
from ptxkit.analyses.threads.thread_sets import Runs
from ptxkit.analyses.uniformity.example_runs import Choice, World, worlds
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.analyses.uniformity.uniformity import enters_whole
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound

MOST_ARGUMENTS = 2
"""Number of arguments that are tried with each example of loaded values."""


@frozen
class Stranger:
    """A thread executes the instruction but is not in the mask."""

    instruction: int
    thread: Thread
    mask: int
    example: str
    assumption: str


@frozen
class Missing:
    """A lane in the mask takes another path; `elsewhere` is the instruction that it reaches instead, or -1 if it exits."""

    divergence: Divergence
    mask: int
    elsewhere: int


@frozen
class Unheard:
    """A thread reads the value of a lane that is absent."""

    instruction: int
    thread: Thread
    lane: int
    why: str
    """What the lane does instead."""
    branch: int
    """Where the lane took another path; -1 if it did not."""
    example: str
    assumption: str


@fact
def masked(routine: Routine) -> tuple[int, ...]:
    """The reachable instructions with a member mask; empty in functions that only some threads may enter."""
    flow = control_flow(routine)
    own = matching(routine, lambda bound: bound.members is not None and bound.members.reads)
    return tuple([i for i, _ in own if flow.block_of[i] in flow.reachable]) if own and enters_whole(routine) else ()


def _mask(world: World, i: int) -> Numbers | None:
    """The mask in each thread."""
    bound = bindings(world.routine)[i]
    term = term_of(world.routine, i, bound.members) if isinstance(bound, Bound) else None
    return None if term is None else world.numbers(term, control_flow(world.routine).block_of[i])


def _names_all(routine: Routine, i: int) -> bool:
    """Whether the mask of an instruction certainly contains all lanes."""
    bound = bindings(routine)[i]
    term = term_of(routine, i, bound.members) if isinstance(bound, Bound) else None
    return term is not None and term.constant is not None and term.constant & WARP_MASK == WARP_MASK


def stranger(routine: Routine, i: int) -> Stranger | None:
    """A thread that executes an instruction but is not in its mask."""
    if _names_all(routine, i):
        return None
    for world in worlds(routine).all(Level.WARP):
        mask = _mask(world, i)
        if mask is None:
            continue
        runs = world.execution(i)
        for thread in bits(runs.sure):
            if not mask[thread] >> thread % WARP & 1:
                search = Search(routine, i, Level.WARP, False)
                if not search.may_come():
                    break
                assumption = world.template.assumed(thread)
                return Stranger(i, world.threads[thread], mask[thread] & WARP_MASK, search.example(world), assumption)
    return None


def missing(routine: Routine, i: int) -> Missing | None:
    """A lane in the mask of an instruction that never executes it: it waits elsewhere, or has exited where that matters."""
    bound = bindings(routine)[i]
    assert isinstance(bound, Bound)
    if reconverge(routine, i, Level.WARP, True):
        return None
    whole = bound.converges is not None and bound.converges.whole
    search = Search(routine, i, Level.WARP, True)
    if not search.may_come():
        return None
    for world in worlds(routine).all(Level.WARP):
        mask = _mask(world, i)
        if mask is None:
            continue
        for divergence in (search.first_time(world, mask), search.once_more(world)):
            if divergence is None or not mask[divergence.one.linear] >> divergence.other.linear % WARP & 1:
                continue
            if divergence.has_ended:
                if whole:
                    return Missing(divergence, mask[divergence.one.linear] & WARP_MASK, -1)
                continue
            elsewhere = _elsewhere(world, i, divergence)
            if elsewhere is not None:
                return Missing(divergence, mask[divergence.one.linear] & WARP_MASK, elsewhere)
    return None


def _elsewhere(world: World, i: int, divergence: Divergence) -> int | None:
    """The instruction at which a lane on another path waits for others; None if it need not, or may execute the same operation there."""
    routine = world.routine
    flow = control_flow(routine)
    block = flow.block_of[divergence.branch]
    meeting = dominators(routine).post.parent[block]
    other = divergence.other.linear
    paths = [edge.target for edge in flow.blocks[block].edges if world.taking([edge])[other] is not Runs.NEVER]
    if divergence.branch == divergence.instruction:
        return _waits(world, i, other, range(i + 1, flow.blocks[block].end), flow.blocks[block].successors)
    own = routine.instructions[i].opcode.text
    for at in closure(paths, lambda at: flow.successors(at) if at != meeting else ()) - {meeting}:
        for j in range(flow.blocks[at].start, flow.blocks[at].end):
            bound = bindings(routine)[j]
            if j != i and (routine.instructions[j].opcode.text == own or (isinstance(bound, Bound) and bound.flow == "call")):
                return None
    return _waits(world, i, other, range(0), tuple(paths))


def _waits(world: World, i: int, thread: int, first: range, after: tuple[int, ...]) -> int | None:
    """An instruction that a thread certainly reaches on its path, and that waits for other threads."""
    routine = world.routine
    flow = control_flow(routine)
    following = [range(flow.blocks[at].start, flow.blocks[at].end) for at in nearest_first(after, flow.successors)]
    for j in chain(first, *following):
        bound = bindings(routine)[j]
        if j == i or not isinstance(bound, Bound) or routine.instructions[j].guard is not None:
            continue
        together = bound.converges is not None and (bound.converges.aligned or bound.members is not None)
        if not together and not any(one.action == "wait" for one in bound.barrier):
            continue
        block = flow.block_of[j]
        if any(dominators(routine).post.dominates(block, path) for path in after or (block,)) or world.execution(j)[thread] is Runs.ALWAYS:
            return j
    return None


# --- shfl


def unheard(routine: Routine, i: int) -> Unheard | None:
    """A thread that takes a value from an absent lane, and uses it."""
    bound = bindings(routine)[i]
    assert isinstance(bound, Bound)
    if bound.slot(".mode") not in _MODES or not _is_used(routine, i):
        return None
    count = launch(routine).count
    if _names_all(routine, i) and (count is None or not count % WARP) and reconverge(routine, i, Level.WARP, True):
        return None
    search = Search(routine, i, Level.WARP, True)
    if not search.may_come():
        return None
    for world in _worlds_for(routine, i, bound):
        found = _unheard(world, search, i, bound)
        if found is not None:
            return found
    return None


def _worlds_for(routine: Routine, i: int, bound: Bound) -> Iterator[World]:
    known = worlds(routine)
    yield from known.all(Level.WARP)
    if bound.slot(".mode") != ".idx":
        return
    lane = term_of(routine, i, bound.operand("b"))
    if lane is None or lane.constant is None:
        return
    for number in arguments(MOST_ARGUMENTS):
        for own, others in loads_of_lanes():
            yield known.of(Choice(Level.WARP, number, (lane.constant % WARP, own, others)))


def _unheard(world: World, search: Search, i: int, bound: Bound) -> Unheard | None:
    block = search.block
    b, c = (term_of(world.routine, i, operand) for operand in bound.lane)
    if b is None or c is None:
        return None
    # a lane that memory or an argument names is one that the host knows to take part
    known = lanes(world.routine)
    if known.numbers(b, block) is None or known.numbers(c, block) is None:
        return None
    amounts, limits, mask = world.numbers(b, block), world.numbers(c, block), _mask(world, i)
    if amounts is None or limits is None or mask is None:
        return None
    runs = world.execution(i)
    mode = bound.slot(".mode")
    like_it: set[tuple[object, ...]] = set()
    for start in range(0, len(runs), WARP):
        end = start + WARP
        warp = (runs.sure >> start & WARP_MASK, runs.may >> start & WARP_MASK, amounts[start:end], limits[start:end], mask[start:end])
        if warp in like_it:
            continue
        if not runs.never >> start & WARP_MASK:
            # other warps with the same behavior have the same result
            like_it.add(warp)
        surely = list(bits(runs.sure & WARP_MASK << start))
        # in a downward reduction, only the first lane's result is certainly used
        for thread in surely[:1] if mode == ".down" else surely:
            lane = thread % WARP
            source = _source(mode, lane, amounts[thread], limits[thread])
            if source == lane:
                continue
            if not mask[thread] >> lane & 1:
                # whether it may execute this is checked by another rule
                return None
            if not _is_used_by(world, i, thread):
                continue
            if not mask[thread] >> source & 1:
                return _reported(world, search, i, thread, source, "is not in the mask", -1)
            if start + source >= len(runs):
                if world.template.is_certain:
                    return _reported(world, search, i, thread, source, "does not exist: the last warp is not full", -1)
                continue
            if runs[start + source] is Runs.NEVER:
                divergence = search.between(world, Level.WARP, thread, start + source)
                if divergence is not None:
                    path = "has exited" if divergence.has_ended else "took another path"
                    return _reported(world, search, i, thread, source, path, divergence.branch)
    return None


def _reported(world: World, search: Search, i: int, thread: int, source: int, why: str, branch: int) -> Unheard:
    example = search.example(world)
    if world.choice.loaded is not None:
        lane, own, others = world.choice.loaded
        loaded = f"{own} loaded by lane {lane} and {others} by the other lanes"
        example = f"{example}, {loaded}" if example else loaded
    return Unheard(i, world.threads[thread], source, why, branch, example, world.template.assumed(thread))


_MODES = frozenset((".up", ".down", ".bfly", ".idx"))


def _source(mode: str, lane: int, amount: int, limit: int) -> int:
    """The lane from which a lane takes its value (9.7.10.6)."""
    segment = limit >> 8 & 31
    least = lane & segment
    most = least | (limit & 31 & ~segment)
    amount &= 31
    if mode == ".up":
        source = lane - amount
        return source if source >= most else lane
    source = {".down": lane + amount, ".bfly": lane ^ amount, ".idx": least | (amount & ~segment)}[mode]
    return source if source <= most else lane


def _is_used(routine: Routine, i: int) -> bool:
    numbering = ssa(routine)
    return any(numbering.readers[number] or number in numbering.operand_of for number in numbering.definitions[i][:1])


def _is_used_by(world: World, i: int, thread: int) -> bool:
    """Whether a thread may reach an instruction that reads its result of instruction `i`; a path to it suffices."""
    numbering = ssa(world.routine)
    (number,) = numbering.definitions[i][:1]
    reading = numbering.readers[number]
    return number in numbering.operand_of or any(world.execution(j)[thread] is not Runs.NEVER for j in reading)
