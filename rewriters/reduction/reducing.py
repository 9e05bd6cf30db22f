"""The smallest module that passes a test: coarse steps first, again and again until none helps any more."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import attrs

from ptxkit.rewriters.engine.rewrite import Refused
from ptxkit.rewriters.reduction import ddmin
from ptxkit.rewriters.reduction.steps import Edits, Step, plainer, steps
from ptxkit.rewriters.reduction.testing import Journal, Test, Validity
from ptxkit.syntax import Function, Module, parse


@attrs.frozen
class Progress:
    """Where a reduction is."""

    step: str
    instructions: int
    bytes: int
    tests: int
    seconds: float


@attrs.frozen
class Reduced:
    """What came of a reduction. Tests that were known from an earlier run are not counted."""

    module: Module
    before: Progress
    after: Progress


def reduced(
    module: Module,
    test: Test,
    validity: Validity,
    journal: Journal,
    jobs: int = 1,
    tell: Callable[[Progress, Module | None], None] = lambda progress, best: None,
) -> Reduced:
    """The smallest module found on which the test still succeeds, one that no single edit makes smaller.

    `tell` is called after every test with where it is, and with the best module whenever that is a new one. Raises ValueError if the test
    fails on the module itself.
    """
    search = _Search(module, test, validity, journal, jobs, tell)
    if not search.passes(module, checked=True):
        raise ValueError("the test fails on the module itself")
    before = search.progress("start")
    with ThreadPoolExecutor(jobs) as search.pool:
        size = None
        while size != len(search.best.text):
            size = len(search.best.text)
            search.simplify()
            for step in steps():
                search.run(step)
        search.simplify()
    return Reduced(search.best, before, search.progress("done"))


class _Search:
    """The best module so far, and how others are tried."""

    pool: ThreadPoolExecutor

    def __init__(
        self,
        module: Module,
        test: Test,
        validity: Validity,
        journal: Journal,
        jobs: int,
        tell: Callable[[Progress, Module | None], None],
    ) -> None:
        self.best, self.test, self.validity, self.journal, self.jobs, self.tell = module, test, validity, journal, jobs, tell
        self.step = ""
        self.tests = 0
        self.start = time.monotonic()

    def progress(self, step: str) -> Progress:
        count = sum([len(child.instructions) for child in self.best.children if isinstance(child, Function)])
        return Progress(step, count, len(self.best.text), self.tests, time.monotonic() - self.start)

    def passes(self, module: Module, checked: bool = False) -> bool:
        """Whether a module is valid and what is looked for."""
        found = self.known(module) if not checked else self.journal.get(module.text)
        return self.noted(module, self.tested(module)) if found is None else found

    def known(self, module: Module) -> bool | None:
        """What can be said of a module without the test, if anything can."""
        found = self.journal.get(module.text)
        return False if found is None and not self.validity.is_clean(module) else found

    def tested(self, module: Module) -> bool:
        """What the test says, and ptxas of those on which it succeeds. This may run in several threads."""
        return self.test(module.text) and self.validity.parses(module)

    def noted(self, module: Module, outcome: bool) -> bool:
        self.tests += 1
        self.journal.add(module.text, outcome)
        return outcome

    def simplify(self) -> None:
        """Tries to say the same in simpler forms."""
        self.step = "layout"
        for simpler in plainer():
            try:
                text = simpler(self.best).text
            except (Refused, ValueError):
                continue
            if len(text) <= len(self.best.text) and text != self.best.text:
                # parsed again, as what was edited may now be another thing to the parser
                self.accept(parse(text, self.best.path))

    def accept(self, module: Module) -> bool:
        """Makes a module the best one if it passes."""
        if not self.passes(module):
            self.tell(self.progress(self.step), None)
            return False
        self.best = module
        self.tell(self.progress(self.step), module)
        return True

    def run(self, step: Step) -> None:
        """Applies as many edits of a step as pass."""
        self.step = step.name
        base = self.best
        edits = list(enumerate(step.edits(base)))
        if not edits:
            return
        everything = dict(edits)

        def without(kept: Sequence[tuple[int, Edits]]) -> Module:
            """The module with all edits but those that are kept back."""
            done = everything.keys() - {number for number, _ in kept}
            edits = {path: nodes for number in sorted(done) for path, nodes in everything[number].items()}
            # what is edited in a statement that goes is gone, too
            return base.edit({path: nodes for path, nodes in edits.items() if not any(path[:n] in edits for n in range(1, len(path)))})

        def first(candidates: Iterator[Sequence[tuple[int, Edits]]]) -> tuple[int, Sequence[tuple[int, Edits]]] | None:
            return self.first(candidates, without)

        ddmin.rest(edits, first)

    def first(
        self, candidates: Iterator[Sequence[tuple[int, Edits]]], made: Callable[[Sequence[tuple[int, Edits]]], Module]
    ) -> tuple[int, Sequence[tuple[int, Edits]]] | None:
        """The first candidate that passes, as many at a time as there are jobs; it becomes the best module."""
        number = 0
        while batch := list(itertools.islice(candidates, self.jobs)):
            modules = [made(one) for one in batch]
            known = [self.known(module) for module in modules]
            waiting = {i: self.pool.submit(self.tested, one) for i, one in enumerate(modules) if known[i] is None}
            for i, module in enumerate(modules):
                if self.noted(module, waiting[i].result()) if i in waiting else known[i]:
                    self.best = module
                    self.tell(self.progress(self.step), module)
                    return number + i, batch[i]
            number += len(batch)
            self.tell(self.progress(self.step), None)
        return None
