"""Terms along a path: values after given iterations of the loops that they come from.

The terms of `values` have leaves for loop-carried values and for joins at control-flow merges. Along a path, each is the value that arrived
on it, so a ring counter is a number in every iteration, however it wraps around. An unknown leaf, such as a loaded value, is a fresh one in
every iteration of the loops around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ptxkit.analyses.cfg.dataflow import solve, union
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.loops import loops
from ptxkit.analyses.cfg.reachability import closure
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.launch.launch import WARP
from ptxkit.analyses.numbers.bits import mask_of
from ptxkit.analyses.registers.ssa import Origin, ssa
from ptxkit.analyses.symbolic.terms import SUM, Term, Terms, walk
from ptxkit.analyses.symbolic.thread_block import thread_block_of
from ptxkit.analyses.symbolic.values import values
from ptxkit.isa.binding import Bound

Environment = Mapping[int, Term]
"""The term of each `ssa` value, by number: phis, and unknown values that are fresh in every iteration of a loop."""

NOTHING: frozenset[int] = frozenset()
MOST_INPUTS = 5
BROADCAST = "broadcast"
"""The table's word for an operation that gives all threads the value of one of them."""


class Evaluator:
    """Substitutes what is known on a path into terms. `wanted` are the terms that will be evaluated."""

    def __init__(self, routine: Routine, wanted: Iterable[Term]) -> None:
        self.routine = routine
        self.known = values(routine)
        self.terms = self.known.terms
        self._ssa = ssa(routine)
        self._flow = control_flow(routine)
        self._loops = loops(routine)
        self.settle = settler(routine).term
        self._needs: dict[Term, frozenset[int]] = {}
        self._made: dict[tuple[Term, tuple[Term | None, ...]], Term] = {}
        self._order: dict[frozenset[int], tuple[int, ...]] = {}
        self.needed: set[int] = set()
        """The values that the terms depend on, where the path determines them."""
        self._phis: dict[int, tuple[int, ...]] = {}
        """By block, the phis that the terms depend on, directly or through other phis."""
        self._fickle: dict[int, tuple[int, ...]] = {}
        """By loop header, the values that are fresh in each iteration."""
        self._changed: set[int] = set()
        """All values that are fresh in some loop."""
        self.numbering = self._ssa.values
        self.want(wanted)

    def want(self, terms: Iterable[Term]) -> None:
        """Adds terms that will be evaluated."""
        seen = self.needed

        def arriving(number: int) -> list[int]:
            value = self._ssa.values[number]
            operands = [operand for operand in value.operands if operand >= 0] if value.origin is Origin.PHI else []
            return [inner for operand in operands for inner in self.needs(self.settle(self.known.of(operand))) if inner not in seen]

        seen |= closure([number for term in terms for number in self.needs(term) if number not in seen], arriving)
        phis: dict[int, list[int]] = {}
        fickle: dict[int, list[int]] = {}
        for number in sorted(seen):
            value = self._ssa.values[number]
            if value.origin is Origin.PHI:
                phis.setdefault(value.block, []).append(number)
                continue
            index = self._loops.innermost[value.block]
            while index is not None:
                fickle.setdefault(self._loops.loops[index].header, []).append(number)
                index = self._loops.loops[index].parent
        self._phis = {block: tuple(own) for block, own in phis.items()}
        self._fickle = {block: tuple(own) for block, own in fickle.items()}
        self._changed = {number for numbers in self._fickle.values() for number in numbers}

    def merges(self, block: int) -> bool:
        """Whether the terms depend on the path by which control reaches a block."""
        return block in self._phis

    def live(self, asked: Mapping[int, Iterable[Term]]) -> tuple[int, ...]:
        """By block, the values that terms evaluated in it or later depend on, as bits. `asked` are the terms, by block."""
        blocks = range(len(self._flow.blocks))
        uses = [mask_of([number for term in asked.get(block, ()) for number in self.needs(term)]) for block in blocks]
        made = [mask_of([*self._phis.get(block, ()), *self._fickle.get(block, ())]) for block in blocks]
        for block, numbers in self._phis.items():
            for position, before in enumerate(self._flow.blocks[block].predecessors):
                operands = [self._ssa.values[number].operands[position] for number in numbers]
                arriving = [self.settle(self.known.of(operand)) for operand in operands if operand >= 0]
                uses[before] |= mask_of([number for term in arriving for number in self.needs(term)])
        solved = solve(self._flow, lambda block, after: (uses[block] | after) & ~made[block], union, lambda _: None, 0, True)
        return tuple([uses[block] | after for block, after in enumerate(solved.after)])

    def _changes(self, leaf: Term) -> bool:
        """Whether a leaf has another value in every iteration of a loop."""
        number = leaf.ssa_value
        if leaf.operator != "value" or not isinstance(number, int) or len(leaf.data) > 1:
            return False
        return self._loops.innermost[self._ssa.values[number].block] is not None

    def needs(self, term: Term) -> frozenset[int]:
        """The phis in a term."""
        found = self._needs
        if term in found:
            return found[term]
        for at in walk(term, found, lambda one: () if one.ssa_value is not None else one.inner):
            if at.ssa_value is not None:
                found[at] = frozenset((at.ssa_value,)) if at.operator != "value" or self._changes(at) else NOTHING
                continue
            parts = [own for inner in at.inner if (own := found[inner])]
            found[at] = NOTHING if not parts else parts[0] if len(parts) == 1 else frozenset().union(*parts)
        return found[term]

    def enter(
        self, block: int, before: int, environment: Environment, tick: int, settle: Callable[[Term], Term] | None = None
    ) -> Environment:
        """The environment on entry to a block from another. `tick` is a number that no earlier step on the path had.

        Arriving terms are passed through `settle`, which defaults to that of the function.
        """
        settle = settle or self.settle
        numbers = self._phis.get(block, ())
        fickle = self._fickle.get(block, ())
        if not numbers and not fickle:
            return environment
        new = dict(environment)
        position = self._flow.blocks[block].predecessors.index(before)
        for number in numbers:
            operand = self._ssa.values[number].operands[position]
            if operand >= 0:
                new[number] = self.term(settle(self.known.of(operand)), environment)
            else:
                new.pop(number, None)
        for number in fickle:
            new[number] = self.terms.leaf("value", self.known.of(number).width, (number, tick))
        return new

    def skip(self, to: int, blocks: int, environment: Environment, tick: int) -> Environment:
        """The environment on entry to a block if a region before it, a set of blocks, was skipped."""
        new = dict(environment)
        for number in self._fickle.get(to, ()):
            new[number] = self.terms.leaf("value", self.known.of(number).width, (number, tick))
        for block, numbers in self._phis.items():
            if block == to or blocks >> block & 1:
                for number in numbers:
                    term = self.known.of(number)
                    new[number] = self.terms.leaf("skipped", term.width, (number, tick), term.known)
        return new

    def term(self, term: Term, environment: Environment) -> Term:
        """The term on a path."""
        needs = self.needs(term)
        if not needs:
            return term
        order = self._order.get(needs)
        if order is None:
            order = self._order[needs] = tuple(sorted(needs))
        key = (term, tuple([environment.get(number) for number in order]))
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = self._put(term, environment)
        return found

    def steady(self, environment: Environment) -> Environment:
        """The environment, with unknown values treated as loop-invariant."""
        return {number: found for number, found in environment.items() if number not in self._changed}

    def _put(self, term: Term, environment: Environment) -> Term:
        if term.operator == SUM:
            # many addresses consist of the same few atoms
            return rebuilt(self.terms, term, {atom: self.term(atom, environment) for atom, _ in term.parts})
        stack = [term]
        done: dict[Term, Term] = {}
        while stack:
            at = stack[-1]
            if at in done:
                stack.pop()
                continue
            if not self.needs(at):
                done[at] = at
            elif at.ssa_value is not None:
                done[at] = environment.get(at.ssa_value, at)
            else:
                missing = [inner for inner in at.inner if inner not in done]
                if missing:
                    stack += missing
                    continue
                done[at] = rebuilt(self.terms, at, done)
            stack.pop()
        return done[term]


def rebuilt(terms: Terms, at: Term, done: Mapping[Term, Term]) -> Term:
    """A term with its operands replaced."""
    if at.operator != SUM:
        return terms.apply(at.operator, at.width, tuple([done[arg] for arg in at.args]))
    found = terms.part(at, tuple([part for part in at.parts if done[part[0]] is part[0]]))
    for atom, factor in at.parts:
        if done[atom] is not atom:
            found = terms.add(found, terms.scale(done[atom], factor))
    return found


class Settler:
    """Unifies equal values: those that the threads of a warp compute together, and those loaded from constant memory.

    A broadcast of a value that all threads hold is that value. The elected thread is the same at every election.
    """

    def __init__(self, routine: Routine) -> None:
        self.routine = routine
        self.known = values(routine)
        self.terms = self.known.terms
        self._thread_block = thread_block_of(routine)
        self._ssa = ssa(routine)
        self._bounds = bindings(routine)
        self._settled: dict[Term, Term] = {}

    def term(self, term: Term) -> Term:
        """A term with such values replaced by common leaves."""
        done = self._settled
        found = done.get(term)
        if found is not None:
            return found
        stack = [term]
        while stack:
            at = stack[-1]
            if at in done:
                stack.pop()
                continue
            if at.operator == "value" and len(at.data) == 1 and at.ssa_value is not None:
                inputs = self._inputs(at.ssa_value)
                missing = [one for one in inputs if one not in done]
                if missing:
                    stack += missing
                    continue
                done[at] = self._shared(at, at.ssa_value, [done[one] for one in inputs]) if inputs else at
            elif at.is_leaf or at.operator == "join":
                done[at] = at
            else:
                missing = [inner for inner in at.inner if inner not in done]
                if missing:
                    stack += missing
                    continue
                same = all(done[inner] is inner for inner in at.inner)
                done[at] = at if same else rebuilt(self.terms, at, done)
            stack.pop()
        return done[term]

    def _inputs(self, number: int) -> tuple[Term, ...]:
        """The inputs of a value that threads compute together, or the address that it is loaded from; empty for other values."""
        value = self._ssa.values[number]
        if value.origin is not Origin.WRITE or value.operands:
            return ()
        bound = self._bounds[value.instruction]
        if not isinstance(bound, Bound) or bound.barrier:
            return ()
        if not (_is_constant(bound) if bound.memory else bound.converges is not None):
            return ()
        operands = [operand for operand in bound.operands if operand.reads]
        if len(operands) > MOST_INPUTS:
            return ()
        nodes = [self.routine.instructions[value.instruction].operands[operand.path[0]] for operand in operands]
        found = [self.known.operand(value.instruction, node) for node in nodes]
        return tuple([term for term in found if term is not None]) if None not in found else ()

    def _shared(self, leaf: Term, number: int, inputs: list[Term]) -> Term:
        value = self._ssa.values[number]
        bound = self._bounds[value.instruction]
        assert isinstance(bound, Bound)
        position = number - self._ssa.definitions[value.instruction][0]
        if bound.memory:
            # an address that changes in a loop may load another value each time
            steady = all(one.operator not in ("value", "phi", "join") for term in inputs for one in walk(term))
            return self.terms.leaf("loaded", leaf.width, (position, *inputs)) if steady else leaf
        if leaf.width > 1 and bound.uniform("d") == BROADCAST and self._is_common(inputs[0]):
            return self.terms.extend(inputs[0], leaf.width, False)
        if not all(self._is_common(term) for term in inputs):
            return leaf
        opcode = self.routine.instructions[value.instruction].opcode.text
        return self.terms.leaf("collective", leaf.width, (opcode, position, *inputs))

    def _is_common(self, term: Term) -> bool:
        """Whether all threads of a warp hold the same value."""
        if all(leaf.operator in ("parameter", "address", "collective") or _is_cta_uniform(leaf) for leaf in term.leaves()):
            return True
        numbers = self._thread_block.vector(term)
        return numbers is not None and all(len(set(numbers[first : first + WARP])) == 1 for first in range(0, len(numbers), WARP))


def _is_constant(bound: Bound) -> bool:
    """Whether an instruction loads memory that nothing writes during the kernel (5.1.3, 9.7.10.9)."""
    return all(memory.access == "read" for memory in bound.memory) and (bound.has(".const") or bound.has(".nc"))


def _is_cta_uniform(leaf: Term) -> bool:
    return leaf.operator == "special" and leaf.name.startswith(("%ctaid", "%nctaid", "%cluster", "%ncluster", "%ntid"))


@fact
def settler(routine: Routine) -> Settler:
    """The settler of a function, which unifies equal values."""
    return Settler(routine)
