"""Instructions that a group of threads must execute together, and threads of one group of which one does and another does not.

Who must the table says (`converges`). That all of a group come is proved by `uniformity`; where it is not, threads are looked for that part
on the path: by their indices alone, or for inputs given as an example. Both count: paths around the instruction, and loops that one thread
leaves while another stays in the loop to execute it again. Threads that have ended need not come, unless the table says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import attrs

from ptxkit.analyses.cfg.dominators import dominators, quiet
from ptxkit.analyses.cfg.graph import callees, control_flow
from ptxkit.analyses.cfg.loops import Loop, loops
from ptxkit.analyses.cfg.reachability import closure
from ptxkit.analyses.framework.bindings import such
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.launch.launch import WARP, WARP_MASK
from ptxkit.analyses.numbers.bits import bits
from ptxkit.analyses.symbolic.terms import Term, walk
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.symbolic.vectors import Numbers
from ptxkit.analyses.threads.lanes import Thread, is_free
from ptxkit.analyses.threads.thread_sets import Execution, Runs, all_but, all_same, first_of, just
from ptxkit.analyses.uniformity.example_runs import World, worlds
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.analyses.uniformity.uniformity import enters_whole, uniformity
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.isa.notation import Converges

MOST_ITERATIONS = 24
GROUPS = (Level.WARP, Level.WARPGROUP, Level.CTA)
COMPARISONS = frozenset(("eq", "lt.u", "lt.s"))
LEVELS = {"warp": Level.WARP, "warpgroup": Level.WARPGROUP, "cta": Level.CTA}


@frozen
class Demand:
    """An aligned instruction of a function, and who must execute it together."""

    routine: Routine
    instruction: int
    bound: Bound
    converges: Converges


@frozen
class Divergence:
    """Two threads of a group part, and only one of them executes what both should."""

    instruction: int
    scope: Level
    """The smallest group that both are in."""
    one: Thread
    """Executes it."""
    other: Thread
    branch: int
    """The instruction by which they diverge; the instruction itself if that is its guard."""
    has_ended: bool
    """Whether the other ends there, and does nothing any more that anyone could notice."""
    why: str
    """What differs, for people."""
    example: str
    """If it depends on what the kernel is launched with: an example."""
    again: bool
    """Whether both have executed it before, and one iterates once more."""
    assumption: str
    is_certain: bool = True
    """Whether the CTA has both threads for certain; else it may have fewer."""
    demand: Demand | None = None
    """What should be executed together: the instruction itself, or one in a function that it calls."""


@fact
def divergences(routine: Routine) -> tuple[Divergence, ...]:
    """For each instruction that threads must execute together and do not, the proof.

    Only in kernels, and in functions that all their threads come into; who calls others, nobody knows.
    """
    flow = control_flow(routine)
    own = {i: list(demands_of(routine, i, bound)) for i, bound in such(routine, _may_demand) if flow.block_of[i] in flow.reachable}
    if not any(own.values()) or not enters_whole(routine):
        return ()
    found = []
    for i, demands in own.items():
        divergence = next(filter(None, (diverge(routine, i, demand) for demand in demands)), None)
        if divergence is not None:
            found.append(divergence)
    return tuple(found)


def demands_of(routine: Routine, i: int, bound: Bound, inside: frozenset[str] = frozenset()) -> Iterator[Demand]:
    """What instruction `i` executes that threads must execute together, aligned: itself, or what a function does that it calls.

    Functions that are `inside` one another already are not looked into again.
    """
    converges = bound.converges
    if converges is not None and converges.aligned and converges.level in LEVELS:
        yield Demand(routine, i, bound, converges)
    if bound.flow == "call":
        names = callees(routine, i, routine.instructions[i]).names
        for other in routine.siblings:
            if other.name in names and other.name not in inside:
                yield from _demands(other, inside | {other.name})


def _may_demand(bound: Bound) -> bool:
    return bound.converges is not None or bound.flow == "call"


def _demands(routine: Routine, inside: frozenset[str]) -> Iterator[Demand]:
    """What all threads that call a function execute in it, of what must be executed together."""
    flow, post = control_flow(routine), dominators(routine).post
    for i, bound in such(routine, _may_demand):
        if routine.instructions[i].guard is None:
            block = flow.block_of[i]
            if block in flow.reachable and post.dominates(block, 0):
                yield from demands_of(routine, i, bound, inside)


def diverge(routine: Routine, i: int, demand: Demand) -> Divergence | None:
    """Two threads of one group of which one executes an instruction and the other does not; None if nothing of the kind is known."""
    level, exits_count = LEVELS[demand.converges.level], demand.converges.whole
    if reconverge(routine, i, level, exits_count):
        return None
    search = Search(routine, i, level, exits_count)
    for world in worlds(routine).all(level):
        found = search.first_time(world) or search.once_more(world)
        if found is not None:
            return attrs.evolve(found, demand=demand)
    return None


def reconverge(routine: Routine, i: int, level: Level, exits_count: bool) -> bool:
    """Whether it is proved that all threads of each such group execute an instruction if any does, and equally often."""
    return uniformity(routine).point(i, exits_count).holds(level) and not _may_loop(routine, i, level)


def _may_loop(routine: Routine, i: int, level: Level) -> bool:
    """Whether a loop around an instruction may be left by some threads of a group earlier than by others."""
    flow, known = control_flow(routine), uniformity(routine)
    block = flow.block_of[i]
    return any(
        not known.branch(before).holds(level) for loop in loops(routine).loops if block in loop for before, _ in loops(routine).exits(loop)
    )


class Search:
    """Looks for threads of which one executes an instruction and another of its group, up to a level, does not."""

    def __init__(self, routine: Routine, i: int, level: Level, exits_count: bool) -> None:
        self.routine = routine
        self.i = i
        self.level = level
        self.exits_count = exits_count
        self.flow = control_flow(routine)
        self.block = self.flow.block_of[i]
        self.values = values(routine)
        self.known = uniformity(routine)
        self.dominance = dominators(routine)

    def first_time(self, world: World, mask: Numbers | None = None) -> Divergence | None:
        """Two threads of which one executes it, the first time that it may, and the other does not; with a mask, a lane that it names."""
        runs = world.execution(self.i)
        others = runs if mask is None else _only(runs, mask)
        for scope, one, other in pairs(runs, others, self.level):
            found = self.between(world, scope, one, other)
            if found is not None:
                return found
        return None

    def may_come(self) -> bool:
        """Whether what decides that threads come to the instruction may really come out as chosen inputs make it."""
        conditions = [self.values.guard(self.i)] if self.values.guard(self.i) is not None else []
        conditions += [self.values.guard(self.flow.blocks[before].end - 1) for before in self._deciding()]
        return all(condition is None or self._is_possible(condition) for condition in conditions)

    def example(self, world: World) -> str:
        """The inputs on which it depends that threads come to the instruction, or not."""
        terms = [self.values.guard(self.i)]
        terms += [self.values.guard(self.flow.blocks[before].end - 1) for before in self._deciding()]
        return self._named(world, [term for term in terms if term is not None], self.block)

    def between(self, world: World, scope: Level, one: int, other: int) -> Divergence | None:
        """The branch at which two threads diverge that both come to it."""
        guard = self.values.guard(self.i)
        reached = world.reaching(self.block)
        if reached[one] is Runs.ALWAYS and reached[other] is Runs.ALWAYS:
            return self._reported(world, self.i, guard, scope, one, other, False, False) if guard is not None else None
        for before in self._deciding():
            reached = world.reaching(before)
            if reached[one] is not Runs.ALWAYS or reached[other] is not Runs.ALWAYS:
                continue
            paths = {edge: world.taking([edge]) for edge in self.flow.blocks[before].edges}
            mine = [edge for edge, taken in paths.items() if taken[one] is Runs.ALWAYS]
            if not mine or any(paths[edge][other] is not Runs.NEVER for edge in mine):
                continue
            theirs = [edge for edge, taken in paths.items() if taken[other] is Runs.ALWAYS]
            ended = all(quiet(self.routine)[edge.target] for edge in theirs)
            if ended and not self.exits_count:
                return None
            last = self.flow.blocks[before].end - 1
            return self._reported(world, last, self.values.guard(last), scope, one, other, ended, False)
        return None

    def _deciding(self) -> list[int]:
        """The blocks whose branches decide whether control comes to the instruction, those next to it first."""
        return [before for before in self.dominance.post.decide(self.block) if before in self.flow.reachable]

    # --- loops

    def once_more(self, world: World) -> Divergence | None:
        """Two threads that iterate in a loop together, until one leaves and the other executes the instruction again."""
        forest = loops(self.routine)
        inner = forest.innermost[self.block]
        while inner is not None:
            loop = forest.loops[inner]
            found = self._in_loop(world, loop)
            if found is not None:
                return found
            inner = loop.parent
        return None

    def _in_loop(self, world: World, loop: Loop) -> Divergence | None:
        leaving = tuple(dict.fromkeys([before for before, _ in loops(self.routine).exits(loop)]))
        decisive = [before for before in leaving if not self.known.branch(before).holds(self.level)]
        if not loop.is_reducible or not decisive:
            return None
        if not self.exits_count and any(self.flow.blocks[block].is_end for block in bits(loop.blocks)):
            return None
        alive = world.reaching(loop.header)
        changes = self._changes(decisive)
        for iteration in range(MOST_ITERATIONS):
            if not alive.sure:
                return None
            this, following = [worlds(self.routine).iteration(world.choice, loop, one) for one in (iteration, iteration + 1)]
            stays = alive
            for before in leaving:
                found, passed = self._leaving(this, following, loop, before, alive, before in decisive)
                if found is not None:
                    return found
                stays &= passed
            if stays == alive and not changes:
                return None
            alive = stays
        return None

    def _leaving(
        self, this: World, following: World, loop: Loop, before: int, alive: Execution, is_decisive: bool
    ) -> tuple[Divergence | None, Execution]:
        """Two of these threads of which one leaves a loop at the end of a block and the other goes on to the instruction; and who stays."""
        edges = self.flow.blocks[before].edges
        outside = [edge for edge in edges if edge.target not in loop]
        comes = alive & this.reaching(before)
        takes = this.taking([edge for edge in edges if edge.target in loop])
        if not is_decisive:
            # where all take the same path and nobody knows which, they may well stay
            return None, all_but(comes.sure & takes.never, len(comes))
        leaves = comes & this.taking(outside)
        executes = comes & takes & self._again(this, following, before)
        gone = all_but(leaves.sure, len(leaves))
        ended = all(quiet(self.routine)[edge.target] for edge in outside)
        if self.exits_count or not ended:
            for scope, one, other in pairs(executes, gone, self.level):
                last = self.flow.blocks[before].end - 1
                found = self._reported(this, last, self.values.guard(last), scope, one, other, ended, True)
                if found is not None:
                    return found, executes
        return None, takes | just(comes.never, len(comes))

    def _again(self, this: World, following: World, before: int) -> Execution:
        """For each thread that stays at a branch of a loop, whether it executes the instruction after that."""
        if self.dominance.tree.dominates(before, self.block) and before != self.block:
            return this.execution(self.i)
        return following.execution(self.i)

    def _changes(self, decisive: list[int]) -> bool:
        """Whether what decides about leaving a loop may be another thing in the next iteration."""
        for before in decisive:
            condition = self.values.guard(self.flow.blocks[before].end - 1)
            if condition is not None and any(leaf.operator == "phi" for leaf in condition.leaves()):
                return True
        return False

    # --- for people

    def differing(self, world: World, branch: int, condition: Term, one: int, other: int) -> Divergence | None:
        """Two threads that come to a branch and part there."""
        return self._reported(world, branch, condition, Level.WARP, one, other, False, False)

    def _reported(
        self, world: World, branch: int, condition: Term | None, scope: Level, one: int, other: int, ended: bool, again: bool
    ) -> Divergence | None:
        if condition is None:
            i = branch
            operands = self.routine.instructions[i].operands
            condition = self.values.operand(i, operands[0]) if operands else None
            if condition is None:
                return None
        if not self._is_possible(condition):
            return None
        block = self.flow.block_of[branch]
        numbers = world.numbers(condition, block)
        guard = self.routine.instructions[branch].guard
        name = f"`{guard.text.strip()}`" if guard is not None else f"`{self.routine.instructions[branch].operands[0].text}`"
        why = f"{name} differs"
        if numbers is not None and guard is not None:
            holds = one if numbers[one] else other
            why = f"{name} holds for {world.threads[holds]}, not for {world.threads[one + other - holds]}"
        elif numbers is not None:
            why = f"{name} is {numbers[one]} for {world.threads[one]}, {numbers[other]} for {world.threads[other]}"
        threads = world.threads
        return Divergence(
            self.i,
            scope,
            threads[one],
            threads[other],
            branch,
            ended,
            why,
            self._example(world, condition, branch),
            again,
            world.template.assumed(max(one, other)),
            world.template.is_certain or max(one, other) < WARP,
        )

    def _is_possible(self, condition: Term) -> bool:
        """Whether a condition really comes out differently for some launch: not if it may keep threads out that are never there."""
        known = worlds(self.routine).possible
        if condition not in known:
            known[condition] = all(self._is_open(at) for at in walk(condition) if at.operator in COMPARISONS)
        return known[condition]

    def _is_open(self, compared: Term) -> bool:
        """Whether a comparison of the index of a thread with an argument is one of its index in the grid, or goes by a loop's counter."""
        if not any(leaf.operator == "parameter" for leaf in compared.leaves()):
            return True
        own = [leaf for leaf in compared.leaves() if leaf.operator == "phi"]
        starts = [induction.start for leaf in own if (induction := self.values.induction(leaf.data[0])) is not None]  # type: ignore[arg-type]
        if len(starts) != len(own):
            return False
        names = {str(leaf.data[0]) for term in (compared, *starts) for leaf in term.leaves() if leaf.operator == "special"}
        return bool(own) or any(name.startswith("%ctaid") for name in names) or is_free(compared)

    def _example(self, world: World, condition: Term, branch: int) -> str:
        """The inputs on which it depends that the threads come there and part."""
        terms = [condition]
        block = self.flow.block_of[branch]
        for before in self._deciding():
            if self.dominance.tree.dominates(before, block) and before != block:
                guard = self.values.guard(self.flow.blocks[before].end - 1)
                terms += [guard] if guard is not None else []
        return self._named(world, terms, block)

    def _named(self, world: World, terms: list[Term], block: int) -> str:
        found: dict[str, int] = {}
        for term in terms:
            for leaf in term.leaves():
                is_index = leaf.operator == "special" and str(leaf.data[0]).startswith(("%tid", "%lane", "%ntid"))
                if leaf.operator not in ("parameter", "special") or is_index:
                    continue
                numbers = world.numbers(leaf, block)
                if numbers is not None:
                    found.setdefault(str(leaf.data[0]), numbers[0])
        return ", ".join([f"{name} = {number}" for name, number in found.items()])


def pairs(ones: Execution, others: Execution, level: Level) -> Iterator[tuple[Level, int, int]]:
    """Threads of one group of which the first is certain to do one thing and the second certain not to do the other; of each size of groups
    up to a level, one pair, the smallest first."""
    count, does, does_not = len(ones), ones.sure, others.never
    if not does or not does_not:
        return
    for scope in GROUPS:
        if scope > level:
            return
        size = scope.threads or count
        for start in range(0, count, size):
            group = (1 << size) - 1 << start
            one, other = does & group, does_not & group
            if one and other:
                yield scope, first_of(one), first_of(other)
                break


def _only(runs: Execution, mask: Numbers) -> Execution:
    """What threads do, of those only that the first of their warp that does it names in a mask."""
    named = 0
    for start in range(0, len(runs), WARP):
        here = runs.sure >> start & WARP_MASK
        if here:
            named |= (mask[start + first_of(here)] & WARP_MASK) << start
    return runs & just(named, len(runs)) | all_same(Runs.UNKNOWN, len(runs)) & all_but(named, len(runs))


def choose_pair(routine: Routine, i: int) -> Divergence | None:
    """Two threads of one warp that come to instruction `i` and differ in its guard, or in its index; None if none are known."""
    if not enters_whole(routine):
        return None
    guard = values(routine).guard(i)
    condition = guard if guard is not None else values(routine).operand(i, routine.instructions[i].operands[0])
    if condition is None:
        return None
    search = Search(routine, i, Level.WARP, False)
    for world in worlds(routine).all(Level.WARP):
        numbers = world.numbers(condition, search.block)
        if numbers is None:
            continue
        reached = world.reaching(search.block)
        for start in range(0, len(numbers), WARP):
            here = [t for t in range(start, min(start + WARP, len(numbers))) if reached[t] is Runs.ALWAYS]
            other = next((t for t in here if numbers[t] != numbers[here[0]]), None)
            if other is not None:
                found = search.differing(world, i, condition, here[0], other)
                if found is not None:
                    return found
                break
    return None


def comes_otherwise(routine: Routine, divergence: Divergence, is_same: Callable[[int], bool]) -> bool:
    """Whether an instruction that does the same is on some path that the other thread may take until the paths of both reconverge."""
    flow = control_flow(routine)
    block = flow.block_of[divergence.branch]
    if divergence.branch == divergence.instruction:
        return any(is_same(i) for i in range(divergence.instruction + 1, flow.blocks[block].end))
    meeting = dominators(routine).post.parent[block]
    avoided = {meeting, flow.block_of[divergence.instruction]}
    others = closure(flow.successors(block), lambda at: flow.successors(at) if at not in avoided else ()) - avoided
    return any(is_same(i) for at in others for i in range(flow.blocks[at].start, flow.blocks[at].end))


# --- for the rules


def divergence_reports(facts: Facts, rule: Rule, routine: Routine, found: Iterable[Divergence], *notes: str) -> Iterator[Diagnostic]:
    """The findings of a rule for divergences: one for all instructions that threads miss because of the same branch, at the first of
    them."""
    groups: dict[int, list[Divergence]] = {}
    for divergence in found:
        groups.setdefault(divergence.branch, []).append(divergence)
    for group in groups.values():
        first = group[0]
        others = "" if len(group) < 2 else f"the same is true of {len(group) - 1} more after that branch"
        where = routine.where(first.instruction)
        related = [] if first.branch == first.instruction else [(routine.where(first.branch), f"they diverge here: {first.why}")]
        inner = first.demand
        if inner is not None and inner.routine is not routine:
            related.append((inner.routine.where(inner.instruction), "all that call the function must come here together"))
        yield facts.report(
            rule,
            where,
            _sentence(routine, first),
            *filter(None, (first.why if not related else "", example_note(first.example), assumed_note(first.assumption), others, *notes)),
            related=related,
            severity=_severity(first),
        )


def _severity(divergence: Divergence) -> Severity | None:
    """That of the rule if the CTA has both threads. Else a note if it takes numbers of the launch, too: those that come with as many
    threads may be others, such as rows of which each warp has its own."""
    if divergence.is_certain:
        return None
    return Severity.INFO if divergence.example else Severity.WARNING


def _sentence(routine: Routine, divergence: Divergence) -> str:
    name = routine.instructions[divergence.instruction].opcode.text
    if divergence.demand is not None and divergence.demand.routine is not routine:
        name = f"{name} {divergence.demand.routine.name}"
    group = {Level.WARP: "warp", Level.WARPGROUP: "warpgroup"}.get(divergence.scope, "CTA")
    if divergence.again:
        return f"{divergence.one} executes `{name}` once more than {divergence.other} of its {group}, which has left the loop"
    ended = ", which has ended" if divergence.has_ended else ""
    return f"{divergence.one} executes `{name}`, but {divergence.other} of its {group} does not{ended}"


def example_note(example: str) -> str:
    """Inputs as an example, as a note; empty if there are none."""
    return f"for example with {example}" if example else ""


def assumed_note(assumption: str) -> str:
    """What is taken for granted, as a note; empty if nothing is."""
    return f"assumed: {assumption}" if assumption else ""
