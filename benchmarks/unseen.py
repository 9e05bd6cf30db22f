"""PTX that nobody tuned on: files of sources that are not in ../shared/corpus, and what is found in them.

    python benchmarks/unseen.py make DIR [--only SOURCE,…]     get the files again; says which differ from the manifest
    python benchmarks/unseen.py manifest DIR                   write the manifest of what is in DIR (SHA-256, source, version, tool)
    python benchmarks/unseen.py check DIR [--half 0|1]         ptxas against `ptxkit check`
    python benchmarks/unseen.py lint DIR --half 0|1 [--record FILE]   every error and warning

A source is a wheel, of which the fat binaries are taken apart (`ptxkit extract`), or a generator (`generators/`), which runs in a virtual
environment of its own, or a public repository, compiled with nvcc. Of each, some files are taken, by the hash of their names, none over
`MOST` bytes. The two halves are by the hash of the source: files of one source stay together. Half 0 is for tuning; half 1 is judged, once.
"""

from __future__ import annotations

import argparse
import csv
import functools
import hashlib
import json
import multiprocessing
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import attrs

from ptxkit.analyses import lint
from ptxkit.analyses.framework.rule import select
from ptxkit.diagnostics import Severity
from ptxkit.files import decode
from ptxkit.syntax import parse

HERE = Path(__file__).resolve().parent
MANIFEST = HERE.parent / "fixtures" / "unseen" / "manifest.tsv"
EACH = 48
MOST = 250_000


@attrs.frozen
class Source:
    """Where files come from: `packages` go into a virtual environment for a generator, or are the one wheel that is taken apart."""

    name: str
    tool: str
    packages: tuple[str, ...] = ()
    generator: tuple[str, ...] = ()
    unpacked: str = ""
    """A package of which the generator only reads the source: it is unpacked, not installed."""
    each: int = EACH
    """So many files are taken."""
    most: int = MOST
    """None is larger, in bytes."""
    kernels: int = 0
    """Of each file that is larger, so many kernels become files of their own."""


WHEELS = (
    "bitsandbytes==0.45.0",
    "ctranslate2==4.5.0",
    "spconv-cu120==2.3.6",
    "implicit==0.7.2",
    "gpu4pyscf-cuda12x==1.9.0",
    "gpu4pyscf-libxc-cuda12x==0.9.0",
    "nvidia-curand-cu12==10.3.10.19",
    "nvidia-npp-cu12==12.4.1.87",
    "nvidia-nvjpeg-cu12==12.4.0.76",
    "nvidia-cusparselt-cu12==0.8.1",
    "nvidia-nvtiff-cu12==0.8.0.82",
    "xformers==0.0.28.post3",
    "xgboost==2.1.1",
    "cuequivariance-ops-cu12==0.13.0",
    "nvidia-nvshmem-cu12==3.8.0",
)
LATER = (
    "bitsandbytes==0.49.0",
    "catboost==1.2.7",
    "custatevec-cu12==1.7.0",
    "cutensor-cu12==2.0.2",
    "cvcuda-cu12==0.19.0",
    "deepspeed-kernels==0.0.1.dev1698255861",
    "faiss-gpu==1.7.2",
    "jax-cuda12-plugin==0.4.38",
    "nvidia-cudss-cu12==0.5.0.16",
    "nvidia-nvcomp-cu12==4.2.0.11",
    "onnxruntime-gpu==1.18.0",
    "stringzillas-cuda==5.3.2",
    "torchvision==0.20.1",
)
"""Wheels of the second lot, of which fewer files are taken: it was fetched when the first had been judged."""
FEWER = 12
NUMERICAL = (
    "bartorch-cuda12==0.0.17",
    "blochsim-cuda12==0.0.14",
    "brainpylib-cu12x==0.2.8",
    "brook-cu12==0.1.0",
    "cuda-bench==0.3.0",
    "cudaq-qec-cu12==0.8.1",
    "cudensitymat-cu13==0.7.0",
    "cufinufft==2.5.1",
    "cupauliprop-cu13==0.5.0",
    "cupoch==0.2.11.0",
    "curaster==0.7.0",
    "custabilizer-cu13==0.5.0",
    "cutensor-cu13==2.8.1",
    "cutensornet-cu13==2.14.0",
    "cvcuda-cu13==0.19.0",
    "deepmd-kit-cu11==3.1.2",
    "dyng-cu12==0.2.0",
    "ffdas-core-cuda13==0.1.1",
    "itk-cudacommon-cuda124==2.1.0",
    "jax-cuda12-pjrt==0.12.0.1",
    "jztree-cu12==1.1.0",
    "libmhcuda==2.3.0",
    "libwholegraph-cu12==26.10.0",
    "moreau-cuda13==0.4.1",
    "nvidia-cudss-cu13==1.0.0.35",
    "nvidia-cuest-cu13==0.2.2",
    "nvidia-cufft==12.4.0.43",
    "nvidia-cufftmp-cu13==12.1.3.2",
    "nvidia-cupynumeric-cu12==26.6.1",
    "nvidia-cusolver-cu11==11.4.1.48",
    "nvidia-cusolvermp-cu13==0.9.1.9318.post1",
    "nvidia-cusparse-cu11==11.7.5.86",
    "nvidia-libnvcomp-cu13==6.0.0.12",
    "nvidia-nccl-cu12==2.32.3",
    "nvidia-npp-cu11==11.8.0.86",
    "nvidia-nvjpeg-cu11==11.9.0.86",
    "nvidia-nvjpeg2k-cu13==0.11.0.51",
    "nvmolkit==0.6.0",
    "ont-koi==0.6.5",
    "peclet-flow-cu13==1.4.0",
    "pennylane-lightning-gpu==0.45.0",
    "pyimagecuda==0.1.5",
    "pynvvideocodec==2.2.4",
    "ri-kernels-cuda12==0.2.2",
    "tacuda==0.7.1",
    "torchaudio==2.11.0",
    "tsnecuda==3.0.1",
    "unitarylab-cu12==0.2.1",
    "xgboost==3.4.1",
)
"""Wheels of numerical libraries, of data libraries and of NVIDIA: the third lot."""
PHYSICAL = (
    "bbhx-cuda12x==1.2.3",
    "bipp-cuda12x==0.1.3",
    "fastemriwaveforms-cuda12x==2.2.1",
    "fastlisaresponse-cuda12x==1.1.17",
    "gafime-cuda==0.4.7",
    "gbgpu-cuda12x==1.2.4",
    "graphgp-cuda==0.0.4",
    "hessboost-runtime-cuda==0.4.3",
    "hyperfold-cuda==0.1.1",
    "ista-daslab-optimizers-cuda==1.1.0",
    "jzfmm-cu12==1.0.1",
    "kedm-cuda12x==0.10.1",
    "laya-cuda==0.1.1.post1",
    "lisaanalysistools-cuda12x==1.2.8",
    "loom-py-rt-cuda==1.0.0rc19",
    "nnutils-pytorch-cuda==1.13.1",
)
"""Wheels of physics and of learning: the fourth lot."""
PLATFORMS = (*[f"manylinux_2_{n}" for n in (39, 35, 34, 31, 28, 27, 24, 17)], "manylinux2014", "manylinux2010", "manylinux1", "linux")
FEWEST, LARGER = 6, 400_000
"""Of each source of the third lot so many files are taken; of wheels none larger."""
TRITON = (
    ("adasplash", "adasplash", "adasplash==0.2.2"),
    ("flash-kmeans", "flash_kmeans", "flash-kmeans==0.3.1"),
    ("flash-sinkhorn", "flash_sinkhorn", "flash-sinkhorn==0.4.1"),
    ("flashnn", "flashnn", "flashnn==0.1.1"),
    ("jvp-flash-attention", "jvp_flash_attention", "jvp-flash-attention==0.14.0"),
    ("gptq-triton", "gptq_triton", "gptq-triton==0.0.4"),
)
"""Packages of kernels for Triton, by name, package of the kernels, and distribution: of the third lot."""
SOME, GENERATED = 20, 100_000
"""Of each source of the sixth lot so many files are taken, none larger."""
OF_LARGE_FILES = ("qiskit-aer-gpu==0.15.1", "pycolmap-cuda12==4.2.1", "cupy-cuda12x==13.4.1", "nvidia-nvimgcodec-cu12==0.9.0.20")
OF_SMALL_FILES = (
    "mlx-cuda-12==0.32.4",
    "nyxus-cuda12x==0.11.0",
    "itk-rtk-cuda124==2.7.0.post1",
    "koi-cuda113==0.0.5",
    "awkward-cuda-kernels==1.3.0",
)
TRITON_LATER = (
    ("sageattention==1.0.6", "sageattention", "triton==3.2.0", "80"),
    ("late-interaction-kernels==0.4.5", "late_interaction_kernels", "triton==3.3.1", "100"),
    ("unsloth==2026.10.9", "unsloth.kernels", "triton==3.2.0", "89"),
    ("fused-turboquant==0.1.0", "fused_turboquant", "triton==3.3.1", "86"),
    ("bm3d-triton==0.1.1", "bm3d_triton", "fbtriton==3.7.4", "100"),
    ("flag_gems==5.0.2", "flag_gems.ops", "triton==3.3.1", "90"),
    ("mlstm-kernels==2.0.6", "mlstm_kernels.triton", "triton==3.2.0", "90"),
    ("cuda-triton-multiarch==0.1.3", "kernels", "triton==3.3.1", "75"),
    ("freesolo-chalk==0.5.7", "chalk", "triton==3.3.1", "90"),
    ("sglang==0.5.23", "sglang.kernels.ops", "triton==3.3.1", "90"),
    ("flashlib==0.4.0", "flashlib", "triton==3.3.1", "90"),
    ("lightning-attn==0.0.5", "lightning_attn", "triton==3.2.0", "80"),
    ("ring-attention-pytorch==0.5.20", "ring_attention_pytorch", "triton==3.2.0", "80"),
)
"""Wheels, with large and with small files, and packages of Triton kernels with their compiler and target: the sixth lot, what compilers
generate."""
OF_WARP = (
    ("warp-1.11", "warp-lang==1.11.1", "", ("90", "8", "warp.examples.tile", "warp.examples.core", "warp.optim"), GENERATED),
    ("newton", "warp-lang==1.19.0", "newton==1.8.0", ("89", "7", "newton._src.geometry", "newton._src.utils", "newton._src.sim"), 120_000),
    ("mujoco-warp", "warp-lang==1.19.0", "mujoco-warp==4.0.0", ("100", "6", "mujoco_warp._src"), GENERATED),
)
SIXTH = (
    *[
        Source(
            "sixth-" + wheel.partition("==")[0], "fat binary", (wheel,), each=SOME, most=GENERATED, kernels=40 * (wheel in OF_LARGE_FILES)
        )
        for wheel in (*OF_LARGE_FILES, *OF_SMALL_FILES)
    ],
    *[
        Source(
            "sixth-" + package.partition("==")[0],
            compiler.replace("==", " "),
            (compiler, "packaging", "setuptools"),
            ("triton_kernels.py", root, target, "most=16"),
            package,
            SOME,
            GENERATED,
        )
        for package, root, compiler, target in TRITON_LATER
    ],
    *[
        Source(f"sixth-{name}", "Warp (NVRTC)", (warp, "numpy", "mujoco"), ("warp_modules.py", *rest), package, SOME, most)
        for name, warp, package, rest, most in OF_WARP
    ],
    Source("sixth-halide", "Halide", ("halide==21.0.0", "imageio"), ("halide_pipelines.py",), each=SOME, most=GENERATED),
    Source(
        "sixth-pystencils",
        "pystencils 2.0, lbmpy 2.0, nvcc",
        ("pystencils==2.0", "lbmpy==2.0"),
        ("pystencils_kernels.py",),
        each=SOME,
        most=GENERATED,
    ),
    Source("sixth-taichi", "Taichi", ("taichi==1.7.4", str(HERE.parent)), ("taichi_examples.py",), each=SOME, most=GENERATED),
    Source(
        "sixth-cupy-cuda13x",
        "CuPy (NVRTC)",
        ("cupy-cuda13x==14.2.0", "scipy", *[f"nvidia-cuda-{part}==13.0.*" for part in ("nvrtc", "runtime", "cccl")]),
        ("cupy_modules.py",),
        each=SOME,
        most=GENERATED,
        kernels=40,
    ),
)
SOURCES = (
    *SIXTH,
    *[Source(wheel.partition("==")[0], "fat binary", (wheel,)) for wheel in WHEELS],
    *[Source("third-" + wheel.partition("==")[0], "fat binary", (wheel,), each=FEWEST, most=LARGER) for wheel in NUMERICAL],
    *[Source("fourth-" + wheel.partition("==")[0], "fat binary", (wheel,), each=FEWEST, most=LARGER) for wheel in PHYSICAL],
    *[Source("later-" + wheel.partition("==")[0], "fat binary", (wheel,), each=FEWER) for wheel in LATER],
    Source(
        "later-conch",
        "Triton 3.7.1",
        ("triton==3.7.1", "packaging"),
        ("triton_kernels.py", "conch.kernels", "90", "100"),
        "conch-triton-kernels==1.3",
        FEWER,
    ),
    Source("later-warp-1.19", "Warp (NVRTC)", ("warp-lang==1.19.0", "numpy"), ("warp_modules.py", "90", "20"), each=FEWER),
    Source("tinygrad-0.14", "tinygrad", ("tinygrad==0.14.0", "numpy"), ("tinygrad_schedules.py",)),
    Source("tinygrad-0.10", "tinygrad", ("tinygrad==0.10.0", "numpy"), ("tinygrad_schedules.py",)),
    Source("numba-cuda-0.11", "Numba", ("numba-cuda==0.11.0", "numba==0.61.2"), ("numba_tests.py",)),
    Source("warp-1.10", "Warp (NVRTC)", ("warp-lang==1.10.0", "numpy"), ("warp_modules.py", "86")),
    Source("pyptx-0.1", "pyptx", ("pyptx==0.1.1", "numpy"), ("pyptx_examples.py",)),
    Source(
        "liger-kernel",
        "Triton 3.5.1",
        ("triton==3.5.1", "packaging"),
        ("triton_kernels.py", "liger_kernel.ops", "90", "100"),
        "liger-kernel==0.6.2",
    ),
    Source("fla-core", "Triton 3.4.0", ("triton==3.4.0", "packaging"), ("triton_kernels.py", "fla.ops", "90", "80"), "fla-core==0.3.2"),
    Source("cuda-samples", "nvcc"),
    *[
        Source(f"third-{name}", "Triton 3.6.0", ("triton==3.6.0", "packaging"), ("triton_kernels.py", root, "90", "100"), package, FEWEST)
        for name, root, package in TRITON
    ],
    Source("third-warp-1.13", "Warp (NVRTC)", ("warp-lang==1.13.0", "numpy"), ("warp_modules.py", "80"), each=FEWEST),
    Source("third-tinygrad-0.12", "tinygrad", ("tinygrad==0.12.0", "numpy"), ("tinygrad_schedules.py",), each=FEWEST),
)


def half(source: str) -> int:
    return hashlib.sha256(source.encode()).digest()[0] & 1


def chosen(paths: list[Path], each: int, most: int = MOST) -> list[Path]:
    """So many of the files, by lot; texts that are equal count once. Where few are taken, each has a kernel."""
    if each < EACH:
        paths = [path for path in paths if b".entry" in path.read_bytes()]
    small = sorted((path for path in paths if path.stat().st_size <= most), key=lambda path: hashlib.sha256(path.name.encode()).hexdigest())
    texts = {hashlib.sha256(path.read_bytes()).digest(): path for path in reversed(small)}
    kept = set(texts.values())
    return [path for path in small if path in kept][:each]


def make(folder: Path, only: set[str]) -> None:
    for source in SOURCES:
        if only and source.name not in only:
            continue
        work, out = folder / "work" / source.name, folder / "files" / source.name
        work.mkdir(parents=True, exist_ok=True)
        if source.name == "cuda-samples":
            samples(work)
        elif source.generator:
            generate(source, folder, work)
        else:
            wheel = download(source.packages[0], folder / "wheels")
            if wheel is None:
                print(f"{source.name}: there is no wheel of {source.packages[0]}")
                continue
            subprocess.run([sys.executable, "-m", "ptxkit", "extract", str(wheel), "-o", str(work)], check=False, stdout=subprocess.DEVNULL)
        take(source, work, out)


def take(source: Source, work: Path, out: Path) -> None:
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    if source.kernels:
        separate(work, source.kernels)
    for path in chosen(sorted(work.rglob("*.ptx")), source.each, source.most):
        shutil.copy(path, out / path.name)
    print(f"{source.name}: {len(list(out.iterdir()))} files")


LEAST, KERNEL = 1500, 60_000
"""A kernel that becomes a file of its own is larger and smaller, in bytes."""


def separate(work: Path, count: int) -> None:
    """Writes kernels of the large files as files of their own, by the hash of their names, each with all that is no kernel."""
    found = []
    for path in sorted(work.glob("*.sm_*.ptx")):
        text = path.read_bytes().decode("latin-1")
        starts = list(re.finditer(r"^(?:\.visible |\.weak |\.extern )?\.(entry|func)\b", text, re.MULTILINE))
        if len(text) < GENERATED or not starts:
            continue
        ends = [one.start() for one in starts[1:]] + [len(text)]
        pieces = [(one[1], text[one.start() : end]) for one, end in zip(starts, ends, strict=True)]
        shared = text[: starts[0].start()] + "".join([piece for kind, piece in pieces if kind == "func"])
        for kind, piece in pieces:
            name = re.search(r"\.entry\s+([^\s(]+)", piece)
            if kind == "entry" and name and len(piece) > LEAST and len(shared) + len(piece) <= KERNEL:
                found.append((hashlib.sha256(name[1].encode()).hexdigest(), name[1], path.name.split(".")[-2], shared + piece))
    kept = {name: (key, target, text) for key, name, target, text in sorted(found, reverse=True)}
    for key, target, text in sorted(kept.values())[:count]:
        (work / f"kernel.{key[:8]}.{target}.ptx").write_bytes(text.encode("latin-1"))


def download(package: str, folder: Path) -> Path | None:
    """A wheel; None if the index has none for this system."""
    name, _, version = package.partition("==")
    pattern = f"{name.replace('-', '_')}-{version}-*.whl"
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", str(folder), package]
    platforms = [word for one in PLATFORMS for word in ("--platform", f"{one}_x86_64")]
    # one may not be there for this Python, or be for a newer system
    others = [["--python-version", python, *platforms] for python in ("3.11", "3.12", "3.10", "3.9", "3.8")]
    for more in ([], ["--python-version", "3.10"], *others):
        if not list(folder.glob(pattern)):
            subprocess.run([*command, *more], check=False)
    return next(folder.glob(pattern), None)


def generate(source: Source, folder: Path, work: Path) -> None:
    home = folder / "venvs" / source.name
    if not home.exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        subprocess.run([str(home / "bin" / "pip"), "install", "-q", *source.packages], check=True)
    environment = {
        "PATH": "/usr/local/cuda/bin:/usr/bin:/bin",
        "HOME": str(folder),
        "DEV": "CPU",
        "TRITON_CACHE_DIR": str(folder / "triton"),
    }
    if source.unpacked:
        unpacked = folder / "unpacked" / source.name
        path = download(source.unpacked, folder / "wheels")
        assert path is not None, f"there is no wheel of {source.unpacked}"
        with zipfile.ZipFile(path) as wheel:
            wheel.extractall(unpacked)
        environment["PYTHONPATH"] = str(unpacked)
    command = [str(home / "bin" / "python"), str(HERE / "generators" / source.generator[0]), str(work), *source.generator[1:]]
    with (folder / f"{source.name}.log").open("w") as log:
        subprocess.run(command, env=environment, stdout=log, stderr=log, cwd=folder, timeout=1200, check=False)


SAMPLES = ("https://github.com/NVIDIA/cuda-samples", "c94ff366aed18c797b8a85dfaac7817b0228b420")


def samples(work: Path) -> None:
    """Compiles what of NVIDIA's samples compiles alone."""
    clone = work / "clone"
    if not clone.exists():
        subprocess.run(["git", "clone", "-q", SAMPLES[0], str(clone)], check=True)
        subprocess.run(["git", "-C", str(clone), "checkout", "-q", SAMPLES[1]], check=True)
    sources = sorted(clone.rglob("*.cu"), key=lambda path: hashlib.sha256(path.name.encode()).hexdigest())
    made = 0
    for path in sources:
        if made >= EACH + 8:
            break
        target = ("sm_80", "sm_90a")[made % 2]
        out = work / f"{path.stem}.{target}.ptx"
        command = [
            "nvcc",
            "-ptx",
            f"-arch={target}",
            "-std=c++17",
            "-I",
            str(clone / "Common"),
            "-I",
            str(path.parent),
            str(path),
            "-o",
            str(out),
        ]
        done = subprocess.run(command, capture_output=True, check=False, timeout=120)
        made += done.returncode == 0


def files(folder: Path, which: int | None) -> list[tuple[str, Path]]:
    found = [(path.parent.name, path) for path in sorted((folder / "files").rglob("*.ptx"))]
    return [(source, path) for source, path in found if which is None or half(source) == which]


def manifest(folder: Path) -> None:
    """Writes the rows of the sources that are in the folder; those of others stay."""
    MANIFEST.parent.mkdir(exist_ok=True)
    sources = {source.name: source for source in SOURCES}
    found = files(folder, None)
    rows: list[tuple[Any, ...]] = []
    if MANIFEST.is_file():
        here = {name for name, _ in found}
        with MANIFEST.open(encoding="utf-8", newline="") as file:
            rows = [tuple(row) for row in csv.reader(file, delimiter="\t") if row[0].partition("/")[0] not in here]
    rows = rows or [("file", "sha256", "half", "source", "tool", "version", "target", "bytes")]
    for name, path in found:
        data = path.read_bytes()
        version = re.search(rb"^\.version\s+([0-9.]+)", data, re.MULTILINE)
        target = re.search(rb"^\.target\s+([^\s,]+)", data, re.MULTILINE)
        source = sources[name]
        made_of = " ".join(filter(None, (source.unpacked or " ".join(source.packages[:1]) or "@".join(SAMPLES), source.tool)))
        words = [one[1].decode() if one else "" for one in (version, target)]
        rows.append((f"{name}/{path.name}", hashlib.sha256(data).hexdigest(), half(name), made_of, source.tool, *words, len(data)))
    with MANIFEST.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter="\t", lineterminator="\n").writerows(rows)


def compare(folder: Path) -> None:
    """Says which files are not those of the manifest."""
    with MANIFEST.open(encoding="utf-8", newline="") as file:
        known = {row["file"]: row["sha256"] for row in csv.DictReader(file, delimiter="\t")}
    made = {f"{name}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files(folder, None)}
    differ = sum(made[name] != known[name] for name in made.keys() & known.keys())
    missing, new = len(known.keys() - made.keys()), len(made.keys() - known.keys())
    print(f"{len(made)} files; {missing} of the manifest missing, {new} new, {differ} other texts")


# --- what is found


def checked(path: Path) -> tuple[str, str, list[str]]:
    """What ptxas says at the file's own target, and the errors of `check`."""
    text = decode(path.read_bytes())
    target = re.search(r"^\.target\s+([^\s,]+)", text, re.MULTILINE)
    rules = tuple(rule for rule in select(["E", "V"]) if rule.severity is Severity.ERROR)
    found = lint(parse(text, str(path)), rules, run=False)
    errors = [f"{one.span.line}: {one.rule} {one.message}" for one in found if one.severity is Severity.ERROR]
    # ptxas 13 has no older one than sm_75; it takes what is for these
    name = target[1] if target and int(re.sub(r"\D", "", target[1])) >= 75 else "sm_75"
    command = ["ptxas", "-O0", "-c", f"-arch={name}", str(path), "-o", "/dev/null"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    return path.name, "" if done.returncode == 0 else done.stderr.strip().splitlines()[0], errors


def check(folder: Path, which: int | None) -> bool:
    wrong = refused = 0
    chosen_files = files(folder, which)
    with multiprocessing.Pool(2) as pool:
        for name, said, errors in pool.imap(checked, [path for _, path in chosen_files]):
            refused += bool(said)
            if said:
                print(f"ptxas refuses {name}: {said[:150]}; check: {errors[0] if errors else 'nothing'}")
            elif errors:
                wrong += 1
                print(f"FALSE {name}: {errors[0]} ({len(errors)})")
    print(f"{len(chosen_files)} files, {refused} refused by ptxas; of the others {wrong} have an error of check")
    return not wrong


def linted(path: Path, run: bool = True) -> tuple[list[dict[str, Any]], float]:
    start = time.process_time()
    module = parse(decode(path.read_bytes()), str(path))
    found = [one for one in lint(module, select(), run=run) if one.severity in (Severity.ERROR, Severity.WARNING)]
    rows = [{"rule": one.rule, "severity": one.severity.name.lower(), "line": one.span.line, "message": one.message} for one in found]
    return rows, time.process_time() - start


def findings(folder: Path, which: int | None, record: Path | None, jobs: int, run: bool) -> None:
    chosen_files = files(folder, which)
    known: dict[str, Any] = {}
    if record and record.is_file():
        known = {row["file"]: row for row in map(json.loads, record.read_text().splitlines())}
    rest = [(source, path) for source, path in chosen_files if f"{source}/{path.name}" not in known]
    with multiprocessing.Pool(jobs, maxtasksperchild=1) as pool:
        done = pool.imap(functools.partial(linted, run=run), [path for _, path in rest])
        for (source, path), (rows, seconds) in zip(rest, done, strict=True):
            row: dict[str, Any] = {"file": f"{source}/{path.name}", "findings": rows, "seconds": round(seconds, 2)}
            known[row["file"]] = row
            if record:
                with record.open("a") as out:
                    out.write(json.dumps(row) + "\n")
    rules: Counter[str] = Counter()
    with_rule: dict[str, set[str]] = {}
    for row in known.values():
        for one in row["findings"]:
            key = f"{one['rule']} {one['severity']}"
            rules[key] += 1
            with_rule.setdefault(key, set()).add(row["file"])
    print(f"{len(known)} files, {sum(row['seconds'] for row in known.values()):.0f} s")
    for key, count in rules.most_common():
        print(f"  {key:16} {count:5} in {len(with_rule[key])} files")


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("action", choices=("make", "manifest", "check", "lint"))
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--only", default="")
    arguments.add_argument("--half", type=int, choices=(0, 1))
    arguments.add_argument("--record", type=Path)
    arguments.add_argument("--jobs", type=int, default=2)
    arguments.add_argument("--no-run", dest="run", action="store_false", help="execute no kernel")
    options = arguments.parse_args()
    folder = options.folder.resolve()
    if options.action == "make":
        make(folder, set(filter(None, options.only.split(","))))
        if MANIFEST.is_file():
            compare(folder)
    elif options.action == "manifest":
        manifest(folder)
    elif options.action == "check":
        return 0 if check(folder, options.half) else 1
    else:
        findings(folder, options.half, options.record, options.jobs, options.run)
    return 0


if __name__ == "__main__":
    sys.exit(main())
