"""What uniformity claims of small random functions, against what their threads do when they are run one by one."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from itertools import product

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

import ptxkit
from ptxkit.analyses import Routine, control_flow, loops, routines, ssa
from ptxkit.analyses.cfg.dominators import quiet
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.analyses.uniformity.uniformity import Uniformity, uniformity

SHAPES = [(64, 1, 1), (33, 1, 1), (16, 4, 2), (8, 4, 1), (160, 1, 1), (7, 5, 3), (16, 4, 4), (32, 8, 1)]
CTAS = 2
REGISTERS = 6
CHOICE = "%r5"
"""Holds a number below 4, seldom another: what is compared with it again and again is decided sooner or later."""
FIXED = 2
"""Registers that hold the place of the thread and are seldom written, so that the others stay uniform where nothing else spoils them."""
MASK = (1 << 32) - 1
FUEL = 60

Instruction = tuple[str, ...]


@attrs.frozen
class Program:
    """Blocks of instructions, each with how it ends: `("ret",)`, `("bra", n)`, `("if", p, n)`, `("unless", p, n)`, `("exit", p)`, and
    `("brx", r, …)`."""

    blocks: list[list[Instruction]]
    ends: list[tuple[str, ...]]
    shape: tuple[int, int, int]
    is_required: bool

    @property
    def text(self) -> str:
        lines = []
        for number, (block, end) in enumerate(zip(self.blocks, self.ends, strict=True)):
            lines.append(f"B{number}:")
            lines += [ptx(instruction) for instruction in block]
            if end[0] == "brx":
                lines.append(f"T{number}: .branchtargets {', '.join(f'B{target}' for target in end[2:])};")
                lines.append(f"and.b32 %x, {end[1]}, {len(end) - 3}; brx.idx %x, T{number};")
            elif end[0] in ("if", "unless"):
                lines.append(f"@{'!' if end[0] == 'unless' else ''}{end[1]} bra B{end[2]};")
            elif end[0] == "exit":
                lines.append(f"@{end[1]} ret;")
            elif end[0] == "bra":
                lines.append(f"bra B{end[1]};")
            else:
                lines.append("ret;")
        shape = f".reqntid {', '.join(map(str, self.shape))}" if self.is_required else ""
        body = "\n".join(lines)
        return (
            f".version 8.5\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u32 n)\n{shape}\n"
            f"{{\n.reg .pred %p<4>; .reg .b32 %r<{REGISTERS}>; .reg .b32 %x;\n{body}\n}}\n"
        )


def ptx(instruction: Instruction) -> str:
    guard, operation, *operands = instruction
    if operation == "noise":
        return "membar.gl;"
    words = {"param": "ld.param.u32", "setp.lt": "setp.lt.u32", "setp.eq": "setp.eq.u32", "selp": "selp.b32", "mul": "mul.lo.u32"}
    words |= {"both": "and.pred", "either": "or.pred", "opposite": "not.pred"}
    words |= {"mov": "mov.u32", "add": "add.u32", "sub": "sub.u32", "and": "and.b32", "xor": "xor.b32", "shr": "shr.u32", "shl": "shl.b32"}
    operands = ["[n]" if operation == "param" and place else operand for place, operand in enumerate(operands)]
    return f"{guard} {words[operation]} {', '.join(operands)};".strip()


def program(draw: random.Random) -> Program:
    shape = draw.choice(SHAPES)
    is_required = shape[1:] != (1, 1) or draw.random() < 0.6
    count = draw.randint(3, 9)
    specials = ["%tid.x", "%laneid", "%ctaid.x"] + (["%tid.y"] if is_required else [])
    register = lambda: f"%r{draw.randrange(REGISTERS)}"  # noqa: E731
    written = lambda: f"%r{draw.randrange(0 if draw.random() < 0.1 else FIXED, REGISTERS - (draw.random() < 0.95))}"  # noqa: E731
    read = lambda: f"%r{draw.randrange(0 if draw.random() < 0.3 else FIXED, REGISTERS)}"  # noqa: E731
    predicate = lambda: f"%p{draw.randrange(4)}"  # noqa: E731
    number = lambda: str(draw.choice([0, 1, 2, 3, 5, 15, 16, 31, 32, 33, 64, 4294967264]))  # noqa: E731

    def instruction() -> Instruction:
        guard = f"@{draw.choice(['', '!'])}{predicate()}" if draw.random() < 0.15 else ""
        kind = draw.random()
        if kind < 0.1:
            return ("", "noise")
        if kind < 0.2:
            return (guard, "mov", written(), draw.choice([*specials, number(), number()]))
        if kind < 0.25:
            return (guard, "param", written(), "")
        if kind < 0.32:
            return (guard, *draw.choice([("both", predicate(), predicate(), predicate()), ("either", predicate(), predicate(), predicate()),
                                         ("opposite", predicate(), predicate())]))  # fmt: skip
        if kind < 0.5:
            return (guard, draw.choice(["setp.lt", "setp.eq"]), predicate(), read(), draw.choice([register(), number()]))
        if kind < 0.55:
            return (guard, "selp", written(), read(), number(), predicate())
        if kind < 0.65:
            return (guard, draw.choice(["shr", "shl"]), written(), register(), str(draw.choice([1, 4, 5, 6])))
        if kind < 0.8:
            same = written()
            return (guard, "add", same, same, draw.choice(["1", "1", number()]))
        return (guard, draw.choice(["add", "sub", "and", "xor", "mul"]), written(), read(), draw.choice([read(), number(), "1"]))

    blocks = [[instruction() for _ in range(draw.randint(0, 4))] for _ in range(count)]
    start: list[Instruction] = [("", "mov", f"%r{i}", draw.choice(specials) if i < FIXED else number()) for i in range(REGISTERS)]
    start[-1] = ("", "and", CHOICE, draw.choice(["%r0", "%r1", "%r2"]), "3")
    start += [("", "setp.lt", f"%p{i}", register(), number()) for i in range(4)]
    blocks[0] = [*start, *blocks[0]]
    ends: list[tuple[str, ...]] = []
    for place in range(count - 1):
        kind = draw.random()
        target = draw.randrange(1, count)
        forward = draw.randrange(place + 1, count)
        if kind < 0.65:
            deciding, to = predicate(), forward if draw.random() < 0.5 else target
            if to <= place and draw.random() < 0.7:
                # a loop that each thread goes round a few times
                counter = f"%r{draw.randrange(FIXED, REGISTERS - 1)}"
                step, limit = draw.choice([("1", "%r0"), ("1", "%r1"), ("1", "3"), ("32", "128"), ("16", "96"), ("4294967232", "40")])
                if to and draw.random() < 0.5:
                    blocks[to - 1].append(("", "mov", counter, draw.choice(["%r0", "%r1", number()])))
                blocks[place] += [("", "add", counter, counter, step), ("", "setp.lt", deciding, counter, limit)]
                ends.append((draw.choice(["if", "if", "unless"]), deciding, str(to)))
                continue
            if draw.random() < 0.4:
                compared = draw.choice(["setp.lt", "setp.eq"])
                blocks[place].append(("", compared, deciding, CHOICE, str(draw.randrange(4))))
                ends.append((draw.choice(["if", "unless"]), deciding, str(to)))
                continue
            if draw.random() < 0.7:
                blocks[place].append(("", "setp.lt", deciding, read(), draw.choice([register(), number()])))
            ends.append((draw.choice(["if", "unless"]), deciding, str(to)))
        elif kind < 0.8:
            ends.append(("bra", str(forward)))
        elif kind < 0.88:
            ends.append(("exit", predicate()))
        else:
            ends.append(("brx", register(), *[str(draw.randrange(1, count)) for _ in range(draw.choice([2, 4]))]))
    return Program(blocks, [*ends, ("ret",)], shape, is_required)


@attrs.define
class Trace:
    """What a thread did: by instruction of the routine, in which iteration and what it wrote; by block, which way it went on."""

    wrote: dict[tuple[int, int], dict[tuple[int, ...], int]] = attrs.field(factory=lambda: defaultdict(dict))
    went: dict[int, dict[tuple[int, ...], int]] = attrs.field(factory=lambda: defaultdict(dict))
    visits: Counter[int] = attrs.field(factory=Counter)
    executed: Counter[int] = attrs.field(factory=Counter)
    left_early: bool = False
    """Whether it took a way out on which nothing happens, where others did not have to."""
    has_ended: bool = False


class Machine:
    """Runs a program thread by thread."""

    def __init__(self, given: Program, routine: Routine) -> None:
        self.program = given
        self.flow = control_flow(routine)
        self.forest = loops(routine)
        self.routine = routine
        silent = quiet(routine)
        self.noisy = [{successor for successor in block.successors if not silent[successor]} for block in self.flow.blocks]
        self.start = {number: routine.labels[((1,), f"B{number}")] for number in range(len(given.blocks))}

    def run(self, cta: int, thread: int, n: int) -> Trace:
        width, height, _ = self.program.shape
        special = {"%tid.x": thread % width, "%tid.y": thread // width % height, "%laneid": thread % 32, "%ctaid.x": cta}
        held: dict[str, int] = {}
        trace = Trace()
        counters: dict[int, int] = {}
        at, before = 0, -1
        value = lambda text: held[text] if text in held else special[text] if text in special else int(text)  # noqa: E731
        for _ in range(FUEL):
            first = self.start[at]
            i = first
            iteration: tuple[int, ...] = ()
            written: list[tuple[int, int]] = []

            def enter(i: int) -> tuple[int, ...]:
                nonlocal before
                block = self.flow.block_of[i]
                if self.flow.blocks[block].start == i:
                    for loop in self.forest.loops:
                        if block not in loop:
                            continue
                        if before < 0 or before not in loop:
                            counters[loop.index] = 1
                        elif block == loop.header:
                            counters[loop.index] += 1
                    trace.visits[block] += 1
                    trace.left_early |= before >= 0 and bool(self.noisy[before]) and block not in self.noisy[before]
                    before = block
                return tuple(counters[loop.index] for loop in self.forest.loops if block in loop)

            for instruction in self.program.blocks[at]:
                iteration = enter(i)
                guard, operation, *rest = instruction
                if operation == "noise":
                    trace.executed[i] += 1
                    i += 1
                    continue
                target, *rest = rest
                if guard and bool(held[guard.lstrip("@!")]) == ("!" in guard):
                    result = held[target]
                else:
                    trace.executed[i] += 1
                    result = n if operation == "param" else self.compute(operation, list(map(value, rest)))
                held[target] = result & (MASK if target[1] == "r" else 1)
                trace.wrote[i, 0][iteration] = held[target]
                written.append((i, held[target]))
                i += 1
            end = self.program.ends[at]
            if end[0] == "brx":
                iteration = enter(i)
                held["%x"] = value(end[1]) & (len(end) - 3)
                trace.wrote[i, 0][iteration] = held["%x"]
                trace.executed[i] += 1
                i += 1
            iteration = enter(i)
            block = self.flow.block_of[i]
            trace.executed[i] += 1
            if end[0] == "ret":
                trace.has_ended = True
                return trace
            if end[0] == "exit":
                trace.went[block][iteration] = held[end[1]]
                if held[end[1]]:
                    trace.has_ended = True
                    trace.left_early |= bool(self.noisy[block])
                    return trace
                at += 1
            elif end[0] == "bra":
                at = int(end[1])
            elif end[0] == "brx":
                at = int(end[2 + held["%x"]])
                trace.went[block][iteration] = at
            else:
                holds = held[end[1]]
                trace.went[block][iteration] = holds
                at = int(end[2]) if bool(holds) == (end[0] == "if") else at + 1
        return trace

    def compute(self, operation: str, numbers: list[int]) -> int:
        a = numbers[0]
        if operation in ("mov", "opposite"):
            return a if operation == "mov" else 1 - a
        if operation == "selp":
            return numbers[0] if numbers[2] else numbers[1]
        b = numbers[1]
        found = {
            "add": a + b, "sub": a - b, "and": a & b, "xor": a ^ b, "mul": a * b, "shr": a >> min(b, 32),
            "setp.lt": int(a < b), "setp.eq": int(a == b), "both": a & b, "either": a | b,
        }  # fmt: skip
        return found[operation] if operation in found else a << min(b, 32)


def groups(level: Level, count: int) -> list[list[tuple[int, int]]]:
    """The groups of a level, each as its threads: by CTA and place."""
    everyone = list(product(range(CTAS), range(count)))
    if level >= Level.CLUSTER:
        return [everyone]
    size = level.threads or count
    found: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for cta, thread in everyone:
        found[cta, thread // size].append((cta, thread))
    return list(found.values())


def differ(traces: dict[tuple[int, int], Trace], level: Level, count: int, get) -> str | None:  # type: ignore[no-untyped-def]
    """Two threads of a group that differ in something in the same iteration."""
    for group in groups(level, count):
        seen: dict[tuple[int, ...], tuple[int, tuple[int, int]]] = {}
        for who in group:
            for iteration, value in get(traces[who]).items():
                old = seen.setdefault(iteration, (value, who))
                if old[0] != value:
                    return f"{old[1]} has {old[0]}, {who} has {value} in iteration {iteration}"
    return None


def check(given: Program, n: int) -> Counter[str]:
    """Compares every claim with the run; gives how many there were."""
    (routine,) = routines(ptxkit.parse(given.text))
    known = uniformity(routine)
    machine = Machine(given, routine)
    count = given.shape[0] * given.shape[1] * given.shape[2]
    traces = {(cta, thread): machine.run(cta, thread, n) for cta, thread in product(range(CTAS), range(count))}
    counts: Counter[str] = Counter()
    where = lambda what: f"{what}\n{given.text}"  # noqa: E731
    numbering = ssa(routine)
    # what nothing reads in the end has no true value from before, where it may not be written
    read = {number for number, readers in enumerate(numbering.readers) if readers}
    work = list(read)
    while work:
        for operand in numbering.values[work.pop()].operands:
            if operand not in read:
                read.add(operand)
                work.append(operand)
    for number, value in enumerate(numbering.values):
        level = known.level(number)
        if number not in read:
            continue
        if value.instruction >= 0 and level > Level.THREAD:
            wrong = differ(traces, level, count, lambda trace, value=value: trace.wrote[value.instruction, 0])
            assert wrong is None, where(f"instruction {value.instruction} is said to be {level}: {wrong}")
            counts["values"] += 1
    flow = control_flow(routine)
    everyone_ended = all(trace.has_ended for trace in traces.values())
    for block in flow.blocks:
        if block.index not in flow.reachable:
            continue
        verdict = known.branch(block.index)
        wrong = differ(traces, verdict.level, count, lambda trace, block=block: trace.went[block.index])
        assert wrong is None, where(f"the branch of block {block.index} is said to be {verdict.level}: {wrong}")
        counts[f"branches {verdict.level}"] += 1
        check_refuted(known, block.index, given, traces, where)
        if everyone_ended:
            check_points(known, block.index, count, traces, where)
            check_threads(known, block.start, count, traces, where)
            check_threads(known, block.end - 1, count, traces, where)
    return counts


def check_refuted(known: Uniformity, block: int, given: Program, traces: dict[tuple[int, int], Trace], where) -> None:  # type: ignore[no-untyped-def]
    refuted = known.branch(block).refuted
    count = given.shape[0] * given.shape[1] * given.shape[2]
    if refuted is None or refuted.given or max(refuted.one.linear, refuted.other.linear) >= count:
        return
    one, other = (traces[0, thread.linear].went[block] for thread in (refuted.one, refuted.other))
    if not one or not other:
        assert not all(traces[0, thread.linear].has_ended for thread in (refuted.one, refuted.other)), where(f"{block}: {refuted}")
        return
    taken = next(iter(one.values())), next(iter(other.values()))
    guard = known.routine.instructions[refuted.branch].guard
    assert taken == ((0, 1) if guard.negated else (1, 0)), where(f"{block}: {refuted}, but {taken}")


def check_points(known: Uniformity, block: int, count: int, traces: dict[tuple[int, int], Trace], where) -> None:  # type: ignore[no-untyped-def]
    for exits_count in (True, False):
        level = known.block(block, exits_count).level
        for group in groups(level, count):
            visits = {traces[who].visits[block] for who in group if exits_count or not traces[who].left_early}
            assert len(visits) < 2, where(f"block {block} is said to be executed at {level} ({exits_count=}), but {visits}")


def check_threads(known: Uniformity, i: int, count: int, traces: dict[tuple[int, int], Trace], where) -> None:  # type: ignore[no-untyped-def]
    said = known.threads(i)
    came = {thread for cta, thread in traces if cta == 0 and traces[0, thread].executed[i]}
    instruction = known.routine.instructions[i]
    if instruction.guard is not None and instruction.opcode.text in ("bra", "ret"):
        return
    if said is not None:
        wrong = {thread for thread in range(count) if thread in said} ^ came
        assert not wrong, where(f"instruction {i}: {sorted(wrong)} are wrong in {said}")
    sure = {thread for thread in range(count) if thread in known.sure(i)}
    assert sure <= came, where(f"instruction {i}: {sorted(sure - came)} are not sure")


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_what_is_claimed_holds_when_it_is_run(seed: int) -> None:
    draw = random.Random(seed)
    check(program(draw), draw.choice([0, 1, 7, 17, 40]))


def test_claims_are_made() -> None:
    counts: Counter[str] = Counter()
    for seed in range(40):
        draw = random.Random(seed)
        counts += check(program(draw), 17)
    assert counts["values"] > 100
    assert counts["branches cta"] + counts["branches warp"] > 3 and counts["branches grid"] > 100
