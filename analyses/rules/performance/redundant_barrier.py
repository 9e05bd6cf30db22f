"""L004 redundant-barrier, by request."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit import fixing
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.events.barriers import BarrierUse, barriers
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Fix, Severity
from ptxkit.isa.binding import Bound
from ptxkit.isa.mismatch import Mismatch
from ptxkit.isa.registers import special_register


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Barriers of the whole CTA that directly follow another, with nothing between that could need ordering."""
    for routine in facts.routines:
        before: BarrierUse | None = None
        for use in barriers(routine).cta:
            is_whole = use.arrives and use.waits and not use.is_counted and not use.reduces and use.number is not None
            if not is_whole or routine.instructions[use.instruction].guard is not None:
                before = None
                continue
            if before is not None and before.number == use.number and _nothing_between(routine, before.instruction, use.instruction):
                where = routine.where(use.instruction)
                yield facts.report(
                    RULE,
                    where,
                    "all threads have just waited for each other, and have done nothing since that others could observe",
                    related=[(routine.where(before.instruction), "here")],
                    fix=Fix("remove the barrier", (fixing.remove(facts.index, where),), is_safe=False),
                )
            before = use


def _nothing_between(routine: Routine, first: int, last: int) -> bool:
    blocks = control_flow(routine).block_of
    return blocks[first] == blocks[last] and all(map(_is_quiet, bindings(routine)[first + 1 : last]))


def _is_quiet(bound: Bound | Mismatch) -> bool:
    """Whether an instruction only computes registers from registers; reading a clock does more."""
    if isinstance(bound, Mismatch) or not bound.form.modelled:
        return False
    if bound.memory or bound.flow or bound.effects or bound.converges or bound.barrier or bound.asynchronous or bound.completes:
        return False
    specials = [special_register(operand.shape.type) for operand in bound.operands if operand.shape.kind == "special"]
    return not any(register is None or register.volatile for register in specials)


RULE = Rule(
    id="L004",
    name="redundant-barrier",
    severity=Severity.INFO,
    summary="a barrier directly after another one of the same threads",
    why=(
        "A barrier orders what threads did before it with what they do after it (9.7.14.1); if they did nothing since the last "
        "one, there is nothing to order."
    ),
    bad="""
        bar.sync 0;
        add.u32 %r1, %r2, 1;
        bar.sync 0;
    """,
    good="""
        bar.sync 0;
        st.shared.u32 [%r3], %r1;
        bar.sync 0;
    """,
    proof="No path between the barriers accesses memory, reads a clock, or lets threads diverge.",
    sanitizer="none of its tools looks for this.",
    check=check,
    default=False,
)
