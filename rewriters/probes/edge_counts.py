"""Probe for execution counts of edges between basic blocks."""

from __future__ import annotations

from ptxkit.rewriters.counting import OUTSIDE, count_edges, functions_of
from ptxkit.rewriters.manifest import Read, Table, Value
from ptxkit.rewriters.probing import Plan


def edge_counts(plan: Plan, *, registers: int = 16, derive: bool = True) -> None:
    """How often control takes each edge between basic blocks: exact counts of threads.

    Edges into and out of a function are counted too, with no block as source or target. Up to `registers` counters in loops are kept in
    registers, the others in memory. Without `derive`, every edge has its own counter.
    """
    count_edges(plan, registers, derive)


def decode(found: Read) -> list[Table]:
    """The table `edge-counts`: a row for each edge; `from_line` and `to_line` are where the blocks start in the PTX."""
    lines = {(site.function, site.block): site.line for site in found.sites}
    rows: list[tuple[Value, ...]] = []
    for function, taken in functions_of(found):
        name = function["function"]
        for (source, target, via, _), count in zip(function["ways"], taken, strict=True):
            ends = [None if block == OUTSIDE else block for block in (source, target)]
            rows.append((name, *ends, lines.get((name, source)), lines.get((name, target)), via, count))
    names = ("function", "from", "to", "from_line", "to_line", "via", "count")
    return [found.table("edge-counts", {key: [row[i] for row in rows] for i, key in enumerate(names)}, {"count": "threads"})]
