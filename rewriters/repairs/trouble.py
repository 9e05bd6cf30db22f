"""What a repair needs to know about a finding: its instructions, their order, and how its threads are related."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from ptxkit.analyses.cfg.paths import comes_to
from ptxkit.analyses.framework.bindings import bindings, matching
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.inputs.shapes import declares_block
from ptxkit.analyses.launch.launch import WARP
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.diagnostics import Diagnostic, Span
from ptxkit.isa.binding import Bound
from ptxkit.rewriters.repairs.looking import Seen
from ptxkit.rewriters.repairs.points import Loud, Point, between, is_loud
from ptxkit.syntax import Index

if TYPE_CHECKING:
    from ptxkit.machine.findings import Finding


@attrs.frozen(eq=False)
class Trouble:
    """A finding in a function, and its instructions by index: that of the finding, then the related ones."""

    seen: Seen
    finding: Diagnostic
    routine: Routine
    instructions: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]
    """Ordered pairs of them with a path from one to the other; pairs that the witness names come first."""
    witnessed: int
    """The number of pairs that witnesses name."""
    accesses: tuple[tuple[int, int], ...] = ()
    """The instructions that witnesses name, earlier one first, whether or not there is a path between them."""
    shown: tuple[Mapping[str, Any], ...] = ()
    """The witnesses of all that a run shows of it."""
    is_rest: bool = False
    """Whether it is what other edits have left."""

    @property
    def index(self) -> Index:
        """Positions of nodes in the text."""
        return self.seen.facts.index

    @property
    def family(self) -> str:
        """The letter of the rule."""
        return self.finding.rule[0]

    def bound(self, i: int) -> Bound | None:
        """The bound form of an instruction."""
        found = bindings(self.routine)[i]
        return found if isinstance(found, Bound) else None

    @cached_property
    def witnesses(self) -> tuple[Mapping[str, Any], ...]:
        """The executions that show it; none if it was found without execution."""
        own = self.finding.witness
        return self.shown or ((own,) if own is not None else ())

    @cached_property
    def is_of_a_thread(self) -> bool:
        """Whether every witness shows a conflict of a thread with itself."""
        return self._all(lambda one, other, block: one == other)

    @cached_property
    def is_of_a_warp(self) -> bool:
        """Whether every witness shows a conflict of two threads of one warp."""
        return self._all(lambda one, other, block: one[0] == other[0] and _warp(one[1], block) == _warp(other[1], block))

    @cached_property
    def knows_warps(self) -> bool:
        """Whether a CTA of each witness launch has several warps, or the kernel declares the shape: in an example launch with one warp,
        two threads in one warp mean nothing."""
        blocks = [one["launch"].get("block") or [1, 1, 1] for one in self.witnesses if "launch" in one]
        return all(math.prod(block) > WARP or declares_block(self.routine, tuple(block)) for block in blocks)

    @cached_property
    def is_of_a_cta(self) -> bool:
        """Whether every witness shows a conflict of two threads of one CTA."""
        return self._all(lambda one, other, block: one[0] == other[0])

    @cached_property
    def is_unsynchronized(self) -> bool:
        """Whether nothing by which threads wait or publish lies between accesses of two threads: then a fence, or a wait for a thread's
        own copies, is not enough."""
        if self.is_rest or not self.witnessed or len(self.accesses) > self.witnessed or self._all(lambda one, other, block: one == other):
            return False
        among = self.matching(_is_between_threads)

        def is_between(first: int, last: int) -> bool:
            others = [i for i in among if i not in (first, last)]
            return any(comes_to(self.routine, first, i) and comes_to(self.routine, i, last) for i in others)

        return bool(self._who) and not all(is_between(*pair) for pair in self.pairs[: min(self.witnessed, MOST_PAIRS)])

    def _all(self, holds: Callable[[Who, Who, list[int]], bool]) -> bool:
        """Whether a condition holds for all pairs of conflicting threads, and there are any."""
        return bool(self._who) and all(holds(*pair) for pair in self._who)

    @cached_property
    def _who(self) -> list[tuple[Who, Who, list[int]]]:
        """The pairs of conflicting threads, with the shape of their CTA."""
        pairs = []
        for witness in self.witnesses:
            who = [(one.get("cta"), one.get("thread")) for one in witness.get("accesses", ()) if "thread" in one]
            if len(who) == 2:
                pairs.append((who[0], who[1], witness.get("launch", {}).get("block") or [1, 1, 1]))
        return pairs

    @cached_property
    def spaces(self) -> tuple[str, ...]:
        """The state spaces of the accesses, according to the witnesses."""
        return tuple(dict.fromkeys([one["space"] for one in self.witnesses if one.get("space")]))

    def common(
        self,
        least: Level = Level.THREAD,
        loud: Loud = is_loud,
        pairs: Sequence[tuple[int, int]] | None = None,
    ) -> list[Point]:
        """The points between the instructions of all pairs that the witnesses name, cheapest and latest first; if there are none, or
        nothing was executed, those between any pair. `pairs` overrides the pairs."""
        chosen = (
            self.pairs
            if pairs is None
            else [pair for pair in self.pairs if pair in pairs] + [pair for pair in pairs if pair not in self.pairs]
        )
        sure = [pair for pair in chosen if pair in self.pairs[: self.witnessed]][:MOST_PAIRS]
        found = [between(self.routine, first, last, least, loud) for first, last in sure or chosen[:FEW_PAIRS]]
        if sure and found:
            every = [point for point in found[0] if all(point in other for other in found)]
            if every:
                return every
        return list(dict.fromkeys([point for own in found[:FEW_PAIRS] for point in own]))

    def matching(self, holds: Callable[[Bound], object]) -> list[int]:
        """The instructions of the function whose form satisfies a condition."""
        return [i for i, _ in matching(self.routine, holds)]


STRONG = ("relaxed", "acquire", "release", "acq_rel", "volatile")
"""Memory orders by which threads synchronize."""
MOST_PAIRS, FEW_PAIRS = 24, 3
"""Maximum number of pairs of a finding that are considered, together and one by one."""
Who = tuple[Any, Any]
"""The CTA and thread index of a thread."""


def _is_between_threads(bound: Bound) -> bool:
    """Whether threads wait for others at an instruction, or may signal others by it."""
    return bool(bound.barrier) or any(one.order in STRONG or one.access == "readwrite" for one in bound.memory)


def _warp(thread: list[int], block: list[int]) -> int:
    x, y, z = thread
    return (x + block[0] * (y + block[1] * z)) // WARP


def trouble(seen: Seen, finding: Diagnostic, shown: Sequence[Finding] = (), *, is_rest: bool = False) -> Trouble | None:
    """What is known about a finding, and what a run shows of it; None if it belongs to no function."""
    routine = next((one for one in seen.facts.routines if one.name == finding.function), None)
    if routine is None or not routine.instructions:
        return None
    index = seen.facts.index
    starts = [index.offset(routine.where(i)) for i in range(len(routine.instructions))]

    def at(span: Span) -> int | None:
        i = bisect.bisect_right(starts, span.start) - 1
        return i if i >= 0 and span.start < starts[i] + len(routine.instructions[i].text) else None

    spans = (finding.span, *[one.span for one in finding.related])
    by_line = {span.line: i for span in reversed(spans) if (i := at(span)) is not None}
    instructions = tuple(dict.fromkeys([i for span in spans if (i := at(span)) is not None]))
    if not instructions:
        return None
    lines: dict[int, int] = {}
    for i, start in enumerate(starts):
        lines.setdefault(index.line_column(start)[0], i)

    def accessed(witness: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
        accesses = [one for one in witness.get("accesses", ()) if one.get("kind") != "exit"]
        own = [by_line.get(one.get("line", 0), lines.get(one.get("line", 0))) for one in accesses]
        if len(own) == 2 and own[0] is not None and own[1] is not None:
            yield own[0], own[1]

    witnesses = [finding.witness or {}, *[one.witness for one in shown]]
    first = [pair for witness in witnesses for pair in accessed(witness)]
    others = [pair for i in instructions[1:] for pair in ((i, instructions[0]), (instructions[0], i))]
    pairs = _joined(routine, [*first, *others])
    witnessed = sum([pair in first for pair in pairs])
    accesses = tuple(dict.fromkeys(first))
    return Trouble(seen, finding, routine, instructions, pairs, witnessed, accesses, tuple([one.witness for one in shown]), is_rest)


def _joined(routine: Routine, pairs: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    return tuple([pair for pair in dict.fromkeys(pairs) if comes_to(routine, *pair)])
