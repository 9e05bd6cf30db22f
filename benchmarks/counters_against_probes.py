"""What the machine counts without probes, against what probes count there: every launch of fixtures/kernels/launch.toml.

    python benchmarks/counters_against_probes.py [--target sm_90a] [--only NAME…] [--limit SECONDS]

Compared are the threads of each block, and of each access to global and shared memory requests, threads, sectors, passes and
conflicts. Exit status 1 if a number differs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ptxkit.machine import Fault, Machine
from ptxkit.machine.monitors.counters import Counters
from ptxkit.rewriters import Refused
from ptxkit.rewriters.probing import instrument
from ptxkit.rewriters.profiling.description import read
from ptxkit.rewriters.profiling.execution import execute
from ptxkit.rewriters.profiling.isolation import Outcome, profile
from ptxkit.rewriters.profiling.launch import Launch
from ptxkit.syntax import Module, parse

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "fixtures" / "kernels"
PROBES = ("block-counts", "sectors", "bank-conflicts")
ACCESSES = {
    "sectors": ("global", ("requests", "threads", "sectors")),
    "bank-conflicts": ("shared", ("requests", "threads", "passes", "conflicts")),
}
"""Of a probe's table: the state space, and the columns that are compared."""


def compared(module: Module, launch: Launch, target: str) -> Iterator[tuple[str, Any, Any]]:
    """What is compared in a launch, where, and both numbers. Raises Fault, Refused; ValueError if the probes did not run."""
    machine = Machine(target)
    counters = Counters()
    execute(machine, machine.load(module), launch, monitors=(counters,))
    counted = counters.tables
    made = instrument(module, PROBES)
    found = profile(module.text, made.text, made.manifest, launch, repeat=0, on="machine", target=target)
    if found.outcome not in (Outcome.EQUAL, Outcome.NOT_REPEATABLE):
        raise ValueError(f"{found.outcome}: {found.detail}")
    tables = {table.name: table.rows() for table in found.tables}
    lines = {(row["function"], row["line"]): row for row in counted["lines"]}
    for block in tables.get("block-counts", ()):
        own: Any = lines.get((str(block["function"]), block["line"]), {"threads": 0, "instructions": 1})  # type: ignore[arg-type]
        yield f"block at line {block['line']}", block["count"] * own["instructions"], own["threads"]
    for name, (space, columns) in ACCESSES.items():
        mine_of: dict[Any, Any] = {}
        for row in counted["memory"]:
            if str(row["space"]).startswith(space):
                mine_of.setdefault((row["function"], row["line"]), Counter()).update({column: row[column] for column in columns})
        theirs: dict[Any, Any] = {}
        for other in tables.get(name, ()):
            theirs.setdefault((other["function"], other["line"]), Counter()).update({column: other[column] for column in columns})
        for key, numbers in theirs.items():
            if key in mine_of and not mine_of[key]["requests"]:
                # the probe counts the mbarrier of a copy in bulk as an access of the thread that issues it
                continue
            for column in columns:
                yield f"{column} at line {key[1]}", numbers[column], mine_of.get(key, Counter())[column]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--limit", type=float, default=150.0)
    options = parser.parse_args()
    began, checked, wrong, launches, left_out = time.monotonic(), Counter[str](), Counter[str](), 0, []
    for path in sorted(KERNELS.glob(f"*.{options.target}.ptx")):
        if options.only and path.name.partition(".")[0] not in options.only:
            continue
        module = parse(path.read_text(), str(path))
        names = {kernel.name for kernel in module.kernels}
        for launch in read(str(KERNELS / "launch.toml")):
            if launch.kernel not in names or not launch.is_for(str(path)):
                continue
            if time.monotonic() - began > options.limit:
                left_out.append(f"{path.name} {launch.kernel}: time is up")
                continue
            try:
                for what, theirs, mine in compared(module, launch, options.target):
                    kind = what.split(" ")[0]
                    checked[kind] += 1
                    if theirs != mine:
                        wrong[kind] += 1
                        print(f"{path.name} {launch.kernel}: {what}: probes {theirs}, counted {mine}", flush=True)
                launches += 1
            except (Fault, Refused, ValueError, OSError) as error:
                left_out.append(f"{path.name} {launch.kernel}: {str(error)[:120]}")
    print(f"{launches} launches, {time.monotonic() - began:.0f} s")
    for kind, count in sorted(checked.items()):
        print(f"  {kind:10} {count:6} compared, {wrong[kind]} differ")
    for line in left_out:
        print("  left out:", line)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
