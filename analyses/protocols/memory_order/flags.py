"""Flags in memory that signal other threads: polled without ordering semantics, or set without a release (8.5 to 8.8)."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.loops import Loop, loops
from ptxkit.analyses.cfg.reachability import closure
from ptxkit.analyses.framework.bindings import bindings, specials
from ptxkit.analyses.framework.finding import Finding
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.launch.launch import launch
from ptxkit.analyses.memory.accesses import Access, accesses
from ptxkit.analyses.numbers.bits import bits
from ptxkit.analyses.protocols.memory_order.kinds import FlagFault
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.symbolic.terms import Term, walk
from ptxkit.analyses.symbolic.values import values
from ptxkit.isa.binding import Bound
from ptxkit.isa.types import types

_SEEN_BY_OTHERS = (".global", ".shared", "")
_SYNCHRONIZING = frozenset(("fence", "init-fence", "volatile", "grid-wait"))


@fact
def findings(routine: Routine) -> tuple[Finding, ...]:
    """Errors in the use of flags, and global memory that is accessed without a bounds check."""
    return (*_weak_polling(routine), *_unreleased(routine), *_unguarded(routine))


def _order(access: Access) -> str:
    return access.memory.order.lstrip(".")


def _is_weak(routine: Routine, access: Access) -> bool:
    bound = bindings(routine)[access.instruction]
    return _order(access) in ("", "weak") and isinstance(bound, Bound) and "volatile" not in bound.effects


def _weak_polling(routine: Routine) -> Iterator[Finding]:
    """Loops that iterate until a weak load returns another value."""
    flow = control_flow(routine)
    by_block: dict[int, list[Access]] = {}
    for access in accesses(routine):
        by_block.setdefault(flow.block_of[access.instruction], []).append(access)
    for loop in loops(routine).loops:
        inside = [access for block in bits(loop.blocks) for access in by_block.get(block, ())]
        if len(inside) != 1 or not inside[0].reads or inside[0].writes or not _is_weak(routine, inside[0]):
            continue
        access = inside[0]
        if access.space not in _SEEN_BY_OTHERS or access.address is None or not _is_idle(routine, loop, access.instruction):
            continue
        if _iterations(routine, loop, access.address) or not _decides_alone(routine, loop, access.instruction):
            continue
        message = (
            "this load has no ordering semantics: it may be hoisted out of the loop, and need not make writes of other threads visible"
        )
        yield Finding(access.instruction, message, notes=("only the loaded value ends the loop",), kind=FlagFault.WEAK_POLLING)


def _is_idle(routine: Routine, loop: Loop, load: int) -> bool:
    """Whether nothing in a loop except the load interacts with other threads."""
    flow = control_flow(routine)
    for block in bits(loop.blocks):
        for i in range(flow.blocks[block].start, flow.blocks[block].end):
            bound = bindings(routine)[i]
            if not isinstance(bound, Bound) or bound.barrier or bound.flow == "call" or _SYNCHRONIZING & set(bound.effects):
                return False
            if i != load and (bound.memory or bound.converges is not None):
                return False
    return True


def _iterations(routine: Routine, loop: Loop, term: Term) -> bool:
    """Whether a number may differ in each iteration."""
    return any(leaf.ssa_value is not None and ssa(routine).values[leaf.ssa_value].block in loop for leaf in walk(term))


def _decides_alone(routine: Routine, loop: Loop, load: int) -> bool:
    """Whether every exit of a loop depends on the loaded value, and on nothing else that changes."""
    flow = control_flow(routine)
    loaded = set(ssa(routine).definitions[load])
    leaving = {block for block, _ in loops(routine).exits(loop)}
    if not leaving or any(flow.blocks[block].leaves for block in bits(loop.blocks)):
        return False
    for block in leaving:
        guard = values(routine).guard(flow.blocks[block].end - 1)
        if guard is None:
            return False
        numbers = {number for leaf in walk(guard) if (number := leaf.ssa_value) is not None}
        changing = {number for number in numbers if ssa(routine).values[number].block in loop}
        if not changing or not changing <= loaded:
            if not changing:
                guarded = _source(routine, flow.blocks[block].end - 1, loop, loaded)
                if guarded:
                    continue
            return False
    return True


def _source(routine: Routine, branch: int, loop: Loop, loaded: set[int]) -> bool:
    """Whether the guard of a branch is computed in a loop from the loaded value and constants."""
    graph = ssa(routine)

    def is_computed(number: int) -> bool:
        return number >= 0 and number not in loaded and graph.values[number].block in loop

    def operands(number: int) -> tuple[int, ...]:
        at = graph.values[number].instruction if is_computed(number) else -1
        return graph.uses[at] if at >= 0 else ()

    sources = closure(graph.uses[branch][:1], operands)
    if any(is_computed(number) and graph.values[number].instruction < 0 for number in sources):
        return False
    return not loaded.isdisjoint(sources)


def _base(access: Access) -> Term | None:
    """The parameter that an address is based on."""
    if access.address is None:
        return None
    found = [atom for atom, factor in access.address.linear[1] if atom.operator == "parameter" and factor == 1]
    return found[0] if len(found) == 1 else None


def _unreleased(routine: Routine) -> Iterator[Finding]:
    """Flags that are set without a release after data was written for the threads that poll the flag."""
    own = list(accesses(routine))
    flow = control_flow(routine)
    forest = loops(routine)
    polled: dict[Term, int] = {}
    for access in own:
        base = _base(access)
        index = forest.innermost[flow.block_of[access.instruction]]
        if base is None or not access.reads or access.writes or index is None or _order(access) not in ("acquire", "relaxed"):
            continue
        loop = forest.loops[index]
        inside = [one for one in own if flow.block_of[one.instruction] in loop]
        if len(inside) == 1 and _decides_alone(routine, loop, access.instruction):
            polled[base] = access.instruction
    for access in own:
        base = _base(access)
        if base not in polled or not access.writes or access.reads or _order(access) != "relaxed" or access.space not in (".global", ""):
            continue
        data = _written_before(routine, access, own)
        if data is not None and _is_read_after(polled[base], data, own):
            message = "this flag is set without a release: a thread that sees it need not see the writes before it"
            steps_ = ((data.instruction, "written here"), (polled[base], "the flag is polled here"))
            yield Finding(access.instruction, message, steps_, kind=FlagFault.PUBLISH_WITHOUT_RELEASE)


def _written_before(routine: Routine, flag: Access, own: list[Access]) -> Access | None:
    """The last weak write to other global memory before a flag is set, in the same block and without a fence in between."""
    flow = control_flow(routine)
    block = flow.blocks[flow.block_of[flag.instruction]]
    for i in range(flag.instruction - 1, block.start - 1, -1):
        bound = bindings(routine)[i]
        if not isinstance(bound, Bound) or bound.barrier or bound.flow or bound.converges is not None:
            return None
        if _SYNCHRONIZING & set(bound.effects):
            return None
        for access in own:
            if access.instruction != i or not access.writes:
                continue
            if _order(access) not in ("", "weak"):
                return None
            base = _base(access)
            if access.space in (".global", "") and base is not None and base is not _base(flag):
                return access
    return None


def _is_read_after(poll: int, data: Access, own: list[Access]) -> bool:
    """Whether a thread that polls the flag reads the data afterwards."""
    return any(one.reads and not one.writes and _base(one) is _base(data) and one.instruction > poll for one in own)


def _is_by_index(address: Term) -> bool:
    """Whether an element is accessed by the thread's index in the grid: the sum of its index in the CTA and an offset of the CTA. If
    these are part of other sums, threads work on tiles, which are complete in a grid."""
    for atom, _ in address.linear[1]:
        inner = atom.args[0] if atom.operator in ("zext", "sext") else atom
        terms = [term for term, _ in inner.linear[1]]
        if any(_names(term) == {"%tid.x"} and term.is_leaf for term in terms) and any("%ctaid.x" in _names(term) for term in terms):
            return True
    return False


def _names(term: Term) -> set[str]:
    return {leaf.name for leaf in term.leaves() if leaf.operator == "special"}


def _unguarded(routine: Routine) -> Iterator[Finding]:
    """Global memory that is accessed by the thread's index in the grid, in a kernel that never checks a size."""
    header = routine.function.header
    if not header.is_entry or not specials(routine) >= {"%tid.x", "%ctaid.x"}:
        return
    known = values(routine)
    flow = control_flow(routine)
    for i, instruction in enumerate(routine.instructions):
        if instruction.guard is not None and flow.block_of[i] in flow.reachable:
            guard = known.guard(i)
            if guard is not None and any(leaf.operator == "special" and leaf.name.startswith("%tid") for leaf in guard.leaves()):
                return
    text = "".join([instruction.text for instruction in routine.instructions])
    unused = [
        parameter.name
        for parameter in header.parameters
        if (kind := types().get(parameter.type or "")) is not None
        and kind.kind in ("signed", "unsigned", "bits")
        and kind.bytes == 4
        and parameter.name not in text
    ]
    if not unused:
        return
    for access in accesses(routine):
        if access.space != ".global" or access.address is None:
            continue
        if _is_by_index(access.address) and launch(routine).most[0] > 1:
            message = f"every thread of the grid accesses global memory here; nothing is compared with `{unused[0]}`, which is never read"
            yield Finding(access.instruction, message, kind=FlagFault.MISSING_BOUNDS_GUARD)
            return
