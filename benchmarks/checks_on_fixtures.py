"""The fixtures' launches, which are all correct, under checks: `python benchmarks/checks_on_fixtures.py [--shapes] [--times]`.

Prints every finding that is no note, and how many launches have one. With `--times`, for each check the time with it over that without, the
best of three, of the launches that take 3 ms and more. Exit status 1 if there is a finding.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent / "gpu"))

import machine_launches
import plan

from ptxkit.machine import Fault, Machine

LEAST = 0.003
"""Seconds."""


def launched(
    machine: Machine, code: Any, kernel: dict[str, Any], checks: tuple[str, ...], budget: float
) -> tuple[tuple[Any, ...], str, float]:
    """The findings, how it ended, and seconds."""
    given, _ = machine_launches.arguments(machine, kernel)
    shape = {"grid": kernel["grid"], "block": kernel["block"], "cluster": kernel.get("cluster"), "shared": kernel.get("shared", 0)}
    try:
        run = machine.launch(code, kernel["entry"], *given, **shape, budget=budget, checks=checks)
    except Fault as fault:
        return fault.findings, fault.kind, float("nan")
    return run.findings, "ended", run.seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--checks", default="addresses,barriers,mbarriers,uninitialized")
    parser.add_argument("--kernels", default="")
    parser.add_argument("--shapes", action="store_true", help="also on other input and with fewer blocks")
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--budget", type=float, default=20.0)
    asked = parser.parse_args()
    checks = tuple(asked.checks.split(","))
    total, wrong = 0, 0
    ratios: dict[str, list[tuple[float, str]]] = {check: [] for check in checks}
    for fixture in plan.fixtures(targets=(asked.target,), shapes=asked.shapes):
        for kernel in fixture.kernels:
            if asked.kernels not in kernel["entry"]:
                continue
            machine = Machine(target=fixture.target)
            code = machine.load(fixture.text)
            found, ended, _ = launched(machine, code, kernel, checks, asked.budget)
            shown = [finding.diagnostic for finding in found if finding.diagnostic.severity.value != "info"]
            total += 1
            wrong += bool(shown)
            for diagnostic in shown:
                print(f"{fixture.name} {kernel['entry']} {ended}: {diagnostic.rule} {diagnostic.message}", flush=True)
            if not asked.times:
                continue
            plain = min(launched(machine, code, kernel, (), asked.budget)[2] for _ in range(3))
            for check in checks if plain >= LEAST else ():
                seconds = min(launched(machine, code, kernel, (check,), asked.budget)[2] for _ in range(3))
                ratios[check].append((seconds / plain, kernel["entry"]))
    print(f"{total} launches, {wrong} with a finding")
    for check, of_check in ratios.items():
        if of_check:
            worst, name = max(of_check)
            print(
                f"{check}: median {np.median([ratio for ratio, _ in of_check]):.2f}, worst {worst:.1f} ({name}), {len(of_check)} launches"
            )
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
