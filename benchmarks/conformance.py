"""How well `ptxkit check` agrees with ptxas, on the reference sets beside the checkout.

    python benchmarks/conformance.py [--shared FOLDER] [--show N] [--only accept|reject|corpus|requires|sections|time]

Prints: accepted modules without an error; rejected modules with one, by class and on ptxas's line; corpus files with an error and
instructions bound to no form or to several; `requires` against the measured minimum versions and targets; sections of the manual with
syntax but without a form; the time of `check` over that of `parse`, and what the table adds to start-up.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ptxkit.analyses import Facts
from ptxkit.analyses.framework.linting import lint
from ptxkit.analyses.framework.rule import Rule, select
from ptxkit.checking import Binder, bounds
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.files import decode
from ptxkit.isa.binding import Bound, bind_all
from ptxkit.isa.mismatch import Mismatch
from ptxkit.isa.requirements import Requirement
from ptxkit.isa.table import all_forms
from ptxkit.isa.targets import parse_version
from ptxkit.memo import KEPT
from ptxkit.names import resolve
from ptxkit.requirement import module_needs
from ptxkit.syntax import Module, parse

HERE = Path(__file__).resolve().parent.parent


def rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)


def module_of(path: Path) -> Module:
    return parse(decode(path.read_bytes()), str(path))


def check_rules() -> tuple[Rule, ...]:
    return tuple(rule for rule in select(["E", "V"]) if rule.severity is Severity.ERROR)


def errors(path: Path) -> list[Diagnostic]:
    return [diagnostic for diagnostic in lint(module_of(path), check_rules()) if diagnostic.severity is Severity.ERROR]


def accept(shared: Path, show: int) -> None:
    wrong = total = 0
    for row in rows(shared / "conformance" / "accept.tsv"):
        total += 1
        found = errors(shared / "conformance" / "accept" / row["file"])
        if found:
            wrong += 1
            if wrong <= show:
                print(f"  {row['file']}: {found[0].rule} {found[0].message} | {row['statement'][:100]}")
    print(f"accepted modules without an error: {100 * (total - wrong) / total:.2f} % ({total - wrong} of {total})")


def reject(shared: Path, show: int) -> None:
    totals: Counter[str] = Counter()
    hits: Counter[str] = Counter()
    on_line = 0
    for row in rows(shared / "conformance" / "reject.tsv"):
        totals[row["class"]] += 1
        found = errors(shared / "conformance" / "reject" / row["file"])
        line = re.search(r"line (\d+)", row["first_error"])
        if found:
            hits[row["class"]] += 1
            on_line += line is None or any(diagnostic.span.line == int(line[1]) for diagnostic in found)
        elif totals[row["class"]] - hits[row["class"]] <= show:
            print(f"  missed {row['file']}: {row['mistake']} | {row['first_error'][:100]}")
    for kind, total in totals.items():
        print(f"  {kind:14} {100 * hits[kind] / total:6.2f} % ({hits[kind]} of {total})")
    print(f"rejected modules with an error: {100 * hits.total() / totals.total():.2f} % ({hits.total()} of {totals.total()})")
    print(f"  of these, one on ptxas's line: {100 * on_line / hits.total():.2f} %")


def corpus(shared: Path, show: int) -> None:
    files = with_error = instructions = unbound = several = 0
    for path in sorted((shared / "corpus").rglob("*.ptx")):
        files += 1
        module = module_of(path)
        found = [diagnostic for diagnostic in lint(module, check_rules()) if diagnostic.severity is Severity.ERROR]
        with_error += bool(found)
        if found and with_error <= show:
            print(f"  {path.name}:{found[0].span.line}: {found[0].rule} {found[0].message}")
        binder = Binder(module, resolve(module), None, None)
        seen: dict[Bound | Mismatch, int] = {}
        for site, shaper in binder.sites():
            instructions += 1
            bound = binder.bound(site.instruction, shaper)
            count = seen.get(bound)
            if count is None:
                shapes = binder.shapes(site.instruction, shaper)
                count = len(bind_all(site.instruction.opcode.text, shapes)) if isinstance(bound, Bound) else 0
                seen[bound] = count
            unbound += count == 0
            several += count > 1
            if count != 1 and unbound + several <= show:
                print(f"  {path.name}: {count} forms for {site.instruction.body_text}")
    print(f"corpus files with an error: {with_error} of {files}")
    print(f"instructions of the corpus: {instructions}; of no form {unbound}, of several {several}")


def requires(shared: Path, show: int) -> None:
    right = total = 0
    for row in rows(shared / "spec" / "measured.tsv"):
        path = shared / "conformance" / "accept" / row["file"]
        statement = row["statement"]
        # without the module, the statement alone: what its names are is then unknown, which hinders no binding
        module = module_of(path) if path.is_file() else parse(statement if ".version" in statement else f".entry k() {{ {statement} }}")
        total += 1
        needed = module_needs(module)
        base, specific = row["min_base_target"], row["specific_targets_accepting"].split()
        if agrees(needed, base, specific, row["min_version_at_that_target"]):
            right += 1
        elif total - right <= show:
            measured = f"{base or ' '.join(specific)} {row['min_version_at_that_target']}"
            print(f"  {row['file']}: {needed}; measured {measured} | {row['statement'][:80]}")
    print(f"requires equal to the measured minimum: {100 * right / total:.2f} % ({right} of {total})")


def agrees(needed: Requirement, base: str, specific: list[str], version: str) -> bool:
    """Whether a requirement is the measured one; what the measuring assembler cannot tell apart (below sm_20 and 2.3) counts as equal."""
    least = needed.alternatives()
    if not least:
        return False
    target = base or (specific[0] if specific else "")
    if not target:
        return True
    ours = [one for one in least if not one.target.endswith(("a", "f"))]
    if base:
        number = int(re.sub(r"\D", "", base))
        if not ours or max(20, int(ours[0].target[3:])) != max(20, number):
            return False
        wanted = needed.version_for(base)
    else:
        if ours:
            return False
        accepted = {name for name in specific if needed.version_for(name) is not None}
        if accepted != set(specific):
            return False
        wanted = needed.version_for(target)
    if not version:
        return True
    return wanted is not None and max(wanted, (2, 3)) == max(parse_version(version), (2, 3))


def sections(shared: Path, show: int) -> None:
    declared = set(re.findall(r"[0-9][0-9.]*[0-9]", " ".join(form.section for form in all_forms())))
    missing = []
    for section in json.loads((shared / "spec" / "instructions.json").read_text()):
        number = section["section"]
        is_guard = number in ("9.7.13.1", "9.7.13.2")  # `{}` and `@p` stand around and before instructions, they are none
        if number.startswith("9.7") and section.get("syntax") and not is_guard and number not in declared:
            missing.append(f"{number} {section['title']}")
    for one in missing[:show]:
        print(f"  {one}")
    print(f"sections of the manual with syntax but without a form: {len(missing)}")


def timing(shared: Path, show: int) -> None:
    """The best of four rounds, each with a tree of its own. Nothing that a round made is freed before the last."""
    ratios: list[tuple[float, str]] = []
    rules = check_rules()
    for path in sorted((shared / "corpus").rglob("*.ptx")):
        if path.stat().st_size < 100_000:
            continue
        text = decode(path.read_bytes())
        for _ in range(KEPT):
            lint(parse(".version 8.0 .target sm_80 .entry k() { ret; }"), rules)  # the caches forget the file before
        parse_time = check_time = float("inf")
        made = []
        for _ in range(4):
            start = time.process_time()
            module = parse(text)
            parse_time = min(parse_time, time.process_time() - start)
            facts = Facts(module)
            start = time.process_time()
            lint(module, rules, facts=facts)
            check_time = min(check_time, time.process_time() - start)
            made.append((facts, bounds(facts.names)))
        ratios.append((check_time / parse_time, path.name))
    middle, (worst, name) = statistics.median([ratio for ratio, _ in ratios]), max(ratios)
    print(f"check over parse, {len(ratios)} files of at least 100 kB: median {middle:.2f}, worst {worst:.2f} ({name})")
    for ratio, name in sorted(ratios)[: -1 - show : -1]:
        print(f"  {ratio:.2f} {name}")
    ten = [
        "add.f32",
        "mul.f32",
        "ld.global.u32",
        "st.global.u32",
        "mov.u32",
        "setp.eq.s32",
        "shl.b32",
        "cvt.u64.u32",
        "bar.sync",
        "and.b32",
    ]
    program = (
        "import time\n"
        "start = time.perf_counter()\n"
        "import ptxkit.isa.binding as b, ptxkit.isa.shapes as s\n"
        f"for opcode in {ten!r}: b.bind(opcode, (s.UNKNOWN, s.UNKNOWN, s.UNKNOWN))\n"
        "print(time.perf_counter() - start)"
    )
    command = [sys.executable, "-c", program]
    times = [float(subprocess.run(command, capture_output=True, text=True, check=True, cwd=HERE).stdout) for _ in range(5)]
    print(f"table for a file of ten opcodes: {1000 * min(times):.0f} ms")


PARTS = {"accept": accept, "reject": reject, "requires": requires, "sections": sections, "time": timing, "corpus": corpus}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--shared", type=Path, default=HERE.parent / "shared")
    arguments.add_argument("--show", type=int, default=5, help="how many of each kind of disagreement to show")
    arguments.add_argument("--only", choices=PARTS)
    options = arguments.parse_args()
    if not options.shared.is_dir():
        sys.exit(f"{options.shared} is not there: the reference sets are not part of this project")
    for name, part in PARTS.items():
        if options.only in (None, name):
            part(options.shared, options.show)


if __name__ == "__main__":
    main()
