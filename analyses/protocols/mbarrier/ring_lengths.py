"""Rings of mbarriers: the number of stages that instructions iterate over, and the initial counts of the stages (9.7.14.15.9)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from ptxkit.analyses.events.mbarriers import MBARRIER_BYTES
from ptxkit.analyses.events.steps import Does
from ptxkit.analyses.framework.finding import Finding
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.memory.address import Address
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.analyses.protocols.mbarrier.usage import Location, Usage, Use, rings


def lengths_that_differ(routine: Routine, known: Usage) -> Iterator[Finding]:
    """Instructions that iterate over the same mbarriers but wrap around after different numbers of them."""
    circles: dict[tuple[Location, int], list[Use]] = {}
    for use in known.uses:
        if use.does is not Does.INIT and use.is_known and use.iterates and use.base is not None:
            # in a loop unrolled by two, an instruction uses every other stage
            circles.setdefault((Address(use.base, min(use.offsets)), _step(use)), []).append(use)
    for own in circles.values():
        sizes = Counter([len(use.offsets) for use in own])
        waited, signalled = [{len(use.offsets) for use in own if (use.does is Does.WAIT) is is_wait} for is_wait in (True, False)]
        # a kernel may have two alternative paths, each with threads that wait and threads that arrive
        if len(sizes) == 1 or not waited or not signalled or waited == signalled:
            continue
        # of two lengths, the one that matches the mbarriers is right, or else the more frequent one
        usual = max(sizes, key=lambda size: (_fits(known, own[0], size), sizes[size]))
        one = next(use for use in own if len(use.offsets) != usual)
        other = next(use for use in own if len(use.offsets) == usual)
        message = (
            f"the ring of mbarriers has {len(one.offsets)} stages here and {usual} elsewhere: "
            "once it wraps around, threads wait and arrive at different stages"
        )
        yield Finding(
            one.instruction, message, ((other.instruction, f"wraps around after {usual}"),), False, kind=MbarrierFault.MBARRIER_PARITY
        )
    rounds_ = {(use.base, use.offsets): use for use in known.uses if use.does is not Does.INIT and use.iterates and use.base is not None}
    for (base, offsets), use in rounds_.items():
        for (its, others), other in rounds_.items():
            inside = its == base and use.is_known and min(offsets) < min(others) <= max(offsets) < max(others) and offsets & others
            if inside:
                message = (
                    f"the ring of {len(offsets)} mbarriers that is used here overlaps another ring: "
                    "its last stages are the first stages of that ring"
                )
                yield Finding(
                    use.instruction, message, ((other.instruction, "the other is used here"),), False, kind=MbarrierFault.MBARRIER_PARITY
                )
                return


def _step(use: Use) -> int:
    """The distance in bytes between the mbarriers that an instruction iterates over; 0 if it varies."""
    offsets = sorted(use.offsets)
    steps = {after - before for before, after in pairwise(offsets)}
    return steps.pop() if len(steps) == 1 else 0


def _fits(known: Usage, use: Use, size: int) -> bool:
    """Whether a ring of this many stages is initialized, all with the same count."""
    assert use.base is not None
    first = min(use.offsets)
    counts = set()
    for stage in range(size):
        inits = known.mbarriers.get(Address(use.base, first + stage * (_step(use) or MBARRIER_BYTES)))
        if inits is None:
            return False
        counts.add(inits[0].step.amount)
    return len(counts) == 1


def counts_that_differ(routine: Routine, known: Usage) -> Iterator[Finding]:
    """Stages of one ring with different arrival counts."""
    for ring in rings(routine):
        if not ring.moves or any(len(known.mbarriers[Address(ring.base, offset)]) > 1 for offset in ring.offsets):
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
            # the two stages have different arrivals
            continue
        arrival = arrivals[0]
        assert one.step.amount is not None
        own = one.step.amount.constant
        message = (
            f"this stage of a ring expects {own} arrivals in each phase, another stage {usual}, but the same instructions arrive at both"
        )
        steps_ = ((other.instruction, f"initialized for {usual} here"), (arrival.instruction, "arrived at here"))
        yield Finding(one.instruction, message, steps_, False, kind=MbarrierFault.MBARRIER_ARRIVE_COUNT)
