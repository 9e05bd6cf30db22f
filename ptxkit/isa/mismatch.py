"""Why no form of the table matches an instruction: the nearest form, and the first difference."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from ptxkit.frozen import frozen
from ptxkit.isa.forms import SPACES, Condition, Form, Slot
from ptxkit.isa.types import is_type

SPACES_AND_MORE = SPACES | {".reg", ".sreg", ".tex"}


@frozen
class Mismatch:
    """Why an instruction does not match a form.

    `kind` is one of unknown-opcode, unknown-modifier, modifier-not-allowed, modifiers-exclude-each-other, modifier-missing, operand-count,
    operand-kind, operand-type, vector-width, immediate-range, state-space, predicate, special-register. `message` is one sentence without a
    full stop; `form` the nearest form; `path` the position of the operand concerned, and `modifier` the modifier; `expected` and `found`
    are short.
    """

    kind: str
    message: str
    form: Form | None
    path: tuple[int, ...] = ()
    modifier: str = ""
    expected: str = ""
    found: str = ""


def about_modifiers(opcode: str, mnemonic: str, modifiers: tuple[str, ...], forms: tuple[Form, ...]) -> Mismatch:
    """Why no form of a mnemonic accepts the modifiers of an opcode."""
    fits = sorted((_fit(form, modifiers) for form in forms), key=lambda fit: fit.rank)
    best = fits[0]
    equal = [fit for fit in fits if fit.rank == best.rank]
    unknown = next((m for m in modifiers if not any(m in form.takes for form in forms)), "")
    wrong = unknown or next(iter(best.left), "")
    wanted = _wanted(equal, wrong)
    if not wrong:
        return Mismatch("modifier-missing", f"`{opcode}` lacks {wanted}", best.form, modifier=best.missing[0].name, expected=wanted)
    if wrong in SPACES_AND_MORE:
        return _wrong_space(best.form, wrong, mnemonic)
    if unknown:
        text = f"`{unknown}` is not a modifier of `{mnemonic}`" + (f"; {wanted} is needed" if wanted else "")
        return Mismatch("unknown-modifier", text, best.form, modifier=unknown, expected=wanted, found=unknown)
    if any(wrong in (c.modifier for c in slot.choices) for slot in best.missing):
        text = f"the modifiers of `{opcode}` are not in the order of `{best.form.syntax}`"
        return Mismatch("modifier-not-allowed", text, best.form, modifier=wrong, expected=best.form.syntax, found=opcode)
    if wanted:
        text = f"`{wrong}` where {wanted} is needed"
        return Mismatch("modifier-not-allowed", text, best.form, modifier=wrong, expected=wanted, found=wrong)
    return _excluded(best, mnemonic, wrong)


def _excluded(best: _Fit, mnemonic: str, wrong: str) -> Mismatch:
    """An extra modifier, which other forms have."""
    takes = best.form.takes
    other = next((m for m in best.modifiers if m != wrong and wrong in takes and takes.get(m) == takes[wrong]), "")
    if other:
        text = f"`{wrong}` and `{other}` exclude each other"
        return Mismatch("modifiers-exclude-each-other", text, best.form, modifier=wrong, found=wrong)
    rest = "".join(m for m in best.modifiers if m != wrong)
    text = f"`{wrong}` is not allowed with `{mnemonic}{rest}`"
    return Mismatch("modifier-not-allowed", text, best.form, modifier=wrong, found=wrong)


def _wrong_space(form: Form, wrong: str, mnemonic: str) -> Mismatch:
    names = [c.modifier for slot in form.slots if all(c.modifier in SPACES_AND_MORE for c in slot.choices) for c in slot.choices]
    wanted = _one_of(names)
    text = f"state space `{wrong}`" + (f" where {wanted} is needed" if wanted else f" on `{mnemonic}`, which takes none here")
    return Mismatch("state-space", text, form, modifier=wrong, expected=wanted, found=wrong)


@frozen
class _Fit:
    """How well a form matches some modifiers: those left over, and the required slots that are empty."""

    form: Form
    modifiers: tuple[str, ...]
    left: tuple[str, ...]
    missing: tuple[Slot, ...]

    @property
    def rank(self) -> tuple[int, int, int]:
        """Lower is better. A type left over is better than another modifier, which is more likely to identify the intended form."""
        return len(self.left) + len(self.missing), len(self.left), sum(not is_type(m) for m in self.left)


def _fit(form: Form, modifiers: tuple[str, ...]) -> _Fit:
    """Assigns each modifier to the first free slot that accepts it, required slots before optional ones."""
    taken: dict[int, str] = {}
    left = []
    for modifier in modifiers:
        kind = ordered_kind(modifier)
        least = max((number for number, other in taken.items() if kind and ordered_kind(other) == kind), default=-1)
        free = [number for number in form.takes.get(modifier, ()) if number not in taken and number > least]
        if not free:
            left.append(modifier)
            continue
        taken[next((number for number in free if not form.slots[number].optional), free[0])] = modifier
    missing = tuple(slot for number, slot in enumerate(form.slots) if number not in taken and not slot.optional)
    return _Fit(form, modifiers, tuple(left), missing)


def _wanted(fits: list[_Fit], wrong: str) -> str:
    """What the nearest forms lack; if a modifier is wrong, only what might replace it: a type for a type."""
    is_like_type = is_type(wrong) or (wrong[1:2] in tuple("bsuf") and wrong[2:3].isdigit())
    slots = [slot for fit in fits for slot in fit.missing[:1] if not wrong or is_like_type == is_type(slot.choices[0].modifier)]
    return _one_of([c.modifier for slot in slots for c in slot.choices])


def _one_of(names: list[str]) -> str:
    shown = [f"`{name}`" for name in dict.fromkeys(names)]
    if len(shown) > 16:
        shown = [*shown[:10], "…"]
    return "" if not shown else shown[0] if len(shown) == 1 else f"one of {' '.join(shown)}"


def about_constraint(form: Form, modifiers: tuple[str, ...], slots: Mapping[str, str], when: Condition, then: Condition | None) -> Mismatch:
    """Why a `require` or a `never` of a form is violated."""
    there = [_spoken(a.kind, a.subject, a.values, modifiers, slots) for a in when if not a.negated]
    absent = [" or ".join(f"`{v}`" for v in a.values) or f"operand {a.subject}" for a in when if a.negated]
    context = " and ".join(filter(None, there)) or f"`{form.mnemonic}`"
    without = f" without {' and '.join(absent)}" if absent else ""
    named = named_by(when, modifiers, slots)
    if then is None:
        kind = "modifiers-exclude-each-other" if len(there) > 1 and not absent else "modifier-missing" if absent else "modifier-not-allowed"
        text = f"{context} may not stand together" if len(there) > 1 and not absent else f"{context} is not allowed{without}"
        return Mismatch(kind, text, form, modifier=named, found=context)
    wanted = " and ".join(("no " if a.negated else "") + (" or ".join(f"`{v}`" for v in a.values) or f"operand {a.subject}") for a in then)
    kind = "modifier-not-allowed" if all(a.negated for a in then) else "modifier-missing"
    return Mismatch(kind, f"{context}{without} needs {wanted}", form, modifier=named, expected=wanted, found=context)


def named_by(when: Condition, modifiers: tuple[str, ...], slots: Mapping[str, str]) -> str:
    """The first modifier of an instruction that a condition names, or empty."""
    asked = [a.values for a in when if a.kind in ("has", "slot") and not a.negated]
    return next((m for values in asked for m in modifiers if _names(m, values, slots)), "")


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


def ordered_kind(modifier: str) -> str:
    """The kind of a modifier whose order among its kind matters, as in assemblers: "type", "space", "layout"; otherwise empty."""
    if modifier in (".row", ".col"):
        return "layout"
    if modifier.startswith((".shared", ".global")):
        return "space"
    return "type" if is_type(modifier) else ""


@lru_cache(maxsize=1024)
def wanted_words(types: tuple[str, ...]) -> str:
    """Types as a message names them: "`.f32`", "`.u32` or `.b64`"."""
    return " or ".join(f"`{t}`" for t in dict.fromkeys(types)) or "another operand"
