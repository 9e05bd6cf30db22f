"""Statistics of a module."""

from __future__ import annotations

from collections import Counter

from ptxkit.frozen import frozen
from ptxkit.isa.targets import version_text
from ptxkit.names import Kind, Scope, Symbol, resolve
from ptxkit.syntax import Function, Module

SIZES = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}


@frozen
class FunctionStatistics:
    """A function: `opcodes` counts complete opcodes, `registers` declared registers by type; the rest is in bytes."""

    name: str
    is_entry: bool
    instructions: int
    opcodes: dict[str, int]
    registers: dict[str, int]
    shared_bytes: int
    local_bytes: int


@frozen
class Statistics:
    """A file. `shared_bytes` counts module-level variables only; those of functions are counted there."""

    path: str | None
    version: str | None
    targets: tuple[str, ...]
    shared_bytes: int
    functions: tuple[FunctionStatistics, ...]

    @property
    def instructions(self) -> int:
        return sum(function.instructions for function in self.functions)

    @property
    def opcodes(self) -> dict[str, int]:
        total: Counter[str] = Counter()
        for function in self.functions:
            total.update(function.opcodes)
        return dict(total.most_common())


def statistics(module: Module) -> Statistics:
    """Functions, instructions, opcode mix, registers by type, and shared and local memory of a module."""
    names = resolve(module)
    inner: dict[int, list[Scope]] = {}
    for scope in names.all_scopes:
        if scope.path:
            inner.setdefault(scope.path[0], []).append(scope)
    functions = []
    for i, child in enumerate(module.children):
        if not isinstance(child, Function):
            continue
        scopes = inner.get(i, [])
        symbols = [symbol for scope in scopes for symbol in _symbols(scope)]
        instructions = child.instructions
        registers: Counter[str] = Counter()
        for symbol in symbols:
            if symbol.kind is Kind.REGISTER:
                registers[symbol.type or "?"] += (symbol.count or 1) * symbol.vector
        functions.append(
            FunctionStatistics(
                child.name,
                child.is_entry,
                len(instructions),
                dict(Counter(instruction.opcode.text for instruction in instructions).most_common()),
                dict(registers.most_common()),
                _bytes(symbols, ".shared"),
                _bytes(symbols, ".local"),
            )
        )
    version = module.version
    return Statistics(
        module.path,
        version_text(version) if version else None,
        module.targets,
        _bytes(_symbols(names.root), ".shared"),
        tuple(functions),
    )


def _symbols(scope: Scope) -> list[Symbol]:
    return [*scope.symbols.values(), *[symbol for family in scope.ranges.values() for symbol in family]]


def element_bytes(symbol: Symbol) -> int:
    """The size of one element of a variable in bytes; 0 if its type has none (a texture, a predicate)."""
    digits = "".join(character for character in (symbol.type or "") if character.isdecimal())
    return SIZES.get(digits, 0) * symbol.vector


def symbol_bytes(symbol: Symbol) -> int:
    """The size of a variable in bytes; 0 if unknown."""
    size = element_bytes(symbol)
    for dimension in symbol.dimensions:
        size *= dimension or 0
    return size


def _bytes(symbols: list[Symbol], space: str) -> int:
    return sum(symbol_bytes(symbol) for symbol in symbols if symbol.space and symbol.space.partition("::")[0] == space)
