"""Drawings as Graphviz source.

All names in the source are generated (`f0b12`); text from the PTX appears only in labels, as escaped HTML-like text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import graphviz

from ptxkit.analyses.cfg.graph import Via
from ptxkit.analyses.drawing.coloring import Coloring
from ptxkit.analyses.drawing.palette import LIGHT
from ptxkit.analyses.drawing.scene import Arrow, Box, Mark, Row, Scene, with_few_long_arrows
from ptxkit.analyses.drawing.tokens import Class, short
from ptxkit.memo import expression

FONT = "DejaVu Sans Mono,Menlo,Consolas,Liberation Mono,monospace"
"""Monospaced fonts whose characters are 0.6 of their height wide: the picture fits with any of them."""
LETTER = 6.62
"""Width of a character at 11 points."""
MANY = 400
"""From this number of boxes on, lines are straight and the layout is simplified."""
COLORS = {Via.FALL: "fall", Via.TAKEN: "taken", Via.NOT_TAKEN: "not-taken", Via.INDEXED: "indexed"}
STYLES = {Via.FALL: "solid", Via.TAKEN: "solid", Via.NOT_TAKEN: "dashed", Via.INDEXED: "solid"}
MARKS = {Mark.BARRIER: "barrier", Mark.TOGETHER: "together", Mark.EXIT: "exit"}
_UNPRINTABLE = expression("[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def escape(text: str) -> str:
    """Escapes text for an HTML-like label or attribute; characters invalid in XML become replacement characters."""
    text = _UNPRINTABLE.sub("\ufffd", text)
    for special, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("\\", "&#92;"), ("]", "&#93;")):
        text = text.replace(special, entity)
    return text


def source(scenes: Sequence[Scene], plain: bool = False, number: int | None = None) -> str:
    """The graph of one or several functions. `plain` requests the fastest layout.

    With a number, the graph is for a page, for the function with this number: without a legend, and with rows that can be found in the SVG.
    """
    boxes = sum([len(one.boxes) for one in scenes])
    if plain:
        scenes = [with_few_long_arrows(one) for one in scenes]
    graph = graphviz.Digraph("cfg", graph_attr=_settings(boxes, plain))
    graph.attr("node", shape="plain", fontname=FONT, fontsize="11", fontcolor=LIGHT["ink"])
    graph.attr("edge", fontname=FONT, fontsize="10", labelfontsize="10", arrowsize="0.7", penwidth="1.2")
    if number is None:
        graph.attr(label=_legend(scenes), labelloc="t", labeljust="l")
    for i, one in enumerate(scenes):
        if len(scenes) == 1:
            _function(graph, one, number or 0, number is not None)
            continue
        with graph.subgraph(name=f"cluster_f{i}") as inner:
            label = _html([_text(_title(one), "ink", bold=True)])
            inner.attr(label=label, labelloc="t", labeljust="l", color=LIGHT["border"], style="rounded", margin="16")
            _function(inner, one, i)
    return str(graph.source)


def _settings(boxes: int, plain: bool) -> dict[str, str]:
    settings = {
        "bgcolor": LIGHT["paper"],
        "fontname": FONT,
        "fontsize": "11",
        "fontcolor": LIGHT["ink"],
        "nodesep": "0.35",
        "ranksep": "0.4",
        "pad": "0.25",
        "rankdir": "TB",
        "outputorder": "edgesfirst",
    }
    if boxes > MANY or plain:
        settings |= {"splines": "polyline", "nslimit": "0.5", "nslimit1": "1", "mclimit": "0.5"}
    if plain:
        settings |= {"splines": "line", "nslimit": "0.1", "nslimit1": "0.5", "mclimit": "0.1"}
    return settings


def _function(graph: graphviz.Digraph, one: Scene, number: int, findable: bool = False) -> None:
    rows_have_values = bool(one.coloring and one.coloring.rows)
    inside: dict[int | None, list[Box]] = {}
    for box in one.boxes:
        inside.setdefault(box.loop, []).append(box)

    def add(target: graphviz.Digraph, loop: int | None) -> None:
        for box in inside.get(loop, ()):
            name = f"f{number}b{box.index}"
            target.node(name, label=_table(box, f"f{number}i" if findable else "", one.coloring, rows_have_values), id=name)

    # clusters are created outermost first and added innermost first, without recursion over the nesting of loops
    made = {loop.index: graphviz.Digraph(f"cluster_f{number}l{loop.index}") for loop in one.loops}
    for index, cluster in made.items():
        _loop_attributes(cluster, one, index, number)
        add(cluster, index)
    for loop in reversed(one.loops):
        (graph if loop.parent is None else made[loop.parent]).subgraph(made[loop.index])
    add(graph, None)
    for position, arrow in enumerate(one.arrows):
        _arrow(graph, one, number, position, arrow, len(one.boxes) > MANY)


def _loop_attributes(cluster: graphviz.Digraph, one: Scene, index: int, number: int) -> None:
    loop = one.loops[index]
    words = f"loop at B{loop.header}" if loop.is_reducible else f"irreducible loop, {len(loop.entries)} entries"
    cluster.attr(
        label=_html([_text(f"{words}, depth {loop.depth}", "comment")]),
        labelloc="t",
        labeljust="l",
        style="rounded,filled",
        color=LIGHT["loop-line"],
        fillcolor=LIGHT[f"loop-{min(loop.depth, 4)}"],
        margin="12",
        id=f"f{number}l{index}",
    )


def _arrow(graph: graphviz.Digraph, one: Scene, number: int, position: int, arrow: Arrow, many: bool) -> None:
    color = LIGHT["back" if arrow.is_back else COLORS[arrow.via]]
    attributes = {"color": color, "fontcolor": color, "id": f"f{number}e{position}", "style": STYLES[arrow.via]}
    if arrow.is_back:
        attributes["penwidth"] = "2.4"
    label = arrow.label + (" back" if arrow.label else "back") * arrow.is_back
    target = f"f{number}b{arrow.target}"
    if arrow.is_stub:
        title = one.boxes[arrow.target].title if one.level == "blocks" else f"#{arrow.target}"
        target = f"f{number}s{position}"
        words = f"{label} → {title}".strip()
        graph.node(target, label=_html([_text(words, "back" if arrow.is_back else COLORS[arrow.via])]), id=target)
        attributes["arrowhead"] = "none"
    elif label:
        attributes |= {("headlabel" if arrow.is_upward else "taillabel") if many else "label": f"  {label}  "}
    if arrow.is_upward and not arrow.is_stub:
        # the edge is reversed so that layout keeps what comes first at the top
        graph.edge(target, f"f{number}b{arrow.source}", dir="back", **attributes)
        return
    graph.edge(f"f{number}b{arrow.source}", target, **attributes)


def _html(cells: Iterable[str]) -> str:
    return "<" + "".join(cells) + ">"


def _text(text: str, color: str, bold: bool = False) -> str:
    if not text:
        return ""
    inner = f'<FONT COLOR="{LIGHT[color]}">{escape(text)}</FONT>'
    return f"<B>{inner}</B>" if bold else inner


def _beside(text: str, color: str) -> str:
    """Text beside an instruction, in two pieces: Graphviz aligns a cell of one piece lower than one of several."""
    return _text(text[:1], color) + _text(text[1:], color)


def _title(one: Scene) -> str:
    return f"{one.kind} {short(one.name, 80)}"


def _table(box: Box, prefix: str, coloring: Coloring | None, values: bool) -> str:
    columns = 3 + values
    fill = "paper" if box.reachable else "dead"
    head = "dead" if not box.reachable else "entry" if box.is_entry else "title"
    if box.value is not None and box.reachable:
        head = f"heat-{coloring.step(box.value) if coloring else 0}"
    lines = []
    if box.is_first or box.labels or box.badges:
        title = "".join(_heading(box, coloring, values))
        lines.append(f'<TR><TD COLSPAN="{columns}" ALIGN="LEFT" BGCOLOR="{LIGHT[head]}" CELLPADDING="4">{title}</TD></TR>')
    lines += [_row(row, box, prefix, coloring, values, _spare(box)) for row in box.rows]
    return _html(
        [
            f'<TABLE BORDER="1" CELLBORDER="0" CELLSPACING="0" CELLPADDING="1" COLOR="{LIGHT["border"]}" BGCOLOR="{LIGHT[fill]}"',
            f"{'' if box.reachable else ' STYLE=' + chr(34) + 'dashed' + chr(34)}>",
            *lines,
            "</TABLE>",
        ]
    )


def _heading(box: Box, coloring: Coloring | None, values: bool) -> Iterator[str]:
    """The heading of a box: its block, its labels, and what is special about it."""
    dim = "" if box.reachable else "dead-ink"
    if box.is_first:
        yield _text(box.title, dim or "ink", bold=True)
    for label in box.labels[:3]:
        yield _text(f" {short(label, 40)}", dim or "label")
    if len(box.labels) > 3:
        yield _text(f" +{len(box.labels) - 3}", "comment")
    if box.badges:
        yield _text("  " + " · ".join(box.badges), dim or ("comment" if box.value is None else "ink"))
    if coloring is not None and box.value is not None and not (values and box.end - box.start == 1):
        yield _text(f"  {'max ' if values else ''}{coloring.word(box.value)}", "ink")


def _spare(box: Box) -> float:
    """The width in points that the last column needs for the title to fit; by itself, layout would widen all columns equally."""
    title = sum([len(short(label, 40)) + 1 for label in box.labels[:3]]) + sum([len(badge) + 3 for badge in box.badges]) + 16
    text = max([sum([len(token.text) for token in row.tokens]) for row in box.rows], default=0)
    return max(title - text, 0) * LETTER


def _words(row: Row) -> str:
    """The text of the last column."""
    return "  ".join([word for word in (row.note, row.source) if word])


def _row(row: Row, box: Box, prefix: str, coloring: Coloring | None, values: bool, spare: float) -> str:
    mark = MARKS.get(row.mark, "") if box.reachable else ""
    back = f' BGCOLOR="{LIGHT[mark + "-row"]}"' if mark else ""
    stripe = f'<TD WIDTH="5" BGCOLOR="{LIGHT[mark]}"></TD>' if mark else '<TD WIDTH="5"></TD>'
    words = "".join([*_tokens(row, box.reachable), _text(" ", "ink")])
    # Graphviz keeps no id for a cell without a link
    identity = f' ID="{prefix}{row.first}_{row.last}" HREF="#"' if prefix else ""
    cells = [stripe, f'<TD ALIGN="LEFT"{identity}{back}>{words}</TD>']
    if values:
        heat = (
            f' BGCOLOR="{LIGHT[f"heat-{coloring.step(row.value) if coloring else 0}"]}"' if row.value is not None and box.reachable else ""
        )
        cells.append(f'<TD ALIGN="RIGHT"{heat}>{_beside(f" {row.value:,} ", "ink") if row.value is not None else ""}</TD>')
    note = f"  {_words(row)} " if row.note or row.source else ""
    cells.append(f'<TD ALIGN="RIGHT" WIDTH="{spare:.0f}"{back}>{_beside(note, "comment" if box.reachable else "dead-ink")}</TD>')
    return f"<TR>{''.join(cells)}</TR>"


def _tokens(row: Row, reachable: bool) -> Iterator[str]:
    if row.hidden:
        yield _text(f"… {row.hidden:,} more", "comment" if reachable else "dead-ink")
        return
    for token in row.tokens:
        yield _text(token.text, token.kind if reachable else "dead-ink", bold=token.kind is Class.OPCODE)


# --- legend -----------------------------------------------------------------------------------------------------------------------


def _legend(scenes: Sequence[Scene]) -> str:
    """The legend of the colors and marks in the picture."""
    first = scenes[0]
    path = first.routine.module.path
    where = f"{short(path.replace(chr(92), '/').rpartition('/')[2], 60)}: " if path and path != "-" else ""
    title = f"{where}{_title(first)}" if len(scenes) == 1 else f"{where}{len(scenes)} functions"
    about = f"   {first.summary}" if len(scenes) == 1 else ""
    rows = [_text(title, "ink", bold=True) + _text(about, "comment")]
    keys = (*_lines(scenes), *_marks(scenes))
    rows.append("".join([_text(word, color) + _text(f" {meaning}   ", "comment") for word, color, meaning in keys]))
    if first.coloring is not None:
        rows.append(_text(f"{first.coloring.title}:", "comment"))
        cells = [f'<TD BGCOLOR="{LIGHT[f"heat-{i}"]}">{_text(f" {words} ", "ink")}</TD>' for i, words in first.coloring.scale]
        rows.append(f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="2" CELLPADDING="2"><TR>{"".join(cells)}</TR></TABLE>')
    return _html(
        [
            '<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="2">',
            *[f'<TR><TD ALIGN="LEFT">{row}</TD></TR>' for row in rows],
            "</TABLE>",
        ]
    )


def _lines(scenes: Sequence[Scene]) -> Iterator[tuple[str, str, str]]:
    arrows = [arrow for one in scenes for arrow in one.arrows]
    vias = {arrow.via for arrow in arrows}
    if Via.FALL in vias:
        yield "──▸", "fall", "falls through"
    if Via.TAKEN in vias:
        yield "──▸ T", "taken", "guard holds"
    if Via.NOT_TAKEN in vias:
        yield "╌╌▸ F", "not-taken", "guard does not hold"
    if Via.INDEXED in vias:
        yield "──▸ 0, 2", "indexed", "by index"
    if any(arrow.is_back for arrow in arrows):
        yield "━━▸ back", "back", "to the head of a loop"
    if any(arrow.is_stub for arrow in arrows):
        yield "── → B1", "fall", "to a block far away"


def _marks(scenes: Sequence[Scene]) -> Iterator[tuple[str, str, str]]:
    marks = {mark for one in scenes for mark, _ in one.notes}
    for mark, meaning in ((Mark.BARRIER, "barrier"), (Mark.TOGETHER, "executed together"), (Mark.EXIT, "leaves the function")):
        if mark in marks:
            yield "■", MARKS[mark], meaning
    if any(not box.reachable for one in scenes for box in one.boxes):
        yield "■", "dead-ink", "unreachable"


__all__ = ["FONT", "escape", "source"]
