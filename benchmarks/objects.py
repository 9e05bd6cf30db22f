"""How many of the mbarrier objects of real kernels are identified: variable and place in it, fixed or that of a slot in a ring.

    python benchmarks/objects.py PATH...

Counted are the operands that name an object. One is identified if it is known which variable it starts from and between which offsets it
lies, through generic addresses, `mapa` and masks for the CTA of a cluster. Objects are the operands of `mbarrier.init`; uses all others.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.events.mbarriers import mbarrier_operand, where
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.files import decode
from ptxkit.isa.binding import Bound
from ptxkit.names import Symbol
from ptxkit.syntax import parse


def operands(routine: Routine) -> Iterator[tuple[bool, bool]]:
    """For each operand that names an object: whether it is that of an init, and whether it is identified."""
    flow = control_flow(routine)
    for i, bound in enumerate(bindings(routine)):
        if not isinstance(bound, Bound) or flow.block_of[i] not in flow.reachable:
            continue
        operand = mbarrier_operand(bound)
        if operand is not None:
            found = where(routine, i, operand.path[0])
            yield any(word.action == "init" for word in bound.barrier), found is not None and isinstance(found.root, Symbol)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=Path, nargs="+")
    counts: Counter[tuple[str, bool, bool]] = Counter()
    for given in parser.parse_args().paths:
        for path in sorted(given.rglob("*.ptx")) if given.is_dir() else [given]:
            data = path.read_bytes()
            if b"mbarrier.init" not in data:
                continue
            for routine in routines(parse(decode(data), str(path))):
                # functions that are called get their objects from others
                if routine.function.header.is_entry:
                    counts.update([(path.parent.name, *one) for one in operands(routine)])
    for folder in [*sorted({key[0] for key in counts}), ""]:
        row = []
        for is_init, word in ((True, "objects"), (False, "uses")):
            known, unknown = [
                sum(count for key, count in counts.items() if key[1:] == (is_init, is_known) and folder in ("", key[0]))
                for is_known in (True, False)
            ]
            row.append(f"{word} {known} of {known + unknown} ({100 * known / max(1, known + unknown):.1f} %)")
        print(f"{folder or 'all':12} {', '.join(row)}")


if __name__ == "__main__":
    main()
