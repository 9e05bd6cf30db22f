"""Special registers."""

from __future__ import annotations

from ptxkit.isa.registers import special_register, special_registers


def test_components() -> None:
    tid = special_register("%tid")
    x = special_register("%tid.x")
    assert tid is not None and tid.components == 3
    assert x is not None and x.components == 1 and x.types == (".u32",)
    assert special_register("%laneid.x") is None
    assert special_register("%tid.q") is None
    assert special_register("%nosuch") is None


def test_numbered_ones() -> None:
    assert special_register("%envreg31") is not None
    assert special_register("%envreg32") is None
    assert special_register("%pm7_64") is not None


def test_what_reads_one_value() -> None:
    assert special_registers()["%ctaid"].uniform == "cta"
    assert special_registers()["%warpid"].uniform == "warp"
    assert special_registers()["%clock"].volatile
