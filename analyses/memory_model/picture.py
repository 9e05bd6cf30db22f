"""Pictures of executions: threads as columns, operations from top to bottom, arrows for the relations of chapter 8.

A forbidden execution shows the contradiction: the events of its cycle are framed, and the arrows between them are thick.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from ptxkit.analyses.memory_model.execution import SECTIONS, Execution
from ptxkit.analyses.memory_model.skeleton import FINAL, INITIAL, Event
from ptxkit.analyses.memory_model.verdicts import Forbidden
from ptxkit.frozen import frozen

COLORS = {
    "po": "#888888",
    "rf": "#c62828",
    "co": "#1565c0",
    "fr": "#ef6c00",
    "sw": "#2e7d32",
    "sc": "#6a1b9a",
    "cause": "#00695c",
    "race": "#000000",
}
"""Program order, reads-from, coherence order, from-reads, synchronizes, Fence-SC order; causality order in a cycle; data races, dashed."""
NAMES = {
    "po": "program order (8.9.1)",
    "rf": "reads from (8.9.7)",
    "co": "coherence order (8.9.6)",
    "fr": "from-reads (8.9.7)",
    "sw": "synchronizes (8.9.4)",
    "sc": "Fence-SC order (8.9.3)",
    "cause": "causality order (8.9.5)",
    "race": "data race (8.7.1)",
}
CHARACTER, ROW, GAP, MARGIN = 7.3, 56, 90, 24
LEFT = 64
"""The start of the first column: arrows within it bend to the left."""
KEYS = 3
"""Number of relations in a line of the legend."""


STYLE = (
    ":root { color-scheme: light dark } body { font: 14px system-ui, sans-serif; margin: 1em } "
    "label { display: inline-block; margin-right: 1em } "
    "label i { display: inline-block; width: 1.2em; height: 0.25em; vertical-align: middle; border: 2px solid #fff } "
    "div { overflow-x: auto } svg { border-radius: 4px }"
)


@frozen
class Arrow:
    """A pair of a relation."""

    kind: str
    source: int
    target: int
    in_cycle: bool


@frozen
class _Box:
    x: float
    y: float
    width: float
    text: str
    note: str


def arrows(execution: Execution, cycle: tuple[int, ...] = ()) -> list[Arrow]:
    """The pairs that a picture shows: for transitive relations, only those not implied by others."""
    events = execution.events
    around = set(zip(cycle, (*cycle[1:], *cycle[:1]), strict=True)) if cycle else set()
    relations = {
        "po": execution.program_order,
        "rf": execution.reads_from,
        "co": execution.coherence_order & execution.overlap,
        "fr": execution.from_reads,
        "sw": execution.synchronizes - execution.fence_sc,
        "sc": execution.fence_sc,
    }
    found = []
    for kind, relation in relations.items():
        implied = relation >> relation if kind in ("po", "co", "sc") and relation.is_acyclic() else relation - relation
        for a, b in relation:
            if (a, b) in around or ((a, b) not in implied and FINAL not in (events[a].thread, events[b].thread)):
                found.append(Arrow(kind, a, b, (a, b) in around))
    found += [Arrow("race", a, b, False) for a, b in execution.data_races]
    drawn = {(one.source, one.target) for one in found}
    found += [Arrow("cause", a, b, True) for a, b in around if (a, b) not in drawn]
    return found


def svg(execution: Execution, forbidden: Forbidden | None = None) -> str:
    """The picture as SVG."""
    cycle = forbidden.cycle() if forbidden is not None else ()
    boxes, width, height = _placed(execution)
    lines = list(_drawn(execution, forbidden, cycle, boxes, width, height))
    return "\n".join(lines) + "\n"


def page(execution: Execution, forbidden: Forbidden | None = None) -> str:
    """The picture as a page on which relations can be hidden and shown."""
    switches = "\n".join(
        f'<label><input type="checkbox" checked onchange="'
        f"document.querySelectorAll('.{kind}').forEach(e => e.style.display = this.checked ? '' : 'none')\"> "
        f'<i style="background: {COLORS[kind]}"></i> {escape(name)}</label>'
        for kind, name in NAMES.items()
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,"><title>'
        f"{escape(execution.skeleton.program.name or 'execution')}</title>\n"
        f"<style>{STYLE}</style></head>\n"
        f"<body>\n<p>{switches}</p>\n<div>{svg(execution, forbidden)}</div></body></html>\n"
    )


def _placed(execution: Execution) -> tuple[dict[int, _Box], float, float]:
    """The position of each event, and the size of the picture."""
    skeleton = execution.skeleton
    columns: dict[int, list[Event]] = {}
    ends: dict[int, list[Event]] = {INITIAL: [], FINAL: []}
    for event in execution.events:
        (ends if event.thread < 0 else columns).setdefault(event.thread, []).append(event)
    boxes: dict[int, _Box] = {}
    top = MARGIN + 2.6 * ROW if ends[INITIAL] else MARGIN + ROW
    left, bottom = float(LEFT), top
    for thread in range(len(skeleton.program.threads)):
        events = columns.get(thread, [])
        texts = [(skeleton.text(one), _value(execution, one)) for one in events]
        width = CHARACTER * max([len(text) + (len(note) + 2 if note else 0) for text, note in texts] + [16]) + 16
        for row, (event, (text, note)) in enumerate(zip(events, texts, strict=True)):
            boxes[event.index] = _Box(left, top + row * ROW, width, text, note)
        bottom = max(bottom, top + len(events) * ROW)
        left += width + GAP
    right = left - GAP + MARGIN
    for thread, y in ((INITIAL, float(MARGIN) + 0.6 * ROW), (FINAL, bottom + 0.4 * ROW)):
        x = float(LEFT)
        for event in ends[thread]:
            text = f"{event.variable} = {_shown(execution, event)}" + (" at the end" if thread == FINAL else "")
            width = CHARACTER * len(text) + 16
            boxes[event.index] = _Box(x, y, width, text, "")
            x += width + GAP / 2
        right = max(right, x)
    return boxes, right, bottom + (1.6 if ends[FINAL] else 0.6) * ROW


def _shown(execution: Execution, event: Event) -> str:
    value = execution.value(event.index)
    return "?" if value is None else str(value)


def _value(execution: Execution, event: Event) -> str:
    """What a read returns."""
    return f"= {_shown(execution, event)}" if event.is_read else ""


def _drawn(
    execution: Execution, forbidden: Forbidden | None, cycle: tuple[int, ...], boxes: dict[int, _Box], width: float, height: float
) -> Iterator[str]:
    skeleton = execution.skeleton
    shown = arrows(execution, cycle)
    kinds = [kind for kind in COLORS if any(one.kind == kind for one in shown)]
    width = max(width, 225 * min(len(kinds), KEYS) + MARGIN)
    whole = height + 8 + 18 * -(-len(kinds) // KEYS)
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{whole:.0f}" '
        f'viewBox="0 0 {width:.0f} {whole:.0f}" font-family="monospace" font-size="12">'
    )
    yield "<defs>"
    for kind, color in COLORS.items():
        yield (
            f'<marker id="to-{kind}" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto" '
            f'markerUnits="userSpaceOnUse"><path d="M0,0 L8,4 L0,8 z" fill="{color}"/></marker>'
        )
    yield "</defs>"
    yield f'<rect width="{width:.0f}" height="{whole:.0f}" fill="white"/>'
    title = skeleton.program.name
    if forbidden is not None:
        title += " — forbidden by " + ", ".join(f"{name} ({SECTIONS[name]})" for name in forbidden.axioms)
    yield f'<text x="{MARGIN}" y="{MARGIN - 4}" font-weight="bold">{escape(title)}</text>'
    for t, thread in enumerate(skeleton.program.threads):
        first = next((boxes[i] for i in skeleton.threads[t] if i in boxes), None)
        if first is not None:
            caption = f"{thread.name} (CTA {thread.cta}, GPU {thread.gpu})"
            yield f'<text x="{first.x:.0f}" y="{first.y - 10:.0f}" font-weight="bold">{escape(caption)}</text>'
    drawn = [_arrow(one, number, boxes) for number, one in enumerate(shown)]
    yield from [path for path, _ in drawn]
    for index, box in boxes.items():
        stroke, thick = ("#c62828", 2.5) if index in cycle else ("#555555", 1)
        yield (
            f'<rect x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" height="24" rx="4" fill="#fafafa" '
            f'stroke="{stroke}" stroke-width="{thick}"/>'
        )
        yield f'<text x="{box.x + 8:.0f}" y="{box.y + 16:.0f}">{escape(box.text)}</text>'
        if box.note:
            end = box.x + box.width - 8
            yield f'<text x="{end:.0f}" y="{box.y + 16:.0f}" text-anchor="end" font-weight="bold">{escape(box.note)}</text>'
    yield from [label for _, label in drawn if label]
    for number, kind in enumerate(kinds):
        x, y = MARGIN + 225 * (number % KEYS), height + 8 + 18 * (number // KEYS)
        yield f'<text x="{x:.0f}" y="{y:.0f}" fill="{COLORS[kind]}">{kind}: {escape(NAMES[kind])}</text>'
    yield "</svg>"


def _arrow(one: Arrow, number: int, boxes: dict[int, _Box]) -> tuple[str, str]:
    """An arrow, and its label, which comes after all arrows."""
    a, b = boxes[one.source], boxes[one.target]
    x1, y1, x2, y2 = a.x + a.width / 2, a.y + 12, b.x + b.width / 2, b.y + 12
    thick = 3 if one.in_cycle else 1.3
    dashes = ' stroke-dasharray="5 4"' if one.kind == "race" else ""
    ends = "" if one.kind == "race" else f' marker-end="url(#to-{one.kind})"'
    if a.x == b.x and abs(y1 - y2) < 1.5 * ROW and one.kind == "po":
        path, middle = f"M{x1:.0f},{a.y + 24:.0f} L{x2:.0f},{b.y:.0f}", (x1 + 8, (y1 + y2) / 2 + 4)
    elif a.x == b.x:
        bend = 26 + 10 * (number % 4)
        left = a.x
        path = f"M{left:.0f},{y1:.0f} C{left - bend:.0f},{y1:.0f} {left - bend:.0f},{y2:.0f} {left:.0f},{y2:.0f}"
        middle = (left - bend, (y1 + y2) / 2)
    else:
        start, end = (a.x + a.width, b.x) if a.x < b.x else (a.x, b.x + b.width)
        shift = 6 * (number % 3 - 1)
        half = (start + end) / 2
        path = f"M{start:.0f},{y1 + shift:.0f} C{half:.0f},{y1 + shift:.0f} {half:.0f},{y2 + shift:.0f} {end:.0f},{y2 + shift:.0f}"
        along = 0.25 + 0.25 * (number % 3)
        middle = (start + (end - start) * along, y1 + (y2 - y1) * along * along * (3 - 2 * along) + shift - 3)
    color = COLORS[one.kind]
    drawn = f'<path class="{one.kind}" d="{path}" fill="none" stroke="{color}" stroke-width="{thick}"{dashes}{ends}/>'
    if one.kind in ("po", "race"):
        return drawn, ""
    style = f'class="{one.kind}" fill="{color}" font-size="11" stroke="white" stroke-width="4" paint-order="stroke"'
    return drawn, f'<text x="{middle[0]:.0f}" y="{middle[1]:.0f}" {style}>{one.kind}</text>'
