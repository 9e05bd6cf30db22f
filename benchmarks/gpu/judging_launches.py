"""Judges a record of `launches.py`: the same launches on the machine, and other schedules of them."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from typing import Any

import machine_launches
from plan import Fixture, fixtures

SCHEDULES: tuple[str | int, ...] = ("late", "early", *range(1, 11))
BOUND = {"f16": 2.0**-9, "bf16": 2.0**-6, "f32": 1e-5, "f64": 1e-13}
"""Relative error of floats where sums are taken in another order, or a product and a sum are fused into one operation."""


def judged(record: dict[str, Any], options: argparse.Namespace) -> int:
    """Prints what differs and the counts; gives the exit status."""
    counts: Counter[str] = Counter()
    schedules: Counter[str] = Counter()
    bounded: Counter[str] = Counter()
    begun = time.monotonic()
    for fixture in fixtures(only=options.only, shapes=True):
        for kernel in fixture.kernels:
            name = f"{fixture.name}.{fixture.target} {kernel['id']}"
            verdict, detail, outputs = _one(record["launches"].get(name), fixture, kernel)
            counts[verdict] += 1
            if verdict == "within the bound":
                bounded[f"{fixture.name} {kernel['entry']}"] += 1
            if verdict not in ("equal", "within the bound"):
                print(f"  {verdict}: {name}: {detail[:300]}", flush=True)
            if not options.schedules or outputs is None:
                continue
            for schedule in SCHEDULES:
                try:
                    other = machine_launches.run(fixture, kernel, schedule)
                except Exception as error:
                    schedules["fault"] += 1
                    print(f"  fault: {name} {schedule}: {error}", flush=True)
                    continue
                same = all(
                    a.data == b.data or a.compare == "none" or (a.compare == "sorted" and sorted(a.data) == sorted(b.data))
                    for a, b in zip(outputs, other, strict=True)
                )
                tolerated = same or not kernel.get("exact", True)
                schedules["equal" if same else "differs, as it may" if tolerated else "differs"] += 1
                if not tolerated:
                    print(f"  differs: {name} {schedule}", flush=True)
    for name, count in sorted(bounded.items()):
        print(f"  within the bound: {name}: {count} launches")
    print(f"launches: {dict(counts)} ({time.monotonic() - begun:.0f} s)")
    if options.schedules:
        print(f"schedules: {dict(schedules)}")
    return int(sum(counts.values()) > counts["equal"] + counts["within the bound"])


def _one(entry: dict[str, Any] | None, fixture: Fixture, kernel: dict[str, Any]) -> tuple[str, str, Any]:
    if entry is None or entry["status"] != "ran":
        return "unrecorded", "" if entry is None else entry.get("detail", ""), None
    try:
        outputs = machine_launches.run(fixture, kernel)
    except Exception as error:
        return "fault", f"{type(error).__name__}: {error}", None
    said = machine_launches.differences(entry["outputs"], outputs, kernel.get("exact", True))
    if not said:
        return "equal", "", outputs
    if machine_launches.near(entry["outputs"], outputs, machine_launches.kinds_of(kernel), BOUND):
        return "within the bound", said[0], outputs
    return "different", said[0], outputs
