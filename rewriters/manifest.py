"""The manifest of an instrumented module, for the program that launches it: its buffers, how it finds them, and the meaning of their bytes.

The module has one additional variable, the *words*: for each region of the buffer, its address and number of rows. If they are zero, as in
a newly loaded module, all probes are disabled. To read what the probes wrote:

    layout = manifest.layout(LaunchShape(grid=(80, 1, 1), block=(100, 1, 1)))
    # allocate layout.bytes on the device, copy layout.image() there,
    # copy layout.words(address) to the variable layout.symbol (cuModuleGetGlobal), launch, copy the buffer back as `data`
    tables = layout.decode(data)

Counts accumulate over all launches from one `image()` to the next.
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

from ptxkit.frozen import frozen

WORDS = 4
"""64-bit words of each region in the module's variable: address, rows of a copy, stride between copies in bytes, 0."""
ALIGN = 128
Value = int | float | str | None
Raw = bytes
Shape = tuple[int, int, int]


@frozen
class ProbeSite:
    """An instruction or a basic block that a probe observes."""

    id: int
    """Its number among all sites of the module, as the device writes it."""
    probe: int
    """The index of the probe in `ProbeManifest.probes`."""
    function: str
    instruction: int
    """Index in its function, from 0 in document order, before instrumentation."""
    block: int
    """The basic block that contains it."""
    line: int
    """Line of the PTX before instrumentation, from 1."""
    column: int
    text: str
    """The instruction as written, on one line."""
    file: str = ""
    """The source file that `.loc` names, if any."""
    source_line: int = 0
    details: Mapping[str, Value] = attrs.field(factory=dict)
    """What the probe knows about it statically, such as the state space and the bytes of an access."""


@frozen
class RefusedSite:
    """A site at which a probe could not be inserted, and why. `instruction` is -1 if a whole function is left out."""

    probe: int
    function: str
    instruction: int
    line: int
    reason: str
    """One word, such as `call-sequence-split`."""
    message: str


@frozen
class Region:
    """Rows in device memory. There may be several copies, to spread the additions of threads over addresses; their contents add up."""

    name: str
    row: int
    """Bytes of a row."""
    rows: int
    """Rows of a copy; if the launch determines them, 0 or an initial guess."""
    per: Literal["module", "warp", "ring"] = "module"
    """`module`: as many rows as `rows`; `warp`: one for each warp of the launch; `ring`: as many as the host provides."""
    copies: int = 1
    header: int = 0
    """Bytes before the rows of each copy; in a ring, the first 8 count all rows that were to be written."""


@frozen
class ProbeUse:
    """A probe that was inserted: its regions, and what is needed to read them."""

    name: str
    options: Mapping[str, str]
    regions: tuple[Region, ...]
    data: Mapping[str, Any] = attrs.field(factory=dict)
    """What its `decode` needs, in JSON types."""


@frozen
class Kernel:
    """An entry of the module with its parameters: name, type, offset and bytes of each."""

    name: str
    parameters: tuple[tuple[str, str, int, int], ...]
    reqntid: tuple[int, ...] = ()


@frozen
class Column:
    """A column of a table: one value for each row, and their unit as text (empty for plain numbers and names)."""

    name: str
    values: Sequence[Value]
    unit: str = ""


@frozen
class Table:
    """The results of a probe: `name` is unique among the tables of a manifest, `columns` have equal length."""

    name: str
    probe: str
    columns: tuple[Column, ...]
    notes: tuple[str, ...] = ()
    """Notes for the reader: rows that did not fit, functions that were left out."""

    def __len__(self) -> int:
        return len(self.columns[0].values) if self.columns else 0

    def column(self, name: str) -> Sequence[Value]:
        """The values of a column. Raises KeyError."""
        found = next((column for column in self.columns if column.name == name), None)
        if found is None:
            raise KeyError(name)
        return found.values

    def as_dict(self) -> dict[str, Sequence[Value]]:
        """The columns by name, as `pandas.DataFrame` accepts them."""
        return {column.name: column.values for column in self.columns}

    def rows(self) -> list[dict[str, Value]]:
        """The rows, each as a dictionary by column name."""
        names = [column.name for column in self.columns]
        return [dict(zip(names, values, strict=True)) for values in zip(*[column.values for column in self.columns], strict=True)]


@frozen
class LaunchShape:
    """The shape of a launch, and the memory that the kernel may access (for the probe `bounds`), as pairs of address and bytes."""

    grid: Shape = (1, 1, 1)
    block: Shape = (1, 1, 1)
    allocations: tuple[tuple[int, int], ...] = ()

    @property
    def blocks(self) -> int:
        return math.prod(self.grid)

    @property
    def warps(self) -> int:
        """Warps in a block, including a partial one."""
        return -(-math.prod(self.block) // 32)


@frozen
class ProbeManifest:
    """A description of what was inserted into a module."""

    symbol: str
    """The module's variable for the words."""
    symbol_bytes: int
    probes: tuple[ProbeUse, ...]
    sites: tuple[ProbeSite, ...]
    refused: tuple[RefusedSite, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    variables: tuple[tuple[str, int], ...] = ()
    """Variables in global memory, with their bytes, that the probe `bounds` cannot locate: the host passes them as allocations."""
    allocations: int = 0
    """Number of allocations for which the words have room, at their end."""
    pinned: bool = False
    """Whether the buffer must be host memory mapped into the device: after a trap, which a probe may cause, no other memory can be read."""
    source: str = ""
    """The path of the file that was instrumented."""

    def layout(self, launch: LaunchShape, *, rows: int | None = None) -> Layout:
        """The layout of the buffer for a launch; `rows` overrides the total number of rows of rings.

        Each copy of a ring has a power of two of rows. Raises ValueError for more allocations than there is room for.
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
        """The manifest that `to_json` wrote. Raises ValueError for other text."""
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


@frozen
class Placed:
    """A region at its location in the buffer of a launch."""

    probe: int
    region: Region
    offset: int
    rows: int
    """Rows of each copy."""
    stride: int
    """Stride between copies in bytes."""


@frozen
class Layout:
    """The buffer of a launch."""

    manifest: ProbeManifest
    launch: LaunchShape
    placed: tuple[Placed, ...]
    bytes: int
    """Size of the buffer in bytes."""

    @property
    def symbol(self) -> str:
        """The module's variable for the words."""
        return self.manifest.symbol

    def image(self) -> Raw:
        """The contents of the buffer before the launch: zeros."""
        return Raw(self.bytes)

    def words(self, address: int) -> Raw:
        """The contents of the module's variable when the buffer is at this device address."""
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
        """The contents of the module's variable that disable the probes."""
        return Raw(self.manifest.symbol_bytes)

    def decode(self, data: Raw) -> tuple[Table, ...]:
        """The results of the probes, from the buffer's bytes after the launch. Raises ValueError if there are too few."""
        if len(data) < self.bytes:
            raise ValueError(f"{len(data)} bytes, and the buffer has {self.bytes}")
        tables: list[Table] = []
        for number, probe in enumerate(self.manifest.probes):
            module = importlib.import_module(f"ptxkit.rewriters.probes.{probe.name.replace('-', '_')}")
            tables += module.decode(Read(self, number, data))
        return tuple(tables)


@frozen
class Read:
    """The input of a probe's `decode`: its regions as read back, and its data in the manifest."""

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
        """Notes about what was left out."""
        refused = [one for one in self.layout.manifest.refused if one.probe == self.number]
        return tuple([f"left out in `{one.function}`, line {one.line}: {one.reason}: {one.message}" for one in refused])

    def placed(self, name: str) -> Placed:
        """A region of the probe by name."""
        return next(one for one in self.layout.placed if one.probe == self.number and one.region.name == name)

    def copies(self, name: str) -> list[tuple[bytes, bytes]]:
        """The header and rows of each copy of a region."""
        one = self.placed(name)
        found = []
        for copy in range(one.region.copies):
            start = one.offset + copy * one.stride
            middle = start + one.region.header
            found.append((self.data[start:middle], self.data[middle : middle + one.rows * one.region.row]))
        return found

    def sums(self, name: str) -> list[int]:
        """The 64-bit counters of a region, summed over its copies."""
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
    """The columns that describe sites."""
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
