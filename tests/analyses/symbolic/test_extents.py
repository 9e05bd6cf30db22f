"""How far addresses may lie from a variable: over threads, rings, bits that are put in or cut, and counters that nothing is known of."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses.framework.rule import Facts
from ptxkit.analyses.memory.accesses import accesses
from ptxkit.analyses.symbolic.extents import extents

HEAD = """.version 9.0
.target sm_90a
.address_size 64
.extern .shared .align 128 .b8 pool[];
.visible .entry k(.param .u32 count)
.reqntid 128
{
.reg .pred %p<4>; .reg .b32 %r<16>;
mov.u32 %r1, %tid.x;
mov.u32 %r2, pool;
ld.param.u32 %r9, [count];
"""

ADDRESSES = {
    "threads": ("shl.b32 %r3, %r1, 2;\nadd.u32 %r4, %r2, %r3;\nadd.u32 %r4, %r4, 64;\nst.shared.u32 [%r4], %r1;\n", (64, 572)),
    "swizzled": ("shl.b32 %r3, %r1, 4;\nand.b32 %r3, %r3, 112;\nxor.b32 %r4, %r2, %r3;\nst.shared.u32 [%r4+256], %r1;\n", (256, 368)),
    "cut": ("add.u32 %r4, %r2, 300;\nand.b32 %r4, %r4, -128;\nst.shared.u32 [%r4], %r1;\n", (256, 383)),
    "chosen": (
        "setp.lt.u32 %p1, %r9, 4;\nadd.u32 %r3, %r2, 16;\nadd.u32 %r4, %r2, 32;\nselp.b32 %r4, %r3, %r4, %p1;\nst.shared.u32 [%r4], %r1;\n",
        (16, 32),
    ),
    "ring": (
        "mov.u32 %r5, 0;\nmov.u32 %r6, 0;\nLOOP:\nmul.lo.u32 %r4, %r5, 1024;\nadd.u32 %r4, %r4, %r2;\nst.shared.u32 [%r4+8], %r1;\n"
        "add.u32 %r7, %r5, 1;\nsetp.eq.u32 %p1, %r7, 3;\nselp.b32 %r5, 0, %r7, %p1;\n"
        "add.u32 %r6, %r6, 1;\nsetp.lt.u32 %p2, %r6, %r9;\n@%p2 bra LOOP;\n",
        (8, 2056),
    ),
    "turns back": (
        "mov.u32 %r5, 0;\nLOOP:\nadd.u32 %r6, %r5, 2;\nand.b32 %r6, %r6, -4;\nsub.u32 %r6, %r5, %r6;\nadd.u32 %r6, %r6, 2;\n"
        "shl.b32 %r6, %r6, 8;\nadd.u32 %r4, %r6, %r2;\nst.shared.u32 [%r4], %r1;\n"
        "add.u32 %r5, %r5, 1;\nsetp.lt.u32 %p2, %r5, 9;\n@%p2 bra LOOP;\n",
        (0, 768),
    ),
    "part of a cluster": (
        "mov.u32 %r3, %cluster_ctarank;\nmov.u32 %r5, %cluster_nctaid.x;\nrem.u32 %r6, %r3, %r5;\ndiv.u32 %r7, 1024, %r5;\n"
        "mul.lo.u32 %r6, %r6, %r7;\nadd.u32 %r4, %r2, %r6;\nst.shared.u32 [%r4+64], %r1;\n",
        (64, 64 + 15 * 1024),
    ),
    "without what goes in": (
        "mov.u32 %r3, %cluster_ctarank;\nmov.u32 %r5, %cluster_nctaid.x;\ndiv.u32 %r6, %r3, %r5;\nmul.lo.u32 %r6, %r6, %r5;\n"
        "sub.u32 %r6, %r3, %r6;\nshl.b32 %r6, %r6, 4;\nadd.u32 %r4, %r2, %r6;\nst.shared.u32 [%r4], %r1;\n",
        (0, 240),
    ),
    "unknown": ("shl.b32 %r3, %r9, 4;\nadd.u32 %r4, %r2, %r3;\nst.shared.u32 [%r4], %r1;\n", None),
}


@pytest.mark.parametrize("name", ADDRESSES)
def test_ranges_of_addresses(name: str) -> None:
    text, expected = ADDRESSES[name]
    routine = Facts(ptxkit.parse(HEAD + text + "ret;\n}\n")).routines[0]
    (access,) = [access for access in accesses(routine) if access.writes]
    assert access.address is not None
    (root,) = [leaf for leaf in access.address.leaves() if leaf.operator == "address"]

    assert extents(routine).of(access.address, root) == expected
