"""A litmus test, a small concurrent program with a question about its final state, and the answer by the axioms."""

from __future__ import annotations

import attrs

from ptxkit.analyses.memory_model.conditions import Condition, is_true, wanted
from ptxkit.analyses.memory_model.enumerator import LOOPS, Outcome, Outcomes, outcomes
from ptxkit.analyses.memory_model.program import Program
from ptxkit.frozen import frozen


@frozen
class Litmus:
    """A litmus test. `question` is exists, ~exists or forall; `filter` restricts the final states considered."""

    program: Program
    question: str
    condition: Condition
    filter: Condition | None = None


@frozen
class Answer:
    """Whether the question is answered positively, and all allowed outcomes."""

    holds: bool
    outcomes: Outcomes
    witness: Outcome | None
    """The outcome that decides the answer: one that exists, or one that violates the question."""


def answer(test: Litmus, *, loops: int = LOOPS, races: bool = True) -> Answer:
    """Answers the question of a test by the axioms. Raises CannotFollow."""
    asked = dict.fromkeys(wanted(test.condition))
    shown = tuple(asked)
    if test.filter is not None:
        asked.update(dict.fromkeys(wanted(test.filter)))
    names = tuple(asked)
    filtering = test.filter

    def is_of_interest(values: tuple[int, ...]) -> bool:
        return filtering is None or is_true(filtering, dict(zip(names, values, strict=True)))

    found = outcomes(test.program, names, races=races, loops=loops, accept=is_of_interest)
    witness = None
    for one in found.outcomes:
        if is_true(test.condition, dict(zip(names, one.values, strict=True))) == (test.question != "forall"):
            witness = one
            break
    holds = (witness is not None) == (test.question == "exists")
    if len(shown) < len(names):
        kept = {one.values[: len(shown)]: attrs.evolve(one, values=one.values[: len(shown)]) for one in found.outcomes}
        found = Outcomes(shown, tuple(kept.values()), found.is_cut)
    return Answer(holds, found, witness)
