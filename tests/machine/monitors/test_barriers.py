"""Barriers: a textbook case for each kind, with correct code beside it."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy")

from ptxkit.diagnostics import Severity  # noqa: E402
from ptxkit.machine import Machine  # noqa: E402
from tests.machine.monitors.watching import rules, watched  # noqa: E402

LANE = "and.b32 %r3, %r1, 31; setp.lt.u32 %p1, %r3, 16; setp.lt.u32 %p2, %r1, 32; "

BAD = {
    "a count that differs": (
        "@%p2 bra A; bar.sync 1, 64; bra.uni E; A: bar.arrive 1, 96; E:", "B003", "32 threads reach barrier 1 of CTA (0,0,0) with",
    ),
    "more come than are awaited": (
        "bar.sync 1, 32;", "B003", "64 threads of CTA (0,0,0) reach barrier 1 at once, which is complete with 32",
    ),
    "fewer come than are awaited": ("@!%p2 bra E; bar.sync 1, 64; E:", "B003", "deadlock: 32 threads wait on line 12 for barrier 1"),
    "a reduction and an arrival": (
        "@%p2 bra A; bar.red.popc.u32 %r4, 1, 64, %p1; bra.uni E; A: bar.arrive 1, 64; E:", "B005", "with `bar.red.popc.u32`",
    ),
    "arriving twice": (
        "@%p2 bra A; bar.sync 1, 96; bra.uni E; A: bar.arrive 1, 96; bar.arrive 1, 96; E:", "B006", "again before it is complete",
    ),
    "arriving and then waiting, at a barrier for each thread once": (
        "@!%p2 bra A; bar.arrive 1, 64; bar.sync 1, 64; bra.uni E; A: mov.u32 %r4, 9; L: add.u32 %r4, %r4, -1; setp.gt.s32 %p3, %r4, 0; "
        "@%p3 bra L; bar.sync 1, 64; E:",
        "B006",
        "again before it is complete",
    ),
    "no thread waits": ("bar.arrive 1, 64;", "B006", "completes with 64 threads that arrive, and no thread waits"),
    "a number beyond 15": ("add.u32 %r4, %r1, 10; bar.sync %r4, 64;", "B001", "executes a barrier beyond the 16 of its CTA"),
    "a count that is no multiple of 32": ("mov.u32 %r4, 40; bar.sync 1, %r4;", "B002", "not a multiple of 32"),
    "threads part at one barrier": (
        "@%p2 bra A; bar.sync 0; bra.uni E; A: bar.sync 0; E: st.global.u32 [%rd2], %r1;",
        "C001",
        "threads diverge before barrier 0 of CTA (0,0,0)",
    ),
    "a warp parts at one barrier": ("@%p1 bra A; bar.sync 0; bra.uni E; A: bar.sync 0; E:", "C001", "threads diverge before barrier 0"),
    "a barrier that some pass by": (
        "@%p2 bra A; bar.sync 0; A: st.global.u32 [%rd2], %r1;", "C001", "32 others passed it without arriving",
    ),
    "part of a warp at a barrier with a count": (
        "@%p1 bra A; bar.sync 2, 64; bra.uni E; A: bar.sync 1, 64; E:", "B003", "deadlock",
    ),
    "more registers than there are": ("setmaxnreg.inc.sync.aligned.u32 240;", "C011", "a multiprocessor has 65536"),
}  # fmt: skip

GOOD = {
    "everybody": "bar.sync 0; bar.sync 0; bar.red.popc.u32 %r4, 0, %p1;",
    "producers and consumers": (
        "@%p2 bra A; bar.sync 1, 64; bar.arrive 2, 64; bra.uni E; A: bar.arrive 1, 64; bar.sync 2, 64; E: bar.sync 0;"
    ),
    "a warp that arrives and then waits, at a barrier for more threads than there are": (
        "bar.arrive 1, 96; @%p2 bra E; bar.sync 1, 96; E:"
    ),
    "those that have exited": "@%p1 exit; bar.sync 0; st.global.u32 [%rd2], %r1; bar.sync 0;",
    "a warp that has exited": "@%p2 exit; bar.sync 0; bar.sync 0;",
    "lanes that come one after another": (
        "mov.u32 %r4, %r3; L: add.u32 %r4, %r4, -1; setp.gt.s32 %p3, %r4, 0; @%p3 bra L; bar.sync 0; bar.sync 1, 64;"
    ),
    "not aligned": "@%p2 bra A; barrier.sync 0; bra.uni E; A: barrier.sync 0; E:",
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_named(name: str) -> None:
    body, rule, sentence = BAD[name]
    block = 512 if rule == "C011" else 64
    findings, _ = watched(LANE + body, "barriers", block=block)
    assert rule in rules(findings)
    found = next(finding for finding in findings if finding.diagnostic.rule == rule)
    assert sentence in found.diagnostic.message
    assert all(len(finding.diagnostic.message) <= 160 for finding in findings)
    group = found.witness["waiting"][0]
    assert group["threads"]
    assert group["line"] > 0


@pytest.mark.parametrize("schedule", ["lockstep", 1, 2])
@pytest.mark.parametrize("name", GOOD)
def test_what_is_right_is_silent(name: str, schedule: str | int) -> None:
    findings, ended = watched(LANE + GOOD[name], "barriers", schedule=schedule)
    assert ended == "ended"
    assert [finding.diagnostic.message for finding in findings if finding.diagnostic.severity is Severity.ERROR] == []


def test_a_deadlock_names_every_group() -> None:
    body = "setp.lt.u32 %p3, %r1, 8; @%p3 bra A; bar.sync 0; bra.uni E; A: vote.sync.any.pred %p4, %p1, -1; E:"
    findings, ended = watched(LANE + body, "barriers")
    assert ended == "deadlock"
    (found,) = [finding for finding in findings if finding.diagnostic.message.startswith("deadlock")]
    groups = found.witness["waiting"]
    assert [(group["count"], group["for"]) for group in groups] == [(56, "barrier 0"), (8, "lanes 8..31 of the warp")]
    assert "56 of 64 threads have reached barrier 0" in found.diagnostic.notes


def test_exits_past_a_barrier_are_a_warning() -> None:
    findings, ended = watched(LANE + "@%p2 bra E; bar.sync 0; E:", "barriers")
    assert ended == "ended"
    assert [(finding.diagnostic.rule, finding.diagnostic.severity) for finding in findings] == [("C001", Severity.WARNING)]


def test_threads_that_leave_a_loop_early_miss_its_barrier() -> None:
    """Unlike threads that end before the loop, they have executed the barrier: `exited` is said of the others only."""
    body = "mov.u32 %r2, %r1; L: bar.sync 0; add.u32 %r2, %r2, 40; setp.lt.u32 %p3, %r2, 90; @%p3 bra L;"
    findings, ended = watched(LANE + body, "barriers")
    assert ended == "ended"
    (found,) = findings
    assert (found.diagnostic.rule, found.diagnostic.severity) == ("C001", Severity.WARNING)
    assert "exited after fewer iterations" in found.diagnostic.message
    assert "exited" not in found.witness


def test_threads_that_do_not_call_the_function_with_the_barrier_skip_it() -> None:
    text = (
        ".version 8.5\n.target sm_80\n.address_size 64\n.func meet() { bar.sync 0; ret; } .func outer() { call.uni meet; ret; }\n"
        ".visible .entry k() { .reg .pred %p; .reg .b32 %r; .shared .b32 s[64]; mov.u32 %r, %tid.x; setp.lt.u32 %p, %r, 40;"
        " @%p bra E; call outer; E: st.shared.u32 [s], 1; ret; }"
    )
    code = Machine().load(text)
    findings = code.machine.launch(code, "k", grid=1, block=64, checks="barriers").findings
    assert ("C001", Severity.ERROR) in [(finding.diagnostic.rule, finding.diagnostic.severity) for finding in findings]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("barrier.cluster.arrive; barrier.cluster.wait; barrier.cluster.arrive; barrier.cluster.wait;", []),
        ("barrier.cluster.arrive; barrier.cluster.arrive; barrier.cluster.wait;", ["C010"]),
        ("barrier.cluster.wait;", ["C010"]),
    ],
)
def test_arrivals_at_a_cluster_are_paired(body: str, expected: list[str]) -> None:
    findings, _ = watched(body, "barriers", grid=2, cluster=2)
    assert rules(findings) == expected
