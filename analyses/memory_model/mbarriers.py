"""An mbarrier as a word of 64 bits, and what each operation on it makes of that word (9.7.14.15).

The manual leaves the word opaque. Here it has the arrivals that are pending, those that a phase expects, the bytes of transactions that are
still to come and the parity of the phase that is not complete, so that every operation is one atomic function of it.
"""

from __future__ import annotations

COUNT_BITS = 20
COUNT = (1 << COUNT_BITS) - 1
"""A phase expects at most as many arrivals (9.7.14.15.1)."""
BYTES_AT = 2 * COUNT_BITS
BYTES_BITS = 63 - BYTES_AT
BYTES = (1 << BYTES_BITS) - 1
"""The tx-count, in two's complement: copies may complete before they are expected."""
PHASE_AT = 63
OPERAND_AT = 32
"""In an operand that has both: bytes above, arrivals below."""


def _word(pending: int, expected: int, transactions: int, phase: int) -> int:
    """The word, of the next phase if nothing is left to come in this one."""
    if not pending & COUNT and not transactions & BYTES:
        pending, phase = expected, phase ^ 1
    return pending & COUNT | (expected & COUNT) << COUNT_BITS | (transactions & BYTES) << BYTES_AT | (phase & 1) << PHASE_AT


def _fields(word: int) -> tuple[int, int, int, int]:
    return word & COUNT, word >> COUNT_BITS & COUNT, word >> BYTES_AT & BYTES, word >> PHASE_AT & 1


def made(count: int) -> int:
    """What `mbarrier.init` stores: phase 0, with so many arrivals to come."""
    return count & COUNT | (count & COUNT) << COUNT_BITS


def operand(arrivals: int, transactions: int) -> int:
    """Arrivals and expect-tx bytes as one operand of `arrived` and `dropped`."""
    return arrivals & COUNT | (transactions & BYTES) << OPERAND_AT


def arrived(word: int, both: int) -> int:
    """`mbarrier.arrive`, and `.expect_tx`, which comes first: of `operand`."""
    pending, expected, transactions, phase = _fields(word)
    return _word(pending - (both & COUNT), expected, transactions + (both >> OPERAND_AT), phase)


def dropped(word: int, both: int) -> int:
    """`mbarrier.arrive_drop`: later phases expect that many fewer."""
    pending, expected, transactions, phase = _fields(word)
    return _word(pending - (both & COUNT), expected - (both & COUNT), transactions + (both >> OPERAND_AT), phase)


def awaiting(word: int, count: int) -> int:
    """One more arrival is pending in this phase: `cp.async.mbarrier.arrive` without `.noinc`."""
    pending, expected, transactions, phase = _fields(word)
    return _word(pending + count, expected, transactions, phase)


def expecting(word: int, transactions: int) -> int:
    """`mbarrier.expect_tx`."""
    pending, expected, before, phase = _fields(word)
    return _word(pending, expected, before + transactions, phase)


def completed(word: int, transactions: int) -> int:
    """`mbarrier.complete_tx`, which every copy does that an mbarrier counts."""
    pending, expected, before, phase = _fields(word)
    return _word(pending, expected, before - transactions, phase)


def pending_count(state: int) -> int:
    """`mbarrier.pending_count`: the arrivals that were pending in a state."""
    return state & COUNT


def is_over(word: int, state: int) -> int:
    """Whether the phase that a state was taken in is complete; a state is of this phase or of the one before."""
    return int(word >> PHASE_AT != state >> PHASE_AT)


def is_over_by_parity(word: int, parity: int) -> int:
    """Whether the phase with this parity is complete: the other one is under construction."""
    return int(word >> PHASE_AT & 1 != parity & 1)


OPERATORS = {
    "arrive": arrived,
    "arrive_drop": dropped,
    "awaiting": awaiting,
    "expect_tx": expecting,
    "complete_tx": completed,
}
"""By the operator of an `Atomic`."""
