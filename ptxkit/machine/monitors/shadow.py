"""Shadow memory: for each piece of memory, the last write and the reads since then.

A piece is as large as the smallest access so far, initially 4 bytes. If columns do not suffice, because several threads have read a piece
or written it with morally strong operations, the accesses are in a log, which is searched when needed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import attrs
import numpy as np

from ptxkit.frozen import define
from ptxkit.machine.memory.sparse import zeros
from ptxkit.machine.values.distinct import distinct_numbers

Array = np.ndarray[Any, Any]
COMPACT, MERGE = 1 << 16, 1 << 24
"""A log with more than COMPACT entries is compacted: entries that no access can race with are dropped. With more than MERGE entries, the
last access of each kind by a thread to a piece replaces the earlier ones."""
FEW, SMALL = 32, 1 << 16
"""If a log has more parts than FEW, and these have at most SMALL entries, they are joined."""
SPAN = 1 << 26
"""Maximum range of pieces that is looked up in a table."""
MANY = -1
REPEATED = 1 << 12
"""Number of columns of equal elements that are kept, since the same ones are asked for again and again."""
REMEMBERED = 1 << 8
"""The same for columns of codes, which use memory."""

_BITS = 32
"""Of a size, and of an offset within an access."""


def code_of(size: Any, offset: Any) -> Any:
    """Encodes an access of `size` bytes, at a piece that starts `offset` bytes after its first byte."""
    return size | offset << _BITS


def bytes_of(code: Any) -> tuple[Any, Any]:
    """Decodes size and offset."""
    return code & (1 << _BITS) - 1, code >> _BITS


def numbers_of(how: Array) -> Array:
    """From `Shadow.write_how` or `read_how`, the numbers of instruction, strength and size."""
    return how >> _BITS


def _sizes(code: Array) -> list[int]:
    """The sizes of accesses, without repetitions."""
    sizes = (code[:1] if code.strides == (0,) else code) & (1 << _BITS) - 1
    return sizes[:1].tolist() if (sizes == sizes[:1]).all() else distinct_numbers(sizes).tolist()  # type: ignore[no-any-return]


@lru_cache(maxsize=REPEATED)
def repeated(value: int, count: int) -> Array:
    """A column of equal elements that uses the memory of one. Immutable."""
    return np.ndarray((count,), np.int64, np.int64(value).tobytes(), 0, (0,))


@lru_cache(maxsize=REMEMBERED)
def codes(size: int, grain: int, count: int) -> Array:
    """The codes of all pieces of `count` accesses of `size` bytes, access by access. Immutable."""
    found: Array = np.tile(code_of(size, np.arange(0, size, grain)), count)
    found.flags.writeable = False
    return found


def chosen(column: Array, rows: Array) -> Array:
    """Some rows of a column."""
    return repeated(int(column[0]), len(rows)) if column.strides == (0,) and len(rows) else column[rows]


@define(eq=False)
class Entries:
    """Accesses, one row each. `code` identifies the bytes of an access: accesses to a piece with the same code have the same bytes."""

    piece: Array
    thread: Array
    stamp: Array
    site: Array
    strength: Array
    code: Array

    def at(self, rows: Array) -> Entries:
        return Entries(
            chosen(self.piece, rows),
            chosen(self.thread, rows),
            chosen(self.stamp, rows),
            chosen(self.site, rows),
            chosen(self.strength, rows),
            chosen(self.code, rows),
        )

    def replaces(self, before: Entries) -> bool:
        """Whether these are a later repetition of the same weak accesses."""
        if self.strength[0] or self.strength.strides != (0,):
            return False
        for name in ("piece", "thread", "strength", "code"):
            mine, other = getattr(self, name), getattr(before, name)
            if mine is not other and (mine[-1] != other[-1] or mine[0] != other[0] or not np.array_equal(mine, other)):
                return False
        return bool(before.stamp.strides == (0,) == self.stamp.strides)


def _joined(entries: list[Entries]) -> Entries:
    return Entries(*[np.concatenate([getattr(one, name.name) for one in entries]) for name in attrs.fields(Entries)])


def _size(entries: Entries) -> int:
    """The number of entries, where entries of a single piece count as one, since they use no memory."""
    return 1 if entries.piece.strides == (0,) else len(entries.piece)


class Log:
    """Accesses that do not fit into columns."""

    def __init__(self) -> None:
        self.entries: list[Entries] = []
        self.size = 0
        self.most = COMPACT
        """Number of entries from which on the log is compacted."""
        self.least: int | None = None
        """The narrowest scope of all entries ever added (0: weak accesses)."""
        self.sizes: set[int] = set()
        self._last: dict[tuple[int, int, int], Entries] = {}
        """By instruction, first thread and number of threads: the last entries added."""

    def add(self, entries: Entries) -> None:
        least = int(entries.strength[0] if entries.strength.strides == (0,) else entries.strength.min())
        self.least = least if self.least is None else min(self.least, least)
        self.sizes.update(_sizes(entries.code))
        key = (int(entries.site[0]), int(entries.thread[0]), len(entries.thread))
        before = self._last.get(key)
        if before is not None and entries.replaces(before):
            # a loop that repeats its accesses
            before.stamp = entries.stamp
            return
        self._last[key] = entries
        self.entries.append(entries)
        self.size += _size(entries)

    def compact(self, since: int, is_needed: Callable[[Entries], Array]) -> None:
        """Compacts the log if it has too many entries: drops weak entries up to a stamp, entries that are not needed, and entries that
        later ones replace."""
        if self.size <= self.most:
            return
        left = [one for one in self.entries if one.stamp[-1] > since or one.strength[0]]
        self.size = sum([_size(one) for one in left])
        if self.size > COMPACT:
            rows = [np.flatnonzero(is_needed(one)) for one in left]
            left = [one if len(which) == len(one.piece) else one.at(which) for one, which in zip(left, rows, strict=True) if len(which)]
            self.size = sum([_size(one) for one in left])
        self.entries, self._last = left, {}
        if self.size > MERGE:
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
        if len(self.entries) > FEW:
            self._join()
        low, high = int(pieces.min()), int(pieces.max())
        table = None
        if high - low < SPAN:
            table = np.zeros(high - low + 3, bool)
            table[pieces - (low - 1)] = True
        found = []
        for one in self.entries:
            where = one.piece[:1] if one.piece.strides == (0,) else one.piece
            # pieces outside map to the ends of the table, where there are none
            hits = table.take(where - (low - 1), mode="clip") if table is not None else np.isin(where, pieces)
            if not hits.any():
                continue
            found.append(one if hits.all() else one.at(np.flatnonzero(hits)))
        return _joined(found) if found else None

    def _join(self) -> None:
        """Joins many small parts; long ones of a single piece are kept, since they use no memory."""
        if sum([len(one.piece) for one in self.entries]) <= SMALL:
            self.entries, self._last = [_joined(self.entries)], {}
            return
        small = [one for one in self.entries if one.piece.strides != (0,) and len(one.piece) <= SMALL]
        if len(small) > FEW:
            joined = {id(one) for one in small}
            self.entries = [*[one for one in self.entries if id(one) not in joined], _joined(small)]
            self._last = {}

    def split(self, parts: int, grain: int) -> None:
        """Divides pieces into `parts` pieces of `grain` bytes each."""
        if not self.entries:
            return
        self._last = {}
        whole = _joined(self.entries)
        rows = np.repeat(np.arange(len(whole.piece)), parts)
        finer = whole.at(rows)
        part = np.tile(np.arange(parts), len(whole.piece))
        self.entries = [attrs.evolve(finer, piece=finer.piece * parts + part, code=finer.code + code_of(0, part * grain))]
        self.size = len(self.entries[0].piece)


class Shadow:
    """The columns of a space by piece. A thread is stored as its index in the launch plus one; 0 means none.

    Columns are zeros that use no memory until accessed; `used` marks the pages that have been.
    """

    PAGE = 1 << 12
    """In pieces."""

    COLUMNS = ("writer", "written", "write_how", "many_writers", "reader", "read", "read_how", "read_cta")

    def __init__(self, origin: int, grain: int, threads: int) -> None:
        self.origin = origin
        self.grain = grain
        self.threads = threads
        """Number of threads in a CTA."""
        self.length = 0
        self.changes = 0
        """Number of writes."""
        self.accesses = 0
        """Number of times that reads or writes were recorded."""
        self.used = np.zeros(0, bool)
        self.reads, self.writes = Log(), Log()
        self._numbers: dict[tuple[int, int, int], int] = {}
        """The number of the accesses of an instruction, by strength and size."""
        self._hows: dict[tuple[int, int], tuple[Array, Array]] = {}
        """By instruction and strength, the codes of its last accesses and their column: a loop repeats them."""
        # the first number is that of pieces without an access, whose columns are zero
        self._numbered = np.zeros((3, 1), np.int64)
        for name in self.COLUMNS:
            setattr(self, name, np.zeros(0, np.int64))

    writer: Array
    written: Array
    write_how: Array
    """The other properties of the write: the number of instruction, strength and size, and the offset of the piece."""
    many_writers: Array
    """Whether the log has writes."""
    reader: Array
    """`MANY`: the log has reads."""
    read: Array
    read_how: Array
    read_cta: Array
    """For pieces with several readers: their common CTA plus one, or `MANY`."""

    def reach(self, size: int) -> None:
        """Extends the columns to a size in bytes."""
        length = -(-size // (self.grain * self.PAGE)) * self.PAGE
        if length <= self.length:
            return
        for name in self.COLUMNS:
            longer = zeros(length, np.int64)
            self._pages(longer)[: len(self.used)][self.used] = self._pages(getattr(self, name))[self.used]
            setattr(self, name, longer)
        self.used = np.concatenate([self.used, np.zeros(length // self.PAGE - len(self.used), bool)])
        self.length = length

    def _pages(self, column: Array) -> Array:
        return column.reshape(-1, self.PAGE)

    def use(self, pieces: Array) -> None:
        """Marks the pages of these pieces as used."""
        if pieces.strides == (0,):
            self.used[pieces[0] // self.PAGE] = True
            return
        low, high = int(pieces.min()) // self.PAGE, int(pieces.max()) // self.PAGE
        if (high - low) * self.PAGE <= 4 * len(pieces):
            self.used[low : high + 1] = True
        else:
            self.used[pieces // self.PAGE] = True

    def how(self, site: int, strength: int, code: Array) -> Array:
        """Accesses of an instruction as one column, of which `_accesses` is the inverse."""
        if code.strides == (0,) and len(code):
            size, offset = bytes_of(int(code[0]))
            return repeated(self._number(site, strength, size) << _BITS | offset, len(code))
        known = self._hows.get((site, strength))
        if known is None or known[0] is not code:
            known = self._hows[site, strength] = code, self._how(site, strength, code)
        return known[1]

    def _how(self, site: int, strength: int, code: Array) -> Array:
        size, offset = bytes_of(code)
        sizes = _sizes(code)
        if len(sizes) == 1:
            offset |= self._number(site, strength, sizes[0]) << _BITS
            return offset  # type: ignore[no-any-return]
        number = np.zeros(len(code), np.int64)
        for one in sizes:
            number[size == one] = self._number(site, strength, one)
        return number << _BITS | offset  # type: ignore[no-any-return]

    def _number(self, site: int, strength: int, size: int) -> int:
        key = (site, strength, size)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = self._numbered.shape[1]
            self._numbered = np.concatenate([self._numbered, np.array([key], np.int64).T], axis=1)
        return found

    def _accesses(self, how: Array) -> tuple[Array, Array, Array]:
        """Instructions, strengths and codes of accesses."""
        site, strength, size = self._numbered[:, numbers_of(how)]
        return site, strength, code_of(size, how & (1 << _BITS) - 1)

    def last_writes(self, pieces: Array) -> Entries:
        """For pieces that have been written, the last write."""
        site, strength, code = self._accesses(self.write_how[pieces])
        return Entries(pieces, self.writer[pieces] - 1, self.written[pieces], site, strength, code)

    def write_strength(self, pieces: Array) -> Array:
        """The strength of the last write of pieces."""
        return self._numbered[1, numbers_of(self.write_how[pieces])]  # type: ignore[no-any-return]

    def strengthen(self, pieces: Array, strength: int) -> None:
        """Makes the last writes of pieces count as strong."""
        last = self.last_writes(pieces)
        for site in distinct_numbers(last.site).tolist():
            rows = np.flatnonzero(last.site == site)
            self.write_how[pieces[rows]] = self.how(site, strength, last.code[rows])

    def only_reads(self, pieces: Array) -> Entries:
        """For pieces that one thread has read since the last write, its last read."""
        site, strength, code = self._accesses(self.read_how[pieces])
        return Entries(pieces, self.reader[pieces] - 1, self.read[pieces], site, strength, code)

    def read_by(self, pieces: Array) -> Array:
        """For pieces that have been read since the last write, the CTA of all readers; `MANY` if there are several."""
        reader = self.reader[pieces]
        return np.where(reader == MANY, self.read_cta[pieces], (reader - 1) // self.threads + 1) - 1

    def note_writes(self, piece: Array, thread: Array, stamp: int, site: int, strength: int, code: Array) -> Array:
        """Records the last writes of pieces. Returns the rows whose piece a later row writes too."""
        self.changes += 1
        self.accesses += 1
        count, mine = len(piece), thread + 1
        if strength or (self.writes.size and self.many_writers[piece].any()):
            # morally strong writes do not race, but are unordered, so all of them are kept
            self.writes.add(Entries(piece, thread, repeated(stamp, count), repeated(site, count), repeated(strength, count), code))
            self.many_writers[piece] = 1
            self.writes.compact(-1, lambda entries: np.ones(len(entries.piece), bool))
        self.writer[piece] = mine
        self.written[piece] = stamp
        self.write_how[piece] = self.how(site, strength, code)
        if not strength:
            # earlier unordered readers have been reported, and later writers are after them too
            self.reader[piece] = 0
        return np.flatnonzero(self.writer[piece] != mine)

    def note_reads(self, piece: Array, thread: Array, floor: Array, stamp: int, site: int, strength: int, code: Array) -> None:
        """Records reads of pieces: in columns if a single thread reads a piece weakly, otherwise in the log.

        `floor` is the stamp up to which accesses of each thread's CTA happen before it: a write after this read is also after those.
        """
        self.accesses += 1
        if piece.strides == (0,) and len(piece) > 1 and not strength:
            self._note_reads_of_one(int(piece[0]), thread, floor, stamp)
            count = len(piece)
            self.reads.add(Entries(piece, thread, repeated(stamp, count), repeated(site, count), repeated(0, count), code))
            return
        mine, how = thread + 1, self.how(site, strength, code)
        old = self.reader[piece]
        if not strength and self._read_again(piece, thread, mine, old, how, stamp, site, code):
            return
        fine = old == 0
        if not fine.all():
            fine |= (old == mine) & (self.read_how[piece] == how)
        if not fine.all():
            fine |= (self.read[piece] <= floor) & (self.read_by(piece) == thread // self.threads)
        if strength:
            fine[:] = False
        alone = fine.all()
        if alone:
            self.reader[piece] = mine
            clash = np.flatnonzero(self.reader[piece] != mine)
            if not len(clash):
                self.read[piece], self.read_how[piece] = stamp, how
                return
            self.reader[piece[clash]], self.read_cta[piece[clash]] = MANY, 0
        else:
            self._make_many(piece, mine, old, fine)
        rows = np.flatnonzero(self.reader[piece] == MANY)
        self.read[piece] = stamp
        if len(rows) < len(piece):
            self.read_how[piece] = how
            piece, thread, code = piece[rows], thread[rows], code[rows]
        count = len(piece)
        self.reads.add(Entries(piece, thread, repeated(stamp, count), repeated(site, count), repeated(strength, count), code))
        cta = thread // self.threads + 1
        known = self.read_cta[piece]
        self.read_cta[piece] = np.where((known == 0) | (known == cta), cta, MANY)
        clash = self.read_cta[piece] != cta
        if clash.any():
            self.read_cta[piece[clash]] = MANY

    def _note_reads_of_one(self, piece: int, thread: Array, floor: Array, stamp: int) -> None:
        """Several threads, in ascending order, read one piece."""
        first, last = int(thread[0]) // self.threads + 1, int(thread[-1]) // self.threads + 1
        cta = first if first == last else MANY
        old = int(self.reader[piece])
        if old:
            where = np.array([piece])
            before = int(self.read_by(where)[0]) + 1 if old != MANY else int(self.read_cta[piece])
            if before != cta or cta == MANY or self.read[piece] > floor.min():
                if old != MANY:
                    self.reads.add(self.only_reads(where))
                cta = cta if before == cta else MANY
        self.reader[piece], self.read[piece], self.read_cta[piece] = MANY, stamp, cta

    def _read_again(self, piece: Array, thread: Array, mine: Array, old: Array, how: Array, stamp: int, site: int, code: Array) -> bool:
        """Whether every piece was read before by the same thread, or by threads of several CTAs, so that only stamps change."""
        if not old[0]:
            return False
        many = old == MANY
        if not (many | ((old == mine) & (self.read_how[piece] == how))).all():
            return False
        rows = np.flatnonzero(many)
        if not (self.read_cta[piece[rows]] == MANY).all():
            return False
        self.read[piece] = stamp
        if len(rows):
            if len(rows) < len(piece):
                piece, thread, code = piece[rows], thread[rows], chosen(code, rows)
            count = len(piece)
            self.reads.add(Entries(piece, thread, repeated(stamp, count), repeated(site, count), repeated(0, count), code))
        return True

    def _make_many(self, piece: Array, mine: Array, old: Array, fine: Array) -> None:
        """Marks pieces that now have several readers, and moves their columns to the log."""
        left = np.flatnonzero(~fine)
        moved = distinct_numbers(piece[left[old[left] > 0]])
        if len(moved):
            self.reads.add(self.only_reads(moved))
            self.read_cta[moved] = (self.reader[moved] - 1) // self.threads + 1
        self.read_cta[piece[left[old[left] == 0]]] = 0
        fresh = np.flatnonzero(fine)
        self.reader[piece[fresh]] = mine[fresh]
        clash = piece[fresh[self.reader[piece[fresh]] != mine[fresh]]]
        self.reader[clash], self.read_cta[clash] = MANY, 0
        self.reader[piece[left]] = MANY

    def refine(self, grain: int) -> None:
        """Makes pieces smaller."""
        parts = self.grain // grain
        for name in self.COLUMNS:
            finer = zeros(self.length * parts, np.int64)
            used = np.repeat(self._pages(getattr(self, name))[self.used], parts, axis=1)
            if name in ("write_how", "read_how"):
                used = used + np.tile(np.arange(parts) * grain, self.PAGE)
            finer.reshape(-1, self.PAGE * parts)[self.used] = used
            setattr(self, name, finer)
        self.used = np.repeat(self.used, parts)
        self.reads.split(parts, grain)
        self.writes.split(parts, grain)
        self.length *= parts
        self.grain = grain
