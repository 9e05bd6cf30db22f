"""`ptxkit lint` on many files: two processes beside one, and the cache beside looking.

    python benchmarks/many.py [FOLDER…]

Each run is the command as a user starts it, with a cache of its own; wall-clock time, so nothing else should run. The findings of all runs
must be the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = (ROOT.parent / "shared" / "corpus", ROOT / "fixtures" / "kernels")


def seconds(folders: list[str], cache: str, *options: str) -> tuple[float, bytes]:
    """How long a run takes, and what it prints."""
    environment = {**os.environ, "PTXKIT_CACHE_DIR": cache, "PYTHONPATH": str(ROOT)}
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "ptxkit", "lint", "--format", "json", *options, *folders], capture_output=True, env=environment, check=False
    )
    if done.returncode == 2:
        sys.exit(done.stderr.decode())
    return time.perf_counter() - start, done.stdout


def main() -> None:
    folders = sys.argv[1:] or [str(folder) for folder in FOLDERS if folder.is_dir()]
    with tempfile.TemporaryDirectory() as cache:
        one, expected = seconds(folders, cache, "--no-cache", "--jobs", "1")
        two, other = seconds(folders, cache, "--no-cache", "--jobs", "2")
        cold, first = seconds(folders, cache, "--jobs", "1")
        warm, second = min(seconds(folders, cache, "--jobs", "1") for _ in range(3))
    print(f"one process {one:.2f} s, two {two:.2f} s: {one / two:.2f} times as fast")
    print(f"cache cold {cold:.2f} s, warm {warm:.2f} s: {cold / warm:.1f} times as fast")
    if {expected, other, first, second} != {expected}:
        sys.exit("the findings differ")


if __name__ == "__main__":
    main()
