"""Symbolic values: the contents of each register, for the thread that executes it.

Every value of the function (see `ssa`) has a term over special registers, parameters, addresses of variables, and leaves for unknown values
such as loaded ones. What a term states holds on every run; its leaves have the values they have where the value is live. Merges are leaves
or `join`s of terms. A loop-carried value is a leaf of kind `phi`; if it starts at a constant and its steps can be followed, as with ring
counters, phases and counted loops, all its numbers are known; otherwise, the alignment that all iterations preserve is known.

Terms are made on demand.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from ptxkit.analyses.cfg.graph import Via, control_flow
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.launch.launch import launch
from ptxkit.analyses.numbers.known_bits import Known, bits, constant, join, tighten, top
from ptxkit.analyses.registers.registers import registers
from ptxkit.analyses.registers.ssa import SSA, Origin, ssa
from ptxkit.analyses.symbolic.evaluate import number_of
from ptxkit.analyses.symbolic.loop_facts import MOST_ROUNDS, is_small, known_in, outcomes, rough_leaves, widened
from ptxkit.analyses.symbolic.recipes import Cook, Input, Output, Recipe, recipe
from ptxkit.analyses.symbolic.simplify import new_terms
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.isa.types import types
from ptxkit.names import Kind, Symbol
from ptxkit.syntax import Address, Element, Expression, Guard, Name, Node, constant_value

SHARED_BITS = 28
"""Maximum number of bits of a shared-memory address; in a cluster, a CTA's own window is at 0x1000000 times its rank."""
_SMALL = frozenset((".shared", ".const", ".param"))
"""State spaces whose addresses fit in 32 bits."""


@frozen
class Induction:
    """How a value changes from one iteration of its loop to the next."""

    value: int
    start: Term
    step: int | None
    """The increment of each iteration, signed, if constant."""
    numbers: tuple[int, ...]
    """All its numbers, in order of first occurrence; empty if unknown."""
    repeats: int | None
    """The index in `numbers` of the successor of the last one: 0 for a ring counter. None if it never wraps around, or need not take the
    numbers in order."""


class Values(Cook):
    """The terms of a function's values; a `number` is an index into `ssa(routine).values`."""

    def __repr__(self) -> str:
        return f"<Values of {self.routine.name}>"

    def __init__(self, routine: Routine) -> None:
        super().__init__(new_terms())
        self.routine = routine
        self._ssa: SSA = ssa(routine)
        self._registers = registers(routine)
        self._bounds = bindings(routine)
        self._flow = control_flow(routine)
        self._launch = launch(routine)
        count = len(self._ssa.values)
        self._final: list[Term | None] = [None] * count
        # the same, with every loop-carried value as an unknown leaf: the basis for analyzing the loops
        self._rough: list[Term | None] = [None] * count
        self._inductions: dict[int, Induction | None] = {}
        self._symbols: dict[tuple[object, ...], Symbol] = {}
        self._made: dict[tuple[object, ...], Term] = {}
        self._recipes: dict[int, Recipe | None] = {}
        self._order = {block: position for position, block in enumerate(self._flow.order)}
        self._constants: dict[tuple[int, int], Term] = {}
        self._leaves: dict[Term, frozenset[Term]] = {}

    # --- questions

    def of(self, number: int) -> Term:
        """The term of a value."""
        return self._final[number] or self._evaluate(number, self._final)

    def written(self, i: int) -> tuple[Term, ...]:
        """The terms of an instruction's results, in the order of `Registers.writes`; empty for unreachable instructions."""
        return tuple([self.of(number) for number in self._ssa.definitions[i]])

    def guard(self, i: int) -> Term | None:
        """The predicate under which instruction `i` is executed when reached; None if it has no guard."""
        node = self.routine.instructions[i].guard
        if node is None or not self._ssa.uses[i]:
            return None
        term = self._used(self._ssa.uses[i][0], i, self._final)
        return self.terms.invert(term) if node.negated else term

    def operand(self, i: int, node: Node) -> Term | None:
        """The value of an operand of instruction `i`: a register, a constant, a variable's address or an address in brackets.

        None for other operands, such as vectors, and for unreachable instructions.
        """
        if isinstance(node, Address):
            return self._address(i, node, self._final)
        if isinstance(node, Name):
            numbers = self._registers.of(i, node)
            if len(numbers) == 1:
                return self._of_register(i, numbers[0], self._final)
            return self._symbol(i, node, 64)
        if isinstance(node, Element):
            return self._element(i, node, 64, self._final)
        value = constant_value(node)
        if isinstance(value, int):
            return self.terms.constant(value, 64)
        return self._symbol(i, node, 64)

    def symbol(self, leaf: Term) -> Symbol | None:
        """The variable or function whose address a leaf is, or the parameter whose value it is."""
        return self._symbols.get(leaf.data[:2]) if leaf.operator in ("address", "parameter") else None

    def induction(self, number: int) -> Induction | None:
        """How a loop-carried value changes; None for any other value, or if unknown."""
        self.of(number)
        return self._inductions.get(number)

    def is_unknown(self, number: int) -> bool:
        """Whether the table does not define the value that an instruction writes."""
        return self._output(number) is None

    # --- evaluation

    def _evaluate(self, wanted: int, known: list[Term | None]) -> Term:
        values = self._ssa.values
        final = known is self._final
        rough = self._rough
        stack = [wanted]
        while stack:
            number = stack[-1]
            if known[number] is not None:
                stack.pop()
                continue
            if final and (found := rough[number]) is not None and not found.in_loop:
                known[number] = found
                stack.pop()
                continue
            value = values[number]
            if value.origin is Origin.WRITE:
                term = self._write(number, known, stack)
                if term is None:
                    continue
                known[number] = term
            elif value.origin is Origin.PHI:
                if self._is_loop(value.block):
                    known[number] = self._loop_value(number) if final else self._leaf("rough", number, None, True)
                else:
                    missing = [n for n in value.operands if n >= 0 and known[n] is None]
                    if missing:
                        stack += missing
                        continue
                    arriving = [known[n] for n in value.operands if n >= 0]
                    known[number] = self._joined(number, arriving)  # type: ignore[arg-type]
            else:
                known[number] = self._leaf("value", number, None)
            stack.pop()
        return known[wanted]  # type: ignore[return-value]

    def _is_loop(self, block: int) -> bool:
        """Whether a block has a back edge: the values merged there may depend on themselves."""
        position = self._order[block]
        return any(self._order.get(before, -1) >= position for before in self._flow.blocks[block].predecessors)

    def _leaf(self, kind: str, number: int, known: Known | None, in_loop: bool = False) -> Term:
        return self.terms.leaf(kind, self._width(number), (number,), known, in_loop)

    def _width(self, number: int) -> int:
        return self._registers.table[self._ssa.values[number].register].bits or 64

    def _joined(self, number: int, arriving: list[Term]) -> Term:
        return self.terms.join((number, *arriving), tuple(arriving)) if arriving else self._leaf("value", number, None)

    def _output(self, number: int) -> Output | None:
        """The table's definition of a written value."""
        i = self._ssa.values[number].instruction
        bound = self._bounds[i]
        key = id(bound)
        if key not in self._recipes:
            self._recipes[key] = recipe(bound) if isinstance(bound, Bound) else None
        found = self._recipes[key]
        if found is None:
            return None
        position = number - self._ssa.definitions[i][0]
        return found.outputs[position] if position < len(found.outputs) else None

    def _write(self, number: int, known: list[Term | None], stack: list[int]) -> Term | None:
        """The term of a written value; None if others are needed first, which are pushed onto the stack."""
        output = self._output(number)
        if output is None:
            return self._leaf("value", number, None)
        value = self._ssa.values[number]
        i = value.instruction
        uses = self._ssa.uses[i]
        guard = self.routine.instructions[i].children[0]
        guarded = type(guard) is Guard
        if output.make is None:
            return self._leaf("value", number, None if guarded else output.known)
        missing = [n for position in output.uses if known[n := uses[position + guarded]] is None and n >= 0]
        if guarded:
            missing += [n for n in (uses[0], *value.operands) if n >= 0 and known[n] is None]
        if missing:
            stack += missing
            return None
        given = []
        for one in output.inputs:
            term = self._input(i, one, guarded, known)
            if term is None:
                return self._leaf("value", number, None)
            given.append(term)
        key = (output, *given)
        term = self._made.get(key)
        if term is None:
            term = self.make(output, tuple(given))
            if term is None:
                return self._leaf("value", number, None)
            self._made[key] = term
        if not guarded:
            return term
        # the old value remains if the guard fails
        old = known[value.operands[0]] if value.operands else self.terms.leaf("undefined", term.width, (number,))
        condition = self._used(uses[0], i, known)
        if guard.negated:  # type: ignore[attr-defined]
            condition = self.terms.invert(condition)
        return self.terms.apply("select", term.width, (condition, term, old))  # type: ignore[arg-type]

    def _used(self, number: int, i: int, known: list[Term | None]) -> Term:
        """The term of a value that instruction `i` uses."""
        if number < 0:
            return self.terms.leaf("undefined", 64, (i,))
        return known[number] or self._evaluate(number, known)

    def _input(self, i: int, one: Input, guarded: bool, known: list[Term | None]) -> Term | None:
        """An input of instruction `i` in the width in which it is read; None if unknown."""
        if one.kind == "register":
            number = self._ssa.uses[i][one.use + guarded]
            if number < 0:
                return None
            term = known[number]
            assert term is not None
            if term.width != one.width:
                term = self.terms.extend(term, one.width, False)
            return self.terms.invert(term) if one.negated else term
        if one.kind == "special":
            return self._special(one.special, one.width)
        if one.kind == "vector":
            parts = [self._input(i, part, guarded, known) for part in one.parts]
            found = self.terms.constant(0, one.width)
            for position, part in enumerate(parts):
                if part is None or len(parts) * part.width != one.width:
                    return None
                found = self.terms.add(found, self.terms.scale(self.terms.extend(part, one.width, False), 1 << (position * part.width)))
            return found
        node = self._node(i, one.path)
        if one.kind == "constant":
            return self._constant(node, one.width)
        if isinstance(node, Element):
            return self._element(i, node, one.width, known)
        if one.kind == "symbol":
            return self._symbol(i, node, one.width)
        return self._address(i, node, known) if isinstance(node, Address) else None

    def _node(self, i: int, path: tuple[int, ...]) -> Node:
        """The part of an operand at one of the table's paths."""
        instruction = self.routine.instructions[i]
        node = instruction.operands[path[0]]
        if isinstance(node, Address):
            return node
        for step in path[1:]:
            node = node.children[step]
        return node

    def _constant(self, node: Node, width: int) -> Term:
        key = (id(node), width)
        found = self._constants.get(key)
        if found is None:
            value = constant_value(node)
            text = node.text
            if isinstance(value, int):
                found = self.terms.constant(value, width)
            elif text[:2].lower() in ("0f", "0d") and 4 * len(text[2:]) == width:
                found = self.terms.constant(int(text[2:], 16), width)
            else:
                found = self.terms.leaf("literal", width, (text,))
            self._constants[key] = found
        return found

    def _special(self, name: str, width: int) -> Term:
        known = self._launch.known(name)
        register = self.terms.leaf("special", (known.zeros | known.ones | (known.low + known.span)).bit_length(), (name,), known)
        return self.terms.extend(register, width, False)

    # --- addresses, symbols, parameters

    def _of_register(self, i: int, register: int, known: list[Term | None]) -> Term | None:
        for one, number in zip(self._registers.reads[i], self._ssa.uses[i], strict=False):
            if one == register:
                return self._used(number, i, known)
        return None

    def _address(self, i: int, node: Address, known: list[Term | None]) -> Term | None:
        base: Term | None
        if isinstance(node.base, Name):
            numbers = self._registers.of(i, node)[:1]
            is_register = bool(numbers) and self._registers.table[numbers[0]].name == node.base.text
            base = self._of_register(i, numbers[0], known) if is_register else self._symbol(i, node.base, 0)
        else:
            value = constant_value(node.base)
            base = self.terms.constant(value, 64) if isinstance(value, int) else self._symbol(i, node.base, 0)
        if base is None or node.offset is None:
            return base
        offset = constant_value(node.offset)
        if not isinstance(offset, int):
            return None
        return self.terms.add(base, self.terms.constant(node.offset_sign * offset, base.width))

    def _element(self, i: int, node: Element, width: int, known: list[Term | None]) -> Term | None:
        """The address of an array element."""
        array = self._symbol(i, node.base, width)
        symbol = self.symbol(array.leaves()[0]) if array is not None else None
        kind = types().get(symbol.type or "") if symbol is not None else None
        if array is None or symbol is None or kind is None:
            return None
        index, offset = node.number, 0
        if isinstance(index, Expression) and constant_value(index) is None and len(index.terms) == 2:
            value = constant_value(index.terms[1])
            if not isinstance(value, int) or index.operators != ("+",):
                return None
            index, offset = index.terms[0], value
        value = constant_value(index)
        if isinstance(value, int):
            number = self.terms.constant(value + offset, array.width)
        else:
            numbers = self._registers.of(i, index) or self._registers.of(i, node)
            held = self._of_register(i, numbers[0], known) if len(numbers) == 1 else None
            if held is None:
                return None
            number = self.terms.add(self.terms.extend(held, array.width, False), self.terms.constant(offset, array.width))
        return self.terms.add(array, self.terms.scale(number, kind.bytes * symbol.vector))

    def _symbol(self, i: int, node: Node, width: int) -> Term | None:
        """The address of a variable or function plus its offset; width 0 selects the natural width of its space."""
        offset = 0
        if isinstance(node, Expression) and set(node.operators) <= {"+", "-"} and isinstance(node.terms[0], Name):
            for sign, term in zip(node.operators, node.terms[1:], strict=True):
                value = constant_value(term)
                if not isinstance(value, int):
                    return None
                offset += value if sign == "+" else -value
            node = node.terms[0]
        if not isinstance(node, Name):
            return None
        symbol = self.routine.names.scope_of(self.routine.where(i)).lookup(node.text)
        if symbol is None or symbol.kind in (Kind.LABEL, Kind.REGISTER):
            return None
        space = (symbol.space or "").partition("::")[0]
        natural = 32 if space in _SMALL else 64
        key = (symbol.name, symbol.path)
        self._symbols[key] = symbol
        # parameters need not be placed at their declared alignment: for `.param .align 128`, a GPU gave 0x70
        align = 1 if space == ".param" else alignment_of(symbol)
        high = (1 << SHARED_BITS) - 1 if space == ".shared" else (1 << natural) - 1
        leaf = self.terms.leaf("address", natural, key, tighten(align - 1, 0, 0, high, natural))
        found = self.terms.add(leaf, self.terms.constant(offset, natural))
        return self.terms.extend(found, width or natural, False)

    def parameter(self, address: Term, size: int) -> Term | None:
        """The value of `size` bytes of a kernel's parameters; those of other functions depend on unknown callers."""
        offset, parts = address.linear
        if len(parts) != 1 or parts[0][1] != 1 or not size:
            return None
        start = parts[0][0]
        # the register has 64 bits, but the space 32
        start = start.args[0] if start.operator == "zext" else start
        symbol = self._symbols.get(start.data) if start.operator == "address" else None
        if symbol is None or symbol.kind is not Kind.PARAMETER or not self.routine.function.header.is_entry:
            return None
        if symbol.path[: len(self.routine.path) + 1] != (*self.routine.path, 0):
            return None
        pointer = getattr(symbol.declares, "pointer", None)
        declared = types().get(symbol.type or "")
        align = 1
        if pointer is not None and declared is not None and not offset and declared.bytes == size:
            align = pointer.align or 1
        # a pointer with less alignment information does not matter: the first query decides, and all queries are alike
        known = bits(align - 1, 0, 8 * size) if align > 1 else None
        return self.terms.leaf("parameter", 8 * size, (*start.data, offset, size), known)

    # --- loops

    def _loop_value(self, number: int) -> Term:
        """The term of a value that may depend on itself: a leaf with the facts that hold in all iterations."""
        self._solve(number)
        return self._final[number]  # type: ignore[return-value]

    def _arriving(self, number: int) -> list[tuple[int, Term]]:
        """By position of the predecessor, the arriving terms, approximately; those equal to the value itself are left out."""
        value = self._ssa.values[number]
        own = self._used(number, -1, self._rough)
        found = [(position, self._used(operand, -1, self._rough)) for position, operand in enumerate(value.operands) if operand >= 0]
        return [(position, term) for position, term in found if term is not own]

    def _solve(self, wanted: int) -> None:
        """Computes the facts of a loop-carried value and all others that it depends on."""
        arriving: dict[int, list[tuple[int, Term]]] = {}
        leaves: dict[Term, int] = {}
        state: dict[Term, Known | None] = {}
        work = [wanted]
        while work:
            number = work.pop()
            if number in arriving:
                continue
            leaf = self._used(number, -1, self._rough)
            leaves[leaf] = number
            done = self._final[number]
            if done is not None:
                state[leaf] = done.known
                continue
            arriving[number] = self._arriving(number)
            distinct = {term for _, term in arriving[number]}
            if len(distinct) == 1 and not (only := distinct.pop()).in_loop:
                self._final[number] = only
                state[leaf] = only.known
                continue
            numbers = self._follow(number, arriving[number])
            if numbers is not None:
                self._final[number] = final = self._leaf("phi", number, join([constant(n, leaf.width) for n in numbers], leaf.width))
                state[leaf] = final.known
                continue
            state[leaf] = None
            for _, term in arriving[number]:
                work += [value for inner in self._loop_leaves(term) if (value := inner.ssa_value) is not None]
        unknown = [number for number in arriving if self._final[number] is None]
        self._iterate(unknown, arriving, state)
        for number in unknown:
            leaf = self._used(number, -1, self._rough)
            self._final[number] = self._leaf("phi", number, state[leaf] or top(leaf.width))
            self._note_step(number, arriving[number], leaf)

    def _iterate(self, numbers: list[int], arriving: Mapping[int, list[tuple[int, Term]]], state: dict[Term, Known | None]) -> None:
        """Raises the facts of these values from bottom to a fixed point."""
        numbers = sorted(numbers)
        changes = dict.fromkeys(numbers, 0)
        changed = True
        while changed:
            changed = False
            found: dict[Term, Known | None] = {}
            for number in numbers:
                leaf = self._used(number, -1, self._rough)
                old = state[leaf]
                possible = [k for _, term in arriving[number] if (k := known_in(term, state, found)) is not None]
                if not possible:
                    continue
                new = join(possible if old is None else [old, *possible], leaf.width)
                if new == old:
                    continue
                changes[number] += 1
                state[leaf] = widened(new, leaf.width, changes[number])
                changed = changed or state[leaf] != old

    def _note_step(self, number: int, arriving: list[tuple[int, Term]], leaf: Term) -> None:
        starts = [term for _, term in arriving if leaf not in self._loop_leaves(term)]
        steps = [self.terms.sub(term, leaf).constant for _, term in arriving if leaf in self._loop_leaves(term)]
        if len(set(starts)) != 1 or len(set(steps)) != 1 or steps[0] is None or starts[0].in_loop:
            return
        half = 1 << (leaf.width - 1)
        step = steps[0] - 2 * half if steps[0] >= half else steps[0]
        self._inductions[number] = Induction(number, starts[0], step, (), None)

    def _loop_leaves(self, term: Term) -> frozenset[Term]:
        """The leaves in an approximate term that stand for loop-carried values."""
        found = self._leaves.get(term)
        if found is None:
            found = self._leaves[term] = frozenset(rough_leaves(term))
        return found

    def _follow(self, number: int, arriving: list[tuple[int, Term]]) -> tuple[int, ...] | None:
        """All numbers of a value, by following every step from its initial constants; None if unknown or too many."""
        leaf = self._used(number, -1, self._rough)
        starts = [term.constant for _, term in arriving if term.constant is not None]
        steps = [(position, term) for position, term in arriving if term.constant is None]
        if not starts or any(leaf not in self._loop_leaves(term) or not is_small(term) for _, term in steps):
            return None
        block = self._flow.blocks[self._ssa.values[number].block]
        conditions = [
            self._path(block.predecessors[position], block.index) if position < len(block.predecessors) else None for position, _ in steps
        ]
        if any(self._never_ends(leaf, term, condition) for (_, term), condition in zip(steps, conditions, strict=True)):
            return None
        numbers = list(dict.fromkeys(starts))
        seen = set(numbers)
        following: list[tuple[int, ...]] = []
        # grows while being iterated
        for at in numbers:
            after: list[int] = []
            for (_, term), condition in zip(steps, conditions, strict=True):
                memory: dict[Term, int | None] = {leaf: at}
                if condition is not None and number_of(condition, None, memory) == 0:
                    continue
                found = outcomes(term, memory)
                if found is None:
                    return None
                after += found
            following.append(tuple(dict.fromkeys(after)))
            numbers += [number for number in following[-1] if number not in seen]
            seen.update(after)
            if len(numbers) > MOST_ROUNDS:
                return None
        everything = tuple(numbers)
        one_by_one = len(starts) == 1 and all(after == (then,) for after, then in zip(following, everything[1:], strict=False))
        last = following[-1] if following else ()
        repeats = everything.index(last[0]) if one_by_one and len(last) == 1 else None
        half = 1 << (leaf.width - 1)
        strides = {(b - a + half) % (2 * half) - half for a, b in pairwise(everything)} if one_by_one and repeats is None else set()
        step = strides.pop() if len(strides) == 1 else None
        start = self.terms.constant(everything[0], leaf.width)
        self._inductions[number] = Induction(number, start, step, everything if one_by_one else tuple(sorted(everything)), repeats)
        return everything

    def _never_ends(self, leaf: Term, term: Term, condition: Term | None) -> bool:
        """Whether a value certainly takes too many numbers: a counter that only another condition stops."""
        step = self.terms.sub(term, leaf).constant
        if not step or (condition is not None and all(inner is leaf for inner in condition.leaves())):
            return False
        return (1 << leaf.width) // (step & -step) > MOST_ROUNDS

    def _path(self, source: int, target: int) -> Term | None:
        """The predicate of an edge between blocks, approximately; None if there is none or it is unknown."""
        edges = [edge for edge in self._flow.blocks[source].edges if edge.target == target]
        i = self._flow.blocks[source].end - 1
        guard = self.routine.instructions[i].guard
        if len(edges) != 1 or edges[0].via not in (Via.TAKEN, Via.NOT_TAKEN) or guard is None:
            return None
        term = self._used(self._ssa.uses[i][0], i, self._rough)
        return self.terms.invert(term) if guard.negated != (edges[0].via is Via.NOT_TAKEN) else term


def alignment_of(symbol: Symbol) -> int:
    """The alignment of a variable: as declared, otherwise that of its type (5.4.5)."""
    declared = types().get(symbol.type or "")
    natural = declared.bytes * symbol.vector if declared is not None and declared.bytes else 1
    align = symbol.align or natural
    return align if align & (align - 1) == 0 else 1


@fact
def values(routine: Routine) -> Values:
    """The symbolic values of a function."""
    return Values(routine)
