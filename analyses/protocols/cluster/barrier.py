"""The barrier of a cluster as an automaton: a thread arrives, then waits, then may arrive again (9.7.14.3).

For every use of the barrier it is found out in which states threads come there. Where all paths bring the wrong one, or one path does that
can be taken, the use is a fault, shown with that path.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator

import attrs

from ptxkit.analyses.cfg.dataflow import solve, union
from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import Edge, Via, calls, control_flow
from ptxkit.analyses.events.barriers import BarrierUse, barriers
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.launch.call_graph import callgraph
from ptxkit.analyses.numbers.bits import bits
from ptxkit.analyses.symbolic.thread_block import thread_block_of
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.symex.path_condition import Choices, atoms
from ptxkit.frozen import frozen

MOST_STEPS = 2000
MOST_VISITS = 2
"""On a path that is shown, control comes to a block so often at most."""


class State(enum.IntFlag):
    """What a thread may have done last. Of a set of states any may be true; UNKNOWN: it is not known whether they are."""

    NONE = 0
    IDLE = 1
    ARRIVED = 2
    UNKNOWN = 4


ANYTHING = State.IDLE | State.ARRIVED | State.UNKNOWN


@frozen
class Fault:
    """A thread comes to a use of the barrier in the wrong state."""

    use: BarrierUse
    always: bool
    """Whether it does so on every path; else on the one that is shown."""
    before: tuple[int, ...]
    """The uses after which it is in that state, or those on the path, by instruction."""
    decisions: tuple[tuple[int, bool], ...] = ()
    """The branches on the path, and whether their guards hold."""
    given: str = ""
    """The inputs with which it takes that path; empty if there is nothing to choose."""


Step = Callable[[State], State]


def cluster_barrier_faults(of: tuple[Routine, ...]) -> Iterator[tuple[Routine, Fault]]:
    """The faults of all functions of a module, given with their functions."""
    users = [routine for routine in of if barriers(routine).cluster]
    if not users:
        return
    effects = _effects(of, users)
    for routine in of:
        if barriers(routine).cluster:
            for fault in _Automaton(routine, effects).faults():
                yield routine, fault


def _effects(of: tuple[Routine, ...], users: list[Routine]) -> dict[str, bool]:
    """By function that is called, whether it may use the barrier; a function that is not here does not."""
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
        """The states after an event, for those before it."""
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
        found = []
        block = self.flow.block_of[i]
        own = [event for event in self.events[block] if event < i]
        if own:
            return (own[-1],)
        seen = set()
        work = list(self.flow.blocks[block].predecessors)
        while work:
            at = work.pop()
            if at in seen or at not in self.flow.reachable:
                continue
            seen.add(at)
            events = self.events.get(at)
            if events:
                found.append(events[-1])
            else:
                work += self.flow.blocks[at].predecessors
        return tuple(sorted(found))

    # --- a path

    def _on_a_path(self, use: BarrierUse, wrong: State) -> Fault | None:
        """The fault with a path to it that can be taken; None if none is found."""
        thread_block = thread_block_of(self.routine)
        threads = dict.fromkeys([0, *[t for t in (1, 31, 32, 64, 96, 128, thread_block.size - 1) if t < thread_block.size]])
        for path in self._paths(use.instruction, wrong):
            leaves = {leaf for term in path.choices.taken for leaf in atoms(term)}
            if sum(leaf.operator not in ("special", "parameter", "phi") for leaf in leaves) > 1:
                continue
            for thread in threads:
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

    def _paths(self, target: int, wrong: State) -> Iterator[_Path]:
        """Paths from the entry to an instruction on which it is reached in a state."""
        goal = self.flow.block_of[target]
        near = self._before(goal)
        stack = [_Path(0, self.entry, Choices(values(self.routine).terms), (), (), {})]
        for _ in range(MOST_STEPS):
            if not stack:
                return
            path = stack.pop()
            for one in self._through(path):
                if isinstance(one, _Path):
                    if one.block in near:
                        stack.append(one)
                elif one[0] == target and one[1] == wrong:
                    yield one[2]

    def _before(self, goal: int) -> frozenset[int]:
        """The blocks from which control can come to a block."""
        seen = {goal}
        work = [goal]
        while work:
            for before in self.flow.blocks[work.pop()].predecessors:
                if before not in seen:
                    seen.add(before)
                    work.append(before)
        return frozenset(seen)

    def _through(self, path: _Path) -> Iterator[_Path | tuple[int, State, _Path]]:
        """The events of a path's block, each with the state before it; then the paths on."""
        events = self.events.get(path.block, [])
        paths = [path]
        for i in events:
            following = []
            for one in paths:
                for executed, chosen in self._guarded(i, one):
                    if not executed:
                        following.append(chosen)
                        continue
                    yield i, one.state, chosen
                    following.append(attrs.evolve(chosen, state=self.after(i, State.NONE), events=(*one.events, i)))
            paths = following
        for one in paths:
            yield from self._on(one)

    def _guarded(self, i: int, path: _Path) -> Iterator[tuple[bool, _Path]]:
        """The paths on which an event happens or not."""
        if self.routine.instructions[i].guard is None:
            yield True, path
            return
        condition = values(self.routine).guard(i)
        for holds in (True, False):
            choices = path.choices.choose(condition, holds) if condition is not None else None
            if choices is not None:
                yield holds, attrs.evolve(path, choices=choices, decisions=(*path.decisions, (i, holds)))

    def _on(self, path: _Path) -> Iterator[_Path]:
        """The paths on from the end of a block; of a branch whose paths merge again without an event, that to where they do."""
        block = self.flow.blocks[path.block]
        visits = {**path.visits, path.block: path.visits.get(path.block, 0) + 1}
        if visits[path.block] > MOST_VISITS:
            return
        if len(block.edges) > 1 and not self._matters(path.block):
            meeting = dominators(self.routine).post.parent[path.block]
            if meeting < len(self.flow.blocks):
                yield attrs.evolve(path, block=meeting, visits=visits)
            return
        for edge in block.edges:
            chosen = self._chosen(edge, path)
            if chosen is not None:
                yield attrs.evolve(chosen, block=edge.target, visits=visits)

    def _chosen(self, edge: Edge, path: _Path) -> _Path | None:
        if edge.via in (Via.FALL, Via.INDEXED):
            return path if edge.via is Via.FALL else None
        i = self.flow.blocks[edge.source].end - 1
        if self.routine.instructions[i].guard is None:
            return path
        condition = values(self.routine).guard(i)
        holds = edge.via is Via.TAKEN
        choices = path.choices.choose(condition, holds) if condition is not None else None
        return attrs.evolve(path, choices=choices, decisions=(*path.decisions, (i, holds))) if choices is not None else None

    def _matters(self, block: int) -> bool:
        """Whether there is an event between a branch and where its paths merge again."""
        meeting = dominators(self.routine).post.parent[block]
        if meeting >= len(self.flow.blocks):
            return True
        seen = 1 << meeting
        work = [to for to in self.flow.blocks[block].successors if to != meeting]
        while work:
            at = work.pop()
            if seen >> at & 1:
                continue
            seen |= 1 << at
            work += self.flow.blocks[at].successors
        return any(at in self.events for at in bits(seen & ~(1 << meeting)))


@frozen
class _Path:
    """A path from the entry to the start of a block."""

    block: int
    state: State
    choices: Choices
    events: tuple[int, ...]
    decisions: tuple[tuple[int, bool], ...]
    visits: dict[int, int]
