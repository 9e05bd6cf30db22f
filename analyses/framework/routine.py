"""A function in the context of its module. Every fact is a fact of a routine.

The facts of a routine are functions of it, each in its own module: `control_flow(routine)`, `liveness(routine)`. Each is computed once and
kept as long as the routine.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import attrs

from ptxkit.checking import Binder
from ptxkit.frozen import frozen
from ptxkit.memo import collector_paused, per_object
from ptxkit.names import Names, resolve
from ptxkit.syntax import Block, Function, Instruction, Label, Module, Node, Path, Prototype, Targets

R = TypeVar("R")


@frozen(eq=False, repr=False)
class Routine:
    """A function with a body, in its module. Instructions are numbered in document order, including those of inner scopes."""

    module: Module
    names: Names
    path: Path
    """Path of the function in the module."""
    function: Function
    name: str
    instructions: tuple[Instruction, ...]
    paths: tuple[Path, ...]
    """Path of each instruction, relative to the function."""
    runs: tuple[tuple[int, int, Path], ...]
    """Instructions `start` to `end` (exclusive) are directly in the scope with this path, relative to the module."""
    labels: dict[tuple[Path, str], int]
    """For each scope (path relative to the function) and label: the index of the instruction that follows the label."""
    lists: dict[tuple[Path, str], Targets | Prototype]
    """The `.branchtargets`, `.calltargets` and `.callprototype` statements, by scope and label."""
    binder: Binder
    siblings: list[Routine] = attrs.field(factory=list)
    """All functions of the module with a body, in order. Functions that are called from here are among them."""
    executes: bool = True
    """Whether facts may be computed by executing the kernel on the machine."""
    _known: dict[Any, Any] = attrs.field(factory=dict, init=False)

    def forget(self) -> None:
        """Releases all of its facts."""
        self._known.clear()
        self.siblings.clear()

    def where(self, i: int) -> Path:
        """The path of instruction `i`, relative to the module."""
        return (*self.path, *self.paths[i])

    def __repr__(self) -> str:
        return f"<Routine {self.name!r}, {len(self.instructions)} instructions>"


def fact(compute: Callable[[Routine], R]) -> Callable[[Routine], R]:
    """Decorates a function of a routine so that it is computed once for each routine. It also accepts a `Function`, taken without the
    declarations of its module."""

    @functools.wraps(compute)
    def known(routine: Routine) -> R:
        if type(routine) is not Routine:
            routine = routine_of(routine, compute.__name__)
        found = routine._known.get(compute, routine)
        if found is routine:
            if gc.isenabled():
                with collector_paused():
                    found = routine._known[compute] = compute(routine)
            else:
                # inside `lint`, which computes some sixty facts of each function
                found = routine._known[compute] = compute(routine)
        return found  # type: ignore[no-any-return]

    return known


def routine_of(subject: object, what: str = "this analysis") -> Routine:
    """The routine of a stand-alone function. Raises TypeError for anything but a Function with a body or a Routine."""
    if isinstance(subject, Routine):
        return subject
    if isinstance(subject, Function) and subject.body is not None:
        return _alone(subject)
    given = "a Function without a body" if isinstance(subject, Function) else f"{type(subject).__name__}"
    raise TypeError(f"{what} takes a Function or a Routine (ptxkit.analyses.routines(module) gives them), not {given}")


@per_object
def _alone(function: Function) -> Routine:
    return routines(Module((function,)))[0]


def routines(module: Module, which: Iterable[int] | None = None, *, executes: bool = True) -> tuple[Routine, ...]:
    """The functions of a module that have a body. Facts are cached in the returned objects, so call this once and keep the result.

    `which` selects functions by their index among the children of the module. The routines know nothing of functions that are left out;
    there must be no calls between these and the selected ones. Without `executes`, no fact is computed by an execution.
    """
    names = resolve(module)
    binder = Binder(module, names, None, None)
    found: list[Routine] = []
    children = module.children
    wanted = range(len(children)) if which is None else sorted(which)
    found += [_routine(module, names, binder, i, children[i], found, executes) for i in wanted if has_body(children[i])]
    return tuple(found)


def has_body(node: Node) -> bool:
    """Whether a part of a module is a function with a body."""
    return isinstance(node, Function) and node.body is not None


def _routine(module: Module, names: Names, binder: Binder, index: int, function: Node, siblings: list[Routine], executes: bool) -> Routine:
    assert isinstance(function, Function) and function.body is not None
    instructions: list[Instruction] = []
    paths: list[Path] = []
    runs: list[tuple[int, int, Path]] = []
    labels: dict[tuple[Path, str], int] = {}
    lists: dict[tuple[Path, str], Targets | Prototype] = {}
    last_label = ""
    stack: list[tuple[Path, Iterator[tuple[int, Node]]]] = [((1,), iter(enumerate(function.body.children)))]
    start = 0
    while stack:
        path, rest = stack[-1]
        inner: Block | None = None
        for i, statement in rest:
            kind = type(statement)
            if kind is Instruction:
                instructions.append(statement)  # type: ignore[arg-type]
                paths.append((*path, i))
                continue
            if kind is Label:
                last_label = statement.name.text  # type: ignore[attr-defined]
                labels.setdefault((path, last_label), len(instructions))
                continue
            if (kind is Targets or kind is Prototype) and last_label:
                lists.setdefault((path, last_label), statement)  # type: ignore[arg-type]
            last_label = ""
            if kind is Block:
                inner = statement  # type: ignore[assignment]
                break
        if len(instructions) > start:
            runs.append((start, len(instructions), (index, *path)))
            start = len(instructions)
        if inner is None:
            stack.pop()
        else:
            stack.append(((*path, i), iter(enumerate(inner.children))))
    return Routine(
        module,
        names,
        (index,),
        function,
        function.name,
        tuple(instructions),
        tuple(paths),
        tuple(runs),
        labels,
        lists,
        binder,
        siblings,
        executes,
    )
