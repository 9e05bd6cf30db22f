"""Numbers that say where a part of memory begins."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.analyses.inputs.begins import begins_of_parts
from ptxkit.analyses.inputs.example import Number
from ptxkit.analyses.inputs.launches import example
from ptxkit.analyses.inputs.shapes import shapes

KERNEL = """.version 8.0
.target sm_80
.address_size 64
{shared}
.visible .entry k(.param .u64 p, .param .u32 b, .param .u32 c)
{{
.reg .pred %p<2>; .reg .b32 %r<16>; .reg .b64 %rd<4>;
ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [b]; ld.param.u32 %r2, [c];
mov.u32 %r3, %tid.x; mov.u32 %r4, s; mad.lo.u32 %r5, %r3, 4, %r4; st.shared.u32 [%r5], %r3;
{rest}
ret;
}}
"""
DYNAMIC, STATIC = ".extern .shared .align 16 .b8 s[];", ".shared .align 16 .b8 s[4096];"
IN_BYTES = "add.u32 %r6, %r5, %r1; st.shared.u32 [%r6], %r3;"
IN_WORDS = "mad.lo.u32 %r6, %r1, 4, %r5; st.shared.u32 [%r6], %r3;"
ANOTHER = "add.u32 %r7, %r5, %r2; st.shared.u32 [%r7], %r3;"
COMPARED = "setp.ge.u32 %p1, %r3, %r1; @%p1 bra END; END:"
IN_GLOBAL = "mad.wide.u32 %rd2, %r1, 4, %rd1; st.global.u32 [%rd2], %r3;"
ADVANCED = "add.u32 %r6, %r5, %r1; mov.u32 %r8, 0; L: st.shared.u32 [%r6], %r3; add.u32 %r6, %r6, 128; add.u32 %r8, %r8, 1; "
ADVANCED += "setp.lt.u32 %p1, %r8, 4; @%p1 bra L;"


def kernel(rest: str, shared: str = DYNAMIC) -> Routine:
    return routines(ptxkit.parse(KERNEL.format(rest=rest, shared=shared)))[0]


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        (IN_BYTES, {"b": 24 << 10}),
        (IN_WORDS, {"b": 6 << 10}),
        (ADVANCED, {"b": 24 << 10}),
        (IN_BYTES + ANOTHER, {"b": 16 << 10, "c": 32 << 10}),
        (IN_BYTES + COMPARED, {}),
        (IN_BYTES + IN_GLOBAL, {}),
        (IN_BYTES + "mad.lo.u32 %r9, %r1, 4, %r5; st.shared.u32 [%r9], %r3;", {}),
        ("", {}),
    ],
    ids=["in bytes", "in words", "advanced by a loop", "two", "compared", "in global memory too", "two units", "none"],
)
def test_parts_of_dynamic_shared_memory_do_not_overlap(rest: str, expected: dict[str, int]) -> None:
    routine = kernel(rest)
    made = dict(example(routine, shapes(routine)[0]).arguments)

    assert {name: offset for (name, _, _), offset in begins_of_parts(routine).items()} == expected
    assert {name: made[name] for name in expected} == {name: Number(".u32", offset) for name, offset in expected.items()}


def test_an_array_of_known_size_is_not_divided() -> None:
    assert begins_of_parts(kernel(IN_BYTES, STATIC)) == {}
