"""A015 wrong-async-group-kind."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.async_copy.copies import copies
from ptxkit.analyses.protocols.async_copy.kinds import CopyFault
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Waits for groups of the other kind."""
    return reports(facts, RULE, lambda routine: copies(routine).findings)


RULE = Rule(
    id="A015",
    name="wrong-async-group-kind",
    severity=Severity.ERROR,
    kind=CopyFault.WRONG_ASYNC_GROUP_KIND,
    summary="a wait is for one kind of group, and the copy belongs to the other kind",
    why=(
        "Bulk and non-bulk copies have separate groups: cp.async.wait_group does not wait for bulk groups, and "
        "cp.async.bulk.wait_group does not wait for non-bulk groups (9.7.10.24.1)."
    ),
    bad="""
        .shared .align 128 .b8 buffer[4096];
        mov.u32 %r1, buffer;
        cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 1024;
        cp.async.bulk.commit_group;
        cp.async.wait_group 0;
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
        "found: there are no groups of the kind that the wait is for, and the copy is in one of the other kind."
    ),
    sanitizer=(
        "none of its tools follows bulk copies; racecheck and synccheck reported none of the mistakes with them that were seeded "
        "on an H200."
    ),
    check=check,
)
