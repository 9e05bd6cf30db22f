"""`ptxkit pipeline`."""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING, Any

import click

from ptxkit.cli import _input

if TYPE_CHECKING:
    from ptxkit.analyses.framework.routine import Routine

WIDTH, HEIGHT, GAP, LEFT = 118, 34, 12, 110
"""Size of a box of the timeline in pixels, the gap between boxes, and the left margin."""
LANES = ("start", "commit", "wait", "barrier", "read")
COLORS = {"start": "#7aa6da", "commit": "#9ec1e6", "signal": "#9ec1e6", "wait": "#e0a458", "barrier": "#b0b0b0", "read": "#8fbf7f"}


@click.command()
@click.argument("path", metavar="FILE")
@_input.kernel_option
@click.option("--format", "format_", type=click.Choice(["text", "json", "svg"]), default="text", help="The format of the output.")
def command(path: str, kernels: tuple[str, ...], format_: str) -> None:
    """Show the asynchronous pipelines of a PTX file.

    For each function: its stages and where they are in memory, the groups in flight at each wait, the barriers and who waits for whom. SVG
    shows one iteration of each pipelined loop. FILE may be - for standard input.
    """
    from ptxkit.syntax import Index

    module = _input.module(path, warns=True)
    found = _input.routines(module, kernels)
    index = Index(module)
    listings = [listing for routine in found if (listing := _listing(routine, index)) is not None]
    if format_ == "json":
        click.echo(json.dumps({"version": 1, "path": path, "functions": listings}, indent=1))
    elif format_ == "svg":
        if not any(listing["iterations"] for listing in listings):
            _input.fail(f"{path}: there is no pipelined loop to draw")
        click.echo(_svg(listings))
    elif not listings:
        click.echo("nothing asynchronous")
    else:
        for listing in listings:
            _print(listing)


def _listing(routine: Routine, index: Any) -> dict[str, Any] | None:
    from ptxkit.analyses.events.effects import Reach
    from ptxkit.analyses.protocols.async_copy.pipeline import pipeline
    from ptxkit.analyses.protocols.mbarrier.phases import mbarrier_phases

    found, barriers = pipeline(routine), mbarrier_phases(routine)
    if found.is_empty and not barriers:
        return None

    def site(i: int) -> dict[str, Any]:
        return {"line": index.span(routine.where(i)).line, "text": " ".join(routine.instructions[i].body_text.split())}

    return {
        "function": routine.name,
        "complete": found.is_complete,
        "copies": [
            {**site(ring.instruction), "queue": ring.queue, "variable": ring.variable, "stages": ring.stages, "offsets": list(ring.offsets)}
            for ring in found.rings
        ],
        "waits": [
            {
                **site(wait.instruction),
                "queue": wait.queue,
                "for_reading": wait.is_for_reading,
                "groups_before": list(wait.before),
                "groups_after": list(wait.after),
            }
            for wait in found.waits
        ],
        "barriers": [
            {
                "name": meeting.name,
                "reach": "object" if meeting.reach is Reach.MBARRIER else meeting.reach.name.lower(),
                "arrives": [site(i) for i in meeting.arrives],
                "told_by": [site(i) for i in meeting.signalled_by],
                "waits": [site(i) for i in meeting.waits],
            }
            for meeting in found.meetings
        ],
        "objects": [
            {
                **site(one.init),
                "name": one.name,
                "count": one.count,
                "arrives": [{**site(i), "threads": threads} for i, threads in one.arrives],
                "waits": [{**site(i), "threads": threads} for i, threads in one.waits],
                "phases": [
                    {"arrivals": phase.arrivals, "announced": phase.expected, "copied": phase.copied, "parity": phase.parity}
                    for phase in one.phases
                ],
                "completed": one.completed,
            }
            for one in barriers
        ],
        "iterations": [
            {
                **site(iteration.header),
                "steps": [{"what": s.what, "queue": s.queue, "sites": [site(i) for i in s.instructions]} for s in iteration.steps],
            }
            for iteration in found.iterations
        ],
    }


def _print(listing: dict[str, Any]) -> None:
    from ptxkit.demangling import readable, variable

    click.echo(f"{readable(listing['function'])}{'' if listing['complete'] else ' (not all paths were followed)'}")
    for copy in listing["copies"]:
        stages = f"{copy['stages']} stages at {', '.join(map(str, copy['offsets']))}" if copy["stages"] > 1 else "1 stage"
        stages = stages if copy["stages"] else "stages not known"
        of = variable(copy["variable"]) if copy["variable"] else "unknown variable"
        click.echo(f"  line {copy['line']}: {copy['queue']} copy, {of}, {stages}")
    for wait in listing["waits"]:
        reading = ", sources only" if wait["for_reading"] else ""
        counts = f"{_span(wait['groups_before'])} -> {_span(wait['groups_after'])} groups"
        click.echo(f"  line {wait['line']}: wait for {wait['queue']}{reading}: {counts}")
    for barrier in listing["barriers"]:
        parts = [f"{word} {_lines(barrier[key])}" for key, word in _WORDS if barrier[key]]
        kind = "mbarrier" if barrier["reach"] == "object" else f"{barrier['reach']} barrier"
        click.echo(f"  {kind} {variable(barrier['name'])}: {'; '.join(parts)}")
    for one in listing["objects"]:
        seen = f"for {one['count']} arrivals; {one['completed']} phases were seen"
        click.echo(f"  line {one['line']}: mbarrier {variable(one['name'])}, {seen}")
        for key, word in (("arrives", "arrive"), ("waits", "wait")):
            for each in one[key]:
                click.echo(f"    {_threads(each['threads'], word)} at line {each['line']}")
        for number, phase in enumerate(one["phases"]):
            transfer = f", {phase['announced']} bytes announced, {phase['copied']} known to be copied" if phase["announced"] else ""
            click.echo(f"    phase {number}: awaited with parity {phase['parity']}{transfer}")
    for iteration in listing["iterations"]:
        click.echo(f"  one iteration of the loop at line {iteration['line']}:")
        for step in iteration["steps"]:
            click.echo(f"    {step['what']:8}{step['queue']:12}{_lines(step['sites'])}")


def _threads(count: int, word: str) -> str:
    return f"1 thread {word}s" if count == 1 else f"{count} threads {word}"


_WORDS = (("told_by", "signalled by copies at"), ("arrives", "arrived at"), ("waits", "waited at"))


def _span(pair: list[int]) -> str:
    return str(pair[0]) if pair[0] == pair[1] else f"{pair[0]} to {pair[1]}"


def _lines(sites: list[dict[str, Any]]) -> str:
    numbers = [str(site["line"]) for site in sites]
    shown = ", ".join(numbers[:8]) + (f" and {len(numbers) - 8} more" if len(numbers) > 8 else "")
    return f"line{'s' if len(numbers) > 1 else ''} {shown}"


def _svg(listings: list[dict[str, Any]]) -> str:
    """A timeline for each loop, with one row each for starts, waits, barriers and reads."""
    from ptxkit.demangling import readable

    rows: list[str] = []
    y = 20
    widest = 400
    for listing in listings:
        for iteration in listing["iterations"]:
            title = html.escape(f"{readable(listing['function'])}, loop at line {iteration['line']}")
            rows.append(f'<text x="10" y="{y}" class="title">{title}</text>')
            steps = iteration["steps"]
            used = [lane for lane in LANES if any(_lane(step) == lane for step in steps)]
            for each, lane in enumerate(used):
                top = y + 14 + each * (HEIGHT + 6)
                rows.append(f'<text x="10" y="{top + HEIGHT / 2 + 4:g}">{lane}</text>')
            for each, step in enumerate(steps):
                x = LEFT + each * (WIDTH + GAP)
                top = y + 14 + used.index(_lane(step)) * (HEIGHT + 6)
                label = (
                    f"{step['queue'] or step['what']} x{len(step['sites'])}" if len(step["sites"]) > 1 else step["queue"] or step["what"]
                )
                title = html.escape("\n".join([f"{site['line']}: {site['text']}" for site in step["sites"][:12]]))
                rows.append(
                    f'<g><title>{title}</title><rect x="{x}" y="{top}" width="{WIDTH}" height="{HEIGHT}" rx="4" '
                    f'fill="{COLORS[step["what"]]}"/>'
                    f'<text x="{x + 6}" y="{top + 14}">{html.escape(label)}</text>'
                    f'<text x="{x + 6}" y="{top + 28}" class="line">line {step["sites"][0]["line"]}</text></g>'
                )
            widest = max(widest, LEFT + len(steps) * (WIDTH + GAP))
            y += 40 + len(used) * (HEIGHT + 6)
    style = "text{font:12px sans-serif}.title{font-weight:bold}.line{font-size:10px}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{widest + 20}" height="{y + 10}"><style>{style}</style>\n'
        + "\n".join(rows)
        + "\n</svg>"
    )


def _lane(step: dict[str, Any]) -> str:
    return "commit" if step["what"] == "signal" else str(step["what"])
