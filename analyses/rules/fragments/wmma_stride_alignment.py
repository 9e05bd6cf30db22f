"""F005 wmma-stride-alignment."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.fragments.fragments import MatrixAccess, matrix_accesses
from ptxkit.analyses.symbolic.origins import origins
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.diagnostics import Diagnostic, Severity

ENOUGH = 16
"""The unit in bytes that CUDA C++ requires of a stride; of the address it requires 32, as the manual does of most fragments. Padding by
eight halves is common. Multiples of this work on all GPUs, so such a stride is a note, and such an address a warning."""


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Matrices whose rows (or columns) overlap, or provably start at a misaligned address."""
    for routine in facts.routines:
        for access in matrix_accesses(routine):
            yield from _stride(facts, routine, access)
            if access.address is not None:
                least = _excess(access.address, 8, access.fragment_bytes)
                if least:
                    yield _report(facts, routine, access, access.child, access.address, least, "the address", Severity.WARNING)


def _stride(facts: Facts, routine: Routine, access: MatrixAccess) -> Iterator[Diagnostic]:
    if access.stride is None:
        return
    most = access.stride.bounds[1]
    if most < access.default_stride:
        yield facts.report(
            RULE,
            (*routine.where(access.instruction), access.stride_child),
            f"the stride is {'' if access.stride.constant is not None else 'at most '}{most}, less than the"
            f" {access.default_stride} elements of a row or column: rows or columns overlap",
            related=origins(routine, access.instruction, access.stride_child),
        )
        return
    least = _excess(access.stride, access.element_bits, access.fragment_bytes)
    if least:
        yield _report(facts, routine, access, access.stride_child, access.stride, least, "the stride", Severity.INFO)


def _excess(term: Term, bits: int, align: int) -> int:
    """Minimum bytes by which a term, in units of `bits` bits, exceeds a multiple of `align` bytes; 0 if uncertain."""
    low = 8 * align // bits - 1
    ones = term.known.ones & low
    return (ones & -ones) * bits // 8 if low > 0 else 0


def _report(
    facts: Facts, routine: Routine, access: MatrixAccess, child: int, term: Term, least: int, what: str, mild: Severity
) -> Diagnostic:
    """Reports an operand that exceeds a multiple of what it must be a multiple of by `least` bytes: `mild`ly if GPUs bear that."""
    notes = [f"{what} is {term}"]
    if not least % ENOUGH:
        is_note = mild is Severity.INFO
        others = f"CUDA C++ asks for a multiple of {ENOUGH} bytes only" if is_note else f"GPUs need a multiple of {ENOUGH} bytes"
        notes.append(f"the manual asks for this; {others}, which it is")
    return facts.report(
        RULE,
        (*routine.where(access.instruction), child),
        f"{what} must be a multiple of the {access.fragment_bytes} bytes of a fragment, and it is not",
        *notes,
        related=origins(routine, access.instruction, child),
        severity=Severity.ERROR if least % ENOUGH else mild,
    )


RULE = Rule(
    id="F005",
    name="wmma-stride-alignment",
    severity=Severity.ERROR,
    summary="a matrix whose stride is too small, or whose rows or columns start at addresses that are provably not aligned",
    why="Every row (or column) must start at a multiple of the size of a fragment, and a stride below the default is undefined"
    " (9.7.15.3.2, 9.7.15.3.3).",
    bad="wmma.store.d.sync.aligned.row.m16n16k16.f32 [%rd2], {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, 8;",
    good="wmma.store.d.sync.aligned.row.m16n16k16.f32 [%rd2], {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, 16;",
    proof="The value of the operand, or which bits it can have, follows from the code for a thread that executes it.",
    sanitizer="memcheck may report addresses at run time; no tool checks strides.",
    check=check,
)
