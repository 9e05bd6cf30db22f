"""Makes the variants of the fixtures that are to be run on a GPU, and packs them for `launcher.py`.

    python benchmarks/gpu/prepare.py garbage [--only NAME…] [-o PLAN.zip] [--assemble]

`--assemble` has ptxas, which must be on the PATH, take every text: so that nothing is found out on the GPU that can be found out here.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from garbage import planted, spoiled
from plan import KERNELS, WORK, Fixture, Variant, fixtures, write

from ptxkit.syntax.parsing import parse

PLANTS = 3
"""Faults planted in each kernel's module."""


def garbage_variants(fixture: Fixture) -> list[Variant]:
    """The text itself, as a control; with garbage of two patterns; and with faults planted."""
    module = parse(fixture.text)
    made = [Variant("control", fixture.text)]
    for pattern in (0, 1):
        found = spoiled(module, pattern)
        made.append(Variant(f"garbage {pattern}", found.text, about={"blocks": found.blocks, "writes": found.writes}))
    if len(fixture.text) < 200_000:
        lot = random.Random(f"{fixture.name} {fixture.target}")
        kernel = lot.choice(fixture.kernels)
        faults = planted(module, kernel["entry"], lot, PLANTS)
        made += [Variant(f"planted {where}", text, only=kernel["id"], about={"planted": True}) for where, text in faults.items()]
    return made


KINDS: dict[str, Callable[[Fixture], list[Variant]]] = {"garbage": garbage_variants}
SHAPES = {"transforms"}
"""The kinds that are run in several shapes of launch."""


def assemble(fixture: Fixture, variant: Variant) -> str:
    """What ptxas has against a text; empty if it takes it."""
    if variant.text == fixture.text:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "variant.ptx"
        source.write_bytes(variant.text.encode("utf-8", "surrogateescape"))
        command = ["ptxas", "-O0", f"-arch={fixture.target}", str(source), "-o", str(Path(folder) / "variant.cubin")]
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
    jobs: list[tuple[Fixture, Sequence[Variant]]] = []
    for fixture in fixtures(only=options.only, shapes=options.kind in SHAPES):
        jobs.append((fixture, KINDS[options.kind](fixture)))
    out = options.out or WORK / f"{options.kind}.zip"
    count = write(out, jobs)
    print(f"{out}: {len(jobs)} modules, {sum(len(made) for _, made in jobs)} variants, {count} launches ({time.monotonic() - begun:.0f} s)")
    if not options.assemble:
        return
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        pairs = [(fixture, variant) for fixture, made in jobs for variant in made]
        wrong = [said for said in pool.map(lambda pair: assemble(*pair), pairs) if said]
    print("\n".join([*wrong, f"ptxas refuses {len(wrong)} of {len(pairs)}"]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    assert KERNELS.is_dir()
    main()
