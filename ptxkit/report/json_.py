"""Findings as JSON, version 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ptxkit.diagnostics import Diagnostic

VERSION = 1


def document(diagnostics: Sequence[Diagnostic], files: int) -> dict[str, Any]:
    """The output of `ptxkit lint --format json`; the fields are those in the README."""
    return {"version": VERSION, "files": files, "diagnostics": [diagnostic.as_json() for diagnostic in diagnostics]}
