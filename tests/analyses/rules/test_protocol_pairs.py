"""The planted bugs of the F, W, T and P families: each is found on its line, and what is right has no error or warning."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import ptxkit
from ptxkit.analyses import lint
from ptxkit.analyses.framework.rule import select
from ptxkit.diagnostics import Diagnostic, Severity

LINT = Path(__file__).resolve().parents[4] / "shared" / "lint"
FAMILIES = ("F", "W", "T", "P")


def cases() -> list[tuple[str, str, int]]:
    """Name, rule and line of each planted bug."""
    if not LINT.exists():
        return []
    with (LINT / "cases.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return [(row["name"], row["bug_class"].split()[0], int(row["bug_line"])) for row in rows if row["bug_class"][0] in FAMILIES]


def found(path: Path, *words: str) -> list[Diagnostic]:
    text = path.read_text(encoding="utf-8")
    return [one for one in lint(ptxkit.parse(text), select(words)) if one.severity is not Severity.INFO]


@pytest.mark.skipif(not LINT.exists(), reason="no ../shared")
class TestPairs:
    @pytest.mark.parametrize(("name", "rule", "line"), cases(), ids=lambda value: str(value))
    def test_pair(self, name: str, rule: str, line: int) -> None:
        assert line in [diagnostic.span.line for diagnostic in found(LINT / f"{name}.bad.ptx", rule)]
        assert found(LINT / f"{name}.good.ptx", rule) == []

    def test_nothing_is_wrong_with_what_is_right(self) -> None:
        paths = [*LINT.glob("*.good.ptx"), *(LINT / "fp").glob("*.ptx")]

        assert [(path.name, one.rule, one.message) for path in paths for one in found(path, *FAMILIES)] == []
