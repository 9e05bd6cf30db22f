"""Probe for the start and end of each warp, and its multiprocessor."""

from __future__ import annotations

import struct

from ptxkit.isa.opcodes import flow_of
from ptxkit.rewriters.engine.edits import AtEntry, AtExits
from ptxkit.rewriters.manifest import Read, Table, Value
from ptxkit.rewriters.probe_code import ACTIVEMASK, block_number, leading, thread_number, warps_of_block
from ptxkit.rewriters.probing import Plan

ROW = 64
"""Start and end by clock and global timer, each as a maximum over threads; threads started and exited; multiprocessor."""
FULL = (1 << 64) - 1


def cycles(plan: Plan) -> None:
    """Start and end of each warp and block, by `clock64` of its multiprocessor and by `globaltimer`, and the multiprocessor.

    A warp starts with the first of its threads to start and ends with the last to exit. Instrument for one launch at a time.
    """
    kernels = [routine for routine in plan.routines if routine.function.is_entry]
    if not plan.knows(ACTIVEMASK):
        for routine in kernels:
            plan.refuse(routine, -1, "needs-target", "`activemask` needs PTX 6.2")
        return
    if not kernels:
        return
    buffer = plan.region("warps", ROW, 0, per="warp", copied=False)
    row, on, a, b, mask, word, clock = [plan.name(role) for role in ("r", "on", "a", "b", "m", "w", "t")]
    find = f"""{{ .reg .b64 {row}, {word}, {clock}; .reg .b32 {a}, {b}, {mask}; .reg .pred {on};
{block_number(row, a, word)}
{warps_of_block(b, a)}
cvt.u64.u32 {word}, {b};
mul.lo.u64 {row}, {row}, {word};
{thread_number(b, a)}
shr.u32 {b}, {b}, 5;
cvt.u64.u32 {word}, {b};
add.u64 {row}, {row}, {word};
{buffer.word(word, 1)}
setp.lt.u64 {on}, {row}, {word};
mul.lo.u64 {row}, {row}, {ROW};
ld{buffer.space}.u64 {word}, [{buffer.words}];
add.u64 {row}, {row}, {word};
@!{on} mov.u64 {word}, 0;
{leading(on, mask, a, word).replace("!mov", "mov")}
popc.b32 {b}, {mask};
cvt.u64.u32 {word}, {b};"""
    enter = f"""{find}
mov.u32 {a}, %smid;
@{on} st.global.u32 [{row}+48], {a};
@{on} red.global.add.u64 [{row}+32], {word};
mov.u64 {clock}, %globaltimer;
not.b64 {clock}, {clock};
@{on} red.global.max.u64 [{row}+16], {clock};
mov.u64 {clock}, %clock64;
not.b64 {clock}, {clock};
@{on} red.global.max.u64 [{row}], {clock}; }}"""
    leave = f"""{find}
mov.u64 {clock}, %clock64;
@{on} red.global.max.u64 [{row}+8], {clock};
mov.u64 {clock}, %globaltimer;
@{on} red.global.max.u64 [{row}+24], {clock};
@{on} red.global.add.u64 [{row}+40], {word}; }}"""
    for routine in plan.routines:
        if routine.function.is_entry:
            site = plan.site(routine, 0)
            plan.put(AtExits(routine, leave), site=site)
            plan.put(AtEntry(routine, enter), site=site)
        elif any(flow_of(instruction.opcode.text) == "exit" for instruction in routine.instructions):
            plan.put(AtExits(routine, leave, ways=("exit",)), site=plan.site(routine, 0))


def decode(found: Read) -> list[Table]:
    """The tables `warp-cycles` and `block-cycles`; times of the global timer are in nanoseconds."""
    if not found.use.regions:
        return []
    launch = found.layout.launch
    ((_, data),) = found.copies("warps")
    warps: list[tuple[Value, ...]] = []
    blocks: dict[tuple[int, int], list[tuple[int, int, int, int, int]]] = {}
    open_ = 0
    for at, (start, end, begun, done, came, went, sm, _) in enumerate(struct.iter_unpack("<8Q", data)):
        block, warp = divmod(at, launch.warps)
        if not came:
            continue
        open_ += came != went
        start, begun = FULL - start, FULL - begun
        warps.append((block, warp, sm, start, end, end - start, begun, done, done - begun, came))
        blocks.setdefault((block, sm), []).append((start, end, begun, done, came))
    names = ("block", "warp", "sm", "start", "end", "cycles", "start_ns", "end_ns", "ns", "threads")
    units = dict.fromkeys(("start", "end", "cycles"), "cycles") | dict.fromkeys(("start_ns", "end_ns", "ns"), "ns") | {"threads": "threads"}
    notes = [f"{open_} warps have threads that were not seen to end"] if open_ else []
    whole: list[tuple[Value, ...]] = []
    for (block, sm), own in blocks.items():
        starts, ends, firsts, lasts, threads = zip(*own, strict=True)
        start, end, begun, done = min(starts), max(ends), min(firsts), max(lasts)
        whole.append((block, len(own), sm, start, end, end - start, begun, done, done - begun, sum(threads)))
    return [
        found.table("warp-cycles", {name: [row[i] for row in warps] for i, name in enumerate(names)}, units, *notes),
        found.table(
            "block-cycles", {"warps" if name == "warp" else name: [row[i] for row in whole] for i, name in enumerate(names)}, units, *notes
        ),
    ]
