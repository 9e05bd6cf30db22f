"""What ends a launch: where, which threads, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import attrs

from ptxkit.diagnostics import Diagnostic, Severity, Span

Thread = tuple[tuple[int, int, int], tuple[int, int, int]]
"""The index of a CTA in the grid, and that of a thread in the CTA."""

SHOWN = 4
"""So many threads are named; the others are counted."""

RULES = {
    "copy-size": ("A016", "bulk-size-align"),
    "permit": ("T002", "tmem-alloc-after-relinquish"),
    "tensor lanes": ("T007", "tmem-lanes-of-another-warp"),
}
"""The rules that some kinds of faults are violations of."""

NOWHERE = Span(0, 0, 1, 1, 1, 1)


class Fault(Exception):
    """A launch that could not go on.

    `kind` is a word for the reason (`address`, `deadlock`, `budget`, `trap`, `unsupported`, …), `reason` the sentence, `threads` are some
    of
    those concerned (CTA and thread index), `count` how many there are, `line` is that of the instruction, or None where none is to blame.
    `diagnostic` says the same as every finding does. `findings` are what monitors had found until then.
    """

    findings: tuple[Any, ...] = ()
    stop: Stop | None = None
    """What was raised where only the threads were known."""
    waits: tuple[Wait, ...] = ()
    """Of a deadlock: everybody that is left."""

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
        """`span` may be a function that gives it: most launches that end early are never spoken of, and lines take long to count."""
        self.kind = kind
        self.reason = reason
        self.threads = tuple(threads)
        self.count = len(self.threads) if count is None else count
        self.is_placed = span is not None
        """Whether an instruction is to blame."""
        self._span = span
        self._about = path, function, tuple(notes)
        super().__init__(reason)

    def __str__(self) -> str:
        message = self.diagnostic.message
        return f"line {self.line}: {message}" if self.is_placed else message

    @property
    def line(self) -> int | None:
        """The line of the instruction; None where none is to blame."""
        return self.diagnostic.span.line if self.is_placed else None

    @cached_property
    def diagnostic(self) -> Diagnostic:
        """The fault as every finding is given."""
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
        """This fault without the stack frames that it left: who keeps it would keep all that the launch held."""
        error: BaseException | None = self
        while error is not None:
            error.__traceback__ = None
            error = error.__cause__ or error.__context__
        if self.stop is not None:
            self.stop.__traceback__ = None
        return self


class Stop(Exception):
    """Raised where only the threads are known: `mask` says which lanes of the group at hand (None: all), the scheduler adds the rest."""

    def __init__(self, kind: str, reason: str, mask: Any = None) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.mask = mask
        self.lanes: Any = None
        """Those that started the operation in flight that went wrong."""
        self.access: BadAccess | None = None
        """The access that went wrong, if it was one."""


@attrs.frozen(eq=False)
class BadAccess:
    """An access that memory refuses: `size` bytes at the addresses `at` of a state space, for the lanes of `mask`.

    `why` is `misaligned`, `outside`, `read-only` or `other-cta`; `limit` is the alignment asked for, or the bytes that there are.
    """

    why: str
    kind: str
    lanes: Any
    space: str
    at: Any
    size: int
    mask: Any
    limit: int = 0


@attrs.frozen(eq=False)
class Wait:
    """Threads that wait, or iterate without end, at an instruction when nobody can go on; `arguments` are its operands."""

    lanes: Any
    site: Any
    arguments: tuple[Any, ...]
    token: Any = None
    iterates: bool = False


def spoken(threads: Sequence[Thread], count: int) -> str:
    """Threads in words: `thread (1,0,0) of CTA (0,0,0) and 3 others`."""
    if not threads:
        return ""
    named = [f"thread {_index(thread)} of CTA {_index(cta)}" for cta, thread in threads[:SHOWN]]
    others = count - len(named)
    if others > 0:
        return f"{', '.join(named)} and {others} other{'s' if others > 1 else ''}"
    return ", ".join(named)


def _index(place: tuple[int, int, int]) -> str:
    return f"({','.join(map(str, place))})"
