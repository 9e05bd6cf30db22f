"""Addresses that wrap around: indices that the kernel itself keeps below a constant, by a mask or a remainder."""

from __future__ import annotations

from ptxkit.analyses.dynamic.case import Case
from ptxkit.analyses.inputs.reached import reached
from ptxkit.analyses.memory.accesses import accesses
from ptxkit.analyses.symbolic.terms import Term, walk
from ptxkit.machine.findings import Finding

LOOPED = frozenset(("phi",))
"""Values that the iteration of a loop decides."""
LOADED = frozenset(("phi", "value", "join", "select"))
"""Values that may come from memory."""
_WRAPPING = frozenset(("and", "rem.u", "rem.s"))
_PARTS = frozenset((0xFF, 0xFFFF))
"""Masks that take a byte or a half out of a word, which says nothing about how large it may be."""
_MOST = 1 << 18
"""More than shared memory of a CTA has bytes: a larger mask keeps an index within nothing."""


def wraps(case: Case, finding: Finding, names: frozenset[str]) -> bool:
    """Whether the address of an access depends on values of these kinds only through numbers that the kernel keeps below a constant."""
    index, line = case.runs.code.index, finding.diagnostic.span.line
    found = [one.address for of in reached(case.routine) for one in accesses(of) if index.span(of.where(one.instruction)).line == line]
    return any(address is not None and _is_wrapped(address, names) for address in found)


def _is_wrapped(address: Term, names: frozenset[str]) -> bool:
    """Whether values of these kinds are in a term, and each below a mask or a remainder by a constant."""
    terms = walk(address)
    kept = {part for part in terms if _keeps_below(part)}
    return any(one.operator in names for one in terms) and not any(one.operator in names for one in walk(address, kept))


def _keeps_below(part: Term) -> bool:
    limits = [one.constant for one in part.args if one.constant is not None]
    is_kept = part.operator in _WRAPPING and bool(limits) and part.bounds[1] < _MOST
    return is_kept and not (part.operator == "and" and _PARTS.issuperset(limits))
