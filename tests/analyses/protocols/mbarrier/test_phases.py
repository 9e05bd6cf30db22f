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


def test_a_launch_that_only_repeats_its_phases_ends() -> None:
    text = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k() .reqntid 32
{
    .shared .align 8 .b64 bar;
    .reg .pred p, q; .reg .b32 r, parity, round; .reg .b64 state;
    mov.u32 r, %tid.x; setp.eq.u32 p, r, 0;
    @p mbarrier.init.shared.b64 [bar], 32;
    bar.sync 0;
    mov.u32 parity, 0; mov.u32 round, 0;
    AGAIN: mbarrier.arrive.shared.b64 state, [bar];
    WAIT: mbarrier.try_wait.parity.shared.b64 q, [bar], parity;
    @!q bra WAIT;
    xor.b32 parity, parity, 1;
    add.u32 round, round, 1;
    setp.lt.u32 p, round, ROUNDS;
    @p bra AGAIN;
    ret;
}
"""
    few, many = [mbarrier_phases(routines(ptxkit.parse(text.replace("ROUNDS", rounds)))[0])[0] for rounds in ("20", "3000")]

    assert few.completed == 20
    assert 20 < many.completed < 1500
