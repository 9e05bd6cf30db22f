"""Questions: does a finding appear with other grids and thread blocks too, if the kernel does not specify its own?"""

from __future__ import annotations

import math

import attrs

from ptxkit.analyses.cfg.paths import comes_to
from ptxkit.analyses.dynamic.case import Case, Findings, Untried, keep
from ptxkit.analyses.dynamic.findings import (
    ASYNCHRONY,
    BARRIERS,
    OF_COUNTS,
    UNINITIALISED,
    is_between_ctas,
    is_deadlock,
    is_in,
    is_of,
    is_of_own_memory,
    is_of_writes,
    is_race,
    is_refuted,
    lines_of,
)
from ptxkit.analyses.dynamic.once import Ran
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.inputs.reached import needs, read
from ptxkit.analyses.inputs.reached import reached as functions
from ptxkit.analyses.inputs.shapes import (
    AXES,
    MOST_THREADS,
    Shape,
    asks_ctas,
    awaited,
    declares_block,
    distinguished,
    distinguishes_ctas,
    elements,
    fewest,
    is_for_several_ctas,
    is_hidden,
    may_have_other_dimensions,
    needless_axes,
    shapes,
    shared_axes,
)
from ptxkit.analyses.inputs.single import group, suits_one_thread
from ptxkit.analyses.launch.launch import WARP, cluster_size, launch
from ptxkit.analyses.memory.accesses import accesses
from ptxkit.machine.findings import Finding

MOST_CONTRASTS = 6
"""Maximum number of other shapes that are tried to confirm a finding."""
USUAL = 128, 64
"""Usual lengths of a block of a single row."""
ELSEWHERE = frozenset((".global", ".local", ".param"))
"""State spaces in which a write is none to shared memory."""
NO_TIME = "there was no time to try CTAs of other shapes"


def with_fewer_ctas(case: Case, found: Findings) -> Findings:
    """With one CTA, or cluster, along each axis of the grid in which one does all the work: CTAs that the kernel does not tell apart race
    if there are two of them, but the host may launch one."""
    axes = needless_axes(case.routine)
    equal = keep(found, lambda one: _is_of_equal_ctas(case, one, axes))
    if not equal:
        return found
    left = case.not_refuted(equal, _narrow(case.shape, axes))
    return keep(found, lambda one: one not in equal or one in left)


def with_half_the_ctas(case: Case, found: Findings) -> Findings:
    """With half as many CTAs along each axis, for asynchronous operations and unwritten shared memory of a CTA that is not the first one:
    if the index of a CTA says what it fills, the host may launch no CTA that fills more than there is, or less than it reads."""
    far = keep(found, _is_of_a_far_cta)
    if not far:
        return found
    least = case.shape.cluster or (1, 1, 1)
    x, y, z = [max(count // 2, few) for count, few in zip(case.shape.grid, least, strict=True)]
    left = case.not_refuted(far, attrs.evolve(case.shape, grid=(x, y, z)))
    return keep(found, lambda one: one not in far or one in left)


def _is_of_a_far_cta(finding: Finding) -> bool:
    """Whether a finding is about an asynchronous operation, an mbarrier or unwritten memory of the CTA, in one that is not the first along
    an axis of the grid."""
    ctas = {tuple(one["cta"]) for one in finding.witness.get("accesses", ()) if "cta" in one}
    is_asked = is_of(finding, ASYNCHRONY) or (finding.diagnostic.name == UNINITIALISED and not is_of_own_memory(finding))
    return is_asked and len(ctas) == 1 and ctas != {(0, 0, 0)}


def with_clusters_of_one(case: Case, found: Findings) -> Findings:
    """With clusters of a single CTA, if the kernel does not specify how many a cluster has."""
    if case.shape.cluster is None or cluster_size(case.routine) is not None:
        return found
    return case.not_refuted(found, attrs.evolve(case.shape, cluster=(1, 1, 1)))


def with_ctas_along_one_axis(case: Case, found: Findings) -> Findings:
    """With several CTAs along one axis of the grid only, for two writes by CTAs that differ along several: what one axis steps over is as
    long as there are CTAs along another, and the host may launch fewer of these."""
    asked = keep(found, _is_across_axes)
    if not asked:
        return found
    axes = [axis for axis, count in zip(AXES, case.shape.grid, strict=True) if count > 1]
    runs = [case.within(_narrow(case.shape, frozenset(AXES) - {axis}), asked=asked) for axis in axes]
    return keep(found, lambda one: one not in asked or any(is_in(one, ran) for ran in runs))


def _narrow(shape: Shape, axes: frozenset[str]) -> Shape:
    """The shape with one CTA, or cluster, along some axes of the grid."""
    least = shape.cluster or (1, 1, 1)
    x, y, z = [few if axis in axes else many for axis, few, many in zip(AXES, least, shape.grid, strict=True)]
    return attrs.evolve(shape, grid=(x, y, z))


def _is_across_axes(finding: Finding) -> bool:
    """Whether a finding is about two writes to global memory by CTAs that differ along several axes of the grid."""
    if not is_between_ctas(finding) or not is_of_writes(finding):
        return False
    one, other = [access["cta"] for access in finding.witness["accesses"]]
    return len([axis for axis, there in zip(one, other, strict=True) if axis != there]) > 1


def _is_of_equal_ctas(case: Case, finding: Finding, axes: frozenset[str]) -> bool:
    """Whether a finding is a race in global memory between CTAs that differ only along `axes`, at addresses that do not depend on
    these. If the kernel reads the CTA index or the grid size, both accesses must be by the same thread, and at the same instruction unless
    another axis says where they are."""
    is_divided = is_for_several_ctas(case.routine)
    if not is_between_ctas(finding) or (is_divided and not _is_of_own_addresses(case, finding)):
        return False
    one, other = finding.witness["accesses"]
    is_of_one_thread = one["thread"] == other["thread"] and (is_divided or one["line"] == other["line"])
    if asks_ctas(case.routine) and not is_of_one_thread:
        return False
    return all(axis in axes for axis, at, there in zip(AXES, one["cta"], other["cta"], strict=True) if at != there)


def _is_of_own_addresses(case: Case, finding: Finding) -> bool:
    """Whether the addresses of both accesses are known expressions: then no memory, such as a counter that distributes work to CTAs,
    decides where they are."""
    lines = lines_of(finding)
    index = case.runs.code.index
    found = [one.address for of in functions(case.routine) for one in accesses(of) if index.span(of.where(one.instruction)).line in lines]
    return bool(found) and not any(one is None or is_hidden(one) for one in found)


def with_few_threads(case: Case, found: Findings) -> Findings:
    """With a single thread, if no address and no branch depends on the thread index, or with one group of threads, if nothing tells
    groups apart."""
    alone = _alone(case.routine, case.shape)
    return found if alone is None else case.not_refuted(found, alone)


def _alone(routine: Routine, shape: Shape) -> Shape | None:
    """The shape with one thread, or one group of threads, if the kernel does not specify its block and does nothing that needs more."""
    is_single = suits_one_thread(routine)
    count = 1 if is_single or fewest(routine) == 1 else group(routine)
    if launch(routine).threads is not None or not count:
        return None
    is_one = (is_single or not distinguishes_ctas(routine)) and cluster_size(routine) is None
    block = (count, 1, 1)
    return Shape(block, (1, 1, 1), None) if is_one else attrs.evolve(shape, block=block)


def with_other_shapes(case: Case, found: Findings) -> Findings:
    """With other thread blocks that the kernel may have, small ones first, as they are cheaper: the host may launch any of them."""
    shape, routine = case.shape, case.routine
    has_others = may_have_other_dimensions(routine, shape.block)
    if declares_block(routine, shape.block) and not has_others:
        return found
    few = [_of_a_warp(shape)] if _may_be_a_warp(routine, shape) else []
    for other in [*few, *_rows(routine, shape), *_others(routine, shape, has_others)]:
        if not found:
            break
        found = case.not_refuted(found, other)
        if case.runs.is_cut or case.runs.is_full or (case.runs.is_used_up and _has_rows(shape)):
            raise Untried(NO_TIME)
    return found


def _has_rows(shape: Shape) -> bool:
    """Whether a block has several dimensions: the same threads may be arranged in rows of other lengths."""
    return len([side for side in shape.block if side > 1]) > 1


def _others(routine: Routine, shape: Shape, has_others: bool) -> list[Shape]:
    """Other shapes with enough threads for the kernel, by size."""
    threads = math.prod(shape.block)
    least = threads if has_others else max(fewest(routine), 2 * WARP)
    enough = [one for one in shapes(routine) if one != shape and math.prod(one.block) >= least]
    if threads in elements(routine) or has_others:
        # an array has one element for each thread, or the kernel specifies their number
        enough = [one for one in enough if math.prod(one.block) == threads]
    return sorted(enough, key=lambda one: math.prod(one.block))[:MOST_CONTRASTS]


def _rows(routine: Routine, shape: Shape) -> list[Shape]:
    """Blocks of a single row, for one of several dimensions: as wide, with as many threads, or of a usual length. The kernel may use the
    other dimensions for the grid only, unless they say where in shared memory a thread has its elements."""
    if not _has_rows(shape) or len(shared_axes(routine)) > 1:
        return []
    lengths = dict.fromkeys((shape.block[0], math.prod(shape.block), *USUAL))
    return [attrs.evolve(shape, block=(length, 1, 1)) for length in lengths]


def _of_a_warp(shape: Shape) -> Shape:
    return attrs.evolve(shape, block=(WARP, 1, 1))


def _may_be_a_warp(routine: Routine, shape: Shape) -> bool:
    """Whether a block of one warp suffices for the kernel. Cooperating lanes may each have several elements of an array."""
    if declares_block(routine, shape.block) or fewest(routine) != WARP:
        return False
    return math.prod(shape.block) not in elements(routine) or needs(routine, "warp")


def with_ordering_collectives(case: Case, found: Findings) -> Findings:
    """If warp collectives are taken to order memory accesses, as they do on GPUs; also with a single warp, if the kernel can run with
    one."""
    races = keep(found, is_race)
    if not needs(case.routine, "warp") or not races:
        return found
    ordered = case.again(asked=races, by_collectives=True)
    left = keep(found, lambda one: not is_race(one) or is_in(one, ordered))
    if not _may_be_a_warp(case.routine, case.shape) or not any(map(is_race, left)):
        return left
    alone = _ordered_warp(case)
    return keep(left, lambda one: not is_race(one) or bool(alone.outside) or not is_refuted(one, alone))


def _ordered_warp(case: Case) -> Ran:
    """The run of a single warp whose collectives order memory accesses."""
    warp = case.runs.example(_of_a_warp(case.shape), case.sizes)
    return case.runs.once(warp, attrs.evolve(case.setting, contents=case.contents), by_collectives=True)


def without_others_that_write(case: Case, found: Findings) -> Findings:
    """With more threads: one of them may write the memory that is read before it is written. If twice as many leave an array, with as many
    as do not."""
    asked = keep(found, lambda one: one.diagnostic.name == UNINITIALISED and not is_of_own_memory(one) and _may_be_written(case, one))
    if not asked or declares_block(case.routine, case.shape.block) or _is_full(case):
        return found
    most = _with_most_threads(case)
    return keep(found, lambda one: one not in asked or (most is not None and is_in(one, most)))


def _may_be_written(case: Case, finding: Finding) -> bool:
    """Whether any thread may have written the memory: a path leads from some write to the read."""
    if len(functions(case.routine)) > 1:
        return True
    index, found = case.runs.code.index, accesses(case.routine)
    lines = {one["line"] for one in finding.witness.get("accesses", ()) if one["kind"] == "read"}
    reads = [one.instruction for one in found if one.reads and index.span(case.routine.where(one.instruction)).line in lines]
    writes = {one.instruction for one in found if one.writes and one.space not in ELSEWHERE}
    return any(comes_to(case.routine, write, read) for write in writes for read in reads)


def _with_most_threads(case: Case) -> Ran | None:
    """The run with as many threads in a row as stay within shared arrays; None if twice as many do, or none is known to."""
    least, y, z = case.shape.block
    if y * z > 1 or any(f"%tid.{axis}" in read(case.routine) for axis in "yz"):
        return None
    ran, most, step = case.ran, 2 * least, WARP if needs(case.routine, "warp") else 1
    if case.within(attrs.evolve(case.shape, block=(most, 1, 1))).outside != ".shared":
        return None
    while most - least > step:
        middle = (least + most) // 2 // step * step
        other = case.within(attrs.evolve(case.shape, block=(middle, 1, 1)))
        if other.outside == ".shared":
            most = middle
        elif other.fault is not None:
            return None
        else:
            least, ran = middle, other
    return ran


def _is_full(case: Case) -> bool:
    """Whether a block of twice as many threads is impossible or would leave an array."""
    x, y, z = block = case.shape.block
    has_most = _has_most_threads(case.routine, block)
    if not has_most and not _has_an_element_each(case.routine, block):
        return False
    if any(length == 1 and f"%tid.{axis}" in read(case.routine) for axis, length in zip("xyz", block, strict=True)):
        # it may have more threads along this dimension
        return False
    return has_most or case.within(attrs.evolve(case.shape, block=(2 * x, y, z))).outside == ".shared"


def with_as_many_as_counted(case: Case, found: Findings) -> Findings:
    """With as many threads as a barrier expects: the count is right for such a block, unless it would have fewer threads than the kernel
    tells apart."""
    if declares_block(case.routine, case.shape.block):
        return found
    is_too_few = distinguished(case.routine) > max(awaited(case.routine), default=MOST_THREADS)
    return keep(found, lambda one: not _is_of_counts(one) or (is_of(one, BARRIERS) and is_too_few))


def _is_of_counts(finding: Finding) -> bool:
    return finding.diagnostic.name in OF_COUNTS and not is_deadlock(finding)


def may_be_whole(routine: Routine, finding: Finding, block: tuple[int, int, int]) -> bool:
    """Whether a larger CTA, one of whose additional threads writes the memory in question, is impossible or implausible."""
    return is_of_own_memory(finding) or _has_most_threads(routine, block) or _has_an_element_each(routine, block)


def _has_most_threads(routine: Routine, block: tuple[int, int, int]) -> bool:
    """Whether the kernel cannot be launched with more threads."""
    return math.prod(block) >= launch(routine).most[0]


def _has_an_element_each(routine: Routine, block: tuple[int, int, int]) -> bool:
    """Whether an array has an element for each thread of the block, and not for those of another warp: there may be a halo."""
    threads = math.prod(block)
    room = WARP if threads % WARP == 0 else 1
    return any(threads <= count < threads + room for count in elements(routine))
