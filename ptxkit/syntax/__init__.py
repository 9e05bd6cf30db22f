"""Source text to tree and back. Independent of the instruction set.

This is the public interface of the package for the rest of ptxkit. Names load when used, so that code that does not parse needs no parser.
Within the package, each module imports only modules before it in this list: `literals`, `lexical`, `tree`; the kinds of nodes: `leaves`,
`operands`, `constants`, `declarations`, `statements`; `positions`, `errors`, `module`; `nodes`, which collects them; and the modules that
build them from text: `grammar`, `lowering`, `plans`, `shapes`, `initializers`, `instructions`, `code`, `recovery`, `parsing`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ptxkit.syntax.code import Code as Code
    from ptxkit.syntax.code import code_of as code_of
    from ptxkit.syntax.code import words as words
    from ptxkit.syntax.constants import constant_value as constant_value
    from ptxkit.syntax.instructions import without_numbers as without_numbers
    from ptxkit.syntax.literals import number_value as number_value
    from ptxkit.syntax.module import syntax_errors as syntax_errors
    from ptxkit.syntax.nodes import *  # noqa: F403
    from ptxkit.syntax.parsing import parse as parse
    from ptxkit.syntax.parsing import parse_operand as parse_operand
    from ptxkit.syntax.parsing import parse_statement as parse_statement
    from ptxkit.syntax.positions import Index as Index
    from ptxkit.syntax.positions import index_of as index_of
    from ptxkit.syntax.positions import line_starts as line_starts

_HOME = {
    "Code": "code",
    "Index": "positions",
    "code_of": "code",
    "constant_value": "constants",
    "index_of": "positions",
    "line_starts": "positions",
    "number_value": "literals",
    "parse": "parsing",
    "parse_operand": "parsing",
    "parse_statement": "parsing",
    "shape": "tree",
    "syntax_errors": "module",
    "without_numbers": "instructions",
    "words": "code",
}


def __getattr__(name: str) -> Any:
    # kinds of nodes are capitalized; everything else is a module
    home = _HOME.get(name, "nodes" if name[:1].isupper() else None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    return found
