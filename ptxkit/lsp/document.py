"""An open file and its analysis state."""

from __future__ import annotations

import bisect
import functools
import threading
from collections.abc import Callable

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.analyses.framework.rule import Facts
from ptxkit.analyses.registers.liveness import liveness
from ptxkit.analyses.registers.pressure import pressure
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.uniformity.uniformity import uniformity
from ptxkit.configuration import Configuration
from ptxkit.isa.targets import parse_version
from ptxkit.names import Names, Scope, Symbol
from ptxkit.syntax import Index, Module, Name, Node, Path, line_starts, parse


class Document:
    """One version of a text. The tree and all facts are computed on demand.

    Two threads use it: one answers requests, one applies the rules. The tree and the names are computed once, by the first user. Facts
    about functions are not shared before the rules are finished, so that the threads never compute on the same objects.
    """

    def __init__(self, text: str, path: str | None = None, version: int = 0, settings: Configuration | None = None) -> None:
        self.text = text
        self.path = path
        self.version = version
        self.settings = settings or Configuration()
        self.is_warm = False
        """Whether control flow and liveness of all functions are available at no cost."""
        self.is_analysed = False
        """Whether the rules have been applied, so that their facts are available at no cost."""
        self._facts: Facts | None = None
        self._making = threading.Lock()

    @property
    def is_parsed(self) -> bool:
        """Whether the tree and the names are available at no cost."""
        return self._facts is not None

    @property
    def facts(self) -> Facts:
        """The facts for the rules, with positions and names computed."""
        if self._facts is None:
            with self._making:
                if self._facts is None:
                    facts = Facts(parse(self.text, self.path), self.settings.target, _version(self.settings.ptx), executes=False)
                    # the facts hold both from here on
                    _ = facts.names, facts.index.line_starts
                    self._facts = facts
        return self._facts

    @property
    def module(self) -> Module:
        """The tree."""
        return self.facts.module

    @property
    def index(self) -> Index:
        """Positions in the text."""
        return self.facts.index

    @property
    def names(self) -> Names:
        """The resolved names."""
        return self.facts.names

    @property
    def routines(self) -> tuple[Routine, ...]:
        """The functions with their facts; the rules, which compute more, have their own."""
        return self._own_routines

    @functools.cached_property
    def _own_routines(self) -> tuple[Routine, ...]:
        return routines(self.module)

    def settle(self, go_on: Callable[[], None] = lambda: None) -> None:
        """Computes what hover and hints need and no rule has computed: first for `is_warm`, then for `is_analysed`.

        In between, it calls `go_on`, which may raise to abort.
        """
        for facts in ((control_flow, liveness), (pressure, ssa, values, uniformity)):
            for routine in self._own_routines:
                for fact in facts:
                    go_on()
                    fact(routine)
            self.is_warm = True
        self.is_analysed = True

    # --- positions, for which no tree is needed

    @functools.cached_property
    def line_starts(self) -> list[int]:
        """The offset of each line."""
        return line_starts(self.text)

    def line_at(self, offset: int) -> int:
        """The line of an offset, from 0."""
        return bisect.bisect_right(self.line_starts, offset) - 1

    def line_text(self, line: int) -> str:
        """A line, counted from 0, without its line end."""
        end = self.line_starts[line + 1] if line + 1 < len(self.line_starts) else len(self.text)
        return self.text[self.line_starts[line] : end].rstrip("\r\n")

    # --- what stands where

    def node_at(self, offset: int) -> tuple[Path, Node]:
        """The innermost node at an offset; at the end of a word, the node of the word."""
        for at in (offset, offset - 1):
            if 0 <= at < len(self.text):
                path = self.index.path_at(at)
                node = self.module.at(path)
                if not node.children and path:
                    return path, node
        return (), self.module

    def scope_at(self, offset: int) -> Scope:
        """The innermost scope at an offset."""
        path = self.index.path_at(min(offset, max(len(self.text) - 1, 0)))
        for length in range(len(path), 0, -1):
            found = self.names.scopes.get(path[:length])
            if found is not None:
                return found
        return self.names.root

    def symbol_at(self, offset: int) -> tuple[Path, Name, Symbol] | None:
        """The name at an offset and its symbol, at a declaration or a use; None if it is not a name, or undeclared."""
        path, node = self.node_at(offset)
        if not isinstance(node, Name):
            return None
        symbol = self.meaning(path, node.text)
        return None if symbol is None else (path, node, symbol)

    def meaning(self, path: Path, name: str) -> Symbol | None:
        """The symbol of the name at a path."""
        scope = self.names.scope_of(path)
        if path[1:2] == (0,) and path[:2] in self.names.scopes and self._is_own_name(path):
            # a function's name is outside the scope of its parameters
            scope = self.names.root
        found = scope.lookup(name)
        if found is None:
            family = scope.ranges.get(name)
            return family[0] if family else None
        return found

    def _is_own_name(self, path: Path) -> bool:
        header = self.module.at(path[:2])
        return len(path) == 3 and isinstance(header.children[path[2]], Name)


def _version(text: str | None) -> tuple[int, int] | None:
    try:
        return parse_version(text) if text else None
    except ValueError:
        return None
