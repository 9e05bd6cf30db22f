"""The commands as a user meets them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ptxkit.cli import main

GOOD = ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() { .reg .f32 a; mov.f32 a, 0f00000000; ret; }\n"
BAD = GOOD.replace("mov.f32 a,", "mov.f32 nowhere,")


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, arguments, input=stdin)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.ptx"
    path.write_text(GOOD)
    return path


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.ptx"
    path.write_text(BAD)
    return path


class TestLint:
    def test_clean(self, good: Path) -> None:
        result = run("lint", str(good))

        assert result.exit_code == 0
        assert "no findings in 1 file" in result.stderr

    def test_finding_with_line_and_caret(self, bad: Path) -> None:
        result = run("lint", str(bad))

        assert result.exit_code == 1
        assert f"{bad}:4:35: error[E010] k: register `nowhere` is not declared" in result.stdout
        assert "^^^^^^^" in result.stdout

    def test_json(self, bad: Path) -> None:
        result = run("lint", str(bad), "--format", "json")
        document = json.loads(result.stdout)

        assert result.exit_code == 1
        assert document["version"] == 1
        assert document["files"] == 1
        (finding,) = document["diagnostics"]
        assert finding == {
            "path": str(bad),
            "rule": "E010",
            "name": "undeclared-register",
            "severity": "error",
            "message": "register `nowhere` is not declared",
            "line": 4,
            "column": 35,
            "end_line": 4,
            "end_column": 42,
            "function": "k",
            "kernel": "k",
            "notes": [],
            "related": [],
        }

    def test_standard_input(self) -> None:
        result = run("lint", "-", "--format", "json", stdin=BAD.encode())

        assert result.exit_code == 1
        assert json.loads(result.stdout)["diagnostics"][0]["path"] == "-"

    def test_folder(self, good: Path, bad: Path) -> None:
        result = run("lint", str(good.parent), "--format", "json")

        assert json.loads(result.stdout)["files"] == 2

    def test_select_and_ignore(self, bad: Path) -> None:
        assert run("lint", str(bad), "--select", "E015").exit_code == 0
        assert run("lint", str(bad), "--select", "E", "--ignore", "E010,E011").exit_code == 0
        assert run("lint", str(bad), "--select", "undeclared-register").exit_code == 1
        assert run("lint", str(bad), "--select", "ALL").exit_code == 1

    def test_no_such_rule(self, bad: Path) -> None:
        result = run("lint", str(bad), "--select", "Z999")

        assert result.exit_code == 2
        assert "no rule is called 'Z999'" in result.stderr

    def test_no_such_file(self, tmp_path: Path) -> None:
        result = run("lint", str(tmp_path / "nothing.ptx"))

        assert result.exit_code == 2
        assert "no such file" in result.stderr

    def test_folder_without_ptx(self, tmp_path: Path) -> None:
        assert run("lint", str(tmp_path)).exit_code == 2

    @pytest.mark.parametrize(
        "data", [b"", b"\x00\xff\xfe", b"{" * 500, b"\r\n" * 10, "\ud800".encode("utf-8", "surrogatepass"), b"/*", b'"']
    )
    def test_garbage_is_no_traceback(self, data: bytes) -> None:
        for format_ in ("text", "json"):
            result = run("lint", "-", "--format", format_, stdin=data)

            assert result.exit_code in (0, 1, 2)
            assert result.exception is None or isinstance(result.exception, SystemExit)


def test_check_override(good: Path) -> None:
    good.write_text(GOOD.replace("mov.f32 a, 0f00000000;", "cp.async.wait_all;"))

    assert run("check", str(good)).exit_code == 0
    result = run("check", str(good), "--target", "sm_75")
    assert result.exit_code == 1
    assert "sm_80" in result.stdout
    assert run("check", str(good), "--ptx", "eight").exit_code == 2


def test_parse_prints_the_tree(good: Path) -> None:
    result = run("parse", str(good))

    assert result.exit_code == 0
    assert "Opcode 'mov.f32'" in result.stdout


def test_parse_of_one_function(good: Path) -> None:
    assert run("parse", str(good), "-k", "k").stdout.startswith("Function")
    assert run("parse", str(good), "-k", "nothing").exit_code == 2


def test_stats(good: Path) -> None:
    document = json.loads(run("stats", str(good), "--format", "json").stdout)

    (file,) = document["files"]
    assert file["instructions"] == 2
    assert file["functions"][0]["registers"] == {".f32": 1}
    assert "k" in run("stats", str(good)).stdout


@pytest.mark.parametrize("command", ["stats", "requires"])
def test_that_code_is_missing_is_said(tmp_path: Path, command: str) -> None:
    path = tmp_path / "bad.ptx"
    path.write_text(GOOD.replace("ret;", "ret %%;"))
    assert "has a syntax error; the code it affects is left out" in run(command, str(path)).stderr


def test_version() -> None:
    assert run("--version").stdout.startswith("ptxkit 0.")


def test_starting_up_imports_little() -> None:
    program = (
        "import sys; from ptxkit.cli import main; "
        "print([m for m in sys.modules if m.split('.')[0] in ('rich', 'parsimonious', 'graphviz')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts threads as Linux shows them")
def test_executing_a_kernel_starts_no_threads(tmp_path: Path) -> None:
    path = tmp_path / "stores.ptx"
    path.write_text(
        GOOD.replace(".entry k()", ".entry k(.param .u64 p)").replace(
            "ret;", ".reg .b64 b; ld.param.u64 b, [p]; st.global.f32 [b], a; ret;"
        )
    )
    called = f"import os, sys; from ptxkit.cli import main; main(['lint', '--no-cache', {str(path)!r}], standalone_mode=False)"
    program = f"try: {called}\nfinally: print('numpy' in sys.modules, len(os.listdir('/proc/self/task')))"
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)

    assert done.stdout.split() == ["True", "1"]


@pytest.mark.parametrize("watched", ["", "sys.setprofile(lambda *given: None); "])
def test_the_end_is_quick_and_whole(bad: Path, watched: str) -> None:
    program = (
        "import atexit, sys; atexit.register(lambda: print('at the end', file=sys.stderr)); "
        f"sys.argv = ['ptxkit', 'lint', '--no-cache', {str(bad)!r}]; from ptxkit.cli import run; {watched}run()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "error" in done.stdout and done.stderr.endswith("at the end\n")


class TestTheEnd:
    """Of programs that somebody ends: neither success nor findings."""

    def test_ctrl_c(self, good: Path) -> None:
        interrupted = (
            "import ptxkit.cli, ptxkit.files as files\ndef read(path): raise KeyboardInterrupt\nfiles.read = read\nptxkit.cli.run()"
        )
        done = subprocess.run([sys.executable, "-c", interrupted, "parse", str(good)], capture_output=True, text=True, check=False)

        assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "ptxkit: interrupted")

    @pytest.mark.parametrize("words", [("tokens",), ("rewrite", "strip-debug"), ("instrument", "--probe", "block-counts")], ids=" ".join)
    def test_a_pipe_that_is_closed(self, good: Path, words: tuple[str, ...]) -> None:
        good.write_text(GOOD + "// more\n" * 20_000)
        command = [sys.executable, "-m", "ptxkit", *words, str(good)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None and process.stderr is not None
            process.stdout.close()

            assert (process.stderr.read(), process.wait()) == (b"", 141)

    @pytest.mark.parametrize(
        ("closed", "path", "code", "said"),
        [
            ("<&-", "-", 2, "ptxkit: standard input: empty, where PTX is expected"),
            (">&-", "good.ptx", 2, "ptxkit: cannot write: standard output is closed"),
            ("2>&-", "good.ptx", 0, ""),
        ],
    )
    def test_a_stream_that_the_caller_has_closed(self, good: Path, closed: str, path: str, code: int, said: str) -> None:
        command = f'exec "{sys.executable}" -m ptxkit check {path} {closed}'
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, cwd=good.parent, env=environment)

        assert (done.returncode, done.stdout, done.stderr.strip()) == (code, "", said)


class TestExplain:
    @pytest.mark.parametrize("name", ["%tid.x", ".maxntid", "sm_90a"])
    def test_what_is_no_instruction(self, name: str) -> None:
        result = run("explain", name)

        assert result.exit_code == 0
        assert result.stdout.startswith(name)
        assert "Needs" in result.stdout

    def test_rules_in_any_case(self) -> None:
        assert run("explain", "c001").stdout == run("explain", "C001").stdout != ""

    @pytest.mark.parametrize(("name", "near"), [("%tix", "%tid"), (".maxntidd", ".maxntid"), ("sm_91a", "sm_90a"), ("ldmatrx", "ldmatrix")])
    def test_what_is_near(self, name: str, near: str) -> None:
        result = run("explain", name)

        assert (result.exit_code, near in result.stderr) == (2, True)

    @pytest.mark.parametrize(
        ("name", "end"), [("", "nothing is called ''"), ("bar.sync 0;", "did you mean bar?"), ("bar.sync..", "did you mean bar?")]
    )
    def test_suggestions_are_few(self, name: str, end: str) -> None:
        assert run("explain", name).stderr.strip().endswith(end)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("gate", "--using", "nvcc"), "no compiler 'nvcc'"),
        (("repair", "--using", "nvcc"), "no compiler 'nvcc'"),
        (("cfg", "-o", "graph.bmp"), "'graph.bmp' ends in none of .svg"),
        (("callgraph", "-o", "graph"), "'graph' ends in none of .svg"),
        (("litmus", "--draw", "graph.png"), "'graph.png' ends in none of .svg .html"),
        (("reduce", "--test", "true", "--timeout", "-1"), "not in the range x>0"),
        (("validate", "--timeout", "0"), "not in the range x>0"),
    ],
)
def test_a_wrong_value_is_refused_before_anything_is_done(good: Path, words: tuple[str, ...], said: str) -> None:
    result = run(words[0], str(good), *words[1:])

    assert (result.exit_code, said in result.stderr) == (2, True)
    assert list(good.parent.iterdir()) == [good]


class TestEncodings:
    def test_utf_16(self, good: Path) -> None:
        good.write_text(GOOD, encoding="utf-16")
        result = run("check", str(good))

        assert (result.exit_code, "this is UTF-16" in result.stderr) == (2, True)

    def test_a_byte_order_mark(self, good: Path) -> None:
        good.write_text(GOOD, encoding="utf-8-sig")
        result = run("check", str(good))

        assert (result.exit_code, "save the file as UTF-8 without it" in result.stdout) == (1, True)

    @pytest.mark.parametrize("data", [GOOD.replace("\n", "\r\n").encode(), GOOD.encode() + b"// caf\xe9\n"], ids=["CRLF", "Latin 1"])
    def test_what_ptxas_takes(self, good: Path, data: bytes) -> None:
        good.write_bytes(data)

        assert run("check", str(good)).exit_code == 0


@pytest.mark.parametrize("command", ["run", "profile"])
def test_without_launches_there_is_a_way_to_make_them_up(good: Path, command: str) -> None:
    result = run(command, str(good))

    assert (result.exit_code, "ptxkit inputs FILE -o TOML" in result.stderr) == (2, True)


def test_extract_of_ptx(good: Path) -> None:
    assert "this is PTX itself" in run("extract", str(good)).stderr
