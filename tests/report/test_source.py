"""Ten kernels with -lineinfo and templates: every finding speaks of the program as it was written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from ptxkit.cli import main

SOURCE = Path(__file__).resolve().parents[2] / "fixtures" / "source"
EXPECTED = {
    "apply": ("my::apply<float, 64>", {8}),
    "grouped": ("grouped<float, 32>", {9}),
    "helpers": ("helped<double>", {6}),
    "instances": ("halves<float, 32>", {6}),
    "lambdas": ("transform<float, launch(float*)::'lambda'(float)>", {8, 9}),
    "masked": ("(anonymous namespace)::masked<float>", {9}),
    "neighbour": ("neighbour<float>", {8}),
    "pipelined": ("pipelined<2>", {13}),
    "shuffled": ("shuffled<float>", {6}),
    "unrolled": ("unrolled<float, 4>", {9}),
}
"""The kernel of the findings and their lines."""


def run(name: str, *options: str) -> str:
    return CliRunner().invoke(main, ["lint", str(SOURCE / f"{name}.sm_90a.ptx"), "--no-cache", *options]).stdout


def test_there_are_ten() -> None:
    assert {path.stem for path in SOURCE.glob("*.cu")} == set(EXPECTED) and len(EXPECTED) == 10


@pytest.mark.parametrize("name", EXPECTED)
def test_headlines(name: str) -> None:
    kernel, lines = EXPECTED[name]
    headlines = [line for line in run(name).splitlines() if re.match(r"\S+: (?:error|warning|info)\[", line)]

    assert headlines
    found = [re.match(r"(\S+?):(\d+)(?::\d+)?: \w+\[\w+\] (.*)", line) for line in headlines]
    assert all(one is not None and one[1].endswith(f"source/{name}.cu") and one[3].startswith(f"{kernel}: ") for one in found)
    assert {int(one[2]) for one in found if one is not None} == lines


@pytest.mark.parametrize("name", EXPECTED)
def test_annotations_are_in_the_source(name: str) -> None:
    _, lines = EXPECTED[name]
    annotations = run(name, "--format", "github").splitlines()

    found = [re.match(r"::\w+ file=([^,]+),line=(\d+),", line) for line in annotations]
    assert found and all(one is not None and one[1].endswith(f"source/{name}.cu") for one in found)
    assert {int(one[2]) for one in found if one is not None} == lines


@pytest.mark.parametrize("name", EXPECTED)
def test_sarif_is_in_the_source(name: str) -> None:
    kernel, lines = EXPECTED[name]
    results = json.loads(run(name, "--format", "sarif"))["runs"][0]["results"]
    places = [result["locations"][0] for result in results]

    assert places and all(one["physicalLocation"]["artifactLocation"]["uri"].endswith(f"source/{name}.cu") for one in places)
    assert {one["physicalLocation"]["region"]["startLine"] for one in places} == lines
    assert {one["logicalLocations"][0]["name"] for one in places} == {kernel}
    assert all("the PTX" in [one["message"]["text"] for one in result["relatedLocations"]] for result in results)


def test_shuffles_whose_masks_differ_are_one_finding() -> None:
    assert "source/masked.cu:7:" in run("masked")


def test_copies_and_instances_are_one_finding() -> None:
    assert run("unrolled").count("(smem-race)") == 1
    assert "note: also in halves<double, 64>, halves<int, 96>" in run("instances")
    assert run("instances", "--report-at", "ptx").count("(aligned-barrier-divergent)") == 3


def test_headers_are_folded() -> None:
    text = run("grouped")

    assert "through " in text and "cooperative_groups" not in text.splitlines()[0]
