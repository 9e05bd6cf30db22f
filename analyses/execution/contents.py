"""Initial contents of memory for which the user supplied none.

The values are small integers, so that a kernel that uses them as indices stays within its arrays. `count` holds 0, 1, 2, …, all different,
as index tables often do; `shuffled` holds the same values in another order; `random` holds random integers, and `small` random integers
from a smaller range; `rising` holds integers each of which exceeds the one before by a random integer, as first elements of rows do;
`zeros` is typical of fresh memory; `flags` holds random zeros and ones; `reals` holds random single-precision numbers, whose magnitude
differs from warp to warp if each thread has an element; `noise` holds random bytes, so that two values are equal only if the kernel makes
them so; `among` holds given numbers, such as those with which the kernel compares words.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from ptxkit.frozen import frozen

HIGH = 1000
"""Exclusive upper bound of the integers in `random`."""
_BELOW = {"random": HIGH, "small": 8, "flags": 2}
"""Exclusive upper bound of the random integers, by kind of contents."""
SPREAD = 2.0
"""Random real numbers lie between -SPREAD and SPREAD, times the magnitude of their row."""
MAGNITUDES, ROW = (1.0, 0.01), 32
"""Magnitudes of random real numbers, which alternate from one row of so many words to the next."""
SIDE = 64
"""Texels along each dimension of a synthesized texture."""
SIGN = 1 << 31
"""The sign bit of a word."""
PARTS = 16
"""Buffers of one argument are numbered from this many times its index on."""


Part = tuple[int, int, int]
"""A part of an argument: index of the parameter, offset and size in bytes."""


@frozen
class Numbers:
    """Values for the scalar arguments that were not supplied: `other`, unless one of the fields below applies."""

    other: int = 1
    iterations: int = 0
    """Iteration count for loops whose trip count is such a scalar; 0 if these scalars are `other` as well."""
    stride: int = 1
    """Factor by which a scalar that scales an index (a stride) exceeds `other`."""
    plane: int = 0
    """Distance between planes of an array; 0 if the scalars that locate planes are `other` as well."""
    chosen: tuple[tuple[Part, int], ...] = ()
    """Individual values, which take precedence."""

    def having(self, chosen: Mapping[Part, int]) -> Numbers:
        """Returns these numbers with some individual values replaced or added."""
        return attrs.evolve(self, chosen=tuple(sorted({**dict(self.chosen), **chosen}.items())))

    def simpler(self) -> Iterator[Numbers]:
        """These numbers, each time with one of the individual values left out."""
        for n in range(len(self.chosen)):
            yield attrs.evolve(self, chosen=self.chosen[:n] + self.chosen[n + 1 :])

    def __str__(self) -> str:
        loops = [f"{self.iterations} iterations of loops"] if self.iterations else []
        rows = [f"{self.other * self.stride} for a stride"] if self.stride > 1 else []
        planes = [f"planes {self.plane} apart"] if self.plane else []
        own = [f"parameter {index}{f'+{offset}' if offset else ''} = {value}" for (index, offset, _), value in self.chosen]
        more = ", ".join([*loops, *rows, *planes, *own])
        return f"{self.other} ({more})" if more else str(self.other)


@frozen
class Contents:
    """One choice of everything that is synthesized: the contents of memory and the scalars (`numbers`)."""

    name: str
    seed: int = 0
    numbers: Numbers = Numbers()
    only: int | None = None
    """The one argument that has these contents, by index, while all others hold 0, 1, 2, …; None if all have them."""
    words: tuple[int, ...] = ()
    """The words to choose from."""

    def with_numbers(self, numbers: Numbers) -> Contents:
        """Returns the same contents with other scalars."""
        return attrs.evolve(self, numbers=numbers)

    @property
    def of_different_words(self) -> Contents:
        """Contents in which no two words of an array are equal: these, or else 0, 1, 2, … in an order of their own."""
        return self if self.name in DIFFERENT else attrs.evolve(self, name="shuffled", seed=self.seed + FIRST_ORDER)

    def data(self, size: int, number: int) -> Any:
        """Initial bytes of buffer number `number`, which has `size` bytes. The array is shared: do not modify it."""
        import numpy as np

        words = size // 4
        if self.name == "count" or self.only not in (None, number // PARTS):
            return _counting(1 << (words - 1).bit_length() if words else 0)[: 4 * words]
        if self.name == "shuffled":
            return _shuffled(words, self.seed, number)
        if self.name in _BELOW:
            return np.random.default_rng((self.seed, number)).integers(0, _BELOW[self.name], words, np.uint32).view(np.uint8)
        if self.name == "among":
            return np.random.default_rng((self.seed, number)).choice(np.array(self.words, np.uint32), words).view(np.uint8)
        if self.name == "rising":
            steps = np.random.default_rng((self.seed, number)).integers(0, HIGH, words, np.uint32)
            return np.cumsum(steps, dtype=np.uint32).view(np.uint8)
        if self.name == "reals":
            drawn = np.random.default_rng((self.seed, number)).uniform(-SPREAD, SPREAD, words)
            return (drawn * np.resize(np.repeat(MAGNITUDES, ROW), words)).astype(np.float32).view(np.uint8)
        if self.name == "noise":
            return np.random.default_rng((self.seed, number)).integers(0, 256, size, np.uint8)
        return np.zeros(size, np.uint8)

    def image(self, dimensions: int, number: int, is_float: bool = True) -> Any:
        """Texels of a texture or surface: floating-point values in [0, 1), or small integers."""
        import numpy as np

        shape = (SIDE,) * dimensions
        if not is_float:
            return self.data(4 * SIDE**dimensions, number).view(np.uint32).reshape(shape).copy()
        if self.name == "zeros":
            return np.zeros(shape, np.float32)
        return np.random.default_rng((self.seed, number)).random(shape, np.float32)

    def __str__(self) -> str:
        names = {
            "count": "0, 1, 2, …",
            "shuffled": "0, 1, 2, … in another order",
            "rising": "numbers that rise by random steps",
            "zeros": "zeros",
            "noise": "random bytes",
            "flags": "zeros and ones",
            "small": "small random numbers",
            "reals": "random real numbers",
            "among": f"words among {', '.join([str((word ^ SIGN) - SIGN) for word in self.words])}",
        }
        found = names.get(self.name, "random numbers")
        return found if self.only is None else f"{found} beside 0, 1, 2, …"


@functools.lru_cache(maxsize=1)
def _counting(words: int) -> Any:
    """The words 0, 1, 2, … as bytes. Cached, since a copy is cheaper than a new array."""
    import numpy as np

    found = np.arange(words, dtype=np.uint32).view(np.uint8)
    found.setflags(write=False)
    return found


def _shuffled(words: int, seed: int, number: int) -> Any:
    """The bytes of 0, 1, 2, …, with each row of `NEAR` words in random order: as an index, a word still points near its own position."""
    import numpy as np

    rows = -(-words // NEAR)
    order = np.random.default_rng((seed, number)).permuted(np.tile(np.arange(NEAR, dtype=np.uint32), (rows, 1)), axis=1)
    return (order + NEAR * np.arange(rows, dtype=np.uint32)[:, None]).reshape(-1)[:words].view(np.uint8)


NEAR = 8
"""Words in a row that is shuffled."""
COUNT, ZEROS, NOISE, SMALL = Contents("count"), Contents("zeros"), Contents("noise", 3), Contents("small", 4)
SHUFFLED = Contents("shuffled", 5)
RISING, REALS = Contents("rising", 6), Contents("reals", 7)
RANDOM = Contents("random", 1)
FIRST_ORDER = 100
DIFFERENT = ("count", "shuffled")
"""The contents in which no two words of an array are equal."""
CHOICES = (COUNT, RANDOM, ZEROS, Contents("flags", 2))
"""The contents to try, in order: the first for every kernel, the others only if something depends on contents."""
