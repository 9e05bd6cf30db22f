"""Probe for how warps reach each basic block: how often, and with how many threads.

In a loop, mostly the same threads arrive again. So, for a block there, each thread keeps its last mask and how often in a row it has seen
it; when the mask changes, or the thread exits, the lowest thread of that mask adds this to memory. All threads of a mask were there each
time, so no execution is lost or counted twice.

A loop is steady if the threads of a warp take the same path at all its branches: threads that enter it together are together in each of its
iterations. They read their mask once, before the loop, and only count in it.
"""

from __future__ import annotations

from ptxkit.analyses.cfg.graph import ControlFlow, Edge, Via, control_flow
from ptxkit.analyses.cfg.loops import Loop, loops
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.numbers.bits import bits
from ptxkit.analyses.uniformity.uniformity import Level, uniformity
from ptxkit.frozen import frozen
from ptxkit.rewriters.counting import calls, may_exit
from ptxkit.rewriters.engine.edits import AtEntry, AtExits, Before, Declare, OnEdge
from ptxkit.rewriters.engine.patterns import Site
from ptxkit.rewriters.engine.points import points
from ptxkit.rewriters.manifest import Read, Table, Value, site_columns
from ptxkit.rewriters.probe_code import ACTIVEMASK, apart, branching_point_in, leading, point_in
from ptxkit.rewriters.probing import Buffer, Plan

BINS = 33


def warp_masks(plan: Plan, *, kept: int = 4) -> None:
    """How often warps execute each basic block, and a histogram of how many of their threads do so together.

    Thread counts are exact for any convergence: each converged group is counted once. How threads are grouped is up to the hardware, and
    inserted code may affect it. For up to `kept` blocks in loops, deepest first, threads keep counts in registers: a thread that ends in a
    trap loses them, and they wrap around after 2^32 executions in a row.
    """
    if not plan.knows(ACTIVEMASK):
        for routine in plan.routines:
            plan.refuse(routine, -1, "needs-target", "`activemask` needs PTX 6.2")
        return
    exits = may_exit(plan.module)
    sites: list[tuple[Routine, int]] = []
    rows: dict[Routine, list[_Row]] = {}
    for routine in plan.routines:
        # a thread that exits in a called function does not reach the exits of this one
        repeated = _repeated(routine, kept) if not (exits and calls(routine)) else {}
        flow = control_flow(routine)
        first: dict[Edge, int] = {}
        for index in sorted(flow.reachable):
            at, entry = repeated.get(index, (point_in(routine, flow.blocks[index]), None))
            if at is None:
                plan.refuse(routine, flow.blocks[index].start, "call-sequence-split", "the whole block is part of a call")
                continue
            if index in repeated:
                number = len(sites)
                mask = first.setdefault(entry, number) if entry is not None else number
                rows.setdefault(routine, []).append(_Row(number, plan.name("mask", mask), plan.name("times", number), entry))
            sites.append((routine, at))
    if not sites:
        return
    buffer = plan.region("masks", 8 * BINS, len(sites))
    row_of = {row.number: row for own in rows.values() for row in own}
    for number, (routine, at) in enumerate(sites):
        once = _once if routine in rows else _at_once
        code = _again(plan, row_of[number]) if number in row_of else once(plan, buffer, number)
        plan.put(Before(Site(routine, at), code), site=plan.site(routine, at))
    for routine, own in rows.items():
        _keep(plan, buffer, routine, own)


@frozen
class _Row:
    """A site whose executions a thread counts in registers: with its last mask, or, in a steady loop, the mask at the loop's entry."""

    number: int
    mask: str
    times: str
    entry: Edge | None


def _repeated(routine: Routine, most: int) -> dict[int, tuple[int, Edge | None]]:
    """At most this many blocks in loops, deepest first, each with an instruction before which code may be inserted, and the entry of its
    steady loop.

    Outside steady loops the code branches: none are used in a function whose threads must be converged without an instruction for it, as
    they may not be after a branch.
    """
    flow, nest, steady = control_flow(routine), loops(routine), _steady(routine) if most else {}
    branching = points(routine).aligned < 0
    looping = [index for index in flow.reachable if index in steady or (branching and nest.depth(index))]
    found: dict[int, tuple[int, Edge | None]] = {}
    for index in sorted(looping, key=lambda index: (-nest.depth(index), index))[:most]:
        block = flow.blocks[index]
        at = point_in(routine, block) if index in steady else branching_point_in(routine, block)
        if at is not None:
            found[index] = at, steady.get(index)
    return found


def _steady(routine: Routine) -> dict[int, Edge]:
    """By block of an outermost loop that is steady in all launches, the one edge by which control enters the loop."""
    flow = control_flow(routine)
    entries = {
        loop: entry
        for loop in loops(routine).loops
        if (entry := _entry(flow, loop)) and points(routine).sequence[flow.blocks[entry.source].end - 1] < 0
    }
    if not entries:
        return {}
    # what holds for all threads of a CTA holds for every shape
    level = Level.CTA if uniformity(routine).assumption else Level.WARP
    _, branches, _ = uniformity(routine).levels()
    steady = [loop for loop in entries if all(branches[block] >= level for block in bits(loop.blocks))]
    return {block: entries[loop] for loop in steady for block in bits(loop.blocks)}


def _entry(flow: ControlFlow, loop: Loop) -> Edge | None:
    """The one edge by which control enters an outermost loop, if it is unconditional."""
    if loop.parent is not None or not loop.is_reducible:
        return None
    before = [index for index in flow.blocks[loop.header].predecessors if index not in loop and index in flow.reachable]
    found = [edge for index in before for edge in flow.blocks[index].edges if edge.target == loop.header]
    return found[0] if len(found) == 1 and found[0].via in (Via.FALL, Via.NOT_TAKEN) else None


def _keep(plan: Plan, buffer: Buffer, routine: Routine, own: list[_Row]) -> None:
    """Declares the registers of a function, and makes the threads that leave it add those of these sites to memory.

    `at` is the start of the warp's copy. `below` are the lanes below the thread's own; only the lowest thread of a mask has none below.
    Without a buffer, they are all lanes, so that no thread is the lowest. A mask is initially full: most warps arrive so, and add nothing.
    """
    at, below, copy, on = plan.name("at"), plan.name("below"), plan.name("c"), plan.name("on")
    masks = list(dict.fromkeys([row.mask for row in own]))
    counts = ", ".join([*masks, *[row.times for row in own]])
    plan.put(Declare(routine, f".reg .b64 {at}; .reg .b32 {below}, {counts};"), whole=routine)
    code = f"""{{ .reg .b32 {copy}; .reg .pred {on};
ld{buffer.space}.u64 {at}, [{buffer.words}];
setp.ne.u64 {on}, {at}, 0;
{buffer.copied(at, copy)}
mov.u32 {below}, %lanemask_lt;
selp.b32 {below}, {below}, -1, {on}; }}"""
    first = [*[f"mov.b32 {mask}, -1;" for mask in masks], *[f"mov.b32 {row.times}, 0;" for row in own]]
    plan.put(AtEntry(routine, " ".join([*first, code])), whole=routine)
    for mask, entry in {row.mask: row.entry for row in own if row.entry is not None}.items():
        plan.put(OnEdge(routine, entry, f"activemask.b32 {mask};"), whole=routine)
    plan.put(AtExits(routine, " ".join([_add(plan, row) for row in own])), whole=routine)


def _lowest(plan: Plan, number: int, mask: str, times: str) -> str:
    """Code by which the lowest thread of a mask adds to memory, where `_keep` has declared the registers for it."""
    base, below, leader = [plan.name(role) for role in ("b", "u", "l")]
    return f"""{{ .reg .b64 {base}; .reg .b32 {below}; .reg .pred {leader};
and.b32 {below}, {plan.name("below")}, {mask};
setp.eq.u32 {leader}, {below}, 0;
mad.wide.u32 {base}, {below}, 8, {plan.name("at")};
popc.b32 {below}, {mask};
mad.wide.u32 {base}, {below}, 8, {base};
@{leader} red.global.add.u64 [{base}+{number * 8 * BINS}], {times}; }}"""


def _once(plan: Plan, _: Buffer, number: int) -> str:
    """Like `_at_once`, in a function whose threads know the address."""
    mask = plan.name("m")
    return f"{{ .reg .b32 {mask};\nactivemask.b32 {mask};\n{_lowest(plan, number, mask, '1')} }}"


def _add(plan: Plan, row: _Row) -> str:
    """Code that adds a thread's counts for a site to memory, if it is the lowest thread of its mask."""
    sum_ = plan.name("s")
    return f"{{ .reg .b64 {sum_};\ncvt.u64.u32 {sum_}, {row.times};\n{_lowest(plan, row.number, row.mask, sum_)} }}"


def _again(plan: Plan, row: _Row) -> str:
    """Code that counts executions with one mask in registers."""
    if row.entry is not None:
        return f"add.u32 {row.times}, {row.times}, 1;"
    now, other = plan.name("m"), plan.name("o")
    same = plan.batch.fresh.label(f"p{plan.number}_same", row.number)
    return f"""{{ .reg .b32 {now}; .reg .pred {other};
activemask.b32 {now};
setp.ne.u32 {other}, {now}, {row.mask};
@!{other} bra {same};
{_add(plan, row)}
mov.u32 {row.mask}, {now};
mov.u32 {row.times}, 0;
{same}:
add.u32 {row.times}, {row.times}, 1; }}"""


def _at_once(plan: Plan, buffer: Buffer, number: int) -> str:
    """Code that adds one to memory for each converged group of threads."""
    base, copy, mask, count, leader = [plan.name(role) for role in ("b", "c", "m", "n", "l")]
    return f"""{{ .reg .b64 {base}; .reg .b32 {copy}, {mask}, {count}; .reg .pred {leader};
ld{buffer.space}.u64 {base}, [{buffer.words}];
{leading(leader, mask, copy, base).replace("!mov", "mov")}
{apart(base, copy)}
{buffer.copied(base, copy)}
popc.b32 {count}, {mask};
mad.wide.u32 {base}, {count}, 8, {base};
@{leader} red.global.add.u64 [{base}+{number * 8 * BINS}], 1; }}"""


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
