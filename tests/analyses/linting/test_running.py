"""When what a run with example inputs showed may be the fault of these inputs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import ptxkit
from ptxkit.analyses.linting.running import with_doubtful_ends
from ptxkit.diagnostics import Severity

FAR = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out) .reqntid 64
{{
	.reg .b32 %r<4>;
	.reg .b64 %rd<8>;
	.local .align 8 .b8 own[64];
	.reg .b64 %p;
	ld.param.u64 %rd1, [out];
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, 0;
	mov.u64 %p, own;
	st.local.u32 [%p], %r2;
	mov.u64 %rd2, {distance};
	add.u64 %rd3, %p, %rd2;
	ld.local.u32 %r3, [%rd3];
	st.global.u32 [%rd1], %r3;
	ret;
}}
"""


@pytest.mark.parametrize(("distance", "is_found"), [(68, True), (1 << 32, False)])
def test_an_address_that_has_nothing_to_do_with_its_variable_is_no_overrun(distance: int, is_found: bool) -> None:
    found = ptxkit.lint(FAR.format(distance=distance))

    assert is_found == any(one.rule == "S002" and one.severity is Severity.ERROR for one in found)


def _found(rule: str, example: str, *, ends: bool) -> Any:
    witness = {"ends": "deadlock"} if ends else {}
    return SimpleNamespace(example=example, finding=SimpleNamespace(diagnostic=SimpleNamespace(rule=rule), witness=witness))


@pytest.mark.parametrize("doubt", ["", "contents"])
def test_what_is_wrong_with_waiting_is_as_sure_as_the_deadlock_that_ends_the_launch(doubt: str) -> None:
    deadlock, others = _found("M009", "one", ends=True), [_found(rule, "one", ends=False) for rule in ("M005", "S003")]
    elsewhere = _found("M005", "other", ends=False)
    rule: Any = None

    judged = with_doubtful_ends([(deadlock, rule, doubt), *[(one, rule, "") for one in (*others, elsewhere)]])

    assert [bool(why) for _, _, why in judged] == [bool(doubt), bool(doubt), False, False]


PLANES = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k({parameters})
{{
.reg .pred %p<4>; .reg .b32 %r<24>; .reg .b64 %rd<12>;
ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [{width}]; ld.param.u32 %r2, [{height}];
ld.param.u32 %r3, [{plane}]; ld.param.u32 %r4, [{count}];
mov.u32 %r8, %tid.x; mov.u32 %r12, %tid.y;
setp.ge.u32 %p1, %r8, %r1; @%p1 bra END; setp.ge.u32 %p1, %r12, %r2; @%p1 bra END;
mad.lo.u32 %r13, %r12, 16, %r8; shr.u32 %r3, %r3, 1;
mad.lo.u32 %r16, %r12, 4096, %r8; mov.u32 %r14, 0;
L: mad.lo.u32 %r15, %r14, %r3, %r13; mul.wide.u32 %rd2, %r15, 4; add.s64 %rd3, %rd1, %rd2;
st.global.u32 [%rd3], %r16;
add.u32 %r14, %r14, 1; setp.lt.u32 %p2, %r14, %r4; @%p2 bra L;
END: ret;
}}
"""


def test_numbers_of_one_structure_are_consistent() -> None:
    # planes of an image: half of the number says how far they are apart, which is no less than the width times the height
    text = PLANES.format(parameters=".param .u64 out, .param .b8 c[16]", width="c", height="c+4", plane="c+8", count="c+12")

    assert not [one for one in ptxkit.lint(text) if one.severity is not Severity.INFO]
