"""The cluster barrier as an automaton: a thread arrives, then waits, then may arrive again (9.7.14.3).

For every use of the barrier, the states in which threads reach it are computed. If all paths lead to a wrong state, or one does that can be
taken, the use is an error, demonstrated by that path.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator

from ptxkit.analyses.cfg.dataflow import solve, union
from ptxkit.analyses.cfg.graph import calls, control_flow
from ptxkit.analyses.cfg.paths import met
from ptxkit.analyses.events.barriers import BarrierUse, barriers
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.launch.call_graph import callgraph
from ptxkit.analyses.launch.inputs import example_threads
from ptxkit.analyses.symbolic.thread_block import thread_block_of
from ptxkit.analyses.symex.path_condition import atoms
from ptxkit.analyses.symex.path_search import paths_to
from ptxkit.frozen import frozen


class State(enum.IntFlag):
    """The last action of a thread. In a set of states any may hold; UNKNOWN: whether they do is not known."""

    NONE = 0
    IDLE = 1
    ARRIVED = 2
    UNKNOWN = 4


ANYTHING = State.IDLE | State.ARRIVED | State.UNKNOWN


@frozen
class Fault:
    """A thread reaches a use of the barrier in a wrong state."""

    use: BarrierUse
    always: bool
    """Whether this holds on every path; otherwise on the given one."""
    before: tuple[int, ...]
    """The uses that lead to the state, or those on the path, by instruction."""
    decisions: tuple[tuple[int, bool], ...] = ()
    """The branches on the path, and whether their guards hold."""
    given: str = ""
    """The inputs that take the path; empty if there is no choice."""


Step = Callable[[State], State]


def cluster_barrier_faults(of: tuple[Routine, ...]) -> Iterator[tuple[Routine, Fault]]:
    """The errors in all functions of a module, with their functions."""
    users = [routine for routine in of if barriers(routine).cluster]
    if not users:
        return
    effects = _effects(of, users)
    for routine in of:
        if barriers(routine).cluster:
            for fault in _Automaton(routine, effects).faults():
                yield routine, fault


def _effects(of: tuple[Routine, ...], users: list[Routine]) -> dict[str, bool]:
    """For each function, whether it may use the barrier directly or through calls."""
    graph = callgraph(of[0].module, of)
    names = {routine.name for routine in users}
    return {routine.name: bool(names & {routine.name, *graph.reached_from(routine.name)}) for routine in of}


class _Automaton:
    def __init__(self, routine: Routine, may_use: dict[str, bool]) -> None:
        self.routine = routine
        self.flow = control_flow(routine)
        self.uses = {use.instruction: use for use in barriers(routine).cluster}
        self.events: dict[int, list[int]] = {}
        self.calls: set[int] = set()
        for i in calls(routine):
            if i not in self.uses:
                called = [operand.text for operand in routine.instructions[i].operands]
                if any(may_use.get(name, False) for name in called):
                    self.calls.add(i)
        for i in sorted([*self.uses, *self.calls]):
            self.events.setdefault(self.flow.block_of[i], []).append(i)
        self.entry = State.IDLE if routine.function.header.is_entry else ANYTHING

    def after(self, i: int, state: State) -> State:
        """The states after an event, given those before it."""
        if i in self.calls:
            return ANYTHING
        use = self.uses[i]
        new = State.ARRIVED if use.arrives else State.IDLE
        return new if self.routine.instructions[i].guard is None else state | new

    def faults(self) -> Iterator[Fault]:
        def transfer(block: int, state: State) -> State:
            for i in self.events.get(block, ()):
                state = self.after(i, state) if state else state
            return state

        solution = solve(
            self.flow, transfer, lambda states: State(union(states)), lambda block: self.entry if block == 0 else None, State.NONE
        )
        for block in self.flow.order:
            state = solution.before[block]
            for i in self.events.get(block, ()):
                use = self.uses.get(i)
                wrong = State.NONE if use is None else State.ARRIVED if use.arrives else State.IDLE
                if use is not None and state & wrong and not state & State.UNKNOWN:
                    fault = Fault(use, True, self._reaching(i)) if state == wrong else self._on_a_path(use, wrong)
                    if fault is not None:
                        yield fault
                state = self.after(i, state)

    def _reaching(self, i: int) -> tuple[int, ...]:
        """The last uses on the paths to an instruction."""
        events = [event for block, own in self.events.items() for event in own if block in self.flow.reachable]
        return tuple(sorted(met(self.routine, i, events, events, forwards=False)))

    # --- a path

    def _on_a_path(self, use: BarrierUse, wrong: State) -> Fault | None:
        """The error with a path that can be taken; None if none is found."""
        thread_block = thread_block_of(self.routine)
        for path in paths_to(self.routine, use.instruction, self.events, self.entry, lambda i, _: self.after(i, State.NONE)):
            if path.state != wrong:
                continue
            leaves = {leaf for term in path.choices.taken for leaf in atoms(term)}
            if sum(leaf.operator not in ("special", "parameter", "phi") for leaf in leaves) > 1:
                continue
            for thread in example_threads(thread_block.size):
                model = path.choices.model(thread_block, [thread])
                if model is not None:
                    given = [f"{leaf} = {number}" for leaf, number in model.items() if leaf.operator in ("special", "parameter")]
                    who = (
                        [thread_block.name(thread)]
                        if any(thread_block.vector(leaf) for leaf in leaves if leaf.operator == "special")
                        else []
                    )
                    return Fault(use, False, path.events, path.decisions, ", ".join([*who, *given]))
        return None
