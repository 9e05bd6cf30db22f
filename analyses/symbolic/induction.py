"""The values that a term takes over loop iterations, and its first: stages of rings and their parities.

A ring index is reset at the end of the ring, as in `select(eq(i + 1, 6), 0, i + 1)`. Its values follow from its start. Counters of loops
that end on another condition are followed, too, as far as they are constant.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import Via, control_flow
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.registers.ssa import Origin, ssa
from ptxkit.analyses.symbolic.domains import image
from ptxkit.analyses.symbolic.environment import rebuilt, settler
from ptxkit.analyses.symbolic.evaluate import CLOSED, Domain, evaluate, is_atom, number_of
from ptxkit.analyses.symbolic.terms import SUM, Term
from ptxkit.analyses.symbolic.values import values

MOST_NUMBERS = 64
"""A value that takes more numbers than this is not followed."""
MOST_ITERATIONS = 48
"""Number of values considered for a counter without a known bound."""
MOST_FOLDED = 24
"""A term over such a counter is taken for a stage if it takes at most this many numbers."""
MOST_CHOICES = 16
"""Maximum number of paths into the loops around a use."""

Numbers = frozenset[int]
NOTHING: Numbers = frozenset()
Starts = Callable[[Term, int], Collection[int]]
"""The numbers of a term that arrives at a block; none if unknown."""
Firsts = tuple[int | None, int | None, int | None]
"""A stage, the stage had it never been reset to 0, and a parity; None for an unknown number."""


class Rounds:
    """The numbers that the terms of a function take."""

    def __init__(self, routine: Routine, starts: Starts | None = None) -> None:
        self._starts = starts
        """What else is known of a value that arrives at a block, such as from the indices of the threads there."""
        self._known = values(routine)
        self._ssa = ssa(routine)
        self._flow = control_flow(routine)
        self._dominates = dominators(routine).tree.dominates
        self._settle = settler(routine).term
        self._selected: dict[Term, Term] = {}
        self._taken: dict[Term, Numbers] = {}
        self._open: set[Term] = set()
        self._partial: set[Term] = set()
        self._found: dict[Term, Numbers] = {}
        self._varying: dict[Term, tuple[Term, ...]] = {}
        self._followed: dict[Term, bool] = {}
        self._paths: dict[tuple[Term, Term], list[tuple[Firsts, dict[int, int]]]] = {}

    def numbers(self, term: Term) -> Numbers:
        """Unsigned numbers that a term takes if control takes every path and loops run long; none if unknown."""
        if term not in self._found:
            unbranched = self._unbranched(term)
            self._work_out(unbranched)
            self._found[term] = self._numbers(unbranched)
        return self._found[term]

    def is_all(self, term: Term) -> bool:
        """Whether a term takes no other numbers."""
        if not self.numbers(term):
            return False
        return not any(one in self._partial or one in self._open for one in self._variables(self._unbranched(term)))

    def _numbers(self, term: Term) -> Numbers:
        variables = self._variables(term)
        if not variables:
            number = number_of(term)
            return NOTHING if number is None else frozenset((number,))
        if len(variables) > 1:
            return NOTHING
        found = set(image(term, variables[0], tuple(self._taken[variables[0]])))
        # another condition may stop the counter early
        if len(found) > MOST_FOLDED and variables[0] in self._open:
            return NOTHING
        return frozenset([number for number in found if number is not None])

    # --- what loops go through

    def _work_out(self, term: Term) -> None:
        """Finds the numbers of the variables in a term: a fixed point, starting from their initial values."""
        arriving: dict[Term, list[tuple[Term, Term | None]]] = {}
        lost: set[Term] = set()
        work = list(self._variables(term))
        while work:
            variable = work.pop()
            if variable in arriving or variable in self._taken:
                continue
            counted = self._counted(variable)
            if counted is not None:
                self._taken[variable] = counted
                continue
            own = arriving[variable] = []
            for one in self._arriving(variable):
                inner = self._variables(one)
                work += inner
                if len(inner) > 1:
                    # which of their numbers occur together is unknown
                    lost.add(variable)
                own.append((one, inner[0] if inner else None))
        self._grow(arriving, lost)

    def _grow(self, arriving: dict[Term, list[tuple[Term, Term | None]]], lost: set[Term]) -> None:
        taken: dict[Term, set[int]] = {variable: set() for variable in arriving}
        fed: dict[Term, list[tuple[Term, Term]]] = {}
        work: list[tuple[Term, int]] = []

        def add(variable: Term, number: int | None) -> None:
            if number is None or variable in lost or number in taken[variable]:
                return
            taken[variable].add(number)
            work.append((variable, number))
            if len(taken[variable]) > MOST_NUMBERS:
                lost.add(variable)

        for variable, own in arriving.items():
            for one, inner in own:
                if inner is None:
                    add(variable, number_of(one))
                elif inner in self._taken:
                    for number in image(one, inner, tuple(self._taken[inner])):
                        add(variable, number)
                else:
                    fed.setdefault(inner, []).append((variable, one))
        while work:
            inner, number = work.pop()
            if inner not in lost:
                for variable, one in fed.get(inner, ()):
                    add(variable, number_of(one, None, {inner: number}))
        partial = set(lost) | {variable for variable, own in arriving.items() if any(self._is_lost(*one, taken[variable]) for one in own)}
        spread = list(partial)
        while spread:
            inner = spread.pop()
            new = {variable for variable, _ in fed.get(inner, ())} - partial
            partial |= new
            spread += new
        self._partial |= partial
        for variable, own_numbers in taken.items():
            self._taken[variable] = NOTHING if variable in lost else frozenset(own_numbers)

    def _is_lost(self, arriving: Term, inner: Term | None, taken: Container[int]) -> bool:
        """Whether the arriving value may be outside the numbers taken."""
        if inner is None:
            is_lost = number_of(arriving) is None
        else:
            is_lost = inner in self._partial or any(leaf.operator != "phi" for leaf in arriving.leaves() if leaf not in inner.leaves())
        if not is_lost:
            return False
        low, high = arriving.bounds
        return high - low > MOST_NUMBERS or any(number not in taken for number in range(low, high + 1))

    def _variables(self, term: Term) -> tuple[Term, ...]:
        """The parts of a term that vary: phis, and selections with an unknown condition."""
        if term not in self._varying:
            self._varying[term] = self._look_for_variables(term)
        return self._varying[term]

    def _look_for_variables(self, term: Term) -> tuple[Term, ...]:
        found: dict[Term, None] = {}
        seen: set[Term] = set()
        work = [term]
        while work:
            at = work.pop()
            if at in seen:
                continue
            seen.add(at)
            if at.operator in ("phi", "join") or (at.operator == "select" and not self._is_followed(at.args[0])):
                found[at] = None
            else:
                work += at.inner
        return tuple(found)

    def _is_followed(self, condition: Term) -> bool:
        if condition not in self._followed:
            self._followed[condition] = all(leaf.operator == "phi" for leaf in condition.leaves())
        return self._followed[condition]

    def _counted(self, variable: Term) -> Numbers | None:
        """The numbers of a counter that stops at a constant, or on an unknown condition; None if it is not a counter."""
        if variable.operator != "phi" or variable.ssa_value is None:
            return None
        found = self._known.induction(variable.ssa_value)
        if found is None:
            return None
        mask = (1 << variable.width) - 1
        if found.numbers:
            return frozenset([one & mask for one in found.numbers]) if len(found.numbers) <= MOST_NUMBERS else NOTHING
        if found.step is None or found.start.constant is None:
            return None
        self._open.add(variable)
        return frozenset([found.start.constant + index * found.step & mask for index in range(MOST_ITERATIONS)])

    def _arriving(self, variable: Term) -> list[Term]:
        if variable.operator != "phi":
            return [self._unbranched(arg) for arg in (variable.args[1:] if variable.operator == "select" else variable.args)]
        number = variable.ssa_value
        value = self._ssa.values[number] if isinstance(number, int) else None
        if value is None or value.origin is not Origin.PHI:
            return []
        arriving = [self._settle(self._known.of(operand)) for operand in value.operands if operand >= 0]
        if self._starts is None:
            return [self._unbranched(term) for term in arriving]
        found = []
        for term in arriving:
            numbers = self._starts(term, value.block)
            found += [self._known.terms.constant(number, term.width) for number in numbers] or [self._unbranched(term)]
        return found

    def _unbranched(self, term: Term) -> Term:
        """A term with joins replaced by selections where a branch skips the one block that defines another value."""
        done = self._selected
        opened: set[Term] = set()
        stack = [term]
        while stack:
            at = stack[-1]
            if at in done:
                stack.pop()
                continue
            chosen = self._chosen(at) if at.operator == "join" else None
            if at.is_leaf or (at.operator == "join" and (chosen is None or (at in opened and chosen not in done))):
                # a join that contains itself is kept
                done[at] = at
            elif chosen is not None and chosen not in done:
                opened.add(at)
                stack.append(chosen)
            elif chosen is not None:
                done[at] = done[chosen]
            elif missing := [one for one in at.inner if one not in done]:
                stack += missing
            else:
                same = all(done[one] is one for one in at.inner)
                done[at] = at if same else rebuilt(self._known.terms, at, done)
        return done[term]

    def _chosen(self, join: Term) -> Term | None:
        """The selection that a join stands for if a branch may skip one block before the merge; None for other joins."""
        number = join.ssa_value
        value = self._ssa.values[number] if isinstance(number, int) else None
        if value is None or value.origin is not Origin.PHI or self._known.of(number) is not join:  # type: ignore[arg-type]
            return None
        paths = self._flow.blocks[value.block].predecessors
        if len(value.operands) != 2 or len(paths) != 2:
            return None
        for position, path in enumerate(paths):
            other = paths[1 - position]
            edges, others = self._flow.blocks[path].edges, self._flow.blocks[other].predecessors
            # one side goes straight to the merge, the other through a block with no other predecessor
            if len(edges) != 2 or {edge.target for edge in edges} != {value.block, other} or others != (path,):
                continue
            condition = self._known.guard(self._flow.blocks[path].end - 1)
            past, by_other = self._known.of(value.operands[position]), self._known.of(value.operands[1 - position])
            if condition is None or past.width != join.width or by_other.width != join.width:
                return None
            holds = next(edge.via is Via.TAKEN for edge in edges if edge.target == value.block)
            sides = (past, by_other) if holds else (by_other, past)
            return self._known.terms.apply("select", join.width, (condition, *sides))
        return None

    # --- the first time

    def first(self, stage: Term, parity: Term) -> list[Firsts]:
        """A stage, the stage had it never been reset to 0, and a parity, all before any loop iterates, for each path in.

        None for an unknown number. Empty if there are too many paths.
        """
        return list(dict.fromkeys([found for found, _ in self.entries(stage, parity)]))

    def entries(self, stage: Term, parity: Term) -> list[tuple[Firsts, dict[int, int]]]:
        """The same, each with a path to which it applies: by block, the index of the predecessor taken."""
        if (stage, parity) not in self._paths:
            self._paths[stage, parity] = self._find_entries(stage, parity)
        return self._paths[stage, parity]

    def _find_entries(self, stage: Term, parity: Term) -> list[tuple[Firsts, dict[int, int]]]:
        found: list[tuple[Firsts, dict[int, int]]] = []
        work: list[dict[int, int]] = [{}]
        looked = 0
        while work:
            choice = work.pop()
            looked += 1
            if looked > 4 * MOST_CHOICES:
                return []
            try:
                here = _First(self, choice)
                found.append(((here.number(stage), _First(self, choice, True).number(stage), here.number(parity)), choice))
            except _Undecided as undecided:
                work += [{**choice, undecided.block: index} for index in self._entries(undecided.block)]
        return found

    def _entries(self, block: int) -> list[int]:
        """The predecessors of a block, by index, that are not back edges."""
        return [index for index, before in enumerate(self._flow.blocks[block].predecessors) if not self._dominates(block, before)]

    def comes_from(self, number: int, index: int) -> Term | None:
        """The value that arrives from a predecessor."""
        operands = self._ssa.values[number].operands
        if index >= len(operands) or operands[index] < 0:
            return None
        return self._settle(self._known.of(operands[index]))

    def block(self, number: int) -> int | None:
        """The block of a phi; None for another value."""
        value = self._ssa.values[number]
        return value.block if value.origin is Origin.PHI else None


class _Undecided(Exception):
    def __init__(self, block: int) -> None:
        super().__init__()
        self.block = block


class _First:
    """Terms, given the predecessor by which control reached each block."""

    def __init__(self, rounds: Rounds, choice: Mapping[int, int], goes_on: bool = False) -> None:
        self._rounds = rounds
        self._goes_on = goes_on
        """Whether stages continue where they would be reset."""
        self._choice = choice
        self._done: dict[Term, int | None] = {}

    def number(self, term: Term) -> int | None:
        return evaluate(term, Domain(self._value, self._needs), self._done)

    def _leaf(self, leaf: Term) -> int | None:
        if leaf.operator not in ("phi", "join") or leaf.ssa_value is None:
            return None
        block = self._rounds.block(leaf.ssa_value)
        if block is None:
            return None
        if block not in self._choice:
            raise _Undecided(block)
        arriving = self._rounds.comes_from(leaf.ssa_value, self._choice[block])
        # a value that depends on itself is unknown
        self._done[leaf] = None
        return None if arriving is None else self.number(arriving)

    def _value(self, at: Term, found: Mapping[Term, int | None]) -> int | None:
        return found[at.args[2]] if self._is_set_back(at) else self._leaf(at) if is_atom(at) else CLOSED.value(at, found)

    def _needs(self, at: Term, found: Mapping[Term, int | None]) -> Sequence[Term]:
        """Requests one operand at a time, so that no path is chosen for an irrelevant one."""
        if self._is_set_back(at):
            return at.args[2:]
        needed = CLOSED.needs(at, found)
        for inner in needed:
            if inner not in found:
                return (inner,)
            if found[inner] is None and at.operator == SUM:
                break
        return ()

    def _is_set_back(self, at: Term) -> bool:
        return self._goes_on and at.operator == "select" and at.args[1].constant == 0 and _is_end(at.args[0], at.args[2])


@fact
def rounds(routine: Routine) -> Rounds:
    """The numbers that the terms of a function take."""
    return Rounds(routine)


def _is_end(condition: Term, stage: Term) -> bool:
    """Whether a condition tests for the end of a ring."""
    return condition.operator == "eq" and stage in condition.args and any(side.constant is not None for side in condition.args)
