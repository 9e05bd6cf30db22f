"""A012 bulk-store-not-committed."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.async_copy.copies import copies
from ptxkit.analyses.protocols.async_copy.kinds import CopyFault
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Waits for bulk groups while a bulk copy is uncommitted."""
    return reports(facts, RULE, lambda routine: copies(routine).findings)


RULE = Rule(
    id="A012",
    name="bulk-store-not-committed",
    severity=Severity.ERROR,
    kind=CopyFault.BULK_STORE_NOT_COMMITTED,
    summary="a wait for bulk groups does not cover a bulk copy that is in no group",
    why="A wait counts bulk groups: a copy that no commit has put into one is not waited for (9.7.10.24.12).",
    bad="""
        .shared .align 128 .b8 buffer[4096];
        mov.u32 %r1, buffer;
        cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 1024;
        cp.async.bulk.wait_group 0;
        st.shared.u32 [%r1], 0;
    """,
    good="""
        .shared .align 128 .b8 buffer[4096];
        mov.u32 %r1, buffer;
        cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 1024;
        cp.async.bulk.commit_group;
        cp.async.bulk.wait_group 0;
        st.shared.u32 [%r1], 0;
    """,
    proof=(
        "One thread is executed symbolically along a path, with its groups in flight, and inputs that lead along this path are "
        "found: at the wait, the copy is in no group. Without such inputs it is "
        "a warning, if no other path from the copy to the write has a commit or wait that this one lacks."
    ),
    sanitizer="no tool reports it; racecheck and synccheck did not report the 4 seeded mistakes of this kind on an H200.",
    check=check,
)
