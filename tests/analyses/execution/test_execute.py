"""Launches that are run as often as it takes, and what is said of them."""

from __future__ import annotations

import time

import pytest
from sample import HEAD

import ptxkit
from ptxkit.analyses.execution.execute import execute
from ptxkit.analyses.execution.launch import Launch
from ptxkit.analyses.execution.loading import loaded
from ptxkit.analyses.execution.parameters import parameters
from ptxkit.analyses.execution.result import Executed
from ptxkit.analyses.framework.routine import routines

REGISTERS = ".reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %d<8>; .shared .align 8 .b8 data[512];"
START = "ld.param.u64 %d1, [a]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.s64 %d3, %d1, %d2;"


def executed(body: str, threads: int = 64, declared: str = ".param .u64 a", grid: int = 1, budget: float = 10.0) -> Executed:
    text = f"{HEAD}.visible .entry k({declared})\n{{\n{REGISTERS}\n{body}\nret;\n}}\n"
    module = ptxkit.parse(text)
    kernel = routines(module)[0]
    arguments = tuple([one.made_up(threads * grid) for one in parameters(kernel)])
    return execute(loaded(module), Launch("k", (grid, 1, 1), (threads, 1, 1), arguments), budget=budget)


def names(found: Executed) -> list[str]:
    return [one.diagnostic.name for one in found.findings]


class TestRuns:
    def test_one_is_enough_where_nothing_depends_on_the_order(self) -> None:
        found = executed(f"{START} ld.global.u32 %r2, [%d3]; add.u32 %r2, %r2, 1; st.global.u32 [%d3], %r2;")

        assert (len(found.runs), found.is_complete, found.findings, found.depends) == (1, True, (), ())
        assert (found.covered["global"], found.covered["shared"], found.covered["schedules"]) == (128, 0, 1)

    def test_an_atomic_that_is_read_may_depend_on_the_schedule(self) -> None:
        found = executed("ld.param.u64 %d1, [a]; atom.global.add.u32 %r2, [%d1], 1;")

        # without an operation in flight, `early` is the same as `lockstep`
        assert found.covered["schedules"] == 3

    def test_a_reduction_may_not(self) -> None:
        assert executed("ld.param.u64 %d1, [a]; red.global.add.u32 [%d1], 1;").covered["schedules"] == 1

    def test_all_contents_are_tried_where_a_branch_depends_on_them(self) -> None:
        found = executed(f"{START} ld.global.u32 %r2, [%d3]; setp.gt.u32 %p1, %r2, 5; @%p1 bra OUT; st.global.u32 [%d3], %r2; OUT:")

        assert [site.bound.form.mnemonic for site in found.depends] == ["bra"]
        assert found.covered["contents"] == 5

    def test_variables_are_as_at_the_start_in_each_run(self) -> None:
        body = "mov.u64 %d1, once; atom.global.add.u32 %r2, [%d1], 1; setp.gt.u32 %p1, %r2, 63; @%p1 trap;"
        module = ptxkit.parse(f"{HEAD}.global .u32 once = 0;\n.visible .entry k()\n{{\n{REGISTERS}\n{body}\nret;\n}}\n")
        found = execute(loaded(module), Launch("k", (1, 1, 1), (64, 1, 1)))

        assert (len(found.runs), found.is_complete) == (3, True)


class TestTime:
    def test_waiting_takes_none_of_the_budget(self) -> None:
        text = f"{HEAD}.visible .entry k(.param .u64 a)\n{{\n{REGISTERS}\n{START} st.global.u32 [%d3], %r1;\nret;\n}}\n"
        module = ptxkit.parse(text)
        arguments = tuple([one.made_up(64) for one in parameters(routines(module)[0])])
        launch = Launch("k", (1, 1, 1), (64, 1, 1), arguments)

        assert execute(loaded(module), launch, budget=0.3, progress=lambda _: time.sleep(0.4)).is_complete


class TestDependence:
    @pytest.mark.parametrize(
        "body",
        [
            "ld.global.u32 %r2, [%d3]; and.b32 %r2, %r2, 63; mul.wide.u32 %d4, %r2, 4; add.s64 %d4, %d4, %d1; ld.global.u32 %r3, [%d4];",
            "ld.global.u32 %r2, [%d3]; setp.gt.u32 %p1, %r2, 5; @%p1 st.global.u32 [%d3], %r2;",
            # through shared memory
            "ld.global.u32 %r2, [%d3]; mul.lo.u32 %r4, %r1, 4; mov.u32 %r5, data; add.u32 %r4, %r4, %r5; st.shared.u32 [%r4], %r2;"
            "ld.shared.u32 %r6, [%r4]; setp.gt.u32 %p1, %r6, 5; @%p1 bra OUT; st.global.u32 [%d3], %r2; OUT:",
            # what is written by some paths only
            "mov.u32 %r3, 0; ld.global.u32 %r2, [%d3]; setp.gt.u32 %p1, %r2, 5; @%p1 mov.u32 %r3, 4; setp.eq.u32 %p2, %r3, 4; @%p2 bra OUT;"
            "st.global.u32 [%d3], %r2; OUT:",
        ],
    )
    def test_it_is_found(self, body: str) -> None:
        assert executed(f"{START} {body}").depends

    @pytest.mark.parametrize(
        "body",
        [
            "ld.global.u32 %r2, [%d3]; max.u32 %r2, %r2, 7; st.global.u32 [%d3], %r2;",
            "setp.gt.u32 %p1, %r1, 5; @%p1 st.global.u32 [%d3], %r1;",
        ],
    )
    def test_values_alone_are_none(self, body: str) -> None:
        assert not executed(f"{START} {body}").depends


class TestFindings:
    RACE = "mov.u32 %r5, data; mul.lo.u32 %r4, %r1, 4; add.u32 %r4, %r4, %r5; st.shared.u32 [%r4], %r1; {} ld.shared.u32 %r6, [data];"

    def test_a_race_is_told_once(self) -> None:
        found = executed(f"{START} {self.RACE.format('')}")

        assert [one.count for one in found.findings] == [63]

    def test_none_with_the_barrier(self) -> None:
        assert not executed(f"{START} {self.RACE.format('bar.sync 0;')}").findings

    def test_one_that_depends_on_contents_does_not_show_with_all(self) -> None:
        found = executed(
            f"{START} ld.global.u32 %r2, [%d3]; and.b32 %r2, %r2, 63; mul.wide.u32 %d4, %r2, 4; add.s64 %d4, %d4, %d1;"
            "st.global.u32 [%d4+4096], %r1;"
        )

        assert [one.is_always for one in found.shown] == [False]
        assert found.shown[0].contents.name != "count"

    def test_a_deadlock_is_one(self) -> None:
        found = executed(
            "mov.u32 %r1, %tid.x; setp.gt.u32 %p1, %r1, 31; @%p1 bra ALONE; bar.sync 1, 64; bra OUT; ALONE: bar.sync 2, 64; OUT:"
        )

        assert not found.is_complete
        assert found.fault is not None and found.fault.kind == "deadlock"
        assert found.findings
        assert all(one.witness["launch"]["block"] == [64, 1, 1] for one in found.findings)

    def test_what_the_machine_cannot_go_on_with_is_none(self) -> None:
        declared = ".global .u32 v;\n.extern .func f(.reg .b64 %p);\n"
        text = f"{HEAD}{declared}.visible .entry k()\n{{\n.reg .b64 %d1; mov.u64 %d1, v; call f, (%d1);\nret;\n}}\n"
        found = execute(loaded(ptxkit.parse(text)), Launch("k", (1, 1, 1), (32, 1, 1)))

        assert found.fault is not None and found.fault.kind == "extern"
        assert not found.findings
