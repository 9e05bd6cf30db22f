"""Example launches as a launch file for `ptxkit run`, `profile` and `verify`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ptxkit.analyses.inputs.example import MAPS, Argument, Array, Example, Image, Map, Maps, Number, Structure
from ptxkit.demangling import in_prose, readable
from ptxkit.isa.types import types

_IOTA = 'fill = "iota"'
_FILLS = {"small": 'fill = "random", high = 8'}
_FLOATS = {".f16": "f16", ".bf16": "bf16", ".f32": "f32", ".f64": "f64"}


def text(examples: Iterable[Example], names: str = "", parameters: Mapping[str, Sequence[str]] | None = None, fill: str = "iota") -> str:
    """The launches as TOML. `names` goes into the header comment; `parameters` gives source-level parameter names of each kernel, where
    known; `fill` is the contents of memory, `small` being random numbers below 8."""
    head = f"# written by ptxkit inputs{f' for {names}' if names else ''}: edit it\n"
    tables = "".join([f"\n{_table(one, parameters or {})}" for one in examples])
    return head + tables.replace(_IOTA, _FILLS.get(fill, f'fill = "{fill}"'))


def _table(one: Example, parameters: Mapping[str, Sequence[str]]) -> str:
    said = readable(one.kernel)
    entry = f'entry = "{one.kernel}"' + (f"  # {said}" if said != one.kernel else "")
    lines = ["[[kernel]]", entry, f"grid = {list(one.grid)}", f"block = {list(one.block)}"]
    if one.cluster is not None:
        lines.append(f"cluster = {list(one.cluster)}")
    if one.shared:
        lines.append(f"shared = {one.shared}")
    if one.cooperative:
        lines.append("cooperative = true")
    lines.append("args = [")
    lines += [f"    {_argument(argument)},  # {in_prose(name, [one.kernel], parameters, one.kernel)}" for name, argument in one.arguments]
    return "\n".join([*lines, "]\n"])


def _argument(one: Argument) -> str:
    if isinstance(one, Structure):
        return _structure(one)
    if isinstance(one, Number):
        kind = _type(one.type)
        return f'{{ scalar = "{kind}", value = {float(one.value) if kind in _FLOATS.values() else int(one.value)} }}'
    if isinstance(one, Map):
        return f'{{ tensormap = "{_type(one.type)}", shape = {list(one.shape)}, box = {list(one.box)}, {_IOTA} }}'
    if isinstance(one, Image):
        return f'{{ {"surface" if one.is_surface else "texture"} = "f32", shape = {[64] * min(2, one.dimensions)}, fill = "random" }}'
    if isinstance(one, Maps):
        # launch files cannot express tensor maps in memory: the host has to write them
        return f'{{ buffer = "u64", length = {MAPS * Map.size // 8}, fill = "zeros" }}'
    size = types()[one.type].bytes
    return f'{{ buffer = "{_type(one.type)}", length = {one.count * max(1, size // 8)}, {_IOTA}, output = true }}'


def _structure(one: Structure) -> str:
    """A structure: its bytes, and the arrays that it contains addresses of."""
    data = bytearray(one.size)
    parts = []
    for at, part in one.parts:
        if isinstance(part, Number):
            # the kernel may read beyond the end of the parameter
            data[at : at + part.size] = part.bytes()[: one.size - at]
        elif isinstance(part, Array | Maps):
            parts.append(f"{{ at = {at}, {_argument(part)[2:-2].removesuffix(', output = true')} }}")
    given = f'bytes = "{data.hex()}"'
    return f"{{ {given}, parts = [{', '.join(parts)}] }}" if parts else f"{{ {given} }}"


def _type(kind: str) -> str:
    """A PTX type as in launch files: packed or narrow floats as their bits."""
    if kind in _FLOATS:
        return _FLOATS[kind]
    return f"{'i' if kind.startswith('.s') else 'u'}{8 * min(8, max(1, types()[kind].bytes))}"
