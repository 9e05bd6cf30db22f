"""Whether nvJitLink, ptxas and the CUDA driver agree on what is valid PTX, on the reference modules beside the checkout.

    python benchmarks/verdicts.py [--shared FOLDER] [--using driver,nvjitlink,ptxas] [--each N] [--jobs N] [--show N] [--out FILE]

Every module goes to every validator: to nvJitLink and ptxas each time in a process of its own; to the driver in this process, with one
context for all, which is many times as fast, but for the modules that kill one of the others. Prints how the verdicts combine, each
difference with what was said, how often the first error is the same, and the time. `--each` takes that many of each kind, evenly
spread. `--out` keeps all as JSON. A validator that is not there, or cannot judge a module (the GPU is of another kind), does not count.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs

from ptxkit import files
from ptxkit.revalidation import Outcome, Verdict, revalidate
from ptxkit.revalidation.chain import VALIDATORS
from ptxkit.revalidation.log import messages
from ptxkit.syntax import parse

HERE = Path(__file__).resolve().parent.parent


@attrs.frozen
class Case:
    """A reference module, what ptxas 13.0 said of it when the set was made, and what is said now."""

    file: str
    expected: Outcome
    verdicts: dict[str, Verdict]

    def outcomes(self) -> tuple[str, ...]:
        return tuple([verdict.outcome.value for verdict in self.verdicts.values()])

    @property
    def judged(self) -> set[Outcome]:
        return {verdict.outcome for verdict in self.verdicts.values()} - {Outcome.UNAVAILABLE}


def rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)


def spread(items: list[tuple[Path, bool]], count: int | None) -> list[tuple[Path, bool]]:
    """That many of the items, evenly spread."""
    if count is None or count >= len(items):
        return items
    return [items[i * len(items) // count] for i in range(count)]


def reference(folder: Path, kind: str) -> list[tuple[Path, bool]]:
    """The modules of a kind, and whether they are parts of a program."""
    found = []
    for row in rows(folder / f"{kind}.tsv"):
        path = folder / kind / row["file"]
        if path.is_file():
            text = path.read_bytes()
            found.append((path, "-c" in (row.get("ptxas_flags") or "").split() or re.search(rb"\.extern\s+\.func", text) is not None))
    return found


def judge(path: Path, relocatable: bool, expected: Outcome, using: tuple[str, ...], seconds: Counter[str]) -> Case:
    module = parse(files.decode(path.read_bytes()), str(path))
    verdicts: dict[str, Verdict] = {}
    for name in using:
        start = time.perf_counter()
        killer = any(verdict.outcome is Outcome.COMPILER_BUG for verdict in verdicts.values())
        verdicts[name] = revalidate(module, using=[name], timeout=60, relocatable=relocatable, isolated=name != "driver" or killer)
        seconds[name] += time.perf_counter() - start  # type: ignore[assignment]
    return Case(path.name, expected, verdicts)


def first_error(verdict: Verdict) -> str:
    said = [message for message in messages(verdict.log) if message.severity == "error"]
    if said:
        return f"line {said[0].line}: {said[0].text}"
    return verdict.reason or " ".join([diagnostic.message for diagnostic in verdict.diagnostics])


def report(cases: list[Case], using: tuple[str, ...], show: int) -> None:
    for expected in (Outcome.VALID, Outcome.INVALID):
        mine = [case for case in cases if case.expected is expected]
        print(f"{len(mine)} modules that are to be {expected}:")
        for outcomes, count in Counter(case.outcomes() for case in mine).most_common():
            print(f"  {count:6}  " + ", ".join(f"{name} {outcome}" for name, outcome in zip(using, outcomes, strict=True)))
    several = [case for case in cases if sum(verdict.outcome is not Outcome.UNAVAILABLE for verdict in case.verdicts.values()) > 1]
    differing = [case for case in several if len(case.judged) > 1]
    print(f"judged by two or more: {len(several)}; of one mind: {len(several) - len(differing)}")
    for name in using:
        judged = [case for case in cases if case.verdicts[name].outcome is not Outcome.UNAVAILABLE]
        as_expected = sum(case.verdicts[name].outcome is case.expected for case in judged)
        print(f"  {name}: {len(judged)} judged, {as_expected} as the reference set has it")
        for case in [case for case in judged if case.verdicts[name].outcome is not case.expected][:show]:
            print(f"    {case.file}: {case.verdicts[name].outcome} ({first_error(case.verdicts[name])})")
    for case in differing[:show]:
        print(f"  differ on {case.file}:")
        for name, verdict in case.verdicts.items():
            print(f"    {name}: {verdict.outcome} {first_error(verdict)}")
    same = [
        len({first_error(verdict) for verdict in case.verdicts.values() if verdict.outcome is Outcome.INVALID}) == 1 for case in several
    ]
    refused = [one for one, case in zip(same, several, strict=True) if case.judged == {Outcome.INVALID}]
    print(f"refused by all: {len(refused)}; with the same first error on the same line: {sum(refused)}")


def keep_context() -> None:
    """Makes the driver's context stay between modules."""
    cuda = importlib.import_module("cuda.bindings.driver")
    cuda.cuInit(0)
    cuda.cuDevicePrimaryCtxRetain(cuda.cuDeviceGet(0)[1])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--shared", type=Path, default=HERE.parent / "shared")
    arguments.add_argument("--using", default=",".join(VALIDATORS))
    arguments.add_argument("--each", type=int)
    arguments.add_argument("--jobs", type=int, default=1)
    arguments.add_argument("--show", type=int, default=100)
    arguments.add_argument("--out", type=Path)
    options = arguments.parse_args()
    folder = options.shared / "conformance"
    if not folder.is_dir():
        sys.exit(f"{folder} is not there: the reference sets are not part of this project")
    using = tuple(sorted(options.using.split(","), key=("nvjitlink", "ptxas", "driver").index))
    probe = parse(".version 7.0\n.target sm_75\n.address_size 64\n.entry k() { ret; }\n")
    for name in using:
        verdict = revalidate(probe, using=[name])
        if not verdict.ok:
            print(f"{name} is left out: {verdict.skipped[0].reason if verdict.skipped else verdict.reason}")
            using = tuple(other for other in using if other != name)
            continue
        print(f"{name} {verdict.version}")
    if "driver" in using:
        keep_context()
    seconds: Counter[str] = Counter()
    with ThreadPoolExecutor(options.jobs) as pool:
        jobs = [
            pool.submit(judge, path, relocatable, expected, using, seconds)
            for kind, expected in (("accept", Outcome.VALID), ("reject", Outcome.INVALID))
            for path, relocatable in spread(reference(folder, kind), options.each)
        ]
        cases = [job.result() for job in jobs]
    report(cases, using, options.show)
    print("seconds a module: " + ", ".join(f"{name} {seconds[name] / len(cases):.2f}" for name in using))
    if options.out:
        keep = [
            {"file": case.file, "expected": case.expected, **{name: [v.outcome, first_error(v)] for name, v in case.verdicts.items()}}
            for case in cases
        ]
        options.out.write_text(json.dumps(keep, indent=0))


if __name__ == "__main__":
    main()
