"""Transfer functions from the instruction table: the levels of an instruction's outputs, given those of its inputs."""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterator

from ptxkit.analyses.uniformity.levels import Level
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound, BoundOperand
from ptxkit.isa.forms import Call
from ptxkit.isa.registers import special_register
from ptxkit.isa.shapes import OperandShape

_LEVELS = {str(level): level for level in Level}


class How(enum.Enum):
    """How the level of an output follows."""

    INPUTS = "inputs"
    """The lowest level of the inputs."""
    MEMORY = "memory"
    """The lowest level of the address, provided that nobody writes there meanwhile: at most CTA."""
    GROUP = "group"
    """One result for the threads that execute it together: those with equal values of some of its operands."""
    BROADCAST = "broadcast"
    """The value of one lane, if all threads name the same lane."""
    ONE = "one"
    """True for one unknown thread of each warp."""
    NEVER = "never"


@frozen(eq=False)
class Transfer:
    """The transfer function of all instructions of one form with the same operand shapes."""

    outputs: tuple[tuple[How, Level], ...]
    """In the order of `Registers.writes`: the rule, and for GROUP the size of the group. Further registers follow the first."""
    base: Level
    """The lowest level of the inputs that are not registers."""
    control: tuple[int, ...]
    """For GROUP and BROADCAST: the inputs that must be uniform, by index among the registers read, guard excluded."""
    source: int
    """For BROADCAST: the index of the value broadcast; -1 if it is not a register."""
    narrows: bool
    """Whether the result may be more uniform than the inputs: not if each input shows in the result, as in a sum."""
    parameters: bool
    """Whether it reads a parameter by name, whose level depends on the function."""
    is_plain: bool
    """Whether all outputs have the lowest level of the inputs, with no other rule."""

    def of(self, index: int) -> tuple[How, Level]:
        """The rule for the register at an index among those written."""
        return self.outputs[index] if index < len(self.outputs) else self.outputs[0]


_NEVER = Transfer(((How.NEVER, Level.THREAD),), Level.THREAD, (), -1, False, False, False)


@functools.lru_cache(maxsize=65536)
def transfer(bound: Bound) -> Transfer:
    """The transfer function of a form and operand shapes."""
    if not bound.form.modelled:
        return _NEVER
    outputs = tuple([_rule(bound, operand) for operand in bound.operands if operand.writes for _ in _registers(operand.shape)])
    reading = [operand for operand in bound.operands if operand.reads or operand.role == "sym"]
    indices: dict[str, tuple[int, ...]] = {}
    count = 0
    for operand in reading:
        size = len(list(_registers(operand.shape)))
        indices[operand.name] = tuple(range(count, count + size))
        count += size
    shared = any(operand.writes and operand.path[0] == other.path[0] for operand in bound.operands for other in reading)
    agreed = _agreed(bound)
    if shared and agreed:
        return _NEVER
    controls = tuple([index for name in agreed for index in indices.get(name, ())])
    source = indices.get("a", ())
    by_name = any(_is_parameter(operand) for operand in reading)
    return Transfer(
        outputs or ((How.INPUTS, Level.GRID),),
        min([level for operand in reading for level in _fixed(operand.shape)], default=Level.GRID),
        controls,
        source[0] if source else -1,
        _narrows(bound, reading),
        by_name,
        bound.flow != "call" and not by_name and all(how is How.INPUTS for how, _ in outputs),
    )


def _rule(bound: Bound, operand: BoundOperand) -> tuple[How, Level]:
    word = bound.uniform(operand.name)
    if word in _LEVELS:
        return How.GROUP, _LEVELS[word]
    if word == "memory" and "readonly" in [memory.proxy for memory in bound.memory]:
        return How.INPUTS, Level.GRID
    if word in ("inputs", "memory", "broadcast"):
        return How(word), Level.GRID
    if word == "one":
        return How.ONE, Level.THREAD
    if word or bound.converges is not None or bound.memory:
        return How.NEVER, Level.THREAD
    return How.INPUTS, Level.GRID


_SHOWING = frozenset(("add", "mul", "mulwide", "neg", "not", "xor", "or", "shl", "pack", "window", "peer"))
"""Operators whose result usually differs if an input does."""


def _narrows(bound: Bound, reading: list[BoundOperand]) -> bool:
    values = [computes.what.value for computes in bound.form.computes if bound.holds(computes.when)]
    if not values:
        return any(bound.uniform(operand.name) == "broadcast" for operand in bound.operands if operand.writes)
    return not all(map(_shows, values)) or any(_reads_special(operand.shape) for operand in reading)


def _shows(value: Call | str | int) -> bool:
    if not isinstance(value, Call):
        return True
    return value.operator in _SHOWING and all(map(_shows, value.arguments))


def _reads_special(shape: OperandShape) -> bool:
    return shape.kind == "special" or any(map(_reads_special, shape.parts))


def _agreed(bound: Bound) -> list[str]:
    """The names of the operands that must be uniform for threads to execute an instruction together."""
    words = {bound.uniform(operand.name) for operand in bound.operands if operand.writes}
    if not words & {"broadcast", *_LEVELS}:
        return []
    found = [barrier.operand for barrier in bound.barrier]
    found += [operand.name for operand in (bound.members, bound.threads) if operand is not None]
    if "broadcast" in words:
        found += ["b", "c"]
    return found


def groups_itself(bound: Bound) -> bool:
    """Whether an instruction that operates on a group names the group; otherwise, the threads that happen to execute it together are the
    group."""
    return bool(bound.barrier) or bound.members is not None


def _registers(shape: OperandShape) -> Iterator[None]:
    if shape.kind in ("register", "unknown"):
        for _ in range(shape.count):
            yield None
    for part in shape.parts:
        yield from _registers(part)


def _fixed(shape: OperandShape) -> Iterator[Level]:
    """The levels of an operand's parts that are not registers."""
    if shape.kind == "special":
        yield special_level(shape.type)
    elif shape.kind == "unknown":
        yield Level.THREAD
    elif shape.kind == "symbol":
        yield space_level(shape.space)
    for part in shape.parts:
        yield from _fixed(part)


def special_level(name: str) -> Level:
    """The level of a special register."""
    register = special_register(name)
    return Level.THREAD if register is None or register.volatile else _LEVELS[register.uniform]


def space_level(space: str) -> Level:
    """The level of the address of a variable in a state space: in a cluster, each CTA has its own shared memory."""
    stem = space.partition("::")[0]
    return Level.CTA if stem == ".shared" else Level.THREAD if stem == ".local" else Level.GRID


def _is_parameter(operand: BoundOperand) -> bool:
    shape = operand.shape
    inner = shape.parts[0] if shape.kind == "address" and shape.parts else shape
    return inner.kind == "symbol" and inner.space.startswith(".param")
