"""Findings in the Static Analysis Results Interchange Format 2.1.0, for code scanning services and editors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import ptxkit
from ptxkit.demangling import readable
from ptxkit.diagnostics import Diagnostic, Fix, Origin, Severity, Span
from ptxkit.origins import excerpt
from ptxkit.report.source import ReportAt, headline, shown_at

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


class About(Protocol):
    """The description of a rule."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def severity(self) -> Severity: ...
    @property
    def summary(self) -> str: ...
    @property
    def why(self) -> str: ...
    @property
    def proof(self) -> str: ...


def document(
    diagnostics: Iterable[Diagnostic],
    rules: Sequence[About],
    lines_of: Callable[[str], list[str]],
    fingerprint: Callable[[Diagnostic, list[str]], str],
    at: ReportAt = ReportAt.SOURCE,
) -> dict[str, Any]:
    """The log of one run. `lines_of` gives the lines of a file by its path; columns count characters (Unicode code points)."""
    numbers = {rule.id: i for i, rule in enumerate(rules)}
    results = [_result(diagnostic, numbers, lines_of(diagnostic.path or ""), fingerprint, at) for diagnostic in diagnostics]
    driver = {
        "name": "ptxkit",
        "version": ptxkit.__version__,
        "rules": [
            {
                "id": rule.id,
                "name": rule.name,
                "shortDescription": {"text": _sentence(rule.summary)},
                "fullDescription": {"text": rule.why},
                "help": {"text": f"{rule.why}\n\nHow it is proved: {rule.proof}\n\n`ptxkit explain {rule.id}` shows examples."},
                "defaultConfiguration": {"level": LEVELS[rule.severity]},
            }
            for rule in rules
        ],
    }
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(
    diagnostic: Diagnostic,
    numbers: dict[str, int],
    lines: list[str],
    fingerprint: Callable[[Diagnostic, list[str]], str],
    at: ReportAt,
) -> dict[str, Any]:
    path = diagnostic.path or ""
    text = "\n".join([headline(diagnostic), *[f"Note: {note}" for note in diagnostic.notes]])
    here = _placed(path, diagnostic.span, diagnostic.origin, lines, at)
    if diagnostic.function is not None:
        here["logicalLocations"] = [_kernel(diagnostic.function)]
    result: dict[str, Any] = {
        "ruleId": diagnostic.rule,
        "level": LEVELS[diagnostic.severity],
        "message": {"text": text},
        "locations": [here],
        "partialFingerprints": {"ptxkit/v1": fingerprint(diagnostic, lines)},
    }
    if diagnostic.witness is not None:
        result["properties"] = {"witness": dict(diagnostic.witness)}
    if diagnostic.fix is not None and path:
        result["fixes"] = [_fix(diagnostic.fix, path)]
    if diagnostic.rule in numbers:
        result["ruleIndex"] = numbers[diagnostic.rule]
    others = [_placed(path, related.span, related.origin, lines, at, related.message) for related in diagnostic.related]
    in_source = shown_at(diagnostic.origin, diagnostic.path, at) is not None
    sources = [_location(path, diagnostic.span, lines, "the PTX")] if in_source else _source(diagnostic.origin, path)
    if others or sources:
        result["relatedLocations"] = [{"id": i, **location} for i, location in enumerate([*others, *sources], 1)]
    if others:
        # the witness, step by step, and the finding
        steps = [*others, _placed(path, diagnostic.span, diagnostic.origin, lines, at, diagnostic.message)]
        result["codeFlows"] = [{"threadFlows": [{"locations": [{"location": step} for step in steps]}]}]
    return result


def _fix(fix: Fix, path: str) -> dict[str, Any]:
    """The fix of a finding, as replacements of characters in its file."""
    replacements = [
        {
            "deletedRegion": {"charOffset": edit.start, "charLength": edit.end - edit.start},
            **({"insertedContent": {"text": _clean(edit.text)}} if edit.text else {}),
        }
        for edit in fix.edits
    ]
    text = "\n".join([_sentence(fix.message), *fix.notes])
    return {"description": {"text": text}, "artifactChanges": [{"artifactLocation": {"uri": _uri(path)}, "replacements": replacements}]}


def _kernel(function: str) -> dict[str, Any]:
    name = readable(function)
    return {"name": name, "kind": "function"} | ({"decoratedName": function} if name != function else {})


def _placed(path: str, span: Span, origin: Origin | None, lines: list[str], at: ReportAt, message: str | None = None) -> dict[str, Any]:
    """The location in the source if it is to be shown, otherwise in the PTX."""
    frame = shown_at(origin, path or None, at)
    if frame is None:
        return _location(path, span, lines, message)
    found = _in_source(frame, path)
    return found if message is None else found | {"message": {"text": message}}


def _location(path: str, span: Span, lines: list[str], message: str | None = None) -> dict[str, Any]:
    region: dict[str, Any] = {
        "startLine": span.line,
        "startColumn": span.column,
        "endLine": span.end_line,
        "endColumn": span.end_column,
    }
    if span.line == span.end_line and span.line <= len(lines):
        region["snippet"] = {"text": _clean(lines[span.line - 1])}
    found: dict[str, Any] = {"physicalLocation": {"artifactLocation": {"uri": _uri(path)}, "region": region}}
    if message is not None:
        found["message"] = {"text": message}
    return found


def at_line(path: str, line: int, lines: Sequence[str], message: str) -> dict[str, Any]:
    """The location of a line of a file, with a message."""
    end = len(lines[line - 1]) + 1 if line <= len(lines) else 1
    return _location(path, Span(0, 0, line, 1, line, end), list(lines), message)


def _source(origin: Origin | None, beside: str) -> list[dict[str, Any]]:
    """The source lines of a finding, innermost first."""
    found = []
    what = "compiled from here"
    while origin is not None:
        found.append(_in_source(origin, beside) | {"message": {"text": what}})
        origin, what = origin.inlined_at, "inlined here"
    return found


def _in_source(origin: Origin, beside: str) -> dict[str, Any]:
    region: dict[str, Any] = {"startLine": origin.line}
    if origin.column > 0:
        region["startColumn"] = origin.column
    shown = excerpt(origin, beside)
    if shown is not None:
        region["snippet"] = {"text": _clean(shown)}
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(origin.path)}, "region": region}}


def _uri(path: str) -> str:
    if path in ("", "-"):
        return "stdin"
    location = Path(path)
    text = path.encode("utf-8", "surrogateescape")
    return f"file://{quote(text)}" if location.is_absolute() else quote(text)


def _clean(text: str) -> str:
    """The text without lone surrogates, which interchanged JSON must not contain."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.')}."
