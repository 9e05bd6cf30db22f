"""The profiling pipeline on a GPU: the command on fixtures, the examples, and the tests that need a GPU.

    python benchmarks/gpu/pipeline.py RECORD.json [--limit SECONDS]

Every step is a command of its own, with a time limit. What is not installed there (CuPy, cuda.core, Triton, pytest) is recorded as such.
The exit status is 1 if a step failed that could be made.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import attrs

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "fixtures" / "kernels"


@attrs.frozen
class Step:
    """A command; `needs` are the packages that it imports."""

    name: str
    command: tuple[str, ...]
    needs: tuple[str, ...] = ()
    limit: float = 60.0
    profile: bool = False
    """Whether it is a `ptxkit profile`: then what it found is in the record."""


def profiled(fixture: str, *probes: str) -> Step:
    """`ptxkit profile` of all kernels of a fixture."""
    path = KERNELS / f"{fixture}.ptx"
    chosen = [word for probe in probes for word in ("--probe", probe)]
    command = ("-m", "ptxkit", "profile", str(path), "--launch", str(KERNELS / "launch.toml"), *chosen, "--repeat", "5")
    return Step(f"profile {fixture} {' '.join(probes)}", command, ("cuda.bindings",), profile=True)


def example(name: str, *needs: str) -> Step:
    return Step(f"example {name}", (str(ROOT / "examples" / f"{name}.py"),), needs)


STEPS = (
    Step("gpu tests", ("-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", str(ROOT / "tests" / "profiling")), ("pytest",), 100.0),
    profiled("reduce.sm_90a", "block-counts", "warp-masks"),
    profiled("softmax.sm_90a", "block-counts", "edge-counts", "cycles"),
    profiled("transpose.sm_80", "sectors", "bank-conflicts"),
    profiled("histogram.sm_80", "memory-trace:sample=4", "arguments"),
    profiled("texture.sm_90a", "block-counts"),
    profiled("tma_tensor.sm_90a", "block-counts"),
    profiled("elementwise.sm_80", "values", "bounds"),
    profiled("triton_softmax.sm_90a", "block-counts", "sectors"),
    example("driver", "cuda.bindings"),
    example("cupy_raw_module", "cupy"),
    example("cuda_core_module", "cuda.core", "numpy"),
    example("triton_kernels", "triton", "torch"),
)


def missing(packages: tuple[str, ...]) -> list[str]:
    """Those of the packages that are not installed."""
    found = []
    for package in packages:
        try:
            if importlib.util.find_spec(package) is None:
                found.append(package)
        except ModuleNotFoundError:
            found.append(package)
    return found


def made(step: Step, folder: Path) -> dict[str, Any]:
    """What came of a step."""
    lacking = missing(step.needs)
    if lacking:
        return {"step": step.name, "result": "not installed", "missing": lacking}
    files = {"json": folder / "profile.json", "trace": folder / "trace.json"}
    command = [sys.executable, *step.command]
    if step.profile:
        command += ["--json", str(files["json"]), "--trace", str(files["trace"]), "--csv", str(folder / "csv")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])}
    begun = time.monotonic()
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=step.limit, check=False)
    except subprocess.TimeoutExpired as late:
        said = (late.stdout or b"")[-2000:] if isinstance(late.stdout, bytes) else ""
        return {"step": step.name, "result": "too long", "seconds": step.limit, "output": str(said)}
    found: dict[str, Any] = {
        "step": step.name,
        "result": "passed" if done.returncode == 0 else "failed",
        "code": done.returncode,
        "seconds": round(time.monotonic() - begun, 1),
        "output": (done.stdout[-6000:] + done.stderr[-3000:]) if done.returncode else done.stdout[-3000:],
    }
    if step.profile and files["json"].exists():
        found["launches"] = [without_rows(launch) for launch in json.loads(files["json"].read_text())["launches"]]
        found["slices"] = len(re.findall(r'"ph": "X"', files["trace"].read_text()))
        for path in files.values():
            path.unlink()
    return found


def without_rows(launch: dict[str, Any]) -> dict[str, Any]:
    """A launch with the first rows of its tables only."""
    tables = []
    for table in launch["tables"]:
        columns = [{**column, "values": column["values"][:5]} for column in table["columns"] if column["name"] != "addresses"]
        rows = len(table["columns"][0]["values"]) if table["columns"] else 0
        tables.append({**table, "columns": columns, "rows": rows})
    return {**launch, "tables": tables}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("record", type=Path)
    arguments.add_argument("--limit", type=float, default=200, help="seconds for all of it; what does not fit is left out")
    arguments.add_argument("--only", default="", help="a regular expression for the names of steps")
    options = arguments.parse_args()
    begun = time.monotonic()
    record: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for step in STEPS:
            if not re.search(options.only, step.name):
                continue
            left = options.limit - (time.monotonic() - begun)
            limited = attrs.evolve(step, limit=min(step.limit, left))
            record.append(made(limited, Path(folder)) if left > 5 else {"step": step.name, "result": "no time left"})
            result = record[-1]
            print(f"{result['result']:14} {result.get('seconds', '')!s:6} {step.name}  {result.get('missing', '')}", flush=True)
            if result["result"] in ("failed", "too long"):
                print(result["output"], flush=True)
            for launch in result.get("launches", ()):
                ratio = launch["overhead"]
                print(f"    {launch['kernel']}: {launch['outcome']}, {ratio and round(ratio, 2)}x  {launch['detail']}", flush=True)
            options.record.write_text(json.dumps({"steps": record}, indent=1) + "\n")
    counts = {kind: sum([one["result"] == kind for one in record]) for kind in sorted({one["result"] for one in record})}
    print(counts, f"{time.monotonic() - begun:.0f} s")
    sys.exit(any(one["result"] in ("failed", "too long", "no time left") for one in record))


if __name__ == "__main__":
    main()
