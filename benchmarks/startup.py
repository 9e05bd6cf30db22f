"""What starting ptxkit costs beyond an interpreter that does nothing, and what `check` takes for a folder of small files.

    python benchmarks/startup.py [FOLDER]

Printed are milliseconds of the processor, the least of 15 runs: of `ptxkit --version`, and of `check`, `lint --no-run` and `lint` on ten
lines, which only the last executes; then of `check` on a folder of up to 1,000 files of less than 20 kB from FOLDER, the less of two runs,
with nothing kept from before.
Python must be allowed to keep what it compiles. To compare two versions, run it in turn in two worktrees.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
MANY = 1000
SMALL = 20_000

TEN_LINES = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [p];
	st.global.u64 [%rd1], 7;
	ret;
}
"""


def least(runs: int, *arguments: str) -> float:
    """Milliseconds of the processor that the cheapest of so many runs took."""
    times = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as cache:
            environment = {**os.environ, "PTXKIT_CACHE_DIR": cache}
            environment.pop("PYTHONDONTWRITEBYTECODE", None)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, *arguments], check=True, capture_output=True, cwd=HERE, env=environment)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return 1000 * min(times)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = HERE.parent / "shared"
    arguments.add_argument("folder", nargs="?", type=Path, default=default if default.is_dir() else HERE / "fixtures")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder)
        ten = own / "ten.ptx"
        ten.write_text(TEN_LINES)
        nothing = least(15, "-c", "pass")
        print(f"python -c pass: {nothing:.0f} ms; more than that:")
        for name, command in (
            ("--version", ["--version"]),
            ("check, ten lines", ["check", str(ten)]),
            ("lint --no-run, ten lines", ["lint", "--no-run", str(ten)]),
            ("lint, ten lines", ["lint", str(ten)]),
        ):
            print(f"  ptxkit {name}: {least(15, '-m', 'ptxkit', *command) - nothing:.0f} ms")
        many = own / "many"
        many.mkdir()
        found = sorted(path for path in options.folder.rglob("*.ptx") if path.stat().st_size < SMALL and "reject" not in path.parts)
        for i, path in enumerate(found[:: max(1, len(found) // MANY)][:MANY]):
            (many / f"{i}.ptx").write_bytes(path.read_bytes())
        count = len(list(many.iterdir()))
        spent = least(2, "-m", "ptxkit", "check", "--exit-zero", "--jobs", "1", str(many))
        print(f"check of {count} files under 20 kB, one process: {spent:.0f} ms")


if __name__ == "__main__":
    main()
