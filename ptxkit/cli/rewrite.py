"""`ptxkit rewrite`."""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
from typing import Any

import click

from ptxkit import files
from ptxkit.cli import COMPLETING, _input
from ptxkit.memo import expression


class Rewriters(click.Group):
    """The rewriters as commands: each is a file in `rewriters/`, its keyword arguments are options."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from ptxkit.rewriters import all_rewriters

        return sorted(all_rewriters())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        from ptxkit.rewriters import all_rewriters

        rewriter = all_rewriters().get(cmd_name.replace("_", "-"))
        if rewriter is None:
            return None
        made = _command(rewriter)
        if COMPLETING in os.environ:
            from ptxkit.cli._completing import completed

            return completed(made)
        return made

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise click.UsageError(_input.unknown("rewriter", args[0], self.list_commands(ctx)), ctx)
        return super().resolve_command(ctx, args)


_OPTION = expression(r"^\* `(\w+)`: (.*)$", re.MULTILINE)


def _command(rewriter: Any) -> click.Command:
    text = inspect.getdoc(rewriter.function) or ""
    described = dict(_OPTION.findall(text))
    options: list[click.Parameter] = [click.Argument(["path"], metavar="FILE")]
    for name, parameter in rewriter.options.items():
        flag = f"--{name.replace('_', '-')}"
        required = parameter.default is inspect.Parameter.empty
        if name == "kernel":
            options.append(click.Option(["-k", flag, name], multiple=True, required=required, metavar="NAME", help=_input.KERNEL))
        elif parameter.annotation is bool:
            options.append(click.Option([f"{flag}/--no-{flag[2:]}", name], default=parameter.default, help=described.get(name)))
        else:
            kind = {int: click.INT, float: click.FLOAT}.get(parameter.annotation, click.STRING)
            default = None if required else parameter.default
            options.append(click.Option([flag, name], type=kind, required=required, default=default, help=described.get(name)))
    options.append(click.Option(["-o", "--output", "_output"], metavar="OUT", default="-", help="Where to write; - is standard output."))
    options.append(click.Option(["--manifest", "_manifest"], metavar="OUT", help="Also write what was done, as JSON."))

    def run(path: str, _output: str, _manifest: str | None, **given: Any) -> None:
        _run(rewriter, path, _output, _manifest, given)

    paragraphs = [one for one in text.split("\n\n") if not one.startswith(("* `", "Raises "))]
    return click.Command(rewriter.name, params=options, callback=run, help="\n\n".join(paragraphs), short_help=rewriter.summary)


def _run(rewriter: Any, path: str, output: str, manifest: str | None, given: dict[str, Any]) -> None:
    from ptxkit.rewriters import Refused

    module = _input.module(path)
    if given.get("kernel"):
        given["kernel"] = ",".join(_input.chosen([function.name for function in module.functions], given["kernel"]))
    elif "kernel" in given:
        del given["kernel"]
    try:
        rewrite = rewriter(module, **given)
    except Refused as refused:
        from rich.console import Console

        from ptxkit.report.text import render

        console = Console(stderr=True, soft_wrap=True, highlight=False)
        lines = refused.module.text.replace("\r\n", "\n").split("\n")
        for diagnostic in refused.diagnostics:
            console.print(render(diagnostic, lines))
        click.echo(f"ptxkit: {rewriter.name} is refused, nothing is written", err=True)
        sys.exit(1)
    except ValueError as error:
        _input.fail(str(error))
    outputs = {} if output == "-" else {output: rewrite.text}
    if manifest:
        outputs[manifest] = json.dumps(rewrite.manifest.as_json(), indent=1) + "\n"
    try:
        files.write_all(outputs)
    except OSError as error:
        _input.fail(f"{error.filename or output}: {error.strerror or error}")
    if output == "-":
        click.echo(files.encode(rewrite.text), nl=False)
    if module.diagnostics:
        first = module.diagnostics[0]
        where = f"{path}:{first.span.line}:{first.span.column}: {first.message}"
        click.echo(f"ptxkit: {where}; what cannot be read stays as it is", err=True)
    done = rewrite.manifest
    for count, what in ((len(done.changes), "change"), (len(done.probes), "probe"), (len(rewrite.refusals), "refused point")):
        if count:
            click.echo(f"ptxkit: {count} {what}{'' if count == 1 else 's'}", err=True)


def _list(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if not wanted:
        return
    from ptxkit.rewriters import all_rewriters

    for name, rewriter in sorted(all_rewriters().items()):
        click.echo(f"{name:14} {rewriter.summary}")
    ctx.exit()


@click.command(cls=Rewriters, subcommand_metavar="NAME FILE -o OUT [OPTIONS]")
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=_list, help="List the rewriters.")
def command() -> None:
    """Rewrite a PTX file: rename, retarget, strip and more.

    For example `ptxkit rewrite strip-debug k.ptx -o out.ptx`. FILE may be - for standard input.

    Exit codes: 0 done, 1 refused because something would break, 2 could not run.
    """
