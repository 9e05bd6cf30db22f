"""The loop around a wait that may give up."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit import fixing
from ptxkit.analyses.framework.linting import lint
from ptxkit.analyses.framework.rule import Facts, select
from ptxkit.analyses.protocols.mbarrier.retry_loop import retry

KERNEL = """.version 8.0
.target sm_90
.address_size 64
.entry k()
{{
	.shared .align 8 .b64 bar;
	.reg .pred p, q;
	.reg .b32 s;
	{}
	ret;
}}
"""
WAIT = "mbarrier.try_wait.parity.shared.b64 p, [bar], 0;"


def fixed(statements: str, at: int) -> str | None:
    module = ptxkit.parse(KERNEL.format(statements))
    facts = Facts(module)
    fix = retry(facts, facts.routines[0], at)
    return None if fix is None else fixing.apply(module.text, fix.edits)


def test_the_wait_is_repeated() -> None:
    after = fixed(WAIT, 0)

    assert after == KERNEL.format(f"$retry_0:\n\t{WAIT}\n\t@!p bra $retry_0;")
    assert not lint(ptxkit.parse(after), select(["E", "V"]))


def test_on_a_line_with_others() -> None:
    assert fixed(f"bar.sync 0; {WAIT}", 1) == KERNEL.format(f"bar.sync 0; $retry_1: {WAIT} @!p bra $retry_1;")


def test_a_label_that_is_taken() -> None:
    assert "$retry_0_:" in (fixed(f"{WAIT}\n$retry_0:", 0) or "")


@pytest.mark.parametrize("statement", [f"@q {WAIT}", "mov.b32 s, 1;", "bar.sync 0;", "setp.eq.and.s32 p, s, 0, p;"])
def test_what_cannot_be_repeated(statement: str) -> None:
    assert fixed(statement, 0) is None
