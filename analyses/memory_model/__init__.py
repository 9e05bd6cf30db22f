"""The memory consistency model of PTX (chapter 8 of the ISA) as an executable model.

A `Program` (`program`) consists of a few threads with their CTAs and operations: loads, stores, atomics, fences, proxy fences, barriers,
asynchronous copies, arithmetic and branches.

    program = Program(
        (
            Thread("P0", cta=0, gpu=0, code=(Store(Address("x"), 1), Store(Address("flag"), 1, "release", "gpu"))),
            Thread("P1", cta=1, gpu=0, code=(Load("r0", Address("flag"), "acquire", "gpu"), Load("r1", Address("x")))),
        ),
        (Variable("x"), Variable("flag")),
    )

`allowed_outcomes(program)` returns the possible final values of its registers, in the order of `registers(program)`, which is also
the order of the results that the kernel `to_ptx(program)` writes. `racy(program)` says whether an allowed execution has a data race
(8.7.1). `outcomes` returns each outcome with an execution as evidence, `find_race` an execution with a race, `generate(seed)` a random
program.

`execution` defines the relations and axioms as in the manual, each with its section, and documents how ambiguities are resolved.
`litmus` reads litmus files.
"""

from __future__ import annotations

from ptxkit.analyses.memory_model.enumerator import (
    LOOPS,
    Outcome,
    Outcomes,
    Register,
    Wanted,
    as_mapping,
    find_race,
    outcomes,
    registers,
)
from ptxkit.analyses.memory_model.execution import AXIOMS, SECTIONS, Execution
from ptxkit.analyses.memory_model.generate import Taste, generate
from ptxkit.analyses.memory_model.kernels import CannotWrite, Kernel, to_ptx
from ptxkit.analyses.memory_model.paths import CannotFollow
from ptxkit.analyses.memory_model.program import (
    Address,
    AsyncAccess,
    AsyncArrive,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Atomic,
    Barrier,
    Branch,
    Compute,
    Fence,
    Label,
    Load,
    Operation,
    Program,
    ProxyFence,
    Store,
    Thread,
    Variable,
)
from ptxkit.analyses.memory_model.skeleton import Observed


def allowed_outcomes(program: Program, *, loops: int = LOOPS) -> set[tuple[int, ...]]:
    """What `registers(program)` may hold at the end, in that order. Raises CannotFollow."""
    return outcomes(program, races=False, loops=loops).values()


def racy(program: Program, *, loops: int = LOOPS) -> bool:
    """Whether an allowed execution has a data race (8.7.1). Raises CannotFollow."""
    return find_race(program, loops=loops) is not None


__all__ = [
    "AXIOMS",
    "SECTIONS",
    "Address",
    "AsyncAccess",
    "AsyncArrive",
    "AsyncCommit",
    "AsyncCopy",
    "AsyncWait",
    "Atomic",
    "Barrier",
    "Branch",
    "CannotFollow",
    "CannotWrite",
    "Compute",
    "Execution",
    "Fence",
    "Kernel",
    "Label",
    "Load",
    "Observed",
    "Operation",
    "Outcome",
    "Outcomes",
    "Program",
    "ProxyFence",
    "Register",
    "Store",
    "Taste",
    "Thread",
    "Variable",
    "Wanted",
    "allowed_outcomes",
    "as_mapping",
    "find_race",
    "generate",
    "outcomes",
    "racy",
    "registers",
    "to_ptx",
]
