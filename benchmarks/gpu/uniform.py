"""Kernels that write down what each thread held and which way it went, to compare threads with one another and with `uniformity`.

Before every branch, and behind instructions whose result threads are said to agree on, stands code that keeps for its thread: how often
it came by; a sum over the visits of the value, each times a number made of the iterations of all loops around; and the same of the
iterations alone. Threads that came by in the same iterations must have the same sum of values, if they are said to agree. And if threads
are said to execute a block together, those of a group must all have come by in the same iterations. Of a branch it also keeps which way
the thread went in each of the first iterations of the innermost loop around: threads that leave a loop in different iterations have
different sums of iterations, so that the sums alone say nothing of them.

Kernels that wait for an mbarrier are run once more so that the lanes of a warp ask one after another: as they usually ask at once, they
would leave a spin loop together though nothing says that they do.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import attrs
from plan import Fixture, Variant
from probes import _may_fuse, _row, alone

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.loops import Loop, loops
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.analyses.registers.registers import CARRY, Register, registers
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.analyses.uniformity.uniformity import Uniformity, uniformity
from ptxkit.isa.binding import Bound
from ptxkit.rewriters import AddParameter, After, AtEntry, Before, Declare, Replace, Site, apply, fresh
from ptxkit.rewriters.engine.substitutions import operands_of, text_of
from ptxkit.syntax import Instruction, Module

SLOT = 48
"""Bytes of a slot, as `launcher.MEASURED` has it."""
MOST_SLOTS = 120
LATER = (
    "{ .reg .b32 %pk_w; mov.u32 %pk_w, %warpid; and.b32 %pk_w, %pk_w, 3; add.u32 %pk_w, %pk_w, 1; mul.lo.u32 %pk_w, %pk_w, 5000;"
    " nanosleep.u32 %pk_w; }"
)
"""What holds a warp up for some microseconds, each warp for another time."""
WIDTHS = (1, 8, 16, 32, 64)
MULTIPLIERS = (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F, 0xE7037ED1A0B428DB)
ITERATIONS = 64
"""Those of the innermost loop whose ways are kept, in the first iterations of the loops around it."""
SHAPES = ([20, 1, 1], [33, 1, 1], [96, 1, 1])
FLAT_SHAPES = ([16, 4, 1],)

FEWER: tuple[Callable[[int], int], ...] = (lambda n: n - 1, lambda n: n - 5, lambda n: n // 2 + 3, lambda n: min(n // 3 | 1, 333))
"""The numbers of elements of further launches, from that of the first; every other launch has data with extremes."""

FIXTURE = "uniform_shapes"
"""The module below, which is launched in shapes that the fixtures do not have."""
TEXT = """.version 8.0
.target sm_80
.address_size 64
""" + "\n".join(
    f"""
.visible .entry {name}(.param .u64 out, .param .u32 n)
{directive}
{{
    .reg .pred %p<8>; .reg .b32 %r<24>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [n]; cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r2, %tid.x; mov.u32 %r3, %tid.y; mov.u32 %r4, %tid.z; mov.u32 %r5, %ctaid.x; mov.u32 %r6, %ntid.x; mov.u32 %r7, %ntid.y;
    mov.u32 %r8, %laneid; and.b32 %r23, %r1, 31;
    mad.lo.u32 %r9, %r4, %r7, %r3; mad.lo.u32 %r9, %r9, %r6, %r2;
    shr.u32 %r10, %r2, 5; and.b32 %r11, %r9, -32; shr.u32 %r12, %r9, 7; shr.u32 %r20, %r2, 4;
    mov.u32 %r13, 0;
    setp.eq.u32 %p1, %r10, 0; @%p1 bra A; add.u32 %r13, %r13, 1;
A:  setp.lt.u32 %p2, %r11, 32; @%p2 bra B; add.u32 %r13, %r13, 2;
B:  setp.eq.u32 %p3, %r12, 0; @!%p3 bra C; add.u32 %r13, %r13, 4;
C:  setp.lt.u32 %p4, %r3, 2; @%p4 bra D; add.u32 %r13, %r13, 8;
D:  setp.eq.u32 %p5, %r20, 0; @%p5 bra E; add.u32 %r13, %r13, 16;
E:  mov.u32 %r14, 0; mov.u32 %r15, 0;
F:  add.u32 %r15, %r15, %r14; add.u32 %r14, %r14, 1; and.b32 %r16, %r2, 3; add.u32 %r16, %r16, 2;
    setp.lt.u32 %p6, %r14, %r16; @%p6 bra F;
    shfl.sync.idx.b32 %r17, %r10, 0, 31, -1;
    setp.eq.u32 %p7, %r17, 0; @%p7 bra G; add.u32 %r13, %r13, %r15;
G:  setp.lt.u32 %p1, %r9, %r1; @!%p1 bra H; add.u32 %r13, %r13, 32;
H:  shr.u32 %r18, %r5, 1; setp.eq.u32 %p2, %r18, 0; @%p2 bra I; add.u32 %r13, %r13, 64;
I:  and.b32 %r19, %r9, 1; mov.u32 %r14, 0; setp.eq.u32 %p3, %r19, 0; @%p3 bra K;
J:  add.u32 %r14, %r14, 1;
K:  add.u32 %r14, %r14, 3; setp.lt.u32 %p4, %r14, %r23; @%p4 bra J;
    setp.gt.u32 %p5, %r14, %r23; @%p5 bra M; add.u32 %r13, %r13, 128;
M:  mov.u32 %r21, %ntid.z; mul.lo.u32 %r22, %r6, %r7; mul.lo.u32 %r22, %r22, %r21; mad.lo.u32 %r22, %r5, %r22, %r9;
    add.u32 %r13, %r13, %r14; mul.wide.u32 %rd2, %r22, 4; add.u64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r13;
    ret;
}}"""
    for name, directive in (
        ("any_shape", ""),
        ("square", ".reqntid 32, 32, 1"),
        ("odd", ".reqntid 33, 1, 1"),
        ("cube", ".reqntid 16, 4, 4"),
        ("rows", ".reqntid 32, 4, 2"),
    )
)
LAUNCHES = (
    ("any_shape", [33, 1, 1]), ("any_shape", [16, 4, 4]), ("any_shape", [32, 32, 1]), ("any_shape", [7, 5, 3]), ("any_shape", [48, 3, 1]),
    ("square", [32, 32, 1]), ("odd", [33, 1, 1]), ("cube", [16, 4, 4]), ("rows", [32, 4, 2]),
)  # fmt: skip


def shapes_fixture() -> Fixture:
    """A module that looks at its place in many ways, launched in many shapes, with several numbers."""
    room = {"buffer": "u32", "length": 4096, "fill": "zeros", "output": True}
    launches = [
        {"entry": entry, "grid": [4, 1, 1], "block": block, "args": [room, {"scalar": "i32", "value": n}], "id": f"{entry}+{n}+{block}"}
        for entry, block in LAUNCHES
        for n in (77, 20, 1004)
    ]
    return Fixture(FIXTURE, "sm_80", TEXT, tuple(launches))


def with_shapes(fixture: Fixture) -> Fixture:
    """The fixture with more launches of the kernels that may be launched in other shapes: with fewer threads."""
    launches = list(fixture.kernels)
    for kernel in fixture.kernels:
        (routine,) = [routine for routine in routines(alone(fixture, kernel["entry"])) if routine.name == kernel["entry"]]
        if not _may_be_smaller(routine) or "cluster" in kernel:
            continue
        size = math.prod(kernel["block"])
        for block in SHAPES if kernel["block"][1:] == [1, 1] else FLAT_SHAPES:
            if math.prod(block) < size and all(one <= all_ for one, all_ in zip(block, kernel["block"], strict=True)):
                launches.append({**kernel, "block": block, "id": f"{kernel['entry']}+{'x'.join(map(str, block))}"})
    return attrs.evolve(fixture, kernels=tuple(launches))


def with_inputs(fixture: Fixture) -> Fixture:
    """The fixture with more launches of each kernel: with fewer elements where `launch.toml` says what counts them, and with other data.

    What happens to be uniform, because a number of elements is a multiple of the block or because data lie close to one another, is not
    uniform there.
    """
    launches = list(fixture.kernels)
    for kernel in fixture.kernels:
        if kernel["id"] != kernel["entry"]:
            continue
        has_count = any(argument.get("count") for argument in kernel["args"])
        if not has_count and not any(argument.get("fill") == "random" for argument in kernel["args"]):
            continue
        for number, fewer in enumerate(FEWER, 1):
            arguments = [{**one, "value": max(fewer(one["value"]), 1)} if one.get("count") else one for one in kernel["args"]]
            other = {"args": arguments, "seed": 1000 * number, "spread": number % 2 == 0, "id": f"{kernel['entry']}+input{number}"}
            launches.append({**kernel, **other})
    return attrs.evolve(fixture, kernels=tuple(launches))


def _may_be_smaller(routine: Routine) -> bool:
    """Whether nothing counts on a number of threads: no barriers but of the whole CTA, nothing of warps, no size said."""
    if any(directive.name == ".reqntid" for directive in routine.function.header.directives):
        return False
    for bound in set(bindings(routine)):
        if not isinstance(bound, Bound) or bound.flow == "call" or bound.asynchronous or bound.effects:
            return False
        if bound.converges is not None and (bound.converges.level != "cta" or bound.threads is not None):
            return False
        if bound.barrier and bound.converges is None:
            return False
    return True


@attrs.frozen
class Slot:
    """What is kept, and what is said of it."""

    instruction: int
    register: int
    is_branch: bool
    level: Level
    point: Level
    text: str
    cause: str


def slots(routine: Routine, lot: random.Random) -> list[Slot]:
    """The branches, and values on which threads are said to agree; of many some by lot."""
    known, flow, table = uniformity(routine), control_flow(routine), registers(routine).table
    branches, values = [], []
    for block in flow.blocks:
        i = block.end - 1
        if block.index not in flow.reachable or len(block.edges) + bool(block.leaves) < 2 or not registers(routine).reads[i]:
            continue
        cause = _cause(routine, known, block.index)
        branches.append(_slot(routine, known, i, registers(routine).reads[i][0], True, known.branch(block.index).level, cause))
    numbering = ssa(routine)
    for i, written in enumerate(registers(routine).writes):
        if len(numbering.definitions[i]) != len(written) or _may_fuse(routine.instructions[i].opcode):
            continue
        for number, register in zip(numbering.definitions[i], written, strict=True):
            # what nothing reads has no true value from before, where it may not be written
            is_read = numbering.readers[number] or not numbering.values[number].operands
            kind = table[register]
            if kind.name == CARRY or kind.bits not in WIDTHS or kind.symbol is None or written.count(register) > 1 or not is_read:
                continue
            if Level.THREAD < known.level(number) < Level.GRID or lot.random() < 0.15:
                values.append(_slot(routine, known, i, register, False, known.level(number), ""))
    if len(branches) > MOST_SLOTS:
        branches = lot.sample(branches, MOST_SLOTS)
    room = max(MOST_SLOTS - len(branches), 20)
    return branches + (lot.sample(values, room) if len(values) > room else values)


def _slot(routine: Routine, known: Uniformity, i: int, register: int, is_branch: bool, level: Level, cause: str) -> Slot:
    block = control_flow(routine).block_of[i]
    return Slot(i, register, is_branch, level, known.block(block, True).level, _text(routine, i), cause)


SPIN = "spins on an mbarrier"


def _cause(routine: Routine, known: Uniformity, block: int) -> str:
    """Why threads may part at the end of a block, in one of a few phrases; empty if those of a warp do not."""
    verdict = known.branch(block)
    if verdict.level >= Level.WARP:
        return ""
    if verdict.refuted is not None:
        return "refuted for some arguments" if verdict.refuted.given else "refuted"
    chain = [step.instruction for step in known.blame(block) if step.instruction >= 0]
    bounds = [bound for bound in [bindings(routine)[i] for i in chain] if isinstance(bound, Bound)]
    reading = [memory for bound in bounds for memory in bound.memory if memory.access != "write"]
    text = " ".join([_text(routine, i) for i in chain])
    if any(bound.barrier for bound in bounds):
        return SPIN
    if any(memory.order not in ("weak", "") for memory in reading):
        return "atomic operation, or load with an order"
    if "%globaltimer" in text or "%clock" in text:
        return "clock"
    if any(variable in text for variable in ("__local_depot", "%SP")):
        return "through local memory"
    if "retval" in text:
        return "what a call returned"
    if any(bound.memory and not bound.has(".param") for bound in bounds):
        return "loaded data"
    if not known.reach.template.has_indices:
        return "place of the thread, in a block of unknown shape"
    return "place of the thread against an argument or %ntid"


def _text(routine: Routine, i: int) -> str:
    return " ".join(routine.instructions[i].body_text.split())[:80]


def watched(module: Module, entry: str, found: list[Slot], spoil: int = -1, one_by_one: bool = False) -> str:
    """The module with probes for these slots in one of its kernels; one may write down what no two lanes agree on.

    With `one_by_one` the lanes of a warp ask one after another whether an mbarrier's phase is over, and warps arrive at different times.
    """
    routine = next(routine for routine in routines(module) if routine.name == entry)
    flow, forest, table = control_flow(routine), loops(routine), registers(routine).table
    new = fresh(module)
    base, parameter = new.register("row"), new.symbol("rows")
    counters = {loop.index: new.register(f"turn{loop.index}") for loop in forest.loops}
    edits: list[Any] = [AddParameter(entry, parameter), Declare(routine, f".reg .b64 {base};")]
    edits += [Declare(routine, f".reg .b64 {counter};") for counter in counters.values()]
    start = "\n".join([_row(parameter, base, SLOT * len(found)), *[f"mov.u64 {counter}, 0;" for counter in counters.values()]])
    edits.append(AtEntry(routine, start))
    for loop in forest.loops:
        inner = [counters[other.index] for other in forest.loops if other.parent == loop.index]
        counted = f"add.u64 {counters[loop.index]}, {counters[loop.index]}, 1;" + "".join([f" mov.u64 {one}, 0;" for one in inner])
        edits.append(Before(Site(routine, flow.blocks[loop.header].start), counted))
    for place, slot in enumerate(found):
        around = [counters[loop.index] for loop in _around(forest.loops, flow.block_of[slot.instruction])]
        code = _keep(table[slot.register], around, base, place * SLOT, place == spoil, slot.is_branch)
        edit = Before if slot.is_branch else After
        edits.append(edit(Site(routine, slot.instruction), code))
    if one_by_one:
        edits += [Replace(Site(routine, i), _asked_one_by_one(routine.instructions[i])) for i in tests(routine)]
        edits += [Before(Site(routine, i), LATER) for i in arrivals(routine)]
    return apply(module, edits, "uniform", marked=False, partly=True).module.text


def tests(routine: Routine) -> list[int]:
    """The instructions that ask whether an mbarrier's phase is over."""
    asking = []
    for i, bound in enumerate(bindings(routine)):
        if isinstance(bound, Bound) and any(one.action == "wait" for one in bound.barrier) and registers(routine).writes[i]:
            asking.append(i)
    return asking


def arrivals(routine: Routine) -> list[int]:
    """The instructions that arrive at a barrier which an operand names."""
    bounds = bindings(routine)
    return [
        i
        for i, bound in enumerate(bounds)
        if isinstance(bound, Bound) and any(one.action in ("arrive", "expect") and one.operand for one in bound.barrier)
    ]


def _asked_one_by_one(instruction: Instruction) -> str:
    """The code of a test that each lane makes in its turn, none before a while after the one before it, and that none waits in.

    A warp could run the original so: threads may be held up anywhere, and a test need not wait.
    """
    opcode, guard, operands = instruction.opcode, instruction.guard, operands_of(instruction)
    kept = [".test_wait" if word == ".try_wait" else word for word in opcode.modifiers]
    has_hint = opcode.has(".try_wait") and len(operands) > 3
    too = "" if guard is None else f", {'!' if guard.negated else ''}%pk_g"
    asked = text_of(opcode.mnemonic, kept, operands[:-1] if has_hint else operands)
    lines = ["{ .reg .pred %pk_m, %pk_g; .reg .b32 %pk_l; mov.u32 %pk_l, %laneid;"]
    if guard is not None:
        # what is asked may write it
        lines.append(f"mov.pred %pk_g, {guard.predicate.text.strip()};")
    for lane in range(32):
        lines.append(f"setp.eq{'.and' if too else ''}.u32 %pk_m, %pk_l, {lane}{too}; @%pk_m {asked} nanosleep.u32 60;")
    return "\n".join([*lines, "}"])


def _around(forest: tuple[Loop, ...], block: int) -> list[Loop]:
    """The loops around a block, the innermost last."""
    return [loop for loop in forest if block in loop]


def _keep(register: Register, around: list[str], base: str, offset: int, spoil: bool, is_branch: bool) -> str:
    """The code that adds what a register holds to what is kept; `around` are the counters of the loops around, the innermost last."""
    one, two, three, four = MULTIPLIERS
    name = register.name
    lines = ["{ .reg .b64 %pk_v, %pk_n, %pk_f, %pk_s, %pk_h, %pk_q;"]
    if register.is_predicate:
        lines.append(f"selp.u64 %pk_v, 1, 0, {name};")
    elif register.bits == 64:
        lines.append(f"mov.b64 %pk_v, {name};")
    elif register.bits == 8:
        lines.append(f"cvt.u64.u8 %pk_v, {name};")
    else:
        lines.append(f".reg .b{register.bits} %pk_t; mov.b{register.bits} %pk_t, {name}; cvt.u64.u{register.bits} %pk_v, %pk_t;")
    if spoil:
        lines.append(".reg .b32 %pk_l; .reg .b64 %pk_w; mov.u32 %pk_l, %laneid; cvt.u64.u32 %pk_w, %pk_l; add.u64 %pk_v, %pk_v, %pk_w;")
    if is_branch:
        lines += _ways(around, base, offset + 24)
    lines.append(f"mov.u64 %pk_h, {one:#x};")
    lines += [f"mad.lo.u64 %pk_h, %pk_h, {two:#x}, {counter};" for counter in around]
    lines += [
        f"mul.lo.u64 %pk_h, %pk_h, {three:#x}; shr.u64 %pk_q, %pk_h, 29; xor.b64 %pk_h, %pk_h, %pk_q; mul.lo.u64 %pk_h, %pk_h, {four:#x};",
        f"ld.global.v2.u64 {{%pk_n, %pk_f}}, [{base}+{offset}]; ld.global.u64 %pk_s, [{base}+{offset + 16}];",
        "add.u64 %pk_n, %pk_n, 1; add.u64 %pk_s, %pk_s, %pk_h; or.b64 %pk_q, %pk_h, 1; add.u64 %pk_v, %pk_v, 1;",
        "mad.lo.u64 %pk_f, %pk_v, %pk_q, %pk_f;",
        f"st.global.v2.u64 [{base}+{offset}], {{%pk_n, %pk_f}}; st.global.u64 [{base}+{offset + 16}], %pk_s; }}",
    ]
    return "\n".join(lines)


def _ways(around: list[str], base: str, offset: int) -> list[str]:
    """The code that keeps which way a branch goes: by iteration a bit in a first word if its guard holds, in a second if it does not."""
    lines = [".reg .pred %pk_p; .reg .b32 %pk_b; .reg .b64 %pk_a; mov.u32 %pk_b, 0; setp.eq.u64 %pk_p, 0, 0;"]
    if around:
        lines.append(f"sub.u64 %pk_s, {around[-1]}, 1; setp.lt.u64 %pk_p, %pk_s, {ITERATIONS}; cvt.u32.u64 %pk_b, %pk_s;")
        lines += [f"setp.eq.and.u64 %pk_p, {counter}, 1, %pk_p;" for counter in around[:-1]]
    lines.append("and.b64 %pk_a, %pk_v, 1; xor.b64 %pk_a, %pk_a, 1; shl.b64 %pk_a, %pk_a, 3;")
    lines.append(f"add.u64 %pk_a, %pk_a, {base}; mov.u64 %pk_q, 1; shl.b64 %pk_q, %pk_q, %pk_b;")
    lines.append(f"ld.global.u64 %pk_s, [%pk_a+{offset}]; or.b64 %pk_s, %pk_s, %pk_q; @%pk_p st.global.u64 [%pk_a+{offset}], %pk_s;")
    return lines


def uniform_variants(fixture: Fixture, counts: dict[str, int]) -> list[Variant]:
    """Each kernel with probes; one kernel also with a probe that writes down something else for each lane."""
    made = []
    lot = random.Random(f"{fixture.name} {fixture.target}")
    for entry in fixture.entries:
        module = alone(fixture, entry)
        (routine,) = [routine for routine in routines(module) if routine.name == entry]
        found = slots(routine, lot)
        if not found:
            continue
        counts["slots"] += len(found)
        counts["branches"] += sum(slot.is_branch for slot in found)
        rows = max(math.prod(k["grid"]) * math.prod(k["block"]) for k in fixture.kernels if k["entry"] == entry)
        capture = {"rows": rows, "row": SLOT * len(found), "take": []}
        about: dict[str, Any] = {"slots": [attrs.astuple(slot)[2:] for slot in found]}
        about["measure"] = True
        made.append(Variant("uniform", watched(module, entry, found), only=entry, capture=capture, about=about))
        if tests(routine):
            text = watched(module, entry, found, one_by_one=True)
            made.append(Variant("one by one", text, only=entry, capture=capture, about=about))
        claimed = [place for place, slot in enumerate(found) if slot.level > Level.THREAD and slot.point > Level.THREAD]
        if claimed and entry == fixture.entries[0]:
            spoiled = lot.choice(claimed)
            text = watched(module, entry, found, spoiled)
            made.append(Variant("planted", text, only=entry, capture=capture, about={**about, "planted": True, "slot": spoiled}))
    return made


# --- judging ----------------------------------------------------------------------------------------------------------------------


@attrs.define
class Branch:
    """What was measured of a branch in all launches of its kernel."""

    level: Level
    """What is said of it."""
    cause: str
    text: str
    is_uniform: bool = True
    """Whether no launch had threads of a warp part there."""


def judged(results: list[dict[str, Any]]) -> bool:
    """Prints how what was said compares with what was measured. Whether nothing contradicts, and planted faults do."""
    results = [result for result in results if result["about"].get("measure")]
    ran = [result for result in results if "levels" in result]
    wrong: list[str] = []
    said = {"values": 0, "branches": 0, "points": 0}
    faults = caught = different = 0
    kernels, shapes = set(), set()
    branches: dict[tuple[str, ...], Branch] = {}
    for result in ran:
        told = result["about"]["slots"]
        found = [_contradictions(result, slot, measured) for slot, measured in zip(told, result["levels"], strict=True)]
        if result["about"].get("planted"):
            level, _, threads = result["levels"][result["about"]["slot"]]
            if threads > 1:
                faults += 1
                caught += bool(found[result["about"]["slot"]])
            continue
        wrong += [text for texts in found for text in texts]
        different += result["verdict"] != "equal"
        kernels.add((result["fixture"], result["kernel"]))
        shapes.add(tuple(result["block"]))
        for place, ((is_branch, level, point, text, cause), (measured, _, threads)) in enumerate(zip(told, result["levels"], strict=True)):
            if threads < 1:
                continue
            said["branches" if is_branch else "values"] += level > Level.THREAD
            said["points"] += point > Level.THREAD
            if is_branch:
                key = (result["fixture"], result["target"], result["kernel"], str(place))
                branches.setdefault(key, Branch(level, cause, text)).is_uniform &= measured >= Level.WARP
    print(f"uniformity measured in {len(kernels)} kernels, {len(ran)} launches, {len(shapes)} shapes: {sorted(shapes)}")
    print(f"  not run: {len(results) - len(ran)}; outputs differ from those of the original in {different}")
    print(f"  checked: {', '.join(f'{count} {name}' for name, count in said.items())}")
    print(f"  contradictions {len(wrong)}")
    for words in wrong[:60]:
        print(f"    {words[:300]}")
    _print_precision(branches)
    print(f"  a probe that writes down another number for each lane: {caught} of {faults} found")
    return not wrong and caught == faults


def _print_precision(branches: dict[tuple[str, ...], Branch]) -> None:
    """Prints how many of the branches that are uniform in each warp of every launch are said to be, and the rest by cause."""
    uniform = {key: branch for key, branch in branches.items() if branch.is_uniform}
    rest = {key: branch for key, branch in uniform.items() if branch.level < Level.WARP}
    spins = len([branch for branch in rest.values() if branch.cause == SPIN])
    proved = len(uniform) - len(rest)
    print(f"  branches that were executed {len(branches)}, uniform in each warp of all launches of theirs {len(uniform)}")
    for count, what in ((len(uniform), "all"), (len(uniform) - spins, "all but spins on an mbarrier")):
        print(f"    proved uniform {proved} of {count} ({100 * proved / count if count else 0:.1f} %), of {what}")
    print(f"  the other {len(rest)} by cause:")
    for cause, number in Counter([branch.cause for branch in rest.values()]).most_common():
        print(f"    {number:5} {cause}")
        if cause != SPIN:
            for key, branch in [(key, branch) for key, branch in rest.items() if branch.cause == cause]:
                print(f"            {' '.join(key[:3])[:60]} `{branch.text}`")


def _contradictions(result: dict[str, Any], slot: tuple[Any, ...], measured: tuple[int, int, int]) -> list[str]:
    _, level, point, text, _ = slot
    values, visits, threads = measured
    where = f"{result['fixture']}.{result['target']} {result['launch']}: `{text}`"
    found = []
    if threads and values < level:
        found.append(f"{where} is said to be {Level(level)}, was {Level(values)}")
    if visits < point:
        found.append(f"{where} is said to be executed at {Level(point)}, was at {Level(visits)}")
    return found
