"""From the texts of instructions to their nodes.

The scanner cuts an instruction into what leads it, its head (the guard, the opcode and the white space around them) and its operands.
Files repeat heads and operands, so each is parsed once and its node shared, in all the trees that are made by a process. Most instructions
differ from others only in digits: what they have in common, their *pattern*, is found out once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from ptxkit.memo import expression
from ptxkit.syntax import lexical, nodes, shapes
from ptxkit.syntax.lexical import NOT
from ptxkit.syntax.nodes import Guard, Instruction, Name, Node, Number, Opcode, Shape, shape
from ptxkit.syntax.shapes import Failure, build
from ptxkit.syntax.tree import setter

OPCODE = rf"[A-Za-z_][A-Za-z0-9_.]*+(?:::[A-Za-z0-9_.]++|{NOT})*+"
"""At least what an opcode may be."""
GUARD = r"@[A-Za-z0-9_$%!]++"
"""At least what a guard may be."""

_HEAD = expression(
    rf"""([ \t\r\n\f\v]*+)
    (?: (@!?) ((?:[A-Za-z]|[_$%][A-Za-z0-9_$])[A-Za-z0-9_$]*+) ([ \t]++) | {NOT})?+
    ([A-Za-z_][A-Za-z0-9_]*+(?:\.[A-Za-z0-9_]++{lexical.PARTS}|{NOT})*+)
    (.*+)""",
    re.S | re.X,
)

_PIECE = expression(
    rf"((?:[^,{{}}\[\]()\s]|\{{[^{{}}]*+\}}|\[[^\[\]]*+\]|\([^()]*+\)|\s++(?![,\s]|\Z)|{NOT})++)(\s*+,\s*+|\s*+\Z)", re.ASCII
)
"""An operand, and the comma behind it with the white space around it."""
_PIECES = expression(rf"(?:[^, {{}}\[\]()]++|\{{[^{{}}]*+\}}|\[[^\[\]]*+\]|\([^()]*+\)|{NOT})++")
"""The operands, if a comma and a blank separate them and no other blanks stand outside of brackets."""
_LEAF = expression(rf"(-?{lexical.NUMBER})|{lexical.NAME}")
_SIMPLE_ADDRESS = expression(rf"\[({lexical.NAME})(?:\+(-?[0-9]++)|{NOT})?+\]")
_FLAT_VECTOR = expression(rf"\{{([%$_0-9A-Za-z]++(?:, [%$_0-9A-Za-z]++|{NOT})*+)\}}")
_BARE_ADDRESS, _OFFSET_ADDRESS = shape("[", "]"), shape("[", "+", "]")
_SIGILS, _BRACKETS = frozenset("%_$"), frozenset("[{(")

MOST_REMEMBERED = 1 << 16
"""So many operands, heads and patterns are remembered when a text begins; if there are more of one kind, all are forgotten."""

# What attrs' frozen __init__ does, without its detour: two thirds of the time of parsing went there (benchmarks/parse.py).
_new = object.__new__
_set_text = setter(nodes.Leaf, "text")
_set_inner_shape, _set_inner_children = setter(nodes.Composite, "shape"), setter(nodes.Composite, "children")


class Irregular(Exception):
    """An instruction that is not in the layout that is known here."""


class Operands(dict[str, Node]):
    """Operands by their text. Raises Irregular for what is not an operand, or may be several."""

    def __missing__(self, text: str) -> Node:
        made: Node
        first = text[:1]
        if first in _SIGILS and text[1:].isidentifier() and text.isascii():
            made = _new(Name)
            _set_text(made, text)
        elif text.isdecimal() and text.isascii():
            made = _new(Number)
            _set_text(made, text)
        elif first == "[" and (address := _SIMPLE_ADDRESS.fullmatch(text)) is not None:
            base, offset = address[1], address[2]
            made = _new(nodes.Address)
            _set_inner_shape(made, _BARE_ADDRESS if offset is None else _OFFSET_ADDRESS)
            _set_inner_children(made, (self[base],) if offset is None else (self[base], self[offset]))
        elif first == "{" and (vector := _FLAT_VECTOR.fullmatch(text)) is not None:
            elements = tuple([self[element] for element in vector[1].split(", ")])
            made = _new(nodes.Vector)
            _set_inner_shape(made, shape("{", *[", "] * (len(elements) - 1), "}"))
            _set_inner_children(made, elements)
        elif (leaf := _LEAF.fullmatch(text)) is not None:
            made = Number(text) if leaf[1] is not None else Name(text)
        elif "," in text and first not in _BRACKETS:
            raise Irregular
        else:
            made = self._shaped(text)
        self[text] = made
        return made

    def _shaped(self, text: str) -> Node:
        if not text or text[0].isspace() or text[-1].isspace() or _hopeless(text):
            raise Irregular
        cut = shapes.cut(text)
        plan = shapes.plan("operand", cut[0]) if cut else None
        if cut is None or plan is None or isinstance(plan, Failure):
            raise Irregular
        return build(plan, cut[1], self)


def _hopeless(text: str) -> bool:
    """Whether a text is too long or too deep for the grammar, at a glance."""
    if len(text) < shapes.MAX_DEPTH:
        return False
    if len(text) > shapes.MAX_TOKENS:
        return True
    depth = 0
    for bracket in re.findall(r"[\[({\])}]", text):
        depth += 1 if bracket in "[({" else -1
        if depth > shapes.MAX_DEPTH:
            return True
    return False


class Forms(dict[int | tuple[str, ...], nodes.Shape]):
    """The shapes of instructions with one head, by what follows the operands (or their number, with a comma and a blank between them)."""

    def __init__(self, guard_gap: str | None, gap: str) -> None:
        super().__init__()
        self.before = [""] if guard_gap is None else ["", guard_gap]
        self.gap = gap

    def __missing__(self, tail_gaps: int | tuple[str, ...]) -> nodes.Shape:
        if isinstance(tail_gaps, int):
            after = [self.gap, *[", "] * (tail_gaps - 1)] if tail_gaps else []
            made = shape(*self.before, *after, ";")
        else:
            made = shape(*self.before, self.gap, *tail_gaps[:-1], tail_gaps[-1] + ";")
        self[tail_gaps] = made
        return made


class Heads(dict[str, tuple[str, tuple[Node, ...], Forms]]):
    """The parts of an instruction before its operands, by their text: white space, guard and opcode; and the shapes known so far.

    Raises Irregular for what is none.
    """

    def __init__(self) -> None:
        super().__init__()
        self.guards: dict[tuple[str, str], Guard] = {}
        self.opcodes: dict[str, Opcode] = {}
        self.leadings: dict[str, str] = {}
        self.forms: dict[tuple[str | None, str], Forms] = {}

    def __missing__(self, text: str) -> tuple[str, tuple[Node, ...], Forms]:
        m = _HEAD.fullmatch(text)
        if m is None:
            raise Irregular
        space, sign, name, guard_gap, opcode, gap = m.groups()
        if not (gap == "" or gap.isspace()):
            raise Irregular
        before: tuple[Node, ...] = (self.opcodes.get(opcode) or self.opcodes.setdefault(opcode, Opcode(opcode)),)
        if sign is not None:
            guard = self.guards.get((sign, name)) or self.guards.setdefault((sign, name), Guard(shape(sign, ""), (Name(name),)))
            before = (guard, *before)
        forms = self.forms.get((guard_gap, gap)) or self.forms.setdefault((guard_gap, gap), Forms(guard_gap, gap))
        made = self[text] = (self.leadings.setdefault(space, space), before, forms)
        return made


BETWEEN = ";"
"""What separates the operands of instructions that are kept as one text. It stands in none."""
_ZEROS = dict.fromkeys(range(ord("1"), ord("9") + 1), "0")
_DIGITS = expression("[0-9]+")
_COMPOSED = frozenset((nodes.Address, nodes.Element, nodes.Group, nodes.Pair, nodes.Unary, nodes.Vector))
"""The operands whose shapes follow from those of their parts."""


def without_numbers(text: str) -> str:
    """The text with a zero in place of each run of digits."""
    return _DIGITS.sub("0", text)


class Pattern:
    """What instructions have in common that differ only in digits of their operands."""

    __slots__ = ("before", "form", "instruction", "is_plain", "leading", "names", "text")

    leading: str
    before: tuple[Node, ...]
    """The guard and the opcode."""
    form: Shape
    is_plain: bool
    """Whether a comma and a blank separate the operands, and nothing else contains both."""
    instruction: Instruction | None
    """The only instruction of this pattern, if its layout is not known here. Then the pattern has only names and a text besides."""
    names: tuple[str, ...]
    """The names that its instructions use besides those in their operands: that of the guard; for a single instruction, all."""
    text: str
    """The guard, the opcode and the operands, with zeros for the numbers in names and in constants, unless an operand's shape may depend on
    them. Instructions of equal text have equal operand shapes, but for names that are declared differently."""


class Remembered:
    """The operands, heads and patterns that were met."""

    def __init__(self) -> None:
        self.operands = Operands()
        self.heads = Heads()
        self.patterns: dict[tuple[str, str], Pattern] = {}
        """By the head and the operands, with zeros for their digits."""
        self._exact: dict[tuple[str, str], Pattern] = {}
        """By the head and the operands, where a digit decides what an operand is."""

    def __len__(self) -> int:
        return max(len(self.operands), len(self.heads), len(self.patterns), len(self._exact))

    def found(self, heads: Sequence[str], operands: Sequence[str]) -> list[Pattern | None]:
        """The pattern of each instruction, if it is known."""
        zeros = BETWEEN.join(operands).translate(_ZEROS).split(BETWEEN)
        return list(map(self.patterns.get, zip(heads, zeros, strict=True)))

    def pattern(self, head: str, operands: str) -> Pattern:
        """The pattern of an instruction. Raises Irregular or Hopeless if it is not in a layout that is known here."""
        found = self._exact.get((head, operands))
        if found is None:
            found = Pattern()
            found.instruction = None
            found.leading, found.before, forms = self.heads[head]
            parts = self._operands(found, operands, forms)
            found.names = tuple([part.children[0].text for part in found.before if type(part) is Guard])
            found.text = pattern_text(found.before, parts)
            if all(map(_may_vary, parts)):
                self.patterns[head, operands.translate(_ZEROS)] = found
            else:
                self._exact[head, operands] = found
        return found

    def _operands(self, pattern: Pattern, text: str, forms: Forms) -> list[Node]:
        """The operands. Sets how they are laid out."""
        pattern.is_plain = "{" not in text and "(" not in text
        if pattern.is_plain:
            pieces = text.split(", ") if text else []
            pattern.form = forms[len(pieces)]
            try:
                return list(map(self.operands.__getitem__, pieces))
            except Irregular:
                pattern.is_plain = False
        pieces, gaps = split(text)
        parts = list(map(self.operands.__getitem__, pieces))
        pattern.form = forms[gaps]
        return parts


def pattern_text(before: Iterable[Node], operands: Iterable[Node]) -> str:
    """The text of the pattern of an instruction, of its guard and opcode and of its operands."""
    guard_and_opcode = [f"@{without_numbers(part.children[0].text)}" if type(part) is Guard else part.text for part in before]
    return " ".join(guard_and_opcode + [without_numbers(part.text) if _may_vary(part) else part.text for part in operands])


def single(instruction: Instruction) -> Pattern:
    """A pattern for one instruction of any layout."""
    made = Pattern()
    made.instruction = instruction
    children = instruction.children
    first = 2 if type(children[0]) is Guard else 1
    made.names = tuple(_names(children))
    made.text = pattern_text(children[:first], children[first:])
    return made


def _names(parts: Iterable[Node]) -> Iterator[str]:
    """The names that operands use."""
    for part in parts:
        if type(part) is Name:
            yield part.text
        else:
            # the function of `Apply` is not an operand
            yield from _names(part.children[1:] if type(part) is nodes.Apply else part.children)


def _may_vary(operand: Node) -> bool:
    """Whether operands that differ from this one in digits only have the same parts and, if their names are declared alike, shape."""
    kind = type(operand)
    if kind is Name:
        return True
    if kind is Number:
        return operand.text.lower().lstrip("-")[:2] != "0b"
    if kind is nodes.Component:
        return operand.children[1].text[1:].isalpha()
    return kind in _COMPOSED and all(map(_may_vary, operand.children))


_remembered = Remembered()


def remembered() -> Remembered:
    """The operands, heads and patterns that were met in this process, but for those that were forgotten."""
    return _remembered


def forget_if_many() -> None:
    """Forgets the operands, heads and patterns that were met, if they are too many to be kept."""
    global _remembered
    if len(_remembered) > MOST_REMEMBERED:
        _remembered = Remembered()


def split(arguments: str) -> tuple[list[str], int | tuple[str, ...]]:
    """The operands of an instruction and their number, or what follows each. Raises Irregular if it is not as simple as that."""
    pieces = _PIECES.findall(arguments)
    if ", ".join(pieces) == arguments:
        return pieces, len(pieces)
    found = _PIECE.findall(arguments)
    pieces, gaps = [piece for piece, _ in found], tuple([gap for _, gap in found])
    if not pieces or sum(map(len, pieces)) + sum(map(len, gaps)) != len(arguments) or "," in gaps[-1]:
        raise Irregular
    return pieces, gaps
