"""The substitutions of arithmetic in exact numbers: what is written instead gives the same bits, for every kind of number.

Both sides are the text itself: what retarget writes is run here by a small machine whose operations are those of the manual, computed with
fractions and rounded once at the end.
"""

from __future__ import annotations

import itertools
import math
import random
import struct
from collections.abc import Callable, Iterator
from fractions import Fraction

import pytest

import ptxkit
from ptxkit.rewriters import Refused
from ptxkit.rewriters.retarget import retarget
from ptxkit.syntax import Block, Guard, Instruction, Node

Number = Fraction | float
"""What bits stand for: a fraction, or a float that is an infinity, a zero with its sign, or no number."""

FORMATS = {".bf16": (8, 7), ".f16": (5, 10), ".f32": (8, 23), ".f64": (11, 52)}
"""How many bits the exponent and the fraction of a type have."""

NOTHING = {".bf16": 0x7FFF, ".f16": 0x7FFF, ".f32": 0x7FFFFFFF, ".f64": 0xFFF8000000000000}
"""What operations give that have no number to give."""


def value(bits: int, kind: str) -> Number:
    exponent_bits, fraction_bits = FORMATS[kind]
    exponent, fraction = bits >> fraction_bits & (1 << exponent_bits) - 1, bits & (1 << fraction_bits) - 1
    sign = -1 if bits >> exponent_bits + fraction_bits & 1 else 1
    if exponent == (1 << exponent_bits) - 1:
        return math.nan if fraction else sign * math.inf
    if not exponent and not fraction:
        return math.copysign(0.0, sign)
    bias = (1 << exponent_bits - 1) - 1
    step = Fraction(2) ** (max(exponent, 1) - bias - fraction_bits)
    return sign * step * (fraction + ((1 << fraction_bits) if exponent else 0))


def rounded(number: Number, kind: str, how: str = ".rn") -> int:
    """The bits of the nearest number of a type, of two the even one; with `.rz`, of the next one towards zero."""
    exponent_bits, fraction_bits = FORMATS[kind]
    sign = 1 << exponent_bits + fraction_bits
    infinity = (1 << exponent_bits) - 1 << fraction_bits
    if isinstance(number, float):
        if math.isnan(number):
            return NOTHING[kind]
        return (sign if math.copysign(1, number) < 0 else 0) | (infinity if math.isinf(number) else 0)
    bias = (1 << exponent_bits - 1) - 1
    size = abs(number)
    exponent = max(size.numerator.bit_length() - size.denominator.bit_length(), 1 - bias)
    exponent -= size < Fraction(2) ** exponent and exponent > 1 - bias
    units = size / Fraction(2) ** (exponent - fraction_bits)
    whole = round(units) if how == ".rn" else math.floor(units)
    # the leading one of `whole` adds 1 to the exponent, or a carry out of the fraction does
    bits = whole + (exponent + bias - 1 << fraction_bits)
    bits = min(bits, infinity if how == ".rn" else infinity - 1)
    return (sign if number < 0 else 0) | bits


def times(a: Number, b: Number) -> Number:
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a * b
    x, y = _as_float(a), _as_float(b)
    return x * y  # one is a zero, an infinity or no number: so is the product


def plus(a: Number, b: Number) -> Number:
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a + b or 0.0
    if isinstance(a, float) and isinstance(b, float):
        return a + b
    number, other = (a, b) if isinstance(a, Fraction) else (b, a)
    return number if other == 0 else _as_float(other)


def _as_float(number: Number) -> float:
    """The number, or one of its sign where it is a fraction."""
    return number if isinstance(number, float) else math.copysign(1.0, number)


def minus(a: Number) -> Number:
    return -a


def compared(relation: str, a: Number, b: Number) -> bool:
    nothing = any(isinstance(one, float) and math.isnan(one) for one in (a, b))
    if relation in ("num", "nan"):
        return nothing is (relation == "nan")
    if nothing:
        return relation.endswith("u")
    return {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[relation.removesuffix("u")]


def test_the_numbers_are_those_of_the_machine() -> None:
    lot = random.Random(1)
    for bits in [lot.getrandbits(32) for _ in range(3000)]:
        (number,) = struct.unpack("<f", struct.pack("<I", bits))
        mine = value(bits, ".f32")
        assert math.isnan(number) if mine != mine else number == mine
        assert mine != mine or rounded(mine, ".f32") == bits
    for number in [lot.uniform(-1, 1) * 10.0 ** lot.randint(-46, 38) for _ in range(3000)]:
        (bits,) = struct.unpack("<I", struct.pack("<f", number))
        assert rounded(Fraction(number), ".f32") == bits


# --- the machine

BITS = {".b16": 16, ".b32": 32, ".b64": 64, ".u32": 32, ".u16": 16, ".s16": 16, ".s32": 32}


class Machine:
    """Runs straight-line text on registers that are numbers of bits."""

    def __init__(self, **registers: int) -> None:
        self.registers = registers

    def get(self, operand: str) -> int:
        if operand.startswith("!"):
            return 1 - self.get(operand[1:])
        return self.registers[operand] if operand in self.registers else int(operand, 0)

    def run(self, statements: tuple[Node, ...]) -> None:
        for statement in statements:
            if isinstance(statement, Block):
                self.run(statement.children)
            elif isinstance(statement, Instruction) and self.holds(statement.guard):
                self.step(statement)

    def holds(self, guard: Guard | None) -> bool:
        return guard is None or self.get(guard.predicate.text) != guard.negated

    def step(self, instruction: Instruction) -> None:
        mnemonic, words = instruction.opcode.mnemonic, instruction.opcode.modifiers
        d, *sources = [operand.text for operand in instruction.operands]
        kind = words[-1]
        if mnemonic == "mov" and d.startswith("{"):
            bits = self.get(sources[0])
            for name, size in zip(_parts(d), itertools.repeat(BITS[kind] // 2)):
                self.registers[name] = bits & (1 << size) - 1
                bits >>= size
        elif mnemonic == "mov" and sources[0].startswith("{"):
            low, high = [self.get(name) for name in _parts(sources[0])]
            self.registers[d] = low | high << BITS[kind] // 2
        elif mnemonic == "mov":
            self.registers[d] = self.get(sources[0])
        elif mnemonic == "setp" and kind in FORMATS:
            one, other = [value(self.get(source), kind) for source in sources[:2]]
            self.registers[d] = self._combined(words, compared(words[0][1:], one, other), sources[2:])
        elif mnemonic == "setp":
            self.registers[d] = int(compared(words[0][1:], Fraction(self.get(sources[0])), Fraction(self.get(sources[1]))))
        else:
            self.registers[d] = self._computed(mnemonic, words, sources)

    def _combined(self, words: tuple[str, ...], result: bool, third: list[str]) -> int:
        if not third:
            return int(result)
        given = self.get(third[0])
        return {".and": result & given, ".or": result | given, ".xor": result ^ given}[words[1]]

    def _computed(self, mnemonic: str, words: tuple[str, ...], sources: list[str]) -> int:
        kind, given = words[-1], [self.get(source) for source in sources]
        how = ".rz" if ".rz" in words else ".rn"
        if mnemonic == "cvt":
            return rounded(value(given[0], words[-1]), words[-2], how)
        if kind.endswith("x2"):
            half, size = kind[:-2], FORMATS[kind[:-2]][0] + FORMATS[kind[:-2]][1] + 1
            low, high = [_arithmetic(mnemonic, half, [one >> at & (1 << size) - 1 for one in given], how) for at in (0, size)]
            return low | high << size
        if kind in FORMATS:
            return _arithmetic(mnemonic, kind, given, how)
        if kind.startswith(".s"):
            given = [one - (one >> BITS[kind] - 1 << BITS[kind]) for one in given]
        bits: dict[str, Callable[..., int]] = {
            "min": min,
            "max": max,
            "add": lambda a, b: a + b,
            "and": lambda a, b: a & b,
            "bfe": lambda a, at, count: a >> at & (1 << count) - 1,
            "selp": lambda a, b, which: a if which else b,
        }
        return bits[mnemonic](*given) & (1 << BITS[kind]) - 1


def _parts(vector: str) -> list[str]:
    return [part.strip() for part in vector.strip("{} ").split(",")]


def _arithmetic(mnemonic: str, kind: str, given: list[int], how: str) -> int:
    numbers = [value(one, kind) for one in given]
    if mnemonic == "fma":
        return rounded(plus(times(numbers[0], numbers[1]), numbers[2]), kind, how)
    a, b = numbers
    return rounded({"add": lambda: plus(a, b), "sub": lambda: plus(a, minus(b)), "mul": lambda: times(a, b)}[mnemonic](), kind, how)


# --- the numbers


def edges(kind: str) -> list[int]:
    """Zeros, the least and greatest numbers, those next to where they change their kind, infinities, what is no number, with both signs."""
    exponent_bits, fraction_bits = FORMATS[kind]
    one = 1 << fraction_bits
    infinity = (1 << exponent_bits) - 1 << fraction_bits
    middle = (1 << exponent_bits - 1) - 1 << fraction_bits
    halves = one >> 1
    found = [0, 1, 2, halves, one - 1, one, one + 1, middle, middle + 1, middle - 1, middle + halves, middle - 3 * one]
    found += [infinity - one, infinity - 1, infinity, infinity + 1, infinity + halves, infinity + one - 1]
    return [bits | sign for bits in found for sign in (0, 1 << exponent_bits + fraction_bits)]


def pairs(kind: str, count: int) -> Iterator[tuple[int, int]]:
    """All pairs of edges; and pairs whose sum or product is near to the middle between two numbers."""
    yield from itertools.product(edges(kind), repeat=2)
    lot = random.Random(kind)
    size = sum(FORMATS[kind]) + 1
    for _ in range(count):
        a = lot.getrandbits(size)
        apart = lot.randint(-FORMATS[kind][1] - 3, FORMATS[kind][1] + 3) << FORMATS[kind][1]
        yield a, lot.getrandbits(size)
        yield a, (a + apart ^ lot.choice((0, 1, 2, 3)) ^ lot.getrandbits(1) << size - 1) & (1 << size) - 1


def written(version: str, target: str, to: str, text: str) -> tuple[Node, ...]:
    """What is written instead of the text."""
    registers = ".reg .b16 a<9>; .reg .b32 r<9>; .reg .b64 l<9>; .reg .f32 f<9>; .reg .f64 d; .reg .pred p<9>;"
    module = ptxkit.parse(f".version {version}\n.target {target}\n.address_size 64\n.entry k() {{ {registers} {text} ret; }}")
    return retarget(module, target=to).module.kernels[0].body.children[6:-1]  # type: ignore[union-attr]


@pytest.mark.parametrize("word", ["add", "sub", "mul"])
@pytest.mark.parametrize("rounding", ["", ".rn"])
def test_arithmetic_of_bfloats(word: str, rounding: str) -> None:
    statements = written("8.0", "sm_90", "sm_80", f"{word}{rounding}.bf16 a3, a1, a2;")
    machine = Machine()
    for a, b in pairs(".bf16", 1500):
        machine.registers.update(a1=a, a2=b)
        machine.run(statements)
        assert machine.registers["a3"] == _arithmetic(word, ".bf16", [a, b], ".rn"), (hex(a), hex(b))


@pytest.mark.parametrize("word", ["add", "sub", "mul"])
def test_arithmetic_of_two_bfloats(word: str) -> None:
    statements = written("8.0", "sm_90", "sm_80", f"{word}.bf16x2 r3, r1, r2;")
    machine = Machine()
    some = list(pairs(".bf16", 500))
    for (a, b), (c, d) in zip(some, some[::-1], strict=True):
        machine.registers.update(r1=a | c << 16, r2=b | d << 16)
        machine.run(statements)
        assert machine.registers["r3"] == _arithmetic(word, ".bf16", [a, b], ".rn") | _arithmetic(word, ".bf16", [c, d], ".rn") << 16


@pytest.mark.parametrize("word", ["add.rn", "sub.rz", "mul.rn", "fma.rz"])
def test_two_floats(word: str) -> None:
    third = ", l1" if word.startswith("fma") else ""
    statements = written("8.6", "sm_100", "sm_90", f"{word}.f32x2 l3, l1, l2{third};")
    machine = Machine()
    some = list(pairs(".f32", 300))[::2]
    for (a, b), (c, d) in zip(some, some[::-1], strict=True):
        machine.registers.update(l1=a | c << 32, l2=b | d << 32)
        machine.run(statements)
        low, high = [_arithmetic(word[:3], ".f32", [x, y, x][: 2 + bool(third)], word[3:]) for x, y in ((a, b), (c, d))]
        assert machine.registers["l3"] == low | high << 32


@pytest.mark.parametrize("relation", ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"])
def test_comparisons_of_bfloats(relation: str) -> None:
    one = written("8.0", "sm_90", "sm_80", f"setp.{relation}.xor.bf16 p1, a1, a2, !p3;")
    both = written("8.0", "sm_90", "sm_80", f"setp.{relation}.bf16x2 p1|p2, r1, r2;")
    for a, b in pairs(".bf16", 50):
        expected = compared(relation, value(a, ".bf16"), value(b, ".bf16"))
        machine = Machine(a1=a, a2=b, p3=0, r1=a | b << 16, r2=b | a << 16)
        machine.run(one)
        assert machine.registers["p1"] == (not expected)
        machine.run(both)
        assert machine.registers["p1"] == expected
        assert machine.registers["p2"] == compared(relation, value(b, ".bf16"), value(a, ".bf16"))


@pytest.mark.parametrize("guard", ["p1", "!p1", "p2", "p3"])
@pytest.mark.parametrize("third", ["p1", "p2", "!p2", "p3"])
def test_a_comparison_may_write_what_it_reads(guard: str, third: str) -> None:
    """The guard, and the predicate to combine with, are those from before."""
    statements = written("8.0", "sm_90", "sm_80", f"@{guard} setp.lt.xor.bf16x2 p1|p2, r1, r2, {third};")
    for given in itertools.product((0, 1), repeat=5):
        before = dict(zip(("p1", "p2", "p3"), given, strict=False))
        machine = Machine(r1=0x3F803F80, r2=0x40004000 * given[3] ^ 0x4000 * given[4], **before)
        old = Machine(**before)
        less = [given[3] ^ given[4], given[3]]
        expected = [one ^ old.get(third) for one in less] if old.get(guard) else [before["p1"], before["p2"]]
        machine.run(statements)
        assert [machine.registers["p1"], machine.registers["p2"]] == expected


@pytest.mark.parametrize("how", [".rn", ".rz"])
def test_floats_to_bfloats(how: str) -> None:
    one, both = [written("8.0", "sm_80", "sm_75", text) for text in (f"cvt{how}.bf16.f32 a3, f1;", f"cvt{how}.bf16x2.f32 r3, f2, f1;")]
    lot = random.Random(how)
    # each bfloat, next to it, and in the middle between it and the next one
    near = [(lot.getrandbits(16) << 16) + apart for _ in range(800) for apart in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]
    for bits in [*edges(".f32"), *near, *[(upper << 16) + 0x8000 for upper in edges(".bf16")]]:
        expected = rounded(value(bits, ".f32"), ".bf16", how)
        machine = Machine(f1=bits, f2=bits ^ 1 << 31)
        machine.run(one)
        assert machine.registers["a3"] == expected, hex(bits)
        machine.run(both)
        assert machine.registers["r3"] & 0xFFFF == expected
        assert machine.registers["r3"] >> 16 == rounded(value(bits ^ 1 << 31, ".f32"), ".bf16", how)


def test_two_halves() -> None:
    statements = written("8.0", "sm_80", "sm_75", "cvt.rz.f16x2.f32 r3, f2, f1;")
    for a, b in pairs(".f32", 300):
        machine = Machine(f1=a, f2=b)
        machine.run(statements)
        assert machine.registers["r3"] == rounded(value(a, ".f32"), ".f16", ".rz") | rounded(value(b, ".f32"), ".f16", ".rz") << 16


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.long)])
def test_every_bfloat_is_a_float(step: int) -> None:
    """Numbers exactly, what is none as none; so that what is made of it is rounded once. Every seventh has all signs, exponents and last
    bits."""
    upper = written("8.0", "sm_80", "sm_75", "cvt.f32.bf16 f3, a1;")
    to_half, to_double = [written("8.0", "sm_90", "sm_80", f"cvt{words}.bf16 {d}, a1;") for words, d in ((".rn.f16", "a3"), (".f64", "d"))]
    for bits in range(0, 1 << 16, step):
        number = value(bits, ".bf16")
        machine = Machine(a1=bits)
        machine.run(upper)
        wide = value(machine.registers["f3"], ".f32")
        assert wide == number or (wide != wide and number != number)
        machine.run(to_half)
        machine.run(to_double)
        assert machine.registers["a3"] == rounded(number, ".f16")
        assert machine.registers["d"] == rounded(number, ".f64")


@pytest.mark.parametrize(
    "word", ["min.relu.s32", "max.relu.s32", "min.relu.s16x2", "max.relu.s16x2", "min.u16x2", "max.s16x2", "add.u16x2", "add.s16x2"]
)
def test_integers(word: str) -> None:
    statements = written("8.0", "sm_90", "sm_80", f"{word} r3, r1, r2;")
    size = 16 if word.endswith("x2") else 32
    lot = random.Random(word)
    some = [0, 1, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x7FFF8000, *[lot.getrandbits(32) for _ in range(50)]]

    def one(a: int, b: int) -> int:
        if ".s" in word:
            a, b = [number - (number >> size - 1 << size) for number in (a, b)]
        result = {"min": min, "max": max, "add": lambda a, b: a + b}[word[:3]](a, b)
        return (max(result, 0) if ".relu" in word else result) & (1 << size) - 1

    for a, b in itertools.product(some, repeat=2):
        machine = Machine(r1=a, r2=b)
        machine.run(statements)
        cut = (1 << size) - 1
        assert machine.registers["r3"] == sum([one(a >> at & cut, b >> at & cut) << at for at in range(0, 32, size)])


@pytest.mark.parametrize("words", ["", ".NaN", ".ftz", ".ftz.NaN"])
@pytest.mark.parametrize("word", ["min", "max"])
def test_three_floats(word: str, words: str) -> None:
    """Of numbers in a row the least does not depend on how they are taken together: -0 is less than 0, what is no number counts or not."""
    statements = written("8.8", "sm_100", "sm_90", f"{word}{words}.f32 f4, f1, f2, f3;")
    some = [0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x7F800001]

    def kept(bits: int) -> int:
        return bits & 1 << 31 if "ftz" in words and not bits & 0x7F800000 else bits

    def key(bits: int) -> tuple[Number, int]:
        return value(bits, ".f32"), -(bits >> 31)

    def expected(given: list[int]) -> int:
        numbers = [kept(one) for one in given if value(one, ".f32") == value(one, ".f32")]
        if not numbers or ("NaN" in words and len(numbers) < len(given)):
            return NOTHING[".f32"]
        return (min if word == "min" else max)(numbers, key=key)

    class Least(Machine):
        def _computed(self, mnemonic: str, words: tuple[str, ...], sources: list[str]) -> int:
            return expected([self.get(source) for source in sources])

    for given in itertools.product([bits | sign for bits in some for sign in (0, 1 << 31)], repeat=3):
        machine = Least(f1=given[0], f2=given[1], f3=given[2])
        machine.run(statements)
        assert machine.registers["f4"] == expected(list(given))


@pytest.mark.parametrize("kind", [".f16", ".bf16"])
def test_a_half_plus_a_float(kind: str) -> None:
    adding = written("8.6", "sm_100", "sm_90", f"add.rz.f32{kind} f3, a1, f1;")
    fusing = written("8.6", "sm_100", "sm_90", f"fma.rn.f32{kind} f3, a1, a2, f1;")
    lot = random.Random(kind)
    for bits, _ in pairs(".f32", 300):
        a, b = lot.choice(edges(kind)), lot.getrandbits(16)
        machine = Machine(a1=a, a2=b, f1=bits)
        machine.run(adding)
        x, y, z = value(a, kind), value(b, kind), value(bits, ".f32")
        assert machine.registers["f3"] == rounded(plus(x, z), ".f32", ".rz")
        machine.run(fusing)
        assert machine.registers["f3"] == rounded(plus(times(x, y), z), ".f32")


def test_a_fused_multiply_add_is_not_one_of_floats() -> None:
    """Why that is refused below sm_80: rounded to a float and then to a bfloat is rounded twice."""
    middle = times(value(0x3F83, ".bf16"), value(0x3FC0, ".bf16"))  # 131/128 * 3/2 lies between 196/128 and 197/128
    exact = plus(middle, value(0x2F80, ".bf16"))
    twice = rounded(value(rounded(exact, ".f32"), ".f32"), ".bf16")

    assert (rounded(exact, ".bf16"), twice) == (0x3FC5, 0x3FC4)


# --- what may be fused


def module_of(*bodies: str, target: str = "sm_90", version: str = "8.6", device: str = "") -> ptxkit.Module:
    registers = ".reg .b16 a<9>; .reg .b32 r<9>; .reg .b64 l<9>; .reg .f32 f<9>;"
    kernels = [f".entry k{i}() {{ {registers} {body} ret; }}\n" for i, body in enumerate(bodies)]
    function = f".func g() {{ {registers} {device} ret; }}\n"
    return ptxkit.parse(f".version {version}\n.target {target}\n.address_size 64\n{function}{''.join(kernels)}")


class TestFused:
    """A product and a sum without `.rn` are fused by compilers, and rounded once; two of their own are not."""

    @pytest.mark.parametrize(
        ("target", "to", "text"),
        [
            ("sm_90", "sm_80", "mul.bf16 a3, a1, a2; add.bf16 a4, a3, a1;"),
            ("sm_90", "sm_80", "mul.bf16x2 r3, r1, r2; mov.b32 {a1, a2}, r3; sub.bf16 a4, a3, a1;"),
            ("sm_100", "sm_90", "mul.f32x2 l3, l1, l2; add.f32x2 l4, l3, l1;"),
            ("sm_100", "sm_90", "mul.f32 f3, f1, f2; add.f32.f16 f4, a1, f3;"),
        ],
    )
    def test_is_refused(self, target: str, to: str, text: str) -> None:
        with pytest.raises(Refused) as refused:
            retarget(module_of(text, target=target), target=to)
        assert "fusible" in {found.name for found in refused.value.diagnostics}

    @pytest.mark.parametrize(
        "text",
        [
            "mul.rn.bf16 a3, a1, a2; add.bf16 a4, a3, a1;",
            "mul.bf16 a3, a1, a2; add.rn.bf16 a4, a3, a1;",
            "add.bf16 a3, a1, a2; sub.bf16 a4, a3, a1;",
            "mul.bf16 a3, a1, a2; mul.bf16 a4, a3, a1;",
            "mul.f16 a3, a1, a2; mul.f32 f1, f2, f3; add.bf16 a4, a3, a1;",
        ],
    )
    def test_else_it_is_not(self, text: str) -> None:
        assert "fma.rn.bf16" in retarget(module_of(text), target="sm_80").text

    def test_in_two_kernels_it_is_not(self) -> None:
        assert "fma.rn.bf16" in retarget(module_of("mul.bf16 a3, a1, a2;", "add.bf16 a4, a3, a1;"), target="sm_80").text

    def test_but_in_a_function_that_may_be_called(self) -> None:
        for kernel, device in itertools.permutations(("mul.bf16 a3, a1, a2;", "add.bf16 a4, a3, a1;")):
            with pytest.raises(Refused):
                retarget(module_of(kernel, device=device), target="sm_80")
