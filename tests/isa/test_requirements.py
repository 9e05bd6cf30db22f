"""Versions and targets."""

from __future__ import annotations

import pytest

from ptxkit.isa.requirements import Alternative, anything, every, parse_needs, requirement, satisfies
from ptxkit.isa.targets import runs


@pytest.mark.parametrize(
    ("target", "wanted", "expected"),
    [
        ("sm_90", "sm_80", True),
        ("sm_90a", "sm_90", True),
        ("sm_80", "sm_90", False),
        ("sm_90", "sm_90a", False),
        ("sm_90a", "sm_90a", True),
        ("sm_100a", "sm_90a", False),
        ("sm_100f", "sm_100f", True),
        ("sm_100a", "sm_100f", True),
        ("sm_103a", "sm_100f", True),
        ("sm_100a", "sm_103f", False),
        ("sm_100", "sm_100f", False),
        ("sm_120a", "sm_100f", False),
        ("sm_101a", "sm_110a", True),
        ("sm_130", "sm_90", True),
    ],
)
def test_runs(target: str, wanted: str, expected: bool) -> None:
    assert runs(target, wanted) is expected


def needs(text: str) -> list[tuple[str, str]]:
    return [(a.target, f"{a.version[0]}.{a.version[1]}") for a in requirement(parse_needs(text)).alternatives()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("6.5 sm_75", [("sm_75", "6.5")]),
        ("sm_70", [("sm_70", "6.0")]),
        ("8.0 sm_90a", [("sm_90a", "8.0")]),
        ("8.6 sm_100f@8.8 sm_110f@9.0 sm_100a", [("sm_100f", "8.8"), ("sm_110f", "9.0"), ("sm_100a", "8.6")]),
        ("8.0/sm_90|sm_100f", [("sm_90", "8.0")]),
    ],
)
def test_the_least_targets_that_will_do(text: str, expected: list[tuple[str, str]]) -> None:
    assert needs(text) == expected


def test_a_target_needs_the_version_that_brought_it() -> None:
    assert anything().version_for("sm_90a") == (8, 0)
    assert requirement(parse_needs("6.0 sm_70")).version_for("sm_120") == (8, 7)


def test_satisfies() -> None:
    wanted = requirement(parse_needs("8.6 sm_100a sm_100f@8.8"))
    assert satisfies((8, 6), "sm_100a", wanted)
    assert not satisfies((8, 5), "sm_100a", wanted)
    assert satisfies((8, 8), "sm_103f", wanted)
    assert not satisfies((9, 0), "sm_100", wanted)


def test_a_union_needs_what_each_part_needs() -> None:
    together = every([requirement(parse_needs("8.0 sm_90")), requirement(parse_needs("8.6 sm_100f@8.8 sm_100a")), anything()])
    assert together.alternatives() == (Alternative("sm_100f", (8, 8)), Alternative("sm_100a", (8, 6)))
    assert str(every([requirement(parse_needs("8.0 sm_90a")), together])) == "no known target"


@pytest.mark.parametrize("text", ["", "8", "8.x", "8.0 sm_", "8.0 sm_9z", "sm_999"])
def test_what_is_no_requirement(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|such as"):
        parse_needs(text)
