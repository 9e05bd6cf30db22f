"""Probe for a trace of the addresses that warps access."""

from __future__ import annotations

import struct

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.rewriters.engine.edits import AtEntry, Before, Declare
from ptxkit.rewriters.engine.points import points
from ptxkit.rewriters.manifest import Read, Table, Value
from ptxkit.rewriters.probe_code import (
    ACTIVEMASK,
    ThreadAccess,
    block_number,
    block_number_32,
    leading,
    spaces_of,
    thread_accesses,
    thread_number,
    under,
    warps_of_block,
)
from ptxkit.rewriters.probing import Plan

HEADER = 128
ROW = 288
"""Site, mask, block, clock, warp and multiprocessor in 32 bytes, then an address for each lane."""
NOWHERE = 0xFFFFFFFF
HASH = 0x9E3779B1
BITS = 32


def memory_trace(plan: Plan, *, space: str = "global+generic", at: str = "", sample: int = 1, keep: str = "first", rings: int = 64) -> None:
    """The addresses that each warp accesses, offsets included, with bytes, active threads and time.

    With `sample`, a power of two, only about one warp in `sample` is traced, throughout. Records go to `rings` rings by multiprocessor; if
    there are more than fit, the `first` or the `last` are kept, and the true number is reported.
    """
    if sample < 1 or sample & (sample - 1) or rings < 1 or rings & (rings - 1):
        raise ValueError("memory-trace: sample and rings are powers of two")
    if keep not in ("first", "last"):
        raise ValueError(f"memory-trace:keep is first or last, not {keep!r}")
    if not plan.knows(ACTIVEMASK):
        for routine in plan.routines:
            plan.refuse(routine, -1, "needs-target", "`activemask` needs PTX 6.2")
        return
    found = list(thread_accesses(plan, spaces_of(space), at, plan.name("a")))
    if not found:
        return
    buffer = plan.region("records", ROW, max(1, (1 << 16) // rings), per="ring", header=HEADER, copies=rings)
    chosen, both = plan.name("s"), plan.name("g")
    if sample > 1:
        for routine in {id(probed.routine): probed.routine for probed in found}.values():
            plan.put(Declare(routine, f".reg .pred {chosen};"), whole=routine)
            plan.put(AtEntry(routine, _sampled(plan, chosen, sample)), whole=routine)
    for probed in found:
        access = probed.access
        details = {"space": probed.space, "kind": probed.kind, "bytes": access.bytes}
        number = plan.site(probed.routine, access.instruction, **details)
        branches = sample > 1 and _may_branch(probed)
        guard = probed.guard if branches or sample == 1 else f"@{both}"
        record = _record(plan, probed, guard, number, buffer.words, buffer.space, rings, keep)
        if sample > 1 and not branches:
            record = f"{{ .reg .pred {both}; {_both(both, chosen, probed.guard)}\n{record} }}"
        if branches:
            # all threads of a warp take the same path here, so converged code stays converged
            skip = plan.batch.fresh.label(f"p{plan.number}_skip")
            record = f"{{ @!{chosen} bra {skip};\n{record}\n{skip}: }}"
        plan.put(Before(probed.site, probed.around(record), converged=branches), site=number)


def _sampled(plan: Plan, chosen: str, sample: int) -> str:
    warp, a, b = [plan.name(role) for role in ("w", "x", "y")]
    return f"""{{ .reg .b32 {warp}, {a}, {b};
{block_number_32(warp, a)}
{warps_of_block(b, a)}
mul.lo.u32 {warp}, {warp}, {b};
{thread_number(b, a)}
shr.u32 {b}, {b}, 5;
add.u32 {warp}, {warp}, {b};
mul.lo.u32 {warp}, {warp}, {HASH};
setp.lt.u32 {chosen}, {warp}, {1 << BITS - sample.bit_length() + 1}; }}"""


def _may_branch(probed: ThreadAccess) -> bool:
    """Whether a branch around the code is useful: not within a wgmma group, nor before a pragma that precedes a loop."""
    routine, i = probed.routine, probed.access.instruction
    known, flow = points(routine), control_flow(routine)
    return i not in known.in_group and not known.accumulators.get(i) and i != flow.blocks[flow.block_of[i]].start


def _both(to: str, chosen: str, guard: str) -> str:
    """Code that combines a guard with the predicate of sampled warps."""
    if guard.startswith("@!"):
        return f"not.pred {to}, {guard[2:]}; and.pred {to}, {to}, {chosen};"
    return f"and.pred {to}, {chosen}, {guard[1:] or chosen};"


def is_sampled(warp: int, sample: int) -> bool:
    """Whether a warp is traced, by its number in the launch: block index times warps in a block plus its index in the block."""
    return sample == 1 or warp * HASH % (1 << BITS) < 1 << BITS - sample.bit_length() + 1


def _record(plan: Plan, probed: ThreadAccess, guard: str, site: int, words: str, space: str, rings: int, keep: str) -> str:
    a, base, word, block, clock = [plan.name(role) for role in ("a", "b", "w", "k", "t")]
    mask, lane, x, y, at, on, leader = [plan.name(role) for role in ("m", "e", "x", "y", "i", "on", "l")]
    ring = ""
    if rings > 1:
        ring = f"mov.u32 {x}, %smid;\nand.b32 {x}, {x}, {rings - 1};\ncvt.u64.u32 {word}, {x};\nld{space}.u64 {block}, [{words}+16];"
        ring += f"\nmad.lo.u64 {base}, {word}, {block}, {base};"
    if keep == "first":
        fit = f"setp.lt.and.u64 {on}, {word}, {block}, {leader};"
    else:
        fit = f"sub.u64 {block}, {block}, 1;\nand.b64 {word}, {word}, {block};\nand.pred {on}, {leader}, {leader};"
    declared = f"{{ .reg .b64 {a}, {base}, {word}, {block}, {clock}; .reg .b32 {a}_l, {mask}, {lane}, {x}, {y}, {at};"
    code = f"""{declared} .reg .pred {on}, {leader};
!mov.pred {on}, 0;
{probed.address}
ld{space}.u64 {base}, [{words}];
{leading(leader, mask, x, base)}
{ring}
popc.b32 {x}, {mask};
cvt.u64.u32 {block}, {x};
@{leader} red.global.add.u64 [{base}+8], {block};
mov.u64 {word}, 0;
@{leader} atom.global.add.u64 {word}, [{base}], 1;
ld{space}.u64 {block}, [{words}+8];
{fit}
mov.u32 {at}, {NOWHERE};
@{on} cvt.u32.u64 {at}, {word};
brev.b32 {x}, {mask};
clz.b32 {x}, {x};
shfl.sync.idx.b32 {at}, {at}, {x}, 31, {mask};
mad.wide.u32 {base}, {at}, {ROW}, {base};
{block_number(block, x, word)}
{thread_number(x, y)}
shr.u32 {x}, {x}, 5;
mov.u64 {clock}, %clock64;
mov.u32 {y}, %smid;
mov.u32 {lane}, {site};
@{on} st.global.v2.b32 [{base}+{HEADER}], {{{lane}, {mask}}};
@{on} st.global.u64 [{base}+{HEADER + 8}], {block};
@{on} st.global.u64 [{base}+{HEADER + 16}], {clock};
@{on} st.global.v2.b32 [{base}+{HEADER + 24}], {{{x}, {y}}};
mov.u32 {lane}, %laneid;
mad.wide.u32 {base}, {lane}, 8, {base};
setp.ne.u32 {on}, {at}, {NOWHERE};
@{on} st.global.u64 [{base}+{HEADER + 32}], {a};
}}"""
    return under(guard, code)


def decode(found: Read) -> list[Table]:
    """The tables `memory-trace`, a row for each access of a warp by time, with the addresses of its threads, and `memory-trace-totals`.

    `addresses` has one hexadecimal number for each active thread, lowest lane first, separated by blanks.
    """
    if not found.use.regions:
        return []
    sites = {site.id: site for site in found.sites}
    rows: list[tuple[Value, ...]] = []
    wanted = threads = kept = 0
    for header, data in found.copies("records"):
        count, reached = struct.unpack_from("<2Q", header)
        wanted, threads = wanted + count, threads + reached
        for at in range(min(count, len(data) // ROW)):
            site, mask, block, clock, warp, sm = struct.unpack_from("<IIQQII", data, at * ROW)
            if site not in sites:
                continue
            kept += 1
            lanes = struct.unpack_from("<32Q", data, at * ROW + 32)
            active = [lanes[lane] for lane in range(32) if mask >> lane & 1]
            about = sites[site]
            text = " ".join([f"{one:x}" for one in active])
            row = (about.function, about.line, about.details["space"], about.details["kind"], about.details["bytes"])
            rows.append((clock, sm, block, warp, site, *row, f"{mask:08x}", len(active), text))
    rows.sort(key=lambda row: (row[1], row[0]))
    names = ("clock", "sm", "block", "warp", "site", "function", "line", "space", "kind", "bytes", "mask", "active", "addresses")
    columns = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    notes = [f"{wanted} accesses of warps, of which {kept} are here"] if wanted > kept else []
    totals: dict[str, list[Value]] = {"accesses": [wanted], "threads": [threads], "kept": [kept]}
    return [
        found.table("memory-trace", columns, {"clock": "cycles", "bytes": "bytes", "active": "threads"}, *notes),
        found.table("memory-trace-totals", totals, {"accesses": "warps", "threads": "threads", "kept": "warps"}),
    ]
