"""Dominators, post-dominators, dominance frontiers and control dependence of a function's blocks.

Block A dominates B if every path from the entry to B goes through A; it post-dominates B if every path from B to an end goes through A. An
end is a block where control may leave the function. A loop without an exit gets an end at its header, so that every block reaches one.

For barriers, only threads that have not exited count. So there is a second post-dominator tree, which ignores early exits with no further
effect: after `if (i >= n) return;`, the rest depends on no branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import attrs

from ptxkit.analyses.cfg.dataflow import solve
from ptxkit.analyses.cfg.graph import BasicBlock, ControlFlow, control_flow
from ptxkit.analyses.cfg.reachability import closure, nearest_first, unfold
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.numbers.bits import bits
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.isa.mismatch import Mismatch

Neighbors = Callable[[int], Sequence[int]]


@frozen(eq=False)
class DominatorTree:
    """A dominator tree. The root of post-dominators is a virtual end: its number is the number of blocks."""

    root: int
    parent: tuple[int, ...]
    """The immediate dominator of each block: the root's is itself; -1 for a block that the root does not reach."""
    order: tuple[int, ...]
    """The blocks of the tree, root included, each after its dominators."""
    _enter: tuple[int, ...] = attrs.field(repr=False)
    _leave: tuple[int, ...] = attrs.field(repr=False)
    _joins: tuple[tuple[int, tuple[int, ...]], ...] = attrs.field(repr=False)

    def __contains__(self, block: int) -> bool:
        return self.parent[block] >= 0

    def dominates(self, a: int, b: int) -> bool:
        """Whether `a` dominates `b`; a block dominates itself. False if either is not in the tree."""
        return self._enter[a] >= 0 and self._enter[b] >= 0 and self._enter[a] <= self._enter[b] and self._leave[b] <= self._leave[a]

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """The blocks that each block immediately dominates, in tree order."""
        found: list[list[int]] = [[] for _ in self.parent]
        for block in self.order:
            if block != self.root:
                found[self.parent[block]].append(block)
        return tuple(map(tuple, found))

    def tour(self) -> Iterator[tuple[int, bool]]:
        """A depth-first walk of the tree: each block on entry, and again, with True, after everything that it dominates."""
        children = self.children

        def after(at: tuple[int, bool]) -> list[tuple[int, bool]]:
            block, is_left = at
            return [] if is_left else [(block, True), *[(child, False) for child in reversed(children[block])]]

        return unfold((self.root, False), after)

    @cached_property
    def frontiers(self) -> tuple[int, ...]:
        """The dominance frontier of each block, as bits: the blocks with a predecessor that it dominates, but that it does not properly
        dominate.

        In a post-dominator tree, these are the blocks on whose branch a block depends: control dependence.
        """
        found = [0] * len(self.parent)
        own = [0] * len(self.parent)
        for block in self.order:
            if block != self.root:
                own[self.parent[block]] |= 1 << block
        for join, predecessors in self._joins:
            for predecessor in predecessors:
                if join == self.root or self.parent[join] != predecessor:
                    found[predecessor] |= 1 << join
        for block in reversed(self.order):
            if found[block] and block != self.root:
                found[self.parent[block]] |= found[block] & ~own[self.parent[block]]
        return tuple(found)

    @cached_property
    def deciding(self) -> tuple[tuple[int, ...], ...]:
        """The frontiers as block numbers, ascending."""
        return tuple([tuple(bits(frontier)) for frontier in self.frontiers])

    def decide(self, block: int) -> Iterator[int]:
        """The iterated dominance frontier of a block, nearest first; with post-dominators, all blocks whose branches control it."""
        return nearest_first(self.deciding[block], self.deciding.__getitem__)


@frozen(eq=False)
class Dominance:
    """The three trees of a function."""

    tree: DominatorTree
    post: DominatorTree
    """Post-dominators, with every exit of the function as an end."""
    staying: DominatorTree
    """Post-dominators for threads that have not exited: early exits with no further effect are cut."""

    def depends_on(self, block: int, staying: bool = False) -> tuple[int, ...]:
        """The blocks whose branches directly decide whether this block is executed (control dependence), in document order."""
        return (self.staying if staying else self.post).deciding[block]

    def first_deciding(self, block: int) -> list[int]:
        """The blocks whose branches directly decide whether control reaches this block for the first time."""
        tree = self.tree
        return [before for before in self.depends_on(block) if before in tree and not tree.dominates(block, before)]

    def decided_by(self, block: int, staying: bool = False) -> set[int]:
        """The blocks whose branches decide, directly or through others, whether this block is executed."""
        return closure(self.depends_on(block, staying), lambda branch: self.depends_on(branch, staying))

    def __repr__(self) -> str:
        return f"<Dominance of {len(self.tree.parent)} blocks>"


@fact
def dominators(routine: Routine) -> Dominance:
    """Dominators and both kinds of post-dominators."""
    flow = control_flow(routine)
    blocks = flow.blocks
    if not blocks:
        empty = DominatorTree(0, (), (), (), (), ())
        return Dominance(empty, empty, empty)
    tree = dominator_tree(len(blocks), 0, lambda b: blocks[b].successors, lambda b: blocks[b].predecessors)
    post = _post_dominators(flow, [block.successors for block in blocks], [block.is_end for block in blocks])
    cut = _without_early_exits(routine, flow)
    return Dominance(tree, post, post if cut is None else _post_dominators(flow, *cut))


def dominator_tree(count: int, root: int, successors: Neighbors, predecessors: Neighbors) -> DominatorTree:
    """The dominator tree of any graph, by the Lengauer–Tarjan algorithm, without recursion."""
    number, vertex, parent = depth_first(count, root, successors)
    size = len(vertex)
    semi = list(range(size))
    ancestor = [-1] * size
    label = list(range(size))
    dominator = [0] * size
    buckets: list[list[int]] = [[] for _ in range(size)]

    def best(v: int) -> int:
        if ancestor[v] < 0:
            return v
        path = []
        at = v
        while ancestor[ancestor[at]] >= 0:
            path.append(at)
            at = ancestor[at]
        for node in reversed(path):
            above = ancestor[node]
            if semi[label[above]] < semi[label[node]]:
                label[node] = label[above]
            ancestor[node] = ancestor[above]
        return label[v]

    for w in range(size - 1, 0, -1):
        for before in predecessors(vertex[w]):
            v = number[before]
            if v >= 0:
                u = best(v)
                if semi[u] < semi[w]:
                    semi[w] = semi[u]
        buckets[semi[w]].append(w)
        above = parent[w]
        ancestor[w] = above
        for v in buckets[above]:
            u = best(v)
            dominator[v] = u if semi[u] < semi[v] else above
        buckets[above].clear()
    for w in range(1, size):
        if dominator[w] != semi[w]:
            dominator[w] = dominator[dominator[w]]
    return _tree(count, root, vertex, number, dominator, predecessors)


def depth_first(count: int, root: int, successors: Neighbors) -> tuple[list[int], list[int], list[int]]:
    """The number of each node (-1 if unreachable), the node of each number, and each one's parent by number."""
    number = [-1] * count
    number[root] = 0
    vertex = [root]
    parent = [0]
    stack = [(0, iter(successors(root)))]
    while stack:
        at, rest = stack[-1]
        for successor in rest:
            if number[successor] < 0:
                number[successor] = len(vertex)
                parent.append(at)
                stack.append((len(vertex), iter(successors(successor))))
                vertex.append(successor)
                break
        else:
            stack.pop()
    return number, vertex, parent


def _tree(count: int, root: int, vertex: list[int], number: list[int], dominator: list[int], predecessors: Neighbors) -> DominatorTree:
    parent = [-1] * count
    inside = [1] * len(vertex)
    for w in range(len(vertex) - 1, 0, -1):
        inside[dominator[w]] += inside[w]
    enter = [-1] * count
    leave = [-1] * count
    next_free = [0] * len(vertex)
    parent[root], enter[root], leave[root] = root, 0, inside[0]
    next_free[0] = 1
    for w in range(1, len(vertex)):
        block, above = vertex[w], dominator[w]
        parent[block] = vertex[above]
        enter[block] = next_free[above]
        leave[block] = enter[block] + inside[w]
        next_free[above] += inside[w]
        next_free[w] = enter[block] + 1
    joins = []
    for block in vertex:
        before = tuple([p for p in predecessors(block) if number[p] >= 0])
        if len(before) > 1 or (before and block == root):
            joins.append((block, before))
    return DominatorTree(root, tuple(parent), tuple(vertex), tuple(enter), tuple(leave), tuple(joins))


def _post_dominators(flow: ControlFlow, successors: list[tuple[int, ...]], ends: list[bool]) -> DominatorTree:
    """The dominator tree of the reversed graph, from a virtual end that every block reaches. A loop without an end has it at the last
    block whose exit was cut, or at its header."""
    count = len(flow.blocks)
    before: list[list[int]] = [[] for _ in range(count + 1)]
    after = [list(following) for following in successors]
    for block, following in enumerate(successors):
        for successor in following:
            before[successor].append(block)
    before[count] = [block for block in range(count) if ends[block] or not successors[block]]
    after.append([])
    reached = closure(before[count], before.__getitem__)
    if len(reached) < count:
        position = {block: rank for rank, block in enumerate(flow.order)}
        stuck = [block for block in range(count) if block not in reached]
        for component in components(stuck, lambda block: successors[block]):
            inside = set(component)
            if all(successor in inside for block in component for successor in successors[block]):
                order = sorted(component, key=lambda block: (position.get(block, count), block))
                exits = [block for block in order if successors[block] != flow.blocks[block].successors]
                before[count].append(exits[-1] if exits else order[0])
    for block in before[count]:
        after[block].append(count)
    return dominator_tree(count + 1, count, before.__getitem__, after.__getitem__)


def components(nodes: Sequence[int], successors: Neighbors) -> list[list[int]]:
    """The strongly connected components of the subgraph of these nodes, by Tarjan's algorithm without recursion."""
    inside = set(nodes)
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    for start in nodes:
        if start in index:
            continue
        index[start] = low[start] = len(index)
        stack.append(start)
        on_stack.add(start)
        work = [(start, iter(successors(start)))]
        while work:
            node, rest = work[-1]
            for successor in rest:
                if successor not in inside:
                    continue
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    stack.append(successor)
                    on_stack.add(successor)
                    work.append((successor, iter(successors(successor))))
                    break
                if successor in on_stack and index[successor] < low[node]:
                    low[node] = index[successor]
            else:
                work.pop()
                if work and low[node] < low[work[-1][0]]:
                    low[work[-1][0]] = low[node]
                if low[node] == index[node]:
                    component = []
                    while node in on_stack:
                        component.append(stack.pop())
                        on_stack.discard(component[-1])
                    found.append(component)
    return found


def _without_early_exits(routine: Routine, flow: ControlFlow) -> tuple[list[tuple[int, ...]], list[bool]] | None:
    """The remaining successors and ends after cutting early exits with no further effect; None if there are none."""
    blocks = flow.blocks
    silent = quiet(routine)
    successors = []
    ends = []
    changed = False
    for block in blocks:
        staying = tuple([successor for successor in block.successors if not silent[successor]])
        leaves_early = block.is_end and bool(staying)
        if not staying or (len(staying) == len(block.successors) and not leaves_early):
            successors.append(block.successors)
            ends.append(block.is_end)
            continue
        changed = True
        successors.append(staying)
        ends.append(False)
    return (successors, ends) if changed else None


@fact
def quiet(routine: Routine) -> tuple[bool, ...]:
    """By block, whether every path from its start leaves the function with no effect visible to others, or ends in a trap."""
    flow, bounds = control_flow(routine), bindings(routine)
    blocks = flow.blocks
    ends = [True if block.is_end and not block.successors else None for block in blocks]
    return solve(flow, lambda block, after: after and _is_idle(blocks[block], bounds), all, ends.__getitem__, False, backward=True).before


def _is_idle(block: BasicBlock, bounds: Sequence[Bound | Mismatch]) -> bool:
    if block.leaves in ("trap", "call") and not block.successors:
        return True
    return all(_does_nothing(bound) for bound in bounds[block.start : block.end])


def _does_nothing(bound: Bound | Mismatch) -> bool:
    """Whether an instruction has no effect visible to other threads."""
    if isinstance(bound, Mismatch) or not bound.form.modelled:
        return False
    return not (
        bound.memory
        or bound.effects
        or bound.converges
        or bound.barrier
        or bound.asynchronous
        or bound.completes
        or bound.flow in ("call", "brkpt")
    )
