"""Repairs on the GPU: kernels of the fixtures with a mistake that makes results wrong there, or threads wait for ever, before and after.

    python benchmarks/repairs.py mutants --record RECORD.jsonl --keep FOLDER          # here; makes the repairs
    python benchmarks/gpu/repaired.py prepare RECORD.jsonl FOLDER -o PLAN.zip         # here
    python benchmarks/gpu/repaired.py run PLAN.zip RESULTS.json [--workers N]         # on the machine with the GPU; prints what came of it
    python benchmarks/gpu/repaired.py judge RESULTS.json                              # prints it again

Of each kernel there are three texts: the original, the one with the mistake, and the repaired one, of which `lint` says no more than of the
original. A mistake in the order of threads shows by chance. So each text is run as it is, and with warps that are late after each barrier:
the odd ones, the even ones, the first. All three texts are delayed at the same places, and the results of the original are what is right.
A text runs in a process of its own, which is ended after some seconds; a kernel that does not come to its end by then hangs.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import launcher

RUN_LIMIT = 14.0
"""Seconds for a process."""
NANOSECONDS = 20_000
LATE = {
    "none": "",
    "odd": "and.b32 %late_a, %late_a, 1; setp.ne.u32 %late_p, %late_a, 0;",
    "even": "and.b32 %late_a, %late_a, 1; setp.eq.u32 %late_p, %late_a, 0;",
    "first": "setp.eq.u32 %late_p, %late_a, 0;",
}
"""How the warps are chosen that are late, by the number of the warp and of the CTA together."""
WARP = (
    "mov.u32 %late_a, %tid.z; mov.u32 %late_b, %ntid.y; mul.lo.u32 %late_a, %late_a, %late_b; mov.u32 %late_b, %tid.y; "
    "add.u32 %late_a, %late_a, %late_b; mov.u32 %late_b, %ntid.x; mul.lo.u32 %late_a, %late_a, %late_b; mov.u32 %late_b, %tid.x; "
    "add.u32 %late_a, %late_a, %late_b; shr.u32 %late_a, %late_a, 5; mov.u32 %late_b, %ctaid.x; add.u32 %late_a, %late_a, %late_b;"
)


# --- here -------------------------------------------------------------------------------------------------------------------------


def delayed(text: str, entry: str, late: str) -> str:
    """A text in which some warps of a kernel are late, at its start and after each barrier of the CTA or cluster that they wait at."""
    from ptxkit import fixing
    from ptxkit.analyses.framework.bindings import bindings
    from ptxkit.analyses.framework.routine import routines
    from ptxkit.diagnostics import Edit
    from ptxkit.isa.binding import Bound
    from ptxkit.syntax import Index, parse

    if not LATE[late]:
        return text
    module = parse(text)
    index = Index(module)
    routine = next(one for one in routines(module) if one.name == entry)
    delay = f"{{ .reg .pred %late_p; .reg .b32 %late_a; .reg .b32 %late_b; {WARP} {LATE[late]} @%late_p nanosleep.u32 {NANOSECONDS}; }}"
    first = index.span(routine.where(0)).start
    edits = [Edit(first, first, f"{delay}\n")]
    for i, bound in enumerate(bindings(routine)):
        if isinstance(bound, Bound) and bound.form.mnemonic in ("bar", "barrier") and bound.members is None:
            if any(one.action == "wait" for one in bound.barrier):
                end = index.span(routine.where(i)).end
                edits.append(Edit(end, end, f"\n{delay}"))
    return fixing.apply(text, edits)


def prepare(record: Path, folder: Path, out: Path) -> None:
    """Writes the plan: three texts for each kept mutant, each with all delays."""
    from plan import fixtures

    kept = [one for line in record.read_text().splitlines() if "kept" in (one := json.loads(line))]
    known = {(one.name, one.target): one for one in fixtures()}
    texts: dict[str, str] = {}
    tasks: dict[str, dict[str, Any]] = {}
    jobs = []
    out.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:

        def stored(text: str) -> str:
            if text not in texts:
                texts[text] = f"{len(texts)}.ptx"
                archive.writestr(texts[text], text.encode("utf-8", "surrogateescape"))
            return texts[text]

        def task(text: str, kernel: dict[str, Any]) -> str:
            name = hashlib.sha256(f"{kernel['id']} {text}".encode("utf-8", "surrogateescape")).hexdigest()[:16]
            if name not in tasks:
                ptx = {late: stored(delayed(text, kernel["entry"], late)) for late in LATE}
                tasks[name] = {"name": name, "kernel": kernel, "ptx": ptx}
            return name

        for one in kept:
            fixture = known[one["fixture"], one["target"]]
            three = [(folder / f"{one['kept']}.{which}.ptx").read_text(errors="surrogateescape") for which in ("original", "bad", "good")]
            for kernel in [kernel for kernel in fixture.kernels if kernel["entry"] == one["kernel"]]:
                original, before, after = [task(text, kernel) for text in three]
                jobs.append(
                    {
                        "name": one["kept"],
                        "kernel": f"{fixture.name}.{fixture.target} {one['kernel']}",
                        "kind": one["kind"],
                        "repairs": one["repairs"],
                        "original": original,
                        "before": before,
                        "after": after,
                    }
                )
        archive.writestr("plan.json", json.dumps({"tasks": list(tasks.values()), "jobs": jobs}))
    print(f"{out}: {len(jobs)} mistakes with their repairs, {len(tasks)} texts of {len(LATE)} delays, {out.stat().st_size} bytes")


# --- on the GPU -------------------------------------------------------------------------------------------------------------------


def child(plan: Path, name: str, lines: Path) -> None:
    """Runs a text with each delay and writes down a digest of what each left."""
    with zipfile.ZipFile(plan) as archive:
        task = next(one for one in json.loads(archive.read("plan.json"))["tasks"] if one["name"] == name)
        texts = {late: archive.read(ptx).decode("utf-8", "surrogateescape") for late, ptx in task["ptx"].items()}
    launcher.start()
    with lines.open("a", encoding="utf-8") as out:
        for late, text in texts.items():
            print(json.dumps([late, "begun"]), file=out, flush=True)
            try:
                ran = launcher.run(launcher.load(text), task["kernel"], task["kernel"]["entry"])
            except launcher.DriverError as error:
                print(json.dumps([late, f"failed: {error}"[:300]]), file=out, flush=True)
                os._exit(3)
            digest = hashlib.sha256()
            for output in ran.outputs:
                if output.compare == "sorted":
                    digest.update(b"".join(sorted(launcher.elements(output))))
                elif output.compare != "none":
                    digest.update(output.data)
            print(json.dumps([late, digest.hexdigest()]), file=out, flush=True)
    os._exit(0)


def attempt(plan: Path, name: str) -> dict[str, str]:
    """What each delay of a text led to: a digest, `failed: …` or `hung`; an error spoils the process, so what comes after it has one of
    its own no more."""
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "lines"
        lines.write_text("")
        process = subprocess.Popen([sys.executable, __file__, "child", str(plan), name, str(lines)], stderr=subprocess.PIPE, text=True)
        try:
            _, said = process.communicate(timeout=RUN_LIMIT)
            ended = f"failed: {said[-200:]}"
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            ended = "hung"
        found = dict([json.loads(line) for line in lines.read_text().splitlines()])
    return {late: ended if what == "begun" else what for late, what in found.items()} or {"none": ended}


def run(plan: Path, out: Path, workers: int) -> None:
    """Runs all texts, and prints what came of it."""
    os.environ.update(CUDA_CACHE_DISABLE="1", CUDA_MODULE_LOADING="EAGER")
    begun = time.monotonic()
    with zipfile.ZipFile(plan) as archive:
        planned = json.loads(archive.read("plan.json"))
    names = [one["name"] for one in planned["tasks"]]
    before = {one["before"] for one in planned["jobs"]}
    # what should not hang runs first, undisturbed by what does
    names.sort(key=lambda name: name in before)
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        results = dict(zip(names, pool.map(lambda name: attempt(plan, name), names), strict=True))
    seconds = round(time.monotonic() - begun, 1)
    out.write_text(json.dumps({"seconds": seconds, "jobs": planned["jobs"], "results": results}))
    judge(out)


# --- what came of it --------------------------------------------------------------------------------------------------------------


def differs(one: dict[str, str], original: dict[str, str]) -> dict[str, str]:
    """The delays under which a text leaves something else than the original does."""
    return {late: what for late, what in one.items() if what != original.get(late)}


def judge(record: Path) -> None:
    """Prints what the mistakes did, and what is left of it after the repairs."""
    given = json.loads(record.read_text())
    results = given["results"]
    rows: dict[str, Counter[str]] = {}
    kernels: set[str] = set()
    for job in given["jobs"]:
        original, before, after = (results[job[which]] for which in ("original", "before", "after"))
        if len(original) < len(LATE) or any(what == "hung" or what.startswith("failed") for what in original.values()):
            print(f"left out, as the original fails: {job['name']}: {original}")
            continue
        wrong, still = differs(before, original), differs(after, original)
        hung = "hung" in wrong.values()
        kernels.update({job["kernel"]} if wrong else ())
        for key in (job["kind"], "all"):
            row = rows.setdefault(key, Counter())
            row["mistakes"] += 1
            row["wrong"] += bool(wrong)
            row["hung"] += hung
            row["mended"] += bool(wrong) and not still
            row["harm"] += not wrong and bool(still)
        if still:
            print(f"{'not mended' if wrong else 'harm'}: {job['name']} ({job['kind']}): {'; '.join(job['repairs'])}: {still}")
    columns = ("mistakes", "wrong", "hung", "mended", "harm")
    print(f"{given['seconds']} s; {len(kernels)} kernels whose results are wrong, or that hang")
    print(f"{'':28}" + "".join([f"{column:>10}" for column in columns]))
    for kind, row in sorted(rows.items(), key=lambda item: (item[0] == "all", item[0])):
        print(f"{kind:28}" + "".join([f"{row[column]:>10}" for column in columns]))


def main() -> None:
    if sys.argv[1:2] == ["child"]:
        child(Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["prepare", "run", "judge"])
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--workers", type=int, default=16)
    options = parser.parse_args()
    if options.what == "prepare":
        prepare(options.paths[0], options.paths[1], options.out)
    elif options.what == "run":
        run(options.paths[0], options.paths[1], options.workers)
    else:
        judge(options.paths[0])


if __name__ == "__main__":
    main()
