"""Mutation test of the mbarrier rules and of `ptxkit verify`: one thing in a protocol is deleted or changed, and one of them must see it.

    python benchmarks/protocol_mutants.py [--most N] [--budget SECONDS] [--largest BYTES] [--record FILE] [--lint-only] PATH...

The kernels are those of the modules under the paths that initialize an mbarrier object and wait at one. Mutants: an init, a barrier behind
the inits, an arrival, a wait or an announcement of bytes deleted; a count, a parity, a number of bytes or the length of a ring
changed; at most N of each kind and kernel. The launch for `verify` is that of `launch.toml` for fixtures. For others it is looked for with
the original, as who uses the kernel knows it: the block that the kernel names or else a usual one; the cluster that it names or else a
small one, once or twice where clusters take over the work of others; one number for all parameters but those that are announced as
bytes, and for all that is loaded, or its multiples one after the other; and boxes of tensor maps with which what is announced comes. The
first launch is taken by which the original is verified and which comes to most of the instructions that synchronize, else the one that
comes to more of them than any other. A mutant is reported by `lint` if a rule says something that it does not say of the original, noted
if that is of severity info, and reported by `verify` if it is refuted and the original is not. It counts as harmless if neither reports
it, the launch comes to where it is, all accesses were compared, and `verify` says that it is verified, or has nothing against that but
waits that may come too late in the original as well.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import attrs
from mutants import module_of, said

from ptxkit.analyses.events.barriers import term_of
from ptxkit.analyses.events.steps import Does, steps
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.analyses.framework.rule import Facts
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.simulation.fetches import all_fetches
from ptxkit.analyses.simulation.setting import ANY, CannotLaunch, Setting, Shape, bytes_of_box, declared_cluster, launched
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.verify.verdict import REFUTED, UNDECIDED, VERIFIED, Verdict, verify
from ptxkit.isa.binding import Bound
from ptxkit.syntax import constant_value, parse

ROOT = Path(__file__).resolve().parent.parent
FAMILIES = ("M", "G", "S", "B", "C", "A", "P", "T", "W")
NUMBERS = (1, 2, 64, 8, 256)
BLOCKS = (128, 256, 384, 512, 192, 160, 32)
CLUSTERS = ((1, 1, 1), (2, 1, 1), (4, 1, 1), (1, 2, 1), (2, 2, 1), (8, 1, 1), (2, 4, 1), (4, 4, 1))
BYTES = 1 << 15
"""What parameters are that are announced as bytes."""
BUDGET, LONGEST = 15.0, 45.0
"""Seconds for each launch that is tried, and for all of a kernel."""
LATE = "so late"
ENOUGH, LEAST = 0.98, 0.5
"""Of the instructions that synchronize, the share that a launch comes to that is taken at once, and that is taken before others."""


@attrs.frozen
class Mutant:
    """A module with one thing changed."""

    change: str
    instruction: int
    line: int
    text: str


def kernels(facts: Facts) -> Iterator[Routine]:
    for routine in facts.routines:
        does = {step.does for own in steps(routine).values() for step in own}
        if routine.function.header.is_entry and Does.INIT in does and Does.WAIT in does:
            yield routine


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
            yield i, "delete a barrier behind the inits", ""
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


def launches() -> dict[tuple[str, str], Setting]:
    """The launches of the fixtures, by stem of the file and kernel."""
    found = {}
    for kernel in tomllib.loads((ROOT / "fixtures" / "kernels" / "launch.toml").read_text())["kernel"]:
        parameters, boxes = {}, {}
        for place, argument in enumerate(kernel["args"]):
            name = f"{kernel['entry']}_param_{place}"
            if "scalar" in argument:
                parameters[name] = argument["value"]
            elif "tensormap" in argument:
                boxes[name] = bytes_of_box({"box": argument["box"], "type": argument["tensormap"]}) or 0
            else:
                parameters[name] = 1 << 30 | place << 24
        block, grid, cluster = [tuple(kernel.get(word, (1, 1, 1))) for word in ("block", "grid", "cluster")]
        found[kernel["file"], kernel["entry"]] = Setting(block, grid, cluster, parameters, boxes)
    return found


def likely(routine: Routine) -> Iterator[Setting]:
    """The launches that a kernel may be meant for."""
    said: Shape | None = None
    for directive in routine.function.header.directives:
        if directive.name in (".reqntid", ".maxntid"):
            sizes = [size for one in directive.arguments if isinstance(size := constant_value(one), int)]
            said = tuple([*sizes, 1, 1][:3])  # type: ignore[assignment]
    blocks: list[Shape] = [(threads, 1, 1) for threads in BLOCKS] if said is None or math.prod(said) > 1024 else [said]
    cluster = declared_cluster(routine.module, routine.name)
    requests = any(step.is_request for own in steps(routine).values() for step in own)
    expected = dict.fromkeys(announcements(routine), BYTES)
    for number in NUMBERS:
        for memory in ((number, 0), (0, number)):
            for block in blocks:
                for shape in [cluster] if cluster is not None else CLUSTERS:
                    grid = (shape[0] * (2 if requests else 1), *shape[1:])
                    yield Setting(block, grid, shape, {ANY: number, **expected}, {}, {ANY: memory})


def announcements(routine: Routine) -> Iterator[str]:
    """The parameters, or parts of them, that are announced as bytes as they are."""
    known, numbering = values(routine), ssa(routine)
    work = [step.amount for own in steps(routine).values() for step in own if step.does is Does.EXPECT and step.amount is not None]
    seen = set(work)
    while work:
        at = work.pop()
        if at.operator == "parameter":
            yield f"{at.data[0]}+{at.data[2]}"
        if at.operator == "value":
            fetch = all_fetches(routine).get(numbering.values[at.data[0]].instruction)  # type: ignore[call-overload]
            if fetch is not None and fetch.space == ".param" and fetch.address is not None:
                names = [leaf.data[0] for leaf in fetch.address.leaves() if leaf.operator == "address"]
                place = fetch.positions[fetch.numbers.index(at.data[0])]
                yield from [f"{name}+{fetch.address.linear[0] + place * fetch.unit}" for name in names]
        inner = [*at.args] if at.operator in ("join", "select") else []
        if at.operator == "phi":
            inner = [known.of(number) for number in numbering.values[at.data[0]].operands if number >= 0]  # type: ignore[call-overload]
        work += [one for one in inner if one not in seen]
        seen.update(inner)


def launch_of(routine: Routine, path: Path, text: str, known: dict[tuple[str, str], Setting]) -> tuple[Setting | None, Verdict | None]:
    """The launch of a kernel, and what is decided of it: of a fixture the real one, else one that suits it."""
    setting = known.get((path.name.partition(".")[0], routine.name))
    if setting is not None:
        return setting, decided(text, str(path), routine.name, setting)
    best: tuple[tuple[bool, bool, bool, float, int], Setting, Verdict] | None = None
    end = time.monotonic() + LONGEST
    for one in likely(routine):
        if best is not None and time.monotonic() > end:
            break
        verdict = decided(text, str(path), routine.name, one)
        if verdict is not None and verdict.outcome == UNDECIDED and verdict.boxes:
            one = attrs.evolve(one, boxes=verdict.boxes)
            verdict = decided(text, str(path), routine.name, one)
        if verdict is None:
            continue
        share = verdict.covered[0] / max(verdict.covered[1], 1)
        enough = verdict.outcome == VERIFIED and share >= ENOUGH
        score = (enough, verdict.outcome != REFUTED, verdict.outcome == VERIFIED and share >= LEAST, share, verdict.phases // one.ranks)
        if best is None or score > best[0]:
            best = (score, one, verdict)
        if score[0]:
            break
    return (best[1], best[2]) if best is not None else (None, None)


def decided(text: str, path: str, kernel: str, setting: Setting | None) -> Verdict | None:
    if setting is None:
        return None
    try:
        module = launched(parse(text, path), kernel, setting)
    except (CannotLaunch, KeyError):
        return None
    routine = next(one for one in routines(module) if one.name == kernel)
    return verify(routine, setting, BUDGET)


def examine(path: Path, most: int, known: dict[tuple[str, str], Setting], is_verified: bool) -> Iterator[dict[str, object]]:
    facts = Facts(module_of(path))
    for routine in list(kernels(facts)):
        before = said(facts, FAMILIES, routine.name)
        setting, original = launch_of(routine, path, facts.module.text, known) if is_verified else (None, None)
        come_to = original.come_to if original is not None else frozenset()
        for mutant in mutants(facts, routine, most):
            changed = Facts(parse(mutant.text, str(path)))
            new = said(changed, FAMILIES, routine.name) - before
            verdict = decided(mutant.text, str(path), routine.name, setting)
            refuted = verdict is not None and verdict.outcome == REFUTED and original is not None and original.outcome != REFUTED
            verified = verdict is not None and verdict.has_all_accesses and _says_nothing_new(verdict, original)
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
                "harmless": verified and mutant.instruction in come_to and not new and not refuted,
            }


def _says_nothing_new(verdict: Verdict, original: Verdict | None) -> bool:
    """Whether a mutant is verified, or all that keeps it from that are waits that may come too late in the original as well."""
    if verdict.outcome == VERIFIED:
        return True
    if verdict.outcome != UNDECIDED or original is None or original.outcome != UNDECIDED:
        return False
    told = {one.text for one in verdict.reasons}
    return told <= {one.text for one in original.reasons} and all(LATE in text for text in told)


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
    parser.add_argument("--largest", type=int, default=1_000_000)
    parser.add_argument("--budget", type=float, default=float("inf"))
    parser.add_argument("--record", type=Path)
    parser.add_argument("--lint-only", action="store_true")
    asked = parser.parse_args()
    end = time.monotonic() + asked.budget
    found = [path for given in asked.paths for path in (sorted(given.rglob("*.ptx")) if given.is_dir() else [given])]
    records: list[dict[str, object]] = []
    known = launches()
    for path in found:
        if path.stat().st_size > asked.largest or b"mbarrier.init" not in path.read_bytes():
            continue
        if time.monotonic() > end:
            print(f"stopped before {path}", file=sys.stderr)
            break
        for one in examine(path, asked.most, known, not asked.lint_only):
            records.append(one)
            if asked.record:
                with asked.record.open("a") as lines:
                    lines.write(json.dumps(one) + "\n")
    show(records)


if __name__ == "__main__":
    main()
