"""From the language of Graphviz to pictures, by whatever program for it there is.

`dot` of Graphviz draws everything. The wheel `graphviz-pure` carries a program of its own, without PDF.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from ptxkit.analyses.drawing.coloring import CannotDraw
from ptxkit.analyses.drawing.dot import FONT

SECONDS = 13.0
"""How long a layout may take before a plainer one is tried."""
ADVICE = "install Graphviz (its program `dot`), or `pip install ptxkit[pictures]`"


def program(format_: str = "svg") -> str:
    """The program that draws this format. Raises CannotDraw where there is none."""
    found = shutil.which("dot")
    if found is not None:
        return found
    pure = shutil.which("graphviz-pure") or shutil.which("graphviz-pure", path=sysconfig.get_path("scripts"))
    if pure is None:
        raise CannotDraw(f"there is no program to draw with: {ADVICE}")
    if format_ == "pdf":
        raise CannotDraw("graphviz-pure draws no PDF, only SVG and PNG: for PDF install Graphviz (its program `dot`)")
    return pure


def render(source: str, plainer: str, format_: str) -> bytes:
    """The picture of a graph; of `plainer`, which has the same boxes, if the first takes too long. Raises CannotDraw."""
    using = program(format_)
    reason = ""
    for text in (source, plainer):
        try:
            return _run(using, text, format_)
        except subprocess.TimeoutExpired:
            reason = f"no layout found in {2 * SECONDS:.0f} seconds"
        except (subprocess.CalledProcessError, OSError) as error:
            words = error.stderr.decode("utf-8", "replace").strip() if isinstance(error, subprocess.CalledProcessError) else str(error)
            reason = f"`{Path(using).name}` failed: {words[:200] or 'no reason given'}"
    raise CannotDraw(reason)


def _run(using: str, text: str, format_: str) -> bytes:
    if "graphviz-pure" in Path(using).name:
        text = text.replace(FONT, "Courier New")  # the only letters of equal width that it knows the widths of
    arguments = [using, f"-T{format_}", *(["-Gdpi=144"] if format_ == "png" else [])]
    done = subprocess.run(arguments, input=text.encode(), capture_output=True, timeout=SECONDS, check=True)
    if not done.stdout:
        raise subprocess.CalledProcessError(0, arguments, done.stdout, done.stderr)
    return polish(done.stdout.decode()).encode() if format_ == "svg" else done.stdout


_RUN = re.compile(r'<text ((?:xml:space="preserve" )?)text-anchor="start" x="(-?[\d.]+)" y="(-?[\d.]+)" ([^>]*)>([^<]*)</text>')
_ENTITY = re.compile(r"&[^;]+;")


def polish(svg: str) -> str:
    """An SVG that looks the same with other fonts: each run of text as wide as it was laid out, blanks kept, no outer declarations."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'font-family="[^"]*"', f'font-family="{FONT}"', svg)
    width = _letter_width(svg)

    def fixed(found: re.Match[str]) -> str:
        letters = len(_ENTITY.sub("x", found[5]))
        length = f' textLength="{letters * width:.2f}"' if width and letters > 1 else ""
        return f'<text xml:space="preserve" x="{found[2]}" y="{found[3]}"{length} {found[4]}>{found[5]}</text>'

    return _RUN.sub(fixed, svg)


def _letter_width(svg: str) -> float:
    """How wide a letter of the usual size was laid out: by what follows long runs on the same line; 0 if nothing tells."""
    widths = sorted(_advances(svg))
    return widths[len(widths) // 2] if widths else 0.0


def _advances(svg: str) -> Iterator[float]:
    before: re.Match[str] | None = None
    for count, run in enumerate(_RUN.finditer(svg)):
        if before is not None and before[3] == run[3]:
            letters = len(_ENTITY.sub("x", before[5]))
            if letters >= 3 and before[5].isascii() and float(run[2]) > float(before[2]):
                yield (float(run[2]) - float(before[2])) / letters
        before = run
        if count > 2000:
            return
