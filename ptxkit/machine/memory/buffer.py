"""A flat buffer of bytes that is read and written as elements of any type, at arrays of byte offsets."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxkit.machine.memory.sparse import zeros

Array = np.ndarray[Any, Any]


_WHOLE: dict[int, np.dtype[Any]] = {4: np.dtype(np.uint32), 8: np.dtype(np.uint64), 16: np.dtype(np.complex128)}
"""Vectors of these sizes are gathered as a single element, which is several times faster. Only their bits are copied."""


class Buffer:
    """Bytes with typed views. Addresses `at` are counted from `origin`, the address of the first byte: an `int`, or an int64 array with
    one for each lane. Both must be multiples of the element size; the caller checks this."""

    def __init__(self, data: Array, origin: int = 0) -> None:
        self.data = data
        self.origin = origin
        self._views: dict[Any, Array] = {}

    @staticmethod
    def of_size(size: int, fill: int = 0, origin: int = 0) -> Buffer:
        """A buffer of at least `size` bytes. Its length is a multiple of 64, so that views of all types cover it."""
        length = -(-max(size, 1) // 64) * 64
        return Buffer(np.full(length, fill, np.uint8) if fill else zeros(length), origin)

    def anew(self, size: int, fill: int) -> Buffer:
        """Like `of_size`, but reuses this memory if it has the right size, which is cheaper than allocating new pages."""
        length = -(-max(size, 1) // 64) * 64
        if not fill or len(self.data) != length:
            return Buffer.of_size(size, fill, self.origin)
        self.data.fill(fill)
        return self

    def extend(self, size: int, fill: int = 0) -> None:
        """Extends the buffer. Addresses remain valid."""
        longer = Buffer.of_size(size, fill).data
        longer[: len(self.data)] = self.data[: len(longer)]
        self.replace(longer)

    def replace(self, data: Array) -> None:
        """Replaces the memory by other memory with the same first address."""
        self.data, self._views = data, {}

    def index(self, at: Any, size: int) -> Any:
        """The index of the element of a given size at each address."""
        if not isinstance(at, np.ndarray):
            return (at - self.origin) // size
        if self.origin:
            at = at - self.origin
        return at if size == 1 else at >> (size.bit_length() - 1)

    def span(self, at: int, size: int) -> Array:
        """A view of the `size` bytes at an address."""
        first = at - self.origin
        return self.data[first : first + size]

    def view(self, dtype: Any) -> Array:
        """The whole buffer as an array of a type."""
        try:
            return self._views[dtype]
        except KeyError:
            whole = len(self.data) // dtype.itemsize * dtype.itemsize
            return self._views.setdefault(dtype, self.data[:whole].view(dtype))

    def get(self, at: Any, dtype: np.dtype[Any], width: int = 1) -> Any:
        """Copies of the elements at some addresses; a tuple of `width` arrays for vectors, which are aligned as a whole."""
        view = self.view(dtype)
        size = dtype.itemsize
        if not isinstance(at, np.ndarray):
            first = self.index(at, size)
            found = [view[first + j] for j in range(width)]
            if dtype.kind == "V":
                found = [x.copy() for x in found]
            return found[0] if width == 1 else tuple(found)
        step = progression(at)
        if step and step % size == 0:
            first, stride, count = (int(at[0]) - self.origin) // size, step // size, len(at)
            end = first + stride * (count - 1) + 1
            if width == 1:
                return view[first:end:stride].copy()
            return tuple(view[first + j : end + j : stride].copy() for j in range(width))
        whole = _WHOLE.get(size * width) if width > 1 else None
        if whole is not None:
            rows = self.view(whole)[self.index(at, size * width)].view(dtype).reshape(-1, width)
            return tuple(column.copy() for column in rows.T)
        index = self.index(at, size)
        if width == 1:
            return view[index]
        return tuple(view[index + j] if j else view[index] for j in range(width))

    def gather(self, index: Array, shift: int, dtype: np.dtype[Any], width: int) -> Any:
        """Like `get`, given the index of the element of the whole size at each address, `shift` before the requested one. All indices
        are valid; `wrap` is the fastest mode."""
        if width == 1:
            return self.view(dtype)[shift:].take(index, mode="wrap")
        whole = _WHOLE.get(dtype.itemsize * width)
        if whole is None:
            index = (index + shift) * width
            return tuple(self.view(dtype).take(index + j, mode="wrap") for j in range(width))
        rows = self.view(whole)[shift:].take(index, mode="wrap").view(dtype).reshape(-1, width)
        return tuple(column.copy() for column in rows.T)

    def put(self, at: Any, values: Any, dtype: np.dtype[Any]) -> None:
        """Stores values at some addresses; a tuple is stored consecutively. If several lanes write one element, the last one wins."""
        view = self.view(dtype)
        size = dtype.itemsize
        many = values if isinstance(values, tuple) else (values,)
        if not isinstance(at, np.ndarray):
            first = self.index(at, size)
            for j, value in enumerate(many):
                view[first + j] = value[-1] if getattr(value, "ndim", 0) else value
            return
        step = progression(at)
        if step and step % size == 0:
            first, stride, count = (int(at[0]) - self.origin) // size, step // size, len(at)
            end = first + stride * (count - 1) + 1
            if stride >= len(many):
                for j, value in enumerate(many):
                    view[first + j : end + j : stride] = value
                return
        whole = _WHOLE.get(size * len(many)) if len(many) > 1 else None
        if whole is not None:
            rows = np.empty((len(at), len(many)), dtype)
            for j, value in enumerate(many):
                rows[:, j] = value
            self.view(whole)[self.index(at, size * len(many))] = rows.view(whole)[:, 0]
            return
        index = self.index(at, size)
        for j, value in enumerate(many):
            view[index + j if j else index] = value


def progression(at: Array) -> int:
    """The step of an arithmetic progression, or 0 if the array is none. Slices are several times faster than gathers."""
    count = len(at)
    if count < 2:
        return 0
    step = int(at[1]) - int(at[0])
    if step <= 0 or int(at[-1]) - int(at[0]) != step * (count - 1):
        return 0
    if count > 64 and int(at[count >> 1]) - int(at[0]) != step * (count >> 1):
        return 0
    return step if bool((at[1:] - at[:-1] == step).all()) else 0
