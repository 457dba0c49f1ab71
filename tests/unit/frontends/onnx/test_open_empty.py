"""Sizes that may be 0: one compiled program beside onnxruntime where axes are empty, hold one element, and many."""

import re
import subprocess

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_sizes import node

import mlc
from mlc.support.errors import UserError, collected_warnings
from mlc.tools import cli

PAST = {"past": (0, 64)}
CACHED = ["B", 2, "past", 8]
NEW = ["B", 2, "S", 8]
STEPS = [{"B": b, "past": p, "S": s} for b, p, s in ((1, 0, 1), (1, 0, 40), (3, 0, 5), (1, 1, 1), (2, 17, 5))]
ANY = {"N": (0, 100), "M": (0, 100)}
GRID = [{"N": n, "M": m} for n in (0, 1, 33) for m in (0, 1, 70)]


def constant(name, value, dtype=np.int64):
    return numpy_helper.from_array(np.array(value, dtype), name)


CONSTANTS = [
    *(constant(str(n), n) for n in (0, 1)),
    *(constant(f"[{n}]", [n]) for n in (-4, -2, -1, 0, 1, 2, 3)),
    constant("start", [-(1 << 60)]),
    constant("end", [1 << 60]),
    constant("ends", [1, 2, 0, 3]),
    constant("groups", [-1, 4, 3]),
    constant("picks", [0, 5, 1]),
    constant("size", [13, 17]),
    constant("low", -1e9, np.float32),
    constant("third", 0.3, np.float32),
    constant("one", [1], np.float32),
    *(
        constant(name, np.linspace(-1, 1, int(np.prod(shape))).reshape(shape), np.float32)
        for name, shape in {
            "table": (128, 8),
            "weight": (6, 33),
            "filter": (16, 3, 3, 3),
            "classes": (16, 10),
            "gates": (1, 16, 6),
            "again": (1, 16, 4),
        }.items()
    ),
]


def model_of(nodes, inputs, outputs=("y",), opset=21):
    """A model of inputs with these sizes, numbers or names; of the constants it takes those that it uses."""
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    used = {name for one in nodes for name in one.input}
    used |= {n for one in nodes for a in one.attribute for inner in a.g.node for n in inner.input}
    constants = [c for c in CONSTANTS if c.name in used]
    graph = helper.make_graph(nodes, "g", infos, [onnx.ValueInfoProto(name=name) for name in outputs], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def inputs_at(inputs, values):
    """Random arrays, where names have these values."""
    rng = np.random.default_rng(7)
    shapes = {name: [values.get(n, n) for n in shape] for name, shape in inputs.items()}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def compare(exe, session, given, what):
    for found, wanted in zip(exe(given).values(), session.run(None, given), strict=True):
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), what
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4, err_msg=str(what))


def check(nodes, inputs, symbols, cases, outputs=("y",), opset=21, **options):
    model = model_of(nodes, inputs, outputs, opset)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for threads in (1, 2):
        exe = mlc.compile(model, symbols=symbols, threads=threads, cache=False, **options)
        for values in cases:
            compare(exe, session, inputs_at(inputs, values), (threads, values))
    return exe


JOINED = [node("Concat", ["pk", "k"], "keys", axis=2), node("Concat", ["pv", "v"], "values", axis=2)]
SCORES = [
    node("Transpose", ["keys"], "kt", perm=[0, 1, 3, 2]),
    node("MatMul", ["q", "kt"], "products"),
    node("Mul", ["products", "third"], "scores"),
]
MIXED = [node("Softmax", ["kept"], "weights", axis=-1), node("MatMul", ["weights", "values"], "y")]
LENGTHS = [
    node("Shape", ["pk"], "p1", start=2, end=3),
    node("Shape", ["keys"], "t1", start=2, end=3),
    node("Squeeze", ["p1"], "p"),
    node("Squeeze", ["t1"], "t"),
]
CAUSAL = [
    *LENGTHS,
    node("Range", ["0", "t", "1"], "columns"),
    node("Range", ["p", "t", "1"], "lines"),
    node("Unsqueeze", ["lines", "[1]"], "line"),
    node("LessOrEqual", ["columns", "line"], "seen"),
    node("Where", ["seen", "scores", "low"], "kept"),
]
CACHE = {"pk": CACHED, "pv": CACHED, "q": NEW, "k": NEW, "v": NEW}


@pytest.mark.parametrize("level", [0, 3])
def test_a_decoder_starts_without_a_past(level):
    nodes = [*JOINED, *SCORES, *CAUSAL, *MIXED]
    check(nodes, CACHE, PAST, STEPS, outputs=("y", "keys", "values"), opt_level=level)


def test_the_attention_of_onnx_starts_without_a_past():
    nodes = [helper.make_node("Attention", ["q", "k", "v", "", "pk", "pv"], ["y", "nk", "nv"], is_causal=1)]
    check(nodes, CACHE, PAST, STEPS, outputs=("y", "nk", "nv"), opset=23)


def test_a_batch_of_none():
    inputs = {"x": ["N", 3, 16, 16]}
    nodes = [
        node("Conv", ["x", "filter"], "a", pads=[1] * 4),
        node("Relu", ["a"], "b"),
        node("MaxPool", ["b"], "c", kernel_shape=[2, 2], strides=[2, 2]),
        node("Resize", ["c", "", "", "size"], "d", mode="linear", axes=[2, 3]),
        node("GlobalAveragePool", ["d"], "e"),
        node("Flatten", ["e"], "f"),
        node("Gemm", ["f", "classes"], "g"),
        node("Softmax", ["g"], "y"),
    ]
    check(nodes, inputs, {"N": (0, 100)}, [{"N": n} for n in (0, 1, 5)])


ROWS = {"x": ["N", "M"]}


def branch(kind, name):
    return helper.make_graph([node(kind, ["x"], name, keepdims=0)], name, [], [onnx.ValueInfoProto(name=name)])


BRANCHES = {"then_branch": branch("ReduceMax", "most"), "else_branch": branch("ReduceSum", "none")}
COUNTING = helper.make_graph(
    [node("Add", ["a", "one"], "a2"), node("Identity", ["c"], "c2")],
    "body",
    [
        helper.make_tensor_value_info("i", TensorProto.INT64, []),
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        helper.make_tensor_value_info("a", TensorProto.FLOAT, [1]),
    ],
    [
        helper.make_tensor_value_info("c2", TensorProto.BOOL, []),
        helper.make_tensor_value_info("a2", TensorProto.FLOAT, [1]),
    ],
)
OPS = {
    **{
        f"{kind}-{axis}": ([node(kind, ["x", f"[{axis}]"], "y", keepdims=0)], ROWS)
        for kind in "ReduceSum ReduceProd ReduceL2 ReduceLogSumExp ReduceMax ReduceMin".split()
        for axis in (0, 1)
    },
    "sum-of-all": ([node("ReduceSum", ["x"], "y")], ROWS),
    "softmax": ([node("Softmax", ["x"], "y")], ROWS),
    "product": ([node("MatMul", ["x", "w"], "y")], {"x": ["N", "M"], "w": ["M", 5]}),
    "outer-product": ([node("MatMul", ["x", "w"], "y")], {"x": ["N", 6], "w": [6, "M"]}),
    "products": ([node("MatMul", ["x", "w"], "y")], {"x": ["N", "M", 6], "w": ["N", 6, "M"]}),
    "product-by-a-weight": ([node("MatMul", ["x", "weight"], "y")], {"x": ["N", "M", 6]}),
    "running-sum": ([node("CumSum", ["x", "1"], "y")], ROWS),
    "pad": ([node("Pad", ["x", "ends"], "y")], ROWS),
    "elements-from-the-end": ([node("Slice", ["x", "[-4]", "end", "[1]"], "y")], ROWS),
    "all-but-some": ([node("Slice", ["x", "[1]", "[-1]", "[1]"], "y")], ROWS),
    "between-places": ([node("Slice", ["x", "[2]", "[3]", "[0]"], "y")], ROWS),
    "backwards": ([node("Slice", ["x", "[-1]", "start", "[1]", "[-1]"], "y")], ROWS),
    "backwards-in-steps": ([node("Slice", ["x", "[-4]", "[1]", "[1]", "[-2]"], "y")], ROWS),
    "some-columns": ([node("Gather", ["x", "picks"], "y", axis=1)], {"x": ["N", 6], "w": ["M"]}),
    "sizes-as-data": (
        [
            node("Shape", ["x"], "s"),
            node("Cast", ["s"], "f", to=TensorProto.FLOAT),
            node("ReduceSum", ["x"], "t", keepdims=0),
            node("Add", ["f", "t"], "y"),
        ],
        ROWS,
    ),
    "halves": ([helper.make_node("Split", ["x"], ["y", "z"], axis=1, num_outputs=2)], ROWS),
    "flat": ([node("Reshape", ["x", "[-1]"], "y")], ROWS),
    "places": ([node("NonZero", ["x"], "y")], ROWS),
    "distinct": ([node("Unique", ["x"], "y")], ROWS),
    "a-loop-of-so-many": (
        [
            node("Shape", ["x"], "s", start=0, end=1),
            node("Squeeze", ["s"], "n"),
            node("ReduceSum", ["x"], "t", keepdims=0),
            node("Unsqueeze", ["t", "[0]"], "t1"),
            node("Loop", ["n", "", "t1"], "y", body=COUNTING),
        ],
        ROWS,
    ),
    "a-branch": (
        [node("Size", ["x"], "n"), node("Greater", ["n", "0"], "c"), node("If", ["c"], "y", **BRANCHES)],
        ROWS,
    ),
}


@pytest.mark.parametrize("name", OPS)
def test_empty_axes(name):
    nodes, inputs = OPS[name]
    outputs = nodes[-1].output
    check(nodes, inputs, ANY, GRID, outputs=outputs)


def test_a_recurrence_of_no_sequences_and_of_no_steps():
    """onnxruntime does not run these."""
    nodes = [helper.make_node("LSTM", ["x", "gates", "again"], ["", "y"], hidden_size=4)]
    exe = mlc.compile(model_of(nodes, {"x": ["M", "N", 6]}), symbols=ANY, threads=2, cache=False)
    assert exe({"x": np.ones((3, 0, 6), np.float32)})["y"].shape == (1, 0, 4)
    np.testing.assert_array_equal(exe({"x": np.ones((0, 2, 6), np.float32)})["y"], np.zeros((1, 2, 4), np.float32))
    assert np.abs(exe({"x": np.ones((1, 2, 6), np.float32)})["y"]).min() > 0


def test_ranges_decide_whether_a_place_is_in_a_table():
    nodes = [
        node("Shape", ["past"], "p", start=2, end=3),
        node("Shape", ["new"], "s", start=2, end=3),
        node("Add", ["p", "s"], "t"),
        node("Slice", ["table", "p", "t", "[0]"], "rows"),
        node("Add", ["new", "rows"], "y"),
    ]
    inputs = {"past": CACHED, "new": NEW}
    check(nodes, inputs, {**PAST, "S": (1, 64)}, STEPS)
    nodes[-2] = node("Slice", ["table", "[0]", "t", "[0]"], "rows")
    nodes[-1] = node("ReduceSum", ["rows", "[0]"], "y")
    with pytest.raises(UserError, match=r"within the 128 elements of axis 0, but got S \+ past; say with symbols="):
        mlc.load(model_of(nodes, inputs), symbols=PAST)
    check(nodes, inputs, {**PAST, "S": (1, 64)}, STEPS)


def test_sizes_that_must_agree_or_be_in_steps_may_be_0():
    nodes = [node("Add", ["a", "b"], "sum"), node("Reshape", ["sum", "groups"], "y")]
    cases = [{"N": n, "M": n} for n in (0, 4, 48)]
    exe = check(nodes, {"a": ["N", 3], "b": ["M", 3]}, {"N": (0, 64), "M": (0, 64)}, cases)
    with pytest.raises(ValueError, match="from 0 to 64 in steps of 4, but got 6"):
        exe({"a": np.ones((6, 3), np.float32), "b": np.ones((6, 3), np.float32)})


NEEDED = {
    "argmax": (node("ArgMax", ["x"], "y", axis=1), "M"),
    "edge": (node("Pad", ["x", "ends"], "y", mode="edge"), "N"),
    "pick": (node("Gather", ["x", "picks"], "y", axis=0), "N"),
    "largest": (helper.make_node("TopK", ["x", "[3]"], ["v", "y"], axis=1), "M"),
}


@pytest.mark.parametrize("name", NEEDED)
def test_what_needs_an_element_refuses_an_empty_axis(name):
    one, symbol = NEEDED[name]
    exe = mlc.compile(model_of([one], ROWS), symbols=ANY, threads=1, cache=False)
    empty = {"N": 5, "M": 5} | {symbol: 0}
    with pytest.raises(ValueError, match=rf"expected axis [01] of input 'x' \({symbol}\) from [13] to 100, but got 0"):
        exe(inputs_at(ROWS, empty))


def test_calls_of_empty_arrays_go_to_the_vm():
    """AOT code of a size from 1 on; the warning comes once, and declared sizes are kept to."""
    model = model_of(JOINED[:1], {"pk": CACHED, "k": NEW}, ("keys",))
    exe = mlc.compile(model, threads=1)
    inputs = inputs_at({"pk": CACHED, "k": NEW}, STEPS[0])
    with collected_warnings() as found:
        for _ in range(2):
            np.testing.assert_array_equal(exe(inputs)["keys"], np.concatenate([inputs["pk"], inputs["k"]], 2))
    assert ["the vm runs calls with a size of 0" in str(one) for one in found] == [True]
    declared = mlc.compile(model, threads=1, symbols={"past": (1, 64)})
    with pytest.raises(ValueError, match="from 1 to 64, but got 0"):
        declared(inputs)


def test_an_empty_array_needs_a_symbol_that_may_be_0():
    exe = mlc.compile(model_of(JOINED[:1], {"pk": CACHED, "k": NEW}, ("keys",)), threads=1, executor="aot")
    message = (
        "expected axis 2 of input 'pk' (past) from 1 on, but got 0; "
        "symbols={'past': (0, ...)} admits 0 where the operations do"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        exe(inputs_at({"pk": CACHED, "k": NEW}, STEPS[0]))


@pytest.mark.parametrize("options", [{"executor": "steps"}, {"specialize": 3}], ids=["steps", "specialize"])
def test_other_ways_to_run(options):
    nodes = [*JOINED, *SCORES, node("Identity", ["scores"], "kept"), *MIXED]
    model = model_of(nodes, CACHE, ("y", "keys"))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    exe = mlc.compile(model, symbols={**PAST, "B": (0, 8)}, threads=1, cache=False, **options)
    for values in (*STEPS, {"B": 0, "past": 0, "S": 2}):
        compare(exe, session, inputs_at(CACHE, values), values)


def test_shapes_of_0_are_compiled_for_nothing_in_them():
    nodes = [*JOINED, *SCORES, node("Identity", ["scores"], "kept"), *MIXED]
    model, given = model_of(nodes, CACHE, ("y", "keys")), inputs_at(CACHE, STEPS[0])
    exe = mlc.compile(model, shapes={name: a.shape for name, a in given.items()}, threads=1, cache=False)
    compare(exe, onnxruntime.InferenceSession(model.SerializeToString()), given, "static")


def test_the_command_line_and_c_take_0(tmp_path, capsys):
    model = model_of([*JOINED[:1], node("ReduceSum", ["pk", "[2]"], "y")], {"pk": CACHED, "k": NEW}, ("keys", "y"))
    onnx.save(model, tmp_path / "cache.onnx")
    command = ["compile", str(tmp_path / "cache.onnx"), "-o", str(tmp_path / "cache.so"), "--symbol", "past=0:64"]
    assert cli.run([*command, "--no-cache"]) == 0
    capsys.readouterr()
    (tmp_path / "main.c").write_text(
        """
#include "cache.h"
#include <stdio.h>
int main(void) {
  for (int64_t past = 0; past < 65; past += 64) {
    int64_t a[] = {1, 2, past, 8}, b[] = {1, 2, 3, 8}, keys[4], y[4], symbols[MLC_CACHE_SYMBOLS];
    const int64_t *shapes[] = {a, b};
    int64_t *outs[] = {keys, y};
    int32_t status = mlc_cache_symbols(shapes, symbols);
    mlc_cache_output_shapes(symbols, outs);
    printf("%d %d %d ", status, (int)keys[2], (int)y[2]);
  }
  int64_t a[] = {0, 2, 1, 8}, b[] = {0, 2, 3, 8}, symbols[MLC_CACHE_SYMBOLS];
  const int64_t *shapes[] = {a, b};
  printf("%d", mlc_cache_symbols(shapes, symbols));
}
"""
    )
    command = ["cc", "main.c", "./cache.so", "-lm", "-lpthread", f"-Wl,-rpath,{tmp_path}", "-o", "main"]
    subprocess.run(command, check=True, cwd=tmp_path)
    done = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "0 3 1 0 67 1 22"
