"""What is wrong with mbarrier objects whatever way the threads go: what is missing in their lives, and what does not fit (9.7.14.15).

The lives are those of `structure`: no run is needed. What is reported cannot be right, or not in a kernel that does everything else the way
this one does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise

from ptxkit.analyses.cfg import Via, control_flow
from ptxkit.analyses.dominators import dominators
from ptxkit.analyses.launch import MOST_THREADS, WARP, WARP_MASK, launch
from ptxkit.analyses.loops import Loop, loops
from ptxkit.analyses.protocols import mbarrier
from ptxkit.analyses.protocols.copies import Finding
from ptxkit.analyses.protocols.environment import settler
from ptxkit.analyses.protocols.objects import OBJECT_BYTES
from ptxkit.analyses.protocols.rounds import rounds
from ptxkit.analyses.protocols.steps import LEAST_BYTES, Does, steps
from ptxkit.analyses.protocols.structure import (
    Life,
    Place,
    Ring,
    Use,
    Visit,
    address_parts,
    first_parity,
    first_phases,
    life,
    rings,
    visits,
)
from ptxkit.analyses.protocols.traces import cluster_size
from ptxkit.analyses.routine import Routine, fact
from ptxkit.analyses.ssa import ssa
from ptxkit.analyses.terms import Term, evaluate
from ptxkit.analyses.uniformity import uniformity
from ptxkit.analyses.values import values
from ptxkit.frozen import frozen
from ptxkit.names import Symbol

_MEETINGS = frozenset((Does.BARRIER_SYNC, Does.CLUSTER_WAIT))
_WAITING = _MEETINGS | {Does.WAIT, Does.TAKE}
LEAST_CUSTOM = 3
"""Fewer of a kind have no custom."""
MOST_CTAS = 16
"""Of a cluster that the kernel does not say the size of."""


def findings(routine: Routine) -> tuple[Finding, ...]:
    """What a run of a kernel shows to be wrong with its mbarrier objects, and if it shows nothing, what does not fit together."""
    shown = mbarrier.findings(routine)
    return shown if any(one.rule.startswith("M") for one in shown) else (*shown, *misfits(routine))


@fact
def misfits(routine: Routine) -> tuple[Finding, ...]:
    """What is missing in the lives of the mbarrier objects of a kernel, or does not fit; nothing for other functions."""
    if not routine.function.header.is_entry:
        return ()
    if not any(step.does in (Does.WAIT, Does.COPY) for own in steps(routine).values() for step in own):
        return ()
    for check in CHECKS:
        # what comes of one mistake need not be told besides
        found = tuple(check(routine, life(routine)))
        if found:
            return found
    return ()


# --- objects that nobody initializes, and what nobody does to them


def _uninitialized(routine: Routine, known: Life) -> Iterator[Finding]:
    """Objects in variables of the kernel that it arrives and waits at, and does not initialize, though it may initialize others."""
    inits = known.of(Does.INIT)
    if not known.is_closed or any(init.where is None for init in inits):
        return
    told: set[Place] = set()
    waited = {place for use in known.of(Does.WAIT) for place in use.places}
    for use in known.uses:
        if use.does in (Does.INIT, Does.INVAL, Does.WAIT) or use.where is None or not isinstance(use.where.root, Symbol):
            continue
        for place in use.places:
            if place in known.objects or place in told or place not in waited or any(_may_be(init, use, place) for init in inits):
                continue
            told.add(place)
            near = min([init.instruction for init in inits], key=lambda i: abs(i - use.instruction), default=-1)
            if use.is_fixed:
                message = "the mbarrier object is never initialized"
            else:
                behind, count = place[1] - min(use.offsets), len(use.offsets)
                message = f"{count} mbarrier objects are used here in turn, and that {behind} bytes behind the first is never initialized"
            yield Finding("M001", use.instruction, None, message, (), ((near, "another is initialized here"),), use.is_fixed)


def _may_be(init: Use, use: Use, place: Place) -> bool:
    """Whether what initializes objects may initialize one that is used."""
    if init.base == use.base and init.is_known:
        return place[1] in init.offsets
    if use.where is None or init.where is None:
        return True
    if init.where.root is use.where.root and use.is_fixed:
        return init.where.may_be(use.where)
    return init.where.may_be(use.where)


def _lengths(routine: Routine, known: Life) -> Iterator[Finding]:
    """Instructions that go through the same objects in turn, and come round after another number of them."""
    circles: dict[tuple[Place, int], list[Use]] = {}
    for use in known.uses:
        if use.does is not Does.INIT and use.is_known and use.goes_round and use.base is not None:
            # a loop unrolled by two has an instruction for every other stage
            circles.setdefault(((use.base, min(use.offsets)), _step(use)), []).append(use)
    for own in circles.values():
        sizes = Counter([len(use.offsets) for use in own])
        waited, told = [{len(use.offsets) for use in own if (use.does is Does.WAIT) is is_wait} for is_wait in (True, False)]
        # a kernel may do its work in two ways: each has threads that wait and threads that arrive
        if len(sizes) == 1 or not waited or not told or waited == told:
            continue
        # of two lengths the one that fits the objects is right, or the one that most keep to
        usual = max(sizes, key=lambda size: (_fits(known, own[0], size), sizes[size]))
        one = next(use for use in own if len(use.offsets) != usual)
        other = next(use for use in own if len(use.offsets) == usual)
        message = (
            f"here the ring of mbarrier objects has {len(one.offsets)} stages, and elsewhere the same ring has {usual}: "
            "after one round threads wait and arrive at different stages"
        )
        yield Finding("M008", one.instruction, None, message, (), ((other.instruction, f"comes round after {usual}"),), False)
    rounds_ = {(use.base, use.offsets): use for use in known.uses if use.does is not Does.INIT and use.goes_round and use.base is not None}
    for (base, offsets), use in rounds_.items():
        for (its, others), other in rounds_.items():
            inside = its == base and use.is_known and min(offsets) < min(others) <= max(offsets) < max(others) and offsets & others
            if inside:
                message = (
                    f"the ring of {len(offsets)} mbarrier objects that is gone through here runs into another: "
                    "the last of its stages are the first of that"
                )
                yield Finding("M008", use.instruction, None, message, (), ((other.instruction, "the other is used here"),), False)
                return


def _step(use: Use) -> int:
    """How far apart the objects are that an instruction goes through, in bytes; 0 if that differs."""
    offsets = sorted(use.offsets)
    steps = {after - before for before, after in pairwise(offsets)}
    return steps.pop() if len(steps) == 1 else 0


def _fits(known: Life, use: Use, size: int) -> bool:
    """Whether a ring of so many stages is initialized, all for as many arrivals."""
    assert use.base is not None
    first = min(use.offsets)
    counts = set()
    for stage in range(size):
        inits = known.objects.get((use.base, first + stage * (_step(use) or OBJECT_BYTES)))
        if inits is None:
            return False
        counts.add(inits[0].step.amount)
    return len(counts) == 1


def _counts(routine: Routine, known: Life) -> Iterator[Finding]:
    """Stages of one ring that expect different numbers of arrivals."""
    for ring in rings(routine):
        if not ring.moves or any(len(known.objects[ring.base, offset]) > 1 for offset in ring.offsets):
            continue
        inits = [use for use in ring.of(Does.INIT) if use.step.amount is not None and use.step.amount.constant is not None]
        counts = Counter([use.step.amount.constant for use in inits if use.step.amount is not None])
        if len(counts) < 2:
            continue
        usual = counts.most_common(1)[0][0]
        one = next(use for use in inits if use.step.amount is not None and use.step.amount.constant != usual)
        other = next(use for use in inits if use.step.amount is not None and use.step.amount.constant == usual)
        arrivals = [use for use in ring.of(Does.ARRIVE) if use.offsets & (one.offsets | other.offsets)]
        if not arrivals or any(not (use.offsets & one.offsets and use.offsets & other.offsets) for use in arrivals):
            # others arrive at the one than at the other
            continue
        arrival = arrivals[0]
        assert one.step.amount is not None
        own = one.step.amount.constant
        message = f"this stage of a ring expects {own} arrivals in each phase, and another {usual}: the same instructions arrive at both"
        steps_ = ((other.instruction, f"initialized for {usual} here"), (arrival.instruction, "arrived at here"))
        yield Finding("M005", one.instruction, None, message, (), steps_, False)


def _missing(routine: Routine, known: Life) -> Iterator[Finding]:
    """Objects that nobody arrives at, though threads wait; at which nobody waits; of which bytes come or are announced, but not both."""
    if not known.is_closed:
        return
    for ring in rings(routine):
        inits, waits, arrivals = ring.of(Does.INIT), ring.of(Does.WAIT), ring.of(Does.ARRIVE)
        copies, expects = ring.of(Does.COPY), ring.of(Does.EXPECT)
        init = inits[0].instruction
        blocking = next((wait for wait in waits if wait.step.is_spinning and _may_block(routine, wait)), None)
        if blocking is not None and not ring.may_be(Does.ARRIVE):
            message = "a thread waits here for ever: nothing in the kernel arrives at the mbarrier object"
            steps_ = [(init, "initialized here"), *[(one.instruction, "bytes are no arrival") for one in (*copies, *expects)[:1]]]
            yield Finding("M009", blocking.instruction, None, message, (), tuple(steps_))
        if copies and waits and not ring.may_be(Does.EXPECT):
            message = "the bytes of this copy are counted by an mbarrier object that is never told to expect any"
            steps_ = [
                (one.instruction, word) for one, word in ((waits[0], "waited at here"), *[(a, "arrived at here") for a in arrivals[:1]])
            ]
            yield Finding("M007", copies[0].instruction, None, message, (), tuple(steps_))
        if expects and waits and not ring.may_be(Does.COPY) and _announces(expects[0]):
            message = "bytes are announced to an mbarrier object that nothing tells of any: its phase never completes"
            yield Finding("M006", expects[0].instruction, None, message, (), ((waits[0].instruction, "waited at here"),))
        if (copies or arrivals) and not ring.may_be(Does.WAIT):
            one = (copies or arrivals)[0]
            word = "tells an mbarrier object of its bytes" if copies else "arrives at an mbarrier object"
            message = f"this {word}, and nothing in the kernel waits there: nobody knows when it is done"
            yield Finding("M019", one.instruction, None, message, (), ((init, "initialized here"),), False)


def _announces(use: Use) -> bool:
    amount = use.step.amount
    return amount is not None and amount.bounds[0] > 0


def _may_block(routine: Routine, use: Use) -> bool:
    """Whether a wait is sometimes for another phase than the one before the first."""
    amount = use.step.amount
    if amount is None or use.step.by_state:
        return False
    parity = settler(routine).term(amount)
    if parity.constant is not None:
        return not parity.constant & 1
    return first_parity(routine, use) == 0 or any(leaf.operator == "phi" for leaf in parity.leaves())


# --- when they are used first


def _published(routine: Routine, known: Life) -> Iterator[Finding]:
    """Uses that a thread may come to without a barrier behind the initialization."""
    inits = known.of(Does.INIT)
    flow = control_flow(routine)
    meetings = {i for i, own in steps(routine).items() if any(step.does in _MEETINGS for step in own)}
    cuts = set(meetings)
    most = launch(routine).most[0]
    if most <= WARP or most >= MOST_THREADS:
        cuts |= {i for i, own in steps(routine).items() if any(step.does is Does.JOIN for step in own)}
    cuts |= {init.instruction for init in inits}
    before = _before(routine, cuts)
    for use in known.uses:
        if use.does is Does.INIT or not before(use.instruction):
            continue
        init = next((init for init in inits if init.base == use.base and init.offsets & use.offsets), None)
        # who initializes an object may use it
        if init is None or not (mine := _threads(routine, use)) or not (its := _threads(routine, init)) or not mine & ~its:
            continue
        # a barrier that threads may come to in between may be theirs, whatever decides about it
        onward = _onward(routine, init.instruction)
        if any(onward >> flow.block_of[i] & 1 and _onward(routine, i) >> flow.block_of[use.instruction] & 1 for i in meetings):
            continue
        message = "threads come to use the mbarrier object here, and nothing makes them wait until another has initialized it"
        yield Finding("M002", use.instruction, None, message, (), ((init.instruction, "initialized here"),), False)
        return


def _onward(routine: Routine, i: int) -> int:
    """The blocks that control comes to from an instruction without going back, as bits."""
    flow = control_flow(routine)
    found = 1 << flow.block_of[i]
    work = [flow.block_of[i]]
    while work:
        block = work.pop()
        for after in flow.blocks[block].successors:
            if after > block and not found >> after & 1:
                found |= 1 << after
                work.append(after)
    return found


def _before(routine: Routine, cuts: set[int], start: int = 0) -> Callable[[int], bool]:
    """Tells of an instruction whether control can come to it, from another on, without any of some that are between."""
    flow = control_flow(routine)
    if start >= len(flow.block_of):
        return lambda i: False
    first: dict[int, int] = {}
    for i in sorted(cuts, reverse=True):
        first[flow.block_of[i]] = i
    home = flow.block_of[start]
    here = [i for i in cuts if flow.block_of[i] == home and i >= start]
    seen: set[int] = set()
    # the rest of the block, then all that follows
    work = [] if here else list(flow.blocks[home].successors)
    seen.update(work)
    while work:
        block = work.pop()
        if block in first:
            continue
        for after in flow.blocks[block].successors:
            if after not in seen:
                seen.add(after)
                work.append(after)

    def comes(i: int) -> bool:
        if flow.block_of[i] == home and start <= i <= min(here, default=i):
            return True
        return flow.block_of[i] in seen and i <= first.get(flow.block_of[i], i)

    return comes


def _standstill(routine: Routine, known: Life) -> Iterator[Finding]:
    """Waits for a first phase that only threads could complete that wait for one themselves."""
    if not known.is_closed:
        return
    own = rings(routine)
    blocking = {ring: [one.use for one in visits(routine, ring) if one.parity == 0 and one.use.step.is_spinning] for ring in own}
    peeks = {ring: [one.use for one in visits(routine, ring) if one.parity == 0 and not one.use.step.is_spinning] for ring in own}
    starts: set[Ring] = {ring for ring in own if any(use.does is Does.ARRIVE for use in ring.others)}
    while True:
        cuts = {use.instruction for ring in own if ring not in starts for use in (*blocking[ring], *peeks[ring])}
        before = _before(routine, cuts)
        more = {ring for ring in own if ring not in starts and any(before(use.instruction) for use in ring.of(Does.ARRIVE))}
        if not more:
            break
        starts |= more
    stuck = [ring for ring in own if ring not in starts and blocking[ring] and ring.of(Does.ARRIVE)]
    before = _before(routine, {use.instruction for ring in stuck for use in (*blocking[ring], *peeks[ring])})
    for ring in stuck:
        wait = blocking[ring][0]
        if len(stuck) == 1:
            other = ring.of(Does.ARRIVE)[0]
            what = "all arrivals come behind such a wait"
        else:
            other = next(blocking[one][0] for one in stuck if one is not ring)
            what = "those that should arrive wait here"
        message = "a first phase is waited for here, and whoever could complete it waits for a first phase, too: for ever"
        yield Finding(
            "M008",
            wait.instruction,
            None,
            message,
            (),
            ((other.instruction, what), (ring.of(Does.INIT)[0].instruction, "initialized here")),
            False,
        )
        return


def _parities(routine: Routine, known: Life) -> Iterator[Finding]:
    """Waits at the stages of one ring of which some pass the first time and others do not."""
    for ring in rings(routine):
        own = [one for one in visits(routine, ring) if one.parity is not None and one.use.goes_round]
        if _takes_turns(routine, own):
            continue
        counts = Counter([one.parity for one in own])
        usual = counts.most_common(1)[0][0] if counts else None
        # who waits for a phase and who waits for the one before may be different threads
        apart = [
            (one, other)
            for one in own
            for other in own
            if one.parity != usual and other.parity == usual and _are_same_threads(routine, one.use, other.use)
        ]
        if not apart:
            continue
        one, other = apart[0]
        passes = "passes at once the first time" if one.parity else "waits for the first phase the first time"
        instead = "passes at once" if usual else "waits for the first phase"
        message = f"this wait at a ring {passes}, and another at the same ring {instead}: one of them is for the other parity"
        yield Finding("M008", one.use.instruction, None, message, (), ((other.use.instruction, f"{instead} here"),), False)


def _are_same_threads(routine: Routine, one: Use, other: Use) -> bool:
    """Whether some threads come to both uses, for all that is known."""
    mine, its = _threads(routine, one), _threads(routine, other)
    return mine is not None and its is not None and bool(mine & its)


def _takes_turns(routine: Routine, own: list[Visit]) -> bool:
    """Whether a stage has several phases in one round of a loop: threads wait for both parities there."""
    flow, forest = control_flow(routine), loops(routine)
    seen: dict[int | None, set[int | None]] = {}
    for one in own:
        if one.use.step.is_spinning:
            # around the loop of the wait itself is the loop that is meant
            index = forest.innermost[flow.block_of[one.use.instruction]]
            index = forest.loops[index].parent if index is not None else None
            seen.setdefault(index, set()).add(one.parity)
    return any(index is not None and len(parities) > 1 for index, parities in seen.items())


def _crowds(routine: Routine, known: Life) -> Iterator[Finding]:
    """Objects that expect more arrivals than can come in one phase, if each instruction arrives at most once in it."""
    if not known.is_closed:
        return
    for ring in rings(routine):
        inits = [use for use in ring.of(Does.INIT) if use.step.amount is not None and use.step.amount.constant is not None]
        waits = [use for use in ring.of(Does.WAIT) if use.step.is_spinning]
        sites = [use for use in (*ring.uses, *ring.others) if use.does is Does.ARRIVE]
        if not inits or not waits or not ring.of(Does.ARRIVE):
            continue
        for init in inits:
            own = [site for site in sites if site not in ring.uses or not site.is_known or site.offsets & init.offsets]
            counts = [_arrivals(routine, site) for site in own]
            assert init.step.amount is not None
            count = init.step.amount.constant
            if None in counts or count is None or not own or count <= (most := sum(one for one in counts if one is not None)):
                continue
            message = (
                f"the mbarrier object expects {count} arrivals in each phase, and at most {most} come: threads that wait do so for ever"
            )
            steps_ = [(site.instruction, f"at most {n} threads arrive here") for site, n in zip(own, counts, strict=True)][:4]
            yield Finding("M005", init.instruction, None, message, (), (*steps_, (waits[0].instruction, "waited for here")), False)
            break


def _arrivals(routine: Routine, use: Use) -> int | None:
    """The most arrivals that an instruction makes at an object in one phase; None if there is no bound."""
    if _comes_again(routine, use.instruction):
        return None
    most = _besides(routine, use, 0)
    if most is not None and (use.step.is_multicast or use.is_remote):
        most *= cluster_size(routine) or MOST_CTAS
    return most


def _besides(routine: Routine, use: Use, without: int) -> int | None:
    """The most arrivals of threads that are not among some, when all execute an instruction once; None if that is not known."""
    step = use.step
    times = step.times
    if step.amount is not None:
        if step.amount.constant is None:
            return None
        times *= step.amount.constant
    threads = _threads(routine, use)
    if threads is None or step.drops:
        return None
    if not uniformity(routine).reach.instruction(use.instruction).one:
        return (threads & ~without).bit_count() * times
    warps = range(0, threads.bit_length(), WARP)
    return sum(bool(threads >> first & ~(without >> first) & WARP_MASK) for first in warps) * times


def _threads(routine: Routine, use: Use) -> int | None:
    """The threads of a CTA that may come to a use, as bits; None if it is not known how they are laid out."""
    reach = uniformity(routine).reach
    return reach.instruction(use.instruction).ever if reach.template.has_places else None


def _comes_again(routine: Routine, i: int) -> bool:
    """Whether a thread may come back to an instruction without waiting at any mbarrier object in between."""
    flow, forest = control_flow(routine), loops(routine)
    index = forest.innermost[flow.block_of[i]]
    if index is None:
        return False
    waits = {use.instruction for use in life(routine).of(Does.WAIT)}
    within = [use for use in life(routine).of(Does.WAIT) if flow.block_of[use.instruction] in forest.loops[index]]
    asked = {(use.base, use.offsets) for use in within if not use.step.is_spinning}
    if any(use.step.is_spinning and (use.base, use.offsets) in asked for use in within):
        # a wait that is left out if it was asked before
        return False
    return _before(routine, waits, i + 1)(i)


def _peeks(routine: Routine, known: Life) -> Iterator[Finding]:
    """Waits that are tried before a loop, for another parity than the wait in the loop that is left out if they succeed."""
    for ring in rings(routine):
        own = ring.of(Does.WAIT)
        for peek in own:
            if peek.step.is_spinning:
                continue
            ahead = _before(routine, {use.instruction for use in own if use is not peek}, peek.instruction + 1)
            for wait in own:
                if not wait.step.is_spinning or not ahead(wait.instruction) or not _is_before_loop(routine, peek, wait):
                    continue
                tried, waited = first_phases(routine, peek), first_phases(routine, wait)
                if tried and waited and not tried & waited and {one[0] for one in tried} == {one[0] for one in waited}:
                    message = "this asks for another parity than the wait that is left out if it says yes"
                    yield Finding("M008", peek.instruction, None, message, (), ((wait.instruction, "left out then"),), False)
                    return


def _is_before_loop(routine: Routine, peek: Use, wait: Use) -> bool:
    flow, forest = control_flow(routine), loops(routine)
    index = forest.innermost[flow.block_of[wait.instruction]]
    while index is not None:
        loop = forest.loops[index]
        if flow.block_of[peek.instruction] not in loop and not wait.step.is_spinning:
            return True
        index = loop.parent
    return peek.instruction < wait.instruction


def _first_round(routine: Routine, known: Life) -> Iterator[Finding]:
    """Objects that count the bytes of copies, and of which no wait is for the first phase."""
    for ring in rings(routine):
        own, copies = visits(routine, ring), ring.of(Does.COPY)
        if not copies or not own or any(one.parity != 1 for one in own) or any(use.does is Does.WAIT for use in ring.others):
            continue
        message = "all waits for the bytes of this mbarrier object pass at once the first time: nobody waits for its first phase"
        yield Finding("M008", own[0].use.instruction, None, message, (), ((copies[0].instruction, "copied here"),), False)


def _unannounced(routine: Routine, known: Life) -> Iterator[Finding]:
    """Copies whose phase one arrival completes that announces no bytes."""
    for ring in rings(routine):
        counts = {use.step.amount.constant for use in ring.of(Does.INIT) if use.step.amount is not None}
        announced = {use.instruction for use in (*ring.uses, *ring.others) if use.does is Does.EXPECT}
        arrivals = ring.of(Does.ARRIVE)
        plain = [use for use in arrivals if use.instruction not in announced]
        copies = ring.of(Does.COPY)
        # an announcement that is no arrival may come from anywhere
        told = {use.instruction for use in (*ring.uses, *ring.others) if use.does is Does.ARRIVE}
        if counts != {1} or not plain or not copies or announced - told:
            continue
        # behind a wait it is another phase
        stops = {use.instruction for use in arrivals} | {use.instruction for use in known.of(Does.WAIT) if use.step.is_spinning}
        for arrival in plain:
            behind = _before(routine, stops, arrival.instruction + 1)
            copy = next((one for one in copies if behind(one.instruction)), None)
            if copy is None:
                copy = next((one for one in copies if _before(routine, stops, one.instruction + 1)(arrival.instruction)), None)
            if copy is not None:
                message = "bytes of this copy are counted in a phase that a single arrival completes, and that arrival announces none"
                yield Finding("M007", copy.instruction, None, message, (), ((arrival.instruction, "arrived at here"),), False)
                return


def _rooms(routine: Routine, known: Life) -> Iterator[Finding]:
    """Announcements of more bytes than a stage has room for."""
    for ring in rings(routine):
        copies = ring.of(Does.COPY)
        if not ring.moves or not copies or any(use.does is Does.COPY for use in ring.others):
            continue
        room = _room(routine, ring, copies)
        if room is None:
            continue
        for use in ring.of(Does.EXPECT):
            amount = use.step.amount.constant if use.step.amount is not None else None
            if amount is not None and amount > room:
                message = f"{amount} bytes are announced for a stage, and the stages that are copied to are {room} bytes apart altogether"
                yield Finding("M006", use.instruction, None, message, (), ((copies[0].instruction, "copied here"),), False)
                return


def _room(routine: Routine, ring: Ring, copies: list[Use]) -> int | None:
    """How many bytes lie between a stage and the next, in all that copies write; None if that is not known."""
    starts: dict[object, dict[int, int]] = {}
    for copy in copies:
        parts = address_parts(routine, copy.step.target) if copy.step.target is not None else None
        if parts is None:
            return None
        base, offset, index = parts
        numbers = sorted(rounds(routine).numbers(index))
        if len(numbers) != len(ring.offsets):
            return None
        steps_ = {after - before for before, after in pairwise(numbers)}
        if len(steps_) != 1:
            return None
        stride = steps_.pop()
        starts.setdefault(base, {})[offset + numbers[0]] = stride
    room = 0
    for own in starts.values():
        end = None
        for start, stride in sorted(own.items()):
            if end is None or start >= end:
                room += stride
                end = start + stride
    is_shared = any(copy.step.is_multicast or copy.is_remote for copy in copies)
    return 2 * room if is_shared else room


@frozen(eq=False)
class _Load:
    """What is announced for a phase, and the copies by tensor maps that bring it."""

    expect: Use
    copy: Use
    amount: int
    maps: tuple[tuple[Term, int], ...]
    """With how many copies there are by each."""


def _boxes(routine: Routine, known: Life) -> Iterator[Finding]:
    """Announcements that do not fit the boxes of the tensor maps that the copies are by: all copies by one map bring as many bytes."""
    loads = [load for ring in rings(routine) for load in _loads(routine, ring)]
    boxes: dict[Term, dict[int, list[_Load]]] = {}
    for load in loads:
        count = sum(number for _, number in load.maps)
        if len(load.maps) > 1:
            continue
        if load.amount % (LEAST_BYTES * count):
            message = (
                f"{load.amount} bytes are announced, and {count} copies by one tensor map bring them: "
                f"each brings as many, a multiple of {LEAST_BYTES}"
            )
            yield Finding("M006", load.expect.instruction, None, message, (), ((load.copy.instruction, "copied here"),), False)
            return
        boxes.setdefault(load.maps[0][0], {}).setdefault(load.amount // count, []).append(load)
    for sizes in boxes.values():
        usual = max(sizes, key=lambda size: len(sizes[size]))
        for size, own in sizes.items():
            one, other = own[0], next((load for load in sizes[usual] if _may_both_come(routine, load, own[0])), None)
            if size != usual and other is not None:
                message = f"this announces {size} bytes for each copy by a tensor map, and elsewhere a copy by the same map brings {usual}"
                steps_ = ((other.expect.instruction, f"{usual} bytes for each here"),)
                yield Finding("M006", one.expect.instruction, None, message, (), steps_, False)
                return
    for load in loads:
        alone = [
            next((one for one in boxes.get(map_, {}).items() if _may_both_come(routine, one[1][0], load)), None) for map_, _ in load.maps
        ]
        if None in alone:
            continue
        brought = sum(number * one[0] for (_, number), one in zip(load.maps, alone, strict=True) if one is not None)
        if brought != load.amount:
            message = f"{load.amount} bytes are announced, and the copies bring {brought}: so much copies by these maps bring elsewhere"
            yield Finding("M006", load.expect.instruction, None, message, (), ((load.copy.instruction, "copied here"),), False)
            return
    for one in loads:
        for other in loads:
            if one.maps == other.maps and one.amount != other.amount and _may_both_come(routine, one, other):
                rare = min((one, other), key=lambda load: sum(load.amount == like.amount for like in loads if like.maps == load.maps))
                usual_ = other if rare is one else one
                message = f"{rare.amount} bytes are announced, and for as many copies by the same tensor maps elsewhere {usual_.amount}"
                steps_ = ((usual_.expect.instruction, f"{usual_.amount} bytes here"),)
                yield Finding("M006", rare.expect.instruction, None, message, (), steps_, False)
                return


def _may_both_come(routine: Routine, one: _Load, other: _Load) -> bool:
    """Whether a thread may come from one to the other: a kernel may do its work in several ways, with other boxes."""
    flow = control_flow(routine)
    mine, its = one.expect.instruction, other.expect.instruction
    return bool(_onward(routine, mine) >> flow.block_of[its] & 1 or _onward(routine, its) >> flow.block_of[mine] & 1)


def _loads(routine: Routine, ring: Ring) -> Iterator[_Load]:
    """What is announced and copied between one wait and the next for one stage, where all that do the one do the other."""
    if any(use.does in (Does.COPY, Does.EXPECT) for use in ring.others):
        return
    flow, forest = control_flow(routine), loops(routine)
    dominates = dominators(routine).tree.dominates
    waits = [use for use in life(routine).of(Does.WAIT) if use.step.is_spinning]
    groups: dict[tuple[object, ...], list[Use]] = {}
    for use in sorted(ring.of(Does.EXPECT, Does.COPY), key=lambda use: use.instruction):
        block = flow.block_of[use.instruction]
        last = -1
        for wait in waits:
            its = flow.block_of[wait.instruction]
            if wait.instruction < use.instruction if its == block else dominates(its, block):
                # of two that all ways come by, the later one
                last = wait.instruction if last < 0 or dominates(flow.block_of[last], its) else last
        groups.setdefault((last, forest.innermost[block], use.index, use.offsets if use.is_fixed else None), []).append(use)
    for own in groups.values():
        expects, copies = [[use for use in own if use.does is does] for does in (Does.EXPECT, Does.COPY)]
        amounts = [use.step.amount.constant for use in expects if use.step.amount is not None]
        if not expects or not copies or None in amounts or not all(_goes_with(routine, own[0], use) for use in own):
            continue
        if any(copy.step.map is None or copy.step.is_multicast or copy.is_remote for copy in copies):
            continue
        maps = Counter([settler(routine).term(copy.step.map) for copy in copies if copy.step.map is not None])
        amount = sum(one for one in amounts if one is not None)
        yield _Load(expects[-1], copies[0], amount, tuple(sorted(maps.items(), key=lambda item: item[0].serial)))


def _goes_with(routine: Routine, one: Use, other: Use) -> bool:
    """Whether threads that do the one do the other behind it."""
    flow, both = control_flow(routine), dominators(routine)
    mine, its = flow.block_of[one.instruction], flow.block_of[other.instruction]
    return mine == its or (both.tree.dominates(mine, its) and both.post.dominates(its, mine))


def _kept(routine: Routine, known: Life) -> Iterator[Finding]:
    """Loops in which threads wait for stage after stage and give none back, though it needs them to."""
    if not known.is_closed:
        return
    for filled, freed in _pairs(routine):
        sites = [use for use in (*freed.uses, *freed.others) if use.does is Does.ARRIVE]
        for wait in filled.of(Does.WAIT):
            loop = _round_of(routine, wait)
            if loop is None or not wait.step.is_spinning or any(_is_in(routine, site, loop) for site in sites):
                continue
            if not _is_needed(routine, freed, wait):
                continue
            refill = next((use for use in freed.of(Does.WAIT)), None)
            message = "threads wait here for one stage after the other, and give none back: whoever fills them waits for ever"
            steps_ = [(refill.instruction, "waits until a stage was given back")] if refill is not None else []
            steps_ += [(site.instruction, "given back here, behind the loop or elsewhere") for site in sites[:1]]
            yield Finding("M009", wait.instruction, None, message, (), tuple(steps_), False)
            return


def _ahead(routine: Routine, known: Life) -> Iterator[Finding]:
    """Loops in which threads arrive for stage after stage and wait for nothing."""
    waiting = {i for i, own in steps(routine).items() if any(step.does in _WAITING for step in own)}
    flow = control_flow(routine)
    for filled, freed in _pairs(routine):
        for ring, other in ((filled, freed), (freed, filled)):
            for use in ring.of(Does.ARRIVE):
                loop = _round_of(routine, use)
                if loop is None or any(flow.block_of[i] in loop for i in waiting):
                    continue
                asked = next(iter(other.of(Does.WAIT)), None)
                message = "threads arrive here for one stage after the other and wait for nothing: none knows when a stage is its own again"
                steps_ = ((asked.instruction, "others wait for such a stage here"),) if asked is not None else ()
                yield Finding("M018", use.instruction, None, message, (), steps_, False)
                return


def _uneven(routine: Routine, known: Life) -> Iterator[Finding]:
    """Loops that go through several stages in one round, wait for all of them and do not give one back, or the other way round."""
    if not known.is_closed:
        return
    for filled, freed in _pairs(routine):
        waits = _by_round(routine, [use for use in filled.of(Does.WAIT) if use.step.is_spinning])
        arrivals = _by_round(routine, freed.of(Does.ARRIVE))
        for loop in waits.keys() & arrivals.keys():
            asked, given = waits[loop], arrivals[loop]
            if asked.keys() < given.keys() and _goes_on_by(routine, loop, given, filled):
                one = next(given[index] for index in given if index not in asked)
                message = "threads arrive here for a stage that they did not wait for, as they do for the other stages of the round"
                steps_ = ((next(iter(asked.values())).instruction, "waited for another stage here"),)
                yield Finding("M018", one.instruction, None, message, (), steps_, False)
                return
            if given.keys() < asked.keys() and _goes_on_by(routine, loop, asked, filled):
                one = next(asked[index] for index in asked if index not in given)
                if _is_needed(routine, freed, one):
                    message = (
                        "a stage that is waited for here is not given back, as the other stages of the round are: its phase never completes"
                    )
                    steps_ = ((next(iter(given.values())).instruction, "another stage is given back here"),)
                    yield Finding("M009", one.instruction, None, message, (), steps_, False)
                    return


def _goes_on_by(routine: Routine, loop: Loop, uses: dict[Term, Use], ring: Ring) -> bool:
    """Whether a round of a loop takes it as many stages further as there are uses in it."""
    numbering, flow = ssa(routine), control_flow(routine)
    leaves = {leaf for index in uses for leaf in index.leaves()}
    if len(leaves) != 1:
        return False
    leaf = leaves.pop()
    number = leaf.data[0]
    if not isinstance(number, int) or number not in numbering.phis[loop.header]:
        return False
    dominates = dominators(routine).tree.dominates
    places = [place for place, before in enumerate(flow.blocks[loop.header].predecessors) if dominates(loop.header, before)]
    steps_ = {
        evaluate(values(routine).of(numbering.values[number].operands[place]), lambda one: 0 if one is leaf else None) for place in places
    }
    return steps_ == {len(uses) % len(ring.offsets)}


def _by_round(routine: Routine, uses: list[Use]) -> dict[Loop, dict[Term, Use]]:
    """Uses by the loop whose rounds their stage goes by, and by stage."""
    found: dict[Loop, dict[Term, Use]] = {}
    for use in uses:
        loop = _round_of(routine, use)
        if loop is not None and use.index is not None:
            found.setdefault(loop, {})[use.index] = use
    return found


def _is_needed(routine: Routine, ring: Ring, wait: Use) -> bool:
    """Whether no phase of a ring completes without the threads that come to a wait."""
    counts = {use.step.amount.constant for use in ring.of(Does.INIT) if use.step.amount is not None}
    count = counts.pop() if len(counts) == 1 else None
    sites = [use for use in (*ring.uses, *ring.others) if use.does is Does.ARRIVE]
    waiting = _threads(routine, wait)
    if count is None or waiting is None or any(site.is_remote or site.step.is_multicast for site in sites):
        return False
    others = [_besides(routine, site, waiting) for site in sites]
    return None not in others and count > sum(one for one in others if one is not None)


def _pairs(routine: Routine) -> list[tuple[Ring, Ring]]:
    """Rings that are gone through with one number: threads wait at a stage of the first and arrive at the same of the second."""
    found = []
    for one in rings(routine):
        waited = {use.index for use in one.of(Does.WAIT) if use.goes_round and use.step.is_spinning}
        for other in rings(routine):
            if one is not other and len(one.offsets) == len(other.offsets) and any(use.index in waited for use in other.of(Does.ARRIVE)):
                found.append((one, other))
    return found


def _round_of(routine: Routine, use: Use) -> Loop | None:
    """The loop whose rounds the stage of a use goes by; None if it is not one loop that may go on for ever."""
    if not use.goes_round or use.index is None:
        return None
    forest = loops(routine)
    phis = {leaf.data[0] for leaf in use.index.leaves()}
    index = forest.innermost[control_flow(routine).block_of[use.instruction]]
    while index is not None:
        loop = forest.loops[index]
        own = set(ssa(routine).phis[loop.header])
        if phis & own:
            return loop if phis <= own else None
        index = loop.parent
    return None


def _is_in(routine: Routine, use: Use, loop: Loop) -> bool:
    return control_flow(routine).block_of[use.instruction] in loop


def _left_out(routine: Routine, known: Life) -> Iterator[Finding]:
    """Waits that are left out in the first round of a loop whatever went before, though the stage is then one that was used before."""
    flow, both, terms = control_flow(routine), dominators(routine), values(routine).terms
    for ring in rings(routine):
        for wait in ring.of(Does.WAIT):
            loop = _round_of(routine, wait)
            if loop is None or wait.index is None or not wait.step.is_spinning or not _comes_used(routine, wait.index, loop):
                continue
            home = flow.block_of[wait.instruction]
            for block in both.depends_on(home):
                guard = values(routine).guard(flow.blocks[block].end - 1)
                if block not in loop or block == home or guard is None:
                    continue
                edges = [edge for edge in flow.blocks[block].edges if both.tree.dominates(edge.target, home)]
                if len(edges) != 1 or edges[0].via not in (Via.TAKEN, Via.NOT_TAKEN):
                    continue
                asked = guard if edges[0].via is not Via.NOT_TAKEN else terms.invert(guard)
                taken = {value for _, _, value in rounds(routine).first(wait.index, asked)}
                if taken != {0} or not any(leaf.operator == "phi" for leaf in asked.leaves()):
                    continue
                if any(other is not wait and _leads_to(routine, other, loop) for other in ring.of(Does.WAIT)):
                    continue
                message = "this wait is left out in the first round of the loop on all ways, and nothing else has asked for the stage"
                rule = "M019" if ring.of(Does.COPY) else "M018"
                branch = flow.blocks[block].end - 1
                yield Finding(rule, wait.instruction, None, message, (), ((branch, "left out by this"),), False)
                return


def _leads_to(routine: Routine, use: Use, loop: Loop) -> bool:
    """Whether threads come from a use to a loop that it is not in, without going round another loop."""
    return not _is_in(routine, use, loop) and bool(_onward(routine, use.instruction) >> loop.header & 1)


def _comes_used(routine: Routine, index: Term, loop: Loop) -> bool:
    """Whether the stage that a loop begins with goes by what went before it."""
    flow, numbering = control_flow(routine), ssa(routine)
    dominates = dominators(routine).tree.dominates
    for leaf in index.leaves():
        number = leaf.data[0]
        if not isinstance(number, int) or number not in numbering.phis[loop.header]:
            return False
        for before, operand in zip(flow.blocks[loop.header].predecessors, numbering.values[number].operands, strict=False):
            if not dominates(loop.header, before) and operand >= 0 and values(routine).of(operand).constant is None:
                return True
    return False


# --- what is unlike all else in the kernel, and may still be right


def _customs(routine: Routine, known: Life) -> Iterator[Finding]:
    """What one place does otherwise than all others of its kind."""
    for ring in rings(routine):
        yield from _first_ones(routine, ring)
        yield from _unlike(ring)


def _first_ones(routine: Routine, ring: Ring) -> Iterator[Finding]:
    """First waits of threads at objects of which one is for another parity than those of other threads."""
    own = visits(routine, ring)
    first = [one for one in own if one.parity is not None and not any(_may_precede(routine, other.use, one.use) for other in own)]
    counts = Counter([one.parity for one in first])
    if len(counts) < 2 or min(counts.values()) > 1 or len(first) < LEAST_CUSTOM:
        return
    rare = min(counts, key=lambda parity: counts[parity])
    one = next(one for one in first if one.parity == rare)
    other = next(one for one in first if one.parity != rare)
    message = "the first wait of these threads at the mbarrier object is for another parity than that of all others"
    yield Finding("M008", one.use.instruction, None, message, (), ((other.use.instruction, "others wait here"),), False, True)


def _may_precede(routine: Routine, one: Use, other: Use) -> bool:
    """Whether a thread may come from one wait to another."""
    if one is other or not _are_same_threads(routine, one, other):
        return False
    flow = control_flow(routine)
    mine, its = flow.block_of[one.instruction], flow.block_of[other.instruction]
    return one.instruction < other.instruction if mine == its else bool(_onward(routine, one.instruction) >> its & 1)


def _unlike(ring: Ring) -> Iterator[Finding]:
    """A stage of a ring that expects another number of arrivals than all others."""
    inits = [use for use in ring.of(Does.INIT) if use.step.amount is not None and use.step.amount.constant is not None]
    counts = Counter([use.step.amount.constant for use in inits if use.step.amount is not None])
    if not ring.moves or len(counts) != 2 or min(counts.values()) > 1:
        return
    rare = min(counts, key=lambda count: counts[count])
    one = next(use for use in inits if use.step.amount is not None and use.step.amount.constant == rare)
    other = next(use for use in inits if use is not one)
    message = f"this stage of a ring expects {rare} arrivals in each phase, unlike all others"
    yield Finding("M005", one.instruction, None, message, (), ((other.instruction, "another stage is initialized here"),), False, True)


CHECKS: tuple[Callable[[Routine, Life], Iterator[Finding]], ...] = (
    _lengths,
    _uninitialized,
    _counts,
    _missing,
    _published,
    _standstill,
    _parities,
    _peeks,
    _first_round,
    _crowds,
    _unannounced,
    _rooms,
    _boxes,
    _kept,
    _ahead,
    _uneven,
    _left_out,
    _customs,
)
