"""The asynchronous pipeline of a function: stages, operations in flight at waits, signalling through barriers, and one steady iteration.

Everything is observed by following a thread along paths (`async_queue`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import attrs

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.loops import loops
from ptxkit.analyses.events.effects import Action, Reach, effects, syncs
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.memory.accesses import Access, accesses
from ptxkit.analyses.protocols.async_copy.stage_rings import Ring, rings
from ptxkit.analyses.symbolic.environment import settler
from ptxkit.analyses.symbolic.terms import Term, spoken
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.symex.async_groups import ITERATION, Trail
from ptxkit.analyses.symex.async_queue import explore
from ptxkit.analyses.symex.moments import Moment, Observer
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound


@frozen
class Wait:
    """A wait for groups, and what was in flight there."""

    instruction: int
    queue: str
    leaves: int | None
    """Number of groups that may stay in flight; None if unknown."""
    is_for_reading: bool
    before: tuple[int, int]
    """Minimum and maximum number of groups in flight before the wait."""
    after: tuple[int, int]


@frozen
class Meeting:
    """A barrier, with its arrivals and waits by instruction."""

    name: str
    reach: Reach
    arrives: tuple[int, ...]
    signalled_by: tuple[int, ...]
    """Asynchronous operations that signal it on completion."""
    waits: tuple[int, ...]


@frozen
class Step:
    """An action in an iteration: `start`, `commit`, `wait`, `barrier` or `read`."""

    what: str
    queue: str
    instructions: tuple[int, ...]


@frozen
class Iteration:
    """What one thread does in one iteration of a loop once its pipeline is full."""

    header: int
    """The first instruction of the loop."""
    steps: tuple[Step, ...]


@frozen
class Pipeline:
    """The asynchronous pipeline of a function."""

    rings: tuple[Ring, ...]
    waits: tuple[Wait, ...]
    meetings: tuple[Meeting, ...]
    iterations: tuple[Iteration, ...]
    is_complete: bool
    """Whether all paths were followed."""

    @property
    def is_empty(self) -> bool:
        return not (self.rings or self.waits or any(meeting.signalled_by for meeting in self.meetings))


class _Story(Observer):
    """Records what is in flight at waits, and for each loop the longest path through it."""

    def __init__(self, routine: Routine, targets: dict[int, tuple[Term, ...]]) -> None:
        self.routine = routine
        self.reads = targets
        self.waits: dict[tuple[int, str], list[int]] = {}
        self.read_after: dict[Trail, list[int]] = {}
        self.ends: list[Trail] = []

    def meet(self, moment: Moment, memory: Hashable) -> Hashable:
        if moment.instruction in self.reads:
            self.read_after.setdefault(moment.trail, []).append(moment.instruction)
        for effect in moment.effects:
            if effect.action is Action.WAIT:
                before, after = moment.queue(effect.queue), moment.after.get(effect.queue)
                counts = self.waits.setdefault((moment.instruction, effect.queue), [])
                left = 0 if after is None else sum(not group.has_read for group in after.groups)
                counts += [sum(not group.has_read for group in before.groups), left]
        if moment.effects:
            self.ends.append(moment.trail)
        return memory


@fact
def pipeline(routine: Routine) -> Pipeline:
    """The asynchronous pipeline of a function; empty if it starts no asynchronous operations."""
    own = effects(routine)
    queues = frozenset([effect.queue for found in own.values() for effect in found])
    meetings = tuple(_meetings(routine))
    if not queues:
        return Pipeline((), (), meetings, (), True)
    story = _Story(routine, _reads(routine))
    coverage = explore(routine, queues, story.reads, story)
    waits = []
    for (i, queue), counts in sorted(story.waits.items()):
        effect = next(effect for effect in own[i] if effect.queue == queue and effect.action is Action.WAIT)
        before, after = counts[::2], counts[1::2]
        waits.append(Wait(i, queue, effect.leave, effect.reading, (min(before), max(before)), (min(after), max(after))))
    return Pipeline(rings(routine).rings, tuple(waits), meetings, tuple(_iterations(routine, story)), coverage.complete)


def _reads(routine: Routine) -> dict[int, tuple[Term, ...]]:
    """The reads of variables that asynchronous operations write."""
    targets = {ring.variable for ring in rings(routine).rings}
    found: dict[int, tuple[Term, ...]] = {}
    for access in accesses(routine):
        if access.space == ".shared" and access.reads and not access.memory.is_async and _variable(routine, access) in targets:
            found[access.instruction] = ()
    return found


def _variable(routine: Routine, access: Access) -> str:
    if access.address is None:
        return ""
    leaf = next((leaf for leaf in settler(routine).term(access.address).leaves() if leaf.operator == "address"), None)
    symbol = values(routine).symbol(leaf) if leaf is not None else None
    return symbol.name if symbol is not None else ""


def _meetings(routine: Routine) -> Iterator[Meeting]:
    """The barriers, by names that distinguish them as far as possible."""
    arrives: dict[tuple[Reach, str], list[int]] = {}
    waits: dict[tuple[Reach, str], list[int]] = {}
    signalled: dict[tuple[Reach, str], list[int]] = {}
    for i, sync in sorted(syncs(routine).items()):
        key = (sync.reach, _name(routine, i, sync.operand))
        for flag, where in ((sync.arrives, arrives), (sync.waits, waits)):
            if flag:
                where.setdefault(key, []).append(i)
    for i, bound in enumerate(bindings(routine)):
        if not isinstance(bound, Bound) or bound.barrier:
            continue
        for word in bound.completes:
            operand = bound.operand(word.what) if word.mechanism == "mbarrier" else None
            if operand is not None:
                signalled.setdefault((Reach.MBARRIER, _name(routine, i, operand.path[0])), []).append(i)
    for reach, name in sorted({*arrives, *waits, *signalled}):
        key = (reach, name)
        yield Meeting(name, reach, tuple(arrives.get(key, ())), tuple(signalled.get(key, ())), tuple(waits.get(key, ())))


def _name(routine: Routine, i: int, operand: int) -> str:
    if operand < 0:
        return ""
    term = values(routine).operand(i, routine.instructions[i].operands[operand])
    return "?" if term is None else spoken(_still(settler(routine).term(term), routine), 2)


def _still(term: Term, routine: Routine) -> Term:
    """An address without its ring index: the first of the barriers of all stages."""
    terms = values(routine).terms
    offset, parts = term.linear
    found = terms.constant(offset, term.width)
    for atom, factor in parts:
        if not any(leaf.operator in ("phi", "value") for leaf in atom.leaves()) and atom.operator != "join":
            found = terms.add(found, terms.scale(atom, factor))
    return found


def _iterations(routine: Routine, story: _Story) -> Iterator[Iteration]:
    """For each loop that starts operations, the last complete iteration of the longest path through it."""
    flow, forest = control_flow(routine), loops(routine)
    starts = {i for i, own in effects(routine).items() if any(effect.action is Action.OPEN for effect in own)}
    headers = []
    for i in sorted(starts):
        index = forest.innermost[flow.block_of[i]]
        if index is not None and forest.loops[index].header not in headers:
            headers.append(forest.loops[index].header)
    for header in headers:
        mark = ITERATION - header
        best: list[Trail] = []
        for end in sorted(story.ends, key=lambda trail: -trail.length)[:50]:
            best = _last_iteration(end, mark, starts)
            if best:
                break
        if best:
            yield Iteration(flow.blocks[header].start, tuple(_steps(routine, story, best)))


def _last_iteration(end: Trail, mark: int, starts: set[int]) -> list[Trail]:
    """The steps between the last two visits of a header, if an operation was started between them."""
    found: list[Trail] = []
    inside = False
    at: Trail | None = end
    while at is not None:
        if at.instruction == mark:
            if inside and any(step.instruction in starts for step in found):
                return [at, *found[::-1]]
            inside, found = True, []
        elif inside:
            found.append(at)
        at = at.before
    return []


def _steps(routine: Routine, story: _Story, trail: list[Trail]) -> Iterator[Step]:
    own, barriers = effects(routine), syncs(routine)
    steps: list[Step] = []

    def add(what: str, queue: str, instruction: int) -> None:
        if steps and (steps[-1].what, steps[-1].queue) == (what, queue) and what in ("start", "read"):
            steps[-1] = attrs.evolve(steps[-1], instructions=(*steps[-1].instructions, instruction))
        else:
            steps.append(Step(what, queue, (instruction,)))

    words = {Action.OPEN: "start", Action.COMMIT: "commit", Action.WAIT: "wait", Action.SIGNAL: "signal"}
    for step in trail:
        for effect in own.get(step.instruction, ()):
            add(words[effect.action], effect.queue, step.instruction)
        if step.instruction in barriers and barriers[step.instruction].reach is not Reach.WARP:
            add("barrier", "", step.instruction)
        for read in dict.fromkeys(story.read_after.get(step, ())):
            add("read", "", read)
    return iter(steps)
