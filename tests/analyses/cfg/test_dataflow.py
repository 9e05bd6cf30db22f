"""The engine."""

from __future__ import annotations

from sample import kernel

from ptxkit.analyses.cfg.dataflow import fixpoint, solve, union
from ptxkit.analyses.cfg.graph import control_flow

LOOP = control_flow(kernel("mov.u32 %r1, 1; a: add.u32 %r1, %r1, 1; @%p1 bra a; ret;"))


class TestSolve:
    def test_forward_collects_the_blocks_before(self) -> None:
        found = solve(LOOP, lambda block, before: before | 1 << block, union, lambda block: None, 0)

        assert found.before == (0b000, 0b011, 0b011)
        assert found.after == (0b001, 0b011, 0b111)

    def test_backward_collects_the_blocks_after(self) -> None:
        found = solve(LOOP, lambda block, after: after | 1 << block, union, lambda block: None, 0, backward=True)

        assert found.before == (0b111, 0b110, 0b100)
        assert found.after == (0b110, 0b110, 0b000)

    def test_boundary_comes_in_where_it_is_given(self) -> None:
        found = solve(LOOP, lambda block, before: before, union, lambda block: 8 if block == 0 else None, 0)

        assert found.after == (8, 8, 8)

    def test_any_lattice(self) -> None:
        """The shortest way from the entry, in blocks: a lattice of numbers under min."""
        far = 1000
        found = solve(LOOP, lambda block, before: before + 1, min, lambda block: 0 if block == 0 else None, far)

        assert found.before == (0, 1, 2)

    def test_unreachable_blocks_are_solved_too(self) -> None:
        flow = control_flow(kernel("bra a; mov.u32 %r1, 1; a: ret;"))

        assert solve(flow, lambda block, before: before | 1 << block, union, lambda block: None, 0).after == (1, 2, 7)


class TestFixpoint:
    def test_users_are_updated_again_and_nobody_else(self) -> None:
        """Distances from a node, in a ring of three: each is looked at once more after the one before it has changed."""
        distance = {"a": 0, "b": 9, "c": 9}
        updates: list[str] = []
        before, after = {"a": "c", "b": "a", "c": "b"}, {"a": ["b"], "b": ["c"], "c": ["a"]}

        def update(node: str) -> bool:
            updates.append(node)
            old = distance[node]
            distance[node] = min(old, distance[before[node]] + 1)
            return distance[node] != old

        fixpoint(["c", "b", "a"], update, after.__getitem__)

        assert distance == {"a": 0, "b": 1, "c": 2}
        assert updates == ["c", "b", "a", "c", "a"]

    def test_nothing_to_do(self) -> None:
        updates: list[str] = []
        fixpoint([], lambda node: bool(updates.append(node)), lambda node: [node])

        assert updates == []


def test_the_union_of_sets() -> None:
    assert union([]) == 0
    assert union([0b001, 0b100, 0b101]) == 0b101
