"""Code lenses above each function: registers, shared memory, the required target."""

from __future__ import annotations

from ptxkit.analyses.registers.pressure import pressure
from ptxkit.diagnostics import Span
from ptxkit.isa.targets import version_text
from ptxkit.lsp.document import Document
from ptxkit.lsp.outline import outline
from ptxkit.requirement import needs_of
from ptxkit.statistics import statistics


def lenses(document: Document) -> tuple[tuple[Span, str], ...]:
    """The name span of each function with a body, and its resource usage."""
    peaks = {routine.name: pressure(routine).peak for routine in document.routines}
    needs = {one.function: one for one in needs_of(document.module)}
    counted = statistics(document.module)
    shared = {one.name: one.shared_bytes for one in counted.functions}
    found = []
    for entry in outline(document):
        if entry.name not in peaks:
            continue
        said = [f"at most {peaks[entry.name]} registers of 32 bits live", f"{shared.get(entry.name, 0):,} bytes of shared memory"]
        if counted.shared_bytes:
            said.append(f"{counted.shared_bytes:,} bytes in the module")
        need = needs.get(entry.name)
        if need is not None and need.alternatives:
            said.append("needs " + " or ".join([f"{one.target}, PTX {version_text(one.version)}" for one in need.alternatives]))
        found.append((entry.own, " · ".join(said)))
    return tuple(found)
