"""PTX of kernels in MLIR's gpu and nvgpu dialects, without a GPU; needs `mlir-opt` with the NVPTX target (Debian's mlir-19-tools).

python mlir_kernels.py FOLDER [MLIR-OPT]
"""

import re
import subprocess
import sys
from pathlib import Path

SHARED = "#gpu.address_space<workgroup>"
TILE = """
      %by = gpu.block_id y
      %c16 = arith.constant 16 : index
      %x = arith.remui %tx, %c16 : index
      %y = arith.divui %tx, %c16 : index
      %left = arith.muli %bx, %c16 : index
      %top = arith.muli %by, %c16 : index
      %row = arith.addi %top, %y : index
      %column = arith.addi %left, %x : index"""
"""The row and column of a thread's element, in tiles of 16 by 16."""


def kernel(name: str, block: int, arguments: str, body: str, workgroup: str = "") -> str:
    shared = f" workgroup({workgroup})" if workgroup else ""
    known = f"attributes {{gpu.known_block_size = array<i32: {block}, 1, 1>}}"
    return f"""module attributes {{gpu.container_module}} {{
  gpu.module @m {{
    gpu.func @{name}({arguments}){shared} kernel {known} {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %tx = gpu.thread_id x
      %bx = gpu.block_id x
{body}
      gpu.return
    }}
  }}
}}
"""


def reduction(operator: str, kind: str, block: int, guard: bool = False) -> str:
    """All threads of a CTA reduce a row; where `guard` is set the index is compared with the number of rows first."""
    body = f"""
      %v = memref.load %in[%bx, %tx] : memref<?x{block}x{kind}>
      %s = gpu.all_reduce {operator} %v uniform {{}} : ({kind}) -> ({kind})
      memref.store %s, %out[%bx] : memref<?x{kind}>"""
    if guard:
        body = f"""
      %n = memref.dim %out, %c0 : memref<?x{kind}>
      %in_range = arith.cmpi ult, %bx, %n : index
      scf.if %in_range {{{body}
      }}"""
    return kernel(f"reduce_{operator}", block, f"%in: memref<?x{block}x{kind}>, %out: memref<?x{kind}>", body)


def two_reductions() -> str:
    """The second reduction uses the shared memory of the first."""
    return kernel(
        "mean_and_deviation",
        128,
        "%in: memref<?x128xf32>, %out: memref<?x128xf32>",
        """
      %v = memref.load %in[%bx, %tx] : memref<?x128xf32>
      %sum = gpu.all_reduce add %v uniform {} : (f32) -> (f32)
      %n = arith.constant 128.0 : f32
      %mean = arith.divf %sum, %n : f32
      %d = arith.subf %v, %mean : f32
      %square = arith.mulf %d, %d : f32
      %all = gpu.all_reduce add %square uniform {} : (f32) -> (f32)
      %normal = arith.divf %d, %all : f32
      memref.store %normal, %out[%bx, %tx] : memref<?x128xf32>""",
    )


def subgroups() -> str:
    return kernel(
        "warp_maxima",
        256,
        "%in: memref<?x256xf32>, %out: memref<?x8xf32>",
        """
      %v = memref.load %in[%bx, %tx] : memref<?x256xf32>
      %width = arith.constant 32 : i32
      %o1 = arith.constant 1 : i32
      %o2 = arith.constant 2 : i32
      %o4 = arith.constant 4 : i32
      %o8 = arith.constant 8 : i32
      %o16 = arith.constant 16 : i32
      %a, %pa = gpu.shuffle xor %v, %o1, %width : f32
      %b = arith.maximumf %v, %a : f32
      %c, %pc = gpu.shuffle xor %b, %o2, %width : f32
      %d = arith.maximumf %b, %c : f32
      %e, %pe = gpu.shuffle xor %d, %o4, %width : f32
      %f = arith.maximumf %d, %e : f32
      %g, %pg = gpu.shuffle xor %f, %o8, %width : f32
      %h = arith.maximumf %f, %g : f32
      %i, %pi = gpu.shuffle xor %h, %o16, %width : f32
      %j = arith.maximumf %h, %i : f32
      %c32 = arith.constant 32 : index
      %warp = arith.divui %tx, %c32 : index
      %lane = arith.remui %tx, %c32 : index
      %first = arith.cmpi eq, %lane, %c0 : index
      scf.if %first {
        memref.store %j, %out[%bx, %warp] : memref<?x8xf32>
      }""",
    )


def transpose() -> str:
    return kernel(
        "transpose",
        256,
        "%in: memref<?x?xf32>, %out: memref<?x?xf32>",
        f"""{TILE}
      %v = memref.load %in[%row, %column] : memref<?x?xf32>
      memref.store %v, %tile[%y, %x] : memref<16x17xf32, {SHARED}>
      gpu.barrier
      %w = memref.load %tile[%x, %y] : memref<16x17xf32, {SHARED}>
      %to = arith.addi %left, %y : index
      %at = arith.addi %top, %x : index
      memref.store %w, %out[%to, %at] : memref<?x?xf32>""",
        f"%tile: memref<16x17xf32, {SHARED}>",
    )


def product() -> str:
    """A tile of a product of matrices; both tiles are overwritten in the next iteration."""
    return kernel(
        "matmul",
        256,
        "%a: memref<?x?xf32>, %b: memref<?x?xf32>, %c: memref<?x?xf32>",
        f"""{TILE}
      %k = memref.dim %b, %c0 : memref<?x?xf32>
      %zero = arith.constant 0.0 : f32
      %sum = scf.for %start = %c0 to %k step %c16 iter_args(%outer = %zero) -> (f32) {{
        %kx = arith.addi %start, %x : index
        %ky = arith.addi %start, %y : index
        %va = memref.load %a[%row, %kx] : memref<?x?xf32>
        %vb = memref.load %b[%ky, %column] : memref<?x?xf32>
        memref.store %va, %ta[%y, %x] : memref<16x16xf32, {SHARED}>
        memref.store %vb, %tb[%y, %x] : memref<16x16xf32, {SHARED}>
        gpu.barrier
        %part = scf.for %i = %c0 to %c16 step %c1 iter_args(%inner = %outer) -> (f32) {{
          %p = memref.load %ta[%y, %i] : memref<16x16xf32, {SHARED}>
          %q = memref.load %tb[%i, %x] : memref<16x16xf32, {SHARED}>
          %r = arith.mulf %p, %q : f32
          %s = arith.addf %inner, %r : f32
          scf.yield %s : f32
        }}
        gpu.barrier
        scf.yield %part : f32
      }}
      memref.store %sum, %c[%row, %column] : memref<?x?xf32>""",
        f"%ta: memref<16x16xf32, {SHARED}>, %tb: memref<16x16xf32, {SHARED}>",
    )


def tensor_cores() -> str:
    return kernel(
        "wmma",
        32,
        "%a: memref<16x16xf16>, %b: memref<16x16xf16>, %c: memref<16x16xf32>",
        """
      %x = gpu.subgroup_mma_load_matrix %a[%c0, %c0] {leadDimension = 16 : index} : memref<16x16xf16> -> !gpu.mma_matrix<16x16xf16, "AOp">
      %y = gpu.subgroup_mma_load_matrix %b[%c0, %c0] {leadDimension = 16 : index} : memref<16x16xf16> -> !gpu.mma_matrix<16x16xf16, "BOp">
      %z = gpu.subgroup_mma_load_matrix %c[%c0, %c0] {leadDimension = 16 : index} : memref<16x16xf32> -> !gpu.mma_matrix<16x16xf32, "COp">
      %r = gpu.subgroup_mma_compute %x, %y, %z
          : !gpu.mma_matrix<16x16xf16, "AOp">, !gpu.mma_matrix<16x16xf16, "BOp"> -> !gpu.mma_matrix<16x16xf32, "COp">
      gpu.subgroup_mma_store_matrix %r, %c[%c0, %c0] {leadDimension = 16 : index} : !gpu.mma_matrix<16x16xf32, "COp">, memref<16x16xf32>""",
    )


def copies() -> str:
    """Rows come by asynchronous copies; each thread reads the element of its neighbour."""
    return kernel(
        "async_copy",
        128,
        "%in: memref<?x512xf32>, %out: memref<?x128xf32>",
        f"""
      %c4 = arith.constant 4 : index
      %c127 = arith.constant 127 : index
      %at = arith.muli %tx, %c4 : index
      %one = nvgpu.device_async_copy %in[%bx, %at], %row[%at], 4 : memref<?x512xf32> to memref<512xf32, {SHARED}>
      %group = nvgpu.device_async_create_group %one
      nvgpu.device_async_wait %group {{numGroups = 0 : i32}}
      gpu.barrier
      %other = arith.subi %c127, %tx : index
      %v = memref.load %row[%other] : memref<512xf32, {SHARED}>
      memref.store %v, %out[%bx, %tx] : memref<?x128xf32>""",
        f"%row: memref<512xf32, {SHARED}>",
    )


def histogram() -> str:
    return kernel(
        "histogram",
        256,
        "%in: memref<?x256xi32>, %out: memref<256xi32>",
        f"""
      %zero = arith.constant 0 : i32
      %one = arith.constant 1 : i32
      %mask = arith.constant 255 : i32
      memref.store %zero, %bins[%tx] : memref<256xi32, {SHARED}>
      gpu.barrier
      %v = memref.load %in[%bx, %tx] : memref<?x256xi32>
      %low = arith.andi %v, %mask : i32
      %bin = arith.index_castui %low : i32 to index
      %old = memref.atomic_rmw addi %one, %bins[%bin] : (i32, memref<256xi32, {SHARED}>) -> i32
      gpu.barrier
      %count = memref.load %bins[%tx] : memref<256xi32, {SHARED}>
      %before = memref.atomic_rmw addi %count, %out[%tx] : (i32, memref<256xi32>) -> i32""",
        f"%bins: memref<256xi32, {SHARED}>",
    )


KERNELS = {
    "reduce_add": reduction("add", "f32", 256),
    "reduce_max": reduction("maximumf", "f32", 1024, guard=True),
    "reduce_short": reduction("minui", "i32", 48),
    "reduce_xor": reduction("xor", "i32", 96, guard=True),
    "reduce_mul": reduction("mul", "f64", 64),
    "normalize": two_reductions(),
    "warp_maxima": subgroups(),
    "transpose": transpose(),
    "matmul": product(),
    "wmma": tensor_cores(),
    "async_copy": copies(),
    "histogram": histogram(),
}


def main() -> None:
    out, tool = Path(sys.argv[1]), (sys.argv[2:] or ["mlir-opt-19"])[0]
    for number, (name, text) in enumerate(KERNELS.items()):
        target = ("sm_80", "sm_90")[number % 2]
        pipeline = f"--gpu-lower-to-nvvm-pipeline=cubin-chip={target} cubin-features=+ptx80 cubin-format=isa"
        made = subprocess.run([tool, pipeline], input=text, capture_output=True, text=True, check=False)
        found = re.search(r'assembly = "([^"]*)"', made.stdout)
        if found is None:
            print(name, made.stderr[:300], file=sys.stderr)
            continue
        # the text is a string of MLIR, whose escapes are two hexadecimal digits
        ptx = re.sub(r"\\([0-9A-F]{2})", lambda one: chr(int(one[1], 16)), found[1])
        (out / f"{name}.{target}.ptx").write_text(ptx.rstrip("\0"))


if __name__ == "__main__":
    main()
