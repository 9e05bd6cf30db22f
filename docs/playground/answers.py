"""What the page asks of ptxkit. Answers are JSON, but for pages and texts; locations count UTF-16 units, as the browser does."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import ptxkit
from ptxkit.analyses.drawing import CannotDraw, render
from ptxkit.analyses.drawing.dot import FONT
from ptxkit.analyses.execution.available import is_available
from ptxkit.analyses.framework.rule import all_rules
from ptxkit.demangling import in_prose, readable
from ptxkit.formatter import CannotFormat
from ptxkit.report.source import headline
from ptxkit.tokens import Kind, tokens

PLAIN = (Kind.SPACE, Kind.PUNCTUATION, Kind.NAME)


def start(layout: Callable[[str], str]) -> str:
    """Sets what lays out graphs; gives the version, and whether kernels can be executed."""
    # the only letters of equal width that it knows the widths of
    render.layout = lambda graph: layout(graph.replace(FONT, "Courier New"))
    # the first file that is read compiles the tables of instructions and rules
    ptxkit.lint(".version 8.0\n.target sm_80\n.address_size 64\n.entry k() { bar.sync 0; ret; }\n")
    return json.dumps({"version": ptxkit.__version__, "executes": is_available()})


def examine(text: str) -> str:
    """The colors, the findings, what each function needs, and the functions that can be drawn."""
    module = ptxkit.parse(text)
    at = _units(text)
    rules = {rule.id: rule for rule in all_rules()}
    findings = [
        {
            "rule": one.rule,
            "name": one.name,
            "severity": one.severity.value,
            "line": one.span.line,
            "from": at(one.span.start),
            "to": at(one.span.end),
            "text": headline(one),
            "notes": [in_prose(note) for note in one.notes],
            "related": [{"line": also.span.line, "from": at(also.span.start), "text": in_prose(also.message)} for also in one.related],
            "why": rules[one.rule].why if one.rule in rules else "",
            "fix": None
            if one.fix is None
            else {
                "text": one.fix.message,
                "edits": [{"from": at(edit.start), "to": at(edit.end), "insert": edit.text} for edit in one.fix.edits],
            },
        }
        for one in ptxkit.lint(module)
    ]
    colored = [[at(one.start), at(one.start + len(one.text)), one.kind.value] for one in tokens(module) if one.kind not in PLAIN]
    needs = [
        {
            "function": readable(one.function),
            "needs": [f"{choice.target}, .version {choice.version[0]}.{choice.version[1]}" for choice in one.alternatives],
            "because": one.forced_by,
            "line": one.line,
        }
        for one in ptxkit.requires(module)
    ]
    functions = [[one.name, readable(one.name)] for one in module.functions if one.body]
    return json.dumps({"findings": findings, "tokens": colored, "requires": needs, "functions": functions})


def formatted(text: str) -> str:
    """The text in canonical layout, or why it has none."""
    try:
        return json.dumps({"text": ptxkit.fmt(text)})
    except CannotFormat as why:
        return json.dumps({"reason": str(why)})


def graph(text: str, function: str, color: str) -> str:
    """The page of a function's control flow graph, or why there is none."""
    try:
        return json.dumps({"page": ptxkit.draw(ptxkit.parse(text), function, color=color).html()})
    except (CannotDraw, ValueError) as why:
        return json.dumps({"reason": str(why)})


def _units(text: str) -> Callable[[int], int]:
    """Locations in UTF-16 units of those in characters."""
    if all(ord(letter) < 0x10000 for letter in text):
        return lambda at: at
    starts: list[Any] = [0]
    for letter in text:
        starts.append(starts[-1] + (2 if ord(letter) > 0xFFFF else 1))
    return starts.__getitem__
