"""Checks of calls, target lists, guards, and the direction of parameters, which need the functions and scopes of the module (ISA 9.3,
9.7.13, 11.3)."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import attrs

from ptxkit.directives import lists_targets, other_statements, plain_integer
from ptxkit.isa.opcodes import flow_of, match, split_opcode
from ptxkit.isa.registers import special_register
from ptxkit.isa.targets import Version
from ptxkit.isa.types import Type, types
from ptxkit.names import Kind, Names, Scope, Symbol
from ptxkit.patterns import Sketch
from ptxkit.problem import Problem, short_text
from ptxkit.sizes import natural_alignment, vector_of
from ptxkit.syntax import (
    Address,
    Alias,
    Apply,
    Braces,
    Declaration,
    Declarator,
    Error,
    Function,
    Group,
    Guard,
    Header,
    Instruction,
    Label,
    Module,
    Name,
    Node,
    Parameter,
    Path,
    Prototype,
    Targets,
    constant_value,
)

NARROW = (".u8", ".s8", ".u16", ".s16", ".pred")
"""Types that ptxas does not accept for parameters under the ABI; the untyped types of the same size are accepted."""


def problems(module: Module, names: Names, version: Version | None, target: str | None) -> Iterator[Problem]:
    """Problems in the calls, guards and target lists of a module (9.3, 9.7.13.3, 9.7.13.5, 11.3)."""
    calls = _Calls(module, names, version)
    clean: set[tuple[Sketch, Scope | None]] = set()
    # in document order: where a list of targets is declared before an instruction, it is before all that follow
    for scope in sorted(names.in_scope, key=lambda scope: scope.path):
        shape = (names.sketch(scope), scope.parent)
        # a label may name a prototype, of which the sketch knows nothing
        if shape not in clean or any(symbol.kind is Kind.LABEL for symbol in scope.symbols.values()):
            wrong: list[Problem] = []
            for path, instruction, _ in names.select(scope, calls.concerned):
                wrong += calls.instruction(path, instruction, scope)
            yield from wrong
            if not wrong:
                clean.add(shape)
    for path, child in other_statements(names, Targets, Declaration):
        if type(child) is Targets:
            yield from calls.targets(path, child, names.scope_of(path))
        elif type(child) is Declaration and lists_targets(child) and child.type == ".branchtargets":
            yield from calls.counted_targets(path, child, names.scope_of(path))


@functools.lru_cache(maxsize=4096)
def _interest(opcode: str) -> str:
    """The relevant kind of an opcode: `call`, `branch-indexed`, `read` or `write` of parameters; empty for any other."""
    flow = flow_of(opcode)
    if flow in ("call", "branch-indexed"):
        return flow
    if not any(modifier.partition("::")[0] == ".param" for modifier in split_opcode(opcode)[1]):
        return ""
    accesses = [memory.what.access for candidate in match(opcode) for memory in candidate.form.memory]
    return next((access for access in accesses if access in ("read", "write")), "")


def _guard(guard: Guard, scope: Scope) -> Problem | None:
    """The problem of a guard, if any; undeclared names are reported elsewhere."""
    name = guard.predicate.text
    symbol = scope.lookup(name)
    if symbol is None:
        special = special_register(name) if name.startswith("%") else None
        if special is None or ".pred" in special.types:
            return None
        return Problem("guard-not-predicate", (), f"the guard `{name}` is `{special.types[0]}`", ("a `.pred` register is needed",))
    if symbol.kind is Kind.REGISTER and symbol.type == ".pred":
        return None
    what = f"a `{symbol.type}` register" if symbol.kind is Kind.REGISTER and symbol.type else f"a {symbol.kind}"
    return Problem(
        "guard-not-predicate",
        (),
        f"the guard `{name}` is {what}",
        ("a `.pred` register is needed",),
        ((symbol.path, "it is declared here"),),
    )


def _named_list(module: Module, symbol: Symbol) -> Node | None:
    """The prototype or target list that a label names, or a broken statement that may be one; None for an ordinary label."""
    if symbol.kind is not Kind.LABEL or len(symbol.path) < 2:
        return None
    siblings = module.at(symbol.path[:-2]).children
    at = symbol.path[-2] + 1
    if at >= len(siblings) or type(siblings[at - 1]) is not Label:
        return None
    found = siblings[at]
    if isinstance(found, Targets | Prototype | Error):
        return found
    if type(found) is Declaration and found.space is None and found.type in (".branchtargets", ".calltargets"):
        return found
    return None


class _Calls:
    """The calls of a module."""

    def __init__(self, module: Module, names: Names, version: Version | None) -> None:
        self.module = module
        self.names = names
        several = any(len(function.header.returns) > 1 for function in module.functions)
        # With several return registers, ptxas does not use the ABI; before 3.0, modules need not use it.
        self.has_abi = not several and (version is None or version >= (3, 0))
        self._fitting: set[tuple[object, ...]] = set()
        self.has_results = any(function.header.returns for function in module.functions if function.body is not None)

    def concerned(self, sketch: Sketch) -> set[str]:
        """The patterns of instructions in which there is something to check."""
        scope = sketch.shaper.scope
        return sketch.mixed.union([pattern for pattern, one in sketch.examples.items() if self._concerns(one, scope)])

    def _concerns(self, instruction: Instruction, scope: Scope) -> bool:
        guard = instruction.guard
        return bool(self.interest(instruction)) or (guard is not None and _guard(guard, scope) is not None)

    def interest(self, instruction: Instruction) -> str:
        """The kind of an instruction as from `_interest`, empty if nothing depends on it."""
        found = _interest(instruction.opcode.text)
        return found if found != "read" or self.has_results else ""

    def instruction(self, path: Path, instruction: Instruction, scope: Scope) -> Iterator[Problem]:
        guard = instruction.guard
        wrong = _guard(guard, scope) if guard is not None else None
        if wrong is not None:
            yield attrs.evolve(wrong, path=(*path, 0))
        found = self.interest(instruction)
        if found == "call":
            yield from self.call(path, instruction, scope)
        elif found == "branch-indexed":
            yield from self.branch(path, instruction, scope)
        elif found:
            yield from self.access(path, instruction, scope, found == "write")

    # --- calls (9.7.13.5)

    def call(self, path: Path, instruction: Instruction, scope: Scope) -> Iterator[Problem]:
        first = len(instruction.children) - len(instruction.operands)
        operands = list(enumerate(instruction.operands, first))
        results = operands.pop(0) if operands and isinstance(operands[0][1], Group) else None
        if operands and isinstance(operands[0][1], Apply):
            message = f"`{short_text(operands[0][1])}` is not a callee"
            yield Problem("bad-call-target", (*path, operands[0][0]), message, ("a comma comes before the arguments",))
            return
        if not operands or not isinstance(operands[0][1], Name):
            return
        at, callee = operands.pop(0)
        arguments = operands.pop(0) if operands and isinstance(operands[0][1], Group) else None
        listed = operands.pop(0) if operands and isinstance(operands[0][1], Name) else None
        if operands:
            return
        symbol = scope.lookup(callee.text)
        if symbol is None:
            return
        if symbol.kind is Kind.FUNCTION:
            if listed is not None:
                return
            yield from self.direct(path, (*path, at), symbol, results, arguments, scope)
        elif symbol.kind is Kind.REGISTER:
            yield from self.callee_register((*path, at), symbol)
            if listed is not None:
                yield from self.indirect(path, (*path, listed[0]), listed[1], results, arguments, scope)
        else:
            message = f"`{callee.text}` is a {symbol.kind}, no function"
            yield Problem("bad-call-target", (*path, at), message, related=((symbol.path, "it is declared here"),))

    def callee_register(self, path: Path, symbol: Symbol) -> Iterator[Problem]:
        known = types().get(symbol.type or "")
        if known is not None and (known.kind not in ("untyped", "signed", "unsigned") or known.bits not in (32, 64) or symbol.vector > 1):
            message = f"a call through a `{symbol.type}` register"
            yield Problem("bad-call-target", path, message, ("an integer of 32 or 64 bits holds an address",))

    def direct(
        self, path: Path, at: Path, symbol: Symbol, results: tuple[int, Node] | None, arguments: tuple[int, Node] | None, scope: Scope
    ) -> Iterator[Problem]:
        function = symbol.declares
        if isinstance(function, Alias):
            found = self.names.root.symbols.get(function.children[1].text)
            function = found.declares if found is not None else None
        if not isinstance(function, Function):
            return
        related = ((symbol.path, f"`{symbol.name}` is declared here"),)
        if function.is_entry:
            yield Problem("bad-call-target", at, f"`{symbol.name}` is a kernel", ("only device functions are called",), related)
            return
        yield from self.against(path, at, symbol.name, function.header, results, arguments, scope, related)

    def indirect(
        self, path: Path, at: Path, label: Node, results: tuple[int, Node] | None, arguments: tuple[int, Node] | None, scope: Scope
    ) -> Iterator[Problem]:
        """An indirect call, with the name of a prototype, of a list of functions, or of a table of them."""
        symbol = scope.lookup(label.text)
        if symbol is None:
            return
        related = ((symbol.path, f"`{symbol.name}` is declared here"),)
        notes = ("the label of a `.callprototype` or `.calltargets` is needed",)
        if symbol.kind is Kind.VARIABLE and symbol.dimensions:
            for header in self.table(symbol):
                yield from self.against(path, at, header.name.text, header, results, arguments, scope, related)
                return
            return
        listed = _named_list(self.module, symbol)
        if isinstance(listed, Error):
            return
        if listed is None or (isinstance(listed, Targets | Declaration) and not _is_call_list(listed)):
            yield Problem("bad-call-target", at, f"`{label.text}` says nothing of what is called", notes, related)
            return
        if symbol.path > path:
            yield Problem("used-before-declaration", at, f"`{label.text}` is used before it is declared", related=related)
            return
        if isinstance(listed, Prototype):
            yield from self.against(path, at, label.text, listed, results, arguments, scope, related)
            return
        for child in listed.children:
            function = self.names.root.symbols.get(child.text) if isinstance(child, Name) else None
            if function is not None and isinstance(function.declares, Function) and not function.declares.is_entry:
                found = list(self.against(path, at, child.text, function.declares.header, results, arguments, scope, related))
                yield from found
                if found:
                    return

    def table(self, symbol: Symbol) -> Iterator[Header]:
        """The functions whose addresses are in an initialized array."""
        declaration = symbol.declares
        if not isinstance(declaration, Declaration):
            return
        declarator = next((one for one in declaration.declarators if one.name.text == symbol.name), None)
        values = declarator.initializer if isinstance(declarator, Declarator) else None
        for value in values.children if isinstance(values, Braces) else ():
            found = self.names.root.symbols.get(value.text) if isinstance(value, Name) else None
            if found is not None and isinstance(found.declares, Function) and not found.declares.is_entry:
                yield found.declares.header

    def against(
        self,
        path: Path,
        at: Path,
        name: str,
        header: Header,
        results: tuple[int, Node] | None,
        arguments: tuple[int, Node] | None,
        scope: Scope,
        related: tuple[tuple[Path, str], ...],
    ) -> Iterator[Problem]:
        """Checks the results and arguments of a call against the parameters of the callee."""
        for is_result, given, wanted in ((True, results, header.returns), (False, arguments, header.parameters)):
            elements = given[1].children if given is not None else ()
            where = (*path, given[0]) if given is not None else at
            if len(elements) != len(wanted) and not (len(wanted) == len(elements) + 1 > 1 and _is_unsized(wanted[-1])):
                what = ("return value" if is_result else "argument") + ("" if len(elements) == 1 else "s")
                message = f"{len(elements)} {what} in a call of `{name}`"
                yield Problem("argument-mismatch", where, message, (f"it has {len(wanted) or 'none'}",), related)
                return
            for i, (element, parameter) in enumerate(zip(elements, wanted, strict=False)):
                wrong = self.argument(element, parameter, is_result, scope)
                if wrong is not None:
                    message, note = wrong
                    yield Problem("argument-mismatch", (*where, i), message, (note,) if note else (), related)

    def argument(self, node: Node, parameter: Parameter, is_result: bool, scope: Scope) -> tuple[str, str] | None:
        """The problem of an argument or of the variable for a result: a message and a note."""
        formal = types().get(parameter.type or "")
        if formal is None:
            return None
        what = "a result" if is_result else "an argument"
        if self.has_abi and formal.name in NARROW and not parameter.declarator.dimensions and vector_of(parameter) == 1:
            return f"`{formal.name}` cannot be passed to or from a function", "`.b8`, `.b16` and wider types can"
        if isinstance(node, Name) and node.text == "_":
            return None if is_result else ("`_` is not an argument", f"{_spelled(parameter)} is needed")
        if isinstance(node, Name) and node.text != "WARP_SZ":
            return self.named(node.text, parameter, formal, what, scope)
        wanted = _spelled(parameter)
        value = constant_value(node)
        if value is None or is_result:
            needed = "a register or a `.param` variable" if is_result else wanted
            return f"`{short_text(node)}` is not {what}", f"{needed} is needed"
        if parameter.declarator.dimensions or not _holds_constant(formal, value):
            return f"constant `{short_text(node)}` for {wanted}", ""
        return None

    def named(self, name: str, parameter: Parameter, formal: Type, what: str, scope: Scope) -> tuple[str, str] | None:
        symbol = scope.lookup(name)
        if symbol is None:
            if name.startswith("%") and special_register(name) is not None:
                return f"special register `{name}` as {what}", "copy it into a register first"
            return None
        if symbol.kind not in (Kind.REGISTER, Kind.PARAMETER):
            return f"{symbol.kind} `{name}` as {what}", "a register or a `.param` variable is needed"
        if symbol.kind is Kind.PARAMETER and isinstance(symbol.declares, Parameter):
            return f"parameter `{name}` of the caller as {what}", "copy it into a register or a `.param` variable of the body first"
        key = (id(parameter), symbol.type, symbol.vector, symbol.dimensions, symbol.align)
        if key in self._fitting:
            return None
        wrong = _mismatch(symbol, parameter, formal)
        if wrong is not None:
            return f"{_spelled_symbol(symbol)} for {_spelled(parameter)}", wrong
        self._fitting.add(key)
        return None

    # --- branches and lists of targets (9.7.13.3, 11.3)

    def branch(self, path: Path, instruction: Instruction, scope: Scope) -> Iterator[Problem]:
        operands = instruction.operands
        if not operands or not isinstance(operands[-1], Name):
            return
        at = (*path, len(instruction.children) - 1)
        symbol = scope.lookup(operands[-1].text)
        if symbol is None or symbol.kind is not Kind.LABEL:
            return
        name = symbol.name
        listed = _named_list(self.module, symbol)
        related = ((symbol.path, f"`{name}` is declared here"),)
        if isinstance(listed, Error):
            return
        if listed is None or isinstance(listed, Prototype) or _is_call_list(listed):
            yield Problem(
                "bad-target-list", at, f"`{name}` is not a list of labels", ("the label of a `.branchtargets` is needed",), related
            )
        elif symbol.path > path:
            yield Problem("used-before-declaration", at, f"`{name}` is used before it is declared", related=related)

    def targets(self, path: Path, targets: Targets, scope: Scope) -> Iterator[Problem]:
        is_call = _is_call_list(targets)
        for i, child in enumerate(targets.children):
            symbol = scope.lookup(child.text) if isinstance(child, Name) else None
            if symbol is None or symbol.kind is (Kind.FUNCTION if is_call else Kind.LABEL):
                continue
            wanted = "function" if is_call else "label"
            message = f"`{symbol.name}` is a {symbol.kind}, no {wanted}"
            yield Problem("bad-target-list", (*path, i), message, related=((symbol.path, "it is declared here"),))

    def counted_targets(self, path: Path, targets: Declaration, scope: Scope) -> Iterator[Problem]:
        """`.branchtargets N<3>`: checks that N0, N1, N2 are labels."""
        for i, child in enumerate(targets.children):
            if not isinstance(child, Declarator):
                continue
            count = child.count
            wanted = [child.name.text] if count is None else [f"{child.name.text}{n}" for n in range(min(count, 4096))]
            for name in wanted:
                symbol = scope.symbols.get(name) if count is not None else scope.lookup(name)
                if count is not None and (symbol is None or symbol.kind is not Kind.LABEL):
                    yield Problem("bad-target-list", (*path, i), f"`{name}` of `{child.text}` is not a label of this scope")
                    break

    # --- the direction of parameters (5.1.6.4)

    def access(self, path: Path, instruction: Instruction, scope: Scope, is_store: bool) -> Iterator[Problem]:
        for i, child in enumerate(instruction.children):
            if not isinstance(child, Address) or not isinstance(child.children[0], Name):
                continue
            symbol = scope.lookup(child.children[0].text)
            if symbol is None or symbol.kind is not Kind.PARAMETER or not isinstance(symbol.declares, Parameter):
                continue
            # In a header, results precede the name: this is the child at symbol.path[2] of the header.
            header = self.module.at(symbol.path[:2])
            name_at = next((j for j, inner in enumerate(header.children) if isinstance(inner, Name)), 0)
            is_result = symbol.path[2] < name_at
            if is_result is not is_store:
                message = f"return value `{symbol.name}` is read" if is_result else f"input parameter `{symbol.name}` is written"
                yield Problem("bad-parameter", (*path, i), message, related=((symbol.path, "it is declared here"),))


def _is_call_list(listed: Node) -> bool:
    if isinstance(listed, Declaration):
        return listed.type == ".calltargets"
    return isinstance(listed, Targets) and listed.shape.literals[0].startswith(".calltargets")


def _is_unsized(parameter: Parameter) -> bool:
    dimensions = parameter.declarator.dimensions
    return bool(dimensions) and (not dimensions[0].children or plain_integer(dimensions[0].children[0]) == 0)


def _holds_constant(formal: Type, value: int | float) -> bool:
    if formal.kind == "untyped":
        return True
    if isinstance(value, float):
        return formal.kind == "float" and formal.bits >= 32
    return formal.is_integer


def _compatible(one: Type, other: Type) -> bool:
    """Whether types have the same size and one is untyped, both are integers, or both are equal."""
    if one.bits != other.bits or (one.kind == "predicate") != (other.kind == "predicate"):
        return False
    return one.name == other.name or "untyped" in (one.kind, other.kind) or (one.is_integer and other.is_integer)


def _mismatch(symbol: Symbol, parameter: Parameter, formal: Type) -> str | None:
    """How a register or variable differs from its parameter."""
    actual = types().get(symbol.type or "")
    if actual is None:
        return None
    dimensions = parameter.declarator.dimensions
    if bool(dimensions) != bool(symbol.dimensions):
        return "one is an array, the other is none"
    vector = vector_of(parameter)
    if dimensions:
        same = actual.name == formal.name or "untyped" in (actual.kind, formal.kind)
        if not _is_unsized(parameter):
            size = formal.bytes * vector
            for dimension in dimensions:
                size *= (plain_integer(dimension.children[0]) if dimension.children else None) or 1
            own = actual.bytes * symbol.vector
            for count in symbol.dimensions:
                own *= count or 1
            if size != own:
                return f"{own} bytes are given, {size} are needed"
    else:
        # for vectors, ptxas compares sizes
        same = symbol.vector == vector and (_compatible(formal, actual) if vector == 1 else formal.bits == actual.bits)
    if not same:
        return "the types must match"
    written = symbol.declares
    own_align = natural_alignment(written, actual) if isinstance(written, Declaration | Parameter) else 0
    align = natural_alignment(parameter, formal)
    if own_align and own_align != align:
        return f"it is aligned to {own_align} bytes, {align} are needed"
    return None


def _spelled(parameter: Parameter) -> str:
    sizes = "".join([dimension.text for dimension in parameter.declarator.dimensions])
    vector = vector_of(parameter)
    width = f".v{vector} " if vector > 1 else ""
    name = parameter.name
    return f"`{width}{parameter.type}{sizes}`" + (f" parameter `{name}`" if name != "_" else " parameter")


def _spelled_symbol(symbol: Symbol) -> str:
    sizes = "".join([f"[{size}]" if size is not None else "[]" for size in symbol.dimensions])
    width = f".v{symbol.vector} " if symbol.vector > 1 else ""
    what = "register" if symbol.kind is Kind.REGISTER else "variable"
    name = symbol.name if symbol.count is None else f"{symbol.name}<{symbol.count}>"
    return f"`{width}{symbol.type}{sizes}` {what} `{name}`"
