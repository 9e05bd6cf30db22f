"""Uniformity: levels, sync dependence, loops, calls, points, threads and witnesses."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses import Routine, control_flow, routines, ssa
from ptxkit.analyses.registers.registers import registers
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.analyses.uniformity.uniformity import Uniformity, uniformity

HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"
REGISTERS = ".reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %d<9>; .reg .f32 %f<4>; .shared .align 8 .b64 bar; .shared .b32 flag;"


def kernel(body: str, shape: str = "", before: str = "") -> Routine:
    text = f"{HEAD}{before}\n.visible .entry k(.param .u64 p, .param .u32 n)\n{shape}\n{{ {REGISTERS}\n{body}\n}}\n"
    return next(routine for routine in routines(ptxkit.parse(text)) if routine.name == "k")


def find(routine: Routine, text: str) -> int:
    """The instruction that contains some text."""
    (found,) = [i for i, instruction in enumerate(routine.instructions) if text in instruction.body_text]
    return found


def level(routine: Routine, text: str, register: str = "") -> Level:
    """How far threads agree on what the instruction with some text writes."""
    i = find(routine, text)
    table = registers(routine).table
    numbers = [n for n in ssa(routine).definitions[i] if not register or table[ssa(routine).values[n].register].name == register]
    return uniformity(routine).level(numbers[0])


def point(routine: Routine, text: str, exits_count: bool = False) -> Level:
    return uniformity(routine).point(find(routine, text), exits_count).level


def branch(routine: Routine, text: str) -> tuple[Uniformity, int]:
    return uniformity(routine), control_flow(routine).block_of[find(routine, text)]


class TestPlaces:
    @pytest.mark.parametrize(
        ("code", "one", "square", "odd", "cube"),
        [
            ("mov.u32 %r2, %tid.x;", Level.THREAD, Level.THREAD, Level.THREAD, Level.THREAD),
            ("mov.u32 %r2, %tid.y;", Level.GRID, Level.WARP, Level.GRID, Level.THREAD),
            ("mov.u32 %r2, %tid.z;", Level.GRID, Level.GRID, Level.GRID, Level.WARP),
            ("mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5;", Level.WARP, Level.GRID, Level.WARP, Level.GRID),
            ("mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 7;", Level.WARPGROUP, Level.GRID, Level.GRID, Level.GRID),
            ("mov.u32 %r1, %tid.x; and.b32 %r2, %r1, -32;", Level.WARP, Level.GRID, Level.WARP, Level.GRID),
            ("mov.u32 %r1, %laneid; shr.u32 %r2, %r1, 5;", Level.GRID, Level.GRID, Level.GRID, Level.GRID),
            ("mov.u32 %r1, %ctaid.x; mad.lo.u32 %r2, %r1, 4, 1;", Level.CTA, Level.CTA, Level.CTA, Level.CTA),
            ("mov.u32 %r1, %clusterid.x; add.u32 %r2, %r1, 1;", Level.CLUSTER, Level.CLUSTER, Level.CLUSTER, Level.CLUSTER),
            ("mov.u32 %r2, %nctaid.x;", Level.GRID, Level.GRID, Level.GRID, Level.GRID),
            ("mov.u32 %r2, %warpid;", Level.THREAD, Level.THREAD, Level.THREAD, Level.THREAD),
            ("mov.u32 %r2, %clock;", Level.THREAD, Level.THREAD, Level.THREAD, Level.THREAD),
        ],
    )
    def test_levels_by_shape(self, code: str, one: Level, square: Level, odd: Level, cube: Level) -> None:
        shapes = {"256, 1, 1": one, "32, 32, 1": square, "33, 1, 1": odd, "16, 4, 4": cube}
        for shape, expected in shapes.items():
            routine = kernel(f"{code} add.u32 %r3, %r2, 1; st.shared.u32 [flag], %r3; ret;", f".reqntid {shape}")
            assert level(routine, "%r3, %r2") == expected, shape

    def test_without_a_size(self) -> None:
        code = "mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; st.shared.u32 [flag], %r2;"

        assert level(kernel(f"{code} ret;"), "shr") == Level.WARP
        assert "one dimension" in uniformity(kernel(f"{code} ret;")).assumption
        assert level(kernel(f"{code} mov.u32 %r3, %tid.y; ret;"), "shr") == Level.THREAD
        assert level(kernel(f"{code} ret;", ".maxntid 16, 16, 1"), "shr") == Level.THREAD
        assert level(kernel(f"{code} ret;", ".maxntid 32, 1, 1"), "shr") == Level.GRID

    def test_symbol_and_place(self) -> None:
        code = """mov.u32 %r1, %tid.x; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r4, %r3, 128, %r1; shr.u32 %r2, %r4, 5;
        st.shared.u32 [flag], %r2; ret;"""

        assert level(kernel(code, ".reqntid 128"), "shr") == Level.WARP
        assert level(kernel(code.replace(", 128,", ", 16,"), ".reqntid 128"), "shr") == Level.THREAD


class TestTransfer:
    @pytest.mark.parametrize(
        ("code", "expected"),
        [
            ("ld.param.u32 %r2, [n];", Level.GRID),
            ("mov.u32 %r2, flag;", Level.CTA),
            ("ld.param.u64 %d1, [p]; ld.global.u32 %r2, [%d1];", Level.CTA),
            ("ld.param.u64 %d1, [p]; ld.global.nc.u32 %r2, [%d1];", Level.GRID),
            ("ld.param.u64 %d1, [p]; ld.u32 %r2, [%d1];", Level.CTA),
            ("ld.param.u64 %d1, [p]; ld.global.u64 %d2, [%d1]; ld.u32 %r2, [%d2];", Level.THREAD),
            ("ld.param.u64 %d1, [p]; ld.volatile.global.u32 %r2, [%d1];", Level.THREAD),
            ("ld.param.u64 %d1, [p]; atom.global.add.u32 %r2, [%d1], 1;", Level.THREAD),
            ("ld.shared.u32 %r2, [flag];", Level.CTA),
            ("mov.u32 %r1, %tid.x; shfl.sync.idx.b32 %r2, %r1, 0, 31, -1;", Level.WARP),
            ("mov.u32 %r1, %tid.x; shfl.sync.idx.b32 %r2, %r1, 0, 0x1c1f, -1;", Level.THREAD),
            ("mov.u32 %r1, %tid.x; shfl.sync.down.b32 %r2, %r1, 1, 31, -1;", Level.THREAD),
            ("ld.param.u32 %r1, [n]; shfl.sync.down.b32 %r2, %r1, 1, 31, -1;", Level.GRID),
            ("setp.eq.u32 %p1, %r1, 0; vote.sync.ballot.b32 %r2, %p1, -1;", Level.WARP),
            ("activemask.b32 %r1; setp.eq.u32 %p1, %r1, 0; vote.sync.ballot.b32 %r2, %p1, %r1;", Level.THREAD),
            ("activemask.b32 %r2;", Level.THREAD),
            ("mov.u32 %r1, %tid.x; redux.sync.add.u32 %r2, %r1, -1;", Level.WARP),
            ("mov.u32 %r1, %tid.x; match.any.sync.b32 %r2, %r1, -1;", Level.THREAD),
            ("elect.sync %r2|%p1, -1;", Level.WARP),
            ("setp.eq.u32 %p1, %r1, 0; bar.red.popc.u32 %r2, 0, %p1;", Level.CTA),
            ("mapa.shared::cluster.u32 %r2, flag, 1;", Level.CTA),
        ],
    )
    def test_one_instruction(self, code: str, expected: Level) -> None:
        assert level(kernel(f"{code} add.u32 %r3, %r2, 1; st.shared.u32 [flag], %r3; ret;"), "%r3, %r2") == expected

    def test_guard(self) -> None:
        code = "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 3; mov.u32 %r2, 1; @%p1 mov.u32 %r2, 2; st.shared.u32 [flag], %r2; ret;"

        assert level(kernel(code), "@%p1 mov") == Level.THREAD
        assert level(kernel(code.replace("%r1, 3", "%r9, 3").replace("%tid.x", "%ntid.x").replace("%r9", "%r1")), "@%p1 mov") == Level.GRID


class TestFlow:
    DIAMOND = "mov.u32 %r1, %tid.x; setp.{} %p1, %r1, {}; mov.u32 %r2, 1; @%p1 bra L; mov.u32 %r2, 2; L: add.u32 %r3, %r2, 0; {} ret;"

    def test_sync_dependence(self) -> None:
        keep = "st.shared.u32 [flag], %r3;"

        assert level(kernel(self.DIAMOND.format("lt.u32", 3, keep), ".reqntid 256"), "%r3, %r2") == Level.THREAD
        assert level(kernel(self.DIAMOND.format("lt.u32", 64, keep), ".reqntid 256"), "%r3, %r2") == Level.WARP

    def test_same_on_both_ways(self) -> None:
        code = """mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 3; mov.u32 %r2, 1; @%p1 bra L; membar.gl;
        L: add.u32 %r3, %r2, 0; st.shared.u32 [flag], %r3; ret;"""

        assert level(kernel(code), "%r3, %r2") == Level.GRID

    LOOP = """mov.u32 %r1, %tid.x; mov.u32 %r2, 0;
    L: add.u32 %r2, %r2, 1; add.u32 %r4, %r2, 7; st.shared.u32 [flag], %r4; setp.lt.u32 %p1, %r2, %r1; @%p1 bra L;
    add.u32 %r3, %r2, 0; st.shared.u32 [flag], %r3; bar.sync 0; ret;"""

    def test_temporal_divergence(self) -> None:
        routine = kernel(self.LOOP)

        assert level(routine, "%r4, %r2") == Level.GRID
        assert level(routine, "%r3, %r2") == Level.THREAD
        assert point(routine, "%r4, %r2") == Level.THREAD
        assert point(routine, "bar.sync") == Level.GRID

    def test_value_that_meets_another_behind_the_loop(self) -> None:
        code = """mov.u32 %r1, %tid.x; mov.u32 %r2, 0; ld.param.u32 %r5, [n]; setp.eq.u32 %p3, %r5, 0; @%p3 bra M;
        L: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, %r1; @%p1 bra L;
        M: add.u32 %r3, %r2, 0; st.shared.u32 [flag], %r3; ret;"""

        assert level(kernel(code), "%r3, %r2") == Level.THREAD

    def test_some_go_round_before_they_meet(self) -> None:
        code = """mov.u32 %r1, %tid.x; mov.u32 %r2, 0; and.b32 %r3, %r1, 1; T: .branchtargets A, B;
        A: add.u32 %r2, %r2, 16; brx.idx %r3, T;
        B: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 90; mov.u32 %r3, 1; @%p1 bra A;
        ret;"""

        assert level(kernel(code), "%r2, %r2, 16") == Level.THREAD

    def test_irreducible(self) -> None:
        code = """mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, {}; mov.u32 %r2, 0; @%p1 bra B;
        A: add.u32 %r2, %r2, 1;
        B: add.u32 %r2, %r2, 2; setp.lt.u32 %p2, %r2, 20; @%p2 bra A;
        st.shared.u32 [flag], %r2; ret;"""

        assert level(kernel(code.format(5), ".reqntid 128"), "%r2, %r2, 1") == Level.THREAD
        assert level(kernel(code.format(64), ".reqntid 128"), "%r2, %r2, 1") == Level.WARP
        known, block = branch(kernel(code.format(64), ".reqntid 128"), "@%p2 bra A")
        assert known.branch(block).level == Level.WARP

    def test_indexed_branch(self) -> None:
        code = """mov.u32 %r1, %tid.x; shr.u32 %r1, %r1, {}; and.b32 %r1, %r1, 1; T: .branchtargets A, B; brx.idx %r1, T;
        A: mov.u32 %r2, 1; bra C; B: mov.u32 %r2, 2; C: st.shared.u32 [flag], %r2; add.u32 %r3, %r2, 1; st.shared.u32 [flag], %r3; ret;"""

        assert level(kernel(code.format(5), ".reqntid 128"), "%r3, %r2") == Level.WARP
        assert level(kernel(code.format(1), ".reqntid 128"), "%r3, %r2") == Level.THREAD
        assert point(kernel(code.format(5), ".reqntid 128"), "mov.u32 %r2, 2") == Level.WARP

    def test_spin_loop(self) -> None:
        routine = kernel(
            """mov.u32 %r1, 0;
            W: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra W;
            ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [flag]; bar.sync 0; ret;"""
        )

        assert point(routine, "ldmatrix") == Level.GRID
        assert point(routine, "try_wait") == Level.THREAD
        assert uniformity(routine).point(find(routine, "bar.sync")).refuted is None

    def test_lock(self) -> None:
        code = """ld.param.u64 %d1, [p];
        S: atom.global.cas.b32 %r1, [%d1], 0, 1; setp.ne.s32 %p1, %r1, 0; @%p1 bra S;
        {} ld.shared.u32 %r2, [flag]; add.u32 %r2, %r2, 1; st.shared.u32 [flag], %r2; ret;"""

        assert level(kernel(code.format("")), "ld.shared") == Level.THREAD
        assert level(kernel(code.format("bar.sync 0; bra N; N:")), "ld.shared") == Level.CTA


class TestPoints:
    GUARDED = "mov.u32 %r1, %tid.x; setp.{} %p1, %r1, {}; @%p1 bra L; bar.sync 1; membar.gl; L: bar.sync 0; ret;"

    def test_refuted_with_two_threads(self) -> None:
        verdict = uniformity(kernel(self.GUARDED.format("ge.u32", 16), ".reqntid 64")).point(4 - 1)

        found = verdict.fails(Level.WARP)
        assert verdict.level == Level.THREAD and found is not None
        assert (found.one.linear, found.other.linear, found.branch) == (0, 16, 2)
        assert not found.assumption and "`@%p1` holds for thread 16" in found.why

    def test_warps_only(self) -> None:
        verdict = uniformity(kernel(self.GUARDED.format("ge.u32", 32), ".reqntid 64")).point(3)

        assert verdict.level == Level.WARP and verdict.fails(Level.WARP) is None
        found = verdict.fails(Level.WARPGROUP)
        assert found is not None and (found.one.linear, found.other.linear) == (0, 32)

    def test_early_exit(self) -> None:
        routine = kernel("mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 20; @%p1 ret; bar.sync 0; ret;", ".reqntid 64")

        assert point(routine, "bar.sync") == Level.GRID
        verdict = uniformity(routine).point(3, exits_count=True)
        assert verdict.level == Level.THREAD and verdict.refuted is not None
        assert (verdict.refuted.one.linear, verdict.refuted.other.linear) == (0, 20)

    def test_place_in_the_grid(self) -> None:
        routine = kernel(
            """mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r4, %r2, %r3, %r1; ld.param.u32 %r5, [n];
            setp.ge.s32 %p1, %r4, %r5; @%p1 bra L; bar.sync 1; membar.gl; L: bar.sync 0; ret;"""
        )
        verdict = uniformity(routine).point(find(routine, "bar.sync 1"))

        assert verdict.fails(Level.CTA) is None
        found = verdict.refuted
        assert found is not None and found.scope <= Level.WARP and "n = 17" in found.given
        assert found.one.linear == 0 and found.other.linear == 17

    def test_threads(self) -> None:
        routine = kernel(
            """mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; setp.ne.u32 %p1, %r2, 1; @%p1 bra L;
            elect.sync %r3|%p2, -1; @!%p2 bra L; membar.gl; L: bar.sync 0; ret;""",
            ".reqntid 96",
        )
        known = uniformity(routine)
        warp, one, all_ = (known.threads(find(routine, text)) for text in ("elect", "membar", "bar.sync"))

        assert warp is not None and [thread for thread in range(96) if thread in warp] == list(range(32, 64))
        assert one is not None and one.one_per_warp and len(one) == 1
        assert all_ is not None and all_.is_all and all_.is_certain
        refuted = known.point(find(routine, "membar")).fails(Level.WARP)
        assert refuted is not None and "elected" in refuted.why

    def test_several_conditions(self) -> None:
        """One thread is left by `tid == 0 && n > 3`, whatever `n` is; and it agrees with itself."""
        code = """mov.u32 %r1, %tid.x; ld.param.u32 %r2, [n]; setp.ne.s32 %p1, %r1, 0; setp.lt.s32 %p2, %r2, 4; or.pred %p3, %p1, %p2;
        @%p3 bra E; W: mbarrier.test_wait.parity.shared.b64 %p4, [bar], 0; @!%p4 bra W; membar.gl; E: ret;"""
        known, block = branch(kernel(code), "@!%p4 bra")
        assert known.branch(block).level == Level.WARP
        assert known.threads(find(known.routine, "membar")) is None
        known, block = branch(kernel(code.replace("or.pred", "and.pred")), "@!%p4 bra")
        assert known.branch(block).level == Level.THREAD

    def test_unknown_is_neither(self) -> None:
        routine = kernel(
            """ld.param.u64 %d1, [p]; atom.global.add.u32 %r1, [%d1], 1; setp.eq.u32 %p1, %r1, 0;
            @%p1 bra L; bar.sync 0; L: membar.gl; ret;"""
        )
        verdict = uniformity(routine).point(find(routine, "bar.sync"))

        assert verdict.level == Level.THREAD and verdict.refuted is None


class TestCalls:
    CALL = """{ .param .b32 a; st.param.b32 [a], %r1; .param .b32 q; call.uni (q), f, (a); ld.param.b32 %r2, [q]; }
    add.u32 %r3, %r2, 1; st.shared.u32 [flag], %r3; ret;"""
    FUNCTION = """.func (.param .b32 r) f(.param .b32 a) { .reg .b32 %r<4>; .reg .pred %p<2>;
    ld.param.u32 %r1, [a]; add.u32 %r2, %r1, 1; %s st.param.b32 [r], %r2; ret; }"""

    def whole(self, of: str, inside: str = "", linkage: str = "") -> Routine:
        return kernel(f"mov.u32 %r1, {of}; {self.CALL}", ".reqntid 128", linkage + self.FUNCTION.replace("%s", inside))

    def test_results_follow_arguments(self) -> None:
        assert level(self.whole("%ctaid.x"), "%r3, %r2") == Level.CTA
        assert level(self.whole("%tid.x"), "%r3, %r2") == Level.THREAD
        assert level(self.whole("5", "mov.u32 %r2, %laneid;"), "%r3, %r2") == Level.THREAD

    def test_arguments_follow_callers(self) -> None:
        for linkage, of, expected in (("", "%ctaid.x", Level.CTA), ("", "%tid.x", Level.THREAD), (".visible ", "5", Level.THREAD)):
            routine = next(one for one in self.whole(of, "", linkage).siblings if one.name == "f")
            assert level(routine, "add.u32") == expected

    def test_execution_follows_callers(self) -> None:
        code = "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, {}; @%p1 call f; bar.sync 0; ret;"
        for limit, expected in ((3, Level.THREAD), (64, Level.WARP)):
            routine = kernel(code.format(limit), ".reqntid 128", ".func f() { membar.gl; ret; }")
            inner = next(one for one in routine.siblings if one.name == "f")
            assert point(inner, "membar") == expected

    def test_recursion_and_registers(self) -> None:
        function = """.func (.reg .b32 r) f(.reg .b32 a) { .reg .pred q; setp.eq.u32 q, a, 0; mov.u32 r, 1; @q bra E;
        { .reg .b32 t; sub.u32 t, a, 1; call (r), f, (t); } E: ret; }"""
        routine = kernel("mov.u32 %r1, %ctaid.x; call (%r2), f, (%r1); add.u32 %r3, %r2, 1; st.shared.u32 [flag], %r3; ret;", "", function)

        assert level(routine, "%r3, %r2") == Level.CTA

    def test_indirect(self) -> None:
        code = """mov.u64 %d1, f; t: .callprototype (.reg .b32 _) _ (); call (%r2), %d1, (), t;
        add.u32 %r3, %r2, 1; st.shared.u32 [flag], %r3; ret;"""
        routine = kernel(code, "", ".func (.reg .b32 r) f() { mov.u32 r, 1; ret; }")

        assert level(routine, "%r3, %r2") == Level.THREAD


def test_blame_finds_the_source_behind_a_loop() -> None:
    """`%r3` differs because it does, from the second iteration on; where that begins is outside."""
    routine = kernel(
        """mov.u32 %r1, %tid.x; mov.u32 %r3, 0; ld.param.u64 %d1, [p]; L: mul.wide.u32 %d2, %r3, 4; add.u64 %d3, %d1, %d2;
        ld.global.u32 %r4, [%d3]; setp.eq.u32 %p1, %r4, 0; @%p1 bra M; and.b32 %r5, %r1, %r4; add.u32 %r3, %r3, %r5;
        M: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 100; @%p2 bra L; ret;"""
    )
    known, block = branch(routine, "@%p1 bra")
    chain = known.blame(block)

    assert chain[0].why == "reads `%tid.x`"
    assert [step.register for step in chain if step.register][-2:] == ["%r4", "%p1"]


def test_blame() -> None:
    routine = kernel(
        """mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 3; mov.u32 %r2, 1; @%p1 bra L; mov.u32 %r2, 2;
        L: setp.eq.u32 %p2, %r2, 1; @%p2 bra M; membar.gl; M: ret;"""
    )
    known, block = branch(routine, "@%p2 bra M")
    steps = known.blame(block)

    assert [step.instruction for step in steps] == [0, 1, 3, 5, 5, 6]
    assert steps[0].why == "reads `%tid.x`"
    assert known.blame(control_flow(routine).block_of[find(routine, "ret")]) == ()


@pytest.mark.parametrize("text", ["", "bra L;", "L: bra L;", "foo.bar %r1, %zz;", "@%p1 bra N; ret;", "call g, (%r1);", "brx.idx %r1, T;"])
def test_any_text_has_an_answer(text: str) -> None:
    routine = kernel(text)
    known = uniformity(routine)
    for block in control_flow(routine).blocks:
        known.branch(block.index)
        known.block(block.index, True)
        known.blame(block.index)
        known.threads(block.start)
