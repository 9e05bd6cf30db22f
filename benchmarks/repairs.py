"""Repairs, measured: of the bad twins of pairs, of fixtures with one synchronizing instruction deleted, and their time over lint.

    python benchmarks/repairs.py pairs [--only NAME…] [--record FILE] [FOLDER]
    python benchmarks/repairs.py time [--only NAME…] [--record FILE] [FOLDER]
    python benchmarks/repairs.py corpus --only FILE… [--most N] [--seconds SECONDS] [--record FILE]
    python benchmarks/repairs.py mutants [--most N] [--numbers] [--only NAME…] [--targets …] [--seconds S] [--record FILE] [--keep FOLDER]

`pairs`: a bad twin has a local cure if the good one differs from it in at most three statements, all of them barriers, commits, waits,
fences, uses of mbarriers, numbers that only these read, instructions with a mask of lanes, or collectives that stand elsewhere.
It is offered a repair if `ptxkit repair` leaves no error and no warning that the good twin has not, too. What each text costs is counted
on the machine, in the launch that lint synthesizes, for the thread for which it is most: what synchronizes, as often as it is executed,
with a weight (of a barrier 8; of a wait 8, less one for each of two groups that it leaves in flight; of a fence or commit 2; of the rest
1).

`time`: of each bad twin with one error or warning that is repaired, the time of the processor that `repair` takes, the lint in it and no
compiler, over that of `lint` alone. Each is measured in a process of its own, forked off one that has all modules imported and has
repaired another file, so that neither finds anything of this text in a cache; `warm` is the same in one process that has linted the text.

`mutants`: of the kernel of each launch of `fixtures/kernels/launch.toml` for sm_90a and sm_80 whose results are exact, taken by itself,
one instruction that synchronizes is deleted at a time, at most N of a kind (a test of an mbarrier is answered with yes). Of those of which
lint says more than of the original, a mutant counts as repaired if lint says no more afterwards than of the original, and if the fixture's
own launch leaves the same results under the schedules lockstep, late, early and 1. An offer does harm if that launch ends in a deadlock or
another fault, or gives other results, and the mutant's does not. With `--numbers` mutants have another number instead: a count of arrivals
one more, twice the bytes, one group more in flight. `--keep` writes the texts of what is clean afterwards, before and after, for
`gpu/repaired.py`.

`corpus`: the same of the first kernels of files, in the launches that lint synthesizes.
"""

from __future__ import annotations

import argparse
import difflib
import json
import multiprocessing
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

sys.path.insert(0, str(Path(__file__).resolve().parent / "gpu"))

import ptxkit
from ptxkit.analyses.dynamic.once import once
from ptxkit.analyses.execution.contents import COUNT
from ptxkit.analyses.execution.loading import loaded
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.analyses.inputs.launches import most_operations
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.isa.binding import Bound
from ptxkit.machine.monitoring import Monitor
from ptxkit.rewriters.extract import extract
from ptxkit.rewriters.repairs import repair
from ptxkit.rewriters.repairs.looking import Looking, Seen, usual_rules
from ptxkit.rewriters.repairs.wording import changed, position
from ptxkit.syntax import constant_value, parse

ROOT = Path(__file__).resolve().parent.parent
FAMILIES = "CBAMWTPS"
SCHEDULES: tuple[str | int, ...] = ("lockstep", "late", "early", 1)
MOST_STATEMENTS = 3
T = TypeVar("T")
MOST_KERNELS = 2
"""So many kernels of a file of a corpus."""


def bad(found: Sequence[Diagnostic]) -> Counter[str]:
    """The errors and warnings by rule."""
    return Counter([one.rule for one in found if one.severity is not Severity.INFO])


# --- pairs


def statements(text: str) -> list[tuple[str, Bound | None]]:
    """The instructions of a text with what the table says of them."""
    found = []
    for routine in routines(parse(text)):
        for one, bound in zip(routine.instructions, bindings(routine), strict=True):
            found.append((" ".join(one.body_text.split()), bound if isinstance(bound, Bound) else None))
    return found


def is_local(before: str, after: str) -> bool:
    """Whether a text comes of another by few edits of what synchronizes, or of constants."""
    one, other = statements(before), statements(after)
    matcher = difflib.SequenceMatcher(None, [text for text, _ in one], [text for text, _ in other], autojunk=False)
    changed = []
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag != "equal":
            changed += [*one[a:b], *other[c:d]]
    moved = Counter([text for text, _ in changed])
    if not 0 < len(moved) <= MOST_STATEMENTS:
        return False
    return all(
        bound is not None and (is_cure(bound) or (moved[text] == 2 and bound.converges is not None) or is_number(text, [*one, *other]))
        for text, bound in changed
    )


def is_cure(bound: Bound) -> bool:
    """Whether an instruction is of a kind that repairs put in or change: barriers, commits, waits, fences, mbarriers, masks."""
    if bound.barrier or bound.members is not None or any(one.action in ("commit", "wait", "signal") for one in bound.asynchronous):
        return True
    return any("fence" in effect or "thread-sync" in effect for effect in bound.effects)


def is_number(text: str, among: Sequence[tuple[str, Bound | None]]) -> bool:
    """Whether an instruction gives a constant to a register that only mbarriers read."""
    found = re.fullmatch(r"mov\.[bu]32 (%\w+), \d+;", text)
    if found is None:
        return False
    readers = [
        bound for other, bound in among if other != text and re.search(rf"{found[1]}\b", other.partition(" ")[2].partition(",")[2] or other)
    ]
    return bool(readers) and all(bound is not None and bound.barrier and bound.form.mnemonic == "mbarrier" for bound in readers)


class Prices(Monitor):
    """What all that synchronizes costs in a launch."""

    def __init__(self) -> None:
        self.by_thread: Counter[int] = Counter()

    def instruction(self, lanes: Any, arguments: Any) -> None:
        each = price(lanes.site)
        for thread in lanes.index.tolist():
            self.by_thread[thread] += each

    @property
    def total(self) -> int:
        """What the thread pays that pays most."""
        return max(self.by_thread.values(), default=0)


def price(site: Any) -> int:
    bound: Bound = site.bound
    if any(one.action == "wait" for one in bound.asynchronous):
        left = constant_value(site.instruction.operands[0]) if site.instruction.operands else 0
        return 8 - min(2, left if isinstance(left, int) else 0)
    if any(one.action == "wait" for one in bound.barrier) and bound.form.mnemonic != "mbarrier":
        return 4 if bound.members is not None else 16 if bound.has(".cluster") else 8
    if bound.effects or bound.asynchronous:
        return 2
    return 1


def cost(seen: Seen, example: Any) -> float | None:
    """What a text costs in a launch; None if not all threads run to completion."""
    counting = Prices()
    routine = next(one for one in seen.facts.routines if one.name == example.kernel)
    ran = once(loaded(seen.facts.module), example, COUNT, 4 * most_operations(routine), 20.0, also=(counting,))
    return counting.total if ran.fault is None else None


def pairs(folder: Path, only: Sequence[str]) -> Iterator[dict[str, Any]]:
    rows = [line.split("\t") for line in (folder / "cases.tsv").read_text().splitlines()[1:]]
    looking = Looking(None, usual_rules())
    for name, what, *_ in rows:
        if only and name not in only:
            continue
        texts = {kind: (folder / f"{name}.{kind}.ptx").read_text() for kind in ("bad", "good")}
        seen = looking.at(texts["bad"])
        made = repair(parse(texts["bad"]), compilers=())
        good = looking.at(texts["good"])
        left = bad(made.found) - bad(good.found)
        record: dict[str, Any] = {
            "name": name,
            "class": what.split()[0],
            "local": what[0] in FAMILIES and is_local(texts["bad"], texts["good"]),
            "found": bool(bad(seen.found) - bad(good.found)),
            "findings": sum(bad(seen.found).values()),
            "repairs": [one.fix.message for one in made.repairs],
            "repaired": bool(made.repairs) and not left,
            "left": sorted(left),
        }
        if record["repaired"]:
            example = next(iter(next(iter(seen.examples.values()), ())), None)
            ours = cost(looking.at(made.text), example) if example is not None else None
            theirs = cost(good, example) if example is not None else None
            record["ours"], record["theirs"] = ours, theirs
        yield record


def show_pairs(records: Sequence[dict[str, Any]]) -> None:
    local = [one for one in records if one["local"]]
    offered = [one for one in local if one["repaired"]]
    compared = [one for one in offered if one.get("ours") is not None and one.get("theirs") is not None]
    cheap = [one for one in compared if one["ours"] <= one["theirs"] * 1.001]
    print(f"pairs {len(records)}; with a local cure {len(local)}; of these found {sum(one['found'] for one in local)}")
    print(f"offered: {len(offered)} of {len(local)} ({len(offered) / max(1, len(local)):.1%})")
    print(f"no dearer than the good twin: {len(cheap)} of {len(compared)} whose launches run to completion")
    print("not offered:", ", ".join([one["name"] for one in local if not one["repaired"]]))
    print("dearer:", ", ".join([one["name"] for one in compared if one not in cheap]))
    print("beyond local:", ", ".join([one["name"] for one in records if one["repaired"] and not one["local"]]))


# --- time


def times(folder: Path, only: Sequence[str]) -> Iterator[dict[str, Any]]:
    rows = [line.split("\t") for line in (folder / "cases.tsv").read_text().splitlines()[1:]]
    repair(parse((ROOT / "fixtures" / "repairs" / "row_sum.sm_80.ptx").read_text()), compilers=())
    for name in [name for name, *_ in rows if not only or name in only]:
        text = (folder / f"{name}.bad.ptx").read_text()

        def lint(text: str = text) -> int:
            return sum(bad(ptxkit.lint(text)).values())

        def repairs(text: str = text) -> int:
            return len(repair(parse(text), compilers=()).repairs)

        linting, findings = forked(measured, lint)
        repairing, made = forked(measured, repairs)
        if findings == 1 and made:
            again, repairing_again = forked(afterwards, lint, lint), forked(afterwards, lint, repairs)
            yield {"name": name, "lint": linting, "repair": repairing, "ratio": repairing / linting, "warm": repairing_again / again}


def measured(work: Callable[[], T]) -> tuple[float, T]:
    """The time of the processor that something takes, and what comes of it."""
    begun = time.process_time()
    made = work()
    return time.process_time() - begun, made


def afterwards(first: Callable[[], object], work: Callable[[], object]) -> float:
    """The time of something after something else."""
    first()
    return measured(work)[0]


def forked(work: Callable[..., T], *arguments: object) -> T:
    """What comes of something in a process that is forked off this one."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=lambda: theirs.send(work(*arguments)))
    process.start()
    theirs.close()
    try:
        return cast(T, ours.recv())
    finally:
        process.join()


def show_times(records: Sequence[dict[str, Any]]) -> None:
    for key, says in (("ratio", "nothing known"), ("warm", "the text linted before")):
        ratios = sorted([one[key] for one in records])
        if ratios:
            middle, most = ratios[len(ratios) // 2], ratios[len(ratios) * 9 // 10]
            print(f"time over lint, one finding, {says}: median {middle:.2f}, {most:.2f} at 90 %, {len(ratios)} files")


# --- mutants


def kind_of(bound: Bound) -> str:
    """What an instruction does that others wait for, or who waits; empty if neither."""
    for one in bound.asynchronous:
        if one.action in ("commit", "wait") and one.group != "fabric":
            return f"{one.action} of {one.group}"
    actions = {one.action for one in bound.barrier}
    if bound.form.mnemonic == "mbarrier" and actions:
        return f"{'wait at' if 'wait' in actions else next(iter(sorted(actions)))} mbarrier"
    if "wait" in actions:
        return f"barrier of a {'warp' if bound.members is not None else 'cluster' if bound.has('.cluster') else 'CTA'}"
    return next((effect for effect in bound.effects if "fence" in effect or effect.startswith("tcgen05")), "")


def deletions(routine: Routine, most: int) -> Iterator[tuple[int, str, str]]:
    """Instructions with their kinds, and what stands for each."""
    counts: Counter[str] = Counter()
    for i, bound in enumerate(bindings(routine)):
        kind = kind_of(bound) if isinstance(bound, Bound) else ""
        if not kind:
            continue
        counts[kind] += 1
        if counts[kind] <= most:
            predicate = routine.instructions[i].operands[0].text.strip().partition("|")[0] if kind == "wait at mbarrier" else ""
            yield i, kind, f"setp.eq.u32 {predicate}, 0, 0;" if predicate else ""


NUMBERS: dict[str, tuple[str, Callable[[int], int]]] = {
    "init": ("count", lambda n: n + 1),
    "expect": ("tx", lambda n: 2 * n),
    "wait": ("n", lambda n: n + 1),
}
"""By what an instruction does, which operand gets another number, and which."""


def renumbered(routine: Routine, most: int) -> Iterator[tuple[int, str, str]]:
    """Instructions whose numbers are written there, with what is wrong of each, and what stands for it."""
    counts: Counter[str] = Counter()
    for i, bound in enumerate(bindings(routine)):
        does = [*[one.action for one in bound.barrier], *[one.action for one in bound.asynchronous]] if isinstance(bound, Bound) else []
        for action, (name, other) in NUMBERS.items():
            n = position(bound, name) if action in does and isinstance(bound, Bound) else None
            value = constant_value(routine.instructions[i].operands[n]) if n is not None else None
            if n is not None and isinstance(value, int):
                kind = f"number of {action}"
                counts[kind] += 1
                if counts[kind] <= most:
                    yield i, kind, changed(routine, i, operands={n: str(other(value))})


Results = Callable[[str], tuple[str, list[Any]]]
"""What a text leaves under each schedule, with what went wrong, if anything did."""


def mutants(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Those of the kernels of the fixtures, launched as `launch.toml` has it."""
    import machine_launches
    from plan import fixtures

    looking = Looking(None, usual_rules())
    end = time.monotonic() + options.seconds
    for fixture in sorted(fixtures(targets=options.targets, only=options.only), key=lambda one: len(one.text)):
        for kernel in fixture.kernels:
            if not kernel.get("exact", True):
                continue

            def results(text: str, fixture: Any = fixture, kernel: Any = kernel) -> tuple[str, list[Any]]:
                left = []
                for schedule in SCHEDULES:
                    try:
                        ran = machine_launches.run(fixture, kernel, schedule, text, 20.0)
                    except Exception as error:
                        return f"{type(error).__name__}: {error}"[:120], []
                    left.append([one.data for one in ran if one.compare != "none"])
                return "", left

            whole = extract(parse(fixture.text), kernel=kernel["entry"]).module.text
            yield from of_kernel(looking, whole, (fixture.name, fixture.target, kernel["entry"]), results, options, end)


def corpus(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Those of kernels of files, each in a launch that lint synthesizes and that runs to completion."""
    looking = Looking(None, usual_rules())
    end = time.monotonic() + options.seconds
    for path in options.only:
        module = parse(Path(path).read_text(errors="surrogateescape"), path)
        for entry in [one.name for one in routines(module) if one.function.header.is_entry][:MOST_KERNELS]:
            whole = extract(module, kernel=entry).module.text
            seen = looking.at(whole)
            if entry not in seen.complete:
                continue
            example = seen.examples[entry][-1]

            def results(text: str, example: Any = example) -> tuple[str, list[Any]]:
                left = []
                for schedule in SCHEDULES:
                    try:
                        code = loaded(parse(text))
                        ran = once(code, example, COUNT, 4_000_000, 20.0, schedule, keep=True)
                    except Exception as error:
                        return f"{type(error).__name__}: {error}"[:120], []
                    if ran.fault is not None:
                        return str(ran.fault)[:120], []
                    left.append(ran.memory)
                return "", left

            yield from of_kernel(looking, whole, (Path(path).name, "", entry), results, options, end)


def of_kernel(
    looking: Looking, whole: str, name: tuple[str, str, str], results: Results, options: argparse.Namespace, end: float
) -> Iterator[dict[str, Any]]:
    """The mutants of a kernel, the only one of a module."""
    original = looking.at(whole)
    routine = next((one for one in original.facts.routines if one.name == name[2]), None)
    change = renumbered if options.numbers else deletions
    chosen = list(change(routine, options.most)) if routine is not None else []
    wrong, expected = results(whole) if chosen else ("nothing to delete", [])
    if routine is None or wrong:
        return
    for i, kind, instead in chosen:
        if time.monotonic() > end:
            return
        span = original.facts.index.span(routine.where(i))
        text = whole[: span.start] + instead + whole[span.end :]
        record: dict[str, Any] = dict(zip(("fixture", "target", "kernel"), name, strict=True))
        record.update(kind=kind, line=span.line, deleted=whole[span.start : span.end])
        begun = time.process_time()
        seen = looking.at(text)
        lint = time.process_time() - begun
        if not bad(seen.found) - bad(original.found):
            yield {**record, "reported": False}
            continue
        begun = time.process_time()
        made = repair(parse(text), compilers=())
        seconds = time.process_time() - begun
        fault, left = results(made.text)
        before, theirs = results(text)
        clean = not bad(made.found) - bad(original.found)
        record |= {
            "reported": True,
            "repairs": [one.fix.message for one in made.repairs],
            "clean": clean,
            "equal": not fault and left == expected,
            "repaired": clean and not fault and left == expected,
            "was_right": not before and theirs == expected,
            "harm": bool(made.repairs) and ((bool(fault) and not before) or (theirs == expected and left != expected)),
            "left": sorted(bad(made.found) - bad(original.found)),
            "fault": fault,
            "lint": round(lint, 3),
            "seconds": round(seconds, 3),
        }
        if options.keep is not None and clean:
            stem = f"{'.'.join(name)}.{span.line}{'n' if options.numbers else ''}"
            record["kept"] = stem
            options.keep.mkdir(parents=True, exist_ok=True)
            for which, kept in (("original", whole), ("bad", text), ("good", made.text)):
                (options.keep / f"{stem}.{which}.ptx").write_text(kept, errors="surrogateescape")
        yield record


def show_mutants(records: Sequence[dict[str, Any]]) -> None:
    rows: dict[str, Counter[str]] = {}
    for one in records:
        for key in (one["kind"], "all"):
            row = rows.setdefault(key, Counter())
            row["mutants"] += 1
            row["reported"] += one["reported"]
            for word in ("clean", "repaired", "harm"):
                row[word] += bool(one.get(word))
    print(f"{'':28}{'mutants':>8}{'reported':>9}{'clean':>7}{'repaired':>9}{'harm':>6}")
    for key, row in sorted(rows.items(), key=lambda item: (item[0] == "all", item[0])):
        print(f"{key:28}{row['mutants']:8}{row['reported']:9}{row['clean']:7}{row['repaired']:9}{row['harm']:6}")
    whole = rows.get("all", Counter())
    print(f"repaired: {whole['repaired']} of {whole['reported']} reported ({whole['repaired'] / max(1, whole['reported']):.1%})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["pairs", "time", "mutants", "corpus"])
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT.parent / "shared" / "lint")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--most", type=int, default=1)
    parser.add_argument("--numbers", action="store_true")
    parser.add_argument("--targets", nargs="*", default=["sm_90a", "sm_80"])
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    of_folder = {"pairs": (pairs, show_pairs), "time": (times, show_times)}
    of_options = {"mutants": (mutants, show_mutants), "corpus": (corpus, show_mutants)}
    if options.what in of_folder:
        find, show = of_folder[options.what]
        found = find(options.folder, options.only)
    else:
        find_by, show = of_options[options.what]
        found = find_by(options)
    records = []
    for one in found:
        records.append(one)
        if options.record is not None:
            with options.record.open("a") as lines:
                lines.write(json.dumps(one) + "\n")
    show(records)


if __name__ == "__main__":
    main()
