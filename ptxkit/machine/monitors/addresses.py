"""Invalid accesses: outside of all variables and buffers, misaligned, or in another state space (ISA 5.1, 6.4, 9.7.10).

An access that memory rejects ends the launch; this monitor converts the fault to a finding with the thread, the bytes, and the nearest
variable or buffer. It covers S001, S002, S005, R006 and R007; A007 for a cp.async; M012 and M014 for an mbarrier; and F008.

Memory has no guards between the variables of a CTA. If an address can only derive from one variable (whose name is in the instruction, or
the only one that the register is computed from), an access to bytes outside that variable is reported as well; the launch continues.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ptxkit.diagnostics import Severity
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.machine.asynchronous.arguments import named
from ptxkit.machine.loading import size_of
from ptxkit.machine.memory import windows
from ptxkit.machine.monitoring import Monitor
from ptxkit.machine.monitors.collected import DOES, Collected, Rule, bytes_of, short, spoken_thread
from ptxkit.machine.monitors.queues import group_of
from ptxkit.machine.passing import Byte, accessed, passed_as
from ptxkit.machine.plans import CallParts, call_parts
from ptxkit.names import Kind, Symbol
from ptxkit.operands import part
from ptxkit.syntax import Address, Name, Node, constant_value

if TYPE_CHECKING:
    from ptxkit.machine.code import Body, Site
    from ptxkit.machine.fault import BadAccess, Fault
    from ptxkit.machine.findings import Finding
    from ptxkit.machine.interfaces import Launch
    from ptxkit.machine.memory import Access

Array = np.ndarray[Any, Any]
MISALIGNED: Rule = ("S001", "misaligned-access")
OUTSIDE: Rule = ("S002", "out-of-bounds-access")
WRONG_SPACE: Rule = ("S005", "wrong-state-space")
PARAMETER: Rule = ("R006", "parameter-width")
INDEX: Rule = ("R007", "branch-index-range")
UNUSED_LANE: Rule = ("F008", "ldmatrix-unused-lane-address")
LAST_TARGET = 75
"""Up to this target, every lane passes a valid address to ldmatrix, even if its row is not loaded (9.7.15.4.15)."""
COPY: Rule = ("A007", "cpasync-operand")
MBARRIER_ALIGNMENT: Rule = ("M012", "mbarrier-alignment")
MBARRIER_REMOTE: Rule = ("M014", "mbarrier-remote-form")


ROWS, ROW = 8, 16
"""Rows of a matrix that ldmatrix loads, each at the address of one lane, and the size of a row in bytes."""


@frozen
class _Object:
    """The bytes `start` to `end` of a state space that an instruction may access, and their name."""

    name: str
    space: str
    start: int
    end: int


class Addresses(Monitor):
    """Detects accesses that memory rejects, and accesses that leave the only variable that they can refer to."""

    def begin(self, launch: Launch) -> None:
        self.launch = launch
        self.collected = Collected(launch)
        target = launch.machine.target.removeprefix("sm_")
        self._takes_all = target.isdecimal() and int(target) <= LAST_TARGET
        self._meant: dict[tuple[int, str], _Object | None] = {}
        self._sources: dict[int, _Sources] = {}
        self._entered = 0
        self._calls: list[tuple[Body, Site, CallParts]] = []

    @property
    def findings(self) -> list[Finding]:
        return self.collected.findings

    # --- what memory refuses

    def fault(self, fault: Fault) -> None:
        if fault.kind == "branch" and fault.threads:
            self._beyond_targets(fault)
        bad = fault.access
        if bad is None:
            return
        lanes, site = bad.lanes, getattr(bad.lanes, "site", None)
        wrong = np.broadcast_to(bad.mask, lanes.count)
        lane = int(np.flatnonzero(wrong)[0])
        at = int(np.broadcast_to(np.asarray(bad.at, np.uint64), lanes.count)[lane])
        meant = self._within_another_space(bad, at, site)
        name, offset, where = self._place(bad, at) if meant is None else _unconverted(meant, bad, at)
        who = f"{spoken_thread(*self.collected.thread(lanes, lane))} {DOES[bad.kind]} {bytes_of(bad.size)}"
        witness = {
            "accesses": [self.collected.access(lanes, lane, bad.kind, site)],
            "space": (bad.space if meant is None else meant.space).removeprefix("."),
            "variable": name,
            "offset": offset,
            "bytes": bad.size,
        }
        count = int(np.count_nonzero(wrong))
        rule = WRONG_SPACE if meant is not None else PARAMETER if self._is_of_another_width(bad, at) else _rule(bad, at, site)
        self.collected.add((id(site), bad.why), rule, f"{who} {where}", site, witness, span=fault.diagnostic.span, count=count)

    def _beyond_targets(self, fault: Fault) -> None:
        """Reports an indexed branch beyond its list of targets."""
        cta, thread = fault.threads[0]
        side = {"cta": list(cta), "thread": list(thread), "line": fault.line or 0, "kind": "branch"}
        witness = {"accesses": [side], "space": "", "variable": "", "offset": 0, "bytes": 0}
        message = f"{spoken_thread(cta, thread)} branches by {fault.reason}"
        self.collected.add(("branch", fault.line), INDEX, message, None, witness, span=fault.diagnostic.span, count=fault.count)

    def _within_another_space(self, bad: BadAccess, at: int, site: Site | None) -> _Object | None:
        """The variable of shared or local memory whose address an access to global memory uses as it is; None if it is something else."""
        if site is None or bad.space != ".global" or bad.why != "outside":
            return None
        meant = self._object(site, bad.kind)
        return meant if meant is not None and meant.space in (".shared", ".local") and meant.start <= at < meant.end else None

    def _place(self, bad: BadAccess, at: int) -> tuple[str, int, str]:
        """The variable or buffer nearest to an invalid access, the offset from its start, and a description of the location."""
        name, start, end = self._nearest(bad.space, at)
        offset = at - start
        called = short(name) if name else f"{bad.space.removeprefix('.')} memory"
        bytes_ = f"{called}[{offset}..{offset + bad.size - 1}]" if bad.size > 1 else f"{called}[{offset}]"
        if bad.why == "misaligned" and not self._is_of_another_width(bad, at):
            where = bytes_ if name and 0 <= offset < end - start else f"{at:#x}"
            return name, offset, f"at {where}: the address must be a multiple of {bad.limit}"
        if bad.why == "read-only":
            return name, offset, f"at {called}, which a kernel can only read"
        if bad.why == "space":
            return name, offset, f"at {bytes_}: an atomic needs a location in .global or .shared"
        if bad.why == "other-cta":
            return name, offset, f"at {called} of another CTA through .shared::cta: .shared::cluster is needed"
        if _window(bad.space, at):
            return "", at, f"at {at:#x} of {bad.space}, which is a generic address: cvta.to makes it one of {bad.space}"
        if bad.space == ".global" and at < 1 << 12:
            return "", at, f"at {at:#x} of global memory: a null pointer{f' and {at} bytes' if at else ''}"
        if not end:
            return "", at, f"at {at:#x} of {bad.space.removeprefix('.')} memory, where nothing is allocated"
        if offset < 0:
            return name, offset, f"at {at:#x}, {bytes_of(-offset)} before the start of {called}"
        if offset < end - start:
            return name, offset, f"at {bytes_}, across its end: it has only {bytes_of(end - start)}"
        return name, offset, f"at {bytes_}, {_past(offset - (end - start))} its end: it has only {bytes_of(end - start)}"

    def _is_of_another_width(self, bad: BadAccess, at: int) -> bool:
        """Whether an access starts within a parameter and extends beyond it. Its alignment is then wrong for the parameter as well."""
        _, start, end = self._nearest(bad.space, at) if bad.space.startswith(".param") else ("", 0, 0)
        return start <= at < end < at + bad.size

    def _nearest(self, space: str, at: int) -> tuple[str, int, int]:
        """The variable or buffer at an address, or else the nearest one: name, start, end (0: there is none)."""
        near = sorted(self._nearby(space), key=lambda one: one[1])
        before = [one for one in near if one[1] <= at]
        if not before:
            return near[0] if near else ("", 0, 0)
        found = before[-1]
        after = near[len(before)] if len(near) > len(before) else None
        return after if after is not None and at >= found[2] and after[1] - at < at - found[2] else found

    def _nearby(self, space: str) -> list[tuple[str, int, int]]:
        launch = self.launch
        memory = launch.machine.memory
        if space == ".global":
            return [(self.collected.names.buffer(one), one.start, one.end) for one in memory.allocations]
        if space.startswith(".shared"):
            variables = launch.program.shared_variables(launch.shared_bytes)
            return [(name, start, start + size) for name, start, size in variables] or [("", 0, memory.shared_size)]
        if space.startswith(".param"):
            return [(name, start, start + size) for name, start, size, _ in launch.program.layout()]
        return [("", 0, memory.local_size if space == ".local" else memory.constant_size)]

    # --- unused addresses

    def instruction(self, lanes: Any, arguments: tuple[Any, ...]) -> None:
        bound = lanes.site.bound
        if bound.form.mnemonic != "ldmatrix" or not self._takes_all:
            return
        address = np.broadcast_to(np.asarray(named(bound, arguments)["p"], np.uint64), lanes.count)
        inside = np.uint64((1 << windows.RANK_BITS) - 1)
        size = self.launch.machine.memory.shared_size
        wrong = ((address & inside).astype(np.int64) + ROW > size) & (lanes.lane >= ROWS * int(bound.slot(".num")[2:]))
        if not wrong.any():
            return
        lane = int(np.flatnonzero(wrong)[0])
        at = int(address[lane] & inside)
        self.collected.add(
            (id(lanes.site), "unused"),
            UNUSED_LANE,
            f"{spoken_thread(*self.collected.thread(lanes, lane))} gives byte {at} of shared memory as an address, which has {size}: up to"
            f" sm_{LAST_TARGET} those of all lanes must be valid",
            lanes.site,
            {
                "accesses": [self.collected.access(lanes, lane, "address", lanes.site)],
                "space": "shared",
                "variable": "",
                "offset": at,
                "bytes": ROW,
            },
            severity=Severity.WARNING,
            count=int(np.count_nonzero(wrong)),
        )

    # --- from one variable into the next

    def access(self, access: Access) -> None:
        if access.space == ".global":
            return
        site = getattr(access.lanes, "site", None)
        if site is None:
            return
        entered = len(self.launch.program.entered)
        if entered != self._entered:
            # other functions may call with the addresses of other variables
            self._meant, self._entered = {}, entered
            self._calls = [call for body in self.launch.program.entered for call in _calls_of(body)]
        key = id(site), access.kind
        if key in self._meant:
            meant = self._meant[key]
        else:
            meant = self._meant[key] = self._object(site, access.kind)
        if meant is None or not access.space.startswith(meant.space):
            return
        at = access.at
        if meant.space == ".local":
            at = at % self.launch.machine.memory.local_stride
        elif meant.space == ".shared":
            at = at % self.launch.machine.memory.shared_stride
        wrong = (at < meant.start) | (at + access.size > meant.end)
        if not np.any(wrong):
            return
        self._overrun(access, site, meant, at, np.broadcast_to(wrong, access.lanes.count))

    def _overrun(self, access: Access, site: Site, meant: _Object, at: Any, wrong: Array) -> None:
        lanes, count = access.lanes, int(np.count_nonzero(wrong))
        if self.collected.knows((id(site), "beside"), count):
            return
        lane = int(np.flatnonzero(wrong)[0])
        offset = int(np.broadcast_to(at, lanes.count)[lane]) - meant.start
        size, name = access.size, short(meant.name)
        past = offset - (meant.end - meant.start)
        where = _past(past) if past >= 0 else f"{bytes_of(-offset)} before" if offset < 0 else "across"
        rule = PARAMETER if meant.space == ".param" else OUTSIDE
        self.collected.add(
            (id(site), "beside"),
            rule,
            f"{spoken_thread(*self.collected.thread(lanes, lane))} {DOES[access.kind]} {name}[{offset}..{offset + size - 1}], {where}"
            f" its {'start' if offset < 0 else 'end'}: it has only {bytes_of(meant.end - meant.start)}",
            site,
            {
                "accesses": [self.collected.access(lanes, lane, access.kind, site)],
                "space": meant.space.removeprefix("."),
                "variable": meant.name,
                "offset": offset,
                "bytes": size,
            },
            count=count,
        )

    def _object(self, site: Site, kind: str) -> _Object | None:
        """The only variable that the address of an access of some kind can derive from; None if that is not certain."""
        bound = site.bound
        if not isinstance(bound, Bound):
            return None
        addresses = [operand for operand in bound.operands if operand.role == "addr"]
        if len(addresses) > 1:
            # a copy has a source and a destination
            accessed_ = {memory.operand for memory in bound.memory if memory.access == kind}
            addresses = [operand for operand in addresses if operand.name in accessed_]
        if len(addresses) != 1:
            return None
        node = part(site.instruction.operands[addresses[0].path[0]], addresses[0].path[1:])
        base = node.base if isinstance(node, Address) else node
        named = site.scope.lookup(base.text) if type(base) is Name else None
        if named is not None and named.kind in (Kind.VARIABLE, Kind.PARAMETER):
            return self._bytes_of(site.body, named)
        variables = self._variables(site, base, frozenset())
        return self._bytes_of(*next(iter(variables.values()))) if variables is not None and len(variables) == 1 else None

    def _variables(self, site: Site, node: Node, inside: frozenset[Received]) -> dict[int, tuple[Body, Symbol]] | None:
        """The variables that the value of an operand derives from, by `id`, with the functions that have them; None if that is not certain.
        All calls of a function must pass the same ones. `inside` are the parameters that are being followed."""
        variables, received = self._sources_of(site.body).of(site, node)
        found = {key: (site.body, symbol) for key, symbol in variables.items()}
        for one in received - inside:
            given = self._given(one)
            passed = [self._variables(call, value, inside | {one}) for call, value in given or ()]
            first = passed[0] if passed else None
            if first is None or any(other is None or other.keys() != first.keys() for other in passed):
                return None
            found |= first
        return found

    def _given(self, received: Received) -> list[tuple[Site, Node]] | None:
        """What calls pass to a function in a parameter; None if there may be other calls."""
        body, position, offset = received
        found: list[tuple[Site, Node]] = []
        for caller, call, parts in self._calls:
            if caller.registers_of(call.scope, parts.target):
                return None
            if parts.target.text == body.function.header.name.text:
                found += self._sources_of(caller).passed(call, (*parts.results, *parts.arguments)[position], offset)
        return found

    def _sources_of(self, body: Body) -> _Sources:
        found = self._sources.get(id(body))
        if found is None:
            found = self._sources[id(body)] = body.known.get(_Sources) or body.known.setdefault(_Sources, _Sources(body))
        return found

    def _bytes_of(self, body: Body, symbol: Symbol) -> _Object | None:
        """The location of a variable; None if unknown, or if other variables may overlap it."""
        program = self.launch.program
        space = symbol.space or ""
        if symbol.kind is Kind.PARAMETER and body is program.entry:
            space = ".param"
            start = program.parameters().get(symbol.name)
        elif symbol.kind is not Kind.VARIABLE:
            return None
        elif space.startswith(".shared"):
            space = ".shared"
            start = program.address(symbol) if not symbol.is_open_ended else None
        elif space == ".local" and body is program.entry:
            start = program.frame_offset(body, symbol)
        else:
            return None
        size = size_of(symbol) if start is not None else 0
        return _Object(symbol.name, space, start, start + size) if start is not None and size else None


Received = tuple["Body", int, int]
"""A function, one of its parameters by position, results counted, and a byte of it."""


class _Sources:
    """For each register of a function, the variables whose addresses it is computed from, and the parameters of the function."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self.made: dict[int, list[tuple[Site, list[Node]]]] = {}
        """For each register, what the instructions that write it read; only for instructions that just compute."""
        self._loaded: dict[int, set[Byte]] = {}
        """For each register, the bytes of parameters that it is loaded from."""
        self._stored: dict[Byte, list[tuple[Site, Node]]] = {}
        """What is stored to the bytes of parameters of calls."""
        self._known: dict[int, tuple[dict[int, Symbol], set[Received]]] = {}
        """What the values of registers derive from."""
        self._formals = {id(symbol): position for position, (symbol, _) in enumerate(body.formals)}
        self._registers = {number: position for position, (_, number) in enumerate(body.formals)}
        for site in body.sites:
            bound = site.bound
            if not isinstance(bound, Bound) or bound.flow:
                continue
            operands = [(operand, part(site.instruction.operands[operand.path[0]], operand.path[1:])) for operand in bound.operands]
            bytes_ = (accessed(site) if bound.has(".param") else None) or frozenset()
            reads = [] if bound.memory else [node for operand, node in operands if operand.reads or operand.role == "sym"]
            for operand, node in operands:
                if operand.writes:
                    for number in body.registers_of(site.scope, node):
                        self.made.setdefault(number, []).append((site, reads))
                        self._loaded.setdefault(number, set()).update(bytes_)
                elif operand.role != "addr":
                    for byte in bytes_:
                        self._stored.setdefault(byte, []).append((site, node))

    def of(self, site: Site, node: Node) -> tuple[dict[int, Symbol], set[Received]]:
        """The variables that an operand's value derives from, by `id`, and the parameters of the function."""
        found, received = _variables_in(site, node), set()  # type: dict[int, Symbol], set[Received]
        for number in self.body.registers_of(site.scope, node):
            known = self._known.get(number)
            if known is None:
                known = self._known[number] = self._of_register(number)
            found |= known[0]
            received |= known[1]
        return found, received

    def _of_register(self, number: int) -> tuple[dict[int, Symbol], set[Received]]:
        found: dict[int, Symbol] = {}
        received: set[Received] = set()
        seen, waiting = {number}, [number]
        while waiting:
            number = waiting.pop()
            if number in self._registers:
                received.add((self.body, self._registers[number], 0))
            for symbol, _, offset in self._loaded.get(number, ()):
                if symbol in self._formals:
                    received.add((self.body, self._formals[symbol], offset))
            for site, reads in self.made.get(number, ()):
                for node in reads:
                    found |= _variables_in(site, node)
                    more = set(self.body.registers_of(site.scope, node)) - seen
                    seen |= more
                    waiting += more
        return found, received

    def passed(self, call: Site, node: Node, offset: int) -> list[tuple[Site, Node]]:
        """What a call passes as an argument: the values that are stored to a byte of it, or the operand itself."""
        argument = passed_as(self.body, call, node)
        return self._stored.get((*argument.variable, offset), []) if argument.size else [(call, node)]


def _calls_of(body: Body) -> list[tuple[Body, Site, CallParts]]:
    """The calls in a function."""
    if _calls_of not in body.known:
        calls = [body.sites[i] for i, one in enumerate(body.instructions) if one.opcode.mnemonic == "call"]
        body.known[_calls_of] = [(body, site, call_parts(site.instruction)) for site in calls if isinstance(site.bound, Bound)]
    return body.known[_calls_of]  # type: ignore[no-any-return]


def _variables_in(site: Site, node: Node) -> dict[int, Symbol]:
    """The variables and parameters that an operand names, by `id`."""
    found: dict[int, Symbol] = {}
    for name in node.find(Name):
        symbol = site.scope.lookup(name.text)
        if symbol is not None and symbol.kind in (Kind.VARIABLE, Kind.PARAMETER) and constant_value(name) is None:
            found[id(symbol)] = symbol
    return found


def _unconverted(meant: _Object, bad: BadAccess, at: int) -> tuple[str, int, str]:
    """The variable, the offset and the description of an access with an address that no cvta has made generic."""
    offset, name = at - meant.start, short(meant.name)
    where = f"at {name}[{offset}..{offset + bad.size - 1}]: this is its address within {meant.space}, and a generic one is needed"
    return meant.name, offset, where


def _past(past: int) -> str:
    return f"{bytes_of(past)} past" if past else "just past"


def _rule(bad: BadAccess, at: int, site: Site | None) -> Rule:
    is_mbarrier = site is not None and isinstance(site.bound, Bound) and site.bound.form.mnemonic == "mbarrier"
    if bad.why == "misaligned":
        return MBARRIER_ALIGNMENT if is_mbarrier else COPY if _is_copy(site) else MISALIGNED
    if bad.why == "other-cta":
        return MBARRIER_REMOTE if is_mbarrier else WRONG_SPACE
    if bad.why in ("read-only", "space") or _window(bad.space, at):
        return WRONG_SPACE
    return PARAMETER if bad.space.startswith(".param") else OUTSIDE


def _is_copy(site: Site | None) -> bool:
    """Whether the instruction is a cp.async, whose operands have alignment rules of their own."""
    return site is not None and isinstance(site.bound, Bound) and group_of(site.bound) == "cp.async"


def _window(space: str, at: int) -> bool:
    """Whether an address is a generic one where an address of a specific state space is expected."""
    return space != ".global" and at >> windows.WINDOW_BITS > 0
