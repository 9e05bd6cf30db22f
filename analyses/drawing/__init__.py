"""Pictures of control flow graphs.

`draw(module)` gives a `Drawing`: Graphviz text, SVG, a page with search and live ranges, and what Jupyter shows.
"""

from __future__ import annotations

from ptxkit.analyses.drawing.coloring import COLORINGS, CannotDraw
from ptxkit.analyses.drawing.drawing import Drawing, draw

__all__ = ["COLORINGS", "CannotDraw", "Drawing", "draw"]
