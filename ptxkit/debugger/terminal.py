"""The debugger's commands, in a terminal or from a script on standard input."""

from __future__ import annotations

import cmd
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from ptxkit.debugger import expressions, values
from ptxkit.debugger.controller import Breakpoint, Plan, Stop
from ptxkit.debugger.program import Statement, shown
from ptxkit.debugger.session import Session
from ptxkit.debugger.state import Call, Part
from ptxkit.debugger.values import NoValue, line_of
from ptxkit.demangling import base, readable
from ptxkit.origins import excerpt

AROUND = 4
"""Number of lines listed before and after the current one."""
MOST_BYTES = 4096


class Terminal(cmd.Cmd):
    """A session with commands. `cmdloop` returns when the user quits, or the input ends."""

    prompt = "(ptxkit) "
    doc_header = "Commands (help COMMAND):"

    def __init__(self, session: Session, stdin: IO[str] | None = None, stdout: IO[str] | None = None) -> None:
        super().__init__(stdin=stdin, stdout=stdout)
        self.use_rawinput = stdin is None
        self.session = session
        self.warp = 0
        self.frame = 0
        self.by_source = False
        self._numbers = 0

    # --- running

    def begin(self) -> None:
        """Starts the launch and reports the stop."""
        self.session.start()
        self._wait()

    def _go(self, resume: Callable[[], None]) -> None:
        if self.session.is_over:
            self._say("the launch has ended: `run` starts it again, `back` goes back into it")
            return
        resume()
        self._wait()

    def _wait(self) -> None:
        while True:
            try:
                stop = self.session.wait()
                break
            except KeyboardInterrupt:
                self.session.interrupt()
        self._stopped(stop)

    def _stopped(self, stop: Stop) -> None:
        self.frame = 0
        if stop.reason == "end":
            self._say(f"the launch has ended: {stop.text}")
            if self.session.output:
                self._say(self.session.output.rstrip("\n"))
            return
        self.warp = stop.warp
        if stop.reason == "breakpoint":
            self._say(f"breakpoint {stop.breakpoint}")
        elif stop.reason in ("finding", "fault"):
            self._say(f"{stop.reason}: {stop.text}")
        self._where()

    def _where(self) -> None:
        """Reports the location of the warp."""
        part = self._part()
        if part is None:
            self._say(f"warp {self.warp}: {'not resident' if not self.session.state.is_there else 'has exited'}")
            return
        self._line(self.session.state.statement(part.body, part.i), part)

    def _line(self, statement: Statement, part: Part) -> None:
        state = self.session.state
        text = self.session.text.lines[statement.line - 1].strip()
        count = len(part.positions)
        diverged = f", {count} of its threads" if len(state.parts(self.warp)) > 1 else ""
        self._say(f"warp {self.warp}{diverged}: line {statement.line} of `{base(part.body.name)}`: {text}")
        if statement.origin is not None:
            origin = shown(statement.origin)
            source = excerpt(origin, self.session.text.path)
            self._say(f"  {Path(origin.path).name}:{origin.line}{f': {source}' if source else ''}")

    def do_run(self, argument: str) -> None:
        """run: starts the launch, from the beginning."""
        self.begin()

    def do_continue(self, argument: str) -> None:
        """continue: goes on until a breakpoint, a finding, a fault or the end."""
        self._go(lambda: self.session.resume(Plan("continue")))

    def do_step(self, argument: str) -> None:
        """step [N]: goes on to the next statement of the warp, also in a function that it calls."""
        self._steps("into", argument)

    def do_next(self, argument: str) -> None:
        """next [N]: goes on to the next statement of the warp in this function."""
        self._steps("over", argument)

    def _steps(self, how: str, argument: str) -> None:
        for _ in range(self._count(argument)):
            self._go(lambda: self.session.step(how, self.warp, self.by_source))
            if self.session.is_over or (self.session.last is not None and self.session.last.reason != "step"):
                return

    def do_finish(self, argument: str) -> None:
        """finish: goes on until this function has returned."""
        self._go(lambda: self.session.step("out", self.warp))

    def do_back(self, argument: str) -> None:
        """back [N]: steps back, to the statement of the warp before this one."""
        for _ in range(self._count(argument)):
            if not self.session.back(self.warp):
                self._say("this is the first statement of the warp")
                return
            warp = self.warp
            stop = self.session.wait()
        self._stopped(Stop(stop.reason, stop.text, warp))

    def do_rcontinue(self, argument: str) -> None:
        """rcontinue: goes back to the last breakpoint, or to the beginning."""
        self.session.back_to_breakpoint()
        self._stopped(self.session.wait())

    def do_goto(self, argument: str) -> None:
        """goto NUMBER: goes to the statement of a number, as `where` says them."""
        if not argument.isdecimal():
            self._say("goto NUMBER")
            return
        self.session.go_to(int(argument))
        self._stopped(self.session.wait())

    def do_source(self, argument: str) -> None:
        """source: `step` and `next` go by lines of the source from now on, or by statements again."""
        self.by_source = not self.by_source
        self._say(f"steps go by {'lines of the source' if self.by_source else 'statements'}")

    # --- breakpoints

    def do_break(self, argument: str) -> None:
        """break LINE | FILE:LINE | FUNCTION [if EXPRESSION]: stops there; without arguments lists the breakpoints."""
        where, _, what = argument.partition(" if ")
        if not where.strip():
            for one in self.session.breakpoints:
                lines = sorted({self.session.text.by_path[path].line for path in one.paths})
                self._say(f"{one.number}: line {', '.join(map(str, lines))}, hit {one.hits} times")
            return
        found = self._statements(where.strip())
        if not found:
            self._say(f"no instruction is at {where.strip()}")
            return
        try:
            condition = expressions.condition(what) if what.strip() else None
        except NoValue as why:
            self._say(str(why))
            return
        self._numbers += 1
        made = Breakpoint(frozenset([one.path for one in found]), condition, number=self._numbers)
        self.session.set_breakpoints([*self.session.breakpoints, made])
        self._say(f"breakpoint {self._numbers}: line {', '.join([str(one.line) for one in found])} of `{base(found[0].function)}`")

    def _statements(self, where: str) -> tuple[Statement, ...]:
        text = self.session.text
        file, _, line = where.rpartition(":")
        if line.isdecimal():
            at = int(line)
            return text.on_line(at) if not file or text.is_own(file) else text.on_source_line(file, at)
        entry = text.entry(where)
        return (entry,) if entry is not None else ()

    def do_delete(self, argument: str) -> None:
        """delete [N]: removes a breakpoint, or all."""
        keep = [one for one in self.session.breakpoints if argument and str(one.number) != argument]
        self.session.set_breakpoints(keep)

    # --- looking around

    def _part(self) -> Part | None:
        parts = self.session.state.parts(self.warp)
        return parts[0] if parts else None

    def _call(self) -> Call | None:
        if self.session.is_over:
            self._say("the launch has ended")
            return None
        part = self._part()
        if part is None:
            self._say(f"warp {self.warp} has exited")
            return None
        calls = self.session.state.calls(part)
        return calls[min(self.frame, len(calls) - 1)]

    def do_where(self, argument: str) -> None:
        """where: the calls that the warp is in, and the number of the statement."""
        call = self._call()
        part = self._part()
        if call is None or part is None:
            return
        state = self.session.state
        for number, one in enumerate(state.calls(part)):
            statement = state.statement(one.body, one.i)
            self._say(f"{'*' if number == self.frame else ' '}{number} {readable(one.body.name)}, line {statement.line}")
        self._say(f"statement {self.session.controller.number} of the launch; CTA {values_of(state.cta)}")

    def do_up(self, argument: str) -> None:
        """up: looks at the function that called this one."""
        part = self._part()
        if part is not None:
            self.frame = min(self.frame + 1, len(self.session.state.calls(part)) - 1)
            self.do_where("")

    def do_down(self, argument: str) -> None:
        """down: looks at the function that this one called."""
        self.frame = max(0, self.frame - 1)
        self.do_where("")

    def do_list(self, argument: str) -> None:
        """list [LINE]: the text around a line, or around the statement at hand."""
        lines = self.session.text.lines
        here = 0
        if not self.session.is_over and (part := self._part()) is not None:
            here = self.session.state.statement(part.body, part.i).line
        line = int(argument) if argument.isdecimal() else here or 1
        for number in range(max(1, line - AROUND), min(len(lines), line + AROUND) + 1):
            self._say(f"{'->' if number == here else '  '} {number:>5}  {lines[number - 1]}")

    def do_warps(self, argument: str) -> None:
        """warps: where each warp of the CTA is."""
        state = self.session.state
        if not state.is_there:
            self._say("the CTA is not resident")
            return
        for warp in state.warps:
            self._say(f"{'*' if warp == self.warp else ' '} warp {warp} ({state.threads_of(warp)}): {state.how(warp)}")

    def do_warp(self, argument: str) -> None:
        """warp N: looks at another warp."""
        if not argument.isdecimal() or int(argument) not in self.session.state.warps:
            self._say("warp N: one that `warps` lists")
            return
        self.warp, self.frame = int(argument), 0
        self._where()

    def do_cta(self, argument: str) -> None:
        """cta X,Y,Z: looks at another CTA: breakpoints stop for its threads then."""
        parts = argument.split(",")
        if not 1 <= len(parts) <= 3 or not all(part.strip().isdecimal() for part in parts):
            self._say("cta X,Y,Z")
            return
        x, y, z = (*[int(part) for part in parts], 0, 0)[:3]
        index = (x, y, z)
        launch = self.session.controller.launch
        if any(i >= n for i, n in zip(index, launch.grid, strict=True)):
            self._say(f"the grid has {'x'.join(map(str, launch.grid))} CTAs")
            return
        self.session.choose(index)
        self.warp, self.frame = 0, 0
        self._where()

    def do_print(self, argument: str) -> None:
        """print EXPRESSION: a register, %tid.x, s[4], [%rd1+8]:f32, a sum or a comparison of such; @N: of lane N alone."""
        call = self._call()
        if call is None:
            return
        try:
            found = expressions.evaluate(self.session.state, call, argument)
        except NoValue as why:
            self._say(str(why))
            return
        if found.is_by_lane and not found.is_uniform:
            for row in _rows(call, found):
                self._say(row)
        else:
            self._say(line_of(found))

    def do_registers(self, argument: str) -> None:
        """registers [NAME …]: the registers of the warp, those of the same value in all lanes once."""
        call = self._call()
        for value in values.registers(call) if call is not None else ():
            if not argument or value.name in argument.split():
                self._say(f"  {value.name:<8} {value.type:<6} {line_of(value)}")

    def do_parameters(self, argument: str) -> None:
        """parameters: those of the function at hand."""
        self._group("Parameters")

    def do_special(self, argument: str) -> None:
        """special: special registers."""
        self._group("Special registers")

    def do_shared(self, argument: str) -> None:
        """shared: the shared variables of the CTA."""
        call = self._call()
        for value in values.shared(self.session.state, call) if call is not None else ():
            from attrs import evolve

            self._say(f"  {value.name}: {value.text}: {line_of(evolve(value, text=''))}")

    def do_barriers(self, argument: str) -> None:
        """barriers: the barriers of the CTA, and its mbarriers."""
        self._group("Barriers")

    def _group(self, name: str) -> None:
        call = self._call()
        for value in values.of_scope(self.session.state, call, name) if call is not None else ():
            self._say(f"  {value.name:<18} {line_of(value)}")

    def do_x(self, argument: str) -> None:
        """x ADDRESS [BYTES]: bytes at a generic address, which may be an expression in parentheses."""
        call = self._call()
        if call is None:
            return
        where, _, size = argument.rpartition(" ")
        where, size = (where, size) if where and size.isdecimal() else (argument, "64")
        try:
            found = expressions.evaluate(self.session.state, call, where)
            if not found.is_uniform or found.data is None:
                raise NoValue("the address differs from lane to lane: say @LANE")
            data = values.read(self.session.state, int(found.data), min(int(size), MOST_BYTES))
        except NoValue as why:
            self._say(str(why))
            return
        for at in range(0, len(data), 16):
            self._say(f"  {int(found.data) + at:#x}: {data[at : at + 16].hex(' ', 4)}")

    # --- the rest

    def do_quit(self, argument: str) -> bool:
        """quit: ends the session."""
        return True

    def do_EOF(self, argument: str) -> bool:
        """The end of the input ends the session."""
        return True

    do_b, do_c, do_s, do_n, do_p, do_bt, do_l, do_q = do_break, do_continue, do_step, do_next, do_print, do_where, do_list, do_quit

    def get_names(self) -> list[str]:
        """The commands that `help` lists, without abbreviations."""
        return [name for name in super().get_names() if len(name) > 5 and name not in ("do_EOF", "do_bt")] + ["do_x"]

    def emptyline(self) -> bool:
        """An empty line repeats the last step, and nothing else."""
        if self.lastcmd.split(" ")[0] in ("s", "n", "step", "next", "back"):
            return bool(self.onecmd(self.lastcmd))
        return False

    def default(self, line: str) -> None:
        self._say(f"no command is called `{line.split()[0]}`; help lists them")

    def _count(self, argument: str) -> int:
        return min(int(argument), 1_000_000) if argument.isdecimal() else 1

    def _say(self, text: str) -> None:
        print(text, file=self.stdout)


def values_of(index: Any) -> str:
    """Formats an index: `(1,0,0)`."""
    return f"({','.join(map(str, index))})"


def _rows(call: Call, value: values.Value) -> list[str]:
    """The elements of a per-lane value, eight in a row."""
    texts = [values.shown(one, value.type) for one in value.data]
    lanes = call.lanes.lane.tolist()
    return [f"  lane {lanes[at]:>2}: {'  '.join(texts[at : at + 8])}" for at in range(0, len(texts), 8)]
