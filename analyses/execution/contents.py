"""What memory holds that nobody said anything about.

Small whole numbers, so that a kernel that takes them for indices stays within its arrays: `count` holds 0, 1, 2, …, all different, as
tables of indices often are; `random` draws them by lot, `small` with few values; `zeros` is what fresh memory often holds; `flags` are
zeros and ones; `reals` are real numbers in single precision; in `noise` every byte is drawn by lot, so that no two bytes are equal for a
reason.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import attrs

HIGH = 1000
"""Random numbers are less than this."""
_BELOW = {"random": HIGH, "small": 8, "flags": 2}
"""Whole numbers by lot are less than this."""
SPREAD = 2.0
"""Random real numbers are less than this, and more than its negative."""
SIDE = 64
"""The texels of a made-up texture along each dimension."""


Part = tuple[int, int, int]
"""A part of an argument: the parameter's index, the offset in it, the bytes."""


@attrs.frozen
class Numbers:
    """What numbers are that were not given: `other`, but for those of which the kernel says what they are."""

    other: int = 1
    iterations: int = 0
    """How often loops run that count to a number; 0: it is as all others."""
    stride: int = 1
    """What an index is multiplied by is so many times as large."""
    plane: int = 0
    """How far planes of an array are apart; 0: where they begin is a number as all others."""
    chosen: tuple[tuple[Part, int], ...] = ()
    """Some by themselves."""

    def having(self, chosen: Mapping[Part, int]) -> Numbers:
        """The same, with some chosen by themselves."""
        return attrs.evolve(self, chosen=tuple(sorted({**dict(self.chosen), **chosen}.items())))

    def __str__(self) -> str:
        loops = [f"{self.iterations} iterations of loops"] if self.iterations else []
        rows = [f"{self.other * self.stride} for a stride"] if self.stride > 1 else []
        planes = [f"planes {self.plane} apart"] if self.plane else []
        own = [f"parameter {index}{f'+{offset}' if offset else ''} = {value}" for (index, offset, _), value in self.chosen]
        more = ", ".join([*loops, *rows, *planes, *own])
        return f"{self.other} ({more})" if more else str(self.other)


@attrs.frozen
class Contents:
    """One choice of all that is made up: what memory holds, and `numbers`."""

    name: str
    seed: int = 0
    numbers: Numbers = Numbers()

    def with_numbers(self, numbers: Numbers) -> Contents:
        """The same, with other numbers."""
        return attrs.evolve(self, numbers=numbers)

    def data(self, size: int, number: int) -> Any:
        """What buffer `number`, of `size` bytes, holds at the start: an array of bytes, not to be changed."""
        import numpy as np

        words = size // 4
        if self.name == "count":
            return _counting(1 << (words - 1).bit_length() if words else 0)[: 4 * words]
        if self.name in _BELOW:
            return np.random.default_rng((self.seed, number)).integers(0, _BELOW[self.name], words, np.uint32).view(np.uint8)
        if self.name == "reals":
            return np.random.default_rng((self.seed, number)).uniform(-SPREAD, SPREAD, words).astype(np.float32).view(np.uint8)
        if self.name == "noise":
            return np.random.default_rng((self.seed, number)).integers(0, 256, size, np.uint8)
        return np.zeros(size, np.uint8)

    def image(self, dimensions: int, number: int, is_float: bool = True) -> Any:
        """The texels of a texture or surface: numbers from 0 to 1, or small whole numbers."""
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
            "zeros": "zeros",
            "noise": "random bytes",
            "flags": "zeros and ones",
            "small": "small random numbers",
            "reals": "random real numbers",
        }
        return names.get(self.name, "random numbers")


@functools.lru_cache(maxsize=1)
def _counting(words: int) -> Any:
    """The bytes of 0, 1, 2, …, kept, as it takes longer to make them than to copy them."""
    import numpy as np

    found = np.arange(words, dtype=np.uint32).view(np.uint8)
    found.setflags(write=False)
    return found


COUNT, ZEROS, NOISE, SMALL = Contents("count"), Contents("zeros"), Contents("noise", 3), Contents("small", 4)
CHOICES = (COUNT, Contents("random", 1), ZEROS, Contents("flags", 2))
"""What is tried, in this order: the first for every kernel, the others where something depends on it."""
