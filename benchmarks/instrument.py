"""Every probe on many files: does the compiler take what comes out, and does it come out again byte for byte?

    python benchmarks/instrument.py [--largest BYTES] [--every N] [--record FILE.jsonl] [FOLDER…]

Files up to 40,000 bytes, unless told otherwise; one that nvJitLink does not take as it is counts for the law on bytes only. With --record,
what is done is written down file by file, and a run that was broken off goes on where it was.

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
from pathlib import Path
from typing import Any

import ptxkit
from ptxkit import files
from ptxkit.revalidation import Outcome, Verdict, revalidate
from ptxkit.rewriters.probing import instrument
from ptxkit.rewriters.strip import strip

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = (ROOT.parent / "shared" / "corpus", ROOT / "fixtures" / "kernels")

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


def tried(path: Path, only: str) -> dict[str, Any]:
    """What came of each set of probes on a file."""
    text = files.read(str(path))
    module = ptxkit.parse(text, str(path))
    before = revalidate(module, using=("nvjitlink",), isolated=False, relocatable=True)
    found: dict[str, Any] = {"path": str(path), "taken": before.outcome is Outcome.VALID, "sets": {}}
    for name, probes in SETS.items():
        if only and only not in name:
            continue
        one: dict[str, Any] = {}
        found["sets"][name] = one
        start = time.process_time()
        try:
            made = instrument(module, probes)
        except ValueError as error:
            one["error"] = str(error)
            continue
        except Exception as error:  # what must not be, and is counted here to see the rest all the same
            one["error"] = f"{type(error).__name__}: {error}"
            continue
        one["seconds"] = round(time.process_time() - start, 3)
        one["sites"] = len(made.manifest.sites)
        one["refused"] = Counter([refused.reason for refused in made.manifest.refused])
        one["same"] = strip(made.module).text == text and strip(ptxkit.parse(made.text)).text == text
        if found["taken"] and made.text != text:
            after = revalidate(made.module, using=("nvjitlink",), isolated=False, relocatable=True)
            one["taken"] = after.outcome is Outcome.VALID
            if not one["taken"]:
                reasons = [said.message for said in after.diagnostics if said.severity is ptxkit.Severity.ERROR]
                one["error"] = f"{after.outcome}: {(reasons or [after.reason])[0]}"
    return found


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
    parser.add_argument("--record", type=Path)
    parser.add_argument("--time", action="store_true")
    parser.add_argument("folders", nargs="*", type=Path, default=FOLDERS)
    arguments = parser.parse_args()
    paths = sorted({path for folder in arguments.folders for path in folder.rglob("*.ptx")}, key=lambda path: (path.stat().st_size, path))
    if arguments.time:
        timed(paths)
        return
    chosen = [path for path in paths if path.stat().st_size <= arguments.largest][:: arguments.every]
    done: dict[str, dict[str, Any]] = {}
    if arguments.record and arguments.record.exists():
        done = {line["path"]: line for line in map(json.loads, arguments.record.read_text().splitlines())}
    for path in chosen:
        if str(path) not in done:
            done[str(path)] = tried(path, arguments.only)
            if arguments.record:
                with arguments.record.open("a") as out:
                    out.write(json.dumps(done[str(path)]) + "\n")
    results = [done[str(path)] for path in chosen]
    print(f"{len(results)} files up to {arguments.largest} bytes, {sum([not one['taken'] for one in results])} not taken as they are")
    print(f"{'probes':28} {'sites':>8} {'refused':>8} {'taken':>13} {'byte for byte':>14}")
    wrong: list[str] = []
    reasons: Counter[str] = Counter()
    for name in SETS:
        own = [(one["path"], one["sets"][name]) for one in results if name in one["sets"]]
        if not own:
            continue
        for path_, one in own:
            reasons.update({f"{name}: {reason}": times for reason, times in one.get("refused", {}).items()})
            if "error" in one or not one.get("same", False):
                wrong.append(f"{path_}: {name}: {one.get('error', 'does not come out again')}")
        compiled = [one["taken"] for _, one in own if "taken" in one]
        same = sum([one.get("same", False) for _, one in own])
        sites, refused = sum([one.get("sites", 0) for _, one in own]), sum([sum(one.get("refused", {}).values()) for _, one in own])
        print(f"{name:28} {sites:8} {refused:8} {f'{sum(compiled)}/{len(compiled)}':>13} {f'{same}/{len(own)}':>14}")
    for reason, times in reasons.most_common():
        print(f"left out {times:8}  {reason}")
    print("\n".join(wrong[:200]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
