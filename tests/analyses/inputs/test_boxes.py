"""Boxes of tensor maps, by what is expected and by where copies write."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses.framework.rule import Facts
from ptxkit.analyses.inputs.boxes import box_of, is_guessed

HEAD = """.version 9.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 raw[];
.visible .entry k(.param .align 64 .b8 a[128], .param .align 64 .b8 b[128], .param .u32 n)
.reqntid 32
CLUSTER
{
.reg .pred %p<4>; .reg .b16 %rs<2>; .reg .b32 %r<16>; .reg .b64 %rd<4>;
.shared .align 8 .b64 full[4];
mov.b64 %rd1, a;
mov.b64 %rd2, b;
mov.u32 %r1, 0;
mov.b16 %rs1, 3;
mov.u32 %r2, raw;
mov.u32 %r3, full;
"""
EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [{}], {};\n"
COPY = "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes{} [{}], [{}, {{%r1}}], [{}]{};\n"
A, B = "%rd1", "%rd2"


def expect(amount: int, mbarrier: str = "%r3") -> str:
    return EXPECT.format(mbarrier, amount)


def copy(map_: str, target: str, mbarrier: str = "%r3", multicast: bool = False) -> str:
    return COPY.format(".multicast::cluster" if multicast else "", target, map_, mbarrier, ", %rs1" if multicast else "")


RING = """
ld.param.u32 %r4, [n];
mov.u32 %r5, 0;
L: shl.b32 %r6, %r5, 3; add.u32 %r7, %r3, %r6;
shl.b32 %r8, %r5, 14; add.u32 %r9, %r2, %r8;
shl.b32 %r10, %r5, 13; add.u32 %r11, %r2, %r10;
"""
ROUND = "add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r4; @%p1 bra L;\n"

CASES = {
    "one after the other": (expect(24576) + copy(A, "%r2") + copy(B, "%r2+16384"), (16384, 8192)),
    "expected after copying": (copy(A, "%r2") + copy(B, "%r2+16384") + expect(24576), (16384, 8192)),
    "each for itself": (expect(16384) + copy(A, "%r2") + expect(32768) + copy(B, "%r2+65536") + copy(B, "%r2+81920"), (16384, 16384)),
    "by the next stage": (
        expect(24576)
        + copy(A, "%r2")
        + copy(B, "%r2+65536")
        + expect(24576, "%r3+8")
        + copy(A, "%r2+16384", "%r3+8")
        + copy(B, "%r2+73728", "%r3+8"),
        (16384, 8192),
    ),
    "by the stride of a ring": (
        RING + expect(24576, "%r7") + copy(A, "%r9", "%r7") + copy(B, "%r11+65536", "%r7") + ROUND,
        (16384, 8192),
    ),
    "from each CTA of a cluster": (
        expect(32768 + 8192) + copy(A, "%r2", multicast=True) + copy(B, "%r2+16384"),
        (16384, 8192),
    ),
    "what does not add up": (expect(24576) + copy(A, "%r2") + copy(B, "%r2+32768") + copy(A, "%r2+65536"), None),
}


@pytest.mark.parametrize("name", CASES)
def test_boxes(name: str) -> None:
    text, sizes = CASES[name]
    head = HEAD.replace("CLUSTER", ".reqnctapercluster 2" if ".multicast" in text else "")
    (routine,) = Facts(ptxkit.parse(f"{head}{text}ret;\n}}\n")).routines

    assert is_guessed(routine) == (sizes is None)
    if sizes is not None:
        assert tuple([_bytes(box_of(routine, one, 2)[1]) for one in "ab"]) == sizes


def _bytes(box: tuple[int, ...]) -> int:
    return 2 * box[0] * box[1]
