"""The C rules on many ways of writing the same mistakes, and on correct code that looks like them."""

from __future__ import annotations

import pytest
from marked import expected, findings, found, kernels
from sample import kernel

from ptxkit.analyses.framework.rule import Facts, all_rules
from ptxkit.diagnostics import Severity

KERNELS = kernels("convergence_rules.txt")


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_found(name: str) -> None:
    assert found(KERNELS[name], "C") == expected(KERNELS[name])


def test_the_witness_is_shown() -> None:
    (one,) = findings(KERNELS["barrier in a bounds check"], "C")

    assert one.message == "249 threads of CTA (1,0,0) wait at barrier 0 (line 19), but 7 others passed it without arriving (line 21)"
    assert "thread 0 executes `bar.sync`, but thread 17 of its warp does not" in one.notes
    assert "for example with n = 17, %ctaid.x = 0" in one.notes
    messages = [related.message for related in one.related]
    assert messages == ["they diverge here: `@%p1` holds for thread 17, not for thread 0", "the other threads are here"]


def test_what_is_assumed_is_said() -> None:
    (one,) = findings(KERNELS["a thread, nothing said of the shape"], "C")

    assert any(note.startswith("assumed: CTAs have one dimension") for note in one.notes)


def test_what_follows_from_one_branch_is_told_once() -> None:
    (one,) = findings(KERNELS["an aligned barrier of the cluster"], "C")

    assert "the same holds for 1 more instruction after that branch" in one.notes


def test_a_custom_of_a_function_is_told_once() -> None:
    mask = next(rule for rule in all_rules() if rule.id == "C007")
    few, many = [list(mask.check(Facts(kernel("activemask.b32 %r1; bar.warp.sync %r1; " * times + "ret;").module))) for times in (4, 9)]

    assert len(few) == 4
    assert len(many) == 1
    assert "the same holds for 8 other masks of this function" in many[0].notes


@pytest.mark.parametrize(
    ("code", "severity"),
    [
        ("@%p1 activemask.b32 %r1; @%p1 redux.sync.add.s32 %r2, %r3, %r1; ret;", Severity.INFO),
        ("activemask.b32 %r1; @%p1 redux.sync.add.s32 %r2, %r3, %r1; ret;", Severity.WARNING),
        ("@%p1 activemask.b32 %r1; @!%p1 redux.sync.add.s32 %r2, %r3, %r1; ret;", Severity.WARNING),
        ("activemask.b32 %r1; vote.sync.any.pred %p2, %p1, %r1; @%p2 match.any.sync.b32 %r2, %r3, %r1; ret;", Severity.INFO),
        ("activemask.b32 %r1; vote.sync.any.pred %p2, %p1, -1; @%p2 match.any.sync.b32 %r2, %r3, %r1; ret;", Severity.INFO),
    ],
    ids=["one guard", "a guard after", "opposite guards", "a vote of the same lanes", "a vote of the warp"],
)
def test_lanes_that_a_guard_leaves_out_are_missed(code: str, severity: Severity) -> None:
    mask = next(rule for rule in all_rules() if rule.id == "C007")
    found = list(mask.check(Facts(kernel("mov.u32 %r9, %laneid; setp.lt.u32 %p1, %r9, 7; " + code).module)))

    assert {one.severity for one in found} == {severity}
