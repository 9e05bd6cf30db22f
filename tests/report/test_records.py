"""Findings as JSON Lines and Parquet."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ptxkit.cli import main
from ptxkit.diagnostics import Diagnostic, Edit, Fix, Origin, Related, Severity, Span
from ptxkit.report import records
from ptxkit.report.records import CannotWrite, Records

SPAN = Span(0, 1, 1, 1, 1, 2)
BARE = Diagnostic("R004", "unused-declaration", Severity.INFO, "half \udcff", SPAN)
FULL = Diagnostic(
    "C001", "aligned-barrier-divergent", Severity.ERROR, "text", SPAN, "a.ptx", "k", ("one", "two"), (Related(SPAN, "why"),),
    Origin("a.cu", 7, 1), Fix("do it", (Edit(0, 1, ""),), is_safe=False),
)  # fmt: skip


def written(path: Path) -> None:
    with Records(str(path)) as file:
        file.add([BARE, FULL])
        file.add([])


def test_lines_have_all_fields(tmp_path: Path) -> None:
    written(tmp_path / "found.jsonl")

    bare, full = map(json.loads, (tmp_path / "found.jsonl").read_text().splitlines())
    assert bare.keys() == full.keys() == set(records._FIELDS)
    assert bare["message"] == "half \udcff"
    assert (full["origin_path"], full["origin_line"], full["fix"], full["fix_is_safe"]) == ("a.cu", 7, "do it", False)


def test_a_table_has_what_the_lines_have(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    written(tmp_path / "found.parquet")
    written(tmp_path / "found.jsonl")

    rows = parquet.read_table(tmp_path / "found.parquet").to_pylist()
    lines = [json.loads(line) for line in (tmp_path / "found.jsonl").read_text().splitlines()]
    assert rows == [{**lines[0], "message": "half ?"}, lines[1]]


def test_an_empty_table_can_be_read(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    with Records(str(tmp_path / "found.parquet")):
        pass

    assert parquet.read_table(tmp_path / "found.parquet").column_names == list(records._FIELDS)


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "found.jsonl"
    path.write_text("old\n")
    with pytest.raises(RuntimeError), Records(str(path)) as file:
        file.add([FULL])
        raise RuntimeError

    assert path.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["found.csv", "nowhere/found.jsonl"])
def test_what_cannot_be_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(CannotWrite, match="found"):
        Records(str(tmp_path / name))


def test_the_command_writes_them(tmp_path: Path) -> None:
    (tmp_path / "a.ptx").write_text(".version 8.0\n.target sm_80\n.address_size 64\n.entry k() {\n.reg .f32 a;\nmov.f32 b, a;\nret;\n}\n")
    arguments = ("lint", str(tmp_path / "a.ptx"), "--format", "json", "--records")
    result = CliRunner().invoke(main, (*arguments, str(tmp_path / "r.jsonl")))

    lines = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert [line["message"] for line in lines] == [one["message"] for one in json.loads(result.stdout)["diagnostics"]]
    assert lines
    assert CliRunner().invoke(main, (*arguments, str(tmp_path / "r.txt"))).exit_code == 2
