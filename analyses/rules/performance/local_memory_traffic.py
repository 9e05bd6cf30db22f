"""L003 local-memory-traffic, by request."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.loops import loops
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.memory.accesses import Access, accesses, locate, size_of
from ptxkit.analyses.symbolic.values import values
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.names import Symbol


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Variables in local memory that are read or written, each reported once, at its declaration."""
    for routine in facts.routines:
        accessing: dict[int, tuple[Symbol, list[Access]]] = {}
        for access in accesses(routine):
            if access.space != ".local" or access.address is None:
                continue
            symbol = locate(values(routine), access.address).symbol
            if symbol is not None:
                accessing.setdefault(id(symbol), (symbol, []))[1].append(access)
        for symbol, found in accessing.values():
            yield _report(facts, routine, symbol, found)


def _report(facts: Facts, routine: Routine, symbol: Symbol, found: list[Access]) -> Diagnostic:
    size = size_of(symbol)
    flow, forest = control_flow(routine), loops(routine)
    inner = sum(forest.depth(flow.block_of[access.instruction]) > 0 for access in found)
    reading = sum(access.reads for access in found)
    writing = sum(access.writes for access in found)
    varying = next((access for access in found if not _is_constant(routine, access)), None)
    where = [((*routine.where(varying.instruction), varying.child), "the index is only known at run time")] if varying is not None else []
    held = "every index into it is a constant: registers could hold it" if varying is None else "registers cannot be indexed"
    return facts.report(
        RULE,
        symbol.path,
        f"`{symbol.name}`{f', {size} bytes per thread,' if size else ''} is in local memory: {reading} loads, {writing} stores"
        + (f", {inner} of them in loops" if inner else ""),
        held,
        related=where,
    )


def _is_constant(routine: Routine, access: Access) -> bool:
    assert access.address is not None
    return locate(values(routine), access.address).offset.constant is not None


RULE = Rule(
    id="L003",
    name="local-memory-traffic",
    severity=Severity.INFO,
    summary="a thread's variable that is kept in local memory",
    why=(
        "Local memory (5.1.5) is device memory, behind caches: an access takes as long as one to global memory. A variable is put "
        "there because its address is taken, or because it is an array that is indexed at run time."
    ),
    bad="""
        .version 8.0
        .target sm_80
        .address_size 64
        .entry k()
        {
        .local .align 4 .b8 depot[64];
        .reg .b32 %r<4>;
        .reg .b64 %rd<2>;
        mov.u64 %rd1, 0;
        st.local.u32 [depot+4], 1;
        ld.local.u32 %r1, [depot+4];
        st.global.u32 [%rd1], %r1;
        ret;
        }
    """,
    good="""
        mov.u64 %rd1, 0;
        mov.u32 %r1, 1;
        st.global.u32 [%rd1], %r1;
    """,
    proof="The accesses whose address is computed from the variable are counted.",
    sanitizer="no tool looks for this; the profiler counts local traffic.",
    check=check,
    default=False,
)
