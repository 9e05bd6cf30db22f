"""Which threads execute an instruction, and what they hold."""

from __future__ import annotations

import pytest
from sample import HEAD, REGISTERS

import ptxkit
from ptxkit.analyses import Routine, routines
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.threads.lanes import Thread, holding, is_free, lanes, threads_of
from ptxkit.analyses.threads.thread_sets import Runs


def block_of_four(body: str) -> Routine:
    """A kernel of four threads."""
    start = f"{REGISTERS}\nmov.u32 %r0, %tid.x;\nld.param.u32 %r9, [n];"
    return routines(ptxkit.parse(f"{HEAD}.visible .entry k(.param .u32 n)\n.reqntid 4\n{{\n{start}\n{body}\n}}\n"))[0]


def find(routine: Routine, text: str) -> int:
    (found,) = [i for i, instruction in enumerate(routine.instructions) if text in instruction.body_text]
    return found


class TestThreads:
    def test_x_is_counted_first(self) -> None:
        assert threads_of((2, 2, 1)) == (Thread(0, 0, 0, 0), Thread(1, 0, 0, 1), Thread(0, 1, 0, 2), Thread(1, 1, 0, 3))
        assert threads_of((2, 3, 4))[-1] == Thread(1, 2, 3, 23)

    def test_their_names(self) -> None:
        assert [str(thread) for thread in threads_of((2, 2, 1))] == ["thread 0", "thread 1", "thread (0, 1, 0)", "thread (1, 1, 0)"]

    def test_a_condition_as_a_set(self) -> None:
        assert holding((1, 0, 0, 1)) == 0b1001
        assert holding((0,)) == 0


class TestExecution:
    def test_both_sides_of_a_branch(self) -> None:
        routine = block_of_four("setp.lt.u32 %p1, %r0, 3;\n@%p1 bra A;\nmov.u32 %r1, 1;\nbra B;\nA: mov.u32 %r1, 2;\nB: ret;")
        known = lanes(routine)

        assert known.execution(find(routine, "%r1, 1")).sure == 0b1000
        assert known.execution(find(routine, "%r1, 2")).sure == 0b0111
        assert known.execution(find(routine, "ret")).sure == 0b1111

    def test_a_guard_narrows_a_branch(self) -> None:
        routine = block_of_four("setp.ge.u32 %p1, %r0, 2;\n@%p1 bra A;\nsetp.eq.u32 %p2, %r0, 1;\n@%p2 mov.u32 %r1, 1;\nA: ret;")

        assert list(lanes(routine).execution(find(routine, "%r1, 1"))) == [Runs.NEVER, Runs.ALWAYS, Runs.NEVER, Runs.NEVER]

    def test_a_branch_by_a_parameter_may_be_taken(self) -> None:
        routine = block_of_four("setp.eq.u32 %p1, %r9, 7;\n@%p1 bra A;\nmov.u32 %r1, 1;\nA: ret;")

        assert list(lanes(routine).execution(find(routine, "%r1, 1"))) == [Runs.MAYBE] * 4

    def test_the_first_iteration_of_a_loop_with_an_exit_by_thread(self) -> None:
        # thread 3 leaves before the store; the others leave in later iterations
        body = "A: setp.eq.u32 %p1, %r0, 3;\n@%p1 bra B;\nst.shared.u32 [%r1], %r0;\nadd.u32 %r0, %r0, 1;\nbra A;\nB: ret;"
        routine = block_of_four(body)

        assert lanes(routine).execution(find(routine, "st.shared")).sure == 0b0111

    def test_what_each_thread_holds(self) -> None:
        routine = block_of_four("mad.lo.u32 %r1, %r0, 4, 100;\nadd.u32 %r2, %r1, %r9;\nret;")
        known = lanes(routine)
        (address,), (unknown,) = values(routine).written(find(routine, "mad.lo")), values(routine).written(find(routine, "add.u32"))

        assert known.numbers(address, 0) == (100, 104, 108, 112)
        assert known.numbers(unknown, 0) is None


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("setp.lt.u32 %p1, %r9, 5;", True),
        ("mov.u32 %r1, %ctaid.x;\nsetp.eq.u32 %p1, %r1, 0;", True),
        # it may be there to keep threads out
        ("setp.lt.u32 %p1, %r0, %r9;", False),
        # the index in the whole grid against a number of elements
        ("mov.u32 %r1, %ctaid.x;\nmad.lo.u32 %r1, %r1, 4, %r0;\nsetp.lt.u32 %p1, %r1, %r9;", True),
        ("ld.shared.u32 %r1, [0];\nsetp.eq.u32 %p1, %r1, 0;", False),
    ],
)
def test_conditions_that_a_launch_decides(condition: str, expected: bool) -> None:
    routine = block_of_four(f"{condition}\n@%p1 bra A;\nA: ret;")
    guard = values(routine).guard(find(routine, "bra"))

    assert guard is not None
    assert is_free(guard) is expected
