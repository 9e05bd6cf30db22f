"""What functions know of the functions around them."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses import Routine, routines
from ptxkit.analyses.uniformity.context import Context
from ptxkit.analyses.uniformity.interprocedural import context_of, solution
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.analyses.uniformity.template import has_other_dimensions
from ptxkit.analyses.uniformity.uniformity import enters_whole

HEAD = ".version 8.5\n.target sm_90\n.address_size 64\n"
CALLED = ".func (.reg .b32 out) f(.reg .b32 in) {{ {} ret; }}\n"
KERNEL = ".entry k() {{ .reg .pred %p; .reg .b32 %r<9>; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; {} ret; }}\n"
SAME = CALLED.format("mov.u32 out, in;")


def functions(text: str) -> dict[str, Routine]:
    return {routine.name: routine for routine in routines(ptxkit.parse(HEAD + text))}


def of_f(calls: str, called: str = SAME) -> Context:
    return context_of(functions(called + KERNEL.format(calls))["f"])


class TestArguments:
    @pytest.mark.parametrize(
        ("calls", "level"),
        [
            ("call (%r3), f, (7);", Level.GRID),
            ("call (%r3), f, (%r2);", Level.CTA),
            ("call (%r3), f, (%r1);", Level.THREAD),
            # the least of two calls
            ("call (%r3), f, (7); call (%r4), f, (%r2);", Level.CTA),
            # what came back is passed on
            ("call (%r3), f, (%r2); call (%r4), f, (%r3);", Level.CTA),
        ],
    )
    def test_are_as_uniform_as_all_calls_have_them(self, calls: str, level: Level) -> None:
        found = of_f(calls)

        assert found.entry == Level.GRID
        assert found.arguments == (level,)

    def test_a_call_that_some_threads_make(self) -> None:
        found = of_f("setp.lt.u32 %p, %r1, 5; @!%p bra over; call (%r3), f, (7); over:")

        assert found.entry == Level.THREAD

    def test_a_call_that_some_blocks_make(self) -> None:
        found = of_f("setp.lt.u32 %p, %r2, 5; @!%p bra over; call (%r3), f, (7); over:")

        assert found.entry == Level.CTA

    @pytest.mark.parametrize("called", [SAME.replace(".func", ".visible .func"), SAME + SAME.replace("out) f", "out) g")])
    def test_of_what_others_call_or_nobody_does(self, called: str) -> None:
        # in the second case nothing calls f
        found = context_of(functions(called + KERNEL.format(""))["f"])

        assert (found.entry, found.arguments) == (Level.THREAD, (Level.THREAD,))

    def test_kernels_get_the_same_from_their_launch(self) -> None:
        found = context_of(functions(".entry k(.param .u64 p, .param .u32 n) { ret; }")["k"])

        assert found == Context(True, Level.GRID, (Level.GRID, Level.GRID), {})


class TestResults:
    def of_call(self, body: str) -> Level:
        """How uniform the result of `f` is where all arguments are uniform."""
        found = context_of(functions(CALLED.format(body) + KERNEL.format("call (%r3), f, (7);"))["k"])
        return found.results["f"][0]

    def test_an_argument(self) -> None:
        assert self.of_call("add.u32 out, in, 1;") == Level.GRID

    def test_the_index_of_the_thread(self) -> None:
        assert self.of_call("mov.u32 out, %tid.x;") == Level.THREAD

    def test_the_index_of_the_block(self) -> None:
        assert self.of_call("mov.u32 out, %ctaid.x;") == Level.CTA

    def test_one_of_two_by_thread(self) -> None:
        body = ".reg .pred q; .reg .b32 t; mov.u32 t, %tid.x; setp.eq.u32 q, t, 3; mov.u32 out, 1; @q bra E; mov.u32 out, 2; E:"

        assert self.of_call(body) == Level.THREAD


def test_a_ring_of_three() -> None:
    """The argument of the one that the kernel calls comes round with the index of the block."""
    text = """.func a(.reg .b32 x); .func b(.reg .b32 x);
    .func c(.reg .b32 x) { call a, (x); ret; }
    .func a(.reg .b32 x) { .reg .pred q; setp.eq.u32 q, x, 0; @q ret; call b, (x); ret; }
    .func b(.reg .b32 x) { .reg .b32 y; add.u32 y, x, 1; call c, (y); ret; }
    """ + KERNEL.format("call a, (%r2);")
    found = functions(text)

    assert [context_of(found[name]).arguments for name in "abc"] == [(Level.CTA,)] * 3
    assert [context_of(found[name]).entry for name in "abc"] == [Level.CTA] * 3
    assert [enters_whole(found[name]) for name in "kabc"] == [True, False, False, False]


def test_the_solution_of_a_context() -> None:
    routine = functions(".func f(.reg .b32 in) { .reg .pred q; setp.eq.u32 q, in, 3; @q bra E; nanosleep.u32 1; E: ret; }")["f"]
    own = Context(True, Level.GRID, (Level.THREAD,), {})
    others = Context(True, Level.GRID, (Level.WARP,), {})

    assert solution(routine, own).branches[0] == Level.THREAD
    assert solution(routine, others).branches[0] == Level.WARP
    assert solution(routine, others) is solution(routine, others)


class TestEntersWhole:
    @pytest.mark.parametrize(
        ("calls", "expected"),
        [
            ("call (%r3), f, (7);", True),
            ("setp.lt.u32 %p, %r1, 5; @!%p bra over; call (%r3), f, (7); over:", False),
            # all of one and some of another
            ("call (%r3), f, (7); setp.lt.u32 %p, %r1, 5; @!%p bra over; call (%r3), f, (7); over:", False),
            ("", False),
        ],
    )
    def test_by_its_calls(self, calls: str, expected: bool) -> None:
        found = functions(SAME + KERNEL.format(calls))

        assert enters_whole(found["k"])
        assert enters_whole(found["f"]) is expected

    def test_others_may_call_it(self) -> None:
        assert not enters_whole(functions(SAME.replace(".func", ".visible .func") + KERNEL.format("call (%r3), f, (7);"))["f"])


@pytest.mark.parametrize(
    ("directives", "body", "expected"),
    [
        ("", "mov.u32 %r1, %tid.x; mov.u32 %r2, %ntid.x;", False),
        ("", "mov.u32 %r1, %tid.y;", True),
        ("", "mov.u32 %r1, %ntid.z;", True),
        # those of the grid are none of the CTA
        ("", "mov.u32 %r1, %ctaid.y;", False),
        (".reqntid 64", "", False),
        (".maxntid 64, 1, 1", "", False),
        (".maxntid 64, 2", "", True),
        (".reqntid 8, 1, 8", "", True),
    ],
)
def test_dimensions(directives: str, body: str, expected: bool) -> None:
    (routine,) = routines(ptxkit.parse(f"{HEAD}.entry k() {directives} {{ .reg .b32 %r<9>; {body} ret; }}"))

    assert has_other_dimensions(routine) is expected
