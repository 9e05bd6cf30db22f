"""What the commands say of themselves."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from ptxkit.cli import main


def commands(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        yield (*words, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))


@pytest.mark.parametrize(("words", "command"), [pytest.param(*one, id=" ".join(one[0])) for one in commands(main)])
def test_a_command_explains_itself_and_its_options(words: tuple[str, ...], command: click.Command) -> None:
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]

    assert command.help
    assert "Raises" not in command.help
    assert [one.name for one in options if not one.help] == []


def test_options_of_a_rewriter_are_described_by_its_docstring() -> None:
    shown = CliRunner().invoke(main, ["rewrite", "rename", "--help"]).output

    assert "--prefix TEXT" in shown and "Put this before every name." in shown
    assert "* `" not in shown
