"""Open files by the protocol: positions are translated to offsets into texts, and findings are published when they are ready.

Findings that need no analysis are sent once a text is stable, all others when the analysis thread has them; requests in between are
answered from the tree.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, NoReturn

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcInternalError
from pygls.lsp.server import LanguageServer

import ptxkit
from ptxkit.diagnostics import Diagnostic, Edit, Severity, Span
from ptxkit.lsp import completion, sources
from ptxkit.lsp.changes import NONE, Change, Outdated, changed
from ptxkit.lsp.diagnosing import findings, path_of, settings_of
from ptxkit.lsp.document import Document
from ptxkit.lsp.lenses import lenses

if TYPE_CHECKING:
    from pygls.server import ServerErrors

PAUSE = 0.4
"""Minimum interval in seconds between two changes that are not typing."""
REST = 0.15
"""Seconds to wait after a change while the user types."""
BREATH = 0.025
"""Seconds to wait otherwise: requests that editors send directly after a change are answered first."""
LARGE = 100_000
"""Characters of a text that takes too long to parse for a request to wait for it."""
QUIET = 10.0
"""Seconds without a change after which garbage of old versions is collected."""
MOST = 30
"""Number of versions after which it is collected anyway."""

_SEVERITY = {
    Severity.ERROR: lsp.DiagnosticSeverity.Error,
    Severity.WARNING: lsp.DiagnosticSeverity.Warning,
    Severity.INFO: lsp.DiagnosticSeverity.Information,
}


class Server(LanguageServer):
    """The open documents, and the thread that applies the rules to them."""

    def __init__(self) -> None:
        super().__init__("ptxkit", ptxkit.__version__)
        self.documents: dict[str, Document] = {}
        self.before: dict[str, Document] = {}
        """By URI, the last parsed document before the current one: its names suffice while the user types."""
        self.colors: dict[str, tuple[Document, tuple[tuple[int, int, int, int], ...]]] = {}
        self.found: dict[str, tuple[Document, tuple[Diagnostic, ...]]] = {}
        self.costs: dict[str, tuple[Document, tuple[tuple[Span, str], ...]]] = {}
        """By URI, the code lenses."""
        self.shown: dict[str, list[sources.Shown]] = {}
        """By URI of a PTX file, its findings in source files."""
        self.waiting: dict[str, asyncio.TimerHandle] = {}
        self.changed: dict[str, float] = {}
        """By URI, the time of the last change, by the clock of the event loop."""
        self.tasks: SimpleQueue[tuple[str, Document, asyncio.AbstractEventLoop]] = SimpleQueue()
        self.is_ending = False
        Thread(target=self._work, name="analyst", daemon=True).start()

    def shutdown(self) -> NoReturn:
        """Exits at once: rules and repair searches in other threads are not awaited."""
        os._exit(0 if self.is_ending else 1)

    def report_server_error(self, error: Exception, source: ServerErrors) -> None:
        """Tells the client of an error, unless it is that a message could not be sent: the next one could not be either."""
        if source is not JsonRpcInternalError:
            super().report_server_error(error, source)

    def document(self, uri: str) -> Document:
        """The current document of a URI; empty for a source file, which is not PTX."""
        known = self.documents.get(uri)
        path = path_of(uri)
        if sources.is_source(path):
            return Document("", path)
        text = self.workspace.get_text_document(uri)
        if known is None or known.text != text.source:
            if known is not None and known.is_parsed:
                self.before[uri] = known
            settings, wrong = settings_of(path)
            if wrong and known is None:
                self.window_log_message(lsp.LogMessageParams(lsp.MessageType.Warning, wrong))
            known = self.documents[uri] = Document(text.source, path, text.version or 0, settings)
        return known

    def known(self, document: Document, uri: str, offset: int) -> tuple[Document, int, Change]:
        """A document for an immediate answer, with the offset in it, and the changes since.

        While a large text has changed and is not parsed yet, that is the previous one, unless the change is at the offset.
        """
        before = self.before.get(uri)
        if before is not None and not document.is_parsed and len(document.text) >= LARGE:
            change = changed(before.text, document.text)
            at = change.before(offset)
            if at is not None:
                return before, at, change
        return document, offset, NONE

    # positions

    def offset(self, document: Document, position: lsp.Position) -> int:
        """The offset of a position, which counts in the client's units."""
        starts = document.line_starts
        if position.line >= len(starts):
            return len(document.text)
        line = document.line_text(position.line)
        at = min(position.character, len(line))
        if not line.isascii():
            at, units = 0, 0
            while at < len(line) and units < position.character:
                units += self.workspace.position_codec.client_num_units(line[at])
                at += 1
        return starts[position.line] + at

    def position(self, document: Document, offset: int) -> lsp.Position:
        """The position of an offset, in the client's units."""
        line = document.line_at(offset)
        before = document.text[document.line_starts[line] : offset]
        return lsp.Position(line, len(before) if before.isascii() else self.workspace.position_codec.client_num_units(before))

    def range(self, document: Document, start: int, end: int) -> lsp.Range:
        """The range between two offsets."""
        return lsp.Range(self.position(document, start), self.position(document, end))

    def range_after(self, document: Document, change: Change, start: int, end: int) -> lsp.Range | None:
        """The range in a document for a range before a change; None if it was changed."""
        now = change.after(start)
        return None if now is None else self.range(document, now, now + end - start)

    def range_of(self, document: Document, span: Span) -> lsp.Range:
        """The range of a span."""
        return self.range(document, span.start, span.end)

    def text_edit(self, document: Document, edit: Edit) -> lsp.TextEdit:
        """An edit in the protocol's form."""
        return lsp.TextEdit(self.range(document, edit.start, edit.end), edit.text)

    # findings

    def look_later(self, uri: str) -> None:
        """Schedules the analysis of a document: soon, or, while the user types, when the next keystroke is late."""
        if uri in self.waiting:
            self.waiting.pop(uri).cancel()
        loop = asyncio.get_running_loop()
        gap = loop.time() - self.changed.get(uri, -PAUSE)
        self.changed[uri] = loop.time()
        # abort the analysis of the old text
        self.document(uri)
        self.waiting[uri] = loop.call_later(REST if gap < PAUSE else BREATH, self.look, uri)

    def look(self, uri: str) -> None:
        """Queues the analysis of a document for the other thread."""
        self.waiting.pop(uri, None)
        self.tasks.put((uri, self.document(uri), asyncio.get_running_loop()))

    def _work(self) -> None:
        left = 0
        while True:
            try:
                task = self.tasks.get(timeout=QUIET if left else None)
            except Empty:
                task = None
            if task is None or left >= MOST:
                gc.unfreeze()
                gc.collect()
                gc.freeze()
                left = 0
            if task is not None:
                # a text that has just been opened replaces no version
                left += task[0] in self.before
                # the garbage collector should not examine the trees of large files, neither now nor during requests
                gc.disable()
                try:
                    self._analyse(*task)
                finally:
                    gc.freeze()
                    gc.enable()

    def _analyse(self, uri: str, document: Document, loop: asyncio.AbstractEventLoop) -> None:
        """In the analysis thread: applies the fast rules, then all, and prepares facts for hover, as long as the text is unchanged."""

        def go_on() -> None:
            if self.documents.get(uri) is not document:
                raise Outdated

        try:
            go_on()
            _ = document.facts
            for quick in (True, False):
                loop.call_soon_threadsafe(self.publish, uri, document, findings(document, quick, go_on))
            document.settle(go_on)
            self.costs[uri] = (document, lenses(document))
            completion.prepare()
        except Outdated:
            return
        except Exception:
            # a failing rule is a bug in ptxkit, and no reason to leave the editor without answers
            logging.getLogger(__name__).exception("a rule failed on %s", uri)
            return
        loop.call_soon_threadsafe(self.refresh)

    def refresh(self) -> None:
        """Makes the client request again what only the rules compute, if it supports that."""
        if self.is_ending:
            return
        able = self.client_capabilities.workspace
        if able is not None and able.inlay_hint is not None and able.inlay_hint.refresh_support:
            self.workspace_inlay_hint_refresh(None)
        if able is not None and able.code_lens is not None and able.code_lens.refresh_support:
            self.workspace_code_lens_refresh(None)

    def publish(self, uri: str, document: Document, found: tuple[Diagnostic, ...]) -> None:
        """Sends findings, unless the text has changed since or the client has said goodbye."""
        if self.is_ending or self.documents.get(uri) is not document:
            return
        self.found[uri] = (document, found)
        said = [self._diagnostic(uri, document, diagnostic) for diagnostic in found]
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, said, document.version))
        before = {one.path for one in self.shown.get(uri, ())}
        self.shown[uri] = list(sources.shown(document, found)) if any(one.origin for one in found) else []
        self.publish_sources(before | {one.path for one in self.shown[uri]})

    def publish_sources(self, paths: Iterable[Path]) -> None:
        """Sends the findings of source files that are open."""
        wanted = set(paths)
        if not wanted:
            return
        for uri in list(self.workspace.text_documents):
            path = path_of(uri)
            if path is not None and sources.is_source(path) and Path(path).resolve() in wanted:
                self.publish_source(uri, Path(path).resolve())

    def publish_source(self, uri: str, path: Path) -> None:
        """Sends the findings that open PTX files have in a source file."""
        lines = self.workspace.get_text_document(uri).lines
        said = [
            self._source_diagnostic(ptx, self.documents[ptx], one, lines)
            for ptx, found in self.shown.items()
            for one in found
            if one.path == path and one.line <= len(lines) and ptx in self.documents
        ]
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, said))

    def _source_diagnostic(self, ptx: str, document: Document, one: sources.Shown, lines: Iterable[str]) -> lsp.Diagnostic:
        text = list(lines)[one.line - 1].rstrip()
        start = one.column - 1 if 0 < one.column <= len(text) else len(text) - len(text.lstrip())
        units = self.workspace.position_codec.client_num_units
        found = one.found
        related = [
            lsp.DiagnosticRelatedInformation(lsp.Location(ptx, self.range_of(document, span)), said)
            for span, said in [(found.span, "the PTX"), *[(step.span, step.message) for step in found.related]]
        ]
        return lsp.Diagnostic(
            range=lsp.Range(lsp.Position(one.line - 1, units(text[:start])), lsp.Position(one.line - 1, units(text))),
            severity=_SEVERITY[found.severity],
            code=found.rule,
            source="ptxkit",
            message="\n".join([found.message, *found.notes]),
            related_information=related,
        )

    def _diagnostic(self, uri: str, document: Document, found: Diagnostic) -> lsp.Diagnostic:
        related = [
            lsp.DiagnosticRelatedInformation(lsp.Location(uri, self.range_of(document, one.span)), one.message) for one in found.related
        ]
        origin = [f"from {found.origin.path}:{found.origin.line}"] if found.origin is not None else []
        return lsp.Diagnostic(
            range=self.range_of(document, found.span),
            severity=_SEVERITY[found.severity],
            code=found.rule,
            source="ptxkit",
            message="\n".join([found.message, *found.notes, *origin]),
            related_information=related,
        )
