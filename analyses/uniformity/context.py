"""Interprocedural context of a function: the uniformity of its arguments and of what its callees return."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import attrs

from ptxkit.analyses.cfg.graph import callees, control_flow
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.registers.registers import registers
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.frozen import define, frozen
from ptxkit.isa.binding import Bound, BoundOperand
from ptxkit.names import Symbol
from ptxkit.syntax import Address, Name, Node

THREAD, GRID = Level.THREAD, Level.GRID
Used = Callable[[int, int], Level]
"""The level of a value where a block reads it."""


@frozen
class Context:
    """The calling context of a function, and its callees' results."""

    flat: bool
    """Whether CTAs can be assumed to be one-dimensional."""
    entry: Level
    """The groups of threads that enter the function together."""
    arguments: tuple[Level, ...]
    """In the order of the header's parameters."""
    results: Mapping[str, tuple[Level, ...]]
    """By function: the level of each return value if all arguments are uniform."""


@define
class _Variable:
    """A `.param` variable of a function, with its writers and readers."""

    stores: list[int] = attrs.field(factory=list)
    calls: list[tuple[int, int]] = attrs.field(factory=list)
    """Calls that return it, each with the index of the return value."""
    loads: list[int] = attrs.field(factory=list)
    given_to: list[int] = attrs.field(factory=list)


class Parameters:
    """The levels of values passed to a function and to its callees through parameters."""

    def __init__(self, routine: Routine, context: Context) -> None:
        self._routine = routine
        self._context = context
        self._bounds = bindings(routine)
        self._flow = control_flow(routine)
        header = routine.function.header
        own = [bound for bound in set(self._bounds) if isinstance(bound, Bound)]
        self._has_calls = any(bound.flow == "call" for bound in own)
        self.is_needed = self._has_calls or not header.is_entry
        """Whether there are any parameters besides those of a kernel, which are uniform."""
        self._indices = {parameter.name: index for index, parameter in enumerate(header.parameters)}
        self._variables: dict[Symbol, _Variable] = {}
        self._symbol_of: dict[int, Symbol] = {}
        self._operands: dict[int, tuple[list[Node], list[Node]]] = {}
        if self.is_needed:
            self._scan()

    def register(self, number: int) -> Level:
        """The level of a register on entry."""
        if not registers(self._routine).given >> number & 1:
            return THREAD
        symbol = registers(self._routine).table[number].symbol
        return self._argument(symbol) or THREAD if symbol is not None else THREAD

    def _argument(self, symbol: Symbol) -> Level | None:
        """The level of a parameter of the function; None if it is not one."""
        if symbol.path[: len(self._routine.path) + 1] != (*self._routine.path, 0):
            return None
        index = self._indices.get(symbol.name)
        if index is None:
            return None
        return GRID if self._routine.function.header.is_entry else self._context.arguments[index]

    def load(self, i: int, used: Used) -> Level | None:
        """The level of a value that instruction `i` loads from a parameter; None if it loads from none."""
        symbol = self._symbol_of.get(i)
        return None if symbol is None else self._of(symbol, self._flow.block_of[i], used)

    def _of(self, symbol: Symbol, block: int, used: Used) -> Level:
        """The level of a parameter in a block, from what the same block stored there."""
        level = self._argument(symbol)
        variable = self._variables.get(symbol)
        if level is not None:
            return level if variable is None or not (variable.stores or variable.calls) else THREAD
        if variable is None or not (variable.stores or variable.calls):
            return THREAD
        level = GRID
        for i in variable.stores:
            level = min(level, self.stored(i, used)) if self._flow.block_of[i] == block else THREAD
        for i, index in variable.calls:
            level = min(level, self._call(i, index, used)) if self._flow.block_of[i] == block else THREAD
        return level

    def stored(self, i: int, used: Used) -> Level:
        """The level of the value that a store stores."""
        block = self._flow.block_of[i]
        return min([used(use, block) for use in ssa(self._routine).uses[i]], default=GRID)

    def result(self, i: int, index: int, used: Callable[[int], Level]) -> Level:
        """The level of a register that a call returns."""
        returned = self._operands[i][0] if i in self._operands else []
        return self._call(i, index, lambda use, block: used(use)) if index < len(returned) else THREAD

    def _call(self, i: int, index: int, used: Used) -> Level:
        called = callees(self._routine, i, self._routine.instructions[i])
        if called.is_indirect or not called.names or i not in self._operands:
            return THREAD
        level = GRID
        for name in called.names:
            returned = self._context.results.get(name, ())
            level = min(level, returned[index] if index < len(returned) else THREAD)
        return min(level, *self.passed(i, used), GRID)

    def passed(self, i: int, used: Used) -> list[Level]:
        """The levels of a call's arguments."""
        block = self._flow.block_of[i]
        found = []
        for node in self._operands.get(i, ([], []))[1]:
            level = GRID
            for register in registers(self._routine).of(i, node):
                level = min(level, used(ssa(self._routine).read(i, register), block) if ssa(self._routine).uses[i] else THREAD)
            symbol = self._parameter_named(i, node)
            if symbol is not None:
                level = min(level, self._of(symbol, block, used))
            found.append(level)
        return found

    def loads_after(self, i: int) -> tuple[int, ...]:
        """The values whose level may drop with what instruction `i` reads, because they are loaded from parameters that it writes."""
        return self._after.get(i, ()) if self.is_needed else ()

    @cached_property
    def _after(self) -> dict[int, tuple[int, ...]]:
        definitions = ssa(self._routine).definitions
        returned: dict[int, list[int]] = {}
        for variable in self._variables.values():
            for call, _ in variable.calls:
                returned.setdefault(call, []).extend([number for load in variable.loads for number in definitions[load]])
        found = {call: list(numbers) for call, numbers in returned.items()}
        for variable in self._variables.values():
            loads = [number for load in variable.loads for number in definitions[load]]
            for call in variable.given_to:
                loads += [*returned.get(call, ()), *definitions[call]]
            for store in variable.stores:
                found.setdefault(store, []).extend(loads)
        return {i: tuple(numbers) for i, numbers in found.items()}

    def returned(self) -> list[tuple[list[int], list[int]]]:
        """For each return parameter of the function: the stores to it, and the calls that return it; empty for a register."""
        header = self._routine.function.header
        found: list[tuple[list[int], list[int]]] = []
        scope = self._routine.names.scopes[(*self._routine.path, 0)]
        for parameter in header.returns:
            symbol = scope.lookup(parameter.name)
            variable = self._variables.get(symbol) if symbol is not None else None
            found.append(([], []) if variable is None else (variable.stores, [call for call, _ in variable.calls]))
        return found

    # --- scanning

    def _scan(self) -> None:
        for i, bound in enumerate(self._bounds):
            if not isinstance(bound, Bound):
                continue
            if bound.flow == "call":
                self._scan_call(i, bound)
                continue
            for memory in bound.memory:
                operand = bound.operand(memory.operand)
                symbol = self._symbol_in(i, operand) if operand is not None else None
                if symbol is None:
                    continue
                variable = self._variables.setdefault(symbol, _Variable())
                if memory.access == "read":
                    self._symbol_of[i] = symbol
                    variable.loads.append(i)
                else:
                    variable.stores.append(i)

    def _symbol_in(self, i: int, operand: BoundOperand) -> Symbol | None:
        node = self._routine.instructions[i].operands[operand.path[0]]
        return self._parameter_named(i, node.base) if isinstance(node, Address) else None

    def _parameter_named(self, i: int, node: Node) -> Symbol | None:
        if not isinstance(node, Name):
            return None
        symbol = self._routine.names.scope_of(self._routine.where(i)).lookup(node.text)
        return symbol if symbol is not None and (symbol.space or "").startswith(".param") else None

    def _scan_call(self, i: int, bound: Bound) -> None:
        operands = self._routine.instructions[i].operands
        target = next((operand.path[0] for operand in bound.operands if operand.role == "func"), -1)
        lists: tuple[list[Node], list[Node]] = ([], [])
        for operand in bound.operands:
            if operand.role == "list":
                lists[operand.path[0] > target].extend(_inside(operands[operand.path[0]]))
        self._operands[i] = lists
        for index, node in enumerate(lists[0]):
            symbol = self._parameter_named(i, node)
            if symbol is not None:
                self._variables.setdefault(symbol, _Variable()).calls.append((i, index))
        for node in lists[1]:
            symbol = self._parameter_named(i, node)
            if symbol is not None:
                self._variables.setdefault(symbol, _Variable()).given_to.append(i)


def _inside(node: Node) -> list[Node]:
    """The operands in the parentheses of a call, or a single one without them."""
    return list(node.children) if node.children else [node]
