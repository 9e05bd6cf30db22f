"""Integer arithmetic, extended precision, logic and shifts against Python's integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instructions import run
from sampling import examples

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

EXAMPLES = examples(100)
TYPES = {f".{kind}{bits}": (kind == "s", bits) for kind in "us" for bits in (16, 32, 64)}


def limits(type: str) -> tuple[int, int]:
    signed, bits = TYPES[type]
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


def integers(type: str) -> st.SearchStrategy[int]:
    least, most = limits(type)
    return st.one_of(st.integers(least, most), st.sampled_from([least, least + 1, 0, 1, most - 1, most]))


def wrapped(x: int, type: str) -> int:
    signed, bits = TYPES[type]
    x &= (1 << bits) - 1
    return x - (1 << bits) if signed and x >> (bits - 1) else x


def clamped(x: int, type: str) -> int:
    least, most = limits(type)
    return max(least, min(most, x))


def value(x: int, type: str) -> Any:
    signed, bits = TYPES[type]
    return np.dtype(f"{'' if signed else 'u'}int{bits}").type(x)


def quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def high(a: int, b: int, type: str) -> int:
    return a * b >> TYPES[type][1]


TWO: dict[str, Callable[[int, int, str], int]] = {
    "add": lambda a, b, t: a + b,
    "sub": lambda a, b, t: a - b,
    "mul.lo": lambda a, b, t: a * b,
    "mul.hi": high,
    "div": lambda a, b, t: quotient(a, b) if b else -1,
    "rem": lambda a, b, t: a - b * quotient(a, b) if b else -1,
    "min": lambda a, b, t: min(a, b),
    "max": lambda a, b, t: max(a, b),
}
THREE: dict[str, Callable[[int, int, int, str], int]] = {
    "mad.lo": lambda a, b, c, t: a * b + c,
    "mad.hi": lambda a, b, c, t: high(a, b, t) + c,
    "sad": lambda a, b, c, t: c + abs(a - b),
}


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("name", TWO)
@given(data=st.data())
@EXAMPLES
def test_two_operands(name: str, type: str, data: st.DataObject) -> None:
    a, b = data.draw(integers(type)), data.draw(integers(type))
    assert int(run(name + type, value(a, type), value(b, type))) == wrapped(TWO[name](a, b, type), type)


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("name", THREE)
@given(data=st.data())
@EXAMPLES
def test_three_operands(name: str, type: str, data: st.DataObject) -> None:
    a, b, c = (data.draw(integers(type)) for _ in range(3))
    assert int(run(name + type, value(a, type), value(b, type), value(c, type))) == wrapped(THREE[name](a, b, c, type), type)


@pytest.mark.parametrize("type", [".u16", ".s16", ".u32", ".s32"])
@given(data=st.data())
@EXAMPLES
def test_wide_products(type: str, data: st.DataObject) -> None:
    a, b = data.draw(integers(type)), data.draw(integers(type))
    wide = f"{type[:2]}{2 * TYPES[type][1]}" if TYPES[type][1] < 32 else f"{type[:2]}64"
    c = data.draw(integers(wide))
    assert int(run("mul.wide" + type, value(a, type), value(b, type))) == a * b
    assert int(run("mad.wide" + type, value(a, type), value(b, type), value(c, wide))) == wrapped(a * b + c, wide)


@given(a=integers(".s32"), b=integers(".s32"), c=integers(".s32"))
@EXAMPLES
def test_saturation(a: int, b: int, c: int) -> None:
    x, y, z = (value(v, ".s32") for v in (a, b, c))
    assert int(run("add.sat.s32", x, y)) == clamped(a + b, ".s32")
    assert int(run("sub.sat.s32", x, y)) == clamped(a - b, ".s32")
    assert int(run("mad.hi.sat.s32", x, y, z)) == clamped((a * b >> 32) + c, ".s32")


@given(a=integers(".u32"), b=integers(".u32"))
@EXAMPLES
def test_products_of_24_bits(a: int, b: int) -> None:
    x, y = a & 0xFFFFFF, b & 0xFFFFFF
    assert int(run("mul24.lo.u32", value(a, ".u32"), value(b, ".u32"))) == (x * y) & 0xFFFFFFFF
    assert int(run("mul24.hi.u32", value(a, ".u32"), value(b, ".u32"))) == (x * y) >> 16


@given(a=integers(".u64"), b=integers(".u64"), c=integers(".u64"))
@EXAMPLES
def test_a_product_without_carries(a: int, b: int, c: int) -> None:
    product = 0
    for bit in range(64):
        product ^= (a << bit) * (b >> bit & 1)
    x, y, z = (value(v, ".u64") for v in (a, b, c))
    assert int(run("clmad.lo.u64", x, y, z)) == (product & (1 << 64) - 1) ^ c
    assert int(run("clmad.hi.u64", x, y, z)) == (product >> 64) ^ c


@pytest.mark.parametrize("bits", [32, 64])
@given(data=st.data())
@EXAMPLES
def test_bits(bits: int, data: st.DataObject) -> None:
    a = data.draw(st.one_of(st.integers(0, (1 << bits) - 1), st.integers(0, bits).map(lambda n: (1 << n) - 1)))
    x = np.dtype(f"uint{bits}").type(a)
    assert int(run(f"popc.b{bits}", x)) == a.bit_count()
    assert int(run(f"clz.b{bits}", x)) == bits - a.bit_length()
    assert int(run(f"brev.b{bits}", x)) == int(f"{a:0{bits}b}"[::-1], 2)
    assert int(run(f"bfind.u{bits}", x)) == (a.bit_length() - 1) & 0xFFFFFFFF
    negative = a >> (bits - 1)
    found = ((a ^ -negative) & (1 << bits) - 1).bit_length() - 1
    assert int(run(f"bfind.shiftamt.s{bits}", x.view(f"int{bits}"))) == (bits - 1 - found if found >= 0 else 0xFFFFFFFF)


@pytest.mark.parametrize("type", [".u32", ".s32", ".u64", ".s64"])
@given(data=st.data(), pos=st.integers(0, 300), len=st.integers(0, 300))
@EXAMPLES
def test_bit_fields(type: str, data: st.DataObject, pos: int, len: int) -> None:
    """The loops of 9.7.1.19 and 9.7.1.20."""
    a, b = data.draw(integers(type)), data.draw(integers(type))
    bits = TYPES[type][1]
    # Beyond 255 the manual says nothing; the hardware has the low eight bits for words, and all for double words.
    counted = 255 if bits == 32 else -1
    p, n, whole = pos & counted, len & counted, (1 << bits) - 1
    sign = 0 if n == 0 or not TYPES[type][0] else (a >> min(p + n - 1, bits - 1)) & 1
    expected = sum((((a >> p + i) & 1) if i < n and p + i < bits else sign) << i for i in range(bits))
    at, count = np.uint32(pos), np.uint32(len)
    assert int(run("bfe" + type, value(a, type), at, count)) == wrapped(expected, type)
    unsigned = f".u{bits}"
    inserted = b & whole
    for i in range(n):
        if p + i < bits:
            inserted = inserted & ~(1 << p + i) | (a >> i & 1) << p + i
    x, y = value(a & whole, unsigned), value(b & whole, unsigned)
    assert int(run(f"bfi.b{bits}", x, y, at, count)) == inserted


@pytest.mark.parametrize(
    ("mask", "base", "offset", "found"),
    [
        *((0xAAAAAAAA, 3, 1, 3), (0xAAAAAAAA, 3, -1, 3), (0xAAAAAAAA, 2, 1, 3), (0xAAAAAAAA, 2, -1, 1)),
        *(
            (0xAAAAAAAA, 2, 0, 0xFFFFFFFF),
            (0xAAAAAAAA, 3, 0, 3),
            (0xF0, 0, 4, 7),
            (0xF0, 0, 5, 0xFFFFFFFF),
            (1, 31, -1, 0),
            (1, 32, -1, 0xFFFFFFFF),
        ),
    ],
)
def test_nth_set_bit(mask: int, base: int, offset: int, found: int) -> None:
    assert int(run("fns.b32", np.uint32(mask), np.uint32(base), np.int32(offset))) == found


def test_extensions_and_masks() -> None:
    assert int(run("szext.clamp.s32", np.int32(0x80), np.uint32(8))) == -128
    assert int(run("szext.wrap.u32", np.uint32(0xFFFFFFFF), np.uint32(32))) == 0
    assert int(run("szext.clamp.u32", np.uint32(0xFFFFFFFF), np.uint32(40))) == 0xFFFFFFFF
    assert int(run("bmsk.wrap.b32", np.uint32(1), np.uint32(2))) == 6
    assert int(run("bmsk.clamp.b32", np.uint32(32), np.uint32(4))) == 0
    assert int(run("bmsk.clamp.b32", np.uint32(4), np.uint32(99))) == 0xFFFFFFF0


def test_dot_products() -> None:
    a, b, c = np.uint32(0x01FF0280), np.uint32(0x7F80FF02), np.uint32(10)
    signed = [0x01, -1, 0x02, -128], [0x7F, -128, -1, 0x02]
    assert np.int32(run("dp4a.s32.s32", a, b, c)) == 10 + sum(x * y for x, y in zip(*signed, strict=True))
    assert int(run("dp2a.lo.u32.u32", a, b, c)) == 10 + 0x0280 * 0x02 + 0x01FF * 0xFF
    assert int(run("dp2a.hi.u32.u32", a, b, c)) == 10 + 0x0280 * 0x80 + 0x01FF * 0x7F


def test_packed() -> None:
    a, b = np.uint32(0xFFFF0001), np.uint32(0x00020003)
    assert int(run("add.u16x2", a, b)) == 0x00010004
    assert int(run("min.s16x2", a, b)) == 0xFFFF0001
    assert int(run("min.relu.s16x2", a, b)) == 0x00000001
    assert int(run("add.sat.u16x2", a, b)) == 0xFFFF0004
    assert int(run("sub.sat.s8x4", np.uint32(0x80010203), np.uint32(0x01010101))) == 0x80000102


@pytest.mark.parametrize("type", [".u32", ".s32", ".u64", ".s64"])
@given(data=st.data())
@EXAMPLES
def test_a_chain_is_a_longer_integer(type: str, data: st.DataObject) -> None:
    """Sums, differences and products of twice the size, by parts."""
    bits = TYPES[type][1]
    unsigned = f".u{bits}"
    part = integers(unsigned)
    a0, a1, b0, b1 = (data.draw(part) for _ in range(4))
    x0, x1, y0, y1 = (value(v, unsigned).view(value(0, type).dtype) for v in (a0, a1, b0, b1))
    low, carry = run("add.cc" + type, *_bits(x0, y0))
    high_part = run("addc" + type, *_bits(x1, y1), carry)
    a, b, whole = a0 | a1 << bits, b0 | b1 << bits, (1 << 2 * bits) - 1
    assert int(low) & (1 << bits) - 1 | (int(high_part) & (1 << bits) - 1) << bits == (a + b) & whole
    low, borrow = run("sub.cc" + type, *_bits(x0, y0))
    high_part, out = run("subc.cc" + type, *_bits(x1, y1), borrow)
    assert int(low) | int(high_part) << bits == (a - b) & whole and bool(out) == (a < b)


def _bits(*values: Any) -> tuple[Any, ...]:
    return tuple(v.view(f"uint{8 * v.dtype.itemsize}") for v in values)


@given(a=st.integers(0, (1 << 64) - 1), b=st.integers(0, (1 << 64) - 1))
@EXAMPLES
def test_a_product_of_words_by_a_chain(a: int, b: int) -> None:
    """As the manual multiplies two integers of 64 bits (9.7.2.6)."""
    a0, a1, b0, b1 = (np.uint32(v) for v in (a & 0xFFFFFFFF, a >> 32, b & 0xFFFFFFFF, b >> 32))
    zero = np.uint32(0)
    r0 = run("mul.lo.u32", a0, b0)
    r1 = run("mul.hi.u32", a0, b0)
    r1, carry = run("mad.lo.cc.u32", a0, b1, r1)
    r2 = run("madc.hi.u32", a0, b1, zero, carry)
    r1, carry = run("mad.lo.cc.u32", a1, b0, r1)
    r2, carry = run("madc.hi.cc.u32", a1, b0, r2, carry)
    r3 = run("addc.u32", zero, zero, carry)
    r2, carry = run("mad.lo.cc.u32", a1, b1, r2)
    r3 = run("madc.hi.u32", a1, b1, r3, carry)
    assert int(r0) | int(r1) << 32 | int(r2) << 64 | int(r3) << 96 == a * b


@pytest.mark.parametrize("lut", range(256))
def test_every_table_of_three_bits(lut: int) -> None:
    a, b, c = np.uint32(0xF0), np.uint32(0xCC), np.uint32(0xAA)
    assert int(run("lop3.b32", a, b, c, np.uint32(lut), lut=lut)) & 255 == lut


def test_a_table_with_a_predicate() -> None:
    d, p = run("lop3.and.b32", np.uint32(6), np.uint32(3), np.uint32(0), np.uint32(0xC0), np.True_, lut=0xC0)
    assert int(d) == 2 and bool(p)
    assert not run("lop3.and.b32", np.uint32(4), np.uint32(3), np.uint32(0), np.uint32(0xC0), np.True_, lut=0xC0)[1]


@pytest.mark.parametrize("type", [*TYPES, ".b16", ".b32", ".b64"])
@given(data=st.data())
@EXAMPLES
def test_shifts(type: str, data: st.DataObject) -> None:
    kind = type.replace("b", "u")
    a, bits = data.draw(integers(kind)), TYPES[kind][1]
    count = data.draw(st.one_of(st.integers(0, 70), st.sampled_from([255, 256, 65536, 1 << 31, (1 << 32) - 1])))
    n = np.uint32(count)
    assert int(run("shr" + type, value(a, kind), _count(n, type))) == a >> min(count, bits)
    assert int(run("shr" + type, value(a, kind), _count(n, type), b=count)) == a >> min(count, bits)
    if type[1] == "b":
        assert int(run("shl" + type, value(a, kind), n)) == wrapped(a << min(count, bits), kind)
        assert int(run("shl" + type, value(a, kind), n, b=count)) == wrapped(a << min(count, bits), kind)


def _count(n: Any, type: str) -> Any:
    """The semantics ask for a count with the dtype of the value."""
    return n.view(np.int32) if type == ".s32" else n


@given(a=integers(".u32"), b=integers(".u32"), c=st.one_of(st.integers(0, 70), integers(".u32")))
@EXAMPLES
def test_funnel_shifts(a: int, b: int, c: int) -> None:
    whole = a | b << 32
    x, y, n = (np.uint32(v) for v in (a, b, c))
    assert int(run("shf.l.clamp.b32", x, y, n)) == (whole << min(c, 32)) >> 32 & 0xFFFFFFFF
    assert int(run("shf.r.clamp.b32", x, y, n)) == whole >> min(c, 32) & 0xFFFFFFFF
    assert int(run("shf.l.wrap.b32", x, y, n)) == (whole << (c & 31)) >> 32 & 0xFFFFFFFF
    assert int(run("shf.r.wrap.b32", x, y, n)) == whole >> (c & 31) & 0xFFFFFFFF


def test_logic_of_predicates() -> None:
    assert run("xor.pred", np.array([True, False]), np.True_).tolist() == [False, True]
    assert run("not.pred", np.array([True, False])).tolist() == [False, True]
    assert int(run("cnot.b32", np.uint32(0))) == 1
