"""Barriers of a CTA and of a cluster, as instructions use them."""

from __future__ import annotations

from sample import kernel

from ptxkit.analyses import Routine
from ptxkit.analyses.events.barriers import barriers, child_of, term_of
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.isa.binding import Bound


def cta(body: str) -> list[tuple[int, str, int | None, int | None]]:
    """By instruction: arrives, waits, reduces; number and count."""
    found = []
    for use in barriers(kernel(body)).cta:
        does = "".join(letter for letter, holds in (("a", use.arrives), ("w", use.waits), ("r", use.reduces)) if holds)
        found.append((use.instruction, does, use.number, use.threads))
    return found


class TestOfTheBlock:
    def test_all_threads_at_barrier_0(self) -> None:
        assert cta("bar.sync 0;\nret;") == [(0, "aw", 0, None)]

    def test_a_number_and_a_count(self) -> None:
        assert cta("barrier.cta.arrive 3, 96;\nbarrier.cta.sync 3, 96;\nret;") == [(0, "a", 3, 96), (1, "aw", 3, 96)]

    def test_a_reduction(self) -> None:
        assert cta("bar.red.popc.u32 %r1, 2, %p1;\nret;") == [(0, "awr", 2, None)]

    def test_a_number_that_is_computed(self) -> None:
        assert cta("mov.u32 %r1, 4;\nadd.u32 %r2, %r1, 3;\nbar.sync %r2;\nmov.u32 %r3, %ctaid.x;\nbar.sync %r3;\nret;") == [
            (2, "aw", 7, None),
            (4, "aw", None, None),
        ]

    def test_a_register_that_counts(self) -> None:
        (use,) = barriers(kernel("mov.u32 %r1, %ntid.x;\nbar.sync 1, %r1;\nret;")).cta

        assert use.is_counted
        assert str(use.count) == "%ntid.x"
        assert use.threads is None

    def test_where_control_does_not_come(self) -> None:
        assert cta("ret;\nbar.sync 0;\nret;") == []

    def test_what_is_none(self) -> None:
        assert cta("bar.warp.sync -1;\nmbarrier.init.shared.b64 [%r1], 1;\nret;") == []


def test_of_the_cluster() -> None:
    found = barriers(kernel("barrier.cluster.arrive;\nbarrier.cluster.wait;\nbar.sync 0;\nret;"))

    assert [(use.instruction, use.arrives, use.waits, use.id) for use in found.cluster] == [(0, True, False, None), (1, False, True, None)]
    assert [use.instruction for use in found.cta] == [2]


class TestOperands:
    def of(self, text: str) -> tuple[Routine, Bound]:
        routine = kernel(text)
        bound = bindings(routine)[0]
        assert isinstance(bound, Bound)
        return routine, bound

    def test_an_operand_is_a_child_after_guard_and_opcode(self) -> None:
        for text in ("bar.sync 3, 64;", "@%p1 bar.sync 3, 64;", "@!%p1 bar.sync 3, 64;"):
            routine, bound = self.of(text)
            count = bound.threads
            assert count is not None
            assert routine.instructions[0].children[child_of(routine, 0, count)].text.strip() == "64"

    def test_what_it_holds(self) -> None:
        routine, bound = self.of("bar.sync 3, 64;")
        term = term_of(routine, 0, bound.threads)

        assert term is not None
        assert term.constant == 64
        assert term_of(routine, 0, bound.operand("nothing")) is None
