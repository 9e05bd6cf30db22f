"""Inserts probes into a module: `instrument(module, ["block-counts", "memory-trace:sample=64"])`.

A probe is a file in `rewriters/probes/` with a function of its name, which receives a `Plan` and says what to insert where, and a function
`decode`, which makes tables of what the device wrote (see `manifest`). Its keyword arguments are options.

Probes find their buffer through a variable of the module, in constant memory if there is room: for each region, its address, its number of
rows, and the stride between its copies. So no signature changes, device functions can have probes as well, and no register is used up.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

import ptxkit.rewriters.probes
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.frozen import define, frozen
from ptxkit.rewriters.engine.checking import new_errors
from ptxkit.rewriters.engine.edits import AddToModule, Edit, apply
from ptxkit.rewriters.engine.fresh import Fresh, fresh
from ptxkit.rewriters.engine.parameters import bytes_of, layout
from ptxkit.rewriters.engine.patterns import locations
from ptxkit.rewriters.engine.rewrite import FailedCheck, Rewrite
from ptxkit.rewriters.manifest import WORDS, Kernel, ProbeManifest, ProbeSite, ProbeUse, RefusedSite, Region, Value
from ptxkit.syntax import AddressSize, Declaration, File, Index, Module

CONSTANT_BYTES = 64 << 10
"""Bytes of constant memory of a module (5.1.3)."""
COPIES = 1024
MULTIPROCESSORS = 256
"""A power of two that exceeds the number of multiprocessors of every device: up to this many copies are selected by multiprocessor
alone."""
MOST_REGIONS = 2
"""Maximum number of regions of a probe."""
MOST_BYTES = 8 << 20
"""Maximum bytes of all copies of a region."""


@frozen
class Chosen:
    """A probe with its options, as text."""

    name: str
    options: Mapping[str, str] = attrs.field(factory=dict)


def chosen(text: str) -> Chosen:
    """Parses a probe such as `memory-trace:sample=64,space=shared`. `\\,` is a comma within a value. Raises ValueError."""
    name, _, rest = text.partition(":")
    options: dict[str, str] = {}
    for part in rest.replace("\\,", "\0").split(",") if rest else ():
        key, equals, value = part.replace("\0", ",").partition("=")
        if not key.strip() or not equals:
            raise ValueError(f"an option is written name=value: {part!r} in {text!r}")
        options[key.strip().replace("-", "_")] = value.strip()
    return Chosen(name.strip().replace("_", "-"), options)


@frozen
class ProbeKind:
    """An available probe: `block-counts` is the function `block_counts` of `rewriters/probes/block_counts.py`."""

    name: str
    summary: str
    plan: Callable[..., None]

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """The options by name. Their annotations are text, number or boolean types."""
        found = inspect.signature(self.plan, eval_str=True).parameters
        return {name: one for name, one in found.items() if one.kind is inspect.Parameter.KEYWORD_ONLY}

    def parsed(self, options: Mapping[str, str]) -> dict[str, Any]:
        """The options as the function takes them. Raises ValueError for an unknown option or an invalid value."""
        known = self.options
        found: dict[str, Any] = {}
        for name, text in options.items():
            if name not in known:
                raise ValueError(f"the probe {self.name!r} has no option {name!r}; there are {', '.join(known) or 'none'}")
            found[name] = _value(self.name, name, text, known[name].annotation)
        return found


def _value(probe: str, name: str, text: str, kind: Any) -> Any:
    if kind is bool:
        if text.lower() not in ("yes", "no", "true", "false", "1", "0"):
            raise ValueError(f"{probe}:{name} is yes or no, not {text!r}")
        return text.lower() in ("yes", "true", "1")
    try:
        return kind(text)
    except (TypeError, ValueError):
        raise ValueError(f"{probe}:{name} is a number, not {text!r}") from None


@functools.cache
def all_probes() -> dict[str, ProbeKind]:
    """All probes by name. Loads the files of `rewriters/probes/` on the first call."""
    found = {}
    for info in pkgutil.iter_modules(ptxkit.rewriters.probes.__path__):
        if info.name.startswith("_"):
            continue
        function = getattr(importlib.import_module(f"ptxkit.rewriters.probes.{info.name}"), info.name)
        name = info.name.replace("_", "-")
        found[name] = ProbeKind(name, (inspect.getdoc(function) or "").partition("\n\n")[0].replace("\n", " "), function)
    return found


# --- what a probe says ------------------------------------------------------------------------------------------------------------


@frozen
class Buffer:
    """A region of the buffer, as code locates it."""

    region: Region
    words: str
    """The address expression, in brackets, of its first word: the variable and an offset."""
    space: str
    fresh: Fresh

    def copied(self, base: str, scratch: str) -> str:
        """Code that advances from the first copy to that of the multiprocessor and warp; `scratch` is a 32-bit register."""
        if self.region.copies == 1:
            return ""
        return f"{self.copy(scratch)}\nmad.wide.u32 {base}, {scratch}, {self.stride}, {base};"

    def copy(self, to: str) -> str:
        """Code for the number of the copy that the warp adds to.

        Additions to one address are several cycles apart. So the warps of a multiprocessor use several copies, if available.
        """
        few = f"mov.u32 {to}, %smid;"
        if self.region.copies > MULTIPROCESSORS:
            warp = self.fresh.register("warp")
            few = f"{{ .reg .b32 {warp};\nmov.u32 {warp}, %warpid;\n{few}\nmad.lo.u32 {to}, {warp}, {MULTIPROCESSORS}, {to};\n}}"
        return f"{few}\nand.b32 {to}, {to}, {self.region.copies - 1};"

    @property
    def stride(self) -> int:
        """Stride between copies in bytes, for a region with a known number of rows."""
        return -(-(self.region.header + self.region.rows * self.region.row) // 128) * 128

    def word(self, to: str, number: int) -> str:
        """Code that loads one of the words: 1 is the number of rows of a copy, 2 the stride between copies in bytes."""
        return f"ld{self.space}.u64 {to}, [{self.words}+{8 * number}];"


@define
class _Part:
    """An edit, its owner, and what fails with it: its site, or all that the probe does in its function."""

    edit: Edit
    probe: int
    site: int | None
    whole: Routine | None


@define
class Plan:
    """The interface of a probe: the functions to instrument, and methods to request regions, sites and edits."""

    batch: _Instrumenting
    number: int
    routines: tuple[Routine, ...]
    """The functions with a body, except those that the probe cannot instrument."""
    regions: list[Region] = attrs.field(factory=list)
    data: dict[str, Any] = attrs.field(factory=dict)
    """Data for `decode`, in JSON types."""

    @property
    def module(self) -> Module:
        return self.batch.module

    def name(self, role: str, number: int | None = None) -> str:
        """A register name that is unique in the module; the same for the same role."""
        return self.batch.fresh.register(f"p{self.number}_{role}", number)

    def knows(self, feature: tuple[tuple[int, int], int]) -> bool:
        """Whether the module's version and target have a feature."""
        return (self.module.version or (1, 0)) >= feature[0] and self.batch.target >= feature[1]

    def region(
        self, name: str, row: int, rows: int, *, per: Any = "module", copied: bool = True, header: int = 0, copies: int = 0
    ) -> Buffer:
        """Requests rows in device memory; with `copied`, in as many copies as are worth their bytes."""
        if not copies:
            most = MOST_BYTES // max(1, row * rows + header) if copied else 1
            copies = min(COPIES, 1 << max(0, most.bit_length() - 1))
        region = Region(name, row, rows, per, copies, header)
        assert len(self.regions) < MOST_REGIONS
        self.regions.append(region)
        return self.batch.buffer(region)

    def allocations(self, count: int) -> Buffer:
        """Requests room for this many allocations, an address and a size each, which the host passes after the words of the regions."""
        self.batch.allocations = max(self.batch.allocations, count)
        return Buffer(Region("allocations", 16, count), f"{self.batch.symbol}+{8 * self.batch.room}", self.batch.space, self.batch.fresh)

    def site(self, routine: Routine, instruction: int, **details: Value) -> int:
        """Adds a site at an instruction; returns its number."""
        return self.batch.site(self.number, routine, instruction, details)

    def put(self, edit: Edit, *, site: int | None = None, whole: Routine | None = None) -> None:
        """Requests an edit for a site, or one without which the instrumentation of a function is meaningless."""
        self.batch.parts.append(_Part(edit, self.number, site, whole))

    def refuse(self, routine: Routine, instruction: int, reason: str, message: str) -> None:
        """Records that a site is left out."""
        self.batch.refuse(self.number, routine, instruction, reason, message)


@frozen
class Instrumented:
    """An instrumented module, and how to read its results. `refusals` are in the manifest, too."""

    module: Module
    manifest: ProbeManifest
    rewrite: Rewrite

    @property
    def text(self) -> str:
        return self.module.text


def instrument(
    module: Module, probes: Iterable[Chosen | str], *, functions: Iterable[str] | None = None, check: bool = False
) -> Instrumented:
    """The module with these probes, in all functions or only in some. `strip` removes all of them again, byte for byte.

    The manifest lists sites without a probe under `refused`. With `check`, the new module is checked for what an assembler would reject.
    Raises ValueError for an unknown probe, option or function, or a module without 64-bit addresses; FailedCheck for new errors.

        >>> from ptxkit import parse
        >>> module = parse(".version 8.5\\n.target sm_90\\n.address_size 64\\n.visible .entry k() { ret; }")
        >>> made = instrument(module, ["block-counts"])
        >>> [(site.function, site.line, site.text) for site in made.manifest.sites]
        [('k', 4, 'ret;')]
    """
    wanted = [chosen(one) if isinstance(one, str) else one for one in probes]
    kinds = all_probes()
    for one in wanted:
        if one.name not in kinds:
            near = difflib.get_close_matches(one.name, kinds, 1)
            hint = f": did you mean {near[0]}? There" if near else "; there"
            raise ValueError(f"no probe is called {one.name!r}{hint} are {', '.join(sorted(kinds))}")
    parsed = [kinds[one.name].parsed(one.options) for one in wanted]
    if any(one.bits == 32 for one in module.all(AddressSize)):
        raise ValueError("probes need addresses of 64 bits, and the module has `.address_size 32`")
    everything = routines(module)
    probed = everything if functions is None else _named(everything, set(functions))
    left_out: dict[tuple[int, str], RefusedSite] = {}
    while True:
        batch = _Instrumenting(module, everything, len(wanted))
        plans: list[Plan] = []
        for number, one in enumerate(wanted):
            mine = tuple([routine for routine in probed if routine.instructions and (number, routine.name) not in left_out])
            plan = Plan(batch, number, mine)
            plans.append(plan)
            kinds[one.name].plan(plan, **parsed[number])
        rewrite, fallen = batch.run()
        if not fallen:
            break
        left_out.update(fallen)
    uses = tuple([ProbeUse(one.name, dict(one.options), tuple(plan.regions), plan.data) for one, plan in zip(wanted, plans, strict=True)])
    manifest = batch.manifest(uses, tuple(left_out.values()))
    if check or batch.check:
        errors = new_errors(module, rewrite.module)
        if errors:
            raise FailedCheck(rewrite.module, errors)
    return Instrumented(rewrite.module, manifest, rewrite)


def _named(everything: tuple[Routine, ...], names: set[str]) -> tuple[Routine, ...]:
    """The functions with these names. Raises ValueError for a name that is none of theirs."""
    known = [routine.name for routine in everything]
    missing = sorted(names.difference(known))
    if missing:
        raise ValueError(f"no function is called {missing[0]!r}; there are {', '.join(known) or 'none'}")
    return tuple([routine for routine in everything if routine.name in names])


class _Instrumenting:
    """One attempt to insert all probes."""

    def __init__(self, module: Module, everything: tuple[Routine, ...], probes: int) -> None:
        self.module = module
        self.room = MOST_REGIONS * WORDS * probes
        self.routines = everything
        self.fresh = fresh(module)
        self.parts: list[_Part] = []
        self.sites: list[ProbeSite] = []
        self.refused: list[RefusedSite] = []
        self.regions = 0
        self.allocations = 0
        self.pinned = False
        self.check = False
        self.known: set[str] = set()
        self.target = max([_number(word) for word in module.targets], default=0)
        self.symbol = self.fresh.symbol("words")
        self.index = Index(module)
        self.files = {child.index: child.name for child in module.all(File)}
        held = sum([bytes_of(one, d) for one in module.all(Declaration) if one.space == ".const" for d in one.declarators])
        self.space = ".const" if held + 4096 <= CONSTANT_BYTES else ".global"

    def buffer(self, region: Region) -> Buffer:
        offset = self.regions * WORDS * 8
        self.regions += 1
        return Buffer(region, f"{self.symbol}+{offset}", self.space, self.fresh)

    def line_column(self, routine: Routine, instruction: int) -> tuple[int, int]:
        path = routine.where(instruction) if instruction >= 0 else routine.path
        return self.index.line_column(self.index.offset(path))

    def site(self, probe: int, routine: Routine, i: int, details: Mapping[str, Value]) -> int:
        line, column = self.line_column(routine, i)
        loc = locations(routine)[i]
        text = " ".join(routine.instructions[i].body_text.split())
        block = control_flow(routine).block_of[i]
        file, source_line = (self.files.get(loc.file, ""), loc.line) if loc is not None else ("", 0)
        number = len(self.sites)
        self.sites.append(ProbeSite(number, probe, routine.name, i, block, line, column, text, file, source_line, dict(details)))
        return number

    def refuse(self, probe: int, routine: Routine, instruction: int, reason: str, message: str) -> None:
        line, _ = self.line_column(routine, instruction)
        self.refused.append(RefusedSite(probe, routine.name, instruction, line, reason, message))

    def run(self) -> tuple[Rewrite, dict[tuple[int, str], RefusedSite]]:
        """The new module; and, by probe and function, what failed entirely, in which case planning starts again without it."""
        edits: list[Edit] = [part.edit for part in self.parts]
        if self.regions or self.allocations:
            edits.append(AddToModule(f".visible {self.space} .align 16 .b64 {self.symbol}[{self.words}];"))
        rewrite = apply(self.module, edits, "instrument", partly=True)
        owner = {id(part.edit): part for part in self.parts}
        fallen: dict[tuple[int, str], RefusedSite] = {}
        for refusal, edit in zip(rewrite.refusals, rewrite.refused, strict=True):
            part = owner[id(edit)]
            line, _ = self.index.line_column(self.index.offset(refusal.path))
            if part.whole is not None:
                name = part.whole.name
                fallen[part.probe, name] = RefusedSite(part.probe, name, -1, line, refusal.name, refusal.message)
                continue
            site = self.sites[part.site] if part.site is not None else None
            function, instruction = (site.function, site.instruction) if site is not None else ("", -1)
            self.refused.append(RefusedSite(part.probe, function, instruction, line, refusal.name, refusal.message))
        return rewrite, fallen

    @property
    def words(self) -> int:
        """64-bit words of the variable."""
        return (self.room if self.allocations else self.regions * WORDS) + 2 * self.allocations

    def manifest(self, uses: tuple[ProbeUse, ...], left_out: tuple[RefusedSite, ...]) -> ProbeManifest:
        kernels = []
        for function in self.module.kernels:
            parameters = tuple([(one.name, one.type, one.offset, one.bytes) for one in layout(function.header)])
            kernels.append(Kernel(function.name, parameters))
        declared = [one for one in self.module.all(Declaration) if one.space == ".global"] if self.allocations else []
        variables = [(d.name.text, bytes_of(one, d)) for one in declared for d in one.declarators if d.name.text not in self.known]
        return ProbeManifest(
            symbol=self.symbol,
            symbol_bytes=8 * self.words,
            probes=uses,
            sites=tuple(self.sites),
            refused=(*left_out, *self.refused),
            kernels=tuple(kernels),
            variables=tuple(variables),
            allocations=self.allocations,
            pinned=self.pinned,
            source=self.module.path or "",
        )


def _number(target: str) -> int:
    digits = target.removeprefix("sm_").rstrip("af")
    return int(digits) if target.startswith("sm_") and digits.isdecimal() else 0
