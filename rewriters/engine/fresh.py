"""Fresh names.

A name with a prefix that occurs nowhere in the text of a file clashes with no name in any scope, including families such as `%r<100>`. So a
module gets one stem, and every name derived from it is fresh. Roles distinguish a rewriter's own names.
"""

from __future__ import annotations

from itertools import count

from ptxkit.frozen import frozen
from ptxkit.memo import per_object
from ptxkit.syntax import Module


@frozen
class Fresh:
    """Makes names from a role and an optional number: the same name for the same role and number."""

    stem: str

    def register(self, role: str, number: int | None = None) -> str:
        """The name of a register."""
        return f"%{self._name(role, number)}"

    def label(self, role: str, number: int | None = None) -> str:
        """The name of a label."""
        return f"${self._name(role, number)}"

    def symbol(self, role: str, number: int | None = None) -> str:
        """The name of a variable, parameter or function."""
        return f"__{self._name(role, number)}"

    def owns(self, name: str) -> bool:
        """Whether a name is one of these, and thus in no scope of the module."""
        return name.lstrip("%$_").startswith(f"{self.stem}_")

    def _name(self, role: str, number: int | None) -> str:
        return f"{self.stem}_{role}" if number is None else f"{self.stem}_{role}{number}"


@per_object
def fresh(module: Module) -> Fresh:
    """The fresh names of a module."""
    text = module.text
    return Fresh(next(stem for n in count() if f"{(stem := f'pk{n or str()}')}_" not in text))
