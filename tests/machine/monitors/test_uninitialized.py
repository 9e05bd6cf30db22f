"""Values that nobody has made, followed to where they are used; and those that nobody uses."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy")

from ptxkit.diagnostics import Severity  # noqa: E402
from ptxkit.machine import Machine  # noqa: E402
from tests.machine.monitors.test_matrices import PARTS, TENSOR  # noqa: E402
from tests.machine.monitors.watching import KERNEL, rules, watched  # noqa: E402

VARIABLES = ".shared .align 16 .b8 s[1024]; .local .align 16 .b8 l[64];"
MINE = "shl.b32 %r3, %r1, 2; mov.u32 %r4, s; add.u32 %r4, %r4, %r3; setp.lt.u32 %p1, %r1, 16; "
STORE = "st.global.u32 [%rd2], %r5; "
FUNCTION = ".func (.reg .b32 rv) f(.reg .b32 a) {{ .reg .pred p; setp.gt.u32 p, a, {least}; @p bra E; mov.b32 rv, 0; E: ret; }}"

BAD = {
    "a register stored": (
        "add.u32 %r5, %r6, 1; " + STORE, "R001", "thread (0,0,0) of CTA (0,0,0) stores `%r6` to global memory, but nothing has written it",
    ),
    "a register as an address": ("ld.global.u32 %r5, [%rd4]; ", "R001", "uses `%rd4` as an address, but nothing has written it"),
    "a predicate": ("@%p3 bra E; " + "st.global.u32 [%rd2], %r1; E: ", "R001", "branches on `%p3`, but nothing has written it"),
    "a guard": ("@%p3 st.global.u32 [%rd2], %r1; ", "R001", "uses `%p3` as a guard, but nothing has written it"),
    "a register that only some write": (
        "@%p1 mov.u32 %r5, 1; " + STORE, "R001", "thread (16,0,0) of CTA (0,0,0) stores `%r5` to global memory",
    ),
    "a register that a guard leaves, the same in all lanes": (
        "mov.u32 %r5, 1; @%p3 mov.u32 %r5, 2; " + STORE, "R001", "stores `%p3` to global memory, but nothing has written it",
    ),
    "a register that a guard writes, the same in all lanes": ("@!%p3 mov.u32 %r5, 2; " + STORE, "R001", "stores `%p3` to global memory"),
    "shared memory": ("ld.shared.u32 %r5, [%r4]; " + STORE, "R008", "stores s[0..3] to global memory, but no thread has written these"),
    "shared memory that only some write": (
        "@%p1 st.shared.u32 [%r4], %r1; ld.shared.u32 %r5, [%r4]; " + STORE,
        "R008", "thread (16,0,0) of CTA (0,0,0) stores s[64..67] to global memory",
    ),
    "local memory": ("st.local.u32 [l], %r1; ld.local.u32 %r5, [l+4]; " + STORE, "R008", "but no thread has written these bytes"),
    "through a copy": (
        "ld.shared.u32 %r6, [%r4+512]; st.shared.u32 [%r4], %r6; ld.shared.u32 %r5, [%r4]; " + STORE, "R008", "stores s[512..515] to",
    ),
    "through a shuffle": (
        "@%p1 mov.u32 %r6, 1; shfl.sync.bfly.b32 %r5, %r6, 16, 31, -1; @%p1 st.global.u32 [%rd2], %r5; ", "R001", "stores `%r6` to",
    ),
    "the second element of a vector": (
        "st.shared.u32 [%r4], %r1; mov.u32 %r7, s; ld.shared.v2.u32 {%r6, %r5}, [%r7+248]; add.u32 %r5, %r5, %r6; "
        "ld.shared.v2.u32 {%r6, %r5}, [%r7+256]; " + STORE, "R008", "s[260..263] to global memory, but no thread has written these bytes",
    ),
    "an index": ("ld.shared.u32 %r6, [%r4]; and.b32 %r6, %r6, 12; cvt.u64.u32 %rd4, %r6; add.s64 %rd4, %rd1, %rd4; "
                 "ld.global.u32 %r5, [%rd4]; ", "R008", "uses s[0..3] as an address"),
    "from a lane that has exited": (
        "setp.ge.u32 %p3, %r1, 24; @%p3 exit; shfl.sync.down.b32 %r5, %r1, 16, 31, -1; " + STORE, "C006",
        "stores the result of `shfl.sync.down.b32` to global memory, but lane 24, which it reads, is inactive",
    ),
    "from a lane that is not in the mask": (
        "@!%p1 bra E; shfl.sync.idx.b32 %r5, %r1, 20, 31, 0xffff; " + STORE + " E: ", "C006",
        "to global memory, but lane 20, which it reads, is inactive",
    ),
    "both parts of a word": ("cvt.rn.f16x2.f32 %r5, %r6, %r7; " + STORE, "R001", "stores `%r7` to"),
    "a result of a function": ("call (%r5), f, (%r1); " + STORE, "R001", "stores `rv` to global memory, but nothing has written it"),
}  # fmt: skip

GOOD = {
    "read and not used": "ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [s]; add.u32 %r6, %r6, %r7; mov.u32 %r5, 0; " + STORE,
    "written by all": "st.shared.u32 [%r4], %r1; bar.sync 0; ld.shared.u32 %r5, [%r4]; " + STORE,
    "written and used by some": "@%p1 mov.u32 %r5, 1; @%p1 st.global.u32 [%rd2], %r5; ",
    "packed with another number": "cvt.rn.f16x2.f32 %r6, %r7, %r1; cvt.u16.u32 %h1, %r6; st.global.u16 [%rd2], %h1; ",
    "not selected": "selp.u32 %r5, %r1, %r6, %p1; @%p1 st.global.u32 [%rd2], %r5; ",
    "an operand that is decided": "setp.gt.u32 %p2, %r1, 99; and.pred %p4, %p2, %p3; @%p4 bra E; mov.u32 %r5, 1; " + STORE + "E: ",
    "a comparison that is decided": "setp.gt.u32 %p2, %r1, 99; setp.lt.and.u32 %p4, %r6, %r1, %p2; @%p4 bra E; mov.u32 %r5, 1; "
    + STORE
    + "E: ",
    "a way to zero": "xor.b32 %r5, %r6, %r6; " + STORE,
    "a mask of zeros": "and.b32 %r5, %r6, 0; " + STORE,
    "part of a word": "st.shared.u16 [%r4], 1; ld.shared.u32 %r5, [%r4]; " + STORE,
    "lanes of the mask": "@!%p1 bra E; shfl.sync.bfly.b32 %r5, %r1, 4, 31, 0xffff; st.global.u32 [%rd2], %r5; E: ",
    "a copy into shared memory": "cp.async.ca.shared.global [%r4], [%rd2], 4; cp.async.wait_all; ld.shared.u32 %r5, [%r4]; " + STORE,
    "atomics": "st.shared.u32 [%r4], 0; atom.shared.add.u32 %r5, [%r4], 1; " + STORE,
}


@pytest.mark.parametrize("name", BAD)
def test_a_use_is_named(name: str) -> None:
    body, rule, sentence = BAD[name]
    block = 32 if "exit;" in body else 64
    findings, ended = watched(MINE + body, "uninitialized", VARIABLES, FUNCTION.format(least=40), block=block)
    assert ended in ("ended", "address")
    assert rules(findings)[:1] == [rule]
    diagnostic = findings[0].diagnostic
    assert sentence in diagnostic.message
    assert len(diagnostic.message) <= 160
    assert findings[0].witness["accesses"][-1]["line"] > 0


@pytest.mark.parametrize("schedule", ["lockstep", 3])
@pytest.mark.parametrize("name", GOOD)
def test_what_is_not_used_is_silent(name: str, schedule: str | int) -> None:
    findings, ended = watched(MINE + GOOD[name], "uninitialized", VARIABLES, FUNCTION.format(least=100), schedule=schedule)
    assert ([finding.diagnostic.message for finding in findings], ended) == ([], "ended")


def test_results_of_functions_that_are_set() -> None:
    body = MINE + "call (%r5), f, (%r1); " + STORE
    assert watched(body, "uninitialized", VARIABLES, FUNCTION.format(least=100)) == ([], "ended")


def test_buffers_that_the_host_has_not_written() -> None:
    load = "ld.global.u32 %r5, [%rd2]; add.u32 %r5, %r5, 1; " + STORE
    findings, _ = watched(load, "uninitialized", out=1024)
    assert [(finding.diagnostic.rule, finding.diagnostic.severity) for finding in findings] == [("R008", Severity.WARNING)]
    assert findings[0].count == 64
    assert watched("st.global.u32 [%rd2], %r1; " + load, "uninitialized", out=1024) == ([], "ended")
    machine = Machine()
    code = machine.load(KERNEL.format(body=load, variables="", module="", end="ret;"))
    buffer = machine.alloc(1024)
    buffer.write(np.zeros(256, np.uint32))
    assert machine.launch(code, "k", buffer, 7, grid=1, block=64, checks="uninitialized").findings == ()


def test_the_response_of_cluster_launch_control_is_written() -> None:
    body = """.shared .align 16 .b8 s[128]; mov.u32 %r3, s; add.u32 %r4, %r3, 64; setp.eq.u32 %p1, %r1, 0;
@%p1 mbarrier.init.shared.b64 [%r4], 1; bar.sync 0;
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 16;
@%p1 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r3], [%r4];
L: mbarrier.try_wait.parity.shared.b64 %p2, [%r4], 0; @!%p2 bra L;
ld.shared.u32 %r5, [%r3]; """
    machine = Machine()
    text = KERNEL.format(body=body + STORE, variables="", module="", end="ret;")
    code = machine.load(text.replace(".version 8.5", ".version 8.6").replace("sm_90a", "sm_100a"))
    assert machine.launch(code, "k", np.zeros(256, np.uint32), 7, grid=1, block=64, checks="uninitialized").findings == ()


DISCARD = "mul.wide.u32 %rd3, %r1, 128; add.s64 %rd3, %rd1, %rd3; discard.global.L2 [%rd3], 128; "


def test_lines_that_are_discarded() -> None:
    use = "ld.global.u32 %r5, [%rd3+64]; st.global.u32 [%rd3+96], %r5; "
    findings, _ = watched(DISCARD + use, "uninitialized", block=8)
    assert [finding.diagnostic.rule for finding in findings] == ["R008"]
    assert "stores a discarded line to global memory, but `discard.global.L2` left it undefined" in findings[0].diagnostic.message
    assert watched(DISCARD + "st.global.u32 [%rd3+64], %r1; " + use, "uninitialized", block=8) == ([], "ended")
    assert watched("mul.wide.u32 %rd3, %r1, 128; add.s64 %rd3, %rd1, %rd3; " + use + DISCARD, "uninitialized", block=8) == ([], "ended")


def test_lines_that_an_earlier_launch_has_discarded() -> None:
    machine = Machine()
    code = machine.load(KERNEL.format(body=DISCARD, variables="", module="", end="ret;"))
    read = machine.load(KERNEL.format(body="ld.global.u32 %r5, [%rd2+64]; " + STORE, variables="", module="", end="ret;"))
    buffer = machine.alloc(1024)
    buffer.write(np.zeros(256, np.uint32))
    assert machine.launch(code, "k", buffer, 7, grid=1, block=8, checks="uninitialized").findings == ()
    findings = machine.launch(read, "k", buffer, 7, grid=1, block=8, checks="uninitialized").findings
    assert [finding.diagnostic.rule for finding in findings] == ["R008"]


def test_a_launch_without_checks_between_two_with() -> None:
    machine = Machine()
    code = machine.load(KERNEL.format(body=MINE + "ld.shared.u32 %r5, [%r4]; " + STORE, variables=VARIABLES, module="", end="ret;"))
    out = np.zeros(256, np.uint32)
    counts = [len(machine.launch(code, "k", out, 7, grid=1, block=64, checks=checks).findings) for checks in ("uninitialized", (), "all")]
    assert counts[:2] == [1, 0]
    assert counts[2] >= 1


TILE = ".shared .align 128 .b8 tile[1024];"
ROWS = "mov.u32 %r3, tile; shl.b32 %r4, %r1, 4; add.u32 %r4, %r3, %r4;"
FILL = "st.shared.v4.b32 [%r4], {%r1, %r1, %r1, %r1};"
LOAD = "bar.warp.sync -1; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r5, %r6, %r7, %r8}, [%r4];"
COPY = """
    fence.proxy.async.shared::cta; bar.sync 0; setp.eq.u32 %p2, %r1, 0;
    @%p2 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r3], 512; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
"""


class TestWhatAWarpOrAnOperationReads:
    @pytest.mark.parametrize("use", [LOAD, COPY])
    @pytest.mark.parametrize(("fill", "expected"), [("", ["R008"]), (FILL, [])])
    def test_a_matrix_and_a_copy(self, use: str, fill: str, expected: list[str]) -> None:
        found, ended = watched(f"{ROWS} {fill} {use}", "uninitialized", TILE, block=32)

        assert (rules(found), ended) == (expected, "ended")

    def test_one_matrix_of_several(self) -> None:
        """Lanes 8 to 15 have the rows of the second one."""
        some = "setp.ge.u32 %p1, %r1, 8; setp.lt.and.u32 %p3, %r1, 16, %p1; @!%p3 " + FILL

        found, _ = watched(f"{ROWS} {some} {LOAD}", "uninitialized", TILE, block=32)

        assert "tile[128..143], but no thread has written these bytes" in found[0].diagnostic.message

    def test_a_row_that_is_not_there_is_padding(self) -> None:
        some = "setp.ne.u32 %p1, %r1, 9; @%p1 " + FILL

        assert watched(f"{ROWS} {some} {LOAD}", "uninitialized", TILE, block=32)[0] == []


PRODUCT = """
    .shared .align 128 .b8 tile[4096]; mov.u32 %r3, tile; shl.b32 %r4, %r1, 5; add.u32 %r4, %r3, %r4;
    st.shared.v4.b32 [%r4], {%r1, %r1, %r1, %r1}; st.shared.v4.b32 [%r4+16], {%r1, %r1, %r1, %r1};
    fence.proxy.async.shared::cta; bar.sync 0;
    shr.u32 %r3, %r3, 4; cvt.u64.u32 %rd3, %r3; or.b64 %rd3, %rd3, 0x0000001000080000; mov.u32 %r6, 0;
    AGAIN: BEFORE wgmma.fence.sync.aligned; setp.ne.u32 %p1, %r6, 0;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, %rd3, %rd3, ADDS, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 2; @%p2 bra AGAIN;
    st.global.f32 [%rd2], %f2;
"""
PIECES = """
    mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r1}, {%r1}, {%f5, %f6, %f5, %f5};
    st.global.f32 [%rd2], %f2;
"""


class TestAccumulators:
    @pytest.mark.parametrize(
        ("before", "adds", "expected"),
        [("", "1", ["R001"]), ("", "0", []), ("", "%p1", []), ("", "!%p1", []), ("mov.f32 %f2, 0f00000000;", "1", [])],
    )
    def test_of_a_warpgroup(self, before: str, adds: str, expected: list[str]) -> None:
        """Only the registers that are used need values."""
        found, ended = watched(PRODUCT.replace("BEFORE", before).replace("ADDS", adds), "uninitialized", block=128)

        assert (rules(found), ended) == (expected, "ended")

    @pytest.mark.parametrize(("before", "expected"), [("mov.f32 %f5, 0f00000000;", ["R001"]), ("mov.f32 %f6, 0f00000000;", [])])
    def test_of_a_warp(self, before: str, expected: list[str]) -> None:
        assert rules(watched(before + PIECES, "uninitialized", block=32)[0]) == expected

    @pytest.mark.parametrize(("adds", "expected"), [("%p1", ["R008"]), ("%p3", []), ("1", ["R008"])])
    def test_in_tensor_memory(self, adds: str, expected: list[str]) -> None:
        text = TENSOR.format(**PARTS).replace(f"{PARTS['what']}, %p3;", f"{PARTS['what']}, {adds};")
        machine = Machine()

        found = machine.launch(machine.load(text), "k", np.zeros(128, np.uint32), grid=2, block=128, checks="uninitialized").findings

        assert rules(list(found)) == expected
        assert all("adds to an accumulator at lane 0, column 0 of tensor memory" in one.diagnostic.message for one in found)

    def test_in_tensor_memory_that_was_allocated_again(self) -> None:
        """What an earlier allocation has written is not there any more."""
        text = TENSOR.format(**PARTS)
        again = text[text.index("tcgen05.fence::before_thread_sync") : text.index("@%p2 tcgen05.dealloc")]
        again = again.replace("WAIT", "AGAIN").replace("%p3;", "%p1;").replace("[%r8], 0;", "[%r8], 1;")
        alloc = "@%p2 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r7], 64;"
        text = text.replace("@%p2 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;", "")
        text = text.replace("\nret;", f"{alloc} {again} {PARTS['free']}\nret;".replace(PARTS["free"], "@%p2 " + PARTS["free"]))
        machine = Machine()

        found = machine.launch(machine.load(text), "k", np.zeros(128, np.uint32), grid=1, block=128, checks="uninitialized").findings

        assert rules(list(found)) == ["R008"]
