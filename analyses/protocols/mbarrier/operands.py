"""Operands of mbarrier operations: alignment, counts, parities, and mbarriers of other CTAs (9.7.14.15.1, .2, .8, .13, .16)."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.events.barriers import child_of
from ptxkit.analyses.events.mbarriers import mbarrier_operand, other_rank
from ptxkit.analyses.events.steps import ON_MBARRIERS, Does, Step, steps
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.finding import Finding
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.isa.binding import Bound, BoundOperand

MOST_ARRIVALS = (1 << 20) - 1
BYTES = 8
REMOTE = ".shared::cluster"


@fact
def findings(routine: Routine) -> tuple[Finding, ...]:
    """Errors in operands, independent of the rest of the kernel."""
    return tuple(_findings(routine))


def _findings(routine: Routine) -> Iterator[Finding]:
    for i, own in steps(routine).items():
        bound = bindings(routine)[i]
        if not isinstance(bound, Bound):
            continue
        signalled: set[str] = set()
        for step in own:
            for finding in _of_step(routine, i, bound, step):
                if finding.kind not in signalled:
                    signalled.add(finding.kind)
                    yield finding


def _of_step(routine: Routine, i: int, bound: Bound, step: Step) -> Iterator[Finding]:
    if step.does not in ON_MBARRIERS:
        return
    operand = mbarrier_operand(bound)
    if step.address is None or operand is None:
        return
    child = child_of(routine, i, operand)
    wrong = step.address.known.ones & (BYTES - 1)
    if wrong:
        message = f"an mbarrier must be aligned to 8 bytes; this address is {wrong} bytes past a multiple of 8"
        yield Finding(i, message, notes=_where(step.address), kind=MbarrierFault.MBARRIER_ALIGNMENT, child=child)
    if step.does is Does.INIT and step.amount is not None:
        low, high = step.amount.bounds
        if high < 1 or low > MOST_ARRIVALS:
            count = bound.operand("count")
            at = child_of(routine, i, count) if count is not None else child
            yield Finding(
                i,
                f"the count of an mbarrier must be between 1 and {MOST_ARRIVALS}; it is {_number(step.amount)}",
                kind=MbarrierFault.MBARRIER_COUNT_RANGE,
                child=at,
            )
    if step.does is Does.WAIT and step.amount is not None and not step.by_state and step.amount.bounds[0] > 1:
        parity = bound.operand("parity")
        at = child_of(routine, i, parity) if parity is not None else child
        yield Finding(i, f"a parity must be 0 or 1; it is {_number(step.amount)}", kind=MbarrierFault.MBARRIER_PARITY_RANGE, child=at)
    yield from _remote(routine, i, bound, step, operand, child)


def _remote(routine: Routine, i: int, bound: Bound, step: Step, operand: BoundOperand, child: int) -> Iterator[Finding]:
    assert step.address is not None
    rank = other_rank(step.address)
    if rank is None:
        return
    where = ("the address comes from mapa",)
    if step.does is Does.WAIT:
        yield Finding(
            i,
            "a thread cannot wait at an mbarrier of another CTA",
            notes=where,
            kind=MbarrierFault.MBARRIER_REMOTE_FORM,
            child=child,
        )
    elif step.does in (Does.INIT, Does.INVAL):
        yield Finding(
            i,
            "an mbarrier can be initialized and invalidated only by its own CTA",
            notes=where,
            kind=MbarrierFault.MBARRIER_REMOTE_FORM,
            child=child,
        )
    elif bound.has(".cta_group::2"):
        # the two CTAs work as one, so the mbarrier may be in either
        return
    elif operand.spaces and all(space.partition("::")[0] == ".shared" and space != REMOTE for space in operand.spaces):
        yield Finding(
            i,
            "this form takes an mbarrier of the thread's own CTA, but the address is in another CTA",
            notes=where,
            kind=MbarrierFault.MBARRIER_REMOTE_FORM,
            child=child,
        )
    elif bound.has(".cta"):
        # data that only this arrival guards may need no order; if other arrivals and waits use cluster scope, it does
        wait, other = (_in_cluster(routine, step.address, does) for does in (Does.WAIT, Does.ARRIVE))
        if wait is not None and other is not None:
            message = "the mbarrier is in another CTA, but the scope is .cta: earlier writes are not published to the CTA that waits"
            steps_ = ((wait, "waited for in the scope of the cluster here"), (other, "another arrival in that scope"))
            yield Finding(i, message, steps_, notes=where, kind=MbarrierFault.MBARRIER_SCOPE_TOO_NARROW, child=child)


def _in_cluster(routine: Routine, address: Term, does: Does) -> int | None:
    """An instruction that performs an operation with cluster scope on the mbarrier at this address in any CTA; None if there is none."""
    for i, own in steps(routine).items():
        bound = bindings(routine)[i]
        if isinstance(bound, Bound) and bound.has(".cluster"):
            if any(step.does is does and step.address is not None and _index(step.address) == _index(address) for step in own):
                return i
    return None


def _index(address: Term) -> tuple[int, dict[int, int]]:
    """An address without the CTA that it is mapped to."""
    offset, parts = address.linear
    return offset, {atom.serial: factor for atom, factor in parts if atom.operator != "peer"}


def _where(address: Term) -> tuple[str, ...]:
    return (f"the address is {address}",)


def _number(term: Term) -> str:
    return str(term.constant) if term.constant is not None else f"at least {term.bounds[0]}"
