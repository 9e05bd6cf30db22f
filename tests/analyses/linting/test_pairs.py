"""The pairs of the lint set: each planted bug is found by its rule at its line, and nothing is said of the correct twins and the traps.

Convergence and barriers have tests of their own, without executions: `rules/test_convergence_pairs.py`.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import ptxkit
from ptxkit.diagnostics import Severity

LINT = Path(__file__).resolve().parents[4] / "shared" / "lint"
ON_THEIR_LINE = (*"AFPTW", "R001", "R002", "R003", "R004", "R005", "R006", "R007", "S001", "S002", "S005", "S007")
"""Families and rules that report a planted bug at its line. A race is reported at either of its accesses: `benchmarks/lint.py --pairs`."""
WITHOUT_NOTES = frozenset(("R001", "R006", "R007", "S001", "S002", "S005"))
"""Rules that do not even remark on correct code."""


def cases() -> list[tuple[str, str, int]]:
    """Name, rule and line of each planted bug."""
    if not LINT.exists():
        return []
    with (LINT / "cases.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    found = [(row["name"], row["bug_class"].split()[0], int(row["bug_line"])) for row in rows]
    return [one for one in found if one[1] in ON_THEIR_LINE or one[1][0] in ON_THEIR_LINE]


@pytest.mark.skipif(not LINT.exists(), reason="no ../shared")
class TestPairs:
    @pytest.mark.parametrize(("name", "rule", "line"), cases(), ids=lambda value: str(value))
    def test_a_planted_bug_is_found(self, name: str, rule: str, line: int) -> None:
        found = ptxkit.lint(LINT / f"{name}.bad.ptx", [rule])

        assert line in [one.span.line for one in found]

    @pytest.mark.parametrize("path", [*sorted(LINT.glob("*.good.ptx")), *sorted(LINT.glob("fp/*.ptx"))], ids=lambda path: path.name)
    def test_correct_code_has_no_finding(self, path: Path) -> None:
        found = ptxkit.lint(path)

        assert [(one.rule, one.message) for one in found if one.severity is not Severity.INFO or one.rule in WITHOUT_NOTES] == []
