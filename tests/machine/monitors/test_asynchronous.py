"""Operations in flight: for each kind bytes that are used too early, and the twin that waits; fences between proxies likewise."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy")

from ptxkit.machine.monitors.races import Races  # noqa: E402
from tests.machine.monitors.watching import rules, watched  # noqa: E402

SHARED = ".shared .align 128 .b8 s[2048]; .shared .align 8 .b8 bar[16];"
AT = "shl.b32 %r3, %r1, 4; mov.u32 %r4, s; add.u32 %r3, %r3, %r4; mov.u32 %r8, bar; mul.wide.u32 %rd3, %r1, 16; add.s64 %rd3, %rd1, %rd3;"
FIRST = "setp.eq.u32 %p1, %r1, 0;"
COPY = "cp.async.cg.shared.global [%r3], [%rd3], 16;"
COMMIT, WAIT = "cp.async.commit_group;", "cp.async.wait_group {};"
OWN, OTHER = "ld.shared.u32 %r5, [%r3];", "xor.b32 %r6, %r3, 16; ld.shared.u32 %r5, [%r6];"
LOAD = "@%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [s], [%rd1], 1024, [bar];"
STORE = "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [s], 1024;"
INIT = "@%p1 mbarrier.init.shared.b64 [%r8], 1; bar.sync 0;"
EXPECT = "@%p1 mbarrier.arrive.expect_tx.shared.b64 %rd4, [%r8], 1024;"
OBSERVE = "W{n}: mbarrier.try_wait.parity.shared.b64 %p2, [%r8], {parity}; @!%p2 bra W{n};"
SEEN = OBSERVE.format(n=0, parity=0)
BULK, BULK_READ = (
    "@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;",
    ("@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group.read 0;"),
)
WRITE, FENCE = "st.shared.u32 [%r3], %r1;", "fence.proxy.async.shared::cta;"
GIVEN = "st.shared.u32 [%r3], %r1; fence.proxy.async.shared::cta; bar.sync 0;"

BAD = {
    "own bytes, no wait": (f"{COPY} {COMMIT} {OWN}", ["A001"]),
    "own bytes, not even a group": (f"{COPY} {OWN}", ["A001"]),
    "a wait that lets the group in flight": (f"{COPY} {COMMIT} {WAIT.format(1)} {OWN}", ["A003"]),
    "a wait before the commit": (f"{COPY} {WAIT.format(0)} {OWN} {COMMIT}", ["A002"]),
    "a wait of another kind": (f"{COPY} {COMMIT} cp.async.bulk.wait_group 0; {OWN}", ["A015"]),
    "another's bytes after an own wait": (f"{COPY} {COMMIT} {WAIT.format(0)} {OTHER}", ["A005"]),
    "the wait after the barrier": (f"{COPY} {COMMIT} bar.sync 0; {WAIT.format(0)} {OTHER}", ["A005"]),
    "overwritten in flight": (f"{COPY} {COMMIT} st.shared.u32 [%r3], 0;", ["A001"]),
    "two copies to one place": (f"{COPY} {COPY} {COMMIT} {WAIT.format(0)}", ["A006"]),
    "the source overwritten": (f"{COPY} {COMMIT} st.global.u32 [%rd3], 0;", ["A011"]),
    "a refill that others may not have read": (f"{OTHER} {COPY}", ["A010"]),
    "a bulk load that nobody has observed": (f"{INIT} {EXPECT} {LOAD} bar.sync 0; {OWN}", ["M019"]),
    "a bulk load that another has observed": (f"{INIT} {EXPECT} {LOAD} @!%p1 bra R; {SEEN} R: {OWN}", ["M019"]),
    "a bulk load over what others read": (f"{INIT} {EXPECT} {OWN} {LOAD} {SEEN}", ["M018", "M019"]),
    "the phase before": (f"{INIT} {EXPECT} {LOAD} {OBSERVE.format(n=0, parity=1)} {OWN}", ["M019", "deadlock", "standstill"]),
    "the source of a bulk store": (f"{GIVEN} {STORE} @%p1 cp.async.bulk.commit_group; @%p1 {WRITE} {BULK}", ["A011"]),
    "a bulk store that is not committed": (f"{GIVEN} {STORE} @%p1 cp.async.bulk.wait_group 0; @%p1 {WRITE} {BULK}", ["A012"]),
    "a bulk store that one has waited for": (f"{GIVEN} {STORE} {BULK_READ} {WRITE}", ["A013"]),
    "a bulk store that another has waited for": (
        f"{GIVEN} {STORE} @%p1 cp.async.bulk.commit_group; @!%p1 cp.async.bulk.wait_group 0; bar.sync 0; @!%p1 {WRITE} {BULK}", ["A013"],
    ),
    "what a bulk store has written": (
        f"{GIVEN} {STORE} @%p1 cp.async.bulk.commit_group; @%p1 ld.global.u32 %r5, [%rd1]; {BULK}", ["A001"],
    ),
    "a bulk store at the end": (f"{GIVEN} {STORE} @%p1 cp.async.bulk.commit_group;", ["A014"]),
    "no proxy fence": (f"{WRITE} bar.sync 0; {STORE} {BULK}", ["P001"]),
    "the fence before the write": (f"{FENCE} {WRITE} bar.sync 0; {STORE} {BULK}", ["P001"]),
    "a fence for other bytes": (f"{WRITE} fence.proxy.async.global; bar.sync 0; {STORE} {BULK}", ["P001"]),
    "a fence by who copies only": (f"{WRITE} bar.sync 0; @%p1 {FENCE} {STORE} {BULK}", ["P003"]),
    "a second bulk store, after a write without a fence": (
        f"{GIVEN} {STORE} {BULK} bar.sync 0; {WRITE} bar.sync 0; {STORE} {BULK}", ["P001"],
    ),
    "no fence in the thread itself": (f"@%p1 {WRITE} {STORE} {BULK}", ["P001"]),
    "an mbarrier that others do not know of": (
        "@%p1 mbarrier.init.shared.b64 [%r8], 64; mbarrier.arrive.shared.b64 %rd4, [%r8];", ["S003", "S009", "mbarrier"],
    ),
}  # fmt: skip

GOOD = {
    "own bytes": f"{COPY} {COMMIT} {WAIT.format(0)} {OWN}",
    "own bytes, wait_all": f"{COPY} cp.async.wait_all; {OWN}",
    "the older of two groups": f"{COPY} {COMMIT} cp.async.cg.shared.global [%r3+1024], [%rd3], 16; {COMMIT} {WAIT.format(1)} {OWN}",
    "others' bytes after a barrier": f"{COPY} {COMMIT} {WAIT.format(0)} bar.sync 0; {OTHER}",
    "told by an mbarrier": (
        f"@%p1 mbarrier.init.shared.b64 [%r8], 64; bar.sync 0;{COPY} cp.async.mbarrier.arrive.noinc.shared.b64 [%r8]; {SEEN} {OTHER}"
    ),
    "refilled after a barrier": f"{OTHER} bar.sync 0; {COPY}",
    "a bulk load, observed": f"{INIT} {EXPECT} {LOAD} {SEEN} {OWN}",
    "a bulk load, observed by one, and a barrier": f"{INIT} {EXPECT} {LOAD} @!%p1 bra R; {SEEN} R: bar.sync 0; {OWN}",
    "a bulk load over what others have read, after a barrier": f"{INIT} {EXPECT} {OWN} bar.sync 0; {LOAD} {SEEN}",
    "a bulk store": f"{GIVEN} {STORE} {BULK_READ} bar.sync 0; {WRITE}",
    "overwritten after a fence by who copies": f"{INIT} {WRITE} bar.sync 0; @%p1 {FENCE} {EXPECT} {LOAD} {SEEN}",
    "an mbarrier of another thread, its bytes used again": (
        f"{INIT} setp.eq.u32 %p3, %r1, 40; @%p3 mbarrier.init.shared.b64 [s], 1; @%p3 mbarrier.inval.shared.b64 [s]; bar.sync 0; "
        f"@%p1 {FENCE} {EXPECT} {LOAD} {SEEN} {STORE} {BULK}"
    ),
    "a fence by all after the barrier": f"{WRITE} bar.sync 0; {FENCE} {STORE} {BULK}",
    "a second bulk store": f"{GIVEN} {STORE} {BULK} {STORE} {BULK}",
    "a second bulk store, after a write and a fence": (f"{GIVEN} {STORE} {BULK} bar.sync 0; {WRITE} {FENCE} bar.sync 0; {STORE} {BULK}"),
    "what a bulk store has written": f"{GIVEN} {STORE} {BULK} @%p1 ld.global.u32 %r5, [%rd1];",
    "a load, then a store, by one proxy": f"{INIT} {EXPECT} {LOAD} {SEEN} {STORE} {BULK}",
}


def found(body: str, checks: str, schedule: str | int) -> list[str]:
    findings, ended = watched(AT + FIRST + body, checks, SHARED, schedule=schedule, out=2048)
    return sorted({*rules(findings), *([ended] if ended != "ended" else [])})


@pytest.mark.parametrize("schedule", ("lockstep", "early", 3))
@pytest.mark.parametrize("case", BAD)
def test_what_is_used_too_early_is_found_under_every_schedule(case: str, schedule: str | int) -> None:
    body, expected = BAD[case]
    shown = found(body, "all", schedule)
    assert set(shown) & set(expected), shown


@pytest.mark.parametrize("schedule", ("lockstep", 3))
@pytest.mark.parametrize("case", GOOD)
def test_who_waits_is_right(case: str, schedule: str | int) -> None:
    assert found(GOOD[case], "all", schedule) == []


def test_checks_report_what_is_theirs() -> None:
    body = BAD["own bytes, no wait"][0]
    assert [found(body, check, "lockstep") for check in ("async", "races", "proxies")] == [["A001"], ["A001"], []]
    body = BAD["no proxy fence"][0]
    assert [found(body, check, "lockstep") for check in ("async", "races", "proxies")] == [[], [], ["P001"]]


def test_messages_say_what_is_missing() -> None:
    findings, _ = watched(AT + FIRST + BAD["a wait that lets the group in flight"][0], "async", SHARED, block=32, out=2048)
    assert [finding.diagnostic.message for finding in findings] == [
        "data race: `cp.async.cg.shared.global` of thread (0,0,0) of CTA (0,0,0) writes s[0..3] (line 12), "
        "thread (0,0,0) reads it (line 12), and the wait between them leaves its group in flight"
    ]
    assert findings[0].count == 32
    assert findings[0].witness["variable"] == "s"
    assert [side["kind"] for side in findings[0].witness["accesses"]] == ["write", "read"]


def test_reads_that_are_overwritten_are_found_by_the_letter() -> None:
    from ptxkit.machine import Machine
    from tests.machine.monitors.watching import KERNEL

    body = AT + FIRST + GOOD["a bulk load over what others have read, after a barrier"]
    for by_the_letter, expected in ((False, []), (True, ["P004"])):
        machine, monitor = Machine(), Races(by_the_letter=by_the_letter)
        code = machine.load(KERNEL.format(body=body, variables=SHARED, module="", end="ret;"))
        machine.launch(code, "k", machine.alloc(2048), 7, grid=1, block=64, monitors=[monitor])
        assert rules(list(monitor.findings)) == expected
        assert not monitor.unwatched


CLUSTER = """
mov.u32 %r9, %cluster_ctarank;
setp.eq.u32 %p3, %r1, 0;
@%p3 mbarrier.init.shared::cta.b64 [%r8], 1;
{fence}
barrier.cluster.arrive{relaxed}.aligned;
barrier.cluster.wait.aligned;
xor.b32 %r10, %r9, 1;
mapa.shared::cluster.u32 %r11, %r8, %r10;
@%p3 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r11];
W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r8], 0; @!%p2 bra W;
"""


@pytest.mark.parametrize(
    ("fence", "relaxed", "is_right"),
    [
        ("", "", True),
        ("fence.mbarrier_init.release.cluster;", ".relaxed", True),
        ("", ".relaxed", False),
    ],
)
def test_an_mbarrier_is_published_to_a_cluster(fence: str, relaxed: str, is_right: bool) -> None:
    findings, ended = watched(AT + CLUSTER.format(fence=fence, relaxed=relaxed), "races", SHARED, grid=2, cluster=2, block=32, out=2048)
    assert ended == "ended"
    assert not findings if is_right else findings


TENSOR_MAP = """
.reg .b64 %m<5>;
mov.u32 %r5, s;
@%p1 mbarrier.init.shared.b64 [%r8], 1;
st.shared.v4.u32 [%r3], {{%r2, %r2, %r2, %r2}};
{first}
@%p1 tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r5], %rd1;
@%p1 tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r5], 0;
@%p1 tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r5], 0, 4;
@%p1 tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r5], 0, 4;
@%p1 tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r5], 0, 1;
@%p1 tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r5], 2;
@%p1 tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%r5], 0;
@%p1 tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%r5], 0;
@%p1 tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%r5], 0;
bar.warp.sync -1;
add.s64 %m1, %rd1, 1024;
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%m1], [%r5], 128;
{fence}
@%p1 mbarrier.arrive.expect_tx.shared.b64 %rd4, [%r8], 16;
mov.u32 %r6, 0;
add.u32 %r7, %r5, 1024;
@%p1 cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%r7], [%m1, {{%r6}}], [%r8];
W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r8], 0; @!%p2 bra W;
"""
ACQUIRE = "fence.proxy.tensormap::generic.acquire.gpu [%m1], 128;"


@pytest.mark.parametrize(
    ("first", "fence", "expected"),
    [("bar.warp.sync -1;", ACQUIRE, []), ("bar.warp.sync -1;", "", ["P005"]), ("", ACQUIRE, ["S009"])],
)
def test_tensor_maps_that_a_kernel_makes(first: str, fence: str, expected: list[str]) -> None:
    findings, ended = watched(AT + FIRST + TENSOR_MAP.format(first=first, fence=fence), "all", SHARED, block=32, out=2048)
    assert ended == "ended"
    assert sorted(set(rules(findings))) == expected
