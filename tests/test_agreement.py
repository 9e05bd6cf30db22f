"""`check` agrees with ptxas on the reference modules beside the checkout, where they are there."""

from __future__ import annotations

import csv
import random
import re
from collections import Counter
from pathlib import Path

import pytest

from ptxkit.analyses.framework.linting import lint
from ptxkit.analyses.framework.rule import select
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.files import decode
from ptxkit.syntax import parse

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
needs_reference = pytest.mark.skipif(not (SHARED / "conformance").is_dir(), reason="the reference modules are not beside this checkout")
RULES = tuple(rule for rule in select(["E", "V"]) if rule.severity is Severity.ERROR)


def errors(path: Path) -> list[Diagnostic]:
    module = parse(decode(path.read_bytes()), str(path))
    return [diagnostic for diagnostic in lint(module, RULES) if diagnostic.severity is Severity.ERROR]


def rows(name: str) -> list[dict[str, str]]:
    with (SHARED / "conformance" / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


@needs_reference
def test_nothing_that_ptxas_accepts_has_an_error() -> None:
    wrong = [row["file"] for row in rows("accept.tsv") if errors(SHARED / "conformance" / "accept" / row["file"])]

    assert wrong == []


@needs_reference
def test_what_ptxas_rejects_has_an_error_on_its_line() -> None:
    totals: Counter[str] = Counter()
    hits: Counter[str] = Counter()
    on_line = 0
    for row in rows("reject.tsv"):
        totals[row["class"]] += 1
        found = errors(SHARED / "conformance" / "reject" / row["file"])
        line = re.search(r"line (\d+)", row["first_error"])
        hits[row["class"]] += bool(found)
        on_line += bool(found) and (line is None or any(diagnostic.span.line == int(line[1]) for diagnostic in found))

    assert hits.total() >= 0.995 * totals.total()
    assert {kind for kind in totals if hits[kind] < 0.97 * totals[kind]} == set()
    assert on_line >= 0.95 * hits.total()


@needs_reference
def test_real_files_have_no_error() -> None:
    small = [path for path in sorted((SHARED / "corpus").rglob("*.ptx")) if path.stat().st_size < 150_000]
    chosen = random.Random(7).sample(small, 40)

    assert [path.name for path in chosen if errors(path)] == []


@pytest.mark.parametrize("path", sorted((ROOT / "fixtures" / "kernels").glob("*.ptx")), ids=lambda path: path.name)
def test_own_kernels_have_no_error(path: Path) -> None:
    assert [diagnostic.message for diagnostic in errors(path)] == []
