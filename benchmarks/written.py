"""Kernels that are written by hand: `.cu` files of public repositories, compiled without what only their hosts need.

    python benchmarks/written.py DIR [--table TABLE]    compiles the files of a table again; says which differ

A file is compiled as it is if all its headers are there. Otherwise missing headers are empty, a prelude stands in for the types of PyTorch,
only what a device uses is kept, and kernels that are templates are instantiated, with `float` for types and 32 for numbers. The files lie
in `DIR/files/REPOSITORY`, so that `unseen.py check` and `unseen.py lint` take them.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

TABLE = Path(__file__).resolve().parent.parent / "fixtures" / "unseen" / "seventeenth.tsv"
TOOLKIT = Path("/usr/local/cuda/targets/x86_64-linux/include")
SYSTEM = (TOOLKIT, TOOLKIT / "cccl", Path("/usr/include"), Path("/usr/include/x86_64-linux-gnu"), *Path("/usr/include/c++").glob("*"))
NESTED = ("include", "csrc", "src", "inc", "common")
"""Folders of a repository in which headers lie."""
SECONDS = 60
"""For one file, by the clock."""
PRELUDE = r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cstdint>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <vector>
#include <string>
#include <tuple>
#include <optional>
#include <algorithm>
#include <type_traits>
namespace c10 { using Half = __half; using BFloat16 = __nv_bfloat16; }
namespace at { struct Tensor; struct IntArrayRef; struct ScalarType; using Half = __half; using BFloat16 = __nv_bfloat16; }
namespace torch {
using at::Tensor;
using Half = __half;
template <class T> struct RestrictPtrTraits {};
template <class T, int N> struct Access {
  T* p; const int* s; __device__ Access<T, N - 1> operator[](int i) const { return {p + i * s[0], s + 1}; } };
template <class T> struct Access<T, 1> { T* p; const int* s; __device__ T& operator[](int i) const { return p[i * s[0]]; } };
template <class T, int N, template <class> class R = RestrictPtrTraits, class I = int> struct PackedTensorAccessor32 {
  T* p; int sizes[N]; int strides[N];
  __device__ Access<T, N - 1> operator[](int i) const { return {p + i * strides[0], strides + 1}; }
  __device__ int size(int i) const { return sizes[i]; } };
template <class T, template <class> class R, class I> struct PackedTensorAccessor32<T, 1, R, I> {
  T* p; int sizes[1]; int strides[1];
  __device__ T& operator[](int i) const { return p[i * strides[0]]; }
  __device__ int size(int i) const { return sizes[i]; } };
}
#define CUDA_KERNEL_LOOP(i, n) for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)
#define CUDA_1D_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP(i, n)
#define C10_WARP_SIZE 32
#define __shfl_down(...) __shfl_down_sync(~0u, __VA_ARGS__)
#define __shfl_xor(...) __shfl_xor_sync(~0u, __VA_ARGS__)
#define __shfl(...) __shfl_sync(~0u, __VA_ARGS__)
#define __shfl_up(...) __shfl_up_sync(~0u, __VA_ARGS__)
#define __ballot(x) __ballot_sync(~0u, x)
#define __any(x) __any_sync(~0u, x)
#define __all(x) __all_sync(~0u, x)
#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define WARP_SHFL(v, l) __shfl_sync(~0u, v, l)
#define WARP_SHFL_XOR(v, l, ...) __shfl_xor_sync(~0u, v, l)
#define WARP_SHFL_DOWN(v, l, ...) __shfl_down_sync(~0u, v, l)
"""
"""Stand-ins for what kernels take from PyTorch, and for functions that CUDA 13 has under other names."""
OF_HOSTS = re.compile(
    r"<<<|\btorch::(?!Packed|Half|Restrict)|\bat::(?!Half|BFloat)|\bTORCH_|\bPYBIND|cudaMalloc|cudaMemcpy|"
    r"std::(vector|string|cout|tuple|map|unique|shared_ptr|function)|\bTensor\b|cudaStream|cublas|cudnn|thrust::|PackedFunc|NDArray|py::"
)
OPENS = re.compile(r"\s*(?:(?:inline\s+)?namespace(?:\s+(?P<name>[\w:]+))?|extern\s+\"C\")\s*\{?\s*")
"""The head of a block whose declarations are those of the file."""


def pieces(text: str) -> Iterator[str]:
    """The declarations of a file: lines of the preprocessor, and what ends at `;` or `}` outside of all braces but those of namespaces."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", lambda comment: " " + "\n" * comment[0].count("\n"), text, flags=re.DOTALL)
    token = re.compile(r'"(?:\\.|[^"\\\n])*"?|\'(?:\\.|[^\'\\\n])+\'|[#{};]|.', re.DOTALL)
    at = start = depth = 0
    while found := token.match(text, at):
        word, head, at = found[0], text[start : found.start()], found.end()
        if word == "#" and not depth and not head.strip():
            at = _line_end(text, found.start())
        elif word == "{":
            depth += depth > 0 or not OPENS.fullmatch(head)
            if depth:
                continue
        elif word == "}":
            if depth > 1 or (depth and not (rest := re.compile(r"\s*;").match(text, at)) and not re.search(r"\)[^=;]*\{", head)):
                depth -= 1
                continue
            at = rest.end() if depth and rest else at
            depth = 0
        elif word != ";" or depth:
            continue
        yield text[start:at]
        start = at
    yield text[start:]


def _line_end(text: str, at: int) -> int:
    """The end of a line of the preprocessor, with those that continue it."""
    found = re.compile(r"(?:\\\r?\n|[^\n])*\n?").match(text, at)
    return found.end() if found else at


def device(text: str) -> str:
    """What a device uses of a file, and each kernel that is a template once."""
    kept: list[str] = []
    kernels: list[str] = []
    spaces: list[str] = []
    for piece in pieces(text):
        body = piece.strip()
        opens = OPENS.fullmatch(piece) if body.endswith("{") else None
        if opens:
            spaces.append(opens["name"] or "")
        elif body == "}":
            if not spaces:
                continue
            spaces.pop()
        elif not body.startswith("#") and _is_for_hosts(piece):
            continue
        kept.append(piece)
        instance = _instance(body)
        if instance:
            kernels.append("::".join([*filter(None, spaces), instance]))
    used = [f"__attribute__((used)) static void* used_{n} = (void*){one};\n" for n, one in enumerate(kernels)]
    return "\n".join(kept) + "\n" + "".join(used)


def _is_for_hosts(piece: str) -> bool:
    body = piece.strip()
    if "__global__" in piece or "__device__" in piece:
        return "template" in piece and "__global__" not in piece and bool(OF_HOSTS.search(piece))
    is_type = re.match(r"(template[^{]*>\s*)?(struct|class|union|enum)\b", body)
    is_function = re.search(r"\)\s*(const)?\s*\{", piece) and not is_type and "constexpr" not in piece
    return bool(OF_HOSTS.search(piece) or is_function)


def _instance(body: str) -> str:
    """The name and arguments with which a kernel that is a template is instantiated; empty for anything else."""
    template = re.match(r"(?:extern\s+\"C\"\s*)?template\s*<([^{]*?)>\s*(?:static\s+|inline\s+|extern\s+)*__global__", body, re.DOTALL)
    if template is None or "{" not in body:
        return ""
    head = re.sub(r"__launch_bounds__\s*\([^)]*\)|__attribute__\s*\(\(.*?\)\)", "", body[body.find("__global__") :])
    name = re.search(r"\b(\w+)\s*\(", head)
    given = []
    for parameter in re.split(r",(?![^<]*>)", template[1]):
        kind = parameter.strip().split()[0]
        if "=" in parameter and kind not in ("typename", "class"):
            break
        given.append("float" if kind in ("typename", "class") else "true" if kind == "bool" else "32")
    return f"{name[1]}<{', '.join(given)}>" if name else ""


def completed(repository: Path, path: Path, folders: list[Path], stubs: Path) -> bool:
    """Adds the folders of the repository in which headers lie that a file includes, directly or not. Those that are nowhere are written,
    empty. Returns whether there are such."""
    todo, seen, lacks = [path], set(), False
    while todo:
        here = todo.pop()
        for name in re.findall(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', here.read_text(errors="replace"), re.MULTILINE):
            if (here.parent, name) in seen:
                continue
            seen.add((here.parent, name))
            found = next((folder / name for folder in (here.parent, *folders) if (folder / name).is_file()), None)
            if found is None and any((folder / name).is_file() for folder in SYSTEM):
                continue
            elsewhere = [] if found or name.startswith(".") else [one for one in repository.rglob(name) if one.is_file()]
            if len(elsewhere) == 1:
                found = elsewhere[0]
                folders.append(found.parents[name.count("/")])
            if found is not None:
                todo.append(found)
                continue
            lacks = True
            stub = here.parent / name if name.startswith("..") else stubs / name
            stub.parent.mkdir(parents=True, exist_ok=True)
            stub.touch()
    return lacks


def compiled(repository: Path, path: Path, target: str, out: Path, stubs: Path) -> str:
    """How a file was compiled, `whole` or as `device code`; empty if it was not."""
    stubs.mkdir(parents=True, exist_ok=True)
    (stubs / "prelude.h").write_text(PRELUDE)
    inside = [folder for folder in list(path.parents)[:6] if folder.is_relative_to(repository)]
    folders = [*inside, *[repository / name for name in NESTED if (repository / name).is_dir()]]
    for how in ("device code",) if completed(repository, path, folders, stubs) else ("whole", "device code"):
        source, prelude = path, []
        if how == "device code":
            source, prelude = path.with_name(f"{path.stem}__device.cu"), ["-include", str(stubs / "prelude.h")]
            source.write_text(device(path.read_text(errors="replace")))
        command = ["nvcc", "-ptx", "-std=c++17", "-O3", f"-arch={target}", "-w", "--expt-relaxed-constexpr", *prelude]
        command += [word for folder in (*folders, stubs) for word in ("-I", str(folder))]
        try:
            done = subprocess.run([*command, str(source), "-o", str(out)], capture_output=True, text=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return ""
        if done.returncode == 0:
            return how
    return ""


def fetched(source: str, folder: Path) -> Path:
    """The repository at the commit that `URL@COMMIT` names."""
    url, _, commit = source.partition("@")
    clone = folder / url.rpartition("/")[2]
    if not clone.exists():
        subprocess.run(["git", "clone", "-q", url, str(clone)], check=True)
        subprocess.run(["git", "-C", str(clone), "checkout", "-q", commit], check=True)
    return clone


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--table", type=Path, default=TABLE)
    options = arguments.parse_args()
    folder = options.folder.resolve()
    with options.table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    differ = 0
    for row in rows:
        repository = fetched(row["source"], folder / "work")
        out = folder / "files" / row["file"]
        out.parent.mkdir(parents=True, exist_ok=True)
        how = compiled(repository, repository / row["path"], row["target"], out, folder / "stubs" / repository.name)
        is_same = bool(how) and hashlib.sha256(out.read_bytes()).hexdigest() == row["sha256"]
        if not is_same:
            differ += 1
            print(f"{row['file']}: {'another text' if how else 'not compiled'}")
    print(f"{len(rows)} files, {differ} differ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
