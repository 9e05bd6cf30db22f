"""The machine against the axioms of chapter 8: `python benchmarks/races_against_axioms.py [--programs N] [--start SEED] [--proxies]`.

Generated programs (scopes, fences, atomics, barriers, messages; with `--proxies` asynchronous ones) run on the machine as kernels, under
the schedules lockstep, late and early and under seeds. Two figures: whether every outcome is one that the axioms allow, and whether the
race monitor finds a race under some schedule exactly if an allowed execution has one. A race that no schedule shows is tried again with
`--more` seeds, and else listed as missed: the machine is sequentially consistent, so a race behind a weak outcome stays out of its reach.
Exit status 1 if an outcome is not allowed or a race is false.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import numpy as np

from ptxkit.analyses.memory_model import CannotFollow, CannotWrite, Program, Taste, generate, outcomes, racy, to_ptx
from ptxkit.machine import Fault, Machine
from ptxkit.machine.monitors.races import Races

SCHEDULES = ("lockstep", "late", "early")


class Result(NamedTuple):
    """What came of a program: `equal`, `missed`, `false`, `cannot`, `fault`; outcomes that are not allowed; how many there were."""

    seed: int
    verdict: str
    forbidden: tuple[tuple[int, ...], ...]
    outcomes: int
    of: int
    detail: str = ""


def observed(program: Program, seeds: int, stop: bool) -> tuple[set[tuple[int, ...]], str]:
    """What registers held at the end, and the first race that a schedule showed. Raises Fault, CannotWrite."""
    kernel = to_ptx(program)
    seen: set[tuple[int, ...]] = set()
    race = ""
    machine = Machine(target="sm_90a")
    code = machine.load(kernel.text)
    for schedule in (*SCHEDULES, *range(seeds)):
        memory = np.frombuffer(bytearray(kernel.memory() or bytes(16)), np.uint8).copy()
        results = np.zeros(kernel.result_bytes, np.uint8)
        monitor = Races(by_the_letter=True)
        machine.launch(
            code, "litmus", memory, results, grid=kernel.grid, block=kernel.block, schedule=schedule, monitors=[monitor], budget=10.0
        )
        seen.add(tuple(results.view(np.uint64)[: len(kernel.registers)].tolist()))
        shown = [one for one in monitor.races.values() if one.rule != "P003"]  # a warning, which the axioms do not have
        if shown and not race:
            race = f"schedule {schedule}: {shown[0].witness()}"
            if stop:
                break
    return seen, race


def judged(work: tuple[int, int, int, bool]) -> Result:
    seed, seeds, more, proxies = work
    program = generate(seed, Taste(proxies=proxies))
    try:
        seen, race = observed(program, seeds, stop=False)
        allowed = outcomes(program, races=False).values()
        has_race = racy(program)
        if has_race and not race:
            extra, race = observed(program, more, stop=True)
            seen |= extra
    except (CannotWrite, CannotFollow) as why:
        return Result(seed, "cannot", (), 0, 0, str(why))
    except Fault as fault:
        return Result(seed, "fault", (), 0, 0, str(fault))
    forbidden = tuple(sorted(seen - set(allowed)))
    verdict = "equal" if bool(race) == has_race else "missed" if has_race else "false"
    return Result(seed, verdict, forbidden, len(seen), len(allowed), race)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=5000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--more", type=int, default=150)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--proxies", action="store_true")
    asked = parser.parse_args()
    started = time.monotonic()
    verdicts: Counter[str] = Counter()
    bad = seen = allowed = 0
    work = [(seed, asked.seeds, asked.more, asked.proxies) for seed in range(asked.start, asked.start + asked.programs)]
    with ProcessPoolExecutor(asked.processes) as pool:
        for result in pool.map(judged, work, chunksize=20):
            verdicts[result.verdict] += 1
            seen, allowed = seen + result.outcomes, allowed + result.of
            bad += bool(result.forbidden)
            if result.forbidden:
                print(f"{result.seed}: not allowed: {result.forbidden[:3]}", flush=True)
            if result.verdict in ("missed", "false", "fault"):
                print(f"{result.seed}: {result.verdict} {result.detail[:160]}", flush=True)
    print(f"{asked.programs} programs, {time.monotonic() - started:.0f} s: {dict(verdicts)}")
    print(f"programs with an outcome that is not allowed: {bad}; outcomes seen: {seen} of {allowed} allowed")
    sys.exit(bool(bad or verdicts["false"] or verdicts["fault"]))


if __name__ == "__main__":
    main()
