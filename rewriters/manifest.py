"""What an instrumented module tells the program that launches it: which buffers it needs, how it finds them, and what their bytes mean.

The module has one variable more, the *words*: for each region of the buffer its address and its number of rows. Zero words, as they are
in a module that was just loaded, switch every probe off. To read what the probes wrote:

    layout = manifest.layout(LaunchShape(grid=(80, 1, 1), block=(100, 1, 1)))
    # allocate layout.bytes on the device, copy layout.image() there,
    # copy layout.words(address) to the variable layout.symbol (cuModuleGetGlobal), launch, copy the buffer back as `data`
    tables = layout.decode(data)

Counts add up over all launches from one `image()` to the next.
"""

from __future__ import annotations

import importlib
import json
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs
import cattrs

WORDS = 4
"""64-bit words of each region in the module's variable: address, rows of a copy, bytes from one copy to the next, 0."""
ALIGN = 128
Value = int | float | str | None
Raw = bytes
Shape = tuple[int, int, int]


@attrs.frozen
class ProbeSite:
    """An instruction or a basic block that a probe looks at."""

    id: int
    """Its number among all sites of the module, as the device writes it."""
    probe: int
    """The number of the probe in `ProbeManifest.probes`."""
    function: str
    instruction: int
    """From 0, in document order in its function, of the module before it was instrumented."""
    block: int
    """The basic block that it is in."""
    line: int
    """From 1, in the PTX before it was instrumented."""
    column: int
    text: str
    """The instruction as written, on one line."""
    file: str = ""
    """The source file that `.loc` names, if it names one."""
    source_line: int = 0
    details: Mapping[str, Value] = attrs.field(factory=dict)
    """What the probe knows of it beforehand, such as the state space and the bytes of an access."""


@attrs.frozen
class RefusedSite:
    """Where a probe was wanted and could not be put in, and why. `instruction` is -1 if a whole function is left out."""

    probe: int
    function: str
    instruction: int
    line: int
    reason: str
    """One word, such as `call-sequence-split`."""
    message: str


@attrs.frozen
class Region:
    """Rows in device memory. There may be several copies, so that not all threads add to one address: what is in them adds up."""

    name: str
    row: int
    """Bytes of a row."""
    rows: int
    """Rows of a copy; where the launch decides, 0, or a first guess that may be overruled."""
    per: Literal["module", "warp", "ring"] = "module"
    """`module`: as many rows as `rows`; `warp`: one for each warp of the launch; `ring`: as many as the host likes to give."""
    copies: int = 1
    header: int = 0
    """Bytes before the rows of each copy; of a ring, the first 8 count all that was to be written."""


@attrs.frozen
class ProbeUse:
    """A probe that was put in: its regions and what it needs to read them."""

    name: str
    options: Mapping[str, str]
    regions: tuple[Region, ...]
    data: Mapping[str, Any] = attrs.field(factory=dict)
    """What its `decode` needs, of JSON's types."""


@attrs.frozen
class Kernel:
    """An entry of the module with its parameters: name, type, offset and bytes of each."""

    name: str
    parameters: tuple[tuple[str, str, int, int], ...]
    reqntid: tuple[int, ...] = ()


@attrs.frozen
class Column:
    """A column of a table: its values, one a row, and their unit in words (empty for numbers and names)."""

    name: str
    values: Sequence[Value]
    unit: str = ""


@attrs.frozen
class Table:
    """What a probe found: `name` is unique among the tables of a manifest, `columns` are equally long."""

    name: str
    probe: str
    columns: tuple[Column, ...]
    notes: tuple[str, ...] = ()
    """In words, what a reader must know: rows that did not fit, functions that are left out."""

    def __len__(self) -> int:
        return len(self.columns[0].values) if self.columns else 0

    def column(self, name: str) -> Sequence[Value]:
        """The values of a column. Raises KeyError."""
        found = next((column for column in self.columns if column.name == name), None)
        if found is None:
            raise KeyError(name)
        return found.values

    def as_dict(self) -> dict[str, Sequence[Value]]:
        """The columns by name: what `pandas.DataFrame` takes."""
        return {column.name: column.values for column in self.columns}

    def rows(self) -> list[dict[str, Value]]:
        """The rows, each a value by column name."""
        names = [column.name for column in self.columns]
        return [dict(zip(names, values, strict=True)) for values in zip(*[column.values for column in self.columns], strict=True)]


@attrs.frozen
class LaunchShape:
    """The shape of a launch, and what memory the kernel may access (for the probe `bounds`), as address and bytes."""

    grid: Shape = (1, 1, 1)
    block: Shape = (1, 1, 1)
    allocations: tuple[tuple[int, int], ...] = ()

    @property
    def blocks(self) -> int:
        return math.prod(self.grid)

    @property
    def warps(self) -> int:
        """Warps of a block: the last one may be part of one."""
        return -(-math.prod(self.block) // 32)


@attrs.frozen
class ProbeManifest:
    """What was put into a module."""

    symbol: str
    """The module's variable that takes the words."""
    symbol_bytes: int
    probes: tuple[ProbeUse, ...]
    sites: tuple[ProbeSite, ...]
    refused: tuple[RefusedSite, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    variables: tuple[tuple[str, int], ...] = ()
    """Variables in global memory, with their bytes, that the probe `bounds` does not know by itself: the host names them as allocations."""
    allocations: int = 0
    """How many allocations the words have room for, at their end."""
    pinned: bool = False
    """Whether the buffer must be host memory that the device sees: after a trap, which a probe may cause, no other memory can be read."""
    source: str = ""
    """The path of the file that was instrumented."""

    def layout(self, launch: LaunchShape, *, rows: int | None = None) -> Layout:
        """Where everything lies for a launch; `rows` is how many rows rings get, in all, if not as many as the probe says.

        Each copy of a ring gets a power of two of them. Raises ValueError for more allocations than there is room for.
        """
        if len(launch.allocations) > self.allocations > 0:
            many, room = len(launch.allocations), self.allocations
            raise ValueError(f"{many} allocations, and the probe has room for {room}: `bounds:allocations=N`")
        placed: list[Placed] = []
        at = 0
        for number, probe in enumerate(self.probes):
            for region in probe.regions:
                count = region.rows
                if region.per == "warp":
                    count = launch.blocks * launch.warps
                elif region.per == "ring":
                    count = max(1, (rows or region.rows * region.copies) // region.copies)
                    count = 1 << count.bit_length() - 1
                stride = _aligned(region.header + count * region.row)
                placed.append(Placed(number, region, at, count, stride))
                at += stride * region.copies
        return Layout(self, launch, tuple(placed), max(at, ALIGN))

    def to_json(self) -> str:
        """The manifest as text, format version 1."""
        return json.dumps({"version": 1, **_converter().unstructure(self)}, indent=1) + "\n"

    @staticmethod
    def from_json(text: str) -> ProbeManifest:
        """The manifest that `to_json` wrote. Raises ValueError for what is none."""
        try:
            found = json.loads(text)
            if found.pop("version") != 1:
                raise ValueError("a manifest of another version")
            return _converter().structure(found, ProbeManifest)
        except (KeyError, AttributeError, TypeError, cattrs.BaseValidationError) as error:
            raise ValueError(f"not a manifest: {error}") from error


def _converter() -> cattrs.Converter:
    converter = cattrs.Converter()
    converter.register_structure_hook(Value, lambda value, _: value)
    return converter


@attrs.frozen
class Placed:
    """A region where it lies in the buffer of a launch."""

    probe: int
    region: Region
    offset: int
    rows: int
    """Rows of each copy."""
    stride: int
    """Bytes from one copy to the next."""


@attrs.frozen
class Layout:
    """The buffer of a launch."""

    manifest: ProbeManifest
    launch: LaunchShape
    placed: tuple[Placed, ...]
    bytes: int
    """How large the buffer is."""

    @property
    def symbol(self) -> str:
        """The variable of the module to which the words go."""
        return self.manifest.symbol

    def image(self) -> Raw:
        """What the buffer holds before the launch: zeros."""
        return Raw(self.bytes)

    def words(self, address: int) -> Raw:
        """What the module's variable must hold when the buffer is at this device address."""
        found: list[int] = []
        for placed in self.placed:
            found += [address + placed.offset, placed.rows, placed.stride, 0]
        words = struct.pack(f"<{len(found)}Q", *found)
        if not self.manifest.allocations:
            return words
        known = [number for one in self.launch.allocations for number in one]
        return words.ljust(self.manifest.symbol_bytes - 16 * self.manifest.allocations, b"\0") + struct.pack(
            f"<{2 * self.manifest.allocations}Q", *known, *[0] * (2 * self.manifest.allocations - len(known))
        )

    def off(self) -> Raw:
        """What the module's variable must hold for the probes to do nothing."""
        return Raw(self.manifest.symbol_bytes)

    def decode(self, data: Raw) -> tuple[Table, ...]:
        """What the probes found, given the buffer's bytes after the launch. Raises ValueError for too few of them."""
        if len(data) < self.bytes:
            raise ValueError(f"{len(data)} bytes, and the buffer has {self.bytes}")
        tables: list[Table] = []
        for number, probe in enumerate(self.manifest.probes):
            module = importlib.import_module(f"ptxkit.rewriters.probes.{probe.name.replace('-', '_')}")
            tables += module.decode(Read(self, number, data))
        return tuple(tables)


@attrs.frozen
class Read:
    """What a probe's `decode` is given: its regions as they were read back, and what it left in the manifest."""

    layout: Layout
    number: int
    data: bytes

    @property
    def use(self) -> ProbeUse:
        return self.layout.manifest.probes[self.number]

    @property
    def sites(self) -> tuple[ProbeSite, ...]:
        """The sites of the probe."""
        return tuple([site for site in self.layout.manifest.sites if site.probe == self.number])

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out, in words."""
        refused = [one for one in self.layout.manifest.refused if one.probe == self.number]
        return tuple([f"left out in `{one.function}`, line {one.line}: {one.reason}: {one.message}" for one in refused])

    def placed(self, name: str) -> Placed:
        """A region of the probe by its name."""
        return next(one for one in self.layout.placed if one.probe == self.number and one.region.name == name)

    def copies(self, name: str) -> list[tuple[bytes, bytes]]:
        """Header and rows of each copy of a region."""
        one = self.placed(name)
        found = []
        for copy in range(one.region.copies):
            start = one.offset + copy * one.stride
            middle = start + one.region.header
            found.append((self.data[start:middle], self.data[middle : middle + one.rows * one.region.row]))
        return found

    def sums(self, name: str) -> list[int]:
        """The 64-bit counters of a region, added up over its copies."""
        one = self.placed(name)
        count = one.rows * one.region.row // 8
        totals = [0] * count
        for _, rows in self.copies(name):
            if rows.count(0) != len(rows):
                totals = [a + b for a, b in zip(totals, struct.unpack(f"<{count}Q", rows), strict=True)]
        return totals

    def table(self, name: str, columns: Mapping[str, Sequence[Value]], units: Mapping[str, str] | None = None, *notes: str) -> Table:
        """A table of these columns."""
        made = tuple([Column(key, values, (units or {}).get(key, "")) for key, values in columns.items()])
        again = sum([one.name == self.use.name for one in self.layout.manifest.probes[: self.number]])
        return Table(f"{name}-{again + 1}" if again else name, self.use.name, made, (*notes, *self.notes))


def site_columns(sites: Sequence[ProbeSite]) -> dict[str, list[Value]]:
    """The columns that say where sites are."""
    return {
        "site": [site.id for site in sites],
        "function": [site.function for site in sites],
        "line": [site.line for site in sites],
        "instruction": [site.text for site in sites],
        "file": [site.file for site in sites],
        "source_line": [site.source_line for site in sites],
    }


def _aligned(size: int) -> int:
    return -(-size // ALIGN) * ALIGN
