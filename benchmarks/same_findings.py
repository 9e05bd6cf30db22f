"""Whether two checkouts find the same: `python benchmarks/same_findings.py RECORD [FILE…] [--every N]`.

The first run writes the findings of every rule to RECORD, with all they say; a later one, perhaps of another checkout, compares with it
and prints each file that differs and the time of the processor of both. Without files: the lint pairs, the fixtures and each N-th file of
every folder of the corpus.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import attrs

from ptxkit import files
from ptxkit.analyses.linting import lint
from ptxkit.analyses.rule import select
from ptxkit.syntax import parse

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
MOST = 1_300_000
"""Larger files are left out, in bytes."""


def sample(every: int) -> list[str]:
    """Some files of each kind there is."""
    found = [path for folder in (ROOT / "fixtures", SHARED / "lint") for path in sorted(folder.rglob("*.ptx"))]
    for folder in sorted((SHARED / "corpus").iterdir()) if SHARED.is_dir() else ():
        small = [path for path in folder.rglob("*.ptx") if path.stat().st_size < MOST]
        found += sorted(small, key=lambda path: (path.stat().st_size, path))[-1::-every]
    return [str(path) for path in found]


def findings(path: str) -> tuple[list[str], float]:
    """All that is said of a file, and the seconds that it took."""
    text = files.read(path)
    start = time.process_time()
    found = lint(parse(text, path), select(("ALL",)))
    took = time.process_time() - start
    return [json.dumps(attrs.asdict(diagnostic), default=str) for diagnostic in found], took


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("record", type=Path)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--every", type=int, default=6)
    asked = parser.parse_args()
    if not asked.record.exists():
        with asked.record.open("w") as lines:
            for path in asked.files or sample(asked.every):
                lines.write(json.dumps([path, *findings(path)]) + "\n")
        return
    different, before, after = 0, 0.0, 0.0
    for line in asked.record.read_text().splitlines():
        path, expected, took = json.loads(line)
        if asked.files and path not in asked.files:
            continue
        found, now = findings(path)
        before, after = before + took, after + now
        if found != expected:
            different += 1
            print(f"{path}: {len(expected)} findings before, {len(found)} now")
            for one in sorted(set(expected) ^ set(found))[:4]:
                print(f"  {'-' if one in expected else '+'} {one}")
    print(f"{different} files differ; {before:.1f} s before, {after:.1f} s now")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
