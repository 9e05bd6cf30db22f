"""`ptxkit extract`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ptxkit import files
from ptxkit.cli import _input
from ptxkit.demangling import matching, readable
from ptxkit.frozen import frozen

if TYPE_CHECKING:
    from ptxkit.binaries import Member


@frozen
class Found:
    """A text found in a file."""

    path: str
    member: Member
    text: str
    kernels: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name by which other commands accept it."""
        return f"{self.path}!{self.member.name}"

    def as_json(self) -> dict[str, Any]:
        entry = self.member.entry
        return {
            "path": self.path,
            "name": self.name,
            "number": self.member.number,
            "part": self.member.part or None,
            "target": entry.target,
            "ptx": f"{entry.version[0]}.{entry.version[1]}",
            "bytes": len(files.encode(self.text)),
            "compression": entry.compression,
            "relocatable": self.member.is_relocatable,
            "source": entry.source or None,
            "options": entry.options or None,
            "offset": entry.offset,
            "kernels": list(self.kernels),
        }


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="FILE…")
@click.option("-o", "--output", metavar="FOLDER", default=".", help="Where the PTX is written; - prints it, if there is only one.")
@click.option("--list", "only_list", is_flag=True, help="Write nothing; list what the files hold.")
@click.option(
    "-k",
    "--kernel",
    "kernels",
    multiple=True,
    metavar="NAME",
    help="Only PTX that defines this kernel: its name, in the PTX or in the source.",
)
@click.option("--target", "targets", multiple=True, metavar="TARGET", help="Only PTX for this target, such as sm_90a.")
@click.option("--all", "every", is_flag=True, help="Include code that is still to be linked, even beside linked code.")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", help="The format of the output.")
def command(
    paths: tuple[str, ...], output: str, only_list: bool, kernels: tuple[str, ...], targets: tuple[str, ...], every: bool, format_: str
) -> None:
    """Extract the PTX inside programs, libraries and wheels.

    Objects, static archives, fat binaries and cubins are read as well; none of NVIDIA's tools is needed. The PTX of libfoo.so is written to
    libfoo.so.1.sm_80.ptx and so on. Other commands accept such files too, and one PTX inside a file by the name that --list shows.

    Exit codes: 0 done, 1 part of a file is damaged, 2 a file could not be read or holds no such PTX.
    """
    found: list[Found] = []
    troubles: list[str] = []
    for path in paths:
        try:
            data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        except OSError as error:
            _input.fail(f"{path}: {error.strerror or error}")
        found += _texts(path, data, every, troubles)
    chosen = [one for one in found if _is_wanted(one, kernels, targets)]
    for trouble in troubles:
        _input.say(trouble)
    if not chosen:
        if found:
            _input.fail(_why_none(found, kernels, targets))
        sys.exit(1) if troubles else _input.fail(f"no PTX in {', '.join(paths)}")
    written = [""] * len(chosen) if only_list or output == "-" else _write(chosen, output)
    if output == "-" and not only_list:
        if len(chosen) > 1:
            _input.fail(f"{len(chosen)} texts, and only one can be printed: choose by --target and --kernel")
        click.echo(files.encode(chosen[0].text), nl=False)
    elif format_ == "json":
        document = [{**one.as_json(), **({"file": file} if file else {})} for one, file in zip(chosen, written, strict=True)]
        click.echo(json.dumps({"version": 1, "texts": document, "damages": troubles}, indent=1))
    elif only_list:
        _print(chosen)
    else:
        for file in written:
            click.echo(file)
    sys.exit(1 if troubles else 0)


def _texts(path: str, data: bytes, every: bool, troubles: list[str]) -> list[Found]:
    """The texts in a file. Exits for one that needs a missing library."""
    from ptxkit import binaries
    from ptxkit.syntax import parse

    if not binaries.is_binary(data):
        is_text = files.why_not_ptx(files.decode(data), path) is None
        _input.fail(f"{path}: " + ("this is PTX itself, not a file that contains some" if is_text else "not a binary file of a known kind"))
    contents = binaries.contents(data, every)
    troubles += [f"{path}: {damage}" for damage in contents.damages]
    found = []
    for member in contents.members:
        try:
            text = binaries.text(member.entry)
        except binaries.Missing as error:
            _input.fail(f"{path}!{member.name}: {error}")
        except binaries.Damaged as error:
            troubles.append(f"{path}!{member.name}: {error}")
            continue
        names = tuple([function.name for function in parse(text).kernels])
        found.append(Found(path, member, text, names))
    return found


def _is_wanted(found: Found, kernels: tuple[str, ...], targets: tuple[str, ...]) -> bool:
    return (not targets or found.member.entry.target in targets) and (not kernels or any(matching(name, found.kernels) for name in kernels))


def _why_none(found: list[Found], kernels: tuple[str, ...], targets: tuple[str, ...]) -> str:
    """Why no text is chosen."""
    names = [kernel for one in found for kernel in one.kernels]
    for kernel in kernels:
        if not matching(kernel, names):
            return _input.unknown("kernel", kernel, map(readable, names))
    there = [one.member.entry.target for one in found]
    for target in targets:
        if target not in there:
            return _input.unknown("target", target, there)
    return "no text for that target has that kernel: `--list` shows what there is"


def _write(chosen: list[Found], folder: str) -> list[str]:
    """Writes the texts and returns the names of the files."""
    named: dict[str, Found] = {}
    for one in chosen:
        stem = "stdin" if one.path == "-" else Path(one.path).name
        file = str(Path(folder) / f"{stem}.{one.member.number}.{one.member.entry.target}.ptx")
        if file in named:
            _input.fail(f"{named[file].path} and {one.path} would both become {file}: extract them into folders of their own")
        named[file] = one
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for file, one in named.items():
            files.write(file, one.text)
    except OSError as error:
        _input.fail(f"{error.filename or folder}: {error.strerror or error}")
    return list(named)


def _print(found: list[Found]) -> None:
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    # names are meant to be copied, so lines are not wrapped
    columns = [Column(title, no_wrap=True) for title in ("text", "PTX", "target", "bytes", "compressed", "kernels")]
    table = Table(*columns, box=None, pad_edge=False)
    for one in found:
        entry = one.member.entry
        shown = ", ".join(map(readable, one.kernels[:3])) + (f" and {len(one.kernels) - 3} more" if len(one.kernels) > 3 else "")
        note = "" if entry.compression == "none" else entry.compression
        version = f"{entry.version[0]}.{entry.version[1]}"
        table.add_row(Text(one.name), version, entry.target, str(len(files.encode(one.text))), note, Text(shown))
    Console(width=1 << 16, highlight=False).print(table)
