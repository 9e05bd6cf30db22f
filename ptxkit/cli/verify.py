"""`ptxkit verify`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ptxkit import files
from ptxkit.cli import _input
from ptxkit.demangling import matching

if TYPE_CHECKING:
    from ptxkit.analyses.simulation.setting import Shape
    from ptxkit.syntax import Module

CODES = {"verified": 0, "refuted": 1, "undecided": 3}


@click.command()
@click.argument("path", metavar="FILE")
@click.option("-k", "--kernel", metavar="NAME", help="The kernel, where the file has several.")
@click.option("--grid", metavar="X,Y,Z", default="1", show_default=True, help="CTAs of the grid.")
@click.option("--block", metavar="X,Y,Z", required=True, help="Threads of a CTA.")
@click.option("--cluster", metavar="X,Y,Z", help="CTAs of a cluster; by default what the kernel says, or 1.")
@click.option("--param", "parameters", metavar="NAME=N", multiple=True, help="A parameter; NAME+16=N for a part of it; *=N all others.")
@click.option("--memory", metavar="NAME=N", multiple=True, help="What lies where a parameter points; N:S grows by S; *=N all others.")
@click.option("--boxes", metavar="JSON", help="A file that says how many bytes a copy with a tensor map has, by parameter.")
@click.option("--budget", type=float, default=300, show_default=True, metavar="SECONDS", help="No more clusters are begun after this.")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", help="How it is printed.")
def command(
    path: str,
    kernel: str | None,
    grid: str,
    block: str,
    cluster: str | None,
    parameters: tuple[str, ...],
    memory: tuple[str, ...],
    boxes: str | None,
    budget: float,
    format_: str,
) -> None:
    """Run a kernel of a PTX file (- for standard input) abstractly, as it would be launched: do all threads get through its barriers?

    Exit codes: 0 verified, 1 refuted, 3 undecided, 2 could not run.
    """
    from ptxkit.analyses.framework.routine import routines
    from ptxkit.analyses.simulation.setting import CannotLaunch, Setting, launched
    from ptxkit.analyses.verify.verdict import verify
    from ptxkit.syntax import Index, parse, syntax_errors

    try:
        module = parse(files.read(path), path)
        errors = [one for one in syntax_errors(module) if one.severity.value == "error"]
        if errors:
            raise CannotLaunch(f"{path}:{errors[0].span.line}:{errors[0].span.column}: {errors[0].message}")
        name = _chosen(module, kernel)
        shape = _cluster(module, name) if cluster is None else _shape("cluster", cluster)
        numbers = _numbers("param", parameters)
        _check_names(module, name, numbers)
        setting = Setting(_shape("block", block), _shape("grid", grid), shape, numbers, _boxes(boxes), _memory(memory))
        module = launched(module, name, setting)
    except (files.CannotRead, CannotLaunch) as error:
        click.echo(f"ptxkit: {error}", err=True)
        sys.exit(2)
    routine = next(one for one in routines(module) if one.name == name)
    verdict = verify(routine, setting, budget)
    index = Index(module)

    def position(one: Any) -> dict[str, Any]:
        i = one.instruction
        line = index.span(routine.where(i)).line if i >= 0 else None
        return {"line": line, "text": one.text, "instruction": " ".join(routine.instructions[i].body_text.split()) if i >= 0 else None}

    report = {
        "version": 1,
        "path": path,
        "kernel": name,
        "outcome": verdict.outcome,
        "reasons": [position(one) for one in verdict.reasons],
        "schedule": [position(one) for one in verdict.schedule],
        "clusters": verdict.clusters,
        "phases": verdict.phases,
        "waits": verdict.waits,
        "compared": verdict.accessed,
        "all_compared": verdict.has_all_accesses,
        "covered": list(verdict.covered),
        "assumptions": [position(one) for one in verdict.assumptions],
        "boxes": dict(verdict.boxes),
    }
    if format_ == "json":
        click.echo(json.dumps(report, indent=1))
    else:
        _print(report, setting.clusters)
    sys.exit(CODES[verdict.outcome])


def _print(report: dict[str, Any], clusters: int) -> None:
    click.echo(f"{report['kernel']}: {report['outcome']}")
    _list(report, report["reasons"])
    if report["boxes"]:
        click.echo(f"  with these boxes all that is announced would come: {json.dumps(report['boxes'])}")
    if report["schedule"]:
        click.echo("  one order in which it comes to this, the last steps:")
        for step in report["schedule"]:
            click.echo(f"  {step['line']:6}  {step['text']}")
    if report["outcome"] == "verified":
        click.echo(f"  every thread comes to its end: {report['phases']} mbarrier phases, {report['waits']} waits")
        come, there_are = report["covered"]
        if come < there_are:
            click.echo(f"  {come} of {there_are} instructions that synchronize were come to: of the others nothing is said")
        who = f"one cluster, which stands for all {clusters}" if report["clusters"] < clusters else f"all {clusters} clusters"
        click.echo(f"  {who if clusters > 1 else 'the whole grid'} was run")
        if report["all_compared"]:
            click.echo(f"  no race among the accesses of shared memory whose address is known ({report['compared']} words)")
        else:
            click.echo(f"  races in shared memory were looked for in the first {report['compared']} words only")
    if report["assumptions"]:
        click.echo("  this is so for this launch if")
        _list(report, report["assumptions"])


def _list(report: dict[str, Any], listed: list[dict[str, Any]]) -> None:
    for one in listed:
        where = f"{report['path']}:{one['line']}: " if one["line"] else ""
        click.echo(f"  {where}{one['text']}")
        if one["instruction"]:
            click.echo(f"      {one['instruction']}")


def _chosen(module: Module, kernel: str | None) -> str:
    from ptxkit.analyses.simulation.setting import CannotLaunch

    names = [one.name for one in module.functions if one.header.is_entry and one.body is not None]
    mine = matching(kernel, names) if kernel is not None else []
    if len(mine) == 1:
        return mine[0]
    if kernel is None and len(names) == 1:
        return str(names[0])
    if kernel is None or kernel not in names:
        what = f"no kernel {kernel!r}" if kernel is not None else "say which kernel (-k)"
        raise CannotLaunch(f"{what}; there are {', '.join(names) or 'none'}")
    return kernel


def _cluster(module: Module, name: str) -> Shape:
    """The cluster that a kernel says it is launched with."""
    from ptxkit.analyses.simulation.setting import declared_cluster

    return declared_cluster(module, name) or (1, 1, 1)


def _shape(what: str, text: str) -> Shape:
    from ptxkit.analyses.simulation.setting import CannotLaunch

    parts = text.replace("x", ",").split(",")
    if not 1 <= len(parts) <= 3 or not all(part.strip().isascii() and part.strip().isdigit() and int(part) > 0 for part in parts):
        raise CannotLaunch(f"--{what} takes one to three numbers above 0, as 128,1,1; not {text!r}")
    x, y, z = [*map(int, parts), 1, 1][:3]
    if what == "block" and x * y * z > 1024:
        raise CannotLaunch(f"a CTA has at most 1024 threads, not {x * y * z}")
    if what == "cluster" and x * y * z > 16:
        raise CannotLaunch(f"a cluster has at most 16 CTAs, not {x * y * z}")
    return x, y, z


def _check_names(module: Module, kernel: str, numbers: Iterable[str]) -> None:
    """Raises CannotLaunch for a parameter that the kernel has not."""
    from ptxkit.analyses.simulation.setting import CannotLaunch

    known = [parameter.name for parameter in module.function(kernel).header.parameters]
    for word in numbers:
        name = word.partition("+")[0]
        if name not in (*known, "*"):
            raise CannotLaunch(_input.unknown("parameter", name, known))


def _numbers(what: str, parameters: tuple[str, ...]) -> dict[str, int]:
    from ptxkit.analyses.simulation.setting import CannotLaunch

    found = {}
    for text in parameters:
        name, equals, number = text.partition("=")
        try:
            found[name.strip()] = int(number, 0)
        except ValueError:
            equals = ""
        if not equals or not name.strip():
            raise CannotLaunch(f"--{what} takes NAME=NUMBER, not {text!r}")
    return found


def _memory(texts: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """The first number in memory and by how much each next one is more, by name."""
    first = _numbers("memory", tuple([text.partition(":")[0] for text in texts]))
    steps = _numbers("memory", tuple([f"{text.partition('=')[0]}={text.partition(':')[2] or 0}" for text in texts]))
    return {name: (number, steps[name]) for name, number in first.items()}


def _boxes(path: str | None) -> dict[str, int]:
    """The bytes of a copy by tensor map. Raises CannotLaunch for a file that does not say them."""
    from ptxkit.analyses.simulation.setting import CannotLaunch, bytes_of_box

    if path is None:
        return {}
    try:
        said = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CannotLaunch(f"{path}: {error}") from None
    if not isinstance(said, dict):
        raise CannotLaunch(f"{path}: an object is needed, with tensor maps as its keys")
    found = {}
    for name, box in said.items():
        size = bytes_of_box(box)
        if size is None:
            raise CannotLaunch(f'{path}: {name!r} needs bytes, or {{"box": [64, 32], "type": "f16"}}')
        found[name] = size
    return found
