"""How well predicted register pressure ranks kernels, against the registers that ptxas gives them.

    python benchmarks/pressure.py [FOLDER] [--files N] [--most BYTES] [--kernels OUT.tsv]

Needs ptxas. Takes N files of the folder at random (the seed is fixed) that limit no registers and that this ptxas takes, assembles them
with -v, and prints Spearman's rank correlation over all their kernels of the predicted peak and the registers used. Kernels that call
functions are left out: their figure holds what is called too.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.launch.call_graph import callgraph
from ptxkit.analyses.registers.pressure import pressure
from ptxkit.syntax import parse

HERE = Path(__file__).resolve().parent.parent
USED = re.compile(r"Compiling entry function '([^']+)' for.*?Used (\d+) registers", re.DOTALL)


def registers_of(path: Path, target: str) -> dict[str, int]:
    """By kernel, the registers that ptxas reports; none if it does not take the file."""
    command = ["ptxas", "-v", "-arch", target, str(path), "-o", "/dev/null"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    except subprocess.TimeoutExpired:
        return {}
    found: dict[str, int] = {}
    for part in done.stderr.split("Compiling entry function ")[1:]:
        match = USED.match("Compiling entry function " + part)
        if match is not None:
            found[match[1]] = int(match[2])
    return found


def ranks(numbers: Sequence[float]) -> list[float]:
    """The rank of each number, the mean one where several are equal."""
    order = sorted(range(len(numbers)), key=numbers.__getitem__)
    found = [0.0] * len(numbers)
    at = 0
    while at < len(order):
        end = at
        while end < len(order) and numbers[order[end]] == numbers[order[at]]:
            end += 1
        for place in order[at:end]:
            found[place] = (at + end - 1) / 2
        at = end
    return found


def correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's rank correlation."""
    x, y = ranks(a), ranks(b)
    mean = (len(x) - 1) / 2
    shared = sum((p - mean) * (q - mean) for p, q in zip(x, y, strict=True))
    return float(shared / (sum((p - mean) ** 2 for p in x) * sum((q - mean) ** 2 for q in y)) ** 0.5)


def main() -> None:
    """Prints the figure."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", nargs="?", type=Path, default=HERE.parent / "shared" / "corpus")
    arguments.add_argument("--files", type=int, default=150)
    arguments.add_argument("--most", type=int, default=300_000, help="leave out files with more bytes")
    arguments.add_argument("--kernels", type=Path, help="write name, predicted and reported registers of each kernel there")
    options = arguments.parse_args()
    paths = sorted(path for path in options.folder.rglob("*.ptx") if path.stat().st_size <= options.most)
    random.Random(4).shuffle(paths)
    rows: list[tuple[str, int, int]] = []
    taken = 0
    for path in paths:
        if taken == options.files:
            break
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        if re.search(r"\.(maxnreg|minnctapersm)|setmaxnreg", text):
            continue
        module = parse(text)
        target = next((word for word in module.targets if word.startswith("sm_")), "")
        reported = registers_of(path, target)
        if not reported:
            continue
        taken += 1
        of = routines(module)
        edges = callgraph(module, of).edges
        for routine in of:
            if routine.name in reported and not edges[routine.name]:
                rows.append((f"{path.name}:{routine.name}", pressure(routine).peak, reported[routine.name]))
    if options.kernels is not None:
        options.kernels.write_text("".join(f"{name}\t{predicted}\t{used}\n" for name, predicted, used in rows))
    found = correlation([row[1] for row in rows], [row[2] for row in rows])
    print(f"{taken} files, {len(rows)} kernels, rank correlation of predicted peak and registers used {found:.3f}")


if __name__ == "__main__":
    main()
