"""The witnesses of findings: with source lines and the command that reproduces them, as text and as SARIF."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from ptxkit.demangling import in_prose

if TYPE_CHECKING:
    from ptxkit.diagnostics import Diagnostic
    from ptxkit.machine.findings import Finding
    from ptxkit.syntax import Module

SHOWN = 4
"""Maximum number of accesses of a witness that are printed."""


def located(module: Module, findings: Sequence[Finding]) -> list[Finding]:
    """The findings with their source lines, from `.loc`, and with source names."""
    from ptxkit.debug_info import parameter_names
    from ptxkit.origins import with_origins
    from ptxkit.syntax import Index

    if not findings:
        return []
    kernels, names = [function.name for function in module.kernels], parameter_names(module)

    def readable(one: Diagnostic) -> Diagnostic:
        def prose(text: str) -> str:
            return in_prose(text, kernels, names, one.function)

        related = tuple([attrs.evolve(other, message=prose(other.message)) for other in one.related])
        return attrs.evolve(one, message=prose(one.message), notes=tuple(map(prose, one.notes)), related=related)

    diagnostics = with_origins(module, Index(module), [finding.diagnostic for finding in findings])
    return [attrs.evolve(finding, diagnostic=readable(one)) for finding, one in zip(findings, diagnostics, strict=True)]


def with_replay(finding: Finding, command: str) -> Finding:
    """The finding with the command that reproduces it added to its witness."""
    return attrs.evolve(finding, witness={**finding.witness, "replay": command})


def spoken(witness: Mapping[str, Any]) -> Iterator[str]:
    """A witness as lines of text: the accesses, and how to reproduce them."""
    accesses = witness.get("accesses", ())
    for access in accesses[:SHOWN]:
        value = f" {access['value']}" if "value" in access else ""
        line = f"line {access['line']}: " if access.get("line") else ""
        yield f"witness: {line}thread {_index(access['thread'])} of CTA {_index(access['cta'])}: {access['kind']}{value}"
    if len(accesses) > SHOWN:
        yield f"witness: and {len(accesses) - SHOWN} more"
    for group in witness.get("waiting", ())[:SHOWN]:
        who = f"thread {_index(group['threads'][0])}" + (f" and {group['count'] - 1} more" if group["count"] > 1 else "")
        at = f"line {group['line']}: " if group["line"] else ""
        does = f"wait for {in_prose(group['for'])}" if group["line"] else "have exited"
        yield f"witness: {at}{who} of CTA {_index(group['cta'])} {does}"
    if "replay" in witness:
        yield f"replay: {witness['replay']}"


def _index(index: Sequence[int]) -> str:
    return f"({','.join(map(str, index))})"


def sarif(module: Module, findings: Sequence[Finding]) -> dict[str, Any]:
    """The findings as a SARIF log; the witness of each is a code flow with a thread flow for each thread."""
    from ptxkit.report.baseline import fingerprint
    from ptxkit.report.sarif import document

    lines = module.text.replace("\r\n", "\n").split("\n")
    log = document([finding.diagnostic for finding in findings], (), lambda _: lines, fingerprint)
    for result, finding in zip(log["runs"][0]["results"], findings, strict=True):
        flows = list(_flows(module.path or "", lines, finding.witness))
        if flows:
            result["codeFlows"] = [{"message": {"text": finding.diagnostic.message}, "threadFlows": flows}]
        result["properties"] = {"witness": dict(finding.witness), "count": finding.count}
    return log


def _flows(path: str, lines: Sequence[str], witness: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A thread flow for each thread of a witness, with its accesses in order."""
    from ptxkit.report.sarif import at_line

    threads: dict[str, list[dict[str, Any]]] = {}
    steps = [
        *witness.get("accesses", ()),
        *[{**group, "thread": group["threads"][0], "kind": f"wait for {group['for']}"} for group in witness.get("waiting", ())],
    ]
    for order, access in enumerate(steps, 1):
        who = f"thread {_index(access['thread'])} of CTA {_index(access['cta'])}"
        value = f" {access['value']}" if "value" in access else ""
        location = at_line(path, access.get("line") or 1, lines, f"{access['kind']}{value}")
        threads.setdefault(who, []).append({"location": location, "executionOrder": order})
    for who, locations in threads.items():
        yield {"id": who, "locations": locations}
