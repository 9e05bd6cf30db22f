"""The repair of one finding: candidates are tried until one is enough, weakened as far as it stays so, and left out piece by piece."""

from __future__ import annotations

import enum
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

import attrs

from ptxkit.analyses.dynamic.exercise import RANDOM
from ptxkit.analyses.execution.contents import COUNT
from ptxkit.analyses.execution.execute import UNKNOWN
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
"""So much time of a processor the tries for one finding may take."""
MOST_TRIES = 40
"""So many candidates are tried for one finding."""
MOST_BETTER = 6
"""So many further repairs are looked at where one leaves other findings of the function."""
MOST_FURTHER = 8
"""So many further candidates are tried where a run of one shows other things that it showed before."""
MOST_EDITS = 3
"""A repair has no more steps than this."""


class Says(enum.Enum):
    """What a try says of a candidate."""

    ENOUGH = "enough"
    LESS = "less"
    """Less goes wrong, and nothing new."""
    NO = "no"


@frozen(eq=False)
class Solution:
    """A repair that was proved: its edits, and what is found afterwards."""

    steps: tuple[Candidate, ...]
    edits: tuple[Edit, ...]
    after: Seen
    schedules: tuple[str | int, ...]
    """Those under which the launch of the witness was run."""
    compiler: str
    """What took it; empty: no compiler could be asked."""
    is_complete: bool
    """Whether all threads ran to completion in the launch of the witness."""
    has_equal_results: bool
    """Whether all these runs left the same in memory."""
    why: str
    """What ended a run, if anything did."""
    executed: dict[int, float]
    """By line of the text afterwards, how often a thread executes an instruction that synchronizes there, on average."""
    tries: int

    @property
    def says(self) -> tuple[str, ...]:
        """What its steps do."""
        return tuple([one.says for one in self.steps])


@frozen
class Unsolved:
    """Why there is no repair."""

    why: str
    tries: int = 0


def solve(looking: Looking, seen: Seen, finding: Diagnostic, compilers: Sequence[str] = ()) -> Solution | Unsolved:
    """A proved repair of a finding of a text, or why there is none."""
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
        """What of the finding runs may still show, if nothing else finds it."""

    def run(self) -> Solution | Unsolved:
        """Candidates for the finding; where one is only a part of the cure, further ones for what is left."""
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
        """The candidates by which less goes wrong, after some edits. One after which the run still shows what it showed besides the finding
        waits for the next ones: what lint takes for the fault of who made the launch up may be the same mistake."""
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
        """How much of what a run of the text itself shows besides the finding one of the edited text shows, too."""
        own, ran = self.trying.own(), self.trying.run(edits)
        if own is None or ran is None or self.finding.witness is None:
            return 0
        return len((own.found.keys() - self._target(own)) & ran.found.keys())

    def _whole(self, steps: tuple[Candidate, ...], edits: Sequence[Edit]) -> Solution | None:
        """A part of the cure as a repair: what a run shows besides may be no error by itself, as another launch does not show it."""
        own, ran = self.trying.own(), self.trying.run(edits)
        if own is None or ran is None:
            return None
        self.forgiven = self._target(own) & ran.found.keys()
        found = self._proved(steps)
        self.forgiven = frozenset()
        return found

    @property
    def _is_over(self) -> bool:
        """Whether enough was tried."""
        return self.tries >= MOST_TRIES or time.process_time() > self.end

    def _is_best(self, found: Solution) -> bool:
        """Whether a repair leaves nothing in its function, or enough others were looked at. The best one is kept."""
        left = self._others(found)
        if self.best is None or left < self._others(self.best):
            self.best = found
        self.better += 1
        return not left or self.better > MOST_BETTER

    def _others(self, found: Solution) -> int:
        """How many errors and warnings a repair leaves in the function."""
        return sum([one.function == self.finding.function and one.severity is not Severity.INFO for one in found.after.found])

    def _why(self) -> str:
        if not self.tries:
            return "no local edit is known that could cure it"
        tried = f"{self.tries} edit{'s were' if self.tries > 1 else ' was'} tried, and none cures it"
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
            # the name of a race may be another one when more was seen of it
            lines = {key[1] for key in own.found}
            return target <= found or (not own.fault and any(key[1] not in lines for key in found))

        ran = self.trying.run(edits, is_enough=is_enough)
        # a run that came to its end too early shows nothing of what would have come
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
        """What of a run of the text itself is this finding."""
        lines = {self.finding.span.line, *[one.span.line for one in self.finding.related]}
        family = self.finding.rule[0]
        found = [key for key, one in own.found.items() if key[1] <= lines and one.diagnostic.rule[0] == family]
        return frozenset(found or [key for key in own.found if key[1] <= lines]) - self.forgiven

    def _argued(self, edits: Sequence[Edit]) -> Says:
        """What the rule itself says of the edited text."""
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
        """The forms of a candidate that are enough in the launch of the witness, the weakest first."""
        found = [one]
        for weaker in one.weaker:
            if self._says(joined((*edits, *weaker.edits))) is not Says.ENOUGH:
                break
            found.append(weaker)
        return found[::-1]

    def _rest(self, edits: Sequence[Edit]) -> Trouble | None:
        """What is left of the finding after some edits, in terms of the text before."""
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
            self.reasons[f"after `{steps[0].says}` no launch is known that runs to completion: {ran.why}"] = None
            return None
        for rest in parts([step for one in steps for step in ([one.edits] if one.is_move else [[edit] for edit in one.edits])]):
            if self._says(rest) is Says.ENOUGH and not self.trying.left(self.trying.after(rest), rest):
                return self._proved((Candidate(steps[0].says, rest, steps[0].price),))
        all_ran = self._schedules(edits, after)
        if all_ran is None:
            return None
        if self.finding.witness is None and any(one.is_number for one in steps) and not self._is_executed(all_ran):
            self.reasons[f"no launch is known that shows that `{steps[0].says}` is the right number"] = None
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
        """The runs under several schedules, if none shows anything: all give the same results if those of the text itself do. Where it
        depends on contents of memory what a thread does, others are tried, too."""
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
                # a launch that ended early was no launch of what comes then
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
        """Whether a run shows nothing of the finding, or anything new. `first` is that of the text itself that showed it."""
        # what the text itself does is asked where it makes a difference
        is_as_good = ran.found.keys() <= first.found.keys() and _ends_no_worse(first, ran)
        own = first if is_as_good else self.trying.own(under) or first
        if _is_stuck(own, ran):
            self.reasons["threads wait without end, before and after: that is to be repaired first"] = None
            return False
        target = self._target(own)
        others = own.found.keys() - target
        # in a launch in which other things go wrong, too, what else shows by chance says nothing of the repair
        again = ran.found.keys() & target if others or own.fault else ran.found.keys()
        if under.contents != COUNT:
            again |= ran.found.keys() - own.found.keys()
        if not _ends_no_worse(own, ran) or again:
            how = f"under schedule {under.schedule}" if under.contents == COUNT else "with other contents of memory"
            self.reasons[f"{how}: {ran.why or 'it shows again'}"] = None
            return False
        return True

    def _changes_results(self, first: Run, runs: Mapping[str | int, Run], edits: Sequence[Edit]) -> bool:
        """Whether results are others than those of the text itself, which always gives the same.

        Threads that race may give the same under all schedules, and be wrong: then what orders them may change it, and must give the same
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
    """Candidates that are enough, those with the least number first."""
    for _, one in sorted(waiting, key=lambda pair: pair[0]):
        yield one, Says.ENOUGH


def _ends_no_worse(own: Run, ran: Run) -> bool:
    """Whether a run ends as that of the text itself does, or better; one that takes longer than there is time shows nothing."""
    return not ran.fault or ran.fault == own.fault or ran.fault in UNKNOWN or (bool(own.fault) and ran.fault == UNFIT)


def _is_stuck(own: Run, ran: Run) -> bool:
    """Whether threads wait without end, as they did."""
    return ran.fault == "deadlock" == own.fault


__all__ = ["Solution", "Unsolved", "solve"]
