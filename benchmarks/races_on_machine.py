"""`verify` on labelled kernels.

    python benchmarks/races_on_machine.py [--pairs | --launches | --fixtures | --without-launch] [--kernels TEXT] [--label TEXT]
        [--budget SECONDS] [--checks NAMES] [--lint]

Without an option every kernel of ../shared/races, with its launch and parameters; `verify` synthesizes what those leave out. Prints for
each kernel the verdict, then a table by label, what is done within ten seconds, and where `lint` has an error that a verified kernel is not
to have. Exit status 1 if a kernel with a bug is verified or a clean one refuted.

`--busy`: seconds are those of the processor, as on a computer that does other things besides the clock measures these.

`--checks`: the monitors, by their names; the labels speak of races and divergence, not of what nobody has written.

`--lint`: `lint` is asked, too: an error of a launch no larger than that which is verified contradicts the verdict. With `--pairs` of both
files of a pair, with `--launches` of fixtures.

`--launches`: the launches of fixtures/kernels/launch.toml for sm_90a, which are all correct. Exit status 1 if one is refuted.

`--pairs`: the pairs of ../shared/lint: bad ones that are verified, and those of them whose verdict does not name the line of the mistake
as not covered; seen by a rule of the same family; good ones with a finding.

`--without-launch`: what `lint` says of the kernels of ../shared/races, of which it knows no launch: by label, how many have an error or
a warning on the right thing (a race where one is, divergence where threads diverge), and how many clean ones have any. Kernels that race
in global memory are counted also without `scor`, whose accesses are `volatile` and race by the label only. Exit status 1 if a clean one
has one.

`--fixtures`: the correct kernels of fixtures/kernels under all monitors, with what they find and how much longer they take.
"""

from __future__ import annotations

import argparse
import csv
import functools
import json
import math
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ptxkit.analyses import lint
from ptxkit.analyses.execution.loading import loaded
from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.analyses.framework.rule import select
from ptxkit.analyses.inputs.shapes import shapes
from ptxkit.analyses.linting.running import is_executable
from ptxkit.analyses.verify.verdict import REFUTED, VERIFIED, is_wrong, verify
from ptxkit.cli._agreeing import agreed
from ptxkit.cli._launching import Options, names_of, of_description, of_options
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.machine import Fault, Machine
from ptxkit.rewriters.profiling.description import read
from ptxkit.rewriters.profiling.execution import execute
from ptxkit.syntax import Module, parse

SHARED = Path(__file__).resolve().parents[2] / "shared"
FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "kernels"
SOON = 10.0
"""Seconds within which a kernel is to be done."""


class Result(NamedTuple):
    file: str
    label: str
    outcome: str
    seconds: float
    rules: tuple[str, ...]
    detail: str
    contradiction: str = ""
    not_covered: str = ""


def judged(work: tuple[dict[str, str], argparse.Namespace]) -> Result:
    """The verdict on a kernel of ../shared/races, of a pair, or of a launch of fixtures."""
    row, asked = work
    path = SHARED / row["file"]
    module = parsed(str(path))
    started = time.perf_counter()
    try:
        kernel = next(one for one in routines(module) if one.function.header.is_entry and one.name == row.get("kernel", one.name))
        launch = launch_of(module, kernel, row)
        verdict = verify(loaded(module), launch, list(names_of(module, kernel)), asked.budget, asked.checks)
    except (Exception, Fault) as why:  # a kernel that cannot be loaded or launched is one of the figures
        return Result(row["file"], row["label"], type(why).__name__, 0.0, (), str(why))
    verdict = agreed(module, kernel.name, verdict)
    seconds = time.perf_counter() - started
    found = [shown.finding.diagnostic for shown in verdict.findings]
    # a note that refutes is one of the letter of the manual
    wrong_ones = [shown.finding.diagnostic for shown in verdict.findings if is_wrong(shown.finding)]
    rules = tuple(sorted({one.rule for one in wrong_ones}))
    detail = found[0].message if verdict.outcome == REFUTED else "; ".join([one.text for one in verdict.reasons])
    wrong = ""
    if asked.lint and verdict.outcome == VERIFIED:
        errors = [one for one in errors_of(str(path)) if one.function == kernel.name and speaks_of(one, launch)]
        wrong = "; ".join([f"{one.rule} {one.message}" for one in errors])
    return Result(row["file"], row["label"], verdict.outcome, seconds, rules, detail, wrong, "; ".join(verdict.not_covered))


@functools.lru_cache(maxsize=1)
def parsed(path: str) -> Module:
    return parse(Path(path).read_text(encoding="utf-8"), path)


@functools.lru_cache(maxsize=1)
def errors_of(path: str) -> list[Diagnostic]:
    """The errors of `lint`, which synthesizes launches of its own."""
    return [one for one in lint(parsed(path)) if one.severity is Severity.ERROR]


def speaks_of(error: Diagnostic, launch: Any) -> bool:
    """Whether an error says something of a launch: not if it was shown with more CTAs than that has, or with larger ones."""
    shown = (error.witness or {}).get("launch", {})
    return all(math.prod(shown.get(what, (1,))) <= math.prod(getattr(launch, what)) for what in ("grid", "block"))


def by_the_processor() -> None:
    """Measures by the time of the processor whatever asks for the time of the clock."""
    time.perf_counter = time.process_time


def launch_of(module: Module, kernel: Routine, row: dict[str, str]) -> Any:
    """The launch of a kernel with a label, or one of fixtures; of a pair that with its `.reqntid`, else a block of 128."""
    if "launch" in row:
        return of_description(kernel, read(str(FIXTURES / "launch.toml"))[int(row["launch"])])
    if "grid" in row:
        given = tuple([f"{name}={number}" for name, number in json.loads(row["params"]).items()])
        return of_options(module, kernel, Options(row["block"], row["grid"], parameters=given))
    said = next((one for one in shapes(kernel) if math.prod(one.block) == 128), shapes(kernel)[0])
    cluster = _spoken(said.cluster) if said.cluster is not None else None
    return of_options(module, kernel, Options(_spoken(said.block), _spoken(said.grid), cluster))


def _spoken(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))


def run(rows: list[dict[str, str]], asked: argparse.Namespace) -> list[Result]:
    """The verdicts, each printed when it is there."""
    results = []
    with ProcessPoolExecutor(asked.processes, initializer=by_the_processor if asked.busy else None) as pool:
        for result in pool.map(judged, [(row, asked) for row in rows]):
            results.append(result)
            print(f"{result.label:12} {result.outcome:12} {result.seconds:6.2f} s  {result.file}  {result.detail[:400]}", flush=True)
            if result.contradiction:
                print(f"    verified, and lint says: {result.contradiction[:200]}", flush=True)
    table = Counter([(one.label, one.outcome) for one in results])
    outcomes = sorted({outcome for _, outcome in table})
    print("\n" + "label".ljust(14) + " ".join([outcome.rjust(12) for outcome in outcomes]))
    for label in sorted({label for label, _ in table}):
        print(label.ljust(14) + " ".join([str(table[label, outcome]).rjust(12) for outcome in outcomes]))
    soon = sum(one.seconds <= SOON for one in results)
    against = sum(bool(one.contradiction) for one in results)
    print(f"done within {SOON:g} s: {soon} of {len(results)}; contradicted by lint: {against}")
    return results


def of_races(asked: argparse.Namespace) -> int:
    results = run([{**row, "file": f"races/ptx/{row['file']}"} for row in labelled(asked)], asked)
    wrong = [
        one for one in results if (one.label == "clean" and one.outcome == "refuted") or (one.label != "clean" and one.outcome == VERIFIED)
    ]
    return len(wrong)


RACES = ("S003", "S009", "G005", "race")
BY_RACES = ("S003", "S008", "S009", "S010")
"""The rules of ../shared/lint about accesses that nothing orders, and those by which the monitor of races reports them in any space."""
RIGHT = {"race-shared": ("S",), "race-global": ("G",), "divergence": ("B", "C")}
"""The families of rules that say what a label says."""
NO_RACE_BY_THE_LETTER = "scor-"
RACES_BY_THE_LETTER = ("interblock_blkatom", "interblock_blklock")


def linted(row: dict[str, str]) -> tuple[dict[str, str], list[Diagnostic], float]:
    """The errors and warnings of a kernel, of rules of which an execution can show a violation."""
    path = SHARED / "races" / "ptx" / row["file"]
    started = time.process_time()
    found = lint(parse(path.read_text(encoding="utf-8"), str(path)), [rule for rule in select() if is_executable(rule)])
    return row, [one for one in found if one.severity is not Severity.INFO], time.process_time() - started


def without_launch(asked: argparse.Namespace) -> int:
    """What lint says of the kernels of ../shared/races. How many clean ones have an error or a warning."""
    counts: Counter[tuple[str, str]] = Counter()
    seconds = 0.0
    with ProcessPoolExecutor(asked.processes) as pool:
        for row, found, took in pool.map(linted, labelled(asked)):
            label, name = row["label"], row["file"]
            seconds += took
            hits = [one for one in found if label == "clean" or one.rule.startswith(RIGHT[label])]
            is_by_label_only = name.startswith(NO_RACE_BY_THE_LETTER) and not any(part in name for part in RACES_BY_THE_LETTER)
            labels = (label,) if label != "race-global" or is_by_label_only else (label, "race-global by the letter")
            for one in labels:
                counts[one, "all"] += 1
                counts[one, "hit"] += bool(hits)
            if bool(hits) == (label == "clean"):
                said = hits[0] if hits else found[0] if found else None
                text = f"{said.severity.value}[{said.rule}] {said.message[:150]}" if said else "nothing"
                print(f"{label:12} {name}: {text}", flush=True)
    print(f"\n{'label':28} kernels  with a finding on it ({seconds:.0f} s of the processor)")
    for label in sorted({label for label, _ in counts}):
        print(f"{label:28} {counts[label, 'all']:7}  {counts[label, 'hit']}")
    return counts["clean", "hit"]


def labelled(asked: argparse.Namespace) -> list[dict[str, str]]:
    """The kernels of ../shared/races that are asked for."""
    with (SHARED / "races" / "labels.tsv").open(newline="") as lines:
        return [row for row in csv.DictReader(lines, delimiter="\t") if asked.kernels in row["file"] and asked.label in row["label"]]


def is_of_the_family(expected: str, rules: tuple[str, ...]) -> bool:
    """Whether a rule of the family of a planted mistake is among these: by the letter, or the monitor's for that mistake."""
    return any(rule[0] == expected[0] for rule in rules) or (expected in BY_RACES and any(rule in RACES for rule in rules))


def of_pairs(asked: argparse.Namespace) -> int:
    """The planted bugs of ../shared/lint and their twins."""
    with (SHARED / "lint" / "cases.tsv").open(newline="", encoding="utf-8") as lines:
        cases = list(csv.DictReader(lines, delimiter="\t"))
    expected = {row["name"]: row["bug_class"][:4] for row in cases}
    where = {row["name"]: row["bug_line"] for row in cases}
    rows = []
    for name in expected:
        if asked.kernels in name:
            labels = [label for label in ("bad", "good") if asked.label in label]
            rows += [{"file": f"lint/{name}.{label}.ptx", "label": label} for label in labels]
    results = run(rows, asked)
    bad = [one for one in results if one.label == "bad"]
    for one in bad:
        if not is_of_the_family(expected[Path(one.file).name.partition(".")[0]], one.rules):
            print(f"not by its family: {one.file} {one.outcome} {' '.join(one.rules)}")
    seen = [one for one in bad if is_of_the_family(expected[Path(one.file).name.partition(".")[0]], one.rules)]
    alarms = [one for one in results if one.label == "good" and one.rules]
    verified = [one for one in bad if one.outcome == VERIFIED]
    unnamed = [one for one in verified if f"line {where[Path(one.file).name.partition('.')[0]]}" not in one.not_covered]
    for one in unnamed:
        print(f"verified, and the mistake is not named: {one.file}: {one.not_covered}")
    print(f"bad: {len(bad)}, verified {len(verified)}, of these without a word of the mistake {len(unnamed)}")
    print(f"seen by a rule of the family {len(seen)}; good ones with a finding: {len(alarms)}")
    return len(unnamed) + len(alarms)


def of_launches(asked: argparse.Namespace) -> int:
    """The verdicts on the launches of fixtures. How many are refuted."""
    rows = []
    for number, launch in enumerate(read(str(FIXTURES / "launch.toml"))):
        path = next((one for one in sorted(FIXTURES.glob("*.sm_90a.ptx")) if launch.is_for(str(one))), None)
        if path is not None and asked.kernels in f"{path.name} {launch.kernel}":
            rows.append({"file": str(path), "label": "fixture", "kernel": launch.kernel, "launch": str(number)})
    return sum(one.outcome == REFUTED for one in run(sorted(rows, key=lambda row: row["file"]), asked))


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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kernels", default="")
    parser.add_argument("--label", default="")
    parser.add_argument("--budget", type=float, default=10.0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--busy", action="store_true", help="seconds of the processor instead of the clock's")
    parser.add_argument("--lint", action="store_true", help="also ask lint of what is verified")
    parser.add_argument("--pairs", action="store_true", help="the pairs of ../shared/lint")
    parser.add_argument("--launches", action="store_true", help="the launches of fixtures/kernels")
    parser.add_argument("--checks", default="all", help="the monitors; without a name, all")
    parser.add_argument("--without-launch", action="store_true", help="what lint says of the kernels of ../shared/races")
    parser.add_argument("--fixtures", action="store_true", help="the kernels of fixtures/kernels, which are all correct")
    asked = parser.parse_args()
    if asked.fixtures:
        wrong = of_fixtures(asked.budget, ("all",), asked.kernels)
    else:
        mode = of_pairs if asked.pairs else of_launches if asked.launches else without_launch if asked.without_launch else of_races
        wrong = mode(asked)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
