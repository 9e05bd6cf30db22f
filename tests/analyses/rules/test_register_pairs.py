"""The planted bugs of the R family that these rules are for: each is found on its line, its good twin and the traps are silent."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import ptxkit
from ptxkit.analyses.framework.rule import Facts, all_rules
from ptxkit.diagnostics import Diagnostic, Severity

LINT = Path(__file__).resolve().parents[4] / "shared" / "lint"
RULES = {rule.id: rule for rule in all_rules()}
WANTED = ("R001", "R002", "R003", "R004", "R005")


def cases() -> list[tuple[str, str, int]]:
    """Name, rule and line of each planted bug."""
    if not LINT.exists():
        return []
    with (LINT / "cases.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return [(row["name"], row["bug_class"].split()[0], int(row["bug_line"])) for row in rows if row["bug_class"].split()[0] in WANTED]


def found(path: Path, rule: str) -> list[Diagnostic]:
    return list(RULES[rule].check(Facts(ptxkit.parse(path.read_text(encoding="utf-8")))))


@pytest.mark.skipif(not LINT.exists(), reason="no ../shared")
class TestPairs:
    @pytest.mark.parametrize(("name", "rule", "line"), cases(), ids=lambda value: str(value))
    def test_pair(self, name: str, rule: str, line: int) -> None:
        assert line in [diagnostic.span.line for diagnostic in found(LINT / f"{name}.bad.ptx", rule)]
        assert found(LINT / f"{name}.good.ptx", rule) == []

    def test_nothing_is_uninitialised_in_what_is_right(self) -> None:
        paths = [*LINT.glob("*.good.ptx"), *(LINT / "fp").glob("*.ptx")]

        assert [d for path in paths for d in found(path, "R001") if d.severity is not Severity.INFO] == []
