"""Path conditions: the outcomes of the branches on a path, and inputs that produce them.

Choices are kept consistent by what they imply for the same term, and by the range they leave for sums that are compared with constants.
That does not rule out every contradiction: before a path is reported as proof, `model` finds values of the kernel's inputs (parameters, CTA
index, loaded values) with which control really takes it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from ptxkit.analyses.cfg.dataflow import union
from ptxkit.analyses.cfg.reachability import unfold
from ptxkit.analyses.launch.inputs import candidates, fitted, starts
from ptxkit.analyses.numbers.arithmetic import OPERATORS, signed
from ptxkit.analyses.symbolic.environment import rebuilt
from ptxkit.analyses.symbolic.evaluate import is_atom, numbers
from ptxkit.analyses.symbolic.terms import SUM, Term, Terms, walk
from ptxkit.analyses.symbolic.thread_block import ThreadBlock
from ptxkit.frozen import frozen

MOST_LEAVES = 48
MOST_ROUNDS = 4
MOST_TRIED = 10_000
"""Maximum number of predicate evaluations; a solution, if found, usually takes a few hundred."""
MOST_EVALUATED = 200_000
"""Maximum number of term evaluations per thread; a solution usually takes a few hundred, or a few thousand with large terms."""
MOST_WITHIN = 8
"""Maximum number of nested predicates that are considered, outermost first."""

FLEETING = ("value", "skipped")
"""Leaves that stand for a different value in each iteration, if their data name the iteration."""

Model = Mapping[Term, int]
"""Values of leaves."""


@frozen(eq=False)
class Choices:
    """The predicates that have been decided on a path. Initially none."""

    terms: Terms
    taken: Mapping[Term, bool] = attrs.field(factory=dict)
    """By predicate (without negation), whether it holds."""
    ranges: Mapping[Term, tuple[int, int]] = attrs.field(factory=dict)
    """By sum without its constant, its minimum and maximum."""
    shape: frozenset[tuple[frozenset[Term], bool, bool]] = frozenset()
    """For the atoms of sums that are loop-invariant, whether the range is bounded below and above. Coefficients are left out: they grow
    without limit in a loop that adds an unknown value."""

    def says(self, condition: Term) -> bool | None:
        """Whether a predicate holds, if decided."""
        positive, is_positive = unnegated(condition)
        if positive.constant is not None:
            return bool(positive.constant) is is_positive
        found = self.taken.get(positive)
        if found is not None:
            return found is is_positive
        compared = comparison(self.terms, positive)
        if compared is None or (known := self.ranges.get(compared[0])) is None:
            return None
        holds, fails = (_narrowed(compared[0], known, compared[1:], path) for path in (True, False))
        if holds is None or fails is None:
            return (holds is not None) is is_positive
        return None

    def choose(self, condition: Term, holds: bool) -> Choices | None:
        """Adds a choice; None if it contradicts the earlier ones."""
        decided = self.says(condition)
        if decided is not None and decided is not holds:
            return None
        positive, is_positive = unnegated(condition)
        if positive.constant is not None:
            return self
        wanted = holds is is_positive
        ranges, shape = self.ranges, self.shape
        compared = comparison(self.terms, positive)
        if compared is not None:
            narrowed = _narrowed(compared[0], ranges.get(compared[0], _full_range(compared[0])), compared[1:], wanted)
            if narrowed is None:
                return None
            ranges = {**ranges, compared[0]: narrowed}
            low, high = _full_range(compared[0])
            if _is_loop_invariant(compared[0]):
                added = frozenset([atom for atom, _ in compared[0].linear[1]])
                shape = shape | {(added, narrowed[0] > low, narrowed[1] < high)}
        return Choices(self.terms, {**self.taken, positive: wanted}, ranges, shape)

    def model(
        self, thread_block: ThreadBlock, threads: Iterable[int], also: Iterable[tuple[Term, bool]] = (), others: Iterable[int] = ()
    ) -> Model | None:
        """Values of leaves with which all choices hold for each thread, and `also` too; None if none are found.

        For `others`, the choices hold; `also` is not required.
        """
        own = tuple(threads) or (0,)
        everyone = (*own, *[thread for thread in others if thread not in own])
        wanted = [(term, holds, everyone) for term, holds in self.taken.items()]
        wanted += [(term, holds, own) for term, holds in also]
        wanted += [(term, True, own) for term in self._within([term for term, _, _ in wanted])]
        wanted = [(part, comes, those) for term, holds, those in wanted for part, comes in conjuncts(self.terms, term, holds)]
        return _Search(thread_block, wanted, self.ranges).run()

    def _within(self, conditions: Iterable[Term]) -> Iterator[Term]:
        """What holds in any launch: an index in a grid or cluster is less than its extent."""
        indices = {leaf.name: leaf for term in conditions for leaf in term.leaves() if leaf.operator == "special"}
        for name, leaf in indices.items():
            count = indices.get(_COUNTS.get(name.partition(".")[0], "") + "".join(name.partition(".")[1:]))
            if count is not None:
                yield self.terms.apply("lt.u", 1, (leaf, count))


_COUNTS = {
    "%ctaid": "%nctaid",
    "%clusterid": "%nclusterid",
    "%cluster_ctaid": "%cluster_nctaid",
    "%cluster_ctarank": "%cluster_nctarank",
}
"""The extent of each index, by special register."""


def unnegated(condition: Term) -> tuple[Term, bool]:
    """A predicate without its negation, and whether there was none."""
    positive = condition.negated
    return (condition, True) if positive is None else (positive, False)


def conjuncts(terms: Terms, condition: Term, holds: bool) -> Iterator[tuple[Term, bool]]:
    """Predicates, with the required outcomes, that together imply the given outcome and are forced by it."""
    forced = functools.cache(functools.partial(_forced, terms))

    def plain(term: Term, comes: bool) -> tuple[Term, bool]:
        positive, is_positive = unnegated(term)
        return positive, comes is is_positive

    def parts(one: tuple[Term, bool]) -> list[tuple[Term, bool]]:
        part = forced(*one)
        return [] if part is None else [plain(_substituted(terms, one[0], *part), one[1]), plain(*part)]

    for positive, comes in unfold(plain(condition, holds), parts):
        if forced(positive, comes) is None and positive.constant != int(comes):
            yield positive, comes


def _forced(terms: Terms, condition: Term, holds: bool) -> tuple[Term, bool] | None:
    """A nested predicate, with its required outcome, whose opposite would force the wrong outcome."""
    if condition.width > 1 or condition.is_leaf:
        return None
    within = [part for part in walk(condition)[:-1] if part.width == 1 and part.operator != SUM]
    for part in within[::-1][:MOST_WITHIN]:
        for must in (True, False):
            if _substituted(terms, condition, part, not must).constant == (not holds):
                return part, must
    return None


def _substituted(terms: Terms, condition: Term, part: Term, holds: bool) -> Term:
    """A predicate with the outcome of a nested one substituted."""
    done = {part: terms.constant(int(holds), 1)}
    for at in walk(condition, done):
        same = at.is_leaf or at.operator not in (*OPERATORS, SUM) or all(done.get(inner) is inner for inner in at.inner)
        done[at] = at if same else rebuilt(terms, at, done)
    return done[condition]


def comparison(terms: Terms, condition: Term) -> tuple[Term, str, bool, int] | None:
    """The parts of a comparison: a sum X without constant, the operator, whether X or -X is compared, and the constant `k`.

    `lt`: X < k, or -X < k; `eq`: X = k, or -X = k.
    """
    if condition.operator not in ("lt.s", "lt.u", "eq"):
        return None
    a, b = condition.args
    if a.width > 64 or a.width < 8:
        return None
    difference = terms.sub(a, b)
    offset, parts = difference.linear
    if not parts:
        return None
    rest = terms.sub(difference, terms.constant(offset, a.width))
    flip = signed(parts[0][1], a.width) < 0
    return (terms.scale(rest, -1) if flip else rest), condition.operator, not flip, -signed(offset, a.width)


def _is_loop_invariant(term: Term) -> bool:
    """Whether a term is loop-invariant."""
    return all(len(leaf.data) < 2 or leaf.operator not in FLEETING for leaf in term.leaves())


def _full_range(term: Term) -> tuple[int, int]:
    return term.signed_bounds


def _narrowed(term: Term, known: tuple[int, int], compared: tuple[str, bool, int], holds: bool) -> tuple[int, int] | None:
    """The range left for a sum by the outcome of a comparison, rounded to the multiple that it is known to be."""
    low, high = known
    operator, as_is, number = compared
    if operator == "eq":
        number = number if as_is else -number
        if holds:
            low, high = max(low, number), min(high, number)
        elif low == high == number:
            return None
        else:
            low, high = low + (low == number), high - (high == number)
    elif as_is == holds:
        # X < k, or not -X < k: X <= -k
        high = min(high, number - 1 if as_is else -number)
    else:
        low = max(low, number if as_is else 1 - number)
    step = term.alignment or 1
    low, high = -(-low // step) * step, high // step * step
    return (low, high) if low <= high else None


class _Search:
    """A search for values that give predicates the required outcomes: one leaf after the other takes the value that satisfies most of them.

    The values of terms are cached for each thread: a new value of a leaf changes only the terms that depend on it.
    """

    def __init__(
        self, thread_block: ThreadBlock, wanted: list[tuple[Term, bool, tuple[int, ...]]], ranges: Mapping[Term, tuple[int, int]]
    ) -> None:
        self.thread_block = thread_block
        self.wanted = wanted
        """Predicates, their required outcomes, and the threads for which they are required."""
        self.ranges = ranges
        self.order: list[Term] = []
        """All terms of the predicates, each after its operands."""
        seen: set[Term] = set()
        for term, _, _ in wanted:
            new = walk(term, seen)
            seen.update(new)
            self.order += new
        self.leaves = [at for at in self.order if is_atom(at) and not self._is_index(at)]
        bit = {leaf: 1 << index for index, leaf in enumerate(self.leaves)}
        self.within: dict[Term, int] = {}
        """By term, the leaves in it, as bits."""
        for at in self.order:
            self.within[at] = union([bit.get(at, 0), *[self.within[inner] for inner in at.inner]])
        self.constants = {number for inner in _constants(self.order) for number in (inner - 1, inner, inner + 1)}
        self.numbers: dict[int, dict[Term, int | None]] = {thread: {} for _, _, threads in wanted for thread in threads}
        """By thread, the values of terms."""
        self.tried = 0
        self.evaluated = 0

    def _is_index(self, leaf: Term) -> bool:
        return leaf.operator == "special" and self.thread_block.vector(leaf) is not None

    def run(self) -> Model | None:
        if len(self.leaves) > MOST_LEAVES:
            return None
        for start in starts():
            if self._is_enough():
                break
            model = self._climb({leaf: fitted(start, leaf.alignment, leaf.bounds) for leaf in self.leaves})
            if model is not None:
                return model
        return None

    def _is_enough(self) -> bool:
        return self.tried > MOST_TRIED or self.evaluated > MOST_EVALUATED

    def _climb(self, model: dict[Term, int]) -> Model | None:
        self._evaluate(self.order, model)
        right = self._right(range(len(self.wanted)))
        for _ in range(MOST_ROUNDS):
            if all(right):
                return model
            before = list(right)
            for bit, leaf in enumerate(self.leaves):
                indices = [index for index, (term, _, _) in enumerate(self.wanted) if self.within[term] >> bit & 1]
                if self._is_enough() or all(right[index] for index in indices):
                    continue
                made = [at for at in self.order if self.within[at] >> bit & 1]
                best, number = sum([right[index] for index in indices]), model[leaf]
                for candidate in self._candidates(leaf):
                    model[leaf] = candidate
                    self._evaluate(made, model)
                    count = sum(self._right(indices))
                    if count > best:
                        best, number = count, candidate
                    if best == len(indices) or self.evaluated > MOST_EVALUATED:
                        break
                model[leaf] = number
                self._evaluate(made, model)
                for index, is_right in zip(indices, self._right(indices), strict=True):
                    right[index] = is_right
            if right == before:
                break
        return model if all(right) else None

    def _candidates(self, leaf: Term) -> Iterator[int]:
        return candidates(leaf.width, leaf.known, leaf.alignment, self.constants, self.ranges.get(leaf, ()))

    def _evaluate(self, terms: list[Term], model: Mapping[Term, int]) -> None:
        for thread, known in self.numbers.items():
            value = numbers(functools.partial(self._leaf, thread, model)).value
            for at in terms:
                known[at] = value(at, known)
        self.evaluated += len(terms) * len(self.numbers)

    def _right(self, indices: Sequence[int]) -> list[bool]:
        """For each of the given predicates, whether it has the required outcome for all of its threads."""
        self.tried += len(indices)
        own = [self.wanted[index] for index in indices]
        return [all(self.numbers[thread][term] == holds for thread in threads) for term, holds, threads in own]

    def _leaf(self, thread: int, model: Mapping[Term, int], leaf: Term) -> int | None:
        if leaf in model:
            return model[leaf]
        vector = self.thread_block.vector(leaf) if leaf.operator == "special" else None
        return vector[thread] if vector is not None else None


def atoms(term: Term) -> list[Term]:
    """The leaves in a term, and terms that cannot be evaluated: joins."""
    return [inner for inner in walk(term) if is_atom(inner)]


def _constants(terms: Iterable[Term]) -> set[int]:
    sums = [term for term in terms if term.operator == SUM]
    found = {signed(term.offset, term.width) if term.width > 1 else term.offset for term in sums}
    return {number for number in found if abs(number) < 1 << 32}
