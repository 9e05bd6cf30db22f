"""Launches described in TOML (docs/profiling.md lists every key)."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ptxkit.diagnostics import Diagnostic, Severity, Span
from ptxkit.rewriters.profiling.array_files import BadFile, shape_of_file
from ptxkit.rewriters.profiling.elements import FLOATS, INTEGERS, SIZES, fits
from ptxkit.rewriters.profiling.launch import Argument, Array, Dimensions, Launch, Raw, Scalar
from ptxkit.rewriters.profiling.locating import Key, line_and_column, nearest, offsets

FILLS = ("zeros", "ones", "iota", "random")
COMPARISONS = ("bits", "sorted", "none")
SWIZZLES = ("none", "32B", "64B", "128B")
TENSOR_TYPES = ("u8", "u16", "u32", "i32", "u64", "i64", "f16", "f32", "f64", "bf16")
TEXTURE_TYPES = ("i32", "u32", "f32")
MOST_BYTES = 1 << 36
MOST_THREADS = 1024


class BadLaunch(Exception):
    """An invalid description of launches; `diagnostics` say where and why, `text` is the input."""

    def __init__(self, diagnostics: Sequence[Diagnostic], text: str = "") -> None:
        first = diagnostics[0]
        super().__init__(f"{first.path or 'launch'}:{first.span.line}:{first.span.column}: {first.message}")
        self.diagnostics = tuple(diagnostics)
        self.text = text


def read(path: str) -> tuple[Launch, ...]:
    """The launches that a file describes. Raises OSError, or BadLaunch with every mistake found."""
    data = Path(path).read_bytes()
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode(errors="replace")
        raise BadLaunch([_finding(path, before, len(before), "this is not UTF-8")], before) from None
    return parse(text, path)


def parse(text: str, path: str | None = None) -> tuple[Launch, ...]:
    """The launches that a text describes; files that it names are relative to `path`. Raises BadLaunch."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadLaunch([_syntax(path, text, str(error))], text) from None
    except RecursionError:
        raise BadLaunch([_finding(path, text, 0, "it nests too deep")], text) from None
    reader = _Reader(Path(path).parent if path and path != "-" else Path())
    launches = reader.launches(values)
    if reader.mistakes:
        found = offsets(text)
        findings = [_finding(path, text, nearest(found, key), message) for key, message in reader.mistakes]
        raise BadLaunch(sorted(findings, key=lambda finding: finding.span.start), text)
    return launches


def _finding(path: str | None, text: str, at: int, message: str) -> Diagnostic:
    line, column = line_and_column(text, at)
    end = at + 1
    while end < len(text) and (text[end].isalnum() or text[end] in "_-."):
        end += 1
    return Diagnostic("X002", "launch-description", Severity.ERROR, message, Span(at, end, line, column, line, column + end - at), path)


def _syntax(path: str | None, text: str, message: str) -> Diagnostic:
    """A diagnostic for a message of tomllib, which ends in `(at line 3, column 5)` or `(at end of document)`."""
    said, _, position = message.rpartition(" (at ")
    numbers = [int(word) for word in position.replace(",", " ").rstrip(")").split() if word.isdecimal()]
    at = len(text)
    if len(numbers) == 2:
        at = sum([len(line) + 1 for line in text.split("\n")[: numbers[0] - 1]]) + numbers[1] - 1
    return _finding(path, text, min(at, len(text)), said or message)


class _Reader:
    """Converts the values in the file to launches, and collects mistakes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mistakes: list[tuple[Key, str]] = []

    def launches(self, values: dict[str, Any]) -> tuple[Launch, ...]:
        self._known((), values, {"kernel"})
        tables = values.get("kernel", [])
        tables = [tables] if isinstance(tables, dict) else tables
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            self._wrong(("kernel",), "`kernel` must be a table: [[kernel]]")
            return ()
        if not tables and not self.mistakes:
            self._wrong((), "there is no [[kernel]]")
        single = isinstance(values.get("kernel"), dict)
        found = [self._launch(("kernel",) if single else ("kernel", i), table) for i, table in enumerate(tables)]
        return tuple([launch for launch in found if launch is not None])

    def _launch(self, at: Key, table: dict[str, Any]) -> Launch | None:
        before = len(self.mistakes)
        known = {"file", "entry", "grid", "block", "cluster", "shared", "cooperative", "seed", "args", "exact", "note"}
        self._known(at, table, known)
        kernel = self._text(at, table, "entry")
        grid = self._dimensions(at, table, "grid")
        block = self._dimensions(at, table, "block")
        cluster = self._dimensions(at, table, "cluster") if "cluster" in table else None
        if block is not None and math.prod(block) > MOST_THREADS:
            self._wrong((*at, "block"), f"a block has at most {MOST_THREADS} threads, this one {math.prod(block)}")
        if cluster is not None and grid is not None and any(whole % part for whole, part in zip(grid, cluster, strict=True)):
            self._wrong((*at, "cluster"), "the grid is not a whole number of clusters")
        shared = self._whole(at, table, "shared", 0, 0, 1 << 20)
        seed = self._whole(at, table, "seed", 0, 0, 2**63)
        cooperative = self._flag(at, table, "cooperative")
        given = table.get("args", [])
        if not isinstance(given, list):
            self._wrong((*at, "args"), "`args` must be an array")
            given = []
        arguments = [self._argument((*at, "args", i), one) for i, one in enumerate(given)]
        file = self._text(at, table, "file") if "file" in table else None
        if len(self.mistakes) > before or kernel is None or grid is None or block is None:
            return None
        made = tuple([argument for argument in arguments if argument is not None])
        return Launch(kernel, grid, block, made, cluster, shared, cooperative, seed, file)

    def _argument(self, at: Key, given: Any) -> Argument | None:
        if isinstance(given, int | float) and not isinstance(given, bool):
            self._wrong(at, f'a number must have a type: {{ scalar = "i32", value = {given} }}')
            return None
        if not isinstance(given, dict):
            self._wrong(at, "an argument must be a table such as { scalar = … }, { buffer = … }, { bytes = … } or { tensormap = … }")
            return None
        kinds = [word for word in ("scalar", "buffer", "bytes", "tensormap", "texture", "surface") if word in given]
        if len(kinds) != 1:
            self._wrong(at, "an argument must have one of `scalar`, `buffer`, `bytes`, `tensormap`, `texture` or `surface`")
            return None
        if kinds[0] == "bytes":
            return self._raw(at, given)
        if kinds[0] == "scalar":
            return self._scalar(at, given)
        return self._array(at, given, kinds[0])

    def _raw(self, at: Key, given: dict[str, Any]) -> Raw | None:
        self._known(at, given, {"bytes", "parts"})
        text = self._text(at, given, "bytes")
        if text is None:
            return None
        try:
            data = bytes.fromhex(text)
        except ValueError:
            self._wrong((*at, "bytes"), "`bytes` must be in hexadecimal, two digits a byte")
            return None
        parts = given.get("parts", [])
        if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
            self._wrong((*at, "parts"), "`parts` must be an array of tables such as { at = 8, buffer = … }")
            return None
        found = [self._part((*at, "parts", n), part, len(data)) for n, part in enumerate(parts)]
        return Raw(data, tuple([part for part in found if part is not None]))

    def _part(self, at: Key, given: dict[str, Any], size: int) -> tuple[int, Array] | None:
        """An array whose address is part of a struct."""
        if "buffer" not in given:
            self._wrong(at, "a part of a struct must be a `buffer`")
            return None
        offset = self._whole(at, given, "at", 0, 0, size - 8) if size >= 8 else 0
        array = self._array(at, {name: value for name, value in given.items() if name != "at"}, "buffer")
        return None if array is None else (offset, array)

    def _scalar(self, at: Key, given: dict[str, Any]) -> Scalar | None:
        self._known(at, given, {"scalar", "value", "count"})
        kind = self._one_of(at, given, "scalar", tuple(SIZES))
        if "value" not in given:
            self._wrong((*at, "scalar"), "a scalar must have a `value`")
            return None
        value = self._number((*at, "value"), given["value"], kind) if kind else None
        return None if kind is None or value is None else Scalar(kind, value)

    def _array(self, at: Key, given: dict[str, Any], word: str) -> Array | None:
        before = len(self.mistakes)
        known = {word, "length", "shape", "fill", "value", "low", "high", "seed", "path"}
        known |= {"output", "compare", "atol", "rtol"} if word in ("buffer", "tensormap") else set()
        self._known(at, given, known | ({"box", "swizzle"} if word == "tensormap" else set()))
        types = {"buffer": tuple(SIZES), "tensormap": TENSOR_TYPES}.get(word, TEXTURE_TYPES)
        kind = self._one_of(at, given, word, types)
        if kind is None:
            return None
        file = self._file(at, given)
        shape = self._shape(at, given, kind, file)
        sources = [source for source in ("fill", "value", "path") if source in given]
        if len(sources) > 1:
            self._wrong((*at, sources[1]), f"`{sources[0]}` and `{sources[1]}` say two things about what is in it")
        fill = self._one_of(at, given, "fill", FILLS) if "fill" in given else "zeros"
        value = self._number((*at, "value"), given["value"], kind) if "value" in given else None
        low, high = self._whole(at, given, "low", 0, -(2**63), 2**64), None
        if "high" in given:
            high = self._whole(at, given, "high", 1, -(2**63), 2**64)
            if high <= low:
                self._wrong((*at, "high"), f"`high` must be more than `low` ({low})")
        seed = self._whole(at, given, "seed", 0, 0, 2**63) if "seed" in given else None
        compare = self._one_of(at, given, "compare", COMPARISONS) if "compare" in given else "bits"
        atol, rtol = self._tolerance(at, given, "atol", kind), self._tolerance(at, given, "rtol", kind)
        if (atol or rtol) and compare != "bits":
            self._wrong((*at, "compare"), "a tolerance goes with no other `compare`")
        box, swizzle = self._box(at, given, shape) if word == "tensormap" else (None, "none")
        if word in ("texture", "surface") and shape is not None and len(shape) != 2 and (word == "surface" or len(shape) != 1):
            self._wrong(at, "a texture has one or two dimensions, a surface two")
        output = self._flag(at, given, "output")
        if len(self.mistakes) > before or shape is None or fill is None or compare is None:
            return None
        return Array(kind, shape, fill, value, low, high, seed, file, output, compare, atol, rtol, word, box, swizzle)

    def _shape(self, at: Key, given: dict[str, Any], kind: str, file: str | None) -> tuple[int, ...] | None:
        if "shape" in given and "length" in given:
            self._wrong((*at, "length"), "`shape` and `length` say the same thing twice")
            return None
        if "length" in given:
            shape: tuple[int, ...] = (self._whole(at, given, "length", 0, 0, MOST_BYTES),)
        elif "shape" in given:
            numbers = given["shape"]
            if not isinstance(numbers, list) or not numbers or not all(_is_whole(one) and one >= 0 for one in numbers):
                self._wrong((*at, "shape"), "`shape` must be an array of whole numbers, such as [64, 128]")
                return None
            shape = tuple(numbers)
        elif file is not None:
            return self._shape_of_file(at, file, kind)
        else:
            self._wrong(at, "a buffer must have a `length` or a `shape`")
            return None
        if math.prod(shape) * SIZES[kind] > MOST_BYTES:
            self._wrong((*at, "shape" if "shape" in given else "length"), f"more than {MOST_BYTES >> 30} GiB")
            return None
        if file is not None:
            there = self._shape_of_file(at, file, kind)
            if there is not None and math.prod(there) != math.prod(shape):
                self._wrong((*at, "path"), f"{file} has {math.prod(there)} elements of {kind}, not {math.prod(shape)}")
                return None
        return shape

    def _shape_of_file(self, at: Key, file: str, kind: str) -> tuple[int, ...] | None:
        try:
            return shape_of_file(file, kind)
        except OSError as error:
            self._wrong((*at, "path"), f"{file}: {error.strerror or error}")
            return None
        except BadFile as error:
            self._wrong((*at, "path"), f"{file}: {error}")
            return None

    def _file(self, at: Key, given: dict[str, Any]) -> str | None:
        if "path" not in given:
            return None
        name = self._text(at, given, "path")
        return None if name is None else str(self.folder / name)

    def _box(self, at: Key, given: dict[str, Any], shape: tuple[int, ...] | None) -> tuple[tuple[int, ...] | None, str]:
        swizzle = (self._one_of(at, given, "swizzle", SWIZZLES) if "swizzle" in given else "none") or "none"
        box = given.get("box")
        if not isinstance(box, list) or not box or not all(_is_whole(one) and 1 <= one <= 256 for one in box):
            self._wrong((*at, "box") if "box" in given else at, "a tensor map must have a `box` of numbers from 1 to 256")
            return None, swizzle
        if shape is not None and (len(box) != len(shape) or not 1 <= len(shape) <= 5):
            self._wrong((*at, "box"), f"`box` has {len(box)} dimensions, the tensor {len(shape)}: they must be equal, 1 to 5")
        return tuple(box), swizzle

    def _tolerance(self, at: Key, given: dict[str, Any], word: str, kind: str) -> float:
        if word not in given:
            return 0.0
        value = given[word]
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            self._wrong((*at, word), f"`{word}` must be a number from 0 on")
            return 0.0
        if kind not in FLOATS:
            self._wrong((*at, word), f"integers ({kind}) are compared exactly")
        return float(value)

    def _dimensions(self, at: Key, table: dict[str, Any], word: str) -> Dimensions | None:
        if word not in table:
            self._wrong(at, f"a kernel must have a `{word}`")
            return None
        given = table[word]
        numbers = [given] if _is_whole(given) else given
        if not isinstance(numbers, list) or not 1 <= len(numbers) <= 3 or not all(_is_whole(one) and one > 0 for one in numbers):
            self._wrong((*at, word), f"`{word}` must be one to three numbers from 1 on, such as [8, 1, 1]")
            return None
        x, y, z = (*numbers, 1, 1)[:3]
        if max(y, z) > 65535 or x > 2**31 - 1:
            self._wrong((*at, word), f"`{word}` is too large")
            return None
        return x, y, z

    def _number(self, at: Key, value: Any, kind: str) -> int | float | None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._wrong(at, "this must be a number")
            return None
        if kind in FLOATS:
            if isinstance(value, int) and abs(value) >= 1 << 1023:
                self._wrong(at, f"it does not fit {kind}")
                return None
            if not fits(kind, float(value)):
                self._wrong(at, f"{value} does not fit {kind}")
                return None
            return float(value)
        if not isinstance(value, int):
            self._wrong(at, f"{kind} must be a whole number")
            return None
        size, signed = INTEGERS[kind]
        low, high = (-(1 << size * 8 - 1), (1 << size * 8 - 1) - 1) if signed else (0, (1 << size * 8) - 1)
        if not low <= value <= high:
            self._wrong(at, f"{value} does not fit {kind}")
            return None
        return value

    def _whole(self, at: Key, table: dict[str, Any], word: str, default: int, low: int, high: int) -> int:
        value = table.get(word, default)
        if _is_whole(value) and low <= value <= high:
            return int(value)
        self._wrong((*at, word), f"`{word}` must be a whole number" + (f" from {low} on" if low >= 0 else ""))
        return default

    def _flag(self, at: Key, table: dict[str, Any], word: str) -> bool:
        value = table.get(word, False)
        if not isinstance(value, bool):
            self._wrong((*at, word), f"`{word}` must be true or false")
        return value is True

    def _text(self, at: Key, table: dict[str, Any], word: str) -> str | None:
        value = table.get(word)
        if isinstance(value, str) and value and "\0" not in value:
            return value
        self._wrong((*at, word), f"`{word}` must be a string" if word in table else f"`{word}` is missing")
        return None

    def _one_of(self, at: Key, table: dict[str, Any], word: str, choices: tuple[str, ...]) -> str | None:
        value = table[word]
        if isinstance(value, str) and value in choices:
            return value
        self._wrong((*at, word), f"`{word}` must be one of {', '.join(choices)}")
        return None

    def _known(self, at: Key, table: dict[str, Any], known: set[str]) -> None:
        for word in sorted(table.keys() - known):
            self._wrong((*at, word), f"unknown key `{word}`; the keys here are {', '.join(sorted(known))}")

    def _wrong(self, at: Key, message: str) -> None:
        self.mistakes.append((at, message))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
