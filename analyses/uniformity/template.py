"""The threads that a CTA may have, and the values of terms that depend only on the thread index.

With `.reqntid`, these are the actual threads. Otherwise they are the most that a CTA may have, and their indices are known if CTAs can be
assumed to be one-dimensional: nothing reads `%tid.y` or `%tid.z`. What is uniform for the most threads is uniform for fewer, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

from ptxkit.analyses.framework.bindings import specials
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.launch.inputs import widest_block
from ptxkit.analyses.launch.launch import WARP, WARP_MASK, launch
from ptxkit.analyses.symbolic.domains import lanes
from ptxkit.analyses.symbolic.evaluate import evaluate, number_of
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.vectors import Numbers
from ptxkit.analyses.threads.lanes import Thread, threads_of
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.syntax import constant_value

Source = Callable[[Term], tuple[Term, int] | None]
"""For a leaf that one lane of the warp broadcasts: the term of the lane's value, and the lane."""

ONE_DIMENSION = "CTAs have one dimension, as nothing reads `%tid.y` or `%tid.z`"
MASKS = frozenset(("%lanemask_eq", "%lanemask_le", "%lanemask_lt", "%lanemask_ge", "%lanemask_gt"))
INDICES = frozenset(("%tid.x", "%tid.y", "%tid.z", "%laneid")) | MASKS
RANK = "%rank"
"""Represents the linear thread index in the CTA, `%tid.x + %ntid.x * (%tid.y + %ntid.y * %tid.z)`, for any shape."""
SAMPLES = (1, 16, 31)
"""Threads of the first warp that are compared with thread 0 before all are."""


class Template:
    """The threads of a CTA, numbered as in hardware, and their values."""

    def __init__(self, routine: Routine, flat: bool, source: Source | None = None) -> None:
        shape = launch(routine).threads
        self.is_certain = shape is not None
        """Whether a CTA has exactly these threads; otherwise it may have fewer."""
        self.has_indices = shape is not None or flat
        """Whether the index of each thread is known; otherwise only its lane."""
        self.assumption = "" if shape is not None or not flat else ONE_DIMENSION
        self.shape = widest_block(routine)
        self.count = math.prod(self.shape)
        """The number of threads."""
        self._sizes = dict(zip(("%ntid.x", "%ntid.y", "%ntid.z"), shape or (), strict=False))
        self._source = source
        self._specials: dict[str, Numbers | None] = {}
        self._vectors: dict[Term, Numbers | None] = {}
        self._samples: dict[int, dict[Term, int | None]] = {}

    def assumed(self, last: int) -> str:
        """What is assumed when a message names the thread of this number."""
        if self.is_certain:
            return ""
        many = f"a CTA has {last + 1} threads or more" if last else ""
        return "; ".join(filter(None, (self.assumption, many)))

    @cached_property
    def threads(self) -> tuple[Thread, ...]:
        """The threads in order."""
        return threads_of(self.shape)

    def special(self, name: str, thread: int) -> int | None:
        """The value of a special register for a thread; None if it depends on more than the thread index."""
        found = self.specials(name)
        return None if found is None else found[thread]

    def specials(self, name: str) -> Numbers | None:
        """The value of a special register for each thread; None if it depends on more than the thread index."""
        if name not in self._specials:
            self._specials[name] = self._special(name)
        return self._specials[name]

    def _special(self, name: str) -> Numbers | None:
        indices = range(self.count)
        if name == RANK:
            return tuple(indices)
        if name in self._sizes:
            return (self._sizes[name],) * self.count
        if name == "%laneid":
            return tuple([index % WARP for index in indices])
        if name in MASKS:
            ones = [1 << index % WARP for index in indices]
            masks = {
                "eq": lambda one: one,
                "le": lambda one: 2 * one - 1,
                "lt": lambda one: one - 1,
                "ge": lambda one: WARP_MASK & -one,
                "gt": lambda one: WARP_MASK & (-one << 1),
            }
            return tuple(map(masks[name[-2:]], ones))
        if name not in INDICES or not self.has_indices:
            return None
        width, height, _ = self.shape
        before, size = {"x": (1, width), "y": (width, height), "z": (width * height, self.count)}[name[-1]]
        return tuple([index // before % size for index in indices])

    def _leaf(self, leaf: Term, thread: int) -> int | None:
        if leaf.operator == "special":
            return self.special(leaf.name, thread)
        source = self._source(leaf) if self._source is not None and leaf.operator == "value" else None
        return None if source is None else self.number(source[0], thread - thread % WARP + source[1])

    def number(self, term: Term, thread: int) -> int | None:
        """The value of a term for one thread."""
        if thread >= self.count:
            return None
        found = self._samples.setdefault(thread, {})
        return found[term] if term in found else number_of(term, lambda leaf: self._leaf(leaf, thread), found)

    def is_known(self, term: Term) -> bool:
        """Whether a term depends only on the thread index."""
        return self.number(term, 0) is not None

    def numbers(self, term: Term) -> Numbers | None:
        """The value of a term for each thread."""
        found = self._vectors
        return found[term] if term in found else evaluate(term, lanes(self._of_leaf, self.count), found)

    def _of_leaf(self, leaf: Term) -> Numbers | None:
        if leaf.operator == "special":
            return self.specials(leaf.name)
        if self._leaf(leaf, 0) is None:
            return None
        leaves = [self._leaf(leaf, thread) for thread in range(self.count)]
        return None if None in leaves else tuple(leaves)  # type: ignore[arg-type]

    def level_bound(self, term: Term) -> Level:
        """The level of a term that depends only on thread indices; THREAD if it depends on more."""
        first = self.number(term, 0)
        if first is None or any(self.number(term, thread) not in (first, None) for thread in SAMPLES if thread < self.count):
            return Level.THREAD
        numbers = self.numbers(term)
        return Level.THREAD if numbers is None else self.level(numbers)

    def level(self, numbers: Numbers) -> Level:
        """The level of these values; all CTAs count as equal."""
        for level in (Level.GRID, Level.WARPGROUP, Level.WARP):
            size = level.threads or len(numbers)
            if all(len(set(numbers[first : first + size])) == 1 for first in range(0, len(numbers), size)):
                return level
        return Level.THREAD

    def difference(self, numbers: Numbers) -> tuple[int, int, Level] | None:
        """Two threads with different values, from the smallest group that has such a pair."""
        for level in (Level.WARP, Level.WARPGROUP, Level.CTA):
            size = level.threads or len(numbers)
            for first in range(0, len(numbers), size):
                group = numbers[first : first + size]
                other = next((index for index, number in enumerate(group) if number != group[0]), None)
                if other is not None:
                    return first, first + other, level
        return None


@fact
def has_other_dimensions(routine: Routine) -> bool:
    """Whether a function reads its y or z index, or declares that its CTAs may have several dimensions."""
    for directive in routine.function.header.directives:
        if directive.name in (".maxntid", ".reqntid") and any(constant_value(argument) != 1 for argument in directive.arguments[1:]):
            return True
    return any(name.startswith(("%tid", "%ntid")) and not name.endswith(".x") for name in specials(routine))
