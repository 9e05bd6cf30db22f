"""What is left out where nobody can tell (which NaN it is, what has been flushed before) changes no result."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ptxkit.machine import Machine

EDGES = (0, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x80800000, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0xFFC12345, 0x7F812345)
HEADER = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{
    .reg .b32 %t, %r; .reg .b64 %a, %b, %o; .reg .f32 %f<8>; .reg .pred %p;
    ld.param.u64 %a, [in]; ld.param.u64 %b, [out]; mov.u32 %t, %tid.x;
    mul.wide.u32 %o, %t, 32; add.u64 %a, %a, %o; add.u64 %b, %b, %o;
"""
FORMS = (
    "add{ftz}{sat}.f32 {d}, {a}, {b}",
    "sub{ftz}{sat}.f32 {d}, {a}, {b}",
    "mul{ftz}{sat}.f32 {d}, {a}, {b}",
    "fma.rn{ftz}{sat}.f32 {d}, {a}, {b}, {c}",
    "fma.rn{ftz}{sat}.f32 {d}, {a}, 0f40000000, {c}",
    "mul{ftz}.f32 {d}, {a}, 0f00000001",
    "max{ftz}.f32 {d}, {a}, {b}",
    "mov.f32 {d}, {a}",
    "mov.b32 %r, {a}; xor.b32 %r, %r, 1; mov.b32 {d}, %r",
    "setp.lt{ftz}.f32 %p, {a}, {b}; selp.f32 {d}, {a}, {c}, %p",
    "setp.gt.u32 %p, %t, 20; @%p add{ftz}.f32 {d}, {a}, {b}",
)


def program(seed: int, between: str) -> str:
    """A kernel of operations drawn by lot on eight registers, with something between each and the next."""
    lot = random.Random(seed)
    lines = [f"ld.global.f32 %f{i}, [%a + {4 * i}];" for i in range(8)]
    for number in range(40):
        d, a, b, c = (f"%f{lot.randrange(8)}" for _ in range(4))
        ftz, sat = lot.choice(("", ".ftz")), lot.choice(("", "", "", ".sat"))
        lines.append(lot.choice(FORMS).format(d=d, a=a, b=b, c=c, ftz=ftz, sat=sat) + ";" + between.format(number))
    lines += [f"st.global.f32 [%b + {4 * i}], %f{i};" for i in range(8)]
    return HEADER + "\n".join(lines) + "\nret;\n}\n"


@pytest.mark.parametrize("seed", range(24))
def test_instructions_in_one_block_give_what_each_in_its_own_gives(seed: int) -> None:
    values = np.random.default_rng(seed).integers(0, 1 << 32, (64, 8), np.uint32)
    values[::2] = np.random.default_rng(seed + 1).choice(np.array(EDGES, np.uint32), (32, 8))
    results = []
    for between in ("", " bra.uni L{0}; L{0}:"):
        machine = Machine("sm_80")
        out = np.zeros_like(values)
        machine.launch(machine.load(program(seed, between)), "k", values.copy(), out, grid=1, block=64)
        results.append(out)
    assert (results[0] == results[1]).all()
