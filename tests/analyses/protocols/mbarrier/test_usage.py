"""Which objects of a kernel an instruction uses, and whose they are."""

from __future__ import annotations

import ptxkit
from ptxkit.analyses.events.steps import Does
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts
from ptxkit.analyses.protocols.mbarrier.usage import Use, usage, usage_by_thread

HEAD = """.version 9.0
.target sm_100a
.address_size 64
.entry k()
.reqntid 128
{
.reg .pred %p<9>; .reg .b32 %r<16>; .reg .b64 %rd<4>;
.shared .align 1024 .b8 data[2048];
mov.u32 %r1, %tid.x;
mov.u32 %r2, data;
mbarrier.init.shared::cta.b64 [%r2+56], 1;
"""


def routine(body: str) -> Routine:
    return Facts(ptxkit.parse(HEAD + body + "ret;\n}\n")).routines[0]


def arrivals(of: Routine) -> list[Use]:
    return [use for use in usage_by_thread(of).uses if use.does is Does.ARRIVE]


def test_bits_that_are_nought_anyway_may_be_masked_out_with_those_of_the_cta() -> None:
    body = "add.u32 %r3, %r2, 56;\nand.b32 %r4, %r3, {};\nmbarrier.arrive.shared::cluster.b64 _, [%r4];\n"
    # all but the bit of the CTA and the lowest three; the same, with what is nought in the address left out; one bit too many left out
    for mask, is_known in (("0xfefffff8", True), ("0xfefffc38", True), ("0xfefffc28", False)):
        of = routine(body.format(mask))
        (init,) = usage(of).of(Does.INIT)
        (use,) = usage(of).of(Does.ARRIVE)
        assert (use.base == init.base and use.offsets == {56} and use.is_remote) is is_known, mask


def test_each_group_of_threads_has_its_own_object() -> None:
    of = routine("shr.u32 %r3, %r1, 6;\nshl.b32 %r3, %r3, 3;\nadd.u32 %r4, %r2, %r3;\nmbarrier.arrive.shared::cta.b64 _, [%r4+64];\n")
    first = (1 << 64) - 1

    assert [(use.offsets, use.threads) for use in arrivals(of)] == [({64}, first), ({72}, first << 64)]
    assert usage_by_thread(of).of(Does.INIT)[0].threads is None


def test_each_lane_initializes_an_mbarrier_of_its_own() -> None:
    body = "setp.gt.u32 %p1, %r1, 2;\n@%p1 bra OVER;\nshl.b32 %r3, %r1, 3;\nadd.u32 %r4, %r2, %r3;\n{}OVER:\nbar.sync 0;\n"
    of = routine(body.format("mbarrier.init.shared::cta.b64 [%r4+64], 1;\n"))
    inits = usage(of).of(Does.INIT)

    assert [(use.offsets, use.threads) for use in inits] == [({56}, None), ({64}, 1), ({72}, 2), ({80}, 4)]
    assert usage_by_thread(of).of(Does.INIT) == inits


def test_an_mbarrier_that_no_lane_initializes() -> None:
    use = """
        bar.sync 0; setp.ne.u32 %p2, %r1, 0; @%p2 bra WAIT; mbarrier.arrive.shared::cta.b64 _, [%r2+AT];
        WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r2+AT], 0; @!%p3 bra WAIT;
    """
    lanes = "setp.gt.u32 %p1, %r1, 2; shl.b32 %r3, %r1, 3; add.u32 %r4, %r2, %r3; @!%p1 mbarrier.init.shared::cta.b64 [%r4+64], 1;"
    found = []
    for at in (80, 88):
        text = HEAD + lanes + use.replace("AT", str(at)) + "ret;\n}\n"
        found.append([one.rule for one in ptxkit.lint(text, run=False)])

    assert found == [[], ["M001"]]


def test_a_lane_selects_the_count_of_the_mbarrier_that_it_initializes() -> None:
    body = """
        setp.gt.u32 %p1, %r1, 2; shl.b32 %r3, %r1, 3; add.u32 %r4, %r2, %r3;
        setp.lt.u32 %p2, %r1, 1; selp.u32 %r5, 128, 4, %p2;
        @!%p1 mbarrier.init.shared::cta.b64 [%r4+64], %r5;
    """
    inits = usage(routine(body)).of(Does.INIT)

    assert [use.step.amount.constant for use in inits if use.step.amount is not None] == [1, 128, 4, 4]
