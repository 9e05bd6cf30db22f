"""The call graph of a module (9.7.13.5), indirect calls included."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from ptxkit.analyses.cfg.dominators import components
from ptxkit.analyses.cfg.graph import callees, calls
from ptxkit.analyses.cfg.reachability import closure
from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.frozen import frozen
from ptxkit.names import Kind, names_in
from ptxkit.syntax import Header, Module, Name, Parameter


@frozen
class Call:
    """A call: instruction `instruction` of `caller` calls one of `callees`.

    For an indirect call, these are the functions of its target list, or those with its prototype whose address is taken in the module;
    another module may pass others.
    """

    caller: str
    callees: tuple[str, ...]
    instruction: int
    is_indirect: bool
    is_open: bool
    """Whether functions not named here may be called too."""


@frozen(eq=False)
class CallGraph:
    """The functions of a module and their calls."""

    functions: tuple[str, ...]
    """All functions that the module declares or defines, in document order."""
    kernels: frozenset[str]
    defined: frozenset[str]
    """The functions with a body."""
    calls: tuple[Call, ...]

    @cached_property
    def edges(self) -> dict[str, tuple[str, ...]]:
        """By function, its possible callees, each once."""
        found: dict[str, dict[str, None]] = {name: {} for name in self.functions}
        for call in self.calls:
            found[call.caller].update(dict.fromkeys(call.callees))
        return {name: tuple(called) for name, called in found.items()}

    @cached_property
    def recursive(self) -> tuple[tuple[str, ...], ...]:
        """The groups of functions that may call themselves or one another recursively."""
        number = {name: i for i, name in enumerate(self.functions)}
        after = [[number[callee] for callee in self.edges[name] if callee in number] for name in self.functions]
        groups = components(range(len(after)), after.__getitem__)
        circles = [group for group in groups if len(group) > 1 or group[0] in after[group[0]]]
        return tuple([tuple([self.functions[i] for i in sorted(group)]) for group in sorted(circles, key=min)])

    def reached_from(self, name: str) -> frozenset[str]:
        """The functions that a function may call, directly or indirectly."""
        return frozenset(closure(self._called(name), self._called))

    def below(self, names: Iterable[str]) -> CallGraph:
        """The part of the graph with these functions and those that they may call."""
        kept = set(names)
        kept.update(*[self.reached_from(name) for name in kept])
        functions = tuple([name for name in self.functions if name in kept])
        return CallGraph(functions, self.kernels & kept, self.defined & kept, tuple([call for call in self.calls if call.caller in kept]))

    def _called(self, name: str) -> tuple[str, ...]:
        return self.edges.get(name, ())


def callgraph(module: Module, of: tuple[Routine, ...] | None = None) -> CallGraph:
    """The call graph of a module; `of` are its routines, if available."""
    of = routines(module) if of is None else of
    functions = module.functions
    names = tuple(dict.fromkeys([function.name for function in functions]))
    headers = {function.name: function.header for function in functions}
    found = []
    taken: tuple[str, ...] | None = None
    for routine in of:
        for i in calls(routine):
            called = callees(routine, i, routine.instructions[i])
            targets = called.names
            if called.prototype is not None:
                taken = _taken(of) if taken is None else taken
                targets = tuple([name for name in taken if _types(headers[name]) == _types(called.prototype)])
            found.append(Call(routine.name, targets, i, called.is_indirect, called.prototype is not None or not targets))
    return CallGraph(
        names,
        frozenset([function.name for function in functions if function.is_entry]),
        frozenset([function.name for function in functions if function.body]),
        tuple(found),
    )


def _taken(of: tuple[Routine, ...]) -> tuple[str, ...]:
    """The functions whose address is taken: those named in an initial value, or in an instruction other than a call."""
    symbols = of[0].names.root.symbols
    functions = {name for name, symbol in symbols.items() if symbol.kind is Kind.FUNCTION}
    found = [
        name.text
        for declaration in of[0].module.declarations
        for declarator in declaration.declarators
        if declarator.initializer is not None
        for _, name in names_in(declarator.initializer)
    ]
    for routine in of:
        own = set(calls(routine))
        for i, instruction in enumerate(routine.instructions):
            if i not in own:
                found += [operand.text for operand in instruction.operands if type(operand) is Name]
    return tuple([name for name in dict.fromkeys(found) if name in functions])


def _types(header: Header) -> tuple[list[tuple[str | None, int]], list[tuple[str | None, int]]]:
    """The types of a function's results and parameters, and whether each is an array."""

    def of(parameters: tuple[Parameter, ...]) -> list[tuple[str | None, int]]:
        return [(parameter.type, len(parameter.declarator.dimensions)) for parameter in parameters]

    return of(header.returns), of(header.parameters)
