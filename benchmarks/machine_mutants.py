"""Fixtures without one of their waits, fences or barriers, on the machine: do the monitors, or any schedule, show it?

    python benchmarks/machine_mutants.py [--most N] [--only NAME…] [--seconds SECONDS] [--json FILE] [--busy]

Each launch of `fixtures/kernels/launch.toml` for sm_90a whose output is exact is run as it is; then one instruction is taken away at a time
(an mbarrier's test is answered with yes), and the launch is run under all checks lockstep, late, early, and with ten seeds, until a monitor
finds something, an output differs, or there is a fault. With `--no-checks` only by outputs. What the launch does not execute is not
counted.

What shows nothing is *harmless in this launch* if every run of it was complete, nothing was found in any, and every output is that of the
original. If nothing in it depends on an order either (no operation in flight, no atomic, no wait at an mbarrier, no strong read), one run
is a proof: happens-before orders every two accesses that conflict, by barriers alone, so that any other schedule gives the same (8.10).
Else it holds for the schedules that were run. `--busy`: seconds are those of the processor.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "gpu"))

import machine_launches
from plan import Fixture, fixtures

from ptxkit.analyses.execution.observing import Observer
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts
from ptxkit.isa.binding import Bound
from ptxkit.machine import Fault
from ptxkit.machine.monitoring import Monitor
from ptxkit.syntax import parse

ORDERED, ALL_SCHEDULES = "harmless: whatever the order", "harmless: under all schedules that were run"
SCHEDULES: tuple[str | int, ...] = ("lockstep", "late", "early", *range(1, 11))
BUDGET = 20.0


class Executed(Monitor):
    """The lines of what has been executed."""

    def begin(self, launch: Any) -> None:
        self.launch = launch
        self.lines: set[int] = set()

    def instruction(self, lanes: Any, arguments: Any) -> None:
        self.lines.add(self.launch.span(lanes.site).line)


def kind_of(bound: Bound) -> str:
    """What kind of wait, fence or barrier an instruction is; empty if it is none."""
    waits = [one.group for one in bound.asynchronous if one.action == "wait"]
    if waits:
        return f"wait for {waits[0]}"
    actions = {one.action for one in bound.barrier}
    if "wait" in actions:
        if bound.form.mnemonic == "mbarrier":
            return "wait at an mbarrier"
        return (
            "barrier of a warp"
            if ".warp" in bound.modifiers
            else "barrier of a cluster"
            if ".cluster" in bound.modifiers
            else "barrier of a CTA"
        )
    fences = [effect for effect in bound.effects if "fence" in effect]
    return (
        {"fence": "fence of memory", "wgmma-fence": "fence of wgmma", "init-fence": "fence of mbarrier.init"}.get(fences[0], f"{fences[0]}")
        if fences
        else ""
    )


def sites(routine: Routine) -> Iterator[tuple[int, str, str]]:
    """The instructions that may be taken away: number, kind, and what is put in their place."""
    for i, bound in enumerate(bindings(routine)):
        kind = kind_of(bound) if isinstance(bound, Bound) else ""
        if not kind:
            continue
        instead = ""
        if kind == "wait at an mbarrier":
            predicate = routine.instructions[i].operands[0].text.strip()
            instead = f"setp.eq.u32 {predicate}, 0, 0;"
        elif kind == "barrier of a cluster":
            # its arrival stays: a wait for it is missing
            instead = ""
        yield i, kind, instead


def without(facts: Facts, routine: Routine, i: int, instead: str) -> str:
    """The text with an instruction replaced."""
    source = facts.module.text
    children = routine.instructions[i].children
    first = facts.index.span((*routine.where(i), 0))
    last = facts.index.span((*routine.where(i), len(children) - 1))
    end = source.index(";", last.end) + 1
    return source[: first.start] + instead + source[end:]


def shown(fixture: Fixture, kernel: dict[str, Any], text: str, expected: list[Any], checks: bool) -> tuple[str, str]:
    """Under which schedule it is seen first, and how. Under none: empty, and how it is known to be harmless; empty if it is not."""
    depends = is_cut = False
    for schedule in SCHEDULES:
        name, observer = f"checks, {schedule}" if checks else str(schedule), Observer()
        try:
            found, findings = machine_launches.watched(fixture, kernel, schedule, text, BUDGET, "all" if checks else (), [observer])
        except Fault as fault:
            if fault.kind == "budget" and not any(one.diagnostic.severity.value == "error" for one in fault.findings):
                is_cut = True
                continue
            return name, f"{fault.kind}: {fault.reason}"[:200]
        except Exception as error:
            return name, f"{type(error).__name__}: {error}"[:200]
        wrong = [finding.diagnostic for finding in findings if finding.diagnostic.severity.value != "info"]
        if wrong:
            return name, f"{wrong[0].rule}: {wrong[0].message}"[:200]
        if any(a.data != b.data and a.compare != "none" for a, b in zip(expected, found, strict=True)):
            return str(schedule), "output differs"
        depends |= observer.depends_on_order
    if is_cut or not checks:
        return "", ""
    return "", ALL_SCHEDULES if depends else ORDERED


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--most", type=int, default=6, help="of each kind in a kernel")
    arguments.add_argument("--only", nargs="*", default=[])
    arguments.add_argument("--seconds", type=float, default=1e9)
    arguments.add_argument("--json", type=Path)
    arguments.add_argument("--no-checks", action="store_true", help="by outputs and faults only")
    arguments.add_argument("--busy", action="store_true", help="seconds of the processor instead of the clock's")
    options = arguments.parse_args()
    if options.busy:
        time.perf_counter = time.process_time
    begun = time.monotonic()
    totals: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    by_schedule: Counter[str] = Counter()
    harmless: Counter[str] = Counter()
    records = []
    unexecuted = 0
    for fixture in fixtures(targets=("sm_90a",), only=options.only):
        facts = Facts(parse(fixture.text))
        for kernel in fixture.kernels:
            if not kernel.get("exact", True) or time.monotonic() - begun > options.seconds:
                continue
            routine = next((one for one in facts.routines if one.name == kernel["entry"]), None)
            found = list(sites(routine)) if routine is not None else []
            if routine is None or not found:
                continue
            try:
                expected = machine_launches.run(fixture, kernel)
            except Exception as error:
                print(f"  not run: {fixture.name} {kernel['entry']}: {error}")
                continue
            executed = Executed()
            machine_launches.watched(fixture, kernel, "lockstep", None, BUDGET, (), [executed])
            taken: Counter[str] = Counter()
            for i, kind, instead in found:
                line = facts.index.span((*routine.where(i), 0)).line
                if line not in executed.lines:
                    unexecuted += 1
                    continue
                taken[kind] += 1
                if taken[kind] > options.most:
                    continue
                schedule, how = shown(fixture, kernel, without(facts, routine, i, instead), expected, not options.no_checks)
                totals[kind] += 1
                seen[kind] += bool(schedule)
                by_schedule[schedule or "none"] += 1
                records.append(
                    {"fixture": fixture.name, "kernel": kernel["entry"], "line": line, "kind": kind, "schedule": schedule, "how": how}
                )
                if not schedule:
                    harmless[how] += 1
                    print(f"  not seen: {fixture.name} {kernel['entry']} line {line}: {kind}; {how or 'not known'}", flush=True)
    for kind in sorted(totals):
        print(f"{kind:24} {seen[kind]:4} of {totals[kind]:4}")
    print(
        f"{'all':24} {seen.total():4} of {totals.total():4} ({time.monotonic() - begun:.0f} s); not executed: {unexecuted}"
        f"; first seen: {dict(by_schedule)}"
    )
    print(f"of those not seen: {dict(harmless)}; seen of those not known to be harmless: {seen.total()} of {seen.total() + harmless['']}")
    if options.json:
        options.json.write_text(json.dumps(records, indent=1))


if __name__ == "__main__":
    main()
