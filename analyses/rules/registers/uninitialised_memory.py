"""R008 uninitialised-memory."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.memory.unwritten import unwritten
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The first load from each variable in shared or local memory that nothing can have written before."""
    for routine in facts.routines:
        for found in unwritten(routine):
            symbol = found.symbol
            related = [(symbol.path, "declared here")]
            why = f"nothing ever writes `{symbol.name}`"
            if found.store is not None:
                why = f"every store to `{symbol.name}` comes later"
                related.append(((*routine.where(found.store.instruction), found.store.child), "the first of them"))
            yield facts.report(
                RULE,
                (*routine.where(found.load.instruction), found.load.child),
                f"the first thread that executes this reads what nothing has written: {why}",
                related=related,
            )


RULE = Rule(
    id="R008",
    name="uninitialised-memory",
    severity=Severity.WARNING,
    summary="shared or local memory that is read before anything can have written it",
    why=(
        "Variables in shared and local memory have no initial value (5.1.5, 5.1.7): the read returns what was there before. A line of "
        "global memory has an undetermined one after discard (9.7.10.16). Nor has tensor memory, to which "
        "an MMA may add its product (9.1:9.7.16.10)."
    ),
    bad="""
        .shared .align 4 .b8 sum[128];
        ld.shared.u32 %r1, [sum];
        add.u32 %r1, %r1, 1;
        st.shared.u32 [sum], %r1;
    """,
    good="""
        .shared .align 4 .b8 sum[128];
        st.shared.u32 [sum], 0;
        ld.shared.u32 %r1, [sum];
        add.u32 %r1, %r1, 1;
        st.shared.u32 [sum], %r1;
    """,
    proof=(
        "No instruction of the module writes the variable, or none before the read on any path; and its address is not passed "
        "anywhere unknown."
    ),
    sanitizer=("by its release notes, initcheck reports reads of unwritten shared memory since release 2025.4, but not of local memory."),
    check=check,
)
