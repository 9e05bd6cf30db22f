"""What is remembered of each piece of memory: who wrote it last and who has read it since.

A piece is as large as the smallest access so far, 4 bytes at first. Where columns are not enough, as many threads have read a piece, or
written it with operations that are morally strong, the accesses are in a log, which is searched when it matters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

Array = np.ndarray[Any, Any]
COMPACT = 1 << 20
"""That many entries of the log are made fewer: those that nobody can race with go, and the last access of each kind that a thread made to a
piece stands for those before."""
SPAN = 1 << 26
"""So many pieces are looked up in a table."""
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


def repeated(value: int, count: int) -> Array:
    """As many elements, all the same, in the memory of one. Not to be changed."""
    return np.ndarray((count,), np.int64, np.int64(value).tobytes(), 0, (0,))


class Log:
    """Accesses that no column remembers."""

    def __init__(self) -> None:
        self.entries: list[Entries] = []
        self.size = 0
        self.most = COMPACT
        """So many entries are too many."""
        self.least: int | None = None
        """The narrowest scope of what was ever added (0: weak accesses)."""
        self.sizes: set[int] = set()

    def add(self, entries: Entries) -> None:
        least = int(entries.strength.min(initial=1 << 30))
        self.least = least if self.least is None else min(self.least, least)
        codes = entries.code[:1] if entries.code.strides == (0,) else entries.code
        self.sizes.update(np.unique(bytes_of(codes)[0]).tolist())
        self.entries.append(entries)
        self.size += len(entries.piece)

    def compact(self, is_needed: Callable[[Entries], Array]) -> None:
        """Makes the entries fewer, if they are too many, by those that are not needed and those that later ones stand for."""
        if self.size <= self.most:
            return
        kept = [one.at(np.flatnonzero(is_needed(one))) for one in self.entries]
        self.entries = [one for one in kept if len(one.piece)]
        self.size = sum(len(one.piece) for one in self.entries)
        if self.size > self.most // 2:
            self._merge()
        self.most = max(COMPACT, 2 * self.size)

    def _merge(self) -> None:
        all_ = _joined(self.entries)
        order = np.lexsort((all_.stamp, all_.code, all_.strength, all_.thread, all_.piece))
        last = np.ones(len(order), bool)
        same = [getattr(all_, name)[order] for name in ("piece", "thread", "strength", "code")]
        last[:-1] = np.any([column[1:] != column[:-1] for column in same], axis=0)
        kept = all_.at(order[last])
        self.entries, self.size = [kept], len(kept.piece)

    def of(self, pieces: Array) -> Entries | None:
        """All accesses to some pieces."""
        if not self.entries or not len(pieces):
            return None
        low, high = int(pieces.min()), int(pieces.max())
        table = None
        if high - low < SPAN:
            table = np.zeros(high - low + 3, bool)
            table[pieces - (low - 1)] = True
        found = []
        for one in self.entries:
            if table is not None:
                # what is outside comes to lie at an end of the table, where nothing is
                rows = np.flatnonzero(table[np.clip(one.piece, low - 1, high + 1) - (low - 1)])
            else:
                rows = np.flatnonzero(np.isin(one.piece, pieces))
            if len(rows):
                found.append(one.at(rows))
        return _joined(found) if found else None

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

    COLUMNS = (
        "writer",
        "written",
        "write_site",
        "write_strength",
        "write_code",
        "many_writers",
        "reader",
        "read",
        "read_site",
        "read_code",
        "read_cta",
    )

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
    read_site: Array
    read_code: Array
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
        low, high = int(pieces.min()) // self.PAGE, int(pieces.max()) // self.PAGE
        if (high - low) * self.PAGE <= 4 * len(pieces):
            self.used[low : high + 1] = True
        else:
            self.used[pieces // self.PAGE] = True

    def note_reads(self, piece: Array, thread: Array, stamp: int, site: int, strength: int, code: Array) -> None:
        """Threads read pieces: the columns remember it of a piece that one thread reads, and weakly; else it is in the log."""
        mine = thread + 1
        old = self.reader[piece]
        if not strength:
            fine = old == 0
            if not fine.all():
                fine |= (old == mine) & (self.read_code[piece] == code)
            left = None if fine.all() else np.flatnonzero(~fine)
        else:
            left = np.arange(len(piece))
        if left is None:
            self.reader[piece] = mine
            clash = self.reader[piece] != mine
            many = clash.any()
            if many:
                self.reader[piece[clash]] = MANY
        else:
            many = True
            moved = np.unique(piece[left[old[left] > 0]])
            if len(moved):
                self.reads.add(self.the_reads(moved))
            if not strength:
                fresh = np.flatnonzero(fine)
                self.reader[piece[fresh]] = mine[fresh]
                clash = fresh[self.reader[piece[fresh]] != mine[fresh]]
                self.reader[piece[clash]] = MANY
            self.reader[piece[left]] = MANY
        self.read[piece] = stamp
        if many:
            rows = np.flatnonzero(self.reader[piece] == MANY)
            if len(rows) < len(piece):
                self.read_site[piece], self.read_code[piece] = site, code
                piece, thread, code = piece[rows], thread[rows], code[rows]
            count = len(piece)
            self.reads.add(Entries(piece, thread, repeated(stamp, count), repeated(site, count), repeated(strength, count), code))
        else:
            self.read_site[piece], self.read_code[piece] = site, code

    def the_reads(self, pieces: Array) -> Entries:
        """Of pieces that one thread has read, that."""
        return Entries(
            pieces, self.reader[pieces] - 1, self.read[pieces], self.read_site[pieces], repeated(0, len(pieces)), self.read_code[pieces]
        )

    def refine(self, grain: int) -> None:
        """Makes pieces smaller."""
        parts = self.grain // grain
        for name in self.COLUMNS:
            finer = np.zeros(self.length * parts, np.int64)
            used = np.repeat(self._pages(getattr(self, name))[self.used], parts, axis=1)
            if name in ("write_code", "read_code"):
                used += code_of(0, np.tile(np.arange(parts) * grain, self.PAGE))
            finer.reshape(-1, self.PAGE * parts)[self.used] = used
            setattr(self, name, finer)
        self.used = np.repeat(self.used, parts)
        self.reads.split(parts, grain)
        self.writes.split(parts, grain)
        self.length *= parts
        self.grain = grain
