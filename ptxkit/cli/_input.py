"""Inputs of commands: PTX files, kernels, targets. Invalid input ends the program with 2 and advice."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ptxkit import files

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ptxkit.analyses.framework.routine import Routine
    from ptxkit.syntax import Module

MOST = 40
"""Maximum number of existing names that are listed."""


def say(text: str) -> None:
    """Prints a line on standard error."""
    click.echo(f"ptxkit: {text}", err=True)


def fail(reason: str) -> NoReturn:
    """Exits with 2 and the reason."""
    say(reason)
    sys.exit(2)


def unknown(what: str, word: str, known: Iterable[str]) -> str:
    """A message for an unknown name, with the nearest and the existing ones: `no target 'sm_9': did you mean sm_90? There are …`."""
    names = list(dict.fromkeys(known))
    near = nearest(word, names)
    hint = f": did you mean {' or '.join(near)}?" if near else ";"
    more = f", … ({len(names) - MOST} more)" if len(names) > MOST else ""
    listed = ", ".join(names[:MOST]) + more if names else "none"
    return f"no {what} {word!r}{hint} {'There' if near else 'there'} {'is' if len(names) == 1 else 'are'} {listed}"


def nearest(word: str, known: Sequence[str]) -> list[str]:
    """Up to three names that may have been intended. Those of C++ may be meant without namespace and template arguments."""
    import difflib

    lower = {key: name for name in known for key in (_plain(name), name.lower())}
    close = list(dict.fromkeys([lower[key] for key in difflib.get_close_matches(word.lower(), list(lower), 3, 0.6)]))
    return close or [name for name in known if len(word) > 2 and word.lower() in name.lower()][:3]


def _plain(name: str) -> str:
    """`apply` for `my::Apply<float, 64>`."""
    return name.lower().partition("<")[0].rpartition("::")[2]


def text(path: str) -> str:
    """The text of a PTX file."""
    try:
        return files.read(path)
    except files.CannotRead as error:
        fail(str(error))


def module(path: str, *, warns: bool = False) -> Module:
    """The module in a PTX file. With `warns`, syntax errors are reported, since the code they affect is missing."""
    from ptxkit.syntax import parse

    found = parse(text(path), path)
    count = len(found.diagnostics)
    if warns and count:
        which = "a syntax error; the code it affects" if count == 1 else f"{count} syntax errors; the code they affect"
        say(f"{path} has {which} is left out (`ptxkit check` lists {'it' if count == 1 else 'them'})")
    return found


def paths(given: Iterable[str]) -> list[str]:
    """The PTX files that paths denote."""
    try:
        return list(files.find(given))
    except files.CannotRead as error:
        fail(str(error))


KERNEL = "Only this kernel or function: its name in the PTX or in the source, or a part of it. May be given several times."


def kernel_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """The option by which all commands select kernels."""
    return click.option("-k", "--kernel", "kernels", multiple=True, metavar="NAME", help=KERNEL)(function)


def launch_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """The option for the launch file, for commands that cannot run without one."""

    def there(context: click.Context, parameter: click.Parameter, value: str | None) -> str:
        if value is None:
            raise click.UsageError("--launch TOML is missing (`ptxkit inputs FILE -o TOML` writes one)", context)
        return value

    text = "A file of launches (docs/profiling.md); `ptxkit inputs` writes one."
    return click.option("--launch", "description", metavar="TOML", callback=there, help=text)(function)


def compilers_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """The option by which commands choose the compilers to ask: a tuple of names, all by default."""

    def known(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
        from ptxkit.revalidation.chain import VALIDATORS

        names = VALIDATORS if value is None else tuple([name for name in value.replace(",", " ").split() if name != "none"])
        for name in names:
            if name not in VALIDATORS:
                raise click.BadParameter(unknown("compiler", name, VALIDATORS), context, parameter)
        return names

    text = "Which compilers to ask, if installed: driver, nvjitlink, ptxas (all three), or none."
    return click.option("--using", metavar="NAMES", callback=known, help=text)(function)


def ends_in(kinds: Sequence[str]) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """The callback of an option that names a file whose ending decides what is written."""

    def checked(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
        if value is not None and not value.lower().endswith(tuple(kinds)):
            raise click.BadParameter(f"{value!r} ends in none of {' '.join(kinds)}", context, parameter)
        return value

    return checked


def chosen(names: Iterable[str], wanted: Iterable[str], what: str = "kernel") -> list[str]:
    """The one name that each word matches; all names if there are no words."""
    from ptxkit.demangling import matching, readable

    every = list(names)
    found = []
    for word in wanted:
        mine = matching(word, every)
        if not mine:
            fail(unknown(what, word, map(readable, every)))
        if len(mine) > 1:
            fail(f"{word!r} names several: {', '.join(map(readable, mine[:MOST]))}")
        found += mine
    return list(dict.fromkeys(found)) if found else every


def chosen_of(there: Mapping[str, Sequence[str]], wanted: Sequence[str]) -> dict[str, list[str]]:
    """The functions of each file that the words match, without files that have none; all of them if there are no words.

    Exits if a word matches none in any file, or several in one.
    """
    from ptxkit.demangling import matching, readable

    if not wanted:
        return {name: list(own) for name, own in there.items()}
    every = [function for own in there.values() for function in own]
    for word in wanted:
        if not matching(word, every):
            fail(unknown("kernel", word, map(readable, every)))
    here = {name: [word for word in wanted if matching(word, own)] for name, own in there.items()}
    return {name: chosen(own, here[name]) for name, own in there.items() if here[name]}


def functions_in(names: Iterable[str], wanted: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The files with a matching function, each with these functions and all that they call. Exits if a word matches none in any file."""
    from ptxkit.analyses.launch.call_graph import callgraph

    modules = {name: module(name) for name in names}
    there = {name: [function.name for function in found.functions if function.body] for name, found in modules.items()}
    found = {}
    for name, mine in chosen_of(there, wanted).items():
        graph = callgraph(modules[name])
        found[name] = tuple(dict.fromkeys([*mine, *sorted(called for one in mine for called in graph.reached_from(one))]))
    return found


def routines(found: Module, wanted: Sequence[str]) -> list[Routine]:
    """The matching functions with a body."""
    from ptxkit.analyses.framework.routine import routines

    every = routines(found)
    names = set(chosen([routine.name for routine in every], wanted))
    return [routine for routine in every if routine.name in names]


class Target(click.ParamType[str]):
    """A known target of PTX."""

    name = "target"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from ptxkit.isa.targets import targets

        if value not in targets():
            self.fail(unknown("target", value, targets()), param, ctx)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        from ptxkit.isa.targets import targets

        return [CompletionItem(name) for name in targets() if name.startswith(incomplete)]


def write(path: str, content: str | bytes) -> None:
    """Writes a file atomically."""
    try:
        if isinstance(content, str):
            files.write(path, content)
        else:
            files.write_bytes(path, content)
    except OSError as error:
        fail(f"{error.filename or path}: {error.strerror or error}")
