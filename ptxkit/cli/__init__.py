"""The command line: arguments and printing only. Each command is one module, imported when it is called."""

from __future__ import annotations

import atexit
import gc
import importlib
import pkgutil

import click

import ptxkit

YOUNG = 100_000
"""So many new objects, instead of 700, make the garbage collector look: imports and trees make many, and hardly any garbage."""


class Commands(click.Group):
    """The commands by the modules in this folder: `ptxkit lint` is `ptxkit.cli.lint.command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(info.name.removesuffix("_") for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        gc.set_threshold(YOUNG)
        # what is alive at the end goes with the process: looking through it once more would take as long as a small file
        atexit.register(gc.freeze)
        try:
            module = importlib.import_module(f"ptxkit.cli.{cmd_name}")
        except ModuleNotFoundError as error:
            if error.name != f"ptxkit.cli.{cmd_name}":
                raise
            module = importlib.import_module(f"ptxkit.cli.{cmd_name}_")
        command: click.Command = module.command
        return command


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(ptxkit.__version__, prog_name="ptxkit", message="%(prog)s %(version)s")
def main() -> None:
    """Read, check and rewrite NVIDIA PTX.

    Exit codes: 0 clean, 1 findings, 2 could not run.
    """
