"""Paths of one thread to an instruction, each with its path condition and the state at the instruction.

The state is that of any automaton: `after` gives the state after an event. Contradictory paths are not followed; for the others,
`Choices.model` finds inputs with which a thread takes them. Register values are not tracked: an analysis that needs them uses
`async_queue`, which shares the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Generic, TypeVar

import attrs

from ptxkit.analyses.cfg.graph import Edge, Via, control_flow
from ptxkit.analyses.cfg.reachability import closure, unfold
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.symex.path_condition import Choices
from ptxkit.analyses.symex.step import outcomes, quiet_region
from ptxkit.frozen import frozen

State = TypeVar("State")
MOST_STEPS = 2000
MOST_VISITS = 2
"""Maximum number of times a path enters a block."""


@frozen
class Path(Generic[State]):
    """A path from entry to the start of a block, or to an event in it."""

    block: int
    state: State
    choices: Choices
    """The path condition."""
    events: tuple[int, ...]
    """The events that were executed, by instruction."""
    decisions: tuple[tuple[int, bool], ...]
    """The guarded instructions that decided the path, and whether each guard held."""
    visits: Mapping[int, int]


def paths_to(
    routine: Routine, target: int, events: Mapping[int, Sequence[int]], start: State, after: Callable[[int, State], State]
) -> Iterator[Path[State]]:
    """The paths from entry to an executed event, each with the state before it; depth first, up to a bound.

    `events` are instructions by block, ascending; `after` gives the state after an executed one.
    """
    search = _Search(routine, events, after)
    flow = control_flow(routine)
    leading = closure([flow.block_of[target]], flow.predecessors)
    first = Path(0, start, Choices(values(routine).terms), (), (), {})
    found: list[Path[State]] = []

    def step(path: Path[State]) -> list[Path[State]]:
        executed, ends = search.through(path)
        found.extend([one for i, one in executed if i == target])
        return [onward for end in ends for onward in search.onward(end) if onward.block in leading]

    for _ in islice(unfold(first, step), MOST_STEPS + 1):
        # paths found in the previous step: a path is expanded when the next one is requested
        yield from found
        found.clear()
    yield from found


class _Search(Generic[State]):
    def __init__(self, routine: Routine, events: Mapping[int, Sequence[int]], after: Callable[[int, State], State]) -> None:
        self.routine = routine
        self.flow = control_flow(routine)
        self.events = events
        self.after = after

    def through(self, path: Path[State]) -> tuple[list[tuple[int, Path[State]]], list[Path[State]]]:
        """The executed events of a path's block, each with the path to it; and the paths to the end of the block."""
        executed: list[tuple[int, Path[State]]] = []
        paths = [path]
        for i in self.events.get(path.block, ()):
            following = []
            for one in paths:
                for holds, chosen in self._guarded(i, one):
                    if not holds:
                        following.append(chosen)
                        continue
                    executed.append((i, chosen))
                    following.append(attrs.evolve(chosen, state=self.after(i, one.state), events=(*one.events, i)))
            paths = following
        return executed, paths

    def _guarded(self, i: int, path: Path[State]) -> Iterator[tuple[bool, Path[State]]]:
        """The paths on which an instruction is executed, and those on which it is not."""
        if self.routine.instructions[i].guard is None:
            yield True, path
            return
        for holds, choices in outcomes(path.choices, values(self.routine).guard(i)):
            yield holds, attrs.evolve(path, choices=choices, decisions=(*path.decisions, (i, holds)))

    def onward(self, path: Path[State]) -> Iterator[Path[State]]:
        """The paths from the end of a block; a branch that reconverges without an event is skipped to its merge point."""
        block = self.flow.blocks[path.block]
        visits = {**path.visits, path.block: path.visits.get(path.block, 0) + 1}
        if visits[path.block] > MOST_VISITS:
            return
        quiet = quiet_region(self.routine, path.block, self.events) if len(block.edges) > 1 else None
        if quiet is not None:
            yield attrs.evolve(path, block=quiet[0], visits=visits)
            return
        for edge in block.edges:
            chosen = self._along(edge, path)
            if chosen is not None:
                yield attrs.evolve(chosen, block=edge.target, visits=visits)

    def _along(self, edge: Edge, path: Path[State]) -> Path[State] | None:
        """A path along an edge; None if it contradicts earlier choices, or if the outcome is unknown."""
        if edge.via in (Via.FALL, Via.INDEXED):
            return path if edge.via is Via.FALL else None
        wanted = edge.via is Via.TAKEN
        return next((one for holds, one in self._guarded(self.flow.blocks[edge.source].end - 1, path) if holds is wanted), None)
