"""Binds an instruction to the table: its form and operands, or the reason why it has none.

`bind` returns a `Bound` or a `Mismatch`. It considers only the opcode text and the shapes of the operands, and caches its results for them;
the values of constants are checked afterwards, by `check_constants`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import attrs

from ptxkit.frozen import define
from ptxkit.isa.bound import GENERIC, Need, Path, holds, is_in, number_of
from ptxkit.isa.bound import Bound as Bound
from ptxkit.isa.bound import BoundOperand as BoundOperand
from ptxkit.isa.forms import Condition, Form, Item, OperandRule, Variant, Width
from ptxkit.isa.mismatch import Mismatch, about_constraint, about_modifiers, named_by, wanted_words
from ptxkit.isa.opcodes import Candidate, match, split_opcode
from ptxkit.isa.registers import special_register
from ptxkit.isa.requirements import every, requirement
from ptxkit.isa.shapes import OperandShape
from ptxkit.isa.table import forms
from ptxkit.isa.types import holders, types

_NARROW_SPACES = frozenset((".shared", ".shared::cta", ".shared::cluster", ".const", ".local", ".param", ".param::entry", ".param::func"))


@lru_cache(maxsize=16384)
def bind(opcode: str, operands: tuple[OperandShape, ...], address_size: int = 64) -> Bound | Mismatch:
    """The form of an instruction with its operands; otherwise, the nearest form and the first difference.

    Raises NotationError if the table's entry is invalid.
    """
    mnemonic, modifiers = split_opcode(opcode)
    candidates = match(opcode)
    if not candidates:
        known = forms(mnemonic)
        if not known:
            return Mismatch("unknown-opcode", f"`{mnemonic}` is not a known instruction", None, found=mnemonic)
        return about_modifiers(opcode, mnemonic, modifiers, known)
    attempts = (attempt for c in candidates for attempt in _attempts(c, operands, address_size))
    best = (-10_000, Mismatch("operand-count", f"`{opcode}` has no such operands", None))
    for attempt in attempts:
        if isinstance(attempt, Bound):
            return attempt
        best = max(best, attempt, key=lambda progress: progress[0])
    return best[1]


def without_operands(opcode: str) -> Bound | None:
    """The first form that accepts the modifiers of an opcode, bound to no operands: for what follows from the modifiers alone. None if
    there is none."""
    return next((_bound(candidate, (), {}) for candidate in match(opcode)), None)


def bind_all(opcode: str, operands: tuple[OperandShape, ...]) -> tuple[Form, ...]:
    """Every form that accepts an instruction. There should be at most one, which the table's own test verifies."""
    bound = (a for c in match(opcode) for a in _attempts(c, operands, 64) if isinstance(a, Bound))
    return tuple(dict.fromkeys(b.form for b in bound))


def _attempts(candidate: Candidate, operands: tuple[OperandShape, ...], address_size: int) -> Iterator[Bound | tuple[int, Mismatch]]:
    """The result for each variant of a form's operands: a Bound, or a Mismatch with the number of operands that matched."""
    form = candidate.form
    fitting = [v for v in form.variants if len(v) == len(operands)]
    if not fitting and form.modelled:
        counts = sorted({len(v) for v in form.variants})
        near = min(abs(c - len(operands)) for c in counts)
        expected = " or ".join(map(str, counts)) if len(counts) < 3 else f"{counts[0]} to {counts[-1]}"
        plural = "" if expected == "1" else "s"
        text = f"`{_opcode(candidate)}` takes {expected} operand{plural}, not {len(operands)}"
        yield -1000 - near, Mismatch("operand-count", text, form, expected=expected, found=str(len(operands)))
        return
    if not form.modelled:
        yield _unmodelled(candidate, operands)
        return
    for variant in fitting:
        yield _Binding(candidate, operands, address_size).of(variant)


def _unmodelled(candidate: Candidate, operands: tuple[OperandShape, ...]) -> Bound:
    bound = tuple(BoundOperand(f"operand{n}", (n,), "any", (), 0, "same", (), 0, None, shape) for n, shape in enumerate(operands))
    return _bound(candidate, bound, {})


class _Failure(Exception):
    """The first difference."""

    def __init__(self, mismatch: Mismatch) -> None:
        self.mismatch = mismatch


@define
class _Binding:
    """One attempt to bind operands to a form."""

    candidate: Candidate
    shapes: tuple[OperandShape, ...]
    address_size: int
    named: dict[str, tuple[OperandShape, Path, bool]] = attrs.field(factory=dict)
    done: int = 0

    def of(self, variant: Variant) -> Bound | tuple[int, Mismatch]:
        """The result: a Mismatch comes with the number of operands that matched before it."""
        form = self.candidate.form
        try:
            for number, (item, shape) in enumerate(zip(variant, self.shapes, strict=True)):
                self._name(item, shape, (number,))
            states = {name: shape for name, (shape, _, _) in self.named.items()}
            bound = []
            for name, (shape, path, in_brackets) in self.named.items():
                bound.append(self._operand(name, shape, path, in_brackets, states))
                self.done += 1
            for constraint in form.constraints:
                self._constraint(constraint.when, constraint.then, states)
        except _Failure as failure:
            return self.done, failure.mismatch
        return _bound(self.candidate, tuple(bound), states)

    def _fail(self, kind: str, message: str, path: Path, expected: str, shape: OperandShape | None) -> _Failure:
        found = str(shape) if shape else ""
        return _Failure(Mismatch(kind, message, self.candidate.form, path=path, expected=expected, found=found))

    def _name(self, item: Item, shape: OperandShape, path: Path, in_brackets: bool = False) -> None:
        """Assigns the names of the form line to the operands written."""
        if item.kind == "plain":
            self.named[item.name] = (shape, path, in_brackets)
            return
        if shape.kind == "unknown":
            for name in item.names():
                self.named[name] = (shape, path, in_brackets)
            return
        if item.kind == "list":
            for name in item.names():
                self.named[name] = (shape, path, False)
            if shape.kind != "list":
                raise self._fail("operand-kind", f"{_a(shape)} where a list in parentheses is needed", path, "list", shape)
            return
        if item.kind == "address" and shape.kind == "element" and len(item.parts) == 1:
            self._name(item.parts[0], shape, path)
            return
        words = {"address": "an address in brackets", "pair": "a pair", "vector": f"a vector of {len(item.parts)}"}[item.kind]
        if shape.kind != item.kind:
            raise self._fail("operand-kind", f"{_a(shape)} where {words} is needed", path, words, shape)
        if len(shape.parts) != len(item.parts):
            if item.kind == "vector":
                raise self._fail("vector-width", f"{_a(shape)} where {words} is needed", path, str(len(item.parts)), shape)
            message = f"an address of {len(shape.parts)} parts where one of {len(item.parts)} is needed"
            raise self._fail("operand-kind", message, path, str(len(item.parts)), shape)
        for number, (part, inner) in enumerate(zip(item.parts, shape.parts, strict=True)):
            self._name(part, inner, (*path, number), item.kind == "address")

    def _operand(self, name: str, shape: OperandShape, path: Path, in_brackets: bool, states: dict[str, OperandShape]) -> BoundOperand:
        rule = self._rule(name, shape, path, states)
        widths: list[int] = []
        allowed: list[str] = []
        for wanted in rule.types:
            type_name = self.candidate.slots.get(wanted.name, wanted.name)
            if type_name not in types():
                continue
            allowed.append(type_name)
            widths.append(self._width(wanted.width))
        spaces = tuple(dict.fromkeys(self._space(space) for space in rule.spaces))
        width = self._check(rule, tuple(allowed), widths, spaces, shape, path, in_brackets)
        align = self._align(rule.align)
        return BoundOperand(name, path, rule.role, tuple(allowed), width, rule.how, spaces, align, rule.limits, shape)

    def _rule(self, name: str, shape: OperandShape, path: Path, states: dict[str, OperandShape]) -> OperandRule:
        for rule in self.candidate.form.rules[name]:
            if not rule.when or holds(rule.when, self.candidate.modifiers, self.candidate.slots, states):
                return rule
        raise self._fail("operand-kind", f"{_a(shape)} may not stand here with these modifiers", path, "", shape)

    def _width(self, width: Width | None) -> int:
        """The number of elements; 0 for a scalar."""
        return number_of(width, self.candidate.slots) if width is not None else 0

    def _space(self, space: str) -> str:
        slot = self.candidate.form.slot(space)
        if slot is not None:
            return self.candidate.slots.get(space, GENERIC)
        return space

    def _align(self, align: str) -> int:
        if not align:
            return 0
        value = self.candidate.slots.get(align, align)
        return types()[value].bytes if value in types() else int(value) if value.isdecimal() else 0

    def _check(
        self,
        rule: OperandRule,
        allowed: tuple[str, ...],
        widths: list[int],
        spaces: tuple[str, ...],
        shape: OperandShape,
        path: Path,
        in_brackets: bool,
    ) -> int:
        """Raises _Failure if the operand is invalid; otherwise returns its width."""
        if shape.kind == "unknown" or rule.role in ("any", "list"):
            return max(widths, default=0)
        if rule.role == "addr":
            self._check_address(rule, spaces, shape, path, in_brackets)
            return 0
        if rule.role in _NAMED:
            if shape.kind not in _NAMED[rule.role]:
                words = _NAMED_WORDS[rule.role]
                raise self._fail("operand-kind", f"{_a(shape)} where {words} is needed", path, words, shape)
            if rule.role == "sreg":
                self._check_special(allowed, shape, path)
            return 0
        if shape.kind == "vector":
            return self._check_vector(rule, allowed, widths, shape, path)
        if shape.kind == "register" and shape.count > 1:
            if shape.count not in widths:
                raise self._wrong_width(widths, shape, path)
            self._check_element(rule, allowed, OperandShape("register", shape.type), path)
            return shape.count
        if rule.written_out or (widths and min(widths) > 1):
            raise self._wrong_width(widths, shape, path)
        self._check_element(rule, allowed, shape, path)
        return max(widths, default=0)

    def _wrong_width(self, widths: list[int], shape: OperandShape, path: Path) -> _Failure:
        several = [str(w) for w in dict.fromkeys(widths) if w > 1 or (w == 1 and shape.kind != "vector")]
        words = f"a vector of {' or '.join(several)}" if several else "a single one"
        return self._fail("vector-width", f"{_a(shape)} where {words} is needed", path, " or ".join(several) or "1", shape)

    def _check_vector(self, rule: OperandRule, allowed: tuple[str, ...], widths: list[int], shape: OperandShape, path: Path) -> int:
        count = len(shape.parts)
        if rule.role == "imm" or (count not in widths and not (count == 1 and 0 in widths)):
            raise self._wrong_width(widths, shape, path)
        fitting = tuple(t for t, w in zip(allowed, widths, strict=True) if w == count) or allowed
        for number, part in enumerate(shape.parts):
            self._check_element(rule, fitting, part, (*path, number))
        kinds = list(dict.fromkeys(part.type for part in shape.parts if part.kind == "register" and part.type))
        for one in kinds[1:]:
            if one not in holders(kinds[0]) and kinds[0] not in holders(one):
                message = f"`{one}` register in a vector whose other elements are `{kinds[0]}`"
                raise self._fail("operand-type", message, path, kinds[0], shape)
        return count

    def _check_element(self, rule: OperandRule, allowed: tuple[str, ...], shape: OperandShape, path: Path) -> None:
        """A scalar, or an element of a vector."""
        wanted = wanted_words(allowed)
        if shape.kind == "unknown":
            return
        if shape.kind == "sink":
            if not rule.sink:
                raise self._fail("operand-kind", "`_` may not stand here", path, wanted, shape)
            return
        if shape.kind == "immediate":
            self._check_constant(rule, allowed, shape, path)
            return
        if rule.role == "imm":
            raise self._fail("operand-kind", f"{_a(shape)} where a constant is needed", path, "constant", shape)
        if shape.kind == "special":
            if not rule.special or rule.role != "r":
                text = "cannot be written" if rule.writes else "may not stand here; only mov and cvt read it"
                raise self._fail("special-register", f"{shape} {text}", path, wanted, shape)
            self._check_special(allowed, shape, path)
            return
        if shape.kind == "element" and rule.symbol:
            self._check_index(shape, path)
            shape = shape.parts[0]
        if shape.kind in ("symbol", "function", "label"):
            if not rule.symbol:
                raise self._fail("operand-kind", f"{_a(shape)} where {wanted} is needed", path, wanted, shape)
            self._check_space(tuple(self._space(space) for space in rule.spaces), shape, path)
            return
        if shape.kind != "register":
            raise self._fail("operand-kind", f"{_a(shape)} where {wanted} is needed", path, wanted, shape)
        if shape.negated and not rule.negatable:
            raise self._fail("predicate", "`!` is not allowed before this operand", path, wanted, shape)
        if shape.type and allowed and not any(shape.type in holders(t, rule.how) for t in allowed):
            raise self._fail("operand-type", f"{shape} where {wanted} is needed", path, wanted, shape)

    def _check_constant(self, rule: OperandRule, allowed: tuple[str, ...], shape: OperandShape, path: Path) -> None:
        wanted = wanted_words(allowed)
        if rule.writes or not rule.constants:
            raise self._fail("operand-kind", f"{_a(shape)} where a register is needed", path, "register", shape)
        is_float = shape.type != "int"
        if rule.constant_kind:
            fits = is_float == (rule.constant_kind == "float")
        else:
            fits = not allowed or any(_constant_fits(t, shape.type) for t in allowed)
        if not fits:
            raise self._fail("operand-kind", f"{_a(shape)} where {wanted} is needed", path, wanted, shape)

    def _check_special(self, allowed: tuple[str, ...], shape: OperandShape, path: Path) -> None:
        register = special_register(shape.type)
        if register is None or not allowed:
            return
        sizes = {types()[t].bits for t in register.types}
        if 32 in sizes:
            # ptxas lets mov.u16 and cvt read the low half.
            sizes.add(16)
        for name in allowed:
            wanted = types()[name]
            if wanted.kind in ("untyped", "unsigned", "signed", "predicate") and wanted.bits in sizes:
                return
        message = f"`{register.types[0]}` special register `{register.name}` where {wanted_words(allowed)} is needed"
        raise self._fail("special-register", message, path, wanted_words(allowed), shape)

    def _check_address(self, rule: OperandRule, spaces: tuple[str, ...], shape: OperandShape, path: Path, in_brackets: bool) -> None:
        if shape.kind == "element" and rule.indexed:
            self._check_index(shape, path)
            shape = shape.parts[0]
        elif not in_brackets:
            if shape.kind != "address" or not shape.parts:
                raise self._fail("operand-kind", f"{_a(shape)} where an address in brackets is needed", path, "address", shape)
            shape = shape.parts[0]
        if shape.kind == "unknown":
            return
        if shape.kind == "symbol":
            self._check_space(spaces, shape, path)
            return
        if shape.kind == "immediate" and shape.type == "int":
            return
        if shape.kind != "register":
            raise self._fail("operand-kind", f"{_a(shape)} where an address is needed", path, "address", shape)
        if not shape.type:
            return
        kind = types().get(shape.type)
        if kind is None:
            return
        narrow = rule.narrow or not spaces or self.address_size == 32 or any(space in _NARROW_SPACES for space in spaces)
        sizes = (32, 64) if narrow else (64,)
        if kind.kind not in ("untyped", "unsigned", "signed") or kind.bits not in sizes or shape.count > 1:
            wanted = "a 32-bit or 64-bit integer" if narrow else "a 64-bit integer"
            raise self._fail("operand-type", f"{shape} as an address, where {wanted} is needed", path, wanted, shape)

    def _check_index(self, shape: OperandShape, path: Path) -> None:
        """In `a[i]`, a must be an array and i an integer."""
        array, index = shape.parts
        if array.kind == "scalar":
            raise self._fail("operand-kind", "only an array has an element", path, "array", shape)
        kind = types().get(index.type)
        is_integer = index.type == "int" if index.kind == "immediate" else kind is None or kind.kind in ("untyped", "unsigned", "signed")
        if not is_integer or index.kind not in ("register", "immediate", "symbol", "unknown"):
            message = "the index of an array is a constant, or a register of an integer type with or without a constant added"
            raise self._fail("operand-type", message, path, "integer", shape)

    def _check_space(self, spaces: tuple[str, ...], shape: OperandShape, path: Path) -> None:
        """A variable must be declared in one of the state spaces, if there are any."""
        if not spaces or not shape.space or any(is_in(shape.space, space) for space in spaces):
            return
        words = " or ".join(f"`{space}`" for space in spaces if space != GENERIC) or "a generic address"
        message = f"variable in `{shape.space}` where {words} is needed"
        raise self._fail("state-space", message, path, " ".join(spaces), shape)

    def _constraint(self, when: Condition, then: Condition | None, states: dict[str, OperandShape]) -> None:
        modifiers, slots = self.candidate.modifiers, self.candidate.slots
        if not holds(when, modifiers, slots, states):
            return
        if then is not None and holds(then, modifiers, slots, states):
            return
        raise _Failure(about_constraint(self.candidate.form, modifiers, slots, when, then))


_NAMED: dict[str, tuple[str, ...]] = {
    "label": ("label", "symbol"),
    "func": ("function", "symbol", "register"),
    "sreg": ("special",),
    "sym": ("symbol", "element", "function", "register"),
}
_NAMED_WORDS = {"label": "a label", "func": "a function", "sreg": "a special register", "sym": "a variable"}


def _bound(candidate: Candidate, operands: tuple[BoundOperand, ...], states: dict[str, OperandShape]) -> Bound:
    needs = [
        Need(requirement(statement.what), named_by(statement.when, candidate.modifiers, candidate.slots))
        for statement in candidate.form.needs
        if not statement.when or holds(statement.when, candidate.modifiers, candidate.slots, states)
    ]
    for slot in candidate.form.slots:
        filled = candidate.slots.get(slot.name)
        for choice in slot.choices if filled else ():
            if choice.modifier == filled and choice.needs:
                needs.append(Need(requirement(choice.needs), filled))
    for operand in operands:
        if operand.shape.kind == "special" and (register := special_register(operand.shape.type)):
            needs.append(Need(register.needs, register.name))
    total = every(n.requirement for n in needs)
    return Bound(candidate.form, _opcode(candidate), candidate.modifiers, candidate.slots, operands, tuple(needs), total)


def _opcode(candidate: Candidate) -> str:
    return candidate.form.mnemonic + "".join(candidate.modifiers)


def check_constants(bound: Bound, value_at: Callable[[Path], float | None]) -> Mismatch | None:
    """The first constant outside the range of its form; `value_at` gives the value at a path, None if it is not constant."""
    for operand in bound.limited:
        value = value_at(operand.path)
        if value is None or operand.limits is None or operand.limits.allow(value):
            continue
        message = f"{value:g} where {operand.limits} is needed" if isinstance(value, float) else f"{value} where {operand.limits} is needed"
        return Mismatch("immediate-range", message, bound.form, path=operand.path, expected=str(operand.limits), found=str(value))
    return None


def _constant_fits(name: str, kind: str) -> bool:
    """Whether a constant is valid for a type: integers for bits and integers, floats for floats; also 0f… for .b32 and 1.0 for .b64."""
    wanted = types()[name]
    if wanted.kind == "float":
        return kind != "int" and wanted.name in (".f32", ".f64")
    if wanted.kind == "packed":
        return False
    if wanted.kind == "untyped" and kind != "int":
        return wanted.bits == {"f32": 32, "f64": 64}[kind]
    return kind == "int"


def _a(shape: OperandShape) -> str:
    words = str(shape)
    if words.startswith("`") or shape.kind == "special":
        return words
    return f"{'an' if words[0] in 'aeio' else 'a'} {words}"
