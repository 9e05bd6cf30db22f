"""Every launch of `fixtures/kernels/launch.toml` under every schedule: a correct kernel leaves the same in its outputs.

    python benchmarks/machine_schedules.py [--target sm_90a] [--seeds 10] [--budget 60] [NAME…]

NAMEs select files. Outputs are compared as the launch file says (bits, multisets, tolerances); kernels that it calls inexact are shown
apart. Exit status 1 if one differs or faults.
"""

from __future__ import annotations

import argparse
import sys
import time
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

from ptxkit.machine import Fault, Machine
from ptxkit.rewriters.profiling.comparison import differences
from ptxkit.rewriters.profiling.description import read
from ptxkit.rewriters.profiling.execution import Execution, execute
from ptxkit.rewriters.profiling.launch import Launch

KERNELS = Path(__file__).resolve().parent.parent / "fixtures" / "kernels"


def inexact() -> set[str]:
    """The kernels of which two correct runs may differ."""
    tables = tomllib.loads((KERNELS / "launch.toml").read_text())["kernel"]
    return {table["entry"] for table in tables if table.get("exact") is False}


def run(text: str, target: str, launch: Launch, schedule: str | int, budget: float) -> Execution | str:
    """What came of a launch on a machine of its own, or the fault."""
    machine = Machine(target)
    try:
        return execute(machine, machine.load(text), launch, schedule=schedule, budget=budget)
    except Fault as fault:
        return f"{fault.kind}: {fault}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    launches = read(str(KERNELS / "launch.toml"))
    loose = inexact()
    schedules: list[Any] = ["late", "early", *range(options.seeds)]
    outcomes: Counter[str] = Counter()
    for path in sorted(KERNELS.glob(f"*.{options.target}.ptx")):
        if options.names and not any(name in path.name for name in options.names):
            continue
        text = path.read_text()
        for launch in [one for one in launches if one.is_for(str(path)) and f" {one.kernel}(" in text]:
            started = time.perf_counter()
            first = run(text, options.target, launch, "lockstep", options.budget)
            if isinstance(first, str):
                outcomes["faults"] += 1
                print(f"{path.name} {launch.kernel}: {first[:200]}", flush=True)
                continue
            before = list(first.outputs.values())
            bad = []
            for schedule in schedules:
                found = run(text, options.target, launch, schedule, options.budget)
                if isinstance(found, str):
                    bad.append(f"{schedule}: {found[:200]}")
                elif different := differences(launch, before, list(found.outputs.values())):
                    bad.append(f"{schedule}: {different[0]}")
            word = "equal" if not bad else "inexact, differs" if launch.kernel in loose else "differs"
            outcomes[word] += 1
            if bad:
                print(f"{path.name} {launch.kernel}: {word}, {time.perf_counter() - started:.1f} s\n  " + "\n  ".join(bad[:3]), flush=True)
    print(dict(outcomes))
    return 1 if outcomes["differs"] or outcomes["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
