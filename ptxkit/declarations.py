"""Checks of declarations: types, state spaces, sizes, linkage, parameters, and whether functions match their declarations (ISA 5, 7,
11.2)."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import attrs

from ptxkit import redeclarations, visibility
from ptxkit.directives import (
    attribute_problems,
    availability,
    is_power_of_two,
    linkage_problems,
    lists_targets,
    other_statements,
    plain_integer,
)
from ptxkit.frozen import frozen
from ptxkit.initializers import initializer_problems
from ptxkit.isa.targets import Version, version_text
from ptxkit.isa.types import IN_REGISTERS, Type, types
from ptxkit.names import Names
from ptxkit.problem import Problem
from ptxkit.sizes import bytes_of, extent, natural_alignment, vector_of
from ptxkit.syntax import (
    Align,
    Attribute,
    Declaration,
    Declarator,
    Dimension,
    Function,
    Header,
    Keyword,
    Label,
    Module,
    Name,
    Node,
    Parameter,
    Parameters,
    Path,
    Pointer,
    Prototype,
    Range,
    Space,
    VectorWidth,
)

MAX_VECTOR_BITS = 128
MAX_CONST_BYTES = 65536
MAX_PARAM_ALIGN = 128
"""Maximum alignment of a parameter that is passed between device functions."""

DECLARED_SPACES = (".reg", ".const", ".global", ".local", ".param", ".shared", ".tex")
UNUSABLE = ("_", "WARP_SZ")
FORMAL, KERNEL, PLAIN = "formal", "kernel", "plain"


def problems(module: Module, names: Names, version: Version | None, target: str | None) -> Iterator[Problem]:
    """Problems in the declarations of a module, for the given `.version` and `.target` (5, 7.1, 11.2, 11.6)."""
    independent = "texmode_independent" in module.targets
    about = _About(version, target, independent, names)
    for i, child in enumerate(module.children):
        if type(child) is Declaration:
            yield from _declaration((i,), child, about, at_module=True)
        elif type(child) is Function:
            yield from _header((i, 0), child.header, about)
    clean: set[int] = set()
    for path, child in other_statements(names, Declaration, Prototype, Label):
        if type(child) is Label:
            if child.children[0].text in UNUSABLE:
                yield from _name((*path, 0), child.name)
        elif type(child) is Prototype:
            yield from _header(path, child, about)
        elif id(child) not in clean and type(child) is Declaration and not lists_targets(child):
            wrong = list(_declaration(path, child, about, at_module=False))
            yield from wrong
            # equal declarations of a file are one node; the place matters only for names in initializers, and `.const` is added up
            if not wrong and child.space != ".const" and not any(declarator.initializer for declarator in child.declarators):
                clean.add(id(child))
    yield from _constant_memory(about.constants)
    yield from redeclarations.problems(module, names)
    yield from visibility.problems(module, names)


@frozen
class _About:
    """The context that the rules of a declaration depend on."""

    version: Version | None
    target: str | None
    independent: bool
    """Whether textures and samplers are separate objects."""
    names: Names
    clean: set[tuple[object, ...]] = attrs.field(factory=set)
    """The words before the names of declarations and parameters that have no problem: most of a file's are alike."""
    sizes: dict[tuple[str, ...], tuple[int, int]] = attrs.field(factory=dict)
    """Alignment and size in bytes of parameters, by their words."""
    constants: list[tuple[Path, Declaration]] = attrs.field(factory=list)
    """The declarations that use constant memory, as they are found."""


def _constant_memory(constants: list[tuple[Path, Declaration]]) -> Iterator[Problem]:
    """The declaration that exceeds constant memory, if any."""
    total = 0
    for path, declaration in constants:
        total += bytes_of(declaration)
        if total > MAX_CONST_BYTES:
            message = f"the variables in `.const` take {total} bytes up to here"
            yield Problem("bad-array-size", path, message, (f"there are {MAX_CONST_BYTES}",))
            return


# --- one declaration or parameter -------------------------------------------------------------------------------------------------


def _declaration(path: Path, declaration: Declaration, about: _About, at_module: bool) -> Iterator[Problem]:
    words: list[object] = [at_module]
    declarators: list[tuple[int, Declarator]] = []
    for i, child in enumerate(declaration.children):
        if type(child) is Declarator:
            declarators.append((i, child))
        else:
            words.append(child.text)
    # For vectors in .param, it matters whether all are arrays.
    words.append(all(len(declarator.children) > 1 for _, declarator in declarators))
    if ".const" in words and ".extern" not in words:
        about.constants.append((path, declaration))
    key = tuple(words)
    if key not in about.clean:
        wrong = list(_before_the_names(path, declaration, about, at_module))
        yield from wrong
        if not wrong:
            about.clean.add(key)
    for i, declarator in declarators:
        name = declarator.children[0].text
        if name in UNUSABLE:
            yield from _name((*path, i, 0), declarator.name)
        if len(declarator.children) > 1:
            at = (*path, i)
            yield from _sizes(at, declaration, declarator)
            yield from initializer_problems(at, declaration, declarator, about.names, about.version, about.target)


def _before_the_names(path: Path, declaration: Declaration, about: _About, at_module: bool) -> Iterator[Problem]:
    """Problems in the words of a declaration, regardless of what is declared."""
    if at_module:
        yield from linkage_problems(path, declaration, about.version, about.target)
    elif declaration.linkage is not None:
        notes = ("linkage is for names of the module",)
        yield Problem("bad-linkage", (*path, 0), f"`{declaration.linkage}` in the body of a function", notes)
    yield from _specifiers(path, declaration, False)
    space = declaration.space
    yield from attribute_problems(path, declaration, space, about.version, about.target)
    yield from _space(path, declaration, space, about, at_module)
    known = yield from _type(path, declaration, about, PLAIN)
    yield from _alignment(path, declaration, MAX_PARAM_ALIGN if space == ".param" else None)
    if known is not None and known.kind == "opaque" and not at_module:
        notes = ("it is declared in the module or as a parameter",)
        yield Problem("type-not-in-space", path, f"a `{known.name}` in the body of a function", notes)
    if declaration.linkage == ".common":
        if space != ".global":
            yield Problem("bad-linkage", (*path, 0), f"`.common` on a variable in `{space}`", ("it is for variables in `.global`",))
        elif known is not None and known.kind == "opaque":
            yield Problem("bad-linkage", (*path, 0), f"`.common` on a `{known.name}`")


def _name(path: Path, name: Name) -> Iterator[Problem]:
    if name.text in UNUSABLE:
        yield Problem("unusable-name", path, f"`{name.text}` cannot be declared", ("it is a predefined identifier",))


def _specifiers(path: Path, declaration: Declaration | Parameter, is_parameter: bool) -> Iterator[Problem]:
    """The order of the words: space, alignment and attributes in any order, then the vector width, then the type."""
    kind: type[Node] | None = None
    for i, child in enumerate(declaration.children):
        if isinstance(child, Declarator):
            return
        late = kind in (VectorWidth, Keyword) and isinstance(child, Space | Align | Attribute | VectorWidth)
        if late and not (is_parameter and isinstance(child, Align) and kind is Keyword):
            before = "type" if kind is Keyword else "vector width"
            yield Problem(
                "misplaced-specifier",
                (*path, i),
                f"`{child.text}` after the {before}",
                ("the type comes last, the vector width before it",),
            )
        if isinstance(child, Pointer) and (not i or type(declaration.children[i - 1]) is not Keyword):
            yield Problem("misplaced-specifier", (*path, i), "`.ptr` not directly after the type")
        if isinstance(child, VectorWidth) or type(child) is Keyword:
            kind = type(child)


def _space(path: Path, declaration: Declaration, space: str | None, about: _About, at_module: bool) -> Iterator[Problem]:
    spaces = [i for i, child in enumerate(declaration.children) if isinstance(child, Space)]
    kind = "misplaced-variable"
    if space is None:
        yield Problem(
            kind, path, "a declaration that names no state space", ("`.reg`, `.global`, `.shared` and so on say where the variable is",)
        )
        return
    at = (*path, spaces[0])
    if len(spaces) > 1:
        yield Problem(
            kind, (*path, spaces[1]), f"`{declaration.children[spaces[1]].text}` beside `{space}`", ("a variable is in one state space",)
        )
    version = about.version
    if space not in DECLARED_SPACES:
        yield Problem(kind, at, f"a variable in `{space}`", ("no variable can be declared there",))
    elif space == ".tex" and (version is None or version >= (1, 5)):
        yield Problem(kind, at, "`.tex` is gone since PTX 1.5", ("`.global .texref` replaced it",))
    elif at_module and space == ".param":
        yield Problem(kind, at, "`.param` outside of a function", ("parameters are declared in functions and their headers",))
    elif at_module and space in (".reg", ".local") and (version is None or version >= (3, 0)):
        yield Problem(kind, at, f"`{space}` outside of a function", ("since PTX 3.0 it may be declared inside functions only",))


def _type(path: Path, declaration: Declaration | Parameter, about: _About, use: str) -> Generator[Problem, None, Type | None]:
    """Problems of the type, by itself and in its space. Returns the type, if it can be declared."""
    words = [i for i, child in enumerate(declaration.children) if type(child) is Keyword]
    kind = "type-not-declarable"
    if not words:
        yield Problem(kind, path, "a declaration that names no type")
        return None
    for i in words[:-1]:
        yield Problem(kind, (*path, i), f"`{declaration.children[i].text}` before the type", ("one type is declared",))
    at = (*path, words[-1])
    word = declaration.children[words[-1]].text
    known = types().get(word)
    if known is None:
        yield Problem(kind, at, f"`{word}` is not a type")
        return None
    if known.registers or known.kind not in (*IN_REGISTERS, "opaque"):
        instead = (
            f"a register that holds it is declared `{known.registers[0]}`" if known.registers else "it is allowed in instructions only"
        )
        yield Problem(kind, at, f"no variable can be declared `{word}`", (instead,))
        return None
    if word == ".samplerref" and not about.independent:
        yield Problem(kind, at, "`.samplerref` in a module without `.target texmode_independent`")
    if word in (".b128", ".f16x2", ".texref", ".samplerref", ".surfref"):
        yield from availability(at, f"`{word}`", word, about.version, about.target)
    yield from _type_in_space(path, at, declaration, known, use)
    return known


def _type_in_space(path: Path, at: Path, declaration: Declaration | Parameter, known: Type, use: str) -> Iterator[Problem]:
    space, vector = declaration.space, vector_of(declaration)
    width = next((i for i, child in enumerate(declaration.children) if isinstance(child, VectorWidth)), None)
    where = (*path, width) if width is not None else at
    if known.kind == "predicate" and space != ".reg":
        yield Problem("type-not-in-space", at, f"a `.pred` in `{space}`", ("predicates are registers",))
    elif known.kind == "opaque" and space != ".global" and use != KERNEL:
        yield Problem(
            "type-not-in-space", at, f"a `{known.name}` in `{space}`", ("it is declared in `.global`, or is the parameter of a kernel",)
        )
    if width is not None and vector not in (2, 4):
        text = declaration.children[width].text
        yield Problem("bad-vector-type", where, f"`{text}` in a declaration", ("a vector has two or four elements",))
    elif width is not None and known.kind in ("predicate", "opaque"):
        yield Problem("bad-vector-type", where, f"a vector of `{known.name}`")
    elif vector * known.bits > MAX_VECTOR_BITS:
        message = f"a vector of {vector} `{known.name}` is {vector * known.bits} bits wide"
        yield Problem("bad-vector-type", where, message, (f"at most {MAX_VECTOR_BITS}",))
    if space == ".param" and (width is not None or known.name == ".f16x2"):
        for declarator in declaration.declarators:
            if not declarator.dimensions:
                what = "a vector" if width is not None else "an `.f16x2`"
                yield Problem("type-not-in-space", where, f"{what} in `.param`", ("an array is allowed there",))
                break


def _alignment(path: Path, declaration: Declaration | Parameter, most: int | None) -> Iterator[Problem]:
    for i, child in enumerate(declaration.children):
        if isinstance(child, Align):
            yield from _align((*path, i), child, most)
        elif isinstance(child, Pointer):
            for j, inner in enumerate(child.children):
                if isinstance(inner, Align):
                    yield from _align((*path, i, j), inner, None)


def _align(path: Path, align: Align, most: int | None) -> Iterator[Problem]:
    node = align.children[0]
    value = plain_integer(node)
    if value is None:
        yield Problem(
            "bad-alignment", (*path, 0), f"`{node.text}` is not a plain integer", ("an alignment is a number without sign and operators",)
        )
    elif not is_power_of_two(value) or value >= 1 << 32:
        yield Problem("bad-alignment", (*path, 0), f"{value} is not an alignment", ("a power of two is needed",))
    elif most is not None and value > most:
        yield Problem("bad-alignment", (*path, 0), f"a parameter aligned to {value} bytes", (f"at most {most}",))


def _sizes(path: Path, declaration: Declaration, declarator: Declarator) -> Iterator[Problem]:
    """The count of `%r<n>`, and the dimensions of arrays."""
    kind = "bad-array-size"
    name = declarator.name.text
    dimensions = [(i, child) for i, child in enumerate(declarator.children) if isinstance(child, Dimension)]
    for i, child in enumerate(declarator.children):
        if isinstance(child, Range):
            if plain_integer(child.children[0]) is None:
                yield Problem(
                    kind, (*path, i), f"`{child.children[0].text}` is not a count", ("it is a number without sign and operators",)
                )
            if dimensions:
                yield Problem(kind, (*path, dimensions[0][0]), f"`{name}` is counted and an array", ("one excludes the other",))
    if dimensions and declaration.space == ".reg":
        yield Problem(
            kind,
            (*path, dimensions[0][0]),
            f"`{name}` is an array of registers",
            ("registers have no addresses; `%r<n>` declares several",),
        )
        return
    yield from _dimensions(path, dimensions)
    first = extent(dimensions[0][1]) if dimensions else 1
    unsized = dimensions and not dimensions[0][1].children
    if dimensions and (unsized or first == 0) and declaration.linkage != ".extern" and declarator.initializer is None:
        yield Problem(
            kind, path, f"nothing says how large `{name}` is", ("only an `.extern` array or one with initial values needs no size",)
        )


def _dimensions(path: Path, dimensions: list[tuple[int, Dimension]]) -> Iterator[Problem]:
    for position, (i, dimension) in enumerate(dimensions):
        if not dimension.children:
            if position:
                yield Problem("bad-array-size", (*path, i), "only the first dimension may be left out")
        elif plain_integer(dimension.children[0]) is None:
            text = dimension.children[0].text
            yield Problem("bad-array-size", (*path, i), f"`{text}` is not a size", ("it is a number without sign and operators",))


# --- functions, kernels, prototypes (7.1, 11.2) -----------------------------------------------------------------------------------


def _header(path: Path, header: Header, about: _About) -> Iterator[Problem]:
    is_prototype = isinstance(header, Prototype)
    use = KERNEL if header.is_entry and not is_prototype else FORMAL
    name_at = next((i for i, child in enumerate(header.children) if isinstance(child, Name)), None)
    if name_at is None:
        return
    if not is_prototype:
        yield from _name((*path, name_at), header.name)
    for i, child in enumerate(header.children):
        if not isinstance(child, Parameters):
            continue
        is_result = i < name_at
        if is_result and use == KERNEL:
            yield Problem("bad-parameter", (*path, i), "a kernel that returns a value", ("only device functions do",))
            continue
        parameters = [parameter for parameter in child.children if isinstance(parameter, Parameter)]
        for j, parameter in enumerate(child.children):
            if isinstance(parameter, Parameter):
                setting = (use, is_result, j == len(child.children) - 1, is_prototype)
                key = (*setting, parameter.name in UNUSABLE, *_spelling(parameter))
                if key not in about.clean:
                    wrong = list(_parameter((*path, i, j), parameter, about, *setting))
                    yield from wrong
                    if not wrong:
                        about.clean.add(key)
        if is_result and len(parameters) > 1 and any(parameter.space == ".param" for parameter in parameters):
            yield Problem("bad-parameter", (*path, i), "several return values in `.param`", ("one array can hold them",))
        if use == KERNEL:
            yield from _kernel_parameters((*path, i), parameters, about)


def _spelling(parameter: Parameter) -> tuple[str, ...]:
    """All words of a parameter except its name."""
    *words, declarator = parameter.children
    return (*[child.text for child in words], ":", *[child.text for child in declarator.children[1:]])


def _parameter(
    path: Path, parameter: Parameter, about: _About, use: str, is_result: bool, is_last: bool, is_prototype: bool
) -> Iterator[Problem]:
    yield from _specifiers(path, parameter, True)
    kind = "bad-parameter"
    spaces = [i for i, child in enumerate(parameter.children) if isinstance(child, Space)]
    space, name = parameter.space, parameter.name
    at = (*path, spaces[0]) if spaces else path
    if space is None:
        yield Problem(
            kind,
            path,
            f"parameter `{name}` names no state space",
            ("`.param` is needed" if use == KERNEL else "`.param` or `.reg` is needed",),
        )
    elif use == KERNEL and space != ".param":
        yield Problem(kind, at, f"parameter `{name}` of a kernel in `{space}`", ("it must be in `.param`",))
    elif space not in (".param", ".reg"):
        yield Problem(kind, at, f"parameter `{name}` in `{space}`", ("it must be in `.param` or `.reg`",))
    elif use == FORMAL and space == ".param" and not is_prototype:
        yield from availability(at, "a `.param` parameter of a device function", "param-of-function", about.version, about.target)
    if len(spaces) > 1:
        yield Problem(kind, (*path, spaces[1]), f"parameter `{name}` in two state spaces")
    linkage = next(
        (i for i, child in enumerate(parameter.children) if isinstance(child, Keyword) and child.text == parameter.linkage), None
    )
    if linkage is not None:
        yield Problem("bad-linkage", (*path, linkage), f"`{parameter.linkage}` on parameter `{name}`")
    for i, child in enumerate(parameter.children):
        if isinstance(child, Attribute):
            yield Problem(
                "bad-attribute", (*path, i), f"an attribute on parameter `{name}`", ("it is for variables in `.global` and for functions",)
            )
    if name == "WARP_SZ" or (name == "_" and use == FORMAL and not is_prototype):
        yield Problem("unusable-name", (*path, len(parameter.children) - 1), f"`{name}` is not a name for a parameter")
    yield from _type(path, parameter, about, use)
    yield from _alignment(path, parameter, MAX_PARAM_ALIGN if use == FORMAL and space == ".param" else None)
    yield from _pointer(path, parameter, about, use)
    yield from _parameter_size(path, parameter, about, use, is_result, is_last)


def _pointer(path: Path, parameter: Parameter, about: _About, use: str) -> Iterator[Problem]:
    typed = False
    for i, child in enumerate(parameter.children):
        if type(child) is Keyword:
            typed = True
        if use == FORMAL and (isinstance(child, Pointer) or (typed and isinstance(child, Align))):
            yield Problem("bad-parameter", (*path, i), f"`{child.text}` on the parameter of a device function", ("it is for kernels",))
        elif isinstance(child, Pointer):
            yield from availability((*path, i), "`.ptr`", ".ptr", about.version, about.target)
            space = next((j for j, inner in enumerate(child.children) if isinstance(inner, Space)), None)
            if space is not None and child.children[space].text not in (".const", ".global", ".local", ".shared"):
                text = child.children[space].text
                yield Problem(
                    "bad-parameter", (*path, i, space), f"a pointer to `{text}`", ("it is `.const`, `.global`, `.local` or `.shared`",)
                )


def _parameter_size(path: Path, parameter: Parameter, about: _About, use: str, is_result: bool, is_last: bool) -> Iterator[Problem]:
    kind = "bad-parameter"
    declarator = parameter.declarator
    at = (*path, len(parameter.children) - 1)
    name = parameter.name
    dimensions = [(i, child) for i, child in enumerate(declarator.children) if isinstance(child, Dimension)]
    if declarator.initializer is not None:
        yield Problem("bad-initializer", (*at, len(declarator.children) - 1), f"an initial value for parameter `{name}`")
    if any(isinstance(child, Range) for child in declarator.children):
        yield Problem(kind, at, f"parameter `{name}` with a count", ("each parameter is declared by itself",))
    if not dimensions:
        return
    if parameter.space == ".reg":
        yield Problem(kind, at, f"parameter `{name}` is an array of registers", ("an array is passed in `.param`",))
        return
    if len(dimensions) > 1:
        yield Problem(kind, at, f"parameter `{name}` has {len(dimensions)} dimensions", ("it may have one",))
        return
    yield from _dimensions(at, dimensions)
    size = extent(dimensions[0][1])
    if dimensions[0][1].children and size != 0:
        return
    if use == KERNEL or is_result:
        what = "a kernel" if use == KERNEL else "a return value"
        yield Problem(kind, at, f"nothing says how large `{name}` is", (f"an array in {what} needs its size",))
    elif not is_last:
        yield Problem(kind, at, f"nothing says how large `{name}` is", ("only the last parameter needs no size",))
    else:
        yield from availability(at, "a parameter without a size", "unsized-parameter", about.version, about.target)


def _kernel_parameters(path: Path, parameters: list[Parameter], about: _About) -> Iterator[Problem]:
    if not parameters:
        return
    yield from availability(path, "a parameter list of a kernel", "kernel-parameters", about.version, about.target)
    if sum(parameter.name == "_" for parameter in parameters) > 1:
        yield Problem("unusable-name", path, "two parameters named `_`")
    size = 0
    for parameter in parameters:
        key = _spelling(parameter)
        found = about.sizes.get(key)
        if found is None:
            found = about.sizes[key] = _alignment_and_size(parameter)
        size = -(-size // found[0]) * found[0] + found[1]
    version = about.version or (9, 0)
    most = 32764 if size > 32764 or version >= (8, 1) else 4352 if version >= (1, 5) else 256
    if size > 32764:
        yield Problem("bad-parameter", path, f"the parameters take {size} bytes", (f"at most {most}",))
    elif size > 4352:
        yield from availability(path, f"{size} bytes of parameters", "large-parameters", about.version, about.target)
    elif size > most:
        yield Problem(
            "bad-parameter", path, f"the parameters take {size} bytes", (f"at most {most} with .version {version_text(version)}",)
        )


def _alignment_and_size(parameter: Parameter) -> tuple[int, int]:
    known = types().get(parameter.type or "")
    if known is None or known.kind == "opaque":
        return 1, 0
    count = 1
    for dimension in parameter.declarator.dimensions:
        count *= extent(dimension) or 1
    return natural_alignment(parameter, known), count * known.bytes * vector_of(parameter)
