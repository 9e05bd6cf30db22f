"""The command line: argument parsing and printing only. Each command is a module that is imported when called."""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import pkgutil
import sys
import threading
from typing import NoReturn

import click

import ptxkit

COMPLETING = "_PTXKIT_COMPLETE"
"""The environment variable by which a shell requests completions."""
INTERRUPTED, PIPE_CLOSED = 130, 141
"""Exit codes that a shell reports for programs ended by Ctrl-C or a closed pipe: neither success nor findings."""
YOUNG = 100_000
"""Number of new objects, instead of 700, that trigger the garbage collector: imports and trees create many, with hardly any garbage."""
BLAS_THREADS = "OPENBLAS_NUM_THREADS"
"""The environment variable that says how many threads NumPy's BLAS starts when it is imported, otherwise one for each core. Starting them
takes longer than linting a small file, and the matrices of MMAs are too small to be divided among them."""


class PipeClosed(Exception):
    """The reader of the output is gone. Not an OSError: click would map that to exit code 1, which means findings."""


class Commands(click.Group):
    """The commands, one for each module in this folder: `ptxkit lint` is `ptxkit.cli.lint.command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(info.name.removesuffix("_") for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        gc.set_threshold(YOUNG)
        os.environ.setdefault(BLAS_THREADS, "1")
        try:
            module = importlib.import_module(f"ptxkit.cli.{cmd_name}")
        except ModuleNotFoundError as error:
            if error.name != f"ptxkit.cli.{cmd_name}":
                raise
            module = importlib.import_module(f"ptxkit.cli.{cmd_name}_")
        command: click.Command = module.command
        if COMPLETING in os.environ:
            from ptxkit.cli._completing import completed

            return completed(command)
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise PipeClosed from error

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.list_commands(ctx):
            from ptxkit.cli import _input

            raise click.UsageError(_input.unknown("command", args[0], self.list_commands(ctx)), ctx)
        return super().resolve_command(ctx, args)


def run() -> NoReturn:
    """The program `ptxkit`: like `main`, but write errors and internal errors end with 2 and a line of text, not with a traceback."""
    # Python has no object for a stream that the caller has closed
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    try:
        if sys.stdout is None:
            raise OSError("standard output is closed")
        code = _called()
        # the language server closes its output
        if not sys.stdout.closed:
            sys.stdout.flush()
    except (BrokenPipeError, PipeClosed):
        _end(PIPE_CLOSED)
    except OSError as error:
        _end(2, f"cannot write: {error.strerror or error}")
    except (click.Abort, KeyboardInterrupt):
        _end(INTERRUPTED, "interrupted")
    except Exception as error:
        if os.environ.get("PTXKIT_DEBUG"):
            raise
        _end(2, f"internal error, please report it with the file: {type(error).__name__}: {error} (PTXKIT_DEBUG=1 shows where)")
    _leave(code)


def _called() -> str | int | None:
    """Runs the command and returns its exit code. Raises click.Abort for Ctrl-C, PipeClosed, OSError."""
    try:
        return main(prog_name="ptxkit", standalone_mode=False)  # type: ignore[no-any-return]
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except SystemExit as done:
        return done.code


def _leave(code: str | int | None) -> NoReturn:
    """Exits without destroying objects one by one, which would take as long as processing a small file."""
    is_watched = sys.getprofile() is not None or sys.gettrace() is not None
    if isinstance(code, int | None) and threading.active_count() == 1 and not is_watched:
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError):
            sys.stderr.flush()
            os._exit(code or 0)
    sys.exit(code)


def _end(code: int, reason: str = "") -> NoReturn:
    """Exits; failed writes are not retried."""
    with contextlib.suppress(OSError):
        if reason:
            click.echo(f"ptxkit: {reason}", err=True)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(code)


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(ptxkit.__version__, prog_name="ptxkit", message="%(prog)s %(version)s")
def main() -> None:
    """Find bugs in CUDA kernels from their PTX; run, read and rewrite PTX.

    Exit codes: 0 clean, 1 findings, 2 could not run.
    """
