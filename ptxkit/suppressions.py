"""Suppression comments: `// ptxkit: ignore[C001] reason`.

After a statement, such a comment covers its line; on a line of its own, the next statement: a whole function or `{}`, as it does after the
`{`. At the start of inline assembly, it covers that up to its end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from ptxkit.diagnostics import Diagnostic, Span
from ptxkit.frozen import frozen
from ptxkit.memo import expression
from ptxkit.syntax import Block, Container, Error, Function, Index, Label, Loc, Module, Node, Path, Section, Statement

WORD = "ptxkit:"
_COMMENT = expression(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_MARK = expression(r"(?://|/\*)\s*ptxkit:\s*(?P<verb>[A-Za-z-]+)\s*(?:\[(?P<rules>[^\]\n]*)\])?")
_ASM_BEGINS, _ASM_ENDS = "begin inline asm", "end inline asm"


@frozen
class Mark:
    """A suppression comment. It covers findings of the rules that it names between the character offsets `start` and `end`."""

    rules: tuple[str, ...]
    """Ids, names, family letters or ALL."""
    span: Span
    start: int
    end: int
    trouble: str = ""
    """The error in the comment, if any."""


def marks(module: Module, index: Callable[[], Index]) -> tuple[Mark, ...]:
    """The suppression comments of a module, in order. `index` is called only if there are any."""
    comments = list(_comments(module))
    if not comments:
        return ()
    found = [mark for comment in comments for mark in _marks_at(module, index(), *comment)]
    return tuple(sorted(found, key=lambda mark: mark.span.start))


def apply(
    diagnostics: Iterable[Diagnostic], found: tuple[Mark, ...], is_named: Callable[[str, Diagnostic], bool]
) -> tuple[list[Diagnostic], set[Mark]]:
    """The findings that are not suppressed, and the comments that suppress one. `is_named` says whether a word names a finding's rule."""
    kept: list[Diagnostic] = []
    used: set[Mark] = set()
    for diagnostic in diagnostics:
        at = diagnostic.span.start
        accepting = [mark for mark in found if mark.start <= at < mark.end and any(is_named(word, diagnostic) for word in mark.rules)]
        used.update(accepting)
        if not accepting:
            kept.append(diagnostic)
    return kept, used


def _comments(module: Module) -> Iterator[tuple[Path, int, str]]:
    """The suppression comments: the path of the node that contains the statements, the index of the next statement, and the text."""
    stack: list[tuple[Path, Container]] = [((), module)]
    while stack:
        path, node = stack.pop()
        leadings = node.leadings if isinstance(node, Block) else {child.leading for child in node.children}  # type: ignore[attr-defined]
        if any(WORD in leading for leading in leadings):
            yield from [(path, i, child.leading) for i, child in enumerate(node.children) if WORD in child.leading]  # type: ignore[attr-defined]
        for i, child in node.others if isinstance(node, Block) else enumerate(node.children):
            if type(child) is Block:
                stack.append(((*path, i), child))
            elif (type(child) is Function or type(child) is Section) and child.body is not None:
                body: Block = child.body
                if WORD in body.leading:
                    yield (*path, i), 1, body.leading
                stack.append(((*path, i, 1), body))
        last = node.close if isinstance(node, Block) else node.trailing if isinstance(node, Module) else ""
        if WORD in last:
            yield path, len(node.children), last


def _marks_at(module: Module, index: Index, path: Path, i: int, text: str) -> Iterator[Mark]:
    holder = module.at(path)
    siblings = holder.children
    start = index.offset((*path, i)) - len(text) if i < len(siblings) else _end(index, path, holder) - len(text)
    before = ""
    for comment in _COMMENT.finditer(text):
        mark = _MARK.match(comment[0])
        if mark is None:
            before = comment[0]
            continue
        at = start + comment.start()
        span = index.between(at, at + len(comment[0].rstrip()))
        rules = tuple((mark["rules"] or "").replace(",", " ").split())
        if mark["verb"] != "ignore" or not rules:
            yield Mark((), span, 0, 0, "a comment to ptxkit reads `// ptxkit: ignore[RULES] reason`")
            continue
        is_trailing = "\n" not in text[: comment.start()] and at > 0
        yield Mark(rules, span, *_covered(module, index, path, i, at, is_trailing, _ASM_BEGINS in before))


def _covered(module: Module, index: Index, path: Path, i: int, at: int, is_trailing: bool, begins_asm: bool) -> tuple[int, int]:
    """The range that a comment covers, given its offset and the child `i` of a node that follows it."""
    holder = module.at(path)
    if isinstance(holder, Function):
        return _stretch(index, path, holder)
    if begins_asm:
        end = index.text.find(_ASM_ENDS, at)
        return at, end if end >= 0 else at
    if is_trailing and i == 0:
        return _whole(module, index, path)
    if is_trailing:
        line = index.text.rfind("\n", 0, at) + 1
        previous, end = _stretch(index, (*path, i - 1), holder.children[i - 1])
        return (previous, max(end, at)) if previous < line else (line, at)
    if i == len(holder.children):
        return at, at
    last = i
    while last + 1 < len(holder.children) and isinstance(holder.children[last], Label | Loc):
        last += 1
    return index.offset((*path, i)), _stretch(index, (*path, last), holder.children[last])[1]


def _whole(module: Module, index: Index, path: Path) -> tuple[int, int]:
    """The range of a block, with its header."""
    if path and isinstance(module.at(path[:-1]), Function | Section):
        path = path[:-1]
    return _stretch(index, path, module.at(path)) if path else (0, 0)


def _stretch(index: Index, path: Path, node: Node) -> tuple[int, int]:
    start = index.offset(path)
    leading = len(node.leading) if isinstance(node, Statement | Block | Error | Function | Section) else 0
    return start, start - leading + len(node.text)


def _end(index: Index, path: Path, holder: Node) -> int:
    """The end of the white space and comments after the last statement of a node."""
    return len(index.text) if not path else _stretch(index, path, holder)[1]
