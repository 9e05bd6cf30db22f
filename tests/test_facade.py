"""`import ptxkit` has the common things, and completion and help show them."""

from __future__ import annotations

import doctest
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ptxkit
from ptxkit import facade
from ptxkit.diagnostics import in_html
from ptxkit.highlighting import as_html
from ptxkit.rewriters.probing import instrument

ROOT = Path(__file__).resolve().parent.parent
SCALE = (ROOT / "fixtures" / "profiling" / "scale.ptx").read_text()
COMMON = (
    *("parse", "check", "lint", "fmt", "requires", "cfg", "liveness", "uniformity"),
    *("draw", "instrument", "revalidate", "run", "verify", "diff"),
)
TWO = """.version 8.0
.target sm_80
.address_size 64
.visible .entry _Z5applyIfEvi(.param .u32 n) { bar.sync 0; ret; }
.visible .entry _Z5applyIdEvi(.param .u32 n) { ret; }
"""


def test_examples() -> None:
    assert doctest.testmod(facade).failed == 0


def test_all_names_are_found() -> None:
    text = pydoc.plain(pydoc.render_doc(ptxkit))

    assert set(COMMON) <= set(ptxkit.__all__) <= set(dir(ptxkit))
    assert all(hasattr(ptxkit, name) for name in ptxkit.__all__)
    assert not [name for name in COMMON if f"{name}(" not in text]


def test_completion_finds_all_names() -> None:
    jedi = pytest.importorskip("jedi")
    script = jedi.Script("import ptxkit\nptxkit.", project=jedi.Project(ROOT))
    found = {one.name for one in script.complete(2, 7)}

    assert set(ptxkit.__all__) <= found


def test_the_reference_has_all_names() -> None:
    pages = "".join([(ROOT / "docs" / "reference" / f"{name}.md").read_text() for name in ("ptxkit", "analyses")])

    assert not [name for name in COMMON if f"::: ptxkit.{name}\n" not in pages]
    assert all(f"::: {name}\n" in pages for name in ("ptxkit.analyses.uniformity", "ptxkit.statistics.statistics", "ptxkit.draw"))


def test_importing_loads_nothing() -> None:
    code = "import sys, ptxkit; print([name for name in sys.modules if name.startswith('ptxkit.') or name in ('numpy', 'rich')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)

    assert done.stdout.strip() == "[]"


def test_subjects() -> None:
    module = ptxkit.parse(SCALE)
    subjects = (SCALE, module, module.kernels[0], ptxkit.analyses.routines(module)[0])

    assert {repr(ptxkit.cfg(subject)) for subject in subjects} == {"<ControlFlow of 5 blocks, 5 edges>"}
    assert {repr(ptxkit.pressure(subject)) for subject in subjects} == {"<Pressure: at most 9 registers of 32 bits, 1 predicates>"}
    assert repr(ptxkit.uniformity(SCALE)) == "<Uniformity of scale>"
    assert repr(ptxkit.liveness(SCALE, "scale")) == "<Liveness of 5 blocks>"


def test_kernels_by_what_they_are_called() -> None:
    assert ptxkit.uniformity(TWO, "apply<double>").routine.name == "_Z5applyIdEvi"
    for kernel, said in ((None, "which kernel"), ("apply", "several functions"), ("nothing", "no function")):
        with pytest.raises(ValueError, match=said):
            ptxkit.cfg(TWO, kernel)


def test_what_is_wanted_is_said() -> None:
    module = ptxkit.parse(SCALE)
    for wrong in (module, 7, None):
        with pytest.raises(TypeError, match="liveness takes a Function or a Routine"):
            ptxkit.analyses.liveness(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected a Module"):
        ptxkit.lint(7)  # type: ignore[arg-type]


def test_notebooks() -> None:
    findings = ptxkit.lint(SCALE.replace("ret;", "mov.u32 %nowhere, 1; ret;"), ["ALL"])
    shown = "".join([one._repr_html_() for one in findings])

    assert "<table>" in findings._repr_html_() and "scale" in shown
    assert all(len(repr(one)) < 300 for one in findings)
    assert "<span" in ptxkit.parse(SCALE)._repr_html_() and "<span" in as_html("ret;")
    assert "<span" in ptxkit.parse(SCALE).kernels[0]._repr_html_()
    assert not re.sub("<[^>]*>", "", ptxkit.parse("\n\n" + SCALE)._repr_html_()).startswith("\n")
    assert in_html("reads `a<b>` here") == "reads <code>a&lt;b&gt;</code> here"
    assert "<table>" in ptxkit.cfg(SCALE)._repr_html_()
    assert "<svg" in (ptxkit.draw(SCALE)._repr_svg_() or "<svg")


def test_diff_and_verify() -> None:
    (changed,) = ptxkit.diff(TWO, TWO.replace("bar.sync 0;", "bar.sync 1;")).functions

    assert changed.name == "_Z5applyIfEvi"
    assert ptxkit.verify(TWO, "apply<float>", block=64).outcome == "verified"


class TestSubjects:
    """What a module may be given as."""

    def test_a_path(self, tmp_path: Path) -> None:
        path = tmp_path / "scale.ptx"
        path.write_text(SCALE)

        assert ptxkit.cfg(path).blocks == ptxkit.cfg(SCALE).blocks
        assert ptxkit.check(path) == ()
        assert str(ptxkit.draw(path)) == "<Drawing of scale>"

    def test_a_path_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(OSError, match=r"k\.ptx: no such file"):
            ptxkit.lint(tmp_path / "k.ptx")

    def test_a_path_as_text(self) -> None:
        with pytest.raises(ValueError, match=r"pass pathlib.Path\('kernels/k.ptx'\)"):
            ptxkit.lint("kernels/k.ptx")

    @pytest.mark.parametrize("other", [b"ret;", 3, None])
    def test_another_type(self, other: object) -> None:
        with pytest.raises(TypeError, match=f"not {type(other).__name__}"):
            ptxkit.parse(other)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=f"not {type(other).__name__}"):
            ptxkit.requires(other)  # type: ignore[arg-type]

    def test_one_probe(self) -> None:
        one = ptxkit.instrument(SCALE, "block-counts")

        assert one.text == ptxkit.instrument(SCALE, ["block-counts"]).text
        assert [probe.name for probe in one.manifest.probes] == ["block-counts"]

    def test_probes_in_one_kernel(self) -> None:
        text = ".version 8.0 .target sm_80 .address_size 64 .entry one() { ret; } .entry other() { ret; }"

        assert {site.function for site in ptxkit.instrument(text, "block-counts").manifest.sites} == {"one", "other"}
        assert {site.function for site in ptxkit.instrument(text, "block-counts", "oth").manifest.sites} == {"other"}
        with pytest.raises(ValueError, match="no function is called 'two'"):
            ptxkit.instrument(text, "block-counts", "two")
        with pytest.raises(ValueError, match="no function is called 'two'; there are one, other"):
            instrument(ptxkit.parse(text), ["block-counts"], functions=["two"])
