"""Small concurrent programs: threads, their CTAs, and the operations that they execute.

A program is the target of both front ends (litmus files and PTX) and of the generator, and the input of the enumerator. An operand is an
integer or the name of a register of the thread; registers hold integers modulo 2^64, memory holds them modulo 2^(8 * size).
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
    """`atom`, or `red` if `register` is None. `operator` is PTX's (add, exch, cas, …); `cas` takes two values, the others one."""

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
    """`fence.sc` or `fence.acq_rel`; a `membar` is the `fence.sc` of its level (9.7.14.4). `sem` may also be acquire or release, one
    side of it."""

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

    `barrier` names it: an operand, or a pair of a number and an operand. `threads` is the number of participants; None for all threads of
    the CTA. The result of `bar.red` (`operator` popc, and, or; `value` a predicate) goes to `register`.
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
    """`cp.async`: the thread continues while `size` bytes are copied; `AsyncWait` waits for it. `proxy` async is `cp.async.bulk`.

    With an `mbarrier`, that counts the bytes once they are copied (complete-tx), and waits for groups do not cover the copy.
    """

    target: Address
    source: Address
    size: int = 4
    proxy: str = "generic"
    line: int = 0
    mbarrier: Address | None = None


@frozen
class AsyncAccess:
    """`st.async` or `red.async`: the thread continues while the operation takes effect; `mbarrier` then counts its bytes."""

    access: Store | Atomic
    mbarrier: Address | None = None
    line: int = 0


@frozen
class AsyncArrive:
    """`cp.async.mbarrier.arrive.noinc`: arrives once the thread's copies in flight (bulk copies excluded) are complete."""

    mbarrier: Address
    line: int = 0


@frozen
class AsyncCommit:
    """`cp.async.commit_group`: groups the copies by `proxy` since the last commit; for bulk copies, `cp.async.bulk.commit_group`."""

    proxy: str = "generic"
    line: int = 0


@frozen
class AsyncWait:
    """`cp.async.wait_all`, or `wait_group`: after it, all but the last `pending` copies of the thread are complete.

    With a `proxy`, it covers the copies by that proxy, and `pending` counts their groups. `reading`: only until their sources are read.
    """

    pending: int = 0
    line: int = 0
    proxy: str = ""
    reading: bool = False


@frozen
class Compute:
    """A computation: `register` becomes `function` of the operands."""

    register: str
    function: Callable[..., int]
    operands: tuple[Operand, ...]
    text: str = ""
    line: int = 0


@frozen
class Branch:
    """A branch to `label`, taken if `function` of the operands is not 0, or always without a function."""

    label: str
    function: Callable[..., int] | None = None
    operands: tuple[Operand, ...] = ()
    text: str = ""
    line: int = 0


@frozen
class Label:
    """A branch target."""

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
    """A thread: its location (threads of one `cta` of one `gpu` share a CTA), its code, and initial register values (default 0)."""

    name: str
    cta: int
    gpu: int
    code: tuple[Operation, ...]
    registers: tuple[tuple[str, int], ...] = ()
    cluster: int | None = None
    """By default, each CTA is its own cluster."""


@frozen
class Variable:
    """Memory: `size` bytes with initial contents `value` (little endian). An alias is another address, or another proxy, of a variable.

    `alias_of` with `is_same_address` is the variable itself, accessed through another proxy; otherwise, another virtual address of it
    (8.2.2).
    """

    name: str
    value: int = 0
    size: int = 4
    alias_of: str | None = None
    is_same_address: bool = False
    space: str = "global"
    cta: int | None = None
    """The CTA whose shared memory contains it, if any."""
    base: int = 0
    """The address of its first byte, for programs that compute addresses."""


@frozen
class Program:
    """Threads and the memory that they share.

    `awaits_all`: whether a barrier without a count waits for all threads of the CTA that have not exited (9.7.14.1), or, as in litmus
    files, for those that reach this barrier.
    """

    threads: tuple[Thread, ...]
    variables: tuple[Variable, ...]
    name: str = ""
    awaits_all: bool = True
