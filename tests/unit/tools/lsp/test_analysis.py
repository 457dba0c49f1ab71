"""The language server reads whole and broken texts; its diagnostics are those of mlc-opt."""

import io
import random
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from mlc.driver.pipeline.registry import make_context
from mlc.support.display.highlight import tokens
from mlc.tools import mlc_opt
from mlc.tools.lsp.analysis import Analysis, analyze, shifted
from mlc.tools.lsp.complete import complete
from mlc.tools.lsp.hover import hover
from mlc.tools.lsp.outline import document_symbols, folds
from mlc.tools.lsp.references import references_of

FILECHECK = Path(__file__).parents[4] / "tests" / "filecheck"
INVALID = [
    "graph/invalid.mlir",
    "graph/control-flow-invalid.mlir",
    "llvm/invalid.mlir",
    "loop/invalid.mlir",
    "mlc-opt/dominance.mlir",
    "mlc-opt/invalid.mlir",
    "runtime/invalid.mlir",
    "sched/invalid.mlir",
    "te/invalid.mlir",
]
CONTEXT = make_context()
SEVERAL = """\
func.func @a(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.rleu %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @b(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.relu %y : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @c(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = func.call @a(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.add %0, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<5xf32>
  %2 = graph.add %0, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<6xf32>
  return %0 : tensor<4xf32>
}
"""


def messages(text):
    found = analyze(text, "in.mlir", CONTEXT).diagnostics
    return [f"{one.place.line}:{one.place.column}: {one.message}" for one in found]


@pytest.mark.parametrize("name", INVALID)
def test_diagnostics_are_those_of_mlc_opt(name):
    path = FILECHECK / name
    err = io.StringIO()
    with redirect_stderr(err), redirect_stdout(io.StringIO()):
        mlc_opt.run([str(path), "--split-input-file"])
    wanted = [line for line in err.getvalue().splitlines() if ": error: " in line]
    assert len(wanted) >= 2
    found = analyze(path.read_text(), str(path), CONTEXT).diagnostics
    assert [str(one) for one in found] == wanted


@pytest.mark.parametrize("before", ["", "module {\n", "// a comment\nbuiltin.module @m {\n"])
def test_each_function_has_its_errors(before):
    inner = SEVERAL if not before else "".join(f"  {line}\n" for line in SEVERAL.splitlines()) + "}\n"
    lines, columns = before.count("\n"), 2 if before else 0
    wanted = [
        (2, 8, "operation 'graph.rleu' is not registered; did you mean 'graph.relu'?"),
        (6, 19, "use of undeclared value %y"),
        (
            11,
            8,
            "'graph.add' op expected result of type tensor<4xf32>, which its operands imply, but got tensor<5xf32>",
        ),
        (
            12,
            8,
            "'graph.add' op expected result of type tensor<4xf32>, which its operands imply, but got tensor<6xf32>",
        ),
    ]
    assert messages(before + inner) == [f"{n + lines}:{c + columns}: {text}" for n, c, text in wanted]


def test_a_text_that_ends_early_has_one_error():
    assert len(messages(SEVERAL[: SEVERAL.index("  return")].replace("rleu", "relu"))) == 1
    assert messages("") == []


def test_places_are_counted_over_all_pieces():
    piece = "func.func @f() {\n  graph.none\n}\n"
    text = f"{piece}// -----\n{piece}"
    assert [one.partition(": ")[0] for one in messages(text)] == ["2:3", "6:3"]
    assert len(messages(piece * 200)) == 20, "an error each round, and no more rounds than that"


def test_what_parses_keeps_its_types_around_an_error():
    text = SEVERAL.replace("%y", "%0")
    found = analyze(text, context=CONTEXT)
    names = {one.name: str(one.values[0].type) for one in found.definitions.values() if one.start > text.index("@c")}
    assert names["%1"] == "tensor<5xf32>"
    assert {"@b", "@c"} <= {one.name for one in document_symbols(found)}


def test_any_text_is_read(monkeypatch):
    """Whatever a person is about to write, no question about it fails."""
    texts = [
        SEVERAL,
        (FILECHECK / "te" / "ops.mlir").read_text()[:2500],
        (FILECHECK / "sched" / "ops.mlir").read_text(),
    ]
    generator = random.Random(1)
    for _ in range(25):
        text = generator.choice(texts)
        start = generator.randrange(len(text))
        end = start + generator.choice([0, 1, 3, 40])
        text = text[:start] + generator.choice(["", "{", "}", "(", '"', "%", "@f", "\n", "// -----\n"]) + text[end:]
        found = analyze(text, context=CONTEXT)
        assert "".join(text[t.start : t.end] for t in tokens(text)) == "".join(text.split()) or " " in text
        for offset in generator.sample(range(len(text)), 10):
            hover(found, offset)
            complete(found, offset)
            if (token := found.token_at(offset)) is not None:
                references_of(found, token)
        document_symbols(found)
        folds(found)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  return %0", "  %9 = graph.exp %0 : tensor<4xf32>\n  return %0"),
        ("  %1 = graph.add %0, %x", "%1 = graph.add %0"),
        ("func.func @b", "// a comment\n\nfunc.func @b"),
        ("%2 = ", "%two = "),
    ],
)
def test_what_was_read_is_moved_by_a_change(old, new):
    before = analyze(SEVERAL, context=CONTEXT)
    text = SEVERAL.replace(old, new, 1)
    found = shifted(before, text)
    assert found.diagnostics == []
    assert len(found.definitions) >= len(before.definitions) - 1
    for one in found.definitions.values():
        assert text[one.start :].startswith(one.name)
        opens = text[one.scope.start : one.scope.start + 1]
        assert opens == "{" or one.scope.start == 0
        assert text[one.scope.end :].startswith(("func.func", "//")) or one.scope.end >= len(text.rstrip())
    for one in found.ops.values():
        head = one.op.name.removeprefix("func.")
        assert head in text[one.start : one.end].partition("\n")[0]


def test_a_text_that_was_not_read_has_its_tokens():
    found = shifted(Analysis("", "a.mlir", CONTEXT, []), SEVERAL)
    assert found.tokens == tokens(SEVERAL)
    assert (found.ops, found.definitions, found.diagnostics) == ({}, {}, [])
    assert [one.name for one in document_symbols(found)] == ["@a", "@b", "@c"]
    assert shifted(found, "").tokens == []


TWO_WRONG = """\
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.rleu %x : tensor<4xf32>
  %1 = graph.exp %0 : tensor<4xf32>
  %2 = graph.add %1, %0
      : tensor<4xf32>
  %3 = graph.neg %x : tensor<4xq32>
  %4 = graph.neg %x : tensor<4xf32>
  return %3 : tensor<4xf32>
}
func.func @other(%x: tensor<4xf32>) -> tensor<4xf32> {
  %1 = graph.relu %y : tensor<4xf32>
  return %x : tensor<4xf32>
}
loop.func @k(%A: memref<4xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 4 {
    %a = loop.load %A[%i : f32
    loop.for %j = 0 to 4 sideways {
      %c = loop.load %A[%j] : f32
    }
    loop.store %b, %A[%i] : f32
  }
}
"""


def test_each_wrong_operation_of_a_block_has_its_error():
    """What uses the results of a wrong operation has none, nor has the rest of its function."""
    places = [message.split(": ")[0] for message in messages(TWO_WRONG)]
    assert places == ["2:8", "6:32", "11:19", "16:26", "17:26", "20:16"]


def test_a_missing_brace_is_one_error():
    text = (
        "func.func @f(%x: tensor<4xf32>) {\n  %0 = graph.fused {\n  %1 = graph.rleu %x : tensor<4xf32>\n  return\n}\n"
    )
    assert len(messages(text)) == 1
