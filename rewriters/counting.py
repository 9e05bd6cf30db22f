"""Counting how often control takes each edge of a function, with as few counters as that takes.

What flows into a block flows out of it. So, if a spanning tree of the graph is left out, counters on the other edges decide all of them
(Knuth, Ball and Larus). One node more, the outside, stands for whoever calls and is returned to. The tree takes the edges in the deepest
loops. A counter stands in a block or under the guard of a branch: no edge is split, control flows as before.

A thread keeps its counts in registers: one bit where control comes at most once, 32 of them to a register, and a register for each counter
in a loop. Where the function is left, the threads that leave together add theirs up, and one adds the sum to memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from ptxkit.analyses.cfg import BasicBlock, Via, control_flow
from ptxkit.analyses.loops import loops
from ptxkit.analyses.routine import Routine, routines
from ptxkit.isa.binding import flow_of
from ptxkit.rewriters.engine.edits import AtEntry, AtExits, Before, Declare
from ptxkit.rewriters.engine.patterns import Site
from ptxkit.rewriters.engine.points import points
from ptxkit.rewriters.manifest import Read
from ptxkit.rewriters.probing import REDUX, Buffer, Plan, guard_of, leading, place_in, under
from ptxkit.syntax.nodes import Module

FEW = 8
"""Bits up to which they are added up one by one: more in a loop, so that the code does not grow."""
OUTSIDE = -1
NONE = -1


@attrs.frozen
class Way:
    """A way that control may go, between blocks or to the outside."""

    source: int
    target: int
    via: str
    indices: tuple[int, ...] = ()


@attrs.frozen
class Counter:
    """Where a way is counted: before an instruction, under a guard, or for some indices of a `brx.idx`."""

    instruction: int
    guard: str = ""
    indices: tuple[int, ...] = ()


Counted = tuple[list[Way], list[int], list[Counter]]
"""The ways, by way the number of its counter (or -1), and the counters."""


def ways(routine: Routine) -> list[Way]:
    """The ways between the blocks that control can reach, those from and to the outside included."""
    flow = control_flow(routine)
    found = [Way(OUTSIDE, 0, "enter")]
    for index in sorted(flow.reachable):
        block = flow.blocks[index]
        found += [Way(index, edge.target, str(edge.via), edge.indices) for edge in block.edges]
        if block.leaves:
            found.append(Way(index, OUTSIDE, block.leaves))
        if block.falls_off:
            found.append(Way(index, OUTSIDE, "end"))
    return found


def may_exit(module: Module) -> bool:
    """Whether a function that is called may end the thread, after which its caller counts no more."""
    found = [routine for routine in routines(module) if not routine.function.is_entry]
    return any(flow_of(instruction.opcode.text) == "exit" for routine in found for instruction in routine.instructions)


def calls(routine: Routine) -> bool:
    """Whether a function calls others."""
    return any(flow_of(instruction.opcode.text) == "call" for instruction in routine.instructions)


def count_ways(plan: Plan, registers: int, derive: bool) -> None:
    """Has the ways of all functions counted; `plan.data` gets, for each function, its ways and by which counter each is known."""
    exits = may_exit(plan.module)
    functions: list[dict[str, Any]] = []
    wanted: list[tuple[Routine, list[Way], list[int], list[Counter]]] = []
    total = 0
    for routine in plan.routines:
        flow = control_flow(routine)
        if flow.unknown_targets:
            plan.refuse(routine, -1, "unknown-targets", "a branch goes nobody knows where")
            continue
        if exits and calls(routine):
            chosen = _blocks(routine)
        else:
            chosen = _tree(routine, derive)
        if chosen is None:
            plan.refuse(routine, -1, "call-sequence-split", "a block or branch has no place at which it can be counted")
            continue
        listed, counted, counters = _bits_first(routine, *chosen)
        wanted.append((routine, listed, counted, counters))
        total += len(counters)
    if not wanted:
        return
    buffer = plan.region("counters", 8, max(1, total))
    at = 0
    for routine, listed, counted, counters in wanted:
        in_memory = exits and calls(routine)
        if in_memory:
            _count_in_memory(plan, routine, buffer, counters, at)
        else:
            _count_in_registers(plan, routine, buffer, counters, at, registers)
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


def _tree(routine: Routine, derive: bool) -> Counted | None:
    """What is counted of the ways that are not in a spanning tree; without `derive`, of all."""
    flow, nest = control_flow(routine), loops(routine)
    found = ways(routine)
    places = [_place(routine, way, found) for way in found]
    depth = [min(nest.depth(way.source), nest.depth(way.target)) if OUTSIDE not in (way.source, way.target) else 0 for way in found]
    leader = {block: block for block in (OUTSIDE, *flow.reachable)}

    def top(block: int) -> int:
        while leader[block] != block:
            leader[block] = leader[leader[block]]
            block = leader[block]
        return block

    counted = [NONE] * len(found)
    counters: list[Counter] = []
    # what can't be counted must be in the tree, then what is deepest
    for number in sorted(range(len(found)), key=lambda n: (places[n] is not None, -depth[n], -n)):
        way, place = found[number], places[number]
        a, b = top(way.source), top(way.target)
        if a != b and (derive or place is None):
            leader[a] = b
            continue
        if place is None:
            return None
        counted[number] = len(counters)
        counters.append(place)
    return found, counted, counters


def _bits_first(routine: Routine, listed: list[Way], counted: list[int], counters: list[Counter]) -> Counted:
    """The same with the counters in another order: first those of places in no loop."""
    order = sorted(range(len(counters)), key=lambda n: _depth(routine, counters[n]) > 0)
    place = {old: new for new, old in enumerate(order)}
    return listed, [place.get(number, NONE) for number in counted], [counters[number] for number in order]


def _depth(routine: Routine, counter: Counter) -> int:
    """How many loops are around the place of a counter."""
    return 0 if counter.instruction == NONE else loops(routine).depth(control_flow(routine).block_of[counter.instruction])


def _place(routine: Routine, way: Way, all_ways: Sequence[Way]) -> Counter | None:
    """Where a way can be counted, without a new block."""
    flow = control_flow(routine)
    if way.source != OUTSIDE:
        source = flow.blocks[way.source]
        if len(source.edges) + bool(source.leaves) + source.falls_off == 1:
            at = place_in(routine, source)
            return Counter(at) if at is not None else None
    if way.target != OUTSIDE and (way.target != 0 or not flow.blocks[0].predecessors):
        target = flow.blocks[way.target]
        into = sum([len([e for e in flow.blocks[p].edges if e.target == way.target]) for p in target.predecessors if p in flow.reachable])
        if into + (way.target == 0) == 1:
            at = place_in(routine, target)
            return Counter(at) if at is not None else None
    if way.source == OUTSIDE:
        return Counter(NONE)
    return _at_branch(routine, flow.blocks[way.source], way)


def _at_branch(routine: Routine, block: BasicBlock, way: Way) -> Counter | None:
    last = block.end - 1
    if last not in _open(routine, block):
        return None
    guard = guard_of(routine.instructions[last])
    if way.via == Via.INDEXED:
        return Counter(last, guard, way.indices)
    if not guard:
        return Counter(last)
    if way.via == Via.NOT_TAKEN or way.via == "end":
        guard = guard.replace("!", "") if "!" in guard else guard.replace("@", "@!")
    return Counter(last, guard)


def _open(routine: Routine, block: BasicBlock) -> tuple[int, ...]:
    """The last instruction of a block, if code may stand before it."""
    sequence, last = points(routine).sequence, block.end - 1
    return (last,) if sequence[last] < 0 or last == 0 or sequence[last - 1] != sequence[last] else ()


def _blocks(routine: Routine) -> Counted | None:
    """Each block counted by itself: right even if a call in it does not come back."""
    flow = control_flow(routine)
    counters = []
    for index in sorted(flow.reachable):
        at = place_in(routine, flow.blocks[index])
        if at is None:
            return None
        counters.append(Counter(at))
    listed = [Way(index, index, "block") for index in sorted(flow.reachable)]
    return listed, list(range(len(counters))), counters


def _count_in_memory(plan: Plan, routine: Routine, buffer: Buffer, counters: Iterable[Counter], first: int) -> None:
    for number, counter in enumerate(counters, first):
        plan.put(Before(Site(routine, counter.instruction), _add(plan, buffer, number)), whole=routine)


def _add(plan: Plan, buffer: Buffer, number: int, guard: str = "") -> str:
    """Code that adds one to a counter in memory for each thread; the compiler makes one addition of those of a warp."""
    base, copy, on = plan.name("b"), plan.name("c"), plan.name("on")
    return under(
        guard,
        f"""{{ .reg .b64 {base}; .reg .b32 {copy}; .reg .pred {on};
        !mov.pred {on}, 0;
        ld{buffer.space}.u64 {base}, [{buffer.words}];
        setp.ne.u64 {on}, {base}, 0;
        {buffer.copied(base, copy)}
        @{on} red.global.add.u64 [{base}+{number * 8}], 1;
        }}""",
    )


def _count_in_registers(plan: Plan, routine: Routine, buffer: Buffer, counters: Sequence[Counter], first: int, most: int) -> None:
    depth = [_depth(routine, counter) for counter in counters]
    looping = sorted([n for n in range(len(counters)) if depth[n]], key=lambda n: -depth[n])
    own = {n: plan.name("n", k) for k, n in enumerate(looping[:most])}
    bits = {n: (plan.name("f", k // 32), k % 32) for k, n in enumerate([n for n in range(len(counters)) if not depth[n]])}
    words = sorted({register for register, _ in bits.values()})
    kept = [*own.values(), *words]
    if kept:
        plan.put(Declare(routine, f".reg .b32 {', '.join(kept)};"), whole=routine)
        plan.put(AtEntry(routine, " ".join([f"mov.b32 {register}, 0;" for register in kept])), whole=routine)
    for n, counter in enumerate(counters):
        if n in own:
            step = f"add.u32 {own[n]}, {own[n]}, 1;"
        elif n in bits:
            register, bit = bits[n]
            step = f"or.b32 {register}, {register}, {1 << bit};"
        else:
            step = ""
        if counter.instruction == NONE:
            plan.put(AtEntry(routine, step), whole=routine)
            continue
        site = Site(routine, counter.instruction)
        if not counter.indices:
            code = under(counter.guard, step) if step else _add(plan, buffer, first + n, counter.guard)
            plan.put(Before(site, code), whole=routine)
            continue
        hit = plan.name("i")
        index = site.instruction.operands[0].text
        also = f", {counter.guard[1:]}" if counter.guard else ""
        for k in counter.indices:
            test = f"{{ .reg .pred {hit}; setp.eq{'.and' if also else ''}.u32 {hit}, {index}, {k}{also};"
            code = under(f"@{hit}", step) if step else _add(plan, buffer, first + n, f"@{hit}")
            plan.put(Before(site, f"{test} {code} }}"), whole=routine)
    if kept:
        guarded = any(one.guard is not None and flow_of(one.opcode.text) in ("return", "exit") for one in routine.instructions)
        loop = len(bits) > FEW and not guarded and plan.knows(REDUX)
        # all threads that are here go round equally often, so they stay together
        plan.put(AtExits(routine, _flush(plan, buffer, first, own, bits, loop), converged=loop), whole=routine)


def _flush(plan: Plan, buffer: Buffer, first: int, own: dict[int, str], bits: dict[int, tuple[str, int]], loop: bool) -> str:
    """Code that adds the counts of the threads that are here to memory; with `loop`, the bits one after the other in a loop."""
    base, copy, on = plan.name("b"), plan.name("c"), plan.name("on")
    mask, low, high, sum_, more, test = [plan.name(role) for role in ("m", "l", "h", "s", "t", "q")]
    lines = [f"{{ .reg .b64 {base}, {sum_}, {more}; .reg .b32 {copy}, {mask}, {low}, {high}; .reg .pred {on}, {test};"]
    lines += [f"ld{buffer.space}.u64 {base}, [{buffer.words}];"]
    together = plan.knows(REDUX)
    if together:
        lines += leading("", on, mask, copy, base).replace("!mov", "mov").split("\n")
    else:
        lines += [f"setp.ne.u64 {on}, {base}, 0;"]
    lines += [buffer.copied(base, copy)]
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
            # 32 times 16 bits are less than 32 bits: no carry is lost
            lines += [f"and.b32 {low}, {register}, 65535;", f"shr.u32 {high}, {register}, 16;"]
            lines += [f"redux.sync.add.u32 {low}, {low}, {mask};", f"redux.sync.add.u32 {high}, {high}, {mask};"]
            lines += [f"cvt.u64.u32 {sum_}, {low};", f"mad.wide.u32 {sum_}, {high}, 65536, {sum_};"]
        else:
            lines += [f"cvt.u64.u32 {sum_}, {register};"]
        lines += [f"setp.ne.and.u64 {test}, {sum_}, 0, {on};", f"@{test} red.global.add.u64 {target}, {sum_};"]
    return "\n".join([*lines, "}"])


def _bit_loops(plan: Plan, base: str, first: int, bits: dict[int, tuple[str, int]]) -> list[str]:
    """A loop over each register of bits, whose counters are side by side in memory."""
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
        # until no thread that is here has a bit left
        lines += [f"setp.ne.u32 {test}, {register}, 0;", f"vote.sync.any.pred {test}, {test}, {mask};", f"@{test} bra {label};"]
    return lines


# --- reading ----------------------------------------------------------------------------------------------------------------------


def counts_of_ways(function: dict[str, Any], counters: Sequence[int]) -> list[int]:
    """How often each way was taken: those of the tree follow from what flows in and out of its leaves, one after the other."""
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
    """The functions with how often each of their ways was taken."""
    functions = found.use.data.get("functions", [])
    counters = found.sums("counters") if functions else []
    return [(function, counts_of_ways(function, counters)) for function in functions]
