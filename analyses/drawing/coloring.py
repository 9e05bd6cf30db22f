"""Colorings of blocks and instructions: a number for each, and the scale."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Sequence

import attrs

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.loops import loops
from ptxkit.analyses.drawing.palette import STEPS
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.registers.liveness import liveness
from ptxkit.analyses.registers.pressure import pressure
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.analyses.uniformity.uniformity import uniformity
from ptxkit.frozen import frozen


class CannotDraw(Exception):
    """Why a picture cannot be drawn, with advice."""


@frozen
class Coloring:
    """Numbers to color by: `rows` by instruction (if empty, only blocks are colored), `blocks` by block."""

    title: str
    rows: tuple[int, ...]
    blocks: tuple[int, ...]
    peak: int = attrs.field()
    """The maximum, where the scale ends; pictures shown together share a scale."""
    is_logarithmic: bool = attrs.field(default=False, kw_only=True)
    """Whether the steps of the scale grow geometrically; 0 then has a step of its own."""
    names: tuple[str, ...] = attrs.field(default=(), kw_only=True)
    """What each number stands for, from 0 to the peak; empty if the numbers are what they say."""

    @peak.default
    def _peak(self) -> int:
        return max(self.blocks, default=0)

    @property
    def limits(self) -> tuple[int, ...]:
        """The lower bounds of the steps from 0 to the peak, and of one more step."""
        end = self.peak + 1
        if self.is_logarithmic:
            return (0, *[math.ceil(end ** (i / (STEPS - 1)) - 1e-9) for i in range(STEPS - 1)], end)
        return tuple([-(-i * end // STEPS) for i in range(STEPS)] + [end])

    def step(self, value: int) -> int:
        """The step of the scale that contains a value."""
        return max(min(bisect.bisect_right(self.limits, value) - 1, STEPS - 1), 0)

    def word(self, value: int) -> str:
        """A value as text."""
        return self.names[value] if self.names else f"{value:,}"

    @property
    def scale(self) -> tuple[tuple[int, str], ...]:
        """The non-empty steps of the scale, each with its range of values as text."""
        steps = [(i, low, end) for i, (low, end) in enumerate(itertools.pairwise(self.limits)) if low < end]
        if self.names:
            return tuple([(i, ", ".join(self.names[low:end])) for i, low, end in steps])
        return tuple([(i, f"{low:,}" if low == end - 1 else f"{low:,}–{end - 1:,}") for i, low, end in steps])


def heat(routine: Routine, counts: Sequence[int]) -> Coloring:
    """Execution counts: the number of threads that have executed each instruction."""
    rows = tuple(counts)
    blocks = tuple([max(rows[block.start : block.end], default=0) for block in control_flow(routine).blocks])
    return Coloring("threads that executed it", rows, blocks, is_logarithmic=True)


def _live(routine: Routine) -> Coloring:
    flow, live = control_flow(routine), liveness(routine)
    rows = [0] * len(routine.instructions)
    for block in flow.blocks:
        for i, after in live.points(block.index):
            if i + 1 < block.end:
                rows[i + 1] = after.bit_count()
        rows[block.start] = live.before[block.index].bit_count()
    return Coloring("registers live before it", tuple(rows), tuple([max(rows[block.start : block.end]) for block in flow.blocks]))


def _pressure(routine: Routine) -> Coloring:
    found = pressure(routine)
    return Coloring("registers needed at once, in 32-bit units", found.units, found.blocks)


def _loops(routine: Routine) -> Coloring:
    forest = loops(routine)
    return Coloring("loops around it", (), tuple([forest.depth(block.index) for block in control_flow(routine).blocks]))


def _divergence(routine: Routine) -> Coloring:
    flow, known = control_flow(routine), uniformity(routine)
    blocks = [Level.GRID - known.block(block.index).level if block.index in flow.reachable else 0 for block in flow.blocks]
    names = tuple([level.word for level in reversed(Level)])
    return Coloring("executed together by", (), tuple(map(int, blocks)), int(Level.GRID), names=names)


COLORINGS: dict[str, Callable[[Routine], Coloring | None]] = {
    "none": lambda routine: None,
    "liveness": _live,
    "pressure": _pressure,
    "divergence": _divergence,
    "loops": _loops,
}
"""Colorings by the argument of `--color`."""
