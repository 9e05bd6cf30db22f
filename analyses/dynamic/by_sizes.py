"""Questions: does a finding appear with other sizes too, that is, with other scalar arguments and element counts?

A finding that one run refutes is not checked by the next. Runs that are cheap and likely to refute come first.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from ptxkit.analyses.dynamic.case import Case, Findings, Untried, keep
from ptxkit.analyses.dynamic.choosing import Launched
from ptxkit.analyses.dynamic.findings import (
    AT_ENDS,
    BARRIERS,
    OF_ABSENT_LANES,
    OF_ALIGNMENT,
    OF_INITS,
    OUT_OF_BOUNDS,
    UNINITIALISED,
    is_as_such_in,
    is_between_ctas,
    is_in,
    is_of,
    is_of_addresses,
    is_of_ends,
    is_of_own_memory,
    is_refuted_there,
    lines_of,
)
from ptxkit.analyses.dynamic.once import Ran
from ptxkit.analyses.dynamic.wrapping import LOOPED, wraps
from ptxkit.analyses.inputs.bits import with_chosen_bits
from ptxkit.analyses.inputs.fitting import is_guessed
from ptxkit.analyses.inputs.launches import FEW, Sizes, divides, is_compared
from ptxkit.analyses.inputs.rows import has_broken_rows
from ptxkit.analyses.inputs.shapes import declares_block
from ptxkit.analyses.launch.launch import WARP, cluster_size
from ptxkit.machine.findings import Finding

UNEVEN = 3
"""A remainder for the last CTA."""
UNEVEN_CONTRAST = Sizes(counts=2 * FEW, uneven=UNEVEN, covers=True)
DRAWN = Sizes(covers=True, drawn=1), Sizes(covers=True, drawn=2), Sizes(covers=True, drawn=3)
"""Scalars with arbitrary relations to each other."""
WHOLE_ROWS = Sizes(counts=16)
"""Sizes with which rows are a multiple of 16 elements long, the usual requirement of a kernel that reads rows by vectors."""
OF_BLOCK = Sizes(of_block=4), Sizes(of_block=2), Sizes(of_block=1)
"""Scalars that are multiples of the length of the thread block, and equal it, so that a CTA has one element for each thread."""
ONE_ELEMENT, ONE_ITERATION = Sizes(single=True), Sizes(counts=1)
"""Sizes with which a loop has a single iteration: the bound is 1, or as much as an iteration takes."""
WHOLE_WARPS = Sizes(counts=2 * WARP)
"""Sizes with which rows are a multiple of a warp long."""
NOT_TRIED = "other sizes were not tried"


def can_be_resized(case: Case, found: Findings) -> Findings:
    """The sizes are not what the host would choose: they are bit masks, in variables that it initializes, in the boxes of tensor maps, or
    in the number of CTAs of a cluster."""
    if is_guessed(case.routine):
        # which phases complete depends on the boxes, and what mbarriers there are does not
        found = keep(found, lambda one: one.diagnostic.name in OF_INITS)
    chosen = with_chosen_bits(case.routine)
    if chosen:
        # what is read without a value may be written elsewhere with other bits; where two accesses meet, their own addresses matter
        index = case.runs.code.index
        lines = {index.span(of.where(i)).line for of, i in chosen}
        found = keep(found, lambda one: one.diagnostic.name != UNINITIALISED and not (is_of_addresses(one) and lines_of(one) & lines))
    presets = {case.ran.line_of(site) for site in case.ran.depends_on_presets} if found else set()
    if presets:
        found = keep(found, lambda one: one.diagnostic.name != UNINITIALISED and not presets & lines_of(one))
    return keep(found, lambda one: not _is_of_a_guessed_cluster(case, one))


def _is_of_a_guessed_cluster(case: Case, finding: Finding) -> bool:
    """Whether several CTAs of a cluster are involved, and the kernel does not specify the cluster size."""
    if case.shape.cluster is None or cluster_size(case.routine) is not None:
        return False
    ctas = {tuple(one["cta"]) for one in finding.witness.get("accesses", ()) if "cta" in one}
    return finding.witness.get("space") != "global" and (len(ctas) > 1 or is_of(finding, "G"))


def with_ones(case: Case, found: Findings) -> Findings:
    """With all scalars 1: a scalar may be the name of a barrier or select its participants, or, between CTAs, be the index of a tile that
    does not exist."""
    sizes = Sizes(ones=True)
    if not any(is_of(one, BARRIERS) or is_between_ctas(one) for one in found) or case.is_usual(sizes):
        return found
    few = case.resized(sizes)
    if few is None:
        return found
    return keep(found, lambda one: is_in(one, few.ran) if is_between_ctas(one) else is_as_such_in(one, few.ran))


def with_one_iteration(case: Case, found: Findings) -> Findings:
    """With a single iteration of each loop that is bounded by a scalar: the scalar may be too large for the array that an access leaves,
    unless the index wraps around, as that of a ring does. Where an iteration takes several elements, the scalar is one, and then as many
    as it takes."""
    asked = keep(found, lambda one: one.diagnostic.name == OUT_OF_BOUNDS and not wraps(case, one, LOOPED))
    left = asked
    for sizes in (ONE_ELEMENT, ONE_ITERATION):
        if left and not case.is_usual(sizes):
            single = case.within(case.shape, sizes, left)
            left = tuple([one for one in left if is_in(one, single)])
    return keep(found, lambda one: one not in asked or one in left)


def with_whole_rows(case: Case, found: Findings) -> Findings:
    """With rows that are a multiple of 16 elements long: the host may keep to lengths with which no access is misaligned."""
    asked = keep(found, lambda one: one.diagnostic.name in OF_ALIGNMENT)
    if not asked or case.is_usual(WHOLE_ROWS):
        return found
    whole = case.within(case.shape, WHOLE_ROWS, asked)
    return keep(found, lambda one: one not in asked or is_in(one, whole))


def with_whole_warps(case: Case, found: Findings) -> Findings:
    """With rows that are whole warps long: a host may pad rows, so that no lane leaves a warp collective alone."""
    asked = keep(found, lambda one: one.diagnostic.name in OF_ABSENT_LANES)
    if not asked or not has_broken_rows(case.routine, case.ran.example):
        return found
    whole = case.within(case.shape, WHOLE_WARPS, asked)
    shows = not has_broken_rows(case.routine, whole.example)
    return keep(found, lambda one: one not in asked or (shows and is_in(one, whole)))


def with_other_counts(case: Case, found: Findings) -> Findings:
    """With other numbers, all different: what appears for one set of numbers may be due to them. If there are more elements than threads,
    the last CTA is full, so what concerns its ends may instead appear with another remainder."""
    left: Findings = found
    at_ends: Findings = ()
    for sizes in (Sizes(units=True), case.contrast) if divides(case.routine) else (case.contrast,):
        if not left and not at_ends:
            return ()
        other = _reaching(case, sizes, left)
        if other is None:
            raise Untried(NOT_TRIED)
        gone = [one for one in left if not is_in(one, other.ran)]
        left = tuple([one for one in left if one not in gone])
        if is_compared(case.routine):
            at_ends += tuple([one for one in gone if is_of_ends(one, AT_ENDS, case.routine, case.ran)])
    uneven = case.resized(UNEVEN_CONTRAST, at_ends) if at_ends else None
    return left if uneven is None else left + keep(at_ends, lambda one: is_in(one, uneven.ran))


def _reaching(case: Case, sizes: Sizes, asked: Findings) -> Launched | None:
    """A launch with these sizes, and with few iterations or elements instead if it is timed out, as it may not have reached the findings,
    or leaves the largest arrays that can be synthesized."""
    few = attrs.evolve(sizes, counts=FEW)
    less = few, attrs.evolve(few, covers=False), attrs.evolve(few, scale=1)
    other = None
    for tried in less if case.ran.is_timed_out else (sizes, *less):
        other = case.resized(tried, asked)
        if other is not None and not other.ran.is_timed_out:
            break
    return other


def with_numbers_of_the_block(case: Case, found: Findings) -> Findings:
    """With all scalars the length of the thread block, or a multiple, for findings about addresses and shared memory that no thread has
    written: the host may pass the size of the CTA, or leave no CTA with a remainder. For races between CTAs also with a small block, whose
    loops end soon."""
    if not any(map(_is_of_numbers, found)) or all(map(case.is_usual, OF_BLOCK)):
        return found
    left = _not_refuted_by_the_first(found, lambda *how: None if (one := case.resized(*how)) is None else one.ran)
    between = keep(left, is_between_ctas)
    if not between or declares_block(case.routine, case.shape.block):
        return left
    x, y, z = [min(side, FEW) for side in case.shape.block]
    small = attrs.evolve(case.shape, block=(x, y, z))
    confirmed = _not_refuted_by_the_first(between, lambda *how: None if (ran := case.within(small, *how)).outside else ran)
    return keep(left, lambda one: one not in between or one in confirmed)


def _is_of_numbers(finding: Finding) -> bool:
    """Whether numbers decide if there is a finding: they are part of addresses, and threads beyond them write nothing."""
    return is_of_addresses(finding) or (finding.diagnostic.name == UNINITIALISED and not is_of_own_memory(finding))


def _not_refuted_by_the_first(found: Findings, run: Callable[[Sizes, Findings], Ran | None]) -> Findings:
    """Those that numbers do not decide, that the first run shows which says anything about them, or about which none says anything. The
    largest numbers come first: with one element for each thread, loops of a CTA do not iterate."""
    refuted: Findings = ()
    asked = keep(found, _is_of_numbers)
    for sizes in OF_BLOCK:
        ran = run(sizes, asked) if asked else None
        if ran is not None:
            gone = [one for one in asked if is_refuted_there(one, ran)]
            refuted += tuple(gone)
            asked = tuple([one for one in asked if one not in gone and not is_in(one, ran)])
    return keep(found, lambda one: one not in refuted)


def with_drawn_numbers(case: Case, found: Findings) -> Findings:
    """With random scalars: relations of scalars to each other, such as equality, decide where accesses are, and those of the host may be
    others. There are as many tiles for each CTA: what happens from one to the next is not refuted by a launch with one."""
    for sizes in [attrs.evolve(one, scale=case.sizes.scale) for one in DRAWN]:
        asked = keep(found, is_of_addresses)
        drawn = case.resized(sizes, asked) if asked and not case.is_usual(sizes) else None
        if drawn is not None:
            found = _not_refuted_there(found, drawn)
    return found


def _not_refuted_there(found: Findings, drawn: Launched) -> Findings:
    return keep(found, lambda one: not (is_of_addresses(one) and is_refuted_there(one, drawn.ran)))
