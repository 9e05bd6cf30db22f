"""How warps come to each basic block: how often, and with how many threads."""

from __future__ import annotations

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.rewriters.engine.edits import Before
from ptxkit.rewriters.engine.patterns import Site
from ptxkit.rewriters.manifest import Read, Table, Value, site_columns
from ptxkit.rewriters.probing import ACTIVEMASK, Plan, apart, leading, point_in

BINS = 33


def warp_masks(plan: Plan) -> None:
    """How often warps run each basic block, and a histogram of how many of their threads do so together.

    Threads are exact for any convergence: each converged group is counted once. How threads are grouped is the machine's
    choice, and may be another where the code is.
    """
    if not plan.knows(ACTIVEMASK):
        for routine in plan.routines:
            plan.refuse(routine, -1, "needs-target", "`activemask` needs PTX 6.2")
        return
    sites = []
    for routine in plan.routines:
        flow = control_flow(routine)
        for index in sorted(flow.reachable):
            at = point_in(routine, flow.blocks[index])
            if at is None:
                plan.refuse(routine, flow.blocks[index].start, "call-sequence-split", "the whole block is part of a call")
            else:
                sites.append((routine, at))
    if not sites:
        return
    buffer = plan.region("masks", 8 * BINS, len(sites))
    base, copy, mask, count, leader = [plan.name(role) for role in ("b", "c", "m", "n", "l")]
    for number, (routine, at) in enumerate(sites):
        code = f"""{{ .reg .b64 {base}; .reg .b32 {copy}, {mask}, {count}; .reg .pred {leader};
ld{buffer.space}.u64 {base}, [{buffer.words}];
{leading("", leader, mask, copy, base).replace("!mov", "mov")}
{apart(base, copy)}
{buffer.copied(base, copy)}
popc.b32 {count}, {mask};
mad.wide.u32 {base}, {count}, 8, {base};
@{leader} red.global.add.u64 [{base}+{number * 8 * BINS}], 1; }}"""
        plan.put(Before(Site(routine, at), code), site=plan.site(routine, at))


def decode(found: Read) -> list[Table]:
    """The tables `warp-masks`, a row for each block, and `mask-histogram`, a row for each block and number of threads that occurred."""
    if not found.sites:
        return []
    sums = found.sums("masks")
    bins = [sums[n * BINS : (n + 1) * BINS] for n in range(len(found.sites))]
    columns = site_columns(found.sites)
    columns["block"] = [site.block for site in found.sites]
    times = [sum(own) for own in bins]
    threads = [sum([n * count for n, count in enumerate(own)]) for own in bins]
    columns["executions"] = list(times)
    columns["threads"] = list(threads)
    columns["full"] = [own[32] for own in bins]
    columns["average"] = [all_ / n if n else None for all_, n in zip(threads, times, strict=True)]
    rows = [(site, n, count) for site, own in zip(found.sites, bins, strict=True) for n, count in enumerate(own) if count]
    histogram: dict[str, list[Value]] = {
        "function": [site.function for site, *_ in rows],
        "block": [site.block for site, *_ in rows],
        "line": [site.line for site, *_ in rows],
        "active": [n for _, n, _ in rows],
        "executions": [count for *_, count in rows],
    }
    units = {"executions": "warps", "threads": "threads", "full": "warps", "average": "threads"}
    return [
        found.table("warp-masks", columns, units),
        found.table("mask-histogram", histogram, {"active": "threads", "executions": "warps"}),
    ]
