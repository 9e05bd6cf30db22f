"""Findings as text, JSON, SARIF and annotations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from ptxkit.analyses import all_rules, lint
from ptxkit.analyses.framework.rule import in_module
from ptxkit.diagnostics import Diagnostic, Origin, Related, Severity, Span
from ptxkit.origins import source_lines
from ptxkit.report import baseline, github, sarif
from ptxkit.report.source import ReportAt, merged
from ptxkit.report.statistics import counts
from ptxkit.report.text import render
from ptxkit.syntax import parse

LINES = [".entry k() {", "  bar.sync 0;", "  bra L, \udcff; // 100%", "}"]


def finding(path: str = "dir/a b.ptx", origin: Origin | None = None, rule: str = "C001", line: int = 2) -> Diagnostic:
    witness = (Related(Span(0, 6, 1, 1, 1, 7), "starts, here: 50%", Origin("a.cu", 1, 0)),)
    severity = Severity.ERROR if rule == "C001" else Severity.INFO
    return Diagnostic(rule, "a-name", severity, "wrong\n: 100%", Span(15, 26, line, 3, line, 14), path, "k", ("note",), witness, origin)


def document(*diagnostics: Diagnostic) -> dict[str, Any]:
    made = sarif.document(diagnostics, all_rules(), lambda path: LINES, lambda one, lines: baseline.fingerprint(one, lines))
    return json.loads(json.dumps(made))  # type: ignore[no-any-return]


class TestSarif:
    def test_by_the_schema(self) -> None:
        model = pytest.importorskip("pydantic_sarif.model", reason="pydantic-sarif has the schema")
        inlined = Origin("/src/b.cuh", 4, 1, Origin("a.cu", 10, 3))
        made = document(finding(), finding("/tmp/x.ptx", inlined), finding("-", rule="X999", line=99))

        parsed = model.StaticAnalysisResultsFormatSarifVersion210JsonSchema.model_validate(made)

        assert len(parsed.runs[0].results) == 3

    def test_by_the_schema_whatever_is_found(self) -> None:
        """The bad examples of all rules, linted by all rules, and by each rule alone: what one run shows is reported as one of them."""
        model = pytest.importorskip("pydantic_sarif.model", reason="pydantic-sarif has the schema")
        found: list[Diagnostic] = []
        for rule in all_rules():
            module = parse(in_module(rule.bad), f"{rule.id}.ptx")
            found += [*lint(module, all_rules()), *lint(module, [rule])]
        made = document(*found)

        assert {result["ruleId"] for result in made["runs"][0]["results"]} == {rule.id for rule in all_rules()}
        parsed = model.StaticAnalysisResultsFormatSarifVersion210JsonSchema.model_validate(made)
        assert len(parsed.runs[0].results) == len(found)

    def test_of_nothing(self) -> None:
        assert document()["runs"][0]["results"] == []

    def test_witness_is_a_code_flow(self) -> None:
        (result,) = document(finding())["runs"][0]["results"]

        (flow,) = result["codeFlows"]
        steps = [step["location"]["message"]["text"] for step in flow["threadFlows"][0]["locations"]]
        assert steps == ["starts, here: 50%", "wrong\n: 100%"]
        assert result["locations"][0]["logicalLocations"] == [{"name": "k", "kind": "function"}]

    def test_places(self, tmp_path: Path) -> None:
        source_lines.cache_clear()
        (tmp_path / "a.cu").write_text("int x;\n")
        (result,) = document(finding(str(tmp_path / "a b.ptx"), Origin("a.cu", 1, 5)))["runs"][0]["results"]

        source = result["locations"][0]["physicalLocation"]
        assert source["artifactLocation"]["uri"].endswith("/a.cu")
        assert source["region"] == {"startLine": 1, "startColumn": 5, "snippet": {"text": "int x;"}}
        ptx = result["relatedLocations"][1]["physicalLocation"]
        assert ptx["artifactLocation"]["uri"].startswith("file:///")
        assert ptx["artifactLocation"]["uri"].endswith("/a%20b.ptx")
        assert ptx["region"] == {"startLine": 2, "startColumn": 3, "endLine": 2, "endColumn": 14, "snippet": {"text": "  bar.sync 0;"}}

    def test_in_the_ptx(self, tmp_path: Path) -> None:
        one = finding(str(tmp_path / "a.ptx"), Origin("a.cu", 1, 5))
        made = sarif.document([one], all_rules(), lambda path: LINES, baseline.fingerprint, ReportAt.PTX)

        place = made["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"].endswith("/a.ptx")
        assert place["region"]["startLine"] == 2

    def test_rules(self) -> None:
        driver = document(finding())["runs"][0]["tool"]["driver"]

        assert [rule["id"] for rule in driver["rules"]] == [rule.id for rule in all_rules()]


def test_annotations() -> None:
    one = finding(origin=Origin("include/cuda_pipeline_helpers.h", 88, 1, Origin("a.cu", 10, 3)))
    (in_source,), (in_ptx,) = github.lines([one]), github.lines([one], ReportAt.PTX)

    assert in_source == (
        "::error file=a.cu,line=10,col=3,title=C001 a-name::k: wrong%0A: 100%25%0APTX: dir/a b.ptx:2"
        "%0Aa.cu:1: starts, here: 50%25%0Anote: note"
    )
    assert in_ptx == (
        "::error file=dir/a b.ptx,line=2,endLine=2,col=3,endColumn=14,title=C001 a-name::k: wrong%0A: 100%25"
        "%0Afrom a.cu:10:3, through cuda_pipeline_helpers.h%0Aline 1: starts, here: 50%25%0Anote: note"
    )


def test_text_has_the_source_line(tmp_path: Path) -> None:
    source_lines.cache_clear()
    (tmp_path / "a.cu").write_text("  first();\n")
    text = render(finding(str(tmp_path / "k.ptx"), Origin("a.cu", 1, 2, Origin("m.cu", 7, 1))), LINES).plain

    assert "  = from a.cu:1:2, inlined at m.cu:7: first();\n" in text


@pytest.mark.parametrize(("count", "last"), [(12, ""), (13, "… and 1 more location, "), (300, "… and 288 more locations, ")])
def test_text_has_the_first_related_locations(count: int, last: str) -> None:
    one = attrs.evolve(finding(), related=finding().related * count)

    lines = render(one, LINES).plain.splitlines()

    assert sum("starts, here" in line for line in lines) == 12
    assert (f"  {last}which `--format json` lists" in lines) == bool(last)


def test_json_has_the_source_place() -> None:
    origin = finding(origin=Origin("b.cuh", 4, 1, Origin("a.cu", 10, 3))).as_json()["origin"]

    assert origin == {"path": "b.cuh", "line": 4, "column": 1, "inlined_at": {"path": "a.cu", "line": 10, "column": 3}}
    assert "origin" not in finding().as_json()


def test_statistics() -> None:
    found = [finding(), finding("b.ptx"), finding(rule="R002")]

    assert counts(found) == [
        {"rule": "C001", "name": "a-name", "severity": "error", "findings": 2, "files": 2},
        {"rule": "R002", "name": "a-name", "severity": "info", "findings": 1, "files": 1},
    ]


def test_a_fingerprint_survives_lines_that_move() -> None:
    moved = ["", *LINES]

    assert baseline.fingerprint(finding(line=2), LINES) == baseline.fingerprint(finding(line=3), moved)
    assert baseline.fingerprint(finding(line=2), LINES) != baseline.fingerprint(finding(line=3), LINES)
    assert baseline.fingerprint(finding("x/a.ptx"), LINES, "x") == baseline.fingerprint(finding("a.ptx"), LINES)


class TestSource:
    """Findings shown in the source."""

    def test_the_headline(self, tmp_path: Path) -> None:
        (tmp_path / "a.cu").write_text("first();\n  second();\n")
        source_lines.cache_clear()
        header = Origin("/usr/local/cuda/include/x.h", 9, 0, Origin("/usr/include/y.h", 3, 0, Origin("a.cu", 2, 3)))
        one = attrs.evolve(finding(str(tmp_path / "k.ptx"), header), function="_ZN2my5applyIfLi64EEEvPT_i", related=())
        text = render(one, LINES, ReportAt.AUTO).plain.splitlines()

        assert text[0] == f"{tmp_path / 'a.cu'}:2:3: error[C001] my::apply<float, 64>: wrong\N{REPLACEMENT CHARACTER}: 100% (a-name)"
        assert text[1] == "     2 |   second();"
        assert text[2] == "       |   ^"
        assert text[3] == f"  = {tmp_path / 'k.ptx'}:2:3, through x.h and 1 more frame: bar.sync 0;"

    def test_no_file_no_source(self) -> None:
        assert render(finding(origin=Origin("none.cu", 2, 3)), LINES, ReportAt.AUTO).plain.startswith("dir/a b.ptx:2:3: ")
        assert render(finding(origin=Origin("none.cu", 2, 3)), LINES, ReportAt.SOURCE).plain.startswith("none.cu:2:3: ")

    def test_one_cause_is_one_finding(self) -> None:
        unrolled = [finding(origin=Origin("a.cu", 10, 3), line=line) for line in (2, 3, 4)]
        instance = attrs.evolve(unrolled[0], function="_Z5applyIfEvv")
        other = finding(origin=Origin("a.cu", 11, 3), line=5)
        found = merged([*unrolled, instance, other], ReportAt.SOURCE)

        assert [one.notes for one in found] == [("note", "also at PTX lines 3, 4", "also in apply<float>"), ("note",)]
        assert len(merged([*unrolled, instance, other], ReportAt.PTX)) == 5
