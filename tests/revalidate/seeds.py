"""Modules with one error each, made from a valid one, and where that error is."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import attrs

import ptxkit
from ptxkit.names import Kind, resolve
from ptxkit.syntax import Address, Declaration, Function, Index, Instruction, Label, Module, Name, Path, Vector, parse_operand

ARITHMETIC = ("add", "sub", "mul", "and", "or", "xor", "min", "max")
INTEGER_TYPES = (".u32", ".s32", ".b32", ".u64", ".s64", ".b64")


@attrs.frozen
class Seed:
    """A broken module; the error is at the start of this node, or `offset` characters into it."""

    kind: str
    module: Module
    path: Path
    offset: int = 0

    @property
    def start(self) -> int:
        return Index(self.module).span(self.path).start + self.offset


Candidate = tuple[Path, Instruction]
Maker = Callable[[Module, Path, Instruction], Seed | None]


def _first(instruction: Instruction) -> int:
    return len(instruction.children) - len(instruction.operands)


def _integer_arithmetic(instruction: Instruction) -> bool:
    return instruction.opcode.mnemonic in ARITHMETIC and instruction.opcode.modifiers[-1] in INTEGER_TYPES


def _with_operand(kind: str, module: Module, path: Path, instruction: Instruction, i: int, operand: str, inside: Path = ()) -> Seed:
    broken = module.replace(path, instruction.with_operand(i, parse_operand(operand)))
    return Seed(kind, broken, (*path, _first(instruction) + i, *inside))


def undeclared_register(module: Module, path: Path, instruction: Instruction) -> Seed | None:
    if not _integer_arithmetic(instruction) or not isinstance(instruction.operands[-1], Name):
        return None
    return _with_operand("undeclared register", module, path, instruction, len(instruction.operands) - 1, "%undeclared")


def wrong_type(module: Module, path: Path, instruction: Instruction) -> Seed | None:
    if not _integer_arithmetic(instruction) or not isinstance(instruction.operands[1], Name):
        return None
    names = resolve(module)
    mine = names.lookup(path, instruction.operands[1].text)
    if mine is None or mine.kind is not Kind.REGISTER or mine.type is None:
        return None
    scope = names.scope_of(path)
    for family, symbols in scope.ranges.items():
        other = symbols[0]
        if other.count is not None and other.type is not None and other.type[-2:] != mine.type[-2:] and other.kind is Kind.REGISTER:
            return _with_operand("wrong type", module, path, instruction, 1, f"{family}{other.count - 1}")
    return None


def result_of_wrong_type(module: Module, path: Path, instruction: Instruction) -> Seed | None:
    seed = wrong_type(module, path, instruction)
    if seed is None:
        return None
    wrong = seed.module.at(seed.path).text
    return _with_operand("result of wrong type", module, path, instruction, 0, wrong)


def number_as_result(module: Module, path: Path, instruction: Instruction) -> Seed | None:
    return _with_operand("number as result", module, path, instruction, 0, "5") if _integer_arithmetic(instruction) else None


def unknown_modifier(module: Module, path: Path, instruction: Instruction) -> Seed | None:
    if instruction.opcode.mnemonic not in ("ld", "st", "cvt", "mov", "setp", "mad", "shl"):
        return None
    opcode = instruction.opcode.text
    return Seed(
        "unknown modifier", module.replace(path, instruction.with_opcode(f"{opcode}.bogus")), (*path, _first(instruction) - 1), len(opcode)
    )


def unknown_type(module: Module, path: Path, instruction: Instruction) -> Seed | None:
    opcode = instruction.opcode.text
    if not _integer_arithmetic(instruction):
        return None
    at = opcode.rindex(".")
    return Seed("unknown type", module.replace(path, instruction.with_opcode(opcode[:at] + ".u33")), (*path, _first(instruction) - 1), at)


def rounding_of_integers(module: Module, path: Path, instruction: Instruction) -> Seed | None:
    if instruction.opcode.mnemonic not in ("add", "sub") or instruction.opcode.modifiers[-1] not in INTEGER_TYPES:
        return None
    opcode = instruction.opcode
    if len(opcode.modifiers) != 1:
        return None
    changed = f"{opcode.mnemonic}.rn{opcode.modifiers[0]}"
    return Seed(
        "rounding of integers",
        module.replace(path, instruction.with_opcode(changed)),
        (*path, _first(instruction) - 1),
        len(opcode.mnemonic),
    )


def flush_of_integers(module: Module, path: Path, instruction: Instruction) -> Seed | None:
    if instruction.opcode.text not in ("add.s32", "sub.s32", "min.s32", "max.s32", "add.s64", "mul.lo.s32"):
        return None
    mnemonic = instruction.opcode.mnemonic
    changed = instruction.opcode.text.replace(mnemonic, f"{mnemonic}.ftz", 1)
    return Seed(
        "flush of integers", module.replace(path, instruction.with_opcode(changed)), (*path, _first(instruction) - 1), len(mnemonic)
    )


def unknown_opcode(module: Module, path: Path, instruction: Instruction) -> Seed | None:
    if not _integer_arithmetic(instruction):
        return None
    return Seed(
        "unknown opcode", module.replace(path, instruction.with_opcode("frob" + instruction.opcode.text)), (*path, _first(instruction) - 1)
    )


def missing_operand(module: Module, path: Path, instruction: Instruction) -> Seed | None:
    if not _integer_arithmetic(instruction):
        return None
    text = instruction.text
    shorter = ptxkit.parse_statement(text[: text.rindex(",")] + ";")
    return Seed("missing operand", module.replace(path, shorter), (*path, _first(instruction) - 1))


def extra_operand(module: Module, path: Path, instruction: Instruction) -> Seed | None:
    if not _integer_arithmetic(instruction):
        return None
    longer = ptxkit.parse_statement(instruction.text.rstrip("; \t") + f", {instruction.operands[0].text};")
    return Seed("extra operand", module.replace(path, longer), (*path, _first(instruction) - 1))


def missing_label(module: Module, path: Path, instruction: Instruction) -> Seed | None:
    if instruction.opcode.mnemonic != "bra":
        return None
    return _with_operand("missing label", module, path, instruction, 0, "$nowhere")


def undeclared_guard(module: Module, path: Path, instruction: Instruction) -> Seed | None:
    if instruction.guard is None:
        return None
    return Seed("undeclared guard", module.replace((*path, 0, 0), Name("%noguard")), (*path, 0, 0))


def guard_of_wrong_type(module: Module, path: Path, instruction: Instruction) -> Seed | None:
    if instruction.guard is None:
        return None
    for family, symbols in resolve(module).scope_of(path).ranges.items():
        if symbols[0].type == ".b32":
            return Seed("guard of wrong type", module.replace((*path, 0, 0), Name(f"{family}1")), (*path, 0, 0))
    return None


def undeclared_address(module: Module, path: Path, instruction: Instruction) -> Seed | None:
    if instruction.opcode.mnemonic not in ("ld", "st"):
        return None
    for i, operand in enumerate(instruction.operands):
        if isinstance(operand, Address):
            return _with_operand("undeclared address", module, path, instruction, i, "[nowhere]", (0,))
    return None


def address_of_wrong_type(module: Module, path: Path, instruction: Instruction) -> Seed | None:
    if instruction.opcode.mnemonic not in ("ld", "st") or not instruction.opcode.has(".global"):
        return None
    for family, symbols in resolve(module).scope_of(path).ranges.items():
        if symbols[0].type in (".f32", ".pred"):
            i = next(i for i, operand in enumerate(instruction.operands) if isinstance(operand, Address))
            return _with_operand("address of wrong type", module, path, instruction, i, f"[{family}1]", (0,))
    return None


def vector_of_three(module: Module, path: Path, instruction: Instruction) -> Seed | None:
    if instruction.opcode.mnemonic not in ("ld", "st"):
        return None
    for i, operand in enumerate(instruction.operands):
        if isinstance(operand, Vector) and len(operand.elements) == 4:
            return _with_operand(
                "vector of three", module, path, instruction, i, "{" + ", ".join([one.text for one in operand.elements[:3]]) + "}"
            )
    return None


def unknown_function(module: Module, path: Path, instruction: Instruction) -> Seed | None:
    if instruction.opcode.mnemonic != "call":
        return None
    for i, operand in enumerate(instruction.operands):
        if isinstance(operand, Name) and not operand.text.startswith("%"):
            return _with_operand("unknown function", module, path, instruction, i, "nofunction")
    return None


def no_comma(module: Module, path: Path, instruction: Instruction) -> Seed | None:
    if not _integer_arithmetic(instruction):
        return None
    start = Index(module).span((*path, _first(instruction) + 1)).start
    text = module.text
    at = text.rindex(",", 0, start)
    broken = ptxkit.parse(text[:at] + " " + text[at + 1 :])
    return Seed("no comma", broken, path, start - Index(broken).span(path).start)


def label_twice(module: Module, path: Path, label: Label) -> Seed:
    return Seed("label twice", module.insert_after(path, label), (*path[:-1], path[-1] + 1, 0))


def register_twice(module: Module, path: Path, declaration: Declaration) -> Seed | None:
    if declaration.space != ".reg" or declaration.type is None:
        return None
    plain = ptxkit.parse_statement(f"\n    .reg {declaration.type} twice;")
    again = module.insert_after(path, plain, plain)
    at = next(i for i, child in enumerate(plain.children) if type(child).__name__ == "Declarator")
    return Seed("register twice", again, (*path[:-1], path[-1] + 2, at, 0))


MAKERS: tuple[Maker, ...] = (
    undeclared_register, wrong_type, result_of_wrong_type, number_as_result, unknown_modifier, unknown_type, rounding_of_integers,
    flush_of_integers, unknown_opcode, missing_operand, extra_operand, missing_label, undeclared_guard, guard_of_wrong_type,
    undeclared_address, address_of_wrong_type, vector_of_three, unknown_function, no_comma,
)  # fmt: skip


def seeds(module: Module, choice: random.Random, count: int) -> Iterator[Seed]:
    """So many broken modules of different kinds, if the module has places for them."""
    instructions: list[Candidate] = []
    others: list[Seed | None] = []
    for i, child in enumerate(module.children):
        if not isinstance(child, Function):
            continue
        for at, statement in child.statements():
            path = (i, *at)
            if isinstance(statement, Instruction):
                instructions.append((path, statement))
            elif isinstance(statement, Label) and not others:
                others.append(label_twice(module, path, statement))
            elif isinstance(statement, Declaration) and len(others) < 2:
                others.append(register_twice(module, path, statement))
    found = [seed for seed in others if seed is not None]
    for maker in MAKERS:
        choice.shuffle(instructions)
        made = next((seed for path, instruction in instructions if (seed := maker(module, path, instruction)) is not None), None)
        if made is not None:
            found.append(made)
    choice.shuffle(found)
    yield from found[:count]
