"""A014 bulk-store-not-waited-before-exit."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.async_copy.copies import copies
from ptxkit.analyses.protocols.async_copy.kinds import CopyFault
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Ends of threads whose bulk copies may still read."""
    return reports(facts, RULE, lambda routine: copies(routine).findings)


RULE = Rule(
    id="A014",
    name="bulk-store-not-waited-before-exit",
    severity=Severity.WARNING,
    kind=CopyFault.BULK_STORE_NOT_WAITED_BEFORE_EXIT,
    summary="a thread ends while a bulk copy of its may still read shared memory",
    why=(
        "Shared memory lives as long as its CTA; a bulk copy from it must be waited for, with .read at least, before "
        "the thread ends (9.7.10.24.2)."
    ),
    bad="""
        .shared .align 128 .b8 buffer[4096];
        mov.u32 %r1, buffer;
        cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 1024;
        cp.async.bulk.commit_group;
    """,
    good="""
        .shared .align 128 .b8 buffer[4096];
        mov.u32 %r1, buffer;
        cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 1024;
        cp.async.bulk.commit_group;
        cp.async.bulk.wait_group.read 0;
    """,
    proof=(
        "One thread is executed symbolically along a path, with its groups in flight, and inputs that take this path are found; the "
        "copy may still read where the thread ends. A warning, since the grid often outlives it."
    ),
    sanitizer="none of its tools: racecheck and synccheck did not report the 6 seeded mistakes of this kind on an H200.",
    check=check,
)
