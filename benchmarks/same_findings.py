"""Whether two checkouts find the same: `python benchmarks/same_findings.py RECORD [FILE…] [--processes N] [--every N] [--whole]`.

The first run writes the findings of every rule to RECORD, a line of JSON for each file; a later one, perhaps of another checkout, compares
with it, prints each file that differs, and the time of the processor before and now. What is compared of a finding is its rule, line,
column, severity and related lines; with `--whole`, messages too. Without files: the fixtures, the lint pairs, the races, the corpus and,
of small files among them, mutants: a line that synchronizes is blanked, so a mutant needs no file of its own (`FILE#LINE`). `--every N`
compares each N-th of the record. Times are of one process after another; what else runs on the machine makes them longer.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from ptxkit import files
from ptxkit.analyses import all_rules, lint
from ptxkit.diagnostics import Diagnostic
from ptxkit.syntax import parse

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
MUTATED, MUTANTS = 30_000, 2
"""Files up to so many bytes are mutated, and at so many lines each."""
SYNCHRONIZES = re.compile(
    r"\b(bar|barrier|fence|mbarrier|membar|cp\.async\S*|wgmma|tcgen05)\."
    r"\S*(sync|wait|commit|arrive|init|fence|inval|relinquish|proxy)"
)

Recorded = tuple[str, list[str], float]
"""A file, what is found in it, and the seconds of the processor that took."""


def everything() -> list[str]:
    """All files there are, the small ones first, and a fixed sample of mutants; relative to the checkout."""
    folders = [ROOT / "fixtures", *(SHARED / name for name in ("lint", "races", "corpus"))]
    found = sorted({path for folder in folders for path in folder.rglob("*.ptx")}, key=lambda path: (path.stat().st_size, path))
    small = [path for path in found if path.stat().st_size <= MUTATED]
    names = [os.path.relpath(path, ROOT) for path in found]
    return [*[mutant for path in small for mutant in mutants(path)], *names]


def mutants(path: Path) -> Iterator[str]:
    """Some lines that synchronize, chosen by a hash: the same ones each time."""
    at = [i for i, line in enumerate(files.read(str(path)).splitlines(), 1) if SYNCHRONIZES.search(line)]
    name = os.path.relpath(path, ROOT)
    at.sort(key=lambda i: hashlib.sha256(f"{name}#{i}".encode()).digest())
    return (f"{name}#{i}" for i in at[:MUTANTS])


def text_of(name: str) -> str:
    path, _, line = name.partition("#")
    text = files.read(str(ROOT / path))
    if not line:
        return text
    lines = text.splitlines(keepends=True)
    lines[int(line) - 1] = "\n"
    return "".join(lines)


def said(diagnostic: Diagnostic, whole: bool) -> str:
    """A finding as a line of JSON."""
    span, related = diagnostic.span, diagnostic.related
    what: list[Any] = [diagnostic.rule, span.line, span.column, str(diagnostic.severity), [one.span.line for one in related]]
    if whole:
        what += [diagnostic.message, diagnostic.notes, [one.message for one in related], str(diagnostic.fix)]
    return json.dumps(what)


def findings(name: str, whole: bool = False) -> Recorded:
    """All that is found in a file, and the seconds that it took."""
    text = text_of(name)
    start = time.process_time()
    try:
        found = [said(diagnostic, whole) for diagnostic in lint(parse(text, name), all_rules())]
    except Exception as error:  # what fails before must fail now
        found = [type(error).__name__]
    return name, found, time.process_time() - start


def _whole(name: str) -> Recorded:
    return findings(name, True)


def computed(names: Iterable[str], processes: int) -> Iterator[Recorded]:
    """Both what is compared by default and messages, in the order of the names."""
    if processes == 1:
        yield from map(_whole, names)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(_whole, names)


def brief(found: Iterable[str]) -> list[str]:
    """Findings without their messages."""
    return [json.dumps(json.loads(one)[:5]) if one.startswith("[") else one for one in found]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("record", type=Path)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--whole", action="store_true")
    asked = parser.parse_args()
    if not asked.record.exists():
        with asked.record.open("w") as lines:
            for one in computed((asked.files or everything())[:: asked.every], asked.processes):
                lines.write(json.dumps(one) + "\n")
                lines.flush()
        return
    recorded: list[Recorded] = [tuple(json.loads(line)) for line in asked.record.read_text().splitlines()]
    recorded = [one for one in recorded if not asked.files or one[0] in asked.files][:: asked.every]
    different, before, after = 0, 0.0, 0.0
    again = computed([one[0] for one in recorded], asked.processes)
    for (name, expected, took), (_, found, now) in zip(recorded, again, strict=True):
        before, after = before + took, after + now
        if not asked.whole:
            expected, found = brief(expected), brief(found)
        if found != expected:
            different += 1
            print(f"{name}: {len(expected)} findings before, {len(found)} now", flush=True)
            for line in sorted(set(expected) ^ set(found))[:4]:
                print(f"  {'-' if line in expected else '+'} {line}")
    print(f"{different} of {len(recorded)} files differ; {before:.1f} s before, {after:.1f} s now: {after / max(before, 0.001):.3f}")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
