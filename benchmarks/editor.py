"""`ptxkit lsp` asked by a real client over standard input and output: how long an editor waits.

    python benchmarks/editor.py [FILE] [--record FILE.md]

FILE is a large PTX file, by default the one of the reference corpus that is nearest to 1 MB. Times are wall-clock, of one server process,
and behind a slash what the server computed meanwhile, in CPU time: on a computer that does other things these are the ones to go by. From
opening the file to the first findings and to those of all rules; of single questions at 50 places by lot, before and after a keystroke; and
from an edit within a kernel (three additions by lot that become subtractions) to the first findings and to those of all rules, on an idle
server; and of an instruction typed within a kernel, ten keystrokes a second for three seconds: what is asked after each, and from the last
to the findings. `--record` writes down what was said in a short session on a small file instead, as Markdown.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "lsp"))
from client import Client, position  # noqa: E402

CORPUS = ROOT.parent / "shared" / "corpus"
URI = "file:///tmp/measured.ptx"
DOCUMENT = {"uri": URI}
PUBLISHED = "textDocument/publishDiagnostics"


def measure(path: Path) -> None:
    text = path.read_text(encoding="utf-8", errors="replace")
    print(f"{path.name}: {len(text) / 1e6:.2f} MB, {text.count(chr(10)):,} lines")
    places = _places(text, 50)
    client = Client(str(ROOT))
    clock = Clock(client)
    client.start()
    clock.say("server started")
    opened = Clock(client)
    client.open(URI, text)
    first = client.notified(PUBLISHED)
    opened.say(f"opened to first findings ({len(first['diagnostics'])})")
    _asked("hover while the rules are at work", client, "hover", places[:15])
    last = client.notified(PUBLISHED)
    opened.say(f"opened to all findings ({len(last['diagnostics'])})")
    _idle(client)
    _asked("hover", client, "hover", places)
    _asked("definition", client, "definition", places)
    _asked("highlight", client, "documentHighlight", places)
    windows = [{"start": {"line": place["line"], "character": 0}, "end": {"line": place["line"] + 60, "character": 0}} for place in places]
    _each("hints of 60 lines", client, [("inlayHint", {"range": window}) for window in windows])
    _once(client, "codeLens")
    _once(client, "documentLink")
    _asked("signature help", client, "signatureHelp", places)
    text = _edits(client, text, 3)
    version = _typed(client, text, 2 + 3)
    line = places[0]["line"]
    here = {"line": line, "character": 0}
    for later, typed in enumerate(("\tld.", "global.", "v4.f32 ", "%f1, [%rd"), version):
        change = {"range": {"start": here, "end": here}, "text": typed}
        client.notify("textDocument/didChange", textDocument={**DOCUMENT, "version": later}, contentChanges=[change])
        here = {"line": line, "character": here["character"] + len(typed)}
        clock = Clock(client)
        found = client.request("textDocument/completion", textDocument=DOCUMENT, position=here)
        clock.say(f"completion right after `{typed.strip()}` is typed ({len(found['items'])})")
    clock = Clock(client)
    client.notified(PUBLISHED)
    clock.say("then to the first findings")
    edited = {"start": {**here, "character": 0}, "end": {**here, "line": line + 40}}
    options = {"tabSize": 4, "insertSpaces": True}
    _once(client, "rangeFormatting", range=edited, options=options)
    for what in ("documentSymbol", "foldingRange", "semanticTokens/full"):
        _once(client, what)
    client.close()


def _edits(client: Client, text: str, count: int) -> str:
    """Edits within a kernel, each awaited until all rules have been applied; the text afterwards."""
    additions = [match.start() for match in re.finditer(r"(?<=\s)add(?=\.)", text)]
    for version, at in enumerate(random.Random(0).sample(additions, count), 2):
        here = {"line": text.count("\n", 0, at), "character": at - text.rfind("\n", 0, at) - 1}
        change = {"range": {"start": here, "end": {**here, "character": here["character"] + 3}}, "text": "sub"}
        clock = Clock(client)
        client.notify("textDocument/didChange", textDocument={**DOCUMENT, "version": version}, contentChanges=[change])
        client.notified(PUBLISHED)
        clock.say("an edit to the first findings")
        last = client.notified(PUBLISHED)
        clock.say(f"an edit to the findings of all rules ({len(last['diagnostics'])})")
        _idle(client)
        text = f"{text[:at]}sub{text[at + 3 :]}"
    return text


TYPED = "\n\tadd.u32   %r1, %r1, 1; // ok"
KEYSTROKE = 0.1
"""Seconds from one to the next."""


def _typed(client: Client, text: str, version: int) -> int:
    """An instruction typed within a kernel, character by character, with questions after each; the next version."""
    end = text.index("\n", random.Random(1).choice([match.start() for match in re.finditer(r"\tadd\.", text)]))
    here = {"line": text.count("\n", 0, end), "character": end - text.rfind("\n", 0, end) - 1}
    places = _places(text[:end].rpartition("\n")[0], len(TYPED))
    spans: dict[str, list[tuple[float, float]]] = {}
    begin = time.perf_counter()
    for number, (character, place) in enumerate(zip(TYPED, places, strict=True)):
        time.sleep(max(begin + number * KEYSTROKE - time.perf_counter(), 0))
        last = Clock(client)
        change = {"range": {"start": here, "end": here}, "text": character}
        client.notify("textDocument/didChange", textDocument={**DOCUMENT, "version": version + number}, contentChanges=[change])
        here = {"line": here["line"] + 1, "character": 0} if character == "\n" else {**here, "character": here["character"] + 1}
        for method, at in (("completion", here), ("hover", place), ("documentHighlight", place)):
            clock = Clock(client)
            client.request(f"textDocument/{method}", textDocument=DOCUMENT, position=at)
            spans.setdefault(method, []).append(clock.read())
    for method, taken in spans.items():
        _say_spans(f"{method} after each of {len(TYPED)} keystrokes, {1 / KEYSTROKE:.0f} a second", taken)
    for what in ("first findings", "findings of all rules"):
        while client.notified(PUBLISHED).get("version") != version + len(TYPED) - 1:
            continue
        last.say(f"the last keystroke to the {what}")
    _idle(client)
    return version + len(TYPED)


def _idle(client: Client) -> None:
    """Waits until the server has nothing left to do, such as what it prepares after the findings."""
    while True:
        clock = Clock(client)
        time.sleep(0.5)
        if clock.read()[1] < 5:
            return


def _places(text: str, count: int) -> list[dict[str, int]]:
    """Registers by lot, each as a place in it."""
    lot = random.Random(0)
    found = [match.start() + 1 for match in re.finditer(r"%\w+", text)]
    starts = [0, *[match.end() for match in re.finditer("\n", text)]]
    lines = {start: number for number, start in enumerate(starts)}
    chosen = [(at, text.rfind("\n", 0, at) + 1) for at in lot.sample(found, count)]
    return [{"line": lines[start], "character": at - start} for at, start in chosen]


class Clock:
    """Milliseconds from when it was made: by the clock, and of the server's CPU time."""

    def __init__(self, client: Client) -> None:
        self.pid = client.process.pid
        self.began, self.used = time.perf_counter(), self._cpu()

    def read(self) -> tuple[float, float]:
        return (time.perf_counter() - self.began) * 1e3, (self._cpu() - self.used) / 1e6

    def say(self, what: str) -> None:
        passed, used = self.read()
        print(f"  {what}: {passed:,.0f} / {used:,.0f} ms")

    def _cpu(self) -> int:
        """Nanoseconds that the threads of the server have computed, as Linux counts them; 0 elsewhere."""
        threads = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return sum([int(thread.read_text().split()[0]) for thread in threads])


def _asked(what: str, client: Client, method: str, places: list[dict[str, int]]) -> None:
    _each(what, client, [(method, {"position": place}) for place in places])


def _each(what: str, client: Client, questions: list[tuple[str, dict[str, Any]]]) -> None:
    spans = []
    for method, given in questions:
        clock = Clock(client)
        client.request(f"textDocument/{method}", textDocument=DOCUMENT, **given)
        spans.append(clock.read())
    _say_spans(what, spans)


def _say_spans(what: str, spans: list[tuple[float, float]]) -> None:
    passed, used = zip(*spans, strict=True)
    middle = f"{statistics.median(passed):.0f} / {statistics.median(used):.0f}"
    print(f"  {what}: median {middle} ms, worst {max(passed):.0f} / {max(used):.0f} ms")


def _once(client: Client, what: str, **given: Any) -> None:
    clock = Clock(client)
    client.request(f"textDocument/{what}", textDocument=DOCUMENT, **given)
    clock.say(what)


EXAMPLE = """.version 8.5
.target sm_80
.address_size 64
.visible .entry sum(.param .u64 p) {
    .reg .b32 %r<9>;
    .reg .pred %q;
    .shared .b32 tile[64];
    mov.u32 %r1, %tid.x;
    setp.gt.u32 %q, %r1, 5;
    @%q bra $L_end;
    bar.sync 0;
$L_end:
    st.shared.b32 [tile], %r1;
    ret;
}
"""


def record(path: Path) -> None:
    """Writes down a session: what the client sends, and what comes back."""
    client = Client(str(ROOT))
    client.start()
    client.open(URI, EXAMPLE)
    client.notified(PUBLISHED)
    client.notified(PUBLISHED)
    for method, words in (("hover", "bar.sync"), ("hover", "%r1, 5"), ("definition", "$L_end;"), ("documentHighlight", "%r1, 5")):
        client.request(f"textDocument/{method}", textDocument=DOCUMENT, position=position(EXAMPLE, words))
    client.request("textDocument/rename", textDocument=DOCUMENT, position=position(EXAMPLE, "%r1, 5"), newName="%thread")
    here = position(EXAMPLE, "    ret;")
    change = {"range": {"start": here, "end": here}, "text": "    shfl.sync.\n"}
    client.notify("textDocument/didChange", textDocument={**DOCUMENT, "version": 2}, contentChanges=[change])
    client.request("textDocument/completion", textDocument=DOCUMENT, position={**here, "character": 14})
    client.close()
    lines = [
        "# A session with `ptxkit lsp`",
        "",
        "Recorded by `python benchmarks/editor.py --record docs/editor-session.md`: what a client and the server said to each other, with",
        "the seconds since the server was started. Long messages are cut at `…`.",
        "",
    ]
    for seconds, who, message in client.exchange:
        body = message.get("params", message.get("result", message.get("error")))
        lines += [f"**{seconds:.2f} s, {who}**: {message.get('method', 'answer')}", "", "```json", _short(body), "```", ""]
    path.write_text("\n".join(lines), encoding="utf-8")


def _short(body: Any, most: int = 1800) -> str:
    text = json.dumps(body, indent=1, ensure_ascii=False)
    return text if len(text) <= most else text[:most] + " …"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--record", type=Path)
    chosen = parser.parse_args()
    if chosen.record is not None:
        record(chosen.record)
        return
    path = chosen.file or min(CORPUS.rglob("*.ptx"), key=lambda one: abs(one.stat().st_size - 1_000_000))
    measure(path)


if __name__ == "__main__":
    main()
