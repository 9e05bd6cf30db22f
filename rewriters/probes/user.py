"""User-defined probes: a few lines of PTX, or a Python function that generates them, at instructions that match a pattern."""

from __future__ import annotations

import runpy
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.analyses.memory.accesses import accesses
from ptxkit.analyses.registers.registers import registers
from ptxkit.memo import expression
from ptxkit.rewriters.engine.code import code as parsed_code
from ptxkit.rewriters.engine.code import guarded
from ptxkit.rewriters.engine.edits import After, Before
from ptxkit.rewriters.engine.patterns import Site, pattern, select
from ptxkit.rewriters.manifest import Read, Table, site_columns
from ptxkit.rewriters.probe_code import address, guard_of, under
from ptxkit.rewriters.probing import Plan
from ptxkit.syntax import parse

_INPUT = expression(r"\{(\w+)\}")


def user(plan: Plan, *, at: str, code: str = "", file: str = "", when: str = "before", words: int = 1) -> None:
    """User-defined PTX at the instructions that match the pattern `at`, given as `code` or in a `file`; `when` is before or after.

    Inputs are in braces: `{slot}`, the address of the site's own 64-bit `words`; `{site}`, its number; `{address}`, the address that it
    accesses; `{0}`, `{1}`, … its operands; `{on}`, a predicate that holds if there is a buffer; `{a}` to `{d}`, 64-bit scratch registers,
    `{r}` to `{u}` 32-bit ones, and `{p}` and `{q}` predicates. The code runs only if the instruction does. A file that ends in `.py` has a
    function `probe(site)` that returns the text, or None. Code that writes a register of the kernel, leaves the function or is rejected by
    the assembler is not inserted.
    """
    if when not in ("before", "after") or words < 1 or bool(code) == bool(file):
        raise ValueError("user: at=PATTERN, one of code= and file=, when=before or after, words=1 or more")
    make = _maker(code, file)
    wanted = pattern(at)
    found: list[tuple[Site, str]] = []
    for site in select(plan.routines, wanted):
        text = make(site)
        if text:
            found.append((site, text))
    if not found:
        return
    plan.batch.check = True
    buffer = plan.region("slots", 8 * words, len(found), copied=False)
    plan.data["words"] = words
    for number, (site, text) in enumerate(found):
        where = plan.site(site.routine, site.index)
        base, on = plan.name("slot"), plan.name("on")
        own = {one: plan.name(one) for one in "abcdrstupq"} | {"slot": base, "on": on, "site": str(where)}
        own |= {str(n): operand.text for n, operand in enumerate(site.instruction.operands)}
        before = ""
        if "{address}" in text:
            access = next((one for one in accesses(site.routine) if one.instruction == site.index), None)
            operand = site.instruction.children[access.child] if access is not None else None
            put = address(site.routine, site.index, operand, plan.name("at")) if operand is not None else None
            if put is None:
                plan.refuse(site.routine, site.index, "unknown-address", "the instruction has no address that is understood")
                continue
            own["address"], before = plan.name("at"), put
        unknown = next((name for name in _INPUT.findall(text) if name not in own), None)
        if unknown is not None:
            raise ValueError(f"user: `{{{unknown}}}` is not an input of `{site.instruction.body_text}`; there are {', '.join(own)}")
        body = _INPUT.sub(lambda match, own=own: own[match[1]], text)  # type: ignore[misc]
        written = _written(site, body, own)
        if written:
            raise ValueError(f"user: the code writes `{written}`, which is the kernel's own")
        regs = f".reg .b64 {base}, {plan.name('at')}, {', '.join(own[n] for n in 'abcd')}; .reg .b32 {plan.name('at')}_l, "
        regs += f"{', '.join(own[n] for n in 'rstu')}; .reg .pred {on}, {own['p']}, {own['q']};"
        head = f"!mov.pred {on}, 0;\n{before}\nld{buffer.space}.u64 {base}, [{buffer.words}];\nsetp.ne.u64 {on}, {base}, 0;"
        head += f"\nadd.u64 {base}, {base}, {8 * words * number};"
        runs = guard_of(site.instruction)
        code_ = f"{{ {regs} {under(runs, head)} {{ {_guarded(body, site, plan)} }} }}"
        plan.put((Before if when == "before" else After)(site, code_), site=where)


def _guarded(body: str, site: Site, plan: Plan) -> str:
    """The code, executed only where the instruction is."""
    statements = guarded(parsed_code(body).statements, site.instruction.guard, plan.name("both"))
    return "".join([statement.text for statement in statements])


def _maker(code: str, file: str) -> Callable[[Site], str | None]:
    if code:
        return lambda site: code
    if not file.endswith(".py"):
        text = Path(file).read_text(encoding="utf-8")
        return lambda site: text
    try:
        made: Any = runpy.run_path(file).get("probe")
    except OSError:
        raise
    except (Exception, SystemExit) as error:
        raise ValueError(_described_error(file, error)) from error
    if not callable(made):
        raise ValueError(f"user: {file} has no function `probe`")

    def checked(site: Site) -> str | None:
        try:
            text = made(site)
        except (Exception, SystemExit) as error:
            raise ValueError(_described_error(file, error)) from error
        if text is not None and not isinstance(text, str):
            raise ValueError(f"user: {file}: `probe` gives text or None, not {text!r}")
        return text

    return checked


def _described_error(file: str, error: BaseException) -> str:
    """An error in the user's Python file, with its line."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    words = error.msg if isinstance(error, SyntaxError) else error
    return f"user: {file}:{line or 1}: {type(error).__name__}: {words}"


def _written(site: Site, body: str, own: dict[str, str]) -> str | None:
    """A register that the code writes and that is neither its own nor a scratch register."""
    found = parsed_code(body)
    table = {register.name: register for register in registers(site.routine).table if "." not in register.name}
    declared = [f".reg {table[name].type} {name};" for name in sorted(found.uses) if name in table and table[name].type]
    declared += [f".reg .b64 {own[n]};" for n in ("a", "b", "c", "d", "slot")] + [f".reg .b32 {own[n]};" for n in "rstu"]
    declared += [f".reg .pred {own[n]};" for n in ("p", "q", "on")]
    if "address" in own:
        declared.append(f".reg .b64 {own['address']};")
    module = site.routine.module
    version = ".".join(map(str, module.version or (8, 0)))
    header = f".version {version}\n.target {', '.join(module.targets)}\n.address_size 64\n"
    made: Routine = routines(parse(f"{header}.func f() {{ {' '.join(declared)} {{ {body} }} }}"))[0]
    scratch = {own[n] for n in "abcdrstupq"}
    of = registers(made)
    for numbers in of.writes:
        for number in numbers:
            name = of.table[number].name
            if name not in scratch and name not in found.hides | found.declares and name in table:
                return name
    return None


def decode(found: Read) -> list[Table]:
    """The table `user`: a row for each site, with its words."""
    if not found.use.regions:
        return []
    words = int(found.use.data["words"])
    sums = found.sums("slots")
    columns = site_columns(found.sites)
    for at in range(words):
        columns[f"word{at}" if words > 1 else "value"] = list(sums[at::words])
    return [found.table("user", columns)]
