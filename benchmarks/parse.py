"""How fast `parse` is: against the grammar alone, and against the PyPI package pyptx, file by file in the same run.

    python benchmarks/parse.py [FOLDER] [--least BYTES] [--files N] [--seed N] [--against CHECKOUT]

For each file: ptxkit.parse and a visit of every operand, the best of five; the grammar in parsimonious' own hands, once, in two ways:
straight through (`grammar().parse(text)`, its tree and no more), and statement by statement, each lowered to the same nodes (which
already takes a scanner that knows where statements end); pyptx.parser.parse, the better of two. Printed are the medians of the ratios,
then memory and growth. Times are the processor's, so that a busy machine counts less.

With --against, another checkout of ptxkit and this one parse each file in turn, each in a process of its own, and nothing else is measured.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ptxkit.syntax import nodes, parse
from ptxkit.syntax.grammar import grammar
from ptxkit.syntax.lowering import plain

HERE = Path(__file__).resolve().parent.parent


def best_of(count: int, work: Callable[[str], Any], text: str) -> float:
    """Seconds of the processor that the quickest of so many runs took."""
    times = []
    for _ in range(count):
        start = time.process_time()
        work(text)
        times.append(time.process_time() - start)
    return min(times)


def read(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "surrogateescape")


def parse_and_visit(text: str) -> int:
    """Parses, and counts the operands by looking at each."""
    module = parse(text)
    return sum(1 for function in module.functions for instruction in function.instructions for _ in instruction.operands)


def statements(module: nodes.Module) -> list[tuple[str, str]]:
    """The grammar's rule and the text of each statement."""
    special: dict[type[nodes.Node], str] = {nodes.Instruction: "instruction", nodes.Label: "label", nodes.Line: "statement"}
    return [(special.get(type(node), "directive"), node.body_text) for _, node in module.walk() if isinstance(node, nodes.Statement)]


def straight_through(text: str) -> object:
    return grammar().parse(text)


def by_statement(text: str) -> float:
    """Seconds that the grammar takes for the statements one by one: of all, or as much as 20,000 tell."""
    parts = statements(parse(text))
    sample = parts if len(parts) < 20_000 else random.Random(0).sample(parts, 20_000)
    share = sum(len(part) for _, part in sample) / sum(len(part) for _, part in parts)
    start = time.process_time()
    for rule, part in sample:
        plain(rule, part)
    return (time.process_time() - start) / share


MEASURE = """
import sys
from ptxkit.syntax.parsing import parse
def status(key):
    return next(1024 * int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key))
parse(".version 8.0\\n.target sm_90\\n.entry k(.param .u64 p) { add.u32 a, b, [c+4]; }")
interpreter = status("VmRSS")
text = open(sys.argv[1], "rb").read().decode("utf-8", "surrogateescape")
loaded = status("VmHWM")
module = parse(text)
print((status("VmHWM") - loaded) / len(text), (status("VmHWM") - interpreter) / len(text))
"""


def memory(path: Path) -> tuple[float, float]:
    """Peak bytes a source byte in a fresh process: of parse alone, and of reading the file and parse above the interpreter.

    The kernel's high-water mark of the process itself; getrusage would count the parent that it was forked from.
    """
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    done = subprocess.run([sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True, env=environment)
    alone, above = done.stdout.split()
    return float(alone), float(above)


def growth(text: str) -> float:
    """Time a byte of sixteen times the text, in terms of time a byte of the text."""
    small = min(best_of(1, parse, text) for _ in range(5)) / len(text)
    large = min(best_of(1, parse, 16 * text) for _ in range(2)) / (16 * len(text))
    return large / small


TURN = """
import sys, time
from ptxkit.syntax import parse
text = open(sys.argv[1], "rb").read().decode("utf-8", "surrogateescape")
def visited(text):
    return sum(1 for function in parse(text).functions for instruction in function.instructions for _ in instruction.operands)
visited(".version 8.0\\n.target sm_90\\n.entry k(.param .u64 p) { add.u32 a, b, [c+4]; }")
for work in (parse, visited):
    times = []
    for _ in range(3):
        start = time.process_time()
        work(text)
        times.append(time.process_time() - start)
    print(len(text) / times[0] / 1e6, len(text) / min(times) / 1e6)
"""
KINDS = ("parse, the first of the file", "parse, best of three", "parse and visit, first after it", "parse and visit, best of three")


def in_turn(files: list[Path], other: Path) -> None:
    """Prints the speeds of two checkouts, the other one first, as medians over the files with the least, and the ratios."""
    found: dict[Path, list[list[float]]] = {other: [], HERE: []}
    for path in files:
        for checkout, rows in found.items():
            environment = {**os.environ, "PYTHONPATH": str(checkout)}
            command = [sys.executable, "-c", TURN, str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=checkout)
            rows.append([float(word) for word in done.stdout.split()])
    for kind, before, after in zip(KINDS, zip(*found[other], strict=True), zip(*found[HERE], strict=True), strict=True):
        ratios = [new / old for old, new in zip(before, after, strict=True)]
        shown = " -> ".join(f"{statistics.median(speeds):.1f} ({min(speeds):.1f})" for speeds in (before, after))
        print(f"{kind:32} {shown} MB/s, x{statistics.median(ratios):.2f} (from x{min(ratios):.2f} to x{max(ratios):.2f})")


def report(name: str, ratios: list[float], files: str = "") -> None:
    print(f"  {name:38} x{statistics.median(ratios):.1f} (from x{min(ratios):.1f} to x{max(ratios):.1f}{files})")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = HERE.parent / "shared" / "corpus"
    arguments.add_argument("folder", nargs="?", type=Path, default=default if default.is_dir() else HERE / "fixtures")
    arguments.add_argument("--least", type=int, default=100_000, help="smallest file that counts, bytes")
    arguments.add_argument("--files", type=int, default=24, help="how many files, chosen by lot")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--against", type=Path, metavar="CHECKOUT", help="only compare with this checkout of ptxkit")
    options = arguments.parse_args()
    files = sorted(path for path in options.folder.rglob("*.ptx") if path.stat().st_size >= options.least)
    random.Random(options.seed).shuffle(files)
    files = files[: options.files]
    if options.against is not None:
        in_turn(files, options.against.resolve())
        return
    try:
        from pyptx.parser import parse as peer
    except ImportError:
        peer = None

    grammar()
    speeds, straight, single, against_peer = [], [], [], []
    for path in files:
        text = read(path)
        ours = best_of(5, parse_and_visit, text)
        speeds.append(len(text) / ours / 1e6)
        straight.append(best_of(1, straight_through, text) / ours)
        single.append(by_statement(text) / ours)
        line = f"{path.name[:44]:44} {len(text) / 1e3:6.0f} kB {speeds[-1]:6.2f} MB/s  plain x{straight[-1]:5.1f}  x{single[-1]:5.1f}"
        if peer is not None:
            try:
                against_peer.append(best_of(2, peer, text) / ours)
                line += f"  pyptx x{against_peer[-1]:5.1f}"
            except Exception as error:  # the peer refuses some files: not counted
                line += f"  pyptx: {type(error).__name__}"
        print(line, flush=True)

    print(f"\nmedian over {len(files)} files: {statistics.median(speeds):.2f} MB/s; in terms of it")
    report("plain parsimonious, straight through:", straight)
    report("plain parsimonious by statement:", single)
    if against_peer:
        report("pyptx:", against_peer, f", {len(against_peer)} files that it reads")
    used = [memory(path) for path in files]
    alone, above = [statistics.median(column) for column in zip(*used, strict=True)]
    worst = max(column for column, _ in used)
    print(f"  peak memory of parse: {alone:.1f} bytes a source byte (at most {worst:.1f}); {above:.1f} with the text itself")
    body = read(max(files, key=lambda path: path.stat().st_size))[:1_000_000].rpartition("\n")[0]
    print(f"  growth from {len(body) / 1e6:.1f} MB to {16 * len(body) / 1e6:.0f} MB: x{growth(body):.2f} time a byte")


if __name__ == "__main__":
    main()
