"""The memory of a launch: every load, store and atomic update of any state space goes through here."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

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
"""The first address of global memory, where it is not that of the process."""

GUARD = 4096
"""Bytes between two allocations that belong to none, so that an index that is off by a little lands nowhere."""

GLOBAL_AT_FIRST = 1 << 26
"""Bytes of the buffer of global memory before it grows; what nobody accesses costs nothing."""

TRIMMED = 1 << 23
"""So many bytes at most are set to zero again when they are released; of more, the whole buffer is returned to the system."""

UNDEFINED = 0xCB
"""What shared and local memory are filled with before a launch: their contents are undefined (ISA 5.1.7), and a zero would hide that."""

STRIDE_ALIGN = 1024
"""The shared memories of the CTAs lie a multiple of this apart: no layout in shared memory looks at higher bits of an address."""


@attrs.frozen(eq=False)
class Access:
    """An access as monitors see it. `at` are addresses in the buffer of `space`; `Memory.owner` says whose they are."""

    kind: str
    lanes: Any
    space: str
    at: Any
    size: int
    proxy: str = "generic"
    values: Any = None
    """What a store writes, a tuple of elements, or the operands of an update; None where that is not known before."""


class Memory:
    """State spaces as buffers of bytes.

    Global memory: `allocate`, `free`, `write`, `read`, `view`; with `host=True` addresses are those of this process, and `register` says
    which of them a kernel may access. `begin` lays out shared, local and parameter memory for the CTAs that are resident together.

    `watch`, if it is set, is called with an `Access` before every access. A bad access calls
    `lanes.fault(mask, reason, "address")`, which raises.
    """

    def __init__(self, host: bool = False) -> None:
        self.host = host
        self.allocations = Allocations()
        self.watch: Callable[[Access], None] | None = None
        self.objects: dict[int, Any] = {}
        """Textures, samplers and surfaces by their handles."""
        self.constant = Buffer.of_size(0)
        self.constant_size = 0
        self.shared, self.local, self.parameters = Buffer.of_size(0), Buffer.of_size(0), Buffer.of_size(0)
        self.shared_size = self.shared_stride = self.local_size = self.local_stride = self.parameter_size = 0
        self.ctas = self.threads = self.cluster = 1
        self._top = GLOBAL_BASE
        self._bases: dict[str, tuple[Any, Any, Array]] = {}
        self.places = AddressCache()
        self.unwritten: dict[int, Array] = {}
        """Of allocations whose contents are undefined at first, by address, which bytes have been written since."""
        self.globals = _whole_process() if host else Buffer.of_size(GLOBAL_AT_FIRST, origin=GLOBAL_BASE)

    # -- what the host does

    def allocate(self, size: int, name: str = "", align: int = 256) -> int:
        """The address of `size` new bytes of global memory, all zero. Raises ValueError in host mode, where the process allocates."""
        if self.host:
            raise ValueError("in host mode memory is allocated by the process, and registered")
        start = -(-self._top // align) * align
        self._hold(start + size + GUARD)
        self._top = start + size + GUARD
        self.allocations.add(Allocation(start, start + size, name))
        return start

    def reserve(self, size: int) -> None:
        """Makes room for so many bytes that are going to be allocated, if there are: else the buffer is copied each time that it grows."""
        if not self.host:
            with contextlib.suppress(MemoryError):
                self._hold(self._top + size)

    def _hold(self, end: int) -> None:
        """Makes the buffer of global memory reach to an address."""
        if end - GLOBAL_BASE > len(self.globals.data):
            self._move(max(2 * len(self.globals.data), -(-(end - GLOBAL_BASE) // 4096) * 4096))

    def _move(self, length: int) -> None:
        """Puts what was allocated into a new buffer of so many bytes."""
        used = self._top - GLOBAL_BASE
        moved = zeros(length)
        moved[:used] = self.globals.data[:used]
        self.globals = Buffer(moved, GLOBAL_BASE)

    @property
    def end(self) -> int:
        """Where the next allocation lies at least."""
        return self._top

    def trim(self, end: int = 0) -> None:
        """Lets the addresses behind the last allocation, but none before `end`, be allocated again, with zeros there: for who is done with
        all that lay there."""
        last = max([GLOBAL_BASE, end, *[one.end + GUARD for one in self.allocations]])
        if self.host or last >= self._top:
            return
        released, self._top = self._top - last, last
        if released > max(TRIMMED, last - GLOBAL_BASE):
            # new zeros cost less than to write these
            self._move(max(GLOBAL_AT_FIRST, -(-(last - GLOBAL_BASE) // 4096) * 4096))
        else:
            self.globals.data[last - GLOBAL_BASE : last - GLOBAL_BASE + released] = 0

    @property
    def size(self) -> int:
        """Bytes of global memory that are allocated, or were and are not given again."""
        return self._top - GLOBAL_BASE

    def free(self, address: int) -> None:
        """Accesses to what was allocated there are faults from now on. Raises KeyError if nothing begins there."""
        self.allocations.remove(address)
        self.unwritten.pop(address, None)

    def register(self, address: int, size: int, name: str = "") -> None:
        """Says that a kernel may access these bytes of the process (host mode)."""
        self.allocations.add(Allocation(address, address + size, name))

    def view(self, address: int, size: int) -> Array:
        """Bytes of global memory, not copied: valid until the next `allocate`. Raises ValueError if they are not all of one allocation."""
        if not self.allocations.hold(address, address + size):
            raise ValueError(f"{size} bytes at {address:#x} are not allocated: {self.allocations.nearest(address)}")
        if self.unwritten:
            self.defined(address, size)
        return self.globals.span(address, size)

    def defined(self, address: int, size: int) -> None:
        """The host may have written these bytes."""
        found = self.allocations.containing(address)
        written = self.unwritten.get(found.start) if found is not None else None
        if found is None or written is None:
            return
        if size == found.size:
            del self.unwritten[found.start]
        else:
            written[address - found.start : address - found.start + size] = 1

    def write(self, address: int, data: Any) -> None:
        """Copies bytes, or an array, to global memory."""
        raw = np.frombuffer(data, np.uint8) if isinstance(data, bytes | bytearray) else np.ascontiguousarray(data).ravel().view(np.uint8)
        self.view(address, len(raw))[:] = raw

    def read(self, address: int, size: int) -> bytes:
        """A copy of bytes of global memory."""
        return self.view(address, size).tobytes()

    def set_constants(self, data: bytes) -> None:
        """The contents of `.const` memory, from address 0."""
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
        """Memory for `ctas` resident CTAs of `threads` threads, the CTAs of a cluster one after another: bytes of shared memory a CTA,
        of local memory a thread, and the kernel's parameters."""
        self.ctas, self.threads, self.cluster = ctas, threads, cluster
        self.shared_size, self.shared_stride = shared, -(-max(shared, 1) // STRIDE_ALIGN) * STRIDE_ALIGN
        self.local_size, self.local_stride = local, -(-max(local, 1) // 64) * 64
        self.shared = self.shared.anew(self.shared_stride * ctas, fill)
        self.local = self.local.anew(self.local_stride * ctas * threads if local else 0, fill)
        self.parameters, self.parameter_size = _filled(parameters), len(parameters)
        self._bases = {}
        self.places.clear()

    def grow(self, ctas: int) -> None:
        """Memory for more resident CTAs; that of those which are there keeps its contents, and what is in flight its destination."""
        self.ctas = ctas
        self.shared.extend(self.shared_stride * ctas, UNDEFINED)
        if self.local_size:
            self.local.extend(self.local_stride * ctas * self.threads, UNDEFINED)
        self._bases = {}
        self.places.clear()

    # -- what lanes do

    def load(self, lanes: Any, space: str, address: Any, dtype: Any, width: int = 1) -> Any:
        """What lies at an address a lane (or one for all): `width` elements as a tuple, or just one. The same for all lanes is a scalar.

        The address may be a `SplitAddress`.
        """
        dtype = np.dtype(dtype)
        if type(address) is SplitAddress:
            through = self._load_split(lanes, space, address, dtype, width)
            if through is not None:
                return through
            address = address.address
        found: Any = None
        for buffer, at, mine in self.locate(lanes, space, address, dtype.itemsize * width, "read"):
            part = buffer.get(at, dtype, width)
            if mine is None:
                return part
            many = part if width > 1 else (part,)
            found = found or tuple(np.empty(lanes.count, dtype) for _ in range(width))
            for whole, piece in zip(found, many, strict=True):
                whole[mine] = piece
        return found if width > 1 else found[0]

    def _load_split(self, lanes: Any, space: str, place: SplitAddress, dtype: np.dtype[Any], width: int) -> Any:
        """A load that is nothing special; None if it is, or may fault."""
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
        """Stores a value a lane, or a tuple of them one after another. Of lanes that write the same bytes, the last stays."""
        many = values if isinstance(values, tuple) else (values,)
        dtype = np.dtype(dtype) if dtype is not None else np.asarray(many[0]).dtype
        for buffer, at, mine in self.locate(lanes, space, address, dtype.itemsize * len(many), "write", values=many):
            buffer.put(at, _chosen(many, mine), dtype)

    def update(self, lanes: Any, space: str, address: Any, update: Update | Callable[..., Any], dtype: Any = None, *operands: Any) -> Any:
        """Updates memory atomically, lane after lane, and gives what each found; None if the update says that nobody asks.

        The type is that of the first operand if none is given. `update` may be a function of what is found and the lane's operands.
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

    # -- from addresses to bytes

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
        """Where the bytes of an access are: buffers, addresses in them, and for which lanes (their numbers in `lanes`; None: all).

        Faults where an address is not a multiple of `align` (the size, if that is 0), lies outside of all allocations, or is not to be
        written. With `watched=False` no monitor is notified: nothing is accessed yet.
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
        """Tells the monitors of an access by what was in flight, whose address was computed earlier."""
        if self.watch is None:
            return
        self.watch(Access(kind, lanes, self.space_of(buffer), at, size, proxy))

    def space_of(self, buffer: Buffer) -> str:
        """The state space that a buffer holds."""
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
        """A state space, addresses in it, and for which lanes; a generic address says itself which space it is of."""
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
        """For each lane where its own memory begins. The last answer is remembered: groups rarely change between two accesses."""
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
        """Of an address in a buffer, as an `Access` has it: whose memory it is (a resident CTA, or a thread among the resident ones; 0 in
        other spaces), and the address within that."""
        stride = self.shared_stride if space.startswith(".shared") else self.local_stride if space == ".local" else 0
        return divmod(at, stride) if stride else (0, at)

    def _fault(self, lanes: Any, wrong: Any, address: Any, what: str, where: str, bad: tuple[str, str, str, int, int]) -> None:
        """Ends the launch; `bad` is why, what kind of access, the state space, the size, and the alignment or the bytes that there are."""
        mask = np.broadcast_to(wrong, lanes.count) if np.ndim(wrong) == 0 or len(wrong) != lanes.count else wrong
        first = int(np.broadcast_to(np.asarray(address, np.uint64), lanes.count)[mask][0])
        why, kind, space, size, limit = bad
        try:
            lanes.fault(mask, f"{what} {first:#x}: {where}", "address")
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
    """All addresses of the process, as NumPy's array interface wants them."""

    FIRST = 4096
    __array_interface__ = {"data": (FIRST, False), "shape": ((1 << 47) - 2 * FIRST,), "typestr": "|u1", "version": 3}


def _whole_process() -> Buffer:
    return Buffer(np.asarray(_Everything()), _Everything.FIRST)
