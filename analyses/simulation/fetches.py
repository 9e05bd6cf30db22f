"""What a launch decides besides parameters: numbers that threads load, hand to one another, or are given by the hardware.

A tile scheduler writes the number of the next tile to shared memory, or has it written there (9.7.13.17), and all warps go where it says.
So numbers that decide a path are followed through memory: who stores them, and who loads them. `plan` says which instructions that takes.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Iterable, Mapping

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.events.steps import MBARRIER, SHARED
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.launch.launch import WARP
from ptxkit.analyses.memory.accesses import Access, accesses
from ptxkit.analyses.registers.registers import registers
from ptxkit.analyses.registers.ssa import Origin, ssa
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.uniformity.broadcasts import handed_out
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound, BoundOperand
from ptxkit.isa.types import types
from ptxkit.syntax import Node, Vector

RESPONSE = "response"
"""The operand that is the answer to a request for another cluster's work."""
COORDINATE = 32
"""Bits of a coordinate in such an answer, as it is written here; what it looks like is not said (9.7.13.18). X comes first."""
CANCELED = 96
"""The bit that says whether there was any."""
FLOATS = {".f32": (4, "<f"), ".f64": (8, "<d")}
LEAST_NORMAL = 2.0**-126
_COMPARES = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}
SINK = "_"
"""Stands where what is loaded is not wanted."""


@frozen(eq=False)
class Fetch:
    """An instruction that gives registers what is known on a path at most. All of it stands by register that it writes."""

    instruction: int
    numbers: tuple[int, ...]
    """The values of `ssa`."""
    before: tuple[Term | None, ...]
    """What the registers held before, where a guard may leave them as they were."""
    address: Term | None = None
    """Where is loaded from; None for what is no load."""
    space: str = ""
    unit: int = 0
    """How many bytes each number has in memory."""
    positions: tuple[int, ...] = ()
    """Which of the numbers in memory each is."""
    is_signed: bool = False
    inputs: tuple[Term, ...] = ()
    """What it is made from, of what is no load."""
    lane: int | None = None
    """The lane that hands out what it holds."""
    low: tuple[int, ...] = ()
    """The first bit of each number in an answer."""
    updates: bool = False
    """Whether it writes memory too: an atomic operation."""
    compares: str = ""
    """How it compares the numbers that the inputs are the bits of, which are of type `kind`."""
    kind: str = ""
    flushes: bool = False
    """Whether it takes what is less than the least normal number for zero."""
    votes: str = ""
    """How it combines a predicate over a warp: `.all`, `.any`, `.uni`, or `.ballot` for all of them; the second input are the members."""


@frozen(eq=False)
class Store:
    """An instruction that writes registers to what may be shared memory."""

    instruction: int
    address: Term
    data: tuple[Term | None, ...]
    unit: int


@frozen(eq=False)
class Plan:
    """What has to be followed on a path besides its steps."""

    fetches: dict[int, Fetch]
    stores: dict[int, Store]
    terms: tuple[Term, ...]
    """What has to be known for that."""


@fact
def all_fetches(routine: Routine) -> dict[int, Fetch]:
    """By instruction, what is loaded, handed out or answered."""
    flow = control_flow(routine)
    found: dict[int, Fetch] = {}
    loads: dict[int, list[Access]] = {}
    for access in accesses(routine):
        if not access.memory.is_async and access.reads:
            loads.setdefault(access.instruction, []).append(access)
    for i, bound in enumerate(bindings(routine)):
        if not isinstance(bound, Bound) or flow.block_of[i] not in flow.reachable:
            continue
        own = loads.get(i, [])
        if len(own) == 1 and bound.converges is None and not bound.barrier and not bound.completes:
            fetch = _load(routine, i, bound, own[0])
        elif not own and bound.operand(RESPONSE) is not None:
            fetch = _answer(routine, i, bound)
        elif not own and bound.converges is not None and not bound.barrier:
            fetch = _voted(routine, i, bound) or _handed(routine, i)
        elif not own and bound.slot(".cmp"):
            fetch = _compared(routine, i, bound)
        else:
            fetch = None
        if fetch is not None:
            found[i] = fetch
    return found


@fact
def all_stores(routine: Routine) -> dict[int, Store]:
    """By instruction, what is written to memory that may be shared, also when an mbarrier says that it is there (`st.async`)."""
    found: dict[int, Store] = {}
    for access in accesses(routine):
        bound = bindings(routine)[access.instruction]
        if access.address is None or access.space not in (SHARED, "") or not access.writes or access.reads or not isinstance(bound, Bound):
            continue
        if bound.converges is not None or (access.memory.is_async and not any(word.mechanism == MBARRIER for word in bound.completes)):
            continue
        i = access.instruction
        data = _operand(bound, "r")
        if data is None or any(memory.access != "write" for memory in bound.memory) or bound.operand("size") is not None:
            continue
        unit = types()[data.types[0]].bytes
        found[i] = Store(i, access.address, _terms(routine, i, routine.instructions[i].operands[data.path[0]]), unit)
    return found


def _terms(routine: Routine, i: int, node: Node) -> tuple[Term | None, ...]:
    """What the elements of an operand hold, also of a register that is a vector."""
    known, own = values(routine), registers(routine)
    named = own.of(i, node)
    if isinstance(node, Vector) or len(named) < 2:
        return tuple([known.operand(i, one) for one in _elements(node)])
    held = dict(zip(own.reads[i], ssa(routine).uses[i], strict=False))
    return tuple([known.of(held[one]) if held.get(one, -1) >= 0 else None for one in named])


def plan(routine: Routine, needed: Iterable[int]) -> Plan:
    """What has to be followed so that values, by number of `ssa`, may be known. `needed` are those that decide paths, steps or
    addresses."""
    numbers = set(needed)
    fetches = {i: fetch for i, fetch in all_fetches(routine).items() if numbers & set(fetch.numbers)}
    stores: dict[int, Store] = {}
    if any(fetch.address is not None and fetch.space in (SHARED, "") for fetch in fetches.values()):
        stores = all_stores(routine)
    known = values(routine)
    terms: list[Term] = []
    for i, fetch in fetches.items():
        terms += [term for term in (fetch.address, *fetch.inputs, *fetch.before, known.guard(i)) if term is not None]
    for i, store in stores.items():
        terms += [term for term in (store.address, *store.data, known.guard(i)) if term is not None]
    return Plan(fetches, stores, tuple(terms))


def _operand(bound: Bound, role: str) -> BoundOperand | None:
    """The data that is loaded or stored."""
    for operand in bound.operands:
        kind = types().get(operand.types[0]) if operand.types else None
        if kind is None or kind.kind in ("predicate", "opaque") or operand.name == "policy":
            continue
        if operand.role == role:
            return operand
    return None


def _elements(node: Node) -> tuple[Node, ...]:
    return node.elements if isinstance(node, Vector) else (node,)


def _written(routine: Routine, i: int) -> tuple[tuple[int, ...], tuple[Term | None, ...]]:
    """The values that an instruction writes, and what the registers held before where it may not."""
    numbering, known = ssa(routine), values(routine)
    numbers = numbering.definitions[i]
    old = [numbering.values[number].operands for number in numbers]
    return numbers, tuple([known.of(own[0]) if own and own[0] >= 0 else None for own in old])


def _load(routine: Routine, i: int, bound: Bound, access: Access) -> Fetch | None:
    data = _operand(bound, "w")
    if data is None or access.address is None:
        return None
    nodes = _elements(routine.instructions[i].operands[data.path[0]])
    positions = tuple([position for position, node in enumerate(nodes) if node.text.strip() != SINK])
    numbers, before = _written(routine, i)
    if len(nodes) == 1:
        positions = tuple(range(len(numbers)))
    if len(positions) != len(numbers):
        return None
    kind = types()[data.types[0]]
    return Fetch(i, numbers, before, access.address, access.space, kind.bytes, positions, kind.kind == "signed", updates=access.writes)


def _handed(routine: Routine, i: int) -> Fetch | None:
    """What one lane hands out to all."""
    numbers, before = _written(routine, i)
    if not numbers:
        return None
    known = values(routine)
    if ssa(routine).values[numbers[0]].origin is not Origin.WRITE:
        return None
    leaf = known.terms.leaf("value", known.of(numbers[0]).width, (numbers[0],))
    found = handed_out(routine).of(leaf)
    if found is None:
        return None
    return Fetch(i, numbers[:1], before[:1], inputs=(found[0],), lane=found[1])


def _voted(routine: Routine, i: int, bound: Bound) -> Fetch | None:
    """What a warp finds out together about a predicate."""
    asked = bound.operand("a")
    if asked is None or bound.members is None or asked.types[:1] != (".pred",):
        return None
    inputs = (_term(routine, i, asked), _term(routine, i, bound.members))
    numbers, before = _written(routine, i)
    if None in inputs or len(numbers) != 1:
        return None
    return Fetch(i, numbers, before, inputs=inputs, votes=bound.slot(".mode") or ".ballot")  # type: ignore[arg-type]


def _compared(routine: Routine, i: int, bound: Bound) -> Fetch | None:
    """How two floating-point numbers compare; of integers the values know it."""
    a, b = bound.operand("a"), bound.operand("b")
    numbers, before = _written(routine, i)
    if a is None or b is None or len(numbers) != 1 or bound.slot(".bool") or a.types[0] not in FLOATS:
        return None
    one, other = _term(routine, i, a), _term(routine, i, b)
    if one is None or other is None:
        return None
    return Fetch(
        i,
        numbers,
        before,
        inputs=(one, other),
        compares=bound.slot(".cmp"),
        kind=a.types[0],
        flushes=bound.has(".ftz"),
    )


def _term(routine: Routine, i: int, operand: BoundOperand) -> Term | None:
    """What an operand is, as bits: of a predicate that is negated the opposite, of a floating-point constant how it is written."""
    known = values(routine)
    node = routine.instructions[i].operands[operand.path[0]]
    text = node.text.strip()
    if text.startswith("!") and node.children:
        found = known.operand(i, node.children[-1])
        return None if found is None else known.terms.invert(found)
    if text[:2].lower() in ("0f", "0d"):
        return known.terms.constant(int(text[2:], 16), 4 * len(text[2:]))
    return known.operand(i, node)


def compared(how: str, kind: str, flushes: bool, a: int, b: int) -> int:
    """Whether two floating-point numbers, as bits, compare so (9.7.7.2): with `u` also where one of them is no number."""
    x, y = [_float(bits, kind, flushes) for bits in (a, b)]
    word = how.lstrip(".")
    if word in ("num", "nan"):
        return int((x == x and y == y) == (word == "num"))
    if x != x or y != y:
        return int(word.endswith("u"))
    return int(_COMPARES[word.removesuffix("u")](x, y))


def _float(bits: int, kind: str, flushes: bool) -> float:
    size, letters = FLOATS[kind]
    number: float = struct.unpack(letters, (bits & (1 << 8 * size) - 1).to_bytes(size, "little"))[0]
    return 0.0 if flushes and abs(number) < LEAST_NORMAL else number


def exchanged(fetch: Fetch, lane: int, held: Mapping[int, int], members: int) -> int | None:
    """What a lane of a warp gets where lanes hold these numbers; None if that depends on a lane of which it is not known."""
    if fetch.lane is not None:
        return held.get(fetch.lane)
    asked = [one for one in range(WARP) if members >> one & 1]
    if any(one not in held for one in asked):
        return None
    yes = [one for one in asked if held[one] & 1]
    if fetch.votes == ".ballot":
        return sum(1 << one for one in yes)
    return int(bool(yes) if fetch.votes == ".any" else len(yes) == len(asked) or (fetch.votes == ".uni" and not yes))


def _answer(routine: Routine, i: int, bound: Bound) -> Fetch | None:
    """What an answer is: whether there is another cluster's work, and where that cluster would have been."""
    response = bound.operand(RESPONSE)
    assert response is not None
    term = values(routine).operand(i, routine.instructions[i].operands[response.path[0]])
    numbers, before = _written(routine, i)
    if term is None or not numbers:
        return None
    low: tuple[int, ...]
    target = next(operand for operand in bound.operands if operand.writes)
    coordinate = (bound.slot(".coordinate") or "").rpartition("::")[2]
    if types()[target.types[0]].kind == "predicate":
        low = (CANCELED,)
    elif coordinate in ("x", "y", "z"):
        low = (COORDINATE * "xyz".index(coordinate),)
    else:
        nodes = _elements(routine.instructions[i].operands[target.path[0]])
        low = tuple([COORDINATE * position for position, node in enumerate(nodes) if node.text.strip() != SINK])
    return Fetch(i, numbers, before, inputs=(term,), low=low) if len(low) == len(numbers) else None
