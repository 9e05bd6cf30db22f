"""Bytes that threads touch, against a list of them; and addresses that are swizzled, against the numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import ptxkit
from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.memory.regions import Region, Regions, regions
from ptxkit.analyses.numbers.known_bits import bits as known_bits
from ptxkit.analyses.symbolic.evaluate import number_of
from ptxkit.analyses.symbolic.simplify import new_terms

SOURCE = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k()
.reqntid 32, 1, 1
{
.reg .b32 %r<4>;
.shared .align 16 .b8 buffer[4096];
mov.u32 %r1, buffer;
mov.u32 %r2, %tid.x;
shl.b32 %r3, %r2, 2;
add.s32 %r1, %r1, %r3;
ld.shared.u32 %r2, [%r1];
ret;
}
"""


def made() -> Regions:
    (routine,) = routines(ptxkit.parse(SOURCE))
    return regions(routine)


REGIONS = made()
TERMS = REGIONS.values.terms
TID = TERMS.leaf("special", 32, ("%tid.x",))
BASE = (("buffer", ()), TERMS.constant(0, 32))


def region(stride: int, offset: int, size: int, threads: int) -> Region:
    return Region(BASE, TERMS.scale(TID, stride), offset, size, threads, True)


touches = st.builds(region, st.integers(0, 20), st.integers(-64, 64), st.integers(1, 16), st.integers(1, 2**32 - 1))


def touched(one: Region, thread: int) -> set[int]:
    factor = next((factor for atom, factor in one.moving.linear[1] if atom is TID), 0)
    start = one.offset + factor * thread
    return set(range(start, start + one.bytes))


class TestMeet:
    @given(touches, touches)
    def test_threads_that_meet_do(self, a: Region, b: Region) -> None:
        for others in (None, True, False):
            found = REGIONS.overlap(a, b, others)
            pairs = [
                (i, j)
                for i in range(32)
                for j in range(32)
                if a.threads >> i & 1 and b.threads >> j & 1 and (others is None or (i != j) is others) and touched(a, i) & touched(b, j)
            ]

            assert (found in pairs) if pairs else found is None


class TestSwizzles:
    @given(st.integers(0, 1023), st.integers(0, 255), st.integers(0, 6), st.integers(0, 1023), st.integers(0, 2**20))
    def test_an_aligned_base_stays_out(self, offset: int, mask: int, shift: int, value: int, base: int) -> None:
        terms = new_terms()
        start = terms.leaf("address", 32, ("s",), known_bits(1023, 0, 32))
        inner = terms.leaf("parameter", 32, ("v",))
        address = terms.add(terms.add(start, inner), terms.constant(offset, 32))
        turned = terms.apply("and", 32, (terms.apply("shr.u", 32, (address, terms.constant(shift, 32))), terms.constant(mask, 32)))
        swizzled = terms.apply("xor", 32, (address, turned))
        number = base * 1024 + value + offset & (1 << 32) - 1

        found = number_of(swizzled, lambda leaf: base * 1024 & (1 << 32) - 1 if leaf is start else value)

        assert found == number ^ (number >> shift & mask)
