"""Waits whose result is ignored."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.protocols.mbarrier.dynamic_checks import findings
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault

KERNEL = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k() .reqntid 32
{{
	.shared .align 8 .b64 bar;
	.shared .align 4 .b8 data[4];
	.reg .pred p;
	.reg .b32 r;
	WAIT: mbarrier.try_wait.parity.shared.b64 p, [bar], 0;
	{}
	ld.shared.u32 r, [data];
	LATER: ret;
}}
"""


@pytest.mark.parametrize(
    ("then", "is_ignored"),
    [
        ("", True),
        ("@p bra DONE; DONE:", True),
        ("@!p bra NO; bra DONE; NO: DONE:", True),
        ("@!p bra NO; bra DONE; NO: bra DONE; DONE:", True),
        ("@!p bra WAIT;", False),
        ("@!p bra NO; bra DONE; NO: bra WAIT; DONE:", False),
        ("@!p bra LATER;", False),
        ("@p bra DONE; trap; DONE:", False),
    ],
)
def test_a_branch_to_one_place_decides_nothing(then: str, is_ignored: bool) -> None:
    found = findings(routines(ptxkit.parse(KERNEL.format(then)))[0])

    assert [one.kind for one in found] == [MbarrierFault.TRY_WAIT_NOT_RETRIED] * is_ignored
