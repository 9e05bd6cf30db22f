"""Which launch of a kernel is valid: the first of several shapes that stays within its memory."""

from __future__ import annotations

import math

import attrs

from ptxkit.analyses.dynamic.findings import is_in, reads_unwritten
from ptxkit.analyses.dynamic.once import Ran
from ptxkit.analyses.dynamic.runs import Runs, Setting
from ptxkit.analyses.execution.findings import OF_LAUNCH, UNKNOWN
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.inputs.launches import FEW, Sizes, is_compared
from ptxkit.analyses.inputs.reached import read
from ptxkit.analyses.inputs.shapes import (
    AXES,
    MOST_THREADS,
    Shape,
    declares_block,
    distinguished,
    fewest,
    may_have_other_dimensions,
    singled_out,
)
from ptxkit.analyses.launch.launch import WARP
from ptxkit.frozen import frozen

MOST_LAUNCHES = 12
"""Maximum number of shapes that are tried."""
BY_ITSELF = frozenset(("trap", "assert"))
"""Kinds of faults with which a kernel rejects its own launch."""
OF_SHAPE = frozenset(("launch", "shared"))
"""Kinds of faults that another shape may avoid."""
CONTRAST = Sizes(counts=2 * FEW, scale=2, differ=True, covers=True)
"""Other sizes, all different."""


@frozen
class Launched:
    """A run of a valid launch, and its shape."""

    ran: Ran
    shape: Shape

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return math.prod(self.shape.block)


def first_valid(runs: Runs, choices: tuple[Shape, ...], sizes: Sizes, setting: Setting) -> Launched | None:
    """The first valid launch, that is, one that stays within its memory; None if there is none.

    A kernel that fails with the thread block that it specifies, or with every block, is itself at fault: that launch is returned.
    """
    wrong: list[Launched] = []
    is_always_wrong = True
    hidden: Launched | None = None
    of_warps: Launched | None = None
    waits = False
    last: tuple[int, int] | None = None
    said = choices[0].block if declares_block(runs.routine, choices[0].block) else None
    for shape in choices[:MOST_LAUNCHES]:
        if runs.is_full:
            return None
        if said is not None and shape.block != said and math.prod(shape.block) < min(WARP, math.prod(said)):
            # a kernel written for many threads is not launched with less than a warp
            continue
        if waits and math.prod(shape.block) < distinguished(runs.routine):
            # without the waiting threads, a launch says nothing about them
            continue
        launched = Launched(runs.within(shape, sizes, setting), shape)
        ran = launched.ran
        fault, outside = ran.fault, ran.outside
        if fault is not None and _is_no_evidence(ran):
            if fault.kind in OF_SHAPE or outside:
                is_always_wrong &= fault.kind in OF_SHAPE
                continue
            return None
        if outside == ".shared" and ran.example.shared:
            # it needs more shared memory than there is
            return None
        is_stuck = fault is not None and fault.kind == "deadlock"
        waits |= is_stuck
        if wrong and not outside and reads_unwritten(ran) and said is not None:
            # it leaves an array with the specified block, and reads unwritten memory with a smaller one
            continue
        is_of_warps = not outside and not is_stuck and _is_for_a_warp(runs, launched)
        of_warps = of_warps or (launched if is_of_warps and not reads_unwritten(ran) else None)
        if of_warps is not None and not outside and reads_unwritten(ran):
            # a block of one warp, or another smaller one, lacks threads: the kernel is for several warps
            return of_warps
        if not outside and not is_stuck and not is_of_warps:
            if sizes != Sizes() or not _is_hidden_by_sizes(runs, shape, setting):
                return launched if len(choices) == 1 else _with_all_that_write(runs, launched, sizes, setting)
            hidden = hidden or launched
            continue
        if outside != ".global":
            wrong.append(launched)
            continue
        # the scalars are inconsistent, so nothing is known about this shape
        is_always_wrong = False
        before, last = last, ran.far_access
        if last is not None and last == before:
            # the same stray access with two shapes: no other shape avoids it
            return None
    if hidden is not None:
        return hidden
    return _own_fault(runs, wrong, said) if wrong and is_always_wrong else None


def _with_all_that_write(runs: Runs, launched: Launched, sizes: Sizes, setting: Setting) -> Launched:
    """The launch with as many threads as it takes to write the shared memory that it reads; the launch itself if the kernel specifies its
    block, or if no larger one writes all of it."""
    other = launched
    while reads_unwritten(other.ran) and not declares_block(runs.routine, other.shape.block) and 2 * other.threads <= MOST_THREADS:
        x, y, z = other.shape.block
        shape = attrs.evolve(other.shape, block=(2 * x, y, z))
        other = Launched(runs.within(shape, sizes, setting), shape)
        if other.ran.outside or other.ran.fault is not None:
            return launched
    return launched if reads_unwritten(other.ran) else other


def _own_fault(runs: Runs, wrong: list[Launched], said: tuple[int, int, int] | None) -> Launched | None:
    """The launch that shows what goes wrong with every shape; None if several causes are possible."""
    # a launch with fewer threads than the kernel distinguishes is not valid
    wrong = [one for one in wrong if one.threads >= fewest(runs.routine)] or wrong
    if wrong[0].shape.block == said and not may_have_other_dimensions(runs.routine, said):
        # no other shape explains a failure with the specified block
        return wrong[0]
    least = min(wrong, key=lambda one: one.threads)
    is_one_cause = len(wrong) == 1 or any(all(is_in(finding, one.ran) for one in wrong) for finding in least.ran.wrong)
    return least if is_one_cause or _is_part_of_all(runs.routine, least) else None


def _is_part_of_all(routine: Routine, launched: Launched) -> bool:
    """Whether each block that the kernel may have also has the threads of this one: there is no shorter one with all threads that it
    singles out, and it does not ask for its block size."""
    x, y, z = launched.shape.block
    least = singled_out(routine).get("x")
    return y * z == 1 and least is not None and x - least < WARP and not any(f"%ntid.{axis}" in read(routine) for axis in AXES)


def _is_no_evidence(ran: Ran) -> bool:
    """Whether the fault that ended a run says nothing about the kernel. A branch beyond its list of targets is, if a monitor reported
    it."""
    fault = ran.fault
    if fault is None or fault.kind == "budget" or (fault.kind == "branch" and ran.wrong):
        return False
    return fault.kind in UNKNOWN | OF_LAUNCH | BY_ITSELF


def _is_hidden_by_sizes(runs: Runs, shape: Shape, setting: Setting) -> bool:
    """Whether a synthesized block with several dimensions leaves an array once there are more elements. With few elements, a comparison
    may hide that this is not a block for the kernel."""
    x, y, z = shape.block
    if y * z == 1 or x == 1 or declares_block(runs.routine, shape.block) or not is_compared(runs.routine):
        return False
    return runs.within(shape, CONTRAST, setting).outside == ".shared"


def _is_for_a_warp(runs: Runs, launched: Launched) -> bool:
    """Whether warps do the same at one shared address and nothing in the kernel distinguishes warps, so that it is meant for a block of
    one warp.

    A kernel that distinguishes warps and fails to synchronize them is not excused.
    """
    x, y, _ = launched.shape.block
    if launched.threads <= WARP or fewest(runs.routine) > WARP:
        return False
    for finding in launched.ran.wrong:
        accesses = finding.witness.get("accesses", ())
        numbers = [one["thread"][0] + x * (one["thread"][1] + y * one["thread"][2]) for one in accesses if "thread" in one]
        if finding.witness.get("space") == "shared" and len(numbers) == 2 and numbers[0] != numbers[1]:
            if (numbers[0] - numbers[1]) % WARP == 0:
                return True
    return False
