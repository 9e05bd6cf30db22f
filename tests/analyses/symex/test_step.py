"""Steps of symbolic execution at branches."""

from __future__ import annotations

from sample import kernel

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.symex.path_condition import Choices
from ptxkit.analyses.symex.step import open_edges, outcomes, quiet_region

COMPARE = "ld.param.u32 %r1, [p]; setp.lt.u32 %p1, %r1, 8; setp.lt.u32 %p2, %r1, 4;"
BRANCH = kernel(COMPARE + "@%p1 bra a; mov.u32 %r2, 1; a: @%p2 bra b; b: ret;")
LOOP = kernel("@%p1 bra out; a: mov.u32 %r1, 1; @%p2 bra a; out: ret;")
IRREDUCIBLE = kernel("@%p1 bra b; a: mov.u32 %r1, 1; b: mov.u32 %r2, 2; @%p2 bra a; ret;")


class TestOutcomes:
    def test_a_predicate_that_is_not_decided_may_hold_or_not(self) -> None:
        found = list(outcomes(Choices(values(BRANCH).terms), values(BRANCH).guard(3)))

        assert [holds for holds, _ in found] == [True, False]
        assert [choices.says(values(BRANCH).guard(3)) for _, choices in found] == [True, False]  # type: ignore[arg-type]

    def test_one_that_contradicts_the_path_is_left_out(self) -> None:
        (_, _), (_, not_less) = outcomes(Choices(values(BRANCH).terms), values(BRANCH).guard(3))

        assert [holds for holds, _ in outcomes(not_less, values(BRANCH).guard(5))] == [False]

    def test_nothing_comes_of_what_is_not_known(self) -> None:
        assert list(outcomes(Choices(values(BRANCH).terms), None)) == []


class TestOpenEdges:
    def test_a_branch(self) -> None:
        block = control_flow(LOOP).blocks[0]

        assert [edge.target for edge in open_edges(block, True)] == [2]
        assert [edge.target for edge in open_edges(block, False)] == [1]
        assert sorted(edge.target for edge in open_edges(block, None)) == [1, 2]

    def test_straight_on_nothing_decides(self) -> None:
        block = control_flow(IRREDUCIBLE).blocks[1]

        assert [edge.target for edge in open_edges(block, False)] == [2]


class TestQuietRegion:
    def test_a_loop_without_events(self) -> None:
        assert quiet_region(LOOP, 0, ()) == (2, 0b010)

    def test_the_exit_of_a_loop_has_the_loop_between(self) -> None:
        assert quiet_region(LOOP, 1, ()) == (2, 0b010)

    def test_an_irreducible_loop(self) -> None:
        assert quiet_region(IRREDUCIBLE, 0, ()) == (2, 0b010)
        assert quiet_region(IRREDUCIBLE, 2, {1}) is None

    def test_an_event_where_the_paths_merge_is_none_between(self) -> None:
        assert quiet_region(LOOP, 0, {2}) == (2, 0b010)
        assert quiet_region(LOOP, 0, {1}) is None

    def test_paths_that_do_not_merge(self) -> None:
        assert quiet_region(kernel("@%p1 bra a; ret; a: ret;"), 0, ()) is None
