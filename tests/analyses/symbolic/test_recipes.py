"""Which instructions have a recipe for what they write, and how variables are aligned."""

from __future__ import annotations

import pytest
from sample import HEAD, kernel

import ptxkit
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.symbolic.recipes import Recipe, recipe
from ptxkit.analyses.symbolic.values import alignment_of
from ptxkit.isa.binding import Bound
from ptxkit.names import resolve


def of(text: str) -> Recipe | None:
    bound = bindings(kernel(text))[0]
    assert isinstance(bound, Bound)
    return recipe(bound)


class TestRecipes:
    def test_a_result_is_made_of_its_inputs(self) -> None:
        found = of("mad.lo.u32 %r1, %r2, 4, %r3;")

        assert found is not None
        (output,) = found.outputs
        assert output.make is not None
        assert (output.width, output.register_width, output.uses) == (32, 32, (0, 1))

    def test_the_halves_of_a_register(self) -> None:
        found = of("mov.b64 {%r1, %r2}, %d1;")

        assert found is not None
        assert [(output.element, output.count, output.register_width) for output in found.outputs] == [(0, 2, 32), (1, 2, 32)]

    def test_inputs_have_widths_of_their_own(self) -> None:
        found = of("popc.b64 %r1, %d1;")

        assert found is not None
        assert found.outputs[0].make is not None
        assert [one.width for one in found.outputs[0].inputs] == [64]

    @pytest.mark.parametrize("text", ["bar.sync 0;", "st.shared.u32 [%r1], %r2;", "call f, ();", "atom.shared.add.u32 %r1, [%r2], 1;"])
    def test_nothing_can_be_said(self, text: str) -> None:
        bound = bindings(kernel(text, ".func f() { ret; }"))[0]

        assert isinstance(bound, Bound)
        assert recipe(bound) is None


@pytest.mark.parametrize(
    ("declaration", "expected"),
    [
        (".b8 x[3]", 1),
        (".b32 x", 4),
        (".f64 x[2]", 8),
        (".v4 .f32 x", 16),
        (".align 64 .b8 x[128]", 64),
        # less than its type asks for, which is no proof of more
        (".align 1 .b32 x", 1),
    ],
)
def test_alignment(declaration: str, expected: int) -> None:
    symbol = resolve(ptxkit.parse(f"{HEAD}.shared {declaration};")).root.lookup("x")

    assert symbol is not None
    assert alignment_of(symbol) == expected
