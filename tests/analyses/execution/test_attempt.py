"""The runs with one choice of scalars: which are repeated, with how much memory, and what is done if time is short."""

from __future__ import annotations

from typing import Any

import pytest
from sample import HEAD

import ptxkit
from ptxkit.analyses.execution import attempt
from ptxkit.analyses.execution.attempt import Runner
from ptxkit.analyses.execution.contents import COUNT, Contents, Numbers
from ptxkit.analyses.execution.launch import Launch
from ptxkit.analyses.execution.loading import loaded
from ptxkit.analyses.execution.parameters import parameters
from ptxkit.analyses.execution.running import once
from ptxkit.analyses.framework.routine import routines

REGISTERS = ".reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %d<8>; .shared .align 8 .b8 data[512];"
START = "ld.param.u64 %d1, [a]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.s64 %d3, %d1, %d2;"


def begun(body: str, grid: int) -> Runner:
    """The runs of a launch, of which the first is done."""
    text = f"{HEAD}.visible .entry k(.param .u64 a)\n{{\n{REGISTERS}\n{body}\nret;\n}}\n"
    module = ptxkit.parse(text)
    arguments = tuple([one.made_up(64 * grid) for one in parameters(routines(module)[0])])
    launch = Launch("k", (grid, 1, 1), (64, 1, 1), arguments)
    one = Runner(loaded(module), launch, ("lockstep",), (COUNT,), "all", 10.0, None, frozenset())
    one._once("lockstep", COUNT)
    return one


class TestTime:
    BY_CONTENTS = f"{START} ld.global.u32 %r2, [%d3]; setp.gt.u32 %p1, %r2, 5; @%p1 bra OUT; st.global.u32 [%d3], %r2; OUT:"

    def test_other_contents_are_tried_with_the_ctas_there_is_time_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        one = begun(self.BY_CONTENTS, grid=100)
        monkeypatch.setattr(Runner, "left", 0.01)
        monkeypatch.setattr(attempt, "FEW", 50 * max(one.runs[0].seconds, attempt.LEAST_SECONDS))

        assert one._again("lockstep", Contents("zeros"), is_needed=True)
        assert (len(one.runs), one.skipped, one.runs[1].fault) == (2, 0, None)
        assert list(one.unfit) == ["zeros in memory beyond the first 50 of 100 CTAs, for which there was no time"]

    def test_too_few_ctas_are_not_worth_a_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        one = begun(self.BY_CONTENTS, grid=100)
        monkeypatch.setattr(Runner, "left", 0.01)
        monkeypatch.setattr(attempt, "FEW", 0.0)

        assert not one._again("lockstep", Contents("zeros"), is_needed=True)
        assert (len(one.runs), one.skipped) == (1, 1)

    def test_a_cta_that_waits_for_one_that_is_not_started_shows_nothing(self) -> None:
        # the first CTA waits for what the last one writes
        spin = "mov.u32 %r9, %ctaid.x; setp.eq.u32 %p2, %r9, 9; @%p2 st.relaxed.gpu.global.u32 [%d1+4096], 1; setp.ne.u32 %p3, %r9, 0;"
        wait = "@%p3 bra OUT; SPIN: ld.relaxed.gpu.global.u32 %r4, [%d1+4096]; setp.ne.u32 %p1, %r4, 1; @%p1 bra SPIN; OUT:"
        one = begun(f"{START} {spin} {wait}", grid=10)

        assert one.runs[0].fault is None
        assert not one._of_first_ctas("lockstep", Contents("zeros"), 8)
        assert (len(one.runs), one.first) == (1, {})


class TestRoom:
    def test_memory_grows_until_a_run_stays_within_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monitored = []

        def counted(*given: Any, **more: Any) -> Any:
            monitored.append(len(given) > 5)
            return once(*given, **more)

        monkeypatch.setattr(attempt, "once", counted)
        far = "mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 1500000; ld.param.u64 %d1, [a]; add.s64 %d3, %d1, %d2; st.global.u32 [%d3], %r1;"

        found = begun(far, 1).attempt(Numbers())

        assert found.runs[0].fault is None
        assert not found.first
        assert monitored.count(True) == 3
        assert monitored.count(False) >= 1
