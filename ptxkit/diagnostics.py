"""What ptxkit says of a file: findings with a location, a severity and the witness."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Any

import attrs

from ptxkit.demangling import readable
from ptxkit.frozen import frozen


class Severity(enum.StrEnum):
    """How bad a finding is. An error has a proof; what is not proved is never an error."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


_CODE = re.compile("`([^`]*)`")


def in_html(text: str) -> str:
    """A message as HTML, with what stands in backquotes as code."""
    from html import escape

    return _CODE.sub(r"<code>\1</code>", escape(text))


@frozen
class Span:
    """A stretch of a file. `start` and `end` count characters from 0; lines and columns count from 1, the end column is exclusive."""

    start: int
    end: int
    line: int
    column: int
    end_line: int
    end_column: int


@frozen
class Origin:
    """A location in the source program; line and column count from 1 (column 0: none is known)."""

    path: str
    line: int
    column: int
    inlined_at: Origin | None = None
    """The call that was inlined there."""


@frozen
class Related:
    """Another location that belongs to a finding, with a message."""

    span: Span
    message: str
    origin: Origin | None = None


@frozen
class Edit:
    """Other text for a stretch of a file. `start` and `end` count characters from 0; where they are equal, the text is put in between."""

    start: int
    end: int
    text: str


@frozen
class Fix:
    """Edits that cure a finding, all or none of them; `ptxkit.fixing` applies them."""

    message: str
    """What they do, as in "remove the declaration"."""
    edits: tuple[Edit, ...]
    is_safe: bool = True
    """Whether the program means the same afterwards but for what was wrong, no matter what its author intended."""
    notes: tuple[str, ...] = ()
    """Of a repair that was proved: what showed it, what it costs, and what it does not promise."""
    diff: str = ""
    """The same edits as hunks of a unified difference, each with the line of the source that it is for."""

    def as_json(self) -> dict[str, Any]:
        """The fix as in the JSON output of `ptxkit lint`, version 1."""
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
    """Where the code comes from in the program that was compiled, if `.loc` says."""
    fix: Fix | None = None
    """The fix, if one is known."""
    witness: Mapping[str, Any] | None = attrs.field(default=None, eq=False)
    """The execution that shows it, as JSON has it, if it was shown by one."""

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
        """The finding as in the JSON output of `ptxkit lint`, version 1."""
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
