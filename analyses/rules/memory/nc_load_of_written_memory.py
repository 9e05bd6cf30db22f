"""S007 nc-load-of-written-memory."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit import fixing
from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.paths import comes_to
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.memory.accesses import Access, accesses
from ptxkit.analyses.symbolic.terms import Parts
from ptxkit.diagnostics import Diagnostic, Fix, Severity
from ptxkit.isa.binding import Bound

READONLY = (".nc", ".proxy::readonly")


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Loads through the read-only path of data that the same thread writes at the same address."""
    for routine in facts.routines:
        loads = [access for access in accesses(routine) if _is_readonly(routine, access)]
        if not loads:
            continue
        written: dict[Parts, list[Access]] = {}
        for access in accesses(routine):
            if access.writes and access.address is not None and access.space in ("", ".global"):
                written.setdefault(access.address.linear[1], []).append(access)
        for load in loads:
            store = next((store for store in written.get(_parts(load), ()) if _meet(routine, load, store)), None)
            if store is not None:
                yield facts.report(
                    RULE,
                    (*routine.where(load.instruction), load.child),
                    "loaded as read-only memory, but this kernel writes it",
                    f"the address is {load.address}",
                    related=[((*routine.where(store.instruction), store.child), "written here")],
                    fix=_fix(facts, routine, load.instruction),
                )


def _is_readonly(routine: Routine, access: Access) -> bool:
    bound = bindings(routine)[access.instruction]
    return access.reads and isinstance(bound, Bound) and any(bound.has(modifier) for modifier in READONLY)


def _parts(load: Access) -> Parts:
    return load.address.linear[1] if load.address is not None else ()


def _meet(routine: Routine, load: Access, store: Access) -> bool:
    """Whether both access a common byte, and every thread that executes the load has executed the store: before that, nothing is wrong."""
    if load.address is None or store.address is None or not load.bytes or not store.bytes or not _parts(load):
        return False
    size = 1 << load.address.width
    distance = (load.address.linear[0] - store.address.linear[0]) % size
    if not (distance < store.bytes or size - distance < load.bytes):
        return False
    blocks = control_flow(routine).block_of
    one, other = blocks[store.instruction], blocks[load.instruction]
    if one != other or store.instruction < load.instruction:
        if dominators(routine).tree.dominates(one, other):
            return True
    # in a later iteration, the address is the same only if it does not depend on the loop
    is_fixed = not any(leaf.operator in ("phi", "value") for leaf in load.address.leaves())
    return is_fixed and comes_to(routine, store.instruction, load.instruction)


def _fix(facts: Facts, routine: Routine, i: int) -> Fix | None:
    """Loads through the coherent caches instead."""
    opcode = routine.instructions[i].opcode
    at = routine.instructions[i].children.index(opcode)
    without = opcode.text.replace(".nc", "")
    return Fix("remove `.nc`", (fixing.replace(facts.index, (*routine.where(i), at), without),)) if without != opcode.text else None


RULE = Rule(
    id="S007",
    name="nc-load-of-written-memory",
    severity=Severity.WARNING,
    summary="a read-only load of memory that the kernel itself writes",
    why=("The cache that ld.global.nc reads through is not coherent: the load may return what was there before the store (9.7.10.9)."),
    bad="""
        cvta.to.global.u64 %rd2, %rd1;
        st.global.u32 [%rd2+4], %r1;
        ld.global.nc.u32 %r2, [%rd2+4];
    """,
    good="""
        cvta.to.global.u64 %rd2, %rd1;
        st.global.u32 [%rd2+4], %r1;
        ld.global.nc.u32 %r2, [%rd2+8];
    """,
    proof=(
        "The addresses of the load and of a store before it are the same expression, or an execution loads what a thread has stored, with "
        "or without a barrier between."
    ),
    sanitizer="none of its tools looks for this.",
    check=check,
)
