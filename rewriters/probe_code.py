"""Code that probes have in common: guards, leaders of warps, numbers of threads and blocks, and the accesses to instrument."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ptxkit.analyses.cfg.graph import BasicBlock
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.memory.accesses import Access, accesses
from ptxkit.frozen import frozen
from ptxkit.isa.types import types
from ptxkit.names import Kind
from ptxkit.rewriters.engine.patterns import Site, pattern, select
from ptxkit.rewriters.engine.points import before, is_block_pragma, points
from ptxkit.rewriters.probing import Plan
from ptxkit.syntax import Address, Instruction, Name, Node, constant_value

REDUX = ((7, 0), 80)
MATCH = ((6, 0), 70)
ACTIVEMASK = ((6, 2), 30)


def under(guard: str, text: str) -> str:
    """Adds a guard such as `@%p1` to the statements, one on each line. Statements with a guard, declarations, and lines that start with
    `!` are unchanged."""
    found = []
    for line in text.strip().split("\n"):
        line = line.strip()
        if line.startswith("!"):
            found.append(line[1:])
        elif not line or line[0] in "@.{}" or not guard:
            found.append(line)
        else:
            found.append(f"{guard} {line}")
    return " ".join(found)


def guard_of(instruction: Instruction) -> str:
    """The guard of an instruction as written, such as `@!%p1`; empty if it has none."""
    return instruction.guard.text.strip() if instruction.guard is not None else ""


def leading(leader: str, mask: str, scratch: str, base: str) -> str:
    """Code for `mask`, the converged threads, and `leader`, true in one of them, or in none if `base` is 0."""
    return f"""!mov.pred {leader}, 0;
activemask.b32 {mask};
mov.u32 {scratch}, %lanemask_lt;
and.b32 {scratch}, {scratch}, {mask};
setp.ne.u64 {leader}, {base}, 0;
setp.eq.and.u32 {leader}, {scratch}, 0, {leader};"""


def apart(base: str, scratch: str) -> str:
    """Code after `leading` that hides from the compiler that threads add to one address: it would elect a leader again.

    The leader's address is unchanged; those of other threads must not be used.
    """
    return f"mad.wide.u32 {base}, {scratch}, 8, {base};"


def block_number(to: str, a: str, b: str) -> str:
    """Code for the linear index of the block in its grid, x fastest; `to` and `b` have 64 bits, `a` 32."""
    return f"""mov.u32 {a}, %ctaid.z;
cvt.u64.u32 {to}, {a};
mov.u32 {a}, %nctaid.y;
cvt.u64.u32 {b}, {a};
mul.lo.u64 {to}, {to}, {b};
mov.u32 {a}, %ctaid.y;
cvt.u64.u32 {b}, {a};
add.u64 {to}, {to}, {b};
mov.u32 {a}, %nctaid.x;
cvt.u64.u32 {b}, {a};
mul.lo.u64 {to}, {to}, {b};
mov.u32 {a}, %ctaid.x;
cvt.u64.u32 {b}, {a};
add.u64 {to}, {to}, {b};"""


def thread_number(to: str, a: str) -> str:
    """Code for the linear index of the thread in its block, x fastest; both registers have 32 bits. 32 consecutive threads are a warp."""
    return _in_a_row(to, a, "tid", "ntid")


def block_number_32(to: str, a: str) -> str:
    """Code for the low 32 bits of the linear index of the block in its grid, x fastest; both registers have 32 bits."""
    return _in_a_row(to, a, "ctaid", "nctaid")


def _in_a_row(to: str, a: str, index: str, size: str) -> str:
    return f"""mov.u32 {to}, %{index}.z;
mov.u32 {a}, %{size}.y;
mul.lo.u32 {to}, {to}, {a};
mov.u32 {a}, %{index}.y;
add.u32 {to}, {to}, {a};
mov.u32 {a}, %{size}.x;
mul.lo.u32 {to}, {to}, {a};
mov.u32 {a}, %{index}.x;
add.u32 {to}, {to}, {a};"""


def warps_of_block(to: str, a: str) -> str:
    """Code for the number of warps in a block, including a partial one; both registers have 32 bits."""
    return f"""mov.u32 {to}, %ntid.x;
mov.u32 {a}, %ntid.y;
mul.lo.u32 {to}, {to}, {a};
mov.u32 {a}, %ntid.z;
mul.lo.u32 {to}, {to}, {a};
add.u32 {to}, {to}, 31;
shr.u32 {to}, {to}, 5;"""


def address(routine: Routine, i: int, operand: Node, to: str) -> str | None:
    """Code that puts the address in an operand of instruction `i`, offset included, into a 64-bit register, or None."""
    if not isinstance(operand, Address):
        return None
    base, offset = operand.base, operand.offset
    if len(operand.parts) > 1:
        return None
    symbol = routine.names.scope_of(routine.where(i)).lookup(base.text) if isinstance(base, Name) else None
    if symbol is None or symbol.kind is not Kind.REGISTER:
        if isinstance(base, Name) and symbol is None:
            return None
        return f"mov.u64 {to}, {operand.text.strip()[1:-1]};"
    extra = constant_value(offset) if offset is not None else 0
    known = types().get(symbol.type or "")
    if not isinstance(extra, int) or known is None or symbol.vector > 1:
        return None
    extra *= operand.offset_sign
    if known.bits == 64:
        return f"add.s64 {to}, {base.text}, {extra};"
    # with 32-bit addresses, the offset is added in 32 bits
    return f"add.s32 {to}_l, {base.text}, {extra};\ncvt.u64.u32 {to}, {to}_l;" if known.bits == 32 else None


@frozen
class ThreadAccess:
    """A memory access of an instruction, as a probe sees it."""

    routine: Routine
    access: Access
    address: str
    """Code that puts the address into the register for which it was made."""
    active: str = ""
    """A predicate that holds in the threads that access memory, if the guard does not say so: for a copy that may read nothing."""

    @property
    def site(self) -> Site:
        return Site(self.routine, self.access.instruction)

    @property
    def instruction(self) -> Instruction:
        return self.routine.instructions[self.access.instruction]

    @property
    def guard(self) -> str:
        """The guard for code that is to run in the threads that access memory, as written; empty if all do."""
        return f"@{self.active}" if self.active else guard_of(self.instruction)

    @property
    def part(self) -> str:
        """The operand that gives the number of bytes read, or a predicate for reading none; empty if there is none."""
        return self.instruction.children[self.access.part].text.strip() if self.access.part is not None else ""

    @property
    def number_of_bytes(self) -> bool:
        """Whether `part` is a number rather than a predicate."""
        symbol = self.routine.names.scope_of(self.routine.where(self.access.instruction)).lookup(self.part.removeprefix("!"))
        return symbol is None or symbol.type != ".pred"

    def around(self, code: str) -> str:
        """A block of code to insert before the instruction, with the predicate that its guard may name."""
        if not self.active:
            return code
        part, guard = self.part, guard_of(self.instruction)
        if part.startswith("!"):
            test = f"mov.pred {self.active}, {part[1:]};"
        elif not self.number_of_bytes:
            test = f"not.pred {self.active}, {part};"
        else:
            test = f"{{ .reg .b32 {self.active}_n; mov.u32 {self.active}_n, {part}; setp.ne.u32 {self.active}, {self.active}_n, 0; }}"
        if guard:
            test += f" {guard.replace('@!', '@') if '!' in guard else guard.replace('@', '@!')} mov.pred {self.active}, 0;"
        return f"{{ .reg .pred {self.active}; {test} {code} }}"

    @property
    def kind(self) -> str:
        """`read`, `write` or `update`."""
        return {"read": "read", "write": "write"}.get(self.access.memory.access, "update")

    @property
    def space(self) -> str:
        return self.access.space.lstrip(".") or "generic"


def thread_accesses(plan: Plan, spaces: Iterable[str], at: str, register: str) -> Iterator[ThreadAccess]:
    """The per-thread accesses to these state spaces (`generic`: space unknown) by instructions that match the pattern `at`.

    Accesses whose address cannot be computed are recorded as refused sites.
    """
    wanted = pattern(at) if at else None
    for routine in plan.routines:
        picked = None if wanted is None else {site.index for site in select([routine], wanted)}
        for access in accesses(routine):
            i = access.instruction
            if (access.space.lstrip(".") or "generic") not in spaces or (picked is not None and i not in picked):
                continue
            if access.memory.proxy in ("tensormap", "async") and access.bytes is None:
                continue
            code = address(routine, i, routine.instructions[i].children[access.child], register)
            if code is None:
                plan.refuse(routine, i, "unknown-address", "the address is written in a form that is not understood")
                continue
            yield ThreadAccess(routine, access, code, plan.name("touched") if access.part is not None else "")


def spaces_of(text: str) -> tuple[str, ...]:
    """Parses the state spaces of an option, separated by `+`: `global+shared`. Raises ValueError."""
    names = tuple([name.strip() for name in text.split("+")])
    known = ("global", "shared", "local", "const", "generic")
    for name in names:
        if name not in known:
            raise ValueError(f"not a state space: {name!r}; there are {', '.join(known)}")
    return names


def point_in(routine: Routine, block: BasicBlock) -> int | None:
    """The first instruction of a block before which code may be inserted; None if a call sequence fills the block."""
    sequence = points(routine).sequence
    for i in range(block.start, block.end):
        if sequence[i] < 0 or i == block.start == 0 or sequence[i - 1] != sequence[i]:
            return i
    return None


def branching_point_in(routine: Routine, block: BasicBlock) -> int | None:
    """An instruction of a block before which branching code may be inserted: not between a loop's pragma and the loop (11.4.11)."""
    sequence = points(routine).sequence
    for i in range(block.start, block.end):
        path = routine.where(i)
        children = routine.module.at(path[:-1]).children
        position = before(children, path[-1])
        if sequence[i] < 0 and not (position and is_block_pragma(children[position - 1])):
            return i
    return None
