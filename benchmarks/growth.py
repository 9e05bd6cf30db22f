"""What `lint` takes of memory, and how its time grows with copies of a kernel in a file.

    python benchmarks/growth.py [--files N] [--copies N] [--run] [FOLDER]

Of the N largest PTX files of FOLDER: the peak of memory of a process that lints the file over the bytes of the file; behind it the same
without what a process takes that lints ten lines. Then, of five files of FOLDER with one kernel of 10 to 100 kB, drawn by lot: seconds of
the processor a byte with so many copies of the kernel under other names, over those with one; what a process takes for ten lines is left
out of both. Kernels are executed with `--run` only.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from startup import HERE, TEN_LINES

_KERNEL = re.compile(r"(?:\.visible\s+|\.weak\s+)?\.entry\s+([\w$]+)")


def used(path: Path, runs: bool) -> tuple[float, int]:
    """Seconds of the processor, and the most bytes of memory, of a process that lints a file."""
    command = [sys.executable, "-m", "ptxkit", "lint", "--no-cache", "--jobs", "1", *(() if runs else ("--no-run",)), str(path)]
    process = subprocess.Popen(command, cwd=HERE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, usage = os.wait4(process.pid, 0)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def copies(text: str, count: int) -> str | None:
    """A text with copies of its only kernel under other names; None if it has several, or other functions."""
    found = list(_KERNEL.finditer(text))
    if len(found) != 1 or ".func" in text or "\n.section" in text:
        return None
    kernel = text[found[0].start() :]
    name = found[0][1]
    others = [re.sub(rf"\b{re.escape(name)}(?=\b|_param)", f"{name}_{i}", kernel) for i in range(1, count)]
    return "\n".join([text, *others])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = HERE.parent / "shared" / "corpus"
    arguments.add_argument("folder", nargs="?", type=Path, default=default if default.is_dir() else HERE / "fixtures")
    arguments.add_argument("--files", type=int, default=5)
    arguments.add_argument("--copies", type=int, default=16)
    arguments.add_argument("--run", action="store_true")
    options = arguments.parse_args()
    every = sorted(options.folder.rglob("*.ptx"), key=lambda path: path.stat().st_size, reverse=True)
    with tempfile.TemporaryDirectory() as folder:
        ten = Path(folder) / "ten.ptx"
        ten.write_text(TEN_LINES)
        start, least = used(ten, options.run)
        print(f"ten lines: {start:.2f} s, {least / 1e6:.0f} MB")
        for path in every[: options.files]:
            size = path.stat().st_size
            _, most = used(path, options.run)
            print(f"{path.name}: {size / 1e6:.2f} MB; peak {most / size:.0f} of its bytes; {(most - least) / size:.0f} without the start")
        some = [path for path in every if 10_000 <= path.stat().st_size <= 100_000]
        random.Random(0).shuffle(some)
        measured = 0
        for path in some:
            text = path.read_text(errors="replace")
            many = copies(text, options.copies)
            if many is None or measured == 5:
                continue
            measured += 1
            grown = Path(folder) / "grown.ptx"
            grown.write_text(many)
            one, all_of_them = used(path, options.run)[0] - start, used(grown, options.run)[0] - start
            print(f"{path.name}: {all_of_them / len(many) / (one / len(text)):.2f} of the time a byte with {options.copies} copies")


if __name__ == "__main__":
    main()
