"""Which branches, addresses and synchronization depend on synthesized contents.

A taint analysis. A value is *synthesized* if it was loaded from synthesized contents or computed from a synthesized value. The run records
which loads read synthesized contents. From these, taint is propagated over the text, ignoring the order of execution: through registers,
from the arguments of calls to parameters and from results back, and through a whole state space once a synthesized value is stored to it.
The result therefore covers every dependence that occurred in the run, and overapproximates it. (Comparing two runs with different contents
would show only what happens to differ; a taint bit for each lane would slow down every operation of the machine.)
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from ptxkit.isa.binding import Bound
from ptxkit.machine.code import Body, Site
from ptxkit.machine.passing import Byte, Passed, accessed, formals, passed_as, taken
from ptxkit.machine.plans import call_parts
from ptxkit.operands import part
from ptxkit.syntax import Address, Guard, Name, Number, Path, constant_value


def dependent(
    program: Any, sources: Mapping[int, Site], *, stores: bool = False, addresses: bool = False, direct: bool = False
) -> tuple[Site, ...]:
    """The instructions for which a synthesized value decides whether they execute, which address they access, which threads they wait for,
    or from which lane a value comes.

    `sources` are the instructions that read synthesized values first, by `id`; `program` is a `ptxkit.machine.loading.Program` that was
    executed. An instruction's own guard counts; a branch around it does not, since the branch is itself in the result. Instructions that
    were not executed propagate nothing. With `stores`, the result also has the instructions that store synthesized values. With
    `addresses`, only addresses count; with `direct`, only addresses, and only taint through registers.
    """
    if not sources:
        return ()
    facts = {id(body): _executed(body) for body in program.entered}
    registers = _Following(program.entered, facts, sources, direct).registers()
    is_where = addresses or direct
    found = []
    for key, own in facts.items():
        made = registers[key]
        for one in own:
            matters = one.where | (one.guard if one.matters and not is_where else 0) | (one.reads if stores and one.stores else 0)
            if made & matters:
                found.append(one.site)
    return tuple(found)


def _executed(body: Body) -> list[_Facts]:
    """The facts of all instructions in blocks that were executed."""
    known = body.known.setdefault(_Facts, {})
    found = []
    for block in body.blocks:
        if block.run is not None:
            for i in (*range(block.start, block.end), *([block.last] if block.last >= block.end else ())):
                if i not in known:
                    known[i] = _Facts(body, i)
                found.append(known[i])
    return found


def readers(program: Any, parameters: Mapping[str, Set[int]]) -> dict[int, Site]:
    """The instructions that read the given kernel parameters, by `id`. Reads at the offsets listed for a parameter are left out."""
    found = {}
    for site in program.entry.sites if parameters else ():
        if isinstance(site.bound, Bound) and site.bound.memory:
            for address in site.instruction.find(Address):
                name = next((one.text for one in address.find(Name) if one.text in parameters), None)
                if name is not None and _offset(address) not in parameters[name]:
                    found[id(site)] = site
    return found


def _offset(address: Address) -> int:
    """The constant offset in an address expression."""
    return sum([int(number) for node in address.find(Number) if (number := constant_value(node)) is not None])


def unexecuted(program: Any, seen: Set[int], without: Set[Path]) -> dict[Path, Site]:
    """The instructions that write shared or global memory or synchronize, and were not executed, by path. `seen` has the `id`s of the
    executed instructions; paths in `without` are left out."""
    found = {}
    for body in program.entered:
        for site in body.sites:
            if id(site) not in seen and site.path not in without and isinstance(site.bound, Bound) and _is_shared(site.bound):
                found[site.path] = site
    return found


def executed(program: Any, seen: Set[int]) -> set[Path]:
    """The paths of the instructions whose `id` is in `seen`."""
    return {site.path for body in program.entered for site in body.sites.made if id(site) in seen}


def _is_shared(bound: Bound) -> bool:
    """Whether other threads can observe that the instruction executed."""
    writes = any(memory.access != "read" and {".global", ".shared"} & set(_spaces(bound, memory.operand)) for memory in bound.memory)
    return writes or bool(bound.barrier)


EVERY = frozenset((-1,))
"""All bytes of a value that is passed."""


class _Following:
    """Propagates taint from the instructions that read synthesized values first."""

    def __init__(self, bodies: list[Body], facts: dict[int, list[_Facts]], sources: Mapping[int, Site], direct: bool) -> None:
        self.bodies = bodies
        self.direct = direct
        self.facts = facts
        self.sources = sources
        self.made = {id(body): 0 for body in bodies}
        """Tainted registers of each function, as a bit set."""
        self.bytes: set[Byte] = set()
        """Tainted bytes of parameters."""
        self.spaces: set[str] = set()
        self.taken: set[int] = set().union(*[one.taken for own in facts.values() for one in own])
        """The parameters whose address is taken: any access to `.param` through a register may refer to them."""

    def registers(self) -> dict[int, int]:
        """Tainted registers of each function, at the fixpoint."""
        before: object = None
        while before != (now := (dict(self.made), len(self.spaces), len(self.bytes))):
            before = now
            for body in self.bodies:
                for one in self.facts[id(body)]:
                    self._step(id(body), one)
        return self.made

    def _step(self, key: int, facts: _Facts) -> None:
        is_source = id(facts.site) in self.sources
        if facts.is_call:
            self._pass(key, facts, is_source)
        elif is_source or (facts.reads | facts.guard) & self.made[key] or facts.loads & self.spaces or self._is_loaded(facts):
            self.made[key] |= facts.writes
            self.bytes |= facts.puts
            self.spaces |= frozenset() if self.direct else facts.stores

    def _is_loaded(self, facts: _Facts) -> bool:
        """Whether an instruction loads tainted bytes of parameters."""
        if PARAMETERS in facts.loads and any(symbol in self.taken for symbol, *_ in self.bytes):
            return True
        return not self.bytes.isdisjoint(facts.gets) or (PARAMETERS in self.spaces and any(one[0] in self.taken for one in facts.gets))

    def _pass(self, key: int, facts: _Facts, is_source: bool) -> None:
        """A call: from arguments to parameters, and back from results. The results of an undefined function depend on its arguments, or are
        synthesized."""
        results, arguments = facts.results, facts.arguments
        functions = self._called(facts)
        for body in functions:
            own = formals(body)
            for given, formal in zip(arguments, own[len(results) :], strict=True):
                self._put(id(body), formal, self._tainted(key, given))
            for given, formal in zip(results, own, strict=False):
                self._put(key, given, self._tainted(id(body), formal))
        is_by_arguments = not functions and any(self._tainted(key, given) for given in arguments)
        if is_source or is_by_arguments or (facts.guard | facts.where) & self.made[key]:
            for given in results:
                self._put(key, given, EVERY)

    def _called(self, facts: _Facts) -> list[Body]:
        """The functions that a call may enter: the one that it names, or all that were entered and take as many arguments."""
        named = [body for body in self.bodies if body.function.header.name.text == facts.callee]
        count = len(facts.results) + len(facts.arguments)
        return [body for body in named or self.bodies[1:] if len(body.formals) == count and (named or not facts.is_named)]

    def _tainted(self, key: int, one: Passed) -> frozenset[int]:
        """The tainted bytes of a parameter, or of a register that is passed; for a register all or none."""
        if one.registers & self.made[key]:
            return EVERY
        return frozenset([at for at in range(one.size) if (*one.variable, at) in self.bytes])

    def _put(self, key: int, one: Passed, offsets: frozenset[int]) -> None:
        if offsets:
            self.made[key] |= one.registers
            self.bytes.update([(*one.variable, at) for at in range(one.size) if at in offsets or offsets is EVERY])


class _Facts:
    """What one instruction reads, writes and accesses."""

    def __init__(self, body: Body, i: int) -> None:
        site = self.site = body.sites[i]
        bound = site.bound
        self.reads, self.writes = body.reads_writes(i)
        self.guard = self.where = 0
        self.loads: frozenset[str] = frozenset()
        self.stores: frozenset[str] = frozenset()
        self.is_call = self.is_named = self.matters = False
        self.callee = ""
        self.results: list[Passed] = []
        self.arguments: list[Passed] = []
        """For a call: the function, whether the call names it, and what it passes."""
        self.gets: frozenset[Byte] = frozenset()
        self.puts: frozenset[Byte] = frozenset()
        """The bytes of parameters that it loads and stores, by the name of the parameter."""
        self.taken = taken(site)
        guard = site.instruction.guard
        if guard is not None:
            for number in body.registers_of(site.scope, guard):
                self.guard |= 1 << number
        if not isinstance(bound, Bound):
            return
        self.is_call = bound.flow == "call"
        if self.is_call:
            self._call(body)
        synchronizes = bool(bound.barrier or bound.converges is not None)
        self.matters = bool(bound.memory or bound.flow or bound.asynchronous or synchronizes)
        if bound.flow == "branch-indexed":
            self.where = self.reads
        # the values that a barrier reduces do not decide who waits
        reduces = any(barrier.action == "reduce" for barrier in bound.barrier)
        if bound.barrier and not reduces:
            self.where = self.reads
        names = {barrier.operand for barrier in bound.barrier}
        children = site.instruction.children
        first = 2 if type(children[0]) is Guard else 1
        for operand in bound.operands:
            is_whose = operand is bound.members or operand is bound.threads or operand in bound.lane
            if operand.role == "addr" or is_whose or operand.name in names:
                for number in body.registers_of(site.scope, part(children[first + operand.path[0]], operand.path[1:])):
                    self.where |= 1 << number
        # the contents of an mbarrier are not data
        data = [one for one in bound.memory if one.operand not in names]
        read = [space for one in data if one.access != "write" for space in _spaces(bound, one.operand)]
        self.loads = frozenset(read)
        self.stores = frozenset([space for one in data if one.access != "read" for space in _spaces(bound, one.operand)])
        if bound.has(PARAMETERS) and (bytes_ := accessed(site)) is not None:
            # a parameter of the kernel is never stored to
            self.gets, self.puts = (bytes_, frozenset()) if self.loads else (frozenset(), bytes_)
            self.loads -= {PARAMETERS}
            self.stores -= {PARAMETERS}

    def _call(self, body: Body) -> None:
        """What a call passes, and the register that selects the function."""
        parts = call_parts(self.site.instruction)
        self.results = [passed_as(body, self.site, node) for node in parts.results]
        self.arguments = [passed_as(body, self.site, node) for node in parts.arguments]
        self.callee = parts.target.text
        target = body.registers_of(self.site.scope, parts.target)
        self.is_named = not target
        for number in target:
            self.where |= 1 << number


PARAMETERS = ".param"
"""The state space of parameters, which functions also return values in."""
_ANY = (".global", ".shared", ".local", ".param")


def _spaces(bound: Bound, name: str) -> tuple[str, ...]:
    """The state spaces that an access through this operand may refer to."""
    operand = bound.operand(name)
    spaces = {space.partition("::")[0] for space in operand.spaces} if operand is not None else set()
    return tuple(spaces) if spaces and spaces <= {*_ANY, ".const"} else _ANY
