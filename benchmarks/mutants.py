"""Mutation test of the protocol rules: one commit, wait, fence or barrier is deleted or weakened at a time, and the rules must see it.

    python benchmarks/mutants.py [--protocol NAME] [--most N] [--each N] [--sample [--every N]] [--busy] [--largest BYTES]
                                 [--budget SECONDS] [--ptxas N] [--record FILE] PATH...

Each kernel of the modules under the paths that has the protocol is mutated at each of its sites, but at most N of each kind of change;
with `--sample` one kernel of each family of files (`drawing.py`). A mutant counts as *reported* if a rule of the protocol's families, or
an execution of the kernel, gives an error or warning that it does not give of the original; as *noted* if it only tells of a place, with
severity info, that it does not tell of in the original; as *harmless* if the analysis has followed all paths and compared all addresses,
for a launch of the shape that the kernel names, and found nothing, or if by the order of instructions alone another of its kind does what
the deleted one did, or if executions show it (`harmless.py`); else it has *survived*, and what kept the analysis from knowing is its
cause. Of `mistakes` (`instruction_mutants.py`), which need not be undefined, executions of any size decide what is not reported:
*harmless*, *defined* if only memory is another in the end, else *survived*. What they do not decide is read by eye: the verdicts are in
`fixtures/unseen/mistakes.tsv`.
`--ptxas N` has ptxas assemble every Nth mutant: one that it refuses is none.
Prints a table by change and by cause; `--record` gets a line of JSON for each mutant.
"""

from __future__ import annotations

import argparse
import csv
import functools
import itertools
import json
import operator
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import instruction_mutants
from apart import first_met, reasons
from drawing import module_of, of_each_family, rank
from harmless import Effect, is_harmless, outcome
from idle_fences import is_never_used, stands_first, unplaced

from ptxkit.analyses.cfg.dataflow import solve, union
from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.paths import comes_to
from ptxkit.analyses.events.effects import Action, Reach, effects, syncs
from ptxkit.analyses.events.mbarriers import may_be_same, uses
from ptxkit.analyses.events.registers_in_flight import Kind
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, select
from ptxkit.analyses.linting.merging import merged
from ptxkit.analyses.linting.running import shown
from ptxkit.analyses.numbers.bits import mask_of
from ptxkit.analyses.protocols.mbarrier.box_bytes import box_bytes
from ptxkit.analyses.protocols.proxy.accesses import MAP_FENCE
from ptxkit.analyses.protocols.proxy.crossings import is_ordered_by
from ptxkit.analyses.protocols.proxy.tensor_maps import fenced_map, is_parameter
from ptxkit.analyses.protocols.tcgen05.tensor_memory import AFTER, BEFORE, FREE, LOADS, MMAS, STORES, Tensor, tensor
from ptxkit.analyses.protocols.wgmma.register_fences import wgmma
from ptxkit.analyses.registers.liveness import liveness
from ptxkit.analyses.registers.registers import registers
from ptxkit.diagnostics import Severity
from ptxkit.isa.binding import Bound
from ptxkit.syntax import constant_value, parse


@attrs.frozen
class Protocol:
    """What is mutated for a protocol, and who must see it."""

    families: tuple[str, ...]
    """Rules that are off by default count if they are named."""
    queues: frozenset[str] = frozenset()
    """Kernels that start operations of these queues have the protocol; their commits and waits are mutated."""
    fences: tuple[str, ...] = ()
    """Instructions with an effect that starts with one of these words are deleted."""
    barriers: Callable[[Routine], set[int]] | None = None
    """The barriers that are deleted."""
    blind: Callable[[Routine, Routine, int], frozenset[str]] | None = None
    """What keeps silence from being a proof, of the original, the mutant, and the instruction that was changed."""
    changes: Callable[[Routine], Iterator[tuple[int, str, str]]] | None = None
    """Changes that are none of these; what they do is told by executions alone, and those that leave all defined are told apart."""


def waited_barriers(routine: Routine) -> set[int]:
    """The barriers of the CTA at which threads wait."""
    return {i for i, sync in syncs(routine).items() if sync.reach is Reach.CTA and sync.waits}


def together(routine: Routine, mutant: Routine, i: int) -> frozenset[str]:
    """Why it may matter to copies that an instruction is gone, or waits for less: touches that it kept apart, or that are not known."""
    queue = next((effect.queue for effect in effects(routine).get(i, ())), "")
    return reasons(routine, mutant, i if len(mutant.instructions) < len(routine.instructions) else -1, queue)


def fenced(routine: Routine, mutant: Routine, i: int) -> frozenset[str]:
    """Why it may matter that a fence of wgmma is gone: an operation uses registers that something else touches since the fence before."""
    of = wgmma(mutant)
    opened = [step for steps in of.steps for step in steps if step.kind is Kind.OPEN] if of is not None else []
    if of is None or effects(routine).get(i):
        return frozenset(("not known",))
    flow, before_any = control_flow(mutant), 1 << len(of.registers)
    shapes = {step.shape for step in opened}
    wrong: set[str] = set()

    def through(block: int, state: int, tells: bool = False) -> int:
        for step in of.steps[block]:
            if step.kind is Kind.FENCE:
                state = 0
            elif step.kind is not Kind.OPEN:
                state |= step.reads | step.writes
            elif tells and (state & before_any or (state & (step.results | step.sources)) or len(shapes) > 1):
                wrong.add("registers")
        return state

    join = functools.partial(functools.reduce, operator.or_)
    states = solve(flow, through, join, lambda block: before_any if block == 0 else None, 0).before
    for block in sorted(flow.reachable):
        through(block, states[block], True)
    return frozenset(wrong)


def unordered(routine: Routine, mutant: Routine, i: int) -> frozenset[str]:
    """Why it may matter that a proxy fence is gone: pairs of touches that it alone ordered, or touches that are not known."""
    bound = bindings(routine)[i]
    if isinstance(bound, Bound) and MAP_FENCE in bound.effects:
        is_known = is_parameter(routine, fenced_map(routine, i)) or is_never_used(routine, i)
        return frozenset() if is_known else frozenset(("map from outside",))
    if stands_first(routine, i):
        return frozenset()
    if ".shared" not in routine.instructions[i].opcode.text:
        return frozenset(("global memory",))
    if is_ordered_by(routine, i, box_bytes):
        return frozenset(("same bytes",))
    return unplaced(mutant)


def idle(routine: Routine, _: Routine, i: int) -> frozenset[str]:
    """Why it may matter that a commit, wait or fence of tensor memory is gone."""
    known = tensor(routine)
    bound = bindings(routine)[i]
    own = {queue: set(known.starts.get(queue, ())) for queue in (LOADS, STORES, MMAS)} if known is not None else {}
    everything = set().union(*own.values())
    if isinstance(bound, Bound) and {BEFORE, AFTER} & set(bound.effects):
        assert known is not None
        forwards = AFTER in bound.effects
        if forwards and not told_of_use(routine, i, everything):
            return frozenset()
        fences = set(known.by_effect[AFTER if forwards else BEFORE])
        # what is used, or was started, on the other side of another fence is that fence's business
        return frozenset(("use in order",)) if first_met(routine, i, everything | fences, forwards) & everything else frozenset()
    effect = effects(routine)[i][0]
    if effect.action is Action.COMMIT:
        named = [use.where for use in uses(routine) if use.instruction == i]
        waits = [use.where for use in uses(routine) if not use.arrives]
        if None in named or any(wait is None or where is None or may_be_same(wait, where) for wait in waits for where in named):
            return frozenset(("other arrivals",))
        return frozenset()
    waits_ = {j for j, found in effects(routine).items() if any(e.queue == effect.queue and e.action is Action.WAIT for e in found)}
    started = first_met(routine, i, own[effect.queue] | waits_, False) & own[effect.queue]
    if effect.queue != LOADS:
        # what nobody comes to use or is told of, nobody misses
        tells = {j for j, sync in syncs(routine).items() if sync.arrives} | set(known.commits if known is not None else ())
        matters = everything | tells | set(known.by_effect.get(FREE, ()) if known is not None else ())
        return frozenset(("stores",)) if started and first_met(routine, i, matters | waits_, True) & matters else frozenset()
    # the original is right: what it reads before the wait was there before the wait
    needed = unread(routine, i) & liveness(routine).after_instruction(i)
    if not started or not needed or is_waited_again(routine, i, needed, waits_):
        return frozenset()
    return frozenset(("loaded registers",))


def is_waited_again(routine: Routine, wait: int, needed: int, waits: set[int]) -> bool:
    """Whether all ways from a wait for loads come to another before anything touches the registers or tensor memory, or anybody is told."""
    known, named = tensor(routine), registers(routine)
    assert known is not None
    touches = {j for j in range(len(routine.instructions)) if needed & (mask_of(named.reads[j]) | mask_of(named.writes[j]))}
    starts = {j for queue in (STORES, MMAS) for j in known.starts.get(queue, ())}
    tells = {j for j, sync in syncs(routine).items() if sync.arrives} | set(known.commits) | set(known.by_effect.get(FREE, ()))
    others = {j for j in waits if routine.instructions[j].guard is None} - {wait}
    return first_met(routine, wait, touches | starts | tells | others, True) <= others


def told_of_use(routine: Routine, fence: int, own: set[int]) -> bool:
    """Whether what a thread has waited for before a fence may tell it of anything that others did with tensor memory.

    A barrier of the CTA behind which all of that lies, on every way, does not: who did it has passed the barrier before.
    """
    tree, flow = dominators(routine).tree, control_flow(routine)

    def is_first(barrier: int) -> bool:
        home = flow.block_of[barrier]
        if routine.instructions[barrier].guard is not None or any(comes_to(routine, i, barrier) for i in own):
            return False
        return all(barrier < i if home == flow.block_of[i] else tree.dominates(home, flow.block_of[i]) for i in own)

    waits = {i: sync for i, sync in syncs(routine).items() if sync.waits and sync.reach >= Reach.MBARRIER and comes_to(routine, i, fence)}
    return any(sync.reach is Reach.MBARRIER or not is_first(i) for i, sync in waits.items())


def unread(routine: Routine, wait: int) -> int:
    """The registers, as bits, that loads from tensor memory may have begun to write before a wait, and that nothing has read since."""
    flow, named = control_flow(routine), registers(routine)
    starts = set((tensor(routine) or Tensor({}, {}, (), False, False)).starts.get(LOADS, ()))
    waits = {i for i, found in effects(routine).items() if any(e.queue == LOADS and e.action is Action.WAIT for e in found)}

    def through(block: int, state: int, end: int = -1) -> int:
        for j in range(flow.blocks[block].start, flow.blocks[block].end):
            if j == end:
                break
            if j in starts:
                state |= mask_of(named.writes[j])
            elif j in waits:
                state = 0
            else:
                state &= ~mask_of(named.reads[j])
        return state

    before = solve(flow, through, union, lambda _: None, 0).before
    block = flow.block_of[wait]
    return through(block, before[block], wait)


PROTOCOLS = {
    "copies": Protocol(("A", "W", "M"), frozenset(("cp.async", "bulk")), (), waited_barriers, together),
    "wgmma": Protocol(("W",), frozenset(("wgmma",)), ("wgmma-fence",), None, fenced),
    "tcgen05": Protocol(
        ("T", "M"),
        frozenset(("tcgen05", "tcgen05.ld", "tcgen05.st")),
        ("tcgen05-before", "tcgen05-after"),
        None,
        idle,
    ),
    "proxies": Protocol(("P", "P004"), frozenset(("bulk", "wgmma", "tcgen05")), ("proxy-fence",), None, unordered),
    "mistakes": Protocol(("B", "C", "F", "G", "R", "S"), changes=instruction_mutants.changes),
}


@attrs.frozen
class Mutant:
    """A module with one thing changed."""

    kernel: str
    change: str
    line: int
    text: str
    statement: str
    instruction: int


EXECUTED = ("S", "G", "M", "A", "W", "P", "T", "R")
"""Families of rules of which executions show the violations that a missing wait, fence or barrier leads to."""


def has_protocol(routine: Routine, protocol: Protocol) -> bool:
    return any(e.queue in protocol.queues and e.action is Action.OPEN for own in effects(routine).values() for e in own)


def changes(routine: Routine, protocol: Protocol) -> Iterator[tuple[int, str, str]]:
    """Instructions of a kernel that has the protocol, with what is done to them and what stands there then."""
    if protocol.changes is not None:
        yield from protocol.changes(routine)
    if not has_protocol(routine, protocol):
        return
    for i, own in sorted(effects(routine).items()):
        for effect in own:
            if effect.queue not in protocol.queues or protocol.fences[:1] == ("proxy-fence",):
                continue
            if effect.action is Action.COMMIT:
                yield i, f"delete a commit of {effect.queue}", ""
            elif effect.action is Action.WAIT:
                yield i, f"delete a wait for {effect.queue}", ""
                counts = [(place, constant_value(operand)) for place, operand in enumerate(routine.instructions[i].operands)]
                for place, value in counts:
                    if isinstance(value, int):
                        yield i, f"let a wait for {effect.queue} have one more pending", _with_operand(routine, i, place, str(value + 1))
    for i, bound in enumerate(bindings(routine)):
        if isinstance(bound, Bound) and any(effect.startswith(word) for effect in bound.effects for word in protocol.fences):
            yield i, "delete a fence", ""
    for i in sorted(protocol.barriers(routine) if protocol.barriers is not None else ()):
        yield i, "delete a barrier", ""


def _with_operand(routine: Routine, i: int, place: int, text: str) -> str:
    operands = [operand.text.strip() for operand in routine.instructions[i].operands]
    operands[place] = text
    return f"{routine.instructions[i].opcode.text} {', '.join(operands)};"


def has_mutants(routine: Routine, protocol: Protocol) -> bool:
    return any(True for _ in changes(routine, protocol))


def chosen(routine: Routine, protocol: Protocol, most: int, each: int) -> Iterator[tuple[int, str, str]]:
    """The changes that are made to a kernel: at most so many of a kind; of mistakes so many in all, drawn by hashes of their places."""
    found = list(changes(routine, protocol))
    if protocol.changes is not None:
        found.sort(key=lambda one: rank(f"{routine.name} {one[0]} {one[1]}"))
    counts: Counter[str] = Counter()
    for i, change, instead in found:
        if counts[change] < most and (protocol.changes is None or counts.total() < each):
            counts[change] += 1
            yield i, change, instead


def mutants(facts: Facts, routine: Routine, protocol: Protocol, most: int, each: int) -> Iterator[Mutant]:
    source = facts.module.text
    for i, change, instead in chosen(routine, protocol, most, each):
        children = routine.instructions[i].children
        first = facts.index.span((*routine.where(i), 0))
        last = facts.index.span((*routine.where(i), len(children) - 1))
        end = source.index(";", last.end) + 1
        # what stands before the instruction, as a guard, goes with it
        text = source[: first.start] + instead + source[end:]
        yield Mutant(routine.name, change, first.line, text, " ".join(source[first.start : end].split()), i)


Said = Counter[tuple[bool, str, str, int]]
"""What rules say: whether it is an error or warning, the rule, the message; of a note, the line."""


def said(facts: Facts, families: tuple[str, ...], kernel: str) -> Said:
    """What the rules, and an execution of the kernel, say of it."""
    rules = select((*families, *EXECUTED))
    found = [one for rule in select(families) for one in rule.check(facts) if one.function == kernel]
    others = frozenset([routine.name for routine in facts.routines]) - {kernel}
    told: Said = Counter()
    for one in merged(rules, found, shown(facts, rules, others)):
        if one.witness is not None and "launch" in one.witness:
            # the same may show at other threads and addresses; one cause may come to explain more lines
            told[one.severity is not Severity.INFO, one.rule, "", 0] += 1 + len(one.related)
            continue
        if one.severity is not Severity.INFO:
            told[True, one.rule, one.message, 0] += 1
            continue
        # of what is usual there is one finding, and a note names the lines
        told[False, one.rule, one.message, one.span.line] += 1
        told.update([(False, one.rule, other.message, other.span.line) for other in one.related])
        told.update([(False, one.rule, "", int(number)) for note in one.notes for number in re.findall(r"\d+", note)])
    return told


READ = Path(__file__).resolve().parent.parent / "fixtures" / "unseen" / "mistakes.tsv"


@functools.cache
def read_by_eye() -> dict[tuple[str, str, int], tuple[str, str]]:
    """Verdicts on mistakes of which executions tell nothing, by name of the file, change and line."""
    with READ.open(encoding="utf-8", newline="") as rows:
        return {
            (row["file"], row["change"], int(row["line"])): (row["verdict"], row["why"]) for row in csv.DictReader(rows, delimiter="\t")
        }


BY_EFFECT = {
    Effect.NONE: ("harmless", "executed"),
    Effect.RESULTS: ("defined", "other results"),
    Effect.UNDEFINED: ("survived", "undefined"),
    Effect.UNKNOWN: ("survived", "not executed"),
}
"""The verdict on a mistake that no rule reports, with the cause."""


def judge(mutant: Mutant, protocol: Protocol, original: Facts, before: Said) -> tuple[str, str]:
    """The verdict on a mutant, and the rules that report it or why none does."""
    facts = Facts(parse(mutant.text, "mutant.ptx"))
    new = said(facts, protocol.families, mutant.kernel) - before
    bad, noted = ({rule for is_bad, rule, _, _ in new if is_bad is wanted} for wanted in (True, False))
    if bad:
        return "reported", " ".join(sorted(bad))
    old, new_ = (next(routine for routine in one.routines if routine.name == mutant.kernel) for one in (original, facts))
    if protocol.changes is not None:
        told = BY_EFFECT[outcome(old, new_, mutant.line)]
        name = Path(str(original.module.path)).name
        return read_by_eye().get((name, mutant.change, mutant.line), told) if told[0] == "survived" else told
    blind = protocol.blind(old, new_, mutant.instruction) if protocol.blind is not None else frozenset(("not known",))
    if not blind:
        return "harmless", "all paths followed"
    if is_harmless(old, new_, mutant.line):
        return "harmless", "executed"
    if noted:
        return "noted", " ".join(sorted(noted))
    return "survived", " ".join(sorted(blind))


def accepted(text: str) -> bool:
    """Whether ptxas takes a module."""
    words = parse(text, "mutant.ptx").targets
    target = next((word for word in words if word.startswith("sm_")), "sm_90")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mutant.ptx"
        path.write_text(text, encoding="utf-8")
        command = ["ptxas", f"-arch={target}", "-O0", "-o", f"{folder}/out", str(path)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def drawn(files: list[Path], protocol: Protocol, every: int) -> Iterator[tuple[Path, Facts, list[Routine]]]:
    """The files with the kernels that are mutated: all, or one of every so many families."""
    if every:
        families = of_each_family(files, protocol.queues or (".entry",), lambda routine: has_mutants(routine, protocol))
        yield from itertools.islice(families, 0, None, every)
        return
    for path in files:
        facts = Facts(module_of(path))
        mine = [routine for routine in facts.routines if has_mutants(routine, protocol)]
        if mine:
            yield path, facts, mine


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("paths", nargs="+", type=Path)
    arguments.add_argument("--protocol", default="copies", choices=sorted(PROTOCOLS))
    arguments.add_argument("--most", type=int, default=6, help="mutants of each kind of change for each kernel")
    arguments.add_argument("--each", type=int, default=4, help="mistakes in each kernel")
    arguments.add_argument("--busy", action="store_true", help="seconds of the processor instead of the clock's, for a busy computer")
    arguments.add_argument("--sample", action="store_true", help="one kernel of each family of files")
    arguments.add_argument("--every", type=int, default=1, help="with --sample, one of this many families")
    arguments.add_argument("--largest", type=int, default=300_000, help="bytes of the largest module")
    arguments.add_argument("--budget", type=float, default=600, help="seconds")
    arguments.add_argument("--ptxas", type=int, default=0, help="have ptxas assemble every Nth mutant")
    arguments.add_argument("--record", type=Path)
    given = arguments.parse_args()
    if given.busy:
        time.perf_counter = time.process_time
    protocol = PROTOCOLS[given.protocol]
    verdicts: Counter[tuple[str, str]] = Counter()
    causes: Counter[tuple[str, str]] = Counter()
    reporters: Counter[str] = Counter()
    refused = total = kernels = 0
    record = given.record.open("w", encoding="utf-8") if given.record else None
    found = [path for root in given.paths for path in (sorted(root.rglob("*.ptx")) if root.is_dir() else [root])]
    files = [path for path in found if path.stat().st_size <= given.largest]
    start = time.monotonic()
    for path, facts, mine in drawn(files, protocol, given.every if given.sample else 0):
        if time.monotonic() - start > given.budget:
            print("out of time before", path)
            break
        kernels += len(mine)
        before = {routine.name: said(facts, protocol.families, routine.name) for routine in mine}
        for mutant in [one for routine in mine for one in mutants(facts, routine, protocol, given.most, given.each)]:
            total += 1
            if given.ptxas and total % given.ptxas == 0 and not accepted(mutant.text):
                refused += 1
                continue
            verdict, why = judge(mutant, protocol, facts, before[mutant.kernel])
            verdicts[mutant.change, verdict] += 1
            if verdict == "survived":
                causes[mutant.change, why] += 1
            if verdict in ("reported", "noted"):
                reporters.update(why.split())
            if record is not None:
                line = {
                    "file": str(path),
                    "kernel": mutant.kernel,
                    "change": mutant.change,
                    "line": mutant.line,
                    "verdict": verdict,
                    "why": why,
                }
                print(json.dumps({**line, "statement": mutant.statement}), file=record, flush=True)
    report(kernels, verdicts, causes, reporters, refused)
    return 0


def report(
    kernels: int, verdicts: Counter[tuple[str, str]], causes: Counter[tuple[str, str]], reporters: Counter[str], refused: int
) -> None:
    print(f"{kernels} kernels with the protocol; {sum(verdicts.values())} mutants, {refused} more that ptxas refuses")
    kinds = ("reported", "noted", "survived", "harmless", "defined")
    print(f"{'':52}" + "".join([f"{kind:>10}" for kind in kinds]) + f"{'reported':>10}{'with notes':>12}")
    names = sorted({change for change, _ in verdicts})
    for name in [*names, "all"]:
        own = {v: sum(n for (c, w), n in verdicts.items() if w == v and name in (c, "all")) for v in kinds}
        open_ = own["reported"] + own["noted"] + own["survived"]
        shares = [f"{100 * part / open_:.1f} %" if open_ else "-" for part in (own["reported"], own["reported"] + own["noted"])]
        print(f"{name:52}" + "".join([f"{own[kind]:>10}" for kind in kinds]) + f"{shares[0]:>10}{shares[1]:>12}")
    print("reported by:", ", ".join(f"{rule} {count}" for rule, count in sorted(reporters.items())))
    for (change, why), count in sorted(causes.items(), key=lambda item: -item[1]):
        print(f"survived {count:5}: {change}: {why}")


if __name__ == "__main__":
    sys.exit(main())
