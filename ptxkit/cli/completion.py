"""`ptxkit completion`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ptxkit.cli import _input

SHELLS = ("bash", "zsh", "fish")
FILES = {
    "bash": "{data}/bash-completion/completions/ptxkit",
    "zsh": "{data}/zsh/site-functions/_ptxkit",
    "fish": "{config}/fish/completions/ptxkit.fish",
}
"""The files in which each shell looks for a user's completions."""


@click.command()
@click.argument("shell", required=False, type=click.Choice(SHELLS))
@click.option("--install", is_flag=True, help="Write the script to where the shell looks for it.")
def command(shell: str | None, install: bool) -> None:
    """Set up completion in your shell.

    `ptxkit completion --install` does it for the shell you use. Without --install, the script is printed. Completed are commands, options,
    files, and the names of kernels, rules, instructions, probes and targets.
    """
    from click.shell_completion import get_completion_class

    from ptxkit.cli import COMPLETING, main

    name = shell or Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        _input.fail(_input.unknown("completion for the shell", name, SHELLS))
    found = get_completion_class(name)
    assert found is not None
    made = found(main, {}, "ptxkit", COMPLETING)
    text = made.source_template % made.source_vars()
    if not install:
        click.echo(text)
        return
    path = _file(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _input.fail(f"{path.parent}: {error.strerror or error}")
    _input.write(str(path), text + "\n")
    click.echo(f"wrote {path}; start a new {name} to use it")
    if name == "zsh":
        click.echo(f"If it does not, put this into ~/.zshrc before compinit: fpath=({path.parent} $fpath)")


def _file(shell: str) -> Path:
    home = Path.home()
    data = os.environ.get("XDG_DATA_HOME") or str(home / ".local" / "share")
    config = os.environ.get("XDG_CONFIG_HOME") or str(home / ".config")
    return Path(FILES[shell].format(data=data, config=config))
