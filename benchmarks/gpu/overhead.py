"""How much longer instrumented kernels take, and how many more registers.

    python benchmarks/gpu/overhead.py prepare -o PLAN.zip
    python benchmarks/gpu/overhead.py run PLAN.zip OVERHEAD.json      # on the machine with the GPU
    python benchmarks/gpu/overhead.py judge OVERHEAD.json

The launches are those of `fixtures/kernels/launch.toml`, so many times larger that a kernel has millions of threads: grid, arrays, and the
numbers that say how long an array is. A kernel that such a launch breaks is left out, as are those that run for less than 30 µs. Original
and variant take turns; each time is the least of all turns. A kernel that moves more than 1 TB/s through its arrays counts as bound by
memory, the others as bound by computing.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import statistics
import time
import zipfile
from pathlib import Path
from typing import Any

THREADS = 1 << 23
MOST_BYTES = 2 << 30
TURNS = 12
SHORT = 30.0
"""Microseconds below which a kernel's time is mostly that of launching it."""
FAST = 1e12
"""Bytes a second."""
SETS: dict[str, tuple[str, ...]] = {
    "block-counts": ("block-counts",),
    "warp-masks": ("warp-masks",),
    "sectors": ("sectors",),
    "trace 1/64": ("memory-trace:sample=64",),
    "trace": ("memory-trace",),
    "bounds": ("bounds:allocations=8",),
}
ROWS = {"trace": 1 << 22}
"""Rows of the rings, where they are not as many as the probe says."""
SKIP = {"grid_sync", "dependent_launch", "printf_assert", "coop_groups", "debug_build", "debug_groups", "clocks", "cluster", "texture"}
"""Fixtures that can't be made larger: barriers over the grid, and what is not launched to be fast."""


def larger(kernel: dict[str, Any]) -> dict[str, Any] | None:
    """The launch so many times larger; None if it cannot be told how."""
    if any(not ({"buffer", "scalar"} & argument.keys()) for argument in kernel["args"]):
        return None
    lengths = {argument["length"] for argument in kernel["args"] if "buffer" in argument}
    threads = math.prod(kernel["grid"]) * math.prod(kernel["block"])
    factor = 1 << max(0, (THREADS // threads).bit_length() - 1)
    factor = min(factor, (1 << 26) // max(lengths, default=1))
    if factor < 2:
        return None
    args = []
    for argument in kernel["args"]:
        if "buffer" in argument:
            args.append({**argument, "length": argument["length"] * factor})
        else:
            value = argument["value"]
            args.append({**argument, "value": value * factor if value in lengths and value > 32 else value})
    return {**kernel, "grid": [kernel["grid"][0] * factor, *kernel["grid"][1:]], "args": args}


def prepare(out: Path) -> None:
    """Writes the texts and launches."""
    from plan import LARGE, fixtures

    from ptxkit.rewriters.manifest import LaunchShape
    from ptxkit.rewriters.probing import instrument
    from ptxkit.syntax.parsing import parse

    jobs = []
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for fixture in fixtures(targets=("sm_90a",)):
            kernels = [one for one in map(larger, fixture.kernels) if one is not None]
            if fixture.name in SKIP or len(fixture.text) > LARGE or not kernels:
                continue
            module = parse(fixture.text)
            archive.writestr(f"{fixture.name}.ptx", fixture.text.encode("utf-8", "surrogateescape"))
            variants = []
            for name, probes in SETS.items():
                made = instrument(module, probes)
                file = f"{fixture.name}.{name.replace('/', '-')}.ptx"
                archive.writestr(file, made.text.encode("utf-8", "surrogateescape"))
                watch = {}
                for kernel in kernels:
                    layout = made.manifest.layout(LaunchShape(tuple(kernel["grid"]), tuple(kernel["block"])), rows=ROWS.get(name))
                    watch[kernel["id"]] = {
                        "symbol": layout.symbol,
                        "symbol_bytes": made.manifest.symbol_bytes,
                        "bytes": layout.bytes,
                        "regions": [[one.offset, one.rows, one.stride] for one in layout.placed],
                        "heads": [
                            [one.offset + c * one.stride, one.region.header] for one in layout.placed for c in range(one.region.copies)
                        ]
                        if any(one.region.header for one in layout.placed)
                        else [],
                        "allocations": made.manifest.allocations,
                    }
                variants.append({"name": name, "ptx": file, "watch": watch})
            jobs.append({"fixture": fixture.name, "ptx": f"{fixture.name}.ptx", "kernels": kernels, "variants": variants})
        archive.writestr("plan.json", json.dumps(jobs))
    print(f"{out}: {len(jobs)} modules, {sum(len(job['kernels']) for job in jobs)} kernels")


# --- on the GPU -------------------------------------------------------------------------------------------------------------------


def child(plan: Path, number: int, out: Path, seconds: float) -> None:
    """Times the kernels of one module; a line for each, as soon as it is known."""
    import launcher as gpu

    with zipfile.ZipFile(plan) as archive, out.open("a") as lines:
        job = json.loads(archive.read("plan.json"))[number]
        gpu.start()

        def load(name: str) -> gpu.Pointer:
            return gpu.load(archive.read(name).decode("utf-8", "surrogateescape"))

        begin, end = gpu.Pointer(), gpu.Pointer()
        gpu.call("cuEventCreate", ctypes.byref(begin), 0)
        gpu.call("cuEventCreate", ctypes.byref(end), 0)
        original = load(job["ptx"])
        variants = [(variant, load(variant["ptx"])) for variant in job["variants"]]
        for kernel in job["kernels"]:
            held = gpu.Held()
            parameters: list[Any] = []
            known: list[tuple[int, int]] = []
            for index, argument in enumerate(kernel["args"]):
                if "scalar" in argument:
                    parameters.append(ctypes.c_int(argument["value"]))
                    continue
                count = min(argument["length"], 1 << 16)
                part = gpu.filled(argument["buffer"], count, argument["fill"], argument.get("high"), index + 1)
                size = len(part) // count * argument["length"]
                data = (part * (argument["length"] // count + 1))[:size]
                parameters.append(held.buffer(data))
                known.append((parameters[-1].value, size))

            def ready(module: Any, kernel: dict[str, Any] = kernel) -> Any:
                function = gpu.Pointer()
                gpu.call("cuModuleGetFunction", ctypes.byref(function), module, kernel["entry"].encode())
                if kernel.get("shared", 0) > 48 << 10:
                    gpu.call("cuFuncSetAttribute", function, gpu.MAX_DYNAMIC_SHARED, kernel["shared"])
                return function

            def attribute(function: Any, which: int) -> int:
                value = ctypes.c_int()
                gpu.call("cuFuncGetAttribute", ctypes.byref(value), which, function)
                return value.value

            def timed(function: Any, kernel: dict[str, Any] = kernel, parameters: list[Any] = parameters) -> float:
                where = (gpu.Pointer * len(parameters))(*[ctypes.addressof(parameter) for parameter in parameters])
                grid, block = kernel["grid"], kernel["block"]
                gpu.call("cuEventRecord", begin, None)
                gpu.call("cuLaunchKernel", function, *grid, *block, kernel.get("shared", 0), None, where, None)
                gpu.call("cuEventRecord", end, None)
                gpu.call("cuEventSynchronize", end)
                took = ctypes.c_float()
                gpu.call("cuEventElapsedTime", ctypes.byref(took), begin, end)
                return took.value * 1000

            plain = ready(original)
            for _ in range(3):
                first = timed(plain)
            if first > 50_000 or first < SHORT / 2:
                held.free()
                lines.write(json.dumps({"kernel": kernel["entry"], "left out": f"{first:.0f} us"}) + "\n")
                continue
            moved = sum(size for _, size in known)
            line: dict[str, Any] = {"fixture": job["fixture"], "kernel": kernel["entry"], "bytes": moved, "sets": {}}
            line["registers"], line["local"] = attribute(plain, 4), attribute(plain, 3)
            for variant, module in variants:
                watch = variant["watch"][kernel["id"]]
                heads = watch.pop("heads", [])
                inner = gpu.Held()
                buffer = gpu.arm(module, gpu.Watch(**watch), inner, list(known))
                function = ready(module)
                base, probed = [], []
                for _ in range(TURNS):
                    for at, size in heads:
                        gpu.call("cuMemsetD8_v2", gpu.Address((buffer.value or 0) + at), 0, gpu.Size(size))
                    base.append(timed(plain))
                    probed.append(timed(function))
                inner.free()
                line["sets"][variant["name"]] = {
                    "original": min(base),
                    "instrumented": min(probed),
                    "registers": attribute(function, 4),
                    "local": attribute(function, 3),
                }
            held.free()
            lines.write(json.dumps(line) + "\n")
            lines.flush()


def run(plan: Path, out: Path, limit: float) -> None:
    """Times all modules, each in a process of its own; stops beginning new ones after `limit` seconds."""
    import os
    import subprocess
    import sys
    import tempfile

    begun = time.monotonic()
    environment = {**os.environ, "CUDA_MODULE_LOADING": "EAGER"}
    with zipfile.ZipFile(plan) as archive:
        jobs = json.loads(archive.read("plan.json"))
    found, broken = [], []
    for number, job in enumerate(jobs):
        if time.monotonic() - begun > limit:
            broken.append(f"{job['fixture']}: no time")
            continue
        with tempfile.TemporaryDirectory() as folder:
            part = Path(folder) / "lines"
            part.touch()
            command = [sys.executable, __file__, "child", str(plan), str(part), "--number", str(number)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
                if done.returncode:
                    broken.append(f"{job['fixture']}: {(done.stderr.strip().splitlines() or [str(done.returncode)])[-1][:300]}")
            except subprocess.TimeoutExpired:
                broken.append(f"{job['fixture']}: out of time")
            found += [json.loads(line) for line in part.read_text().splitlines()]
    out.write_text(json.dumps({"seconds": round(time.monotonic() - begun, 1), "found": found, "broken": broken}))
    judge(out)


def judge(path: Path) -> None:
    """Prints the geometric means."""
    record = json.loads(path.read_text())
    found = [line for line in record["found"] if "sets" in line]
    left_out = [line for line in record["found"] if "sets" not in line]
    print(f"{len(found)} kernels, {record['seconds']} s; left out: {left_out}; {record['broken']}")
    for name in SETS:
        for kind in ("memory", "computing"):
            ratios, more, spills = [], [], 0
            for line in found:
                one = line["sets"].get(name)
                if one is None or (line["bytes"] / (one["original"] * 1e-6) > FAST) != (kind == "memory") or one["original"] < SHORT:
                    continue
                ratios.append(one["instrumented"] / one["original"])
                more.append(one["registers"] - line["registers"])
                spills += one["local"] > line["local"]
            if ratios:
                mean = statistics.geometric_mean(ratios)
                said = f"{name:14} {kind:10} {len(ratios):3} kernels  x{mean:.3f}  worst x{max(ratios):.2f}"
                print(f"{said}  registers +{statistics.median(more)}  new local {spills}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["prepare", "run", "judge", "child"])
    parser.add_argument("paths", type=Path, nargs="*")
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--limit", type=float, default=150, help="seconds after which no more modules are begun")
    parser.add_argument("--number", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.what == "prepare":
        prepare(options.out)
    elif options.what == "run":
        run(options.paths[0], options.paths[1], options.limit)
    elif options.what == "child":
        child(options.paths[0], options.number, options.paths[1], options.limit)
    else:
        judge(options.paths[0])


if __name__ == "__main__":
    main()
