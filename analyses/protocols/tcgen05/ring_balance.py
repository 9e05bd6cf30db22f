"""Loops in which MMAs release stages less often than they wait for others (9.1:9.7.16.12).

A stage changes hands: MMAs are committed to one mbarrier, other threads wait there, and then arrive at another, which the thread that
starts the MMAs waits for. So it can't be signalled more often than MMAs are committed. A loop that waits for it more often in
each round, whichever path it takes, comes to wait forever.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

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
from ptxkit.analyses.protocols.mbarrier.arriver_conventions import locations_of, ring_of
from ptxkit.analyses.protocols.mbarrier.usage import SHARED_ADDRESS_BITS, Use, address_parts, usage
from ptxkit.analyses.protocols.tcgen05.tensor_memory import tensor
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.symbolic.environment import settler
from ptxkit.analyses.symbolic.induction import rounds
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.uniformity.uniformity import uniformity
from ptxkit.frozen import frozen

MOST_KINDS = 32
"""So many kinds of threads are distinguished, by what they come to."""


@frozen(eq=False)
class _Ring:
    """What is done to the mbarriers that one instruction goes through one after the other."""

    inits: tuple[Use, ...]
    waits: tuple[Use, ...]
    """That block, and that are no second wait for a phase."""
    asks: tuple[Use, ...]
    """All waits, those that only ask and those that are guarded, too."""
    commits: tuple[Use, ...]
    arrivals: tuple[Use, ...]
    """Of threads."""


def outrun(routine: Routine) -> Iterator[Finding]:
    """The first wait of each loop that waits, in each round, for more stages than its MMAs release."""
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
                if loop in signalled or not _comes_of(follows, back, ring, rings):
                    continue
                signalled.add(loop)
                flow = control_flow(routine)
                waits = [use for use in ring.waits if flow.block_of[use.instruction] in loop]
                commits = [use for use in back.commits if flow.block_of[use.instruction] in loop]
                message = (
                    "threads wait here more often in an iteration of the loop than MMAs are committed for those who should arrive: "
                    "they deadlock"
                )
                steps = [(commits[0].instruction, "committed here"), (back.asks[0].instruction, "who arrives waits for that here")]
                steps.append((ring.arrivals[0].instruction, "and then arrives here"))
                yield Finding(waits[0].instruction, message, steps, False, is_note=True)


def _unanswered(routine: Routine, ring: _Ring) -> Iterator[Finding]:
    """The first wait of a loop that waits for more commits than are made in it, where nobody else makes any but once."""
    flow, innermost = control_flow(routine), loops(routine).innermost
    if not ring.waits or not ring.commits or ring.arrivals:
        return
    for loop in _outrun(routine, ring, ring):
        homes = [flow.block_of[use.instruction] for use in ring.commits]
        if all(home in loop or innermost[home] is None for home in homes):
            wait = next(use for use in ring.waits if flow.block_of[use.instruction] in loop)
            message = "threads wait here more often in an iteration of the loop than MMAs are committed to this mbarrier: they deadlock"
            yield Finding(wait.instruction, message, [(ring.commits[0].instruction, "committed here")], False)
            return


def out_of_step(routine: Routine) -> Iterator[Finding]:
    """The first commits to rings of which another stage is waited for first: that one is signalled only when the ring has wrapped around.

    The thread that waits there is the one that is signalled; or who starts the MMAs waited for the stage that it releases, at another ring.
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
                    "the first stage of a ring that a commit signals is not the one that is waited for first: "
                    "that one is signalled only when the ring has wrapped around"
                )
                yield Finding(use.instruction, message, [(first.instruction, "waited for first")], False)
                break


def _first_stage(routine: Routine, ring: _Ring, uses: tuple[Use, ...]) -> int | None:
    """The one stage that uses of a ring begin with, whichever path control comes to them; None if it is not known, or there are several."""
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
    """Those of some uses that control may come to from the start with none of them before."""
    before = comes_without(routine, {use.instruction for use in uses})
    return [use for use in uses if before(use.instruction)]


def _rings(routine: Routine, commits: set[int]) -> list[_Ring]:
    own: dict[int, list[Use]] = {}
    names = ring_of(routine)
    for use in usage(routine).uses:
        for name in {names[rank] for rank in locations_of(use)}:
            own.setdefault(name, []).append(use)
    return [_ring(routine, uses, commits) for uses in own.values()]


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
    """The waits of which none is for the same phase as another: all waits at one mbarrier for one parity are taken for one."""
    by_mbarrier: dict[Term | None, dict[Term | None, list[Use]]] = {}
    for use in waits:
        by_mbarrier.setdefault(use.step.address, {}).setdefault(use.step.amount, []).append(use)
    for parities in by_mbarrier.values():
        for own in parities.values():
            yield from own[:1] if len(parities) == 1 else own


def _outrun(routine: Routine, back: _Ring, ring: _Ring) -> Iterator[Loop]:
    """The loops in each round of which, on all paths by some wait, more waits are passed at one ring than commits made to another."""
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
        ahead = _most(iteration, weight, loop.header)
        for block in bits(waits):
            onward = _most(iteration, weight, block) if block in ahead else {}
            ends = [onward[latch] + weight.get(latch, 0) for latch in loop.latches if latch in onward]
            if ends and ahead[block] + max(ends) < 0:
                yield loop
                break


@frozen(eq=False)
class _Iteration:
    """What comes after what in one round of a loop, among blocks in which mbarriers are used, the first and the last."""

    onward: dict[int, list[int]]
    back: int
    """How many of these edges lead back: into inner loops."""


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
    """The waits that are left out if what was asked before succeeded, with the block that decides: who passes that has been signalled."""
    asks = {use.instruction for use in usage(routine).of(Does.WAIT) if not use.step.is_spinning}
    found = {}
    for use in usage(routine).of(Does.WAIT) if asks else ():
        block = _decider(routine, use.instruction) if use.step.is_spinning else -1
        if block >= 0 and asks & _sources(routine, block):
            found[use.instruction] = block
    return found


def _decider(routine: Routine, wait: int) -> int:
    """The block from which control comes either to a loop that waits or to where that leaves to; -1 if there is none."""
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
    """Where control comes from a block in which nothing but a jump stands."""
    one = flow.blocks[block]
    return one.successors[0] if one.end - one.start == 1 and len(one.successors) == 1 else block


def _sources(routine: Routine, block: int) -> set[int]:
    """The instructions that write what decides where control goes from the end of a block, through loops and where paths merge."""
    known, numbering = values(routine), ssa(routine).values
    guard = known.guard(control_flow(routine).blocks[block].end - 1)

    def value(leaf: Term) -> int:
        number = leaf.data[0] if leaf.operator in ("phi", "value", "join") and leaf.data else None
        return number if isinstance(number, int) else -1

    def sources(leaf: Term) -> list[Term]:
        operands = numbering[value(leaf)].operands if value(leaf) >= 0 else ()
        return [inner for operand in operands if operand >= 0 for inner in known.of(operand).leaves()]

    seen = nearest_first(guard.leaves() if guard is not None else (), sources)
    return {numbering[number].instruction for number in islice(filter(lambda one: one >= 0, map(value, seen)), MOST_KINDS)}


def _most(iteration: _Iteration, weight: Mapping[int, int], start: int) -> dict[int, int]:
    """The most that paths from the start of a block to that of others weigh in one round of a loop; nothing if there is no end to it."""
    most = {start: 0}
    # a path goes back at most once by each edge that leads back, unless its iterations weigh more and more
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


def _comes_of(follows: Callable[[_Ring, _Ring], bool], back: _Ring, ring: _Ring, rings: list[_Ring]) -> bool:
    """Whether one ring is signalled only after the other, be it by means of a third."""
    if follows(back, ring):
        return True
    between_ = [one for one in rings if one is not back and one is not ring and one.asks and one.arrivals and not one.commits]
    return any(follows(one, ring) and follows(back, one) for one in between_)


def _follows(routine: Routine, back: _Ring, ring: _Ring) -> bool:
    """Whether a ring is signalled only by, or never without, threads each of which waits at the other before each time that it arrives."""
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
    """Whether so many arrivals, which a phase takes, don't come without some threads."""
    others = [arrivals_besides(routine, use, those) for use in ring.arrivals]
    if None in others:
        return False
    # those of other CTAs may wait elsewhere
    if any(use.is_remote or use.step.is_multicast for use in ring.arrivals) and any(others):
        return False
    if sum(one for one in others if one is not None) < count:
        return True
    # where as many arrivals are expected as there are threads that arrive, here or there, each does so once
    reach = uniformity(routine).reach
    whole = 0
    for use in ring.arrivals:
        if use.step.times != 1 or use.step.amount is not None or reach.instruction(use.instruction).one:
            return False
        whole |= threads_at(routine, use) or 0
    return whole.bit_count() <= count and bool(whole & those)


def _kinds(routine: Routine, uses: list[Use], among: int) -> list[int]:
    """One thread of each kind, by which of some uses it may come to."""
    masks = [threads_at(routine, use) or 0 for use in uses]
    parts = [among]
    for mask in masks:
        parts = [part for one in parts for part in (one & mask, one & ~mask) if part]
        if len(parts) > MOST_KINDS:
            break
    return [(part & -part).bit_length() - 1 for part in parts]


def _waits_first(routine: Routine, back: _Ring, ring: _Ring, thread: int) -> bool:
    """Whether a thread waits at one ring before each time that it arrives at the other, on all paths that it may go."""
    flow, reach = control_flow(routine), uniformity(routine).reach
    events: dict[int, list[tuple[int, bool]]] = {}
    for use in (*back.asks, *ring.arrivals):
        events.setdefault(flow.block_of[use.instruction], []).append((use.instruction, use.does is Does.WAIT))
    late: list[int] = []

    def through(block: int, owes: bool) -> bool:
        """Whether it may be that the thread has not waited since it arrived."""
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
