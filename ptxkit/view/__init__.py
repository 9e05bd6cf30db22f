"""A page that shows a PTX file beside the program that it was compiled from, and beside the machine code, with findings and graphs.

`linking` says which line made which, `sass` asks the toolkit for the machine code, `page` writes HTML. Nothing here knows a rule or an
analysis: findings and graphs are handed in.
"""

from ptxkit.view.page import Graphs, page
from ptxkit.view.sass import NoCode, Sass, disassembled

__all__ = ["Graphs", "NoCode", "Sass", "disassembled", "page"]
