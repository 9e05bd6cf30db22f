"""Kernel launches: grid, block, and arguments with their contents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from ptxkit.frozen import frozen
from ptxkit.rewriters.profiling.elements import SIZES

Dimensions = tuple[int, int, int]


@frozen
class Scalar:
    """A number of a type in `SIZES`."""

    type: str
    value: int | float


@frozen
class Array:
    """Memory passed to a kernel: as an address (`buffer`), as a 128-byte tensor map, or as a texture or surface object.

    Random numbers are floats in [0, 1) and integers in [`low`, `high`), generated from `seed`. With a `file` (`.npy`, or raw bytes), the
    contents are read from it. An `output` is compared: bitwise, bitwise as a multiset (`sorted`), not at all (`none`), or, for floats, with
    a tolerance: |a - b| <= atol + rtol * |a|, where a is the original's.
    """

    type: str
    shape: tuple[int, ...]
    fill: str = "zeros"
    value: int | float | None = None
    low: int = 0
    high: int | None = None
    seed: int | None = None
    file: str | None = None
    output: bool = False
    compare: str = "bits"
    atol: float = 0.0
    rtol: float = 0.0
    kind: str = "buffer"
    """`buffer`; `tensormap`, a CUtensorMap without gaps; `texture` (point filter, clamped), over linear memory if one-dimensional,
    otherwise over an array; `surface`."""
    box: tuple[int, ...] | None = None
    """The box of a tensor map."""
    swizzle: str = "none"

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.count * SIZES[self.type]


@frozen
class Raw:
    """An argument passed as these bytes: a struct by value. The eight bytes at the offset of a part are replaced by the address of its
    array."""

    data: bytes
    parts: tuple[tuple[int, Array], ...] = ()


Argument = Raw | Scalar | Array


def size_of(argument: Argument) -> int:
    """The bytes of an argument as a parameter."""
    if isinstance(argument, Raw):
        return len(argument.data)
    if isinstance(argument, Scalar):
        return SIZES[argument.type]
    return 128 if argument.kind == "tensormap" else 8


@frozen
class Launch:
    """A launch of a kernel."""

    kernel: str
    grid: Dimensions
    block: Dimensions
    arguments: tuple[Argument, ...] = ()
    cluster: Dimensions | None = None
    shared: int = 0
    """Dynamic shared memory, in bytes."""
    cooperative: bool = False
    seed: int = 0
    file: str | None = None
    """The module to which it applies, by name without `.ptx` or the first component of that; None for every module that has the kernel."""

    @property
    def threads(self) -> int:
        return math.prod(self.grid) * math.prod(self.block)

    def seed_of(self, argument: int) -> int:
        """The seed of an argument by index; arrays without explicit seeds differ."""
        array = self.arguments[argument]
        own = array.seed if isinstance(array, Array) else None
        return own if own is not None else self.seed + argument + 1

    def mismatch(self, sizes: Sequence[int]) -> str | None:
        """Why the arguments do not match a kernel whose parameters have these sizes in bytes; None if they do.

        For a missing or short argument, the driver would read beyond it.
        """
        if len(self.arguments) != len(sizes):
            return f"{self.kernel} has {_counted(len(sizes), 'parameter')}, the launch {_counted(len(self.arguments), 'argument')}"
        for i, (argument, size) in enumerate(zip(self.arguments, sizes, strict=True)):
            if size_of(argument) != size:
                return f"parameter {i} of {self.kernel} has {_counted(size, 'byte')}, the argument {size_of(argument)}"
        return None

    def is_for(self, path: str) -> bool:
        """Whether it applies to the module in this file."""
        name = Path(path).name
        return self.file is None or name == self.file or name.startswith(f"{self.file}.")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _plain(value: Argument) -> dict[str, Any]:
    if isinstance(value, Raw):
        return {"is": "raw", "data": value.data.hex(), "parts": [(at, _plain(array)) for at, array in value.parts]}
    return {"is": type(value).__name__.lower(), **attrs.asdict(value)}


def as_json(launch: Launch) -> dict[str, Any]:
    """A launch as JSON data; `from_json` reads it."""
    return {**attrs.asdict(launch, recurse=False), "arguments": [_plain(argument) for argument in launch.arguments]}


def from_json(given: dict[str, Any]) -> Launch:
    """The launch that `as_json` wrote."""
    made = tuple([_from_json(argument) for argument in given["arguments"]])
    dimensions = {name: tuple(given[name]) if given[name] else None for name in ("grid", "block", "cluster")}
    return Launch(**{**given, **dimensions, "arguments": made})


def _from_json(given: dict[str, Any]) -> Argument:
    if given["is"] == "raw":
        parts = [(at, _from_json(array)) for at, array in given["parts"]]
        return Raw(bytes.fromhex(given["data"]), tuple([(at, array) for at, array in parts if isinstance(array, Array)]))
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items() if name != "is"}
    return Scalar(**fields) if given["is"] == "scalar" else Array(**fields)
