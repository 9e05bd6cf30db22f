"""What all rules argue of the fixtures stands in `findings.tsv`: a change that is to change nothing is seen to. Nothing is executed: how
far a run comes depends on how busy the computer is.

After a change that is to change it, `PTXKIT_RECORD=1 pytest tests/analyses/rules/test_same_findings.py` writes it anew, and the difference
is read in review. The same over the whole corpus: `benchmarks/same_findings.py`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from sampling import EVERY

from ptxkit import files
from ptxkit.analyses import all_rules, lint
from ptxkit.syntax import parse

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"
EXPECTED = Path(__file__).with_name("findings.tsv")
MOST = 60_000
"""Larger files are left out, in bytes."""


def found(path: Path) -> list[str]:
    """The findings of a file, a line each: file, line, column, rule, severity, related lines."""
    name = path.relative_to(FIXTURES).as_posix()
    return [
        "\t".join(map(str, (name, one.span.line, one.span.column, one.rule, one.severity, ",".join(str(r.span.line) for r in one.related))))
        for one in lint(parse(files.read(str(path)), name), all_rules(), run=False)
    ]


def test_the_findings_of_the_fixtures_are_those_of_before() -> None:
    record = os.environ.get("PTXKIT_RECORD")
    paths = [path for path in sorted(FIXTURES.rglob("*.ptx")) if path.stat().st_size <= MOST][:: 1 if record else EVERY]
    names = {path.relative_to(FIXTURES).as_posix() for path in paths}
    now = [line for path in paths for line in found(path)]
    if record:
        EXPECTED.write_text("\n".join(now) + "\n", encoding="utf-8")
        pytest.skip("written anew")

    assert now == [line for line in EXPECTED.read_text(encoding="utf-8").splitlines() if line.partition("\t")[0] in names]
