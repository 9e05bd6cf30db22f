"""What ends a launch: instruction, threads and reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from ptxkit.diagnostics import Diagnostic, Severity, Span
from ptxkit.frozen import frozen

Thread = tuple[tuple[int, int, int], tuple[int, int, int]]
"""The index of a CTA in the grid, and of a thread in the CTA."""

SHOWN = 4
"""Maximum number of threads that are listed; others are counted."""

RULES = {
    "copy-size": ("A016", "bulk-size-align"),
    "copy-read-size": ("A007", "cpasync-operand"),
    "permit": ("T002", "tmem-alloc-after-relinquish"),
    "tensor columns": ("T002", "tmem-alloc-after-relinquish"),
    "tensor lanes": ("T007", "tmem-lanes-of-another-warp"),
}
"""The rules that some kinds of faults violate."""

NOWHERE = Span(0, 0, 1, 1, 1, 1)


class Fault(Exception):
    """A launch that cannot continue.

    `kind` is a word for the reason (`address`, `deadlock`, `budget`, `trap`, `unsupported`, …), `reason` a sentence. `threads` has some of
    the threads concerned (CTA and thread index), `count` is their number. `line` is the line of the instruction, or None if no instruction
    is at fault. `diagnostic` is the same in the form of a finding. `findings` are what monitors had found so far.
    """

    findings: tuple[Any, ...] = ()
    stop: Stop | None = None
    """The exception raised where only the threads were known."""
    waits: tuple[Wait, ...] = ()
    """For a deadlock: all remaining threads."""

    @property
    def why(self) -> str:
        """The case within the kind, such as `misaligned` for an address or `count` for an mbarrier; empty if there is only one."""
        return self.stop.why if self.stop is not None else ""

    @property
    def access(self) -> BadAccess | None:
        """The access that ended the launch, if one did."""
        return self.stop.access if self.stop is not None else None

    def __init__(
        self,
        kind: str,
        reason: str,
        *,
        threads: Sequence[Thread] = (),
        count: int | None = None,
        span: Span | Callable[[], Span] | None = None,
        path: str | None = None,
        function: str | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        """`span` may be a function that computes it, since line numbers are expensive and most faults are never reported."""
        self.kind = kind
        self.reason = reason
        self.threads = tuple(threads)
        self.count = len(self.threads) if count is None else count
        self.is_placed = span is not None
        """Whether an instruction is at fault."""
        self._span = span
        self._about = path, function, tuple(notes)
        super().__init__(reason)

    def __str__(self) -> str:
        message = self.diagnostic.message
        return f"line {self.line}: {message}" if self.is_placed else message

    @property
    def line(self) -> int | None:
        """The line of the instruction; None if no instruction is at fault."""
        return self.diagnostic.span.line if self.is_placed else None

    @cached_property
    def diagnostic(self) -> Diagnostic:
        """The fault as a diagnostic."""
        span = self._span() if callable(self._span) else self._span
        who = spoken(self.threads, self.count)
        message = f"{self.reason} ({who})" if who else self.reason
        path, function, notes = self._about
        return Diagnostic(
            *RULES.get(self.kind, ("fault", f"fault-{self.kind}")),
            Severity.ERROR,
            message,
            span or NOWHERE,
            path=path,
            function=function,
            notes=notes,
        )

    def detached(self) -> Fault:
        """This fault without references to stack frames, which would keep everything that the launch used alive."""
        error: BaseException | None = self
        while error is not None:
            error.__traceback__ = None
            error = error.__cause__ or error.__context__
        if self.stop is not None:
            self.stop.__traceback__ = None
        return self


class Stop(Exception):
    """Raised where only the threads are known. `mask` selects lanes of the current group (None: all); the scheduler adds the rest.
    `kind`, `reason` and `why` are those of `Fault`."""

    def __init__(self, kind: str, reason: str, mask: Any = None, why: str = "") -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.why = why
        self.mask = mask
        self.lanes: Any = None
        """The lanes that started the asynchronous operation that failed."""
        self.access: BadAccess | None = None
        """The access that failed, if it was one."""


@frozen(eq=False)
class BadAccess:
    """An invalid access: `size` bytes at the addresses `at` of a state space, for the lanes of `mask`.

    `why` is `misaligned`, `outside`, `read-only`, `space` or `other-cta`; `limit` is the required alignment, or the size of the allocation.
    """

    why: str
    kind: str
    lanes: Any
    space: str
    at: Any
    size: int
    mask: Any
    limit: int = 0


@frozen(eq=False)
class Wait:
    """Threads that wait, or iterate endlessly, at an instruction when no thread can continue; `arguments` are its operands."""

    lanes: Any
    site: Any
    arguments: tuple[Any, ...]
    token: Any = None
    iterates: bool = False


def spoken(threads: Sequence[Thread], count: int) -> str:
    """Threads in words: `thread (1,0,0) of CTA (0,0,0) and 3 others`."""
    if not threads:
        return ""
    named = [f"thread {spoken_index(thread)} of CTA {spoken_index(cta)}" for cta, thread in threads[:SHOWN]]
    others = count - len(named)
    if others > 0:
        return f"{', '.join(named)} and {others} other{'s' if others > 1 else ''}"
    return ", ".join(named)


def spoken_index(index: Sequence[int]) -> str:
    """An index as messages write it: `(1,0,0)`."""
    return f"({','.join(map(str, index))})"
