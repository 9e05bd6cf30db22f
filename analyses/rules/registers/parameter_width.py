"""R006 parameter-width."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.memory.accesses import Access, accesses, locate, size_of
from ptxkit.analyses.symbolic.origins import origins
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import Values, values
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.names import Kind


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Accesses beyond a parameter, and pointers of which only the low half was loaded."""
    for routine in facts.routines:
        known = values(routine)
        for access in accesses(routine):
            if access.address is None:
                continue
            if access.declared == ".param":
                yield from _beyond(facts, routine, known, access, access.address)
            elif access.declared in ("", ".global"):
                yield from _truncated(facts, routine, known, access, access.address)


def _beyond(facts: Facts, routine: Routine, known: Values, access: Access, address: Term) -> Iterator[Diagnostic]:
    where = locate(known, address)
    symbol = where.symbol
    size = size_of(symbol) if symbol is not None and symbol.kind is Kind.PARAMETER else None
    offset = where.offset.constant
    if symbol is None or size is None or offset is None or access.bytes is None or (not where.offset.width or not access.bytes):
        return
    half = 1 << (where.offset.width - 1)
    first = offset - 2 * half if offset >= half else offset
    if 0 <= first <= size - access.bytes:
        return
    yield facts.report(
        RULE,
        (*routine.where(access.instruction), access.child),
        f"this reads bytes {first} to {first + access.bytes - 1} of the parameter `{symbol.name}`, which has only {size}",
        related=[(symbol.path, "declared here")],
    )


def _truncated(facts: Facts, routine: Routine, known: Values, access: Access, address: Term) -> Iterator[Diagnostic]:
    for atom, factor in address.linear[1]:
        half = atom.args[0] if atom.operator in ("zext", "sext") and factor == 1 else None
        if half is None or half.operator != "parameter" or half.width != 32 or half.data[2:] != (0, 4):
            continue
        symbol = known.symbol(half)
        if symbol is None or symbol.dimensions or symbol.vector > 1 or size_of(symbol) != 8:
            continue
        if any(leaf.operator == "parameter" and leaf is not half and leaf.data[:2] == half.data[:2] for leaf in address.leaves()):
            continue
        if any(other is not atom and other.operator in ("parameter", "address", "value", "phi") for other, _ in address.linear[1]):
            # there is another base, and this is an index
            continue
        yield facts.report(
            RULE,
            (*routine.where(access.instruction), access.child),
            f"the address has only the low 4 bytes of the pointer `{symbol.name}`",
            f"the address is {address}",
            related=[*origins(routine, access.instruction, access.child), (symbol.path, "declared here")],
        )


RULE = Rule(
    id="R006",
    name="parameter-width",
    severity=Severity.ERROR,
    summary="a load that reads beyond a parameter, or only part of a pointer",
    why="Beyond a parameter there is another one, or nothing; part of a pointer is not an address (5.1.6.1, 9.7.10.8).",
    bad="""
        .entry k(.param .u32 n)
        {
        ld.param.u64 %rd1, [n];
        ret;
        }
    """,
    good="""
        .entry k(.param .u64 n)
        {
        ld.param.u64 %rd1, [n];
        ret;
        }
    """,
    ptxas="takes the bad example, and notes: Potential out of bound access while accessing symbol 'n' of type "
    "'.u32' with instruction type '.u64'.",
    proof="The size of the load is compared with the declaration; a narrow read counts only if its value is used as an address.",
    sanitizer="no tool checks parameters.",
    check=check,
)
