"""Source to tree and back. Knows no instruction.

This is the door: what stands here is what the rest of ptxkit may use. Names load when used; who does not parse needs no parser. Inside,
each module imports only modules before it in this list: `literals`, `lexical`, `tree`; the kinds of nodes: `leaves`, `operands`,
`constants`, `declarations`, `statements`; `positions`, `errors`, `module`; `nodes`, which gathers them; and what makes them of text:
`grammar`, `lowering`, `plans`, `shapes`, `initializers`, `recovery`, `parsing`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ptxkit.syntax.constants import constant_value as constant_value
    from ptxkit.syntax.literals import number_value as number_value
    from ptxkit.syntax.module import syntax_errors as syntax_errors
    from ptxkit.syntax.nodes import *  # noqa: F403
    from ptxkit.syntax.parsing import parse as parse
    from ptxkit.syntax.parsing import parse_operand as parse_operand
    from ptxkit.syntax.parsing import parse_statement as parse_statement
    from ptxkit.syntax.positions import Index as Index
    from ptxkit.syntax.positions import index_of as index_of

_HOME = {
    "Index": "positions",
    "constant_value": "constants",
    "index_of": "positions",
    "number_value": "literals",
    "parse": "parsing",
    "parse_operand": "parsing",
    "parse_statement": "parsing",
    "shape": "tree",
    "syntax_errors": "module",
}


def __getattr__(name: str) -> Any:
    # kinds of nodes have capitals; all else is a module
    home = _HOME.get(name, "nodes" if name[:1].isupper() else None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    return found
