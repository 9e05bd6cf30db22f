"""Source locations of PTX in the program it was compiled from, from `.file` and `.loc` (11.5)."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path as FilePath

import attrs

from ptxkit.diagnostics import Diagnostic, Origin
from ptxkit.memo import expression
from ptxkit.syntax import Block, File, Function, Index, Loc, Module, Node, Path

SUFFIXES = frozenset(
    (".c", ".cc", ".cl", ".cpp", ".cu", ".cuf", ".cuh", ".cxx", ".f90", ".h", ".hh", ".hpp", ".hxx", ".inl", ".jl", ".mojo", ".py", ".rs")
)
"""Only files with the extension of a program are read for an excerpt: the names come from the PTX, which may be untrusted."""

LARGEST = 10_000_000
"""In bytes; larger files are not read."""


_LIBRARY = expression(
    r"(?:^|/)(?:usr/(?:include|lib)|usr/local/cuda[^/]*|targets/[^/]+/include|site-packages|dist-packages|nvidia/[^/]+/include|lib/gcc|c\+\+|cccl"
    r"|cub|thrust|libcudacxx|cuda/std|cuda/__\w+|cooperative_groups|cutlass|cute|crt)/"
    r"|(?:^|/)(?:cuda_\w+|cooperative_groups\w*|sm_\d+_\w+|device_\w*functions|math_functions|math_constants|vector_\w+|mma|pipeline"
    r"|texture_\w+|surface_\w+)\.(?:h|hpp|hh|inl)$|(?:^|/)include/[\w]+$|^<"
)
"""Paths of files that belong to a compiler, a toolkit or a kernel library; headers of the C++ library have no extension."""


def frames(origin: Origin) -> Iterator[Origin]:
    """The location and the calls inlined there, from the innermost to the kernel."""
    frame: Origin | None = origin
    while frame is not None:
        yield frame
        frame = frame.inlined_at


def is_library(path: str) -> bool:
    """Whether a file belongs to the system, the CUDA toolkit or a library, judging by its path."""
    return _LIBRARY.search(path.replace("\\", "/")) is not None


def own_frame(origin: Origin) -> Origin:
    """The innermost frame in a file of the user; the outermost frame if there is none."""
    found = origin
    for found in frames(origin):
        if not is_library(found.path):
            return found
    return found


class Origins:
    """The source locations of positions in a module. Construction is cheap; the first query walks all statements."""

    def __init__(self, module: Module, index: Index) -> None:
        self.module = module
        self.index = index

    def at(self, offset: int) -> Origin | None:
        """The source location of an offset in the text: that of the last `.loc` before it in its function."""
        offsets, locations = self._locations
        i = bisect.bisect_right(offsets, offset) - 1
        return locations[i] if i >= 0 else None

    @functools.cached_property
    def _locations(self) -> tuple[list[int], list[Origin | None]]:
        """The start of each `.loc` and the end of each function that has some, in order, with the location that applies from there."""
        files = {child.index: child.name for child in self.module.children if isinstance(child, File)}
        offsets: list[int] = []
        locations: list[Origin | None] = []
        for i, child in enumerate(self.module.children):
            if not isinstance(child, Function) or child.body is None:
                continue
            seen: dict[tuple[int, int, int], Origin] = {}
            locs = _locs(child.body, (i, 1))
            for path, loc in locs:
                key = (loc.file, loc.line, loc.column)
                # line 0 means that the code has no source line
                known = loc.file in files and loc.line > 0
                found = Origin(files[loc.file], loc.line, loc.column, seen.get(loc.inlined_at or (0, 0, 0))) if known else None
                if found is not None:
                    seen[key] = found
                offsets.append(self.index.offset(path))
                locations.append(found)
            if locs:
                offsets.append(self.index.offset((i,)) - len(child.leading) + len(child.text))
                locations.append(None)
        return offsets, locations


def _locs(body: Block, path: Path) -> list[tuple[Path, Loc]]:
    found: list[tuple[Path, Loc]] = []
    stack: list[tuple[Path, Node]] = [(path, body)]
    while stack:
        at, node = stack.pop()
        for i, child in enumerate(node.children):
            if isinstance(child, Loc):
                found.append(((*at, i), child))
            elif isinstance(child, Block):
                stack.append(((*at, i), child))
    return sorted(found, key=lambda one: one[0])


def source_file(name: str, beside: str | None) -> FilePath | None:
    """A source file, searched under its name, then beside the PTX file; None if there is none that may be shown."""
    path = FilePath(name)
    candidates = [path] if path.is_absolute() or beside is None else [path, FilePath(beside).parent / path]
    if beside is not None:
        candidates.append(FilePath(beside).parent / path.name)
    for candidate in candidates:
        try:
            if candidate.suffix.lower() in SUFFIXES and candidate.is_file() and candidate.stat().st_size <= LARGEST:
                return candidate
        except (OSError, ValueError):
            continue
    return None


@functools.lru_cache(maxsize=64)
def source_lines(name: str, beside: str | None) -> tuple[str, ...] | None:
    """The lines of a source file, searched under its name, then beside the PTX file; None if there is none that can be shown."""
    found = source_file(name, beside)
    try:
        return None if found is None else tuple(found.read_text(encoding="utf-8", errors="replace").splitlines())
    except OSError:
        return None


def excerpt(origin: Origin, beside: str | None) -> str | None:
    """The source line without surrounding white space, if the file is found."""
    lines = source_lines(origin.path, beside)
    return lines[origin.line - 1].strip() if lines is not None and origin.line <= len(lines) else None


def with_origins(module: Module, index: Index, diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """The findings, with the source locations of each and of its related positions."""
    origins = Origins(module, index)
    return [
        attrs.evolve(
            diagnostic,
            origin=origins.at(diagnostic.span.start),
            related=tuple([attrs.evolve(related, origin=origins.at(related.span.start)) for related in diagnostic.related]),
        )
        for diagnostic in diagnostics
    ]
