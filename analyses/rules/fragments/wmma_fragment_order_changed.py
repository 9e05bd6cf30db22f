"""F006 wmma-fragment-order-changed."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.fragments.fragments import FragmentUse, Source, fragment_uses, where
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Fragments whose registers are in another order than where they were produced, or come from several fragments."""
    for routine in facts.routines:
        for use in fragment_uses(routine):
            sources = _only_copies(use)
            if sources is None:
                continue
            makers = sorted({source.instruction for source in sources})
            if len(makers) > 1:
                message = "the registers of this fragment come from several fragments"
            elif [source.index for source in sources] != list(range(len(sources))):
                order = ", ".join([str(source.index) for source in sources])
                message = f"the registers of this fragment are not in the order in which they were produced: {order}"
            else:
                continue
            yield facts.report(RULE, where(routine, use), message, related=[(routine.where(i), "produced here") for i in makers])


def _only_copies(use: FragmentUse) -> list[Source] | None:
    """The single register that each register of the operand is a copy of, all from equivalent fragments; None if there is none."""
    if not all(len(sources) == 1 for sources in use.sources):
        return None
    found = [source for sources in use.sources for source in sources]
    like = all(
        source.fragment.is_opaque and (source.fragment.matrix, source.fragment.shape) == (use.fragment.matrix, use.fragment.shape)
        for source in found
    )
    return found if like and not any(source.is_changed for source in found) else None


RULE = Rule(
    id="F006",
    name="wmma-fragment-order-changed",
    severity=Severity.WARNING,
    summary="a matrix fragment whose registers are passed in a different order than they were made in",
    why=(
        "Which register holds which element is not specified. A fragment may be computed on element by element, but its order "
        "must be kept (9.7.15.3.1)."
    ),
    bad="""
        wmma.load.c.sync.aligned.row.m16n16k16.f32 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, [%rd1];
        wmma.store.d.sync.aligned.row.m16n16k16.f32 [%rd2], {%f1, %f0, %f2, %f3, %f4, %f5, %f6, %f7};
    """,
    good="""
        wmma.load.c.sync.aligned.row.m16n16k16.f32 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, [%rd1];
        wmma.store.d.sync.aligned.row.m16n16k16.f32 [%rd2], {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7};
    """,
    proof=(
        "The fragment that each register holds is followed from its load through copies, loops and control-flow merges; an "
        "operand is judged only if all of its registers hold one. The elements differ. It is a warning, since the manual does not "
        "say which register holds which element."
    ),
    sanitizer="none of its tools looks for this.",
    check=check,
)
