"""Which threads execute what, for inputs that are chosen: a launch as an example, in which every thread's path is followed.

What a kernel is given is made a number, and then much is known thread by thread that depends on more than the index of the thread. What is
loaded, and what comes of it, stays unknown, but for what all threads load in common: it counts as given too. Of loops one iteration is
looked at, the first if not said otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from ptxkit.analyses.cfg.graph import Edge
from ptxkit.analyses.cfg.loops import Loop
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.launch.launch import WARP
from ptxkit.analyses.memory.accesses import Access, accesses
from ptxkit.analyses.numbers.bits import bits, mask_of
from ptxkit.analyses.registers.ssa import Origin, ssa
from ptxkit.analyses.symbolic.terms import Term, walk
from ptxkit.analyses.symbolic.vectors import Numbers
from ptxkit.analyses.threads.inputs import ARGUMENTS, argument, special
from ptxkit.analyses.threads.thread_sets import Execution, Runs, just
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.analyses.uniformity.reaching_threads import First
from ptxkit.analyses.uniformity.uniformity import Uniformity, uniformity
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound

EXAMPLE = (".global", ".const")
"""Where the program finds what it works on."""
MOST_NESTED = 20


@frozen
class Choice:
    """What is chosen of a launch."""

    level: Level = Level.CTA
    """What threads of such a group have in common, and nobody knows, is a number too; so nothing follows for threads of different
    groups."""
    number: int = ARGUMENTS[0]
    """What each argument is, and each value that all threads load in common."""
    loaded: tuple[int, int, int] | None = None
    """A lane, what it loads, and what the other lanes load, where each thread loads its own."""
    loop: int = -1
    """The loop that is in iteration `iteration`; all others are in the first."""
    iteration: int = 0


class World(First):
    """What is known thread by thread for a choice of inputs."""

    def __init__(self, known: Uniformity, choice: Choice) -> None:
        super().__init__(known.solved)
        self.known = known
        self.choice = choice
        self._nested = 0
        self._joins: dict[Term, Sequence[Term]] = {}

    # --- what leaves are

    def numbers(self, term: Term, block: int) -> Numbers | None:
        """What a term is for each thread when it comes to a block; None if that is not known."""
        for join in self._joins_in(term):
            # from the inside out: a chain of them is as deep as it is long
            super().numbers(join, block)
        return super().numbers(term, block)

    def _joins_in(self, term: Term) -> Sequence[Term]:
        found = self._joins.get(term)
        if found is None:
            found = self._joins[term] = tuple([at for at in walk(term) if at.operator == "join" and at is not term])
        return found

    def _leaf(self, leaf: Term, block: int) -> Numbers | None:
        kind = leaf.operator
        if kind == "join":
            return self._join(leaf)
        if kind == "parameter":
            return self._all_same(argument(leaf, self.choice.number))
        if kind == "special":
            found = super()._leaf(leaf, block)
            return self._special_same(leaf) if found is None else found
        if kind == "phi":
            return self._phi(leaf, block)
        if kind != "value":
            return None
        found = super()._leaf(leaf, block)
        return self._value(leaf) if found is None else found

    def _all_same(self, number: int) -> Numbers:
        return (number,) * len(self.threads)

    def _special_same(self, leaf: Term) -> Numbers | None:
        name = str(leaf.data[0])
        if name.startswith(("%tid", "%lane")) or not self.template.has_indices:
            return None
        number = special(name, self.threads[-1])
        return None if number is None else self._all_same(number)

    def _phi(self, leaf: Term, block: int) -> Numbers | None:
        number: int = leaf.data[0]  # type: ignore[assignment]
        header = ssa(self.routine).values[number].block
        induction = self.values.induction(number)
        choice = self.choice
        if choice.loop < 0 or self._loops.loops[choice.loop].header != header or not choice.iteration:
            return super()._leaf(leaf, block)
        if induction is None or not any(block in loop for loop in self._loops.loops if loop.header == header):
            return None
        if induction.numbers and induction.step is None:
            position = choice.iteration
            if induction.repeats is not None and position >= len(induction.numbers):
                period = len(induction.numbers) - induction.repeats
                position = induction.repeats + (position - induction.repeats) % period
            return self._all_same(induction.numbers[position]) if position < len(induction.numbers) else None
        start = self.numbers(induction.start, header)
        if start is None or induction.step is None:
            return None
        mask = (1 << leaf.width) - 1
        return tuple([one + induction.step * choice.iteration & mask for one in start])

    def _value(self, leaf: Term) -> Numbers | None:
        number: int = leaf.data[0]  # type: ignore[assignment]
        if self.known.reach.elected(leaf)[0]:
            return tuple([int(thread.linear % WARP == 0) for thread in self.threads])
        value = ssa(self.routine).values[number]
        bound = bindings(self.routine)[value.instruction] if value.origin is Origin.WRITE else None
        if not isinstance(bound, Bound) or not bound.memory or bound.converges is not None or value.operands:
            return None
        if not self.routine.function.header.is_entry and not self._loads_from_outside(value.instruction):
            return None
        if self.known.level(number) >= self.choice.level:
            return self._all_same(argument(leaf, self.choice.number))
        if self.choice.loaded is None or not self._loads_its_own(value.instruction):
            return None
        lane, own, others = self.choice.loaded
        mask = (1 << leaf.width) - 1
        return tuple([(own if thread.linear % WARP == lane else others) & mask for thread in self.threads])

    def _loads_from_outside(self, i: int) -> bool:
        """Whether an instruction loads what the program is given; the arguments of a function, and what they point to, its callers make."""
        accessed = _accesses_of(self.routine).get(i, ())
        return bool(accessed) and all(access.space in EXAMPLE for access in accessed)

    def _loads_its_own(self, i: int) -> bool:
        """Whether an instruction only loads, and for certain from different locations for the lanes of a warp."""
        accessed = _accesses_of(self.routine).get(i, ())
        if len(accessed) != 1 or accessed[0].writes or accessed[0].address is None:
            return False
        positions = self.numbers(accessed[0].address, self._flow.block_of[i])
        if positions is None:
            return False
        warps = [positions[start : start + WARP] for start in range(0, len(positions), WARP)]
        return all(len(set(warp)) == len(warp) for warp in warps)

    def _join(self, at: Term) -> Numbers | None:
        """What a value is where paths merge: for each thread what comes by the path that it takes."""
        number: int = at.data[0]  # type: ignore[assignment]
        value = ssa(self.routine).values[number]
        if self._nested > MOST_NESTED:
            return None
        self._nested += 1
        result: list[int | None] = [None] * len(self.threads)
        for before, operand in zip(self._flow.blocks[value.block].predecessors, value.operands, strict=False):
            if operand < 0:
                continue
            edges = [edge for edge in self._flow.blocks[before].edges if edge.target == value.block]
            came = self.reaching(before) & self.taking(edges)
            if not came.may:
                continue
            numbers = self.numbers(self.values.of(operand), before)
            if numbers is None or came.may != came.sure:
                result = []
                break
            for thread in bits(came.sure):
                result[thread] = numbers[thread]
        self._nested -= 1
        # a thread that does not come here has no number; any will do
        return tuple([one or 0 for one in result]) if result else None

    # --- who comes where

    def taking(self, edges: Iterable[Edge]) -> Execution:
        """For each thread whether it takes one of these edges, which are from one block, if it comes there."""
        found = self._all(Runs.NEVER)
        for edge in edges:
            found |= self.along(edge)
        return found

    def _taken(self, edge: Edge) -> Execution:
        if not edge.indices:
            return super()._taken(edge)
        i = self._flow.blocks[edge.source].end - 1
        index = self.values.operand(i, self.routine.instructions[i].operands[0])
        numbers = self.numbers(index, edge.source) if index is not None else None
        if numbers is None:
            return self._all(Runs.UNKNOWN)
        return just(mask_of([thread for thread, number in enumerate(numbers) if number in edge.indices]), len(numbers))

    def _reaching(self, block: int, decides: list[int]) -> Execution:
        if not decides:
            return self._all(Runs.ALWAYS)
        best = self._all(Runs.NEVER)
        around = {loop.index for loop in self._loops.loops if block in loop}
        for before in decides:
            reached = self._execution.get(before) or self._all(Runs.UNKNOWN)
            edges = [edge for edge in self._flow.blocks[before].edges if self._dominance.post.dominates(block, edge.target)]
            best |= reached & self.taking(edges)
            if any(before in loop and loop.index not in around for loop in self._loops.loops):
                # those that stay in the loop may come in a later iteration
                best |= reached & self._all(Runs.UNKNOWN)
        return best


@fact
def _accesses_of(routine: Routine) -> dict[int, list[Access]]:
    """The accesses of memory by instruction."""
    found: dict[int, list[Access]] = {}
    for access in accesses(routine):
        found.setdefault(access.instruction, []).append(access)
    return found


class Worlds:
    """The worlds of a function, each made once."""

    def __init__(self, routine: Routine) -> None:
        self.routine = routine
        self.known = uniformity(routine)
        self._found: dict[Choice, World] = {}
        self.possible: dict[Term, bool] = {}
        """What was found out of conditions: whether some launch makes them come out as chosen."""

    def of(self, choice: Choice) -> World:
        """The world for a choice of inputs."""
        found = self._found.get(choice)
        if found is None:
            found = self._found[choice] = World(self.known, choice)
        return found

    def all(self, level: Level) -> Iterable[World]:
        """Those with different arguments, for what threads of such groups do."""
        for number in ARGUMENTS:
            yield self.of(Choice(level, number))

    def iteration(self, choice: Choice, loop: Loop, iteration: int) -> World:
        """The same in an iteration of a loop."""
        return self.of(attrs.evolve(choice, loop=loop.index, iteration=iteration) if iteration else choice)


@fact
def worlds(routine: Routine) -> Worlds:
    """The worlds of a function; they are those of threads that all come into it."""
    return Worlds(routine)
