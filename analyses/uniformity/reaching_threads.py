"""The threads of a CTA that reach an instruction, thread by thread.

A thread reaches a block if the branches that control it send it there. That is known where their conditions depend only on the thread index
(see `template`). `sure` and `possible` concern the first time: in loops, values are those of the first iteration. `ever` includes later
iterations.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import Edge, Via, control_flow
from ptxkit.analyses.cfg.reachability import post_order
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.launch.launch import WARP
from ptxkit.analyses.registers.ssa import Origin, ssa
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.symbolic.vectors import Numbers
from ptxkit.analyses.threads.lanes import Lanes, holding
from ptxkit.analyses.uniformity.broadcasts import handed_out
from ptxkit.analyses.uniformity.propagation import Propagation
from ptxkit.analyses.uniformity.transfer import How, transfer
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound


@frozen
class Coming:
    """Threads as bit masks. With `one`, only one thread of each warp."""

    sure: int
    """Certainly reach it."""
    possible: int
    """May reach it, the first time."""
    ever: int
    """May reach it at any time."""
    one: bool = False


class First(Lanes):
    """The values of terms for each thread of a template, the first time that it reaches a block."""

    def __init__(self, solved: Propagation) -> None:
        super().__init__(solved.routine)
        self.template = solved.template
        self.threads = solved.template.threads
        self._handed_out = handed_out(solved.routine).of

    def _special(self, name: str) -> Numbers | None:
        return self.template.specials(name)

    def _leaf_moves(self, leaf: Term) -> bool:
        return super()._leaf_moves(leaf) or (leaf.operator == "value" and self._handed_out(leaf) is not None)

    def _leaf(self, leaf: Term, block: int) -> Numbers | None:
        source = self._handed_out(leaf) if leaf.operator == "value" else None
        if source is None:
            return super()._leaf(leaf, block)
        received = self.numbers(source[0], block)
        if received is None:
            return None
        lanes = [index - index % WARP + source[1] for index in range(len(received))]
        return tuple([received[lane] for lane in lanes]) if max(lanes) < len(received) else None


class Reach:
    """The threads that reach each block, in a function that all threads of a CTA enter."""

    def __init__(self, solved: Propagation) -> None:
        self.template = solved.template
        self.first = First(solved)
        self.all = (1 << len(self.template.threads)) - 1
        self._routine = solved.routine
        self._flow = control_flow(solved.routine)
        self._dominance = dominators(solved.routine)
        self._values = values(solved.routine)
        self._found: dict[int, Coming] = {}
        self._followed: set[int] = set()
        """The merges whose predecessors are being looked at."""

    def block(self, block: int) -> Coming:
        """The threads that reach a block."""
        found = self._found
        if block not in found:
            for at in post_order(block, lambda at: [before for before in self._dominance.first_deciding(at)[::-1] if before not in found]):
                found[at] = self._make(at, self._dominance.first_deciding(at))
        return found[block]

    def instruction(self, i: int) -> Coming:
        """The threads that execute an instruction: those that reach it and whose guard holds."""
        block = self._flow.block_of[i]
        coming = self.block(block)
        guard = self._values.guard(i)
        return coming if guard is None else self._narrowed(coming, guard, block)

    def _make(self, block: int, decides: Sequence[int]) -> Coming:
        if not decides:
            return Coming(self.all, self.all, self.all)
        paths = [
            self._taken(self._found.get(before, Coming(0, self.all, self.all)), edge)
            for before in decides
            for edge in self._flow.blocks[before].edges
            if self._dominance.post.dominates(block, edge.target)
        ]
        if not paths:
            return Coming(0, self.all, self.all)
        if len(paths) == 1:
            return paths[0]
        ones = any(path.one for path in paths)
        sure = possible = ever = 0
        for path in paths:
            sure |= 0 if path.one else path.sure
            possible |= path.possible
            ever |= path.ever
        return Coming(0 if ones else sure, possible, ever)

    def _taken(self, coming: Coming, edge: Edge) -> Coming:
        block = self._flow.blocks[edge.source]
        guard = self._values.guard(block.end - 1)
        if edge.via is Via.FALL or (edge.via is Via.TAKEN and guard is None):
            return coming
        if guard is None or edge.via is Via.INDEXED:
            return Coming(0, coming.possible, coming.ever)
        return self._narrowed(coming, guard if edge.via is Via.TAKEN else self._values.terms.invert(guard), edge.source)

    def _narrowed(self, coming: Coming, condition: Term, block: int) -> Coming:
        """Those of the threads for which a condition holds."""
        elected, rest = self.elected(condition)
        if elected and not coming.one:
            narrowed = coming if rest is None else self._narrowed(coming, rest, block)
            return Coming(narrowed.sure, narrowed.possible, narrowed.ever, True)
        always = self.template.numbers(condition)
        first = always or self.first.numbers(condition, block)
        if first is None:
            for part in self._all_of(condition):
                coming = self._narrowed(coming, part, block)
            coming = self._merged(coming, condition)
        if first is None or (coming.one and not self._is_same(first)):
            return Coming(0, coming.possible, coming.ever)
        holds = holding(first)
        return Coming(coming.sure & holds, coming.possible & holds, coming.ever & (holds if always else self.all), coming.one)

    def _merged(self, coming: Coming, condition: Term) -> Coming:
        """Those of the threads that come to a merge from where a predicate may have the value that a condition asks for, as that of a flag
        that one thread has set."""
        negated = condition.negated
        merge = condition if negated is None else negated
        number = merge.ssa_value
        if merge.operator != "join" or merge.width != 1 or number is None:
            return coming
        value = ssa(self._routine).values[number]
        sources = self._flow.blocks[value.block].predecessors
        is_loop = any(self._dominance.tree.dominates(value.block, before) for before in sources)
        if is_loop or value.block in self._followed or len(value.operands) != len(sources):
            return coming
        self._followed.add(value.block)
        ever = 0
        for operand, before in zip(value.operands, sources, strict=True):
            if operand >= 0 and self._values.of(operand).constant != int(negated is not None):
                for edge in self._flow.blocks[before].edges:
                    ever |= self._taken(self.block(before), edge).ever if edge.target == value.block else 0
        self._followed.discard(value.block)
        return Coming(0, coming.possible & ever, coming.ever & ever, coming.one)

    def _all_of(self, condition: Term) -> tuple[Term, ...]:
        """The conjuncts of a condition; empty if it is not a conjunction."""
        if condition.operator == "and":
            return condition.args
        positive = condition.negated
        if positive is not None and positive.operator == "or":
            return tuple([self._values.terms.invert(one) for one in positive.args])
        return ()

    def _is_same(self, numbers: Numbers) -> bool:
        return all(len(set(numbers[start : start + WARP])) == 1 for start in range(0, len(numbers), WARP))

    def elected(self, condition: Term) -> tuple[bool, Term | None]:
        """Whether a condition holds for one unknown lane of each warp, and what else it requires."""
        if self._is_elected(condition):
            return True, None
        if condition.operator == "and":
            for one, other in (condition.args, condition.args[::-1]):
                if self._is_elected(one):
                    return True, other
        return False, None

    def _is_elected(self, leaf: Term) -> bool:
        number = leaf.ssa_value
        if leaf.operator != "value" or number is None:
            return False
        numbering = ssa(self._routine)
        value = numbering.values[number]
        bound = bindings(self._routine)[value.instruction] if value.origin is Origin.WRITE else None
        if not isinstance(bound, Bound) or value.operands:
            return False
        index = number - numbering.definitions[value.instruction][0]
        return transfer(bound).of(index)[0] is How.ONE
