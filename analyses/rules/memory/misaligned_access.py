"""S001 misaligned-access."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.memory.accesses import Access, accesses
from ptxkit.analyses.symbolic.origins import origins
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.threads.lanes import Lanes, lanes
from ptxkit.analyses.threads.thread_sets import Runs
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Addresses that are misaligned for all threads, or for one that certainly makes the access."""
    for routine in facts.routines:
        known = lanes(routine) if accesses(routine) else None
        for access in accesses(routine):
            low = access.align - 1
            if known is not None and access.address is not None and low > 0 and access.address.known.zeros & low != low:
                yield from _misaligned(facts, routine, known, access, access.address)


def _misaligned(facts: Facts, routine: Routine, known: Lanes, access: Access, address: Term) -> Iterator[Diagnostic]:
    low = access.align - 1
    if low & (low + 1):
        return
    runs = known.execution
    always = address.known.ones & low
    if always:
        most = runs(access.instruction).most
        if most is Runs.NEVER:
            # the address may be no address there: a structure says by its first byte whether the rest is one
            return
        off = f"it is {_rest(always, low, address)} bytes past one, for every thread"
        severity = Severity.ERROR if most >= Runs.MAYBE else Severity.WARNING
    elif access.bytes is None:
        return
    else:
        rest = _low_bits(known, access, address, low)
        if rest is None or not any(rest):
            return
        certain, thread = max(
            ((run, -index) for index, (run, number) in enumerate(zip(runs(access.instruction), rest, strict=True)) if number & low),
            default=(Runs.NEVER, 0),
        )
        if certain < Runs.MAYBE:
            return
        off = f"for {known.threads[-thread]} it is {rest[-thread] & low} bytes past one"
        severity = Severity.ERROR if certain is Runs.ALWAYS else Severity.WARNING
    yield facts.report(
        RULE,
        (*routine.where(access.instruction), access.child),
        f"the address must be a multiple of {access.align}; {off}",
        f"the address is {address}",
        related=origins(routine, access.instruction, access.child),
        severity=severity,
    )


def _rest(always: int, low: int, address: Term) -> str:
    return str(always) if (address.known.zeros | always) & low == low else f"at least {always & -always}"


def _low_bits(known: Lanes, access: Access, address: Term, low: int) -> tuple[int, ...] | None:
    """The lowest bits for each thread, if all unknown parts are sufficiently aligned."""
    parts = [(atom, factor) for atom, factor in address.linear[1] if 0 < atom.alignment * (factor & -factor) <= low]
    rest = known.values.terms.part(address, tuple(parts))
    return known.numbers(rest, control_flow(known.routine).block_of[access.instruction])


RULE = Rule(
    id="S001",
    name="misaligned-access",
    severity=Severity.ERROR,
    summary="a memory access at an address that is provably misaligned",
    why=(
        "An address must be a multiple of the size of the access, where a vector counts as a whole; otherwise behavior is "
        "undefined (6.4.1, 5.4.5)."
    ),
    bad="""
        .shared .align 16 .b8 buffer[64];
        ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [buffer+8];
    """,
    good="""
        .shared .align 16 .b8 buffer[64];
        ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [buffer+16];
    """,
    proof="For a named thread, the address follows from its index; it is not a multiple of the size.",
    sanitizer="memcheck reports it if a run reaches it.",
    check=check,
)
