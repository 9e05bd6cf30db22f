"""What kernels with griddepcontrol access before they have waited: a case for each kind, with its twin."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy")

from ptxkit.diagnostics import Severity  # noqa: E402
from ptxkit.machine import Machine  # noqa: E402
from ptxkit.machine.monitors import not_covered  # noqa: E402
from ptxkit.machine.monitors.grids import Grids  # noqa: E402
from tests.machine.monitors.watching import KERNEL, rules, watched  # noqa: E402

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


BAR = "mov.u32 %r5, bar; mov.u32 %r6, s;"
COPY = """@%p1 mbarrier.init.shared.b64 [%r5], 1; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r5], 16;
@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r6], [%rd1], 16, [%r5];"""
LANDED = "bar.sync 0; L: mbarrier.try_wait.parity.shared.b64 %p2, [%r5], 0; @!%p2 bra L;"


@pytest.mark.parametrize("schedule", ["lockstep", "late", "early"])
@pytest.mark.parametrize(
    ("body", "named"),
    [
        (f"{COPY} {WAIT} {LANDED}", 1),
        (f"{WAIT} {COPY} {LANDED}", 0),
        (f"@!%p1 {WAIT} {COPY} {LANDED}", 0),
        (f"{COPY} {LANDED}", 0),
    ],
)
def test_a_copy_before_the_wait_is_named(body: str, named: int, schedule: str) -> None:
    variables = ".shared .align 16 .b8 s[16]; .shared .align 8 .b64 bar;"
    machine, monitor = Machine(), Grids()
    code = machine.load(KERNEL.format(module="", variables=variables, body=f"setp.eq.u32 %p1, %r1, 0; {BAR} {body}", end="ret;"))
    machine.launch(code, "k", np.zeros(256, np.uint32), 7, grid=1, block=64, schedule=schedule, monitors=[monitor])
    assert not monitor.findings
    assert len(not_covered([monitor])) == named


SOME = f"setp.lt.u32 %p1, %r1, 32; @%p1 {WAIT}"


@pytest.mark.parametrize("schedule", ["lockstep", "late", 1])
@pytest.mark.parametrize(
    ("body", "named"),
    [
        (f"{SOME} {LOAD}", 1),
        (f"{SOME} bar.sync 0; {LOAD}", 0),
        (f"{LOAD} {SOME}", 0),
        (f"mov.u32 %r4, 0; L: {LOAD} {WAIT} add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 2; @%p1 bra L;", 0),
        (f"{SOME} @!%p1 bra E; {LOAD} E:", 0),
    ],
)
def test_an_access_that_only_some_threads_wait_for_is_named(body: str, named: int, schedule: str | int) -> None:
    machine, monitor = Machine(), Grids()
    code = machine.load(KERNEL.format(module="", variables="", body=body, end="ret;"))
    machine.launch(code, "k", np.zeros(256, np.uint32), 7, grid=1, block=64, schedule=schedule, monitors=[monitor])
    assert not monitor.findings
    assert len(not_covered([monitor])) == named


@pytest.mark.parametrize("name", CASES)
def test_what_another_grid_may_write(name: str) -> None:
    body, expected = CASES[name]
    findings, ended = watched(body, "grids")
    assert (rules(findings), ended) == (expected, "ended")
    assert all(one.diagnostic.severity is Severity.WARNING for one in findings)
