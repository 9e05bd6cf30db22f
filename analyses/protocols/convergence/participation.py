"""Instructions that a group of threads must execute together, and threads of one group of which only some do.

The table says which threads (`converges`). `uniformity` proves that all threads of a group execute an instruction. Where it cannot, the
search looks for threads that diverge, by their indices alone or for example inputs. It covers paths around the instruction, and loops that
one thread leaves while another stays and executes it again. Threads that have exited need not participate, unless the table requires it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import attrs

from ptxkit.analyses.cfg.dominators import dominators, quiet
from ptxkit.analyses.cfg.graph import callees, control_flow
from ptxkit.analyses.cfg.loops import Loop, loops
from ptxkit.analyses.cfg.reachability import closure
from ptxkit.analyses.framework.bindings import matching
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
from ptxkit.isa.forms import Converges

MOST_ITERATIONS = 24
GROUPS = (Level.WARP, Level.WARPGROUP, Level.CTA)
COMPARISONS = frozenset(("eq", "lt.u", "lt.s"))
LEVELS = {"warp": Level.WARP, "warpgroup": Level.WARPGROUP, "cta": Level.CTA}


@frozen
class Demand:
    """An aligned instruction of a function, and the group that must execute it together."""

    routine: Routine
    instruction: int
    bound: Bound
    converges: Converges


@frozen
class Divergence:
    """Two threads of a group diverge, and only one of them executes what both should."""

    instruction: int
    scope: Level
    """The smallest group that contains both."""
    one: Thread
    """The thread that executes it."""
    other: Thread
    branch: int
    """The branch at which they diverge; the instruction itself if its guard is the reason."""
    has_ended: bool
    """Whether the other thread exits there without further visible effects."""
    why: str
    """A description of what differs."""
    example: str
    """Example inputs, if it depends on them."""
    again: bool
    """Whether both have executed it before, and one iterates once more."""
    assumption: str
    is_certain: bool = True
    """Whether the CTA certainly has both threads; otherwise it may have fewer."""
    demand: Demand | None = None
    """What should be executed together: the instruction itself, or one in a function that it calls."""


@fact
def divergences(routine: Routine) -> tuple[Divergence, ...]:
    """For each instruction that threads must execute together and do not, a proof.

    Only for kernels and functions that all threads enter; the callers of other functions are unknown.
    """
    flow = control_flow(routine)
    own = {i: list(demands_of(routine, i, bound)) for i, bound in matching(routine, _may_demand) if flow.block_of[i] in flow.reachable}
    if not any(own.values()) or not enters_whole(routine):
        return ()
    found = []
    for i, demands in own.items():
        divergence = next(filter(None, (diverge(routine, i, demand) for demand in demands)), None)
        if divergence is not None:
            found.append(divergence)
    return tuple(found)


def demands_of(routine: Routine, i: int, bound: Bound, inside: frozenset[str] = frozenset()) -> Iterator[Demand]:
    """The aligned instructions that instruction `i` executes: itself, or those in a function that it calls.

    Functions that are already `inside` the call chain are not entered again.
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
    """The instructions that must be executed together and that all callers of a function execute."""
    flow, post = control_flow(routine), dominators(routine).post
    for i, bound in matching(routine, _may_demand):
        if routine.instructions[i].guard is None:
            block = flow.block_of[i]
            if block in flow.reachable and post.dominates(block, 0):
                yield from demands_of(routine, i, bound, inside)


def diverge(routine: Routine, i: int, demand: Demand) -> Divergence | None:
    """Two threads of one group of which only one executes an instruction; None if none are known."""
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
    """Whether all threads of each group provably execute an instruction if any does, and equally often."""
    return uniformity(routine).point(i, exits_count).holds(level) and not _may_loop(routine, i, level)


def _may_loop(routine: Routine, i: int, level: Level) -> bool:
    """Whether some threads of a group may leave a loop around an instruction earlier than others."""
    flow, known = control_flow(routine), uniformity(routine)
    block = flow.block_of[i]
    return any(
        not known.branch(before).holds(level) for loop in loops(routine).loops if block in loop for before, _ in loops(routine).exits(loop)
    )


class Search:
    """Searches for two threads of a group, up to a level, of which only one executes an instruction."""

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
        """Two threads of which one executes the instruction on first reaching it and the other does not; with a mask, a lane in it."""
        runs = world.execution(self.i)
        others = runs if mask is None else _only(runs, mask)
        for scope, one, other in pairs(runs, others, self.level):
            found = self.between(world, scope, one, other)
            if found is not None:
                return found
        return None

    def may_come(self) -> bool:
        """Whether the conditions for reaching the instruction may really have the outcomes that example inputs give."""
        conditions = [self.values.guard(self.i)] if self.values.guard(self.i) is not None else []
        conditions += [self.values.guard(self.flow.blocks[before].end - 1) for before in self._deciding()]
        return all(condition is None or self._is_possible(condition) for condition in conditions)

    def example(self, world: World) -> str:
        """The inputs that decide whether threads reach the instruction."""
        terms = [self.values.guard(self.i)]
        terms += [self.values.guard(self.flow.blocks[before].end - 1) for before in self._deciding()]
        return self._named(world, [term for term in terms if term is not None], self.block)

    def between(self, world: World, scope: Level, one: int, other: int) -> Divergence | None:
        """The branch at which two threads diverge that both reach it."""
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
        """The blocks whose branches the instruction is control-dependent on, nearest first."""
        return [before for before in self.dominance.post.decide(self.block) if before in self.flow.reachable]

    # --- loops

    def once_more(self, world: World) -> Divergence | None:
        """Two threads that iterate a loop together, until one leaves it and the other executes the instruction again."""
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
        """Two threads of which one leaves a loop at the end of a block and the other continues to the instruction; and the threads that
        stay."""
        edges = self.flow.blocks[before].edges
        outside = [edge for edge in edges if edge.target not in loop]
        comes = alive & this.reaching(before)
        takes = this.taking([edge for edge in edges if edge.target in loop])
        if not is_decisive:
            # if all take the same path and it is unknown which, they may stay
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
        """For each thread that stays in a loop at a branch, whether it executes the instruction afterwards."""
        if self.dominance.tree.dominates(before, self.block) and before != self.block:
            return this.execution(self.i)
        return following.execution(self.i)

    def _changes(self, decisive: list[int]) -> bool:
        """Whether the exit conditions of a loop may change in the next iteration."""
        for before in decisive:
            condition = self.values.guard(self.flow.blocks[before].end - 1)
            if condition is not None and any(leaf.operator == "phi" for leaf in condition.leaves()):
                return True
        return False

    # --- descriptions

    def differing(self, world: World, branch: int, condition: Term, one: int, other: int) -> Divergence | None:
        """Two threads that reach a branch and diverge there."""
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
        """Whether a condition may really have different outcomes for some launch, and does not only exclude threads that never exist."""
        known = worlds(self.routine).possible
        if condition not in known:
            known[condition] = all(self._is_open(at) for at in walk(condition) if at.operator in COMPARISONS)
        return known[condition]

    def _is_open(self, compared: Term) -> bool:
        """Whether a comparison of a thread index with an argument is one of its index in the grid, or involves a loop counter."""
        if not any(leaf.operator == "parameter" for leaf in compared.leaves()):
            return True
        own = [number for leaf in compared.leaves() if leaf.operator == "phi" and (number := leaf.ssa_value) is not None]
        starts = [induction.start for number in own if (induction := self.values.induction(number)) is not None]
        if len(starts) != len(own):
            return False
        names = {leaf.name for term in (compared, *starts) for leaf in term.leaves() if leaf.operator == "special"}
        return bool(own) or any(name.startswith("%ctaid") for name in names) or is_free(compared)

    def _example(self, world: World, condition: Term, branch: int) -> str:
        """The inputs that decide whether the threads reach the branch and diverge."""
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
                is_index = leaf.operator == "special" and leaf.name.startswith(("%tid", "%lane", "%ntid"))
                if leaf.operator not in ("parameter", "special") or is_index:
                    continue
                numbers = world.numbers(leaf, block)
                if numbers is not None:
                    found.setdefault(leaf.name, numbers[0])
        return ", ".join([f"{name} = {number}" for name, number in found.items()])


def pairs(ones: Execution, others: Execution, level: Level) -> Iterator[tuple[Level, int, int]]:
    """Pairs of threads of one group of which the first certainly executes and the second certainly does not; for each group size up to a
    level, one pair, smallest first."""
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
    """The executions, restricted to threads in the mask of the first executing thread of their warp."""
    named = 0
    for start in range(0, len(runs), WARP):
        here = runs.sure >> start & WARP_MASK
        if here:
            named |= (mask[start + first_of(here)] & WARP_MASK) << start
    return runs & just(named, len(runs)) | all_same(Runs.UNKNOWN, len(runs)) & all_but(named, len(runs))


def choose_pair(routine: Routine, i: int) -> Divergence | None:
    """Two threads of one warp that reach instruction `i` and differ in its guard or its index; None if none are known."""
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
    """Whether an equivalent instruction is on some path that the other thread may take before both paths merge."""
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
    """The findings of a rule for divergences, one for all instructions that threads miss because of the same branch, at the first of
    them."""
    groups: dict[int, list[Divergence]] = {}
    for divergence in found:
        groups.setdefault(divergence.branch, []).append(divergence)
    for group in groups.values():
        first = group[0]
        more = "1 more instruction" if len(group) == 2 else f"{len(group) - 1} more instructions"
        others = "" if len(group) < 2 else f"the same holds for {more} after that branch"
        where = routine.where(first.instruction)
        related = [] if first.branch == first.instruction else [(routine.where(first.branch), f"they diverge here: {first.why}")]
        inner = first.demand
        if inner is not None and inner.routine is not routine:
            related.append((inner.routine.where(inner.instruction), "all threads that call the function must reach this together"))
        yield facts.report(
            rule,
            where,
            _sentence(routine, first),
            *filter(None, (first.why if not related else "", example_note(first.example), assumed_note(first.assumption), others, *notes)),
            related=related,
            severity=_severity(first),
        )


def _severity(divergence: Divergence) -> Severity | None:
    """The severity of the rule if the CTA has both threads. Otherwise a note if it also depends on launch arguments: with that many
    threads these may be different, such as rows that each warp has of its own."""
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
    lacks = "has exited" if divergence.has_ended else "does not"
    return f"{divergence.one} executes `{name}`, but {divergence.other} of its {group} {lacks}"


def example_note(example: str) -> str:
    """Example inputs as a note; empty if there are none."""
    return f"for example with {example}" if example else ""


def assumed_note(assumption: str) -> str:
    """An assumption as a note; empty if there is none."""
    return f"assumed: {assumption}" if assumption else ""
