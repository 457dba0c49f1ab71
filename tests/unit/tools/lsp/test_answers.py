"""What the language server says about a place in a text: hover, names, completion, outline, RUN lines."""

import pytest

from mlc.driver.pipeline.registry import make_context
from mlc.tools.lsp.analysis import analyze
from mlc.tools.lsp.commands import pipeline_diagnostics
from mlc.tools.lsp.complete import complete
from mlc.tools.lsp.hover import hover
from mlc.tools.lsp.outline import document_symbols, folds
from mlc.tools.lsp.references import definition_of, references_of

CONTEXT = make_context()
TEXT = """\
// RUN: mlc-opt %s -p 'graph-fuse-ops{mode=tvm max-depth=3},te-inline' | filecheck %s
#map = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<1x784xf32>, %w: tensor<256x784xf32>) -> tensor<1x256xf32> {
  %0 = graph.call @k(%x, %w) {origins = ["fc1"]} : (tensor<1x784xf32>, tensor<256x784xf32>) -> tensor<1x256xf32>
  %1 = graph.softmax %0 {axis = 1} : tensor<1x256xf32> loc("sm")
  return %1 : tensor<1x256xf32>
}
te.func @k(%x: tensor<1x784xf32>, %w: tensor<256x784xf32>) -> tensor<1x256xf32> {
  %dense = te.compute "dense" (%i : 1, %j : 256) reduce (%k : 784) sum {
    %0 = te.read %x[%i, %k] : f32
    %1 = te.read %w[%j, %k] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<1x256xf32>
  te.return %dense : tensor<1x256xf32>
}
sched.schedule @k {
  %b = sched.block "dense" : !sched.block
  %i, %j, %k = sched.loops %b : 3
  sched.parallel %i
}
"""
CFG = """\
func.func @f(%c: i1, %a: i32) -> i32 {
  cf.cond_br %c, ^bb1(%a : i32), ^bb2
^bb1(%b: i32):
  %p:2 = "test.op"(%b) : (i32) -> (i32, i64)
  func.return %p#0 : i32
^bb2:
  func.return %a : i32
}
func.func @g(%m: memref<4xf32, affine_map<(d0) -> (d0)>>) {
^bb1:
  func.return
}
"""
FOUND = analyze(TEXT, "t.mlir", CONTEXT)


def at(text, piece, number=0, inside=1):
    """The offset in the n-th occurrence of a piece of the text."""
    place = -1
    for _ in range(number + 1):
        place = text.index(piece, place + 1)
    return place + inside


def lines(found, piece, number=0, inside=1):
    """The line of the definition of what is there, and those of all references, counted from 1."""
    token = found.token_at(at(found.text, piece, number, inside))
    definition = definition_of(found, token)
    first = None if definition is None else found.line_of(definition.start) + 1
    return first, [found.line_of(one.start) + 1 for one in references_of(found, token)]


def test_the_text_is_right():
    assert FOUND.diagnostics == []
    assert pipeline_diagnostics(FOUND) == []


@pytest.mark.parametrize(
    ("piece", "number", "wanted"),
    [
        ("%0", 0, ["%0 : tensor<1x256xf32>", "result of `graph.call`", "source nodes: fc1", "1 use"]),
        ("%0", 2, ["%0 : f32", "result of `te.read`"]),
        ("%x", 1, ["%x : tensor<1x784xf32>", "block argument 0 of `func.func`"]),
        ("%k", 1, ["%k : index", "block argument 2 of `te.compute`", "2 uses"]),
        (
            "graph.softmax",
            0,
            ["(tensor<1x256xf32>) -> tensor<1x256xf32>", "exp(x - max x)", "- `axis`: an integer", "sm"],
        ),
        ("return", 0, ["**`func.return`**"]),
        ("axis", 0, ["`axis`, an attribute of `graph.softmax`: an integer, default -1"]),
        ("@k", 0, ["te.func @k(%x: tensor<1x784xf32>", "source nodes: fc1", "2 uses of `@k`"]),
        ("!sched.block", 0, ["(type)", "A handle on a `loop.block`"]),
        ("graph-fuse-ops", 0, ["Put ops that become one kernel into one region", "max-depth: int = 256"]),
        ("max-depth", 0, ["option `max-depth` of `graph-fuse-ops`: int, default `256`"]),
    ],
)
def test_hover(piece, number, wanted):
    found = hover(FOUND, at(TEXT, piece, number))
    assert all(one in found.text for one in wanted), found.text
    assert piece in TEXT[found.start : found.end]


def test_nothing_is_said_about_punctuation():
    assert hover(FOUND, at(TEXT, "{\n", inside=0)) is None
    assert hover(FOUND, at(TEXT, "filecheck")) is None


def test_definitions_and_uses_of_values():
    assert lines(FOUND, "%0") == (4, [4, 5])
    assert lines(FOUND, "%0", 3) == (10, [10, 12])
    assert lines(FOUND, "%i", 1) == (9, [9, 10])
    assert lines(FOUND, "%i", 2) == (19, [19, 20])
    assert lines(FOUND, "%dense", 1) == (9, [9, 15])


def test_definitions_and_uses_of_symbols_blocks_and_aliases():
    assert lines(FOUND, "@k") == (8, [4, 8, 17])
    assert lines(FOUND, "@main") == (3, [3])
    found = analyze(CFG, context=CONTEXT)
    assert lines(found, "^bb1") == (3, [2, 3])
    assert lines(found, "^bb1", 2) == (10, [10])
    assert lines(found, "%p#0") == (4, [4, 5])
    assert "%p#0 : i32" in hover(found, at(CFG, "%p#0")).text
    alias = analyze(CFG.replace("affine_map<(d0) -> (d0)>>", "#m>").join(["#m = affine_map<(d0) -> (d0)>\n", ""]))
    assert lines(alias, "#m") == (1, [1, 10])


def test_names_are_found_in_a_text_that_does_not_parse():
    found = analyze(TEXT.replace("te.read %w", "te.raed %w"), context=CONTEXT)
    assert found.diagnostics[0].message.startswith("operation 'te.raed' is not registered")
    assert lines(found, "@k") == (8, [4, 8, 17])
    assert lines(found, "%2") == (12, [12, 13])
    assert lines(found, "%i", 1) == (9, [9, 10])


def test_outline_and_folds():
    found = [(one.name, one.kind, [child.name for child in one.children]) for one in document_symbols(FOUND)]
    assert found == [
        ("@main", "func.func", []),
        ("@k", "te.func", ['"dense"']),
        ("@k", "sched.schedule", ['"dense"']),
    ]
    assert folds(FOUND) == [(2, 5), (7, 14), (8, 12), (16, 19)]


def completions(written, after="\n}\n"):
    text = TEXT[: TEXT.index("  return")] + written
    return {one.label: one for one in complete(analyze(text + after, context=CONTEXT), len(text))}


def test_ops_are_completed():
    assert list(completions("  %2 = graph.soft")) == ["graph.softmax", "graph.softplus"]
    assert list(completions("  graph.conv2d_w")) == ["graph.conv2d_winograd"]
    assert completions("  %2 = ")["te"].insert == "te."
    assert list(completions("  ret")) == ["return"]
    assert "exp(x - max x)" in completions("  %2, %3:2 = graph.softm")["graph.softmax"].detail
    assert completions("  // graph.soft") == {}


def test_a_dialect_is_loaded_for_its_completions():
    text = "  %0 = sched.spl"
    assert [one.label for one in complete(analyze(text, context=make_context()), len(text))] == ["sched.split"]


def test_names_are_completed_with_their_types():
    found = completions("  return %")
    assert list(found) == ["%1", "%0", "%w", "%x"]
    assert found["%0"].detail == "tensor<1x256xf32>"
    assert list(completions("  %2 = graph.call @", "\n}\n" + TEXT[TEXT.index("te.func") :])) == ["@main", "@k"]


def test_attributes_are_completed_once():
    found = completions("  %2 = graph.conv2d %0, %0 {strides = [1, 1], ", "}\n}\n")
    assert "strides" not in found
    assert found["dilation"].insert == "dilation = "
    assert list(completions("  %2 = graph.softmax %0 {")) == ["axis"]
    assert "graph" in completions("  scf.if %c { ")


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("-p graph-fuse", ["graph-fuse-ops"]),
        ("-p 'graph-inline,te-in", ["te-inline"]),
        ("--pass-pipeline='builtin.module(graph-fuse-ops{mo", ["mode"]),
        ('--pass-pipeline="graph-fuse-ops{mode=', ["tvm", "mlc"]),
        ("-p 'graph-fuse-ops{mode=mlc ", ["max-depth"]),
        ("--mlir-print-ir-after=graph-inline,te-inl", ["te-inline"]),
        ("-p graph-O", ["graph-O0", "graph-O1", "graph-O2", "graph-O3", "graph-O4"]),
        ("--emit=as", []),
    ],
)
def test_pipelines_are_completed_in_run_lines(written, wanted):
    text = f"// RUN: mlc-opt %s {written}"
    assert [one.label for one in complete(analyze(text, context=CONTEXT), len(text))] == wanted


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("mlc-opt %s -p 'te-inlin'", [(1, 24, "unknown pass 'te-inlin'; did you mean 'te-inline'?")]),
        ("mlc-opt %s -p 'te-inline,'", [(1, 34, "expected a pass name, but got the end of the pipeline")]),
        ("not mlc-opt %s -p te-inlin", []),
        ("mlc-opt %s --load mine.py -p te-inlin", []),
        ("mlc-opt %s -p %{passes}", []),
        ("other %s -p te-inlin", []),
    ],
)
def test_pipelines_are_checked(command, wanted):
    found = pipeline_diagnostics(analyze(f"// RUN: {command}\n", context=CONTEXT))
    assert [(one.place.line, one.place.column, one.message) for one in found] == wanted
