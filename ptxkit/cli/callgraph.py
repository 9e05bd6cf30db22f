"""`ptxkit callgraph`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ptxkit.cli import _input

if TYPE_CHECKING:
    from ptxkit.analyses.launch.call_graph import CallGraph


FORMATS = (".svg", ".png", ".pdf", ".dot")


@click.command()
@click.argument("path", metavar="FILE")
@_input.kernel_option
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    callback=_input.ends_in(FORMATS),
    help="Where to write: a name ending in .svg, .png, .pdf or .dot. Without it, the graph is printed as dot text.",
)
def command(path: str, kernels: tuple[str, ...], output: str | None) -> None:
    """Show who calls whom in a PTX file.

    Kernels are boxes. Functions without a body are dashed, and so are calls through a register. Recursion is red.
    With --kernel, only these functions and those that they may call are shown. FILE may be - for standard input.
    """
    from ptxkit.analyses.launch.call_graph import callgraph

    graph = callgraph(_input.module(path, warns=True))
    text = dot(graph.below(_input.chosen(graph.functions, kernels)) if kernels else graph)
    if output is None:
        click.echo(text, nl=False)
        return
    from ptxkit.analyses.drawing import CannotDraw
    from ptxkit.analyses.drawing.render import rendered

    kind = Path(output).suffix.lower().removeprefix(".")
    try:
        _input.write(output, text.encode() if kind == "dot" else rendered(text, kind))
    except CannotDraw as error:
        _input.fail(str(error))


def dot(graph: CallGraph) -> str:
    """A call graph as Graphviz source."""
    from ptxkit.analyses.drawing.dot import FONT

    circle = {name: group for group, names in enumerate(graph.recursive) for name in names}
    lines = ["digraph calls {", f'  node [fontname="{FONT}", fontsize=11, shape=ellipse];']
    lines += [f"  {_quoted(name)}{_attributes(graph, name, name in circle)};" for name in graph.functions]
    if any(call.is_open for call in graph.calls):
        lines.append('  "?" [label="through a register", style=dotted];')
    edges: dict[tuple[str, str], bool] = {}
    for call in graph.calls:
        for callee in (*call.callees, *(["?"] if call.is_open else [])):
            edges[call.caller, callee] = edges.get((call.caller, callee), True) and call.is_indirect
    for (caller, callee), indirect in edges.items():
        recursive = caller in circle and circle.get(caller) == circle.get(callee)
        words = [*(["style=dashed"] if indirect else []), *(["color=red"] if recursive else [])]
        lines.append(f"  {_quoted(caller)} -> {_quoted(callee)}{_list(words)};")
    return "\n".join([*lines, "}"]) + "\n"


def _attributes(graph: CallGraph, name: str, recursive: bool) -> str:
    from ptxkit.demangling import readable

    said = readable(name)
    words = [
        *([f"label={_quoted(said)}"] if said != name else []),
        *(["shape=box"] if name in graph.kernels else []),
        *(["style=dashed"] if name not in graph.defined else []),
        *(["color=red"] if recursive else []),
    ]
    return _list(words)


def _list(words: list[str]) -> str:
    return " [" + ", ".join(words) + "]" if words else ""


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
