"""A011 bulk-source-overwritten."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.async_copy.copies import copies
from ptxkit.analyses.protocols.async_copy.kinds import CopyFault
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Writes to the source of a bulk copy that may not have read it yet."""
    return reports(facts, RULE, lambda routine: copies(routine).findings)


RULE = Rule(
    id="A011",
    name="bulk-source-overwritten",
    severity=Severity.ERROR,
    kind=CopyFault.BULK_SOURCE_OVERWRITTEN,
    summary="the source of a bulk copy is overwritten while the copy may still be reading it",
    why=(
        "The source of a bulk copy must not change until the copy has read it, which a wait for its group guarantees, with or "
        "without .read (9.7.10.24.1, 9.7.10.24.13)."
    ),
    bad="""
        .shared .align 128 .b8 buffer[4096];
        mov.u32 %r1, buffer;
        cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 1024;
        cp.async.bulk.commit_group;
        st.shared.u32 [%r1], 0;
        cp.async.bulk.wait_group 0;
    """,
    good="""
        .shared .align 128 .b8 buffer[4096];
        mov.u32 %r1, buffer;
        cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 1024;
        cp.async.bulk.commit_group;
        cp.async.bulk.wait_group.read 0;
        st.shared.u32 [%r1], 0;
        cp.async.bulk.wait_group 0;
    """,
    proof=(
        "One thread is executed symbolically along a path, with its groups in flight, and inputs that lead along this path are "
        "found: the bytes written are the source of a bulk copy in flight. Without such inputs it is "
        "a warning, if no other path from the copy to the write has a commit or wait that this one lacks."
    ),
    sanitizer=(
        "none of its tools follows bulk copies; racecheck and synccheck reported none of the mistakes with them that were seeded "
        "on an H200."
    ),
    check=check,
)
