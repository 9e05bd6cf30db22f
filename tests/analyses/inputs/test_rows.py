"""Numbers that are lengths of rows, which a host may pad to whole warps."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses import lint
from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.framework.rule import select
from ptxkit.analyses.inputs.rows import rows
from ptxkit.diagnostics import Severity

KERNEL = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n, .param .u32 m)
{{
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<8>;
ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; ld.param.u32 %r2, [m];
mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x; mad.lo.u32 %r3, %r3, %r4, %r5;
{leaves} @%p1 bra END;
shfl.sync.bfly.b32 %r6, %r5, 16, 31, -1;
{index} mul.wide.u32 %rd2, %r3, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r6;
END: ret;
}}
"""
COUNT = "setp.ge.u32 %p1, %r3, %r1;"
OF_ROWS = {
    "a factor in the address": (COUNT, "mov.u32 %r7, %ctaid.y; mad.lo.u32 %r3, %r7, %r1, %r3;"),
    "a divisor of the index": ("div.u32 %r8, %r3, %r1; setp.ge.u32 %p1, %r8, %r2;", ""),
    "one of two bounds of an index": (f"{COUNT} setp.ge.u32 %p2, %r3, %r2;", "@%p2 bra ADDRESS; mov.u32 %r6, 0; ADDRESS:"),
}


@pytest.mark.parametrize("what", OF_ROWS)
def test_rows_may_be_whole_warps(what: str) -> None:
    leaves, index = OF_ROWS[what]
    module = ptxkit.parse(KERNEL.format(leaves=leaves, index=index))

    assert ("n", 0, 4) in rows(routines(module)[0])
    assert [(one.rule, one.severity.value) for one in lint(module, select(["C006"]))] == [("C006", "info")]


def test_rows_in_a_structure_may_be_whole_warps() -> None:
    """The execution has lengths that break a row, at an offset in the parameter."""
    text = KERNEL.format(leaves=COUNT, index="mov.u32 %r7, %ctaid.y; mad.lo.u32 %r3, %r7, %r1, %r3;")
    text = text.replace(".param .u64 p, .param .u32 n, .param .u32 m", ".param .align 8 .b8 p[16]")
    module = ptxkit.parse(text.replace("[n]", "[p+8]").replace("[m]", "[p+12]"))

    assert not [one for one in lint(module, select(["C"]), run=True) if one.severity in (Severity.ERROR, Severity.WARNING)]


def test_a_count_of_elements_is_any_number() -> None:
    module = ptxkit.parse(KERNEL.format(leaves=COUNT, index=""))

    assert not rows(routines(module)[0])
    assert [(one.rule, one.severity.value) for one in lint(module, select(["C006"]))] == [("C006", "warning")]
