"""S002 out-of-bounds-access."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.memory.accesses import Access, accesses, size_of
from ptxkit.analyses.numbers.arithmetic import signed
from ptxkit.analyses.symbolic.origins import origins
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.threads.lanes import lanes
from ptxkit.analyses.threads.thread_sets import Runs
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.names import Kind, Symbol


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Accesses outside the variable on which their address is based, by a thread that executes them."""
    for routine in facts.routines:
        for access in accesses(routine):
            where = access.where
            if where is None or not access.bytes:
                continue
            if where.symbol is None or where.symbol.kind is not Kind.VARIABLE or where.symbol.is_open_ended:
                continue
            size = size_of(where.symbol)
            if size is None:
                continue
            least, most = where.offset.signed_bounds
            if least < 0 or most + access.bytes > size:
                yield from _beyond(facts, routine, access, where.symbol, where.offset, size)


def _beyond(facts: Facts, routine: Routine, access: Access, symbol: Symbol, offset: Term, size: int) -> Iterator[Diagnostic]:
    known = lanes(routine)
    width = access.bytes or 1
    numbers = known.numbers(offset, control_flow(routine).block_of[access.instruction])
    if numbers is None:
        return
    wrong = [
        (run, -thread)
        for thread, (run, number) in enumerate(zip(known.execution(access.instruction), numbers, strict=True))
        if run >= Runs.MAYBE and not 0 <= signed(number, offset.width) <= size - width
    ]
    if not wrong:
        return
    run, thread = max(wrong)
    first = signed(numbers[-thread], offset.width)
    notes = [f"the offset is {offset}"] if offset.constant is None else []
    if run is Runs.MAYBE:
        notes.append("whether it is executed depends on the parameters or on the CTA")
    who = known.threads[-thread] if offset.constant is None else "this"
    yield facts.report(
        RULE,
        (*routine.where(access.instruction), access.child),
        f"{who} accesses bytes {first} to {first + width - 1} of `{symbol.name}`, which has only {size}",
        *notes,
        related=[(symbol.path, "declared here"), *origins(routine, access.instruction, access.child)],
        severity=Severity.ERROR if run is Runs.ALWAYS else Severity.INFO,
    )


RULE = Rule(
    id="S002",
    name="out-of-bounds-access",
    severity=Severity.ERROR,
    summary="a memory access provably outside of the variable that it addresses",
    why="Memory beyond a variable belongs to others; the assembler guarantees no layout there, and checks nothing (5.1, 6.4.1).",
    bad="""
        .shared .align 4 .b8 buffer[64];
        ld.shared.u32 %r1, [buffer+64];
    """,
    good="""
        .shared .align 4 .b8 buffer[64];
        ld.shared.u32 %r1, [buffer+60];
    """,
    proof="For a named thread that executes the access, the address follows from the code and lies outside of the variable.",
    sanitizer="memcheck reports accesses outside of the memory of the kernel, not those that reach another variable in it.",
    check=check,
)
