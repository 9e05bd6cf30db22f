"""Executes a kernel with example launches until one proves valid, and reports what that launch shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.reachability import closure
from ptxkit.analyses.dynamic.by_sizes import UNEVEN_CONTRAST
from ptxkit.analyses.dynamic.case import RANDOM
from ptxkit.analyses.dynamic.choosing import CONTRAST, Launched, first_valid
from ptxkit.analyses.dynamic.findings import AT_ENDS, DIVERGENCE, UNINITIALISED, UPDATES, is_of, is_of_ends, is_read_of_owned, is_update
from ptxkit.analyses.dynamic.judging import Found, judged
from ptxkit.analyses.dynamic.once import Ran, is_ordered
from ptxkit.analyses.dynamic.runs import USUAL, Runs, Setting
from ptxkit.analyses.execution.contents import NOISE, ZEROS
from ptxkit.analyses.framework.bindings import has_matching, matching
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.inputs.example import Example
from ptxkit.analyses.inputs.fitting import is_guessed
from ptxkit.analyses.inputs.launches import FEW, MANY, Sizes, is_compared
from ptxkit.analyses.inputs.numbers import excuse_all
from ptxkit.analyses.inputs.parameters import Role, parameters
from ptxkit.analyses.inputs.reached import meets_in_loops, needs, reached
from ptxkit.analyses.inputs.shapes import Shape, shapes
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound

if TYPE_CHECKING:
    from ptxkit.machine.findings import Finding
    from ptxkit.machine.loading import Code

SECONDS = 60.0
"""Time limit for one kernel, all runs included, in seconds. Runs are bounded by a count of operations; this limit only matters on a busy
machine."""
ORDERS: tuple[str | int, ...] = (1, 2)
"""Schedules to try if the order of threads may matter."""
FIRST = Sizes()
UNEVEN = 7
"""A remainder for the last CTA."""
LOW, LOW_TOO = 5, 3
"""Numbers that some lanes fall below, for kernels that compare a scalar with part of a lane's index."""
TILES = 4
"""Elements for each thread, so that a CTA processes several tiles."""
REST_CONTRAST = attrs.evolve(CONTRAST, rest=1)
UNEVEN_TILES = attrs.evolve(UNEVEN_CONTRAST, scale=TILES)
EMPTY = Sizes(empty=True)
OTHER_LEADER = "early"
"""A schedule under which `elect.sync` elects another lane than usual."""
OF_TENSORS = "T"
"""The family of rules about tensor memory. A kernel must free it even if there is nothing to compute."""
Doubting = Callable[["Finding", Example], str]
"""Why a finding is dropped at once, or an empty string."""
WAITS = frozenset(("budget", "deadlock"))
"""Kinds of faults of threads that wait for something that the contents of memory prevent."""


@frozen
class Exercised:
    """Result for one kernel. `example` is the launch that was executed, or None if none was valid."""

    example: Example | None
    found: tuple[Found, ...]
    is_complete: bool = False
    """Whether all threads ran to completion, in one of the launches."""
    lines: frozenset[int] = frozenset()
    """Lines of the executed instructions that access memory or synchronize."""
    is_cut: bool = False
    """Whether the time limit ended it; a machine that is less busy might find more."""
    unjudged: frozenset[int] = frozenset()
    """Lines with findings that were dropped as doubtful. Nothing is refuted there."""


def _no_doubt(finding: Finding, example: Example) -> str:
    return ""


def _every(finding: Finding, ran: Ran) -> bool:
    return True


@frozen
class Attempt:
    """Another launch of the same shape, which may reveal more."""

    sizes: Sizes = FIRST
    contrast: Sizes = CONTRAST
    setting: Setting = USUAL
    counts: Callable[[Finding, Ran], bool] = _every
    """Whether a finding of it counts."""
    has_races: bool = True
    """Whether a race may count."""

    def launch(self, runs: Runs, shape: Shape) -> Launched | None:
        """The launch; None if it is not valid."""
        lines = None if self.has_races else frozenset[int]()
        return first_valid(runs, (shape,), self.sizes, attrs.evolve(self.setting, lines=lines))

    def found(self, runs: Runs, launched: Launched | None, doubt: Doubting) -> tuple[Found, ...]:
        """What counts of the findings of the launch."""
        if launched is None:
            return ()
        found = judged(runs, launched, self.sizes, self.contrast, self.setting, doubt)
        return tuple([one for one in found if self.counts(one.finding, launched.ran)])


def exercise(
    routine: Routine, code: Code, seconds: float = SECONDS, known: dict[Example, Ran] | None = None, doubt: Doubting = _no_doubt
) -> Exercised:
    """Tries launches of a kernel one after the other, and judges the first valid one, and others of its shape that may reveal more.

    `known` are earlier runs of the same text in the usual setting, by launch; new ones are added. `doubt` says why a finding is dropped
    without further runs, or gives an empty string.
    """
    runs = Runs(routine, code, seconds, known)
    launched = first_valid(runs, shapes(routine), FIRST, USUAL)
    if launched is None:
        return Exercised(None, (), is_cut=runs.is_cut)
    found = Attempt().found(runs, launched, doubt)
    ran, shape = launched.ran, launched.shape
    tried = [ran]
    # what shows where boxes of tensor maps were guessed, or where nothing counts, is no finding by itself, no matter how often
    goes_on = not is_guessed(routine) and not excuse_all(routine, shape.block)
    for attempt in with_other_sizes(routine) if goes_on else ():
        if _is_settled(found) or ran.fault is not None:
            break
        more = attempt.launch(runs, shape)
        if more is not None:
            ran = more.ran
            tried.append(ran)
        found += attempt.found(runs, more, doubt)
    for attempt in with_other_contents(routine, ran) if goes_on else ():
        if _is_settled(found) or ran.fault is not None:
            break
        found += attempt.found(runs, attempt.launch(runs, shape), doubt)
    if goes_on and not _is_settled(found) and ran.fault is None and elects(routine):
        attempt = Attempt(setting=Setting(schedule=OTHER_LEADER))
        found += attempt.found(runs, attempt.launch(runs, shape), doubt)
    is_over = ran.fault is None or ran.fault.kind in WAITS
    if goes_on and is_over and not any(map(_is_sure, found)) and _is_held_up(routine, ran):
        found += _in_other_orders(runs, shape, doubt)
    wrong = {id(one) for each in tried for one in each.wrong}
    unjudged = frozenset([one.diagnostic.span.line for each in tried for one in each.findings if id(one) not in wrong])
    is_complete = any(each.fault is None for each in tried) and not runs.first_lines
    lines = frozenset[int]().union(*[each.lines for each in tried])
    return Exercised(ran.example, found, is_complete, lines, runs.is_cut, unjudged)


def with_other_sizes(routine: Routine) -> Iterator[Attempt]:
    """Other sizes that may reveal more: a ring fails when it wraps around, and some sizes hide an out-of-bounds access."""
    if has_rounds(routine):
        yield Attempt(Sizes(counts=MANY, rest=1), REST_CONTRAST)
    meets = needs(routine, "cta") or needs(routine, "warp")
    if is_compared(routine) and (meets or _has_arrays_of_its_own(routine)):
        yield Attempt(Sizes(uneven=UNEVEN), UNEVEN_CONTRAST, counts=_of_ends(AT_ENDS, routine), has_races=False)
    if is_compared(routine) and meets:
        yield Attempt(Sizes(small=LOW), Sizes(counts=2 * FEW, small=LOW_TOO), counts=_of_ends(DIVERGENCE, routine), has_races=False)
        if meets_in_loops(routine):
            yield Attempt(Sizes(scale=TILES))
            yield Attempt(Sizes(scale=TILES, uneven=UNEVEN), UNEVEN_TILES, counts=_of_ends(AT_ENDS, routine), has_races=False)
    if allocates(routine):
        yield Attempt(EMPTY, EMPTY, counts=_of_ends(OF_TENSORS, routine))


def _of_ends(families: Sequence[str], routine: Routine) -> Callable[[Finding, Ran], bool]:
    return lambda finding, ran: is_of_ends(finding, families, routine, ran)


def with_other_contents(routine: Routine, ran: Ran) -> Iterator[Attempt]:
    """Other contents that may reveal more than this run: some make several threads update one word of shared memory, as in a histogram,
    others make a thread read a word that another one has written, or diverge.

    Real inputs may never make threads store to the same word, so of the first only unsynchronized read-modify-writes count.
    """
    if _scatters(ran) or _gathers(routine, ran):
        yield Attempt(setting=Setting(RANDOM), counts=_of_any_contents)
    if _may_diverge(routine, ran):
        yield Attempt(setting=Setting(NOISE), counts=lambda finding, ran: is_of(finding, DIVERGENCE))


def _of_any_contents(finding: Finding, ran: Ran) -> bool:
    """Whether a finding of a run with random contents may be one for other contents, too."""
    return is_update(finding, ran) or is_read_of_owned(finding, ran) or is_of(finding, DIVERGENCE)


def _is_held_up(routine: Routine, ran: Ran) -> bool:
    """Whether threads inspect what others have written, and a run may have missed something by that: flags in synthesized memory did not
    have the values that they have initially, or threads waited until the end for something that the schedule never let happen."""
    seen, one = ran.observer, ran.example
    has_others = math.prod(one.grid) * math.prod(one.block) > 1
    return has_others and hands_over(routine) and (bool(seen.flags) or (ran.fault is not None and not seen.has_seen_most))


def _in_other_orders(runs: Runs, shape: Shape, doubt: Doubting) -> tuple[Found, ...]:
    """Findings under other schedules. Flags are initially zero. Where threads still wait under one, they would under the next."""
    for schedule in ORDERS:
        attempt = Attempt(setting=Setting(ZEROS, schedule))
        launched = attempt.launch(runs, shape)
        found = attempt.found(runs, launched, doubt)
        if found or (launched is not None and launched.ran.is_timed_out):
            return found
    return ()


def _may_diverge(routine: Routine, ran: Ran) -> bool:
    """Whether synthesized contents decide if threads get to what they must execute together."""
    return (needs(routine, "cta") or needs(routine, "warp")) and _decide(routine, ran, _is_together)


def _decide(routine: Routine, ran: Ran, holds: Callable[[Bound], bool]) -> bool:
    """Whether a branch by synthesized contents decides if an instruction for which something holds is executed."""
    branches = {site.path for site in ran.depends if isinstance(site.bound, Bound) and site.bound.form.mnemonic == "bra"}
    for of in reached(routine) if branches else ():
        block_of, depends_on = control_flow(of).block_of, dominators(of).depends_on
        blocks = {block_of[i] for i, _ in matching(of, lambda bound: holds(bound) or bound.form.mnemonic == "call")}
        deciding = closure({branch for block in blocks for branch in depends_on(block)}, depends_on)
        if any(block_of[i] in deciding for i, _ in matching(of, lambda bound: bound.form.mnemonic == "bra") if of.where(i) in branches):
            return True
    return False


def _is_together(bound: Bound) -> bool:
    """Whether threads must execute an instruction together."""
    return bool(bound.barrier) or bound.converges is not None


def _scatters(ran: Ran) -> bool:
    """Whether a store to shared memory depends on contents."""
    if not any(_stores_to_shared(bound) for body in ran.bodies for bound in body.forms):
        return False
    return any(_stores_to_shared(site.bound) for site in ran.depends)


def _stores_to_shared(bound: Any) -> bool:
    """Whether an instruction may write shared memory, also by a generic address."""
    return isinstance(bound, Bound) and bound.form.mnemonic in ("st", *UPDATES) and _is_shared(bound)


def _gathers(routine: Routine, ran: Ran) -> bool:
    """Whether contents may decide which word of shared memory a thread reads, or whether it does, among words that threads write."""
    if not any(_stores_to_shared(bound) for body in ran.bodies for bound in body.forms):
        return False
    reads = any(isinstance(site.bound, Bound) and site.bound.form.mnemonic == "ld" and _is_shared(site.bound) for site in ran.depends)
    return reads or _decide(routine, ran, lambda bound: _is_together(bound) or _is_shared(bound))


def _is_shared(bound: Bound) -> bool:
    """Whether an instruction may access shared memory, also by a generic address."""
    is_plain = bound.form.mnemonic in ("ld", "st", *UPDATES)
    return bool(bound.memory) and not (is_plain and any(map(bound.has, (".global", ".local", ".param", ".const"))))


def _has_arrays_of_its_own(routine: Routine) -> bool:
    """Whether threads store to local memory, which they may leave unwritten on some paths."""
    return any(has_matching(one, lambda bound: bound.form.mnemonic == "st" and bound.has(".local")) for one in reached(routine))


def _is_settled(found: tuple[Found, ...]) -> bool:
    """Whether a finding is beyond doubt, so that further launches need not be tried.

    A value that no thread has written does not settle it: it has no part in which threads meet at barriers, or race.
    """
    return any(not one.doubt and one.finding.diagnostic.name != UNINITIALISED for one in found)


def _is_sure(found: Found) -> bool:
    """Whether a finding is independent of everything that was synthesized."""
    return not found.doubt and not found.depends


def hands_over(routine: Routine) -> bool:
    """Whether threads read with ordering semantics or update memory, and use the result: what they do next may depend on which thread came
    first.

    A thread that waits at a barrier continues in the same manner whichever thread arrived first.
    """

    def holds(bound: Bound) -> bool:
        return is_ordered(bound) and not bound.barrier

    return any(_is_read(one, i) for one in reached(routine) for i, _ in matching(one, holds))


def _is_read(routine: Routine, i: int) -> bool:
    """Whether a result of the instruction is used."""
    numbering = ssa(routine)
    return any(numbering.readers[number] or number in numbering.operand_of for number in numbering.definitions[i])


def elects(routine: Routine) -> bool:
    """Whether the kernel elects a lane of a warp. The ISA does not say which one (9.7.14.14)."""
    return any(has_matching(one, lambda bound: bound.form.mnemonic == "elect") for one in reached(routine))


def allocates(routine: Routine) -> bool:
    """Whether the kernel allocates tensor memory."""
    return any(has_matching(one, lambda bound: "alloc" in bound.effects) for one in reached(routine))


def has_rounds(routine: Routine) -> bool:
    """Whether the kernel has operations in flight across iterations, and a parameter determines the number of iterations."""

    def holds(bound: Bound) -> bool:
        arrives = {barrier.action for barrier in bound.barrier} == {"arrive"}
        return bool(arrives or bound.asynchronous or bound.completes or any(memory.is_async for memory in bound.memory))

    counts = any(slot.role is Role.COUNT for one in parameters(routine) for slot in one.slots)
    return counts and any(has_matching(one, holds) for one in reached(routine))
