"""Makes the variants of the fixtures that are to be run on a GPU, and packs them for `launcher.py`.

    python benchmarks/gpu/prepare.py garbage|values|transforms|uniform|probes [--only NAME…] [-o PLAN.zip] [--assemble]

`--assemble` has ptxas, which must be on the PATH, take every text: so that nothing is found out on the GPU that can be found out here.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import math
import random
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from garbage import planted, spoiled
from instrumented import probe_variants, subjects
from plan import LARGE, WORK, Fixture, Variant, fixtures, write
from probes import alone, certain_slots, probed
from transforms import transform_variants
from uniform import shapes_fixture, uniform_variants, with_inputs, with_shapes

from ptxkit.syntax import parse

DEVICE = "sm_90a"
THREADS = 24
"""Threads of a launch whose registers are compared, about."""
PLANTS = 2
"""Faults planted in each kernel's module."""


def garbage_variants(fixture: Fixture, counts: Counter[str]) -> list[Variant]:
    """The text itself, as a control; with garbage of two patterns; and with faults planted."""
    module = parse(fixture.text)
    made = [Variant("control", fixture.text)]
    for pattern in (0, 1):
        found = spoiled(module, pattern)
        counts[f"pattern {pattern}: blocks"] += found.blocks
        counts[f"pattern {pattern}: registers written"] += found.writes
        made.append(Variant(f"garbage {pattern}", found.text, about={"blocks": found.blocks, "writes": found.writes}))
    if len(fixture.text) < LARGE:
        lot = random.Random(f"{fixture.name} {fixture.target}")
        entry = lot.choice(fixture.entries)
        for fault in planted(module, entry, lot, PLANTS):
            made.append(Variant(f"planted {fault.where}", fault.text, only=entry, about={"planted": fault.where}))
            made.append(Variant(f"trap {fault.where}", fault.trapped, only=entry, about={"trap": fault.where}))
    return made


def value_variants(fixture: Fixture, counts: Counter[str]) -> list[Variant]:
    """Each kernel with probes; one of the kernels also with a probe that writes down a wrong number."""
    made = []
    lot = random.Random(f"{fixture.name} {fixture.target}")
    spoiled_kernel = lot.choice(fixture.kernels)
    for kernel in fixture.kernels:
        module = alone(fixture, kernel["entry"])
        found = probed(module, kernel["entry"])
        rows = math.prod(kernel["grid"]) * math.prod(kernel["block"])
        take = sorted({0, rows - 1, *lot.sample(range(rows), min(rows, THREADS))})
        capture = {"rows": rows, "row": found.row, "take": take}
        counts["slots"] += len(found.watches)
        counts["refused"] += found.refused
        about = {"take": take, "text": zlib.crc32(found.text.encode())}
        made.append(Variant("values", found.text, only=kernel["entry"], capture=capture, about=about))
        certain = certain_slots(found)
        if kernel is spoiled_kernel and certain:
            slot = lot.choice(certain)
            text = probed(module, kernel["entry"], spoil=slot).text
            planted_about = {**about, "planted": True, "slot": slot, "text": zlib.crc32(text.encode())}
            made.append(Variant(f"planted in slot {slot}", text, only=kernel["entry"], capture=capture, about=planted_about))
    return made


KINDS: dict[str, Callable[[Fixture, Counter[str]], list[Variant]]] = {
    "garbage": garbage_variants,
    "probes": probe_variants,
    "transforms": transform_variants,
    "uniform": uniform_variants,
    "values": value_variants,
}
SHAPES = {"transforms"}
"""The kinds that are run in several shapes of launch."""


def assemble(fixture: Fixture, variant: Variant) -> str:
    """What ptxas has against a text; empty if it takes it."""
    if variant.text == fixture.text:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "variant.ptx"
        source.write_bytes(variant.text.encode("utf-8", "surrogateescape"))
        command = ["ptxas", "-O0", f"-arch={DEVICE}", str(source), "-o", str(Path(folder) / "variant.cubin")]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"{fixture.name}.{fixture.target} {variant.name}: {run.stderr[:500]}" if run.returncode else ""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("kind", choices=sorted(KINDS))
    arguments.add_argument("--only", nargs="*", default=[], help="names of fixtures")
    arguments.add_argument("-o", "--out", type=Path)
    arguments.add_argument("--assemble", action="store_true")
    options = arguments.parse_args()
    begun = time.monotonic()
    counts: Counter[str] = Counter()
    jobs: list[tuple[Fixture, Sequence[Variant]]] = []
    found = subjects(options.only) if options.kind == "probes" else fixtures(only=options.only, shapes=options.kind in SHAPES)
    for fixture in found:
        fixture = with_inputs(with_shapes(fixture)) if options.kind == "uniform" else fixture
        jobs.append((fixture, KINDS[options.kind](fixture, counts)))
    if options.kind == "uniform" and not options.only:
        jobs.append((shapes_fixture(), uniform_variants(shapes_fixture(), counts)))
    out = options.out or WORK / f"{options.kind}.zip"
    count = write(out, jobs)
    print(f"{out}: {len(jobs)} modules, {sum(len(made) for _, made in jobs)} variants, {count} launches ({time.monotonic() - begun:.0f} s)")
    for name, number in sorted(counts.items()):
        print(f"  {name}: {number}")
    if not options.assemble:
        return
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        pairs = [(fixture, variant) for fixture, made in jobs for variant in made]
        wrong = [said for said in pool.map(lambda pair: assemble(*pair), pairs) if said]
    print("\n".join([*wrong, f"ptxas refuses {len(wrong)} of {len(pairs)}"]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
