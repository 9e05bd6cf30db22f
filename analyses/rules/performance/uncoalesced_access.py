"""L002 uncoalesced-access, by request."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.memory.accesses import Access, accesses
from ptxkit.analyses.protocols.performance.warp_accesses import WarpAccess, more, shown, warp_accesses
from ptxkit.diagnostics import Diagnostic, Severity

SECTOR = 32
"""Bytes of a global memory sector."""
FACTOR = 2
"""Reported from this multiple of the necessary sectors on."""


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Accesses to global memory with a large share of unused bytes in the sectors moved: one of each kind in a function."""
    for routine in facts.routines:
        kinds: dict[tuple[str, int, int], list[tuple[Access, WarpAccess]]] = {}
        for access in accesses(routine):
            if access.space != ".global" or access.memory.access not in ("read", "write") or not access.bytes:
                continue
            found = warp_accesses(routine).of(access)
            wasted = _wasted(found, access.bytes) if found else None
            if found and wasted:
                kinds.setdefault((access.memory.access, *wasted), []).append((access, found))
        for (_, accessed, sectors), same in kinds.items():
            yield _report(facts, routine, *same[0], accessed, sectors, [access for access, _ in same[1:]])


def _wasted(found: WarpAccess, size: int) -> tuple[int, int] | None:
    """The bytes accessed and the sectors moved, if these are too many."""
    accessed = len(set(found.offsets)) * size
    # the position of the first address in its sector may be unknown: assume the most favorable one
    sectors = min(_sectors(found, size, start) for start in found.starts(SECTOR, size))
    return (accessed, sectors) if sectors >= FACTOR * _needed(accessed) else None


def _needed(accessed: int) -> int:
    """The number of sectors that hold so many bytes."""
    return -(-accessed // SECTOR)


def _report(
    facts: Facts, routine: Routine, access: Access, found: WarpAccess, accessed: int, sectors: int, others: list[Access]
) -> Diagnostic:
    return facts.report(
        RULE,
        (*routine.where(access.instruction), access.child),
        f"a warp moves {sectors} sectors of {SECTOR} bytes to use {accessed} bytes, which {_needed(accessed)} would hold",
        f"lane {found.lane(1)} is {found.offsets[1] - found.offsets[0]} bytes from lane {found.lane(0)}",
        *more(found, others),
        related=shown(routine, others),
    )


def _sectors(found: WarpAccess, size: int, shift: int) -> int:
    return len({sector for offset in found.offsets for sector in ((offset + shift) // SECTOR, (offset + shift + size - 1) // SECTOR)})


RULE = Rule(
    id="L002",
    name="uncoalesced-access",
    severity=Severity.INFO,
    summary="lanes of a warp that access global memory far apart",
    why=(
        "Global memory (5.1.4) is moved in sectors of 32 bytes. If the lanes of a warp access adjacent addresses, one sector "
        "serves many of them; if the addresses are far apart, most of what is moved is not used."
    ),
    bad="""
        .entry k(.param .u64 p)
        .reqntid 128
        {
        ld.param.u64 %rd1, [p];
        mov.u32 %r0, %tid.x;
        mul.wide.u32 %rd2, %r0, 64;
        add.u64 %rd1, %rd1, %rd2;
        st.global.u32 [%rd1], %r0;
        ret;
        }
    """,
    good="""
        .entry k(.param .u64 p)
        .reqntid 128
        {
        ld.param.u64 %rd1, [p];
        mov.u32 %r0, %tid.x;
        mul.wide.u32 %rd2, %r0, 4;
        add.u64 %rd1, %rd1, %rd2;
        st.global.u32 [%rd1], %r0;
        ret;
        }
    """,
    proof=(
        "The addresses of all lanes of a warp are computed; the position of the first one in its sector is assumed to be the best "
        "for the program."
    ),
    sanitizer="no tool looks for this; the profiler counts sectors.",
    check=check,
    default=False,
)
