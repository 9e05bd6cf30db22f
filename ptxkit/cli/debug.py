"""`ptxkit debug`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any

import click

from ptxkit import files
from ptxkit.cli import _input
from ptxkit.cli.profile import _launches, _show, _size
from ptxkit.cli.run import _checks, _schedule
from ptxkit.frozen import frozen

if TYPE_CHECKING:
    from ptxkit.debugger.session import Debuggee, Session
    from ptxkit.rewriters.profiling.launch import Launch
    from ptxkit.syntax import Module


@frozen
class Wanted:
    """What to debug, and how."""

    path: str
    description: str
    kernel: str | None = None
    checks: tuple[str, ...] = ()
    schedule: str | int = "lockstep"
    target: str | None = None
    cta: tuple[int, int, int] = (0, 0, 0)


def _cta(context: click.Context, parameter: click.Parameter, value: str) -> tuple[int, int, int]:
    parts = [part.strip() for part in value.split(",")]
    if not 1 <= len(parts) <= 3 or not all(part.isdecimal() for part in parts):
        raise click.BadParameter(f"{value!r} is not an index of a CTA, such as 1,0,0")
    x, y, z = (*[int(part) for part in parts], 0, 0)[:3]
    return x, y, z


@click.command()
@click.argument("path", metavar="[FILE]", required=False)
@click.option("--launch", "description", metavar="TOML", help="The file that describes the launches (docs/profiling.md).")
@click.option("-k", "--kernel", metavar="NAME", help="Debug the launch of this kernel; by default, the first launch.")
@click.option("--check", "checks", callback=_checks, metavar="all|races,…", help="Stop at what these monitors find.")
@click.option(
    "--schedule", default="lockstep", show_default=True, callback=_schedule, metavar="WHICH", help="lockstep, late, early, or a seed."
)
@click.option("--cta", default="0,0,0", show_default=True, callback=_cta, metavar="X,Y,Z", help="The CTA to look at first.")
@click.option(
    "--target", type=_input.Target(), metavar="TARGET", help="The GPU to execute as, such as sm_90a; by default, the file's target."
)
@click.option("--dap", is_flag=True, help="Serve an editor, by the Debug Adapter Protocol over standard input and output.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="With --dap: wait for the editor on this port of this computer instead; 0 takes a free one.",
)
def command(
    path: str | None,
    description: str | None,
    kernel: str | None,
    checks: tuple[str, ...],
    schedule: str | int,
    cta: tuple[int, int, int],
    target: str | None,
    dap: bool,
    port: int | None,
) -> None:
    """Debug a kernel on the CPU, forwards and backwards.

    The launch stops before its first statement; `help` lists the commands. They may come from a file on standard input. With --dap the
    editor names what is launched: see docs/debug.md.

    Exit codes: 0 the session ended, 1 it met a fault or a finding, 2 could not run.
    """
    if dap or port is not None:
        sys.exit(_serve(port))
    if path is None or description is None:
        raise click.UsageError("name the file and its launch: ptxkit debug FILE --launch TOML (`ptxkit inputs FILE -o TOML` writes one)")
    if path == "-":
        raise click.UsageError("commands come from standard input: FILE cannot")
    from ptxkit.debugger.terminal import Terminal

    session = _session(Wanted(path, description, kernel, checks, schedule, target, cta))
    terminal = Terminal(session, None if sys.stdin.isatty() else sys.stdin, sys.stdout)
    if not sys.stdin.isatty():
        terminal.prompt = ""
    try:
        terminal.begin()
        terminal.cmdloop()
    except KeyboardInterrupt:
        pass
    finally:
        session.end()
    sys.exit(2 if session.could_not_run else 1 if session.problems else 0)


def _serve(port: int | None) -> int:
    from ptxkit.debugger.adapter import Adapter

    if port is None:
        sink, sys.stdout = sys.stdout.buffer, sys.stderr  # nothing else may write to the message stream
        return Adapter(sys.stdin.buffer, sink, _opened).serve()
    import socket

    with socket.create_server(("127.0.0.1", port)) as server:
        click.echo(f"ptxkit: waiting for an editor on port {server.getsockname()[1]}", err=True)
        connection, _ = server.accept()
    with connection, connection.makefile("rwb") as stream:
        streams: IO[bytes] = stream  # type: ignore[assignment]
        return Adapter(streams, streams, _opened).serve()


def _opened(arguments: Mapping[str, Any]) -> Session:
    """The session that the arguments of `launch` request. Raises Refused."""
    from ptxkit.debugger.adapter import Refused

    for name in ("program", "launch"):
        if not isinstance(arguments.get(name), str):
            raise Refused(f"`{name}` is missing: the path of the {'PTX file' if name == 'program' else 'launch file'}")
    given = arguments.get("check") or ()
    named = ",".join(given) if isinstance(given, list | tuple) else str(given)
    context, parameter = click.Context(command), command.params[0]
    try:
        checks = _checks(context, parameter, named or None)
        schedule = _schedule(context, parameter, str(arguments.get("schedule", "lockstep")))
        index = arguments.get("cta", "0,0,0")
        cta = _cta(context, parameter, ",".join(map(str, index)) if isinstance(index, list) else str(index))
        target = arguments.get("target")
        if target is not None:
            target = _input.Target().convert(str(target), parameter, context)
    except click.ClickException as why:
        raise Refused(why.format_message()) from None
    kernel = arguments.get("kernel")
    wanted = Wanted(arguments["program"], arguments["launch"], kernel, checks, schedule, target, cta)
    try:
        return _session(wanted)
    except SystemExit:
        raise Refused(f"{wanted.path} with {wanted.description} cannot be launched; the debug console says why") from None


def _session(wanted: Wanted) -> Session:
    """The session; reports errors on standard error and exits if there can be none."""
    import ptxkit
    from ptxkit.debugger.session import Session

    try:
        module = ptxkit.parse(files.read(wanted.path), wanted.path)
    except files.CannotRead as error:
        _input.fail(str(error))
    launches = _launches(wanted.description, wanted.path, module, (wanted.kernel,) if wanted.kernel is not None else ())
    launch = launches[0]
    if len(launches) > 1:
        click.echo(f"ptxkit: the first of {len(launches)} launches is debugged, that of {launch.kernel}", err=True)
    if any(i >= n for i, n in zip(wanted.cta, launch.grid, strict=True)):
        _input.fail(f"CTA {','.join(map(str, wanted.cta))} is not of a grid of {_size(launch.grid)}")
    debuggee = _debuggee(module, launch, wanted)
    return Session(debuggee, wanted.checks, wanted.cta)


def _debuggee(module: Module, launch: Launch, wanted: Wanted) -> Debuggee:
    from ptxkit.debugger.program import Text
    from ptxkit.debugger.session import Debuggee
    from ptxkit.machine import Budget, Machine
    from ptxkit.rewriters.profiling.array_files import BadFile
    from ptxkit.rewriters.profiling.execution import execute, made

    target = wanted.target or next((word for word in module.targets if word.startswith("sm_")), "sm_90a")
    try:
        Machine(target).load(module)
        for number in range(len(launch.arguments)):
            made(launch, number)
    except (OSError, BadFile) as error:
        _input.fail(f"{launch.kernel}: {error}")
    except ValueError as error:
        _show(getattr(error, "diagnostics", ()), module.text)
        _input.fail("nothing is run: the file has errors")

    def run(monitors: tuple[Any, ...], checks: tuple[str, ...]) -> tuple[int, str]:
        machine = Machine(target)
        code = machine.load(module)
        unlimited = Budget(seconds=None)
        found = execute(machine, code, launch, schedule=wanted.schedule, budget=unlimited, monitors=monitors, checks=checks)
        return found.instructions, found.printed

    return Debuggee(Text(module, wanted.path), launch.kernel, run)
