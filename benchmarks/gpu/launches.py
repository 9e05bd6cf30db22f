"""What an H200 leaves in the outputs of the fixtures' launches, and whether the machine leaves the same.

    python benchmarks/gpu/launches.py prepare                          # what there is to run
    python benchmarks/gpu/launches.py run RECORD.json.xz [--workers N]  # on the machine with the GPU
    python benchmarks/gpu/launches.py judge RECORD.json.xz [--only NAME…] [--schedules]

All launches of `fixtures/kernels/launch.toml` for sm_80 and sm_90a, each also on other input and with fewer blocks. Inputs are those of
`ptxkit profile`. An output of up to 8 KiB is in the record as it is, of a longer one a hash and some of its elements. `judge` launches the
same on `ptxkit.machine`; with `--schedules` also late, early and with ten seeds, which must make no difference.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import lzma
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import launcher
from outputs import kept
from plan import Fixture, fixtures


def named(fixture: Fixture) -> str:
    return f"{fixture.name}.{fixture.target}"


def child(name: str, first: int, lines: Path) -> None:
    """Launches a fixture's kernels from number `first` on."""
    fixture = next(one for one in fixtures(only=[name.partition(".")[0]], shapes=True) if named(one) == name)
    with lines.open("a", encoding="utf-8") as out:

        def say(**what: Any) -> None:
            out.write(json.dumps(what) + "\n")
            out.flush()

        launcher.start()
        module = launcher.load(fixture.text)
        for number, kernel in enumerate(fixture.kernels):
            if number < first:
                continue
            say(begun=number)
            try:
                ran = launcher.run(module, kernel, kernel["entry"])
                again = launcher.run(module, kernel, kernel["entry"])
            except launcher.DriverError as error:
                say(done=number, status="failed", detail=str(error))
                os._exit(3)
            varies = {one.argument for one, other in zip(ran.outputs, again.outputs, strict=True) if one.data != other.data}
            say(done=number, status="ran", outputs=[{**kept(output), "varies": output.argument in varies} for output in ran.outputs])


def work(fixture: Fixture, limit: float) -> dict[str, Any]:
    """The results of a fixture's launches, by the launch's name."""
    found: dict[int, dict[str, Any]] = {}
    first = 0
    while first < len(fixture.kernels):
        with tempfile.TemporaryDirectory() as folder:
            lines = Path(folder) / "lines"
            lines.write_text("")
            try:
                ran = subprocess.run(
                    [sys.executable, __file__, "child", named(fixture), str(first), str(lines)],
                    capture_output=True,
                    text=True,
                    timeout=limit,
                    check=False,
                )
                detail = f"the child ended with {ran.returncode}: {ran.stderr[-300:]}"
            except subprocess.TimeoutExpired:
                detail = "hung"
            said = [json.loads(line) for line in lines.read_text().splitlines()]
        begun = max((one["begun"] for one in said if "begun" in one), default=first)
        found.update({one.pop("done"): one for one in said if "done" in one})
        if len(found) == len(fixture.kernels) or all(number in found for number in range(first, len(fixture.kernels))):
            break
        found.setdefault(begun, {"status": "failed", "detail": detail})
        first = begun + 1
    return {f"{named(fixture)} {kernel['id']}": found[number] for number, kernel in enumerate(fixture.kernels) if number in found}


def run(options: argparse.Namespace) -> None:
    begun = time.monotonic()
    os.environ.update(CUDA_CACHE_DISABLE="1", CUDA_MODULE_LOADING="EAGER")
    jobs = list(fixtures(only=options.only, shapes=True))
    results: dict[str, Any] = {}
    with concurrent.futures.ThreadPoolExecutor(options.workers) as pool:
        for found in pool.map(lambda fixture: work(fixture, options.limit), jobs):
            results.update(found)
    counts = Counter(result["status"] for result in results.values())
    for name, result in results.items():
        if result["status"] != "ran":
            print(f"  {name}: {result['detail'][:300]}")
    try:
        about = launcher.describe()
    except (OSError, launcher.DriverError) as error:
        about = {"device": str(error)}
    options.record.parent.mkdir(parents=True, exist_ok=True)
    options.record.write_bytes(lzma.compress(json.dumps({"machine": about, "launches": results}).encode(), preset=9))
    print(
        f"{len(results)} launches of {len(jobs)} modules: {dict(counts)} ({time.monotonic() - begun:.0f} s), "
        f"{options.record.stat().st_size} bytes, {about}"
    )


def read(path: Path) -> dict[str, Any]:
    """A record as `run` wrote it."""
    found: dict[str, Any] = json.loads(lzma.decompress(path.read_bytes()))
    return found


def prepare(options: argparse.Namespace) -> None:
    jobs = list(fixtures(only=options.only, shapes=True))
    print(f"{sum(len(job.kernels) for job in jobs)} launches of {len(jobs)} modules")


def judge(options: argparse.Namespace) -> None:
    from judging_launches import judged

    sys.exit(judged(read(options.record), options))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = arguments.add_subparsers(dest="command", required=True)
    for name, action in (("prepare", prepare), ("run", run), ("judge", judge)):
        command = commands.add_parser(name)
        command.set_defaults(action=action)
        if name != "prepare":
            command.add_argument("record", type=Path)
        command.add_argument("--only", nargs="*", default=[], help="names of fixtures")
        if name == "run":
            command.add_argument("--workers", type=int, default=16)
            command.add_argument("--limit", type=float, default=90, help="seconds for the launches of a module")
        if name == "judge":
            command.add_argument("--schedules", action="store_true")
            command.add_argument("--show", type=int, default=20)
    if sys.argv[1:2] == ["child"]:
        child(sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
        return
    options = arguments.parse_args()
    options.action(options)


if __name__ == "__main__":
    main()
