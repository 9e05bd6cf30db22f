"""The common operations as one call each: `ptxkit.lint`, `ptxkit.liveness`, `ptxkit.run` and so on.

A module is given as a `Module`, as PTX in a string, or as the path of a file (`pathlib.Path`); a subject may also be a `Function` or a
`Routine`. To select one function of a module that has several, pass `kernel`: its name in the PTX or in the source, or an unambiguous part
of it. A `Function` by itself lacks the declarations of its module, so a module with `kernel`, or a `Routine`, gives better results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

from ptxkit import files
from ptxkit.demangling import matching, readable
from ptxkit.diagnostics import Diagnostic, in_html
from ptxkit.memo import expression
from ptxkit.syntax import Container, Function, Module, parse

if TYPE_CHECKING:
    from ptxkit.analyses.cfg.graph import ControlFlow
    from ptxkit.analyses.comparison import Comparison
    from ptxkit.analyses.drawing import Drawing
    from ptxkit.analyses.framework.routine import Routine
    from ptxkit.analyses.gate.verdict import Gate
    from ptxkit.analyses.registers.liveness import Liveness
    from ptxkit.analyses.registers.pressure import Pressure
    from ptxkit.analyses.uniformity.uniformity import Uniformity
    from ptxkit.analyses.verify.verdict import Verdict
    from ptxkit.machine.launching import Run
    from ptxkit.requirement import FunctionNeeds
    from ptxkit.rewriters.probing import Instrumented
    from ptxkit.rewriters.repairs import Repaired

    Source: TypeAlias = str | PathLike[str] | Module
    Subject: TypeAlias = Source | Function | Routine

Size = int | tuple[int, ...]


def _colored(text: str) -> str:
    from ptxkit.highlighting import as_html

    return as_html(text)


Container.as_html = staticmethod(_colored)


class Findings(tuple[Diagnostic, ...]):
    """Findings in the order of the file; a notebook shows them as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        from html import escape

        if not self:
            return "<p>no findings</p>"
        rows = [
            f"<tr><td>{one.rule}</td><td>{one.severity}</td><td>{escape(readable(one.function or ''))}</td><td>{one.span.line}</td>"
            f"<td>{in_html(one.message)}</td></tr>"
            for one in self
        ]
        return "<table><tr><th>rule</th><th>severity</th><th>kernel</th><th>line</th><th>message</th></tr>" + "".join(rows) + "</table>"


def check(module: Source, target: str | None = None, version: tuple[int, int] | None = None) -> Findings:
    """What an assembler would refuse. `target` and `version` override those that the file names.

    Examples:

        >>> import ptxkit
        >>> [one.rule for one in ptxkit.check(".version 8.0 .target sm_80 .address_size 64 .entry k() { bra nowhere; }")]
        ['E012']
    """
    from ptxkit.analyses.framework.linting import lint as found
    from ptxkit.analyses.framework.rule import select
    from ptxkit.diagnostics import Severity

    rules = [rule for rule in select(["E", "V"]) if rule.severity is Severity.ERROR]
    return Findings(found(_module(module), rules, target, version, ignores=False))


def lint(
    module: Source,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    target: str | None = None,
    version: tuple[int, int] | None = None,
    run: bool = True,
) -> Findings:
    """What is wrong or doubtful, by the default rules or by those that `select` names: ids, names, family letters or `ALL`.

    Kernels are executed in example launches, unless `run` is false. Raises ValueError for a word that names no rule.

    Examples:

        >>> import ptxkit
        >>> ptxkit.lint(".version 8.0 .target sm_80 .address_size 64 .entry k() { ret; }")
        ()
    """
    from ptxkit.analyses.framework.rule import select as rules
    from ptxkit.analyses.linting.linting import lint as found

    return Findings(found(_module(module), rules(tuple(select), tuple(ignore)), target, version, run=run))


def fmt(module: Source, width: int | None = None) -> str:
    """The text in canonical layout. Raises `ptxkit.formatter.CannotFormat` for a module with syntax errors.

    Examples:

        >>> import ptxkit
        >>> ptxkit.fmt(".version 8.0 .target sm_80 .entry k(){ret;}").splitlines()[-4:]
        ['.entry k()', '{', '    ret;', '}']
    """
    from ptxkit import formatter

    return formatter.format_module(_module(module), width or formatter.WIDTH)


def requires(module: Source) -> list[FunctionNeeds]:
    """The lowest `.version` and `.target` that each function needs, and the instruction that requires them.

    Examples:

        >>> import ptxkit
        >>> (needs,) = ptxkit.requires(".version 8.0 .target sm_90 .entry k() { barrier.cluster.arrive; ret; }")
        >>> needs.alternatives[0].target, needs.forced_by
        ('sm_90', 'barrier.cluster.arrive')
    """
    from ptxkit.requirement import needs_of

    return needs_of(_module(module))


def cfg(subject: Subject, kernel: str | None = None) -> ControlFlow:
    """The control flow graph of a function.

    Examples:

        >>> import ptxkit
        >>> ptxkit.cfg(".version 8.0 .target sm_80 .entry k() { L: bra L; }")
        <ControlFlow of 1 blocks, 1 edges>
    """
    from ptxkit.analyses.cfg.graph import control_flow

    return control_flow(_routine(subject, kernel))


def liveness(subject: Subject, kernel: str | None = None) -> Liveness:
    """Which registers are live before and after each block of a function; `names` of `registers(subject)` are those of its bits."""
    from ptxkit.analyses.registers.liveness import liveness as found

    return found(_routine(subject, kernel))


def pressure(subject: Subject, kernel: str | None = None) -> Pressure:
    """The number of 32-bit registers that are live at each instruction of a function."""
    from ptxkit.analyses.registers.pressure import pressure as found

    return found(_routine(subject, kernel))


def uniformity(subject: Subject, kernel: str | None = None) -> Uniformity:
    """For which groups of threads the values and branches of a function are uniform."""
    from ptxkit.analyses.uniformity.uniformity import uniformity as found

    return found(_routine(subject, kernel))


def draw(subject: Subject, kernel: str | None = None, *, color: str = "none", level: str = "blocks") -> Drawing:
    """A picture of control flow: of one function, or of all of a module. `color` is none, liveness, pressure, loops or divergence.

    `save("k.svg")` writes it; a notebook shows it. Raises ValueError for any other color, CannotDraw if there is nothing to draw or too
    much.
    """
    from ptxkit.analyses.drawing import draw as found

    subject = _module(subject) if isinstance(subject, str | PathLike) else subject
    return found(subject if kernel is None else _routine(subject, kernel), color=color, level=level)


def instrument(module: Source, probes: str | Iterable[str], kernel: str | None = None) -> Instrumented:
    """Inserts probes into a module, such as `block-counts` or several, and returns it with the manifest by which their buffers are read.

    `kernel` is the one function that has probes; by default, all functions have them.

    Examples:

        >>> import ptxkit
        >>> made = ptxkit.instrument(".version 8.0 .target sm_80 .address_size 64 .visible .entry k() { ret; }", ["block-counts"])
        >>> len(made.manifest.sites)
        1
    """
    from ptxkit.rewriters.probing import instrument as found

    module = _module(module)
    functions = None if kernel is None else [_routine(module, kernel).name]
    return found(module, [probes] if isinstance(probes, str) else probes, functions=functions)


def run(
    module: Source,
    kernel: str | None = None,
    *arguments: Any,
    grid: Size = 1,
    block: Size = 32,
    target: str | None = None,
    checks: str | Iterable[str] = (),
    **options: Any,
) -> Run:
    """Runs a kernel on the CPU. NumPy arrays are copied in and back; `options` are those of `ptxkit.machine.Machine.launch`.

    Raises `ptxkit.machine.Fault` for what a kernel must not do, ValueError for a module with errors or without this kernel.

    Examples:

        >>> import numpy as np, ptxkit
        >>> ptx = '''.version 8.0 .target sm_80 .address_size 64 .visible .entry k(.param .u64 p) {
        ... .reg .b64 %rd<2>; .reg .b32 %r<2>; ld.param.u64 %rd1, [p]; mov.u32 %r1, %ntid.x; st.global.u32 [%rd1], %r1; ret; }'''
        >>> out = np.zeros(1, np.uint32)
        >>> _ = ptxkit.run(ptx, "k", out, block=64)
        >>> int(out[0])
        64
    """
    from ptxkit.machine import Machine

    found = _module(module)
    name = _name([one.name for one in found.kernels if one.body], kernel)
    machine = Machine(target or next((word for word in found.targets if word.startswith("sm_")), "sm_90a"))
    names = checks if isinstance(checks, str) else tuple(checks)
    return machine.launch(machine.load(found), name, *arguments, grid=grid, block=block, checks=names, **options)


def verify(
    module: Source,
    kernel: str | None = None,
    *,
    block: Size,
    grid: Size = 1,
    cluster: Size | None = None,
    parameters: Mapping[str, float] | None = None,
    budget: float = 10.0,
    checks: str | tuple[str, ...] = "all",
) -> Verdict:
    """Executes a launch and looks for races, deadlocks, wrong barriers and bad accesses: `outcome` is verified, refuted or undecided.

    `parameters` are numbers by name; arguments that are left out are synthesized. `budget` is seconds. Raises ValueError for a module with
    errors, or an impossible launch.

    Examples:

        >>> import ptxkit
        >>> ptxkit.verify(".version 8.0 .target sm_80 .address_size 64 .entry k() { bar.sync 0; ret; }", block=64).outcome
        'verified'
    """
    from ptxkit.analyses.framework.routine import routines
    from ptxkit.analyses.verify.verdict import verify as found
    from ptxkit.cli._agreeing import agreed
    from ptxkit.cli._launching import CannotLaunch, Options, names_of, of_options
    from ptxkit.machine import Machine

    made = _module(module)
    name = _name([one.name for one in made.kernels if one.body], kernel)
    routine = next(one for one in routines(made) if one.name == name)
    given = tuple([f"{what}={number}" for what, number in (parameters or {}).items()])
    options = Options(_sizes(block), _sizes(grid), None if cluster is None else _sizes(cluster), parameters=given)
    try:
        launch = of_options(made, routine, options)
    except CannotLaunch as error:
        raise ValueError(str(error)) from None
    machine = Machine(next((word for word in made.targets if word.startswith("sm_")), "sm_90a"))
    return agreed(made, name, found(machine.load(made), launch, names_of(made, routine), budget, checks))


def gate(
    module: Source,
    launch: str | PathLike[str] | None = None,
    *,
    kernel: str | None = None,
    block: Size | None = None,
    grid: Size = 1,
    cluster: Size | None = None,
    parameters: Mapping[str, float] | None = None,
    budget: float = 60.0,
    target: str | None = None,
) -> Gate:
    """One verdict on a module: `verdict` is accept, reject or undecided; `as_json()` is what `ptxkit gate` prints.

    `launch` is a launch file. Without it, `block` and the options of `verify` describe a launch of one kernel; without either no launch
    is verified and nothing is accepted. `budget` is seconds. Raises ValueError for an impossible launch, OSError for a file that
    cannot be read.

    Examples:

        >>> import ptxkit
        >>> ptx = ".version 8.0 .target sm_80 .address_size 64 .entry k() { bar.sync 0; ret; }"
        >>> ptxkit.gate(ptx, block=64).verdict, ptxkit.gate(ptx).verdict, ptxkit.gate(ptx.replace("ret", "rot"), block=64).verdict
        ('accept', 'undecided', 'reject')
    """
    from ptxkit.analyses.framework.routine import routines
    from ptxkit.analyses.gate.verdict import gate as found
    from ptxkit.cli._launching import CannotLaunch, Options, names_of, of_description, of_options
    from ptxkit.rewriters.profiling.description import read

    made = _module(module)
    entries = {one.name: one for one in routines(made) if one.function.header.is_entry and one.function.body}
    launches = []
    try:
        if launch is not None:
            for described in read(str(launch)):
                if not described.is_for(made.path or "") or described.kernel not in entries:
                    continue
                routine = entries[described.kernel]
                launches.append((of_description(routine, described), names_of(made, routine)))
            if not launches and entries:
                raise ValueError(f"{launch} has no launch of {', '.join(map(readable, entries))}")
        elif block is not None and entries:
            routine = entries[_name(list(entries), kernel)]
            given = tuple([f"{what}={number}" for what, number in (parameters or {}).items()])
            options = Options(_sizes(block), _sizes(grid), None if cluster is None else _sizes(cluster), parameters=given)
            launches.append((of_options(made, routine, options), names_of(made, routine)))
    except CannotLaunch as error:
        raise ValueError(str(error)) from None
    return found(made, launches, budget=budget, target=target)


def repair(module: Source, target: str | None = None) -> Repaired:
    """Repairs what `lint` finds, by proved edits: `text`, the `repairs` that were made, and what is `left`.

    A repair is proved by executions under several schedules, `check` and all rules, and by a compiler if one is available.

    Examples:

        >>> import ptxkit
        >>> ptx = '''.version 8.0 .target sm_80 .address_size 64 .visible .entry k(.param .u64 p) .reqntid 64 { .shared .b32 s[64];
        ... .reg .b32 %r<6>; .reg .b64 %rd<3>; mov.u32 %r1, %tid.x; mov.u32 %r2, s; shl.b32 %r3, %r1, 2; add.u32 %r4, %r2, %r3;
        ... st.shared.u32 [%r4], %r1; xor.b32 %r4, %r4, 128; ld.shared.u32 %r5, [%r4]; ld.param.u64 %rd1, [p];
        ... mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r5; ret; }'''
        >>> [one.fix.message for one in ptxkit.repair(ptx).repairs]
        ['insert `bar.sync 0` before line 3']
    """
    from ptxkit.rewriters.repairs import repair as made

    return made(_module(module), target=target)


def diff(before: Source, after: Source, names: Mapping[str, str] | None = None) -> Comparison:
    """What changed from one module to another; names of registers and labels, order and layout do not count.

    `names` pairs functions of `before` with functions of `after`, by name, if neither their names nor their contents match.

    Examples:

        >>> import ptxkit
        >>> old = ".version 8.0 .target sm_80 .entry k() { ret; }"
        >>> ptxkit.diff(old, old.replace("ret", "exit")).functions[0].status
        'changed'
    """
    from ptxkit.analyses.comparison import compare

    return compare(_module(before), _module(after), names)


def _module(subject: object) -> Module:
    """The requested module. Raises TypeError for another type, ValueError for a path in a string, OSError for a missing file."""
    if isinstance(subject, Module):
        return subject
    if isinstance(subject, PathLike):
        return _of_file(str(subject))
    if not isinstance(subject, str):
        raise TypeError(f"expected a Module, PTX as text, or a pathlib.Path, not {type(subject).__name__}")
    if _PATH.fullmatch(subject):
        raise ValueError(f"expected PTX as text, not a path: pass pathlib.Path({subject!r})")
    return parse(subject)


_PATH = expression(r"[^\s;{}]+\.ptx")


def _of_file(path: str) -> Module:
    try:
        return parse(files.read(path), path)
    except files.CannotRead as error:
        raise OSError(str(error)) from None


def _routine(subject: object, kernel: str | None) -> Routine:
    """The requested function. Raises TypeError, or ValueError if there is no such function, or if it is ambiguous."""
    from ptxkit.analyses.framework.routine import Routine, routine_of, routines

    if isinstance(subject, str | PathLike):
        subject = _module(subject)
    if isinstance(subject, Routine):
        return subject
    if isinstance(subject, Module):
        every = {one.name: one for one in routines(subject)}
        return every[_name(list(every), kernel)]
    return routine_of(subject)


def _name(names: list[str], kernel: str | None) -> str:
    """The name of the requested function. Raises ValueError."""
    found = names if kernel is None else matching(kernel, names)
    if len(found) == 1:
        return found[0]
    listed = ", ".join(map(readable, names)) or "none"
    if kernel is None:
        raise ValueError(f"which kernel? There are {listed}")
    raise ValueError(f"{'several functions are' if found else 'no function is'} called {kernel!r}; there are {listed}")


def _sizes(size: Size) -> str:
    return ",".join(map(str, (size,) if isinstance(size, int) else size))
