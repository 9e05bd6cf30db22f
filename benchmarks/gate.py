"""Verdicts of `ptxkit gate` on the fixtures, which are correct kernels with their launches, and how long they take.

    python benchmarks/gate.py [--target sm_90a] [--budget SECONDS] [--limit SECONDS]

Exit status 1 if one is rejected.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.gate.verdict import DECISIVE, REJECT, gate
from ptxkit.cli._launching import names_of, of_description
from ptxkit.rewriters.profiling.description import read
from ptxkit.syntax import parse

KERNELS = Path(__file__).resolve().parent.parent / "fixtures" / "kernels"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--budget", type=float, default=20.0)
    parser.add_argument("--limit", type=float, default=150.0)
    options = parser.parse_args()
    began, verdicts, seconds = time.monotonic(), Counter[str](), []
    described = read(str(KERNELS / "launch.toml"))
    for path in sorted(KERNELS.glob(f"*.{options.target}.ptx")):
        if time.monotonic() - began > options.limit:
            verdicts["not tried"] += 1
            continue
        module = parse(path.read_text(), str(path))
        known = {one.name: one for one in routines(module)}
        mine = [(known[one.kernel], one) for one in described if one.kernel in known and one.is_for(str(path))]
        launches = [(of_description(routine, one), names_of(module, routine)) for routine, one in mine]
        found = gate(module, launches, budget=options.budget, using=())
        verdicts[found.verdict] += 1
        seconds.append(found.seconds)
        if found.verdict == REJECT:
            for one in found.findings:
                if one.certainty in DECISIVE:
                    print(f"{path.name}:{one.diagnostic.span.line}: {one.certainty} by {one.by}: {one.diagnostic.message}", flush=True)
        for reason in found.reasons:
            print(f"{path.name}: {reason.kernel}: {reason.text}"[:200], flush=True)
        if found.seconds > 1.2 * options.budget:
            print(f"{path.name}: {found.seconds:.1f} s", flush=True)
    print(dict(verdicts), f"{sum(seconds):.0f} s, at most {max(seconds, default=0.0):.1f} s")
    sys.exit(bool(verdicts[REJECT]))


if __name__ == "__main__":
    main()
