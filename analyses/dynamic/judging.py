"""Judges the findings of a run: each doubt is a question that further runs answer.

A finding is believed only after it has been reproduced with other sizes, shapes and contents: one that appears only for some of them may
be caused by the example inputs rather than by the kernel.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from ptxkit.analyses.dynamic.by_contents import (
    depends,
    is_by_coincidence,
    is_by_table,
    is_compared_and_swapped,
    is_of_a_tagged_structure,
    is_of_bits,
    is_of_contents,
    is_of_exited_threads,
    with_a_reader,
    with_an_effect,
    with_other_contents,
)
from ptxkit.analyses.dynamic.by_shapes import (
    may_be_whole,
    with_as_many_as_counted,
    with_clusters_of_one,
    with_ctas_along_one_axis,
    with_few_threads,
    with_fewer_ctas,
    with_half_the_ctas,
    with_ordering_collectives,
    with_other_shapes,
    without_others_that_write,
)
from ptxkit.analyses.dynamic.by_sizes import (
    NOT_TRIED,
    can_be_resized,
    with_drawn_numbers,
    with_numbers_of_the_block,
    with_one_iteration,
    with_ones,
    with_other_counts,
    with_whole_rows,
    with_whole_warps,
)
from ptxkit.analyses.dynamic.case import RANDOM, Case, Findings, Question, Untried, unless
from ptxkit.analyses.dynamic.choosing import Launched
from ptxkit.analyses.dynamic.findings import UNINITIALISED, is_of_one_variable, is_race, lines_of
from ptxkit.analyses.dynamic.once import LOCKSTEP, Ran
from ptxkit.analyses.dynamic.runs import Runs, Setting
from ptxkit.analyses.execution.contents import COUNT, NOISE, ZEROS, Contents
from ptxkit.analyses.inputs.example import Example
from ptxkit.analyses.inputs.launches import Sizes
from ptxkit.analyses.inputs.shapes import declares_block
from ptxkit.frozen import frozen
from ptxkit.machine.findings import Finding

SIZES = "not shown with other sizes"
CTAS = "not shown with fewer CTAs, and the kernel does not tell CTAs apart"
ONE_AXIS = "not shown with several CTAs along one axis of the grid only: the host may launch as few"
FAR_CTAS = "not shown with half as many CTAs: the host may launch as few"
CLUSTERS = "not shown with clusters of one CTA, and the kernel does not say how many a cluster has"
SHAPES = "not shown with a CTA of another shape, and the kernel does not say which it has"
FEW_THREADS = "not shown with as few threads as the kernel tells apart"
WRITERS = "the kernel does not say how many threads a CTA has: a larger CTA may have the thread that writes"
COUNTS = "the kernel does not say how many threads a CTA has: it may be as many as the count says"
CHECKED = "the compare-and-swap that follows fails if another thread has changed the word"
TABLES = "its address comes from synthesized memory contents: the host may give each thread its own elements"
TAGGED = "another member of the structure may say that this one holds nothing"
BITS = "the word is read to set some of its bits: nothing else may read the others"
UNREAD = "no thread reads the stored value"
NO_EFFECT = "the threads that read write no memory: what they read has no effect"
OTHER_CONTENTS = "not shown with all synthesized contents of memory"
EXITED = "hardware counts threads that have exited, and whether any has depends on synthesized contents of memory"
CONTENTS = "what it does depends on synthesized contents of memory"
LACKS_THREADS = "the launch reads shared memory that no thread has written: it may lack the threads of a launch by the host"

Doubt = tuple[Question, str]
"""A question, and why a finding is dropped that does not remain."""

OF_THE_LAUNCH: tuple[Doubt, ...] = (
    (unless(is_of_contents), CONTENTS),
    (can_be_resized, NOT_TRIED),
    (with_whole_warps, SIZES),
    (with_fewer_ctas, CTAS),
    (with_ctas_along_one_axis, ONE_AXIS),
    (with_half_the_ctas, FAR_CTAS),
    (with_clusters_of_one, CLUSTERS),
    (with_ones, SIZES),
    (with_one_iteration, SIZES),
    (with_whole_rows, SIZES),
    (with_other_counts, SIZES),
    (with_drawn_numbers, SIZES),
    (with_numbers_of_the_block, SIZES),
    (with_few_threads, FEW_THREADS),
    (with_other_shapes, SHAPES),
)
"""Whether the sizes and shapes of the launch may have caused a finding. Questions that need no further run come first."""
OF_THE_REST: tuple[Doubt, ...] = (
    (without_others_that_write, WRITERS),
    (with_as_many_as_counted, COUNTS),
    (unless(is_compared_and_swapped), CHECKED),
    (unless(is_by_table), TABLES),
    (unless(is_of_a_tagged_structure), TAGGED),
    (unless(is_of_bits), BITS),
    (with_a_reader, UNREAD),
    (with_an_effect, NO_EFFECT),
    (with_other_contents, OTHER_CONTENTS),
    (unless(is_of_exited_threads), EXITED),
)
"""Whether more threads or other contents of memory excuse it. Not asked of races that warp collectives order."""


@frozen
class Found:
    """A finding of a run, and what it depends on."""

    finding: Finding
    example: Example
    doubt: str = ""
    """Why the example inputs may have caused it, by the first question that does not confirm it; empty if all do."""
    depends: bool = False
    """For a finding without doubt: whether its execution or address depends on synthesized contents."""
    in_order: bool = True
    """For a race: whether it remains one if warp collectives are taken to order memory accesses."""
    contents: Contents = COUNT
    schedule: str | int = LOCKSTEP
    """Contents of memory and schedule of the run."""
    first_lines: bool = False
    """Whether only the first lines of each matrix that a descriptor describes were read."""


def judged(
    runs: Runs, launched: Launched, sizes: Sizes, contrast: Sizes, setting: Setting, doubt: Callable[[Finding, Example], str]
) -> tuple[Found, ...]:
    """The findings of a run, with the doubts about them.

    `sizes` are those of the run, and `contrast` others with which its findings should appear. `doubt` says why a finding is dropped without
    further runs, or gives an empty string.
    """
    ran, contents = launched.ran, setting.contents
    equal = () if ran.wrong else tuple([one for one in ran.findings if is_by_coincidence(one, ran) and not doubt(one, ran.example)])
    if equal:
        contents = NOISE
        ran = runs.once(ran.example, attrs.evolve(setting, contents=contents, lines=_lines(equal)))
    if not ran.wrong:
        return ()
    why = {id(one): doubt(one, ran.example) or _lack_of_threads(runs, ran, one) for one in ran.wrong}
    asked = tuple([one for one in ran.wrong if not why[id(one)]])
    case = _case(runs, Launched(ran, launched.shape), sizes, contrast, attrs.evolve(setting, lines=_lines(asked)), contents)
    left = _ask(OF_THE_LAUNCH, case, asked, why)
    ordered = with_ordering_collectives(case, left) if left else ()
    sure = {id(one) for one in _ask(OF_THE_REST, case, ordered, why)}
    unordered = {id(one) for one in left} - {id(one) for one in ordered}
    return tuple(
        [
            Found(
                one,
                ran.example,
                why[id(one)],
                id(one) in sure and depends(case, one),
                id(one) not in unordered,
                contents,
                setting.schedule,
                runs.first_lines,
            )
            for one in ran.wrong
        ]
    )


def _ask(doubts: tuple[Doubt, ...], case: Case, found: Findings, why: dict[int, str]) -> Findings:
    """The findings about which no doubt remains. The doubt about each of the others is entered in `why`, and no further one is asked."""
    for question, reason in doubts:
        if not found:
            break
        try:
            left = question(case, found)
        except Untried as error:
            left, reason = (), str(error)
        remaining = {id(one) for one in left}
        why.update({id(one): reason for one in found if id(one) not in remaining})
        found = left
    return found


def _case(runs: Runs, launched: Launched, sizes: Sizes, contrast: Sizes, setting: Setting, contents: Contents) -> Case:
    """The run with the other contents in which its findings should appear."""
    ran = launched.ran
    others: tuple[Contents, ...] = ()
    flags = ran.observer.flags if setting.contents is ZEROS else {}
    if setting.contents is COUNT:
        others = RANDOM, ZEROS
    elif setting.contents is ZEROS and ran.depends_on_data:
        others = RANDOM, COUNT
        setting = attrs.evolve(setting, contents=COUNT)
    return Case(runs, ran, launched.shape, sizes, contrast, contents, setting, others, flags)


def _lines(asked: Findings) -> frozenset[int] | None:
    """The lines on which races matter to further runs: those of the findings. A race in a shared variable is confirmed by any other race in
    it, on any lines."""
    return None if any(is_race(one) and is_of_one_variable(one, one) for one in asked) else frozenset().union(*map(lines_of, asked))


def _lack_of_threads(runs: Runs, ran: Ran, finding: Finding) -> str:
    """Why a race may be due to a lack of threads: the run reads shared memory that no thread has written, with a block that the kernel does
    not specify. A block of the host may have the threads that write it, and others elsewhere."""
    block = ran.example.block
    if not is_race(finding) or declares_block(runs.routine, block):
        return ""
    unwritten = [one for one in ran.wrong if one.diagnostic.name == UNINITIALISED and one.witness.get("space") == "shared"]
    return LACKS_THREADS if any(not may_be_whole(runs.routine, one, block) for one in unwritten) else ""
