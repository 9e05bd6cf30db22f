"""How large scalars may be so that addresses stay within arrays."""

from __future__ import annotations

import ptxkit
from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.analyses.inputs.example import Number
from ptxkit.analyses.inputs.launches import example
from ptxkit.analyses.inputs.scales import REACH, most_of
from ptxkit.analyses.inputs.shapes import shapes


def kernel(body: str) -> Routine:
    text = f"""
        .version 8.0
        .target sm_80
        .address_size 64
        .visible .entry k(.param .u64 p, .param .u32 n, .param .u32 m) .reqntid 128
        {{
        .reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
        ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; ld.param.u32 %r2, [m]; mov.u32 %r3, %ctaid.x;
        {body}
        st.global.u32 [%rd3], %r3;
        ret;
        }}
    """
    return routines(ptxkit.parse(text))[0]


def numbers(routine: Routine) -> list[object]:
    arguments = dict(example(routine, shapes(routine)[0]).arguments)
    return [one.value for name in "nm" if isinstance(one := arguments[name], Number)]


def test_a_scalar_that_counts_large_pieces_is_small() -> None:
    routine = kernel("mul.lo.u32 %r4, %r1, %r3; mul.wide.u32 %rd2, %r4, 2097152; add.s64 %rd3, %rd1, %rd2;")

    assert most_of(routine, ("n", 0, 4), 256) == REACH // 2097152
    assert numbers(routine)[0] == 8


def test_scalars_of_one_product_share_the_reach() -> None:
    routine = kernel("mul.lo.u32 %r4, %r1, %r3; mul.lo.u32 %r4, %r4, %r2; mul.wide.u32 %rd2, %r4, 4; add.s64 %rd3, %rd1, %rd2;")

    assert numbers(routine) == [2048, 2048]
    assert most_of(routine, ("n", 0, 4), 1 << 12) == 1 << 12


def test_a_stride_of_elements_is_as_large_as_before() -> None:
    routine = kernel("mul.lo.u32 %r4, %r1, %r3; mul.wide.u32 %rd2, %r4, 4; add.s64 %rd3, %rd1, %rd2;")

    assert numbers(routine)[0] == 16 * 256


def test_a_loop_that_multiplies_its_variable_has_an_end() -> None:
    body = """
        mov.u32 %r4, %r1;
        L: mul.lo.u32 %r4, %r4, 3; mad.lo.u32 %r4, %r4, %r2, %r3; setp.lt.u32 %p1, %r4, 99; @%p1 bra L;
        mul.wide.u32 %rd2, %r4, 4; add.s64 %rd3, %rd1, %rd2;
    """
    routine = kernel(body)

    assert 1 <= most_of(routine, ("n", 0, 4), 256) <= REACH
