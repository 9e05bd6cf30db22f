"""Probe for execution counts of basic blocks."""

from __future__ import annotations

from ptxkit.rewriters.counting import count_edges, counts_of_blocks, functions_of
from ptxkit.rewriters.manifest import Read, Table, site_columns
from ptxkit.rewriters.probing import Plan


def block_counts(plan: Plan, *, registers: int = 16, derive: bool = True) -> None:
    """How often each basic block is executed: exact counts of threads.

    Up to `registers` counters in loops are kept in registers, the others in memory. Without `derive`, every edge between blocks has its own
    counter. A thread that ends in a trap is not counted; a thread's counter in a loop wraps around at 2^32.
    """
    count_edges(plan, registers, derive)


def decode(found: Read) -> list[Table]:
    """The table `block-counts`: a row for each basic block."""
    sites = {site.id: site for site in found.sites}
    rows = []
    for function, taken in functions_of(found):
        for site, (index, start, end), count in zip(function["sites"], function["blocks"], counts_of_blocks(function, taken), strict=True):
            rows.append((sites[site], index, end - start, count))
    columns = site_columns([row[0] for row in rows])
    columns["block"] = [row[1] for row in rows]
    columns["instructions"] = [row[2] for row in rows]
    columns["count"] = [row[3] for row in rows]
    return [found.table("block-counts", columns, {"count": "threads"})]
