"""Protocols in code whose inner scopes use registers of outer ones, as inline assembly does."""

from __future__ import annotations

from sample import kernel

from ptxkit.analyses.symbolic.values import values


def test_an_address_in_an_inner_scope_is_made_from_a_register_of_the_outer() -> None:
    routine = kernel(".shared .align 8 .b64 s; mov.u32 %r1, s; { ld.shared.u32 %r2, [%r1+4]; } ret;")

    assert str(values(routine).operand(1, routine.instructions[1].operands[1])) == "s + 4"
