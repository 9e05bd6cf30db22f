"""How much longer instrumented kernels take, and how many more registers.

    python benchmarks/gpu/overhead.py prepare -o PLAN.zip
    python benchmarks/gpu/overhead.py run PLAN.zip OVERHEAD.json [--from MODULE]     # on the machine with the GPU
    python benchmarks/gpu/overhead.py judge OVERHEAD.json…

The launches are those of `fixtures/kernels/launch.toml`, so many times larger that a kernel has 1, 8, 32 or 128 million threads, the first
with which it runs for half a millisecond: grid, arrays, and the numbers that say how long an array is. A kernel that such a launch breaks
is left out, as are those that never run for 100 µs. What a kernel writes and began as zeros is zeroed before each launch. Original and
variant take turns; each time is the least of all turns. A kernel that moves more than half of what the memory can (4.8 TB/s), each array
once, counts as bound by memory, the others as bound by computing.
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

THREADS = (1 << 20, 1 << 23, 1 << 25, 1 << 27)
MOST_ITEMS = 1 << 28
MOST_BYTES = 1 << 33
TURNS = 8
SHORT, LONG = 100.0, 20_000.0
"""Microseconds: what runs for less is mostly launched, what runs for more takes too long."""
LATE = 40
"""Seconds for the kernels of a module."""
ENOUGH = 500.0
"""Microseconds from which on a launch is not made larger still."""
FAST = 2.4e12
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


def larger(kernel: dict[str, Any], most: int = THREADS[0]) -> dict[str, Any] | None:
    """The launch so many times larger that it has about `most` threads; None if it cannot be told how."""
    if any(not ({"buffer", "scalar"} & argument.keys()) for argument in kernel["args"]):
        return None
    arrays = [argument for argument in kernel["args"] if "buffer" in argument]
    # an array that neither holds anything nor is written is not worked on
    lengths = {argument["length"] for argument in arrays if argument.get("output") or argument["fill"] != "zeros"}
    threads = math.prod(kernel["grid"]) * math.prod(kernel["block"])
    factor = 1 << max(0, (most // threads).bit_length() - 1)
    factor = min(factor, MOST_ITEMS // max(lengths, default=1), MOST_BYTES // max(1, sum([size_of(argument) for argument in arrays])))
    if factor < 2:
        return None
    args = []
    for argument in kernel["args"]:
        if "buffer" in argument:
            args.append({**argument, "length": argument["length"] * factor})
        else:
            value = argument["value"]
            # the length of a row may be that of an array, too
            counts = value in lengths and value > 32 and 2 * value >= max(lengths)
            args.append({**argument, "value": value * factor if counts else value})
    return {**kernel, "grid": [kernel["grid"][0] * factor, *kernel["grid"][1:]], "args": args}


def size_of(argument: dict[str, Any]) -> int:
    """The bytes of an array."""
    return argument["length"] * int(argument["buffer"].lstrip("iubf")) // 8  # type: ignore[no-any-return]


def prepare(out: Path) -> None:
    """Writes the texts and launches."""
    from plan import LARGE, fixtures

    from ptxkit.rewriters.manifest import LaunchShape
    from ptxkit.rewriters.probing import instrument
    from ptxkit.syntax import parse

    jobs = []
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for fixture in fixtures(targets=("sm_90a",)):
            kernels = [one for one in map(larger, fixture.kernels) if one is not None]
            sizes = {one["id"]: [made for made in [larger(one, threads) for threads in THREADS] if made] for one in fixture.kernels}
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
            names = {"fixture": fixture.name, "ptx": f"{fixture.name}.ptx"}
            jobs.append({**names, "kernels": kernels, "sizes": sizes, "variants": variants})
        archive.writestr("plan.json", json.dumps(jobs))
    print(f"{out}: {len(jobs)} modules, {sum(len(job['kernels']) for job in jobs)} kernels")


# --- on the GPU -------------------------------------------------------------------------------------------------------------------


def child(plan: Path, number: int, out: Path, only_load: bool, start: int) -> None:
    """Times the kernels of one module from number `start` on; a line for each, as soon as it is known.

    With `only_load`, has its texts compiled and kept.
    """
    import launcher as gpu

    with zipfile.ZipFile(plan) as archive, out.open("a") as lines:
        job = json.loads(archive.read("plan.json"))[number]
        gpu.start()

        def load(name: str) -> gpu.Pointer:
            return gpu.load(archive.read(name).decode("utf-8", "surrogateescape"))

        original = load(job["ptx"])
        variants = [(variant, load(variant["ptx"])) for variant in job["variants"]]
        if only_load:
            return
        begin, end = gpu.Pointer(), gpu.Pointer()
        gpu.call("cuEventCreate", ctypes.byref(begin), 0)
        gpu.call("cuEventCreate", ctypes.byref(end), 0)

        def function_of(module: Any, kernel: dict[str, Any]) -> Any:
            function = gpu.Pointer()
            gpu.call("cuModuleGetFunction", ctypes.byref(function), module, kernel["entry"].encode())
            if kernel.get("shared", 0) > 48 << 10:
                gpu.call("cuFuncSetAttribute", function, gpu.MAX_DYNAMIC_SHARED, kernel["shared"])
            return function

        def attribute(function: Any, which: int) -> int:
            value = ctypes.c_int()
            gpu.call("cuFuncGetAttribute", ctypes.byref(value), which, function)
            return value.value

        def timed(function: Any, kernel: dict[str, Any], given: Given) -> float:
            where = (gpu.Pointer * len(given.parameters))(*[ctypes.addressof(parameter) for parameter in given.parameters])
            for address, size in given.zeroed:
                gpu.call("cuMemsetD8_v2", gpu.Address(address), 0, gpu.Size(size))
            gpu.call("cuEventRecord", begin, None)
            gpu.call("cuLaunchKernel", function, *kernel["grid"], *kernel["block"], kernel.get("shared", 0), None, where, None)
            gpu.call("cuEventRecord", end, None)
            gpu.call("cuEventSynchronize", end)
            took = ctypes.c_float()
            gpu.call("cuEventElapsedTime", ctypes.byref(took), begin, end)
            return took.value * 1000

        for at in range(start, len(job["kernels"])):
            kernel = job["kernels"][at]
            lines.write(json.dumps({"begun": kernel["entry"], "number": at}) + "\n")
            lines.flush()
            plain = function_of(original, kernel)
            given, first = Given(kernel), 0.0
            for size in job["sizes"][kernel["id"]]:
                if size["grid"] == kernel["grid"] and first:
                    continue
                given.held.free()
                kernel, given = size, Given(size)
                first = min([timed(plain, kernel, given) for _ in range(3)])
                if first > ENOUGH:
                    break
            if first > LONG or first < SHORT:
                given.held.free()
                lines.write(json.dumps({"kernel": kernel["entry"], "left out": f"{first:.0f} us"}) + "\n")
                continue
            line: dict[str, Any] = {"fixture": job["fixture"], "kernel": kernel["entry"], "grid": kernel["grid"], "sets": {}}
            line["bytes"] = sum([size for _, size in given.known])
            line["registers"], line["local"] = attribute(plain, 4), attribute(plain, 3)
            for variant, module in variants:
                watch = dict(variant["watch"][kernel["id"]])
                heads = watch.pop("heads", [])
                inner = gpu.Held()
                buffer = gpu.arm(module, gpu.Watch(**watch), inner, list(given.known))
                function = function_of(module, kernel)
                base, probed = [], []
                for _ in range(TURNS if first < LONG / 10 else 3):
                    for where, many in heads:
                        gpu.call("cuMemsetD8_v2", gpu.Address((buffer.value or 0) + where), 0, gpu.Size(many))
                    base.append(timed(plain, kernel, given))
                    probed.append(timed(function, kernel, given))
                inner.free()
                line["sets"][variant["name"]] = {
                    "original": min(base),
                    "instrumented": min(probed),
                    "registers": attribute(function, 4),
                    "local": attribute(function, 3),
                }
            given.held.free()
            lines.write(json.dumps(line) + "\n")
            lines.flush()


class Given:
    """The arguments of a launch: arrays hold the same 65,536 elements again and again."""

    def __init__(self, kernel: dict[str, Any], cut: int = -1) -> None:
        """Fills all arrays; the array `cut` has one element less."""
        import launcher as gpu

        self.held = gpu.Held()
        self.parameters: list[Any] = []
        self.known: list[tuple[int, int]] = []
        """Address and bytes of each array."""
        self.zeroed: list[tuple[int, int]] = []
        """Those that are written and begin as zeros."""
        for index, argument in enumerate(kernel["args"]):
            if "scalar" in argument:
                self.parameters.append(ctypes.c_int(argument["value"]))
                continue
            count = min(argument["length"], 1 << 16)
            part = gpu.filled(argument["buffer"], count, argument["fill"], argument.get("high"), index + 1)
            size = len(part) // count * (argument["length"] - (index == cut))
            address = self.held.zeros(size)
            start, there = address.value or 0, min(len(part), size)
            gpu.call("cuMemcpyHtoD_v2", address, part, gpu.Size(there))
            while there < size:
                more = min(there, size - there)
                gpu.call("cuMemcpyDtoD_v2", gpu.Address(start + there), address, gpu.Size(more))
                there += more
            self.parameters.append(address)
            self.known.append((start, size))
            if argument.get("output") and argument["fill"] == "zeros":
                self.zeroed.append((start, size))


def run(plan: Path, out: Path, limit: float, first: str) -> None:
    """Times all modules, or those from `first` on, each in a process of its own; stops beginning new ones after `limit` seconds."""
    import concurrent.futures
    import os
    import subprocess
    import sys
    import tempfile

    begun = time.monotonic()
    with zipfile.ZipFile(plan) as archive:
        jobs = json.loads(archive.read("plan.json"))
    numbers = [number for number, job in enumerate(jobs) if job["fixture"] >= first]
    found, broken = [], []
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "CUDA_MODULE_LOADING": "EAGER", "CUDA_CACHE_PATH": folder, "CUDA_CACHE_MAXSIZE": str(1 << 30)}
        part = Path(folder) / "lines"

        def done(number: int, *more: str) -> str:
            """What a child says on its errors' output when it failed."""
            command = [sys.executable, __file__, "child", str(plan), str(part), "--number", str(number), *more]
            try:
                ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LATE, env=environment)
            except subprocess.TimeoutExpired:
                return "out of time"
            return (ended.stderr.strip().splitlines() or [str(ended.returncode)])[-1][:300] if ended.returncode else ""

        # compiled side by side, timed one after the other
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            list(pool.map(lambda number: done(number, "--only-load"), numbers))
        print(f"compiled after {time.monotonic() - begun:.0f} s", flush=True)
        for number in numbers:
            job = jobs[number]
            if time.monotonic() - begun > limit:
                broken.append(f"{job['fixture']}: no time")
                continue
            start = 0
            while start < len(job["kernels"]):
                part.write_text("")
                said = done(number, "--start", str(start))
                lines = [json.loads(line) for line in part.read_text().splitlines()]
                found += [line for line in lines if "begun" not in line]
                start = len(job["kernels"])
                if said:
                    # the next process goes on behind the kernel that broke this one
                    last: dict[str, Any] = next((line for line in reversed(lines) if "begun" in line), {"begun": "", "number": start})
                    broken.append(f"{job['fixture']} {last['begun']}: {said}")
                    start = last["number"] + 1
    out.write_text(json.dumps({"seconds": round(time.monotonic() - begun, 1), "found": found, "broken": broken}))
    judge(out)


def judge(*paths: Path) -> None:
    """Prints the geometric means over the kernels of all records."""
    found: list[dict[str, Any]] = []
    for path in paths:
        record = json.loads(path.read_text())
        found += [line for line in record["found"] if "sets" in line]
        left_out = [line for line in record["found"] if "sets" not in line]
        print(f"{path.name}: {record['seconds']} s; left out: {left_out}; {record['broken']}")
    print(f"{len(found)} kernels")
    for name in SETS:
        for kind in ("memory", "computing", "all"):
            ratios, more, spills = [], [], 0
            for line in found:
                one = line["sets"].get(name)
                if one is None or one["original"] < SHORT:
                    continue
                bound = "memory" if line["bytes"] / (one["original"] * 1e-6) > FAST else "computing"
                if kind not in (bound, "all"):
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
    parser.add_argument("--from", dest="first", default="", help="the first module, by name")
    parser.add_argument("--number", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--start", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--only-load", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.what == "prepare":
        prepare(options.out)
    elif options.what == "run":
        run(options.paths[0], options.paths[1], options.limit, options.first)
    elif options.what == "child":
        child(options.paths[0], options.number, options.paths[1], options.only_load, options.start)
    else:
        judge(*options.paths)


if __name__ == "__main__":
    main()
