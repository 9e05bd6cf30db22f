"""What the symbolic values claim of a program, and what they cost.

    python benchmarks/values.py [FOLDER] [--least BYTES] [--files N]

`claims` lists what can be checked by reading registers back. Run as a program, it prints for the files of a folder the processor time of
symbolic values and memory accesses over that of parsing (best of three), and how much is claimed.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import attrs

from ptxkit.analyses import Routine, registers, routines, ssa
from ptxkit.analyses.memory.accesses import accesses
from ptxkit.analyses.numbers.known_bits import Known, top
from ptxkit.analyses.symbolic.evaluate import number_of
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import Values, values
from ptxkit.syntax import parse

HERE = Path(__file__).resolve().parent.parent

CHECKABLE = frozenset(
    f"%{name}.{component}" for name in ("tid", "ntid", "ctaid", "nctaid") for component in "xyz"
) | {"%laneid"}  # fmt: skip
"""The special registers that whoever launches a kernel knows."""


@attrs.frozen
class Claim:
    """What is stated of a register right after an instruction, for every thread that has executed it."""

    instruction: int
    register: str
    number: int
    """The register's number in `registers(routine)`."""
    width: int
    term: Term
    exact: bool
    """Whether the term depends on nothing but special registers and parameters, so that `expected` gives the number itself."""

    @property
    def known(self) -> Known:
        """Bits that are zero, bits that are one, and the interval (see `ptxkit.analyses.known`)."""
        return self.term.known

    def expected(self, special: Mapping[str, int], parameter: Callable[[str, int, int], int]) -> int | None:
        """The number, for these special registers; `parameter(name, offset, bytes)` tells what the parameters hold. None if not exact."""

        def leaf(term: Term) -> int | None:
            if term.operator == "special":
                return special.get(str(term.data[0]))
            if term.operator == "parameter":
                name, _, offset, size = term.data
                return parameter(str(name), int(str(offset)), int(str(size)))
            return None

        return number_of(self.term, leaf)

    def holds(self, value: int) -> bool:
        """Whether bits and interval are true of a number that was read."""
        known = self.known
        size = 1 << self.width
        return not value & known.zeros and value & known.ones == known.ones and (value - known.low) % size <= known.span

    def __str__(self) -> str:
        return f"{self.register} = {self.term}" if self.exact else f"{self.register}: bits and range of {self.term}"


def claims(routine: Routine) -> Iterator[Claim]:
    """The claims of a function that say anything, in the order of the text."""
    known = values(routine)
    numbering, table = ssa(routine), registers(routine).table
    for i, written in enumerate(numbering.definitions):
        for value in written:
            register = numbering.values[value].register
            if not table[register].bits:
                continue
            term = known.of(value)
            exact = _is_exact(term)
            if exact or term.known != top(term.width):
                yield Claim(i, table[register].name, register, term.width, term, exact)


def _is_exact(term: Term) -> bool:
    return all(leaf.operator == "parameter" or (leaf.operator == "special" and leaf.data[0] in CHECKABLE) for leaf in term.leaves())


def timed(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def every(routine: Routine) -> Values:
    """The values, with the term of each made."""
    known = values(routine)
    for number in range(len(ssa(routine).values)):
        known.of(number)
    return known


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=HERE.parent / "shared" / "corpus")
    parser.add_argument("--least", type=int, default=100_000)
    parser.add_argument("--files", type=int, default=30)
    chosen = parser.parse_args()
    files = [path for path in sorted(chosen.folder.rglob("*.ptx")) if path.stat().st_size >= chosen.least]
    files = random.Random(0).sample(files, min(chosen.files, len(files)))
    ratios: list[float] = []
    all_ratios: list[float] = []
    counts: Counter[str] = Counter()
    for path in files:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        parsing = min(timed(lambda text=text: parse(text)) for _ in range(3))  # type: ignore[misc]
        best = [sys.float_info.max, sys.float_info.max]
        for _ in range(3):
            found = routines(parse(text))
            for routine in found:
                ssa(routine)
            first = timed(lambda found=found: [accesses(routine) for routine in found])  # type: ignore[misc]
            second = timed(lambda found=found: [every(routine) for routine in found])  # type: ignore[misc]
            best = [min(best[0], first), min(best[1], first + second)]
        ratios.append(best[0] / parsing)
        all_ratios.append(best[1] / parsing)
        for routine in found:
            for claim in claims(routine):
                counts["exact" if claim.exact else "bits and range"] += 1
            counts["values"] += len(ssa(routine).values)
            counts["accesses"] += len(accesses(routine))
            counts["accesses with an address"] += sum(access.address is not None for access in accesses(routine))
            counts["accesses with a space"] += sum(bool(access.space) for access in accesses(routine))
            known = values(routine)
            loops = [number for phis in ssa(routine).phis for number in phis if known.of(number).operator == "phi"]
            counts["values of loops"] += len(loops)
            counts["values of loops with a start and steps"] += sum(known.induction(number) is not None for number in loops)
        print(f"{path.name[:60]:60} {ratios[-1]:5.2f} {all_ratios[-1]:5.2f}")
    print(f"values that addresses need, and accesses, over parse: median {statistics.median(ratios):.2f}, largest {max(ratios):.2f}")
    print(f"every value and accesses, over parse: median {statistics.median(all_ratios):.2f}, largest {max(all_ratios):.2f}")
    for name, count in counts.items():
        print(f"{count:9} {name}")


if __name__ == "__main__":
    main()
