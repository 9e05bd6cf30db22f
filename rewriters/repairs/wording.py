"""Instructions as text: new ones from the instruction table, and modified existing ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ptxkit.analyses.framework.routine import Routine
from ptxkit.isa.binding import Bound
from ptxkit.isa.forms import Form
from ptxkit.isa.table import forms
from ptxkit.memo import expression

_OPTIONAL = expression(r"\{([^{}]*)\}")


def worded(form: Form, slots: Mapping[str, str], *operands: str) -> str:
    """An instruction of a form with `.aligned` and the given slots; other optional modifiers are omitted."""
    head = form.syntax.split()[0]
    head = _OPTIONAL.sub(lambda found: found[1] if found[1] == ".aligned" or found[1] in slots else "", head)
    for slot, modifier in slots.items():
        head = re.sub(rf"{re.escape(slot)}(?![\w:])", modifier, head)
    return f"{head} {', '.join(operands)};" if operands else f"{head};"


def on_queue(mnemonic: str, queue: str, action: str) -> list[Form]:
    """The forms of a mnemonic with an action (`commit`, `wait`) on a queue of asynchronous operations."""
    found = [form for form in forms(mnemonic) for one in form.asynchronous if (one.what.group, one.what.action) == (queue, action)]
    return list(dict.fromkeys(found))


def with_effect(mnemonic: str, effect: str) -> list[Form]:
    """The forms of a mnemonic that have an effect."""
    return [form for form in forms(mnemonic) if any(one.what == effect for one in form.effects)]


def changed(
    routine: Routine,
    i: int,
    *,
    opcode: Callable[[str], str] = str,
    operands: Mapping[int, str] | None = None,
    unguarded: bool = False,
) -> str:
    """An existing instruction with another opcode, other operands, or without its guard."""
    one = routine.instructions[i]
    texts = [operand.text.strip() for operand in one.operands]
    for n, text in (operands or {}).items():
        texts[n] = text
    guard = f"{one.guard.text.strip()} " if one.guard is not None and not unguarded else ""
    head = opcode(one.opcode.text.strip())
    return f"{guard}{head} {', '.join(texts)};" if texts else f"{guard}{head};"


def position(bound: Bound, name: str) -> int | None:
    """The index of the operand that the form gives a name; None if it is absent, or part of another operand."""
    operand = bound.operand(name)
    return operand.path[0] if operand is not None and len(operand.path) == 1 else None
