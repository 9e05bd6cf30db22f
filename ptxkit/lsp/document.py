"""An open file, and what is known of it."""

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
from ptxkit.syntax import Index, Module, Name, Node, Path, parse


class Document:
    """One version of a text. The tree is made when it is first asked for, and so is every fact about it.

    Two threads work on it: one answers, one applies the rules. The tree and the names are made once, by the first user. What is found
    out about functions is not shared before the rules are through, so that nothing is computed by both for one and the same object.
    """

    def __init__(self, text: str, path: str | None = None, version: int = 0, settings: Configuration | None = None) -> None:
        self.text = text
        self.path = path
        self.version = version
        self.settings = settings or Configuration()
        self.is_warm = False
        """Whether the control flow and the liveness of all functions are known, and cost no time."""
        self.is_analysed = False
        """Whether the rules have been applied: what they asked is known, and costs no time."""
        self._facts: Facts | None = None
        self._making = threading.Lock()

    @property
    def is_parsed(self) -> bool:
        """Whether the tree and the names are there, and cost no time."""
        return self._facts is not None

    @property
    def facts(self) -> Facts:
        """What the rules ask; its positions and names are known."""
        if self._facts is None:
            with self._making:
                if self._facts is None:
                    facts = Facts(parse(self.text, self.path), self.settings.target, _version(self.settings.ptx))
                    # both are kept by the facts from here on
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
        """What names mean."""
        return self.facts.names

    @property
    def routines(self) -> tuple[Routine, ...]:
        """The functions with what is known of them: rules, which find out more, have some of their own."""
        return self._own_routines

    @functools.cached_property
    def _own_routines(self) -> tuple[Routine, ...]:
        return routines(self.module)

    def settle(self, go_on: Callable[[], None] = lambda: None) -> None:
        """Finds out what hover and hints ask and no rule did: what `is_warm` promises, then what `is_analysed` does.

        In between it asks whether to go on, which may raise.
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
        """The offset at which each line starts."""
        starts = [0]
        at = self.text.find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = self.text.find("\n", at + 1)
        return starts

    def line_at(self, offset: int) -> int:
        """The line of an offset, from 0."""
        return bisect.bisect_right(self.line_starts, offset) - 1

    def line_text(self, line: int) -> str:
        """A line, from 0, without its end."""
        end = self.line_starts[line + 1] if line + 1 < len(self.line_starts) else len(self.text)
        return self.text[self.line_starts[line] : end].rstrip("\r\n")

    # --- what stands where

    def node_at(self, offset: int) -> tuple[Path, Node]:
        """The innermost node at an offset; at the end of a word, that of the word."""
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
        """The name at an offset and what it means, where it is declared or used; None if it is no name, or nothing declares it."""
        path, node = self.node_at(offset)
        if not isinstance(node, Name):
            return None
        symbol = self.meaning(path, node.text)
        return None if symbol is None else (path, node, symbol)

    def meaning(self, path: Path, name: str) -> Symbol | None:
        """What the name at a path means."""
        scope = self.names.scope_of(path)
        if path[1:2] == (0,) and path[:2] in self.names.scopes and self._is_own_name(path):
            # the name of a function stands outside the scope of its parameters
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
