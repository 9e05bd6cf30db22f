"""Example launches described in words."""

from __future__ import annotations

from ptxkit.analyses.inputs.example import Example, Number, Size
from ptxkit.isa.forms import plain_number


def spoken(example: Example) -> str:
    """Shape and scalars of a launch, such as `2 CTAs of 128 threads, n = 256`."""
    ctas = example.grid[0] * example.grid[1] * example.grid[2]
    shape = f"{_by(example.grid)} CTAs" if ctas > 1 else "one CTA"
    numbers = [f"{name} = {plain_number(one.value)}" for name, one in example.arguments if isinstance(one, Number)]
    threads = "1 thread" if example.block == (1, 1, 1) else f"{_by(example.block)} threads"
    return ", ".join([f"{shape} of {threads}", *numbers])


def _by(size: Size) -> str:
    x, y, z = size
    return "x".join(map(str, (x, y, z) if z > 1 else (x, y) if y > 1 else (x,)))
