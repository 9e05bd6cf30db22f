"""Whether a launch of a kernel is free of the errors that monitors of the machine detect: races, deadlocks, misused barriers, bad
addresses.

The kernel is executed. It is *verified* if every run completed, with every access watched and no error. It is *refuted* if an execution
shows an error that does not depend on anything synthesized. Otherwise it is *undecided*, with the reasons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from ptxkit.analyses.execution.contents import COUNT, DIFFERENT, Numbers
from ptxkit.analyses.execution.execute import execute
from ptxkit.analyses.execution.findings import OUTSIDE, UNKNOWN
from ptxkit.analyses.execution.launch import WORD, Launch, MadeUp
from ptxkit.analyses.execution.leaving import BY_DESCRIPTOR
from ptxkit.analyses.execution.result import Executed, Shown
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.analyses.verify.certain import are_nested, decisions
from ptxkit.analyses.verify.flags import sets_a_flag
from ptxkit.diagnostics import Severity
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound

if TYPE_CHECKING:
    from ptxkit.machine.findings import Finding

VERIFIED, REFUTED, UNDECIDED = "verified", "refuted", "undecided"
MOST_LISTED = 3
"""How many names or lines a sentence lists."""
UNWRITTEN = "uninitialised-memory"
"""Name of the finding about uninitialized memory."""
STANDSTILLS = frozenset(("fault-deadlock", "fault-standstill"))
"""Names of findings about threads that wait forever."""
BY_ORDER = (
    "what threads read depends on which of them comes first: strong accesses (volatile, relaxed) are not data races, but order nothing "
    "(8.9.5), and memory ends with other contents under schedule"
)
LEAST_KINDS = 2
"""With fewer kinds of contents than these, a race that not all contents show may be a coincidence."""
OF_GRIDS = frozenset(("griddepcontrol-missing-wait", "griddepcontrol-access-before-wait"))
"""Names of findings about errors that occur only while another grid runs."""
TRAPS = frozenset(("trap", "assert"))
"""Kinds of faults with which a kernel ends itself."""


@frozen
class Reason:
    """What is missing for a verdict, its line in the PTX (0: none), and an option that supplies it."""

    text: str
    line: int = 0
    example: str = ""
    why: str = ""
    """Of a reason about a finding: why that decides nothing, without the finding's message. Empty for other reasons."""
    shown: Shown | None = None
    """Of a reason about a finding that only the synthesized inputs leave in doubt: that finding."""


@frozen
class Verdict:
    """The verdict on a kernel. `findings` are what executions showed; `reasons` say why it is undecided."""

    outcome: str
    findings: tuple[Shown, ...]
    reasons: tuple[Reason, ...]
    covered: Mapping[str, int]
    not_covered: tuple[str, ...]
    assumptions: tuple[str, ...]
    """Descriptions of what was synthesized."""
    executed: Executed
    example: str = ""
    """An option that supplies the first thing that was synthesized."""


def verify(code: Any, launch: Launch, names: Sequence[str], budget: float = 10.0, checks: str | Sequence[str] = "all") -> Verdict:
    """The verdict on a launch of a loaded kernel. `names` are the names of its parameters; `budget` is in seconds.

    Raises TypeError or ValueError if the arguments do not fit the kernel's parameters.
    """
    return judged(execute(code, launch, budget=budget, checks=checks), names)


def judged(executed: Executed, names: Sequence[str]) -> Verdict:
    """The verdict that follows from the runs."""
    judge = _Judge(executed, names)
    wrong = [one for one in executed.shown if is_wrong(one.finding) or judge.may_differ(one.finding)]
    unsure = [one for one in wrong if judge.is_of_inputs(one.finding)]
    wrong = [one for one in wrong if one not in unsure]
    proven = [one for one in wrong if judge.is_proven(one)]
    reasons = () if proven else tuple(judge.reasons([*unsure, *[one for one in wrong if one not in proven]]))
    outcome = REFUTED if proven else UNDECIDED if reasons else VERIFIED
    shown = proven or wrong
    notes = [one for one in executed.shown if one not in wrong and one not in unsure]
    return Verdict(
        outcome,
        (*shown, *notes),
        reasons,
        executed.covered,
        judge.not_covered(bool(reasons)),
        tuple(judge.assumptions(proven)),
        executed,
        judge.example(),
    )


def is_wrong(finding: Finding) -> bool:
    """Whether a finding is more than a note.

    Several threads that store the same value with one instruction are usually setting a flag; that is a note if the value cannot differ
    (`flags`). With two instructions it is a race whose outcome is the same in this launch (8.7.1).
    """
    diagnostic = finding.diagnostic
    return diagnostic.severity is not Severity.INFO or any(related.span != diagnostic.span for related in diagnostic.related)


def _undecided(finding: Finding, why: str, example: str = "") -> Reason:
    """The reason why a finding does not refute the kernel."""
    diagnostic = finding.diagnostic
    return Reason(f"{diagnostic.message}; {why}", diagnostic.span.line, example, why)


def _of_a_layout(finding: Finding) -> Reason:
    return _undecided(finding, "the descriptor's layout includes these bytes, but the instruction may need only another part of it")


def _is_of_data(finding: Finding) -> bool:
    """Whether the uninitialized bytes are used as data only, and in no address or branch condition."""
    return finding.diagnostic.severity is Severity.WARNING or finding.witness.get("use") == "output"


class _Judge:
    def __init__(self, executed: Executed, names: Sequence[str]) -> None:
        self.executed = executed
        self.launch = executed.launch
        self.names = names
        self.numbers = self._made_up("number")
        self.distinct = [
            name for name, one in zip(names, self.launch.arguments, strict=True) if isinstance(one, MadeUp) and one.is_distinct
        ]
        self.contents = [*self._made_up("contents"), *[one.name for one in self.launch.variables]]
        every = [*names, *[one.name for one in self.launch.variables]]
        self.deciding = {every[n]: size for n, size in executed.deciding.items() if n < len(every)}

    def _made_up(self, what: str) -> list[str]:
        return [name for name, argument in zip(self.names, self.launch.arguments, strict=True) if argument.made_up == what]

    def may_differ(self, finding: Finding) -> bool:
        """Whether a note is about threads that store equal values with one instruction, but may store different ones for another input."""
        accesses = finding.witness.get("accesses", ())
        if is_wrong(finding) or len(accesses) != 2 or any(one["kind"] != "write" for one in accesses):
            return False
        level = Level.CTA if accesses[0]["cta"] == accesses[1]["cta"] else Level.GRID
        return not all(sets_a_flag(routine, i, level) for routine, i in self._instructions(finding))

    def is_of_a_layout(self, finding: Finding) -> bool:
        """Whether a matrix that a descriptor describes extends beyond shared memory. The instruction may use less than the whole layout."""
        if finding.diagnostic.name not in OUTSIDE or finding.witness.get("space", "shared") != "shared":
            return False
        bounds = [bindings(routine)[i] for routine, i in self._instructions(finding)]
        return any(isinstance(bound, Bound) and bound.form.file in BY_DESCRIPTOR for bound in bounds)

    def is_of_inputs(self, finding: Finding) -> bool:
        """Whether the example inputs alone may be the cause: operations that are invalid for them, or bounds that are unknown."""
        kind = finding.diagnostic.name
        if kind.startswith("fault-") and kind not in STANDSTILLS:
            return bool(self.numbers or self.contents) or self.is_of_a_layout(finding)
        return self.is_of_a_layout(finding)

    def _instructions(self, finding: Finding) -> list[tuple[Routine, int]]:
        """The instructions that a finding names."""
        code, spans = self.executed.code, {finding.diagnostic.span, *[related.span for related in finding.diagnostic.related]}
        return [
            (routine, i)
            for routine in routines(code.module)
            for i in range(len(routine.instructions))
            if code.index.span(routine.where(i)) in spans
        ]

    def is_by_control(self, shown: Shown) -> bool:
        """Whether contents decide only which threads take part in a race: a thread writes what another one reads, at addresses that
        contents do not change, and a thread that executes one access executes the other, too.

        Unless the race is in shared memory and every thread executes one of the accesses, it must show even if no two words are equal,
        and contents may not be a protocol of the threads: a word that equals a key in one thread only, or a flag that is set, keeps
        threads apart."""
        witness = shown.finding.witness
        if witness.get("space") not in ("shared", "global") or len(shown.kinds) < LEAST_KINDS:
            return False
        if {one["kind"] for one in witness.get("accesses", ())} != {"read", "write"}:
            return False
        if self.executed.is_among(shown.finding, self.executed.placed):
            return False
        instructions = self._instructions(shown.finding)
        if not all(routine.function.header.is_entry for routine, _ in instructions):
            return False
        deciding = {site.path for site in self.executed.depends}
        several = [decisions(routine, i, deciding) for routine, i in instructions]
        if witness["space"] == "shared" and not all(several):
            return True
        return are_nested(several) and not self.executed.is_protocol_open and not shown.kinds.isdisjoint(DIFFERENT)

    def is_proven(self, shown: Shown) -> bool:
        """Whether a finding holds for everything that was synthesized."""
        if not is_wrong(shown.finding) or not (shown.is_always or self.is_by_control(shown)):
            return False
        if self.executed.unknown and self.executed.depends:
            # results of undefined functions may have led there
            return False
        if self.executed.is_among(shown.finding, self.executed.numbered):
            return False
        kind = shown.finding.diagnostic.name
        if kind in OF_GRIDS:
            return False
        if kind == UNWRITTEN and _is_of_data(shown.finding):
            # nothing may depend on these results, and whether they are right is outside the verdict
            return False
        if kind in OUTSIDE:
            # the size of synthesized memory is unknown
            is_global = shown.finding.witness.get("space", "global") in ("global", "const")
            return not (is_global and (self.numbers or self.contents))
        return True

    def reasons(self, doubtful: Sequence[Shown]) -> list[Reason]:
        """Why the kernel is neither verified nor refuted; empty if it is verified."""
        found = [self._of_finding(shown) for shown in doubtful]
        found += [_of_a_layout(finding) for finding in self.executed.layouts]
        fault = self.executed.fault
        if fault is not None and not doubtful:
            found.append(self._of_fault(fault))
        if not found and self.executed.unexecuted:
            found.append(self._of_unexecuted())
        if not found and self.executed.unreached:
            found.append(self._of_unreached())
        if not found and self.executed.differing:
            found.append(Reason(f"{BY_ORDER} {self.executed.differing[0]} than in lockstep"))
        found += [Reason(f"not everything was watched: {what}") for what in self.executed.not_covered]
        return found

    def _of_finding(self, shown: Shown) -> Reason:
        finding, kind = shown.finding, shown.finding.diagnostic.name
        if self.is_of_a_layout(finding):
            return _of_a_layout(finding)
        if kind in OUTSIDE and finding.witness.get("space", "global") in ("global", "const"):
            return _undecided(finding, "the size of this memory was not given", self.example())
        if kind.removeprefix("fault-") in TRAPS:
            return _undecided(finding, "the kernel traps here, and may not with other inputs", self.example())
        if kind in OF_GRIDS:
            return _undecided(finding, "in this launch, earlier grids have ended")
        if kind == UNWRITTEN and _is_of_data(finding):
            return _undecided(finding, "this goes wrong only if something uses the result")
        if shown.is_of_equal_words:
            why = f"this happens only where words of {self._of_contents()} are equal, not where they all differ, as 0, 1, 2, … do"
            return _undecided(finding, why, self._assuming() or self.example("iota"))
        if not is_wrong(finding):
            return _undecided(finding, "the values are equal in this launch, but need not be (8.7.1)")
        if shown.states:
            why = f"this happens only if the host writes {_listed(shown.states)} before the launch"
            return _undecided(finding, why, _writing(shown.states[0]))
        why = f"this happens with {self._with(shown)}, and may not happen with other inputs"
        return attrs.evolve(_undecided(finding, why, self.example()), shown=shown)

    def _assuming(self) -> str:
        """The options that say of all parameters whose contents decide that their words differ; empty if that has been said."""
        return " ".join([f"--assume distinct:{name}" for name in self.deciding if name in self.names and name not in self.distinct])

    def _of_contents(self) -> str:
        """The arrays whose contents decide, or all whose contents were synthesized."""
        return _listed(list(self.deciding) or self.contents)

    def _values(self, numbers: Numbers) -> str:
        """What the scalars that were not given are, each by its name."""
        arguments = zip(self.names, self.launch.arguments, strict=True)
        known = [(n, name, one) for n, (name, one) in enumerate(arguments) if isinstance(one, MadeUp)]
        values = [(name, one.value(COUNT.with_numbers(numbers), n)) for n, name, one in known]
        found = {name: value for name, value in values if value is not None}
        if not found or len(found) > MOST_LISTED + 1:
            return f"{numbers} for {_listed(self.numbers)}"
        return ", ".join([f"`{name}` = {value}" for name, value in found.items()])

    def _with(self, shown: Shown) -> str:
        """The example inputs with which something was shown."""
        numbers = self._values(shown.contents.numbers) if self.numbers else ""
        contents = f"{shown.contents} in {self._of_contents()}" if self.executed.depends and self.contents else ""
        return " and ".join([one for one in (numbers, contents) if one]) or "the inputs that were synthesized"

    def _of_fault(self, fault: Any) -> Reason:
        line = fault.line or 0
        if fault.kind == "budget":
            return Reason("the launch takes more time than its budget", line, "--budget 300")
        if fault.kind == "extern":
            return Reason(f"{fault.reason}: what it does is not known", line, "--library FILE.ptx")
        if fault.kind in UNKNOWN:
            return Reason(fault.reason, line)
        return Reason(fault.reason, line, self.example())

    def _of_unexecuted(self) -> Reason:
        """Reason for instructions that were not executed, but that other scalars, or other values of module variables, may reach."""
        lines = sorted({self.executed.code.index.span(site.path).line for site in self.executed.unexecuted})
        if self.numbers and self.executed.is_by_numbers:
            deciding = [name for n, name in enumerate(self.names) if n in self.executed.deciding_numbers] or self.numbers
            text = f"no thread reached {_some(lines)} with any of the numbers tried for {_listed(deciding)}, which were not given"
            return Reason(text, 0, f"--param {deciding[0]}=64")
        example = _writing(self.launch.states[0].name) if self.launch.states else ""
        return Reason(f"no thread reached {_some(lines)}: variables of the module decide that, which the host may have written", 0, example)

    def _of_unreached(self) -> Reason:
        """Reason for instructions that none of the contents tried lead to."""
        lines = sorted({self.executed.code.index.span(path).line for path in self.executed.unreached})
        text = f"no thread reached {_some(lines)} with any of the contents tried for {self._of_contents()}, which were not given"
        return Reason(text, 0, self.example())

    def not_covered(self, has_reasons: bool) -> tuple[str, ...]:
        """Descriptions of what was not checked, such as bounds of synthesized arrays, but for what the reasons say."""
        sized = [
            name
            for name, one in zip(self.names, self.launch.arguments, strict=True)
            if isinstance(one, MadeUp) and one.pointers and one.made_up
        ]
        sizes = "its size was" if len(sized) == 1 else "their sizes were"
        bounds = [f"the bounds of {_listed(sized)}, as {sizes} not given"] if sized else []
        executed = self.executed
        if self.launch.is_shared_made_up:
            bounds.append(f"the bounds of dynamic shared memory, as its size was not given ({executed.launch.shared:,} bytes assumed)")
        what = [f"what {_listed(executed.unknown)} does, which nothing defines"] if executed.unknown else []
        wrong = list(dict.fromkeys(map(self._values, executed.not_together)))
        more = f" and {len(wrong) - 2} more" if len(wrong) > 2 else ""
        other = [f"{' or '.join(wrong[:2])}{more}: addresses are wrong with these, so they may be inconsistent"] if wrong else []
        left_out = () if has_reasons else executed.not_covered
        lines = sorted({executed.code.index.span(path).line for path in executed.untaken})
        sides = [f"the other side of the branch on {_some(lines)}, which no number that was tried takes"] if lines else []
        return (*left_out, *bounds, *what, *other, *sides, *executed.unfit)

    def example(self, fill: str = "random") -> str:
        """An option that supplies the first thing that was synthesized, or an array that decides, as long as the kernel reads it."""
        if self.numbers and not self.deciding:
            return f"--param {self.numbers[0]}=64"
        if self.deciding:
            name, size = next(iter(self.deciding.items()))
            return f"--array {name}=u32:{-(-size // 4)}:{fill}" if size > WORD or name in self.names else _writing(name)
        if self.contents:
            return f"--array {self.contents[0]}=u32:4096:{fill}"
        return ""

    def assumptions(self, proven: Sequence[Shown]) -> list[str]:
        """Descriptions of what was synthesized, and with what of it the kernel is refuted if not with all of it."""
        found = []
        if self.numbers:
            tried = list(dict.fromkeys([self._values(run.contents.numbers) for run in self.executed.runs]))
            more = f" and {len(tried) - MOST_LISTED} more" if len(tried) > MOST_LISTED else ""
            only = f"`{self.numbers[0]}`"
            if len(self.numbers) > 1 or not all(one.startswith(f"{only} = ") for one in tried):
                found.append(f"numbers not given; tried: {'; '.join(tried[:MOST_LISTED])}{more}")
            else:
                values = [one.removeprefix(f"{only} = ") for one in tried]
                found.append(f"{only} not given; tried: {', '.join(values[:MOST_LISTED])}{more}")
        if self.contents:
            tried = list(dict.fromkeys([str(run.contents) for run in self.executed.runs]))
            some = list(self.deciding)
            which = f"those of {_listed(some)}" if some and some != self.contents else "them"
            depends = f"; control flow depends on {which}" if self.executed.depends else "; control flow does not depend on them"
            found.append(f"contents of {_listed(self.contents)} not given; tried: {'; '.join(tried)}{depends}")
        if self.executed.cleared:
            named = _listed([self.names[n] for n in self.executed.cleared])
            found.append(f"{named} {'is' if len(self.executed.cleared) == 1 else 'are'} zero before the launch: threads synchronize there")
        if self.distinct:
            found.append(f"the words of {_listed(self.distinct)} are assumed to differ; they are 0, 1, 2, … in several orders")
        if proven and not any(one.is_always for one in proven):
            found.append(f"the race shows with {self._with(proven[0])}: contents decide only which threads take part in it")
        if self.executed.states:
            found.append(f"{_listed(self.executed.states)} as the module initializes it, and with other values")
        if self.executed.unknown:
            found.append(f"{_listed(self.executed.unknown)} not defined: assumed to return numbers and to change nothing")
        return found


def _writing(name: str) -> str:
    """An option that says what a variable of the module holds."""
    return f"--memory {name}=1"


def _listed(names: Sequence[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    if len(quoted) > MOST_LISTED + 1:
        return f"{', '.join(quoted[:MOST_LISTED])} and {len(quoted) - MOST_LISTED} more"
    return f"{', '.join(quoted[:-1])} and {quoted[-1]}" if len(quoted) > 1 else quoted[0]


def _some(lines: Sequence[int]) -> str:
    """The first of several lines, in words."""
    more = f" and {len(lines) - MOST_LISTED} more" if len(lines) > MOST_LISTED else ""
    return f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines[:MOST_LISTED]))}{more}"
