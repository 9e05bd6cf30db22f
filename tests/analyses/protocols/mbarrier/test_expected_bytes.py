"""Expect-tx bytes compared with the boxes of tensor maps."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses import lint
from ptxkit.analyses.framework.rule import select

HEAD = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 a[128], .param .align 64 .b8 b[128])
.reqntid 1
{
.reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
.shared .align 1024 .b8 tile[65536];
.shared .align 8 .b64 full;
.shared .align 8 .b64 free;
mov.b64 %rd1, a;
mov.b64 %rd2, b;
mov.u32 %r1, 0;
mbarrier.init.shared::cta.b64 [full], 1;
mbarrier.init.shared::cta.b64 [free], 1;
"""
EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], {};\n"
COPY = "cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes [tile+{}], [{}, {{%r1}}], [full];\n"
A, B = COPY.format(0, "%rd1"), COPY.format(32768, "%rd2")
ALONE = EXPECT.format(8192) + A


def wait(name: str, parity: int, label: str) -> str:
    return f"{label}: mbarrier.try_wait.parity.shared::cta.b64 %p1, [{name}], {parity}; @!%p1 bra {label};\n"


@pytest.mark.parametrize(
    ("between", "is_found"), [(wait("free", 0, "FREE") + B, False), (wait("free", 0, "FREE"), True)], ids=["b", "none"]
)
def test_a_wait_for_the_room_of_one_copy_ends_no_phase(between: str, is_found: bool) -> None:
    # the room for the second matrix is free later than that for the first
    arrive = "mbarrier.arrive.shared::cta.b64 _, [free];\n"
    body = ALONE + wait("full", 0, "FIRST") + ALONE + wait("full", 1, "SECOND") + arrive + EXPECT.format(16384) + A + between
    module = ptxkit.parse(HEAD + body + wait("full", 0, "LAST") + "ret;\n}\n")

    assert bool(lint(module, select(["M006"]), run=False)) == is_found
