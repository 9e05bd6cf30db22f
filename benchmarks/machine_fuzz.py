"""Random modules on the machine: each launch ends, or is a `Fault`; none raises anything else, none goes on past its budget.

    python benchmarks/machine_fuzz.py [--inputs 20000] [--seconds SECONDS] [--first 0] [--accepted] [--whole | --generated] [--jobs N]

Inputs are those of `fuzz.py`; with `--whole` those of them that are whole; with `--generated` modules that are right in themselves
(`machine_modules.py`), of which those count that `check` accepts. Every kernel is launched with one CTA of 32 or 64 threads; arguments are
a buffer for each parameter of 8 bytes, and zeros for others. With `--accepted` only modules that `check` has no objection to count. A
fault of the kind `internal` is a mistake of the machine too: it says that a semantics function raised.

Exit status 1 if something else than a fault is raised, or a budget is not kept.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

BUDGET = 0.5
SLACK = 2.0
"""Seconds that a launch may take beyond its budget, one block and compilation among them."""


def _fuzz() -> Any:
    spec = importlib.util.spec_from_file_location("fuzz", Path(__file__).with_name("fuzz.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fuzz"] = module
    spec.loader.exec_module(module)
    return module


def examine(text: str, accepted: bool) -> list[tuple[str, str]]:
    """What came of each kernel: a word, and more."""
    from ptxkit.analyses.framework.linting import lint
    from ptxkit.analyses.framework.rule import all_rules
    from ptxkit.diagnostics import Severity
    from ptxkit.machine import Fault, Machine
    from ptxkit.syntax import parse

    module = parse(text)
    if accepted:
        rules = tuple([rule for rule in all_rules() if rule.id[0] in "EV"])
        if any(diagnostic.severity is Severity.ERROR for diagnostic in lint(module, rules=rules)):
            return []
    machine = Machine("sm_100a")
    try:
        code = machine.load(module)
    except ValueError:
        return [("refused", "")]
    found = []
    for i, name in enumerate(code.kernels[:3]):
        started, busy = time.perf_counter(), time.process_time()
        try:
            sizes = [size for _, _, size, _ in code.program(name, False, False).layout()]
            arguments: list[Any] = [machine.alloc(1024) if size == 8 else bytes(size) for size in sizes]
            machine.launch(code, name, *arguments, grid=1, block=32 << i % 2, budget=BUDGET)
            found.append(("ended", ""))
        except Fault as fault:
            found.append((fault.kind, fault.reason))
        except Exception:
            found.append(("RAISED", traceback.format_exc()))
        # on a busy computer the clock says nothing of the machine: it must have computed for so long, too
        if min(time.perf_counter() - started, time.process_time() - busy) > BUDGET + SLACK:
            found.append(("LATE", f"{time.perf_counter() - started:.1f} s"))
    return found


def generated(numbers: range) -> list[tuple[str, int, list[tuple[str, str]]]]:
    """What came of generated modules that `check` accepts."""
    from machine_modules import module

    return [("generated", number, examine(module(number), True)) for number in numbers]


def _inputs(options: argparse.Namespace, started: float) -> Iterator[tuple[str, int, list[tuple[str, str]]]]:
    """What kind of input it was, its number, and what came of it."""
    numbers = range(options.first, options.first + options.inputs)
    if options.generated:
        slices = [numbers[at : at + 50] for at in range(0, len(numbers), 50)]
        with ProcessPoolExecutor(options.jobs) as pool:
            waiting = [pool.submit(generated, one) for one in slices]
            for future in waiting:
                if time.perf_counter() - started > options.seconds:
                    future.cancel()
                    continue
                yield from future.result()
        return
    fuzz = _fuzz()
    for number in numbers:
        if time.perf_counter() - started > options.seconds:
            return
        if options.whole:
            make = (fuzz.of_examples, fuzz.of_table, fuzz.of_statements)[number % 3]
            kind, text = make.__name__[3:], make(random.Random(number))
        else:
            kind, text = fuzz.one_input(number // fuzz.SLICE, number % fuzz.SLICE)
        if options.show:
            print(text)
        yield kind, number, examine(text, options.accepted)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--accepted", action="store_true")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--generated", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    outcomes: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    started = time.perf_counter()
    modules = 0
    accepted_too = options.accepted
    for kind, which, found in _inputs(options, started):
        modules += bool(found)
        for outcome, reason in found:
            outcomes[outcome] += 1
            if outcome in ("RAISED", "LATE", "internal") or (accepted_too and outcome == "unsupported"):
                last = reason.strip().splitlines()[-1] if reason else ""
                reasons[f"{outcome}: {last}"] += 1
                if options.show or outcome in ("RAISED", "LATE"):
                    print(f"--- {kind} {which}: {outcome}\n{reason}", flush=True)
    for outcome, count in outcomes.most_common():
        print(f"{count:8} {outcome}")
    for reason, count in reasons.most_common(40):
        print(f"{count:8} {reason[:200]}")
    print(f"{modules} modules in {time.perf_counter() - started:.0f} s")
    return 1 if outcomes["RAISED"] or outcomes["LATE"] else 0


if __name__ == "__main__":
    sys.exit(main())
