"""The loop forest."""

from __future__ import annotations

from sample import kernel

from ptxkit.analyses.cfg.loops import loops
from ptxkit.analyses.numbers.bits import bits


class TestLoops:
    def test_none(self) -> None:
        found = loops(kernel("@%p1 bra a; mov.u32 %r1, 1; a: ret;"))

        assert found.loops == ()
        assert found.innermost == (None, None, None)

    def test_block_that_is_a_loop(self) -> None:
        found = loops(kernel("mov.u32 %r1, 1; a: add.u32 %r1, %r1, 1; @%p1 bra a; ret;"))
        (loop,) = found.loops

        assert (loop.header, loop.latches, found.exits(loop), loop.depth, loop.is_reducible) == (1, (1,), ((1, 2),), 1, True)
        assert 1 in loop
        assert 2 not in loop

    def test_nested(self) -> None:
        found = loops(kernel("a: mov.u32 %r1, 1; b: add.u32 %r1, %r1, 1; @%p1 bra b; @%p2 bra a; ret;"))

        assert [(loop.header, loop.parent, loop.depth) for loop in found.loops] == [(0, None, 1), (1, 0, 2)]
        assert [list(bits(loop.blocks)) for loop in found.loops] == [[0, 1, 2], [1]]
        assert [found.depth(block) for block in range(4)] == [1, 2, 1, 0]
        assert found.headers == {0, 1}

    def test_side_by_side(self) -> None:
        found = loops(kernel("a: @%p1 bra a; b: @%p2 bra b; ret;"))

        assert [(loop.header, loop.parent) for loop in found.loops] == [(0, None), (1, None)]

    def test_irreducible(self) -> None:
        (loop,) = loops(kernel("@%p1 bra b; a: mov.u32 %r1, 1; b: mov.u32 %r2, 1; @%p2 bra a; ret;")).loops

        assert not loop.is_reducible
        assert set(loop.entries) == {1, 2}

    def test_loop_inside_an_irreducible_one(self) -> None:
        found = loops(kernel("@%p1 bra b; a: mov.u32 %r1, 1; c: @%p3 bra c; b: mov.u32 %r2, 1; @%p2 bra a; ret;"))

        assert [loop.is_reducible for loop in found.loops] == [False, True]
        assert found.loops[1].parent == 0

    def test_infinite_loop(self) -> None:
        found = loops(kernel("a: mov.u32 %r1, 1; bra a;"))

        assert found.exits(*found.loops) == ()

    def test_unreachable_loop_is_none(self) -> None:
        assert loops(kernel("ret; a: @%p1 bra a; ret;")).loops == ()

    def test_entry_block_is_a_header(self) -> None:
        (loop,) = loops(kernel("a: mov.u32 %r1, 1; @%p1 bra a; ret;")).loops

        assert loop.entries == (0,)
