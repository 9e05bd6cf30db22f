"""Locates a compiler's messages in the tree.

ptxas gives a line and some words: the line of the opcode with the instruction, a name with its line, a modifier, the index of an operand.
From these follow the statement, the node in it, and the column. If it only says that an instruction's operands do not fit, the instruction
table determines which one.
"""

from __future__ import annotations

import bisect
import functools
import re
from collections import Counter, deque
from collections.abc import Iterator
from typing import TypeVar

from ptxkit import checking
from ptxkit.diagnostics import Span
from ptxkit.frozen import frozen
from ptxkit.memo import expression
from ptxkit.names import resolve
from ptxkit.problem import Problem
from ptxkit.revalidation.architectures import named_target
from ptxkit.revalidation.log import Message
from ptxkit.syntax import (
    Address,
    Block,
    Error,
    Function,
    Index,
    Instruction,
    Line,
    Module,
    Node,
    Opcode,
    Path,
    Section,
    Statement,
    Target,
    Vector,
    Version,
    syntax_errors,
)

T = TypeVar("T")

_QUOTED = expression(r"'([^']+)'")
_ARGUMENT = expression(r"\b(?:[Aa]rgument|operand) (\d+)\b")
_SYNTAX = expression(r"Parsing error near '(.*)': ")
_MARKER = expression(r'#\s*(\d+)\s+"([^"\n]*)"')
_MODIFIER_MEANT = expression(r"`(\.[\w:]+)`")
_ROUNDING = expression(r"\.(rn|rz|rm|rp|rna|rs|rni|rzi|rmi|rpi)\b")
_ABOUT_GUARD = expression(r"Predicate expression expected|Illegal argument to predicate negation")
_ABOUT_RESULT = expression(r"Result (register|vector)|Predicate output|Read-only special register")
_ABOUT_ADDRESS = expression(r"State space mismatch between instruction and address")
_ABOUT_VECTOR = expression(r"Illegal vector size|Incompatible elements of vector")
_ABOUT_ROUNDING = expression(r"Illegal rounding modifier|Multiple rounding modifiers")


@frozen
class Location:
    """A node, the part of it concerned, and ptxkit's own diagnosis."""

    path: Path
    span: Span
    note: str = ""


@frozen
class _Site:
    """A statement and its range, without leading text."""

    start: int
    end: int
    path: Path
    node: Node


class Locator:
    """Locates messages about one module; what it needs is computed on demand."""

    def __init__(self, module: Module, target: str | None) -> None:
        self.module = module
        self.target = target or named_target(module)
        self.index = Index(module)
        self._queues: dict[tuple[int, str], deque[_Site]] = {}
        self._lines: dict[int, tuple[list[_Site], dict[str, list[int]]]] = {}

    def locate(self, message: Message) -> Location:
        """The location of a message; for a repeated message, the next statement that matches equally well."""
        line = self._line(message)
        if line is None or line > len(self.index.line_starts):
            return self._by_name(message.text)
        syntax = _SYNTAX.match(message.text)
        if syntax is not None:
            return self._of_syntax(line, syntax[1])
        if "non-ASCII" in message.text or "Unexpected EOF" in message.text:
            return self._of_character(line)
        site = self._site(message.text, line)
        return self._in_line(line) if site is None else self._in_statement(site, message.text, line)

    # --- lines --------------------------------------------------------------------------------------------------------------------

    def _line(self, message: Message) -> int | None:
        """The line of the file, which differs from the compiler's count after `# 100 "a.cu"`."""
        if message.line is None:
            return None
        if not self._counted:
            return message.line
        found = self._counted.get(message.line, {})
        # undeclared names are reported at the end, with the file that contains them
        return found.get(message.source, next(iter(found.values()), None))

    @functools.cached_property
    def _counted(self) -> dict[int, dict[str | None, int]]:
        """For each line number of the compiler, the lines that have it, by the file named for them; empty without line markers."""
        parts: list[tuple[int, int, str | None]] = [(1, 1, None)]
        for site in self._sites:
            marker = _MARKER.match(self.index.text, site.start) if type(site.node) is Line else None
            if marker is not None:
                parts.append((self.index.line_column(site.start)[0] + 1, int(marker[1]), marker[2]))
        found: dict[int, dict[str | None, int]] = {}
        ends = [part[0] - 1 for part in parts[1:]] + [len(self.index.line_starts)]
        for (first, counted, source), end in zip(parts, ends, strict=True):
            for line in range(first, end + 1):
                found.setdefault(counted + line - first, {}).setdefault(source, line)
        return found if len(parts) > 1 else {}

    def _in_line(self, line: int) -> Location:
        """The innermost node around the first character of a line, and the range of the line's text."""
        text = self.index.line_text(line)
        start = self.index.line_starts[line - 1] + len(text) - len(text.lstrip())
        return Location(self._around(start), self.index.between(start, start + len(text.strip())))

    def _around(self, offset: int) -> Path:
        """The last statement that starts at or before an offset."""
        at = bisect.bisect_right(self._starts, offset) - 1
        return self._sites[at].path if at >= 0 else ()

    # --- messages without a statement ---------------------------------------------------------------------------------------------

    def _of_syntax(self, line: int, word: str) -> Location:
        """The word at which parsing stopped; if the line has it several times, the one closest to where our parser stopped."""
        first = self.index.line_starts[line - 1]
        ours = next((one for one in syntax_errors(self.module, self.index) if one.span.line <= line <= one.span.end_line), None)
        note = ours.message if ours is not None else ""
        found = [first + at for at in _words(self.index.line_text(line), word)]
        if not found:
            at = ours.span.start if ours is not None and ours.span.line == line else first
            return self._character(at, note)
        at = min(found, key=lambda at: abs(at - ours.span.start)) if ours is not None else found[0]
        return Location(self._deepest(at), self.index.between(at, at + len(word)), note)

    def _deepest(self, offset: int) -> Path:
        """The smallest node that contains an offset."""
        path = self._around(offset)
        if not path:
            return path
        node, at = self.module.at(path), self.index.offset(path)
        if isinstance(node, Statement):
            at -= len(node.leading)
        while node.children and not isinstance(node, Block | Function | Section):
            position, i = at, 0
            inside = None
            for piece in node.pieces():
                length = len(piece) if isinstance(piece, str) else len(piece.text)
                if not isinstance(piece, str):
                    if position <= offset < position + length:
                        inside = i, piece, position
                    i += 1
                position += length
            if inside is None:
                break
            path, node, at = (*path, inside[0]), inside[1], inside[2]
        return path

    def _of_character(self, line: int) -> Location:
        """The first character of a line that ptxas does not accept."""
        start = self.index.line_starts[line - 1]
        text = self.index.line_text(line)
        at = next((i for i, character in enumerate(text) if not "\0" < character < "\x7f"), 0)
        return self._character(start + at)

    def _character(self, at: int, note: str = "") -> Location:
        return Location(self._around(at), self.index.between(at, min(at + 1, len(self.index.text))), note)

    def _by_name(self, text: str) -> Location:
        """The declaration of a name in a message without a line; otherwise the directive that it mentions."""
        symbols = resolve(self.module).root.symbols
        for word in _QUOTED.findall(text):
            if word in symbols:
                return self._whole(symbols[word].path)
        for kind, directive in ((Target, ".target"), (Version, ".version")):
            if directive in text:
                for i, child in enumerate(self.module.children):
                    if isinstance(child, kind):
                        return self._whole((i,))
        return Location((), self.index.between(0, 0))

    def _whole(self, path: Path, note: str = "") -> Location:
        return Location(path, self.index.span(path), note)

    # --- statements ---------------------------------------------------------------------------------------------------------------

    @functools.cached_property
    def _sites(self) -> list[_Site]:
        """Every statement in document order; for functions and sections, their headers."""
        sites = []
        stack: list[tuple[Path, Node]] = [((), self.module)]
        while stack:
            path, node = stack.pop()
            if isinstance(node, Module | Block | Function | Section):
                stack += reversed([((*path, i), child) for i, child in enumerate(node.children)])
            elif isinstance(node, Statement | Error):
                start = self.index.offset(path)
                sites.append(_Site(start, start + len(node.text) - len(node.leading), path, node))
        return sites

    @functools.cached_property
    def _starts(self) -> list[int]:
        return [site.start for site in self._sites]

    def _site(self, text: str, line: int) -> _Site | None:
        """The statement on a line that best matches a message; for a repeated message, the next one that matches equally well."""
        queue = self._queues.get((line, text))
        if queue is None:
            queue = self._queues[line, text] = self._fitting(_QUOTED.findall(text), line)
        if not queue:
            return None
        return queue[0] if len(queue) == 1 else queue.popleft()

    def _fitting(self, words: list[str], line: int) -> deque[_Site]:
        """The statements on a line that contain the most of these words, those that start there first."""
        sites, index = self._on_line(line)
        counts = Counter([i for word in words for i in index.get(word) or index.get(_first_word(word)) or ()])
        most = max(counts.values(), default=0)
        fitting = [sites[i] for i in sorted(counts) if counts[i] == most] if counts else sites
        start = self.index.line_starts[line - 1]
        return deque(sorted(fitting, key=lambda site: site.start < start))

    def _on_line(self, line: int) -> tuple[list[_Site], dict[str, list[int]]]:
        """The statements on a line, and which of them contain each word."""
        found = self._lines.get(line)
        if found is None:
            starts = self.index.line_starts
            end = starts[line] if line < len(starts) else len(self.index.text)
            first, last = bisect.bisect_left(self._starts, starts[line - 1]), bisect.bisect_left(self._starts, end)
            before = first > 0 and self._sites[first - 1].end > starts[line - 1]
            sites = self._sites[first - before : last]
            index: dict[str, list[int]] = {}
            for i, site in enumerate(sites):
                for word in _words_of(site.node):
                    index.setdefault(word, []).append(i)
            found = self._lines[line] = sites, index
        return found

    def _in_statement(self, site: _Site, text: str, line: int) -> Location:
        """The node of a statement that a message is about."""
        argument = _ARGUMENT.search(text)
        if argument is not None and isinstance(site.node, Instruction):
            arguments, number = list(_arguments(site.node)), int(argument[1])
            if number < len(arguments):
                return self._whole((*site.path, *arguments[number]), self._own_words(site))
        for word in _QUOTED.findall(text):
            named = self._word(site, word, line, "address operand" in text)
            if named is not None:
                return named
        spoken_of = self._spoken_of(site, text)
        if spoken_of is not None:
            return spoken_of
        problem = self._problems.get(site.path)
        if problem is not None:
            return self._of_problem(problem)
        undeclared = self._undeclared.get(site.path)
        if undeclared is not None:
            return self._whole(undeclared)
        if isinstance(site.node, Instruction):
            return self._whole((*site.path, 0 if site.node.guard is None else 1))
        return Location(site.path, self.index.between(site.start, site.end))

    def _of_problem(self, problem: Problem) -> Location:
        """The location of a problem found by the instruction table; the modifier, if it concerns one."""
        node = self.module.at(problem.path)
        modifier = _MODIFIER_MEANT.match(problem.message)
        at = _modifier(node.text, modifier[1]) if modifier is not None and isinstance(node, Opcode) else None
        if modifier is None or at is None:
            return self._whole(problem.path, problem.message)
        start = self.index.offset(problem.path) + at
        return Location(problem.path, self.index.between(start, start + len(modifier[1])), problem.message)

    def _own_words(self, site: _Site) -> str:
        problem = self._problems.get(site.path)
        return problem.message if problem is not None else ""

    def _word(self, site: _Site, word: str, line: int, in_address: bool) -> Location | None:
        """A name, number, keyword or modifier of the statement, preferably on that line, and in an address if requested."""
        found = []
        for path, node in site.node.walk():
            if node.children or isinstance(node, Error):
                continue
            if isinstance(node, Opcode):
                at = _modifier(node.text, word)
                if at is not None:
                    start = self.index.offset((*site.path, *path)) + at
                    return Location((*site.path, *path), self.index.between(start, start + len(word)), self._own_words(site))
            elif node.text == word:
                found.append(self._whole((*site.path, *path)))
        if in_address:
            found = [location for location in found if isinstance(self.module.at(location.path[:-1]), Address)] or found
        return next((location for location in found if location.span.line == line), found[0] if found else None)

    def _spoken_of(self, site: _Site, text: str) -> Location | None:
        """What a message refers to without quoting a word of the statement."""
        node = site.node
        if not isinstance(node, Instruction):
            return None
        first = len(node.children) - len(node.operands)
        if _ABOUT_GUARD.search(text) and node.guard is not None:
            return self._whole((*site.path, 0, 0))
        if _ABOUT_ROUNDING.search(text):
            found = list(_ROUNDING.finditer(node.opcode.text))
            if found:
                start = self.index.offset((*site.path, first - 1))
                return Location((*site.path, first - 1), self.index.between(start + found[-1].start(), start + found[-1].end()))
        kinds = Address if _ABOUT_ADDRESS.search(text) else Vector if _ABOUT_VECTOR.search(text) else None
        if kinds is not None:
            for i, operand in enumerate(node.operands):
                if isinstance(operand, kinds):
                    return self._whole((*site.path, first + i))
        if _ABOUT_RESULT.search(text) and node.operands:
            return self._whole((*site.path, first))
        return None

    @functools.cached_property
    def _problems(self) -> dict[Path, Problem]:
        """The instruction table's problems with statements, by path."""
        problems = checking.problems(self.module, resolve(self.module), self.module.version, self.target)
        return self._by_statement([(problem.path, problem) for problem in problems])

    @functools.cached_property
    def _undeclared(self) -> dict[Path, Path]:
        """The first undeclared name in a statement."""
        return self._by_statement([(use.path, use.path) for use in resolve(self.module).unresolved])

    def _by_statement(self, found: list[tuple[Path, T]]) -> dict[Path, T]:
        """The first item in each statement."""
        statements = {site.path for site in self._sites}
        kept: dict[Path, T] = {}
        for path, thing in found:
            length = len(path)
            while length and path[:length] not in statements:
                length -= 1
            kept.setdefault(path[:length], thing)
        return kept


def _arguments(instruction: Instruction) -> Iterator[Path]:
    """The operands as ptxas counts them: each part of `[map, {x, y}]` is one."""
    for i, operand in enumerate(instruction.children):
        if i < len(instruction.children) - len(instruction.operands):
            continue
        parts = operand.parts if isinstance(operand, Address) else ()
        if len(parts) < 2:
            yield (i,)
            continue
        yield from [(i, j) for j, child in enumerate(operand.children) if any(child is part for part in parts)]


def _words_of(node: Node) -> set[str]:
    """The words of a statement that a message may quote: names and numbers, the opcode and its prefixes, the modifiers."""
    words = {leaf.text for _, leaf in node.walk() if not leaf.children}
    if isinstance(node, Instruction):
        parts = node.opcode.text.split(".")
        words.update([".".join(parts[: i + 1]) for i in range(len(parts))])
        words.update([modifier.partition("::")[0] for modifier in node.opcode.modifiers])
        words.update(node.opcode.modifiers)
    return words


def _first_word(text: str) -> str:
    """The instruction in `mma with floating point types` and `mul.lo.u16x2`."""
    return text.partition(".")[0].partition(" ")[0]


def _modifier(opcode: str, word: str) -> int | None:
    """The offset of a modifier in an opcode; `.shared` also matches in `.shared::cta`."""
    if not word.startswith("."):
        return None
    for match in re.finditer(re.escape(word), opcode):
        if not opcode[match.end() :].strip() or opcode[match.end()] in ".: \t\r\n":
            return match.start()
    return None


def _words(line: str, word: str) -> Iterator[int]:
    """The offsets of a word in a line, as a whole word."""
    if not word:
        return
    edges = r"(?<![\w$%.])" if word[0].isalnum() or word[0] in "_$%" else "", r"(?![\w$])" if word[-1].isalnum() or word[-1] in "_$" else ""
    for match in re.finditer(edges[0] + re.escape(word) + edges[1], line):
        yield match.start()
