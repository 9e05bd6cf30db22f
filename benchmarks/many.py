"""`ptxkit lint` on many files: beside `ptxas -O3` file by file, two processes beside one, and the cache beside looking.

    python benchmarks/many.py [FOLDER…] [--ptxas RECORD]

Each run is the command as a user starts it, with a cache of its own, on the clock and in time of the processor; the findings of all runs
must be the same. Ratios on the clock count where nothing else runs. With `--ptxas` the files are those that it takes; its times are kept
in the record, and not measured again.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import attrs

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = (ROOT.parent / "shared" / "corpus", ROOT / "fixtures" / "kernels")
OLDEST = 75
"""ptxas 13 makes code for no older target."""


@attrs.frozen
class Took:
    """Seconds."""

    clock: float
    processor: float

    def __str__(self) -> str:
        return f"{self.clock:.1f} s ({self.processor:.1f} s of the processor)"


def adopt_orphans() -> None:
    """Makes this process the parent of processes that outlive theirs, as the server of those of `lint` does: so their time counts."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def timed(command: list[str], **environment: str) -> tuple[Took, int, bytes]:
    """How long a command and all that it starts take, its exit status, and what it prints."""
    before, start = os.times(), time.perf_counter()
    done = subprocess.run(command, capture_output=True, env={**os.environ, **environment}, check=False)
    took = time.perf_counter() - start
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    after = os.times()
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    return Took(took, processor), done.returncode, done.stdout + (done.stderr if done.returncode == 2 else b"")


def lint(folders: list[str], cache: str, *options: str) -> tuple[Took, bytes]:
    """How long a run takes, and what it finds."""
    command = [sys.executable, "-m", "ptxkit", "lint", "--format", "json", *options, *folders]
    took, status, said = timed(command, PTXKIT_CACHE_DIR=cache, PYTHONPATH=str(ROOT))
    if status == 2:
        sys.exit(said.decode())
    return took, said


def ptxas(folders: list[str], record: Path) -> tuple[Took, list[str]]:
    """The files that ptxas takes (not those for later versions of PTX), and how long `-O3` takes for them, one after the other."""
    known = {name: numbers for name, *numbers in map(json.loads, record.read_text().splitlines())} if record.exists() else {}
    paths = [str(path) for folder in folders for path in sorted(Path(folder).rglob("*.ptx"))]
    with tempfile.TemporaryDirectory() as place, record.open("a") as lines:
        for path in paths:
            if path in known:
                continue
            found = re.search(rb"^\s*\.target\s+sm_(\w+)", Path(path).read_bytes(), re.M)
            chip = found[1].decode() if found else "90a"
            chip = str(OLDEST) if chip.isdigit() and int(chip) < OLDEST else chip
            took, status, _ = timed(["ptxas", "-O3", f"-arch=sm_{chip}", "-c", path, "-o", f"{place}/out.cubin"])
            known[path] = [took.clock, took.processor, status]
            lines.write(json.dumps([path, *known[path]]) + "\n")
            lines.flush()
    taken = [path for path in paths if known[path][2] == 0]
    return Took(sum(known[path][0] for path in taken), sum(known[path][1] for path in taken)), taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", default=[str(folder) for folder in FOLDERS if folder.is_dir()])
    parser.add_argument("--ptxas", type=Path, metavar="RECORD")
    asked = parser.parse_args()
    adopt_orphans()
    if asked.ptxas:
        assembling, asked.folders = ptxas(asked.folders, asked.ptxas)
        print(f"ptxas -O3, file by file: {assembling}; {len(asked.folders)} files, the others it refuses", flush=True)
    with tempfile.TemporaryDirectory() as cache:
        two, expected = lint(asked.folders, cache, "--no-cache", "--jobs", "2")
        print(f"lint, two processes: {two}", flush=True)
        one, other = lint(asked.folders, cache, "--no-cache", "--jobs", "1")
        print(f"lint, one process: {one}; two are {one.clock / two.clock:.2f} times as fast on the clock", flush=True)
        if asked.ptxas:
            clock, processor = two.clock / assembling.clock, two.processor / assembling.processor
            print(f"two processes over ptxas: {clock:.2f} on the clock, {processor:.2f} in time of the processor", flush=True)
        cold, first = lint(asked.folders, cache, "--jobs", "1")
        warm, second = min([lint(asked.folders, cache, "--jobs", "1") for _ in range(3)], key=lambda run: run[0].processor)
    clock, processor = cold.clock / warm.clock, cold.processor / warm.processor
    print(f"cache cold {cold}, warm {warm}: {clock:.1f} times as fast, {processor:.1f} in time of the processor")
    if {expected, other, first, second} != {expected}:
        sys.exit("the findings differ")


if __name__ == "__main__":
    main()
