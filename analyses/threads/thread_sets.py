"""Sets of threads of a CTA as bit masks, one for each degree of certainty."""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterator

from ptxkit.frozen import frozen


class Runs(enum.IntEnum):
    """Whether a thread executes something."""

    NEVER = 0
    UNKNOWN = 1
    MAYBE = 2
    """For some parameters, or in some CTA of a large enough grid."""
    ALWAYS = 3


_DEGREES = tuple(Runs)


@frozen
class Execution:
    """For each thread, whether it executes something. `&` is the minimum of two, `|` the maximum, for each thread."""

    count: int
    """The number of threads."""
    may: int
    """The threads that may execute it, as far as known."""
    some: int
    """The threads that execute it for some parameters at least."""
    sure: int
    """The threads that always execute it."""

    def __and__(self, other: Execution) -> Execution:
        return Execution(self.count, self.may & other.may, self.some & other.some, self.sure & other.sure)

    def __or__(self, other: Execution) -> Execution:
        return Execution(self.count, self.may | other.may, self.some | other.some, self.sure | other.sure)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, thread: int) -> Runs:
        """Whether one thread executes it. Raises IndexError for an index out of range."""
        if not 0 <= thread < self.count:
            raise IndexError(thread)
        return _DEGREES[(self.may >> thread & 1) + (self.some >> thread & 1) + (self.sure >> thread & 1)]

    def __iter__(self) -> Iterator[Runs]:
        return map(self.__getitem__, range(self.count))

    @property
    def everyone(self) -> int:
        """All threads."""
        return (1 << self.count) - 1

    @property
    def never(self) -> int:
        """The threads that certainly do not execute it."""
        return ~self.may & self.everyone

    @property
    def most(self) -> Runs:
        """The maximum over all threads."""
        return _DEGREES[bool(self.may) + bool(self.some) + bool(self.sure)]


@functools.lru_cache(maxsize=256)
def all_same(runs: Runs, count: int) -> Execution:
    """The same for all threads."""
    everyone = (1 << count) - 1
    return Execution(count, *[everyone if runs >= least else 0 for least in (Runs.UNKNOWN, Runs.MAYBE, Runs.ALWAYS)])


def just(threads: int, count: int) -> Execution:
    """These threads execute it, the others do not."""
    return Execution(count, threads, threads, threads)


def all_but(threads: int, count: int) -> Execution:
    """All threads but these execute it."""
    return just(~threads & ((1 << count) - 1), count)


def first_of(threads: int) -> int:
    """The first thread of a nonempty set."""
    return (threads & -threads).bit_length() - 1
