"""Which of the threads of a CTA do something: sets of threads as bits, one for each degree of certainty."""

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
    """For some parameters, or in some CTA of a grid that is large enough."""
    ALWAYS = 3


_DEGREES = tuple(Runs)


@frozen
class Execution:
    """For each thread, whether it executes something. `&` is the lesser of two, `|` the greater, thread by thread."""

    count: int
    """How many threads there are."""
    may: int
    """The threads that are not known never to do it."""
    some: int
    """Those that do it at least for some parameters."""
    sure: int
    """Those that always do."""

    def __and__(self, other: Execution) -> Execution:
        return Execution(self.count, self.may & other.may, self.some & other.some, self.sure & other.sure)

    def __or__(self, other: Execution) -> Execution:
        return Execution(self.count, self.may | other.may, self.some | other.some, self.sure | other.sure)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, thread: int) -> Runs:
        """What one thread does. Raises IndexError for one that there is not."""
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
        """The threads that are certain not to do it."""
        return ~self.may & self.everyone

    @property
    def most(self) -> Runs:
        """What the thread does that does most."""
        return _DEGREES[bool(self.may) + bool(self.some) + bool(self.sure)]


@functools.lru_cache(maxsize=256)
def all_same(runs: Runs, count: int) -> Execution:
    """All of so many threads do the same."""
    everyone = (1 << count) - 1
    return Execution(count, *[everyone if runs >= least else 0 for least in (Runs.UNKNOWN, Runs.MAYBE, Runs.ALWAYS)])


def just(threads: int, count: int) -> Execution:
    """These of so many threads do it, and the others do not."""
    return Execution(count, threads, threads, threads)


def all_but(threads: int, count: int) -> Execution:
    """These of so many threads do not do it, and the others do."""
    return just(~threads & ((1 << count) - 1), count)


def first_of(threads: int) -> int:
    """The first of a set of threads that is not empty."""
    return (threads & -threads).bit_length() - 1
