"""S005 wrong-state-space."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.memory.accesses import Access, Location, accesses
from ptxkit.analyses.symbolic.origins import origins
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.names import Kind


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Generic addresses where state-space addresses are needed, and the reverse."""
    for routine in facts.routines:
        for access in accesses(routine):
            if access.address is None or access.where is None or access.memory.proxy == "tensormap":
                # a tensor map may be in global, constant or parameter memory, whatever its address is
                continue
            wrong = _wrong(access, access.address, access.where)
            if wrong:
                yield facts.report(
                    RULE,
                    (*routine.where(access.instruction), access.child),
                    wrong,
                    f"the address is {access.address}",
                    related=origins(routine, access.instruction, access.child),
                )


def _wrong(access: Access, address: Term, where: Location) -> str:
    symbol = where.symbol
    own = (symbol.space or "").partition("::")[0] if symbol is not None and symbol.kind is Kind.VARIABLE else ""
    if access.declared and access.declared != ".global" and where.windows:
        return f"a generic address, made by `cvta{where.space}`, is used where an address within `{access.declared}` is needed"
    if any(atom.operator == "window" and factor == (1 << address.width) - 1 for atom, factor in address.linear[1]) and own:
        return f"`cvta.to` converts the address of `{symbol.name}`, which is not a generic one" if symbol else ""
    if not access.declared and own and own != ".global" and not where.windows:
        return f"the address of `{symbol.name}` within `{own}` is used where a generic one is needed" if symbol else ""
    if access.declared == ".global" and (where.windows or (own and own != ".global")):
        return f"an address in `{where.space or own}` is used where one in global memory is needed"
    if access.declared and own and own != access.declared:
        return (
            f"the address of `{symbol.name}`, in `{own}`, is used where an address within `{access.declared}` is needed" if symbol else ""
        )
    return ""


RULE = Rule(
    id="S005",
    name="wrong-state-space",
    severity=Severity.ERROR,
    summary="an address of one state space, or a generic one, used as one of another",
    why=(
        "An address within a state space is an offset in its window; only cvta makes it generic, and cvta.to converts it back "
        "(6.4.1.1, 9.7.10.19)."
    ),
    bad="""
        .shared .align 4 .b8 buffer[64];
        mov.u64 %rd1, buffer;
        cvta.shared.u64 %rd2, %rd1;
        ld.shared.u32 %r1, [%rd2];
    """,
    good="""
        .shared .align 4 .b8 buffer[64];
        mov.u64 %rd1, buffer;
        cvta.shared.u64 %rd2, %rd1;
        ld.u32 %r1, [%rd2];
    """,
    proof="The address is followed from its cvta or its variable to the access.",
    sanitizer="memcheck reports it if the address happens to be invalid in the other space.",
    check=check,
)
