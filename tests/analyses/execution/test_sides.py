"""The sides of branches that a launch takes."""

from __future__ import annotations

import pytest
from sample import HEAD

from ptxkit.analyses.execution.sides import Sides, untaken
from ptxkit.machine import Machine

REGISTERS = ".reg .pred %p<4>; .reg .b32 %r<8>;"


@pytest.mark.parametrize(
    ("body", "sides"),
    [
        ("setp.lt.u32 %p1, %r1, 16; @%p1 bra OUT; add.u32 %r2, %r1, 1; OUT:", [False, True]),
        ("setp.lt.u32 %p1, %r1, 32; @%p1 bra OUT; add.u32 %r2, %r1, 1; OUT:", [True]),
        ("setp.lt.u32 %p1, %r1, 32; @!%p1 bra OUT; add.u32 %r2, %r1, 1; OUT:", [False]),
        ("setp.lt.u32 %p1, %r1, 32; @%p1 bar.sync 0;", [True]),
        ("setp.lt.u32 %p1, %r1, 16; @%p1 exit;", [False, True]),
        ("mov.u32 %r2, 0; AGAIN: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 3; @%p1 bra AGAIN;", [False, True]),
        ("bra OUT; OUT:", []),
    ],
)
def test_which_are_taken(body: str, sides: list[bool]) -> None:
    machine, monitor = Machine(target="sm_90a"), Sides()
    text = f"{HEAD}.visible .entry k()\n{{\n{REGISTERS}\nmov.u32 %r1, %tid.x; {body}\nret;\n}}\n"

    machine.launch(machine.load(text), "k", grid=1, block=32, monitors=[monitor])

    assert sorted(side.is_taken for side in monitor.taken) == sides
    assert len({side.branch for side in monitor.taken}) == bool(sides)
    assert sorted(side.is_taken for side in untaken(monitor.taken)) == ([not sides[0]] if len(sides) == 1 else [])
