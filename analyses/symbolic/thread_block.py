"""Values of terms for each thread of a CTA, if they depend only on the thread's index in it.

Without `.reqntid`, a shape is assumed with which the kernel can be launched (`launch.inputs`). Results then hold for a launch of that
shape.
"""

from __future__ import annotations

import math

from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.launch.inputs import assumed_block
from ptxkit.analyses.launch.launch import WARP
from ptxkit.analyses.symbolic.domains import lanes
from ptxkit.analyses.symbolic.evaluate import Domain, evaluate
from ptxkit.analyses.symbolic.terms import Term

Vector = tuple[int, ...]


class ThreadBlock:
    """The threads of a CTA. Sets of threads are bit masks."""

    def __init__(self, shape: tuple[int, int, int], is_assumed: bool) -> None:
        self.shape = shape
        self.is_assumed = is_assumed
        """Whether a launch may have another shape."""
        self.size = math.prod(shape)
        self.everyone = (1 << self.size) - 1
        width, height, _ = shape
        indices = range(self.size)
        self._specials: dict[str, Vector] = {
            "%tid.x": tuple([i % width for i in indices]),
            "%tid.y": tuple([i // width % height for i in indices]),
            "%tid.z": tuple([i // (width * height) for i in indices]),
            "%laneid": tuple([i % WARP for i in indices]),
            "%ntid.x": (shape[0],) * self.size,
            "%ntid.y": (shape[1],) * self.size,
            "%ntid.z": (shape[2],) * self.size,
        }
        self._vectors: dict[Term, Vector | None] = {}

    def vector(self, term: Term) -> Vector | None:
        """The value of a term for each thread; None if it depends on more than the thread index."""
        found = self._vectors
        return found[term] if term in found else evaluate(term, self._domain(), found)

    def _domain(self) -> Domain[Vector]:
        return lanes(self._leaf, self.size)

    def _leaf(self, leaf: Term) -> Vector | None:
        return self._specials.get(leaf.name) if leaf.operator == "special" else None

    def where(self, condition: Term) -> int | None:
        """The threads for which a predicate holds; None if that depends on more than the thread index."""
        numbers = self.vector(condition)
        if numbers is None:
            return None
        return int("".join(["1" if number else "0" for number in reversed(numbers)]), 2)

    def name(self, thread: int) -> str:
        """A thread's name for messages."""
        x, y, z = (self._specials[f"%tid.{component}"][thread] for component in "xyz")
        return f"thread {x}" if self.shape[1:] == (1, 1) else f"thread ({x}, {y}, {z})"


@fact
def thread_block_of(routine: Routine) -> ThreadBlock:
    """The threads of a CTA that runs a function: see `launch.inputs.assumed_block`."""
    return ThreadBlock(*assumed_block(routine))
