"""The correspondence of instructions, registers and labels between two functions.

Names are not evidence: a compiler that needs one more register renumbers all others. So an initial alignment pairs instructions, the pairs
vote on which registers correspond, and instructions are aligned again with the elected registers, until nothing improves. Three initial
alignments are tried: by names as they are, from both ends, and by the first definition of a register.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence

from ptxkit.analyses.comparison.alignment import Pair, align
from ptxkit.analyses.comparison.canonical import Body, Item, Renameable
from ptxkit.frozen import frozen

ROUNDS = 4
"""Number of realignments with the elected registers."""
VOTES = 3
"""Number of rounds of votes, each based on the previous result."""
DEPTH = 3
"""Registers are distinguished in the initial alignment by definitions up to this depth."""
NEAR = 0.02
"""If an initial alignment leaves a smaller fraction of the code unequal, no other is tried."""


@frozen
class Correspondence:
    """The pairs of equal instructions, ascending in both, and the registers and labels of the second function by those of the first."""

    pairs: tuple[Pair, ...]
    names: dict[Renameable, Renameable]


def correspond(a: Body, b: Body) -> Correspondence:
    """The correspondence of two functions. Functions that differ in names only correspond completely."""
    same = _same(a.items, b.items)
    if same is not None:
        return Correspondence(tuple([(i, i) for i in range(len(a.items))]), same)
    best = Correspondence((), {})
    for first in (_pairs_as_written, _pairs_from_both_ends, _pairs_by_origin):
        found = _refined(a.items, b.items, first(a.items, b.items))
        best = max(best, found, key=lambda one: len(one.pairs))
        if len(a.items) + len(b.items) - 2 * len(best.pairs) <= NEAR * (len(a.items) + len(b.items)):
            break
    return best


def gaps(pairs: Sequence[Pair], a: int, b: int) -> list[tuple[int, int, int, int]]:
    """The gaps between pairs, for sequences of these lengths: start and end in the first, start and end in the second."""
    found = []
    i0 = j0 = 0
    for i, j in (*pairs, (a, b)):
        if i > i0 or j > j0:
            found.append((i0, i, j0, j))
        i0, j0 = i + 1, j + 1
    return found


def _same(a: Sequence[Item], b: Sequence[Item]) -> dict[Renameable, Renameable] | None:
    """The names of the second by those of the first, if the two differ in names only."""
    if len(a) != len(b):
        return None
    names: dict[Renameable, Renameable] = {}
    for one, other in zip(a, b, strict=True):
        if one.mask != other.mask:
            return None
        for old, new in zip(one.names, other.names, strict=True):
            if names.setdefault(old, new) != new:
                return None
    return names if len(set(names.values())) == len(names) else None


def _refined(a: Sequence[Item], b: Sequence[Item], pairs: list[Pair]) -> Correspondence:
    best = Correspondence((), {})
    for _ in range(ROUNDS):
        names = _elected(a, b, pairs)
        back = {new: old for old, new in names.items()}
        number: dict[Hashable, int] = {}
        keys_a = [number.setdefault((item.mask, item.names), len(number)) for item in a]
        keys_b = [number.setdefault((item.mask, tuple([back.get(name, (name,)) for name in item.names])), len(number)) for item in b]
        pairs = align(keys_a, keys_b)
        if len(pairs) <= len(best.pairs):
            break
        best = Correspondence(tuple(pairs), names)
    return best


def _elected(a: Sequence[Item], b: Sequence[Item], pairs: list[Pair]) -> dict[Renameable, Renameable]:
    """A one-to-one mapping of names by majority of instruction pairs. A pair's vote counts more if its other names were elected before."""
    every = list(pairs)
    for i0, i1, j0, j1 in gaps(pairs, len(a), len(b)):
        every += [(i0 + i, j0 + j) for i, j in align([item.mask for item in a[i0:i1]], [item.mask for item in b[j0:j1]])]
    asked = [list(zip(a[i].names, b[j].names, strict=True)) for i, j in every]
    names: dict[Renameable, Renameable] = {}
    for _ in range(VOTES):
        votes: Counter[tuple[Renameable, Renameable]] = Counter()
        for one in asked:
            matching = [names.get(old) == new for old, new in one]
            total = sum(matching)
            for wish, matches in zip(one, matching, strict=True):
                votes[wish] += 1 + total - matches
        names = _chosen(votes)
    return names


def _chosen(votes: Counter[tuple[Renameable, Renameable]]) -> dict[Renameable, Renameable]:
    """Most votes first; ties go to equal names."""
    names: dict[Renameable, Renameable] = {}
    taken: set[Renameable] = set()
    for (old, new), _ in sorted(votes.items(), key=lambda vote: (-vote[1], vote[0][0][1] != vote[0][1][1])):
        if old not in names and new not in taken:
            names[old] = new
            taken.add(new)
    return names


def _pairs_as_written(a: Sequence[Item], b: Sequence[Item]) -> list[Pair]:
    return align(_keys(a, lambda name: name[1]), _keys(b, lambda name: name[1]))


def _pairs_from_both_ends(a: Sequence[Item], b: Sequence[Item]) -> list[Pair]:
    """The common prefix and suffix of the two, with names mapped one to one."""
    names: dict[Renameable, Renameable] = {}
    back: dict[Renameable, Renameable] = {}

    def is_same(one: Item, other: Item) -> bool:
        if one.mask != other.mask:
            return False
        for old, new in zip(one.names, other.names, strict=True):
            if names.get(old, new) != new or back.get(new, old) != old:
                return False
        names.update(zip(one.names, other.names, strict=True))
        back.update(zip(other.names, one.names, strict=True))
        return True

    shorter = min(len(a), len(b))
    start = next((i for i in range(shorter) if not is_same(a[i], b[i])), shorter)
    end = next((i for i in range(shorter - start) if not is_same(a[-1 - i], b[-1 - i])), shorter - start)
    return [(i, i) for i in range(start)] + [(len(a) - i, len(b) - i) for i in range(end, 0, -1)]


def _pairs_by_origin(a: Sequence[Item], b: Sequence[Item]) -> list[Pair]:
    return align(_keys_by_origin(a), _keys_by_origin(b))


def _keys_by_origin(items: Sequence[Item]) -> list[Hashable]:
    """Keys that identify a register or label by the instruction in which it first occurs, and by the other names in it."""
    first: dict[Renameable, tuple[Item, int]] = {}
    for item in items:
        for index, name in enumerate(item.names):
            first.setdefault(name, (item, index))
    known = {name: hash((item.mask, index)) for name, (item, index) in first.items()}
    for _ in range(DEPTH):
        known = {name: hash((item.mask, index, *[known[other] for other in item.names])) for name, (item, index) in first.items()}
    return _keys(items, known.__getitem__)


def _keys(items: Sequence[Item], called: Callable[[Renameable], Hashable]) -> list[Hashable]:
    return [hash((item.mask, *[called(name) for name in item.names])) for item in items]
