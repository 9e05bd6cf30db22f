"""Tensor maps: the description of a tensor for copies of tiles, as 128 opaque bytes (ISA 5.5.7).

The byte layout is the machine's own; the codes of the fields are those of `tensormap.replace` (ISA 9.7.10.25). All zeros is an unfinished
map in tiled mode, from which programs start that write the fields one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ptxkit.frozen import frozen

SIZE = 128

LAYOUT = np.dtype(
    {
        "names": [
            "global_address", "rank", "elemtype", "interleave_layout", "swizzle_mode", "swizzle_atomicity", "fill_mode", "mode",
            "global_dim", "box_dim", "element_stride", "global_stride", "lower", "upper",
        ],
        "formats": ["<u8", *["u1"] * 7, ("<u4", 5), ("<u4", 5), ("<u4", 5), ("<u8", 4), ("<i2", 3), ("<i2", 3)],
        "offsets": [0, 8, 9, 10, 11, 12, 13, 14, 16, 36, 56, 80, 112, 118],
        "itemsize": SIZE,
    }
)  # fmt: skip
"""`rank` is the number of dimensions minus one. Dimension 0 varies fastest; its stride is the element size and is omitted. In im2col
mode, `box_dim` starts with the channels of a pixel and the pixels of a column; `lower` and `upper` are the corners, W first."""

ELEMENTS = (
    ".u8", ".u16", ".u32", ".s32", ".u64", ".s64", ".f16", ".f32", ".f32.ftz", ".f64", ".bf16", ".tf32", ".tf32.ftz",
    ".b4x16", ".b4x16_p64", ".b6x16_p32",
)  # fmt: skip
"""Element types by their codes."""

PACKED = {".b4x16": (8, 8), ".b4x16_p64": (8, 16), ".b6x16_p32": (12, 16)}
"""Types of which sixteen elements are copied as a unit: its size in global memory, and in shared memory including padding."""
TOGETHER = 16

INTERLEAVES = ("none", "16B", "32B")
SWIZZLES = ("none", "32B", "64B", "128B", "96B")
ATOMICITIES = ("16B", "32B", "32B_flip_8B", "64B")
FILLS = ("zero", "nan")
MODES = ("tile", "im2col", "im2col_w")

_SIZES = {".u8": 1, ".u16": 2, ".f16": 2, ".bf16": 2, ".u64": 8, ".s64": 8, ".f64": 8}
_BY_DTYPE = {
    "uint8": ".u8", "int8": ".u8", "bool": ".u8", "uint16": ".u16", "int16": ".u16", "uint32": ".u32", "int32": ".s32", "uint64": ".u64",
    "int64": ".s64", "float16": ".f16", "float32": ".f32", "float64": ".f64",
}  # fmt: skip


def element_size(type: str) -> int:
    """Size of an element in memory in bytes. Raises KeyError for types that are packed in groups."""
    return 4 if type in (".u32", ".s32", ".f32", ".f32.ftz", ".tf32", ".tf32.ftz") else _SIZES[type]


@frozen(eq=False, kw_only=True)
class TensorMap:
    """A tensor in global memory and the box that copies of it transfer, as a kernel argument of 128 bytes.

    `tensor` is an array, or anything else that the launch can convert to an address; `box` is the part that one copy transfers. Both have
    dimensions in NumPy's order, fastest-varying last, as do `element_strides` and `strides` (in bytes; by default those of the array).
    `type` is a PTX type, by default that of the array.

    In `mode="im2col"`, `box` is `(pixels per column, channels per pixel)`, and `lower` and `upper` are the corners of the bounding box in
    (D, H, W), as far as the tensor has these (ISA 5.5.4).

    Raises ValueError with the reason if the driver would reject the map.
    """

    tensor: Any
    box: Sequence[int]
    shape: Sequence[int] | None = None
    strides: Sequence[int] | None = None
    type: str = ""
    element_strides: Sequence[int] | None = None
    swizzle: str = "none"
    atomicity: str = "16B"
    interleave: str = "none"
    fill: str = "zero"
    mode: str = "tile"
    lower: Sequence[int] = ()
    upper: Sequence[int] = ()

    def __attrs_post_init__(self) -> None:
        self.encoded(0)

    def encode(self, launch: Any) -> bytes:
        """The 128 bytes for a launch, which assigns an array its address (`launch.array(memoryview)`); a `Buffer` or a number already
        has one."""
        address = self.tensor if isinstance(self.tensor, int) else getattr(self.tensor, "address", None)
        return self.encoded(launch.array(memoryview(self.tensor)) if address is None else address)

    def encoded(self, address: int) -> bytes:
        """The 128 bytes for a tensor at an address."""
        shape = tuple(self.shape if self.shape is not None else np.shape(self.tensor))
        type = self.type or _BY_DTYPE.get(str(getattr(self.tensor, "dtype", "")), "")
        size = element_size(type) if type in ELEMENTS[:13] else 1
        strides = self.strides
        if strides is None and self.shape is None:
            strides = getattr(self.tensor, "strides", None)
        if strides is None:
            strides = tuple(size * int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
        return encode(
            address,
            type,
            shape[::-1],
            tuple(strides)[::-1][1:],
            tuple(self.box)[::-1],
            tuple(self.element_strides)[::-1] if self.element_strides is not None else (1,) * len(shape),
            swizzle=self.swizzle,
            atomicity=self.atomicity,
            interleave=self.interleave,
            fill=self.fill,
            mode=self.mode,
            lower=tuple(self.lower)[::-1],
            upper=tuple(self.upper)[::-1],
        )


def encode(
    address: int,
    type: str,
    dims: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    element_strides: Sequence[int],
    *,
    swizzle: str = "none",
    atomicity: str = "16B",
    interleave: str = "none",
    fill: str = "zero",
    mode: str = "tile",
    lower: Sequence[int] = (),
    upper: Sequence[int] = (),
) -> bytes:
    """The 128 bytes of a tensor map. Dimensions are in the driver's order, fastest-varying first, and the stride of the first is omitted.

    Raises ValueError with the reason if the driver would reject the map.
    """
    rank = len(dims)
    _must(type in ELEMENTS, f"the element type must be one of {' '.join(ELEMENTS)}, not {type!r}")
    for name, value, known in (
        ("swizzle", swizzle, SWIZZLES), ("atomicity", atomicity, ATOMICITIES), ("interleave", interleave, INTERLEAVES),
        ("fill", fill, FILLS), ("mode", mode, MODES),
    ):  # fmt: skip
        _must(value in known, f"{name} must be one of {', '.join(known)}, not {value!r}")
    _must(1 <= rank <= 5, f"a tensor has 1 to 5 dimensions, not {rank}")
    _must(len(strides) == rank - 1, f"{rank} dimensions need {rank - 1} strides, not {len(strides)}")
    _must(address % 16 == 0, f"the tensor must be aligned to 16 bytes, and is at {address:#x}")
    _must(all(1 <= d <= 1 << 32 for d in dims), f"every dimension must be between 1 and 2**32: {tuple(dims)}")
    _must(all(0 <= s < 1 << 40 and s % 16 == 0 for s in strides), f"strides must be multiples of 16 bytes below 2**40: {tuple(strides)}")
    _must(len(element_strides) == rank, f"{rank} dimensions need {rank} element strides, not {len(element_strides)}")
    _must(all(1 <= s <= 8 for s in element_strides), f"element strides must be between 1 and 8: {tuple(element_strides)}")
    _must(interleave == "none" or rank >= 3, "an interleaved tensor has at least 3 dimensions")
    if mode == "tile":
        _must(len(box) == rank, f"{rank} dimensions need a box of {rank}, not {len(box)}")
        _must(all(1 <= b <= 256 for b in box), f"every side of a box must be between 1 and 256: {tuple(box)}")
    else:
        _must(rank >= 3, "an im2col tensor has at least 3 dimensions")
        _must(len(box) == 2, "an im2col box is (pixels per column, channels per pixel)")
        _must(1 <= box[0] <= 256 and 1 <= box[1] <= 1024, "channels per pixel must be 1 to 256, pixels per column 1 to 1024")
        wanted = rank - 2 if mode == "im2col" else 1
        _must(len(lower) == len(upper) == wanted, f"the corners of the bounding box have {wanted} coordinates")
        bits = {3: 15, 4: 7, 5: 4}[rank]
        _must(all(-(1 << bits) <= c < 1 << bits for c in (*lower, *upper)), f"corners must be between {-(1 << bits)} and {(1 << bits) - 1}")
    if type in PACKED:
        _must(dims[0] % TOGETHER == 0, f"the innermost dimension of {type} must be a multiple of {TOGETHER}, not {dims[0]}")
        _must(box[0] % TOGETHER == 0, f"the innermost side of a box of {type} must be a multiple of {TOGETHER}, not {box[0]}")
    if mode == "tile" or type in ELEMENTS[:13]:
        inner = box[0] * element_size(type) if type in ELEMENTS[:13] else box[0] // TOGETHER * PACKED[type][1]
        _must(inner % 16 == 0, f"the innermost side of the box must be a multiple of 16 bytes, and has {inner}")
        limit = {"32B": 32, "64B": 64, "128B": 128, "96B": 96}.get(swizzle)
        _must(
            limit is None or inner <= limit or interleave != "none",
            f"with a swizzle of {limit} bytes the innermost side of the box must not exceed them, and has {inner}",
        )
    found = np.zeros((), LAYOUT)
    found["global_address"], found["rank"], found["elemtype"] = address, rank - 1, ELEMENTS.index(type)
    found["interleave_layout"], found["swizzle_mode"] = INTERLEAVES.index(interleave), SWIZZLES.index(swizzle)
    found["swizzle_atomicity"], found["fill_mode"], found["mode"] = ATOMICITIES.index(atomicity), FILLS.index(fill), MODES.index(mode)
    found["global_dim"][:rank] = [d & 0xFFFFFFFF for d in dims]
    found["box_dim"][: len(box)] = box
    found["element_stride"][:rank] = element_strides
    found["global_stride"][: rank - 1] = strides
    found["lower"][: len(lower)] = lower
    found["upper"][: len(upper)] = upper
    return found.tobytes()


def _must(holds: bool, reason: str) -> None:
    if not holds:
        raise ValueError(f"no such tensor map: {reason}")


@frozen
class Described:
    """A tensor map as read from memory, with dimensions in the driver's order. For a packed type, an element is a unit of `TOGETHER`
    driver elements."""

    address: int
    type: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    """In bytes, including dimension 0."""
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: str
    atomicity: str
    interleave: str
    nan: bool
    mode: str
    lower: tuple[int, ...]
    upper: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def size(self) -> int:
        """Size in bytes, in global memory, of an element or of a unit of packed elements."""
        return PACKED[self.type][0] if self.type in PACKED else element_size(self.type)

    @property
    def spread_size(self) -> int:
        """The same in shared memory."""
        return PACKED[self.type][1] if self.type in PACKED else element_size(self.type)


def described(raw: bytes) -> Described:
    """Decodes a tensor map. Raises ValueError with the reason if it is invalid."""
    found = np.frombuffer(raw, LAYOUT)[0]
    rank = int(found["rank"]) + 1
    for name, known in (
        ("elemtype", ELEMENTS), ("interleave_layout", INTERLEAVES), ("swizzle_mode", SWIZZLES), ("swizzle_atomicity", ATOMICITIES),
        ("fill_mode", FILLS), ("mode", MODES),
    ):  # fmt: skip
        _must(int(found[name]) < len(known), f"its {name} is {int(found[name])}")
    _must(rank <= 5, f"its rank is {rank}")
    type, mode = ELEMENTS[int(found["elemtype"])], MODES[int(found["mode"])]
    box = tuple(found["box_dim"][: rank if mode == "tile" else 2].tolist())
    steps = tuple(found["element_stride"][:rank].tolist())
    _must(all(box), "a side of its box is 0")
    _must(all(steps), "an element stride is 0")
    dims = tuple(d or 1 << 32 for d in found["global_dim"][:rank].tolist())
    if type in PACKED:
        _must(dims[0] % TOGETHER == 0 and box[0] % TOGETHER == 0, f"its innermost sides are not of groups of {TOGETHER} elements")
        dims, box = (dims[0] // TOGETHER, *dims[1:]), (box[0] // TOGETHER, *box[1:])
    size = PACKED[type][0] if type in PACKED else element_size(type)
    corners = rank - 2 if mode == "im2col" else 1 if mode == "im2col_w" else 0
    return Described(
        int(found["global_address"]),
        type,
        dims,
        (size, *found["global_stride"][: rank - 1].tolist()),
        box,
        steps,
        SWIZZLES[int(found["swizzle_mode"])],
        ATOMICITIES[int(found["swizzle_atomicity"])],
        INTERLEAVES[int(found["interleave_layout"])],
        FILLS[int(found["fill_mode"])] == "nan",
        mode,
        tuple(found["lower"][:corners].tolist()),
        tuple(found["upper"][:corners].tolist()),
    )
