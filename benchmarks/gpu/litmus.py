"""Litmus tests on a GPU: is every outcome that is seen allowed by the axioms of chapter 8?

    python benchmarks/gpu/litmus.py prepare -o LITMUS.zip [--tests N]
    python benchmarks/gpu/litmus.py run LITMUS.zip LITMUS.json [--runs N] [--limit SECONDS]     # on the machine with the GPU
    python benchmarks/gpu/litmus.py judge LITMUS.json LITMUS.zip

The tests are those of `fixtures/litmus` that a kernel on one GPU can have, the classic shapes with every strength and placement, and
generated ones. A launch runs each test many times at once, each instance on memory of its own: threads of an instance wait for each other
at the start, variables lie near to each other or far apart, and other CTAs read and write at random meanwhile. `run` needs nothing but
Python and `cuda-bindings`, or the driver alone. Exit status of `judge`: 1 if an outcome was seen that is not allowed.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import random
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ptxkit.analyses.memory_model import Program

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "litmus"
INSTANCES = 32768
"""Of a test in a launch."""
VARIANTS = ((256, 0), (256, 64), (16, 32), (4096, 64))
"""Bytes from one variable to the next, and CTAs that disturb."""
GENERATED = 60
SCRATCH = 1 << 20


def tests() -> Iterator[tuple[str, Program]]:
    """The tests by name."""
    from ptxkit.analyses.memory_model import Branch, Label, Taste, generate, registers
    from ptxkit.analyses.memory_model.litmus_files import parse
    from ptxkit.analyses.memory_model.shapes import shapes

    def has_loop(program: Program) -> bool:
        for thread in program.threads:
            labels = {one.name: i for i, one in enumerate(thread.code) if isinstance(one, Label)}
            if any(isinstance(one, Branch) and labels[one.label] < i for i, one in enumerate(thread.code)):
                return True
        return False

    for path in sorted(FIXTURES.glob("*.litmus")):
        program = parse(path.read_text(encoding="utf-8")).program
        if not has_loop(program):
            yield f"fixture {path.stem}", program
    for seed in range(GENERATED):
        program = generate(seed, Taste(proxies=seed % 3 == 0))
        if registers(program):
            yield f"generated {seed}", program
    programs = list(shapes())
    random.Random(0).shuffle(programs)
    for program in programs:
        yield f"shape {program.name}", program


def prepare(out: Path, most: int) -> None:
    """Writes the kernels of all tests."""
    from ptxkit.analyses.memory_model import CannotWrite, outcomes, registers, to_ptx

    jobs: list[dict[str, Any]] = []
    left: Counter[str] = Counter()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, program in tests():
            if len(jobs) == most:
                break
            if not registers(program):
                left["without a register"] += 1
                continue
            variants = []
            try:
                for k, (apart, stress) in enumerate(VARIANTS):
                    instances = INSTANCES if apart < 1024 else INSTANCES // 8
                    kernel = to_ptx(program, instances=instances, lanes=32, apart=apart, gathers=True, stress=stress)
                    text = f"{len(jobs)}_{k}.ptx"
                    archive.writestr(text, kernel.text)
                    variants.append(
                        {
                            "text": text,
                            "grid": kernel.grid,
                            "block": kernel.block,
                            "instances": instances,
                            "stride": kernel.stride,
                            "initial": kernel.initial.hex(),
                            "stress": stress,
                        }
                    )
            except CannotWrite as error:
                left[str(error)] += 1
                continue
            found = outcomes(program, races=True)
            jobs.append(
                {
                    "name": name,
                    "registers": kernel.registers,
                    "variants": variants,
                    "allowed": [list(one.values) for one in found.outcomes],
                    "racy": any(one.racy is not None for one in found.outcomes),
                }
            )
        archive.writestr("plan.json", json.dumps(jobs))
    print(f"{out}: {len(jobs)} tests; left out: {dict(left)}")


class Driver:
    """The few calls of the CUDA driver that are needed. Raises RuntimeError with the call that failed."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        name = ctypes.create_string_buffer(100)
        self.call("cuDeviceGetName", name, 100, device)
        self.name = name.value.decode()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, function: str, *arguments: Any) -> None:
        """Calls a function."""
        code = getattr(self.library, function)(*arguments)
        if code:
            raise RuntimeError(f"{function}: error {code}")

    def allocate(self, size: int) -> ctypes.c_uint64:
        """So many bytes of the GPU's memory."""
        found = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(found), ctypes.c_size_t(size))
        return found

    def free(self, *memory: ctypes.c_uint64) -> None:
        """Gives memory back."""
        for one in memory:
            self.call("cuMemFree_v2", one)


def run_variant(driver: Driver, text: bytes, job: dict[str, Any], variant: dict[str, Any], runs: int, seen: Counter[bytes]) -> int:
    """Launches a kernel until it ran so many times; counts the results."""
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    driver.call("cuModuleLoadData", ctypes.byref(module), text + b"\0")
    driver.call("cuModuleGetFunction", ctypes.byref(function), module, b"litmus")
    count, width = variant["instances"], 8 * len(job["registers"])
    size = count * variant["stride"]
    initial = bytes.fromhex(variant["initial"]) * count
    pristine, memory, results, scratch = (driver.allocate(one) for one in (size, size, count * width, SCRATCH + 16))
    driver.call("cuMemcpyHtoD_v2", pristine, initial, ctypes.c_size_t(size))
    parameters = [memory, results] + ([scratch] if variant["stress"] else [])
    pointers = (ctypes.c_void_p * len(parameters))(*[ctypes.addressof(one) for one in parameters])
    host = ctypes.create_string_buffer(count * width)
    done = 0
    while done < runs:
        driver.call("cuMemcpyDtoD_v2", memory, pristine, ctypes.c_size_t(size))
        driver.call("cuMemsetD8_v2", results, ctypes.c_ubyte(0xEE), ctypes.c_size_t(count * width))
        driver.call("cuLaunchKernel", function, variant["grid"], 1, 1, variant["block"], 1, 1, 0, None, pointers, None)
        driver.call("cuCtxSynchronize")
        driver.call("cuMemcpyDtoH_v2", host, results, ctypes.c_size_t(count * width))
        raw = host.raw
        seen.update([raw[i : i + width] for i in range(0, count * width, width)])
        done += count
    driver.free(pristine, memory, results, scratch)
    driver.call("cuModuleUnload", module)
    return done


def run(plan: Path, out: Path, runs: int, limit: float) -> None:
    """Runs all tests, each about `runs` times."""
    driver = Driver()
    started = time.monotonic()
    records = []
    with zipfile.ZipFile(plan) as archive:
        jobs = json.loads(archive.read("plan.json"))
        for number, job in enumerate(jobs):
            if time.monotonic() - started > limit:
                print(f"time is up after {number} of {len(jobs)} tests")
                break
            seen: Counter[bytes] = Counter()
            done = 0
            share = (9 * runs // 10) // (len(job["variants"]) - 1)
            for variant in job["variants"]:
                few = variant["instances"] < INSTANCES
                done += run_variant(driver, archive.read(variant["text"]), job, variant, runs // 10 if few else share, seen)
            histogram = [[[int.from_bytes(one[i : i + 8], "little") for i in range(0, len(one), 8)], count] for one, count in seen.items()]
            records.append({"name": job["name"], "runs": done, "seen": histogram})
            out.write_text(json.dumps({"device": driver.name, "tests": records}), encoding="utf-8")
            if number % 20 == 0:
                print(f"{number}: {job['name']}: {len(seen)} outcomes, {time.monotonic() - started:.0f} s", flush=True)
    print(f"{len(records)} tests, {sum(one['runs'] for one in records)} runs, {time.monotonic() - started:.0f} s on {driver.name}")


def judge(record: Path, plan: Path) -> int:
    """Prints what was seen beside what is allowed."""
    with zipfile.ZipFile(plan) as archive:
        jobs = {job["name"]: job for job in json.loads(archive.read("plan.json"))}
    data = json.loads(record.read_text(encoding="utf-8"))
    wrong, seen_, allowed_, full = 0, 0, 0, 0
    for test in data["tests"]:
        job = jobs[test["name"]]
        allowed = {tuple(one) for one in job["allowed"]}
        seen = {tuple(values): count for values, count in test["seen"]}
        for values, count in sorted(seen.items()):
            if values not in allowed:
                wrong += 1
                print(f"NOT ALLOWED {test['name']}: {dict(zip(job['registers'], values, strict=True))} {count} of {test['runs']} times")
        seen_ += len(seen.keys() & allowed)
        allowed_ += len(allowed)
        full += seen.keys() >= allowed
    tests_ = len(data["tests"])
    runs = [one["runs"] for one in data["tests"]]
    print(f"{data['device']}: {tests_} tests, {min(runs, default=0)} to {max(runs, default=0)} runs each, {sum(runs)} in all")
    print(f"outcomes seen and not allowed: {wrong}")
    print(f"outcomes allowed and seen: {seen_} of {allowed_}; of {full} tests all")
    return 1 if wrong or not tests_ else 0


def main() -> int:
    """The three steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(dest="step", required=True)
    one = steps.add_parser("prepare")
    one.add_argument("-o", "--out", type=Path, default=Path("litmus.zip"))
    one.add_argument("--tests", type=int, default=260)
    one = steps.add_parser("run")
    one.add_argument("plan", type=Path)
    one.add_argument("record", type=Path)
    one.add_argument("--runs", type=int, default=1_050_000)
    one.add_argument("--limit", type=float, default=330)
    one = steps.add_parser("judge")
    one.add_argument("record", type=Path)
    one.add_argument("plan", type=Path)
    given = parser.parse_args()
    if given.step == "prepare":
        prepare(given.out, given.tests)
        return 0
    if given.step == "run":
        run(given.plan, given.record, given.runs, given.limit)
        return 0
    return judge(given.record, given.plan)


if __name__ == "__main__":
    sys.exit(main())
