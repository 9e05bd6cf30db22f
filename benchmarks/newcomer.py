"""A newcomer's path: from a checkout to the first finding, the first picture, the first run of a kernel and the first probe, in a fresh
environment.

    python benchmarks/newcomer.py [--python PYTHON] [--path PATH]

What is committed is copied to an empty folder, and the commands of docs/index.md are typed there, each timed by the clock and in CPU
seconds; nothing of CUDA and no Graphviz need be found by PATH. Packages come from wherever pip is set up to look, without its cache.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCALE = "fixtures/profiling/scale.ptx"
ROW = "fixtures/tutorials/row_max.sm_90a.ptx"
STEPS = (
    ("environment and package (the README's first command begins so)", "{python} -m venv .venv && .venv/bin/pip install -q .", 0),
    ("first lint (its end)", ".venv/bin/ptxkit lint fixtures/kernels", 0),
    ("first finding", f".venv/bin/ptxkit lint {ROW}", 1),
    ("first picture", f".venv/bin/ptxkit cfg {ROW} -k row_max --color divergence -o row_max.svg", 0),
    ("first run of a kernel", f".venv/bin/ptxkit run {SCALE} --launch fixtures/profiling/launch.toml", 0),
    ("first probe", f".venv/bin/ptxkit instrument {SCALE} --probe block-counts -o counted.ptx --manifest counted.json", 0),
)  # fmt: skip


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--python", default="python3", help="the interpreter that makes the environment")
    arguments.add_argument("--path", default=os.environ["PATH"], help="the PATH to work with")
    options = arguments.parse_args()
    wanted = ("PYTHONPATH", "VIRTUAL_ENV", "PATH", "PTXKIT_CACHE_DIR")
    environment = {name: value for name, value in os.environ.items() if name not in wanted}
    environment |= {"PATH": options.path, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_CACHE_DIR": "1"}
    with tempfile.TemporaryDirectory() as folder:
        environment["PTXKIT_CACHE_DIR"] = f"{folder}/cache"
        subprocess.run(["git", "clone", "-q", str(ROOT), f"{folder}/ptxkit"], check=True)
        for tool in ("nvcc", "ptxas", "dot"):
            found = shutil.which(tool, path=options.path)
            print(f"{tool}: {found or 'not there'}")
        begin = time.monotonic()
        for name, command, code in STEPS:
            start, spent = time.monotonic(), _cpu()
            typed = command.format(python=options.python)
            done = subprocess.run(["sh", "-c", typed], cwd=f"{folder}/ptxkit", env=environment, capture_output=True, text=True, check=False)
            print(f"{time.monotonic() - start:6.1f} s, {_cpu() - spent:5.1f} s of CPU  {name}: exit code {done.returncode}")
            if done.returncode != code:
                print(done.stdout + done.stderr, file=sys.stderr)
                return 1
        made = [name for name in ("row_max.svg", "counted.ptx", "counted.json") if (Path(folder) / "ptxkit" / name).is_file()]
        print(f"{len(STEPS)} commands, {(time.monotonic() - begin) / 60:.1f} minutes; made: {', '.join(made)}")
    return 0


def _cpu() -> float:
    """CPU seconds of all processes that have ended."""
    used = os.times()
    return used.children_user + used.children_system


if __name__ == "__main__":
    sys.exit(main())
