"""What `ptxkit verify` prints of ten kernels compiled with `-lineinfo`: the kernel, the lines of the source, each cause once."""

from __future__ import annotations

import csv
import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("numpy")

from ptxkit.cli import main

RACES = Path(__file__).resolve().parents[3] / "shared" / "races"
KERNELS = {
    "gpuverify-fresh_arrays_fail_array": "foo",
    "gpuverify-memcpy_fail_overstep": "k",
    "gpuverify-memcpy_lentoobig": "k",
    "gpuverify-memcpy_notexactdiv": "k",
    "gpuverify-warpsync_bad_inter_group": "foo",
    "gvmut-CUDA20_histogram64_mergeHistogram64Kernel": "mergeHistogram64Kernel",
    "sanitizer-Racecheck_block_error": "sumKernel",
    "sanitizer-Racecheck_warp_error": "sumKernel",
    "scor-race_interblock_blkatom": "kmain",
    "scor-race_interblock_blklock_waw": "kmain",
}


def launch(name: str) -> list[str]:
    with (RACES / "labels.tsv").open(newline="") as lines:
        row = next(row for row in csv.DictReader(lines, delimiter="\t") if row["file"] == f"{name}.ptx")
    given = [f"--param={name}={number}" for name, number in json.loads(row["params"]).items()]
    return ["verify", str(RACES / "ptx" / row["file"]), "--grid", row["grid"], "--block", row["block"], "--budget", "60", *given]


@pytest.mark.skipif(not RACES.is_dir(), reason="../shared/races is not there")
@pytest.mark.parametrize("name", KERNELS)
def test_a_verdict_is_about_the_source(name: str) -> None:
    result = CliRunner().invoke(main, launch(name))
    headlines = [line for line in result.stdout.splitlines() if re.search(r": (error|warning|info)\[", line)]
    causes = [re.sub(r"\((\d+,?)+\)|\d+ ", "", line) for line in headlines]

    assert (result.exit_code, result.stdout.splitlines()[0]) == (1, f"{KERNELS[name]}: refuted")
    assert headlines
    assert len(set(causes)) == len(causes)
    assert not [
        line for line in result.stdout.splitlines() if "_Z" in line and "replay: " not in line and "|" not in line and "= " not in line
    ]
    assert all(f"] {KERNELS[name]}: " in line for line in headlines)
    assert len(re.findall(r"^  = .*\.cuh?:\d+", result.stdout, re.MULTILINE)) >= len(headlines)
    assert "_param_" not in "".join(headlines)


@pytest.mark.skipif(not RACES.is_dir(), reason="../shared/races is not there")
@pytest.mark.parametrize("name", ["gpuverify-memcpy_lentoobig", "sanitizer-Racecheck_warp_error", "scor-race_interblock_blkatom"])
def test_a_replay_works_as_it_is_printed(name: str) -> None:
    first = CliRunner().invoke(main, launch(name)).stdout
    command = re.search(r"^  replay: ptxkit (.*)$", first, re.MULTILINE)
    assert command is not None

    assert CliRunner().invoke(main, shlex.split(command[1])).stdout == first


@pytest.mark.skipif(not RACES.is_dir(), reason="../shared/races is not there")
@pytest.mark.parametrize(
    ("name", "findings", "why"),
    [
        ("gpuverify-reduced_strength_with_requires", 2, "happens with `param_1` = 769, and may not happen with other inputs"),
        ("gpuverify-globalarray_fail", 1, "happens only if the host writes `A` before the launch"),
        ("gvbench-CUDA50_6_Advanced_segmentationTreeThrust_getVerticesMapping", 1, "only where words of `param_1` and `param_0` are equal"),
    ],
)
def test_what_is_undecided_says_each_thing_once(name: str, findings: int, why: str) -> None:
    """Copies of an unrolled loop are one finding; the reasons do not repeat it."""
    lines = CliRunner().invoke(main, launch(name)).stdout.splitlines()
    reasons = [line for line in lines if line.startswith("  undecided: ")]

    assert lines[0].endswith(": undecided")
    assert sum("data race: " in line for line in lines) == findings
    assert any(why in line for line in reasons)
    assert len([line for line in lines if "give what is missing" in line]) <= 1
