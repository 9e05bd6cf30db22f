"""What monitors are told."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

np = pytest.importorskip("numpy")

from ptxkit.machine import Fault, Machine  # noqa: E402
from ptxkit.machine.fault import Stop  # noqa: E402
from ptxkit.machine.monitoring import Monitor  # noqa: E402

TEXT = """.version 8.5
.target sm_90a
.address_size 64
.shared .align 4 .b8 s[256];
.visible .entry k(.param .u64 out)
{
.reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<5>;
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x;
shl.b32 %r2, %r1, 2;
mov.u32 %r3, s; add.s32 %r3, %r3, %r2;
st.shared.u32 [%r3], %r1;
membar.cta;
bar.sync 0;
setp.lt.u32 %p1, %r1, 8;
@%p1 ld.shared.u32 %r4, [%r3];
@!%p1 bra END;
vote.sync.ballot.b32 %r5, %p1, 0xff;
mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
atom.global.add.u32 %r6, [%rd3], %r5;
END: ret;
}
"""


class Recorder(Monitor):
    def __init__(self) -> None:
        self.seen: Counter[tuple[Any, ...]] = Counter()
        self.order: list[str] = []

    def begin(self, launch: Any) -> None:
        self.order.append("begin")

    def resident(self, residents: Any) -> None:
        self.order.append(f"resident {residents.ctas}")

    def vacant(self, residents: Any) -> None:
        self.order.append("vacant")

    def end(self, launch: Any) -> None:
        self.order.append("end")

    def access(self, access: Any) -> None:
        line = access.lanes.launch.span(access.lanes.site).line
        self.seen[access.kind, access.space, access.size, line] += access.lanes.count

    def instruction(self, lanes: Any, arguments: tuple[Any, ...]) -> None:
        self.seen["at", lanes.site.bound.opcode] += lanes.count

    def passed(self, lanes: Any, arguments: tuple[Any, ...], token: Any) -> None:
        self.seen["passed", lanes.site.bound.opcode] += lanes.count

    def exit(self, lanes: Any) -> None:
        self.seen["exit",] += lanes.count


@pytest.mark.parametrize("schedule", ["lockstep", 5])
def test_every_event_with_its_lanes_and_line(schedule: Any) -> None:
    recorder = Recorder()
    machine = Machine()
    out = np.zeros(64, np.uint32)
    machine.launch(machine.load(TEXT), "k", out, grid=2, block=64, schedule=schedule, monitors=[recorder])
    assert out[:8].tolist() == [2 * 0xFF] * 8
    seen = {key: count for key, count in recorder.seen.items() if ".param" not in key}
    assert seen == {
        ("write", ".shared", 4, 12): 128,
        ("at", "membar.cta"): 128,
        ("at", "bar.sync"): 128,
        ("passed", "bar.sync"): 128,
        ("read", ".shared", 4, 16): 16,
        ("at", "vote.sync.ballot.b32"): 16,
        ("passed", "vote.sync.ballot.b32"): 16,
        ("update", ".global", 4, 20): 16,
        ("exit",): 128,
    }
    assert recorder.order == ["begin", "resident 2", "vacant", "end"]


def test_a_monitor_ends_a_launch() -> None:
    class Strict(Monitor):
        def access(self, access: Any) -> None:
            if access.kind == "update":
                raise Stop("race", "nobody may", access.lanes.thread == 3)

    machine = Machine()
    with pytest.raises(Fault) as caught:
        machine.launch(machine.load(TEXT), "k", np.zeros(64, np.uint32), grid=1, block=64, monitors=[Strict()])
    assert caught.value.kind == "race" and caught.value.line == 20
    assert caught.value.threads == (((0, 0, 0), (3, 0, 0)),)


def test_without_monitors_there_is_no_trace_of_them() -> None:
    machine = Machine()
    code = machine.load(TEXT)
    machine.launch(code, "k", np.zeros(64, np.uint32), grid=1, block=64)
    sources = [block.run.source for block in code.program("k", False, False).entry.blocks if hasattr(block.run, "source")]
    assert sources and not any(".on(" in source for source in sources)


def test_a_wait_is_an_access_when_it_begins_and_when_it_succeeds() -> None:
    """Thread 0 waits for thread 32. Whether it may go on is looked up more often, to no effect."""
    text = """.version 8.5
.target sm_90a
.address_size 64
.shared .align 8 .b64 m;
.visible .entry k()
{
.reg .pred %p<4>; .reg .b32 %r<5>; .reg .b64 %rd<3>;
mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r1, 32;
@%p1 mbarrier.init.shared.b64 [m], 1;
bar.sync 0;
@%p2 bra ARRIVE;
@!%p1 bra END;
WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [m], 0;
@!%p3 bra WAIT;
bra END;
ARRIVE: mbarrier.arrive.shared.b64 %rd1, [m];
END: ret;
}
"""
    recorder = Recorder()
    machine = Machine()
    machine.launch(machine.load(text), "k", grid=1, block=64, monitors=[recorder])
    assert sum([count for what, count in recorder.seen.items() if what[0] == "read"]) == 2
