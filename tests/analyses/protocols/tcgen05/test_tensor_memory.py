"""Tensor memory: what is left out as a custom, what is left out once, and runs that nobody comes to the end of."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses import lint
from ptxkit.analyses.framework.rule import Facts, select
from ptxkit.diagnostics import Diagnostic, Severity

HEAD = """.version 9.0
.target sm_100a
.address_size 64
.entry k(.param .u64 out)
.reqntid 128
{
.reg .pred %p<9>; .reg .b32 %r<16>; .reg .b64 %rd<4>;
.shared .align 8 .b64 full[4];
.shared .align 8 .b64 empty[4];
.shared .align 8 .b64 turn;
ld.param.u64 %rd3, [out];
mov.u32 %r10, %tid.x;
setp.ne.u32 %p2, %r10, 0;
"""


def wait(address: str, number: int, parity: int = 0) -> str:
    return f"W{number}: mbarrier.try_wait.parity.shared::cta.b64 %p1, [{address}], {parity};\n@!%p1 bra W{number};\n"


def load(register: int) -> str:
    return f"tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r{register}}}, [%r1];\nadd.u32 %r9, %r9, %r{register};\n"


PRODUCT = "tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, 0;\n"
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [{}];\n"
FENCE = "tcgen05.fence::after_thread_sync;\n"


def findings(body: str, rule: str) -> list[Diagnostic]:
    facts = Facts(ptxkit.parse(HEAD + body + "ret;\n}\n"))
    return [one for chosen in select([rule]) for one in chosen.check(facts)]


def test_loads_that_are_usually_not_waited_for_are_listed_once() -> None:
    end = "tcgen05.wait::ld.sync.aligned;\nst.global.u32 [%rd3], %r9;\n"
    (one,) = findings("mov.u32 %r9, 0;\n" + load(3) + load(4) + load(5) + end, "T003")

    assert one.severity is Severity.INFO
    assert len(one.related) == 1
    assert "the same holds for 3 loads of this function, in lines 15, 17, 19:" in one.notes[0]


def test_waits_that_are_seldom_fenced_are_listed_once() -> None:
    body = FENCE + "".join([wait(f"full+{8 * i}", i) + "tcgen05.wait::ld.sync.aligned;\n" + load(3) for i in range(3)])
    (one,) = findings("mov.u32 %r9, 0;\n" + body, "T006")

    assert (one.severity, len(one.related)) == (Severity.INFO, 1)
    assert one.notes == ("the same holds in lines 21, 26",)
    assert not findings("mov.u32 %r9, 0;\n" + body.replace(load(3), FENCE + load(3)), "T006")


INDEX = """and.b32 %r4, %r10, 1;
shl.b32 %r4, %r4, 5;
mov.u32 %r5, full;
add.u32 %r5, %r5, %r4;
mov.u32 %r6, empty;
add.u32 %r6, %r6, %r4;
mbarrier.arrive.shared::cta.b64 _, [%r5];
"""


def test_all_may_come_to_a_standstill_before_the_launch_matters() -> None:
    body = """@!%p2 mbarrier.init.shared::cta.b64 [turn], 1;
bar.sync 0;
{}
{}
mov.u32 %r11, %ctaid.x;
setp.ne.u32 %p3, %r11, 5;
@%p3 bra END;
@!%p2 mbarrier.arrive.shared::cta.b64 _, [turn];
bar.sync 0;
END:
"""
    arrival = "@!%p2 mbarrier.arrive.shared::cta.b64 _, [turn];"
    (one,) = lint(ptxkit.parse(HEAD + body.format("", wait("turn", 0)) + "ret;\n}\n"), select(["M009"]))
    assert one.severity is Severity.ERROR
    assert not findings(body.format(arrival, wait("turn", 0)), "M009")
    # who leaves before has not been followed
    left = (
        "mov.u32 %r11, %ctaid.x;\nsetp.ne.u32 %p3, %r11, 5;\n@%p3 bra END;\n@!%p2 mbarrier.arrive.shared::cta.b64 _, [turn];\nbar.sync 0;"
    )
    assert not findings(body.format(left, wait("turn", 0)), "M009")


PASSED = "LOOP: {body}add.u32 %r5, %r5, 1;\nsetp.lt.u32 %p3, %r5, 9;\n@%p3 bra LOOP;\n"
INITS = "@!%p2 mbarrier.init.shared::cta.b64 [{}], {};\n"


def roles(mmas: str) -> str:
    """Thread 0 starts products in a loop, thread 32 arrives at `full` each time that it was told through `empty`."""
    setup = "".join([INITS.format(one, 1) for one in ("full", "empty")]) + "bar.sync 0;\n"
    side = "@%p2 bra OTHER;\n" + PASSED.format(body=mmas)
    told = "".join([wait("empty", 10 + at, at) + "mbarrier.arrive.shared::cta.b64 _, [full];\n" for at in (0, 1)])
    fills = PASSED.format(body=told).replace("LOOP", "FILL")
    return setup + side + "bra END;\nOTHER:\nsetp.ne.u32 %p4, %r10, 32;\n@%p4 bra END;\n" + fills + "END:\n"


def test_a_loop_that_gives_back_less_than_it_takes_is_told() -> None:
    first, second = [wait("full", at, at) + PRODUCT for at in (0, 1)]
    good = roles(first + COMMIT.format("empty") + second + COMMIT.format("empty"))
    told = findings(good.replace(COMMIT.format("empty"), "", 1), "T005")

    # an argument, which no run has shown
    assert [(one.severity, "threads wait here more often" in one.message) for one in told] == [(Severity.INFO, True)]
    assert not findings(good, "T005")


def test_a_loop_that_waits_for_its_own_commits_makes_as_many() -> None:
    twice = [PRODUCT + COMMIT.format("turn") + wait("turn", i, i) for i in range(2)]
    (one,) = findings(PASSED.format(body="".join(twice).replace(COMMIT.format("turn"), "", 1)), "T005")

    assert "more often" in one.message
    assert not findings(PASSED.format(body="".join(twice)), "T005")
    # what is left of the work behind the loop is done but once
    (one,) = findings(PASSED.format(body="".join(twice).replace(COMMIT.format("turn"), "", 1)) + PRODUCT + COMMIT.format("turn"), "T005")
    assert "more often" in one.message


def test_a_wait_that_is_left_out_when_it_was_asked_before_counts() -> None:
    ask = "mbarrier.try_wait.parity.shared::cta.b64 %p5, [turn], {0};\n@%p5 bra G{0};\n"
    both = [PRODUCT + COMMIT.format("turn") + ask.format(i) + wait("turn", i, i) + f"G{i}:\n" for i in range(2)]
    body = "".join(both)

    def told(body: str) -> bool:
        return any("more often" in one.message for one in findings(PASSED.format(body=body), "T005"))

    assert told(body.replace(COMMIT.format("turn"), "", 1))
    assert not told(body)
    # what is left out for another reason may be meant to be
    assert not told(body.replace(COMMIT.format("turn"), "", 1).replace("@%p5", "@%p6"))


def test_the_stage_that_is_told_of_first_is_the_one_that_is_waited_for_first() -> None:
    ring = """mov.u32 %r5, 0;
mov.u32 %r6, {start};
LOOP: shl.b32 %r7, %r6, 3;
mov.u32 %r8, full;
add.u32 %r8, %r8, %r7;
"""
    onward = """add.u32 %r6, %r6, 1;
setp.eq.u32 %p3, %r6, 4;
selp.u32 %r6, 0, %r6, %p3;
add.u32 %r5, %r5, 1;
setp.lt.u32 %p3, %r5, 9;
@%p3 bra LOOP;
"""
    asks = "NEXT:\n" + (ring.format(start=0) + wait("%r8", 1) + onward).replace("LOOP", "ASK")
    tells = "@%p2 bra NEXT;\n" + ring + PRODUCT + COMMIT.format("%r8") + onward + "bra END;\n"
    (one,) = findings(tells.format(start=1) + asks + "END:\n", "T005")

    assert "waited for first" in one.related[0].message
    assert not findings(tells.format(start=0) + asks + "END:\n", "T005")


def test_a_fence_that_is_there_behind_all_other_waits_is_missed() -> None:
    fenced = wait("full", 1) + FENCE + "bar.sync 1, 128;\n" + load(3)
    bare = wait("empty", 2) + PRODUCT + COMMIT.format("turn")
    (one,) = findings(fenced + bare + wait("turn", 3), "T006")

    assert one.severity is Severity.WARNING
    assert not findings(fenced + bare.replace(PRODUCT, FENCE + PRODUCT) + wait("turn", 3), "T006")


def test_a_wait_for_the_bytes_of_a_copy_needs_no_fence() -> None:
    fenced = wait("full", 1) + FENCE + "bar.sync 1, 128;\n" + load(3)
    copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%rd1], 512, [empty];\n"
    bare = wait("empty", 2) + PRODUCT + COMMIT.format("turn")

    (noted,) = findings(copy + fenced + bare + wait("turn", 3), "T006")
    (warned,) = findings(copy.replace("empty", "empty+8") + fenced + bare + wait("turn", 3), "T006")

    assert (noted.severity, warned.severity) == (Severity.INFO, Severity.WARNING)


WAIT_LOADS = "tcgen05.wait::ld.sync.aligned;\n"


def load_only(register: int) -> str:
    return load(register).splitlines(True)[0]


def test_a_function_with_one_load_and_no_wait_is_told() -> None:
    def told(body: str) -> list[Severity]:
        return [one.severity for one in findings("mov.u32 %r9, 0;\n" + body + "st.global.u32 [%rd3], %r9;\n", "T003")]

    before = PRODUCT + COMMIT.format("turn") + wait("turn", 1)
    assert told(before + load(3)) == [Severity.INFO]
    assert told(before + load_only(3) + WAIT_LOADS + "add.u32 %r9, %r9, %r3;\n") == []
    assert told(before + load(3) + load(4)) == [Severity.INFO]
    # without products it only shows how the instruction is written
    assert told(load(3)) == [Severity.INFO]


def test_what_is_stored_is_there_only_behind_a_wait() -> None:
    store = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r1], {%r2};\n"
    back = load_only(3) + WAIT_LOADS

    def told(body: str) -> list[Severity]:
        return [one.severity for one in findings(body, "T003") if "may still be writing" in one.message]

    assert told(store + back) == [Severity.WARNING]
    assert not told(store + "tcgen05.wait::st.sync.aligned;\n" + back)
    assert not told(store + "add.u32 %r1, %r1, 1;\n" + back)


@pytest.mark.parametrize(("parity", "is_found"), [(0, True), (1, False)])
def test_a_wait_for_the_phase_before_the_first_needs_no_arrival(parity: int, is_found: bool) -> None:
    body = PRODUCT + COMMIT.format("full") + wait("full", 0) + wait("empty", 1, parity)

    assert bool(findings(body, "T005")) == is_found


def test_an_allocation_of_a_constant_size_that_there_is_not() -> None:
    alloc = "mov.u32 %r2, {};\ntcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [turn], %r2;\n"
    (one,) = findings(alloc.format(96), "T002")

    assert one.message == "96 columns are allocated: there must be 32, 64, 128, 256 or 512"
    assert not findings(alloc.format(128), "T002")
