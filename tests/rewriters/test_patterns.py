"""Picking instructions."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.rewriters import Pattern, pattern, select

MODULE = ptxkit.parse(
    """.version 8.0
.target sm_90a
.address_size 64
.file 1 "a.cu"
.visible .entry k(.param .u64 k_0)
{
	.reg .pred %p<3>;
	.reg .b32 %r<9>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [k_0];
	.loc 1 7 1
	ld.global.v2.u32 {%r1, %r2}, [%rd1+16];
	ld.u32.global %r3, [%rd1];
L:
	.loc 1 8 1
	@%p1 st.shared::cta.u32 [%r4], %r3;
	add.u32 %r3, %r3, 1;
	@!%p2 bra L;
	ret;
}
.func f()
{
	ret;
}
"""
)


def found(wanted: Pattern | str) -> list[str]:
    return [f"{site.routine.name} {site.index}" for site in select(MODULE, wanted)]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("ld", ["k 0", "k 1", "k 2"]),
        ("ld.global", ["k 1", "k 2"]),
        ("ld.u32.global", ["k 1", "k 2"]),
        ("ld.global _, [_]", ["k 1", "k 2"]),
        ("ld.global %r3, [%rd1]", ["k 2"]),
        ("ld.global {_, %r2}, [%rd1+16]", ["k 1"]),
        ("add.u32 %r3, %r3, _", ["k 4"]),
        ("@ bra", ["k 5"]),
        ("st", ["k 3"]),
        (Pattern("ld", lacks=(".v2",), has=(".global",)), ["k 2"]),
        (Pattern(space=".shared"), ["k 3"]),
        (Pattern(guarded=False, mnemonic="st"), []),
        (Pattern(line=8), ["k 3", "k 4", "k 5", "k 6"]),
        (Pattern("ld", file=1), ["k 1", "k 2"]),
        (Pattern(function="f"), ["f 0"]),
        (Pattern(place="first"), ["k 0", "f 0"]),
        (Pattern(place="last"), ["k 6", "f 0"]),
        (Pattern(place="loop-header"), ["k 3"]),
        (Pattern(place="block-start"), ["k 0", "k 3", "k 6", "f 0"]),
        (Pattern(place="block-end"), ["k 2", "k 5", "k 6", "f 0"]),
    ],
    ids=str,
)
def test_picks(wanted: Pattern | str, expected: list[str]) -> None:
    assert found(wanted) == expected


@pytest.mark.parametrize("text", ["", "ld;ld", "L:", "@%p ld", ".reg .b32 a", "ld.global _, ["])
def test_what_is_no_pattern(text: str) -> None:
    with pytest.raises(ValueError):
        pattern(text)
