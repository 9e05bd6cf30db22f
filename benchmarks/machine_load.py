"""How long it takes until a module can run: `machine.load`, and what the first launch of one kernel adds, over `parse` of the same text.

    python benchmarks/machine_load.py [--least 100000] [--most 60] [--busy] [--times 3]

Files are those of fixtures and of the reference corpus where it is there, from `--least` bytes on. The kernel is the first; it is
launched with a
single CTA and arguments that are zeros, so it may well end with a fault: what is timed is what is made ready for it, which is
what it comes to: code that is not executed is not compiled, and of a long kernel of which little is executed no liveness is worked out.
`parse` alone leaves instructions unbuilt until a block is looked at, so the time of a visit of all instructions is given as well. The
best of several times counts, each with everything made anew. With `--busy` times are those of the processor.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

from ptxkit.machine import Budget, Fault, Machine
from ptxkit.machine.launching import declared
from ptxkit.syntax import Module, parse

ROOT = Path(__file__).resolve().parent.parent


def visited(text: str) -> float:
    """Seconds of parsing and of of a look at every operand."""
    started = time.perf_counter()
    for function in parse(text).functions:
        for instruction in function.instructions:
            instruction.operands  # noqa: B018
    return time.perf_counter() - started


def once(text: str) -> tuple[float, float, float, Module]:
    """Seconds of parsing, loading, and making a kernel ready."""
    started = time.perf_counter()
    module = parse(text)
    parsed = time.perf_counter()
    machine = Machine("sm_100a")
    code = machine.load(module)
    loaded = time.perf_counter()
    if code.kernels:
        try:
            program = code.program(code.kernels[0], False, False)
            arguments = [bytes(size) for _, _, size, _ in program.layout()]
            block = declared(code, code.kernels[0]).get(".reqntid") or 32
            machine.launch(code, code.kernels[0], *arguments, grid=1, block=block, budget=Budget(seconds=0.001))
        except Fault:
            pass
    return parsed - started, loaded - parsed, time.perf_counter() - loaded, module


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--least", type=int, default=100_000)
    parser.add_argument("--most", type=int, default=60)
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    if options.busy:
        time.perf_counter = time.process_time
    paths = [*(ROOT / "fixtures").rglob("*.ptx"), *(ROOT.parent / "shared" / "corpus").rglob("*.ptx")]
    paths = sorted([path for path in paths if path.stat().st_size >= options.least])
    step = max(1, len(paths) // options.most)
    loads, launches, built = [], [], []
    for path in paths[::step]:
        text = path.read_text(errors="replace")
        try:
            runs = [once(text)[:3] for _ in range(options.times)]
        except ValueError as error:
            print(f"{path.name}: {error}")
            continue
        parsed, loaded, launched = [min(column) for column in zip(*runs, strict=True)]
        loads.append(loaded / parsed)
        launches.append((loaded + launched) / parsed)
        built.append((parsed + loaded + launched) / min([visited(text) for _ in range(options.times)]))
        print(
            f"{path.name[:44]:44} {len(text) >> 10:6} K  parse {parsed * 1e3:6.1f} ms load {loads[-1]:5.2f}  launched {launches[-1]:6.2f}",
            flush=True,
        )
    names = ("load over parse", "load and one kernel over parse", "parse, load and one kernel over parse and a visit")
    for name, values in zip(names, (loads, launches, built), strict=True):
        few = sum(value <= 1 for value in values)
        print(f"{name}: median {statistics.median(values):.2f}, most {max(values):.2f}, of {len(values)} files; {few} at most 1.0")


if __name__ == "__main__":
    main()
