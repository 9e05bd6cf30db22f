"""Which accesses happen before which: textbook patterns of chapter 8, one thread of each CTA or two warps."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")

from tests.machine.monitors.watching import rules, watched

MESSAGE = """
    setp.ne.u32 %p1, %r2, 0; @%p1 bra READER;
    st.global.u32 [%rd1+4], 42;
    {write}
    ret;
    READER:
    {read} setp.eq.u32 %p2, %r3, 0; @%p2 bra READER;
    {after}
    ld.global.u32 %r4, [%rd1+4]; st.global.u32 [%rd1+8], %r4;
"""
"""CTA 0 writes a value and sets a flag; CTA 1 reads the value once it has seen the flag."""


def of_message(write: str, read: str, after: str = "") -> list[str]:
    return rules(watched(MESSAGE.format(write=write, read=read, after=after), "races", grid=2, block=1)[0])


class TestMessagePassing:
    def test_a_release_and_an_acquire(self) -> None:
        assert of_message("st.release.gpu.global.u32 [%rd1], 1;", "ld.acquire.gpu.global.u32 %r3, [%rd1];") == []

    def test_fences_around_relaxed_accesses(self) -> None:
        write = "fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%rd1], 1;"
        assert of_message(write, "ld.relaxed.gpu.global.u32 %r3, [%rd1];", "fence.acq_rel.gpu;") == []

    @pytest.mark.parametrize(
        ("write", "read"),
        [
            ("st.relaxed.gpu.global.u32 [%rd1], 1;", "ld.acquire.gpu.global.u32 %r3, [%rd1];"),
            ("st.release.gpu.global.u32 [%rd1], 1;", "ld.relaxed.gpu.global.u32 %r3, [%rd1];"),
            # the other CTA is outside of the scope
            ("st.release.cta.global.u32 [%rd1], 1;", "ld.acquire.gpu.global.u32 %r3, [%rd1];"),
        ],
        ids=["no release", "no acquire", "scope too narrow"],
    )
    def test_one_side_is_not_enough(self, write: str, read: str) -> None:
        assert of_message(write, read)


NEIGHBOUR = """
    mov.u32 %r3, s; shl.b32 %r4, %r1, 2; add.u32 %r5, %r3, %r4; xor.b32 %r6, %r4, {other}; add.u32 %r6, %r3, %r6;
    st.shared.u32 [%r5], %r1;
    {between}
    ld.shared.u32 %r7, [%r6]; st.global.u32 [%rd2], %r7;
"""
"""Each thread writes its element of `s` and reads that of another thread."""
SHARED = ".shared .align 4 .b8 s[256];"
OF_OTHER_WARP, OF_OWN_WARP = 128, 4


def of_neighbour(other: int, between: str) -> list[str]:
    return rules(watched(NEIGHBOUR.format(other=other, between=between), "races", SHARED)[0])


class TestBarriers:
    @pytest.mark.parametrize(
        ("other", "between"),
        [(OF_OTHER_WARP, "bar.sync 0;"), (OF_OTHER_WARP, "bar.sync 1, 64;"), (OF_OWN_WARP, "bar.warp.sync -1;")],
    )
    def test_what_comes_before_a_barrier_happens_before_what_follows(self, other: int, between: str) -> None:
        assert of_neighbour(other, between) == []

    @pytest.mark.parametrize("between", ["", "bar.warp.sync -1;"])
    def test_a_barrier_of_a_warp_does_not_order_accesses_of_another_warp(self, between: str) -> None:
        assert of_neighbour(OF_OTHER_WARP, between) == ["S003"]

    def test_lanes_of_a_warp_are_not_ordered_by_themselves(self) -> None:
        assert of_neighbour(OF_OWN_WARP, "") == ["S009"]
