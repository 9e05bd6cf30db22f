"""Why an outcome is forbidden: the axioms without which it would be allowed, and the execution that contradicts them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from ptxkit.analyses.memory_model.enumerator import LOOPS, Outcomes, Wanted, outcomes
from ptxkit.analyses.memory_model.execution import AXIOMS, Execution
from ptxkit.analyses.memory_model.program import Program
from ptxkit.frozen import frozen

VALUED = "no-thin-air"
"""Without this axiom, values may depend on themselves, and an outcome is not even determined."""


@frozen
class Forbidden:
    """A final state that is not allowed, a minimal set of axioms that forbids it, and an execution that contradicts exactly these."""

    values: tuple[int, ...]
    axioms: tuple[str, ...]
    execution: Execution

    def cycle(self) -> tuple[int, ...]:
        """The events of the contradiction."""
        for name in self.axioms:
            found = AXIOMS[name](self.execution)
            if found:
                return found
        return ()


def forbidden(program: Program, allowed: Outcomes, *, loops: int = LOOPS) -> tuple[Forbidden, ...]:
    """The outcomes that would be possible without the axioms but are not allowed, by value. Raises CannotFollow."""
    names = [name for name in AXIOMS if name != VALUED]
    wanted: Sequence[Wanted] = allowed.wanted
    left = outcomes(program, wanted, races=False, loops=loops, without=names).values() - allowed.values()
    found: list[Forbidden] = []
    for size in range(1, len(names) + 1):
        for without in combinations(names, size):
            if not left:
                return tuple(sorted(found, key=lambda one: one.values))
            missing = frozenset(left)
            for one in outcomes(program, wanted, races=False, loops=loops, without=without, accept=missing.__contains__).outcomes:
                found.append(Forbidden(one.values, without, one.execution))
                left.discard(one.values)
    return tuple(sorted(found, key=lambda one: one.values))
