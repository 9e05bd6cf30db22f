"""Time of the asynchronous rules (A, W, T, P, F), or those of other families, over the time of parsing, file by file.

    python benchmarks/protocol_speed.py [--least BYTES] [--every N] [--families M,G,S] PATH...

In time of the processor, each file in this process after a first one that loads the tables, without the garbage collector, which `lint`
pauses too. Two ratios: of the rules by themselves, when
what all rules share (bindings, registers, SSA, values, uniformity, accesses) is there; and with all of that, as if nothing else were asked.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

from ptxkit.analyses.framework.rule import Facts, select
from ptxkit.analyses.memory.accesses import accesses
from ptxkit.analyses.registers.liveness import liveness
from ptxkit.analyses.registers.registers import registers
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.uniformity.uniformity import uniformity
from ptxkit.files import decode
from ptxkit.memo import collector_paused
from ptxkit.syntax import parse

FAMILIES = "A,W,T,P,F"


def measure(path: Path, families: list[str]) -> tuple[float, float, float]:
    """Seconds of parsing, of what is shared, and of the rules."""
    text = decode(path.read_bytes())
    parsing = []
    for _ in range(3):
        start = time.process_time()
        module = parse(text, str(path))
        parsing.append(time.process_time() - start)
    facts = Facts(module)
    start = time.process_time()
    for routine in facts.routines:
        for fact in (registers, liveness, values, uniformity, accesses):
            fact(routine)
    shared = time.process_time() - start
    start = time.process_time()
    for rule in select(families):
        if rule.default:
            list(rule.check(facts))
    return min(parsing), shared, time.process_time() - start


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("paths", nargs="+", type=Path)
    arguments.add_argument("--least", type=int, default=100_000, help="bytes of the smallest file")
    arguments.add_argument("--every", type=int, default=1, help="take every Nth file")
    arguments.add_argument("--families", default=FAMILIES)
    given = arguments.parse_args()
    files = [path for root in given.paths for path in (sorted(root.rglob("*.ptx")) if root.is_dir() else [root])]
    files = [path for path in files if path.stat().st_size >= given.least][:: given.every]
    measure(files[0], given.families.split(","))
    alone, whole = [], []
    sums = [0.0, 0.0, 0.0]
    for path in files:
        with collector_paused():
            parsing, shared, rules = measure(path, given.families.split(","))
        alone.append((rules / parsing, path))
        whole.append((shared + rules) / parsing)
        sums = [total + part for total, part in zip(sums, (parsing, shared, rules), strict=True)]
    ratios = [ratio for ratio, _ in alone]
    print(f"{len(files)} files; rules over parse: {sums[2] / sums[0]:.1f} in all, median {statistics.median(ratios):.1f}")
    print(f"with what is shared: {(sums[1] + sums[2]) / sums[0]:.1f} in all, median {statistics.median(whole):.1f}")
    print(f"above 6: {sum(1 for ratio in ratios if ratio > 6)}")
    for ratio, path in sorted(alone, reverse=True)[:8]:
        print(f"{ratio:6.1f}  {path.name[:90]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
