"""Matches an opcode to the table: the forms that accept its modifiers, with any operands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

import attrs

from ptxkit.frozen import frozen
from ptxkit.isa.forms import Form
from ptxkit.isa.mismatch import ordered_kind
from ptxkit.isa.table import forms
from ptxkit.memo import expression


@frozen
class Candidate:
    """A form that accepts the modifiers of an opcode, with the slot of each."""

    form: Form
    modifiers: tuple[str, ...]
    slots: Mapping[str, str] = attrs.field(hash=False)


_COMMENT = expression(r"//[^\n]*|/\*.*?\*/", re.S)


def split_opcode(opcode: str) -> tuple[str, tuple[str, ...]]:
    """`"ld.shared::cta.u32"` as `("ld", (".shared::cta", ".u32"))`; white space and comments before a dot are ignored."""
    mnemonic, *rest = "".join(_COMMENT.sub(" ", opcode).split()).split(".")
    return mnemonic, tuple("." + r for r in rest)


@lru_cache(maxsize=16384)
def match(opcode: str) -> tuple[Candidate, ...]:
    """The forms that accept exactly the modifiers of this opcode, with any operands.

    If there are none: forms known by name only, if the opcode has all modifiers that they name; it may have others.
    """
    mnemonic, modifiers = split_opcode(opcode)
    found = []
    for form in forms(mnemonic, modifiers):
        slots_taken = _assign(form, modifiers)
        if slots_taken is not None:
            slots = {form.slots[number].name: m for number, m in zip(slots_taken, modifiers, strict=True)}
            found.append(Candidate(form, modifiers, slots))
    if found:
        return tuple(found)
    return tuple(
        Candidate(form, modifiers, {})
        for form in forms(mnemonic)
        if not form.modelled and all(slot.optional or not {c.modifier for c in slot.choices}.isdisjoint(modifiers) for slot in form.slots)
    )


@lru_cache(maxsize=16384)
def flow_of(opcode: str) -> str:
    """The control flow of an opcode: `branch`, `branch-indexed`, `call`, `return`, `exit`, `trap`, `brkpt`, or empty.

    If no form accepts its modifiers, that of the forms of its mnemonic.
    """
    found = [candidate.form for candidate in match(opcode)] or forms(split_opcode(opcode)[0])
    return next((form.flow[0].what for form in found if form.flow), "")


@lru_cache(maxsize=16384)
def in_order(opcode: str) -> str:
    """The opcode with its modifiers in the order of its form, without blanks; unchanged if no form accepts it, or if forms differ."""
    mnemonic, modifiers = split_opcode(opcode)
    orders = set()
    for form in forms(mnemonic, modifiers):
        slots_taken = _assign(form, modifiers)
        if slots_taken is not None:
            orders.add(tuple([modifier for _, modifier in sorted(zip(slots_taken, modifiers, strict=True))]))
    return mnemonic + "".join(orders.pop() if len(orders) == 1 else modifiers)


def _assign(form: Form, modifiers: tuple[str, ...]) -> tuple[int, ...] | None:
    """A slot for every modifier such that all required slots are filled.

    Modifiers may come in any order, except that types come in the order of their slots, and so do state spaces: their order distinguishes
    several of them.
    """
    if len(modifiers) > len(form.slots):
        return None
    takes = form.takes
    for modifier in modifiers:
        if modifier not in takes:
            return None
    return _placed(form, modifiers, (), sum(not slot.optional for slot in form.slots))


def _placed(form: Form, modifiers: tuple[str, ...], taken: tuple[int, ...], missing: int) -> tuple[int, ...] | None:
    """The slots of all modifiers if the first ones fill the slots `taken` and `missing` slots must still be filled."""
    at = len(taken)
    if missing > len(modifiers) - at:
        return None
    if at == len(modifiers):
        return taken
    modifier = modifiers[at]
    kind = ordered_kind(modifier)
    least = max((p for p, m in zip(taken, modifiers, strict=False) if ordered_kind(m) == kind), default=-1) if kind else -1
    for slot in form.takes[modifier]:
        if slot in taken or slot < least:
            continue
        found = _placed(form, modifiers, (*taken, slot), missing - (not form.slots[slot].optional))
        if found is not None:
            return found
    return None
