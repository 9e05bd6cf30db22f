"""Judges a record of `forms.py`: executes the same tests on the machine's semantics, and compares bit for bit.

A test of registers only is executed by calling its semantics with arrays, the operand sets as lanes; any other, or all with `--machine`,
by loading its kernel and launching it.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import keyword
import re
import sys
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import approximations
import attrs
import numpy as np
import operands
import products
from formtests import HEADER, TARGET, Buffer, Registers, Test, bound_as

from ptxkit.isa.binding import Bound
from ptxkit.isa.opcodes import match
from ptxkit.isa.types import types


@attrs.frozen
class Verdict:
    """What came of comparing a test: equal, bound (an approximation within the manual's bound), different, error, or missing."""

    kind: str
    equal: int = 0
    total: int = 0
    detail: str = ""
    share: float = 0
    """Of an approximation, the largest error over the manual's bound."""


class Missing(Exception):
    """The machine has no semantics for this instruction, or it is not there itself."""


class NeedsLanes(Exception):
    """Semantics that are of use only in a launch."""


# --- semantics without a machine --------------------------------------------------------------------------------------------------


@cache
def _module(stem: str) -> Any:
    try:
        return importlib.import_module(f"ptxkit.machine.semantics.{stem}")
    except ModuleNotFoundError as error:
        raise Missing(f"no module {error.name}") from None


def _bound(registers: Registers) -> Bound:
    for candidate in match(registers.opcode):
        if f"{candidate.form.file}:{candidate.form.line}" == registers.form:
            found = bound_as(candidate, candidate.form.variants[registers.variant], registers.shapes)
            if found is not None:
                return found
    raise Missing("it cannot be bound again")


def _as(values: Any, dtype: Any) -> Any:
    """Bits of a register as a dtype of the same size or smaller."""
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return values.astype(np.bool_)
    if dtype.fields is not None:
        return np.ascontiguousarray(values).view(dtype).reshape(-1)
    unsigned = np.dtype(f"u{dtype.itemsize}")
    return np.ascontiguousarray(values.astype(unsigned)).view(dtype)


def by_semantics(test: Test) -> list[Any]:
    """The outputs of a test by calling the semantics: for each element written an array of the register's bits."""
    from ptxkit.machine.operation import Operation, Semantics, Unsupported

    registers = test.registers
    assert registers is not None
    bound = _bound(registers)
    module = _module(registers.form.partition(".isa")[0])
    name = bound.form.mnemonic + ("_" if keyword.iskeyword(bound.form.mnemonic) else "")
    function = getattr(module, name, None)
    if function is None:
        raise Missing(f"no function {name}")
    operation = Operation(bound, TARGET, registers.constants)
    try:
        semantics: Semantics = function(operation)
    except Unsupported as error:
        raise Missing(str(error)) from None
    if semantics.lanes or semantics.enter is not None:
        raise NeedsLanes
    source = test.arguments[0]
    filled = operands.fragments if source.fill == "fragments" else operands.sets
    inputs = filled(source.kinds, source.count, source.salt)
    arguments: list[Any] = []
    for operand in operation.reads:
        dtype = semantics.reads.get(operand.name, operation.dtype(operand.name))
        if operand.name in registers.constants:
            arguments.append(np.dtype(dtype).type(registers.constants[operand.name]))
            continue
        elements = [_as(inputs[at], dtype) for at in registers.reads[operand.name]]
        if operand.shape.negated:
            if operand.types[0] != ".pred":
                raise NeedsLanes
            elements = [~element for element in elements]
        arguments.append(tuple(elements) if operand.width else elements[0])
    if registers.carry >= 0:
        arguments.append(inputs[registers.carry].astype(np.bool_))
    with np.errstate(all="ignore"):
        results = semantics.run(*arguments)
    listed = list(results) if len(registers.writes) > 1 and isinstance(results, tuple) else [results]
    if len(listed) != len(registers.writes):
        raise ValueError(f"{len(listed)} results where {len(registers.writes)} are written")
    found: list[Any] = []
    kinds = list(test.arguments[1].kinds)
    for (name, element_types), result in zip(registers.writes, listed, strict=True):
        parts = list(result) if isinstance(result, tuple) else [result]
        if len(parts) != len(element_types):
            raise ValueError(f"{name}: {len(parts)} elements where there are {len(element_types)}")
        for part, type in zip(parts, element_types, strict=True):
            value = np.broadcast_to(np.asarray(part), (source.count,))
            if name == "CC":
                value = np.where(value, np.uint32(0xFFFFFFFF if bound.form.mnemonic in ("sub", "subc") else 1), np.uint32(0))
            found.append(_register(value, type, operands.dtype(kinds[len(found)])))
    return found


def _register(value: Any, type: str, dtype: Any) -> Any:
    """A result as the bits of a register: of a narrow type extended as that says."""
    if np.dtype(dtype).shape:
        return np.stack([value["lo"], value["hi"]], 1)
    if value.dtype == np.bool_:
        return value.astype(dtype)
    if value.dtype.kind == "f":
        value = np.ascontiguousarray(value).view(f"u{value.dtype.itemsize}")
    if types()[type].kind == "signed":
        value = np.ascontiguousarray(value).view(f"i{value.dtype.itemsize}").astype(f"i{np.dtype(dtype).itemsize}")
    return np.ascontiguousarray(value.astype(np.dtype(f"u{np.dtype(dtype).itemsize}")))


# --- the machine -----------------------------------------------------------------------------------------------------------------


def _read(buffer: Any) -> bytes:
    return bytes(buffer.read(np.uint8).tobytes())


def by_machine(test: Test) -> bytes:
    """The outputs of a test by launching its kernel on the machine."""
    try:
        from ptxkit.machine import Machine
    except ImportError as error:
        raise Missing(str(error)) from None
    from device import filled

    machine = Machine(target=TARGET)
    code = machine.load("\n".join([HEADER, test.declarations, test.text.replace("ENTRY", "t0", 1)]))
    parameters: list[Any] = []
    outputs: list[Callable[[], bytes]] = []
    for argument in test.arguments:
        if not isinstance(argument, Buffer):
            parameters.append(argument.machine(machine, outputs))
            continue
        data = np.frombuffer(filled(argument.fill, argument.kinds, argument.count, argument.salt), np.uint8)
        buffer = machine.alloc(max(len(data), 1))
        buffer.write(data)
        parameters.append(buffer)
        if argument.output:
            outputs.append(partial(_read, buffer))
    machine.launch(
        code, "t0", *parameters, grid=test.grid, block=test.block, cluster=test.cluster if test.cluster > 1 else None, shared=test.shared
    )
    return b"".join([read() for read in outputs])


# --- comparing --------------------------------------------------------------------------------------------------------------------


def unspecified(test: Test) -> Any:
    """Of a test of registers, the sets whose result the manual leaves open: True where it does; None if there are none."""
    registers = test.registers
    if registers is None:
        return None
    mnemonic = registers.opcode.partition(".")[0]
    if registers.opcode in ("testp.f32", "testp.f64"):
        return np.ones(test.arguments[0].count, np.bool_)
    if mnemonic in ("div", "rem") and test.group == "integer":
        source = test.arguments[0]
        return operands.sets(source.kinds, source.count, source.salt)[registers.reads["b"][0]] == 0
    return None


def executed(test: Test, use_machine: bool = False) -> bytes:
    """The outputs of a test: of registers only by the semantics where that is enough, unless the machine is wanted."""
    if test.registers is not None and not use_machine:
        try:
            return operands.packed(by_semantics(test))
        except NeedsLanes:
            pass
    return by_machine(test)


def compare(test: Test, record: Any, entry: dict[str, Any], use_machine: bool) -> Verdict:
    """One test against the record."""
    if entry["status"] != "ran":
        return Verdict("unrecorded", detail=f"{entry['status']}: {entry.get('detail', '')}")
    try:
        got = executed(test, use_machine)
    except Missing as error:
        return Verdict("missing", detail=str(error))
    except Exception as error:
        where = traceback.extract_tb(sys.exc_info()[2])[-1]
        return Verdict("error", detail=f"{type(error).__name__}: {error} ({where.filename.rpartition('/')[2]}:{where.lineno})")
    if hashlib.blake2b(got, digest_size=12).hexdigest() == entry["digest"]:
        return Verdict("equal", 1, 1)
    expected = record.output(entry["digest"])
    if expected is None:
        return Verdict("different", detail="its outputs were not kept, and their hash is another")
    return _differences(test, expected, got, len(expected) < entry["bytes"])


def _differences(test: Test, expected: bytes, got: bytes, cut: bool) -> Verdict:
    """Where the outputs differ, by the elements of the output buffers."""
    outputs = [argument for argument in test.arguments if argument.output]
    skip = unspecified(test)
    equal = total = 0
    share = 0.0
    said = ""
    base = 0
    for output in outputs:
        if not isinstance(output, Buffer):
            break
        starts = operands.offsets(output.kinds, output.count)
        for number, kind in enumerate(output.kinds):
            size = operands.size_of(kind)
            at = base + starts[number]
            count = min(output.count, max(len(expected) - at, 0) // size)
            if not count:
                continue
            word = np.dtype(f"<u{size}") if size <= 8 else np.dtype(f"V{size}")
            old = np.frombuffer(expected, word, count, at)
            new = np.frombuffer(got, word, count, at)
            same = old == new
            if skip is not None and len(skip) >= count:
                same = same | skip[:count]
            equal, total = equal + int(same.sum()), total + count
            wrong = np.flatnonzero(~same)
            if len(wrong) and test.about.get("approximate"):
                share = max(share, approximations.share(test, number, new, old, wrong))
            if len(wrong) and not said:
                said = _example(test, int(wrong[0]), number, old, new)
        base += starts[-1]
    if not said and (not cut or skip is not None):
        return Verdict("equal", equal, total)
    if not said:
        return Verdict("different", equal, total, "beyond what was kept")
    if test.about.get("approximate") and share <= 1:
        return Verdict("bound", equal, total, said, share)
    if test.group in ("mma", "wmma", "wgmma") and products.within(test, executed, expected, got):
        return Verdict("bound", equal, total, said)
    return Verdict("different", equal, total, said, share)


def _example(test: Test, at: int, number: int, old: Any, new: Any) -> str:
    def shown(value: Any) -> str:
        return bytes(value.tobytes()[::-1]).hex()

    words = f"output {number}[{at}] {shown(new[at])}, the GPU has {shown(old[at])}"
    source = test.arguments[0]
    if not isinstance(source, Buffer) or source.fill not in ("sets", "fragments") or test.registers is None:
        return words
    filled = operands.fragments if source.fill == "fragments" else operands.sets
    inputs = filled(source.kinds, source.count, source.salt)
    given = [f"{kind} {shown(value[at])}" for kind, value in zip(source.kinds, inputs, strict=True)]
    return f"{words}; of {', '.join(given[:8])}"


REASONS = Path(__file__).resolve().parents[2] / "fixtures" / "machine" / "differences.toml"


@cache
def reasons() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Why the machine differs from an H200: a pattern of the names of tests, and the words."""
    listed = tomllib.loads(REASONS.read_text())["difference"]
    return tuple([(re.compile(one["tests"]), one["why"]) for one in listed])


def reason(test: Test) -> str:
    """Why a test may differ; empty if nobody has said."""
    return next((why for pattern, why in reasons() if pattern.search(test.name)), "")


def judge(record: Any, tests: Sequence[Test], options: argparse.Namespace) -> int:
    """Prints for each form what came of its tests, and why they differ; gives the exit status: 1 if something is not explained."""
    if record.machine.get("operands") not in (None, operands.fingerprint()):
        print(f"the record was made with other operands ({record.machine['operands']}, here {operands.fingerprint()})")
        return 2
    begun = time.monotonic()
    by_form: dict[str, list[tuple[Test, Verdict]]] = {}
    for test in tests:
        if options.form and not any(word in test.name or word in test.form for word in options.form):
            continue
        entry = record.tests.get(test.key)
        if entry is None:
            verdict = Verdict("unrecorded", detail="it is not in the record")
        else:
            verdict = compare(test, record, entry, options.machine)
        by_form.setdefault(f"{test.group} {test.form}", []).append((test, verdict))
    counts: Counter[str] = Counter()
    forms: Counter[str] = Counter()
    unexplained = 0
    for name, pairs in sorted(by_form.items()):
        kinds = Counter(verdict.kind for _, verdict in pairs)
        counts.update(kinds)
        judged = [(test, verdict) for test, verdict in pairs if verdict.kind not in ("missing", "unrecorded")]
        worst = next((kind for kind in ("error", "different", "bound", "equal") if kinds[kind]), "not judged")
        forms[worst] += 1
        if worst == "equal" and not options.form:
            continue
        share = sum(verdict.kind == "equal" for _, verdict in judged) / len(judged) if judged else 0
        print(
            f"{name}: {len(pairs)} tests, bit-equal {100 * share:.1f} % "
            f"({', '.join(f'{kind} {count}' for kind, count in sorted(kinds.items()))})"
        )
        largest = max([verdict.share for _, verdict in judged if verdict.kind == "bound"], default=0)
        if largest:
            print(f"    largest error: {largest:.3f} of the manual's bound")
        for why, count in Counter([reason(test) for test, verdict in judged if verdict.kind in ("different", "error")]).items():
            unexplained += count * (not why)
            print(f"    {count}: {why or 'not explained'}")
        shown = 0
        for test, verdict in pairs:
            if verdict.kind in ("equal",) or shown >= min(options.show, 4 if not options.form else options.show):
                continue
            shown += 1
            portion = f" {verdict.equal} of {verdict.total} equal;" if verdict.total else ""
            print(f"    {verdict.kind}: {test.name[:160]}{portion} {verdict.detail}")
    print(f"tests: {dict(counts)}")
    print(f"forms: {dict(forms)}")
    of = sum(forms[kind] for kind in ("equal", "bound", "different", "error"))
    if of:
        print(
            f"forms bit-equal in all their tests: {100 * forms['equal'] / of:.2f} % of {of} that were judged "
            f"({time.monotonic() - begun:.0f} s)"
        )
        approximate, exact = forms["bound"], of - forms["bound"]
        print(f"without the {approximate} that are approximations: {100 * forms['equal'] / max(exact, 1):.2f} % of {exact}")
    print(f"tests that differ and are not explained: {unexplained}")
    if options.json:
        found = {name: [{"test": test.key, **attrs.asdict(verdict)} for test, verdict in pairs] for name, pairs in by_form.items()}
        options.json.write_text(json.dumps(found))
    return int(unexplained > 0)
