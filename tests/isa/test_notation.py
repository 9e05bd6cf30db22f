"""Reading `.isa` text."""

from __future__ import annotations

import pytest

from ptxkit.isa.forms import Atom, Call, Choice, Computes, Form, Item, Limits, NotationError, Width
from ptxkit.isa.notation import parse_entries
from ptxkit.isa.requirements import Needs, TargetNeed
from ptxkit.isa.statements import parse_condition

LDMATRIX = """
# a comment
ldmatrix.sync.aligned.shape.num{.trans}{.ss}.type  r, [p]   # another
  § 9.7.15.4.15
  "Loads one or more 8x8 matrices from shared memory, cooperatively by a warp."
  .shape = .m8n8
  .num   = .x1 .x2
           .x4
  .ss    = .shared .shared::cta@7.8
  .type  = .b16
  .type += .b8@8.6/sm_100a|sm_100f@8.8
  r: w .b32[.num]
  p: addr .ss align 16
  needs 6.5 sm_75
  converges warp aligned
  memory read p
"""


def one(text: str) -> Form:
    (form,) = parse_entries(text, "x.isa")
    return form


def test_an_entry_says_what_it_says() -> None:
    form = one(LDMATRIX)
    assert form.mnemonic == "ldmatrix"
    assert form.section == "9.7.15.4.15"
    assert form.summary.startswith("Loads one or more")
    assert [s.name for s in form.slots] == [".sync", ".aligned", ".shape", ".num", ".trans", ".ss", ".type"]
    assert [s.name for s in form.slots if s.optional] == [".trans", ".ss"]
    assert [c.modifier for c in form.slots[3].choices] == [".x1", ".x2", ".x4"]
    assert form.slots[5].choices[1] == Choice(".shared::cta", Needs((7, 8)))
    assert form.slots[6].choices[1].needs == Needs((8, 6), (TargetNeed("sm_100a"), TargetNeed("sm_100f", (8, 8))))
    assert form.variants == ((Item("plain", "r"), Item("address", parts=(Item("plain", "p"),))),)
    assert form.rules["r"][0].types[0].width == Width(slot=".num")
    assert form.rules["p"][0].spaces == (".ss",)
    assert form.rules["p"][0].align == "16"
    assert form.needs[0].what == Needs((6, 5), (TargetNeed("sm_75"),))
    assert form.converges[0].what.level == "warp"
    assert form.memory[0].what.operand == "p"


def test_a_form_knows_where_it_was_declared() -> None:
    form = one(LDMATRIX)
    assert (form.file, form.line, form.entry) == ("x.isa", 3, 3)


def test_several_form_lines_share_a_body() -> None:
    first, second = parse_entries("a.x d\na.y d, e\n  d: w .b32\n  e: r .b32\n", "x.isa")
    assert (first.syntax, second.syntax) == ("a.x d", "a.y d, e")
    assert (second.line, second.entry) == (2, 1)


def test_ranges_become_alternatives() -> None:
    form = one("w.shape\n  .shape = .m64n{8..32..8}k16\n")
    assert [c.modifier for c in form.slots[0].choices] == [".m64n8k16", ".m64n16k16", ".m64n24k16", ".m64n32k16"]


@pytest.mark.parametrize(
    ("operands", "ways"),
    [
        ("d, a", ["d a"]),
        ("d, a{, b}", ["d a", "d a b"]),
        ("d{, a{, b}}", ["d", "d a", "d a b"]),
        ("d{, a}{, b}", ["d", "d a", "d b", "d a b"]),
        ("{d, }a", ["a", "d a"]),
        ("p{|q}, a", ["p a", "(p q) a"]),
        ("p|q, a", ["(p q) a"]),
        ("{lo, hi}, a", ["(lo hi) a"]),
        ("d, [t, c]{, e}", ["d (t c)", "d (t c) e"]),
        ("d, [t{, s}, c]", ["d (t c)", "d (t s c)"]),
        ("(r), f, (a)", ["(r) f (a)"]),
        ("d, !c", ["d c"]),
        ("", [""]),
    ],
)
def test_operands_that_may_be_left_out(operands: str, ways: list[str]) -> None:
    def shown(item: Item) -> str:
        return item.name or f"({' '.join(map(shown, item.parts))})"

    body = "".join(f"  {name}: any\n" for name in ["d", "a", "b", "c", "e", "p", "q", "r", "f", "s", "t", "lo", "hi"])
    form = one(f"x.y  {operands}\n{body}")
    assert sorted(" ".join(map(shown, way)) for way in form.variants) == sorted(ways)


def test_braces_around_several_modifiers_bind_them_together() -> None:
    form = one("a{.b{.c}}{.d.e}.f\n")
    said = [(c.when[0].values[0], c.then[0].values[0]) for c in form.constraints if c.then]
    assert sorted(said) == [(".c", ".b"), (".d", ".e"), (".e", ".d")]


def test_conditions() -> None:
    assert parse_condition(".f16|.bf16 !.sat .shape=.x1|.x2 policy d=vector") == (
        Atom("has", "", (".f16", ".bf16"), False),
        Atom("has", "", (".sat",), True),
        Atom("slot", ".shape", (".x1", ".x2"), False),
        Atom("given", "policy", (), False),
        Atom("is", "d", ("vector",), False),
    )


def test_any_statement_may_have_a_condition() -> None:
    form = one(
        "a{.aligned}  d\n  d when .aligned: w .b32\n  d: w .b64\n  converges when .aligned: warp aligned\n  needs when .aligned: 8.0\n"
    )
    assert len(form.rules["d"]) == 2
    assert form.converges[0].when == parse_condition(".aligned")
    assert form.needs[0].when == parse_condition(".aligned")


@pytest.mark.parametrize(
    ("attributes", "limits", "good", "bad"),
    [
        ("imm 0..15", Limits(0, 15), [0, 15], [-1, 16]),
        ("imm {4, 8,16}", Limits(values=(4, 8, 16)), [4, 16], [5]),
        ("imm 24..256 multiple 8", Limits(24, 256, multiple=8), [24, 256], [20, 25]),
        ("imm 0..", Limits(0), [0, 99], [-1]),
        ("imm 0<..1", Limits(0, 1, above=True), [0.5, 1], [0, 1.5]),
    ],
)
def test_limits_of_constants(attributes: str, limits: Limits, good: list[float], bad: list[float]) -> None:
    found = one(f"a d\n  d: r .u32 {attributes}\n").rules["d"][0].limits
    assert found == limits
    assert all(limits.allow(v) for v in good)
    assert not any(limits.allow(v) for v in bad)


@pytest.mark.parametrize(
    ("text", "where", "expected"),
    [
        ("  d: w .b32\n", 1, "form line"),
        ("a d\n", 1, "a line 'd: ROLE …' is expected"),
        ("a d\n  d: x .b32\n", 2, "a role"),
        ("a d\n  d: w .b32 foo\n", 2, "an attribute"),
        ("a d\n  d: w .nope\n", 1, "a type or a slot"),
        ("a.t d\n  .t = b32\n  d: w .t\n", 2, "a modifier as .name"),
        ("a.t d\n  .t = .b32\n  .t = .b64\n  d: w .t\n", 3, "given twice"),
        ("a.t d\n  .t = .b32@x\n  d: w .t\n", 2, "PTX version"),
        ("a.t d\n  .t = .b32@8.0/sm_99\n  d: w .t\n", 2, "target of targets.isa"),
        ("a d\n  d: w .b32\n  converges many\n", 3, "converges warp"),
        ("a d\n  d: w .b32\n  frobnicate\n", 3, "is expected, not 'frobnicate'"),
        ("a {d\n  d: w .b32\n", 1, "'}' is expected"),
        ("a{.b d\n  d: w .b32\n", 1, "'}' is expected"),
        ("a d\n  d: w .b32\n  require .x\n", 3, "require COND -> COND"),
        ('a d\n  "unfinished\n  d: w .b32\n', 2, "summary"),
    ],
)
def test_errors_say_where_and_what_was_expected(text: str, where: int, expected: str) -> None:
    with pytest.raises(NotationError) as caught:
        list(parse_entries(text, "x.isa"))
    assert str(caught.value).startswith(f"x.isa:{where}: ")
    assert expected in str(caught.value)


def test_what_is_computed() -> None:
    head = "a{.sat}.cmp d, x, y\n  .cmp = .lt .ge\n  d: w .b32\n  x, y: r .b32\n"
    form = one(head + "  computes when !.sat: d = add(.cmp(x, y), and(x, 31))\n  computes d = x\n")
    first, second = form.computes
    assert first.what == Computes("d", Call("add", (Call(".cmp", ("x", "y")), Call("and", ("x", 31)))))
    assert first.when == (Atom("has", "", (".sat",), True),)
    assert second.what == Computes("d", "x")


@pytest.mark.parametrize("value", ["d", "d = ", "d = add(x", "d = x)", "d = x y", "d = add(x; y)", "= x"])
def test_what_is_computed_must_be_one_value(value: str) -> None:
    with pytest.raises(NotationError):
        one(f"a d, x\n  d: w .b32\n  x: r .b32\n  computes {value}\n")


def test_fragments_are_read() -> None:
    head = "f.shape.type  a, b\n  .shape = .m1n2k3\n  .type = .f16\n  a, b: r .b32\n"
    (form,) = parse_entries(head + "  fragment a a .shape .type .row opaque\n  fragment b c .shape .f32\n")

    assert [(f.what.operand, f.what.matrix, f.what.layout, f.what.is_opaque) for f in form.fragments] == [
        ("a", "a", ".row", True),
        ("b", "c", "", False),
    ]


@pytest.mark.parametrize("words", ["a", "a d .shape .f16", "a a .shape .f16 .row .col"])
def test_a_fragment_that_says_too_little_or_too_much_is_refused(words: str) -> None:
    with pytest.raises(NotationError, match="fragment OPERAND"):
        list(parse_entries(f"f  a\n  a: r .b32\n  fragment {words}\n"))
