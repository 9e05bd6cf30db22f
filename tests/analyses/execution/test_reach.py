"""What no thread of a launch comes to."""

from __future__ import annotations

from sample import HEAD

import ptxkit
from ptxkit.analyses.execution.launch import Argument, Given, Launch
from ptxkit.analyses.execution.parameters import parameters
from ptxkit.analyses.execution.reach import unreachable
from ptxkit.analyses.framework.routine import routines


def found(body: str, given: int | None = None) -> list[str]:
    text = f"{HEAD}.visible .entry k(.param .u32 n)\n{{\n.reg .pred %p<4>; .reg .b32 %r<9>;\nld.param.u32 %r1, [n];\n{body}\nret;\n}}\n"
    kernel = routines(ptxkit.parse(text))[0]
    argument: Argument = parameters(kernel)[0].made_up(64) if given is None else Given(lambda: given)
    return [kernel.instructions[i].text.strip() for i in sorted(unreachable(kernel, Launch("k", (1, 1, 1), (64, 1, 1), (argument,))))]


def test_a_branch_on_a_number_that_was_given() -> None:
    body = "setp.lt.u32 %p1, %r1, 9; @%p1 bra OUT; bar.sync 0; OUT:"

    assert found(body, 5) == ["bar.sync 0;"]
    assert found(body, 9) == ["@%p1 bra OUT;"]
    assert found(body) == []


def test_a_guard_that_holds_for_no_thread_of_the_shape() -> None:
    assert found("mov.u32 %r2, %tid.x; setp.gt.u32 %p1, %r2, 63; @%p1 membar.gl;") == ["@%p1 membar.gl;"]
    assert found("mov.u32 %r2, %tid.x; setp.gt.u32 %p1, %r2, 62; @%p1 membar.gl;") == []


def test_what_a_loop_counts_is_not_known() -> None:
    loop = "mov.u32 %r2, 0; L: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, %r1; @%p1 bra L;"

    assert found(f"{loop} setp.eq.u32 %p2, %r2, 3; @%p2 bra OUT; bar.sync 0; OUT:", 3) == []
