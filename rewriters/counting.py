"""Counts how often control takes each edge of a function, with as few counters as possible.

The flow into a block equals the flow out of it. So counters on the edges outside a spanning tree of the graph determine all others (Knuth,
Ball and Larus). One extra node, the outside, represents the callers. The tree covers the edges in the deepest loops. A counter is put in a
block or under the guard of a branch: no edge is split, and control flow is unchanged.

A thread that leaves has entered exactly once; that needs no counter of its own. Otherwise, a thread keeps its counts in registers: a bit
for each edge taken at most once, 30 to a register, and a register for each counter in a loop. At function exit, the threads that leave
together sum their counts. A whole warp then adds all sums to memory at once, one for each lane; for part of a warp, one thread adds them
one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ptxkit.analyses.cfg.graph import BasicBlock, Via, control_flow
from ptxkit.analyses.cfg.loops import loops
from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.analyses.launch.launch import WARP
from ptxkit.frozen import frozen
from ptxkit.isa.opcodes import flow_of
from ptxkit.rewriters.engine.edits import AddToModule, AtEntry, AtExits, Before, Declare
from ptxkit.rewriters.engine.patterns import Site
from ptxkit.rewriters.engine.points import points
from ptxkit.rewriters.manifest import Read
from ptxkit.rewriters.probe_code import REDUX, apart, guard_of, leading, point_in, under
from ptxkit.rewriters.probing import Buffer, Plan
from ptxkit.syntax import Module

FEW = 8
"""Up to this many bits are summed one by one; beyond, in a loop, to limit code size."""
GROUP = 5
"""Bits that are summed at once, each in a 6-bit field: 32 threads count at most 32 of each."""
SPREAD, FIELDS = sum([1 << GROUP * n for n in range(GROUP)]), sum([1 << 6 * n for n in range(GROUP)])
"""Multiplying by the first and masking with the second moves bit n of a group to the start of field n."""
ROUND = WARP // GROUP * GROUP
"""Bits in a register: a warp adds their sums to memory at once."""
MOST_ROUNDS = 2
"""With more rounds, the sums of a warp are added one by one, in loops."""
SMALL = 1 << 27
"""Below this, the sum of 32 counts is less than 2^32."""
OUTSIDE = -1
NONE = -1


@frozen
class Edge:
    """An edge that control may take, between blocks or to the outside."""

    source: int
    target: int
    via: str
    indices: tuple[int, ...] = ()


@frozen
class Counter:
    """Where an edge is counted: before an instruction, under a guard, or for some indices of a `brx.idx`."""

    instruction: int
    guard: str = ""
    indices: tuple[int, ...] = ()
    is_entry: bool = False
    """Whether every thread that leaves passed here, exactly once."""


Counted = tuple[list[Edge], list[int], list[Counter]]
"""The edges, the counter of each edge (or -1), and the counters."""


def edges(routine: Routine) -> list[Edge]:
    """The edges between reachable blocks, including those from and to the outside."""
    flow = control_flow(routine)
    found = [Edge(OUTSIDE, 0, "enter")]
    for index in sorted(flow.reachable):
        block = flow.blocks[index]
        found += [Edge(index, edge.target, str(edge.via), edge.indices) for edge in block.edges]
        if block.leaves:
            found.append(Edge(index, OUTSIDE, block.leaves))
        if block.falls_off:
            found.append(Edge(index, OUTSIDE, "end"))
    return found


def may_exit(module: Module) -> bool:
    """Whether a callee may exit the thread, so that its caller no longer counts."""
    found = [routine for routine in routines(module) if not routine.function.is_entry]
    return any(flow_of(instruction.opcode.text) == "exit" for routine in found for instruction in routine.instructions)


def calls(routine: Routine) -> bool:
    """Whether a function calls others."""
    return any(flow_of(instruction.opcode.text) == "call" for instruction in routine.instructions)


def count_edges(plan: Plan, registers: int, derive: bool) -> None:
    """Counts the edges of all functions; `plan.data` receives the edges of each function with the counter of each."""
    exits = may_exit(plan.module)
    functions: list[dict[str, Any]] = []
    wanted: list[tuple[Routine, list[Edge], list[int], list[Counter]]] = []
    total = 0
    for routine in plan.routines:
        flow = control_flow(routine)
        if flow.unknown_targets:
            plan.refuse(routine, -1, "unknown-targets", "the target of a branch is unknown")
            continue
        if exits and calls(routine):
            chosen = _blocks(routine)
        else:
            chosen = _tree(routine, derive)
        if chosen is None:
            plan.refuse(routine, -1, "call-sequence-split", "a block or branch has no point at which it can be counted")
            continue
        listed, counted, counters = _bits_first(routine, *chosen)
        wanted.append((routine, listed, counted, counters))
        total += len(counters)
    if not wanted:
        return
    buffer = plan.region("counters", 8, max(1, total))
    at = 0
    some_in_memory = False
    for routine, listed, counted, counters in wanted:
        in_memory = exits and calls(routine)
        if in_memory:
            _count_in_memory(plan, routine, buffer, counters, at)
        else:
            _count_in_registers(plan, routine, buffer, counters, at, registers)
        some_in_memory |= in_memory or sum([_depth(routine, counter) > 0 for counter in counters]) > registers
        flow = control_flow(routine)
        functions.append(
            {
                "function": routine.name,
                "blocks": [[b, flow.blocks[b].start, flow.blocks[b].end] for b in sorted(flow.reachable)],
                "sites": [plan.site(routine, flow.blocks[b].start) for b in sorted(flow.reachable)],
                "ways": [[w.source, w.target, w.via, c if c == NONE else c + at] for w, c in zip(listed, counted, strict=True)],
                "direct": in_memory,
            }
        )
        at += len(counters)
    plan.data["functions"] = functions
    if some_in_memory:
        plan.put(AddToModule(f".global .align 8 .b64 {_unread(plan)}[{buffer.region.rows}];"))


def _tree(routine: Routine, derive: bool) -> Counted | None:
    """Counters for the edges outside a spanning tree; without `derive`, for all edges."""
    flow, nest = control_flow(routine), loops(routine)
    found = edges(routine)
    candidates = [_counter_of(routine, edge) for edge in found]
    depth = [min(nest.depth(edge.source), nest.depth(edge.target)) if OUTSIDE not in (edge.source, edge.target) else 0 for edge in found]
    leader = {block: block for block in (OUTSIDE, *flow.reachable)}

    def top(block: int) -> int:
        while leader[block] != block:
            leader[block] = leader[leader[block]]
            block = leader[block]
        return block

    counted = [NONE] * len(found)
    counters: list[Counter] = []
    # edges that cannot be counted must be in the tree; after them, the deepest ones
    for number in sorted(range(len(found)), key=lambda n: (candidates[n] is not None, -depth[n], -n)):
        edge, counter = found[number], candidates[number]
        a, b = top(edge.source), top(edge.target)
        if a != b and (derive or counter is None):
            leader[a] = b
            continue
        if counter is None:
            return None
        counted[number] = len(counters)
        counters.append(counter)
    return found, counted, counters


def _bits_first(routine: Routine, listed: list[Edge], counted: list[int], counters: list[Counter]) -> Counted:
    """The counters reordered: those outside loops first, that of the entry last."""
    order = sorted(range(len(counters)), key=lambda n: 2 if counters[n].is_entry else _depth(routine, counters[n]) > 0)
    counter = {old: new for new, old in enumerate(order)}
    return listed, [counter.get(number, NONE) for number in counted], [counters[number] for number in order]


def _depth(routine: Routine, counter: Counter) -> int:
    """The loop depth of a counter."""
    return 0 if counter.instruction == NONE else loops(routine).depth(control_flow(routine).block_of[counter.instruction])


def _counter_of(routine: Routine, edge: Edge) -> Counter | None:
    """Where an edge can be counted without a new block."""
    flow = control_flow(routine)
    if edge.source == OUTSIDE:
        return Counter(NONE, is_entry=True)
    if edge.source != OUTSIDE:
        source = flow.blocks[edge.source]
        if len(source.edges) + bool(source.leaves) + source.falls_off == 1:
            at = point_in(routine, source)
            return Counter(at) if at is not None else None
    if edge.target != OUTSIDE:
        target = flow.blocks[edge.target]
        into = sum([len([e for e in flow.blocks[p].edges if e.target == edge.target]) for p in target.predecessors if p in flow.reachable])
        if into + (edge.target == 0) == 1:
            at = point_in(routine, target)
            return Counter(at) if at is not None else None
    return _at_branch(routine, flow.blocks[edge.source], edge)


def _at_branch(routine: Routine, block: BasicBlock, edge: Edge) -> Counter | None:
    last = block.end - 1
    if last not in _open(routine, block):
        return None
    guard = guard_of(routine.instructions[last])
    if edge.via == Via.INDEXED:
        return Counter(last, guard, edge.indices)
    if not guard:
        return Counter(last)
    if edge.via == Via.NOT_TAKEN or edge.via == "end":
        guard = guard.replace("!", "") if "!" in guard else guard.replace("@", "@!")
    return Counter(last, guard)


def _open(routine: Routine, block: BasicBlock) -> tuple[int, ...]:
    """The last instruction of a block, if code may be inserted before it."""
    sequence, last = points(routine).sequence, block.end - 1
    return (last,) if sequence[last] < 0 or last == 0 or sequence[last - 1] != sequence[last] else ()


def _blocks(routine: Routine) -> Counted | None:
    """A counter for each block: correct even if a call in it does not return."""
    flow = control_flow(routine)
    counters = []
    for index in sorted(flow.reachable):
        at = point_in(routine, flow.blocks[index])
        if at is None:
            return None
        counters.append(Counter(at))
    listed = [Edge(index, index, "block") for index in sorted(flow.reachable)]
    return listed, list(range(len(counters))), counters


def _count_in_memory(plan: Plan, routine: Routine, buffer: Buffer, counters: Iterable[Counter], first: int) -> None:
    _find_counters(plan, routine, buffer)
    for number, counter in enumerate(counters, first):
        plan.put(Before(Site(routine, counter.instruction), _add(plan, number)), whole=routine)


def _unread(plan: Plan) -> str:
    """The name of the variable that receives the counts while there is no buffer."""
    return plan.batch.fresh.symbol(f"p{plan.number}_unread")


def _find_counters(plan: Plan, routine: Routine, buffer: Buffer) -> None:
    """Loads the address of the counters in memory into a register, for `_add`; without a buffer, that of a variable that nobody reads.

    Testing for the buffer at each counter would take the compiler as long as everything else.
    """
    base, copy, on, start = plan.name("b"), plan.name("c"), plan.name("on"), plan.name("at")
    unread = _unread(plan)
    plan.put(Declare(routine, f".reg .b64 {start};"), whole=routine)
    code = f"""{{ .reg .b64 {base}; .reg .b32 {copy}; .reg .pred {on};
        ld{buffer.space}.u64 {base}, [{buffer.words}];
        setp.ne.u64 {on}, {base}, 0;
        {buffer.copied(base, copy)}
        mov.u64 {start}, {unread};
        selp.b64 {start}, {base}, {start}, {on};
        }}"""
    plan.put(AtEntry(routine, under("", code)), whole=routine)


def _add(plan: Plan, number: int, guard: str = "") -> str:
    """Code by which each thread adds one to a counter in memory; the compiler combines the additions of a warp."""
    return under(guard, f"red.global.add.u64 [{plan.name('at')}+{number * 8}], 1;")


def _count_in_registers(plan: Plan, routine: Routine, buffer: Buffer, counters: Sequence[Counter], first: int, most: int) -> None:
    depth = [_depth(routine, counter) for counter in counters]
    looping = sorted([n for n in range(len(counters)) if depth[n]], key=lambda n: -depth[n])
    if len(looping) > 4 * most:
        # most counters are in memory anyway, and so large a function needs its registers
        most //= 4
    once = [n for n, counter in enumerate(counters) if not depth[n] and not counter.is_entry]
    own = {n: plan.name("n", k) for k, n in enumerate(looping[:most])}
    bits = {n: (plan.name("f", k // ROUND), k % ROUND) for k, n in enumerate(once)}
    if len(looping) > most:
        _find_counters(plan, routine, buffer)
    words = sorted({register for register, _ in bits.values()})
    kept = [*own.values(), *words]
    entry = next((n for n, counter in enumerate(counters) if counter.is_entry), NONE)
    if kept:
        plan.put(Declare(routine, f".reg .b32 {', '.join(kept)};"), whole=routine)
        plan.put(AtEntry(routine, " ".join([f"mov.b32 {register}, 0;" for register in kept])), whole=routine)
    for n, counter in enumerate(counters):
        if counter.is_entry:
            continue
        if n in own:
            step = f"add.u32 {own[n]}, {own[n]}, 1;"
        elif n in bits:
            register, bit = bits[n]
            step = f"or.b32 {register}, {register}, {1 << bit};"
        else:
            step = ""
        site = Site(routine, counter.instruction)
        if not counter.indices:
            code = under(counter.guard, step) if step else _add(plan, first + n, counter.guard)
            plan.put(Before(site, code), whole=routine)
            continue
        hit = plan.name("i")
        index = site.instruction.operands[0].text
        also = f", {counter.guard[1:]}" if counter.guard else ""
        for k in counter.indices:
            test = f"{{ .reg .pred {hit}; setp.eq{'.and' if also else ''}.u32 {hit}, {index}, {k}{also};"
            code = under(f"@{hit}", step) if step else _add(plan, first + n, f"@{hit}")
            plan.put(Before(site, f"{test} {code} }}"), whole=routine)
    if kept or entry != NONE:
        guarded = any(one.guard is not None and flow_of(one.opcode.text) in ("return", "exit") for one in routine.instructions)
        # all threads here take the same branch, so they stay converged
        branches = not guarded and plan.knows(REDUX)
        plan.put(AtExits(routine, _flush(plan, buffer, _Kept(first, own, bits, entry), branches), converged=branches), whole=routine)


@frozen
class _Kept:
    """What a thread has counted when it leaves: the location of each count, by counter number in the function."""

    first: int
    """The number of the function's first counter among all."""
    own: dict[int, str]
    bits: dict[int, tuple[str, int]]
    entry: int
    """The counter that each leaving thread increments, or NONE."""

    @property
    def rounds(self) -> list[int]:
        """The start of each group of up to 32 counters that a warp adds at once; the bits in a group are those of one register."""
        found = list(range(0, max(len(self.bits), 1), ROUND))
        others = [*self.own, *([self.entry] if self.entry != NONE else [])]
        for n in sorted(others):
            if n >= found[-1] + WARP:
                found.append(n)
        return found


def _flush(plan: Plan, buffer: Buffer, kept: _Kept, branches: bool) -> str:
    """Code by which the converged threads add their counts to memory. It may branch only with `branches`."""
    first, own, bits = kept.first, kept.own, kept.bits
    base, copy, on = plan.name("b"), plan.name("c"), plan.name("on")
    mask, low, high, sum_, more, test = [plan.name(role) for role in ("m", "l", "h", "s", "t", "q")]
    lines = [f"{{ .reg .b64 {base}, {sum_}, {more}; .reg .b32 {copy}, {mask}, {low}, {high}; .reg .pred {on}, {test};"]
    lines += [f"ld{buffer.space}.u64 {base}, [{buffer.words}];"]
    together = plan.knows(REDUX)
    loop = branches and len(bits) > FEW
    at_once = branches and len(kept.rounds) <= MOST_ROUNDS
    part, done = plan.batch.fresh.label(f"p{plan.number}_part"), plan.batch.fresh.label(f"p{plan.number}_done")
    if at_once:
        lines += [*_whole_warp(plan, buffer, kept, part), f"bra {done};", f"{part}:"]
    if together:
        lines += [*leading(on, mask, copy, base).replace("!mov", "mov").split("\n"), apart(base, copy)]
    else:
        lines += [f"setp.ne.u64 {on}, {base}, 0;"]
    lines += [buffer.copied(base, copy)]
    if kept.entry != NONE:
        lines += [f"popc.b32 {low}, {mask};" if together else f"mov.u32 {low}, 1;", f"cvt.u64.u32 {sum_}, {low};"]
        lines += [f"@{on} red.global.add.u64 [{base}+{(first + kept.entry) * 8}], {sum_};"]
    if loop:
        lines += _bit_loops(plan, base, first, bits)
    for n, (register, bit) in () if loop else bits.items():
        target = f"[{base}+{(first + n) * 8}]"
        lines += [f"and.b32 {low}, {register}, {1 << bit};", f"setp.ne.u32 {test}, {low}, 0;"]
        if together:
            lines += [f"vote.sync.ballot.b32 {low}, {test}, {mask};", f"popc.b32 {low}, {low};", f"cvt.u64.u32 {sum_}, {low};"]
            lines += [f"setp.ne.and.u32 {test}, {low}, 0, {on};", f"@{test} red.global.add.u64 {target}, {sum_};"]
        else:
            lines += [f"and.pred {test}, {test}, {on};", f"@{test} red.global.add.u64 {target}, 1;"]
    for n, register in own.items():
        target = f"[{base}+{(first + n) * 8}]"
        if together:
            # 32 times 16 bits fit in 32 bits: no carry is lost
            lines += [f"and.b32 {low}, {register}, 65535;", f"shr.u32 {high}, {register}, 16;"]
            lines += [f"redux.sync.add.u32 {low}, {low}, {mask};", f"redux.sync.add.u32 {high}, {high}, {mask};"]
            lines += [f"cvt.u64.u32 {sum_}, {low};", f"mad.wide.u32 {sum_}, {high}, 65536, {sum_};"]
        else:
            lines += [f"cvt.u64.u32 {sum_}, {register};"]
        lines += [f"setp.ne.and.u64 {test}, {sum_}, 0, {on};", f"@{test} red.global.add.u64 {target}, {sum_};"]
    return "\n".join([*lines, *([f"{done}:"] if at_once else []), "}"])


def _whole_warp(plan: Plan, buffer: Buffer, kept: _Kept, part: str) -> list[str]:
    """Code by which each lane adds sums to memory if all 32 threads are converged and no count is large; otherwise it branches to
    `part`."""
    own, bits = kept.own, kept.bits
    base, copy, on, mask, low, at = [plan.name(role) for role in ("b", "c", "on", "m", "l", "t")]
    value, lane, field = [plan.name(role) for role in ("v", "i", "g")]
    lines = [f"{{ .reg .b32 {value}, {lane}, {field};", f"activemask.b32 {mask};", f"setp.eq.u32 {on}, {mask}, -1;"]
    if own:
        lines += [f"mov.u32 {low}, 0;", *[f"or.b32 {low}, {low}, {register};" for register in own.values()]]
        lines += [f"setp.lt.and.u32 {on}, {low}, {SMALL}, {on};", f"vote.sync.all.pred {on}, {on}, {mask};"]
    lines += [f"@!{on} bra {part};", f"setp.ne.u64 {on}, {base}, 0;", f"mov.u32 {lane}, %laneid;"]
    # the lane's address in memory
    lines += [f"shl.b32 {low}, {lane}, 3;"]
    if buffer.region.copies > 1:
        lines += [buffer.copy(copy), f"mad.lo.u32 {low}, {copy}, {buffer.stride}, {low};"]
    lines += [f"cvt.u64.u32 {at}, {low};", f"add.u64 {at}, {base}, {at};"]
    if bits:
        # the group that contains the lane's field, and the position in it
        lines += [f"mov.u32 {copy}, 0;", f"mul.lo.u32 {field}, {lane}, 6;"]
        if len(bits) > GROUP:
            lines += [f"mul.lo.u32 {copy}, {lane}, {-(-1024 // GROUP)};", f"shr.u32 {copy}, {copy}, 10;"]
            lines += [f"mul.lo.u32 {low}, {copy}, {6 * GROUP};", f"sub.u32 {field}, {field}, {low};"]
    for start in kept.rounds:
        lines += _round(plan, kept, start)
    return [*lines, "}"]


def _round(plan: Plan, kept: _Kept, start: int) -> list[str]:
    """Code by which the lanes add the sums of 32 consecutive counters to memory."""
    copy, on, mask, low, sum_, at, test = [plan.name(role) for role in ("c", "on", "m", "l", "s", "t", "q")]
    value, lane, field = [plan.name(role) for role in ("v", "i", "g")]
    lines = [f"mov.u32 {value}, 0;"]
    here = min(len(kept.bits) - start, ROUND)
    for first in range(0, here, GROUP):
        register, _ = kept.bits[start]
        lines += [f"shr.u32 {low}, {register}, {first};", f"and.b32 {low}, {low}, {(1 << GROUP) - 1};"]
        lines += [f"mul.lo.u32 {low}, {low}, {SPREAD};", f"and.b32 {low}, {low}, {FIELDS};"]
        lines += [f"redux.sync.add.u32 {low}, {low}, {mask};"]
        # with a single group, the fields of other lanes are beyond its last one, and empty
        lines += [f"setp.eq.u32 {test}, {copy}, {first // GROUP};", f"selp.b32 {value}, {low}, {value}, {test};"]
    if here > 0:
        lines += [f"shr.u32 {value}, {value}, {field};", f"and.b32 {value}, {value}, 63;"]
    # the first counters of the next round may be within 32 of this round's start
    end = min([start + WARP, *[other for other in kept.rounds if other > start]])
    for n, register in kept.own.items():
        if start <= n < end:
            lines += [f"redux.sync.add.u32 {low}, {register}, {mask};", f"setp.eq.u32 {test}, {lane}, {n - start};"]
            lines += [f"selp.b32 {value}, {low}, {value}, {test};"]
    if start <= kept.entry < end:
        lines += [f"setp.eq.u32 {test}, {lane}, {kept.entry - start};", f"selp.b32 {value}, {WARP}, {value}, {test};"]
    lines += [f"setp.ne.and.u32 {test}, {value}, 0, {on};", f"cvt.u64.u32 {sum_}, {value};"]
    return [*lines, f"@{test} red.global.add.u64 [{at}+{8 * (kept.first + start)}], {sum_};"]


def _bit_loops(plan: Plan, base: str, first: int, bits: dict[int, tuple[str, int]]) -> list[str]:
    """A loop over each register of bits, whose counters are contiguous in memory."""
    on, mask, low, sum_, at, test = [plan.name(role) for role in ("on", "m", "l", "s", "t", "q")]
    lines: list[str] = []
    for k, register in enumerate(dict.fromkeys([register for register, _ in bits.values()])):
        counters = [n for n, (own, _) in bits.items() if own == register]
        label = plan.batch.fresh.label(f"p{plan.number}_bit", k)
        lines += [f"add.u64 {at}, {base}, {8 * (first + counters[0])};"]
        lines += [f"{label}:", '.pragma "nounroll";', f"and.b32 {low}, {register}, 1;", f"setp.ne.u32 {test}, {low}, 0;"]
        lines += [f"vote.sync.ballot.b32 {low}, {test}, {mask};", f"popc.b32 {low}, {low};", f"cvt.u64.u32 {sum_}, {low};"]
        lines += [f"setp.ne.and.u32 {test}, {low}, 0, {on};", f"@{test} red.global.add.u64 [{at}], {sum_};"]
        lines += [f"shr.u32 {register}, {register}, 1;", f"add.u64 {at}, {at}, 8;"]
        # until no converged thread has a bit left
        lines += [f"setp.ne.u32 {test}, {register}, 0;", f"vote.sync.any.pred {test}, {test}, {mask};", f"@{test} bra {label};"]
    return lines


# --- reading ----------------------------------------------------------------------------------------------------------------------


def counts_of_edges(function: dict[str, Any], counters: Sequence[int]) -> list[int]:
    """How often each edge was taken: edges of the tree follow from the flow through its leaves, one by one."""
    listed = function["ways"]
    counts: list[int | None] = [counters[counter] if counter != NONE else None for *_, counter in listed]
    around: dict[int, list[int]] = {}
    for number, (source, target, _, _) in enumerate(listed):
        around.setdefault(source, []).append(number)
        if source != target:
            around.setdefault(target, []).append(number)
    open_ = {block: sum([counts[n] is None for n in own]) for block, own in around.items()}
    ready = [block for block, count in open_.items() if count == 1]
    while ready:
        block = ready.pop()
        missing = next((n for n in around[block] if counts[n] is None), None)
        if missing is None:
            continue
        balance = 0
        for n in around[block]:
            source, target, *_ = listed[n]
            count = counts[n]
            if count is not None and source != target:
                balance += count if target == block else -count
        source, target, *_ = listed[missing]
        counts[missing] = balance if source == block else -balance
        for other in (source, target):
            open_[other] -= 1
            if open_[other] == 1:
                ready.append(other)
    return [count or 0 for count in counts]


def counts_of_blocks(function: dict[str, Any], taken: Sequence[int]) -> list[int]:
    """How often each block was entered, in the order of `function["blocks"]`."""
    into: dict[int, int] = {}
    for (_, target, *_), count in zip(function["ways"], taken, strict=True):
        into[target] = into.get(target, 0) + count
    return [into.get(block, 0) for block, *_ in function["blocks"]]


def functions_of(found: Read) -> list[tuple[dict[str, Any], list[int]]]:
    """The functions, each with how often its edges were taken."""
    functions = found.use.data.get("functions", [])
    counters = found.sums("counters") if functions else []
    return [(function, counts_of_edges(function, counters)) for function in functions]
