"""Shared and local memory that is read before it is written."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses import lint, routines
from ptxkit.analyses.framework.rule import select
from ptxkit.analyses.memory.unwritten import unwritten

KERNEL = """.version 8.0
.target sm_90
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.shared .align 16 .b8 common[64];
.func f(.param .b64 p) {{ ret; }}
.entry k(.param .u64 p)
{{
	.shared .align 16 .b8 tile[256];
	.local .align 16 .b8 depot[64];
	.reg .pred %p<4>;
	.reg .b32 %r<16>;
	.reg .b64 %rd<8>;
	.param .b64 given;
	mov.u32 %r0, %tid.x;
	mov.u32 %r9, tile;
	mad.lo.u32 %r8, %r0, 4, %r9;
	ld.param.u64 %rd1, [p];
	setp.eq.u32 %p1, %r0, 0;
	{}
	st.global.u32 [%rd1], %r1;
	ret;
}}
"""


def found(body: str) -> list[str]:
    return [one.message for one in lint(ptxkit.parse(KERNEL.format(body)), select(["R008"]), run=False)]


@pytest.mark.parametrize(
    "body",
    [
        "ld.shared.u32 %r1, [tile];",
        "ld.shared.u32 %r1, [%r8];",
        "ld.local.u32 %r1, [depot+4];",
        "ld.shared.u32 %r1, [%r8];\nst.shared.u32 [%r8], %r1;",
        # a loop that comes to the load first
        "again:\nld.shared.u32 %r1, [%r8];\nst.shared.u32 [%r8], %r1;\nbar.sync 0;\n@%p1 bra again;",
        "ld.shared.u32 %r1, [%r8];\n@%p1 bra out;\nst.shared.u32 [%r8+4], %r1;\nout:",
    ],
)
def test_nothing_can_have_written_it(body: str) -> None:
    assert len(found(body)) == 1


@pytest.mark.parametrize(
    "body",
    [
        "st.shared.u32 [%r8], %r0;\nld.shared.u32 %r1, [tile];",
        # on some way at least
        "@%p1 bra read;\nst.shared.u32 [%r8], %r0;\nread:\nld.shared.u32 %r1, [tile];",
        "@%p1 st.shared.u32 [tile], %r0;\nld.shared.u32 %r1, [%r8];",
        "@%p1 ld.shared.u32 %r1, [tile];\nst.shared.u32 [tile], %r0;",
        # the address goes where it cannot be followed
        "cvta.shared.u64 %rd2, 0;\nst.global.u32 [%rd1], %r9;\nld.shared.u32 %r1, [tile];",
        "mov.u64 %rd2, tile;\ncvta.shared.u64 %rd2, %rd2;\nst.param.b64 [given], %rd2;\ncall f, (given);\nld.shared.u32 %r1, [tile];",
        "again:\nst.shared.u32 [%r9], 1;\nadd.u32 %r9, %r9, 4;\n@%p1 bra again;\nld.shared.u32 %r1, [tile];",
        "cp.async.ca.shared.global [%r9], [%rd1], 4;\ncp.async.wait_all;\nld.shared.u32 %r1, [tile];",
        "atom.shared.add.u32 %r1, [tile], 1;",
        # not of this kernel alone
        "ld.shared.u32 %r1, [common];",
        "ld.shared.u32 %r1, [dynamic];",
        # loaded for nothing
        "ld.shared.u32 %r2, [tile];",
    ],
)
def test_something_may_have(body: str) -> None:
    assert found(body) == []


class TestUnwritten:
    """The fact that the rule asks."""

    def of(self, body: str) -> list[tuple[str, str, str]]:
        """By variable: what reads it first, and what writes it first afterwards."""
        (routine,) = [one for one in routines(ptxkit.parse(KERNEL.format(body))) if one.name == "k"]
        text = [instruction.body_text.strip().rstrip(";") for instruction in routine.instructions]
        return [
            (one.symbol.name, text[one.load.instruction], text[one.store.instruction] if one.store is not None else "")
            for one in unwritten(routine)
        ]

    def test_a_load_before_the_store_of_the_same_variable(self) -> None:
        assert self.of("ld.shared.u32 %r1, [tile];\nst.shared.u32 [tile], %r0;") == [
            ("tile", "ld.shared.u32 %r1, [tile]", "st.shared.u32 [tile], %r0")
        ]

    def test_a_store_to_another_variable_is_none(self) -> None:
        assert self.of("st.shared.u32 [tile], %r0;\nld.local.u32 %r1, [depot];") == [("depot", "ld.local.u32 %r1, [depot]", "")]

    def test_written_on_one_side_of_a_branch(self) -> None:
        assert self.of("@%p1 bra over;\nst.shared.u32 [tile], %r0;\nover:\nld.shared.u32 %r1, [tile];") == []

    def test_nothing_is_read(self) -> None:
        assert self.of("mov.u32 %r1, 0;") == []
