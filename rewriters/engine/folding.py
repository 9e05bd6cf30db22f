"""Which registers hold one number whatever happens: constants carried through a function (9.7.1, 9.7.7, 9.7.9)."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.bindings import bindings
from ptxkit.analyses.cfg import control_flow
from ptxkit.analyses.launch import launch
from ptxkit.analyses.recipes import Cook, Input, Recipe, recipe
from ptxkit.analyses.registers import registers
from ptxkit.analyses.routine import Routine
from ptxkit.analyses.ssa import Origin, ssa
from ptxkit.analyses.terms import Term, Terms
from ptxkit.isa.binding import Bound
from ptxkit.syntax.constants import constant_value
from ptxkit.syntax.nodes import Instruction, Node


def constants(routine: Routine) -> dict[int, int]:
    """By number of an SSA value, the bits that it holds. One pass in the order of the graph: what only a loop would show is not found."""
    flow, bounds, values = control_flow(routine), bindings(routine), ssa(routine)
    terms = Terms()
    cook = Cook(terms, lambda address, size: None)
    found: dict[int, int] = {}
    for block in flow.order:
        for phi in values.phis[block]:
            known = {found.get(operand) for operand in values.values[phi].operands if operand != phi}
            if len(known) == 1 and None not in known:
                found[phi] = known.pop()  # type: ignore[assignment]
        span = flow.blocks[block]
        for i in range(span.start, span.end):
            bound = bounds[i]
            if not values.definitions[i] or not isinstance(bound, Bound):
                continue
            of = recipe(bound)
            if of is None:
                continue
            for number, constant in _outputs(routine, i, of, found, terms, cook):
                if values.values[number].origin is Origin.WRITE and not values.values[number].operands:
                    found[number] = constant
    return found


def _outputs(
    routine: Routine, i: int, of: Recipe, known: dict[int, int], terms: Terms, cook: Cook
) -> Iterator[tuple[int, int]]:
    """The values that an instruction writes and that are certain."""
    values, instruction = ssa(routine), routine.instructions[i]
    if i in registers(routine).weak:
        return
    for number, output in zip(values.definitions[i], of.outputs, strict=False):
        if output.value is None:
            continue
        given = {name: _input(routine, i, instruction, of.inputs[name], known, terms) for name in output.inputs}
        if any(term is None for term in given.values()):
            continue
        made = cook.make(of, output, {name: term for name, term in given.items() if term is not None})
        if made is not None and made.constant is not None:
            yield number, made.constant


def _input(routine: Routine, i: int, instruction: Instruction, of: Input, known: dict[int, int], terms: Terms) -> Term | None:
    if of.kind == "constant":
        node: Node = instruction.operands[of.path[0]]
        for step in of.path[1:]:
            node = node.children[step]
        value = constant_value(node)
        return terms.constant(value, of.width) if isinstance(value, int) else None
    if of.kind == "special":
        return _special(routine, of, terms)
    if of.kind != "register":
        return None
    first = 1 if instruction.guard is not None else 0
    number = ssa(routine).uses[i][first + of.use]
    if number not in known:
        return None
    register = registers(routine).table[registers(routine).reads[i][first + of.use]]
    term = terms.extend(terms.constant(known[number], max(1, register.bits)), of.width, of.signed)
    return terms.invert(term) if of.negated else term


def _special(routine: Routine, of: Input, terms: Terms) -> Term | None:
    """A special register that the directives of the kernel fix."""
    bounds = launch(routine).range(of.special)
    return terms.constant(bounds[0], of.width) if bounds is not None and bounds[0] == bounds[1] else None
