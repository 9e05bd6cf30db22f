"""Threads of a PTX kernel as a program: the memory operations that they execute, from entry to exit.

The instruction table says what is a memory operation, a fence or a barrier, with which order and scope; everything else is executed by the
machine, one thread at a time. A 64-bit parameter without a value is a pointer to its own buffer. An address is the same number in every
state space, so `cvta` is the identity. A barrier waits for those of the threads that reach it: all others are assumed to reach it, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ptxkit.analyses.memory_model.conditions import BadCondition, Compare, Condition, Either, parse_condition
from ptxkit.analyses.memory_model.enumerator import Register, Wanted
from ptxkit.analyses.memory_model.litmus import Litmus
from ptxkit.analyses.memory_model.program import Atomic, Load, Program
from ptxkit.analyses.memory_model.ptx_kernel import BadQuestion, Kernel, ThreadIndex
from ptxkit.analyses.memory_model.ptx_operations import operations_of
from ptxkit.analyses.memory_model.skeleton import Observed
from ptxkit.memo import expression
from ptxkit.syntax import parse, syntax_errors

THREAD = expression(r"\s*(\d+)\s*:\s*(\d+)\s*$")


def litmus_of(
    text: str,
    path: str,
    threads: str,
    *,
    kernel: str | None = None,
    parameters: Sequence[str] = (),
    exists: str | None = None,
) -> Litmus:
    """The test that asks whether threads of a kernel may end in a given state.

    `threads` like `0:0,0:1,1:0`, `parameters` like `n=4`, `exists` like `%r1@0:1 == 1`: register, CTA, thread; or a variable or parameter
    for the first bytes of its memory. Without `exists`, the question concerns all registers that reads write, and its answer is always yes.
    Raises BadQuestion, or CannotFollow.
    """
    running = _thread_indices(threads)
    program, keys = program_of(text, path, running, kernel=kernel, numbers=_numbers(parameters))
    if exists is None:
        return Litmus(program, "exists", _anything(program))
    return Litmus(program, "exists", _condition(exists, running, program, keys))


def program_of(
    text: str, path: str, running: tuple[ThreadIndex, ...], *, kernel: str | None = None, numbers: Mapping[str, int] | None = None
) -> tuple[Program, dict[str, str]]:
    """The code that these threads of a kernel execute, and the program's names of the registers. Raises BadQuestion, or CannotFollow."""
    module = parse(text, path)
    errors = [one for one in syntax_errors(module) if one.severity.value == "error"]
    if errors:
        raise BadQuestion(errors[0].message, errors[0].span.line, errors[0].span.column)
    return Kernel(module, kernel, running, dict(numbers or {}), operations_of).program()


def _anything(program: Program) -> Condition:
    """A condition that holds in every final state and mentions every register that a read writes."""
    condition: Condition = Compare(0, "==", 0)
    for t, thread in enumerate(program.threads):
        for one in thread.code:
            if isinstance(one, Load | Atomic) and one.register is not None:
                for name in (one.register,) if isinstance(one.register, str) else one.register:
                    condition = Either(condition, Compare(Register(t, name), "==", Register(t, name)))
    return condition


def _thread_indices(threads: str) -> tuple[ThreadIndex, ...]:
    found = []
    for one in threads.split(","):
        match = THREAD.match(one)
        if match is None:
            raise BadQuestion(f"--threads is a list like 0:0,0:1,1:0 (CTA:thread), not {threads!r}")
        found.append(ThreadIndex(int(match.group(1)), int(match.group(2))))
    if len(set(found)) < len(found):
        raise BadQuestion("--threads names a thread twice")
    return tuple(found)


def _numbers(parameters: Sequence[str]) -> dict[str, int]:
    found = {}
    for one in parameters:
        name, _, value = one.partition("=")
        try:
            found[name] = int(value, 0)
        except ValueError:
            raise BadQuestion(f"--param is like n=4, not {one!r}") from None
    return found


def _condition(text: str, running: tuple[ThreadIndex, ...], program: Program, keys: dict[str, str]) -> Condition:
    def state(parts: Sequence[str], at: int) -> Wanted | int:
        if "@" in parts:
            if len(parts) != 5 or parts[1] != "@" or parts[3] != ":":
                raise BadCondition("a register is written like %r1@0:1 (CTA:thread)", at)
            thread_index = ThreadIndex(int(parts[2]), int(parts[4])) if parts[2].isdigit() and parts[4].isdigit() else None
            if thread_index not in running:
                raise BadCondition(f"thread {parts[2]}:{parts[4]} is not among --threads", at)
            if parts[0] not in keys:
                raise BadCondition(f"there is no register {parts[0]}", at)
            return Register(running.index(thread_index), keys[parts[0]])
        offset = int(parts[2]) if len(parts) == 3 and parts[1] == "+" and parts[2].isdigit() else 0
        variable = next((one for one in program.variables if one.name == parts[0]), None)
        if variable is None or (len(parts) > 1 and not offset):
            raise BadCondition(f"there is no variable {''.join(parts)}", at)
        return Observed(parts[0], offset, min(4, variable.size - offset))

    try:
        return parse_condition(text, state)
    except BadCondition as error:
        raise BadQuestion(f"--exists: {error} (character {error.at + 1})") from None
