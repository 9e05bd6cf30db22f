"""How fast the machine executes: instructions of threads a second, for kernels of several kinds; growth with the number of threads; memory.

    python benchmarks/machine.py [--numba PYTHON] [--sketch ../shared/sketches] [--growth] [--busy] [--times 3]
    python benchmarks/machine.py --memory

`--numba` is a Python that has Numba: the same kernels in its CUDA simulator, in the same run, on fewer threads where it would take
minutes; compared
are threads a second. `--sketch` is a folder with `machine.py`, the sketch that the machine must not be slower than, and its `machine.ptx`.
With `--busy` times are those of the processor, for a computer that does other work besides.
`--growth` runs 10^5, 10^6 and 10^7 threads; `--memory` nothing but 10^6 threads of a kernel with 40 registers that are live at once.
Every result is checked against NumPy.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import re
import resource
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ptxkit.analyses import cfg
from ptxkit.machine import Machine

HERE = Path(__file__).resolve().parent
PTX = HERE.parent / "fixtures" / "machine" / "speed.sm_80.ptx"
Array = np.ndarray[Any, Any]
Case = tuple[str, list[Any], Any, Any, Callable[[list[Any]], bool], int]


def steps(values: Array) -> Array:
    """How many steps it takes to 1 from each."""
    values = values.astype(np.uint64)
    found = np.zeros(len(values), np.uint32)
    while (left := values != 1).any():
        odd = left & (values & 1).astype(bool)
        values = np.where(odd, (3 * values + 1) & np.uint64(0xFFFFFFFF), np.where(left, values >> np.uint64(1), values))
        found += left
    return found


def cases(size: int = 1) -> list[Case]:
    """Name, arguments, grid, block, check, how many times fewer CTAs the simulator gets."""
    random = np.random.default_rng(1)
    n = size << 20
    x = random.random((n, 4), dtype=np.float32)
    streamed = x.copy()
    streamed[:, 0] = x[:, 0] * 2 + 1
    streamed[:, 1] *= 3
    numbers = random.integers(1, 10**6, 1 << 16, dtype=np.uint32)
    counts = steps(numbers)
    side = 256
    a, b = random.random((side, side), dtype=np.float32), random.random((side, side), dtype=np.float32)
    words = random.integers(0, 1 << 32, 1 << 20, dtype=np.uint32)
    bins = np.bincount(words & 63, minlength=64)
    square = words.reshape(1024, 1024)
    product = a.astype(np.float64) @ b
    return [
        ("stream", [x, np.zeros_like(x), n], n // 256, 256, lambda r: bool(np.allclose(r[1], streamed)), 256),
        ("collatz", [numbers, np.zeros_like(numbers), len(numbers)], 512, 128, lambda r: bool((r[1] == counts).all()), 32),
        ("product", [a, b, np.zeros_like(a), side], (16, 16), (16, 16), lambda r: bool(np.allclose(r[2], product, rtol=1e-4)), 256),
        ("chain", [np.zeros(1 << 16, np.uint32), 200], 256, 256, lambda r: bool(r[0].any()), 256),
        ("histogram", [words, np.zeros(64, np.uint32), len(words)], 64, 256, lambda r: bool((r[1] == bins).all()), 64),
        ("transpose", [square, np.zeros_like(square), 1024], (64, 64), (16, 16), lambda r: bool((r[1] == square.T).all()), 1024),
    ]


def measured(machine: Machine, code: Any, case: Case, times: int) -> tuple[int, float]:
    """Instructions and the shortest time."""
    name, arguments, grid, block, check, _ = case
    best, instructions = 1e9, 0
    for _ in range(times):
        given = [one.copy() if isinstance(one, np.ndarray) else one for one in arguments]
        run = machine.launch(code, name, *given, grid=grid, block=block)
        best, instructions = min(best, run.seconds), run.instructions
        assert check(given), name
    return instructions, best


def threads(grid: Any, block: Any) -> int:
    return int(np.prod(grid)) * int(np.prod(block))


def with_one_block(code: Any, machine: Machine, times: int) -> None:
    """A single CTA of 256 threads: what an instruction costs, whatever the lanes."""
    numbers = np.full(256, 837799, np.uint32)
    for name, arguments in (("chain", [np.zeros(256, np.uint32), 5000]), ("collatz", [numbers, np.zeros(256, np.uint32), 256])):
        instructions, seconds = measured(machine, code, (name, arguments, 1, 256, lambda r: True, 1), times)
        rate = instructions / seconds / 1e6
        print(f"one block of 256: {name:10} {instructions / 1e6:8.1f} M instructions in {seconds:7.3f} s = {rate:8.1f} M/s")


def tensor(code: Any, machine: Machine, times: int) -> None:
    """A product of half precision by mma.sync."""
    side = 256
    random = np.random.default_rng(2)
    a, b = random.random((side, side)).astype(np.float16), random.random((side, side)).astype(np.float16)
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    given = [a, b, np.zeros((side, side), np.float32), side]
    instructions, seconds = measured(
        machine, code, ("tensor", given, 128, 128, lambda r: bool(np.allclose(r[2], expected, rtol=1e-3)), 1), times
    )
    rate = instructions / seconds / 1e6
    print(f"mma.sync product of {side}: {instructions / 1e6:8.1f} M instructions in {seconds:7.3f} s = {rate:8.1f} M/s")


def growth(code: Any, machine: Machine) -> None:
    """The time of 10^5, 10^6, 10^7 threads, each with a block of 250, and the memory that they take."""
    rates = []
    for count in (100_000, 1_000_000, 10_000_000):
        out = np.zeros(count, np.uint32)
        best = min(machine.launch(code, "chain", out, 20, grid=count // 250, block=250).seconds for _ in range(3 if count < 10**7 else 1))
        rates.append(best / count)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(f"{count:10} threads: {best:7.3f} s, {best / count * 1e9:7.1f} ns a thread; the process took {peak} MiB at most so far")
    print(f"growth from 10^5 to 10^7 threads: {rates[-1] / rates[0]:.2f} (linear is 1)")


def memory(threads: int = 1_000_000, registers: int = 40, block: int = 250) -> None:
    """What a launch adds to the memory of the process, of a kernel in which all registers are live between two barriers."""
    numbers = range(registers)
    makes = "\n".join([f"mad.lo.u32 %v{i}, %r1, {2 * i + 1}, {i};" for i in numbers])
    adds = "\n".join([f"add.u32 %r5, %r5, %v{i};" for i in numbers])
    machine = Machine("sm_80")
    code = machine.load(f"""
        .version 8.0
        .target sm_80
        .address_size 64
        .visible .entry k(.param .u64 out) {{
        .reg .b32 %r<9>; .reg .b32 %v<{registers}>; .reg .b64 %rd<4>;
        ld.param.u64 %rd1, [out];
        mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r1, %r2, %r3, %r4;
        {makes}
        bar.sync 0;
        mov.u32 %r5, 0;
        {adds}
        mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r5;
        ret; }}""")
    out = np.zeros(threads, np.uint32)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    machine.launch(code, "k", out, grid=threads // block, block=block)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    assert (out == np.arange(threads) * registers**2 + sum(numbers)).all()
    print(f"{threads} threads with {registers} registers: {after} MiB for the process, of which the launch {after - before}")


SIMULATED = """
import os, sys, time
os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
import numpy as np
from numba import cuda, uint32, float32, int32
@cuda.jit
def stream(x, y, n):
    i = cuda.grid(1)
    if i < n:
        y[i, 0] = x[i, 0] * np.float32(2) + np.float32(1); y[i, 1] = x[i, 1] * np.float32(3); y[i, 2] = x[i, 2]; y[i, 3] = x[i, 3]
@cuda.jit
def collatz(x, y, n):
    i = cuda.grid(1)
    if i < n:
        v = int(x[i]); k = 0
        while v != 1:
            v = 3 * v + 1 if v & 1 else v >> 1
            k += 1
        y[i] = k
@cuda.jit
def product(a, b, c, n):
    s = cuda.shared.array((16, 16), float32); t = cuda.shared.array((16, 17), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.grid(2)
    total = np.float32(0)
    for k in range(0, n, 16):
        s[ty, tx] = a[y, k + tx]; t[ty, tx] = b[k + ty, x]
        cuda.syncthreads()
        for j in range(16): total += s[ty, j] * t[j, tx]
        cuda.syncthreads()
    c[y, x] = total
@cuda.jit
def chain(out, n):
    i = cuda.grid(1)
    a = i; b = i ^ 0x9e3779b9; c = 3 * i + 1
    for k in range(n):
        a = (a * b + c) & 0xffffffff; b = ((b ^ a) + (c >> 7)) & 0xffffffff; c = (c * 1664525 + 1013904223) & 0xffffffff
    out[i] = a ^ b ^ c
@cuda.jit
def histogram(x, out, n):
    bins = cuda.shared.array(64, uint32); t = cuda.threadIdx.x
    if t < 64: bins[t] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    while i < n:
        cuda.atomic.add(bins, int(x[i]) & 63, 1); i += cuda.gridsize(1)
    cuda.syncthreads()
    if t < 64: cuda.atomic.add(out, t, bins[t])
@cuda.jit
def transpose(x, y, n):
    tile = cuda.shared.array((16, 17), uint32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y; i, j = cuda.grid(2)
    tile[ty, tx] = x[j, i]
    cuda.syncthreads()
    y[cuda.blockIdx.x * 16 + ty, cuda.blockIdx.y * 16 + tx] = tile[tx, ty]
def timed(kernel, grid, block, *arguments):
    kernel[1, 1] if False else None
    started = time.perf_counter(); kernel[grid, block](*arguments); return time.perf_counter() - started
r = np.random.default_rng(1)
n = 1 << 12; x = r.random((n, 4), dtype=np.float32)
print("stream", n, timed(stream, n // 256, 256, x, np.zeros_like(x), n))
v = r.integers(1, 10**6, 512, dtype=np.uint32)
print("collatz", 512, timed(collatz, 4, 128, v, np.zeros_like(v), 512))
a = r.random((256, 256), dtype=np.float32)
print("product", 256, timed(product, (1, 1), (16, 16), a, a, np.zeros_like(a), 256))
print("chain", 256, timed(chain, 1, 256, np.zeros(256, np.uint32), 200))
w = r.integers(0, 1 << 32, 1 << 14, dtype=np.uint32)
print("histogram", 256, timed(histogram, 1, 256, w, np.zeros(64, np.uint32), len(w)))
q = w[:1024].reshape(32, 32)
print("transpose", 1024, timed(transpose, (2, 2), (16, 16), q, np.zeros_like(q), 32))
"""
"""The same kernels in Numba: each thread does the same work as on the machine, there are fewer of them."""


def against_numba(python: str, ours: dict[str, float], clock: str) -> None:
    ran = subprocess.run([python, "-c", SIMULATED.replace("perf_counter", clock)], capture_output=True, text=True, timeout=900, check=False)
    if ran.returncode:
        print(ran.stderr[-2000:])
        return
    for line in ran.stdout.splitlines():
        name, count, seconds = line.split()
        theirs = int(count) / float(seconds)
        times = ours[name] / theirs
        print(f"{name:10} Numba's simulator {theirs:10,.0f} threads a second, the machine {ours[name]:14,.0f}: {times:8.0f} times")


def against_sketch(folder: Path, times: int) -> None:
    """Both on the sketch's kernels, one after another in the same process."""
    spec = importlib.util.spec_from_file_location("sketch", folder / "machine.py")
    assert spec is not None and spec.loader is not None
    sketch = importlib.util.module_from_spec(spec)
    # It imports this name, which is gone, and does not use it.
    vars(cfg).setdefault("control_flow", None)
    spec.loader.exec_module(sketch)
    text = (folder / "machine.ptx").read_text()
    machine = Machine("sm_80")
    code = machine.load(text)
    random = np.random.default_rng(1)
    n = 1 << 20
    x = random.random((n, 4), dtype=np.float32)
    numbers = random.integers(1, 10**6, 1 << 14, dtype=np.uint32)
    a = random.random((256, 256), dtype=np.float32)
    for title, name, arguments, grid, block, chunk in (
        ("stream", "stream", [x, np.zeros_like(x), n], (n // 256, 1), (256, 1), 1 << 16),
        ("collatz", "collatz", [numbers, np.zeros_like(numbers), len(numbers)], (128, 1), (128, 1), 1 << 16),
        ("tiled product", "matmul", [a, a, np.zeros_like(a), 256], (16, 16), (16, 16), 1 << 16),
        ("float chain", "flops", [np.zeros(1 << 16, np.float32), 200], (256, 1), (256, 1), 1 << 16),
        ("float chain, one block", "flops", [np.zeros(256, np.float32), 2000], (1, 1), (256, 1), 1 << 16),
    ):
        best = [1e9, 1e9]
        executed = [0, 0]
        with contextlib.redirect_stdout(io.StringIO()):
            kernel = sketch.Kernel(text, name)
        for _ in range(times):
            given = [one.copy() if isinstance(one, np.ndarray) else one for one in arguments]
            started = time.perf_counter()
            executed[0] = kernel.run(given, grid, block, chunk)
            best[0] = min(best[0], time.perf_counter() - started)
            given = [one.copy() if isinstance(one, np.ndarray) else one for one in arguments]
            run = machine.launch(code, name, *given, grid=grid, block=block)
            executed[1] = run.instructions
            best[1] = min(best[1], run.seconds)
        rates = [count / seconds / 1e6 for count, seconds in zip(executed, best, strict=True)]
        print(f"{title:24} sketch {rates[0]:8.1f} M/s, the machine {rates[1]:8.1f} M/s: {rates[1] / rates[0]:5.2f} times")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--numba", metavar="PYTHON")
    parser.add_argument("--sketch", type=Path, metavar="FOLDER")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    if options.busy:
        time.perf_counter = time.process_time
    if options.memory:
        memory()
        return
    machine = Machine("sm_80")
    code = machine.load(re.sub(r"\r", "", PTX.read_text()))
    rates = {}
    for case in cases():
        instructions, seconds = measured(machine, code, case, options.times)
        rates[case[0]] = threads(case[2], case[3]) / seconds
        rate = instructions / seconds / 1e6
        print(f"{case[0]:10} {instructions / 1e6:8.1f} M instructions in {seconds:7.3f} s = {rate:8.1f} M/s", flush=True)
    with_one_block(code, machine, options.times)
    tensor(code, machine, options.times)
    if options.growth:
        growth(code, machine)
    if options.sketch:
        against_sketch(options.sketch, options.times)
    if options.numba:
        against_numba(options.numba, rates, "process_time" if options.busy else "perf_counter")


if __name__ == "__main__":
    main()
