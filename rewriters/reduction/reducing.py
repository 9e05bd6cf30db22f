"""Reduces a module to the smallest one that passes a test: coarse steps first, repeated until none helps."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from ptxkit.frozen import frozen
from ptxkit.rewriters.engine.rewrite import Refused
from ptxkit.rewriters.reduction import ddmin
from ptxkit.rewriters.reduction.steps import Edits, Step, plainer, steps
from ptxkit.rewriters.reduction.testing import Journal, Test, Validity
from ptxkit.syntax import Function, Module, parse


@frozen
class Progress:
    """The progress of a reduction."""

    step: str
    instructions: int
    bytes: int
    tests: int
    seconds: float


@frozen
class Reduced:
    """The result of a reduction. Tests known from an earlier run are not counted."""

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
    """The smallest module found for which the test still succeeds; no single edit makes it smaller.

    `tell` is called after every test with the progress, and with the best module whenever it changes. Raises ValueError if the test fails
    on the module itself.
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
    """The best module so far, and the search for better ones."""

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
        """Whether a module is valid and passes the test."""
        found = self.known(module) if not checked else self.journal.get(module.text)
        return self.noted(module, self.tested(module)) if found is None else found

    def known(self, module: Module) -> bool | None:
        """The verdict on a module that is known without a test, if any."""
        found = self.journal.get(module.text)
        return False if found is None and not self.validity.is_clean(module) else found

    def tested(self, module: Module) -> bool:
        """Runs the test, and ptxas on modules that pass it. May run in several threads."""
        return self.test(module.text) and self.validity.parses(module)

    def noted(self, module: Module, outcome: bool) -> bool:
        self.tests += 1
        self.journal.add(module.text, outcome)
        return outcome

    def simplify(self) -> None:
        """Tries to simplify the form of the module."""
        self.step = "layout"
        for simpler in plainer():
            try:
                text = simpler(self.best).text
            except (Refused, ValueError):
                continue
            if len(text) <= len(self.best.text) and text != self.best.text:
                # parse again, as edited text may parse differently
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
            """The module with all edits except those kept back."""
            done = everything.keys() - {number for number, _ in kept}
            edits = {path: nodes for number in sorted(done) for path, nodes in everything[number].items()}
            # edits within a removed statement are dropped, too
            return base.edit({path: nodes for path, nodes in edits.items() if not any(path[:n] in edits for n in range(1, len(path)))})

        def first(candidates: Iterator[Sequence[tuple[int, Edits]]]) -> tuple[int, Sequence[tuple[int, Edits]]] | None:
            return self.first(candidates, without)

        ddmin.rest(edits, first)

    def first(
        self, candidates: Iterator[Sequence[tuple[int, Edits]]], made: Callable[[Sequence[tuple[int, Edits]]], Module]
    ) -> tuple[int, Sequence[tuple[int, Edits]]] | None:
        """The first passing candidate, tested `jobs` at a time; it becomes the best module."""
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
