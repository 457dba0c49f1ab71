"""Loops, branches and scans of ONNX models: regions where they can be, beside onnxruntime."""

import numpy as np
import pytest
from onnx import TensorProto as T
from onnx import helper as H
from onnx_loops import RNG, compiled, constant, halving, model, node, normal, opened, powers, value

import mlc
from mlc.frontends.onnx import import_model
from mlc.support.errors import UserError
from mlc.targets.target import native_target


def ops_of(proto):
    return [op.name for op in import_model(proto).main.walk()]


def test_a_loop_that_ends_when_its_condition_does():
    cases = [{"x": np.full(4, x, np.float32)} for x in (100, 0.1)]
    nodes = [constant("c", True), H.make_node("Loop", ["", "c", "x"], ["y"], body=halving())]
    proto = model(nodes, cases[0], {"y": T.FLOAT})
    assert "graph.loop" in ops_of(proto)
    compiled(proto, *cases)


def test_a_loop_whose_limit_and_condition_are_inputs():
    x = np.full(4, 100, np.float32)
    limits = ((3, True), (100, True), (5, False), (0, True))
    cases = [{"m": np.array(limit), "c": np.array(start), "x": x} for limit, start in limits]
    proto = model([node("Loop", "m c x", "y", body=halving())], cases[0], {"y": T.FLOAT})
    assert "graph.loop" in ops_of(proto)
    compiled(proto, *cases)


@pytest.mark.parametrize("count", [0, 3, 40])
def test_a_counted_loop(count):
    feeds = {"x": np.linspace(0.5, 1, 4, dtype=np.float32), "s": normal(4)}
    nodes = [constant("m", np.array(count)), constant("c", True), node("Loop", "m c s", "y rows", body=powers())]
    proto = model(nodes, feeds, {"y": T.FLOAT, "rows": T.FLOAT})
    assert ("graph.loop" in ops_of(proto)) == (count > 16)  # a few iterations are written out
    compiled(proto, feeds, validate_each=count == 40)


def branches():
    then = H.make_graph([node("Mul", "x w", "p"), node("Tanh", "p", "a")], "then", [], [value("a", T.FLOAT, [4])])
    inner = [
        H.make_graph([node("Neg", "x", "n")], "t", [], [value("n", T.FLOAT, [4])]),
        H.make_graph([node("Identity", "w", "m")], "e", [], [value("m", T.FLOAT, [4])]),
    ]
    other = H.make_graph(
        [node("If", "d", "b", then_branch=inner[0], else_branch=inner[1])], "else", [], [value("b", T.FLOAT, [4])]
    )
    return then, other


def test_nested_branches():
    then, other = branches()
    x = normal(4)
    cases = [{"c": np.array(c), "d": np.array([d]), "x": x} for c in (True, False) for d in (True, False)]
    nodes = [constant("w", np.arange(4, dtype=np.float32)), node("If", "c", "y", then_branch=then, else_branch=other)]
    proto = model(nodes, cases[0], {"y": T.FLOAT})
    assert ops_of(proto).count("graph.if") == 2
    compiled(proto, *cases)


def test_a_branch_in_a_loop():
    then, other = branches()
    inputs = [value("i", T.INT64, []), value("c", T.BOOL, []), value("x", T.FLOAT, [4])]
    nodes = [
        constant("w", np.arange(4, dtype=np.float32) / 4),
        constant("two", np.array(2)),
        constant("zero", np.array(0)),
        node("Mod", "i two", "odd"),
        node("Equal", "odd zero", "even"),
        node("If", "even", "y", then_branch=then, else_branch=other),
        node("Add", "y x", "z"),
        node("Identity", "c", "more"),
    ]
    body = H.make_graph(nodes, "body", inputs, [value("more", T.BOOL, []), value("z", T.FLOAT, [4])])
    feeds = {"x0": normal(4), "d": np.array(False)}
    outer = [constant("turns", np.array(21)), constant("go", True), node("Loop", "turns go x0", "r", body=body)]
    proto = model(outer, feeds, {"r": T.FLOAT})
    assert {"graph.if", "graph.loop"} <= set(ops_of(proto))
    compiled(proto, feeds)


def cumulative():
    inputs = [value("s", T.FLOAT, None), value("row", T.FLOAT, None)]
    nodes = [node("Add", "s row", "t"), node("Mul", "t k", "u"), node("Identity", "u", "o")]
    return H.make_graph(nodes, "body", inputs, [value("u", T.FLOAT, None), value("o", T.FLOAT, None)])


@pytest.mark.parametrize(("axis", "back", "out"), [(0, 1, 1), (1, 0, 0)])
def test_scans_along_any_axis_and_backward(axis, back, out):
    feeds = {"s": normal(3), "x": normal(*((30, 3) if axis == 0 else (3, 30))), "k": normal(3)}
    attrs = {
        "scan_input_axes": [axis],
        "scan_input_directions": [back],
        "scan_output_axes": [out],
        "scan_output_directions": [back],
    }
    nodes = [node("Scan", "s x", "t y", body=cumulative(), num_scan_inputs=1, **attrs)]
    proto = model(nodes, feeds, {"t": T.FLOAT, "y": T.FLOAT})
    assert "graph.scan" in ops_of(proto)
    compiled(proto, feeds)


def growing(count):
    """Each iteration appends to what is carried on."""
    inputs = [value("i", T.INT64, []), value("c", T.BOOL, []), value("s", T.FLOAT, ["n"])]
    nodes = [node("Identity", "c", "more"), node("Concat", "s x", "t", axis=0)]
    body = H.make_graph(nodes, "grow", inputs, [value("more", T.BOOL, []), value("t", T.FLOAT, ["n"])])
    feeds = {"x": normal(2)}
    nodes = [constant("m", np.array(count)), constant("go", True), node("Loop", "m go x", "y", body=body)]
    return model(nodes, feeds, {"y": T.FLOAT}), feeds


def test_a_loop_of_changing_shapes_is_written_out():
    proto, feeds = growing(40)
    assert "graph.loop" not in ops_of(proto)
    assert compiled(proto, feeds)[0].shape == (82,)


def test_what_is_refused():
    with pytest.raises(UserError, match="carried on as number 0 to stay tensor<2xf32>, but it becomes tensor<4xf32>"):
        import_model(growing(5000)[0])
    feeds = {"m": np.array(3), "x": normal(4), "s": normal(4)}
    nodes = [constant("c", True), node("Loop", "m c s", "y rows", body=powers())]
    with pytest.raises(UserError, match="expected the number of iterations to be constant"):
        import_model(model(nodes, feeds, {"y": T.FLOAT, "rows": T.FLOAT}))


def test_open_sizes_round_regions():
    """Rows and what is carried on have sizes that a call says; limits and conditions are data."""
    feeds = {"s": normal(3), "x": normal(30, 3), "k": normal(3)}
    proto = model(
        [node("Scan", "s x", "t y", body=cumulative(), num_scan_inputs=1)], feeds, {"t": T.FLOAT, "y": T.FLOAT}
    )
    opened(proto, x0="L", s0="N", x1="N", k0="N")
    sizes = [(30, 3), (1, 7), (5, 1)]
    compiled(proto, *({"s": normal(n), "x": normal(m, n), "k": normal(n)} for m, n in sizes))


def test_branches_of_open_sizes():
    then, other = (
        H.make_graph([node(op, "x k", name)], name, [], [value(name, T.FLOAT, None)])
        for op, name in [("Add", "o"), ("Mul", "p")]
    )
    feeds = {"x": normal(30, 3), "k": normal(3), "c": np.array(True)}
    proto = model([node("If", "c", "y", then_branch=then, else_branch=other)], feeds, {"y": T.FLOAT})
    cases = [(n, np.array(c)) for n in (30, 1) for c in (True, False)]
    compiled(opened(proto, x0="N"), *({"x": normal(n, 3), "k": normal(3), "c": c} for n, c in cases))


def sized_loop(condition):
    """A loop of as many iterations as x has rows."""
    body = H.make_graph(
        [node("Add", "s k", "t"), *condition, node("Identity", "t", "r")],
        "body",
        [value("i", T.INT64, []), value("c", T.BOOL, []), value("s", T.FLOAT, None)],
        [value("more", T.BOOL, []), value("t", T.FLOAT, None), value("r", T.FLOAT, None)],
    )
    sized = [node("Shape", "x", "shape"), constant("zero", np.array(0)), node("Gather", "shape zero", "n")]
    started = [constant("axes", np.array([0])), constant("true", np.array(True))]
    nodes = [*sized, *started, node("ReduceSum", "x axes", "s0", keepdims=0)]
    feeds = {"x": normal(30, 3), "k": normal(3)}
    proto = model([*nodes, node("Loop", "n true s0", "y rows", body=body)], feeds, {"y": T.FLOAT, "rows": T.FLOAT})
    return opened(proto, x0="N")


def test_as_many_iterations_as_a_size_says():
    cases = ({"x": normal(n, 3), "k": normal(3)} for n in (30, 1, 7))
    compiled(sized_loop([node("Identity", "c", "more")]), *cases)


@pytest.mark.parametrize("limit", [5, 0, -1])
def test_iterations_of_an_open_number_end_early(limit):
    """What a pass leaves behind is masked; the rows are those of the iterations that there were."""
    ends = [constant("limit", np.array(limit)), node("Less", "i limit", "more")]
    compiled(sized_loop(ends), *({"x": normal(n, 3), "k": normal(3)} for n in (30, 1, 7)))


def branching(then, other, condition=(), **inputs):
    """An If of two lists of nodes whose results are called y; its condition is the input c, if no nodes make it."""
    graphs = [H.make_graph(nodes, name, [], [value("y", T.FLOAT, None)]) for nodes, name in ((then, "t"), (other, "e"))]
    last = node("If", "c", "z", name="if", then_branch=graphs[0], else_branch=graphs[1])
    feeds = inputs if condition else {**inputs, "c": np.array(True)}
    return opened(model([*condition, last, node("Tanh", "z", "w")], feeds, {"w": T.FLOAT}), x0="N")


ROWS_ABOVE_HALF = [
    constant("half", np.array(0.5, np.float32)),
    node("ReduceMax", "x", "r", axes=[1], keepdims=0),
    node("Greater", "r half", "m"),
    node("Compress", "x m", "y", axis=0),
]


NO_ROWS = [constant("none", np.array([0, 3])), node("ConstantOfShape", "none", "y")]


@pytest.mark.parametrize("other", [[node("Exp", "x", "y")], ROWS_ABOVE_HALF, NO_ROWS], ids=["size", "count", "none"])
def test_branches_of_different_sizes(other):
    """The result has room for the longer one, and a count; of no elements none is read."""
    proto = branching([node("Concat", "x x", "y", axis=0)], other, x=normal(30, 3))
    compiled(proto, *({"x": normal(n, 3), "c": np.array(c)} for n in (30, 1, 7) for c in (True, False)))
    if other is NO_ROWS:
        assert "graph.take" not in str(import_model(proto).module)


def test_sizes_choose_a_branch():
    """Of more than ten rows the first ten; the comparison is made when the model runs, unless a range decides it."""
    ends = [constant(name, np.array([k])) for name, k in (("zero", 0), ("ten", 10))]
    condition = [
        node("Shape", "x", "s"),
        *ends,
        node("Slice", "s zero one zero", "n"),
        node("Greater", "n ten", "more"),
    ]
    condition = [constant("one", np.array([1])), *condition, node("Squeeze", "more zero", "c")]
    first = [node("Slice", "x zero ten zero", "y")]
    proto = branching(first, [node("Neg", "x", "y")], condition, x=normal(30, 3))
    compiled(proto, *({"x": normal(n, 3)} for n in (9, 10, 11, 30)))
    decided = import_model(proto, symbols={"N": (11, 99)})
    assert "graph.if" not in str(decided.module)


def test_a_branch_for_one_size_is_refused():
    """What PyTorch writes for `squeeze`: of another rank where the size is 1."""
    condition = [constant("at", np.array([0])), node("Shape", "x", "s"), node("Gather", "s at", "n")]
    condition += [constant("one", np.array([1])), node("Equal", "n one", "same"), node("Squeeze", "same at", "c")]
    proto = branching([node("Squeeze", "x at", "y")], [node("Neg", "x", "y")], condition, x=normal(30, 3))
    with pytest.raises(UserError, match=r"expected sizes that compare .*, but got N and 1, and if/then/.*give ranges"):
        import_model(proto)
    compiled(proto, {"x": normal(7, 3)}, symbols={"N": (2, 99)})


# --- recurrent layers --------------------------------------------------------------------------------------------

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def recurrent(op, length=9, batch=2, size=5, hidden=6, direction="forward", **options):
    """A layer, all inputs but the first constant; `options` are lens, states and peep, and its attributes."""
    lens, states, peep = (options.pop(name, False) for name in ("lens", "states", "peep"))
    both = 2 if direction == "bidirectional" else 1
    rows = GATES[op] * hidden
    arrays = {"W": (both, rows, size), "R": (both, rows, hidden), "B": (both, 2 * rows)}
    given = {name: normal(*shape) * 0.3 for name, shape in arrays.items()}
    names = ["X", "W", "R", "B"]
    if lens:
        given["lens"] = RNG.integers(1, length + 1, batch).astype(np.int32)
    names.append("lens" if lens else "")
    if states:
        for state in ("h0", "c0")[: 2 if op == "LSTM" else 1]:
            given[state] = normal(both, batch, hidden)
            names.append(state)
    if peep:
        given["P"] = normal(both, 3 * hidden)
        names.append("P")
    outputs = ["Y", "Yh", "Yc"][: 3 if op == "LSTM" else 2]
    layer = H.make_node(op, names, outputs, hidden_size=hidden, direction=direction, **options)
    feeds = {"X": normal(length, batch, size)}
    return model([*(constant(n, a) for n, a in given.items()), layer], feeds, dict.fromkeys(outputs, T.FLOAT)), feeds


RECURRENT = {
    **{op: (op, {}) for op in GATES},
    **{f"{op}-both": (op, {"direction": "bidirectional", "lens": True, "states": True}) for op in GATES},
    "reverse": ("GRU", {"direction": "reverse", "linear_before_reset": 1}),
    "peepholes": ("LSTM", {"states": True, "peep": True}),
    "clip": ("LSTM", {"clip": 0.2, "activations": ["HardSigmoid", "Tanh", "Softplus"]}),
    "short": ("LSTM", {"length": 3}),
}


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers(name):
    op, options = RECURRENT[name]
    proto, feeds = recurrent(op, **dict(options))
    assert ("graph.scan" in ops_of(proto)) == (name != "short")
    compiled(proto, feeds)


@pytest.mark.parametrize("op", ["LSTM", "GRU"])
def test_recurrent_layers_of_any_length_and_batch(op):
    proto, _ = recurrent(op, direction="bidirectional")
    compiled(opened(proto, X0="T", X1="B"), *({"X": normal(t, b, 5)} for t, b in [(9, 2), (1, 1), (33, 5)]))


def test_a_step_has_packed_weights_and_few_kernels():
    """Weights are folded in the region: a step is a product and the two states' pointwise kernels."""
    exe = mlc.compile(recurrent("LSTM", size=64, hidden=64)[0], threads=1, cache=False)
    kernels = [n["kernel"].rpartition("_")[0] for n in exe.artifact.model["nodes"]]
    assert [k for k in kernels if k != "copy"][1:] == [
        "dense_add",
        "slice_sigmoid_slice_sigmoid_multiply_slice_tanh_multiply_add",
        "slice_sigmoid_tanh_multiply",
    ]
    panel = 2 * native_target().lanes("f32")
    packed = [v for v in exe.artifact.model["values"] if v["storage"] == "weights" and v["shape"][1:] == [64, panel]]
    assert len(packed) == 2
