"""What kernels with griddepcontrol access before they have waited: a case for each kind, with its twin."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy")

from ptxkit.diagnostics import Severity  # noqa: E402
from tests.machine.monitors.watching import rules, watched  # noqa: E402

WAIT, LAUNCH = "griddepcontrol.wait;", "griddepcontrol.launch_dependents;"
LOAD, STORE, CONSTANT = "ld.global.u32 %r3, [%rd2];", "st.global.u32 [%rd2], %r1;", "ld.global.nc.u32 %r4, [%rd2+256];"
CASES = {
    "no wait": (f"{LOAD} {LAUNCH} {STORE}", ["G001"]),
    "no wait, and some that is constant": (f"{CONSTANT} {LOAD} {LAUNCH}", ["G001"]),
    "read before the wait": (f"{LOAD} {WAIT} {STORE}", ["G002"]),
    "written before the wait": (f"{STORE} {WAIT}", ["G002"]),
    "after the wait": (f"{WAIT} {LOAD} {LAUNCH} {STORE}", []),
    "what nobody writes": (f"{CONSTANT} {WAIT} {STORE}", []),
    "what may be nobody's": (f"{LOAD} {WAIT}", []),
    "warps that do not wait": (f"setp.lt.u32 %p1, %r1, 32; @%p1 {WAIT} @%p1 bra E; {STORE} E:", []),
    "neither": (f"{LOAD} {STORE}", []),
}


@pytest.mark.parametrize("name", CASES)
def test_what_another_grid_may_write(name: str) -> None:
    body, expected = CASES[name]
    findings, ended = watched(body, "grids")
    assert (rules(findings), ended) == (expected, "ended")
    assert all(one.diagnostic.severity is Severity.WARNING for one in findings)
