"""The memory model: agreement, speed, and the enumerator against one that tries everything.

    python benchmarks/memory_model.py [--shared FOLDER] [--programs N] [--only agreement|manual|naive|speed|rules|machine]

`agreement`: the tests of others in `../shared/litmus` answered as they expect, and how long each takes. `manual`: `fixtures/litmus`, of
which every question is answered with yes. `naive`: outcomes and races of generated programs by both enumerators. `speed`: four threads of
ten operations. `rules`: the lint rules on classic litmus tests written as kernels, against the axioms. `machine`: outcomes of generated
programs on the machine are allowed. Exit status: 1 if something is not as it must be.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from ptxkit.analyses.memory_model import (
    CannotWrite,
    Program,
    Taste,
    find_race,
    generate,
    outcomes,
    racy,
    registers,
    to_ptx,
)
from ptxkit.analyses.memory_model.litmus import answer
from ptxkit.analyses.memory_model.litmus_files import parse
from ptxkit.analyses.memory_model.shapes import shapes

ROOT = Path(__file__).resolve().parents[1]
MOST = 3000
"""Candidate executions that the naive enumerator tries for a choice of paths; programs with more are left out."""
TASTES = (
    Taste(operations=(1, 3), proxies=True),
    Taste(operations=(1, 3)),
    Taste(operations=(1, 3), mixed=True),
    Taste(operations=(1, 3), aliases=True, gpus=2),
)
RULES = frozenset(("S003", "S009", "P001", "P002", "P003", "P004", "G001", "G005", "G006"))
IN_FLIGHT = "AM"
"""Families of rules about operations in flight, which a race may be one of."""


def agreement(folder: Path) -> bool:
    """The tests of others."""
    if not folder.exists():
        print(f"agreement: {folder} is not there")
        return True
    wrong, times = [], []
    lines = (folder / "expected.tsv").read_text(encoding="utf-8").splitlines()[1:]
    for line in lines:
        name, holds = line.split("\t")
        started = time.perf_counter()
        if answer(parse((folder / name).read_text(encoding="utf-8"))).holds != (holds == "1"):
            wrong.append(name)
        times.append(time.perf_counter() - started)
    print(f"agreement: {len(lines) - len(wrong)} of {len(lines)} {wrong or ''}")
    print(f"time: median {statistics.median(times) * 1000:.1f} ms, worst {max(times) * 1000:.0f} ms")
    return not wrong


def manual() -> bool:
    """Our own fixtures after chapter 8."""
    paths = sorted((ROOT / "fixtures" / "litmus").glob("*.litmus"))
    wrong = [path.stem for path in paths if not answer(parse(path.read_text(encoding="utf-8")), races=False).holds]
    print(f"manual: {len(paths) - len(wrong)} of {len(paths)} {wrong or ''}")
    return not wrong


def naive(count: int) -> bool:
    """Two enumerators."""
    sys.path.insert(0, str(ROOT / "tests" / "analyses" / "memory_model"))
    import naive as trying

    compared = races = left = seed = 0
    differ = []
    started = time.perf_counter()
    spent = [0.0, 0.0]
    while compared < count:
        program = generate(seed, TASTES[seed % len(TASTES)])
        seed += 1
        before = time.perf_counter()
        try:
            expected = trying.outcomes(program, MOST)
        except trying.TooMany:
            left += 1
            continue
        middle = time.perf_counter()
        found = {one.values: one.racy is not None for one in outcomes(program).outcomes}
        spent[0] += middle - before
        spent[1] += time.perf_counter() - middle
        if found != expected or racy(program) != any(expected.values()):
            differ.append(seed - 1)
        compared += 1
        races += any(expected.values())
    print(
        f"naive: {compared - len(differ)} of {compared} equal {differ[:5] or ''}; {races} with a race; {left} too large for the naive one"
    )
    print(f"       {time.perf_counter() - started:.0f} s; ours takes {spent[1] / spent[0]:.2f} of the time of trying everything")
    return not differ


def four_by_ten(seed: int) -> Program:
    """Four threads of about ten operations."""
    return generate(seed, Taste(threads=(4, 4), operations=(10, 10), variables=4, messages=False, branches=False, barriers=False))


def speed() -> bool:
    """Ten operations in each of four threads: is there a race, and may the first and the last register be 0?"""
    race, holds = [], []
    for seed in range(12):
        program = four_by_ten(seed)
        started = time.perf_counter()
        find_race(program)
        race.append(time.perf_counter() - started)
        wanted = (registers(program)[0], registers(program)[-1])
        started = time.perf_counter()
        outcomes(program, wanted, races=False, first=True, possible=lambda values: all(one in (0, None) for one in values))
        holds.append(time.perf_counter() - started)
    print(f"speed: 4 threads of 10: a race: median {statistics.median(race):.2f} s, worst {max(race):.2f} s", end="; ")
    print(f"an outcome: median {statistics.median(holds):.2f} s, worst {max(holds):.2f} s")
    return True


def rules() -> bool:
    """What lint says of classic tests as kernels, beside the axioms: of races by which rule, and which are missed, by their CTAs."""
    from ptxkit.analyses import lint
    from ptxkit.syntax import parse as parse_ptx

    counts: Counter[tuple[str, str]] = Counter()
    named: Counter[str] = Counter()
    missed: dict[str, list[str]] = {}
    wrong = []
    programs = [*shapes(), *(generate(seed, Taste(proxies=seed % 2 == 0)) for seed in range(200))]
    for program in programs:
        try:
            kernel = to_ptx(program)
        except CannotWrite:
            continue
        has_race = racy(program)
        found = [one for one in lint(parse_ptx(kernel.text)) if one.rule in RULES or one.rule[0] in IN_FLIGHT]
        errors = [one for one in found if one.severity.value == "error"]
        counts["race" if has_race else "no race", "error" if errors else "warning" if found else "silent"] += 1
        named.update([errors[0].rule] if errors and has_race else ())
        if errors and not has_race:
            wrong.append(f"{program.name}: {errors[0].rule}")
        if has_race and not errors:
            ctas = len({thread.cta for thread in program.threads})
            missed.setdefault("one CTA" if ctas == 1 else f"{ctas} CTAs", []).append(program.name)
    for key, number in sorted(counts.items()):
        print(f"rules: {key[0]}, {key[1]}: {number}")
    print("rules: races by the rule of the first error:", ", ".join([f"{rule} {number}" for rule, number in named.most_common()]))
    for kind, names in sorted(missed.items()):
        print(f"rules: races without an error, {kind}: {len(names)} ({', '.join(names[:8])})")
    print(f"rules: errors on programs without a race: {len(wrong)} {wrong[:5] or ''}")
    return not wrong


SCHEDULES: tuple[str | int, ...] = ("lockstep", "late", "early", 0, 1, 2, 3)


def machine(count: int) -> bool:
    """The machine's outcomes of generated programs, under several schedules, beside those that are allowed."""
    import numpy as np

    from ptxkit.machine import Machine
    from ptxkit.machine.fault import Fault

    counts: Counter[str] = Counter()
    wrong = []
    for seed in range(count):
        program = generate(seed, Taste(proxies=seed % 3 == 0, operations=(1, 3)))
        kernel = to_ptx(program)
        if not kernel.registers:
            counts["without a register"] += 1
            continue
        allowed = outcomes(program, races=False).values()
        seen = set()
        try:
            for schedule in SCHEDULES:
                made = Machine()
                memory = np.frombuffer(bytearray(kernel.memory()), np.uint8)
                results = np.zeros(len(kernel.registers), np.uint64)
                made.launch(made.load(kernel.text), "litmus", memory, results, grid=kernel.grid, block=kernel.block, schedule=schedule)
                seen.add(tuple(int(one) for one in results))
        except Fault as fault:
            counts[f"could not run: {str(fault).partition(': ')[2].partition(':')[0]}"] += 1
            continue
        counts["allowed" if seen <= allowed else "not allowed"] += 1
        counts["outcomes seen"] += len(seen & allowed)
        counts["outcomes allowed"] += len(allowed)
        if not seen <= allowed:
            wrong.append(seed)
    print(f"machine: {dict(counts)}; not allowed: {wrong[:5] or 'none'}")
    return not wrong


def main() -> int:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared" / "litmus")
    parser.add_argument("--programs", type=int, default=5000)
    parser.add_argument("--only", choices=["agreement", "manual", "naive", "speed", "rules", "machine"])
    given = parser.parse_args()
    steps: dict[str, Callable[[], bool]] = {
        "agreement": lambda: agreement(given.shared),
        "manual": manual,
        "naive": lambda: naive(given.programs),
        "speed": speed,
        "rules": rules,
        "machine": lambda: machine(given.programs),
    }
    results = [step() for name, step in steps.items() if given.only in (None, name)]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
