"""`ptxkit run --stats`: tables on the terminal, as CSV and as JSON."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("numpy")

from ptxkit.cli import main

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "profiling"
RUN = ["run", str(FOLDER / "scale.ptx"), "--launch", str(FOLDER / "launch.toml")]


def test_tables_files_and_json(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, [*RUN, "--stats", "--csv", str(tmp_path / "csv"), "--json", str(tmp_path / "o.json")])

    assert done.exit_code == 0, done.output
    assert "blocks" in done.stdout and "opcodes" in done.stdout
    (launch,) = json.loads((tmp_path / "o.json").read_text())["launches"]
    # the counts of the probe block-counts, where the exit is a block of its own
    assert [row["threads"] for row in launch["stats"]["blocks"]] == [150, 10, 140, 350, 210, 140]
    with (tmp_path / "csv" / "0.scale.blocks.csv").open(newline="") as file:
        assert [int(row["threads"]) for row in csv.DictReader(file)] == [150, 10, 140, 350, 210, 140]
    # warps in which tid % 4 differs leave the loop one way after the other
    assert [row["divergent"] for row in launch["stats"]["blocks"]] == [0, 0, 0, 18, 0, 0]
    assert sum(row["threads"] for row in launch["stats"]["lines"]) == launch["instructions"]


def test_with_checks_and_without(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, [*RUN, "--check", "all", "--stats", "--top", "1"])
    assert done.exit_code == 0, done.output
    assert "1 of" in done.stdout

    plain = CliRunner().invoke(main, RUN)
    assert "blocks" not in plain.stdout
