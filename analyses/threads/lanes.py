"""The threads of a CTA that execute an instruction, and their values, thread by thread.

With `.reqntid`, all threads are known; otherwise, at least the first exists. A value that depends only on the thread index has a number for
each thread. In loops, the first iteration is considered: an error there is certain. A thread certainly executes a block if the outcome of
every branch that controls it is known for that thread; a branch that depends on parameters or the CTA index can be made to go either
direction.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import Edge, Via, control_flow
from ptxkit.analyses.cfg.loops import Loop, loops
from ptxkit.analyses.cfg.reachability import closure, nearest_first
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.launch.inputs import certain_block
from ptxkit.analyses.launch.launch import WARP, launch
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.symbolic.domains import needs_of_lanes, of_lanes
from ptxkit.analyses.symbolic.evaluate import NONE, Domain, evaluate, is_atom
from ptxkit.analyses.symbolic.terms import Term, walk
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.symbolic.vectors import Numbers
from ptxkit.analyses.threads.thread_sets import Execution, Runs, all_same, just
from ptxkit.frozen import frozen


@frozen
class Thread:
    """The index of a thread in its CTA."""

    x: int
    y: int
    z: int
    linear: int

    def __str__(self) -> str:
        return f"thread {self.x}" if not (self.y or self.z) else f"thread ({self.x}, {self.y}, {self.z})"


@functools.lru_cache(maxsize=64)
def threads_of(shape: tuple[int, int, int]) -> tuple[Thread, ...]:
    """The threads of a CTA of this shape, in order."""
    width, height, depth = shape
    indices = [(x, y, z) for z in range(depth) for y in range(height) for x in range(width)]
    return tuple([Thread(x, y, z, linear) for linear, (x, y, z) in enumerate(indices)])


class Lanes:
    """What is known about each thread."""

    def __init__(self, routine: Routine) -> None:
        self.routine = routine
        self.values = values(routine)
        self.launch = launch(routine)
        self.threads = threads_of(certain_block(routine))
        self._flow = control_flow(routine)
        self._dominance = dominators(routine)
        self._loops = loops(routine)
        self._fixed: dict[Term, Numbers | None] = {}
        self._moving: dict[int, dict[Term, Numbers | None]] = {}
        """By block, for terms whose value differs between blocks."""
        self._is_moving: dict[Term, bool] = {}
        self._execution: dict[int, Execution] = {}
        self._along: dict[int, Execution] = {}
        """By `id` of the edge, since an edge controls many blocks."""

    def numbers(self, term: Term, block: int) -> Numbers | None:
        """The value of a term for each thread when it first reaches a block; None if it depends on more than the thread index."""
        moves = self._moves(term)
        found = self._moving.setdefault(block, {}) if moves else self._fixed
        if term in found:
            return found[term]
        return evaluate(term, self._at_block(block) if moves else Domain(functools.partial(self._number, block), needs_of_lanes), found)

    def _at_block(self, block: int) -> Domain[Numbers]:
        """The domain of terms whose value differs between blocks; subterms that are the same everywhere are computed once."""

        def needs(at: Term, found: Mapping[Term, Numbers | None]) -> Sequence[Term]:
            return needs_of_lanes(at, found) if self._moves(at) else NONE

        def value(at: Term, found: Mapping[Term, Numbers | None]) -> Numbers | None:
            return self._number(block, at, found) if self._moves(at) else self.numbers(at, block)

        return Domain(value, needs)

    def _moves(self, term: Term) -> bool:
        """Whether the value of a term may differ between blocks."""
        found = self._is_moving
        for at in walk(term, found):
            found[at] = self._leaf_moves(at) if at.is_leaf else any(found[inner] for inner in at.inner)
        return found[term]

    def _leaf_moves(self, leaf: Term) -> bool:
        return leaf.operator == "phi"

    def _number(self, block: int, at: Term, found: Mapping[Term, Numbers | None]) -> Numbers | None:
        return self._leaf(at, block) if is_atom(at) else of_lanes(at, found, len(self.threads))

    def _leaf(self, leaf: Term, block: int) -> Numbers | None:
        if leaf.operator == "special":
            return self._special(leaf.name)
        number = leaf.ssa_value
        if leaf.operator != "phi" or number is None:
            return None
        value = ssa(self.routine).values[number]
        loop = next((loop for loop in self._loops.loops if loop.header == value.block and block in loop), None)
        if loop is None or not loop.is_reducible or self.values.induction(number) is None:
            return None
        if not self._is_first(block, loop):
            return None
        # the value from outside has no predecessor in the entry block
        sources = (*self._flow.blocks[value.block].predecessors, -1)
        pairs = zip(value.operands, sources, strict=False)
        starts = {self.values.of(operand) for operand, source in pairs if operand >= 0 and (source < 0 or source not in loop)}
        return self.numbers(starts.pop(), value.block) if len(starts) == 1 else None

    def _is_first(self, block: int, loop: Loop) -> bool:
        """Whether threads that reach a block of a loop do so in the first iteration, as far as known.

        Either no thread iterates without passing the block, or that holds for the branches that control it, and no path iterates after
        them.
        """
        tree = self._dominance.tree

        def is_passed(at: int) -> bool:
            return all(tree.dominates(at, latch) for latch in loop.latches)

        def decides(at: int) -> list[int]:
            return [] if is_passed(at) else [before for before in self._dominance.first_deciding(at) if before in loop]

        for at in nearest_first([block], decides):
            deciding = decides(at)
            if not deciding and not is_passed(at):
                return False
            targets = [edge.target for before in deciding for edge in self._flow.blocks[before].edges]
            if any(self._dominance.post.dominates(at, target) and self._iterates(target, at, loop) for target in targets):
                return False
        return True

    def _iterates(self, start: int, goal: int, loop: Loop) -> bool:
        """Whether control may return to the header of a loop before it reaches a block."""
        return start != goal and loop.header in closure(
            [start], lambda at: [successor for successor in self._flow.successors(at) if successor in loop and successor != goal]
        )

    def _special(self, name: str) -> Numbers | None:
        stem, _, component = name.partition(".")
        if stem == "%tid" and component in ("x", "y", "z"):
            return tuple([getattr(thread, component) for thread in self.threads])
        if name == "%laneid":
            return tuple([thread.linear % WARP for thread in self.threads])
        return None

    # --- who executes what

    def execution(self, i: int) -> Execution:
        """For each thread, whether it executes instruction `i`; in a loop, in its first iteration."""
        block = self._flow.block_of[i]
        reached = self.reaching(block)
        guard = self.values.guard(i)
        return reached if guard is None else reached & self._holds(guard, block)

    def reaching(self, block: int) -> Execution:
        """For each thread, whether it reaches a block."""
        found = self._execution
        stack = [block]
        while stack:
            at = stack[-1]
            if at in found:
                stack.pop()
                continue
            decides = self._dominance.first_deciding(at)
            missing = [before for before in decides if before not in found and before not in stack]
            if missing:
                stack += missing
                continue
            stack.pop()
            found[at] = self._reaching(at, decides)
        return found[block]

    def _reaching(self, block: int, decides: list[int]) -> Execution:
        if not decides:
            return self._all(Runs.ALWAYS)
        best = self._all(Runs.NEVER)
        for before in decides:
            reached = self._execution.get(before) or self._all(Runs.UNKNOWN)
            for edge in self._flow.blocks[before].edges:
                if self._dominance.post.dominates(block, edge.target):
                    best |= reached & self.along(edge)
        return best

    def along(self, edge: Edge) -> Execution:
        """For each thread, whether it takes an edge if it reaches the edge's source."""
        found = self._along.get(id(edge))
        if found is None:
            found = self._along[id(edge)] = self._taken(edge)
        return found

    def _taken(self, edge: Edge) -> Execution:
        block = self._flow.blocks[edge.source]
        guard = self.values.guard(block.end - 1)
        if edge.via is Via.FALL or (edge.via is Via.TAKEN and guard is None):
            return self._all(Runs.ALWAYS)
        if guard is None or edge.via is Via.INDEXED:
            return self._all(Runs.UNKNOWN)
        return self._holds(guard if edge.via is Via.TAKEN else self.values.terms.invert(guard), edge.source)

    def _holds(self, condition: Term, block: int) -> Execution:
        numbers = self.numbers(condition, block)
        if numbers is not None:
            return just(holding(numbers), len(numbers))
        return self._all(Runs.MAYBE if is_free(condition) else Runs.UNKNOWN)

    def _all(self, runs: Runs) -> Execution:
        return all_same(runs, len(self.threads))


def holding(numbers: Numbers) -> int:
    """The set of threads for which a condition holds."""
    return int("".join(["1" if number else "0" for number in reversed(numbers)]), 2)


_INDICES = ("%tid", "%laneid")
_GRID = ("%ctaid", "%nctaid")


def is_free(condition: Term) -> bool:
    """Whether a condition depends only on parameters, the CTA index, or the global thread index.

    A comparison of the index within the CTA alone with a parameter may be what excludes the threads that would fail.
    """
    kinds = set()
    for leaf in condition.leaves():
        name = leaf.name
        if leaf.operator == "parameter":
            kinds.add("parameter")
        elif leaf.operator == "special" and name.startswith(_INDICES):
            kinds.add("place")
        elif leaf.operator == "special" and name.startswith(_GRID):
            kinds.add("grid")
        elif leaf.operator != "special" or not name.startswith("%ntid"):
            return False
    return "place" not in kinds or "grid" in kinds


@fact
def lanes(routine: Routine) -> Lanes:
    """What is known about each thread."""
    return Lanes(routine)
