"""What names mean: scopes, shadowing, parameterised names, and what nothing declares."""

from __future__ import annotations

import pytest

from ptxkit.names import Kind, Names, resolve
from ptxkit.syntax import parse


def names(text: str) -> Names:
    module = parse(text)
    assert module.diagnostics == ()
    return resolve(module)


def in_kernel(body: str) -> Names:
    return names(f".entry k(.param .u32 p)\n{{\n{body}\n}}\n")


def missing(found: Names) -> list[str]:
    return [use.name for use in found.unresolved]


def test_what_is_declared_is_found() -> None:
    found = names(
        ".global .u32 g;\n.func (.reg .u32 r) f (.reg .u32 a) { mov.u32 r, a; L: bra L; }\n"
        ".entry k(.param .u32 p) { .reg .u32 x; ld.param.u32 x, [p]; st.global.u32 [g], x; call (x), f, (x); }\n"
    )
    assert missing(found) == [] and found.duplicates == ()
    kinds = {symbol.name: symbol.kind for scope in found.all_scopes for symbol in scope.symbols.values()}
    assert kinds == {
        "g": Kind.VARIABLE,
        "f": Kind.FUNCTION,
        "k": Kind.FUNCTION,
        "r": Kind.REGISTER,
        "a": Kind.REGISTER,
        "L": Kind.LABEL,
        "p": Kind.PARAMETER,
        "x": Kind.REGISTER,
    }


def test_what_nothing_declares_is_told_once_a_scope() -> None:
    found = in_kernel("mov.u32 a, b; mov.u32 a, c; { mov.u32 a, 1; }")
    assert sorted(missing(found)) == ["a", "b", "c"]


def test_special_names_need_no_declaration() -> None:
    found = in_kernel(".reg .u32 a; mov.u32 a, %tid.x; mov.u32 a, WARP_SZ; mov.u32 _, a;")
    assert missing(found) == []


def test_an_inner_scope_hides_an_outer_one() -> None:
    module = parse(".entry k() {\n.reg .u32 a;\n{ .reg .f32 a; mov.f32 a, a; }\nmov.u32 a, a;\n}\n")
    found = resolve(module)
    assert found.duplicates == ()
    inner, outer = found.lookup((0, 1, 1, 1), "a"), found.lookup((0, 1, 2), "a")
    assert inner is not None and outer is not None
    assert (inner.type, outer.type) == (".f32", ".u32")


def test_inner_names_end_with_their_scope() -> None:
    assert missing(in_kernel("{ .reg .u32 a; } mov.u32 a, 1;")) == ["a"]


@pytest.mark.parametrize(
    "name, known", [("%r0", True), ("%r9", True), ("%r10", False), ("%r01", False), ("%r", False), ("%r" + "1" * 5000, False)]
)
def test_parameterised_names(name: str, known: bool) -> None:
    assert (missing(in_kernel(f".reg .u32 %r<10>; mov.u32 {name}, 1;")) == []) == known


def test_parameterised_names_that_end_in_digits() -> None:
    assert missing(in_kernel(".reg .u32 a1<5>; mov.u32 a14, a10;")) == []
    assert missing(in_kernel(".reg .u32 a1<5>; mov.u32 a15, a1;")) == ["a15", "a1"]


def test_duplicates() -> None:
    found = names(
        ".global .u32 g;\n.global .u32 g;\n.entry k() { .reg .u32 a; .reg .f32 a; L: ret; L: ret; .reg .u32 %r<2>; .reg .u32 %r<3>; }\n"
    )
    assert sorted(first.name for first, _ in found.duplicates) == ["%r", "L", "a", "g"]


def test_what_may_be_declared_again() -> None:
    text = ".extern .global .u32 g;\n.global .u32 g;\n.func f;\n.func f;\n.func f { ret; }\n.entry k() { call f; }\n"
    assert names(text).duplicates == ()


def test_what_is_used() -> None:
    found = in_kernel(".reg .u32 a, b; mov.u32 a, 1;")
    scope = next(scope for scope in found.all_scopes if "a" in scope.symbols)
    assert found.is_used(scope.symbols["a"]) and not found.is_used(scope.symbols["b"])


def test_names_in_initialisers_and_targets() -> None:
    found = names(".global .u64 t[2] = {g, generic(h)};\n.global .u32 h;\n.entry k() { T: .branchtargets A, B; A: ret; }\n")
    assert missing(found) == ["g", "B"]


def test_the_paths_of_symbols_lead_to_their_names() -> None:
    module = parse(".global .u32 g;\n.entry k(.param .u32 p) { .reg .u32 a, %r<3>; L: { .reg .u32 c; } }\n")
    found = resolve(module)
    for scope in found.all_scopes:
        for symbol in [*scope.symbols.values(), *[one for family in scope.ranges.values() for one in family]]:
            assert module.at(symbol.path).text == symbol.name


def test_the_answer_is_remembered() -> None:
    module = parse(".entry k() { ret; }")
    assert resolve(module) is resolve(module)
