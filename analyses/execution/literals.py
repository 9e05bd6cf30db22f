"""Whole numbers in the text of a kernel, with which it may compare words of memory: values of those words lead to its rarer paths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ptxkit.analyses.framework.bindings import has_matching
from ptxkit.analyses.framework.routine import Routine
from ptxkit.isa.binding import Bound
from ptxkit.syntax import Instruction, constant_value

MOST_LITERALS = 16
"""No more numbers than this are considered, the first ones."""


def literals(kernel: Routine) -> tuple[int, ...]:
    """All of them, as 32-bit words."""
    return tuple(_words(kernel.instructions))[:MOST_LITERALS]


def compared(kernel: Routine) -> tuple[int, ...]:
    """Those other than 0 and 1 that are compared with something for equality, as 32-bit words."""
    tests = [one for one in kernel.instructions if one.opcode.text.startswith(("setp.eq", "setp.ne"))]
    return tuple([word for word in _words(tests) if word > 1])[:MOST_LITERALS]


def has_real_comparisons(kernel: Routine) -> bool:
    """Whether it compares floating-point numbers."""

    def holds(bound: Bound) -> bool:
        return bool(bound.slot(".cmp")) and bound.type.startswith((".f", ".bf"))

    return has_matching(kernel, holds)


def _words(instructions: Sequence[Instruction]) -> Iterable[int]:
    found = [constant_value(operand) for one in instructions for operand in one.operands]
    return dict.fromkeys([one % (1 << 32) for one in found if isinstance(one, int)])
