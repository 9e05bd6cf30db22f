"""Numbers that decide where threads go, and come through memory, from other lanes, or from the hardware."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ptxkit
from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.simulation.fetches import compared
from ptxkit.analyses.simulation.setting import Setting, launched
from ptxkit.analyses.verify.verdict import REFUTED, UNDECIDED, VERIFIED, Verdict, verify

HEAD = ".version 8.7\n.target sm_100a\n.address_size 64\n"
REGISTERS = (
    ".reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %d<8>; .reg .f32 %f<4>; .reg .b128 %q;"
    ".shared .align 8 .b64 bar[2]; .shared .align 16 .b8 data[64];"
)
START = (
    "mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra READY; mbarrier.init.shared.b64 [bar], {}; mbarrier.init.shared.b64 [bar+8], 1;"
    "READY: bar.sync 0;"
)
ROUNDS = (
    "mov.u32 %r4, 0; setp.eq.u32 %p5, %r5, 0; @%p5 bra OUT; AGAIN: and.b32 %r3, %r4, 1; mbarrier.arrive.shared.b64 _, [bar];"
    "W: mbarrier.try_wait.parity.shared.b64 %p2, [bar], %r3; @!%p2 bra W; add.u32 %r4, %r4, 1;"
    "setp.lt.u32 %p3, %r4, %r5; @%p3 bra AGAIN; OUT:"
)
"""As many phases as %r5 says."""


Memory = Mapping[str, tuple[int, int]]


def verdict(body: str, memory: Memory | None = None, grid: int = 1, parameters: Mapping[str, int] | None = None) -> Verdict:
    text = f"{HEAD}.visible .entry k(.param .u64 p, .param .align 8 .b8 s[64]) {{\n{REGISTERS}\n{body}\nret;\n}}\n"
    setting = Setting((64, 1, 1), (grid, 1, 1), parameters=parameters or {}, memory=memory or {})
    return verify(routines(launched(ptxkit.parse(text), "k", setting))[0], setting)


class TestSharedMemory:
    STORE = "@!%p1 st.shared.u32 [data], 5;"
    LOAD = "ld.shared.u32 %r5, [data];"

    def test_what_one_thread_stored_before_a_barrier(self) -> None:
        found = verdict(f"{START.format(64)} {self.STORE} bar.sync 0; {self.LOAD} {ROUNDS}")

        assert (found.outcome, found.phases) == (VERIFIED, 5)

    def test_nothing_is_known_without_one(self) -> None:
        assert verdict(f"{START.format(64)} {self.STORE} {self.LOAD} {ROUNDS}").outcome != VERIFIED

    def test_nor_of_what_was_never_stored(self) -> None:
        found = verdict(f"{START.format(64)} {self.LOAD} {ROUNDS}")

        assert found.outcome == UNDECIDED
        assert any("ld.shared.u32" in reason.text for reason in found.reasons)

    def test_nor_where_a_thread_stores_later_that_nobody_waits_for(self) -> None:
        late = "setp.eq.u32 %p4, %r1, 40; @%p4 st.shared.u32 [data], 7;"

        assert verdict(f"{START.format(64)} {self.STORE} bar.sync 0; {self.LOAD} {late} {ROUNDS}").outcome != VERIFIED

    def test_part_of_it_written_over(self) -> None:
        body = f"{START.format(64)} {self.STORE} bar.sync 0; @!%p1 st.shared.u8 [data+1], 1; bar.sync 0; {self.LOAD}"
        found = verdict(f"{body} sub.u32 %r5, %r5, 256; {ROUNDS}")

        assert (found.outcome, found.phases) == (VERIFIED, 5)

    def test_each_thread_its_own(self) -> None:
        own = "mov.u32 %r6, data; and.b32 %r7, %r1, 1; shl.b32 %r7, %r7, 2; add.u32 %r6, %r6, %r7;"
        store = "setp.lt.u32 %p4, %r1, 2; @%p4 st.shared.u32 [%r6], %r1; bar.sync 0; ld.shared.u32 %r5, [%r6]; setp.eq.u32 %p6, %r5, 0;"
        found = verdict(f"{START.format(32)} {own} {store} @!%p6 bra DONE; mov.u32 %r5, 3; {ROUNDS} DONE:")

        assert (found.outcome, found.phases) == (VERIFIED, 3)

    def test_a_store_to_an_unknown_place_is_told(self) -> None:
        stray = "ld.param.u64 %d1, [p]; ld.global.u32 %r8, [%d1]; mov.u32 %r9, data; add.u32 %r9, %r9, %r8; st.shared.u32 [%r9], 1;"
        found = verdict(f"{START.format(64)} {self.STORE} bar.sync 0; {self.LOAD} {stray} {ROUNDS}", parameters={"p": 4096})

        assert any("does not write over" in one.text for one in found.assumptions)


class TestOtherMemory:
    BODY = f"{START.format(64)} ld.param.u64 %d1, [p]; ld.global.u32 %r5, [%d1+4]; {ROUNDS}"

    def test_is_not_known(self) -> None:
        found = verdict(self.BODY, parameters={"p": 4096})

        assert found.outcome == UNDECIDED
        assert all("--memory" in reason.text for reason in found.reasons)

    @pytest.mark.parametrize("name", ["p", "*"])
    def test_is_what_the_launch_says(self, name: str) -> None:
        found = verdict(self.BODY, {name: (3, 0)}, parameters={"p": 4096})

        assert (found.outcome, found.phases) == (VERIFIED, 3)
        assert [one.text for one in found.assumptions] == ["this gives what --memory says"]

    def test_that_nothing_writes_is_given_as_well(self) -> None:
        found = verdict(self.BODY.replace("ld.global", "ld.global.nc"), {"*": (3, 0)}, parameters={"p": 4096})

        assert (found.outcome, found.phases) == (VERIFIED, 3)

    def test_may_grow(self) -> None:
        assert verdict(self.BODY, {"p": (1, 4)}, parameters={"p": 4096}).phases == 5

    def test_a_parameter_at_an_address_that_is_found_out(self) -> None:
        at = "mov.u64 %d2, s; mov.u64 %d3, 8; @%p1 mov.u64 %d3, 12; add.u64 %d2, %d2, %d3;"
        body = f"{START.format(64)} {at} ld.param.u32 %r5, [%d2]; {ROUNDS}"

        assert verdict(body, parameters={"s+8": 2, "s+12": 2}).phases == 2


class TestWarps:
    def test_what_a_lane_hands_out(self) -> None:
        body = f"{START.format(64)} @!%p1 st.shared.u32 [data], 5; bar.sync 0; mov.u32 %r6, 0; and.b32 %r7, %r1, 31;"
        body += f"setp.eq.u32 %p4, %r7, 0; @%p4 ld.shared.u32 %r6, [data]; shfl.sync.idx.b32 %r5, %r6, 0, 31, -1; {ROUNDS}"

        assert (verdict(body).outcome, verdict(body).phases) == (VERIFIED, 5)

    @pytest.mark.parametrize(("mode", "phases"), [("any", 1), ("all", 0)])
    def test_what_they_vote_for(self, mode: str, phases: int) -> None:
        body = f"{START.format(64)} ld.param.u64 %d1, [p]; ld.global.u32 %r6, [%d1]; and.b32 %r7, %r1, 1; setp.eq.u32 %p4, %r7, %r6;"
        body += f"vote.sync.{mode}.pred %p6, %p4, -1; selp.u32 %r5, 1, 0, %p6; {ROUNDS}"

        assert verdict(body, {"*": (1, 0)}, parameters={"p": 4096}).phases == phases


class TestRequests:
    BODY = (
        START.format(64) + "mov.u32 %r5, 0; NEXT: and.b32 %r3, %r5, 1; @%p1 bra WAIT; mbarrier.arrive.expect_tx.shared.b64 _, [bar+8], 16;"
        "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [data], [bar+8];"
        "WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar+8], %r3; @!%p2 bra WAIT; ld.shared.b128 %q, [data];"
        "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q; add.u32 %r5, %r5, 1; bar.sync 0; @%p3 bra NEXT;"
    )

    @pytest.mark.parametrize("clusters", [1, 3])
    def test_the_first_cluster_gets_the_work_of_all(self, clusters: int) -> None:
        found = verdict(self.BODY, grid=clusters)

        assert (found.outcome, found.phases) == (VERIFIED, clusters)
        assert any("the first cluster" in one.text for one in found.assumptions)

    def test_it_asks_too_early_without_a_barrier(self) -> None:
        assert verdict(self.BODY.replace("bar.sync 0; @%p3", "@%p3"), grid=3).outcome in (UNDECIDED, REFUTED)


class TestFloats:
    @given(st.floats(width=32), st.floats(width=32))
    def test_they_compare_as_numbers(self, a: float, b: float) -> None:
        x, y = [int.from_bytes(struct.pack("<f", one), "little") for one in (a, b)]
        is_number = not (math.isnan(a) or math.isnan(b))

        assert compared(".lt", ".f32", False, x, y) == (is_number and a < b)
        assert compared(".ltu", ".f32", False, x, y) == (not is_number or a < b)
        assert compared(".num", ".f32", False, x, y) == is_number

    def test_less_than_the_least_normal_number_is_zero_if_asked(self) -> None:
        assert (compared(".eq", ".f32", True, 1, 0), compared(".eq", ".f32", False, 1, 0)) == (1, 0)
