"""mbarriers with missing counterparts: arrivals without waits, waits without arrivals, expect-tx without copies or vice versa
(9.7.14.15)."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.events.effects import effects
from ptxkit.analyses.events.steps import Does
from ptxkit.analyses.framework.finding import Finding
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.analyses.protocols.mbarrier.usage import Usage, Use, first_parity, rings
from ptxkit.analyses.symbolic.environment import settler


def incomplete(routine: Routine, known: Usage) -> Iterator[Finding]:
    """mbarriers with waits but no arrivals, with arrivals but no waits, or with either expected or arriving bytes only."""
    if not known.is_closed:
        return
    for ring in rings(routine):
        inits, waits, arrivals = ring.of(Does.INIT), ring.of(Does.WAIT), ring.of(Does.ARRIVE)
        copies, expects = ring.of(Does.COPY), ring.of(Does.EXPECT)
        init = inits[0].instruction
        blocking = next((wait for wait in waits if wait.step.is_spinning and _may_block(routine, wait)), None)
        if blocking is not None and not ring.may_be(Does.ARRIVE):
            message = "a thread deadlocks here: nothing in the kernel arrives at the mbarrier"
            steps_ = [(init, "initialized here"), *[(one.instruction, "bytes are not arrivals") for one in (*copies, *expects)[:1]]]
            yield Finding(blocking.instruction, message, tuple(steps_), kind=MbarrierFault.WAIT_NEVER_ARRIVED)
        if copies and waits and not ring.may_be(Does.EXPECT):
            message = "this copy completes bytes at an mbarrier that never expects any"
            steps_ = [
                (one.instruction, word) for one, word in ((waits[0], "waited for here"), *[(a, "arrived at here") for a in arrivals[:1]])
            ]
            yield Finding(copies[0].instruction, message, tuple(steps_), kind=MbarrierFault.TX_WITHOUT_EXPECT)
        if expects and waits and not ring.may_be(Does.COPY) and _expects(expects[0]):
            message = "bytes are expected at an mbarrier that no copy signals: its phase never completes"
            yield Finding(
                expects[0].instruction, message, ((waits[0].instruction, "waited for here"),), kind=MbarrierFault.EXPECT_TX_VS_BYTES
            )
        # of a single mbarrier, a thread that arrives itself may not care who waits; stages are for others to use
        signals = arrivals if ring.moves else [one for one in arrivals if effects(routine).get(one.instruction)]
        if (copies or signals) and not ring.may_be(Does.WAIT):
            one = (copies or signals)[0]
            word = "completes bytes at an mbarrier" if copies else "arrives at an mbarrier"
            message = f"this {word}, but nothing in the kernel waits there: no thread can tell when it is done"
            yield Finding(one.instruction, message, ((init, "initialized here"),), False, kind=MbarrierFault.ASYNC_DATA_READ_WITHOUT_WAIT)


def _expects(use: Use) -> bool:
    amount = use.step.amount
    return amount is not None and amount.bounds[0] > 0


def _may_block(routine: Routine, use: Use) -> bool:
    """Whether a wait is ever for a phase other than the one before the first."""
    amount = use.step.amount
    if amount is None or use.step.by_state:
        return False
    parity = settler(routine).term(amount)
    if parity.constant is not None:
        return not parity.constant & 1
    return first_parity(routine, use) == 0 or any(leaf.operator == "phi" for leaf in parity.leaves())
