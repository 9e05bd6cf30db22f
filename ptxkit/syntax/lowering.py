"""Converts the grammar's parse tree to nodes.

One walk serves two purposes. With a `leaf` that makes real leaves, it is the plain parser of a statement; with a `leaf` that makes
placeholders for the varying parts of a shape, it yields the plan from which `shapes.py` builds nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ptxkit.syntax import nodes
from ptxkit.syntax.grammar import grammar
from ptxkit.syntax.nodes import Node, Shape, shape

if TYPE_CHECKING:
    from parsimonious.nodes import Node as PegNode

LEAVES: dict[str, type[nodes.Leaf]] = {
    "name": nodes.Name,
    "number": nodes.Number,
    "numbers": nodes.Numbers,
    "string": nodes.String,
    "opcode": nodes.Opcode,
    "keyword": nodes.Keyword,
    "linkage": nodes.Linkage,
    "space": nodes.Space,
    "width": nodes.VectorWidth,
    "kind": nodes.FunctionKind,
    "data_type": nodes.DataType,
    "data_symbol": nodes.Name,
    "selector": nodes.Selector,
    "section_name": nodes.SectionName,
    "operator": nodes.Operator,
}

COMPOSITES: dict[str, type[nodes.Composite]] = {
    "guard": nodes.Guard,
    "component": nodes.Component,
    "element": nodes.Element,
    "pair": nodes.Pair,
    "vector": nodes.Vector,
    "address": nodes.Address,
    "unary": nodes.Unary,
    "negated": nodes.Unary,
    "expression": nodes.Expression,
    "conditional": nodes.Conditional,
    "cast": nodes.Cast,
    "apply": nodes.Apply,
    "group": nodes.Group,
    "align": nodes.Align,
    "attribute": nodes.Attribute,
    "attribute_item": nodes.AttributeItem,
    "pointer": nodes.Pointer,
    "range": nodes.Range,
    "dimension": nodes.Dimension,
    "braces": nodes.Braces,
    "setting": nodes.Setting,
    "declarator": nodes.Declarator,
    "parameter": nodes.Parameter,
    "parameters": nodes.Parameters,
    "datum": nodes.Datum,
    "performance": nodes.PerformanceDirective,
}

STATEMENTS: dict[str, type[nodes.Statement]] = {
    "instruction": nodes.Instruction,
    "label": nodes.Label,
    "declaration": nodes.Declaration,
    "header": nodes.Header,
    "prototype": nodes.Prototype,
    "version": nodes.Version,
    "target": nodes.Target,
    "address_size": nodes.AddressSize,
    "pragma": nodes.Pragma,
    "alias": nodes.Alias,
    "targets": nodes.Targets,
    "file": nodes.File,
    "loc": nodes.Loc,
    "section": nodes.SectionHeader,
    "data": nodes.Data,
    "unknown": nodes.Unknown,
    "hash_line": nodes.Line,
    "dwarf_line": nodes.Line,
    "empty": nodes.Empty,
}

INNER_STATEMENTS = frozenset({"performance"})
"""Rules within which a statement rule (`pragma` after a function's parameters) is plain text and children."""


Leaf = Callable[[type[nodes.Leaf], int, int], Any]
Make = Callable[[type[Node], Shape, list[Any], int], Any]


def lower(tree: PegNode, leaf: Leaf, make: Make) -> Any:
    """The node for a parse tree whose root is (or only wraps) one rule that makes a node.

    `leaf(kind, start, end)` and `make(kind, shape, children, start)` construct nodes; positions are offsets in the parsed text.
    """
    rule = tree.expr_name
    if rule in LEAVES:
        return leaf(LEAVES[rule], tree.start, tree.end)
    if rule in COMPOSITES or rule in STATEMENTS:
        return _node_of(tree, leaf, make)
    top: list[tuple[int, int, Any]] = []
    _children_of(tree, top, False, leaf, make)
    ((_, _, only),) = top
    return only


def _children_of(peg: PegNode, found: list[tuple[int, int, Any]], inner: bool, leaf: Leaf, make: Make) -> None:
    for child in peg.children:
        if child.start == child.end:
            continue
        rule = child.expr_name
        if rule in LEAVES:
            found.append((child.start, child.end, leaf(LEAVES[rule], child.start, child.end)))
        elif rule in COMPOSITES or (rule in STATEMENTS and not inner):
            found.append((child.start, child.end, _node_of(child, leaf, make)))
        else:
            _children_of(child, found, inner, leaf, make)


def _node_of(peg: PegNode, leaf: Leaf, make: Make) -> Any:
    rule, text = peg.expr_name, peg.full_text
    kind: type[Any] = COMPOSITES.get(rule) or STATEMENTS[rule]
    found: list[tuple[int, int, Any]] = []
    _children_of(peg, found, rule in INNER_STATEMENTS, leaf, make)
    literals, at = [], peg.start
    for start, end, _ in found:
        literals.append(text[at:start])
        at = end
    literals.append(text[at : peg.end])
    return make(kind, shape(*literals), [child for _, _, child in found], peg.start)


def plain(rule: str, text: str, leading: str = "") -> Node:
    """The node of a text by the grammar alone, without shapes: slow, and the reference for the fast path.

    Raises parsimonious.exceptions.ParseError for text that does not match the rule.
    """

    def leaf(kind: type[nodes.Leaf], start: int, end: int) -> Node:
        return kind(text[start:end])

    def make(kind: type[Any], form: Shape, children: list[Any], _: int) -> Node:
        made: Node = kind(leading, form, tuple(children)) if issubclass(kind, nodes.Statement) else kind(form, tuple(children))
        return made

    result: Node = lower(grammar()[rule].parse(text), leaf, make)
    return result
