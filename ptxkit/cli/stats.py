"""`ptxkit stats`."""

from __future__ import annotations

import json

import click

from ptxkit.cli import _input


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@_input.kernel_option
@click.option("--format", "format_", type=click.Choice(["table", "json"]), default="table", help="The format of the output.")
@click.option("--opcodes", metavar="N", type=click.IntRange(0), default=10, help="How many of the commonest opcodes the table shows.")
def command(paths: tuple[str, ...], kernels: tuple[str, ...], format_: str, opcodes: int) -> None:
    """Count functions, instructions, registers and memory.

    With --kernel, only these functions are counted, in the files that have them.
    PATH is a file, a folder (all *.ptx under it), or - for standard input.
    """
    import attrs

    from ptxkit.statistics import statistics

    every = {path: statistics(_input.module(path, warns=True)) for path in _input.paths(paths)}
    chosen = _input.chosen_of({path: [function.name for function in one.functions] for path, one in every.items()}, kernels)
    found = [
        attrs.evolve(every[path], functions=tuple([one for one in every[path].functions if one.name in names]))
        for path, names in chosen.items()
    ]
    if format_ == "json":
        documents = [{**attrs.asdict(one), "instructions": one.instructions, "opcodes": one.opcodes} for one in found]
        click.echo(json.dumps({"version": 1, "files": documents}, indent=1))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from ptxkit.demangling import readable

    console = Console(highlight=False)
    for one in found:
        console.print(f"[bold]{one.path}[/]  PTX {one.version or '?'}  {', '.join(one.targets) or '?'}  shared {one.shared_bytes} bytes")
        table = Table("function", "kind", "instructions", "registers", "shared", "local", box=None, pad_edge=False)
        for function in one.functions:
            registers = " ".join(f"{kind}:{count}" for kind, count in function.registers.items())
            kind = "kernel" if function.is_entry else "function"
            table.add_row(
                Text(readable(function.name)),
                kind,
                str(function.instructions),
                registers,
                str(function.shared_bytes),
                str(function.local_bytes),
            )
        console.print(table)
        mix = list(one.opcodes.items())[:opcodes]
        if mix:
            console.print("  ".join(f"{opcode} {count}" for opcode, count in mix))
        console.print()
