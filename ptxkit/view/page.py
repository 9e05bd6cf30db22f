"""The page: a single file with its data, style and script, which loads nothing else.

All text from the file is embedded as JSON and inserted as text nodes, so none of it is parsed as HTML.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ptxkit.demangling import in_prose, readable
from ptxkit.diagnostics import Diagnostic
from ptxkit.frozen import frozen
from ptxkit.origins import own_frame, source_lines
from ptxkit.report.embedding import resource, script_json
from ptxkit.report.source import headline
from ptxkit.syntax import Function, Index, Module
from ptxkit.view.linking import Links, links
from ptxkit.view.palette import DARK, LIGHT
from ptxkit.view.sass import Sass

_LONGEST = 20_000
"""Maximum number of characters shown in a line: an initializer may be one line of megabytes."""


@frozen
class Graphs:
    """A page with the control flow graphs of some functions, in this order; if there is none, `reason` says why."""

    page: str = ""
    functions: tuple[str, ...] = ()
    reason: str = ""


def page(
    module: Module,
    findings: Sequence[Diagnostic] = (),
    sass: Sass | str = "",
    graphs: Graphs | None = None,
    functions: Iterable[str] = (),
    why: Mapping[str, str] | None = None,
    heat: Mapping[int, int] | None = None,
) -> str:
    """The page for a module. Instead of machine code, `sass` may be the reason why there is none.

    `functions` restricts the page to these; `why` explains rules by id. `heat` gives, by line of the PTX, how many threads executed it, for
    coloring.
    """
    index = Index(module)
    lines = module.text.split("\n")
    linked = links(module, index, lines)
    name = (module.path or "").replace("\\", "/").rpartition("/")[2] or "standard input"
    parts = {
        "title": html.escape(_clean(name)),
        "colors": _colors(),
        "style": resource(__package__, "page.css"),
        "data": script_json(
            _data(module, index, lines, linked, findings, sass, graphs or Graphs(), set(functions), why or {}, heat) | {"name": name}
        ),
        "script": resource(__package__, "page.js"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], resource(__package__, "page.html"))


def _data(
    module: Module,
    index: Index,
    lines: Sequence[str],
    linked: Links,
    findings: Sequence[Diagnostic],
    sass: Sass | str,
    graphs: Graphs,
    wanted: set[str],
    why: Mapping[str, str],
    heat: Mapping[int, int] | None,
) -> dict[str, Any]:
    listed = _functions(module, index)
    kept = [(first, last) for name, first, last in listed if not wanted or name in wanted]
    spans = kept if wanted else [(1, len(lines))]
    key_of = linked.of_line
    if not linked.has_source and isinstance(sass, Sass):
        key_of = _by_line(sass, len(lines))
    shown = [finding for finding in findings if any(first <= finding.span.line <= last for first, last in spans)]
    return {
        "text": "\n".join([line.rstrip("\r")[:_LONGEST] for first, last in spans for line in lines[first - 1 : last]]),
        "spans": spans,
        "keys": linked.keys,
        "keyOf": [key_of[i] for first, last in spans for i in range(first - 1, last)],
        "calls": linked.calls,
        "callOf": [linked.origin_of_line[i] for first, last in spans for i in range(first - 1, last)],
        "files": [_file(file, module.path) for file in linked.files],
        "functions": [[name, readable(name), first] for name, first, _ in listed if not wanted or name in wanted],
        "findings": [_finding(one, linked) for one in shown],
        "why": {rule: why[rule] for rule in sorted({one.rule for one in shown}) if rule in why},
        "sass": _code(sass, key_of, wanted) if isinstance(sass, Sass) else None,
        "heat": None if heat is None else [heat.get(i, 0) for first, last in spans for i in range(first, last + 1)],
        "noSass": "" if isinstance(sass, Sass) else sass,
        "graphs": {"page": graphs.page, "functions": graphs.functions, "reason": graphs.reason},
    }


def _functions(module: Module, index: Index) -> list[tuple[str, int, int]]:
    """The functions with a body, each with its first and last line."""
    found = []
    for i, child in enumerate(module.children):
        if isinstance(child, Function) and child.body is not None:
            start = index.offset((i,))
            last = index.line_column(start + len(child.text) - len(child.leading))[0]
            found.append((child.name, index.line_column(start)[0], last))
    return found


def _file(name: str, beside: str | None) -> dict[str, Any]:
    found = source_lines(name, beside)
    return {"name": name, "text": None if found is None else "\n".join([line[:_LONGEST] for line in found])}


def _finding(one: Diagnostic, linked: Links) -> dict[str, Any]:
    own = own_frame(one.origin) if one.origin is not None else None
    return {
        "rule": one.rule,
        "name": one.name,
        "severity": one.severity.value,
        "line": one.span.line,
        "text": headline(one),
        "notes": [in_prose(note) for note in one.notes],
        "related": [[related.span.line, related.message] for related in one.related],
        "source": [linked.files.index(own.path), own.line] if own is not None and own.path in linked.files else None,
        "fix": one.fix.message if one.fix is not None else "",
    }


def _by_line(sass: Sass, count: int) -> tuple[int, ...]:
    made = set(sass.of_line)
    return tuple([i if i + 1 in made else -1 for i in range(count)])


def _code(sass: Sass, key_of: Sequence[int], wanted: set[str]) -> dict[str, Any]:
    starts = [*[start for _, start in sass.functions], len(sass.lines)]
    rows = [
        i
        for (name, _), start, end in zip(sass.functions, starts, starts[1:], strict=False)
        if not wanted or name in wanted
        for i in range(start, end)
    ]
    return {
        "text": "\n".join([sass.lines[i] for i in rows]),
        "lineOf": [sass.of_line[i] for i in rows],
        "keyOf": [key_of[sass.of_line[i] - 1] if 0 < sass.of_line[i] <= len(key_of) else -1 for i in rows],
    }


def _colors() -> str:
    light, dark = ["".join([f"--{name}:{color};" for name, color in theme.items()]) for theme in (LIGHT, DARK)]
    tints = ["--tint:72%;--tone:90%;--lit:80%;", "--tint:42%;--tone:19%;--lit:32%;"]
    return (
        f":root{{color-scheme:light;{light}{tints[0]}}}\n"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}{tints[1]}}}}}\n"
        f":root[data-theme=dark]{{color-scheme:dark;{dark}{tints[1]}}}"
    )


def _clean(text: str) -> str:
    """The text without lone surrogates and control characters, which a page cannot contain."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\ud800-\udfff]", "\ufffd", text)
