"""How warps come to each basic block: how often, and with how many threads.

In a loop the same threads mostly come again. So each thread keeps, for a block there, the mask it came with last and how often in a row;
when the mask changes, or the thread leaves, the lowest thread of that mask adds this to memory. All threads of a mask have been there each
time, so that none of its executions is lost or counted twice.
"""

from __future__ import annotations

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.loops import loops
from ptxkit.analyses.framework.routine import Routine
from ptxkit.rewriters.counting import calls, may_exit
from ptxkit.rewriters.engine.edits import AtEntry, AtExits, Before, Declare
from ptxkit.rewriters.engine.patterns import Site
from ptxkit.rewriters.engine.points import points
from ptxkit.rewriters.manifest import Read, Table, Value, site_columns
from ptxkit.rewriters.probing import ACTIVEMASK, Buffer, Plan, apart, branching_point_in, leading, point_in

BINS = 33


def warp_masks(plan: Plan, *, kept: int = 4) -> None:
    """How often warps run each basic block, and a histogram of how many of their threads do so together.

    Threads are exact for any convergence: each converged group is counted once. How threads are grouped is the machine's
    choice, and may be another where the code is. Of up to `kept` blocks in loops, the deepest first, threads keep counts in registers,
    which a thread that ends in a trap does not add up, and a count starts over at 2^32 executions in a row.
    """
    if not plan.knows(ACTIVEMASK):
        for routine in plan.routines:
            plan.refuse(routine, -1, "needs-target", "`activemask` needs PTX 6.2")
        return
    exits = may_exit(plan.module)
    sites: list[tuple[Routine, int, bool]] = []
    for routine in plan.routines:
        # a thread that a called function ends does not come to the exits of this one
        repeated = _repeated(routine, kept) if not (exits and calls(routine)) else {}
        flow = control_flow(routine)
        for index in sorted(flow.reachable):
            at = repeated.get(index, point_in(routine, flow.blocks[index]))
            if at is None:
                plan.refuse(routine, flow.blocks[index].start, "call-sequence-split", "the whole block is part of a call")
            else:
                sites.append((routine, at, index in repeated))
    if not sites:
        return
    buffer = plan.region("masks", 8 * BINS, len(sites))
    keeping = {routine for routine, _, is_repeated in sites if is_repeated}
    for number, (routine, at, is_repeated) in enumerate(sites):
        once = _once if routine in keeping else _at_once
        code = _in_a_row(plan, number) if is_repeated else once(plan, buffer, number)
        plan.put(Before(Site(routine, at), code), site=plan.site(routine, at))
    for routine in plan.routines:
        if routine in keeping:
            own = [number for number, (other, _, is_repeated) in enumerate(sites) if other is routine and is_repeated]
            _keep(plan, buffer, routine, own)


def _repeated(routine: Routine, most: int) -> dict[int, int]:
    """So many blocks in loops, the deepest first, each with an instruction before which code may stand and branch.

    None in a function where threads must come together by themselves: they need not after a branch.
    """
    if points(routine).aligned >= 0:
        return {}
    flow, nest = control_flow(routine), loops(routine)
    looping = sorted([index for index in flow.reachable if nest.depth(index)], key=lambda index: (-nest.depth(index), index))
    found = {index: branching_point_in(routine, flow.blocks[index]) for index in looping[:most]}
    return {index: at for index, at in found.items() if at is not None}


def _names(plan: Plan, number: int) -> tuple[str, str]:
    """The registers with the last mask of a site and how often it came in a row."""
    return plan.name("mask", number), plan.name("times", number)


def _keep(plan: Plan, buffer: Buffer, routine: Routine, own: list[int]) -> None:
    """Declares the registers of a function, and has the threads that leave it add those of these sites to memory.

    `at` is where the copy of the warp begins. `below` are the lanes below the own one; of a mask, only the lowest thread has none below.
    Without a buffer they are all lanes, so that no thread is the lowest. A mask is full at first: most warps come so, and add nothing.
    """
    at, below, copy, on = plan.name("at"), plan.name("below"), plan.name("c"), plan.name("on")
    counts = ", ".join([name for number in own for name in _names(plan, number)])
    plan.put(Declare(routine, f".reg .b64 {at}; .reg .b32 {below}, {counts};"), whole=routine)
    code = f"""{{ .reg .b32 {copy}; .reg .pred {on};
ld{buffer.space}.u64 {at}, [{buffer.words}];
setp.ne.u64 {on}, {at}, 0;
{buffer.copied(at, copy)}
mov.u32 {below}, %lanemask_lt;
selp.b32 {below}, {below}, -1, {on}; }}"""
    first = [f"mov.b32 {mask}, -1; mov.b32 {times}, 0;" for mask, times in [_names(plan, number) for number in own]]
    plan.put(AtEntry(routine, " ".join([*first, code])), whole=routine)
    plan.put(AtExits(routine, " ".join([_add(plan, number) for number in own])), whole=routine)


def _lowest(plan: Plan, number: int, mask: str, times: str) -> str:
    """Code by which the lowest thread of a mask adds to memory, where `_keep` declared the registers for that."""
    base, below, leader = [plan.name(role) for role in ("b", "u", "l")]
    return f"""{{ .reg .b64 {base}; .reg .b32 {below}; .reg .pred {leader};
and.b32 {below}, {plan.name("below")}, {mask};
setp.eq.u32 {leader}, {below}, 0;
mad.wide.u32 {base}, {below}, 8, {plan.name("at")};
popc.b32 {below}, {mask};
mad.wide.u32 {base}, {below}, 8, {base};
@{leader} red.global.add.u64 [{base}+{number * 8 * BINS}], {times}; }}"""


def _once(plan: Plan, _: Buffer, number: int) -> str:
    """As `_at_once`, in a function whose threads know where to add."""
    mask = plan.name("m")
    return f"{{ .reg .b32 {mask};\nactivemask.b32 {mask};\n{_lowest(plan, number, mask, '1')} }}"


def _add(plan: Plan, number: int) -> str:
    """Code that adds what a thread knows of a site to memory, if it is the lowest thread of its mask."""
    sum_ = plan.name("s")
    mask, times = _names(plan, number)
    return f"{{ .reg .b64 {sum_};\ncvt.u64.u32 {sum_}, {times};\n{_lowest(plan, number, mask, sum_)} }}"


def _in_a_row(plan: Plan, number: int) -> str:
    """Code that counts executions with one mask in registers."""
    now, other = plan.name("m"), plan.name("o")
    mask, times = _names(plan, number)
    same = plan.batch.fresh.label(f"p{plan.number}_same", number)
    return f"""{{ .reg .b32 {now}; .reg .pred {other};
activemask.b32 {now};
setp.ne.u32 {other}, {now}, {mask};
@!{other} bra {same};
{_add(plan, number)}
mov.u32 {mask}, {now};
mov.u32 {times}, 0;
{same}:
add.u32 {times}, {times}, 1; }}"""


def _at_once(plan: Plan, buffer: Buffer, number: int) -> str:
    """Code that adds one to memory for each group of threads that are together."""
    base, copy, mask, count, leader = [plan.name(role) for role in ("b", "c", "m", "n", "l")]
    return f"""{{ .reg .b64 {base}; .reg .b32 {copy}, {mask}, {count}; .reg .pred {leader};
ld{buffer.space}.u64 {base}, [{buffer.words}];
{leading("", leader, mask, copy, base).replace("!mov", "mov")}
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
