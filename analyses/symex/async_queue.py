"""The in-flight queue: which asynchronous operations of a thread are in flight at each point of a path (9.7.10.24, 9.7.16.7).

An operation joins the open group of its queue, a commit closes the group, and a wait leaves at most a given number of groups pending.
`explore` follows one thread from entry along paths, around loops until nothing new is found, with the register values of that path; so a
ring of stages needs no special case: in each iteration, the address of a stage is known. An `Observer` is called at every instruction of
interest, with what is in flight there, and may carry state along the path.

Example:

>>> import ptxkit
>>> from ptxkit.analyses import routines
>>> module = ptxkit.parse('''.version 8.5
... .target sm_90
... .entry k(.param .u64 p) {
...     .reg .b64 %a; .reg .b32 %r; .shared .b32 tile[4];
...     ld.param.u64 %a, [p];
...     cp.async.ca.shared.global [tile], [%a], 16;
...     cp.async.commit_group;
...     ld.shared.u32 %r, [tile];
...     ret;
... }''')
>>> class Reads(Observer):
...     def meet(self, moment, memory):
...         for operation in moment.pending("cp.async"):       # open or in a group that may still be in flight
...             if moment.instruction == 3:
...                 print(moment.model() is not None)           # None: no input is known that takes this path; else a proof
...                 print(moment.witness(operation))            # [(instruction, what it did)] from the opening to here
...         return memory
>>> (kernel,) = routines(module)
>>> explore(kernel, {"cp.async"}, watched={3: ()}, observer=Reads()).complete
True
[(1, 'started here'), (2, 'committed here')]
True

`meet` is called before each instruction that acts on one of the queues, each barrier, each instruction in `watched`, and where control
leaves the function (`moment.leaves`). A path is feasible as far as is known; a proof needs `moment.model()`.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping

import attrs

from ptxkit.analyses.cfg.dataflow import union
from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import ControlFlow, Via, callees, calls, control_flow
from ptxkit.analyses.cfg.loops import loops
from ptxkit.analyses.cfg.reachability import closure, unfold
from ptxkit.analyses.events.effects import Action, Effect, Reach, effects, syncs
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.memory.accesses import accesses
from ptxkit.analyses.numbers.bits import bits, mask_of
from ptxkit.analyses.symbolic.environment import Environment, Evaluator, settler
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.thread_block import thread_block_of
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.symex.async_groups import EMPTY, ITERATION, Operation, Queue, Trail
from ptxkit.analyses.symex.moments import Moment, Observer
from ptxkit.analyses.symex.path_condition import Choices, conjuncts
from ptxkit.analyses.symex.step import open_edges, outcomes, quiet_region
from ptxkit.frozen import define, frozen

MOST_ROUNDS = 12
"""Maximum number of iterations of a loop on one path."""
MOST_VISITS = 32
"""Maximum number of visits to one block, over all paths."""
MOST_STEPS = 2500
"""Maximum number of block visits, over all paths."""
LEAST_STEPS = 600
INSTRUCTIONS_A_STEP = 4
"""Number of instructions per extra step above the minimum: the effort scales with the size of the function."""


@frozen
class Coverage:
    """How much an exploration covered."""

    complete: bool
    """Whether every path was followed until nothing new was found."""
    steps: int
    rounds: Mapping[int, int]
    """By loop header, the maximum number of iterations on a path."""


@define(eq=False)
class _State:
    block: int
    source: int
    skipped: int
    """Blocks between the source and here that were not followed; -1 if an edge was taken."""
    environment: Environment
    queues: dict[str, Queue]
    threads: int
    crowd: int
    divergences: tuple[tuple[int, int], ...]
    choices: Choices
    memory: Hashable
    trail: Trail
    rounds: dict[int, int]
    tick: int


def _wait_in_words(leave: int, count: int) -> str:
    """In words, what a wait does that leaves at most `leave` of the committed groups in flight."""
    if not leave:
        return "this waits for all groups"
    return f"this leaves {f'up to {leave} of {count} groups' if leave < count else 'every group'} in flight"


def explore(
    routine: Routine,
    queues: Collection[str],
    watched: Mapping[int, tuple[Term, ...]],
    observer: Observer,
    most_steps: int = 0,
    most_visits: int = MOST_VISITS,
) -> Coverage:
    """Follows one thread of a function on all paths that differ in what is in flight.

    `queues` are the kinds of operations to track. `watched` are the instructions at which to call the observer, with the terms whose values
    it wants; at an instruction that starts an operation, they become those of the operation. `most_steps` bounds the total number of block
    visits (0: chosen by the size of the function), and `most_visits` the number for each block.
    """
    flow = control_flow(routine)
    if not flow.blocks:
        return Coverage(True, 0, {})
    effort = most_steps or min(MOST_STEPS, max(LEAST_STEPS, len(routine.instructions) // INSTRUCTIONS_A_STEP))
    return _Explorer(routine, frozenset(queues), watched, observer, effort, most_visits).run()


class _Explorer:
    def __init__(
        self,
        routine: Routine,
        queues: frozenset[str],
        watched: Mapping[int, tuple[Term, ...]],
        observer: Observer,
        most_steps: int,
        most_visits: int,
    ) -> None:
        self.routine = routine
        settle = settler(routine).term
        self.watched = {i: tuple([settle(term) for term in own]) for i, own in watched.items()}
        self.observer = observer
        self.most_steps = most_steps
        self.most_visits = most_visits
        self.flow: ControlFlow = control_flow(routine)
        self.values = values(routine)
        self.thread_block = thread_block_of(routine)
        self.effects = {i: own for i, found in effects(routine).items() if (own := tuple([e for e in found if e.queue in queues]))}
        self.syncs = syncs(routine)
        self.post = dominators(routine).post
        self.forest = loops(routine)
        self.headers = {loop.header: loop for loop in self.forest.loops}
        self.calls = self._calls()
        self.events = self._events()
        self.guards = {i: settle(guard) for own in self.events.values() for i in own if (guard := self.values.guard(i)) is not None}
        self.quiet: dict[int, tuple[int, int] | None] = {}
        self.branches: dict[int, Term] = {}
        for block in self.flow.blocks:
            if len(block.edges) > 1 or (block.edges and block.leaves):
                guard = self.values.guard(block.end - 1)
                if guard is not None and self._quiet(block.index) is None:
                    self.branches[block.index] = settle(guard)
        terms = [term for own in self.watched.values() for term in own]
        self.idle = self._idles()
        self.evaluator = Evaluator(routine, [*terms, *self.guards.values(), *self.branches.values(), *self.idle.values()])
        self.small = self._small()
        parts = self._changing(terms)
        self.moving = {header: self._moving(loop.blocks, parts) for header, loop in self.headers.items()}
        self.live = self.evaluator.live({block: list(self._asked(block)) for block in range(len(self.flow.blocks))})
        self.lively = self._lively()
        self.starters = self._starters()
        self.sides: dict[tuple[Term, bool], int] = {}
        self.seen: set[Hashable] = set()
        self.visits = [0] * len(self.flow.blocks)
        self.steps = 0
        self.complete = True
        self.rounds: dict[int, int] = {}

    # --- what there is to look at

    def _events(self) -> dict[int, tuple[int, ...]]:
        """By block, the instructions of interest, including calls, since a callee may do anything."""
        found: dict[int, list[int]] = {}
        known = set(self.effects) | set(self.watched)
        known |= {i for i, sync in self.syncs.items() if sync.waits or sync.arrives}
        for i in sorted(known | self.calls):
            block = self.flow.block_of[i]
            if block in self.flow.reachable:
                found.setdefault(block, []).append(i)
        for last in self.flow.blocks:
            if last.leaves in ("return", "exit") and last.index in self.flow.reachable:
                own = found.setdefault(last.index, [])
                if last.end - 1 not in own:
                    own.append(last.end - 1)
        return {block: tuple(own) for block, own in found.items()}

    def _idles(self) -> dict[int, Term]:
        """By instruction that starts a copy, the predicate under which no byte of its source counts."""
        found = {}
        for access in accesses(self.routine) if self.effects else ():
            if access.part is None or access.instruction not in self.effects:
                continue
            term = self.values.operand(access.instruction, self.routine.instructions[access.instruction].children[access.part])
            if term is not None:
                terms = self.values.terms
                found[access.instruction] = term if term.width == 1 else terms.apply("eq", 1, (term, terms.constant(0, term.width)))
        return found

    def _lively(self) -> int:
        """The blocks from which the start of an operation is reachable, as bits."""
        starts = [i for i, own in self.effects.items() if any(effect.action is Action.OPEN for effect in own)]
        return mask_of(closure([self.flow.block_of[i] for i in starts], self.flow.predecessors))

    def _starters(self) -> int:
        """The threads that may start operations, as bits."""
        found = 0
        for i, own in self.effects.items():
            if any(effect.action is Action.OPEN for effect in own):
                guard = self.guards.get(i)
                where = self.thread_block.where(guard) if guard is not None else None
                found |= self._let_in(self.flow.block_of[i]) & (self.thread_block.everyone if where is None else where)
        return found

    def _let_in(self, block: int) -> int:
        """The threads that pass the branches on the only path to a block, as bits."""
        tree = dominators(self.routine).tree
        threads = self.thread_block.everyone
        while block in tree and tree.parent[block] != block:
            before = tree.parent[block]
            guard = self.branches.get(before)
            edges = [edge for edge in self.flow.blocks[before].edges if edge.target == block]
            if guard is not None and len(edges) == 1 and self.flow.blocks[block].predecessors == (before,):
                where = self.thread_block.where(guard)
                if where is not None:
                    threads &= where if edges[0].via is Via.TAKEN else ~where
            block = before
        return threads

    def _calls(self) -> set[int]:
        """Calls that may start, commit or wait: functions with a body in the module, and indirect calls."""
        inside = {function.name for function in self.routine.module.functions if function.body is not None}
        found = set()
        for i in calls(self.routine):
            called = callees(self.routine, i, self.routine.instructions[i])
            if not called.names or called.is_indirect or any(name in inside for name in called.names):
                found.add(i)
        return found

    def _asked(self, block: int) -> Iterator[Term]:
        """The terms watched in a block."""
        for i in self.events.get(block, ()):
            yield from self.watched.get(i, ())
            yield from [asked[i] for asked in (self.guards, self.idle) if i in asked]
        yield from [asked[block] for asked in (self.branches, self.small) if block in asked]

    def _small(self) -> dict[int, Term]:
        """By block, the predicate of a branch that only selects the value of a term, as in a ring."""
        found: dict[int, Term] = {}
        while True:
            new: dict[int, Term] = {}
            for block, quiet in self.quiet.items():
                if quiet is None or block in found:
                    continue
                meet, region = quiet
                if any(self.evaluator.merges(at) for at in (meet, *bits(region))):
                    guard = self._guard(self.flow.blocks[block].end - 1)
                    if guard is not None:
                        new[block] = guard
            if not new:
                return found
            found |= new
            self.evaluator.want(new.values())

    def _changing(self, terms: Iterable[Term]) -> list[tuple[int, int, list[tuple[Term, int, int]]]]:
        """For each term, its width, the blocks in which part of it changes, and its atoms, with the factor and blocks of each."""
        numbering = self.evaluator.numbering
        found = []
        for term in dict.fromkeys(terms):
            own = [(atom, factor, mask_of([numbering[n].block for n in self.evaluator.needs(atom)])) for atom, factor in term.linear[1]]
            found.append((term.width, union([blocks for _, _, blocks in own]), own))
        return found

    def _moving(self, blocks: int, changing: Iterable[tuple[int, int, list[tuple[Term, int, int]]]]) -> tuple[Term, ...]:
        """The parts of each term that change with the iterations of a loop, each once. They are kept in one term, since together they
        may wrap around."""
        algebra = self.values.terms
        found: dict[Term, None] = {}
        for width, anywhere, own in changing:
            if not anywhere & blocks:
                continue
            moving = algebra.constant(0, width)
            for atom, factor, changes in own:
                if changes & blocks:
                    moving = algebra.add(moving, algebra.scale(atom, factor))
            if moving.constant is None:
                found[moving] = None
        return tuple(found)

    def _quiet(self, block: int) -> tuple[int, int] | None:
        """The merge point of a block's branch and the blocks on the path to it, if nothing of interest happens there."""
        if block not in self.quiet:
            found = quiet_region(self.routine, block, self.events)
            self.quiet[block] = None if found is not None and found[1] >> block & 1 else found
        return self.quiet[block]

    # --- the paths

    def run(self) -> Coverage:
        start = Trail(-1, "", None, 0)
        everyone = self.thread_block.everyone
        first = _State(0, -1, -1, {}, {}, everyone, everyone, (), Choices(self.values.terms), self.observer.start, start, {}, 0)
        for _ in unfold(first, self._step):
            if self.steps >= self.most_steps:
                self.complete = False
                break
        return Coverage(self.complete, self.steps, self.rounds)

    def _step(self, state: _State) -> list[_State]:
        """The states at the ends of the outgoing edges; none if the state adds nothing to those already followed."""
        if not self._arrive(state):
            return []
        self.steps += 1
        return self._through(state)

    def _arrive(self, state: _State) -> bool:
        """Enters a block. False if the same state has been seen there, or the bounds are reached."""
        block = state.block
        can_start = self.lively >> block & 1 and self.starters & state.threads
        if not can_start and self.observer.rests(state.memory) and all(queue.is_idle for queue in state.queues.values()):
            return False
        if state.source >= 0:
            state.tick += 1
            enter = self.evaluator.enter if state.skipped < 0 else self.evaluator.skip
            source = state.source if state.skipped < 0 else state.skipped
            state.environment = enter(block, source, state.environment, state.tick)
        while state.divergences and state.divergences[-1][0] == block:
            state.crowd = state.divergences[-1][1]
            state.divergences = state.divergences[:-1]
        loop = self.headers.get(block)
        if loop is None and len(self.flow.blocks[block].predecessors) < 2:
            return True
        live = self.live[block]
        state.environment = {number: term for number, term in state.environment.items() if live >> number & 1}
        if loop is not None:
            rounds = 1 if state.source < 0 or not loop.blocks >> state.source & 1 else state.rounds.get(block, 0) + 1
            state.rounds = {**state.rounds, block: rounds}
            state.trail = Trail(ITERATION - block, "", state.trail, state.trail.length + 1)
            self.rounds[block] = max(self.rounds.get(block, 0), rounds)
            if rounds > MOST_ROUNDS:
                self.complete = False
                return False
            steady = self.evaluator.steady(state.environment)
            values: Hashable = tuple([self.evaluator.term(term, steady) for term in self.moving[block]])
        else:
            values = tuple(sorted([(number, term.serial, term.width) for number, term in state.environment.items()]))
        key = (
            block,
            values,
            tuple([(name, queue.signature) for name, queue in sorted(state.queues.items())]),
            state.memory,
            state.threads,
            state.crowd,
            state.choices.shape,
        )
        if key in self.seen:
            return False
        self.seen.add(key)
        self.visits[block] += 1
        if self.visits[block] > self.most_visits:
            self.complete = False
            return False
        return True

    def _through(self, state: _State) -> list[_State]:
        """The states at the ends of a block's edges; those to follow first are last."""
        states = [state]
        for i in self.events.get(state.block, ()):
            states = [after for one in states for after in self._event(i, one)]
        return [after for one in states for after in self._leave(one)]

    def _event(self, i: int, state: _State) -> list[_State]:
        """The states after an instruction: one, or two if it may or may not be executed and that matters."""
        condition: Term | None = None
        threads = state.threads
        guard = self.guards.get(i)
        found = []
        if i in self.calls:
            self.complete = False
            return []
        own = self.effects.get(i, ())
        sync = self.syncs.get(i)
        crowd = state.crowd
        if guard is not None:
            condition = self.evaluator.term(guard, state.environment)
            decided = state.choices.says(condition)
            if decided is False:
                return [state]
            where = self.thread_block.where(condition) if decided is None else None
            if decided:
                condition = None
            elif where is not None:
                condition = None
                threads, crowd = state.threads & where, state.crowd & where
                if not threads:
                    return [state]
            steers = sync is not None or any(effect.action is not Action.OPEN for effect in own)
            if threads != state.threads and (own or sync is not None):
                # the other threads continue without it
                found.append(attrs.evolve(state, threads=state.threads & ~threads))
                state.threads = threads
            elif condition is not None and steers:
                possible = dict(outcomes(state.choices, condition))
                if False in possible:
                    found.append(attrs.evolve(state, choices=possible[False]))
                if True not in possible:
                    return found
                state.choices = possible[True]
                condition = None
        before = state.queues
        terms = tuple([self.evaluator.term(term, state.environment) for term in self.watched.get(i, ())])
        leaves = self._leaves(i)
        after, trail, started = self._act(i, own, state, terms, condition, threads, crowd)
        if sync is not None and sync.waits and sync.reach is Reach.MBARRIER:
            after = {name: queue.signalled_of() for name, queue in after.items()}
        moment = Moment(
            self.routine,
            self.thread_block,
            i,
            terms,
            condition,
            threads,
            crowd,
            before,
            after,
            own,
            sync,
            leaves,
            state.choices,
            state.trail,
            started,
            self.values,
        )
        state.memory = self.observer.meet(moment, state.memory)
        state.queues = after
        if sync is not None and trail is state.trail:
            trail = Trail(i, "", state.trail, state.trail.length + 1)
        state.trail = trail
        found.append(state)
        return found

    def _idle(self, i: int, state: _State) -> Term | None:
        idle = self.idle.get(i)
        return self.evaluator.term(idle, state.environment) if idle is not None else None

    def _leaves(self, i: int) -> bool:
        block = self.flow.blocks[self.flow.block_of[i]]
        return block.end - 1 == i and block.leaves in ("return", "exit")

    def _act(
        self, i: int, own: tuple[Effect, ...], state: _State, terms: tuple[Term, ...], condition: Term | None, threads: int, crowd: int
    ) -> tuple[dict[str, Queue], Trail, Operation | None]:
        queues, trail, started = state.queues, state.trail, None
        for effect in own:
            queue = queues.get(effect.queue, EMPTY)
            if effect.action is Action.OPEN:
                trail = Trail(i, "", trail, trail.length + 1)
                decided, idle = len(state.choices.taken), self._idle(i, state)
                started = Operation(i, effect.queue, terms, condition, threads, crowd, trail, decided, idle)
                queue = queue.opened(started)
            elif effect.action is Action.COMMIT:
                trail = Trail(i, "committed here" if queue.open else "", trail, trail.length + 1)
                queue = queue.committed(trail)
            elif effect.action is Action.WAIT:
                what = _wait_in_words(effect.leave or 0, len(queue.groups))
                if effect.reading:
                    what += ", until they have read their sources"
                trail = Trail(i, what, trail, trail.length + 1)
                queue = queue.waited(effect)
            if effect.signals:
                queue = queue.signalled()
            queues = {**queues, effect.queue: queue}
        return queues, trail, started

    def _leave(self, state: _State) -> list[_State]:
        block = self.flow.blocks[state.block]
        if not block.edges:
            return []
        if len(block.edges) == 1 and not block.leaves:
            return [self._to(state, block.edges[0].target)]
        quiet = self._quiet(state.block)
        guard = (self.branches if quiet is None else self.small).get(state.block)
        if guard is None:
            if quiet is not None:
                return [self._over(state, *quiet)]
            return [self._to(attrs.evolve(state), target) for target in block.successors]
        condition = self.evaluator.term(guard, state.environment)
        decided = state.choices.says(condition)
        if decided is not None:
            paths = open_edges(block, decided)
            if quiet is not None and not self._short(quiet[1]):
                return [self._over(state, *quiet)]
            return [self._to(state, paths[0].target)] if paths else []
        if quiet is not None:
            return [self._over(state, *quiet)]
        return self._fork(state, condition)

    def _guard(self, i: int) -> Term | None:
        guard = self.values.guard(i)
        return settler(self.routine).term(guard) if guard is not None else None

    def _short(self, region: int) -> bool:
        """Whether a region that may be skipped has no loop: then it can as well be followed."""
        return not any(region >> header & 1 for header in self.headers)

    def _fork(self, state: _State, condition: Term) -> list[_State]:
        block = self.flow.blocks[state.block]
        where = self.thread_block.where(condition)
        meet = self.post.parent[state.block] if state.block in self.post else -1
        paths: list[tuple[bool, int | None]] = [(bool(edge.via is Via.TAKEN), edge.target) for edge in block.edges]
        if len(block.edges) == 1 and block.leaves:
            paths.append((not paths[0][0], None))
        found = []
        for holds, target in paths:
            if target is None:
                continue
            side = self._side(condition, holds)
            choices = state.choices.choose(condition, holds) if where is None else state.choices
            if choices is None or not state.threads & side:
                continue
            parts = state.crowd & ~side
            divergences = (*state.divergences, (meet, state.crowd)) if parts and meet >= 0 else state.divergences
            new = attrs.evolve(state, threads=state.threads & side, crowd=state.crowd & side, divergences=divergences, choices=choices)
            found.append(self._to(new, target))
        found.sort(key=lambda one: self._worth(state.block, one.block))
        return found

    def _side(self, condition: Term, holds: bool) -> int:
        """The threads for which a predicate may hold, or may fail, by their indices, as bits."""
        key = (condition, holds)
        if key not in self.sides:
            side = self.thread_block.everyone
            for part, comes in conjuncts(self.values.terms, condition, holds):
                where = self.thread_block.where(part)
                if where is not None:
                    side &= where if comes else ~where
            self.sides[key] = side
        return self.sides[key]

    def _worth(self, block: int, target: int) -> tuple[bool, bool, int]:
        """The priority of an edge: staying in the loop first, then blocks with events."""
        index = self.forest.innermost[block]
        stays = index is not None and target in self.forest.loops[index]
        return stays, target in self.events, -target

    def _to(self, state: _State, target: int) -> _State:
        state.source, state.block, state.skipped = state.block, target, -1
        return state

    def _over(self, state: _State, meet: int, region: int) -> _State:
        """Skips to the merge point; the branch decision stays open."""
        state.source, state.block, state.skipped = state.block, meet, region
        return state
