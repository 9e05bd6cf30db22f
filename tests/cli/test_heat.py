"""`--heat` of `ptxkit cfg` and `ptxkit view`: coloured by what is executed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("numpy")

from ptxkit.cli import main

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "profiling"
PTX, LAUNCH = str(FOLDER / "scale.ptx"), str(FOLDER / "launch.toml")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments])


def stats(folder: Path) -> str:
    to = str(folder / "stats.json")
    assert run("run", PTX, "--launch", LAUNCH, "--stats", "--top", "0", "--json", to).exit_code == 0
    return to


def test_a_graph_has_the_counts_of_run(tmp_path: Path) -> None:
    counted = json.loads(Path(stats(tmp_path)).read_text())["launches"][0]["stats"]
    drawn = run("cfg", PTX, "--heat", stats(tmp_path))

    assert drawn.exit_code == 0, drawn.output
    assert "threads that executed it:" in drawn.stdout
    shown = [int(number.replace(",", "")) for number in re.findall(r"max ([\d,]+)", drawn.stdout)]
    assert sorted(shown) == sorted([max(150, 10), *[row["threads"] for row in counted["blocks"][2:]]])
    # the same from the launch file: it is run
    assert run("cfg", PTX, "--heat", LAUNCH).stdout == drawn.stdout


def test_a_page_has_the_counts_by_line(tmp_path: Path) -> None:
    page = tmp_path / "k.html"
    done = run("view", PTX, "--heat", stats(tmp_path), "--no-sass", "--no-findings", "--no-graph", "-o", str(page))

    assert done.exit_code == 0, done.output
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found is not None
    data = json.loads(found[1])
    by_line = dict(zip(range(1, len(data["heat"]) + 1), data["heat"], strict=True))
    counted = json.loads(Path(stats(tmp_path)).read_text())["launches"][0]["stats"]
    assert {line: count for line, count in by_line.items() if count} == {row["line"]: row["threads"] for row in counted["lines"]}


def test_a_page_without_heat_has_none(tmp_path: Path) -> None:
    page = tmp_path / "k.html"
    assert run("view", PTX, "--no-sass", "--no-findings", "--no-graph", "-o", str(page)).exit_code == 0
    assert '"heat":null' in page.read_text()


@pytest.mark.parametrize("given", ["nothing.toml", "nothing.json", "{bad}"])
def test_what_cannot_be_counted(given: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("[1, 2]")
    done = run("cfg", PTX, "--heat", given.format(bad=tmp_path / "bad.json"))
    assert done.exit_code == 2
    assert "Traceback" not in done.output and done.output.startswith("ptxkit: ")


def test_two_colours_are_one_too_many() -> None:
    assert run("cfg", PTX, "--heat", LAUNCH, "--color", "loops").exit_code == 2
