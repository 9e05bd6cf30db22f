"""Barriers that are missing between two accesses."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.uniformity.levels import Level
from ptxkit.rewriters.repairs.candidate import BARRIER, WARP_BARRIER, Candidate, insertion
from ptxkit.rewriters.repairs.trouble import Trouble

OF_ALL_LANES = "bar.warp.sync 0xffffffff;"
OF_THE_CTA = "bar.sync 0;"
FAMILIES = "SAMTG"
"""Rules about the order of two threads."""


def inserted(trouble: Trouble) -> Iterator[Candidate]:
    """A barrier of the warp or of the CTA on every path from one access to the other (9.7.14.1, 9.7.14.2)."""
    if trouble.family not in FAMILIES or trouble.is_of_a_thread:
        return
    if trouble.is_of_a_warp:
        for place in trouble.common(Level.WARP):
            yield insertion(trouble, place, WARP_BARRIER, OF_ALL_LANES)
    for place in trouble.common(Level.CTA):
        yield insertion(trouble, place, BARRIER, OF_THE_CTA)
