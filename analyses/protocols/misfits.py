"""What is wrong with mbarrier objects whatever way the threads go: what is missing in their lives, and what does not fit (9.7.14.15).

The lives are those of `structure`: no run is needed. What is reported cannot be right, or not in a kernel that does everything else the way
this one does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise

from ptxkit.analyses.cfg import control_flow
from ptxkit.analyses.dominators import dominators
from ptxkit.analyses.launch import MOST_THREADS, WARP, WARP_MASK, launch
from ptxkit.analyses.loops import loops
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
from ptxkit.analyses.terms import Term
from ptxkit.analyses.uniformity import uniformity
from ptxkit.names import Symbol

_MEETINGS = frozenset((Does.BARRIER_SYNC, Does.CLUSTER_WAIT))
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
    circles: dict[Place, list[Use]] = {}
    for use in known.uses:
        if use.does is not Does.INIT and use.is_known and use.goes_round and use.base is not None:
            circles.setdefault((use.base, min(use.offsets)), []).append(use)
    for own in circles.values():
        sizes = Counter([len(use.offsets) for use in own])
        if len(sizes) == 1:
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


def _fits(known: Life, use: Use, size: int) -> bool:
    """Whether a ring of so many stages is initialized, all for as many arrivals."""
    assert use.base is not None
    first = min(use.offsets)
    counts = set()
    for stage in range(size):
        inits = known.objects.get((use.base, first + stage * OBJECT_BYTES))
        if inits is None:
            return False
        counts.add(inits[0].step.amount)
    return len(counts) == 1


def _counts(routine: Routine, known: Life) -> Iterator[Finding]:
    """Stages of one ring that expect different numbers of arrivals."""
    for ring in rings(routine):
        if not ring.moves:
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
        if init is None:
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
        if len(counts) < 2:
            continue
        usual = counts.most_common(1)[0][0]
        one = next(one for one in own if one.parity != usual)
        other = next(one for one in own if one.parity == usual)
        passes = "passes at once the first time" if one.parity else "waits for the first phase the first time"
        instead = "passes at once" if usual else "waits for the first phase"
        message = f"this wait at a ring {passes}, and another at the same ring {instead}: one of them is for the other parity"
        yield Finding("M008", one.use.instruction, None, message, (), ((other.use.instruction, f"{instead} here"),), False)


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
    step = use.step
    if step.drops or _comes_again(routine, use.instruction):
        return None
    times = step.times
    if step.amount is not None:
        if step.amount.constant is None:
            return None
        times *= step.amount.constant
    reach = uniformity(routine).reach
    if not reach.template.has_places:
        return None
    coming = reach.instruction(use.instruction)
    warps = range(0, coming.ever.bit_length(), WARP)
    threads = sum(bool(coming.ever >> first & WARP_MASK) for first in warps) if coming.one else coming.ever.bit_count()
    if step.is_multicast or use.is_remote:
        threads *= cluster_size(routine) or MOST_CTAS
    return threads * times


def _comes_again(routine: Routine, i: int) -> bool:
    """Whether a thread may come back to an instruction without waiting at any mbarrier object in between."""
    flow = control_flow(routine)
    if loops(routine).innermost[flow.block_of[i]] is None:
        return False
    waits = {use.instruction for use in life(routine).of(Does.WAIT)}
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
        stops = {use.instruction for use in (*arrivals, *ring.of(Does.WAIT))}
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


def _boxes(routine: Routine, known: Life) -> Iterator[Finding]:
    """Announcements that do not fit the boxes of the tensor map that the copies are by: all of one map copy as many bytes."""
    boxes: dict[Term, dict[int, Use]] = {}
    for ring in rings(routine):
        if any(use.does in (Does.COPY, Does.EXPECT) for use in ring.others):
            continue
        for expect, copies in _announced(routine, ring):
            amount = expect.step.amount.constant if expect.step.amount is not None else None
            maps = {settler(routine).term(copy.step.map) for copy in copies if copy.step.map is not None}
            if (
                amount is None
                or not copies
                or len(maps) != 1
                or any(copy.step.map is None or copy.step.is_multicast or copy.is_remote for copy in copies)
            ):
                continue
            if amount % (LEAST_BYTES * len(copies)):
                message = (
                    f"{amount} bytes are announced, and {len(copies)} copies by one tensor map bring them: "
                    f"each brings as many, a multiple of {LEAST_BYTES}"
                )
                yield Finding("M006", expect.instruction, None, message, (), ((copies[0].instruction, "copied here"),), False)
                return
            boxes.setdefault(maps.pop(), {}).setdefault(amount // len(copies), expect)
    for sizes in boxes.values():
        if len(sizes) > 1:
            (size, one), (usual, other) = list(sizes.items())[:2]
            message = f"this announces {size} bytes for each copy by a tensor map, and elsewhere a copy by the same map brings {usual}"
            yield Finding("M006", one.instruction, None, message, (), ((other.instruction, f"{usual} bytes for each here"),), False)
            return


def _announced(routine: Routine, ring: Ring) -> Iterator[tuple[Use, list[Use]]]:
    """Announcements, each with the copies that belong to it: they stand behind it, or before it, whatever way is taken."""
    flow, forest = control_flow(routine), loops(routine)
    dominates = dominators(routine).tree.dominates
    expects, copies = ring.of(Does.EXPECT), ring.of(Does.COPY)

    def is_behind(one: Use, other: Use) -> bool:
        mine, its = flow.block_of[one.instruction], flow.block_of[other.instruction]
        return one.instruction < other.instruction if mine == its else dominates(mine, its)

    groups: dict[Use, list[Use]] = {expect: [] for expect in expects}
    lost: set[Use] = set()
    for copy in copies:
        before = [expect for expect in expects if is_behind(expect, copy)]
        after = [expect for expect in expects if is_behind(copy, expect)]
        if before:
            owner = next(one for one in before if all(is_behind(other, one) for other in before if other is not one))
        elif len(after) == 1:
            owner = after[0]
        else:
            return
        groups[owner].append(copy)
        if forest.innermost[flow.block_of[copy.instruction]] != forest.innermost[flow.block_of[owner.instruction]]:
            lost.add(owner)
    for expect, own in groups.items():
        # copies that only some ways come to may be left out
        if expect not in lost and own and all(_goes_with(routine, expect, copy) for copy in own):
            yield expect, own


def _goes_with(routine: Routine, expect: Use, copy: Use) -> bool:
    """Whether threads that do the one do the other."""
    flow, both = control_flow(routine), dominators(routine)
    one, other = flow.block_of[expect.instruction], flow.block_of[copy.instruction]
    return (
        one == other
        or (both.tree.dominates(one, other) and both.post.dominates(other, one))
        or (both.tree.dominates(other, one) and both.post.dominates(one, other))
    )


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
)
