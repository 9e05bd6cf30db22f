"""Solves one finding: candidates are tried until one suffices, then weakened as far as possible, and reduced piece by piece."""

from __future__ import annotations

import enum
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

import attrs

from ptxkit.analyses.dynamic.case import RANDOM
from ptxkit.analyses.execution.contents import COUNT
from ptxkit.analyses.execution.findings import UNKNOWN
from ptxkit.diagnostics import Diagnostic, Edit, Severity
from ptxkit.frozen import frozen
from ptxkit.memo import collect_when_due
from ptxkit.revalidation import Outcome, revalidate
from ptxkit.rewriters.repairs.candidate import Candidate
from ptxkit.rewriters.repairs.cures import candidates
from ptxkit.rewriters.repairs.edits import Shift, joined, parts
from ptxkit.rewriters.repairs.looking import Looking, Seen
from ptxkit.rewriters.repairs.trouble import Trouble, trouble
from ptxkit.rewriters.repairs.trying import UNFIT, Conditions, Key, Run, Trying

SECONDS = 60.0
"""CPU time limit for the trials of one finding, in seconds."""
MOST_TRIES = 40
"""Maximum number of candidates tried for one finding."""
MOST_BETTER = 6
"""Maximum number of further repairs considered if one leaves other findings in the function."""
MOST_FURTHER = 8
"""Maximum number of further candidates tried if a run of one shows other findings that it showed before."""
MOST_EDITS = 3
"""Maximum number of steps of a repair."""


class Says(enum.Enum):
    """The verdict of a trial on a candidate."""

    ENOUGH = "enough"
    LESS = "less"
    """Fewer findings, and no new ones."""
    NO = "no"


@frozen(eq=False)
class Solution:
    """A proved repair: its edits, and the findings that remain."""

    steps: tuple[Candidate, ...]
    edits: tuple[Edit, ...]
    after: Seen
    schedules: tuple[str | int, ...]
    """The schedules under which the witness launch was run."""
    compiler: str
    """The compiler that accepted it; empty if none was available."""
    is_complete: bool
    """Whether all threads ran to completion in the witness launch."""
    has_equal_results: bool
    """Whether all these runs left the same contents in memory."""
    why: str
    """The reason why a run ended early, if one did."""
    executed: dict[int, float]
    """By line of the edited text, the average number of times that a thread executes a synchronizing instruction there."""
    tries: int

    @property
    def says(self) -> tuple[str, ...]:
        """Descriptions of its steps."""
        return tuple([one.says for one in self.steps])


@frozen
class Unsolved:
    """The reason why there is no repair."""

    why: str
    tries: int = 0


def solve(looking: Looking, seen: Seen, finding: Diagnostic, compilers: Sequence[str] = ()) -> Solution | Unsolved:
    """A proved repair of a finding, or the reason why there is none."""
    return _Solving(looking, seen, finding, tuple(compilers)).run()


class _Solving:
    def __init__(self, looking: Looking, seen: Seen, finding: Diagnostic, compilers: tuple[str, ...]) -> None:
        self.looking = looking
        self.seen = seen
        self.finding = finding
        self.compilers = compilers
        self.trying = Trying(looking, seen, finding)
        self.tries = 0
        self.reasons: dict[str, None] = {}
        self.end = time.process_time() + SECONDS
        self.best: Solution | None = None
        self.better = 0
        self.forgiven: frozenset[Key] = frozenset()
        """Findings that runs may still show, if nothing else reports them."""

    def run(self) -> Solution | Unsolved:
        """Tries candidates for the finding; if one is only a partial cure, further ones for the rest."""
        own = self.trying.own() if self.finding.witness is not None else None
        target = self._target(own) if own is not None else frozenset()
        of = trouble(self.seen, self.finding, [own.found[key] for key in sorted(target, key=str)] if own is not None else ())
        if of is None:
            return Unsolved("the finding is not about instructions of one function")
        steps: tuple[Candidate, ...] = ()
        edits: tuple[Edit, ...] = ()
        while len(steps) < MOST_EDITS:
            part: Candidate | None = None
            for one, says in self._promising(candidates(of), edits):
                if says is Says.ENOUGH:
                    proofs = (self._proved((*steps, rung)) for rung in self._rungs(edits, one))
                    found = next((proof for proof in proofs if proof is not None), None)
                    if found is not None and self._is_best(found):
                        return self.best or found
                elif part is None:
                    part = one
            if self.best is not None:
                return self.best
            if part is None or self._is_over:
                break
            whole = self._whole((*steps, part), joined((*edits, *part.edits)))
            if whole is not None:
                return whole
            steps, edits = (*steps, part), joined((*edits, *part.edits))
            rest = self._rest(edits)
            if rest is None:
                break
            of = rest
        return Unsolved(self._why(), self.tries)

    def _promising(self, given: Iterable[Candidate], edits: tuple[Edit, ...]) -> Iterator[tuple[Candidate, Says]]:
        """The candidates that reduce the findings, given earlier edits. One whose run still shows other findings than this one is put
        behind the next ones: what lint attributes to the example launch may be the same bug."""
        waiting: list[tuple[int, Candidate]] = []
        patience = MOST_FURTHER
        for one in given:
            if self._is_over:
                break
            made = joined((*edits, *one.edits))
            says = self._says(made)
            besides = self._besides(made) if patience and says is Says.ENOUGH else 0
            patience -= 1 if patience and waiting else 0
            if besides:
                waiting.append((besides, one))
            elif says is not Says.NO:
                yield one, says
            if not patience:
                yield from _least(waiting)
                waiting.clear()
        yield from _least(waiting)

    def _besides(self, edits: Sequence[Edit]) -> int:
        """The number of other findings of the original run that a run of the edited text still shows."""
        own, ran = self.trying.own(), self.trying.run(edits)
        if own is None or ran is None or self.finding.witness is None:
            return 0
        return len((own.found.keys() - self._target(own)) & ran.found.keys())

    def _whole(self, steps: tuple[Candidate, ...], edits: Sequence[Edit]) -> Solution | None:
        """Accepts a partial cure as a repair: the other findings of a run may not be errors, if another launch does not show them."""
        own, ran = self.trying.own(), self.trying.run(edits)
        if own is None or ran is None:
            return None
        self.forgiven = self._target(own) & ran.found.keys()
        found = self._proved(steps)
        self.forgiven = frozenset()
        return found

    @property
    def _is_over(self) -> bool:
        """Whether the limits are reached."""
        return self.tries >= MOST_TRIES or time.process_time() > self.end

    def _is_best(self, found: Solution) -> bool:
        """Whether a repair leaves no finding in its function, or enough others were considered. Keeps the best one."""
        left = self._others(found)
        if self.best is None or left < self._others(self.best):
            self.best = found
        self.better += 1
        return not left or self.better > MOST_BETTER

    def _others(self, found: Solution) -> int:
        """The number of errors and warnings that a repair leaves in the function."""
        return sum([one.function == self.finding.function and one.severity is not Severity.INFO for one in found.after.found])

    def _why(self) -> str:
        if not self.tries:
            return "no known edit would fix it"
        tried = f"{self.tries} edit{'s were' if self.tries > 1 else ' was'} tried, none of which fixes it"
        return "; ".join([tried, *list(self.reasons)[:2]])

    # --- trying

    def _says(self, edits: Sequence[Edit]) -> Says:
        collect_when_due()
        self.tries += 1
        if not self._is_taken(edits):
            return Says.NO
        own = self.trying.own() if self.finding.witness is not None else None
        target = self._target(own) if own is not None else frozenset()
        if own is None or not target:
            return self._argued(edits)

        def is_enough(found: Set[Key]) -> bool:
            # a race may be reported under another rule when more of it is observed
            lines = {key[1] for key in own.found}
            return target <= found or (not own.fault and any(key[1] not in lines for key in found))

        ran = self.trying.run(edits, is_enough=is_enough)
        # a run that ended early shows nothing of what would have followed
        new = ran.found.keys() - own.found.keys() if ran is not None and not own.fault else ()
        if ran is None or new or not _ends_no_worse(own, ran) or _is_stuck(own, ran):
            return Says.NO
        left = target & ran.found.keys()
        if not left:
            return Says.ENOUGH
        return Says.LESS if left < target and len(edits) < 2 * MOST_EDITS else Says.NO

    def _is_taken(self, edits: Sequence[Edit]) -> bool:
        return not self.trying.facts(edits).module.diagnostics

    def _target(self, own: Run) -> frozenset[Key]:
        """The findings of the original run that belong to this finding."""
        lines = {self.finding.span.line, *[one.span.line for one in self.finding.related]}
        family = self.finding.rule[0]
        found = [key for key, one in own.found.items() if key[1] <= lines and one.diagnostic.rule[0] == family]
        return frozenset(found or [key for key in own.found if key[1] <= lines]) - self.forgiven

    def _argued(self, edits: Sequence[Edit]) -> Says:
        """The rule's own verdict on the edited text."""
        rule = next((one for one in self.looking.rules if one.id == self.finding.rule), None)
        if rule is None:
            return Says.ENOUGH
        facts = self.trying.facts(edits)
        shift = Shift(edits)
        lines = {self.finding.span.line}
        found = [one for one in rule.check(facts) if one.function == self.finding.function]
        again = [one for one in found if self.trying.key(attrs.evolve(one, related=()), shift)[1] <= lines]
        return Says.NO if again else Says.ENOUGH

    def _rungs(self, edits: Sequence[Edit], one: Candidate) -> list[Candidate]:
        """The forms of a candidate that suffice in the witness launch, weakest first."""
        found = [one]
        for weaker in one.weaker:
            if self._says(joined((*edits, *weaker.edits))) is not Says.ENOUGH:
                break
            found.append(weaker)
        return found[::-1]

    def _rest(self, edits: Sequence[Edit]) -> Trouble | None:
        """What some edits leave of the finding, in terms of the original text."""
        own, ran = self.trying.own(), self.trying.run(edits)
        if own is None or ran is None:
            return None
        left = [key for key in ran.found if key in self._target(own)]
        one = own.found.get(left[0]) if left else None
        if one is None:
            return None
        return trouble(self.seen, attrs.evolve(one.diagnostic, witness=one.witness, function=self.finding.function), is_rest=True)

    # --- proving

    def _proved(self, steps: tuple[Candidate, ...]) -> Solution | None:
        edits = joined([edit for one in steps for edit in one.edits])
        after = self.trying.after(edits)
        bad = self.trying.left(after, edits)
        if bad:
            self.reasons[f"`{steps[0].says}` leaves {bad[0].rule}: {bad[0].message}"[:200]] = None
            return None
        ran = self.trying.run(edits)
        if ran is not None and ran.fault == UNFIT and self.trying.kernel not in after.complete:
            self.reasons[f"no known launch runs to completion after `{steps[0].says}`: {ran.why}"] = None
            return None
        for rest in parts([step for one in steps for step in ([one.edits] if one.is_move else [[edit] for edit in one.edits])]):
            if self._says(rest) is Says.ENOUGH and not self.trying.left(self.trying.after(rest), rest):
                return self._proved((Candidate(steps[0].says, rest, steps[0].price),))
        all_ran = self._schedules(edits, after)
        if all_ran is None:
            return None
        if self.finding.witness is None and any(one.is_number for one in steps) and not self._is_executed(all_ran):
            self.reasons[f"no known launch shows that `{steps[0].says}` is the right number"] = None
            return None
        said = revalidate(after.facts.module, self.looking.target, self.compilers) if self.compilers else None
        if said is not None and said.outcome is Outcome.INVALID:
            own = revalidate(self.seen.facts.module, self.looking.target, self.compilers)
            if own.outcome is not Outcome.INVALID:
                self.reasons[f"{said.validator} refuses `{steps[0].says}`"] = None
                return None
        compiler = said.validator or "" if said is not None and said.outcome is Outcome.VALID else ""
        runs = list(all_ran.values())
        return Solution(
            steps,
            edits,
            after,
            tuple(all_ran),
            compiler,
            self._is_executed(all_ran),
            len({one.memory for one in runs}) == 1,
            next((one.why for one in runs if one.fault), ""),
            dict(runs[-1].executed) if runs else {},
            self.tries,
        )

    def _is_executed(self, runs: Mapping[str | int, Run]) -> bool:
        """Whether a launch runs to completion under each schedule."""
        return bool(runs) and not any(one.fault for one in runs.values())

    def _schedules(self, edits: Sequence[Edit], after: Seen) -> dict[str | int, Run] | None:
        """The runs under several schedules, if none shows a finding: all must give the same results if those of the original do. If
        control flow depends on memory contents, other contents are tried, too."""
        first = self.trying.own()
        runs: dict[str | int, Run] = {}
        conditions = [Conditions(schedule) for schedule in self.trying.schedules]
        ran = self.trying.run(edits)
        if ran is not None and ran.depends:
            conditions.append(Conditions(self.trying.schedule, RANDOM))
        for under in conditions:
            ran = self.trying.run(edits, under)
            if first is None or ran is None:
                continue
            if ran.fault == UNFIT and self.trying.kernel in after.complete:
                # a launch that ended early did not cover what follows
                ran = self.trying.run(edits, under, after.examples[self.trying.kernel]) or ran
            if not self._is_as_good(first, ran, under):
                return None
            if under.contents == COUNT:
                runs[under.schedule] = ran
        if first is not None and self._changes_results(first, runs, edits):
            self.reasons["it changes the results of runs in which nothing went wrong"] = None
            return None
        return runs

    def _is_as_good(self, first: Run, ran: Run, under: Conditions) -> bool:
        """Whether a run shows neither the finding nor anything new. `first` is the original run that showed it."""
        # the original text is run only if it makes a difference
        is_as_good = ran.found.keys() <= first.found.keys() and _ends_no_worse(first, ran)
        own = first if is_as_good else self.trying.own(under) or first
        if _is_stuck(own, ran):
            self.reasons["threads wait forever, with and without it: that must be repaired first"] = None
            return False
        target = self._target(own)
        others = own.found.keys() - target
        # if other findings occur in a launch, too, what else it shows by chance says nothing about the repair
        again = ran.found.keys() & target if others or own.fault else ran.found.keys()
        if under.contents != COUNT:
            again |= ran.found.keys() - own.found.keys()
        if not _ends_no_worse(own, ran) or again:
            how = f"under schedule {under.schedule}" if under.contents == COUNT else "with other contents of memory"
            self.reasons[f"{how}: {ran.why or 'it shows again'}"] = None
            return False
        return True

    def _changes_results(self, first: Run, runs: Mapping[str | int, Run], edits: Sequence[Edit]) -> bool:
        """Whether results differ from those of the original text, which are always the same.

        Racing threads may give the same wrong result under all schedules: then ordering them may change it, and must give the same result
        under all.
        """
        results = {one.memory for one in runs.values() if not one.fault}
        if first.fault or not results or results == {first.memory}:
            return False
        if len(results) == 1 and self._target(first) and all(one.start == one.end for one in edits):
            return False
        theirs = [self.trying.own(Conditions(schedule)) for schedule in runs]
        return all(one is not None and not one.fault and one.memory == first.memory for one in theirs)


def _least(waiting: list[tuple[int, Candidate]]) -> Iterator[tuple[Candidate, Says]]:
    """Candidates that suffice, lowest number first."""
    for _, one in sorted(waiting, key=lambda pair: pair[0]):
        yield one, Says.ENOUGH


def _ends_no_worse(own: Run, ran: Run) -> bool:
    """Whether a run ends as well as the original's, or better; a run that exceeds its time shows nothing."""
    return not ran.fault or ran.fault == own.fault or ran.fault in UNKNOWN or (bool(own.fault) and ran.fault == UNFIT)


def _is_stuck(own: Run, ran: Run) -> bool:
    """Whether threads deadlock, as in the original."""
    return ran.fault == "deadlock" == own.fault


__all__ = ["Solution", "Unsolved", "solve"]
