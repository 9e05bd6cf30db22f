"""`ptxkit instrument`."""

from __future__ import annotations

import sys

import click

from ptxkit import files
from ptxkit.cli import _input


def _list(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if not wanted:
        return
    from ptxkit.rewriters.probing import all_probes

    for name, probe in sorted(all_probes().items()):
        options = ", ".join([f"{key}={found.default if found.default is not found.empty else '…'}" for key, found in probe.options.items()])
        click.echo(f"{name:15} {probe.summary}{f' [{options}]' if options else ''}")
    ctx.exit()


@click.command()
@click.argument("path", metavar="FILE")
@click.option(
    "-p", "--probe", "probes", multiple=True, required=True, metavar="NAME[:OPTION=VALUE,…]", help="A probe. May be given several times."
)
@_input.kernel_option
@click.option("-o", "--output", metavar="OUT", default="-", help="Where to write; - is standard output.")
@click.option("--manifest", metavar="OUT", help="Write what is needed to launch the kernels and to read the buffers, as JSON.")
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=_list, help="List the probes with their options.")
def command(path: str, probes: tuple[str, ...], kernels: tuple[str, ...], output: str, manifest: str | None) -> None:
    """Put probes into a PTX file.

    For example `ptxkit instrument k.ptx --probe block-counts -o out.ptx --manifest out.json`. `ptxkit rewrite strip` takes the probes out
    again. With --kernel, only these functions have probes, not those that they call. Instructions that cannot have a probe are reported and
    listed in the manifest. FILE may be - for standard input.

    Exit codes: 0 done, 1 the result would have errors, 2 could not run.
    """
    from ptxkit.rewriters import Refused
    from ptxkit.rewriters.probing import instrument

    module = _input.module(path)
    functions = _input.chosen([function.name for function in module.functions if function.body], kernels) if kernels else None
    try:
        found = instrument(module, probes, functions=functions)
    except Refused as refused:
        for diagnostic in refused.diagnostics:
            click.echo(f"{path}: {diagnostic.message}", err=True)
        click.echo("ptxkit: nothing is written", err=True)
        sys.exit(1)
    except (ValueError, OSError) as error:
        _input.fail(str(error))
    outputs = {} if output == "-" else {output: found.text}
    if manifest:
        outputs[manifest] = found.manifest.to_json()
    try:
        files.write_all(outputs)
    except OSError as error:
        _input.fail(f"{error.filename or output}: {error.strerror or error}")
    if output == "-":
        click.echo(files.encode(found.text), nl=False)
    if module.diagnostics:
        first = module.diagnostics[0]
        where = f"{path}:{first.span.line}:{first.span.column}: {first.message}"
        click.echo(f"ptxkit: {where}; what cannot be read stays as it is", err=True)
    refused_sites = found.manifest.refused
    for one in refused_sites[:20]:
        where = f"{path}:{one.line}" if one.line else path
        click.echo(f"{where}: {found.manifest.probes[one.probe].name} left out: {one.message} ({one.reason})", err=True)
    if len(refused_sites) > 20:
        click.echo(f"ptxkit: {len(refused_sites) - 20} more left out, see the manifest", err=True)
    for use in found.manifest.probes:
        if not use.regions:
            click.echo(f"ptxkit: {use.name} finds nothing here to look at", err=True)
    sites = [(site.probe, site.function, site.instruction) for site in found.manifest.sites]
    left = set(sites) & {(one.probe, one.function, one.instruction) for one in refused_sites}
    put = len([site for site in sites if site not in left])
    click.echo(f"ptxkit: {put}{f' of {len(sites)}' if put < len(sites) else ''} site{'' if len(sites) == 1 else 's'}", err=True)
