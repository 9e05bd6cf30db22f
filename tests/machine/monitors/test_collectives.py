"""What warps execute together: a textbook case for each kind, with correct code beside it."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy")

from ptxkit.diagnostics import Severity  # noqa: E402
from ptxkit.machine import Machine  # noqa: E402
from tests.machine.monitors.watching import rules, watched  # noqa: E402

LANE = "and.b32 %r3, %r1, 31; setp.lt.u32 %p1, %r3, 16; setp.lt.u32 %p2, %r1, 32; "
MMA = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1,%f2,%f3,%f4}, {%r5,%r6,%r7,%r8}, {%r5,%r6}, {%f1,%f2,%f3,%f4};"
LOAD = "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r5,%r6,%r7,%r8,%r5,%r6,%r7,%r8}, [%rd3];"

BAD = {
    "part of a warp executes mma": (
        f"@%p1 bra A; bar.sync 0; bra.uni E; A: {MMA} bar.sync 0; E:", "C002", "lanes 0..15 execute `mma.sync.aligned",
    ),
    "mma after an exit": (f"@%p1 exit; {MMA}", "C008", "after lanes 0..15 exited"),
    "an election after an exit": ("@%p1 exit; elect.sync _|%p3, -1;", "C008", "after lanes 0..15 exited"),
    "out of its own mask": ("vote.sync.any.pred %p3, %p1, 0xffff;", "C004", "thread (16,0,0) of CTA (0,0,0) executes `vote.sync.any.pred`"),
    "another mask": (
        "selp.u32 %r4, 0xffffffff, 0xffff0000, %p1; vote.sync.any.pred %p3, %p1, %r4;", "C005", "lane 16, which it names, with 0xffff0000",
    ),
    "another mask, in the second warp only": (
        "selp.u32 %r4, 0xffffffff, 0xffff0000, %p1; selp.u32 %r4, -1, %r4, %p2; vote.sync.any.pred %p3, %p1, %r4;",
        "C005",
        "warp 1 of CTA (0,0,0): lane 0 executes `vote.sync.any.pred` with the mask 0xffffffff, lane 16",
    ),
    "a lane of the mask waits elsewhere": (
        "@%p1 bra A; bar.warp.sync -1; bra.uni E; A: vote.sync.any.pred %p3, %p1, -1; E:", "C005", "deadlock",
    ),
    "a matrix whose address differs": (
        "mul.wide.u32 %rd3, %r3, 32; add.u64 %rd3, %rd1, %rd3; " + LOAD, "F007", "lane 1 passes an address of the matrix that differs from",
    ),
    "a branch that is not uniform": ("@%p1 bra.uni A; add.u32 %r4, %r1, 1; A:", "C012", "lanes 0..15 take a branch that the others do not"),
}  # fmt: skip

GOOD = {
    "two halves of a warp, each with its mask": "selp.u32 %r4, 0xffff, 0xffff0000, %p1; vote.sync.any.pred %p3, %p1, %r4;",
    "a barrier in a branch that is uniform": "setp.eq.u32 %p3, %r2, 0; @%p3 bra.uni A; bar.sync 0; A: bar.sync 0;",
    "one operation at two places": (
        "@%p1 bra A; shfl.sync.bfly.b32 %r5, %r1, 16, 31, -1; bra.uni E; A: shfl.sync.bfly.b32 %r5, %r1, 16, 31, -1; E: bar.sync 0;"
    ),
    "an election among those that have not exited": "@%p1 exit; elect.sync _|%p3, 0xffff0000;",
    "a matrix of each warp": "shr.u32 %r4, %r1, 5; mul.wide.u32 %rd3, %r4, 512; add.u64 %rd3, %rd1, %rd3; " + LOAD,
    "whole warps": f"{MMA} @%p2 bra E; {MMA} E:",
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_named(name: str) -> None:
    body, rule, sentence = BAD[name]
    findings, _ = watched(LANE + body, "barriers", block=64)
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


@pytest.mark.parametrize(("count", "expected"), [(8, ["C005"]), (16, [])])
def test_lanes_that_a_mask_names_do_not_skip_the_instruction(count: int, expected: list[str]) -> None:
    text = (
        ".version 8.5\n.target sm_80\n.address_size 64\n.visible .entry k() { .reg .pred %p; .reg .b32 %r; .shared .b32 s[64];"
        f" mov.u32 %r, %tid.x; setp.ge.u32 %p, %r, {count}; @%p bra E; bar.warp.sync 0xffff; E: st.shared.u32 [s], 1; ret; }}"
    )
    code = Machine().load(text)
    assert rules(list(code.machine.launch(code, "k", grid=1, block=64, checks="barriers").findings)) == expected
