"""Which launch of a kernel is valid."""

from __future__ import annotations

import pytest
from exercising import HEADER, INDEX, REGISTERS, SHARED, counted, exercised, is_of_the_kernel

import ptxkit
from ptxkit.analyses.dynamic.exercise import exercise
from ptxkit.analyses.execution.loading import loaded
from ptxkit.analyses.framework.routine import routines


def test_a_block_that_leaves_an_array_is_no_launch() -> None:
    done = exercised(SHARED)

    assert done.example is not None
    assert done.example.block == (16, 1, 1)
    assert not done.found


@pytest.mark.parametrize(("asks", "leaves"), [("", False), ("setp.eq.u32 %p1, %r1, 31; @%p1 bra END;", True)])
def test_a_block_of_less_than_a_warp_if_an_array_has_as_few_elements(asks: str, leaves: bool) -> None:
    two = SHARED.replace("s[64]", "s[8]")
    done = exercised(f"mov.u32 %r1, %tid.x; {asks} {two} bar.warp.sync 0xffffffff; END:")

    assert done.example is not None
    assert (done.example.block == (2, 1, 1)) == (not leaves)
    assert bool(done.found) == leaves


def test_a_block_that_the_kernel_specifies_leaves_the_array() -> None:
    done = exercised(SHARED, directives=".reqntid 64")

    assert [one.finding.diagnostic.name for one in done.found] == ["out-of-bounds-access"]


def test_dynamic_shared_memory_of_another_kernel_is_none() -> None:
    other = ".visible .entry other() { .reg .b32 %r<2>; ld.shared.u32 %r1, [dynamic]; ret; }"
    text = (
        f"{HEADER}.extern .shared .align 16 .b8 dynamic[];\n.visible .entry k(.param .u64 p)\n{{\n{REGISTERS}{SHARED}\nret;\n}}\n{other}\n"
    )
    module = ptxkit.parse(text)
    done = exercise(routines(module)[0], loaded(module))

    assert done.example is not None
    assert not done.example.shared
    assert done.example.block == (16, 1, 1)


HALF = """.local .b64 base; .shared .align 4 .b8 s[1024]; mov.u64 %rd4, s; cvta.shared.u64 %rd4, %rd4; mov.u64 %rd5, base;
st.local.u64 [%rd5], %rd4; ld.local.u64 %rd6, [%rd5]; add.s64 %rd7, %rd6, %rd2; st.u32 [%rd7], %r1; {barrier}
setp.ge.u32 %p1, %r1, 128; @%p1 bra END; ld.u32 %r4, [%rd7+512]; st.global.u32 [%rd3], %r4; END:"""


@pytest.mark.parametrize(("barrier", "is_racy"), [("bar.sync 0;", False), ("", True)])
def test_a_block_has_the_threads_that_write_what_is_read(barrier: str, is_racy: bool) -> None:
    # neither the number of threads nor an array that is indexed by them is known: the address is kept in local memory
    done = exercised(INDEX + HALF.format(barrier=barrier))

    assert done.example is not None
    assert done.example.block == (256, 1, 1)
    assert bool([one for one in done.found if not one.doubt]) == is_racy


def test_an_array_is_left_with_as_many_threads_as_specified() -> None:
    # with fewer threads it reads what nobody has written
    body = """.shared .align 4 .b8 s[512]; shl.b32 %r3, %r1, 2; mov.u32 %r2, s; add.u32 %r2, %r2, %r3; st.shared.u32 [%r2], %r1; bar.sync 0;
    ld.shared.u32 %r4, [%r2+4]; st.global.u32 [%rd3], %r4;"""
    done = exercised(f"{INDEX} {body}", directives=".maxntid 128")

    assert [one.finding.diagnostic.rule for one in done.found] == ["S002"]


LAST = """.shared .align 4 .b8 s[256]; shl.b32 %r3, %r1, 2; mov.u32 %r2, s; add.u32 %r2, %r2, %r3; st.shared.u32 [%r2], %r1;
setp.ne.u32 %p1, %r1, 63; @%p1 bra NEXT; st.shared.u32 [%r2+{past}], %r1; NEXT: bar.sync 0; ld.shared.u32 %r4, [%r2];
st.global.u32 [%rd3], %r4;"""


@pytest.mark.parametrize(("past", "rules"), [(4, ["S002"]), (-4, [])])
def test_a_thread_that_is_singled_out_leaves_an_array_in_each_block_that_has_it(past: int, rules: list[str]) -> None:
    done = exercised(INDEX + LAST.format(past=past))

    assert done.example is not None
    assert done.example.block == (64, 1, 1)
    assert [one.finding.diagnostic.rule for one in done.found if not one.doubt and one.finding.diagnostic.rule == "S002"] == rules


def test_an_address_outside_of_all_arrays_is_not_tried_with_every_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    launches = counted(monkeypatch)
    module = ptxkit.parse(f"{HEADER}.visible .entry k(.param .u64 p)\n{{\n{REGISTERS}{INDEX}st.global.u32 [64], %r1;\nret;\n}}\n")

    assert exercise(routines(module)[0], loaded(module)).example is None
    assert len(launches) == 4


WAITS = """.shared .align 8 .b64 bar; .shared .align 8 .b64 other; mov.u32 %r1, %tid.x; mov.u32 %r2, bar; mov.u32 %r3, other;
setp.ne.u32 %p1, %r1, 0; @%p1 bra READY;
mbarrier.init.shared::cta.b64 [%r2], 1;
mbarrier.init.shared::cta.b64 [%r3], 1;
READY: bar.sync 0; setp.eq.u32 %p1, %r1, 64; @%p1 bra OTHER; setp.ne.u32 %p1, %r1, 0; @%p1 bra END;
ONE: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra ONE;
bra END;
OTHER: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra OTHER;
mbarrier.arrive.shared::cta.b64 _, [%r3];
END:"""


def test_a_block_without_threads_that_the_kernel_distinguishes_refutes_nothing() -> None:
    # thread 64 waits for what nobody arrives at, and thread 0 for thread 64
    header = HEADER.replace("sm_80", "sm_90")
    module = ptxkit.parse(f"{header}.visible .entry k(.param .u64 p)\n{{\n{REGISTERS}{WAITS}\nret;\n}}\n")
    done = exercise(routines(module)[0], loaded(module))

    assert [one.finding.diagnostic.rule for one in done.found] == ["M009"]
    assert done.example is not None
    assert done.example.block[0] > 64


def test_the_specified_block_is_the_one_that_fails() -> None:
    # with 128 threads, or with fewer, nobody comes to what the barrier awaits
    done = exercised(f"{INDEX} bar.sync 1, 256; st.global.u32 [%rd3], %r1;", directives=".maxntid 128")

    assert [one.finding.diagnostic.rule for one in done.found] == ["B003"]
    assert done.example is not None
    assert done.example.block == (128, 1, 1)


@pytest.mark.parametrize(("offset", "rules"), [(0, set()), (4096, {"S002"})])
def test_each_block_leaves_another_array(offset: int, rules: set[str]) -> None:
    # made for 24 x 8 threads, which nothing says: wider blocks leave `s`, higher ones `t`, smaller ones do not write the last word
    body = f""".shared .align 4 .b8 s[768]; .shared .align 4 .b8 t[768]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y;
mad.lo.u32 %r5, %r2, 24, %r1; shl.b32 %r5, %r5, 2; mov.u32 %r6, t; add.u32 %r6, %r6, %r5; st.shared.u32 [%r6+{offset}], %r2;
mad.lo.u32 %r3, %r1, 8, %r2; shl.b32 %r3, %r3, 2; mov.u32 %r4, s; add.u32 %r4, %r4, %r3; st.shared.u32 [%r4], %r1;
bar.sync 0; ld.shared.u32 %r7, [t+764];
ld.param.u64 %rd1, [p]; cvt.u64.u32 %rd2, %r5; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r7;"""
    done = exercised(body, directives=".maxntid 256")

    assert {one.finding.diagnostic.rule for one in done.found if is_of_the_kernel(one)} == rules


def test_less_than_a_warp_is_no_block_if_many_threads_are_specified() -> None:
    # with one thread it would stay within the array
    body = f".shared .align 4 .b8 s[4]; {INDEX} mov.u32 %r2, s; shl.b32 %r3, %r1, 2; add.u32 %r2, %r2, %r3; st.shared.u32 [%r2], %r1;"
    done = exercised(f"{body} bar.sync 0; ld.shared.u32 %r4, [%r2]; st.global.u32 [%rd3], %r4;", directives=".maxntid 128")

    assert [one.finding.diagnostic.rule for one in done.found] == ["S002"]
    assert done.example is not None
    assert done.example.block == (128, 1, 1)


def test_one_warp_is_no_block_if_it_reads_what_other_warps_write() -> None:
    body = """.shared .align 4 .b8 s[512]; ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, s;
    add.u32 %r2, %r2, %r3; st.shared.u32 [%r2], %r1; setp.ne.s32 %p1, %r1, 0; @%p1 bra END; mov.u32 %r4, 0; mov.u32 %r5, 0;
    L: ld.shared.u32 %r6, [%r3]; add.u32 %r4, %r4, %r6; add.u32 %r3, %r3, 4; add.u32 %r5, %r5, 1; setp.ne.s32 %p2, %r5, 128; @%p2 bra L;
    st.global.u32 [%rd1], %r4; END:"""
    done = exercised(body)

    assert done.example is not None and done.example.block == (128, 1, 1)
    assert [(one.finding.diagnostic.rule, one.doubt) for one in done.found] == [("S003", "")]


def test_a_block_is_as_wide_as_the_parts_of_ctas_say() -> None:
    # threads are numbered in one row, but parts of CTAs are as long as the block along each dimension
    body = """ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %ntid.x; mad.lo.u32 %r4, %r2, %r3, %r1;
    mov.u32 %r5, %ntid.y; mov.u32 %r6, %ctaid.y; mul.lo.u32 %r7, %r6, %r5; mov.u32 %r8, %ctaid.x; mul.lo.u32 %r9, %r8, %r3;
    shl.b32 %r7, %r7, 6; mad.lo.u32 %r9, %r9, 512, %r7; mad.lo.u32 %r9, %r4, 4, %r9; mul.wide.u32 %rd2, %r9, 4; add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r10, [%rd3]; add.u32 %r10, %r10, %r8; st.global.u32 [%rd3], %r10;"""
    done = exercised(body, directives=".maxntid 256, 1, 1")

    assert done.example is not None and done.example.block == (16, 16, 1)
    assert not done.found
