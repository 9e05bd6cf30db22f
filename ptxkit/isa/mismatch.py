"""Why an instruction is of no form of the table: the nearest form, and the first thing that differs."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from ptxkit.isa.notation import Condition, Form, Slot
from ptxkit.isa.types import is_type


@attrs.frozen
class Mismatch:
    """What stands in the way.

    `kind` is one of unknown-opcode, unknown-modifier, modifier-not-allowed, modifiers-exclude-each-other, modifier-missing,
    operand-count, operand-kind, operand-type, vector-width, immediate-range, state-space, predicate, special-register.
    `message` is one sentence without a full stop; `form` the nearest form; `path` where the operand is that it speaks of, and
    `modifier` the modifier; `expected` and `found` are short.
    """

    kind: str
    message: str
    form: Form | None
    path: tuple[int, ...] = ()
    modifier: str = ""
    expected: str = ""
    found: str = ""


def about_modifiers(opcode: str, mnemonic: str, modifiers: tuple[str, ...], forms: tuple[Form, ...]) -> Mismatch:
    """Why no form of a mnemonic takes the modifiers of an opcode."""
    best = max((_Fit(form, modifiers) for form in forms), key=lambda fit: fit.rank)
    form, known = best.form, {m for f in forms for m in f.takes}
    unknown = next((m for m in modifiers if m not in known), "")
    missing = best.missing[0] if best.missing else None
    if unknown:
        wanted = _choices(missing) if missing else ""
        text = f"`{unknown}` is no modifier of `{mnemonic}`" + (f"; {wanted} is needed" if wanted else "")
        return Mismatch("unknown-modifier", text, form, modifier=unknown, expected=wanted, found=unknown)
    if best.left:
        return _left_over(best, mnemonic, missing)
    if missing:
        wanted = _choices(missing)
        text = f"`{opcode}` lacks {wanted}"
        return Mismatch("modifier-missing", text, form, modifier=missing.name, expected=wanted)
    text = f"the types or state spaces of `{opcode}` are not in the order of `{form.syntax}`"
    return Mismatch("modifier-not-allowed", text, form, expected=form.syntax, found=opcode)


def _left_over(best: _Fit, mnemonic: str, missing: Slot | None) -> Mismatch:
    left = best.left[0]
    rest = "".join(m for m in best.modifiers if m != left)
    if missing and is_type(left) == any(is_type(c.modifier) for c in missing.choices):
        wanted = _choices(missing)
        text = f"`{left}` where {wanted} is needed"
        return Mismatch("modifier-not-allowed", text, best.form, modifier=left, expected=wanted, found=left)
    other = next((m for m in best.modifiers if m != left and m in best.form.takes and best.form.takes.get(left) == best.form.takes[m]), "")
    if other:
        text = f"`{left}` and `{other}` exclude each other"
        return Mismatch("modifiers-exclude-each-other", text, best.form, modifier=left, found=left)
    text = f"`{left}` is not allowed with `{mnemonic}{rest}`"
    return Mismatch("modifier-not-allowed", text, best.form, modifier=left, found=left)


@attrs.define
class _Fit:
    """How well a form takes some modifiers: each goes to the first free slot that has it."""

    form: Form
    modifiers: tuple[str, ...]
    left: list[str] = attrs.field(factory=list)
    missing: list[Slot] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        taken: set[int] = set()
        for modifier in self.modifiers:
            free = [p for p in self.form.takes.get(modifier, ()) if p not in taken]
            if free:
                # A slot that must be filled comes before one that may stay empty.
                taken.add(next((p for p in free if not self.form.slots[p].optional), free[0]))
            else:
                self.left.append(modifier)
        self.missing = [s for p, s in enumerate(self.form.slots) if p not in taken and not s.optional]

    @property
    def rank(self) -> tuple[int, int, int]:
        return (-len(self.left) - len(self.missing), -len(self.left), sum(not is_type(m) for m in self.left))


def about_constraint(form: Form, modifiers: tuple[str, ...], slots: Mapping[str, str], when: Condition, then: Condition | None) -> Mismatch:
    """Why a `require` or a `never` of a form is broken."""
    there = [_spoken(a.kind, a.subject, a.values, modifiers, slots) for a in when if not a.negated]
    absent = [" or ".join(f"`{v}`" for v in a.values) or f"operand {a.subject}" for a in when if a.negated]
    context = " and ".join(filter(None, there)) or f"`{form.mnemonic}`"
    without = f" without {' and '.join(absent)}" if absent else ""
    named = next((m for a in when if a.kind in ("has", "slot") and not a.negated for m in modifiers if _names(m, a.values, slots)), "")
    if then is None:
        kind = "modifiers-exclude-each-other" if len(there) > 1 and not absent else "modifier-missing" if absent else "modifier-not-allowed"
        text = f"{context} may not stand together" if len(there) > 1 and not absent else f"{context} is not allowed{without}"
        return Mismatch(kind, text, form, modifier=named, found=context)
    wanted = " and ".join(("no " if a.negated else "") + (" or ".join(f"`{v}`" for v in a.values) or f"operand {a.subject}") for a in then)
    kind = "modifier-not-allowed" if all(a.negated for a in then) else "modifier-missing"
    return Mismatch(kind, f"{context}{without} needs {wanted}", form, modifier=named, expected=wanted, found=context)


def _names(modifier: str, values: tuple[str, ...], slots: Mapping[str, str]) -> bool:
    return modifier in values or any(slots.get(v) == modifier for v in values)


def _spoken(kind: str, subject: str, values: tuple[str, ...], modifiers: tuple[str, ...], slots: Mapping[str, str]) -> str:
    if kind == "given":
        return f"operand {subject}"
    if kind == "is":
        return f"{' or '.join(values)} as operand {subject}"
    if kind == "slot":
        return f"`{slots.get(subject, '')}`"
    found = next((m for m in modifiers if _names(m, values, slots)), "")
    return f"`{found}`" if found else ""


def _choices(slot: Slot) -> str:
    names = [f"`{c.modifier}`" for c in slot.choices]
    if len(names) > 12:
        names = [*names[:10], "…"]
    return names[0] if len(names) == 1 else f"one of {' '.join(names)}"


def wanted_words(types: tuple[str, ...]) -> str:
    """Types as a message names them: "`.f32`", "`.u32` or `.b64`"."""
    return " or ".join(f"`{t}`" for t in dict.fromkeys(types)) or "another operand"
