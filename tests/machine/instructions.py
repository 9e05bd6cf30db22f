"""Instructions to try semantics with: made from the forms of the table, and bound by their text."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice, product
from typing import Any

import numpy as np
import selftest

from ptxkit.isa.binding import Bound, BoundOperand, _Binding, bind
from ptxkit.isa.forms import Form
from ptxkit.isa.opcodes import match
from ptxkit.machine.operation import Operation, Semantics
from ptxkit.machine.semantics import semantics_of


@cache
def operations(form: Form, most: int = 2000, every: int = 1) -> tuple[Operation, ...]:
    """An instruction for each combination of modifiers that a form allows, up to a number; constants where only these may stand.

    With `every` = n, only every n-th combination.
    """
    found = []
    for filling in islice(_fillings(form, most), 0, None, every):
        example = next(selftest._bound(form, filling), None)
        if example is None:
            continue
        bound = bind(example.opcode, example.operands)
        if isinstance(bound, Bound) and bound.form == form:
            found.append(with_constants(bound))
    return tuple(found)


def _fillings(form: Form, most: int) -> Iterator[tuple[str, ...]]:
    ways = [[c.modifier for c in slot.choices] + ([""] if slot.optional else []) for slot in form.slots]
    seen = set()
    for filling in product(*ways):
        repaired = selftest._repaired(form, filling)
        if repaired is not None and repaired not in seen:
            seen.add(repaired)
            yield repaired
            if len(seen) >= most:
                return


def with_constants(bound: Bound) -> Operation:
    """The operation with a constant for every operand that is written as one."""
    return Operation(bound, constants={o.name: _constant(o) for o in bound.operands if o.shape.kind == "immediate"})


def _constant(operand: BoundOperand) -> Any:
    if operand.shape.type != "int":
        return 1.0
    if operand.limits is None:
        return 1
    return next((v for v in (1, 0, 2, 4, 8, 16, 32, *operand.limits.values) if operand.limits.allow(v)), 1)


@cache
def operation(opcode: str, **constants: int) -> Operation:
    """The operation that an opcode is, with registers for its operands except where constants are given by the form's name of them."""
    for candidate in match(opcode):
        for variant in candidate.form.variants:
            for operands in selftest._operands(candidate.form, variant, dict(candidate.slots)):
                bound = _Binding(candidate, operands, 64).of(variant)
                if isinstance(bound, Bound):
                    return Operation(bound, constants=constants)
    raise ValueError(opcode)


def run(opcode: str, *values: Any, **constants: int) -> Any:
    """What an instruction gives for arrays of its operands."""
    op = operation(opcode, **constants)
    return semantics_of(op).run(*values)


def dtype_read(op: Operation, semantics: Semantics, name: str) -> np.dtype[Any]:
    """The dtype in which an operand is handed over."""
    return np.dtype(semantics.reads.get(name, op.dtype(name)))
