"""The control flow graph of a function (9.7.13).

A basic block is a run of instructions that control enters only at the top and leaves only at the bottom. A branch under a guard may
also fall through; so may `ret` and `exit`. `bra` names its target; `brx.idx` the label of a `.branchtargets` list. Labels are looked up
from the innermost `{}` outwards. What an opcode does to control, the instruction table says.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TypeVar

import attrs

from ptxkit.isa.binding import match
from ptxkit.syntax.nodes import Function, Instruction, Label, Name, Path, Targets

T = TypeVar("T")


@attrs.frozen
class BasicBlock:
    """Instructions `start` to `end` (exclusive) of `ControlFlow.instructions`, and where control goes from there."""

    index: int
    start: int
    end: int
    successors: tuple[int, ...]
    predecessors: tuple[int, ...]
    leaves: bool
    """Whether control may leave the function at the end of this block: by `ret`, `exit` or `trap`, or by a call that does not return."""
    falls_off: bool
    """Whether control may run past the last instruction of the function here."""


@attrs.frozen
class ControlFlow:
    """The graph of a function. Block 0 is the entry, if there are any instructions. Paths are those from the function."""

    instructions: tuple[tuple[Path, Instruction], ...]
    blocks: tuple[BasicBlock, ...]
    unknown_targets: tuple[Path, ...]
    """Branches to a label that is not in the function; their blocks go nowhere by them."""

    @property
    def reachable(self) -> frozenset[int]:
        """The indices of the blocks that control can reach from the entry."""
        seen = {0} if self.blocks else set()
        stack = list(seen)
        while stack:
            for successor in self.blocks[stack.pop()].successors:
                if successor not in seen:
                    seen.add(successor)
                    stack.append(successor)
        return frozenset(seen)


@functools.lru_cache(maxsize=4096)
def flow_of(opcode: str) -> str:
    """What an opcode does to control, as the instruction table says: `branch`, `branch-indexed`, `call`, `return`, `exit`, `trap`, or nothing."""
    return next((words[0].what for candidate in match(opcode) if (words := candidate.form.flow)), "")


def control_flow(function: Function, noreturn: frozenset[str] = frozenset()) -> ControlFlow:
    """The control flow graph of a function; without blocks if it has no body or no instruction.

    `noreturn` names the functions that do not come back when called.
    """
    instructions: list[tuple[Path, Instruction]] = []
    labels: dict[tuple[Path, str], int] = {}
    lists: dict[tuple[Path, str], Targets] = {}
    last_label: tuple[Path, str] | None = None
    for path, statement in function.statements():
        if isinstance(statement, Instruction):
            instructions.append((path, statement))
        elif isinstance(statement, Label):
            last_label = (path[:-1], statement.name.text)
            labels[last_label] = len(instructions)
            continue
        elif isinstance(statement, Targets) and last_label is not None:
            lists[last_label] = statement
        last_label = None
    if not instructions:
        return ControlFlow((), (), ())
    return _Graph(instructions, labels, lists, noreturn).build()


class _Graph:
    def __init__(
        self,
        instructions: list[tuple[Path, Instruction]],
        labels: dict[tuple[Path, str], int],
        lists: dict[tuple[Path, str], Targets],
        noreturn: frozenset[str],
    ) -> None:
        self.noreturn = noreturn
        self.instructions = instructions
        self.labels = labels
        self.lists = lists
        self.unknown: list[Path] = []

    def build(self) -> ControlFlow:
        count = len(self.instructions)
        leaders = {0}
        leaders.update(self.labels.values())
        ends: dict[int, tuple[tuple[int, ...], bool, bool]] = {}
        for i, (path, instruction) in enumerate(self.instructions):
            flow = flow_of(instruction.opcode.text)
            if not flow or flow == "brkpt" or (flow == "call" and not self._never_returns(instruction)):
                continue
            targets = self._targets(path, instruction, flow)
            falls = instruction.guard is not None
            ends[i] = (targets, falls, flow in ("return", "exit", "trap", "call"))
            leaders.add(i + 1)
            leaders.update(targets)
        starts = sorted(leader for leader in leaders if leader < count)
        index_of = {start: index for index, start in enumerate(starts)}
        successors: list[tuple[int, ...]] = []
        flags: list[tuple[bool, bool]] = []
        for index in range(len(starts)):
            end = starts[index + 1] if index + 1 < len(starts) else count
            targets, falls, leaves = ends.get(end - 1, ((), True, False))
            following = list(dict.fromkeys([*([end] if falls else []), *targets]))
            successors.append(tuple(index_of[target] for target in following if target < count))
            flags.append((leaves, any(target >= count for target in following)))
        predecessors: list[list[int]] = [[] for _ in starts]
        for index, following_blocks in enumerate(successors):
            for successor in following_blocks:
                predecessors[successor].append(index)
        blocks = tuple(
            BasicBlock(i, start, starts[i + 1] if i + 1 < len(starts) else count, successors[i], tuple(predecessors[i]), *flags[i])
            for i, start in enumerate(starts)
        )
        return ControlFlow(tuple(self.instructions), blocks, tuple(self.unknown))

    def _targets(self, path: Path, instruction: Instruction, flow: str) -> tuple[int, ...]:
        operands = instruction.operands
        if flow == "branch" and operands and isinstance(operands[0], Name):
            found = _find(self.labels, path, operands[0].text)
            if found is None:
                self.unknown.append(path)
            return () if found is None else (found,)
        if flow == "branch-indexed" and len(operands) > 1 and isinstance(operands[1], Name):
            listed = _find(self.lists, path, operands[1].text)
            if listed is None:
                self.unknown.append(path)
                return ()
            targets = [_find(self.labels, path, name.text) for name in listed.children]
            return tuple(dict.fromkeys(target for target in targets if target is not None))
        return ()

    def _never_returns(self, instruction: Instruction) -> bool:
        return any(isinstance(operand, Name) and operand.text in self.noreturn for operand in instruction.operands)


def _find(table: Mapping[tuple[Path, str], T], path: Path, name: str) -> T | None:
    """What a table of labels has for a name, looked for from the innermost scope around `path` outwards."""
    for length in range(len(path) - 1, 0, -1):
        found = table.get((path[:length], name))
        if found is not None:
            return found
    return None
