"""A self-contained page: the pictures, the underlying data, and the script for clicks and searches.

It loads nothing from elsewhere.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any

from ptxkit.analyses.drawing.dot import escape, source
from ptxkit.analyses.drawing.palette import DARK, LIGHT
from ptxkit.analyses.drawing.render import render
from ptxkit.analyses.drawing.scene import Scene
from ptxkit.analyses.drawing.tokens import Class
from ptxkit.analyses.registers.liveness import live_ranges
from ptxkit.analyses.registers.pressure import pressure
from ptxkit.analyses.registers.registers import registers
from ptxkit.memo import expression
from ptxkit.report.embedding import resource, script_json
from ptxkit.syntax import Index

_COLOR = expression("|".join(LIGHT.values()))
_VARIABLE = {color: f"var(--{name})" for name, color in LIGHT.items()}
_ANCHOR = expression(r'<g id="a_(f\d+i\d+_\d+)"><a [^>]*>(.*?)</a>\s*</g>', re.DOTALL)
_STRIPPED = expression(r' (?:font-family|font-size|xml:space)="[^"]*"')


def page(scenes: Sequence[Scene]) -> str:
    """The page. Raises CannotDraw."""
    index = Index(scenes[0].routine.module)
    pictures = [_picture(one, number) for number, one in enumerate(scenes)]
    data = [_data(one, index) for one in scenes]
    name = (scenes[0].routine.module.path or "").replace("\\", "/").rpartition("/")[2]
    title = scenes[0].name if len(scenes) == 1 else f"{len(scenes)} functions"
    heading = f"{name}: {title}" if name and name != "-" else title
    parts = {
        "title": html.escape(escape_text(heading)),
        "colors": _colors(),
        "style": resource(__package__, "page.css"),
        "options": "".join([f'<option value="{i}">{html.escape(escape_text(one.name))}</option>' for i, one in enumerate(scenes)]),
        "legend": _legend(scenes),
        "pictures": "\n".join(pictures),
        "data": script_json(data),
        "script": resource(__package__, "page.js"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], resource(__package__, "page.html"))


def escape_text(text: str) -> str:
    """The text without characters that a page cannot contain, such as lone surrogates."""
    return html.unescape(escape(text))


def _colors() -> str:
    light, dark = ["".join([f"--{name}:{color};" for name, color in theme.items()]) for theme in (LIGHT, DARK)]
    return (
        f":root{{color-scheme:light;{light}}}\n"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}\n"
        f":root[data-theme=dark]{{color-scheme:dark;{dark}}}"
    )


def _picture(one: Scene, number: int) -> str:
    """The SVG with variables for colors, rows as groups that the script can find, and styles factored out."""
    svg = render(source([one], number=number), source([one], plain=True, number=number), "svg").decode()
    svg = _ANCHOR.sub(r'<g id="\1" class="row">\2</g>', svg)
    svg = _STRIPPED.sub("", svg)
    svg = re.sub(r"<title>.*?</title>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = _COLOR.sub(lambda found: _VARIABLE[found[0]], svg)
    head, rest = svg.split(">", 1)
    box = re.search(r'viewBox="([^"]*)"', head)
    view = box[1] if box else "0 0 100 100"
    rest = re.sub(r"\n+", "\n", rest.strip())
    return f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" viewBox="{view}" hidden>{rest}'


def _data(one: Scene, index: Index) -> dict[str, Any]:
    routine = one.routine
    named, ranges = registers(routine), live_ranges(routine)
    variable_of = {number: i for i, variable in enumerate(one.variables) for number in variable.numbers}
    definitions, uses = [_sites(which, variable_of, len(one.variables)) for which in (named.writes, named.reads)]
    kinds = list(Class)
    number_of = {kind: i for i, kind in enumerate(kinds)}
    instructions = [
        [(number_of[token.kind], token.text, token.variable)[: 2 + (token.variable >= 0)] for token in one.tokenizer(i, True)]
        for i in range(len(routine.instructions))
    ]
    return {
        "name": one.name,
        "about": f"{one.kind}, {one.summary}, at most {pressure(routine).peak} registers of 32 bits at once",
        "level": one.level,
        "boxes": [[box.title, box.start, box.end, ", ".join(box.labels), " · ".join(box.badges)] for box in one.boxes],
        "arrows": [[arrow.source, arrow.target, arrow.label, int(arrow.is_back)] for arrow in one.arrows],
        "kinds": kinds,
        "instructions": instructions,
        "lines": [index.line_column(index.offset(routine.where(i)))[0] for i in range(len(routine.instructions))],
        "sources": list(one.sources) if any(one.sources) else [],
        "notes": {i: note for i, (_, note) in enumerate(one.notes) if note},
        "pressure": list(pressure(routine).units),
        "registers": [
            [variable.name, variable.type, _merged([span for n in variable.numbers for span in ranges[n]]), definitions[i], uses[i]]
            for i, variable in enumerate(one.variables)
        ],
    }


def _sites(by_instruction: tuple[tuple[int, ...], ...], variable_of: dict[int, int], count: int) -> list[list[int]]:
    """By variable, the instructions that use one of its registers."""
    found: list[list[int]] = [[] for _ in range(count)]
    for i, numbers in enumerate(by_instruction):
        for variable in {variable_of[number] for number in numbers}:
            found[variable].append(i)
    return found


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _legend(scenes: Sequence[Scene]) -> str:
    items = [
        '<span class="line" style="--c:var(--fall)"></span>falls through',
        '<span class="line" style="--c:var(--taken)"></span>T: guard holds',
        '<span class="line dashed" style="--c:var(--not-taken)"></span>F: guard does not hold',
        '<span class="line" style="--c:var(--indexed)"></span>by index',
        '<span class="line thick" style="--c:var(--back)"></span>back to the head of a loop',
        '<span class="swatch" style="--c:var(--barrier)"></span>barrier',
        '<span class="swatch" style="--c:var(--together)"></span>executed together',
        '<span class="swatch" style="--c:var(--exit)"></span>leaves the function',
        '<span class="swatch" style="--c:var(--dead)"></span>unreachable',
        '<span class="swatch" style="--c:var(--heat-2)"></span>a chosen register is live',
        '<span class="swatch written"></span>written',
        '<span class="swatch read"></span>read',
    ]
    coloring = scenes[0].coloring
    if coloring is not None:
        items.append(f"{html.escape(coloring.title)}:")
        items += [f'<span class="swatch" style="--c:var(--heat-{i})"></span>{words}' for i, words in coloring.scale]
    return "".join([f"<li>{item}</li>" for item in items])
