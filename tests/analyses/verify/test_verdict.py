"""What one run proves of all, and what it does not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from sample import HEAD

import ptxkit
from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.simulation.setting import Setting, launched
from ptxkit.analyses.verify.verdict import REFUTED, UNDECIDED, VERIFIED, Verdict, verify

REGISTERS = ".reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %d<8>; .shared .align 8 .b64 bar[2]; .shared .align 16 .b8 data[64];"
START = "mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra READY; INITS READY: bar.sync 0;"
ARRIVE = "mbarrier.arrive.shared.b64 _, [bar];"


def wait(parity: object, label: str, at: str = "bar") -> str:
    return f"{label}: mbarrier.try_wait.parity.shared.b64 %p2, [{at}], {parity}; @!%p2 bra {label};"


def verdict(body: str, threads: int = 64, directives: str = "", parameters: Mapping[str, int] | None = None, grid: int = 1) -> Verdict:
    text = f"{HEAD}.visible .entry k(.param .u32 n) {directives}\n{{\n{REGISTERS}\n{body}\nret;\n}}\n"
    setting = Setting((threads, 1, 1), (grid, 1, 1), parameters=parameters or {})
    module = launched(ptxkit.parse(text), "k", setting)
    return verify(routines(module)[0], setting)


def start(*counts: int) -> str:
    return START.replace("INITS", " ".join(f"mbarrier.init.shared.b64 [bar+{8 * place}], {count};" for place, count in enumerate(counts)))


class TestOverrun:
    def test_a_wait_that_two_phases_may_pass_by(self) -> None:
        # thread 32 goes through phases 0 and 1 by itself, which thread 0 may come too late to see
        body = f"{start(1)} setp.eq.u32 %p3, %r1, 32; @%p3 bra ALONE; setp.ne.u32 %p4, %r1, 0; @%p4 bra DONE; {wait(0, 'LATE')} bra DONE;"
        body += f"ALONE: {ARRIVE} {wait(0, 'A')} {ARRIVE} {wait(1, 'B')} DONE:"
        found = verdict(body)

        assert found.outcome == UNDECIDED
        assert any("so late" in reason.text for reason in found.reasons)

    def test_no_more_when_the_one_that_waits_arrives_too(self) -> None:
        body = f"{start(64)} {ARRIVE} {wait(0, 'A')} {ARRIVE} {wait(1, 'B')} {ARRIVE} {wait(0, 'C')}"

        assert verdict(body).outcome == VERIFIED


class TestLoops:
    BODY = (
        start(64)
        + "ld.param.u32 %r5, [n]; mov.u32 %r4, 0; setp.eq.u32 %p5, %r5, 0; @%p5 bra OUT; AGAIN: and.b32 %r3, %r4, 1;"
        + ARRIVE
        + wait("%r3", "W")
        + "add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, %r5; @%p3 bra AGAIN; OUT:"
    )

    @pytest.mark.parametrize("rounds", [0, 1, 100])
    def test_they_go_round_as_often_as_the_launch_says(self, rounds: int) -> None:
        found = verdict(self.BODY, parameters={"n": rounds})

        assert (found.outcome, found.phases) == (VERIFIED, rounds)

    def test_they_are_not_known_without_it(self) -> None:
        found = verdict(self.BODY)

        assert found.outcome == UNDECIDED
        assert all("`n`" in reason.text for reason in found.reasons)


class TestPlace:
    def test_one_cluster_stands_for_all(self) -> None:
        assert verdict(f"{start(64)} {ARRIVE} {wait(0, 'W')}", grid=1000).clusters == 1

    def test_each_is_run_where_they_differ(self) -> None:
        body = f"{start(64)} mov.u32 %r2, %ctaid.x; setp.eq.u32 %p3, %r2, 2; @%p3 bra W; {ARRIVE} {wait(0, 'W')}"

        assert (verdict(body, grid=2).outcome, verdict(body, grid=3).outcome) == (VERIFIED, REFUTED)


class TestAskingOnce:
    def test_what_is_only_asked_first_is_waited_for_then(self) -> None:
        ask = "mbarrier.test_wait.parity.shared.b64 %p5, [bar], 0; @%p5 bra DONE;"

        assert verdict(f"{start(64)} {ARRIVE} {ask} {wait(0, 'W')} DONE:").outcome == VERIFIED

    def test_what_depends_on_the_answer_is_undecided(self) -> None:
        ask = "mbarrier.test_wait.parity.shared.b64 %p5, [bar], 0; @%p5 bra DONE;"
        found = verdict(f"{start(64, 1)} {ARRIVE} {ask} mbarrier.arrive.shared.b64 _, [bar+8]; DONE:")

        assert found.outcome != VERIFIED


class TestRegisters:
    BODY = "mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 128; @%p1 bra MORE; setmaxnreg.dec.sync.aligned.u32 {}; bra DONE; MORE: {} DONE:"
    MORE = "setmaxnreg.inc.sync.aligned.u32 160;"

    def test_those_that_others_give_back_are_taken(self) -> None:
        assert verdict(self.BODY.format(64, self.MORE), 256, ".maxnreg 112").outcome == VERIFIED

    def test_those_that_nobody_gives_back_are_waited_for(self) -> None:
        found = verdict(self.BODY.format(96, self.MORE), 256, ".maxnreg 112")

        assert found.outcome == REFUTED
        assert "waits for registers, for ever" in found.reasons[0].text


def test_a_barrier_that_not_all_come_to() -> None:
    body = "mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 32; @%p1 bra OUT; bar.sync 1, 64; OUT:"

    assert verdict(body).outcome == REFUTED


def test_a_race_is_refuted_with_two_threads() -> None:
    body = "mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 1; shl.b32 %r2, %r2, 2; mov.u32 %r3, data; add.u32 %r2, %r2, %r3; "
    body += "st.shared.u32 [data+8], 0; bar.sync 0; setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [data], %r1; ld.shared.u32 %r4, [data];"
    found = verdict(body)

    assert found.outcome == REFUTED
    assert "nothing says which comes first" in found.reasons[0].text


class TestWhatIsNotFollowed:
    LOST = "ld.param.u32 %r5, [n]; setp.eq.u32 %p5, %r5, 0; @%p5 bra OUT; bar.sync 1; OUT:"

    def test_an_object_that_nobody_can_initialize_any_more(self) -> None:
        found = verdict(f"{START.replace('INITS', '')} setp.eq.u32 %p3, %r1, 32; @%p3 bra USE; {self.LOST} ret; USE: {ARRIVE}")

        assert found.outcome == REFUTED
        assert "nobody initializes" in found.reasons[0].text

    def test_one_that_somebody_may_initialize_yet(self) -> None:
        late = self.LOST.replace("bar.sync 1;", "mbarrier.init.shared.b64 [bar], 1;")
        found = verdict(f"{START.replace('INITS', '')} setp.eq.u32 %p3, %r1, 32; @%p3 bra USE; {late} ret; USE: {ARRIVE}")

        assert found.outcome == UNDECIDED

    def test_how_much_was_come_to(self) -> None:
        body = f"{start(64)} {ARRIVE} {wait(0, 'W')} ld.param.u32 %r5, [n]; setp.eq.u32 %p5, %r5, 0; @%p5 bra OUT; bar.sync 1; OUT:"

        assert [verdict(body, parameters={"n": n}).covered for n in (0, 1)] == [(4, 5), (5, 5)]


def test_a_phase_does_not_complete_before_its_copies_are_asked_for() -> None:
    # those who wait at first meet the thread that copies after it has announced, and before it copies
    copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [data], [%d1], 16, [bar+8];"
    first = f"{wait(1, 'A')} @!%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar+8], 16; bar.warp.sync -1; @!%p1 {copy} bra DONE;"
    who = "ld.param.u32 %r5, [n]; cvt.u64.u32 %d1, %r5; setp.eq.u32 %p3, %r1, 32; @%p3 bra LAST; setp.gt.u32 %p4, %r1, 31; @%p4 bra DONE;"
    body = f"{start(1, 1)} {who} {first} LAST: {wait(0, 'E', 'bar+8')} {ARRIVE} DONE:"

    assert verdict(body, parameters={"n": 4096}).outcome == VERIFIED


def test_who_waits_for_ever_only_if_others_are_faster_is_undecided() -> None:
    # in the order of the run, thread 0 has so much to do before it looks that both phases of thread 32 have passed
    slow = "bar.warp.sync 1; " * 30
    body = f"{start(1)} setp.eq.u32 %p3, %r1, 32; @%p3 bra ALONE; setp.ne.u32 %p4, %r1, 0; @%p4 bra DONE;"
    found = verdict(f"{body} {slow} {wait(0, 'LATE')} bra DONE; ALONE: {ARRIVE} {wait(0, 'A')} {ARRIVE} {wait(1, 'B')} DONE:")

    assert found.outcome == UNDECIDED
    assert any("in some orders" in reason.text for reason in found.reasons)
