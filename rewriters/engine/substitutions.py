"""Other instructions that do the same, for assemblers and targets that do not know the first.

Each function gives the text to write instead, without guards, or None where it has nothing to say. What is written is checked again by
whoever asks. `same` says in words why nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ptxkit.isa.binding import Bound
from ptxkit.syntax.nodes import Address, Instruction, Vector

HINTS = (".L1::", ".L2::", ".level::")
OLDER = {".shared::cta": ".shared", ".param::entry": ".param", ".param::func": ".param"}


class Substitution(NamedTuple):
    """A way to write something else: `make` gives the new text, empty to leave the instruction out."""

    same: str
    make: Callable[[Instruction, Bound], str | None]


def _text(mnemonic: str, modifiers: tuple[str, ...] | list[str], operands: tuple[str, ...] | list[str]) -> str:
    return f"{mnemonic}{''.join(modifiers)} {', '.join(operands)};".replace(" ;", ";")


def _operands(instruction: Instruction) -> list[str]:
    return [operand.text for operand in instruction.operands]


def _without_hints(instruction: Instruction, bound: Bound) -> str | None:
    opcode = instruction.opcode
    kept = [word for word in opcode.modifiers if not word.startswith(HINTS)]
    if len(kept) == len(opcode.modifiers) or bound.effects:
        return None
    operands = _operands(instruction)
    return _text(opcode.mnemonic, kept, operands[:-1] if any("cache_hint" in word for word in opcode.modifiers) else operands)


def _older_spaces(instruction: Instruction, bound: Bound) -> str | None:
    opcode = instruction.opcode
    kept = [OLDER.get(word, word) for word in opcode.modifiers if word != ".weak"]
    return _text(opcode.mnemonic, kept, _operands(instruction)) if tuple(kept) != opcode.modifiers else None


def _left_out(instruction: Instruction, bound: Bound) -> str | None:
    kinds = {"setmaxnreg", "grid-launch", "grid-wait", "prefetch", "applypriority"}
    return "" if bound.effects and kinds.issuperset(bound.effects) and not bound.writes else None


def _policy(instruction: Instruction, bound: Bound) -> str | None:
    return f"mov.b64 {instruction.operands[0].text}, 0;" if instruction.opcode.mnemonic == "createpolicy" else None


def _bar(instruction: Instruction, bound: Bound) -> str | None:
    opcode = instruction.opcode
    if opcode.mnemonic not in ("barrier", "bar"):
        return None
    modifiers = [word for word in opcode.modifiers if word not in (".cta", ".aligned")]
    if opcode.mnemonic == "barrier" and (not opcode.has(".aligned") or opcode.has(".cluster")):
        return None
    return _text("bar", modifiers, _operands(instruction))


def _membar(instruction: Instruction, bound: Bound) -> str | None:
    opcode = instruction.opcode
    scope = {".cta": ".cta", ".gpu": ".gl", ".sys": ".sys"}.get(next(iter(opcode.modifiers[-1:]), ""))
    if opcode.mnemonic != "fence" or scope is None or len(opcode.modifiers) != 2 or opcode.modifiers[0] not in (".sc", ".acq_rel"):
        return None
    return f"membar{scope};"


def _volatile(instruction: Instruction, bound: Bound) -> str | None:
    opcode = instruction.opcode
    if opcode.mnemonic not in ("ld", "st") or not opcode.has(".relaxed"):
        return None
    kept = [".volatile" if word == ".relaxed" else word for word in opcode.modifiers if word not in (".cta", ".cluster", ".gpu", ".sys")]
    return _text(opcode.mnemonic, kept, _operands(instruction))


def _halves(instruction: Instruction, bound: Bound) -> str | None:
    opcode, operands = instruction.opcode, instruction.operands
    half = {".v8": ".v4", ".v4": ".v2"}.get(bound.slot(".vec"))
    size = {"8": 1, "16": 2, "32": 4, "64": 8}.get(bound.type.lstrip(".busf"), 0)
    if opcode.mnemonic not in ("ld", "st") or half is None or not size or len(operands) != 2:
        return None
    vector, address = operands if opcode.mnemonic == "ld" else operands[::-1]
    if not isinstance(vector, Vector) or not isinstance(address, Address) or len(address.parts) != 1:
        return None
    names = [element.text for element in vector.elements]
    if address.base.text in names or (address.offset is not None and not address.offset.text.isdecimal()) or address.offset_sign < 0:
        return None
    start = int(address.offset.text) if address.offset is not None else 0
    middle = len(names) // 2
    kept = [half if word == bound.slot(".vec") else word for word in opcode.modifiers if not word.startswith(HINTS)]
    texts = []
    for part, offset in ((names[:middle], start), (names[middle:], start + middle * size)):
        both = [f"{{{', '.join(part)}}}", f"[{address.base.text}+{offset}]" if offset else f"[{address.base.text}]"]
        texts.append(_text(opcode.mnemonic, kept, both if opcode.mnemonic == "ld" else both[::-1]))
    return " ".join(texts)


def _two_steps(instruction: Instruction, bound: Bound) -> str | None:
    opcode, operands = instruction.opcode, _operands(instruction)
    if opcode.mnemonic not in ("min", "max") or len(operands) != 4 or operands[0] == operands[3]:
        return None
    d, a, b, c = operands
    return f"{opcode.text} {d}, {a}, {b}; {opcode.text} {d}, {d}, {c};"


SUBSTITUTIONS = (
    Substitution("the modifier is the default, or the older name of the same", _older_spaces),
    Substitution("hints to caches change no result", _without_hints),
    Substitution("it advises the machine and changes no result", _left_out),
    Substitution("the policy is used by hints alone, which are left out", _policy),
    Substitution("the older name of the same barrier", _bar),
    Substitution("membar is at least as strong as this fence", _membar),
    Substitution("volatile accesses are at least as strong as relaxed ones", _volatile),
    Substitution("the elements of a vector are accessed one by one in any order", _halves),
    Substitution("the least or greatest of three is found in two steps", _two_steps),
)
