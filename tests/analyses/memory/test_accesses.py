"""Memory accesses, and the rules that stand on them and on symbolic values."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses import all_rules, lint, routines
from ptxkit.analyses.memory.accesses import Access, accesses, accesses_by_instruction, accesses_of, locate, size_of
from ptxkit.analyses.symbolic.values import values
from ptxkit.diagnostics import Severity

KERNEL = """.version 9.0
.target sm_90a
.address_size 64
.global .align 16 .b8 table[256];
.extern .shared .align 16 .b8 dynamic[];
.visible .entry k(.param .u32 n, .param .u64 .ptr .global .align 16 p, .param .u64 q, .param .align 4 .b8 pair[8]){}
{{
.reg .pred %p<16>;
.reg .b16 %rs<16>;
.reg .b32 %r<64>;
.reg .b64 %rd<32>;
.shared .align 16 .b8 s[1024];
.local .align 8 .b8 l[64];
{}
ret;
}}
"""

RULES = ("S001", "S002", "S005", "S007", "R006", "R007")


def accesses_in(body: str, directives: str = "") -> tuple[Access, ...]:
    (routine,) = routines(ptxkit.parse(KERNEL.format(directives, body)))
    return accesses(routine)


def found(body: str, directives: str = "") -> list[tuple[str, Severity, str]]:
    """What the rules argue: without an execution it is a warning at most."""
    return _linted(body, directives, run=False)


def shown(body: str, directives: str = "") -> list[tuple[str, Severity, str]]:
    """What an execution shows, as well."""
    return _linted(body, directives, run=True)


def _linted(body: str, directives: str, *, run: bool) -> list[tuple[str, Severity, str]]:
    rules = [rule for rule in all_rules() if rule.id in RULES]
    return [(d.rule, d.severity, d.message) for d in lint(ptxkit.parse(KERNEL.format(directives, body)), rules, run=run)]


class TestAccesses:
    def test_by_instruction(self) -> None:
        (routine,) = routines(ptxkit.parse(KERNEL.format("", "st.shared.u32 [%r1], %r2; add.u32 %r1, %r1, 4; ld.shared.u32 %r3, [%r1];")))
        assert [[access.writes for access in accesses_of(routine, i)] for i in range(3)] == [[True], [], [False]]
        assert {i: len(own) for i, own in accesses_by_instruction(routine).items()} == {0: 1, 2: 1}

    def test_space_size_and_address(self) -> None:
        (load,) = accesses_in("mov.u32 %r1, s; ld.shared.v4.u32 {%r2, %r3, %r4, %r5}, [%r1+16];")
        assert (load.space, load.bytes, load.align, load.reads, load.writes) == (".shared", 16, 16, True, False)
        assert str(load.address) == "s + 16"

    def test_a_generic_address_tells_its_space(self) -> None:
        (shared,) = accesses_in("mov.u64 %rd1, s; cvta.shared.u64 %rd1, %rd1; ld.u32 %r1, [%rd1];")
        _, given, _, unknown = accesses_in("ld.param.u64 %rd2, [p]; st.u32 [%rd2], %r1; ld.param.u64 %rd3, [q]; st.u32 [%rd3], %r1;")
        assert (shared.declared, shared.space) == ("", ".shared")
        assert (given.space, given.writes) == (".global", True)
        assert unknown.space == ""

    def test_copies(self) -> None:
        both = accesses_in("mov.u32 %r1, s; ld.param.u64 %rd1, [p]; cp.async.cg.shared.global [%r1], [%rd1], 16;")[1:]
        assert {(a.space, a.bytes, a.memory.is_async, a.writes) for a in both} == {
            (".shared", 16, True, True),
            (".global", 16, True, False),
        }

    def test_atomic(self) -> None:
        (atom,) = accesses_in("mov.u32 %r1, s; atom.shared.add.u32 %r2, [%r1], 1;")
        assert (atom.reads, atom.writes, atom.bytes) == (True, True, 4)

    def test_place_in_a_variable(self) -> None:
        (routine,) = routines(
            ptxkit.parse(KERNEL.format("", "mov.u32 %r1, %tid.x; mov.u32 %r2, s; mad.lo.u32 %r3, %r1, 8, %r2; st.shared.u32 [%r3+4], %r1;"))
        )
        (store,) = accesses(routine)
        assert store.address is not None
        where = locate(values(routine), store.address)
        assert where.symbol is not None and size_of(where.symbol) == 1024
        assert str(where.offset) == "8*%tid.x + 4"


class TestMisaligned:
    def test_for_every_thread(self) -> None:
        body = "ld.shared.v2.u64 {%rd1, %rd2}, [s+8];"
        assert found(body)[0][:2] == ("S001", Severity.WARNING)
        assert shown(body)[0][:2] == ("S001", Severity.ERROR)

    def test_for_one_thread(self) -> None:
        body = "mov.u32 %r1, %tid.x; mov.u32 %r2, s; mad.lo.u32 %r3, %r1, 4, %r2; ld.shared.u64 %rd1, [%r3];"
        assert found(body, " .reqntid 32") == [
            ("S001", Severity.WARNING, "the address must be a multiple of 8; for thread 1 it is 4 bytes past one")
        ]
        assert [one[:2] for one in shown(body, " .reqntid 32")] == [("S001", Severity.ERROR)]

    def test_not_without_knowing_the_threads(self) -> None:
        assert found("mov.u32 %r1, %tid.x; mov.u32 %r2, s; mad.lo.u32 %r3, %r1, 4, %r2; ld.shared.u64 %rd1, [%r3];") == []

    def test_not_for_a_thread_that_is_kept_out(self) -> None:
        body = """mov.u32 %r1, %tid.x; and.b32 %r4, %r1, 1; setp.eq.u32 %p1, %r4, 0; mov.u32 %r2, s; mad.lo.u32 %r3, %r1, 4, %r2;
            @%p1 ld.shared.u64 %rd1, [%r3];"""
        assert found(body, " .reqntid 32") == []

    def test_pointer_of_unknown_alignment(self) -> None:
        assert found("ld.param.u64 %rd1, [q]; ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1+4];") == []


class TestOutOfBounds:
    def test_constant(self) -> None:
        assert found("ld.local.u32 %r1, [l+64];") == [("S002", Severity.WARNING, "this accesses bytes 64 to 67 of `l`, which has only 64")]

    def test_before_the_start(self) -> None:
        assert found("mov.u32 %r1, s; ld.shared.u32 %r2, [%r1-4];")[0][0] == "S002"

    def test_last_thread(self) -> None:
        body = "mov.u32 %r1, %tid.x; mov.u32 %r2, s; mad.lo.u32 %r3, %r1, 4, %r2; st.shared.u32 [%r3], %r1;"
        beyond = "thread 256 accesses bytes 1024 to 1027 of `s`, which has only 1024"
        assert found(body, " .reqntid 257") == [("S002", Severity.WARNING, beyond)]
        assert [one[:2] for one in shown(body, " .reqntid 257")] == [("S002", Severity.ERROR)]
        assert shown(body, " .reqntid 256") == []

    def test_a_thread_that_a_parameter_may_keep_out_is_not_reported(self) -> None:
        body = """ld.param.u32 %r9, [n]; mov.u32 %r1, %tid.x; mov.u32 %r2, s; mad.lo.u32 %r3, %r1, 4, %r2; setp.lt.u32 %p1, %r1, %r9;
            @%p1 st.shared.u32 [%r3], %r1;"""
        assert found(body, " .reqntid 512") == []

    def test_a_tail_of_the_grid_is_for_information_until_it_is_shown(self) -> None:
        body = """ld.param.u32 %r9, [n]; mov.u32 %r1, %tid.x; mov.u32 %r7, %ctaid.x; mad.lo.u32 %r8, %r7, 512, %r1; mov.u32 %r2, s;
            mad.lo.u32 %r3, %r1, 4, %r2; setp.lt.u32 %p1, %r8, %r9; @%p1 st.shared.u32 [%r3], %r1;"""
        assert [f[:2] for f in found(body, " .reqntid 512")] == [("S002", Severity.INFO)]
        assert [f[:2] for f in shown(body, " .reqntid 512")] == [("S002", Severity.ERROR)]

    def test_what_a_parameter_leads_to_is_for_information_until_it_is_shown(self) -> None:
        body = "ld.param.u32 %r9, [n]; setp.lt.u32 %p1, %r9, 1; @%p1 bra L; mov.u32 %r2, s; st.shared.u32 [%r2+1024], %r9; L:"
        assert [f[:2] for f in found(body)] == [("S002", Severity.INFO)]
        assert [f[:2] for f in shown(body)] == [("S002", Severity.ERROR)]

    def test_memory_of_unknown_size(self) -> None:
        assert found("mov.u32 %r1, dynamic; st.shared.u32 [%r1+99996], %r2;") == []

    def test_behind_what_was_loaded(self) -> None:
        body = "ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [%rd1]; setp.lt.u32 %p1, %r1, 4; @%p1 ld.local.u32 %r2, [l+64];"
        assert found(body) == []

    def test_in_the_first_iteration_of_a_loop(self) -> None:
        body = """mov.u32 %r1, {}; mov.u32 %r2, s; L: mad.lo.u32 %r3, %r1, 4, %r2; st.shared.u32 [%r3], %r1; shr.u32 %r1, %r1, 1;
            setp.ne.u32 %p1, %r1, 0; @%p1 bra L;"""
        assert [f[:2] for f in found(body.replace("{}", "256"))] == [("S002", Severity.WARNING)]
        assert [f[:2] for f in shown(body.replace("{}", "256"), " .reqntid 32")] == [("S002", Severity.ERROR)]
        assert found(body.replace("{}", "255")) == []


class TestSpaces:
    def test_shared_address_used_as_generic(self) -> None:
        assert found("mov.u64 %rd1, s; ld.u32 %r1, [%rd1];")[0][0] == "S005"

    def test_shared_address_converted_to_shared(self) -> None:
        assert found("mov.u64 %rd1, s; cvta.to.shared.u64 %rd2, %rd1; ld.shared.u32 %r1, [%rd2];")[0][0] == "S005"

    def test_other_space(self) -> None:
        assert found("mov.u32 %r1, s; ld.local.u32 %r2, [%r1];")[0][0] == "S005"

    @pytest.mark.parametrize(
        "body",
        [
            "multimem.ld_reduce.relaxed.sys.global.add.u32 %r1, [%rd1]; ld.global.u32 %r2, [%rd1];",
            "@%p1 st.u32 [%rd1], %r2; multimem.red.relaxed.sys.global.add.u64 [%rd1+-4], %rd2;",
        ],
    )
    def test_multimem_address_used_by_an_ordinary_instruction(self, body: str) -> None:
        assert [one[0] for one in found("ld.param.u64 %rd1, [q];" + body)] == ["S005"]

    @pytest.mark.parametrize(
        "body",
        [
            "multimem.red.relaxed.sys.global.add.u32 [%rd1], 1; ld.global.u32 %r2, [%rd2];",
            "multimem.red.relaxed.sys.global.add.u32 [%rd1], 1; ld.global.u32 %r2, [%rd1+4];",
            "@%p1 multimem.red.relaxed.sys.global.add.u32 [%rd1], 1; @!%p1 red.global.add.u32 [%rd1], 1;",
            "@%p1 bra A; multimem.red.relaxed.sys.global.add.u32 [%rd1], 1; ret; A: red.global.add.u32 [%rd1], 1;",
        ],
    )
    def test_multimem_address_beside_an_ordinary_one(self, body: str) -> None:
        assert found("ld.param.u64 %rd1, [q]; ld.param.u64 %rd2, [p];" + body) == []

    @pytest.mark.parametrize(
        "body",
        [
            "mov.u64 %rd1, s; cvta.shared.u64 %rd1, %rd1; cvta.to.shared.u64 %rd1, %rd1; cvt.u32.u64 %r1, %rd1; ld.shared.u32 %r2, [%r1];",
            "mov.u64 %rd1, table; cvta.global.u64 %rd1, %rd1; ld.u32 %r2, [%rd1];",
            "mov.u64 %rd1, table; ld.u32 %r2, [%rd1];",
            "mov.u32 %r1, s; mapa.shared::cluster.u32 %r2, %r1, 1; ld.shared::cluster.u32 %r3, [%r2];",
            "mov.u64 %rd1, pair; cvta.param.u64 %rd2, %rd1; ld.u32 %r2, [%rd2];",
        ],
    )
    def test_right(self, body: str) -> None:
        assert found(body) == []


class TestParameters:
    def test_half_a_pointer(self) -> None:
        body = (
            "ld.param.u32 %r1, [q]; cvt.u64.u32 %rd1, %r1; mov.u32 %r2, %tid.x; mad.wide.u32 %rd2, %r2, 4, %rd1; ld.global.u32 %r3, [%rd2];"
        )
        assert found(body)[0][0] == "R006"

    def test_both_halves(self) -> None:
        assert found("ld.param.u32 %r1, [q]; ld.param.u32 %r2, [q+4]; mov.b64 %rd1, {%r1, %r2}; ld.global.u32 %r3, [%rd1];") == []

    def test_behind_the_end(self) -> None:
        beyond = "this reads bytes 8 to 11 of the parameter `pair`, which has only 8"
        assert found("ld.param.u32 %r1, [pair+8];") == [("R006", Severity.WARNING, beyond)]
        assert [one[:2] for one in shown("ld.param.u32 %r1, [pair+8];")] == [("R006", Severity.ERROR)]
        assert found("ld.param.v2.u32 {%r1, %r2}, [pair];") == []


class TestIndex:
    LIST = "list: .branchtargets A, B; brx.idx %r1, list; A: B:"

    def test_constant(self) -> None:
        assert found(f"mov.u32 %r1, 2; {self.LIST}")[0][0] == "R007"

    def test_tested_before(self) -> None:
        assert found(f"ld.param.u32 %r2, [n]; and.b32 %r1, %r2, 7; setp.gt.u32 %p1, %r1, 1; @%p1 ret; {self.LIST}") == []
