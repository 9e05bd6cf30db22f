"""Tries one validator after another until one can judge."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from ptxkit import files
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.isa.targets import parse_version
from ptxkit.memo import expression
from ptxkit.revalidation.architectures import architectures, named_target
from ptxkit.revalidation.locating import Locator
from ptxkit.revalidation.log import Message, lacks_architecture, messages
from ptxkit.revalidation.validator import Answer, CompilerBug, Request, Unavailable
from ptxkit.revalidation.verdict import Outcome, Skipped, Verdict
from ptxkit.syntax import Function, Module, Path

VALIDATORS = ("driver", "nvjitlink", "ptxas")
TIMEOUT = 120.0
INSTALL = "install one, or a newer one: pip install -U 'ptxkit[nvjitlink]' (no GPU needed), 'ptxkit[ptxas]', or 'ptxkit[driver]' for a GPU"

_TOO_OLD = "'Compile only(-c)' requires PTX ISA"
_TOO_NEW = expression(r"Unsupported \.version .*current version is '(\d+\.\d+)'")


def revalidate(
    module: Module,
    target: str | None = None,
    using: Sequence[str] = VALIDATORS,
    timeout: float = TIMEOUT,
    *,
    relocatable: bool = False,
    optimized: bool = True,
    isolated: bool = True,
) -> Verdict:
    """Asks a real compiler about a module: the first of these validators that can judge it.

    `target` (such as `sm_90a`) overrides the architecture that the module names. The compiler runs in a child process for at most `timeout`
    seconds; a crash, a signal or a timeout gives the verdict *compiler bug*. With `isolated=False`, the driver and nvJitLink are loaded
    into this process: faster, without time limit, fatal if they crash, and with the driver's disk cache. With `optimized=False`, the
    compiler does not optimize: large kernels are judged much faster, but registers and spills are those of unoptimized code. With
    `relocatable`, `.extern` functions and variables may be defined elsewhere; otherwise they make the module invalid.

    If no validator can judge, the verdict is *unavailable*, never *valid*. Raises ValueError for an unknown validator or an invalid
    `target`.
    """
    for name in using:
        if name not in VALIDATORS:
            raise ValueError(f"no validator is called {name!r}; there are {', '.join(VALIDATORS)}")
    if not 0 < timeout < float("inf"):
        raise ValueError(f"the timeout is a number of seconds above 0, not {timeout}")
    request = Request(
        _encoded(module.text),
        architectures(module, target),
        target,
        named_target(module),
        tuple([kernel.name for kernel in module.kernels]),
        relocatable,
        optimized,
    )
    skipped: list[Skipped] = []
    for name in using:
        try:
            verdict = _judged(name, module, request, _ask(name, request, timeout, isolated))
        except Unavailable as why:
            skipped.append(Skipped(name, str(why)))
            continue
        except CompilerBug as bug:
            if lacks_architecture(bug.log):  # nvJitLink exits if it does not know the architecture
                skipped.append(Skipped(name, f"{name} {bug.version or ''} makes no code for {request.architectures[0]}".replace("  ", " ")))
                continue
            reason = f"{bug} in {timeout:g} s" if str(bug) == "no answer" else str(bug)
            diagnostics, paths = _located(name, module, target, messages(bug.log))
            verdict = Verdict(Outcome.COMPILER_BUG, name, bug.version, request.architectures[0], reason, diagnostics, paths, log=bug.log)
        return attrs.evolve(verdict, skipped=tuple(skipped))
    return Verdict(Outcome.UNAVAILABLE, reason=f"no validator could judge the module; {INSTALL}", skipped=tuple(skipped))


def _encoded(text: str) -> bytes:
    try:
        return files.encode(text)
    except UnicodeEncodeError:  # a lone surrogate, which no file contains
        return text.encode("utf-8", "surrogatepass")


def _ask(name: str, request: Request, timeout: float, isolated: bool) -> Answer:
    if name == "ptxas":
        from ptxkit.revalidation.ptxas import Ptxas

        return Ptxas(timeout).compile(request)
    if isolated:
        from ptxkit.revalidation.isolation import ask

        return ask(name, request, timeout)
    from ptxkit.revalidation.worker import load

    return load(name).compile(request)


def _judged(name: str, module: Module, request: Request, answer: Answer) -> Verdict:
    """The verdict for an answer. Raises Unavailable if the PTX is too new or too old for the compiler."""
    said = messages(answer.log)
    for message in said:
        newest = _TOO_NEW.match(message.text)
        if newest is not None and module.version is not None and module.version > parse_version(newest[1]):
            version = "{}.{}".format(*module.version)
            raise Unavailable(f"{name} {answer.version} knows PTX up to {newest[1]}, the module is of {version}")
        if message.text.startswith(_TOO_OLD):
            raise Unavailable(f"{name} {answer.version} compiles parts of programs, which PTX has since 3.1 only")
    if request.relocatable:
        said, answer = _unresolved_allowed(said, answer)
    errors = [message for message in said if message.severity is Severity.ERROR]
    if not errors and not answer.accepted:
        said = (*said, _unexplained(module, answer.status))
    bug = next((message.text for message in errors if message.is_bug), "")
    valid = answer.accepted and not errors
    outcome = Outcome.COMPILER_BUG if bug else Outcome.VALID if valid else Outcome.INVALID
    diagnostics, paths = _located(name, module, request.target, said)
    return Verdict(
        outcome,
        name,
        answer.version,
        answer.architecture,
        bug,
        diagnostics,
        paths,
        answer.resources if valid else (),
        log=answer.log,
        cubin=answer.cubin if valid else None,
    )


def _unexplained(module: Module, status: str) -> Message:
    """Replaces the message of a compiler that gives none, with ptxkit's own diagnosis."""
    ours = next(iter(module.diagnostics), None)
    missing = "" if module.version is not None else "; ptxkit: the module names no `.version`"
    why = f"; ptxkit: {ours.message}" if ours is not None else missing
    return Message(Severity.ERROR, f"refused without a word about why ({status}){why}", ours.span.line if ours is not None else None)


def _unresolved_allowed(said: tuple[Message, ...], answer: Answer) -> tuple[tuple[Message, ...], Answer]:
    """The messages except for unresolved symbols, and the answer without them."""
    rest = tuple([message for message in said if not message.is_unresolved])
    if len(rest) == len(said):
        return said, answer
    return rest, attrs.evolve(answer, accepted=True)


def _located(name: str, module: Module, target: str | None, said: tuple[Message, ...]) -> tuple[tuple[Diagnostic, ...], tuple[Path, ...]]:
    """The messages as findings in document order, without duplicates, and their nodes."""
    if not said:
        return (), ()
    locator = Locator(module, target)
    found: dict[Diagnostic, Path] = {}
    for message in said:
        location = locator.locate(message)
        top = module.children[location.path[0]] if location.path else None
        function = top.name if isinstance(top, Function) else None
        notes = (f"ptxkit: {location.note}",) if location.note else ()
        diagnostic = Diagnostic(name, "compiler", message.severity, message.text, location.span, module.path, function, notes)
        found.setdefault(diagnostic, location.path)
    ordered = sorted(found, key=lambda diagnostic: (diagnostic.span.start, diagnostic.span.end))
    return tuple(ordered), tuple([found[diagnostic] for diagnostic in ordered])
