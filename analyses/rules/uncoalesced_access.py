"""L002 uncoalesced-access."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.accesses import Access, accesses
from ptxkit.analyses.routine import Routine
from ptxkit.analyses.rule import Facts, Rule
from ptxkit.analyses.warp_accesses import WarpAccess, alike, warp_accesses
from ptxkit.diagnostics import Diagnostic, Severity

SECTOR = 32
"""Bytes that global memory hands out together."""
FACTOR = 2
"""Reported from so many times the sectors on that would do."""


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Accesses to global memory of which a good part of what is moved is not used."""
    for routine in facts.routines:
        plain = [access for access in accesses(routine) if access.space == ".global" and access.memory.access in ("read", "write")]
        known = [(access, found) for access in plain if access.bytes and (found := warp_accesses(routine).of(access))]
        for group in alike(routine, known):
            access, found = group[0]
            yield from _told(facts, routine, access, found, access.bytes or 0, len(group) - 1)


def _told(facts: Facts, routine: Routine, access: Access, found: WarpAccess, size: int, more: int) -> Iterator[Diagnostic]:
    touched = len(set(found.offsets)) * size
    needed = -(-touched // SECTOR)
    # where the first address lies in its sector is not known: what is best for the program counts
    sectors = min(_sectors(found, size, shift) for shift in range(0, SECTOR, min(size, SECTOR)))
    if sectors < FACTOR * needed:
        return
    notes = [f"lane {found.lane(1)} is {found.offsets[1] - found.offsets[0]} bytes from lane {found.lane(0)}"]
    if more:
        notes.append(f"{more} more in this block {'does' if more == 1 else 'do'} the same")
    if found.assumption:
        notes.append(f"taken for granted: {found.assumption}")
    yield facts.report(
        RULE,
        (*routine.where(access.instruction), access.child),
        f"a warp moves {sectors} sectors of {SECTOR} bytes to use {touched} bytes, which {needed} would hold",
        *notes,
    )


def _sectors(found: WarpAccess, size: int, shift: int) -> int:
    return len({sector for offset in found.offsets for sector in ((offset + shift) // SECTOR, (offset + shift + size - 1) // SECTOR)})


RULE = Rule(
    id="L002",
    name="uncoalesced-access",
    severity=Severity.INFO,
    summary="lanes of a warp that touch global memory far apart",
    why="Global memory (5.1.4) moves in sectors of 32 bytes. Where the lanes of a warp touch addresses side by side, one sector serves many"
    " of them; where they are far apart, most of what is moved is thrown away.",
    bad=".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 p)\n.reqntid 128\n{\n.reg .b32 %r<4>;\n.reg .b64 %rd<4>;\n"
    "ld.param.u64 %rd1, [p];\nmov.u32 %r0, %tid.x;\nmul.wide.u32 %rd2, %r0, 64;\nadd.u64 %rd1, %rd1, %rd2;\nst.global.u32 [%rd1], %r0;\n"
    "ret;\n}",
    good=".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 p)\n.reqntid 128\n{\n.reg .b32 %r<4>;\n.reg .b64 %rd<4>;\n"
    "ld.param.u64 %rd1, [p];\nmov.u32 %r0, %tid.x;\nmul.wide.u32 %rd2, %r0, 4;\nadd.u64 %rd1, %rd1, %rd2;\nst.global.u32 [%rd1], %r0;\n"
    "ret;\n}",
    check=check,
    default=False,
)
