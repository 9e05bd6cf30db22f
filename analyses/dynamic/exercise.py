"""A kernel executed with launches that were made up, until one is found that is a launch of it, and what that shows.

What a run shows is shown again with other sizes and other contents before it is believed: what shows with some only may be the fault of who
made them up.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import attrs

from ptxkit.analyses.dynamic.once import Ran, once
from ptxkit.analyses.execution.contents import COUNT, NOISE, ZEROS, Contents
from ptxkit.analyses.execution.execute import OF_LAUNCH, UNKNOWN, cause_of
from ptxkit.analyses.framework.bindings import has_such
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.inputs.boxes import is_guessed
from ptxkit.analyses.inputs.example import Example
from ptxkit.analyses.inputs.launches import FEW, MANY, Sizes, example, is_compared, most_operations
from ptxkit.analyses.inputs.parameters import Role, parameters
from ptxkit.analyses.inputs.shapes import Shape, needs, reached, shapes
from ptxkit.analyses.launch.launch import WARP, cluster_size, launch
from ptxkit.isa.binding import Bound
from ptxkit.machine.launching import shared_limit

if TYPE_CHECKING:
    from ptxkit.machine.findings import Finding
    from ptxkit.machine.loading import Code

SECONDS = 60.0
"""So long one kernel may take, with all its runs: what they may cost is counted in operations, and who comes so far is on a computer that
is busy."""
LEAST = 1
"""Operations that a run may cost when all are used up: it ends at once."""
RUNS = 4
"""What all runs of a kernel together may cost, in longest runs; another is not begun then."""
MOST_LAUNCHES = 12
"""So many shapes are tried."""
GROWTH, MOST_GROWTH = 32, 1024
"""Arrays that a run leaves are made so many times as large; altogether at most."""
UNEVEN = 7
CONTRAST = Sizes(counts=2 * FEW, scale=2, differ=True)
UNEVEN_CONTRAST = Sizes(counts=2 * FEW, scale=2, uneven=UNEVEN)
TOGETHER = "CB"
"""Families of rules about what threads execute together."""
BY_ITSELF = frozenset(("trap", "assert"))
"""Kinds of faults by which a kernel says that it was not meant to be launched so."""
OF_SHAPE = frozenset(("launch", "shared"))
"""Kinds of faults that another shape may be without."""
RANDOM = Contents("random", 1)

Launched = tuple[Ran, Shape]


@attrs.frozen
class Found:
    """A finding of a run, and what it depends on."""

    finding: Finding
    example: Example
    depends: bool
    """Whether its path or address depends on contents that were made up."""
    other_contents: bool
    """Whether it shows with other contents, too."""
    other_sizes: bool | None
    """Whether it shows with other sizes, too; None if no launch with others could be tried."""
    other_shapes: bool = True
    """Whether it shows with CTAs of other sides and as many threads, too, if the kernel does not say what they are."""


@attrs.frozen
class Exercised:
    """What came of it. `example` is the launch that ran, None if none did; `why` says what ended the last one."""

    example: Example | None
    found: tuple[Found, ...]
    why: str = ""
    is_complete: bool = False
    """Whether all threads ran to completion."""
    lines: frozenset[int] = frozenset()
    """Those of instructions that were executed, of which an execution could have shown something."""
    is_cut: bool = False
    """Whether the clock ended it: on a computer that is less busy there might be more."""
    unjudged: frozenset[int] = frozenset()
    """Lines at which something was seen and left out, as it is not sure: nothing is refuted there."""


class Exercise:
    """The runs of one kernel."""

    def __init__(self, routine: Routine, code: Code, seconds: float = SECONDS) -> None:
        self.routine = routine
        self.code = code
        self.operations = most_operations(routine)
        self.left = RUNS * self.operations
        self.end = time.perf_counter() + seconds
        self.why = ""
        self.growth = 1
        self.shared = 0

    def run(self) -> Exercised:
        """Tries launches one after the other. The first that is one is believed."""
        launched = self._first(shapes(self.routine), Sizes())
        if launched is None:
            return Exercised(None, (), self.why, is_cut=self._is_cut)
        ran, shape = launched
        found = list(self._judged(launched, CONTRAST))
        for sizes, contrast, families in self._further(ran) if not found and ran.fault is None else ():
            more = self._first((shape,), sizes)
            if more is not None:
                ran = more[0]
                found = [one for one in self._judged(more, contrast) if one.finding.diagnostic.rule[:1] in families or not families]
            if found:
                break
        bodies = ran.observer.program.entered if ran.observer.program is not None else ()
        lines = frozenset([ran.line_of(site) for body in bodies for site in body.sites if id(site) in ran.observer.seen])
        sure = {id(one) for one in ran.wrong}
        unjudged = frozenset([one.diagnostic.span.line for one in ran.findings if id(one) not in sure])
        return Exercised(ran.example, tuple(found), self.why, ran.fault is None, lines, self._is_cut, unjudged)

    @property
    def _is_cut(self) -> bool:
        return time.perf_counter() > self.end

    def _further(self, ran: Ran) -> Iterator[tuple[Sizes, Sizes, str]]:
        """Other sizes with which more may show: a ring goes wrong when it wraps around, and some sizes hide an access out of bounds."""
        if has_rounds(self.routine):
            yield Sizes(counts=MANY), CONTRAST, ""
        if is_compared(self.routine) and needs(self.routine, "cta"):
            yield Sizes(uneven=UNEVEN), UNEVEN_CONTRAST, TOGETHER

    def _first(self, choices: tuple[Shape, ...], sizes: Sizes) -> Launched | None:
        """The first launch that stays within what it was given. Of a kernel that says its block, what it does there is its own doing."""
        last = None
        for shape in choices[:MOST_LAUNCHES]:
            ran = self._within(shape, sizes)
            fault, outside = ran.fault, ran.outside
            self.why = fault.reason if fault is not None else ""
            if fault is not None and fault.kind in UNKNOWN | OF_LAUNCH | BY_ITSELF and fault.kind != "budget":
                if fault.kind in OF_SHAPE or outside:
                    continue
                return None
            if outside == ".shared" and ran.example.shared:
                # it takes more than there is
                return None
            waits = fault is not None and fault.kind == "deadlock"
            if not outside and not waits and not self._is_for_a_warp(ran, shape):
                return ran, shape
            if outside != ".global":
                last = (ran, shape)
        # what goes wrong with every shape does so by itself
        return last

    def _is_for_a_warp(self, ran: Ran, shape: Shape) -> bool:
        """Whether warps do the same at one address of shared memory, and never wait for one another: a launch has but one."""
        x, y, z = shape.block
        if x * y * z <= WARP or needs(self.routine, "cta") or launch(self.routine).threads is not None:
            return False
        for finding in ran.wrong:
            accesses = finding.witness.get("accesses", ())
            numbers = [one["thread"][0] + x * (one["thread"][1] + y * one["thread"][2]) for one in accesses if "thread" in one]
            if finding.witness.get("space") == "shared" and len(numbers) == 2 and numbers[0] != numbers[1]:
                if (numbers[0] - numbers[1]) % WARP == 0:
                    return True
        return False

    def _within(self, shape: Shape, sizes: Sizes) -> Ran:
        """The run of a launch, with arrays and dynamic shared memory as large as it takes."""
        while True:
            one = self._example(shape, sizes)
            ran = self._once(one, COUNT)
            if ran.outside == ".global" and self.growth < MOST_GROWTH:
                self.growth *= GROWTH
            elif ran.outside == ".shared" and one.shared and one.shared < self._most_shared():
                self.shared = self._most_shared()
            elif ran.outside == ".global":
                # numbers in memory may be meant as indices
                return self._once(one, ZEROS)
            else:
                return ran

    def _example(self, shape: Shape, sizes: Sizes) -> Example:
        one = example(self.routine, shape, sizes)
        if self.shared:
            one = attrs.evolve(one, shared=self.shared)
        return one.with_larger_arrays(self.growth) if self.growth > 1 else one

    def _most_shared(self) -> int:
        """The most dynamic shared memory that a launch can have."""
        program = self.code.program(self.routine.name, False, True)
        return max(0, (shared_limit(self.code.machine.target) - program.shared_dynamic) // 1024 * 1024)

    def _once(self, one: Example, contents: Contents) -> Ran:
        ran = once(self.code, one, contents, max(LEAST, min(self.operations, self.left)), max(0.1, self.end - time.perf_counter()))
        self.left -= ran.observer.operations
        return ran

    def _judged(self, launched: Launched, contrast: Sizes) -> Iterator[Found]:
        """What a run showed, tried again with other contents and other sizes."""
        ran, shape = launched
        if ran.findings and not ran.wrong:
            # values may be equal by chance
            ran = self._once(ran.example, NOISE)
        if not ran.wrong:
            return
        sites = {id(site): self.code.index.span(site.path).line for site in ran.depends}
        again = [self._causes(self._once(ran.example, contents)) for contents in (RANDOM, ZEROS)] if sites else []
        other = self._first((shape,), contrast)
        elsewhere = self._causes(other[0]) if other is not None else None
        guessed = is_guessed(self.routine)
        reshaped = self._of_other_sides(shape)
        for finding in ran.wrong:
            cause = cause_of(finding)
            lines = {finding.diagnostic.span.line, *[related.span.line for related in finding.diagnostic.related]}
            yield Found(
                finding,
                ran.example,
                bool(lines & set(sites.values())),
                all(cause in causes for causes in again),
                None
                if elsewhere is None or guessed or _is_of_equal_ctas(finding) or self._is_of_a_guessed_cluster(finding, shape)
                else cause in elsewhere,
                all(cause in causes for causes in reshaped),
            )

    def _of_other_sides(self, shape: Shape) -> list[set[tuple[Any, ...]]]:
        """What shows with CTAs of as many threads and other sides, with all of which threads run to completion."""
        if launch(self.routine).threads is not None:
            return []
        others = [one for one in shapes(self.routine) if one != shape and math.prod(one.block) == math.prod(shape.block)]
        ran = [self._within(one, Sizes()) for one in others]
        return [self._causes(one) for one in ran if one.fault is None and not one.outside]

    def _is_of_a_guessed_cluster(self, finding: Finding, shape: Shape) -> bool:
        """Whether CTAs of a cluster are involved, and the kernel does not say how many these are."""
        if shape.cluster is None or cluster_size(self.routine) is not None:
            return False
        ctas = {tuple(one["cta"]) for one in finding.witness.get("accesses", ()) if "cta" in one}
        return finding.witness.get("space") != "global" and (len(ctas) > 1 or finding.diagnostic.rule.startswith("G"))

    def _causes(self, ran: Ran) -> set[tuple[Any, ...]]:
        return {cause_of(finding) for finding in ran.wrong}


def has_rounds(routine: Routine) -> bool:
    """Whether a kernel has operations in flight from one iteration to the next, and a parameter says how many there are."""

    def holds(bound: Bound) -> bool:
        return bool(bound.asynchronous or bound.completes or any(memory.is_async for memory in bound.memory))

    counts = any(slot.role is Role.COUNT for one in parameters(routine) for slot in one.slots)
    return counts and any(has_such(one, holds) for one in reached(routine))


def _is_of_equal_ctas(finding: Finding) -> bool:
    """Whether the same thread of two CTAs executes the same instruction at one address of global memory: a launch may have one CTA only."""
    accesses = finding.witness.get("accesses", ())
    if finding.witness.get("space") != "global" or len(accesses) != 2:
        return False
    one, other = accesses
    return bool(one["cta"] != other["cta"] and one["thread"] == other["thread"] and one["line"] == other["line"])
