"""Every probe on many files: does the compiler take what comes out, and does it come out again byte for byte?

    python benchmarks/instrument.py [--largest BYTES] [--every N] [--jobs N] [--using VALIDATOR] [--no-optimization] [--record FILE]
        [--budget S] [FOLDER…]

Files up to 40,000 bytes, unless told otherwise; one that nvJitLink does not take as it is counts for the law on bytes only. With --record,
what is done is written down file by file and set by set, and a run that was broken off goes on where it was. The largest files come first.
With `--using none` nothing is compiled; with `--no-optimization` the compiler is soonest done with texts of megabytes.
With --budget nothing is begun after so many seconds, and the table is of the files that are done by then.

    python benchmarks/instrument.py --time [FOLDER…]

What it costs to instrument (block counts) and have the compiler take it, beside having it take the original: kernels of about 5,000
instructions, processor time, each the least of three; and what that does to registers and spills.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from pathlib import Path
from typing import Any

import ptxkit
from ptxkit import files
from ptxkit.revalidation import Outcome, Verdict, revalidate
from ptxkit.revalidation.chain import VALIDATORS
from ptxkit.rewriters.probing import instrument
from ptxkit.rewriters.strip import strip

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = (ROOT.parent / "shared" / "corpus", ROOT / "fixtures" / "kernels")

NONE = "none"
COUNT = "user:at=ld,code=@{on} red.global.add.u64 [{slot}]\\, 1;"
SETS: dict[str, tuple[str, ...]] = {
    "block-counts": ("block-counts",),
    "edge-counts, each counted": ("edge-counts:derive=no",),
    "warp-masks": ("warp-masks",),
    "memory-trace": ("memory-trace:space=global+shared+local+generic",),
    "memory-trace, 1/64, last": ("memory-trace:sample=64,keep=last",),
    "sectors": ("sectors",),
    "bank-conflicts": ("bank-conflicts",),
    "cycles": ("cycles",),
    "values": ("values:at=ld",),
    "arguments": ("arguments",),
    "bounds": ("bounds",),
    "bounds, trap": ("bounds:act=trap",),
    "user": (COUNT,),
    "all at once": ("block-counts", "warp-masks", "memory-trace", "sectors", "bank-conflicts", "cycles", "values", "arguments", "bounds"),
}


@lru_cache(maxsize=1)
def _module(path: Path) -> ptxkit.Module:
    return ptxkit.parse(files.read(str(path)), str(path))


def tried(path: Path, name: str, using: str, end: float, optimized: bool = True) -> dict[str, Any] | None:
    """What came of one set of probes on a file, or of the file as it is if `name` is empty; None if it is too late to begin."""
    if time.monotonic() > end:
        return None
    module = _module(path)
    one: dict[str, Any] = {"path": str(path), "set": name}
    if not name:
        one["taken"] = using == NONE or compiled(module, using, optimized).outcome is Outcome.VALID
        return one
    start = time.process_time()
    try:
        made = instrument(module, SETS[name])
    except ValueError as error:
        one["error"] = str(error)
        return one
    except Exception as error:  # what must not be, and is counted here to see the rest all the same
        one["error"] = f"{type(error).__name__}: {error}"
        return one
    one["seconds"] = round(time.process_time() - start, 3)
    one["sites"] = len(made.manifest.sites)
    one["refused"] = Counter([refused.reason for refused in made.manifest.refused])
    one["same"] = strip(made.module).text == module.text and strip(ptxkit.parse(made.text)).text == module.text
    if using != NONE and made.text != module.text:
        after = compiled(made.module, using, optimized)
        one["taken"] = after.outcome is Outcome.VALID
        if not one["taken"]:
            reasons = [said.message for said in after.diagnostics if said.severity is ptxkit.Severity.ERROR]
            one["not taken"] = f"{after.outcome}: {(reasons or [after.reason])[0]}"
    return one


def compiled(module: ptxkit.Module, using: str, optimized: bool) -> Verdict:
    """What the compiler says, within ten minutes."""
    return revalidate(module, using=(using,), timeout=600, relocatable=True, optimized=optimized)


def taken(module: ptxkit.Module) -> tuple[float, Verdict]:
    """What the compiler says, and its processor time in seconds."""
    begun = time.process_time()
    verdict = revalidate(module, using=("nvjitlink",), isolated=False, relocatable=True)
    return time.process_time() - begun, verdict


def timed(paths: list[Path]) -> None:
    """Prints the ratios, registers and spills of the kernels that have about 5,000 instructions."""
    ratios, more, spills = [], [], 0
    for path in paths:
        if not 100_000 < path.stat().st_size < 600_000:
            continue
        text = files.read(str(path))
        if text.count(".entry") != 1 or not 4500 <= text.count(";") <= 5500:
            continue
        best = [float("inf")] * 3
        for _ in range(3):
            module = ptxkit.parse(text, str(path))
            plain, before = taken(module)
            module = ptxkit.parse(text, str(path))
            begun = time.process_time()
            made = instrument(module, ["block-counts"]).module
            put = time.process_time() - begun
            again, after = taken(made)
            best = [min(old, new) for old, new in zip(best, (plain, put, again), strict=True)]
        if before.outcome is not Outcome.VALID or after.outcome is not Outcome.VALID:
            print(f"not taken: {path}")
            continue
        ratios.append((best[1] + best[2]) / best[0])
        for old, new in zip(before.resources, after.resources, strict=True):
            more.append((new.registers or 0) - (old.registers or 0))
            spills += (new.spill_stores or 0) > (old.spill_stores or 0)
        said = f"{best[0] * 1e3:.0f} ms, then {best[1] * 1e3:.0f} + {best[2] * 1e3:.0f} ms"
        print(f"{ratios[-1]:.2f}  {said}  +{more[-1]} registers  {path.name}", flush=True)
    if ratios:
        print(f"{len(ratios)} kernels: median {statistics.median(ratios):.2f}, least {min(ratios):.2f}, most {max(ratios):.2f}")
        print(f"registers: median +{statistics.median(more)}; kernels with new spills: {spills}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=40_000)
    parser.add_argument("--every", type=int, default=1, help="only every so-many-th file, by size")
    parser.add_argument("--only", default="", help="sets whose name contains this")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--using", default="nvjitlink", choices=(*VALIDATORS, NONE))
    parser.add_argument("--no-optimization", action="store_true")
    parser.add_argument("--record", type=Path)
    parser.add_argument("--budget", type=float, default=float("inf"))
    parser.add_argument("--time", action="store_true")
    parser.add_argument("folders", nargs="*", type=Path, default=FOLDERS)
    arguments = parser.parse_args()
    paths = sorted({path for folder in arguments.folders for path in folder.rglob("*.ptx")}, key=lambda path: (path.stat().st_size, path))
    if arguments.time:
        timed(paths)
        return
    chosen = [path for path in paths if path.stat().st_size <= arguments.largest][:: arguments.every]
    done: dict[tuple[str, str], dict[str, Any]] = {}
    if arguments.record and arguments.record.exists():
        done = {(line["path"], line["set"]): line for line in map(json.loads, arguments.record.read_text().splitlines())}
    sets = ["", *[name for name in SETS if arguments.only in name]]
    left = [(path, name) for path in reversed(chosen) for name in sets if (str(path), name) not in done]
    end = time.monotonic() + arguments.budget
    with ProcessPoolExecutor(arguments.jobs) as pool:
        how = arguments.using, end, not arguments.no_optimization
        for waited in as_completed([pool.submit(tried, path, name, *how) for path, name in left]):
            one = waited.result()
            if one is None:
                continue
            done[one["path"], one["set"]] = one
            if arguments.record:
                with arguments.record.open("a") as out:
                    out.write(json.dumps(one) + "\n")
    show([path for path in chosen if all((str(path), name) in done for name in sets)], sets, done)


def show(chosen: list[Path], sets: list[str], done: dict[tuple[str, str], dict[str, Any]]) -> None:
    """Prints what came of it, and ends with status 1 if anything is not as it must be."""
    fine = {str(path) for path in chosen if done[str(path), ""]["taken"]}
    print(f"{len(chosen)} files, {len(chosen) - len(fine)} not taken as they are")
    print(f"{'probes':28} {'sites':>8} {'refused':>8} {'taken':>13} {'byte for byte':>14}")
    wrong: list[str] = []
    reasons: Counter[str] = Counter()
    for name in sets[1:]:
        own = [done[str(path), name] for path in chosen]
        for one in own:
            reasons.update({f"{name}: {reason}": times for reason, times in one.get("refused", {}).items()})
            if "error" in one or not one["same"]:
                wrong.append(f"{one['path']}: {name}: {one.get('error', 'does not come out again')}")
            elif not one.get("taken", True) and one["path"] in fine:
                wrong.append(f"{one['path']}: {name}: {one['not taken']}")
        accepted = [one["taken"] for one in own if "taken" in one and one["path"] in fine]
        same = sum([one.get("same", False) for one in own])
        sites, refused = sum([one.get("sites", 0) for one in own]), sum([sum(one.get("refused", {}).values()) for one in own])
        print(f"{name:28} {sites:8} {refused:8} {f'{sum(accepted)}/{len(accepted)}':>13} {f'{same}/{len(own)}':>14}")
    for reason, times in reasons.most_common():
        print(f"left out {times:8}  {reason}")
    print("\n".join(wrong[:200]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
