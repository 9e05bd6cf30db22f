"""Pairs of ../shared/lint under the monitors: `python benchmarks/async_on_machine.py [--kernels TEXT] [--family LETTERS] [--schedules …]`.

Each bad file, of which one thing is wrong, and its good twin, run with the launches below, of buffers that hold small numbers. Printed
for each pair: what the monitors say of the bad one, and of the good one, where nothing is to be said. Exit status 1 if a good twin has a
finding that is no note.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ptxkit.machine import Fault, Machine, TensorMap

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "lint"
BUFFER = 1 << 22
DESCRIPTOR = 1 << 46 | (256 >> 4) << 32 | (128 >> 4) << 16
"""Of tcgen05: core matrices in a row, 8 by 16 bytes, 128 bytes apart along K and 256 along M or N."""
PRODUCT = 1 << 4 | 1 << 7 | 1 << 10 | (64 >> 3) << 17 | (128 >> 4) << 24
"""bf16 matrices, f32 sums, M = 128, N = 64."""

TILES = {"4611686293305360384": str(256 >> 4 << 32 | 128 >> 4 << 16), "4611686156002738176": str(256 >> 4 << 32 | 128 >> 4 << 16)}
"""Parts of wgmma descriptors that name more bytes than the kernels have, and others in their place."""

Arguments = Callable[[Machine], list[Any]]


def buffer(machine: Machine) -> Any:
    found = machine.alloc(BUFFER)
    found.write((np.arange(BUFFER // 2) % 64).astype(np.float16))
    return found


def tensor(machine: Machine, box: tuple[int, int], kind: str, shape: tuple[int, int] = (1024, 1024), swizzle: str = "none") -> bytes:
    made = TensorMap(tensor=buffer(machine), box=box, shape=shape, type=kind, swizzle=swizzle)
    return bytes(made.encoded(made.tensor.address))


LAUNCHES: dict[str, tuple[int, Arguments]] = {
    "stencil_pipe": (2, lambda m: [buffer(m), buffer(m), 8]),
    "gemm_cpasync": (2, lambda m: [buffer(m), buffer(m), buffer(m), 256, 256]),
    "tma_store_epi": (2, lambda m: [tensor(m, (32, 32), ".f32"), buffer(m), 4]),
    "bulk_1d": (2, lambda m: [buffer(m), buffer(m)]),
    "tma_prodcons": (2, lambda m: [tensor(m, (32, 64), ".f32"), buffer(m), 12]),
    "wgmma_ws": (2, lambda m: [tensor(m, (64, 64), ".f16", swizzle="128B"), tensor(m, (32, 16), ".f16", swizzle="64B"), buffer(m), 12]),
    "wgmma_generic": (1, lambda m: [buffer(m), buffer(m), buffer(m)]),
    "tc05_gemm": (1, lambda m: [buffer(m), buffer(m), buffer(m), DESCRIPTOR, DESCRIPTOR, PRODUCT]),
}
"""The grid and the arguments, by kernel."""


def found(path: Path, schedule: str | int) -> tuple[list[Any], str]:
    """What the monitors find, and the fault in which a launch ends."""
    text = path.read_text()
    for old, new in TILES.items():
        text = text.replace(old, new)
    target = next(line.split()[1].rstrip(",") for line in text.splitlines() if line.startswith(".target"))
    machine = Machine(target)
    code = machine.load(text)
    entry = next(function for function in code.module.functions if function.is_entry)
    block = next((one.arguments[0].text for one in entry.header.directives if one.name == ".reqntid"), "128")
    grid, arguments = LAUNCHES[entry.name]
    try:
        run = machine.launch(
            code, entry.name, *arguments(machine), grid=grid, block=int(block), schedule=schedule, budget=20.0, checks="all"
        )
        return list(run.findings), ""
    except Fault as fault:
        return list(fault.findings), f"{fault.kind}: {fault}".splitlines()[0]


def said(findings: list[Any], fault: str) -> str:
    rules = [
        f"{one.diagnostic.rule}{'' if one.diagnostic.severity.value == 'error' else ' ' + one.diagnostic.severity.value}"
        for one in findings
    ]
    return ", ".join(dict.fromkeys([*rules, *([fault[:100]] if fault else [])])) or "nothing"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kernels", default="")
    parser.add_argument("--family", default="AWTP")
    parser.add_argument("--schedules", nargs="*", default=["lockstep"])
    parser.add_argument("--messages", action="store_true")
    asked = parser.parse_args()
    with (FOLDER / "cases.tsv").open(newline="") as lines:
        rows = [
            row for row in csv.DictReader(lines, delimiter="\t") if row["bug_class"][0] in asked.family and asked.kernels in row["name"]
        ]
    seen = wrong = of = 0
    for row in rows:
        for schedule in asked.schedules:
            number = int(schedule) if schedule.isdigit() else schedule
            try:
                bad, good = (found(FOLDER / f"{row['name']}.{which}.ptx", number) for which in ("bad", "good"))
            except KeyError:
                continue
            of += 1
            hit = bool(bad[1]) or any(one.diagnostic.severity.value != "info" for one in bad[0])
            false = bool(good[1]) or any(one.diagnostic.severity.value != "info" for one in good[0])
            seen, wrong = seen + hit, wrong + false
            print(f"{row['name']:30} {row['bug_class'].split()[0]} {schedule:8} bad: {said(*bad)}; good: {said(*good)}", flush=True)
            for one in [*bad[0], *good[0]] if asked.messages else ():
                print(f"    {one.diagnostic.message}")
    print(f"bad ones seen: {seen} of {of}; good twins with a finding: {wrong}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
