"""The threads that execute each instruction for chosen inputs: an example launch in which the path of every thread is followed.

With numbers for the kernel's inputs, much is known for each thread that depends on more than its index. Loaded values and what depends on
them stay unknown, except for values that all threads load in common: these count as inputs, too. Only one iteration of a loop is
considered, by default the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from ptxkit.analyses.cfg.graph import Edge, control_flow
from ptxkit.analyses.cfg.loops import Loop
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.launch.inputs import TWO_BLOCKS, arguments, fitted, special_number
from ptxkit.analyses.launch.launch import WARP
from ptxkit.analyses.memory.accesses import accesses_of
from ptxkit.analyses.numbers.bits import bits, mask_of
from ptxkit.analyses.registers.ssa import Origin, ssa
from ptxkit.analyses.symbolic.terms import Term, walk
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.symbolic.vectors import Numbers
from ptxkit.analyses.threads.thread_sets import Execution, Runs, just
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.analyses.uniformity.reaching_threads import First
from ptxkit.analyses.uniformity.uniformity import Uniformity, uniformity
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound

EXAMPLE = (".global", ".const")
"""State spaces that hold the program's input data."""
MOST_NESTED = 20


@frozen
class Choice:
    """The chosen inputs of a launch."""

    level: Level = Level.CTA
    """Unknown values that are uniform in groups of this level are given a number, too; so nothing follows for threads of different
    groups."""
    number: int = arguments()[0]
    """The value of each argument, and of each value that all threads load in common."""
    loaded: tuple[int, int, int] | None = None
    """A lane, the value it loads, and the value the other lanes load, where each thread loads from its own address."""
    loop: int = -1
    """The loop that is in iteration `iteration`; all others are in their first."""
    iteration: int = 0


@fact
def _firsts(routine: Routine) -> frozenset[Term]:
    """The parameters that conditions add to a thread index: the first element of a range. Hosts let ranges begin at a multiple of a warp;
    otherwise, groups of lanes would be divided at their ends."""
    known, found = values(routine), set[Term]()
    guards = [known.guard(block.end - 1) for block in control_flow(routine).blocks if block.end > block.start]
    for part in [part for guard in guards if guard is not None for part in walk(guard)]:
        atoms = [atom.args[0] if atom.operator in ("zext", "sext") else atom for atom, factor in part.linear[1] if factor == 1]
        if any(atom.operator == "special" and atom.name.startswith("%tid") for atom in atoms):
            found.update([atom for atom in atoms if atom.operator == "parameter"])
    return frozenset(found)


class World(First):
    """What is known for each thread under a choice of inputs."""

    def __init__(self, known: Uniformity, choice: Choice) -> None:
        super().__init__(known.solved)
        self.known = known
        self.choice = choice
        self._nested = 0
        self._joins: dict[Term, Sequence[Term]] = {}

    # --- what leaves are

    def numbers(self, term: Term, block: int) -> Numbers | None:
        """The value of a term for each thread on entry to a block; None if unknown."""
        for join in self._joins_in(term):
            # innermost first: the nesting of a chain is as deep as the chain is long
            super().numbers(join, block)
        return super().numbers(term, block)

    def _joins_in(self, term: Term) -> Sequence[Term]:
        found = self._joins.get(term)
        if found is None:
            found = self._joins[term] = tuple([at for at in walk(term) if at.operator == "join" and at is not term])
        return found

    def _leaf(self, leaf: Term, block: int) -> Numbers | None:
        kind = leaf.operator
        if kind == "join" and leaf.ssa_value is not None:
            return self._join(leaf.ssa_value)
        if kind == "parameter":
            return self._all_same(self._example(leaf))
        if kind == "special":
            found = super()._leaf(leaf, block)
            return self._special_same(leaf) if found is None else found
        if leaf.ssa_value is None:
            return None
        if kind == "phi":
            return self._phi(leaf, leaf.ssa_value, block)
        found = super()._leaf(leaf, block)
        return self._value(leaf, leaf.ssa_value) if found is None else found

    def _all_same(self, number: int) -> Numbers:
        return (number,) * len(self.threads)

    def _example(self, leaf: Term) -> int:
        number = self.choice.number
        if leaf in _firsts(self.routine):
            number -= number % WARP
        return fitted(number, leaf.alignment, leaf.bounds, leaf.width)

    def _special_same(self, leaf: Term) -> Numbers | None:
        name = leaf.name
        number = special_number(name, self.template.shape, TWO_BLOCKS) if self.template.has_indices else None
        return None if number is None else self._all_same(number)

    def _phi(self, leaf: Term, number: int, block: int) -> Numbers | None:
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

    def _value(self, leaf: Term, number: int) -> Numbers | None:
        if self.known.reach.elected(leaf)[0]:
            return tuple([int(thread.linear % WARP == 0) for thread in self.threads])
        value = ssa(self.routine).values[number]
        bound = bindings(self.routine)[value.instruction] if value.origin is Origin.WRITE else None
        if not isinstance(bound, Bound) or not bound.memory or bound.converges is not None or value.operands:
            return None
        if not self.routine.function.header.is_entry and not self._loads_from_outside(value.instruction):
            return None
        if self.known.level(number) >= self.choice.level:
            return self._all_same(self._example(leaf))
        if self.choice.loaded is None or not self._loads_its_own(value.instruction):
            return None
        lane, own, others = self.choice.loaded
        mask = (1 << leaf.width) - 1
        return tuple([(own if thread.linear % WARP == lane else others) & mask for thread in self.threads])

    def _loads_from_outside(self, i: int) -> bool:
        """Whether an instruction loads the program's input data; arguments of functions, and what they point to, come from their
        callers."""
        accessed = accesses_of(self.routine, i)
        return bool(accessed) and all(access.space in EXAMPLE for access in accessed)

    def _loads_its_own(self, i: int) -> bool:
        """Whether an instruction only loads, and certainly from a different address for each lane of a warp."""
        accessed = accesses_of(self.routine, i)
        if len(accessed) != 1 or accessed[0].writes or accessed[0].address is None:
            return False
        positions = self.numbers(accessed[0].address, self._flow.block_of[i])
        if positions is None:
            return False
        warps = [positions[start : start + WARP] for start in range(0, len(positions), WARP)]
        return all(len(set(warp)) == len(warp) for warp in warps)

    def _join(self, number: int) -> Numbers | None:
        """The value at a merge: for each thread, the one that arrives on its path."""
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
        # a thread that does not arrive here has no value; any will do
        return tuple([one or 0 for one in result]) if result else None

    # --- who comes where

    def taking(self, edges: Iterable[Edge]) -> Execution:
        """For each thread, whether it takes one of these edges, all out of one block, if it reaches the block."""
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
                # threads that stay in the loop may arrive in a later iteration
                best |= reached & self._all(Runs.UNKNOWN)
        return best


class Worlds:
    """The worlds of a function, each made once."""

    def __init__(self, routine: Routine) -> None:
        self.routine = routine
        self.known = uniformity(routine)
        self._found: dict[Choice, World] = {}
        self.possible: dict[Term, bool] = {}
        """Conditions for which it has been determined whether some launch gives them the chosen outcomes."""

    def of(self, choice: Choice) -> World:
        """The world for a choice of inputs."""
        found = self._found.get(choice)
        if found is None:
            found = self._found[choice] = World(self.known, choice)
        return found

    def all(self, level: Level) -> Iterable[World]:
        """Worlds with different arguments, for the behavior of threads in groups of this level."""
        for number in arguments():
            yield self.of(Choice(level, number))

    def iteration(self, choice: Choice, loop: Loop, iteration: int) -> World:
        """The same choice in a given iteration of a loop."""
        return self.of(attrs.evolve(choice, loop=loop.index, iteration=iteration) if iteration else choice)


@fact
def worlds(routine: Routine) -> Worlds:
    """The worlds of a function whose threads all enter it together."""
    return Worlds(routine)
