"""Checks of initial values of variables: where they are allowed, their shape, and their values (ISA 5.4.4)."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.directives import availability, plain_integer
from ptxkit.isa.targets import Version
from ptxkit.isa.types import Type, types
from ptxkit.memo import expression
from ptxkit.names import Kind, Names, Symbol, names_in
from ptxkit.problem import Problem, short_text
from ptxkit.syntax import (
    Apply,
    Braces,
    Declaration,
    Declarator,
    Expression,
    Function,
    Group,
    Name,
    Node,
    Number,
    Numbers,
    Path,
    Range,
    String,
    VectorWidth,
    constant_value,
)

KIND = "bad-initializer"

INITIALIZED_SPACES = (".global", ".const")

MAX_DIMENSIONS = 64
"""Initial values of arrays with more dimensions are not checked: the lists would be nested as deeply."""

# A table of eight or more numbers is one leaf (a tree of 100,000 numbers would be slow): these find floats and overflows in it.
_FLOAT = expression(r"(?<![\w.])(?:0[fFdD][0-9a-fA-F]|[0-9]+(?:\.|[eE])|\.[0-9])")
_LONG = expression(r"(?<![\w.])[0-9]{21}")


def initializer_problems(
    path: Path, declaration: Declaration, declarator: Declarator, names: Names, version: Version | None, target: str | None
) -> Iterator[Problem]:
    """Problems of the initial value of a variable. `path` is that of the declarator."""
    value = declarator.initializer
    if value is None:
        return
    known = types().get(declaration.type or "")
    space = declaration.space
    if space in INITIALIZED_SPACES and type(value) is Number and len(declarator.children) == 2 and known is not None:
        plain = known.is_integer and not _has_vector(declaration) and len(value.text) < 18 and value.text.lstrip("-").isdecimal()
        if plain and declaration.linkage != ".extern":
            return
    at = (*path, len(declarator.children) - 1)
    name = declarator.name.text
    if space not in INITIALIZED_SPACES:
        yield Problem(KIND, at, f"an initial value for `{name}` in `{space}`", ("only variables in `.global` and `.const` have one",))
        return
    if declaration.linkage == ".extern":
        yield Problem(KIND, at, f"an initial value for `{name}`, which is `.extern`", ("the module that defines it gives the value",))
        return
    if any(isinstance(child, Range) for child in declarator.children):
        yield Problem(KIND, at, f"an initial value for all of `{name}<>`", ("each variable with a value is declared by itself",))
        return
    if known is not None and known.kind == "opaque" and not isinstance(value, Braces):
        yield Problem(KIND, at, f"`{short_text(value)}` for a `{known.name}`", ("a list of properties in braces is needed",))
    if known is None or known.kind in ("opaque", "predicate"):
        return
    if known.name in (".f16", ".f16x2"):
        yield Problem(KIND, at, f"an initial value of type `{known.name}`", ("declare the variable `.b16` or `.b32`",))
        return
    if len(declarator.dimensions) > MAX_DIMENSIONS:
        return
    sizes = [plain_integer(dimension.children[0]) if dimension.children else None for dimension in declarator.dimensions]
    check = _Check(known, declaration.vector if _has_vector(declaration) else 0, names, version, target)
    if isinstance(value, Braces) and not value.children and sizes and sizes[0] is None:
        yield Problem(KIND, at, f"nothing says how large `{name}` is", ("there is neither a size nor a value",))
        return
    yield from check.value(at, value, sizes)


def _has_vector(declaration: Declaration) -> bool:
    return any(isinstance(child, VectorWidth) and len(child.text) < 8 for child in declaration.children)


class _Check:
    """The values of one variable: the type of its elements, and the names visible to it."""

    def __init__(self, element: Type, vector: int, names: Names, version: Version | None, target: str | None) -> None:
        self.element = element
        self.vector = vector
        self.names = names
        self.version = version
        self.target = target

    def value(self, path: Path, node: Node, sizes: list[int | None]) -> Iterator[Problem]:
        """A value for an array of these sizes, for a vector, or for one element."""
        if not sizes and not self.vector:
            yield from self.scalar(path, node)
            return
        if not isinstance(node, Braces):
            yield Problem(KIND, path, f"`{short_text(node)}` for {'an array' if sizes else 'a vector'}", ("a list in braces is needed",))
            return
        if "," in node.shape.tokens[-1]:
            yield Problem(KIND, path, "a comma behind the last value")
        most = sizes[0] if sizes else self.vector
        count = _length(node)
        if sizes and most is not None and count > most:
            yield Problem(KIND, path, f"{count} values for {most} elements")
        elif not sizes and count != most:
            yield Problem(KIND, path, f"{count} values for a vector of {most}")
        inner = sizes[1:] if sizes else []
        nested = bool(inner) or (bool(sizes) and self.vector > 0)
        for i, child in enumerate(node.children):
            if isinstance(child, Numbers):
                yield from self.numbers((*path, i), child, nested)
            elif sizes:
                yield from self.value((*path, i), child, inner)
            else:
                yield from self.scalar((*path, i), child)

    def numbers(self, path: Path, node: Numbers, nested: bool) -> Iterator[Problem]:
        """A sequence of plain numbers."""
        if nested:
            yield Problem(KIND, path, "plain numbers where lists in braces are needed")
            return
        text = node.text
        if _LONG.search(text):
            yield Problem(KIND, path, "a number that no type holds")
        if self.element.kind == "untyped":
            return
        floats = _FLOAT.findall(text)
        if self.element.kind == "float" and len(floats) != text.count(",") + 1:
            yield Problem(KIND, path, f"an integer for `{self.element.name}`", ("a float has a point or starts with 0f or 0d",))
        elif self.element.kind != "float" and floats:
            yield Problem(KIND, path, f"a float for `{self.element.name}`")

    def scalar(self, path: Path, node: Node) -> Iterator[Problem]:
        """A value for one element."""
        element = self.element
        if isinstance(node, Braces):
            yield Problem(KIND, path, f"a list for one `{element.name}`")
            return
        if isinstance(node, String):
            yield Problem(KIND, path, "a string is not an initial value")
            return
        symbols = [(at, name) for at, name in names_in(node) if name.text != "WARP_SZ"]
        if symbols or next(node.find(Apply), None) is not None:
            yield from self.address(path, node)
            return
        value = constant_value(node)
        if isinstance(value, float):
            if element.kind not in ("float", "untyped"):
                yield Problem(KIND, path, f"float `{short_text(node)}` for `{element.name}`", ("an integer is needed",))
            elif (
                value in (float("inf"), float("-inf"))
                and isinstance(node, Number)
                and node.text.lstrip("-")[:2].lower() not in ("0f", "0d")
            ):
                yield Problem(KIND, path, f"`{short_text(node)}` is beyond any float")
        elif isinstance(value, int):
            if element.kind == "float":
                notes = ("a float has a point or starts with 0f or 0d",)
                yield Problem(KIND, path, f"integer `{short_text(node)}` for `{element.name}`", notes)
            elif isinstance(node, Number) and abs(value) >= 10**20:
                yield Problem(KIND, path, f"`{short_text(node)}` is beyond 64 bits")

    def address(self, path: Path, node: Node) -> Iterator[Problem]:
        """The address of a variable or function: `x`, `x + 4`, `generic(x)`, `generic(x) + 4`, `0xff00(x)`."""
        base: Node = node
        at = path
        offset = False
        if isinstance(node, Expression):
            children = node.children
            if len(children) != 3 or children[1].text != "+" or not isinstance(plain_integer(children[2]), int):
                yield Problem(
                    KIND,
                    path,
                    f"`{short_text(node)}` is not an initial value",
                    ("an address may have a constant added to it, nothing else",),
                )
                return
            base, at, offset = children[0], (*path, 0), True
        if isinstance(base, Apply) and isinstance(base.children[0], Number):
            yield from self.mask(at, base, offset)
            return
        yield from self.wide_enough(path, node)
        yield from self.plain_address(at, base, offset)

    def plain_address(self, path: Path, base: Node, offset: bool) -> Iterator[Problem]:
        if isinstance(base, Name):
            yield from self.symbol(path, base, offset, generic=False)
            return
        inner = _only(base.children[1]) if isinstance(base, Apply) and base.children[0].text == "generic" else None
        if not isinstance(inner, Name):
            notes = ("`x`, `x + 4`, `generic(x)`, `generic(x) + 4` and `0xff00(x)` are addresses",)
            yield Problem(KIND, path, f"`{short_text(base)}` is not an initial value", notes)
            return
        yield from availability(path, "`generic()`", "generic-initializer", self.version, self.target)
        yield from self.symbol((*path, 1, 0), inner, offset, generic=True)

    def mask(self, path: Path, node: Apply, offset: bool) -> Iterator[Problem]:
        """`0xff00(x)`: one byte of an address."""
        number = node.children[0]
        value = plain_integer(number)
        if value not in [0xFF << shift for shift in range(0, 64, 8)]:
            yield Problem(KIND, (*path, 0), f"`{number.text}` masks no byte", ("a mask is 0xff, 0xff00, and so on",))
        if offset:
            yield Problem(KIND, path, "an offset behind a masked address", ("`0xff(x + 4)` masks a sum",))
        if self.element.name not in (".u8", ".u32", ".u64"):
            yield Problem(KIND, path, f"a byte of an address for `{self.element.name}`", ("`.u8` is needed",))
        yield from availability(path, "a mask", "mask-initializer", self.version, self.target)
        inner = _only(node.children[1])
        at = (*path, 1, 0)
        added = False
        if isinstance(inner, Expression):
            inner, at, added = inner.children[0], (*at, 0), True
        if isinstance(inner, Name | Apply) and not (isinstance(inner, Apply) and isinstance(inner.children[0], Number)):
            yield from self.plain_address(at, inner, added)

    def wide_enough(self, path: Path, node: Node) -> Iterator[Problem]:
        if self.element.name not in (".u32", ".u64"):
            notes = ("an address is held by `.u64` or `.u32`", "byte by byte it is held by `.u8`: 0xff(x), 0xff00(x), …")
            yield Problem(KIND, path, f"address `{short_text(node)}` for `{self.element.name}`", notes)

    def symbol(self, path: Path, name: Name, offset: bool, generic: bool) -> Iterator[Problem]:
        symbol = self.names.lookup(path, name.text)
        if symbol is None:
            return
        what = f"`{name.text}`"
        related = ((symbol.path, "it is declared here"),)
        if symbol.kind is Kind.FUNCTION:
            if generic or offset:
                how = "`generic()`" if generic else "an offset"
                yield Problem(KIND, path, f"{how} with the function {what}", related=related)
            if symbol.path >= path and not _declared_before(self.names, symbol, path):
                yield Problem("used-before-declaration", path, f"{what} is used before it is declared", related=related)
            is_kernel = isinstance(symbol.declares, Function) and symbol.declares.is_entry
            feature = "kernel-initializer" if is_kernel else "function-initializer"
            yield from availability(path, f"the address of {what}", feature, self.version, self.target)
            return
        if symbol.kind is not Kind.VARIABLE or symbol.space not in INITIALIZED_SPACES:
            where = f"in `{symbol.space}`" if symbol.space else f"a {symbol.kind}"
            yield Problem(KIND, path, f"{what} is {where}", ("only addresses in `.global` and `.const` are known beforehand",), related)
            return
        declarator = symbol.path[:-1]
        if declarator >= path[: len(declarator)] and not _declared_before(self.names, symbol, path):
            yield Problem("used-before-declaration", path, f"{what} is used before it is declared", related=related)
            return
        yield from availability(path, f"the address of {what}", "address-initializer", self.version, self.target)


def _declared_before(names: Names, symbol: Symbol, path: Path) -> bool:
    """Whether some declaration of a name precedes a path: the symbol's own path is that of the definition."""
    for child in names.module.children[: path[0]]:
        if isinstance(child, Function) and child.name == symbol.name:
            return True
        if isinstance(child, Declaration) and any(declarator.name.text == symbol.name for declarator in child.declarators):
            return True
    return False


def _only(node: Node) -> Node | None:
    return node.children[0] if isinstance(node, Group) and len(node.children) == 1 else None


def _length(node: Braces) -> int:
    return sum([child.text.count(",") + 1 if isinstance(child, Numbers) else 1 for child in node.children])
