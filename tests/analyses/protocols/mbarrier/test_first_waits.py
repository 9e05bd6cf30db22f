"""First phases that nobody completes, as all who could wait for one themselves."""

from __future__ import annotations

import ptxkit
from ptxkit.analyses.framework.rule import Facts, select

COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [{}];\n"
KERNEL = """.version 9.0
.target sm_100a
.address_size 64
.entry k(.param .u64 in)
.reqntid 128
{{
.reg .pred %p<9>; .reg .b32 %r<16>; .reg .b64 %rd<4>;
.shared .align 8 .b64 full[2];
.shared .align 8 .b64 empty[2];
ld.param.u64 %rd1, [in];
ld.global.u32 %r9, [%rd1];
mov.u32 %r1, %tid.x;
setp.ne.u32 %p2, %r1, 0;
@!%p2 mbarrier.init.shared::cta.b64 [full], 1;
@!%p2 mbarrier.init.shared::cta.b64 [full+8], 1;
@!%p2 mbarrier.init.shared::cta.b64 [empty], 32;
@!%p2 mbarrier.init.shared::cta.b64 [empty+8], 32;
bar.sync 0;
mov.u32 %r7, 0;
setp.lt.u32 %p3, %r1, 64;
@%p3 bra USERS;
setp.ne.u32 %p3, %r1, 64;
@%p3 bra END;
{first}
PRODUCTS:
W0: mbarrier.try_wait.parity.shared::cta.b64 %p1, [empty], %r7;
@!%p1 bra W0;
tcgen05.mma.cta_group::1.kind::f16 [%r6], %rd1, %rd2, %r2, 0;
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [full];
W1: mbarrier.try_wait.parity.shared::cta.b64 %p1, [empty+8], %r7;
@!%p1 bra W1;
tcgen05.mma.cta_group::1.kind::f16 [%r6], %rd1, %rd2, %r2, 0;
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [full+8];
xor.b32 %r7, %r7, 1;
sub.u32 %r9, %r9, 1;
setp.ne.u32 %p4, %r9, 0;
@%p4 bra PRODUCTS;
bra END;
USERS:
shr.u32 %r3, %r1, 5;
shl.b32 %r3, %r3, 3;
mov.u32 %r4, full;
add.u32 %r4, %r4, %r3;
mov.u32 %r5, empty;
add.u32 %r5, %r5, %r3;
{uses}
END:
ret;
}}
"""
WAIT = """{label}: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r4], %r7;
@!%p1 bra {label};
mbarrier.arrive.shared::cta.b64 _, [%r5];
xor.b32 %r7, %r7, 1;
sub.u32 %r9, %r9, 1;
setp.ne.u32 %p4, %r9, 0;
@%p4 bra {label};
"""
FIRST = COMMIT.format("full") + COMMIT.format("full+8")


def told(first: str, uses: str) -> list[str]:
    facts = Facts(ptxkit.parse(KERNEL.format(first=first, uses=uses)))
    return [one.message for rule in select(["M"]) for one in rule.check(facts)]


def test_a_first_phase_that_one_group_of_threads_waits_for_is_completed_by_nobody() -> None:
    uses = WAIT.format(label="U")

    assert told(FIRST, uses) == []
    for one in ("full", "full+8"):
        (message,) = told(FIRST.replace(COMMIT.format(one), ""), uses)
        assert "the thread that could complete it waits for a first phase, too" in message


def test_a_wait_that_is_the_first_on_one_way_only_is_one() -> None:
    # the first loop may be passed by: then the first phase is waited for in the second one
    uses = "setp.eq.u32 %p5, %r9, 1;\n@%p5 bra U;\n" + WAIT.format(label="T") + WAIT.format(label="U")

    assert told(FIRST, uses) == []
    (message,) = told(FIRST.replace(COMMIT.format("full"), "", 1), uses)
    assert "deadlock" in message
    # what comes in with the other parity waits for nothing
    other = uses.replace("@%p5 bra U;", "@%p5 xor.b32 %r7, %r7, 1;\n@%p5 bra U;")
    assert not any("deadlock" in one for one in told(FIRST.replace(COMMIT.format("full"), "", 1), other))
