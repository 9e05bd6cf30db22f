"""What the hardware counts beside what the probes count: requests and sectors of global memory, bank conflicts of shared memory.

    python benchmarks/gpu/counters.py run PLAN.zip COUNTERS.json      # on the machine with the GPU; asks `ncu`
    python benchmarks/gpu/counters.py judge PLAN.zip RECORD.json.gz COUNTERS.json

PLAN.zip and RECORD.json.gz are those of `prepare.py probes` and `launcher.py`: the unchanged kernels run again under `ncu`. What the
compiler merged, took out or copied is not the same number of instructions any more; so, for each kind of access, kernels are compared in
which the machine code has as many instructions of it as the PTX. That is looked up with ptxas and nvdisasm (nvidia-cuda-nvdisasm).
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

METRICS = {
    "ld requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "ld sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "st requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "st sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "ld global": "smsp__inst_executed_op_global_ld.sum",
    "st global": "smsp__inst_executed_op_global_st.sum",
    "ld shared": "smsp__inst_executed_op_shared_ld.sum",
    "st shared": "smsp__inst_executed_op_shared_st.sum",
    "ld conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "st conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "ld passes": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "st passes": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
}
SASS = {"ld global": r"\bLDG\b", "st global": r"\bSTG\b", "ld shared": r"\bLDS\b", "st shared": r"\bSTS\b"}


def jobs_of(plan: Path) -> list[dict[str, Any]]:
    """The jobs of a plan that have the set of probes on memory, of sm_90a, or of sm_80 where there is no other; each module once."""
    with zipfile.ZipFile(plan) as archive:
        jobs = json.loads(archive.read("plan.json"))["jobs"]
    found = {(job["fixture"], job["target"]): job for job in jobs if any(variant["name"] == "memory" for variant in job["variants"])}
    newer = {fixture for fixture, target in found if target != "sm_80"}
    return [job for (fixture, target), job in found.items() if target != "sm_80" or fixture not in newer]


def launches(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The launches that are counted: one of each kernel of a fixture, all of the kernels made for it."""
    for kernel in job["kernels"]:
        if kernel["id"] == kernel["entry"] or " " in kernel["id"]:
            yield kernel


def child(plan: Path, said: Path) -> None:
    """Launches the unchanged kernels one after the other, and writes down which."""
    import launcher

    launcher.start()
    with zipfile.ZipFile(plan) as archive, said.open("w") as lines:
        for job in jobs_of(plan):
            module = launcher.load(archive.read(job["original"]).decode("utf-8", "surrogateescape"))
            for kernel in launches(job):
                launcher.run(module, kernel, kernel["entry"])
                lines.write(json.dumps([job["fixture"], job["target"], kernel["id"]]) + "\n")
                lines.flush()


def run(plan: Path, out: Path, limit: float) -> None:
    """Has `ncu` count while the kernels run."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder) / "said"
        command = [
            "ncu",
            "--csv",
            "--page", "raw",
            "--print-units", "base", "--clock-control",
            "none",
            "--cache-control",
            "none",
            "--metrics",
            ",".join(METRICS.values()),
        ]
        command += [sys.executable, __file__, "child", str(plan), str(said)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=limit, env={**os.environ, "CUDA_MODULE_LOADING": "EAGER"}
            )
            text, errors = done.stdout, done.stderr
        except subprocess.TimeoutExpired as late:
            text, errors = (late.stdout or b"").decode(), "out of time"
        order = [json.loads(line) for line in said.read_text().splitlines()] if said.exists() else []
    start = text.find('"ID"')
    rows = list(csv.DictReader(io.StringIO(text[start:]))) if start >= 0 else []
    rows = [row for row in rows if row.get("ID", "").isdecimal()]
    found = []
    for which, row in zip(order, rows, strict=False):
        found.append({"launch": which, "kernel": row.get("Kernel Name"), **{name: _number(row.get(key)) for name, key in METRICS.items()}})
    record = {
        "seconds": round(time.monotonic() - begun, 1),
        "launches": len(order),
        "rows": len(rows),
        "errors": errors[-3000:],
        "counted": found,
    }
    out.write_text(json.dumps(record))
    print(len(order), "launches,", len(rows), "rows,", record["seconds"], "s", "" if rows else text[-1500:] + errors[-1500:])


def _number(text: str | None) -> int | None:
    try:
        return int(float((text or "").replace(",", "")))
    except ValueError:
        return None


# --- judging ----------------------------------------------------------------------------------------------------------------------


def nvdisasm() -> str:
    """Where nvdisasm is. Raises FileNotFoundError."""
    beside = sorted(Path(sys.prefix).glob("lib/python*/site-packages/nvidia/*/bin/nvdisasm"))
    found = shutil.which("nvdisasm") or (str(beside[0]) if beside else None)
    if found is None:
        raise FileNotFoundError("nvdisasm: pip install nvidia-cuda-nvdisasm")
    return found


def machine_code(text: str) -> dict[str, Counter[str]]:
    """By function, how many instructions of each kind of access the machine code has."""
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder) / "a.ptx", Path(folder) / "a.cubin"
        source.write_bytes(text.encode("utf-8", "surrogateescape"))
        subprocess.run(["ptxas", "-arch=sm_90a", str(source), "-o", str(cubin)], check=True, capture_output=True)
        code = subprocess.run([nvdisasm(), "-c", str(cubin)], check=True, capture_output=True, text=True).stdout
    found: dict[str, Counter[str]] = {}
    for part in code.split("//--------------------- .text.")[1:]:
        name = part.split(" ", 1)[0]
        found[name] = Counter({kind: len(re.findall(pattern, part)) for kind, pattern in SASS.items()})
    return found


def judge(plan: Path, record: Path, counters: Path) -> None:
    """Prints how many numbers of the hardware and of the probes are equal; exit status 1 if not all that are compared are."""
    import base64
    import gzip
    import lzma

    from instrumented import layout_of, recalled, subjects

    counted = {tuple(one["launch"]): one for one in json.loads(counters.read_text())["counted"]}
    with gzip.open(record, "rt") as lines:
        results = json.load(lines)["results"]
    ran = {(r["fixture"], r["target"], r["launch"]): r for r in results if r["variant"] == "memory" and "buffer" in r}
    known = {(fixture.name, fixture.target): fixture for fixture in subjects([])}
    kept: dict[tuple[str, str], dict[str, Counter[str]]] = {}
    totals: Counter[str] = Counter()
    wrong = []
    for key, hardware in counted.items():
        result, fixture = ran.get(key), known.get((key[0], key[1]))
        if result is None or fixture is None:
            continue
        kernel = next(kernel for kernel in fixture.kernels if kernel["id"] == key[2])
        manifest, _ = recalled(fixture, "memory", result["about"]["text"])
        layout = layout_of(manifest, kernel)
        tables = {table.name: table for table in layout.decode(lzma.decompress(base64.b64decode(result["buffer"])))}
        module = (key[0], key[1])
        if module not in kept:
            kept[module] = machine_code(fixture.text)
        code = kept[module].get(kernel["entry"], Counter())
        for space, table, units in (
            ("global", "sectors", ("requests", "sectors")),
            ("shared", "bank-conflicts", ("requests", "conflicts", "passes")),
        ):
            everywhere = tables[table].rows() if table in tables else []
            # the compiler may have put a function that is called into its caller, in part or whole
            calls_others = any(row["function"] != kernel["entry"] and row["requests"] for row in everywhere)
            rows = [row for row in everywhere if row["function"] == kernel["entry"]]
            for word in ("ld", "st"):
                own = [row for row in rows if re.match(rf"(?:@\S+\s+)?{word}\b", str(row["instruction"]))]
                if not own or any(row["space"] == "generic" for row in rows) or calls_others:
                    continue
                if code[f"{word} {space}"] != len(own):
                    totals[f"{word}.{space}: the machine code has another number of them"] += 1
                    continue
                for unit in units:
                    found = sum([int(row[unit] or 0) for row in own])
                    wanted = hardware[f"{word} {space}" if unit == "requests" and space == "shared" else f"{word} {unit}"]
                    totals[f"{word}.{space} {unit}: compared"] += 1
                    if found != wanted:
                        wrong.append(f"{key}: {word}.{space} {unit}: {found}, ncu {wanted}")
    for what, count in sorted(totals.items()):
        print(f"{count:6}  {what}")
    print(f"{len(wrong)} differ")
    print("\n".join(wrong[:100]))
    sys.exit(bool(wrong))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "judge", "child"])
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--limit", type=float, default=140, help="seconds for ncu")
    options = parser.parse_args()
    if options.what == "run":
        run(options.paths[0], options.paths[1], options.limit)
    elif options.what == "child":
        child(options.paths[0], options.paths[1])
    else:
        judge(*options.paths)


if __name__ == "__main__":
    main()
