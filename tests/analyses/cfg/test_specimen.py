"""Functions that hold one instruction to see how it compiles."""

from __future__ import annotations

import pytest

from ptxkit.analyses.cfg.specimen import is_specimen
from ptxkit.analyses.framework.linting import lint
from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.framework.rule import select
from ptxkit.syntax import parse


def kernel(body: str) -> str:
    head = ".version 8.7\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n"
    return f"{head}.reg .pred %p1;\n.reg .b32 %r<4>;\n.reg .b64 %rd<4>;\n{body}\n}}\n"


ALLOC = "ld.param.u64 %rd1, [p];\nld.global.u32 %r1, [%rd1];\ntcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("barrier.cluster.wait;\nret;", True),
        (f"{ALLOC}\nret;", True),
        (f"{ALLOC}\nld.shared.u32 %r2, [%r1];\nret;", False),
        ("barrier.cluster.wait;\nld.param.u64 %rd1, [p];\nst.global.u64 [%rd1], 1;\nret;", False),
        ("mov.u32 %r1, %tid.x;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra L;\nbarrier.cluster.wait;\nL:\nret;", False),
        ("barrier.cluster.arrive;\nbarrier.cluster.arrive;\nret;", False),
        ("ret;", False),
    ],
)
def test_specimen(body: str, expected: bool) -> None:
    (routine,) = routines(parse(kernel(body)))
    assert is_specimen(routine) is expected


@pytest.mark.parametrize("body", ["barrier.cluster.wait;\nret;", f"{ALLOC}\nret;"])
def test_what_has_no_partner_there_is_no_fault(body: str) -> None:
    assert [d.rule for d in lint(parse(kernel(body)), select(["C010", "T001"]))] == []


def test_it_is_one_in_a_kernel_that_does_something() -> None:
    found = lint(parse(kernel("barrier.cluster.wait;\nld.param.u64 %rd1, [p];\nst.global.u64 [%rd1], 1;\nret;")), select(["C010"]))
    assert [d.rule for d in found] == ["C010"]
