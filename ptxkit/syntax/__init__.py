"""Source to tree and back. Knows no instruction.

This is the door: what stands here is what the rest of ptxkit may use. Inside, each module imports only modules before it in this list:
`literals`, `lexical`, `tree`; the kinds of nodes `leaves`, `operands`, `constants`, `declarations`, `statements`; `positions`, `errors`,
`module`; `nodes`, which gathers them; and what makes them of text: `grammar`, `lowering`, `plans`, `shapes`, `initializers`, `recovery`,
`parsing`.
"""

from ptxkit.syntax import lexical, nodes
from ptxkit.syntax.constants import constant_value
from ptxkit.syntax.literals import number_value
from ptxkit.syntax.module import syntax_errors
from ptxkit.syntax.nodes import *  # noqa: F403
from ptxkit.syntax.parsing import parse, parse_operand, parse_statement
from ptxkit.syntax.positions import Index

__all__ = [
    "Index",
    "constant_value",
    "lexical",
    "nodes",
    "number_value",
    "parse",
    "parse_operand",
    "parse_statement",
    "syntax_errors",
]
__all__ += nodes.__all__
