"""Runs a kernel with and without probes in a child process, so that one that hangs or invalidates its context affects nothing else."""

from __future__ import annotations

import enum
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from ptxkit import files
from ptxkit.frozen import frozen
from ptxkit.revalidation import process
from ptxkit.rewriters.manifest import LaunchShape, ProbeManifest, Table
from ptxkit.rewriters.profiling.comparison import Difference
from ptxkit.rewriters.profiling.launch import Launch, as_json

TIMEOUT = 120.0
REPEAT = 5


class Outcome(enum.StrEnum):
    """The outcome of running a kernel with and without probes."""

    EQUAL = "equal"
    """Both produced the same outputs."""
    DIFFERENT = "different"
    """They did not, although two runs of the original did."""
    NOT_REPEATABLE = "not repeatable"
    """Two runs of the original differed, too, on the same input."""
    FAILED = "failed"
    """The driver failed to load one, or one ended with an error."""
    HUNG = "hung"
    """One exceeded the time limit."""
    UNAVAILABLE = "unavailable"
    """It could not be tried: no driver, no GPU, or an array file that cannot be read."""


@frozen
class Profile:
    """The profile of a launch."""

    launch: Launch
    outcome: Outcome
    detail: str = ""
    """The reason for the outcome, as text."""
    tables: tuple[Table, ...] = ()
    """The results of the probes for one launch; there may be tables even of a kernel that failed."""
    differences: tuple[Difference, ...] = ()
    seconds: tuple[float, ...] = ()
    """Seconds of each timed launch of the original."""
    seconds_instrumented: tuple[float, ...] = ()
    registers: int | None = None
    registers_instrumented: int | None = None
    device: str = ""
    driver: str = ""
    """The CUDA version of the driver."""
    on: str = "gpu"
    """`gpu` or `machine`. The machine has no clock: there are no times, cycles or registers."""

    @property
    def overhead(self) -> float | None:
        """The minimum time of the instrumented kernel divided by that of the original; None if either is missing."""
        if not self.seconds or not self.seconds_instrumented or not min(self.seconds):
            return None
        return min(self.seconds_instrumented) / min(self.seconds)

    def as_json(self) -> dict[str, Any]:
        """The profile in the JSON format of `ptxkit profile`, version 1."""
        return {
            "kernel": self.launch.kernel,
            "grid": self.launch.grid,
            "block": self.launch.block,
            "outcome": self.outcome.value,
            "detail": self.detail,
            "differences": [attrs.asdict(one) for one in self.differences],
            "seconds": self.seconds,
            "seconds_instrumented": self.seconds_instrumented,
            "overhead": self.overhead,
            "registers": self.registers,
            "registers_instrumented": self.registers_instrumented,
            "device": self.device,
            "driver": self.driver,
            "on": self.on,
        }


def profile(
    original: str,
    instrumented: str,
    manifest: ProbeManifest,
    launch: Launch,
    *,
    repeat: int = REPEAT,
    timeout: float = TIMEOUT,
    rows: int | None = None,
    on: str = "gpu",
    target: str = "sm_90a",
) -> Profile:
    """Launches a kernel of both texts on the same input, compares the outputs, reads the probes, and times each `repeat` times.

    `timeout` is in seconds, in total; `rows` is the number of rows of trace rings. `on` is `gpu`, `machine` (of this `target`), or `auto`:
    the GPU if there is one. If the original fails or hangs, the instrumented kernel is run without it: a probe may show the cause.
    """
    kernel = next((one for one in manifest.kernels if one.name == launch.kernel), None)
    wrong = f"there is no kernel {launch.kernel}" if kernel is None else launch.mismatch([size for _, _, _, size in kernel.parameters])
    if wrong is not None:
        return Profile(launch, Outcome.UNAVAILABLE, wrong)
    where = (on, target)
    found = _attempt(original, instrumented, manifest, launch, repeat, timeout, rows, where, with_original=True)
    if found.outcome in (Outcome.FAILED, Outcome.HUNG) and found.detail.startswith(_ORIGINAL):
        other = _attempt(original, instrumented, manifest, launch, 0, timeout, rows, where, with_original=False)
        also = f"; {other.detail}" if other.detail else "; the instrumented kernel did not fail"
        return attrs.evolve(found, detail=found.detail + also, tables=other.tables, registers_instrumented=other.registers_instrumented)
    return found


_ORIGINAL = ("loading the original", "running the original:")


def _attempt(
    original: str,
    instrumented: str,
    manifest: ProbeManifest,
    launch: Launch,
    repeat: int,
    timeout: float,
    rows: int | None,
    where: tuple[str, str],
    with_original: bool,
) -> Profile:
    if not sys.executable:
        return Profile(launch, Outcome.UNAVAILABLE, "this Python does not know its program, so it can start no child process")
    texts = [files.encode(original), files.encode(instrumented)]
    header = {
        "launch": as_json(launch),
        "manifest": manifest.to_json(),
        "texts": [len(text) for text in texts],
        "repeat": repeat,
        "timeout": timeout,
        "rows": rows,
        "original": with_original,
        "on": where[0],
        "target": where[1],
    }
    command = [sys.executable, "-P", "-m", "ptxkit.rewriters.profiling.worker"]
    done = process.run(command, json.dumps(header).encode() + b"\n" + b"".join(texts), timeout, _environment())
    return _read(done, manifest, launch, timeout, rows)


def _environment() -> dict[str, str]:
    """The environment of the child: it uses the same modules as this process."""
    path = os.pathsep.join([str(Path(entry).resolve()) for entry in sys.path])
    return {**os.environ, "PYTHONPATH": path}


def without_clock(table: Table) -> Table:
    """A table without what only a GPU has: cycles, nanoseconds, and the multiprocessor of a block. The notes say so."""
    kept = tuple([column for column in table.columns if column.unit not in ("cycles", "ns") and column.name != "sm"])
    left_out = [column.name for column in table.columns if column not in kept]
    if not left_out:
        return table
    return attrs.evolve(table, columns=kept, notes=(*table.notes, f"the machine has no clock: left out are {', '.join(left_out)}"))


def _messages(output: bytes) -> Iterator[tuple[dict[str, Any], bytes]]:
    """The messages of the child; an incomplete last one is dropped."""
    at = 0
    while (end := output.find(b"\n", at)) >= 0:
        what = json.loads(output[at:end])
        at = end + 1 + what.get("bytes", 0)
        if at > len(output):
            return
        yield what, output[end + 1 : at]


def _read(done: process.Finished, manifest: ProbeManifest, launch: Launch, timeout: float, rows: int | None) -> Profile:
    stage, found, ended = "starting", Profile(launch, Outcome.EQUAL), False
    allocations: tuple[tuple[int, int], ...] = ()
    for what, data in _messages(done.output):
        stage = what.get("stage", stage)
        if "allocations" in what:
            allocations = tuple([(address, size) for address, size in what["allocations"]])
        if "device" in what:
            on = "machine" if what["machine"] else "gpu"
            found = attrs.evolve(found, device=what["device"], driver=what["driver"], on=on)
        elif "registers" in what:
            which = "registers" if what["of"] == "original" else "registers_instrumented"
            found = attrs.evolve(found, **{which: what["registers"]})
        elif "tables" in what:
            layout = manifest.layout(LaunchShape(launch.grid, launch.block, allocations), rows=rows)
            tables = layout.decode(data)
            found = attrs.evolve(found, tables=tuple(map(without_clock, tables)) if found.on == "machine" else tables)
        elif "differences" in what:
            outcome = Outcome.DIFFERENT if what["repeatable"] else Outcome.NOT_REPEATABLE
            all_of_it = tuple([Difference(**one) for one in what["differences"]])
            found = attrs.evolve(found, outcome=outcome, differences=all_of_it, detail="; ".join([str(one) for one in all_of_it]))
        elif "unavailable" in what:
            return attrs.evolve(found, outcome=Outcome.UNAVAILABLE, detail=what["unavailable"])
        elif "failed" in what:
            return attrs.evolve(found, outcome=Outcome.FAILED, detail=f"{stage}: {what['failed']}")
        elif "done" in what:
            ended = True
            first, second = what.get("seconds", ((), ()))
            found = attrs.evolve(found, seconds=tuple(first), seconds_instrumented=tuple(second))
    if ended:
        return found
    if done.code is None:
        return attrs.evolve(found, outcome=Outcome.HUNG, detail=f"{stage}: no end after {timeout:g} s")
    how = done.crash or f"it ended with code {done.code}"
    kind = Outcome.UNAVAILABLE if stage in ("starting", "the driver") else Outcome.FAILED
    return attrs.evolve(found, outcome=kind, detail=f"{stage}: {how}{process.tail(done.errors)}")
