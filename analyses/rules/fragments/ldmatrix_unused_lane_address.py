"""F008 ldmatrix-unused-lane-address."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.launch.launch import WARP
from ptxkit.analyses.memory.accesses import Access, accesses, locate, size_of
from ptxkit.analyses.numbers.arithmetic import signed
from ptxkit.analyses.symbolic.origins import origins
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.threads.lanes import lanes
from ptxkit.analyses.threads.thread_sets import Runs
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.isa.binding import Bound
from ptxkit.names import Kind

ROW_BYTES = 16
ROWS = 8
"""Number of lanes that give the addresses of one matrix."""
LAST_TARGET = 75
"""Up to this target, every lane must give a valid address; later, lanes whose row is not loaded may give any."""


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Lanes of a matrix load whose row is not loaded, with an address outside the variable that the others load from."""
    target = next((word for word in (facts.target, *facts.module.targets) if word and word.startswith("sm_")), "")
    number = target.removeprefix("sm_")
    if not number.isdecimal() or int(number) > LAST_TARGET:
        return
    for routine in facts.routines:
        for access in accesses(routine):
            bound = bindings(routine)[access.instruction]
            if not isinstance(bound, Bound) or not bound.slot(".num") or not access.reads or bound.converges is None:
                continue
            used = ROWS * int(bound.slot(".num")[2:])
            if used < WARP and access.space == ".shared":
                yield from _outside(facts, routine, access, used)


def _outside(facts: Facts, routine: Routine, access: Access, used: int) -> Iterator[Diagnostic]:
    where = locate(values(routine), access.address) if access.address is not None else None
    if where is None or where.symbol is None or where.symbol.kind is not Kind.VARIABLE or where.symbol.is_open_ended:
        return
    size = size_of(where.symbol)
    known = lanes(routine)
    numbers = known.numbers(where.offset, control_flow(routine).block_of[access.instruction])
    if size is None or numbers is None:
        return
    for run, number, thread in zip(known.execution(access.instruction), numbers, known.threads, strict=True):
        first = signed(number, where.offset.width)
        if run >= Runs.MAYBE and thread.linear % WARP >= used and not 0 <= first <= size - ROW_BYTES:
            yield facts.report(
                RULE,
                (*routine.where(access.instruction), access.child),
                f"{thread} gives an address outside of `{where.symbol.name}`, byte {first} of {size}; the matrices need only those of"
                f" lanes 0 to {used - 1}, but up to sm_{LAST_TARGET} every lane's must be valid",
                related=[(where.symbol.path, "declared here"), *origins(routine, access.instruction, access.child)],
            )
            return


RULE = Rule(
    id="F008",
    name="ldmatrix-unused-lane-address",
    severity=Severity.WARNING,
    summary="an ldmatrix to which a lane passes an invalid address, even though no row is loaded from it",
    why=(
        "Up to sm_75 all lanes must pass valid addresses, even those from which no row is loaded (9.7.15.4.15); the usual remedy "
        "is to repeat the addresses of the lower lanes."
    ),
    bad="""
        .version 7.0
        .target sm_75
        .address_size 64
        .entry k()
        .reqntid 32
        {
        .reg .b32 %r<4>;
        .shared .align 16 .b8 tile[128];
        mov.u32 %r0, %tid.x;
        shl.b32 %r0, %r0, 4;
        mov.u32 %r1, tile;
        add.u32 %r1, %r1, %r0;
        ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%r1];
        ret;
        }
    """,
    good="""
        .version 7.0
        .target sm_75
        .address_size 64
        .entry k()
        .reqntid 32
        {
        .reg .b32 %r<4>;
        .shared .align 16 .b8 tile[128];
        mov.u32 %r0, %tid.x;
        and.b32 %r0, %r0, 7;
        shl.b32 %r0, %r0, 4;
        mov.u32 %r1, tile;
        add.u32 %r1, %r1, %r0;
        ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%r1];
        ret;
        }
    """,
    proof=(
        "The address of a lane from which no row is loaded lies outside of the variable that the other lanes load from, by their indices."
    ),
    sanitizer="memcheck reports addresses that leave the memory of the kernel, if a run reaches it.",
    check=check,
)
