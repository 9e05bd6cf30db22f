"""Does the table agree with itself? Every form must take instructions made from it, and no other form may take them.

python tests/isa/selftest.py [mnemonic …]
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import chain, islice, product
from pathlib import Path

import attrs

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from conformance import read_module

from ptxkit.isa import shapes
from ptxkit.isa.binding import Bound, _Binding, bind_all
from ptxkit.isa.bound import holds
from ptxkit.isa.forms import Atom, Constraint, Form, Item, OperandRule, Slot, Variant, Width
from ptxkit.isa.opcodes import Candidate
from ptxkit.isa.shapes import OperandShape
from ptxkit.isa.table import forms, mnemonics
from ptxkit.isa.types import declarable, holders, types

TRIES, ENOUGH = 4000, 60
"""How many ways to fill the slots of a form are looked at, and with how many of them operands are tried."""

Filling = tuple[str, ...]
"""A modifier for every slot of a form, empty where it stays empty."""


@attrs.frozen(cache_hash=True)
class Example:
    form: Form
    opcode: str
    operands: tuple[OperandShape, ...]

    def __str__(self) -> str:
        return f"{self.opcode} {', '.join(map(str, self.operands))}"


@attrs.frozen
class Complaint:
    kind: str
    form: Form
    text: str

    def __str__(self) -> str:
        return f"{self.form.file}:{self.form.line}: {self.kind}: {self.text}   [{self.form.syntax}]"


def complaints(mnemonic: str) -> Iterator[Complaint]:
    """What is wrong with the forms of a mnemonic."""
    alive: dict[tuple[str, int, str, str], bool] = {}
    first: dict[tuple[str, int, str, str], Form] = {}
    for form in forms(mnemonic):
        if not form.modelled:
            continue
        yield from _unknown_types(form)
        yield from _wrong_examples(form)
        found, dead = examples(form)
        if not found:
            yield Complaint("no-example", form, "no instruction made from this form is taken by it")
            continue
        yield from _wrongly_taken(form, found)
        for slot in form.slots:
            for choice in slot.choices:
                key = (form.file, form.entry, slot.name, choice.modifier)
                alive[key] = alive.get(key, False) or (slot.name, choice.modifier) not in dead
                first.setdefault(key, form)
    # What one form of an entry excludes, another may have.
    for key, is_alive in alive.items():
        if not is_alive and not _excluded(first[key], key[3]):
            yield Complaint("dead-choice", first[key], f"no instruction has {key[3]} as {key[2]}")


def _excluded(form: Form, modifier: str) -> bool:
    """Whether the entry says in so many words that a modifier may not stand there: it is listed for the message's sake."""
    return any(c.then is None and len(c.when) == 1 and modifier in c.when[0].values for c in form.constraints)


def _unknown_types(form: Form) -> Iterator[Complaint]:
    """A slot that gives an operand's type may hold types only, unless a condition sees to it."""
    for name, rules in form.rules.items():
        slots = {slot for rule in rules if not rule.when for wanted in rule.types if (slot := form.slot(wanted.name))}
        for modifier in {c.modifier for slot in slots for c in slot.choices} - types().keys():
            yield Complaint("unknown-type", form, f"{modifier} of operand {name} is not in types.isa")


def _wrong_examples(form: Form) -> Iterator[Complaint]:
    for text in form.examples:
        taking = [f for i in read_module(text + ";").instructions for f in bind_all(i.opcode, i.operands)]
        if not any(f.file == form.file and f.entry == form.entry for f in taking):
            yield Complaint("wrong-example", form, f"{text} is not of this form")


def _wrongly_taken(form: Form, found: list[Example]) -> Iterator[Complaint]:
    for example in found:
        taking = bind_all(example.opcode, example.operands)
        others = [f for f in taking if f is not form]
        if form not in taking:
            yield Complaint("not-found", form, f"{example}: its modifiers are given to its slots in another way")
        if others:
            yield Complaint("ambiguous", form, f"{example} is also {others[0].file}:{others[0].line} {others[0].syntax}")
            return


def examples(form: Form) -> tuple[list[Example], list[tuple[str, str]]]:
    """Instructions of a form in which every alternative of every slot appears, and the alternatives that none could be made with."""
    base = next(_fitting(form, _fillings(form)), None)
    if base is None:
        return [], []
    found = dict.fromkeys([*_bound(form, base[0]), *_bound(form, _repaired(form, _full(form.slots)) or base[0])])
    dead = []
    for place, slot in enumerate(form.slots):
        for modifier in [c.modifier for c in slot.choices] + ([""] if slot.optional else []):
            near = _repaired(form, (*base[0][:place], modifier, *base[0][place + 1 :]), place)
            fillings = chain([] if near is None else [near], _fillings(form, place, modifier))
            made = next(_fitting(form, fillings), None)
            if made is not None:
                found[made[1]] = None
            elif modifier:
                dead.append((slot.name, modifier))
    return list(found), dead


def _fitting(form: Form, fillings: Iterable[Filling]) -> Iterator[tuple[Filling, Example]]:
    for filling in fillings:
        for example in _bound(form, filling):
            yield filling, example


def _fillings(form: Form, fixed: int = -1, modifier: str = "") -> Iterator[Filling]:
    """Ways to fill slots that the constraints allow as far as they speak of modifiers; one slot may be fixed."""
    ways = []
    for place, slot in enumerate(form.slots):
        choices = [c.modifier for c in slot.choices]
        ways.append([modifier] if place == fixed else ["", *choices] if slot.optional else choices)
    tried = chain(
        islice(product(*ways), TRIES),
        (tuple(way[shift * (place + 1) % len(way)] for place, way in enumerate(ways)) for shift in range(1, 60)),
    )
    seen = set()
    for filling in tried:
        repaired = _repaired(form, filling, fixed)
        if repaired is not None and repaired not in seen:
            seen.add(repaired)
            yield repaired
            if len(seen) > ENOUGH:
                return


def _repaired(form: Form, filling: Filling, fixed: int = -1) -> Filling | None:
    """A filling near to this one that breaks no constraint on modifiers alone; the slot `fixed` stays as it is."""
    now = list(filling)
    for _ in range(12):
        slots = {s.name: m for s, m in zip(form.slots, now, strict=True) if m}
        broken = next((c for c in form.constraints if _about_modifiers(c) and _is_broken(c, tuple(slots.values()), slots)), None)
        if broken is None:
            return tuple(now)
        if broken.then is not None:
            changed = sum(_make(atom, form, now, fixed, atom.negated) for atom in broken.then) > 0
        else:
            changed = any(_make(atom, form, now, fixed, not atom.negated) for atom in reversed(broken.when))
        if not changed:
            return None
    return None


def _about_modifiers(constraint: Constraint) -> bool:
    return all(atom.kind in ("has", "slot") for atom in (*constraint.when, *(constraint.then or ())))


def _is_broken(constraint: Constraint, modifiers: Filling, slots: dict[str, str]) -> bool:
    if not holds(constraint.when, modifiers, slots, {}):
        return False
    return constraint.then is None or not holds(constraint.then, modifiers, slots, {})


def _make(atom: Atom, form: Form, filling: list[str], fixed: int, negate: bool) -> bool:
    """Changes a filling so that an atom holds, or does not; tells whether it could."""
    for place, slot in enumerate(form.slots):
        if place == fixed:
            continue
        concerned = (atom.kind == "slot" and slot.name == atom.subject) or atom.kind == "has"
        named = [c.modifier for c in slot.choices if c.modifier in atom.values or (atom.kind == "has" and slot.name in atom.values)]
        if not concerned or not named:
            continue
        if not negate and filling[place] not in named:
            filling[place] = named[0]
            return True
        if negate and filling[place] in named:
            others = [""] if slot.optional else [c.modifier for c in slot.choices if c.modifier not in named]
            if others:
                filling[place] = others[0]
                return True
    return False


def _full(slots: tuple[Slot, ...]) -> Filling:
    return tuple(slot.choices[0].modifier for slot in slots)


def _bound(form: Form, filling: Filling) -> Iterator[Example]:
    """The examples with these modifiers, one for each way to write the operands, that the form takes."""
    modifiers = tuple(m for m in filling if m)
    slots = {slot.name: m for slot, m in zip(form.slots, filling, strict=True) if m}
    candidate = Candidate(form, modifiers, slots)
    for variant in form.variants:
        for operands in islice(_operands(form, variant, slots), 48):
            if isinstance(_Binding(candidate, operands, 64).of(variant), Bound):
                yield Example(form, form.mnemonic + "".join(modifiers), operands)
                break


def _operands(form: Form, variant: Variant, slots: dict[str, str]) -> Iterator[tuple[OperandShape, ...]]:
    ways = [list(_shapes(form, item, slots)) for item in variant]
    yield from product(*ways)


def _shapes(form: Form, item: Item, slots: dict[str, str]) -> Iterator[OperandShape]:
    if item.kind == "plain":
        yield from {shape: None for rule in _possible(form.rules[item.name], slots) for shape in _shape(rule, slots)}
        return
    make = {"address": shapes.address, "vector": shapes.vector, "list": shapes.operands, "pair": shapes.pair}[item.kind]
    for parts in product(*(list(_shapes(form, part, slots)) for part in item.parts)):
        # An address in brackets is the shape of what is inside.
        yield make(*(p.parts[0] if item.kind == "address" and p.kind == "address" else p for p in parts))


def _possible(rules: tuple[OperandRule, ...], slots: dict[str, str]) -> Iterator[OperandRule]:
    """The rules that may be the one that holds, going by the modifiers."""
    for rule in rules:
        about_modifiers = tuple(atom for atom in rule.when if atom.kind in ("has", "slot"))
        if not holds(about_modifiers, tuple(slots.values()), slots, {}):
            continue
        yield rule
        if len(about_modifiers) == len(rule.when):
            return


def _shape(rule: OperandRule, slots: dict[str, str]) -> Iterator[OperandShape]:
    if rule.role == "addr":
        yield shapes.address(shapes.register(".b64"))
        yield shapes.address(*(shapes.symbol(slots.get(s, s)) for s in rule.spaces[:1])) if rule.spaces else shapes.address(shapes.UNKNOWN)
    elif rule.role == "imm":
        yield shapes.immediate("f32" if rule.constant_kind == "float" else "int")
        yield shapes.immediate("f32")
    elif rule.role in ("label", "func"):
        yield shapes.LABEL if rule.role == "label" else shapes.FUNCTION
    elif rule.role == "sym":
        yield shapes.symbol()
    elif rule.role == "list":
        yield shapes.operands()
    elif rule.role == "sreg":
        yield from map(shapes.special, ("%tid.x", "%clock64", "%tid", "%is_explicit_cluster"))
    elif rule.role == "any" or not rule.types:
        yield shapes.register(".b32")
    else:
        yield from _typed(rule, slots)


def _typed(rule: OperandRule, slots: dict[str, str]) -> Iterator[OperandShape]:
    for wanted in rule.types:
        name = slots.get(wanted.name, wanted.name)
        if name not in types():
            continue
        names = [t.name for t in declarable()]
        register = shapes.register(name if name in names else min(holders(name, rule.how)))
        width = _width(wanted.width, slots)
        yield shapes.vector(*[register] * width) if width else register
        if width > 1:
            yield shapes.register(register.type, width)
        if rule.constants and rule.role == "r" and not width:
            yield shapes.immediate("int")
    if rule.sink:
        yield shapes.SINK


def _width(width: Width | None, slots: dict[str, str]) -> int:
    candidate = Candidate.__new__(Candidate)
    object.__setattr__(candidate, "slots", slots)
    return _Binding(candidate, (), 64)._width(width)


def main(arguments: list[str]) -> int:
    found = [complaint for mnemonic in sorted(arguments or mnemonics()) for complaint in complaints(mnemonic)]
    for complaint in found:
        print(complaint)
    print(f"{sum(len(forms(m)) for m in arguments or mnemonics())} forms, {len(found)} complaints")
    return min(len(found), 1)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
