"""What a finding knows that a repair needs: the instructions, which of them comes first, and whether one thread, one warp or one CTA is involved."""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from ptxkit.analyses.cfg.paths import comes_to
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.launch.launch import WARP
from ptxkit.diagnostics import Diagnostic, Span
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.rewriters.repairs.looking import Seen
from ptxkit.syntax import Index


@frozen(eq=False)
class Trouble:
    """A finding in a function of a text, and its instructions by their numbers: that of the finding, then the related ones."""

    seen: Seen
    finding: Diagnostic
    routine: Routine
    instructions: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]
    """Two of them, the earlier one first, from one to the other of which a path leads: those that the witness names before others."""

    @property
    def index(self) -> Index:
        """Where nodes of the text are."""
        return self.seen.facts.index

    @property
    def family(self) -> str:
        """The letter of the rule."""
        return self.finding.rule[0]

    def bound(self, i: int) -> Bound | None:
        """What the table says of an instruction."""
        found = bindings(self.routine)[i]
        return found if isinstance(found, Bound) else None

    @cached_property
    def threads(self) -> tuple[dict[str, Any], ...]:
        """The threads of the witness, with what they accessed; empty if there is none."""
        return tuple((self.finding.witness or {}).get("accesses", ()))

    @property
    def is_of_a_thread(self) -> bool:
        """Whether a thread is in conflict with itself."""
        who = [(one.get("cta"), one.get("thread")) for one in self.threads]
        return len(who) == 2 and who[0] == who[1]

    @property
    def is_of_a_warp(self) -> bool:
        """Whether the two threads of the witness are of one warp."""
        block = (self.finding.witness or {}).get("launch", {}).get("block")
        who = [one for one in self.threads if "thread" in one]
        if len(who) != 2 or block is None or who[0].get("cta") != who[1].get("cta"):
            return False
        numbers = [x + block[0] * (y + block[1] * z) for x, y, z in (one["thread"] for one in who)]
        return bool(numbers[0] // WARP == numbers[1] // WARP)


def trouble(seen: Seen, finding: Diagnostic) -> Trouble | None:
    """What a finding knows; None if it is of no function."""
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
    accessed = [by_line.get(one.get("line", 0)) for one in (finding.witness or {}).get("accesses", ())]
    if len(accessed) == 2 and None in accessed and by_line:
        lines = {index.line_column(start)[0]: i for i, start in reversed(list(enumerate(starts)))}
        accessed = [lines.get(one.get("line", 0)) for one in (finding.witness or {})["accesses"]]
    first = [(accessed[0], accessed[1])] if len(accessed) == 2 and None not in accessed else []
    others = [pair for i in instructions[1:] for pair in ((i, instructions[0]), (instructions[0], i))]
    return Trouble(seen, finding, routine, instructions, _joined(routine, [*first, *others]))  # type: ignore[list-item]


def _joined(routine: Routine, pairs: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    return tuple([pair for pair in dict.fromkeys(pairs) if comes_to(routine, *pair)])
