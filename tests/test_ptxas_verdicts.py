"""`check` agrees with what ptxas 13.0 said of single statements (`fixtures/check/ptxas.tsv`)."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from ptxkit.analyses.framework.linting import lint
from ptxkit.analyses.framework.rule import select
from ptxkit.diagnostics import Severity
from ptxkit.syntax import parse

FOLDER = Path(__file__).resolve().parent.parent / "fixtures" / "check"
FRAME = (FOLDER / "ptxas_frame.txt").read_text(encoding="utf-8")
RULES = tuple(rule for rule in select(["E", "V"]) if rule.severity is Severity.ERROR)


def rows() -> list[dict[str, str]]:
    with (FOLDER / "ptxas.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row['item']} {row['statement']}".strip())
def test_verdict_is_that_of_ptxas(row: dict[str, str]) -> None:
    text = FRAME.replace("\nITEM\n", f"\n{row['item']}\n").replace("  STATEMENT\n", f"  {row['statement']}\n")

    errors = [diagnostic.message for diagnostic in lint(parse(text), RULES) if diagnostic.severity is Severity.ERROR]

    assert (not errors) == (row["verdict"] == "accepted"), errors or row["verdict"]
