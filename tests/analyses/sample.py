"""Small functions for the tests of this folder."""

from __future__ import annotations

import ptxkit
from ptxkit.analyses.framework.routine import Routine, routines

HEAD = """.version 8.5
.target sm_90a
.address_size 64
"""

REGISTERS = ".reg .pred %p<8>; .reg .b16 %h<4>; .reg .b32 %r<16>; .reg .b64 %d<8>; .reg .v4 .f32 v; .reg .v2 .b32 w;"


def kernel(body: str, before: str = "") -> Routine:
    """A kernel with these statements, after some module-level text; registers are declared: %p, %h, %r, %d, v (.v4 .f32), w (.v2 .b32)."""
    module = ptxkit.parse(f"{HEAD}{before}\n.visible .entry k(.param .u64 p)\n{{\n{REGISTERS}\n{body}\n}}\n")
    return next(routine for routine in routines(module) if routine.name == "k")


def function(text: str) -> Routine:
    """The last function of some module-level text."""
    return routines(ptxkit.parse(HEAD + text))[-1]


def names(routine: Routine, numbers: int | tuple[int, ...]) -> list[str]:
    """The names of registers, given as a set of bits or by number."""
    from ptxkit.analyses.numbers.bits import bits
    from ptxkit.analyses.registers.registers import registers

    found = bits(numbers) if isinstance(numbers, int) else numbers
    return [registers(routine).table[number].name for number in found]
