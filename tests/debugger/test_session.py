"""A session in this process: what a stopped launch says, and that it is what the machine computes."""

from __future__ import annotations

from typing import Any

import pytest

np = pytest.importorskip("numpy")

from debugged import RACE, SUMS, line_of  # noqa: E402

import ptxkit  # noqa: E402
from ptxkit.debugger import expressions, values  # noqa: E402
from ptxkit.debugger.controller import Breakpoint, Plan, Stop  # noqa: E402
from ptxkit.debugger.program import Text  # noqa: E402
from ptxkit.debugger.session import Debuggee, Session  # noqa: E402
from ptxkit.debugger.state import Call  # noqa: E402
from ptxkit.debugger.values import NoValue  # noqa: E402
from ptxkit.machine import Machine  # noqa: E402
from ptxkit.machine.monitoring import Monitor  # noqa: E402

BRANCHES = """.version 8.5
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 n)
{
.reg .pred %p<3>; .reg .b32 %r<9>;
mov.u32 %r1, %tid.x;
setp.lt.u32 %p1, %r1, 32;
@%p1 bra FIRST;
bar.sync 0;
mov.u32 %r2, 2;
bra END;
FIRST:
setp.lt.u32 %p2, %r1, 16;
@%p2 mov.u32 %r3, 3;
@%p2 bra SECOND;
mov.u32 %r4, 4;
SECOND:
mov.u32 %r5, 5;
bar.sync 0;
END:
ret;
}
"""


def session(text: str, grid: int = 1, block: int = 64, checks: tuple[str, ...] = (), schedule: Any = None) -> Session:
    module = ptxkit.parse(text, "k.ptx")

    def run(monitors: tuple[Any, ...], named: tuple[str, ...]) -> tuple[int, str]:
        machine = Machine("sm_90a")
        out = np.zeros(block, np.uint32)
        shape = {"grid": grid, "block": block, "monitors": monitors, "checks": named, "schedule": schedule}
        return machine.launch(machine.load(module), "k", out, 3, **shape).instructions, ""

    return Session(Debuggee(Text(module, "k.ptx"), "k", run), checks)


def at(one: Session, line: int) -> Breakpoint:
    found = one.text.on_line(line)
    return Breakpoint(frozenset([statement.path for statement in found]), number=1)


def call(one: Session, warp: int = 0) -> Call:
    state = one.state
    return state.calls(state.parts(warp)[0])[0]


def line(one: Session, warp: int = 0) -> int:
    part = one.state.parts(warp)[0]
    return one.state.statement(part.body, part.i).line


def shown(one: Session, text: str, warp: int = 0) -> str:
    return values.line_of(expressions.evaluate(one.state, call(one, warp), text))


def test_every_statement_is_met_in_both_directions() -> None:
    one = session(SUMS)
    one.start()
    assert one.wait().reason == "entry"
    forward = [line(one)]
    while True:
        one.step("over", 0)
        if one.wait().reason == "end":
            break
        forward.append(line(one))
    assert forward[5:9] == [line_of(SUMS, "add.u32 %r4") + i for i in range(4)]
    assert forward.count(line_of(SUMS, "setp.lt.u32 %p1")) == 3
    backward = []
    while one.back(0):
        assert one.wait() == Stop("goto")
        backward.append(line(one))
    inside = range(line_of(SUMS, "ld.param.u32 %x1"), line_of(SUMS, "ret") + 1)
    assert [number for number in backward if number not in inside] == forward[::-1]


def test_threads_of_a_warp_that_are_apart_and_warps_that_wait() -> None:
    one = session(BRANCHES)
    one.set_breakpoints([at(one, line_of(BRANCHES, "mov.u32 %r4"))])
    one.start(Plan())
    assert one.wait().reason == "breakpoint"
    state = one.state
    assert [(part.how, len(part.positions), state.statement(part.body, part.i).line) for part in state.parts(0)] == [
        ("here", 16, line_of(BRANCHES, "mov.u32 %r4")),
        ("ready", 16, line_of(BRANCHES, "mov.u32 %r5")),
    ]
    assert [part.how for part in state.parts(1)] == ["waits"]
    assert state.how(1) == f"waits at line {line_of(BRANCHES, 'bar.sync')}"
    assert [(value.name, value.text) for value in values.barriers(state)] == [("barrier 0", "32 of 64 threads have arrived")]
    assert call(one).lanes.lane.tolist() == list(range(16, 32))
    # a step of those that are apart comes to the others
    one.step("over", 0)
    assert one.wait().reason == "step"
    assert len(one.state.parts(0)) == 1
    # what was dead in the lanes that went the other way is still there
    assert expressions.evaluate(one.state, call(one), "%r3").data.tolist() == [3] * 16 + [0] * 16
    one.end()


def test_a_deadlock_is_looked_at() -> None:
    text = BRANCHES.replace("mov.u32 %r5, 5;\nbar.sync 0;", "bar.sync 1;")
    one = session(text)
    one.start(Plan())
    stop = one.wait()
    assert stop.reason == "fault" and "deadlock" in stop.text
    assert [one.state.how(warp).split()[0] for warp in (0, 1)] == ["waits", "waits"]
    assert one.problems == 1
    one.resume(Plan())
    assert one.wait().reason == "end"


def test_back_to_a_breakpoint_whose_condition_holds() -> None:
    one = session(SUMS)
    loop = at(one, line_of(SUMS, "setp.lt.u32 %p1"))
    loop.condition = expressions.condition("%r3 < 3 && %tid.x == 63")
    one.set_breakpoints([loop])
    one.start(Plan())
    seen = []
    while (stop := one.wait()).reason == "breakpoint":
        seen.append(shown(one, "%r3"))
        one.resume(Plan())
    assert (seen, stop.reason) == (["1", "2"], "end")
    for expected in ("2", "1"):
        one.back_to_breakpoint()
        one.wait()
        assert shown(one, "%r3") == expected
    one.end()


def test_findings_are_those_of_a_run_that_is_not_debugged() -> None:
    one = session(RACE, checks=("races",))
    one.start(Plan())
    stops = []
    while (stop := one.wait()).reason != "end":
        stops.append(stop)
        one.resume(Plan())
    assert [stop.reason for stop in stops] == ["finding"]
    assert stops[0].finding is not None
    machine = Machine("sm_90a")
    run = machine.launch(machine.load(RACE), "k", np.zeros(64, np.uint32), 3, grid=1, block=64, checks="races")
    assert [finding.diagnostic.message for finding in run.findings] == [stops[0].finding.diagnostic.message]


@pytest.mark.parametrize("schedule", [None, "late", 7, 8])
def test_a_launch_that_is_stepped_is_executed_as_any_other(schedule: Any) -> None:
    class Stepping(Monitor):
        steps = True
        count = 0

        def statement(self, lanes: Any, body: Any, i: int, registers: list[Any]) -> None:
            self.count += lanes.count

    class Blocks(Monitor):
        def __init__(self) -> None:
            self.order: list[Any] = []

        def block(self, lanes: Any, body: Any, block: Any, taken: Any) -> None:
            self.order.append((body.name, body.blocks.index(block), lanes.place.tobytes()))

    outcomes = []
    for steps in (False, True):
        machine, blocks, stepping = Machine("sm_90a"), Blocks(), Stepping()
        out = np.zeros(64, np.uint32)
        monitors = [blocks, stepping] if steps else [blocks]
        run = machine.launch(machine.load(SUMS), "k", out, 3, grid=2, block=64, schedule=schedule, monitors=monitors)
        outcomes.append((out.tobytes(), run.instructions, blocks.order))
        assert stepping.count == (run.instructions if steps else 0)
    assert outcomes[0] == outcomes[1]


def test_a_launch_that_cannot_be_made_ends() -> None:
    one = session(SUMS, block=2048)
    one.start()
    stop = one.wait()
    assert stop.reason == "end" and "at most 1024 are possible" in stop.text
    assert one.could_not_run and one.state.parts(0) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%r2@3", "3"),
        ("-%r2 == 0 - %r2", "true"),
        ("%r1:f32", "4e-45"),
        ("out[1]:u32", "0"),
        ("[%rd1 + 4]:u32", "0"),
        ("[0].shared:b32", "3419130827 (0xcbcbcbcb)"),
        ("1 << 200", None),
        ("7 / 0", None),
        ("s[99]", None),
        ("%clock", None),
        ("twice", None),
        ("((" * 60, None),
        ("%r1 %r2", None),
        ("%p1 || %r1 != 3", "false"),
        ("WARP_SZ", "32"),
        ("%rd1:f32", None),
    ],
)
def test_expressions(text: str, expected: str | None) -> None:
    one = session(SUMS)
    one.set_breakpoints([at(one, line_of(SUMS, "mov.u32 %r3"))])
    one.start(Plan())
    one.wait()
    if expected is None:
        with pytest.raises(NoValue) as why:
            shown(one, text)
        assert len(str(why.value)) < 250
    else:
        assert shown(one, text) == expected
    one.end()


def test_lines_between_and_after_functions_have_no_breakpoint() -> None:
    text = Text(ptxkit.parse(SUMS, "k.ptx"), "k.ptx")
    entry = line_of(SUMS, ".visible .entry")
    assert [one.line for one in text.on_line(line_of(SUMS, "LOOP:"))] == [line_of(SUMS, "add.u32 %r4")]
    assert text.on_line(entry - 1) == ()
    assert text.on_line(10_000) == ()
    assert [one.function for one in text.on_line(entry + 3)] == ["k"]


def test_mbarriers() -> None:
    text = """.version 8.5
.target sm_90a
.address_size 64
.shared .align 8 .b64 ready[2];
.visible .entry k(.param .u64 out, .param .u32 n)
{
.reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
mov.u32 %r1, %tid.x;
mov.u32 %r2, ready;
setp.ne.u32 %p1, %r1, 0;
@!%p1 mbarrier.init.shared.b64 [%r2+8], 5;
bar.sync 0;
@!%p1 mbarrier.arrive.shared.b64 %rd1, [%r2+8];
bar.sync 0;
ret;
}
"""
    one = session(text)
    one.set_breakpoints([at(one, line_of(text, "ret"))])
    one.start(Plan())
    stop = one.wait()
    assert stop.reason == "breakpoint", stop.text
    found = {value.name: value.text for value in values.barriers(one.state)}
    assert found == {"barrier 0": "no thread waits", "mbarrier ready[8]": "parity 0, 4 of 5 arrivals pending, 0 bytes expected"}
    one.end()
