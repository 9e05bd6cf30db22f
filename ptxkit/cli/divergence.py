"""`ptxkit divergence`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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
    """List branches, and which threads take the same path at each.

    `uniform` is proved for the threads named: all of a warp, a CTA, and so on. `divergent` is proved by two threads that take different
    paths, `may diverge` by two that do so for some arguments; anything else is unknown. The lines below a branch show why: from the
    instruction where threads begin to differ to the branch. FILE may be - for standard input.
    """
    from ptxkit.debug_info import parameter_names
    from ptxkit.syntax import Index

    module = _input.module(path, warns=True)
    found = _input.routines(module, kernels)
    index = Index(module)
    if not found:
        _input.say("there is no function with a body")
    listings = [_listing(routine, index) for routine in found]
    if format_ == "json":
        click.echo(json.dumps({"version": 1, "path": path, "functions": listings}, indent=1))
        return
    names = parameter_names(module)
    for listing in listings:
        _print(listing, names)


def _listing(routine: Routine, index: Any) -> dict[str, Any]:
    from ptxkit.analyses.cfg.graph import control_flow
    from ptxkit.analyses.framework.source_lines import source_lines
    from ptxkit.analyses.uniformity.uniformity import uniformity

    flow, known, sources = control_flow(routine), uniformity(routine), source_lines(routine)

    def site(i: int) -> dict[str, Any]:
        text = " ".join(routine.instructions[i].body_text.split())
        line = index.line_column(index.offset(routine.where(i)))[0]
        return {"line": line, "text": text, "source": sources[i]}

    branches = []
    for block in sorted(flow.reachable):
        if len(flow.blocks[block].edges) < 2 and not (flow.blocks[block].leaves and flow.blocks[block].edges):
            continue
        verdict, refuted = known.branch(block), known.branch(block).refuted
        chain = [
            {**(site(step.instruction) if step.instruction >= 0 else {"line": 0, "text": "", "source": ""}), "why": step.why}
            for step in known.blame(block)
        ]
        branches.append(
            {
                **site(flow.blocks[block].end - 1),
                "block": block,
                "level": str(verdict.level),
                "verdict": _word(known, block),
                "witness": None
                if refuted is None
                else {
                    "scope": str(refuted.scope),
                    "threads": [[thread.x, thread.y, thread.z] for thread in (refuted.one, refuted.other)],
                    "why": refuted.why,
                    "given": refuted.given,
                    "assumption": refuted.assumption,
                },
                "blame": chain,
            }
        )
    return {"function": routine.name, "assumption": known.assumption, "branches": branches}


def _word(known: Any, block: int) -> str:
    from ptxkit.analyses.uniformity.levels import Level

    verdict = known.branch(block)
    if verdict.refuted is not None:
        return "may diverge" if verdict.refuted.given else "divergent"
    return "uniform" if verdict.level > Level.THREAD else "unknown"


def _print(listing: dict[str, Any], names: Mapping[str, Sequence[str]]) -> None:
    from ptxkit.analyses.uniformity.levels import Level
    from ptxkit.demangling import in_prose, readable

    function, count = listing["function"], len(listing["branches"])

    def prose(text: str) -> str:
        return in_prose(text, [function], names, function)

    click.echo(f"{readable(function)}: {count} branch{'es' if count != 1 else ''}")
    if listing["assumption"]:
        click.echo(f"  assumed: {listing['assumption']}")
    for branch in listing["branches"]:
        source = f"  ({branch['source']})" if branch["source"] else ""
        level = f"uniform over the {Level[branch['level'].upper()].word}" if branch["level"] != "thread" else ""
        witness = branch["witness"]
        parts = f"{branch['verdict']} within the {Level[witness['scope'].upper()].word}" if witness else "" if level else "unknown"
        click.echo(f"\n{branch['line']:6}  {branch['text']}{source}")
        click.echo(f"        {', '.join(filter(None, (level, parts)))}")
        if witness:
            given = f", if {witness['given']}" if witness["given"] else ""
            assumed = f" (provided that {witness['assumption']})" if witness["assumption"] else ""
            click.echo(f"        {prose(witness['why'] + given)}{assumed}")
        for step in branch["blame"][:-1]:
            at = f"{step['line']:6}" if step["line"] else "      "
            click.echo(f"        {at}  {step['text']}  {prose(step['why'])}")
    click.echo()
