"""How fast `parse` is: against the grammar alone, and against the PyPI package pyptx, file by file in the same run.

    python benchmarks/parse.py [FOLDER] [--least BYTES] [--files N]

For each file: ptxkit.parse and a visit of every operand, the best of three; the grammar (parsimonious, statement by statement, lowered
to the same nodes) on the same statements, once; pyptx.parser.parse, once. Printed are the medians of the ratios, and memory and growth.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ptxkit.syntax import nodes
from ptxkit.syntax.grammar import grammar
from ptxkit.syntax.lowering import plain
from ptxkit.syntax.parsing import parse

HERE = Path(__file__).resolve().parent.parent


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def read(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "surrogateescape")


def parse_and_visit(text: str) -> int:
    module = parse(text)
    seen = 0
    for function in module.functions:
        for instruction in function.instructions:
            for _ in instruction.operands:
                seen += 1
    return seen


def statements(module: nodes.Module) -> list[tuple[str, str]]:
    """Rule and text of each statement."""
    found = []
    for _, node in module.walk():
        if isinstance(node, nodes.Statement):
            rule = {nodes.Instruction: "instruction", nodes.Label: "label"}.get(type(node), "directive")
            if type(node) is nodes.Line:
                rule = "statement"
            found.append((rule, node.body_text))
    return found


def plainly(parts: list[tuple[str, str]]) -> None:
    for rule, text in parts:
        plain(rule, text)


def peak_bytes(path: Path, code: str) -> int:
    """Peak resident bytes of a fresh interpreter that runs this code with `path`."""
    program = f"import sys, resource; path = {str(path)!r}\n{code}\nprint(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    return 1024 * int(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=HERE).stdout)


def memory(path: Path) -> float:
    """Peak memory of parse above that of the interpreter with everything imported and a small file parsed, in bytes a source byte."""
    warm = "from ptxkit.syntax.parsing import parse; m = parse('.version 8.0\\n.target sm_90\\n.entry k(.param .u64 p) { add.u32 a, b, [c+4]; }')"
    load = "text = open(path, 'rb').read().decode('utf-8', 'surrogateescape')"
    with_parse, without = peak_bytes(path, f"{warm}; {load}; m = parse(text)"), peak_bytes(path, f"{warm}; {load}")
    return (with_parse - without) / path.stat().st_size


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    default = HERE.parent / "shared" / "corpus"
    arguments.add_argument("folder", nargs="?", type=Path, default=default if default.is_dir() else HERE / "fixtures")
    arguments.add_argument("--least", type=int, default=100_000, help="smallest file that counts, bytes")
    arguments.add_argument("--files", type=int, default=24, help="how many files, chosen by lot")
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    files = sorted(path for path in options.folder.rglob("*.ptx") if path.stat().st_size >= options.least)
    random.Random(options.seed).shuffle(files)
    files = files[: options.files]
    try:
        from pyptx.parser import parse as peer
    except ImportError:
        peer = None

    grammar()
    speeds, against_plain, against_peer = [], [], []
    for path in files:
        text = read(path)
        ours = min(timed(lambda text=text: parse_and_visit(text)) for _ in range(3))
        parts = statements(parse(text))
        sample = parts if len(parts) < 20_000 else random.Random(0).sample(parts, 20_000)
        share = sum(len(part) for _, part in sample) / sum(len(part) for _, part in parts)
        plain_time = timed(lambda sample=sample: plainly(sample)) / share
        speeds.append(len(text) / ours / 1e6)
        against_plain.append(plain_time / ours)
        line = f"{path.name[:50]:50} {len(text) / 1e3:8.0f} kB  {speeds[-1]:6.2f} MB/s  plain x{against_plain[-1]:6.1f}"
        if peer is not None:
            try:
                against_peer.append(timed(lambda text=text: peer(text)) / ours)
                line += f"  pyptx x{against_peer[-1]:5.1f}"
            except Exception as error:  # the peer refuses some files: not counted
                line += f"  pyptx: {type(error).__name__}"
        print(line, flush=True)

    print(f"\nmedian over {len(files)} files: {statistics.median(speeds):.2f} MB/s")
    print(f"  against plain parsimonious: x{statistics.median(against_plain):.1f}")
    if against_peer:
        print(f"  against pyptx:              x{statistics.median(against_peer):.1f} ({len(against_peer)} files that it reads)")
    print(f"  peak memory of parse:       {statistics.median(memory(path) for path in files[:8]):.1f} bytes a source byte")
    body = max(files, key=lambda path: path.stat().st_size)
    one = read(body)[:1_000_000].rpartition("\n")[0]
    small = min(timed(lambda: parse(one)) for _ in range(3)) / len(one)
    large_text = one * 16
    large = timed(lambda: parse(large_text)) / len(large_text)
    print(f"  growth 1 MB -> 16 MB:       x{large / small:.2f} time a byte")
    print(f"  (this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB peak)")


if __name__ == "__main__":
    main()
