"""The server: its answers to the requests of an editor."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcInvalidParams

from ptxkit import formatter
from ptxkit.analyses.framework.rule import all_rules
from ptxkit.demangling import short
from ptxkit.diagnostics import Diagnostic, Edit
from ptxkit.lsp import coloring, completion, navigation, outline, sources
from ptxkit.lsp.diagnosing import is_repairable, path_of, repaired
from ptxkit.lsp.document import Document
from ptxkit.lsp.hints import hints
from ptxkit.lsp.hover import hover
from ptxkit.lsp.protocol import Server
from ptxkit.lsp.signature import signatures
from ptxkit.lsp.spans import formatted_part
from ptxkit.names import Kind

if TYPE_CHECKING:
    pass

EXPLAIN = "ptxkit.explain"
"""The command that explains a rule."""

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
