"""Mutation test of the mbarrier rules and of `ptxkit verify`: one thing in a protocol is deleted or changed, and one of them must see it.

    python benchmarks/protocol_mutants.py [--most N] [--sample] [--busy] [--budget SECONDS] [--largest BYTES] [--record FILE] [--lint-only]
                                          PATH...

The kernels are those of the modules under the paths that initialize an mbarrier object and wait at one; with `--sample` one of each
family of files (`drawing.py`). Mutants: an init, a barrier behind the inits, an arrival, a wait or an announcement of bytes deleted; a
count, a parity, a number of bytes or the length of a ring changed; at most N of each kind and kernel. The launch for `verify` is that of
`launch.toml` for fixtures, for others one that is synthesized. A mutant is reported by `lint` if a rule says something that it does not
say of the original, noted if that is of severity info, and reported by `verify` if it is refuted and the original is not. It counts as
harmless if neither reports it and `verify` says that it is verified, or if no rule reports it and executions show that it is
(`harmless.py`).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import attrs
from apart import is_done_elsewhere
from drawing import module_of, of_each_family
from harmless import is_harmless
from mutants import said

from ptxkit.analyses.events.barriers import term_of
from ptxkit.analyses.events.steps import Does, steps
from ptxkit.analyses.execution.launch import Launch
from ptxkit.analyses.execution.loading import loaded
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.analyses.framework.rule import Facts
from ptxkit.analyses.inputs.launches import example
from ptxkit.analyses.inputs.shapes import shapes
from ptxkit.analyses.verify.verdict import REFUTED, VERIFIED, Verdict, verify
from ptxkit.cli._launching import of_description
from ptxkit.isa.binding import Bound
from ptxkit.machine import Fault
from ptxkit.rewriters.profiling.description import read
from ptxkit.syntax import constant_value, parse

ROOT = Path(__file__).resolve().parent.parent
FAMILIES = ("M", "G", "S", "B", "C", "A", "P", "T", "W")
BARRIER = "delete a barrier behind the inits"
BUDGET = 15.0
"""Seconds for each launch."""


@attrs.frozen
class Mutant:
    """A module with one thing changed."""

    change: str
    instruction: int
    line: int
    text: str


def has_mbarriers(routine: Routine) -> bool:
    does = {step.does for own in steps(routine).values() for step in own}
    return routine.function.header.is_entry and Does.INIT in does and Does.WAIT in does


def drawn(files: list[Path], is_sample: bool) -> Iterator[tuple[Path, Facts, list[Routine]]]:
    """The files with the kernels that are mutated."""
    if is_sample:
        yield from of_each_family(files, ("mbarrier.init",), has_mbarriers)
        return
    for path in files:
        if b"mbarrier.init" in path.read_bytes():
            facts = Facts(module_of(path))
            yield path, facts, [routine for routine in facts.routines if has_mbarriers(routine)]


def changes(routine: Routine) -> Iterator[tuple[int, str, str]]:
    """Instructions with what is done to them and what stands there then; `%s` is the instruction itself."""
    own = steps(routine)
    inits = [i for i, found in own.items() if any(step.does is Does.INIT for step in found)]
    for i, found in own.items():
        does = {step.does for step in found}
        if Does.INIT in does:
            yield i, "delete an init", ""
            yield from _changed(routine, i, "count", "add.u32", "change a count")
        elif Does.WAIT in does:
            place = next(iter(routine.instructions[i].operands))
            guard = _guard(routine, i)
            yield i, "delete a wait", f"{guard}setp.eq.u32 {place.text.strip().split('|')[0]}, 0, 0;"
            yield from _changed(routine, i, "parity", "xor.b32", "change a parity")
        elif Does.EXPECT in does:
            yield from _changed(routine, i, "tx", "add.u32", "change a number of bytes", 16)
            operands = [operand.text.strip() for operand in routine.instructions[i].operands]
            opcode = routine.instructions[i].opcode.text
            arrives = Does.ARRIVE in does
            instead = f"{_guard(routine, i)}{opcode.replace('.expect_tx', '')} {', '.join(operands[:-1])};" if arrives else ""
            yield i, "delete an announcement of bytes", instead
        elif Does.ARRIVE in does:
            yield i, "delete an arrival", ""
        elif does & {Does.BARRIER_SYNC, Does.CLUSTER_WAIT} and inits and inits[-1] < i < inits[-1] + 60:
            yield i, BARRIER, ""
    yield from _rings(routine)


def _guard(routine: Routine, i: int) -> str:
    guard = routine.instructions[i].guard
    return f"{guard.text.strip()} " if guard is not None else ""


def _changed(routine: Routine, i: int, name: str, opcode: str, change: str, by: int = 1) -> Iterator[tuple[int, str, str]]:
    """The instruction with another number in an operand."""
    bound = bindings(routine)[i]
    operand = bound.operand(name) if isinstance(bound, Bound) else None
    if operand is None:
        return
    instruction = routine.instructions[i]
    texts = [one.text.strip() for one in instruction.operands]
    place = operand.path[0]
    value = constant_value(instruction.operands[place])
    if isinstance(value, int):
        texts[place] = str(value ^ 1 if opcode.startswith("xor") else value + by)
        yield i, change, f"{_guard(routine, i)}{instruction.opcode.text} {', '.join(texts)};"
        return
    term = term_of(routine, i, operand)
    kind = "b32" if term is None or term.width == 32 else f"b{term.width}"
    before = texts[place]
    texts[place] = "%mutant"
    body = f"{_guard(routine, i)}{instruction.opcode.text} {', '.join(texts)};"
    opcode = f"{opcode.partition('.')[0]}.{'b' if opcode.startswith('xor') else 'u'}{kind[1:]}"
    yield i, change, f"{{ .reg .{kind} %mutant; {opcode} %mutant, {before}, {by}; {body} }}"


def _rings(routine: Routine) -> Iterator[tuple[int, str, str]]:
    """Comparisons by which the number of a stage comes round: where it is equal to a number, 0 is chosen."""
    for i, instruction in enumerate(routine.instructions):
        if not instruction.opcode.text.startswith(("setp.eq.", "setp.ne.")) or "32" not in instruction.opcode.text:
            continue
        texts = [one.text.strip() for one in instruction.operands]
        length = constant_value(instruction.operands[-1])
        if not isinstance(length, int) or not 2 <= length <= 12:
            continue
        for other in routine.instructions[i + 1 : i + 16]:
            operands = [one.text.strip() for one in other.operands]
            if other.opcode.text.startswith("selp") and operands[-1] == texts[0] and "0" in operands[1:3] and texts[1] in operands[1:3]:
                yield i, "change the length of a ring", f"{instruction.opcode.text} {', '.join(texts[:-1])}, {length + 1};"
                break


def mutants(facts: Facts, routine: Routine, most: int) -> Iterator[Mutant]:
    source = facts.module.text
    counts: Counter[str] = Counter()
    for i, change, instead in changes(routine):
        if counts[change] >= most:
            continue
        counts[change] += 1
        children = routine.instructions[i].children
        first = facts.index.span((*routine.where(i), 0))
        last = facts.index.span((*routine.where(i), len(children) - 1))
        end = source.index(";", last.end) + 1
        yield Mutant(change, i, first.line, source[: first.start] + instead + source[end:])


def launches() -> dict[tuple[str, str], Launch]:
    """The launches of the fixtures, by stem of the file and kernel."""
    found = {}
    for path in sorted((ROOT / "fixtures" / "kernels").glob("*.sm_90a.ptx")):
        own = {one.name: one for one in routines(parse(path.read_text(encoding="utf-8"), str(path)))}
        for described in read(str(ROOT / "fixtures" / "kernels" / "launch.toml")):
            if described.is_for(str(path)) and described.kernel in own:
                found[path.name.partition(".")[0], described.kernel] = of_description(own[described.kernel], described)
    return found


def launch_of(routine: Routine, path: Path, known: dict[tuple[str, str], Launch]) -> Launch:
    """The launch of a kernel: of a fixture the real one, else one that is synthesized."""
    found = known.get((path.name.partition(".")[0], routine.name))
    return found if found is not None else example(routine, shapes(routine)[0]).launch


def decided(text: str, path: str, kernel: str, launch: Launch) -> Verdict | None:
    """The verdict on a kernel; None if it cannot be launched."""
    try:
        module = parse(text, path)
        return verify(loaded(module), launch, [str(i) for i in range(len(launch.arguments))], BUDGET)
    except (ValueError, TypeError, Fault):
        return None


def is_made_up_for(routine: Routine, mutant: Mutant) -> bool:
    """Whether another barrier does what a deleted one did, by the order of instructions alone."""
    return mutant.change == BARRIER and is_done_elsewhere(routine, mutant.instruction)


def examine(
    path: Path, facts: Facts, kernels: list[Routine], most: int, known: dict[tuple[str, str], Launch], is_verified: bool
) -> Iterator[dict[str, object]]:
    for routine in kernels:
        before = said(facts, FAMILIES, routine.name)
        launch = launch_of(routine, path, known) if is_verified else None
        original = decided(facts.module.text, str(path), routine.name, launch) if launch is not None else None
        for mutant in mutants(facts, routine, most):
            changed = Facts(parse(mutant.text, str(path)))
            new = said(changed, FAMILIES, routine.name) - before
            is_reported = any(is_warned for is_warned, *_ in new)
            other = next(one for one in changed.routines if one.name == routine.name)
            verdict = decided(mutant.text, str(path), routine.name, launch) if launch is not None else None
            refuted = verdict is not None and verdict.outcome == REFUTED and original is not None and original.outcome != REFUTED
            yield {
                "path": str(path),
                "kernel": routine.name,
                "change": mutant.change,
                "line": mutant.line,
                "rules": sorted({rule for is_warned, rule, _, _ in new if is_warned}),
                "noted": sorted({rule for is_warned, rule, _, _ in new if not is_warned}),
                "original": original.outcome if original is not None else "none",
                "verdict": verdict.outcome if verdict is not None else "none",
                "why": verdict.reasons[0].text if verdict is not None and verdict.reasons else "",
                "refuted": refuted,
                "harmless": (verdict is not None and verdict.outcome == VERIFIED and not new)
                or (not is_reported and (is_made_up_for(routine, mutant) or is_harmless(routine, other, mutant.line))),
            }


def show(records: list[dict[str, object]]) -> None:
    rows: dict[str, Counter[str]] = {}
    for one in records:
        for key in (str(one["change"]), "all"):
            row = rows.setdefault(key, Counter())
            row["mutants"] += 1
            row["harmless"] += bool(one["harmless"])
            row["lint"] += bool(one["rules"])
            row["noted"] += bool(one["rules"] or one["noted"])
            row["either"] += bool(one["rules"] or one["refuted"])
    print(f"{'':36}{'mutants':>8}{'harmless':>9}{'lint':>6}{'noted':>6}{'or verify':>10}")
    for key, row in sorted(rows.items(), key=lambda item: (item[0] == "all", item[0])):
        rest = row["mutants"] - row["harmless"]
        share = "".join([f"{100 * row[what] / rest:5.0f}%" for what in ("lint", "noted", "either")]) if rest else ""
        print(f"{key:36}{row['mutants']:8}{row['harmless']:9}{row['lint']:6}{row['noted']:6}{row['either']:10}  {share}")
    print("of those that are not harmless; kernels:", len({(one["path"], one["kernel"]) for one in records}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--most", type=int, default=1)
    parser.add_argument("--busy", action="store_true", help="seconds of the processor instead of the clock's, for a busy computer")
    parser.add_argument("--sample", action="store_true", help="one kernel of each family of files")
    parser.add_argument("--largest", type=int, default=1_000_000)
    parser.add_argument("--budget", type=float, default=float("inf"))
    parser.add_argument("--record", type=Path)
    parser.add_argument("--lint-only", action="store_true")
    asked = parser.parse_args()
    if asked.busy:
        time.perf_counter = time.process_time
    end = time.monotonic() + asked.budget
    found = [path for given in asked.paths for path in (sorted(given.rglob("*.ptx")) if given.is_dir() else [given])]
    records: list[dict[str, object]] = []
    known = launches()
    files = [path for path in found if path.stat().st_size <= asked.largest]
    for path, facts, kernels in drawn(files, asked.sample):
        if time.monotonic() > end:
            print(f"stopped before {path}", file=sys.stderr)
            break
        for one in examine(path, facts, kernels, asked.most, known, not asked.lint_only):
            records.append(one)
            if asked.record:
                with asked.record.open("a") as lines:
                    lines.write(json.dumps(one) + "\n")
    show(records)


if __name__ == "__main__":
    main()
