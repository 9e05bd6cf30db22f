"""The result of `draw`."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import attrs

from ptxkit import files
from ptxkit.analyses.drawing import page
from ptxkit.analyses.drawing.coloring import CannotDraw
from ptxkit.analyses.drawing.dot import source
from ptxkit.analyses.drawing.render import render
from ptxkit.analyses.drawing.scene import Scene, scene
from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.syntax import Function, Module

MOST_BOXES = 6000
"""Maximum number of boxes in one picture."""
FORMATS = ("svg", "png", "pdf", "dot", "html")


@attrs.frozen(eq=False)
class Drawing:
    """A picture of one or several functions. It is rendered on demand; Jupyter shows it as an interactive page."""

    scenes: tuple[Scene, ...]

    @property
    def dot(self) -> str:
        """The Graphviz source, with a legend."""
        return source(self.scenes)

    @cached_property
    def _svg(self) -> str:
        return self.render("svg").decode()

    def __repr__(self) -> str:
        return f"<Drawing of {', '.join([scene.routine.name for scene in self.scenes[:3]])}{', …' * (len(self.scenes) > 3)}>"

    def svg(self) -> str:
        """The picture as an `<svg>` element, all functions in one. Raises CannotDraw without a program to render it, or if that takes
        too long."""
        return self._svg

    def html(self) -> str:
        """A self-contained page, one function at a time. Raises CannotDraw."""
        return page.page(self.scenes)

    def render(self, format_: str) -> bytes:
        """The picture as `svg`, `png` or `pdf`. Raises CannotDraw."""
        return render(self.dot, source(self.scenes, plain=True), format_)

    def save(self, path: str | Path) -> None:
        """Writes the picture in the format given by the extension, completely or not at all.

        Raises ValueError for an extension other than .svg .png .pdf .dot .html, CannotDraw, OSError.
        """
        format_ = Path(path).suffix[1:].lower()
        if format_ not in FORMATS:
            raise ValueError(f"{str(path)!r} does not end in one of .{', .'.join(FORMATS)}")
        text = self.dot if format_ == "dot" else self.html() if format_ == "html" else None
        files.write(str(path), files.decode(self.render(format_)) if text is None else text)

    def _repr_html_(self) -> str:
        try:
            content = html.escape(self.html())
        except CannotDraw as error:
            return f"<p>No picture: {html.escape(str(error))}.</p><pre>{html.escape(self.dot[:2000])}</pre>"
        return f'<iframe srcdoc="{content}" style="width:100%;height:640px;border:1px solid #98a4b3;border-radius:4px"></iframe>'

    def _repr_svg_(self) -> str | None:
        try:
            return self.svg()
        except CannotDraw:
            return None


def draw(
    subject: Module | Function | Routine,
    functions: Iterable[str] = (),
    *,
    color: str = "none",
    level: str = "blocks",
    heat: Mapping[str, Sequence[int]] | None = None,
) -> Drawing:
    """A picture of a module's functions with a body (only those named, if any are), or of one function.

    `color` is none, liveness, pressure, loops or divergence, `level` blocks or instructions. With `heat`, colors show instead how many
    threads executed each instruction: by function name, a count for each of its instructions. A Function alone is drawn without its
    module's declarations; pass a Routine, or its name. Raises KeyError for an unknown function name, ValueError for another color or level,
    CannotDraw if there is nothing to draw, or too much.
    """
    found = _routines(subject)
    wanted = tuple(dict.fromkeys(functions))
    if wanted:
        by_name = {routine.name: routine for routine in reversed(found)}
        found = tuple([by_name[name] for name in wanted])
    if not found:
        raise CannotDraw("there is no function with a body")
    counts = [None if heat is None else heat.get(routine.name, [0] * len(routine.instructions)) for routine in found]
    scenes = tuple([scene(routine, color, level, counts=those) for routine, those in zip(found, counts, strict=True)])
    boxes = sum([len(one.boxes) for one in scenes])
    if boxes > MOST_BOXES:
        raise CannotDraw(f"{boxes:,} {level} are too many for one picture (at most {MOST_BOXES:,})" + _instead(scenes, level))
    if not boxes:
        raise CannotDraw("there is no function with instructions")
    return Drawing(tuple(_on_one_scale([one for one in scenes if one.boxes])))


def _on_one_scale(scenes: list[Scene]) -> list[Scene]:
    peak = max([one.coloring.peak for one in scenes if one.coloring], default=0)
    return [attrs.evolve(one, coloring=attrs.evolve(one.coloring, peak=peak)) if one.coloring else one for one in scenes]


def _routines(subject: Module | Function | Routine) -> tuple[Routine, ...]:
    if isinstance(subject, Routine):
        return (subject,)
    return routines(subject if isinstance(subject, Module) else Module((subject,)))


def _instead(scenes: tuple[Scene, ...], level: str) -> str:
    if len(scenes) > 1:
        return f"; choose from {', '.join([one.name for one in scenes[:20]])}{', …' if len(scenes) > 20 else ''}"
    return "; draw blocks" if level == "instructions" else ""
