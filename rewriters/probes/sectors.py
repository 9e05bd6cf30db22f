"""Probe for the number of 32-byte sectors in each access of a warp to global memory."""

from __future__ import annotations

from ptxkit.rewriters.engine.edits import Before
from ptxkit.rewriters.manifest import Read, Table, site_columns
from ptxkit.rewriters.probe_code import ACTIVEMASK, MATCH, thread_accesses, under
from ptxkit.rewriters.probing import Plan

ROW = 32


def sectors(plan: Plan, *, at: str = "") -> None:
    """Requests of warps to global memory and the 32-byte sectors that they access: how well accesses coalesce.

    A request is an access that the threads of a warp make together. Accesses through generic addresses count if they refer to global
    memory.
    """
    if not plan.knows(MATCH) or not plan.knows(ACTIVEMASK):
        for routine in plan.routines:
            plan.refuse(routine, -1, "needs-target", "`match` needs sm_70 and `activemask` PTX 6.2")
        return
    found = []
    for probed in thread_accesses(plan, ("global", "generic"), at, plan.name("a")):
        if probed.access.bytes is None or probed.access.bytes > 32:
            plan.refuse(
                probed.routine, probed.access.instruction, "not-by-thread", "how many bytes a thread accesses is not known, or over 32"
            )
        else:
            found.append(probed)
    if not found:
        return
    buffer = plan.region("sectors", ROW, len(found))
    a, base, sum_ = [plan.name(role) for role in ("a", "b", "s")]
    mask, rank, threads, x = [plan.name(role) for role in ("m", "r", "n", "x")]
    here, adds, first, unsorted = [plan.name(role) for role in ("g", "l", "f", "o")]
    for number, probed in enumerate(found):
        width = probed.access.bytes
        row = number * ROW
        # If sectors ascend from thread to thread in a full warp, count those that differ from the previous one; comparing all pairs takes
        # longer the more there are. Three threads add one number each, at once; in smaller groups the first thread adds the rest.
        body = f"""!mov.pred {adds}, 0;
!mov.pred {first}, 0;
!mov.pred {unsorted}, 0;
activemask.b32 {mask};
shr.u64 {a}, {a}, 5;
mov.b64 {{{x}, {rank}}}, {a};
shfl.sync.up.b32 {x}|{first}, {x}, 1, 0, {mask};
shfl.sync.up.b32 {rank}, {rank}, 1, 0, {mask};
mov.b64 {sum_}, {{{x}, {rank}}};
setp.lt.and.u64 {unsorted}, {a}, {sum_}, {first};
setp.ne.or.u32 {unsorted}, {mask}, -1, {unsorted};
not.pred {first}, {first};
setp.ne.or.u64 {first}, {a}, {sum_}, {first};
vote.sync.any.pred {unsorted}, {unsorted}, {mask};
mov.u32 {rank}, %lanemask_lt;
@{unsorted} match.any.sync.b64 {x}, {a}, {mask};
@{unsorted} and.b32 {x}, {x}, {rank};
@{unsorted} setp.eq.u32 {first}, {x}, 0;
vote.sync.ballot.b32 {x}, {first}, {mask};
popc.b32 {x}, {x};
and.b32 {rank}, {rank}, {mask};
popc.b32 {rank}, {rank};
popc.b32 {threads}, {mask};
setp.ne.u64 {first}, {base}, 0;
setp.lt.and.u32 {adds}, {rank}, 3, {first};
mad.wide.u32 {base}, {rank}, 8, {base};
{buffer.copied(base, mask)}
setp.eq.u32 {first}, {rank}, 1;
selp.b32 {x}, {x}, {threads}, {first};
setp.eq.and.u32 {first}, {rank}, 0, {adds};
selp.b32 {x}, 1, {x}, {first};
cvt.u64.u32 {sum_}, {x};
@{adds} red.global.add.u64 [{base}+{row}], {sum_};
setp.lt.and.u32 {first}, {threads}, 3, {first};
cvt.u64.u32 {sum_}, {threads};
@{first} red.global.add.u64 [{base}+{row + 16}], {sum_};
setp.eq.and.u32 {first}, {threads}, 1, {first};
@{first} red.global.add.u64 [{base}+{row + 8}], 1;"""
        words = f".reg .b64 {a}, {base}, {sum_}; .reg .b32 {a}_l, {mask}, {rank}, {threads}, {x};"
        declared = f"{{ {words} .reg .pred {here}, {adds}, {first}, {unsorted};"
        begin = f"ld{buffer.space}.u64 {base}, [{buffer.words}];\n{probed.address}"
        if probed.access.space:
            code = f"{declared}\n{under(probed.guard, begin)}\n{under(probed.guard, body)} }}"
        else:
            where = under(probed.guard, f"{begin}\n!mov.pred {here}, 0;\nisspacep.global {here}, {a};")
            code = f"{declared}\n{where}\n{under(f'@{here}', body)} }}"
        site = plan.site(probed.routine, probed.access.instruction, space=probed.space, kind=probed.kind, bytes=width)
        plan.put(Before(probed.site, probed.around(code)), site=site)


def decode(found: Read) -> list[Table]:
    """The table `sectors`: a row for each access."""
    if not found.use.regions:
        return []
    sums = found.sums("sectors")
    columns = site_columns(found.sites)
    for name in ("space", "kind", "bytes"):
        columns[name] = [site.details[name] for site in found.sites]
    for at, name in enumerate(("requests", "sectors", "threads")):
        columns[name] = list(sums[at :: ROW // 8])
    columns["per_request"] = [s / r if r else None for s, r in zip(sums[1 :: ROW // 8], sums[:: ROW // 8], strict=True)]
    units = {"bytes": "bytes", "requests": "warps", "sectors": "sectors", "threads": "threads", "per_request": "sectors"}
    return [found.table("sectors", columns, units)]
