"""Compares each access with earlier ones of the same bytes, which the shadow memory keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ptxkit.frozen import frozen
from ptxkit.machine.interfaces import Races
from ptxkit.machine.matrices.tensor_memory import CELL, COLUMNS, LANES
from ptxkit.machine.matrices.tensor_memory import SPACE as TENSOR
from ptxkit.machine.memory.arena import watched
from ptxkit.machine.memory.buffer import Buffer
from ptxkit.machine.monitors.clocks import CLUSTER, GPU
from ptxkit.machine.monitors.kinds import Kind
from ptxkit.machine.monitors.pieces import matching
from ptxkit.machine.monitors.shadow import MANY, Entries, Shadow, bytes_of, chosen, code_of, codes, repeated
from ptxkit.machine.values.distinct import distinct_numbers

if TYPE_CHECKING:
    from ptxkit.machine.memory import Access

Array = np.ndarray[Any, Any]
PAIRS, CHUNK, OBSERVERS = 1 << 24, 1 << 20, 256
"""Maximum number of pairs of accesses that are compared for one instruction, and at a time; maximum number of pairs whose observers are
searched."""


@frozen(eq=False)
class Rows:
    """Current accesses, one row for each piece."""

    piece: Array
    place: Array
    thread: Array
    code: Array
    kind: Kind

    def at(self, rows: Array) -> Rows:
        return Rows(chosen(self.piece, rows), self.place[rows], self.thread[rows], chosen(self.code, rows), self.kind)


@frozen(eq=False)
class Pairs:
    """Pairs of accesses that race, one row each. `how` and `what` say what the later and the earlier one do; they `collide` if lanes make
    both with one instruction."""

    space: str
    shadow: Shadow
    rows: Rows
    before: Entries
    how: str
    what: str
    same: Array
    """Whether both write the same value."""
    collide: bool = False


class Comparison:
    """The earlier accesses of a launch, and the comparison of new ones with these."""

    def __init__(self, races: Races) -> None:
        self.races = races
        self.shadows: dict[str, Shadow] = {}
        self._cells: Buffer | None = None
        self._polls: dict[int, tuple[Array, tuple[int, int], Array]] = {}
        """By instruction: which threads read what last, at which stamp, after how many writes."""

    def reset(self) -> None:
        """Forgets the memory of CTAs that are no longer resident."""
        self._polls = {}
        self.shadows.pop(".shared", None)
        self.shadows.pop(TENSOR, None)

    def is_news(self, access: Access, space: str, kind: Kind, at: Array) -> bool:
        """Checks an access for races. Returns False if it is a repetition without news."""
        lanes = access.lanes
        shadow = self._shadow(space, access.size)
        self._now, self._is_by_word = access, False
        self.races.flying.check(space, at, repeated(access.size, lanes.count), access.kind, kind, lanes.index)
        if access.kind == "read" and self._is_read_again(shadow, lanes.place, at, kind):
            return False
        pieces = -(-access.size // shadow.grain)
        place, thread, code = lanes.place, lanes.index, repeated(code_of(access.size, 0), lanes.count)
        is_uniform = at.strides == (0,) and lanes.count > 0
        if is_uniform:
            first = (int(at[0]) - shadow.origin) // shadow.grain
            for n in range(pieces):
                offset = code_of(access.size, n * shadow.grain)
                rows = Rows(repeated(first + n, lanes.count), place, thread, repeated(offset, lanes.count), kind)
                self._accessed(shadow, space, rows, access)
        else:
            piece = (at - shadow.origin) >> (shadow.grain.bit_length() - 1)
            if pieces > 1:
                piece = (piece[:, None] + np.arange(pieces)).ravel()
                place, thread = np.repeat(place, pieces), np.repeat(thread, pieces)
                code = codes(access.size, shadow.grain, lanes.count)
                # rows that one instruction stores at one address are of different lanes
                if kind.is_exchange and (access.kind == "read" or len(distinct_numbers(at)) == len(at)):
                    # each word of a row is in a register of another lane
                    self._is_by_word = True
                    _, offset = bytes_of(code)
                    ahead = np.repeat(lanes.lane % 8 * 4 - lanes.lane, pieces) + offset // 4
                    code = repeated(code_of(4, 0), len(offset)) if shadow.grain == 4 else code_of(4, offset % 4)
                    place, thread = place + ahead, thread + ahead
            self._accessed(shadow, space, Rows(piece, place, thread, code, kind), access)
        return True

    def _is_read_again(self, shadow: Shadow, place: Array, at: Array, kind: Kind) -> bool:
        """Whether the same threads have just read the same addresses, with no write or synchronization since."""
        last = self._polls.get(kind.number)
        state = self.races.knowledge.stamp, shadow.changes
        if last is not None and last[0] is place and last[1] == state and np.array_equal(last[2], at):
            return True
        self._polls[kind.number] = (place, state, at)
        return False

    def _accessed(self, shadow: Shadow, space: str, rows: Rows, access: Access) -> None:
        """Checks and records accesses to pieces."""
        shadow.use(rows.piece)
        reads, writes = access.kind != "write", access.kind != "read"
        if reads:
            self._check_writers(shadow, space, rows, "read" if not writes else "update")
            if rows.kind.is_readonly:
                self.races.fences.read_only(shadow, space, rows)
        if writes:
            self._check_writers(shadow, space, rows, "write") if not reads else None
            self._check_readers(shadow, space, rows)
            self._write(shadow, space, rows, access)
        if reads and not writes:
            self._read(shadow, space, rows)

    def buffer(self, space: str) -> Buffer:
        """The bytes of a space."""
        memory = self.races.launch.machine.memory
        if space == ".global" and memory.host:
            return watched(memory.globals, memory.allocations)
        found: Buffer = memory.globals if space == ".global" else memory.shared
        return found if space != TENSOR else self.cells()

    def cells(self) -> Buffer:
        """A buffer of the size of the tensor memories of all resident CTAs. Its contents do not matter."""
        size = self.races.residents.ctas * LANES * COLUMNS * CELL
        if self._cells is None or len(self._cells.data) < size:
            self._cells = Buffer.of_size(size)
        return self._cells

    def shadow(self, space: str, at: Array, size: Array) -> Shadow:
        """The shadow of a space, with pieces that match the bounds of byte ranges."""
        low = int(np.bitwise_or.reduce(at | size)) & 3
        return self._shadow(space, 4 if not low else 2 if low == 2 else 1)

    def _shadow(self, space: str, size: int) -> Shadow:
        buffer = self.buffer(space)
        shadow = self.shadows.get(space)
        if shadow is None:
            shadow = self.shadows[space] = Shadow(buffer.origin, 4, self.races.knowledge.threads)
        if shadow.grain > 1 and size % shadow.grain:
            shadow.refine(2 if size % 2 == 0 else 1)
        shadow.reach(len(buffer.data))
        return shadow

    def _check_writers(self, shadow: Shadow, space: str, rows: Rows, how: str) -> None:
        """Checks accesses against the last write of each piece, and the writes in the log."""
        if rows.piece.strides == (0,) and not shadow.writer[rows.piece[0]]:
            return
        writer = shadow.writer[rows.piece]
        others = np.flatnonzero((writer != 0) & (writer != rows.thread + 1))
        if len(others) and not rows.kind.strength:
            known = self.races.knowledge.known(rows.place[others], writer[others] - 1, shadow.written[rows.piece[others]])
            others = others[~known]
        if len(others):
            before = shadow.last_writes(rows.piece[others])
            self._judge(space, shadow, rows.at(others), before, how, "write")
        log = shadow.writes
        if not log.size:
            return
        if rows.kind.strength >= GPU and (log.least or 0) >= GPU and log.sizes == {int(bytes_of(rows.code[0])[0])}:
            # all of them are morally strong with these
            return
        many = np.flatnonzero(shadow.many_writers[rows.piece])
        if len(many):
            self._search(shadow.writes.of(rows.piece[many]), space, shadow, rows.at(many), how, "write")

    def _check_readers(self, shadow: Shadow, space: str, rows: Rows) -> None:
        reader = shadow.reader[rows.piece]
        others = np.flatnonzero((reader != 0) & (reader != rows.thread + 1))
        if not len(others):
            return
        rows, reader = rows.at(others), reader[others]
        cta = rows.thread // self.races.knowledge.threads
        fine = (shadow.read_by(rows.piece) == cta) & (shadow.read[rows.piece] <= self.races.knowledge.floor_cta[rows.place])
        left = np.flatnonzero(~fine)
        if not len(left):
            return
        rows, reader = rows.at(left), reader[left]
        one = np.flatnonzero(reader != MANY)
        if len(one):
            self._judge(space, shadow, rows.at(one), shadow.only_reads(rows.piece[one]), "write", "read")
        many = np.flatnonzero(reader == MANY)
        if len(many):
            rows = rows.at(many)
            self._search(shadow.reads.of(rows.piece), space, shadow, rows, "write", "read")

    def _search(self, found: Entries | None, space: str, shadow: Shadow, rows: Rows, how: str, before: str) -> None:
        """Checks accesses against those in the log."""
        found = self._unsettled(found, rows) if found is not None else None
        if found is None or not len(found.piece):
            return
        order, low, high = matching(rows.piece, found.piece)
        total = np.cumsum(high - low)
        if total[-1] > PAIRS:
            self.races.unchecked += int(total[-1] - PAIRS)
        start = 0
        while start < len(total) and (start == 0 or total[start] <= PAIRS):
            end = max(start + 1, int(np.searchsorted(total, (total[start - 1] if start else 0) + CHUNK, "right")))
            part = slice(start, end)
            self._pairs(found.at(np.arange(len(total))[part]), low[part], high[part], order, space, shadow, rows, how, before)
            start = end

    def _unsettled(self, found: Entries, rows: Rows) -> Entries:
        """Drops accesses that are morally strong with all of these, or happen before all of them; a counter has many of the former."""
        left = np.ones(len(found.piece), bool)
        if rows.kind.strength >= GPU:
            sizes = distinct_numbers(bytes_of(rows.code)[0])
            if len(sizes) == 1:
                left &= (found.strength < GPU) | (bytes_of(found.code)[0] != sizes[0])
        ctas = rows.thread // self.races.knowledge.threads
        if (ctas == ctas[0]).all():
            floor = self.races.knowledge.floor_cta[rows.place].min()
            left &= (found.thread // self.races.knowledge.threads != ctas[0]) | (found.stamp > floor)
        return found if left.all() else found.at(np.flatnonzero(left))

    def _pairs(
        self, found: Entries, low: Array, high: Array, order: Array, space: str, shadow: Shadow, rows: Rows, how: str, before: str
    ) -> None:
        """Compares accesses from the log with the current accesses to the same pieces."""
        counts = high - low
        which = np.repeat(np.arange(len(counts)), counts)
        offset = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        now = order[low[which] + offset]
        rows, found = rows.at(now), found.at(which)
        differ = np.flatnonzero(rows.thread != found.thread)
        if len(differ):
            self._judge(space, shadow, rows.at(differ), found.at(differ), how, before)

    def _judge(self, space: str, shadow: Shadow, rows: Rows, before: Entries, how: str, what: str) -> None:
        """Reports pairs of accesses of different threads that are unordered and not morally strong."""
        if rows.kind.strength:
            weak = np.flatnonzero(~self._morally_strong(rows, before))
            if len(weak) < len(rows.piece):
                rows, before = rows.at(weak), before.at(weak)
        bad = ~self.races.knowledge.known(rows.place, before.thread, before.stamp)
        if space == TENSOR:
            # warps access tensor memory as a unit
            bad &= self.races.knowledge.warp_of(rows.thread) != self.races.knowledge.warp_of(before.thread)
        if not bad.any():
            return
        if what == "write" and (bad & (before.strength > 0)).any():
            bad &= ~self._observed(shadow, rows, before, bad)
        if not bad.any():
            return
        rows, before = rows.at(np.flatnonzero(bad)), before.at(np.flatnonzero(bad))
        same = np.zeros(len(rows.piece), bool)
        stored = self._stored(rows.thread, rows.code, shadow.grain) if how == what == "write" else None
        if stored is not None:
            same = (stored == self._held(space, shadow, rows.piece)).all(axis=1) & (before.strength == 0)
        self.races.note(Pairs(space, shadow, rows, before, how, what, same))

    def _observed(self, shadow: Shadow, rows: Rows, before: Entries, bad: Array) -> Array:
        """Which strong writes have been observed by a strong read or update that happens before the current access (8.9.5).

        A thread that observes a write comes after it, and so does everything after that thread, even without an acquire: the last block
        that increments a counter may reset it. Every later strong read or update of the same piece is taken to have observed the write.
        """
        found = np.zeros(len(bad), bool)
        asked = np.flatnonzero(bad & (before.strength > 0))
        # sort numbers, not pairs of them: that takes a fraction of the time
        keys, which = np.unique(rows.piece[asked] * self.races.knowledge.count + rows.place[asked], return_inverse=True)
        pairs = np.stack(np.divmod(keys, self.races.knowledge.count))
        if pairs.shape[1] > OBSERVERS:
            self.races.unchecked += int(pairs.shape[1] - OBSERVERS)
        until = np.full(pairs.shape[1], np.iinfo(np.int64).max)
        thread, site = np.full((2, pairs.shape[1]), -1)
        updates = np.array([kind.number for kind in self.races.kinds if kind.updates], np.int64)
        logged = [shadow.reads.of(distinct_numbers(pairs[0])), shadow.writes.of(distinct_numbers(pairs[0]))]
        for n, (piece, place) in enumerate(pairs[:, :OBSERVERS].T.tolist()):
            until[n] = -1
            for log, reads in zip(logged, (True, False), strict=True):
                if log is None:
                    continue
                here = log.at(np.flatnonzero((log.piece == piece) & (log.strength > 0) & (reads | np.isin(log.site, updates))))
                known = self.races.knowledge.known(np.full(len(here.piece), place), here.thread, here.stamp)
                here = here.at(np.flatnonzero(known))
                if len(here.piece) and here.stamp.max() >= until[n]:
                    last = np.lexsort((here.thread, here.stamp))[-1]
                    until[n], thread[n], site[n] = here.stamp[last], here.thread[last], here.site[last]
        # among lanes that update with one instruction, each observes those before it
        together = (before.stamp[asked] == until[which]) & (before.site[asked] == site[which])
        found[asked] = (before.stamp[asked] <= until[which]) & ~(together & (before.thread[asked] > thread[which]))
        return found

    def _stored(self, thread: Array, code: Array, grain: int) -> Array | None:
        """The bytes that threads write to pieces now, one row each; None if unknown."""
        access = self._now
        if access.values is None or access.kind != "write" or self._is_by_word:
            return None
        lanes = access.lanes
        columns = [np.ascontiguousarray(lanes.broadcast(np.asarray(value)[()])).view(np.uint8) for value in access.values]
        stored = np.concatenate([column.reshape(lanes.count, -1) for column in columns], axis=1)
        if stored.shape[1] != access.size:
            return None
        position = np.zeros(self.races.knowledge.count, np.int64)
        position[lanes.place] = np.arange(lanes.count)
        _, offset = bytes_of(code)
        found: Array = stored[position[thread - self.races.knowledge.first][:, None], offset[:, None] + np.arange(grain)]
        return found

    def _held(self, space: str, shadow: Shadow, piece: Array) -> Array:
        """The current bytes of pieces, one row each."""
        data = self.buffer(space).data
        held: Array = data[(piece * shadow.grain)[:, None] + np.arange(shadow.grain)]
        return held

    def _morally_strong(self, rows: Rows, before: Entries) -> Array:
        threads, cluster = self.races.knowledge.threads, self.races.knowledge.cluster
        mine, other = rows.thread // threads, before.thread // threads
        scope = np.minimum(before.strength, rows.kind.strength)
        near = (scope >= GPU) | (mine == other) | ((scope >= CLUSTER) & (mine // cluster == other // cluster))
        return (before.strength > 0) & near & (before.code == rows.code)  # type: ignore[no-any-return]

    def add_writes(self, shadow: Shadow, piece: Array, thread: Array, code: Array, kind: Kind) -> None:
        """Records pieces that a completed asynchronous operation has written."""
        self._put(shadow, Rows(piece, thread - self.races.knowledge.first, thread, code, kind))

    def add_reads(self, shadow: Shadow, space: str, piece: Array, thread: Array, code: Array, kind: Kind) -> None:
        """Records pieces that a completed asynchronous operation has read."""
        self._read(shadow, space, Rows(piece, thread - self.races.knowledge.first, thread, code, kind))

    def _write(self, shadow: Shadow, space: str, rows: Rows, access: Access) -> None:
        """Records accesses as the last writes of their pieces."""
        lost = self._put(shadow, rows)
        if len(lost):
            self._collide(shadow, space, rows, lost, access)

    def _put(self, shadow: Shadow, rows: Rows) -> Array:
        kind = rows.kind
        return shadow.note_writes(rows.piece, rows.thread, self.races.knowledge.stamp, kind.number, kind.strength, rows.code)

    def _collide(self, shadow: Shadow, space: str, rows: Rows, lost: Array, access: Access) -> None:
        """Reports lanes that write the same bytes with one instruction."""
        before = shadow.last_writes(rows.piece[lost])
        here = rows.at(lost)
        if rows.kind.strength:
            weak = np.flatnonzero(~self._morally_strong(here, before))
            here, before, lost = here.at(weak), before.at(weak), lost[weak]
        if not len(lost):
            return
        how = "write" if access.kind == "write" else "update"
        same = np.zeros(len(lost), bool)
        mine, winners = self._stored(here.thread, here.code, shadow.grain), self._stored(before.thread, before.code, shadow.grain)
        if mine is not None and winners is not None:
            same = (mine == winners).all(axis=1)
        self.races.note(Pairs(space, shadow, here, before, how, how, same, collide=True))

    def _read(self, shadow: Shadow, space: str, rows: Rows) -> None:
        kind, keeps_all = rows.kind, self.races.fences.by_the_letter
        floor = repeated(-1, len(rows.place)) if keeps_all else self.races.knowledge.floor_cta[rows.place]
        shadow.note_reads(rows.piece, rows.thread, floor, self.races.knowledge.stamp, kind.number, kind.strength, rows.code)
        reads = shadow.reads
        if reads.size <= reads.most:
            return
        within = space == ".shared" and self.races.knowledge.cluster == 1 and not keeps_all
        # only threads of the same CTA access shared memory
        settled = self.races.knowledge.settled(self.races.residents.alive) if within else np.full(self.races.residents.ctas, -1)
        reads.compact(int(settled.min()), lambda entries: self._is_needed(shadow, settled, entries))

    def _is_needed(self, shadow: Shadow, settled: Array, reads: Entries) -> Array:
        """Which reads a later write may race with, or may show that a write was observed."""
        overwritten = (shadow.written[reads.piece] > reads.stamp) & (shadow.write_strength(reads.piece) == 0)
        cta = reads.thread // self.races.knowledge.threads - self.races.residents.first_cta
        needed: Array = (reads.strength > 0) | ~(overwritten | (reads.stamp <= settled.take(cta, mode="clip")))
        return needed

    def written(self, thread: int, offset: int, size: int) -> str | None:
        """What a thread writes now, from an offset on; None if unknown."""
        found = self._stored(np.array([thread]), np.array([code_of(0, offset)]), size)
        return None if found is None else hex(int.from_bytes(found.tobytes(), "little"))

    def forget(self, space: str, pieces: Array) -> None:
        """Orders all later accesses to these pieces after all earlier ones."""
        shadow = self.shadows[space]
        shadow.writer[pieces] = shadow.reader[pieces] = shadow.many_writers[pieces] = 0
