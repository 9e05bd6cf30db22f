"""All facts about control and registers over a folder: whether a second route finds the same, and how long they take beside parsing.

    python benchmarks/facts.py [FOLDER] [--least BYTES] [--time | --compare]

Compared are, for every function: the graph, dominators, post-dominators and their frontiers (networkx), liveness (from each read back),
and for functions of at most --chains instructions what each read may see. The second route is tests/analyses/second_route.py.
Timed are the files of at least --least bytes, with the cyclic garbage collector off: parsing, and then names, bindings, registers, graph,
dominators, frontiers, loops, liveness, live ranges, pressure, values and chains of all functions; each the best of three, in time of this
process. Printed is the median of the ratios.
"""

from __future__ import annotations

import argparse
import functools
import gc
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.loops import loops
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.analyses.registers.liveness import live_ranges, liveness
from ptxkit.analyses.registers.pressure import pressure
from ptxkit.analyses.registers.reaching import reaching
from ptxkit.analyses.registers.registers import registers
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.memo import collector_paused
from ptxkit.syntax import Module, parse

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE / "tests" / "analyses"))

FACTS: tuple[Callable[[Routine], object], ...] = (
    bindings,
    registers,
    control_flow,
    dominators,
    lambda routine: dominators(routine).post.frontiers,
    loops,
    liveness,
    live_ranges,
    pressure,
    ssa,
    lambda routine: (ssa(routine).readers, ssa(routine).operand_of),
    reaching,
)


def timed(work: Callable[[], object]) -> float:
    """Seconds of this process for one run, without the garbage of the runs before."""
    gc.collect()
    with collector_paused():
        start = time.process_time()
        work()
        return time.process_time() - start


def all_facts(module: Module) -> None:
    """Every fact of every function, anew."""
    for routine in routines(module):
        for fact in FACTS:
            fact(routine)


def read(path: Path) -> str:
    """The text of a file, whatever its bytes."""
    return path.read_bytes().decode("utf-8", "surrogateescape")


def ratio(path: Path) -> float:
    """The time of all facts over that of parsing. Each module is parsed anew: names are remembered with it."""
    text = read(path)
    parsing = min(timed(lambda: parse(text)) for _ in range(3))
    computing = []
    for _ in range(3):
        module = parse(text)
        computing.append(timed(lambda module=module: all_facts(module)))  # type: ignore[misc]
    return min(computing) / parsing


def compare(path: Path, chains: int) -> tuple[int, int]:
    """The number of functions, and of those for which the routes differ, which are named."""
    from second_route import differences

    wrong = 0
    found = routines(parse(read(path)))
    for routine in found:
        different = list(differences(routine, len(routine.instructions) <= chains))
        if different:
            wrong += 1
            print(f"{path.name}: {routine.name}: {different[0]}", flush=True)
    return len(found), wrong


def main() -> None:
    """Prints the figures."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", nargs="?", type=Path, default=HERE.parent / "shared" / "corpus")
    arguments.add_argument("--least", type=int, default=100_000)
    arguments.add_argument("--chains", type=int, default=3000)
    arguments.add_argument("--time", action="store_true", help="only time")
    arguments.add_argument("--compare", action="store_true", help="only compare")
    options = arguments.parse_args()
    paths = sorted(options.folder.rglob("*.ptx"))
    functions = wrong = 0
    ratios: list[tuple[float, str]] = []
    # a process for each file: what one leaves in memory is no burden to the next
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        if not options.compare:
            large = [path for path in paths if path.stat().st_size >= options.least]
            ratios = list(zip(pool.imap(ratio, large), [path.name for path in large], strict=True))
        if not options.time:
            for here, different in pool.imap(functools.partial(compare, chains=options.chains), paths):
                functions += here
                wrong += different
    if not options.time:
        print(f"{functions} functions, {wrong} for which the second route differs")
    if ratios:
        worst = max(ratios)
        middle = statistics.median(ratio for ratio, _ in ratios)
        print(f"{len(ratios)} files: all facts take {middle:.2f} times as long as parsing (median), at most {worst[0]:.2f} ({worst[1]})")


if __name__ == "__main__":
    main()
