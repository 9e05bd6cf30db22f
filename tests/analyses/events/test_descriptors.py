"""The addresses in descriptors, as programs make and step them; and fences that are missing between warps of different tasks."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses.events.descriptors import described, described_operands, descriptors, matrices, matrix_bytes
from ptxkit.analyses.framework.rule import Facts
from ptxkit.analyses.protocols.proxy.unfenced_handoffs import unfenced_handoffs
from ptxkit.analyses.symbolic.values import values

HEAD = """.version 9.0
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 pool[];
.visible .entry k(.param .u32 stage)
.reqntid 128
{
.reg .pred %p<4>; .reg .b32 %r<24>; .reg .b64 %rd<8>;
mov.u32 %r1, pool;
add.u32 %r2, %r1, 2048;
"""

PRODUCT = "tcgen05.mma.cta_group::1.kind::f16 [%r20], %rd1, 0, %r21, 0;\nret;\n}\n"

MADE = {
    "and(shr)": "shr.u32 %r3, %r2, 4;\nand.b32 %r3, %r3, 16383;\ncvt.u64.u32 %rd1, %r3;\nor.b64 %rd1, %rd1, 4611756662049472512;\n",
    "shr(and)": "and.b32 %r3, %r2, 262128;\nshr.u32 %r3, %r3, 4;\ncvt.u64.u32 %rd1, %r3;\nor.b64 %rd1, %rd1, 4611756662049472512;\n",
    "handed out": "shr.u32 %r4, %r2, 4;\nand.b32 %r4, %r4, 16383;\nshfl.sync.idx.b32 %r3, %r4, 0, 31, -1;\ncvt.u64.u32 %rd1, %r3;\n"
    "or.b64 %rd1, %rd1, 4611756662049472512;\n",
}

STEPPED = {
    "whole": "add.s64 %rd1, %rd1, 2;\n",
    "lower half": "mov.b64 {%r5, %r6}, %rd1;\nadd.s32 %r5, %r5, 2;\nmov.b64 %rd1, {%r5, %r6};\n",
}


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("stepped", STEPPED)
def test_the_address_in_a_descriptor_is_seen_with_what_is_added(made: str, stepped: str) -> None:
    routine = Facts(ptxkit.parse(HEAD + MADE[made] + STEPPED[stepped] + PRODUCT)).routines[0]
    (_, term), *_ = descriptors(routine)

    assert str(described(values(routine), term)) == "pool + 2080"


def test_what_another_field_holds_is_no_part_of_the_address() -> None:
    body = MADE["and(shr)"] + "ld.param.u32 %r7, [stage];\ncvt.u64.u32 %rd2, %r7;\nshl.b64 %rd2, %rd2, 32;\nadd.s64 %rd1, %rd1, %rd2;\n"
    routine = Facts(ptxkit.parse(HEAD + body + PRODUCT)).routines[0]
    (_, term), *_ = descriptors(routine)

    assert str(described(values(routine), term)) == "pool + 2048"


ROUNDED = {
    "add.u32 %r2, %r2, 1023;\nand.b32 %r2, %r2, -1024;\n": "and(pool + 3071, -1024)",
    "and.b32 %r2, %r2, -1024;\n": "pool + 2048",
}


@pytest.mark.parametrize("rounded", ROUNDED)
def test_an_address_that_was_rounded_is_not_the_one_before(rounded: str) -> None:
    pool = HEAD if "1023" not in rounded else HEAD.replace(".align 1024", ".align 16")
    routine = Facts(ptxkit.parse(pool + rounded + MADE["shr(and)"] + PRODUCT)).routines[0]
    matrix, *_ = matrices(routine)

    assert str(matrix.rows[0]) == ROUNDED[rounded]


STRIDED = "cvt.u64.u32 %rd1, %r3;\nor.b64 %rd1, %rd1, 4611686293305294848;\n"
"""1024 bytes from eight rows to the next, swizzled in 128 bytes."""
MMAS = {
    # M 128, N 64
    "mov.u32 %r21, 135266320;\ntcgen05.mma.cta_group::1.kind::f16 [%r20], %rd1, 0, %r21, 0;\n": ["pool + 2048", "pool + 17408"],
    # the same with columns one behind the other
    "mov.u32 %r21, 135299088;\ntcgen05.mma.cta_group::1.kind::f16 [%r20], %rd1, 0, %r21, 0;\n": ["pool + 2048"],
    "ld.param.u32 %r21, [stage];\ntcgen05.mma.cta_group::1.kind::f16 [%r20], %rd1, 0, %r21, 0;\n": ["pool + 2048"],
}


@pytest.mark.parametrize("product", MMAS)
def test_where_the_last_rows_of_a_matrix_lie(product: str) -> None:
    body = "shr.u32 %r3, %r2, 4;\nand.b32 %r3, %r3, 16383;\n" + STRIDED
    matrix, *_ = matrices(Facts(ptxkit.parse(HEAD + body + product + "ret;\n}\n")).routines[0])

    assert [str(row) for row in matrix.rows] == MMAS[product]


@pytest.mark.parametrize(("lane", "lanes"), [("0", 1), ("3", 0)])
def test_whose_address_is_handed_out(lane: str, lanes: int) -> None:
    body = (
        "mov.u32 %r5, %laneid;\nshl.b32 %r5, %r5, 5;\nadd.u32 %r2, %r2, %r5;\nshr.u32 %r4, %r2, 4;\nand.b32 %r4, %r4, 16383;\n"
        f"shfl.sync.idx.b32 %r3, %r4, {lane}, 31, -1;\ncvt.u64.u32 %rd1, %r3;\n"
    )
    matrix, *_ = matrices(Facts(ptxkit.parse(HEAD + body + PRODUCT)).routines[0])

    assert matrix.lanes == lanes
    assert bool(matrix.rows) == bool(lanes)


FENCE = "fence.proxy.async.shared::cta;\n"


def tasks(fences: list[str]) -> str:
    """Warps that write a tile again and again and tell of it each time, and others that wait for them and copy it."""
    write = "st.shared.u32 [%r4+{at}], %r3;\n{fence}mbarrier.arrive.shared::cta.b64 _, [pool+{object}];\n"
    writes = "".join([write.format(at=2048, fence=fence, object=8 * i) for i, fence in enumerate(fences)])
    read = (
        "W{i}: mbarrier.try_wait.parity.shared::cta.b64 %p2, [pool+{object}], 0;\n@!%p2 bra W{i};\n"
        "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [pool+{at}], 512;\n"
    )
    reads = "".join([read.format(i=i, at=2048, object=8 * i) for i in range(len(fences))])
    start = "mov.u32 %r3, %tid.x;\nshl.b32 %r4, %r3, 2;\nadd.u32 %r4, %r4, %r1;\nsetp.lt.u32 %p1, %r3, 64;\n@%p1 bra READ;\n"
    return (
        HEAD
        + start.replace("add.u32 %r4, %r4, %r1;", "add.u32 %r4, %r4, %r1;\nsub.u32 %r4, %r4, 256;")
        + writes
        + "ret;\nREAD:\n"
        + reads
        + "ret;\n}\n"
    )


def test_warps_with_other_tasks_read_what_was_not_fenced() -> None:
    def found(fences: list[str]) -> list[tuple[bool, bool]]:
        routine = Facts(ptxkit.parse(tasks(fences))).routines[0]
        return [(one.fence >= 0, one.crossing.is_guess) for one in unfenced_handoffs(routine)]

    assert found([FENCE] * 4) == []
    # no fence at all
    assert found([""]) == [(False, False)]
    # a fence that comes later is none for who has been told
    assert found(["", FENCE, FENCE, FENCE]) == [(True, False)]
    assert found(["", FENCE]) == [(True, False)]
    # whoever reads has waited for what stands before the first fence
    assert found(["", "", FENCE, FENCE, FENCE]) == [(True, False)]


SWIZZLED = "shr.u32 %r3, %r2, 4;\nand.b32 %r3, %r3, 16383;\ncvt.u64.u32 %rd1, %r3;\nor.b64 %rd1, %rd1, {};\n"
"""Rows of 128 bytes that are swizzled, eights of them 1024 bytes apart, and parts 16384 bytes apart the other way."""
FIELDS = 2 << 61 | 64 << 32 | 1024 << 16
SIZES = {
    # 128 x 32 in bits 24 to 28, and 17 to 22
    "rows": (8 << 24 | 4 << 17, {"a": 16 * 1024, "b": 4 * 1024}),
    "columns": (8 << 24 | 4 << 17 | 3 << 15, {"a": 16384 + 1024 + 1024, "b": 16384 + 1024}),
}


@pytest.mark.parametrize("name", SIZES)
def test_how_many_bytes_a_matrix_has_at_most(name: str) -> None:
    word, expected = SIZES[name]
    product = f"mov.u32 %r21, {word};\ntcgen05.mma.cta_group::1.kind::f16 [%r20], %rd1, %rd1, %r21, 0;\nret;\n}}\n"
    routine = Facts(ptxkit.parse(HEAD + SWIZZLED.format(FIELDS) + product)).routines[0]
    found = {operand: matrix_bytes(routine, i, operand, term) for i, operand, term in described_operands(routine)}

    assert found["a"] == expected["a"]
    assert found["b"] <= expected["b"]


@pytest.mark.parametrize("fields", [64 << 32, 2 << 61])
def test_what_is_not_swizzled_or_has_no_stride_may_be_anywhere(fields: int) -> None:
    product = f"mov.u32 %r21, {SIZES['rows'][0]};\n" + PRODUCT.replace(", 0, %r21", ", %rd1, %r21")
    routine = Facts(ptxkit.parse(HEAD + SWIZZLED.format(fields) + product)).routines[0]

    assert {matrix_bytes(routine, i, operand, term) for i, operand, term in described_operands(routine)} == {0}
