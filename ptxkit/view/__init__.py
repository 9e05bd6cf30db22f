"""A page that shows a PTX file beside its source program and its machine code, with findings and graphs.

`linking` relates the lines, `sass` gets the machine code from the toolkit, `page` writes HTML. The package is independent of rules and
analyses: findings and graphs are passed in.
"""

from ptxkit.view.page import Graphs, page
from ptxkit.view.sass import NoCode, Sass, disassembled

__all__ = ["Graphs", "NoCode", "Sass", "disassembled", "page"]
