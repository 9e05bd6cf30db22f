"""Relates lines of the source to lines of the PTX and of the machine code."""

from __future__ import annotations

from collections.abc import Sequence

from ptxkit.diagnostics import Origin
from ptxkit.frozen import frozen
from ptxkit.memo import expression
from ptxkit.origins import Origins, frames, own_frame
from ptxkit.syntax import Index, Module

_CODE = expression(r"\s*(?:[\w$]+:\s*)?\{?\s*(?:@!?\s*[%\w$]+\s+)?[a-z]")
"""A line that begins with an instruction: directives begin with a dot, comments with a slash, an inner label is on its own line."""


@frozen
class Links:
    """The links of a file. A key is a line of the user's source; without `.loc`, it is a line of the PTX."""

    files: tuple[str, ...]
    """The user's own files, as named by `.file`."""
    keys: tuple[tuple[int, int], ...]
    """By key, the file index and the line, from 1."""
    of_line: tuple[int, ...]
    """By line of the PTX, from 0, its key; -1 for a line without a source line."""
    calls: tuple[tuple[str, ...], ...]
    """By source location, the frames from the innermost call to the kernel, as `file:line`."""
    origin_of_line: tuple[int, ...]
    """By line of the PTX, from 0, its source location; -1 for none."""

    @property
    def has_source(self) -> bool:
        """Whether `.loc` names any line."""
        return bool(self.files)


def links(module: Module, index: Index, lines: Sequence[str]) -> Links:
    """The links of the lines of a module, split at line feeds."""
    origins = Origins(module, index)
    files: dict[str, int] = {}
    keys: dict[tuple[int, int], int] = {}
    calls: dict[Origin, int] = {}
    of_line: list[int] = []
    origin_of_line: list[int] = []
    known: dict[int, tuple[int, int]] = {}
    at = 0
    for line in lines:
        origin = origins.at(at) if _CODE.match(line) else None
        at += len(line) + 1
        if origin is None:
            of_line.append(-1)
            origin_of_line.append(-1)
            continue
        found = known.get(id(origin))
        if found is None:
            own = own_frame(origin)
            key = (files.setdefault(own.path, len(files)), own.line)
            found = known[id(origin)] = (keys.setdefault(key, len(keys)), calls.setdefault(origin, len(calls)))
        of_line.append(found[0])
        origin_of_line.append(found[1])
    locations = tuple([tuple([f"{frame.path}:{frame.line}" for frame in frames(origin)]) for origin in calls])
    return Links(tuple(files), tuple(keys), tuple(of_line), locations, tuple(origin_of_line))
