"""How many bytes copies with tensor maps have, if all that is expected for them comes: the boxes that a correct kernel is launched with.

Each phase of an mbarrier says what its copies come to together. Where that leaves it open which has how many, a copy reaches as far
as the next location that any copy writes to. This is a proposal: only who makes the maps knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise

from ptxkit.analyses.simulation.machine import Machine

Sums = list[tuple[dict[str, int], int]]
"""How many copies with each map come to how many bytes."""
SMALLEST = 16
"""Boxes are multiples of this in bytes (9.7.10.27)."""


def boxes(machine: Machine) -> dict[str, int]:
    """Bytes by tensor map, as `--boxes` takes them, so that every phase of a run gets what is expected; empty if there are none."""
    sums = _sums(machine)
    found = _solved(sums)
    names = sorted({name for counts, _ in sums for name in counts})
    if not names:
        return {}
    if any(name not in found for name in names):
        gaps = _gaps(machine)
        found = found | _completed(sums, found, gaps) or {}
    if any(name not in found or found[name] < SMALLEST or found[name].denominator != 1 for name in names):
        return {}
    sizes = {name: int(found[name]) for name in names}
    return sizes if all(sum(sizes[name] * count for name, count in counts.items()) == total for counts, total in sums) else {}


def _sums(machine: Machine) -> Sums:
    found: Sums = []
    for mbarrier in machine.by_number.values():
        for counts, (expected, copied) in zip(mbarrier.maps_of, mbarrier.bytes, strict=False):
            if counts and (one := (counts, expected - copied)) not in found:
                found.append(one)
    return found


def _solved(sums: Sums) -> dict[str, Fraction]:
    """What the sums determine, by elimination."""
    rows = [({name: Fraction(count) for name, count in counts.items()}, Fraction(total)) for counts, total in sums]
    done: list[tuple[str, dict[str, Fraction], Fraction]] = []
    while rows:
        counts, total = rows.pop()
        for name, other, amount in done:
            factor = counts.get(name, Fraction(0))
            if factor:
                counts, total = _less(counts, other, factor), total - factor * amount
        if not counts:
            continue
        pivot = min(counts)
        scale = counts[pivot]
        own = {name: count / scale for name, count in counts.items()}
        total /= scale
        done = [
            (name, _less(other, own, other[pivot]), amount - other[pivot] * total) if pivot in other else (name, other, amount)
            for name, other, amount in done
        ]
        done.append((pivot, own, total))
    return {name: amount for name, counts, amount in done if len(counts) == 1}


def _less(counts: Mapping[str, Fraction], other: Mapping[str, Fraction], factor: Fraction) -> dict[str, Fraction]:
    names = counts.keys() | other.keys()
    found = {name: counts.get(name, Fraction(0)) - factor * other.get(name, Fraction(0)) for name in names}
    return {name: count for name, count in found.items() if count}


def _completed(sums: Sums, found: Mapping[str, Fraction], gaps: Mapping[str, int]) -> dict[str, Fraction]:
    """What is left open, by how far copies can reach; of what that leaves open, all the same."""
    open_ = sorted({name for counts, _ in sums for name in counts} - found.keys())
    by_gap = dict(found) | {name: Fraction(gaps[name]) for name in open_ if name in gaps}
    if len(by_gap) == len(found) + len(open_) and _holds(sums, by_gap):
        return by_gap
    for left in open_:
        # one that reaches less far than the next location
        fixed = dict(found) | {name: Fraction(gaps[name]) for name in open_ if name in gaps and name != left}
        rows = [(counts, total) for counts, total in sums if left in counts and all(name in fixed for name in counts if name != left)]
        for counts, total in rows[:1]:
            rest = total - sum(fixed[name] * count for name, count in counts.items() if name != left)
            fixed[left] = Fraction(rest) / counts[left]
            if fixed[left] >= SMALLEST and len(fixed) == len(found) + len(open_) and _holds(sums, fixed):
                return fixed
    even: dict[str, Fraction] = dict(found)
    for counts, total in sums:
        own = [name for name in counts if name not in even]
        rest = total - sum(even[name] * count for name, count in counts.items() if name in even)
        for name in own:
            even[name] = Fraction(rest) / sum(counts[other] for other in own)
    return even


def _holds(sums: Sums, sizes: Mapping[str, Fraction]) -> bool:
    return all(sum(sizes[name] * count for name, count in counts.items()) == total for counts, total in sums)


def _gaps(machine: Machine) -> dict[str, int]:
    """By map, how far it is from where a copy writes to the next location that any copy writes to, at least."""
    targets = sorted({target for indices in machine.targets.values() for target in indices})
    after = dict(pairwise(targets))
    found = {}
    for name, indices in machine.targets.items():
        gaps = [after[index] - index for index in indices if index in after]
        if gaps:
            found[name] = min(gaps)
    return found
