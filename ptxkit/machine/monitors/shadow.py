"""What is remembered of each piece of memory: who wrote it last and who has read it since.

A piece is as large as the smallest access so far, 4 bytes at first. Where one column is not enough, as many threads have read a piece, or
written it with operations that are morally strong, the accesses are in a log, which is searched when it matters.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

Array = np.ndarray[Any, Any]
COMPACT = 4_000_000
"""That many entries of the log are made fewer: the last access of each kind that a thread made to a piece stands for those before."""
MANY = -1


_SIZE_BITS = 32


def code_of(size: Any, offset: Any) -> Any:
    """The code of an access of `size` bytes, at a piece that begins `offset` bytes after its first one."""
    return size | offset << _SIZE_BITS


def bytes_of(code: Any) -> tuple[Any, Any]:
    """The size and the offset of a code."""
    return code & (1 << _SIZE_BITS) - 1, code >> _SIZE_BITS


@attrs.frozen(eq=False)
class Entries:
    """Accesses, a row each. `code` says which bytes an access has: of two with one code at a piece, the bytes are the same."""

    piece: Array
    thread: Array
    stamp: Array
    site: Array
    strength: Array
    code: Array

    def at(self, rows: Array) -> Entries:
        return Entries(*[getattr(self, name.name)[rows] for name in attrs.fields(Entries)])


def _joined(entries: list[Entries]) -> Entries:
    return Entries(*[np.concatenate([getattr(one, name.name) for one in entries]) for name in attrs.fields(Entries)])


class Log:
    """Accesses that no column remembers."""

    def __init__(self) -> None:
        self.entries: list[Entries] = []
        self.size = 0
        self.least: int | None = None
        """The narrowest scope of what was ever added (0: weak accesses)."""
        self.sizes: set[int] = set()

    def add(self, entries: Entries) -> None:
        least = int(entries.strength.min(initial=1 << 30))
        self.least = least if self.least is None else min(self.least, least)
        self.sizes.update(np.unique(bytes_of(entries.code)[0]).tolist())
        self.entries.append(entries)
        self.size += len(entries.piece)
        if self.size > COMPACT:
            self._compact()

    def _compact(self) -> None:
        all_ = _joined(self.entries)
        order = np.lexsort((all_.stamp, all_.code, all_.strength, all_.thread, all_.piece))
        last = np.ones(len(order), bool)
        same = [getattr(all_, name)[order] for name in ("piece", "thread", "strength", "code")]
        last[:-1] = np.any([column[1:] != column[:-1] for column in same], axis=0)
        kept = all_.at(order[last])
        self.entries, self.size = [kept], len(kept.piece) // 2

    def of(self, pieces: Array) -> Entries | None:
        """All accesses to some pieces."""
        if not self.entries:
            return None
        if len(self.entries) > 1:
            self.entries = [_joined(self.entries)]
        whole = self.entries[0]
        rows = np.flatnonzero(np.isin(whole.piece, pieces))
        return whole.at(rows) if len(rows) else None

    def split(self, parts: int, grain: int) -> None:
        """Pieces become `parts` pieces of `grain` bytes each."""
        if not self.entries:
            return
        whole = _joined(self.entries)
        rows = np.repeat(np.arange(len(whole.piece)), parts)
        finer = whole.at(rows)
        part = np.tile(np.arange(parts), len(whole.piece))
        self.entries = [attrs.evolve(finer, piece=finer.piece * parts + part, code=finer.code + code_of(0, part * grain))]
        self.size = len(part)


class Shadow:
    """The columns of a space, by piece. A thread is written as its number in the launch plus one; 0: nobody.

    Columns are zeros that take no memory until somebody looks at them; `used` says which pages have been.
    """

    PAGE = 1 << 12
    """Pieces."""

    COLUMNS = ("writer", "written", "write_site", "write_strength", "write_code", "many_writers", "reader", "read", "read_cta")

    def __init__(self, origin: int, grain: int) -> None:
        self.origin = origin
        self.grain = grain
        self.length = 0
        self.used = np.zeros(0, bool)
        self.reads, self.writes = Log(), Log()
        for name in self.COLUMNS:
            setattr(self, name, np.zeros(0, np.int64))

    writer: Array
    written: Array
    write_site: Array
    write_strength: Array
    write_code: Array
    many_writers: Array
    reader: Array
    read: Array
    read_cta: Array

    def reach(self, size: int) -> None:
        """Makes room for that many bytes."""
        length = -(-size // (self.grain * self.PAGE)) * self.PAGE
        if length <= self.length:
            return
        for name in self.COLUMNS:
            longer = np.zeros(length, np.int64)
            self._pages(longer)[: len(self.used)][self.used] = self._pages(getattr(self, name))[self.used]
            setattr(self, name, longer)
        self.used = np.concatenate([self.used, np.zeros(length // self.PAGE - len(self.used), bool)])
        self.length = length

    def _pages(self, column: Array) -> Array:
        return column.reshape(-1, self.PAGE)

    def use(self, pieces: Array) -> None:
        """These pieces are accessed."""
        self.used[pieces // self.PAGE] = True

    def refine(self, grain: int) -> None:
        """Makes pieces smaller."""
        parts = self.grain // grain
        for name in self.COLUMNS:
            finer = np.zeros(self.length * parts, np.int64)
            used = np.repeat(self._pages(getattr(self, name))[self.used], parts, axis=1)
            if name == "write_code":
                used += code_of(0, np.tile(np.arange(parts) * grain, self.PAGE))
            finer.reshape(-1, self.PAGE * parts)[self.used] = used
            setattr(self, name, finer)
        self.used = np.repeat(self.used, parts)
        self.reads.split(parts, grain)
        self.writes.split(parts, grain)
        self.length *= parts
        self.grain = grain


def last_writes(shadow: Shadow, piece: Array) -> Entries:
    """The last write of each piece."""
    columns = (shadow.written, shadow.write_site, shadow.write_strength, shadow.write_code)
    return Entries(piece, shadow.writer[piece] - 1, *[column[piece] for column in columns])
