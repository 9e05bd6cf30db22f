"""An instruction as the table has it, for people and for programs."""

from __future__ import annotations

from typing import Any

from ptxkit.isa.binding import split_opcode
from ptxkit.isa.notation import Form
from ptxkit.isa.requirements import every, requirement
from ptxkit.isa.table import entry_text, forms


def forms_with(opcode: str) -> tuple[Form, ...]:
    """The forms of a mnemonic that can have all the modifiers given; `ld` has many, `ld.global.nc` few."""
    mnemonic, modifiers = split_opcode(opcode)
    return tuple(form for form in forms(mnemonic) if all(modifier in form.takes for modifier in modifiers))


def entries_with(opcode: str) -> tuple[str, ...]:
    """The entries, in the table's notation, of those forms; an entry that several forms share comes once."""
    return tuple(dict.fromkeys(entry_text(form) for form in forms_with(opcode)))


def describe(form: Form) -> dict[str, Any]:
    """A form as plain data: syntax, section, summary, modifiers by slot, what it needs with any modifiers, who executes it together."""
    base = every(requirement(needs.what) for needs in form.needs if not needs.when)
    converges = [f"{one.what.level}{' aligned' * one.what.aligned}{' whole' * one.what.whole}" for one in form.converges]
    return {
        "syntax": form.syntax,
        "section": form.section,
        "summary": form.summary,
        "modelled": form.modelled,
        "slots": {slot.name: [choice.modifier for choice in slot.choices] for slot in form.slots if len(slot.choices) > 1},
        "needs": [{"target": one.target, "version": f"{one.version[0]}.{one.version[1]}"} for one in base.alternatives()],
        "converges": converges,
        "flow": [flow.what for flow in form.flow],
        "effects": [effect.what for effect in form.effects],
    }
