"""`ptxkit profile` as a user meets it; the GPU is the machine."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ptxkit.cli import main

ROOT = Path(__file__).resolve().parents[2]
SCALE = str(ROOT / "fixtures" / "profiling" / "scale.ptx")
LAUNCH = str(ROOT / "fixtures" / "profiling" / "launch.toml")

pytestmark = pytest.mark.usefixtures("stand_in")


def run(*arguments: str, path: str = SCALE, launch: str = LAUNCH, probes: tuple[str, ...] = ("block-counts",)) -> Result:
    chosen = [word for probe in probes for word in ("--probe", probe)]
    return CliRunner().invoke(main, ["profile", path, "--launch", launch, *chosen, "--on", "gpu", "--repeat", "1", *arguments])


def test_tables_and_files(tmp_path: Path) -> None:
    result = run(
        "--csv", str(tmp_path / "csv"), "--json", str(tmp_path / "o.json"), "--trace", str(tmp_path / "t.json"),
        probes=("block-counts", "cycles"),
    )  # fmt: skip

    assert result.exit_code == 0, result.output
    assert "scale <<<3, 50>>> outputs equal, 1000.0 µs → 2000.0 µs (2.00x), 16 → 20 registers" in result.stdout
    assert "ptxkit: 1/1 scale: equal" in result.stderr
    with (tmp_path / "csv" / "0.scale.block-counts.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    # 150 threads come, 140 of them go on; the loop is left after i % 4 rounds
    assert [int(row["count"]) for row in rows] == [150, 140, 350, 210, 140]
    document = json.loads((tmp_path / "o.json").read_text())
    (launch,) = document["launches"]
    assert (document["version"], launch["outcome"], launch["overhead"]) == (1, "equal", 2.0)
    assert {table["name"] for table in launch["tables"]} == {"block-counts", "warp-cycles", "block-cycles"}
    trace = json.loads((tmp_path / "t.json").read_text())
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert [event["name"] for event in slices[:2]] == ["scale", "scale"]
    assert {event["name"] for event in slices} >= {"block 0 warp 0", "block 2 warp 1", "block 1"}
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in slices)


@pytest.mark.parametrize(
    ("what", "code", "words"),
    [
        ("wrong", 1, "outputs different"),
        ("noise", 1, "outputs not repeatable"),
        ("hang original", 1, "running the original: no end after 15 s; the instrumented kernel did not fail"),
        ("hang instrumented", 1, "running the instrumented kernel: no end after 15 s"),
        ("crash original", 1, "loading the original: it was killed by SIGABRT; the instrumented kernel did not fail"),
        ("crash instrumented", 1, "loading the instrumented kernel: it was killed by SIGABRT"),
        ("refuse instrumented", 1, "loading the instrumented kernel: cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX: ptxas fatal : no good"),
        ("no device", 2, "no CUDA driver (cuInit: CUDA_ERROR_NO_DEVICE)"),
        ("no gpu", 2, "the CUDA driver sees no GPU"),
        ("no memory", 1, "the arrays: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY"),
    ],
)
def test_what_goes_wrong(monkeypatch: pytest.MonkeyPatch, what: str, code: int, words: str) -> None:
    monkeypatch.setenv("STAND_IN", what)
    # long enough for a busy computer to start Python and to run what does not hang
    result = run("--timeout", "15" if "hang" in what else "60")
    assert (result.exit_code, words in result.output) == (code, True), result.output


def test_a_kernel_that_touches_what_is_not_its_own(tmp_path: Path) -> None:
    launch = tmp_path / "launch.toml"
    launch.write_text(Path(LAUNCH).read_text().replace("length = 140", "length = 14"))
    result = run(launch=str(launch))
    assert result.exit_code == 1
    assert "running the original: cuCtxSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS; running the instrumented kernel: " in result.stdout
    result = run("--json", str(tmp_path / "o.json"), launch=str(launch), probes=("bounds:act=trap",))
    assert result.exit_code == 1
    (found,) = json.loads((tmp_path / "o.json").read_text())["launches"]
    first = next(table for table in found["tables"] if table["name"] == "bounds-first")
    row = {column["name"]: column["values"] for column in first["columns"]}
    assert (row["line"], row["failure"], row["block"], row["thread"]) == ([33], ["out of bounds"], [0], [14])


def test_no_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "cuda" / "bindings"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "driver.py").write_text("def cuInit(flags):\n    raise RuntimeError('Failed to dlopen libcuda.so.1')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    result = run()
    assert result.exit_code == 2
    assert "ptxkit: scale: no CUDA driver (Failed to dlopen libcuda.so.1)" in result.stderr
    (package / "driver.py").write_text("raise ImportError('no such module')\n")
    result = run()
    assert result.exit_code == 2
    assert "cuda-bindings is not installed (no such module): pip install 'ptxkit[driver]'" in result.stderr


def test_bad_input(tmp_path: Path) -> None:
    launch = tmp_path / "launch.toml"
    for text, words in (
        ("[[kernel]]\nentry = 3\n", "launch.toml:2:1: error[X002] `entry` must be a string"),
        ('[[kernel]]\nentry = "other"\ngrid = 1\nblock = 1\n', "no kernel 'other'; there is scale"),
        ('[[kernel]]\nfile = "f"\nentry = "scale"\ngrid = 1\nblock = 1\n', "has no launch for"),
        ('[[kernel]]\nentry = "scale"\ngrid = 1\nblock = 1\n', "scale has 4 parameters, the launch 0 arguments"),
    ):
        launch.write_text(text)
        result = run(launch=str(launch))
        assert result.exit_code == 2 and words in result.stderr, result.output
    assert run(launch="nowhere.toml").exit_code == 2
    assert run(path="nowhere.ptx").exit_code == 2
    assert run("--kernel", "other").exit_code == 2
    result = run(probes=("no-such-probe",))
    assert result.exit_code == 2 and "no probe is called 'no-such-probe'" in result.stderr
    garbage = tmp_path / "garbage.ptx"
    garbage.write_text("\0 { this is not PTX")
    assert run(path=str(garbage)).exit_code == 2


def test_what_cannot_be_written(tmp_path: Path) -> None:
    result = run("--json", str(tmp_path / "nowhere" / "o.json"))
    assert result.exit_code == 2 and "nowhere" in result.stderr and "Traceback" not in result.output


def test_a_name_that_is_no_file_name(tmp_path: Path) -> None:
    copy = tmp_path / "copy.ptx"
    shutil.copy(SCALE, copy)
    result = run("--csv", str(tmp_path), "--top", "1", path=str(copy))
    assert result.exit_code == 0 and "1 of 5 rows" in result.stdout
    assert [path.name for path in tmp_path.glob("*.csv")] == ["0.scale.block-counts.csv"]
