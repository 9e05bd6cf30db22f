"""What uniformity costs and how much it proves.

    python benchmarks/uniformity.py --time [FOLDER] [--least BYTES] [--files N]
    python benchmarks/uniformity.py --precision [FOLDER] [--files N]

`--time`: for files of a folder the processor time of the analysis of all functions over that of parsing, best of three, taken in turn: of
the levels of all values, branches and blocks alone, and with all that they need (control flow, registers, SSA, terms). `--precision`: how
many branches and blocks are proved for which level, refuted, or unknown, and from what the unknown ones come.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from ptxkit.analyses import Routine, control_flow, routines, ssa
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.analyses.uniformity.uniformity import uniformity
from ptxkit.syntax import parse

HERE = Path(__file__).resolve().parent.parent


def timed(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def levels(routine: Routine) -> object:
    """The levels of all values, branches and blocks."""
    return uniformity(routine).levels()


def ratios(text: str) -> tuple[float, float]:
    """The time of the analysis over that of parsing: alone, and with what it needs."""
    parsing = needs = alone = sys.float_info.max
    for _ in range(3):
        parsing = min(parsing, timed(lambda: parse(text)))
        found = routines(parse(text))
        needs = min(needs, timed(lambda found=found: [ssa(routine) for routine in found]))  # type: ignore[misc]
        alone = min(alone, timed(lambda found=found: [levels(routine) for routine in found]))  # type: ignore[misc]
    return alone / parsing, (needs + alone) / parsing


def precision(text: str, counts: Counter[str], causes: Counter[str]) -> None:
    """Counts the verdicts of a module."""
    for routine in routines(parse(text)):
        known, flow = uniformity(routine), control_flow(routine)
        for block in sorted(flow.reachable):
            counts[f"blocks executed together by: {known.block(block).level}"] += 1
            if len(flow.blocks[block].successors) < 2:
                continue
            verdict = known.branch(block)
            refuted = verdict.refuted
            counts[f"branches proved: {verdict.level}"] += 1
            if refuted is not None:
                counts[f"branches refuted{' for some arguments' if refuted.given else ''}: {refuted.scope}"] += 1
            elif verdict.level is Level.THREAD:
                counts["branches unknown"] += 1
                source = known.blame(block)[0]
                causes[routine.instructions[source.instruction].opcode.text if source.instruction >= 0 else "argument"] += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=HERE.parent / "shared" / "corpus")
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--precision", action="store_true")
    parser.add_argument("--least", type=int, default=100_000)
    parser.add_argument("--files", type=int, default=40)
    chosen = parser.parse_args()
    files = [path for path in sorted(chosen.folder.rglob("*.ptx")) if not chosen.time or path.stat().st_size >= chosen.least]
    files = random.Random(0).sample(files, min(chosen.files, len(files)))
    texts = [(path, path.read_bytes().decode("utf-8", "surrogateescape")) for path in files]
    if chosen.time:
        found = []
        for path, text in texts:
            found.append(ratios(text))
            print(f"{path.name[:60]:60} {found[-1][0]:5.2f} {found[-1][1]:5.2f}")
        for place, name in enumerate(("uniformity alone", "with all it needs")):
            numbers = [pair[place] for pair in found]
            print(f"{name}, over parse: median {statistics.median(numbers):.2f}, largest {max(numbers):.2f}")
    if chosen.precision:
        counts: Counter[str] = Counter()
        causes: Counter[str] = Counter()
        for _, text in texts:
            precision(text, counts, causes)
        for name, count in sorted(counts.items()):
            print(f"{count:8} {name}")
        print("unknown branches by source:")
        for name, count in causes.most_common(20):
            print(f"{count:8} {name}")


if __name__ == "__main__":
    main()
