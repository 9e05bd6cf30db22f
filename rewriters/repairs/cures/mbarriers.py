"""Mbarriers (9.7.14.15): wrong counts, bytes, parities and scopes; missing inits, arrivals, waits and expect-tx operations.

Missing instructions need registers for their operands. A program that lost an instruction still computes them: in registers that nothing
reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import attrs

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.paths import comes_to
from ptxkit.analyses.events.barriers import term_of
from ptxkit.analyses.events.mbarriers import mbarrier_operand, where
from ptxkit.analyses.events.steps import Does, Step, steps
from ptxkit.analyses.inputs.shapes import declares_block
from ptxkit.analyses.launch.launch import WARP
from ptxkit.analyses.memory.accesses import size_of
from ptxkit.analyses.registers.registers import registers
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.names import Symbol
from ptxkit.rewriters.repairs.candidate import COMMIT, FENCE, LAST, MOVE, WAIT, Candidate, change, insertion
from ptxkit.rewriters.repairs.points import Point, between, depth, level, right_after, synchronizes
from ptxkit.rewriters.repairs.trouble import Trouble
from ptxkit.rewriters.repairs.wording import changed, position
from ptxkit.syntax import constant_value

FAMILIES = "MAWT"
"""Rules about what an mbarrier signals."""
MOST_VALUES, FEW = 8, 3
"""Maximum number of other counts or byte counts that are tried, in total and for each address."""
TRY_WAIT = 90
"""The first target with mbarrier.try_wait."""
VECTOR = 16
"""Maximum bytes that one thread stores with one instruction."""


def cured(trouble: Trouble) -> Iterator[Candidate]:
    """All possible faults of the mbarriers of a function."""
    if trouble.family not in FAMILIES:
        return
    own = _Mbarriers(trouble)
    if not own.uses:
        return
    if trouble.family == "M":
        yield from own.forms()
        yield from own.superfluous()
        yield from own.retries()
        yield from own.invalidated()
        yield from own.absent()
    # if two threads race at an mbarrier or on what it guards, ordering is more likely missing than a number wrong
    later = LAST if trouble.witnessed or trouble.accesses else 0
    for one in own.numbers():
        yield attrs.evolve(one, price=one.price + later, is_number=True)
    for one in own.missing():
        yield attrs.evolve(one, price=one.price + later)


class _Mbarriers:
    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble
        self.routine = trouble.routine
        self.uses = trouble.matching(lambda bound: mbarrier_operand(bound) is not None)

    def _does(self, *actions: str) -> list[int]:
        return self.trouble.matching(
            lambda bound: any(one.action in actions for one in bound.barrier) and mbarrier_operand(bound) is not None
        )

    def _own(self, instructions: list[int]) -> list[int]:
        """Those of the given uses that concern the finding's mbarriers; all, if these are unknown."""
        own = {root for i in self.trouble.instructions if i in self.uses and (root := self._root_of(i)) is not None}
        return [i for i in instructions if self._root_of(i) in own] or instructions

    def _root_of(self, i: int) -> str | None:
        """The variable that contains an instruction's mbarrier."""
        bound = self.trouble.bound(i)
        operand = mbarrier_operand(bound) if bound is not None else None
        at = where(self.routine, i, operand.path[0]) if operand is not None else None
        return at.root.name if at is not None and isinstance(at.root, Symbol) else None

    @cached_property
    def block(self) -> int:
        """The number of threads in a CTA of the witness launch."""
        shape = next((one["launch"].get("block") for one in self.trouble.witnesses if "launch" in one), None) or [128, 1, 1]
        return int(shape[0] * shape[1] * shape[2])

    @cached_property
    def _is_block_said(self) -> bool:
        """Whether the kernel declares the number of threads in its CTAs: that of an example launch must not be written into the code."""
        return declares_block(self.routine, (self.block, 1, 1))

    @cached_property
    def ctas(self) -> int:
        """The number of CTAs in a cluster of the witness launch."""
        shape = next((one["launch"].get("cluster") for one in self.trouble.witnesses if "launch" in one), None) or [1, 1, 1]
        return int(shape[0] * shape[1] * shape[2])

    # --- what is there and says the wrong thing

    def numbers(self) -> Iterator[Candidate]:
        """Other numbers, if a rule about mbarriers reported the finding: first those of the kind that it names."""
        if self.trouble.family != "M":
            return
        kinds = {"parity": self.parities, "count": self.counts, "tx": self.bytes}
        for kind in sorted(kinds, key=lambda word: word not in self.trouble.finding.name.split("-")):
            yield from kinds[kind]()

    def forms(self) -> Iterator[Candidate]:
        """Instructions of the finding that address the mbarrier of another CTA, or order for too small a scope."""
        for i in dict.fromkeys(i for i in self.trouble.instructions if i in self.uses):
            bound = self.trouble.bound(i)
            if bound is None or not any(one.action in ("arrive", "expect") for one in bound.barrier):
                continue
            for opcode in dict.fromkeys(_of_cluster(self.routine.instructions[i].opcode.text.strip())):
                yield change(self.trouble, i, changed(self.routine, i, opcode=lambda text, opcode=opcode: opcode))  # type: ignore[misc]

    def superfluous(self) -> Iterator[Candidate]:
        """An init of an mbarrier that is already initialized."""
        inits = [i for i in self.trouble.instructions if i in self._does("init")]
        if len(inits) > 1:
            yield change(self.trouble, max(inits), "")

    def retries(self) -> Iterator[Candidate]:
        """A test that continues although the phase is incomplete: it is repeated until completion."""
        for i in [i for i in self.trouble.instructions if i in self._does("wait")]:
            if control_flow(self.routine).block_of[i] in control_flow(self.routine).successors(control_flow(self.routine).block_of[i]):
                continue
            predicate = self.routine.instructions[i].operands[0].text.strip().split("|")[0]
            label = _label(self.trouble)
            text = changed(self.routine, i, unguarded=True)
            if self.routine.instructions[i].guard is None:
                yield change(self.trouble, i, f"{label}: {text} @!{predicate} bra {label};")

    def counts(self) -> Iterator[Candidate]:
        """Another arrival count."""
        own = [*self._seen("arrivals"), *self._seen("arrived"), *self._arrivals()]
        warps = self.block // WARP
        said = [warps, self.block, self.block - WARP, warps - 1, self.block // 2] if self._is_block_said else []
        usual = [1, *said[:2], self.ctas, *said[2:4], WARP, *said[4:]]
        yield from self._values("init", "count", [*own, *usual])

    def _seen(self, what: str) -> list[int]:
        """Numbers from the witnesses: simultaneous arrivals, and arrivals at the mbarriers on which threads deadlock."""
        groups = [group for one in self.trouble.witnesses for group in (one, *one.get("waiting", ()))]
        return list(dict.fromkeys([int(group[what]) for group in groups if group.get(what)]))

    def _arrivals(self, among: Sequence[int] | None = None) -> list[int]:
        """The number of threads that execute each arrival, or some of them, where known, and their sum."""
        from ptxkit.analyses.uniformity.uniformity import uniformity

        known = uniformity(self.routine)
        found = []
        for i in self._does("arrive") if among is None else among:
            threads = known.threads(i)
            if threads is not None and threads.mask:
                found.append(len(threads))
        return [*dict.fromkeys(found), sum(found)]

    def bytes(self) -> Iterator[Candidate]:
        """Another expect-tx byte count; or an expect-tx for an arrival that has none."""
        sizes = self._sizes()
        yield from self._values("expect", "tx", sizes)
        for i in self._does("arrive"):
            bound = self.trouble.bound(i)
            if bound is None or bound.has(".expect_tx") or bound.has(".noinc") or position(bound, "count") is not None:
                continue
            head = self.routine.instructions[i].opcode.text.strip()
            if not head.startswith("mbarrier.arrive.") or ".noComplete" in head:
                continue
            for size in sizes[:MOST_VALUES]:
                text = changed(self.routine, i, opcode=lambda text: text.replace("mbarrier.arrive", "mbarrier.arrive.expect_tx", 1))
                yield change(self.trouble, i, f"{text.rstrip(';')}, {size};", COMMIT)

    def _sizes(self) -> list[int]:
        """The bytes that copies complete, for each copy and in total."""
        copies = [step for own in steps(self.routine).values() for step in own if step.does is Does.COPY]
        sizes = [step.bytes for step in copies if step.bytes]
        constants = [
            term.constant
            for i in self._does("expect")
            if (bound := self.trouble.bound(i)) is not None
            and (term := term_of(self.routine, i, bound.operand("tx"))) is not None
            and term.constant
        ]
        shown = [int(one["bytes"]) for one in self.trouble.witnesses if one.get("bytes")]
        dead = [n for i in self.routine_range if (n := self._dead_constant(i)) is not None and n % 16 == 0 and n]
        if any(step.bytes is None for step in copies):
            # an example launch takes any box that fits: only sizes from the program itself count
            return [n for n in dict.fromkeys([*dead, *[n for step in copies for n in self._room(step)]]) if n]
        together = [n * self.block for n in sizes if n <= VECTOR and self._is_block_said]
        open_ = self._seen("bytes")
        seen = [*[-n for n in open_ if n < 0], *[n - left for n in constants for left in open_ if 0 < n - left != n]]
        more = [sum(sizes), *together, *dead, *shown, *[2 * n for n in constants], *[n // 2 for n in constants]]
        return [n for n in dict.fromkeys([*seen, *sizes, *more]) if n]

    def _room(self, copy: Step) -> list[int]:
        """The size of the variable that a copy fills."""
        if copy.target is None:
            return []
        symbols = [symbol for leaf in copy.target.leaves() if (symbol := values(self.routine).symbol(leaf)) is not None]
        return [size for symbol in symbols if (size := size_of(symbol)) is not None]

    @property
    def routine_range(self) -> range:
        """The instructions of the function."""
        return range(len(self.routine.instructions))

    def _values(self, action: str, name: str, numbers: list[int]) -> Iterator[Candidate]:
        """Other numbers for an operand: as a literal, or where a register that only such operands read is set."""
        done = set()
        for i in self._own(self._does(action)):
            bound = self.trouble.bound(i)
            n = position(bound, name) if bound is not None else None
            term = term_of(self.routine, i, bound.operand(name)) if bound is not None and n is not None else None
            if n is None or term is None or term.constant is None:
                continue
            # one register may hold the count of all mbarriers of a ring
            definition = self._definition(i, n)
            at, operand = (i, n) if definition is None else (definition, 1)
            others = [number for number in dict.fromkeys(numbers) if number > 0 and number != term.constant]
            for number in others[:MOST_VALUES] if at not in done else ():
                made = change(self.trouble, at, changed(self.routine, at, operands={operand: str(number)}))
                yield attrs.evolve(made, at=(i,))
            done.add(at)

    def _definition(self, i: int, n: int) -> int | None:
        """The instruction that sets a register to a constant, if all instructions that read the register are of one kind."""
        known = registers(self.routine)
        numbers = known.of(i, self.routine.instructions[i].operands[n])
        if len(numbers) != 1:
            return None
        writers = [j for j in self.routine_range if numbers[0] in known.writes[j]]
        readers = [j for j in self.routine_range if numbers[0] in known.reads[j]]
        mnemonics = {self.routine.instructions[j].opcode.text.strip() for j in readers}
        if len(writers) != 1 or len(readers) < 2 or len(mnemonics) != 1:
            return None
        operands = self.routine.instructions[writers[0]].operands
        return writers[0] if len(operands) == 2 and isinstance(constant_value(operands[1]), int) else None

    def parities(self) -> Iterator[Candidate]:
        """The other phase."""
        for i in self._does("wait"):
            bound = self.trouble.bound(i)
            n = position(bound, "parity") if bound is not None else None
            if bound is None or n is None:
                continue
            term = term_of(self.routine, i, bound.operand("parity"))
            if term is not None and term.constant is not None:
                yield change(self.trouble, i, changed(self.routine, i, operands={n: str(1 - (term.constant & 1))}))
                continue
            before = self.routine.instructions[i].operands[n].text.strip()
            flipped = changed(self.routine, i, operands={n: "%other_phase"})
            yield change(self.trouble, i, f"{{ .reg .b32 %other_phase; xor.b32 %other_phase, {before}, 1; {flipped} }}")

    def invalidated(self) -> Iterator[Candidate]:
        """An mbarrier that becomes data again."""
        inits = self._does("init")
        for last in self.trouble.instructions[:1]:
            for init in inits:
                bound = self.trouble.bound(init)
                operand = mbarrier_operand(bound) if bound is not None else None
                if bound is None or operand is None or last in self.uses or not comes_to(self.routine, init, last):
                    continue
                address = self._address_at(last)
                if address is not None:
                    text = f"mbarrier.inval{'.shared::cta' if bound.has('.shared::cta') else '.shared'}.b64 [{address}];"
                    yield insertion(self.trouble, Point(last), FENCE, text)

    def _address_at(self, i: int) -> str | None:
        """The address register of a shared-memory access."""
        bound = self.trouble.bound(i)
        operand = next((one for one in bound.operands if one.role == "addr"), None) if bound is not None else None
        text = self.routine.instructions[i].operands[operand.path[0]].text.strip() if operand is not None else ""
        return text.strip("[]").strip() or None

    # --- what is missing

    def missing(self) -> Iterator[Candidate]:
        """A missing arrival, wait, init or expect-tx, using registers that nothing reads."""
        dead = self._dead_addresses()
        for i, name in dead:
            point = right_after(self.routine, i)
            yield insertion(self.trouble, point, MOVE, f"mbarrier.arrive.shared::cta.b64 _, [{name}];")
            for one in self._completions():
                yield insertion(self.trouble, point, MOVE, f"{one} [{name}];")
        arrived = {self._root_of(i) for i in self._does("arrive")}
        for wait in [i for i in self.trouble.instructions if i in self._does("wait") and self._root_of(i) not in arrived]:
            address = self._address_at(wait)
            for start in self._operations[-1:] if address else ():
                for point in between(self.routine, start, wait, loud=synchronizes)[:2]:
                    for one in (*self._completions(), "mbarrier.arrive.shared::cta.b64 _,"):
                        yield insertion(self.trouble, point, MOVE, f"{one} [{address}];")
        for i, name in dead:
            for size in self._sizes()[:3]:
                yield insertion(
                    self.trouble, right_after(self.routine, i), MOVE, f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [{name}], {size};"
                )
        for i, name in dead:
            for parity in self._parities():
                point = right_after(self.routine, max([i, *self._written(parity, i)]))
                yield insertion(self.trouble, point, WAIT, self._spin(name, parity))
        yield from self._inits(dead)
        if dead:
            return
        # the address of another use may serve
        for _, last in self.trouble.pairs[:2]:
            for i in self._does("arrive"):
                address = self._address_at(i)
                if address and comes_to(self.routine, i, last):
                    for point in between(self.routine, i, last, loud=synchronizes)[:2]:
                        for parity in self._parities():
                            yield insertion(self.trouble, point, WAIT, self._spin(address, parity))

    def _spin(self, address: str, parity: str, scope: str = "") -> str:
        """A wait for a phase, in a block of its own."""
        test = f"{self._test.replace('.parity', f'.parity{scope}')} %is_over, [{address}], {parity};"
        return f"{{ .reg .pred %is_over; AGAIN: {test} @!%is_over bra AGAIN; }}"

    @cached_property
    def _test(self) -> str:
        """The instruction that tests for a phase on the target: before sm_90, a thread cannot suspend."""
        facts = self.trouble.seen.facts
        target = facts.target or next((word for word in facts.module.targets if word.startswith("sm_")), "")
        number = int("".join(filter(str.isdigit, target)) or TRY_WAIT)
        return "mbarrier.try_wait.parity.shared::cta.b64" if number >= TRY_WAIT else "mbarrier.test_wait.parity.shared.b64"

    def absent(self) -> Iterator[Candidate]:
        """An init, an expect-tx or a wait of an mbarrier that has none, using registers that other instructions read, too."""
        used = [i for i in self.trouble.instructions[:1] if i in self.uses]
        is_first = not any(comes_to(self.routine, init, i) for init in self._does("init") for i in used)
        if used and (is_first or self.trouble.finding.rule == "M001"):
            yield from self._inits(self._dead_addresses() or self._addresses())
        waited = {self._root_of(i) for i in self._does("wait")}
        if not waited.issuperset({self._root_of(i) for i in self._copies()}):
            yield from self._waits()
        announced = {self._root_of(i) for i in self._does("expect")}
        for i in self._copies():
            if self._root_of(i) not in announced or None in announced:
                yield from self._announcements(i)

    def _inits(self, addresses: Sequence[tuple[int, str]]) -> Iterator[Candidate]:
        """An init by one thread, after the instruction that computes its address."""
        guards = self._dead_predicates()
        tree, block_of = dominators(self.routine).tree, control_flow(self.routine).block_of
        fences = self.trouble.matching(lambda bound: "init-fence" in bound.effects)
        for i, name in addresses:
            counts = self._counts_for(i, name)
            later = [one for one in guards if one[0] < i or self._is_beside(i, one[0])] or [(i, "")]
            points = [(right_after(self.routine, max(i, at)), guard) for at, guard in later]
            # the thread that publishes inits has made them
            points += [(Point(at), self._guard(at)) for at in fences if i < at and tree.dominates(block_of[i], block_of[at])]
            root = self._root_at(i, name)
            for point, guard in points:
                if not (guard or self._is_of_one_thread(point.instruction)) or not self._is_first(point, root):
                    continue
                for count in counts[: MOST_VALUES if len(addresses) < FEW else 2]:
                    text = f"{guard}mbarrier.init.shared::cta.b64 [{name}], {count};"
                    yield insertion(self.trouble, point, MOVE, text)

    def _counts_for(self, i: int, name: str) -> list[str]:
        """The possible arrival counts of the mbarrier whose address an instruction computes: 1 if the number of arriving threads is
        unknown and all expect bytes."""
        root = self._root_at(i, name)
        arrive = [one for one in self._does("arrive") if root is None or self._root_of(one) in (None, root)]
        alone = [1] if set(arrive) <= set(self._does("expect")) else []
        numbers = [*self._dead_counts(), *alone, *self._arrivals(arrive)]
        beside = [self._count_text(init) for init in self._does("init") if root is not None and self._root_of(init) == root]
        return [count for count in dict.fromkeys([*map(str, numbers), *beside]) if count not in ("", "0")]

    def _root_at(self, i: int, name: str) -> str | None:
        """The variable whose address an instruction writes to a register."""
        known = registers(self.routine)
        terms = zip(known.writes[i], values(self.routine).written(i), strict=False)
        return next((self._root(term) for number, term in terms if known.table[number].name == name), None)

    def _is_of_one_thread(self, i: int) -> bool:
        """Whether one thread executes an instruction, as far as is known: not a whole warp, unless an init is in the same block."""
        from ptxkit.analyses.uniformity.uniformity import uniformity

        threads = uniformity(self.routine).threads(i)
        if threads is not None:
            return len(threads) == 1
        return level(self.routine, Point(i)) < Level.WARP or any(self._is_beside(i, init) for init in self._does("init"))

    def _is_first(self, point: Point, root: str | None) -> bool:
        """Whether no use of a variable's mbarriers precedes a point at which one is initialized."""
        users = [i for i in self.uses if i not in self._does("init") and self._root_of(i) in (root, None)]
        return not any(comes_to(self.routine, i, point.instruction) for i in users)

    def _count_text(self, init: int) -> str:
        """The count operand of an init, as written."""
        bound = self.trouble.bound(init)
        n = position(bound, "count") if bound is not None else None
        return self.routine.instructions[init].operands[n].text.strip() if n is not None else ""

    def _guard(self, i: int) -> str:
        """The guard of an instruction, as written before it."""
        guard = self.routine.instructions[i].guard
        return f"{guard.text.strip()} " if guard is not None else ""

    def _waits(self) -> Iterator[Candidate]:
        """A wait for the first phase, with a parity that nothing reads, after the instruction that sets it."""
        tree, flow = dominators(self.routine).tree, control_flow(self.routine)
        for i in [i for i in self.routine_range if self._dead_constant(i) in (0, 1)]:
            (number,) = registers(self.routine).writes[i]
            for at, address in self._addresses():
                if at < i and tree.dominates(flow.block_of[at], flow.block_of[i]):
                    for scope in ("", ".acquire.cluster"):
                        text = self._spin(address, registers(self.routine).table[number].name, scope)
                        yield insertion(self.trouble, right_after(self.routine, i), MOVE, text)

    def _announcements(self, copy: int) -> Iterator[Candidate]:
        """An expect-tx by the thread that starts a copy, directly before it or after the init."""
        points = [(Point(copy), self._guard(copy), self._mbarrier_text(copy))]
        # one expect-tx is for one phase: a copy in a loop needs many
        for init in self._does("init") if not depth(self.routine, Point(copy)) else ():
            if self._root_of(init) == self._root_of(copy) or self._root_of(copy) is None:
                points.append((right_after(self.routine, init), self._guard(init), self._mbarrier_text(init)))
        numbers: list[str] = [*self._dead_numbers(copy), *map(str, self._sizes())]
        for size in numbers[:MOST_VALUES]:
            for point, before, address in points:
                if address:
                    yield insertion(self.trouble, point, MOVE, f"{before}mbarrier.arrive.expect_tx.shared::cta.b64 _, [{address}], {size};")

    def _copies(self) -> list[int]:
        """The instructions that complete bytes of an mbarrier."""
        return [i for i, own in sorted(steps(self.routine).items()) if any(step.does is Does.COPY for step in own)]

    def _mbarrier_text(self, i: int) -> str:
        """The mbarrier address of an instruction, as written."""
        bound = self.trouble.bound(i)
        operand = mbarrier_operand(bound) if bound is not None else None
        return self.routine.instructions[i].operands[operand.path[0]].text.strip().strip("[]").strip() if operand is not None else ""

    def _addresses(self) -> list[tuple[int, str]]:
        """Instructions that compute an mbarrier's address, with the register, whether or not it is read elsewhere."""
        names = dict.fromkeys([text for i in self.uses if (text := self._mbarrier_text(i)).startswith("%")])
        known, roots = registers(self.routine), self._roots
        found = []
        for i in self.routine_range:
            for number, term in zip(known.writes[i], values(self.routine).written(i), strict=False):
                if (name := known.table[number].name) in names or self._root(term) in roots:
                    found.append((i, name))
        return found

    def _dead_predicates(self) -> list[tuple[int, str]]:
        """Instructions that compute an unused predicate, with the guard for it."""
        known = registers(self.routine)
        return [
            (i, f"@{known.table[number].name} ")
            for i in self.routine_range
            for number in known.writes[i]
            if number in self._unread and known.table[number].is_predicate
        ]

    def _dead_numbers(self, before: int) -> list[str]:
        """Registers with an unused number, in the block of an instruction."""
        known = registers(self.routine)
        return [
            known.table[number].name
            for i in self.routine_range
            for number in known.writes[i]
            if number in self._unread and known.table[number].bits == 32 and i < before and self._is_beside(i, before)
        ]

    def _is_beside(self, i: int, other: int) -> bool:
        """Whether two instructions are in one block."""
        return control_flow(self.routine).block_of[i] == control_flow(self.routine).block_of[other]

    @cached_property
    def _operations(self) -> list[int]:
        """Operations that signal no mbarrier by themselves."""
        return self.trouble.matching(
            lambda bound: any(one.group in ("cp.async", "tcgen05") and one.action == "open" for one in bound.asynchronous)
        )

    def _completions(self) -> list[str]:
        """Instructions that make operations signal an mbarrier on completion, without its address."""
        found = []
        for i in self._operations[-1:]:
            bound = self.trouble.bound(i)
            if bound is not None and bound.form.mnemonic == "tcgen05":
                group = next((one for one in bound.modifiers if one.startswith(".cta_group")), ".cta_group::1")
                found.append(f"tcgen05.commit{group}.mbarrier::arrive::one.shared::cluster.b64")
            elif bound is not None:
                found.append("cp.async.mbarrier.arrive.noinc.shared.b64")
        return found

    def _written(self, name: str, beside: int) -> list[int]:
        """The instructions of a block that write an unused register."""
        known = registers(self.routine)
        return [
            i
            for i in self.routine_range
            if self._is_beside(i, beside) and any(number in self._unread and known.table[number].name == name for number in known.writes[i])
        ]

    @cached_property
    def _unread(self) -> set[int]:
        """The registers that are written and never read."""
        known = registers(self.routine)
        read = {number for own in known.reads for number in own}
        return {number for own in known.writes for number in own} - read

    def _dead_addresses(self) -> list[tuple[int, str]]:
        """Instructions that compute an unused mbarrier address, with the register."""
        known = registers(self.routine)
        roots = self._roots
        found = []
        for i in self.routine_range:
            written = values(self.routine).written(i)
            for number, term in zip(known.writes[i], written, strict=False):
                if number in self._unread and self._root(term) in roots and roots:
                    found.append((i, known.table[number].name))
        return found

    @cached_property
    def _roots(self) -> set[str]:
        """The variables that contain mbarriers."""
        return {root for i in self.uses if (root := self._root_of(i)) is not None}

    def _root(self, term: Term) -> str | None:
        symbols = {symbol.name for leaf in term.leaves() if (symbol := values(self.routine).symbol(leaf)) is not None}
        return next(iter(symbols)) if len(symbols) == 1 else None

    def _dead_constant(self, i: int) -> int | None:
        known = registers(self.routine)
        if not any(number in self._unread for number in known.writes[i]):
            return None
        operands = self.routine.instructions[i].operands
        value = constant_value(operands[1]) if len(operands) == 2 else None
        return value if isinstance(value, int) else None

    def _dead_counts(self) -> list[int]:
        return [n for i in self.routine_range if (n := self._dead_constant(i)) is not None and 0 < n <= 1024]

    def _parities(self) -> list[str]:
        """Registers that may hold a phase parity: those that toggle, then unused ones; then the constants."""
        known = registers(self.routine)
        toggles = []
        for i in self.routine_range:
            one = self.routine.instructions[i]
            if one.opcode.text.strip() == "xor.b32" and set(known.writes[i]) & set(known.reads[i]):
                toggles.append(known.table[known.writes[i][0]].name)
        addresses = {name for _, name in self._dead_addresses()}
        dead = [
            name
            for number in sorted(self._unread)
            if known.table[number].bits == 32 and (name := known.table[number].name) not in addresses
        ]
        return list(dict.fromkeys([*toggles[:3], *dead[-3:], "0", "1"]))


def _label(trouble: Trouble) -> str:
    """A new label."""
    n = 1
    while f"$again_{n}" in trouble.index.text:
        n += 1
    return f"$again_{n}"


def _of_cluster(opcode: str) -> Iterator[str]:
    """The forms of an arrival that reach the mbarrier of another CTA and release to its threads."""
    wide = opcode.replace(".cta.", ".cluster.") if ".release.cta." in opcode or ".acq_rel.cta." in opcode else opcode
    if wide != opcode:
        yield wide
    if ".shared::cta" in wide:
        remote = wide.replace(".shared::cta", ".shared::cluster")
        yield (
            remote
            if ".cluster." in remote.replace(".shared::cluster", "")
            else remote.replace(".shared::cluster", ".release.cluster.shared::cluster")
        )
