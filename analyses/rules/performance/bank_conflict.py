"""L001 bank-conflict, by request."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.memory.accesses import Access, accesses
from ptxkit.analyses.protocols.performance.warp_accesses import WarpAccess, more, shown, warp_accesses
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.frozen import frozen

BANKS = 32
WORD = 4
"""Bytes of a bank's word."""


@frozen
class Conflict:
    """Lanes that access different words of one bank in one pass."""

    degree: int
    """The number of words accessed in one bank, which is the number of passes."""
    one: int
    other: int
    """The indices of two such lanes in the access."""


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Accesses to shared memory that are serialized within a warp: one of each kind in a function."""
    for routine in facts.routines:
        kinds: dict[tuple[str, int], list[tuple[Access, WarpAccess, Conflict]]] = {}
        for access in accesses(routine):
            found = warp_accesses(routine).of(access) if _size(access) else None
            conflict = _conflict(found, _size(access)) if found else None
            if found and conflict:
                kinds.setdefault((access.memory.access, conflict.degree), []).append((access, found, conflict))
        for same in kinds.values():
            yield _report(facts, routine, *same[0], [access for access, _, _ in same[1:]])


def _size(access: Access) -> int:
    """The bytes that each lane accesses; 0 unless it is a plain access to shared memory."""
    if access.space != ".shared" or access.memory.access not in ("read", "write") or access.memory.is_async:
        return 0
    return access.bytes or access.memory.row or 0


def _conflict(found: WarpAccess, size: int) -> Conflict | None:
    """The worst conflict; if the first address may be anywhere in a word, for the most favorable position."""
    conflicts = [_conflict_from(start, found, size) for start in found.starts(WORD, size)]
    return min(conflicts, key=lambda conflict: conflict.degree if conflict else 1)


def _conflict_from(start: int, found: WarpAccess, size: int) -> Conflict | None:
    """The worst conflict for a position of the first address in a word. Lanes are served together up to 128 bytes."""
    at_a_time = min(BANKS, max(1, BANKS * WORD // max(WORD, size)))
    worst = None
    for first in range(0, BANKS, at_a_time):
        words: dict[int, dict[int, int]] = {}
        for index, offset in enumerate(found.offsets):
            if first <= found.lane(index) < first + at_a_time:
                for word in range((start + offset) // WORD, (start + offset + size - 1) // WORD + 1):
                    words.setdefault(word % BANKS, {}).setdefault(word, index)
        bank = max(words.values(), key=len, default={})
        if len(bank) > 1 and (worst is None or len(bank) > worst.degree):
            one, other = sorted(bank.values())[:2]
            worst = Conflict(len(bank), one, other)
    return worst


def _report(facts: Facts, routine: Routine, access: Access, found: WarpAccess, conflict: Conflict, others: list[Access]) -> Diagnostic:
    apart = found.offsets[conflict.other] - found.offsets[conflict.one]
    notes = [f"lanes {found.lane(conflict.one)} and {found.lane(conflict.other)} access words that are {apart} bytes apart: one bank"]
    return facts.report(
        RULE,
        (*routine.where(access.instruction), access.child),
        f"{conflict.degree}-way bank conflict: the lanes are served in {conflict.degree} passes",
        *notes,
        *more(found, others),
        related=shown(routine, others),
    )


RULE = Rule(
    id="L001",
    name="bank-conflict",
    severity=Severity.INFO,
    summary="lanes of a warp that access different words of one bank of shared memory",
    why=(
        "Shared memory (5.1.7) has 32 banks; consecutive words of 4 bytes are in consecutive banks. Accesses of lanes to "
        "different banks, or to one word, take one pass together; each further word of the same bank takes another pass. Padding "
        "rows by a word, or swizzling columns, avoids that."
    ),
    bad="""
        .entry k()
        .reqntid 32
        {
        .shared .align 4 .b8 tile[4096];
        mov.u32 %r0, %tid.x;
        shl.b32 %r0, %r0, 7;
        mov.u32 %r1, tile;
        add.u32 %r1, %r1, %r0;
        st.shared.u32 [%r1], %r0;
        ret;
        }
    """,
    good="""
        .entry k()
        .reqntid 32
        {
        .shared .align 4 .b8 tile[4224];
        mov.u32 %r0, %tid.x;
        mul.lo.u32 %r0, %r0, 132;
        mov.u32 %r1, tile;
        add.u32 %r1, %r1, %r0;
        st.shared.u32 [%r1], %r0;
        ret;
        }
    """,
    proof=(
        "The addresses of all lanes of a warp are computed; an offset that all lanes share does not matter, and the alignment may "
        "be unknown."
    ),
    sanitizer="no tool looks for this; the profiler counts conflicts.",
    check=check,
    default=False,
)
