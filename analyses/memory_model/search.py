"""A search for the executions of a skeleton that the axioms allow.

Reads are successively assigned a write to read from, and the relations of chapter 8 are computed from the choices so far. Relations only
grow, and every axiom forbids some pair: so a contradiction is found early, and its branch is abandoned. Reads that determine the outcome
come first; once an outcome is known, one completion suffices. Writes and fences whose order is required but still open come last.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from ptxkit.analyses.memory_model.execution import AXIOMS, Execution, Values, cliques
from ptxkit.analyses.memory_model.expressions import Expression, reads_of, value_of
from ptxkit.analyses.memory_model.program import AsyncCopy, ProxyFence
from ptxkit.analyses.memory_model.relations import Relation, closed, composed, members
from ptxkit.analyses.memory_model.skeleton import Event, Skeleton, includes
from ptxkit.frozen import frozen

PATIENCE = (300, 600, 1200, 2400, 4800, 9600)
"""Number of steps after which a search restarts, for each attempt."""

Sources = dict[tuple[int, int], int]
"""For each read and cell, the write that it reads from."""
Pair = tuple[int, int]
Interest = list[tuple[int, Expression]]
"""What an outcome consists of: the thread (-1 for memory) and expression of each value."""


@frozen(eq=False)
class Node:
    """The choices so far, and their consequences."""

    sources: Sources
    coherence: tuple[Pair, ...]
    fences: tuple[Pair, ...]
    preserved: list[int]
    cause: list[int]
    order: list[int]


class Search:
    """The executions of a skeleton."""

    def __init__(self, skeleton: Skeleton, without: frozenset[str] = frozenset()) -> None:
        unknown = without - AXIOMS.keys()
        if unknown:
            raise ValueError(f"there is no axiom {min(unknown)}")
        self.skeleton = skeleton
        events = skeleton.events
        self.n = len(events)
        self.checks = {name: name not in without for name in AXIOMS}
        self.writers = [sum(1 << one.index for one in events if one.is_write and c in one.cells) for c in range(len(skeleton.cells))]
        self.decisions = [(one.index, c) for one in events if one.is_read for c in one.cells]
        self.writes = sum(1 << one.index for one in events if one.is_write)
        self.atomics = sum(1 << one.index for one in events if one.is_atomic)
        self.has_dependencies = any(skeleton.depends)
        static = [a | b | c for a, b, c in zip(skeleton.program_order, skeleton.asynchronous, skeleton.barriers, strict=True)]
        self.static = closed(static)
        self.releasing = [(i, row) for i, row in enumerate(skeleton.release_patterns) if row]
        strong_overlap = [a & b for a, b in zip(skeleton.morally_strong, skeleton.overlap, strict=True)]
        self.pairs = [
            (i, j)
            for i in members(self.writes)
            for j in members(strong_overlap[i] & self.writes)
            if i < j and events[i].thread != events[j].thread
        ]
        fences = [one.index for one in events if one.is_fence and one.sem == "sc"]
        self.fence_pairs: list[Pair] = []
        self.fixed_fences: tuple[Pair, ...] = ()
        for k, i in enumerate(fences):
            for j in fences[k + 1 :]:
                if skeleton.morally_strong[i] >> j & 1:
                    if events[i].thread == events[j].thread:
                        self.fixed_fences += ((i, j),)
                    else:
                        self.fence_pairs.append((i, j))
        self.strong = skeleton.morally_strong
        self.strong_writes = [row & self.writes if self.writes >> i & 1 else 0 for i, row in enumerate(strong_overlap)]
        self.updates = self.writes & sum(1 << one.index for one in events if one.is_atomic and one.is_read)
        self.forces = bool(self.pairs) and all(self.checks.values())
        self.cliques = [one for one in cliques(strong_overlap) if one.bit_count() > 1]
        self.strong_overlap = strong_overlap
        self.is_plain = all(one.proxy == "generic" for one in events if one.is_memory or one.sem == "proxy") and all(
            a & (self._real() | skeleton.initial | skeleton.final) == b
            for a, b in zip(skeleton.overlap, skeleton.same_address, strict=True)
        )
        if not self.is_plain:
            self._proxies()
        self.atomic_pairs = self._atomic_pairs()
        self.conflicts = self._conflicts()
        self.constraints = self._constraints()
        self.is_possible = all(self._holds(one, Values(skeleton, {})) is not False for one in self.constraints)

    def _real(self) -> int:
        return sum(1 << one.index for one in self.skeleton.events if one.thread >= 0)

    def _atomic_pairs(self) -> list[int]:
        """8.7.2: overlapping atomic operations whose scopes include each other."""
        events, threads = self.skeleton.events, self.skeleton.program.threads
        rows = [0] * self.n
        for i in members(self.atomics):
            for j in members(self.atomics & self.skeleton.overlap[i]):
                a, b = events[i], events[j]
                if includes(a.scope, threads[a.thread], threads[b.thread]) and includes(b.scope, threads[b.thread], threads[a.thread]):
                    rows[i] |= 1 << j
        return rows

    def _conflicts(self) -> list[Pair]:
        events = self.skeleton.events
        found = []
        for i in members(self._real()):
            for j in members(self.skeleton.overlap[i] & ~self.strong[i] & self._real()):
                a, b = events[i], events[j]
                if i < j and (a.is_write or b.is_write) and not (a.operation is b.operation and isinstance(a.operation, AsyncCopy)):
                    found.append((i, j))
        return found

    def _constraints(self) -> list[tuple[int, Expression, bool]]:
        found = []
        for t, path in enumerate(self.skeleton.paths):
            count = len(path.constraints)
            if t in self.skeleton.stuck:
                count = path.steps[self.skeleton.stuck[t]].constraints
            found += [(t, condition, truth) for condition, truth in path.constraints[:count]]
        return found

    def _proxies(self) -> None:
        """The proxy fences that may order each operation (9.7.14.4)."""
        skeleton = self.skeleton
        events, threads = skeleton.events, skeleton.program.threads
        spaces = {one.name: one.space for one in skeleton.program.variables}
        self.sided = [0] * self.n
        self.same_proxy = [0] * self.n
        self.alias_fences = 0
        self.generic = sum(1 << one.index for one in events if one.is_memory and one.proxy == "generic")
        for fence in events:
            if isinstance(fence.operation, ProxyFence):
                if fence.proxy == "alias":
                    self.alias_fences |= 1 << fence.index
                for one in events:
                    limits = fence.operation.spaces
                    if (
                        one.is_memory
                        and one.proxy != "generic"
                        and one.proxy == fence.proxy
                        and includes("cta", threads[fence.thread], threads[one.thread])
                        and (not limits or spaces[one.location] in limits)
                    ):
                        self.sided[one.index] |= 1 << fence.index
        for copy, wait in skeleton.implicit_fences:
            self.sided[copy] |= 1 << wait
        for one in events:
            for j in members(skeleton.same_address[one.index]):
                other = events[j]
                if one.thread >= 0 and other.thread >= 0 and one.proxy == other.proxy:
                    if includes("cta", threads[one.thread], threads[other.thread]):
                        self.same_proxy[one.index] |= 1 << j
        ends = skeleton.initial | skeleton.final
        self.with_ends = [row if ends >> i & 1 else row & ends for i, row in enumerate(skeleton.overlap)]

    def start(self) -> Node:
        """The node without choices."""
        node = self._node({}, (), self.fixed_fences)
        if node is None:
            raise AssertionError("an execution without reads contradicts an axiom")
        return node

    def observing(self, is_wanted: Callable[[Event, Event], bool]) -> Iterator[Node]:
        """Nodes in which a selected read takes all its bytes from a selected write."""
        events = self.skeleton.events
        for read in events:
            for write in events:
                if read.is_read and write.is_write and read is not write and set(read.cells) <= set(write.cells) and is_wanted(write, read):
                    node = self._node({(read.index, cell): write.index for cell in read.cells}, (), self.fixed_fences)
                    if node is not None:
                        yield node

    # The relations of chapter 8, from what is chosen so far. `execution` has them as they are written.

    def _node(self, sources: Sources, coherence: tuple[Pair, ...], fences: tuple[Pair, ...]) -> Node | None:
        """The consequences of choices; None if they contradict an axiom."""
        observed = self._observed(sources)
        base = self._base(observed, fences)
        if self.checks["fence-sc"]:
            for a, b in fences:
                if base[b] >> a & 1:
                    return None
        preserved = self._preserved(base)
        updates = self.atomics & self.writes
        cause = [
            row | self._image(seen, preserved) | (seen & updates) if seen else row for row, seen in zip(preserved, observed, strict=True)
        ]
        order = [0] * self.n
        for i in members(self.writes):
            order[i] = cause[i] & self.writes & self.skeleton.overlap[i]
        for a, b in coherence:
            order[a] |= 1 << b
        closed(order)
        return self._judged(Node(sources, coherence, fences, preserved, cause, order))

    def _judged(self, node: Node) -> Node | None:
        """The node with the forced order of writes; None if it contradicts an axiom."""
        order = node.order
        if self.forces and not self._forced(node.sources, node.cause, order):
            return None
        if self.checks["coherence"] and any(row >> i & 1 for i, row in enumerate(order)):
            return None
        return node if self._communicates(node.sources, node.preserved, node.cause, order) else None

    def _reading(self, node: Node, decision: Pair, write: int) -> Node | None:
        """The node in which a read takes a cell from a write. Without observation (8.9.2), causality is unchanged."""
        sources = {**node.sources, decision: write}
        if self.strong[write] >> decision[0] & 1:
            return self._node(sources, node.coherence, node.fences)
        return self._judged(Node(sources, node.coherence, node.fences, node.preserved, node.cause, list(node.order)))

    def _ordering(self, node: Node, first: int, second: int) -> Node | None:
        """The node in which one write precedes another in coherence order; causality is unchanged."""
        order = list(node.order)
        after = order[second] | 1 << second
        for i in members(self.writes):
            if i == first or order[i] >> first & 1:
                order[i] |= after
        return self._judged(Node(node.sources, (*node.coherence, (first, second)), node.fences, node.preserved, node.cause, order))

    @staticmethod
    def _image(events: int, rows: list[int]) -> int:
        found = 0
        while events:
            low = events & -events
            found |= rows[low.bit_length() - 1]
            events ^= low
        return found

    def _observed(self, sources: Sources) -> list[int]:
        rows = [0] * self.n
        events = self.skeleton.events
        for (read, cell), write in sources.items():
            if self.strong[write] >> read & 1:
                cells = events[read].cells
                if len(cells) == 1 or (cell == cells[0] and all(sources.get((read, c)) == write for c in cells)):
                    rows[write] |= 1 << read
        if not self.atomics:
            return rows
        found = []
        for row in rows:
            pending = row & self.atomics
            while pending:
                low = pending & -pending
                pending ^= low
                new = rows[low.bit_length() - 1] & ~row
                row |= new
                pending |= new & self.atomics
            found.append(row)
        return found

    def _base(self, observed: list[int], fences: tuple[Pair, ...]) -> list[int]:
        base = list(self.static)
        has_more = False
        acquire = self.skeleton.acquire_patterns
        for first, writes in self.releasing:
            reads = self._image(writes, observed)
            if reads:
                lasts = self._image(reads, acquire) & self.strong[first]
                if lasts & ~base[first]:
                    base[first] |= lasts
                    has_more = True
        for a, b in fences:
            if not base[a] >> b & 1:
                base[a] |= 1 << b
                has_more = True
        if has_more:
            closed(base)
        initial, final = self.skeleton.initial, self.skeleton.final
        others = ((1 << self.n) - 1) & ~initial
        return [others if initial >> i & 1 else row if final >> i & 1 else row | final for i, row in enumerate(base)]

    def _preserved(self, base: list[int]) -> list[int]:
        if self.is_plain:
            return [a & b for a, b in zip(base, self.skeleton.same_address, strict=True)]
        leave = [(1 << i if self.generic >> i & 1 else 0) | (base[i] & self.sided[i]) for i in range(self.n)]
        enter = [1 << i if self.generic >> i & 1 else 0 for i in range(self.n)]
        for i, row in enumerate(self.sided):
            for fence in members(row):
                if base[fence] >> i & 1:
                    enter[fence] |= 1 << i
        after = composed(leave, base)
        across = composed(after, enter)
        aliased = composed(composed([row & self.alias_fences for row in after], base), enter)
        skeleton = self.skeleton
        return [
            (across[i] & skeleton.same_address[i])
            | (aliased[i] & skeleton.overlap[i])
            | ((self.same_proxy[i] | self.with_ends[i]) & base[i])
            for i in range(self.n)
        ]

    def _communicates(self, sources: Sources, preserved: list[int], cause: list[int], order: list[int]) -> bool:
        """Whether the reads satisfy atomicity, causality and no thin air."""
        reads_from = [0] * self.n
        for (read, cell), write in sources.items():
            reads_from[write] |= 1 << read
            if self.checks["causality"] and preserved[read] >> write & 1:
                return False
            later = order[write] & self.writers[cell] & ~(1 << read)
            while later:
                low = later & -later
                later ^= low
                other = low.bit_length() - 1
                if self.checks["causality"] and cause[other] >> read & 1:
                    return False
                if self.checks["atomicity"] and (self.strong[read] | self.atomic_pairs[read]) & low:
                    if self.atomics >> read & 1 and self.writes >> read & 1 and order[other] >> read & 1:
                        return False
                    if self.strong[read] & low and any(sources.get((read, c)) == other for c in self.skeleton.events[read].cells):
                        return False
        if self.has_dependencies and self.checks["no-thin-air"]:
            chain = closed(composed(reads_from, self.skeleton.depends))
            return not any(row >> i & 1 for i, row in enumerate(chain))
        return True

    def _forced(self, sources: Sources, cause: list[int], order: list[int]) -> bool:
        """Orders pairs of writes for which only one order can satisfy the axioms; modifies `order`. False if none can."""
        strong_writes = self.strong_writes
        changed = True
        while changed:
            changed = False
            for (read, cell), write in sources.items():
                updates = self.updates >> read & 1
                others = strong_writes[write] & self.writers[cell] & ~(1 << read)
                for other in members(others):
                    if order[other] >> write & 1:
                        continue
                    if order[write] >> other & 1:
                        # it lies between the write that the atomic operation reads and, unless it follows, its own write
                        if updates and strong_writes[read] >> other & 1 and not order[read] >> other & 1:
                            order[read] |= 1 << other
                            changed = True
                    elif cause[other] >> read & 1 or (updates and strong_writes[read] >> other & 1 and order[other] >> read & 1):
                        order[other] |= 1 << write
                        changed = True
            if changed:
                closed(order)
                if any(row >> i & 1 for i, row in enumerate(order)):
                    return False
        return True

    def _is_sequential(self, node: Node) -> bool:
        """8.10.5, once all choices are made."""
        if not self.checks["sc-per-location"]:
            return True
        edges = [a | (b & self.skeleton.overlap[i]) for i, (a, b) in enumerate(zip(self.skeleton.program_order, node.order, strict=True))]
        for (read, cell), write in node.sources.items():
            edges[write] |= 1 << read
            edges[read] |= node.order[write] & self.writers[cell] & ~(1 << read)
        for clique in self.cliques:
            rows = closed([row & self.strong_overlap[i] & clique if clique >> i & 1 else 0 for i, row in enumerate(edges)])
            if any(row >> i & 1 for i, row in enumerate(rows)):
                return False
        return True

    # Choosing.

    def _holds(self, constraint: tuple[int, Expression, bool], values: Values) -> bool | None:
        thread, condition, truth = constraint
        value = value_of(condition, values.in_thread(thread))
        return None if value is None else bool(value) == truth

    def _candidates(self, node: Node, decision: Pair) -> int:
        """The writes that a read can take a cell from, according to causality."""
        read, cell = decision
        writers = self.writers[cell] & ~(1 << read)
        if not self.checks["causality"]:
            return writers
        found = writers & ~node.preserved[read]
        earlier = 0
        for write in members(writers):
            if node.cause[write] >> read & 1:
                earlier |= 1 << write
        for write in members(found):
            if node.order[write] & earlier:
                found ^= 1 << write
        return found

    def _tightest(self, node: Node) -> Pair | None:
        """The read with the fewest candidates; None if all reads are assigned."""
        best, fewest = None, self.n + 1
        for pair in self.decisions:
            if pair not in node.sources:
                count = self._candidates(node, pair).bit_count()
                if count < fewest:
                    best, fewest = pair, count
        return best

    def _choices(self, node: Node, decision: Pair) -> Iterator[Node]:
        """The nodes for each write that a read can take a cell from."""
        for write in members(self._candidates(node, decision)):
            following = self._reading(node, decision, write)
            if following is None:
                continue
            if self.constraints:
                values = Values(self.skeleton, following.sources)
                if any(self._holds(one, values) is False for one in self.constraints):
                    continue
            yield following

    def _needed(self, node: Node, thread: int, expression: Expression, seen: set[int]) -> Pair | None:
        """A read that must be assigned before the value of an expression is known."""
        for step in members(reads_of(expression)):
            event = step if thread < 0 else self.skeleton.threads[thread][step] if step < len(self.skeleton.threads[thread]) else -1
            if event < 0 or event in seen:
                continue
            seen.add(event)
            found = self._needed_by(node, event, seen)
            if found is not None:
                return found
        return None

    def _needed_by(self, node: Node, event: int, seen: set[int]) -> Pair | None:
        one = self.skeleton.events[event]
        if not one.is_memory:
            for other in (event, *members(self.skeleton.barriers[event])):
                found = self._needed(node, one.thread, self.skeleton.events[other].value, seen)
                if found is not None:
                    return found
            return None
        for cell in one.cells:
            write = node.sources.get((event, cell))
            if write is None:
                return event, cell
            source = self.skeleton.events[write]
            found = self._needed(node, source.thread, source.value, seen)
            if found is not None:
                return found
        return None

    def partial(
        self, interest: Interest, possible: Callable[[Sequence[int | None]], bool] | None = None
    ) -> Iterator[tuple[tuple[int, ...], Node]]:
        """Nodes in which the values of interest are known, with these values; only `possible` ones."""
        pending = [self.start()]
        while pending:
            node = pending.pop()
            decision = None
            for thread, expression in interest:
                decision = self._needed(node, thread, expression, set())
                if decision is not None:
                    break
            if decision is not None and possible is None:
                pending += self._choices(node, decision)
                continue
            values = Values(self.skeleton, node.sources)
            found = [value_of(one, values.read if thread < 0 else values.in_thread(thread)) for thread, one in interest]
            if possible is not None and not possible(found):
                continue
            if decision is not None:
                pending += self._choices(node, decision)
            elif None not in found:
                yield tuple(one for one in found if one is not None), node

    def complete(self, node: Node, racy: bool = False) -> Execution | None:
        """A complete execution that extends a node; with a data race, if requested.

        A bad early choice may be discovered late. So a long search restarts with another order of choices, each time with a larger limit,
        and finally without one.
        """
        for attempt, patience in enumerate((*PATIENCE, None)):
            found, is_settled = self._completed(node, racy, random.Random(attempt) if attempt else None, patience)
            if is_settled:
                return found
        return None

    def _completed(self, node: Node, racy: bool, shuffled: random.Random | None, patience: int | None) -> tuple[Execution | None, bool]:
        """An execution, and whether the answer is final: False if the limit was reached."""
        pending = [node]
        steps = 0
        while pending:
            steps += 1
            if patience is not None and steps > patience:
                return None, False
            one = pending.pop()
            if racy and not self._race_candidates(one):
                continue
            decision = self._tightest(one)
            if decision is not None:
                choices = list(self._choices(one, decision))
                if shuffled is not None:
                    shuffled.shuffle(choices)
                pending += choices
                continue
            steps += 10
            finished = self._ordered(one, racy)
            if finished is not None:
                return self._execution(finished), True
        return None, True

    def all(self) -> Iterator[Execution]:
        """Every execution of the skeleton, with all orders."""
        pending = [self.start()]
        while pending:
            node = pending.pop()
            decision = next((pair for pair in self.decisions if pair not in node.sources), None)
            if decision is not None:
                pending += self._choices(node, decision)
                continue
            if not self._is_valued(node):
                continue
            pair = next((one for one in self._open(node)), None)
            if pair is not None:
                pending += [one for one in self._both_orders(node, pair) if one is not None]
            elif self._is_sequential(node):
                yield self._execution(node)

    def _race_candidates(self, node: Node) -> list[Pair]:
        return [(i, j) for i, j in self.conflicts if not node.cause[i] >> j & 1 and not node.cause[j] >> i & 1]

    def _is_valued(self, node: Node) -> bool:
        values = Values(self.skeleton, node.sources)
        return all(self._holds(one, values) for one in self.constraints) and all(
            values.of(event) is not None for event, _ in self.decisions
        )

    def _open(self, node: Node) -> Iterator[tuple[bool, Pair]]:
        for i, j in self.fence_pairs:
            if (i, j) not in node.fences and (j, i) not in node.fences:
                yield True, (i, j)
        for i, j in self.pairs:
            if not node.order[i] >> j & 1 and not node.order[j] >> i & 1:
                yield False, (i, j)

    def _both_orders(self, node: Node, pair: tuple[bool, Pair]) -> list[Node | None]:
        is_fence, (i, j) = pair
        if not is_fence:
            return [self._ordering(node, i, j), self._ordering(node, j, i)]
        return [self._node(node.sources, node.coherence, (*node.fences, choice)) for choice in ((i, j), (j, i))]

    def _ordered(self, node: Node, racy: bool) -> Node | None:
        """The node with all required orders of writes and fences; None if no order satisfies the axioms.

        Usually the first order works. If not, both orders of each pair are tried before one is chosen.
        """
        if not self._is_valued(node):
            return None
        one: Node | None = node
        while one is not None and (not racy or self._race_candidates(one)):
            pair = next(self._open(one), None)
            if pair is None:
                if self._is_sequential(one):
                    return one
                break
            choices = self._both_orders(one, pair)
            one = choices[0] if choices[0] is not None else choices[1]
        return self._ordered_carefully(node, racy)

    def _ordered_carefully(self, node: Node, racy: bool) -> Node | None:
        pending = [node]
        while pending:
            one: Node | None = pending.pop()
            branch: list[Node] = []
            while one is not None:
                if racy and not self._race_candidates(one):
                    one = None
                    break
                branch = []
                for pair in self._open(one):
                    choices = [choice for choice in self._both_orders(one, pair) if choice is not None]
                    if len(choices) < 2:
                        one, branch = (choices[0], []) if choices else (None, [])
                        break
                    branch = branch or choices
                else:
                    break
            if one is None:
                continue
            if branch:
                pending += reversed(branch)
            elif self._is_sequential(one):
                return one
        return None

    def _execution(self, node: Node) -> Execution:
        events = self.skeleton.events
        chosen = [
            (i, j) if node.order[i] >> j & 1 else (j, i)
            for i in members(self.writes)
            for j in members(self.strong_overlap[i] & self.writes)
            if i < j and events[i].thread >= 0
        ]
        return Execution(self.skeleton, node.sources, Relation.of(self.n, chosen), Relation.of(self.n, node.fences))
