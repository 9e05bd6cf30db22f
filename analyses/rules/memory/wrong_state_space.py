"""S005 wrong-state-space."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.bindings import matching
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.memory.accesses import Access, Location, accesses
from ptxkit.analyses.symbolic.origins import origins
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.names import Kind


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Generic addresses where state-space addresses are needed, and the reverse; multimem addresses where ordinary ones are needed."""
    for routine in facts.routines:
        for access, multimem in _used_as_multimem(routine):
            yield facts.report(
                RULE,
                (*routine.where(access.instruction), access.child),
                "a multimem address is used by an ordinary instruction: only multimem instructions can access it",
                f"the address is {access.address}",
                related=[((*routine.where(multimem.instruction), multimem.child), "here it is used as a multimem address")],
            )
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


def _used_as_multimem(routine: Routine) -> Iterator[tuple[Access, Access]]:
    """The ordinary accesses of bytes that a multimem instruction accesses, too, by the same address, where a thread that executes one of
    both executes the other. Each with that multimem access."""
    multimem = {i for i, _ in matching(routine, lambda bound: bound.form.mnemonic == "multimem")}
    found = [one for one in accesses(routine) if one.address is not None and one.space in ("", ".global")] if multimem else []
    for one in found:
        if one.instruction not in multimem:
            others = (other for other in found if other.instruction in multimem)
            yield from itertools.islice(((one, other) for other in others if _meet(one, other) and _are_together(routine, one, other)), 1)


def _meet(one: Access, other: Access) -> bool:
    """Whether two accesses have a byte in common in each thread."""
    assert one.address is not None and other.address is not None
    (start, parts), (other_start, other_parts) = one.address.linear, other.address.linear
    size = 1 << one.address.width
    distance = (start - other_start) % size
    return parts == other_parts and (distance < max(1, other.least) or size - distance < max(1, one.least))


def _are_together(routine: Routine, one: Access, other: Access) -> bool:
    """Whether a thread that executes one of two accesses executes the other one, too."""
    block_of, tree = control_flow(routine).block_of, dominators(routine).tree
    return any(
        routine.instructions[first].guard is None and tree.dominates(block_of[first], block_of[last])
        for first, last in itertools.permutations((one.instruction, other.instruction))
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
    summary="an address of one state space, a generic one, or a multimem address, used as one of another kind",
    why=(
        "An address within a state space is an offset in its window; only cvta makes it generic, and cvta.to converts it back "
        "(6.4.1.1, 9.7.10.19). Only multimem instructions can access a multimem address, and no other address (8.2.3, 9.7.10.13)."
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
    proof="The address is followed from its cvta or its variable to the access; a thread that executes one of the two accesses of a "
    "multimem address executes the other.",
    sanitizer="memcheck reports it if the address happens to be invalid in the other space.",
    check=check,
)
