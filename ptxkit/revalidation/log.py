"""Parses the compiler's log. All three validators contain ptxas, so the format is the same."""

from __future__ import annotations

import re
from collections.abc import Iterable

import attrs

from ptxkit.diagnostics import Severity
from ptxkit.frozen import frozen
from ptxkit.memo import expression
from ptxkit.revalidation.verdict import Resources

_MESSAGE = expression(r"(?:ptxas |nvlink )?(?:(?P<source>.*), line (?P<line>\d+); )?(?P<severity>fatal|error|warning|info) *: (?P<text>.*)")
_LINE_AT_END = expression(r" encountered on line (\d+)$")
_ADVICE = expression(r"\(C\d+\)")
_BUG = expression(r"internal (compiler )?error|\(C79\d\d\)|assertion\b.*\bfail", re.IGNORECASE)
_UNRESOLVED = expression(r"Undefined reference to |Unresolved extern ")

_NO_ARCHITECTURE = expression(r"Value '.*' is not defined for option 'gpu-name'|Unknown arch name '")

_SEVERITIES = {"fatal": Severity.ERROR, "error": Severity.ERROR, "warning": Severity.WARNING, "info": Severity.INFO}


@frozen
class Message:
    """A message of the compiler about the module. `line` counts from 1; `source` is the file that it names."""

    severity: Severity
    text: str
    line: int | None = None
    source: str | None = None

    @property
    def is_unresolved(self) -> bool:
        """Whether it only reports an unresolved `.extern` symbol."""
        return _UNRESOLVED.match(self.text) is not None

    @property
    def is_bug(self) -> bool:
        """Whether the message reports an internal compiler error."""
        return self.severity is Severity.ERROR and _BUG.search(self.text) is not None


def messages(log: str) -> tuple[Message, ...]:
    """The errors, warnings and numbered advice in a log, without summary messages."""
    found = [message for line in log.splitlines() if (message := _message(line.strip())) is not None]
    last = [message for message in found if "assembly aborted due to errors" not in message.text]
    return tuple(last or found)


def lacks_architecture(log: str) -> bool:
    """Whether the compiler reports that it does not support the requested architecture."""
    return _NO_ARCHITECTURE.search(log) is not None


def _message(line: str) -> Message | None:
    match = _MESSAGE.match(line)
    if match is None:
        return None
    severity, text = _SEVERITIES[match["severity"]], match["text"].strip()
    if severity is Severity.INFO and not _ADVICE.search(text):
        return None
    number = match["line"]
    at_end = _LINE_AT_END.search(text)
    if number is None and at_end is not None:
        number = at_end[1]
    return Message(severity, text, int(number) if number is not None else None, match["source"])


_ENTRY = expression(r"Compiling entry function '(.+)' for '")
_FUNCTION = expression(r"Function properties for '?(.+?)'?:?$")
_FRAME = expression(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = expression(r"Used (\d+) registers")
_LINKED = expression(r"used \d+ registers,.* (\d+) stack,")
_BARRIERS = expression(r"used (\d+) barriers")
_CUMULATIVE = expression(r"(\d+) bytes cumulative stack size")
_SHARED = expression(r"(\d+) bytes smem")
_CONSTANT = expression(r"(\d+) bytes cmem\[\d+\]")


def resources(log: str) -> tuple[Resources, ...]:
    """The resource usage of each kernel, from the lines that `-v` adds."""
    found: dict[str, Resources] = {}
    kernel = function = ""
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            kernel = function = match[1]
            found[kernel] = Resources(kernel)
        elif match := _FUNCTION.search(line):
            function = match[1]
        elif function in found and (match := _FRAME.search(line)):
            frame, stores, loads = map(int, match.groups())
            found[function] = attrs.evolve(found[function], stack=frame, spill_stores=stores, spill_loads=loads)
        elif kernel in found and (match := _USED.search(line)):
            found[kernel] = _used(found[kernel], int(match[1]), line)
        elif function in found and (match := _LINKED.search(line)):
            # nvJitLink's linker knows the frames of callees; its count of barriers is wrong
            constant = _sum(_CONSTANT.findall(line), found[function].constant)
            found[function] = attrs.evolve(found[function], stack=int(match[1]), constant=constant)
    return tuple(found.values())


def _used(before: Resources, registers: int, line: str) -> Resources:
    return attrs.evolve(
        before,
        registers=registers,
        stack=_sum(_CUMULATIVE.findall(line), before.stack),
        shared=_sum(_SHARED.findall(line), 0),
        constant=_sum(_CONSTANT.findall(line), None),
        barriers=_sum(_BARRIERS.findall(line), 0),
    )


def _sum(numbers: Iterable[str], without: int | None) -> int | None:
    values = [int(number) for number in numbers]
    return sum(values) if values else without
