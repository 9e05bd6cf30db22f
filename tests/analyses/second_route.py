"""The same facts by other means, slow and plain: to compare with. Used by the tests and by benchmarks/facts.py.

The graph is made anew, instruction by instruction, from opcode names. Liveness and reaching definitions walk back from each read;
dominators come from networkx.
"""

from __future__ import annotations

from collections.abc import Iterator

import networkx as nx

from ptxkit.analyses.cfg.dominators import DominatorTree, dominators
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.loops import loops
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.numbers.bits import bits
from ptxkit.analyses.registers.liveness import liveness
from ptxkit.analyses.registers.reaching import reaching
from ptxkit.analyses.registers.registers import registers
from ptxkit.syntax import Block, Instruction, Label, Node, Targets

END = -1
OUTSIDE = -1


def graph_of(routine: Routine) -> list[set[int]]:
    """By instruction, those that may come next; END for a way out."""
    flat: list[tuple[tuple[Node, ...], Node]] = []

    def visit(block: Node, scopes: tuple[Node, ...]) -> None:
        for child in block.children:
            if isinstance(child, Block):
                visit(child, (*scopes, child))
            else:
                flat.append((scopes, child))

    assert routine.function.body is not None
    visit(routine.function.body, (routine.function.body,))
    at = -1
    position: dict[tuple[int, str], int] = {}
    lists: dict[tuple[int, str], Targets] = {}
    label = ""
    total = sum(isinstance(node, Instruction) for _, node in flat)
    for scopes, node in flat:
        if isinstance(node, Instruction):
            at += 1
        elif isinstance(node, Label):
            label = node.name.text
            position.setdefault((id(scopes[-1]), label), at + 1)
        elif isinstance(node, Targets):
            lists.setdefault((id(scopes[-1]), label), node)
    noreturn = {f.name for f in routine.module.functions if ".noreturn" in f.header.text}
    following: list[set[int]] = []
    for scopes, node in flat:
        if not isinstance(node, Instruction):
            continue
        i = len(following)
        opcode = node.opcode.text.split(".")
        ahead = i + 1 if i + 1 < total else END

        def place(name: str, scopes: tuple[Node, ...] = scopes) -> set[int]:
            for scope in reversed(scopes):
                if (id(scope), name) in position:
                    found = position[id(scope), name]
                    return {found if found < total else END}
            return set()

        if opcode[0] == "bra":
            own = place(node.operands[0].text)
        elif opcode[:2] == ["brx", "idx"]:
            listed = next((lists[id(s), node.operands[1].text] for s in reversed(scopes) if (id(s), node.operands[1].text) in lists), None)
            own = set().union(*[place(child.text) for child in listed.children]) if listed is not None else set()
        elif opcode[0] in ("ret", "exit", "trap") or (opcode[0] == "call" and noreturn & {o.text for o in node.operands}):
            own = {END}
        else:
            own = {ahead}
        following.append(own | {ahead} if node.guard is not None else own)
    return following


def differences(routine: Routine, whole: bool = True) -> Iterator[str]:
    """Where the facts and those of the second route differ, in words. `whole` compares the reaching definitions of every read too."""
    yield from _flow(routine)
    yield from _dominance(routine)
    yield from _loops(routine)
    yield from _liveness(routine)
    if whole:
        yield from _reaching(routine)


def _flow(routine: Routine) -> Iterator[str]:
    flow = control_flow(routine)
    following = graph_of(routine)
    starts = {block.start for block in flow.blocks}
    if [i for block in flow.blocks for i in range(block.start, block.end)] != list(range(len(following))):
        yield "blocks do not cover the instructions"
    for block in flow.blocks:
        for i in range(block.start, block.end - 1):
            if following[i] != {i + 1}:
                yield f"instruction {i} is inside a block and goes to {following[i]}"
        found = {flow.blocks[s].start for s in block.successors} | ({END} if block.is_end else set())
        if found != following[block.end - 1]:
            yield f"block {block.index} goes to {found}, should be {following[block.end - 1]}"
        if block.successors != tuple(dict.fromkeys(edge.target for edge in block.edges)):
            yield f"edges and successors of block {block.index} differ"
    entered = {0, *[to for i, own in enumerate(following) for to in own if to != END and own != {i + 1}]}
    if not entered <= starts and following:
        yield f"jumps into blocks: {entered - starts}"


def _dominance(routine: Routine) -> Iterator[str]:
    flow, found = control_flow(routine), dominators(routine)
    if not flow.blocks:
        return
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(flow.blocks)))
    graph.add_edges_from((block.index, successor) for block in flow.blocks for successor in block.successors)
    yield from _tree("dominator", found.tree, graph, 0)
    end = len(flow.blocks)
    back = graph.reverse()
    back.add_node(end)
    back.add_edges_from((end, block.index) for block in flow.blocks if block.is_end or not block.successors)
    stuck = set(graph) - nx.descendants(back, end)
    inner = graph.subgraph(stuck)
    rank = {block: place for place, block in enumerate(flow.order)}
    for component in nx.strongly_connected_components(inner):
        if all(successor in component for block in component for successor in graph.successors(block)):
            back.add_edge(end, min(component, key=lambda block: (rank.get(block, end), block)))
    yield from _tree("post-dominator", found.post, back, end)


def _tree(what: str, tree: DominatorTree, graph: nx.DiGraph, root: int) -> Iterator[str]:
    parents = dict(nx.immediate_dominators(graph, root))
    parents[root] = root
    own = {block: parent for block, parent in enumerate(tree.parent) if parent >= 0}
    if own != parents:
        yield f"{what}s differ: {[(b, own.get(b), parents.get(b)) for b in graph if own.get(b) != parents.get(b)][:5]}"
        return
    frontiers = nx.dominance_frontiers(graph, root)
    mine = {block: set(bits(tree.frontiers[block])) for block in own}
    theirs = {block: set(frontiers.get(block, ())) for block in own}
    if mine != theirs:
        yield f"{what} frontiers differ: {[(b, mine[b], theirs[b]) for b in own if mine[b] != theirs[b]][:5]}"


def _loops(routine: Routine) -> Iterator[str]:
    """Natural loops, where the header dominates what goes back to it; of others what must hold of any loop."""
    flow, tree, forest = control_flow(routine), dominators(routine).tree, loops(routine)
    graph = nx.DiGraph((b, to) for b in flow.order for to in flow.blocks[b].successors)
    graph.add_nodes_from(flow.order)
    cyclic = set().union(*[part for part in nx.strongly_connected_components(graph) if len(part) > 1], nx.nodes_with_selfloops(graph))
    if {block for block, inner in enumerate(forest.innermost) if inner is not None} != cyclic:
        yield "blocks in loops differ from blocks on cycles"
    natural: dict[int, set[int]] = {}
    for source, header in graph.edges:
        if tree.dominates(header, source):
            body = {header, source}
            work = [source] if source != header else []
            while work:
                new = set(graph.predecessors(work.pop())) - body
                body |= new
                work += new
            natural.setdefault(header, set()).update(body)
    mine = {loop.header: set(bits(loop.blocks)) for loop in forest.loops}
    if all(loop.is_reducible for loop in forest.loops) and mine != natural:
        yield f"loops differ: {mine} should be {natural}"
    for loop in forest.loops:
        inside = mine[loop.header]
        entries = {to for before, to in graph.edges if to in inside and before not in inside} | ({0} & inside)
        if entries | {loop.header} != set(loop.entries):
            yield f"entries of loop {loop.index} differ"
        if len(inside) > 1 and not nx.is_strongly_connected(graph.subgraph(inside)):
            yield f"loop {loop.index} is no cycle"
        if loop.parent is not None and not inside < mine[forest.loops[loop.parent].header]:
            yield f"loop {loop.index} is not inside its parent"
    for block, inner in enumerate(forest.innermost):
        if inner is not None and any(block in other and other.depth > forest.loops[inner].depth for other in forest.loops):
            yield f"block {block} is in a deeper loop"


def _liveness(routine: Routine) -> Iterator[str]:
    """From each read back to the writes before it, a register at a time."""
    flow, named, live = control_flow(routine), registers(routine), liveness(routine)
    following = graph_of(routine)
    before = _backwards(following)
    wanted: dict[int, set[int]] = {}
    sure: dict[int, set[int]] = {}
    for i, (read, written) in enumerate(zip(named.reads, named.writes, strict=True)):
        for register in read:
            wanted.setdefault(register, set()).add(i)
        for register in written:
            if routine.instructions[i].guard is None and i not in named.unknown:
                sure.setdefault(register, set()).add(i)
    for i, after in enumerate(following):
        if END in after and _falls(routine, i):
            for register in named.returned:
                wanted.setdefault(register, set()).add(OUTSIDE)
    into: list[set[int]] = [set() for _ in following]
    for register, reads in wanted.items():
        stops = sure.get(register, set())
        work = [i for i in reads if i >= 0]
        if OUTSIDE in reads:
            work += [i for i, after in enumerate(following) if END in after and i not in stops and _falls(routine, i)]
        seen = set(work)
        while work:
            i = work.pop()
            into[i].add(register)
            for earlier in before[i]:
                if earlier not in seen and earlier not in stops:
                    seen.add(earlier)
                    work.append(earlier)
    for block in flow.blocks:
        mine = set(bits(live.before[block.index]))
        if mine != into[block.start]:
            yield f"live before block {block.index}: {mine ^ into[block.start]}"
        theirs = set().union(*[into[i] for i in following[block.end - 1] if i != END])
        if block.falls_off:
            theirs |= set(named.returned)
        if set(bits(live.after[block.index])) != theirs:
            yield f"live after block {block.index} differs"
        if len(following) <= 3000:
            for i, alive in live.points(block.index):
                if i + 1 < block.end and set(bits(alive)) != into[i + 1]:
                    yield f"live after instruction {i} differs"


def _falls(routine: Routine, i: int) -> bool:
    return routine.instructions[i].opcode.mnemonic not in ("ret", "exit", "trap", "call")


def _backwards(following: list[set[int]]) -> list[list[int]]:
    before: list[list[int]] = [[] for _ in following]
    for i, after in enumerate(following):
        for to in after:
            if to != END:
                before[to].append(i)
    return before


def _reaching(routine: Routine) -> Iterator[str]:
    """From each read back to all writes that it may see."""
    named, found = registers(routine), reaching(routine)
    following = graph_of(routine)
    before = _backwards(following)
    reachable = {0} if following else set()
    work = [0] if following else []
    while work:
        for to in following[work.pop()] - reachable - {END}:
            reachable.add(to)
            work.append(to)
    readers: dict[tuple[int, int], set[int]] = {}
    for i in sorted(reachable):
        for register in set(named.reads[i]):
            theirs = set()
            seen = set()
            back = [i]
            while back:
                at = back.pop()
                if at == 0:
                    theirs.add(OUTSIDE)
                for earlier in before[at]:
                    if earlier in seen or earlier not in reachable:
                        continue
                    seen.add(earlier)
                    if register in named.writes[earlier]:
                        theirs.add(earlier)
                    if register not in named.strong(earlier):
                        back.append(earlier)
            for write in theirs - {OUTSIDE}:
                readers.setdefault((write, register), set()).add(i)
            if set(found.definitions(i, register)) != theirs:
                yield f"instruction {i} reads {named.table[register].name}: {found.definitions(i, register)}, should be {sorted(theirs)}"
    for i in sorted(reachable):
        for register in set(named.writes[i]):
            if set(found.uses(i, register)) != readers.get((i, register), set()):
                yield f"what instruction {i} writes to {named.table[register].name} is read by {found.uses(i, register)}"
