"""The pretty-printer: the canonical layout of `ptxkit fmt`.

One statement per line, indented scopes, aligned operands, wrapped lists, and modifiers in the order of the instruction table. Apart from
the modifiers, tokens and comments are kept in their order.
"""

from __future__ import annotations

from ptxkit.frozen import frozen
from ptxkit.memo import expression
from ptxkit.spacing import COMMENT, Spacer, has_comment
from ptxkit.syntax import (
    Block,
    Braces,
    Declaration,
    Declarator,
    Error,
    Function,
    Guard,
    Header,
    Instruction,
    Label,
    Line,
    Linkage,
    Module,
    Node,
    Numbers,
    Parameters,
    Prototype,
    Section,
    Statement,
    Targets,
)
from ptxkit.wrapping import MAY_BREAK, STAYS, filled, one_line, wrapped

WIDTH = 120
"""Longer lines are wrapped at commas."""

INDENT = 4
COLUMN = 20
"""The column of operands, relative to the start of the statement."""


class CannotFormat(ValueError):
    """A module with text in it that is not PTX."""


def format_module(module: Module, width: int = WIDTH) -> str:
    """The text of a module in canonical layout; all line ends are like the first one.

    The layout is idempotent. Raises CannotFormat for text that cannot be parsed as PTX; misplaced statements are accepted.
    """
    lines = _Printer(width).module(module)
    text = "\n".join([*lines, ""])
    return (text.replace("\n", "\r\n") if _has_carriage_returns(module) else text).replace(STAYS, "\n")


_LINE_END = expression(r"[ \t\r\f\v]+(?=\n)")


def _has_carriage_returns(module: Module) -> bool:
    for piece in module.pieces():
        text = piece if isinstance(piece, str) else piece.text
        at = text.find("\n")
        if at >= 0:
            return bool(text[at - 1 : at] == "\r")
    return False


@frozen
class _Comment:
    """A comment on its own lines."""

    text: str
    prefix: str
    """The white space before it."""
    after_blank: bool
    """Whether an empty line precedes it."""


@frozen
class _Between:
    """Comments and white space between two statements."""

    trailing: str
    """The comments on the line of the first."""
    own: tuple[_Comment, ...]
    blank: bool
    """Whether an empty line precedes the second."""


class _Printer:
    """The formatting of one module."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.lines: list[str] = []
        self.spacer = Spacer()
        self.opened = 0
        """The number of lines when the innermost block was opened: no empty line follows it."""
        self.wants_blank = False
        """Whether an empty line must precede the next line."""
        self._between: dict[str, _Between] = {}
        self._line_ends: set[str] = set()
        """Text between statements that ends the line: almost all of it."""
        self._has_comment: dict[int, bool] = {}
        self._heads: dict[tuple[int, int], str] = {}

    def module(self, module: Module) -> list[str]:
        self._statements(module.children, 0)
        self.wants_blank = False
        self._space(module.trailing, "", last=True)
        return self.lines

    # --- what holds statements ------------------------------------------------------------------------------------------------------

    def _statements(self, statements: tuple[Node, ...], indent: int) -> None:
        """The statements of a module or block, with inner blocks (the parser bounds the nesting)."""
        margin = " " * indent
        lines, line_ends = self.lines, self._line_ends
        named = False
        for statement in statements:
            kind = type(statement)
            if kind is Instruction:
                leading = statement.leading  # type: ignore[attr-defined]
                if self.wants_blank or leading not in line_ends:
                    self._space(leading, margin)
                lines.append(self._instruction(statement, margin))  # type: ignore[arg-type]
                named = False
                continue
            if isinstance(statement, Error):
                raise CannotFormat(f"not PTX: {statement.message}")
            if named and isinstance(statement, Prototype | Targets) and not statement.leading.strip():
                # the braces are on the line of their name
                lines += self._statement(statement, f"{margin}{lines.pop().strip()} ", indent)
            elif isinstance(statement, Function | Section):
                self._headed(statement, margin)
            elif isinstance(statement, Block):
                self._space(statement.leading, margin)
                self._block(statement, margin)
            else:
                assert isinstance(statement, Statement)
                self._space(statement.leading, margin)
                lines += self._statement(statement, margin, indent)
            named = kind is Label

    def _headed(self, node: Function | Section, margin: str) -> None:
        header, body = node.children[0], node.body
        assert isinstance(header, Statement)
        self.wants_blank = self.wants_blank or (body is not None and bool(self.lines))
        self._space(header.leading, margin)
        self.lines += self._statement(header, margin, len(margin))
        if body is not None:
            self._space(body.leading, margin, last=True)
            self._block(body, margin)
            self.wants_blank = True

    def _block(self, block: Block, margin: str) -> None:
        if not block.close:
            raise CannotFormat("not PTX: a `{` that is never closed")
        self.lines.append(margin + "{")
        self.opened = len(self.lines)
        self._statements(block.children, len(margin) + INDENT)
        self.wants_blank = False
        self._space(block.close[:-1], margin + " " * INDENT, last=True)
        self.lines.append(margin + "}")

    # --- what stands between them ---------------------------------------------------------------------------------------------------

    def _space(self, leading: str, margin: str, last: bool = False) -> None:
        """Comments and empty lines; there is no empty line before what is `last`."""
        found = self._between.get(leading)
        if found is None:
            found = self._between[leading] = _between(leading)
            if not (found.trailing or found.own or found.blank):
                self._line_ends.add(leading)
        lines = self.lines
        own = found.own
        if found.trailing and lines:
            lines[-1] += "  " + found.trailing
        elif found.trailing:
            own = (_Comment(found.trailing, "", False), *own)
        for comment in own:
            if (comment.after_blank or self.wants_blank) and len(lines) > self.opened:
                lines.append("")
            self.wants_blank = False
            lines.append(margin + comment.text.replace("\n" + comment.prefix, "\n" + margin))
        if (found.blank or self.wants_blank) and len(lines) > self.opened and not last:
            lines.append("")
        self.wants_blank = False

    # --- statements -----------------------------------------------------------------------------------------------------------------

    def _instruction(self, statement: Instruction, margin: str) -> str:
        spacer, base = self.spacer, len(margin) + COLUMN
        shape = statement.shape
        commented = self._has_comment.get(id(shape))
        if commented is None:
            commented = self._has_comment[id(shape)] = has_comment(shape)
        children = statement.children
        count = 2 if type(children[0]) is Guard else 1
        if commented or "/" in children[count - 1].text:
            return "\n".join(wrapped(spacer.marked(statement), margin, base, self.width))
        key = (id(children[0]), id(children[count - 1]))
        head = self._heads.get(key)
        if head is None:
            head = self._heads[key] = " ".join(map(spacer.flat, children[:count])).ljust(COLUMN - 1)
        if len(children) == count:
            return f"{margin}{head.rstrip()};"
        text_of = spacer.texts.get
        operands = ", ".join([text_of(id(child)) or spacer.flat(child) for child in children[count:]])
        line = f"{margin}{head} {operands};"
        if len(line) <= self.width and "\n" not in line:
            return line
        marked = f",{MAY_BREAK}".join([spacer.marked(child) for child in children[count:]])
        return "\n".join(wrapped(marked + ";", f"{margin}{head} ", base, self.width))

    def _statement(self, statement: Statement, first: str, indent: int) -> list[str]:
        """The lines of a statement that is not an instruction, following the text already on the first one."""
        if isinstance(statement, Line):
            return [statement.body_text.rstrip()]
        if isinstance(statement, Label):
            first, indent = " " * max(0, indent - INDENT), max(0, indent - INDENT)
        if isinstance(statement, Declaration) and not has_comment(statement.shape):
            return self._declaration(statement, first, indent)
        marked = self.spacer.marked(statement)
        if isinstance(statement, Header):
            is_long = len(first) + len(marked.partition("\n")[0]) > self.width
            if is_long or any("\n" in self.spacer.flat(child) for child in statement.all(Parameters)):
                marked = self.spacer.marked(statement, broken=True)
            return wrapped(marked, first, indent, self.width, INDENT)
        return self._fitted(marked, first, indent + INDENT)

    def _declaration(self, statement: Declaration, first: str, indent: int) -> list[str]:
        spacer = self.spacer
        heads = [spacer.flat(child) for child in statement.children if not isinstance(child, Declarator)]
        head = first + " ".join(heads) + " "
        marked = f",{MAY_BREAK}".join([spacer.marked(child) for child in statement.declarators]) + ";"
        base = indent + COLUMN
        padded = head.ljust(base) if indent else head
        # after a linkage that follows the type, a name on the next line would start a statement
        stays = isinstance([child for child in statement.children if not isinstance(child, Declarator)][-1], Linkage)
        if "\n" not in marked and (stays or len(padded) + len(marked) <= self.width):
            return [padded + one_line(marked)]
        initializer = statement.declarators[-1].initializer
        if not isinstance(initializer, Braces):
            return wrapped(marked, padded, base, self.width)
        values = spacer.marked(initializer)
        before = marked[: -len(values) - 1]
        is_table = len(initializer.children) == 1 and type(initializer.children[0]) is Numbers
        if is_table and not has_comment(initializer.shape):
            table = filled(one_line(values[1:-1]), " " * (indent + INDENT), self.width)
            return [*wrapped(before + "{", head, indent, self.width), *table, " " * indent + "};"]
        opening = "{" if values[1:].lstrip().startswith("//") else "{\n"
        return wrapped(f"{before}{opening}{values[1:-1]}\n}};", head, indent, self.width, INDENT)

    def _fitted(self, marked: str, first: str, base: int) -> list[str]:
        if "\n" not in marked and len(first) + len(marked) <= self.width:
            return [first + one_line(marked)]
        return wrapped(marked, first, base, self.width)


def _between(leading: str) -> _Between:
    """Analyzes the white space and comments between two statements."""
    if "/" not in leading:
        return _Between("", (), leading.count("\n") > 1)
    trailing: list[str] = []
    own: list[_Comment] = []
    at = 0
    on_line = True
    for match in COMMENT.finditer(leading):
        space = leading[at : match.start()]
        on_line = on_line and "\n" not in space
        text = _LINE_END.sub("", match[0].rstrip())
        if on_line:
            trailing.append(text)
        else:
            own.append(_Comment(text, space.rpartition("\n")[2], space.count("\n") > 1))
        at = match.end()
    return _Between("  ".join(trailing), tuple(own), leading.count("\n", at) > 1)
