"""Renders Graphviz source with any available program.

`dot` of Graphviz renders every format. The wheel `graphviz-pure` brings its own program, without PDF.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from ptxkit.analyses.drawing.coloring import CannotDraw
from ptxkit.analyses.drawing.dot import FONT
from ptxkit.memo import expression

SECONDS = 15.0
"""Time limit of a layout in seconds, before a simpler one is tried."""
PATIENCE = 120.0
"""Time limit of the simpler one in seconds: a late picture is better than none."""
ADVICE = "install Graphviz (its program `dot`), or `pip install graphviz-pure`"

layout: Callable[[str], str] | None = None
"""Renders SVG in place of a program, since a browser has none. The code that sets it handles its exceptions."""


def program(format_: str = "svg") -> str:
    """The program that renders this format. Raises CannotDraw if there is none."""
    found = shutil.which("dot")
    if found is not None:
        return found
    pure = shutil.which("graphviz-pure") or shutil.which("graphviz-pure", path=sysconfig.get_path("scripts"))
    if pure is None:
        raise CannotDraw(f"there is no program to draw with: {ADVICE}")
    if format_ == "pdf":
        raise CannotDraw("graphviz-pure draws no PDF, only SVG and PNG: for PDF install Graphviz (its program `dot`)")
    return pure


def rendered(source: str, format_: str) -> bytes:
    """The picture of a graph without a simpler form. Raises CannotDraw."""
    return render(source, source, format_)


def render(source: str, plainer: str, format_: str) -> bytes:
    """The picture of a graph; or of `plainer`, which has the same boxes, if the first takes too long. Raises CannotDraw."""
    if layout is not None and format_ == "svg":
        return polish(layout(source)).encode()
    using = program(format_)
    reason = ""
    for text, seconds in ((source, SECONDS), (plainer, PATIENCE)):
        try:
            return _run(using, text, format_, seconds)
        except subprocess.TimeoutExpired:
            reason = f"no layout found in {SECONDS + PATIENCE:.0f} seconds"
        except (subprocess.CalledProcessError, OSError) as error:
            words = error.stderr.decode("utf-8", "replace").strip() if isinstance(error, subprocess.CalledProcessError) else str(error)
            reason = f"`{Path(using).name}` failed: {words[:200] or 'no reason given'}"
    raise CannotDraw(reason)


def _run(using: str, text: str, format_: str, seconds: float) -> bytes:
    back: dict[int, str] = {}
    if "graphviz-pure" in Path(using).name:
        text = text.replace(FONT, "Courier New")  # the only monospaced font whose metrics it knows
        if format_ == "svg":
            text, back = _of_one_byte(text)
    arguments = [using, f"-T{format_}", *(["-Gdpi=144"] if format_ == "png" else [])]
    done = subprocess.run(arguments, input=text.encode(), capture_output=True, timeout=seconds, check=True)
    if not done.stdout:
        raise subprocess.CalledProcessError(0, arguments, done.stdout, done.stderr)
    if format_ != "svg":
        return done.stdout
    drawn = _TEXT.sub(lambda run: run[1] + run[2].translate(back) + run[3], done.stdout.decode())
    return polish(drawn).encode()


_TEXT = expression("(<text [^>]*>)([^<]*)(</text>)")


def _of_one_byte(text: str) -> tuple[str, dict[int, str]]:
    """The text with other characters mapped to unused ASCII ones, and the inverse mapping: graphviz-pure treats each byte as a
    character."""
    others = sorted({letter for letter in text if letter > "~"})
    unused = [letter for letter in "!?^`|~*+()@$" if letter not in text]
    pairs = list(zip(others, unused, strict=False))
    return text.translate({ord(letter): other for letter, other in pairs}), {ord(other): letter for letter, other in pairs}


_RUN = expression(r'<text ((?:xml:space="preserve" )?)text-anchor="start" x="(-?[\d.]+)" y="(-?[\d.]+)" ([^>]*)>([^<]*)</text>')
_ENTITY = expression(r"&[^;]+;")


def polish(svg: str) -> str:
    """Makes an SVG independent of fonts: each run of text keeps its laid-out width and its blanks; outer declarations are removed."""
    svg = re.sub(r'font-family="[^"]*"', f'font-family="{FONT}"', svg[svg.index("<svg") :])
    runs = list(_RUN.finditer(svg))
    letters = [len(_ENTITY.sub("x", run[5])) for run in runs]
    gaps = [float(after[2]) - float(run[2]) if after[3] == run[3] else 0.0 for run, after in pairwise(runs)] + [0.0]
    gaps = gaps[: len(runs)]
    usual = _letter_width(gaps, letters)
    pieces = []
    at = 0
    for run, count, gap in zip(runs, letters, gaps, strict=True):
        # up to the next run, if it follows directly and not in another column
        length = gap if 0.8 * count * usual < gap < (1.15 * count + 0.5) * usual else count * usual
        fixed = f' textLength="{length:.1f}"' if count > 1 and usual else ""
        pieces += [svg[at : run.start()], f'<text xml:space="preserve" x="{run[2]}" y="{run[3]}"{fixed} {run[4]}>{run[5]}</text>']
        at = run.end()
    return "".join([*pieces, svg[at:]])


def _letter_width(gaps: list[float], letters: list[int]) -> float:
    """The laid-out width of a character: the median over the longer runs that are followed by others; 0 if there are none."""
    runs = [(count, gap / count) for gap, count in zip(gaps, letters, strict=True) if gap > 0 and count >= 3]
    longer = sorted([width for count, width in runs if count >= 8] or [width for _, width in runs])
    return longer[len(longer) // 2] if longer else 0.0
