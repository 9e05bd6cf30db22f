"""How many bytes a copy with a tensor map has at most, by what is announced."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses.framework.rule import Facts
from ptxkit.analyses.protocols.mbarrier.box_bytes import box_bytes

HEAD = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .align 64 .b8 other[128], .param .u32 size)
.reqntid 32
{
.reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
.shared .align 1024 .b8 tile[65536];
.shared .align 8 .b64 full;
mov.b64 %rd1, map;
mov.b64 %rd2, other;
mov.u32 %r1, 0;
ld.param.u32 %r2, [size];
mbarrier.init.shared::cta.b64 [full], COUNT;
"""
EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], {};\n"
COPY = "cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes [tile], [{}, {{%r1}}], [full];\n"
FIRST, OTHER = COPY.format("%rd1"), COPY.format("%rd2")

CASES = {
    "one": (1, EXPECT.format(16384) + FIRST, [16384]),
    "several of one map": (1, EXPECT.format(16384) + FIRST + FIRST, [8192, 8192]),
    "several maps": (1, EXPECT.format(16384) + FIRST + OTHER, [16384, 16384]),
    "expected in between": (1, EXPECT.format(16384) + FIRST + EXPECT.format(16384) + FIRST, [16384, 16384]),
    "several announce": (2, EXPECT.format(16384) + FIRST, [32768]),
    "not known": (1, EXPECT.format("%r2") + FIRST, [0]),
    "not with an arrival": (1, "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [full], 16384;\n" + FIRST, [0]),
}


@pytest.mark.parametrize("name", CASES)
def test_boxes(name: str) -> None:
    count, text, expected = CASES[name]
    routine = Facts(ptxkit.parse(HEAD.replace("COUNT", str(count)) + text + "ret;\n}\n")).routines[0]
    copies = [i for i, one in enumerate(routine.instructions) if one.opcode.text.startswith("cp.async.bulk")]

    assert [box_bytes(routine, i) for i in copies] == expected
