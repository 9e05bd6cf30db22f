"""`ptxkit callgraph`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ptxkit import files

if TYPE_CHECKING:
    from ptxkit.analyses.launch.call_graph import CallGraph


@click.command()
@click.argument("path", metavar="FILE")
@click.option("-o", "--output", metavar="OUT", help="Where to: .svg, .png, .pdf or .dot. Without it, dot text is printed.")
def command(path: str, output: str | None) -> None:
    """Show who calls whom in a PTX file (- for standard input).

    Kernels are boxes, functions that are only declared are dashed, calls through a register are dashed arrows, recursion is red.
    """
    from ptxkit.analyses.launch.call_graph import callgraph
    from ptxkit.syntax import parse

    try:
        text = dot(callgraph(parse(files.read(path), path)))
    except files.CannotRead as error:
        _fail(str(error))
    if output is None:
        click.echo(text, nl=False)
        return
    kind = Path(output).suffix.removeprefix(".")
    if kind not in ("dot", "svg", "png", "pdf"):
        _fail(f"{output}: the name must end in .svg, .png, .pdf or .dot")
    try:
        data = text.encode() if kind == "dot" else _drawn(text, kind)
        Path(output).write_bytes(data)
    except OSError as error:
        _fail(f"{output}: {error.strerror or error}")


def _fail(reason: str) -> None:
    click.echo(f"ptxkit: {reason}", err=True)
    sys.exit(2)


def _drawn(text: str, kind: str) -> bytes:
    import graphviz

    try:
        drawn: bytes = graphviz.Source(text).pipe(format=kind)
    except graphviz.ExecutableNotFound:
        _fail("there is no `dot` program to draw with; ask for a .dot file instead, or install Graphviz")
    return drawn


def dot(graph: CallGraph) -> str:
    """A call graph in the language of Graphviz."""
    circle = {name: group for group, names in enumerate(graph.recursive) for name in names}
    lines = ["digraph calls {", '  node [fontname="monospace", shape=ellipse];']
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
    words = [
        *(["shape=box"] if name in graph.kernels else []),
        *(["style=dashed"] if name not in graph.defined else []),
        *(["color=red"] if recursive else []),
    ]
    return _list(words)


def _list(words: list[str]) -> str:
    return " [" + ", ".join(words) + "]" if words else ""


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
