"""The launch for `verify` from its options: parameters by name, arrays, tensor maps, and synthesized values for the rest."""

from __future__ import annotations

import difflib
import json
import math
import os
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from ptxkit.frozen import frozen
from ptxkit.memo import expression

if TYPE_CHECKING:
    from ptxkit.analyses.execution.contents import Part
    from ptxkit.analyses.execution.launch import Argument, Held, Launch, Shape
    from ptxkit.analyses.execution.parameters import Parameter
    from ptxkit.analyses.framework.routine import Routine
    from ptxkit.rewriters.profiling.launch import Launch as Described
    from ptxkit.syntax import Module

_FLOAT = expression(r"[-+]?(\d+\.\d*|\.\d+|\d+(?=e))(e[-+]?\d+)?")
DYNAMIC = 32 << 10
"""Default bytes of dynamic shared memory."""
SWIZZLES = ("none", "32B", "64B", "128B")


class CannotLaunch(Exception):
    """Options that do not describe a launch of the kernel."""


@frozen
class Options:
    """The launch options on the command line."""

    block: str
    grid: str = "1"
    cluster: str | None = None
    shared: int | None = None
    parameters: tuple[str, ...] = ()
    arrays: tuple[str, ...] = ()
    memory: tuple[str, ...] = ()
    boxes: str | None = None
    assumptions: tuple[str, ...] = ()


def names_of(module: Module, kernel: Routine) -> tuple[str, ...]:
    """The names of a kernel's parameters: as in the source if there is debug information, otherwise as in the PTX.

    Compilers write `KERNEL_param_0`, which is shortened to `param_0`.
    """
    from ptxkit.debug_info import parameter_names

    declared = [parameter.name for parameter in kernel.function.header.parameters]
    known = parameter_names(module).get(kernel.name, ())
    own = [name.removeprefix(f"{kernel.name}_") if name == f"{kernel.name}_param_{i}" else name for i, name in enumerate(declared)]
    return tuple([known[i] if i < len(known) and known[i] else name for i, name in enumerate(own)])


def of_options(module: Module, kernel: Routine, options: Options) -> Launch:
    """The launch that the options describe; the rest is synthesized. Raises CannotLaunch."""
    from ptxkit.analyses.execution.launch import Launch, Variable
    from ptxkit.analyses.execution.parameters import parameters, states, variables
    from ptxkit.analyses.inputs.decisions import choices, decisions
    from ptxkit.analyses.inputs.reached import has_dynamic_shared
    from ptxkit.analyses.inputs.shapes import Shape
    from ptxkit.analyses.launch.launch import is_cooperative

    grid, block = shape("grid", options.grid), shape("block", options.block)
    cluster = shape("cluster", options.cluster) if options.cluster is not None else None
    threads = math.prod(grid) * math.prod(block)
    given = _Given(parameters(kernel), names_of(module, kernel), (*variables(kernel), *states(kernel)))
    arguments = tuple(_with_roles(kernel, Shape(block, grid, cluster), given.arguments(options, threads)))
    held = tuple(given.held())
    said = {one.name for one in held}
    rest = [Variable(one.name, one.made_up(threads)) for one in variables(kernel) if one.name not in said]
    shared = options.shared
    is_made_up = shared is None and has_dynamic_shared(kernel)
    if shared is None:
        shared = DYNAMIC if is_made_up else 0
    likely, free = Shape(block, grid, cluster), _free(arguments)
    decided, may_be = decisions(kernel, likely, free), choices(kernel, likely, free)
    other = tuple([Variable(one.name, one.made_up(threads)) for one in states(kernel) if one.name not in said])
    together = is_cooperative(kernel)
    return Launch(kernel.name, grid, block, arguments, cluster, shared, tuple(rest), decided, may_be, other, is_made_up, together, held)


def _with_roles(kernel: Routine, shape: Any, arguments: Sequence[Argument]) -> Iterator[Argument]:
    """The arguments: a suitable map for each missing tensor map, and for numbers the role that the kernel gives them."""
    from ptxkit.analyses.execution.launch import MadeUp
    from ptxkit.analyses.inputs.begins import begins_of_planes
    from ptxkit.analyses.inputs.launches import example
    from ptxkit.analyses.inputs.parameters import Role, parameters

    planes = sorted(begins_of_planes(kernel))
    likely = example(kernel, shape).launch.arguments
    for one, argument, made in zip(parameters(kernel), arguments, likely, strict=True):
        is_map = any(slot.role is Role.TENSOR_MAP for slot in one.slots)
        if is_map and argument.made_up:
            yield made
        elif isinstance(argument, MadeUp):
            counts = tuple([(slot.offset, slot.size, slot.width) for slot in one.slots if slot.role is Role.COUNT])
            strides = tuple([(slot.offset, slot.size) for slot in one.slots if slot.role is Role.STRIDE])
            fixed = tuple([(slot.offset, slot.size, slot.value) for slot in one.slots if slot.value is not None])
            added = [slot for slot in one.slots if slot.role is Role.NUMBER and (one.name, slot.offset, slot.size) in planes]
            apart = tuple([(slot.offset, slot.size, 1 + planes.index((one.name, slot.offset, slot.size))) for slot in added])
            yield attrs.evolve(argument, counts=counts, strides=strides, fixed=fixed, planes=apart)
        else:
            yield argument


def _free(arguments: Sequence[Argument]) -> frozenset[Part]:
    """The word-sized parts of arguments that are numbers and were not given."""
    from ptxkit.analyses.execution.launch import MadeUp

    return frozenset(
        [
            (number, at, size)
            for number, one in enumerate(arguments)
            if isinstance(one, MadeUp) and not one.is_float
            for size in (1, 2, 4, 8)
            for at in range(0, one.size, size)
            if at not in {*one.pointers, *dict(one.functions), *dict(one.given), *[image.at for image in one.images]}
        ]
    )


def of_description(kernel: Routine, described: Described) -> Launch:
    """A launch from a launch file. Raises CannotLaunch if it does not match the kernel."""
    from ptxkit.analyses.execution.launch import Launch, Variable
    from ptxkit.analyses.execution.parameters import parameters, states, variables
    from ptxkit.analyses.launch.launch import is_cooperative

    sizes = [one.size for one in parameters(kernel)]
    mismatch = described.mismatch(sizes)
    if mismatch is not None:
        raise CannotLaunch(mismatch)
    arguments = tuple([_described(described, i) for i in range(len(described.arguments))])
    rest = tuple([Variable(one.name, one.made_up(described.threads)) for one in variables(kernel)])
    cluster, shared, together = described.cluster, described.shared, is_cooperative(kernel)
    other = tuple([Variable(one.name, one.made_up(described.threads)) for one in states(kernel)])
    return Launch(kernel.name, described.grid, described.block, arguments, cluster, shared, rest, states=other, cooperative=together)


def _described(described: Described, number: int) -> Argument:
    from ptxkit.analyses.execution.launch import Given
    from ptxkit.rewriters.profiling.execution import made

    return Given(lambda: made(described, number)[0])


def shape(what: str, text: str) -> Shape:
    """Parses one to three numbers. Raises CannotLaunch."""
    parts = text.replace("x", ",").split(",")
    if not 1 <= len(parts) <= 3 or not all(part.strip().isascii() and part.strip().isdigit() and int(part) > 0 for part in parts):
        raise CannotLaunch(f"--{what} takes one to three numbers above 0, such as 128,1,1; not {text!r}")
    x, y, z = [*map(int, parts), 1, 1][:3]
    if what == "block" and x * y * z > 1024:
        raise CannotLaunch(f"a CTA has at most 1024 threads, not {x * y * z}")
    if what == "cluster" and x * y * z > 16:
        raise CannotLaunch(f"a cluster has at most 16 CTAs, not {x * y * z}")
    return x, y, z


def _memory_of_computer() -> int:
    """The bytes of physical memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class _Given:
    """The arguments given by options, by parameter, and what options say of variables of the module, which follow the parameters."""

    def __init__(self, known: Sequence[Parameter], names: Sequence[str], variables: Sequence[Parameter]) -> None:
        self.count = len(known)
        self.known = (*known, *variables)
        self.names = (*names, *[one.name for one in variables])
        self.numbers: dict[int, dict[int, float]] = {}
        self.makers: dict[int, Callable[[], Any]] = {}
        self.distinct: set[int] = set()

    def arguments(self, options: Options, threads: int) -> tuple[Argument, ...]:
        from ptxkit.analyses.execution.launch import Given

        for text in options.parameters:
            self._number(text)
        for text in options.arrays:
            self._array(text)
        for text in options.memory:
            self._memory(text, threads)
        self._maps(options.boxes)
        for text in options.assumptions:
            self._assume(text)
        found: list[Argument] = []
        for i, one in enumerate(self.known[: self.count]):
            if i in self.makers:
                found.append(Given(self.makers[i]))
            elif i in self.numbers and one.size <= 8:
                found.append(Given(_constant(self._part(i, self.numbers[i].get(0, 0), one.size))))
            elif i in self.numbers:
                found.append(attrs.evolve(one.made_up(threads), given=tuple(self._parts(i))))
            else:
                found.append(attrs.evolve(one.made_up(threads), is_distinct=i in self.distinct))
        return tuple(found)

    def held(self) -> Iterator[Held]:
        """What the options say of variables of the module. Raises CannotLaunch if that does not fit one."""
        from ptxkit.analyses.execution.launch import Held

        for i, one in enumerate(self.known[self.count :], self.count):
            if i in self.makers:
                if one.pointers or one.images or one.functions:
                    raise CannotLaunch(f"{one.name} holds addresses, which cannot be given")
                yield Held(one.name, self._bytes(i))
            elif i in self.numbers and one.size <= 8:
                yield Held(one.name, _constant(self._part(i, self.numbers[i].get(0, 0), one.size)))
            elif i in self.numbers:
                yield from [Held(one.name, _constant(part), at) for at, part in self._parts(i)]

    def _bytes(self, number: int) -> Callable[[], bytes]:
        """The contents of a variable. Raises CannotLaunch if it has less room."""
        import numpy as np

        one, made = self.known[number], np.ascontiguousarray(self.makers[number]()).tobytes()
        if len(made) > one.size:
            raise CannotLaunch(f"{one.name} has {one.size} bytes, and is given {len(made)}")
        return _constant(made)

    def _parts(self, number: int) -> list[tuple[int, bytes]]:
        """The numbers that are given for parts of a parameter or variable: offset and encoding, in order."""
        size = self.known[number].size
        found = [
            (at, self._part(number, value, 4 if size - at < 8 or abs(value) < 1 << 31 else 8)) for at, value in self.numbers[number].items()
        ]
        return sorted(found)

    def _which(self, name: str, what: str) -> list[int]:
        """The parameters that a name denotes: its source name, its name in the PTX, its number, or `*` for all; or the variable of the
        module with this name. Raises CannotLaunch."""
        name = name.strip()
        if name == "*":
            return list(range(self.count))
        for i, one in enumerate(self.known):
            if name in (self.names[i], one.name):
                return [i]
        if name.isdecimal() and int(name) < self.count:
            return [int(name)]
        close = difflib.get_close_matches(name, self.names, 1, 0.4)
        hint = f", did you mean {close[0]!r}?" if close else ";"
        raise CannotLaunch(f"{what}: there is no parameter {name!r}{hint} there are {', '.join(self.names) or 'none'}")

    def _number(self, text: str) -> None:
        name, equals, number = text.partition("=")
        name, _, offset = name.partition("+")
        try:
            value = float(number) if _FLOAT.fullmatch(number.strip()) else int(number, 0)
            at = int(offset, 0) if offset else 0
        except ValueError:
            equals = ""
        if not equals or not name.strip():
            raise CannotLaunch(f"--param takes NAME=NUMBER, not {text!r}")
        for i in self._which(name, "--param"):
            if name.strip() == "*" and (i in self.numbers or not self.known[i].is_number):
                continue
            if at and at >= self.known[i].size:
                raise CannotLaunch(f"--param: {self.names[i]} has {self.known[i].size} bytes, and none at {at}")
            self.numbers.setdefault(i, {})[at] = value

    def _part(self, number: int, value: float, size: int) -> bytes:
        """The encoding of a number in `size` bytes. Raises CannotLaunch if it does not fit."""
        if isinstance(value, float) or self.known[number].is_float:
            return struct.pack({2: "<e", 4: "<f", 8: "<d"}.get(size, "<f"), value)
        if not -(1 << 8 * size - 1) <= value < 1 << 8 * size:
            raise CannotLaunch(f"--param: {value} does not fit {self.names[number]}, which has {size} bytes")
        return (value % (1 << 8 * size)).to_bytes(size, "little")

    def _array(self, text: str) -> None:
        """NAME=TYPE:COUNT[:zeros|ones|iota|random|VALUE|FILE]."""
        from ptxkit.rewriters.profiling.array_files import BadFile, shape_of_file
        from ptxkit.rewriters.profiling.elements import SIZES
        from ptxkit.rewriters.profiling.launch import Array
        from ptxkit.rewriters.profiling.launch import Launch as Described

        name, _, said = text.partition("=")
        parts = said.split(":", 2)
        if len(parts) < 2 or parts[0] not in SIZES or not (parts[1].isdecimal() or parts[1] == ""):
            raise CannotLaunch(f"--array takes NAME=TYPE:COUNT, such as a=f32:4096, a=i32:100:zeros or a=f32::a.npy; not {text!r}")
        fill = parts[2] if len(parts) > 2 else "random"
        count = int(parts[1]) if parts[1] else 0
        if count * SIZES[parts[0]] > _memory_of_computer():
            raise CannotLaunch(f"--array: {count} x {parts[0]} are more bytes than this computer has memory")
        array = Array(parts[0], (count,))
        if fill in ("zeros", "ones", "iota", "random"):
            array = attrs.evolve(array, fill=fill)
        elif re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", fill):
            array = attrs.evolve(array, value=float(fill) if parts[0].startswith(("f", "b")) else int(float(fill)))
        else:
            try:
                array = attrs.evolve(array, file=fill, shape=shape_of_file(fill, parts[0]))
            except (OSError, BadFile) as error:
                raise CannotLaunch(f"--array: {fill}: {getattr(error, 'strerror', None) or error}") from None
        for i in self._which(name, "--array"):
            described = Described("", (1, 1, 1), (1, 1, 1), (array,), seed=i)
            self.makers[i] = _maker(described)

    def _memory(self, text: str, threads: int) -> None:
        """NAME=N[:S]: 4-byte words, starting at N, each S more than the previous one."""
        name, _, said = text.partition("=")
        first, _, step = said.partition(":")
        try:
            numbers = int(first, 0), int(step or "0", 0)
        except ValueError:
            raise CannotLaunch(f"--memory takes NAME=NUMBER or NAME=NUMBER:STEP, not {text!r}") from None
        for i in self._which(name, "--memory"):
            one = self.known[i]
            if i not in self.makers and (one.pointers or i >= self.count):
                self.makers[i] = _words(numbers, one.made_up(threads).room if i < self.count else one.size)

    def _assume(self, text: str) -> None:
        """distinct:NAME: the words of an array that was not given differ."""
        what, _, name = text.partition(":")
        if what != "distinct" or not name.strip():
            raise CannotLaunch(f"--assume takes distinct:NAME, not {text!r}")
        for i in self._which(name, "--assume"):
            if i >= self.count or not self.known[i].pointers or i in self.makers:
                why = "its contents were given" if i in self.makers else "it is not an array"
                raise CannotLaunch(f"--assume: nothing can be assumed about {self.names[i]}: {why}")
            self.distinct.add(i)

    def _maps(self, path: str | None) -> None:
        """The tensor maps that a file describes by their boxes."""
        if path is None:
            return
        try:
            said = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise CannotLaunch(f"{path}: {getattr(error, 'strerror', None) or error}") from None
        if not isinstance(said, dict):
            raise CannotLaunch(f"{path}: an object is needed, with tensor maps as its keys")
        for name, box in said.items():
            for i in self._which(name, path):
                self.makers[i] = _tensor_map(path, name, box)


def _constant(data: bytes) -> Callable[[], bytes]:
    return lambda: data


def _maker(described: Described) -> Callable[[], Any]:
    from ptxkit.rewriters.profiling.execution import made

    return lambda: made(described, 0)[0]


def _words(numbers: tuple[int, int], room: int) -> Callable[[], Any]:
    def make() -> Any:
        import numpy as np

        first, step = numbers
        return (np.arange(room // 4, dtype=np.int64) * step + first).astype(np.uint32)

    return make


def _tensor_map(path: str, name: str, box: Any) -> Callable[[], Any]:
    """A tensor of eight boxes in each dimension, and its map. Raises CannotLaunch for an invalid box."""
    if not isinstance(box, dict) or not isinstance(box.get("box"), list) or not box["box"]:
        raise CannotLaunch(f'{path}: {name!r} needs {{"box": [64, 32], "type": "f16"}}')
    sizes, kind, swizzle = box["box"], str(box.get("type", "f16")), box.get("swizzle", "none")
    bits = {"bf16": "u2", **{f"{letter}{bits}": f"{letter}{bits // 8}" for letter in "iuf" for bits in (8, 16, 32, 64)}}
    if kind not in bits or swizzle not in SWIZZLES or not all(isinstance(size, int) and 0 < size <= 256 for size in sizes):
        raise CannotLaunch(f"{path}: {name!r}: a box of numbers from 1 to 256, a type as f16, a swizzle of {', '.join(SWIZZLES)}")

    def make() -> Any:
        import numpy as np

        from ptxkit import machine

        tensor = np.zeros([size * 8 for size in sizes], bits[kind])
        return machine.TensorMap(tensor=tensor, box=tuple(sizes), swizzle=swizzle, **({"type": ".bf16"} if kind == "bf16" else {}))

    return make
