"""Rules about addresses."""

from __future__ import annotations

import pytest
from sample import kernel

from ptxkit.analyses.framework.rule import Facts, all_rules

BEYOND = next(rule for rule in all_rules() if rule.id == "S002")
MISALIGNED = next(rule for rule in all_rules() if rule.id == "S001")


@pytest.mark.parametrize(("tag", "count"), [(3, 0), (2, 1)])
def test_a_word_that_a_branch_excludes_as_an_address(tag: int, count: int) -> None:
    # bit 0 says that the word is no address
    body = f"mov.u64 %d1, {0x100000000 + tag}; and.b64 %d2, %d1, 1; setp.eq.u64 %p1, %d2, 1; @%p1 bra END; ld.u32 %r1, [%d1]; END: ret;"

    assert len(list(MISALIGNED.check(Facts(kernel(body).module)))) == count


@pytest.mark.parametrize(("variable", "count"), [(".b8 s", 0), (".b8 s[1]", 1), (".u8 s", 1), (".b8 s[64]", 1)])
def test_what_follows_a_variable_of_length_zero(variable: str, count: int) -> None:
    # LLVM writes an array of length zero as a byte: what follows it is dynamic shared memory
    body = f".shared .align 16 {variable}; ld.shared.u32 %r1, [s+64]; ret;"

    assert len(list(BEYOND.check(Facts(kernel(body).module)))) == count
