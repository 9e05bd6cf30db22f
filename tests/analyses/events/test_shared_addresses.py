"""Addresses of mbarriers and in descriptors, with what was done to them taken off."""

from __future__ import annotations

import pytest
from sample import kernel

from ptxkit.analyses import Routine
from ptxkit.analyses.events.descriptors import is_shared_variable, start, warp_value
from ptxkit.analyses.events.mbarriers import guarded, in_its_cta, may_be_same, mbarrier_operand, other_rank, reads_remote, where
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.memory.address import Address
from ptxkit.analyses.numbers.intervals import Interval, just
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import values
from ptxkit.isa.binding import Bound

BEFORE = ".shared .align 128 .b8 tile[4096]; .shared .align 8 .b64 full[8]; .global .b32 table[4];"


def made(body: str) -> tuple[Routine, Term]:
    """What the last instruction before the return writes."""
    routine = kernel(f"{body}\nret;", BEFORE)
    return routine, values(routine).written(len(routine.instructions) - 2)[0]


class TestDescriptors:
    def test_what_one_lane_has_handed_out(self) -> None:
        routine, term = made("mov.u32 %r1, %tid.x;\nadd.u32 %r2, %r1, 8;\nshfl.sync.idx.b32 %r3, %r2, 0, 31, -1;\nshl.b32 %r4, %r3, 2;")

        assert str(warp_value(routine, term)) == "4*%tid.x + 32"

    def test_twice(self) -> None:
        body = "mov.u32 %r1, %tid.x;\nshfl.sync.idx.b32 %r2, %r1, 0, 31, -1;\nadd.u32 %r3, %r2, 1;\nshfl.sync.idx.b32 %r4, %r3, 0, 31, -1;"
        routine, term = made(body)

        assert str(warp_value(routine, term)) == "%tid.x + 1"

    def test_nothing_was_handed_out(self) -> None:
        routine, term = made("mov.u32 %r1, %tid.x;\nshl.b32 %r4, %r1, 2;")

        assert warp_value(routine, term) is term

    @pytest.mark.parametrize(
        ("body", "expected"), [("mov.u32 %r1, tile;", True), ("mov.u64 %d1, table;", False), ("mov.u32 %r1, %tid.x;", False)]
    )
    def test_shared_variables(self, body: str, expected: bool) -> None:
        routine, term = made(body)

        assert is_shared_variable(values(routine), term) is expected

    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            # units of 16 bytes, and a field above them
            ("shr.u32 %r2, %r1, 4;\nand.b32 %r2, %r2, 16383;\nor.b32 %r3, %r2, 1073741824;", 0),
            # then two units on
            ("shr.u32 %r2, %r1, 4;\nand.b32 %r2, %r2, 16383;\nadd.u32 %r3, %r2, 2;", 32),
            # before it was cut to units
            ("add.u32 %r2, %r1, 256;\nshr.u32 %r2, %r2, 4;\nand.b32 %r3, %r2, 16383;", 256),
            ("mov.u32 %r3, %tid.x;", None),
        ],
    )
    def test_the_start_of_a_matrix(self, body: str, expected: int | None) -> None:
        routine, term = made(f"mov.u32 %r1, tile;\n{body}")
        known = values(routine)
        found = start(known.terms, term, lambda atom: is_shared_variable(known, atom))

        if expected is None:
            assert found is None
            return
        assert found is not None
        offset, ((base, factor),) = found.linear
        assert (offset, factor, is_shared_variable(known, base)) == (expected, 1, True)


class TestMbarriers:
    def bound(self, text: str) -> tuple[Routine, Bound]:
        routine = kernel(f"{text}\nret;", BEFORE)
        found = bindings(routine)[0]
        assert isinstance(found, Bound)
        return routine, found

    @pytest.mark.parametrize(
        ("text", "index"),
        [
            ("mbarrier.init.shared.b64 [%r1], 1;", 0),
            ("mbarrier.arrive.shared.b64 %d1, [%r1];", 1),
            ("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d1], 256, [%r2];", 3),
        ],
    )
    def test_the_operand_that_is_the_address(self, text: str, index: int) -> None:
        operand = mbarrier_operand(self.bound(text)[1])

        assert operand is not None
        assert operand.path[0] == index

    @pytest.mark.parametrize("text", ["bar.sync 0;", "ld.shared.u32 %r1, [%r2];"])
    def test_there_is_none(self, text: str) -> None:
        assert mbarrier_operand(self.bound(text)[1]) is None

    def test_an_address_under_the_guard_that_chose_it(self) -> None:
        body = "mov.u32 %r1, full;\nadd.u32 %r2, %r1, 8;\nselp.b32 %r3, %r1, %r2, %p1;\n{} mbarrier.arrive.shared.b64 %d1, [%r3];\nret;"
        found = []
        for guard in ("@%p1", "@!%p1", "@%p2", ""):
            routine = kernel(body.format(guard), BEFORE)
            first, second, chosen = (values(routine).written(i)[0] for i in range(3))
            found.append({first: 1, second: 2, chosen: 3}[guarded(routine, 3, chosen)])

        assert found == [1, 2, 3, 3]

    def test_the_same_location_in_another_block(self) -> None:
        routine, term = made("mov.u32 %r1, full;\nmov.u32 %r2, %tid.x;\nmapa.shared::cluster.u32 %r3, %r1, %r2;\nadd.u32 %r4, %r3, 8;")
        known = values(routine)
        (own,) = known.written(0)

        assert in_its_cta(known.terms, term) is known.terms.add(own, known.terms.constant(8, 32))

    def test_the_bits_of_the_block_masked_out(self) -> None:
        # bit 24 says which CTA of a pair it is
        routine, term = made("mov.u32 %r1, full;\nand.b32 %r2, %r1, -16777217;")
        (own,) = values(routine).written(0)

        assert in_its_cta(values(routine).terms, term) is own

    def test_the_rank_that_an_address_was_mapped_to(self) -> None:
        routine, term = made("mov.u32 %r1, full;\nmov.u32 %r2, %tid.x;\nmapa.shared::cluster.u32 %r3, %r1, %r2;")
        rank = other_rank(term)

        assert str(rank) == "%tid.x"
        assert other_rank(values(routine).written(0)[0]) is None

    def test_its_own_rank_is_no_other(self) -> None:
        _, term = made("mov.u32 %r1, full;\nmov.u32 %r2, %cluster_ctarank;\nmapa.shared::cluster.u32 %r3, %r1, %r2;")

        assert other_rank(term) is None

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("ld.shared::cluster.u32 %r4, [%r3];", True),
            ("st.shared::cluster.u32 [%r3], %r4;", True),
            ("ld.shared.u32 %r4, [%r1];", False),
            # an operation on a barrier has rules of its own
            ("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r3];", False),
        ],
    )
    def test_memory_of_another_block(self, text: str, expected: bool) -> None:
        body = f"mov.u32 %r1, full;\nmov.u32 %r2, %tid.x;\nmapa.shared::cluster.u32 %r3, %r1, %r2;\n{text}\nret;"

        assert reads_remote(kernel(body, BEFORE), 3) is expected


class TestWhere:
    def of(self, body: str, last: str = "mbarrier.init.shared.b64 [%r3], 1;") -> Address | None:
        routine = kernel(f"mov.u32 %r1, full;\n{body}\n{last}\nret;", BEFORE)
        return where(routine, len(routine.instructions) - 2, 0)

    @pytest.mark.parametrize(
        ("body", "offset"),
        [
            ("add.u32 %r3, %r1, 16;", just(16)),
            # one of four stages, by the index of the thread
            ("mov.u32 %r2, %tid.x;\nand.b32 %r2, %r2, 3;\nshl.b32 %r2, %r2, 3;\nadd.u32 %r3, %r1, %r2;", Interval(0, 24)),
            # one of two that a branch chose
            ("mov.u32 %r3, %r1;\n@%p1 bra A;\nadd.u32 %r3, %r1, 40;\nA:", Interval(0, 40)),
            ("add.u32 %r2, %r1, 8;\nselp.b32 %r3, %r1, %r2, %p1;", Interval(0, 8)),
            # of which the guard says which
            ("add.u32 %r2, %r1, 8;\nselp.b32 %r3, %r1, %r2, %p1;\n@%p1", just(0)),
            # in another block of the cluster, at the same offset
            ("mapa.shared::cluster.u32 %r3, %r1, %r9;\nadd.u32 %r3, %r3, 8;", just(8)),
        ],
    )
    def test_in_a_variable(self, body: str, offset: Interval) -> None:
        found = self.of(body)

        assert found is not None
        assert found.root.name == "full"
        assert found.offset == offset

    def test_from_what_is_not_known(self) -> None:
        found = self.of("ld.shared.u32 %r2, [tile];\nadd.u32 %r3, %r2, 8;")

        assert found is not None
        assert isinstance(found.root, Term)
        assert found.offset == just(8)

    def test_one_of_two_variables(self) -> None:
        assert self.of("mov.u32 %r3, %r1;\n@%p1 bra A;\nmov.u32 %r3, tile;\nA:") is None

    def test_mbarriers_have_eight_bytes(self) -> None:
        first = self.of("mov.u32 %r3, %r1;")
        assert first is not None

        stages = [Address(first.root, just(8 * stage)) for stage in range(3)]
        assert [[may_be_same(one, other) for other in stages] for one in stages] == [
            [True, False, False],
            [False, True, False],
            [False, False, True],
        ]
        assert may_be_same(stages[1], Address(first.root, Interval(0, 16)))
