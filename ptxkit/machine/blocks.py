"""The basic blocks of a function: where they end, what follows them, and their order.

A block ends at control flow, and before and after every instruction at which lanes may wait: for other lanes of their warp, at a barrier,
or for an asynchronous operation. Blocks are numbered in reverse post-order, so that of two groups, the one at the lower block has further
to go.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import chain
from typing import Any

import attrs
import numpy as np

from ptxkit.frozen import define
from ptxkit.isa.binding import Bound, without_operands
from ptxkit.machine.fault import Stop
from ptxkit.machine.interfaces import Body
from ptxkit.syntax import Guard, Targets

STRONG = "strong"
"""A block ends after an access that other threads may wait for, so that a schedule can run others before the next access."""

WAITING = frozenset(("mbarrier", "griddepcontrol", "nanosleep", "tcgen05"))
"""Instructions at which lanes may wait, although the table has no barrier or convergence for them."""


class BasicBlock:
    """Instructions `start` to `end` (exclusive). `kind` describes the end of the block, and `last` is the index of the instruction there,
    or -1.

    `fall` and `taken` are positions in `Body.blocks`: -1 if control runs off the end of the function. Kinds: `fall`, `branch` (`negated`
    guard or none), `indexed`, `call`, `return`, `exit`, `trap`, `sync` (an instruction at which lanes may wait; it is alone in its block).
    """

    kind = "fall"
    last = -1
    guard = -1
    negated = False
    taken = -1
    targets: tuple[int, ...] = ()
    chain: Chain | None = None
    """The chain that contains the block."""
    run: Any = None
    """The compiled code, created when the block is first executed."""
    wait: Any = None
    """For a `sync` block: how lanes wait there (`compiling.Waiting`)."""
    call: Any = None
    both: Any = None
    """For a branch: its two sides, if both are short and only compute (`sides.execute_both`)."""
    _live: set[int] | None = None
    _live_out: set[int] | None = None
    _registers: list[int] | None = None

    def __init__(self, body: Body, start: int, end: int, fall: int) -> None:
        self.body = body
        self.start = start
        self.end = end
        self.fall = fall

    @property
    def live(self) -> set[int]:
        """The registers that are live at the start; an overapproximation until liveness is computed."""
        if self._live is None:
            if self.body.liveness.is_provisional():
                return self.body.liveness.written  # type: ignore[no-any-return]
            self.body.liveness.work_out(self)
        return self._live  # type: ignore[return-value]

    @property
    def live_out(self) -> set[int] | None:
        """The registers that are live at the end, including those that the last instruction reads; None if unknown."""
        if self._live_out is None:
            if self.body.liveness.is_provisional():
                return None
            self.body.liveness.work_out(self)
        return self._live_out

    def worked_out(self, live: set[int], live_out: set[int]) -> None:
        """Sets the live registers at the start and at the end."""
        self._live, self._live_out = live, live_out

    @property
    def registers(self) -> list[int]:
        """The numbers of the registers that are live at the start, ascending."""
        if self._registers is None:
            self.body.liveness.settle()
            self._registers = sorted(self.live)
        return self._registers

    @property
    def kept(self) -> Any:
        """The registers that a group keeps when it is split or joined at the start."""
        if self.body.liveness.keeps_dead:
            return range(len(self.body.types))
        return self._registers or (self.live if self.body.liveness.is_provisional() else self.registers)

    @property
    def instructions(self) -> list[int]:
        """The indices of its instructions, with the one at its end."""
        return [*range(self.start, self.end), *([self.last] if self.last >= 0 else [])]

    @property
    def successors(self) -> tuple[int, ...]:
        if self.kind in ("fall", "call", "sync"):
            return (self.fall,)
        if self.kind == "branch":
            return (self.taken, self.fall) if self.guard >= 0 else (self.taken,)
        if self.kind == "indexed":
            return self.targets
        return ()


@define(eq=False)
class Chain:
    """Blocks that control can only pass one after the other, from the first to the last."""

    blocks: list[BasicBlock]
    successors: list[int] = attrs.field(factory=list)
    """The chains that may follow."""
    reads: set[int] = attrs.field(factory=set)
    """The registers that it reads before it writes them."""
    live: int = 0
    """The registers that are live at the start, as a bit set in the order of `Liveness.crossing`."""
    votes: dict[int, list[np.dtype[Any]]] | None = None
    """For each register, the dtypes as which the instructions use it; None until requested."""


@lru_cache(maxsize=16384)
def ending(opcode: str) -> str:
    """How an instruction ends a block; empty if it does not. The modifiers decide this, and not the operands."""
    bound = without_operands(opcode)
    return "" if bound is None else kind_of(bound)


@lru_cache(maxsize=16384)
def extends_stack(opcode: str) -> bool:
    """Whether an instruction extends the stack beyond the frame."""
    bound = without_operands(opcode)
    return bound is not None and "alloca" in bound.effects


def kind_of(bound: Bound) -> str:
    """The kind of an instruction at the end of a block; empty if it does not end a block."""
    flow = bound.flow
    if flow:
        return {"branch": "branch", "branch-indexed": "indexed", "brkpt": ""}.get(flow, flow)
    if bound.converges is not None or bound.barrier or (bound.completes and bound.form.mnemonic == "mbarrier"):
        return "sync"
    if bound.asynchronous and any(a.action == "wait" for a in bound.asynchronous):
        return "sync"
    if bound.form.mnemonic in WAITING:
        return "sync"
    return STRONG if any(memory.order not in ("", "weak", ".weak") for memory in bound.memory) else ""


LONGEST = 512
"""Maximum length of a block in instructions: to compile a block takes Python about 10 kB of memory for each."""


def basic_blocks(body: Body) -> list[BasicBlock]:
    """The blocks of a function that can be reached, in reverse post-order. Raises `Stop` for a guard that is not a predicate."""
    blocks, entry = _cut(body)
    return _ordered(blocks, entry)


def _cut(body: Body) -> tuple[list[BasicBlock], int]:
    """The blocks of a function in document order, and the first that is executed."""
    instructions = body.instructions
    count = len(instructions)
    leaders = {0}
    ends: dict[int, str] = {}
    jumps: dict[int, tuple[int, ...]] = {}
    for i, kind in _endings(body):
        leaders.add(i + 1)
        if kind == STRONG:
            continue
        ends[i] = kind
        if kind == "branch" or kind == "indexed":
            jumps[i] = _targets(body, i, kind)
            leaders.update(jumps[i])
        elif kind == "sync" or type(instructions[i].children[0]) is Guard:
            leaders.add(i)
    starts = sorted([start for start in leaders if start < count])
    starts = [at for start, end in zip(starts, [*starts[1:], count], strict=False) for at in range(start, end, LONGEST)]
    ranges = list(zip(starts, [*starts[1:], count], strict=False))  # no range of a function without instructions
    # the guard of an instruction with a block of its own becomes a branch around the block
    guarded = [
        number
        for number, (_, end) in enumerate(ranges)
        if ends.get(end - 1, "branch") != "branch" and type(instructions[end - 1].children[0]) is Guard
    ]
    at = dict(zip(starts, range(len(starts)), strict=True))
    at.update([(starts[number], len(starts) + test) for test, number in enumerate(guarded)])
    blocks: list[BasicBlock] = []
    for start, end in ranges:
        block = BasicBlock(body, start, end, at.get(end, -1))
        blocks.append(block)
        kind = ends.get(end - 1, "")
        if not kind:
            continue
        block.kind = kind
        block.last = block.end = last = end - 1
        if kind == "branch":
            block.taken = at.get(jumps[last][0], -1) if jumps[last] else -1
            guard = instructions[last].guard
            if guard is not None:
                block.guard, block.negated = _predicate(body, last, guard), guard.negated
        elif kind == "indexed":
            block.targets = tuple([at.get(target, -1) for target in jumps[last]])
    for number in guarded:
        block = blocks[number]
        guard = instructions[block.last].guard
        assert guard is not None
        test = BasicBlock(body, block.start, block.end, block.fall)
        test.kind = "branch"
        test.guard, test.negated = _predicate(body, block.last, guard), guard.negated
        test.taken = number
        block.start = block.end
        blocks.append(test)
    return blocks, at.get(0, -1)


def _endings(body: Body) -> list[tuple[int, str]]:
    """The instructions that end a block, and their kind."""
    opcodes = [children[1] if type(children[0]) is Guard else children[0] for children in [one.children for one in body.instructions]]
    keys = list(map(id, opcodes))
    kinds = {}
    for key, opcode in dict(zip(keys, opcodes, strict=True)).items():
        kind = ending(opcode.text)
        if kind:
            kinds[key] = kind
        elif extends_stack(opcode.text):
            body.takes_stack = True
    return [(i, kinds[key]) for i, key in enumerate(keys) if key in kinds]


def _predicate(body: Body, i: int, guard: Guard) -> int:
    """The register of a guard. Raises `Stop` if it is not a predicate."""
    numbers: tuple[int, ...] = body.named(body.scope_at(i), guard.children[0].text)
    if not numbers or body.types[numbers[0]] != ".pred":
        raise Stop("unsupported", f"`{guard.text}` is not a predicate")
    return numbers[0]


def _targets(body: Body, i: int, kind: str) -> tuple[int, ...]:
    """The instructions to which a branch may go; none for what is not a label."""
    scope = body.scope_at(i)
    label = body.label(scope, body.instructions[i].children[-1].text)
    if label is None:
        return ()
    if kind == "branch":
        return (label.at,)
    if not isinstance(label.list, Targets):
        return ()
    targets = [body.label(scope, child.text) for child in label.list.children]
    return tuple([len(body.instructions) if target is None else target.at for target in targets])


def _ordered(blocks: list[BasicBlock], entry: int) -> list[BasicBlock]:
    """Numbers the reachable blocks in reverse post-order; the taken side of a branch comes after the fall-through side."""
    if entry < 0:
        return []
    seen: set[int] = set()
    order: list[int] = []
    stack = [entry]
    while stack:
        number = stack.pop()
        if number < 0:
            # all that follows the block has been finished
            order.append(~number)
        elif number not in seen:
            seen.add(number)
            stack.append(~number)
            stack += [successor for successor in reversed(blocks[number].successors) if successor >= 0 and successor not in seen]
    order.reverse()
    place = dict(zip(order, range(len(order)), strict=True))
    for number in order:
        block = blocks[number]
        block.fall = place.get(block.fall, -1)
        block.taken = place.get(block.taken, -1)
        if block.targets:
            block.targets = tuple([place.get(target, -1) for target in block.targets])
    return [blocks[number] for number in order]


LONG = 64
"""Maximum length of a chain in instructions, since everything in a chain is computed at once."""


def chains(blocks: list[BasicBlock]) -> list[Chain]:
    """The chains of blocks, in the order of their first blocks."""
    successors = [[n for n in block.successors if n >= 0] for block in blocks]
    entries = Counter(chain.from_iterable(successors))
    entries[0] += 1
    found: list[Chain] = []
    for number, block in enumerate(blocks):
        if block.chain is not None:
            continue
        made = Chain([])
        found.append(made)
        length = 0
        while True:
            block.chain = made
            made.blocks.append(block)
            after = successors[number]
            length += block.end - block.start
            if len(after) != 1 or entries[after[0]] != 1 or length > LONG:
                break
            number = after[0]
            block = blocks[number]
        made.successors = after
    place = {id(one): i for i, one in enumerate(found)}
    for one in found:
        one.successors = [place[id(blocks[n].chain)] for n in one.successors]
    return found
