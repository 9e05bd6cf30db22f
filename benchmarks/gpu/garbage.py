"""Variants that write garbage into every register that liveness calls dead where a basic block starts.

If liveness is right, no instruction reads the garbage and the outputs stay the same. Every register of the function that is in scope is
written, of any type, the condition code too. Left alone are the registers that an instruction of a wgmma group may still be using by
itself (9.7.16): to write those is forbidden, whether anything reads them or not.
"""

from __future__ import annotations

import random

import attrs

from ptxkit.analyses.cfg.graph import BasicBlock, control_flow
from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.analyses.registers.liveness import liveness
from ptxkit.analyses.registers.registers import CARRY, Register, registers
from ptxkit.rewriters.engine.points import before, points
from ptxkit.syntax import Module, Node, Path, parse


@attrs.frozen
class Spoiled:
    """A module with garbage in it, and how much."""

    text: str
    blocks: int
    writes: int


def spoiled(module: Module, pattern: int) -> Spoiled:
    """The module with garbage in all that is dead where a block starts. Pattern 0 is bits by lot; pattern 1 all bits set, which is NaN and
    -1, and the other predicates."""
    edits: dict[Path, list[Node]] = {}
    blocks = writes = 0
    for routine in routines(module):
        flow, table, live = control_flow(routine), registers(routine).table, liveness(routine)
        asynchronous = _of_wgmma(routine)
        for block in flow.blocks:
            dead = [n for n in range(len(table)) if not live.before[block.index] >> n & 1]
            if block.start in points(routine).accumulators:
                dead = [n for n in dead if n not in asynchronous]
            text = [garbage(table[n], pattern, n) for n in dead if in_scope(routine, block.start, table[n])]
            if text:
                blocks += 1
                writes += len(text)
                insert(edits, routine, block.start, "".join(text))
    return Spoiled(module.edit(edits).text, blocks, writes)


@attrs.frozen
class Fault:
    """A text that is wrong on purpose: with garbage in a register that is live where a block starts and that the block surely reads."""

    where: str
    text: str
    trapped: str
    """The same with a trap instead of the garbage, which tells whether the block is ever executed."""


def planted(module: Module, entry: str, lot: random.Random, count: int) -> list[Fault]:
    """Faults in a kernel, at places by lot."""
    routine = next(routine for routine in routines(module) if routine.name == entry)
    table = registers(routine).table
    places = [
        (block, n)
        for block in control_flow(routine).blocks
        for n in _read_first(routine, block)
        if in_scope(routine, block.start, table[n]) and block.start not in points(routine).accumulators
    ]
    found = []
    for block, n in lot.sample(places, min(count, len(places))):
        texts = []
        for code in (garbage(table[n], 0, n), "\n\ttrap;"):
            edits: dict[Path, list[Node]] = {}
            insert(edits, routine, block.start, code)
            texts.append(module.edit(edits).text)
        found.append(Fault(f"{table[n].name} in block {block.index}", *texts))
    return found


def _read_first(routine: Routine, block: BasicBlock) -> list[int]:
    """The registers that a block reads whenever it is executed, before it writes them."""
    named, found, written = registers(routine), dict[int, None](), set[int]()
    for i in range(block.start, block.end):
        if routine.instructions[i].guard is None:
            found.update(dict.fromkeys([n for n in named.reads[i] if n not in written]))
        written.update(named.writes[i])
    assert all(liveness(routine).before[block.index] >> n & 1 for n in found)
    return list(found)


def insert(edits: dict[Path, list[Node]], routine: Routine, i: int, text: str) -> None:
    """Adds the edit that puts text right before instruction `i`, behind its label, before the `.loc` and the pragma that are its own."""
    *container, at = routine.where(i)
    children = routine.module.at(tuple(container)).children
    place = before(children, at)
    edits.setdefault((*container, place), [children[place]])[-1:-1] = parse(text).children


def in_scope(routine: Routine, i: int, register: Register) -> bool:
    """Whether instruction `i` could write a register."""
    if register.name == CARRY:
        return True
    path = routine.where(i)
    symbol = register.symbol
    return symbol is not None and symbol.path < path and routine.names.scope_of(path).lookup(register.name.partition(".")[0]) is symbol


def garbage(register: Register, pattern: int, number: int) -> str:
    """An instruction that writes a register."""
    lot = random.Random(f"{register.name} {number}")
    coin = lot.random() < 0.5
    value = lot.getrandbits(64) if pattern == 0 else (1 << 64) - 1
    name = register.name
    if name == CARRY:
        return f"\n\t{{ .reg .b32 %cc; add.cc.u32 %cc, {'0xffffffff' if coin ^ bool(pattern) else '0'}, 1; }}"
    if register.is_predicate:
        return f"\n\tsetp.{'eq' if coin ^ bool(pattern) else 'ne'}.u32 {name}, 0, 0;"
    if register.bits == 128:
        return f"\n\t{{ .reg .b64 %half; mov.b64 %half, {value:#x}; mov.b128 {name}, {{%half, %half}}; }}"
    if register.bits == 8:
        return f"\n\tcvt.u8.u32 {name}, {value & 0xFF:#x};"
    return f"\n\tmov.b{register.bits} {name}, {value & ((1 << register.bits) - 1):#x};"


def _of_wgmma(routine: Routine) -> frozenset[int]:
    """The registers that any wgmma of the function names."""
    named = registers(routine)
    return frozenset(
        [
            n
            for i, instruction in enumerate(routine.instructions)
            if instruction.opcode.mnemonic == "wgmma"
            for n in named.reads[i] + named.writes[i]
        ]
    )
