"""The server: translates between the protocol and offsets into texts.

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
from typing import TYPE_CHECKING, Any, NoReturn

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcInternalError, JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer

import ptxkit
from ptxkit import formatter
from ptxkit.analyses.framework.rule import all_rules
from ptxkit.demangling import short
from ptxkit.diagnostics import Diagnostic, Edit, Severity, Span
from ptxkit.lsp import coloring, completion, navigation, outline, sources
from ptxkit.lsp.changes import NONE, Change, Outdated, changed
from ptxkit.lsp.diagnosing import findings, is_repairable, path_of, repaired, settings_of
from ptxkit.lsp.document import Document
from ptxkit.lsp.hints import hints
from ptxkit.lsp.hover import hover
from ptxkit.lsp.lenses import lenses
from ptxkit.lsp.signature import signatures
from ptxkit.lsp.spans import formatted_part
from ptxkit.names import Kind

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

EXPLAIN = "ptxkit.explain"
"""The command that explains a rule."""

_SEVERITY = {
    Severity.ERROR: lsp.DiagnosticSeverity.Error,
    Severity.WARNING: lsp.DiagnosticSeverity.Warning,
    Severity.INFO: lsp.DiagnosticSeverity.Information,
}
_SYMBOL = {
    Kind.FUNCTION: lsp.SymbolKind.Function,
    Kind.VARIABLE: lsp.SymbolKind.Variable,
    Kind.PARAMETER: lsp.SymbolKind.Variable,
    Kind.REGISTER: lsp.SymbolKind.Variable,
    Kind.LABEL: lsp.SymbolKind.Key,
}
_COMPLETION = {
    "opcode": lsp.CompletionItemKind.Keyword,
    "modifier": lsp.CompletionItemKind.Property,
    "directive": lsp.CompletionItemKind.Keyword,
    "special": lsp.CompletionItemKind.Constant,
    "register": lsp.CompletionItemKind.Variable,
    "variable": lsp.CompletionItemKind.Variable,
    "parameter": lsp.CompletionItemKind.Variable,
    "label": lsp.CompletionItemKind.Reference,
    "function": lsp.CompletionItemKind.Function,
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
                # the garbage collector should not examine the trees of large files, neither now nor during requests
                gc.disable()
                try:
                    self._analyse(*task)
                finally:
                    gc.freeze()
                    gc.enable()
                left += 1

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


def server() -> Server:
    """A server with all its features, not yet running."""
    made = Server()
    for register in (_synchronise, _navigate, _write, _act, _show, _annotate):
        register(made)
    return made


def _synchronise(ls: Server) -> None:
    @ls.feature(lsp.SHUTDOWN)
    def ending(params: None) -> None:
        ls.is_ending = True

    @ls.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        path = path_of(params.text_document.uri)
        if path is not None and sources.is_source(path):
            ls.publish_source(params.text_document.uri, Path(path).resolve())
        else:
            ls.look_later(params.text_document.uri)

    @ls.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        if not sources.is_source(path_of(params.text_document.uri)):
            ls.look_later(params.text_document.uri)

    @ls.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        if uri in ls.waiting:
            ls.waiting.pop(uri).cancel()
        for of in (ls.documents, ls.before, ls.colors, ls.found, ls.costs, ls.changed):
            of.pop(uri, None)
        ls.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))
        ls.publish_sources({one.path for one in ls.shown.pop(uri, ())})


def _navigate(ls: Server) -> None:
    def asked(params: Any) -> tuple[Document, int]:
        document = ls.document(params.text_document.uri)
        return document, ls.offset(document, params.position)

    @ls.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hovered(params: lsp.HoverParams) -> lsp.Hover | None:
        document, offset = asked(params)
        known, at, change = ls.known(document, params.text_document.uri, offset)
        found = hover(known, at)
        if found is None:
            return None
        start, end, text = found
        here = ls.range_after(document, change, start, end)
        return None if here is None else lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text), here)

    @ls.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def defined(params: lsp.DefinitionParams) -> lsp.Location | list[lsp.Location] | None:
        path = path_of(params.text_document.uri)
        if path is not None and sources.is_source(path):
            return made_by(Path(path).resolve(), params.position.line + 1)
        document, offset = asked(params)
        at = navigation.definition(document, offset)
        if at is None:
            origin = sources.origin_at(document, offset)
            if origin is None:
                return None
            line = lsp.Position(origin[1] - 1, 0)
            return lsp.Location(origin[0].as_uri(), lsp.Range(line, line))
        length = len(document.node_at(at)[1].text)
        return lsp.Location(params.text_document.uri, ls.range(document, at, at + length))

    def made_by(path: Path, line: int) -> list[lsp.Location]:
        """The lines of open PTX files that come from a source line."""
        return [
            lsp.Location(uri, ls.range(document, at, at + len(".loc")))
            for uri, document in list(ls.documents.items())
            for at in sources.made_by(document, path, line)
        ]

    @ls.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    def referred(params: lsp.ReferenceParams) -> list[lsp.Location]:
        document, offset = asked(params)
        found = navigation.references(document, offset, params.context.include_declaration)
        return [lsp.Location(params.text_document.uri, ls.range(document, at, at + len(text))) for at, text in found]

    @ls.feature(lsp.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
    def highlighted(params: lsp.DocumentHighlightParams) -> list[lsp.DocumentHighlight]:
        document, offset = asked(params)
        known, offset, change = ls.known(document, params.text_document.uri, offset)
        kinds = {True: lsp.DocumentHighlightKind.Write, False: lsp.DocumentHighlightKind.Read}
        return [
            lsp.DocumentHighlight(here, kinds[written])
            for at, text, written in navigation.highlights(known, offset)
            if (here := ls.range_after(document, change, at, at + len(text))) is not None
        ]

    @ls.feature(lsp.TEXT_DOCUMENT_PREPARE_RENAME)
    def may_rename(params: lsp.PrepareRenameParams) -> lsp.Range | None:
        document, offset = asked(params)
        found = document.symbol_at(offset)
        if found is None:
            return None
        start = document.index.offset(found[0])
        return ls.range(document, start, start + len(found[1].text))

    @ls.feature(lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(prepare_provider=True))
    def renamed(params: lsp.RenameParams) -> lsp.WorkspaceEdit:
        document, offset = asked(params)
        try:
            edits = navigation.rename(document, offset, params.new_name)
        except navigation.CannotRename as error:
            raise JsonRpcInvalidParams(str(error)) from None
        return _workspace_edit(ls, params.text_document.uri, document, edits)


def _write(ls: Server) -> None:
    @ls.feature(lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=[".", "%", "@", "["]))
    def completed(params: lsp.CompletionParams) -> lsp.CompletionList:
        if sources.is_source(path_of(params.text_document.uri)):
            return lsp.CompletionList(is_incomplete=False, items=[])
        document = ls.document(params.text_document.uri)
        known = document if document.is_parsed else ls.before.get(params.text_document.uri, document)
        found = completion.complete(document, ls.offset(document, params.position), known)
        at = params.position
        items = [
            lsp.CompletionItem(
                one.text,
                kind=_COMPLETION.get(one.kind, lsp.CompletionItemKind.Text),
                detail=one.detail,
                sort_text=f"{number:04}",
                text_edit=lsp.TextEdit(lsp.Range(lsp.Position(at.line, at.character - one.length), at), one.text),
            )
            for number, one in enumerate(found)
        ]
        return lsp.CompletionList(is_incomplete=len(found) >= completion.MOST, items=items)

    def reformatted(document: Document) -> str | None:
        try:
            return formatter.format_module(document.module, document.settings.width or formatter.WIDTH)
        except formatter.CannotFormat as error:
            ls.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Warning, str(error)))
            return None

    @ls.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def formatted(params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
        document = ls.document(params.text_document.uri)
        text = reformatted(document)
        if text is None or text == document.text:
            return []
        return [lsp.TextEdit(ls.range(document, 0, len(document.text)), text)]

    @ls.feature(lsp.TEXT_DOCUMENT_RANGE_FORMATTING)
    def formatted_range(params: lsp.DocumentRangeFormattingParams) -> list[lsp.TextEdit]:
        document = ls.document(params.text_document.uri)
        text = reformatted(document)
        start, end = ls.offset(document, params.range.start), ls.offset(document, params.range.end)
        found = None if text is None else formatted_part(document.text, text, start, end)
        return [] if found is None else [lsp.TextEdit(ls.range(document, found[0], found[1]), found[2])]

    @ls.feature(lsp.TEXT_DOCUMENT_SIGNATURE_HELP, lsp.SignatureHelpOptions(trigger_characters=[" ", ","]))
    def signed(params: lsp.SignatureHelpParams) -> lsp.SignatureHelp | None:
        document = ls.document(params.text_document.uri)
        found = signatures(document, ls.offset(document, params.position))
        if found is None:
            return None
        forms, at = found
        said = [
            lsp.SignatureInformation(one.syntax, one.summary, [lsp.ParameterInformation(operand) for operand in one.operands])
            for one in forms
        ]
        return lsp.SignatureHelp(said, 0, at)


def _resolves_edits(ls: Server) -> bool:
    """Whether the client requests the edits of an action when the user selects it."""
    known = ls.client_capabilities.text_document
    resolves = known.code_action.resolve_support if known is not None and known.code_action is not None else None
    return resolves is not None and "edit" in resolves.properties


def _act(ls: Server) -> None:
    @ls.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions([lsp.CodeActionKind.QuickFix], resolve_provider=True))
    def offered(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        uri = params.text_document.uri
        document, found = ls.found.get(uri, (None, ()))
        if document is None or ls.document(uri) is not document:
            return []
        start, end = ls.offset(document, params.range.start), ls.offset(document, params.range.end)
        here = [one for one in found if start <= one.span.end and one.span.start <= end]
        actions = [
            lsp.CodeAction(
                f"{one.rule}: {one.fix.message}{'' if one.fix.is_safe else ' (may change what the program does)'}",
                kind=lsp.CodeActionKind.QuickFix,
                is_preferred=one.fix.is_safe,
                edit=_workspace_edit(ls, uri, document, one.fix.edits),
            )
            for one in here
            if one.fix is not None
        ]
        if _resolves_edits(ls):
            actions += [
                lsp.CodeAction(
                    f"{one.rule}: look for a repair that is proved",
                    kind=lsp.CodeActionKind.QuickFix,
                    data={"uri": uri, "version": document.version, "number": found.index(one)},
                )
                for one in here
                if one.fix is None and is_repairable(one)
            ]
        for rule, one in {one.rule: one for one in here}.items():
            edits = [_ignoring(document, one)]
            actions.append(
                lsp.CodeAction(f"Ignore {rule} here", kind=lsp.CodeActionKind.QuickFix, edit=_workspace_edit(ls, uri, document, edits))
            )
            actions.append(lsp.CodeAction(f"Explain {rule}", command=lsp.Command(f"Explain {rule}", EXPLAIN, arguments=[rule])))
        return actions

    @ls.feature(lsp.CODE_ACTION_RESOLVE)
    @ls.thread()
    def resolved(action: lsp.CodeAction) -> lsp.CodeAction:
        """The edits of a repair, which needs executions: computed when the user selects it."""
        data: Any = action.data
        document, found = ls.found.get(data["uri"], (None, ()))
        if document is None or document.version != data["version"] or data["number"] >= len(found):
            return action
        made = repaired(document, found[data["number"]])
        if isinstance(made, str):
            ls.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Info, f"no repair: {made}"))
            return action
        action.edit = _workspace_edit(ls, data["uri"], document, made.edits)
        ls.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Info, "; ".join([made.message, *made.notes])))
        return action

    @ls.command(EXPLAIN)
    def explained(rule: str) -> str | None:
        found = next((one for one in all_rules() if one.id == rule), None)
        if found is None:
            return None
        text = f"{found.id} {found.name}: {found.summary}\n\n{found.why}\n\nHow it is proved: {found.proof}"
        ls.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Info, text))
        return text


def _ignoring(document: Document, one: Diagnostic) -> Edit:
    """A comment on the line above that suppresses a finding."""
    start = document.line_starts[one.span.line - 1]
    line = document.line_text(one.span.line - 1)
    margin = line[: len(line) - len(line.lstrip())]
    return Edit(start, start, f"{margin}// ptxkit: ignore[{one.rule}] say why\n")


def _show(ls: Server) -> None:
    @ls.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def listed(params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        document = ls.document(params.text_document.uri)
        return [_symbol(ls, document, entry) for entry in outline.outline(document)]

    @ls.feature(lsp.TEXT_DOCUMENT_FOLDING_RANGE)
    def folded(params: lsp.FoldingRangeParams) -> list[lsp.FoldingRange]:
        document = ls.document(params.text_document.uri)
        return [lsp.FoldingRange(first - 1, last - 1) for first, last in outline.folds(document)]

    legend = lsp.SemanticTokensLegend(list(coloring.TYPES), [])

    def colored(uri: str) -> tuple[tuple[int, int, int, int], ...]:
        document = ls.document(uri)
        known = ls.colors.get(uri)
        if known is None or known[0] is not document:
            known = ls.colors[uri] = (document, coloring.colored(document))
        return known[1]

    @ls.feature(lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, legend)
    @ls.thread()
    def colored_whole(params: lsp.SemanticTokensParams) -> lsp.SemanticTokens:
        return lsp.SemanticTokens(coloring.encoded(colored(params.text_document.uri)))

    @ls.feature(lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE, legend)
    @ls.thread()
    def colored_part(params: lsp.SemanticTokensRangeParams) -> lsp.SemanticTokens:
        part = coloring.between(colored(params.text_document.uri), params.range.start.line, params.range.end.line)
        return lsp.SemanticTokens(coloring.encoded(part))


def _annotate(ls: Server) -> None:
    @ls.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
    def hinted(params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
        document = ls.document(params.text_document.uri)
        start, end = ls.offset(document, params.range.start), ls.offset(document, params.range.end)
        return [lsp.InlayHint(ls.position(document, at), text, padding_left=True) for at, text in hints(document, start, end)]

    @ls.feature(lsp.TEXT_DOCUMENT_CODE_LENS)
    def weighed(params: lsp.CodeLensParams) -> list[lsp.CodeLens]:
        document = ls.document(params.text_document.uri)
        known, found = ls.costs.get(params.text_document.uri, (None, ()))
        if known is not document:
            return []
        return [lsp.CodeLens(ls.range_of(document, span), lsp.Command(text, "")) for span, text in found]

    @ls.feature(lsp.TEXT_DOCUMENT_DOCUMENT_LINK)
    def linked(params: lsp.DocumentLinkParams) -> list[lsp.DocumentLink]:
        document = ls.document(params.text_document.uri)
        return [
            lsp.DocumentLink(ls.range(document, start, end), f"{path.as_uri()}#L{line}")
            for start, end, path, line in sources.links(document)
        ]

    @ls.feature(lsp.WORKSPACE_SYMBOL)
    def searched(params: lsp.WorkspaceSymbolParams) -> list[lsp.WorkspaceSymbol]:
        query = params.query.lower()
        return [
            lsp.WorkspaceSymbol(lsp.Location(uri, ls.range_of(document, entry.own)), short(entry.name), _SYMBOL[entry.kind])
            for uri, document in list(ls.documents.items())
            for entry in outline.outline(document)
            if query in entry.name.lower() or query in short(entry.name).lower()
        ]


def _symbol(ls: Server, document: Document, entry: outline.Entry) -> lsp.DocumentSymbol:
    return lsp.DocumentSymbol(
        name=entry.name or "?",
        kind=_SYMBOL[entry.kind],
        range=ls.range_of(document, entry.whole),
        selection_range=ls.range_of(document, entry.own),
        detail=entry.detail,
        children=[_symbol(ls, document, inner) for inner in entry.inside],
    )


def _workspace_edit(ls: Server, uri: str, document: Document, edits: Iterable[Edit]) -> lsp.WorkspaceEdit:
    return lsp.WorkspaceEdit(changes={uri: [ls.text_edit(document, edit) for edit in edits]})
