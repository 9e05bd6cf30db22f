"""The probe `bounds` beside `compute-sanitizer --tool memcheck`: what both find of accesses past an array's end, and how long both take.

    python benchmarks/gpu/memcheck.py prepare -o PLAN.zip
    python benchmarks/gpu/memcheck.py run PLAN.zip MEMCHECK.json      # on the machine with the GPU

The launches are those of `fixtures/kernels/launch.toml`, larger. The seeded fault: of each array that is written, in turn, the last element
is not there. A fault counts where memcheck finds it; the probe must find it too.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import ctypes
import json
import os
import statistics
import subprocess
import sys
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import overhead

THREADS = 1 << 18
ALLOCATIONS = 8


def prepare(out: Path, only: Sequence[str]) -> None:
    """Writes the texts and launches."""
    from plan import LARGE, fixtures

    from ptxkit.rewriters.manifest import LaunchShape
    from ptxkit.rewriters.probing import instrument
    from ptxkit.syntax import parse

    jobs = []
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for fixture in fixtures(targets=("sm_90a",), only=only):
            kernels = [one for one in [overhead.larger(kernel, THREADS) for kernel in fixture.kernels] if one is not None]
            if fixture.name in overhead.SKIP or len(fixture.text) > LARGE or not kernels:
                continue
            made = instrument(parse(fixture.text), [f"bounds:allocations={ALLOCATIONS}"])
            if not made.manifest.probes[0].regions:
                continue
            archive.writestr(f"{fixture.name}.ptx", fixture.text.encode("utf-8", "surrogateescape"))
            archive.writestr(f"{fixture.name}.bounds.ptx", made.text.encode("utf-8", "surrogateescape"))
            layout = made.manifest.layout(LaunchShape())
            watch = {
                "symbol": layout.symbol,
                "symbol_bytes": made.manifest.symbol_bytes,
                "bytes": layout.bytes,
                "regions": [[one.offset, one.rows, one.stride] for one in layout.placed],
                "allocations": made.manifest.allocations,
                "variables": [name for name, _ in made.manifest.variables],
            }
            first = layout.placed[0]
            for kernel in kernels[:2]:
                jobs.append({"fixture": fixture.name, "kernel": kernel, "watch": watch, "counts": [first.offset, 8 * first.rows]})
        archive.writestr("plan.json", json.dumps(jobs))
    print(f"{out}: {len(jobs)} kernels")


# --- on the GPU -------------------------------------------------------------------------------------------------------------------


def child(plan: Path, number: int, bounds: bool, only_time: bool) -> None:
    """Runs a kernel as it is, timed, and then, unless `only_time`, once for each written array that is cut; a line for each."""
    import launcher as gpu

    with zipfile.ZipFile(plan) as archive:
        job = json.loads(archive.read("plan.json"))[number]
        text = archive.read(f"{job['fixture']}{'.bounds' if bounds else ''}.ptx").decode("utf-8", "surrogateescape")
    kernel = job["kernel"]
    gpu.start()
    module, function = gpu.load(text), gpu.Pointer()
    gpu.call("cuModuleGetFunction", ctypes.byref(function), module, kernel["entry"].encode())
    if kernel.get("shared", 0) > 48 << 10:
        gpu.call("cuFuncSetAttribute", function, gpu.MAX_DYNAMIC_SHARED, kernel["shared"])
    begin, end = gpu.Pointer(), gpu.Pointer()
    gpu.call("cuEventCreate", ctypes.byref(begin), 0)
    gpu.call("cuEventCreate", ctypes.byref(end), 0)
    written = [index for index, argument in enumerate(kernel["args"]) if argument.get("output")]

    def once(cut: int, turns: int) -> dict[str, Any]:
        given = overhead.Given(kernel, cut)
        buffer = gpu.arm(module, gpu.Watch(**job["watch"]), given.held, given.known) if bounds else None
        where = (gpu.Pointer * len(given.parameters))(*[ctypes.addressof(parameter) for parameter in given.parameters])
        least = float("inf")
        for _ in range(turns):
            for address, size in given.zeroed:
                gpu.call("cuMemsetD8_v2", gpu.Address(address), 0, gpu.Size(size))
            gpu.call("cuEventRecord", begin, None)
            gpu.call("cuLaunchKernel", function, *kernel["grid"], *kernel["block"], kernel.get("shared", 0), None, where, None)
            gpu.call("cuEventRecord", end, None)
            gpu.call("cuEventSynchronize", end)
            took = ctypes.c_float()
            gpu.call("cuEventElapsedTime", ctypes.byref(took), begin, end)
            least = min(least, took.value * 1000)
        found = 0
        if buffer is not None:
            offset, size = job["counts"]
            data = gpu.read(gpu.Address((buffer.value or 0) + offset), size)
            found = sum([int.from_bytes(data[at : at + 8], "little") for at in range(0, size, 8)])
        given.held.free()
        return {"cut": cut, "us": least, "found": found}

    for cut in [-1, *([] if only_time else written)]:
        print("BEGIN", cut, flush=True)
        try:
            print("LINE", json.dumps(once(cut, 5 if cut < 0 else 1)), flush=True)
        except gpu.DriverError as error:
            print("ERROR", cut, error, flush=True)
            return


MODES: dict[str, tuple[list[str], list[str]]] = {
    "plain": ([], []),
    "bounds": ([], ["--bounds"]),
    "memcheck": (["compute-sanitizer", "--tool", "memcheck"], []),
}


def ran(plan: Path, number: int, mode: str, until: float, *more: str) -> dict[str, Any]:
    """What a child said that ran a kernel as it is, with the probe or under memcheck; nothing if the time is up."""
    before, extra = MODES[mode]
    command = [*before, sys.executable, __file__, "child", str(plan), "--number", str(number), *extra, *more]
    environment = {**os.environ, "CUDA_MODULE_LOADING": "EAGER"}
    left = min(20.0, until - time.monotonic())
    text = ""
    if left > 0:
        with contextlib.suppress(subprocess.TimeoutExpired):
            text = subprocess.run(command, capture_output=True, text=True, check=False, timeout=left, env=environment).stdout
    found: dict[str, Any] = {"lines": [json.loads(line[5:]) for line in text.splitlines() if line.startswith("LINE ")]}
    found["errors"] = [line for line in text.splitlines() if line.startswith("ERROR ")][:3]
    # what memcheck says stands between the mark of a launch and the next
    found["found"] = {part.split()[0]: part.count("Invalid __global__") for part in text.split("BEGIN ")[1:]}
    return found


def run(plan: Path, out: Path, limit: float) -> None:
    """Runs kernels one after the other for their times, for a third of the time; then all with and without faults, side by side."""
    begun = time.monotonic()
    with zipfile.ZipFile(plan) as archive:
        jobs = json.loads(archive.read("plan.json"))
    results: list[dict[str, Any]] = []
    for number, job in enumerate(jobs):
        results.append({"fixture": job["fixture"], "kernel": job["kernel"]["entry"], "times": {}})
        for mode in MODES:
            lines = ran(plan, number, mode, begun + limit / 3, "--only-time")["lines"]
            results[-1]["times"][mode] = next((line["us"] for line in lines), None)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        pending = {(n, mode): pool.submit(ran, plan, n, mode, begun + limit) for n in range(len(jobs)) for mode in MODES}
        for (number, mode), said in pending.items():
            results[number][mode] = said.result()
    out.write_text(json.dumps({"seconds": round(time.monotonic() - begun, 1), "of": len(jobs), "results": results}))
    judge(out)


def judge(path: Path) -> None:
    """Prints what was found, and the ratio of the times."""
    record = json.loads(path.read_text())
    faults = missed = clean = alarms = late = 0
    ratios = []
    broken = []
    for one in record["results"]:
        if not one["memcheck"]["found"]:
            late += 1
            continue
        if one["memcheck"]["found"].get("-1") or not one["plain"]["lines"]:
            broken.append(f"{one['fixture']} {one['kernel']}")
            continue
        probe = {str(line["cut"]): line for line in one["bounds"]["lines"]}
        if probe.get("-1", {}).get("found"):
            alarms += 1
            print("false alarm:", one["fixture"], one["kernel"])
        clean += "-1" in probe
        for cut, count in one["memcheck"].get("found", {}).items():
            if cut == "-1" or not count:
                continue
            faults += 1
            if not probe.get(cut, {}).get("found"):
                missed += 1
                print("missed:", one["fixture"], one["kernel"], "argument", cut, one["bounds"]["errors"])
        alone = {name: next((line["us"] for line in one[name]["lines"] if line["cut"] == -1), None) for name in MODES}
        plain, ours, theirs = [one.get("times", alone).get(name) for name in MODES]
        if plain and ours and theirs:
            ratios.append((ours / plain, theirs / plain))
    print(
        f"{len(record['results']) - late} of {record['of']} kernels, {record['seconds']} s; "
        f"faults that memcheck found {faults}, of these missed {missed}"
    )
    print(f"left out, as the launch is wrong without a seeded fault: {broken}")
    print(f"kernels without a fault {clean}, false alarms {alarms}")
    if ratios:
        probe_mean, memcheck_mean = [statistics.geometric_mean(column) for column in zip(*ratios, strict=True)]
        said = f"slowdown, geometric mean of {len(ratios)} kernels: bounds x{probe_mean:.2f}, memcheck x{memcheck_mean:.2f}"
        print(f"{said}: ratio {probe_mean / memcheck_mean:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["prepare", "run", "judge", "child"])
    parser.add_argument("paths", type=Path, nargs="*")
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--limit", type=float, default=100, help="seconds in all")
    parser.add_argument("--only", nargs="*", default=[], help="names of fixtures")
    parser.add_argument("--number", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--bounds", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--only-time", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.what == "prepare":
        prepare(options.out, options.only)
    elif options.what == "run":
        run(options.paths[0], options.paths[1], options.limit)
    elif options.what == "child":
        child(options.paths[0], options.number, options.bounds, options.only_time)
    else:
        judge(options.paths[0])


if __name__ == "__main__":
    main()
