"""The memory of a launch. All loads, stores and atomic updates of all state spaces are performed here."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ptxkit.frozen import frozen
from ptxkit.machine.fault import BadAccess, Stop
from ptxkit.machine.memory import windows
from ptxkit.machine.memory.allocations import Allocation, Allocations
from ptxkit.machine.memory.buffer import Buffer
from ptxkit.machine.memory.operands import AddressCache, SplitAddress
from ptxkit.machine.memory.sparse import zeros
from ptxkit.machine.memory.updates import Update, serially
from ptxkit.machine.values.distinct import distinct_numbers

Array = np.ndarray[Any, Any]

GLOBAL_BASE = 0x7F00_0000_0000
"""First address of global memory, unless host addresses are used."""

GUARD = 4096
"""Unallocated bytes between two allocations, so that slightly wrong indices are detected."""

GLOBAL_AT_FIRST = 1 << 26
"""Initial size of the global memory buffer in bytes. Pages that are never accessed cost nothing."""

TRIMMED = 1 << 23
"""At most this many bytes are zeroed when they are released; if there are more, a new buffer is allocated."""

UNDEFINED = 0xCB
"""Initial contents of shared and local memory. These are undefined (ISA 5.1.7), and zeros would hide uses of them."""

STRIDE_ALIGN = 1024
"""The shared memories of CTAs are a multiple of this apart, since no shared memory layout depends on higher address bits."""


@frozen(eq=False)
class Access:
    """An access as monitors see it. `at` are addresses in the buffer of `space`; `Memory.owner` gives their owner."""

    kind: str
    lanes: Any
    space: str
    at: Any
    size: int
    proxy: str = "generic"
    values: Any = None
    """The values that a store writes, as a tuple of elements, or the operands of an update; None if unknown in advance."""


class Memory:
    """State spaces as byte buffers.

    Global memory has `allocate`, `free`, `write`, `read` and `view`. With `host=True`, addresses are those of this process, and `register`
    defines which of them a kernel may access. `begin` lays out shared, local and parameter memory of the resident CTAs.

    If `watch` is set, it is called with an `Access` before every access. An invalid access calls `lanes.fault(mask, reason, "address")`,
    which raises.
    """

    def __init__(self, host: bool = False) -> None:
        self.host = host
        self.allocations = Allocations()
        self.watch: Callable[[Access], None] | None = None
        self.objects: dict[int, Any] = {}
        """Textures, samplers and surfaces by handle."""
        self.constant = Buffer.of_size(0)
        self.constant_size = 0
        self.shared, self.local, self.parameters = Buffer.of_size(0), Buffer.of_size(0), Buffer.of_size(0)
        self.shared_size = self.shared_stride = self.local_size = self.local_stride = self.parameter_size = 0
        self.ctas = self.threads = self.cluster = 1
        self._top = GLOBAL_BASE
        self._bases: dict[str, tuple[Any, Any, Array]] = {}
        self.places = AddressCache()
        self.unwritten: dict[int, Array] = {}
        """For allocations with undefined initial contents, by address: which bytes have been written."""
        self.globals = _whole_process() if host else Buffer.of_size(GLOBAL_AT_FIRST, origin=GLOBAL_BASE)

    # -- host operations

    def allocate(self, size: int, name: str = "", align: int = 256) -> int:
        """Allocates `size` zeroed bytes of global memory and returns the address. Raises ValueError in host mode, where the process
        allocates."""
        if self.host:
            raise ValueError("in host mode memory is allocated by the process, and registered")
        start = -(-self._top // align) * align
        self._hold(start + size + GUARD)
        self._top = start + size + GUARD
        self.allocations.add(Allocation(start, start + size, name))
        return start

    def reserve(self, size: int) -> None:
        """Reserves room for allocations of this size if possible, so that the buffer is not copied each time it grows."""
        if not self.host:
            with contextlib.suppress(MemoryError):
                self._hold(self._top + size)

    def _hold(self, end: int) -> None:
        """Grows the global memory buffer up to an address."""
        if end - GLOBAL_BASE > len(self.globals.data):
            self._move(max(2 * len(self.globals.data), -(-(end - GLOBAL_BASE) // 4096) * 4096))

    def _move(self, length: int) -> None:
        """Moves global memory to a new buffer of a given size in bytes."""
        used = self._top - GLOBAL_BASE
        moved = zeros(length)
        moved[:used] = self.globals.data[:used]
        # what refers to the buffer, such as launches that are not collected yet, lets go of the memory that it had
        self.globals.replace(moved)

    @property
    def end(self) -> int:
        """Lower bound for the address of the next allocation."""
        return self._top

    def trim(self, end: int = 0) -> None:
        """Makes the addresses after the last allocation, but none before `end`, available again, filled with zeros. The caller no longer
        uses anything there."""
        last = max([GLOBAL_BASE, end, *[one.end + GUARD for one in self.allocations]])
        if self.host or last >= self._top:
            return
        released, self._top = self._top - last, last
        if released > max(TRIMMED, last - GLOBAL_BASE):
            # new zero pages are cheaper than clearing these
            self._move(max(GLOBAL_AT_FIRST, -(-(last - GLOBAL_BASE) // 4096) * 4096))
        else:
            self.globals.data[last - GLOBAL_BASE : last - GLOBAL_BASE + released] = 0

    @property
    def size(self) -> int:
        """Bytes of global memory that are allocated, or were allocated and are not reused."""
        return self._top - GLOBAL_BASE

    def free(self, address: int) -> None:
        """Frees an allocation: accesses to it then fault. Raises KeyError if no allocation starts here."""
        self.allocations.remove(address)
        self.unwritten.pop(address, None)

    def register(self, address: int, size: int, name: str = "") -> None:
        """Allows kernels to access these bytes of the process (host mode)."""
        self.allocations.add(Allocation(address, address + size, name))

    def view(self, address: int, size: int) -> Array:
        """A view of global memory, valid until the next `allocate`. Raises ValueError if the bytes are not all in one allocation."""
        if not self.allocations.hold(address, address + size):
            raise ValueError(f"{size} bytes at {address:#x} are not allocated: {self.allocations.nearest(address)}")
        if self.unwritten:
            self.defined(address, size)
        return self.globals.span(address, size)

    def defined(self, address: int, size: int) -> None:
        """Marks bytes as written, since the host may have written them."""
        found = self.allocations.containing(address)
        written = self.unwritten.get(found.start) if found is not None else None
        if found is None or written is None:
            return
        if size == found.size:
            del self.unwritten[found.start]
        else:
            written[address - found.start : address - found.start + size] = 1

    def write(self, address: int, data: Any) -> None:
        """Copies bytes or an array to global memory."""
        raw = np.frombuffer(data, np.uint8) if isinstance(data, bytes | bytearray) else np.ascontiguousarray(data).ravel().view(np.uint8)
        self.view(address, len(raw))[:] = raw

    def read(self, address: int, size: int) -> bytes:
        """Returns a copy of bytes of global memory."""
        return self.view(address, size).tobytes()

    def set_constants(self, data: bytes) -> None:
        """Sets the contents of `.const` memory, from address 0."""
        self.constant, self.constant_size = _filled(data), len(data)

    def begin(
        self,
        *,
        ctas: int = 1,
        threads: int = 1,
        cluster: int = 1,
        shared: int = 0,
        local: int = 0,
        parameters: bytes = b"",
        fill: int = UNDEFINED,
    ) -> None:
        """Lays out memory for `ctas` resident CTAs of `threads` threads, with CTAs of a cluster consecutive: `shared` bytes for each
        CTA, `local` bytes for each thread, and the kernel's parameters."""
        self.ctas, self.threads, self.cluster = ctas, threads, cluster
        self.shared_size, self.shared_stride = shared, -(-max(shared, 1) // STRIDE_ALIGN) * STRIDE_ALIGN
        self.local_size, self.local_stride = local, -(-max(local, 1) // 64) * 64
        self.shared = self.shared.anew(self.shared_stride * ctas, fill)
        self.local = self.local.anew(self.local_stride * ctas * threads if local else 0, fill)
        self.parameters, self.parameter_size = _filled(parameters), len(parameters)
        self._bases = {}
        self.places.clear()

    def grow(self, ctas: int) -> None:
        """Extends memory for more resident CTAs. Existing memory keeps its contents and addresses."""
        self.ctas = ctas
        self.shared.extend(self.shared_stride * ctas, UNDEFINED)
        if self.local_size:
            self.local.extend(self.local_stride * ctas * self.threads, UNDEFINED)
        self._bases = {}
        self.places.clear()

    # -- lane operations

    def load(self, lanes: Any, space: str, address: Any, dtype: Any, width: int = 1, watched: bool = True) -> Any:
        """Loads from an address for each lane, or one for all: `width` elements as a tuple, or a single one. The result is a scalar if it
        is the same for all lanes.

        The address may be a `SplitAddress`. With `watched=False`, monitors are not notified.
        """
        dtype = np.dtype(dtype)
        if type(address) is SplitAddress:
            through = self._load_split(lanes, space, address, dtype, width)
            if through is not None:
                return through
            address = address.address
        found: Any = None
        for buffer, at, mine in self.locate(lanes, space, address, dtype.itemsize * width, "read", watched=watched):
            part = buffer.get(at, dtype, width)
            if mine is None:
                return part
            many = part if width > 1 else (part,)
            found = found or tuple(np.empty(lanes.count, dtype) for _ in range(width))
            for whole, piece in zip(found, many, strict=True):
                whole[mine] = piece
        return found if width > 1 else found[0]

    def _load_split(self, lanes: Any, space: str, place: SplitAddress, dtype: np.dtype[Any], width: int) -> Any:
        """The fast path of loads; None if the load needs the general path or may fault."""
        register, offset = place
        size = dtype.itemsize * width
        if self.watch is not None or self.cluster > 1 or not register.ndim or size & (size - 1) or offset & (size - 1):
            return None
        in_global = space == ".global"
        if in_global and register.dtype.itemsize < 8:
            return None
        known = self.places.known(register, None if in_global or self.ctas == 1 else self._base(lanes, space))
        if known.is_even or known.bits & (size - 1):
            return None
        low, high = known.low + offset, known.high + offset + size
        if not (self.allocations.hold(low, high) if in_global else high <= self.shared_size):
            return None
        buffer = self.globals if in_global else self.shared
        if known.low < buffer.origin:
            return None
        return buffer.gather(known.index(buffer.origin, size), offset // size, dtype, width)

    def store(self, lanes: Any, space: str, address: Any, values: Any, dtype: Any = None) -> None:
        """Stores a value for each lane, or a tuple of consecutive values. If several lanes write the same bytes, the last one wins."""
        many = values if isinstance(values, tuple) else (values,)
        dtype = np.dtype(dtype) if dtype is not None else np.asarray(many[0]).dtype
        for buffer, at, mine in self.locate(lanes, space, address, dtype.itemsize * len(many), "write", values=many):
            buffer.put(at, _chosen(many, mine), dtype)

    def update(self, lanes: Any, space: str, address: Any, update: Update | Callable[..., Any], dtype: Any = None, *operands: Any) -> Any:
        """Updates memory atomically, one lane after the other, and returns the old values; None if the update does not need them.

        The type is by default that of the first operand. `update` may be a function of the old value and the lane's operands.
        """
        update = update if isinstance(update, Update) else Update(update)
        dtype = np.dtype(dtype) if dtype is not None else np.asarray(operands[0]).dtype
        found: Any = None
        for buffer, at, mine in self.locate(lanes, space, address, dtype.itemsize, "update", values=operands):
            view, index = buffer.view(dtype), buffer.index(at, dtype.itemsize)
            this = update.in_global if update.in_global is not None and buffer is self.globals else update
            if mine is None:
                return serially(view, index, this, operands, lanes.count, update.wanted)
            chosen = tuple(o[mine] if getattr(o, "ndim", 0) else o for o in operands)
            part = serially(view, index, this, chosen, len(mine), update.wanted)
            if update.wanted:
                found = np.empty(lanes.count, dtype) if found is None else found
                found[mine] = part
        return found

    # -- translation of addresses

    def locate(
        self,
        lanes: Any,
        space: str,
        address: Any,
        size: int,
        kind: str,
        align: int = 0,
        proxy: str = "generic",
        watched: bool = True,
        values: Any = None,
    ) -> list[tuple[Buffer, Any, Any]]:
        """The location of the bytes of an access: buffers, addresses in them, and positions of the lanes concerned (None: all).

        Faults if an address is not a multiple of `align` (by default the size), is outside all allocations, or is read-only. With
        `watched=False`, monitors are not notified, since nothing is accessed yet.
        """
        pieces = []
        for which, local_address, mine in self._spaces(space, address):
            whom = lanes if mine is None else lanes.at(mine)
            at = self._check(whom, which, local_address, size, kind, align or size)
            buffer = self.buffer(which, local_address)
            if watched and self.watch is not None:
                self.watch(Access(kind, whom, which if buffer is not self.local else ".local", at, size, proxy, _chosen(values, mine)))
            pieces.append((buffer, at, mine))
        return pieces

    def accessed(self, lanes: Any, buffer: Buffer, at: Any, size: int, kind: str, proxy: str) -> None:
        """Notifies monitors of an access by an asynchronous operation whose address was computed earlier."""
        if self.watch is None:
            return
        self.watch(Access(kind, lanes, self.space_of(buffer), at, size, proxy))

    def space_of(self, buffer: Buffer) -> str:
        """The state space of a buffer."""
        return next(name for name, own in ((".global", self.globals), (".shared", self.shared), (".local", self.local)) if own is buffer)

    def buffer(self, space: str, address: Any = 0) -> Buffer:
        """The buffer of a state space."""
        if space == ".global":
            return self.globals
        if space.startswith(".shared"):
            return self.shared
        if space == ".local" or (space.startswith(".param") and _largest(address) >= windows.PARAM_FRAME):
            return self.local
        return self.parameters if space.startswith(".param") else self.constant

    def _spaces(self, space: str, address: Any) -> list[tuple[str, Any, Any]]:
        """The state spaces of an access, with addresses in them and the lanes concerned. A generic address determines its space."""
        if space != ".generic":
            return [(space, address, None)]
        low, high = _smallest(address) >> windows.WINDOW_BITS, _largest(address) >> windows.WINDOW_BITS
        if low == high == 0:
            return [(".global", address, None)]
        inside = np.uint64((1 << windows.WINDOW_BITS) - 1)
        spaces = windows.SPACE_OF_WINDOW
        if low == high:
            return [(spaces[low], address & inside, None)] if low < len(spaces) else [(".global", address, None)]
        window = (address >> np.uint64(windows.WINDOW_BITS)).astype(np.int64)
        window[window >= len(spaces)] = 0
        chosen = [(w, np.flatnonzero(window == w)) for w in distinct_numbers(window).tolist()]
        return [(spaces[w], address[mine] & inside if w else address[mine], mine) for w, mine in chosen]

    def _check(self, lanes: Any, space: str, address: Any, size: int, kind: str, align: int) -> Any:
        if align > 1:
            odd = int(np.bitwise_or.reduce(address)) if isinstance(address, np.ndarray) else int(address)
            if odd & (align - 1):
                wrong = np.asarray(address) & np.asarray(align - 1, np.uint64)
                self._fault(
                    lanes, wrong != 0, address, f"misaligned {kind} of {size} bytes at {space}", f"it must be a multiple of {align}",
                    ("misaligned", kind, space, size, align),
                )  # fmt: skip
        if space == ".global":
            return self._in_global(lanes, address, size, kind)
        if space.startswith(".shared"):
            return self._in_shared(lanes, space, address, size, kind)
        if space == ".local":
            return self._in_local(lanes, address, size, kind)
        return self._in_parameters(lanes, space, address, size, kind)

    def _in_global(self, lanes: Any, address: Any, size: int, kind: str) -> Any:
        low, high = _smallest(address), _largest(address) + size
        if not self.allocations.hold(low, high):
            each = np.atleast_1d(np.asarray(address, np.uint64))
            wrong = self.allocations.outside(each, size)
            if wrong.any():
                where = self.allocations.nearest(int(each[wrong][0]))
                outside = ("outside", kind, ".global", size, 0)
                self._fault(lanes, wrong, address, f"{kind} of {size} bytes outside of global memory, at", where, outside)
        return address.view(np.int64) if isinstance(address, np.ndarray) else int(address)

    def _in_shared(self, lanes: Any, space: str, address: Any, size: int, kind: str) -> Any:
        if self.cluster == 1 and _largest(address) + size <= self.shared_size:
            at = address.view(np.int64) if isinstance(address, np.ndarray) else int(address)
            return at if self.ctas == 1 else self._base(lanes, space) + at
        where = np.asarray(address, np.uint64)
        rank, offset = (where >> np.uint64(windows.RANK_BITS)).astype(np.int64), (where & np.uint64(windows.OFFSET_MASK)).astype(np.int64)
        wrong = (offset + size > self.shared_size) | (rank >= self.cluster)
        if wrong.any():
            what = "each CTA" if self.shared_size else "the kernel"
            self._fault(
                lanes, wrong, address, f"{kind} of {size} bytes outside of shared memory, at", f"{what} has {self.shared_size} bytes of it",
                ("outside", kind, space, size, self.shared_size),
            )  # fmt: skip
        own = lanes.cta % self.cluster
        if not space.endswith("::cluster"):
            other = (rank != own) & (rank != 0)
            if other.any():
                self._fault(
                    lanes,
                    other,
                    address,
                    f"{kind} through .shared::cta at",
                    "that is in the shared memory of another CTA: use .shared::cluster",
                    ("other-cta", kind, space, size, self.shared_size),
                )
            rank = own
        return (lanes.cta - own + rank) * self.shared_stride + offset

    def _in_local(self, lanes: Any, address: Any, size: int, kind: str) -> Any:
        if kind == "update":
            space = ("space", kind, ".local", size, self.local_size)
            what = "an atomic needs a location in .global or .shared"
            self._fault(lanes, np.ones(1, bool), address, f"{kind} of {size} bytes of local memory, at", what, space)
        if _largest(address) + size > self.local_size:
            wrong = (np.asarray(address, np.uint64) > np.uint64(max(0, self.local_size - size))) | (size > self.local_size)
            self._fault(
                lanes,
                wrong,
                address,
                f"{kind} of {size} bytes outside of local memory, at",
                f"each thread has {self.local_size} bytes of it",
                ("outside", kind, ".local", size, self.local_size),
            )
        return self._base(lanes, ".local") + (address.view(np.int64) if isinstance(address, np.ndarray) else int(address))

    def _in_parameters(self, lanes: Any, space: str, address: Any, size: int, kind: str) -> Any:
        high = _largest(address)
        if space.startswith(".param") and high >= windows.PARAM_FRAME:
            return self._in_local(lanes, address - np.uint64(windows.PARAM_FRAME), size, kind)
        what, limit = ("constant", self.constant_size) if space == ".const" else ("parameter", self.parameter_size)
        if kind != "read":
            constant = ("read-only", kind, space, size, limit)
            self._fault(lanes, np.ones(1, bool), address, f"{kind} to {what} memory at", "a kernel cannot write there", constant)
        if high + size > limit:
            wrong = np.asarray(address, np.uint64) + np.uint64(size) > limit
            outside = ("outside", kind, space, size, limit)
            self._fault(lanes, wrong, address, f"{kind} of {size} bytes outside of {what} memory, at", f"it has {limit} bytes", outside)
        return address.view(np.int64) if isinstance(address, np.ndarray) else int(address)

    def _base(self, lanes: Any, space: str) -> Array:
        """The start of each lane's own memory. The last result is cached, since groups rarely change between accesses."""
        name, cta = (".local", lanes.cta) if space == ".local" else (".shared", lanes.cta)
        thread = lanes.thread if name == ".local" else None
        known = self._bases.get(name)
        if known is not None and known[0] is cta and known[1] is thread:
            return known[2]
        bases = cta * self.shared_stride if thread is None else (cta * self.threads + thread) * self.local_stride
        bases = np.asarray(bases, np.int64)
        self._bases[name] = cta, thread, bases
        return bases

    def shared_base(self, cta: Any) -> Any:
        """The address in `.shared` of the first byte of a resident CTA's shared memory: 0 unless the launch has clusters."""
        return 0 if self.cluster == 1 else (cta % self.cluster) << windows.RANK_BITS

    def owner(self, space: str, at: int) -> tuple[int, int]:
        """For an address in a buffer, as in an `Access`: its owner (a resident CTA or thread; 0 in other spaces), and the address
        relative to the owner's memory."""
        stride = self.shared_stride if space.startswith(".shared") else self.local_stride if space == ".local" else 0
        return divmod(at, stride) if stride else (0, at)

    def _fault(self, lanes: Any, wrong: Any, address: Any, what: str, where: str, bad: tuple[str, str, str, int, int]) -> None:
        """Ends the launch. `bad` has the reason, kind of access, state space, size, and the required alignment or available bytes."""
        mask = np.broadcast_to(wrong, lanes.count) if np.ndim(wrong) == 0 or len(wrong) != lanes.count else wrong
        first = int(np.broadcast_to(np.asarray(address, np.uint64), lanes.count)[mask][0])
        why, kind, space, size, limit = bad
        try:
            lanes.fault(mask, f"{what} {first:#x}: {where}", "address", why)
        except Stop as stop:
            stop.access = BadAccess(why, kind, lanes, space, address, size, mask, limit)
            raise
        raise AssertionError("lanes.fault() must not return")


def _chosen(values: Any, mine: Any) -> Any:
    """The values of some lanes (None: of all)."""
    if values is None or mine is None:
        return values
    return tuple(v[mine] if getattr(v, "ndim", 0) else v for v in values)


def _smallest(address: Any) -> int:
    return int(address.min()) if isinstance(address, np.ndarray) else int(address)


def _largest(address: Any) -> int:
    return int(address.max()) if isinstance(address, np.ndarray) else int(address)


def _filled(data: bytes) -> Buffer:
    buffer = Buffer.of_size(len(data))
    buffer.data[: len(data)] = np.frombuffer(data, np.uint8)
    return buffer


class _Everything:
    """All addresses of the process, in NumPy's array interface."""

    FIRST = 4096
    __array_interface__ = {"data": (FIRST, False), "shape": ((1 << 47) - 2 * FIRST,), "typestr": "|u1", "version": 3}


def _whole_process() -> Buffer:
    return Buffer(np.asarray(_Everything()), _Everything.FIRST)
