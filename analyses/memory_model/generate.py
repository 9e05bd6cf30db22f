"""Random programs: small, free of deadlock, with plenty of synchronization."""

from __future__ import annotations

import random
from collections.abc import Iterator

from ptxkit.analyses.memory_model.expressions import COMPARISONS, Function, arithmetic
from ptxkit.analyses.memory_model.program import (
    SCOPES,
    Address,
    AsyncCopy,
    AsyncWait,
    Atomic,
    Barrier,
    Branch,
    Compute,
    Fence,
    Label,
    Load,
    Operation,
    Program,
    ProxyFence,
    Store,
    Thread,
    Variable,
)
from ptxkit.frozen import frozen


@frozen
class Taste:
    """The characteristics of generated programs: ranges for the numbers of threads, operations per thread and variables, and the
    features."""

    threads: tuple[int, int] = (2, 3)
    operations: tuple[int, int] = (2, 4)
    variables: int = 3
    scopes: tuple[str, ...] = ("cta", "gpu", "sys")
    gpus: int = 1
    barriers: bool = True
    messages: bool = True
    """One thread writes data and then a flag; others read the data if they saw the flag; with sufficient or slightly weaker
    synchronization."""
    branches: bool = True
    shared: bool = True
    """Variables in the shared memory of a CTA."""
    proxies: bool = False
    """Copies by the async proxy from shared to global memory, with and without the required fence."""
    aliases: bool = False
    """Aliases, textures and surfaces, which no kernel can express (`to_ptx` refuses them)."""
    mixed: bool = False
    """Accesses of different sizes to the same bytes."""


def generate(seed: int, taste: Taste | None = None) -> Program:
    """The program for a seed: the same for the same arguments, on every machine."""
    return _Generator(random.Random(seed), taste or Taste(), f"generated {seed}").program()


class _Generator:
    def __init__(self, random_: random.Random, taste: Taste, name: str) -> None:
        self.random = random_
        self.taste = taste
        self.name = name
        self.variables: list[Variable] = []
        self.value = 0

    def program(self) -> Program:
        choose, taste = self.random, self.taste
        count = choose.randint(*taste.threads)
        ctas = choose.choice(([0] * count, list(range(count)), [t // 2 for t in range(count)]))
        gpus = [choose.randrange(taste.gpus) for _ in range(count)]
        if taste.gpus == 1:
            gpus = [0] * count
        self._declare(set(ctas))
        copier = choose.randrange(count) if taste.proxies and choose.random() < 0.5 else -1
        codes = [list(self._code(ctas[t], t == copier)) for t in range(count)]
        if taste.messages and choose.random() < 0.5:
            self._messages(codes, ctas)
        if taste.barriers:
            self._barriers(codes, ctas, gpus)
        threads = tuple(Thread(f"P{t}", ctas[t], gpus[t], tuple(codes[t])) for t in range(count))
        return Program(threads, tuple(self.variables), self.name)

    def _declare(self, ctas: set[int]) -> None:
        choose, taste = self.random, self.taste
        for name in ("x", "y", "z", "w")[: choose.randint(1, taste.variables)]:
            is_shared = taste.shared and choose.random() < 0.25
            cta = choose.choice(sorted(ctas)) if is_shared else None
            size = 8 if taste.mixed and choose.random() < 0.5 else 4
            self.variables.append(Variable(name, 0, size, space="shared" if is_shared else "global", cta=cta))
        if taste.proxies:
            self.variables.append(Variable("s", 0, 16, space="shared", cta=choose.choice(sorted(ctas))))
            self.variables.append(Variable("g", 0, 16))
        if taste.aliases:
            base = self.variables[0].name
            self.variables += [
                Variable("a", alias_of=base, size=self.variables[0].size),
                Variable("t", alias_of=base, is_same_address=True, size=self.variables[0].size),
                Variable("u", alias_of="a", is_same_address=True, size=self.variables[0].size),
            ]

    def _code(self, cta: int, copies: bool) -> Iterator[Operation]:
        registers = 0
        labels = 0
        known: list[str] = []
        for _ in range(self.random.randint(*self.taste.operations)):
            operation = self._operation(cta, f"r{registers}", known)
            if isinstance(operation, Load | Atomic) and operation.register is not None:
                known.append(f"r{registers}")
                registers += 1
            if known and self.taste.branches and self.random.random() < 0.08 and not isinstance(operation, Load | Atomic):
                labels += 1
                yield Branch(f"L{labels}", COMPARISONS["eq"], (self.random.choice(known), self.random.randint(0, 1)))
                yield operation
                yield Label(f"L{labels}")
                continue
            yield operation
        if copies:
            yield from self._copying(cta, f"r{registers}")
        if known and self.taste.branches and self.random.random() < 0.1:
            yield self._sum(known)

    def _messages(self, codes: list[list[Operation]], ctas: list[int]) -> None:
        """Each thread passes a message to the next."""
        choose = self.random
        scopes = self.taste.scopes if choose.random() < 0.4 else (max(self.taste.scopes, key=SCOPES.index),)
        everywhere = [one for one in self.variables if all(one.cta in (None, cta) for cta in ctas)]
        visible = [one for one in everywhere if one.alias_of is None and one.size <= 8]
        if len(visible) < 2:
            self.variables += [Variable("d"), Variable("f")]
            visible = [*visible, *self.variables[-2:]]
        data, flag = choose.sample(visible, 2)
        for t in range(len(codes)):
            if t == 0:
                codes[t] = [Store(Address(data.name), self._next()), *self._released(flag, scopes, 1)]
                continue
            rest: list[Operation] = [Load("r1", Address(data.name))]
            if choose.random() < 0.4:
                rest.append(Store(Address(data.name), self._next()))
            if t + 1 < len(codes):
                rest += self._released(flag, scopes, t + 1)
            codes[t] = [*self._acquired(flag, scopes), Branch("L1", COMPARISONS["ne"], ("r0", t)), *rest, Label("L1")]

    def _released(self, flag: Variable, scopes: tuple[str, ...], value: int) -> list[Operation]:
        choose = self.random
        scope, address = choose.choice(scopes), Address(flag.name)
        kind = choose.choice(("store", "store", "fence", "atomic", "red", "none"))
        if kind == "store":
            return [Store(address, value, "release", scope)]
        if kind == "atomic":
            return [Atomic("r8", "exch", address, (value,), choose.choice(("release", "acq_rel")), scope)]
        if kind == "red":
            return [Atomic(None, "add", address, (1,), "release", scope)]
        fences: list[Operation] = [Fence(choose.choice(("sc", "acq_rel")), scope)] if kind == "fence" else []
        return [*fences, Store(address, value, "relaxed", choose.choice(scopes))]

    def _acquired(self, flag: Variable, scopes: tuple[str, ...]) -> list[Operation]:
        choose = self.random
        scope, address = choose.choice(scopes), Address(flag.name)
        kind = choose.choice(("load", "load", "fence", "atomic", "none"))
        if kind == "load":
            return [Load("r0", address, "acquire", scope)]
        if kind == "atomic":
            return [Atomic("r0", "add", address, (0,), choose.choice(("acquire", "acq_rel")), scope)]
        fences: list[Operation] = [Fence(choose.choice(("sc", "acq_rel")), scope)] if kind == "fence" else []
        return [Load("r0", address, "relaxed", choose.choice(scopes)), *fences]

    def _sum(self, known: list[str]) -> Compute:
        add: Function = arithmetic("add")
        return Compute("r9", add, (self.random.choice(known), 1))

    def _copying(self, cta: int, register: str) -> Iterator[Operation]:
        choose = self.random
        shared = next((one for one in self.variables if one.name == "s" and one.cta == cta), None)
        if shared is None:
            return
        if choose.random() < 0.6:
            yield ProxyFence("async", choose.choice(((), (), ("shared",), ("global",))))
        yield AsyncCopy(Address("g"), Address("s"), 16, "async")
        if choose.random() < 0.8:
            yield AsyncWait()
        if choose.random() < 0.5:
            yield Load(register, Address("g"), size=4)

    def _visible(self, cta: int) -> list[Variable]:
        return [one for one in self.variables if one.cta is None or one.cta == cta]

    def _next(self) -> int:
        self.value += 1
        return self.value

    def _operation(self, cta: int, register: str, known: list[str]) -> Operation:
        choose = self.random
        visible = self._visible(cta)
        kind = choose.choices(
            ("load", "store", "atomic", "red", "fence", "proxy"),
            (34, 30, 10, 6, 16, 5 if self.taste.proxies or self.taste.aliases else 0),
        )[0]
        scope = choose.choice(self.taste.scopes)
        if kind == "fence" or not visible:
            return Fence(choose.choice(("sc", "acq_rel", "acq_rel")), scope)
        if kind == "proxy":
            kinds = (["async"] if self.taste.proxies else []) + (["alias", "surface", "texture"] if self.taste.aliases else [])
            return ProxyFence(choose.choice(kinds))
        one = choose.choice(visible)
        proxy = {"t": "texture", "u": "surface"}.get(one.name, "generic")
        size, offset = 4, 0
        if one.size == 8 and kind in ("load", "store"):
            size, offset = choose.choice(((8, 0), (4, 0), (4, 4)))
        elif one.size == 16:
            offset = choose.choice((0, 0, 4))
        address = Address(one.name, offset)
        if kind == "load" or proxy == "texture":
            sem = choose.choice(("weak", "weak", "relaxed", "acquire")) if proxy == "generic" else "weak"
            return Load(register, address, sem, None if sem == "weak" else scope, size, proxy)
        value = choose.choice(known) if known and choose.random() < 0.15 else self._next()
        if kind == "store" or proxy != "generic":
            sem = choose.choice(("weak", "weak", "relaxed", "release")) if proxy == "generic" else "weak"
            return Store(address, value, sem, None if sem == "weak" else scope, size, proxy)
        sem = choose.choice(("relaxed", "acquire", "release", "acq_rel"))
        if kind == "red":
            return Atomic(None, "add", address, (1,), choose.choice(("relaxed", "release")), scope, size)
        operator = choose.choice(("add", "exch", "cas"))
        values = (choose.randint(0, 1), value) if operator == "cas" else (1,) if operator == "add" else (value,)
        return Atomic(register, operator, address, values, sem, scope, size)

    def _barriers(self, codes: list[list[Operation]], ctas: list[int], gpus: list[int]) -> None:
        """The same number of barriers in each thread of a CTA, outside branches; sometimes with split arrival and wait."""
        choose = self.random
        for cta_of_gpu in set(zip(gpus, ctas, strict=True)):
            them = [t for t in range(len(codes)) if (gpus[t], ctas[t]) == cta_of_gpu]
            if len(them) < 2 or choose.random() < 0.5:
                continue
            if choose.random() < 0.25:
                waiting = choose.choice(them)
                for t in them:
                    action = "sync" if t == waiting else "arrive"
                    self._insert(codes[t], [Barrier(action, 1, len(them))])
                continue
            number = choose.choice((1, 1, 2))
            for t in them:
                self._insert(codes[t], [Barrier("sync", 1)] * number)

    def _insert(self, code: list[Operation], barriers: list[Barrier]) -> None:
        for one in barriers:
            free = [
                k for k in range(len(code) + 1) if not any(isinstance(op, Branch) and op.label not in _labels(code[:k]) for op in code[:k])
            ]
            code.insert(self.random.choice(free), one)


def _labels(code: list[Operation]) -> set[str]:
    return {one.name for one in code if isinstance(one, Label)}
