"""What monitors cost: the time of each launch of the fixtures under them over its time without, in one run.

    python benchmarks/monitors.py [--checks races] [--kernels TEXT] [--times 2] [--budget 120]

Times are those of the processor, so that other work on the computer does not count; the best of several counts. Prints the median, the
worst and the slowest ten. A launch that takes less than a millisecond counts as one that takes a millisecond.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks" / "gpu"))

import launches  # noqa: E402
import machine_launches  # noqa: E402
from plan import Fixture, fixtures  # noqa: E402

from ptxkit.machine import Fault, Machine  # noqa: E402

LEAST = 1e-3
"""Seconds: shorter ones are noise."""


class Result(NamedTuple):
    name: str
    plain: float
    watched: float

    @property
    def ratio(self) -> float:
        return max(self.watched, LEAST) / max(self.plain, LEAST)


def seconds(fixture: Fixture, kernel: dict[str, object], checks: tuple[str, ...], budget: float) -> float:
    """How long a launch takes. Raises Fault."""
    machine = Machine(target=fixture.target)
    code = machine.load(fixture.text)
    given, _ = machine_launches.arguments(machine, kernel)
    started = time.process_time()
    machine.launch(
        code,
        str(kernel["entry"]),
        *given,
        grid=kernel["grid"],  # type: ignore[arg-type]
        block=kernel["block"],  # type: ignore[arg-type]
        cluster=kernel.get("cluster"),  # type: ignore[arg-type]
        shared=kernel.get("shared", 0),  # type: ignore[arg-type]
        budget=budget,
        checks=checks,
    )
    return time.process_time() - started


def measured(checks: tuple[str, ...], which: str, times: int, budget: float) -> list[Result]:
    found = []
    for fixture in fixtures(targets=("sm_90a",)):
        for kernel in fixture.kernels:
            name = f"{launches.named(fixture)} {kernel['entry']}"
            if which not in name:
                continue
            try:
                plain = min(seconds(fixture, kernel, (), budget) for _ in range(times))
                watched = min(seconds(fixture, kernel, checks, budget) for _ in range(times))
            except Fault as fault:
                print(f"{name}: {fault}", flush=True)
                continue
            found.append(Result(name, plain, watched))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checks", default="races")
    parser.add_argument("--kernels", default="", metavar="TEXT")
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--budget", type=float, default=120.0)
    options = parser.parse_args()
    found = measured(tuple(options.checks.split(",")), options.kernels, options.times, options.budget)
    if not found:
        sys.exit("no launch has such a name")
    found.sort(key=lambda result: -result.ratio)
    for result in found[:10]:
        print(f"{result.ratio:8.2f}  {result.plain * 1e3:9.1f} ms -> {result.watched * 1e3:9.1f} ms  {result.name}")
    ratios = [result.ratio for result in found]
    whole = sum(result.watched for result in found) / sum(result.plain for result in found)
    middle, worst = statistics.median(ratios), max(ratios)
    print(f"{len(found)} launches, --checks {options.checks}: median {middle:.2f}, worst {worst:.2f}, all together {whole:.2f}")


if __name__ == "__main__":
    main()
