"""Expect-tx bytes of mbarriers, compared with the copies of the same phase (9.7.14.15.5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.loops import loops
from ptxkit.analyses.cfg.paths import comes_without, onward
from ptxkit.analyses.events.steps import LEAST_BYTES, Does
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.finding import Finding
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.analyses.protocols.mbarrier.usage import Ring, Usage, Use, address_parts, rings, usage
from ptxkit.analyses.symbolic.environment import settler
from ptxkit.analyses.symbolic.induction import rounds
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound


def unannounced(routine: Routine, known: Usage) -> Iterator[Finding]:
    """Copies in a phase that an arrival without expect-tx completes."""
    for ring in rings(routine):
        counts = {use.step.amount.constant for use in ring.of(Does.INIT) if use.step.amount is not None}
        expected = {use.instruction for use in (*ring.uses, *ring.others) if use.does is Does.EXPECT}
        arrivals = ring.of(Does.ARRIVE)
        plain = [use for use in arrivals if use.instruction not in expected]
        copies = ring.of(Does.COPY)
        # an expect-tx that is not an arrival may come from anywhere
        signalled = {use.instruction for use in (*ring.uses, *ring.others) if use.does is Does.ARRIVE}
        if counts != {1} or not plain or not copies or expected - signalled:
            continue
        # after a wait, it is another phase
        stops = {use.instruction for use in arrivals} | {use.instruction for use in known.of(Does.WAIT) if use.step.is_spinning}
        for arrival in plain:
            following = comes_without(routine, stops, arrival.instruction + 1)
            copy = next((one for one in copies if following(one.instruction)), None)
            if copy is None:
                copy = next((one for one in copies if comes_without(routine, stops, one.instruction + 1)(arrival.instruction)), None)
            if copy is not None:
                message = "the bytes of this copy count toward a phase that a single arrival completes, and that arrival expects no bytes"
                yield Finding(
                    copy.instruction, message, ((arrival.instruction, "arrived at here"),), False, kind=MbarrierFault.TX_WITHOUT_EXPECT
                )
                return


def too_many_bytes(routine: Routine, known: Usage) -> Iterator[Finding]:
    """Expect-tx of more bytes than a stage has room for."""
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
                message = (
                    f"{amount} bytes are expected for a stage, but the stages that the copies write are only {room} bytes apart in total"
                )
                yield Finding(
                    use.instruction, message, ((copies[0].instruction, "copied here"),), False, kind=MbarrierFault.EXPECT_TX_VS_BYTES
                )
                return


def _room(routine: Routine, ring: Ring, copies: Sequence[Use]) -> int | None:
    """The bytes between successive stages, in all destinations of the copies; None if unknown."""
    starts: dict[object, dict[int, int]] = {}
    for copy in copies:
        parts = address_parts(routine, copy.step.target) if copy.step.target is not None else None
        if parts is None:
            return None
        (base, offset), index = parts
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
    # what a multicast copy writes in a CTA, it signals there; only the mbarrier of another CTA, or of a pair, counts bytes of both
    is_shared = any(copy.is_remote or _is_of_a_pair(routine, copy.instruction) for copy in copies)
    return 2 * room if is_shared else room


@frozen(eq=False)
class _Load:
    """The expect-tx of a phase, and the copies with tensor maps in it."""

    expect: Use
    copy: Use
    amount: int
    maps: tuple[tuple[Term, int], ...]
    """The maps, with the number of copies for each."""


def _is_of_a_pair(routine: Routine, i: int) -> bool:
    """Whether a copy may signal the mbarrier of either CTA of a pair."""
    bound = bindings(routine)[i]
    return isinstance(bound, Bound) and bound.has(".cta_group::2")


def boxes_that_differ(routine: Routine, known: Usage) -> Iterator[Finding]:
    """Expect-tx bytes that are inconsistent with the boxes of tensor maps: all copies with one map transfer the same number of bytes."""
    loads = [load for ring in rings(routine) for load in _loads(routine, ring)]
    boxes: dict[Term, dict[int, list[_Load]]] = {}
    for load in loads:
        count = sum(number for _, number in load.maps)
        if len(load.maps) > 1:
            continue
        if load.amount % (LEAST_BYTES * count):
            message = (
                f"{load.amount} bytes are expected from {count} copies through one tensor map: "
                f"all bring the same number of bytes, a multiple of {LEAST_BYTES}"
            )
            yield Finding(
                load.expect.instruction, message, ((load.copy.instruction, "copied here"),), False, kind=MbarrierFault.EXPECT_TX_VS_BYTES
            )
            return
        boxes.setdefault(load.maps[0][0], {}).setdefault(load.amount // count, []).append(load)
    for sizes in boxes.values():
        usual = max(sizes, key=lambda size: len(sizes[size]))
        for size, own in sizes.items():
            one, other = own[0], next((load for load in sizes[usual] if _may_both_come(routine, load, own[0])), None)
            if size != usual and other is not None:
                message = (
                    f"this expects {size} bytes of each copy through a tensor map; elsewhere a copy through the same map brings {usual}"
                )
                steps_ = ((other.expect.instruction, f"{usual} bytes for each here"),)
                yield Finding(one.expect.instruction, message, steps_, False, kind=MbarrierFault.EXPECT_TX_VS_BYTES)
                return
    for load in loads:
        alone = [
            next((one for one in boxes.get(map_, {}).items() if _may_both_come(routine, one[1][0], load)), None) for map_, _ in load.maps
        ]
        if None in alone:
            continue
        brought = sum(number * one[0] for (_, number), one in zip(load.maps, alone, strict=True) if one is not None)
        if brought != load.amount:
            message = f"{load.amount} bytes are expected, but the copies bring {brought}, as copies through these maps do elsewhere"
            yield Finding(
                load.expect.instruction, message, ((load.copy.instruction, "copied here"),), False, kind=MbarrierFault.EXPECT_TX_VS_BYTES
            )
            return
    for one in loads:
        for other in loads:
            if one.maps == other.maps and one.amount != other.amount and _may_both_come(routine, one, other):
                rare = min((one, other), key=lambda load: sum(load.amount == like.amount for like in loads if like.maps == load.maps))
                usual_ = other if rare is one else one
                message = (
                    f"{rare.amount} bytes are expected; elsewhere, {usual_.amount} are for as many copies through the same tensor maps"
                )
                steps_ = ((usual_.expect.instruction, f"{usual_.amount} bytes here"),)
                yield Finding(rare.expect.instruction, message, steps_, False, kind=MbarrierFault.EXPECT_TX_VS_BYTES)
                return


def _may_both_come(routine: Routine, one: _Load, other: _Load) -> bool:
    """Whether a thread may execute both: a kernel may have alternative paths with different boxes."""
    flow = control_flow(routine)
    mine, its = one.expect.instruction, other.expect.instruction
    return bool(onward(routine, mine) >> flow.block_of[its] & 1 or onward(routine, its) >> flow.block_of[mine] & 1)


def _loads(routine: Routine, ring: Ring) -> Iterator[_Load]:
    """The expect-tx and copies between successive waits for one stage, if the same threads execute both. Copies that no expect-tx is with
    belong to the phase before: that wait is for another mbarrier, such as the one that frees their destination."""
    if any(use.does in (Does.COPY, Does.EXPECT) for use in ring.others):
        return
    flow, forest = control_flow(routine), loops(routine)
    dominates = dominators(routine).tree.dominates
    waits = [use for use in usage(routine).of(Does.WAIT) if use.step.is_spinning]
    groups: dict[tuple[object, ...], list[Use]] = {}
    for use in sorted((*ring.of(Does.EXPECT), *ring.of(Does.COPY)), key=lambda use: use.instruction):
        block = flow.block_of[use.instruction]
        last = -1
        for wait in waits:
            its = flow.block_of[wait.instruction]
            if wait.instruction < use.instruction if its == block else dominates(its, block):
                # of two waits on all paths, the later one
                last = wait.instruction if last < 0 or dominates(flow.block_of[last], its) else last
        groups.setdefault((last, forest.innermost[block], use.index, use.offsets if use.is_fixed else None), []).append(use)
    phases: dict[tuple[object, ...], list[list[Use]]] = {}
    for (_, *stage), own in groups.items():
        before = phases.setdefault(tuple(stage), [])
        if before and not any(use.does is Does.EXPECT for use in own):
            before[-1] += own
        else:
            before.append(own)
    for own in [own for each in phases.values() for own in each]:
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
    """Whether threads that execute the first execute the second after it."""
    flow, both = control_flow(routine), dominators(routine)
    mine, its = flow.block_of[one.instruction], flow.block_of[other.instruction]
    return mine == its or (both.tree.dominates(mine, its) and both.post.dominates(its, mine))
