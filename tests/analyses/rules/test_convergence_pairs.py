"""The planted bugs of the C and B families: each is found on its line; good twins, traps and the bugs of other families are silent."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import ptxkit
from ptxkit.analyses.framework.linting import lint
from ptxkit.analyses.framework.rule import all_rules
from ptxkit.diagnostics import Diagnostic, Severity

LINT = Path(__file__).resolve().parents[4] / "shared" / "lint"
RULES = [rule for rule in all_rules() if rule.family in "CB"]


def cases() -> list[tuple[str, str, int]]:
    """Name, rule and line of each planted bug."""
    if not LINT.exists():
        return []
    with (LINT / "cases.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return [(row["name"], row["bug_class"].split()[0], int(row["bug_line"])) for row in rows]


def findings(path: Path) -> list[Diagnostic]:
    return list(lint(ptxkit.parse(path.read_text(encoding="utf-8")), RULES))


def loud(path: Path) -> list[tuple[str, int, str]]:
    return [(d.rule, d.span.line, d.message) for d in findings(path) if d.severity is not Severity.INFO]


@pytest.mark.skipif(not LINT.exists(), reason="no ../shared")
class TestPairs:
    @pytest.mark.parametrize(("name", "rule", "line"), [case for case in cases() if case[1][0] in "CB"], ids=lambda value: str(value))
    def test_bug_is_found(self, name: str, rule: str, line: int) -> None:
        found = findings(LINT / f"{name}.bad.ptx")

        assert (rule, line) in [(d.rule, d.span.line) for d in found]
        assert {d.rule for d in found if d.severity is not Severity.INFO} <= {rule}

    @pytest.mark.parametrize("name", [path.name for path in sorted(LINT.glob("*.good.ptx"))])
    def test_good_twin_is_silent(self, name: str) -> None:
        assert loud(LINT / name) == []

    def test_traps_are_silent(self) -> None:
        assert [one for path in sorted((LINT / "fp").glob("*.ptx")) for one in loud(path)] == []

    def test_bugs_of_other_families_are_not_mistaken_for_these(self) -> None:
        names = [name for name, rule, _ in cases() if rule[0] not in "CB"]

        assert [(name, *one) for name in names for one in loud(LINT / f"{name}.bad.ptx")] == []
