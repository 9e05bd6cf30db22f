"""Mistakes in the fixtures: what ptxas, the four tools of `compute-sanitizer` and ptxkit see of each, and whether the results are wrong.

    python benchmarks/gpu/sanitizer.py prepare -o PLAN.zip
    python benchmarks/gpu/sanitizer.py run PLAN.zip RECORD.json [--workers N] [--limit SECONDS]     # on the machine with the GPU
    python benchmarks/gpu/sanitizer.py judge PLAN.zip RECORD.json

The mistakes are those of `benchmarks/mutants.py`, where a commit, wait, fence or barrier is deleted or weakened, and of `mistakes.py`:
barriers, guards, addresses, masks, initial stores. Left out is what could leave threads waiting: barriers are deleted only in kernels
without mbarriers and without counted barriers. Each text runs as it is and under each tool, every time in a process of its own that has a
limit; so do the originals, of which nothing may be said. `judge` tabulates who sees what: *lint* is what `ptxkit lint` says, *machine* what
`ptxkit run --check all` says of the same launch, both anew.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

TARGET = "sm_90a"
PROTOCOLS = ("copies", "wgmma", "proxies")
FAMILIES = (*PROTOCOLS, "barriers", "masks", "addresses", "uninitialized", "atomics")
EACH = 2
"""Mutants of each kind of change for each kernel, at most."""
SEEN_BY = ("racecheck", "synccheck", "memcheck", "initcheck")
RUN_LIMIT = 25
"""Seconds for one process."""
TOOLS: dict[str, tuple[str, ...]] = {
    "plain": (),
    "racecheck": ("compute-sanitizer", "--tool", "racecheck", "--print-limit", "100"),
    "synccheck": ("compute-sanitizer", "--tool", "synccheck", "--print-limit", "100"),
    "memcheck": ("compute-sanitizer", "--tool", "memcheck", "--print-limit", "100"),
    "initcheck": ("compute-sanitizer", "--tool", "initcheck", "--print-limit", "100"),
}


# --- here -------------------------------------------------------------------------------------------------------------------------


def prepare(out: Path) -> None:
    """Writes the texts, and what ptxas says of them that it does not say of the originals."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import mistakes
    import mutants
    from plan import fixtures

    from ptxkit.analyses.framework.rule import Facts
    from ptxkit.syntax import parse

    out.parent.mkdir(exist_ok=True)
    jobs: list[dict[str, Any]] = []
    refused = 0
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(text: str, **about: Any) -> None:
            name = f"{len(jobs)}.ptx"
            archive.writestr(name, text.encode("utf-8", "surrogateescape"))
            jobs.append({**about, "ptx": name})

        for fixture in fixtures(targets=(TARGET,)):
            facts = Facts(parse(fixture.text, fixture.name))
            by_entry = {routine.name: routine for routine in facts.routines}
            said = messages(fixture.text)
            for kernel in fixture.kernels:
                routine = by_entry[kernel["entry"]]
                made: list[tuple[str, Any]] = []
                for name in PROTOCOLS:
                    protocol = mutants.PROTOCOLS[name]
                    for one in mutants.mutants(facts, routine, protocol, EACH, EACH):
                        if one.change != "delete a barrier" or may_lose_barriers(routine):
                            made.append((name, one))
                loses = may_lose_barriers(routine)
                made += [(one.family, one) for one in mistakes.mistakes(facts, routine, 1, loses) if chosen(one)]
                if made:
                    original = len(jobs)
                    add(fixture.text, fixture=fixture.name, kernel=kernel, protocol="", change="", line=0, ptxas=[], original=original)
                for name, one in made:
                    try:
                        new = sorted(messages(one.text) - said)
                    except RuntimeError:
                        # what ptxas refuses never comes to a user
                        refused += 1
                        continue
                    add(
                        one.text,
                        fixture=fixture.name,
                        kernel=kernel,
                        protocol=name,
                        change=one.change,
                        line=one.line,
                        ptxas=new,
                        original=original,
                    )
        archive.writestr("plan.json", json.dumps(jobs))
    print(f"{out}: {len(jobs)} texts, {sum(1 for job in jobs if job['change'])} of them with a mistake; ptxas refuses {refused} more")


def chosen(one: Any) -> bool:
    """Of wrong addresses, which are many, one in twelve, always the same ones."""
    return one.family != "addresses" or hashlib.sha256(one.text.encode("utf-8", "surrogateescape")).digest()[0] % 12 == 0


def may_lose_barriers(routine: Any) -> bool:
    """Whether no thread waits for longer if a barrier is missing: all of them are plain ones of the whole CTA."""
    from ptxkit.analyses.events.effects import Reach, syncs

    found = syncs(routine)
    return all(sync.reach is not Reach.MBARRIER and len(routine.instructions[i].operands) < 2 for i, sync in found.items())


def messages(text: str) -> set[str]:
    """What ptxas says of a text, without the places. Raises RuntimeError if it refuses it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.ptx"
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
        command = ["ptxas", f"-arch={TARGET}", "-o", f"{folder}/out", str(path)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(ran.stderr[:600])
    lines = (ran.stdout + ran.stderr).splitlines()
    return {re.sub(r"\d+", "#", line.rpartition(";")[2]) for line in lines if line.strip()}


# --- on the GPU -------------------------------------------------------------------------------------------------------------------


def child(plan: Path, number: int) -> None:
    """Runs a kernel once and prints a digest of what it left."""
    import launcher as gpu

    with zipfile.ZipFile(plan) as archive:
        job = json.loads(archive.read("plan.json"))[number]
        text = archive.read(job["ptx"]).decode("utf-8", "surrogateescape")
    gpu.start()
    ran = gpu.run(gpu.load(text), job["kernel"], job["kernel"]["entry"])
    digest = hashlib.sha256()
    for output in ran.outputs:
        if output.compare == "sorted":
            digest.update(b"".join(sorted(gpu.elements(output))))
        elif output.compare != "none":
            digest.update(output.data)
    print("DIGEST", digest.hexdigest(), flush=True)


def attempt(plan: Path, number: int, tool: str) -> dict[str, Any]:
    """One process: how it ended, what its kernel left, and what the tool found."""
    command = [*TOOLS[tool], sys.executable, __file__, "child", str(plan), "--number", str(number)]
    begun = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        text, _ = process.communicate(timeout=RUN_LIMIT)
        ended = "ended"
    except subprocess.TimeoutExpired:
        # the tool has started the program as a child of its own
        os.killpg(process.pid, signal.SIGKILL)
        text, _ = process.communicate()
        ended = "hung"
    digest = re.search(r"DIGEST (\w+)", text)
    summary = re.search(r"RACECHECK SUMMARY: (\d+)|ERROR SUMMARY: (\d+)", text)
    return {
        "ended": ended if digest or ended == "hung" else "failed",
        "digest": digest[1] if digest else "",
        "found": int(summary[1] or summary[2]) if summary else None,
        "said": [line[:200] for line in text.splitlines() if "=========" in line and ("Error" in line or "Race" in line)][:3],
        "tail": "" if digest else text[-300:],
        "seconds": round(time.monotonic() - begun, 1),
    }


def run(plan: Path, out: Path, workers: int, limit: float) -> None:
    """Runs every text under every tool; what is not begun when the limit has passed is left out."""
    os.environ.update(CUDA_CACHE_DISABLE="1", CUDA_MODULE_LOADING="EAGER")
    begun = time.monotonic()
    with zipfile.ZipFile(plan) as archive:
        jobs = json.loads(archive.read("plan.json"))

    def one(number: int) -> dict[str, Any] | None:
        if time.monotonic() - begun > limit:
            return None
        return {"number": number, **{tool: attempt(plan, number, tool) for tool in TOOLS}}

    # the originals first, and of each kernel some
    order = sorted(range(len(jobs)), key=lambda number: (bool(jobs[number]["change"]), number - jobs[number]["original"]))
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        results = [result for result in pool.map(one, order) if result is not None]
    out.write_text(json.dumps({"seconds": round(time.monotonic() - begun, 1), "of": len(jobs), "results": results}))
    print(f"{len(results)} of {len(jobs)} texts, {time.monotonic() - begun:.0f} s")
    for tool in TOOLS:
        print(tool, dict(Counter([f"{result[tool]['ended']}, {result[tool]['found'] and 'something found'}" for result in results])))


# --- what came of it --------------------------------------------------------------------------------------------------------------


def judge(plan: Path, record: Path) -> None:
    """Prints who sees what."""
    import machine_launches
    from plan import fixtures

    from ptxkit.analyses.framework.linting import lint
    from ptxkit.diagnostics import Severity
    from ptxkit.machine import Fault
    from ptxkit.syntax import parse

    by_name = {fixture.name: fixture for fixture in fixtures(targets=(TARGET,))}

    with zipfile.ZipFile(plan) as archive:
        jobs = json.loads(archive.read("plan.json"))
        texts = {number: archive.read(job["ptx"]).decode("utf-8", "surrogateescape") for number, job in enumerate(jobs)}
    given = json.loads(record.read_text())
    ran = {result["number"]: result for result in given["results"]}

    def said(number: int) -> Counter[tuple[str, str]]:
        found = lint(parse(texts[number], "text.ptx"))
        return Counter([(one.rule, one.message) for one in found if one.severity is not Severity.INFO])

    def seen(number: int) -> bool:
        """Whether the machine reports something of the launch under all monitors."""
        job = jobs[number]
        try:
            _, findings = machine_launches.watched(by_name[job["fixture"]], job["kernel"], None, texts[number], 60, "all")
        except Fault:
            return True
        return any(finding.diagnostic.severity is not Severity.INFO for finding in findings)

    before: dict[int, Counter[tuple[str, str]]] = {}
    rows: Counter[tuple[str, str]] = Counter()
    together: Counter[tuple[str, ...]] = Counter()
    for number, job in enumerate(jobs):
        if number not in ran:
            continue
        original, result = ran.get(job["original"]), ran[number]
        if not job["change"]:
            loud = [tool for tool in TOOLS if result[tool]["found"] or result[tool]["ended"] != "ended"]
            if seen(number):
                loud.append("machine")
            print(f"original {job['fixture']} {job['kernel']['entry']}: {', '.join(loud) or 'nothing is said'}", flush=True)
            continue
        if original is None:
            continue
        known = before.setdefault(job["original"], said(job["original"]))
        seers = []
        if job["ptxas"]:
            seers.append("ptxas")
        for tool in SEEN_BY:
            if (result[tool]["found"] or 0) > (original[tool]["found"] or 0):
                seers.append(tool)
        if said(number) - known:
            seers.append("lint")
        if seen(number):
            seers.append("machine")
        wrong = result["plain"]["digest"] != original["plain"]["digest"] or result["plain"]["ended"] != "ended"
        hung = any(result[tool]["ended"] == "hung" for tool in TOOLS)
        together[(*seers, *(["wrong results"] if wrong else []))] += 1
        shown = wrong or not set(SEEN_BY).isdisjoint(seers)
        for kind in (job["protocol"], "all"):
            rows.update([(kind, "mistakes"), *[(kind, seer) for seer in seers]])
            rows.update([(kind, "wrong results")] * wrong + [(kind, "hung")] * hung + [(kind, "shown")] * shown)
            rows.update([(kind, "shown, machine too")] * (shown and "machine" in seers))
        if shown and "machine" not in seers:
            place = f"{job['fixture']} {job['kernel']['entry']}:{job['line']}"
            print(f"not seen: {place}: {job['change']}: {', '.join([*seers, *(['wrong results'] if wrong else [])])}", flush=True)
    columns = ("mistakes", "wrong results", "hung", "ptxas", *SEEN_BY, "lint", "machine", "shown", "shown, machine too")
    print(f"{len(ran)} of {given['of']} texts, {given['seconds']} s; shown: wrong results, or some tool of compute-sanitizer reports it")
    print(f"{'':14}" + "".join([f"{column:>{len(column) + 3}}" for column in columns]))
    for kind in (*FAMILIES, "all"):
        print(f"{kind:14}" + "".join([f"{rows[kind, column]:>{len(column) + 3}}" for column in columns]))
    for who, count in together.most_common():
        print(f"{count:5}  {', '.join(who) or 'nobody'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["prepare", "run", "judge", "child"])
    parser.add_argument("paths", type=Path, nargs="*")
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--limit", type=float, default=85, help="seconds after which no more texts are begun")
    parser.add_argument("--number", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.what == "prepare":
        prepare(options.out)
    elif options.what == "run":
        run(options.paths[0], options.paths[1], options.workers, options.limit)
    elif options.what == "judge":
        judge(options.paths[0], options.paths[1])
    else:
        child(options.paths[0], options.number)


if __name__ == "__main__":
    main()
