"""The control flow graph of a function (9.7.13).

A basic block is a sequence of instructions that control enters only at the top and leaves only at the bottom. A guarded branch may also
fall through; so may `ret` and `exit`. `bra` names its target; `brx.idx` the label of a `.branchtargets` list. Labels are looked up from the
innermost `{}` outwards; a label that no branch names starts no block. The control flow of an opcode comes from the instruction table.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TypeVar

from ptxkit.analyses.cfg.reachability import post_order
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.frozen import frozen
from ptxkit.isa.opcodes import flow_of as flow_of  # re-exported for users of control flow
from ptxkit.names import Kind
from ptxkit.syntax import Function, Guard, Header, Instruction, Name, Path, Prototype, Targets

T = TypeVar("T")


class Via(enum.StrEnum):
    """How control takes an edge."""

    FALL = "fall"
    """Unconditional fall-through."""
    TAKEN = "taken"
    """A taken branch: its guard, if any, holds."""
    NOT_TAKEN = "not taken"
    """Fall-through because the guard of a branch or exit does not hold."""
    INDEXED = "indexed"
    """A `brx.idx`."""


@frozen
class Edge:
    """An edge between blocks. `indices` are the positions in the list of a `brx.idx` that lead here."""

    source: int
    target: int
    via: Via
    indices: tuple[int, ...] = ()


@frozen
class BasicBlock:
    """Instructions `start` to `end` (exclusive) of the function, with the successors."""

    index: int
    start: int
    end: int
    edges: tuple[Edge, ...]
    """The outgoing edges; two may lead to the same block."""
    successors: tuple[int, ...]
    predecessors: tuple[int, ...]
    leaves: str
    """How control may leave the function at the end of this block: `return`, `exit`, `trap`, `call` (that does not return), or empty."""
    falls_off: bool
    """Whether control may run past the last instruction of the function here."""

    @property
    def is_end(self) -> bool:
        """Whether control may leave the function here."""
        return bool(self.leaves) or self.falls_off


@frozen
class ControlFlow:
    """The graph of a function: blocks in document order. Block 0 is the entry, if there are any instructions."""

    blocks: tuple[BasicBlock, ...]
    unknown_targets: tuple[Path, ...]
    """Branches to labels outside the function, by their paths in it; they add no edges."""
    block_of: tuple[int, ...]
    """The block of each instruction."""

    @cached_property
    def successors(self) -> Callable[[int], tuple[int, ...]]:
        """The successors of a block, as a relation."""
        return tuple([block.successors for block in self.blocks]).__getitem__

    @cached_property
    def predecessors(self) -> Callable[[int], tuple[int, ...]]:
        """The predecessors of a block, as a relation."""
        return tuple([block.predecessors for block in self.blocks]).__getitem__

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The reachable blocks in reverse post-order: each before its successors, except for back edges."""
        return _reverse_post_order(len(self.blocks), 0, self.successors)

    @cached_property
    def reachable(self) -> frozenset[int]:
        """The blocks reachable from the entry."""
        return frozenset(self.order)

    def __repr__(self) -> str:
        return f"<ControlFlow of {len(self.blocks)} blocks, {sum(len(block.edges) for block in self.blocks)} edges>"

    def _repr_html_(self) -> str:
        rows = [
            f"<tr><td>{block.index}</td><td>{block.start}–{block.end - 1}</td>"
            f"<td>{', '.join(map(str, block.successors)) or 'out'}</td></tr>"
            for block in self.blocks
        ]
        return "<table><tr><th>block</th><th>instructions</th><th>goes to</th></tr>" + "".join(rows) + "</table>"


def _reverse_post_order(count: int, entry: int, successors: Callable[[int], tuple[int, ...]]) -> tuple[int, ...]:
    """The nodes reachable from the entry in reverse post-order of a depth-first walk that takes first successors first."""
    return tuple(post_order(entry, successors))[::-1] if count else ()


def _is_noreturn(function: Function) -> bool:
    return _says_noreturn(function.header)


def _says_noreturn(header: Header) -> bool:
    return any(directive.name == ".noreturn" for directive in header.directives)


@fact
def control_flow(routine: Routine) -> ControlFlow:
    """The control flow graph of a function; without blocks if it has no instruction.

    For instance:

        >>> from ptxkit import parse
        >>> from ptxkit.analyses import routines
        >>> body = "LOOP: add.u32 %r, %r, 1; setp.lt.u32 %p, %r, 9; @%p bra LOOP; ret;"
        >>> (kernel,) = routines(parse(f".entry k() {{ .reg .pred %p; .reg .b32 %r; {body} }}"))
        >>> [(block.index, block.successors) for block in control_flow(kernel).blocks]
        [(0, (1, 0)), (1, ())]
    """
    return _Graph(routine).build()


class _Graph:
    def __init__(self, routine: Routine) -> None:
        self.routine = routine
        self.unknown: list[Path] = []

    def build(self) -> ControlFlow:
        instructions = self.routine.instructions
        count = len(instructions)
        ends: dict[int, tuple[list[tuple[int, Via, tuple[int, ...]]], str]] = {}
        leaders = {0, count}
        flows: dict[str, str] = {}
        for i, instruction in enumerate(instructions):
            children = instruction.children
            guarded = type(children[0]) is Guard
            opcode = children[1 if guarded else 0].text
            flow = flows.get(opcode)
            if flow is None:
                flow = flows[opcode] = flow_of(opcode)
            if not flow or flow == "brkpt" or (flow == "call" and not self._never_returns(i, instruction)):
                continue
            kinds = self._targets(i, instruction, flow)
            if guarded:
                kinds.insert(0, (i + 1, Via.NOT_TAKEN, ()))
            ends[i] = (kinds, "" if flow.startswith("branch") else flow)
            leaders.add(i + 1)
            leaders.update([how[0] for how in kinds])
        starts = sorted(leaders)
        return self._blocks(starts, ends, count)

    def _blocks(self, starts: list[int], ends: dict[int, tuple[list[tuple[int, Via, tuple[int, ...]]], str]], count: int) -> ControlFlow:
        index_of = {start: index for index, start in enumerate(starts)}
        edges: list[tuple[Edge, ...]] = []
        leaving: list[tuple[str, bool]] = []
        predecessors: list[list[int]] = [[] for _ in starts]
        block_of: list[int] = []
        for index, (start, end) in enumerate(itertools.pairwise(starts)):
            kinds, leaves = ends.get(end - 1) or ([(end, Via.FALL, ())], "")
            edges.append(tuple([Edge(index, index_of[at], via, indices) for at, via, indices in kinds if at < count]))
            leaving.append((leaves, any(at >= count for at, _, _ in kinds)))
            block_of += [index] * (end - start)
        successors = [tuple(dict.fromkeys([edge.target for edge in own])) for own in edges]
        for index, following in enumerate(successors):
            for successor in following:
                predecessors[successor].append(index)
        blocks = tuple(
            [
                BasicBlock(i, starts[i], starts[i + 1], edges[i], successors[i], tuple(predecessors[i]), *leaving[i])
                for i in range(len(edges))
            ]
        )
        return ControlFlow(blocks, tuple(self.unknown), tuple(block_of))

    def _targets(self, i: int, instruction: Instruction, flow: str) -> list[tuple[int, Via, tuple[int, ...]]]:
        operands = instruction.operands
        path = self.routine.paths[i]
        name = operands[-1].text if operands else ""
        if flow == "branch":
            found = find_label(self.routine.labels, path, name)
            if found is None:
                self.unknown.append(path)
                return []
            return [(found, Via.TAKEN, ())]
        if flow != "branch-indexed":
            return []
        listed = find_label(self.routine.lists, path, name)
        if listed is None:
            self.unknown.append(path)
            return []
        positions: dict[int, list[int]] = {}
        for position, label in enumerate(listed.children):
            found = find_label(self.routine.labels, path, label.text)
            if found is None:
                self.unknown.append(path)
            else:
                positions.setdefault(found, []).append(position)
        return [(at, Via.INDEXED, tuple(indices)) for at, indices in positions.items()]

    def _never_returns(self, i: int, instruction: Instruction) -> bool:
        """Whether a call certainly does not return: the function, the prototype or all functions of the list are `.noreturn`."""
        called = callees(self.routine, i, instruction)
        if called.prototype is not None and _says_noreturn(called.prototype):
            return True
        names = self.routine.names.root
        found = [names.lookup(name) for name in called.names]
        return bool(found) and all(
            symbol is not None and isinstance(symbol.declares, Function) and _is_noreturn(symbol.declares) for symbol in found
        )


@frozen
class Callees:
    """The possible callees of a call: functions by name; for an indirect call, those of its target list, or any with its prototype."""

    names: tuple[str, ...]
    prototype: Prototype | None = None
    is_indirect: bool = False


@fact
def calls(routine: Routine) -> tuple[int, ...]:
    """The instructions that call a function, even if their operands do not match the table."""
    flows: dict[str, bool] = {}
    found = []
    for i, instruction in enumerate(routine.instructions):
        opcode = instruction.opcode.text
        is_call = flows.get(opcode)
        if is_call is None:
            is_call = flows[opcode] = flow_of(opcode) == "call"
        if is_call:
            found.append(i)
    return tuple(found)


def callees(routine: Routine, i: int, instruction: Instruction) -> Callees:
    """The callees of the call instruction `i`; empty if unknown (9.7.13.5)."""
    path = routine.paths[i]
    names = [operand.text for operand in instruction.operands if isinstance(operand, Name)]
    for name in names[1:2]:
        listed = find_label(routine.lists, path, name)
        if isinstance(listed, Prototype):
            return Callees((), listed, True)
        if isinstance(listed, Targets):
            return Callees(tuple([child.text for child in listed.children]), None, True)
    symbol = routine.names.root.lookup(names[0]) if names else None
    return Callees((names[0],)) if symbol is not None and symbol.kind is Kind.FUNCTION else Callees(())


def find_label(table: Mapping[tuple[Path, str], T], path: Path, name: str) -> T | None:
    """Looks up a name in a table of labels, from the innermost scope around `path` outwards."""
    for length in range(len(path) - 1, 0, -1):
        found = table.get((path[:length], name))
        if found is not None:
            return found
    return None
