"""Threads that diverge: the pair that shows it, the chain of causes, and the threads of an example launch."""

from __future__ import annotations

import pytest
from sample import HEAD, REGISTERS

import ptxkit
from ptxkit.analyses import Routine, control_flow, loops, routines
from ptxkit.analyses.launch.inputs import arguments
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.threads.thread_sets import Runs
from ptxkit.analyses.uniformity.divergence_causes import blame
from ptxkit.analyses.uniformity.example_runs import Choice, worlds
from ptxkit.analyses.uniformity.interprocedural import context_of, solution
from ptxkit.analyses.uniformity.levels import Divergence, Level
from ptxkit.analyses.uniformity.propagation import Propagation
from ptxkit.analyses.uniformity.reaching_threads import Reach
from ptxkit.analyses.uniformity.witness import block_witness, guard_witness


def kernel(body: str, threads: int = 256) -> Routine:
    start = f"{REGISTERS}\nmov.u32 %r0, %tid.x;\nld.param.u32 %r9, [n];"
    text = f"{HEAD}.visible .entry k(.param .u32 n)\n.reqntid {threads}\n{{\n{start}\n{body}\n}}\n"
    return routines(ptxkit.parse(text))[0]


def find(routine: Routine, text: str) -> int:
    (found,) = [i for i, instruction in enumerate(routine.instructions) if text in instruction.body_text]
    return found


def solved(routine: Routine) -> Propagation:
    return solution(routine, context_of(routine))


class TestGuard:
    def of(self, condition: str, threads: int = 256) -> Divergence | None:
        routine = kernel(f"{condition}\n@%p1 mov.u32 %r7, 1;\nret;", threads)
        known = solved(routine)
        return guard_witness(known, Reach(known), find(routine, "%r7, 1"))

    @pytest.mark.parametrize(
        ("condition", "scope", "one", "other"),
        [
            ("setp.eq.u32 %p1, %r0, 5;", Level.WARP, 5, 0),
            ("setp.ne.u32 %p1, %r0, 0;", Level.WARP, 1, 0),
            # the first warp, of two in a warpgroup
            ("setp.lt.u32 %p1, %r0, 32;", Level.WARPGROUP, 0, 32),
            ("setp.ge.u32 %p1, %r0, 128;", Level.CTA, 128, 0),
            # of the third warp a half
            ("setp.ge.u32 %p1, %r0, 80;", Level.WARP, 80, 64),
        ],
    )
    def test_the_smallest_group_that_has_both(self, condition: str, scope: Level, one: int, other: int) -> None:
        found = self.of(condition)

        assert found is not None
        assert (found.scope, found.one.linear, found.other.linear, found.given) == (scope, one, other, "")

    def test_a_parameter_that_is_chosen(self) -> None:
        found = self.of("mov.u32 %r1, %ctaid.x;\nmad.lo.u32 %r1, %r1, 256, %r0;\nsetp.lt.u32 %p1, %r1, %r9;")

        assert found is not None
        assert (found.one.linear, found.other.linear) == (0, 17)
        assert set(found.given.split(", ")) == {"n = 17", "%ctaid.x = 0"}

    def test_one_lane_is_elected(self) -> None:
        found = self.of("elect.sync %r1|%p1, -1;")

        assert found is not None
        assert (found.scope, found.one.linear, found.other.linear) == (Level.WARP, 0, 1)

    @pytest.mark.parametrize(
        "condition",
        [
            "setp.lt.u32 %p1, %r0, 256;",
            "setp.eq.u32 %p1, %r9, 5;",
            # n may be what the CTA is as large as
            "setp.lt.u32 %p1, %r0, %r9;",
            "ld.shared.u32 %r1, [0];\nsetp.eq.u32 %p1, %r1, 0;",
        ],
    )
    def test_there_is_none(self, condition: str) -> None:
        assert self.of(condition) is None


class TestReach:
    def of(self, body: str) -> int:
        """The threads, of 64, that may ever reach the instruction that writes `%r7`."""
        routine = kernel(body, 64)
        return Reach(solved(routine)).instruction(find(routine, "%r7, 1")).ever

    @pytest.mark.parametrize(("guard", "threads"), [("@!%p1", 0xFFFF), ("@%p1", (1 << 64) - (1 << 16))])
    def test_a_flag_that_some_threads_set_on_their_way(self, guard: str, threads: int) -> None:
        flag = "mov.pred %p1, 0;\nsetp.ge.u32 %p2, %r0, 16;\n@%p2 bra A;\nmov.pred %p1, 1;"

        assert self.of(f"{flag}\nA: {guard} bra B;\nmov.u32 %r7, 1;\nB: ret;") == threads

    def test_a_flag_that_is_unknown_where_it_is_set(self) -> None:
        flag = "mov.pred %p1, 0;\nsetp.ge.u32 %p2, %r0, 16;\n@%p2 bra A;\nsetp.eq.u32 %p1, %r9, 1;"

        assert self.of(f"{flag}\nA: @!%p1 bra B;\nmov.u32 %r7, 1;\nB: ret;") == 0xFFFF

    def test_a_flag_that_is_set_in_the_iteration_before(self) -> None:
        head = "mov.pred %p1, 0;\nmov.u32 %r1, 0;\nL: @!%p1 bra A;\nmov.u32 %r7, 1;\nA: setp.lt.u32 %p1, %r0, 16;"

        assert self.of(f"{head}\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p2, %r1, %r9;\n@%p2 bra L;\nret;") == (1 << 64) - 1


class TestBlock:
    def of(self, body: str, where: str, exits_count: bool = False) -> tuple[int, int] | None:
        """The thread that comes to an instruction and the one that does not."""
        routine = kernel(body, 64)
        known = solved(routine)
        reach = Reach(known)
        block = control_flow(routine).block_of[find(routine, where)]
        found = block_witness(known, reach, block, exits_count, lambda i: guard_witness(known, reach, i))
        return None if found is None else (found.one.linear, found.other.linear)

    def test_both_sides_of_a_branch(self) -> None:
        body = "setp.lt.u32 %p1, %r0, 16;\n@%p1 bra A;\nmov.u32 %r1, 1;\nbra B;\nA: mov.u32 %r1, 2;\nB: ret;"

        assert self.of(body, "%r1, 1") == (16, 0)
        assert self.of(body, "%r1, 2") == (0, 16)
        assert self.of(body, "ret") is None

    def test_a_branch_within_a_branch(self) -> None:
        body = "setp.ge.u32 %p1, %r0, 16;\n@%p1 bra A;\nsetp.eq.u32 %p2, %r9, 1;\n@%p2 bra A;\nmov.u32 %r1, 1;\nA: ret;"

        assert self.of(body, "ret") is None

    def test_threads_that_have_ended(self) -> None:
        body = "setp.ge.u32 %p1, %r0, 40;\n@%p1 exit;\nst.shared.u32 [0], %r0;\nret;"

        assert self.of(body, "st.shared") is None
        assert self.of(body, "st.shared", exits_count=True) == (32, 40)


class TestBlame:
    def test_a_chain_from_the_index_of_the_thread(self) -> None:
        routine = kernel("and.b32 %r2, %r0, 1;\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra A;\nmov.u32 %r1, 1;\nA: ret;")

        assert [(step.instruction, step.register) for step in blame(solved(routine), 0)] == [(0, "%r0"), (2, "%r2"), (3, "%p1"), (4, "")]

    def test_what_is_loaded(self) -> None:
        routine = kernel("ld.local.u32 %r2, [0];\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra A;\nmov.u32 %r1, 1;\nA: ret;")

        assert [(step.instruction, step.register) for step in blame(solved(routine), 0)] == [(2, "%r2"), (3, "%p1"), (4, "")]

    def test_a_diverging_loop_exit(self) -> None:
        """Threads leave with different counts, though the count is uniform within the loop."""
        routine = kernel(
            "mov.u32 %r2, 0;\nL: add.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, %r0;\n@%p1 bra L;\n"
            "setp.eq.u32 %p2, %r2, 7;\n@%p2 bra A;\nmov.u32 %r1, 1;\nA: ret;"
        )
        known = solved(routine)
        chain = blame(known, control_flow(routine).block_of[find(routine, "bra A")])

        assert (chain[0].instruction, chain[0].register) == (0, "%r0")
        assert find(routine, "bra L") in [step.instruction for step in chain]
        assert chain[-1].instruction == find(routine, "bra A")

    def test_a_diverging_loop_exit_decides_at_once(self) -> None:
        routine = kernel(
            "mov.u32 %r2, 0;\nL: add.u32 %r2, %r2, 1;\nsetp.eq.u32 %p2, %r2, 7;\nsetp.lt.u32 %p1, %r2, %r0;\n@%p1 bra L;\n"
            "@%p2 bra A;\nmov.u32 %r1, 1;\nA: ret;"
        )
        chain = blame(solved(routine), control_flow(routine).block_of[find(routine, "bra A")])

        assert [step.register for step in chain] == ["%r0", "%p1", "", "%p2", ""]
        assert chain[2].instruction == find(routine, "bra L")

    def test_nobody_diverges(self) -> None:
        routine = kernel("setp.eq.u32 %p1, %r9, 0;\n@%p1 bra A;\nmov.u32 %r1, 1;\nA: ret;")

        assert blame(solved(routine), 0) == ()


class TestWorlds:
    def test_who_executes_what_for_an_argument(self) -> None:
        routine = kernel("setp.lt.u32 %p1, %r0, %r9;\n@%p1 mov.u32 %r7, 1;\nret;", 64)
        known = worlds(routine)
        i = find(routine, "%r7, 1")

        assert known.of(Choice(number=17)).execution(i).sure == (1 << 17) - 1
        assert known.of(Choice(number=100)).execution(i).sure == (1 << 64) - 1
        assert known.of(Choice(number=0)).execution(i).most is Runs.NEVER

    def test_a_loop_in_a_later_iteration(self) -> None:
        routine = kernel("L: add.u32 %r1, %r0, 0;\nadd.u32 %r0, %r0, 32;\nsetp.lt.u32 %p1, %r0, 128;\n@%p1 bra L;\nret;", 4)
        (loop,) = loops(routine).loops
        at = find(routine, "%r1, %r0, 0")
        (term,) = values(routine).written(at)
        block = control_flow(routine).block_of[at]

        found = [worlds(routine).iteration(Choice(), loop, number).numbers(term, block) for number in range(3)]
        assert found == [(0, 1, 2, 3), (32, 33, 34, 35), (64, 65, 66, 67)]

    def test_where_paths_merge(self) -> None:
        routine = kernel("mov.u32 %r1, 10;\nsetp.lt.u32 %p1, %r0, 2;\n@%p1 bra A;\nmov.u32 %r1, 20;\nA: mov.u32 %r2, %r1;\nret;", 4)
        at = find(routine, "%r2, %r1")
        (term,) = values(routine).written(at)

        assert worlds(routine).of(Choice()).numbers(term, control_flow(routine).block_of[at]) == (10, 10, 20, 20)

    def test_each_is_made_once(self) -> None:
        known = worlds(kernel("ret;"))

        assert known.of(Choice()) is known.of(Choice())
        assert [world.choice.number for world in known.all(Level.WARP)] == list(arguments())
