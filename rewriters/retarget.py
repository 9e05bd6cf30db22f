"""Rewrites a module for another `.version` or `.target`, if all that it does can be expressed there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from ptxkit.checking import Binder
from ptxkit.diagnostics import Diagnostic
from ptxkit.isa.binding import Bound
from ptxkit.isa.directives import directives
from ptxkit.isa.targets import Version, parse_version, runs, split_target, targets, version_text
from ptxkit.names import resolve
from ptxkit.operands import Shaper
from ptxkit.requirement import module_needs
from ptxkit.rewriters.engine.checking import new_errors
from ptxkit.rewriters.engine.code import code, guarded
from ptxkit.rewriters.engine.expansions import SUBSTITUTIONS
from ptxkit.rewriters.engine.fresh import fresh
from ptxkit.rewriters.engine.fusing import Operation, fusible, unrounded
from ptxkit.rewriters.engine.points import is_bound_pragma
from ptxkit.rewriters.engine.rewrite import FailedCheck, Manifest, Refusal, Refused, Rewrite, diagnostics, require_readable
from ptxkit.rewriters.engine.substitutions import Goal
from ptxkit.syntax import (
    Block,
    Function,
    Index,
    Instruction,
    Label,
    Loc,
    Module,
    Name,
    Node,
    Number,
    Path,
    Pragma,
    Target,
)
from ptxkit.syntax import (
    Version as VersionStatement,
)

FUSIBLE = "it names no rounding, so the compiler may round it once together with another; what would be written is rounded by itself"


def retarget(module: Module, *, target: str = "", version: str = "") -> Rewrite:
    """Rewrites a module for another target or PTX version, and replaces what that lacks.

    With a target and no version, the version is kept unless the target needs a higher one; with neither, the lowest possible version is
    used. No substitution changes a result, and each is checked against the instruction table. What cannot be replaced is listed, and
    nothing is written.

    * `target`: The target, such as `sm_80`.
    * `version`: The PTX version, such as `7.0`, or `lowest`.

    Raises Refused, with every instruction and directive that cannot be replaced, and for a module with syntax errors or instructions that
    the table does not know; ValueError for an unknown target or version, for a version that the target does not have, and for a module
    that names neither.
    """
    require_readable(module)
    named = next((word for word in module.targets if word.startswith("sm_")), None)
    if named is None or module.version is None:
        raise ValueError("the module names no target or no version")
    wanted = target or named
    split_target(wanted)
    if wanted not in targets():
        raise ValueError(f"there is no target {wanted!r}")
    if version and version != "lowest":
        since = targets()[wanted].since
        if parse_version(version) < since:
            raise ValueError(f"{wanted} is there from PTX {version_text(since)}, not in {version}")
        return _to(module, wanted, parse_version(version), target, version)
    versions = _versions(module, wanted, lowest=version == "lowest" or not target)
    failed: FailedCheck | None = None
    for candidate in versions:
        try:
            return _to(module, wanted, candidate, target, version)
        except FailedCheck as check:
            failed = failed or check
    assert failed is not None
    raise failed


def _versions(module: Module, target: str, lowest: bool) -> list[Version]:
    """The versions to try, best first."""
    assert module.version is not None
    since = targets()[target].since
    if not lowest:
        return [max(module.version, since)]
    needed = module_needs(module).version_for(target) or since
    steps = {known.since for known in targets().values()} | {module.version}
    return [max(needed, since), *sorted(step for step in steps if max(needed, since) < step <= module.version)]


def _to(module: Module, target: str, version: Version, *options: str) -> Rewrite:
    edits: dict[Path, Sequence[Node]] = {}
    changes: list[str] = []
    goal = Goal(version, target, fresh(module))
    binder = Binder(module, resolve(module), version, target)
    unknown = list(_unknown(binder))
    if unknown:
        raise Refused(module, unknown)
    found = list(_substituted(binder, goal))
    fused = fusible(module, _operations(binder)) & {path for path, *_ in found} if found else frozenset()
    for path, old, new, why in found:
        if path in fused:
            continue
        edits[path] = new
        if len(new) != 1 or not isinstance(new[0], Instruction):
            edits.update(dict.fromkeys(_bound_pragmas(module, path), ()))
        changes.append(f"{old.opcode.text}: {why}")
    for path, node in _statements(module):
        if isinstance(node, Pragma) and all(not _has_pragma(text, goal) for text in node.strings):
            edits[path] = ()
            changes.append(f".pragma {node.strings[0]}: pragmas change no result")
    heads = _heads(module, goal)
    moved = module.edit({**edits, **heads})
    errors = new_errors(module, moved)
    if errors:
        whys = diagnostics(module, [Refusal("fusible", path, FUSIBLE) for path in sorted(fused)])
        unsaid = _unsupported(module, heads, edits)
        raise FailedCheck(module, (*unsaid, *whys)) if unsaid else FailedCheck(moved, errors)
    manifest = Manifest("retarget", {"target": options[0], "version": options[1]}, changes=tuple(changes))
    return Rewrite(moved, manifest)


def _heads(module: Module, goal: Goal) -> dict[Path, Sequence[Node]]:
    """The edits of the version and the target."""
    edits: dict[Path, Sequence[Node]] = {}
    for i, child in enumerate(module.children):
        if isinstance(child, VersionStatement):
            edits[(i, 0)] = (Number(version_text(goal.version)),)
        elif isinstance(child, Target):
            for j, word in enumerate(child.children):
                if word.text.startswith("sm_"):
                    edits[(i, j)] = (Name(goal.target),)
    return edits


def _unsupported(module: Module, heads: dict[Path, Sequence[Node]], edits: dict[Path, Sequence[Node]]) -> list[Diagnostic]:
    """The diagnostics of the unchanged module for the new version and target, at its own lines, except for what is replaced."""
    bare = module.edit(heads)
    index = Index(bare)
    spans = [index.span(path) for path in edits]
    left = [found for found in new_errors(module, bare) if not any(span.start <= found.span.start < span.end for span in spans)]
    return [attrs.evolve(found, message=found.message.replace("; the file says", "; the result would say")) for found in left]


def _unknown(binder: Binder) -> Iterator[Refusal]:
    for site, shaper in binder.sites():
        if not isinstance(binder.bound(site.instruction, shaper), Bound):
            yield Refusal("unknown-instruction", site.path, f"what `{site.instruction.opcode.text}` needs is not known")


def _operations(binder: Binder) -> dict[Path, Operation]:
    """The sums and products without a rounding modifier."""
    found: dict[Path, Operation] = {}
    for site, shaper in binder.sites():
        bound = binder.bound(site.instruction, shaper)
        operation = unrounded(site.instruction.opcode.mnemonic, bound) if isinstance(bound, Bound) else None
        if operation is not None:
            found[site.path] = operation
    return found


def _statements(module: Module) -> Iterator[tuple[Path, Node]]:
    for i, child in enumerate(module.children):
        yield (i,), child
        if isinstance(child, Function):
            yield from [((i, *path), statement) for path, statement in child.statements()]


def _has_pragma(text: str, goal: Goal) -> bool:
    """Whether the goal has a pragma; pragmas that the table does not know are kept."""
    known = directives().get(f"pragma-{text.partition(' ')[0]}")
    return known is None or goal.has(known.needs)


def _bound_pragmas(module: Module, path: Path) -> Iterator[Path]:
    """The pragmas that apply to the instruction at a path: its replacement may be another instruction, or several."""
    children = module.at(path[:-1]).children
    at = path[-1] - 1
    while at >= 0 and (isinstance(children[at], Loc) or is_bound_pragma(children[at])):
        if is_bound_pragma(children[at]):
            yield (*path[:-1], at)
        at -= 1


def _substituted(binder: Binder, goal: Goal) -> Iterator[tuple[Path, Instruction, tuple[Node, ...], str]]:
    """The instructions that the new target or version lacks, their replacements, and why these are equivalent."""
    for site, shaper in binder.sites():
        bound = binder.bound(site.instruction, shaper)
        if not isinstance(bound, Bound) or _is_there(bound, goal):
            continue
        found = _first_substitution(site.instruction, binder, shaper, goal)
        if found is not None:
            yield site.path, site.instruction, *found


def _is_there(bound: Bound, goal: Goal) -> bool:
    gone = any(
        goal.version >= removed.version and (removed.target is None or runs(goal.target, removed.target.target))
        for removed in bound.removed
    )
    return not gone and goal.has(bound.requirement)


def _first_substitution(instruction: Instruction, binder: Binder, shaper: Shaper, goal: Goal) -> tuple[tuple[Node, ...], str] | None:
    """The first substitution that is available; one may need another."""
    whys: list[str] = []
    statements: tuple[Node, ...] = (instruction,)
    for substitution in SUBSTITUTIONS:
        if len(statements) != 1:
            break
        (at,) = statements
        assert isinstance(at, Instruction)
        now = _bound(at, binder, shaper)
        if now is None:
            return None
        if _is_there(now, goal):
            break
        text = substitution.make(at, now, goal) if substitution.fits(goal) else None
        if text is None:
            continue
        whys.append(substitution.same)
        if not text:
            return _nothing(instruction), "; ".join(whys)
        if text.startswith("{"):
            return (_block(text, instruction, goal),), "; ".join(whys)
        made = code(text).statements
        if any(_bound(one, binder, shaper) is None for one in made):
            whys.pop()
            continue
        statements = made
    if not whys or not all((now := _bound(one, binder, shaper)) is not None and _is_there(now, goal) for one in statements):
        return None
    guard = f"{instruction.guard.text} " if instruction.guard is not None else ""
    guarded = [code(guard + one.body_text).statements[0] for one in statements]  # type: ignore[attr-defined]
    leadings = [instruction.leading, *["\n\t"] * (len(guarded) - 1)]
    return tuple([one.with_leading(leading) for one, leading in zip(guarded, leadings, strict=True)]), "; ".join(whys)  # type: ignore[attr-defined]


def _block(text: str, instruction: Instruction, goal: Goal) -> Node:
    """The block, executed only if the guard of the instruction holds."""
    guard = instruction.guard
    inner = code(text).statements[0].children
    if guard is not None and any(isinstance(one, Label) or (isinstance(one, Instruction) and one.guard is not None) for one in inner):
        skip = goal.names.label("skip")
        text = f"{{ @{'' if guard.negated else '!'}{guard.predicate} bra {skip};\n\t{text[1:-1]}\n\t{skip}: }}"
        guard = None
    block = code(text).statements[0]
    assert isinstance(block, Block)
    return block.with_children(guarded(block.children, guard, goal.names.register("both"))).with_leading(instruction.leading)


def _nothing(instruction: Instruction) -> tuple[Node, ...]:
    """An empty block, so that comments and pragmas around the instruction are kept."""
    (block,) = code("{}").statements
    assert isinstance(block, Block)
    return (block.with_leading(instruction.leading),)


def _bound(statement: Node, binder: Binder, shaper: Shaper) -> Bound | None:
    if not isinstance(statement, Instruction):
        return None
    # operands are keyed by `id`: use a separate shaper, as these nodes may be freed before that of the scope
    bound = binder.bound(statement, Shaper(shaper.scope))
    return bound if isinstance(bound, Bound) else None
