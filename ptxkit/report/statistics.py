"""The number of findings of each rule."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ptxkit.diagnostics import Diagnostic, Severity

if TYPE_CHECKING:
    from rich.table import Table


def counts(diagnostics: Iterable[Diagnostic]) -> list[dict[str, Any]]:
    """An entry for each rule and severity, most frequent first: findings, and files with findings."""
    found: dict[tuple[str, str, Severity], tuple[int, set[str | None]]] = {}
    for diagnostic in diagnostics:
        key = (diagnostic.rule, diagnostic.name, diagnostic.severity)
        number, paths = found.get(key, (0, set()))
        found[key] = (number + 1, paths | {diagnostic.path})
    ordered = sorted(found.items(), key=lambda item: (-item[1][0], item[0]))
    return [
        {"rule": rule, "name": name, "severity": severity.value, "findings": number, "files": len(paths)}
        for (rule, name, severity), (number, paths) in ordered
    ]


def table(diagnostics: Iterable[Diagnostic]) -> Table:
    """The counts as a table for display."""
    from rich.table import Table

    shown = Table("findings", "files", "rule", "name", "severity", box=None, pad_edge=False)
    for line in counts(diagnostics):
        shown.add_row(str(line["findings"]), str(line["files"]), line["rule"], line["name"], line["severity"])
    return shown
