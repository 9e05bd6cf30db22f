"""Edits, and applying many of them at once.

An edit is a value. `apply` checks all edits against what they must preserve, then builds the new module in one walk that shares every
unchanged node. Untouched bytes are preserved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from ptxkit.analyses.cfg.graph import Edge, Via, control_flow, find_label
from ptxkit.analyses.framework.routine import Routine
from ptxkit.frozen import define, frozen
from ptxkit.names import resolve
from ptxkit.rewriters.engine import marks, parameters
from ptxkit.rewriters.engine.code import Code, code, guarded, module_code, traits
from ptxkit.rewriters.engine.fresh import Fresh, fresh
from ptxkit.rewriters.engine.patterns import Site
from ptxkit.rewriters.engine.points import before
from ptxkit.rewriters.engine.preserving import Checks
from ptxkit.rewriters.engine.rewrite import Argument, Manifest, Probe, Refusal, Refused, Rewrite, Variable
from ptxkit.syntax import Block, Declaration, Function, Instruction, Label, Loc, Module, Name, Node, Path, Targets


@frozen
class Before:
    """Code directly before an instruction. With `converged`, the caller guarantees that all threads of a warp arrive together."""

    site: Site
    code: str
    converged: bool = False


@frozen
class After:
    """Code directly after an instruction, where control continues sequentially."""

    site: Site
    code: str
    converged: bool = False


@frozen
class Replace:
    """Code that replaces an instruction; empty code removes it."""

    site: Site
    code: str
    converged: bool = False


@frozen
class AtEntry:
    """Code that runs once, at the start of a function."""

    routine: Routine
    code: str
    converged: bool = True


@frozen
class AtExits:
    """Code before every exit of a function, under the same guard: `return`, `exit`, and on request `trap`."""

    routine: Routine
    code: str
    ways: tuple[str, ...] = ("return", "exit")
    converged: bool = False


@frozen
class OnEdge:
    """Code that runs exactly when control takes an edge of the graph. The edge gets a block of its own if necessary."""

    routine: Routine
    edge: Edge
    code: str
    converged: bool = False


@frozen
class Declare:
    """Declarations at the start of a function, for all of it: `.reg .b32 %pk_count;`."""

    routine: Routine
    code: str


@frozen
class AddParameter:
    """A new last parameter of a kernel: a scalar of the given type, naturally aligned. The manifest gives its offset."""

    kernel: str
    name: str
    type: str = ".u64"


@frozen
class AddToModule:
    """Variables or functions before the first function of the module that has a body: `.visible .global .align 8 .b64 __pk_buffer;`."""

    code: str


Edit = Before | After | Replace | AtEntry | AtExits | OnEdge | Declare | AddParameter | AddToModule


def around(site: Site, first: str, last: str, converged: bool = False) -> tuple[Edit, Edit]:
    """Code before and after an instruction."""
    return Before(site, first, converged), After(site, last, converged)


def remove(site: Site) -> Edit:
    """Removes an instruction."""
    return Replace(site, "")


def apply(module: Module, edits: Iterable[Edit], name: str, *, marked: bool = True, partly: bool = False, **options: object) -> Rewrite:
    """The module with all these edits, each of which refers to the module as given; `name` is the rewriter's.

    Code at one point stands in the order of its edits. With `marked`, `strip` can take it all out again. Raises Refused if an edit would
    break something, unless `partly`: then it is left out, and the result says so. Raises ValueError for code that is none, and for
    edits of another module.

        >>> from ptxkit import parse
        >>> from ptxkit.rewriters import select
        >>> module = parse(".entry k() { .reg .b64 %a;\\n\\tst.global.u32 [%a], 1;\\n\\tret; }")
        >>> made = apply(module, [Before(site, "membar.gl;") for site in select(module, "st.global")], "fences")
        >>> print(made.module.text.expandtabs(4))
        .entry k() { .reg .b64 %a;
            /*ptxkit+*/ membar.gl;
            st.global.u32 [%a], 1;
            ret; }
    """
    return _Batch(module, name, marked, partly, options).run(edits)


_AFTER, _EDGE, _ENTRY, _BEFORE = range(4)
"""The order of code where several points coincide."""


@define
class _Body:
    """The pending changes of one block of statements: by child index, code to insert and replacements."""

    put: dict[int, list[tuple[int, tuple[Node, ...]]]] = attrs.field(factory=dict)
    instead: dict[int, tuple[Node, ...]] = attrs.field(factory=dict)


class _Batch:
    def __init__(self, module: Module, name: str, marked: bool, partly: bool, options: dict[str, object]) -> None:
        self.module = module
        self.name = name
        self.marked = marked
        self.partly = partly
        self.options = options
        self.fresh: Fresh = fresh(module)
        self.bodies: dict[Path, _Body] = {}
        self.heads: dict[int, Node] = {}
        self.front: list[Node] = []
        self.refusals: list[Refusal] = []
        self.refused: list[Edit] = []
        self.current: Edit | None = None
        self.probes: list[Probe] = []
        self.arguments: list[Argument] = []
        self.variables: list[Variable] = []
        self.declared: dict[Path, set[str]] = {}
        """By function, the names that edits declare throughout it; by `()`, for the module."""
        self.checks = Checks(module, self.fresh, self.declared)
        self.made: dict[str, tuple[Node, ...]] = {}
        self.labels = 0
        self.owned: set[int] = set()

    def run(self, edits: Iterable[Edit]) -> Rewrite:
        wanted = list(edits)
        for edit in wanted:
            self.current = edit
            if isinstance(edit, Declare):
                self._declare(edit)
            elif isinstance(edit, AddToModule):
                self._add_to_module(edit)
            elif isinstance(edit, AddParameter):
                self._add_parameter(edit)
        for edit in wanted:
            self.current = edit
            if isinstance(edit, Before | After):
                self._point(edit)
            elif isinstance(edit, Replace):
                self._replace(edit)
            elif isinstance(edit, AtEntry):
                self._at_entry(edit)
            elif isinstance(edit, AtExits):
                self._at_exits(edit)
            elif isinstance(edit, OnEdge):
                self._on_edge(edit)
        if self.refusals and not self.partly:
            raise Refused(self.module, self.refusals)
        manifest = Manifest(self.name, self.options, tuple(self.probes), tuple(self.arguments), tuple(self.variables))
        return Rewrite(self._built(), manifest, tuple(self.refusals), tuple(self.refused))

    # --- the kinds of edits --------------------------------------------------------------------------------------------------------

    def _own(self, routine: Routine) -> None:
        if id(routine) not in self.owned:
            if routine.module is not self.module:
                raise ValueError(f"an edit of {routine.name!r} in another module")
            self.owned.add(id(routine))

    def _refuse(self, refusal: Refusal) -> None:
        assert self.current is not None
        self.refusals.append(refusal)
        self.refused.append(self.current)

    def _declare(self, edit: Declare) -> None:
        self._own(edit.routine)
        found = code(edit.code)
        if not all(isinstance(statement, Declaration) for statement in found.statements):
            raise ValueError(f"not only declarations: {edit.code!r}")
        path = edit.routine.path
        taken = self.checks.taken(edit.routine, found.declares) or next(iter(found.declares & self.declared.get(path, set())), None)
        if taken is not None:
            self._refuse(Refusal("name-collision", path, f"`{taken}` is declared in `{edit.routine.name}` already, or in a scope inside"))
            return
        self.declared.setdefault(path, set()).update(found.declares)
        self._put((*path, 1), 0, _AFTER, self._statements(edit.code))

    def _add_to_module(self, edit: AddToModule) -> None:
        found = module_code(edit.code)
        names = resolve(self.module)
        for name in sorted(found.declares):
            if not self.fresh.owns(name) and any(scope.local(name) is not None for scope in names.all_scopes):
                self._refuse(Refusal("name-collision", (), f"`{name}` is declared already, in the module or in a function"))
                return
        for statement in found.statements:
            if not isinstance(statement, Declaration | Function):
                raise ValueError(f"neither a variable nor a function: {statement.text!r}")
            if isinstance(statement, Declaration):
                self.variables += parameters.variables(statement)
        self.declared.setdefault((), set()).update(found.declares)
        self.front += [self._marked(statement, "\n") for statement in found.statements]

    def _add_parameter(self, edit: AddParameter) -> None:
        found = [i for i, child in enumerate(self.module.children) if isinstance(child, Function) and child.name == edit.kernel]
        if not found:
            raise ValueError(f"no kernel is called {edit.kernel!r}")
        for i in found:
            old = self.heads.get(i, self.module.children[i].children[0])
            names = resolve(self.module)
            if not self.fresh.owns(edit.name) and any(
                scope.local(edit.name) is not None for path, scope in names.scopes.items() if path[:1] in ((), (i,))
            ):
                self._refuse(Refusal("name-collision", (i,), f"`{edit.name}` is declared already, in `{edit.kernel}` or in the module"))
                return
            added = parameters.with_parameter(self.module, old, edit.name, edit.type)  # type: ignore[arg-type]
            if isinstance(added, str):
                self._refuse(Refusal("signature", (i,), added))
                return
            self.heads[i], argument = added
            self.declared.setdefault((i,), set()).add(edit.name)
        self.arguments.append(argument)

    def _point(self, edit: Before | After) -> None:
        routine, i = edit.site.routine, edit.site.index
        self._own(routine)
        is_after = isinstance(edit, After)
        found = code(edit.code)
        refusal = self.checks.point(routine, i, is_after, found, edit.converged)
        if refusal is not None:
            self._refuse(refusal)
            return
        path = routine.where(i)
        if is_after:
            self._put(path[:-1], path[-1] + 1, _AFTER, self._statements(edit.code))
        else:
            children = self._children(path[:-1])
            self._put(path[:-1], before(children, path[-1]), _BEFORE, self._statements(edit.code))
        self.probes.append(Probe(routine.name, i, "after" if is_after else "before"))

    def _replace(self, edit: Replace) -> None:
        routine, i = edit.site.routine, edit.site.index
        self._own(routine)
        found = code(edit.code)
        refusal = self.checks.replaced(routine, i, found, edit.converged)
        if refusal is not None:
            self._refuse(refusal)
            return
        path = routine.where(i)
        body = self.bodies.setdefault(path[:-1], _Body())
        if path[-1] in body.instead:
            raise ValueError(f"instruction {i} of {routine.name!r} is replaced twice")
        body.instead[path[-1]] = self._instead(edit.site.instruction, found.statements)
        self.probes.append(Probe(routine.name, i, "instead"))

    def _instead(self, old: Node, new: Sequence[Node]) -> tuple[Node, ...]:
        """The replacement of a statement. If it is empty, an empty block carries its mark."""
        if not self.marked:
            return (marks.led(new[0], old.leading), *new[1:]) if new else ()  # type: ignore[attr-defined]
        first = new[0] if new else code("{}").statements[0]
        return (marks.replaced(first, old), *[marks.inserted(statement) for statement in new[1:]])

    def _at_entry(self, edit: AtEntry) -> None:
        routine = edit.routine
        self._own(routine)
        found = code(edit.code)
        flow = control_flow(routine)
        function = routine.function
        assert function.body is not None
        if not routine.instructions:
            position = len(function.body.children)
            path = (*routine.path, 1)
        else:
            path = routine.where(0)
            children = self._children(path[:-1])
            position = before(children, path[-1])
            if flow.blocks[0].predecessors:
                # a loop starts here: the code must precede everything that its label leads
                path = (*routine.path, 1, routine.paths[0][1])
                children = function.body.children
                position = path[-1]
                while position and not isinstance(children[position - 1], Declaration):
                    position -= 1
        refusal = self.checks.code(routine, path, found, edit.converged)
        if refusal is not None:
            self._refuse(refusal)
            return
        self._put(path[:-1] if routine.instructions else path, position, _ENTRY, self._statements(edit.code))
        self.probes.append(Probe(routine.name, 0, "entry"))

    def _at_exits(self, edit: AtExits) -> None:
        routine = edit.routine
        self._own(routine)
        found = code(edit.code)
        scratch = self.fresh.register("guard")
        for i, instruction in enumerate(routine.instructions):
            flow = traits(instruction.opcode.text).flow
            if flow not in edit.ways:
                continue
            refusal = self.checks.point(routine, i, False, found, edit.converged)
            if refusal is None and instruction.guard is not None and found.branch:
                refusal = Refusal("guarded-branch", routine.where(i), f"{found.branch} where the function is left under a guard")
            if refusal is not None:
                self._refuse(refusal)
                continue
            path = routine.where(i)
            statements = tuple([self._marked(one) for one in guarded(found.statements, instruction.guard, scratch)])
            self._put(path[:-1], before(self._children(path[:-1]), path[-1]), _BEFORE, statements)
            self.probes.append(Probe(routine.name, i, "exit"))
        falls = [block for block in control_flow(routine).blocks if block.falls_off]
        assert routine.function.body is not None
        if falls and "return" in edit.ways:
            where = (*routine.path, 1, len(routine.function.body.children))
            self._put(where[:-1], where[-1], _BEFORE, self._statements(edit.code))
            self.probes.append(Probe(routine.name, falls[0].end - 1, "end"))

    def _on_edge(self, edit: OnEdge) -> None:
        routine, edge = edit.routine, edit.edge
        self._own(routine)
        flow = control_flow(routine)
        if edge not in flow.blocks[edge.source].edges:
            raise ValueError(f"{routine.name!r} has no such edge")
        found = code(edit.code)
        last = flow.blocks[edge.source].end - 1
        refusal = self.checks.point(routine, last, edge.via in (Via.FALL, Via.NOT_TAKEN), found, edit.converged)
        if refusal is not None:
            self._refuse(refusal)
            return
        path = routine.where(last)
        if edge.via in (Via.FALL, Via.NOT_TAKEN):
            self._put(path[:-1], path[-1] + 1, _EDGE, self._statements(edit.code))
        else:
            refusal = self._split(routine, edge, last, found)
            if refusal is not None:
                self._refuse(refusal)
                return
        self.probes.append(Probe(routine.name, last, f"edge to block {edge.target}"))

    def _split(self, routine: Routine, edge: Edge, last: int, found: Code) -> Refusal | None:
        """A new block for the edge of a taken branch, at the end of the block that contains the target."""
        path, branch = routine.where(last), routine.instructions[last]
        target = branch.operands[-1]
        assert isinstance(target, Name)
        label = self.fresh.label("edge", self.labels)
        if edge.via is Via.INDEXED:
            listed = find_label(routine.lists, routine.paths[last], target.text)
            where = _list_path(routine, routine.paths[last], target.text)
            if not isinstance(listed, Targets) or where is None:
                return Refusal("unknown-targets", path, f"the list of targets `{target.text}` is not to be found")
            users = [
                i for i in routine.instructions if traits(i.opcode.text).flow == "branch-indexed" and i.operands[-1].text == target.text
            ]
            if len(users) > 1:
                return Refusal("shared-targets", path, f"the list of targets `{target.text}` is shared by {len(users)} branches")
            goal = listed.children[edge.indices[0]].text
            new = listed.with_children([Name(label) if i in edge.indices else child for i, child in enumerate(listed.children)])
            if len({child.text for i, child in enumerate(listed.children) if i in edge.indices}) > 1:
                return Refusal("several-labels", path, "the edge goes by several labels of one instruction")
            body = self.bodies.setdefault(where[:-1], _Body())
            if where[-1] in body.instead:
                return Refusal("edited-twice", path, f"two edges of the list `{target.text}` in one batch")
            body.instead[where[-1]] = self._instead(listed, (new,))
        else:
            goal = target.text
            body = self.bodies.setdefault(path[:-1], _Body())
            if path[-1] in body.instead:
                return Refusal("edited-twice", path, "the branch is replaced in the same batch")
            body.instead[path[-1]] = self._instead(branch, (branch.with_operand(len(branch.operands) - 1, Name(label)),))
        self.labels += 1
        scope = _scope_of_label(routine, routine.paths[last], goal)
        assert scope is not None
        inside = (*routine.path, *scope)
        children = self._children(inside)
        end = self.fresh.label("behind", self.labels)
        statements = code(f"bra {end};\n{label}:\nbra {goal};\n{end}:").statements
        if not _runs_on(children):
            statements = statements[1:-1]
        block = [part for part in statements if isinstance(part, Label) and part.name.text == label]
        at = statements.index(block[0]) + 1
        new_block = (*statements[:at], *found.statements, *statements[at:])
        self._put(inside, len(children), _BEFORE, tuple([self._marked(statement) for statement in new_block]))
        return None

    # --- building ------------------------------------------------------------------------------------------------------------------

    def _children(self, path: Path) -> Sequence[Node]:
        return self.module.at(path).children

    def _marked(self, statement: Node, leading: str = "\n\t") -> Node:
        return marks.inserted(statement, leading) if self.marked else marks.led(statement, leading)

    def _statements(self, text: str) -> tuple[Node, ...]:
        found = self.made.get(text)
        if found is None:
            found = self.made[text] = tuple([self._marked(statement) for statement in code(text).statements])
        return found

    def _put(self, block: Path, position: int, rank: int, statements: tuple[Node, ...]) -> None:
        self.bodies.setdefault(block, _Body()).put.setdefault(position, []).append((rank, statements))

    def _built(self) -> Module:
        accessed: dict[int, list[Path]] = {}
        for path in self.bodies:
            accessed.setdefault(path[0], []).append(path)
        children: list[Node] = []
        first = next((i for i, one in enumerate(self.module.children) if isinstance(one, Function) and one.body), len(self.module.children))
        for i, child in enumerate(self.module.children):
            if i == first:
                children += self.front
            if i in accessed:
                inner = {path[:n] for path in accessed[i] for n in range(2, len(path) + 1)}
                assert isinstance(child, Function)
                child = child.with_children((child.header, self._block((i, 1), child.children[1], inner)))
            if i in self.heads:
                old = child.children[0]
                new = marks.replaced(self.heads[i], old) if self.marked else self.heads[i]
                child = child.with_children((new, *child.children[1:]))
            children.append(child)
        if first == len(self.module.children):
            children += self.front
        return self.module.with_children(children)

    def _block(self, path: Path, block: Node, accessed: set[Path]) -> Node:
        """Recursive; the parser bounds the nesting of blocks."""
        body = self.bodies.get(path, _Body())
        put, instead = body.put, body.instead
        inner = {at[-1] for at in accessed if len(at) == len(path) + 1 and at[:-1] == path}
        children: list[Node] = []
        for i, child in enumerate(block.children):
            if i in put:
                for _, statements in sorted(put[i], key=lambda one: one[0]):
                    children += statements
            if i in instead:
                children += instead[i]
            elif i in inner:
                children.append(self._block((*path, i), child, accessed))
            else:
                children.append(child)
        for _, statements in sorted(put.get(len(block.children), ()), key=lambda one: one[0]):
            children += statements
        return block.with_children(children)


def _runs_on(children: Sequence[Node]) -> bool:
    """Whether control may reach the end of these statements."""
    for statement in reversed(children):
        if isinstance(statement, Instruction):
            flow = traits(statement.opcode.text).flow
            return statement.guard is not None or flow not in ("branch", "branch-indexed", "return", "exit", "trap")
        if not isinstance(statement, Loc | Declaration):
            return True
    return True


def _scope_of_label(routine: Routine, path: Path, name: str) -> Path | None:
    """The block that contains the label of a branch, searched outwards."""
    return next((path[:length] for length in range(len(path) - 1, 0, -1) if (path[:length], name) in routine.labels), None)


def _list_path(routine: Routine, path: Path, name: str) -> Path | None:
    """The path in the module of the `.branchtargets` list that a branch names."""
    for length in range(len(path) - 1, 0, -1):
        if (path[:length], name) not in routine.lists:
            continue
        inside = (*routine.path, *path[:length])
        block = routine.module.at(inside)
        assert isinstance(block, Block)
        for i, child in enumerate(block.children):
            if isinstance(child, Label) and child.name.text == name:
                return next((*inside, j) for j in range(i + 1, len(block.children)) if isinstance(block.children[j], Targets))
    return None
