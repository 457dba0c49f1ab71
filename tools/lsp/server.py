"""The language server: the Language Server Protocol on one side, the functions of this folder on the other."""

import asyncio
import sys
from collections.abc import Sequence
from threading import Thread
from urllib.parse import unquote, urlparse

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.workspace import TextDocument

from mlc.driver.pipeline.registry import make_context
from mlc.support.diagnostics import Diagnostic
from mlc.support.display.highlight import Token
from mlc.support.errors import UserError
from mlc.support.version import __version__
from mlc.tools.lsp.analysis import Analysis, analyze, shifted
from mlc.tools.lsp.commands import WORD, pipeline_diagnostics
from mlc.tools.lsp.complete import complete
from mlc.tools.lsp.hover import hover
from mlc.tools.lsp.outline import Outlined, document_symbols, folds
from mlc.tools.lsp.references import definition_of, name_of, references_of

_DELAY = 0.25
"""Seconds without a change after which a text is read again."""
_COMPLETIONS = {
    "op": types.CompletionItemKind.Function,
    "dialect": types.CompletionItemKind.Module,
    "value": types.CompletionItemKind.Variable,
    "symbol": types.CompletionItemKind.Class,
    "block": types.CompletionItemKind.Reference,
    "attribute": types.CompletionItemKind.Property,
    "pass": types.CompletionItemKind.Function,
    "option": types.CompletionItemKind.Property,
    "choice": types.CompletionItemKind.EnumMember,
}
_SEMANTIC = {
    "comment": "comment",
    "string": "string",
    "value": "variable",
    "symbol": "class",
    "block": "label",
    "alias": "type",
    "type": "type",
    "number": "number",
    "op": "function",
    "attribute": "property",
    "keyword": "keyword",
}
_LEGEND = sorted(set(_SEMANTIC.values()))


class View:
    """A document as its last version reads, and the two ways to name a place in it: the editor's, and offsets."""

    def __init__(self, document: TextDocument, analysis: Analysis) -> None:
        self.document = document
        self.analysis = analysis

    def offset(self, position: types.Position) -> int:
        """The offset of an editor's position; behind the end of a line it is that end."""
        analysis = self.analysis
        if position.line >= len(analysis.lines):
            return len(analysis.text)
        start = analysis.lines[position.line]
        line = analysis.text[start:].partition("\n")[0]
        units = 0
        for column, char in enumerate(line):
            if units >= position.character:
                return start + column
            units += self.document.position_codec.client_num_units(char)
        return start + len(line)

    def position(self, offset: int) -> types.Position:
        """The editor's position of an offset."""
        line = self.analysis.line_of(offset)
        before = self.analysis.text[self.analysis.lines[line] : offset]
        return types.Position(line, self.document.position_codec.client_num_units(before))

    def range(self, start: int, end: int) -> types.Range:
        """The editor's range of a part of the text."""
        return types.Range(self.position(start), self.position(end))

    def token(self, position: types.Position) -> Token | None:
        """The token at an editor's position."""
        return self.analysis.token_at(self.offset(position))

    def location(self, token: Token) -> types.Location:
        """Where a token stands."""
        return types.Location(self.document.uri, self.range(token.start, token.end))

    def diagnostic(self, diagnostic: Diagnostic) -> types.Diagnostic:
        """A diagnostic from its place to the end of the token there, or of the word in a RUN line."""
        start = self.analysis.offset(diagnostic.place.line, diagnostic.place.column)
        token = self.analysis.token_at(start)
        end = token.end if token is not None and token.start <= start < token.end else start + 1
        if token is not None and token.kind == "comment":
            word = WORD.match(self.analysis.text, start)
            end = word.end() if word is not None else start + 1
        severity = types.DiagnosticSeverity.Error
        return types.Diagnostic(self.range(start, end), diagnostic.message, severity, source="mlc")


class MlcServer(LanguageServer):
    """
    A language server that reads the open texts in a thread, one at a time, and answers from what it has read so far.

    Until a changed text has been read, answers come from what was read of the text before, moved by the change.
    """

    def __init__(self) -> None:
        super().__init__("mlc-lsp", __version__)  # pyright: ignore[reportUnknownMemberType] pygls leaves others untyped
        # Contexts load dialects when they are first asked for one: the thread has its own.
        self._asked, self._reading = make_context(), make_context()
        self._open: set[str] = set()
        self._views: dict[str, View] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._waiting: list[str] = []
        self._busy = False

    def view(self, uri: str) -> View:
        """A document as it is now, with what is known of it."""
        document = self.workspace.get_text_document(uri)
        known = self._views.get(uri)
        if known is None or known.analysis.text != document.source:
            empty = Analysis("", unquote(urlparse(uri).path) or uri, self._asked, [])
            known = View(document, shifted(known.analysis if known is not None else empty, document.source))
            self._views[uri] = known
        return known

    def read_soon(self, uri: str, delay: float = _DELAY) -> None:
        """Read a text, and send its diagnostics, when it has rested for so many seconds."""
        self._open.add(uri)
        if (timer := self._timers.pop(uri, None)) is not None:
            timer.cancel()
        self._timers[uri] = asyncio.get_running_loop().call_later(delay, self._enqueue, uri)

    def _enqueue(self, uri: str) -> None:
        self._timers.pop(uri, None)
        if uri not in self._waiting:
            self._waiting.append(uri)
        self._read_next()

    def _read_next(self) -> None:
        """Start to read the next text that waits, unless one is being read."""
        while self._waiting and not self._busy:
            uri = self._waiting.pop(0)
            if uri not in self._open:
                continue  # it was closed
            self._busy = True
            view = self.view(uri)
            arguments = asyncio.get_running_loop(), uri, view.analysis.text, view.analysis.name
            Thread(target=self._read, args=arguments, daemon=True).start()

    def _read(self, loop: asyncio.AbstractEventLoop, uri: str, text: str, name: str) -> None:
        """The work of the thread."""
        analysis = None
        try:
            analysis = analyze(text, name, self._reading)
            analysis.context = self._asked
            analysis.diagnostics += pipeline_diagnostics(analysis)
        finally:
            loop.call_soon_threadsafe(self._publish, uri, analysis)

    def _publish(self, uri: str, analysis: Analysis | None) -> None:
        """Send the diagnostics of a text that has been read, unless it was closed or has changed."""
        self._busy = False
        if analysis is not None and uri in self._open:
            document = self.workspace.get_text_document(uri)
            view = self._views[uri] = View(document, analysis)
            if document.source == analysis.text:
                sent = [view.diagnostic(one) for one in analysis.diagnostics]
                params = types.PublishDiagnosticsParams(uri, sent, document.version)
                self.text_document_publish_diagnostics(params)
        self._read_next()

    def forget(self, uri: str) -> None:
        """Drop a document that was closed."""
        self._open.discard(uri)
        self._views.pop(uri, None)
        if (timer := self._timers.pop(uri, None)) is not None:
            timer.cancel()
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))


def make_server() -> MlcServer:
    """A server with all that it answers."""
    server = MlcServer()
    for add in (_add_texts, _add_questions, _add_names, _add_pictures):
        add(server)
    return server


def _add_texts(server: MlcServer) -> None:
    """Texts are opened, changed and closed."""

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    async def _opened(ls: MlcServer, params: types.DidOpenTextDocumentParams) -> None:
        ls.read_soon(params.text_document.uri, 0)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def _changed(ls: MlcServer, params: types.DidChangeTextDocumentParams) -> None:
        ls.read_soon(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def _closed(ls: MlcServer, params: types.DidCloseTextDocumentParams) -> None:
        ls.forget(params.text_document.uri)

    del _opened, _changed, _closed


def _add_questions(server: MlcServer) -> None:
    """Hover and completion."""

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def _hover(ls: MlcServer, params: types.HoverParams) -> types.Hover | None:
        view = ls.view(params.text_document.uri)
        found = hover(view.analysis, view.offset(params.position))
        if found is None:
            return None
        text = types.MarkupContent(types.MarkupKind.Markdown, found.text)
        return types.Hover(text, view.range(found.start, found.end))

    options = types.CompletionOptions(trigger_characters=[".", "%", "@", "^", "{", ",", "="])

    @server.feature(types.TEXT_DOCUMENT_COMPLETION, options)
    def _complete(ls: MlcServer, params: types.CompletionParams) -> types.CompletionList:
        view = ls.view(params.text_document.uri)
        end = view.offset(params.position)
        # who has just opened a region is about to break the line, not to choose an op
        typed = params.context is not None and params.context.trigger_character == "{"
        items = [
            types.CompletionItem(
                one.label,
                kind=_COMPLETIONS[one.kind],
                detail=one.detail or None,
                documentation=types.MarkupContent(types.MarkupKind.Markdown, one.text) if one.text else None,
                sort_text=f"{number:05}",
                filter_text=one.label,
                text_edit=types.TextEdit(view.range(one.start, end), one.insert or one.label),
            )
            for number, one in enumerate(complete(view.analysis, end))
            if not (typed and one.kind in ("op", "dialect"))
        ]
        return types.CompletionList(is_incomplete=False, items=items)

    del _hover, _complete


def _add_names(server: MlcServer) -> None:
    """Where names are defined and used, and new names for them."""

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def _definition(ls: MlcServer, params: types.DefinitionParams) -> types.Location | None:
        view = ls.view(params.text_document.uri)
        token = view.token(params.position)
        found = definition_of(view.analysis, token) if token is not None else None
        return None if found is None else view.location(found)

    @server.feature(types.TEXT_DOCUMENT_REFERENCES)
    def _references(ls: MlcServer, params: types.ReferenceParams) -> list[types.Location]:
        view = ls.view(params.text_document.uri)
        found = _references_at(view, params.position)
        if not params.context.include_declaration and found:
            definition = definition_of(view.analysis, found[0])
            found = [one for one in found if one != definition]
        return [view.location(one) for one in found]

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
    def _highlights(ls: MlcServer, params: types.DocumentHighlightParams) -> list[types.DocumentHighlight]:
        view = ls.view(params.text_document.uri)
        return [types.DocumentHighlight(view.location(t).range) for t in _references_at(view, params.position)]

    @server.feature(types.TEXT_DOCUMENT_RENAME)
    def _rename(ls: MlcServer, params: types.RenameParams) -> types.WorkspaceEdit:
        view = ls.view(params.text_document.uri)
        bare = params.new_name.lstrip("%@^#!")
        edits = [_renamed(view, token, bare) for token in _references_at(view, params.position)]
        return types.WorkspaceEdit(changes={params.text_document.uri: edits})

    del _definition, _references, _highlights, _rename


def _references_at(view: View, position: types.Position) -> list[Token]:
    token = view.token(position)
    return references_of(view.analysis, token) if token is not None else []


def _renamed(view: View, token: Token, name: str) -> types.TextEdit:
    """The edit that puts a name behind the first character of a token."""
    end = token.start + len(name_of(view.analysis, token))
    return types.TextEdit(view.range(token.start + 1, end), name)


def _add_pictures(server: MlcServer) -> None:
    """The outline, what can be folded, and colours."""

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def _symbols(ls: MlcServer, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        view = ls.view(params.text_document.uri)
        return [_document_symbol(view, one) for one in document_symbols(view.analysis)]

    @server.feature(types.TEXT_DOCUMENT_FOLDING_RANGE)
    def _folds(ls: MlcServer, params: types.FoldingRangeParams) -> list[types.FoldingRange]:
        view = ls.view(params.text_document.uri)
        return [types.FoldingRange(first, last) for first, last in folds(view.analysis)]

    @server.feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, types.SemanticTokensLegend(_LEGEND, []))
    def _colours(ls: MlcServer, params: types.SemanticTokensParams) -> types.SemanticTokens:
        return types.SemanticTokens(_semantic(ls.view(params.text_document.uri)))

    del _symbols, _folds, _colours


def _document_symbol(view: View, symbol: Outlined) -> types.DocumentSymbol:
    kind = types.SymbolKind.Function if symbol.name.startswith("@") else types.SymbolKind.Object
    return types.DocumentSymbol(
        symbol.name,
        kind,
        view.range(symbol.start, symbol.end),
        view.range(*symbol.named),
        detail=symbol.kind,
        children=[_document_symbol(view, one) for one in symbol.children],
    )


def _semantic(view: View) -> Sequence[int]:
    """The tokens as the protocol packs them: line and column from the last one, length, kind, no modifiers."""
    data: list[int] = []
    line = column = 0
    for token in view.analysis.tokens:
        if token.kind not in _SEMANTIC:
            continue
        start, end = view.position(token.start), view.position(token.end)
        data += [start.line - line, start.character - (column if start.line == line else 0)]
        data += [end.character - start.character, _LEGEND.index(_SEMANTIC[token.kind]), 0]
        line, column = start.line, start.character
    return data


def serve(port: int | None = None) -> None:
    """Serve an editor: over the standard input and output, or a port of this machine."""
    server = make_server()
    if port is not None:
        try:
            server.start_tcp("127.0.0.1", port)
        except (OSError, OverflowError) as error:
            raise UserError(f"cannot listen on port {port}: {error}") from error
        return
    protocol = sys.stdout.buffer
    sys.stdout = sys.stderr  # what anybody prints must not stand between the messages
    server.start_io(sys.stdin.buffer, protocol)
