"""Checks of directives: the head of a module, placement of statements, and performance directives of functions (ISA 11)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from ptxkit.frozen import frozen
from ptxkit.isa.directives import Directive, directives
from ptxkit.isa.targets import NEWEST, Version, split_target, targets, version_text
from ptxkit.isa.targets import Target as Architecture
from ptxkit.names import Names
from ptxkit.problem import Problem
from ptxkit.syntax import (
    AddressSize,
    Alias,
    Attribute,
    AttributeItem,
    Block,
    Data,
    Declaration,
    Empty,
    File,
    Function,
    Group,
    Header,
    Instruction,
    Keyword,
    Label,
    Line,
    Loc,
    Module,
    Name,
    Node,
    Number,
    Path,
    PerformanceDirective,
    Pragma,
    Prototype,
    Section,
    SectionHeader,
    Space,
    Targets,
    constant_value,
    nodes,
)

MODELLED = (9, 1)
"""The newest PTX version that the table of directives covers completely."""

LAST_MINOR = {1: 5, 2: 3, 3: 2, 4: 3, 5: 1, 6: 5, 7: 8, 8: 8}
"""The last minor version of each completed major version (12)."""

MAX_ABI_PRESERVE = {".abi_preserve": 239, ".abi_preserve_control": 11}
"""The maximum that ptxas accepts."""

REGISTERS_OF_SM = 65536
MAX_THREADS_OF_CTA = 1024
MAX_REGISTERS_OF_THREAD = 255
MAX_CTAS_OF_CLUSTER = 16

_SM_LIMITS = (
    (20, 1536, 8),
    (30, 2048, 16),
    (50, 2048, 32),
    (75, 1024, 16),
    (80, 2048, 32),
    (86, 1536, 16),
    (89, 1536, 24),
    (90, 2048, 32),
    (110, 1536, 24),
)
"""The threads and CTAs that a multiprocessor holds, by the first target to which they apply."""


def problems(module: Module, names: Names, version: Version | None, target: str | None) -> Iterator[Problem]:
    """Problems in the directives of a module, for the given `.version` and `.target` (11, and 5.4.8 for attributes)."""
    yield from _head(module, version)
    yield from _statements(module, names, version, target)


# --- what the other checks of declarations use too --------------------------------------------------------------------------------


def availability(path: Path, what: str, name: str, version: Version | None, target: str | None) -> Iterator[Problem]:
    """The problem of a directive or feature that does not exist yet in a version or on a target, if so."""
    directive = directives()[name]
    if version is None or target is None or target not in targets():
        return
    least = directive.needs.version_for(target)
    if least is None:
        enough = " or ".join([f"{a.target} (from .version {version_text(a.version)})" for a in directive.needs.alternatives()])
        yield Problem("target-too-low", path, f"{what} needs {enough or 'no known target'}; the file says {target}")
    elif version < least and not _for_the_target_alone(directive, target, version):
        message = f"{what} needs .version {version_text(least)} with {target}; the file says {version_text(version)}"
        yield Problem("version-too-low", path, message)


def _for_the_target_alone(directive: Directive, target: str, version: Version) -> bool:
    """Whether the version is too low for the target itself, which is reported once, for `.target`."""
    since = targets()[target].since
    return version < since == directive.needs.version_for(target)


def plain_integer(node: Node) -> int | None:
    """The value of a node where the grammar requires an integer rather than an expression: an unsigned literal, or WARP_SZ."""
    if isinstance(node, Number) and node.text.startswith("-"):
        return None
    if not isinstance(node, Number | Name):
        return None
    value = constant_value(node)
    return value if isinstance(value, int) else None


def is_power_of_two(value: int) -> bool:
    """Whether an integer is 1, 2, 4, ..."""
    return value > 0 and value & (value - 1) == 0


def other_statements(names: Names, *kinds: type[Node]) -> Iterator[tuple[Path, Node]]:
    """The statements of some kinds, none of them instructions, in the bodies of functions, with their paths."""
    wanted = frozenset(kinds)
    for laid in names.blocks:
        for i, child in laid.others:
            if type(child) in wanted:
                yield (*laid.path, i), child


def lists_targets(declaration: Declaration) -> bool:
    """Whether this is a list of branch targets or callees, which is written like a declaration."""
    if type(declaration.children[0]) is Space:
        return False
    return declaration.space is None and declaration.type in (".branchtargets", ".calltargets")


# --- the head of the module (11.1) ------------------------------------------------------------------------------------------------


def _head(module: Module, version: Version | None) -> Iterator[Problem]:
    if not module.children:
        yield Problem("bad-header", (), "an empty file", ("a module starts with `.version` and `.target`",))
    before: Node | None = None
    for i, child in enumerate(module.children):
        kind = type(child)
        if kind is nodes.Version:
            yield from _version((i, 0), child.children[0].text)
        elif kind is nodes.Target:
            yield from _target((i,), child, version)
        elif kind is AddressSize:
            yield from _address_size((i,), child, before, module, version)
        elif kind is Function:
            break
        before = child
    if "debug" in module.targets and not any(type(child) is Section for child in module.children):
        path = next((i, j) for i, child in enumerate(module.children) if type(child) is nodes.Target for j in _options(child, "debug"))
        yield Problem(
            "bad-header", path, "`.target debug` in a module that has no DWARF section", ("take `debug` away, or add the sections",)
        )


def _options(target: Node, word: str) -> Iterator[int]:
    return (j for j, child in enumerate(target.children) if child.text == word)


def _version(path: Path, text: str) -> Iterator[Problem]:
    found = re.fullmatch(r"(\d{1,9})\.(\d{1,9})", text)
    if found is None:
        yield Problem("bad-header", path, f"`{text}` is not a PTX version", ("a version is two numbers separated by a dot, such as 8.5",))
        return
    version = (int(found[1]), int(found[2]))
    last = LAST_MINOR.get(version[0])
    if version < (1, 0) or (last is not None and version[1] > last):
        notes = (
            (f"the last version before {version[0] + 1}.0 is {version[0]}.{last}",) if last is not None else ("the first version is 1.0",)
        )
        yield Problem("bad-header", path, f"there is no PTX version {version_text(version)}", notes)
    elif version > NEWEST:
        far = version[0] > NEWEST[0] + 1
        message = f"PTX version {version_text(version)} is not known"
        yield Problem("bad-header", path, message, (f"the newest known one is {version_text(NEWEST)}",), doubtful=not far)


def _architecture(word: str) -> Architecture | None:
    return targets().get("sm_" + word.removeprefix("compute_") if word.startswith("compute_") else word)


def _target(path: Path, statement: Node, version: Version | None) -> Iterator[Problem]:
    words = [(j, child.text) for j, child in enumerate(statement.children) if isinstance(child, Name)]
    modes: set[str] = set()
    lowest: int | None = None
    for position, (j, word) in enumerate(words):
        at = (*path, j)
        known = _architecture(word)
        option = directives().get(word)
        if known is not None:
            lowest = known.number if lowest is None else min(lowest, known.number)
            if version is not None and version < known.since and not _measured_earlier(known, version):
                message = f"`{word}` needs .version {version_text(known.since)}; the file says {version_text(version)}"
                yield Problem("version-too-low", at, message)
        elif option is not None and "option" in option.owners:
            if position == 0:
                yield Problem("bad-header", at, f"`.target` starts with `{word}`", ("the architecture comes first, options after it",))
            if word.startswith("texmode_") and modes - {word}:
                yield Problem("bad-header", at, f"`{word}` contradicts `{modes.copy().pop()}`")
            if word.startswith("texmode_"):
                modes.add(word)
            if word == "map_f64_to_f32" and lowest is not None and lowest >= 13:
                yield Problem("bad-header", at, "`map_f64_to_f32` is for targets below sm_13 only")
            if version is not None and word == "debug" and version < (3, 0):
                yield Problem("version-too-low", at, f"`debug` needs .version 3.0; the file says {version_text(version)}")
        else:
            # A target newer than the table is likely to occur in a newer file.
            doubtful = version is not None and version > NEWEST and _looks_like_target(word)
            yield Problem("bad-header", at, f"`{word}` is not a known target", _target_notes(word), doubtful=doubtful)


def _measured_earlier(known: Architecture, version: Version) -> bool:
    """sm_88 was introduced in 9.0, but ptxas accepts it from 7.3 on."""
    return known.name == "sm_88" and version >= (7, 3)


def _looks_like_target(word: str) -> bool:
    try:
        split_target(word)
    except ValueError:
        return False
    return True


def _target_notes(word: str) -> tuple[str, ...]:
    base = word.rstrip("af").replace("compute_", "sm_")
    if base in targets() and base != word:
        variants = [name for name in targets() if name.rstrip("af") == base]
        return (f"did you mean {' or '.join(variants)}?",)
    return ("expected an architecture such as sm_90 or sm_90a, or one of texmode_unified, texmode_independent, debug",)


def _address_size(path: Path, statement: Node, before: Node | None, module: Module, version: Version | None) -> Iterator[Problem]:
    child = statement.children[0]
    value = plain_integer(child)
    if value not in (32, 64):
        yield Problem("bad-header", (*path, 0), f"`{child.text}` is not a size of addresses", ("it is 32 or 64",))
    elif value == 32 and any(known is not None and known.number >= 90 for known in map(_architecture, module.targets)):
        yield Problem("bad-header", (*path, 0), "addresses of 32 bits are not supported from sm_90 on")
    if type(before) is not nodes.Target:
        yield Problem("bad-header", path, "`.address_size` not directly after `.target`")
    if version is not None and version < (2, 3):
        yield Problem("version-too-low", path, f"`.address_size` needs .version 2.3; the file says {version_text(version)}")


# --- what stands where ------------------------------------------------------------------------------------------------------------


_OUTSIDE = {
    Instruction: "an instruction",
    Label: "a label",
    Block: "a block",
    Loc: "`.loc`",
    Targets: "a list of targets",
    Prototype: "a prototype",
    Empty: "a lone `;`",
    Data: "DWARF data",
}
_INSIDE = {
    nodes.Version: "`.version`",
    AddressSize: "`.address_size`",
    File: "`.file`",
    Section: "a section",
    SectionHeader: "a section",
    Alias: "`.alias`",
    Empty: "a lone `;`",
    Data: "DWARF data",
}

_ANYWHERE = frozenset((Loc, Label, Block))
"""The statements that may stand anywhere in a body."""


def _statements(module: Module, names: Names, version: Version | None, target: str | None) -> Iterator[Problem]:
    seen_function = False
    for i, child in enumerate(module.children):
        kind = type(child)
        if kind in _OUTSIDE:
            why = "no statement is empty" if kind is Empty else "it belongs in the body of a function"
            at = (i, 1) if kind is Instruction and type(child.children[0]) is nodes.Guard else (i, 0) if kind is Instruction else (i,)
            yield Problem("misplaced-statement", at, f"{_OUTSIDE[kind]} outside of a function", (why,))
        elif kind is Function:
            yield from _function((i,), child, version, target)  # type: ignore[arg-type]
            seen_function = True
        elif kind is AddressSize and seen_function:
            yield Problem("bad-header", (i,), "`.address_size` not directly after `.target`")
        elif kind is nodes.Target and seen_function:
            yield Problem("misplaced-statement", (i,), "`.target` after a function", ("it belongs at the start of the module",))
        elif kind is Alias:
            yield from availability((i,), "`.alias`", ".alias", version, target)
        elif kind is Pragma:
            yield from availability((i,), "`.pragma`", ".pragma", version, target)
        elif kind is Line:
            yield from _line((i,), child, version)
    for laid in names.blocks:
        before: tuple[int, Node | None] = (-1, None)
        for i, child in laid.others:
            if type(child) not in _ANYWHERE:
                yield from _inside((*laid.path, i), child, before[1] if before[0] == i - 1 else None, version, target)
            before = (i, child)


def _inside(path: Path, child: Node, before: Node | None, version: Version | None, target: str | None) -> Iterator[Problem]:
    """The problem of a statement that does not belong in a body, or not after the previous one (None for an instruction)."""
    kind = type(child)
    if kind in _INSIDE:
        why = "no statement is empty" if kind is Empty else "it belongs at module level"
        yield Problem("misplaced-statement", path, f"{_INSIDE[kind]} in the body of a function", (why,))
    elif kind is Declaration:
        word = child.children[0].text if child.children else ""
        if word in (".branchtargets", ".calltargets"):
            yield from _list_of_targets(path, word, before, version, target)
    elif kind is Targets:
        word = child.shape.tokens[0]  # type: ignore[attr-defined]
        yield from _list_of_targets(path, word, before, version, target)
    elif kind is Prototype:
        yield from _list_of_targets(path, ".callprototype", before, version, target)
        yield from _performance(path, child, "prototype", version, target)  # type: ignore[arg-type]
        if child.name is not None and child.name.text != "_":  # type: ignore[attr-defined]
            at = next(j for j, inner in enumerate(child.children) if isinstance(inner, Name))
            yield Problem("bad-parameter", (*path, at), f"a prototype named `{child.children[at].text}`", ("`_` stands for the name",))
    elif kind is Pragma:
        yield from availability(path, "`.pragma`", ".pragma", version, target)
    elif kind is Function:
        header = child.header  # type: ignore[attr-defined]
        if header.is_entry or child.body is not None:  # type: ignore[attr-defined]
            what = "a kernel" if header.is_entry else "a function"
            yield Problem("misplaced-statement", (*path, 0), f"{what} in the body of a function", ("functions stand side by side",))
    elif kind is Line:
        yield from _line(path, child, version)


def _line(path: Path, child: Node, version: Version | None) -> Iterator[Problem]:
    text = child.body_text  # type: ignore[attr-defined]
    if text.startswith("#") and not re.match(r"#[ \t]*(?:line[ \t]+)?\d", text):
        yield Problem("misplaced-statement", path, "`#` starts no statement", ('only `#line 5 "file"` and `# 5 "file"` may stand here',))
    elif text.startswith("@@") and version is not None and version >= (2, 0):
        yield Problem("misplaced-statement", path, "`@@DWARF` is gone since PTX 2.0", ("`.section` replaces it",))


def _list_of_targets(path: Path, word: str, before: Node | None, version: Version | None, target: str | None) -> Iterator[Problem]:
    if type(before) is not Label:
        yield Problem("bad-target-list", path, f"`{word}` without a label before it", ("the label is its name",))
    yield from availability(path, f"`{word}`", word, version, target)


# --- functions (11.2, 11.4, 11.6, 11.7) -------------------------------------------------------------------------------------------


def _function(path: Path, function: Function, version: Version | None, target: str | None) -> Iterator[Problem]:
    header = function.header
    at = (*path, 0)
    yield from linkage_problems(at, header, version, target)
    if header.linkage == ".common":
        yield Problem("bad-linkage", (*at, 0), "`.common` on a function", ("it is for variables in `.global`",))
    for j, child in enumerate(header.children):
        if isinstance(child, Attribute):
            if header.is_entry:
                yield Problem("bad-attribute", (*at, j), "an attribute on a kernel", ("attributes are for device functions and variables",))
            else:
                yield from _attribute_items((*at, j), child, ".func", version, target)
    name = next((j for j, child in enumerate(header.children) if isinstance(child, Name)), None)
    if name is not None and any(".noreturn" in token for token in header.shape.tokens[: name + 1]):
        yield Problem("bad-directive", (*at, name), "`.noreturn` before the name", ("it stands after the parameters",))
    yield from _performance(at, header, "entry" if header.is_entry else "func", version, target)


def linkage_problems(path: Path, statement: Node, version: Version | None, target: str | None) -> Iterator[Problem]:
    """Problems of the linkage words of a function or a module-level variable (11.6)."""
    found = [(j, child) for j, child in enumerate(statement.children) if isinstance(child, nodes.Linkage)]
    for position, (j, child) in enumerate(found):
        if position:
            yield Problem("bad-linkage", (*path, j), f"`{child.text}` after `{found[0][1].text}`", ("a name has one linkage",))
        elif j:
            yield Problem("bad-linkage", (*path, j), f"`{child.text}` is not the first word", ("linkage comes first",))
        yield from availability((*path, j), f"`{child.text}`", child.text, version, target)


@frozen
class _Said:
    """A performance directive with its path and the values of its arguments."""

    path: Path
    values: tuple[int, ...]

    @property
    def product(self) -> int:
        return math.prod(self.values)


def _performance(path: Path, header: Header, owner: str, version: Version | None, target: str | None) -> Iterator[Problem]:
    """Problems of the directives between a function's parameters and its body."""
    said: dict[str, _Said] = {}
    for j, child in enumerate(header.children):
        if not isinstance(child, PerformanceDirective):
            continue
        name, at = child.name, (*path, j)
        known = directives().get(name)
        if known is None or not name.startswith("."):
            doubtful = version is not None and version > MODELLED
            yield Problem("bad-directive", at, f"`{name}` is not a directive of a function", doubtful=doubtful)
            continue
        if owner not in known.owners:
            yield Problem("bad-directive", at, f"`{name}` on {_OWNERS[owner]}", (f"it is for {_spoken_owners(known)}",))
            continue
        if known.gone is not None and version is not None and version >= known.gone:
            yield Problem("bad-directive", at, f"`{name}` is gone since PTX {version_text(known.gone)}", ("`.minnctapersm` replaced it",))
            continue
        yield from availability(at, f"`{name}`", name, version, target)
        values, wrong = _values(at, child, known)
        if wrong is not None:
            yield wrong
            continue
        if name in said and name in (".noreturn", ".abi_preserve", ".abi_preserve_control"):
            yield Problem("bad-directive", at, f"`{name}` is there twice", related=((said[name].path, "the first one"),))
        said[name] = _Said(at, values)
    if said:
        yield from _contradictions(path, header, said)
        yield from _launch_bounds(header, said, target)


_OWNERS = {"entry": "a kernel", "func": "a device function", "prototype": "a prototype"}


def _spoken_owners(known: Directive) -> str:
    return " and ".join(
        [words + "s" for owner, words in (("entry", "kernel"), ("func", "device function"), ("module", "module")) if owner in known.owners]
    )


def _values(path: Path, child: PerformanceDirective, known: Directive) -> tuple[tuple[int, ...], Problem | None]:
    """The values of the arguments, and their problem, if any."""
    if known.name == ".pragma":
        return (), None
    arguments = [(j, inner) for j, inner in enumerate(child.children) if not isinstance(inner, Keyword)]
    if len(arguments) < known.fewest or (known.most is not None and len(arguments) > known.most):
        wanted = str(known.fewest) if known.most == known.fewest else f"{known.fewest} to {known.most}"
        at = (*path, arguments[known.most or 0][0]) if len(arguments) > known.fewest and arguments else path
        what = "no argument" if not arguments else "1 argument" if len(arguments) == 1 else f"{len(arguments)} arguments"
        return (), Problem("bad-directive", at, f"`{known.name}` with {what}", (f"it takes {wanted}",))
    values = []
    for j, argument in arguments:
        value = plain_integer(argument)
        if value is None:
            return (), Problem("bad-directive", (*path, j), f"`{argument.text}` of `{known.name}` is not a plain integer")
        if value < known.least or value >= 1 << 32:
            why = "it is not positive" if value < known.least else "it is beyond 32 bits"
            return (), Problem("bad-directive", (*path, j), f"`{argument.text}` is not a value for `{known.name}`", (why,))
        most = MAX_ABI_PRESERVE.get(known.name)
        if most is not None and value > most:
            return (), Problem("bad-directive", (*path, j), f"`{argument.text}` is not a value for `{known.name}`", (f"at most {most}",))
        values.append(value)
    return tuple(values), None


def _contradictions(path: Path, header: Header, said: dict[str, _Said]) -> Iterator[Problem]:
    for one, other in ((".maxntid", ".reqntid"), (".reqnctapercluster", ".maxclusterrank")):
        if one in said and other in said:
            first, second = sorted((one, other), key=lambda name: said[name].path)
            yield Problem("bad-directive", said[second].path, f"`{second}` beside `{first}`", related=((said[first].path, f"`{first}`"),))
    if ".blocksareclusters" in said and not {".reqntid", ".reqnctapercluster"} <= said.keys():
        missing = " and ".join([f"`{name}`" for name in (".reqntid", ".reqnctapercluster") if name not in said])
        yield Problem("bad-directive", said[".blocksareclusters"].path, f"`.blocksareclusters` without {missing}")
    if ".noreturn" in said and header.returns:
        yield Problem("bad-directive", said[".noreturn"].path, "`.noreturn` on a function that returns a value")


def sm_limits(target: str | None) -> tuple[int, int] | None:
    """The threads and CTAs that a multiprocessor of a target holds; None for an unknown target."""
    known = targets().get(target or "")
    if known is None:
        return None
    if known.renamed:
        return sm_limits(known.renamed)
    found = [(threads, ctas) for number, threads, ctas in _SM_LIMITS if number <= known.number]
    return found[-1] if found else None


def _launch_bounds(header: Header, said: dict[str, _Said], target: str | None) -> Iterator[Problem]:
    """Launch bounds that contradict each other or the hardware: the assembler ignores some, or every launch fails (11.4)."""
    kind = "launch-bound-conflict"
    threads = said.get(".reqntid") or said.get(".maxntid")
    count = threads.product if threads is not None else None
    if threads is not None and count is not None and count > MAX_THREADS_OF_CTA:
        yield Problem(kind, threads.path, f"{count} threads in a CTA", (f"no target has more than {MAX_THREADS_OF_CTA}",))
    registers = said.get(".maxnreg")
    if registers is not None and registers.values[0] > MAX_REGISTERS_OF_THREAD:
        notes = (f"a thread has at most {MAX_REGISTERS_OF_THREAD}; the directive is ignored",)
        yield Problem(kind, registers.path, f"`.maxnreg {registers.values[0]}`", notes)
        registers = None
    ctas = said.get(".minnctapersm")
    if ctas is not None and count is None:
        yield Problem(kind, ctas.path, "`.minnctapersm` without `.maxntid` or `.reqntid`", ("it is ignored",))
    limits = sm_limits(target)
    in_warps = 32 * -(-count // 32) if count is not None else 0
    if ctas is not None and threads is not None and limits is not None and count is not None and count <= MAX_THREADS_OF_CTA:
        wanted = ctas.values[0]
        if wanted > limits[1]:
            yield Problem(
                kind,
                ctas.path,
                f"the launch bounds ask for {wanted} CTAs on a multiprocessor",
                (f"{target} holds {limits[1]}; the directive is ignored",),
            )
        elif wanted * in_warps > limits[0]:
            notes = (f"{target} holds {limits[0]}; the directive is ignored",)
            yield Problem(
                kind,
                ctas.path,
                f"the launch bounds ask for {wanted} CTAs of {count} threads on a multiprocessor",
                notes,
                ((threads.path, "the threads"),),
            )
    if registers is not None and threads is not None and count is not None and count <= MAX_THREADS_OF_CTA:
        least = ctas.values[0] if ctas is not None else 1
        needed = registers.values[0] * in_warps * least
        # With .maxntid alone, a smaller CTA may be launched.
        if needed > REGISTERS_OF_SM and (least > 1 or ".reqntid" in said):
            of = f" in {least} CTAs" if least > 1 else ""
            message = f"{registers.values[0]} registers for each of {count} threads{of}"
            yield Problem(kind, registers.path, message, (f"a multiprocessor has {REGISTERS_OF_SM}",), ((threads.path, "the threads"),))
    # .maxclusterrank only bounds the size from above
    cluster = said.get(".reqnctapercluster")
    if cluster is not None and cluster.product > MAX_CTAS_OF_CLUSTER:
        yield Problem(kind, cluster.path, f"{cluster.product} CTAs in a cluster", (f"no target has more than {MAX_CTAS_OF_CLUSTER}",))


# --- attributes (5.4.8) -----------------------------------------------------------------------------------------------------------


def attribute_problems(path: Path, statement: Node, space: str | None, version: Version | None, target: str | None) -> Iterator[Problem]:
    """Problems of the attributes of a variable in a state space (5.4.8)."""
    for j, child in enumerate(statement.children):
        if isinstance(child, Attribute):
            yield from _attribute_items((*path, j), child, space, version, target)


def _attribute_items(path: Path, attribute: Attribute, space: str | None, version: Version | None, target: str | None) -> Iterator[Problem]:
    for j, item in enumerate(attribute.children):
        at = (*path, j)
        word = item.children[0].text if isinstance(item, AttributeItem) and item.children else item.text
        known = directives().get(word)
        if known is None or "attribute" not in known.owners:
            yield Problem("bad-attribute", at, f"`{word}` is not an attribute", ("there is `.managed` and `.unified`",))
            continue
        if space != ".global" and not (space == ".func" and word == ".unified"):
            on = "a function" if space == ".func" else f"a variable in `{space}`"
            yield Problem("bad-attribute", at, f"`{word}` on {on}", ("it is for variables in `.global`",))
        group = next((inner for inner in item.children if isinstance(inner, Group)), None) if isinstance(item, AttributeItem) else None
        arguments = group.elements if group is not None else ()
        if len(arguments) != known.fewest or any(plain_integer(argument) is None for argument in arguments):
            wanted = "it takes two integers" if known.fewest else "it takes no argument"
            yield Problem("bad-attribute", at, f"`{item.text}` has the wrong arguments", (wanted,))
        yield from availability(at, f"`{word}`", word, version, target)


__all__ = [
    "attribute_problems",
    "availability",
    "is_power_of_two",
    "linkage_problems",
    "lists_targets",
    "other_statements",
    "plain_integer",
    "problems",
    "sm_limits",
]
