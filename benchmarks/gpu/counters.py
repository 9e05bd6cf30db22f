"""What the hardware counts beside what the probes count: requests and sectors of global memory, passes and conflicts of shared memory.

    python benchmarks/gpu/counters.py run PLAN.zip COUNTERS.json      # on the machine with the GPU; asks `ncu`
    python benchmarks/gpu/counters.py judge PLAN.zip COUNTERS.json [OTHER.json…]

PLAN.zip is that of `prepare.py probes`. Kernels with the probes `sectors` and `bank-conflicts` run under `ncu`: these probes load from
constant memory and add to global memory, but neither load nor store as what they count does. So both speak of the same launch, and of the
same groups of threads. What the compiler merged, took out or copied is not the same number of instructions any more; so, for each kind of
access, kernels are compared in which the machine code has as many instructions of it as the PTX. That is looked up with ptxas and
nvdisasm (nvidia-cuda-nvdisasm). Beside that, left out are

- instructions executed, where one has a guard in the machine code: `ncu` counts it where no thread makes the access, too;
- passes and conflicts, where other instructions use the same path to shared memory (barriers, bulk and asynchronous copies, matrices);
- conflicts of 8 bytes wide accesses: `ncu` counts one more for a whole warp that is not side by side, with as many passes;
- loads with an order: who waits asks as often as it takes, and `ncu` runs a kernel several times;
- sectors, where the order of threads decides about addresses (outputs are compared sorted);
- kernels that call what is not in the module.

Passes and conflicts are not the same from run to run: `ncu` counts one more, now and then, where a store to shared memory meets data that
come from elsewhere. Where it has counted more than the probes, another record of the same launch, of other code of the probes maybe, must
have the number: what the kernel itself does in shared memory is the same there.
"""

from __future__ import annotations

import argparse
import base64
import csv
import io
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
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
SASS = {
    "ld global": r"\bLDG\b",
    "st global": r"\bSTG\b",
    "ld shared": r"\bLDS\b",
    "st shared": r"\bSTS\b",
    "ld global guarded": r"@!?U?P\d\s+LDG\b",
    "st global guarded": r"@!?U?P\d\s+STG\b",
    "ld shared guarded": r"@!?U?P\d\s+LDS\b",
    "st shared guarded": r"@!?U?P\d\s+STS\b",
    "ld shared others": r"\b(?:LDSM|ATOMS)\b",
    "st shared others": r"\b(?:SYNCS|UBLKCP|UTMALDG|LDGSTS|STSM|STAS|ATOMS)\b",
    "outside": r"\bCALL\.ABS\b",
}
SET = "hardware"
"""The set of probes, of `instrumented.SETS`."""


def jobs_of(plan: Path) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The jobs of a plan with the variant that is counted, of sm_90a, or of sm_80 where there is no other; each module once."""
    with zipfile.ZipFile(plan) as archive:
        jobs = json.loads(archive.read("plan.json"))["jobs"]
    found = {(job["fixture"], job["target"]): (job, one) for job in jobs for one in job["variants"] if one["name"] == SET}
    newer = {fixture for fixture, target in found if target != "sm_80"}
    return [both for (fixture, target), both in found.items() if target != "sm_80" or fixture not in newer]


def launches(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The launches that are counted: one of each kernel of a fixture, all of the kernels made for it."""
    for kernel in job["kernels"]:
        if kernel["id"] == kernel["entry"] or " " in kernel["id"]:
            yield kernel


def child(plan: Path, said: Path) -> None:
    """Launches the kernels one after the other, and writes down which, and what the probes counted."""
    import launcher

    launcher.start()
    with zipfile.ZipFile(plan) as archive, said.open("w") as lines:
        for job, variant in jobs_of(plan):
            module = launcher.load(archive.read(variant["ptx"]).decode("utf-8", "surrogateescape"))
            for kernel in launches(job):
                watch = launcher.Watch(**variant["watch"][kernel["id"]])
                ran = launcher.run(module, kernel, kernel["entry"], watch=watch)
                buffer = base64.b64encode(lzma.compress(ran.captured)).decode()
                launch = [job["fixture"], job["target"], kernel["id"]]
                lines.write(json.dumps({"launch": launch, "text": variant["about"]["text"], "buffer": buffer}) + "\n")
                lines.flush()


def run(plan: Path, out: Path, limit: float) -> None:
    """Has `ncu` count while the kernels run."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder) / "said"
        command = [
            "ncu",
            "--csv",
            "--page",
            "raw",
            "--print-units",
            "base",
            "--clock-control",
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
        found.append({**which, "kernel": row.get("Kernel Name"), **{name: _number(row.get(key)) for name, key in METRICS.items()}})
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


def judge(plan: Path, counters: Path, *others: Path) -> None:
    """Prints how many numbers of the hardware and of the probes are equal; exit status 1 if not all that are compared are."""
    from instrumented import layout_of, recalled, subjects

    known = {(fixture.name, fixture.target): fixture for fixture in subjects([])}
    files = {(job["fixture"], job["target"]): variant["ptx"] for job, variant in jobs_of(plan)}
    kept: dict[tuple[str, str], dict[str, Counter[str]]] = {}
    totals: Counter[str] = Counter()
    wrong = []
    again: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for path in others:
        for other in json.loads(path.read_text())["counted"]:
            again.setdefault(tuple(other["launch"]), []).append(other)
    for hardware in json.loads(counters.read_text())["counted"]:
        name, target, id_ = hardware["launch"]
        fixture = known[name, target]
        kernel = next(kernel for kernel in fixture.kernels if kernel["id"] == id_)
        manifest, _ = recalled(fixture, SET, hardware["text"])
        tables = {t.name: t for t in layout_of(manifest, kernel).decode(lzma.decompress(base64.b64decode(hardware["buffer"])))}
        if (name, target) not in kept:
            with zipfile.ZipFile(plan) as archive:
                kept[name, target] = machine_code(archive.read(files[name, target]).decode("utf-8", "surrogateescape"))
        code = kept[name, target].get(kernel["entry"], Counter())
        for space, table, units in (
            ("global", "sectors", ("instructions", "requests", "sectors")),
            ("shared", "bank-conflicts", ("instructions", "conflicts", "passes")),
        ):
            everywhere = tables[table].rows() if table in tables else []
            rows = [row for row in everywhere if row["function"] == kernel["entry"]]
            for word in ("ld", "st"):
                own = [row for row in rows if re.match(rf"(?:@\S+\s+)?{word}\b", str(row["instruction"]))]
                if not own:
                    continue
                what = f"{word}.{space}"
                why = _left_out(code, f"{word} {space}", own, everywhere, kernel["entry"])
                if why:
                    totals[f"{what}: left out: {why}"] += 1
                    continue
                for unit in units:
                    if unit == "sectors" and any(argument.get("compare") == "sorted" for argument in kernel["args"]):
                        totals[f"{what} {unit}: left out: the order of threads decides about addresses"] += 1
                    elif unit == "instructions" and code[f"{word} {space} guarded"]:
                        totals[f"{what} {unit}: left out: guarded in the machine code"] += 1
                    elif unit != "instructions" and code[f"{word} {space} others"]:
                        totals[f"{what} {unit}: left out: others use the path"] += 1
                    elif unit == "conflicts" and any(row["bytes"] == 8 for row in own):
                        totals[f"{what} {unit}: left out: 8 bytes wide"] += 1
                    else:
                        column = "requests" if unit == "instructions" else unit
                        found = sum([int(row[column] or 0) for row in own])
                        metric = f"{word} {space}" if unit == "instructions" else f"{word} {unit}"
                        wanted = hardware[metric]
                        totals[f"{what} {unit}: compared"] += 1
                        if found == wanted:
                            continue
                        more = [one[metric] for one in again.get((name, target, id_), ())]
                        if unit in ("conflicts", "passes") and found < wanted and found in more:
                            totals[f"{what} {unit}: of these equal in another run only"] += 1
                        else:
                            wrong.append(f"{name}.{target} {id_}: {what} {unit}: {found}, ncu {wanted}")
    for what, count in sorted(totals.items()):
        print(f"{count:6}  {what}")
    print(f"{sum([count for what, count in totals.items() if what.endswith('compared')])} compared, {len(wrong)} differ")
    print("\n".join(wrong[:100]))
    sys.exit(bool(wrong))


def _left_out(code: Counter[str], kind: str, own: Sequence[dict[str, Any]], everywhere: Sequence[dict[str, Any]], entry: str) -> str:
    """Why the accesses of a kind cannot be compared; empty if they can."""
    if code[kind] != len(own):
        return "the machine code has another number of them"
    if any(row["space"] == "generic" and row["requests"] for row in everywhere):
        return "generic addresses"
    if any(row["function"] != entry and row["requests"] for row in everywhere) or code["outside"]:
        return "others are called"
    if any(re.search(r"\.(?:volatile|acquire|relaxed|mmio)\b", str(row["instruction"])) for row in own):
        return "loads with an order"
    return ""


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
