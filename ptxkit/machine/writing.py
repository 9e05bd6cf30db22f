"""Emits the source of one block: a line for each instruction, which calls its semantics."""

from __future__ import annotations

from collections.abc import Set
from functools import lru_cache
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxkit.isa.binding import Bound, BoundOperand
from ptxkit.machine.blocks import BasicBlock
from ptxkit.machine.code import Body, Site
from ptxkit.machine.compiled import HELPERS
from ptxkit.machine.expressions import Expressions, constant
from ptxkit.machine.following import may_decide
from ptxkit.machine.known import Known, changes_stack
from ptxkit.machine.monitoring import is_observed, observed, used
from ptxkit.machine.plans import CARRY, TOP
from ptxkit.machine.semantics._moves import same
from ptxkit.machine.values.floats import are_small
from ptxkit.machine.values.single import OF_COUNT
from ptxkit.operands import part
from ptxkit.syntax import Guard, Name, Node, Vector

if TYPE_CHECKING:
    from ptxkit.machine.interfaces import Program

FILE = "<block>"
U64 = np.dtype(np.uint64)
BOOL = np.dtype(np.bool_)

_INLINE: dict[Any, str] = {
    np.add: "({} + {})",
    np.subtract: "({} - {})",
    np.multiply: "({} * {})",
    np.bitwise_and: "({} & {})",
    np.bitwise_or: "({} | {})",
    np.bitwise_xor: "({} ^ {})",
    np.logical_and: "({} & {})",
    np.logical_or: "({} | {})",
    np.logical_xor: "({} ^ {})",
    np.invert: "(~{})",
    np.negative: "(-{})",
    np.less: "({} < {})",
    np.less_equal: "({} <= {})",
    np.greater: "({} > {})",
    np.greater_equal: "({} >= {})",
    np.equal: "({} == {})",
    np.not_equal: "({} != {})",
}
"""Operators that Python can apply directly, which is faster than a ufunc for scalars."""

_COMPARING = frozenset((np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal))


class Writer(Expressions):
    """Emits the source of one block, with its namespace."""

    def __init__(self, program: Program, body: Body) -> None:
        super().__init__(program, body)
        self.lines: list[str] = []
        self.places: list[int] = []
        """For each line, the instruction that it executes."""
        self.loose: set[int] = set()
        """The instructions whose result may be any NaN."""
        self.by_count: dict[str, str] = {}
        """Lines at the start of the function that create callables for the number of lanes, by the names they define."""
        self.is_pure = not program.is_watched
        """Whether the block changes nothing but registers."""

    def results(self, i: int, known: Known) -> list[Any]:
        """Where the results of an instruction go: for each, a register (or None) and its dtype; a list for a vector."""
        site = self.body.sites[i]
        bound = known.operation.bound
        operands = site.instruction.operands
        found: list[Any] = []
        for operand, dtype in known.writes:
            node = part(operands[operand.path[0]], operand.path[1:])
            if isinstance(node, Vector):
                found.append([self._destination(site, element, dtype) for element in node.children])
                continue
            numbers = self.body.registers_of(site.scope, node)
            if len(numbers) > 1:
                found.append([(number, dtype) for number in numbers])
            else:
                found.append((numbers[0], dtype) if numbers else None)
        if "w" in bound.carry:
            found.append((CARRY, BOOL))
        if changes_stack(bound):
            found.append((TOP, U64))
        return found

    def _destination(self, site: Site, node: Node, dtype: np.dtype[Any]) -> Any:
        numbers = self.body.registers_of(site.scope, node)
        return (numbers[0], dtype) if numbers else None

    def landing(self, i: int, known: Known, value: str) -> None:
        """Emits the assignment of an instruction's result."""
        results = self.results(i, known)
        statements = self._store(results, value, None)
        self.lines.append("; ".join(statements) or "pass")
        self.places.append(i)

    def _store(self, results: list[Any], value: str, known: np.dtype[Any] | None) -> list[str]:
        """Statements that assign a value to its registers. With `known`, the value certainly has that dtype."""
        if not results:
            return [value] if value != "X" else []
        if len(results) == 1 and not isinstance(results[0], list):
            if results[0] is None:
                return [value]
            number, dtype = results[0]
            return self._assign(number, dtype, value, known)
        flat: list[Any] = []
        pattern: list[str] = []
        many = len(results) > 1
        for result in results:
            names = []
            for one in result if isinstance(result, list) else [result]:
                name = self.temporary() if one is not None else "_"
                names.append(name)
                if one is not None:
                    flat.append((one, name))
            pattern.append(f"({', '.join(names)},)" if isinstance(result, list) else names[0])
        target = f"({', '.join(pattern)},)" if many else pattern[0]
        statements = [f"{target} = {value}"]
        for (number, dtype), name in flat:
            statements += self._assign(number, dtype, name, None)
        return statements

    def _assign(self, number: int, dtype: np.dtype[Any], value: str, known: np.dtype[Any] | None) -> list[str]:
        own = self.body.dtypes[number]
        lands = self.landing_dtype(number, dtype)
        statements = []
        if known is None:
            name = value if value.isidentifier() else self.temporary()
            statements = [f"{name} = {value}"] if name != value else []
            value = f"({name} if {name}.dtype is {self.dtype(dtype)} else fit({name}, {self.dtype(dtype)}))"
        if own == BOOL or dtype == BOOL:
            lands = own
        variable = self.write(number, lands)
        return [*statements, f"{variable} = {self.converted(value, dtype, lands)}"]

    def one(self, i: int) -> None:
        """Emits an instruction within a block, and the tracking of undefined values if that is enabled."""
        if self.program.undefined is not None:
            self.followed(i)
        else:
            self.instruction(i)

    def instruction(self, i: int, given: tuple[Known, list[str]] | None = None) -> None:
        """Emits an instruction within a block; `given` is its operation and arguments if already computed."""
        site = self.body.sites[i]
        guard = site.instruction.guard
        known, arguments = given or self.operation(i)
        semantics = known.semantics
        self.is_pure &= not semantics.lanes
        if self.program.is_watched:
            self._watched(i, site, guard, known, arguments)
        if guard is not None:
            self._guarded(i, site, guard, known, arguments)
            return
        results = self.results(i, known)
        if semantics.run is same and len(results) == 1 and results[0] is not None and not isinstance(results[0], list):
            self.lines.append("; ".join(self._store(results, arguments[0], results[0][1])))
            self.places.append(i)
            return
        run = self.variant(i, site, known)
        inline = _INLINE.get(run) if type(run) is np.ufunc and not semantics.lanes else None
        gives: np.dtype[Any] | None = None
        if inline is not None and len(results) == 1 and results[0] is not None and not isinstance(results[0], list):
            call = inline.format(*arguments)
            gives = BOOL if run in _COMPARING else results[0][1]
            if gives == BOOL and results[0][1] != BOOL:
                gives = None
        else:
            call = self.of_count(run, arguments) or f"{self.object(run)}({', '.join([*(['L'] if semantics.lanes else []), *arguments])})"
            if semantics.variants:
                gives = np.dtype(np.float32)
        self.lines.append("; ".join(self._store(results, call, gives)))
        self.places.append(i)
        if "normal" in semantics.variants and results[0] is not None:
            self.normal.add(results[0][0])

    def of_count(self, run: Any, arguments: list[str]) -> str:
        """A call of a function that is specialized for the number of lanes, created once in a block; empty if there is none."""
        if self.program.is_watched or type(run) is not FunctionType or run not in OF_COUNT:
            return ""
        of, finish = OF_COUNT[run]
        name = f"f{self.object(of)}"
        self.by_count[name] = f"{name} = {self.object(of)}(L.count)"
        call = f"{name}({', '.join(arguments)})"
        return f"{self.object(finish)}({call})" if finish is not None else call

    def variant(self, i: int, site: Site, known: Known) -> Any:
        """The implementation of an instruction, specialized for what is known of its operands and of the uses of its result."""
        semantics = known.semantics
        if not semantics.variants:
            return semantics.run
        asked = ["any nan"] if i in self.loose else []
        if "normal" in semantics.variants and all(self._is_normal(site, one) for _, one, _ in known.reads):
            asked.append("normal")
        return semantics.variants[", ".join(asked)] if asked else semantics.run

    def _is_normal(self, site: Site, operand: BoundOperand | None) -> bool:
        """Whether an operand is known to contain no subnormal number."""
        if operand is None:
            return False
        node = part(site.instruction.operands[operand.path[0]], operand.path[1:])
        if type(node) is Name:
            numbers = self.body.registers_of(site.scope, node)
            return len(numbers) == 1 and numbers[0] in self.normal
        value = constant(node, np.dtype(np.float32))
        return value is not None and not are_small(value)

    def followed(self, i: int) -> None:
        """Emits an instruction within a block, and the tracking of undefined values through it."""
        undefined = self.program.undefined
        assert undefined is not None
        site = self.body.sites[i]
        known, arguments = self.operation(i)
        plan = None
        if site.bound.memory:  # type: ignore[union-attr]
            plan = undefined.plan(site, known.names)
        predicate = ""
        guard = site.instruction.guard
        if guard is not None:
            value = self.value(site, guard.predicate, BOOL)
            predicate = f", (~{value})" if guard.negated else f", {value}"
        here = self.object(undefined)
        values = f"({', '.join(arguments)},)" if may_decide(known.operation.bound) else "()"
        what = f"{self.object(site)}, {self.object(known.names)}"
        self.lines.append(f"if {here}: {here}.visit({what}, L, {values}{predicate})")
        self.places.append(i)
        self.instruction(i, (known, arguments))
        if plan is not None and (plan.loads or plan.stores):
            self.lines.append(f"if {self.object(undefined.loaded)}: {here}.land({self.object(plan)})")
            self.places.append(i)

    def decided(self, block: BasicBlock) -> None:
        """Emits a check whether the condition of a branch is undefined."""
        undefined = self.program.undefined
        assert undefined is not None
        at = block.last if block.last >= 0 else self.body.blocks[block.taken].last if block.taken >= 0 else -1
        if at < 0:
            return
        here, key = self.object(undefined), undefined.key(self.body, block.guard)
        self.lines.append(
            f"if {here} and {self.object(key)} in {here}: {here}.branch({self.object(self.body.sites[at])}, {self.object(key)}, L)"
        )
        self.places.append(at)

    def claimed_uniform(self, i: int, taken: str) -> None:
        """Emits the event of a branch that is marked `.uni`."""
        site = self.body.sites[i]
        if i < 0 or not isinstance(site.bound, Bound) or not site.bound.has(".uni"):
            return
        self.lines.append(f"{self.object(observed)}(L.on({self.object(site)}), ({taken},))")
        self.places.append(i)

    def _watched(self, i: int, site: Site, guard: Guard | None, known: Known, arguments: list[str]) -> None:
        """Emits the events of an instruction."""
        assert isinstance(site.bound, Bound)
        held = self.body.held
        reads, writes = self.body.reads_writes(i) if held else (0, 0)
        uses_held = bool((reads | writes) & held)
        if uses_held or known.semantics.lanes or is_observed(site.bound):
            # otherwise no event needs the current site of these lanes
            self.lines.append(f"L = L.on({self.object(site)})")
            self.places.append(i)
        if uses_held:
            self._event(i, site, guard, used, [self.object((reads & held, writes & held), ("used", reads & held, writes & held))])
        if not is_observed(site.bound):
            return
        values = f"({', '.join(arguments)}{',' if arguments else ''})"
        self._event(i, site, guard, observed, [values])

    def _event(self, i: int, site: Site, guard: Guard | None, tell: Any, arguments: list[str]) -> None:
        """Emits a notification of monitors for the lanes whose guard holds."""
        call = f"{self.object(tell)}({', '.join(['L', *arguments])})"
        if guard is not None:
            predicate = self.value(site, guard.predicate, BOOL)
            predicate = f"(~{predicate})" if guard.negated else predicate
            call = f"guarded({predicate}, L, {self.object((tell, True, (), ()), ('event', tell))}, ({', '.join(arguments)},), ())"
        self.lines.append(call)
        self.places.append(i)

    def _guarded(self, i: int, site: Site, guard: Guard, known: Known, arguments: list[str]) -> None:
        """Emits an instruction for the lanes whose guard holds; the registers of other lanes are unchanged."""
        semantics = known.semantics
        results = self.results(i, known)
        predicate = self.value(site, guard.predicate, BOOL)
        if guard.negated:
            predicate = f"(~{predicate})"
        flat = [one for result in results for one in (result if isinstance(result, list) else [result])]
        old = []
        dtypes: list[Any] = []
        for one in flat:
            if one is None:
                old.append("None")
                dtypes.append(None)
                continue
            number, dtype = one
            lands = self.landing_dtype(number, dtype)
            if self.body.dtypes[number] == BOOL:
                lands = BOOL
            old.append(self.read(number, lands))
            dtypes.append((dtype, lands))
        shape = tuple([len(result) if isinstance(result, list) else 0 for result in results])
        plan = self.object((semantics.run, semantics.lanes, shape, tuple(dtypes)))
        call = (
            f"guarded({predicate}, L, {plan}, ({', '.join(arguments)}{',' if arguments else ''}), ({', '.join(old)}{',' if old else ''}))"
        )
        if not flat:
            self.lines.append(call)
        else:
            names = []
            for one, pair in zip(flat, dtypes, strict=True):
                names.append("_" if one is None or pair is None else self.write(one[0], pair[1]))
            self.lines.append(f"({', '.join(names)},) = {call}")
        self.places.append(i)

    def finish(self, live_out: Set[int] | None, result: str, signature: str = "R, L") -> Any:
        """The function: load registers, execute the lines, store registers. Without `live_out`, all written registers are stored."""
        kept = [number for number in self.written if live_out is None or number in live_out]
        if not (self.lines or result):
            return nothing
        lines = [f" {self.variable(number)} = R[{self.number(number)}]" for number in self.loads]
        lines += [f" {line}" for line in self.by_count.values()]
        before = len(lines)
        lines += [f" {line}" for line in self.lines]
        if result:
            lines.append(f" result = {result}")
        for number in kept:
            value = self.converted(self.variable(number), self.dtypes[number], self.body.dtypes[number])
            lines.append(f" R[{self.number(number)}] = {value}")
        lines.append(f" return {'result' if result else None}")
        outer = ", ".join([f"c{i}" for i in range(len(self.objects))])
        body = "\n ".join(lines)
        source = f"def make({outer}):\n def run({signature}):\n {body}\n return run\n"
        space = dict(HELPERS)
        exec(_code(source), space)
        make: Any = space["make"]
        run = make(*self.objects)
        first = 3 + before
        run.places = {first + i: place for i, place in enumerate(self.places)}
        run.source = source
        run.is_pure = self.is_pure
        run.written = kept
        run.loads = tuple(self.loads)
        return run


def nothing(*_: Any) -> None:
    """The code of a block without straight-line instructions."""


nothing.places = {}  # type: ignore[attr-defined]
nothing.is_pure = True  # type: ignore[attr-defined]
nothing.written = []  # type: ignore[attr-defined]
nothing.loads = ()  # type: ignore[attr-defined]


@lru_cache(maxsize=65536)
def _code(source: str) -> Any:
    return compile(source, FILE, "exec")
