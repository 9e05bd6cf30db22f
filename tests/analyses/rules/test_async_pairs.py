"""The asynchronous copies of the lint set: each bad one is found by its rule at its line, nothing is said of good ones and of the traps."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import pytest

import ptxkit
from ptxkit.analyses import lint
from ptxkit.analyses.framework.rule import select
from ptxkit.diagnostics import Diagnostic, Severity

LINT = Path(__file__).parents[4] / "shared" / "lint"

pytestmark = pytest.mark.skipif(not LINT.is_dir(), reason="needs the lint set in ../shared")


@cache
def cases() -> tuple[tuple[str, str, int], ...]:
    with (LINT / "cases.tsv").open() as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))
    return tuple((row["name"], row["bug_class"].split()[0], int(row["bug_line"])) for row in rows if row["bug_class"].startswith("A"))


def found(path: Path) -> list[Diagnostic]:
    return [one for one in lint(ptxkit.parse(path.read_text(encoding="utf-8")), select(["A"])) if one.severity is not Severity.INFO]


def test_every_bad_one_is_found_where_it_is_wrong() -> None:
    missed = [
        (name, rule)
        for name, rule, line in cases()
        if (rule, line) not in {(one.rule, one.span.line) for one in found(LINT / f"{name}.bad.ptx")}
    ]

    assert missed == []


def test_nothing_else_is_said_of_them() -> None:
    others = {(name, one.rule) for name, rule, _ in cases() for one in found(LINT / f"{name}.bad.ptx") if one.rule != rule}

    assert others == set()


def test_good_ones_and_traps_are_silent() -> None:
    paths = [*sorted(LINT.glob("*.good.ptx")), *sorted(LINT.glob("fp/*.ptx"))]

    assert [(path.name, one.rule, one.message) for path in paths for one in found(path)] == []
