"""Lint rules, and the facts that they can use.

A rule is a file in a subfolder of `analyses/rules/`, named as the rule, that defines `RULE`. Rules are discovered by these files;
documentation page and test are generated from them. Files whose name begins with an underscore are shared by several rules.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import textwrap
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from ptxkit import calls, checking, debug_directives, declarations, directives, suppressions
from ptxkit.diagnostics import Diagnostic, Fix, Related, Severity, Span
from ptxkit.frozen import frozen
from ptxkit.names import Names, resolve
from ptxkit.problem import Problem
from ptxkit.suppressions import Mark
from ptxkit.syntax import Function, Index, Module, Path, index_of, syntax_errors

if TYPE_CHECKING:
    from ptxkit.analyses.framework.routine import Routine

PROBLEMS = (checking.problems, declarations.problems, directives.problems, debug_directives.problems, calls.problems)
"""The checks that report problems, given a module, its names, the version and the target."""


class Facts:
    """Facts about a module, each computed when a rule first asks for it."""

    def __init__(self, module: Module, target: str | None = None, version: tuple[int, int] | None = None, *, executes: bool = True) -> None:
        self.module = module
        self.target = target
        self.version = version
        self.executes = executes
        """Whether facts of kernels may be computed by executing them."""

    @functools.cached_property
    def index(self) -> Index:
        """Locations of nodes."""
        return index_of(self.module)

    @functools.cached_property
    def names(self) -> Names:
        """Resolution of names."""
        return resolve(self.module)

    @functools.cached_property
    def marks(self) -> tuple[Mark, ...]:
        """The suppression comments."""
        return suppressions.marks(self.module, lambda: self.index)

    @functools.cached_property
    def syntax(self) -> tuple[Diagnostic, ...]:
        """The parser's findings."""
        return syntax_errors(self.module)

    @functools.cached_property
    def _problems(self) -> dict[str, list[Problem]]:
        version = self.version or self.module.version
        words = self.module.targets
        target = self.target or next((word for word in words if word.startswith("sm_")), None)
        found: dict[str, list[Problem]] = {}
        for problem in chain(*[problems(self.module, self.names, version, target) for problems in PROBLEMS]):
            found.setdefault(problem.kind, []).append(problem)
        return found

    def problems(self, kind: str) -> Iterator[Problem]:
        """Problems of one kind that an assembler would reject."""
        return iter(self._problems.get(kind, ()))

    def problem_reports(self, rule: Rule) -> Iterator[Diagnostic]:
        """Reports the problems with the name of the rule."""
        for problem in self.problems(rule.name):
            severity = Severity.WARNING if problem.doubtful and rule.severity is Severity.ERROR else rule.severity
            yield self.report(rule, problem.path, problem.message, *problem.notes, related=problem.related, severity=severity)

    @functools.cached_property
    def functions(self) -> tuple[tuple[Path, Function], ...]:
        """The functions with a body, and their paths."""
        children = enumerate(self.module.children)
        return tuple([((i,), child) for i, child in children if isinstance(child, Function) and child.body is not None])

    @functools.cached_property
    def routines(self) -> tuple[Routine, ...]:
        """The functions with a body, as routines that hold their facts."""
        from ptxkit.analyses.framework.routine import routines  # what only reads the text needs none

        return routines(self.module, executes=self.executes)

    def routine(self, function: Function) -> Routine:
        """The routine of a function of this module. Raises KeyError if the function has no body."""
        return self._routines[id(function)]

    @functools.cached_property
    def _routines(self) -> dict[int, Routine]:
        return {id(routine.function): routine for routine in self.routines}

    def forget(self) -> None:
        """Releases all facts of functions. They refer to one another, so otherwise only the garbage collector would free them."""
        for routine in self.__dict__.pop("routines", ()):
            routine.forget()

    def report(
        self,
        rule: Rule,
        where: Path | Span,
        message: str,
        *notes: str,
        related: Iterable[tuple[Path | Span, str]] = (),
        severity: Severity | None = None,
        fix: Fix | None = None,
    ) -> Diagnostic:
        """A diagnostic of a rule at a node or span."""
        span = where if isinstance(where, Span) else self.index.span(where)
        function = None
        if not isinstance(where, Span) and where:
            top = self.module.children[where[0]]
            function = top.name if isinstance(top, Function) else None
        others = tuple([Related(other if isinstance(other, Span) else self.index.span(other), why) for other, why in related])
        return Diagnostic(rule.id, rule.name, severity or rule.severity, message, span, self.module.path, function, notes, others, fix=fix)


FROM_THE_TEXT = "It follows from the text alone."
NEVER_RUN = "never sees it: a program runs only if an assembler accepts it."
SILENT = "accepts the bad example without a message"
PTXAS = "13.0.88"
"""The release of ptxas that the rules were compared with; `benchmarks/reactions.py` repeats the comparison."""


def _block(text: str) -> str:
    """The lines of a text block without common indentation and surrounding line ends."""
    return textwrap.dedent(text).strip("\n")


@frozen
class Rule:
    """A lint rule. `bad` and `good` are statements, functions or whole modules; `in_module` completes them to modules, and a test checks
    them."""

    id: str
    name: str
    severity: Severity
    summary: str
    why: str
    bad: str = attrs.field(converter=_block)
    good: str = attrs.field(converter=_block)
    check: Callable[[Facts], Iterator[Diagnostic]]
    default: bool = True
    """Whether `ptxkit lint` applies it if no rules are selected."""
    kind: str = ""
    """The kind of findings that it reports, if a protocol distinguishes several."""
    is_shown: bool = False
    """Whether only executions find violations; `check` then yields nothing."""
    proof: str = FROM_THE_TEXT
    """What has to be established before it is reported."""
    ptxas: str = SILENT
    """What ptxas does with the bad example: nothing, `refuses …`, or a warning or note."""
    sanitizer: str = NEVER_RUN
    """What compute-sanitizer does with it."""

    @property
    def family(self) -> str:
        return self.id[0]


_HEADER = """\
.version 9.0
.target sm_90a
.address_size 64
"""
_REGISTERS = """\
.reg .pred %p<8>;
.reg .b16 %rs<8>;
.reg .b32 %r<16>;
.reg .b64 %rd<16>;
.reg .f32 %f<16>;
.reg .f64 %fd<8>;
"""


def in_module(example: str) -> str:
    """Completes an example of a rule to a module by adding the missing header, registers or kernel."""
    if ".version" in example:
        return example
    if ".entry" not in example and ".func" not in example:
        return f"{_HEADER}.visible .entry k()\n{{\n{_REGISTERS}{example}\nret;\n}}\n"
    if ".reg" not in example:
        example = example.replace("{\n", "{\n" + _REGISTERS, 1)
    return f"{_HEADER}{example}\n"


LINE = 200
"""Maximum length in characters of the first line of a rule's file."""
BY_REQUEST = ", by request"
"""What this line says of a rule that is not on by default."""


@functools.cache
def _folders() -> dict[str, tuple[str, ...]]:
    """The folders of rules, as packages, and their `WORDS`: without any of them in its text, a module has no finding of these rules."""
    package = importlib.import_module("ptxkit.analyses.rules")
    names = [f"{package.__name__}.{info.name}" for info in pkgutil.iter_modules(package.__path__) if info.ispkg]
    return {name: getattr(importlib.import_module(name), "WORDS", ()) for name in names}


def folders_for(text: str) -> frozenset[str]:
    """The folders with rules that may report something in a module with this text, or in functions whose opcodes, declarations and names
    are in it. Comments about rules concern all of them."""
    if suppressions.WORD in text:
        return frozenset(_folders())
    return frozenset([name for name, words in _folders().items() if not words or any(map(text.__contains__, words))])


@functools.lru_cache(maxsize=256)
def outside(folders: frozenset[str]) -> frozenset[str]:
    """The ids of the rules that are in none of these folders."""
    return frozenset([heading.id for folder in _folders() if folder not in folders for heading in _headings_in(folder)])


class _Heading(NamedTuple):
    """What the first line of a rule's file says: `R002 dead-store`, and `by request` if it is not on by default."""

    id: str
    name: str
    module: str
    default: bool


@functools.cache
def _headings_in(folder: str) -> tuple[_Heading, ...]:
    """The first lines of the files in a folder of rules, by which most rules need not be imported."""
    found = []
    for info in pkgutil.iter_modules(importlib.import_module(folder).__path__, f"{folder}."):
        if not info.name.rpartition(".")[2].startswith("_"):
            # the annotation of the finder lacks the method that finds by name alone
            loader: Any = info.module_finder.find_spec(info.name, None).loader  # type: ignore[union-attr]
            path = loader.get_filename(info.name)
            begins = loader.get_data(path)[:LINE].decode(errors="replace") if path.endswith(".py") else ""
            source = begins or f'"""{importlib.import_module(info.name).__doc__}'
            rule_id, name = source.lstrip('"').split(maxsplit=2)[:2]
            found.append(_Heading(rule_id, name.strip('".:,'), info.name, BY_REQUEST not in source.partition("\n")[0]))
    return tuple(found)


@functools.cache
def _headings(folders: frozenset[str] | None = None) -> tuple[_Heading, ...]:
    """The headings of the rules in some or all folders, by id."""
    found = [heading for folder in (_folders() if folders is None else folders) for heading in _headings_in(folder)]
    for what, values in (("id", [one.id for one in found]), ("name", [one.name for one in found])):
        if len(set(values)) != len(values):
            raise ValueError(f"two rules have the same {what}: {sorted(v for v in values if values.count(v) > 1)[0]}")
    return tuple(sorted(found))


@functools.cache
def _rule(module: str) -> Rule:
    rule: Rule = importlib.import_module(module).RULE
    return rule


def all_rules() -> tuple[Rule, ...]:
    """Every rule in the folders of `analyses/rules/`, by id. Raises ValueError if two have the same id or name."""
    return tuple([_rule(one.module) for one in _headings()])


def _nearest(word: str) -> str:
    """A suggestion for a word that names no rule."""
    import difflib

    near = difflib.get_close_matches(word, [word for one in _headings() for word in (one.id, one.name)], 3)
    return f": did you mean {' or '.join(near)}?" if near else "; `ptxkit rules` lists them"


def select(wanted: Iterable[str] = (), unwanted: Iterable[str] = (), text: str | None = None) -> tuple[Rule, ...]:
    """The rules that a selection names: ids, names, family letters or `ALL`. An empty selection means those on by default.

    With the `text` of a module, rules are left out that find nothing in it, since it has none of the words that they need: they are not
    imported. Raises ValueError for a word that names no rule.
    """
    return _selected(tuple(wanted), tuple(unwanted), None if text is None else folders_for(text))


@functools.lru_cache(maxsize=256)
def _selected(wanted: tuple[str, ...], unwanted: tuple[str, ...], folders: frozenset[str] | None) -> tuple[Rule, ...]:
    for word in (*wanted, *unwanted):
        if not any(names_rule(word, one.id, one.name) for one in _headings()):
            raise ValueError(f"no rule is called {word!r}{_nearest(word)}")
    chosen = []
    for one in _headings(folders):
        is_wanted = any(names_rule(word, one.id, one.name) for word in wanted) if wanted else one.default
        if is_wanted and not any(names_rule(word, one.id, one.name) for word in unwanted):
            chosen.append(_rule(one.module))
    return tuple(chosen)


def names_rule(word: str, rule_id: str, name: str) -> bool:
    """Whether a word of a selection names the rule: its id, its name, the letter of its family, or `ALL`."""
    return word.upper() in ("ALL", rule_id, rule_id[:1]) or word.lower() == name
