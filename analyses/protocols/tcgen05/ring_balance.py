"""Loops in which MMAs release stages less often than they wait for others (9.1:9.7.16.12).

A stage changes hands as follows: MMAs are committed to one mbarrier; other threads wait there and then arrive at another, which the thread
that issues the MMAs waits for. So that second mbarrier completes at most as often as MMAs are committed. A loop that waits for it more
often in every iteration, on every path, eventually waits forever.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice, pairwise

from ptxkit.analyses.cfg.dataflow import solve
from ptxkit.analyses.cfg.graph import ControlFlow, control_flow
from ptxkit.analyses.cfg.loops import Loop, loops
from ptxkit.analyses.cfg.paths import comes_without, next_among
from ptxkit.analyses.cfg.reachability import nearest_first
from ptxkit.analyses.events.mbarriers import guarded
from ptxkit.analyses.events.steps import Does
from ptxkit.analyses.framework.finding import Finding
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.numbers.arithmetic import signed
from ptxkit.analyses.numbers.bits import bits, mask_of
from ptxkit.analyses.protocols.mbarrier.arrivals import arrivals_besides, threads_at
from ptxkit.analyses.protocols.mbarrier.usage import SHARED_ADDRESS_BITS, Location, Use, address_parts, usage
from ptxkit.analyses.protocols.tcgen05.tensor_memory import tensor
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.symbolic.environment import settler
from ptxkit.analyses.symbolic.induction import rounds
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.uniformity.uniformity import uniformity
from ptxkit.frozen import frozen

MOST_BYTES = 1024
"""mbarriers whose address is only known to lie in a larger range of bytes than this are not distinguished."""
MOST_KINDS = 32
"""Maximum number of kinds of threads that are distinguished by the instructions they reach."""


@frozen(eq=False)
class _Ring:
    """The uses of a ring of mbarriers that one instruction indexes in sequence."""

    inits: tuple[Use, ...]
    waits: tuple[Use, ...]
    """Blocking waits that are not a second wait for the same phase."""
    asks: tuple[Use, ...]
    """All waits, including tests and guarded ones."""
    commits: tuple[Use, ...]
    arrivals: tuple[Use, ...]
    """Arrivals by threads."""


def outrun(routine: Routine) -> Iterator[Finding]:
    """The first wait of each loop that waits, in every iteration, for more stages than its MMAs release."""
    known = tensor(routine)
    if known is None or known.may_arrive or not known.commits or not usage(routine).is_closed:
        return
    rings = _rings(routine, set(known.commits))
    given = [ring for ring in rings if ring.commits and ring.asks and not ring.arrivals]
    filled = [ring for ring in rings if ring.waits and ring.arrivals and not ring.commits]
    signalled: set[Loop] = set()
    follows = functools.cache(functools.partial(_follows, routine))
    for ring in rings:
        yield from _unanswered(routine, ring)
    for back in given:
        for ring in filled:
            for loop in _outrun(routine, back, ring):
                if loop in signalled or not _depends_on(follows, back, ring, rings):
                    continue
                signalled.add(loop)
                flow = control_flow(routine)
                waits = [use for use in ring.waits if flow.block_of[use.instruction] in loop]
                commits = [use for use in back.commits if flow.block_of[use.instruction] in loop]
                message = (
                    "in each iteration of the loop, threads wait here more often than commits signal the threads that should arrive: "
                    "deadlock"
                )
                steps = [
                    (commits[0].instruction, "committed here"),
                    (back.asks[0].instruction, "the threads that arrive wait for a commit here"),
                ]
                steps.append((ring.arrivals[0].instruction, "and then arrive here"))
                yield Finding(waits[0].instruction, message, steps, False, is_note=True)


def _unanswered(routine: Routine, ring: _Ring) -> Iterator[Finding]:
    """The first wait of a loop that waits for more commits than it makes, if commits outside it are executed only once."""
    flow, innermost = control_flow(routine), loops(routine).innermost
    if not ring.waits or not ring.commits or ring.arrivals:
        return
    for loop in _outrun(routine, ring, ring):
        homes = [flow.block_of[use.instruction] for use in ring.commits]
        if all(home in loop or innermost[home] is None for home in homes):
            wait = next(use for use in ring.waits if flow.block_of[use.instruction] in loop)
            message = "in each iteration of the loop, threads wait here more often than MMAs are committed to this mbarrier: deadlock"
            yield Finding(wait.instruction, message, [(ring.commits[0].instruction, "committed here")], False)
            return


def out_of_step(routine: Routine) -> Iterator[Finding]:
    """The first commits to rings in which another stage is waited for first: that stage is signalled only after the ring has wrapped
    around.

    Either the thread that waits there is the one being signalled, or the thread that issues the MMAs waited, at another ring, for the stage
    that it releases.
    """
    known = tensor(routine)
    if known is None or known.may_arrive or not known.commits or not usage(routine).is_closed:
        return
    rings = _rings(routine, set(known.commits))
    for ring in rings:
        signalled = _first_stage(routine, ring, ring.commits) if ring.commits and not ring.arrivals else None
        if signalled is None:
            continue
        by_stage = {use.index for use in ring.commits if not use.is_fixed}
        same = [one for one in rings if one is not ring and any(use.index in by_stage for use in one.waits)]
        for other, waits in ((ring, ring.asks), *[(one, one.waits) for one in same]):
            waited = _first_stage(routine, other, waits)
            if waited is not None and waited != signalled:
                use, first = _earliest(routine, ring.commits)[0], _earliest(routine, waits)[0]
                message = (
                    "the first stage of a ring that a commit signals is not the first that is waited for, "
                    "which is signalled only after the ring has wrapped around"
                )
                yield Finding(use.instruction, message, [(first.instruction, "waited for first")], False)
                break


def _first_stage(routine: Routine, ring: _Ring, uses: tuple[Use, ...]) -> int | None:
    """The one stage that the uses of a ring start at, on every path; None if it is unknown or differs between paths."""
    begin = min([offset for use in (*ring.asks, *ring.commits, *ring.arrivals) for offset in use.offsets])
    found: set[int] = set()
    for use in _earliest(routine, uses):
        if use.index is None or use.step.address is None:
            return None
        if use.is_fixed:
            found |= {offset - begin for offset in use.offsets}
            continue
        numbers = {stage for stage, _, _ in rounds(routine).first(use.index, use.index)}
        offset = address_parts(routine, settler(routine).term(guarded(routine, use.instruction, use.step.address)))[0].offset
        width = min(use.index.width, SHARED_ADDRESS_BITS)
        for number in numbers or {None}:
            if number is None:
                return None
            found.add(signed(offset + number & (1 << width) - 1, width) - begin)
    return found.pop() if len(found) == 1 else None


def _earliest(routine: Routine, uses: tuple[Use, ...]) -> list[Use]:
    """Those of the given uses that can be reached from entry without passing another of them."""
    before = comes_without(routine, {use.instruction for use in uses})
    return [use for use in uses if before(use.instruction)]


def _rings(routine: Routine, commits: set[int]) -> list[_Ring]:
    own: dict[int, list[Use]] = {}
    names = _ring_of(routine)
    for use in usage(routine).uses:
        for name in {names[rank] for rank in _locations_of(use)}:
            own.setdefault(name, []).append(use)
    return [_ring(routine, uses, commits) for uses in own.values()]


def _locations_of(use: Use) -> list[Location]:
    """The mbarriers of a use, without those outside its known range."""
    at = use.where
    if use.is_known or at is None or at.offset.length > MOST_BYTES:
        return use.locations
    return [location for location in use.locations if at.offset.has(location.offset)]


@fact
def _ring_of(routine: Routine) -> dict[Location, int]:
    """The ring of each mbarrier, as a number: mbarriers that one instruction iterates over belong together."""
    parent: dict[Location, Location] = {}

    def find(location: Location) -> Location:
        while parent.setdefault(location, location) != location:
            location = parent[location]
        return location

    for use in usage(routine).uses:
        # one loop may initialize all mbarriers
        for one, other in pairwise(_locations_of(use) if use.does not in (Does.INIT, Does.INVAL) else ()):
            parent[find(other)] = find(one)
        for location in use.locations:
            find(location)
    numbers: dict[Location, int] = {}
    return {location: numbers.setdefault(find(location), len(numbers)) for location in list(parent)}


def _ring(routine: Routine, uses: list[Use], commits: set[int]) -> _Ring:
    arrivals = [use for use in uses if use.does is Does.ARRIVE]
    asks = [use for use in uses if use.does is Does.WAIT]
    blocking = [use for use in asks if use.step.is_spinning and routine.instructions[use.instruction].guard is None]
    return _Ring(
        tuple([use for use in uses if use.does is Does.INIT]),
        tuple(_first_ones(blocking)),
        tuple(asks),
        tuple([use for use in arrivals if use.instruction in commits]),
        tuple([use for use in arrivals if use.instruction not in commits]),
    )


def _first_ones(waits: Iterable[Use]) -> Iterator[Use]:
    """The waits, each for a distinct phase: waits at one mbarrier for one parity count as one."""
    by_mbarrier: dict[Term | None, dict[Term | None, list[Use]]] = {}
    for use in waits:
        by_mbarrier.setdefault(use.step.address, {}).setdefault(use.step.amount, []).append(use)
    for parities in by_mbarrier.values():
        for own in parities.values():
            yield from own[:1] if len(parities) == 1 else own


def _outrun(routine: Routine, back: _Ring, ring: _Ring) -> Iterator[Loop]:
    """The loops in whose every iteration, on all paths through a wait, more waits pass at one ring than commits are made to another."""
    block_of = control_flow(routine).block_of
    weight: dict[int, int] = {}
    homes = [_deciders(routine).get(use.instruction, block_of[use.instruction]) for use in ring.waits]
    for home in homes:
        weight[home] = weight.get(home, 0) - 1
    for use in back.commits:
        weight[block_of[use.instruction]] = weight.get(block_of[use.instruction], 0) + 1
    committed = mask_of([block_of[use.instruction] for use in back.commits])
    waited = mask_of(homes)
    for loop in loops(routine).loops:
        waits = loop.blocks & waited & ~mask_of(loop.latches)
        if not waits or not loop.blocks & committed or not loop.is_reducible:
            continue
        iteration = _iterations(routine)[loop.index]
        ahead = _max_weights(iteration, weight, loop.header)
        for block in bits(waits):
            onward = _max_weights(iteration, weight, block) if block in ahead else {}
            ends = [onward[latch] + weight.get(latch, 0) for latch in loop.latches if latch in onward]
            if ends and ahead[block] + max(ends) < 0:
                yield loop
                break


@frozen(eq=False)
class _Iteration:
    """The order of blocks within one iteration of a loop: blocks that use mbarriers, the first block, and the last."""

    onward: dict[int, list[int]]
    back: int
    """Number of back edges, to inner loops."""


@fact
def _iterations(routine: Routine) -> list[_Iteration]:
    flow = control_flow(routine)
    used = mask_of([*[flow.block_of[use.instruction] for use in usage(routine).uses], *_deciders(routine).values()])
    found = []
    for loop in loops(routine).loops:
        within = [block for block in flow.order if block in loop]
        edges = {block: [to for to in flow.blocks[block].successors if to in loop and to != loop.header] for block in within}
        onward = next_among(edges, {block for block in within if used >> block & 1}.union(loop.latches, [loop.header]))
        rank = {block: i for i, block in enumerate(onward)}
        found.append(_Iteration(onward, sum([rank[to] <= rank[block] for block, following in onward.items() for to in following])))
    return found


@fact
def _deciders(routine: Routine) -> dict[int, int]:
    """The waits that are skipped if an earlier test succeeded, each with the block that decides: past that block, the phase has
    completed."""
    asks = {use.instruction for use in usage(routine).of(Does.WAIT) if not use.step.is_spinning}
    found = {}
    for use in usage(routine).of(Does.WAIT) if asks else ():
        block = _decider(routine, use.instruction) if use.step.is_spinning else -1
        if block >= 0 and asks & _sources(routine, block):
            found[use.instruction] = block
    return found


def _decider(routine: Routine, wait: int) -> int:
    """The block that branches either to a waiting loop or to its exit; -1 if there is none."""
    flow, forest = control_flow(routine), loops(routine)
    index = forest.innermost[flow.block_of[wait]]
    loop = forest.loops[index] if index is not None else None
    entries = [block for block in flow.blocks[loop.header].predecessors if block not in loop] if loop is not None else []
    if loop is None or len(entries) != 1:
        return -1
    at = entries[0]
    while len(flow.blocks[at].successors) == 1 and len(flow.blocks[at].predecessors) == 1:
        at = flow.blocks[at].predecessors[0]
    ends = {_onward(flow, block) for _, block in forest.exits(loop)}
    return at if any({_onward(flow, block)} == ends for block in flow.blocks[at].successors) else -1


def _onward(flow: ControlFlow, block: int) -> int:
    """The successor of a block that holds only a branch; otherwise the block itself."""
    one = flow.blocks[block]
    return one.successors[0] if one.end - one.start == 1 and len(one.successors) == 1 else block


def _sources(routine: Routine, block: int) -> set[int]:
    """The instructions that write what decides the branch at the end of a block, traced through loops and merges."""
    known, numbering = values(routine), ssa(routine).values
    guard = known.guard(control_flow(routine).blocks[block].end - 1)

    def sources(leaf: Term) -> list[Term]:
        operands = numbering[leaf.ssa_value].operands if leaf.ssa_value is not None else ()
        return [inner for operand in operands if operand >= 0 for inner in known.of(operand).leaves()]

    seen = nearest_first(guard.leaves() if guard is not None else (), sources)
    numbers = (leaf.ssa_value for leaf in seen)
    return {numbering[number].instruction for number in islice((one for one in numbers if one is not None), MOST_KINDS)}


def _max_weights(iteration: _Iteration, weight: Mapping[int, int], start: int) -> dict[int, int]:
    """The maximum weight of the paths from the start of a block to other blocks within one iteration; empty if it is unbounded."""
    most = {start: 0}
    # a path takes each back edge at most once, unless the weight grows with every iteration
    for _ in range(iteration.back + 2):
        changed = False
        for block, following in iteration.onward.items():
            if block not in most:
                continue
            through = most[block] + weight.get(block, 0)
            for after in following:
                if most.get(after, through - 1) < through:
                    most[after] = through
                    changed = True
        if not changed or not iteration.back:
            return most
    return {}


def _depends_on(follows: Callable[[_Ring, _Ring], bool], back: _Ring, ring: _Ring, rings: list[_Ring]) -> bool:
    """Whether one ring is signalled only after the other, directly or through a third."""
    if follows(back, ring):
        return True
    between_ = [one for one in rings if one is not back and one is not ring and one.asks and one.arrivals and not one.commits]
    return any(follows(one, ring) and follows(back, one) for one in between_)


def _follows(routine: Routine, back: _Ring, ring: _Ring) -> bool:
    """Whether a ring is signalled only by, or never without, threads that each wait at the other ring before each arrival."""
    counts = {use.step.amount.constant if use.step.amount is not None else None for use in ring.inits}
    least = min([count for count in counts if count is not None], default=0)
    waiting = 0
    for ask in back.asks:
        own = threads_at(routine, ask)
        if own is None:
            return False
        waiting |= own
    if None in counts or not _needs(routine, ring, waiting, least):
        return False
    return all(_waits_first(routine, back, ring, thread) for thread in _kinds(routine, [*back.asks, *ring.arrivals], waiting))


def _needs(routine: Routine, ring: _Ring, those: int, count: int) -> bool:
    """Whether the arrivals that complete a phase cannot all come from threads outside the given set."""
    others = [arrivals_besides(routine, use, those) for use in ring.arrivals]
    if None in others:
        return False
    # threads of other CTAs may wait elsewhere
    if any(use.is_remote or use.step.is_multicast for use in ring.arrivals) and any(others):
        return False
    if sum(one for one in others if one is not None) < count:
        return True
    # if the expected count equals the number of threads that arrive, anywhere, each arrives once
    reach = uniformity(routine).reach
    whole = 0
    for use in ring.arrivals:
        if use.step.times != 1 or use.step.amount is not None or reach.instruction(use.instruction).one:
            return False
        whole |= threads_at(routine, use) or 0
    return whole.bit_count() <= count and bool(whole & those)


def _kinds(routine: Routine, uses: list[Use], among: int) -> list[int]:
    """One thread of each kind; kinds differ in which of the uses they may reach."""
    masks = [threads_at(routine, use) or 0 for use in uses]
    parts = [among]
    for mask in masks:
        parts = [part for one in parts for part in (one & mask, one & ~mask) if part]
        if len(parts) > MOST_KINDS:
            break
    return [(part & -part).bit_length() - 1 for part in parts]


def _waits_first(routine: Routine, back: _Ring, ring: _Ring, thread: int) -> bool:
    """Whether a thread waits at one ring before each arrival at the other, on all its possible paths."""
    flow, reach = control_flow(routine), uniformity(routine).reach
    events: dict[int, list[tuple[int, bool]]] = {}
    for use in (*back.asks, *ring.arrivals):
        events.setdefault(flow.block_of[use.instruction], []).append((use.instruction, use.does is Does.WAIT))
    late: list[int] = []

    def through(block: int, owes: bool) -> bool:
        """Whether the thread may not have waited since its last arrival."""
        if not reach.block(block).ever >> thread & 1:
            return False
        for i, is_wait in sorted(events.get(block, ())):
            if not reach.instruction(i).ever >> thread & 1:
                continue
            if not is_wait and owes:
                late.append(i)
            owes = not is_wait
        return owes

    solution = solve(flow, through, any, lambda block: True if not block else None, False)
    late.clear()
    for block in events:
        through(block, solution.before[block])
    return not late
