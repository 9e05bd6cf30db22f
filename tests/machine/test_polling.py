"""Which reads threads wait by: strong, in a loop that their value decides, of what the loop does not change."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy")

from ptxkit.machine import Machine  # noqa: E402
from ptxkit.machine.polling import has_strong_stores, polls  # noqa: E402

KERNEL = """.version 8.5
.target sm_90
.address_size 64
.global .align 4 .u32 lock;
.global .align 4 .u32 flags[64];
.visible .entry k(.param .u64 p)
{{
.reg .pred %p<5>; .reg .b32 %r<12>; .reg .b64 %rd<9>;
ld.param.u64 %rd1, [p];
mov.u32 %r1, %tid.x;
{body}
ret;
}}
"""


def polled(body: str) -> list[str]:
    machine = Machine()
    found = machine.load(KERNEL.format(body=body)).body("k", (False, True, False, False))
    assert found is not None
    return [found.instructions[i].opcode.text for i in sorted(polls(found))]


def test_a_spinlock_and_a_flag() -> None:
    assert polled("L: atom.global.cas.b32 %r2, [lock], 0, 1;\nsetp.ne.u32 %p1, %r2, 0;\n@%p1 bra L;") == ["atom.global.cas.b32"]
    assert polled("L: ld.volatile.global.u32 %r2, [lock];\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra L;") == ["ld.volatile.global.u32"]


def test_a_lock_whose_constants_are_set_in_each_iteration() -> None:
    body = "L: mov.u32 %r3, 1; mov.u64 %rd2, lock;\natom.global.exch.b32 %r2, [%rd2], %r3;\nsetp.ne.u32 %p1, %r2, 0;\n@%p1 bra L;"
    assert polled(body) == ["atom.global.exch.b32"]


def test_a_lock_whose_critical_section_is_in_the_loop() -> None:
    body = """mov.u32 %r5, 0;
L: atom.acquire.gpu.global.cas.b32 %r2, [lock], 0, 1;
setp.ne.u32 %p1, %r2, 0;
@%p1 bra AGAIN;
mov.u32 %r5, 1;
atom.release.gpu.global.exch.b32 %r3, [lock], 0;
AGAIN: setp.eq.u32 %p2, %r5, 0;
@%p2 bra L;"""
    assert polled(body) == ["atom.acquire.gpu.global.cas.b32"]


def test_what_is_no_wait() -> None:
    # once, and not again
    assert polled("atom.global.cas.b32 %r2, [lock], 0, 1;\nsetp.ne.u32 %p1, %r2, 0;\n@%p1 bra L;\nL:") == []
    # the loop is about something else
    assert polled("L: ld.relaxed.gpu.global.u32 %r2, [lock];\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 9;\n@%p1 bra L;") == []
    # of one flag after the other
    body = """mov.u64 %rd2, flags;
L: ld.relaxed.gpu.global.u32 %r2, [%rd2];
add.u64 %rd2, %rd2, 4;
setp.eq.u32 %p1, %r2, 0;
@%p1 bra L;"""
    assert polled(body) == []
    # a compare-and-swap that is tried again with another value
    body = """ld.relaxed.gpu.global.u32 %r2, [lock];
L: mov.u32 %r3, %r2; add.u32 %r4, %r3, 1;
atom.global.cas.b32 %r2, [lock], %r3, %r4;
setp.ne.u32 %p1, %r2, %r3;
@%p1 bra L;"""
    assert polled(body) == []
    # plain loads
    assert polled("L: ld.global.u32 %r2, [lock];\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra L;") == []


@pytest.mark.parametrize(
    ("store", "expected"),
    [
        ("st.volatile.global.u32 [lock], 1;", True),
        ("st.release.gpu.global.u32 [lock], 1;", True),
        ("st.global.u32 [lock], 1;", False),
        ("red.global.add.u32 [lock], 1;", False),
    ],
)
def test_strong_stores(store: str, expected: bool) -> None:
    body = Machine().load(KERNEL.format(body=store)).body("k", (False, True, False, False))
    assert body is not None
    assert has_strong_stores(body) is expected
