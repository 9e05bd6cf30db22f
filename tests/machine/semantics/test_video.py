"""Video instructions: parts of registers, saturation, second operations (ISA 9.7.18)."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
from instructions import operation

from ptxkit.machine.semantics import semantics_of


def run(opcode: str, a: int, b: int, c: int | None = None, /, negated: str = "", **parts: str) -> int:
    op = attrs.evolve(operation(opcode), parts=parts, negated=frozenset(negated))
    values: list[Any] = [np.uint32(v) for v in (a, b, c) if v is not None]
    return int(semantics_of(op).run(*values))


@pytest.mark.parametrize(
    ("opcode", "a", "b", "parts", "expected"),
    [
        ("vadd.s32.u32.s32", 0x80, 0xFF, {"a": ".b0", "b": ".b0"}, 0x7F),
        ("vsub.u32.u32.u32", 1, 2, {}, 0xFFFFFFFF),
        ("vsub.u32.u32.u32.sat", 1, 2, {}, 0),
        ("vadd.u32.u32.u32.sat", 1, 0xFFFFFFFF, {}, 0),
        ("vadd.s32.s32.s32.sat", 1, 0x7FFFFFFF, {}, 0x7FFFFFFF),
        ("vabsdiff.u32.s32.s32", 0x80000000, 0x7FFFFFFF, {}, 0xFFFFFFFF),
        ("vmin.s32.s32.u32", 0xFFFFFFFF, 5, {}, 0xFFFFFFFF),
        ("vmax.s32.s32.u32", 0xFFFF0000, 5, {"a": ".h1"}, 5),
        ("vshl.u32.u32.u32.clamp", 1, 40, {}, 0),
        ("vshl.u32.u32.u32.wrap", 1, 33, {}, 2),
        ("vshr.s32.s32.u32.clamp", 0x80000000, 99, {}, 0xFFFFFFFF),
    ],
)
def test_scalar(opcode: str, a: int, b: int, parts: dict[str, str], expected: int) -> None:
    assert run(opcode, a, b, **parts) == expected


def test_second_operation_and_merge() -> None:
    assert run("vadd.s32.s32.s32.min", 5, 6, 3) == 3
    assert run("vadd.u32.u32.u32.add", 5, 6, 3) == 14
    assert run("vadd.s32.s32.s32.sat", 100, 100, 0x11223344, d=".b1") == 0x11227F44
    assert run("vset.s32.u32.lt", 0xFFFFFFFF, 0) == 1


def test_multiply_and_add() -> None:
    assert run("vmad.s32.s32.s32", 0xFFFFFFFF, 3, 10) == 7
    assert run("vmad.s32.s32.s32", 2, 3, 10, negated="a") == 4
    assert run("vmad.s32.s32.s32", 2, 3, 10, negated="c") == 0xFFFFFFFC
    assert run("vmad.u32.u32.u32.po.shr7", 127, 1, 0) == 1
    assert run("vmad.u32.u32.u32.sat", 0x7FFFFFFF, 0x7FFFFFFF, 0) == 0xFFFFFFFF


def test_as_ptxas_writes_them_for_sm_90() -> None:
    """What an H200 gives where it is not what the manual's program gives."""
    assert run("vadd.u32.u32.u32.sat", 0xFFFFFFFF, 2) == 1
    assert run("vadd.u32.u32.u32.min", 0x80000000, 0, 0xFFFFFFFF) == 0xFFFFFFFF
    assert run("vshl.u32.u32.u32.sat.clamp", 2, 32) == 0
    assert run("vshl.u32.u32.u32.clamp.max", 0x80000000, 1, 5) == 0
    assert run("vadd.u32.u32.u32", 0x12345678, 0, 0xAAAABBBB, d=".h1") == 0x1234BBBB
    assert run("vmad.u32.u32.u32.sat", 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF) == 0
    assert run("vmad.u32.u32.u32.shr7", 0, 31, 0xFFFFFFFE) == 0xFFFFFFFF


def test_two_halves_and_four_bytes() -> None:
    assert run("vadd2.s32.s32.s32", 0x00010002, 0x00030004, 0) == 0x00040006
    assert run("vadd2.s32.s32.s32", 0x00010002, 0x00030004, 0xAAAABBBB, d=".h0") == 0xAAAA0006
    assert run("vadd2.s32.s32.s32.add", 0x00010002, 0x00030004, 100) == 110
    assert run("vadd4.u32.u32.u32.sat", 0xFF010203, 0x01010101, 0) == 0xFF020304
    assert run("vavrg2.s32.s32.s32", 0x0001FFFF, 0x0002FFFE, 0) == 0x0002FFFE
    assert run("vset4.u32.u32.lt.add", 0x00FF00FF, 0x01010101, 5) == 7
    assert run("vsub4.s32.s32.s32", 0x04030201, 0x08070605, 0, a=".b7654", b=".b3210") == 0x04040404
