"""T003 tmem-load-not-waited."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import found_reports, lines
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.tcgen05.tensor_memory import (
    accessed_loads,
    loads,
    stores_read_back,
    unwaited_stores,
)
from ptxkit.analyses.rules._reports import in_flight_reports
from ptxkit.diagnostics import Diagnostic, Severity

USUAL = "ptxas waits for each register by itself; the manual does not promise it"


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Registers that are used while being loaded; stores that are published while they may be in flight."""
    why = "there is no tcgen05.wait::ld in between"
    for routine in facts.routines:
        wrong, usual = accessed_loads(routine)
        yield from in_flight_reports(facts, RULE, routine, loads(routine), wrong, why)
        # if it is the convention, one finding per function is enough
        reported = usual[:1]
        where = lines(facts, routine, [access.opener for access in usual])
        note = f"the same holds for {len(usual)} loads of this function, {where}: {USUAL}" if len(usual) > 1 else USUAL
        yield from in_flight_reports(facts, RULE, routine, loads(routine), reported, why, note, Severity.INFO)
        yield from found_reports(facts, RULE, routine, [*unwaited_stores(routine), *stores_read_back(routine)])


RULE = Rule(
    id="T003",
    name="tmem-load-not-waited",
    severity=Severity.ERROR,
    summary="the registers or cells of a tcgen05.ld or tcgen05.st are used before tcgen05.wait",
    why="tcgen05.ld and tcgen05.st only start; tcgen05.wait::ld and ::st wait until they are complete (9.1:9.7.16.8).",
    bad="""
        .version 9.0
        .target sm_100a
        .address_size 64
        .entry k()
        .reqntid 128
        {
        .reg .pred %p<4>;
        .reg .b32 %r<16>;
        .reg .b64 %rd<4>;
        .shared .align 4 .u32 taddr;
        .shared .align 8 .u64 bar;
        tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r3}, [%r1];
        st.shared.u32 [taddr], %r3;
        ret;
        }
    """,
    good="""
        .version 9.0
        .target sm_100a
        .address_size 64
        .entry k()
        .reqntid 128
        {
        .reg .pred %p<4>;
        .reg .b32 %r<16>;
        .reg .b64 %rd<4>;
        .shared .align 4 .u32 taddr;
        .shared .align 8 .u64 bar;
        tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r3}, [%r1];
        tcgen05.wait::ld.sync.aligned;
        st.shared.u32 [taddr], %r3;
        ret;
        }
    """,
    proof=(
        "Data flow over registers in flight: on a path with no wait after the load, the register is accessed. It is an error if "
        "at most a quarter of the loads of the function lack the wait, or if none has one and the registers are stored as they "
        "are; otherwise it is only information, since compilers move code before the wait on purpose. A store is a warning if a "
        "thread arrives, starts an MMA or loads from the same address before it waits for the store."
    ),
    sanitizer="none of its tools looks for this.",
    check=check,
)
