"""Dominators, post-dominators, frontiers, control dependence."""

from __future__ import annotations

import random

import networkx as nx
from sample import kernel

from ptxkit.analyses.cfg.dominators import components, depth_first, dominator_tree, dominators, quiet
from ptxkit.analyses.numbers.bits import bits

DIAMOND = "@%p1 bra a; mov.u32 %r1, 1; bra b; a: mov.u32 %r1, 2; b: ret;"


class TestDominators:
    def test_diamond(self) -> None:
        found = dominators(kernel(DIAMOND))

        assert found.tree.parent == (0, 0, 0, 0)
        assert found.tree.dominates(0, 3)
        assert not found.tree.dominates(1, 3)
        assert found.post.parent[:4] == (3, 3, 3, 4)
        assert [list(bits(mask)) for mask in found.tree.frontiers] == [[], [3], [3], []]
        assert [found.depends_on(block) for block in range(4)] == [(), (0,), (0,), ()]

    def test_function_without_instructions(self) -> None:
        assert dominators(kernel("")).tree.parent == ()

    def test_unreachable_block_has_no_dominator(self) -> None:
        tree = dominators(kernel("bra a; mov.u32 %r1, 1; a: ret;")).tree

        assert tree.parent == (0, -1, 0)
        assert 1 not in tree
        assert not tree.dominates(0, 1)

    def test_infinite_loop_has_an_end(self) -> None:
        found = dominators(kernel("@%p1 bra out; a: mov.u32 %r1, 1; @%p2 bra c; mov.u32 %r2, 1; c: bra a; out: ret;"))

        assert all(parent >= 0 for parent in found.post.parent)
        assert found.post.dominates(4, 1) is False

    def test_loop_depends_on_itself(self) -> None:
        assert dominators(kernel("mov.u32 %r1, 1; a: @%p1 bra a; ret;")).depends_on(1) == (1,)

    def test_early_exit_is_cut_for_threads_that_stay(self) -> None:
        early = "@%p1 bra out; st.global.u32 [%d1], %r1; bar.sync 0; out: ret;"
        found = dominators(kernel(early))

        assert found.depends_on(1) == (0,)
        assert found.depends_on(1, staying=True) == ()

    def test_guarded_return_is_cut_for_threads_that_stay(self) -> None:
        found = dominators(kernel("@%p1 ret; bar.sync 0; ret;"))

        assert found.depends_on(1) == (0,)
        assert found.depends_on(1, staying=True) == ()

    def test_a_way_out_on_which_something_happens_is_not_cut(self) -> None:
        found = dominators(kernel("@%p1 bra out; bar.sync 0; out: st.global.u32 [%d1], %r1; ret;"))

        assert found.depends_on(1, staying=True) == (0,)

    def test_a_trap_is_cut_whatever_happens_before_it(self) -> None:
        found = dominators(kernel("@%p1 bra bad; bar.sync 0; ret; bad: st.global.u32 [%d1], %r1; trap;"))

        assert found.depends_on(1, staying=True) == ()

    def test_the_exit_of_a_loop_over_elements_is_no_branch_around_its_barrier(self) -> None:
        """The loop ends only with the kernel; a branch in its first block rejoins before the barrier."""
        loop = "@%p1 bra out; a: @%p2 bra b; st.global.u32 [%d1], %r1; b: bar.sync 0; @%p3 bra a; out: ret;"
        found = dominators(kernel(loop))

        assert found.depends_on(3) == (0, 3)
        assert found.depends_on(3, staying=True) == (3,)

    def test_random_graphs_against_networkx(self) -> None:
        draw = random.Random(3)
        for _ in range(200):
            count = draw.randrange(1, 30)
            graph = nx.gnp_random_graph(count, draw.choice((0.05, 0.1, 0.2)), seed=draw.randrange(10**6), directed=True)
            tree = dominator_tree(count, 0, lambda n, g=graph: list(g.successors(n)), lambda n, g=graph: list(g.predecessors(n)))  # type: ignore[misc]
            theirs = {**nx.immediate_dominators(graph, 0), 0: 0}
            frontiers = nx.dominance_frontiers(graph, 0)

            assert {n: p for n, p in enumerate(tree.parent) if p >= 0} == theirs
            assert all(set(bits(tree.frontiers[n])) == set(frontiers.get(n, ())) for n in theirs)
            assert all(tree.dominates(a, b) == _is_above(theirs, a, b) for a in theirs for b in theirs)

    def test_a_long_ladder_of_nested_loops(self) -> None:
        count = 3000
        body = "".join(f"a{i}: add.u32 %r1, %r1, 1;\n" for i in range(count)) + "".join(f"@%p1 bra a{i};\n" for i in reversed(range(count)))
        tree = dominators(kernel(body + "ret;")).tree

        assert tree.frontiers[count - 1] >> (count - 1) & 1


def _is_above(parents: dict[int, int], a: int, b: int) -> bool:
    while b != a and parents[b] != b:
        b = parents[b]
    return a == b


class TestDecide:
    def test_nested_branches_the_nearest_first(self) -> None:
        routine = kernel("@%p1 bra out; @%p2 bra out; mov.u32 %r1, 1; out: ret;")

        assert list(dominators(routine).post.decide(2)) == [1, 0]

    def test_an_irreducible_loop(self) -> None:
        routine = kernel("@%p1 bra b; a: mov.u32 %r1, 1; b: mov.u32 %r2, 2; @%p2 bra a; ret;")

        assert list(dominators(routine).post.decide(1)) == [0, 2]
        assert list(dominators(routine).post.decide(3)) == []


def test_a_tour_enters_and_leaves_each_block() -> None:
    tree = dominators(kernel("@%p1 bra a; mov.u32 %r1, 1; @%p2 bra b; b: bra c; a: mov.u32 %r1, 2; c: ret;")).tree
    tour = list(tree.tour())

    assert tour[0] == (0, False)
    assert tour[-1] == (0, True)
    assert sorted(tour) == [(block, is_left) for block in range(5) for is_left in (False, True)]
    # a block is entered and left while those that dominate it are entered and not yet left
    assert all(
        tour.index((above, False)) < tour.index((block, False)) < tour.index((block, True)) < tour.index((above, True))
        for block, above in enumerate(tree.parent)
        if block
    )


class TestQuiet:
    def test_what_is_stored_can_be_noticed(self) -> None:
        assert quiet(kernel("@%p1 bra out; st.global.u32 [%d1], %r1; out: mov.u32 %r1, 1; ret;")) == (False, False, True)

    def test_a_loop_may_never_end(self) -> None:
        assert quiet(kernel("a: mov.u32 %r1, 1; @%p1 bra a; ret;")) == (False, True)

    def test_a_trap_is_quiet_no_matter_what_comes_before_it(self) -> None:
        assert quiet(kernel("@%p1 bra out; st.global.u32 [%d1], %r1; trap; out: st.global.u32 [%d1], %r1; ret;")) == (False, True, False)


class TestComponents:
    def test_the_exit_of_a_loop_over_elements_is_no_branch_around_its_barrier(self) -> None:
        """The loop ends only with the kernel; a branch in its first block rejoins before the barrier."""
        loop = "@%p1 bra out; a: @%p2 bra b; st.global.u32 [%d1], %r1; b: bar.sync 0; @%p3 bra a; out: ret;"
        found = dominators(kernel(loop))

        assert found.depends_on(3) == (0, 3)
        assert found.depends_on(3, staying=True) == (3,)

    def test_random_graphs_against_networkx(self) -> None:
        draw = random.Random(5)
        for _ in range(100):
            graph = nx.gnp_random_graph(draw.randrange(1, 25), 0.1, seed=draw.randrange(10**6), directed=True)
            found = components(list(graph), lambda n, g=graph: list(g.successors(n)))  # type: ignore[misc]

            assert sorted(map(sorted, found)) == sorted(map(sorted, nx.strongly_connected_components(graph)))


class TestDepthFirst:
    """Numbers by node, nodes by number, and the numbers of parents."""

    def test_a_diamond(self) -> None:
        # the join is found by the left side
        assert depth_first(4, 0, [(1, 2), (3,), (3,), ()].__getitem__) == ([0, 1, 3, 2], [0, 1, 3, 2], [0, 0, 1, 0])

    def test_an_irreducible_loop(self) -> None:
        assert depth_first(3, 0, [(1, 2), (2,), (1,)].__getitem__) == ([0, 1, 2], [0, 1, 2], [0, 0, 1])

    def test_what_the_root_does_not_lead_to(self) -> None:
        assert depth_first(4, 2, [(1,), (), (1,), (2,)].__getitem__) == ([-1, 1, 0, -1], [2, 1], [0, 0])
