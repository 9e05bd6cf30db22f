"""Whether probes find the same on the machine as on a GPU: the launches of fixtures/kernels/launch.toml, and those of scale.ptx.

    python benchmarks/gpu/same_tables.py record RECORD.json.gz [--on gpu] [--target sm_90a] [--workers N] [--limit SECONDS]
    python benchmarks/gpu/same_tables.py compare RECORD.json.gz [--workers N] [--limit SECONDS]

`record` needs a GPU, unless it is `--on machine`. `compare` needs none: it runs what is in the record on the machine. A launch whose
outputs differ from run to run is left out. Exit status 1 if a number differs, 2 if nothing could be recorded.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import gzip
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ptxkit.rewriters import Refused
from ptxkit.rewriters.probing import instrument
from ptxkit.rewriters.profiling.description import read
from ptxkit.rewriters.profiling.isolation import Outcome, profile
from ptxkit.rewriters.profiling.launch import Launch, as_json, from_json
from ptxkit.syntax import parse

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "fixtures" / "kernels"
PROBES = ("block-counts", "edge-counts", "warp-masks", "sectors", "bank-conflicts")
"""Those that count; what others find are addresses, values and times."""
Job = tuple[str, dict[str, Any], str, str]


def jobs(target: str, on: str) -> Iterator[Job]:
    """File, launch, target and where it runs, of everything."""
    for path in sorted(KERNELS.glob(f"*.{target}.ptx")):
        names = {kernel.name for kernel in parse(path.read_text(), str(path)).kernels}
        for launch in read(str(KERNELS / "launch.toml")):
            if launch.kernel in names and launch.is_for(str(path)):
                yield str(path.relative_to(ROOT)), _plain(launch), target, on
    for launch in read(str(ROOT / "fixtures" / "profiling" / "launch.toml")):
        yield "fixtures/profiling/scale.ptx", _plain(launch), target, on


def _plain(launch: Launch) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(as_json(launch)))
    return found


def profiled(job: Job) -> dict[str, Any]:
    """What came of one."""
    path, launch, target, on = job
    found: dict[str, Any] = {"path": path, "launch": launch, "target": target}
    module = parse((ROOT / path).read_text(), path)
    try:
        made = instrument(module, PROBES)
        done = profile(module.text, made.text, made.manifest, from_json(launch), repeat=0, on=on, target=target)
    except (Refused, ValueError) as error:
        return {**found, "outcome": "refused", "detail": str(error)[:200], "tables": {}}
    tables = {table.name: table.rows() for table in done.tables}
    return {**found, "outcome": done.outcome.value, "detail": done.detail[:200], "device": done.device, "tables": tables}


def everything(listed: Iterable[Job], workers: int, limit: float) -> Iterator[dict[str, Any]]:
    """All of them, as many at a time; those that have not begun after so many seconds are left out."""
    end = time.monotonic() + limit
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        for found in pool.map(lambda job: profiled(job) if time.monotonic() < end else None, listed):
            if found is not None:
                yield found


def record(options: argparse.Namespace) -> int:
    done = list(everything(jobs(options.target, options.on), options.workers, options.limit))
    with gzip.open(options.record, "wt", encoding="utf-8") as file:
        json.dump({"version": 1, "device": next((one["device"] for one in done if one.get("device")), ""), "launches": done}, file)
    for outcome, count in sorted(Counter([one["outcome"] for one in done]).items()):
        print(f"{count:5} {outcome}")
    return 0 if any(one["outcome"] == Outcome.EQUAL.value for one in done) else 2


def compare(options: argparse.Namespace) -> int:
    with gzip.open(options.record, "rt", encoding="utf-8") as file:
        recorded = json.load(file)
    known = [one for one in recorded["launches"] if one["outcome"] == Outcome.EQUAL.value]
    compared, differ = Counter[str](), Counter[str]()
    kernels, others = set(), Counter[str]()
    listed = [(one["path"], one["launch"], one["target"], "machine") for one in known]
    for one, mine in zip(known, everything(listed, options.workers, options.limit), strict=False):
        where = f"{Path(one['path']).name} {one['launch']['kernel']}"
        if mine["outcome"] != Outcome.EQUAL.value:
            others[mine["outcome"]] += 1
            print(f"{where}: {mine['outcome']}: {mine['detail']}")
            continue
        kernels.add(where)
        for name, rows in one["tables"].items():
            here = mine["tables"][name]
            if len(here) != len(rows):
                differ[f"{name}: rows"] += 1
                print(f"{where}: {name}: {len(rows)} rows on the GPU, {len(here)} on the machine")
                continue
            for at, (theirs, own) in enumerate(zip(rows, here, strict=True)):
                for column, value in theirs.items():
                    key = f"{name}: {column}"
                    compared[key] += 1
                    if value != own[column]:
                        differ[key] += 1
                        print(f"{where}: {key}, row {at}: {value} on the GPU, {own[column]} on the machine")
    print(f"{recorded['device']}: {len(kernels)} kernels")
    for key, count in sorted(compared.items()):
        print(f"  {key:40} {count:7} compared, {differ[key]} differ")
    for outcome, count in others.items():
        print(f"  left out: {count} {outcome}")
    return int(bool(differ))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("record", type=Path)
    parser.add_argument("--on", default="gpu", choices=("gpu", "machine"))
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", type=float, default=240.0)
    options = parser.parse_args()
    sys.exit(record(options) if options.what == "record" else compare(options))


if __name__ == "__main__":
    main()
