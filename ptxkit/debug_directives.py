"""Checks of debugging directives: `.file`, `.loc`, and the DWARF data of sections (ISA 11.5)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ptxkit.directives import availability, other_statements, plain_integer
from ptxkit.isa.targets import Version
from ptxkit.memo import expression
from ptxkit.names import Names
from ptxkit.problem import Problem
from ptxkit.syntax import Data, File, Label, Loc, Module, Name, Number, Numbers, Path, Section, String, constant_value, nodes

_RANGES = {".b8": (-128, 255), ".b16": (-32768, 65535)}
"""The valid ranges. For wider types, ptxas truncates values that do not fit."""

# Decimal numbers with many digits, and hexadecimal ones with more than two: all that may exceed a byte.
_MAYBE_BEYOND_BYTE = expression(r"[0-9]{4}|[3-9][0-9]{2}|2[6-9][0-9]|25[6-9]|-[0-9]{3}|[xX][0-9a-fA-F]{3}")


def problems(module: Module, names: Names, version: Version | None, target: str | None) -> Iterator[Problem]:
    """Problems in the debugging directives of a module, for the given `.version` and `.target` (11.5)."""
    files: dict[int, Path] = {}
    locations: set[tuple[str, ...]] | None = None
    labels: set[str] | None = None
    for i, child in enumerate(module.children):
        if type(child) is File:
            yield from _file((i,), child, files, version, target)
        elif type(child) is Section:
            yield from _section((i,), child, version, target)
    clean: set[int] = set()
    for path, child in other_statements(names, Loc):
        # equal lines of a file are one node
        if id(child) in clean:
            continue
        wrong = list(_loc(path, child))  # type: ignore[arg-type]
        if len(child.children) > 3:
            if locations is None:
                locations, labels = _locations(names), _section_labels(module)
            wrong = [*_inlined(path, child, locations, labels or set(), version, target), *wrong]  # type: ignore[arg-type]
        yield from wrong
        if not wrong:
            clean.add(id(child))


def _file(path: Path, statement: File, files: dict[int, Path], version: Version | None, target: str | None) -> Iterator[Problem]:
    for j, child in enumerate(statement.children):
        if isinstance(child, String):
            continue
        value = plain_integer(child)
        if value is None:
            yield Problem("bad-debug-directive", (*path, j), f"`{child.text}` of `.file` is not a plain integer")
        elif value >= 1 << 32 and j == 0:
            yield Problem("bad-debug-directive", (*path, j), f"`{child.text}` of `.file` is beyond 32 bits")
        elif j == 0 and value in files:
            message = f"file number {value} is defined twice"
            yield Problem("bad-debug-directive", (*path, 0), message, related=((files[value], "the first one"),))
        elif j == 0:
            files[value] = (*path, 0)
    if len(statement.children) > 2:
        yield from availability((*path, 2), "a time stamp in `.file`", "file-timestamp", version, target)


def _loc(path: Path, statement: Loc) -> Iterator[Problem]:
    for j, child in enumerate(statement.children):
        if isinstance(child, Number) and not child.text.isdecimal():
            if plain_integer(child) is None:
                yield Problem("bad-debug-directive", (*path, j), f"`{child.text}` of `.loc` is not a plain integer")
        elif len(child.text) > 9 and isinstance(child, Number) and int(child.text[:24]) >= 1 << 32:
            yield Problem("bad-debug-directive", (*path, j), f"`{child.text}` of `.loc` is beyond 32 bits")


def _locations(names: Names) -> set[tuple[str, ...]]:
    """The file, line and column of every `.loc`."""
    return {tuple([n.text for n in child.children[:3]]) for _, child in other_statements(names, Loc)}


def _section_labels(module: Module) -> set[str]:
    """The labels of all sections, and the names of the sections."""
    found = set()
    for child in module.children:
        if isinstance(child, Section):
            found.add(child.name)
            for inner in child.children[1:]:
                found.update([label.name.text for label in inner.children if isinstance(label, Label)])
    return found


def _inlined(
    path: Path, statement: Loc, locations: set[tuple[str, ...]], labels: set[str], version: Version | None, target: str | None
) -> Iterator[Problem]:
    yield from availability(path, "the position of an inlined function", "inlined-location", version, target)
    texts = [child.text for child in statement.children]
    numbers = list(itertools.takewhile(lambda text: text.lstrip("-").isdecimal(), texts[::-1]))[::-1]
    if "inlined_at" not in statement.shape.template:
        yield Problem("bad-debug-directive", path, "`function_name` without `inlined_at`")
    elif len(numbers) >= 3 and tuple(numbers[-3:]) not in locations:
        owner = " ".join(numbers[-3:])
        yield Problem("bad-debug-directive", path, f"no `.loc` says `{owner}`, where this was inlined", ("that one must come before it",))
    name = next((j for j, child in enumerate(statement.children) if isinstance(child, Name)), None)
    if name is not None and texts[name] not in labels and not texts[name].startswith("."):
        yield Problem("bad-debug-directive", (*path, name), f"no section has the label `{texts[name]}`")


def _section(path: Path, section: Section, version: Version | None, target: str | None) -> Iterator[Problem]:
    yield from availability(path, "`.section`", ".section", version, target)
    name = section.name
    if not name.startswith("."):
        yield Problem(
            "bad-debug-directive", (*path, 0, 0), f"`{name}` is not a name of a section", ("it starts with a dot, as .debug_info",)
        )
    if len(section.children) < 2:
        return
    labels: dict[str, Path] = {}
    clean: set[int] = set()
    for i, child in enumerate(section.children[1].children):
        # equal lines of a file are one node
        if id(child) in clean:
            continue
        at = (*path, 1, i)
        if type(child) is Data:
            wrong = list(_data(at, child, version, target))
            yield from wrong
            if not wrong:
                clean.add(id(child))
        elif type(child) is Label:
            yield from availability(at, "a label in a section", "section-label", version, target)
            if child.name.text in labels:
                message = f"`{child.name.text}` is declared twice in one section"
                yield Problem("bad-debug-directive", at, message, related=((labels[child.name.text], "the first one"),))
            labels.setdefault(child.name.text, at)
        elif not isinstance(child, nodes.Error | nodes.Line):
            yield Problem(
                "bad-debug-directive", at, "this is not DWARF data", ("a section holds labels and lines of `.b8`, `.b16`, `.b32`, `.b64`",)
            )


def _data(path: Path, data: Data, version: Version | None, target: str | None) -> Iterator[Problem]:
    kind = data.children[0].text
    if data.shape.tokens[-1] == ";":
        yield Problem("bad-debug-directive", path, "`;` after DWARF data")
    low, high = _RANGES.get(kind, (-(1 << 80), 1 << 80))
    older = version is not None and version < (7, 5)
    for j, child in enumerate(data.children[1:], 1):
        text = child.text if type(child) is Number else ""
        if text.isdecimal() and (len(text) < 3 or (len(text) < 10 and text[0] != "0" and int(text) <= high)):
            continue
        if type(child) is Numbers:
            if older and "-" in child.text:
                yield from availability((*path, j), "a negative number in a section", "section-negative", version, target)
            if kind in (".b32", ".b64") or (kind == ".b8" and not _MAYBE_BEYOND_BYTE.search(child.text)):
                continue
            wrong = next((number for number in child.elements if not _within(number, low, high)), None)
            if wrong is not None:
                yield Problem("bad-debug-directive", (*path, j), f"`{wrong.text}` does not fit into `{kind}`", (f"{low} to {high}",))
        elif type(child) is Number:
            offset = j > 1 and data.shape.tokens[j] in ("+", "-")
            if offset:
                yield from availability((*path, j), "a label with an offset", "section-label-offset", version, target)
            elif not _within(child, low, high):
                yield Problem("bad-debug-directive", (*path, j), f"`{child.text}` does not fit into `{kind}`", (f"{low} to {high}",))
            elif older and child.text.startswith("-"):
                yield from availability((*path, j), "a negative number in a section", "section-negative", version, target)
        elif kind not in (".b32", ".b64") and not isinstance(child, String):
            yield Problem("bad-debug-directive", (*path, j), f"a label in `{kind}`", ("a label takes `.b32` or `.b64`",))
        elif j > 1 and data.shape.tokens[j] == "-":
            yield from availability((*path, j), "the difference of two labels", "section-difference", version, target)


def _within(number: Number, low: int, high: int) -> bool:
    value = constant_value(number)
    return isinstance(value, int) and low <= value <= high
