"""Register operands with values that the instruction does not allow.

An assembler only checks constants; the same value in a register is not detected. The limits are those of the instruction table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.events.barriers import barriers, child_of, term_of
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.symbolic.origins import origins
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.threads.lanes import lanes
from ptxkit.analyses.threads.thread_sets import Runs
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound, BoundOperand
from ptxkit.isa.forms import Limits


@frozen
class Excess:
    """The proof that an operand exceeds its limits."""

    term: Term
    found: str
    """A description of the value."""
    is_certain: bool
    """Whether it has this value whenever control reaches the instruction; otherwise for some inputs, or in a later iteration."""


def excess_reports(
    facts: Facts, rule: Rule, operand_of: Callable[[Bound], BoundOperand | None], name: str, demand: Callable[[BoundOperand], str]
) -> Iterator[Diagnostic]:
    """The findings of a rule about an operand of barriers: `name` says what the operand is, `demand` what must hold of it."""
    for routine in facts.routines:
        for use in barriers(routine).cta:
            i = use.instruction
            bound = bindings(routine)[i]
            operand = operand_of(bound) if isinstance(bound, Bound) else None
            found = excess(routine, i, operand) if operand is not None else None
            if operand is None or found is None:
                continue
            child = child_of(routine, i, operand)
            yield facts.report(
                rule,
                (*routine.where(i), child),
                f"{demand(operand)}; {found.found}",
                *([f"the {name} is {found.term}"] if found.term.constant is None else []),
                f"ptxas checks only {name}s that are constants",
                related=origins(routine, i, child),
                # the path to such a value may be one that no thread takes; an execution that takes it shows an error
                severity=Severity.ERROR if found.is_certain else Severity.INFO,
            )


def excess(routine: Routine, i: int, operand: BoundOperand) -> Excess | None:
    """What is wrong with an operand of instruction `i`; None if nothing is known to be, and for constants, which are checked as syntax."""
    limits = operand.limits
    if limits is None or operand.shape.kind != "register":
        return None
    term = term_of(routine, i, operand)
    if term is None:
        return None
    least, most = term.bounds
    if _never_allowed(limits, term):
        return Excess(term, f"it is {least}" if least == most else f"it is {least} to {most}", True)
    known = lanes(routine)
    numbers = known.numbers(term, control_flow(routine).block_of[i])
    found = _of_threads(routine, i, limits, term, numbers) if numbers is not None else None
    if found is not None:
        return found
    wrong = [number for number in _possible(routine, term) if not limits.allow(number)]
    return Excess(term, f"it can be {wrong[0]}", False) if wrong else None


def _never_allowed(limits: Limits, term: Term) -> bool:
    least, most = term.bounds
    if limits.most is not None and least > limits.most:
        return True
    if limits.least is not None and (most < limits.least or (limits.above and most == limits.least)):
        return True
    if limits.values and all(not least <= value <= most for value in limits.values):
        return True
    multiple = limits.multiple
    if multiple & (multiple - 1):
        return False
    return bool(term.known.ones & (multiple - 1))


def _of_threads(routine: Routine, i: int, limits: Limits, term: Term, numbers: tuple[int, ...]) -> Excess | None:
    known = lanes(routine)
    wrong = [
        (run, -thread)
        for thread, (run, number) in enumerate(zip(known.execution(i), numbers, strict=True))
        if run >= Runs.MAYBE and not limits.allow(number)
    ]
    if not wrong:
        return None
    run, thread = max(wrong)
    return Excess(term, f"for {known.threads[-thread]} it is {numbers[-thread]}", run is Runs.ALWAYS)


def _possible(routine: Routine, term: Term) -> tuple[int, ...]:
    """The values of a term on some path or in some iteration, if these can be enumerated."""
    if term.operator == "join":
        return tuple([number for arg in term.args for number in _possible(routine, arg)])
    if term.operator == "select":
        return tuple([number for arg in term.args[1:] for number in _possible(routine, arg)])
    if term.constant is not None:
        return (term.constant,)
    offset, parts = term.linear
    if len(parts) != 1:
        return ()
    (atom, factor) = parts[0]
    mask = (1 << term.width) - 1
    if atom.operator == "phi" and atom.ssa_value is not None:
        induction = values(routine).induction(atom.ssa_value)
        found = induction.numbers if induction is not None else ()
    else:
        found = _possible(routine, atom) if atom is not term and atom.operator in ("join", "select") else ()
    return tuple([offset + factor * number & mask for number in found])
