"""Specializes a kernel for given arguments and block sizes."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.analyses.registers.registers import Register, registers
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.symbolic.values import values as values_of
from ptxkit.isa.types import Type, types
from ptxkit.names import Kind
from ptxkit.rewriters.dead_code import dead_code, is_pure
from ptxkit.rewriters.engine.checking import new_errors
from ptxkit.rewriters.engine.code import code, traits
from ptxkit.rewriters.engine.headers import with_directive, without_directive
from ptxkit.rewriters.engine.parameters import layout
from ptxkit.rewriters.engine.points import points
from ptxkit.rewriters.engine.rewrite import FailedCheck, Manifest, Rewrite, require_readable
from ptxkit.syntax import Address, Function, Instruction, Module, Name, Node, Path, Vector, constant_value, number_value, shape

MOVES = {8: "", 16: "b16", 32: "b32", 64: "b64"}


def specialize(module: Module, *, kernel: str, values: str = "", reqntid: str = "", clean: bool = True) -> Rewrite:
    """Specializes a kernel for known argument values.

    Loads of these parameters are replaced by the values, integers that follow from them are computed, and branches are decided. The
    parameters stay in the signature, and the kernel must still be launched with these values.

    * `kernel`: The kernel.
    * `values`: Pairs such as `n=1024,alpha=0f3f800000`, by name or by number from 0 (`2=1024`); the bytes of an array as `hex:00ff…`.
    * `reqntid`: Also fix the size of a CTA, such as `128,1,1`.
    * `clean`: Remove code that is never executed or never used afterwards.

    Raises ValueError for an unknown kernel or parameter, or a value that does not fit; Refused if the result would have an error, and for
    a module with syntax errors.
    """
    require_readable(module)
    at = next((i for i, child in enumerate(module.children) if isinstance(child, Function) and child.name == kernel and child.body), None)
    if at is None or not (function := module.children[at]).is_entry:  # type: ignore[attr-defined]
        raise ValueError(f"no kernel is called {kernel!r}; there are {', '.join(k.name for k in module.kernels) or 'none'}")
    assert isinstance(function, Function)
    given = _bytes(function, values)
    header = function.header
    if reqntid:
        header = with_directive(without_directive(header, ".maxntid"), ".reqntid", reqntid)
    new = module.replace((at,), function.with_children((header, *function.children[1:])))
    new = new.edit(_loads(_routine(new, at), given) or {(at, 0): (header,)})
    while edits := _folded(_routine(new, at)):
        new = new.edit(edits)
    if clean and "debug" not in new.targets:
        new = dead_code(new, kernel=kernel).module
    errors = new_errors(module, new)
    if errors:
        raise FailedCheck(new, errors)
    options = {"kernel": kernel, "values": values, "reqntid": reqntid, "clean": clean}
    return Rewrite(new, Manifest("specialize", options, changes=tuple([f"{name} = {data.hex()}" for name, data in given.items()])))


def _routine(module: Module, at: int) -> Routine:
    return next(routine for routine in routines(module) if routine.path == (at,))


def _bytes(function: Function, values: str) -> dict[str, bytes]:
    """The bytes of each given parameter."""
    found: dict[str, bytes] = {}
    arguments = layout(function.header)
    for word in values.replace(",", " ").split():
        name, equals, text = word.partition("=")
        if name.isdecimal() and int(name) < len(arguments):
            name = arguments[int(name)].name
        argument = next((argument for argument in arguments if argument.name == name), None)
        if not equals or argument is None:
            raise ValueError(f"{function.name!r} has no parameter for {word!r}; there are {', '.join(a.name for a in arguments) or 'none'}")
        found[name] = _encoded(text, argument.type, argument.bytes)
    return found


def _encoded(text: str, type_: str, size: int) -> bytes:
    if text.startswith("hex:"):
        try:
            data = bytes.fromhex(text.removeprefix("hex:"))
        except ValueError:
            raise ValueError(f"pairs of hexadecimal digits are expected after hex:, not {text!r}") from None
        if len(data) != size:
            raise ValueError(f"{size} bytes are needed, not {len(data)}: {text!r}")
        return data
    known = types()[type_]
    if known.bytes != size:
        raise ValueError(f"the bytes of an array are given as hex:…, not {text!r}")
    try:
        value = number_value(text)
        if known.kind == "float" or isinstance(value, float):
            return _encoded_float(float(value), text, known)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a number that fits into {type_}") from None
    if not -(1 << (8 * size - 1)) <= value < 1 << (8 * size):
        raise ValueError(f"{text} does not fit into {size} bytes")
    return (value & ((1 << (8 * size)) - 1)).to_bytes(size, "little")


def _encoded_float(value: float, text: str, type_: Type) -> bytes:
    """A number as a float of that type, or as one of its size. Raises ValueError or OverflowError if it does not fit."""
    formats = {2: "<e", 4: "<f", 8: "<d"}
    if type_.kind not in ("float", "untyped") or type_.bytes not in formats or type_.name == ".bf16":
        raise ValueError
    if math.isinf(value) and not text.lstrip("-").lower().startswith(("0f", "0d")):
        raise OverflowError
    return struct.pack(formats[type_.bytes], value)


def _loads(routine: Routine, given: dict[str, bytes]) -> dict[Path, Sequence[Node]]:
    """Replacements for the loads of the given parameters."""
    edits: dict[Path, Sequence[Node]] = {}
    named = registers(routine)
    scope = routine.names.scopes[(*routine.path, 0)]
    for i, instruction in enumerate(routine.instructions):
        modifiers = instruction.opcode.modifiers
        if (
            instruction.opcode.mnemonic != "ld"
            or not any(word.startswith(".param") for word in modifiers)
            or points(routine).sequence[i] >= 0
        ):
            continue
        target, address = instruction.operands
        if not isinstance(address, Address) or not isinstance(address.base, Name):
            continue
        data = given.get(address.base.text)
        symbol = routine.names.scope_of(routine.where(i)).lookup(address.base.text)
        if data is None or symbol is None or symbol.kind is not Kind.PARAMETER or symbol is not scope.local(address.base.text):
            continue
        offset = constant_value(address.offset) if address.offset is not None else 0
        known = types().get(modifiers[-1])
        elements = target.elements if isinstance(target, Vector) else (target,)
        if not isinstance(offset, int) or known is None:
            continue
        start = offset * address.offset_sign
        if start < 0 or start + known.bytes * len(elements) > len(data):
            continue
        texts: list[str] | None = []
        for k, element in enumerate(elements):
            part = data[start + k * known.bytes : start + (k + 1) * known.bytes]
            value = int.from_bytes(part, "little", signed=known.kind == "signed")
            numbers = named.of(i, element)
            if element.text == "_":
                continue
            move = _move(element.text, named.table[numbers[0]], value) if len(numbers) == 1 else None
            if move is None:
                texts = None
                break
            texts.append(move)  # type: ignore[union-attr]
        if texts:
            edits[routine.where(i)] = _instead(instruction, texts)
    return edits


def _move(name: str, register: Register, value: int) -> str | None:
    """The instruction that moves these bits into a register."""
    if register.is_predicate:
        return f"mov.pred {name}, {-(value & 1)};"
    bits = value & ((1 << register.bits) - 1)
    if register.type == ".f32":
        return f"mov.f32 {name}, 0f{bits:08X};"
    if register.type == ".f64":
        return f"mov.f64 {name}, 0d{bits:016X};"
    move = MOVES.get(register.bits)
    return f"mov.{move} {name}, {bits};" if move else None


def _instead(old: Instruction, texts: Sequence[str]) -> tuple[Node, ...]:
    guard = f"{old.guard.text} " if old.guard is not None else ""
    first, *rest = [code(guard + text).statements[0] for text in texts]
    return (first.with_leading(old.leading), *[one.with_leading("\n\t") for one in rest])  # type: ignore[attr-defined]


def _folded(routine: Routine) -> dict[Path, Sequence[Node]]:
    """Replacements for instructions whose result or guard is constant."""
    terms, defined, named = values_of(routine), ssa(routine).definitions, registers(routine)
    flow = control_flow(routine)
    edits: dict[Path, Sequence[Node]] = {}
    for i, instruction in enumerate(routine.instructions):
        if flow.block_of[i] not in flow.reachable:
            continue
        guard = terms.guard(i)
        if guard is not None and guard.constant is not None:
            if points(routine).sequence[i] < 0:
                edits[routine.where(i)] = (_unguarded(instruction),) if guard.constant else ()
            continue
        target = instruction.operands[0] if len(defined[i]) == 1 else None
        if not isinstance(target, Name) or instruction.opcode.mnemonic == "mov" or not is_pure(bindings(routine)[i]):
            continue
        number = terms.of(defined[i][0]).constant
        if number is None or traits(instruction.opcode.text).writes_carry:
            continue
        move = _move(target.text, named.table[named.writes[i][0]], number)
        if move is not None:
            edits[routine.where(i)] = _instead(instruction, [move])
    return edits


def _unguarded(instruction: Instruction) -> Instruction:
    return Instruction(instruction.leading, shape("", *instruction.shape.literals[2:]), instruction.children[1:])
