"""The forms of instructions, as data: slots for modifiers, operands, and what a form needs, reads, writes and synchronizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

import attrs

from ptxkit.frozen import frozen
from ptxkit.isa.requirements import Needs, TargetNeed
from ptxkit.isa.targets import Version

SPACES = frozenset(
    (".const", ".global", ".local", ".param", ".param::entry", ".param::func", ".shared", ".shared::cta", ".shared::cluster", ".generic")
)
ROLES = frozenset(("r", "w", "rw", "addr", "imm", "label", "func", "list", "sreg", "sym", "any"))


class NotationError(Exception):
    """An `.isa` file does not follow the notation. The text says where and what was expected."""


@frozen
class Choice:
    """One alternative of a slot, and what it needs."""

    modifier: str
    needs: Needs | None = None


@frozen
class Slot:
    """The position of one modifier. A literal modifier is a slot named after its only choice."""

    name: str
    choices: tuple[Choice, ...]
    optional: bool
    literal: bool


@attrs.frozen(cache_hash=True)
class Atom:
    """One test of a condition.

    `kind` is "has" (one of `values` is among the modifiers, or names a filled slot), "slot" (slot `subject` holds one of `values`), "given"
    (operand `subject` is present) or "is" (operand `subject` is written as one of `values`).
    """

    kind: str
    subject: str
    values: tuple[str, ...]
    negated: bool


Condition = tuple[Atom, ...]


@frozen
class Width:
    """The number of elements of a vector operand: a number, or the number in a slot's value, multiplied or divided by another."""

    count: int = 0
    slot: str = ""
    letter: str = ""
    times: int = 1
    over: int = 1


@frozen
class OperandType:
    """A type or a type-valued slot, and for a vector its width."""

    name: str
    width: Width | None = None


def plain_number(value: float) -> str:
    """A number in decimal digits; an integer in full."""
    return str(int(value)) if float(value).is_integer() else f"{value:g}"


@frozen
class Limits:
    """The constants that an operand accepts."""

    least: float | None = None
    most: float | None = None
    above: bool = False
    """Whether `least` itself is excluded."""
    values: tuple[int, ...] = ()
    multiple: int = 1

    def allow(self, value: float) -> bool:
        """Whether a constant is within these limits."""
        if self.values and value not in self.values:
            return False
        if self.least is not None and (value < self.least or (self.above and value == self.least)):
            return False
        if self.most is not None and value > self.most:
            return False
        return self.multiple == 1 or value % self.multiple == 0

    def __str__(self) -> str:
        if self.values:
            return " or ".join(map(str, self.values))
        least = "" if self.least is None else plain_number(self.least)
        most = "" if self.most is None else plain_number(self.most)
        above = least and f"{'more than' if self.above else 'at least'} {least}"
        below = most and f"at most {most}"
        span = f"{least} to {most}" if least and most and not self.above else " and ".join(filter(None, (above, below)))
        multiple = f"a multiple of {self.multiple}" if self.multiple > 1 else ""
        return ", ".join(filter(None, (span, multiple)))


@frozen
class OperandRule:
    """What an operand of a given name accepts, if `when` holds."""

    when: Condition
    role: str
    types: tuple[OperandType, ...] = ()
    how: str = "same"
    spaces: tuple[str, ...] = ()
    align: str = ""
    constants: bool = True
    constant_kind: str = ""
    limits: Limits | None = None
    sink: bool = False
    negatable: bool = False
    special: bool = False
    symbol: bool = False
    narrow: bool = False
    indexed: bool = False
    written_out: bool = False
    """It must be written `{…}`, for any width."""

    @property
    def writes(self) -> bool:
        return self.role in ("w", "rw")


@frozen
class Item:
    """One operand as the form line writes it: `kind` is plain (it has a name), address, pair, vector or list (of `parts`)."""

    kind: str
    name: str = ""
    parts: tuple[Item, ...] = ()

    def names(self) -> Iterator[str]:
        """The names in it, in order."""
        if self.kind == "plain":
            yield self.name
        for part in self.parts:
            yield from part.names()


Variant = tuple[Item, ...]
T = TypeVar("T")


@frozen
class Conditional(Generic[T]):
    """A statement of the body with its condition."""

    when: Condition
    what: T


@frozen
class Constraint:
    """If `when` holds, `then` must hold too; without `then`, `when` must not hold."""

    when: Condition
    then: Condition | None


@frozen
class Converges:
    """The threads that must execute the instruction together: `level` is warp, warpgroup, cta or cluster."""

    level: str
    aligned: bool
    whole: bool = False
    """Whether no thread of the group may have exited."""


@frozen
class Memory:
    """Memory accessed through an operand. `order` and `scope` name a slot, or are the fixed word itself, or empty."""

    access: str
    operand: str
    is_async: bool
    proxy: str
    order: str
    scope: str
    row: int = 0
    """For collective accesses, the minimum bytes at each address; 0 if unspecified."""
    lanes: Width | None = None
    """The number of lanes, starting from lane 0, that hold such an address; None for all."""


@frozen
class Async:
    """Opens, commits or waits for asynchronous groups of a kind; `operand` names the count, if any.

    `signal`: the operations in flight signal their completion at the barrier that `operand` names.
    """

    group: str
    action: str
    operand: str
    reading: bool = False
    """For a wait: only until the operations have read their sources."""


@frozen
class Completes:
    """How completion of the asynchronous operation is signalled: `mechanism` mbarrier (then `what` is the operand) or group."""

    mechanism: str
    what: str


@frozen
class Fragment:
    """The part of a matrix that an operand's registers hold for a thread; words with a dot name a slot or stand for themselves."""

    operand: str
    matrix: str
    """a or b for the factors, c for the addend and the result."""
    shape: str
    type: str
    layout: str
    """The layout of the matrix in memory; empty if it does not matter."""
    is_opaque: bool
    """Whether the manual leaves the positions of elements unspecified."""


@frozen
class Accumulates:
    """The operand of which each register is added to one of the result; with `when`, only where that operand is true."""

    operand: str
    when: str


@frozen
class Barrier:
    """An action on the barrier that an operand names."""

    action: str
    operand: str


@frozen
class Call:
    """An operator with its arguments: calls, names of operands or slots, and numbers. A slot may name the operator."""

    operator: str
    arguments: tuple[Call | str | int, ...]


@frozen
class Computes:
    """How a result is computed: an operand's value, or operators applied to several."""

    target: str
    value: Call | str | int


@frozen
class Uniform:
    """The group of threads for which results in an operand (empty: any operand) are uniform, if that does not follow from the inputs."""

    operand: str
    word: str


@frozen
class Deprecated:
    """From this PTX version on, a form is deprecated; `message` says what to use instead."""

    version: Version
    message: str


@frozen
class Removed:
    """Removed from `version` on, for target `target` (empty: for all)."""

    version: Version
    target: TargetNeed | None


@frozen(eq=False)
class Form:
    """One form of an instruction, as a form line and the body of its entry declare it. Compared by identity."""

    mnemonic: str
    syntax: str
    slots: tuple[Slot, ...]
    variants: tuple[Variant, ...]
    rules: dict[str, tuple[OperandRule, ...]]
    constraints: tuple[Constraint, ...]
    needs: tuple[Conditional[Needs], ...]
    converges: tuple[Conditional[Converges], ...]
    memory: tuple[Conditional[Memory], ...]
    order: tuple[Conditional[str], ...]
    scope: tuple[Conditional[str], ...]
    asynchronous: tuple[Conditional[Async], ...]
    completes: tuple[Conditional[Completes], ...]
    barrier: tuple[Conditional[Barrier], ...]
    fragments: tuple[Conditional[Fragment], ...]
    accumulates: tuple[Conditional[Accumulates], ...]
    threads: tuple[Conditional[str], ...]
    members: tuple[Conditional[str], ...]
    lane: tuple[Conditional[str], ...]
    carry: tuple[Conditional[str], ...]
    flow: tuple[Conditional[str], ...]
    effects: tuple[Conditional[str], ...]
    uniform: tuple[Conditional[Uniform], ...]
    computes: tuple[Conditional[Computes], ...]
    copies: bool
    """Whether the results are unchanged operands, or a selection of them: these may be uninitialized if nobody uses the result."""
    deprecated: tuple[Conditional[Deprecated], ...]
    removed: tuple[Conditional[Removed], ...]
    modelled: bool
    summary: str
    section: str
    examples: tuple[str, ...]
    file: str
    line: int
    entry: int
    """The line of the first form line of its entry."""
    takes: dict[str, tuple[int, ...]] = attrs.field(init=False, repr=False)
    """For each modifier of the form, the indices of the `slots` that accept it."""

    @takes.default
    def _takes(self) -> dict[str, tuple[int, ...]]:
        taken: dict[str, tuple[int, ...]] = {}
        for number, slot in enumerate(self.slots):
            only = (number,)
            for choice in slot.choices:
                modifier = choice.modifier
                taken[modifier] = taken[modifier] + only if modifier in taken else only
        return taken

    def slot(self, name: str) -> Slot | None:
        """The slot of this name."""
        return next((s for s in self.slots if s.name == name), None)

    def __str__(self) -> str:
        return self.syntax
