"""The module: the root of a tree, and its syntax errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Self

import attrs

from ptxkit.frozen import frozen
from ptxkit.syntax.statements import AddressSize, Declaration, Function, Target, Version
from ptxkit.syntax.tree import Container, Node

if TYPE_CHECKING:
    from ptxkit.diagnostics import Diagnostic
    from ptxkit.syntax.positions import Index


@frozen(repr=False)
class Module(Container):
    """A PTX file. `trailing` is the white space and comments after the last statement."""

    children: tuple[Node, ...]
    trailing: str = ""
    path: str | None = attrs.field(default=None, eq=False)

    def __repr__(self) -> str:
        return f"<Module {self.path or ''} of {len(self.children)} statements>".replace("  ", " ")

    @property
    def statements(self) -> tuple[Node, ...]:
        return self.children

    @property
    def text(self) -> str:  # type: ignore[override]
        return "".join([child.text for child in self.children]) + self.trailing

    def with_children(self, children: Sequence[Node]) -> Self:
        return attrs.evolve(self, children=tuple(children))

    def pieces(self) -> Iterator[str | Node]:
        yield from self.children
        yield self.trailing

    @property
    def functions(self) -> tuple[Function, ...]:
        """All functions in document order, including kernels and declarations."""
        return tuple([child for child in self.children if type(child) is Function])

    @property
    def kernels(self) -> tuple[Function, ...]:
        """The functions that are entries and have a body."""
        return tuple([function for function in self.functions if function.is_entry and function.body])

    @property
    def declarations(self) -> tuple[Declaration, ...]:
        """The declarations at module scope."""
        return tuple([child for child in self.children if type(child) is Declaration])

    def function(self, name: str) -> Function:
        """The function of that name, preferably with a body. Raises KeyError."""
        found = [function for function in self.functions if function.name == name]
        if not found:
            raise KeyError(name)
        return next((function for function in found if function.body), found[0])

    @property
    def version(self) -> tuple[int, int] | None:
        """The PTX version that the file declares, such as (8, 5)."""
        return next((child.number for child in self.children if type(child) is Version), None)

    @property
    def targets(self) -> tuple[str, ...]:
        """The words of `.target`."""
        return tuple([word for child in self.children if type(child) is Target for word in child.words])

    @property
    def address_size(self) -> int:
        """32 or 64; 32 by default (11.1.3)."""
        return next((child.bits for child in self.children if type(child) is AddressSize), 32)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The syntax errors."""
        return syntax_errors(self)


def syntax_errors(module: Module, index: Index | None = None) -> tuple[Diagnostic, ...]:
    """The syntax errors and unknown directives in document order."""
    from ptxkit.syntax import errors  # most callers of the parser never need them

    return errors.syntax_errors(module, module.path, index)
