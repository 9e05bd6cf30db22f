"""Descriptions of instructions from the table, for people and for programs."""

from __future__ import annotations

from typing import Any

from ptxkit.isa.directives import directives
from ptxkit.isa.forms import Form, OperandRule
from ptxkit.isa.opcodes import split_opcode
from ptxkit.isa.registers import special_register
from ptxkit.isa.requirements import Requirement, every, requirement
from ptxkit.isa.table import entry_text, forms
from ptxkit.isa.targets import targets, version_text


def forms_with(opcode: str) -> tuple[Form, ...]:
    """The forms of a mnemonic that accept all the given modifiers; `ld` has many, `ld.global.nc` few."""
    mnemonic, modifiers = split_opcode(opcode)
    return tuple(form for form in forms(mnemonic) if all(modifier in form.takes for modifier in modifiers))


def entries_with(opcode: str) -> tuple[str, ...]:
    """The entries of those forms, in the table's notation; an entry that several forms share occurs once."""
    return tuple(dict.fromkeys(entry_text(form) for form in forms_with(opcode)))


def describe(form: Form) -> dict[str, Any]:
    """A form as plain data: syntax, section, summary, modifiers by slot, requirements with any modifiers, and the threads that execute
    it together."""
    base = every(requirement(needs.what) for needs in form.needs if not needs.when)
    converges = [f"{one.what.level}{' aligned' * one.what.aligned}{' whole' * one.what.whole}" for one in form.converges]
    return {
        "syntax": form.syntax,
        "section": form.section,
        "summary": form.summary,
        "modelled": form.modelled,
        "slots": {slot.name: [choice.modifier for choice in slot.choices] for slot in form.slots if len(slot.choices) > 1},
        "needs": [{"target": one.target, "version": version_text(one.version)} for one in base.alternatives()],
        "converges": converges,
        "flow": [flow.what for flow in form.flow],
        "effects": [effect.what for effect in form.effects],
    }


def declared(name: str) -> str | None:
    """A special register (`%tid.x`), a directive (`.maxntid`) or a target (`sm_90a`) as sentences; None for other names."""
    register, directive, target = special_register(name), directives().get(name), targets().get(name)
    if register is not None:
        shared = "Each thread has its own value." if register.uniform == "thread" else f"The same for the whole {register.uniform}."
        lines = [f"{name}  {'.v' + str(register.components) + ' ' if register.components > 1 else ''}{' or '.join(register.types)}"]
        lines += [f"  {register.summary} (PTX ISA {register.section})", "", f"  {shared}"]
        lines += ["  Two reads may give different values."] if register.volatile else []
        return "\n".join([*lines, *_needed(register.needs)])
    if directive is not None:
        return "\n".join([name, f"  {directive.summary} (PTX ISA {directive.section})", "", *_needed(directive.needs)])
    if target is not None:
        return f"{name}\n  {target.portability}\n\n  Needs PTX {target.since[0]}.{target.since[1]}, or later."
    return None


def _needed(needs: Requirement) -> list[str]:
    """A requirement as a line; empty if no known target satisfies it."""
    found = [f"{one.target} with PTX {version_text(one.version)}" for one in needs.alternatives()]
    return [f"  Needs {' or '.join(found)}, or later."] if found else []


_WORDS = {"w": "writes", "r": "reads", "rw": "reads and writes"}


def in_words(form: Form) -> str:
    """A form as sentences: its effect, operands, modifiers, requirements, and the threads that execute it together."""
    lines = [form.syntax, f"  {form.summary} (PTX ISA {form.section})" if form.section else f"  {form.summary}", ""]
    operands = form.syntax.partition(" ")[2]
    for name, rules in sorted(form.rules.items(), key=lambda item: operands.find(item[0])):
        rule = rules[0]
        kinds = list(dict.fromkeys([one.name for each in rules for one in each.types]))
        what = f" ({', '.join(kinds)})" if kinds else ""
        lines.append(f"  {name}: {_WORDS.get(rule.role, 'takes')} {_spoken_operand(rule)}{what}")
    for slot in form.slots:
        if len(slot.choices) > 1 or slot.optional:
            shown = " ".join([choice.modifier for choice in slot.choices])
            choice = "optional" if len(slot.choices) == 1 else f"{'optional, ' if slot.optional else ''}one of {shown}"
            lines.append(f"  .{slot.name.lstrip('.')}: {choice}")
    base = every(requirement(needs.what) for needs in form.needs if not needs.when)
    lines += _needed(base)
    for one in form.converges:
        group = {"cta": "CTA", "warpgroup": "warpgroup", "cluster": "cluster"}.get(one.what.level, one.what.level)
        together = "All threads of the " + group if one.what.whole else f"Threads of the {group}"
        lines.append(
            f"  {together} execute it together{', in converged warps' if one.what.aligned else ''}{' in some forms' * bool(one.when)}."
        )
    for access in dict.fromkeys([(one.what.access, one.what.operand, one.what.is_async) for one in form.memory]):
        lines.append(f"  {'Asynchronously ' if access[2] else ''}{'reads' if access[0] == 'read' else 'writes'} memory at {access[1]}.")
    return "\n".join(lines).replace("\n  reads memory", "\n  Reads memory").replace("\n  writes memory", "\n  Writes memory")


def _spoken_operand(rule: OperandRule) -> str:
    if "addr" in rule.role or rule.spaces:
        return f"an address{', space ' + ' or '.join(rule.spaces) if rule.spaces else ''}"
    return "a constant" if rule.role in ("imm", "const") else "a register" if rule.role in ("w", "rw") else "a register or a constant"
