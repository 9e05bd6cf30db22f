"""Symbolic values: the domain against numbers, and what is claimed of kernels against running them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interpreter import Thread
from sampling import examples
from work import calls

import ptxkit
from ptxkit.analyses import Routine, routines, ssa
from ptxkit.analyses.numbers.arithmetic import OPERATORS, compute
from ptxkit.analyses.numbers.known_bits import Known, constant, join, result, tighten, total
from ptxkit.analyses.symbolic.evaluate import number_of
from ptxkit.analyses.symbolic.recipes import OPERATORS as WORDS
from ptxkit.analyses.symbolic.simplify import new_terms
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import Values, values
from ptxkit.isa.forms import Call
from ptxkit.isa.table import forms, mnemonics


def holds(known: Known, value: int, width: int) -> bool:
    """Whether what is known is true of a number."""
    in_range = (value - known.low) % (1 << width) <= known.span
    return not value & known.zeros and value & known.ones == known.ones and in_range


ARITY = {"lop3": 4, "bfi": 4, "prmt": 3, "funnel_left": 3, "funnel_right": 3, "bfe.u": 3, "bfe.s": 3, "select": 3}
ARITY |= dict.fromkeys(("abs", "popc", "clz", "brev", "zext", "sext", "trunc"), 1)


def shape_of(operator: str, width: int, draw: random.Random) -> tuple[int, list[int]] | None:
    """The width of the result and of the operands; None if the operator has none of that width."""
    widths = [width] * ARITY.get(operator, 2)
    if operator in ("shl", "shr.u", "shr.s"):
        widths[1] = 32
    if operator.startswith("funnel"):
        widths[2] = 32
    if operator.startswith("bf"):
        widths[-2:] = [32, 32]
    if operator == "lop3":
        widths[3] = 32
    if operator == "prmt" and width != 32:
        return None
    if operator == "select":
        widths[0] = 1
    if operator == "trunc":
        return width, [64]
    if operator in ("zext", "sext"):
        return width, [draw.choice([w for w in (1, 8, 16, 32, 64) if w <= width])]
    if operator in ("popc", "clz"):
        return 32, widths
    return (1 if operator in ("eq", "lt.u", "lt.s") else width), widths


def number(draw: random.Random, width: int) -> int:
    mask = (1 << width) - 1
    return draw.choice([draw.getrandbits(width), draw.randrange(8) & mask, -draw.randrange(1, 9) & mask, draw.choice((31, 32, 132)) & mask])


def something_known(draw: random.Random, value: int, width: int) -> Known:
    """Something that is true of a number."""
    mask = (1 << width) - 1
    if draw.random() < 0.2:
        return constant(value, width)
    seen = draw.getrandbits(width) & draw.getrandbits(width) if draw.random() < 0.7 else 0
    span = min(mask, draw.choice([0, 1, 5, draw.getrandbits(width), mask]))
    return tighten(~value & mask & seen, value & seen, (value - draw.randint(0, span)) & mask, span, width)


@examples(400)
@given(st.randoms(use_true_random=False), st.sampled_from(sorted(OPERATORS)), st.sampled_from([1, 8, 16, 32, 64]))
def test_what_is_known_holds_for_every_operator(draw: random.Random, operator: str, width: int) -> None:
    shape = shape_of(operator, width, draw)
    if shape is None:
        return
    width, widths = shape
    numbers = [number(draw, w) for w in widths]
    known = [something_known(draw, n, w) for n, w in zip(numbers, widths, strict=True)]
    outcome = compute(operator, width, numbers, widths)

    assert all(holds(k, n, w) for k, n, w in zip(known, numbers, widths, strict=True))
    assert outcome is None or holds(result(operator, width, known, widths), outcome, width)


@examples(200)
@given(st.randoms(use_true_random=False), st.sampled_from([1, 8, 32, 64]))
def test_what_is_known_holds_for_sums_and_joins(draw: random.Random, width: int) -> None:
    mask = (1 << width) - 1
    numbers = [number(draw, width) for _ in range(3)]
    known = [something_known(draw, n, width) for n in numbers]
    factors = [number(draw, width) or 1 for _ in range(3)]
    offset = number(draw, width)
    outcome = (offset + sum([n * f for n, f in zip(numbers, factors, strict=True)])) & mask

    assert holds(total(offset, list(zip(known, factors, strict=True)), width), outcome, width)
    assert all(holds(join(known, width), n, width) for n in numbers)


@examples(100)
@given(st.randoms(use_true_random=False))
def test_terms_are_what_they_were_made_of(draw: random.Random) -> None:
    terms = new_terms()
    leaves: dict[Term, int] = {}
    pool: list[tuple[Term, int]] = []
    for name in "abcde":
        width = draw.choice([1, 16, 32, 32, 64])
        value = number(draw, width)
        leaf = terms.leaf("special", width, (name,), something_known(draw, value, width))
        leaves[leaf] = value
        pool.append((leaf, value))

    def pick(width: int) -> tuple[Term, int]:
        fitting = [one for one in pool if one[0].width == width]
        if fitting and draw.random() < 0.7:
            return draw.choice(fitting)
        value = draw.choice([number(draw, width), draw.choice((3, 5, 33, 0xAAAAAAAB, 0xFF00)) & ((1 << width) - 1)])
        return terms.constant(value, width), value

    for _ in range(20):
        operator = draw.choice([*OPERATORS, "add", "add", "mul", "and", "shr.u", "zext", "trunc"])
        shape = shape_of(operator, draw.choice([1, 16, 32, 32, 64]), draw)
        if shape is None or (shape[1][0] == shape[0] and operator in ("zext", "sext", "trunc")):
            continue
        width, widths = shape
        chosen = [pick(w) for w in widths]
        outcome = compute(operator, width, [value for _, value in chosen], widths)
        if outcome is None:
            continue
        term = terms.apply(operator, width, tuple([one for one, _ in chosen]))
        assert number_of(term, leaves.get) == outcome
        assert holds(term.known, outcome, width)
        pool.append((term, outcome))


def test_the_table_uses_words_that_are_known() -> None:
    def operators(value: object) -> list[str]:
        return [value.operator, *[word for a in value.arguments for word in operators(a)]] if isinstance(value, Call) else []

    used = set()
    for mnemonic in mnemonics():
        for form in forms(mnemonic):
            for computes in form.computes:
                for word in operators(computes.what.value):
                    slot = form.slot(word) if word.startswith(".") else None
                    used |= {choice.modifier[1:] for choice in slot.choices} if slot is not None else {word}
    assert used <= WORDS


# --- kernels


KERNEL = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n, .param .u64 .ptr .global .align 16 p, .param .u64 q){}
{{
.reg .pred %p<16>;
.reg .b16 %rs<16>;
.reg .b32 %r<64>;
.reg .b64 %rd<32>;
{}
ret;
}}
"""


def routine_of(body: str, directives: str = "") -> Routine:
    (routine,) = routines(ptxkit.parse(KERNEL.format(directives, body)))
    return routine


def term_of(body: str, register: str, directives: str = "") -> Term:
    """The term of what the last write of a register gives it."""
    routine = routine_of(body, directives)
    known = values(routine)
    numbering = ssa(routine)
    return next(
        known.written(i)[0]
        for i in reversed(range(len(routine.instructions)))
        if numbering.definitions[i] and routine.instructions[i].operands[0].text == register
    )


def leaf_value(thread: Thread, leaf: Term) -> int | None:
    if leaf.operator == "special":
        return thread.special[str(leaf.data[0])]
    if leaf.operator == "parameter":
        value = thread.parameters[str(leaf.data[0])]
        return value & ((1 << leaf.width) - 1)
    return None


def check_claims(routine: Routine, special: dict[str, int], parameters: dict[str, int]) -> int:
    """Runs a thread and compares every register that an instruction writes with what is claimed of it. How many were told exactly."""
    known: Values = values(routine)
    thread = Thread(routine, special, parameters)
    table = known._registers.table
    exact = 0
    for i, after in thread.run():
        for place, number in enumerate(ssa(routine).definitions[i]):
            name = table[ssa(routine).values[number].register].name
            term = known.written(i)[place]
            assert term.width == table[ssa(routine).values[number].register].bits
            assert holds(term.known, after[name], term.width), (routine.instructions[i].text, str(term), after[name], term.known)
            said = number_of(term, lambda leaf: leaf_value(thread, leaf))
            assert said is None or said == after[name], (routine.instructions[i].text, str(term), said, after[name])
            exact += said is not None
    return exact


SPECIAL = ("%tid.x", "%tid.y", "%tid.z", "%ntid.x", "%ctaid.x", "%ctaid.y", "%laneid")


def some_thread(draw: random.Random) -> dict[str, int]:
    limits = {"%tid.x": 255, "%tid.y": 3, "%tid.z": 0, "%ntid.x": 256, "%ctaid.x": 70000, "%ctaid.y": 65534, "%laneid": 31}
    return {name: draw.choice([0, limits[name], draw.randint(0, limits[name])]) if name != "%ntid.x" else 256 for name in SPECIAL}


TEMPLATES = (
    "add.s32 R, r, r;", "add.u32 R, r, k;", "sub.s32 R, r, r;", "mul.lo.s32 R, r, k;", "mul.lo.u32 R, r, r;", "mul.hi.u32 R, r, k;",
    "mul.hi.s32 R, r, k;", "mad.lo.s32 R, r, k, r;", "mul.wide.u32 D, r, k;", "mul.wide.s32 D, r, k;", "mad.wide.s32 D, r, k, d;",
    "and.b32 R, r, k;", "and.b32 R, r, r;", "or.b32 R, r, k;", "or.b32 R, r, r;", "xor.b32 R, r, k;", "not.b32 R, r;", "neg.s32 R, r;",
    "shl.b32 R, r, s;", "shr.u32 R, r, s;", "shr.s32 R, r, s;", "shl.b32 R, r, r;", "shr.u32 R, r, r;", "shl.b64 D, d, s;",
    "shr.u64 D, d, s;",
    "shr.s64 D, d, s;", "add.s64 D, d, d;", "sub.s64 D, d, d;", "and.b64 D, d, k;", "cvt.u64.u32 D, r;", "cvt.s64.s32 D, r;",
    "cvt.u32.u64 R, d;", "cvt.u32.u16 R, h;", "cvt.s32.s16 R, h;", "cvt.u16.u32 H, r;", "cvt.s32.s8 R, r;", "cvt.u32.u8 R, r;",
    "bfe.u32 R, r, s, s;", "bfe.s32 R, r, s, s;", "bfi.b32 R, r, r, s, s;", "prmt.b32 R, r, r, 0x5410;", "prmt.b32 R, r, r, 0x7632;",
    "prmt.b32 R, r, r, k;", "prmt.b32 R, r, r, 0x0321;", "lop3.b32 R, r, r, r, 0x96;", "lop3.b32 R, r, r, r, 0xf8;",
    "shf.l.wrap.b32 R, r, r, s;", "shf.r.clamp.b32 R, r, r, s;", "shf.r.wrap.b32 R, r, r, s;", "min.s32 R, r, k;", "max.u32 R, r, r;",
    "min.u32 R, r, k;", "abs.s32 R, r;", "popc.b32 R, r;", "clz.b32 R, r;", "brev.b32 R, r;", "rem.u32 R, r, c;", "div.u32 R, r, c;",
    "div.s32 R, r, c;", "selp.b32 R, r, r, p;", "selp.u32 R, 1, 0, p;", "selp.b32 R, k, r, !p;", "setp.lt.s32 P, r, r;",
    "setp.eq.s32 P, r, k;", "setp.ne.u32 P, r, 0;", "setp.ge.u32 P, r, k;", "setp.gt.s32 P, r, k;", "setp.le.and.u32 P, r, k, p;",
    "setp.lt.or.s32 P, r, k, !p;", "and.pred P, p, p;", "or.pred P, p, !p;", "xor.pred P, p, p;", "not.pred P, p;", "mov.u32 R, r;",
    "mov.u32 R, k;", "mov.b64 D, {r, r};", "mov.b64 {R, R}, d;", "mov.b32 {H, H}, r;", "mov.b32 R, {h, h};", "cnot.b32 R, r;",
    "mad.lo.s64 D, d, k, d;", "mul.lo.s64 D, d, d;", "ld.global.u32 R, [d];", "mul.hi.u32 R, r, 0xAAAAAAAB;",
    "mul.wide.u32 D, r, 0xCCCCCCCD;",
)  # fmt: skip


def random_kernel(draw: random.Random, length: int) -> str:
    """Straight-line code over few registers, some of it under guards. All of them hold something first."""
    lines = ["ld.param.u32 %r0, [n];", "ld.param.u64 %rd0, [p];", "ld.param.u64 %rd1, [q];", "setp.eq.s32 %p0, %r0, 0;"]
    lines += [f"mov.u32 %r{i}, {name};" for i, name in enumerate(SPECIAL, 1)]
    lines += ["cvt.u16.u32 %rs0, %r1;", "cvt.u16.u32 %rs1, %r0;", "setp.lt.u32 %p1, %r1, 32;"]
    limits = {"r": 12, "d": 5, "h": 3, "p": 4}
    names = {"r": "%r", "d": "%rd", "h": "%rs", "p": "%p"}
    ready = {"r": 8, "d": 2, "h": 2, "p": 2}

    def fill(letter: str) -> str:
        kind = letter.lower()
        if letter == "k":
            return str(draw.choice([0, 1, 3, 4, 7, 15, 31, 32, 127, 255, 0xFF00, 256, 4096, -1, -4, 12345]))
        if letter == "s":
            return str(draw.choice([0, 1, 2, 3, 4, 5, 7, 8, 16, 24, 31, 32]))
        if letter == "c":
            return str(draw.choice([1, 2, 3, 5, 7, 12, 32, 100]))
        if letter.isupper():
            number = draw.randrange(min(limits[kind], ready[kind] + 1))
            written.append((kind, number))
            return f"{names[kind]}{number}"
        return f"{names[kind]}{draw.randrange(ready[kind])}"

    for _ in range(length):
        head, _, tail = draw.choice(TEMPLATES).partition(" ")
        written: list[tuple[str, int]] = []
        # what is read is chosen first
        text = ["" if c.isupper() else fill(c) if c in "rdhpksc" and not _in_number(tail, at) else c for at, c in enumerate(tail)]
        text = [fill(c) if c.isupper() and not _in_number(tail, at) else (text[at] or c) for at, c in enumerate(tail)]
        guard = draw.choice(["", "", f"@%p{draw.randrange(ready['p'])} ", f"@!%p{draw.randrange(ready['p'])} "])
        if any(number >= ready[kind] for kind, number in written):
            guard = ""
        if len(set(written)) < len(written):
            continue
        lines.append(f"{guard}{head} {''.join(text)}")
        for kind, number in written:
            ready[kind] = max(ready[kind], number + 1)
    return "\n".join(lines)


def _in_number(text: str, at: int) -> bool:
    start = at
    while start and (text[start - 1].isalnum()):
        start -= 1
    return text[start].isdigit()


@examples(60)
@given(st.randoms(use_true_random=False))
def test_what_is_claimed_of_straight_code_is_what_running_it_gives(draw: random.Random) -> None:
    directives = draw.choice(["", " .reqntid 256, 4", " .maxntid 1024"])
    routine = routine_of(random_kernel(draw, 40), directives)
    for _ in range(4):
        special = some_thread(draw)
        parameters = {"n": number(draw, 32), "p": number(draw, 64) & ~15, "q": number(draw, 64)}
        assert check_claims(routine, special, parameters) > 10


LOOPS = {
    "selp wrap": """mov.u32 %r1, 0; L: add.s32 %r2, %r1, 1; setp.eq.s32 %p1, %r2, 4; selp.b32 %r1, 0, %r2, %p1;
        ld.global.u32 %r5, [%rd1]; setp.ne.s32 %p2, %r5, 7; add.s32 %r9, %r9, 1; setp.lt.s32 %p3, %r9, %r0; @%p3 bra L;""",
    "mask": "mov.u32 %r1, 0; L: add.s32 %r2, %r1, 1; and.b32 %r1, %r2, 7; add.s32 %r9, %r9, 1; setp.lt.s32 %p3, %r9, %r0; @%p3 bra L;",
    "magic": """mov.u32 %r1, 0; L: mul.wide.u32 %rd2, %r1, -1431655765; shr.u64 %rd3, %rd2, 33; cvt.u32.u64 %r3, %rd3;
        mul.lo.s32 %r4, %r3, 3;
        sub.s32 %r5, %r1, %r4; add.s32 %r1, %r1, 1; setp.lt.s32 %p3, %r1, %r0; @%p3 bra L;""",
    "xor": "mov.u32 %r1, 1; L: xor.b32 %r1, %r1, 1; add.s32 %r9, %r9, 1; setp.lt.s32 %p3, %r9, %r0; @%p3 bra L;",
    "halving": "mov.u32 %r1, 128; L: shr.u32 %r1, %r1, 1; setp.ne.s32 %p3, %r1, 0; @%p3 bra L;",
    "counted": "mov.u32 %r1, 0; L: shl.b32 %r2, %r1, 4; add.s32 %r1, %r1, 4; setp.lt.s32 %p3, %r1, 100; @%p3 bra L;",
    "pointer": "mov.u64 %rd2, %rd1; L: add.s64 %rd2, %rd2, 64; add.s32 %r9, %r9, 1; setp.lt.s32 %p3, %r9, %r0; @%p3 bra L;",
    "guarded": """mov.u32 %r1, 0; L: setp.lt.u32 %p1, %r9, 3; @%p1 add.s32 %r1, %r1, 8; add.s32 %r9, %r9, 1;
        setp.lt.s32 %p3, %r9, %r0; @%p3 bra L;""",
    "phase": """mov.u32 %r1, 0; mov.u32 %r2, 0; L: add.s32 %r1, %r1, 1; setp.eq.s32 %p1, %r1, 3; @%p1 mov.u32 %r1, 0;
        selp.u32 %r3, 1, 0, %p1;
        xor.b32 %r2, %r2, %r3; add.s32 %r9, %r9, 1; setp.lt.s32 %p3, %r9, %r0; @%p3 bra L;""",
    "nested": """mov.u32 %r1, 0; A: mov.u32 %r2, %r1; B: add.s32 %r2, %r2, 2; setp.lt.s32 %p1, %r2, 10; @%p1 bra B;
        add.s32 %r1, %r1, 2; setp.lt.s32 %p2, %r1, 8; @%p2 bra A;""",
    "two backs": """mov.u32 %r1, 0; L: add.s32 %r1, %r1, 4; add.s32 %r9, %r9, 1; setp.lt.s32 %p1, %r9, 3; @%p1 bra L;
        setp.lt.s32 %p3, %r9, %r0; add.s32 %r1, %r1, 12; @%p3 bra L;""",
    "backwards": "mov.u32 %r1, 16; L: mul.lo.s32 %r2, %r1, -3; add.s32 %r1, %r1, -1; setp.gt.s32 %p3, %r1, 0; @%p3 bra L;",
}


@pytest.mark.parametrize("name", LOOPS)
def test_what_is_claimed_of_loops_is_what_running_them_gives(name: str) -> None:
    head = "ld.param.u32 %r0, [n]; ld.param.u64 %rd1, [p]; mov.u32 %r9, 0;\n"
    routine = routine_of(head + LOOPS[name])
    for count in (0, 1, 2, 3, 7, 20):
        check_claims(routine, some_thread(random.Random(count)), {"n": count, "p": 0x7F0000000040, "q": 0})


def induction_of(name: str, register: str) -> tuple[tuple[int, ...], int | None, int | None]:
    """What is known of the loop's value of a register."""
    routine = routine_of("ld.param.u32 %r0, [n]; ld.param.u64 %rd1, [p]; mov.u32 %r9, 0;\n" + LOOPS[name])
    known = values(routine)
    numbering = ssa(routine)
    for phis in numbering.phis:
        for number in phis:
            if known._registers.table[numbering.values[number].register].name == register:
                found = known.induction(number)
                return (found.numbers, found.repeats, found.step) if found is not None else ((), None, None)
    raise AssertionError(f"{register} has no value that goes round")


class TestInduction:
    def test_ring_counter_by_selection(self) -> None:
        assert induction_of("selp wrap", "%r1") == ((0, 1, 2, 3), 0, None)

    def test_ring_counter_by_mask(self) -> None:
        assert induction_of("mask", "%r1") == (tuple(range(8)), 0, None)

    def test_phase(self) -> None:
        assert induction_of("xor", "%r1") == ((1, 0), 0, None)

    def test_halving(self) -> None:
        assert induction_of("halving", "%r1") == ((128, 64, 32, 16, 8, 4, 2, 1), None, None)

    def test_counted(self) -> None:
        assert induction_of("counted", "%r1") == (tuple(range(0, 100, 4)), None, 4)

    def test_step_without_end(self) -> None:
        assert induction_of("pointer", "%rd2") == ((), None, 64)

    def test_slot_and_phase_of_a_pipeline(self) -> None:
        assert induction_of("phase", "%r1") == ((0, 1, 2), 0, None)
        assert set(induction_of("phase", "%r2")[0]) in ({0, 1}, set())


class TestTerms:
    def test_address_of_an_element(self) -> None:
        body = "ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd1, %rd1; mov.u32 %r1, %tid.x; mad.wide.u32 %rd2, %r1, 16, %rd1;"
        term = term_of(body, "%rd2")
        assert str(term) == "p + 16*zext(%tid.x)"
        assert term.alignment == 16

    def test_generic_address_and_back(self) -> None:
        body = ".shared .align 16 .b8 s[64]; mov.u64 %rd1, s; cvta.shared.u64 %rd2, %rd1; cvta.to.shared.u64 %rd3, %rd2;"
        assert term_of(body, "%rd3") is not None
        assert str(term_of(body, "%rd3")) == "zext(s)"
        assert str(term_of(body, "%rd2")) == "zext(s) + .shared"

    def test_remainder_by_multiplication(self) -> None:
        body = "ld.param.u32 %r1, [n]; mul.hi.u32 %r2, %r1, -1431655765; shr.u32 %r3, %r2, 1;"
        body += " mul.lo.s32 %r4, %r3, 3; sub.s32 %r5, %r1, %r4;"
        assert str(term_of(body, "%r3")) == "div.u(n, 3)"
        assert str(term_of(body, "%r5")) == "rem.u(n, 3)"
        assert term_of(body, "%r5").bounds == (0, 2)

    def test_two_guarded_writes_define_together(self) -> None:
        body = "ld.param.u32 %r0, [n]; setp.eq.s32 %p1, %r0, 0; @%p1 mov.u32 %r1, 4; @!%p1 mov.u32 %r1, 8; mov.u32 %r2, %r1;"
        term = term_of(body, "%r2")
        assert [str(arg) for arg in term.args] == ["eq(n, 0)", "4", "8"]
        assert term.alignment == 4

    def test_join(self) -> None:
        body = "ld.param.u32 %r0, [n]; setp.eq.s32 %p1, %r0, 0; mov.u32 %r1, 16; @%p1 bra L; mov.u32 %r1, 48; L: add.s32 %r2, %r1, 16;"
        term = term_of(body, "%r2")
        assert (term.alignment, term.bounds) == (32, (32, 64))

    def test_wrap_around_is_not_ignored(self) -> None:
        body = "ld.param.u32 %r0, [n]; add.s32 %r1, %r0, 1; mul.wide.s32 %rd1, %r1, 4; mul.wide.s32 %rd2, %r0, 4; sub.s64 %rd3, %rd1, %rd2;"
        assert term_of(body, "%rd3").constant is None

    def test_warp_and_lane(self) -> None:
        body = "mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; and.b32 %r3, %r1, 31;"
        body += " shl.b32 %r4, %r2, 5; or.b32 %r5, %r4, %r3; shr.u32 %r6, %r5, 5;"
        assert term_of(body, "%r6", " .reqntid 256") is not None
        assert str(term_of(body, "%r6", " .reqntid 256")) == "shr.u(%tid.x, 5)"
        assert term_of(body, "%r2", " .reqntid 256").bounds == (0, 7)

    def test_special_register_that_cvt_reads(self) -> None:
        assert str(term_of("cvt.u64.u32 %rd1, %ctaid.x;", "%rd1")) == "zext(%ctaid.x)"
        assert str(term_of("cvt.u32.u16 %r1, %ctaid.x;", "%r1")) == "zext(trunc(%ctaid.x))"

    @pytest.mark.parametrize("load", ["ld.param.u32 %r1, [n];", "mov.u32 %r0, n; ld.param.u32 %r1, [%r0];"])
    def test_parameter_by_its_address_in_a_register(self, load: str) -> None:
        body = f"mov.u64 %rd1, n; add.s64 %rd2, %rd1, 16; ld.param.u32 %r2, [%rd2+-16]; {load} sub.s32 %r3, %r1, %r2;"
        assert term_of(body, "%r3").constant == 0

    def test_what_is_loaded_narrow_is_small(self) -> None:
        body = "ld.param.u64 %rd1, [p]; ld.global.u8 %r1, [%rd1]; ld.global.s8 %r2, [%rd1];"
        assert term_of(body, "%r1").bounds == (0, 255)
        assert term_of(body, "%r2").signed_bounds == (-128, 127)


def test_many_values_of_one_loop_take_little_work() -> None:
    """Each of 400 values that a loop carries depends on all others: a few calls for each pair of them."""
    count = 400
    lines = [f".reg .b32 %x<{count}>;", *[f"mov.u32 %x{i}, {i};" for i in range(count)], "L: ld.param.u32 %r0, [n];"]
    lines += [f"xor.b32 %r0, %r0, %x{i};\nadd.s32 %x{i}, %r0, %x{(i + 1) % count};" for i in range(count)]
    lines += ["setp.ne.s32 %p1, %r0, 0;", "@%p1 bra L;", *[f"st.global.u32 [%rd1], %x{i};" for i in range(count)]]
    routine = routine_of("\n".join(lines))
    known = values(routine)
    assert calls(lambda: [known.of(number) for number in range(len(ssa(routine).values))]) < 12 * count**2


def test_long_chains_take_time_in_proportion() -> None:
    lines = ["ld.param.u32 %r0, [n];", "mov.u32 %r1, %tid.x;"]
    for i in range(20000):
        lines.append(("xor.b32 %r1, %r1, %r0;", "add.s32 %r1, %r1, 12345;", "mad.lo.s32 %r1, %r1, %r1, %r0;")[i % 3])
    routine = routine_of("\n".join(lines))
    assert values(routine).written(len(lines) - 1)[0].width == 32


ELEMENTS = [
    ("mov.u64 %rd1, {};", "table[2]", "table+16"),
    ("cvta.global.u64 %rd1, {};", "table[2]", "table+16"),
    ("mov.u64 %rd1, {};", "table[1+2]", "table+24"),
    ("mov.u64 %rd1, {};", "table[-1]", "table+-8"),
]


@pytest.mark.parametrize(("form", "element", "sum"), ELEMENTS)
def test_an_element_of_an_array_is_at_its_index_times_its_size(form: str, element: str, sum: str) -> None:
    declared = ".global .align 8 .b64 table[4];"
    found, same = (str(term_of(declared + form.format(text), "%rd1")) for text in (element, sum))

    assert found == same != "None"


def test_an_element_at_a_register_is_at_the_index_times_the_size() -> None:
    declared = ".global .align 8 .b64 table[4]; mov.u32 %r1, %tid.x;"
    found = term_of(declared + "mov.u64 %rd1, table[%r1+2];", "%rd1")
    same = term_of(declared + "mov.u64 %rd1, table; mad.wide.u32 %rd1, %r1, 8, %rd1; add.u64 %rd1, %rd1, 16;", "%rd1")

    assert str(found) == str(same)
