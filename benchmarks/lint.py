"""`ptxkit lint` on the reference sets: planted bugs found, correct code left alone, and the time that it takes.

    python benchmarks/lint.py --pairs [--families C,B]
    python benchmarks/lint.py --adjudicated
    python benchmarks/lint.py --corpus [FOLDER] [--every N] [--ptxas] [--least BYTES] [--record FILE] [--budget SECONDS]

`--pairs`: of each planted bug, whether its rule reports it, and on the recorded line; of its correct twin and of the traps, every error and
warning of any rule. Only the families that are named are counted; W and M, say, are asked together with `--families W,M`.

`--adjudicated`: of the findings in ../shared/lint/adjudicated that somebody has judged, whether the false ones are gone and the true ones
are there; and every error and warning besides.

`--corpus`: every error and warning of the default rules, and the time of linting over that of parsing, in time of the processor; with
`--ptxas` also the time of the whole command over `ptxas -O3` of the same file, one after the other on the clock: nothing else should run.
`--record` keeps a line of JSON a file and goes on where the last run was stopped; `--budget` stops after that many seconds. `--every`
takes every so many-th file of each folder, by size.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from facts import read

from ptxkit.analyses.framework.rule import all_rules, select
from ptxkit.analyses.linting.linting import lint
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.syntax import parse

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
LIMIT = 600
ALIASES = {"R001m": "R008", "R001s": "R008"}
"""Classes of planted bugs that a rule of another id finds (docs/rules/not-done.md)."""


def found(path: Path, selection: tuple[str, ...] = ()) -> tuple[Diagnostic, ...]:
    """The findings in a file."""
    return lint(parse(read(path), str(path)), select(selection))


def is_loud(diagnostic: Diagnostic) -> bool:
    return diagnostic.severity is not Severity.INFO


def pairs(families: set[str]) -> bool:
    """Prints what becomes of each planted bug. Whether all are found and nothing correct is reported."""
    folder = SHARED / "lint"
    counts: Counter[str] = Counter()
    with (folder / "cases.tsv").open(encoding="utf-8") as lines:
        cases = [case for case in csv.DictReader(lines, delimiter="\t") if case["bug_class"][:1] in families]
    known = {rule.id for rule in all_rules()}
    for case in cases:
        named, name = case["bug_class"].split()[0], case["name"]
        rule = ALIASES.get(named, named)
        counts["by another id"] += rule != named
        counts["planted"] += 1
        # a catalogue rule that is off by default is asked for by name
        hits = [d.span.line for d in found(folder / f"{name}.bad.ptx", ("ALL",)) if d.rule == rule] if rule in known else []
        counts["found"] += bool(hits)
        counts["on the line"] += int(case["bug_line"]) in hits
        if not hits:
            print(f"  {name}: {rule} missed")
        elif int(case["bug_line"]) not in hits:
            print(f"  {name}: {rule} at {hits}, not at {case['bug_line']}")
    correct = [folder / f"{case['name']}.good.ptx" for case in cases] + sorted((folder / "fp").glob("*.ptx"))
    alarms = [(path, d) for path in correct for d in found(path) if is_loud(d) and d.rule[0] in families]
    for path, d in alarms:
        print(f"  {path.name}:{d.span.line}: {d.severity.value}[{d.rule}] {d.message}")
    said = ", ".join(f"{word} {counts[word]}" for word in ("planted", "found", "on the line"))
    said += f" ({counts['by another id']} by a rule of another id)" if counts["by another id"] else ""
    print(f"{said}; alarms in {len(correct)} correct: {len(alarms)}")
    return counts["found"] == counts["planted"] and not alarms


def adjudicated() -> bool:
    """Prints what has become of the findings that were judged. Whether all is as it was judged."""
    folder = SHARED / "lint" / "adjudicated"
    with (folder / "verdicts.tsv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))
    loud = {path.name: [d for d in found(path) if is_loud(d)] for path in sorted(folder.glob("*.ptx"))}
    kept = {(row["file"], row["rule"]) for row in rows if row["verdict"] != "false"}
    counts: Counter[str] = Counter()
    for row in rows:
        is_there = any(d.rule == row["rule"] for d in loud[row["file"]])
        is_right = is_there == ((row["file"], row["rule"]) in kept) or row["verdict"] == "open"
        counts[f"{row['verdict']}, {'there' if is_there else 'gone'}"] += 1
        if not is_right:
            print(f"  {row['file']}: {row['rule']}, judged {row['verdict']}, is {'there' if is_there else 'gone'}")
    judged = {(row["file"], row["rule"]) for row in rows}
    others = [(name, d) for name, own in loud.items() for d in own if (name, d.rule) not in judged]
    for name, d in others:
        print(f"  {name}:{d.span.line}: {d.severity.value}[{d.rule}] {d.message}")
    print("; ".join([f"{verdict} {number}" for verdict, number in sorted(counts.items())]) + f"; not judged {len(others)}")
    return not others and not counts["false, there"] and not counts["true, gone"]


def examine(path: Path, with_ptxas: bool) -> dict[str, Any]:
    """One file: findings that are no infos, and times in seconds."""
    text = read(path)
    start = time.process_time()
    module = parse(text, str(path))
    parsed = time.process_time()
    diagnostics = lint(module)
    done = time.process_time()
    loud = [(d.rule, d.severity.value, d.span.line, d.message) for d in diagnostics if is_loud(d)]
    infos = Counter(d.rule for d in diagnostics if not is_loud(d))
    about: dict[str, Any] = {"path": str(path), "bytes": len(text), "loud": loud, "infos": infos}
    about["parse"], about["lint"] = parsed - start, done - parsed
    if with_ptxas:
        about["command"], about["ptxas"] = clock([sys.executable, "-m", "ptxkit", "lint", "--no-cache", str(path)]), assembly(path, text)
    return about


def clock(command: list[str]) -> float | None:
    """How long a command takes; None if it does not end in time or breaks off."""
    start = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=LIMIT, cwd=ROOT)
    except subprocess.TimeoutExpired:
        return None
    return time.perf_counter() - start if done.returncode in (0, 1) else None


def assembly(path: Path, text: str) -> float | None:
    """How long `ptxas -O3` takes; None where it refuses the file."""
    ptxas = shutil.which("ptxas")
    target = re.search(r"^\.target\s+(sm_\w+)", text, re.M)
    if ptxas is None or target is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.cubin"
        took = clock([ptxas, "-O3", f"-arch={target[1]}", str(path), "-o", str(out)])
        return took if out.exists() else None


def sampled(folder: Path, every: int) -> list[Path]:
    """Every so many-th file of each folder, by size."""
    paths = sorted(folder.rglob("*.ptx"), key=lambda path: path.stat().st_size)
    return [path for one in sorted({path.parent for path in paths}) for path in [path for path in paths if path.parent == one][::every]]


def records(folder: Path, every: int, with_ptxas: bool, least: int, record: Path | None, budget: float) -> Iterator[dict[str, Any]]:
    """What was found of each file, small files first."""
    known: dict[str, dict[str, Any]] = {}
    if record and record.exists():
        known = {entry["path"]: entry for entry in map(json.loads, record.read_text().splitlines())}
    end = time.monotonic() + budget
    chosen = [path for path in sampled(folder, every) if path.stat().st_size >= least]
    for path in sorted(chosen, key=lambda path: path.stat().st_size):
        entry = known.get(str(path))
        if entry is None:
            if time.monotonic() > end:
                print(f"stopped before {path}", file=sys.stderr)
                return
            entry = examine(path, with_ptxas)
            if record:
                with record.open("a") as lines:
                    lines.write(json.dumps(entry) + "\n")
        yield entry


def corpus(entries: list[dict[str, Any]]) -> bool:
    """Prints findings and times. Whether there is no error or warning."""
    loud = 0
    for entry in entries:
        for rule, severity, line, message in entry["loud"]:
            loud += 1
            print(f"  {entry['path']}:{line}: {severity}[{rule}] {message}")
    infos: Counter[str] = Counter()
    for entry in entries:
        infos.update(entry["infos"])
    print(f"{len(entries)} files, {loud} errors and warnings; infos {dict(infos)}")
    large = [entry for entry in entries if entry["bytes"] >= 100_000]
    tell("lint over parse, files of at least 100 kB", [(e["lint"] / e["parse"], e["path"]) for e in large])
    tell("the command over ptxas -O3", [(e["command"] / e["ptxas"], e["path"]) for e in large if e.get("command") and e.get("ptxas")])
    return not loud


def tell(what: str, ratios: list[tuple[float, str]]) -> None:
    if ratios:
        worst, path = max(ratios)
        print(f"{what}: {len(ratios)} files, median {statistics.median(ratio for ratio, _ in ratios):.2f}, worst {worst:.2f} ({path})")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", action="store_true")
    parser.add_argument("--families", default="C,B,A,W,T,P,F,M,G,S,R,V,L")
    parser.add_argument("--corpus", nargs="?", type=Path, const=SHARED / "corpus")
    parser.add_argument("--adjudicated", action="store_true")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--ptxas", action="store_true")
    parser.add_argument("--least", type=int, default=0)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--budget", type=float, default=float("inf"))
    asked = parser.parse_args()
    good = True
    if asked.pairs:
        good = pairs(set(asked.families.split(",")))
    if asked.adjudicated:
        good = adjudicated() and good
    if asked.corpus:
        good = corpus(list(records(asked.corpus, asked.every, asked.ptxas, asked.least, asked.record, asked.budget))) and good
    sys.exit(not good)


if __name__ == "__main__":
    main()
