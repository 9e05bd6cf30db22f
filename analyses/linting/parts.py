"""Divides the functions of a module into independent parts: findings in one depend only on its own text and on declarations."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Sequence

import attrs

from ptxkit.analyses.framework.routine import Routine, has_body, routines
from ptxkit.analyses.framework.rule import Facts, Rule, folders_for
from ptxkit.frozen import frozen
from ptxkit.memo import expression
from ptxkit.names import Kind, Laid, Names, Symbol
from ptxkit.syntax import Declaration, Function, Index, Name, Section

_CALLS = expression(r"call(?<!\wcall)\b")
"""The word `call`."""


@frozen
class Part:
    """A kernel that calls no function with a body, or all other functions of a module together."""

    children: tuple[int, ...]
    """Indices of the functions among the children of the module, ascending."""
    others: tuple[int, ...] = attrs.field(eq=False, repr=False)
    """Indices of the children that are neither functions with a body nor debugging information."""
    instructions: int = attrs.field(eq=False, repr=False)
    """How many it has."""
    concerns: frozenset[str] = attrs.field(eq=False, repr=False)
    """The folders of rules that may report something in it."""


def parts_of(facts: Facts) -> tuple[Part, ...]:
    """The parts of a module, in text order."""
    others = [i for i, child in enumerate(facts.module.children) if not isinstance(child, Section) and not has_body(child)]
    alone: list[int] = []
    together: list[int] = []
    words = _words(facts)
    calling = [i for (i,), function in facts.functions if not function.header.is_entry or _CALLS.search(words[i])]
    joined = _joined(facts, calling)
    for (i,), function in facts.functions:
        (alone if function.header.is_entry and i not in joined else together).append(i)
    if facts.names.duplicates:
        # with duplicate names, it is ambiguous which function is called
        together, alone = sorted([*together, *alone]), []
    found = [(i,) for i in alone] + ([tuple(together)] if together else [])
    common = folders_for("\n".join([facts.module.children[i].text for i in others]))
    counts: Counter[int] = Counter()
    for laid in facts.names.blocks:
        counts[laid.path[0]] += len(laid.code.patterns)
    return tuple(
        [
            Part(one, tuple(others), sum([counts[i] for i in one]), common.union(*[folders_for(words[i]) for i in one]))
            for one in sorted(found)
        ]
    )


def _words(facts: Facts) -> dict[int, str]:
    """For each function: its header, its declarations, and one instruction of each pattern, with zeros for numbers in operands."""
    found = {i: {function.header.text} for (i,), function in facts.functions}
    for laid in facts.names.blocks:
        own = found[laid.path[0]]
        own.update([pattern.text for pattern in set(laid.code.patterns)])
        own.update([other.text for _, other in laid.others if type(other) is Declaration])
    return {i: "\n".join(own) for i, own in found.items()}


def _joined(facts: Facts, wanted: Collection[int]) -> frozenset[int]:
    """Those of these functions that mention a function with a body, or call through a register, which may hold any function."""
    return frozenset([laid.path[0] for laid in facts.names.blocks if laid.path[0] in wanted and _leads_outside(facts.names, laid)])


def _leads_outside(names: Names, laid: Laid) -> bool:
    if any(symbol.kind is Kind.FUNCTION and not _is_external(symbol) for symbol in names.mentioned[laid.scope].symbols):
        return True
    calls = [instruction for instruction in laid.instructions if instruction.opcode.text.startswith("call")]
    called = [next((operand.text for operand in call.operands if isinstance(operand, Name)), "") for call in calls]
    return any((symbol := laid.scope.lookup(name)) is None or symbol.kind is not Kind.FUNCTION for name in called)


def _is_external(symbol: Symbol) -> bool:
    """Whether a function is declared only: its body is in another module, or part of the driver."""
    return isinstance(symbol.declares, Function) and symbol.declares.body is None


def extent(index: Index, i: int) -> tuple[int, int]:
    """Start and end offset of a child of the module, including leading comments and white space."""
    return index.starts[i], index.starts[i + 1] if i + 1 < len(index.starts) else len(index.text)


def part_at(parts: Sequence[Part], index: Index, offset: int) -> Part | None:
    """The part whose functions contain an offset; None if none does."""
    i = bisect_right(index.starts, offset) - 1
    return next((part for part in parts if i in part.children), None)


def keys_of(facts: Facts, parts: Sequence[Part], rules: Sequence[Rule], run: bool) -> tuple[str, ...]:
    """A key for each part that covers everything its findings depend on: the text of its functions, all declarations of the module, and the
    selected rules.

    Debugging information is excluded: it only affects source names, which are added to messages later.
    """
    index = facts.index

    def text_of(i: int) -> bytes:
        start, end = extent(index, i)
        return index.text[start:end].encode("utf-8", "surrogatepass") + b"\0"

    asked = (facts.target, facts.version, run, [rule.id for rule in rules], has_errors(facts))
    common = hashlib.blake2b(repr(asked).encode(), digest_size=20)
    for i in parts[0].others if parts else ():
        common.update(text_of(i))
    keys = []
    for part in parts:
        own = common.copy()
        for i in part.children:
            own.update(text_of(i))
        keys.append(own.hexdigest())
    return tuple(keys)


def has_errors(facts: Facts) -> bool:
    """Whether the module has errors that prevent it from being executed."""
    return bool(facts.names.unresolved or facts.names.duplicates or facts.syntax)


class PartFacts(Facts):
    """Facts of a module, restricted to the functions of some parts."""

    def __init__(self, facts: Facts, parts: Sequence[Part], *, executes: bool = True) -> None:
        super().__init__(facts.module, facts.target, facts.version, executes=executes)
        self._whole = facts
        _share(facts, self)
        self.is_asked = False
        """Whether `routines` has been read."""
        children = frozenset([i for part in parts for i in part.children])
        self._is_whole = executes == facts.executes and len(children) == len(facts.functions)
        self._fresh = facts.routines if self._is_whole else routines(facts.module, children, executes=executes)

    @property
    def routines(self) -> tuple[Routine, ...]:
        """The functions in the selected parts."""
        self.is_asked = True
        return self._fresh

    def forget(self) -> None:
        """Releases all facts of functions; facts of the module are handed to the original `Facts`."""
        if self._is_whole:
            self._whole.forget()
        else:
            for routine in self._fresh:
                routine.forget()
        _share(self, self._whole)


def _share(one: Facts, other: Facts) -> None:
    """Copies the facts of the module that do not depend on which functions are selected."""
    for name in ("index", "names", "marks", "syntax", "_problems"):
        if name in one.__dict__:
            other.__dict__[name] = one.__dict__[name]
