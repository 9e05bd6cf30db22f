"""The common operations of tree nodes: printing, walking, editing.

Every node is a *leaf* that holds its text, a *composite* that holds a shape (the literal text between its children) and the children, or a
*container* that holds statements. So printing, editing and locating work the same for all of them, and every byte of a file belongs to
exactly one leaf or one piece of literal text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import attrs

from ptxkit.frozen import frozen
from ptxkit.memo import expression

__all__ = ["Composite", "Container", "Leaf", "Node", "Path", "Shape", "node", "shape"]

N = TypeVar("N", bound="Node")

Path = tuple[int, ...]
"""The location of a node: the index of a child, of its child, and so on, from the module (or from the node queried)."""

_COMMENT = expression(r"//[^\n]*+|/\*.*?\*/", re.S)


@frozen(weakref_slot=False)
class Shape:
    """The literal text around and between the children of a composite: one more piece than there are children."""

    literals: tuple[str, ...]
    template: str = attrs.field(init=False, eq=False, repr=False)
    tokens: tuple[str, ...] = attrs.field(init=False, eq=False, repr=False)
    """The pieces without white space and comments, which may occur anywhere in them."""

    @template.default
    def _template(self) -> str:
        return "%s".join([literal.replace("%", "%%") for literal in self.literals])

    @tokens.default
    def _tokens(self) -> tuple[str, ...]:
        return tuple(["".join((_COMMENT.sub(" ", literal) if "/" in literal else literal).split()) for literal in self.literals])


@functools.lru_cache(maxsize=65536)
def shape(*literals: str) -> Shape:
    """The shape with these pieces of text; the same object for equal pieces, which keeps trees small."""
    return Shape(literals)


class Node:
    """The base of all nodes. `text` prints, `children` are the nodes inside, in order."""

    __slots__ = ()
    text: str | Any

    @property
    def children(self) -> tuple[Node, ...]:
        return ()

    def with_children(self, children: Sequence[Node]) -> Self:
        """The same node with other children; with the same number, except in containers."""
        if children:
            raise ValueError(f"a {type(self).__name__} has no children")
        return self

    def pieces(self) -> Iterator[str | Node]:
        """The text in order, split into literal pieces (possibly empty) and child nodes."""
        yield self.text

    def at(self, path: Path) -> Node:
        """The node at a path. Raises IndexError if there is none."""
        node: Node = self
        for step in path:
            node = node.children[step]
        return node

    def replace(self, path: Path, *nodes: Node) -> Self:
        """A new tree with these nodes instead of the one at `path`; everything else is shared with this one.

        For a statement, there may be any number of nodes, none to remove it; elsewhere exactly one.
        """
        if not path:
            (node,) = nodes
            return node  # type: ignore[return-value]
        parents: list[Node] = [self]
        for step in path[:-1]:
            parents.append(parents[-1].children[step])
        for parent, step in zip(reversed(parents), reversed(path), strict=True):
            children = parent.children
            if not -len(children) <= step < len(children):
                raise IndexError(f"no child {step} at {path}")
            step %= len(children)
            nodes = (parent.with_children((*children[:step], *nodes, *children[step + 1 :])),)
        (node,) = nodes
        return node  # type: ignore[return-value]

    def insert_before(self, path: Path, *nodes: Node) -> Self:
        """A new tree with these statements before the one at `path`."""
        return self.replace(path, *nodes, self.at(path))

    def insert_after(self, path: Path, *nodes: Node) -> Self:
        """A new tree with these statements after the one at `path`."""
        return self.replace(path, self.at(path), *nodes)

    def remove(self, path: Path) -> Self:
        """A new tree without the statement at `path`."""
        return self.replace(path)

    def append(self, path: Path, *nodes: Node) -> Self:
        """A new tree with these statements at the end of the block (or the module, or container) at `path`, which may be empty."""
        container = self.at(path)
        return self.replace(path, container.with_children((*container.children, *nodes)))

    def edit(self, edits: Mapping[Path, Sequence[Node]]) -> Self:
        """A new tree with the nodes for each path instead of the one there, for any number of edits at once.

        All paths refer to this tree; as in `replace`, no nodes remove a statement and several insert. Raises ValueError for an edit inside
        a node that another edit replaces, IndexError for an invalid path.
        """
        below: dict[int, dict[Path, Sequence[Node]]] = {}
        count = len(self.children)
        for path, nodes in edits.items():
            if not path:
                raise ValueError("the whole tree cannot be one of several edits")
            below.setdefault(range(count)[path[0]], {})[path[1:]] = nodes
        children: list[Node] = []
        for i, child in enumerate(self.children):
            inner = below.get(i)
            if inner is None:
                children.append(child)
            elif () not in inner:
                children.append(child.edit(inner))
            elif len(inner) == 1:
                children += inner[()]
            else:
                raise ValueError(f"edits inside of child {i}, which another edit replaces")
        return self.with_children(children)

    def walk(self) -> Iterator[tuple[Path, Node]]:
        """This node and all below it with their paths, in document order, parents first."""
        stack: list[tuple[Path, Node]] = [((), self)]
        while stack:
            path, node = stack.pop()
            yield path, node
            stack.extend(reversed([((*path, i), child) for i, child in enumerate(node.children)]))

    def find(self, kind: type[Node] | tuple[type[Node], ...]) -> Iterator[Any]:
        """All nodes of this kind in the tree, this one included, in document order."""
        return (node for _, node in self.walk() if isinstance(node, kind))

    def dump(self, depth: int = 100) -> str:
        """The subtree as indented text, one node per line."""
        lines = []
        for path, node in self.walk():
            if len(path) <= depth:
                text = node.text if isinstance(node, Leaf) else ""
                lines.append("  " * len(path) + type(node).__name__ + (f" {text!r}" if text else ""))
        return "\n".join(lines)

    def first(self, kind: type[Any]) -> Any:
        """The first child of a kind, or None."""
        return next((child for child in self.children if isinstance(child, kind)), None)

    def all(self, kind: type[Any]) -> tuple[Any, ...]:
        """The children of a kind."""
        return tuple([child for child in self.children if isinstance(child, kind)])

    def __repr__(self) -> str:
        text = self.text
        return f"<{type(self).__name__} {text if len(text) < 80 else text[:77] + '...'!r}>"

    def __str__(self) -> str:
        return str(self.text)


if TYPE_CHECKING:
    from attrs import frozen as node
else:
    node = functools.partial(frozen, repr=False, weakref_slot=False)


def setter(kind: type[Node], field: str) -> Callable[[Node, Any], None]:
    """What sets a field of a node that is being made, although the kind is frozen."""
    set_field: Callable[[Node, Any], None] = vars(kind)[field].__set__
    return set_field


class Deferred:
    """The statements of a block, of which the instructions are made when one of them is first looked at."""

    __slots__ = ()

    @property
    def children(self) -> tuple[Node, ...]:
        """All statements."""
        raise NotImplementedError

    @property
    def others(self) -> Sequence[tuple[int, Node]]:
        """The statements that are not instructions, with their indices among all."""
        raise NotImplementedError

    @property
    def leadings(self) -> set[str]:
        """What leads the statements, maybe in pieces."""
        raise NotImplementedError


def made(children: tuple[Node, ...] | Deferred) -> tuple[Node, ...]:
    """The children of a block."""
    return children.children if isinstance(children, Deferred) else children


class _Sketched(Node):
    """A node with room for what `ptxkit.mentions` finds out about it."""

    __slots__ = ("mentions",)


@node
class Leaf(_Sketched):
    """A node that is its text."""

    text: str


def with_as_many(node: N, children: Sequence[Node]) -> N:
    """The node with other children. Raises ValueError unless they are as many as it has."""
    if len(children) != len(node.children):
        raise ValueError(f"a {type(node).__name__} takes exactly as many children as it has ({len(node.children)})")
    return attrs.evolve(node, children=tuple(children))  # type: ignore[misc]


@node
class Composite(_Sketched):
    """A node made of children and the literal text around them."""

    shape: Shape
    children: tuple[Node, ...]

    @property
    def text(self) -> str:  # type: ignore[override]
        return self.shape.template % tuple([child.text for child in self.children])

    def with_children(self, children: Sequence[Node]) -> Self:
        return with_as_many(self, children)

    def pieces(self) -> Iterator[str | Node]:
        literals = self.shape.literals
        yield literals[0]
        for child, literal in zip(self.children, literals[1:], strict=True):
            yield child
            yield literal


def _plain(text: str) -> str:
    import html

    return f"<pre>{html.escape(text)}</pre>"


class Container(Node):
    """A node that contains statements: a block, a function, a section, a module."""

    __slots__ = ()
    as_html: ClassVar[Callable[[str], str]] = staticmethod(_plain)
    """How notebooks display the text. `import ptxkit` installs the colored version, which depends on this package and cannot be imported
    here."""

    def _repr_html_(self) -> str:
        return Container.as_html(self.text.strip("\r\n"))
