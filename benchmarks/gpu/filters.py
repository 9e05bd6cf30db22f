"""What texture units and tensor copies of a GPU do where the manual is silent: weights of filters, faces of cubes, interleaved tensors.

    python benchmarks/gpu/filters.py run FOLDER      # on the machine with the GPU, about a minute; needs ptxas on the PATH

Inputs come from seeds, so a record holds outputs alone: a `.npz` for each experiment. A texel of an image tells by its channel which corner
of a cell it is, so that what is read at a point is the weight of each corner, and that of a cube's image where it lies.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import launcher
import numpy as np
from device_types import Image, Texture

COUNT = 1 << 18
BLOCK = 256
Array = np.ndarray[Any, Any]


@attrs.frozen
class Contents(Image):
    """An image of given texels: an array for each level, with channels as its last axis."""

    extents: tuple[int, int, int] = (0, 0, 0)
    texels: tuple[Any, ...] = attrs.field(default=(), eq=False)

    @property
    def SIZES(self) -> dict[str, tuple[int, int, int]]:  # type: ignore[override]
        return {self.geometry: self.extents}

    def data(self, level: int = 0) -> bytes:
        return bytes(np.ascontiguousarray(self.texels[level]).tobytes())


def image(geometry: str, format: str, *levels: Array) -> Contents:
    """An image of arrays whose axes are z, y, x (as many as there are) and channels."""
    width, height, depth = (*levels[0].shape[-2::-1], 0, 0)[:3]
    return Contents(geometry, format, levels[0].shape[-1], len(levels), extents=(width, height, depth), texels=levels)


# --- kernels ----------------------------------------------------------------------------------------------------------------------

HEADER = ".version 8.0\n.target sm_90a\n.address_size 64\n"


def module(text: str) -> Any:
    """A module that ptxas compiles."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "k.ptx", Path(folder) / "k.cubin"
        source.write_text(HEADER + text)
        subprocess.run(["ptxas", "-arch=sm_90a", str(source), "-o", str(target)], check=True)
        binary = target.read_bytes()
    found = launcher.Pointer()
    launcher.call("cuModuleLoadData", ctypes.byref(found), ctypes.create_string_buffer(binary, len(binary)))
    return found


def launched(text: str, parameters: Sequence[Any], count: int, shared: int = 0) -> None:
    """Launches the kernel `k` of a text once."""
    function = launcher.Pointer()
    launcher.call("cuModuleGetFunction", ctypes.byref(function), module(text), b"k")
    launcher._launch(function, {"grid": [count // BLOCK, 1, 1], "block": [BLOCK, 1, 1], "shared": shared}, list(parameters))


INDEX = """mov.u32 %i, %ctaid.x; mov.u32 %n, %ntid.x; mov.u32 %t, %tid.x; mad.lo.u32 %i, %i, %n, %t;
ld.param.u64 %in, [in]; ld.param.u64 %out, [out];"""


def sampled(textures: Sequence[Texture], inputs: Sequence[Array], type: str = "f32", level: bool = False) -> Any:
    """What textures give at coordinates (the last of the inputs is the level of detail, if any): (textures, lanes, 4)."""
    geometry = textures[0].image.geometry
    count = len(inputs[0])
    axes = len(inputs) - level
    x = [f"%x{n}" for n in range(axes)]
    coordinate = ", ".join([*x, x[-1]] if axes == 3 else x)
    opcode = f"tex{'.level' if level else ''}.{geometry}.v4.{type}.f32"
    body = [INDEX, "mul.wide.u32 %q, %i, 4; add.u64 %in, %in, %q; mul.wide.u32 %q, %i, 16; add.u64 %out, %out, %q;"]
    body += [f"ld.global.f32 {name}, [%in+{4 * count * n}];" for n, name in enumerate([*x, "%lod"][: len(inputs)])]
    for n in range(len(textures)):
        lod = ", %lod" if level else ""
        body.append(f"ld.param.u64 %q, [t{n}]; {opcode} {{%d0, %d1, %d2, %d3}}, [%q, {{{coordinate}}}]{lod};")
        body.append(f"st.global.v4.b32 [%out+{16 * count * n}], {{%d0, %d1, %d2, %d3}};")
    parameters = "".join([f", .param .u64 t{n}" for n in range(len(textures))])
    text = f""".visible .entry k(.param .u64 in, .param .u64 out{parameters}) {{
.reg .b32 %i, %n, %t; .reg .b32 %d<4>; .reg .f32 %x<3>, %lod; .reg .b64 %in, %out, %q;
{chr(10).join(body)}
ret; }}"""
    held = launcher.Held()
    source = held.buffer(np.stack([np.asarray(one, np.float32) for one in inputs]).tobytes())
    target = held.zeros(16 * count * len(textures))
    launched(text, [source, target, *[texture.device(held) for texture in textures]], count)
    found = np.frombuffer(launcher.read(target, 16 * count * len(textures)), np.float32 if type == "f32" else np.uint32)
    held.free()
    return found.reshape(len(textures), count, 4)


# --- experiments ------------------------------------------------------------------------------------------------------------------


def corners(shape: Sequence[int], plane: int) -> Any:
    """Texels (z, y, x, 4): one in the channel of the parities of x and y, where z has the parity `plane`; zeros elsewhere."""
    z, y, x = np.indices(shape)
    channel = (x & 1) | (y & 1) << 1
    return ((channel[..., None] == np.arange(4)) & ((z & 1) == plane)[..., None]).astype(np.float32)


def points(seed: int, axes: int, size: int, steps: int = 256) -> list[Array]:
    """Random coordinates within an image, in texels, as multiples of a step."""
    lot = np.random.default_rng(seed)
    return [lot.integers(2 * steps, (size - 2) * steps, COUNT) / steps for _ in range(axes)]


def weights(found: Array) -> Any:
    """Weights in 1/256: (lanes, corners)."""
    return np.rint(found.transpose(1, 0, 2).reshape(found.shape[1], -1) * 256).astype(np.uint16)


def volumes() -> Any:
    """Weights of the eight texels around a point."""
    textures = [Texture(image("3d", "f32", corners((16, 16, 16), plane)), filter=1) for plane in (0, 1)]
    return weights(sampled(textures, points(1, 3, 16)))


def levels_of_planes() -> Any:
    """Weights of the eight texels around a point in two levels."""
    one, none = (corners((1, 16, 16), 0)[0], corners((1, 8, 8), 0)[0]), (np.zeros((16, 16, 4), np.float32), np.zeros((8, 8, 4), np.float32))
    textures = [
        Texture(image("2d", "f32", base, small), filter=1, normalized=True, mip_filter=1)
        for base, small in ((one[0], none[1]), (none[0], one[1]))
    ]
    lod = np.random.default_rng(20).integers(0, 1025, COUNT) / 1024
    return weights(sampled(textures, [*[one / 16 for one in points(2, 2, 16)], lod], level=True))


def levels_of_volumes() -> Any:
    """Weights of the sixteen texels around a point in two levels."""
    empty = [np.zeros((size, size, size, 4), np.float32) for size in (16, 8)]
    pairs = [(corners((16,) * 3, plane), empty[1]) for plane in (0, 1)] + [(empty[0], corners((8,) * 3, plane)) for plane in (0, 1)]
    textures = [Texture(image("3d", "f32", *pair), filter=1, normalized=True, mip_filter=1) for pair in pairs]
    lod = np.random.default_rng(30).integers(0, 1025, COUNT) / 1024
    return weights(sampled(textures, [*[one / 16 for one in points(3, 3, 16)], lod], level=True))


def noise(shape: Sequence[int], dtype: Any) -> Any:
    """Random bytes as texels of one channel (of four, alike, where the bytes have no sign)."""
    raw = np.random.default_rng(40).integers(0, 256, shape).astype(np.uint8).view(dtype)
    return np.repeat(raw[..., None], 1 if dtype == np.int8 else 4, -1)


def filtered(format: str, dtype: Any, srgb: bool) -> Callable[[], Array]:
    """What a linear filter makes of bytes: between two texels of a row, four of a plane, eight of a volume."""

    def run() -> Any:
        plane = Texture(image("2d", format, noise((128, 128), dtype)), filter=1, srgb=srgb)
        volume = Texture(image("3d", format, noise((32, 32, 32), dtype)), filter=1, srgb=srgb)
        x, y = points(4, 2, 128)
        found = [sampled([plane], [x, np.floor(y) + 0.5]), sampled([plane], [x, y]), sampled([volume], points(5, 3, 32))]
        return np.stack([one[0, :, 0] for one in found])

    return run


def halves() -> Any:
    """What a linear filter makes of half precision of many magnitudes: two texels of a row, four of a plane, eight of a volume."""

    def some(shape: Sequence[int]) -> Any:
        lot = np.random.default_rng(42)
        found = np.ldexp(lot.uniform(-1, 1, shape), lot.integers(-8, 8, shape)).astype(np.float16)
        return np.repeat(found[..., None], 4, -1)

    plane, volume = (Texture(image(f"{len(shape)}d", "f16", some(shape)), filter=1) for shape in ((128, 128), (32, 32, 32)))
    x, y = points(8, 2, 128)
    found = [sampled([plane], [x, np.floor(y) + 0.5]), sampled([plane], [x, y]), sampled([volume], points(9, 3, 32))]
    return np.stack([one[0, :, 0] for one in found])


def fourth() -> Any:
    """What a linear filter makes of the fourth channel of sRGB bytes, and of the third: between two texels of a row, four of a plane."""
    texels = np.random.default_rng(41).integers(0, 256, (128, 128, 4)).astype(np.uint8)
    plane = Texture(image("2d", "u8", texels), filter=1, srgb=True)
    x, y = points(7, 2, 128)
    found = [sampled([plane], [x, np.floor(y) + 0.5]), sampled([plane], [x, y])]
    return np.stack([one[0, :, 2:] for one in found])


def directions() -> list[Array]:
    """Directions into a cube: any, and such as lie between faces or at the edges of texels."""
    lot = np.random.default_rng(6)
    free = lot.uniform(-1, 1, (3, COUNT // 2)).astype(np.float32)
    coarse = (lot.integers(-64, 65, (3, COUNT // 2)) / lot.choice([1, 3, 7, 32, 64], COUNT // 2)).astype(np.float32)
    return list(np.concatenate([free, coarse], 1))


def cubes() -> Any:
    """Where a texel of a cube is that a direction names: face << 16 | y << 8 | x."""
    face, y, x = np.indices((6, 64, 64))
    texels = np.repeat((face << 16 | y << 8 | x).astype(np.uint32)[..., None], 4, -1)
    return sampled([Texture(image("cube", "u32", texels), normalized=True, integers=True)], directions(), "u32")[0, :, 0]


APPROXIMATED: dict[str, tuple[int, int, Callable[[Array], Array]]] = {
    "rcp.approx.ftz.f32": (0x3F800000, 23, np.reciprocal),
    "rsqrt.approx.ftz.f32": (0x3F800000, 24, lambda x: 1 / np.sqrt(x)),
    "ex2.approx.ftz.f32": (0x3F800000, 23, np.exp2),
    "lg2.approx.ftz.f32": (0x3F000000, 24, np.log2),
}
"""The first operand, how many bits of operands follow, and what is approximated."""


def approximated(opcode: str) -> Callable[[], Array]:
    """Of every operand by how many units in the last place a function is off what is nearest (clipped to a byte)."""

    def run() -> Any:
        first, bits, exact = APPROXIMATED[opcode]
        count = 1 << bits
        text = f""".visible .entry k(.param .u64 in, .param .u64 out) {{
.reg .b32 %i, %n, %t; .reg .f32 %x; .reg .b64 %in, %out, %q;
{INDEX} mul.wide.u32 %q, %i, 4; add.u64 %out, %out, %q; add.u32 %i, %i, {first}; mov.b32 %x, %i;
{opcode} %x, %x; st.global.f32 [%out], %x; ret; }}"""
        held = launcher.Held()
        target = held.zeros(4 * count)
        launched(text, [launcher.Address(0), target], count)
        found = np.frombuffer(launcher.read(target, 4 * count), np.int32)
        held.free()
        operands = np.arange(first, first + count, dtype=np.uint32).view(np.float32)
        nearest = exact(operands.astype(np.float64)).astype(np.float32).view(np.int32)
        return np.clip(found.astype(np.int64) - nearest, -127, 127).astype(np.int8)

    return run


EXPERIMENTS: dict[str, Callable[[], Array]] = {
    "volumes": volumes,
    "levels_of_planes": levels_of_planes,
    "levels_of_volumes": levels_of_volumes,
    "signed": filtered("s8", np.int8, False),
    "srgb": filtered("u8", np.uint8, True),
    "halves": halves,
    "fourth": fourth,
    "cubes": cubes,
    **{opcode.partition(".")[0]: approximated(opcode) for opcode in APPROXIMATED},
}


# --- tensor copies: each in a process of its own, since it may fail ----------------------------------------------------------------

ROOM, TILE = 1 << 20, 32 << 10
"""Bytes of a tensor's memory, and of shared memory that a tile may take."""
TYPES = {"u8": 0, "u16": 1, "u32": 2, "f32": 7, "f32_ftz": 10, "tf32": 11, "tf32_ftz": 12}
"""The driver's numbers."""


@attrs.frozen
class Copy:
    """A copy of a box of a tensor to shared memory."""

    type: str
    interleave: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    at: tuple[int, ...]
    swizzle: int = 0
    edges: bool = False
    """Whether the tensor holds floats of all kinds, and not the number of each of its units of 16 bytes."""


def copies() -> list[Copy]:
    """Interleaved tensors of three to five dimensions, and floats that are rounded or flushed."""
    found = []
    sizes, strides = (64, 6, 5, 4, 3), (1024, 8192, 65536, 262144)
    for interleave in (1, 2):
        for type in ("u8", "u32"):
            for rank in (3, 4, 5):
                for box in ((8, 3, 2, 2, 2), (16, 2, 3, 2, 1), (32, 1, 2, 1, 2)):
                    for at in ((0, 0, 0, 0, 0), (8, 1, 2, 1, 1), (16, 4, 4, 3, 2), (-8, -1, 0, -1, 0), (3, 1, 1, 1, 1)):
                        for swizzle in (0,) if interleave == 1 else (1,):
                            found.append(Copy(type, interleave, sizes[:rank], strides[: rank - 1], box[:rank], at[:rank], swizzle))
    for type in ("f32", "f32_ftz", "tf32", "tf32_ftz"):
        found.append(Copy(type, 0, (256, 16), (1024,), (64, 16), (0, 0), edges=True))
    return found


def edges() -> Any:
    """Bits of floats of all kinds: subnormal, halfway between neighbours in fewer bits, infinite, NaN."""
    lot = np.random.default_rng(7)
    some = lot.integers(0, 1 << 32, 4096, np.uint32)
    small = lot.integers(0, 1 << 23, 2048, np.uint32) | lot.integers(0, 2, 2048, np.uint32) << np.uint32(31)
    halfway = (some[:1024] & np.uint32(0xFFFFE000)) | np.uint32(0x1000)
    large = np.uint32(0x7F800000) | (some[:512] & np.uint32(0x807FFFFF))
    single = np.array([0, 1 << 31, 0x7F800000, 0x7F7FFFFF, 1, 0x80000001], np.uint32)
    return np.resize(np.concatenate([some, small, halfway, large, single]), ROOM // 4)


def copied(one: Copy) -> bytes:
    """What is in shared memory a while after the copy began."""
    launcher.start()
    number = TYPES[one.type]
    rank = len(one.dims)
    held = launcher.Held()
    units = np.repeat(np.arange(ROOM // 16, dtype=np.uint32), 4)
    address = held.buffer((edges() if one.edges else units).tobytes())
    room = (ctypes.c_char * 192)()
    made = (ctypes.c_char * 128).from_buffer(room, -ctypes.addressof(room) % 64)
    launcher.call(
        "cuTensorMapEncodeTiled", made, number, rank, ctypes.c_void_p(address.value), (ctypes.c_uint64 * rank)(*one.dims),
        (ctypes.c_uint64 * (rank - 1))(*one.strides), (ctypes.c_uint * rank)(*one.box), (ctypes.c_uint * rank)(*[1] * rank),
        one.interleave, one.swizzle, 0, 0,
    )  # fmt: skip
    coordinates = ", ".join([str(c) for c in one.at])
    text = f""".extern .shared .align 1024 .b8 s[];
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out) {{
.reg .pred %p; .reg .b32 %s, %t, %i, %v; .reg .b64 %map, %out, %q, %from, %now; .shared .align 8 .b64 bar;
mov.u64 %map, map; cvta.param.u64 %map, %map; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mov.u32 %s, s; shl.b32 %i, %t, 2;
fill: add.u32 %v, %s, %i; st.shared.b32 [%v], -1; add.u32 %i, %i, {4 * BLOCK}; setp.lt.u32 %p, %i, {TILE}; @%p bra fill;
setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared.b64 [bar], 1; fence.proxy.async; bar.sync 0;
@%p mbarrier.arrive.expect_tx.shared.b64 %q, [bar], {TILE};
@%p cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%map, {{{coordinates}}}], [bar];
mov.u64 %from, %globaltimer;
wait: mov.u64 %now, %globaltimer; sub.u64 %now, %now, %from; setp.lt.u64 %p, %now, 2000000; @%p bra wait;
bar.sync 0; fence.proxy.async; shl.b32 %i, %t, 2;
dump: add.u32 %v, %s, %i; cvt.u64.u32 %q, %i; add.u64 %q, %out, %q; ld.volatile.shared.b32 %v, [%v]; st.global.b32 [%q], %v;
add.u32 %i, %i, {4 * BLOCK}; setp.lt.u32 %p, %i, {TILE}; @%p bra dump;
ret; }}"""
    target = held.zeros(TILE)
    launched(text, [made, target], BLOCK, shared=TILE)
    return launcher.read(target, TILE)


def tensors(limit: float) -> tuple[Array, list[str]]:
    """What each copy left in shared memory, or zeros, and what went wrong."""
    listed = copies()
    found, said = np.zeros((len(listed), TILE // 4), np.uint32), []
    running = {}
    for first in range(0, len(listed), 8):
        group = range(first, min(first + 8, len(listed)))
        for number in group:
            command = [sys.executable, __file__, "copy", str(number)]
            running[number] = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for number in group:
            try:
                out, wrong = running[number].communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                running[number].kill()
                out, wrong = b"", b"hung"
            if len(out) == TILE:
                found[number] = np.frombuffer(out, np.uint32)
            said.append("" if len(out) == TILE else wrong.decode(errors="replace")[-200:])
    return found, said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("run")
    command.add_argument("folder", type=Path)
    command.add_argument("--only", nargs="*", default=[])
    commands.add_parser("copy").add_argument("number", type=int)
    options = parser.parse_args()
    if options.command == "copy":
        sys.stdout.buffer.write(copied(copies()[options.number]))
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    about: dict[str, Any] = dict(launcher.describe())
    for name, experiment in EXPERIMENTS.items():
        if options.only and name not in options.only:
            continue
        try:
            found = experiment()
        except (launcher.DriverError, subprocess.CalledProcessError) as error:
            print(f"{name}: {error}", flush=True)
            continue
        np.savez_compressed(options.folder / f"{name}.npz", found)
        print(f"{name}: {found.shape}", flush=True)
    if not options.only or "tensors" in options.only:
        found, said = tensors(20)
        np.savez_compressed(options.folder / "tensors.npz", found)
        about = {**about, "tensors": said}
        print(f"tensors: {sum(not one for one in said)} of {len(said)}", flush=True)
    (options.folder / "about.json").write_text(json.dumps(about))


if __name__ == "__main__":
    main()
