"""Binding, on a small table of the tests' own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ptxkit.isa import binding, opcodes
from ptxkit.isa.binding import Bound, bind, bind_all, check_constants
from ptxkit.isa.mismatch import Mismatch
from ptxkit.isa.notation import parse_entries
from ptxkit.isa.opcodes import match, split_opcode
from ptxkit.isa.shapes import (
    FUNCTION,
    KERNEL,
    LABEL,
    SINK,
    UNKNOWN,
    OperandShape,
    address,
    immediate,
    pair,
    register,
    special,
    symbol,
    vector,
)

TABLE = """
add{.sat}.type  d, a, b
  .type = .u16 .u32 .s32 .u16x2@8.0/sm_90
  d: w .type
  a, b: r .type
  require .sat -> .type=.s32

add{.rnd}{.ftz}.type  d, a, b
  .rnd = .rn .rz
  .type = .f32 .f64
  d: w .type
  a, b: r .type
  never .ftz .type=.f64

add.ftype.htype  d, a, b
  .ftype = .f32
  .htype = .f16 .bf16
  d: w .ftype
  a: r .htype
  b: r .ftype
  needs 8.6 sm_100

cvt{.rnd}.dtype.atype  d, a
  .rnd = .rn .rz
  .dtype = .u16 .u32 .f32 .f64
  .atype = .u16 .u32 .f32 .f64
  d: w .dtype wide
  a: r .atype wide sreg

ld{.sem.scope}{.ss}{.hint}{.vec}.type  d, [a]{, policy}
  .sem = .acquire@6.0/sm_70
  .scope = .gpu .sys
  .ss = .global .shared .shared::cta@7.8 .const
  .hint = .L2::cache_hint
  .vec = .v2 .v4
  .type = .b32 .u32 .f32 .u64
  d: w .type[.vec] wide sink
  a: addr .ss align .type
  policy: r .u64
  require .hint -> policy
  require policy -> .hint
  needs when .vec=.v4: 2.0 sm_20
  memory read a order .sem scope .scope

mov.type  d, a
  .type = .b32 .u32 .u64 .pred
  d: w .type
  a: r .type sreg sym

mov.b64  {lo, hi}, a
  lo, hi: w .b32 bits sink
  a: r .b64 bits

setp.cmp.type  p{|q}, a, b{, c}
  .cmp = .lt .eq
  .type = .s32 .f32
  p, q: w .pred sink
  a, b: r .type
  c: r .pred neg

bar.sync  a{, b}
  a: r .u32 imm 0..15
  b: r .u32 imm multiple 32
  converges cta aligned
  barrier wait a

bra{.uni}  target
  target: label
  flow branch

tex.geom.v4.dtype.ctype  d, [t, c]
  .geom = .1d .2d
  .dtype = .f32 .s32
  .ctype = .f32 .s32
  d: w .dtype[4]
  t: sym
  c when .1d: r .ctype[1]
  c when .2d: r .ctype[2]

mma.shape.dtype  d, a
  .shape = .m64n{8..16..8}k16
  .dtype = .f32
  d: rw .f32[.shape.n/2]
  a: imm .s32 {-1,1}

ldm.num{.col}{.row}.b16  d, [a]
  .num = .x1 .x2
  d: w .b32[.num] vector
  a: addr .shared

atom.add.type  d, [a], b
  .type = .u32
  d: w .type sink
  a: addr
  b: r .type
  memory readwrite a

cvta.global.u64  d, a
  d: w .u64
  a: r .u64 in .global

strange{.x}
stranger.x
  unmodelled
"""


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    every = tuple(parse_entries(TABLE, "test.isa"))
    for module in (binding, opcodes):
        monkeypatch.setattr(module, "forms", lambda mnemonic, modifiers=(): tuple(f for f in every if f.mnemonic == mnemonic))
    for cached in (bind, match):
        cached.cache_clear()
    yield
    for cached in (bind, match):
        cached.cache_clear()


U32, S32, F32, F64, U64, U16, B32, PRED = (register(t) for t in (".u32", ".s32", ".f32", ".f64", ".u64", ".u16", ".b32", ".pred"))
INT, FLOAT = immediate("int"), immediate("f64")


def ok(opcode: str, *operands: OperandShape) -> Bound:
    found = bind(opcode, operands)
    assert isinstance(found, Bound), found
    assert len(bind_all(opcode, operands)) == 1
    return found


def bad(opcode: str, *operands: OperandShape) -> Mismatch:
    found = bind(opcode, operands)
    assert isinstance(found, Mismatch), found
    return found


def test_modifiers_are_a_bag() -> None:
    for opcode in ("ld.global.v2.u32", "ld.u32.v2.global", "ld.v2.global.u32"):
        assert ok(opcode, vector(U32, U32), address(U64)).slots == {".ss": ".global", ".vec": ".v2", ".type": ".u32"}


def test_types_keep_their_order() -> None:
    bound = ok("cvt.f32.u32", F32, U32)
    assert (bound.slot(".dtype"), bound.slot(".atype")) == (".f32", ".u32")
    assert ok("add.f32.f16", F32, register(".f16"), F32).form.slots[0].name == ".ftype"
    assert bad("add.f16.f32", F32, register(".f16"), F32).kind == "modifier-not-allowed"


def test_operands_are_read_and_written() -> None:
    bound = ok("ld.global.v2.u32", vector(U32, SINK), address(U64))
    assert bound.writes == ((0, 0),)
    assert bound.reads == ((1, 0),)
    assert bound.operand("d") is not None and bound.operand("d").width == 2  # type: ignore[union-attr]
    both = ok("mma.m64n16k16.f32", vector(*[F32] * 8), INT)
    assert both.reads == both.writes == tuple((0, n) for n in range(8))
    atom = ok("atom.add.u32", U32, address(symbol(".global")), U32)
    assert (atom.reads, atom.writes) == (((2,),), ((0,),))


def test_pairs_and_optional_operands() -> None:
    assert ok("setp.lt.s32", PRED, S32, INT).writes == ((0,),)
    bound = ok("setp.lt.s32", pair(PRED, SINK), S32, S32, register(".pred", 1, True))
    assert bound.writes == ((0, 0),)
    assert bound.reads == ((1,), (2,), (3,))


def test_effects_come_with_their_slots_filled() -> None:
    bound = ok("ld.acquire.gpu.global.u32", U32, address(U64))
    assert (bound.memory[0].order, bound.memory[0].scope) == (".acquire", ".gpu")
    assert bound.has(".acquire", ".global") and not bound.has(".volatile")
    assert bound.operand("a") is not None and bound.operand("a").align == 4  # type: ignore[union-attr]
    barrier = ok("bar.sync", INT)
    assert barrier.converges is not None and (barrier.converges.level, barrier.converges.aligned) == ("cta", True)
    assert ok("bra", LABEL).flow == "branch"


def test_needs_are_joined() -> None:
    bound = ok("ld.acquire.gpu.shared::cta.u32", U32, address(U32))
    assert str(bound.requirement) == "sm_70 with .version 7.8"
    assert {n.modifier for n in bound.needs} == {".acquire", ".shared::cta"}
    assert [n.modifier for n in ok("ld.v4.u32", vector(U32, U32, U32, U32), address(U64)).needs] == [".v4"]
    assert str(ok("mov.u32", U32, special("%cluster_ctarank")).requirement) == "sm_90 with .version 7.8"


def test_what_is_not_known_fits_everywhere() -> None:
    ok("add.f32", UNKNOWN, UNKNOWN, UNKNOWN)
    ok("setp.lt.s32", UNKNOWN, UNKNOWN, UNKNOWN)
    ok("ld.global.v2.u32", UNKNOWN, UNKNOWN)
    ok("tex.2d.v4.f32.s32", UNKNOWN, UNKNOWN)
    ok("add.u32", register(""), U32, U32)


def test_vectors() -> None:
    ok("tex.2d.v4.f32.s32", vector(F32, F32, F32, F32), address(symbol(".global", ".texref"), vector(S32, S32)))
    ok("tex.1d.v4.f32.s32", register(".f32", 4), address(U64, S32))
    ok("mov.b64", vector(U32, SINK), F64)
    ok("ld.global.u32", vector(U32), address(U64))


def test_a_vector_of_one_that_must_be_written_out() -> None:
    ok("ldm.x1.b16", vector(B32), address(U32))
    assert bad("ldm.x1.b16", B32, address(U32)).message == "`.b32` register where a vector of 1 is needed"
    assert bad("ldm.x2.b16", B32, address(U32)).message == "`.b32` register where a vector of 2 is needed"


def test_layouts_keep_their_order() -> None:
    ok("ldm.x1.col.row.b16", vector(B32), address(U32))
    assert bad("ldm.x1.row.col.b16", vector(B32), address(U32)).kind.startswith("modifier")


def test_addresses() -> None:
    ok("ld.u32", U32, address(symbol(".shared")))
    ok("ld.shared.u32", U32, address(U32))
    assert isinstance(bind("ld.global.u32", (U32, address(U32)), address_size=32), Bound)
    assert bad("ld.global.u32", U32, address(U32)).kind == "operand-type"
    assert bad("ld.shared.u32", U32, address(F32)).kind == "operand-type"
    assert bad("ld.global.u32", U32, address(symbol(".shared"))).message == "variable in `.shared` where `.global` is needed"
    assert bad("ld.u32", U32, address(symbol(".const"))).kind == "state-space"
    assert bad("cvta.global.u64", U64, symbol(".shared")).kind == "state-space"


def test_a_form_that_is_not_modelled_takes_anything() -> None:
    for opcode in ("strange", "strange.x", "strange.y.x"):
        bound = bind(opcode, (U32, F64))
        assert isinstance(bound, Bound) and not bound.form.modelled
    assert isinstance(bind("stranger.y", ()), Mismatch)


def test_constants_are_checked_afterwards() -> None:
    bound = ok("bar.sync", INT, INT)
    assert check_constants(bound, lambda path: {0: 3, 1: 64}[path[0]]) is None
    wrong = check_constants(bound, lambda path: {0: 16, 1: 64}[path[0]])
    assert wrong is not None and (wrong.kind, wrong.path, wrong.message) == ("immediate-range", (0,), "16 where 0 to 15 is needed")
    wrong = check_constants(bound, lambda path: {0: 1, 1: 33}[path[0]])
    assert wrong is not None and wrong.message == "33 where a multiple of 32 is needed"
    assert ok("bar.sync", U32).limited == ()


@pytest.mark.parametrize(
    ("opcode", "operands", "kind", "message"),
    [
        ("nope.u32", (), "unknown-opcode", "`nope` is not a known instruction"),
        ("add.nope.f32", (F32, F32, F32), "unknown-modifier", "`.nope` is not a modifier of `add`"),
        ("add", (U32, U32, U32), "modifier-missing", "`add` lacks one of `.u16` `.u32` `.s32` `.u16x2` `.f32` `.f64`"),
        (
            "add.b64",
            (U64, U64, U64),
            "unknown-modifier",
            "`.b64` is not a modifier of `add`; one of `.u16` `.u32` `.s32` `.u16x2` `.f32` `.f64` is needed",
        ),
        (
            "ld.tex.u32",
            (U32, address(U64)),
            "state-space",
            "state space `.tex` where one of `.global` `.shared` `.shared::cta` `.const` is needed",
        ),
        ("cvt.rn.f64", (F64, F32), "modifier-missing", "`cvt.rn.f64` lacks one of `.u16` `.u32` `.f32` `.f64`"),
        ("add.u32.rn", (U32, U32, U32), "modifier-not-allowed", "`.rn` is not allowed with `add.u32`"),
        ("add.rn.rz.f32", (F32, F32, F32), "modifiers-exclude-each-other", "`.rz` and `.rn` exclude each other"),
        ("add.ftz.f64", (F64, F64, F64), "modifiers-exclude-each-other", "`.ftz` and `.f64` may not stand together"),
        ("add.sat.u32", (U32, U32, U32), "modifier-missing", "`.sat` needs `.s32`"),
        ("ld.global.acquire.u32", (U32, address(U64)), "modifier-missing", "`.acquire` needs `.scope`"),
        ("add.f32", (F32, F32), "operand-count", "`add.f32` takes 3 operands, not 2"),
        ("setp.lt.s32", (PRED, S32), "operand-count", "`setp.lt.s32` takes 3 or 4 operands, not 2"),
        ("add.f32", (F32, F64, F32), "operand-type", "`.f64` register where `.f32` is needed"),
        ("add.f32", (F32, F32, INT), "operand-kind", "an integer constant where `.f32` is needed"),
        ("add.u32", (U32, U32, FLOAT), "operand-kind", "a float constant where `.u32` is needed"),
        ("add.u32", (INT, U32, U32), "operand-kind", "an integer constant where a register is needed"),
        ("add.u16x2", (B32, B32, INT), "operand-kind", "an integer constant where `.u16x2` is needed"),
        ("add.u32", (U32, address(U64), U32), "operand-kind", "an address where `.u32` is needed"),
        ("add.u32", (SINK, U32, U32), "operand-kind", "`_` may not stand here"),
        ("add.u32", (U32, symbol(".global"), U32), "operand-kind", "`.global` variable where `.u32` is needed"),
        (
            "add.u32",
            (U32, special("%tid.x"), U32),
            "special-register",
            "special register `%tid.x` may not stand here; only mov and cvt read it",
        ),
        ("mov.u32", (U32, special("%clock64")), "special-register", "`.u64` special register `%clock64` where `.u32` is needed"),
        ("mov.u32", (special("%tid.x"), U32), "special-register", "special register `%tid.x` cannot be written"),
        ("setp.lt.s32", (PRED, S32, S32, INT), "", ""),
        ("ld.global.v4.f32", (vector(F32, F32), address(U64)), "vector-width", "a vector of 2 where a vector of 4 is needed"),
        ("ld.global.v4.f32", (F32, address(U64)), "vector-width", "`.f32` register where a vector of 4 is needed"),
        ("add.f32", (F32, vector(F32, F32), F32), "vector-width", "a vector of 2 where a single one is needed"),
        (
            "ld.global.v2.b32",
            (vector(U32, F32), address(U64)),
            "operand-type",
            "`.f32` register in a vector whose other elements are `.u32`",
        ),
        ("ld.global.u32", (U32, U64), "operand-kind", "`.u64` register where an address in brackets is needed"),
        ("bra", (U32,), "operand-kind", "`.u32` register where a label is needed"),
        ("mma.m64n8k16.f32", (vector(*[F32] * 4), U32), "operand-kind", "`.u32` register where a constant is needed"),
        ("mov.pred", (PRED, register(".pred", 1, True)), "predicate", "`!` is not allowed before this operand"),
    ],
)
def test_what_is_said_of_a_mismatch(opcode: str, operands: tuple[OperandShape, ...], kind: str, message: str) -> None:
    if not kind:
        ok(opcode, *operands)
        return
    found = bad(opcode, *operands)
    assert (found.kind, found.message) == (kind, message)


def test_binding_is_remembered() -> None:
    assert ok("add.f32", F32, F32, F32) is bind("add.f32", (register(".f32"), F32, F32))


def test_a_kernel_is_a_function_with_a_name_of_its_own() -> None:
    (form,) = parse_entries("mov.u64 d, f\n  d: w .u64\n  f: func\n  needs when f=kernel: 3.1 sm_35\n", "x.isa")
    candidate = binding.Candidate(form, (".u64",), {".u64": ".u64"})
    for shape, expected in ((KERNEL, "sm_35 with .version 3.1"), (FUNCTION, "sm_10 with .version 1.0")):
        bound = binding._Binding(candidate, (U64, shape), 64).of(form.variants[0])
        assert isinstance(bound, Bound)
        assert str(bound.requirement) == expected


def test_blanks_before_a_modifier_do_not_count() -> None:
    assert split_opcode("mov .u32") == ("mov", (".u32",))
    assert isinstance(bind("mov .u32", (register(".b32"), immediate("int"))), Bound)
