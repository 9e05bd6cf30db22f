"""A013 bulk-wait-by-non-issuer."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.async_copy.copies import copies
from ptxkit.analyses.protocols.async_copy.kinds import CopyFault
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Waits by threads that did not start the copy, and waits that no barrier publishes."""
    return reports(facts, RULE, lambda routine: copies(routine).findings)


RULE = Rule(
    id="A013",
    name="bulk-wait-by-non-issuer",
    severity=Severity.ERROR,
    kind=CopyFault.BULK_WAIT_BY_NON_ISSUER,
    summary=("a thread waits for a bulk copy that another thread started, or does not synchronize with threads that overwrite its source"),
    why=(
        "A bulk group belongs to the thread that committed it. That thread must wait, and a barrier must follow before other "
        "threads overwrite the source (9.7.10.24.13)."
    ),
    bad="""
        .shared .align 128 .b8 buffer[4096];
        mov.u32 %r1, buffer;
        mov.u32 %r2, %tid.x;
        shl.b32 %r3, %r2, 2;
        add.s32 %r4, %r1, %r3;
        setp.ne.s32 %p1, %r2, 0;
        setp.ne.s32 %p2, %r2, 1;
        @%p1 bra L1;
        cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 1024;
        cp.async.bulk.commit_group;
        L1:
        @%p2 bra L2;
        cp.async.bulk.wait_group.read 0;
        L2:
        bar.sync 0;
        st.shared.u32 [%r4], 0;
        @%p1 bra L3;
        cp.async.bulk.wait_group 0;
        L3:
    """,
    good="""
        .shared .align 128 .b8 buffer[4096];
        mov.u32 %r1, buffer;
        mov.u32 %r2, %tid.x;
        shl.b32 %r3, %r2, 2;
        add.s32 %r4, %r1, %r3;
        setp.ne.s32 %p1, %r2, 0;
        setp.ne.s32 %p2, %r2, 1;
        @%p1 bra L1;
        cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 1024;
        cp.async.bulk.commit_group;
        cp.async.bulk.wait_group.read 0;
        L1:
        bar.sync 0;
        st.shared.u32 [%r4], 0;
        @%p1 bra L3;
        cp.async.bulk.wait_group 0;
        L3:
    """,
    proof=(
        "Which threads start the copy and which wait follows from the thread indices. Two threads are named, each with its path: "
        "one starts the copy and does not wait, or the other overwrites the source with no barrier."
    ),
    sanitizer=(
        "none of its tools follows bulk copies; racecheck and synccheck reported none of the mistakes with them that were seeded "
        "on an H200."
    ),
    check=check,
)
