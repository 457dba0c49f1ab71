"""A language client talks to the `mlc-lsp` process: what an editor does, from opening a file to closing it."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.tools

ROOT = Path(__file__).parents[4]
TEXT = """\
// RUN: mlc-opt %s -p 'graph-fuse-ops{mode=tvmm}' | filecheck %s
// Größe 😀
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = graph.relu %x : tensor<4xf32> loc("act😀1")
  %z = graph.add %y, %y : tensor<4xf32>
  return %z : tensor<4xf32>
}
func.func @wrong(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.rleu %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
OWN = """\
from dataclasses import dataclass
from xdsl.passes import ModulePass
print("this must not disturb the protocol")

@dataclass(frozen=True)
class MinePass(ModulePass):
    \'\'\'A pass of a test.\'\'\'

    name = "graph-mine"

    def apply(self, ctx, op):
        pass
"""


class Session:
    """An editor with one open text."""

    def __init__(self, client, uri):
        self.client, self.uri = client, uri
        self.published = []
        self.arrived = asyncio.Event()

    def take(self, params):
        self.published.append(params)
        self.arrived.set()

    async def diagnostics(self):
        await asyncio.wait_for(self.arrived.wait(), 60)
        self.arrived.clear()
        return self.published[-1].diagnostics

    async def ask(self, what, kind, line, character, **more):
        from lsprotocol import types

        document, position = types.TextDocumentIdentifier(self.uri), types.Position(line, character)
        params = getattr(types, kind)(text_document=document, position=position, **more)
        return await asyncio.wait_for(getattr(self.client, what)(params), 60)


async def session(path, *arguments):
    """Start the server, and open the file."""
    from lsprotocol import types
    from pygls.lsp.client import LanguageClient

    client = LanguageClient("test", "1")
    editor = Session(client, path.as_uri())
    client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(lambda params: editor.take(params))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    await client.start_io(sys.executable, "-m", "mlc.tools.lsp.main", *arguments, env=env)
    capabilities = types.ClientCapabilities()
    hello = types.InitializeParams(capabilities=capabilities, root_uri=path.parent.as_uri())
    answer = await client.initialize_async(hello)
    client.initialized(types.InitializedParams())
    item = types.TextDocumentItem(editor.uri, "mlir", 1, path.read_text())
    client.text_document_did_open(types.DidOpenTextDocumentParams(item))
    return editor, answer


async def edit(path):
    from lsprotocol import types

    editor, answer = await session(path)
    assert answer.server_info.name == "mlc-lsp"
    first = await editor.diagnostics()
    assert [(d.range.start.line, d.range.start.character, d.range.end.character) for d in first] == [
        (8, 7, 17),
        (0, 38, 42),
    ]
    assert first[0].message == "operation 'graph.rleu' is not registered; did you mean 'graph.relu'?"
    assert "expected tvm or mlc, but got tvmm" in first[1].message

    found = await editor.ask("text_document_hover_async", "HoverParams", 3, 10)
    assert "**`graph.relu`**" in found.contents.value
    assert "act😀1" in found.contents.value
    definition = await editor.ask("text_document_definition_async", "DefinitionParams", 4, 18)
    assert (definition.range.start.line, definition.range.start.character) == (3, 2)
    context = types.ReferenceContext(include_declaration=False)
    uses = await editor.ask("text_document_references_async", "ReferenceParams", 3, 3, context=context)
    assert [(u.range.start.line, u.range.start.character) for u in uses] == [(4, 17), (4, 21)]
    renamed = await editor.ask("text_document_rename_async", "RenameParams", 3, 3, new_name="%act")
    assert len(renamed.changes[editor.uri]) == 3
    values = await editor.ask("text_document_completion_async", "CompletionParams", 0, 44)
    assert [item.label for item in values.items] == ["tvm"]

    context = types.CompletionContext(types.CompletionTriggerKind.TriggerCharacter, "{")
    opened = await editor.ask("text_document_completion_async", "CompletionParams", 2, 54, context=context)
    assert list(opened.items) == []

    # the wrong op is made right, and a line is added which is not finished
    document = types.VersionedTextDocumentIdentifier(version=2, uri=editor.uri)
    where = types.Range(types.Position(8, 7), types.Position(8, 17))
    right = types.TextDocumentContentChangePartial(range=where, text="graph.so")
    editor.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [right]))
    options = await editor.ask("text_document_completion_async", "CompletionParams", 8, 15)
    assert [item.label for item in options.items] == ["graph.softmax", "graph.softplus"]
    assert options.items[0].text_edit.range.start.character == 7
    again = await editor.diagnostics()
    assert again[0].message.startswith("operation 'graph.so' is not registered")

    text = types.TextDocumentIdentifier(editor.uri)
    symbols = await editor.client.text_document_document_symbol_async(types.DocumentSymbolParams(text))
    assert [s.name for s in symbols] == ["@main", "@wrong"]
    folds = await editor.client.text_document_folding_range_async(types.FoldingRangeParams(text))
    assert (2, 5) in [(f.start_line, f.end_line) for f in folds]
    colours = await editor.client.text_document_semantic_tokens_full_async(types.SemanticTokensParams(text))
    assert len(colours.data) % 5 == 0
    assert len(colours.data) > 100

    editor.client.text_document_did_close(types.DidCloseTextDocumentParams(text))
    assert list(await editor.diagnostics()) == []
    await end(editor)


async def end(editor):
    await editor.client.shutdown_async(None)
    editor.client.exit(None)
    await asyncio.wait_for(editor.client._server.wait(), 60)
    assert editor.client._server.returncode == 0


async def load(path, own):
    editor, _ = await session(path, "--load", str(own))
    assert list(await editor.diagnostics()) == []
    found = await editor.ask("text_document_hover_async", "HoverParams", 0, 25)
    assert "A pass of a test." in found.contents.value
    await end(editor)


async def read(path):
    editor, _ = await session(path)
    found = await editor.diagnostics()
    await end(editor)
    return [(one.range.start.line, one.range.start.character) for one in found]


def test_two_wrong_operations_of_a_function_have_two_diagnostics(tmp_path):
    pytest.importorskip("pygls", reason="pygls is not installed: pip install 'mlc[lsp]'")
    path = tmp_path / "a.mlir"
    path.write_text(
        TEXT.replace("  return %0", "  %1 = graph.sigmiod %x : tensor<4xf32>\n  return %0").split("\n", 1)[1]
    )
    assert asyncio.run(read(path)) == [(7, 7), (8, 7)]


def test_an_editor_works_on_a_file(tmp_path):
    pytest.importorskip("pygls", reason="pygls is not installed: pip install 'mlc[lsp]'")
    path = tmp_path / "a b.mlir"
    path.write_text(TEXT)
    asyncio.run(edit(path))


def test_passes_of_a_loaded_file_are_known(tmp_path):
    pytest.importorskip("pygls", reason="pygls is not installed: pip install 'mlc[lsp]'")
    own, path = tmp_path / "own.py", tmp_path / "a.mlir"
    own.write_text(OWN)
    path.write_text("// RUN: mlc-opt %s -p graph-mine | filecheck %s\nfunc.func @main() {\n  return\n}\n")
    asyncio.run(load(path, own))
