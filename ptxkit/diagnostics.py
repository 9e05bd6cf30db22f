"""Diagnostics: findings with a location, a severity and a witness."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import attrs

from ptxkit.demangling import readable
from ptxkit.frozen import frozen
from ptxkit.memo import expression


class Severity(enum.StrEnum):
    """The severity of a finding. An error is proved; what is not proved is never an error."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


LONGEST = 160
"""Maximum length of a message in characters, without its notes."""
LONGEST_RELATED = 100
"""Maximum length of what is said of another location, where this can be shortened."""
_CODE = expression("`([^`]*)`")
_MODIFIERS = expression(
    r"`([a-z]\w*(?:\.(?!shared|global|local|sync|aligned|param)\w+)*?)\.(?:shared|global|local|sync|param|\w+::)[\w.:]*`"
)
_CTA = expression(r" of CTA \(\d+,\d+,\d+\)")
_LINE = expression(r" \(line \d+\)")


def brief(message: str, longest: int = LONGEST) -> str:
    """Shortens a message with more than so many characters by what its steps repeat: modifiers of instructions, the only CTA, lines."""
    for pattern, shorter in ((_MODIFIERS, r"`\1`"), (_CTA, ""), (_LINE, "")):
        if len(message) <= longest:
            break
        if pattern is not _CTA or len(set(_CTA.findall(message))) == 1:
            message = pattern.sub(shorter, message)
    return message


def in_html(text: str) -> str:
    """A message as HTML, with text in backquotes as code."""
    from html import escape

    return _CODE.sub(r"<code>\1</code>", escape(text))


@frozen
class Span:
    """A range of a file. `start` and `end` count characters from 0; lines and columns count from 1, the end column is exclusive."""

    start: int
    end: int
    line: int
    column: int
    end_line: int
    end_column: int


@frozen
class Origin:
    """A location in the source program; line and column count from 1 (column 0: unknown)."""

    path: str
    line: int
    column: int
    inlined_at: Origin | None = None
    """The call that was inlined there."""


@frozen
class Related:
    """Another location related to a finding, with a message."""

    span: Span
    message: str
    origin: Origin | None = None


@frozen
class Edit:
    """Replacement text for a range of a file. `start` and `end` count characters from 0; if they are equal, the text is inserted."""

    start: int
    end: int
    text: str


@frozen
class Fix:
    """Edits that cure a finding, to be applied together; `ptxkit.fixing` applies them."""

    message: str
    """What they do, as in "remove the declaration"."""
    edits: tuple[Edit, ...]
    is_safe: bool = True
    """Whether the program is otherwise unchanged, regardless of what its author intended."""
    notes: tuple[str, ...] = ()
    """For a proved repair: the evidence, the cost, and what is not guaranteed."""
    diff: str = ""
    """The same edits as hunks of a unified diff, each with its source line."""

    def as_json(self) -> dict[str, Any]:
        """The fix in the JSON format of `ptxkit lint`, version 1."""
        found = attrs.asdict(self)
        return {key: value for key, value in found.items() if key not in ("notes", "diff") or value}


@frozen
class Diagnostic:
    """A finding."""

    rule: str
    name: str
    severity: Severity
    message: str
    span: Span
    path: str | None = None
    function: str | None = None
    notes: tuple[str, ...] = ()
    related: tuple[Related, ...] = ()
    origin: Origin | None = None
    """The location in the source program, from `.loc`."""
    fix: Fix | None = None
    """The fix, if one is known."""
    witness: Mapping[str, Any] | None = attrs.field(default=None, eq=False)
    """The execution that shows it, as JSON data, if any."""

    def __repr__(self) -> str:
        where = f"{self.path or ''}:{self.span.line}:{self.span.column}"
        return f"<Diagnostic {self.rule} {self.severity} {where.lstrip(':')}: {self.message}>"

    def _repr_html_(self) -> str:
        from html import escape

        kernel = f" in <code>{escape(readable(self.function))}</code>" if self.function else ""
        steps = [f"line {one.span.line}: {one.message}" for one in self.related]
        more = "".join([f"<li>{in_html(text)}</li>" for text in (*steps, *self.notes)])
        return f"<b>{self.severity} {self.rule}</b>{kernel}, line {self.span.line}: {in_html(self.message)}<ul>{more}</ul>"

    def as_json(self) -> dict[str, Any]:
        """The finding in the JSON format of `ptxkit lint`, version 1."""
        span = self.span
        return {
            "path": self.path,
            "rule": self.rule,
            "name": self.name,
            "severity": self.severity.value,
            "message": self.message,
            "line": span.line,
            "column": span.column,
            "end_line": span.end_line,
            "end_column": span.end_column,
            "function": self.function,
            "kernel": None if self.function is None else readable(self.function),
            "notes": list(self.notes),
            "related": [
                {
                    "path": self.path,
                    "line": related.span.line,
                    "column": related.span.column,
                    "message": related.message,
                    **_origin(related.origin),
                }
                for related in self.related
            ],
            **_origin(self.origin),
            **({"fix": self.fix.as_json()} if self.fix is not None else {}),
            **({"witness": dict(self.witness)} if self.witness is not None else {}),
        }


def _origin(origin: Origin | None) -> dict[str, Any]:
    """The field `origin`, if there is one."""
    if origin is None:
        return {}
    found: dict[str, Any] = {"path": origin.path, "line": origin.line, "column": origin.column}
    if origin.inlined_at is not None:
        found["inlined_at"] = _origin(origin.inlined_at)["origin"]
    return {"origin": found}
