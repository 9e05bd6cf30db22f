"""Canonical white space within statements.

Statements of one shape differ only in names and numbers, so the white space of a shape is computed once, as a template.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptxkit.isa.opcodes import in_order
from ptxkit.memo import expression
from ptxkit.syntax import (
    Address,
    Apply,
    AttributeItem,
    Component,
    Composite,
    Datum,
    Declarator,
    Dimension,
    Element,
    Guard,
    Header,
    Label,
    Leaf,
    Name,
    Node,
    Number,
    Numbers,
    Opcode,
    Pair,
    Parameters,
    PerformanceDirective,
    Range,
    Shape,
    Statement,
    String,
    Unary,
    lexical,
)
from ptxkit.wrapping import MAY_BREAK, STAYS, one_line

COMMENT = expression(r"//[^\n]*|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/")

_TIGHT = frozenset((Address, Apply, AttributeItem, Component, Datum, Declarator, Dimension, Element, Guard, Label, Pair, Range, Unary))
"""Nodes whose parts are not separated by blanks."""
_SIGNED = frozenset((Address, Datum, Unary))
_OPENING, _CLOSING = frozenset("([<{@!"), frozenset(",;)]>}")
_TWO_SIGNS = expression(r"([-+!~])(?=\1)")

Item = str | type[Node]
"""An item of a template: a token, a comment, a required `\\n`, or a child, of which only the kind matters."""


class Spacer:
    """The text of nodes with canonical white space. Statements share nodes, so each is processed once."""

    def __init__(self) -> None:
        self.texts: dict[int, str] = {}
        """By `id` of the node: its text on one line."""
        self._templates: dict[tuple[type[Node], int], str] = {}

    def flat(self, node: Node) -> str:
        """The text on one line, except for line breaks after line comments."""
        text = self.texts.get(id(node))
        if text is None:
            kind = type(node)
            text = node.text if kind is Name or kind is Number else one_line(self.marked(node))
            self.texts[id(node)] = text
        return text

    def marked(self, node: Node, broken: bool = False) -> str:
        """The text with marks where a line may or must end; with `broken`, the parameters of a header are on separate lines."""
        if isinstance(node, Leaf):
            if isinstance(node, Opcode):
                return in_order(node.text) + "".join(map(_trailing, COMMENT.findall(node.text) if "/" in node.text else ()))
            if isinstance(node, Numbers):
                return f",{MAY_BREAK}".join([number.strip() for number in node.text.split(",")])
            return node.text.replace("\n", STAYS) if isinstance(node, String) else node.text
        assert isinstance(node, Composite | Statement)
        template = self._template(node)
        parts = [self.marked(child) for child in node.children]
        if broken:
            before: Node | None = None
            for i, child in enumerate(node.children):
                if isinstance(child, Parameters) and isinstance(before, Name):
                    parts[i] = _apart(self._template(child)) % tuple([self.marked(parameter) for parameter in child.children])
                before = child
        text = template % tuple(parts)
        return _TWO_SIGNS.sub(r"\1 ", text) if type(node) in _SIGNED and "/" not in text else text

    def _template(self, node: Composite | Statement) -> str:
        if isinstance(node, Header):
            return _template(node)
        key = (type(node), id(node.shape))
        known = self._templates.get(key)
        if known is None:
            known = self._templates[key] = _template(node)
        return known


def _trailing(comment: str) -> str:
    """A comment, laid out after a token."""
    return f"  {comment.rstrip()}\n" if comment.startswith("//") else f" {comment}"


def has_comment(shape: Shape) -> bool:
    """Whether the literal text contains a comment; `/` is not a token by itself there."""
    return any("/" in literal for literal in shape.literals)


def _template(node: Composite | Statement) -> str:
    """The literal text of a node with canonical white space, with `%s` for the children."""
    kind = type(node)
    items: list[Item] = []
    for literal, child in zip(node.shape.literals, (*node.children, None), strict=True):
        items += tokens(literal)
        if child is not None:
            items.append(type(child))
    text = ""
    for i, item in enumerate(items):
        if i:
            text += _gap(kind, items[i - 1], item)
        text += item.replace("%", "%%") if isinstance(item, str) else "%s"
    return text


def _gap(kind: type[Node], left: Item, right: Item) -> str:
    """The white space between two items."""
    if left == "\n" or right == "\n":
        return ""
    if _is_comment(left) or _is_comment(right):
        if right in _CLOSING:
            return ""
        return "  " if isinstance(right, str) and right.startswith("//") else " "
    if right in _CLOSING or left in _OPENING or right == "(":
        return ""
    if left == ",":
        return MAY_BREAK
    if left == "=" or right == "=":
        return " "
    if kind in _TIGHT or (left is Name and right is Parameters):
        return ""
    return "\n" if right is PerformanceDirective else " "


def _is_comment(item: Item) -> bool:
    return isinstance(item, str) and item.startswith(("//", "/*"))


def _apart(template: str) -> str:
    """The template of a bracketed list with one line per element."""
    text = template.replace(MAY_BREAK, "\n")
    if "%s" not in text:
        return text
    is_led = text[1:].lstrip().startswith("//")
    return f"{text[0]}{'' if is_led else chr(10)}{text[1:-1]}\n{text[-1]}"


def tokens(literal: str) -> Sequence[str]:
    """The tokens and comments of literal text, with `\\n` after a `//` comment, and around comments on lines of their own."""
    if literal.isspace() or not literal:
        return ()
    found: list[str] = []
    at = 0
    while at < len(literal):
        match = lexical.TOKEN.match(literal, at)
        assert match is not None
        _add_comments(found, match[1])
        kind = match.lastindex or lexical.END
        if kind != lexical.END:
            found.append(match[kind])
        at = match.end()
    return found


def _add_comments(found: list[str], trivia: str) -> None:
    if "/" not in trivia:
        return
    at = 0
    for comment in COMMENT.finditer(trivia):
        if "\n" in trivia[at : comment.start()] and found[-1:] != ["\n"]:
            found.append("\n")
        found.append(comment[0].rstrip())
        at = comment.end()
        if comment[0].startswith("//"):
            found.append("\n")
    if "\n" in trivia[at:] and found[-1] != "\n":
        found.append("\n")
