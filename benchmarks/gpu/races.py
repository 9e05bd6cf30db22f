"""The race rules beside `compute-sanitizer --tool racecheck`: fixture kernels as they are, and with a barrier left out.

    python benchmarks/gpu/races.py prepare -o PLAN.zip
    python benchmarks/gpu/races.py run PLAN.zip RACES.json [--limit SECONDS]      # on the machine with the GPU
    python benchmarks/gpu/races.py judge RACES.json [PLAN.zip]

The seeds: of each kernel with shared memory, each barrier of the CTA or of a warp is deleted in turn. What the rules say is found out when
the plan is made: of the same text with `.reqntid`, which says how the kernel is launched. A seed counts where racecheck reports an error or
a warning. Each launch has a time limit; it is a child process that is ended then, and the next one goes on with the next text.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FAMILIES = ("A", "G", "M", "S")
MOST = 6
"""Seeds of a kernel."""
PATIENCE = 12.0
"""Seconds without a word from the child after which a launch counts as hung."""


def prepare(out: Path) -> None:
    """Writes the texts, the launches and what the rules say."""
    from plan import LARGE, fixtures

    jobs: list[dict[str, Any]] = []
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for fixture in fixtures(targets=("sm_90a",)):
            if len(fixture.text) > LARGE:
                continue
            for kernel in fixture.kernels:
                for seed, line, text in texts(fixture.text, kernel["entry"]):
                    name = f"{kernel['entry']}_v{len(jobs)}"
                    said = says(text, kernel)
                    archive.writestr(f"{name}.ptx", re.sub(rf"\b{kernel['entry']}\b", name, text).encode("utf-8", "surrogateescape"))
                    jobs.append(
                        {"fixture": fixture.name, "kernel": kernel, "name": name, "seed": seed, "line": line, "rules": sorted(said)}
                    )
        archive.writestr("plan.json", json.dumps(jobs))
    seeds = [job for job in jobs if job["seed"]]
    print(f"{out}: {len(jobs) - len(seeds)} kernels, {len(seeds)} seeds; rules report {sum(bool(job['rules']) for job in seeds)}")


def texts(text: str, entry: str) -> Iterator[tuple[str, int, str]]:
    """A module as it is, and with one barrier of a kernel deleted: what, in which line, and the text. Nothing without shared memory."""
    from ptxkit.analyses.events.steps import Does, steps
    from ptxkit.analyses.framework.routine import routines
    from ptxkit.analyses.memory.accesses import accesses
    from ptxkit.syntax import Index, parse

    module = parse(text)
    index = Index(module)
    routine = next(one for one in routines(module) if one.name == entry)
    own = steps(routine)
    if not any(access.writes and access.space == ".shared" for access in accesses(routine)):
        return
    yield "", 0, text
    count = 0
    for i, found in own.items():
        said = routine.instructions[i].opcode.text
        # of the meetings of a warp, only those that do nothing else
        if not any(step.does is Does.BARRIER_SYNC or (step.does is Does.JOIN and said.startswith("bar")) for step in found):
            continue
        if count == MOST or said.startswith(("bar.red", "barrier.red", "barrier.cta.red")):
            continue
        count += 1
        span = index.span(routine.where(i))
        end = text.index(";", span.start) + 1
        yield said, span.line, text[: span.start] + " " * (end - span.start) + text[end:]


def says(text: str, kernel: dict[str, Any]) -> set[str]:
    """The rules of what the monitors of the machine report in a kernel."""
    from ptxkit.analyses.execution.execute import execute
    from ptxkit.analyses.execution.launch import Launch
    from ptxkit.analyses.execution.loading import loaded
    from ptxkit.analyses.execution.parameters import parameters
    from ptxkit.analyses.framework.routine import routines
    from ptxkit.diagnostics import Severity
    from ptxkit.syntax import parse

    module = parse(text)
    routine = next(one for one in routines(module) if one.name == kernel["entry"])
    grid, block = tuple(kernel["grid"]), tuple(kernel["block"])
    arguments = tuple([one.made_up(math.prod(grid) * math.prod(block)) for one in parameters(routine)])
    launch = Launch(kernel["entry"], grid, block, arguments, tuple(kernel["cluster"]) if "cluster" in kernel else None)
    found = [finding.diagnostic for finding in execute(loaded(module), launch).findings]
    return {one.rule for one in found if one.severity is not Severity.INFO}


# --- on the GPU -------------------------------------------------------------------------------------------------------------------


def child(plan: Path, first: int) -> None:
    """Launches the texts from a number on; a line before each."""
    import launcher as gpu

    gpu.start()
    with zipfile.ZipFile(plan) as archive:
        jobs = json.loads(archive.read("plan.json"))
        for number in range(first, len(jobs)):
            job = jobs[number]
            print("BEGIN", number, flush=True)
            text = archive.read(f"{job['name']}.ptx").decode("utf-8", "surrogateescape")
            gpu.run(gpu.load(text), job["kernel"], job["name"])
    print("END", flush=True)


def run(plan: Path, out: Path, limit: float) -> None:
    """Launches all texts under racecheck; what is not begun in time is left out."""
    begun = time.monotonic()
    with zipfile.ZipFile(plan) as archive:
        jobs = json.loads(archive.read("plan.json"))
    environment = {**os.environ, "CUDA_MODULE_LOADING": "EAGER"}
    done: dict[int, str] = {}
    words, first = "", 0
    while first < len(jobs) and time.monotonic() - begun < limit:
        command = ["compute-sanitizer", "--tool", "racecheck", "--racecheck-report", "analysis", "--print-limit", "100000"]
        command += [sys.executable, __file__, "child", str(plan), "--first", str(first)]
        with tempfile.TemporaryFile("w+") as said:
            process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, env=environment, start_new_session=True)
            text = watched(process, said, begun + limit)
        words += text
        reached = [int(line.split()[1]) for line in text.splitlines() if re.match(r"BEGIN \d+$", line)]
        last = reached[-1] if reached else first
        ended = "END" in text.splitlines()
        done.update(dict.fromkeys(reached, "ran"))
        if ended:
            break
        # the last one broke the process, or nothing came of it in time
        done[last] = "broken"
        first = last + 1
    hits = Counter(re.findall(r"Error: Race reported .*?\b(\w+_v\d+)\b", words))
    doubts = Counter(re.findall(r"Warning: Race reported .*?\b(\w+_v\d+)\b", words))
    results = [
        {**{key: job[key] for key in ("fixture", "name", "seed", "line", "rules")}, "state": done.get(number, "not begun")}
        | {"errors": hits[job["name"]], "warnings": doubts[job["name"]]}
        for number, job in enumerate(jobs)
    ]
    record = {"seconds": round(time.monotonic() - begun, 1), "results": results, "sample": words[:4000], "end": words[-1500:]}
    out.write_text(json.dumps(record))
    judge(out)


def watched(process: subprocess.Popen[Any], said: Any, end: float) -> str:
    """What a process says, which is ended when it has said nothing for too long."""
    size, since = 0, time.monotonic()
    while process.poll() is None:
        time.sleep(0.1)
        now = os.fstat(said.fileno()).st_size
        if now != size:
            size, since = now, time.monotonic()
        if time.monotonic() - since > PATIENCE or time.monotonic() > end:
            os.killpg(process.pid, 9)
            process.wait()
    said.seek(0)
    return str(said.read())


def judge(path: Path, plan: Path | None = None) -> None:
    """Prints what racecheck finds, and what of it the rules find; with a plan made anew, what they find by now."""
    record = json.loads(path.read_text())
    if plan is not None:
        with zipfile.ZipFile(plan) as archive:
            said = {job["name"]: job["rules"] for job in json.loads(archive.read("plan.json"))}
        for one in record["results"]:
            one["rules"] = said[one["name"]]
    ran = [one for one in record["results"] if one["state"] == "ran"]
    seeds = [one for one in ran if one["seed"]]
    races = [one for one in seeds if one["errors"] or one["warnings"]]
    found = [one for one in races if one["rules"]]
    clean = [one for one in ran if not one["seed"] and not one["errors"]]
    alarms = [one for one in clean if one["rules"]]
    print(f"{len(ran)} of {len(record['results'])} launches, {record['seconds']} s")
    print(f"seeds {len(seeds)}; racecheck reports {len(races)}, of these the rules {len(found)}")
    print(f"clean kernels {len(clean)}, rules report {len(alarms)}: {[one['name'] for one in alarms]}")
    for one in races:
        if not one["rules"]:
            count = f"{one['errors']} errors, {one['warnings']} warnings"
            print("missed:", one["fixture"], one["name"], one["seed"], "line", one["line"], count)
    more = [one for one in seeds if one["rules"] and not one["errors"] and not one["warnings"]]
    print(f"seeds that only the rules report: {[(one['name'], one['line'], one['rules']) for one in more]}")
    print(f"not clean without a seed: {[(one['name'], one['errors']) for one in ran if not one['seed'] and one['errors']]}")
    print(f"broken: {[one['name'] for one in record['results'] if one['state'] != 'ran']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["prepare", "run", "judge", "child"])
    parser.add_argument("paths", type=Path, nargs="*")
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--limit", type=float, default=55, help="seconds after which everything is ended")
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.what == "prepare":
        prepare(options.out)
    elif options.what == "run":
        run(options.paths[0], options.paths[1], options.limit)
    elif options.what == "child":
        child(options.paths[0], options.first)
    else:
        judge(*options.paths)


if __name__ == "__main__":
    main()
