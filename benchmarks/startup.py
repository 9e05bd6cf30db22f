"""What `ptxkit --version` costs beyond an interpreter that does nothing: `python benchmarks/startup.py`."""

from __future__ import annotations

import subprocess
import sys
import time


def fastest(*arguments: str) -> float:
    """Milliseconds of the fastest of 15 runs."""
    times = []
    for _ in range(15):
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


def main() -> None:
    nothing = fastest("-c", "pass")
    version = fastest("-m", "ptxkit", "--version")
    print(f"python -c pass: {nothing:.0f} ms; ptxkit --version: {version:.0f} ms; {version - nothing:.0f} ms more")


if __name__ == "__main__":
    main()
