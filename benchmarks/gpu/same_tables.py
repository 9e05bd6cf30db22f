"""Whether probes find the same on the machine as on a GPU: the launches of fixtures/kernels/launch.toml, and those of scale.ptx.

    python benchmarks/gpu/same_tables.py record RECORD.json.gz [--on gpu] [--target sm_90a] [--workers N] [--limit SECONDS]
    python benchmarks/gpu/same_tables.py compare RECORD.json.gz [--again RECORD.json.gz] [--workers N] [--limit SECONDS]

`record` needs a GPU, unless it is `--on machine`. `compare` needs none: it runs what is in the record on the machine. A launch whose
outputs differ from run to run is left out. So are numbers that another record of the GPU (`--again`) has otherwise: how often a loop tries
to swap, or asks for a flag, is a matter of time. What counts threads must be equal; what counts groups of them (`GROUPS`) depends on where
diverged threads come together again, which the GPU chooses (PTX ISA 3.1), and is listed apart. Exit status 1 if a number of threads
differs, 2 if nothing could be recorded.
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
GROUPS = frozenset(
    [
        *[f"warp-masks: {column}" for column in ("executions", "full", "average")],
        *[f"sectors: {column}" for column in ("requests", "sectors", "per_request")],
        *[f"bank-conflicts: {column}" for column in ("requests", "passes", "ideal", "per_request", "conflicts")],
        *[f"mask-histogram: {column}" for column in ("rows", "function", "block", "line", "active", "executions")],
    ]
)
"""What is counted once for each group of threads that are together."""
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
    recorded = _read(options.record)
    known = [one for one in recorded["launches"] if one["outcome"] == Outcome.EQUAL.value]
    again = {_key(one): one["tables"] for one in _read(options.again)["launches"]} if options.again else {}
    compared, differ, unsteady, others = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    kernels = set()
    listed = [(one["path"], one["launch"], one["target"], "machine") for one in known]
    for one, mine in zip(known, everything(listed, options.workers, options.limit), strict=False):
        where = f"{Path(one['path']).name} {one['launch']['kernel']}"
        if mine["outcome"] != Outcome.EQUAL.value:
            others[mine["outcome"]] += 1
            print(f"{where}: {mine['outcome']}: {mine['detail']}")
            continue
        kernels.add(where)
        for name, rows in one["tables"].items():
            second = again.get(_key(one), {}).get(name, rows)
            for key, row, theirs, repeated, own in _numbers(name, rows, second, mine["tables"][name]):
                if theirs != repeated:
                    unsteady[key] += 1
                    continue
                compared[key] += 1
                if theirs != own:
                    differ[key] += 1
                    print(f"{where}: {key}{row}: {theirs} on the GPU, {own} on the machine")
    print(f"{recorded['device']}: {len(kernels)} kernels")
    for title, wanted in (("threads", False), ("groups of threads", True)):
        print(f"{title}:")
        for key in sorted(key for key in compared | unsteady if (key in GROUPS) == wanted):
            print(f"  {key:40} {compared[key]:7} compared, {differ[key]} differ; {unsteady[key]} differ between runs on the GPU")
    for outcome, count in others.items():
        print(f"  left out: {count} {outcome}")
    return int(any(key not in GROUPS for key in differ))


def _read(path: Path) -> dict[str, Any]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


def _key(one: dict[str, Any]) -> str:
    return json.dumps([one["path"], one["launch"], one["target"]], sort_keys=True)


Rows = list[dict[str, Any]]


def _numbers(name: str, rows: Rows, second: Rows, own: Rows) -> Iterator[tuple[str, str, Any, Any, Any]]:
    """Each number of a table: what it is, in which row, and its value on the GPU, there again, and on the machine.

    Where tables are not equally long, that is all that is said of them.
    """
    if not len(rows) == len(second) == len(own):
        yield f"{name}: rows", "", len(rows), len(second), len(own)
        return
    for at, (theirs, repeated, mine) in enumerate(zip(rows, second, own, strict=True)):
        for column, value in theirs.items():
            yield f"{name}: {column}", f", row {at}", value, repeated[column], mine[column]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("record", type=Path)
    parser.add_argument("--again", type=Path, help="another record of the same GPU")
    parser.add_argument("--on", default="gpu", choices=("gpu", "machine"))
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", type=float, default=240.0)
    options = parser.parse_args()
    sys.exit(record(options) if options.what == "record" else compare(options))


if __name__ == "__main__":
    main()
