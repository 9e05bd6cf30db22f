"""How long the steps of a debugged launch take: `python benchmarks/debug_steps.py k.ptx launch.toml [--check all] [--steps 300]`.

Steps warp 0 forwards, then back ten times from where that ended, and prints the median and the longest of each.
"""

from __future__ import annotations

import argparse
import statistics
import time

from ptxkit.cli.debug import Wanted, _session


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("ptx")
    parser.add_argument("launch")
    parser.add_argument("--check", default="")
    parser.add_argument("--steps", type=int, default=300)
    given = parser.parse_args()
    session = _session(Wanted(given.ptx, given.launch, checks=tuple(given.check.split(",")) if given.check else ()))
    session.start()
    session.wait()
    launch = session.controller.launch
    forward: list[float] = []
    while len(forward) < given.steps:
        start = time.perf_counter()
        session.step("into", session.last.warp if session.last is not None else 0)
        stop = session.wait()
        if stop.reason == "end":
            break
        session.state.how(0)
        forward.append(time.perf_counter() - start)
    backward: list[float] = []
    for _ in range(10):
        start = time.perf_counter()
        if not session.back(0):
            break
        session.wait()
        backward.append(time.perf_counter() - start)
    session.end()
    print(f"{launch.program.kernel}: {launch.threads} threads a CTA, {launch.ctas} CTAs; {session.controller.number} statements")
    for name, times in (("steps", forward), ("steps back", backward)):
        if times:
            print(f"{len(times)} {name}: median {statistics.median(times) * 1e3:.1f} ms, longest {max(times) * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
