"""Labelled kernels under the race monitor: `python benchmarks/races_on_machine.py [--kernels TEXT] [--label TEXT] [--budget SECONDS]`.

Every kernel of ../shared/races runs on the machine with its launch and parameters, and with buffers and numbers that are made up where the
launch names none: 8-byte parameters are buffers that hold 0, 1, 2, …, other whole numbers are as large as the longest side of the launch,
floating-point ones 1; unsized shared memory has 32 KiB. Prints for each kernel what came of it, then a table by label: refuted (a finding
that is no note), note (equal values), clean, or the kind of fault. Exit status 1 if a clean kernel is refuted.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ptxkit.machine import Code, Fault, Machine
from ptxkit.rewriters.profiling.description import read
from ptxkit.rewriters.profiling.execution import execute

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "races"
FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "kernels"
BUFFER = 1 << 23
SHARED = 32 << 10


class Result(NamedTuple):
    file: str
    label: str
    outcome: str
    seconds: float
    plain: float
    detail: str


def kernel_of(code: Code) -> str:
    return next(function.name for function in code.module.functions if function.is_entry)


def arguments(machine: Machine, code: Code, kernel: str, given: dict[str, Any], number: int) -> list[Any]:
    """What the launch names, and made-up buffers and numbers."""
    found: list[Any] = []
    for name, _, size, symbol in code.program(kernel, False, False).layout():
        kind = symbol.type or ".b64"
        if name in given:
            found.append(given[name])
        elif symbol.dimensions:
            found.append(bytes(size))
        elif size == 8 and not kind.startswith(".f"):
            buffer = machine.alloc(BUFFER)
            buffer.write(np.arange(BUFFER // 4, dtype=np.uint32))
            found.append(buffer)
        else:
            found.append(1.0 if kind.startswith(".f") else min(number, (1 << size * 8 - 1) - 1))
    return found


def one(file: Path, row: dict[str, str], number: int, budget: float, checks: tuple[str, ...]) -> tuple[str, float, str]:
    """What came of a launch: refuted, clean, or the kind of fault."""
    machine = Machine("sm_90a")
    code = machine.load(file.read_text())
    kernel = kernel_of(code)
    given = arguments(machine, code, kernel, json.loads(row["params"]), number)
    grid, block = sizes(row["grid"]), sizes(row["block"])
    shared = SHARED if ".extern .shared" in code.module.text else 0
    started = time.perf_counter()
    try:
        findings = machine.launch(code, kernel, *given, grid=grid, block=block, shared=shared, budget=budget, checks=checks).findings
        outcome, detail = "clean", ""
    except Fault as fault:
        findings, outcome, detail = fault.findings, fault.kind, str(fault)
    seconds = time.perf_counter() - started
    shown = [finding.diagnostic.message for finding in findings if finding.diagnostic.severity.value != "info"]
    if shown:
        return "refuted", seconds, shown[0]
    if findings:
        return ("note" if outcome == "clean" else outcome), seconds, findings[0].diagnostic.message
    return outcome, seconds, detail


def judged(work: tuple[dict[str, str], float, bool, tuple[str, ...]]) -> Result:
    row, budget, compare, checks = work
    file = FOLDER / "ptx" / row["file"]
    longest = max(g * b for g, b in zip((*sizes(row["grid"]), 1, 1), (*sizes(row["block"]), 1, 1), strict=False))
    try:
        outcome, seconds, detail = one(file, row, longest, budget, checks)
        plain = one(file, row, longest, budget, ())[1] if compare else 0.0
    except Exception as why:  # a kernel that cannot be loaded or launched is one of the figures
        outcome, seconds, plain, detail = type(why).__name__, 0.0, 0.0, str(why)
    return Result(row["file"], row["label"], outcome, seconds, plain, detail)


def of_fixtures(budget: float, names: tuple[str, ...], kernels: str) -> int:
    """The correct kernels of fixtures/kernels under the monitor: what it finds, and how much longer they take. How many have a finding."""
    ratios, wrong = [], 0
    for launch in read(str(FIXTURES / "launch.toml")):
        path = next((p for p in sorted(FIXTURES.glob("*.sm_90a.ptx")) if launch.is_for(str(p))), None)
        if path is None or kernels not in launch.kernel:
            continue
        seconds = []
        findings: tuple[Any, ...] = ()
        outcome = "ended"
        for checks in ((), names):
            machine = Machine("sm_90a")
            try:
                run = execute(machine, machine.load(path.read_text()), launch, budget=budget, checks=checks)
                seconds.append(run.seconds)
                findings = run.findings
            except Fault as fault:
                outcome, findings = fault.kind, fault.findings
        shown = [finding.diagnostic for finding in findings if finding.diagnostic.severity.value != "info"]
        wrong += bool(shown)
        if len(seconds) == 2:
            ratios.append(seconds[1] / max(seconds[0], 1e-3))
        ratio = f"{ratios[-1]:6.1f}" if len(seconds) == 2 else "     -"
        print(f"{len(shown)} findings {len(findings) - len(shown)} notes {ratio} {outcome:8} {path.name} {launch.kernel}", flush=True)
        for diagnostic in shown[:3]:
            print(f"    {diagnostic.message}")
    print(f"monitored over not monitored: median {np.median(ratios):.1f}, worst {max(ratios):.1f}; kernels with a finding: {wrong}")
    return wrong


def sizes(text: str) -> tuple[int, ...]:
    return tuple([int(number) for number in text.split(",")])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kernels", default="")
    parser.add_argument("--label", default="")
    parser.add_argument("--budget", type=float, default=10.0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--compare", action="store_true", help="also without the monitor, for the ratio of times")
    parser.add_argument("--fixtures", action="store_true", help="the kernels of fixtures/kernels instead, which are all correct")
    parser.add_argument("--checks", default="races,barriers", help="names of monitors, with commas")
    asked = parser.parse_args()
    checks = tuple(asked.checks.split(","))
    if asked.fixtures:
        sys.exit(bool(of_fixtures(asked.budget, checks, asked.kernels)))
    with (FOLDER / "labels.tsv").open(newline="") as lines:
        rows = [row for row in csv.DictReader(lines, delimiter="\t") if asked.kernels in row["file"] and asked.label in row["label"]]
    table: Counter[tuple[str, str]] = Counter()
    times: dict[str, float] = {}
    ratios = []
    with ProcessPoolExecutor(asked.processes) as pool:
        for result in pool.map(judged, [(row, asked.budget, asked.compare, checks) for row in rows]):
            table[result.label, result.outcome] += 1
            times[result.label] = times.get(result.label, 0.0) + result.seconds
            if result.plain:
                ratios.append(result.seconds / result.plain)
            print(f"{result.label:12} {result.outcome:12} {result.seconds:6.2f} s  {result.file}  {result.detail[:150]}", flush=True)
    outcomes = sorted({outcome for _, outcome in table})
    print("\n" + "label".ljust(14) + " ".join([outcome.rjust(12) for outcome in outcomes]) + "     seconds")
    for label in sorted(times):
        print(label.ljust(14) + " ".join([str(table[label, outcome]).rjust(12) for outcome in outcomes]) + f"{times[label]:12.1f}")
    if ratios:
        print(f"monitored over not monitored: median {np.median(ratios):.1f}, worst {max(ratios):.1f}")
    sys.exit(bool(table["clean", "refuted"]))


if __name__ == "__main__":
    main()
