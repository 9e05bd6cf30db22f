"""Accesses compared with earlier ones of the same bytes."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("numpy")

from tests.machine.monitors.watching import watched

SHARED = ".shared .align 8 .b8 s[512];"
WARPS = "setp.ge.u32 %p1, %r1, 32; @%p1 bra OTHER; and.b32 %r3, %r1, 31; setp.ne.u32 %p2, %r3, 0; @%p2 ret; {one} ret; OTHER: {other}"
"""One access by thread 0, and one by the threads of the other warp."""


def races(body: str, block: int = 64) -> list[tuple[str, str]]:
    """Rule and severity of each finding."""
    found: list[Any] = watched(body, "races", SHARED, block=block)[0]
    return [(one.diagnostic.rule, str(one.diagnostic.severity)) for one in found]


@pytest.mark.parametrize(
    ("one", "other", "is_race"),
    [
        ("st.shared.u32 [s], %r1;", "ld.shared.u32 %r4, [s];", True),
        ("st.shared.u32 [s], %r1;", "ld.shared.u32 %r4, [s+4];", False),
        # different sizes that share a byte, and that do not
        ("st.shared.u64 [s], %rd1;", "ld.shared.u8 %h1, [s+7];", True),
        ("st.shared.u8 [s+2], %h1;", "ld.shared.u16 %h2, [s];", False),
        ("st.shared.u8 [s+2], %h1;", "ld.shared.u16 %h2, [s+2];", True),
        # two reads, and two atomics, do not conflict
        ("ld.shared.u32 %r4, [s];", "ld.shared.u32 %r4, [s];", False),
        ("red.shared.add.u32 [s], 1;", "red.shared.add.u32 [s], 1;", False),
        ("red.shared.add.u32 [s], 1;", "st.shared.u32 [s], %r1;", True),
    ],
)
def test_accesses_race_if_they_share_a_byte_and_one_writes(one: str, other: str, is_race: bool) -> None:
    assert bool(races(WARPS.format(one=one, other=other))) == is_race


def test_equal_values_are_for_information() -> None:
    severities = {severity for _, severity in races("st.shared.u32 [s], 7;")}

    assert severities == {"info"}


def test_different_values_are_an_error() -> None:
    assert {severity for _, severity in races("st.shared.u32 [s], %r1;")} == {"error"}


def test_a_write_is_compared_with_all_readers_not_only_the_last() -> None:
    """Each thread of warp 1 reads the word; of these, only the read of thread 32 is not ordered before the write."""
    body = """setp.lt.u32 %p1, %r1, 32; @%p1 bra WRITER; setp.eq.u32 %p2, %r1, 32; @%p2 bar.sync 1, 64; ld.shared.u32 %r4, [s];
    @!%p2 bar.sync 1, 64; ret;
    WRITER: bar.sync 1, 64; setp.eq.u32 %p3, %r1, 0; @%p3 st.shared.u32 [s], 1;"""

    assert [rule for rule, _ in races(body)] == ["S003"]
