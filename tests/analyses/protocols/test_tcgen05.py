"""Tensor memory: what is left out as a custom, what is left out once, and runs that nobody comes to the end of."""

from __future__ import annotations

import ptxkit
from ptxkit.analyses.rule import Facts, select
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
    assert [other.message for other in one.related].count("nor is this load waited for before it is used") == 2


def test_waits_that_are_seldom_fenced_are_listed_once() -> None:
    body = FENCE + "".join([wait(f"full+{8 * i}", i) + "tcgen05.wait::ld.sync.aligned;\n" + load(3) for i in range(3)])
    (one,) = findings("mov.u32 %r9, 0;\n" + body, "T006")

    assert (one.severity, len(one.related)) == (Severity.INFO, 3)
    assert not findings("mov.u32 %r9, 0;\n" + body.replace(load(3), FENCE + load(3)), "T006")


INDEX = """and.b32 %r4, %r10, 1;
shl.b32 %r4, %r4, 5;
mov.u32 %r5, full;
add.u32 %r5, %r5, %r4;
mov.u32 %r6, empty;
add.u32 %r6, %r6, %r4;
mbarrier.arrive.shared::cta.b64 _, [%r5];
"""


def test_the_only_round_that_gives_nothing_back_is_told() -> None:
    # where the index is not known, the places of an unrolled ring are one array
    rounds = [wait(f"%r5+{8 * i}", i) + PRODUCT + COMMIT.format(f"%r6+{8 * i}") for i in range(4)]

    def told() -> list[Severity]:
        return [one.severity for one in findings(INDEX + "LOOP:\n" + "".join(rounds) + "@%p2 bra LOOP;\n", "T005")]

    assert told() == []
    rounds[2] = rounds[2].replace(COMMIT.format("%r6+16"), "")
    assert told() == [Severity.INFO]
    # two that differ may be meant to
    rounds[1] = rounds[1].replace(COMMIT.format("%r6+8"), "")
    assert told() == []


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
    (one,) = findings(body.format("", wait("turn", 0)), "M009")
    assert one.severity is Severity.ERROR
    assert not findings(body.format(arrival, wait("turn", 0)), "M009")
    # who leaves before has not been followed
    left = (
        "mov.u32 %r11, %ctaid.x;\nsetp.ne.u32 %p3, %r11, 5;\n@%p3 bra END;\n@!%p2 mbarrier.arrive.shared::cta.b64 _, [turn];\nbar.sync 0;"
    )
    assert not findings(body.format(left, wait("turn", 0)), "M009")
