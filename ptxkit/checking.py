"""Checks instructions against the instruction table, to predict what an assembler rejects.

An instruction is bound to a form by its opcode and operand shapes, of which each scope makes one key (`ptxkit.operands`). Each key is bound
once. Only the instructions whose form leaves something open, such as the value of a constant, are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from operator import itemgetter

from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound, bind, check_constants
from ptxkit.isa.mismatch import Mismatch
from ptxkit.isa.opcodes import flow_of
from ptxkit.isa.registers import special_register
from ptxkit.isa.requirements import Requirement, satisfies
from ptxkit.isa.shapes import OperandShape
from ptxkit.isa.targets import runs, targets, version_text
from ptxkit.memo import per_object
from ptxkit.names import Names, Scope
from ptxkit.operands import Shaper
from ptxkit.patterns import Sketch
from ptxkit.problem import Problem
from ptxkit.syntax import Instruction, Module, Name, Node, Path, constant_value

MODELLED = (9, 1)
"""The newest PTX version that the table covers completely. In a file of a newer version, an unknown form is a warning."""

Version = tuple[int, int]


@frozen
class Site:
    """An instruction with its location: its path in the module, and its scope."""

    path: Path
    instruction: Instruction
    scope: Scope


class Binder:
    """Binds the instructions of a module for one `.version` and `.target`."""

    def __init__(self, module: Module, names: Names, version: Version | None, target: str | None) -> None:
        self.module = module
        self.names = names
        self.version = version
        self.target = target if target in targets() else None
        self.address_size = module.address_size

    def sites(self) -> Iterator[tuple[Site, Shaper]]:
        """The instructions of all functions, in document order within a scope."""
        for laid in self.names.blocks:
            shaper = self.names.shaper(laid.scope)
            for i, instruction in laid.indexed:
                yield Site((*laid.path, i), instruction, laid.scope), shaper

    def shapes(self, instruction: Instruction, shaper: Shaper) -> tuple[OperandShape, ...]:
        """The shapes of an instruction's operands."""
        is_call = flow_of(instruction.opcode.text) == "call"
        return tuple([shaper(operand, is_call) for operand in instruction.operands])

    def bound(self, instruction: Instruction, shaper: Shaper) -> Bound | Mismatch:
        """The form of an instruction."""
        return bind(instruction.opcode.text, self.shapes(instruction, shaper), self.address_size)

    def is_clean(self, bound: Bound | Mismatch) -> bool:
        """Whether an instruction has no problem, for any values of its constants."""
        return (
            isinstance(bound, Bound)
            and bound.form.modelled
            and not bound.limited
            and not bound.deprecated
            and not bound.removed
            and self._available(bound.requirement)
        )

    def _available(self, requirement: Requirement) -> bool:
        return self.version is None or self.target is None or satisfies(self.version, self.target, requirement)


class Bounds:
    """The instruction-table form of each instruction of a module, for any version and target."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._binder = Binder(names.module, names, None, None)
        self._by_key: dict[str, Bound | Mismatch] = {}
        """By the key of an instruction, which has everything that binding depends on."""
        self._of: dict[Path, tuple[Bound | Mismatch, ...]] = {}
        self._complete: set[Sketch] = set()

    def of(self, path: Path) -> tuple[Bound | Mismatch, ...]:
        """The forms of the instructions directly in the block at a path, in order; equal opcodes and shapes share one object."""
        found = self._of.get(path)
        if found is None:
            scope = self._names.scopes[path]
            self.bind(scope)
            forms = map(self._by_key.__getitem__, self._names.sketch(scope).keys)
            self._of.update([(laid.path, tuple(islice(forms, len(laid.code.patterns)))) for laid in self._names.in_scope[scope]])
            found = self._of[path]
        return found

    def one(self, instruction: Instruction, scope: Scope) -> Bound | Mismatch:
        """The form of a single instruction in a scope, as from `of`."""
        shaper = self._names.shaper(scope)
        return self._bound(shaper.instruction(instruction), instruction, shaper)

    def bind(self, scope: Scope) -> None:
        """Binds the instructions in all blocks of a scope."""
        sketch = self._names.sketch(scope)
        if sketch not in self._complete:
            self._complete.add(sketch)
            for key, instruction in sketch.by_key.items():
                self._bound(key, instruction, sketch.shaper)

    def _bound(self, key: str, instruction: Instruction, shaper: Shaper) -> Bound | Mismatch:
        found = self._by_key.get(key)
        if found is None:
            shapes = shaper.keys.shapes_of(key)
            if any(shape.kind == "list" for shape in shapes):
                # parentheses form a list only in a call
                found = self._binder.bound(instruction, shaper)
            else:
                found = bind(instruction.opcode.text, shapes, self._binder.address_size)
            self._by_key[key] = found
        return found

    def of_key(self, key: str) -> Bound | Mismatch:
        """The form of the instructions with a key that was bound."""
        return self._by_key[key]

    def suspects(self, binder: Binder) -> frozenset[str]:
        """The keys bound so far with which an instruction may have a problem."""
        return frozenset([key for key, bound in self._by_key.items() if not binder.is_clean(bound)])


@per_object
def bounds(names: Names) -> Bounds:
    """The forms of the instructions of a module; cached for the last few modules."""
    return Bounds(names)


def problems(module: Module, names: Names, version: Version | None, target: str | None) -> Iterator[Problem]:
    """Problems of a module's instructions, for the given `.version` and `.target`."""
    binder = Binder(module, names, version, target)
    doubtful = version is not None and version > MODELLED
    unknown: set[str] = set()
    forms = bounds(names)
    for scope in names.in_scope:
        forms.bind(scope)
    suspects = forms.suspects(binder)
    chosen = {sketch: sketch.with_keys(suspects) for sketch in set(map(names.sketch, names.in_scope))}
    found = [
        (path, instruction, key)
        for scope in names.in_scope
        for path, instruction, key in names.select(scope, chosen.__getitem__)
        if key in suspects
    ]
    clean: set[tuple[str, ...]] = set()
    for path, instruction, key in sorted(found, key=itemgetter(0)):
        bound = forms.of_key(key)
        case = (key, *_constants(instruction, bound))
        if case not in clean:
            wrong = list(_problems_of(path, instruction, bound, binder, doubtful, unknown))
            yield from wrong
            if not wrong:
                clean.add(case)


def _constants(instruction: Instruction, bound: Bound | Mismatch) -> Iterator[str]:
    """The operands whose values are checked."""
    if isinstance(bound, Bound):
        first = 1 if instruction.guard is None else 2
        for operand in bound.limited:
            node: Node = instruction
            for step in _tree_path(instruction, first, operand.path):
                node = node.children[step]
            yield node.text


def _problems_of(
    path: Path, instruction: Instruction, bound: Bound | Mismatch, binder: Binder, doubtful: bool, unknown: set[str]
) -> Iterator[Problem]:
    first = 1 if instruction.guard is None else 2
    if isinstance(bound, Mismatch):
        if bound.kind == "unknown-opcode":
            mnemonic = instruction.opcode.mnemonic
            if mnemonic not in unknown:
                unknown.add(mnemonic)
                known = f"the instruction table is that of PTX {version_text(MODELLED)}; further uses of this opcode are not reported"
                yield Problem(bound.kind, (*path, first - 1), bound.message, (known,), doubtful=doubtful)
            return
        yield _mismatch(path, instruction, bound, first, doubtful)
        return
    wrong = check_constants(bound, lambda at: _value(instruction, first, at))
    if wrong is not None:
        yield _mismatch(path, instruction, wrong, first, False)
    if not bound.form.modelled:
        message = f"`{bound.opcode}` is known by name only: its modifiers and operands are not checked"
        yield Problem("not-modelled", (*path, first - 1), message)
        return
    yield from _availability(path, instruction, bound, binder, first)


def _mismatch(path: Path, instruction: Instruction, wrong: Mismatch, first: int, doubtful: bool) -> Problem:
    notes = (f"the nearest form is `{wrong.form.syntax}`",) if wrong.form is not None else ()
    where = (*path, *_tree_path(instruction, first, wrong.path)) if wrong.path else (*path, first - 1)
    return Problem(wrong.kind, where, wrong.message, notes, doubtful=doubtful)


def _tree_path(instruction: Instruction, first: int, path: Path) -> Path:
    """The path from the instruction for a path of the table (which counts operands and the parts of addresses)."""
    at: Path = (first + path[0],)
    node: Node = instruction
    if at[0] >= len(instruction.children):
        return (first - 1,)
    node = instruction.children[at[0]]
    for step in path[1:]:
        if step >= len(node.children):
            break
        parts = getattr(node, "parts", None)
        if parts is not None and step < len(parts):
            step = next((i for i, child in enumerate(node.children) if child is parts[step]), step)
        at = (*at, step)
        node = node.children[step]
    return at


def _value(instruction: Instruction, first: int, path: Path) -> int | float | None:
    node: Node = instruction
    for step in _tree_path(instruction, first, path):
        node = node.children[step]
    return constant_value(node)


def _availability(path: Path, instruction: Instruction, bound: Bound, binder: Binder, first: int) -> Iterator[Problem]:
    version, target = binder.version, binder.target
    if version is None or target is None:
        return
    opcode = (*path, first - 1)
    if not satisfies(version, target, bound.requirement):
        lacking = [
            _too_low((*path, *at), f"`{name}`", register.needs, version, target, None)
            for at, name in _special_registers(instruction, first)
            if (register := special_register(name)) is not None and not satisfies(version, target, register.needs)
        ]
        yield from lacking or [_too_low(opcode, f"`{bound.opcode}`", bound.requirement, version, target, bound)]
    for removed in bound.removed:
        if version >= removed.version and (removed.target is None or runs(target, removed.target.target)):
            where = f" on {removed.target.target} and later" if removed.target else ""
            yield Problem(
                "modifier-missing", opcode, f"`{bound.opcode}` is gone since PTX {version_text(removed.version)}{where}", _instead(bound)
            )
            return
    for deprecated in bound.deprecated:
        if version >= deprecated.version:
            yield Problem(
                "deprecated-form", opcode, f"`{bound.opcode}` is deprecated since PTX {version_text(deprecated.version)}", _instead(bound)
            )
            return


def _instead(bound: Bound) -> tuple[str, ...]:
    return tuple([deprecated.message for deprecated in bound.deprecated if deprecated.message][:1])


def _too_low(path: Path, what: str, needed: Requirement, version: Version, target: str, bound: Bound | None) -> Problem:
    """The problem of a version or target that is too low, with what would suffice."""
    least = needed.version_for(target)
    if bound is not None:
        for need in bound.needs:
            if need.modifier and not satisfies(version, target, need.requirement):
                what = f"`{need.modifier}` of {what}"
                break
    if least is not None:
        return Problem(
            "version-too-low", path, f"{what} needs .version {version_text(least)} with {target}; the file says {version_text(version)}"
        )
    enough = " or ".join([f"{a.target} (from .version {version_text(a.version)})" for a in needed.alternatives()])
    return Problem("target-too-low", path, f"{what} needs {enough or 'no known target'}; the file says {target}")


def _special_registers(instruction: Instruction, first: int) -> Iterator[tuple[Path, str]]:
    from ptxkit.names import names_in

    for i, operand in enumerate(instruction.children[first:], first):
        for at, name in names_in(operand):
            if isinstance(name, Name) and name.text.startswith("%"):
                yield (i, *at), name.text


def requirements(module: Module, names: Names) -> Iterator[tuple[Site, Requirement]]:
    """What each instruction of a module requires; instructions of unknown form are omitted."""
    forms = bounds(names)
    for laid in names.blocks:
        for (i, instruction), bound in zip(laid.indexed, forms.of(laid.path), strict=True):
            if isinstance(bound, Bound):
                yield Site((*laid.path, i), instruction, laid.scope), bound.requirement
