"""Makes figures of what `launcher.py` recorded.

    python benchmarks/gpu/figures.py RECORD.json.gz…

Of garbage and transforms: for each kind of variant how many kernels and modules it was tried on, in how many modules it changed the text,
and how many launches had equal outputs. Of values:
how many statements about registers were compared with what was read back, and how many it contradicted; then the same with every claimed
number too large by one, of which each must be contradicted. Planted faults must be found. Exit status 1 if anything is not as it must be.
"""

from __future__ import annotations

import argparse
import base64
import concurrent.futures
import gzip
import json
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plan import Fixture, fixtures
from probes import Tally, alone, judge, probed
from uniform import judged

Result = dict[str, Any]


def kind_of(result: Result) -> str:
    """What kind of variant a result is of."""
    return next((word for word in ("planted", "trap") if word in result["about"]), str(result["variant"]))


def missed(results: Sequence[Result]) -> tuple[int, list[Result]]:
    """How many faults were planted in blocks that are executed, as a trap at the same place tells; and those that did not show."""

    def place(result: Result, word: str) -> tuple[str, str, str, str]:
        return result["fixture"], result["target"], result["kernel"], result["about"][word]

    executed = {place(result, "trap") for result in results if "trap" in result["about"] and result["verdict"] == "error"}
    faults = [result for result in results if "planted" in result["about"] and place(result, "planted") in executed]
    return len(faults), [fault for fault in faults if fault["verdict"] == "equal"]


def equal_outputs(results: Sequence[Result]) -> bool:
    """Prints how many launches of each kind of variant had equal outputs. Whether all had, and planted faults had not."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(kind_of(result), []).append(result)
    fine = True
    print(f"{'variant':28} {'kernels':>8} {'modules':>8} {'changed':>8} {'launches':>9} {'equal':>7}")
    for kind, group in groups.items():
        equal = [result for result in group if result["verdict"] == "equal"]
        kernels, modules = {(r["fixture"], r["kernel"]) for r in group}, {(r["fixture"], r["target"]) for r in group}
        changed = {(r["fixture"], r["target"]) for r in group if r["about"].get("changed", kind != "control")}
        print(f"{kind:28} {len(kernels):8} {len(modules):8} {len(changed):8} {len(group):9} {len(equal):7}")
        if kind in ("planted", "trap"):
            continue
        fine &= len(equal) == len(group)
        for wrong in [r for r in group if r["verdict"] != "equal"]:
            print(f"    {wrong['fixture']}.{wrong['target']} {wrong['launch']}: {wrong['verdict']} {wrong['detail'][:200]}")
    count, hidden = missed(results)
    if count:
        print(f"faults planted in blocks that are executed: {count - len(hidden)} of {count} found")
        for result in hidden:
            print(f"    {result['fixture']}.{result['target']} {result['kernel']} {result['variant']}: equal")
    return fine


def compared(fixture: Fixture, result: Result) -> tuple[Tally, Tally]:
    """What the comparison of one launch gives, as it is and with all claims shifted by one."""
    (launch,) = [kernel for kernel in fixture.kernels if kernel["id"] == result["launch"]]
    kernel = probed(alone(fixture, result["kernel"]), result["kernel"], result["about"].get("slot"))
    if zlib.crc32(kernel.text.encode()) != result["about"]["text"]:
        raise ValueError(f"{result['fixture']} {result['launch']}: the probes are others now than when the record was made")
    rows, arguments = zlib.decompress(base64.b64decode(result["captured"])), [bytes.fromhex(text) for text in result["arguments"]]
    straight, shifted = Tally(), Tally()
    for at, thread in enumerate(result["about"]["take"]):
        row = rows[at * kernel.row : (at + 1) * kernel.row]
        straight.add(judge(kernel, launch, arguments, thread, row))
        if at == 0:
            shifted.add(judge(kernel, launch, arguments, thread, row, shift=1))
    return straight, shifted


def values_read_back(results: Sequence[Result]) -> bool:
    """Prints how the values that were read back compare with what the analysis says. Whether nothing contradicts, and planted faults do."""
    known = {(fixture.name, fixture.target): fixture for fixture in fixtures()}
    results = [result for result in results if "captured" in result]
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        pairs = list(pool.map(compared, [known[r["fixture"], r["target"]] for r in results], results, chunksize=4))
    total, shifted, kernels, by_target = Tally(), Tally(), set(), 0
    faults = found = 0
    for result, (straight, wrong) in zip(results, pairs, strict=True):
        if result["about"].get("planted"):
            faults += 1
            slot = f"slot {result['about']['slot']} "
            found += bool(straight.contradictions) and all(slot in said for said in straight.contradictions if " is 0x" in said)
            continue
        total.add(straight)
        shifted.add(wrong)
        by_target += 1
        if straight.exact + straight.derived + straight.known:
            kernels.add((result["fixture"], result["kernel"]))
    print(f"values read back in {len(kernels)} kernels ({by_target} with both targets):")
    print(f"  exact {total.exact}, from other values {total.derived}, known bits and intervals {total.known}")
    print(f"  contradictions {len(total.contradictions)}")
    for said in total.contradictions[:40]:
        print(f"    {said[:400]}")
    numbers = shifted.exact + shifted.derived
    caught = len([said for said in shifted.contradictions if " is in " not in said])
    print(f"  every number claimed too large by one: {caught} of {numbers} contradicted")
    print(f"  a wrong number planted on the GPU: {found} of {faults} found")
    return not total.contradictions and caught == numbers and found == faults


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("records", nargs="+", type=Path)
    options = arguments.parse_args()
    fine = True
    for path in options.records:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            record = json.load(lines)
        print(f"{path.name}: {', '.join(f'{key} {value}' for key, value in record['machine'].items())}, {record['seconds']} s")
        if any(result["about"].get("measure") for result in record["results"]):
            fine &= judged(record["results"])
            continue
        fine &= equal_outputs([result for result in record["results"] if "slot" not in result["about"]])
        if any("captured" in result for result in record["results"]):
            fine &= values_read_back(record["results"])
    sys.exit(not fine)


if __name__ == "__main__":
    main()
