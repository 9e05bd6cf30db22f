"""`ptxkit liveness`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from ptxkit.cli import _input

if TYPE_CHECKING:
    from ptxkit.analyses.framework.routine import Routine


@click.command()
@click.argument("path", metavar="FILE")
@_input.kernel_option
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", help="The format of the output.")
def command(path: str, kernels: tuple[str, ...], format_: str) -> None:
    """List instructions with the registers that are live after each.

    The number before an instruction is its register pressure, in 32-bit registers. FILE may be - for standard input.
    """
    from ptxkit.syntax import Index

    module = _input.module(path, warns=True)
    found = _input.routines(module, kernels)
    index = Index(module)
    listings = [_listing(routine, index) for routine in found]
    if format_ == "json":
        click.echo(json.dumps({"version": 1, "path": path, "functions": listings}, indent=1))
        return
    for listing in listings:
        _print(listing)


def _listing(routine: Routine, index: Any) -> dict[str, Any]:
    from ptxkit.analyses.cfg.graph import control_flow
    from ptxkit.analyses.cfg.loops import loops
    from ptxkit.analyses.numbers.bits import bits
    from ptxkit.analyses.registers.liveness import liveness
    from ptxkit.analyses.registers.pressure import pressure
    from ptxkit.analyses.registers.registers import registers

    flow, live, need, table, forest = control_flow(routine), liveness(routine), pressure(routine), registers(routine).table, loops(routine)
    blocks = []
    for block in flow.blocks:
        instructions = []
        for i, after in sorted(live.points(block.index)):
            line = index.line_column(index.offset(routine.where(i)))[0]
            text = " ".join(routine.instructions[i].body_text.split())
            names = [table[register].name for register in bits(after)]
            instructions.append({"line": line, "text": text, "units": need.units[i], "predicates": need.predicates[i], "live_after": names})
        blocks.append(
            {
                "block": block.index,
                "successors": list(block.successors),
                "reachable": block.index in flow.reachable,
                "loop_depth": forest.depth(block.index),
                "units_at_start": need.entering[block.index],
                "peak_units": need.blocks[block.index],
                "live_before": [table[register].name for register in bits(live.before[block.index])],
                "instructions": instructions,
            }
        )
    peak = {"units": need.peak, "predicates": need.peak_predicates}
    if need.peak_at >= 0:
        peak["line"] = index.line_column(index.offset(routine.where(need.peak_at)))[0]
    return {"function": routine.name, "peak": peak, "loop_headers": [list(header) for header in need.headers], "blocks": blocks}


def _print(listing: dict[str, Any]) -> None:
    from ptxkit.demangling import readable

    peak = listing["peak"]
    at = f" at line {peak['line']}" if "line" in peak else ""
    click.echo(f"{readable(listing['function'])}: at most {peak['units']} registers of 32 bits{at}, {peak['predicates']} predicates")
    for block in listing["blocks"]:
        to = ", ".join(map(str, block["successors"])) or "out"
        depth = f", loop depth {block['loop_depth']}" if block["loop_depth"] else ""
        gone = "" if block["reachable"] else ", never reached"
        click.echo(f"\nblock {block['block']} -> {to}{depth}{gone}; live before: {' '.join(block['live_before']) or '-'}")
        for instruction in block["instructions"]:
            text = instruction["text"]
            text = text if len(text) <= 60 else text[:57] + "..."
            click.echo(f"{instruction['line']:6} {instruction['units']:4}  {text:60}  {' '.join(instruction['live_after']) or '-'}")
    click.echo()
