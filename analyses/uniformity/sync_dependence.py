"""Where threads that diverge at a branch reconverge, and which loops they leave in different iterations.

Values that differ between paths merge where disjoint paths from the branch meet: there, the value that a thread has depends on the path it
took (sync dependence). A thread that leaves a loop before another keeps the values of an earlier iteration (temporal divergence). Both are
found by labels, as in LLVM's uniformity analysis: each path out of the branch is a label, which is propagated from block to block; a block
that two labels reach is a join, and propagates a label of its own.
"""

from __future__ import annotations

import heapq

from ptxkit.analyses.cfg.dominators import DominatorTree
from ptxkit.analyses.cfg.graph import ControlFlow
from ptxkit.analyses.cfg.loops import LoopForest
from ptxkit.frozen import frozen


@frozen
class Divergence:
    """The consequences of divergence at the end of a block."""

    joins: frozenset[int]
    """The blocks where disjoint paths from there meet."""
    loops: frozenset[int]
    """The loops, by index, that some threads leave while others iterate again."""


NOTHING = Divergence(frozenset(), frozenset())


class Divergences:
    """The divergences of a function, computed on demand."""

    def __init__(self, flow: ControlFlow, forest: LoopForest, post: DominatorTree) -> None:
        self._flow = flow
        self._forest = forest
        self._post = post
        self._known: dict[int, Divergence] = {}
        self._index = {block: position for position, block in enumerate(flow.order)}
        self._exits: dict[int, frozenset[int]] = {}
        self._is_reducible = all(loop.is_reducible for loop in forest.loops)

    def of(self, block: int) -> Divergence:
        """The consequences of divergence at the end of a block."""
        found = self._known.get(block)
        if found is None:
            found = self._known[block] = self._find(block) if len(self._flow.blocks[block].successors) > 1 else NOTHING
        return found

    def _around(self, block: int) -> list[int]:
        """The loops around a block, innermost first."""
        found = []
        inner = self._forest.innermost[block]
        while inner is not None:
            found.append(inner)
            inner = self._forest.loops[inner].parent
        return found

    def _find(self, block: int) -> Divergence:
        # all reconverge at the immediate post-dominator, unless some iterate a loop first and so arrive an iteration later
        stop = self._post.parent[block]
        label, joins = self._labels(block, stop)
        around = self._around(block)
        if stop < len(self._flow.blocks):
            for index in around:
                loop = self._forest.loops[index]
                if stop in loop and (not loop.is_reducible or (loop.header in label and loop.header != stop)):
                    stop = len(self._flow.blocks)
                    label, joins = self._labels(block, stop)
                    break
        left = frozenset([index for index in around if self._is_left(index, stop, label)])
        return Divergence(frozenset(joins), left)

    def _labels(self, block: int, stop: int) -> tuple[dict[int, int], set[int]]:
        """The labels of the blocks between a branch and the point where all certainly reconverge, and the blocks that two labels reach."""
        blocks, position = self._flow.blocks, self._index
        around = self._around(block)
        outermost = self._forest.loops[around[-1]].blocks if around else 0
        label: dict[int, int] = {}
        joins: set[int] = set()
        queue: list[tuple[int, int]] = []
        waiting: set[int] = set()

        def arrive(target: int, given: int) -> None:
            old = label.get(target)
            if old is None:
                label[target] = given
            elif old == given or target in joins:
                return
            else:
                joins.add(target)
                label[target] = target
            if target not in (stop, block) and target not in waiting:
                waiting.add(target)
                heapq.heappush(queue, (position[target], target))

        for successor in blocks[block].successors:
            arrive(successor, successor)
        while queue:
            if len(queue) == 1 and self._is_reducible and stop not in label:
                last = queue[0][1]
                if not outermost >> last & 1 and all(position[seen] <= position[last] for seen in label):
                    # all remaining paths pass through here, and what follows leads back to no labelled block
                    break
            _, at = heapq.heappop(queue)
            waiting.discard(at)
            for successor in blocks[at].successors:
                arrive(successor, label[at])
        return label, joins

    def _is_left(self, index: int, stop: int, label: dict[int, int]) -> bool:
        """Whether some threads leave a loop around the branch while others stay: its exits and its back edges have different labels."""
        loop = self._forest.loops[index]
        if not loop.is_reducible:
            return True
        back = label.get(loop.header)
        stays = back is not None or (stop in loop if stop < len(self._flow.blocks) else False)
        if not stays:
            return False
        exits = self._exits.get(index)
        if exits is None:
            exits = self._exits[index] = frozenset([to for _, to in self._forest.exits(loop)])
        return any(label[to] != back for to in exits if to in label)
