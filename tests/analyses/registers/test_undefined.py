"""R001: what is read before it is written, and what only looks so."""

from __future__ import annotations

import pytest
from sample import kernel

from ptxkit.analyses.framework.rule import Facts, all_rules
from ptxkit.analyses.registers.registers import registers
from ptxkit.analyses.registers.undefined import undefined_reads

RULE = next(rule for rule in all_rules() if rule.id == "R001")

FINE = {
    "written and read under one guard": "@%p1 mov.u32 %r1, 1; @%p1 st.global.u32 [%d1], %r1;",
    "written under a guard and its opposite": "@%p1 mov.u32 %r1, 1; @!%p1 mov.u32 %r1, 2; st.global.u32 [%d1], %r1;",
    "branches on one predicate": "@!%p1 bra A; mov.u32 %r1, 1; A: bar.sync 0; @!%p1 bra B; st.global.u32 [%d1], %r1; B:",
    "branches on different predicates": "@!%p1 bra A; mov.u32 %r1, 1; A: bar.sync 0; @!%p2 bra B; st.global.u32 [%d1], %r1; B:",
    "guard and branch": "@%p1 mov.u32 %r1, 1; @!%p1 bra B; st.global.u32 [%d1], %r1; B:",
    "only copied": "mov.u32 %r1, %r2; mov.b64 %d2, {%r3, %r2};",
    "packed with another number": "cvt.rn.f16x2.f32 %r3, %r2, %r5; st.global.u16 [%d1], %r3;",
    "handed to lanes that do not use it": "shfl.sync.down.b32 %r3, %r2, 1, 31, -1; mov.b64 %d2, {%r3, %r3};",
    "handed round in a loop": "A: shfl.sync.bfly.b32 %r2, %r2, 1, 31, -1; add.u32 %r2, %r2, 1; @%p1 bra A;",
    "padding of a vector": "st.global.v2.u32 [%d1], {%r5, %r2};",
    "written in the only trip of a loop": "A: mov.u32 %r1, 1; @%p1 bra A; st.global.u32 [%d1], %r1;",
    "unreachable": "ret; st.global.u32 [%d1], %r1;",
    "unknown instruction": "frob %r1; st.global.u32 [%d1], %r1;",
    "undeclared": "st.global.u32 [%d1], %undeclared;",
}

ALWAYS = {
    "read": "st.global.u32 [%d1], %r1; ret;",
    "guard": "@%p5 bra A; A: ret;",
    "address": "ld.global.u32 %r5, [%d3];",
    "handed to lanes that store it": "shfl.sync.down.b32 %r3, %r2, 1, 31, -1; add.u32 %r4, %r3, 1; st.global.u32 [%d1], %r4;",
    "carry": "addc.u32 %r6, %r5, %r5;",
    "element of a fragment": (
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d8, %d9}, {%d4}, {%d1}, {%d1, %d1}; st.global.u64 [%d1], %d8;"
    ),
    "read under a guard": "@%p1 st.global.u32 [%d1], %r1;",
    "in both branches": "@%p1 bra A; add.u32 %r6, %r1, 1; ret; A: add.u32 %r6, %r1, 2; ret;",
}

SOMETIMES = {
    "a branch goes round it": "@%p1 bra A; mov.u32 %r1, 1; A: add.u32 %r6, %r1, 1;",
    "a loop that may not run": "@%p1 bra B; A: mov.u32 %r1, 1; @%p2 bra A; B: add.u32 %r6, %r1, 1;",
    "not set before a loop": "A: add.u32 %r1, %r1, 1; @%p1 bra A;",
    "written under a guard only": "@%p1 mov.u32 %r1, 1; add.u32 %r6, %r1, 1;",
    "written under a guard, read under the opposite": "@%p1 mov.u32 %r1, 1; @!%p1 add.u32 %r6, %r1, 1;",
    "one case of many": "ts: .branchtargets A, B; brx.idx %r5, ts; A: mov.u32 %r1, 1; bra C; B: bar.sync 0; C: add.u32 %r6, %r1, 1;",
}

SET = "setp.eq.u32 %p1, 1, 1; setp.eq.u32 %p2, 1, 1; mov.u64 %d1, 0; mov.u32 %r5, 0;"


def found(body: str) -> list[tuple[str, bool]]:
    routine = kernel(f"{SET} {body} ret;")
    return [(registers(routine).table[read.register].name, read.always) for read in undefined_reads(routine)]


class TestUndefined:
    @pytest.mark.parametrize("what", FINE)
    def test_fine(self, what: str) -> None:
        assert found(FINE[what]) == []

    @pytest.mark.parametrize("what", ALWAYS)
    def test_always(self, what: str) -> None:
        assert [always for _, always in found(ALWAYS[what])] == [True]

    @pytest.mark.parametrize("what", SOMETIMES)
    def test_sometimes(self, what: str) -> None:
        assert found(SOMETIMES[what]) == [("%r1", False)]

    @pytest.mark.parametrize("use", ["@%p3 bra B; add.u32 %r6, %r5, 1; B:", "@!%p3 mov.u32 %r6, 1;", "setp.ne.or.u32 %p4, %r5, 1, %p3;"])
    def test_a_guard_is_read_whether_it_holds_or_not(self, use: str) -> None:
        assert found(f"@%p1 bra A; setp.eq.u32 %p3, %r5, 1; A: {use}") == [("%p3", False)]
        assert found(f"setp.eq.u32 %p3, %r5, 1; A: {use}") == []

    def test_a_guard_is_read_after_a_guarded_write_of_it(self) -> None:
        assert found("@%p1 setp.eq.u32 %p3, %r5, 1; @%p3 mov.u32 %r6, 1;") == [("%p3", False)]
        assert found("@%p1 setp.eq.u32 %p3, %r5, 1; @!%p1 bra A; @%p3 mov.u32 %r6, 1; A:") == []

    def test_not_set_before_a_loop_is_an_error_where_nothing_sets_it(self) -> None:
        assert found("A: add.u32 %r6, %r1, 1; @%p1 bra A;") == [("%r1", True)]

    def test_accumulators_of_a_matrix_product_may_start_unset(self) -> None:
        body = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0,%f1,%f2,%f3}, %d1, %d1, %p1, 1, 1, 0, 0;"

        assert found(".reg .f32 %f<4>; " + body) == []

    @pytest.mark.parametrize("write", ["ld.global.u32 %r1, [%d1];", "ld.global.u32 %r3, [%d1]; mad.lo.u32 %r1, %r3, %r5, 4;"])
    def test_left_out_load_is_for_information(self, write: str) -> None:
        routine = kernel(f"{SET} @%p1 bra A; {write} A: add.u32 %r6, %r1, 1; st.global.u32 [%d1], %r6; ret;")
        (diagnostic,) = RULE.check(Facts(routine.module))

        assert diagnostic.severity.value == "info"
        assert diagnostic.related

    def test_a_load_that_is_not_left_out_excuses_nothing(self) -> None:
        routine = kernel(
            f"{SET} ld.global.u32 %r3, [%d1]; @%p1 bra A; add.u32 %r1, %r3, 1; A: add.u32 %r6, %r1, 1; st.global.u32 [%d1], %r6; ret;"
        )
        (diagnostic,) = RULE.check(Facts(routine.module))

        assert diagnostic.severity.value == "warning"

    @pytest.mark.parametrize("use", ["selp.u32 %r6, 7, %r6, %p2; st.global.u32 [%d1], %r6;", "@%p2 st.global.u32 [%d1], %r6;", ""])
    def test_what_may_be_thrown_away_is_for_information(self, use: str) -> None:
        routine = kernel(f"{SET} @%p1 bra A; mov.u32 %r1, 1; A: add.u32 %r6, %r1, 1; {use} ret;")
        (diagnostic,) = RULE.check(Facts(routine.module))

        assert diagnostic.severity.value == "info"

    @pytest.mark.parametrize(
        ("sets", "severity"),
        [
            ("ld.global.u32 %r3, [%d1]; setp.gt.s32 %p1, %r3, 0;", "info"),
            ("mov.u32 %r3, %tid.x; setp.gt.s32 %p1, %r3, 7;", "warning"),
        ],
    )
    def test_way_by_contents_of_memory_is_for_information(self, sets: str, severity: str) -> None:
        routine = kernel(f"{SET} {sets} @%p1 bra A; mov.u32 %r1, 1; A: add.u32 %r6, %r1, 1; st.global.u32 [%d1], %r6; ret;")
        (diagnostic,) = RULE.check(Facts(routine.module))

        assert diagnostic.severity.value == severity

    @pytest.mark.parametrize(("before", "severity"), [("setp.gt.s32 %p2, %r3, 7;", "info"), ("setp.gt.s32 %p2, %r3, 9;", "warning")])
    def test_way_that_an_earlier_branch_excludes_is_for_information(self, before: str, severity: str) -> None:
        sets = f"mov.u32 %r3, %tid.x; {before} @%p2 bra END; setp.eq.s32 %p1, %r3, 8;"
        routine = kernel(f"{SET} {sets} @%p1 bra A; mov.u32 %r1, 1; A: add.u32 %r6, %r1, 1; st.global.u32 [%d1], %r6; END: ret;")
        (diagnostic,) = RULE.check(Facts(routine.module))

        assert diagnostic.severity.value == severity

    def test_sum_of_what_is_loaded_that_nothing_sets_is_a_warning(self) -> None:
        routine = kernel(f"{SET} A: ld.global.u32 %r3, [%d1]; add.u32 %r1, %r1, %r3; @%p1 bra A; st.global.u32 [%d1], %r1; ret;")
        (diagnostic,) = RULE.check(Facts(routine.module))

        assert diagnostic.severity.value == "warning"

    def test_message_of_a_way_names_the_branch(self) -> None:
        routine = kernel(f"{SET} @%p1 bra A; mov.u32 %r1, 1; A: add.u32 %r6, %r1, 1; st.global.u32 [%d1], %r6; ret;")
        (diagnostic,) = RULE.check(Facts(routine.module))

        assert diagnostic.severity.value == "warning"
        assert [related.message.split(",")[0] for related in diagnostic.related] == ["if this branch is taken", "`%r1` is written here"]

    def test_registers_of_one_place_are_told_together(self) -> None:
        routine = kernel(f"{SET} @%p1 bra A; mov.u32 %r1, 1; mov.u32 %r2, 1; A: add.u32 %r6, %r1, %r2; st.global.u32 [%d1], %r6; ret;")
        (diagnostic,) = RULE.check(Facts(routine.module))

        assert "%r2" in diagnostic.notes[0]
