"""An instruction bound to its form: its modifiers and operands, and what the table says about them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TypeVar

import attrs

from ptxkit.frozen import frozen
from ptxkit.isa.forms import (
    Accumulates,
    Async,
    Atom,
    Barrier,
    Call,
    Completes,
    Computes,
    Condition,
    Conditional,
    Converges,
    Deprecated,
    Form,
    Fragment,
    Limits,
    Memory,
    Removed,
    Width,
)
from ptxkit.isa.requirements import Requirement
from ptxkit.isa.shapes import OperandShape
from ptxkit.isa.types import is_type

T = TypeVar("T")
Path = tuple[int, ...]
"""A position in the operands: `(1,)` is the second operand, `(0, 2)` the third element of the first."""

GENERIC = ".generic"
_IN_GENERIC = frozenset((".global", ".shared", ".local"))


@frozen
class BoundOperand:
    """What the form says about one operand of the instruction: `name` is the form's; its elements have one of the `types`."""

    name: str
    path: Path
    role: str
    types: tuple[str, ...]
    width: int
    how: str
    spaces: tuple[str, ...]
    align: int
    limits: Limits | None
    shape: OperandShape

    @property
    def reads(self) -> bool:
        """Whether its registers are read; those of an address always are."""
        return self.role in ("r", "rw", "addr", "list", "any", "sreg")

    @property
    def writes(self) -> bool:
        return self.role in ("w", "rw")


@frozen
class Need:
    """Part of what an instruction requires, and the modifier that requires it (empty: the instruction itself)."""

    requirement: Requirement
    modifier: str


def number_of(width: Width, slots: Mapping[str, str]) -> int:
    """The number that a width denotes with the modifiers in these slots; 0 if its slot is empty."""
    if width.count:
        return width.count
    found = re.search(rf"{width.letter}(\d+)", slots.get(width.slot, ""))
    return int(found[1]) * width.times // width.over if found else 0


@frozen(eq=False)
class Bound:
    """An instruction with its form. `slots` has the modifier of every filled slot (a literal fills the slot of its name)."""

    form: Form
    opcode: str
    modifiers: tuple[str, ...]
    slots: Mapping[str, str]
    operands: tuple[BoundOperand, ...]
    needs: tuple[Need, ...]
    requirement: Requirement

    def has(self, *modifiers: str) -> bool:
        """Whether all of these modifiers are present: `bound.has(".sync", ".aligned")`."""
        return all(m in self.modifiers for m in modifiers)

    def slot(self, name: str) -> str:
        """The modifier in a slot, or an empty string."""
        return self.slots.get(name, "")

    def operand(self, name: str) -> BoundOperand | None:
        """The operand to which the form gives this name, if present."""
        return next((o for o in self.operands if o.name == name), None)

    @property
    def type(self) -> str:
        """The instruction type: the slot `.type`, otherwise the last modifier that is a type; empty if there is none."""
        return self.slot(".type") or next((m for m in reversed(self.modifiers) if is_type(m)), "")

    @cached_property
    def reads(self) -> tuple[Path, ...]:
        """The positions of the registers that it reads."""
        return tuple(path for o in self.operands if o.reads for path in _registers(o.shape, o.path))

    @cached_property
    def writes(self) -> tuple[Path, ...]:
        """The positions of the registers that it writes."""
        return tuple(path for o in self.operands if o.writes for path in _registers(o.shape, o.path))

    @cached_property
    def limited(self) -> tuple[BoundOperand, ...]:
        """The constant operands with a restricted range: those that `check_constants` examines."""
        return tuple(o for o in self.operands if o.limits and o.shape.kind in ("immediate", "unknown"))

    @cached_property
    def memory(self) -> tuple[Memory, ...]:
        """The memory it accesses; `order` and `scope` are the modifiers written (as `.acquire`), the fixed word, or empty."""
        return tuple(
            attrs.evolve(m, order=self._word(m.order, self.form.order), scope=self._word(m.scope, self.form.scope))
            for m in self._holding(self.form.memory)
        )

    @cached_property
    def converges(self) -> Converges | None:
        """The threads that must execute it together; None if there is no such requirement."""
        return next(iter(self._holding(self.form.converges)), None)

    @cached_property
    def asynchronous(self) -> tuple[Async, ...]:
        return self._holding(self.form.asynchronous)

    @cached_property
    def completes(self) -> tuple[Completes, ...]:
        return self._holding(self.form.completes)

    @cached_property
    def barrier(self) -> tuple[Barrier, ...]:
        return self._holding(self.form.barrier)

    @cached_property
    def threads(self) -> BoundOperand | None:
        """The operand that gives the number of participating threads, if present."""
        return self._named(self.form.threads)

    @cached_property
    def members(self) -> BoundOperand | None:
        """The operand with a mask of lanes: of participants if it is read, of lanes found if it is written."""
        return self._named(self.form.members)

    @cached_property
    def lane(self) -> tuple[BoundOperand, ...]:
        """The operands that say from which lane a thread receives its value; empty if it receives none."""
        names = self._holding(self.form.lane)
        return tuple([operand for operand in self.operands if operand.name in names])

    @cached_property
    def fragments(self) -> tuple[Fragment, ...]:
        """The operands that hold matrix fragments; shape, type and layout are the modifiers written."""
        return tuple(
            attrs.evolve(f, shape=self._word(f.shape, ()), type=self._word(f.type, ()), layout=self._word(f.layout, ()))
            for f in self._holding(self.form.fragments)
        )

    @cached_property
    def accumulates(self) -> Accumulates | None:
        """The operand that is added to a matrix product; None if there is none."""
        return next(iter(self._holding(self.form.accumulates)), None)

    @cached_property
    def carry(self) -> str:
        """Its effect on the condition code register: r, w, rw or empty."""
        return next(iter(self._holding(self.form.carry)), "")

    @cached_property
    def packs(self) -> bool:
        """Whether several operands each give a part of the result, as in conversions of two numbers to one register (9.7.9.21)."""
        return self.form.mnemonic == "cvt" and len([one for one in self.operands if one.reads]) > 1

    @cached_property
    def flow(self) -> str:
        """branch, branch-indexed, call, return, exit, trap, brkpt or empty."""
        return next(iter(self._holding(self.form.flow)), "")

    @cached_property
    def effects(self) -> tuple[str, ...]:
        return self._holding(self.form.effects)

    @cached_property
    def computes(self) -> tuple[Computes, ...]:
        """How its results are computed, where that is a formula."""
        return self._holding(self.form.computes)

    @cached_property
    def operator(self) -> str:
        """The outermost operator of the formula of its first result; empty if there is none."""
        value = self.computes[0].value if self.computes else None
        if not isinstance(value, Call):
            return ""
        return (self.slot(value.operator) if value.operator.startswith(".") else value.operator).lstrip(".")

    def uniform(self, operand: str) -> str:
        """The group of threads for which results in an operand of this name are uniform; empty if that follows from the inputs."""
        return next((said.word for said in self._holding(self.form.uniform) if said.operand in ("", operand)), "")

    @cached_property
    def deprecated(self) -> tuple[Deprecated, ...]:
        return self._holding(self.form.deprecated)

    @cached_property
    def removed(self) -> tuple[Removed, ...]:
        return self._holding(self.form.removed)

    def holds(self, condition: Condition) -> bool:
        """Whether a condition in the notation holds for this instruction."""
        return holds(condition, self.modifiers, self.slots, {o.name: o.shape for o in self.operands})

    def _holding(self, statements: tuple[Conditional[T], ...]) -> tuple[T, ...]:
        return tuple([s.what for s in statements if not s.when or self.holds(s.when)])

    def _named(self, statements: tuple[Conditional[str], ...]) -> BoundOperand | None:
        return next((operand for name in self._holding(statements) if (operand := self.operand(name)) is not None), None)

    def _word(self, word: str, general: tuple[Conditional[str], ...]) -> str:
        word = word or next(iter(self._holding(general)), "")
        return self.slot(word) if word.startswith(".") and self.form.slot(word) else word


def is_in(declared: str, wanted: str) -> bool:
    """Whether a variable in one state space may be addressed in another: `.shared` as `.shared::cta`."""
    if wanted == GENERIC:
        return declared in _IN_GENERIC
    return declared.partition("::")[0] == wanted.partition("::")[0]


def holds(condition: Condition, modifiers: tuple[str, ...], slots: Mapping[str, str], states: Mapping[str, OperandShape]) -> bool:
    """Whether a condition in the notation holds for these modifiers, filled slots and operands by name."""
    return all(_atom_holds(atom, modifiers, slots, states) != atom.negated for atom in condition)


def _atom_holds(atom: Atom, modifiers: tuple[str, ...], slots: Mapping[str, str], states: Mapping[str, OperandShape]) -> bool:
    if atom.kind == "has":
        return any(value in modifiers or value in slots for value in atom.values)
    if atom.kind == "slot":
        return slots.get(atom.subject) in atom.values
    shape = states.get(atom.subject)
    if atom.kind == "given":
        return shape is not None
    return shape is not None and any(_written_as(shape, value) for value in atom.values)


_WORDS = {"imm": "immediate", "reg": "register", "sreg": "special", "sym": "symbol", "func": "function"}


def _written_as(shape: OperandShape, word: str) -> bool:
    if word.startswith("space"):
        inner = shape.parts[0] if shape.kind == "address" and shape.parts else shape
        return inner.space != "" and is_in(inner.space, "." + word.removeprefix("space").lstrip("."))
    if word == "vector" and shape.count > 1:
        return True
    if word == "neg":
        return shape.negated
    if word == "kernel":
        return shape.kind == "function" and shape.type == "kernel"
    if word.startswith("."):
        return shape.type == word
    return shape.kind == _WORDS.get(word, word)


def _registers(shape: OperandShape, path: Path) -> Iterator[Path]:
    if shape.kind in ("register", "unknown"):
        yield path
    for number, part in enumerate(shape.parts):
        yield from _registers(part, (*path, number))
