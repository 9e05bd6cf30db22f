"""The debugged text: the instructions on a line of the PTX, and on a source line that `.loc` names."""

from __future__ import annotations

import functools
from pathlib import Path as FilePath

from ptxkit.debug_info import parameter_names
from ptxkit.demangling import in_prose, matching
from ptxkit.diagnostics import Origin
from ptxkit.frozen import frozen
from ptxkit.origins import Origins, frames, own_frame, source_file
from ptxkit.syntax import Block, Function, Index, Instruction, Module, Node, Path


@frozen
class Statement:
    """An instruction: its path in the tree, its function, its line in the PTX, and its source location."""

    path: Path
    function: str
    line: int
    origin: Origin | None


class Text:
    """A module as the debugger sees it."""

    def __init__(self, module: Module, path: str) -> None:
        self.module = module
        self.path = str(FilePath(path).resolve()) if path != "-" else path

    @functools.cached_property
    def statements(self) -> tuple[Statement, ...]:
        """All instructions, in document order."""
        index = Index(self.module)
        origins = Origins(self.module, index)
        found = []
        for number, child in enumerate(self.module.children):
            if not isinstance(child, Function) or child.body is None:
                continue
            for path in _instructions(child.body, (number, 1)):
                span = index.span(path)
                found.append(Statement(path, child.name, span.line, origins.at(span.start)))
        return tuple(found)

    @functools.cached_property
    def by_path(self) -> dict[Path, Statement]:
        """Each instruction by its path in the module."""
        return {one.path: one for one in self.statements}

    @functools.cached_property
    def lines(self) -> tuple[str, ...]:
        """The lines of the PTX."""
        return tuple(self.module.text.splitlines())

    def is_own(self, path: str) -> bool:
        """Whether a path is that of the PTX file."""
        return _resolved(path) == self.path

    def on_line(self, line: int) -> tuple[Statement, ...]:
        """The first instruction on a line of the PTX, or on the next line of the function that has one; empty if there is none."""
        later = [one for one in self.statements if one.line >= line]
        if not later:
            return ()
        first = min(later, key=lambda one: one.line)
        # a line between two functions belongs to neither
        start = min(one.line for one in self.statements if one.function == first.function)
        return (first,) if first.line == line or line >= start else ()

    def on_source_line(self, path: str, line: int) -> tuple[Statement, ...]:
        """The instructions at which control enters a line of a source file, or the next line with code: the first one of each run."""
        known = [(one, _line_in(one.origin, path, self.path)) for one in self.statements]
        there = [number for _, numbers in known for number in numbers if number >= line]
        if not there:
            return ()
        wanted = min(there)
        found = []
        before: tuple[str, bool] = ("", False)
        for one, numbers in known:
            is_on = wanted in numbers
            if is_on and before != (one.function, True):
                found.append(one)
            before = (one.function, is_on)
        return tuple(found)

    def entry(self, function: str) -> Statement | None:
        """The first instruction of a function, by its name in the PTX or in the source, if unambiguous."""
        names = {one.function: one for one in reversed(self.statements)}
        meant = matching(function, names)
        return names[meant[0]] if len(meant) == 1 else None

    def prose(self, text: str) -> str:
        """A sentence with source names."""
        return in_prose(text, [function.name for function in self.module.kernels], parameter_names(self.module))

    def source_of(self, origin: Origin) -> str | None:
        """The path of the file that a source location names, if it exists."""
        found = source_file(origin.path, self.path)
        return str(found.resolve()) if found is not None else None


def shown(origin: Origin) -> Origin:
    """The frame of a source location to show: the innermost in a file of the user."""
    return own_frame(origin)


def _instructions(body: Block, path: Path) -> list[Path]:
    found: list[Path] = []
    stack: list[tuple[Path, Node]] = [(path, body)]
    while stack:
        at, node = stack.pop()
        for i, child in enumerate(node.children):
            if isinstance(child, Instruction):
                found.append((*at, i))
            elif isinstance(child, Block):
                stack.append(((*at, i), child))
    return sorted(found)


@functools.lru_cache(maxsize=65536)
def _line_in(origin: Origin | None, path: str, beside: str) -> tuple[int, ...]:
    """The lines of a file at a source location: its own, or those of inlined calls."""
    if origin is None:
        return ()
    return tuple([frame.line for frame in frames(origin) if _is_file(frame.path, path, beside)])


@functools.lru_cache(maxsize=4096)
def _is_file(name: str, path: str, beside: str) -> bool:
    """Whether a `.file` name denotes a file; by its last component if there is no such file."""
    found = source_file(name, beside)
    if found is not None:
        return str(found.resolve()) == _resolved(path)
    return FilePath(name).name == FilePath(path).name


def _resolved(path: str) -> str:
    return str(FilePath(path).resolve())
