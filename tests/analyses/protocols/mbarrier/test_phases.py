"""The lives of mbarrier objects."""

from __future__ import annotations

from pathlib import Path

import ptxkit
from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.protocols.mbarrier.phases import mbarrier_phases

KERNELS = Path(__file__).resolve().parents[4] / "fixtures" / "kernels"


def test_a_ring_of_copies() -> None:
    module = ptxkit.parse((KERNELS / "tma_1d.sm_90a.ptx").read_text(encoding="utf-8"))
    routine = next(one for one in routines(module) if one.name == "bulk_ring")
    found = {one.name.partition("E")[2][1:]: one for one in mbarrier_phases(routine)}

    assert set(found) == {"full", "full+8", "full+16", "empty", "empty+8", "empty+16"}
    full, empty = found["full"], found["empty"]
    assert (full.count, empty.count) == (1, 256)
    assert [threads for _, threads in full.arrives] == [1]
    assert [threads for _, threads in full.waits] == [256]
    assert [(phase.expected, phase.copied, phase.parity) for phase in full.phases] == [(1024, 1024, number % 2) for number in range(4)]
    assert [phase.expected for phase in empty.phases] == [0] * 4


def test_a_kernel_without_objects_has_none() -> None:
    module = ptxkit.parse((KERNELS / "reduce.sm_90a.ptx").read_text(encoding="utf-8"))

    assert all(mbarrier_phases(routine) == () for routine in routines(module))
