"""CTAs that stand for others in shared memory: what is found is what is found with all of them watched."""

from __future__ import annotations

from typing import Any

import pytest
from sample import HEAD

import ptxkit
from ptxkit.analyses.execution import observing, representatives
from ptxkit.analyses.execution.execute import execute
from ptxkit.analyses.execution.launch import Launch
from ptxkit.analyses.execution.loading import loaded
from ptxkit.analyses.execution.parameters import parameters
from ptxkit.analyses.execution.result import Executed
from ptxkit.analyses.framework.routine import routines

START = """
    .reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %d<8>; .shared .align 8 .b8 data[4096];
    mov.u32 %r1, %tid.x; mov.u32 %r9, %ctaid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, data; add.u32 %r4, %r3, %r2;
    xor.b32 %r5, %r2, 128; add.u32 %r5, %r3, %r5;
"""
EXCHANGE = "st.shared.u32 [%r4], %r1; {} ld.shared.u32 %r6, [%r5];"
IN_ONE = "setp.eq.u32 %p1, %r9, {}; @%p1 bra LATER; bar.sync 0; LATER:"


def executed(body: str, grid: int, threads: int = 64) -> Executed:
    module = ptxkit.parse(f"{HEAD}.visible .entry k(.param .u64 a)\n{{\n{START}\n{body}\nret;\n}}\n")
    arguments = tuple([one.made_up(threads * grid) for one in parameters(routines(module)[0])])
    return execute(loaded(module), Launch("k", (grid, 1, 1), (threads, 1, 1), arguments))


def names(found: Executed) -> list[str]:
    return [one.diagnostic.name for one in found.findings]


def test_one_stands_for_all_that_do_the_same() -> None:
    found = executed(EXCHANGE.format("bar.sync 0;"), grid=6)

    assert (found.covered["stood_for"], found.covered["shared"], found.findings) == (5, 6 * 128, ())


def test_a_race_that_all_have_is_found() -> None:
    found = executed(EXCHANGE.format(""), grid=6)

    assert (found.covered["stood_for"], names(found)) == (5, ["smem-race"])


def test_those_that_deviate_in_later_waves_are_known_from_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    stops = []
    stop = representatives.Representatives._stop

    def counted(self: representatives.Representatives, ctas: Any) -> None:
        stops.append(len(ctas))
        stop(self, ctas)

    monkeypatch.setattr(representatives.Representatives, "_stop", counted)
    body = "and.b32 %r8, %r9, 1; setp.eq.u32 %p1, %r8, 0; @%p1 st.shared.u32 [%r4], %r1;"

    found = executed(body, grid=600, threads=1024)

    assert (found.covered["stood_for"], found.findings, len(stops)) == (598, (), 1)


@pytest.mark.parametrize(("grid", "threads"), [(6, 64), (130, 1024)])
def test_one_that_does_something_else_is_watched_itself(grid: int, threads: int) -> None:
    """The second launch has more threads than are resident at once."""
    found = executed(EXCHANGE.format(IN_ONE.format(grid - 2)), grid, threads)

    ctas = {tuple(access["cta"]) for one in found.findings for access in one.witness["accesses"]}
    assert names(found)[0] == "smem-race"
    assert ctas == {(grid - 2, 0, 0)}


def test_addresses_of_shared_memory_are_compared() -> None:
    """Every CTA but the first has all its threads store to one word."""
    body = "setp.eq.u32 %p1, %r9, 0; selp.b32 %r7, %r4, %r3, %p1; st.shared.u32 [%r7], %r1;"

    found = executed(body, grid=3)

    assert names(found) == ["smem-race"]
    assert found.covered["stood_for"] == 1


def test_ctas_that_deviate_have_a_representative() -> None:
    """Every other CTA has all its threads store to one word."""
    body = "and.b32 %r8, %r9, 1; setp.eq.u32 %p1, %r8, 0; selp.b32 %r7, %r4, %r3, %p1; st.shared.u32 [%r7], %r1;"

    found = executed(body, grid=64)

    assert {tuple(access["cta"]) for one in found.findings for access in one.witness["accesses"]} == {(1, 0, 0)}
    assert (names(found), found.covered["stood_for"]) == (["smem-race"], 62)


def test_all_are_watched_where_each_does_something_else() -> None:
    body = "rem.u32 %r8, %r9, 16; shl.b32 %r8, %r8, 2; add.u32 %r7, %r4, %r8; st.shared.u32 [%r7], %r1;"

    found = executed(body, grid=16)

    assert (found.covered["stood_for"], found.findings) == (0, ())


def test_values_are_followed_in_all() -> None:
    """One CTA stores what nothing has made, and hands it on through shared memory."""
    body = """
        setp.eq.u32 %p1, %r9, 2; @%p1 bra AT; mov.u32 %r7, 5; AT: st.shared.u32 [%r4], %r7; bar.sync 0; ld.shared.u32 %r6, [%r5];
        setp.gt.u32 %p2, %r6, 99; @%p2 bra E; bar.sync 0; E:
    """
    found = executed(body, grid=4)

    assert (found.covered["stood_for"], found.findings[0].diagnostic.name) == (3, "uninitialised-register")


def test_findings_are_those_of_a_run_with_all_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    deviating = "shr.u32 %r8, %r9, 1; setp.eq.u32 %p1, %r8, 1; @%p1 bra LATER; bar.sync 0; LATER:"
    bodies = [
        EXCHANGE.format(deviating),
        EXCHANGE.format(""),
        EXCHANGE.format("bar.sync 0;"),
        EXCHANGE.format(IN_ONE.format(2)),
        "ld.shared.u32 %r6, [%r5+4096];",
    ]
    alone = [names(executed(body, grid=5)) for body in bodies]

    def nobody(*_: Any) -> bool:
        return True

    monkeypatch.setattr(observing, "_has_flights", nobody)
    assert [names(executed(body, grid=5)) for body in bodies] == alone
