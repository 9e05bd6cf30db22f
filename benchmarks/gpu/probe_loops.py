"""How much longer loops and streams take with probes, on a GPU: times over those of the plain kernel, and whether counts are exact.

    python benchmarks/gpu/probe_loops.py

Kernels of `fixtures/machine/speed.sm_80.ptx`: a loop whose threads leave at different times (`collatz`), a loop of arithmetic (`chain`),
and a kernel that moves memory (`stream`). Plain and with a probe take turns; each time is the least of all turns. What the threads of
blocks are is held against `block-counts`, the sectors of `stream` against its addresses. Exit status 1 if a count is wrong.
"""

from __future__ import annotations

import argparse
import functools
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ptxkit.rewriters import instrumented
from ptxkit.rewriters.profiling.device import Device
from ptxkit.syntax import Module, parse

SOURCE = Path(__file__).resolve().parents[2] / "fixtures" / "machine" / "speed.sm_80.ptx"
TURNS = 12
BLOCK = 256
THREADS = {"collatz": 1 << 24, "chain": 1 << 24, "stream": 1 << 26}
ROUNDS = 300
"""Of the loop of arithmetic."""
ITEM = {"collatz": 4, "chain": 4, "stream": 16}
PROBES = {
    "collatz": ("warp-masks", "block-counts"),
    "chain": ("warp-masks", "block-counts"),
    "stream": ("sectors", "warp-masks", "block-counts"),
}


class Launched:
    """A kernel that is ready to be launched again and again."""

    def __init__(self, device: Device, module: Any, kernel: str, parameters: list[bytes], grid: int) -> None:
        self.device, self.function, self.parameters, self.grid = device, device.function(module, kernel), parameters, grid

    def microseconds(self) -> float:
        """The time of one launch."""
        begin = self.device.event()
        self.device.launch(self.function, (self.grid, 1, 1), (BLOCK, 1, 1), self.parameters)
        end = self.device.event()
        self.device.synchronize()
        return 1e6 * self.device.seconds(begin, end)


def parameters_of(device: Device, kernel: str, count: int) -> list[bytes]:
    """The arguments, their arrays on the device."""
    size = ITEM[kernel] * count
    out = device.allocate(size)
    given = [out.to_bytes(8, "little")]
    if kernel != "chain":
        numbers = np.random.default_rng(7).integers(1, 1 << 20, size // 4, dtype=np.uint32)
        read = device.allocate(size)
        device.write(read, numbers.tobytes())
        given.insert(0, read.to_bytes(8, "little"))
    return [*given, (ROUNDS if kernel == "chain" else count).to_bytes(4, "little")]


def counted(tables: Any) -> dict[str, list[dict[str, Any]]]:
    return {table.name: table.rows() for table in tables}


def measure(source: Module, kernel: str, on: str) -> bool:
    """Times a kernel and its variants; whether their counts are right."""
    count = THREADS[kernel]
    grid = count // BLOCK
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for probe in PROBES[kernel]:
        with instrumented(source, [probe], on=on) as run:
            device = run.device
            given = parameters_of(device, kernel, count)
            plain = Launched(device, device.load(source.text.encode()), kernel, given, grid)
            module = device.load(run.text.encode())
            buffer = run.attach(functools.partial(device.symbol, module), grid=grid, block=BLOCK)
            variant = Launched(device, module, kernel, given, grid)
            variant.microseconds()
            found[probe] = counted(buffer.tables())
            times = [(plain.microseconds(), variant.microseconds()) for _ in range(TURNS)]
            for array in given[:-1]:
                device.free(int.from_bytes(array, "little"))
        least = min(time for time, _ in times)
        print(f"{kernel:8} {least:9.1f} us  {probe:12} x{min(time for _, time in times) / least:.2f}")
    threads = [row["count"] for row in found["block-counts"]["block-counts"] if row["function"] == kernel]
    right = [row["threads"] for row in found["warp-masks"]["warp-masks"] if row["function"] == kernel] == threads
    if "sectors" in found:
        rows = [row for row in found["sectors"]["sectors"] if row["function"] == kernel]
        right &= all((row["requests"], row["sectors"], row["threads"]) == (count // 32, count // 2, count) for row in rows)
    print(f"{kernel:8} counts are {'exact' if right else 'WRONG'}: {threads}")
    return right


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--on", default="gpu", choices=("gpu", "machine"), help="the machine counts, but says nothing of times")
    options = parser.parse_args()
    source = parse(SOURCE.read_text())
    right = [measure(source, kernel, options.on) for kernel in PROBES]
    sys.exit(0 if all(right) else 1)


if __name__ == "__main__":
    main()
