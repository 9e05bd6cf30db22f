"""Every command with input that a user gets wrong: exit code 2, one line that says why, no traceback, nothing accepted in silence.

Usage: python benchmarks/trial.py [COMMAND...]

Each command gets a missing file, binary data, a `.cu`, an empty file, a folder, an empty folder, an output that cannot be written, a full
device, unknown names of kernels, targets, rules, probes, parameters, and `-` with good, empty and binary standard input; UTF-16, a byte
order mark, Windows line ends, a very long line, links; a pipe that closes early, and Ctrl-C. Prints how many calls there were and which
of them went wrong; exits with 1 if any did. COMMAND restricts it to these.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs
import click

from ptxkit.cli import main as commands

ROOT = Path(__file__).resolve().parent.parent
GOOD = ROOT / "fixtures" / "profiling" / "scale.ptx"
LAUNCH = ROOT / "fixtures" / "profiling" / "launch.toml"
CUDA = "#include <cstdio>\n__global__ void k(float *p) { p[threadIdx.x] = 1; }\n"
LITMUS = ROOT / "fixtures" / "litmus" / "scope-cta.litmus"
SECONDS = 120.0
INTERRUPTED_AFTER = 4.0
"""Seconds after which Ctrl-C is pressed."""

READERS: dict[str, tuple[str, ...]] = {
    "callgraph": (),
    "cfg": (),
    "check": (),
    "debug": ("--launch", str(LAUNCH)),
    "diff": (str(GOOD),),
    "divergence": (),
    "extract": ("--list",),
    "fmt": ("--check",),
    "gate": ("--using", "none"),
    "inputs": (),
    "instrument": ("--probe", "block-counts"),
    "lint": (),
    "liveness": (),
    "parse": (),
    "pipeline": (),
    "profile": ("--launch", str(LAUNCH), "--probe", "block-counts"),
    "reduce": ("--test", "true", "-o", "{out}"),
    "repair": ("--using", "none", "-o", "{out}"),
    "requires": (),
    "rewrite strip-debug": (),
    "run": ("--launch", str(LAUNCH)),
    "stats": (),
    "tokens": (),
    "validate": ("--using", "ptxas"),
    "verify": ("--block", "32"),
    "view": ("--no-sass", "-o", "{out}"),
}
"""The commands that read PTX, with the arguments that they need besides."""
READS_NO_PTX = ("debug", "extract")
"""Commands whose standard input is something else."""
KERNELS = ("cfg", "diff", "divergence", "inputs", "litmus", "liveness", "parse", "pipeline", "profile", "run", "verify", "view")
OUTPUTS = {
    "callgraph": "-o {x}.svg",
    "cfg": "-o {x}.svg",
    "instrument": "-o {x}",
    "lint": "--output-file {x}",
    "check": "--output-file {x}",
    "rewrite strip-debug": "-o {x}",
    "run": "--json {x}",
    "litmus": "--draw {x}.svg",
    "inputs": "-o {x}",
    "view": "-o {x}",
}
FOLDERS_ARE_READ = {"check", "fmt", "lint", "requires", "stats", "validate"}
UNKNOWN = [
    ("lint --target sm_99999 {good}", "sm_"),
    ("check --target h100 {good}", "sm_90"),
    ("validate --target sm_99 {good}", "sm_"),
    ("lint --select Z999 {good}", "rule"),
    ("lint --select aligned-barrier-divergnt {good}", "aligned-barrier-divergent"),
    ("lint --ignore nothing {good}", "rule"),
    ("lint --severity Z9=error {good}", "rule"),
    ("lint --severity R001=fatal {good}", "error, warning, info"),
    ("lint --ptx nine {good}", "8.7"),
    ("lint --config {missing} {good}", "missing"),
    ("lint --format yaml {good}", "sarif"),
    ("lint --report-at moon {good}", "source"),
    ("lint --executor somewhere {good}", "dask"),
    ("lint --baseline {missing} {good}", "missing"),
    ("instrument --probe nothing {good}", "block-counts"),
    ("instrument --probe block-count {good}", "block-counts"),
    ("rewrite strip-debig {good}", "strip-debug"),
    ("rewrite nothing {good}", "strip-debug"),
    ("lint -k scael {good}", "scale"),
    ("linnt {good}", "lint"),
    ("frobnicate {good}", "check"),
    ("explain ldmatrx", "ldmatrix"),
    ("explain zzz", "nothing is called"),
    ("explain %tidx", "%tid"),
    ("explain .maxntidd", ".maxntid"),
    ("explain sm_91a", "sm_90a"),
    ("run {good}", "ptxkit inputs"),
    ("profile --probe block-counts {good}", "ptxkit inputs"),
    ("debug {good}", "ptxkit inputs"),
    ("extract {good}", "this is PTX itself"),
    ("rules Z999", "rule"),
    ("run --launch {missing} {good}", "missing"),
    ("run --launch {launch} --check nothing {good}", "races"),
    ("run --launch {launch} --target sm_99999 {good}", "sm_"),
    ("run --launch {launch} --schedule never {good}", "lockstep"),
    ("verify --block 32 --param nothing=1 {good}", "parameter"),
    ("verify --block zero {good}", "block"),
    ("verify --block 4096 {good}", "1024"),
    ("validate --using nothing {good}", "ptxas"),
    ("profile --launch {launch} --probe nothing {good}", "block-counts"),
    ("diff --map a {good} {good}", "OLD=NEW"),
    ("diff --map nothing=scale {good} {good}", "scale"),
    ("cfg -o x.gif {good}", ".svg"),
    ("callgraph -o x.gif {good}", ".svg"),
    ("cfg --color mauve {good}", "liveness"),
    ("litmus --threads 0:0 -k nothing {good}", "no kernel"),
    ("litmus {good}", "--threads"),
    ("litmus {cu}", ""),
    ("litmus {missing}", "missing"),
    ("litmus {empty}", ""),
    ("litmus {binary}", ""),
    ("litmus {folder}", ""),
    ("completion tcsh", "bash"),
]
"""Calls with names that there are not, and a word that the answer has."""


@attrs.frozen
class Call:
    """A call of the command, and what it has to do."""

    arguments: tuple[str, ...]
    codes: tuple[int, ...] = (2,)
    says: str = ""
    stdin: bytes = b""
    to_full_device: bool = False
    ended: str = ""
    """`pipe`: the reader of its output goes at once; `ctrl-c`: it is interrupted while it waits for its input."""


def calls(folder: Path) -> Iterator[Call]:
    names = {
        "good": str(GOOD),
        "launch": str(LAUNCH),
        "missing": str(folder / "missing.ptx"),
        "binary": str(folder / "binary.ptx"),
        "cu": str(folder / "k.cu"),
        "empty": str(folder / "empty.ptx"),
        "folder": str(folder / "folder"),
        "out": str(folder / "out.ptx"),
    }
    (folder / "binary.ptx").write_bytes(bytes(range(256)) * 40)
    (folder / "k.cu").write_text(CUDA)
    (folder / "renamed.ptx").write_text(CUDA)
    (folder / "empty.ptx").write_text("")
    (folder / "blank.ptx").write_text("\n\n  \n")
    (folder / "text.ptx").write_text("This is a letter. It has no code.\n")
    (folder / "folder").mkdir()
    text = GOOD.read_text()
    (folder / "utf16.ptx").write_text(text, encoding="utf-16")
    (folder / "bom.ptx").write_text(text, encoding="utf-8-sig")
    (folder / "crlf.ptx").write_bytes(text.replace("\n", "\r\n").encode())
    (folder / "latin1.ptx").write_bytes(text.encode() + b"// caf\xe9\n")
    (folder / "long.ptx").write_text(text.replace("ret;", "add.s32 %r1, %r1, 1; " * 20_000 + "ret;", 1))
    (folder / "many.ptx").write_text(text + "// more\n" * 20_000)
    (folder / "link.ptx").symlink_to(GOOD)
    (folder / "dangling.ptx").symlink_to(folder / "missing.ptx")
    (folder / "circle").mkdir()
    (folder / "circle" / "up").symlink_to(folder / "circle")
    (folder / "circle" / "scale.ptx").write_text(text)
    inputs = {
        "missing.ptx": "no such file",
        "binary.ptx": "binary",
        "k.cu": "nvcc -ptx",
        "renamed.ptx": "nvcc -ptx",
        "empty.ptx": "empty",
        "blank.ptx": "empty",
        "text.ptx": "no PTX",
        "folder": "",
        "utf16.ptx": "UTF-16",
        "dangling.ptx": "",
    }
    there = commands.list_commands(click.Context(commands))
    for command, more in READERS.items():
        if command.split()[0] not in there:
            continue
        extra = tuple(word.format(**names) for word in more)
        for name, says in inputs.items():
            word = "" if command == "extract" else says
            yield Call((*command.split(), *extra, str(folder / name)), (2,), "" if name == "missing.ptx" else word)
        if command not in READS_NO_PTX:
            yield Call((*command.split(), *extra, "-"), (2,), "empty", b"")
            yield Call((*command.split(), *extra, "-"), (2,), "binary", bytes(range(256)) * 40)
        if command not in ("profile", "reduce", "run", "validate", "fmt", *READS_NO_PTX):
            yield Call((*command.split(), *extra, "-"), (0, 1, 3), "", GOOD.read_bytes())
        yield Call((*command.split(), *extra, str(GOOD), "--no-such-option"), (2,), "No such option")
        if command in KERNELS:
            second = (str(GOOD),) if command == "diff" else ()
            yield Call((command, *[one for one in extra if one not in second], str(GOOD), *second, "-k", "scael"), (2,), "scale")
    for command, option in OUTPUTS.items():
        extra = READERS.get(command, ())
        for where in (folder / "no" / "such" / "out", Path("/proc/out")):
            yield Call(
                (*command.split(), *extra, str(LITMUS if command == "litmus" else GOOD), *option.format(x=where).split()), (2,), "ptxkit: "
            )
    for command in ("stats", "lint --format sarif --select ALL", "parse", "tokens", "explain ldmatrix", "rules", "cfg"):
        path = () if command.startswith(("explain", "rules")) else (str(GOOD),)
        yield Call((*command.split(), *path), (2,), "space", b"", True)
    for text, says in UNKNOWN:
        yield Call(tuple(text.format(**names).split()), (2,), says)
    for command in ("check", "lint --no-run", "fmt --check", "requires", "stats", "liveness", "divergence", "cfg", "rewrite strip-debug"):
        words = command.split()
        differs = (0, 1) if words[0] == "fmt" else (0,)
        for name in ("crlf.ptx", "latin1.ptx", "link.ptx"):
            yield Call((*words, str(folder / name)), differs)
        if words[0] in FOLDERS_ARE_READ:
            yield Call((*words, str(folder / "circle")), differs)
    for command in ("check", "lint --no-run"):
        yield Call((*command.split(), str(folder / "bom.ptx")), (1,), "save the file as UTF-8 without it")
    for command in ("check", "stats", "tokens", "requires", "parse"):
        yield Call((command, str(folder / "long.ptx")), (0,))
    for command in ("tokens", "tokens --format html", "fmt -", "rewrite strip-debug"):
        read = () if command.endswith("-") else (str(folder / "many.ptx"),)
        yield Call((*command.split(), *read), (141,), stdin=(folder / "many.ptx").read_bytes(), ended="pipe")
    for command in ("check", "lint", "requires", "cfg", "parse", "fmt", "verify --block 32", "stats"):
        yield Call((*command.split(), "-"), (130,), "interrupted", ended="ctrl-c")


def wrong(call: Call, folder: Path) -> str | None:
    """What is wrong with what a call does."""
    command = [sys.executable, "-m", "ptxkit", *call.arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PTXKIT_CACHE_DIR": str(folder / "cache")}
    if call.ended:
        return _wrong_end(call, command, environment)
    with Path("/dev/full" if call.to_full_device else os.devnull).open("wb") as out:
        try:
            done = subprocess.run(
                command,
                input=call.stdin,
                stdout=out if call.to_full_device else subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                cwd=folder,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            return f"took over {SECONDS} s"
    return _judged(call, done.returncode, done.stdout or b"", done.stderr)


def _wrong_end(call: Call, command: list[str], environment: dict[str, str]) -> str | None:
    """What is wrong with how a call ends whose reader goes, or that is interrupted."""
    pipe = subprocess.PIPE
    # where this runs in the background of a shell, Ctrl-C is ignored, and what it starts would ignore it, too
    listens = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, preexec_fn=listens) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        if call.ended == "pipe":
            process.stdout.close()
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(call.stdin)
                process.stdin.close()
        else:
            time.sleep(INTERRUPTED_AFTER)
            process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        return _judged(call, process.wait(), b"", said)


def _judged(call: Call, code: int, out: bytes, error: bytes) -> str | None:
    """What is wrong with an exit code and with what was printed."""
    said, printed = error.decode("utf-8", "replace"), out.decode("utf-8", "replace")
    if "Traceback" in said + printed or "internal error" in said:
        return "traceback: " + said.strip().splitlines()[-1]
    if code not in call.codes:
        return f"exit code {code}, not {call.codes}: {(said or printed).strip()[-200:]!r}"
    if call.says.lower() not in (said + printed).lower():
        return f"does not say {call.says!r}: {said.strip()[-200:]!r}"
    if code == 2 and not said.strip():
        return "says nothing"
    return None


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wanted = sys.argv[1:]
        every = [call for call in calls(folder) if call.arguments[0] in (wanted or [call.arguments[0]])]
        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(lambda call: wrong(call, folder), every))
        bad = [(call, why) for call, why in zip(every, found, strict=True) if why is not None]
        for call, why in bad:
            print("ptxkit", " ".join(call.arguments).replace(name, "TMP").replace(str(ROOT), "."), "->", why)
        print(f"{len(every)} calls, {len(bad)} wrong")
        return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
