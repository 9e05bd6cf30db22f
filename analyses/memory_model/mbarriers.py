"""An mbarrier as a 64-bit word, and the operations on it as functions of that word (9.7.14.15).

The manual leaves the word opaque. Here it holds the pending arrivals, the expected arrivals of a phase, the outstanding transaction bytes
and the parity of the current phase, so that every operation is one atomic function.
"""

from __future__ import annotations

COUNT_BITS = 20
COUNT = (1 << COUNT_BITS) - 1
"""Maximum number of arrivals that a phase expects (9.7.14.15.1)."""
BYTES_AT = 2 * COUNT_BITS
BYTES_BITS = 63 - BYTES_AT
BYTES = (1 << BYTES_BITS) - 1
"""The tx-count, in two's complement: copies may complete before they are expected."""
PHASE_AT = 63
OPERAND_AT = 32
"""Position of the bytes in an operand that holds both; arrivals are below."""


def _word(pending: int, expected: int, transactions: int, phase: int) -> int:
    """The word; that of the next phase if nothing is outstanding in this one."""
    if not pending & COUNT and not transactions & BYTES:
        pending, phase = expected, phase ^ 1
    return pending & COUNT | (expected & COUNT) << COUNT_BITS | (transactions & BYTES) << BYTES_AT | (phase & 1) << PHASE_AT


def _fields(word: int) -> tuple[int, int, int, int]:
    return word & COUNT, word >> COUNT_BITS & COUNT, word >> BYTES_AT & BYTES, word >> PHASE_AT & 1


def made(count: int) -> int:
    """The word that `mbarrier.init` stores: phase 0, with `count` arrivals pending."""
    return count & COUNT | (count & COUNT) << COUNT_BITS


def operand(arrivals: int, transactions: int) -> int:
    """Arrivals and expect-tx bytes as one operand of `arrived` and `dropped`."""
    return arrivals & COUNT | (transactions & BYTES) << OPERAND_AT


def arrived(word: int, both: int) -> int:
    """`mbarrier.arrive`, preceded by `.expect_tx`; takes an `operand`."""
    pending, expected, transactions, phase = _fields(word)
    return _word(pending - (both & COUNT), expected, transactions + (both >> OPERAND_AT), phase)


def dropped(word: int, both: int) -> int:
    """`mbarrier.arrive_drop`: later phases expect correspondingly fewer."""
    pending, expected, transactions, phase = _fields(word)
    return _word(pending - (both & COUNT), expected - (both & COUNT), transactions + (both >> OPERAND_AT), phase)


def awaiting(word: int, count: int) -> int:
    """Adds pending arrivals to this phase: `cp.async.mbarrier.arrive` without `.noinc`."""
    pending, expected, transactions, phase = _fields(word)
    return _word(pending + count, expected, transactions, phase)


def expecting(word: int, transactions: int) -> int:
    """`mbarrier.expect_tx`."""
    pending, expected, before, phase = _fields(word)
    return _word(pending, expected, before + transactions, phase)


def completed(word: int, transactions: int) -> int:
    """`mbarrier.complete_tx`, which every counted copy performs."""
    pending, expected, before, phase = _fields(word)
    return _word(pending, expected, before - transactions, phase)


def pending_count(state: int) -> int:
    """`mbarrier.pending_count`: the arrivals that were pending in a state."""
    return state & COUNT


def is_over(word: int, state: int) -> int:
    """Whether the phase of a state is complete; the state is of this phase or the previous one."""
    return int(word >> PHASE_AT != state >> PHASE_AT)


def is_over_by_parity(word: int, parity: int) -> int:
    """Whether the phase with this parity is complete: the current phase has the other parity."""
    return int(word >> PHASE_AT & 1 != parity & 1)


OPERATORS = {
    "arrive": arrived,
    "arrive_drop": dropped,
    "awaiting": awaiting,
    "expect_tx": expecting,
    "complete_tx": completed,
}
"""By the operator of an `Atomic`."""
