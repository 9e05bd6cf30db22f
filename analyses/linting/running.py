"""Executes the kernels of a module with example launches, and reports what that shows as findings of rules."""

from __future__ import annotations

import functools
import math
import shlex
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import attrs

from ptxkit.analyses.execution.available import is_available
from ptxkit.analyses.framework.bindings import has_matching, matching
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.inputs.example import Example
from ptxkit.analyses.inputs.numbers import OF_HOST, are_inconsistent, excuse_all
from ptxkit.analyses.inputs.reached import reached, read
from ptxkit.analyses.inputs.shapes import declares_block
from ptxkit.analyses.inputs.words import spoken
from ptxkit.analyses.launch.launch import MOST_THREADS, launch
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.memo import overlook_new

if TYPE_CHECKING:
    from ptxkit.analyses.dynamic.judging import Found
    from ptxkit.analyses.dynamic.once import Ran
    from ptxkit.machine.findings import Finding
    from ptxkit.machine.loading import Code


@frozen(eq=False)
class Shown:
    """The findings of an executed kernel. `is_complete`: all its threads ran to completion."""

    kernel: str
    functions: frozenset[str]
    """The kernel and the functions that it may call."""
    findings: tuple[Diagnostic, ...]
    is_complete: bool
    unsure: tuple[Diagnostic, ...] = ()
    """Findings that appear for some example inputs only. They count only if a rule infers the same."""
    unjudged: frozenset[int] = frozenset()
    """Lines about which the execution is inconclusive."""
    lines: frozenset[int] = frozenset()
    """Lines of the executed instructions that access memory or synchronize."""
    is_cut: bool = False
    """Whether the time limit ended it, rather than the operation limit."""
    examples: tuple[Example, ...] = ()
    """The launches: the one that ran furthest, and those that show findings, without repetitions."""


def shown(
    facts: Facts,
    rules: Iterable[Rule],
    but: frozenset[str] = frozenset(),
    budget: float | None = None,
    known: dict[Example, Ran] | None = None,
) -> tuple[Shown, ...]:
    """What executions of the kernels show, except those in `but`, as findings of these rules. `known` caches runs of the same text.

    Nothing is executed if none of the rules can be shown by an execution, if the module has errors, or if NumPy is missing. No kernel is
    started after `budget` seconds.
    """
    end = time.thread_time() + (MODULE_SECONDS if budget is None else budget)
    by_id = {word: rule for rule in rules if is_executable(rule) for word in (rule.id, rule.name)}
    kernels = [routine for routine in facts.routines if routine.function.header.is_entry and has_something_to_see(routine)]
    if not by_id or not kernels or not is_available():
        return ()
    # import the machine, and NumPy with it, only to execute something
    from ptxkit.analyses.dynamic.exercise import SECONDS, exercise
    from ptxkit.analyses.execution.loading import loaded

    found = []
    code = None
    # the facts of rules are still used
    overlook_new()
    for kernel in kernels:
        if kernel.name in but:
            continue
        left = end - time.thread_time()
        if left <= 0:
            found.append(_cut(kernel))
            continue
        if code is None or code.machine.memory.size > MOST_MEMORY:
            try:
                code = first_code(facts, kernel) if code is None else loaded(facts.module, facts.target or "")
            except ValueError:
                return ()
        try:
            done = exercise(kernel, code, min(SECONDS, left), known, _doubts(facts, kernel, by_id))
        except MemoryError:
            # the example launch exceeded memory: nothing is shown
            code = None
            found.append(_cut(kernel))
            continue
        if done.example is not None:
            by_rule = [(one, _rule_of(one.finding, by_id)) for one in done.found]
            doubts = with_doubtful_ends([(one, rule, one.doubt) for one, rule in by_rule if rule is not None])
            found.append(
                Shown(
                    kernel.name,
                    frozenset([one.name for one in reached(kernel)]),
                    tuple([_diagnostic(one, rule) for one, rule, doubt in doubts if not doubt]),
                    done.is_complete,
                    tuple([_unsure(one, rule, doubt) for one, rule, doubt in doubts if doubt]),
                    done.unjudged,
                    done.lines,
                    done.is_cut,
                    tuple(dict.fromkeys([*[one.example for one in done.found], done.example])),
                )
            )
        elif done.is_cut:
            found.append(_cut(kernel))
    return tuple(found)


def _cut(kernel: Routine) -> Shown:
    """An empty result for a kernel for which time or memory ran out."""
    return Shown(kernel.name, frozenset([kernel.name]), (), False, is_cut=True)


def first_code(facts: Facts, kernel: Routine) -> Code:
    """The module loaded on a machine; reuses the one on which rules have executed kernels, unless that is for another target. Raises
    ValueError."""
    from ptxkit.analyses.execution.loading import loaded, module_code

    code = module_code(kernel)
    if code is None:
        raise ValueError("the module has errors")
    return code if facts.target in (None, code.machine.target) else loaded(facts.module, facts.target or "")


MODULE_SECONDS = 120.0
"""Time limit for all kernels of a module, in seconds. Runs are bounded by a count of operations; this limit only matters on a busy
machine."""
OUT_OF_BOUNDS = "out-of-bounds-access"
FAR = 1 << 31
"""Distance from a variable, in bytes, that exceeds any shared or local memory."""
WAITING = "MBC"
"""Families of rules about threads that wait for others."""
MOST_MEMORY = 1 << 26
"""A machine that has allocated this many bytes of global memory is not reused for the next kernel, since freed memory is not allocated
again."""
LOAD = "tmem-load-not-waited"
"""Name of the finding about a load from tensor memory that is in flight where its registers are used, or its cells written."""
UNINITIALISED = "uninitialised-memory"
"""Name of the finding about a read of memory that was never written."""
TOGETHER = "CB"
"""Families of rules about what threads must execute together."""
FAMILIES = "CBAMWTPSGR"
"""Families of rules whose violation an execution can show, by the first letter of their ids."""
UNEQUAL = "wmma-operand-not-warp-uniform"
"""Name of the rule of another family, about types and fragments, whose violation an execution can show."""


def is_executable(rule: Rule) -> bool:
    """Whether an execution can show a violation of the rule."""
    return rule.id[0] in FAMILIES or rule.name == UNEQUAL


def has_something_to_see(routine: Routine) -> bool:
    """Whether a kernel, or a function it calls, contains anything that executions can find errors in: memory accesses or
    synchronization."""

    def holds(bound: Bound) -> bool:
        return bool(bound.barrier or bound.asynchronous or bound.converges is not None or bound.memory)

    return any(has_matching(one, holds) for one in reached(routine))


def is_flattened(kernel: Routine, block: tuple[int, int, int]) -> bool:
    """Whether the kernel reads an index along a dimension in which the block has length one. In another block, its warps may consist of
    other threads."""
    return any(length == 1 and f"%tid.{axis}" in read(kernel) for axis, length in zip("xyz", block, strict=True))


def _usual_loads(facts: Facts, kernel: Routine) -> frozenset[int]:
    """Lines of loads from tensor memory, in functions that use the registers before the wait for at least half of the loads, or for
    their only load: there it is an observed convention."""
    from ptxkit.analyses.protocols.tcgen05.tensor_memory import LOADS, accessed_loads

    def is_load(bound: Bound) -> bool:
        return any(one.group == LOADS and one.action == "open" for one in bound.asynchronous)

    found = set()
    for routine in reached(kernel):
        openers = {load.opener for load in accessed_loads(routine)[1]}
        loads = [i for i, _ in matching(routine, is_load)]
        if len(openers) == len(loads) or (len(openers) > 1 and 2 * len(openers) >= len(loads)):
            found.update([facts.index.span(routine.where(i)).line for i in loads])
    return frozenset(found)


def _doubts(facts: Facts, kernel: Routine, by_id: Mapping[str, Rule]) -> Callable[[Finding, Example], str]:
    """Returns a function that says why a finding of a run is dropped at once: what it reports is an observed convention, or the synthesized
    launch may cause it. It returns an empty string if further runs are to decide."""

    @functools.cache
    def usual() -> frozenset[int]:
        return _usual_loads(facts, kernel)

    def doubt(finding: Finding, example: Example) -> str:
        of, rule, block = finding.diagnostic, _rule_of(finding, by_id), example.block
        if rule is None:
            return "no rule is asked for it"
        if rule.name == LOAD and finding.witness["accesses"][0]["line"] in usual():
            return "ptxas waits for each register by itself"
        if of.name == OUT_OF_BOUNDS and finding.witness.get("space") != "global" and abs(finding.witness.get("offset", 0)) >= FAR:
            return "the address is unrelated to the variable: it was computed from synthesized scalars"
        if excuse_all(kernel, block) or (are_inconsistent(kernel) and f".{finding.witness.get('space')}" in OF_HOST):
            return OF_NUMBERS
        if declares_block(kernel, block):
            return ""
        if of.rule[:1] in WAITING and math.prod(block) < launch(kernel).most[0] < MOST_THREADS:
            return "the kernel may be launched with more threads, and says how many at most"
        if of.rule[0] in TOGETHER and is_flattened(kernel, block):
            return "the kernel uses a dimension of the block in which this launch has one thread"
        return ""

    return doubt


def _rule_of(finding: Finding, by_id: Mapping[str, Rule]) -> Rule | None:
    """The rule that a finding of a monitor belongs to; None if it is not selected."""
    return by_id.get(finding.diagnostic.rule) or by_id.get(finding.diagnostic.name)


def with_doubtful_ends(found: list[tuple[Found, Rule, str]]) -> list[tuple[Found, Rule, str]]:
    """Propagates doubt: if it is doubtful that a launch ends in a deadlock, its other findings about waiting are doubtful too, since
    both may come from inputs that the kernel is not meant for."""
    ends = [(one, doubt) for one, _, doubt in found if "ends" in one.finding.witness]
    doubtful = {one.example for one, doubt in ends if doubt} - {one.example for one, doubt in ends if not doubt}
    return [
        (one, rule, doubt or (OF_END if one.example in doubtful and one.finding.diagnostic.rule[:1] in WAITING else ""))
        for one, rule, doubt in found
    ]


OF_END = "the launch ends in a deadlock that the example inputs may cause"
OF_NUMBERS = "several numbers come from one structure, and the synthesized ones need not be consistent"


def _diagnostic(one: Found, rule: Rule) -> Diagnostic:
    """A finding that does not depend on example inputs, as a diagnostic."""
    from ptxkit.analyses.dynamic.exercise import OTHER_LEADER
    from ptxkit.analyses.dynamic.judging import CONTENTS

    severity = one.finding.diagnostic.severity
    notes = []
    if not one.in_order:
        severity = Severity.INFO
        notes.append(
            "all lanes execute an instruction such as a shuffle in between: by the manual it orders no memory, but on all GPUs it does"
        )
    elif one.depends:
        severity = max(severity, Severity.WARNING, key=list(Severity).index)
        notes.append(CONTENTS)
    if one.schedule == OTHER_LEADER:
        notes.append("elect.sync elected the last lane in this run: the ISA does not say which lane it elects")
    if rule.severity is not Severity.ERROR and severity is Severity.ERROR:
        severity = rule.severity
    return _as_lint(one, rule, severity, notes)


def _unsure(one: Found, rule: Rule, doubt: str) -> Diagnostic:
    """A finding that example inputs may have caused, as a diagnostic."""
    return _as_lint(one, rule, Severity.INFO, [doubt])


def _as_lint(one: Found, rule: Rule, severity: Severity, notes: list[str]) -> Diagnostic:
    of, inputs = one.finding.diagnostic, spoken(one.example)
    said = (*of.notes, f"shown with {inputs}", *notes)
    witness = {**one.finding.witness, "inputs": inputs, "replay": _replay(one)}
    return attrs.evolve(of, rule=rule.id, name=rule.name, severity=severity, notes=said, witness=witness)


def _replay(one: Found) -> list[str]:
    """The commands that reproduce a finding: create the launch file, then run it."""
    path, kernel = one.finding.diagnostic.path or "-", one.example.kernel
    fill = () if one.contents.name == "count" else ("--fill", FILLS[one.contents.name])
    make = ["ptxkit", "inputs", path, "-k", kernel, *one.example.options, *fill, "-o", "launch.toml"]
    lines = ("--first-lines",) if one.first_lines else ()
    run = ["ptxkit", "run", path, "--launch", "launch.toml", "--check", "all", "--schedule", str(one.schedule), *lines]
    return [shlex.join(make), shlex.join(run)]


FILLS = {"zeros": "zeros", "random": "small", "noise": "random"}
"""Names of contents in launch files."""


__all__ = ["Shown", "has_something_to_see", "is_executable", "shown"]
