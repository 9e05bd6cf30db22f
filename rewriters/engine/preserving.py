"""What edits must preserve, and the refusal of code that would not.

Calls keep their parts together, carries reach their readers, accumulators in flight are left alone, pragmas stay before what they apply to,
aligned instructions find their warp converged, and names keep their meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

import attrs

from ptxkit.analyses.framework.routine import Routine
from ptxkit.isa.registers import special_register
from ptxkit.names import Scope
from ptxkit.rewriters.engine.code import Code, traits
from ptxkit.rewriters.engine.fresh import Fresh
from ptxkit.rewriters.engine.points import before, is_block_pragma, is_bound_pragma, points
from ptxkit.rewriters.engine.rewrite import Refusal
from ptxkit.syntax import Instruction, Module, Name, Path


class Checks:
    """Why code cannot be inserted into the functions of a module. Each check gives a refusal, or None."""

    def __init__(self, module: Module, fresh: Fresh, declared: Mapping[Path, Set[str]]) -> None:
        """`declared` has the names that other edits declare: by the path of a function throughout it, by `()` for the module."""
        self._module = module
        self._fresh = fresh
        self._declared = declared
        self._fits: dict[tuple[int, int], Refusal | None] = {}

    def point(self, routine: Routine, i: int, is_after: bool, found: Code, converged: bool) -> Refusal | None:
        """The reason why code cannot be inserted before or after an instruction."""
        known = points(routine)
        path = routine.where(i)
        sequence = known.sequence
        call = sequence[i]
        if call >= 0:
            other = i + 1 if is_after else i - 1
            if 0 <= other < len(sequence) and sequence[other] == call:
                callee = routine.instructions[call].operands
                names = [operand.text for operand in callee if isinstance(operand, Name)][:1]
                return Refusal(
                    "call-sequence-split",
                    path,
                    f"code between the parts of the call of `{names[0] if names else '?'}`",
                    ("the stores of arguments, the call and the loads of results stand together (7.1)",),
                )
        if is_after and i in known.stops:
            return Refusal("never-reached", path, "control does not go on behind this instruction")
        if found.writes_carry or found.reads_carry:
            live = i in known.carry if is_after else i - 1 in known.carry
            if (found.writes_carry and live) or found.reads_carry:
                return Refusal(
                    "carry-chain-cut",
                    path,
                    "code that changes the condition code between its writer and its reader"
                    if live
                    else "code that reads the condition code",
                    ("`add.cc`, `addc` and their like hand the carry from one to the next (9.7.2)",),
                )
        at = i + 1 if is_after else i
        if known.accumulators or known.in_group:
            own = known.accumulators.get(at, frozenset())
            accessed = next(iter(sorted(own & found.uses)), None)
            if accessed is not None:
                return Refusal("accumulator-in-flight", path, f"code that accesses `{accessed}` while a wgmma that uses it is in flight")
            if (own or at in known.in_group) and (found.wgmma or found.branch):
                return Refusal("wgmma-group-split", path, f"{found.wgmma or found.branch} within a group of wgmma")
        if not is_after and (found.branch or found.pragma):
            children = self._module.at(path[:-1]).children
            position = before(children, path[-1])
            if position and is_block_pragma(children[position - 1]):
                return Refusal(
                    "pragma-split",
                    path,
                    f"{found.branch or 'a pragma'} between the pragma of a loop and the loop",
                    ("a pragma applies to the block whose label precedes it (11.4.11)",),
                )
        return self.code(routine, path, found, converged)

    def code(self, routine: Routine, path: Path, found: Code, converged: bool) -> Refusal | None:
        """The reason why code cannot be inserted at any point of a scope."""
        if found.loc:
            return Refusal(
                "loc-moved", path, "code with a `.loc` of its own", ("it would hold for the instructions behind as well (11.5.4)",)
            )
        if found.leaves:
            return Refusal("leaves", path, f"code that leaves the function: {found.leaves}")
        if not converged:
            if found.aligned:
                return Refusal("not-converged", path, f"{found.aligned} where nothing guarantees that all threads of a warp are converged")
            aligned = points(routine).aligned
            if found.branch and aligned >= 0:
                return Refusal(
                    "divergent-code",
                    path,
                    f"{found.branch} in a function with `{routine.instructions[aligned].opcode.text}`",
                    ("threads that diverge here need not reconverge where they must",),
                )
        scope = routine.names.scope_of(path)
        key = (id(found), id(scope))
        if key not in self._fits:
            self._fits[key] = self._names(routine, path, found, scope)
        refusal = self._fits[key]
        return refusal and refusal._replace(path=path)

    def _names(self, routine: Routine, path: Path, found: Code, scope: Scope) -> Refusal | None:
        taken = self.taken(routine, found.declares)
        if taken is not None:
            return Refusal("name-collision", path, f"`{taken}` is declared in `{routine.name}` already, or in a scope inside")
        for name in sorted(found.hides):
            if not self._fresh.owns(name) and scope.lookup(name) is not None:
                return Refusal("name-collision", path, f"`{name}` means something here, and the code hides it in its own braces")
        known = self._declared.get(routine.path, set()) | self._declared.get((), set())
        for name in sorted(found.uses - known - {"_", "WARP_SZ"}):
            if scope.lookup(name) is None and special_register(name) is None:
                return Refusal("undeclared-name", path, f"nothing declares `{name}` here")
        return None

    def replaced(self, routine: Routine, i: int, found: Code, converged: bool) -> Refusal | None:
        """The reason why code cannot replace an instruction."""
        known, path = points(routine), routine.where(i)
        old = routine.instructions[i]
        trait = traits(old.opcode.text)
        news = [statement for statement in found.statements if isinstance(statement, Instruction)]
        same = len(found.statements) == 1 and len(news) == 1 and news[0].opcode.mnemonic == old.opcode.mnemonic
        if known.sequence[i] >= 0 and not same:
            return Refusal("call-sequence-split", path, "part of a call is taken away", ("its parts stand together (7.1)",))
        if trait.flow and trait.flow != "brkpt" and not same:
            last = found.statements[-1] if found.statements else None
            if not (isinstance(last, Instruction) and traits(last.opcode.text).flow == trait.flow and trait.flow != "call"):
                return Refusal("flow-changed", path, f"`{old.opcode.text}` decides where control goes, and the replacement does not")
        writes = found.writes_carry
        if (trait.writes_carry and i in known.carry and not writes) or (writes and not trait.writes_carry and i in known.carry):
            return Refusal("carry-chain-cut", path, "the condition code that is read later would be another (9.7.2)")
        if trait.group == "wgmma" and not same:
            return Refusal("wgmma-group-split", path, f"`{old.opcode.text}` is part of a group of wgmma")
        children = self._module.at(path[:-1]).children
        if path[-1] and is_bound_pragma(children[path[-1] - 1]) and not same:
            return Refusal("pragma-split", path, "the pragma before it applies to this instruction")
        own = known.accumulators.get(i, frozenset())
        accessed = next(iter(sorted(own & found.uses)), None)
        if accessed is not None and not same:
            return Refusal("accumulator-in-flight", path, f"code that accesses `{accessed}` while a wgmma that uses it is in flight")
        if same and trait.aligned:
            converged = True
        return self.code(routine, path, attrs.evolve(found, leaves=None) if trait.flow else found, converged)

    def taken(self, routine: Routine, names: Iterable[str]) -> str | None:
        """The first of the names that is declared in some scope of the function, or in the module."""
        for name in sorted(names):
            if self._fresh.owns(name):
                continue
            scopes = [scope for path, scope in routine.names.scopes.items() if path[:1] == routine.path]
            if any(scope.local(name) is not None for scope in (routine.names.root, *scopes)):
                return name
        return None
