"""Plausible thread blocks and grids of a kernel, from its directives, the special registers it reads, and the sizes of its shared
arrays."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator

from ptxkit.analyses.framework.bindings import bindings, by_form, has_matching, matching
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.inputs.example import Size
from ptxkit.analyses.inputs.parameters import addresses, conditions
from ptxkit.analyses.inputs.reached import needs, reached, read
from ptxkit.analyses.launch.launch import WARP, launch
from ptxkit.analyses.memory.accesses import accesses, size_of
from ptxkit.analyses.symbolic.terms import Term, walk
from ptxkit.analyses.symbolic.values import values
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.isa.types import types
from ptxkit.syntax import constant_value

_LENGTHS = (128, 256, 64, 32, 512, 1024, 16, 8, 4, 1)
_PLANES = ((16, 16), (32, 8), (32, 32), (8, 8), (64, 4), (32, 4), (16, 4), (8, 16), (32, 1), (4, 4), (1, 1))
_BOXES = ((8, 8, 4), (8, 4, 4), (4, 4, 4), (32, 2, 2), (32, 4, 2), (8, 8, 2), (32, 1, 1), (1, 1, 1))
AXES = "xyz"
"""The dimensions of a block or a grid."""
MOST_CTAS = 8
"""Maximum number of CTAs along a dimension: a kernel that distinguishes more gets two."""
MOST_THREADS = 1024
"""Maximum number of threads in a block."""


@frozen
class Shape:
    """A thread block, a grid, and a cluster shape if the CTAs form clusters."""

    block: Size
    grid: Size
    cluster: Size | None


@fact
def shapes(routine: Routine) -> tuple[Shape, ...]:
    """The shapes to try, the most likely first; exactly one if the directives determine it."""
    cluster = cluster_of(routine)
    return tuple([Shape(block, _grid(routine, cluster), cluster) for block in _blocks(routine)])


def declares_block(routine: Routine, block: Size) -> bool:
    """Whether the kernel specifies blocks of this many threads: by `.reqntid`, or by a `.maxntid` of the same size that is below the
    hardware limit."""
    known = launch(routine)
    return known.threads is not None or math.prod(block) == known.most[0] < MOST_THREADS


def may_have_other_dimensions(routine: Routine, block: Size) -> bool:
    """Whether a block of several dimensions may as well have other ones: the kernel specifies its number of threads, by a `.maxntid` with
    one number, and not its dimensions."""
    said = _said(routine)
    is_one_number = said is not None and launch(routine).threads is None and said == (math.prod(said), 1, 1)
    return is_one_number and len([side for side in block if side > 1]) > 1


def is_for_several_ctas(routine: Routine) -> bool:
    """Whether the kernel is meant for several CTAs: addresses depend on the CTA index, or it updates global memory.

    A kernel that reads neither its CTA index nor the grid size qualifies only if it may obtain its index from an update, that is, if an
    address depends on something unknown.
    """
    made_of = [address for of in reached(routine) for address in addresses(of)]
    is_unknown = any(map(is_hidden, made_of)) or len(reached(routine)) > 1
    if not asks_ctas(routine):
        return is_unknown and _updates(routine)
    return is_unknown or bool(_dimensions(made_of, "%ctaid")) or _updates(routine)


@fact
def needless_axes(routine: Routine) -> frozenset[str]:
    """The axes of the grid along which one CTA does all the work.

    All of them for a kernel that never reads its CTA index or is not meant for several CTAs. Otherwise those along which it reads the grid
    size, to stride over its elements or to count the CTAs that meet, while another axis says where it stores. Where an update distributes
    elements to CTAs, the addresses are unknown, and no axis is needless.
    """
    if not asks_ctas(routine) or not is_for_several_ctas(routine):
        return frozenset(AXES)
    stores = [access.address for of in reached(routine) for access in accesses(of) if access.writes and access.space not in _OWN]
    if len(reached(routine)) > 1 or any(address is None or is_hidden(address) for address in stores):
        return frozenset()
    leaves = {leaf.name for address in stores if address is not None for leaf in address.leaves() if leaf.data}
    needed = {axis for axis in AXES if f"%ctaid.{axis}" in leaves}
    return frozenset([axis for axis in AXES if needed and axis not in needed and f"%nctaid.{axis}" in read(routine)])


_OWN = frozenset((".shared", ".local"))
"""State spaces that a CTA, or a thread, has of its own."""


def is_hidden(address: Term) -> bool:
    """Whether an address depends on a loop value or on memory."""
    return any(leaf.operator in ("phi", "value") for leaf in address.leaves())


def asks_ctas(routine: Routine) -> bool:
    """Whether a kernel reads the CTA index or the grid size."""
    return any(name.startswith(("%ctaid", "%nctaid")) for name in read(routine))


def _updates(routine: Routine, operations: tuple[str, ...] = ()) -> bool:
    """Whether a kernel updates memory that other CTAs may update, that is, neither shared memory nor at CTA scope; optionally only by
    some `operations`."""

    def holds(bound: Bound) -> bool:
        is_own = any(word.startswith((".shared", ".cta")) for word in bound.modifiers)
        return bound.form.mnemonic in ("atom", "red") and not is_own and (not operations or any(map(bound.has, operations)))

    return any(has_matching(one, holds) for one in reached(routine))


@fact
def fewest(routine: Routine) -> int:
    """The least number of threads of a block: from the directives, or as many as the uses of the thread index distinguish.

    One, if no address and no branch depends on the thread; a warp, if lanes differ and warps do not. A kernel that reads its block size, or
    synchronizes the whole CTA, has several warps.
    """
    known = launch(routine)
    if known.threads is not None:
        return math.prod(known.threads)
    asks = _depended_on(routine)
    if not asks & _WHO and not needs(routine, "warp"):
        return 1
    # in a loop with a thread-count stride, the comparison of the index is with the number of elements
    counts = [] if _strides(routine) else [distinguished(routine)]
    if asks & _SIZES or needs(routine, "cta") or needs(routine, "warpgroup"):
        counts.append(2 * WARP)
    return max([WARP, *counts])


def _expected_of(routine: Routine) -> tuple[int, ...]:
    """The thread counts that the addresses and conditions of a kernel suggest."""
    terms = [term for of in reached(routine) for term in (*addresses(of), *conditions(of))]
    return tuple({_expected(part): None for term in terms for part in walk(term)})


@fact
def _strides(routine: Routine) -> tuple[int, ...]:
    """Strides, in elements, of loops in which each thread starts at its own element, if they are whole warps: the number of threads, or
    a multiple of it if the loop was unrolled. If code before the loop executes the remainder of its iterations, the loop has several
    starts, which are a stride apart, too."""
    found = set()
    for of in reached(routine):
        known = values(of)
        for address in [access.address for access in accesses(of) if access.address is not None]:
            for leaf in address.leaves():
                loop = known.induction(leaf.ssa_value) if leaf.operator == "phi" and leaf.ssa_value is not None else None
                if loop is None or not loop.step:
                    continue
                starts = _starts(loop.start)
                elements_apart = {_element_of_thread(parts) for _, parts in starts}
                each = elements_apart.pop() if len(elements_apart) == 1 else 0
                step = math.gcd(loop.step, *[constant - starts[0][0] for constant, _ in starts])
                if each and step % (WARP * each) == 0 and 0 < step // each <= MOST_THREADS:
                    found.add(step // each)
    return tuple(sorted(found))


def _starts(start: Term) -> list[tuple[int, tuple[tuple[Term, int], ...]]]:
    """The sums, each a constant and its parts, of which a loop starts with one: several if paths with other values merge before it."""
    constant, parts = start.linear
    merges = [(atom, factor) for atom, factor in parts if atom.operator == "join"]
    if len(merges) != 1:
        return [(constant, parts)]
    merge, factor = merges[0]
    others = tuple([one for one in parts if one[0] is not merge])
    sums = [one for term in merge.args for one in _starts(term)]
    return [(constant + factor * inner, (*others, *[(atom, factor * each) for atom, each in of])) for inner, of in sums]


def _element_of_thread(parts: Iterable[tuple[Term, int]]) -> int:
    """The change of a sum from one `%tid.x` to the next, if it depends on no other index; otherwise 0."""
    factors = [factor for atom, factor in parts if _is_index(atom.args[0] if atom.operator in ("zext", "sext") else atom)]
    return factors[0] if len(factors) == 1 and factors[0] > 0 else 0


def _is_index(atom: Term) -> bool:
    return atom.name == "%tid.x"


@fact
def distinguished(routine: Routine) -> int:
    """The least number of threads for which all comparisons and divisions of the thread index matter."""
    most = min(MOST_THREADS, launch(routine).most[0])
    return max([count for count in _expected_of(routine) if count <= most], default=1)


@fact
def distinguishes_ctas(routine: Routine) -> bool:
    """Whether an address or branch depends on the CTA index. If not, a grid of one CTA shows all that the kernel does."""
    return bool(_depended_on(routine) & _CTAS)


def _depended_on(routine: Routine) -> frozenset[str]:
    """The special registers that addresses and branches depend on; all that are read if loops or memory hide the dependence."""
    terms = [term for of in reached(routine) for term in (*addresses(of), *conditions(of))]
    leaves = {leaf for term in terms for leaf in term.leaves()}
    if len(reached(routine)) > 1 or any(leaf.operator in ("phi", "value") for leaf in leaves):
        return frozenset([name.partition(".")[0] for name in read(routine)])
    return frozenset([leaf.name.partition(".")[0] for leaf in leaves if leaf.data])


_CTAS = frozenset(("%ctaid", "%nctaid", "%clusterid", "%cluster_ctaid", "%cluster_ctarank"))
_WHO = frozenset(("%tid", "%laneid", "%warpid", "%lanemask_eq", "%lanemask_le", "%lanemask_lt", "%lanemask_ge", "%lanemask_gt"))
_SIZES = frozenset(("%ntid", "%warpid", "%nwarpid"))


def _expected(term: Term) -> int:
    """The thread count that a term about `%tid` suggests: 65 for `%tid.x < 64`, as many for `%tid.x >> 5 == 2`, two warps for `%tid.x >>
    5` alone, 128 for `%tid.x >> 6` or `%tid.x & -64`; otherwise one."""
    compared = _compared(term)
    if compared is not None:
        index, number = compared
        if index.is_leaf and index.name.startswith("%tid"):
            return number + 1
        if index.operator == "shr.u" and index.args[0].is_leaf and index.args[0].data and index.args[1].constant is not None:
            return (number << index.args[1].constant) + 1 if index.args[0].name.startswith("%tid") else 1
    if len(term.args) != 2:
        return 1
    one, other = term.args
    known, index = (one.constant, other) if one.constant is not None else (other.constant, one)
    if known is None or not index.is_leaf or not index.name.startswith("%tid"):
        return 1
    if term.operator.startswith("shr"):
        return 2 << known if WARP.bit_length() - 1 <= known < MOST_THREADS.bit_length() else 1
    group = known & -known
    if term.operator == "and" and group in (-known, (1 << term.width) - known):
        # all but the low bits: groups of this many threads
        return 2 * group if WARP <= group < MOST_THREADS else 1
    return 2 * WARP if known >= WARP and term.operator.startswith(("and", "xor", "div", "rem")) else 1


def _compared(term: Term) -> tuple[Term, int] | None:
    """The term that a comparison compares with a constant, and the constant: equal to it, less than it, or not greater than it."""
    if term.operator not in ("eq", "lt.u", "lt.s"):
        return None
    one, other = term.args
    if other.constant is not None:
        return one, other.constant
    return (other, one.constant + (term.operator != "eq")) if one.constant is not None else None


def _blocks(routine: Routine) -> tuple[Size, ...]:
    known = launch(routine)
    if known.threads is not None:
        return (known.threads,)
    most = known.most[0]
    axes = _axes(routine)
    said = _said(routine)
    if not axes:
        # no thread index is read: one thread, or as many as must execute together
        together = next((size for level, size in (("cta", 2 * WARP), ("warpgroup", 4 * WARP), ("warp", WARP)) if needs(routine, level)), 1)
        return tuple([(size, 1, 1) for size in dict.fromkeys([min(together, most), *awaited(routine, most)])])
    if said is not None and len(axes) == 1 and said == (most, 1, 1):
        if _tiles(routine).get(axes[0]) == most and all(stride % most == 0 for stride in _strides(routine)):
            # each thread has one element of the part of its CTA
            return (_along(axes[0], most),)
        return tuple([_along(axes[0], length) for length in dict.fromkeys([most, *_lengths(routine, most)])])
    if said is not None and len([size for size in said if size > 1]) >= len(axes):
        return (said,)
    if len(axes) == 1:
        shortest, part = singled_out(routine).get(axes[0], 1), _part(routine, axes[0])
        lengths = [length for length in _lengths(routine, most) if shortest <= length <= part] or [most]
        return tuple([_along(axes[0], length, WARP if needs(routine, "warp") else 1) for length in lengths])
    areas = elements(routine)
    choices: list[Size] = []
    for sides in _PLANES if len(axes) == 2 else _BOXES:
        size = [1, 1, 1]
        for axis, side in zip(axes, sides, strict=False):
            size[AXES.index(axis)] = side
        if math.prod(size) <= most:
            choices.append((size[0], size[1], size[2]))
    if most < MOST_THREADS:
        choices += _factored(most, axes)
    # a block that is larger than the part of the problem that its CTA has does the work of another one, too
    tiles = {axis: _with_halo(part) for axis, part in _tiles(routine).items()}
    own = [size for size in choices if all(side <= tiles.get(axis, side) for axis, side in zip(AXES, size, strict=True))]
    choices = own if max(map(math.prod, own), default=1) > 1 else choices
    # prefer blocks that have the threads which are named, then those whose rows are warps if lanes cooperate, and then those with as many
    # threads as an array has elements
    least = _named(routine)
    wide = WARP if needs(routine, "warp") else 1
    lacks = {size: any(side < least.get(axis, 1) for axis, side in zip(AXES, size, strict=True)) for size in choices}
    return tuple(sorted(lacks, key=lambda size: (lacks[size], size[0] % wide > 0, math.prod(size) not in areas))) or ((1, 1, 1),)


def singled_out(routine: Routine) -> dict[str, int]:
    """By axis, the least length of a block that has all threads which the kernel singles out: 16 for `%tid.y == 15`."""
    return _named(routine, ("eq",))


def _named(routine: Routine, by: Collection[str] = ("eq", "lt.u", "lt.s")) -> dict[str, int]:
    """By axis, how many threads comparisons of the index with constants name: 16 for `%tid.y == 15` and for `%tid.y < 16`."""
    found: dict[str, int] = {}
    for term in {part: None for of in reached(routine) for whole in conditions(of) for part in walk(whole)}:
        index, number = _compared(term) or (term, 0)
        name, _, axis = _index_name(index).partition(".")
        if name == "%tid" and term.operator in by and 0 < number < MOST_THREADS:
            found[axis] = max(found.get(axis, 1), number + (term.operator == "eq"))
    return found


@fact
def _tiles(routine: Routine) -> dict[str, int]:
    """By axis, how long the part of the problem that a CTA has is, in threads: 8 if an index is `8 * %ctaid.x + %tid.x`, as CTAs are so far
    apart, and if the threads share out 8 elements in `(8 + %ntid.x - 1) / %ntid.x` rounds. Only axes along which that is a constant; the
    largest, if there are several."""
    found: dict[str, int] = {}
    terms = {part: None for of in reached(routine) for whole in (*addresses(of), *conditions(of)) for part in walk(whole)}
    for term in terms:
        axis, count = _shared_out(term)
        if count > 1:
            found[axis] = max(found.get(axis, 1), count)
    for term in terms:
        factors = {_index_name(atom): factor for atom, factor in term.parts} if term.operator == "sum" else {}
        for axis in AXES:
            thread, cta = factors.get(f"%tid.{axis}", 0), factors.get(f"%ctaid.{axis}", 0)
            if thread > 0 and cta > thread and cta % thread == 0:
                found[axis] = max(found.get(axis, 1), cta // thread)
    return found


def _shared_out(term: Term) -> tuple[str, int]:
    """The axis along which threads share out a constant number of elements, and how many, for the number of rounds that this takes; no
    elements for any other term."""
    if term.operator not in ("div.u", "div.s"):
        return "", 0
    name, _, axis = _index_name(term.args[1]).partition(".")
    count, parts = term.args[0].linear
    rest = [(_index_name(atom), factor) for atom, factor in parts]
    if name != "%ntid" or rest not in ([], [(f"%ntid.{axis}", 1)]):
        return "", 0
    return axis, count + len(rest)


def _part(routine: Routine, axis: str) -> int:
    """The most threads of a block of one dimension that do not do the work of the next CTA, if the kernel says how far the parts of CTAs
    are apart. It must neither ask for its block size nor name threads, as only these may have an element there."""
    part = _tiles(routine).get(axis, 0)
    is_exact = part >= WARP and f"%ntid.{axis}" not in read(routine) and axis not in _named(routine)
    return _with_halo(part) if is_exact else MOST_THREADS


def _with_halo(part: int) -> int:
    """The most threads along an axis for a part of the problem. A part that is not a power of two may be a block without its halo: 112
    elements for 128 threads, eight of which at each end only load."""
    return 1 << (part - 1).bit_length()


def _index_name(atom: Term) -> str:
    """The special register that an atom of a sum is, extended or not; empty for any other."""
    while atom.operator in ("zext", "sext", "trunc"):
        atom = atom.args[0]
    return atom.name if atom.is_leaf else ""


def _factored(count: int, axes: str) -> Iterator[Size]:
    """The blocks of `count` threads with more than one thread along each of the axes, wide ones first."""
    for side in range(count // 2, 1, -1):
        if count % side == 0 and len(axes) == 2:
            x, y, z = [dict(zip(axes, (side, count // side), strict=True)).get(axis, 1) for axis in AXES]
            yield x, y, z
        elif count % side == 0 and len(axes) == 3:
            yield from [(side, y, z) for _, y, z in _factored(count // side, axes[1:])]


def _along(axis: str, length: int, wide: int = 1) -> Size:
    """A block of `length` threads in one dimension. If that is not x, rows along x are `wide`, for threads that execute together."""
    size = [1, 1, 1]
    if axis != "x" and wide <= length:
        size[0], length = wide, length // wide
    size[AXES.index(axis)] = min(length, 64) if axis == "z" else length
    return size[0], size[1], size[2]


def _lengths(routine: Routine, most: int) -> tuple[int, ...]:
    """Lengths of a one-dimensional block. The first are the element counts of arrays that may have one element for each thread; 32
    elements are more likely one for each warp. Other counts come last: a host may launch two threads for two elements."""
    fitting = [count for count in sorted(elements(routine), reverse=True) if count % WARP == 0 and WARP < count <= min(most, 1024)]
    own = [most] if most < 1024 and most % WARP == 0 else []
    own += [stride for stride in _strides(routine)[:1] if stride <= most]
    lengths = dict.fromkeys([*own, *fitting[:2], *_LENGTHS, *awaited(routine, most)])
    # if lanes cooperate, warps are full
    least = WARP if needs(routine, "warp") and most >= WARP else 1
    usual = [length for length in lengths if least <= length <= most]
    few = [count for count in sorted(elements(routine), reverse=True) if distinguished(routine) <= count < min(most + 1, WARP)]
    return tuple(dict.fromkeys([*usual, *few])) or (most,)


def awaited(routine: Routine, most: int = MOST_THREADS) -> tuple[int, ...]:
    """The thread counts that barriers expect."""
    found = {}
    for of in reached(routine):
        for instruction, bound in zip(of.instructions, bindings(of), strict=True):
            operand = bound.threads if isinstance(bound, Bound) else None
            value = constant_value(instruction.operands[operand.path[0]]) if operand is not None else None
            if isinstance(value, int) and 0 < value <= most:
                found[value] = True
    return tuple(found)


def _said(routine: Routine) -> Size | None:
    """The shape of `.maxntid`, if it is given."""
    for directive in routine.function.header.directives:
        if directive.name == ".maxntid":
            sizes = [constant_value(argument) for argument in directive.arguments]
            if sizes and all(isinstance(size, int) and size > 0 for size in sizes):
                x, y, z = [*[int(str(size)) for size in sizes], 1, 1][:3]
                return (x, y, z) if x * y * z <= 1024 else None
    return None


def _axes(routine: Routine) -> str:
    """The dimensions of the block in which the kernel distinguishes threads."""
    names = read(routine)
    if "%tid" in names:
        return AXES
    axes = "".join([axis for axis in AXES if f"%tid.{axis}" in names])
    if axes:
        # a dimension used only in conditions, such as to select the first thread, has length one
        used = _looked_at(routine, "%tid") | _of_parts(routine)
        return "".join([axis for axis in axes if axis in used]) or axes[0]
    return "x" if any(name.startswith(("%laneid", "%lanemask", "%warpid")) for name in names) else ""


def _of_parts(routine: Routine) -> frozenset[str]:
    """The dimensions along which the part of the problem that a CTA has is as long as its block: addresses depend on
    `%ctaid.y * %ntid.y`."""
    products = {part for of in reached(routine) for whole in addresses(of) for part in walk(whole) if part.operator == "mul"}
    factors = [frozenset(map(_index_name, product.args)) for product in products]
    return frozenset([axis for axis in AXES if {f"%ctaid.{axis}", f"%ntid.{axis}"} in factors])


def _looked_at(routine: Routine, name: str) -> frozenset[str]:
    """The dimensions of an index that addresses depend on; if there are none, those that conditions depend on; none if all threads, or
    CTAs, do the same at the same addresses."""
    made_of = [address for of in reached(routine) for address in addresses(of)]
    found = _dimensions(made_of, name) or _dimensions([one for of in reached(routine) for one in conditions(of)], name)
    is_unknown = any(map(is_hidden, made_of))
    return found or frozenset(
        [axis for axis in AXES if f"{name}.{axis}" in read(routine)][:1] if is_unknown or len(reached(routine)) > 1 else ()
    )


@fact
def shared_axes(routine: Routine) -> frozenset[str]:
    """The dimensions of the thread index that addresses in shared memory depend on, except those that only contribute to the linear
    thread index."""
    found = [access.address for of in reached(routine) for access in accesses(of) if access.space.startswith(".shared")]
    return _dimensions([address for address in found if address is not None], "%tid")


def _dimensions(terms: Iterable[Term], name: str) -> frozenset[str]:
    """The dimensions of an index that terms depend on, except those that only contribute to the linear thread index."""
    leaves = {leaf.name for term in terms for leaf in _without_ranks(term) if leaf.data}
    return frozenset([axis for axis in AXES if f"{name}.{axis}" in leaves])


def _without_ranks(term: Term) -> Iterator[Term]:
    """The leaves of a term, except those multiplied by a block size: in `(%tid.z * %ntid.y + %tid.y) * %ntid.x`, the part of the linear
    thread index that precedes `%tid.x`."""
    is_asked = any(_is_of(leaf, "%tid") for leaf in term.leaves()) and any(_is_of(leaf, "%ntid") for leaf in term.leaves())
    if not is_asked:
        yield from term.leaves()
    elif term.operator != "mul" or not any(_is_of(one, "%ntid") for one in term.args):
        for one in term.inner:
            yield from _without_ranks(one)


def _is_of(leaf: Term, name: str) -> bool:
    return leaf.is_leaf and leaf.name.startswith(name + ".")


@fact
def elements(routine: Routine) -> frozenset[int]:
    """Element counts of shared arrays, according to the size of their accesses."""
    found = set()
    for access in accesses(routine):
        symbol = access.where.symbol if access.where is not None else None
        if symbol is None or access.space != ".shared" or symbol.is_open_ended or not access.bytes:
            continue
        size = size_of(symbol)
        kind = _element_of(routine, access.instruction) or access.bytes
        if size and size % kind == 0:
            found.add(size // kind)
    return frozenset(found)


def _element_of(routine: Routine, i: int) -> int:
    bound = bindings(routine)[i]
    kind = types().get(bound.type) if isinstance(bound, Bound) else None
    return kind.bytes if kind is not None else 0


def cluster_of(routine: Routine) -> Size | None:
    """The cluster shape: from the directive, or two CTAs if the kernel uses cluster features."""
    for directive in routine.function.header.directives:
        if directive.name == ".reqnctapercluster":
            sizes = [constant_value(argument) for argument in directive.arguments]
            if sizes and all(isinstance(size, int) and size > 0 for size in sizes):
                x, y, z = [*[int(str(size)) for size in sizes], 1, 1][:3]
                return x, y, z
    names = {name.partition(".")[0] for name in read(routine)}
    asks = names & {"%cluster_ctarank", "%cluster_ctaid", "%cluster_nctarank", "%cluster_nctaid"} or needs(routine, "cluster")
    return (2, 1, 1) if asks or any(_is_remote(bound) for one in reached(routine) for bound in by_form(one)) else None


def _is_remote(bound: Bound) -> bool:
    return ".shared::cluster" in bound.modifiers and any(operand.role == "w" for operand in bound.operands)


def _grid(routine: Routine, cluster: Size | None) -> Size:
    """Two CTAs along each dimension that the kernel uses, at most four in all, or as many as it distinguishes; one cluster, or two if the
    index of a CTA in the grid is taken for its rank."""
    names = read(routine)
    used = _looked_at(routine, "%ctaid")
    updated = _updates(routine)
    asks = [axis in used or "%ctaid" in names or (updated and f"%ctaid.{axis}" in names) for axis in AXES]
    compared = _ctas_compared(routine)
    x, y, z = [max(2, compared.get(f"%ctaid.{axis}", 1)) if asked else 1 for axis, asked in zip(AXES, asks, strict=True)]
    if x * y > 2:
        z = min(z, 1)
    if not any(asks) and _updates(routine, (".add", ".inc")):
        # CTAs that obtain their index from a counter
        x = 2
    if cluster is not None:
        several = x if cluster == (1, 1, 1) else 1 + any(map(_ranks_by_grid, reached(routine)))
        return cluster[0] * several, cluster[1], cluster[2]
    return x, y, z


def _ranks_by_grid(routine: Routine) -> bool:
    """Whether the rank of a CTA for `mapa` is computed from its index in the grid, which is the same only in the first cluster."""
    given = [(i, operand) for i, bound in matching(routine, _is_map) if (operand := bound.operand("b")) is not None]
    ranks = [values(routine).operand(i, routine.instructions[i].operands[operand.path[0]]) for i, operand in given]
    return any(leaf.name.startswith("%ctaid") for rank in ranks if rank is not None for leaf in rank.leaves())


def _is_map(bound: Bound) -> bool:
    return bound.form.mnemonic == "mapa"


@fact
def _ctas_compared(routine: Routine) -> dict[str, int]:
    """For each CTA index, how many CTAs comparisons with constants distinguish: four for `%ctaid.x == 3`."""
    found: dict[str, int] = {}
    for term in {part: None for of in reached(routine) for condition in conditions(of) for part in walk(condition)}:
        compared = _compared(term)
        if compared is None or compared[1] >= MOST_CTAS:
            continue
        names = {leaf.name for leaf in compared[0].leaves() if leaf.data}
        if len(names) == 1:
            name = names.pop()
            found[name] = max(found.get(name, 1), compared[1] + 1)
    return found
