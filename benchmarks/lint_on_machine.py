"""Pairs of a bug and its cure under the monitors: `python benchmarks/lint_on_machine.py [--kernels TEXT] [--class LETTERS] [--checks A,B]`.

Every `NAME.bad.ptx` of ../shared/lint runs on the machine with a launch that is synthesized, the first of some for which the twin that is
right runs to its end: blocks by `.reqntid`, else of 128 threads, 8-byte parameters as buffers of 0, 1, 2, …, tensor maps with boxes of as
many bytes as the program announces. Prints for each what is seen of the bad file, of which rules, and what the twin has; then a table by
family. Exit status 1 if a good twin has a finding.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import re
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ptxkit.machine import Code, Fault, Machine, TensorMap
from ptxkit.machine.launching import declared

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "lint"
BUFFER = 1 << 21
SHARED = 64 << 10


class Trial(NamedTuple):
    """What of a launch is synthesized."""

    number: int
    share: int
    """How many boxes of a tensor map make up the bytes that are announced; 0: each map has boxes for a stage of one array."""
    rows: int
    block: tuple[int, ...]
    grid: int


class Result(NamedTuple):
    name: str
    family: str
    seen: tuple[str, ...]
    outcome: str
    twin: tuple[str, ...]
    twin_outcome: str
    message: str


def kernel_of(code: Code) -> str:
    return next(function.name for function in code.module.functions if function.is_entry)


def trials(code: Code, kernel: str) -> Iterator[Trial]:
    said = declared(code, kernel)
    blocks = (
        [tuple(said.get(".reqntid") or ())] if said.get(".reqntid") else [(128,), (64,), (32,), (256,), tuple(said.get(".maxntid", [1]))]
    )
    cluster = int(np.prod(said.get(".reqnctapercluster") or [1]))
    for block, share, rows, number in itertools.product(blocks, (0, 1, 2, 4), (64, 32, 128, 16), (256, 100, 40, 1024)):
        if "tensor" in code.module.text or (share, rows) == (0, 64):
            yield Trial(number, share, rows, block, 2 if cluster == 1 else cluster)


def arguments(machine: Machine, code: Code, kernel: str, trial: Trial) -> list[Any]:
    text = code.module.text
    announced = [int(size) for size in re.findall(r"expect_tx[\w.:]*\s+(?:_,\s*)?\[[^\]]+\],\s*(\d+)", text)]
    dimensions = [int(n) for n in re.findall(r"bulk\.(?:prefetch\.)?tensor\.(\d)d", text)] or [2]
    shared = [int(size) for size in re.findall(r"\.shared[^;\[]*\[(\d+)\];", text)]
    arrays, barriers = [size for size in shared if size >= 1024], min([size for size in shared if size % 8 == 0] or [8])
    found: list[Any] = []
    for _, _, size, symbol in code.program(kernel, False, False).layout():
        kind = symbol.type or ".b64"
        if symbol.dimensions and size >= 128:
            number = sum([isinstance(one, TensorMap) for one in found])
            stages = arrays[number % len(arrays)] // max(1, barriers // 8) if arrays else 4096
            size_of_box = max(announced or [4096]) // trial.share if trial.share else stages
            found.append(tensor_map(size_of_box, trial.rows, dimensions[0]))
        elif symbol.dimensions:
            found.append(bytes(size))
        elif size == 8 and not kind.startswith(".f"):
            buffer = machine.alloc(BUFFER)
            buffer.write(np.arange(BUFFER // 4, dtype=np.uint32))
            found.append(buffer)
        else:
            found.append(1.0 if kind.startswith(".f") else trial.number)
    return found


def tensor_map(size: int, rows: int, dimensions: int) -> Any:
    """A map of 2-byte elements with boxes of so many bytes."""
    rows = rows if dimensions > 1 else 1
    columns = max(size // 2 // rows, 8)
    box = (*[1] * (dimensions - 2), rows, columns)[-dimensions:]
    shape = (*[2] * (dimensions - 2), 1024, max(1024, columns))[-dimensions:]
    return TensorMap(tensor=np.zeros(shape, np.uint16), box=box)


def one(path: Path, trial: Trial, checks: tuple[str, ...], budget: float) -> tuple[tuple[Any, ...], str]:
    """The findings of a launch, and how it ended."""
    machine = Machine(re.findall(r"\.target\s+(\w+)", path.read_text())[0])
    code = machine.load(path.read_text())
    kernel = kernel_of(code)
    shared = SHARED if ".extern .shared" in code.module.text else 0
    try:
        given = arguments(machine, code, kernel, trial)
        run = machine.launch(code, kernel, *given, grid=trial.grid, block=trial.block, shared=shared, budget=budget, checks=checks)
    except Fault as fault:
        return fault.findings, fault.kind
    except (TypeError, ValueError) as why:
        return (), f"refused: {why}"
    return run.findings, "ended"


def judged(work: tuple[dict[str, str], tuple[str, ...], float]) -> Result:
    row, checks, budget = work
    good, bad = FOLDER / f"{row['name']}.good.ptx", FOLDER / f"{row['name']}.bad.ptx"
    family = row["bug_class"].split()[0]
    machine = Machine()
    code = machine.load(good.read_text())
    tried = list(itertools.islice(trials(code, kernel_of(code)), 48))
    chosen: list[Trial] = []
    for trial in tried:
        if trial.number not in [one.number for one in chosen] and one(good, trial, (), 1.0)[1] == "ended":
            chosen.append(trial)
        if len(chosen) == 4:
            break
    seen: list[str] = []
    twins: list[str] = []
    outcomes: list[str] = []
    twin_outcomes: list[str] = []
    message = ""
    for trial in chosen or tried[:1]:
        twin, twin_outcome = one(good, trial, checks, budget)
        found, outcome = one(bad, trial, checks, budget)
        seen += rules(found)
        twins += rules(twin)
        outcomes.append(outcome)
        twin_outcomes.append(twin_outcome)
        message = message or (found[0].diagnostic.message if found else "")
    worst = next((outcome for outcome in outcomes if outcome != "ended"), "ended")
    twin_worst = next((outcome for outcome in twin_outcomes if outcome != "ended"), "ended")
    return Result(row["name"], family, tuple(dict.fromkeys(seen)), worst, tuple(dict.fromkeys(twins)), twin_worst, message)


def rules(findings: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([one.diagnostic.rule for one in findings if one.diagnostic.severity.value != "info"]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kernels", default="")
    parser.add_argument("--family", default="BCMSRG", help="letters of the rules' families")
    parser.add_argument("--checks", default="addresses,barriers,mbarriers,uninitialized")
    parser.add_argument("--budget", type=float, default=5.0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--messages", action="store_true")
    asked = parser.parse_args()
    with (FOLDER / "cases.tsv").open(newline="") as lines:
        rows = [
            row
            for row in csv.DictReader(lines, delimiter="\t")
            if asked.kernels in row["name"] and row["bug_class"][0] in asked.family and (FOLDER / f"{row['name']}.good.ptx").exists()
        ]
    table: Counter[tuple[str, str]] = Counter()
    wrong = 0
    with ProcessPoolExecutor(asked.processes) as pool:
        for result in pool.map(judged, [(row, tuple(asked.checks.split(",")), asked.budget) for row in rows]):
            seen = "seen" if result.seen else "not seen"
            table[result.family[0], seen] += 1
            wrong += bool(result.twin)
            table[result.family[0], "twin wrong"] += bool(result.twin)
            twin = (
                f"  TWIN {','.join(result.twin)}"
                if result.twin
                else ""
                if result.twin_outcome == "ended"
                else f"  twin: {result.twin_outcome}"
            )
            print(f"{result.family:6} {seen:8} {','.join(result.seen) or '-':12} {result.outcome:10} {result.name}{twin}", flush=True)
            if asked.messages and result.message:
                print(f"       {result.message}")
    for letter in sorted({letter for letter, _ in table}):
        print(letter, *[f"{what}: {table[letter, what]}" for what in ("seen", "not seen", "twin wrong")])
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
