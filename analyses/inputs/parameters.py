"""What a kernel uses its parameters for: pointers, scalars, tensor maps (7.1, 5.5)."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator

import attrs

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.bindings import bindings, matching
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.memory.accesses import Access, accesses, size_of
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.symbolic.evaluate import number_of
from ptxkit.analyses.symbolic.terms import Term, walk
from ptxkit.analyses.symbolic.values import Values, values
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.isa.types import types
from ptxkit.names import Symbol
from ptxkit.syntax import Guard, Node
from ptxkit.syntax import Parameter as Declared

TENSOR_MAP = 128
"""Size of a tensor map in bytes."""
MOST_SCALE = 1 << 12
"""Upper bound on the increment of a loop bound per iteration."""
SHIFT = 4
"""Value of a shift count."""
_DEEPEST = 3
"""Maximum length of a chain of pointers that is followed."""


class Role(enum.Enum):
    """What part of a parameter is used as."""

    POINTER = "pointer"
    TENSOR_MAP = "tensor map"
    COUNT = "count"
    """Trip count of a loop."""
    STRIDE = "stride"
    """Factor of an index, not used in conditions."""
    NUMBER = "number"
    """Any other integer, such as an extent or an offset."""
    TEXTURE = "texture"
    SURFACE = "surface"
    FLOAT = "float"


@frozen
class Slot:
    """`size` bytes of a parameter at `offset`, and what they are used as."""

    offset: int
    size: int
    role: Role
    type: str = ""
    """For a pointer, the type of the data, as far as accesses show it (`.b8` if they do not); otherwise the type of the load."""
    width: int = 1
    """For a pointer, bytes of the widest access; for a count, its increment per iteration."""
    pointee: bool = False
    """For a pointer, whether it points to further addresses."""
    rank: int = 0
    """For a tensor map, its number of dimensions, or 0 if no copy shows it; for a texture or surface, that of its coordinates."""
    is_compared: bool = False
    """For a scalar, whether conditions depend on it."""
    value: int | None = None
    """For a scalar, a required value, such as part of an MMA descriptor."""
    is_divisor: bool = False
    """For a scalar, whether it is used as a divisor."""
    maps: tuple[tuple[int, int], ...] = ()
    """For a pointer to tensor maps, the known offsets of maps from the address, and their numbers of dimensions."""


@frozen
class Parameter:
    """A parameter of a kernel: its declaration, its size in bytes, and the parts that the kernel reads."""

    name: str
    size: int
    type: str
    slots: tuple[Slot, ...]
    is_array: bool = False


@fact
def parameters(routine: Routine) -> tuple[Parameter, ...]:
    """The parameters of a kernel in order, each with the parts that are used."""
    declared = routine.function.header.parameters
    return tuple([_parameter(routine, one) for one in declared]) if declared else ()


SEVERAL = 4
"""If a structure contains at least this many integers, they are taken to depend on each other."""
MANY = 6
"""If a kernel has at least this many integers, all are taken to depend on each other: a matrix product has three extents and three
strides."""
WHOLE = frozenset((Role.COUNT, Role.NUMBER, Role.STRIDE))


def belong_together(routine: Routine) -> bool:
    """Whether a kernel reads several integers of one structure. The host keeps them consistent; synthesized ones are not."""
    return any(one.is_array and _whole(one) >= SEVERAL for one in parameters(routine))


def are_many(routine: Routine) -> bool:
    """Whether a kernel reads many integers, in a structure or not, which may depend on each other."""
    return sum(map(_whole, parameters(routine))) >= MANY


def _whole(one: Parameter) -> int:
    return sum([slot.role in WHOLE for slot in one.slots])


def _parameter(routine: Routine, declared: Declared) -> Parameter:
    scope = routine.names.scopes[(*routine.path, 0)]
    symbol = scope.lookup(declared.name)
    assert symbol is not None
    size = size_of(symbol) or 8
    uses = _uses(routine)
    slots = uses.get(symbol.name, {})
    found = [slots[key] for key in sorted(slots)]
    if not found and not symbol.dimensions:
        found = [_unused(symbol, size)]
    return Parameter(symbol.name, size, symbol.type or ".b64", tuple(found), bool(symbol.dimensions))


def _unused(symbol: Symbol, size: int) -> Slot:
    kind = symbol.type or ".b64"
    if kind.startswith((".f", ".bf")):
        return Slot(0, size, Role.FLOAT, kind)
    return Slot(0, size, Role.POINTER if size == 8 else Role.NUMBER, kind)


@fact
def _uses(routine: Routine) -> dict[str, dict[int, Slot]]:
    """The uses of each parameter, by offset."""
    found: dict[str, dict[int, Slot]] = {}
    known = values(routine)
    pointers, loaded = _pointers(routine)
    counts, compared, starts = _counts(routine)
    modes = _modes(routine)
    numbers, factors = _numbers(routine)
    images = _images(routine)
    descriptors = _descriptors(routine)
    divided_by = divisors(routine)
    shifts = _shift_counts(routine)
    bounds = bindings(routine)
    pointed = _pointed_maps(routine)
    for access in accesses(routine):
        bound = bounds[access.instruction]
        location = location_of(known, access.address)
        if location is None or not isinstance(bound, Bound):
            continue
        name, offset, _ = location
        own = found.setdefault(name, {})
        if access.memory.proxy == "tensormap":
            rank = _rank(bound)
            before = own.get(offset)
            own[offset] = Slot(offset, TENSOR_MAP, Role.TENSOR_MAP, rank=max(rank, before.rank if before else 0))
            continue
        if access.space != ".param" or not access.reads or not access.bytes:
            continue
        kind = bound.type
        element = types()[kind].bytes if kind in types() else access.bytes
        for at in range(offset, offset + access.bytes, max(1, element)):
            if at in own and own[at].role is not Role.NUMBER:
                continue
            leaf = (name, at, element)
            if leaf in images:
                own[at] = images[leaf]
            elif leaf in descriptors:
                own[at] = Slot(at, element, Role.NUMBER, kind, value=descriptors[leaf])
            elif leaf in pointed:
                own[at] = Slot(at, element, Role.POINTER, ".b64", maps=tuple(sorted(pointed[leaf].items())))
            elif element == 8 and leaf in pointers:
                own[at] = pointers[leaf]
            elif kind.startswith((".f", ".bf")):
                own[at] = Slot(at, element, Role.FLOAT, kind)
            elif leaf in shifts:
                own[at] = Slot(at, element, Role.NUMBER, kind, is_compared=leaf in compared, value=SHIFT)
            elif leaf in counts:
                own[at] = Slot(at, element, Role.COUNT, kind, counts[leaf])
            elif leaf in modes:
                own[at] = Slot(at, element, Role.NUMBER, kind, value=modes[leaf])
            elif leaf in starts and leaf not in divided_by:
                own[at] = Slot(at, element, Role.NUMBER, kind, value=0)
            elif leaf in factors and leaf not in compared:
                own[at] = Slot(at, element, Role.STRIDE, kind)
            elif element == 8 and leaf not in numbers:
                own[at] = Slot(at, element, Role.POINTER, ".b8", pointee=leaf in loaded)
            else:
                own[at] = Slot(at, element, Role.NUMBER, kind, is_compared=leaf in compared)
            if leaf in divided_by:
                own[at] = attrs.evolve(own[at], is_divisor=True)
    return found


def _rank(bound: Bound) -> int:
    """Number of dimensions of the tensor that an instruction copies from or to; 0 if it does not specify it."""
    return next((int(word[1]) for word in bound.modifiers if re.fullmatch(r"\.[1-5]d", word)), 0)


def _pointed_maps(routine: Routine) -> dict[Leaf, dict[int, int]]:
    """Parts of parameters that are pointers to tensor maps, with the offsets of the maps and their numbers of dimensions.

    Of an indexed array of maps, only the first offset is known.
    """
    known = values(routine)
    bounds = bindings(routine)
    found: dict[Leaf, dict[int, int]] = {}
    for access in accesses(routine):
        bound = bounds[access.instruction]
        if access.memory.proxy != "tensormap" or access.address is None or not isinstance(bound, Bound):
            continue
        offset, _ = access.address.linear
        for leaf, depth in bases(routine, known, access.address, {}) if location_of(known, access.address) is None else ():
            if not depth:
                own = found.setdefault(leaf, {})
                own[offset] = max(_rank(bound), own.get(offset, 0))
    return found


Leaf = tuple[str, int, int]
"""Part of a parameter: name, offset, and size in bytes."""


def leaf_of(term: Term) -> Leaf | None:
    """The part of a parameter that a term stands for; None if it is anything else."""
    if term.operator != "parameter":
        return None
    *_, offset, size = term.data
    assert isinstance(offset, int) and isinstance(size, int)
    return term.name, offset, size


def location_of(known: Values, address: Term | None) -> tuple[str, int, Symbol] | None:
    """The parameter that an address points into, and the offset in it."""
    if address is None:
        return None
    offset, parts = address.linear
    for atom, factor in parts:
        inner = atom.args[0] if atom.operator in ("zext", "trunc") else atom
        symbol = known.symbol(inner) if factor == 1 and inner.operator == "address" else None
        if symbol is not None and (symbol.space or ".param").startswith(".param"):
            return symbol.name, offset, symbol
    return None


def _pointers(routine: Routine) -> tuple[dict[Leaf, Slot], set[Leaf]]:
    """Parts of parameters that addresses are computed from, and those through which addresses are loaded."""
    known = values(routine)
    bounds = bindings(routine)
    through = {access.instruction: access for access in accesses(routine) if access.reads and access.address is not None}
    found: dict[Leaf, Slot] = {}
    loaded: set[Leaf] = set()
    for access in accesses(routine):
        if (
            access.address is None
            or access.space.startswith((".param", ".shared", ".local", ".const"))
            or access.memory.proxy == "tensormap"
        ):
            continue
        bound = bounds[access.instruction]
        kind = bound.type if isinstance(bound, Bound) else ""
        for leaf, depth in bases(routine, known, access.address, through):
            if depth:
                loaded.add(leaf)
                before = found.get(leaf)
                found[leaf] = Slot(leaf[1], leaf[2], Role.POINTER, ".b64", 8, True)
                continue
            before = found.get(leaf)
            width = max(access.bytes or access.least or 1, before.width if before else 1)
            chosen = before.type if before and _says_more(before.type, kind) else kind
            found[leaf] = Slot(leaf[1], leaf[2], Role.POINTER, chosen, width, bool(before and before.pointee))
    return found, loaded


def _says_more(one: str, other: str) -> bool:
    """Whether the first type is more specific about memory contents: floats over integers over untyped bits."""
    return [one.startswith((".f", ".bf")), one.startswith((".s", ".u"))] > [other.startswith((".f", ".bf")), other.startswith((".s", ".u"))]


def bases(routine: Routine, known: Values, address: Term, through: dict[int, Access], depth: int = 0) -> list[tuple[Leaf, int]]:
    """Parts of parameters that an address may be based on, and the number of loads in between."""
    found: list[tuple[Leaf, int]] = []
    seen: set[Term] = set()
    stack = [address]
    values_ = ssa(routine).values
    while stack:
        term = stack.pop()
        if term in seen:
            continue
        seen.add(term)
        leaf = leaf_of(term)
        if leaf is not None:
            if leaf[2] == 8:
                found.append((leaf, depth))
        elif term.operator == "sum":
            stack += [atom for atom, factor in term.parts if factor == 1]
        elif term.operator in ("select", "join"):
            stack += [arg for arg in term.args if arg.width == 64]
        elif term.operator == "and" and term.width == 64:
            stack += list(term.args)
        elif term.operator in ("phi", "value") and term.ssa_value is not None:
            number = term.ssa_value
            induction = known.induction(number)
            if induction is not None:
                stack.append(induction.start)
            elif values_[number].operands:
                stack += [known.of(one) for one in values_[number].operands if one >= 0]
            elif values_[number].instruction in through and depth < _DEEPEST:
                source = through[values_[number].instruction].address
                if source is not None:
                    found += bases(routine, known, source, through, depth + 1)
    return found


def conditions(routine: Routine) -> Iterator[Term]:
    """The conditions of branches."""
    known = values(routine)
    for block in control_flow(routine).blocks:
        if block.end > block.start:
            guard = known.guard(block.end - 1)
            if guard is not None:
                yield guard


CTAS = 2
"""The increment of a loop over tiles, in which each CTA begins at its index: the usual number of CTAs."""


def _counts(routine: Routine) -> tuple[dict[Leaf, int], set[Leaf], set[Leaf]]:
    """Classifies the parts of parameters in conditions.

    Returns, first, the bounds of loops that are the same for all threads of a CTA, with the increment per iteration: values that a loop
    variable counts to, or down from, and that are compared with nothing thread-dependent. In a loop over tiles, each CTA begins at its
    index. Second, everything that conditions depend on. Third, the values that such loops count up from; they must differ from the bound,
    or the range would be empty.
    """
    known = values(routine)
    counts: dict[Leaf, int] = {}
    tiles: set[Leaf] = set()
    others: set[Leaf] = set()
    starts: set[Leaf] = set()
    for condition in [part for whole in conditions(routine) for part in _parts(whole)]:
        phis = [number for term in condition.leaves() if term.operator == "phi" and (number := term.ssa_value) is not None]
        loops = [induction for number in phis if (induction := known.induction(number)) is not None]
        terms = [condition, *[loop.start for loop in loops if loop.step and loop.step < 0]]
        leaves = [leaf for term in terms for one in term.leaves() if (leaf := leaf_of(one)) is not None]
        if not leaves:
            continue
        before = [known.of(one) for number in phis for one in ssa(routine).values[number].operands if one >= 0]
        sides = (*condition.args, *before, *[loop.start for loop in loops])
        is_of_tiles = any(_is_of_ctas(leaf) for side in sides for leaf in side.leaves())
        if any(_differs(side) for side in sides):
            others.update(leaves)
        elif is_of_tiles and not phis:
            tiles.update(leaves)
        elif phis:
            step = max([abs(loop.step) for loop in loops if loop.step], default=CTAS if is_of_tiles else 1)
            starts.update([leaf for one in before if (leaf := leaf_of(one)) is not None and leaf not in leaves])
            own: dict[Leaf, int] = {}
            for leaf, scale in [one for term in terms for one in _scales(term, 1)]:
                # ignore an additional term that shifts out the sign
                own[leaf] = min(own.get(leaf, MOST_SCALE), scale * step)
            for leaf, scale in own.items():
                counts[leaf] = max(counts.get(leaf, 1), scale)
    return {leaf: scale for leaf, scale in counts.items() if leaf not in others}, {*counts, *tiles, *others}, starts - others


def _modes(routine: Routine) -> dict[Leaf, int]:
    """Parts of parameters that conditions only compare with several constants for equality, perhaps after arithmetic, and the largest
    number for which such a condition holds. A kernel need not work with any other number."""
    known: dict[Leaf, set[Term]] = {}
    others: set[Leaf] = set()
    for condition in [part for whole in conditions(routine) for part in _parts(whole)]:
        leaves = [leaf for one in condition.leaves() if (leaf := leaf_of(one)) is not None]
        if condition.operator == "eq" and condition.args[1].constant is not None and len(condition.leaves()) == len(leaves) == 1:
            known.setdefault(leaves[0], set()).add(condition)
        else:
            others.update(leaves)
    return {leaf: mode for leaf, asked in known.items() if len(asked) > 1 and leaf not in others and (mode := _largest(asked))}


def _largest(asked: set[Term]) -> int:
    """The largest number of which one of these conditions holds; 0 if none of a byte does."""

    def holds(number: int) -> bool:
        return any(number_of(one, lambda _: number) for one in asked)

    return next(filter(holds, range(255, 0, -1)), 0)


def _parts(condition: Term) -> Iterator[Term]:
    """The operands of a compound condition."""
    operands = [one for one in condition.args if one.width == 1]
    if condition.operator in ("and", "or", "xor") and len(operands) == len(condition.args):
        for one in operands:
            yield from _parts(one)
    elif condition.operator == "sum" and condition.width == 1 and len(condition.parts) == 1:
        yield from _parts(condition.parts[0][0])
    else:
        yield condition


def _scales(term: Term, scale: int) -> Iterator[tuple[Leaf, int]]:
    """The parts of parameters in a term, and by which factor they exceed the term."""
    leaf = leaf_of(term)
    if leaf is not None:
        yield leaf, scale
    if term.operator == "sum":
        for atom, factor in term.parts:
            yield from _scales(atom, max(1, scale // factor))
        return
    divisor = term.args[1].constant if len(term.args) == 2 else None
    if divisor and term.operator.startswith("shr"):
        scale <<= min(divisor, 16)
    elif divisor and term.operator.startswith("div"):
        scale *= divisor
    for arg in term.args:
        yield from _scales(arg, scale)


def _differs(term: Term) -> bool:
    """Whether a value differs between threads by more than a choice between others, and between CTAs by more than their index."""
    if term.operator == "select":
        return any(map(_differs, term.args[1:]))
    if term.operator == "sum":
        return any(_differs(atom) if factor == 1 else any(map(_is_special, atom.leaves())) for atom, factor in term.parts)
    return not _is_of_ctas(term) and any(map(_is_special, term.leaves()))


def _is_of_ctas(term: Term) -> bool:
    """Whether a term is an index of the CTA, or their number."""
    return _is_special(term) and term.name.startswith(("%ctaid", "%nctaid"))


def _is_special(term: Term) -> bool:
    return term.operator not in ("phi", "value", "parameter", "address", "window") and term.name.startswith("%")


@fact
def addresses(routine: Routine) -> tuple[Term, ...]:
    """The addresses of all accesses except those of parameters; for addresses that a loop advances, also their initial values."""
    return tuple({address: None for _, address in addressed(routine)})


@fact
def addressed(routine: Routine) -> tuple[tuple[str, Term], ...]:
    """The addresses that `addresses` gives, each with the state space that is accessed there."""
    known = values(routine)
    found = {
        (access.space, access.address): None for access in accesses(routine) if access.address is not None and access.space != ".param"
    }
    for space, address in list(found):
        for leaf in address.leaves():
            induction = known.induction(leaf.ssa_value) if leaf.operator == "phi" and leaf.ssa_value is not None else None
            if induction is not None:
                found[space, induction.start] = None
    return tuple(found)


def _numbers(routine: Routine) -> tuple[set[Leaf], set[Leaf]]:
    """Parts of parameters that are used in arithmetic, and those among them that are used as factors."""
    found: set[Leaf] = set()
    terms = addresses(routine)
    for one in {one: None for term in (*terms, *conditions(routine)) for one in walk(term)}:
        if one.operator == "sum":
            found.update([leaf for atom, factor in one.parts if factor != 1 and (leaf := leaf_of(atom)) is not None])
        elif one.operator not in ("select", "join", "parameter", "phi"):
            found.update([leaf for arg in one.args if (leaf := leaf_of(arg)) is not None])
    return found, factors_of((*terms, *conditions(routine)))


def factors_of(terms: Iterable[Term]) -> set[Leaf]:
    """Parts of parameters that are factors of a product in one of the terms."""
    products = [one for term in terms for one in walk(term) if one.operator in ("mul", "mulhi.u", "mulhi.s")]
    return {leaf for one in products for arg in one.args for term in _factors(arg) if (leaf := leaf_of(term)) is not None}


def _factors(term: Term) -> Iterator[Term]:
    """The factor in a product, stripped of extensions and constant scaling."""
    while term.operator in ("zext", "sext", "trunc"):
        term = term.args[0]
    if term.operator == "sum" and len(term.parts) == 1 and not term.offset:
        term = term.parts[0][0]
    yield term


_ROWS, _COLUMNS = 128, 16
"""Shape of D for a synthesized MMA instruction descriptor: all lanes of tensor memory, and few enough columns for any allocation."""
_RESULT = {".kind::i8": 2}
"""Encoding of the type of D by kind in an instruction descriptor (9.7.16.4.2): 32-bit integer; `.f32`, which is 1, otherwise."""
_MULTIPLICAND = {".kind::tf32": 2}


def _descriptors(routine: Routine) -> dict[Leaf, int]:
    """Parts of parameters that MMA descriptors are computed from, with suitable values.

    An instruction descriptor (9.7.16.4.2) describes dense matrices. In a matrix descriptor, the part combined with the address contains the
    strides; these are 0, so that the matrix is small. A loop may advance a descriptor from tile to tile.
    """
    found: dict[Leaf, int] = {}
    known = values(routine)
    for i, bound in matching(routine, lambda bound: bound.form.file in ("tcgen05.isa", "wgmma.isa") and bool(bound.slots)):
        for operand in bound.operands:
            if operand.name not in ("a", "b", "idesc") or not operand.reads or operand.role == "addr":
                continue
            children = routine.instructions[i].children
            term = known.operand(i, children[(2 if type(children[0]) is Guard else 1) + operand.path[0]])
            for leaf in _origins(routine, term) if term is not None else ():
                found[leaf] = _instruction_descriptor(bound) if operand.name == "idesc" else 0
    return found


def _origins(routine: Routine, term: Term) -> Iterator[Leaf]:
    """The parts of parameters that a descriptor is computed from, and what it starts from if a loop advances it."""
    known = values(routine)
    seen: set[Term] = set()
    stack = [term]
    while stack:
        for one in {*stack.pop().leaves()} - seen:
            seen.add(one)
            leaf = leaf_of(one)
            if leaf is not None:
                yield leaf
            elif one.operator in ("phi", "value") and one.ssa_value is not None:
                induction = known.induction(one.ssa_value)
                stack += [] if induction is None or one.width < 64 else [induction.start]


def _instruction_descriptor(bound: Bound) -> int:
    kind = bound.slot(".kind")
    kinds = _MULTIPLICAND.get(kind, 0) << 7 | _MULTIPLICAND.get(kind, 0) << 10
    if "mx" in kind:
        return _COLUMNS >> 3 << 17 | _ROWS >> 7 << 27 | kinds
    return _COLUMNS >> 3 << 17 | _ROWS >> 4 << 24 | _RESULT.get(kind, 1) << 4 | kinds


@fact
def divisors(routine: Routine) -> set[Leaf]:
    """Parts of parameters that are used as divisors of integers."""
    found: set[Leaf] = set()
    for i, _ in matching(routine, lambda bound: bound.form.mnemonic in ("div", "rem") and bound.type.startswith((".s", ".u"))):
        term = values(routine).operand(i, routine.instructions[i].operands[2])
        found.update([leaf for factor in _factors(term) if (leaf := leaf_of(factor)) is not None] if term is not None else ())
    return found


def _shift_counts(routine: Routine) -> set[Leaf]:
    """Parts of parameters that are shift counts. From the width of the value on, a shift leaves nothing of it (9.7.9.8, 9.7.9.9)."""
    found: set[Leaf] = set()
    for i, _ in matching(routine, lambda bound: bound.form.mnemonic in ("shl", "shr")):
        term = values(routine).operand(i, routine.instructions[i].operands[2])
        leaf = leaf_of(term) if term is not None else None
        found.update([leaf] if leaf is not None else ())
    return found


_IMAGES = {"texture.isa": Role.TEXTURE, "surface.isa": Role.SURFACE}
_HANDLES = ("t", "a")
"""Names, in the instruction forms, of the operand with the texture or surface handle."""
_DIMENSIONS = {".1d": 1, ".2d": 2, ".3d": 3, ".cube": 2, ".a1d": 2, ".a2d": 3, ".acube": 3}


@fact
def _images(routine: Routine) -> dict[Leaf, Slot]:
    """Parts of parameters that are texture or surface handles."""
    found: dict[Leaf, Slot] = {}
    for i, bound in matching(routine, lambda bound: bound.form.file in _IMAGES):
        operand = next((one for one in bound.operands if one.name in _HANDLES), None)
        if operand is None:
            continue
        children = routine.instructions[i].children
        node: Node = children[(2 if type(children[0]) is Guard else 1) + operand.path[0]]
        for step in operand.path[1:]:
            node = node.children[step]
        term = values(routine).operand(i, node)
        leaf = leaf_of(term) if term is not None else None
        if leaf is not None:
            dimensions = next((_DIMENSIONS[one] for one in bound.modifiers if one in _DIMENSIONS), 2)
            found[leaf] = Slot(leaf[1], leaf[2], _IMAGES[bound.form.file], rank=dimensions)
    return found
