"""Barrier objects and shared memory of other CTAs: a textbook case for each kind, with twins that are right."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy")

from ptxkit.diagnostics import Severity  # noqa: E402
from tests.machine.monitors.watching import rules, watched  # noqa: E402

VARIABLES = ".shared .align 16 .b8 data[1024]; .shared .align 8 .b64 m;"
FIRST = "setp.eq.u32 %p1, %r1, 0; mov.u32 %r3, m; mov.u32 %r4, data; "
INIT = "@%p1 mbarrier.init.shared.b64 [%r3], {count}; "
ARRIVE = "mbarrier.arrive.shared.b64 %rd3, [%r3]; "
WAIT = "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], {parity}; @!%p2 bra W; "
TEST = "W: mbarrier.test_wait.parity.shared.b64 %p2, [%r3], {parity}; @!%p2 bra W; "
COPY = "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd1], 512, [%r3]; "
EXPECT = "@%p1 mbarrier.arrive.expect_tx.shared.b64 %rd3, [%r3], {bytes}; "
READY = FIRST + INIT.format(count=64) + "bar.sync 0; "
ONE = FIRST + INIT.format(count=1) + "bar.sync 0; "
PEER = (
    "mov.u32 %r5, %cluster_ctarank; xor.b32 %r5, %r5, 1; mapa.shared::cluster.u32 %r6, %r4, %r5; mapa.shared::cluster.u32 %r7, %r3, %r5; "
)
SYNC = "barrier.cluster.arrive; barrier.cluster.wait; "

BAD = {
    "used before it is initialized": (FIRST + ARRIVE, "M001", "where no thread has executed mbarrier.init"),
    "initialized, and no barrier": (
        FIRST + INIT.format(count=64) + ARRIVE, "M002", "nothing orders its initialization (line 12) before that",
    ),
    "initialized twice": (READY + INIT.format(count=64), "M004", "again, which line 12 has initialized"),
    "initialized by everybody": (FIRST + "mbarrier.init.shared.b64 [%r3], 64;", "M004", "64 threads initialize mbarrier m[0] at once"),
    "more arrivals than are pending": (
        FIRST + INIT.format(count=32) + "bar.sync 0; " + ARRIVE, "M005", "64 arrivals at once at mbarrier",
    ),
    "fewer arrivals": (
        FIRST + INIT.format(count=65) + "bar.sync 0; " + ARRIVE + WAIT.format(parity=0), "M005", "deadlock: 64 threads wait",
    ),
    "nobody arrives": (READY + WAIT.format(parity=0), "M009", "deadlock: 64 threads wait on line 12 for mbarrier m[0]"),
    "nobody arrives, and all test": (READY + TEST.format(parity=0), "M009", "deadlock: 64 threads wait on line 12 for mbarrier m[0]"),
    "fewer bytes than expected": (ONE + EXPECT.format(bytes=1024) + COPY + WAIT.format(parity=0), "M006", "deadlock: 64 threads wait"),
    "bytes that are not expected": (
        ONE + COPY + "@%p1 " + ARRIVE + WAIT.format(parity=0), "M007", "ends in a later phase of m[0] than it began in",
    ),
    "bytes expected and never copied": (
        ONE + EXPECT.format(bytes=512) + WAIT.format(parity=1), "M006", "expects 512 bytes that never arrive",
    ),
    "data over it": (
        READY + ARRIVE + WAIT.format(parity=0) + "bar.sync 0; @%p1 st.shared.u32 [m], %r1;", "M011", "writes 4 bytes as data over",
    ),
    "used after inval": (
        READY + "@%p1 mbarrier.inval.shared.b64 [%r3]; bar.sync 0; " + ARRIVE, "M011", "has not been an mbarrier since mbarrier.inval",
    ),
    "a count of zero": (FIRST + "mov.u32 %r8, 0; @%p1 mbarrier.init.shared.b64 [%r3], %r8;", "M013", "must be between 1 and"),
    "an arrival that must not complete": (
        ONE + "@%p1 mbarrier.arrive.noComplete.shared.b64 %rd3, [%r3], 1;", "M015", "mbarrier.arrive.noComplete completes the phase",
    ),
    "a parity of two": (
        READY + ARRIVE + "mov.u32 %r8, 2;" + WAIT.format(parity="%r8"), "M016", "waits for a phase of parity 2: a parity is 0 or 1",
    ),
}  # fmt: skip

GOOD = {
    "arrivals and waits": READY + ARRIVE + WAIT.format(parity=0),
    "two phases": READY + ARRIVE + WAIT.format(parity=0) + ARRIVE + "V: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 1; @!%p2 bra V;",
    "tests": READY + ARRIVE + TEST.format(parity=0),
    "a copy": ONE + EXPECT.format(bytes=512) + COPY + WAIT.format(parity=0),
    "bytes that nobody waits for": ONE + EXPECT.format(bytes=512),
    "initialized again after inval": (
        READY + ARRIVE + WAIT.format(parity=0) + "bar.sync 0; @%p1 mbarrier.inval.shared.b64 [%r3]; "
        + INIT.format(count=64) + "bar.sync 0; "
        + ARRIVE
    ),
    "data after inval": (
        READY + ARRIVE + WAIT.format(parity=0) + "bar.sync 0; @%p1 mbarrier.inval.shared.b64 [%r3]; @%p1 st.shared.u32 [m], %r1;"
    ),
}  # fmt: skip

CLUSTER = {
    "accessed to the end": (FIRST + PEER + SYNC + "ld.shared::cluster.u32 %r8, [%r6];", ["G004"]),
    "accessed before a barrier": (FIRST + PEER + SYNC + "ld.shared::cluster.u32 %r8, [%r6]; " + SYNC, []),
    "initialized, and no fence": (
        FIRST + PEER + INIT.format(count=64) + "barrier.cluster.arrive.relaxed; barrier.cluster.wait; "
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7]; " + SYNC,
        ["M003"],
    ),
    "initialized and fenced": (
        FIRST + PEER + INIT.format(count=64)
        + "@%p1 fence.mbarrier_init.release.cluster; barrier.cluster.arrive.relaxed; barrier.cluster.wait; "
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7]; " + SYNC,
        [],
    ),
    "signalled from another CTA, and no fence": (
        FIRST + PEER + INIT.format(count=1) + "@%p1 mbarrier.arrive.expect_tx.shared.b64 %rd3, [%r3], 4; "
        "barrier.cluster.arrive.relaxed; barrier.cluster.wait; "
        "@%p1 st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r6], %r1, [%r7]; " + WAIT.format(parity=0) + SYNC,
        ["M003"],
    ),
    "signalled from another CTA": (
        FIRST + PEER + INIT.format(count=1) + "@%p1 mbarrier.arrive.expect_tx.shared.b64 %rd3, [%r3], 4; " + SYNC
        + "@%p1 st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r6], %r1, [%r7]; " + WAIT.format(parity=0) + SYNC,
        [],
    ),
    "released too narrowly": (
        FIRST + PEER + INIT.format(count=64) + SYNC + "mbarrier.arrive.release.cta.shared::cluster.b64 _, [%r7]; " + SYNC, ["M020"],
    ),
    "its owner waits for the arrival": (
        FIRST + PEER + INIT.format(count=64) + SYNC + "ld.shared::cluster.u32 %r8, [%r6]; "
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7]; "
        "W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra W;",
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("checks", ["mbarriers", "all"])
def test_what_is_wrong_is_named(name: str, checks: str) -> None:
    body, rule, sentence = BAD[name]
    findings, _ = watched(body, checks, VARIABLES)
    assert rule in rules(findings)
    found = next(finding for finding in findings if finding.diagnostic.rule == rule)
    assert sentence in found.diagnostic.message
    assert all(len(finding.diagnostic.message) <= 160 for finding in findings)
    assert found.witness.get("accesses") or found.witness.get("waiting")


@pytest.mark.parametrize("schedule", ["lockstep", "early", 1, 2])
@pytest.mark.parametrize("name", GOOD)
def test_what_is_right_is_silent(name: str, schedule: str | int) -> None:
    findings, ended = watched(GOOD[name], "mbarriers", VARIABLES, schedule=schedule)
    assert ([finding.diagnostic.message for finding in findings], ended) == ([], "ended")


@pytest.mark.parametrize("checks", ["mbarriers", ("races", "mbarriers")])
@pytest.mark.parametrize("name", CLUSTER)
def test_clusters(name: str, checks: str) -> None:
    body, expected = CLUSTER[name]
    findings, ended = watched(body, checks, VARIABLES, grid=2, cluster=2)
    assert ended == "ended"
    assert sorted({finding.diagnostic.rule for finding in findings if finding.diagnostic.rule[0] in "MG"} - {"M002", "G005"}) == expected


def test_who_waits_and_who_could_arrive() -> None:
    body = READY + "setp.lt.u32 %p3, %r1, 40; @%p3 " + ARRIVE + WAIT.format(parity=0)
    findings, ended = watched(body, "all", VARIABLES)
    assert ended == "deadlock"
    (found,) = [finding for finding in findings if finding.diagnostic.severity is Severity.ERROR]
    group = found.witness["waiting"][0]
    assert (group["count"], group["for"], group["could_arrive"]) == (64, "mbarrier m[0]", [12])
    assert "m[0] lacks 24 of 64 arrivals" in found.diagnostic.notes


def test_bytes_that_nobody_expects() -> None:
    excess = "@%p1 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [m], 16; "
    findings, ended = watched(READY + excess + ARRIVE + WAIT.format(parity=0), "all", VARIABLES)
    assert ended == "deadlock"
    assert "m[0] has received 16 bytes more than expected" in [note for finding in findings for note in finding.diagnostic.notes]
