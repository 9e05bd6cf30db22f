"""What instructions do, as steps of one kind each."""

from __future__ import annotations

import pytest
from sample import HEAD, kernel

import ptxkit
from ptxkit.analyses import Routine, routines
from ptxkit.analyses.events.steps import Does, Step, is_quiet, may_synchronize, spins, steps
from ptxkit.analyses.symbolic.values import values


def first(text: str) -> tuple[Step, ...]:
    return steps(kernel(f"{text}\nret;")).get(0, ())


def constant(step: Step) -> int | None:
    return step.amount.constant if step.amount is not None else None


class TestSteps:
    @pytest.mark.parametrize(
        ("text", "does", "amounts"),
        [
            ("mbarrier.init.shared.b64 [%r1], 32;", [Does.INIT], [32]),
            ("mbarrier.inval.shared.b64 [%r1];", [Does.INVAL], [None]),
            ("mbarrier.expect_tx.relaxed.cta.shared.b64 [%r1], 512;", [Does.EXPECT], [512]),
            ("mbarrier.arrive.expect_tx.shared.b64 %d1, [%r1], 512;", [Does.EXPECT, Does.ARRIVE], [512, None]),
            ("mbarrier.arrive.shared.b64 %d1, [%r1], 4;", [Does.ARRIVE], [4]),
            ("mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 1;", [Does.WAIT], [1]),
            ("bar.sync 1, 64;", [Does.BARRIER_SYNC], [64]),
            ("bar.arrive 1, 64;", [Does.BARRIER_ARRIVE], [64]),
            ("barrier.cluster.arrive;", [Does.CLUSTER_ARRIVE], [None]),
            ("barrier.cluster.wait;", [Does.CLUSTER_WAIT], [None]),
            ("bar.warp.sync 15;", [Does.JOIN], [15]),
            ("fence.acq_rel.gpu;", [], []),
            ("setmaxnreg.inc.sync.aligned.u32 240;", [Does.TAKE], [240]),
            ("setmaxnreg.dec.sync.aligned.u32 24;", [Does.RELEASE], [24]),
            ("st.shared.u32 [%r3], %r1;", [], []),
            ("add.u32 %r1, %r2, %r3;", [], []),
        ],
    )
    def test_kinds(self, text: str, does: list[Does], amounts: list[int | None]) -> None:
        found = first(text)

        assert [step.does for step in found] == does
        assert [constant(step) for step in found] == amounts

    def test_a_copy_that_signals(self) -> None:
        routine = kernel("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d1], 256, [%r2];\nret;")
        target, _, _, mbarrier = routine.instructions[0].operands
        (copy,) = [step for step in steps(routine)[0] if step.does is Does.COPY]

        assert copy.bytes == 256
        assert copy.target is values(routine).operand(0, target)
        assert copy.address is values(routine).operand(0, mbarrier)

    def test_where_control_does_not_come(self) -> None:
        assert steps(kernel("ret;\nbar.sync 0;\nret;")) == {}


class TestSpins:
    WAIT = "mbarrier.try_wait.parity.shared.b64 %p1, [%r1], %r2;"

    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            (f"W: {WAIT} @!%p1 bra W; ret;", True),
            (f"W: {WAIT} @%p1 bra D; bra W; D: ret;", True),
            # a nap between, and a counter that nobody else sees
            (f"W: {WAIT} @%p1 bra D; nanosleep.u32 20; add.u32 %r5, %r5, 1; bra W; D: ret;", True),
            # asked once
            (f"{WAIT} @%p1 bra D; trap; D: ret;", False),
            # something is done while it fails
            (f"W: {WAIT} @%p1 bra D; st.shared.u32 [%r3], 1; bra W; D: ret;", False),
            # what is gone round is left by another condition
            (f"W: {WAIT} st.shared.u32 [%r3], 1; @%p2 bra W; ret;", False),
        ],
    )
    def test_a_wait(self, body: str, expected: bool) -> None:
        assert bool(spins(kernel(body))) is expected

    def test_the_step_says_so(self) -> None:
        routine = kernel(f"W: {self.WAIT} @!%p1 bra W; {self.WAIT} ret;")

        assert spins(routine) == {0}
        assert [step.is_spinning for own in steps(routine).values() for step in own] == [True, False]


class TestCalls:
    RING = """.func a(); .func b(); .func c() { call a; ret; } .func a() { call b; ret; } .func b() { call c; ret; }
    .func waits() { bar.sync 0; ret; } .func deep() { call waits; ret; } .extern .func elsewhere();"""

    def of(self, call: str) -> tuple[Routine, int]:
        module = ptxkit.parse(f"{HEAD}{self.RING} .entry k() {{ .reg .b64 %d; {call} ret; }}")
        kernel_ = next(routine for routine in routines(module) if routine.name == "k")
        return kernel_, next(i for i, one in enumerate(kernel_.instructions) if one.opcode.text.startswith("call"))

    @pytest.mark.parametrize(
        ("call", "expected"),
        [
            # a ring of three that does nothing
            ("call a;", False),
            ("call waits;", True),
            ("call deep;", True),
            # it has no body: nothing of it is known
            ("call elsewhere;", False),
            ("mov.u64 %d, waits; pt: .callprototype _ (); call %d, (), pt;", True),
        ],
    )
    def test_may_synchronize(self, call: str, expected: bool) -> None:
        assert may_synchronize(*self.of(call)) is expected

    def test_is_quiet(self) -> None:
        routine, _ = self.of("call a;")

        names = ("a", "b", "c", "waits", "deep", "elsewhere")
        assert [is_quiet(routine, name) for name in names] == [True, True, True, False, False, True]
