"""The description of a repair: the diff with source lines, the evidence, the cost, and what is not guaranteed."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from ptxkit import fixing
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.loops import loops
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.launch.launch import launch
from ptxkit.diagnostics import Diagnostic, Fix
from ptxkit.isa.binding import Bound
from ptxkit.origins import Origins, excerpt
from ptxkit.rewriters.repairs.looking import Seen
from ptxkit.rewriters.repairs.solving import Solution
from ptxkit.syntax import Index

ONE = "one instruction"
CONTEXT = 2
"""Lines of context around a change."""


def described(seen: Seen, finding: Diagnostic, solved: Solution) -> Fix:
    """A repair as a fix."""
    text = "; ".join(solved.says)
    notes = (*_shown(finding, solved), *_costs(seen, solved), *_not_promised(seen, finding, solved))
    return Fix(text, solved.edits, is_safe=False, notes=notes, diff=difference(seen, solved))


def difference(seen: Seen, solved: Solution) -> str:
    """The hunks of a unified diff, each with its source line."""
    before, after = seen.text, fixing.apply(seen.text, solved.edits)
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=CONTEXT)
    origins, index = Origins(seen.facts.module, seen.facts.index), seen.facts.index
    found = []
    for line in list(lines)[2:]:
        if line.startswith("@@"):
            line += _source(seen, origins, index, line)
        found.append(line)
    return "\n".join(found)


def _source(seen: Seen, origins: Origins, index: Index, hunk: str) -> str:
    """The source line of a hunk, if `.loc` gives it."""
    first, _, count = hunk.split()[1].lstrip("-").partition(",")
    line = int(first) + min(CONTEXT, max(0, int(count or 1) - 1))
    origin = origins.at(index.line_starts[min(line, len(index.line_starts)) - 1])
    if origin is None:
        return ""
    shown = excerpt(origin, seen.facts.module.path)
    return f" {origin.path}:{origin.line}{f': {shown}' if shown else ''}"


def _shown(finding: Diagnostic, solved: Solution) -> Iterator[str]:
    by = f", and {solved.compiler} takes it" if solved.compiler else ""
    yield f"proved: no rule reports it anymore, nor anything new{by}"
    if solved.schedules:
        names = ", ".join([str(one) if isinstance(one, str) else f"seed {one}" for one in solved.schedules])
        how = "runs to completion" if solved.is_complete else "runs at least as far as before"
        what = f"the launch that shows it {how}, without the finding," if finding.witness is not None else f"an example launch {how}"
        results = ", with equal results" if solved.is_complete and solved.has_equal_results else ""
        yield f"executed: {what} under the schedules {names}{results}"


def _costs(seen: Seen, solved: Solution) -> Iterator[str]:
    """The cost of each statement inserted or moved; a replaced statement has a cost only if it waits."""
    after = solved.after
    is_put_in = any(edit.start == edit.end or edit.text.count(";") != 1 for edit in solved.edits if edit.text.strip())
    costs = False
    new = {line for line, _ in new_lines(seen.text, after.text)}
    for routine in after.facts.routines:
        for i, bound in enumerate(bindings(routine)):
            line = after.facts.index.span(routine.where(i)).line
            if line in new and isinstance(bound, Bound):
                text = " ".join(routine.instructions[i].body_text.split())
                price = _price(bound, text)
                if is_put_in or not price.endswith(ONE):
                    costs = True
                    yield f"costs: {price}{_rounds(after, routine, i, line, solved)}"
    if not costs:
        yield "costs: nothing, as no instruction is inserted"


def _price(bound: Bound, text: str) -> str:
    text = f"`{text.rstrip(';')}`"
    waits = any(one.action == "wait" for one in bound.barrier)
    if waits and bound.converges is not None and bound.converges.level in ("cta", "cluster"):
        return f"{text}: the threads of the {'CTA' if bound.converges.level == 'cta' else 'cluster'} wait for one another"
    if waits and bound.members is not None:
        return f"{text}: the threads of a warp wait for one another"
    if any(one.action == "wait" for one in bound.asynchronous):
        return f"{text}: the thread waits for the operations in flight"
    if any("fence" in effect for effect in bound.effects):
        return f"{text}: later accesses wait for earlier ones of the thread"
    return f"{text}: {ONE}"


def _rounds(after: Seen, routine: Any, i: int, line: int, solved: Solution) -> str:
    """How often a statement is executed: in which loop, and how often in the launch."""
    flow, forest = control_flow(routine), loops(routine)
    inner = forest.innermost[flow.block_of[i]]
    times = ""
    each = solved.executed.get(line, 0)
    if each >= 1:
        times = f", {f'{each:.1f}'.removesuffix('.0')} time{'' if each == 1 else 's'} per thread in that launch"
    if inner is None:
        return times
    header = flow.blocks[forest.loops[inner].header].start
    return f", in each iteration of the loop on line {after.facts.index.span(routine.where(header)).line}{times}"


def new_lines(before: str, after: str) -> Iterator[tuple[int, str]]:
    """The lines of a text that another lacks, by number."""
    number = 0
    for line in difflib.ndiff(before.splitlines(), after.splitlines()):
        if line.startswith(("  ", "+ ")):
            number += 1
            if line.startswith("+ ") and line[2:].strip():
                yield number, line[2:]


def _not_promised(seen: Seen, finding: Diagnostic, solved: Solution) -> Iterator[str]:
    inputs = (finding.witness or {}).get("inputs")
    if inputs is not None:
        yield f"not promised: that it holds in launches other than those that were executed ({inputs}), or that it is what you meant"
    else:
        yield "not promised: that it is what you meant; the finding was inferred and not executed, and so was its repair"
    routine = next((one for one in seen.facts.routines if one.name == finding.function), None)
    if inputs is not None and routine is not None and launch(routine).threads is None:
        yield "not promised: that it holds for CTAs of another size, as the kernel does not declare its own"
    if solved.schedules and not solved.is_complete:
        yield f"not promised: what happens after the end of that run ({solved.why})"
