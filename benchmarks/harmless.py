"""What a mutant does, as executions of it show, in launches that are synthesized for its kernel.

A launch counts if the changed line is executed in the original, all threads run to completion, and no monitor finds anything. A mutant is
harmless if every run of it is complete, no monitor finds anything in any, and memory is the same in the end.
"""

from __future__ import annotations

import enum
import functools
import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

from ptxkit.analyses.dynamic.exercise import exercise
from ptxkit.analyses.dynamic.once import once
from ptxkit.analyses.dynamic.runs import Runs, Setting
from ptxkit.analyses.execution.contents import COUNT, NOISE, ZEROS, Contents
from ptxkit.analyses.execution.loading import module_code
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.inputs.cost import most_operations
from ptxkit.analyses.inputs.example import Example
from ptxkit.analyses.inputs.launches import MANY, Sizes
from ptxkit.analyses.inputs.shapes import shapes
from ptxkit.machine.monitoring import Monitor

SCHEDULES: tuple[str | int, ...] = ("lockstep", "late", "early", 1, 2, 3)
FEW_SCHEDULES: tuple[str | int, ...] = ("lockstep", 1)
SECONDS = 60.0
LONGER = 8
"""A mutant may take this many times the operations of a run of the kernel."""
MOST_SHAPES = 8
ENOUGH = 4
"""Launches that are enough to judge a mutant by."""
SIZES = Sizes(scale=4, covers=True), Sizes(counts=MANY, scale=2), Sizes(covers=True, drawn=1), Sizes(uneven=5, covers=True), Sizes()
"""Several elements for each thread, more iterations than any ring has stages, numbers of no relation, and a partial CTA."""


class Effect(enum.StrEnum):
    """What a mutant does that its original does not."""

    NONE = "harmless"
    UNDEFINED = "undefined"
    """A monitor finds something, other than that an array of made-up length is left."""
    RESULTS = "other results"
    """Nothing is undefined, and memory is another in the end, or the launch ends otherwise."""
    UNKNOWN = "not executed"


class Right(NamedTuple):
    """A launch of a kernel that runs to completion, and in which no monitor finds anything."""

    one: Example
    contents: Contents
    memory: tuple[bytes, ...]
    lines: frozenset[int]


class Executed(Monitor):
    """The lines of what has been executed."""

    def begin(self, launch: Any) -> None:
        self.launch = launch
        self.lines: set[int] = set()

    def block(self, lanes: Any, body: Any, block: Any, taken: Any) -> None:
        sites = [*body.sites[block.start : block.end], *([body.sites[block.last]] if block.last >= 0 else ())]
        self.lines.update([self.launch.span(site).line for site in sites])


def is_harmless(original: Routine, mutant: Routine, line: int) -> bool:
    """Whether a mutant, with a change on this line, is harmless in the launches that `lint` tries; not if none executes the line."""
    return _effect(mutant, _tried(original), line, SCHEDULES, most_operations(original)) is Effect.NONE


def outcome(original: Routine, mutant: Routine, line: int) -> Effect:
    """What a mutant, with a change on this line, does in launches that do not depend on what `lint` tries and believes: of all shapes
    with all of `SIZES`."""
    return _effect(mutant, _of_all_sizes(original), line, FEW_SCHEDULES, most_operations(original))


def _effect(mutant: Routine, launches: Iterable[Right], line: int, schedules: tuple[str | int, ...], operations: int) -> Effect:
    code, executing = module_code(mutant), [one for one in launches if line in one.lines]
    if code is None or not executing:
        return Effect.UNKNOWN
    found = Effect.NONE
    for schedule, right in itertools.product(schedules, executing):
        other = once(code, right.one, right.contents, LONGER * operations, SECONDS, schedule, keep=True)
        if other.wrong and other.outside != ".global":
            return Effect.UNDEFINED
        if other.fault is not None or other.memory != right.memory:
            found = Effect.RESULTS
    return found


@functools.lru_cache(maxsize=1)
def _tried(routine: Routine) -> tuple[Right, ...]:
    code = module_code(routine)
    known: dict[Example, Any] = {}
    if code is not None:
        exercise(routine, code, known=known)
    return tuple([Right(one, COUNT, ran.memory, ran.lines) for one, ran in known.items() if ran.fault is None and not ran.wrong])


@functools.lru_cache(maxsize=1)
def _of_all_sizes(routine: Routine) -> tuple[Right, ...]:
    code = module_code(routine)
    found: dict[Example, Right] = {}
    if code is None:
        return ()
    runs = Runs(routine, code, SECONDS)
    for shape, sizes, contents in itertools.product(shapes(routine)[:MOST_SHAPES], SIZES, (NOISE, COUNT, ZEROS)):
        # arrays as long as the kernel needs them
        one, executed = runs.within(shape, sizes, Setting(contents)).example, Executed()
        if one in found:
            continue
        ran = once(code, one, contents, LONGER * most_operations(routine), SECONDS, keep=True, also=(executed,))
        if ran.fault is None and not ran.wrong:
            found[one] = Right(one, contents, ran.memory, frozenset(executed.lines))
        if len(found) >= ENOUGH or runs.is_full:
            break
    return tuple(found.values())
