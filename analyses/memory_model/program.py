"""Small concurrent programs: threads, their CTAs, and the operations that they execute.

A program is what both front ends (litmus files, PTX) are read into, what the generator makes and what the enumerator executes. An operand
is an integer or the name of a register of the thread; registers hold integers modulo 2^64, memory holds them modulo 2^(8 * size).
"""

from __future__ import annotations

from collections.abc import Callable

from ptxkit.frozen import frozen

Operand = int | str
"""An integer, or the name of a register."""

WEAK = "weak"
STRONG = ("relaxed", "acquire", "release", "acq_rel")
SCOPES = ("cta", "cluster", "gpu", "sys")
PROXIES = ("generic", "texture", "surface", "constant", "async", "tensormap")


@frozen
class Address:
    """Bytes of a variable, `offset` from its start. `index`, a register, is added to the offset.

    Without a variable the sum is an address: the variables have a `base`.
    """

    variable: str
    offset: int = 0
    index: str | None = None

    def __str__(self) -> str:
        offset = f"+{self.offset}" if self.offset else ""
        return self.variable + offset + (f"+{self.index}" if self.index else "")


@frozen
class Load:
    """`ld`; `proxy` texture is `tex`, surface `suld`, constant `ld.const`. With several registers, a vector: one read each, unordered."""

    register: str | tuple[str, ...]
    address: Address
    sem: str = WEAK
    scope: str | None = None
    size: int = 4
    proxy: str = "generic"
    line: int = 0


@frozen
class Store:
    """`st`; proxy surface is `sust`. With several values, a vector: one write each, unordered."""

    address: Address
    value: Operand | tuple[Operand, ...]
    sem: str = WEAK
    scope: str | None = None
    size: int = 4
    proxy: str = "generic"
    line: int = 0


@frozen
class Atomic:
    """`atom`, or `red` where `register` is None. `operator` is PTX's (add, exch, cas, …); `cas` has two values, the others one."""

    register: str | None
    operator: str
    address: Address
    values: tuple[Operand, ...]
    sem: str = "relaxed"
    scope: str = "gpu"
    size: int = 4
    proxy: str = "generic"
    line: int = 0


@frozen
class Fence:
    """`fence.sc` or `fence.acq_rel`; a `membar` is the `fence.sc` of its level (9.7.14.4). `sem` acquire or release: one side of it."""

    sem: str = "acq_rel"
    scope: str = "gpu"
    line: int = 0


@frozen
class ProxyFence:
    """`fence.proxy.KIND`: between the generic proxy and proxy `kind`, or between aliases. `spaces` limits it to state spaces."""

    kind: str
    spaces: tuple[str, ...] = ()
    line: int = 0


@frozen
class Barrier:
    """`bar.sync`, `bar.arrive` or `bar.red` on a barrier of the CTA, or `barrier.cluster.arrive` and `.wait`.

    `barrier` names it: an operand, or a pair of a number and an operand. `threads` is how many take part; None, all of the CTA. The result
    of `bar.red` (`operator` popc, and, or; `value` a predicate) goes to `register`.
    """

    action: str
    barrier: Operand | tuple[int, Operand] = 0
    threads: Operand | None = None
    cluster: bool = False
    is_relaxed: bool = False
    register: str | None = None
    operator: str = ""
    value: Operand = 0
    line: int = 0


@frozen
class AsyncCopy:
    """`cp.async`: the thread goes on while `size` bytes are copied; `AsyncWait` waits for it. `proxy` async is `cp.async.bulk`.

    With `mbarrier` that counts the bytes once they are copied (complete-tx), and waiting for groups does not concern them.
    """

    target: Address
    source: Address
    size: int = 4
    proxy: str = "generic"
    line: int = 0
    mbarrier: Address | None = None


@frozen
class AsyncAccess:
    """`st.async` or `red.async`: the thread goes on while the operation takes effect, of which `mbarrier` then counts the bytes."""

    access: Store | Atomic
    mbarrier: Address | None = None
    line: int = 0


@frozen
class AsyncArrive:
    """`cp.async.mbarrier.arrive.noinc`: once the thread's copies in flight (not bulk copies) are complete, this arrives."""

    mbarrier: Address
    line: int = 0


@frozen
class AsyncCommit:
    """`cp.async.commit_group`: makes a group of the copies by `proxy` since the last one; of bulk copies, `cp.async.bulk.commit_group`."""

    proxy: str = "generic"
    line: int = 0


@frozen
class AsyncWait:
    """`cp.async.wait_all`, or `wait_group`: all but the last `pending` copies of the thread are complete after it.

    With a `proxy` it concerns the copies by that proxy, and `pending` counts their groups. `reading`: until their sources are read.
    """

    pending: int = 0
    line: int = 0
    proxy: str = ""
    reading: bool = False


@frozen
class Compute:
    """What is no memory operation: `register` becomes `function` of the operands."""

    register: str
    function: Callable[..., int]
    operands: tuple[Operand, ...]
    text: str = ""
    line: int = 0


@frozen
class Branch:
    """Goes to `label` if `function` of the operands is not 0. Without a function, always."""

    label: str
    function: Callable[..., int] | None = None
    operands: tuple[Operand, ...] = ()
    text: str = ""
    line: int = 0


@frozen
class Label:
    """Where branches go."""

    name: str
    line: int = 0


Operation = (
    Load
    | Store
    | Atomic
    | Fence
    | ProxyFence
    | Barrier
    | AsyncCopy
    | AsyncAccess
    | AsyncArrive
    | AsyncCommit
    | AsyncWait
    | Compute
    | Branch
    | Label
)


@frozen
class Thread:
    """A thread: where it runs (threads of one `cta` of one `gpu` share a CTA), what it executes, its registers' first values (else 0)."""

    name: str
    cta: int
    gpu: int
    code: tuple[Operation, ...]
    registers: tuple[tuple[str, int], ...] = ()
    cluster: int | None = None
    """By default a CTA is a cluster of its own."""


@frozen
class Variable:
    """Memory: `size` bytes that hold `value` (little endian) at first. An alias is another address, or another proxy, of a variable.

    `alias_of` with `is_same_address` is the variable itself, reached through another proxy; without, another virtual address of it (8.2.2).
    """

    name: str
    value: int = 0
    size: int = 4
    alias_of: str | None = None
    is_same_address: bool = False
    space: str = "global"
    cta: int | None = None
    """Whose shared memory it is in, if it is."""
    base: int = 0
    """The address of its first byte, where addresses are computed."""


@frozen
class Program:
    """Threads and the memory that they share.

    `awaits_all`: whether a barrier without a count waits for all threads of the CTA that have not exited (9.7.14.1), or, as litmus files
    have it, for those that come to this barrier.
    """

    threads: tuple[Thread, ...]
    variables: tuple[Variable, ...]
    name: str = ""
    awaits_all: bool = True
